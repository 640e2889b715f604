/* nodes.h - side contract: nodes that come and go while an engine of several machines runs. Whoever
 * launches nodes (a script, an autoscaler, a cloud's notice that takes a machine back) makes these
 * calls; the engine starts and stops no machine. */
#ifndef SK_NODES_H
#define SK_NODES_H

#include "engine/engine.h"

struct sk_nodes_ops {
    /* Makes one more node known, which listens at "HOST:PORT" and knows the secret of the job
     * (cluster/node.h). When the call returns, the node has a row in `nodes`, and tasks that wait
     * go there, too. The call waits for the node's answer as long as opening the engine does.
     * SK_ETIMEOUT: it did not answer; SK_EIO: it cannot be reached, or refuses, with the reason;
     * SK_EINVAL: the address is none. After such an error the engine goes on without the node, and
     * the call may be made again. SK_ECLOSED. */
    sk_rc (*join)(struct sk_engine *e, const char *address, uint32_t *number, struct sk_err *err);
    /* Begins to empty a node that is to go away, and returns at once. From now on the node gets no
     * new task. The tasks that it has go on to their ends. An actor that may be restarted moves to
     * another node as soon as one has room and its calls under way have ended; one that may not
     * keeps the node until it ends. Values that only this node has are copied to other nodes, or to
     * the driver where no node has room. When nothing is left the node is let go: its process ends
     * well (sk_node_wait), and its row is no longer alive. A node that is not empty at the deadline
     * counts as lost: its tasks run again elsewhere, if they may, and its actors die, or restart.
     * A second call for the same node can only bring the deadline forward. SK_ENOENT: there is no
     * such node, or no more; SK_ECLOSED. */
    sk_rc (*drain)(struct sk_engine *e, uint32_t number, int64_t deadline_ns, struct sk_err *err);
    /* Gives the engine up, since what launched its nodes is gone and will take them along: from now
     * on each call is SK_EDEAD with this text, also those that wait. Closing the engine ends its
     * nodes as ever. SK_ECLOSED. */
    sk_rc (*give_up)(struct sk_engine *e, const char *why, struct sk_err *err);
};

#endif
