/* engine.h - the narrow waist: what everything above (exec, shuffle, op, the Python API, C programs) may ask of an engine.
 *
 * An engine runs tasks and actors and keeps immutable objects. Values are bytes with a `kind` that only the layer above understands
 * (SK_KIND_ERROR excepted). Engines: `local` (worker processes, shared memory), `inline` (the caller runs tasks itself); found by
 * name over the generated table. Inside a worker the same struct talks to the driver over rings (engine/local/client.c).
 *
 * Rules of lifetime and of counting
 *  1. An sk_oid obtained from submit/put/view/event comes with ONE reference owned by this process; sk_release gives it back. A process
 *     that dies gives all of its references back.
 *  2. An argument reference is held by the task from submit until it is finally done (retries included); the caller may release its own
 *     at once.
 *  3. An object that contains references (payload.contains) holds them as long as it lives.
 *  4. A view pins its bytes until sk_view_release; the bytes never move or change meanwhile.
 *  5. A worker takes a reference for each ref that it finds inside a value (addref) before it releases the value that it was in;
 *     messages of one process are handled in order, so counts are exact without any acknowledgement.
 *  6. Retries run under attempt numbers; reports of an older attempt are dropped. A streaming task that is retried yields the same
 *     values again; those already reported are skipped, and a difference in the notes is an error at once.
 *  7. After engine close every call returns SK_ECLOSED and every wait ends. Views that are still out stay readable for ever (their memory is
 *     left mapped); nobody releases them any more.
 *  8. An actor lives while a handle is counted (actor_addref) or its `ready` object lives: a handle inside a value travels as
 *     contains = ready. Calls of an actor whose constructor failed end with the constructor's own error value.
 *
 * Thread-safety: every call may be made from any thread of the process. A sink's on_event is called with the engine's lock held (it is
 * recursive: the sink may call the engine); it must not block and never runs user code. */
#ifndef SK_ENGINE_H
#define SK_ENGINE_H

#include "base/base.h"
#include "base/err.h"

typedef struct {
    uint64_t v;
} sk_oid; /* object;   0 = none */
typedef struct {
    uint64_t v;
} sk_tid; /* task;     0 = none */
typedef struct {
    uint64_t v;
} sk_aid; /* actor;    0 = none */
typedef struct {
    uint64_t v;
} sk_fid; /* function: hash of its definition */

/* ---- values ---------------------------------------------------------------------------------------------------------------- */

enum {
    SK_KIND_ERROR = 0xE0u,
    SK_KIND_ERROR_MAX = 0xEFu
}; /* kinds in this range: getting the object fails with SK_ETASK (value = the error) */
#define SK_KIND_IS_ERROR(k) ((k) >= SK_KIND_ERROR && (k) <= SK_KIND_ERROR_MAX)
/* Errors made by the engine itself (not by user code): value = NUL-terminated text of the message; the sk_rc is in the first 4 bytes. */
enum { SK_KIND_ENGINE_ERROR = 0xEFu, SK_KIND_GROUP_READY = 0xF0u /* of a placement group: its number */ };

#define SK_ERROR_VALUE_MAX (1u << 20) /* an error value travels in a message, whole, up to this many bytes: half a pickle is none */
#define SK_INLINE_MAX 8192u           /* values up to this many bytes travel in messages and live outside the store */
#define SK_NOTE_MAX 1024u

struct sk_buf { /* writable store memory, private until sealed by put/return/yield or aborted */
    uint8_t *data;
    size_t len;
    uint64_t token; /* the engine's */
};

struct sk_view;
struct sk_payload { /* a value on its way in. Either `bytes` (copied) or `buf` (sealed, taken) */
    uint32_t kind;
    struct sk_bytes bytes;
    struct sk_buf *buf; /* when not NULL: the value is buf->data[0..buf_len) */
    size_t buf_len;
    const sk_oid *contains; /* references inside the value */
    uint32_t n_contains;
    struct sk_bytes note; /* <= SK_NOTE_MAX bytes that travel with events about this value (rows, sizes, times) */
    /* With buf, where the engine has windows; not NULL: the writer goes on reading the value, and gets this view of it (to be released), also when the
     * value is not wanted. Token 0: it failed. */
    struct sk_view *keep;
};

struct sk_view { /* a value on its way out; read-only */
    const uint8_t *data;
    size_t len;
    uint32_t kind;
    sk_oid oid;     /* 0 for an inline task argument */
    uint64_t token; /* the engine's */
};

/* ---- resources --------------------------------------------------------------------------------------------------------------- */

