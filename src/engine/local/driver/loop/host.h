/* host.h - the engine's own threads, and the messages of the fork server.
 *
 * Calls: death, loop, messages, pool, show, space, view. The code of this part may call these parts
 * of the driver and no others; tests/shape.py reads this line. */
#ifndef SK_LOCAL_HOST_H
#define SK_LOCAL_HOST_H

#include "base/err.h"

struct sk_local;
struct sk_err;

/* starts the fork server and the engine's threads */
sk_rc sk_host_start(struct sk_local *l, struct sk_err *err);
void sk_host_stop(struct sk_local *l);
/* handles the reports of the fork server: workers that started or ended */
void sk_host_reports(struct sk_local *l);

#endif
