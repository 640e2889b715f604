/* link.h - the driver's end of the link to one worker: messages and answers to the worker, and how
 * the worker is ended.
 *
 * Calls: none. The code of this part may call no other part of the driver; tests/shape.py reads
 * this line. */
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

/* A worker, as the driver knows it. Members that are not marked with another part are written by
 * link.c and pool.c. */
struct sk_lworker {
    struct sk_place_worker place; /* changed by the calls of place.h only */
    uint32_t slot, proc;
    int32_t pid;
    bool up, dying, killed;
    /* A message of this worker could not be recorded for lack of memory. Later messages may build
     * on the lost one, so all later messages are ignored. */
    bool unheard;
    bool stopped; /* the process is stopped (SIGSTOP), so the worker is given no tasks */
    bool evicted; /* the worker was told to end, to make room for a worker of another kind */
    struct sk_slot *sh;
    struct sk_ring down, up_ring;
    struct sk_lactor *actor;
    uint64_t had_actor; /* id of an actor that died while this process lives on; 0: none */
    uint64_t n_done;
    int64_t idle_since_ns;
    /* Result of the last check for stopped processes: the id of the first task that the worker had
     * not begun; UINT64_MAX: the worker was starting; 0: neither. */
    uint64_t head_seen;
    int64_t leave_ns;     /* time at which the worker was told to end; 0: it was not */
    uint64_t interrupt;   /* id of the task that has to be interrupted; 0: none, or this is done */
    const char *kill_why; /* static text: why the engine killed the worker */
    /* Not 0: the task because of which the worker was killed; other tasks that die with the worker
     * are not charged a retry. */
    uint64_t kill_task;
    int32_t refused; /* errno with which the system refused to fork the process; 0: not refused */
    struct sk_big {
        uint64_t *p;
        uint32_t n, cap;
    } big; /* store offsets of big messages that the worker has not copied yet */
    struct sk_out {
        uint8_t **p;
        uint32_t n, cap;
    } out; /* copies of replies that did not fit into the ring yet, each behind its length */

    /* members that send.c writes */
    struct sk_list sent; /* tasks on this worker, in order of sending */
    struct sk_map known; /* ids of the functions that the worker knows */
    uint32_t next_claim;
    bool has_env;                     /* the environment was sent to the worker */
    uint64_t claimed[SK_CLAIMS / 64]; /* bit i: claim word i belongs to a task in `sent` */

    /* members that request.c writes */
    struct sk_list reqs;
    /* watches: requests for a message, for which no thread of the worker waits */
    struct sk_list watches;

    /* members that space_memory.c writes */
    uint32_t n_mem_waits; /* number of this worker's requests that wait for memory of the store */
    bool has_lease;

    struct sk_worker_mem { /* written by memory.c */
        /* heap: memory of the worker's own; peak: the highest value since `task` began */
        uint64_t heap_bytes, peak_bytes;
        /* memory that the kernel counts for the worker, but that is shared with the fork server */
        uint64_t shared_bytes;
        uint64_t task; /* id of the task that ran here when memory was last measured; 0: none */
        /* since_ns: when that task began; exact_ns: when shared_bytes was measured */
        int64_t since_ns, exact_ns;
        /* oom: the worker was stopped because memory was short; beside: other tasks ran at that
         * time */
        bool oom, beside;
        /* the process is paused (SIGSTOP) until the memory that is being freed is available */
        bool paused;
        int pidfd; /* open while the process is paused */
        /* text that explains why the worker was stopped for memory; on the heap; NULL: none */
        char *story;
    } mem;
};

/* Sends a message by the ring, or through the store if it is large. SK_EAGAIN: the ring is full
 * now. SK_EFULL: the message needs the store, which is full, as is the disk. Nothing is sent
 * then. */
sk_rc sk_driver_link_send(struct sk_local *l, struct sk_lworker *w, const void *msg,
                          size_t len) SK_MUST_USE;
/* Sends an answer, which is never lost: it is kept until the ring has room. False: it is too
 * large for the ring, and store and disk are full; only answers to get and wait can be so large. */
bool sk_driver_link_reply(struct sk_local *l, struct sk_lworker *w, const void *msg, size_t len);
void sk_driver_link_flush(struct sk_local *l, struct sk_lworker *w);
void sk_driver_link_error(struct sk_local *l, struct sk_lworker *w, uint64_t req, sk_rc rc,
                          const char *msg);
/* Answers a request for one number: with `value`, or with an error. */
void sk_driver_link_answer(struct sk_local *l, struct sk_lworker *w, uint64_t req, sk_rc rc,
                           uint64_t value, const struct sk_err *err);
/* Answers a request for a list with the bytes that `write` gives. */
void sk_driver_link_list(struct sk_local *l, struct sk_lworker *w, uint64_t req,
                         size_t (*write)(struct sk_local *l, uint64_t what, void *buf, size_t cap),
                         uint64_t what);
/* Checks that the ids in a message of w are from its range and new. False: they are not, and w
 * is killed. */
bool sk_driver_link_fresh_ids(struct sk_local *l, struct sk_lworker *w, uint64_t base);
/* Writes "\nin ..." with the text that the worker has noted about its present work
 * (sk_worker_doing), as snprintf does; writes nothing if there is no such text. */
size_t sk_driver_link_hand(const struct sk_lworker *w, char *buf, size_t cap);
void sk_driver_link_kill(struct sk_local *l, struct sk_lworker *w, const char *why);
/* Asks the worker to end by itself. No more messages are sent to the worker. */
void sk_driver_link_leave(struct sk_local *l, struct sk_lworker *w, const char *why);
/* Takes an idle worker that was killed out of the placement, so that it is given no tasks. */
void sk_driver_link_retire(struct sk_local *l, struct sk_lworker *w);
/* Kills the worker on which the task is. */
void sk_driver_link_kill_task(struct sk_local *l, struct sk_ltask *t, const char *why);
/* Interrupts the task tid on w, as soon as that is possible. */
void sk_driver_link_interrupt_task(struct sk_local *l, struct sk_lworker *w, uint64_t tid);
/* Sends SIGINT for the task w->interrupt, if it still runs there. */
void sk_driver_link_interrupt(struct sk_local *l, struct sk_lworker *w);

/* Call when a message of w could not be recorded: later messages are ignored, and w is killed. */
void sk_driver_link_unheard(struct sk_local *l, struct sk_lworker *w, const char *why);
/* Call when the worker has copied the big message at `off`: frees the message. */
void sk_driver_link_big_read(struct sk_local *l, struct sk_lworker *w, uint64_t off);
/* Gives the worker to an actor for good. */
void sk_driver_link_bind(struct sk_lworker *w, struct sk_lactor *a);
/* Call when the actor of w is dead, but the process lives on. No other actor or task may use the
 * process, because it has user state. */
void sk_driver_link_actor_dead(struct sk_lworker *w, uint64_t aid);
/* call when the process of w has ended */
void sk_driver_link_dying(struct sk_lworker *w);
/* counts one more task of w that is reported as ended */
static inline void sk_driver_link_reported(struct sk_lworker *w) { w->n_done++; }
static inline void sk_driver_link_busy(struct sk_lworker *w) { w->idle_since_ns = 0; }
/* Frees w. Its process has ended, and no request of it is left. */
void sk_driver_link_free(struct sk_lworker *w);

#endif
