/* test_api_data.c - pipelines by skate_data.h, as a program would use them. */
#include <math.h>
#include <errno.h>
#include <unistd.h>

#include "skate_data.h"
#include "test.h"

/* ---- functions of batches -------------------------------------------------------------------- */

SKATE_BATCHES(twice) { /* id -> id, x = 2 * id, k = id % 10 */
    struct skate_column in = {.name = "id"},
                        out[] = {{.name = "id"}, {.name = "k"}, {.name = "x", .format = "g"}};
    struct ArrowSchema s;
    struct ArrowArray a;
    size_t n = (size_t)batch->length;
    int rc = skate_columns(t, schema, batch, &in, 1);
    if (rc || (rc = skate_batch_new(out, 3, n, &s, &a))) return rc;
    const int64_t *id = in.data;
    for (size_t i = 0; i < n; i++) {
        ((int64_t *)out[0].data)[i] = id[i];
        ((int64_t *)out[1].data)[i] = id[i] % 10;
        ((double *)out[2].data)[i] = 2.0 * (double)id[i];
    }
    rc = skate_emit(t, &s, &a);
    s.release(&s);
    return rc;
}
SKATE_BATCHES(same) { return skate_emit(t, schema, batch); }
SKATE_BATCHES(odd) {
    struct skate_column in = {.name = "id"};
    int rc = skate_columns(t, schema, batch, &in, 1);
    for (int64_t i = 0; !rc && i < batch->length; i++)
        skate_keep(t)[i] = ((const int64_t *)in.data)[i] % 2 != 0;
    return rc;
}
SKATE_BATCHES(fails_at_77) {
    struct skate_column in = {.name = "id"};
    int rc = skate_columns(t, schema, batch, &in, 1);
    for (int64_t i = 0; !rc && i < batch->length; i++)
        if (((const int64_t *)in.data)[i] == 77) return skate_fail(t, "seventy-%s", "seven");
    return rc ? rc : skate_emit(t, schema, batch);
}

SKATE_BATCHES(last_byte_of_the_argument) { /* id -> id = the last byte */
    struct skate_column out = {.name = "id"};
    struct ArrowSchema s;
    struct ArrowArray a;
    size_t size;
    const uint8_t *arg = skate_arg(t, &size);
    int rc = skate_batch_new(&out, 1, (size_t)batch->length, &s, &a);
    if (rc) return rc;
    for (int64_t i = 0; i < batch->length; i++) ((int64_t *)out.data)[i] = arg[size - 1];
    rc = skate_emit(t, &s, &a);
    s.release(&s);
    return rc;
}

/* ---- help ------------------------------------------------------------------------------------ */

static void open_engine(void) {
    CHECK_EQ(skate_init(SKATE_WITH(struct skate_opts, .cpus = 2, .store_bytes = 256 << 20)), 0);
}

/* Reads one int64 column of a whole run. */
static int64_t *numbers(skate_dataset *ds, const char *column, size_t *n) {
    struct ArrowArrayStream s;
    struct ArrowSchema schema;
    struct ArrowArray a;
    int64_t *all = NULL;
    *n = 0;
    CHECK(ds != NULL);
    CHECK_EQ(skate_stream(ds, NULL, &s), 0);
    CHECK_MSG(s.get_schema(&s, &schema) == 0, "%s", s.get_last_error(&s));
    for (;;) {
        CHECK_EQ(s.get_next(&s, &a), 0);
        if (!a.release) break;
        struct skate_column c = {.name = column};
        CHECK_EQ(skate_columns(NULL, &schema, &a, &c, 1), 0);
        all = realloc(all, (*n + (size_t)a.length + 1) * sizeof *all);
        memcpy(all + *n, c.data, (size_t)a.length * sizeof *all);
        *n += (size_t)a.length;
        a.release(&a);
    }
    schema.release(&schema);
    s.release(&s);
    return all;
}

TEST(range_is_streamed_in_order) {
    open_engine();
    size_t n;
    skate_dataset *ds = skate_range(1000000, NULL, NULL);
    int64_t *v = numbers(ds, "id", &n);
    CHECK_EQ(n, 1000000);
    for (size_t i = 0; i < n; i++) CHECK_EQ(v[i], (int64_t)i);
    free(v);
    skate_dataset_release(ds);
    skate_shutdown();
}

