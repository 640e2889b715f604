/* test_kernel_merge.c - parts of a batch are sorted, written as blocks and merged: the result is
 * the stable sort of the batch. If the parts are cut, each merged partition is a range of that. */
#include "kernel_make.h"
#include "test.h"

struct run {
    uint8_t *block;
    struct ArrowSchema schema;
    struct ArrowArray array;
    uint32_t *index; /* numbers of its rows in the whole batch */
    struct sk_keys *keys;
};

static void run_make(struct run *r, const struct batch *b, const struct sk_key *key,
                     uint32_t n_keys, int64_t at, int64_t rows) {
    struct sk_err err = {.code = 0};
    struct sk_block_plan *plan;
    struct sk_keys *keys;
    uint64_t size;
    struct ArrowArray part = b->array;
    part.offset += at;
    part.length = rows;
    r->index = sk_alloc(SK_TAG_TEST, (size_t)rows * sizeof *r->index);
    CHECK_OK_ERR(sk_keys_create(&b->schema, &part, key, n_keys, &keys, &err), &err);
    CHECK_OK_ERR(sk_sort(keys, r->index, &err), &err);
    CHECK_OK_ERR(
        sk_block_measure_rows(&b->schema, &part, r->index, (uint64_t)rows, &plan, &size, &err),
        &err);
    r->block = sk_alloc_aligned(SK_TAG_TEST, SK_BLOCK_ALIGN, (size_t)size);
    sk_block_write(plan, r->block);
    CHECK_OK_ERR(sk_block_export(r->block, (size_t)size, 0, UINT64_MAX,
                                 (struct sk_block_owner){NULL, NULL}, &r->schema, &r->array, &err),
                 &err);
    CHECK_OK_ERR(sk_keys_create(&r->schema, &r->array, key, n_keys, &r->keys, &err), &err);
    for (int64_t i = 0; i < rows; i++) r->index[i] += (uint32_t)at;
    sk_block_plan_free(plan);
    sk_keys_destroy(keys);
}

static void run_free(struct run *r) {
    sk_keys_destroy(r->keys);
    r->schema.release(&r->schema);
    r->array.release(&r->array);
    sk_free(r->block);
    sk_free(r->index);
}

/* Checks that partition p of all runs, merged, is rows [from, to) of the whole. */
static void check_part(const struct run *runs, const struct sk_keys *const *of, uint32_t n_runs,
                       const uint64_t *cuts, uint32_t parts, uint32_t p, const uint32_t *want,
                       uint64_t from, uint64_t to) {
    struct sk_err err = {.code = 0};
    struct sk_range range[40];
    struct sk_row_at got;
    struct sk_merge *m;
    for (uint32_t r = 0; r < n_runs; r++)
        range[r] = (struct sk_range){cuts[r * (parts + 1) + p], cuts[r * (parts + 1) + p + 1]};
    CHECK_OK_ERR(sk_merge_create(of, range, NULL, n_runs, &m, &err), &err);
    for (uint64_t i = from; i < to; i++) {
        CHECK_EQ(sk_merge_next(m, &got, 1), 1);
        CHECK_EQ(runs[got.run].index[got.row], want[i]);
    }
    CHECK_EQ(sk_merge_next(m, &got, 1), 0);
    sk_merge_destroy(m);
}

/* Computes where the merged order has to be cut, by walking over it. */
static uint64_t weighed_cut(const uint32_t *want, uint64_t rows, const uint64_t *of_row,
                            uint64_t target) {
    uint64_t sum = 0, i = 0;
    for (; i < rows && sum < target; i++) sum += of_row[want[i]];
    return i;
}

