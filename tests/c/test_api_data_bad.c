/* test_api_data_bad.c - pipelines that are used wrongly: arguments, arrays that lie, functions that
 * break their contract, workers that die. */
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "skate_data.h"
#include "test.h"

/* ---- help ------------------------------------------------------------------------------------ */

static void open_engine(void) {
    CHECK_EQ(skate_init(SKATE_WITH(struct skate_opts, .cpus = 2, .store_bytes = 256 << 20)), 0);
}

static skate_dataset *numbers(int64_t n) { return skate_range(n, NULL, NULL); }

/* Runs the dataset, which has to fail with the code and a message that has the text. */
static void fails(skate_dataset *ds, int code, const char *text) {
    int64_t rows;
    CHECK(ds != NULL);
    int rc = skate_count(ds, NULL, &rows);
    CHECK_MSG(rc == code, "%s, not %s: %s", skate_code_name(rc), skate_code_name(code),
              skate_error());
    CHECK_STR_HAS(skate_error(), text);
    skate_dataset_release(ds);
}
static int64_t count(skate_dataset *ds) {
    int64_t rows = -1;
    CHECK_MSG(ds && skate_count(ds, NULL, &rows) == 0, "%s", skate_error());
    skate_dataset_release(ds);
    return rows;
}
static void refused(const void *ds, const char *text) {
    CHECK(!ds);
    CHECK_STR_HAS(skate_error(), text);
}

/* ---- arguments ------------------------------------------------------------------------------- */

SKATE_BATCHES(bad_same) { return skate_emit(t, schema, batch); }
SKATE_TASK(bad_source) { return SKATE_OK; }