/* A shape is an interned set of amounts. Amounts are in 1/10,000 of a unit (cpu, gpu, custom) or bytes (memory). */
enum { SK_RES_CPU = 0, SK_RES_GPU = 1, SK_RES_MEMORY = 2, SK_RES_CUSTOM = 3, SK_RES_MAX = 16 };
#define SK_RES_UNIT 10000
struct sk_res {
    int64_t amount[SK_RES_MAX]; /* [SK_RES_CUSTOM..]: by the engine's table of names */
};
/* Of a custom resource that has no place in sk_res: there are many, and what asks for them is seldom. */
struct sk_amount {
    uint64_t index; /* SK_RES_MAX and up, as res_index says */
    int64_t amount;
};
/* All that a task or an actor needs of where it runs. A shape stands for one of these. */
struct sk_need {
    struct sk_res res;
    uint64_t group;   /* placement group, 0: none */
    int32_t bundle;   /* of it; -1: any */
    uint32_t env;     /* environment of the process (env_define), 0: the job's */
    uint32_t capture; /* not 0: what it submits goes to the group, too (said to the task; who submits does it) */
    uint32_t more;    /* further custom resources (ops.more), 0: none; not in a group */
};
typedef uint32_t sk_shape; /* names no other need later on: that of a removed placement group stays SK_EGROUP */

/* ---- tasks --------------------------------------------------------------------------------------------------------------------- */

#define SK_STREAMING UINT32_MAX /* n_returns of a streaming task */
#define SK_MAX_RETURNS 100000   /* n_returns of any other */
#define SK_RETRIES_DEFAULT INT32_MIN

struct sk_arg {
    sk_oid ref;    /* not 0: the object's value; the task starts when it exists */
    uint32_t kind; /* inline value otherwise; bytes <= SK_INLINE_MAX (put larger ones first) */
    struct sk_bytes bytes;
};

struct sk_sink; /* receives the events of the tasks that name it */

struct sk_task_spec {
    sk_fid fn;        /* defined before by fn_define */
    const char *name; /* for messages; copied; NULL: the function's */
    const struct sk_arg *args;
    uint32_t n_args;
    const sk_oid *contains; /* references inside inline argument bytes: held like arguments, not waited for */
    uint32_t n_contains;
    uint32_t n_returns;     /* 0..SK_MAX_RETURNS or SK_STREAMING */
    sk_shape shape;         /* 0: the default shape, one CPU (for a method of an actor: nothing) */
    sk_aid actor;           /* not 0: a method call, in order of submission */
    int32_t max_retries;    /* after a death of the worker; -1 = for ever; SK_RETRIES_DEFAULT = what the engine was opened with */
    bool retry_exceptions;  /* retry when user code raised, too */
    bool no_wait;           /* a call without retries: SK_EUNAVAIL while its actor is restarted, instead of waiting for it */
    uint32_t stream_window; /* streaming without a sink: at most so many yields that were not taken; 0 = no limit */
    struct sk_sink *sink;   /* may be NULL */
    uint64_t sink_tag;      /* comes back in the events */
    sk_tid parent;          /* the task that submits it, 0: none. A recursive cancel of that one cancels this one */
    uint32_t group;         /* a method call: index into sk_actor_spec.groups */
    uint32_t max_pending;   /* a method call: SK_EPENDING when so many calls of this process are not finished; 0: no limit */
    uint32_t max_calls;     /* a worker process leaves after so many runs of `fn`; 0: no limit. Not for methods */
    const char *refused;    /* not NULL: why it can never run here. Its values are this error (SK_EINFEASIBLE) at once. Not for methods */
};

enum { SK_GROUPS_MAX = 64, SK_NAME_MAX = 1024 };
struct sk_actor_spec {
    struct sk_task_spec init; /* the constructor; n_returns is taken as 1 (a value that is ready when the actor is) */
    int32_t max_restarts;     /* -1 = for ever */
    int32_t max_task_retries;
    /* Concurrency groups: at most groups[i] calls of group i run at once, each on a thread, or (is_async) all on the group's event loop, see
     * runner.serve_async. Calls then start in the order in which their arguments exist. n_groups 0: one call at a time, in order. */
    /* A name is of one living actor in its space: SK_EEXIST. actor_find gives `meta` to whoever asks for it. */
    const char *name, *space; /* NULL: none; the space may be NULL or empty */
    struct sk_bytes meta;
    bool detached;          /* lives without handles, until it is killed or the engine closes */
    const uint32_t *groups; /* [0] is the group of calls that name none; at most SK_GROUPS_MAX */
    uint32_t n_groups;
    bool is_async;
};

