/* host.h - the engine's own threads, and what the fork server says.
 *
 * Calls: death, loop, messages, pool, space. */
#ifndef SK_LOCAL_HOST_H
#define SK_LOCAL_HOST_H

#include "base/err.h"

struct sk_local;
struct sk_err;

sk_rc sk_host_start(struct sk_local *l, struct sk_err *err); /* fork server, threads */
void sk_host_stop(struct sk_local *l);
void sk_host_reports(struct sk_local *l); /* what the fork server says: who came up, who ended */

#endif
