/* scale.h - exec's scheduler and the shuffle strategies on a simulated cluster (cluster.h): how
 * long would a sort take there, and what holds it up?
 *
 * What decides is the code that runs on one machine: step.c with exchange.c, packs.c and a policy,
 * and the strategies of src/shuffle. What does is the cluster: tasks are maps, merges and reduces
 * that read, compute, move and write bytes. The driver is one more server: each value that it hears
 * of and each part that it hands to a task takes some of its time.
 *
 * Sizes as they are, or in grains: a simulated map stands for `grain` maps side by side, with as
 * much memory, as many connections and cores as those, and a reduce for as many reduces; and a
 * merge's values for `bundle` each. Bytes stay what they are; counts of values, parts and stretches
 * on disk are multiplied.
 *
 * The same conf gives the same result. Tests: tests/c/sim/scale_sim.c; figures of clusters:
 * bench/c/paper.c. */
#ifndef SK_SCALE_H
#define SK_SCALE_H

#include "base/err.h"
#include "sim/cluster/cluster.h"
#include "shuffle/shuffle.h"

/* of the published systems (Exoshuffle, SIGCOMM 2023, 3); M maps, R reduces, W nodes */
enum sk_scale_way {
    /* reduces take what maps gave: in as many values a map as the strategy says */
    SK_SCALE_DIRECT,
    /* Riffle: `factor` maps of a node are merged there into one value a reduce */
    SK_SCALE_MERGE,
    /* Magnet: a map gives one value a node; `factor` of them are merged on that
     * node into one value a reduce. Map output stays for a round (of all map slots)
     * longer */
    SK_SCALE_PUSH,
    /* Cosco, and CloudSort's two levels: the same, and map output goes when it is
     * merged */
    SK_SCALE_PUSH_STAR
};

struct sk_scale_conf {
    struct sk_cl_conf cluster; /* spilled and ctx are not the caller's */
    enum sk_scale_way way;
    const char *strategy;  /* DIRECT: of src/shuffle/by */
    uint32_t values_a_map; /* DIRECT: so many, whatever it says; 0: as it says */
    /* MERGE, PUSH: neighbouring reduces that share a value of a merge; published: 1. More are fewer
     * values, of which reduces have parts */
    uint32_t reduces_a_value;
    /* of the input, the shuffle and the output each */
    uint64_t bytes;
    /* grain, bundle: 1, or what divides the others */
    uint32_t maps, reduces, factor, grain, bundle;
    uint32_t slots_map, slots_merge, slots_reduce; /* tasks at once on a node */
    /* input and output are on S3, else on the nodes' disks */
    bool s3;
    uint32_t s3_threads; /* connections of a task */
    /* of a request; before its first byte; of a connection */
    double s3_get_bytes, s3_put_bytes, s3_wait_s, s3_conn_bytes_s;
    /* What a byte costs a core, in seconds, by what is done to it. receive: a byte that came from
     * another node */
    double cpu_read, cpu_map, cpu_merge, cpu_reduce, cpu_write, cpu_receive;
    /* Disks: bytes of a stretch, of what a task reads or writes for itself; and of what another
     * node reads of a value. A part of a value on disk is `part_stretches` more */
    double stretch_bytes, part_stretch_bytes, part_stretches;
    /* The driver: seconds for a task, a value, a part of a value; bytes that it keeps for each */
    double task_s, value_s, part_s, task_bytes, value_bytes, part_bytes,
        entry_bytes; /* entry: of a value, for each reduce that has a part of it */
    uint64_t seed;   /* of task times, which vary by a tenth */
};

struct sk_scale_result {
    double sec, map_sec; /* until the last map or merge ended */
    /* made; handed to reduces; run. Of the real sizes */
    double values, parts, tasks;
    /* at most: values that exist and parts that tasks have */
    double driver_bytes;
    double moved_bytes, spilled_bytes, over_bytes; /* between nodes; to disk; see cluster.h */
    double busy[SK_CL_KINDS];                      /* share of the time */
    double driver_busy, gets, puts;
    uint64_t forced; /* launches that memory did not allow */
};

/* SK_EINVAL: sizes that do not divide; what exec says, else. */
sk_rc sk_scale_run(const struct sk_scale_conf *conf, struct sk_scale_result *out,
                   struct sk_err *err) SK_MUST_USE;

#endif
