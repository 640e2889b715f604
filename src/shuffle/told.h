/* told.h - a strategy that answers from outside of the run: it is told what has come, and whoever
 * decides enters the run (sk_exec_call) with the answer. A strategy in Python is one
 * (src/py/data/told.c).
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

struct sk_told { /* of exchanges of one run; the caller's memory, as long as the run lives */
    struct sk_shuffle_ops ops; /* the strategy: struct sk_exchange_desc */
    /* Something is asked: sk_told_next. Called in the run's lock, maybe of the engine's, too: it
     * waits for no lock but its own. */
    void (*wake)(void *arg);
    void *arg;
    SK_VEC(struct sk_shuffle *) in; /* their inputs, in the order in which they were made */
};
/* name: borrowed, for statistics */
void sk_told_init(struct sk_told *t, const char *name, void (*wake)(void *arg), void *arg);
void sk_told_deinit(struct sk_told *t);

/* ---- all below: in the run's lock (sk_exec_call) ----------------------------------------------
 */

enum sk_told_kind {
    SK_TOLD_NOTHING, /* wait for wake() */
    SK_TOLD_SIZES,   /* sk_told_values: in how many values are the packs of later maps to be? */
    SK_TOLD_PACK,    /* sk_told_pass or sk_told_hold, and any of the others */
    SK_TOLD_ENDED,   /* no more packs will come: sk_told_over, and before it any of the others */
};
struct sk_told_question {
    enum sk_told_kind kind;
    uint32_t side; /* index in sk_told.in: of one exchange, the number of its input */
    struct sk_shuffle_sizes sizes;
    struct sk_shuffle_pack pack;
};
/* What is asked, of the inputs one after the other. It is asked again until it is answered. */
void sk_told_next(struct sk_told *t, struct sk_told_question *out);

/* How things are after an answer. */
struct sk_told_state {
    bool gone;     /* what was answered is not asked any more: nobody wants the rows */
    bool no_group; /* of sk_told_end_group: there is none */
    uint64_t held; /* sk_shuffle_held */
    struct sk_shuffle_group group; /* of sk_told_hold; n is 0 where the pack could not be held */
};
void sk_told_values(struct sk_told *t, uint32_t side, uint32_t values);
sk_rc sk_told_pass(struct sk_told *t, uint32_t side, struct sk_told_state *now,
                   struct sk_err *err) SK_MUST_USE;
sk_rc sk_told_hold(struct sk_told *t, uint32_t side, uint32_t values, uint32_t node,
                   struct sk_told_state *now, struct sk_err *err) SK_MUST_USE;
/* The group that begins with partition `first` is merged, or passed. */
sk_rc sk_told_end_group(struct sk_told *t, uint32_t side, uint32_t first, bool merge,
                        struct sk_told_state *now, struct sk_err *err) SK_MUST_USE;
/* the i-th; false: there are no more */
bool sk_told_group(const struct sk_told *t, uint32_t side, uint32_t i, struct sk_shuffle_group *g);
/* What is still held goes to the reduces as it is, and the input is over. */
sk_rc sk_told_over(struct sk_told *t, uint32_t side, struct sk_told_state *now,
                   struct sk_err *err) SK_MUST_USE;

/* ---- exchange/merges.c ------------------------------------------------------------------------
 */

/* Of `came`: the pack at hand waits for an answer, behind those that do. Of `ended`: the input is
 * not over before sk_shuffle_over. */
void sk_shuffle_later(struct sk_shuffle *s);
/* Before and after what is said later: the earliest pack that waits is at hand, if there is one;
 * what came of it. */
bool sk_shuffle_enter(struct sk_shuffle *s, struct sk_shuffle_pack *pack, struct sk_err *err);
sk_rc sk_shuffle_leave(struct sk_shuffle *s) SK_MUST_USE;
/* Whether the end is asked, and no pack waits before it. */
bool sk_shuffle_ending(const struct sk_shuffle *s);
void sk_shuffle_over(struct sk_shuffle *s);
/* Whether the input is over, or nobody wants its rows. */
bool sk_shuffle_spent(const struct sk_shuffle *s);

#endif
