/* test_kernel_groupby.c - aggregates of groups against loops over cells that know nothing of Arrow,
 * hashes or partial results: with one aggregation, and with rows that are cut, given to several
 * aggregations and merged at random, which must give the same bytes. */
#include "kernel_make.h"
#include "test.h"

enum { KINDS = SK_AGG_ZERO_PCT + 1, MOST = 300 };

struct input {
    struct column c[3]; /* keys, then the value */
    struct batch b;
    int n_keys;
    int64_t rows;
    bool nan_is_null;
    /* group of each row; a row of each group, in the order of keys */
    uint32_t group[MOST], first[MOST], n_groups;
};

struct result {
    uint8_t *block;
    size_t size;
    struct ArrowSchema schema;
    struct ArrowArray array;
};

static void result_free(struct result *r) {
    r->schema.release(&r->schema);
    r->array.release(&r->array);
    sk_free(r->block);
}

static int compare_rows(const struct input *in, uint32_t i, uint32_t j) {
    for (int k = 0; k < in->n_keys; k++) {
        int r = cell_compare(in->c[k].format, &in->c[k].cells[i], &in->c[k].cells[j], false, false);
        if (r) return r;
    }
    return 0;
}

/* Finds the groups by comparing all rows. */
static void find_groups(struct input *in) {
    in->n_groups = 0;
    for (uint32_t i = 0; i < in->rows; i++) {
        uint32_t g = 0;
        while (g < in->n_groups && compare_rows(in, in->first[g], i) < 0) g++;
        if (g < in->n_groups && !compare_rows(in, in->first[g], i)) continue;
        for (uint32_t j = in->n_groups++; j > g; j--) in->first[j] = in->first[j - 1];
        in->first[g] = i;
    }
    for (uint32_t i = 0; i < in->rows; i++)
        for (uint32_t g = 0; g < in->n_groups; g++)
            if (!compare_rows(in, in->first[g], i)) in->group[i] = g;
    if (!in->n_keys) in->n_groups = in->rows > 0;
}

static void input_make(struct input *in, const char *value) {
    in->nan_is_null = test_below(2);
    in->n_keys = (int)test_below(3);
    in->rows = test_below(5) ? 1 + (int64_t)test_below(MOST - 1) : 0;
    for (int i = 0; i <= in->n_keys; i++) {
        struct column_how how = {.seed = test_rand(),
                                 .distinct = i < in->n_keys ? 1 + test_below(12) : 0,
                                 .nulls = (unsigned)test_below(3) * 10};
        how.dictionary = test_below(3) == 0;
        column_make(&in->c[i], i < in->n_keys ? key_formats[test_below(n_key_formats)] : value,
                    in->rows, how);
    }
    batch_make(&in->b, in->c, in->n_keys + 1, in->rows, 0);
    find_groups(in);
}

static void input_free(struct input *in) {
    for (int i = 0; i <= in->n_keys; i++) column_free(&in->c[i]);
}

static void take_result(struct sk_groupby *g, bool partial, struct result *out) {
    struct sk_err err = {.code = 0};
    struct sk_block_plan *plan;
    uint64_t size;
    CHECK_OK_ERR(sk_groupby_measure(g, partial, &plan, &size, &err), &err);
    out->size = (size_t)size;
    out->block = sk_alloc_aligned(SK_TAG_TEST, SK_BLOCK_ALIGN, out->size);
    sk_block_write(plan, out->block);
    sk_block_plan_free(plan);
    CHECK_OK_ERR(sk_block_validate(out->block, out->size, &err), &err);
    CHECK_OK(sk_block_export(out->block, out->size, 0, UINT64_MAX,
                             (struct sk_block_owner){NULL, NULL}, &out->schema, &out->array, &err));
}

/* ---- the twin ---- */

/* Returns the class of a value: number, NaN or null. */
static int class_of(const struct input *in, const struct cell *v) {
    return v->class == CELL_NAN && in->nan_is_null ? CELL_NULL : v->class;
}

static bool is_float(const char *f) { return !f[1] && strchr("efg", f[0]); }
static bool is_wide(const char *f) { return f[0] == 'd' && strstr(f, ",256"); }
static bool is_number(const char *f) {
    return f[1] ? f[0] == 'd' && !is_wide(f) : strchr("cCsSiIlLefg", f[0]) != NULL;
}
static int scale_of(const char *f) { return f[0] == 'd' ? 2 : 0; }

static bool fits(enum sk_agg_kind k, const char *f) {
    if (!strcmp(f, "d:38,2") && k != SK_AGG_ZERO_PCT)
        /* cells of 128 bits: see groupby_sums_decimals */
        return k < SK_AGG_MEAN && k != SK_AGG_SUM;
    if (k == SK_AGG_COUNT || k == SK_AGG_MIN || k == SK_AGG_MAX || k == SK_AGG_MISSING_PCT)
        return true;
    return is_number(f) || (f[0] == 'b' && (k == SK_AGG_SUM || k == SK_AGG_MEAN)) ||
           !strcmp(f, "n") || (is_wide(f) && k == SK_AGG_ABS_MAX) ||
           (k == SK_AGG_SUM && !strncmp(f, "tD", 2));
}

#ifdef __x86_64__ /* elsewhere a long double has 113 bits */
typedef __float128 quad;
#else
typedef long double quad;
#endif

struct twin {
    int64_t n, rows, nulls, nans, zeros, infs, minus_infs;
    __int128 whole;
    quad sum, squares;
    int64_t least, most; /* rows */
    __int128 big;        /* the largest magnitude */
    double big_d;
};

static double as_double(const char *f, const struct cell *v) {
    return is_float(f) ? v->d : (double)v->i / (scale_of(f) ? 100 : 1);
}

static struct twin twin_of(const struct input *in, uint32_t group) {
    struct twin t = {.least = -1, .most = -1};
    const struct column *c = &in->c[in->n_keys];
    const char *f = c->format;
    for (int64_t i = 0; i < in->rows; i++) {
        const struct cell *v = &c->cells[i];
        if (in->n_keys && in->group[i] != group) continue;
        t.rows++;
        t.nulls += class_of(in, v) == CELL_NULL;
        t.nans += class_of(in, v) == CELL_NAN;
        if (v->class != CELL_VALUE) continue;
        t.n++;
        if (t.least < 0 || cell_compare(f, v, &c->cells[t.least], false, false) < 0) t.least = i;
        if (t.most < 0 || cell_compare(f, v, &c->cells[t.most], false, false) > 0) t.most = i;
        if (!is_number(f) && f[0] != 'b' && f[0] != 't') continue;
        if (strcmp(f, "d:38,2") != 0) {
            t.whole += v->i;
            t.big = SK_MAX(t.big, v->i < 0 ? -v->i : v->i);
        }
        t.zeros += is_float(f) ? v->d == 0 : !v->i;
        if (is_float(f)) t.big_d = SK_MAX(t.big_d, __builtin_fabs(v->d));
        if (is_float(f) && __builtin_isinf(v->d)) {
            t.infs += v->d > 0;
            t.minus_infs += v->d < 0;
        } else t.sum += as_double(f, v);
    }
    for (int64_t i = 0; t.n && i < in->rows; i++) {
        const struct cell *v = &c->cells[i];
        if ((in->n_keys && in->group[i] != group) || v->class != CELL_VALUE ||
            (is_float(f) && __builtin_isinf(v->d)))
            continue;
        quad d = as_double(f, v) - t.sum / t.n;
        t.squares += d * d;
    }
    return t;
}

