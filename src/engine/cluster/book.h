/* book.h - the driver's book of a cluster: which task and which value is where, what to send to
 * which node, and what to do again when a node is lost. Pure: no clock, no socket, no thread.
 *
 * The book is told of submissions and of messages; it writes messages into the outboxes of nodes,
 * and events for the host of guest.h. A value lies on the nodes that have it (`sk_bval.node` and
 * copies) or in the driver (put()). When the last node that has a value is lost, the tasks that can
 * make it again run again (own/lineage.h), and only those.
 *
 * Rules
 *  1. A node has a number that is never used again. What a lost node still says is dropped, since
 *     its number is not alive: that is the fence.
 *  2. A task that was on a lost node goes elsewhere, which costs a retry if it is known to have
 *     begun. A task without retries fails, since it may have begun without having said so. A stream
 *     begins anew, and values that were told before are not told again.
 *  3. A task is told to the host as over exactly once, and each of its yields once, in order.
 *  4. A value is kept while the host has its handle, or a task takes it that has not ended.
 *  5. A call of an actor runs again for a lost value as a task does, if it has retries and its
 *     actor restarts: at any place among the actor's calls, or, if the host has ended the actor, on
 *     one that is started again for it. That one costs no restart and takes no CPU, since the tasks
 *     that need what it makes may have them all, and it ends when nothing is left to be made again.
 *  6. A node that drains gets no new task, and nothing of it runs twice, unless the node is lost
 *     before it is empty.
 *  7. The bundles of a placement group are reserved together, or none is. Those of a lost or
 *     draining node are reserved again elsewhere when there is room; tasks of the group wait
 *     meanwhile, or go to its other bundles. Tasks of a group that is gone fail with SK_EGROUP.
 *
 * Thread-safety: none; the caller's lock guards it. */
#ifndef SK_CLUSTER_BOOK_H
#define SK_CLUSTER_BOOK_H

#include <stdatomic.h>

#include "engine/cluster/msg.h"
#include "engine/groups.h"
#include "engine/guest.h"

struct sk_book;
struct sk_bval; /* a value; the handle of guest.h */

/* Bytes with a count of references, aligned to 64 bytes. */
struct sk_bblob {
    _Atomic uint32_t refs;
    uint32_t kind;
    size_t len;
    uint8_t *data;
};
struct sk_bblob *sk_bblob_new(uint32_t kind, struct sk_bytes b); /* copies; NULL: no memory */
void sk_bblob_unref(struct sk_bblob *b);                         /* NULL is fine */

sk_rc sk_book_create(struct sk_book **out, uint64_t lineage_bytes, struct sk_err *err) SK_MUST_USE;
void sk_book_destroy(struct sk_book *b);

/* ---- nodes */
/* Adds a node; *number is its number from now on. */
sk_rc sk_book_joined(struct sk_book *b, const struct sk_cmsg *welcome, struct sk_bytes address,
                     uint32_t *number, struct sk_err *err) SK_MUST_USE;
/* Call when the node is gone, or can no longer be trusted. `why` is for messages. */
void sk_book_lost(struct sk_book *b, uint32_t number, const char *why);
/* Begins to empty a node that is to go away; the rules are those of drain in nodes.h. The caller
 * lets the node go, and calls sk_book_lost, when the node is empty, or when it may no longer be
 * waited for. SK_ENOENT: there is no such node, or no more. */
sk_rc sk_book_drain(struct sk_book *b, uint32_t number, struct sk_err *err) SK_MUST_USE;
/* True if a node that is drained has nothing any more that anybody needs, or if it is lost. It may
 * change with each message, order and launch. */
bool sk_book_empty(const struct sk_book *b, uint32_t number);
/* Takes a message. SK_ECORRUPT: the node said what it must not; the caller cuts it off and calls
 * sk_book_lost. Messages of a lost node are dropped. */
sk_rc sk_book_message(struct sk_book *b, uint32_t number, const struct sk_cmsg *m,
                      struct sk_err *err) SK_MUST_USE;
/* What waits to be sent to a node; the caller sends it and empties it. NULL: the node is lost. */
struct sk_outbox *sk_book_out(struct sk_book *b, uint32_t number);
uint32_t sk_book_n_nodes(const struct sk_book *b); /* lost nodes included; numbers begin with 1 */
struct sk_node sk_book_node(const struct sk_book *b, uint32_t number);

/* ---- what the host orders */
sk_rc sk_book_define(struct sk_book *b, sk_fid fn, const char *name, struct sk_bytes def,
                     struct sk_err *err) SK_MUST_USE;
