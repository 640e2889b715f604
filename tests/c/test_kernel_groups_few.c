/* test_kernel_groups_few.c - aggregates where groups are few: sums of doubles in lanes (agg_sum.c)
 * and all rows as one group (agg_floats.c) against the rows one by one, groups by the codes of
 * dictionaries against the same values without dictionaries. */
#include <stdlib.h>

#include "kernel/agg/agg.h"
#include "kernel_make.h"
#include "test.h"

struct states {
    uint8_t *block;
    size_t size;
    struct ArrowSchema schema;
    struct ArrowArray array;
};

static void states_free(struct states *r) {
    r->schema.release(&r->schema);
    r->array.release(&r->array);
    sk_free(r->block);
}

/* Makes the states, or the results, of a batch that is added `each` rows at a time; 0: all at
 * once. */
static void take(const struct ArrowSchema *schema, struct ArrowArray batch, const uint32_t *keys,
                 uint32_t n_keys, const struct sk_agg *aggs, uint32_t n_aggs, int64_t each,
                 bool partial, struct states *out) {
    struct sk_err err = {.code = 0};
    struct sk_block_plan *plan;
    struct sk_groupby *g;
    uint64_t size;
    int64_t rows = batch.length, first = batch.offset;
    CHECK_OK_ERR(sk_groupby_create(schema, keys, n_keys, aggs, n_aggs, &g, &err), &err);
    for (int64_t at = 0; at < rows; at += batch.length) {
        batch.offset = first + at;
        batch.length = each ? SK_MIN(each, rows - at) : rows;
        CHECK_OK_ERR(sk_groupby_update(g, schema, &batch, &err), &err);
    }
    CHECK_OK_ERR(sk_groupby_measure(g, partial, &plan, &size, &err), &err);
    out->size = (size_t)size;
    out->block = sk_alloc_aligned(SK_TAG_TEST, SK_BLOCK_ALIGN, out->size);
    sk_block_write(plan, out->block);
    sk_block_plan_free(plan);
    sk_groupby_destroy(g);
    CHECK_OK(sk_block_export(out->block, out->size, 0, UINT64_MAX,
                             (struct sk_block_owner){NULL, NULL}, &out->schema, &out->array, &err));
}

/* ---- sums ---- */

enum { ROWS = 3000 };

/* Returns a random term: of any magnitude, of one magnitude, or near the limits of doubles;
 * sometimes zero, infinite or NaN. */
static double term(int kind) {
    double m = ((double)(int64_t)test_rand() + 0.5) * 0x1p-63;
    switch (test_below(40)) {
    case 0: return 0;
    case 1: return -0.0;
    case 2: return test_below(20) ? 1 : __builtin_inf();
    case 3: return test_below(20) ? -1 : __builtin_nan("");
    default: break;
    }
    int from = kind == 0   ? -1074
               : kind == 1 ? -30
               : kind == 2 ? 1000
                           : -1074,
        range = kind == 0   ? 2098
                : kind == 1 ? 60
                : kind == 2 ? 24
                            : 130;
    return __builtin_ldexp(m, from + (int)test_below((uint64_t)range));
}

