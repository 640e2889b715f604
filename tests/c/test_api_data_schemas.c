/* test_api_data_schemas.c - pipelines whose batches have several schemas. */
#include <errno.h>

#include "skate_data.h"
#include "test.h"

/* ---- batches of two columns: k (int64) and x, which is int64 with nulls or without, int32, or a
 * timestamp --------------------------------------------------------------------------------------
 */

enum kind { PLAIN, NULLS, METADATA, INT32, TIME };
struct unit {
    enum kind kind;
    int64_t from, to;
};
struct made {
    struct ArrowSchema schema, columns[2], *list[2];
    struct ArrowArray array, arrays[2], *children[2];
    const void *buffers[2][2], *none[1];
    uint8_t valid[16];
    int64_t k[128], x[128];
    int32_t narrow[128];
};
static void release_schema(struct ArrowSchema *s) { s->release = NULL; }
static void release_array(struct ArrowArray *a) { a->release = NULL; }
static void release_made(struct ArrowArray *a) {
    a->release = NULL;
    free(a->private_data);
}
/* A batch of rows [from, to): k and x are their numbers; every third x is null. */
static struct made *make(const struct unit *u) {
    static const char *const formats[] = {"l", "l", "l", "i", "tsu:"};
    static const char metadata[] = {1, 0, 0, 0, 1, 0, 0, 0, 'a', 1, 0, 0, 0, 'b'};
    struct made *m = calloc(1, sizeof *m);
    int64_t n = u->to - u->from;
    for (int64_t i = 0; i < n; i++) {
        m->k[i] = m->x[i] = m->narrow[i] = (int32_t)(u->from + i);
        if (m->k[i] % 3) m->valid[i / 8] |= (uint8_t)(1 << i % 8);
    }
    for (int i = 0; i < 2; i++) {
        bool nulls = i == 1 && u->kind == NULLS;
        m->columns[i] = (struct ArrowSchema){.format = i ? formats[u->kind] : "l",
                                             .name = i ? "x" : "k",
                                             .flags = nulls ? ARROW_FLAG_NULLABLE : 0,
                                             .release = release_schema};
        m->buffers[i][0] = nulls ? m->valid : NULL;
        m->buffers[i][1] = i == 0 ? (void *)m->k : u->kind == INT32 ? (void *)m->narrow : m->x;
        m->arrays[i] = (struct ArrowArray){.length = n,
                                           .null_count = nulls ? -1 : 0,
                                           .n_buffers = 2,
                                           .buffers = m->buffers[i],
                                           .release = release_array};
        m->list[i] = &m->columns[i];
        m->children[i] = &m->arrays[i];
    }
    m->schema = (struct ArrowSchema){.format = "+s",
                                     .metadata = u->kind == METADATA ? metadata : NULL,
                                     .n_children = 2,
                                     .children = m->list,
                                     .release = release_schema};
    m->array = (struct ArrowArray){.length = n,
                                   .n_buffers = 1,
                                   .buffers = m->none,
                                   .n_children = 2,
                                   .children = m->children,
                                   .release = release_made,
                                   .private_data = m};
    return m;
}
SKATE_TASK(schemas_source) {
    struct made *m = make(skate_arg(t, NULL));
    struct ArrowArray a = m->array;
    struct ArrowSchema s = m->schema;
    return skate_emit(t, &s, &a);
}
SKATE_BATCHES(schemas_same) { return skate_emit(t, schema, batch); }

/* n units of 100 rows each, of these kinds. */
static skate_dataset *source(const enum kind *kinds, size_t n) {
    struct unit u[8];
    struct skate_unit list[8];
    for (size_t i = 0; i < n; i++) {
        u[i] = (struct unit){kinds[i], 100 * (int64_t)i, 100 * (int64_t)i + 100};
        list[i] = (struct skate_unit){&u[i], sizeof u[i], 100, 1600};
    }
    return skate_source("schemas_source", list, n, NULL);
}
static skate_dataset *arrays(enum kind kind) {
    struct made *m = make(&(struct unit){kind, 0, 100});
    struct ArrowSchema s = m->schema;
    struct ArrowArray a = m->array;
    skate_dataset *ds = skate_from_arrays(&s, &a, 1);
    CHECK_MSG(ds != NULL, "%s", skate_error());
    return ds;
}
static void open_engine(void) {
    CHECK_EQ(skate_init(SKATE_WITH(struct skate_opts, .cpus = 2, .store_bytes = 64 << 20)), 0);
}