static bool sum_overflows(const char *f, const struct twin *t) {
    if (is_float(f) || !t->n || (!is_number(f) && strncmp(f, "tD", 2) != 0)) return false;
    if (f[0] == 'd') return false;
    return !strcmp(f, "L") ? t->whole != (__int128)(uint64_t)t->whole
                           : t->whole != (__int128)(int64_t)t->whole;
}

static bool abs_overflows(const char *f, const struct twin *t) {
    bool narrow = strstr(f, ",32") != NULL;
    if (f[0] != 'd' && (f[1] || !strchr("csil", f[0]))) return false;
    if (f[0] == 'd' && !narrow && !strstr(f, ",64")) return false;
    int width = f[0] == 'c' ? 1 : f[0] == 's' ? 2 : f[0] == 'i' || narrow ? 4 : 8;
    return t->big >= (__int128)1 << (8 * width - 1);
}

static double odd_or(const struct twin *t, double d) {
    if (t->nans || (t->infs && t->minus_infs)) return __builtin_nan("");
    return t->infs ? __builtin_inf() : t->minus_infs ? -__builtin_inf() : d;
}

static bool same_double(double a, double b) { return a == b || (a != a && b != b); }

static bool near(double a, double b) {
    return same_double(a, b) ||
           __builtin_fabs(a - b) <= 1e-12 * SK_MAX(__builtin_fabs(a), __builtin_fabs(b)) + 1e-150;
}

static double read_double(const struct ArrowArray *a, int64_t i) {
    double d;
    memcpy(&d, (const uint8_t *)a->buffers[1] + 8 * (a->offset + i), 8);
    return d;
}

static bool is_valid(const struct ArrowArray *a, int64_t i) {
    if (!a->n_buffers) return false;
    const uint8_t *bits = a->buffers[0];
    return !bits || (bits[(a->offset + i) / 8] >> ((a->offset + i) & 7) & 1);
}

static void check_extreme(const struct input *in, const struct twin *t, const struct result *r,
                          uint32_t column, int64_t i, bool least) {
    struct sk_keys *got, *want;
    struct sk_err err = {.code = 0};
    CHECK_OK_ERR(
        sk_keys_create(&r->schema, &r->array, &(struct sk_key){.column = column}, 1, &got, &err),
        &err);
    CHECK_OK_ERR(sk_keys_create(&in->b.schema, &in->b.array,
                                &(struct sk_key){.column = (uint32_t)in->n_keys}, 1, &want, &err),
                 &err);
    CHECK_OK_ERR(sk_keys_match(got, want, &err), &err);
    if (t->n)
        CHECK_EQ(sk_keys_compare(got, (uint64_t)i, want, (uint64_t)(least ? t->least : t->most)),
                 0);
    sk_keys_destroy(got);
    sk_keys_destroy(want);
}

static void check_abs(const char *f, const struct twin *t, const struct ArrowArray *a, int64_t i) {
    const uint8_t *p = a->buffers[1];
    if (is_float(f)) {
        double d = t->n ? t->big_d : __builtin_nan("");
        float s;
        _Float16 h;
        memcpy(&h, p + 2 * (a->offset + i), 2);
        memcpy(&s, p + (f[0] == 'f' ? 4 * (a->offset + i) : 0), 4);
        CHECK(same_double(f[0] == 'g'   ? read_double(a, i)
                          : f[0] == 'f' ? (double)s
                                        : (double)h,
                          d));
        return;
    }
    if (is_wide(f)) return;
    size_t width = f[0] == 'd'          ? (strstr(f, ",32")   ? 4
                                           : strstr(f, ",64") ? 8
                                                              : 16)
                   : strchr("cC", f[0]) ? 1
                   : strchr("sS", f[0]) ? 2
                   : strchr("iI", f[0]) ? 4
                                        : 8;
    CHECK_MEM_EQ(p + (size_t)(a->offset + i) * width, &t->big, width);
}

static void check_value(const struct input *in, const struct sk_agg *agg, const struct twin *t,
                        const struct result *r, uint32_t column, int64_t i) {
    const struct ArrowArray *a = r->array.children[column];
    const char *f = in->c[in->n_keys].format;
    enum sk_agg_kind k = agg->kind;
    bool rows = agg->column == SK_AGG_ROWS;
    if (k == SK_AGG_COUNT) {
        int64_t n = rows || !agg->ignore_nulls ? t->rows : t->rows - t->nulls, got;
        memcpy(&got, (const uint8_t *)a->buffers[1] + 8 * (a->offset + i), 8);
        CHECK_EQ(got, n);
        return;
    }
    int64_t of = k == SK_AGG_MISSING_PCT || (k == SK_AGG_ZERO_PCT && !agg->ignore_nulls)
                     ? t->rows
                     : t->rows - t->nulls;
    bool null = !of || (k < SK_AGG_MISSING_PCT && !agg->ignore_nulls && t->nulls);
    CHECK_EQ(is_valid(a, i), !null);
    if (null) return;
    double n = (double)of;
    switch (k) {
    case SK_AGG_SUM:
        if (is_float(f)) CHECK(same_double(read_double(a, i), odd_or(t, (double)t->sum)));
        else
            CHECK_MEM_EQ((const uint8_t *)a->buffers[1] + (f[0] == 'd' ? 16 : 8) * (a->offset + i),
                         &t->whole, f[0] == 'd' ? 16 : 8);
        return;
    case SK_AGG_MEAN:
        CHECK(near(read_double(a, i), is_float(f)
                                          ? odd_or(t, (double)t->sum) / n
                                          : (double)t->whole / (scale_of(f) ? 100 : 1) / n));
        return;
    case SK_AGG_VAR:
    case SK_AGG_STD: {
        double want = of <= agg->ddof || t->nans || t->infs || t->minus_infs
                          ? __builtin_nan("")
                          : (double)(t->squares / (of - agg->ddof));
        if (k == SK_AGG_STD) want = __builtin_sqrt(want);
        CHECK_MSG(near(read_double(a, i), want), "std or var of %s is %.17g, not %.17g", f,
                  read_double(a, i), want);
        return;
    }
    case SK_AGG_MISSING_PCT:
        CHECK(same_double(read_double(a, i), (double)(t->nulls + t->nans) / n * 100));
        return;
    case SK_AGG_ZERO_PCT: CHECK(same_double(read_double(a, i), (double)t->zeros / n * 100)); return;
    case SK_AGG_ABS_MAX: check_abs(f, t, a, i); return;
    default: check_extreme(in, t, r, column, i, k == SK_AGG_MIN); return;
    }
}