/* ---- events ------------------------------------------------------------------------------------------------------------------- */

enum sk_event_kind {
    SK_EV_STARTED = 1, /* a worker took it (may repeat: attempts) */
    SK_EV_YIELDED,     /* oid (a reference for the sink's process), index, size_bytes, note */
    SK_EV_DONE,        /* all returns exist; note of the task */
    SK_EV_FAILED,      /* finally: err, and oid = the error object (a reference) */
};
struct sk_event {
    enum sk_event_kind kind;
    sk_tid task;
    uint64_t tag; /* spec.sink_tag */
    uint32_t attempt;
    uint32_t index;
    sk_oid oid;
    uint64_t size_bytes;
    struct sk_bytes note; /* valid during the call */
    int64_t run_ns;       /* DONE/FAILED: time in the worker */
    const struct sk_err *err;
};
struct sk_sink {
    void (*on_event)(struct sk_sink *s, const struct sk_event *ev);
};

/* ---- the engine ------------------------------------------------------------------------------------------------------------------ */

enum { SK_CANCEL_FORCE = 1, SK_CANCEL_CHILDREN = 2 /* and what it has submitted, and so on */ };
enum {
    SK_CAP_PROCESSES = 1,
    SK_CAP_ZERO_COPY = 2,
    SK_CAP_KILL = 4,
    SK_CAP_DRIVER = 8 /* owns the loop; false inside workers */,
    SK_CAP_SPILL = 16 /* a full store is no error */
};

#define SK_MORE_TOTAL (UINT32_MAX - 1)
#define SK_MORE_FREE UINT32_MAX

struct sk_engine;

struct sk_watch {
    /* By any thread, with locks held: must neither block nor call the engine. */
    void (*fn)(struct sk_watch *w);
    uint64_t id; /* the engine's */
};

enum sk_group_strategy { SK_GROUP_PACK, SK_GROUP_SPREAD, SK_GROUP_STRICT_PACK, SK_GROUP_STRICT_SPREAD };
struct sk_group_spec {
    const struct sk_res *bundles;
    uint32_t n, strategy;
    const char *name, *space; /* as of an actor */
};
struct sk_group_row {
    uint64_t id;
    uint32_t n, strategy, state, text_n; /* state: 0 pending, 1 ready */
    int64_t reserved_ns;                 /* how long it waited; -1 while it does */
};

struct sk_reference {
    sk_oid oid;
    uint64_t n_driver, n_all; /* references of the driver's process; together with those of others, of tasks and of values */
};

struct sk_worker_info {
    int32_t pid;
    uint32_t number;
    uint32_t state; /* 0 starting 1 idle 2 busy 3 dead */
    uint64_t n_done;
};

