/* space.h - room in the store: waits for it, eviction to disk, reading back, and the overflow.
 *
 * Calls: extent, functions, moves, object, part, link, recover, send, stored, task. The code of
 * this part may call these parts of the driver and no others; tests/shape.py reads this line. */
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

struct sk_get_wait { /* a get that waits; its values in the store are not evicted meanwhile */
    struct sk_list link;
    const uint64_t *ids;
    size_t n;
    sk_rc refused; /* not SK_OK: a value of this get cannot be read back (space.refuse_msg) */
};

struct sk_mem_wait { /* a wait for memory of the store */
    struct sk_list link;
    struct sk_lworker *w;   /* NULL: a caller in the driver, on whose stack this struct is */
    uint64_t req, len, min; /* len: bytes requested; min: the least that is enough */
    uint64_t graph;         /* not 0: the memory is for an extent of this graph */
    uint64_t off, got;
    sk_rc rc; /* SK_EAGAIN during the wait, then the result */
    struct sk_err *err;
};

struct sk_space {
    struct sk_spill *spill;              /* NULL: this engine does not spill */
    struct sk_list mem_waits, get_waits; /* the oldest first */
    uint64_t epoch;                      /* round of the marks, see space_mark.c */
    uint64_t writing_bytes;              /* bytes in the store that are being written */
    uint32_t n_io;                       /* disk jobs under way */
    uint32_t n_inside;                   /* callers in the driver that wait */
    /* most bytes that the store may take now, since workers' heaps need the rest; 0: no limit */
    uint64_t cap_bytes;

    /* members for evicting */
    /* n_released: counts releases of memory; released_seen: its value when awaited values were
     * evicted last */
    uint64_t n_released, released_seen;
    /* values that a get waits for are being evicted: nothing is read meanwhile */
    bool last_resort;
    /* time of the next try to choose values to evict, after a choice that found none */
    int64_t choose_after_ns;
    /* result of the last write. A failure: disk_msg says why, and the disk is tried again at
     * disk_retry_ns. */
    sk_rc disk_rc;
    int64_t disk_retry_ns;

    /* members for reading */
    /* id of the first wanted value when gather_first last requested its waiter's other values */
    uint64_t gathered;
    /* last_pos: position on disk of the last read; ahead_bytes: bytes to read ahead when small
     * values are read one after the other */
    uint64_t last_pos, ahead_bytes;
    sk_rc refuse_rc;
    uint64_t n_spoiled; /* values whose checksum was wrong when they were read */

    /* members for waits without progress: see space_stuck.c */
    bool waiting; /* something waited for room at the end of the last step */
    /* the tasks queued on workers were taken back since the last progress */
    bool taken_back;
    bool held_back; /* an actor has calls that cannot be sent only because memory is short */
    /* progress_ns: time of the last progress; alone_ns: time since when no running task could bring
     * progress */
    int64_t progress_ns, alone_ns;
    uint64_t free_seen;                  /* free bytes of the store at the last step */
    uint64_t n_overflow, overflow_bytes; /* values put into the overflow so far, and their bytes */
    uint64_t overflow_released;          /* n_released when a value went to the overflow last */
    char disk_msg[400], refuse_msg[1100], spoiled_msg[300];
};

void sk_space_init(struct sk_local *l);
/* Opens the disk behind the store. Without directories there is no spilling. */
sk_rc sk_space_open(struct sk_local *l, const struct sk_engine_conf *conf,
                    struct sk_err *err) SK_MUST_USE;
void sk_space_close(struct sk_local *l);
/* Called before a task is sent. SK_EAGAIN: an argument is on disk, and t is WAITING for it.
 * SK_ENOMEM: nothing changed. */
sk_rc sk_space_args(struct sk_local *l, struct sk_ltask *t) SK_MUST_USE;
/* Allocates memory of the store for proc; does not wait. */
sk_rc sk_space_alloc(struct sk_local *l, uint32_t proc, uint64_t len, sk_off *off,
                     struct sk_err *err) SK_MUST_USE;
/* Allocates memory of the overflow, for requests that must not wait. err holds the reason why the
 * store had no room; a failure adds to that message. */
sk_rc sk_space_overflow(struct sk_local *l, uint32_t proc, uint64_t len, sk_off *off,
                        struct sk_err *err) SK_MUST_USE;
/* Makes a request wait for those of its objects that are on disk. True: there is such an object. */
bool sk_space_get(struct sk_local *l, struct sk_req *q);
/* Answers a lease request of w, now or later, with [off, +len) or [off, +min), or an error.
 * graph 0: a lease of the worker, else an extent of that graph. */
void sk_space_lease(struct sk_local *l, struct sk_lworker *w, uint64_t req, uint64_t graph,
                    uint64_t len, uint64_t min);
/* Answers a lease request of w at once: only if a sixteenth of the store stays free and nothing
 * waits for room. */
void sk_space_lease_now(struct sk_local *l, struct sk_lworker *w, uint64_t req, uint64_t len);
/* Registers a wait of a caller in the driver: r->rc says when it has its memory, or cannot have
 * it. */
void sk_space_await(struct sk_local *l, struct sk_mem_wait *r);
/* Registers a get that waits: its values stay in the store until sk_space_get_over. */
void sk_space_get_begins(struct sk_local *l, struct sk_get_wait *g);
void sk_space_get_over(struct sk_local *l, struct sk_get_wait *g);
/* Notes that a caller in the driver begins to wait, or goes on. A caller that waits cannot release
 * memory by its own code. */
void sk_space_caller_waits(struct sk_local *l, bool waits);
/* Notes that an actor has calls that only lack memory: the next step tries to send them again. */
void sk_space_hold_back(struct sk_local *l);
/* Sets the most bytes that the store may take, since heaps need the rest; 0: no limit. */
void sk_space_cap(struct sk_local *l, uint64_t bytes);
/* gives back the disk space of values freed in the overflow */
void sk_space_give_back(struct sk_local *l);
void sk_space_worker_gone(struct sk_local *l, struct sk_lworker *w);
/* Called in each turn of the loop: takes the results of disk jobs, and serves waits. */
void sk_space_step(struct sk_local *l);
/* how many times this thread holds the lock of an engine, which is recursive */
extern _Thread_local int sk_space_depth;
bool sk_space_check(struct sk_local *l);
/* True if w runs a task that is not waiting. */
bool sk_space_at_work(const struct sk_lworker *w);

#endif
