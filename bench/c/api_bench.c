/* api_bench.c - what the C interface costs: tasks, calls of actors, a compiled graph, a map over
 * small batches, and a sort of more rows than the store holds.
 *
 *     api_bench [tasks]                         per second, and us
 *     api_bench map [BATCHES]                   us a batch of 1,000 rows (100,000 batches)
 *     api_bench sort BYTES STORE_BYTES FOLDER   rows of 100 bytes (int64 key), spilled to FOLDER
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "skate_data.h"
#include "skate_graph.h"

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}
static int by_value(const void *a, const void *b) {
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}
static _Noreturn void failed(void) {
    fprintf(stderr, "api_bench: %s\n", skate_error());
    exit(1);
}
#define OK(call)            \
    do {                    \
        if (call) failed(); \
    } while (0)

/* ---- tasks, actors, a graph ------------------------------------------------------------------ */

SKATE_TASK(nothing) { return skate_n_returns(t) ? skate_return(t, 0, "", 0) : 0; }
SKATE_TASK(begin) { return 0; }
SKATE_TASK(pass) {
    int64_t x;
    int rc = skate_arg_copy(t, 0, &x, sizeof x);
    return rc ? rc : skate_return(t, 0, &x, sizeof x);
}

enum { MANY = 10000, ROUNDS = 7 };

/* Submits a no-op task, or calls a if it is an actor. */
static void submit(skate_actor a, skate_ref *r) {
    OK(a.id ? skate_actor_call(a, "nothing", NULL, 0, 1, NULL, r)
            : skate_submit("nothing", NULL, 0, 1, NULL, r));
}
static void take(skate_ref r) {
    struct skate_value v;
    OK(skate_get(r, -1, &v));
    skate_value_release(&v);
    skate_release(r);
}

static void calls(const char *what, skate_actor a) {
    static skate_ref r[MANY];
    double one[ROUNDS], all[ROUNDS];
    for (int k = 0; k < ROUNDS; k++) {
        double t0 = now();
        for (int i = 0; i < MANY; i++) {
            submit(a, &r[0]);
            take(r[0]);
        }
        one[k] = (now() - t0) / MANY;
        t0 = now();
        for (int i = 0; i < MANY; i++) submit(a, &r[i]);
        for (int i = 0; i < MANY; i++) take(r[i]);
        all[k] = (now() - t0) / MANY;
    }
    qsort(one, ROUNDS, sizeof *one, by_value);
    qsort(all, ROUNDS, sizeof *all, by_value);
    printf("%s: %.0f/s one at a time (%.2f us), %.0f/s of %d at once\n", what, 1 / one[ROUNDS / 2],
           one[ROUNDS / 2] * 1e6, 1 / all[ROUNDS / 2], MANY);
}

static void graph(void) {
    enum { STAGES = 3 };
    struct skate_node nodes[STAGES];
    uint32_t before[STAGES] = {SKATE_INPUT, 0, 1}, output = STAGES - 1;
    static double took[MANY];
    skate_graph *g;
    struct skate_arg out;
    for (int i = 0; i < STAGES; i++) {
        nodes[i] = (struct skate_node){.name = "pass", .args = &before[i], .n_args = 1};
        OK(skate_actor_create("begin", NULL, 0, NULL, &nodes[i].actor));
    }
    OK(skate_graph_compile(nodes, STAGES, &output, 1, NULL, &g));
    for (int64_t i = 0; i < MANY; i++) {
        double t0 = now();
        OK(skate_graph_execute(g, &i, sizeof i, -1));
        OK(skate_graph_get(g, -1, &out));
        took[i] = now() - t0;
    }
    qsort(took, MANY, sizeof *took, by_value);
    printf("graph of %d actors: %.1f us (median), %.1f us (lowest)\n", STAGES, took[MANY / 2] * 1e6,
           took[0] * 1e6);
    skate_graph_release(g);
    for (int i = 0; i < STAGES; i++) skate_actor_release(nodes[i].actor);
}

static void tasks(void) {
    skate_actor none = {0}, a;
    skate_ref r;
    OK(skate_init(NULL));
    submit(none, &r);
    take(r);
    calls("no-op tasks", none);
    OK(skate_actor_create("begin", NULL, 0, NULL, &a));
    calls("calls of an actor", a);
    skate_actor_release(a);
    graph();
}

/* ---- pipelines ------------------------------------------------------------------------------- */

/* Runs the dataset to its end and returns the number of rows. */
static int64_t drain(skate_dataset *ds, const struct skate_run_opts *o) {
    struct ArrowArrayStream s;
    struct ArrowArray a;
    int64_t n = 0;
    OK(skate_stream(ds, o, &s));
    while (s.get_next(&s, &a) == 0 && a.release) {
        n += a.length;
        a.release(&a);
    }
    if (s.get_last_error(&s)) failed();
    s.release(&s);
    skate_dataset_release(ds);
    return n;
}

SKATE_BATCHES(same) { return skate_emit(t, schema, batch); }