/* What there is, and of tasks what there was: rows as bytes, each followed by its texts, at a multiple of 8. Times are CLOCK_MONOTONIC, 0: not yet. */
enum sk_state_what { SK_STATE_TASKS, SK_STATE_ACTORS, SK_STATE_OBJECTS, SK_STATE_WORKERS };
#define SK_STATE_ROWS_MAX 100000u /* of one answer; `total` in its head counts on */
#define SK_STATE_PAST 10000u      /* so many ended attempts are known; older ones are forgotten */
struct sk_state_head {
    uint64_t n, total; /* rows here, rows there are */
};
enum sk_task_state { SK_TS_ARGS, SK_TS_PLACE, SK_TS_SENT, SK_TS_RUNNING, SK_TS_FINISHED, SK_TS_FAILED };
enum sk_task_kind { SK_TK_TASK, SK_TK_INIT, SK_TK_METHOD };
struct sk_task_row { /* then name (name_n), function (fn_n), value of the error (error_n) */
    uint64_t id, parent, actor, group;
    int64_t submit_ns, start_ns, end_ns;
    int32_t pid; /* 0: not on a worker yet */
    uint32_t worker, attempt;
    uint32_t state, kind; /* enum sk_task_state, sk_task_kind */
    uint32_t n_returns, error_kind;
    uint32_t name_n, fn_n, error_n;
    uint32_t more, pad; /* what it asks for beyond `res`: see more_read */
    struct sk_res res;
};
enum sk_actor_phase { SK_AS_ARGS, SK_AS_PENDING, SK_AS_ALIVE, SK_AS_RESTARTING, SK_AS_DEAD };
struct sk_actor_row { /* then class (class_n), name, space, why it died */
    uint64_t id, group, init;
    int32_t pid;
    uint32_t worker, state, n_restarts, n_calls; /* calls that are not finished */
    uint32_t detached, error_kind;
    uint32_t class_n, name_n, space_n, why_n;
    uint32_t more;
    struct sk_res res;
};
enum sk_object_where { SK_OW_PENDING, SK_OW_INLINE, SK_OW_STORE, SK_OW_DISK, SK_OW_ACTOR };
struct sk_object_row { /* one for each process that has references, or one for what else holds it */
    uint64_t id, size_bytes;
    uint64_t n_refs, n_total; /* of this process; of all, and holds of tasks and of objects that contain it */
    uint64_t task;            /* that makes it, as long as it is known */
    int32_t pid;              /* 0: no process has references */
    uint32_t worker, where, attempt, task_state;
    uint32_t kind;
};
struct sk_worker_row { /* then the name of what it runs (name_n) */
    uint64_t n_done, actor, task;
    int64_t since_ns; /* its task began */
    int32_t pid;
    uint32_t worker, state, name_n; /* state: see sk_worker_info */
};
struct sk_memory_info {
    uint64_t limit_bytes, used_bytes; /* of the budget with the least left; limit 0: not known (no /proc) */
    char where[160];                  /* whose it is */
    uint64_t store_limit_bytes;       /* size of the store */
    uint64_t store_may_bytes;         /* it may grow to, as heaps are now */
    uint64_t store_used_bytes;        /* objects and leases */
    uint64_t store_present_bytes;     /* pages, also those that are free */
    uint64_t spilled_bytes;           /* of objects that are on disk now */
    uint64_t heap_bytes, driver_heap_bytes;
    uint64_t n_stopped, n_kernel_killed, n_alone; /* workers stopped for memory; by the kernel; tasks that are to run alone, or do */
};
struct sk_memory_worker {
    int32_t pid;
    uint32_t number;
    uint64_t heap_bytes, peak_bytes, asked_bytes; /* its own; highest since what it runs began; memory= of that */
    bool busy, is_actor;
    char name[80]; /* of what it runs */
};

struct sk_engine_ops {
    const char *name;
    void (*close)(struct sk_engine *e); /* stops everything; frees e; idempotent through sk_engine_close */

    /* Functions and shapes. define is idempotent; bytes are copied and reach each worker at most once. */
    sk_rc (*fn_define)(struct sk_engine *e, sk_fid fn, const char *name, struct sk_bytes def, struct sk_err *err);
    sk_rc (*shape)(struct sk_engine *e, const struct sk_res *r, sk_shape *out,
                   struct sk_err *err); /* SK_EINFEASIBLE: with the arithmetic */
    /* Index of a custom resource: in sk_res, or (SK_RES_MAX and up) of a sk_amount. */
    sk_rc (*res_index)(struct sk_engine *e, const char *custom_name, uint32_t *out, struct sk_err *err);
    void (*resources)(struct sk_engine *e, struct sk_res *total, struct sk_res *available);

    /* Tasks: returns ids first.v .. first.v + n_returns - 1, each with a reference (streaming: none, and first may be NULL; yields come as events, or through
     * stream_next on the task id). `tid` may be NULL. */
    sk_rc (*submit)(struct sk_engine *e, const struct sk_task_spec *spec, sk_oid *first, sk_tid *tid, struct sk_err *err);
    /* Next yield of a streaming task without a sink: SK_OK (*out holds a reference), SK_EDONE, SK_ETIMEOUT, or the task's failure
     * (*out = error object). */
    sk_rc (*stream_next)(struct sk_engine *e, sk_tid t, int64_t deadline_ns, sk_oid *out, struct sk_err *err);
    void (*stream_drop)(struct sk_engine *e, sk_tid t); /* nobody will read the rest: releases it and cancels the task */
    /* Until stream_next would not wait: SK_OK, an item (or the failure) is there, and is not taken; SK_EDONE, the end is; SK_ETIMEOUT. */
    sk_rc (*stream_wait)(struct sk_engine *e, sk_tid t, int64_t deadline_ns, struct sk_err *err);
    /* An object (with a reference) that exists when the task has ended: empty, of this kind, or its failure. Once a stream, before stream_drop. */
    sk_rc (*stream_end)(struct sk_engine *e, sk_tid t, uint32_t kind, sk_oid *out, struct sk_err *err);
    /* A task that has not begun ends with SK_ECANCEL. One that runs is asked to end: by SIGINT (not a method), at its next yield, through
     * runner.cancel (async actors). `t` may be one of its return objects, too, for who knows no more. SK_CANCEL_FORCE: its process is killed (not of an actor). */
    sk_rc (*cancel)(struct sk_engine *e, sk_tid t, uint32_t flags, struct sk_err *err);

