/* schedule.h - computes the list of operations of each actor of a graph (pure).
 *
 * All actors follow one order: that of bind(), in which each node comes after the nodes whose
 * values it takes. An actor's list is the part of that order that concerns it. An operation of
 * execution i waits for its data, for the previous operation of its actor, and for room in a
 * channel of n >= 1 cells, which a reader makes at the end of its execution i - n. All three come
 * before the operation in the order (execution, place in the list). So the least operation that is
 * not done can always run: no deadlock, whatever the times. A meeting (SEND and RECV) is one
 * operation of two actors, at one place of that order. */
#ifndef SK_SCHEDULE_H
#define SK_SCHEDULE_H

#include "base/base.h"
#include "base/err.h"

struct sk_dag_edge { /* node `to` takes the value of node `from` */
    uint32_t from, to;
    /* True: the value goes by a transport where the sender waits for the receiver (NCCL, gloo).
     * False: the value goes through the channel of `from`. */
    bool meets;
};

struct sk_dag_graph {
    uint32_t n_nodes, n_actors, n_edges;
    /* [n_nodes]: the actor of each node, in the order of bind(). The submitting process and the one
     * that gets results count as actors of one node each. */
    const uint32_t *actor;
    const struct sk_dag_edge *edges;
    /* True: values of other actors are taken as soon as they exist, before other nodes of the actor
     * compute. False: they are taken when they are needed. */
    bool overlap;
};

enum sk_dag_kind {
    /* reads the message of this execution from the channel of `node`, once for all nodes of the
     * actor that take the value */
    SK_DAG_READ,
    SK_DAG_COMPUTE, /* runs `node` */
    /* writes the value of `node` into its channel, once for all actors that take it */
    SK_DAG_WRITE,
    SK_DAG_SEND, /* sends the value of `node` to actor `peer`, which is at the matching RECV */
    SK_DAG_RECV, /* receives the value of `node` from actor `peer` */
};

struct sk_dag_op {
    enum sk_dag_kind kind;
    uint32_t node, peer;
};

struct sk_dag_plan {
    /* Actor a does ops[first[a]] ... ops[first[a + 1] - 1], then passes all that it has read, and
     * begins the next execution. */
    struct sk_dag_op *ops;
    uint32_t *first; /* [n_actors + 1] */
};

/* Makes the schedule. SK_EINVAL: an edge that does not go forward (the graph has a cycle), or an
 * actor or node number that does not exist. */
sk_rc sk_dag_schedule(struct sk_dag_plan *out, const struct sk_dag_graph *g,
                      struct sk_err *err) SK_MUST_USE;
void sk_dag_plan_deinit(struct sk_dag_plan *p); /* safe on a zeroed struct */

#endif
