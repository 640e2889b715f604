/* worker.h - declarations that the files of this folder share: a worker's side of the local engine
 * (one per worker process). */
#ifndef SK_WORKER_INT_H
#define SK_WORKER_INT_H

#include <pthread.h>

#include "base/containers/list.h"
#include "base/containers/map.h"
#include "base/containers/vec.h"
#include "engine/channels.h"
#include "engine/local/wire/wire.h"
#include "engine/worker.h"
#include "store/store.h"

struct sk_msg { /* a message that is saved for later */
    struct sk_list link;
    uint64_t req;
    size_t len;
    uint8_t bytes[];
};

struct sk_def { /* a function's definition; given to the runner before its first task */
    char *name;
    uint8_t *def;
    size_t len;
    bool given;
};

struct wtask;
struct sk_running { /* the part of a running task by which it is linked in a list */
    struct sk_list link;
    uint64_t tid, credit; /* credit: number of the task's yields that were taken */
};

struct sk_group { /* a concurrency group of an actor */
    struct sk_worker_engine *c;
    uint32_t max, n_running, n_threads, n_idle, n_queued;
    int fd; /* of an async actor: the eventfd that wakes its event loop; else -1 */
    struct sk_fd_id fd_id;
    struct sk_list queue; /* list of sk_msg: calls that have not begun */
    pthread_cond_t cond;  /* threads of the group wait here for calls */
};

struct sk_worker_engine {
    struct sk_engine base;
    struct sk_seg ctl_seg, data_seg;
    struct sk_ctl *ctl;
    struct sk_slot *slot;
    struct sk_ring down, up;
    uint32_t proc;
    int32_t pid;
    struct sk_runner *runner;
    /* guards everything below and both rings; not held while sleeping on the bell */
    pthread_mutex_t mu;
    _Atomic uint32_t n_waiting; /* number of threads that sleep on the bell */
    /* threads sleep on this while a reader thread reads the ring for them */
    pthread_cond_t cond;
    bool has_reader;
    /* Number of threads that wait on the bell, or are about to. A bell has one sleeper: the
     * reader begins when this is 0. */
    uint32_t n_on_bell;
    struct sk_list running;  /* list of sk_running: tasks that run here */
    struct sk_group *groups; /* concurrency groups of the actor; NULL: one call at a time */
    uint32_t n_groups;
    struct sk_need actor_need;
    bool has_need;
    bool is_async, ready; /* ready: the constructor has run, so calls may begin */
    uint64_t next_id, next_req;
    /* sk_msg: answers that were not taken yet */
    struct sk_list replies;
    struct sk_map watches; /* number of a request -> sk_watch */
    /* handles a call that was read (worker.c); called with mu held */
    void (*queue_call)(struct sk_worker_engine *c, struct sk_msg *m);
    /* sk_msg: calls of this actor that were read during a wait */
    struct sk_list queue;
    struct sk_map defs; /* fid -> sk_def: definitions that were received */
    /* hash of amounts -> shape + 1 */
    struct sk_map shapes;
    uint64_t lease_off, lease_len, lease_used, chunk;
    /* environment to be given to the runner before the next task; p NULL: none */
    struct sk_bytes env;
    /* the environment could not be set up: no task can run here; env_err has the reason */
    bool env_failed;
    struct sk_err env_err;
    struct wtask *free_tasks;
    pthread_mutex_t define_mu; /* held while a thread gives a definition to the runner */
    struct sk_map n_calls;     /* fid -> number of calls so far, of functions with max_calls */
    const char *shown;         /* the name that the slot shows, if it is that of a definition */
    /* Kept values of tasks that have not reported yet. The driver pins a kept value when it gets
     * the report, so the release of such a value is sent only after the report. */
    SK_VEC(struct sk_kept {
        uint64_t off;
        const void *of; /* the struct wtask that keeps it */
        bool let_go;
    })
    kept;
    bool exit;
    bool broken; /* the constructor of this process's actor has failed: no call begins any more */
    bool used;   /* a task has run since unused memory was last given back */
    /* a message was sent without waking the driver, which is done before this process sleeps */
    bool quiet;
};

/* ---- link.c */
/* Sends a message; waits for room in the ring. Call with mu held. */
void sk_worker_link_send_unlocked(struct sk_worker_engine *c, const void *msg, size_t len,
                                  bool wake);
/* sends a message of two numbers; called without c->mu, which it takes */
void sk_worker_link_tell(struct sk_worker_engine *c, uint32_t type, uint64_t a, uint64_t b,
                         bool wake);
/* Like send_unlocked, without waking the driver. It fails if it needs the store and the store
 * is full; then nothing was sent. */
sk_rc sk_worker_link_try_send_unlocked(struct sk_worker_engine *c, const void *msg, size_t len,
                                       struct sk_err *err) SK_MUST_USE;
/* Wakes the driver; with `lazy` not if the driver will check its rings by itself soon. */
void sk_worker_link_ring(struct sk_worker_engine *c, bool lazy);
/* Reads and handles one message; false: there is none. *task: a call that is to run. Call with mu
 * held. */
bool sk_worker_link_read(struct sk_worker_engine *c, bool in_wait, struct sk_msg **task);
/* Sleeps on the bell. Call with mu held; the lock is dropped during the sleep. */
void sk_worker_link_sleep_unlocked(struct sk_worker_engine *c, uint32_t seen, int64_t spin_ns,
                                   int64_t deadline);
/* Puts a value into the store, or makes it inline. */
sk_rc sk_worker_link_value(struct sk_worker_engine *c, const struct sk_payload *p, struct sk_val *v,
                           const void **bytes, struct sk_err *err);
