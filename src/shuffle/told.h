/* told.h - a strategy that answers from outside of the run: each new pack becomes a question, and
 * the thread that decides enters the run (sk_exec_call) with the answer. Strategies in Python work
 * this way (src/py/data/told.c).
 *
 *     run:     a pack comes -> it waits, and wake() is called      (the run's lock is held)
 *     outside: sk_told_next -> what is asked, the earliest first -> decides, without any lock
 *              -> sk_exec_call: sk_told_pass, _hold, _merge, ... -> sk_told_next ...
 *
 * The packs that wait are the queue, so nothing is told that is not there any more and nothing that
 * is there is lost. Packs are answered in the order in which they came, so groups and rows are as
 * if each answer had been given at once; what is asked of one input does not wait for another. Maps
 * do not begin before their number of values was said, and while packs of an eighth of memory wait
 * for answers. Pure. */
#ifndef SK_SHUFFLE_TOLD_H
#define SK_SHUFFLE_TOLD_H

#include "base/err.h"
#include "base/containers/vec.h"
#include "shuffle/shuffle.h"

/* a strategy for exchanges of one run, in memory of the caller that must outlive the run */
struct sk_told {
    struct sk_shuffle_ops ops; /* the calls of the strategy, for sk_exchange_desc.strategy */
    /* Called when there is a new question for sk_told_next. The caller holds the run's lock and
     * maybe the engine's, so `wake` may wait for no lock but its own. */
    void (*wake)(void *arg);
    void *arg;
    /* inputs of the exchanges, in the order in which they were made */
    SK_VEC(struct sk_shuffle *) in;
};
/* name: borrowed; shown in statistics */
void sk_told_init(struct sk_told *t, const char *name, void (*wake)(void *arg), void *arg);
void sk_told_deinit(struct sk_told *t);

/* ---- all calls below are made under the run's lock (sk_exec_call) ---------------------------- */

enum sk_told_kind {
    SK_TOLD_NOTHING, /* wait for wake() */
    /* how many values should the packs of later maps have? Answer: sk_told_values */
    SK_TOLD_SIZES,
    /* what becomes of this pack? Answer: sk_told_pass or sk_told_hold; other calls may follow */
    SK_TOLD_PACK,
    /* no more packs will come. Answer: sk_told_over; other calls may come before it */
    SK_TOLD_ENDED,
};
struct sk_told_question {
    enum sk_told_kind kind;
    /* index of the input in sk_told.in; with one exchange this is the number of its input */
    uint32_t side;
    struct sk_shuffle_sizes sizes;
    struct sk_shuffle_pack pack;
};
/* Writes the next open question, taking the inputs in turn. A question is repeated until it is
 * answered. */
void sk_told_next(struct sk_told *t, struct sk_told_question *out);

/* State of the strategy's input after an answer. */
struct sk_told_state {
    bool gone;     /* the answered question is void, because nobody needs the rows any more */
    bool no_group; /* sk_told_end_group: there is no such group */
    uint64_t held; /* sk_shuffle_held */
    /* after sk_told_hold: the pack's group; n is 0 if the pack could not be held */
    struct sk_shuffle_group group;
};
void sk_told_values(struct sk_told *t, uint32_t side, uint32_t values);
sk_rc sk_told_pass(struct sk_told *t, uint32_t side, struct sk_told_state *now,
                   struct sk_err *err) SK_MUST_USE;
sk_rc sk_told_hold(struct sk_told *t, uint32_t side, uint32_t values, uint32_t node,
                   struct sk_told_state *now, struct sk_err *err) SK_MUST_USE;
enum sk_told_end { SK_TOLD_PASS, SK_TOLD_MERGE, SK_TOLD_MERGE_AGAIN };
/* Passes or merges the group that begins with partition `first`. most: for MERGE_AGAIN, as in
 * sk_shuffle_merge_again. */
sk_rc sk_told_end_group(struct sk_told *t, uint32_t side, uint32_t first, enum sk_told_end how,
                        uint64_t most, struct sk_told_state *now, struct sk_err *err) SK_MUST_USE;
/* Copies the group of index i; false: there is no such group. */
bool sk_told_group(const struct sk_told *t, uint32_t side, uint32_t i, struct sk_shuffle_group *g);
/* Passes all packs that are still held to the reduces, and ends the input. */
sk_rc sk_told_over(struct sk_told *t, uint32_t side, struct sk_told_state *now,
                   struct sk_err *err) SK_MUST_USE;

/* ---- called by exchange/merges.c ------------------------------------------------------------- */

/* Inside `came`: the current pack waits for an answer, behind the packs that wait already. Inside
 * `ended`: the input does not end before sk_shuffle_over. */
void sk_shuffle_later(struct sk_shuffle *s);
/* enter and leave are called around a late answer. enter makes the earliest waiting pack the
 * current one, if there is one; leave returns the result of the answer. */
bool sk_shuffle_enter(struct sk_shuffle *s, struct sk_shuffle_pack *pack, struct sk_err *err);
sk_rc sk_shuffle_leave(struct sk_shuffle *s) SK_MUST_USE;
/* True if the strategy is asked about the end of the input and no pack waits before it. */
bool sk_shuffle_ending(const struct sk_shuffle *s);
void sk_shuffle_over(struct sk_shuffle *s);
/* True if the input is over, or nobody needs its rows. */
bool sk_shuffle_spent(const struct sk_shuffle *s);

#endif
