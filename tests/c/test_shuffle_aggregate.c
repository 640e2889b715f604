/* test_shuffle_aggregate.c - aggregates by group through maps, a cut and reduces in one process,
 * against plain sums by key; maps send rows or states, at random. */
#include "base/mem.h"
#include "shuffle/work.h"
#include "test.h"

enum { KEYS = 400, MAPS = 7, PARTITIONS_MAX = 9, ROWS_MAX = 90000, RUNS_MAX = 1500 };

struct table { /* keys from 0 to KEYS - 1, and a number */
    struct ArrowSchema field[2], *fields[2], schema;
    struct ArrowArray column[2], *columns[2], array;
    const void *buffers[2][2], *none[1];
    int64_t *values[2];
};

struct bytes { /* bytes of the written values */
    uint8_t *p;
    uint64_t n;
};

struct opened {
    struct ArrowSchema schema[20000];
    struct ArrowArray array[20000];
    const struct ArrowSchema *schemas[20000];
    const struct ArrowArray *list[20000];
    uint32_t n;
};

static struct sk_err err;

static void table_make(struct table *t, int64_t rows, int64_t keys, int64_t *sums,
                       int64_t *counts) {
    *t = (struct table){.none = {NULL}};
    for (int i = 0; i < 2; i++) {
        t->values[i] = sk_alloc(SK_TAG_TEST, (size_t)(rows + 1) * 8);
        t->buffers[i][1] = t->values[i];
        t->field[i] = (struct ArrowSchema){
            .format = "l", .name = i ? "v0" : "key", .flags = ARROW_FLAG_NULLABLE};
        t->column[i] =
            (struct ArrowArray){.length = rows, .n_buffers = 2, .buffers = t->buffers[i]};
        t->fields[i] = &t->field[i];
        t->columns[i] = &t->column[i];
    }
    t->schema =
        (struct ArrowSchema){.format = "+s", .name = "", .n_children = 2, .children = t->fields};
    t->array = (struct ArrowArray){.length = rows,
                                   .n_buffers = 1,
                                   .buffers = t->none,
                                   .n_children = 2,
                                   .children = t->columns};
    for (int64_t i = 0; i < rows; i++) {
        t->values[0][i] = (int64_t)test_below((uint64_t)keys);
        t->values[1][i] = (int64_t)test_below(2000) - 1000;
        sums[t->values[0][i]] += t->values[1][i];
        counts[t->values[0][i]]++;
    }
}

static void table_free(struct table *t) {
    for (int i = 0; i < 2; i++) sk_free(t->values[i]);
}

static struct sk_what *what_of(bool keyed) {
    struct sk_what_key key = {(char[]){"key"}, false, false};
    struct sk_agg aggs[2] = {
        {SK_AGG_SUM, keyed ? 1 : 0, true, 0, 0, "sum", 0, NULL, true, "", false, false},
        {SK_AGG_COUNT, SK_AGG_ROWS, true, 0, 0, "n", 0, NULL, true, "", false, false}};
    struct sk_what w = {.kind = SK_WHAT_AGGREGATE,
                        .n_partitions = 1,
                        .groups = true,
                        .n_keys = keyed,
                        .keys = &key,
                        .n_aggs = 2,
                        .aggs = aggs},
                   *back, *bad;
    uint8_t wire[300];
    size_t n = sk_what_write(&w, wire, sizeof wire);
    CHECK(n <= sizeof wire);
    CHECK_OK_ERR(sk_what_read((struct sk_bytes){wire, n}, &back, &err), &err);
    CHECK(back->n_aggs == 2 && back->aggs[0].kind == SK_AGG_SUM && back->aggs[0].nan_is_null &&
          !strcmp(back->aggs[1].name, "n"));
    for (size_t cut = 0; cut < n; cut++)
        CHECK_RC(sk_what_read((struct sk_bytes){wire, cut}, &bad, &err), SK_EINVAL);
    return back;
}

static struct bytes written(struct sk_value *v) {
    struct bytes b = {sk_alloc_aligned(SK_TAG_TEST, SK_BLOCK_ALIGN, v->size), v->size};
    sk_value_write(v, b.p);
    sk_value_destroy(v);
    return b;
}