TEST(a_map_a_filter_and_a_limit) {
    open_engine();
    size_t n;
    skate_dataset *ds = skate_limit(
        skate_filter(skate_map(skate_range(100000, NULL, NULL), "twice", NULL), "odd", NULL), 1000);
    int64_t *v = numbers(ds, "id", &n);
    CHECK_EQ(n, 1000);
    for (size_t i = 0; i < n; i++) CHECK_EQ(v[i], (int64_t)(2 * i + 1));
    free(v);
    skate_dataset_release(ds);
    skate_shutdown();
}

/* Chains of a worker are told apart by the whole description, also if an argument is large, or if
 * another run had the same. */
TEST(arguments_that_differ_in_their_last_byte) {
    for (size_t size = 10; size <= 1 << 20; size = size == 10 ? 1 << 20 : 1 << 30) {
        open_engine();
        uint8_t *arg = calloc(1, size);
        skate_dataset *ds[3];
        for (int i = 0; i < 3; i++) {
            arg[size - 1] = (uint8_t)(7 + i);
            ds[i] = skate_map(skate_range(8 << 16, NULL, NULL), "last_byte_of_the_argument",
                              SKATE_WITH(struct skate_map_opts, .arg = arg, .arg_size = size));
        }
        for (int k = 0; k < 9; k++) {
            size_t n;
            int64_t *v = numbers(ds[k % 3], "id", &n);
            CHECK_EQ(n, 8 << 16);
            for (size_t i = 0; i < n; i++) CHECK_EQ(v[i], 7 + k % 3);
            free(v);
        }
        for (int i = 0; i < 3; i++) skate_dataset_release(ds[i]);
        free(arg);
        skate_shutdown();
    }
}

TEST(a_sort_downwards) {
    open_engine();
    size_t n;
    skate_dataset *ds = skate_sort(skate_map(skate_range(300000, NULL, NULL), "same", NULL),
                                   (struct skate_key[]){{"id", true, false}}, 1, NULL);
    int64_t *v = numbers(ds, "id", &n);
    CHECK_EQ(n, 300000);
    for (size_t i = 0; i < n; i++) CHECK_EQ(v[i], (int64_t)(n - 1 - i));
    free(v);
    skate_dataset_release(ds);
    skate_shutdown();
}

TEST(groups_and_their_sums) {
    open_engine();
    size_t n;
    const char *keys[] = {"k"};
    skate_dataset *ds =
        skate_groupby(skate_map(skate_range(100000, NULL, NULL), "twice", NULL), keys, 1,
                      (struct skate_agg[]){{.kind = "sum", .column = "id", .as = "s"},
                                           {.kind = "count", .as = "n"}},
                      2, NULL);
    int64_t *v = numbers(skate_dataset_retain(ds), "s", &n);
    CHECK_EQ(n, 10);
    for (size_t i = 0; i < n; i++) CHECK_EQ(v[i], (int64_t)(499950000 + 10000 * i));
    free(v);
    v = numbers(ds, "n", &n);
    for (size_t i = 0; i < n; i++) CHECK_EQ(v[i], 10000);
    free(v);
    skate_dataset_release(ds);
    skate_dataset_release(ds);
    skate_shutdown();
}

TEST(aggregates_with_a_parameter) { /* of k = 0 ... 9, each 10,000 times, and id */
    open_engine();
    skate_dataset *ds = skate_groupby(
        skate_map(skate_range(100000, NULL, NULL), "twice", NULL), NULL, 0,
        (struct skate_agg[]){{.kind = "quantile", .column = "id", .as = "half", .q = 0.5},
                             {.kind = "approx_quantile", .column = "id", .as = "near", .q = 0.25},
                             {.kind = "approx_topk", .column = "k", .as = "top", .q = 3}},
        3, NULL);
    struct ArrowArrayStream out;
    struct ArrowArray a;
    CHECK_EQ(skate_stream(ds, NULL, &out), 0);
    CHECK(out.get_next(&out, &a) == 0 && a.release && a.length == 1 && a.n_children == 3);
    CHECK(fabs(((const double *)a.children[0]->buffers[1])[0] - 49999.5) < 1e-9);
    const struct ArrowArray *near = a.children[1]->children[0], *top = a.children[2]->children[0];
    CHECK_EQ(near->length, 1);
    CHECK(fabs(((const double *)near->buffers[1])[near->offset] - 25000) < 25000 * 0.001);
    CHECK_EQ(top->length, 3);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(((const int64_t *)top->children[1]->buffers[1])[top->children[1]->offset + i],
                 10000);
    a.release(&a);
    out.release(&out);
    skate_dataset_release(ds);
    skate_shutdown();
}

