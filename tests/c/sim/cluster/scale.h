/* scale.h - exec's scheduler and the shuffle strategies on a simulated cluster (cluster.h): it
 * computes how long a sort would take there, and what the bottleneck is.
 *
 * The decisions come from the code that also runs on one machine: step.c with exchange.c, packs.c
 * and a policy, and the strategies of src/shuffle. The work is simulated by the cluster: tasks are
 * maps, merges and reduces that read, compute, move and write bytes. The driver is one more server,
 * which spends some time on each new value and on each part that is an argument of a task.
 *
 * Sizes may be real, or coarser by `grain` and `bundle`, so that a run is cheaper. A simulated map
 * then stands for `grain` maps side by side, with their memory, connections and cores; a reduce for
 * `grain` reduces; and each value of a merge for `bundle` values. Bytes stay real; the counts of
 * values, parts and stretches on disk are multiplied.
 *
 * The same conf gives the same result. Tests: tests/c/sim/scale_sim.c; figures of real clusters:
 * bench/c/paper.c. */
#ifndef SK_SCALE_H
#define SK_SCALE_H

#include "base/err.h"
#include "sim/cluster/cluster.h"
#include "shuffle/shuffle.h"

/* The shuffles of the published systems (Exoshuffle, SIGCOMM 2023, section 3). M: maps, R: reduces,
 * W: nodes. */
enum sk_scale_way {
    /* Reduces read the maps' output; the strategy says in how many values a map gives it. */
    SK_SCALE_DIRECT,
    /* Riffle: `factor` maps of a node are merged on that node into one value per reduce. */
    SK_SCALE_MERGE,
    /* Magnet: a map gives one value for each node; `factor` of them are merged on that node into
     * one value per reduce. Map output stays for one more round (of all map slots). */
    SK_SCALE_PUSH,
    /* Cosco, and the two levels of CloudSort: as PUSH, but map output is freed once it is
     * merged. */
    SK_SCALE_PUSH_STAR
};

struct sk_scale_conf {
    struct sk_cl_conf cluster; /* the caller leaves spilled and ctx empty */
    enum sk_scale_way way;
    const char *strategy; /* DIRECT: a strategy of src/shuffle/by */
    /* DIRECT: number of values of a map, in place of the strategy's; 0: as the strategy says */
    uint32_t values_a_map;
    /* MERGE, PUSH: how many neighbouring reduces have one value of a merge in common. The published
     * systems have 1. Larger numbers make fewer values, of which a reduce reads a part each. */
    uint32_t reduces_a_value;
    /* Bytes of the input; the shuffle and the output have as many each. */
    uint64_t bytes;
    /* grain, bundle: 1, or a divisor of the others */
    uint32_t maps, reduces, factor, grain, bundle;
    uint32_t slots_map, slots_merge, slots_reduce; /* number of tasks that a node runs at once */
    /* Input and output are on S3; false: on the nodes' disks. */
    bool s3;
    uint32_t s3_threads; /* connections of a task */
    /* Bytes of a request (get, put); seconds before its first byte; bytes per second of a
     * connection. */
    double s3_get_bytes, s3_put_bytes, s3_wait_s, s3_conn_bytes_s;
    /* Core seconds per byte for each kind of work. receive: for a byte that arrives from another
     * node. */
    double cpu_read, cpu_map, cpu_merge, cpu_reduce, cpu_write, cpu_receive;
    /* Disks. stretch_bytes: length of the ranges of consecutive bytes that a task reads or writes
     * for itself. part_stretch_bytes: length of those that another node reads. part_stretches:
     * number of ranges that each part of a value on disk adds. */
    double stretch_bytes, part_stretch_bytes, part_stretches;
    /* The driver's seconds for a task, a value and a part of a value, and the bytes of memory that
     * it needs for each. */
    double task_s, value_s, part_s, task_bytes, value_bytes, part_bytes,
        entry_bytes; /* entry: for each reduce that has a part of a value */
    uint64_t seed;   /* of task times, which vary by a tenth */
};

struct sk_scale_result {
    double sec, map_sec; /* map_sec: when the last map or merge ended */
    /* Numbers of values that were made, parts that reduces took, and tasks that ran, in real
     * sizes. */
    double values, parts, tasks;
    /* The peak of the bytes that the driver keeps for existing values and for tasks' parts. */
    double driver_bytes;
    double moved_bytes, spilled_bytes, over_bytes; /* between nodes; to disk; see cluster.h */
    double busy[SK_CL_KINDS];                      /* share of the time */
    double driver_busy, gets, puts;
    uint64_t forced; /* number of launches although memory did not allow them */
};

/* Runs the sort. SK_EINVAL: a size is not a multiple of its grain or bundle; else exec's error. */
sk_rc sk_scale_run(const struct sk_scale_conf *conf, struct sk_scale_result *out,
                   struct sk_err *err) SK_MUST_USE;

#endif
