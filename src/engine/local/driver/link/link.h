/* link.h - the driver's end of one worker: messages down, answers, its end.
 *
 * Calls: none. */
#ifndef SK_LOCAL_LINK_H
#define SK_LOCAL_LINK_H

#include "base/containers/map.h"
#include "engine/local/wire/wire.h"
#include "engine/place/place.h"

struct sk_local;
struct sk_ltask;
struct sk_lactor;
struct sk_slot;
struct sk_err;

/* a worker, as the driver knows it; what no other part is named for is written by link.c and
 * pool.c */
struct sk_lworker {
    struct sk_place_worker place; /* by the calls of place.h */
    uint32_t slot, proc;
    int32_t pid;
    bool up, dying, killed;
    /* something it said could not be recorded: what it says after that may build on it, and is not
     * listened to */
    bool unheard;
    bool aside;   /* its process is stopped: it is given nothing */
    bool evicted; /* to make room for a worker of another kind */
    struct sk_slot *sh;
    struct sk_ring down, up_ring;
    struct sk_lactor *actor;
    uint64_t had_actor; /* the id of one that died while this process lives; 0: none */
    uint64_t n_done;
    int64_t idle_since_ns;
    /* the task that it had not begun when it was looked at last; UINT64_MAX: it was starting; 0:
     * neither */
    uint64_t head_seen;
    int64_t leave_ns;     /* not 0: since when it is leaving */
    uint64_t interrupt;   /* the task that is to be interrupted; 0: none, or it was */
    const char *kill_why; /* static text: why the engine killed it */
    /* not 0: because of this task; others that it takes along are not charged for it */
    uint64_t kill_task;
    int32_t refused; /* errno: the system refused to make it */
    struct sk_big {
        uint64_t *p;
        uint32_t n, cap;
    } big; /* store offsets of big messages under way */
    struct sk_out {
        uint8_t **p;
        uint32_t n, cap;
    } out; /* replies that did not fit into the ring yet: length-prefixed copies */

    /* send.c */
    struct sk_list sent; /* tasks on it, in order */
    struct sk_map known; /* ids of functions that it has */
    uint32_t next_claim;
    bool has_env;                     /* it was told its environment */
    uint64_t claimed[SK_CLAIMS / 64]; /* bit: the claim word is of a task in `sent` */

    /* request.c */
    struct sk_list reqs;
    struct sk_list watches; /* requests that nobody waits for */

    /* space_memory.c */
    uint32_t n_mem_waits; /* requests of it that wait for memory of the store */
    bool has_lease;

    struct sk_worker_mem {               /* memory.c */
        uint64_t heap_bytes, peak_bytes; /* of its own; highest since `task` began */
        /* counted by the kernel, but shared with the fork server */
        uint64_t shared_bytes;
        uint64_t task;              /* that it ran, or 0, when looked at last */
        int64_t since_ns, exact_ns; /* task began; shared_bytes is of then */
        bool oom, beside;           /* stopped for memory; while others ran */
        /* by SIGSTOP, until memory that is on its way back is there */
        bool paused;
        int pidfd;   /* while it is paused */
        char *story; /* of that; heap, may be NULL */
    } mem;
};

/* By ring or store. SK_EAGAIN: the ring is full now. SK_EFULL: the message needs the store, which
 * is full, and there is no room on disk. Nothing sent then. */
sk_rc sk_driver_link_send(struct sk_local *l, struct sk_lworker *w, const void *msg,
                          size_t len) SK_MUST_USE;
/* Sends an answer, which is never lost: it is kept until the ring has room. False: it is too large
 * for the ring, and store and disk are full, which can only be of a get or wait. */
bool sk_driver_link_reply(struct sk_local *l, struct sk_lworker *w, const void *msg, size_t len);
void sk_driver_link_flush(struct sk_local *l, struct sk_lworker *w);
void sk_driver_link_error(struct sk_local *l, struct sk_lworker *w, uint64_t req, sk_rc rc,
                          const char *msg);
/* Answers a request for one number: with `value`, or with an error. */
void sk_driver_link_answer(struct sk_local *l, struct sk_lworker *w, uint64_t req, sk_rc rc,
                           uint64_t value, const struct sk_err *err);
/* Answers a request for a text as long as `write` says. */
void sk_driver_link_list(struct sk_local *l, struct sk_lworker *w, uint64_t req,
                         size_t (*write)(struct sk_local *l, uint64_t what, void *buf, size_t cap),
                         uint64_t what);
/* Ids in a message of w are its own, and new. False: they are not, and w is killed. */
bool sk_driver_link_fresh_ids(struct sk_local *l, struct sk_lworker *w, uint64_t base);
/* Writes "\nin ..." and what the worker is at, as snprintf does; nothing if that is not known. */
size_t sk_driver_link_hand(const struct sk_lworker *w, char *buf, size_t cap);
void sk_driver_link_kill(struct sk_local *l, struct sk_lworker *w, const char *why);
/* Asks the worker to end by itself. Nothing is sent to it any more. */
void sk_driver_link_leave(struct sk_local *l, struct sk_lworker *w, const char *why);
/* A worker that is killed, and idle, is given nothing any more. */
void sk_driver_link_retire(struct sk_local *l, struct sk_lworker *w);
/* Kills the worker that the task is on. */
void sk_driver_link_kill_task(struct sk_local *l, struct sk_ltask *t, const char *why);
/* Interrupts that task on w, as soon as this is possible. */
void sk_driver_link_interrupt_task(struct sk_local *l, struct sk_lworker *w, uint64_t tid);
/* Sends SIGINT for the task w->interrupt, if it still runs there. */
void sk_driver_link_interrupt(struct sk_local *l, struct sk_lworker *w);

/* Something that it said could not be recorded: nothing it says is listened to any more, and it is
 * killed. */
void sk_driver_link_unheard(struct sk_local *l, struct sk_lworker *w, const char *why);
/* The worker has copied the big message at `off`. */
void sk_driver_link_big_read(struct sk_local *l, struct sk_lworker *w, uint64_t off);
/* The worker is this actor's from now on. */
void sk_driver_link_bind(struct sk_lworker *w, struct sk_lactor *a);
/* The actor of w is dead, and its process lives. It is of no use to others, because user state is
 * in it. */
void sk_driver_link_actor_dead(struct sk_lworker *w, uint64_t aid);
/* its process has ended */
void sk_driver_link_dying(struct sk_lworker *w);
static inline void sk_driver_link_reported(struct sk_lworker *w) { w->n_done++; } /* a task */
static inline void sk_driver_link_busy(struct sk_lworker *w) { w->idle_since_ns = 0; }
/* The process has ended, and nobody waits in it. */
void sk_driver_link_free(struct sk_lworker *w);

#endif
