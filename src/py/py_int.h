/* py_int.h - shared inside the Python layer: module state, the kinds of values, and one line about every function.
 *
 * Everything here runs with the GIL held unless it says otherwise. The engine's lock is never held while the GIL is waited for, so engine
 * calls may be made with the GIL held; it is dropped (PY_DROP .. PY_TAKE) around those that can block and around copies over 64 KiB. */
#ifndef SK_PY_INT_H
#define SK_PY_INT_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <semaphore.h>

#include "base/base.h"
#include "base/err.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/vec.h"
#include "engine/actors.h"
#include "engine/conf.h"
#include "engine/custom.h"
#include "engine/engine.h"
#include "engine/envs.h"
#include "engine/groups.h"
#include "engine/guest.h"
#include "engine/host.h"
#include "engine/state.h"
#include "engine/streams.h"
#include "engine/usage.h"
#include "engine/watch.h"
#include "engine/windows.h"
#include "engine/worker.h"

/* Kinds of values (value.h leaves them to us). 0x40.. belongs to exec.h. */
enum {
    PY_NONE = 1,
    PY_TRUE,
    PY_FALSE,
    PY_INT,   /* i64 */
    PY_FLOAT, /* double */
    PY_STR,   /* UTF-8 */
    PY_BYTES,
    PY_PICKLE,         /* a pickle, nothing else */
    PY_PICKLE_OOB,     /* u32 n_buffers, u32 0, u64 pickle_len, n x (u64 offset, u64 len), pickle, 64-aligned buffers */
    PY_NDARRAY,        /* u32 struct character of the item, u32 ndim, i64 shape[ndim]; data at the next multiple of 64; C order */
    PY_KWNAMES = 0x10, /* first argument of a call: u32 n, n strings; the last n arguments go by these names */
    PY_BLOCK = 0x20,   /* block.h */
    PY_PACK = 0x21,    /* several, one behind the other: exec.h */
    PY_ERROR = SK_KIND_ERROR + 1,      /* user code raised: pickled by the dumps_error hook */
    PY_INIT_ERROR = SK_KIND_ERROR + 2, /* the same in an actor's constructor */
};

#define PY_HOOKS(X)  \
    X(dumps)         \
    X(dumps_error)   \
    X(load_error)    \
    X(load_block)    \
    X(merge)         \
    X(dump_function) \
    X(load_function) \
    X(note)          \
    X(after_fork)    \
    X(auto_init)     \
    X(run_coroutine) \
    X(serve_async)   \
    X(start_async) X(leave) X(apply_env) X(set_gpus) X(check_call) X(ref_await) X(ref_future) X(idle) X(named) X(prints) X(task_over)

struct py_ref;
struct py_exec;
struct sk_block_sizes;
struct sk_plan;
struct sk_block_plan;

