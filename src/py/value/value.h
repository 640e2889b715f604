/* value.h - values: their kinds, Python objects as bytes and back, arrays and record batches in the
 * store; and references, which are values, too.
 *
 * A reader of a value can never write to it through anything here. Copies over 64 KiB are made
 * without the GIL. */
#ifndef SK_PY_VALUE_H
#define SK_PY_VALUE_H

#include "exec/args.h"
#include "exec/exec.h"
#include "py/core/core.h"
#include "shuffle/task.h"

/* Kinds of values, which engine/value.h leaves to this layer. 0x20 to 0x4f belong to exec/args.h.
 */
enum {
    PY_NONE = 1,
    PY_TRUE,
    PY_FALSE,
    PY_INT,   /* i64 */
    PY_FLOAT, /* double */
    PY_STR,   /* UTF-8 */
    PY_BYTES,
    PY_PICKLE, /* a pickle, nothing else */
    /* u32 n_buffers, u32 0, u64 pickle_len, n x (u64 offset, u64 len), pickle, 64-aligned
     * buffers */
    PY_PICKLE_OOB,
    /* u32 struct character of the item, u32 ndim, i64 shape[ndim]; data at the next multiple of 64;
     * C order */
    PY_NDARRAY,
    /* first argument of a call: u32 n, n strings; the last n arguments have these names */
    PY_KWNAMES = 0x10,
    PY_BLOCK = SK_KIND_BLOCK,
    PY_PACK = SK_KIND_PACK,
    /* the exception that user code raised, pickled by the dumps_error hook */
    PY_ERROR = SK_KIND_ERROR + 1,
    PY_INIT_ERROR = SK_KIND_ERROR + 2, /* the same for an exception in an actor's constructor */
};

/* ---- ref.c */
#define PY_OF_METHOD (1ull << 63) /* flag in py_ref.task: the task is a call of an actor */
struct py_ref {
    PyObject_HEAD uint64_t id, task;
    uint32_t gen; /* generation number of the engine; 0: the reference was made from bytes */
    union {
        struct py_ref *next; /* next in the free list */
        void *foreign;       /* gen 0: the 28 bytes */
    };
};
/* Makes an ObjectRef; takes the counted reference to `id` over, also on failure. */
PyObject *py_ref_new(struct py_state *st, sk_oid id, sk_tid task);
static inline bool py_ref_check(struct py_state *st, PyObject *o) {
    return Py_TYPE(o) == st->ref_type;
}
int py_ref_types(PyObject *module, struct py_state *st);
/* True if the reference belongs to the open engine; else false with RaySystemError. */
bool py_ref_alive(struct py_state *st, PyObject *ref);

/* py_result_check: true for a result of a compiled graph. py_result_object: the ObjectRef that
 * it becomes, borrowed from it; NULL with an exception. */
static inline bool py_result_check(const struct py_state *st, PyObject *o) {
    return st->result_type && Py_TYPE(o)->tp_base == st->result_type;
}
PyObject *py_result_object(PyObject *result);

/* ---- token.c */
/* Makes an ActorToken; takes the counted handle of the actor over, also on failure. */
PyObject *py_token_new(struct py_state *st, uint64_t aid, PyObject *ready);
PyObject *py_token_weak(struct py_state *st, uint64_t aid);
PyObject *py_restore_token(struct py_state *st, uint64_t aid, PyObject *ready);
/* True if the handle belongs to the open engine; else false with RaySystemError. */
bool py_token_alive(struct py_state *st, PyObject *token);
sk_aid py_token_actor(PyObject *token);
int py_token_types(PyObject *module, struct py_state *st);

/* ---- collector.c */
/* References found while a value is pickled on this thread. The collector owns them, because a
 * __getstate__ may make an ObjectRef and drop it at once. */
