/* test_shuffle_join.c - reduces of joins, whole and shared, against two loops over cells: rows and
 * their order, columns, keys of other types, allocations that fail.
 *
 * A row's identity is its number, which the column x (left) or y (right) has. */
#include "kernel_make.h"
#include "shuffle/work.h"
#include "test.h"

enum { LEFT, RIGHT, MOST = 60, PARTS = 3 };

static struct sk_err err;

/* ---- input ---- */

struct input {
    struct column cols[3]; /* the keys, the row's number */
    struct batch b;
    int64_t rows, ids[MOST + 1];
    struct ArrowArray part[PARTS];
    const struct ArrowArray *list[PARTS];
    const struct ArrowSchema *schemas[PARTS];
    uint32_t n;
};

static const char *const key_names[2][2] = {{"k", "k1"}, {"q", "q1"}};

/* Names the columns, and cuts the rows into batches. */
static void cut(struct input *in, int side, int n_keys) {
    struct column *id = &in->cols[n_keys];
    column_make(id, "l", in->rows, (struct column_how){.seed = 1});
    for (int64_t i = 0; i < in->rows; i++) in->ids[i] = i;
    id->array.offset = id->array.null_count = 0;
    id->buffers[0] = NULL;
    id->buffers[1] = in->ids;
    batch_make(&in->b, in->cols, n_keys + 1, in->rows, 0);
    for (int k = 0; k < n_keys; k++) in->cols[k].schema.name = key_names[side][k];
    id->schema.name = side == LEFT ? "x" : "y";
    in->n = 1 + (uint32_t)test_below(PARTS);
    for (uint32_t p = 0, at = 0; p < in->n; p++) {
        int64_t n =
            p + 1 == in->n ? in->rows - at : (int64_t)test_below((uint64_t)(in->rows - at) + 1);
        in->part[p] = in->b.array;
        in->part[p].offset += at;
        in->part[p].length = n;
        in->list[p] = &in->part[p];
        in->schemas[p] = &in->b.schema;
        at += (uint32_t)n;
    }
}

static void input_make(struct input *in, int side, const char *const *formats, uint64_t seed,
                       int n_keys) {
    in->rows = test_below(6) ? (int64_t)test_below(MOST) : 0;
    for (int k = 0; k < n_keys; k++)
        column_make(&in->cols[k], formats[k], in->rows,
                    (struct column_how){.seed = seed + (uint64_t)k,
                                        .distinct = 1 + seed % 12,
                                        .nulls = (unsigned)test_below(2) * 15});
    cut(in, side, n_keys);
}

static void input_free(struct input *in, int n_keys) {
    for (int k = 0; k <= n_keys; k++) column_free(&in->cols[k]);
}

static char *text(const char *s) { return (char *)(uintptr_t)s; }

struct described {
    struct sk_what what;
    struct sk_what_key keys[2];
    char *right[2];
};

static const struct sk_what *describe(struct described *d, enum sk_join_kind kind, int n_keys) {
    *d = (struct described){.keys = {{text("k"), false, false}, {text("k1"), false, false}},
                            .right = {text("q"), text("q1")}};
    d->what = (struct sk_what){.kind = SK_WHAT_JOIN,
                               .n_keys = (uint32_t)n_keys,
                               .keys = d->keys,
                               .join = {kind, d->right, {text("_l"), text("")}}};
    return &d->what;
}

/* ---- the naive twin ---- */

struct pairs {
    int64_t p[MOST * MOST + 2 * MOST][2]; /* left and right row; -1: none */
    size_t n;
};

static bool meet(const struct input *l, int64_t i, const struct input *r, int64_t j, int n_keys) {
    for (int k = 0; k < n_keys; k++) {
        const struct cell *a = &l->cols[k].cells[i], *b = &r->cols[k].cells[j];
        if (a->class == CELL_NULL || b->class == CELL_NULL ||
            cell_compare(l->cols[k].format, a, b, false, false))
            return false;
    }
    return true;
}