static void check_ranks(const struct run *runs, const struct sk_keys *const *of, uint32_t n_runs,
                        const uint32_t *want, uint64_t rows) {
    struct sk_err err = {.code = 0};
    uint32_t parts = 1 + (uint32_t)test_below(9);
    uint64_t cuts[40 * 10], total = 0, *of_row = sk_calloc(SK_TAG_TEST, (rows + 1) * 8), *sums[40];
    CHECK_OK_ERR(sk_cut_ranks(of, n_runs, NULL, parts, cuts, &err), &err);
    for (uint32_t p = 0; p < parts; p++)
        check_part(runs, of, n_runs, cuts, parts, p, want, p * rows / parts,
                   (p + 1) * rows / parts);
    for (uint32_t r = 0; r < n_runs; r++) {
        uint64_t n = sk_keys_rows(of[r]), sum = 0;
        sums[r] = sk_alloc(SK_TAG_TEST, (n + 1) * 8);
        for (uint64_t i = 0; i < n; i++) {
            sums[r][i] = sum;
            sum += of_row[runs[r].index[i]] = test_below(4) ? test_below(10) : test_below(1000);
        }
        sums[r][n] = sum;
        total += sum;
    }
    CHECK_OK_ERR(sk_cut_ranks(of, n_runs, (const uint64_t *const *)sums, parts, cuts, &err), &err);
    for (uint32_t p = 0; p < parts; p++) {
        uint64_t from = weighed_cut(want, rows, of_row, total * p / parts),
                 to = weighed_cut(want, rows, of_row, total * (p + 1) / parts);
        check_part(runs, of, n_runs, cuts, parts, p, want, p ? from : 0, p + 1 < parts ? to : rows);
    }
    for (uint32_t r = 0; r < n_runs; r++) sk_free(sums[r]);
    sk_free(of_row);
}

enum { BOUNDS = 5 };

/* Checks that runs which begin at a later row get the same cuts. */
static void check_pieces(const struct run *runs, uint32_t n_runs, const struct sk_key *key,
                         uint32_t n_keys, const struct sk_keys *bounds, const struct sk_row_at *at,
                         const uint64_t *cuts) {
    struct sk_err err = {.code = 0};
    struct ArrowArray piece[40];
    struct sk_keys *of[40];
    uint64_t row0[40], got[40 * (BOUNDS + 2)], stride = sk_keys_rows(bounds) + 2;
    for (uint32_t r = 0; r < n_runs; r++) {
        piece[r] = runs[r].array;
        row0[r] = test_below((uint64_t)piece[r].length + 1);
        piece[r].offset += (int64_t)row0[r];
        piece[r].length -= (int64_t)row0[r];
        CHECK_OK(sk_keys_create(&runs[r].schema, &piece[r], key, n_keys, &of[r], &err));
    }
    CHECK_OK_ERR(
        sk_cut_bounds((const struct sk_keys *const *)of, n_runs, row0, bounds, at, got, &err),
        &err);
    for (uint32_t r = 0; r < n_runs; r++) {
        for (uint64_t i = r * stride; i < (r + 1) * stride; i++)
            CHECK_EQ(got[i], cuts[i] > row0[r] ? cuts[i] - row0[r] : 0);
        sk_keys_destroy(of[r]);
    }
}

/* Checks bounds that are rows of the runs: with their places they cut right before these rows,
 * without before the first equal row. */
