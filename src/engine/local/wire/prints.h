/* prints.h - what workers write to stdout and stderr, on its way to the driver; the public half is
 * in host.h.
 *
 * Calls: none. */
#ifndef SK_LOCAL_PRINTS_H
#define SK_LOCAL_PRINTS_H

#include "engine/local/wire/wire.h"

struct sk_prints;
struct sk_seg;

/* Driver: the engine's control segment, which they read from now on, also after its end. */
sk_rc sk_prints_attach(struct sk_prints *p, const struct sk_seg *ctl,
                       struct sk_err *err) SK_MUST_USE;
int sk_prints_hand(
    /* the end that a fork server inherits, or what stands for it: SK_PRINTS_PLAIN,
     * SK_PRINTS_NONE */
    const struct sk_prints *p);

/* Fork server: `hand` is not for programs that its imports start. */
void sk_prints_server(int hand);
/* A fresh worker: its descriptors 1 and 2 become pipes, whose other ends the driver gets. */
void sk_prints_worker(int hand, uint32_t slot, const struct sk_seg *ctl);

#endif