    sk_rc (*actor_create)(struct sk_engine *e, const struct sk_actor_spec *spec, sk_aid *out, sk_oid *ready, struct sk_err *err);
    sk_rc (*actor_kill)(struct sk_engine *e, sk_aid a, bool no_restart, struct sk_err *err);
    /* In the process of an actor, outside of its calls too: it ends in order, without a restart. NULL: not here. */
    sk_rc (*actor_leave)(struct sk_engine *e, struct sk_err *err);
    void (*actor_addref)(struct sk_engine *e, sk_aid a);
    void (*actor_release)(struct sk_engine *e, sk_aid a); /* last handle gone: stops after the calls already made */
    /* The living actor of that name: *out and *ready come with a reference, meta->p is the caller's (sk_free). SK_ENOENT. */
    sk_rc (*actor_find)(struct sk_engine *e, const char *space, const char *name, sk_aid *out, sk_oid *ready, struct sk_bytes *meta,
                        struct sk_err *err);
    /* Of all living actors that have one: space NUL name NUL, ... Returns the length needed. */
    size_t (*actor_names)(struct sk_engine *e, char *buf, size_t cap);

    /* Amounts of custom resources that have no place in sk_res as one number, for sk_need.more; by rising index. Same amounts: same number.
     * SK_EINFEASIBLE: with the arithmetic. */
    sk_rc (*more)(struct sk_engine *e, const struct sk_amount *a, uint32_t n, uint32_t *out, struct sk_err *err);
    /* What is behind such a number, or SK_MORE_TOTAL, SK_MORE_FREE: returns how many. */
    size_t (*more_read)(struct sk_engine *e, uint32_t more, struct sk_amount *out, size_t cap);
    /* A shape for amounts in a placement group or in an environment. SK_EGROUP: the group was removed. */
    sk_rc (*need)(struct sk_engine *e, const struct sk_need *n, sk_shape *out, struct sk_err *err);
    /* Bytes that runner.env gets first thing in each process that runs tasks of this environment. Same bytes: same number. */
    sk_rc (*env_define)(struct sk_engine *e, struct sk_bytes env, uint32_t *out, struct sk_err *err);
    /* Reserves bundles of resources, all or none; *ready (a reference) gets a value when it has them. It stays until it is removed: then what
     * runs in it is killed (tasks do not run again), and what waits for it ends with SK_EGROUP. */
    sk_rc (*group_create)(struct sk_engine *e, const struct sk_group_spec *s, uint64_t *out, sk_oid *ready, struct sk_err *err);
    sk_rc (*group_remove)(struct sk_engine *e, uint64_t group, struct sk_err *err); /* SK_ENOENT: removed already */
    /* All groups as bytes: struct sk_group_row, its name and space (NUL-terminated, together padded to 8), n bundles of struct sk_res.
     * Returns the length needed. */
    size_t (*groups)(struct sk_engine *e, void *buf, size_t cap);

    /* Objects */
    /* Waits until others are spilled or released, if the engine spills. SK_EFULL: and it cannot be; SK_ENOSPC, SK_EIO: nor written to disk. Called
     * with the engine's lock held, or by a sink: never waits. */
    sk_rc (*buf_alloc)(struct sk_engine *e, size_t len, struct sk_buf *out, struct sk_err *err);
    void (*buf_abort)(struct sk_engine *e, struct sk_buf *b);
    /* Hint: [at, at+len) of a buffer is about to be written; sk_seg_warm (ipc.h). Of large buffers best in pieces of 2 MiB, each by the thread that writes it
     * next; may be NULL. */
    void (*buf_warm)(struct sk_engine *e, void *at, size_t len);
    /* [data, data+len) of a buffer, mapped once more; see sk_seg_window (ipc.h). NULL: this engine has none. Ended by sk_window_close, whenever. */
    sk_rc (*window)(struct sk_engine *e, const void *data, size_t len, bool own, void **at, struct sk_err *err);
    sk_rc (*put)(struct sk_engine *e, const struct sk_payload *p, sk_oid *out, struct sk_err *err);
    /* Waits for all and pins all; out[i] in order. A failed task's object gives a view whose kind is an error kind: check each.
     * SK_ETIMEOUT: nothing is pinned. SK_ELOST, SK_ECLOSED. */
    sk_rc (*get)(struct sk_engine *e, const sk_oid *ids, size_t n, int64_t deadline_ns, struct sk_view *out, struct sk_err *err);
    void (*view_release)(struct sk_engine *e, struct sk_view *v);
    /* ready[i] = exists (value or error). Returns when want of them are, or SK_ETIMEOUT (ready[] is filled either way). */
    sk_rc (*wait)(struct sk_engine *e, const sk_oid *ids, size_t n, size_t want, int64_t deadline_ns, bool *ready, struct sk_err *err);
    void (*addref)(struct sk_engine *e, sk_oid o);
    void (*release)(struct sk_engine *e, sk_oid o);
    /* Has w->fn called once, when the object exists (or when stream_wait would not wait, of the stream, o being 0), or the engine closes. SK_EDONE: it
     * is so already, nothing will be called. w is the engine's until then, or until unwatch. NULL: this engine runs tasks in the caller, who
     * has to wait. A worker that watches is one that waits: its CPU is lent to others meanwhile. */
    sk_rc (*watch)(struct sk_engine *e, sk_oid o, sk_tid stream, struct sk_watch *w, struct sk_err *err);
    bool (*unwatch)(struct sk_engine *e, struct sk_watch *w); /* false: fn was called */

