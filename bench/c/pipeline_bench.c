/* pipeline_bench.c - a pipeline of skate_data.h, timed: rows of a source callback (int64 key,
 * double) -> map -> groupby of 1 M keys -> sort -> stream. Arguments: rows (100 M), units (64),
 * bytes of a block (the default), bytes of the map's argument (0). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "skate_data.h"

enum { KEYS = 1000000, BATCH = 1 << 16, UNITS_MAX = 1024 };

SKATE_TASK(numbers) { /* the numbers of a unit's rows -> k, v */
    const int64_t *unit = skate_arg(t, NULL);
    int rc = 0;
    for (int64_t at = unit[0]; at < unit[1] && !rc; at += BATCH) {
        struct skate_column c[] = {{.name = "k"}, {.name = "v", .format = "g"}};
        struct ArrowSchema s;
        struct ArrowArray a;
        int64_t n = unit[1] - at < BATCH ? unit[1] - at : BATCH;
        if ((rc = skate_batch_new(c, 2, (size_t)n, &s, &a))) return rc;
        for (int64_t i = 0; i < n; i++) {
            ((int64_t *)c[0].data)[i] = (at + i) * 2654435761 % KEYS;
            ((double *)c[1].data)[i] = (double)((at + i) % 65536) / 65536;
        }
        rc = skate_emit(t, &s, &a);
        s.release(&s);
    }
    return rc;
}

SKATE_BATCHES(scaled) { /* v -> 2 v + 1 */
    struct skate_column in[] = {{.name = "k"}, {.name = "v", .format = "g"}},
                        out[] = {{.name = "k"}, {.name = "v", .format = "g"}};
    struct ArrowSchema s;
    struct ArrowArray a;
    int rc = skate_columns(t, schema, batch, in, 2);
    if (rc || (rc = skate_batch_new(out, 2, (size_t)batch->length, &s, &a))) return rc;
    memcpy(out[0].data, in[0].data, (size_t)batch->length * sizeof(int64_t));
    for (int64_t i = 0; i < batch->length; i++)
        ((double *)out[1].data)[i] = ((const double *)in[1].data)[i] * 2 + 1;
    rc = skate_emit(t, &s, &a);
    return s.release(&s), rc;
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int64_t given(int argc, char **argv, int i, int64_t otherwise) {
    return argc > i ? atoll(argv[i]) : otherwise;
}

int main(int argc, char **argv) {
    static int64_t ends[UNITS_MAX][2];
    static struct skate_unit units[UNITS_MAX];
    struct skate_run_opts o = SKATE_OPTS(struct skate_run_opts);
    struct skate_map_opts m = SKATE_OPTS(struct skate_map_opts);
    struct ArrowArrayStream out;
    struct ArrowArray a;
    if (skate_worker_main(argc, argv)) return 0;
    if (skate_init(NULL)) return puts(skate_error()), 1;
    int64_t rows = given(argc, argv, 1, 100000000), n_units = given(argc, argv, 2, 64), n = 0;
    if (n_units < 1 || n_units > UNITS_MAX) return puts("1 to 1024 units"), 1;
    for (int64_t i = 0; i < n_units; i++) {
        ends[i][0] = rows * i / n_units, ends[i][1] = rows * (i + 1) / n_units;
        units[i] = (struct skate_unit){ends[i], sizeof *ends, rows / n_units, 16 * rows / n_units};
    }
    o.block_bytes = (uint64_t)given(argc, argv, 3, 0);
    m.arg_size = (size_t)given(argc, argv, 4, 0);
    m.arg = calloc(1, m.arg_size + 1);
    double t0 = now();
    skate_dataset *ds =
        skate_map(skate_source("numbers", units, (size_t)n_units, NULL), "scaled", &m);
    ds = skate_groupby(ds, (const char *[]){"k"}, 1,
                       &(struct skate_agg){.kind = "sum", .column = "v", .as = "s"}, 1, NULL);
    ds = skate_sort(ds, &(struct skate_key){"s", true, false}, 1, NULL);
    if (skate_stream(ds, &o, &out)) return puts(skate_error()), 1;
    for (; out.get_next(&out, &a) == 0 && a.release; a.release(&a)) n += a.length;
    if (out.get_last_error(&out)) puts(out.get_last_error(&out));
    printf("%lld rows, %lld groups, %.3f s\n", (long long)rows, (long long)n, now() - t0);
    out.release(&out);
    skate_dataset_release(ds);
    skate_shutdown();
}
