/* lineage.h - how to make a lost object again: the finished tasks that are kept for it, and what to
 * run in which order. Pure: no clock, no ipc.
 *
 * A task is *kept* while any of its returns may be needed: the return is in scope, or another kept
 * task has it as an argument. A kept task
 * holds nothing: its arguments may go out of scope, for they can be made again. So this always
 * holds:
 *
 *     every argument of a kept task is in scope, or a kept task makes it.
 *     (*)
 *
 * Whatever breaks (*) - a put() argument goes out of scope, a task is evicted or has used up its
 * retries - ends the keeping of every task that it made hopeless, at once, and leaves the reason at
 * those of their returns that are in scope. So what is lost either can be made again, or the reason
 * why not is at hand, and no memory is spent on hopes.
 *
 * The byte budget counts what the caller says a task costs; when it is exceeded the oldest go
 * first. Tasks under way (`open`: running for the first time, a stream that still yields; or
 * running again) are not evicted.
 *
 * What is not kept any more comes out of sk_lineage_next_free: drain after each call. Every walk is
 * iterative (chains of 1e5 are fine).
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
    SK_LOST_ACTOR,   /* a call of an actor made it: not repeated */
    SK_LOST_RETRIES, /* its task may not run (again) */
    SK_LOST_EVICTED, /* its task was forgotten, for the budget's sake or for want of memory */
    /* its task needs something that cannot be made again (said by the caller; lineage names the
     * culprit instead) */
    SK_LOST_NEEDS,
};

struct sk_lineage_task { /* copied */
    uint64_t id;
    const uint64_t *args; /* objects in scope; duplicates are fine */
    uint32_t n_args;
    const uint64_t *returns; /* those in scope */
    uint32_t n_returns;
    uint64_t bytes;  /* against the budget */
    int32_t retries; /* how often it may run again: > 0, or -1 = for ever */
    /* it still runs: more returns will come (sk_lineage_return), then sk_lineage_done */
    bool open;
    void *data; /* the caller's; comes back */
};

sk_rc sk_lineage_create(struct sk_lineage **out, uint64_t budget_bytes,
                        struct sk_err *err) SK_MUST_USE;
/* the data of what is kept or not drained is forgotten: walk it before */
void sk_lineage_destroy(struct sk_lineage *l);

/* A task to keep. One that nothing needs comes straight out of next_free, as does one that is
 * larger than the budget.
 * SK_EINVAL: the id is 0 or kept, retries is 0, an argument or a return is known to be out of
 * scope, a return is known to be made by another task. SK_ENOMEM. Nothing changed on failure. What
 * a task makes must not be needed to make its own arguments (ids tell: it is younger). */
sk_rc sk_lineage_add(struct sk_lineage *l, const struct sk_lineage_task *t,
                     struct sk_err *err) SK_MUST_USE;
/* One more return, in scope, of a task under way; `bytes` more. A task that is not kept (any more):
 * SK_OK and nothing happens, but the reason is recorded. */
sk_rc sk_lineage_return(struct sk_lineage *l, uint64_t task, uint64_t oid, uint64_t bytes,
                        struct sk_err *err) SK_MUST_USE;
/* A task under way (open, or from next_task) ended, well or not; it may run `retries` times more
 * (0: forgotten). Unknown ids are fine. */
void sk_lineage_done(struct sk_lineage *l, uint64_t task, int32_t retries);
/* The object went out of scope: its value and its references are gone. `why`: what it is if no task
 * is known to have made it. */
void sk_lineage_gone(struct sk_lineage *l, uint64_t oid, enum sk_lost_why why);

/* The value of this object, which is in scope, is lost. True: it will be made by the tasks that
 * next_task gives now, or by one under way (then none). False: it cannot be made, *why, and
 * *culprit is the object whose absence is the reason (oid itself, or something it was made from);
 * tasks that need it are kept no more. `why` in: as for gone. Drain next_object, then next_task,
 * before the next lost. */
bool sk_lineage_lost(struct sk_lineage *l, uint64_t oid, enum sk_lost_why *why, uint64_t *culprit);
/* Objects that were out of scope and are in scope again (say gone when that ends). */
bool sk_lineage_next_object(struct sk_lineage *l, uint64_t *oid);
/* Tasks to run, makers of arguments first. `retries`: how often it may run after that. Each ends
 * with sk_lineage_done. */
bool sk_lineage_next_task(struct sk_lineage *l, uint64_t *id, void **data, int32_t *retries);
/* Tasks that are not kept any more. */
bool sk_lineage_next_free(struct sk_lineage *l, uint64_t *id, void **data);

/* Why the task that next_free gave last is not kept any more; SK_LOST_EVICTED also when nobody
 * needed it. *culprit: 0, or the object whose absence is the reason. */
enum sk_lost_why sk_lineage_freed_why(const struct sk_lineage *l, uint64_t *culprit);

/* The kept task that makes it: its data; NULL: none. */
void *sk_lineage_maker(const struct sk_lineage *l, uint64_t oid);
/* as a return or an argument: gone must be told */
bool sk_lineage_knows(const struct sk_lineage *l, uint64_t oid);
uint64_t sk_lineage_bytes(const struct sk_lineage *l);
uint64_t sk_lineage_n(const struct sk_lineage *l); /* kept tasks */
uint64_t sk_lineage_n_evicted(const struct sk_lineage *l);
/* Kept tasks in no order: start with *cursor = 0; no other call meanwhile. */
/* gives back the memory of what is not known any more, as far as it can */
void sk_lineage_shrink(struct sk_lineage *l);
bool sk_lineage_each(const struct sk_lineage *l, uint32_t *cursor, uint64_t *id, void **data);
/* Counts and (*) against a recount. */
bool sk_lineage_check(const struct sk_lineage *l);

#endif