/* Reads all rows; returns the code. sums: of k, and of x where it is not null; nulls: of x. */
static int read_all(skate_dataset *ds, int64_t *rows, int64_t sums[2], int64_t *nulls) {
    struct ArrowArrayStream s;
    struct ArrowSchema schema;
    struct ArrowArray a;
    *rows = sums[0] = sums[1] = *nulls = 0;
    CHECK(ds != NULL);
    int rc = skate_stream(ds, NULL, &s);
    skate_dataset_release(ds);
    if (rc) return rc;
    while (!(rc = s.get_next(&s, &a)) && a.release) {
        for (int64_t i = 0; i < a.length; i++)
            for (int c = 0; c < 2; c++) {
                const struct ArrowArray *x = a.children[c];
                const uint8_t *valid = x->buffers[0];
                int64_t at = x->offset + i;
                if (valid && !(valid[at / 8] >> at % 8 & 1)) *nulls += c;
                else sums[c] += ((const int64_t *)x->buffers[1])[at];
            }
        *rows += a.length;
        a.release(&a);
    }
    if (!rc) {
        CHECK_EQ(s.get_schema(&s, &schema), 0);
        schema.release(&schema);
    }
    s.release(&s);
    return rc;
}

/* ---- schemas that are one but for nulls and metadata -------------------------------------------
 */

static const enum kind mixed[] = {PLAIN, NULLS, METADATA, PLAIN, NULLS, METADATA, PLAIN, PLAIN};
static const char *const k_only[] = {"k"};

static skate_dataset *exchanged(int which, const struct skate_exchange_opts *o) {
    struct skate_join j = SKATE_OPTS(struct skate_join);
    j.left_keys = k_only;
    j.n_keys = 1;
    j.right_suffix = "_r";
    skate_dataset *ds = source(mixed, 8);
    switch (which) {
    case 0: return skate_sort(ds, (struct skate_key[]){{"k", true, false}}, 1, o);
    case 1: return skate_distinct(ds, k_only, 1, o);
    case 2: return skate_join(ds, source(mixed, 8), &j, o);
    case 3: return skate_random_shuffle(ds, 7, o);
    case 4:
        return skate_groupby(ds, k_only, 1,
                             (struct skate_agg[]){{.kind = "sum", .column = "x", .as = "x"}}, 1, o);
    case 5: return skate_map_groups(ds, k_only, 1, "schemas_same", NULL, o);
    default: return skate_repartition(ds, o);
    }
}

TEST(schemas_that_differ_in_nulls_and_metadata) {
    open_engine();
    int64_t rows, sums[2], nulls;
    for (unsigned s = 0; skate_strategy_name(s); s++)
        for (int i = 0; i < 7; i++) {
            struct skate_exchange_opts o = SKATE_OPTS(struct skate_exchange_opts);
            o.strategy = skate_strategy_name(s);
            o.partitions = i == 6 ? 3 : 0;
            CHECK_MSG(read_all(exchanged(i, &o), &rows, sums, &nulls) == 0, "%d by %s: %s", i,
                      o.strategy, skate_error());
            CHECK_EQ(rows, 800);
            CHECK_EQ(sums[0], 800 * 799 / 2);
            CHECK_EQ(nulls, 66); /* 102, 105, ... 198 and 402, ... 498 */
            CHECK_EQ(sums[1], 800 * 799 / 2 - 33 * 150 - 33 * 450);
        }
    skate_dataset *both[] = {source(mixed, 2), arrays(PLAIN), arrays(NULLS)};
    skate_dataset *ds = skate_union(both, 3);
    CHECK_EQ(read_all(skate_sort(ds, (struct skate_key[]){{"x", false, true}}, 1, NULL), &rows,
                      sums, &nulls),
             0);
    CHECK(rows == 400 && nulls == 33 + 34);
    skate_shutdown();
}

TEST(a_stream_of_several_schemas) {
    open_engine();
    int64_t rows, sums[2], nulls;
    skate_dataset *both[] = {arrays(NULLS), arrays(PLAIN), arrays(METADATA)};
    CHECK_EQ(read_all(skate_union(both, 3), &rows, sums, &nulls), 0);
    CHECK(rows == 300 && nulls == 34);
    skate_dataset *bad[] = {arrays(PLAIN), arrays(NULLS)}; /* the first says that it has none */
    CHECK_EQ(read_all(skate_union(bad, 2), &rows, sums, &nulls), EINVAL);
    CHECK_STR_HAS(skate_error(), "column 'x' (format \"l\") may have nulls, and could not before");
    skate_shutdown();
}

