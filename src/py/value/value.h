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
    /* user code raised: the exception, pickled by the dumps_error hook */
    PY_ERROR = SK_KIND_ERROR + 1,
    PY_INIT_ERROR = SK_KIND_ERROR + 2, /* the same in an actor's constructor */
};

/* ---- ref.c */
#define PY_OF_METHOD (1ull << 63) /* flag in py_ref.task: it is a call of an actor */
struct py_ref {
    PyObject_HEAD uint64_t id, task;
    uint32_t gen; /* generation number of the engine; 0: the reference was made from bytes */
    union {
        struct py_ref *next; /* next in the free list */
        void *foreign;       /* gen 0: the 28 bytes */
    };
};
/* takes the counted reference over, also on failure */
PyObject *py_ref_new(struct py_state *st, sk_oid id, sk_tid task);
static inline bool py_ref_check(struct py_state *st, PyObject *o) {
    return Py_TYPE(o) == st->ref_type;
}
int py_ref_types(PyObject *module, struct py_state *st);
/* true if the reference is of the open engine; else false with RaySystemError */
bool py_ref_alive(struct py_state *st, PyObject *ref);

/* py_result_check: true for a result of a compiled graph. py_result_object: the ObjectRef that
 * it becomes, borrowed from it; NULL with an exception. */
static inline bool py_result_check(const struct py_state *st, PyObject *o) {
    return st->result_type && Py_TYPE(o)->tp_base == st->result_type;
}
PyObject *py_result_object(PyObject *result);

/* ---- token.c */
/* takes a counted handle over, also on failure */
PyObject *py_token_new(struct py_state *st, uint64_t aid, PyObject *ready);
PyObject *py_token_weak(struct py_state *st, uint64_t aid);
PyObject *py_restore_token(struct py_state *st, uint64_t aid, PyObject *ready);
/* true if the handle is of the open engine; else false with RaySystemError */
bool py_token_alive(struct py_state *st, PyObject *token);
sk_aid py_token_actor(PyObject *token);
int py_token_types(PyObject *module, struct py_state *st);

/* ---- collector.c */
/* References found while a value is pickled on this thread. They are strong, since a
 * __getstate__ may make one and drop it. */
struct py_collector {
    SK_VEC(PyObject *) refs;
    SK_VEC(sk_oid) ids; /* py_collector_ids */
    struct py_collector *outer;
};
void py_collector_push(struct py_collector *c);
void py_collector_pop(struct py_collector *c);
int py_collector_add(struct py_state *st, PyObject *ref); /* -1 with an exception */
/* true if references may be pickled only where they are counted */
bool py_ref_strict(void);
void py_collector_cut(struct py_collector *c, uint32_t n); /* drops all but the first n */
void py_collector_free(struct py_collector *c);
/* The ids from number `from` on; valid until the collector changes next. NULL with MemoryError. */
const sk_oid *py_collector_ids(struct py_collector *c, uint32_t from);