struct py_state {
    struct sk_engine *engine; /* NULL: none open */
    uint32_t gen;             /* of the engine; refs of an older one are dead */
    uint32_t n_inside;        /* threads that are in the engine without the GIL */
    bool closing, driver, worker;
    struct sk_prints *prints; /* in a driver: what its workers print; NULL: they do it themselves */
    bool stray;               /* user code forked this process from a worker (ipc/stray.c); `worker` is set as well */
    pid_t forked_from;        /* the worker or driver from which user code forked this process, or one that it comes from; 0: none */
    sem_t all_out;            /* posted by the last thread that leaves while closing */
    PyObject *module;
    PyTypeObject *room_type, *own_type, *states_type;
    uint32_t n_rooms; /* living: while there is none no array is looked at */
    PyTypeObject *message_type, *graph_type;
    PyTypeObject *result_type; /* skate.dag's class of results, whose subclasses can be arguments; NULL: nobody has compiled a graph */
    PyThread_type_lock turn;   /* of the actor of this process; NULL: no graph's loop runs methods beside its calls */
    PyTypeObject *ref_type, *gen_type, *buf_type, *template_type, *token_type, *blockout_type, *work_type, *join_type, *plan_type,
        *exec_type, *front_iter_type, *rows_type, *memory_type, *planned_type;
    struct py_ref *free_refs;
    uint32_t n_free_refs;
#define X(n) PyObject *hook_##n;
    PY_HOOKS(X)
#undef X
    PyObject *exceptions; /* skate.exceptions */
    PyObject *home;       /* folder of the package, with its slash; NULL: not asked yet */
    PyObject *pinned;     /* set of refs that were pickled by hand; NULL: none */
    PyObject *pickle_dumps, *pickle_loads;
    PyObject *kw_buffer_callback, *kw_buffers, *int5, *s_append, *s_arrow_c_array;
    PyObject *ctx_task;                                 /* context variable: the running task of a coroutine */
    PyObject *restore_ref, *restore_token, *weak_token; /* functions of this module, named in pickles */
    PyTypeObject *ndarray;                              /* NULL until numpy is imported by somebody */
    struct {
        PyObject *path, *environ; /* of the driver; NULL: not asked for */
        PyObject *sys, *s_path;   /* where sys.path is looked up: a program may put another list there */
        Py_ssize_t path_n, environ_n;
        uint32_t tick;     /* how often they were seen to be others */
        uint32_t content;  /* number of what there is, the same for the same (surroundings.py); in a worker: of what it has put on */
        uint32_t arrived;  /* in a worker: that of the definition that was loaded last; 0: it came without */
    } around;              /* see py_template_is_prepared() */
    PyObject *dtype[128];  /* by struct character */
    struct py_exec *execs; /* runs that are not stopped */
    int64_t garbage_ns;    /* no wait looks for garbage before (py_garbage.c) */
    struct sk_runner runner;
    struct sk_map fns;     /* fid -> py_fn */
    struct sk_map actors;  /* aid -> instance (a reference) */
    uint64_t failed_actor; /* the last actor whose constructor failed here, and its error */
    uint32_t failed_kind;
    void *failed_error;
    size_t failed_n;
};

extern struct PyModuleDef py_module_def;
static inline struct py_state *py_state_of(PyTypeObject *t) { return PyType_GetModuleState(t); }

/* Around engine calls that can block. The state stays open meanwhile: shutdown waits for n_inside. */
#define PY_DROP(st)       \
    {                     \
        (st)->n_inside++; \
        PyThreadState *py_ts_ = PyEval_SaveThread();
#define PY_TAKE(st)                                                       \
    PyEval_RestoreThread(py_ts_);                                         \
    if (--(st)->n_inside == 0 && (st)->closing) sem_post(&(st)->all_out); \
    }

/* An error on the stack without clearing its kilobyte. */
#define PY_ERR(name)    \
    struct sk_err name; \
    name.code = 0;      \
    name.msg[0] = 0

/* ---- py_state.c */
uint8_t *py_state_rows(struct py_state *st, enum sk_state_what what, size_t *len); /* as of state.h; sk_free. NULL with an exception */

/* ---- py_garbage.c */
/* Of a wait that began then (CLOCK_MONOTONIC), with the GIL: handlers of signals run, and from time to time the garbage collector. -1 with an exception. */
int py_between_slices(struct py_state *st, int64_t began_ns);

/* ---- py_open.c */
int py_ensure(struct py_state *st); /* an engine is open (opens the default one in a driver): 0, or -1 with an exception */

/* Code of the user's (a __reduce__, another thread while the GIL was free) may have shut the engine down: to be asked again after it ran. */
static inline bool py_open(const struct py_state *st, uint32_t gen) { return st->engine && st->gen == gen && !st->closing; }
bool py_gone(struct py_state *st, uint32_t gen);                                         /* it is not open any more; with an exception */
static inline void py_view_release(struct py_state *st, uint32_t gen, struct sk_view *v) /* a closed engine has no views */
{
    if (SK_LIKELY(py_open(st, gen))) st->engine->ops->view_release(st->engine, v);
}

