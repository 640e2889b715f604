/* state.h - state lists and status of the engine, and the history of ended tasks, actors and
 * workers.
 *
 * Calls: functions, link, show. The code of this part may call these parts of the driver and no
 * others; tests/shape.py reads this line. */
#ifndef SK_LOCAL_STATE_H
#define SK_LOCAL_STATE_H

#include "engine/books/history.h"

struct sk_local;
struct sk_ltask;
struct sk_lworker;
struct sk_lactor;
struct sk_rd;

/* Adds the end of t to the history. error_kind 0: the task succeeded. */
void sk_state_ended(struct sk_local *l, struct sk_ltask *t, uint32_t error_kind,
                    struct sk_bytes error);
/* Notes where and when t ran. end_ns 0: the run has not ended. */
void sk_state_ran(struct sk_ltask *t, const struct sk_lworker *w, int64_t start_ns, int64_t end_ns);
/* Notes that the present attempt of t has not run. */
void sk_state_not_run(struct sk_ltask *t);
/* Adds an ended attempt of t, which runs again, to the history. */
void sk_state_attempt(struct sk_local *l, struct sk_ltask *t, sk_rc rc, const char *why);
void sk_state_actor_gone(struct sk_local *l, struct sk_lactor *a);
void sk_state_worker_gone(struct sk_local *l, const struct sk_lworker *w,
                          const struct sk_verdict_worker *died, const char *why);
/* Writes a text about a caller's wait into ctl->waits: for n objects, for the stream of task tid,
 * or for neither. */
void sk_state_waits(struct sk_local *l, const char *verb, const sk_oid *ids, size_t n,
                    uint64_t tid);
/* Describes a task; see sk_state_ops.about of engine/state.h. */
void sk_state_about(struct sk_local *l, uint64_t oid, uint64_t tid, char *buf, size_t cap);
size_t sk_state_write(struct sk_local *l, enum sk_state_what what, void *buf, size_t cap);
/* Returns the time at which task tid began; 0: the task is not running. */
int64_t sk_state_began(struct sk_local *l, uint64_t tid);
/* Writes the one node, if cap is not 0; returns 1. */
size_t sk_local_nodes(struct sk_local *l, struct sk_node *out, size_t cap);
void sk_state_for(struct sk_local *l, struct sk_lworker *w, struct sk_rd *r); /* handles STATE */

#endif
