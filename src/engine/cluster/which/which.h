/* which.h - decides which node runs the next task of a shape. Pure. Within a node the local engine
 * decides (place/). */
#ifndef SK_CLUSTER_WHICH_H
#define SK_CLUSTER_WHICH_H

#include "engine/resources.h"

struct sk_which_node {
    bool alive;
    struct sk_res total;
    struct sk_res used; /* needs of the tasks and actors that were sent there and have not ended */
    /* What no task there gives back soon: what actors, and bundles of groups, have, and what is
     * saved up for a group. */
    struct sk_res held;
    uint64_t local_bytes; /* bytes of the task's arguments that lie there */
    uint64_t spread;      /* number of the last task with `spread` that it got; 0: none */
};

struct sk_which_task {
    struct sk_res need;
    uint64_t bytes; /* bytes of all arguments that lie on nodes */
    int64_t avg_ns; /* mean time of the tasks of this shape; 0: not known */
    bool keeps;     /* an actor: it keeps what it takes, so it never waits at a node */
    bool spread;    /* it goes to the node that has waited longest for such a task, of those with
                     * room; the places of its arguments do not count */
};

/* The number of tasks of this shape that a node may have beyond those that can run, so that it has
 * the next ones when they end: about 5 ms of work, at least as many as can run in `total`, which is
 * what is not held. */
uint32_t sk_which_ahead(const struct sk_which_task *t, const struct sk_res *total);
/* Returns the index of the node that is likely to end the task first: the sum of the time until it
 * can begin there and the time that moving its arguments takes, at 1 GB/s; among equals the node
 * of which the smallest part is in use. UINT32_MAX: no node may have the task now. */
uint32_t sk_which_node(const struct sk_which_task *t, const struct sk_which_node *n, uint32_t n_n);
/* True if a node that is alive could ever run the task. */
bool sk_which_ever(const struct sk_res *need, const struct sk_which_node *n, uint32_t n_n);

#endif
