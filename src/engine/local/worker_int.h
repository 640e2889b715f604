/* worker_int.h - shared by client.c and worker.c: a worker's side of the local engine. One per worker process. */
#ifndef SK_WORKER_INT_H
#define SK_WORKER_INT_H

#include "engine/local/local_int.h"

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

struct sk_client {
    struct sk_engine base;
    struct sk_seg ctl_seg, data_seg;
    struct sk_ctl *ctl;
    struct sk_slot *slot;
    struct sk_ring down, up;
    uint32_t proc;
    int32_t pid;
    struct sk_runner *runner;
    pthread_mutex_t mu; /* guards everything below and both rings; never held while sleeping on the bell */
    uint32_t n_waiting; /* threads asleep on the bell */
    uint64_t next_id, next_req;
    struct sk_list replies; /* sk_msg: answers nobody has taken yet */
    struct sk_list queue;   /* sk_msg: calls of this actor that were read while waiting */
    struct sk_map defs;     /* fid -> sk_def */
    struct sk_map shapes;   /* hash of amounts -> shape + 1 */
    uint64_t lease_off, lease_len, lease_used, chunk;
    uint64_t cur_tid, credit; /* the running task; how many of its yields were taken */
    bool exit;
    bool broken; /* the constructor of its actor failed: nothing is begun any more */
    bool quiet;  /* something was sent without waking the driver: done before this process sleeps */
};

/* client.c; "locked": c->mu is held */
void sk_client_send(struct sk_client *c, const void *msg, size_t len, bool wake); /* locked; waits for room */
/* The same, not waking anybody, but when it needs the store, which is full: nothing was sent then. */
sk_rc sk_client_try_send(struct sk_client *c, const void *msg, size_t len, struct sk_err *err) SK_MUST_USE;
void sk_client_ring(struct sk_client *c, bool lazy);                          /* wake the driver; lazy: not if it looks by itself soon */
bool sk_client_read(struct sk_client *c, bool in_wait, struct sk_msg **task); /* locked; one message; false: none. *task: a call to run */
void sk_client_sleep(struct sk_client *c, uint32_t seen, int64_t spin_ns, int64_t deadline); /* not locked */
sk_rc sk_client_value(struct sk_client *c, const struct sk_payload *p, struct sk_val *v, const void **bytes,
                      struct sk_err *err); /* store or inline */
void sk_client_idle(struct sk_client *c);  /* nothing to do: give the lease back */
extern const struct sk_engine_ops sk_client_ops;

/* worker.c */
void sk_client_init(struct sk_client *c, struct sk_slot *slot, int32_t pid,
                    struct sk_runner *runner); /* zeroed, segments mapped; then attach the rings */
void sk_client_serve(struct sk_client *c);     /* says hello, runs tasks until it is told to leave */

#endif
