/* moves.h - sinks that are told when a value that their tasks yielded is spilled or restored.
 *
 * Calls: none. The code of this part may call no other part of the driver; tests/shape.py reads
 * this line. */
#ifndef SK_LOCAL_MOVES_H
#define SK_LOCAL_MOVES_H

#include "base/base.h"
#include "base/err.h"
#include "base/containers/list.h"

struct sk_local;
struct sk_stored;
struct sk_sink;

struct sk_moves {
    struct sk_list followers; /* the youngest first */
    /* the last number given to a follower; numbers are never used again, and never 0 */
    uint32_t last_number;
    struct sk_move_vec { /* events that were not delivered yet, in order */
        struct sk_move {
            uint64_t oid, bytes;
            int64_t ns; /* of a write */
            uint32_t follower;
            bool disk;
        } *p;
        uint32_t n, cap;
    } moved;
};

void sk_moves_init(struct sk_local *l);
void sk_moves_close(struct sk_local *l);
sk_rc sk_moves_follow(struct sk_local *l, struct sk_sink *s, struct sk_err *err) SK_MUST_USE;
void sk_moves_unfollow(struct sk_local *l, struct sk_sink *s);
/* Returns the number of a sink that follows its values; 0: the sink does not follow them. */
uint32_t sk_moves_number(const struct sk_local *l, const struct sk_sink *s);
/* Notes that a value which a sink follows has just been spilled or restored. */
void sk_moves_note(struct sk_local *l, const struct sk_stored *st, bool disk);
/* Calls the sinks. Sinks may submit and cancel tasks, so this is called only where no change is
 * half done. */
void sk_moves_tell(struct sk_local *l);

#endif
