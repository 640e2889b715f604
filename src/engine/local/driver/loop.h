/* loop.h - the way out: tasks onto workers; and the table of what parts below tell parts above.
 *
 * Calls: actor, functions, group, launch, memory, object, link, pool, recover, request, send, space, task. */
#ifndef SK_LOCAL_LOOP_H
#define SK_LOCAL_LOOP_H

#include "engine/pace.h"
#include "engine/place/place.h"

struct sk_local;
struct sk_ltask;
struct sk_lactor;
struct sk_req;
struct sk_inl;

/* What parts below tell parts above: raised by the one in front, heard by the one behind. loop.c has the table; everything else calls downwards. */
struct sk_upcalls {
    void (*due)(struct sk_local *l, struct sk_ltask *t);            /* object: the last argument that it waited for is there */
    void (*answer)(struct sk_local *l, struct sk_req *q, sk_rc rc); /* object, space: what it waited for is there, or cannot be had */
    void (*lost)(struct sk_local *l, uint64_t oid);                 /* object, task: a value was found gone */
    void (*relics)(struct sk_local *l);                             /* object: what nobody reads any more may go */
    void (*unkept)(struct sk_local *l, struct sk_ltask *t);         /* object: lineage let it go */
    void (*ended)(struct sk_local *l, struct sk_ltask *t);          /* task: of one that lineage may want, its arguments still held */
    void (*unreferenced)(struct sk_local *l, struct sk_lactor *a);  /* object: nobody can name it any more */
    void (*call_ready)(struct sk_ltask *t);                         /* task: the arguments of a held call are there */
    void (*call_over)(struct sk_ltask *t);                          /* task: a call has ended */
    void (*advance)(struct sk_local *l, struct sk_lactor *a);       /* task, space: it may go on */
    void (*init_failed)(struct sk_local *l, struct sk_lactor *a, uint32_t kind, struct sk_inl *error); /* task: its constructor */
    void (*came_back)(struct sk_local *l); /* space: what can begin now begins, before more room is looked for */
    sk_rc (*full)(struct sk_local *l, uint32_t proc, uint64_t len, sk_off *off,
                  struct sk_err *err); /* link: the store is, and the message must go */
};

extern const struct sk_upcalls sk_upcalls;

void sk_loop_dispatch(struct sk_local *l); /* place what can be placed */
void sk_loop_dispatch_at(struct sk_local *l, int64_t now_ns);
struct sk_pace_view sk_loop_view(const struct sk_local *l, int64_t now_ns, uint32_t n_messages);
void sk_loop_fail_waiting(struct sk_local *l, sk_rc rc, const char *why); /* all that wait for a worker */

#endif
