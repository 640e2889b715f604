/* prints.h - brings the stdout and stderr of workers to the driver; host.h has the public
 * half.
 *
 * Calls: none. The code of this part may call no other part of the driver; tests/shape.py reads
 * this line. */
#ifndef SK_LOCAL_PRINTS_H
#define SK_LOCAL_PRINTS_H

#include "engine/local/wire/wire.h"

struct sk_prints;
struct sk_seg;

/* Driver: gives p the engine's control segment, which p reads from now on, also after the
 * engine's end. */
sk_rc sk_prints_attach(struct sk_prints *p, const struct sk_seg *ctl,
                       struct sk_err *err) SK_MUST_USE;
/* Driver: the descriptor that a fork server inherits, or SK_PRINTS_PLAIN or SK_PRINTS_NONE. */
int sk_prints_hand(const struct sk_prints *p);

/* Fork server: keeps `hand` away from the programs that imports start. */
void sk_prints_server(int hand);
/* Fresh worker: replaces descriptors 1 and 2 by pipes, and sends their other ends to the driver. */
void sk_prints_worker(int hand, uint32_t slot, const struct sk_seg *ctl);

#endif
