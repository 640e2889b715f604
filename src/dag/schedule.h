/* schedule.h - from a graph to what each of its actors does, in order (pure).
 *
 * There is one order for all: that of bind(), in which each node comes after those whose values it
 * takes. An actor's list is that order, restricted to it. What an operation of execution i waits
 * for comes before it in the order (execution, place): its data, its actor's last operation, and
 * room in a channel of n >= 1 cells, which a reader makes at its end of execution i - n. So there
 * is always a least operation that has not been done, and it can run: no deadlock, whatever the
 * times. A meeting is one operation of two actors, at one place of that order. */
#ifndef SK_SCHEDULE_H
#define SK_SCHEDULE_H

#include "base/base.h"
#include "base/err.h"

struct sk_dag_edge { /* node `to` takes the value of node `from` */
    uint32_t from, to;
    /* the value goes by a transport where who sends waits for who receives (NCCL, gloo); else by
     * the channel of `from` */
    bool meets;
};

struct sk_dag_graph {
    uint32_t n_nodes, n_actors, n_edges;
    /* of each node, in the order of bind(). Who submits and who gets results are actors, too: of
     * one node each */
    const uint32_t *actor;
    const struct sk_dag_edge *edges;
    /* what comes from elsewhere is taken as soon as it is there, before other nodes of the actor
     * compute; else when it is needed */
    bool overlap;
};

enum sk_dag_kind {
    /* the message of this execution in the channel of `node`, once for all nodes of the actor that
     * take it */
    SK_DAG_READ,
    SK_DAG_COMPUTE, /* `node` */
    SK_DAG_WRITE,   /* its value into its channel, once for all actors that take it */
    SK_DAG_SEND,    /* its value to actor `peer`, which is at the RECV of it */
    SK_DAG_RECV,    /* the value of `node` from actor `peer` */
};

struct sk_dag_op {
    enum sk_dag_kind kind;
    uint32_t node, peer;
};

struct sk_dag_plan {
    /* actor a does ops[first[a]] ... ops[first[a + 1] - 1], then passes all that it has read,
     * and begins the next execution */
    struct sk_dag_op *ops;
    uint32_t *first; /* n_actors + 1 */
};

/* SK_EINVAL: an edge that does not go forward (the graph has a cycle), an actor or a node that
 * there is not. */
sk_rc sk_dag_schedule(struct sk_dag_plan *out, const struct sk_dag_graph *g,
                      struct sk_err *err) SK_MUST_USE;
void sk_dag_plan_deinit(struct sk_dag_plan *p); /* safe on a zeroed one */

#endif