TEST(wrong_arguments_are_refused) {
    struct skate_map_opts m = SKATE_OPTS(struct skate_map_opts);
    const char *one[] = {"id"}, *null[] = {NULL};
    skate_dataset *nothing[] = {NULL};
    m.size = 3;
    refused(skate_range(1, NULL, &m), "range: the options begin with size 3");
    m = (struct skate_map_opts)SKATE_OPTS(struct skate_map_opts);
    m.gpus = NAN;
    refused(skate_map(numbers(1), "bad_same", &m), "out of range");
    m.gpus = 0;
    m.cpus = 1e300;
    refused(skate_map(numbers(1), "bad_same", &m), "out of range");
    m.cpus = 0;
    m.arg_size = 5;
    refused(skate_map(numbers(1), "bad_same", &m), "map: arg is NULL");
    m.arg_size = 0;
    m.on_error = SKATE_SKIP;
    refused(skate_filter(numbers(1), "bad_same", &m), "filter: on_error");
    refused(skate_range(-1, NULL, NULL), "range: -1 numbers");
    refused(skate_map(numbers(1), NULL, NULL), "(null)");
    refused(skate_source(NULL, NULL, 0, NULL), "no function '(null)'");
    refused(skate_source("bad_source", NULL, 4, NULL), "4 units");
    refused(skate_source("bad_source", &(struct skate_unit){.bytes = 7}, 1, NULL),
            "unit 0 is NULL, and has 7 bytes");
    refused(skate_read_records(null, 1, 8, NULL, NULL), "a path is NULL");
    refused(skate_read_records((const char *[]){"/tmp"}, 1, 1, NULL, NULL), "/tmp is no file");
    refused(skate_read_records((const char *[]){"/no/such"}, 1, 1, NULL, NULL), "/no/such");
    refused(skate_read_records(one, 1, 0, NULL, NULL), "records of 0 bytes");
    refused(skate_select(numbers(1), null, NULL, 1), "a name of a column is NULL");
    refused(skate_select(numbers(1), NULL, NULL, 1), "a name of a column is NULL");
    refused(skate_limit(numbers(1), -5), "limit: -5 rows");
    refused(skate_union(NULL, 2), "union: at least one");
    refused(skate_union(nothing, 0), "union: at least one");
    refused(skate_sort(numbers(1), NULL, 1, NULL), "sort: 1 keys");
    refused(skate_sort(numbers(1), (struct skate_key[]){{NULL, false, false}}, 1, NULL),
            "the name of a key is NULL");
    refused(skate_sort(numbers(1), (struct skate_key[]){{"id", false, false}}, 0, NULL),
            "sort: 0 keys");
    struct skate_exchange_opts x = SKATE_OPTS(struct skate_exchange_opts);
    x.strategy = "none such";
    refused(skate_random_shuffle(numbers(1), 1, &x), "no shuffle strategy is called 'none such'");
    x.strategy = NULL;
    x.partitions = 1u << 31;
    refused(skate_random_shuffle(numbers(1), 1, &x), "partitions; the most are");
    refused(skate_repartition(numbers(1), NULL), "repartition: options");
    refused(skate_groupby(numbers(1), one, 1, NULL, 0, NULL), "groupby: no aggregates");
    refused(skate_groupby(numbers(1), null, 1, (struct skate_agg[]){{.kind = "count"}}, 1, NULL),
            "the name of a key is NULL");
    refused(skate_groupby(numbers(1), one, 1, (struct skate_agg[]){{.kind = "sum"}}, 1, NULL),
            "needs a column");
    refused(skate_groupby(numbers(1), one, 1, (struct skate_agg[]){{.kind = NULL}}, 1, NULL),
            "no aggregate is called '(null)'");
    refused(skate_groupby(numbers(1), one, 1,
                          (struct skate_agg[]){{.kind = "quantile", .column = "x", .q = 2}}, 1,
                          NULL),
            "quantile of 'x' with q = 2: q has to be in 0 to 1");
    refused(skate_groupby(numbers(1), one, 1,
                          (struct skate_agg[]){{.kind = "approx_topk", .column = "x"}}, 1, NULL),
            "q has to be a number of values, at least 1");
    refused(skate_distinct(numbers(1), NULL, 1, NULL), "distinct: 1 keys");
    refused(skate_map_groups(numbers(1), one, 1, "no such", NULL, NULL), "no such");
    refused(skate_join(numbers(1), numbers(1), NULL, NULL), "join: a description");
    struct skate_join j = SKATE_OPTS(struct skate_join);
    j.n_keys = 1;
    j.left_keys = null;
    refused(skate_join(numbers(1), numbers(1), &j, NULL), "the name of a key is NULL");
    j.kind = (enum skate_join_kind)77;
    refused(skate_join(numbers(1), numbers(1), &j, NULL), "join: a description");
    refused(skate_from_stream(NULL), "from_stream");
    CHECK_EQ(skate_register_batches(NULL, NULL), SKATE_EINVAL);
    CHECK_EQ(skate_stream(NULL, NULL, NULL), SKATE_EINVAL);
    CHECK_EQ(skate_count(NULL, NULL, NULL), SKATE_EINVAL);
    CHECK(skate_emit(NULL, NULL, NULL) == SKATE_EINVAL);
    CHECK(!skate_arg(NULL, NULL) && !skate_state(NULL) && !skate_task_state(NULL));
    CHECK(!skate_keep(NULL) && !*skate_write_id(NULL));
}

TEST(calls_before_and_after_the_engine) {
    struct ArrowArrayStream s;
    skate_dataset *ds = numbers(10);
    int64_t rows;
    CHECK_EQ(skate_stream(ds, NULL, &s), SKATE_ECLOSED);
    CHECK(!s.release);
    CHECK(!skate_explain(ds, NULL));
    open_engine();
    skate_shutdown();
    CHECK_EQ(skate_count(ds, NULL, &rows), SKATE_ECLOSED);
    CHECK_STR_HAS(skate_error(), "call skate_init first");
    struct ArrowSchema schema = {.format = "+s"};
    refused(skate_from_arrays(&schema, NULL, 0), "call skate_init first");
    skate_dataset_release(ds);
}

