/* kernel_bench.c - what kernels cost on one thread: sort of int64, of records by 10-byte keys,
 * gather, partition, merge, cuts, aggregates, joins.
 *
 *     build/release/bin/kernel_bench [millions of rows, default 10]
 *
 * Columns: what, seconds (the best of three), million rows a second, GB/s of the rows' bytes. Input
 * is random and hand-made; no Python. */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/mem.h"
#include "kernel/kernel.h"

enum { RECORD = 100, KEY = 10, TIMES = 3 };

static void fail(const char *what) {
    fprintf(stderr, "%s\n", what);
    exit(1);
}
static void ok(sk_rc rc, const struct sk_err *err) {
    if (rc) fail(err->msg);
}
static void *need(size_t n) {
    void *p = sk_alloc_aligned(SK_TAG_TEST, 64, n);
    if (!p) fail("no memory");
    return p;
}

struct table { /* one or two fixed-width columns */
    struct ArrowSchema schema, field[2], *fields[2];
    struct ArrowArray array, column[2], *columns[2];
    const void *buffers[2][3], *none[1];
};

static void add(struct table *t, const char *format, int64_t rows, const void *data) {
    int64_t i = t->schema.n_children++;
    t->buffers[i][1] = data;
    t->field[i] = (struct ArrowSchema){.format = format, .name = i ? "value" : "key"};
    t->column[i] = (struct ArrowArray){.length = rows, .n_buffers = 2, .buffers = t->buffers[i]};
    t->fields[i] = &t->field[i];
    t->columns[i] = &t->column[i];
    t->schema.format = "+s";
    t->schema.children = t->fields;
    t->array = (struct ArrowArray){.length = rows,
                                   .n_buffers = 1,
                                   .n_children = i + 1,
                                   .buffers = t->none,
                                   .children = t->columns};
}

static void report(const char *what, int64_t ns, size_t rows, size_t width) {
    printf("%-40s %7.3f s %8.1f M rows/s %6.2f GB/s\n", what, (double)ns / 1e9,
           (double)rows * 1e3 / (double)ns, (double)(rows * width) / (double)ns);
}

static void sorts(const char *what, const struct table *t, size_t rows, size_t width,
                  uint32_t *index) {
    struct sk_keys *k;
    struct sk_err err;
    int64_t best = INT64_MAX;
    ok(sk_keys_create(&t->schema, &t->array, &(struct sk_key){.column = 0}, 1, &k, &err), &err);
    for (int i = 0; i < TIMES; i++) {
        int64_t start = sk_now_ns();
        ok(sk_sort(k, index, &err), &err);
        best = SK_MIN(best, sk_now_ns() - start);
    }
    for (size_t i = 1; i < rows; i++)
        if (sk_keys_compare(k, index[i - 1], k, index[i]) > 0) fail("not sorted");
    report(what, best, rows, width);
    sk_keys_destroy(k);
}

static void takes(const char *what, const struct table *t, size_t rows, size_t width,
                  const uint32_t *index) {
    struct sk_block_plan *plan;
    struct sk_err err;
    uint64_t size;
    int64_t best = INT64_MAX;
    uint8_t *dst = NULL;
    for (int i = 0; i < TIMES; i++) {
        int64_t start = sk_now_ns(), mid;
        ok(sk_block_measure_rows(&t->schema, &t->array, index, rows, &plan, &size, &err), &err);
        mid = sk_now_ns();
        if (!dst) memset(dst = need((size_t)size), 1, (size_t)size);
        int64_t again = sk_now_ns();
        sk_block_write(plan, dst);
        best = SK_MIN(best, sk_now_ns() - again + mid - start);
        sk_block_plan_free(plan);
    }
    report(what, best, rows, width);
    sk_free(dst);
}

