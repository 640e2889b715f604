/* test_kernel_sort.c - keys and sort against values that know nothing of Arrow: all key types,
 * directions, nulls, NaN, slices; errors; lack of memory. */
#include "base/rand.h"
#include "kernel/kernel_int.h"
#include "kernel_make.h"
#include "test.h"

struct table { /* a batch whose first n_keys columns are its keys */
    struct column columns[4];
    struct batch batch;
    struct sk_key key[4];
    int n;
    int64_t rows, offset;
    struct sk_keys *keys;
};

static void open_keys(struct table *t) {
    struct sk_err err = {.code = 0};
    batch_make(&t->batch, t->columns, t->n, t->rows, t->offset);
    CHECK_OK_ERR(
        sk_keys_create(&t->batch.schema, &t->batch.array, t->key, (uint32_t)t->n, &t->keys, &err),
        &err);
    CHECK_EQ(sk_keys_rows(t->keys), t->rows);
}

static void make_table(struct table *t, int n, int64_t rows) {
    *t = (struct table){.n = n, .rows = rows, .offset = (int64_t)test_below(4)};
    for (int i = 0; i < n; i++) {
        static const uint64_t distinct[] = {0, 0, 1, 2, 5, 60};
        static const unsigned nulls[] = {0, 0, 10, 50, 100}, prefix[] = {0, 0, 7, 8, 9, 23};
        struct column_how how = {.seed = test_rand(),
                                 .distinct = distinct[test_below(6)],
                                 .nulls = nulls[test_below(5)],
                                 .prefix = prefix[test_below(6)],
                                 .dictionary = test_below(4) == 0};
        column_make(&t->columns[i], key_formats[test_below(n_key_formats)], t->offset + rows, how);
        t->key[i] = (struct sk_key){(uint32_t)i, test_below(2), test_below(2)};
    }
    open_keys(t);
}

static void free_table(struct table *t) {
    sk_keys_destroy(t->keys);
    for (int i = 0; i < t->n; i++) column_free(&t->columns[i]);
}

/* Compares two rows without the kernels' code. */
static int compare_rows(const struct table *t, uint64_t a, uint64_t b) {
    for (int i = 0; i < t->n; i++) {
        const struct column *c = &t->columns[i];
        const struct cell *cells = c->cells + t->offset;
        int r = cell_compare(c->format, &cells[a], &cells[b], t->key[i].descending,
                             t->key[i].nulls_first);
        if (r) return r;
    }
    return 0;
}

/* Checks that the result is a permutation in which each row is less than the next, or equal to it
 * and before it in the input: that is the only stable sort. */
static void check_sort(const struct table *t) {
    struct sk_err err = {.code = 0};
    size_t n = (size_t)t->rows;
    uint32_t *index = sk_alloc(SK_TAG_TEST, n * sizeof *index);
    uint8_t *seen = sk_calloc(SK_TAG_TEST, n);
    CHECK_OK_ERR(sk_sort(t->keys, index, &err), &err);
    for (size_t i = 0; i < n; i++) {
        CHECK(index[i] < n && !seen[index[i]]);
        seen[index[i]] = 1;
        if (!i) continue;
        int r = compare_rows(t, index[i - 1], index[i]);
        CHECK_MSG(r < 0 || (r == 0 && index[i - 1] < index[i]),
                  "rows %u and %u (%d) of '%s' and %d columns more", index[i - 1], index[i], r,
                  t->columns[0].format, t->n - 1);
    }
    uint32_t *first = sk_alloc(SK_TAG_TEST, n * sizeof *first);
    uint64_t n_first, at = 0;
    CHECK_OK_ERR(sk_sort_firsts(t->keys, first, &n_first, &err), &err);
    for (size_t i = 0; i < n; i++)
        if (!i || compare_rows(t, index[i - 1], index[i]) != 0) CHECK_EQ(first[at++], index[i]);
    CHECK_EQ(n_first, at);
    sk_free(first);
    sk_free(index);
    sk_free(seen);
}

static int sign(int v) { return (v > 0) - (v < 0); }

static void check_pairs(const struct table *t) {
    uint64_t *hash = sk_alloc(SK_TAG_TEST, (size_t)t->rows * sizeof *hash);
    sk_keys_hash(t->keys, hash);
    for (int i = 0; t->rows && i < 100; i++) {
        uint64_t a = test_below((uint64_t)t->rows), b = test_below((uint64_t)t->rows);
        int r = compare_rows(t, a, b);
        uint64_t x = sk_keys_prefix(t->keys, a), y = sk_keys_prefix(t->keys, b);
        CHECK_EQ(sign(sk_keys_compare(t->keys, a, t->keys, b)), sign(r));
        CHECK_MSG(x == y || (x < y) == (r < 0), "prefixes of '%s'", t->columns[0].format);
        CHECK_MSG((hash[a] == hash[b]) == (r == 0), "hashes of '%s' and %d columns more",
                  t->columns[0].format, t->n - 1);
    }
    sk_free(hash);
}