struct py_collector {
    SK_VEC(PyObject *) refs;
    SK_VEC(sk_oid) ids; /* py_collector_ids */
    struct py_collector *outer;
};
void py_collector_push(struct py_collector *c);
void py_collector_pop(struct py_collector *c);
int py_collector_add(struct py_state *st, PyObject *ref); /* -1 with an exception */
/* True if ObjectRefs may be pickled only inside values that skate encodes (a setting of Ray). */
bool py_ref_strict(void);
void py_collector_cut(struct py_collector *c, uint32_t n); /* drops all but the first n */
void py_collector_free(struct py_collector *c);
/* Returns the ids of the collected references from number `from` on; valid until the collector
 * changes next. NULL with MemoryError. */
const sk_oid *py_collector_ids(struct py_collector *c, uint32_t from);

/* ---- encode.c: values in */
/* state of a value that consists of several parts */
struct py_encx;
/* A source of memory for values, instead of the engine's store. */
struct py_into {
    /* gives n bytes of memory in *out; called without the GIL */
    sk_rc (*room)(struct py_into *in, size_t n, uint8_t **out, struct sk_err *err);
    /* result of room(), for the caller after an encoding that failed */
    sk_rc rc;
};
struct py_enc {
    uint32_t kind;
    const void *p; /* the bytes, if they are one piece of memory and not in buf */
    size_t n;      /* total length */
    uint64_t scalar;
    struct py_encx *x;
    struct sk_buf buf; /* has_buf: the value is in this buffer of the engine of generation `gen` */
    uint32_t gen;
    bool has_buf, is_there; /* is_there: the value is in memory of `into` */
    struct py_into *into;   /* memory to encode into; NULL: the engine's */
    struct sk_view *keep;   /* for a block with has_buf: see sk_payload */
};
/* Encodes `v`, borrowing from it: v must live until py_enc_done. Values over SK_INLINE_MAX go into
 * a buffer of the engine. */
int py_encode(struct py_state *st, PyObject *v, struct py_enc *e, struct py_collector *c);
/* Like py_encode, but into memory of `in`, also for small values. */
int py_encode_into(struct py_state *st, PyObject *v, struct py_enc *e, struct py_collector *c,
                   struct py_into *in);
/* Makes a payload of the value, which contains the references that c collected from number `from`
 * on (c NULL: none). The engine call that gets the payload takes the buffer over; the caller then
 * calls py_enc_taken. -1 with MemoryError: e is freed. */
int py_enc_payload(struct py_state *st, struct py_enc *e, struct py_collector *c, uint32_t from,
                   struct sk_payload *out);
static inline void py_enc_taken(struct py_enc *e) { e->has_buf = false; }
void py_enc_done(struct py_state *st, struct py_enc *e);

/* ---- decode.c: values out */
struct py_keep { /* how py_decode makes a view outlive the call */
    /* the task whose argument `arg` the view is; NULL: the view itself is taken over */
    struct sk_task *task;
    /* not NULL: this object keeps the bytes alive, and the view is not taken over */
    PyObject *owner;
    uint32_t arg;
    bool taken;
};
PyObject *py_decode(struct py_state *st, const struct sk_view *v, struct py_keep *k);
/* Adds the types StageNode, StageTask, ...: the arguments of a stage's tasks. */
int py_decode_types(PyObject *module, struct py_state *st);

/* ---- pickle.c */
/* Pickles v. *own: the pickle; *bufs: a list of its PickleBuffers. Both are NULL on entry;
 * afterwards they belong to the caller, whatever the result. */
int py_dump(struct py_state *st, PyObject *v, PyObject **own, PyObject **bufs,
            struct py_collector *c);
/* Unpickles data; buffers: its out-of-band buffers, or NULL. */
PyObject *py_loads(struct py_state *st, PyObject *data, PyObject *buffers);

/* ---- buf.c */
/* Makes a _Buf over read-only bytes of `base`, which it keeps alive. */
PyObject *py_buf_new(struct py_state *st, const uint8_t *p, size_t n, PyObject *base);
/* Makes a _Buf over the whole value. */
PyObject *py_buf_of_view(struct py_state *st, const struct sk_view *v, struct py_keep *k);
int py_buf_types(PyObject *module, struct py_state *st);

/* ---- copy.c */
#define PY_BIG_COPY (64u << 10) /* copies over this are made without the GIL */
/* Copies n bytes. e: the engine in whose store dst lies; NULL: dst is elsewhere. With or without
 * the GIL; a driver uses two threads for large copies. */
