/* state.h - side contract: what there is and what goes on, for people and tests; no decision is
 * made by it. */
#ifndef SK_STATE_H
#define SK_STATE_H

#include "engine/engine.h"

struct sk_worker_info {
    int32_t pid;
    uint32_t number;
    uint32_t state; /* 0 starting 1 idle 2 busy 3 dead */
    uint64_t n_done;
};

/* What there is, and of tasks what there was: rows as bytes, each followed by its texts, at a
 * multiple of 8. Times are CLOCK_MONOTONIC, 0: not yet. */
enum sk_state_what { SK_STATE_TASKS, SK_STATE_ACTORS, SK_STATE_OBJECTS, SK_STATE_WORKERS };
#define SK_STATE_ROWS_MAX 100000u /* of one answer; `total` in its head counts on */
#define SK_STATE_PAST 10000u      /* so many ended attempts are known; older ones are forgotten */
struct sk_state_head {
    uint64_t n, total; /* rows here, rows there are */
};
enum sk_task_state {
    SK_TS_ARGS,
    SK_TS_PLACE,
    SK_TS_SENT,
    SK_TS_RUNNING,
    SK_TS_FINISHED,
    SK_TS_FAILED
};
enum sk_task_kind { SK_TK_TASK, SK_TK_INIT, SK_TK_METHOD };
struct sk_task_row { /* then name (name_n), function (fn_n), value of the error (error_n) */
    uint64_t id, parent, actor, group;
    int64_t submit_ns, start_ns, end_ns;
    int32_t pid; /* 0: not on a worker yet */
    uint32_t worker, attempt;
    uint32_t state, kind; /* enum sk_task_state, sk_task_kind */
    uint32_t n_returns, error_kind;
    uint32_t name_n, fn_n, error_n;
    uint32_t more, pad; /* what it asks for beyond `res`: see custom.h */
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
    /* of this process; of all, and holds of tasks and of objects that contain it */
    uint64_t n_refs, n_total;
    uint64_t task; /* that makes it, as long as it is known */
    int32_t pid;   /* 0: no process has references */
    uint32_t worker, where, attempt, task_state;
    uint32_t kind;
};
/* How a worker ended: not yet; in order; by exit with another code; by a signal; by the engine; by
 * that for memory. */
enum sk_worker_end { SK_WE_LIVES, SK_WE_LEFT, SK_WE_EXIT, SK_WE_CRASH, SK_WE_KILLED, SK_WE_MEMORY };
struct sk_worker_row { /* then the name of what it runs, or how it ended (text_n) */
    uint64_t n_done, actor, task;
    int64_t since_ns, end_ns; /* its task began; it ended */
    int32_t pid;
    /* state: see sk_worker_info; end: enum sk_worker_end, by `signal` */
    uint32_t worker, state, text_n, end, signal;
};

struct sk_state_ops {
    /* Rows of `what`: writes them when they fit. Returns the length needed. */
    size_t (*rows)(struct sk_engine *e, enum sk_state_what what, void *buf, size_t cap);
    size_t (*workers)(struct sk_engine *e, struct sk_worker_info *out, size_t cap);
    /* Text "key value\n" lines: counters and store statistics. Returns the length needed. */
    size_t (*status)(struct sk_engine *e, char *buf, size_t cap);
    /* Words about what makes an object (its id 0: about a stream) that is waited for, as "task f,
     * which runs in worker 12"; "" when nothing is known. NULL where the engine cannot look. */
    void (*about)(struct sk_engine *e, sk_oid o, sk_tid t, char *buf, size_t cap);
};

/* Where the engine can look at a task that runs elsewhere: for words about one that takes long. */
struct sk_progress_ops {
    /* when its present attempt began to run; 0: it has not, or is over */
    int64_t (*began)(struct sk_engine *e, sk_tid t);
};

#endif
