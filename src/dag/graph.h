/* graph.h - a compiled graph in shared memory: a seat for each actor's loop, the channel of each
 * node that needs one, who reads which, and how it ended.
 *
 * It lies in one piece at `head`; buffers are elsewhere. So whoever maps it (the driver, whoever
 * owns the graph) can bury an actor, close it, and tell whether anybody looks at it still. Actors
 * are numbered as in the schedule: n_actors of them, then who submits (n_actors) and who gets
 * results (n_actors + 1). */
#ifndef SK_DAG_GRAPH_H
#define SK_DAG_GRAPH_H

#include "dag/channel.h"
#include "dag/loop.h"

#define SK_DAG_NONE UINT32_MAX

struct sk_dag_head;
struct sk_dag_shape {
    uint64_t id; /* of this graph: no other one has it */
    uint32_t n_actors, n_nodes, n_edges;
    const uint32_t *actor; /* of each node */
    const struct sk_dag_edge *edges;
    const uint64_t *ids;      /* of each actor */
    uint32_t n_cells, n_bufs; /* of each channel */
};
/* Bytes of a graph; 0: SK_EINVAL in *err, a value goes to too many actors or a number is out of
 * range; or SK_ENOMEM. */
uint64_t sk_dag_bytes(const struct sk_dag_shape *s, struct sk_err *err);
/* mem is aligned to 64 */
sk_rc sk_dag_create(void *mem, const struct sk_dag_shape *s, struct sk_err *err) SK_MUST_USE;

/* NULL: its value stays in its actor */
void *sk_dag_channel(const struct sk_dag_head *h, uint32_t node);
/* The number of `actor`'s end of that channel as a reader; SK_DAG_NONE: it has none. */
uint32_t sk_dag_reader(const struct sk_dag_head *h, uint32_t node, uint32_t actor);
struct sk_dag_seat *sk_dag_seat(const struct sk_dag_head *h, uint32_t actor);

void *sk_dag_states(const struct sk_dag_head *h, uint32_t actor); /* the channel of its states */

/* all channels: every wait ends with SK_ECLOSED. Seats that are empty stay so */
void sk_dag_close(struct sk_dag_head *h);
/* A process of the actor with that id has ended. id 0: who owned the graph has; UINT64_MAX: all of
 * them end but the owner. restarts: the actor has another life: then its seat is empty again, and
 * the graph goes on when somebody sits there, unless what was under way has killed it as often as
 * it may; else nobody takes its place, and the graph is closed. From anywhere that maps it; one at
 * a time. Nothing happens before the graph was created. */
void sk_dag_bury(void *head, uint64_t id, const char *how, bool restarts);
/* The actor with that id was killed for good, and its process may run on for a moment: the graph is
 * closed now, and sk_dag_bury follows. Called as that is. */
void sk_dag_condemn(void *head, uint64_t id, const char *how);
/* Moves with each seat that is lost and when the graph is closed: look at it, then at what it is
 * about, then wait while it is the same. */
_Atomic uint32_t *sk_dag_changes(struct sk_dag_head *h);
bool sk_dag_closed(const struct sk_dag_head *h);
/* Who died first: index of an actor, n_actors: the owner; SK_DAG_NONE: nobody. *how stays as long
 * as the graph. */
uint32_t sk_dag_dead(const struct sk_dag_head *h, const char **how);
/* a loop runs in it, or may begin to; or somebody still looks at a message */
bool sk_dag_in_use(const void *head);

#endif