/* ---- the kernel ---- */

static uint32_t make_aggs(const char *f, uint32_t column, bool nan_is_null, struct sk_agg *aggs) {
    uint32_t n = 0;
    for (int k = 0; k < KINDS; k++)
        if (fits((enum sk_agg_kind)k, f))
            aggs[n++] = (struct sk_agg){(enum sk_agg_kind)k,
                                        column,
                                        test_below(3) > 0,
                                        (int32_t)test_below(2),
                                        0,
                                        "a",
                                        0,
                                        NULL,
                                        nan_is_null,
                                        NULL,
                                        false,
                                        false};
    aggs[n++] = (struct sk_agg){SK_AGG_COUNT, SK_AGG_ROWS, false, 0,     0,    "rows", 0,
                                NULL,         false,       NULL,  false, false};
    return n;
}

static const uint32_t key_columns[2] = {0, 1};

static struct sk_groupby *groupby(const struct input *in, const struct sk_agg *aggs, uint32_t n) {
    struct sk_groupby *g;
    struct sk_err err = {.code = 0};
    CHECK_OK_ERR(
        sk_groupby_create(&in->b.schema, key_columns, (uint32_t)in->n_keys, aggs, n, &g, &err),
        &err);
    return g;
}

/* Checks partial results: rows are cut at random, given to several aggregations, and merged in a
 * random order. */
static void shared_out(const struct input *in, const struct sk_agg *aggs, uint32_t n,
                       struct sk_groupby *whole, bool in_order) {
    enum { PARTS = 12 };
    struct result part[PARTS];
    struct sk_err err = {.code = 0};
    int64_t at = 0;
    for (int p = 0; p < PARTS; p++) {
        struct sk_groupby *g = groupby(in, aggs, n);
        int64_t end =
            p + 1 == PARTS ? in->rows : at + (int64_t)test_below((uint64_t)(in->rows - at) + 1);
        while (at < end) {
            struct ArrowArray piece = in->b.array;
            piece.offset += at;
            piece.length = 1 + (int64_t)test_below((uint64_t)(end - at));
            at += piece.length;
            CHECK_OK_ERR(sk_groupby_update(g, &in->b.schema, &piece, &err), &err);
        }
        take_result(g, true, &part[p]);
        sk_groupby_destroy(g);
    }
    int from = in_order ? 0 : (int)test_below(PARTS), step = in_order ? 1 : 5;
    for (int p = 0; p < PARTS; p++)
        CHECK_OK_ERR(sk_groupby_merge(whole, &part[(from + step * p) % PARTS].schema,
                                      &part[(from + step * p) % PARTS].array, &err),
                     &err);
    for (int p = 0; p < PARTS; p++) result_free(&part[p]);
}

static void check_result(const struct input *in, const struct sk_agg *aggs, uint32_t n,
                         const struct result *r) {
    CHECK_EQ(r->array.length, in->n_groups);
    struct sk_key keys[2] = {{.column = 0}, {.column = 1}};
    struct sk_keys *got, *from;
    struct sk_err err;
    if (in->n_keys) {
        CHECK_OK(sk_keys_create(&r->schema, &r->array, keys, (uint32_t)in->n_keys, &got, &err));
        CHECK_OK(
            sk_keys_create(&in->b.schema, &in->b.array, keys, (uint32_t)in->n_keys, &from, &err));
        for (uint32_t g = 0; g < in->n_groups; g++)
            CHECK_EQ(sk_keys_compare(got, g, from, in->first[g]), 0);
        sk_keys_destroy(got);
        sk_keys_destroy(from);
    }
    for (uint32_t g = 0; g < in->n_groups; g++) {
        struct twin t = twin_of(in, g);
        for (uint32_t i = 0; i < n; i++)
            check_value(in, &aggs[i], &t, r, (uint32_t)in->n_keys + i, g);
    }
}

static void check_aggregates(const char *f) {
    struct input in;
    struct sk_agg aggs[KINDS + 1];
    struct sk_err err = {.code = 0};
    struct sk_block_plan *plan;
    uint64_t size;
    bool over = false;
    input_make(&in, f);
    uint32_t n = make_aggs(f, (uint32_t)in.n_keys, in.nan_is_null, aggs);
    for (uint32_t g = 0; g < in.n_groups; g++) {
        struct twin t = twin_of(&in, g);
        for (uint32_t i = 0; i < n; i++) {
            bool null = !aggs[i].ignore_nulls && t.nulls;
            over |= !null && ((aggs[i].kind == SK_AGG_SUM && sum_overflows(f, &t)) ||
                              (aggs[i].kind == SK_AGG_ABS_MAX && abs_overflows(f, &t)));
        }
    }
    struct sk_groupby *one = groupby(&in, aggs, n), *many = groupby(&in, aggs, n);
    CHECK_OK_ERR(sk_groupby_update(one, &in.b.schema, &in.b.array, &err), &err);
    shared_out(&in, aggs, n, many, false);
    if (over) {
        CHECK_RC(sk_groupby_measure(one, false, &plan, &size, &err), SK_ERANGE);
        CHECK_STR_HAS(err.msg, "holds");
    } else {
        struct result a, b;
        take_result(one, false, &a);
        take_result(many, false, &b);
        check_result(&in, aggs, n, &a);
        bool coded = false; /* a dictionary is what its batches had */
        for (int k = 0; k < in.n_keys; k++) coded |= in.c[k].schema.dictionary != NULL;
        if (coded) check_result(&in, aggs, n, &b);
        else {
            CHECK_EQ(a.size, b.size);
            CHECK_MEM_EQ(a.block, b.block, a.size);
        }
        result_free(&a);
        result_free(&b);
    }
    sk_groupby_destroy(one);
    sk_groupby_destroy(many);
    input_free(&in);
}

TEST(groupby_of_each_type) {
    for (int round = 0; round < test_rounds(12); round++)
        for (size_t f = 0; f < n_key_formats; f++) check_aggregates(key_formats[f]);
}

/* ---- what keeps values ---- */

/* Finds a row of a group for each distinct value, in the order of values or of their first rows,
 * and how often the value occurs. */
static uint32_t distinct_rows(const struct input *in, uint32_t group, bool ignore_nulls,
                              bool sorted, uint32_t *rows, int64_t *counts) {
    const struct column *c = &in->c[in->n_keys];
    uint32_t n = 0;
    for (uint32_t i = 0; i < in->rows; i++) {
        if ((in->n_keys && in->group[i] != group) ||
            (ignore_nulls && class_of(in, &c->cells[i]) == CELL_NULL))
            continue;
        uint32_t at = 0;
        while (at < n && (sorted ? cell_compare(c->format, &c->cells[rows[at]], &c->cells[i], false,
                                                false) < 0
                                 : cell_compare(c->format, &c->cells[rows[at]], &c->cells[i], false,
                                                false) != 0))
            at++;
        if (at < n && !cell_compare(c->format, &c->cells[rows[at]], &c->cells[i], false, false)) {
            counts[at]++;
            continue;
        }
        for (uint32_t j = n++; j > at; j--) {
            rows[j] = rows[j - 1];
            counts[j] = counts[j - 1];
        }
        rows[at] = i;
        counts[at] = 1;
    }
    return n;
}

