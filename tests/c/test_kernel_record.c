/* test_kernel_record.c - records of fixed width: sort, partition, cuts, quantiles and merge against
 * an index sorted by comparisons. */
#include "kernel/record.h"
#include "test.h"

static struct sk_records F;

struct twin { /* a record and its place in the input */
    const uint8_t *p;
    size_t i;
};
static int by_key(const void *a, const void *b) {
    const struct twin *x = a, *y = b;
    int d = memcmp(x->p, y->p, F.key);
    return d ? d : x->i < y->i ? -1 : x->i > y->i;
}

static uint8_t *records_make(size_t n) {
    /* keys of one of several kinds; the other bytes of a record are random */
    uint8_t *r = sk_alloc(SK_TAG_TEST, n * F.width);
    uint64_t kind = test_below(6), from = test_rand();
    for (size_t i = 0; i < n; i++) {
        uint8_t *p = r + i * F.width;
        for (uint32_t b = 0; b < F.width; b++) p[b] = (uint8_t)test_rand();
        uint64_t number = __builtin_bswap64(kind == 3   ? i
                                            : kind == 4 ? n - i
                                                        : from + test_below(3));
        /* a long prefix in common */
        if (kind == 1) memset(p, 7, F.key - 1);
        /* few keys */
        if (kind == 2) memset(p, (int)test_below(3), F.key);
        /* in order, backwards, nearly equal */
        if (kind >= 3 && kind <= 5) memset(p, 0, F.key), memcpy(p, &number, SK_MIN(F.key, 8));
    }
    return r;
}
static uint8_t *twin_sort(const uint8_t *in, size_t n) {
    struct twin *t = sk_alloc(SK_TAG_TEST, n * sizeof *t);
    uint8_t *out = sk_alloc(SK_TAG_TEST, n * F.width);
    for (size_t i = 0; i < n; i++) t[i] = (struct twin){in + i * F.width, i};
    qsort(t, n, sizeof *t, by_key);
    for (size_t i = 0; i < n; i++) memcpy(out + i * F.width, t[i].p, F.width);
    sk_free(t);
    return out;
}
static void any_format(void) {
    static const struct sk_records known[] = {{100, 10}, {1, 1},  {8, 8},  {9, 3},
                                              {40, 40},  {16, 8}, {17, 9}, {300, 20}};
    F = known[test_below(8)];
}
static const size_t sizes[] = {0, 1, 2, 3, 100, 1000};

TEST(records_sort) {
    for (int round = 0; round < test_rounds(200); round++) {
        any_format();
        size_t n = sizes[test_below(6)];
        struct sk_err err;
        uint8_t *in = records_make(n), *want = twin_sort(in, n),
                *out = sk_alloc(SK_TAG_TEST, n * F.width);
        CHECK_OK_ERR(sk_records_sort(F, in, n, out, NULL, &err), &err);
        CHECK_MEM_EQ(out, want, n * F.width);
        sk_free(in);
        sk_free(out);
        sk_free(want);
    }
}

TEST_LARGE(records_sort_in_buckets, 120) {
    for (int round = 0; round < test_rounds(4); round++) {
        any_format();
        size_t n = (5 << 20) / F.width + test_below(1000);
        struct sk_err err;
        uint8_t *in = records_make(n), *want = twin_sort(in, n),
                *out = sk_alloc(SK_TAG_TEST, n * F.width);
        uint8_t *scratch = test_below(2) ? sk_alloc(SK_TAG_TEST, n * F.width) : NULL;
        CHECK_OK_ERR(sk_records_sort(F, in, n, out, scratch, &err), &err);
        CHECK_MEM_EQ(out, want, n * F.width);
        sk_free(in);
        sk_free(out);
        sk_free(want);
        sk_free(scratch);
    }
}

static uint8_t *bounds_make(const uint8_t *in, size_t n, size_t n_bounds) {
    /* sorted: keys of records, and others */
    struct sk_records whole = F;
    uint8_t *key = sk_alloc(SK_TAG_TEST, (n_bounds + 1) * F.key);
    for (size_t i = 0; i < n_bounds; i++)
        for (uint32_t b = 0; b < F.key; b++)
            key[i * F.key + b] = n && i % 3 ? in[i * 7919 % n * F.width + b] : (uint8_t)test_rand();
    F = (struct sk_records){whole.key, whole.key};
    uint8_t *sorted = twin_sort(key, n_bounds);
    F = whole;
    sk_free(key);
    return sorted;
}