/* ---- py_conf.c */
struct py_conf { /* everything that sk_engine_conf points to */
    struct sk_engine_conf c;
    const struct sk_engine_class *cls;
    struct sk_guest guest;
    const char **argv, **env, **dirs, **names;
    int64_t *more;
};
int py_conf_read(struct py_conf *k, struct py_state *st,
                 PyObject *dict); /* borrows from the dict; -1 with an exception, and nothing to free */
void py_conf_free(struct py_conf *k);

/* ---- py_guest.c, py_guest_task.c: an engine that is written in Python, and what runs its tasks */
int py_guest_make(struct py_state *st, PyObject *engine, struct sk_guest *out);
int py_guest_types(PyObject *module, struct py_state *st);
extern PyMethodDef py_guest_methods[];

/* ---- py_err.c */
PyObject *py_text(const char *s); /* UTF-8 that may have been cut inside a character, as messages and names of a fixed size are */
PyObject *py_raise(struct py_state *st, sk_rc rc, const struct sk_err *err); /* always NULL */
PyObject *py_class(struct py_state *st, const char *name);                   /* of skate.exceptions; a new reference, or NULL */
void py_raise_class(struct py_state *st, const char *name, const char *msg);
void py_raise_value(struct py_state *st, const struct sk_view *v); /* raises what an error value says */
/* Moves the current exception into *err (for runner functions); clears it. */
sk_rc py_to_err(struct sk_err *err, const char *what);

/* ---- py_prints.c: what workers print */
struct sk_prints *py_prints_open(bool none); /* NULL with an exception */
void py_prints_show(struct py_state *st);    /* what was printed is shown; keeps an exception that is set */
/* Of a call that waits for tasks: what they printed is shown before it returns (or raises). r as it is. */
static inline PyObject *py_with_prints(struct py_state *st, PyObject *r) {
    if (SK_UNLIKELY(st->prints && sk_prints_due(st->prints))) py_prints_show(st);
    return r;
}
extern bool py_to_tidy;            /* in a worker: the task has begun a line that has no end, or has the terminal */
void py_tidy(struct py_state *st); /* when it ends; no exception is set */
extern PyMethodDef py_prints_methods[];

/* ---- py_title.c */
void py_title_init(void);
void py_title_set(const char *name, const char *suffix); /* nothing before init */

/* ---- py_front.c */
int py_front_types(PyObject *module, struct py_state *st);
void py_front_strip(struct py_state *st); /* takes skate's frames from the current exception, if it is one that is told to users */
PyObject *py_folder(struct py_state *st); /* the package's folder, with its slash: borrowed, NULL with an exception */

/* ---- py_ref.c */
#define PY_OF_METHOD (1ull << 63) /* in py_ref.task: a call of an actor */
struct py_ref {
    PyObject_HEAD uint64_t id, task;
    uint32_t gen; /* of the engine; 0: made of bytes */
    union {
        struct py_ref *next; /* in the free list */
        void *foreign;       /* gen 0: its 28 bytes */
    };
};
PyObject *py_ref_new(struct py_state *st, sk_oid id, sk_tid task); /* takes the reference, also when it fails */
static inline bool py_ref_check(struct py_state *st, PyObject *o) { return Py_TYPE(o) == st->ref_type; }
int py_ref_types(PyObject *module, struct py_state *st);
bool py_ref_alive(struct py_state *st, PyObject *ref); /* of the engine that is open; else false with RaySystemError */

/* ---- py_gen.c */
PyObject *py_gen_new(struct py_state *st, sk_tid task);
bool py_gen_stream(struct py_state *st, PyObject *gen, sk_tid *out); /* false: it was read to its end; or with an exception */
int py_gen_types(PyObject *module, struct py_state *st);