static bool meets_any(const struct input *in[2], int side, int64_t row, int n_keys) {
    bool met = false;
    for (int64_t o = 0; o < in[!side]->rows && !met; o++)
        met = side == LEFT ? meet(in[LEFT], row, in[RIGHT], o, n_keys)
                           : meet(in[LEFT], o, in[RIGHT], row, n_keys);
    return met;
}

static void push(struct pairs *out, int side, int64_t row, int64_t other) {
    out->p[out->n][side] = row;
    out->p[out->n++][!side] = other;
}

/* True if the result has rows of `side` that meet nothing, or (semi) something. */
static bool gives_alone(enum sk_join_kind kind, int side, bool met) {
    switch (kind) {
    case SK_JOIN_FULL: return !met;
    case SK_JOIN_LEFT: return side == LEFT && !met;
    case SK_JOIN_RIGHT: return side == RIGHT && !met;
    case SK_JOIN_LEFT_ANTI: return side == LEFT && !met;
    case SK_JOIN_RIGHT_ANTI: return side == RIGHT && !met;
    case SK_JOIN_LEFT_SEMI: return side == LEFT && met;
    case SK_JOIN_RIGHT_SEMI: return side == RIGHT && met;
    default: return false;
    }
}

static void twin(const struct input *in[2], int n_keys, enum sk_join_kind kind, int first,
                 struct pairs *out) {
    out->n = 0;
    for (int64_t i = 0; i < in[first]->rows; i++) {
        for (int64_t o = 0; o < in[!first]->rows && kind <= SK_JOIN_FULL; o++)
            if (first == LEFT ? meet(in[LEFT], i, in[RIGHT], o, n_keys)
                              : meet(in[LEFT], o, in[RIGHT], i, n_keys))
                push(out, first, i, o);
        if (gives_alone(kind, first, meets_any(in, first, i, n_keys))) push(out, first, i, -1);
    }
    for (int64_t o = 0; o < in[!first]->rows; o++)
        if (gives_alone(kind, !first, meets_any(in, !first, o, n_keys))) push(out, !first, o, -1);
}

/* ---- running reduces ---- */

struct got {
    int64_t p[MOST * MOST + 2 * MOST][2];
    size_t n;
    uint32_t blocks;
    uint8_t *reports[PARTS];
    struct ArrowSchema report_schema[PARTS];
    struct ArrowArray report[PARTS];
    uint32_t n_reports;
};

static const int64_t *numbers(const struct ArrowSchema *s, const struct ArrowArray *a,
                              const char *name, const uint8_t **valid) {
    for (int64_t i = 0; i < s->n_children; i++)
        if (!strcmp(s->children[i]->name, name)) {
            CHECK_EQ(a->children[i]->offset, 0);
            *valid = a->children[i]->buffers[0];
            return a->children[i]->buffers[1];
        }
    return NULL;
}

static uint8_t *open_value(const struct sk_value *v, struct ArrowSchema *s, struct ArrowArray *a) {
    uint8_t *bytes = sk_alloc_aligned(SK_TAG_TEST, SK_BLOCK_ALIGN, v->size);
    sk_value_write(v, bytes);
    CHECK_OK_ERR(sk_block_export(bytes, v->size, 0, UINT64_MAX, (struct sk_block_owner){NULL, NULL},
                                 s, a, &err),
                 &err);
    return bytes;
}