    /* Drives the loop until done(arg) (called under the lock) or the deadline: SK_OK / SK_ETIMEOUT / SK_ECLOSED. Driver only. */
    sk_rc (*drive)(struct sk_engine *e, bool (*done)(void *arg), void *arg, int64_t deadline_ns, struct sk_err *err);
    void (*lock)(struct sk_engine *e); /* recursive; for sinks' owners */
    void (*unlock)(struct sk_engine *e);
    /* Modules to import in the fork server before the next worker is forked (bytes understood by the runner). */
    sk_rc (*preload)(struct sk_engine *e, struct sk_bytes note, struct sk_err *err);
    /* All objects (not actors) that the driver's own code, tasks and other objects hold, for tests and debugging. Returns how many there are. May be NULL. */
    size_t (*references)(struct sk_engine *e, struct sk_reference *out, size_t cap);
    size_t (*workers)(struct sk_engine *e, struct sk_worker_info *out, size_t cap);
    /* Text "key value\n" lines: counters and store statistics. Returns the length needed. */
    size_t (*status)(struct sk_engine *e, char *buf, size_t cap);
    /* Rows of `what` (above): writes them when they fit. Returns the length needed. */
    size_t (*state)(struct sk_engine *e, enum sk_state_what what, void *buf, size_t cap);
    /* What memory is used for, measured now. Workers: as of `workers`, at most cap of them; *n: how many there are. NULL: not known here. */
    sk_rc (*memory)(struct sk_engine *e, struct sk_memory_info *out, struct sk_memory_worker *w, size_t cap, size_t *n, struct sk_err *err);
};

void sk_window_close(void *at, size_t len); /* thread-safe; also when its engine is gone */

struct sk_engine {
    const struct sk_engine_ops *ops;
    uint64_t caps;
};

/* ---- what runs tasks -------------------------------------------------------------------------------------------------------------- */

/* A task as its function sees it. Lives during run(). */
struct sk_task {
    struct sk_engine *engine; /* for nested submit/put/get */
    sk_tid id;
    sk_fid fn;
    sk_aid actor;       /* not 0: a method call */
    bool is_actor_init; /* the constructor */
    bool is_async;      /* of an actor with an event loop: run() may return SK_EAGAIN, the task then goes on until sk_task_end */
    void *user;         /* the runner's own, NULL when the task begins */
    uint32_t attempt;
    uint32_t n_args;
    const struct sk_view *args; /* released by the engine after run(), unless sk_task_keep_arg */
    uint32_t n_returns;
    uint32_t n_yielded;     /* by this attempt */
    uint32_t stream_window; /* not 0: sk_task_yield may wait */
    const char *name;
    const struct sk_need *need; /* NULL: one CPU (an actor: nothing); of a method: what its actor asked for */
    uint64_t gpus;              /* bit i: GPU i is its own, or a share of it */
};
/* Sets return i (each exactly once; missing ones are an error of the task). Takes payload.buf. */
sk_rc sk_task_return(struct sk_task *t, uint32_t i, const struct sk_payload *p, struct sk_err *err) SK_MUST_USE;
/* Next value of a streaming task; may wait for the consumer (stream_window). SK_ECANCEL: stop now, the result is not wanted. */
sk_rc sk_task_yield(struct sk_task *t, const struct sk_payload *p, struct sk_err *err) SK_MUST_USE;
/* How many first yields exist already from an earlier attempt: yield still must be called for them, but a cheap payload with only the
 * note will do (bytes and buf empty). */