static void check_bounds(const struct run *runs, const struct sk_keys *const *of, uint32_t n_runs,
                         const struct sk_key *key, uint32_t n_keys, const struct sk_keys *whole,
                         const uint32_t *want) {
    struct sk_err err = {.code = 0};
    uint64_t rows = sk_keys_rows(whole), rank[BOUNDS], n = rows ? test_below(BOUNDS + 1) : 0,
             cuts[40 * (BOUNDS + 2)], size;
    const struct ArrowArray *arrays[40];
    struct sk_row_at at[BOUNDS];
    struct sk_block_plan *plan;
    struct run b = {.index = NULL};
    for (uint64_t i = 0; i < n; i++) { /* in order, by insertion */
        uint64_t x = test_below(rows), j = i;
        for (; j && rank[j - 1] > x; j--) rank[j] = rank[j - 1];
        rank[j] = x;
    }
    for (uint32_t r = 0; r < n_runs; r++) {
        arrays[r] = &runs[r].array;
        for (uint64_t i = 0; i < n; i++)
            for (uint32_t row = 0; row < sk_keys_rows(of[r]); row++)
                if (runs[r].index[row] == want[rank[i]]) at[i] = (struct sk_row_at){r, row};
    }
    CHECK_OK_ERR(sk_block_measure_places(&runs[0].schema,
                                         &(struct sk_block_side){arrays, n_runs, at}, 1, NULL, n,
                                         &plan, &size, &err),
                 &err);
    b.block = sk_alloc_aligned(SK_TAG_TEST, SK_BLOCK_ALIGN, (size_t)size);
    sk_block_write(plan, b.block);
    sk_block_plan_free(plan);
    CHECK_OK(sk_block_export(b.block, (size_t)size, 0, UINT64_MAX,
                             (struct sk_block_owner){NULL, NULL}, &b.schema, &b.array, &err));
    CHECK_OK_ERR(sk_keys_create(&b.schema, &b.array, key, n_keys, &b.keys, &err), &err);
    CHECK_OK_ERR(sk_cut_bounds(of, n_runs, NULL, b.keys, at, cuts, &err), &err);
    uint32_t parts = (uint32_t)n + 1;
    for (uint32_t p = 0; p < parts; p++)
        check_part(runs, of, n_runs, cuts, parts, p, want, p ? rank[p - 1] : 0,
                   p < n ? rank[p] : rows);
    check_pieces(runs, n_runs, key, n_keys, b.keys, at, cuts);
    for (uint64_t i = 0; i < n; i++)
        while (rank[i] && !sk_keys_compare(whole, want[rank[i] - 1], b.keys, i)) rank[i]--;
    CHECK_OK_ERR(sk_cut_bounds(of, n_runs, NULL, b.keys, NULL, cuts, &err), &err);
    for (uint32_t p = 0; p < parts; p++)
        check_part(runs, of, n_runs, cuts, parts, p, want, p ? rank[p - 1] : 0,
                   p < n ? rank[p] : rows);
    check_pieces(runs, n_runs, key, n_keys, b.keys, NULL, cuts);
    for (uint64_t i = 0; i + 1 < n; i++)
        if (!sk_keys_compare(b.keys, i, b.keys, i + 1) &&
            (at[i].run != at[i + 1].run || at[i].row != at[i + 1].row)) {
            struct sk_row_at swap = at[i];
            at[i] = at[i + 1];
            at[i + 1] = swap;
            CHECK_RC(sk_cut_bounds(of, n_runs, NULL, b.keys, at, cuts, &err), SK_EINVAL);
            CHECK_STR_HAS(err.msg, "out of order");
            break;
        }
    run_free(&b);
}

/* Checks the same with each run divided into several batches. */
static void check_pages(const struct run *runs, const struct sk_keys *const *of, uint32_t n_runs,
                        const uint32_t *want, uint64_t rows) {
    struct sk_err err = {.code = 0};
    const struct sk_keys *pages[120];
    struct sk_range ranges[120];
    struct sk_row_at *got = sk_alloc(SK_TAG_TEST, (rows + 1) * sizeof *got);
    struct sk_merge *m;
    uint32_t n_pages[40], run_of[120], n = 0;
    for (uint32_t r = 0; r < n_runs; r++) {
        n_pages[r] = (uint32_t)test_below(3) + 1;
        for (uint64_t p = 0, at = 0; p < n_pages[r]; at = ranges[n++].to, p++) {
            uint64_t left = sk_keys_rows(of[r]) - at;
            pages[n] = of[r];
            run_of[n] = r;
            ranges[n] =
                (struct sk_range){at, at + (p + 1 == n_pages[r] ? left : test_below(left + 1))};
        }
    }
    CHECK_OK_ERR(sk_merge_create(pages, ranges, n_pages, n_runs, &m, &err), &err);
    CHECK_EQ(sk_merge_next(m, got, rows + 1), rows);
    for (uint64_t i = 0; i < rows; i++) {
        CHECK(got[i].row >= ranges[got[i].run].from && got[i].row < ranges[got[i].run].to);
        CHECK_EQ(runs[run_of[got[i].run]].index[got[i].row], want[i]);
    }
    sk_merge_destroy(m);
    sk_free(got);
}