TEST(wrong_options_of_a_run) {
    open_engine();
    struct skate_run_opts o = SKATE_OPTS(struct skate_run_opts);
    struct ArrowArrayStream s;
    skate_dataset *ds = numbers(10);
    o.size++;
    CHECK_EQ(skate_stream(ds, &o, &s), SKATE_EINVAL);
    o.size--;
    o.policy = "none such";
    CHECK_EQ(skate_stream(ds, &o, &s), SKATE_EINVAL);
    CHECK_STR_HAS(skate_error(), "none such");
    o.policy = NULL;
    o.strategy = "none such";
    CHECK_EQ(skate_stream(ds, &o, &s), SKATE_EINVAL);
    CHECK_STR_HAS(skate_error(), "none such");
    o.strategy = NULL;
    o.block_bytes = UINT64_MAX;
    CHECK_EQ(skate_stream(ds, &o, &s), SKATE_EINVAL);
    CHECK_STR_HAS(skate_error(), "block_bytes");
    o.block_bytes = 1;
    int64_t rows;
    CHECK_EQ(skate_count(ds, &o, &rows), 0);
    CHECK_EQ(rows, 10);
    CHECK_EQ(skate_stream_stats(NULL, NULL), SKATE_EINVAL);
    CHECK(!skate_stream_stats_json(NULL));
    CHECK_EQ(skate_stream_dead(NULL, NULL, NULL), SKATE_EINVAL);
    CHECK_EQ(skate_write(ds, NULL, NULL, NULL), SKATE_EINVAL);
    CHECK_EQ(count(skate_select(skate_dataset_retain(ds), NULL, NULL, 0)), 10);
    CHECK_EQ(count(skate_source("bad_source", NULL, 0, NULL)), 0);
    skate_dataset_release(ds);
    skate_shutdown();
}

/* ---- processes ------------------------------------------------------------------------------- */

SKATE_TASK(streams_inside) {
    struct ArrowArrayStream s;
    skate_dataset *ds = numbers(10);
    int rc = skate_stream(ds, NULL, &s);
    skate_dataset_release(ds);
    skate_shutdown(); /* does nothing in a worker */
    return rc;
}
TEST(a_task_runs_no_dataset) {
    open_engine();
    skate_ref out;
    CHECK_EQ(skate_submit("streams_inside", NULL, 0, 1, NULL, &out), 0);
    struct skate_value v;
    CHECK_EQ(skate_get(out, -1, &v), SKATE_EINVAL);
    CHECK_STR_HAS(skate_error(), "a task cannot run a dataset");
    skate_release(out);
    skate_shutdown();
}

TEST(a_forked_child_cannot_use_the_engine) {
    open_engine();
    struct ArrowArrayStream s, mine;
    skate_dataset *ds = numbers(1000);
    CHECK_EQ(skate_stream(ds, NULL, &mine), 0);
    pid_t child = fork();
    if (!child) {
        if (skate_stream(ds, NULL, &s) != SKATE_ECLOSED) _exit(1);
        if (!strstr(skate_error(), "forked")) _exit(2);
        mine.release(&mine);
        skate_dataset_release(ds);
        skate_shutdown();
        _exit(0);
    }
    int status;
    CHECK_EQ(waitpid(child, &status, 0), child);
    CHECK_EQ(status, 0);
    struct ArrowArray a;
    CHECK_EQ(mine.get_next(&mine, &a), 0);
    CHECK(a.release != NULL);
    a.release(&a);
    mine.release(&mine);
    skate_dataset_release(ds);
    skate_shutdown();
}

SKATE_BATCHES(crashes) {
    (void)signal(SIGSEGV, SIG_DFL); /* no report of a sanitizer */
    raise(SIGSEGV);
    return 0;
}
TEST(a_function_that_crashes) {
    open_engine();
    struct skate_map_opts m = SKATE_OPTS(struct skate_map_opts);
    m.max_retries = 1;
    fails(skate_map(numbers(10), "crashes", &m), SKATE_EDEAD, "Map(crashes)");
    skate_shutdown();
}

SKATE_BATCHES(never_returns) {
    while (!kill(getpid(), 0)) pause();
    return 0;
}
TEST(a_function_that_never_returns) {
    open_engine();
    struct skate_run_opts o = SKATE_OPTS(struct skate_run_opts);
    struct ArrowArrayStream s;
    struct ArrowArray a;
    skate_dataset *ds = skate_map(numbers(10), "never_returns", NULL);
    o.timeout_ms = 50;
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(skate_stream(ds, &o, &s), 0);
        CHECK_EQ(s.get_next(&s, &a), ETIMEDOUT);
        CHECK_EQ(s.get_next(&s, &a), ETIMEDOUT); /* a timeout ends nothing */
        CHECK_STR_HAS(s.get_last_error(&s), "no batch within 50 ms");
        s.release(&s);
    }
    skate_dataset_release(ds);
    skate_shutdown();
}

