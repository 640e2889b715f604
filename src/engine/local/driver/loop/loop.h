/* loop.h - sends tasks to workers; and the table of upcalls, by which lower parts call higher
 * parts.
 *
 * Calls: abroad, actor, functions, group, launch, memory, object, link, pool, recover, request,
 * send, space, task. The code of this part may call these parts of the driver and no others;
 * tests/shape.py reads this line. */
#ifndef SK_LOCAL_LOOP_H
#define SK_LOCAL_LOOP_H

#include "engine/rules/pace.h"
#include "engine/place/place.h"

struct sk_local;
struct sk_ltask;
struct sk_lactor;
struct sk_req;
struct sk_inl;

/* Upcalls: calls from lower parts to higher parts (README.md), whose functions they may not call by
 * name. Each comment begins with the part that makes the call. loop.c has the table. */
struct sk_upcalls {
    /* object: the last argument that t waited for exists */
    void (*due)(struct sk_local *l, struct sk_ltask *t);
    /* object, space: the objects that request q waited for exist, or cannot be had */
    void (*answer)(struct sk_local *l, struct sk_req *q, sk_rc rc);
    /* object, task: the value of this object was found lost */
    void (*lost)(struct sk_local *l, uint64_t oid);
    /* object: bytes of lost values may no longer have a reader */
    void (*relics)(struct sk_local *l);
    /* object: lineage no longer keeps t */
    void (*unkept)(struct sk_local *l, struct sk_ltask *t);
    /* task: t has ended and still holds its arguments; lineage may keep it */
    void (*ended)(struct sk_local *l, struct sk_ltask *t);
    /* object: the last handle of the actor is gone */
    void (*unreferenced)(struct sk_local *l, struct sk_lactor *a);
    /* task: the arguments of this call exist */
    void (*call_ready)(struct sk_ltask *t);
    void (*call_over)(struct sk_ltask *t); /* task: this call has ended */
    /* task, space: there may be calls to send to the actor */
    void (*advance)(struct sk_local *l, struct sk_lactor *a);
    /* task: the constructor of the actor has failed */
    void (*init_failed)(struct sk_local *l, struct sk_lactor *a, uint32_t kind,
                        struct sk_inl *error);
    /* space: values were read from disk; tasks whose arguments all exist begin now */
    void (*came_back)(struct sk_local *l);
    /* link: a message that must not wait does not fit into the store; gives it memory of the
     * overflow */
    sk_rc (*full)(struct sk_local *l, uint32_t proc, uint64_t len, sk_off *off, struct sk_err *err);
};

extern const struct sk_upcalls sk_upcalls;

/* Places all tasks and actors for which there is a worker now. */
void sk_loop_dispatch(struct sk_local *l);
void sk_loop_dispatch_at(struct sk_local *l, int64_t now_ns);
struct sk_pace_view sk_loop_view(const struct sk_local *l, int64_t now_ns, uint32_t n_messages);
/* Ends all tasks and actors that wait for a worker, with this error. */
void sk_loop_fail_waiting(struct sk_local *l, sk_rc rc, const char *why);

#endif