uint32_t sk_task_skip(const struct sk_task *t);
/* Ends the task with a user error (kind in the error range). The first call counts. */
sk_rc sk_task_fail(struct sk_task *t, const struct sk_payload *error, struct sk_err *err) SK_MUST_USE;
enum {
    SK_END_FINAL = 1,      /* its failure is not retried, whatever its options say */
    SK_END_EXIT_ACTOR = 2, /* a call (or the constructor) that has failed: its actor ends with it, without a restart */
    SK_END_PROCESS = 4     /* this process runs nothing more (where it is one of its own) */
};
void sk_task_end_flags(struct sk_task *t, uint32_t flags);  /* before run() returns, or before sk_task_end */
void sk_task_note(struct sk_task *t, struct sk_bytes note); /* note of the DONE event; copied, <= SK_NOTE_MAX */
/* The function keeps args[i] mapped after it returned: the view is its own now (release by view_release). */
struct sk_view sk_task_keep_arg(struct sk_task *t, uint32_t i);

/* Ends a task whose run() returned SK_EAGAIN: rc and err as run() would have given them. Any thread; t is gone after it. */
void sk_task_end(struct sk_task *t, sk_rc rc, const struct sk_err *err);
/* Somebody cancelled it while it ran. May be asked at any moment of its life. */
bool sk_task_cancelled(const struct sk_task *t);
/* For the handler of SIGINT: true once for each cancel of the task that runs; the caller interrupts it then. */
bool sk_task_interrupt(struct sk_task *t);

struct sk_runner { /* filled by the layer above; one a process */
    void *ctx;
    /* A definition arrived (before the first task that needs it). */
    sk_rc (*define)(void *ctx, sk_fid fn, const char *name, struct sk_bytes def, struct sk_err *err);
    /* Runs it. A failure here (not sk_task_fail) ends the task with an engine error made of *err. */
    sk_rc (*run)(void *ctx, struct sk_task *t, struct sk_err *err);
    /* Blocking waits inside a worker call these around the wait, so that the GIL is free meanwhile. May be NULL. */
    void (*block_begin)(void *ctx);
    void (*block_end)(void *ctx);
    void (*idle)(void *ctx); /* a worker has had nothing to do for a second: gives memory back that is not used. May be NULL */
    /* inline only (elsewhere the process ends): the actor is dead, drop its state. May be NULL. */
    void (*actor_gone)(void *ctx, sk_aid actor);
    /* The environment of this process, before its first task. A failure is that of all its tasks. */
    sk_rc (*env)(void *ctx, struct sk_bytes env, struct sk_err *err);
    void (*thread_begin)(void *ctx); /* first on each thread that runs calls of an actor with concurrency groups. May be NULL */
    /* This thread is now the event loop of group `group` of an async actor, on the main thread of 0: calls sk_worker_step whenever `fd` is
     * readable until it returns false. Group 0 runs the constructor, before any call; the others get a thread with their first call. NULL: such an actor
     * runs its calls on threads. */
    sk_rc (*serve_async)(void *ctx, struct sk_engine *client, int fd, uint32_t group, struct sk_err *err);
    void (*cancel)(void *ctx, struct sk_task *t); /* of a task between SK_EAGAIN and sk_task_end, on the thread of serve_async */
};
/* Starts the calls that may run, tells of cancelled ones. False: the process is to leave. Only for runner.serve_async. */
bool sk_worker_step(struct sk_engine *client, uint32_t group);

