/* extent.h - store memory of compiled graphs: extents that belong to no process and hold no object.
 *
 * Calls: none. The code of this part may call no other part of the driver; tests/shape.py reads
 * this line. */
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
    struct sk_list link; /* link in l->graphs.all */
    uint64_t id;
    uint32_t owner; /* number of the process that owns the graph */
    bool over;      /* the graph is closed; its memory may still be in use */
    bool has_head;
    uint64_t head; /* the extent that was allocated first */
    SK_VEC(struct sk_extent) extents;
};
struct sk_lgraphs {
    struct sk_list all;
    struct sk_graph_hooks hooks;
};

/* hooks NULL: there are no graphs */
void sk_lgraphs_init(struct sk_local *l, const struct sk_graph_hooks *hooks);
sk_rc sk_lgraph_open(struct sk_local *l, uint32_t proc, uint64_t *id,
                     struct sk_err *err) SK_MUST_USE;
/* Closes a graph, if proc is its owner; else nothing happens. */
void sk_lgraph_close(struct sk_local *l, uint32_t proc, uint64_t id);
/* Gives the driver's lease [off, +len) to the graph. SK_ECLOSED: there is no such graph;
 * SK_ENOMEM. After an error the lease has been given back. */
sk_rc sk_lgraph_own(struct sk_local *l, uint64_t id, uint64_t off, uint64_t len,
                    struct sk_err *err) SK_MUST_USE;
void sk_lgraph_free(struct sk_local *l, uint64_t id, uint64_t off);
/* Called when an actor was killed for good: closes the graphs that the actor is in.
 * sk_lgraphs_actor_died follows when the actor's process has ended. */
void sk_lgraphs_actor_killed(struct sk_local *l, uint64_t aid, const char *how);
/* Called when a process of the actor has ended. restarts: the actor will get another process. */
void sk_lgraphs_actor_died(struct sk_local *l, uint64_t aid, const char *how, bool restarts);
/* closes the graphs that proc owns */
void sk_lgraphs_proc_dead(struct sk_local *l, uint32_t proc, const char *how);
/* Closes all graphs when the engine closes. True: a process may still read memory of a graph. */
bool sk_lgraphs_end(struct sk_local *l, const char *why);
/* Frees the driver's entries of graphs; memory of the store is left as it is. */
void sk_lgraphs_free(struct sk_local *l);
uint32_t sk_lgraphs_living(struct sk_local *l);
bool sk_lgraphs_check(struct sk_local *l);

#endif