/* Checks that row i of a list column has the values of these rows of the input. */
static void check_list(const struct input *in, const struct ArrowSchema *s,
                       const struct ArrowArray *a, int64_t i, const uint32_t *rows, uint32_t n) {
    struct ArrowSchema *fields[1] = {s->children[0]},
                       schema = {.format = "+s", .name = "", .n_children = 1, .children = fields};
    struct ArrowArray *columns[1] = {a->children[0]}, items = {.length = a->children[0]->length,
                                                               .n_buffers = 1,
                                                               .buffers = (const void *[1]){NULL},
                                                               .n_children = 1,
                                                               .children = columns};
    const int32_t *offsets = (const int32_t *)a->buffers[1] + a->offset + i;
    struct sk_keys *got, *want;
    struct sk_err err = {.code = 0};
    CHECK_EQ(offsets[1] - offsets[0], n);
    CHECK_OK_ERR(sk_keys_create(&schema, &items, &(struct sk_key){.column = 0}, 1, &got, &err),
                 &err);
    CHECK_OK_ERR(sk_keys_create(&in->b.schema, &in->b.array,
                                &(struct sk_key){.column = (uint32_t)in->n_keys}, 1, &want, &err),
                 &err);
    for (uint32_t k = 0; k < n; k++)
        CHECK_EQ(sk_keys_compare(got, (uint64_t)(offsets[0] + (int32_t)k), want, rows[k]), 0);
    sk_keys_destroy(got);
    sk_keys_destroy(want);
}

static void check_quantile(const struct input *in, const struct sk_agg *agg, uint32_t group,
                           const struct ArrowArray *a) {
    const struct column *c = &in->c[in->n_keys];
    double v[MOST];
    uint32_t rows[MOST];
    int64_t counts[MOST], n = 0;
    bool null = false;
    uint32_t distinct = distinct_rows(in, group, false, true, rows, counts);
    for (uint32_t k = 0; k < distinct; k++) {
        const struct cell *x = &c->cells[rows[k]];
        null |= class_of(in, x) == CELL_NULL && !agg->ignore_nulls;
        for (int64_t j = 0; x->class == CELL_VALUE && j < counts[k]; j++)
            v[n++] = as_double(c->format, x);
    }
    CHECK_EQ(is_valid(a, group), n > 0 && !null);
    if (!n || null) return;
    double at = agg->q * (double)(n - 1), part = at - __builtin_floor(at);
    int64_t low = (int64_t)at;
    CHECK(same_double(read_double(a, group),
                      part > 0 ? part * v[low + 1] + (1 - part) * v[low] : v[low]));
}

/* Checks that each quantile is within 2^-12 (relative) of the value of its rank. */
static void check_quantiles(const struct input *in, const struct sk_agg *agg, uint32_t group,
                            const struct ArrowArray *a) {
    const struct column *c = &in->c[in->n_keys];
    double v[MOST];
    uint32_t rows[MOST];
    int64_t counts[MOST], n = 0;
    const int32_t *offsets = (const int32_t *)a->buffers[1] + a->offset + group;
    uint32_t distinct = distinct_rows(in, group, true, true, rows, counts);
    for (uint32_t k = 0; k < distinct; k++)
        for (int64_t j = 0; c->cells[rows[k]].class == CELL_VALUE && j < counts[k]; j++)
            v[n++] = as_double(c->format, &c->cells[rows[k]]);
    CHECK_EQ(offsets[1] - offsets[0], n ? agg->k : 0);
    CHECK_EQ(is_valid(a, group), n > 0);
    for (int32_t i = 0; n && i < (int32_t)agg->k; i++) {
        double want = v[SK_MIN((int64_t)(agg->qs[i] * (double)n), n - 1)],
               got = read_double(a->children[0], offsets[0] + i);
        CHECK(got == want || __builtin_fabs(got - want) <= __builtin_fabs(want) * 0x1p-13);
    }
}

static void check_top(const struct input *in, const struct sk_agg *agg, uint32_t group,
                      const struct ArrowSchema *s, const struct ArrowArray *a) {
    uint32_t rows[MOST], top[MOST], n = 0, distinct;
    int64_t counts[MOST];
    const int32_t *offsets = (const int32_t *)a->buffers[1] + a->offset + group;
    const int64_t *number = a->children[0]->children[1]->buffers[1];
    distinct = distinct_rows(in, group, agg->ignore_nulls, false, rows, counts);
    for (int64_t most = MOST; most > 0; most--)
        for (uint32_t k = 0; k < distinct && n < agg->k; k++) {
            if (counts[k] != most) continue;
            CHECK_EQ(number[offsets[0] + (int32_t)n], most);
            top[n++] = rows[k];
        }
    struct ArrowSchema *fields[1] = {s->children[0]->children[0]},
                       list = {.format = "+l", .name = "", .n_children = 1, .children = fields};
    struct ArrowArray *columns[1] = {a->children[0]->children[0]}, values = *a;
    values.children = columns;
    check_list(in, &list, &values, group, top, n);
}

/* Checks the results of FIRST, as lists of one value for each group. */
static void check_first(const struct input *in, uint32_t group, const struct ArrowSchema *s,
                        const struct ArrowArray *a, const uint32_t *rows, uint32_t n) {
    bool null = !n || class_of(in, &in->c[in->n_keys].cells[rows[0]]) == CELL_NULL;
    int32_t offsets[MOST + 1];
    for (int32_t i = 0; i <= MOST; i++) offsets[i] = i;
    if (s->format[0] == 'n') return;
    if (!s->dictionary && (!n || in->c[in->n_keys].cells[rows[0]].class != CELL_NAN))
        CHECK_EQ(is_valid(a, group), !null);
    if (null) return;
    const void *buffers[2] = {NULL, offsets};
    struct ArrowSchema field = *s, *fields[1] = {&field},
                       list = {.format = "+l", .name = "", .n_children = 1, .children = fields};
    struct ArrowArray child = *a, *columns[1] = {&child},
                      values = {.length = MOST,
                                .n_buffers = 2,
                                .buffers = buffers,
                                .n_children = 1,
                                .children = columns};
    check_list(in, &list, &values, group, rows, 1);
}

