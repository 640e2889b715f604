/* test_kernel_join.c - joins against two loops over cells. */
#include "kernel_make.h"
#include "test.h"

enum { MOST = 120, PARTS = 4 };

struct input {
    struct column c[2];
    struct batch b;
    int64_t rows, from[PARTS + 1];
    struct ArrowArray part[PARTS];
    struct sk_keys *keys[PARTS];
    uint32_t n;
};

static void input_make(struct input *in, const char *const *formats, const uint64_t *seeds,
                       int n_keys) {
    struct sk_key keys[2] = {{.column = 0}, {.column = 1}};
    struct sk_err err = {.code = 0};
    uint64_t distinct = 1 + test_below(test_below(2) ? 3 : 60);
    in->rows = test_below(6) ? (int64_t)test_below(MOST) : 0;
    for (int i = 0; i < n_keys; i++) {
        struct column_how how = {.seed = seeds[i],
                                 .distinct = distinct,
                                 .nulls = (unsigned)test_below(2) * 15,
                                 .dictionary = test_below(3) == 0};
        column_make(&in->c[i], formats[i], in->rows, how);
    }
    batch_make(&in->b, in->c, n_keys, in->rows, 0);
    in->n = in->rows ? 1 + (uint32_t)test_below(PARTS) : (uint32_t)test_below(2);
    int64_t at = 0;
    for (uint32_t p = 0; p < in->n; p++) {
        int64_t n =
            p + 1 == in->n ? in->rows - at : (int64_t)test_below((uint64_t)(in->rows - at) + 1);
        in->part[p] = in->b.array;
        in->part[p].offset += at;
        in->part[p].length = n;
        in->from[p] = at;
        CHECK_OK_ERR(
            sk_keys_create(&in->b.schema, &in->part[p], keys, (uint32_t)n_keys, &in->keys[p], &err),
            &err);
        at += n;
    }
}

static void input_free(struct input *in, int n_keys) {
    for (uint32_t p = 0; p < in->n; p++) sk_keys_destroy(in->keys[p]);
    for (int i = 0; i < n_keys; i++) column_free(&in->c[i]);
}

static bool meet(const struct input *l, int64_t i, const struct input *r, int64_t j, int n_keys) {
    for (int k = 0; k < n_keys; k++) {
        const struct cell *a = &l->c[k].cells[i], *b = &r->c[k].cells[j];
        if (a->class == CELL_NULL || b->class == CELL_NULL ||
            cell_compare(l->c[k].format, a, b, false, false))
            return false;
    }
    return true;
}

struct pairs {
    int64_t (*p)[2]; /* rows, -1: none */
    size_t n;
};

static void push(struct pairs *out, int64_t l, int64_t r) {
    out->p[out->n][0] = l;
    out->p[out->n++][1] = r;
}

static void twin(const struct input *l, const struct input *r, int n_keys, enum sk_join_kind kind,
                 struct pairs *out) {
    bool left = kind == SK_JOIN_LEFT || kind == SK_JOIN_FULL,
         right = kind == SK_JOIN_RIGHT || kind == SK_JOIN_FULL;
    for (int64_t i = 0; i < l->rows; i++) {
        bool met = false;
        for (int64_t j = 0; j < r->rows; j++) {
            if (!meet(l, i, r, j, n_keys)) continue;
            met = true;
            if (kind <= SK_JOIN_FULL) push(out, i, j);
        }
        if ((!met && (left || kind == SK_JOIN_LEFT_ANTI)) || (met && kind == SK_JOIN_LEFT_SEMI))
            push(out, i, -1);
    }
    for (int64_t j = 0; j < r->rows; j++) {
        bool met = false;
        for (int64_t i = 0; i < l->rows && !met; i++) met = meet(l, i, r, j, n_keys);
        if ((!met && (right || kind == SK_JOIN_RIGHT_ANTI)) || (met && kind == SK_JOIN_RIGHT_SEMI))
            push(out, -1, j);
    }
}

static int64_t row_of(const struct input *in, struct sk_row_at p) {
    if (p.run == SK_ROW_NONE) return -1;
    CHECK_LT(p.run, in->n);
    CHECK_LT(p.row, in->part[p.run].length);
    return in->from[p.run] + p.row;
}

