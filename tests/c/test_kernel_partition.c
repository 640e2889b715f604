/* test_kernel_partition.c - partitions by hash, range, chance and turn against their definitions,
 * row by row. */
#include "kernel_make.h"
#include "test.h"

struct cut { /* a partitioning of `rows` rows, and its memory */
    struct sk_parts parts;
    uint32_t *of; /* partition of each row, read back from the index */
};

static void cut_init(struct cut *c, uint32_t n, uint64_t rows) {
    c->parts = (struct sk_parts){n, sk_alloc(SK_TAG_TEST, (n + 1) * sizeof(uint64_t)),
                                 sk_alloc(SK_TAG_TEST, rows * sizeof(uint32_t))};
    c->of = sk_alloc(SK_TAG_TEST, rows * sizeof(uint32_t));
}
static void cut_free(struct cut *c) {
    sk_free(c->parts.start);
    sk_free(c->parts.index);
    sk_free(c->of);
}

/* Checks that each row occurs once, in the order of the batch within a partition. */
static void cut_read(struct cut *c, uint64_t rows) {
    const uint64_t *start = c->parts.start;
    memset(c->of, 0xFF, rows * sizeof *c->of);
    CHECK_EQ(start[0], 0);
    CHECK_EQ(start[c->parts.n], rows);
    for (uint32_t p = 0; p < c->parts.n; p++) {
        CHECK_LE(start[p], start[p + 1]);
        for (uint64_t i = start[p]; i < start[p + 1]; i++) {
            uint32_t row = c->parts.index[i];
            CHECK(row < rows && c->of[row] == UINT32_MAX);
            CHECK(i == start[p] || c->parts.index[i - 1] < row);
            c->of[row] = p;
        }
    }
}

static const uint64_t sizes[] = {0, 1, 2, 50, 400};
static const uint32_t counts[] = {1, 2, 3, 64, 1000};

static struct sk_keys *keys_of(struct batch *b, struct column *c, int n, int64_t rows,
                               const struct sk_key *key) {
    struct sk_err err;
    struct sk_keys *k = NULL;
    batch_make(b, c, n, rows, 0);
    CHECK_OK_ERR(sk_keys_create(&b->schema, &b->array, key, (uint32_t)n, &k, &err), &err);
    return k;
}

TEST(partition_by_hash) {
    for (int round = 0; round < test_rounds(100); round++) {
        uint64_t rows = sizes[test_below(5)];
        struct column c[2];
        struct batch b;
        struct sk_key key[2] = {{.column = 0}, {.column = 1, .descending = true}};
        struct cut cut[2];
        struct sk_err err;
        for (int i = 0; i < 2; i++)
            column_make(
                &c[i], key_formats[test_below(n_key_formats)], (int64_t)rows,
                (struct column_how){
                    .seed = test_rand(), .distinct = 6, .nulls = 20, .dictionary = test_below(2)});
        struct sk_keys *k = keys_of(&b, c, 2, (int64_t)rows, key);
        uint32_t n = counts[test_below(5)];
        for (uint32_t level = 0; level < 2; level++) {
            cut_init(&cut[level], n, rows);
            CHECK_OK_ERR(sk_partition_hash(k, level, &cut[level].parts, &err), &err);
            cut_read(&cut[level], rows);
        }
        for (int i = 0; rows && i < 200; i++) {
            uint64_t x = test_below(rows), y = test_below(rows);
            bool same = !cell_compare(c[0].format, &c[0].cells[x], &c[0].cells[y], 0, 0) &&
                        !cell_compare(c[1].format, &c[1].cells[x], &c[1].cells[y], 0, 0);
            CHECK(!same || (cut[0].of[x] == cut[0].of[y] && cut[1].of[x] == cut[1].of[y]));
        }
        for (int i = 0; i < 2; i++) {
            cut_free(&cut[i]);
            column_free(&c[i]);
        }
        sk_keys_destroy(k);
    }
}

