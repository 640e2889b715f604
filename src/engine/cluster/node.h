/* node.h - side contract: a node of a cluster as a program runs it: an agent over an engine of this
 * process, reachable over TCP. It listens at one address, serves one driver, and ends with it. */
#ifndef SK_CLUSTER_NODE_H
#define SK_CLUSTER_NODE_H

#include "engine/engine.h"

struct sk_node_conf {
    struct sk_engine *engine; /* borrowed; the node closes it with its own end, see sk_node_close */
    uint64_t job;             /* number of the job; a driver of another job is refused */
    struct sk_bytes secret;   /* 32 bytes that the driver and all nodes of the job know */
    const char *listen_on;    /* address of this machine, numeric: "10.0.0.7", "::1" */
    const char *carrier;      /* (tcp.h); NULL: there is none */
    const char *name;         /* for messages */
    /* What the engine's workers print (host.h), which the driver shows; NULL: it does not. Nobody
     * else takes it while the node is open. */
    struct sk_prints *prints;
    bool labels; /* its lines have labels */
    uint64_t store_bytes;
    struct sk_bytes node_labels; /* (wheres.h) */
    uint64_t id_base;            /* of the engine (conf.h); no other node of the job has the same */
    /* The node ends if it has heard nothing of the driver for this long; 0: 5 s. */
    int64_t lease_ns;
    /* How long it waits for the driver at the start; 0: 60 s. */
    int64_t patience_ns;
};
struct sk_cluster_node;

/* Opens a node; *port is where it listens. A thread of its own serves it. SK_EIO: the address
 * cannot be used. */
sk_rc sk_node_open(const struct sk_node_conf *conf, struct sk_cluster_node **out, uint16_t *port,
                   struct sk_err *err) SK_MUST_USE;
/* Waits until the node has ended: the driver said so (SK_OK), it is gone (SK_EDEAD), or it never
 * came (SK_ETIMEOUT); *err says which. Or until the deadline: SK_EAGAIN. */
sk_rc sk_node_wait(struct sk_cluster_node *n, int64_t deadline_ns, struct sk_err *err) SK_MUST_USE;
/* Says that workers have printed (sk_prints_wait), so that it is sent. May be called by any
 * thread. */
void sk_node_prints(struct sk_cluster_node *n);
/* Ends all tasks of the node and frees it. The engine stays open. */
void sk_node_close(struct sk_cluster_node *n);

#endif