/* ---- functions that break their contract ----------------------------------------------------- */

static int one_column(struct skate_task *t, const char *name, const char *format, size_t rows) {
    struct skate_column c = {.name = name, .format = format};
    struct ArrowSchema s;
    struct ArrowArray a;
    int rc = skate_batch_new(&c, 1, rows, &s, &a);
    if (rc) return rc;
    for (size_t i = 0; i < rows * 8 && c.data; i++)
        if (!format || format[0] == 'l' || format[0] == 'g') ((char *)c.data)[i] = 0;
    rc = skate_emit(t, &s, &a);
    s.release(&s);
    return rc;
}

SKATE_BATCHES(returns_garbage) { return *(const int *)skate_arg(t, NULL); }
TEST(codes_that_are_none) {
    open_engine();
    static const int codes[] = {7, -12 /* ECANCEL */, -18 /* EDONE */, -8 /* EAGAIN */, -9999};
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        struct skate_map_opts m = SKATE_OPTS(struct skate_map_opts);
        char text[60];
        m.arg = &codes[i];
        m.arg_size = sizeof codes[i];
        snprintf(text, sizeof text, "Map(returns_garbage): returns_garbage returned %d", codes[i]);
        fails(skate_map(numbers(10), "returns_garbage", &m), SKATE_ETASK, text);
    }
    skate_shutdown();
}

SKATE_BATCHES(ignores_failures) { /* the operator behind fails, and the function does not care */
    (void)skate_emit(t, schema, batch);
    struct ArrowArray none = {.release = NULL};
    (void)skate_emit(t, schema, &none);
    return 0;
}
TEST(a_failure_behind_a_function_is_not_lost) {
    open_engine();
    const char *other[] = {"other"};
    fails(skate_select(skate_map(numbers(10), "ignores_failures", NULL), other, NULL, 1),
          SKATE_EINVAL, "Select(other): there is no column 'other'; the columns are 'id'");
    fails(skate_map(numbers(10), "ignores_failures", NULL), SKATE_EINVAL,
          "Map(ignores_failures): ignores_failures: emit: a schema and a batch are needed");
    CHECK_EQ(count(skate_limit(skate_map(numbers(100000), "bad_same", NULL), 7)), 7);
    skate_shutdown();
}

SKATE_BATCHES(filter_emits) { return one_column(t, "x", NULL, 1); }
SKATE_BATCHES(map_reports) { return skate_report(t, "x", 1); }
static int init_emits(struct skate_task *t, void **state) {
    (void)state;
    return one_column(t, "x", NULL, 1);
}
static const struct skate_batch_fns emits_in_init = {
    .size = sizeof emits_in_init, .batch = bad_same, .init = init_emits};
static int begin_one(struct skate_task *t, void **state) {
    (void)t;
    *state = malloc(1);
    return *state ? 0 : SKATE_ENOMEM;
}
static int has_state(struct skate_task *t, const struct ArrowSchema *schema,
                     struct ArrowArray *batch) {
    (void)schema, (void)batch;
    return skate_task_state(t) ? 0 : skate_fail(t, "no state");
}
static const struct skate_batch_fns stated = {
    .size = sizeof stated, .batch = has_state, .begin = begin_one, .drop = free};
__attribute__((constructor(102))) static void register_bad(void) {
    (void)skate_register_batches("emits_in_init", &emits_in_init);
    (void)skate_register_batches("stated", &stated);
}
TEST(emits_where_nothing_may_be_emitted) {
    open_engine();
    fails(skate_filter(numbers(10), "filter_emits", NULL), SKATE_EINVAL,
          "the function of a filter emits nothing");
    fails(skate_map(numbers(10), "map_reports", NULL), SKATE_EINVAL, "this task writes nothing");
    fails(skate_map(numbers(10), "emits_in_init", NULL), SKATE_EINVAL, "init makes a state");
    CHECK_EQ(count(skate_filter(numbers(10), "stated", NULL)), 10);
    skate_shutdown();
}