static void take_block(const struct sk_value *v, struct got *got) {
    struct ArrowSchema s;
    struct ArrowArray a;
    uint8_t *bytes = open_value(v, &s, &a);
    const uint8_t *valid[2] = {NULL, NULL};
    const int64_t *x = numbers(&s, &a, "x", &valid[LEFT]), *y = numbers(&s, &a, "y", &valid[RIGHT]);
    for (int64_t i = 0; i < a.length; i++, got->n++) {
        bool has[2] = {x && (!valid[LEFT] || valid[LEFT][i >> 3] >> (i & 7) & 1),
                       y && (!valid[RIGHT] || valid[RIGHT][i >> 3] >> (i & 7) & 1)};
        got->p[got->n][LEFT] = has[LEFT] ? x[i] : -1;
        got->p[got->n][RIGHT] = has[RIGHT] ? y[i] : -1;
    }
    for (int64_t c = 0; c < s.n_children; c++) CHECK(s.children[c]->flags & ARROW_FLAG_NULLABLE);
    got->blocks++;
    s.release(&s);
    a.release(&a);
    sk_free(bytes);
}

static void run(const struct sk_what *what, const struct sk_reduce_input *in, struct got *got) {
    struct sk_work *w;
    struct sk_value *v;
    CHECK_OK_ERR(sk_work_reduce(what, in, &w, &err), &err);
    got->blocks = 0;
    for (bool first = true;; first = false) {
        CHECK_OK_ERR(sk_work_next(w, &v, &err), &err);
        if (!v) break;
        CHECK((v->kind == SK_VALUE_MATCH_REPORT) == (first && in->part == SK_PART_SHARE));
        if (v->kind == SK_VALUE_MATCH_REPORT) {
            uint32_t i = got->n_reports++;
            got->reports[i] = open_value(v, &got->report_schema[i], &got->report[i]);
        } else take_block(v, got);
        sk_value_destroy(v);
    }
    CHECK(got->blocks);
    sk_work_destroy(w);
}

static struct sk_slice slice_of(const struct input *in, int side, uint32_t from, uint32_t n) {
    return (struct sk_slice){
        .batches = in->list + from, .schemas = in->schemas + from, .n = n, .side = (uint32_t)side};
}

static void check_pairs(const struct got *got, const struct pairs *want, enum sk_join_kind kind) {
    CHECK_EQ(got->n, want->n);
    for (size_t i = 0; i < want->n; i++)
        for (int s = LEFT; s <= RIGHT; s++) {
            bool there = kind <= SK_JOIN_FULL || s == (kind >= SK_JOIN_RIGHT_SEMI);
            CHECK_EQ(got->p[i][s], there ? want->p[i][s] : -1);
        }
}

/* One reduce of all, and split reduces of each batch of the shared side with the reduce of what
 * they leave. */
static void check(const struct input *in[2], int n_keys, enum sk_join_kind kind, uint32_t first,
                  uint64_t target) {
    static struct pairs want;
    static struct got got;
    struct described d;
    const struct sk_what *what = describe(&d, kind, n_keys);
    twin(in, n_keys, kind, (int)first, &want);
    struct sk_slice slices[2] = {slice_of(in[LEFT], LEFT, 0, in[LEFT]->n),
                                 slice_of(in[RIGHT], RIGHT, 0, in[RIGHT]->n)};
    struct sk_reduce_input r = {
        .slices = slices, .n_slices = 2, .end = 1, .n = 1, .target_bytes = target, .shared = first};
    memset(&got, 0, sizeof got);
    run(what, &r, &got);
    check_pairs(&got, &want, kind);
    if (target == 1) CHECK_EQ(got.blocks, SK_MAX(want.n, 1));
    memset(&got, 0, sizeof got);
    r.part = SK_PART_SHARE;
    for (uint32_t b = 0; b < in[first]->n; b++) {
        slices[first] = slice_of(in[first], (int)first, b, 1);
        run(what, &r, &got);
    }
    const struct ArrowSchema *schemas[PARTS];
    const struct ArrowArray *reports[PARTS];
    for (uint32_t i = 0; i < got.n_reports; i++) {
        schemas[i] = &got.report_schema[i];
        reports[i] = &got.report[i];
    }
    slices[first] = slice_of(in[first], (int)first, 0, 1);
    slices[first].columns_only = true;
    r.part = SK_PART_UNMATCHED;
    r.report_schemas = schemas;
    r.reports = reports;
    r.n_reports = got.n_reports;
    run(what, &r, &got);
    check_pairs(&got, &want, kind);
    for (uint32_t i = 0; i < got.n_reports; i++) {
        got.report_schema[i].release(&got.report_schema[i]);
        got.report[i].release(&got.report[i]);
        sk_free(got.reports[i]);
    }
}