TEST(sort_every_type_alone) {
    static const int64_t rows[] = {0, 1, 2, 16, 17, 300};
    for (size_t f = 0; f < n_key_formats; f++)
        for (int mode = 0; mode < 16; mode++) {
            struct table t = {
                .n = 1, .rows = rows[test_below(6)], .offset = (int64_t)test_below(4)};
            struct column_how how = {.seed = test_rand(),
                                     .distinct = test_below(2) * 30,
                                     .nulls = mode & 1 ? 20 : 0,
                                     .dictionary = mode & 2};
            column_make(&t.columns[0], key_formats[f], t.offset + t.rows, how);
            t.key[0] = (struct sk_key){0, mode & 4, mode & 8};
            open_keys(&t);
            check_sort(&t);
            check_pairs(&t);
            free_table(&t);
        }
}

TEST(sort_random_tables) {
    static const int64_t rows[] = {0, 1, 2, 15, 40, 200, 700};
    for (int i = 0; i < test_rounds(300); i++) {
        struct table t;
        make_table(&t, 1 + (int)test_below(4), rows[test_below(7)]);
        check_sort(&t);
        check_pairs(&t);
        free_table(&t);
    }
}

TEST_LARGE(sort_many_rows, 120) {
    static const struct {
        const char *format;
        struct column_how how;
    } cases[] = {{"l", {.distinct = 0}},    {"l", {.distinct = 1000, .nulls = 5}},
                 {"g", {.nulls = 10}},      {"i", {.distinct = 0}},
                 {"u", {.prefix = 23}},     {"vu", {.distinct = 300}},
                 {"w:11", {.distinct = 0}}, {"d:38,2", {.distinct = 0}}};
    for (size_t i = 0; i < SK_COUNT(cases); i++) {
        struct table t = {.n = 1, .rows = test_sanitized() ? 70000 : 200000};
        column_make(&t.columns[0], cases[i].format, t.rows, cases[i].how);
        t.key[0] = (struct sk_key){0, i & 1, i & 2};
        open_keys(&t);
        check_sort(&t);
        free_table(&t);
    }
}

/* Two rows of three have one of 50 keys, the others a key of their own. */
TEST(firsts_of_many_keys_that_repeat) {
    enum { ROWS = 200000 };
    int64_t *v = sk_alloc(SK_TAG_TEST, ROWS * sizeof *v);
    uint32_t *first = sk_alloc(SK_TAG_TEST, ROWS * sizeof *first);
    uint64_t n, at = 0;
    struct sk_err err;
    struct sk_keys *k;
    for (int64_t i = 0; i < ROWS; i++) v[i] = i % 3 ? i % 50 : i + 50;
    const void *buffers[2] = {NULL, v};
    struct ArrowSchema column = {.format = "l", .name = "k"}, *columns[] = {&column},
                       schema = {.format = "+s", .n_children = 1, .children = columns};
    struct ArrowArray values = {.length = ROWS, .n_buffers = 2, .buffers = buffers},
                      *children[] = {&values};
    struct ArrowArray batch = {.length = ROWS,
                               .n_buffers = 1,
                               .n_children = 1,
                               .buffers = (const void *[]){NULL},
                               .children = children};
    CHECK_OK(sk_keys_create(&schema, &batch, &(struct sk_key){.column = 0}, 1, &k, &err));
    CHECK_OK_ERR(sk_sort_firsts(k, first, &n, &err), &err);
    CHECK_EQ(n, 50 + (ROWS + 2) / 3);
    for (; at < 50; at++) CHECK(v[first[at]] == (int64_t)at && first[at] < 150);
    for (; at < n; at++) CHECK_EQ(first[at], 3 * (at - 50));
    sk_keys_destroy(k);
    sk_free(first);
    sk_free(v);
}

/* The radix sort by itself, with keys that differ in various bytes, in particular keys with equal
 * top bytes. */
