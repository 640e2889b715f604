/* cluster.h - the hardware of a simulated cluster: cores, disks, network cards, an object store
 * beside it (S3), and the memory of each node's store, which spills to its disks. A queueing model
 * on virtual time: every piece of hardware is a server with a queue, work is cut into pieces that
 * pass from server to server.
 *
 *     flow: 16 pieces ──► DISK of node 3 ──► NET_OUT of 3 ──► NET_IN of 7 ──► CORE of 7 ──► done()
 * `window` pieces are under way at once
 *
 * A server works on one piece at a time (a node has `cores` and `disks` of them), in the order in
 * which pieces arrive, and is never idle while one waits. So flows that share a server share it by
 * pieces, and what is scarce decides. Nothing here knows of tasks or shuffles: scale.h runs those
 * on it.
 *
 * Units: bytes, seconds. What it is not: no memory bandwidth, no switch (each card is as fast as it
 * says), no failures, nothing random. */
#ifndef SK_CLUSTER_H
#define SK_CLUSTER_H

#include "base/base.h"

struct sk_cl_node {
    uint32_t cores, disks;
    /* of one disk: bytes a second within a stretch, and what each stretch begins with */
    double disk_bytes_s, seek_s;
    double net_bytes_s;   /* each way */
    uint64_t store_bytes; /* memory for values */
};

struct sk_cl_conf {
    uint32_t n_nodes;
    struct sk_cl_node node; /* all are alike */
    double s3_requests_s;   /* that the object store answers in all; 0: any number */
    uint32_t spillers;      /* values that a node writes to disk at once; 0: 4 */
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

/* node: of the first four. DRIVER and S3: there is one. WAIT: no queue, time passes */
struct sk_cl_hop {
    enum sk_cl_server what;
    uint32_t node;
    double sec; /* of one piece */
};
#define SK_CL_HOPS 6u
struct sk_cl_flow {
    struct sk_cl_hop hop[SK_CL_HOPS];
    uint32_t n_hops, pieces, window; /* pieces, window: at least 1 */
    void (*done)(void *ctx, void *arg);
    void *arg; /* ctx is the conf's */
};

struct sk_cluster;
sk_rc sk_cl_create(const struct sk_cl_conf *conf,
                   /* SK_ENOMEM. Memory refused later ends the process */
                   struct sk_cluster **out) SK_MUST_USE;
void sk_cl_destroy(struct sk_cluster *c);
double sk_cl_now(const struct sk_cluster *c);
bool sk_cl_turn(struct sk_cluster *c); /* the next event happens. false: there is none */
/* done() comes from a later turn, also where there is nothing to do. */
void sk_cl_begin(struct sk_cluster *c, const struct sk_cl_flow *f);
/* seconds, of all its servers together */
double sk_cl_busy(const struct sk_cluster *c, enum sk_cl_server what);
double sk_cl_disk_s(const struct sk_cluster *c, double bytes, double stretches);
double sk_cl_net_s(const struct sk_cluster *c, double bytes);

/* ---- values in the nodes' stores ----------------------------------------------------------------
 * Room is taken before bytes exist. Where there is none, the values kept longest go to disk, four
 * at a time, and who asks waits in a queue. Above eight tenths of a store values go out in advance
 * (as Ray's do). Where nothing is left that could go, room is given all the same, and counted
 * (`over`). */
void sk_cl_take(struct sk_cluster *c, uint32_t node, uint64_t bytes,
                void (*done)(void *ctx, void *arg), void *arg); /* done() from a later turn */
void sk_cl_give(struct sk_cluster *c, uint32_t node, uint64_t bytes);
uint32_t sk_cl_keep(struct sk_cluster *c, uint32_t node, uint64_t bytes,
                    /* taken bytes become a value; its number, from 1 on. stretches: on disk */
                    double stretches);
void sk_cl_drop(struct sk_cluster *c, uint32_t object);
bool sk_cl_on_disk(const struct sk_cluster *c, uint32_t object);
uint32_t sk_cl_home(const struct sk_cluster *c, uint32_t object);

struct sk_cl_stats {
    uint64_t spilled_bytes, over_bytes, peak_objects;
};
void sk_cl_get_stats(const struct sk_cluster *c, struct sk_cl_stats *out);

#endif
