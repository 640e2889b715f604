/* scale_bench.c - one simulated shuffle on one simulated cluster (tests/c/sim/cluster/scale.h):
 * each argument KEY=VALUE sets a field of struct sk_scale_conf, what comes out is a line of JSON.
 * bench/py/paper.py has the clusters and the published figures. Command:
 * build/release/bin/scale_bench way=push_star nodes=10 ... */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "sim/cluster/scale.h"

enum type { U32, U64, F64 };
#define FIELD(name, type, field) {name, type, offsetof(struct sk_scale_conf, field)}
static const struct field {
    const char *name;
    enum type type;
    size_t at;
} FIELDS[] = {
    FIELD("nodes", U32, cluster.n_nodes),
    FIELD("cores", U32, cluster.node.cores),
    FIELD("disks", U32, cluster.node.disks),
    FIELD("disk_bytes_s", F64, cluster.node.disk_bytes_s),
    FIELD("seek_s", F64, cluster.node.seek_s),
    FIELD("net_bytes_s", F64, cluster.node.net_bytes_s),
    FIELD("store_bytes", U64, cluster.node.store_bytes),
    FIELD("spillers", U32, cluster.spillers),
    FIELD("s3_requests_s", F64, cluster.s3_requests_s),
    FIELD("reduces_a_value", U32, reduces_a_value),
    FIELD("values_a_map", U32, values_a_map),
    FIELD("bytes", U64, bytes),
    FIELD("maps", U32, maps),
    FIELD("reduces", U32, reduces),
    FIELD("factor", U32, factor),
    FIELD("grain", U32, grain),
    FIELD("bundle", U32, bundle),
    FIELD("slots_map", U32, slots_map),
    FIELD("slots_merge", U32, slots_merge),
    FIELD("slots_reduce", U32, slots_reduce),
    FIELD("s3_threads", U32, s3_threads),
    FIELD("s3_get_bytes", F64, s3_get_bytes),
    FIELD("s3_put_bytes", F64, s3_put_bytes),
    FIELD("s3_wait_s", F64, s3_wait_s),
    FIELD("s3_conn_bytes_s", F64, s3_conn_bytes_s),
    FIELD("cpu_read", F64, cpu_read),
    FIELD("cpu_map", F64, cpu_map),
    FIELD("cpu_merge", F64, cpu_merge),
    FIELD("cpu_reduce", F64, cpu_reduce),
    FIELD("cpu_write", F64, cpu_write),
    FIELD("cpu_receive", F64, cpu_receive),
    FIELD("stretch_bytes", F64, stretch_bytes),
    FIELD("part_stretch_bytes", F64, part_stretch_bytes),
    FIELD("part_stretches", F64, part_stretches),
    FIELD("task_s", F64, task_s),
    FIELD("value_s", F64, value_s),
    FIELD("part_s", F64, part_s),
    FIELD("task_bytes", F64, task_bytes),
    FIELD("value_bytes", F64, value_bytes),
    FIELD("part_bytes", F64, part_bytes),
    FIELD("entry_bytes", F64, entry_bytes),
    FIELD("seed", U64, seed),
};
static const char *const WAYS[] = {"direct", "merge", "push", "push_star"};

static bool set(struct sk_scale_conf *c, char *arg) {
    char *value = strchr(arg, '=');
    if (!value) return false;
    *value++ = 0;
    for (uint32_t i = 0; strcmp(arg, "way") == 0 && i < SK_COUNT(WAYS); i++)
        if (strcmp(value, WAYS[i]) == 0) return c->way = (enum sk_scale_way)i, true;
    if (strcmp(arg, "strategy") == 0) return c->strategy = value, true;
    if (strcmp(arg, "s3") == 0) return c->s3 = atoi(value) != 0, true;
    for (uint32_t i = 0; i < SK_COUNT(FIELDS); i++) {
        char *p = (char *)c + FIELDS[i].at, *end;
        if (strcmp(arg, FIELDS[i].name) != 0) continue;
        double x = strtod(value, &end);
        if (*end || !*value || x < 0) return false;
        if (FIELDS[i].type == F64) *(double *)(void *)p = x;
        else if (FIELDS[i].type == U64) *(uint64_t *)(void *)p = (uint64_t)x;
        else *(uint32_t *)(void *)p = (uint32_t)x;
        return true;
    }
    return false;
}

int main(int argc, char **argv) {
    struct sk_scale_conf c = {
        .grain = 1, .s3_threads = 1, .s3_get_bytes = 1, .s3_put_bytes = 1, .s3_conn_bytes_s = 1};
    struct sk_scale_result r;
    struct sk_err err = {0};
    for (int i = 1; i < argc; i++)
        if (!set(&c, argv[i])) {
            fprintf(stderr, "scale_bench: '%s' is no field, or its value is none\n", argv[i]);
            return 2;
        }
    int64_t t = sk_now_ns();
    if (sk_scale_run(&c, &r, &err) != SK_OK) {
        fprintf(stderr, "scale_bench: %s\n", err.msg);
        return 1;
    }
    printf("{\"sec\": %.1f, \"map_sec\": %.1f, \"values\": %.0f, \"parts\": %.0f, \"tasks\": %.0f, "
           "\"driver_bytes\": %.0f, "
           "\"moved_bytes\": %.0f, "
           "\"spilled_bytes\": %.0f, \"over_bytes\": %.0f, \"core\": %.3f, \"disk\": %.3f, "
           "\"net_out\": %.3f, \"net_in\": %.3f, "
           "\"driver\": %.3f, "
           "\"gets\": %.0f, \"puts\": %.0f, \"forced\": %llu, \"took_s\": %.2f}\n",
           r.sec, r.map_sec, r.values, r.parts, r.tasks, r.driver_bytes, r.moved_bytes,
           r.spilled_bytes, r.over_bytes, r.busy[SK_CL_CORE], r.busy[SK_CL_DISK],
           r.busy[SK_CL_NET_OUT], r.busy[SK_CL_NET_IN], r.driver_busy, r.gets, r.puts,
           (unsigned long long)r.forced, (double)(sk_now_ns() - t) / 1e9);
    return fflush(stdout) ? 1 : 0;
}