static void partitions(const struct table *t, size_t rows, size_t width, uint32_t *index,
                       uint32_t n) {
    struct sk_keys *k;
    struct sk_err err;
    struct sk_parts parts = {n, need((n + 1) * sizeof(uint64_t)), index};
    int64_t best = INT64_MAX;
    char what[64];
    ok(sk_keys_create(&t->schema, &t->array, &(struct sk_key){.column = 0}, 1, &k, &err), &err);
    for (int i = 0; i < TIMES; i++) {
        int64_t start = sk_now_ns();
        ok(sk_partition_hash(k, 0, &parts, &err), &err);
        best = SK_MIN(best, sk_now_ns() - start);
    }
    snprintf(what, sizeof what, "hash partition, %u ways", n);
    report(what, best, rows, width);
    sk_keys_destroy(k);
    sk_free(parts.start);
}

/* 16 sorted runs, next to each other in one column. */
static void merges(const struct table *t, size_t rows, uint32_t *index) {
    enum { RUNS = 16 };
    struct table run[RUNS];
    struct sk_keys *keys[RUNS];
    struct sk_row_at *out = need(rows * sizeof *out);
    struct sk_merge *m;
    struct sk_err err;
    size_t each = rows / RUNS;
    int64_t best = INT64_MAX, *sorted = need(rows * 8);
    const int64_t *from = t->buffers[0][1];
    for (size_t r = 0; r < RUNS; r++) {
        run[r] = (struct table){.none = {NULL}};
        add(&run[r], "l", (int64_t)each, from + r * each);
        ok(sk_keys_create(&run[r].schema, &run[r].array, &(struct sk_key){.column = 0}, 1, &keys[r],
                          &err),
           &err);
        ok(sk_sort(keys[r], index, &err), &err);
        for (size_t i = 0; i < each; i++) sorted[r * each + i] = from[r * each + index[i]];
        run[r].buffers[0][1] = sorted + r * each;
        sk_keys_destroy(keys[r]);
        ok(sk_keys_create(&run[r].schema, &run[r].array, &(struct sk_key){.column = 0}, 1, &keys[r],
                          &err),
           &err);
    }
    memset(out, 1, rows * sizeof *out);
    for (int i = 0; i < TIMES; i++) {
        int64_t start = sk_now_ns();
        ok(sk_merge_create((const struct sk_keys *const *)keys, NULL, NULL, RUNS, &m, &err), &err);
        if (sk_merge_next(m, out, rows) != RUNS * each) fail("rows are missing");
        best = SK_MIN(best, sk_now_ns() - start);
        sk_merge_destroy(m);
    }
    report("merge 16 runs of int64", best, RUNS * each, 8);
    uint64_t cuts[RUNS * 65];
    best = INT64_MAX;
    for (int i = 0; i < TIMES; i++) {
        int64_t start = sk_now_ns();
        ok(sk_cut_ranks((const struct sk_keys *const *)keys, RUNS, NULL, 64, cuts, &err), &err);
        best = SK_MIN(best, sk_now_ns() - start);
    }
    report("63 exact cuts of these runs", best, RUNS * each, 8);
    for (size_t r = 0; r < RUNS; r++) sk_keys_destroy(keys[r]);
    sk_free(sorted);
    sk_free(out);
}

/* A merge of 16 runs as a sort's reduce has it: the next row is of any run, the rows of a run come
 * in their order. */
static void gathers(const char *what, const struct table *t, size_t rows, size_t width) {
    enum { RUNS = 16 };
    struct ArrowArray run[RUNS];
    const struct ArrowArray *runs[RUNS];
    struct sk_row_at *places = need(rows * sizeof *places);
    uint32_t at[RUNS] = {0}, each = (uint32_t)(rows / RUNS);
    struct sk_rand rand;
    struct sk_block_plan *plan;
    struct sk_err err;
    uint64_t size;
    int64_t best = INT64_MAX, n = RUNS * (int64_t)each;
    uint8_t *dst = NULL;
    sk_rand_init(&rand, 2);
    for (uint32_t r = 0; r < RUNS; r++) {
        run[r] = t->array;
        run[r].offset = (int64_t)r * each;
        run[r].length = each;
        runs[r] = &run[r];
    }
    for (int64_t i = 0; i < n; i++) {
        uint32_t r = (uint32_t)sk_rand_below(&rand, RUNS);
        while (at[r] == each) r = (r + 1) % RUNS;
        places[i] = (struct sk_row_at){r, at[r]++};
    }
    for (int i = 0; i < TIMES; i++) {
        int64_t start = sk_now_ns(), mid;
        ok(sk_block_measure_places(&t->schema, &(struct sk_block_side){runs, RUNS, places}, 1, NULL,
                                   (uint64_t)n, &plan, &size, &err),
           &err);
        mid = sk_now_ns();
        if (!dst) memset(dst = need((size_t)size), 1, (size_t)size);
        int64_t again = sk_now_ns();
        sk_block_write(plan, dst);
        best = SK_MIN(best, sk_now_ns() - again + mid - start);
        sk_block_plan_free(plan);
    }
    report(what, best, (size_t)n, width);
    sk_free(places);
    sk_free(dst);
}