TEST(sums_in_lanes_are_those_of_rows_one_by_one) {
    double v[ROWS];
    int64_t k[ROWS];
    uint8_t valid[(ROWS + 7) / 8];
    struct ArrowSchema key = {.format = "l", .name = "k"},
                       value = {.format = "g", .name = "v", .flags = ARROW_FLAG_NULLABLE},
                       *fields[2] = {&key, &value},
                       schema = {.format = "+s", .name = "", .n_children = 2, .children = fields};
    const void *key_buffers[2] = {NULL, k}, *buffers[2] = {NULL, v}, *none[1] = {NULL};
    struct ArrowArray keys = {.length = ROWS, .n_buffers = 2, .buffers = key_buffers},
                      values = {.length = ROWS, .n_buffers = 2, .buffers = buffers},
                      *columns[2] = {&keys, &values};
    for (int round = 0; round < test_rounds(12); round++) {
        int kind = round % 4;
        bool nan_is_null = test_below(2);
        /* more than there are rows for: no lanes */
        uint64_t groups = 1 + test_below(round % 3 == 2 ? 400 : 7);
        struct sk_agg aggs[4] = {
            {SK_AGG_SUM, 1, true, 0, 0, "s", 0, NULL, nan_is_null, NULL, false, false},
            {SK_AGG_MEAN, 1, false, 0, 0, "m", 0, NULL, nan_is_null, NULL, false, false},
            {SK_AGG_STD, 1, true, 1, 0, "d", 0, NULL, nan_is_null, NULL, false, false},
            {SK_AGG_MAX, 1, true, 0, 0, "x", 0, NULL, nan_is_null, NULL, false, false}};
        for (int i = 0; i < ROWS; i++) {
            v[i] = term(kind);
            k[i] = (int64_t)test_below(groups);
        }
        memset(valid, 0xFF, sizeof valid);
        values.null_count = test_below(2) ? 1 : 0;
        buffers[0] = values.null_count ? valid : NULL;
        for (int i = 0; values.null_count && i < ROWS; i++)
            if (!test_below(9)) valid[i / 8] &= (uint8_t)~(1u << (i & 7));
        int64_t from = (int64_t)test_below(20);
        struct ArrowArray batch = {.length = ROWS - from,
                                   .offset = from,
                                   .n_buffers = 1,
                                   .buffers = none,
                                   .n_children = 2,
                                   .children = columns};
        for (uint32_t n_keys = 0; n_keys < 2; n_keys++) {
            struct states whole, rows, parts;
            sk_agg_plain = test_below(2);
            take(&schema, batch, &(uint32_t){0}, n_keys, aggs, 4, 0, true, &whole);
            take(&schema, batch, &(uint32_t){0}, n_keys, aggs, 4, 1, true, &rows);
            sk_agg_plain = !sk_agg_plain;
            take(&schema, batch, &(uint32_t){0}, n_keys, aggs, 4, 500, true, &parts);
            sk_agg_plain = false;
            CHECK_EQ(whole.size, rows.size);
            CHECK_MEM_EQ(whole.block, rows.block, whole.size);
            CHECK_EQ(whole.size, parts.size);
            CHECK_MEM_EQ(whole.block, parts.block, whole.size);
            states_free(&whole);
            states_free(&rows);
            states_free(&parts);
        }
    }
}

/* Whole numbers below 2^40 times 2^-40, around a mean that they differ from in their last bits
 * only, where `close`. Sums of such numbers and of their squares fit 128 bits. */
TEST(deviations_are_exact_to_the_last_bits) {
    double v[ROWS];
    struct ArrowSchema value = {.format = "g", .name = "v"}, *fields[1] = {&value},
                       schema = {.format = "+s", .name = "", .n_children = 1, .children = fields};
    const void *buffers[2] = {NULL, v}, *none[1] = {NULL};
    struct ArrowArray values = {.length = ROWS, .n_buffers = 2, .buffers = buffers},
                      *columns[1] = {&values};
    struct sk_agg aggs[2] = {{SK_AGG_VAR, 0, true, 1, 0, "d", 0, NULL, false, NULL, false, false},
                             {SK_AGG_MEAN, 0, true, 0, 0, "m", 0, NULL, false, NULL, false, false}};
    for (int round = 0; round < test_rounds(20); round++) {
        int64_t n = 2 + (int64_t)test_below(ROWS - 2);
        bool close = test_below(2);
        __int128 sum = 0, squares = 0;
        struct states made;
        for (int64_t i = 0; i < n; i++) {
            int64_t m = (int64_t)test_below((uint64_t)1 << (close ? 4 : 40));
            if (close) m += (INT64_C(1) << 40) - 16;
            v[i] = (double)m * 0x1p-40;
            sum += m;
            squares += (__int128)m * m;
        }
        struct ArrowArray batch = {
            .length = n, .n_buffers = 1, .buffers = none, .n_children = 1, .children = columns};
        sk_agg_plain = test_below(2);
        take(&schema, batch, NULL, 0, aggs, 2, 0, false, &made);
        sk_agg_plain = false;
        double variance = (double)(squares * n - sum * sum) / (double)n / (double)(n - 1) * 0x1p-80,
               mean = (double)sum / (double)n * 0x1p-40,
               is = ((const double *)made.array.children[0]->buffers[1])[0];
        CHECK(__builtin_fabs(is - variance) <= 4 * 0x1p-53 * variance);
        CHECK(((const double *)made.array.children[1]->buffers[1])[0] == mean);
        states_free(&made);
    }
}

