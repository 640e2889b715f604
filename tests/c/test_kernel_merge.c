/* test_kernel_merge.c - parts of a batch, each sorted and laid out as a block, then merged: the stable sort of the whole. */
#include "kernel_make.h"
#include "test.h"

struct run {
    uint8_t *block;
    struct ArrowSchema schema;
    struct ArrowArray array;
    uint32_t *index; /* its rows, as rows of the whole */
    struct sk_keys *keys;
};

static void run_make(struct run *r, const struct batch *b, const struct sk_key *key, uint32_t n_keys, int64_t at, int64_t rows) {
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
    CHECK_OK_ERR(sk_block_measure_rows(&b->schema, &part, r->index, (uint64_t)rows, &plan, &size, &err), &err);
    r->block = sk_alloc_aligned(SK_TAG_TEST, SK_BLOCK_ALIGN, (size_t)size);
    sk_block_write(plan, r->block);
    CHECK_OK_ERR(sk_block_export(r->block, (size_t)size, 0, UINT64_MAX, (struct sk_block_owner){NULL, NULL}, &r->schema, &r->array, &err),
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

static void check_merge(const struct batch *b, const struct sk_key *key, uint32_t n_keys, int64_t rows, uint32_t n_runs) {
    struct sk_err err = {.code = 0};
    struct run runs[40];
    const struct sk_keys *of[40];
    struct sk_keys *whole;
    struct sk_merge *m = NULL;
    struct sk_place got[64];
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
    CHECK_OK_ERR(sk_merge_create(of, n_runs, &m, &err), &err);
    for (uint64_t n = 1; n;) {
        uint64_t cap = 1 + test_below(64);
        n = sk_merge_next(m, got, cap);
        CHECK(n == cap || seen + (int64_t)n == rows);
        for (uint64_t i = 0; i < n; i++) CHECK_EQ(runs[got[i].run].index[got[i].row], want[seen + (int64_t)i]);
        seen += (int64_t)n;
    }
    CHECK_EQ(seen, rows);
    sk_merge_destroy(m);
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
        CHECK_OK(sk_keys_create(&b[i].schema, &b[i].array, &(struct sk_key){.column = 0}, 1, &k[i], &err));
    }
    CHECK_RC(sk_merge_create((const struct sk_keys *const *)k, 2, &m, &err), SK_EINVAL);
    CHECK_STR_HAS(err.msg, "'u'");
    CHECK_RC(sk_merge_create((const struct sk_keys *const *)k, 0, &m, &err), SK_EINVAL);
    sk_mem_fail_at(1);
    CHECK_RC(sk_merge_create((const struct sk_keys *const *)k, 1, &m, &err), SK_ENOMEM);
    CHECK(m == NULL);
    for (int i = 0; i < 2; i++) {
        sk_keys_destroy(k[i]);
        column_free(&c[i]);
    }
}