static void check_join(const struct input *l, const struct input *r, int n_keys,
                       enum sk_join_kind kind, struct pairs *want) {
    struct sk_join *j;
    struct sk_err err = {.code = 0};
    struct sk_row_at left[50], right[50];
    size_t seen = 0;
    want->n = 0;
    twin(l, r, n_keys, kind, want);
    CHECK_OK_ERR(sk_join_create((const struct sk_keys *const *)l->keys, l->n,
                                (const struct sk_keys *const *)r->keys, r->n, kind, &j, &err),
                 &err);
    for (uint64_t n = 1; n;) {
        uint64_t cap = 1 + test_below(50);
        n = sk_join_next(j, left, right, cap);
        CHECK(n == cap || seen + n == want->n);
        for (uint64_t i = 0; i < n; i++, seen++) {
            CHECK_LT(seen, want->n);
            CHECK_EQ(row_of(l, left[i]), want->p[seen][0]);
            CHECK_EQ(row_of(r, right[i]), want->p[seen][1]);
        }
    }
    CHECK_EQ(seen, want->n);
    sk_join_destroy(j);
}

/* Checks that j returns the next rows of `want`, until j ends; l: its left batches, from number
 * `first` on. */
static void check_rows(struct sk_join *j, const struct input *l, uint32_t first,
                       const struct input *r, const struct pairs *want, size_t *seen) {
    struct sk_row_at left[50], right[50];
    for (uint64_t n = 1; n;) {
        n = sk_join_next(j, left, right, 1 + test_below(50));
        for (uint64_t i = 0; i < n; i++, ++*seen) {
            CHECK_LT(*seen, want->n);
            if (left[i].run != SK_ROW_NONE) left[i].run += first;
            CHECK_EQ(row_of(l, left[i]), want->p[*seen][0]);
            CHECK_EQ(row_of(r, right[i]), want->p[*seen][1]);
        }
    }
}

/* Checks that joins of shares of the left side and the join of the rest together give the whole
 * join. */
static void check_shares(const struct input *l, const struct input *r, enum sk_join_kind kind,
                         const struct pairs *want) {
    const struct sk_keys *const *left = (const struct sk_keys *const *)l->keys,
                                *const *right = (const struct sk_keys *const *)r->keys;
    uint8_t met[MOST / 8 + 1] = {0};
    struct sk_join *j;
    struct sk_err err = {.code = 0};
    size_t seen = 0;
    for (uint32_t from = 0, to; from < l->n || !from; from = to + !l->n) {
        uint8_t told[MOST / 8 + 1];
        to = from + (l->n ? 1 + (uint32_t)test_below(l->n - from) : 0);
        CHECK_OK_ERR(sk_join_create(left + from, to - from, right, r->n, kind, &j, &err), &err);
        sk_join_share(j, told);
        for (int64_t i = 0; i < (r->rows + 7) / 8; i++) met[i] |= told[i];
        check_rows(j, l, from, r, want, &seen);
        sk_join_destroy(j);
    }
    CHECK_OK_ERR(sk_join_rest(right, r->n, kind, met, &j, &err), &err);
    check_rows(j, l, 0, r, want, &seen);
    CHECK_EQ(seen, want->n);
    sk_join_destroy(j);
}

TEST(join_of_each_type) {
    struct pairs want = {sk_alloc(SK_TAG_TEST, (MOST * MOST + 2 * MOST) * sizeof *want.p), 0};
    for (int round = 0; round < test_rounds(8); round++)
        for (size_t f = 0; f < n_key_formats; f++) {
            struct input l, r;
            int n_keys = 1 + (int)test_below(2);
            const char *formats[2] = {key_formats[f], key_formats[test_below(n_key_formats)]};
            uint64_t seeds[2] = {test_rand(), test_rand()};
            input_make(&l, formats, seeds, n_keys);
            input_make(&r, formats, seeds, n_keys);
            for (int kind = SK_JOIN_INNER; kind <= SK_JOIN_RIGHT_ANTI; kind++) {
                check_join(&l, &r, n_keys, (enum sk_join_kind)kind, &want);
                check_shares(&l, &r, (enum sk_join_kind)kind, &want);
            }
            input_free(&l, n_keys);
            input_free(&r, n_keys);
        }
    sk_free(want.p);
}

static void one_column(const char *format, int64_t rows, uint64_t distinct, struct column *c,
                       struct batch *b, struct sk_keys **k) {
    struct sk_err err = {.code = 0};
    column_make(c, format, rows, (struct column_how){.seed = 7, .distinct = distinct});
    batch_make(b, c, 1, rows, 0);
    CHECK_OK_ERR(sk_keys_create(&b->schema, &b->array, &(struct sk_key){.column = 0}, 1, k, &err),
                 &err);
}

/* A float that is an integer hashes as that integer, others by their bits: the two floats here have
 * the same hash but are not joined. */