struct sk_engine_conf {
    struct sk_res total;             /* resources of this machine */
    const char *const *custom_names; /* [SK_RES_CUSTOM + i] */
    uint32_t n_custom;
    const int64_t *more; /* amounts of the custom resources that have no place in `total` */
    uint64_t store_bytes;
    uint32_t max_workers;          /* 0: chosen */
    int64_t spin_ns;               /* how long a waiter spins before it sleeps; -1: chosen */
    int64_t idle_reap_ns;          /* idle workers beyond the CPUs are ended after this; 0: chosen */
    char *const *spawn_argv;       /* the fork server's command line (local) */
    char *const *spawn_env;        /* whole environment, NULL: inherit */
    struct sk_bytes preload;       /* first note to the fork server */
    struct sk_runner *runner;      /* inline: runs the tasks; local: unused in the driver */
    uint64_t seed;                 /* inline: order of tasks; 0: submission order */
    const char *const *spill_dirs; /* local: where objects go when the store is full, in turn; none: a full store is an error */
    uint32_t n_spill_dirs;
    /* local: asked every 100 ms, without the lock, by a caller that waits for room; true: SK_ECANCEL. May be NULL */
    bool (*interrupted)(void *ctx);
    void *interrupted_ctx;
    /* local: an actor whose namespace begins with '_' was made and has a name: a worker asks this process for something. With the engine's lock held: must
     * neither block nor call the engine. May be NULL */
    void (*named)(void *ctx, struct sk_bytes space, struct sk_bytes name);
    void *named_ctx;
    /* local: most bytes of disk; 0: as much as there is; UINT64_MAX: nine tenths of what is free, whenever more is wanted */
    uint64_t spill_bytes;
    /* local: what can neither be in the store nor leave it lies in a file that is mapped behind the store, of so many bytes at most; 0: four times the store, at least
     * 4 GiB; UINT64_MAX: no such file, then it is an error */
    uint64_t overflow_bytes;
    uint64_t lineage_bytes; /* local: memory for finished tasks that could make lost objects again; 0: 64 MiB */
    /* local: the budget of store and worker heaps together (memory.h); 0: none but the machine's, or the cgroup's */
    uint64_t memory_bytes;
    uint32_t memory_permille; /* so much of the machine's, or the cgroup's, may be used, by whomever; 0: 950 */
    /* looked at so often at least while something runs; 0: every 250 ms; -1: never, and nobody is stopped for it */
    int64_t memory_every_ns;
    /* how often a task that was stopped for memory is run again, at no other cost; 0: until it has run alone; -1: not */
    int32_t oom_retries;
    int32_t task_retries; /* max_retries of tasks that do not say */
};

struct sk_engine_class { /* engine/by/<name>.c defines sk_engine_by_<name> */
    const char *name;
    sk_rc (*open)(const struct sk_engine_conf *conf, struct sk_engine **out, struct sk_err *err);
};
const struct sk_engine_class *sk_engine_find(const char *name); /* NULL when there is none */
/* What this process may use: CPUs (affinity, quota of the cgroup), memory (machine or cgroup). SK_EIO: there is no /proc; SK_ENOMEM. */
sk_rc sk_engine_machine(struct sk_res *out, struct sk_err *err) SK_MUST_USE;
void sk_engine_close(struct sk_engine **e);

/* Worker processes of `local`: the program calls this first thing; returns false in any process that is not a worker (env variable
 * SKATE_FORK_FD unset). In the fork server it never returns but in forked children; in a worker it runs tasks with `runner` until told
 * to stop, then returns true. */
struct sk_worker_hooks {                                 /* each may be NULL */
    void (*on_note)(void *ctx, const void *p, size_t n); /* in the server: a preload note */
    void (*before_fork)(void *ctx);                      /* in the server, directly before it forks a worker */
    void (*after_fork)(void *ctx);                       /* in the server, directly after it, also when it was refused */
    void (*begin)(void *ctx, struct sk_engine *client);  /* once, in the fresh worker */
    void *ctx;
};
/* What is seen of a local engine from outside of it, without its lock: see local/look.c. */
struct sk_look {
    int32_t driver_pid;
    char waits[512]; /* what a caller in the driver waits for; "": nothing, or not for long */
};
struct sk_look_worker {
    int32_t pid;
    uint64_t task;  /* that it began last and that has not ended; 0: none */
    int64_t for_ns; /* it has run */
    char name[112];
};
/* Of this process; async-signal-safe. In a worker: its own row. False: no local engine is open here. */
bool sk_look_self(struct sk_look *out, struct sk_look_worker *rows, size_t cap, size_t *n);
/* The processes of an engine share one stderr: who writes more than a line there in a signal handler takes turns with the others, waiting for at most a second
 * (then it writes all the same). Async-signal-safe. */
void sk_look_speak(bool begin);
/* Of the one whose control segment is there (/proc/<pid>/fd/<n>). */
sk_rc sk_look_at(const char *path, struct sk_look *out, struct sk_look_worker *rows, size_t cap, size_t *n, struct sk_err *err) SK_MUST_USE;

/* In a worker of `local`: a descriptor (its own offset) into shared memory where a crash handler may write up to 2 KiB of text that the driver
 * adds to the message about the death; -1 elsewhere. */
int sk_worker_crash_fd(void);
/* In a worker of `local`: what the running task has in hand, for the message about its death: cut at 500 bytes. Elsewhere nothing. 20 ns. */
void sk_worker_doing(const char *text, size_t n);
sk_rc sk_worker_serve(struct sk_runner *runner, const struct sk_worker_hooks *hooks, bool *was_worker, struct sk_err *err) SK_MUST_USE;

#endif