enum { LIES = 16 };
static void lie_release(struct ArrowArray *a) { a->release = NULL; }
/* Emits a batch of an int64, a text and a list column, one fact of which is a lie. */
SKATE_BATCHES(lies) {
    int lie = *(const int *)skate_arg(t, NULL);
    static const int64_t values[4] = {1, 2, 3, 4};
    static struct { /* lives until the batch is released, which is later than the call's end */
        int32_t offsets[4], list_offsets[4];
        const void *no[1], *number[2], *text[3], *list[2], *inner[2];
        struct ArrowArray ia, *ias[1], ca[3], *cas[3];
    } k;
    memcpy(k.offsets, (int32_t[]){0, 2, 4, 6}, sizeof k.offsets);
    memcpy(k.list_offsets, (int32_t[]){0, 1, 2, 4}, sizeof k.list_offsets);
    k.no[0] = k.number[0] = k.text[0] = k.list[0] = k.inner[0] = NULL;
    k.number[1] = k.inner[1] = values;
    k.text[1] = k.offsets;
    k.text[2] = "abcdef";
    k.list[1] = k.list_offsets;
    struct ArrowSchema is = {.format = "l", .name = "item"}, *ils[] = {&is},
                       cs[3] = {{.format = "l", .name = "n"},
                                {.format = "u", .name = "t"},
                                {.format = "+l", .name = "v", .n_children = 1, .children = ils}},
                       *css[] = {&cs[0], &cs[1], &cs[2]},
                       s = {.format = "+s", .n_children = 3, .children = css};
    k.ia = (struct ArrowArray){.length = 4, .n_buffers = 2, .buffers = k.inner};
    k.ias[0] = &k.ia;
    k.ca[0] = (struct ArrowArray){.length = 3, .n_buffers = 2, .buffers = k.number};
    k.ca[1] = (struct ArrowArray){.length = 3, .n_buffers = 3, .buffers = k.text};
    k.ca[2] = (struct ArrowArray){
        .length = 3, .n_buffers = 2, .n_children = 1, .buffers = k.list, .children = k.ias};
    struct ArrowArray a = {
        .length = 3, .n_buffers = 1, .n_children = 3, .buffers = k.no, .children = k.cas};
    for (int i = 0; i < 3; i++) k.cas[i] = &k.ca[i];
    a.release = k.ia.release = k.ca[0].release = k.ca[1].release = k.ca[2].release = lie_release;
    switch (lie) {
    case 0: a.n_children = 2; break;
    case 1: k.ca[0].length = 2; break;
    case 2: k.cas[1] = NULL; break;
    case 3: a.length = -1; break;
    case 4: k.ca[0].offset = INT64_MAX; break;
    case 5: k.ca[1].n_buffers = 2; break;
    case 6: k.offsets[1] = 5; break;
    case 7: k.list_offsets[3] = 9; break;
    case 8: k.ca[2].n_children = 0; break;
    case 9: k.ca[0].release = NULL; break;
    case 10: cs[0].format = "lx"; break;
    case 11: cs[0].format = NULL; break;
    case 12: k.number[1] = NULL; break;
    case 13: k.ca[0].null_count = 1; break;
    case 14: k.ca[1].buffers = NULL; break;
    case 15: s.format = "l"; break;
    default: break;
    }
    return skate_emit(t, &s, &a);
}
TEST(arrays_that_lie_are_refused) {
    open_engine();
    for (int lie = 0; lie <= LIES; lie++) {
        struct skate_map_opts m = SKATE_OPTS(struct skate_map_opts);
        m.arg = &lie;
        m.arg_size = sizeof lie;
        skate_dataset *ds = skate_map(numbers(1), "lies", &m);
        if (lie < LIES) fails(ds, SKATE_EINVAL, "Map(lies): lies: ");
        else CHECK_EQ(count(ds), 3);
    }
    skate_shutdown();
}

/* ---- schemas that change --------------------------------------------------------------------- */

