/* extent.h - store memory of compiled graphs: extents that belong to no process and hold no object.
 *
 * Calls: none. */
#ifndef SK_LOCAL_EXTENT_H
#define SK_LOCAL_EXTENT_H

#include "base/containers/list.h"
#include "base/containers/vec.h"
#include "engine/channels.h"

struct sk_local;

struct sk_extent {
    uint64_t off, len;
};
struct sk_lgraph {
    struct sk_list link; /* l->graphs.all */
    uint64_t id;
    uint32_t owner; /* a process */
    bool over;      /* closed; its memory may be in use */
    bool has_head;
    uint64_t head; /* the extent that was made first */
    SK_VEC(struct sk_extent) extents;
};
struct sk_lgraphs {
    struct sk_list all;
    struct sk_graph_hooks hooks;
};

void sk_lgraphs_init(struct sk_local *l, const struct sk_graph_hooks *hooks); /* hooks NULL: none */
sk_rc sk_lgraph_open(struct sk_local *l, uint32_t proc, uint64_t *id,
                     struct sk_err *err) SK_MUST_USE;
/* proc is its owner, else nothing happens */
void sk_lgraph_close(struct sk_local *l, uint32_t proc, uint64_t id);
/* The driver's lease [off, +len) is the graph's from now on. SK_ECLOSED: there is no such graph;
 * SK_ENOMEM. The lease was given back then. */
sk_rc sk_lgraph_own(struct sk_local *l, uint64_t id, uint64_t off, uint64_t len,
                    struct sk_err *err) SK_MUST_USE;
void sk_lgraph_free(struct sk_local *l, uint64_t id, uint64_t off);
/* An actor was killed for good: graphs that it is in are closed. Its process ends soon, which is
 * told by sk_lgraphs_actor_died. */
void sk_lgraphs_actor_killed(struct sk_local *l, uint64_t aid, const char *how);
/* A process of it has ended. restarts: it will have another. */
void sk_lgraphs_actor_died(struct sk_local *l, uint64_t aid, const char *how, bool restarts);
void sk_lgraphs_proc_dead(struct sk_local *l, uint32_t proc, const char *how); /* its own graphs */
/* the engine closes: all of them. True: some memory may still be looked at */
bool sk_lgraphs_end(struct sk_local *l, const char *why);
/* what this process notes of them, and no memory of the store */
void sk_lgraphs_free(struct sk_local *l);
uint32_t sk_lgraphs_living(struct sk_local *l);
bool sk_lgraphs_check(struct sk_local *l);

#endif