/* The rows of one partition of a level are spread over all partitions of the next level. */
TEST(partition_levels_are_fresh) {
    enum { ROWS = 20000, N = 16 };
    struct column c;
    struct batch b;
    struct cut first, second;
    static int64_t numbers[ROWS];
    for (int i = 0; i < ROWS; i++) numbers[i] = i;
    column_make(&c, "l", ROWS, (struct column_how){.nulls = 0});
    c.array.offset = 0;
    c.buffers[1] = numbers;
    struct sk_keys *k = keys_of(&b, &c, 1, ROWS, &(struct sk_key){.column = 0});
    cut_init(&first, N, ROWS);
    cut_init(&second, N, ROWS);
    CHECK_OK(sk_partition_hash(k, 0, &first.parts, NULL));
    CHECK_OK(sk_partition_hash(k, 1, &second.parts, NULL));
    cut_read(&first, ROWS);
    cut_read(&second, ROWS);
    static int count[N][N];
    for (int i = 0; i < ROWS; i++) count[first.of[i]][second.of[i]]++;
    /* 78 +- 9 */
    for (int i = 0; i < N * N; i++) CHECK(count[i / N][i % N] > 20 && count[i / N][i % N] < 200);
    cut_free(&first);
    cut_free(&second);
    sk_keys_destroy(k);
    column_free(&c);
}

TEST(partition_by_range) {
    for (int round = 0; round < test_rounds(200); round++) {
        uint64_t rows = sizes[test_below(5)];
        uint32_t n = 1 + (uint32_t)test_below(30);
        struct column c[2], bounds[2], sorted[2];
        struct batch b, bb, sb;
        struct sk_key key[2];
        struct sk_err err;
        int keys = 1 + (int)test_below(2);
        for (int i = 0; i < keys; i++) {
            struct column_how how = {
                .seed = test_rand(), .distinct = test_below(2) * 30, .nulls = 10};
            const char *f = key_formats[test_below(n_key_formats)];
            column_make(&c[i], f, (int64_t)rows, how);
            column_make(&bounds[i], f, n - 1, how);
            key[i] = (struct sk_key){(uint32_t)i, test_below(2), test_below(2)};
        }
        struct sk_keys *k = keys_of(&b, c, keys, (int64_t)rows, key),
                       *bk = keys_of(&bb, bounds, keys, n - 1, key);
        uint32_t *order = sk_alloc(SK_TAG_TEST, n * sizeof *order);
        CHECK_OK(sk_sort(bk, order, &err));
        for (int i = 0; i < keys; i++) { /* the bounds in order */
            struct cell *cells = sk_alloc(SK_TAG_TEST, n * sizeof *cells);
            for (uint32_t j = 0; j + 1 < n; j++) cells[j] = bounds[i].cells[order[j]];
            column_copy(&sorted[i], bounds[i].format, &(struct column){.cells = cells}, n - 1,
                        test_below(2));
            sk_free(cells);
        }
        struct sk_keys *sk = keys_of(&sb, sorted, keys, n - 1, key);
        struct cut cut;
        cut_init(&cut, n, rows);
        CHECK_OK_ERR(sk_partition_range(k, sk, &cut.parts, &err), &err);
        cut_read(&cut, rows);
        for (uint64_t i = 0; i < rows; i++) {
            uint32_t p = 0;
            for (uint32_t j = 0; j + 1 < n; j++) {
                int r = 0;
                for (int x = 0; !r && x < keys; x++)
                    r = cell_compare(c[x].format, &sorted[x].cells[j], &c[x].cells[i],
                                     key[x].descending, key[x].nulls_first);
                p += r <= 0;
            }
            CHECK_EQ(cut.of[i], p);
        }
        sk_keys_destroy(k);
        sk_keys_destroy(bk);
        sk_keys_destroy(sk);
        sk_free(order);
        cut_free(&cut);
        for (int i = 0; i < keys; i++) {
            column_free(&c[i]);
            column_free(&bounds[i]);
            column_free(&sorted[i]);
        }
    }
}

