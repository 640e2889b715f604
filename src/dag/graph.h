/* graph.h - a compiled graph in shared memory: a seat for the loop of each actor, the channel of
 * each node that needs one, who reads which channel, and how the graph ended.
 *
 * A graph is one range of memory at `head`, without the buffers of channels. So every process that
 * maps it (the driver, the owner of the graph) can bury an actor, close the graph, and find out
 * whether the graph is still in use. Actors are numbered as in the schedule: first the n_actors
 * actors, then the end that submits inputs (number n_actors) and the end that gets results
 * (n_actors + 1). */
#ifndef SK_DAG_GRAPH_H
#define SK_DAG_GRAPH_H

#include "dag/channel.h"
#include "dag/loop.h"

#define SK_DAG_NONE UINT32_MAX

struct sk_dag_head;
struct sk_dag_shape {
    uint64_t id; /* number of this graph; no other graph has the same */
    uint32_t n_actors, n_nodes, n_edges;
    const uint32_t *actor; /* [n_nodes]: the actor of each node */
    const struct sk_dag_edge *edges;
    const uint64_t *ids;      /* [n_actors]: the id of each actor */
    uint32_t n_cells, n_bufs; /* for each channel */
};
/* Returns the bytes of shared memory that a graph needs. 0: an error; *err says SK_EINVAL (a value
 * goes to too many actors, or a number is out of range) or SK_ENOMEM. */
uint64_t sk_dag_bytes(const struct sk_dag_shape *s, struct sk_err *err);
/* Formats mem, which is aligned to 64 bytes and has sk_dag_bytes bytes. */
sk_rc sk_dag_create(void *mem, const struct sk_dag_shape *s, struct sk_err *err) SK_MUST_USE;

/* The channel of a node; NULL: its value stays within its actor. */
void *sk_dag_channel(const struct sk_dag_head *h, uint32_t node);
/* The number of `actor` as a reader of the node's channel; SK_DAG_NONE: it is no reader. */
uint32_t sk_dag_reader(const struct sk_dag_head *h, uint32_t node, uint32_t actor);
struct sk_dag_seat *sk_dag_seat(const struct sk_dag_head *h, uint32_t actor);

/* Returns the channel in which the actor stores its states. */
void *sk_dag_states(const struct sk_dag_head *h, uint32_t actor);

/* Closes all channels, so every wait ends with SK_ECLOSED, and skips empty seats. */
void sk_dag_close(struct sk_dag_head *h);
/* Records that a process of the actor with that id has ended. id 0: the owner of the graph has
 * ended; UINT64_MAX: all processes end but the owner. restarts: the actor will have another
 * process; its seat becomes empty, and the graph goes on when that process takes the seat. If the
 * actor does not restart, or the execution under way has used up its retries, the graph is closed.
 * May be called in any process that maps the graph; one call at a time. Does nothing before the
 * graph is created. */
void sk_dag_bury(void *head, uint64_t id, const char *how, bool restarts);
/* Closes the graph, since the actor with that id was killed for good. The actor's process may run
 * on for a moment; sk_dag_bury follows when it has ended. The same rules for callers as for
 * sk_dag_bury. */
void sk_dag_condemn(void *head, uint64_t id, const char *how);
/* Returns a futex word that changes with each lost seat and when the graph is closed. To wait, read
 * the word, then the state, then wait while the word has not changed. */
_Atomic uint32_t *sk_dag_changes(struct sk_dag_head *h);
bool sk_dag_closed(const struct sk_dag_head *h);
/* Returns which actor died first: its index; n_actors: the owner; SK_DAG_NONE: none. *how: a text,
 * valid as long as the graph. */
uint32_t sk_dag_dead(const struct sk_dag_head *h, const char **how);
/* True if a loop runs in the graph or may still begin, or if a reader still uses a message. */
bool sk_dag_in_use(const void *head);

#endif