TEST(records_partition_and_cut) {
    static const size_t counts[] = {0, 1, 2, 7, 300, 3000};
    for (int round = 0; round < test_rounds(200); round++) {
        any_format();
        size_t n = sizes[test_below(6)], n_bounds = counts[test_below(6)], at = 0;
        struct sk_err err;
        uint8_t *in = records_make(n), *sorted = twin_sort(in, n),
                *out = sk_alloc(SK_TAG_TEST, n * F.width), *key = bounds_make(in, n, n_bounds);
        size_t *start = sk_alloc(SK_TAG_TEST, (n_bounds + 2) * sizeof *start),
               *cut = sk_alloc(SK_TAG_TEST, (n_bounds + 2) * sizeof *cut);
        CHECK_OK_ERR(sk_records_partition(F, in, n, key, n_bounds, out, start, &err), &err);
        sk_records_cut(F, sorted, n, key, n_bounds, cut);
        /* a part has as many records, in order or not */
        CHECK_MEM_EQ(start, cut, (n_bounds + 2) * sizeof *cut);
        CHECK_EQ(start[0], 0);
        CHECK_EQ(start[n_bounds + 1], n);
        /* a naive scan for each part: its records, in their order */
        for (size_t p = 0; p <= n_bounds; p++)
            for (size_t i = 0; i < (n_bounds < 10 ? n : 0); i++) {
                const uint8_t *r = in + i * F.width;
                if ((p && memcmp(r, key + (p - 1) * F.key, F.key) < 0) ||
                    (p < n_bounds && memcmp(r, key + p * F.key, F.key) >= 0))
                    continue;
                CHECK_MEM_EQ(out + at++ * F.width, r, F.width);
            }
        uint8_t *again = twin_sort(out, n);
        CHECK_MEM_EQ(again, sorted, n * F.width); /* none lost */
        if (n_bounds > 1 && memcmp(key, key + F.key, F.key)) {
            memcpy(key, key + (n_bounds - 1) * F.key, F.key);
            CHECK_RC(sk_records_partition(F, in, n, key, n_bounds, out, start, &err),
                     memcmp(key, key + F.key, F.key) > 0 ? SK_EINVAL : SK_OK);
        }
        void *all[] = {in, sorted, out, key, start, cut, again};
        for (size_t i = 0; i < sizeof all / sizeof *all; i++) sk_free(all[i]);
    }
}

TEST(records_quantiles) {
    F = (struct sk_records){10, 4};
    uint8_t in[1000 * 10], key[9 * 4];
    struct sk_err err;
    for (size_t i = 0; i < 1000; i++)
        memset(in + i * 10, 0, 10), in[i * 10 + 2] = (uint8_t)(i * 7 % 1000 >> 8),
                                                in[i * 10 + 3] = (uint8_t)(i * 7 % 1000);
    CHECK_OK_ERR(sk_records_quantiles(F, in, 1000, key, 9, &err), &err);
    for (size_t p = 0; p < 9; p++) CHECK_EQ(key[p * 4 + 2] << 8 | key[p * 4 + 3], (p + 1) * 100);
    CHECK_OK_ERR(sk_records_quantiles(F, in, 1, key, 9, &err), &err); /* more parts than records */
    for (size_t p = 0; p < 9; p++) CHECK_MEM_EQ(key + p * 4, in, 4);
    CHECK_RC(sk_records_quantiles(F, in, 0, key, 9, &err), SK_EINVAL);
}

TEST(records_merge) {
    static const size_t counts[] = {0, 1, 2, 3, 5, 8, 33};
    for (int round = 0; round < test_rounds(200); round++) {
        any_format();
        size_t n = sizes[test_below(6)], k = counts[test_below(7)], left = k ? n : 0;
        const void *run[33];
        size_t len[33];
        struct sk_err err;
        struct sk_records_merge *m;
        uint8_t *in = records_make(n), *all = sk_alloc(SK_TAG_TEST, n * F.width),
                *out = sk_alloc(SK_TAG_TEST, n * F.width);
        for (size_t r = 0; r < k; r++) { /* runs one behind the other in `in`, some of them empty */
            size_t from = n - left;
            len[r] = r + 1 == k ? left : test_below(left + 1);
            uint8_t *sorted = twin_sort(in + from * F.width, len[r]);
            memcpy(all + from * F.width, sorted, len[r] * F.width);
            run[r] = all + from * F.width;
            left -= len[r];
            sk_free(sorted);
        }
        n = k ? n : 0;
        /* stable: of equal keys, that of the earlier run is first */
        uint8_t *want = twin_sort(all, n);
        CHECK_OK_ERR(sk_records_merge_create(F, run, len, k, &m, &err), &err);
        size_t done = 0, cap, got;
        do {
            cap = 1 + test_below(50);
            got = sk_records_merge_next(m, out + done * F.width, SK_MIN(cap, n - done));
            CHECK_EQ(got, SK_MIN(cap, n - done));
            done += got;
        } while (done < n);
        CHECK_EQ(sk_records_merge_next(m, out, 1), 0);
        CHECK_MEM_EQ(out, want, n * F.width);
        sk_records_merge_destroy(m);
        sk_free(in);
        sk_free(all);
        sk_free(out);
        sk_free(want);
    }
}

TEST(records_refused) {
    struct sk_err err;
    uint8_t b[100] = {0};
    size_t start[3];
    CHECK_RC(sk_records_sort((struct sk_records){0, 0}, b, 1, b, NULL, &err), SK_EINVAL);
    CHECK_RC(sk_records_sort((struct sk_records){10, 11}, b, 1, b, NULL, &err), SK_EINVAL);
    CHECK_RC(sk_records_sort((struct sk_records){10, 0}, b, 1, b, NULL, &err), SK_EINVAL);
    CHECK_RC(sk_records_sort((struct sk_records){10, 4}, b, 1ULL << 32, b, NULL, &err), SK_EINVAL);
    CHECK_RC(
        sk_records_partition((struct sk_records){10, 4}, b, 1, "bbbbaaaa", 2, b + 50, start, &err),
        SK_EINVAL);
    CHECK_STR_HAS(err.msg, "ascending");
    F = (struct sk_records){50, 20};
    size_t n = (5 << 20) / F.width;
    uint8_t *in = records_make(n), *out = sk_alloc(SK_TAG_TEST, n * F.width);
    for (int64_t i = 1;; i++) { /* each allocation fails once */
        sk_mem_fail_at(i);
        sk_rc rc = sk_records_sort(F, in, n, out, NULL, &err);
        bool hit = sk_mem_failed();
        sk_mem_fail_at(0);
        CHECK_RC(rc, hit ? SK_ENOMEM : SK_OK);
        if (!hit) break;
    }
    sk_free(in);
    sk_free(out);
}