TEST(partition_bounds_refused) {
    static const int64_t up[4] = {1, 2, 2, 5}, down[4] = {1, 2, 1, 5};
    struct column rows, bounds, text;
    struct batch b, bb, tb;
    struct sk_key key = {.column = 0}, back = {.column = 0, .descending = true};
    struct sk_err err;
    struct cut cut;
    column_make(&rows, "l", 10, (struct column_how){.nulls = 0});
    column_make(&bounds, "l", 4, (struct column_how){.nulls = 0});
    column_make(&text, "u", 4, (struct column_how){.nulls = 0});
    bounds.array.offset = 0;
    bounds.buffers[1] = up;
    cut_init(&cut, 5, 10);
    struct sk_keys *k = keys_of(&b, &rows, 1, 10, &key), *tk = keys_of(&tb, &text, 1, 4, &key),
                   *bk = keys_of(&bb, &bounds, 1, 4, &key);
    CHECK_OK_ERR(sk_partition_range(k, bk, &cut.parts, &err), &err);
    cut.parts.n = 4;
    CHECK_RC(sk_partition_range(k, bk, &cut.parts, &err), SK_EINVAL);
    CHECK_STR_HAS(err.msg, "4 bounds for 4 partitions");
    cut.parts.n = 0;
    CHECK_RC(sk_partition_hash(k, 0, &cut.parts, &err), SK_EINVAL);
    cut.parts.n = 5;
    CHECK_RC(sk_partition_range(k, tk, &cut.parts, &err), SK_EINVAL);
    CHECK_STR_HAS(err.msg, "'u'");
    sk_keys_destroy(bk);
    bounds.buffers[1] = down;
    bk = keys_of(&bb, &bounds, 1, 4, &key);
    CHECK_RC(sk_partition_range(k, bk, &cut.parts, &err), SK_EINVAL);
    CHECK_STR_HAS(err.msg, "bound 2 is out of order");
    sk_keys_destroy(bk);
    bk = keys_of(&bb, &bounds, 1, 4, &back);
    CHECK_RC(sk_partition_range(k, bk, &cut.parts, &err), SK_EINVAL);
    CHECK_STR_HAS(err.msg, "another order");
    sk_keys_destroy(bk);
    sk_keys_destroy(tk);
    sk_keys_destroy(k);
    cut_free(&cut);
    column_free(&rows);
    column_free(&bounds);
    column_free(&text);
}

TEST(partition_random_is_of_the_row) {
    enum { ROWS = 5000, N = 10 };
    struct cut whole, part;
    struct sk_err err;
    int count[N] = {0};
    cut_init(&whole, N, ROWS);
    CHECK_OK_ERR(sk_partition_random(ROWS, 7, 42, &whole.parts, &err), &err);
    cut_read(&whole, ROWS);
    for (uint64_t at = 0; at < ROWS;) { /* the rows are cut into batches at random */
        uint64_t most = test_below(900), n = SK_MIN(ROWS - at, most);
        cut_init(&part, N, n);
        CHECK_OK(sk_partition_random(n, 7 + at, 42, &part.parts, &err));
        cut_read(&part, n);
        for (uint64_t i = 0; i < n; i++) CHECK_EQ(part.of[i], whole.of[at + i]);
        cut_free(&part);
        at += n;
    }
    for (int i = 0; i < ROWS; i++) count[whole.of[i]]++;
    for (int i = 0; i < N; i++) CHECK(count[i] > 350 && count[i] < 650); /* 500 +- 21 */
    cut_free(&whole);
}

TEST(partition_round_robin) {
    for (int round = 0; round < test_rounds(40); round++) {
        uint64_t rows = sizes[test_below(5)], first = test_rand();
        struct cut cut;
        cut_init(&cut, counts[test_below(5)], rows);
        CHECK_OK(sk_partition_round_robin(rows, first % 5000, &cut.parts, NULL));
        cut_read(&cut, rows);
        for (uint64_t i = 0; i < rows; i++) CHECK_EQ(cut.of[i], (first % 5000 + i) % cut.parts.n);
        cut_free(&cut);
    }
}

TEST(partition_without_memory) {
    struct column c, bounds;
    struct batch b, bb;
    struct cut cut;
    struct sk_err err;
    column_make(&c, "l", 10, (struct column_how){.nulls = 0});
    column_make(&bounds, "l", 2, (struct column_how){.distinct = 1});
    struct sk_keys *k = keys_of(&b, &c, 1, 10, &(struct sk_key){.column = 0}),
                   *bk = keys_of(&bb, &bounds, 1, 2, &(struct sk_key){.column = 0});
    cut_init(&cut, 3, 10);
    int64_t before = sk_mem_blocks(SK_TAG_KERNEL);
    for (int way = 0; way < 4; way++)
        for (int64_t n = 1;; n++) {
            sk_mem_fail_at(n);
            sk_rc rc = way == 0   ? sk_partition_hash(k, 0, &cut.parts, &err)
                       : way == 1 ? sk_partition_range(k, bk, &cut.parts, &err)
                       : way == 2 ? sk_partition_random(10, 0, 1, &cut.parts, &err)
                                  : sk_partition_round_robin(10, 0, &cut.parts, &err);
            bool hit = sk_mem_failed();
            sk_mem_fail_at(0);
            CHECK_EQ(sk_mem_blocks(SK_TAG_KERNEL), before);
            CHECK_EQ(rc, hit ? SK_ENOMEM : SK_OK);
            if (!hit) break;
        }
    sk_keys_destroy(k);
    sk_keys_destroy(bk);
    cut_free(&cut);
    column_free(&c);
    column_free(&bounds);
}