TEST(sort_radix_patterns) {
    static const uint64_t masks[] = {UINT64_MAX,
                                     0,
                                     0xFF,
                                     0xFFFF0000,
                                     0xFFFFFFFFFF,
                                     UINT64_C(0xFF000000000000FF),
                                     UINT64_C(0x00FF00FF00FF00FF),
                                     UINT64_C(0xF0F0F0F0F0F0F0F0),
                                     UINT64_C(0x0101010101010101)};
    for (size_t m = 0; m < SK_COUNT(masks); m++)
        for (int big = 0; big < 2; big++) {
            size_t n = big ? 66000 + test_below(1000) : test_below(400);
            struct sk_entry *a = sk_alloc(SK_TAG_TEST, 2 * n * sizeof *a);
            uint64_t few = test_below(3) ? UINT64_MAX : 500, sum = 0;
            for (size_t i = 0; i < n; i++) {
                a[i] = (struct sk_entry){.key = (test_rand() % few * UINT64_C(0x9E3779B97F4A7C15)) &
                                                masks[m],
                                         .row = (uint32_t)i};
                sum += sk_rand_mix(a[i].key + i);
            }
            sk_radix_sort(a, a + n, n);
            for (size_t i = 0; i < n; i++) {
                sum -= sk_rand_mix(a[i].key + a[i].row);
                CHECK(!i || a[i - 1].key < a[i].key ||
                      (a[i - 1].key == a[i].key && a[i - 1].row < a[i].row));
            }
            CHECK_EQ(sum, 0);
            sk_free(a);
        }
}

/* A hash depends on the value alone, not on its layout or on the rest of the block. */
TEST(hash_ignores_layout) {
    static const struct {
        const char *from, *to;
    } same[] = {{"u", "U"},
                {"u", "vu"},
                {"U", "u"},
                {"vu", "U"},
                {"z", "vz"},
                {"i", "l"},
                {"c", "s"},
                {"C", "I"},
                {"s", "i"},
                {"e", "g"},
                {"e", "f"},
                {"f", "g"},
                {"I", "L"},
                {"l", "l"},
                {"g", "g"},
                {"b", "b"},
                {"w:11", "w:11"},
                {"d:38,2", "d:38,2"},
                {"d:76,4,256", "d:76,4,256"}};
    for (size_t i = 0; i < SK_COUNT(same); i++)
        for (int dictionary = 0; dictionary < 2; dictionary++) {
            enum { ROWS = 90 };
            struct table a = {.n = 1, .rows = ROWS, .offset = 2}, b = {.n = 1, .rows = ROWS};
            uint64_t x[ROWS], y[ROWS];
            column_make(&a.columns[0], same[i].from, ROWS + 2, (struct column_how){.nulls = 20});
            struct column shifted = {.cells = a.columns[0].cells + 2};
            column_copy(&b.columns[0], same[i].to, &shifted, ROWS, dictionary);
            open_keys(&a);
            open_keys(&b);
            sk_keys_hash(a.keys, x);
            sk_keys_hash(b.keys, y);
            for (int r = 0; r < ROWS; r++)
                CHECK_MSG(x[r] == y[r], "row %d of '%s' and '%s'", r, same[i].from, same[i].to);
            bool match =
                !strcmp(same[i].from, same[i].to) || (x[0] && strchr("uUvz", same[i].from[0]));
            CHECK_EQ(sk_keys_match(a.keys, b.keys, NULL) == SK_OK, match);
            free_table(&a);
            free_table(&b);
        }
}

/* A key column may have integers in one block and floats in another. */
TEST(hash_of_whole_floats_is_that_of_ints) {
    enum { ROWS = 300 };
    struct table a = {.n = 1, .rows = ROWS}, b = {.n = 1, .rows = ROWS};
    static int64_t ints[ROWS];
    static double floats[ROWS];
    uint64_t x[ROWS], y[ROWS];
    for (int i = 0; i < ROWS; i++) {
        ints[i] = (int64_t)(test_rand() >> 11) >> test_below(53);
        if (i % 2) ints[i] = -ints[i];
        floats[i] = (double)ints[i];
    }
    floats[0] = -0.0;
    ints[0] = 0;
    column_make(&a.columns[0], "l", ROWS, (struct column_how){.distinct = 1});
    column_make(&b.columns[0], "g", ROWS, (struct column_how){.distinct = 1});
    a.columns[0].array.offset = b.columns[0].array.offset = 0;
    a.columns[0].buffers[1] = ints;
    b.columns[0].buffers[1] = floats;
    open_keys(&a);
    open_keys(&b);
    sk_keys_hash(a.keys, x);
    sk_keys_hash(b.keys, y);
    for (int i = 0; i < ROWS; i++) CHECK_MSG(x[i] == y[i], "row %d: %lld", i, (long long)ints[i]);
    for (int i = 0; i < ROWS; i++) floats[i] = (double)(ints[i] % 1000000) + 0.5;
    sk_keys_hash(b.keys, y);
    for (int i = 0; i < ROWS; i++) CHECK(x[i] != y[i]);
    free_table(&a);
    free_table(&b);
}

