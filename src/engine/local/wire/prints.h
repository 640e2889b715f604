/* prints.h - the stdout and stderr of workers on their way to the driver; host.h has the public
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

/* Fork server: programs that its imports start do not inherit `hand`. */
void sk_prints_server(int hand);
/* Fresh worker: its descriptors 1 and 2 become pipes, whose other ends are sent to the driver. */
void sk_prints_worker(int hand, uint32_t slot, const struct sk_seg *ctl);

#endif