static void open_all(struct opened *o, const uint8_t *p, uint64_t n) {
    while (n) {
        struct sk_block_info info;
        CHECK(o->n < SK_COUNT(o->list));
        CHECK_OK_ERR(sk_block_info(p, n, &info, &err), &err);
        CHECK_OK_ERR(sk_block_export(p, n, 0, UINT64_MAX, (struct sk_block_owner){NULL, NULL},
                                     &o->schema[o->n], &o->array[o->n], &err),
                     &err);
        o->list[o->n] = &o->array[o->n];
        o->schemas[o->n] = &o->schema[o->n];
        o->n++;
        uint64_t step = SK_MIN(SK_ALIGN(info.total_bytes, 64), n);
        p += step;
        n -= step;
    }
}

static void close_all(struct opened *o) {
    for (uint32_t i = 0; i < o->n; i++) {
        o->schema[i].release(&o->schema[i]);
        o->array[i].release(&o->array[i]);
    }
    o->n = 0;
}

/* Makes the values of a map of these rows; for runs a sample and a run each. */
static uint32_t map(const struct sk_what *what, const struct ArrowSchema *schema,
                    const struct ArrowArray *array, uint32_t seq, struct bytes *out) {
    struct sk_map_input in = {.schema = schema, .array = array, .seq = seq};
    struct sk_work *w;
    struct sk_value *v;
    uint32_t n = 0;
    CHECK_OK_ERR(sk_work_map(what, &in, &w, &err), &err);
    for (;;) {
        CHECK_OK_ERR(sk_work_next(w, &v, &err), &err);
        if (!v) break;
        CHECK(n < 2);
        out[n++] = written(v);
    }
    sk_work_destroy(w);
    return n;
}

static struct ArrowArray piece(const struct table *t, int64_t from, int64_t to) {
    struct ArrowArray a = t->array;
    a.offset += from;
    a.length = to - from;
    return a;
}

/* Like map, for states of the rows, if they are worth it. *n_maps: number of maps for which this
 * counts. */
static void map_states(const struct sk_what *what, const struct table *t, uint32_t *n_maps,
                       struct bytes (*out)[2]) {
    struct sk_states *s;
    struct sk_block_plan *plan;
    struct ArrowSchema schema;
    struct ArrowArray array;
    uint64_t size;
    int64_t n = t->array.length;
    bool worth = false;
    CHECK_OK_ERR(sk_states_create(what, &t->schema, &s, &err), &err);
    for (int i = 0; i < 2 && !worth; i++) { /* in two pieces */
        array = piece(t, i ? n / 2 : 0, i ? n : n / 2);
        CHECK_OK_ERR(sk_states_judge(s, &t->schema, &array, &worth, &err), &err);
    }
    if (!worth) {
        map(what, &t->schema, &t->array, *n_maps, out[*n_maps]);
        ++*n_maps;
        sk_states_destroy(s);
        return;
    }
    for (int i = 0; i < 2; i++) {
        array = piece(t, i ? n / 2 : 0, i ? n : n / 2);
        CHECK_OK_ERR(sk_states_add(s, &t->schema, &array, &err), &err);
    }
    CHECK_OK_ERR(sk_states_measure(s, SK_RESULT_PARTIAL, &plan, &size, &err), &err);
    uint8_t *p = sk_alloc_aligned(SK_TAG_TEST, SK_BLOCK_ALIGN, size);
    sk_block_write(plan, p);
    sk_block_plan_free(plan);
    CHECK_OK_ERR(sk_block_export(p, size, 0, UINT64_MAX, (struct sk_block_owner){NULL, NULL},
                                 &schema, &array, &err),
                 &err);
    CHECK_EQ(sk_states_rows(s), (uint64_t)n);
    map(what, &schema, &array, *n_maps, out[*n_maps]);
    ++*n_maps;
    schema.release(&schema);
    array.release(&array);
    sk_free(p);
    sk_states_destroy(s);
}

static int64_t check_block(const struct ArrowArray *a, bool keyed, const int64_t *sums,
                           const int64_t *counts, int64_t last) {
    for (int64_t i = 0; i < a->length; i++) {
        int64_t key = keyed ? ((const int64_t *)a->children[0]->buffers[1])[i] : 0;
        CHECK(!keyed || key > last);
        while (keyed && ++last < key) CHECK_EQ(counts[last], 0); /* none is left out */
        CHECK_EQ(((const int64_t *)a->children[keyed]->buffers[1])[i], sums[key]);
        CHECK_EQ(((const int64_t *)a->children[keyed + 1]->buffers[1])[i], counts[key]);
        last = key;
    }
    return last;
}