static void gather_text(size_t rows, const uint8_t *bytes) {
    struct table t = {.none = {NULL}};
    uint32_t *offsets = need((rows + 1) * 4);
    rows = SK_MIN(rows, INT32_MAX / RECORD);
    for (size_t i = 0; i <= rows; i++) offsets[i] = (uint32_t)(i * RECORD);
    add(&t, "z", (int64_t)rows, offsets);
    t.column[0].n_buffers = 3;
    t.buffers[0][2] = bytes;
    gathers("gather 100-byte texts of 16 runs", &t, rows, RECORD);
    sk_free(offsets);
}

static void aggregates(const char *column, const double *values, const uint64_t *numbers,
                       size_t rows, uint64_t groups) {
    struct table t = {.none = {NULL}};
    int64_t *keys = need(rows * 8), best = INT64_MAX, merged = INT64_MAX;
    struct sk_agg aggs[2] = {
        {SK_AGG_SUM, 1, true, 0, 0, "sum", 0, NULL, false, NULL, false, false},
        {SK_AGG_COUNT, SK_AGG_ROWS, true, 0, 0, "count", 0, NULL, false, NULL, false, false}};
    uint32_t key = 0;
    enum { BATCH = 1 << 18 };
    char what[64];
    struct sk_err err;
    for (size_t i = 0; i < rows; i++) keys[i] = (int64_t)(numbers[i] % groups);
    add(&t, "l", (int64_t)rows, keys);
    add(&t, column, (int64_t)rows, values);
    for (int i = 0; i < TIMES; i++) {
        struct sk_groupby *g, *h;
        struct sk_block_plan *plan;
        uint64_t size;
        struct ArrowSchema s;
        struct ArrowArray a;
        ok(sk_groupby_create(&t.schema, &key, 1, aggs, 2, &g, &err), &err);
        ok(sk_groupby_create(&t.schema, &key, 1, aggs, 2, &h, &err), &err);
        int64_t start = sk_now_ns();
        for (size_t at = 0; at < rows; at += BATCH) {
            struct ArrowArray piece = t.array;
            piece.offset = (int64_t)at;
            piece.length = (int64_t)SK_MIN(BATCH, rows - at);
            ok(sk_groupby_update(g, &t.schema, &piece, &err), &err);
        }
        best = SK_MIN(best, sk_now_ns() - start);
        start = sk_now_ns();
        ok(sk_groupby_measure(g, true, &plan, &size, &err), &err);
        uint8_t *partial = need((size_t)size), *result;
        sk_block_write(plan, partial);
        sk_block_plan_free(plan);
        ok(sk_block_export(partial, (size_t)size, 0, UINT64_MAX,
                           (struct sk_block_owner){NULL, NULL}, &s, &a, &err),
           &err);
        ok(sk_groupby_merge(h, &s, &a, &err), &err);
        ok(sk_groupby_measure(h, false, &plan, &size, &err), &err);
        sk_block_write(plan, result = need((size_t)size));
        merged = SK_MIN(merged, sk_now_ns() - start);
        sk_block_plan_free(plan);
        s.release(&s);
        a.release(&a);
        sk_free(partial);
        sk_free(result);
        sk_groupby_destroy(g);
        sk_groupby_destroy(h);
    }
    snprintf(what, sizeof what, "sum, count of %s by int64, %llu groups",
             column[0] == 'g' ? "double" : "int64", (unsigned long long)groups);
    report(what, best, rows, 16);
    report("  partial result, merged, sorted", merged, (size_t)groups, 16);
    sk_free(keys);
}