TEST(join_of_floats_with_one_hash) {
    static const double v[2] = {1.5, 4609434218613702656.0};
    struct sk_keys *k[2];
    struct sk_join *j;
    struct sk_err err;
    struct sk_row_at left[4], right[4];
    const void *buffers[2] = {NULL, v}, *none[1] = {NULL};
    struct ArrowSchema field = {.format = "g", .name = "v"}, *fields[1] = {&field},
                       schema = {.format = "+s", .name = "", .n_children = 1, .children = fields};
    struct ArrowArray column = {.length = 2, .n_buffers = 2, .buffers = buffers},
                      *columns[1] = {&column}, batch[2];
    for (int i = 0; i < 2; i++) {
        batch[i] = (struct ArrowArray){.length = 1,
                                       .offset = i,
                                       .n_buffers = 1,
                                       .buffers = none,
                                       .n_children = 1,
                                       .children = columns};
        CHECK_OK(sk_keys_create(&schema, &batch[i], &(struct sk_key){.column = 0}, 1, &k[i], &err));
    }
    CHECK_OK(sk_join_create((const struct sk_keys *const *)&k[0], 1,
                            (const struct sk_keys *const *)&k[1], 1, SK_JOIN_INNER, &j, &err));
    CHECK_EQ(sk_join_next(j, left, right, 4), 0);
    sk_join_destroy(j);
    for (int i = 0; i < 2; i++) sk_keys_destroy(k[i]);
}

TEST(join_refused) {
    struct column c[2];
    struct batch b[2];
    struct sk_keys *k[2];
    struct sk_join *j = NULL;
    struct sk_err err;
    one_column("i", 9, 3, &c[0], &b[0], &k[0]);
    one_column("u", 9, 3, &c[1], &b[1], &k[1]);
    const struct sk_keys *l[1] = {k[0]}, *r[1] = {k[1]};
    CHECK_RC(sk_join_create(l, 1, r, 1, SK_JOIN_INNER, &j, &err), SK_EINVAL);
    CHECK_STR_HAS(err.msg, "'u'");
    for (int rest = 0; rest < 2; rest++) {
        bool hit = true;
        for (int64_t n = 1; hit; n++) {
            j = NULL;
            sk_mem_fail_at(n);
            sk_rc rc = rest ? sk_join_rest(l, 1, SK_JOIN_FULL, (const uint8_t[2]){0}, &j, &err)
                            : sk_join_create(l, 1, l, 1, SK_JOIN_FULL, &j, &err);
            hit = sk_mem_failed();
            sk_mem_fail_at(0);
            CHECK_EQ(rc, hit ? SK_ENOMEM : SK_OK);
            CHECK(hit == (j == NULL));
        }
        sk_join_destroy(j);
    }
    for (int i = 0; i < 2; i++) {
        sk_keys_destroy(k[i]);
        column_free(&c[i]);
    }
}

/* No key of the filter is dropped; few other keys pass. */
TEST(bloom_passes_what_is_there) {
    enum { N = 20000 };
    static uint64_t in[N], out[N];
    static uint32_t index[N];
    for (uint32_t bits = 8; bits <= 10; bits += 2) {
        size_t bytes = sk_bloom_bytes(N, bits);
        uint8_t *a = sk_calloc(SK_TAG_TEST, bytes), *b = sk_calloc(SK_TAG_TEST, bytes);
        for (int i = 0; i < N; i++) {
            in[i] = (test_rand() >> 16) | UINT64_C(3) << 48; /* of one partition */
            out[i] = (test_rand() >> 16) | UINT64_C(3) << 48;
        }
        CHECK_LE(bytes, N * bits / 8 + 32);
        CHECK_EQ(sk_bloom_select(a, bytes, in, N, index), 0);
        sk_bloom_add(a, bytes, in, N / 2);
        sk_bloom_add(b, bytes, in + N / 2, N - N / 2);
        sk_bloom_merge(a, b, bytes);
        CHECK_EQ(sk_bloom_select(a, bytes, in, N, index), N);
        for (uint32_t i = 0; i < N; i++) CHECK_EQ(index[i], i);
        uint64_t wrong = sk_bloom_select(a, bytes, out, N, index);
        CHECK_MSG(wrong < N * (bits == 8 ? 4 : 2) / 100, "%llu of %d pass at %u bits",
                  (unsigned long long)wrong, (int)N, bits);
        for (uint64_t i = 1; i < wrong; i++) CHECK_LT(index[i - 1], index[i]);
        sk_free(a);
        sk_free(b);
    }
}