/* Runs a reduce of these slices; returns its last key. */
static int64_t reduce(const struct sk_what *what, struct sk_reduce_input *in, const int64_t *sums,
                      const int64_t *counts, int64_t last) {
    struct sk_work *w;
    struct sk_value *v;
    static struct opened o;
    CHECK_OK_ERR(sk_work_reduce(what, in, &w, &err), &err);
    for (;;) {
        CHECK_OK_ERR(sk_work_next(w, &v, &err), &err);
        if (!v) break;
        struct bytes b = written(v);
        open_all(&o, b.p, b.n);
        CHECK_STR_EQ(o.schema[0].children[what->n_keys]->name, "sum");
        last = check_block(&o.array[0], what->n_keys > 0, sums, counts, last);
        close_all(&o);
        sk_free(b.p);
    }
    sk_work_destroy(w);
    return last;
}

static void cut(const struct sk_what *what, struct bytes (*maps)[2], uint32_t n_maps, uint32_t n,
                struct bytes *bounds, struct sk_value_part (*parts)[PARTITIONS_MAX]) {
    static struct opened o;
    struct sk_work *w;
    struct sk_value *v;
    for (uint32_t i = 0; i < n_maps; i++) open_all(&o, maps[i][0].p, maps[i][0].n);
    CHECK_OK_ERR(sk_work_cut(what, &o.schema[0], o.list, n_maps, n, &w, &err), &err);
    for (;;) {
        CHECK_OK_ERR(sk_work_next(w, &v, &err), &err);
        if (!v) break;
        if (v->kind == SK_VALUE_BOUNDS) {
            *bounds = written(v);
            continue;
        }
        for (uint32_t i = 0; i < v->n; i++) parts[v->run][v->first + i] = v->parts[i];
        sk_value_destroy(v);
    }
    sk_work_destroy(w);
    close_all(&o);
}

static void reduce_all(const struct sk_what *what, struct bytes (*maps)[2], uint32_t n_maps,
                       uint32_t n, const int64_t *sums, const int64_t *counts) {
    static struct opened o;
    static struct sk_value_part parts[RUNS_MAX][PARTITIONS_MAX];
    memset(parts, 0, sizeof parts);
    struct bytes bounds = {NULL, 0};
    int64_t last = -1;
    bool keyed = what->n_keys > 0;
    if (keyed) cut(what, maps, n_maps, n, &bounds, parts);
    for (uint32_t p = 0; p < n; p++) {
        struct sk_slice slices[RUNS_MAX];
        uint32_t from[RUNS_MAX], n_slices = 0;
        for (uint32_t i = 0; i < n_maps; i++) {
            struct bytes at = maps[i][keyed];
            if (keyed) at = (struct bytes){at.p + parts[i][p].off, parts[i][p].len};
            if (!at.n) continue;
            from[n_slices] = o.n;
            open_all(&o, at.p, at.n);
            slices[n_slices] = (struct sk_slice){.run = i, .n = o.n - from[n_slices]};
            n_slices++;
        }
        for (uint32_t i = 0; i < n_slices; i++) {
            slices[i].batches = o.list + from[i];
            slices[i].schemas = o.schemas + from[i];
        }
        CHECK(sk_work_aggregates(what, o.schemas, o.n));
        struct sk_reduce_input in = {.schema = &o.schema[0],
                                     .slices = slices,
                                     .n_slices = n_slices,
                                     .first = p,
                                     .end = p + 1,
                                     .n = n,
                                     .target_bytes = 1 + test_below(9000)};
        uint32_t at = o.n;
        if (keyed) {
            open_all(&o, bounds.p, bounds.n);
            in.bounds_schema = &o.schema[at];
            in.bounds = o.list[at];
        }
        if (n_slices) last = reduce(what, &in, sums, counts, last);
        close_all(&o);
    }
    for (int64_t k = last + 1; keyed && k < KEYS; k++) CHECK_EQ(counts[k], 0);
    if (!keyed) CHECK_EQ(last, counts[0] ? 0 : -1);
    sk_free(bounds.p);
}