/* Rows of a task are int64 and double in turn; each batch has one row. */
SKATE_BATCHES(changes) {
    struct skate_column in = {.name = "id"};
    int rc = skate_columns(t, schema, batch, &in, 1);
    for (int64_t i = 0; !rc && i < batch->length; i++)
        rc = one_column(t, "x", i % 2 ? "g" : "l", 1);
    return rc;
}
TEST(a_schema_that_changes_between_batches) {
    open_engine();
    const char *keys[] = {"x"};
    struct ArrowArrayStream s;
    struct ArrowArray a;
    skate_dataset *ds = skate_map(numbers(100), "changes", NULL);
    CHECK_EQ(skate_stream(ds, NULL, &s), 0);
    int code, n = 0;
    while (!(code = s.get_next(&s, &a)) && a.release) a.release(&a), n++;
    CHECK_EQ(code, EINVAL);
    CHECK_STR_EQ(s.get_last_error(&s),
                 "Map(changes): the schema changes between batches: column 'x' has format \"g\", "
                 "and had \"l\" before");
    CHECK(n > 0);
    CHECK_EQ(s.get_next(&s, &a), EINVAL); /* no rows behind the gap */
    s.release(&s);
    fails(skate_sort(skate_dataset_retain(ds), (struct skate_key[]){{"x", false, false}}, 1, NULL),
          SKATE_EINVAL, "column 'x' has format \"g\", and had \"l\" before");
    CHECK_STR_HAS(skate_error(), "SortMap(x)");
    fails(skate_groupby(ds, keys, 1, (struct skate_agg[]){{.kind = "count"}}, 1, NULL),
          SKATE_EINVAL, "column 'x' has format \"g\", and had \"l\" before");
    CHECK_STR_HAS(skate_error(), "AggregateMap(x)");
    skate_shutdown();
}

/* ---- streams and arrays in ------------------------------------------------------------------- */

struct source { /* a stream of `n` batches of one row each, which then ends or fails */
    int n, fail_at;
};
static int src_schema(struct ArrowArrayStream *s, struct ArrowSchema *out) {
    struct source *x = s->private_data;
    struct skate_column c = {.name = "id"};
    struct ArrowArray a;
    if (x->fail_at == -1) return EIO;
    int rc = skate_batch_new(&c, 1, 0, out, &a);
    if (rc) return ENOMEM;
    a.release(&a);
    return 0;
}
static int src_next(struct ArrowArrayStream *s, struct ArrowArray *out) {
    struct source *x = s->private_data;
    struct skate_column c = {.name = "id"};
    struct ArrowSchema schema;
    out->release = NULL;
    if (x->n == x->fail_at) return EIO;
    if (!x->n--) return 0;
    if (skate_batch_new(&c, 1, 1, &schema, out)) return ENOMEM;
    *(int64_t *)c.data = x->n;
    schema.release(&schema);
    return 0;
}
static const char *src_error(struct ArrowArrayStream *s) {
    (void)s;
    return "the tape is torn";
}
static void src_release(struct ArrowArrayStream *s) { s->release = NULL; }
static struct ArrowArrayStream stream_of(struct source *x) {
    return (struct ArrowArrayStream){src_schema, src_next, src_error, src_release, x};
}

TEST(a_stream_that_fails_in_the_middle) {
    open_engine();
    for (int at = -1; at < 3; at += 3) {
        struct source x = {5, at};
        struct ArrowArrayStream s = stream_of(&x);
        skate_dataset *ds = skate_from_stream(&s);
        fails(skate_dataset_retain(ds), SKATE_EIO, "Stream: the stream's get_");
        CHECK_STR_HAS(skate_error(), "the tape is torn");
        fails(ds, SKATE_EINVAL, "Stream: an earlier run has read the stream");
    }
    struct source x = {5, -2};
    struct ArrowArrayStream s = stream_of(&x);
    s.get_next = NULL;
    refused(skate_from_stream(&s), "no get_schema or get_next");
    CHECK(!s.release);
    skate_shutdown();
}

TEST(a_stream_of_no_batches_has_columns) {
    open_engine();
    struct source x = {0, -2};
    struct ArrowArrayStream s = stream_of(&x), out;
    struct ArrowSchema schema;
    skate_dataset *ds = skate_from_stream(&s);
    CHECK_EQ(skate_stream(ds, NULL, &out), 0);
    CHECK_EQ(out.get_schema(&out, &schema), 0);
    CHECK_EQ(schema.n_children, 1);
    schema.release(&schema);
    out.release(&out);
    skate_dataset_release(ds);
    skate_shutdown();
}

