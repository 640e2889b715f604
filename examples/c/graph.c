/* graph.c - three actors in a chain, as a compiled graph (skate_graph.h).
 *
 *     graph [EXECUTIONS]         prints the sum of all results, and on stderr the median latency
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "skate_graph.h"

static int64_t step; /* the state of an actor */
SKATE_TASK(stage_new) { return skate_arg_copy(t, 0, &step, sizeof step); }
SKATE_TASK(add) {
    int64_t x;
    int rc = skate_arg_copy(t, 0, &x, sizeof x);
    if (rc) return rc;
    x += step;
    return skate_return(t, 0, &x, sizeof x);
}

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}
static int by_value(const void *a, const void *b) {
    const int64_t *x = a, *y = b;
    return *x < *y ? -1 : *x > *y;
}
static int failed(void) { return fprintf(stderr, "graph: %s\n", skate_error()), 1; }

int main(int argc, char **argv) {
    if (skate_worker_main(argc, argv)) return 0;
    int64_t n = argc > 1 ? atoll(argv[1]) : 1000, sum = 0;
    int64_t *took = calloc((size_t)n + 1, sizeof *took);
    if (n < 1 || !took) return fprintf(stderr, "usage: graph [EXECUTIONS]\n"), 2;
    if (skate_init(NULL)) return failed();

    enum { STAGES = 3 };
    struct skate_node nodes[STAGES];
    uint32_t before[STAGES] = {SKATE_INPUT, 0, 1}, output = STAGES - 1;
    for (int i = 0; i < STAGES; i++) {
        int64_t by = i + 1;
        nodes[i] = (struct skate_node){.name = "add", .args = &before[i], .n_args = 1};
        if (skate_actor_create("stage_new", &SKATE_BYTES(&by, sizeof by), 1, NULL, &nodes[i].actor))
            return failed();
    }
    skate_graph *g;
    struct skate_arg out;
    if (skate_graph_compile(nodes, STAGES, &output, 1, NULL, &g)) return failed();
    for (int i = 0; i < STAGES; i++) skate_actor_release(nodes[i].actor); /* the graph has them */
    for (int64_t i = 0; i < n; i++) {
        int64_t begin = now_ns();
        if (skate_graph_execute(g, &i, sizeof i, -1) || skate_graph_get(g, -1, &out))
            return failed();
        took[i] = now_ns() - begin;
        sum += *(const int64_t *)out.data; /* i + 1 + 2 + 3 */
    }
    qsort(took, (size_t)n, sizeof *took, by_value);
    printf("%" PRId64 "\n", sum);
    fprintf(stderr, "median of an execution: %.1f us\n", (double)took[n / 2] / 1e3);
    skate_graph_release(g);
    skate_shutdown();
    return free(took), 0;
}