/* Merges packs [a, end) of the maps, and appends the packs that come of it to `out`. */
static uint32_t merge(const struct sk_what *what, struct bytes (*maps)[2], uint32_t a, uint32_t end,
                      struct bytes (*out)[2], uint32_t cap) {
    static struct opened o;
    static struct sk_slice slices[RUNS_MAX];
    static uint32_t from[RUNS_MAX];
    bool keyed = what->n_keys > 0, rows = false;
    uint64_t states = 0, given = 0;
    uint32_t n = 0, one = 1;
    const uint32_t *parts[RUNS_MAX];
    for (uint32_t i = a; i < end; i++) {
        from[i - a] = o.n;
        parts[i - a] = &one;
        open_all(&o, maps[i][keyed].p, maps[i][keyed].n);
        slices[i - a] = (struct sk_slice){.n = o.n - from[i - a]};
    }
    for (uint32_t i = 0; i < end - a; i++) {
        slices[i].batches = o.list + from[i];
        slices[i].schemas = o.schemas + from[i];
        for (uint32_t b = 0; b < slices[i].n; b++) states += (uint64_t)slices[i].batches[b]->length;
        rows = rows || (slices[i].n && !strcmp(slices[i].schemas[0]->children[keyed]->name, "v0"));
    }
    struct sk_merge_input in = {.schema = &o.schema[0],
                                .slices = slices,
                                .n_slices = end - a,
                                .n = !keyed,
                                .parts = keyed ? NULL : parts,
                                .values = (uint32_t)test_below(4),
                                .target_bytes = test_below(2) * (1 + test_below(90000))};
    struct sk_work *w;
    struct sk_value *v;
    if (!o.n) return 0;
    CHECK_OK_ERR(sk_work_merge(what, &in, &w, &err), &err);
    for (uint32_t k = 0;; k++) {
        CHECK_OK_ERR(sk_work_next(w, &v, &err), &err);
        if (!v) break;
        CHECK_LT(n, cap);
        given += v->kind == SK_VALUE_SAMPLE ? 0 : v->rows;
        CHECK_EQ(v->kind, !keyed ? SK_VALUE_PARTS : k % 2 ? SK_VALUE_RUN : SK_VALUE_SAMPLE);
        CHECK(keyed || (v->n == 1 && !v->first && v->rows <= 1));
        out[n][keyed && k % 2] = written(v);
        if (!keyed || k % 2) n++;
    }
    sk_work_destroy(w);
    close_all(&o);
    CHECK(n && given <= states && (rows || given <= KEYS)); /* a row for each group */
    return n;
}

/* Merges some neighbours, some of the packs that come of it again. */
static uint32_t merge_some(const struct sk_what *what, struct bytes (*maps)[2], uint32_t n_maps) {
    for (uint64_t times = test_below(3); times; times--) {
        static struct bytes out[RUNS_MAX][2];
        uint32_t n = 0;
        memset(out, 0, sizeof out);
        for (uint32_t i = 0, k; i < n_maps; i += k) {
            k = SK_MIN(1 + (uint32_t)test_below(2 * MAPS), n_maps - i);
            n += merge(what, maps, i, i + k, out + n, RUNS_MAX - n);
        }
        for (uint32_t i = 0; i < n_maps; i++)
            for (int k = 0; k < 2; k++) sk_free(maps[i][k].p);
        memcpy(maps, out, sizeof out);
        n_maps = n;
    }
    return n_maps;
}

TEST(aggregates_of_rows_and_states) {
    static const int64_t sizes[] = {0, 1, 500, 3000, ROWS_MAX};
    for (int round = 0; round < test_rounds(8); round++) {
        static struct table t[MAPS];
        bool keyed = round % 4 != 3;
        struct sk_what *what = what_of(keyed);
        int64_t sums[KEYS] = {0}, counts[KEYS] = {0},
                keys = keyed ? 1 + (int64_t)test_below(KEYS) : 1;
        static struct bytes maps[RUNS_MAX][2];
        memset(maps, 0, sizeof maps);
        uint32_t n_maps = 0;
        for (uint32_t i = 0; i < MAPS; i++) {
            table_make(&t[i], sizes[test_below(i ? 4 : 5)], keys, sums, counts);
            if (!keyed) { /* the number is the only column */
                t[i].schema.n_children = t[i].array.n_children = 1;
                t[i].fields[0] = &t[i].field[1];
                t[i].columns[0] = &t[i].column[1];
            }
            if (test_below(2)) map_states(what, &t[i], &n_maps, maps);
            else {
                map(what, &t[i].schema, &t[i].array, n_maps, maps[n_maps]);
                n_maps++;
            }
        }
        n_maps = merge_some(what, maps, n_maps);
        reduce_all(what, maps, n_maps, keyed ? 1 + (uint32_t)test_below(PARTITIONS_MAX) : 1, sums,
                   counts);
        for (uint32_t i = 0; i < n_maps; i++)
            for (int k = 0; k < 2; k++) sk_free(maps[i][k].p);
        for (uint32_t i = 0; i < MAPS; i++) table_free(&t[i]);
        sk_what_destroy(what);
    }
}

