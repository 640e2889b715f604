/* view_bench.c - what it costs the driver to be seen (engine/view.h): ns of CPU time for an ended
 * task, a note of a block, a run that is stored, and the counters; the least of 50 rounds. "first"
 * are the tasks that touch the ring's pages for the first time; with `warm`, these are made present
 * before, as the engine's watch thread does. Command: build/release/bin/view_bench [warm] */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "engine/local/wire/view.h"

enum { ROUNDS = 50, OPS = 8 };

static double least(struct sk_view_writer *w, int n, void (*one)(struct sk_view_writer *, int)) {
    double best = 1e18;
    for (int r = 0; r < ROUNDS; r++) {
        int64_t t0 = sk_thread_cpu_ns();
        for (int i = 0; i < n; i++) one(w, i);
        double ns = (double)(sk_thread_cpu_ns() - t0) / n;
        best = SK_MIN(best, ns);
    }
    return best;
}

static void task(struct sk_view_writer *w, int i) {
    uint32_t name = sk_viewer_known(w, (uint64_t)(i % 5) << 20 | 1);
    sk_viewer_task(w, &(struct sk_view_task){.id = (uint64_t)i, .start_ns = i, .name = name});
}
static void named(struct sk_view_writer *w, int i) {
    static const char *const names[] = {"ReadParquet->MapBatches(embed)", "Write", "Sort"};
    const char *n = names[i % 3];
    uint32_t name = sk_viewer_name(w, 0, (struct sk_bytes){n, strlen(n)}, "");
    sk_viewer_task(w, &(struct sk_view_task){.id = (uint64_t)i, .name = name});
}
static void flow(struct sk_view_writer *w, int i) {
    sk_viewer_flow(w, &(struct sk_view_flow){.block = (uint64_t)i, .task = 1, .ns = i});
}
static struct sk_view_run run;
static void store_run(struct sk_view_writer *w, int i) {
    run.wall_ns = i;
    sk_viewer_run(w, (uint32_t)i % 2, &run);
}
static void counters(struct sk_view_writer *w, int i) {
    sk_viewer_counters(w, &(struct sk_view_counters){.now_ns = i});
}

int main(int argc, char **argv) {
    struct sk_view_writer w;
    struct sk_err err;
    if (sk_viewer_open(&w, &(struct sk_view_about){0}, &err) != SK_OK) return 1;
    for (uint64_t i = 0; i < 5; i++)
        (void)sk_viewer_name(&w, i << 20 | 1, (struct sk_bytes){"f", 1}, "");
    run.n_ops = run.n_shown = OPS;
    run.n_samples = SK_VIEW_SAMPLES;
    if (argc > 1 && strcmp(argv[1], "warm") == 0) sk_viewer_warm(&w);
    int64_t t0 = sk_thread_cpu_ns();
    for (int i = 0; i < (int)SK_VIEW_TASKS; i++) task(&w, i);
    double first = (double)(sk_thread_cpu_ns() - t0) / SK_VIEW_TASKS;
    printf("task %.1f ns (with a name of its own %.1f, first %.1f), block made or taken %.1f ns\n",
           least(&w, SK_VIEW_TASKS, task), least(&w, SK_VIEW_TASKS, named), first,
           least(&w, SK_VIEW_FLOWS, flow));
    printf("run of %d operators %.2f us, counters %.2f us (every 100 ms)\n", OPS,
           least(&w, 1000, store_run) / 1e3, least(&w, 1000, counters) / 1e3);
    sk_viewer_close(&w);
    return 0;
}
