/* space.h - room in the store, and the disk behind it.
 *
 * Calls: extent, functions, moves, object, part, link, recover, send, stored, task. */
#ifndef SK_LOCAL_SPACE_H
#define SK_LOCAL_SPACE_H

#include "base/containers/list.h"
#include "engine/engine.h"
#include "store/store.h"

struct sk_local;
struct sk_ltask;
struct sk_lworker;
struct sk_req;
struct sk_err;

struct sk_get_wait { /* a get that waits: what it has so far stays in the store */
    struct sk_list link;
    const uint64_t *ids;
    size_t n;
    sk_rc refused; /* one of its values cannot be read back (space.refuse_msg) */
};

struct sk_mem_wait { /* somebody waits for memory of the store */
    struct sk_list link;
    struct sk_lworker *w;   /* NULL: a caller in the driver, on whose stack this is */
    uint64_t req, len, min; /* `min` will do */
    uint64_t graph;         /* not 0: for an extent of that */
    uint64_t off, got;
    sk_rc rc; /* SK_EAGAIN: it waits */
    struct sk_err *err;
};

struct sk_space {
    struct sk_spill *spill;              /* NULL: nothing is written to disk */
    struct sk_list mem_waits, get_waits; /* the oldest first */
    uint64_t epoch;                      /* of the marks, space_mark.c */
    uint64_t writing_bytes;              /* in the store, and being written */
    uint32_t n_io;                       /* jobs of the disk under way */
    uint32_t n_inside;                   /* callers that wait in the driver */
    /* the store may take so much now, heaps need the rest; 0: as much as there is */
    uint64_t cap_bytes;

    /* evicting */
    /* how often somebody let memory go; the same when awaited values were evicted last */
    uint64_t n_released, released_seen;
    /* awaited values are being evicted: nothing is read meanwhile */
    bool last_resort;
    int64_t choose_after_ns; /* the last choice found nothing */
    /* of the last write; refused: why is in disk_msg, and it is asked again at disk_retry_ns */
    sk_rc disk_rc;
    int64_t disk_retry_ns;

    /* reading */
    /* the value that was wanted first when all for its waiter was asked for */
    uint64_t gathered;
    uint64_t last_pos, ahead_bytes; /* reading one small value after the other */
    sk_rc refuse_rc;
    uint64_t n_spoiled; /* values whose bytes came back wrong */

    /* nothing moves: space_stuck.c */
    bool waiting; /* somebody waited at the end of the last step */
    /* what was queued on workers, since something moved last */
    bool taken_back;
    bool held_back; /* an actor has calls that could be sent, but for memory */
    /* since when nothing moves, and since when nobody is at work who could bring a change */
    int64_t progress_ns, alone_ns;
    uint64_t free_seen;                  /* free bytes of the store at the last look */
    uint64_t n_overflow, overflow_bytes; /* what went to the overflow so far */
    uint64_t overflow_released;          /* n_released when something went there last */
    char disk_msg[400], refuse_msg[1100], spoiled_msg[300];
};

void sk_space_init(struct sk_local *l);
sk_rc sk_space_open(struct sk_local *l, const struct sk_engine_conf *conf,
                    struct sk_err *err) SK_MUST_USE; /* no directories: no spilling */
void sk_space_close(struct sk_local *l);
/* Before a task is sent. SK_EAGAIN: an argument is on disk, t is WAITING for it. SK_ENOMEM: nothing
 * changed. */
sk_rc sk_space_args(struct sk_local *l, struct sk_ltask *t) SK_MUST_USE;
/* does not wait */
sk_rc sk_space_alloc(struct sk_local *l, uint32_t proc, uint64_t len, sk_off *off,
                     struct sk_err *err) SK_MUST_USE;
/* On disk, behind the store: for what cannot wait. err has told why the store would not do, and
 * that stays its beginning. */
sk_rc sk_space_overflow(struct sk_local *l, uint32_t proc, uint64_t len, sk_off *off,
                        struct sk_err *err) SK_MUST_USE;
/* true: some of its objects are on disk, it waits for them now */
bool sk_space_get(struct sk_local *l, struct sk_req *q);
/* Replies now or later, with [off, +len) or [off, +min), or an error. graph 0: the worker's, else
 * an extent of that. */
void sk_space_lease(struct sk_local *l, struct sk_lworker *w, uint64_t req, uint64_t graph,
                    uint64_t len, uint64_t min);
/* The same for the worker, at once: only while a sixteenth of the store stays free, and nobody
 * waits. */
void sk_space_lease_now(struct sk_local *l, struct sk_lworker *w, uint64_t req, uint64_t len);
/* a caller in the driver: r->rc says when it has its bytes, or none */
void sk_space_await(struct sk_local *l, struct sk_mem_wait *r);
/* what it has so far stays in the store, until */
void sk_space_get_begins(struct sk_local *l, struct sk_get_wait *g);
void sk_space_get_over(struct sk_local *l, struct sk_get_wait *g);
void sk_space_caller_waits(struct sk_local *l,
                           /* a caller in the driver does, or goes on: meanwhile its own code lets
                            * nothing go */
                           bool waits);
/* an actor has calls that could be sent, but for memory: advanced by the next step */
void sk_space_hold_back(struct sk_local *l);
/* the store may take so much now, heaps need the rest; 0: as much as there is */
void sk_space_cap(struct sk_local *l, uint64_t bytes);
void sk_space_give_back(struct sk_local *l); /* disk of what was freed in the overflow */
void sk_space_worker_gone(struct sk_local *l, struct sk_lworker *w);
/* each turn of the loop: what the disk has done, who can be served */
void sk_space_step(struct sk_local *l);
extern _Thread_local int sk_space_depth; /* how often this thread holds an engine's lock */
bool sk_space_check(struct sk_local *l);
/* Does it run a call that waits for nothing? */
bool sk_space_at_work(const struct sk_lworker *w);

#endif