static void check_collected(const struct input *in, const struct sk_agg *agg, uint32_t group,
                            const struct ArrowSchema *s, const struct ArrowArray *a) {
    uint32_t rows[MOST], n = 0;
    int64_t counts[MOST], got;
    if (agg->kind == SK_AGG_APPROX_QUANTILES) {
        check_quantiles(in, agg, group, a);
        return;
    }
    if (agg->kind == SK_AGG_TOP_K) {
        check_top(in, agg, group, s, a);
        return;
    }
    if (agg->kind == SK_AGG_QUANTILE) {
        check_quantile(in, agg, group, a);
        return;
    }
    if (agg->kind == SK_AGG_LIST || agg->kind == SK_AGG_FIRST) {
        for (uint32_t i = 0; i < in->rows; i++)
            if ((!in->n_keys || in->group[i] == group) &&
                !(agg->ignore_nulls && class_of(in, &in->c[in->n_keys].cells[i]) == CELL_NULL))
                rows[n++] = i;
    } else n = distinct_rows(in, group, agg->ignore_nulls, false, rows, counts);
    if (agg->kind == SK_AGG_FIRST) {
        check_first(in, group, s, a, rows, n);
    } else if (agg->kind == SK_AGG_COUNT_DISTINCT) {
        memcpy(&got, (const uint8_t *)a->buffers[1] + 8 * (a->offset + group), 8);
        CHECK_EQ(got, n);
    } else if (agg->kind == SK_AGG_VALUE_COUNTER) {
        const struct ArrowArray *of = a->children[1];
        const int32_t *offsets = of->buffers[1];
        const int64_t *number = of->children[0]->buffers[1];
        check_list(in, s->children[0], a->children[0], group, rows, n);
        for (uint32_t k = 0; k < n; k++)
            CHECK_EQ(number[of->children[0]->offset + offsets[of->offset + group] + (int32_t)k],
                     counts[k]);
    } else check_list(in, s, a, group, rows, n);
}

static void check_collecting(const char *f) {
    struct input in;
    struct sk_agg aggs[SK_AGG_KINDS];
    static const double qs[3] = {0.75, 0, 1};
    struct sk_err err = {.code = 0};
    struct result r[2];
    input_make(&in, f);
    uint32_t n = 0, column = (uint32_t)in.n_keys;
    aggs[n++] = (struct sk_agg){SK_AGG_COUNT, column, test_below(2), 0,     0,    "count", 0,
                                NULL,         false,  NULL,          false, false};
    for (int k = SK_AGG_LIST; k <= SK_AGG_TOP_K; k++) {
        bool quantiles = k == SK_AGG_QUANTILE || k == SK_AGG_APPROX_QUANTILES;
        if (quantiles && (!is_number(f) || f[0] == 'd')) continue;
        aggs[n++] = (struct sk_agg){
            (enum sk_agg_kind)k, column, test_below(2), 0,    (double)test_below(5) / 4, "a", 3, qs,
            in.nan_is_null,      NULL,   false,         false};
    }
    for (int k = 0; k < 2; k++) {
        struct sk_groupby *g = groupby(&in, aggs, n);
        if (k) shared_out(&in, aggs, n, g, true);
        else CHECK_OK_ERR(sk_groupby_update(g, &in.b.schema, &in.b.array, &err), &err);
        take_result(g, false, &r[k]);
        CHECK_EQ(r[k].array.length, in.n_groups);
        for (uint32_t i = 1; i < n; i++)
            for (uint32_t group = 0; group < in.n_groups; group++)
                check_collected(&in, &aggs[i], group, r[k].schema.children[column + i],
                                r[k].array.children[column + i]);
        sk_groupby_destroy(g);
    }
    bool coded = false;
    for (int k = 0; k <= in.n_keys; k++) coded |= in.c[k].schema.dictionary != NULL;
    if (!coded) {
        CHECK_EQ(r[0].size, r[1].size);
        CHECK_MEM_EQ(r[0].block, r[1].block, r[0].size);
    }
    result_free(&r[0]);
    result_free(&r[1]);
    input_free(&in);
}

TEST(groupby_collects_each_type) {
    for (int round = 0; round < test_rounds(4); round++)
        for (size_t f = 0; f < n_key_formats; f++) check_collecting(key_formats[f]);
}

/* Doubles of all magnitudes, in any order and cut, have the same sum; if a sum in more bits is
 * exact, it is that sum. */
TEST(groupby_sums_floats_in_any_order) {
    enum { N = 2000 };
    static double v[N];
    for (int round = 0; round < test_rounds(60); round++) {
        struct ArrowSchema field = {.format = "g", .name = "v"}, *fields[1] = {&field},
                           schema = {
                               .format = "+s", .name = "", .n_children = 1, .children = fields};
        const void *buffers[2] = {NULL, v}, *none[1] = {NULL};
        struct ArrowArray column = {.length = N, .n_buffers = 2, .buffers = buffers},
                          *columns[1] = {&column};
        struct ArrowArray batch = {
            .length = N, .n_buffers = 1, .buffers = none, .n_children = 1, .children = columns};
        struct sk_agg aggs[3] = {
            {SK_AGG_SUM, 0, true, 0, 0, "s", 0, NULL, false, NULL, false, false},
            {SK_AGG_MEAN, 0, true, 0, 0, "m", 0, NULL, false, NULL, false, false},
            {SK_AGG_STD, 0, true, 1, 0, "d", 0, NULL, false, NULL, false, false}};
        struct result r[2];
        struct sk_err err;
        int range = (int)test_below(3) * 20;
        double mean = test_below(2) ? 0 : 1e9;
        quad exact = 0, squares = 0;
        for (int i = 0; i < N; i++) {
            v[i] = __builtin_ldexp((double)(int64_t)test_rand() / 0x1p63,
                                   (int)test_below((uint64_t)(2 * range + 1)) - range) +
                   mean;
            /* and where squares leave the range */
            if (round % 3 == 2) v[i] = __builtin_ldexp(v[i], round % 2 ? 900 : -1040);
            exact += v[i];
        }
        for (int i = 0; i < N; i++) squares += (v[i] - exact / N) * (v[i] - exact / N);
        for (int k = 0; k < 2; k++) {
            struct sk_groupby *g;
            CHECK_OK(sk_groupby_create(&schema, NULL, 0, aggs, 3, &g, &err));
            for (int64_t at = 0; at < N; at += batch.length) {
                batch.offset = at;
                batch.length = k ? 1 + (int64_t)test_below((uint64_t)(N - at)) : N;
                CHECK_OK(sk_groupby_update(g, &schema, &batch, &err));
            }
            take_result(g, false, &r[k]);
            sk_groupby_destroy(g);
            for (int i = N - 1; i > 0; i--) {
                int j = (int)test_below((uint64_t)i + 1);
                double swap = v[i];
                v[i] = v[j];
                v[j] = swap;
            }
        }
        CHECK_EQ(r[0].size, r[1].size);
        CHECK_MEM_EQ(r[0].block, r[1].block, r[0].size);
        CHECK(read_double(r[0].array.children[0], 0) == (double)exact);
        CHECK(near(read_double(r[0].array.children[1], 0), (double)(exact / N)));
        if (round % 3 != 2)
            CHECK(near(read_double(r[0].array.children[2], 0),
                       __builtin_sqrt((double)(squares / (N - 1)))));
        result_free(&r[0]);
        result_free(&r[1]);
    }
}