/* Environment or where `number`: one more than the last, beginning with 1. No memory: its tasks
 * fail. */
void sk_book_env(struct sk_book *b, uint32_t number, struct sk_bytes env);
sk_rc sk_book_submit(struct sk_book *b, const struct sk_guest_task *t,
                     struct sk_err *err) SK_MUST_USE;
/* The first n yields of a stream with a window were taken. */
void sk_book_taken(struct sk_book *b, uint64_t task, uint32_t n);
void sk_book_cancel(struct sk_book *b, uint64_t task, uint32_t flags); /* SK_CANCEL_* */
void sk_book_actor_end(struct sk_book *b, uint64_t actor, enum sk_guest_end how);
/* Takes the reference of `blob` over, on failure, too. */
sk_rc sk_book_put(struct sk_book *b, struct sk_bblob *blob, struct sk_bval **out,
                  struct sk_err *err) SK_MUST_USE;
void sk_book_drop(struct sk_book *b, struct sk_bval *v);
/* Gives the bytes of a value. SK_EAGAIN: they were asked for; try again after the next message or
 * loss. SK_ELOST: they are gone and cannot be made again. Between fetch_begin and fetch_end the
 * bytes stay here. */
void sk_book_fetch_begin(struct sk_bval *v);
sk_rc sk_book_fetch(struct sk_book *b, struct sk_bval *v, struct sk_bblob **out,
                    struct sk_err *err) SK_MUST_USE;
void sk_book_fetch_end(struct sk_bval *v);

/* Makes a placement group; news say where its bundles are. */
sk_rc sk_book_group(struct sk_book *b, uint64_t id, const struct sk_group_spec *s,
                    struct sk_err *err) SK_MUST_USE;
void sk_book_group_end(struct sk_book *b, uint64_t id); /* nodes kill what runs in it */

/* ---- references: struct sk_guest_ref_ops */
void sk_book_hold(struct sk_book *b, uint64_t id);
void sk_book_unhold(struct sk_book *b, uint64_t id);
void sk_book_there(struct sk_book *b, uint32_t node, uint64_t name, const struct sk_guest_value *v);
sk_rc sk_book_call(struct sk_book *b, const struct sk_task_spec *s, uint64_t first,
                   struct sk_err *err) SK_MUST_USE;
void sk_book_yield(struct sk_book *b, uint32_t node, uint64_t first, uint64_t id);
void sk_book_took(struct sk_book *b, uint64_t actor, uint64_t first, uint32_t n);
void sk_book_ended(struct sk_book *b, uint32_t node, uint64_t first);
void sk_book_stop(struct sk_book *b, uint64_t of, uint64_t id, uint32_t flags);
void sk_book_named(struct sk_book *b, uint32_t node, uint64_t ask, sk_rc rc, uint64_t actor,
                   struct sk_bytes bytes);
void sk_book_kill(struct sk_book *b, uint64_t actor, bool no_restart);

/* ---- what nodes tell of themselves */
/* Asks all nodes that are alive; gives the number of the request. */
uint64_t sk_book_ask(struct sk_book *b, uint32_t what);
bool sk_book_answered(const struct sk_book *b, uint64_t ask); /* by all that are alive */
/* Gives what the nodes have answered, and forgets the request. Only node, silent and bytes are set;
 * the caller knows the clocks. */
void sk_book_answers(struct sk_book *b, uint64_t ask,
                     void (*told)(void *ctx, const struct sk_guest_told *t), void *ctx);

/* ---- what comes of it */
/* Sends what can be sent to nodes: into their outboxes. */
void sk_book_launch(struct sk_book *b);
/* Tells the events since the last call, in order. Handles in them belong to the host. */
void sk_book_tell(struct sk_book *b, void (*tell)(void *host, const struct sk_guest_event *ev),
                  void *host);

struct sk_book_stats {
    /* tasks that have not ended; tasks kept for lineage; values; tasks that were sent again after a
     * loss because they were under way, and because a value of theirs was lost; values and actors
     * that were moved off nodes that drained */
    uint64_t n_tasks, n_kept, n_values, n_again, n_remade, n_moved, n_moved_actors;
    uint64_t n_actors, n_revived; /* actors; starts of ended ones for lost values */
    uint64_t n_asked, n_lent;     /* objects of nodes that the host holds, and the other way */
    uint64_t kept_bytes;          /* of n_kept */
};
struct sk_book_stats sk_book_stats(const struct sk_book *b);
/* Recounts everything. For tests. */
bool sk_book_check(const struct sk_book *b);

#endif