/* ---- encode.c: values in */
/* state of a value that consists of several parts */
struct py_encx;
/* A source of memory for values, other than the engine's store: */
struct py_into {
    /* returns room for n bytes; called without the GIL */
    sk_rc (*room)(struct py_into *in, size_t n, uint8_t **out, struct sk_err *err);
    /* the result code of room(), for the caller when encoding fails */
    sk_rc rc;
};
struct py_enc {
    uint32_t kind;
    const void *p; /* the bytes, when they are in one piece and not in buf */
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
/* Makes a payload of the value, which contains the references that c collected from number
 * `from` on (c NULL: none). The call that gets the payload takes buf: call py_enc_taken then. -1
 * with MemoryError: e is done. */
int py_enc_payload(struct py_state *st, struct py_enc *e, struct py_collector *c, uint32_t from,
                   struct sk_payload *out);
static inline void py_enc_taken(struct py_enc *e) { e->has_buf = false; }
void py_enc_done(struct py_state *st, struct py_enc *e);

/* ---- decode.c: values out */
struct py_keep {          /* how a view can be kept longer than the call */
    struct sk_task *task; /* NULL: the view itself may be taken */
    /* not NULL: this object keeps the bytes alive, and the view is left alone */
    PyObject *owner;
    uint32_t arg;
    bool taken;
};
PyObject *py_decode(struct py_state *st, const struct sk_view *v, struct py_keep *k);
/* StageNode, StageTask, ...: the arguments of a stage's tasks */
int py_decode_types(PyObject *module, struct py_state *st);

/* ---- pickle.c */
/* Pickles v. *own: the pickle; *bufs: a list of its PickleBuffers. Both are NULL on entry;
 * afterwards they belong to the caller, whatever the result. */
int py_dump(struct py_state *st, PyObject *v, PyObject **own, PyObject **bufs,
            struct py_collector *c);
/* buffers NULL: there are none */
PyObject *py_loads(struct py_state *st, PyObject *data, PyObject *buffers);

/* ---- buf.c */
/* read-only bytes of another object, `base` */
PyObject *py_buf_new(struct py_state *st, const uint8_t *p, size_t n, PyObject *base);
/* A read-only buffer object over the whole value. */
PyObject *py_buf_of_view(struct py_state *st, const struct sk_view *v, struct py_keep *k);
int py_buf_types(PyObject *module, struct py_state *st);

/* ---- copy.c */
#define PY_BIG_COPY (64u << 10) /* copies over this are made without the GIL */
/* Copies. e: the engine whose store dst is in; NULL elsewhere. With or without the GIL; a driver
 * uses two threads for large copies. */
void py_copy(struct py_state *st, struct sk_engine *e, void *dst, const void *src, size_t n);
/* [dst, dst+n) of the store is about to be written: makes missing pages present, as huge pages.
 * With or without the GIL. */
void py_warm(struct sk_engine *e, void *dst, size_t n);

/* ---- ndarray.c */
/* true if the program has imported numpy; sets st->ndarray */
bool py_ndarray_type(struct py_state *st);

/* The struct module's character of a plain number, with complex as D, F, G; 0: another format. */
char py_number_char(const char *format);
/* Writes the head of a PY_NDARRAY for `b`, of at most 32 axes; returns its length. The data
 * begins at the next multiple of 64. */
size_t py_ndarray_head(const Py_buffer *b, char c, uint8_t *out);

/* ---- store_array.c: arrays made in the store. Each call returns 1: v is exactly one such array;
 * 0: v is not, so it has to be encoded; -1: exception */
/* *out: a reference to the object of the array */
int py_store_array_put(struct py_state *st, PyObject *v, sk_oid *out);
int py_store_array_send(struct py_state *st, PyObject *v, struct sk_task *t, uint32_t i,
                        bool yields, sk_rc *rc, struct sk_err *err);
int py_store_array_types(PyObject *module, struct py_state *st);
extern PyMethodDef py_store_array_methods[];

/* ---- npmem.c: arrays that NumPy makes in the store */
struct py_npmem_counts {
    uint64_t leased, placed, refused;
};
/* True if the block of the plan was written around an array that is in the store already. *out:
 * the buffer that holds it; *keep: where the writer's view of it goes (sk_payload). GIL held;
 * the caller holds the array. */
bool py_npmem_place(struct py_state *st, const struct sk_block_plan *plan, struct sk_buf *out,
                    struct sk_view **keep);
void py_npmem_forget(void); /* called in the child of a fork */
void py_npmem_end(void);    /* called at the end of the module; arrays may live on */
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
/* The bytes of a pack, or of a part of one. */
PyObject *py_pack_decode(struct py_state *st, const struct sk_view *v, struct py_keep *k);
extern PyMethodDef py_block_methods[];

/* writes the note of an output; returns its length */
size_t py_blockout_note(PyObject *out, struct sk_block_sizes size, union sk_yield_note *note);
/* takes the value over, also on failure */
PyObject *py_blockout_new(struct py_state *st, struct sk_value *value, PyObject *owner);
/* The Arrow structs of a batch. Returns a new tuple of two capsules that keeps both structs. */
PyObject *py_batch_structs(struct py_state *st, PyObject *batch, struct ArrowSchema **schema,
                           struct ArrowArray **array);
/* the RecordBatch in `buf`, which is taken over and may be NULL */
PyObject *py_batch_in(struct py_state *st, PyObject *buf);
/* The batch of a plan, in private memory of this process. */
PyObject *py_batch_of_plan(struct py_state *st, const struct sk_block_plan *plan, uint64_t size);
/* a RecordBatch over a block in the bytes of `owner` */
PyObject *py_block_of(struct py_state *st, PyObject *owner, const uint8_t *p, size_t n);

#endif
