/* core.h - shared by all folders of src/py: the state of the module, whether its engine is open,
 * errors, arguments by tables, and the resources of a task. Everything in src/py runs with the GIL
 * held unless its comment says otherwise. The engine's lock is never held while a thread waits for
 * the GIL, so engine calls may be made with the GIL held; the GIL is dropped (PY_DROP .. PY_TAKE)
 * around calls that can block and around copies over 64 KiB. */
#ifndef SK_PY_CORE_H
#define SK_PY_CORE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <semaphore.h>

#include "base/base.h"
#include "base/err.h"
#include "base/containers/map.h"
#include "base/mem.h"
#include "base/containers/vec.h"
#include "engine/engine.h"
#include "engine/worker.h"

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
    X(start_async)   \
    X(leave)         \
    X(apply_env)     \
    X(set_gpus) X(check_call) X(ref_await) X(ref_future) X(idle) X(named) X(prints) X(task_over)

struct py_ref;
struct py_exec;
struct sk_cluster_node;
struct sk_block_sizes;
struct sk_plan;
struct sk_block_plan;

struct py_state {
    struct sk_engine *engine; /* NULL: no engine is open */
    /* number of the engine that is open, counted by this process; references with an older number
     * are invalid */
    uint32_t gen;
    uint32_t n_inside; /* number of threads that are inside the engine without the GIL */
    bool closing, driver, worker;
    struct sk_cluster_node *node; /* this process is a node of a cluster (py/node.c); or NULL */
    /* in a driver: shows what workers print; NULL: workers write it themselves */
    struct sk_prints *prints;
    /* true if user code forked this process from a worker (ipc/stray.c); `worker` is true as
     * well */
    bool stray;
    /* The worker or driver from which user code forked this process, directly or through others;
     * 0: none. */
    pid_t forked_from;
    sem_t all_out; /* posted by the last thread that leaves the engine while it closes */
    PyObject *module;
    PyTypeObject *store_array_type, *cow_pages_type, *partial_aggregates_type;
    /* number of living arrays in the store; while it is 0, no value is checked for being one */
    uint32_t n_store_arrays;
    PyTypeObject *message_type, *graph_type;
    /* skate.dag's class of results, whose subclasses can be arguments; NULL: no graph was
     * compiled yet */
    PyTypeObject *result_type;
    /* The turn of this process's actor, a lock held while a method runs. NULL: no compiled graph
     * runs methods beside the actor's calls. */
    PyThread_type_lock turn;
    PyTypeObject *ref_type, *gen_type, *buf_type, *template_type, *token_type, *blockout_type,
        *work_type, *plan_type, *exec_type, *told_type, *front_iter_type, *rows_type, *memory_type,
        *planned_type, *stage_node_type, *stage_task_type, *stage_block_type, *stage_exchange_type;
    struct py_ref *free_refs;
    uint32_t n_free_refs;
#define X(n) PyObject *hook_##n;
    PY_HOOKS(X)
#undef X
    PyObject *exceptions; /* skate.exceptions */
    PyObject *home;       /* folder of the package, ending in a slash; NULL: not looked up yet */
    PyObject *pinned;     /* set of references that user code pickled by itself; NULL: none */
    PyObject *pickle_dumps, *pickle_loads;
    PyObject *kw_buffer_callback, *kw_buffers, *int5, *s_append, *s_arrow_c_array;
    /* context variable: the running task of a coroutine */
    PyObject *ctx_task;
    /* functions of this module, named in pickles */
    PyObject *restore_ref, *restore_token, *weak_token;
    /* NumPy's array type; NULL until the program imports NumPy */
    PyTypeObject *ndarray;
    struct {
        /* sys.path and os.environ of the driver; NULL: not looked up yet */
        PyObject *path, *environ;
        /* the dict of the module sys and the str "path": sys.path is read each time, since a
         * program may replace the list */
        PyObject *sys, *s_path;
        Py_ssize_t path_n, environ_n;
        uint32_t tick; /* number of changes of sys.path or os.environ that were noticed */
        /* Number of the present ambient environment; equal environments have equal numbers
         * (ambient_environment.py). In a worker: number of the environment that is set. */
        uint32_t content;
        /* in a worker: number of the ambient environment that came with the definition loaded last;
         * 0: none came */
        uint32_t arrived;
        /* the ambient environment: sys.path, environment variables, working directory; see
         * py_template_is_prepared() */
    } ambient;
    PyObject *dtype[128];  /* NumPy's dtype for each character of the struct module */
    struct py_exec *execs; /* list of the runs of this process that are not stopped */
    int64_t garbage_ns;    /* no wait collects garbage before this time (garbage.c) */
    struct sk_runner runner;
    struct sk_map fns;    /* fid -> py_fn */
    struct sk_map actors; /* aid -> instance (a reference) */
    /* id of the last actor whose constructor failed in this process, and the error */
    uint64_t failed_actor;
    uint32_t failed_kind;
    void *failed_error;
    size_t failed_n;
};