/* A unit of rows: their number, that of their keys. */
SKATE_TASK(cycles) { /* k = row % keys, v = row */
    const int64_t *unit = skate_arg(t, NULL), step = 10000;
    for (int64_t at = 0; at < unit[0]; at += step) {
        struct skate_column c[] = {{.name = "k"}, {.name = "v"}};
        struct ArrowSchema s;
        struct ArrowArray a;
        int rc = skate_batch_new(c, 2, (size_t)step, &s, &a);
        for (int64_t i = 0; !rc && i < step; i++) {
            ((int64_t *)c[0].data)[i] = (at + i) % unit[1];
            ((int64_t *)c[1].data)[i] = at + i;
        }
        if (rc || (rc = skate_emit(t, &s, &a))) return rc;
        s.release(&s);
    }
    return 0;
}

/* Keys repeat only after 30,000 rows, or never: maps give states and rows, which each strategy
 * moves and merges in its way. */
TEST(groups_whose_keys_repeat_late) {
    enum { ROWS = 150000, KEYS = 30000 };
    static const int64_t units[][2] = {{ROWS, KEYS}, {ROWS, ROWS}, {ROWS, KEYS}, {ROWS, KEYS}};
    struct skate_unit u[SK_COUNT(units)];
    const char *keys[] = {"k"}, *name;
    static int64_t want[ROWS];
    open_engine();
    for (size_t i = 0; i < SK_COUNT(units); i++) {
        u[i] = (struct skate_unit){units[i], sizeof units[i], ROWS, 16 * ROWS};
        for (int64_t row = 0; row < ROWS; row++) want[row % units[i][1]] += row;
    }
    for (unsigned i = 0; (name = skate_strategy_name(i)); i++) {
        size_t n;
        struct skate_exchange_opts o = SKATE_OPTS(struct skate_exchange_opts);
        o.strategy = name;
        skate_dataset *ds =
            skate_groupby(skate_source("cycles", u, SK_COUNT(u), NULL), keys, 1,
                          (struct skate_agg[]){{.kind = "sum", .column = "v", .as = "s"}}, 1, &o);
        int64_t *v = numbers(ds, "s", &n);
        CHECK_EQ(n, ROWS);
        for (size_t k = 0; k < n; k++)
            CHECK_MSG(v[k] == want[k], "%s: key %zu: %lld, not %lld", name, k, (long long)v[k],
                      (long long)want[k]);
        free(v);
        skate_dataset_release(ds);
    }
    skate_shutdown();
}

TEST(a_random_order_is_a_permutation) {
    open_engine();
    size_t n;
    skate_dataset *ds = skate_random_shuffle(skate_range(200000, NULL, NULL), 7, NULL);
    int64_t *v = numbers(ds, "id", &n);
    CHECK_EQ(n, 200000);
    uint8_t *seen = calloc(n, 1);
    size_t moved = 0;
    for (size_t i = 0; i < n; i++) {
        CHECK(v[i] >= 0 && v[i] < (int64_t)n && !seen[v[i]]);
        seen[v[i]] = 1;
        moved += v[i] != (int64_t)i;
    }
    CHECK(moved > n / 2);
    free(seen);
    free(v);
    skate_dataset_release(ds);
    skate_shutdown();
}

TEST(a_failure_of_a_function_names_it) {
    open_engine();
    skate_dataset *ds = skate_map(skate_range(1000, NULL, NULL), "fails_at_77", NULL);
    int64_t rows;
    CHECK_EQ(skate_count(ds, NULL, &rows), SKATE_ETASK);
    CHECK_STR_EQ(skate_error(), "Map(fails_at_77): fails_at_77: seventy-seven");
    skate_dataset_release(ds);
    struct skate_map_opts o = SKATE_OPTS(struct skate_map_opts);
    o.on_error = SKATE_SKIP;
    ds = skate_map(skate_range(1000, NULL, NULL), "fails_at_77", &o);
    CHECK_EQ(skate_count(ds, NULL, &rows), 0);
    CHECK_EQ(rows, 999);
    skate_dataset_release(ds);
    skate_shutdown();
}

