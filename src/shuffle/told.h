/* told.h - told strategies, which answer from outside of the run: each new pack becomes a question,
 * and a thread of the strategy decides and enters the run (sk_exec_call) with the answer.
 * Strategies in Python work this way (src/py/data/told.c).
 *
 *     run:     a pack comes -> it waits, and wake() is called      (the run's lock is held)
 *     outside: sk_told_next -> what is asked, the earliest first -> decides, without any lock
 *              -> sk_exec_call: sk_told_pass, _hold, _merge, ... -> sk_told_next ...
 *
 * The waiting packs themselves are the queue of questions, so no question is about a pack that no
 * longer exists, and no pack is forgotten. Packs are answered in the order of their arrival, so
 * groups and rows are as if each answer had been given at once; questions about one input do not
 * wait for those about another. Maps do not begin before the answer to SIZES, nor while an eighth
 * of memory is full of packs that wait for answers. Pure. */
#ifndef SK_SHUFFLE_TOLD_H
#define SK_SHUFFLE_TOLD_H

#include "base/err.h"
#include "base/containers/vec.h"
#include "shuffle/shuffle.h"

/* a strategy for exchanges of one run, in memory of the caller that must outlive the run */
struct sk_told {
    struct sk_shuffle_ops ops; /* the calls of the strategy, for sk_exchange_desc.strategy */
    /* Called when sk_told_next has a new question. The caller holds the run's lock and maybe the
     * engine's, so `wake` must not wait for any lock but its own. */
    void (*wake)(void *arg);
    void *arg;
    /* inputs of the exchanges, in the order in which they were made */
    SK_VEC(struct sk_shuffle *) in;
};
/* Initialises a strategy. name: shown in statistics; borrowed. */
void sk_told_init(struct sk_told *t, const char *name, void (*wake)(void *arg), void *arg);
void sk_told_deinit(struct sk_told *t);

/* ---- all calls below are made under the run's lock (sk_exec_call) ---------------------------- */

enum sk_told_kind {
    SK_TOLD_NOTHING, /* no question is open: wait for wake() */
    /* question: how many values should the packs of later maps have? Answer: sk_told_values */
    SK_TOLD_SIZES,
    /* question: what becomes of this pack? Answer: sk_told_pass or sk_told_hold; other calls may
     * follow */
    SK_TOLD_PACK,
    /* all packs have arrived. Answer: sk_told_over; other calls may be made before it */
    SK_TOLD_ENDED,
};
struct sk_told_question {
    enum sk_told_kind kind;
    /* index of the input in sk_told.in; with one exchange this is the number of its input */
    uint32_t side;
    struct sk_shuffle_sizes sizes;
    struct sk_shuffle_pack pack;
};
/* Writes the next open question, of each input in turn. A question is returned again until it is
 * answered. */
void sk_told_next(struct sk_told *t, struct sk_told_question *out);

/* State of the strategy's input after an answer. */
struct sk_told_state {
    /* true: the answered question was void, because nobody needs the rows any more */
    bool gone;
    bool no_group; /* sk_told_end_group: true: there is no such group */
    uint64_t held; /* bytes of held packs, as in sk_shuffle_held */
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

/* Called by a strategy. Inside `came`: makes the current pack wait for an answer, behind the packs
 * that wait already. Inside `ended`: keeps the input from ending before sk_shuffle_over. */
void sk_shuffle_later(struct sk_shuffle *s);
/* enter and leave are called around an answer. enter makes the pack that has waited longest the
 * current one; false: no pack waits. leave returns the result of the answer. */
bool sk_shuffle_enter(struct sk_shuffle *s, struct sk_shuffle_pack *pack, struct sk_err *err);
sk_rc sk_shuffle_leave(struct sk_shuffle *s) SK_MUST_USE;
/* True if the question ENDED is open and no pack waits before it. */
bool sk_shuffle_ending(const struct sk_shuffle *s);
void sk_shuffle_over(struct sk_shuffle *s);
/* True if the input has ended, or nobody needs its rows. */
bool sk_shuffle_spent(const struct sk_shuffle *s);

#endif
