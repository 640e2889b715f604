/* cluster.h - types only: what the engine `cluster` is opened with. */
#ifndef SK_CLUSTER_CLUSTER_H
#define SK_CLUSTER_CLUSTER_H

#include "base/base.h"

struct sk_cluster_conf {
    /* where the nodes listen (node.h), as "host:port", or "@host:port" (tcp.h) */
    const char *const *addresses;
    uint32_t n_addresses;
    const char *carrier; /* (tcp.h); NULL: there is none */
    uint64_t job;
    struct sk_bytes secret; /* 32 bytes, the same for all nodes of the job */
    /* A node of which nothing was heard for this long is lost; 0: 5 s. */
    int64_t lease_ns;
    /* How long opening waits for all nodes to answer; 0: 5 s. */
    int64_t patience_ns;
};

#endif
