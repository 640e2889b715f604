/* worker.h - shared by engine.c, link.c, worker.c and task.c: a worker's side of the local engine.
 * One per worker process. */
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

struct sk_msg { /* a message kept for later */
    struct sk_list link;
    uint64_t req;
    size_t len;
    uint8_t bytes[];
};

struct sk_def { /* a function's definition; handed to the runner before its first task */
    char *name;
    uint8_t *def;
    size_t len;
    bool given;
};

struct wtask;
struct sk_running { /* part of a task under way */
    struct sk_list link;
    uint64_t tid, credit; /* how many of its yields were taken */
};

struct sk_group { /* calls of an actor that run side by side */
    struct sk_worker_engine *c;
    uint32_t max, n_running, n_threads, n_idle, n_queued;
    int fd; /* of an async actor: eventfd that its event loop looks at; else -1 */
    struct sk_fd_id fd_id;
    struct sk_list queue; /* sk_msg */
    pthread_cond_t cond;  /* threads of the group wait for calls */
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
    /* guards everything below and both rings; never held while sleeping on the bell */
    pthread_mutex_t mu;
    _Atomic uint32_t n_waiting; /* threads asleep on the bell */
    pthread_cond_t cond;        /* where those sleep for whom a reader thread reads the ring */
    bool has_reader;
    /* threads in a wait on the bell, or about to; a bell has one sleeper: the reader begins when
     * there is none */
    uint32_t n_on_bell;
    struct sk_list running;  /* sk_running */
    struct sk_group *groups; /* of the actor; NULL: one call at a time */
    uint32_t n_groups;
    struct sk_need actor_need;
    bool has_need;
    bool is_async, ready; /* the constructor has run: calls may begin */
    uint64_t next_id, next_req;
    /* sk_msg: answers nobody has taken yet */
    struct sk_list replies;
    struct sk_map watches; /* request -> sk_watch */
    /* locked: what to do with a call that was read (worker.c) */
    void (*queue_call)(struct sk_worker_engine *c, struct sk_msg *m);
    /* sk_msg: calls of this actor that were read while waiting */
    struct sk_list queue;
    struct sk_map defs; /* fid -> sk_def */
    /* hash of amounts -> shape + 1 */
    struct sk_map shapes;
    uint64_t lease_off, lease_len, lease_used, chunk;
    struct sk_bytes env; /* to be given to the runner before the next task; p NULL: nothing */
    bool env_failed;     /* no task can run here: env_err */
    struct sk_err env_err;
    struct wtask *free_tasks;
    pthread_mutex_t define_mu; /* one thread hands a definition to the runner */
    struct sk_map n_calls;     /* fid -> calls so far, of functions with max_calls */
    const char *shown;         /* the name in the slot, as long as it is a definition's */
    /* Kept values of tasks that have not reported yet: letting one go is told after the report,
     * which makes the pin. */
    SK_VEC(struct sk_kept {
        uint64_t off;
        const void *of; /* its struct wtask */
        bool let_go;
    })
    kept;
    bool exit;
    bool broken; /* the constructor of its actor failed: nothing is begun any more */
    bool used;   /* a task has run since unused memory was given back */
    bool quiet;  /* something was sent without waking the driver: done before this process sleeps */
};

/* link.c; "locked": c->mu is held */
/* locked; waits for room */
void sk_worker_link_send(struct sk_worker_engine *c, const void *msg, size_t len, bool wake);
/* The same, not waking anybody, but when it needs the store, which is full: nothing was sent
 * then. */
sk_rc sk_worker_link_try_send(struct sk_worker_engine *c, const void *msg, size_t len,
                              struct sk_err *err) SK_MUST_USE;
/* wake the driver; lazy: not if it looks by itself soon */
void sk_worker_link_ring(struct sk_worker_engine *c, bool lazy);
bool sk_worker_link_read(struct sk_worker_engine *c, bool in_wait,
                         /* locked; one message; false: none. *task: a call to run */
                         struct sk_msg **task);
/* locked; not while it sleeps */
void sk_worker_link_sleep(struct sk_worker_engine *c, uint32_t seen, int64_t spin_ns,
                          int64_t deadline);
sk_rc sk_worker_link_value(struct sk_worker_engine *c, const struct sk_payload *p, struct sk_val *v,
                           const void **bytes, struct sk_err *err); /* store or inline */
/* engine.c: a message with a value, of an object of that number; 0: a new one, which *oid is. */
sk_rc sk_worker_engine_send_value(struct sk_worker_engine *c, uint32_t type,
                                  const struct sk_payload *p, sk_oid *oid,
                                  struct sk_err *err) SK_MUST_USE;