/* ---- all rows of numbers ---- */

/* The value at place i of a column of format f: an integer, or the bits of a float. */
static __int128 number_at(const char *f, const void *p, int64_t i) {
    switch (*f) {
    case 'c': return ((const int8_t *)p)[i];
    case 'C': return ((const uint8_t *)p)[i];
    case 's': return ((const int16_t *)p)[i];
    case 'S': return ((const uint16_t *)p)[i];
    case 'i': return ((const int32_t *)p)[i];
    case 'I': return ((const uint32_t *)p)[i];
    case 'L': return ((const uint64_t *)p)[i];
    default: return ((const int64_t *)p)[i];
    }
}

static void check_all_rows(const char *f, int64_t rows, unsigned nulls) {
    const bool whole = !strchr("efg", *f);
    struct sk_agg aggs[4] = {{SK_AGG_COUNT, 0, true, 0, 0, "n", 0, NULL, true, NULL, false, false},
                             {SK_AGG_MIN, 0, true, 0, 0, "a", 0, NULL, true, NULL, false, false},
                             {SK_AGG_MAX, 0, true, 0, 0, "b", 0, NULL, true, NULL, false, false},
                             {SK_AGG_SUM, 0, true, 0, 0, "s", 0, NULL, true, NULL, true, false}};
    struct cell least = {.class = CELL_NULL}, most = least;
    struct column c;
    struct batch b;
    struct states made;
    __int128 sum = 0;
    int64_t n = 0;
    column_make(&c, f, rows, (struct column_how){.seed = test_rand(), .nulls = nulls});
    for (int64_t i = 0; i < rows; i++) {
        const struct cell *v = &c.cells[i];
        if (v->class != CELL_VALUE) continue;
        if (!n || cell_compare(f, v, &least, false, false) < 0) least = *v;
        if (!n || cell_compare(f, v, &most, false, false) > 0) most = *v;
        sum += v->i;
        n++;
    }
    batch_make(&b, &c, 1, rows, 0);
    take(&b.schema, b.array, NULL, 0, aggs, whole ? 4 : 3, 0, false, &made);
    struct ArrowArray **of = made.array.children;
    CHECK_EQ(*(const int64_t *)of[0]->buffers[1], n);
    for (int i = 1; n && i < 3; i++) {
        const struct cell *is = i == 1 ? &least : &most;
        if (whole) CHECK(number_at(f, of[i]->buffers[1], 0) == is->i);
        else if (*f == 'g') CHECK(*(const double *)of[i]->buffers[1] == is->d);
        else if (*f == 'f') CHECK((double)*(const float *)of[i]->buffers[1] == is->d);
        else CHECK((double)*(const _Float16 *)of[i]->buffers[1] == is->d);
    }
    if (n && whole) CHECK(!memcmp(of[3]->buffers[1], &sum, 16));
    states_free(&made);
    column_free(&c);
}

TEST(all_rows_of_numbers_are_one_group) {
    static const char *const formats[] = {"c", "C", "s", "S", "i", "I", "l", "L", "e", "f", "g"};
    const int64_t lengths[] = {1, 63, 64, 65, 511, 512, 513, 4097, 9000};
    for (int round = 0; round < test_rounds(2); round++)
        for (size_t i = 0; i < SK_COUNT(formats); i++)
            for (size_t l = 0; l < SK_COUNT(lengths); l++) {
                sk_agg_plain = test_below(2);
                check_all_rows(formats[i], lengths[l], (unsigned)test_below(3) * 30);
                check_all_rows(formats[i], 1 + (int64_t)test_below(200), 99);
            }
    sk_agg_plain = false;
}

