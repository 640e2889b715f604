/* cluster.h - the hardware of a simulated cluster: cores, disks, network cards, an object store
 * beside it (S3), and the memory of each node's store, which spills to the node's disks. It is a
 * queueing model on virtual time: each piece of hardware is a server with a queue, and work is cut
 * into pieces that pass from server to server.
 *
 *     flow: 16 pieces ──► DISK of node 3 ──► NET_OUT of 3 ──► NET_IN of 7 ──► CORE of 7 ──► done()
 *           `window` pieces are under way at once
 *
 * A server works on one piece at a time, in the order in which pieces arrive, and is never idle
 * while a piece waits. (A node has `cores` servers of kind CORE and `disks` of kind DISK.) Flows
 * that use the same server share it piece by piece, and the slowest server decides how long a flow
 * takes. Nothing here knows of tasks or shuffles: scale.h runs those on it.
 *
 * Units: bytes, seconds. Left out: memory bandwidth, a switch (each card gets its full speed),
 * failures, chance. */
#ifndef SK_CLUSTER_H
#define SK_CLUSTER_H

#include "base/base.h"

struct sk_cl_node {
    uint32_t cores, disks;
    /* Of one disk: bytes per second within a range of consecutive bytes, and the seconds that each
     * range costs before its first byte. */
    double disk_bytes_s, seek_s;
    double net_bytes_s;   /* in each direction */
    uint64_t store_bytes; /* memory of the store */
};

struct sk_cl_conf {
    uint32_t n_nodes;
    struct sk_cl_node node; /* all nodes are alike */
    /* most requests per second of the whole object store; 0: no limit */
    double s3_requests_s;
    uint32_t spillers; /* how many values a node writes to disk at once; 0: 4 */
    void (*spilled)(void *ctx, uint32_t object);
    void *ctx;
};

enum sk_cl_server {
    SK_CL_CORE,
    SK_CL_DISK,
    SK_CL_NET_OUT,
    SK_CL_NET_IN,
    SK_CL_KINDS,
    SK_CL_DRIVER = SK_CL_KINDS,
    SK_CL_S3,
    SK_CL_WAIT
};

/* One step of a flow. node: only for the first four kinds; there is one DRIVER and one S3. WAIT has
 * no queue: only time passes. */
struct sk_cl_hop {
    enum sk_cl_server what;
    uint32_t node;
    double sec; /* time for one piece */
};
#define SK_CL_HOPS 6u
struct sk_cl_flow {
    struct sk_cl_hop hop[SK_CL_HOPS];
    uint32_t n_hops, pieces, window; /* pieces, window: at least 1 */
    void (*done)(void *ctx, void *arg);
    void *arg; /* done also gets ctx, from sk_cl_conf */
};

struct sk_cluster;
/* SK_ENOMEM. If later an allocation fails, the process ends. */
sk_rc sk_cl_create(const struct sk_cl_conf *conf, struct sk_cluster **out) SK_MUST_USE;
void sk_cl_destroy(struct sk_cluster *c);
double sk_cl_now(const struct sk_cluster *c);
bool sk_cl_turn(struct sk_cluster *c); /* handles the next event; false: there is none */
/* Starts a flow. done() is called in a later sk_cl_turn, even when the flow has nothing to do. */
void sk_cl_begin(struct sk_cluster *c, const struct sk_cl_flow *f);
/* Busy seconds, summed over all servers of the kind. */
double sk_cl_busy(const struct sk_cluster *c, enum sk_cl_server what);
double sk_cl_disk_s(const struct sk_cluster *c, double bytes, double stretches);
double sk_cl_net_s(const struct sk_cluster *c, double bytes);

/* ---- values in the nodes' stores -------------------------------------------------------------
 *
 * Room in a store is taken before the bytes exist. Where there is none, the oldest values go to
 * disk, `spillers` at a time, and the caller waits in a queue. When a store is fuller than 80 %,
 * values go to disk in advance (as Ray does). When nothing is left that could go to disk, room is
 * given beyond the limit, and counted in over_bytes. */

/* Takes room for bytes in a node's memory; done() is called in a later turn, when there is room. */
void sk_cl_take(struct sk_cluster *c, uint32_t node, uint64_t bytes,
                void (*done)(void *ctx, void *arg), void *arg);
/* Gives bytes back that were taken and did not become a value. */
void sk_cl_give(struct sk_cluster *c, uint32_t node, uint64_t bytes);
/* Makes a value of bytes that were taken, and returns its number, from 1 on. stretches: number of
 * ranges of consecutive bytes that the value has on disk. */
uint32_t sk_cl_keep(struct sk_cluster *c, uint32_t node, uint64_t bytes, double stretches);
void sk_cl_drop(struct sk_cluster *c, uint32_t object);
bool sk_cl_on_disk(const struct sk_cluster *c, uint32_t object);
uint32_t sk_cl_home(const struct sk_cluster *c, uint32_t object);

struct sk_cl_stats {
    uint64_t spilled_bytes, over_bytes, peak_objects;
};
void sk_cl_get_stats(const struct sk_cluster *c, struct sk_cl_stats *out);

#endif
