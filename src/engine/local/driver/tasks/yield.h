/* yield.h - handles the yields that workers report.
 *
 * Calls: object, link, recover, send, stored, stream, task. The code of this part may call these
 * parts of the driver and no others; tests/shape.py reads this line. */
#ifndef SK_LOCAL_YIELD_H
#define SK_LOCAL_YIELD_H

#include "base/wire.h"

struct sk_local;
struct sk_ltask;
struct sk_lworker;
struct sk_rd;

void sk_stream_yielded(struct sk_local *l, struct sk_lworker *w, struct sk_rd *r);
void sk_stream_drop(struct sk_local *l, struct sk_ltask *t);

#endif
