/* show.h - the view of the engine (engine/view.h): its counters, its runs and the last errors,
 * stored where other processes can read them.
 *
 * Calls: shown, view. The code of this part may call these parts of the driver and no others;
 * tests/shape.py reads this line. */
#ifndef SK_LOCAL_SHOW_H
#define SK_LOCAL_SHOW_H

#include "engine/books/history.h"
#include "engine/local/wire/shown.h"

struct sk_local;
struct sk_engine_conf;

struct sk_lshow {
    struct sk_shown s;
    int64_t next_ns;  /* time of the next sk_show_now; INT64_MAX: there is no view */
    uint64_t seen;    /* sk_local.progress at the last sk_show_now */
    int64_t alone_ns; /* time of the next sk_show_alone */
};

void sk_show_init(struct sk_local *l);
sk_rc sk_show_open(struct sk_local *l, const struct sk_engine_conf *conf,
                   struct sk_err *err) SK_MUST_USE;
/* The engine closes: stores the last numbers, and writes the record. */
void sk_show_last(struct sk_local *l);
void sk_show_close(struct sk_local *l);
/* Stores the counters and lets the runs store theirs. Runs call the engine in it: no step of the
 * driver may be under way. */
void sk_show_now(struct sk_local *l, int64_t now_ns);
struct sk_load sk_show_load(struct sk_local *l); /* of the node that this engine is */
void sk_show_ended(struct sk_local *l, const struct sk_ended *e); /* adds an ended attempt */
/* Call after the driver has made a value. Without workers nothing wakes the loop thread, and this
 * stores the counters in its place, every 10 ms at most. */
void sk_show_alone(struct sk_local *l);
void sk_show_end(struct sk_local *l, struct sk_viewed *v); /* see struct sk_view_ops */

/* Call between two turns of the loop. */
#define sk_show_turn(l, now_ns)                                                     \
    do                                                                              \
        if (SK_UNLIKELY((now_ns) >= (l)->show.next_ns)) sk_show_now((l), (now_ns)); \
    while (0)

#endif