TEST(small_batches_are_aligned_and_keep_their_schema) {
    open_engine();
    struct source x = {300, -2};
    struct ArrowArrayStream s = stream_of(&x), out;
    struct ArrowSchema schema;
    struct ArrowArray a;
    skate_dataset *ds = skate_from_stream(&s);
    int64_t rows = 0;
    CHECK_EQ(skate_stream(ds, NULL, &out), 0);
    for (;;) {
        CHECK_EQ(out.get_next(&out, &a), 0);
        if (!a.release) break;
        CHECK_EQ((uintptr_t)a.children[0]->buffers[1] % 64, 0);
        CHECK_EQ(((const int64_t *)a.children[0]->buffers[1])[a.children[0]->offset], 299 - rows);
        rows += a.length;
        a.release(&a);
    }
    CHECK_EQ(rows, 300);
    CHECK_EQ(out.get_schema(&out, &schema), 0); /* also behind the end */
    CHECK_EQ(schema.n_children, 1);
    CHECK_STR_EQ(schema.children[0]->name, "id");
    schema.release(&schema);
    out.release(&out);
    skate_dataset_release(ds);
    skate_shutdown();
}

TEST(arrays_that_were_released) {
    open_engine();
    struct skate_column c = {.name = "id"};
    struct ArrowSchema schema;
    struct ArrowArray a[2];
    CHECK_EQ(skate_batch_new(&c, 1, 3, &schema, &a[0]), 0);
    a[1] = a[0];
    a[0].release = NULL;
    refused(skate_from_arrays(&schema, a, 2), "from_arrays: batch 0: the array of a batch was");
    CHECK(!a[1].release);
    refused(skate_from_arrays(NULL, NULL, 2), "a schema and batches are needed");
    CHECK_EQ(count(skate_from_arrays(&schema, NULL, 0)), 0);
    schema.release(&schema);
    refused(skate_from_arrays(&schema, NULL, 0), "a schema and batches are needed");
    skate_shutdown();
}

/* ---- columns --------------------------------------------------------------------------------- */

TEST(columns_that_are_no_plain_numbers) {
    struct skate_column c[2] = {{.name = "a"}, {.name = "b", .format = "g"}};
    struct ArrowSchema schema, values = {.format = "u", .name = ""};
    struct ArrowArray a, moved;
    CHECK_EQ(skate_batch_new(c, 2, UINT32_MAX, &schema, &a), SKATE_EINVAL);
    CHECK_EQ(skate_batch_new(NULL, 2, 1, &schema, &a), SKATE_EINVAL);
    c[1].format = "u";
    CHECK_EQ(skate_batch_new(c, 2, 1, &schema, &a), SKATE_EINVAL);
    CHECK(!a.release && !schema.release);
    c[1].format = "g";
    CHECK_EQ(skate_batch_new(c, 2, 16, &schema, &a), 0);
    ((double *)c[1].data)[15] = 2.5;
    struct skate_column want = {.name = "b"};
    CHECK_EQ(skate_columns(NULL, &schema, &a, &want, 1), SKATE_EINVAL);
    CHECK_STR_HAS(skate_error(), "column 'b' has the Arrow format \"g\", and \"l\" is asked for");
    want.name = NULL;
    CHECK_EQ(skate_columns(NULL, &schema, &a, &want, 1), SKATE_EINVAL);
    CHECK_EQ(skate_columns(NULL, NULL, NULL, &want, 1), SKATE_EINVAL);
    want.name = "a";
    schema.children[0]->dictionary = &values;
    CHECK_EQ(skate_columns(NULL, &schema, &a, &want, 1), SKATE_EINVAL);
    CHECK_STR_HAS(skate_error(), "column 'a' has a dictionary");
    schema.children[0]->dictionary = NULL;
    uint8_t bits[] = {0xFF, 0x7F}; /* row 15 is null */
    a.children[0]->buffers[0] = bits;
    a.children[0]->null_count = -1;
    CHECK_EQ(skate_columns(NULL, &schema, &a, &want, 1), SKATE_EINVAL);
    CHECK_STR_HAS(skate_error(), "column 'a' has nulls");
    a.children[0]->length = 15; /* a slice without it */
    CHECK_EQ(skate_columns(NULL, &schema, &a, &want, 1), 0);
    moved = *a.children[1];
    a.children[1]->release = NULL;
    a.release(&a);
    CHECK(((const double *)moved.buffers[1])[15] == 2.5); /* a moved child lives on */
    moved.release(&moved);
    schema.release(&schema);
}