/* ---- py_collector.c */
/* References found while something is pickled on this thread. Strong: a __getstate__ may make one and drop it. */
struct py_collector {
    SK_VEC(PyObject *) refs;
    SK_VEC(sk_oid) ids; /* py_collector_ids */
    struct py_collector *outer;
};
void py_collector_push(struct py_collector *c);
void py_collector_pop(struct py_collector *c);
int py_collector_add(struct py_state *st, PyObject *ref);  /* -1 with an exception */
bool py_ref_strict(void);                                  /* references may be pickled only where they are counted */
void py_collector_cut(struct py_collector *c, uint32_t n); /* keeps the first n */
void py_collector_free(struct py_collector *c);
const sk_oid *py_collector_ids(struct py_collector *c, uint32_t from); /* the collector's until its next change; NULL with MemoryError */

/* ---- py_encode.c: values in */
struct py_encx;                                                                     /* what a value with several parts needs */
struct py_into {                                                                    /* other memory for values than that of the engine */
    sk_rc (*room)(struct py_into *in, size_t n, uint8_t **out, struct sk_err *err); /* without the GIL */
    sk_rc rc;                                                                       /* what it said, when encoding fails */
};
struct py_enc {
    uint32_t kind;
    const void *p; /* the bytes when they are in one piece and not in buf */
    size_t n;      /* length in all */
    uint64_t scalar;
    struct py_encx *x;
    struct sk_buf buf; /* has_buf: the value is there, in the engine `gen` */
    uint32_t gen;
    bool has_buf, is_there; /* is_there: it lies in memory of `into` */
    struct py_into *into;   /* or NULL */
    struct sk_view *keep;   /* of a block with has_buf: see sk_payload */
};
/* Encodes `v`, borrowing from it: v must live until py_enc_done. Values over SK_INLINE_MAX go into a buffer of the engine. */
int py_encode(struct py_state *st, PyObject *v, struct py_enc *e, struct py_collector *c);
/* The same into memory of `in`, small ones too. */
int py_encode_into(struct py_state *st, PyObject *v, struct py_enc *e, struct py_collector *c, struct py_into *in);
/* The value as a payload (buf is taken by the call that gets it: then call py_enc_taken) that contains what c collected from `from` on (c: NULL,
 * nothing). -1 with MemoryError: e is done. */
int py_enc_payload(struct py_state *st, struct py_enc *e, struct py_collector *c, uint32_t from, struct sk_payload *out);
static inline void py_enc_taken(struct py_enc *e) { e->has_buf = false; }
void py_enc_done(struct py_state *st, struct py_enc *e);

/* ---- py_ndarray.c */
bool py_ndarray_type(struct py_state *st); /* st->ndarray is set: somebody imported numpy */

/* The struct character of a plain number, complex as D, F, G; 0: another format. */
char py_number_char(const char *format);
/* Head of a PY_NDARRAY for `b`, of at most 32 axes: its length; the data begins at the next multiple of 64. */
size_t py_ndarray_head(const Py_buffer *b, char c, uint8_t *out);

/* ---- py_room.c: arrays made in the store. 1: v is one, whole; 0: it is not, encode it; -1: exception */
int py_room_put(struct py_state *st, PyObject *v, sk_oid *out); /* *out: a reference to its object */
int py_room_send(struct py_state *st, PyObject *v, struct sk_task *t, uint32_t i, bool yields, sk_rc *rc, struct sk_err *err);
int py_room_types(PyObject *module, struct py_state *st);
extern PyMethodDef py_room_methods[];

/* ---- py_npmem.c: arrays that NumPy makes in the store */
struct py_npmem_counts {
    uint64_t leased, placed, refused;
};
/* Whether the block of the plan was written around an array that is in the store: *out is the buffer that holds it, *keep where the writer's view of it goes (sk_payload). GIL
 * held or dropped; the caller holds the array. */
bool py_npmem_place(struct py_state *st, const struct sk_block_plan *plan, struct sk_buf *out, struct sk_view **keep);
void py_npmem_forget(void); /* in the child of a fork */
void py_npmem_end(void);    /* the module goes; arrays may live on */
extern PyMethodDef py_npmem_methods[];

/* ---- py_own.c: bytes of an object as memory that one may write */
int py_own_types(PyObject *module, struct py_state *st);
extern PyMethodDef py_own_methods[];