TEST(a_chain_keeps_its_first_failure) {
    open_engine();
    skate_dataset *ds = skate_sort(skate_map(skate_range(10, NULL, NULL), "no_such", NULL),
                                   (struct skate_key[]){{"id", false, false}}, 1, NULL);
    CHECK(!ds);
    CHECK_STR_EQ(skate_error(), "no function of batches 'no_such' is registered in this process");
    skate_shutdown();
}

/* ---- groups, joins, zip ---------------------------------------------------------------------- */

SKATE_BATCHES(one_row) { /* k, and the number of rows of the group */
    struct skate_column in = {.name = "k"}, out[] = {{.name = "k"}, {.name = "n"}};
    struct ArrowSchema s;
    struct ArrowArray a;
    int rc = skate_columns(t, schema, batch, &in, 1);
    if (rc || (rc = skate_batch_new(out, 2, 1, &s, &a))) return rc;
    ((int64_t *)out[0].data)[0] = ((const int64_t *)in.data)[0];
    ((int64_t *)out[1].data)[0] = batch->length;
    for (int64_t i = 1; i < batch->length; i++)
        if (((const int64_t *)in.data)[i] != ((const int64_t *)in.data)[0])
            return skate_fail(t, "a group has two keys");
    rc = skate_emit(t, &s, &a);
    s.release(&s);
    return rc;
}

static skate_dataset *keyed(int64_t rows) {
    return skate_map(skate_range(rows, NULL, NULL), "twice", NULL);
}

TEST(a_function_gets_each_group_whole) {
    open_engine();
    size_t n;
    const char *keys[] = {"k"};
    for (int pooled = 0; pooled < 2; pooled++) {
        struct skate_map_opts m = SKATE_OPTS(struct skate_map_opts);
        m.actors = pooled ? 1 : 0;
        skate_dataset *ds = skate_map_groups(keyed(70000), keys, 1, "one_row", &m, NULL);
        int64_t *v = numbers(skate_dataset_retain(ds), "n", &n);
        CHECK_EQ(n, 10);
        for (size_t i = 0; i < n; i++) CHECK_EQ(v[i], 7000);
        free(v);
        v = numbers(ds, "k", &n);
        for (size_t i = 0; i < n; i++) CHECK_EQ(v[i], (int64_t)i);
        free(v);
        skate_dataset_release(ds);
        skate_dataset_release(ds);
    }
    skate_shutdown();
}

TEST(distinct_keeps_the_first_row_of_each_key) {
    open_engine();
    size_t n;
    const char *keys[] = {"k"};
    skate_dataset *ds = skate_distinct(keyed(70000), keys, 1, NULL);
    int64_t *v = numbers(ds, "id", &n);
    CHECK_EQ(n, 10);
    for (size_t i = 0; i < n; i++) CHECK_EQ(v[i], (int64_t)i);
    free(v);
    skate_dataset_release(ds);
    skate_shutdown();
}

TEST(joins_of_all_kinds) { /* left: 0..999, right: 500..1,499 under another name */
    open_engine();
    static const int64_t rows[] = {500, 1000, 1000, 1500, 500, 500, 500, 500};
    const char *left[] = {"id"}, *right[] = {"r"}, *all[] = {"id"};
    for (int kind = 0; kind < 8; kind++) {
        struct skate_join j = SKATE_OPTS(struct skate_join);
        j.kind = (enum skate_join_kind)kind;
        j.left_keys = left;
        j.right_keys = right;
        j.n_keys = 1;
        skate_dataset *r = skate_filter(skate_range(1500, NULL, NULL), "from_500", NULL);
        r = skate_select(r, all, right, 1);
        skate_dataset *ds = skate_join(skate_range(1000, NULL, NULL), r, &j, NULL);
        int64_t n = 0;
        CHECK_EQ(skate_count(ds, NULL, &n), 0);
        CHECK_EQ(n, rows[kind]);
        skate_dataset_release(ds);
    }
    skate_shutdown();
}
SKATE_BATCHES(from_500) {
    struct skate_column in = {.name = "id"};
    int rc = skate_columns(t, schema, batch, &in, 1);
    for (int64_t i = 0; !rc && i < batch->length; i++)
        skate_keep(t)[i] = ((const int64_t *)in.data)[i] >= 500;
    return rc;
}