TEST(joins_of_all_kinds_are_those_of_two_loops) {
    for (int round = 0; round < test_rounds(3); round++)
        for (size_t f = 0; f < n_key_formats; f++) {
            struct input l, r;
            int n_keys = 1 + (int)test_below(2);
            const char *formats[2] = {key_formats[f], key_formats[test_below(n_key_formats)]};
            uint64_t seed = test_rand() >> 1;
            input_make(&l, LEFT, formats, seed, n_keys);
            input_make(&r, RIGHT, formats, seed, n_keys);
            const struct input *in[2] = {&l, &r};
            for (int kind = 0; kind < SK_JOIN_KINDS; kind++)
                for (uint32_t first = LEFT; first <= RIGHT; first++)
                    check(in, n_keys, (enum sk_join_kind)kind, first,
                          (const uint64_t[]){0, 1, 300, 1 << 20}[test_below(4)]);
            input_free(&l, n_keys);
            input_free(&r, n_keys);
        }
}

/* ---- keys of other types ---- */

static bool fits(const struct sk_what *what, const struct input *l, const struct input *r) {
    return sk_work_joins(what, (const struct ArrowSchema *const[2]){&l->b.schema, &r->b.schema});
}

TEST(keys_of_other_types_meet_as_the_rule_says) {
    static const struct {
        const char *from, *left, *right; /* from: a type whose values both have */
        bool dictionary, fits, full;
    } cases[] = {{"c", "c", "l", false, true, true},   {"c", "i", "s", false, true, true},
                 {"C", "C", "I", false, true, true},   {"S", "L", "S", false, true, true},
                 {"u", "u", "U", false, true, false},  {"z", "Z", "z", false, true, false},
                 {"u", "u", "u", true, true, false},   {"i", "i", "i", true, true, false},
                 {"i", "l", "i", true, false, false},  {"C", "C", "i", false, false, false},
                 {"u", "vu", "u", false, false, false}};
    for (size_t i = 0; i < SK_COUNT(cases); i++)
        for (int kind = 0; kind < SK_JOIN_KINDS; kind++)
            for (uint32_t first = LEFT; first <= RIGHT; first++) {
                struct input l, r;
                struct column base;
                struct described d;
                const struct sk_what *what = describe(&d, (enum sk_join_kind)kind, 1);
                l.rows = r.rows = (int64_t)test_below(MOST);
                column_make(&base, cases[i].from, l.rows,
                            (struct column_how){.seed = 7, .distinct = 9, .nulls = 10});
                column_copy(&l.cols[0], cases[i].left, &base, l.rows, false);
                column_copy(&r.cols[0], cases[i].right, &base, r.rows, cases[i].dictionary);
                cut(&l, LEFT, 1);
                cut(&r, RIGHT, 1);
                bool fit = kind == SK_JOIN_FULL ? cases[i].full : cases[i].fits;
                CHECK_EQ(fits(what, &l, &r), fit);
                const struct input *in[2] = {&l, &r};
                if (fit) check(in, 1, (enum sk_join_kind)kind, first, 300);
                input_free(&l, 1);
                input_free(&r, 1);
                column_free(&base);
            }
}

/* The column of a full join that stands for both keys has the wider type, and the values of the
 * side that has the row. */