/* ---- py_rows.c: batches of other sizes, in order or shuffled */
int py_rows_types(PyObject *module, struct py_state *st);
extern PyMethodDef py_rows_methods[];

/* ---- py_copy.c */
#define PY_BIG_COPY (64u << 10) /* copies over this are made without the GIL */
/* e: the engine whose store dst is in, NULL elsewhere. GIL held or dropped; large ones by two threads in a driver. */
void py_copy(struct py_state *st, struct sk_engine *e, void *dst, const void *src, size_t n);
/* [dst, dst+n) of the store is about to be written: what is cold of it is fetched by huge pages. GIL held or dropped. */
void py_warm(struct sk_engine *e, void *dst, size_t n);

/* ---- py_pickle.c */
/* *own: the pickle, *bufs: a list of its PickleBuffers; both NULL before, and the caller's then, whatever comes back. */
int py_dump(struct py_state *st, PyObject *v, PyObject **own, PyObject **bufs, struct py_collector *c);
PyObject *py_loads(struct py_state *st, PyObject *data, PyObject *buffers); /* buffers: NULL, none */

/* ---- py_decode.c: values out */
struct py_keep {          /* how to keep a view for longer than the call */
    struct sk_task *task; /* NULL: the view itself is given */
    PyObject *owner;      /* not NULL: keeps the bytes; nothing is taken */
    uint32_t arg;
    bool taken;
};
PyObject *py_decode(struct py_state *st, const struct sk_view *v, struct py_keep *k);

/* ---- py_buf.c */
PyObject *py_buf_new(struct py_state *st, const uint8_t *p, size_t n, PyObject *base); /* of another object */
PyObject *py_buf_of_view(struct py_state *st, const struct sk_view *v,
                         struct py_keep *k); /* read-only buffer object over the whole value */
int py_buf_types(PyObject *module, struct py_state *st);

/* ---- py_block.c */
int py_block_encode(struct py_state *st, PyObject *batch, struct py_enc *e, struct sk_block_sizes *size);
int py_block_measure(struct py_state *st, PyObject *batch, struct sk_block_sizes *size);
PyObject *py_block_decode(struct py_state *st, const struct sk_view *v, struct py_keep *k);
int py_block_types(PyObject *module, struct py_state *st);
PyObject *py_pack_decode(struct py_state *st, const struct sk_view *v, struct py_keep *k); /* its bytes, or those of a part of it */
extern PyMethodDef py_block_methods[];

/* ---- py_work.c, py_join.c, py_states.c, py_online.c */
int py_work_types(PyObject *module, struct py_state *st);
int py_join_types(PyObject *module, struct py_state *st);
int py_states_types(PyObject *module, struct py_state *st);
extern PyMethodDef py_work_methods[], py_join_methods[], py_states_methods[], py_online_methods[];

extern PyMethodDef py_joblog_methods[];

/* ---- py_text.c */
extern PyMethodDef py_text_methods[];

/* ---- py_image.c */
extern PyMethodDef py_image_methods[];

/* ---- py_sum.c */
extern PyMethodDef py_sum_methods[];

/* ---- py_put.c, py_store.c */
extern PyMethodDef py_put_methods[];
extern PyMethodDef py_store_methods[];
PyObject *py_put(struct py_state *st, PyObject *value); /* ObjectRef */

/* ---- py_token.c */
PyObject *py_token_new(struct py_state *st, uint64_t aid, PyObject *ready); /* takes a counted handle, also when it fails */
PyObject *py_token_weak(struct py_state *st, uint64_t aid);
PyObject *py_restore_token(struct py_state *st, uint64_t aid, PyObject *ready);
bool py_token_alive(struct py_state *st, PyObject *token); /* of the engine that is open; else false with RaySystemError */
sk_aid py_token_actor(PyObject *token);
int py_token_types(PyObject *module, struct py_state *st);

/* ---- py_shape.c */
/* Interns a shape (amounts and a dict of custom resources or NULL) for `what`. */
int py_shape(struct py_state *st, const struct sk_need *base, PyObject *custom, const char *what, sk_shape *out);
/* The same; -1: exception, else what the engine says is in *rc. */
int py_find_shape(struct py_state *st, const struct sk_need *base, PyObject *custom, const char *what, sk_shape *out, sk_rc *rc,
                  struct sk_err *err);