TEST(zip_puts_columns_side_by_side) {
    open_engine();
    size_t n;
    skate_dataset *ds = skate_zip(skate_range(200000, NULL, NULL), skate_range(200000, NULL, NULL));
    int64_t *a = numbers(skate_dataset_retain(ds), "id", &n);
    int64_t *b = numbers(ds, "id_1", &n);
    CHECK_EQ(n, 200000);
    CHECK_MEM_EQ(a, b, n * sizeof *a);
    free(a);
    free(b);
    skate_dataset_release(ds);
    skate_dataset_release(ds);
    skate_shutdown();
}

/* ---- sinks, dead letters, records ------------------------------------------------------------ */

struct sum {
    int64_t of;
};
static int sum_begin(struct skate_task *t, void **state) {
    (void)t;
    *state = calloc(1, sizeof(struct sum));
    return *state ? SKATE_OK : SKATE_ENOMEM;
}
static int sum_rows(struct skate_task *t, const struct ArrowSchema *schema,
                    struct ArrowArray *batch) {
    struct skate_column in = {.name = "id"};
    struct sum *s = skate_task_state(t);
    int rc = skate_columns(t, schema, batch, &in, 1);
    for (int64_t i = 0; !rc && i < batch->length; i++) s->of += ((const int64_t *)in.data)[i];
    return rc;
}
static int sum_end(struct skate_task *t) {
    struct sum *s = skate_task_state(t);
    CHECK(strlen(skate_write_id(t)) > 20);
    return skate_report(t, &s->of, sizeof s->of);
}
static const struct skate_batch_fns sums = {
    .size = sizeof sums, .batch = sum_rows, .begin = sum_begin, .end = sum_end, .drop = free};
__attribute__((constructor(102))) static void register_sums(void) {
    (void)skate_register_batches("sums", &sums);
}

struct seen {
    int64_t sum;
    int commits, aborts;
};
static int commit(void *ctx, const struct skate_arg *r, size_t n) {
    struct seen *s = ctx;
    int64_t x;
    s->commits++;
    for (size_t i = 0; i < n; i++) {
        CHECK_EQ(r[i].size, sizeof x);
        memcpy(&x, r[i].data, sizeof x);
        s->sum += x;
    }
    return SKATE_OK;
}
static void abort_write(void *ctx, const struct skate_arg *r, size_t n) {
    (void)r, (void)n;
    ((struct seen *)ctx)->aborts++;
}

TEST(a_write_commits_once_or_aborts) {
    open_engine();
    struct seen s = {0};
    struct skate_sink sink = {sizeof sink, "sums", commit, abort_write, &s};
    skate_dataset *ds = skate_range(1000000, NULL, NULL);
    CHECK_EQ(skate_write(ds, &sink, NULL, NULL), 0);
    CHECK_EQ(s.sum, INT64_C(499999500000));
    CHECK_EQ(s.commits, 1);
    ds = skate_map(ds, "fails_at_77", NULL);
    CHECK_EQ(skate_write(ds, &sink, NULL, NULL), SKATE_ETASK);
    CHECK_EQ(s.commits, 1);
    CHECK_EQ(s.aborts, 1);
    skate_dataset_release(ds);
    skate_shutdown();
}

