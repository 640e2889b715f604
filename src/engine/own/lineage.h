/* lineage.h - how to make a lost object again: the finished tasks that are kept for it, and the
 * tasks to run, in order. Pure: no clock, no ipc.
 *
 * A task is *kept* while any of its returns may be needed: the return is in scope (it is
 * referenced), or another kept task has it as an argument. A kept task holds no reference: its
 * arguments may go out of scope, for they can be made again. So this always holds:
 *
 *     every argument of a kept task is in scope, or a kept task makes it.                       (*)
 *
 * If something breaks (*) - a put() argument goes out of scope, a task is evicted or has used up
 * its retries - every task that can no longer be run is dropped at once, and the reason is recorded
 * at its returns that are in scope. So a lost object either can be made again, or the reason why
 * not is at hand, and no memory is spent on tasks that are of no use.
 *
 * The byte budget counts what the caller says a task costs; when it is exceeded, the oldest tasks
 * are evicted first. Tasks under way (`open`: running for the first time, a stream that still
 * yields; or running again) are not evicted.
 *
 * Tasks that are no longer kept come out of sk_lineage_next_free: drain it after each call. Every
 * walk is iterative (chains of 1e5 are fine).
 * Cost: add + gone + drain of a task with one return and one argument about 70 ns. Thread-safety:
 * none; the engine's lock guards it. */
#ifndef SK_LINEAGE_H
#define SK_LINEAGE_H

#include "base/base.h"
#include "base/err.h"

struct sk_lineage;

/* Why an object cannot be made again. */
enum sk_lost_why {
    SK_LOST_PUT,     /* no task made it */
    SK_LOST_ACTOR,   /* a call of an actor made it, which is not repeated */
    SK_LOST_RETRIES, /* the task that made it has no retries (left) */
    SK_LOST_EVICTED, /* the task that made it was evicted (budget, or no memory) */
    /* The task that made the object needs another object that cannot be made again. Only the caller
     * uses this value; lineage names the object at fault instead. */
    SK_LOST_NEEDS,
};

struct sk_lineage_task { /* what sk_lineage_add needs to know of a task; copied */
    uint64_t id;
    const uint64_t *args; /* arguments, all in scope; duplicates are fine */
    uint32_t n_args;
    const uint64_t *returns; /* returns that are in scope */
    uint32_t n_returns;
    uint64_t bytes;  /* cost that counts against the budget */
    int32_t retries; /* number of times that the task may run again: > 0, or -1 = no limit */
    /* The task still runs: more returns will come (sk_lineage_return), then sk_lineage_done. */
    bool open;
    void *data; /* owned by the caller; returned by the calls below */
};

sk_rc sk_lineage_create(struct sk_lineage **out, uint64_t budget_bytes,
                        struct sk_err *err) SK_MUST_USE;
/* Frees lineage. It does not free the `data` of tasks: the caller walks and drains them before. */
void sk_lineage_destroy(struct sk_lineage *l);

/* Keeps a task. A task whose returns are not needed is given by next_free at once, and so does
 * one larger than the budget. SK_EINVAL: the id is 0 or kept already, retries is 0, an argument
 * or a return is known to be out of scope, or a return is known to be made by another task.
 * SK_ENOMEM. Nothing changes on failure. The returns of a task must not be needed to make its
 * own arguments (ids tell: returns are younger). */
sk_rc sk_lineage_add(struct sk_lineage *l, const struct sk_lineage_task *t,
                     struct sk_err *err) SK_MUST_USE;
/* Adds a return, in scope, to a task under way, and `bytes` to its cost. If the task is not kept
 * (any more), the call returns SK_OK and only records the reason. */
sk_rc sk_lineage_return(struct sk_lineage *l, uint64_t task, uint64_t oid, uint64_t bytes,
                        struct sk_err *err) SK_MUST_USE;
/* Call when a task under way (open, or from next_task) has ended, well or not. It may run `retries`
 * times more (0: it is dropped). Unknown ids are fine. */
void sk_lineage_done(struct sk_lineage *l, uint64_t task, int32_t retries);
/* Call when the object went out of scope: its value and its references are gone. `why` is recorded
 * if no task is known to have made it. */
void sk_lineage_gone(struct sk_lineage *l, uint64_t oid, enum sk_lost_why why);

/* Call when the value of this object, which is in scope, is lost. True: it will be made by the
 * tasks that next_task gives now, or by one under way (then next_task gives none). False: it cannot
 * be made: *why is the reason, *culprit the object whose absence is the reason (oid itself, or an
 * object that oid was made from), and tasks that need it are dropped. `why` on entry: as for gone.
 * Drain next_object, then next_task, before the next call of lost. */
bool sk_lineage_lost(struct sk_lineage *l, uint64_t oid, enum sk_lost_why *why, uint64_t *culprit);
/* Gives objects that were out of scope and are in scope again (the caller calls sk_lineage_gone
 * when that ends). */
bool sk_lineage_next_object(struct sk_lineage *l, uint64_t *oid);
/* Gives tasks to run, those that make arguments of others first. `retries`: number of times that
 * the task may run after this run. Each ends with sk_lineage_done. */
bool sk_lineage_next_task(struct sk_lineage *l, uint64_t *id, void **data, int32_t *retries);
/* Gives tasks that are no longer kept. */
bool sk_lineage_next_free(struct sk_lineage *l, uint64_t *id, void **data);

/* Adds bytes that several kept tasks need, which count against the budget as well; a negative
 * number takes bytes away that were added so. */
void sk_lineage_charge(struct sk_lineage *l, int64_t bytes);

/* Why the task that next_free gave last is no longer kept; SK_LOST_EVICTED also when nobody
 * needed it. *culprit: 0, or the object whose absence is the reason. */
enum sk_lost_why sk_lineage_freed_why(const struct sk_lineage *l, uint64_t *culprit);

/* The `data` of the kept task that makes oid; NULL: there is none. */
void *sk_lineage_maker(const struct sk_lineage *l, uint64_t oid);
/* True if oid is a return or an argument of a kept task: then gone must be called for it. */
bool sk_lineage_knows(const struct sk_lineage *l, uint64_t oid);
uint64_t sk_lineage_bytes(const struct sk_lineage *l);
uint64_t sk_lineage_n(const struct sk_lineage *l); /* number of kept tasks */
uint64_t sk_lineage_n_evicted(const struct sk_lineage *l);
/* Gives unused memory back, as far as possible. */
void sk_lineage_shrink(struct sk_lineage *l);
bool sk_lineage_each(const struct sk_lineage *l, uint32_t *cursor, uint64_t *id, void **data);
/* Recounts everything and checks (*). For tests. */
bool sk_lineage_check(const struct sk_lineage *l);

#endif