static void check_merge(const struct batch *b, const struct sk_key *key, uint32_t n_keys,
                        int64_t rows, uint32_t n_runs) {
    struct sk_err err = {.code = 0};
    struct run runs[40];
    const struct sk_keys *of[40];
    struct sk_keys *whole;
    struct sk_merge *m = NULL;
    struct sk_row_at got[64];
    uint32_t *want = sk_alloc(SK_TAG_TEST, (size_t)rows * sizeof *want);
    int64_t at = 0, seen = 0;
    CHECK_OK_ERR(sk_keys_create(&b->schema, &b->array, key, n_keys, &whole, &err), &err);
    CHECK_OK_ERR(sk_sort(whole, want, &err), &err);
    for (uint32_t r = 0; r < n_runs; r++) {
        int64_t n = r + 1 == n_runs ? rows - at : (int64_t)test_below((uint64_t)(rows - at) + 1);
        run_make(&runs[r], b, key, n_keys, at, n);
        of[r] = runs[r].keys;
        at += n;
    }
    CHECK_OK_ERR(sk_merge_create(of, NULL, NULL, n_runs, &m, &err), &err);
    for (uint64_t n = 1; n;) {
        uint64_t cap = 1 + test_below(64);
        n = sk_merge_next(m, got, cap);
        CHECK(n == cap || seen + (int64_t)n == rows);
        for (uint64_t i = 0; i < n; i++)
            CHECK_EQ(runs[got[i].run].index[got[i].row], want[seen + (int64_t)i]);
        seen += (int64_t)n;
    }
    CHECK_EQ(seen, rows);
    sk_merge_destroy(m);
    check_pages(runs, of, n_runs, want, (uint64_t)rows);
    check_ranks(runs, of, n_runs, want, (uint64_t)rows);
    check_bounds(runs, of, n_runs, key, n_keys, whole, want);
    for (uint32_t r = 0; r < n_runs; r++) run_free(&runs[r]);
    sk_keys_destroy(whole);
    sk_free(want);
}

TEST(merge_is_the_sort) {
    static const uint32_t runs[] = {1, 2, 3, 4, 7, 16, 40};
    static const int64_t sizes[] = {0, 1, 30, 500};
    for (int round = 0; round < test_rounds(200); round++) {
        struct column c[3];
        struct batch b;
        struct sk_key key[3];
        int64_t rows = sizes[test_below(4)];
        int n = 1 + (int)test_below(3);
        for (int i = 0; i < n; i++) {
            struct column_how how = {.seed = test_rand(),
                                     .distinct = test_below(2) * 7,
                                     .nulls = 10,
                                     .prefix = 9 * (unsigned)test_below(2),
                                     .dictionary = test_below(3) == 0};
            column_make(&c[i], key_formats[test_below(n_key_formats)], rows, how);
            key[i] = (struct sk_key){(uint32_t)i, test_below(2), test_below(2)};
        }
        batch_make(&b, c, n, rows, 0);
        check_merge(&b, key, (uint32_t)n, rows, runs[test_below(7)]);
        for (int i = 0; i < n; i++) column_free(&c[i]);
    }
}

TEST(merge_refused) {
    struct column c[2];
    struct batch b[2];
    struct sk_keys *k[2];
    struct sk_merge *m = NULL;
    struct sk_err err;
    for (int i = 0; i < 2; i++) {
        column_make(&c[i], i ? "u" : "l", 3, (struct column_how){.distinct = 1});
        batch_make(&b[i], &c[i], 1, 3, 0);
        CHECK_OK(sk_keys_create(&b[i].schema, &b[i].array, &(struct sk_key){.column = 0}, 1, &k[i],
                                &err));
    }
    CHECK_RC(sk_merge_create((const struct sk_keys *const *)k, NULL, NULL, 2, &m, &err), SK_EINVAL);
    CHECK_STR_HAS(err.msg, "'u'");
    CHECK_RC(sk_merge_create((const struct sk_keys *const *)k, NULL, NULL, 0, &m, &err), SK_EINVAL);
    CHECK_RC(sk_merge_create((const struct sk_keys *const *)k, &(struct sk_range){2, 4}, NULL, 1,
                             &m, &err),
             SK_EINVAL);
    CHECK_STR_HAS(err.msg, "rows 2 to 4 of batch 0, which has 3");
    uint64_t cuts[2 * 3];
    CHECK_RC(sk_cut_ranks((const struct sk_keys *const *)k, 2, NULL, 2, cuts, &err), SK_EINVAL);
    CHECK_RC(sk_cut_ranks((const struct sk_keys *const *)k, 1, NULL, 0, cuts, &err), SK_EINVAL);
    CHECK_RC(sk_cut_bounds((const struct sk_keys *const *)k, 1, NULL, k[1], NULL, cuts, &err),
             SK_EINVAL);
    sk_mem_fail_at(1);
    CHECK_RC(sk_cut_ranks((const struct sk_keys *const *)k, 1, NULL, 2, cuts, &err), SK_ENOMEM);
    sk_mem_fail_at(1);
    CHECK_RC(sk_merge_create((const struct sk_keys *const *)k, NULL, NULL, 1, &m, &err), SK_ENOMEM);
    CHECK(m == NULL);
    for (int i = 0; i < 2; i++) {
        sk_keys_destroy(k[i]);
        column_free(&c[i]);
    }
}