static void map(int64_t batches) {
    enum { ROWS = 1000 };
    struct skate_map_opts o = SKATE_OPTS(struct skate_map_opts);
    double took[2][3];
    o.batch_rows = ROWS;
    OK(skate_init(NULL));
    drain(skate_map(skate_range(ROWS * 1000, NULL, NULL), "same", &o), NULL);
    for (int k = 0; k < 3; k++)
        for (int mapped = 0; mapped < 2; mapped++) {
            double t0 = now();
            skate_dataset *ds = skate_range(ROWS * batches, NULL, NULL);
            drain(mapped ? skate_map(ds, "same", &o) : ds, NULL);
            took[mapped][k] = now() - t0;
        }
    for (int i = 0; i < 2; i++) qsort(took[i], 3, sizeof **took, by_value);
    printf("%lld batches of %d rows: %.3f s, without the map %.3f s: %.2f us a batch\n",
           (long long)batches, ROWS, took[1][1], took[0][1],
           (took[1][1] - took[0][1]) / (double)batches * 1e6);
}

enum { WIDTH = 92, BATCH = 1 << 16 };
static void release_schema(struct ArrowSchema *s) { s->release = NULL; }
static void release_array(struct ArrowArray *a) {
    if (!a->release) return;
    for (int64_t i = 0; i < a->n_children; i++)
        if (a->children[i]->release) a->children[i]->release(a->children[i]);
    free(a->private_data);
    a->release = NULL;
}
static void release_column(struct ArrowArray *a) {
    free((void *)(uintptr_t)a->buffers[1]);
    a->release = NULL;
}

/* Emits n rows of a random key and 92 bytes. */
static int emit_rows(struct skate_task *t, uint64_t *seed, int64_t n) {
    static struct ArrowSchema key = {.format = "l", .name = "k", .release = release_schema},
                              pad = {.format = "w:92", .name = "pad", .release = release_schema},
                              *columns[] = {&key, &pad},
                              schema = {.format = "+s",
                                        .name = "",
                                        .n_children = 2,
                                        .children = columns,
                                        .release = release_schema};
    struct made {
        const void *buffers[3][2];
        struct ArrowArray column[2], *children[2];
    } *m = calloc(1, sizeof *m);
    uint64_t *k = malloc((size_t)n * sizeof *k);
    uint8_t *p = malloc((size_t)n * WIDTH);
    if (!m || !k || !p) return free(m), free(k), free(p), SKATE_ENOMEM;
    for (int64_t i = 0; i < n; i++) {
        k[i] = *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        k[i] ^= k[i] >> 29;
    }
    memset(p, 'x', (size_t)n * WIDTH);
    void *data[2] = {k, p};
    for (int i = 0; i < 2; i++) {
        m->buffers[i][1] = data[i];
        m->column[i] = (struct ArrowArray){
            .length = n, .n_buffers = 2, .buffers = m->buffers[i], .release = release_column};
        m->children[i] = &m->column[i];
    }
    struct ArrowArray a = {.length = n,
                           .n_buffers = 1,
                           .n_children = 2,
                           .buffers = m->buffers[2],
                           .children = m->children,
                           .release = release_array,
                           .private_data = m};
    return skate_emit(t, &schema, &a);
}

SKATE_TASK(random_rows) {
    const int64_t *unit = skate_arg(t, NULL);
    uint64_t seed = (uint64_t)unit[0] + 1;
    int rc = 0;
    for (int64_t n = unit[1]; n > 0 && rc == 0; n -= BATCH)
        rc = emit_rows(t, &seed, n < BATCH ? n : BATCH);
    return rc;
}

static void sort(int64_t bytes, uint64_t store, const char *folder) {
    enum { UNIT_ROWS = 640000, UNITS_MAX = 4096 };
    static int64_t unit[UNITS_MAX][2];
    static struct skate_unit units[UNITS_MAX];
    int64_t rows = bytes / (WIDTH + 8), n = (rows + UNIT_ROWS - 1) / UNIT_ROWS;
    struct skate_run_opts o = SKATE_OPTS(struct skate_run_opts);
    o.memory_bytes = store / 4 * 3;
    if (n > UNITS_MAX) n = UNITS_MAX;
    for (int64_t i = 0; i < n; i++) {
        unit[i][0] = i;
        unit[i][1] = rows * (i + 1) / n - rows * i / n;
        units[i] = (struct skate_unit){unit[i], sizeof unit[i], unit[i][1], unit[i][1] * 100};
    }
    OK(skate_init(SKATE_WITH(struct skate_opts, .store_bytes = store, .spill_dir = folder)));
    double t0 = now();
    skate_dataset *ds = skate_source("random_rows", units, (size_t)n, NULL);
    int64_t got = drain(skate_sort(ds, &(struct skate_key){.column = "k"}, 1, NULL), &o);
    printf("%lld rows sorted, %.1f s, %.3f GB/s\n", (long long)got, now() - t0,
           (double)bytes / (now() - t0) / 1e9);
}

int main(int argc, char **argv) {
    if (skate_worker_main(argc, argv)) return 0;
    const char *what = argc > 1 ? argv[1] : "tasks";
    if (strcmp(what, "tasks") == 0) tasks();
    else if (strcmp(what, "map") == 0) map(argc > 2 ? atoll(argv[2]) : 100000);
    else if (strcmp(what, "sort") == 0 && argc == 5)
        sort(atoll(argv[2]), (uint64_t)atoll(argv[3]), argv[4]);
    else return fprintf(stderr, "usage: api_bench [tasks | map [N] | sort BYTES STORE DIR]\n"), 2;
    skate_shutdown();
    return 0;
}