/* As many groups as rows, too many for the memory: the reduce makes them in parts, in order, each
 * of about the allowed bytes. Runs hold interleaved keys, or one key behind the other; half of the
 * rows may have one key. */
TEST(a_reduce_of_many_groups_works_in_parts) {
    enum { RUNS = 5, EACH = 20000, LIMIT = 256 << 10 };
    for (int layout = 0; layout < 3; layout++) {
        struct sk_what *what = what_of(true);
        static struct table t[RUNS];
        struct bytes maps[RUNS][2] = {0};
        static struct opened o;
        struct sk_slice slices[RUNS];
        struct sk_work *w;
        struct sk_value *v;
        int64_t next = 0, rows = 0, before, most = 0;
        static int64_t sums[KEYS], counts[KEYS];
        for (uint32_t i = 0; i < RUNS; i++) {
            table_make(&t[i], EACH, KEYS, sums, counts);
            for (int64_t r = 0; r < EACH; r++) {
                t[i].values[0][r] = layout == 1 ? i * EACH + r : r * RUNS + i;
                if (layout == 2 && r % 2) t[i].values[0][r] = 1;
                t[i].values[1][r] = 1;
            }
            map(what, &t[i].schema, &t[i].array, i, maps[i]);
            uint32_t from = o.n;
            open_all(&o, maps[i][1].p, maps[i][1].n);
            slices[i] = (struct sk_slice){
                .run = i, .n = o.n - from, .batches = o.list + from, .schemas = o.schemas + from};
        }
        struct sk_reduce_input in = {.schema = &o.schema[0],
                                     .slices = slices,
                                     .n_slices = RUNS,
                                     .end = 1,
                                     .n = 1,
                                     .target_bytes = LIMIT};
        before = sk_mem_bytes(SK_TAG_KERNEL);
        CHECK_OK_ERR(sk_work_reduce(what, &in, &w, &err), &err);
        for (;;) {
            static struct opened made;
            CHECK_OK_ERR(sk_work_next(w, &v, &err), &err);
            if (!v) break;
            most = SK_MAX(most, sk_mem_bytes(SK_TAG_KERNEL) - before);
            struct bytes b = written(v);
            open_all(&made, b.p, b.n);
            for (int64_t i = 0; i < made.array[0].length; i++) {
                int64_t key = ((const int64_t *)made.array[0].children[0]->buffers[1])[i];
                CHECK(key >= next);
                next = key + 1;
                rows += ((const int64_t *)made.array[0].children[2]->buffers[1])[i];
            }
            close_all(&made);
            sk_free(b.p);
        }
        sk_work_destroy(w);
        CHECK_EQ(rows, RUNS * EACH);
        CHECK(most < 2 * LIMIT + (256 << 10)); /* of about 20 MB; the rest is keys of pages */
        close_all(&o);
        for (uint32_t i = 0; i < RUNS; i++) {
            for (int k = 0; k < 2; k++) sk_free(maps[i][k].p);
            table_free(&t[i]);
        }
        sk_what_destroy(what);
    }
}

/* States are worth it when rows have at most a quarter as many groups, however late keys repeat and
 * however the rows are cut into batches. */
TEST(states_are_worth_it_where_they_are_a_quarter_as_many) {
    struct sk_what *what = what_of(true);
    static int64_t sums[ROWS_MAX], counts[ROWS_MAX];
    struct table t;
    table_make(&t, ROWS_MAX, ROWS_MAX, sums, counts);
    for (int64_t step = 1 << 12; step <= ROWS_MAX; step *= 2)
        for (int64_t keys = 1 << 10; keys <= ROWS_MAX; keys *= 2) {
            struct sk_states *s;
            int64_t at = 0;
            bool worth = false;
            for (int64_t i = 0; i < ROWS_MAX; i++) t.values[0][i] = i % keys;
            CHECK_OK_ERR(sk_states_create(what, &t.schema, &s, &err), &err);
            for (; at < ROWS_MAX && !worth; at += step) {
                struct ArrowArray a = piece(&t, at, SK_MIN(at + step, (int64_t)ROWS_MAX));
                CHECK_OK_ERR(sk_states_judge(s, &t.schema, &a, &worth, &err), &err);
            }
            CHECK_EQ(sk_states_rows(s), 0);
            /* an estimate is off by a few percent, and keys are looked at in steps */
            if (worth) CHECK(at + (1 << 12) >= 4 * keys * 9 / 10);
            else CHECK(ROWS_MAX < 4 * keys * 11 / 10);
            sk_states_destroy(s);
        }
    table_free(&t);
    sk_what_destroy(what);
}