void py_copy(struct py_state *st, struct sk_engine *e, void *dst, const void *src, size_t n);
/* Makes missing pages of [dst, dst+n) in the store present, as huge pages, before the range is
 * written. With or without the GIL. */
void py_warm(struct sk_engine *e, void *dst, size_t n);

/* ---- ndarray.c */
/* True if the program has imported NumPy; sets st->ndarray. */
bool py_ndarray_type(struct py_state *st);

/* Returns the struct module's character of a plain number, with complex as D, F, G; 0: another
 * format. */
char py_number_char(const char *format);
/* Writes the head of a PY_NDARRAY for `b`, of at most 32 axes; returns its length. The data
 * begins at the next multiple of 64. */
size_t py_ndarray_head(const Py_buffer *b, char c, uint8_t *out);

/* ---- store_array.c: arrays made in the store. Each call returns 1: v is exactly one such array;
 * 0: v is not, so it has to be encoded; -1: exception */
/* Puts the array; *out: a counted reference to its object. */
int py_store_array_put(struct py_state *st, PyObject *v, sk_oid *out);
int py_store_array_send(struct py_state *st, PyObject *v, struct sk_task *t, uint32_t i,
                        bool yields, sk_rc *rc, struct sk_err *err);
int py_store_array_types(PyObject *module, struct py_state *st);
extern PyMethodDef py_store_array_methods[];

/* ---- npmem.c: arrays that NumPy makes in the store */
struct py_npmem_counts {
    uint64_t leased, placed, refused;
};
/* True if the block of the plan was written around an array that is in the store already. *out: the
 * buffer that holds it; *keep: where the engine stores the writer's view of the block (sk_payload).
 * The caller holds the array. */
bool py_npmem_place(struct py_state *st, const struct sk_block_plan *plan, struct sk_buf *out,
                    struct sk_view **keep);
void py_npmem_forget(void); /* called in the child of a fork */
void py_npmem_end(void);    /* called when the module is freed; arrays may still be alive */
extern PyMethodDef py_npmem_methods[];

/* ---- cow_pages.c: bytes of an object as writable memory */
int py_cow_pages_types(PyObject *module, struct py_state *st);
extern PyMethodDef py_cow_pages_methods[];

/* ---- block.c: Arrow record batches, and what a streaming task of a pipeline yields */
int py_block_encode(struct py_state *st, PyObject *batch, struct py_enc *e,
                    struct sk_block_sizes *size);
int py_block_measure(struct py_state *st, PyObject *batch, struct sk_block_sizes *size);
PyObject *py_block_decode(struct py_state *st, const struct sk_view *v, struct py_keep *k);
int py_block_types(PyObject *module, struct py_state *st);
/* Decodes a pack, or a part of one: a buffer over its bytes. */
PyObject *py_pack_decode(struct py_state *st, const struct sk_view *v, struct py_keep *k);
extern PyMethodDef py_block_methods[];

/* Writes the note of a BlockOut; returns the note's length in bytes. */
size_t py_blockout_note(PyObject *out, struct sk_block_sizes size, union sk_yield_note *note);
/* Makes a BlockOut of an exchange's value, which is taken over, also on failure. owner: the object
 * into which the value's plans point. */
PyObject *py_blockout_new(struct py_state *st, struct sk_value *value, PyObject *owner);
/* The Arrow structs of a batch. Returns a new tuple of two capsules that keeps both structs. */
PyObject *py_batch_structs(struct py_state *st, PyObject *batch, struct ArrowSchema **schema,
                           struct ArrowArray **array);
/* Makes the RecordBatch of the block in `buf`, which is taken over; NULL if `buf` is NULL. */
PyObject *py_batch_in(struct py_state *st, PyObject *buf);
/* Writes the block of a plan into private memory of this process and returns its RecordBatch. */
PyObject *py_batch_of_plan(struct py_state *st, const struct sk_block_plan *plan, uint64_t size);
/* Makes a RecordBatch over a block in the bytes of `owner`. */
PyObject *py_block_of(struct py_state *st, PyObject *owner, const uint8_t *p, size_t n);

#endif