extern struct PyModuleDef py_module_def;
static inline struct py_state *py_state_of(PyTypeObject *t) { return PyType_GetModuleState(t); }

/* Put around engine calls that can block: drop and take the GIL. The state stays open meanwhile:
 * shutdown waits for n_inside. */
#define PY_DROP(st)       \
    {                     \
        (st)->n_inside++; \
        PyThreadState *py_ts_ = PyEval_SaveThread();
#define PY_TAKE(st)                                                       \
    PyEval_RestoreThread(py_ts_);                                         \
    if (--(st)->n_inside == 0 && (st)->closing) sem_post(&(st)->all_out); \
    }

/* Declares an error on the stack without clearing its kilobyte. */
#define PY_ERR(name)    \
    struct sk_err name; \
    name.code = 0;      \
    name.msg[0] = 0

/* ---- timeouts and waits ---- */
/* A timeout as a deadline (CLOCK_MONOTONIC); timeout < 0: no deadline. */
static inline int64_t py_deadline(double timeout_s, int64_t now_ns) {
    if (timeout_s < 0 || timeout_s > 9e8) return INT64_MAX;
    return now_ns + (int64_t)(timeout_s * 1e9);
}
#define PY_SLICE_NS 100000000 /* waits return this often to check for signals */

/* ---- open.c */
/* Makes sure that an engine is open (a driver opens the default one). 0; -1 with an exception. */
int py_ensure(struct py_state *st);

/* True if the engine of generation `gen` is open. User code (a __reduce__, or another thread while
 * the GIL was free) may have closed the engine, so this is checked again after user code ran. */
static inline bool py_open(const struct py_state *st, uint32_t gen) {
    return st->engine && st->gen == gen && !st->closing;
}
/* Returns true, and sets an exception, if the engine of generation `gen` is no longer open. */
bool py_gone(struct py_state *st, uint32_t gen);
/* Releases a view. If the engine was closed, there is nothing to release. */
static inline void py_view_release(struct py_state *st, uint32_t gen, struct sk_view *v) {
    if (SK_LIKELY(py_open(st, gen))) st->engine->ops->view_release(st->engine, v);
}
/* True if the engine has a side contract; false with NotImplementedError. */
bool py_has(struct py_state *st, const void *table, const char *what);

/* ---- err.c */
/* Makes a str of UTF-8 bytes that may end inside a character, as messages and names of a fixed size
 * do. */
PyObject *py_text(const char *s);
/* Raises the exception for an engine's error code; always returns NULL. */
PyObject *py_raise(struct py_state *st, sk_rc rc, const struct sk_err *err);
/* Returns a class of skate.exceptions, a new reference; NULL with an exception. */
PyObject *py_class(struct py_state *st, const char *name);
void py_raise_class(struct py_state *st, const char *name, const char *msg);
/* Raises the exception that the error value `v` contains. */
void py_raise_value(struct py_state *st, const struct sk_view *v);
/* Shows the exception that is set in the engine's view (engine/view.h); in other processes than the
 * driver it does nothing. */
void py_show_raised(struct py_state *st);
/* Moves the current exception into *err (for runner functions); clears it. */
sk_rc py_to_err(struct sk_err *err, const char *what);

