/* state.h - side contract: lists of tasks, actors, objects and workers, for people and tests. No
 * decision of the engine depends on it. */
#ifndef SK_STATE_H
#define SK_STATE_H

#include "engine/engine.h"

struct sk_worker_info {
    int32_t pid;
    uint32_t number;
    uint32_t state; /* 0 starting 1 idle 2 busy 3 dead */
    uint64_t n_done;
};

/* Rows of a list, as bytes: each row is followed by its texts and starts at a multiple of 8. Of
 * tasks there are also rows of ended attempts. Times are CLOCK_MONOTONIC in ns; 0: not yet. */
enum sk_state_what { SK_STATE_TASKS, SK_STATE_ACTORS, SK_STATE_OBJECTS, SK_STATE_WORKERS };
#define SK_STATE_ROWS_MAX 100000u /* most rows in one answer; `total` in its head counts all */
/* number of ended attempts that are remembered; older ones are forgotten */
#define SK_STATE_PAST 10000u
struct sk_state_head {
    uint64_t n, total; /* n: number of rows that follow; total: number that exist */
    /* number of nodes that did not answer in time, whose rows are missing, and one of them */
    uint32_t n_silent, silent;
};
/* In each row, node: the row of nodes() where it is; 0: an engine of one machine, or the driver of
 * several. */
enum sk_task_state {
    SK_TS_ARGS,
    SK_TS_PLACE,
    SK_TS_SENT,
    SK_TS_RUNNING,
    SK_TS_FINISHED,
    SK_TS_FAILED
};
enum sk_task_kind { SK_TK_TASK, SK_TK_INIT, SK_TK_METHOD };
/* followed by name (name_n bytes), function (fn_n), value of the error (error_n) */
struct sk_task_row {
    uint64_t id, parent, actor, group;
    int64_t submit_ns, start_ns, end_ns;
    int32_t pid; /* 0: not on a worker yet */
    uint32_t worker, attempt;
    uint32_t state, kind; /* enum sk_task_state, sk_task_kind */
    uint32_t n_returns, error_kind;
    uint32_t name_n, fn_n, error_n;
    /* more: number of the set of custom resources that are not in `res` (custom.h) */
    uint32_t more, node;
    struct sk_res res;
};
enum sk_actor_phase { SK_AS_ARGS, SK_AS_PENDING, SK_AS_ALIVE, SK_AS_RESTARTING, SK_AS_DEAD };
struct sk_actor_row { /* followed by class (class_n bytes), name, namespace, reason of its death */
    uint64_t id, group, init;
    int32_t pid;
    uint32_t worker, state, n_restarts, n_calls; /* n_calls: calls that are not finished */
    uint32_t detached, error_kind;
    uint32_t class_n, name_n, space_n, why_n;
    uint32_t more, node;
    uint32_t pad;
    struct sk_res res;
};
enum sk_object_where { SK_OW_PENDING, SK_OW_INLINE, SK_OW_STORE, SK_OW_DISK, SK_OW_ACTOR };
/* What `id` is, in what a node tells its driver (cluster/tell.h): an object; a value of the
 * cluster; an object of the driver, of which the row says more; nothing that the driver could use.
 * Others get objects only. */
enum sk_object_of { SK_OF_OBJECT, SK_OF_VALUE, SK_OF_DRIVER, SK_OF_NOTHING };
/* One row for each process that has references to the object, or one without a process for its
 * other holders. */
struct sk_object_row {
    uint64_t id, size_bytes;
    /* n_refs: references of this process; n_total: those of all processes, plus holds of tasks
     * and of objects that contain this one */
    uint64_t n_refs, n_total;
    uint64_t task; /* the task that makes it; 0: not known, or no longer */
    int32_t pid;   /* 0: no process has references */
    uint32_t worker, where, attempt, task_state;
    uint32_t kind, node;
    uint32_t of, pad; /* enum sk_object_of */
};
/* How a worker ended, in this order: still alive; left in order; exit with another code; signal;
 * killed by the engine; killed by the engine because memory was short. */
enum sk_worker_end { SK_WE_LIVES, SK_WE_LEFT, SK_WE_EXIT, SK_WE_CRASH, SK_WE_KILLED, SK_WE_MEMORY };
/* followed by text_n bytes: the name of the task or actor that runs there, or how the worker
 * ended */
struct sk_worker_row {
    uint64_t n_done, actor, task;
    /* since_ns: when the worker's task began; end_ns: when the worker ended */
    int64_t since_ns, end_ns;
    int32_t pid;
    /* state: as in sk_worker_info; end: enum sk_worker_end, with `signal` as its detail */
    uint32_t worker, state, text_n, end, signal;
    uint32_t node, pad;
};

struct sk_state_ops {
    /* Writes sk_state_head and the rows of `what`, if they fit into cap. Returns the length
     * needed. */
    size_t (*rows)(struct sk_engine *e, enum sk_state_what what, void *buf, size_t cap);
    size_t (*workers)(struct sk_engine *e, struct sk_worker_info *out, size_t cap);
    /* Writes lines "key value\n": counters and statistics of the store. Returns the length
     * needed. */
    size_t (*status)(struct sk_engine *e, char *buf, size_t cap);
    /* Describes the task that makes an object (with o = 0: that yields the stream of task t), as
     * in "task f, which runs in worker 12"; "" when nothing is known. NULL if the engine cannot
     * find this out. */
    void (*about)(struct sk_engine *e, sk_oid o, sk_tid t, char *buf, size_t cap);
};

/* For engines that can look at a task which runs elsewhere: used in messages about tasks that
 * take long. */
struct sk_progress_ops {
    /* Time at which the task's present attempt began to run; 0: not begun, or over. */
    int64_t (*began)(struct sk_engine *e, sk_tid t);
};

#endif