/* ---- engine.c */
/* Sends a message with a value for object *oid; 0: a new object, whose id is stored there. */
sk_rc sk_worker_engine_send_value(struct sk_worker_engine *c, uint32_t type,
                                  const struct sk_payload *p, sk_oid *oid,
                                  struct sk_err *err) SK_MUST_USE;
/* Seals a kept value that the driver does not need, because its writer goes on reading the
 * value. */
void sk_worker_engine_unwanted(struct sk_worker_engine *c, const struct sk_val *v);
/* Call with mu held when the driver has pinned the values that task `of` keeps: sends the releases
 * that waited for that. */
void sk_worker_engine_unkeep(struct sk_worker_engine *c, const void *of);
/* Call when the worker is idle: gives the lease back. */
void sk_worker_link_idle(struct sk_worker_engine *c);
/* Waits until a message has arrived; may return too early. Call with mu held, and only while there
 * is a reader thread. */
void sk_worker_link_wait_unlocked(struct sk_worker_engine *c, int64_t deadline);
/* Starts the reader thread. Call with mu held. */
sk_rc sk_worker_link_start_reader(struct sk_worker_engine *c, struct sk_err *err) SK_MUST_USE;
/* ends the worker, with the reason */
void sk_worker_link_fd_lost(struct sk_worker_engine *c) __attribute__((noreturn));
/* wakes the group's event loop */
void sk_worker_link_nudge(struct sk_group *g);
#define REQ_AT 8 /* offset of the request's number in most messages */
/* Requests and their answers (link.c). Call without mu held. */
struct sk_msg *sk_worker_link_answer(struct sk_worker_engine *c, uint64_t req, int64_t deadline);
sk_rc sk_worker_link_answer_rc(const struct sk_msg *m, struct sk_rd *r, struct sk_err *err);
sk_rc sk_worker_link_answer_of(struct sk_worker_engine *c, uint64_t req, struct sk_err *err);
sk_rc sk_worker_link_number_of(struct sk_worker_engine *c, uint64_t req, uint64_t *out,
                               struct sk_err *err);
uint64_t sk_worker_link_ask(struct sk_worker_engine *c, void *msg, size_t len, size_t at);
sk_rc sk_worker_link_ask_number(struct sk_worker_engine *c, void *msg, size_t len, size_t at,
                                uint64_t *out, struct sk_err *err);
/* ---- windows.h */
sk_rc sk_worker_link_lease(struct sk_engine *e, size_t len, struct sk_buf *out, struct sk_err *err);
sk_rc sk_worker_link_buf_alloc(struct sk_engine *e, size_t len, struct sk_buf *out,
                               struct sk_err *err);
void sk_worker_link_buf_abort(struct sk_engine *e, struct sk_buf *b);

/* ---- engine.c */
/* the calls of a worker: the initial value of `base` */
extern const struct sk_engine sk_worker_engine_calls;

/* ---- engine_graph.c */
extern const struct sk_channels_ops sk_worker_engine_channels;

/* ---- task.c */
struct wtask {                /* a task that runs */
    struct sk_task_priv priv; /* must be first */
    struct sk_running run;    /* link in c->running */
    struct sk_worker_engine *c;
    struct sk_msg *msg;     /* the task's message, which holds the arguments and `wanted` */
    struct sk_group *group; /* the concurrency group of a call that runs beside others */
    struct wtask *next;     /* link in the list of free structs */
    struct sk_def *def;
    struct sk_need need;
    int64_t t0;
    char own_name[256];
    /* pending: run() returned SK_EAGAIN; told: the runner was told that the task is cancelled */
    bool pending, told;
    uint64_t first;
    uint32_t skip, window, n_ret, claim, max_calls;
    /* Yields below `from` exist, except wanted[]; n_made of these have been made. */
    uint32_t from, n_wanted, n_made;
    const uint32_t *wanted; /* points into the task's message */
    bool remake;
    bool failed;
    bool leave;          /* this process ends after the task */
    SK_VEC(uint8_t) set; /* of several returns: entry i is not 0 if return i is set */
    SK_VEC(uint8_t) out; /* values of the DONE message */
    uint32_t n_values;
    /* References inside the values. This process keeps them until the report is sent, even if
     * user code drops them meanwhile. */
    SK_VEC(uint64_t) held;
    uint8_t note[SK_NOTE_MAX];
    uint32_t note_len;
    SK_VEC(struct sk_view) args;
};
struct wtask *sk_wtask_get(struct sk_worker_engine *c); /* call with mu held */
void sk_wtask_put(struct wtask *t);                     /* call with mu held */
bool sk_wtask_begin(struct wtask *t, struct sk_msg *msg);
bool sk_wtask_run(struct wtask *t);

bool sk_wtask_cancelled(struct wtask *t);
/* Call with mu held when the constructor of an async actor has run: starts the event loops of
 * groups that have calls. */
void sk_worker_engine_start_loops(struct sk_worker_engine *c);

/* ---- worker.c */
/* Starts one more thread for the calls of a group. Call with mu held. */
void sk_worker_thread(struct sk_group *g);
/* call with mu held when a call of an async group has ended */
void sk_worker_step_more(struct sk_group *g);
/* Initialises *c, which is zeroed and has its segments mapped. The caller attaches the rings
 * afterwards. */
void sk_worker_engine_init(struct sk_worker_engine *c, struct sk_slot *slot, int32_t pid,
                           struct sk_runner *runner);
/* tells the driver that the worker is up, then runs tasks until it is told to end */
void sk_worker_engine_serve(struct sk_worker_engine *c);

#endif