/* ---- quantiles of all rows ---- */

static int compare_doubles(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Values are exact while there are at most 8,192; beyond, they have as many bits as fit, whatever
 * the order of rows and merges. */
TEST(quantiles_of_all_rows_are_exact_while_values_are_few) {
    enum { MANY = 40000 };
    static const double qs[3] = {0.1, 0.5, 0.9};
    struct ArrowSchema value = {.format = "g", .name = "v", .flags = ARROW_FLAG_NULLABLE},
                       *fields[1] = {&value},
                       schema = {.format = "+s", .name = "", .n_children = 1, .children = fields};
    struct sk_agg agg = {
        SK_AGG_APPROX_QUANTILES, 0, true, 0, 0, "q", 3, qs, true, NULL, false, false};
    double *v = sk_alloc(SK_TAG_TEST, MANY * sizeof *v);
    const void *buffers[2] = {NULL, v}, *none[1] = {NULL};
    for (int round = 0; round < test_rounds(8); round++) {
        int64_t n = round % 2 ? MANY : 1 + (int64_t)test_below(8192);
        /* wide: of all sizes and signs; else close to a million, so they differ in the last bits */
        bool wide = test_below(2);
        struct sk_err err = {.code = 0};
        struct states whole, results, parts[2], merged;
        struct sk_groupby *g;
        struct sk_block_plan *plan;
        uint64_t size;
        for (int64_t i = 0; i < n; i++)
            v[i] = wide ? (double)(int64_t)test_rand() * (double)test_below(1000)
                        : 1e6 + (double)test_below(1u << 30) * 0x1p-30;
        struct ArrowArray values = {.length = n, .n_buffers = 2, .buffers = buffers},
                          *columns[1] = {&values},
                          batch = {.length = n,
                                   .n_buffers = 1,
                                   .buffers = none,
                                   .n_children = 1,
                                   .children = columns};
        take(&schema, batch, NULL, 0, &agg, 1, 0, true, &whole);
        take(&schema, batch, NULL, 0, &agg, 1, 0, false, &results);
        struct ArrowArray first = batch, second = batch;
        first.length = n / 3;
        second.offset = n / 3;
        second.length = n - n / 3;
        take(&schema, first, NULL, 0, &agg, 1, 700, true, &parts[0]);
        take(&schema, second, NULL, 0, &agg, 1, 0, true, &parts[1]);
        CHECK_OK_ERR(sk_groupby_create(&schema, NULL, 0, &agg, 1, &g, &err), &err);
        for (int p = 1; p >= 0; p--)
            if (parts[p].array.length)
                CHECK_OK_ERR(sk_groupby_merge(g, &parts[p].schema, &parts[p].array, &err), &err);
        CHECK_OK_ERR(sk_groupby_measure(g, true, &plan, &size, &err), &err);
        merged.block = sk_alloc_aligned(SK_TAG_TEST, SK_BLOCK_ALIGN, (size_t)size);
        sk_block_write(plan, merged.block);
        sk_block_plan_free(plan);
        sk_groupby_destroy(g);
        CHECK_EQ(size, whole.size);
        CHECK_MEM_EQ(merged.block, whole.block, whole.size);
        sk_free(merged.block);
        qsort(v, (size_t)n, sizeof *v, compare_doubles);
        const double *got = results.array.children[0]->children[0]->buffers[1];
        for (int i = 0; i < 3; i++) {
            double want = v[(int64_t)(qs[i] * (double)n)];
            if (n <= 8192) CHECK(got[i] == want);
            else
                CHECK(__builtin_fabs(got[i] - want) <= want * (wide ? 0x1p-13 : 0x1p-32) ||
                      (wide && __builtin_fabs(got[i] - want) <= -want * 0x1p-13));
        }
        states_free(&whole);
        states_free(&results);
        for (int p = 0; p < 2; p++) states_free(&parts[p]);
    }
    sk_free(v);
}

/* ---- groups by codes ---- */

static void check_same(const struct states *a, const struct states *b, uint32_t n_keys) {
    struct sk_key key[2] = {{.column = 0}, {.column = 1}};
    struct sk_keys *x, *y;
    struct sk_err err = {.code = 0};
    CHECK_EQ(a->array.length, b->array.length);
    CHECK_OK_ERR(sk_keys_create(&a->schema, &a->array, key, n_keys, &x, &err), &err);
    CHECK_OK_ERR(sk_keys_create(&b->schema, &b->array, key, n_keys, &y, &err), &err);
    for (uint64_t i = 0; i < (uint64_t)a->array.length; i++)
        CHECK_EQ(sk_keys_compare(x, i, y, i), 0);
    sk_keys_destroy(x);
    sk_keys_destroy(y);
    const struct ArrowArray *n = a->array.children[n_keys], *m = b->array.children[n_keys];
    CHECK_MEM_EQ((const uint8_t *)n->buffers[1] + 8 * n->offset,
                 (const uint8_t *)m->buffers[1] + 8 * m->offset, 8 * (size_t)a->array.length);
}

TEST(groups_by_codes_are_those_by_values) {
    const struct sk_agg count = {SK_AGG_COUNT, SK_AGG_ROWS, false, 0,     0,    "n", 0,
                                 NULL,         false,       NULL,  false, false};
    const uint32_t at[2] = {0, 1};
    for (int round = 0; round < test_rounds(4); round++)
        for (size_t f = 0; f < n_key_formats; f++) {
            struct column coded[2], plain[2];
            struct batch b, p;
            struct states x, y;
            uint32_t n = 1 + (uint32_t)test_below(2);
            int64_t rows = 600 + (int64_t)test_below(200);
            for (uint32_t i = 0; i < n; i++) {
                const char *format = i ? key_formats[test_below(n_key_formats)] : key_formats[f];
                struct column_how how = {.seed = test_rand(),
                                         .distinct = 1 + test_below(9),
                                         .nulls = (unsigned)test_below(2) * 10,
                                         .dictionary = true};
                column_make(&coded[i], format, rows, how);
                column_copy(&plain[i], format, &coded[i], rows, false);
            }
            int64_t from = (int64_t)test_below(30);
            batch_make(&b, coded, (int)n, rows - from, from);
            batch_make(&p, plain, (int)n, rows - from, from);
            take(&b.schema, b.array, at, n, &count, 1, (int64_t)test_below(2) * 350, false, &x);
            take(&p.schema, p.array, at, n, &count, 1, 0, false, &y);
            check_same(&x, &y, n);
            states_free(&x);
            states_free(&y);
            for (uint32_t i = 0; i < n; i++) {
                column_free(&coded[i]);
                column_free(&plain[i]);
            }
        }
}

TEST(a_code_beyond_its_dictionary_is_refused) {
    int32_t codes[8] = {0, 1, 0, 1, 7, 0, 1, 0}, values[2] = {5, 6};
    const void *code_buffers[2] = {NULL, codes}, *value_buffers[2] = {NULL, values},
               *none[1] = {NULL};
    struct ArrowSchema dictionary = {.format = "i", .name = ""},
                       key = {.format = "i", .name = "k", .dictionary = &dictionary},
                       *fields[1] = {&key},
                       schema = {.format = "+s", .name = "", .n_children = 1, .children = fields};
    struct ArrowArray
        of = {.length = 2, .n_buffers = 2, .buffers = value_buffers},
        keys = {.length = 8, .n_buffers = 2, .buffers = code_buffers, .dictionary = &of},
        *columns[1] = {&keys},
        batch = {
            .length = 8, .n_buffers = 1, .buffers = none, .n_children = 1, .children = columns};
    struct sk_agg count = {SK_AGG_COUNT, SK_AGG_ROWS, false, 0,     0,    "n", 0,
                           NULL,         false,       NULL,  false, false};
    struct sk_groupby *g;
    struct sk_err err;
    CHECK_OK(sk_groupby_create(&schema, &(uint32_t){0}, 1, &count, 1, &g, &err));
    CHECK_RC(sk_groupby_update(g, &schema, &batch, &err), SK_EINVAL);
    CHECK_STR_HAS(err.msg, "beyond its dictionary");
    sk_groupby_destroy(g);
}