TEST(widened_keys_of_a_full_join_are_those_of_both_sides) {
    static const int8_t narrow[] = {-128, 5, 127};
    static const int64_t wide[] = {5, INT64_C(1) << 40, -128};
    static const int64_t want[] = {-128, 5, 127, INT64_C(1) << 40};
    struct input in[2];
    struct described d;
    const struct sk_what *what = describe(&d, SK_JOIN_FULL, 1);
    for (int s = LEFT; s <= RIGHT; s++) {
        in[s].rows = 3;
        column_make(&in[s].cols[0], s == LEFT ? "c" : "l", 3, (struct column_how){.seed = 1});
        in[s].cols[0].array.offset = in[s].cols[0].array.null_count = 0;
        in[s].cols[0].buffers[0] = NULL;
        in[s].cols[0].buffers[1] = s == LEFT ? (const void *)narrow : (const void *)wide;
        cut(&in[s], s, 1);
    }
    struct sk_slice slices[2] = {slice_of(&in[LEFT], LEFT, 0, in[LEFT].n),
                                 slice_of(&in[RIGHT], RIGHT, 0, in[RIGHT].n)};
    struct sk_reduce_input r = {.slices = slices, .n_slices = 2, .end = 1, .n = 1};
    struct sk_work *w;
    struct sk_value *v;
    struct ArrowSchema schema;
    struct ArrowArray array;
    const uint8_t *valid;
    CHECK_OK_ERR(sk_work_reduce(what, &r, &w, &err), &err);
    CHECK_OK_ERR(sk_work_next(w, &v, &err), &err);
    uint8_t *bytes = open_value(v, &schema, &array);
    CHECK(!strcmp(schema.children[0]->format, "l"));
    const int64_t *k = numbers(&schema, &array, "k", &valid);
    CHECK(k && !valid && array.length == 4 && !memcmp(k, want, sizeof want));
    schema.release(&schema);
    array.release(&array);
    sk_free(bytes);
    sk_value_destroy(v);
    sk_work_destroy(w);
    for (int s = LEFT; s <= RIGHT; s++) input_free(&in[s], 1);
}

/* ---- columns ---- */

static void check_columns(enum sk_join_kind kind, struct sk_names left, struct sk_names right,
                          const char *want, bool whole) {
    struct described d;
    struct sk_join_columns c;
    char got[200] = "";
    const struct sk_names sides[2] = {left, right};
    CHECK_OK_ERR(sk_join_columns(describe(&d, kind, 1), sides, &c, &err), &err);
    for (uint32_t i = 0; i < c.n; i++) {
        snprintf(got + strlen(got), sizeof got - strlen(got), "%s%u%u:%s%s", i ? " " : "",
                 c.column[i].side, c.column[i].column, c.column[i].name,
                 c.column[i].of_key < 0 ? "" : "*");
    }
    CHECK_MSG(!strcmp(got, want), "%s, not %s", got, want);
    CHECK_EQ(c.whole, whole);
    sk_join_columns_free(&c);
}

#define NAMES(...)                                                            \
    (struct sk_names) {                                                       \
        (const char *const[]){__VA_ARGS__},                                   \
            sizeof((const char *const[]){__VA_ARGS__}) / sizeof(const char *) \
    }

TEST(columns_of_joins_have_the_names_that_the_kind_asks_for) {
    struct sk_names l = NAMES("k", "x", "z"), r = NAMES("z", "q", "y");
    check_columns(SK_JOIN_INNER, l, r, "00:k 01:x 02:z_l 10:z 12:y", true);
    check_columns(SK_JOIN_LEFT, l, r, "00:k 01:x 02:z_l 10:z 12:y", true);
    check_columns(SK_JOIN_FULL, l, r, "00:k* 01:x 02:z_l 10:z 12:y", true);
    check_columns(SK_JOIN_RIGHT, l, r, "01:x 02:z_l 10:z 11:q 12:y", true);
    check_columns(SK_JOIN_LEFT_SEMI, l, r, "00:k 01:x 02:z", true);
    check_columns(SK_JOIN_RIGHT_ANTI, l, r, "10:z 11:q 12:y", true);
    /* the right key is left out, so it meets nothing; a key keeps its name */
    check_columns(SK_JOIN_INNER, NAMES("k", "q"), NAMES("q", "y"), "00:k 01:q 11:y", true);
    check_columns(SK_JOIN_INNER, NAMES("k"), NAMES("q", "k"), "00:k 11:k", false);
    check_columns(SK_JOIN_INNER, NAMES("k", "a", "a_l"), NAMES("q", "a"), "00:k 01:a_l 02:a_l 11:a",
                  false);
    check_columns(SK_JOIN_LEFT_SEMI, NAMES("x"), NAMES("q"), "00:x", false); /* no key */
}