/* ---- schemas of which no batch can hold both ---------------------------------------------------
 */

TEST(types_that_differ_are_named) {
    open_engine();
    int64_t rows, sums[2], nulls;
    struct skate_key by_k = {"k", false, false};
    const char *says = "have two schemas, (k \"l\", x \"l\") and (k \"l\", x \"i\"): cast them";
    for (unsigned s = 0; skate_strategy_name(s); s++) {
        struct skate_exchange_opts o = SKATE_OPTS(struct skate_exchange_opts);
        o.strategy = skate_strategy_name(s);
        skate_dataset *ds = skate_sort(source((enum kind[]){PLAIN, INT32}, 2), &by_k, 1, &o);
        CHECK_EQ(read_all(ds, &rows, sums, &nulls), EINVAL);
        CHECK_STR_HAS(skate_error(), says);
    }
    skate_dataset *ds = skate_map_groups(source((enum kind[]){PLAIN, INT32}, 2), k_only, 1,
                                         "schemas_same", NULL, NULL);
    CHECK_EQ(read_all(ds, &rows, sums, &nulls), EINVAL);
    CHECK_STR_HAS(skate_error(), says);
    struct skate_join j = SKATE_OPTS(struct skate_join);
    j.left_keys = j.right_keys = (const char *[]){"x"};
    j.n_keys = 1;
    j.right_suffix = "_r";
    ds = skate_join(source(mixed, 1), source((enum kind[]){TIME}, 1), &j, NULL);
    CHECK_EQ(read_all(ds, &rows, sums, &nulls), EINVAL);
    CHECK_STR_HAS(skate_error(), "the keys of both sides have types of which no column holds all");
    CHECK_STR_HAS(skate_error(), "(k \"l\", x \"l\") and (k \"l\", x \"tsu:\")");
    skate_shutdown();
}

TEST(counting_rows_reads_no_column) {
    open_engine();
    struct ArrowArrayStream s;
    struct ArrowArray a;
    skate_dataset *both[] = {source((enum kind[]){PLAIN, INT32, TIME, NULLS}, 4), arrays(INT32),
                             skate_range(1000000, NULL, NULL)};
    skate_dataset *ds = skate_groupby(skate_union(both, 3), NULL, 0,
                                      (struct skate_agg[]){{.kind = "count", .as = "n"}}, 1, NULL);
    CHECK_EQ(skate_stream(ds, NULL, &s), 0);
    CHECK_MSG(s.get_next(&s, &a) == 0, "%s", skate_error());
    CHECK(a.length == 1 && a.n_children == 1);
    CHECK_EQ(((const int64_t *)a.children[0]->buffers[1])[a.children[0]->offset], 1000500);
    a.release(&a);
    s.release(&s);
    skate_dataset_release(ds);
    skate_shutdown();
}

TEST(schemas_that_are_known_are_checked_before_the_run) {
    open_engine();
    int64_t rows, sums[2], nulls;
    struct skate_key by_k = {"k", false, false};
    skate_dataset *both[] = {arrays(PLAIN), skate_limit(arrays(TIME), 5), source(mixed, 1)};
    skate_dataset *ds = skate_union(both, 3);
    skate_dataset *sorted = skate_sort(skate_dataset_retain(ds), &by_k, 1, NULL);
    CHECK(skate_explain(sorted, NULL) == NULL);
    CHECK_STR_HAS(skate_error(), "SortReduce(k): its input Union has batches of two schemas, "
                                 "(k \"l\", x \"l\") and (k \"l\", x \"tsu:\")");
    CHECK_EQ(read_all(sorted, &rows, sums, &nulls), SKATE_EINVAL); /* of skate_stream */
    /* an aggregate that reads other columns does not mind */
    ds = skate_groupby(ds, k_only, 1, (struct skate_agg[]){{.kind = "count", .as = "x"}}, 1, NULL);
    CHECK_EQ(read_all(ds, &rows, sums, &nulls), 0);
    CHECK(rows == 100 && sums[1] == 205);
    skate_shutdown();
}