/* The sum fits although intermediate sums do not, not even in 128 bits. */
TEST(groupby_sums_decimals) {
    enum { N = 8 };
    __int128 v[N], big = 9;
    struct ArrowSchema field = {.format = "d:38,2", .name = "v"}, *fields[1] = {&field},
                       schema = {.format = "+s", .name = "", .n_children = 1, .children = fields};
    const void *buffers[2] = {NULL, v}, *none[1] = {NULL};
    struct ArrowArray column = {.length = N, .n_buffers = 2, .buffers = buffers},
                      *columns[1] = {&column};
    struct ArrowArray batch = {
        .length = N, .n_buffers = 1, .buffers = none, .n_children = 1, .children = columns};
    struct sk_agg aggs[3] = {
        {SK_AGG_SUM, 0, true, 0, 0, "s", 0, NULL, false, NULL, false, false},
        {SK_AGG_MEAN, 0, true, 0, 0, "m", 0, NULL, false, NULL, false, false},
        {SK_AGG_ABS_MAX, 0, true, 0, 0, "a", 0, NULL, false, NULL, false, false}};
    struct sk_groupby *g;
    struct sk_block_plan *plan;
    struct sk_err err;
    struct result r;
    uint64_t size;
    for (int i = 0; i < 37; i++) big *= 10;
    for (int i = 0; i < N; i++) v[i] = i < N / 2 ? big : -big;
    v[N - 1] += 400;
    CHECK_OK(sk_groupby_create(&schema, NULL, 0, aggs, 3, &g, &err));
    CHECK_OK(sk_groupby_update(g, &schema, &batch, &err));
    take_result(g, false, &r);
    CHECK_STR_EQ(r.schema.children[0]->format, "d:38,2");
    CHECK_MEM_EQ(r.array.children[0]->buffers[1], &(__int128){400}, 16);
    CHECK(read_double(r.array.children[1], 0) == 0.5);
    CHECK_MEM_EQ(r.array.children[2]->buffers[1], &big, 16);
    result_free(&r);
    v[N - 1] = big;
    CHECK_OK(sk_groupby_update(g, &schema, &batch, &err));
    CHECK_RC(sk_groupby_measure(g, false, &plan, &size, &err), SK_ERANGE);
    sk_groupby_destroy(g);
}

/* Makes an aggregation of a column of type f with 3, -5, 7 (of 8 bits: 3, 5, 7) or the texts "b",
 * "ab", "c", with all aggregates that both types allow. */
static struct sk_groupby *of_three(const char *f, const char *other,
                                   const struct ArrowSchema **field, struct sk_groupby **empty) {
    static const int32_t offsets[4] = {0, 1, 3, 4}, i[3] = {3, -5, 7}, cents[3] = {300, -500, 700};
    static const int64_t large[4] = {0, 1, 3, 4}, l[3] = {3, -5, 7}, finer[3] = {3000, -5000, 7000};
    static const int8_t c[3] = {3, 5, 7};
    static const int16_t h[3] = {3, -5, 7};
    static const float single[3] = {3, -5, 7};
    static const double g[3] = {3, -5, 7};
    static const _Float16 half[3] = {3, -5, 7};
    static const __int128 d[3] = {300, -500, 700};
    static const struct {
        const char *format;
        const void *data, *text;
    } columns[] = {{"c", c, NULL},         {"C", c, NULL},
                   {"s", h, NULL},         {"i", i, NULL},
                   {"l", l, NULL},         {"e", half, NULL},
                   {"f", single, NULL},    {"g", g, NULL},
                   {"d:38,2", d, NULL},    {"d:9,2,32", cents, NULL},
                   {"tsm:", l, NULL},      {"tsu:", finer, NULL},
                   {"tDm", l, NULL},       {"tDu", finer, NULL},
                   {"u", offsets, "babc"}, {"U", large, "babc"},
                   {"n", NULL, NULL}};
    static const enum sk_agg_kind kinds[] = {SK_AGG_COUNT,   SK_AGG_SUM,     SK_AGG_MIN,
                                             SK_AGG_MAX,     SK_AGG_MEAN,    SK_AGG_STD,
                                             SK_AGG_ABS_MAX, SK_AGG_ZERO_PCT};
    static struct ArrowSchema field_of[SK_COUNT(columns)], *fields_of[SK_COUNT(columns)],
        schema_of[SK_COUNT(columns)];
    const void *none[1] = {NULL};
    struct sk_agg aggs[SK_COUNT(kinds)];
    struct sk_groupby *g_of;
    struct sk_err err = {.code = 0};
    uint32_t n = 0;
    size_t at = 0;
    while (strcmp(columns[at].format, f) != 0) at++;
    const void *buffers[3] = {NULL, columns[at].data, columns[at].text};
    struct ArrowArray column = {.length = 3,
                                .null_count = f[0] == 'n' ? 3 : 0,
                                .n_buffers = f[0] == 'n'        ? 0
                                             : columns[at].text ? 3
                                                                : 2,
                                .buffers = buffers};
    struct ArrowArray *children[1] = {&column}, batch = {.length = 3,
                                                         .n_buffers = 1,
                                                         .buffers = none,
                                                         .n_children = 1,
                                                         .children = children};
    field_of[at] = (struct ArrowSchema){.format = f, .name = "v"};
    fields_of[at] = &field_of[at];
    schema_of[at] = (struct ArrowSchema){
        .format = "+s", .name = "", .n_children = 1, .children = &fields_of[at]};
    *field = &schema_of[at];
    for (size_t a = 0; a < SK_COUNT(kinds); a++)
        if ((fits(kinds[a], other) || !strcmp(other, "d:38,2")) &&
            (fits(kinds[a], f) || !strcmp(f, "d:38,2")))
            aggs[n++] =
                (struct sk_agg){kinds[a], 0, true, 0, 0, "a", 0, NULL, false, NULL, false, false};
    CHECK_OK_ERR(sk_groupby_create(*field, NULL, 0, aggs, n, empty, &err), &err);
    CHECK_OK_ERR(sk_groupby_create(*field, NULL, 0, aggs, n, &g_of, &err), &err);
    CHECK_OK_ERR(sk_groupby_update(g_of, *field, &batch, &err), &err);
    return g_of;
}

/* States of one type of values, and of nulls of no type, are merged into those of a wider type as
 * if the values had been of that. */