TEST(hash_spreads) {
    enum { N = 4096 };
    struct table t = {.n = 1, .rows = N};
    static int64_t v[N];
    static uint64_t h[N];
    for (int shift = 0; shift < 60; shift += 12) {
        for (int64_t i = 0; i < N; i++) v[i] = i << shift;
        column_make(&t.columns[0], "l", N, (struct column_how){.distinct = 1});
        t.columns[0].array.offset = 0;
        t.columns[0].buffers[1] = v;
        open_keys(&t);
        sk_keys_hash(t.keys, h);
        for (int at = 0; at < 64; at += 8) {
            /* each byte must spread the hashes over 256 buckets, 16 each on average; fewer than 3
             * or more than 50 is far too unlikely */
            int count[256] = {0};
            for (int i = 0; i < N; i++) count[h[i] >> at & 0xFF]++;
            for (int b = 0; b < 256; b++) CHECK(count[b] > 0 && count[b] < 50);
        }
        free_table(&t);
    }
}

static void refuse(struct batch *b, struct sk_key key, const char *column, const char *type) {
    struct sk_keys *k = NULL;
    struct sk_err err = {.code = 0};
    CHECK_RC(sk_keys_create(&b->schema, &b->array, &key, 1, &k, &err), SK_EINVAL);
    CHECK(k == NULL);
    CHECK_STR_HAS(err.msg, column);
    CHECK_STR_HAS(err.msg, type);
}

TEST(keys_refused) {
    static const struct {
        const char *format, *name;
    } bad[] = {{"+l", "list"},
               {"+L", "large list"},
               {"+vl", "list view"},
               {"+w:4", "fixed-size list"},
               {"+s", "struct"},
               {"+m", "map"},
               {"+ud:0", "union"},
               {"+r", "run-end"},
               {"tiD", "interval of days"},
               {"tin", "interval of months"}};
    static const char extension[] =
        "\1\0\0\0\24\0\0\0ARROW:extension:name\30\0\0\0arrow.fixed_shape_tensor";
    struct column c;
    struct batch b;
    struct sk_keys *k;
    struct sk_err err;
    uint32_t at = 9;
    column_make(&c, "l", 3, (struct column_how){.nulls = 0});
    batch_make(&b, &c, 1, 3, 0);
    for (size_t i = 0; i < SK_COUNT(bad); i++) {
        c.schema.format = bad[i].format;
        refuse(&b, (struct sk_key){.column = 0}, "'x'", bad[i].name);
    }
    c.schema.format = "+w:4";
    c.schema.metadata = extension;
    refuse(&b, (struct sk_key){.column = 0}, "'x'", "arrow.fixed_shape_tensor");
    c.schema.metadata = NULL;
    c.schema.format = "l";
    refuse(&b, (struct sk_key){.column = 1}, "column 1", "with 1");
    CHECK_RC(sk_keys_create(&b.schema, &b.array, NULL, 0, &k, &err), SK_EINVAL);
    CHECK_RC(sk_column_find(&b.schema, "y", &at, &err), SK_EINVAL);
    CHECK_STR_HAS(err.msg, "'y'");
    CHECK_OK(sk_column_find(&b.schema, "x", &at, &err));
    CHECK_EQ(at, 0);
    column_free(&c);
}

TEST(sort_without_memory) {
    struct table t = {.n = 2, .rows = 300};
    uint32_t index[300];
    struct sk_err err;
    column_make(&t.columns[0], "u", 300, (struct column_how){.distinct = 3, .nulls = 20});
    column_make(&t.columns[1], "u", 300, (struct column_how){.distinct = 40});
    t.key[1].column = 1;
    batch_make(&t.batch, t.columns, 2, 300, 0);
    for (int64_t n = 1;; n++) {
        struct sk_keys *k = NULL;
        sk_mem_fail_at(n);
        sk_rc rc = sk_keys_create(&t.batch.schema, &t.batch.array, t.key, 2, &k, &err);
        uint64_t n_firsts;
        if (rc == SK_OK) rc = sk_sort(k, index, &err);
        if (rc == SK_OK) rc = sk_sort_firsts(k, index, &n_firsts, &err);
        bool hit = sk_mem_failed();
        sk_mem_fail_at(0);
        sk_keys_destroy(k);
        CHECK_EQ(sk_mem_blocks(SK_TAG_KERNEL), 0);
        CHECK_EQ(rc, hit ? SK_ENOMEM : SK_OK);
        if (!hit) {
            CHECK_GT(n, 3); /* keys, entries and the list of groups */
            break;
        }
    }
    for (int i = 0; i < 2; i++) column_free(&t.columns[i]);
}