/* ---- front.c */
int py_front_types(PyObject *module, struct py_state *st);
/* Removes skate's frames from the current exception, if it is one to be shown to users. */
void py_front_strip(struct py_state *st);
/* Returns the folder of the package skate, ending in a slash; borrowed. NULL with an exception. */
PyObject *py_folder(struct py_state *st);

/* ---- fields.c: arguments by a table: the name of each, its place in a struct of C, its type, and
 * its default.
 *
 * One converter for calls (f(a, b, *, c=1)) and for dicts (a configuration). None counts as not
 * given. Every error names the field. */
enum py_field_type {
    PY_FIELD_BOOL,   /* bool */
    PY_FIELD_I32,    /* int32_t: an int */
    PY_FIELD_U32,    /* uint32_t: an int >= 0 */
    PY_FIELD_I64,    /* int64_t: an int */
    PY_FIELD_U64,    /* uint64_t: an int >= 0 */
    PY_FIELD_SCALED, /* int64_t: a number >= 0, times `unit`, rounded */
    PY_FIELD_AUTO,   /* the same; a negative number counts as not given: the engine chooses */
    PY_FIELD_TEXT,   /* const char *: a str without a NUL, borrowed */
    PY_FIELD_BYTES,  /* struct sk_bytes: bytes, borrowed */
    PY_FIELD_OBJECT, /* PyObject *: borrowed; an instance of `of`, if that is not NULL */
};

struct py_field {
    const char *name;
    enum py_field_type type;
    size_t at;         /* offset in the struct */
    int64_t otherwise; /* default of a number or bool; other types have the default NULL */
    double unit;       /* for PY_FIELD_SCALED and _AUTO */
    PyTypeObject *of;  /* for PY_FIELD_OBJECT */
};

/* A row of a table: PY_FIELD(struct given, "name", TYPE, member[, .otherwise = ...]). */
#define PY_FIELD(in, key, kind, member, ...) \
    {.name = key, .type = PY_FIELD_##kind, .at = offsetof(in, member), __VA_ARGS__}

struct py_fields {
    const char *what; /* for messages: name of the function or dict */
    uint32_t n;
    /* the first n_needed fields have to be given, and only these may be given by position */
    uint32_t n_needed;
    const struct py_field *field;
};

/* Fills the fields of *out from positional arguments (a tuple or NULL) and named ones (a dict or
 * NULL). -1: TypeError or ValueError, and *out may be half filled. */
int py_fields_read(const struct py_fields *f, PyObject *args, PyObject *named, void *out);
/* Like py_fields_read, but from a dict that may have other keys as well. */
int py_fields_pick(const struct py_fields *f, PyObject *dict, void *out);

/* ---- shape.c: the needs of a task or an actor */
/* Interns the shape of a need: `base` plus a dict of custom resources (or NULL). what: name of the
 * task or actor, for errors. 0; -1 with an exception. */
int py_shape(struct py_state *st, const struct sk_need *base, PyObject *custom, const char *what,
             sk_shape *out);
/* Like py_shape, but an error of the engine is not raised: returns 0 with its code in *rc; -1 with
 * an exception of another kind. */
int py_find_shape(struct py_state *st, const struct sk_need *base, PyObject *custom,
                  const char *what, sk_shape *out, sk_rc *rc, struct sk_err *err);
int py_where(struct py_state *st, PyObject *where, uint32_t *out);
int py_env(struct py_state *st, PyObject *env, uint32_t *out); /* interns a pickled runtime_env */
int py_add_custom(struct py_state *st, PyObject *custom, struct sk_res *r, uint32_t *more,
                  struct sk_err *err, sk_rc *rc);
/* Converts amounts of resources to a dict; names: list of the custom resources. */
PyObject *py_amounts(const struct sk_res *r, PyObject *names);
/* Adds the amounts of the set of custom resources that has the number `more` (custom.h) to a dict
 * made by py_amounts. */
int py_add_more(struct py_state *st, PyObject *amounts, uint32_t more, PyObject *names);

#endif