/* Every allocation of states and of a reduce may fail. */
TEST(aggregates_without_memory) {
    struct sk_what *what = what_of(true);
    struct table t;
    int64_t sums[KEYS] = {0}, counts[KEYS] = {0};
    table_make(&t, 90, 40, sums, counts);
    for (int64_t i = 0; i < 90; i++) t.values[0][i] = i * 40 / 90; /* in order */
    const struct ArrowArray *list[] = {&t.array};
    const struct ArrowSchema *schemas[] = {&t.schema};
    struct sk_slice slice = {.batches = list, .schemas = schemas, .n = 1};
    struct sk_reduce_input in = {.schema = &t.schema,
                                 .slices = &slice,
                                 .n_slices = 1,
                                 .end = 1,
                                 .n = 1,
                                 .target_bytes = 600};
    struct bytes maps[2][2] = {0};
    static struct opened o;
    uint32_t n_maps = 0;
    for (int i = 0; i < 2; i++) map_states(what, &t, &n_maps, maps);
    struct sk_slice states[2];
    for (uint32_t i = 0; i < 2; i++) {
        uint32_t from = o.n;
        open_all(&o, maps[i][1].p, maps[i][1].n);
        states[i] = (struct sk_slice){
            .n = o.n - from, .batches = o.list + from, .schemas = o.schemas + from};
    }
    for (int64_t nth = 1;; nth++) {
        struct sk_states *s = NULL;
        struct sk_work *w = NULL;
        struct sk_block_plan *plan = NULL;
        uint64_t size;
        bool worth;
        sk_mem_fail_at(nth);
        sk_rc rc = sk_states_create(what, &t.schema, &s, &err);
        if (rc == SK_OK) rc = sk_states_judge(s, &t.schema, &t.array, &worth, &err);
        if (rc == SK_OK) rc = sk_states_add(s, &t.schema, &t.array, &err);
        if (rc == SK_OK) rc = sk_states_measure(s, SK_RESULT_PARTIAL, &plan, &size, &err);
        sk_block_plan_free(plan);
        sk_states_destroy(s);
        bool hit = sk_mem_failed();
        sk_mem_fail_at(0);
        CHECK_EQ(rc, hit ? SK_ENOMEM : SK_OK);
        sk_mem_fail_at(nth);
        rc = sk_work_reduce(what, &in, &w, &err);
        for (struct sk_value *v = NULL; rc == SK_OK; sk_value_destroy(v)) {
            rc = sk_work_next(w, &v, &err);
            if (rc != SK_OK || !v) break;
        }
        sk_work_destroy(w);
        bool hit_too = sk_mem_failed();
        sk_mem_fail_at(0);
        CHECK_EQ(rc, hit_too ? SK_ENOMEM : SK_OK);
        sk_mem_fail_at(nth);
        rc = sk_work_merge(
            what,
            &(struct sk_merge_input){
                .schema = &t.schema, .slices = states, .n_slices = 2, .target_bytes = 600},
            &w, &err);
        for (struct sk_value *v = NULL; rc == SK_OK; sk_value_destroy(v)) {
            rc = sk_work_next(w, &v, &err);
            if (rc != SK_OK || !v) break;
        }
        if (w) sk_work_destroy(w);
        w = NULL;
        bool hit_merge = sk_mem_failed();
        sk_mem_fail_at(0);
        CHECK_EQ(rc, hit_merge ? SK_ENOMEM : SK_OK);
        if (!hit && !hit_too && !hit_merge) break;
    }
    close_all(&o);
    for (int i = 0; i < 4; i++) sk_free(maps[i / 2][i % 2].p);
    table_free(&t);
    sk_what_destroy(what);
}