void sk_worker_engine_unwanted(struct sk_worker_engine *c,
                               /* a kept value that nobody gets: sealed all the same, its writer
                                * reads it */
                               const struct sk_val *v);
/* locked: the pins of this task's kept values are made */
void sk_worker_engine_unkeep(struct sk_worker_engine *c, const void *of);
/* nothing to do: give the lease back */
void sk_worker_link_idle(struct sk_worker_engine *c);
/* locked, has_reader: until something came, or about so */
void sk_worker_link_wait(struct sk_worker_engine *c, int64_t deadline);
/* locked */
sk_rc sk_worker_link_start_reader(struct sk_worker_engine *c, struct sk_err *err) SK_MUST_USE;
/* the worker ends, and says why */
void sk_worker_link_fd_lost(struct sk_worker_engine *c) __attribute__((noreturn));
/* its event loop looks again */
void sk_worker_link_nudge(struct sk_group *g);
#define REQ_AT 8 /* of most requests: where their number stands */
/* Requests and their answers, not locked; see link.c. */
struct sk_msg *sk_worker_link_answer(struct sk_worker_engine *c, uint64_t req, int64_t deadline);
sk_rc sk_worker_link_answer_rc(const struct sk_msg *m, struct sk_rd *r, struct sk_err *err);
sk_rc sk_worker_link_answer_of(struct sk_worker_engine *c, uint64_t req, struct sk_err *err);
uint64_t sk_worker_link_ask(struct sk_worker_engine *c, void *msg, size_t len, size_t at);
sk_rc sk_worker_link_ask_number(struct sk_worker_engine *c, void *msg, size_t len, size_t at,
                                uint64_t *out, struct sk_err *err);
/* windows.h */
sk_rc sk_worker_link_lease(struct sk_engine *e, size_t len, struct sk_buf *out, struct sk_err *err);
sk_rc sk_worker_link_buf_alloc(struct sk_engine *e, size_t len, struct sk_buf *out,
                               struct sk_err *err);
void sk_worker_link_buf_abort(struct sk_engine *e, struct sk_buf *b);

/* engine.c */
/* the calls of a worker: what its `base` begins as */
extern const struct sk_engine sk_worker_engine_calls;

/* engine_graph.c */
extern const struct sk_channels_ops sk_worker_engine_channels;

/* task.c */
struct wtask {                /* a task under way */
    struct sk_task_priv priv; /* first */
    struct sk_running run;    /* in c->running */
    struct sk_worker_engine *c;
    struct sk_msg *msg;     /* its message: arguments and `wanted` lie in it */
    struct sk_group *group; /* of a call that runs beside others */
    struct wtask *next;     /* in the list of free ones */
    struct sk_def *def;
    struct sk_need need;
    int64_t t0;
    char own_name[256];
    bool pending, told; /* run() said SK_EAGAIN; the runner knows that it is cancelled */
    uint64_t first;
    uint32_t skip, window, n_ret, claim, max_calls;
    /* yields before `from` exist, but for wanted[]; n_made of these are done */
    uint32_t from, n_wanted, n_made;
    const uint32_t *wanted; /* in the task's message */
    bool remake;
    bool failed;
    bool leave;          /* this process is to leave after it */
    SK_VEC(uint8_t) set; /* which returns are set, when there are several */
    SK_VEC(uint8_t) out; /* values of the DONE message */
    uint32_t n_values;
    /* references inside the values: ours until the report is sent, whatever user code drops
     * meanwhile */
    SK_VEC(uint64_t) held;
    uint8_t note[SK_NOTE_MAX];
    uint32_t note_len;
    SK_VEC(struct sk_view) args;
};
struct wtask *sk_wtask_get(struct sk_worker_engine *c); /* locked */
void sk_wtask_put(struct wtask *t);                     /* locked */
bool sk_wtask_begin(struct wtask *t, struct sk_msg *msg);
bool sk_wtask_run(struct wtask *t);

bool sk_wtask_cancelled(struct wtask *t);
void sk_worker_engine_start_loops(
    /* locked: the constructor of an async actor has run: groups that have calls get their loops */
    struct sk_worker_engine *c);

/* worker.c */
void sk_worker_thread(struct sk_group *g);    /* locked: one more thread for the calls of a group */
void sk_worker_step_more(struct sk_group *g); /* locked: a call of an async group has ended */
void sk_worker_engine_init(struct sk_worker_engine *c, struct sk_slot *slot, int32_t pid,
                           /* zeroed, segments mapped; then attach the rings */
                           struct sk_runner *runner);
/* says hello, runs tasks until it is told to leave */
void sk_worker_engine_serve(struct sk_worker_engine *c);

#endif
