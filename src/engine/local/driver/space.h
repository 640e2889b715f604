/* space.h - room in the store, and the disk behind it.
 *
 * Calls: extent, functions, moves, object, part, link, recover, send, stored, task. */
#ifndef SK_LOCAL_SPACE_H
#define SK_LOCAL_SPACE_H

#include "base/list.h"
#include "engine/engine.h"
#include "store/store.h"

struct sk_local;
struct sk_ltask;
struct sk_lworker;
struct sk_req;
struct sk_err;

struct sk_getter { /* a get that waits: what it has so far stays in the store */
    struct sk_list link;
    const uint64_t *ids;
    size_t n;
    sk_rc refused; /* one cannot be brought back (space.refuse_msg) */
};

struct sk_room { /* somebody waits for room in the store */
    struct sk_list link;
    struct sk_lworker *w;   /* NULL: a caller in the driver, on whose stack this is */
    uint64_t req, len, min; /* `min` will do */
    uint64_t graph;         /* not 0: for an extent of that */
    uint64_t off, got;
    sk_rc rc; /* SK_EAGAIN: it waits */
    struct sk_err *err;
};

struct sk_space {               /* space.c */
    struct sk_spill *spill;     /* NULL: nothing is spilled */
    struct sk_list rooms, gets; /* oldest first */
    uint64_t epoch, writing_bytes, n_spoiled;
    uint64_t n_overflow, overflow_bytes; /* what went there so far */
    uint64_t n_released, released_seen;  /* how often somebody who used memory let some go; when the last campaign began */
    uint64_t overflow_released;          /* and when something went to the overflow last */
    uint64_t gathered;                   /* the object that was wanted back first when all for its waiter was asked for */
    uint32_t n_io, n_inside;             /* jobs under way; callers that wait in the driver */
    uint64_t last_pos, ahead_bytes;      /* reading one small object after the other */
    sk_rc disk_rc, refuse_rc;
    int64_t disk_retry_ns, choose_after_ns, progress_ns, alone_ns;
    uint64_t free_seen;
    bool waiting, taken_back;
    uint64_t cap_bytes; /* it may take so much now, whatever its size: heaps need the rest. 0: as much as there is */
    bool campaign;      /* what others wait for is being taken */
    bool held_back;     /* an actor has calls that could be sent, but for memory */
    char disk_msg[400], refuse_msg[1100], spoiled_msg[300];
};

void sk_space_init(struct sk_local *l);
sk_rc sk_space_open(struct sk_local *l, const struct sk_engine_conf *conf,
                    struct sk_err *err) SK_MUST_USE; /* no directories: no spilling */
void sk_space_close(struct sk_local *l);
/* Before a task is sent. SK_EAGAIN: an argument is on disk, t is WAITING for it. SK_ENOMEM: nothing changed. */
sk_rc sk_space_args(struct sk_local *l, struct sk_ltask *t) SK_MUST_USE;
sk_rc sk_space_alloc(struct sk_local *l, uint32_t proc, uint64_t len, sk_off *off, struct sk_err *err) SK_MUST_USE; /* does not wait */
/* On disk, behind the store: for what cannot wait. err has told why the store would not do, and that stays its beginning. */
sk_rc sk_space_overflow(struct sk_local *l, uint32_t proc, uint64_t len, sk_off *off, struct sk_err *err) SK_MUST_USE;
bool sk_space_get(struct sk_local *l, struct sk_req *q); /* true: some of its objects are on disk, it waits for them now */
/* Replies now or later, with [off, +len) or [off, +min), or an error. graph 0: the worker's, else an extent of that. */
void sk_space_lease(struct sk_local *l, struct sk_lworker *w, uint64_t req, uint64_t graph, uint64_t len, uint64_t min);
/* The same for the worker, at once: only while a sixteenth of the store stays free, and nobody waits. */
void sk_space_lease_now(struct sk_local *l, struct sk_lworker *w, uint64_t req, uint64_t len);
void sk_space_await(struct sk_local *l, struct sk_room *r);        /* a caller in the driver: r->rc says when it has its bytes, or none */
void sk_space_get_begins(struct sk_local *l, struct sk_getter *g); /* what it has so far stays in the store, until */
void sk_space_get_over(struct sk_local *l, struct sk_getter *g);
void sk_space_caller_waits(struct sk_local *l,
                           bool waits);      /* a caller in the driver does, or goes on: meanwhile its own code lets nothing go */
void sk_space_hold_back(struct sk_local *l); /* an actor has calls that could be sent, but for memory: advanced by the next step */
void sk_space_cap(struct sk_local *l, uint64_t bytes); /* the store may take so much now, heaps need the rest; 0: as much as there is */
void sk_space_give_back(struct sk_local *l);           /* disk of what was freed in the overflow */
void sk_space_worker_gone(struct sk_local *l, struct sk_lworker *w);
void sk_space_step(struct sk_local *l);  /* each turn of the loop: what the disk has done, who can be served */
extern _Thread_local int sk_space_depth; /* how often this thread holds an engine's lock */
bool sk_space_check(struct sk_local *l);
/* Does it run a call that waits for nothing? */
bool sk_space_at_work(const struct sk_lworker *w);

#endif