int py_env(struct py_state *st, PyObject *env, uint32_t *out); /* of a runtime_env, pickled */
int py_add_custom(struct py_state *st, PyObject *custom, struct sk_res *r, uint32_t *more, struct sk_err *err, sk_rc *rc);
bool py_has(struct py_state *st, const void *table, const char *what); /* a side contract is there; false: NotImplementedError */
PyObject *py_amounts(const struct sk_res *r, PyObject *names);         /* dict; names: list of the custom ones */
int py_add_more(struct py_state *st, PyObject *amounts, uint32_t more,
                PyObject *names); /* what is behind that number (custom.h), to such a dict */

/* ---- py_define.c */
/* Defines a function by its bytes, or a method by its name. */
int py_define(struct py_state *st, PyObject *def, PyObject *name, bool method, sk_fid *out);
extern PyMethodDef py_define_methods[];

/* ---- py_template.c, py_control.c, py_group.c */
int py_template_types(PyObject *module, struct py_state *st);
extern PyMethodDef py_control_methods[];
extern PyMethodDef py_group_methods[];

/* ---- py_run.c */
void py_runner_init(struct py_state *st);
void py_runner_clear(struct py_state *st); /* drops functions and actors (the engine is closed) */
extern struct sk_need py_home;             /* what a thread that the user started inherits: the environment of this process */

/* ---- py_current.c, py_async.c */
struct sk_task *py_current_task(void); /* of this thread, or of this coroutine; NULL outside of tasks */
bool py_interrupted(void);             /* the task of this thread was cancelled, and does not know it: once, as its SIGINT */
extern PyMethodDef py_current_methods[];
extern PyMethodDef py_async_methods[];

/* ---- py_serve.c */
void py_worker_forget(void); /* in the child of a fork of a worker */
extern PyMethodDef py_serve_methods[];

/* ---- py_state.c */
extern PyMethodDef py_state_methods[];

/* ---- py_graph.c, py_loop.c, py_message.c: compiled graphs */
int py_graph_types(PyObject *module, struct py_state *st);
/* A result of a compiled graph; and the ObjectRef that it becomes, borrowed from it. NULL with an exception. */
static inline bool py_result_check(const struct py_state *st, PyObject *o) {
    return st->result_type && Py_TYPE(o)->tp_base == st->result_type;
}
PyObject *py_result_object(PyObject *result);
extern PyMethodDef py_loop_methods[];
bool py_turn_take(struct py_state *st); /* of a method, where a graph's loop may run another one; to be let go if true */
void py_turn_let_go(struct py_state *st);

/* ---- py_stack.c */
extern PyMethodDef py_stack_methods[];

/* ---- py_memory.c */
void py_memory_advise(
    void); /* large values of Python (bytes of a file) lie on huge pages from now on; once, by the only thread of a process */
extern PyMethodDef py_memory_methods[];

/* ---- py_watch.c */
int py_watch_types(PyObject *module);

/* ---- py_plan.c, py_exec.c */
const struct sk_plan *py_plan_get(struct py_state *st, PyObject *plan);
void py_exec_stop_all(struct py_state *st);
void py_exec_forget(struct py_state *st); /* in the child of a fork: the runs are the parent's */
int py_plan_types(PyObject *module, struct py_state *st);
int py_exec_types(PyObject *module, struct py_state *st);
int py_joblog_types(PyObject *module, struct py_state *st);

/* ---- helpers */
static inline int64_t py_deadline(double timeout_s, int64_t now_ns) /* CLOCK_MONOTONIC; < 0: none */
{
    if (timeout_s < 0 || timeout_s > 9e8) return INT64_MAX;
    return now_ns + (int64_t)(timeout_s * 1e9);
}
#define PY_SLICE_NS 100000000 /* waits come back this often to look for signals */

#endif