/* ---- what is refused ---- */

TEST(reports_of_other_rows_are_refused) {
    struct input l, r;
    struct described d;
    const char *formats[] = {"l"};
    const struct sk_what *what = describe(&d, SK_JOIN_FULL, 1);
    input_make(&l, LEFT, formats, 5, 1);
    do {
        input_make(&r, RIGHT, formats, 5, 1);
        if (r.rows) break;
        input_free(&r, 1);
    } while (true);
    struct sk_slice slices[2] = {slice_of(&l, LEFT, 0, l.n), slice_of(&r, RIGHT, 0, r.n)};
    slices[LEFT].columns_only = true;
    const struct ArrowArray *reports[] = {&l.part[0]};
    const struct ArrowSchema *schemas[] = {&l.b.schema};
    struct sk_reduce_input in = {.slices = slices,
                                 .n_slices = 2,
                                 .end = 1,
                                 .n = 1,
                                 .part = SK_PART_UNMATCHED,
                                 .reports = reports,
                                 .report_schemas = schemas,
                                 .n_reports = 1};
    struct sk_work *w = NULL;
    CHECK_RC(sk_work_reduce(what, &in, &w, &err), SK_EINVAL);
    CHECK_STR_HAS(err.msg, "a share has reported matches of");
    in.n_slices = 1;
    CHECK_RC(sk_work_reduce(what, &in, &w, &err), SK_EINVAL);
    CHECK_STR_HAS(err.msg, "side 1 of a join has no batch");
    struct sk_map_input map = {.schema = &l.b.schema, .array = &l.b.array};
    CHECK_RC(sk_work_map(what, &map, &w, &err), SK_EINVAL);
    input_free(&l, 1);
    input_free(&r, 1);
}

TEST(joins_without_memory) {
    struct input l, r;
    const char *left[] = {"c"}, *right[] = {"l"};
    input_make(&l, LEFT, left, 3, 1);
    input_make(&r, RIGHT, right, 3, 1);
    for (enum sk_reduce_part part = SK_PART_ALL; part <= SK_PART_UNMATCHED; part++) {
        struct described d;
        const struct sk_what *what = describe(&d, SK_JOIN_FULL, 1);
        struct sk_slice slices[2] = {slice_of(&l, LEFT, 0, l.n), slice_of(&r, RIGHT, 0, r.n)};
        struct sk_reduce_input in = {
            .slices = slices, .n_slices = 2, .end = 1, .n = 1, .target_bytes = 100, .part = part};
        bool hit = true;
        for (int64_t nth = 1; hit; nth++) {
            struct sk_work *w = NULL;
            struct sk_value *v = NULL;
            sk_mem_fail_at(nth);
            sk_rc rc = sk_work_reduce(what, &in, &w, &err);
            while (rc == SK_OK) {
                rc = sk_work_next(w, &v, &err);
                if (!v) break;
                sk_value_destroy(v);
            }
            sk_work_destroy(w);
            hit = sk_mem_failed();
            sk_mem_fail_at(0);
            CHECK_EQ(rc, hit ? SK_ENOMEM : SK_OK);
        }
    }
    input_free(&l, 1);
    input_free(&r, 1);
}