TEST(groupby_widens_states) {
    static const char *const of[][2] = {{"c", "l"},      {"C", "i"},       {"i", "g"},
                                        {"s", "f"},      {"f", "g"},       {"e", "g"},
                                        {"l", "d:38,2"}, {"l", "g"},       {"d:9,2,32", "d:38,2"},
                                        {"u", "U"},      {"tsm:", "tsu:"}, {"tDm", "tDu"}};
    for (size_t i = 0; i < SK_COUNT(of); i++) {
        const struct ArrowSchema *schema;
        struct sk_groupby *empty[3], *g[3]; /* narrow, wide, nulls */
        struct result narrow, null, want, got;
        struct sk_err err = {.code = 0};
        g[0] = of_three(of[i][0], of[i][1], &schema, &empty[0]);
        g[2] = of_three("n", of[i][1], &schema, &empty[2]);
        g[1] = of_three(of[i][1], of[i][0], &schema, &empty[1]);
        take_result(g[0], true, &narrow);
        CHECK_OK_ERR(sk_groupby_merge(empty[1], &narrow.schema, &narrow.array, &err), &err);
        if (!strcmp(of[i][1], "g")) { /* only these types have all aggregates */
            take_result(g[2], true, &null);
            CHECK_OK_ERR(sk_groupby_merge(empty[1], &null.schema, &null.array, &err), &err);
            CHECK_OK_ERR(sk_groupby_merge(g[1], &null.schema, &null.array, &err), &err);
            result_free(&null);
        }
        take_result(g[1], false, &want);
        take_result(empty[1], false, &got);
        if (of[i][0][0] != 'c' && of[i][0][0] != 'C') {
            CHECK_EQ(want.size, got.size);
            CHECK_MEM_EQ(want.block, got.block, want.size);
        } else CHECK_EQ(((const int64_t *)got.array.children[1]->buffers[1])[0], 15);
        result_free(&narrow);
        result_free(&want);
        result_free(&got);
        for (int k = 0; k < 3; k++) {
            sk_groupby_destroy(g[k]);
            sk_groupby_destroy(empty[k]);
        }
    }
}

/* What a wider type cannot hold exactly is an error, and so is text among numbers. */
TEST(groupby_refuses_states_of_other_types) {
    const struct ArrowSchema *schema;
    struct sk_groupby *empty[2], *g[2];
    struct sk_err err = {.code = 0};
    struct result r;
    g[0] = of_three("g", "l", &schema, &empty[0]);
    g[1] = of_three("l", "g", &schema, &empty[1]);
    take_result(g[0], true, &r);
    CHECK_RC(sk_groupby_merge(empty[1], &r.schema, &r.array, &err), SK_ERANGE);
    CHECK_STR_HAS(err.msg, "not exact in Arrow format 'l'");
    result_free(&r);
    for (int k = 0; k < 2; k++) {
        sk_groupby_destroy(g[k]);
        sk_groupby_destroy(empty[k]);
    }
}

/* A float that is an integer hashes as that integer, others by their bits: the two floats here have
 * the same hash but are different keys. */
TEST(groupby_of_floats_with_one_hash) {
    static const double v[2] = {1.5, 4609434218613702656.0};
    const void *buffers[2] = {NULL, v}, *none[1] = {NULL};
    struct ArrowSchema field = {.format = "g", .name = "v"}, *fields[1] = {&field},
                       schema = {.format = "+s", .name = "", .n_children = 1, .children = fields};
    struct ArrowArray column = {.length = 2, .n_buffers = 2, .buffers = buffers},
                      *columns[1] = {&column};
    struct ArrowArray batch = {
        .length = 2, .n_buffers = 1, .buffers = none, .n_children = 1, .children = columns};
    struct sk_keys *k;
    struct sk_groupby *g;
    struct sk_err err;
    uint64_t hash[2];
    uint32_t key = 0;
    CHECK_OK(sk_keys_create(&schema, &batch, &(struct sk_key){.column = 0}, 1, &k, &err));
    sk_keys_hash(k, hash);
    CHECK_EQ(hash[0], hash[1]);
    sk_keys_destroy(k);
    CHECK_OK(sk_groupby_create(&schema, &key, 1,
                               &(struct sk_agg){SK_AGG_COUNT, SK_AGG_ROWS, true, 0, 0, "n", 0, NULL,
                                                false, NULL, false, false},
                               1, &g, &err));
    CHECK_OK(sk_groupby_update(g, &schema, &batch, &err));
    CHECK_EQ(sk_groupby_groups(g), 2);
    sk_groupby_destroy(g);
}

TEST(group_starts_are_where_keys_change) {
    for (int round = 0; round < test_rounds(40); round++) {
        struct column c;
        struct batch b;
        struct sk_keys *k;
        struct sk_err err;
        uint32_t start[100];
        int64_t rows = (int64_t)test_below(100);
        column_make(&c, key_formats[test_below(n_key_formats)], rows,
                    (struct column_how){.distinct = 3, .nulls = 20});
        batch_make(&b, &c, 1, rows, 0);
        CHECK_OK(sk_keys_create(&b.schema, &b.array, &(struct sk_key){.column = 0}, 1, &k, &err));
        uint64_t n = sk_group_starts(k, start), at = 0;
        for (int64_t i = 0; i < rows; i++)
            if (!i || cell_compare(c.format, &c.cells[i - 1], &c.cells[i], false, false))
                CHECK_EQ(start[at++], i);
        CHECK_EQ(at, n);
        sk_keys_destroy(k);
        column_free(&c);
    }
}

/* Rows of any order, among them equal ones that differ in their bytes (-0.0, NaNs). */
TEST(first_rows_are_the_first_of_their_keys) {
    for (int round = 0; round < test_rounds(200); round++) {
        struct column c[2];
        struct batch b;
        struct sk_keys *k;
        struct sk_err err;
        const struct sk_key keys[] = {{.column = 0}, {.column = 1}};
        static uint32_t index[3000], ids[3000];
        int64_t rows = (int64_t)test_below(round % 8 ? 100 : 3000), want = 0;
        uint32_t n_keys = 1 + (uint32_t)test_below(2);
        uint64_t n, distinct = test_below(2) ? 3 : 10000;
        for (uint32_t i = 0; i < n_keys; i++)
            column_make(
                &c[i], key_formats[test_below(n_key_formats)], rows,
                (struct column_how){.seed = test_rand(), .distinct = distinct, .nulls = 20});
        batch_make(&b, c, (int)n_keys, rows, 0);
        CHECK_OK(sk_keys_create(&b.schema, &b.array, keys, n_keys, &k, &err));
        CHECK_OK(sk_first_rows(k, index, ids, &n, &err));
        for (int64_t i = 0; i < rows; i++) {
            bool first = true;
            for (int64_t j = 0; j < want && first; j++) {
                bool same = true;
                for (uint32_t f = 0; f < n_keys && same; f++)
                    same = !cell_compare(c[f].format, &c[f].cells[index[j]], &c[f].cells[i], false,
                                         false);
                first = !same;
                if (same) CHECK_EQ(ids[i], j);
            }
            if (!first) continue;
            CHECK_LT((uint64_t)want, n);
            CHECK_EQ(ids[i], want);
            CHECK_EQ(index[want++], i);
        }
        CHECK_EQ((uint64_t)want, n);
        for (int64_t nth = 1;; nth++) {
            uint64_t unused;
            sk_mem_fail_at(nth);
            sk_rc rc = sk_first_rows(k, index, ids, &unused, &err);
            bool hit = sk_mem_failed();
            sk_mem_fail_at(0);
            CHECK_EQ(rc, hit ? SK_ENOMEM : SK_OK);
            if (!hit) break;
        }
        sk_keys_destroy(k);
        for (uint32_t i = 0; i < n_keys; i++) column_free(&c[i]);
    }
}