TEST(quarantined_rows_come_with_their_error) {
    open_engine();
    struct skate_map_opts o = SKATE_OPTS(struct skate_map_opts);
    struct ArrowArrayStream stream;
    struct ArrowSchema schema;
    struct ArrowArray a;
    o.on_error = SKATE_QUARANTINE;
    skate_dataset *ds = skate_map(skate_range(1000, NULL, NULL), "fails_at_77", &o);
    CHECK_EQ(skate_stream(ds, NULL, &stream), 0);
    int64_t rows = 0;
    for (;;) {
        CHECK_EQ(stream.get_next(&stream, &a), 0);
        if (!a.release) break;
        rows += a.length;
        a.release(&a);
    }
    CHECK_EQ(rows, 999);
    CHECK_EQ(skate_stream_dead(&stream, &schema, &a), 0);
    CHECK_EQ(a.length, 1);
    CHECK_EQ(schema.n_children, 4);
    CHECK_STR_EQ(schema.children[3]->name, "row");
    CHECK_MEM_EQ((const char *)a.children[1]->buffers[2], "seventy-seven", 13);
    const struct ArrowArray *id = a.children[3]->children[0];
    CHECK_EQ(((const int64_t *)id->buffers[1])[id->offset], 77);
    schema.release(&schema);
    a.release(&a);
    CHECK_EQ(skate_stream_dead(&stream, &schema, &a), 0);
    CHECK(!a.release);
    struct skate_run_stats st = SKATE_OPTS(struct skate_run_stats);
    CHECK_EQ(skate_stream_stats(&stream, &st), 0);
    CHECK_EQ(st.bad_rows, 1);
    CHECK_EQ(st.rows, 999);
    char *json = skate_stream_stats_json(&stream);
    CHECK_STR_HAS(json, "\"label\": \"Range(1000)->Map(fails_at_77)\"");
    free(json);
    stream.release(&stream);
    skate_dataset_release(ds);
    skate_shutdown();
}

TEST(records_of_files_are_rows) {
    char path[] = "/tmp/skate-records-XXXXXX";
    int fd = mkstemp(path);
    CHECK(fd >= 0);
    char record[10];
    for (int i = 0; i < 1000; i++) {
        snprintf(record, sizeof record, "%09d", 999 - i);
        CHECK_EQ(write(fd, record, 10), 10);
    }
    close(fd);
    open_engine();
    const char *paths[] = {path};
    skate_dataset *ds = skate_sort(skate_read_records(paths, 1, 10, NULL, NULL),
                                   (struct skate_key[]){{"record", false, false}}, 1, NULL);
    struct ArrowArrayStream stream;
    struct ArrowArray a;
    CHECK_EQ(skate_stream(ds, NULL, &stream), 0);
    CHECK_EQ(stream.get_next(&stream, &a), 0);
    CHECK_EQ(a.length, 1000);
    const char *bytes = (const char *)a.children[0]->buffers[1] + 10 * a.children[0]->offset;
    CHECK_MEM_EQ(bytes, "000000000", 9);
    CHECK_MEM_EQ(bytes + 9990, "000000999", 9);
    a.release(&a);
    stream.release(&stream);
    skate_dataset_release(ds);
    CHECK(!skate_read_records(paths, 1, 7, NULL, NULL));
    CHECK_STR_HAS(skate_error(), "which are not whole records of 7");
    unlink(path);
    skate_shutdown();
}

/* ---- streams in ------------------------------------------------------------------------------ */

TEST(a_stream_out_is_a_stream_in) {
    open_engine();
    size_t n;
    struct ArrowArrayStream stream;
    skate_dataset *ds = skate_range(100000, NULL, NULL);
    CHECK_EQ(skate_stream(ds, NULL, &stream), 0);
    skate_dataset_release(ds);
    ds = skate_limit(skate_from_stream(&stream), 90000);
    CHECK(!stream.release);
    char *plan = skate_explain(ds, NULL);
    CHECK_STR_HAS(plan, "Limit(90000)");
    CHECK_STR_HAS(plan, "Stream  read by this process as the run goes");
    free(plan);
    int64_t *v = numbers(ds, "id", &n);
    CHECK_EQ(n, 90000);
    for (size_t k = 0; k < n; k++) CHECK_EQ(v[k], (int64_t)k);
    free(v);
    skate_dataset_release(ds);
    skate_shutdown();
}

TEST(shutdown_ends_open_streams) {
    open_engine();
    struct ArrowArrayStream stream;
    struct ArrowArray a, later;
    skate_dataset *ds = skate_map(skate_range(3000000, NULL, NULL), "same", NULL);
    CHECK_EQ(skate_stream(ds, NULL, &stream), 0);
    CHECK_EQ(stream.get_next(&stream, &a), 0);
    skate_shutdown();
    CHECK_EQ(stream.get_next(&stream, &later), ECANCELED);
    CHECK_STR_EQ(stream.get_last_error(&stream), "skate was shut down");
    CHECK_EQ(((const int64_t *)a.children[0]->buffers[1])[a.children[0]->offset], 0);
    a.release(&a);
    stream.release(&stream);
    skate_dataset_release(ds);
}