/* An aggregate over all rows of a column, of which every tenth is null if there is a bitmap. */
static void all_rows(const char *what, const char *format, enum sk_agg_kind kind,
                     const void *values, const uint8_t *valid, size_t rows, size_t width) {
    struct table t = {.none = {NULL}};
    struct sk_agg agg = {kind, 0, true, 1, 0, "all", 0, NULL, true, NULL, true, false};
    int64_t best = INT64_MAX;
    struct sk_err err;
    char text[64];
    add(&t, format, (int64_t)rows, values);
    t.buffers[0][0] = valid;
    t.column[0].null_count = valid ? -1 : 0;
    for (int i = 0; i < TIMES; i++) {
        struct sk_groupby *g;
        ok(sk_groupby_create(&t.schema, NULL, 0, &agg, 1, &g, &err), &err);
        int64_t start = sk_now_ns();
        ok(sk_groupby_update(g, &t.schema, &t.array, &err), &err);
        best = SK_MIN(best, sk_now_ns() - start);
        sk_groupby_destroy(g);
    }
    snprintf(text, sizeof text, "%s of all rows, %s%s", what, format, valid ? ", nulls" : "");
    report(text, best, rows, width);
}

static void all_aggregates(const double *doubles, const uint64_t *numbers, size_t rows) {
    uint8_t *valid = need(rows / 8 + 1);
    float *floats = need(rows * 4);
    memset(valid, 0xFF, rows / 8 + 1);
    for (size_t i = 0; i < rows; i += 10) valid[i / 8] &= (uint8_t)~(1u << (i & 7));
    for (size_t i = 0; i < rows; i++) floats[i] = (float)doubles[i];
    for (const uint8_t *bits = NULL;; bits = valid) {
        all_rows("sum", "g", SK_AGG_SUM, doubles, bits, rows, 8);
        all_rows("std", "g", SK_AGG_STD, doubles, bits, rows, 8);
        all_rows("min", "g", SK_AGG_MIN, doubles, bits, rows, 8);
        all_rows("sum", "f", SK_AGG_SUM, floats, bits, rows, 4);
        all_rows("sum", "l", SK_AGG_SUM, numbers, bits, rows, 8);
        all_rows("std", "l", SK_AGG_STD, numbers, bits, rows, 8);
        all_rows("min", "l", SK_AGG_MIN, numbers, bits, rows, 8);
        all_rows("min", "i", SK_AGG_MIN, numbers, bits, rows, 4);
        all_rows("sum", "i", SK_AGG_SUM, numbers, bits, rows, 4);
        all_rows("min", "c", SK_AGG_MIN, numbers, bits, rows, 1);
        if (bits) break;
    }
    sk_free(valid);
    sk_free(floats);
}

/* `rows` of the left against `build` of the right with keys below `keys`; hot: half of the left
 * have one of them. */
static void joins(const char *what, const uint64_t *numbers, size_t rows, size_t build,
                  uint64_t keys, bool hot) {
    struct table l = {.none = {NULL}}, r = {.none = {NULL}};
    int64_t *left = need(rows * 8), *right = need(build * 8), best = INT64_MAX;
    struct sk_row_at a[1024], b[1024];
    struct sk_keys *k[2];
    struct sk_err err;
    uint64_t n = 0;
    for (size_t i = 0; i < rows; i++) left[i] = hot && i % 2 ? 17 : (int64_t)(numbers[i] % keys);
    for (size_t i = 0; i < build; i++) right[i] = (int64_t)((i * 7919) % keys);
    add(&l, "l", (int64_t)rows, left);
    add(&r, "l", (int64_t)build, right);
    ok(sk_keys_create(&l.schema, &l.array, &(struct sk_key){.column = 0}, 1, &k[0], &err), &err);
    ok(sk_keys_create(&r.schema, &r.array, &(struct sk_key){.column = 0}, 1, &k[1], &err), &err);
    for (int i = 0; i < TIMES; i++) {
        struct sk_join *j;
        int64_t start = sk_now_ns();
        const struct sk_keys *of[2] = {k[0], k[1]};
        ok(sk_join_create(&of[0], 1, &of[1], 1, SK_JOIN_INNER, &j, &err), &err);
        n = 0;
        for (uint64_t some; (some = sk_join_next(j, a, b, 1024)); n += some) continue;
        best = SK_MIN(best, sk_now_ns() - start);
        sk_join_destroy(j);
    }
    if (n < rows / 4) fail("rows are missing");
    report(what, best, rows + build, 8);
    for (int i = 0; i < 2; i++) sk_keys_destroy(k[i]);
    sk_free(left);
    sk_free(right);
}