TEST(groupby_refused) {
    struct column c[3];
    struct batch b;
    struct sk_groupby *g = NULL;
    struct sk_err err;
    uint32_t key = 0;
    column_make(&c[0], "i", 5, (struct column_how){.distinct = 3});
    column_make(&c[1], "u", 5, (struct column_how){.distinct = 3});
    batch_make(&b, c, 2, 5, 0);
    CHECK_RC(sk_groupby_create(&b.schema, &key, 1,
                               &(struct sk_agg){SK_AGG_SUM, 1, true, 0, 0, "s", 0, NULL, false,
                                                NULL, false, false},
                               1, &g, &err),
             SK_EINVAL);
    CHECK_STR_HAS(err.msg, "sum of column 'x' of Arrow format 'u'");
    CHECK_RC(sk_groupby_create(&b.schema, &key, 1,
                               &(struct sk_agg){SK_AGG_SUM, 2, true, 0, 0, "s", 0, NULL, false,
                                                NULL, false, false},
                               1, &g, &err),
             SK_EINVAL);
    CHECK_RC(sk_groupby_create(&b.schema, &key, 1,
                               &(struct sk_agg){SK_AGG_SUM, 0, true, 0, 0, NULL, 0, NULL, false,
                                                NULL, false, false},
                               1, &g, &err),
             SK_EINVAL);
    CHECK_RC(sk_groupby_create(&b.schema, &key, 1,
                               &(struct sk_agg){SK_AGG_QUANTILE, 0, true, 0, 1.5, "q", 0, NULL,
                                                false, NULL, false, false},
                               1, &g, &err),
             SK_EINVAL);
    CHECK_RC(sk_groupby_create(&b.schema, &key, 1,
                               &(struct sk_agg){SK_AGG_QUANTILE, 1, true, 0, 0.5, "q", 0, NULL,
                                                false, NULL, false, false},
                               1, &g, &err),
             SK_EINVAL);
    CHECK_RC(sk_groupby_create(&b.schema, &key, 1,
                               &(struct sk_agg){SK_AGG_UNIQUE, SK_AGG_ROWS, true, 0, 0, "q", 0,
                                                NULL, false, NULL, false, false},
                               1, &g, &err),
             SK_EINVAL);
    CHECK(g == NULL);
    struct sk_agg sum = {SK_AGG_SUM, 0, true, 0, 0, "s", 0, NULL, false, NULL, false, false};
    struct sk_block_plan *plan;
    uint64_t size;
    CHECK_OK(sk_groupby_create(&b.schema, &key, 1, &sum, 1, &g, &err));
    /* column 1 is text, not a column of states */
    CHECK_RC(sk_groupby_merge(g, &b.schema, &b.array, &err), SK_EINVAL);
    CHECK_STR_HAS(err.msg, "no state");
    sk_groupby_destroy(g);
    for (int64_t n = 1;; n++) {
        sk_mem_fail_at(n);
        struct sk_agg both[3] = {
            sum,
            {SK_AGG_LIST, 1, true, 0, 0, "l", 0, NULL, false, NULL, false, false},
            {SK_AGG_VALUE_COUNTER, 1, true, 0, 0, "v", 0, NULL, false, NULL, false, false}};
        sk_rc rc = sk_groupby_create(&b.schema, &key, 1, both, 3, &g, &err);
        if (rc == SK_OK) {
            rc = sk_groupby_update(g, &b.schema, &b.array, &err);
            if (rc == SK_OK) rc = sk_groupby_measure(g, false, &plan, &size, &err);
            if (rc == SK_OK) sk_block_plan_free(plan);
            sk_groupby_destroy(g);
        }
        bool hit = sk_mem_failed();
        sk_mem_fail_at(0);
        CHECK_EQ(rc, hit ? SK_ENOMEM : SK_OK);
        if (!hit) break;
    }
    column_free(&c[0]);
    column_free(&c[1]);
}

/* Lists of doubles have no order, but are compared for equality: in them, too, 0.0 equals -0.0 and
 * all NaNs are equal; null, an empty list and a list of null are three different values. */
TEST(groupby_counts_distinct_lists) {
    static double v[] = {0.0, -0.0, 0, 0, 1, 2, 1, 0};
    static const uint64_t nans[2] = {UINT64_C(0x7FF8) << 48, UINT64_C(0xFFF8000000000001)};
    static const uint8_t lists_valid[] = {0xEF, 0x01}, values_valid[] = {0x7F};
    static const int32_t offsets[] = {0, 1, 2, 3, 4, 4, 4, 6, 7, 8};
    struct sk_agg aggs[2] = {{.kind = SK_AGG_COUNT_DISTINCT, .name = "n"},
                             {.kind = SK_AGG_COUNT_DISTINCT, .ignore_nulls = true, .name = "m"}};
    struct ArrowSchema item = {.format = "g", .name = "item", .flags = ARROW_FLAG_NULLABLE},
                       *items[1] = {&item},
                       list = {.format = "+l", .name = "v", .n_children = 1, .children = items},
                       *fields[1] = {&list},
                       schema = {.format = "+s", .name = "", .n_children = 1, .children = fields};
    const void *none[1] = {NULL}, *of_items[2] = {values_valid, v},
               *of_lists[2] = {lists_valid, offsets};
    struct ArrowArray values = {.length = 8, .null_count = 1, .n_buffers = 2, .buffers = of_items},
                      *children[1] = {&values};
    struct ArrowArray column = {.length = 9,
                                .null_count = 1,
                                .n_buffers = 2,
                                .buffers = of_lists,
                                .n_children = 1,
                                .children = children},
                      *columns[1] = {&column};
    struct ArrowArray batch = {
        .length = 9, .n_buffers = 1, .buffers = none, .n_children = 1, .children = columns};
    struct sk_err err = {.code = 0};
    struct sk_groupby *g, *h;
    struct result partial, r;
    memcpy(&v[2], nans, sizeof nans);
    CHECK_OK_ERR(sk_groupby_create(&schema, NULL, 0, aggs, 2, &g, &err), &err);
    CHECK_OK_ERR(sk_groupby_create(&schema, NULL, 0, aggs, 2, &h, &err), &err);
    CHECK_OK_ERR(sk_groupby_update(g, &schema, &batch, &err), &err);
    take_result(g, true, &partial);
    for (int i = 0; i < 2; i++) /* adding the same values twice changes nothing */
        CHECK_OK_ERR(sk_groupby_merge(h, &partial.schema, &partial.array, &err), &err);
    take_result(h, false, &r);
    /* [0.0], [NaN], null, [], [1, 2], [1], [null] */
    CHECK_EQ(((const int64_t *)r.array.children[0]->buffers[1])[0], 7);
    CHECK_EQ(((const int64_t *)r.array.children[1]->buffers[1])[0], 6);
    result_free(&partial);
    result_free(&r);
    sk_groupby_destroy(g);
    sk_groupby_destroy(h);
}
