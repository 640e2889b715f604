/* loop.h - the way out: tasks onto workers; and the table of what parts below tell parts above.
 *
 * Calls: actor, functions, group, launch, memory, object, link, pool, recover, request, send,
 * space, task. */
#ifndef SK_LOCAL_LOOP_H
#define SK_LOCAL_LOOP_H

#include "engine/rules/pace.h"
#include "engine/place/place.h"

struct sk_local;
struct sk_ltask;
struct sk_lactor;
struct sk_req;
struct sk_inl;

/* What parts below tell parts above, which they may not call: the comment names who calls it.
 * loop.c has the table. */
struct sk_upcalls {
    /* object: the last argument that t waited for exists */
    void (*due)(struct sk_local *l, struct sk_ltask *t);
    /* object, space: what q waited for exists, or cannot be had */
    void (*answer)(struct sk_local *l, struct sk_req *q, sk_rc rc);
    /* object, task: the value of this object was found lost */
    void (*lost)(struct sk_local *l, uint64_t oid);
    /* object: some bytes of lost values may have no reader any more */
    void (*relics)(struct sk_local *l);
    /* object: lineage does not keep t any more */
    void (*unkept)(struct sk_local *l, struct sk_ltask *t);
    /* task: t has ended, and lineage may want it; it still holds its arguments */
    void (*ended)(struct sk_local *l, struct sk_ltask *t);
    /* object: the last handle of the actor is gone */
    void (*unreferenced)(struct sk_local *l, struct sk_lactor *a);
    /* task: the arguments of this call exist */
    void (*call_ready)(struct sk_ltask *t);
    void (*call_over)(struct sk_ltask *t); /* task: this call has ended */
    /* task, space: the actor may have something to send */
    void (*advance)(struct sk_local *l, struct sk_lactor *a);
    void (*init_failed)(struct sk_local *l, struct sk_lactor *a, uint32_t kind,
                        struct sk_inl *error); /* task: its constructor has failed */
    /* space: values were read from disk: tasks that have all arguments begin now */
    void (*came_back)(struct sk_local *l);
    /* link: a message that cannot wait does not fit into the store: memory of the overflow for
     * it */
    sk_rc (*full)(struct sk_local *l, uint32_t proc, uint64_t len, sk_off *off, struct sk_err *err);
};

extern const struct sk_upcalls sk_upcalls;

/* Gives workers to tasks and actors, as far as that is possible now. */
void sk_loop_dispatch(struct sk_local *l);
void sk_loop_dispatch_at(struct sk_local *l, int64_t now_ns);
struct sk_pace_view sk_loop_view(const struct sk_local *l, int64_t now_ns, uint32_t n_messages);
/* Ends all tasks and actors that wait for a worker. */
void sk_loop_fail_waiting(struct sk_local *l, sk_rc rc, const char *why);

#endif