static void blooms(const uint64_t *numbers, size_t rows, size_t keys) {
    size_t bytes = sk_bloom_bytes(keys, 10);
    uint8_t *filter = need(bytes);
    uint32_t *index = need(rows * 4);
    int64_t best = INT64_MAX;
    char what[64];
    memset(filter, 0, bytes);
    sk_bloom_add(filter, bytes, numbers, keys);
    for (int i = 0; i < TIMES; i++) {
        int64_t start = sk_now_ns();
        if (sk_bloom_select(filter, bytes, numbers, rows, index) < keys) fail("rows are missing");
        best = SK_MIN(best, sk_now_ns() - start);
    }
    snprintf(what, sizeof what, "Bloom filter of %zu keys, test", keys);
    report(what, best, rows, 8);
    sk_free(filter);
    sk_free(index);
}

int main(int argc, char **argv) {
    size_t rows = (size_t)((argc > 1 ? atof(argv[1]) : 10) * 1e6);
    uint64_t *numbers = need(rows * 8);
    uint8_t *keys = need(rows * KEY), *values = need(rows * RECORD);
    uint32_t *index = need(rows * 4);
    struct table ints = {.none = {NULL}}, records = {.none = {NULL}};
    struct sk_rand r;
    sk_rand_init(&r, 1);
    for (size_t i = 0; i < rows; i++) numbers[i] = sk_rand_next(&r);
    for (size_t i = 0; i < rows * KEY; i++) keys[i] = (uint8_t)sk_rand_next(&r);
    double *doubles = need(rows * 8);
    for (size_t i = 0; i < rows; i++) doubles[i] = (double)(int64_t)numbers[i] * 0x1p-60;
    memset(values, 7, rows * RECORD);
    add(&ints, "l", (int64_t)rows, numbers);
    add(&records, "w:10", (int64_t)rows, keys);
    add(&records, "w:90", (int64_t)rows, values);
    all_aggregates(doubles, numbers, rows);
    sorts("sort int64", &ints, rows, 8, index);
    takes("gather int64 by that index", &ints, rows, 8, index);
    sorts("sort 100-byte records by 10-byte keys", &records, rows, RECORD, index);
    takes("gather the records by that index", &records, rows, RECORD, index);
    for (uint32_t n = 16; n <= 1024; n *= 8) partitions(&ints, rows, 8, index, n);
    merges(&ints, rows, index);
    gathers("gather int64 of 16 runs, as merged", &ints, rows, 8);
    gathers("gather 100-byte records of 16 runs", &records, rows, RECORD);
    gather_text(rows, values);
    for (size_t i = 0; i < rows; i++) numbers[i] >>= 30; /* so that sums fit */
    for (uint64_t groups = 1000; groups <= rows; groups *= 100) {
        aggregates("l", (const double *)(const void *)numbers, numbers, rows, groups);
        aggregates("g", doubles, numbers, rows, groups);
    }
    joins("join, right 100 k distinct", numbers, rows, 100000, 100000, false);
    joins("join, right as long, each key once", numbers, rows, rows, rows, false);
    joins("join, half of the left one key", numbers, rows, 1000000, 1000000, true);
    blooms(numbers, rows, 100000);
    blooms(numbers, rows, rows / 2);
    sk_free(doubles);
    sk_free(numbers);
    sk_free(keys);
    sk_free(values);
    sk_free(index);
    return 0;
}
