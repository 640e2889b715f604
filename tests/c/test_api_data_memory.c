/* test_api_data_memory.c - each allocation fails once: while plans are built and lowered, and in
 * chains that call functions of batches, which run in the test's process. */
#include <errno.h>

#include "api/data_int.h"
#include "base/wire.h"
#include "data/groups.h"
#include "data_rig.h"

static struct sk_err err;

/* ---- functions ------------------------------------------------------------------------------- */

SKATE_BATCHES(mem_double) {
    struct skate_column in = {.name = "v"}, out = {.name = "w"};
    struct ArrowSchema s;
    struct ArrowArray a;
    int rc = skate_columns(t, schema, batch, &in, 1);
    if (rc || (rc = skate_batch_new(&out, 1, (size_t)batch->length, &s, &a))) return rc;
    for (int64_t i = 0; i < a.length; i++)
        ((int64_t *)out.data)[i] = 2 * ((const int64_t *)in.data)[i];
    rc = skate_emit(t, &s, &a);
    s.release(&s);
    return rc ? rc : skate_emit(t, schema, batch); /* two schemas */
}
SKATE_BATCHES(mem_odd) {
    struct skate_column in = {.name = "v"};
    int rc = skate_columns(t, schema, batch, &in, 1);
    for (int64_t i = 0; !rc && i < batch->length; i++)
        skate_keep(t)[i] = ((const int64_t *)in.data)[i] % 2 != 0;
    return rc;
}
SKATE_BATCHES(mem_fails_at_7) {
    struct skate_column in = {.name = "v"};
    int rc = skate_columns(t, schema, batch, &in, 1);
    for (int64_t i = 0; !rc && i < batch->length; i++)
        if (((const int64_t *)in.data)[i] == 7) return skate_fail(t, "seven");
    return rc ? rc : skate_emit(t, schema, batch);
}
static int tally_begin(struct skate_task *t, void **state) {
    (void)t;
    *state = calloc(1, 8);
    return *state ? 0 : SKATE_ENOMEM;
}
static int tally_rows(struct skate_task *t, const struct ArrowSchema *schema,
                      struct ArrowArray *batch) {
    (void)schema;
    *(int64_t *)skate_task_state(t) += batch->length;
    return 0;
}
static int tally_end(struct skate_task *t) { return skate_report(t, skate_task_state(t), 8); }
static const struct skate_batch_fns tally = {.size = sizeof tally,
                                             .batch = tally_rows,
                                             .begin = tally_begin,
                                             .end = tally_end,
                                             .drop = free};
__attribute__((constructor(102))) static void register_tally(void) {
    (void)skate_register_batches("mem_tally", &tally);
}
SKATE_TASK(mem_source) {
    struct skate_column out = {.name = "v"};
    struct ArrowSchema s;
    struct ArrowArray a;
    size_t n;
    int64_t first = *(const int64_t *)skate_arg(t, &n);
    int rc = skate_batch_new(&out, 1, 10, &s, &a);
    if (rc) return rc;
    for (int64_t i = 0; i < 10; i++) ((int64_t *)out.data)[i] = first + i;
    rc = skate_emit(t, &s, &a);
    s.release(&s);
    return rc;
}

/* ---- chains ---------------------------------------------------------------------------------- */

static struct sk_bytes call_of(void *wire, size_t cap, struct sk_batch_call c) {
    return (struct sk_bytes){wire, sk_batch_call_write(&c, wire, cap)};
}

TEST(functions_without_memory) {
    uint8_t wire[8][200], keys[50];
    const char *key[] = {"k"};
    struct sk_wr w = sk_wr_init(keys, sizeof keys);
    sk_groups_write(&w, key, 1);
    struct sk_batch *b[] = {rig_numbers("k,v", (int64_t[]){0, 1, 0, 2, 0, 3, 1, 4, 1, 5, 1, 6}, 6),
                            rig_numbers("k,v", (int64_t[]){2, 7, 2, 8, 3, 9}, 3)};
    struct {
        const char *op;
        struct sk_batch_call call;
    } list[] = {
        {"map", {.name = "mem_double"}},
        {"map", {.name = "mem_double", .batch_rows = 4}},
        {"map", {.name = "mem_fails_at_7", .on_error = SKATE_SKIP}},
        {"map", {.name = "mem_fails_at_7", .on_error = SKATE_QUARANTINE, .batch_rows = 5}},
        {"map", {.name = "mem_tally", .write = 77}},
        {"filter", {.name = "mem_odd"}},
        {"map_groups", {.name = "mem_double", .keys = {keys, w.n}}},
    };
    struct rig_input in[] = {{b[0], 0}, {b[1], 0}};
    struct skate_task task = {.failed = false};
    rig.find = sk_batch_op_find;
    rig.ctx = &task;
    for (size_t i = 0; i < SK_COUNT(list); i++) {
        struct sk_bytes params = call_of(wire[i], sizeof wire[i], list[i].call);
        struct sk_stage_node node[] = {RIG_NODE(list[i].op, params.p, params.n)};
        struct rig_task t = {.nodes = node, .n_nodes = 1, .in = in, .n_in = 2};
        t.task = (struct sk_stage_task){.cap_rows = -1, .target_bytes = 1000, .hint = 1};
        rig_run_without_memory(&t);
        for (size_t cut = 0; cut < params.n; cut += 3) {
            node[0].params.n = cut;
            CHECK_RC(rig_run(&t, 1, &err), SK_ECORRUPT);
        }
        node[0].params.n = params.n;
        CHECK_OK_ERR(rig_run(&t, 2, &err), &err); /* the chain runs two tasks */
        CHECK(rig.n_out > 0);
        rig_forget();
    }
    int64_t first = 5;
    struct sk_bytes params =
        call_of(wire[7], sizeof wire[7], (struct sk_batch_call){.name = "mem_source"});
    struct sk_stage_node source[] = {RIG_NODE("source", params.p, params.n)};
    struct rig_task t = {.nodes = source, .n_nodes = 1};
    t.task = (struct sk_stage_task){
        .cap_rows = -1, .target_bytes = 1000, .hint = 1, .unit = {&first, sizeof first}};
    rig_run_without_memory(&t);
    sk_batch_destroy(b[0]);
    sk_batch_destroy(b[1]);
}

TEST(bad_rows_leave_the_task) {
    uint8_t wire[200];
    struct sk_batch *b = rig_numbers("v", NULL, 10), *out;
    struct rig_input in[] = {{b, 0}};
    struct skate_task task = {.failed = false};
    rig.find = sk_batch_op_find;
    rig.ctx = &task;
    struct sk_bytes params =
        call_of(wire, sizeof wire,
                (struct sk_batch_call){.name = "mem_fails_at_7", .on_error = SKATE_QUARANTINE});
    struct sk_stage_node node[] = {RIG_NODE("map", params.p, params.n)};
    struct rig_task t = {.nodes = node, .n_nodes = 1, .in = in, .n_in = 1};
    t.task = (struct sk_stage_task){.cap_rows = -1, .target_bytes = 1000, .hint = 1};
    CHECK_OK_ERR(rig_run(&t, 1, &err), &err);
    int64_t rows = 0, letters = 0;
    for (uint32_t i = 0; i < rig.n_out; i++) {
        out = rig_batch(i);
        if (out->schema->s.n_children == 4) letters += out->array.length;
        else rows += out->array.length;
        sk_batch_destroy(out);
    }
    CHECK_EQ(rows, 9);
    CHECK_EQ(letters, 1);
    rig_forget();
    sk_batch_destroy(b);
}

/* ---- plans ----------------------------------------------------------------------------------- */

/* A stream that is never pulled. */
static int no_schema(struct ArrowArrayStream *s, struct ArrowSchema *out) {
    return s && out ? EIO : 0;
}
static int no_batch(struct ArrowArrayStream *s, struct ArrowArray *out) {
    return s && out ? EIO : 0;
}
static void gone(struct ArrowArrayStream *s) { s->release = NULL; }
static void unwatched(void *ctx, const struct skate_progress *p) { (void)ctx, (void)p; }

/* A plan with a node of each kind. NULL: a call has failed. */
static skate_dataset *everything(void) {
    const char *k[] = {"id"}, *as[] = {"r"};
    struct skate_map_opts m = SKATE_OPTS(struct skate_map_opts);
    struct skate_exchange_opts x = SKATE_OPTS(struct skate_exchange_opts);
    struct skate_join j = SKATE_OPTS(struct skate_join);
    struct skate_agg aggs[] = {{.kind = "count"}, {.kind = "sum", .column = "id"}};
    m.arg = "argument";
    m.arg_size = 8;
    m.batch_rows = 5;
    x.partitions = 3;
    j.left_keys = k;
    j.right_keys = as;
    j.n_keys = 1;
    int64_t unit = 3;
    skate_dataset *a = skate_map(skate_range(100000, NULL, NULL), "mem_double", &m);
    skate_dataset *b =
        skate_source("mem_source", &(struct skate_unit){&unit, sizeof unit, 10, 80}, 1, NULL);
    a = skate_sort(a, (struct skate_key[]){{"id", true, false}}, 1, &x);
    a = skate_filter(a, "mem_odd", NULL);
    b = skate_select(skate_random_shuffle(b, 1, NULL), k, as, 1);
    a = skate_join(a, skate_dataset_retain(b), &j, NULL);
    skate_dataset *both[] = {skate_repartition(a, &x), skate_distinct(b, k, 1, NULL)};
    a = skate_limit(skate_union(both, 2), 50);
    a = skate_groupby(a, k, 1, aggs, 2, NULL);
    a = skate_map_groups(a, k, 1, "mem_double", NULL, NULL);
    a = skate_zip(a, skate_range(5, "x", NULL));
    struct ArrowArrayStream s = {.get_schema = no_schema, .get_next = no_batch, .release = gone};
    a = skate_zip(a, skate_from_stream(&s));
    return skate_watch(a, SKATE_WITH(struct skate_watch, .progress = unwatched));
}

static void release_block(void *e, uint64_t oid) { (void)e, (void)oid; }

static int committed(void *ctx, const struct skate_arg *reports, size_t n) {
    CHECK_EQ(n, 3);
    CHECK_MEM_EQ(reports[2].data, "two", 3);
    ++*(int *)ctx;
    return 0;
}

/* The log of a write that is resumed: opened, two units recorded, opened again, committed. */
TEST(logs_without_memory) {
    char log[600];
    int commits = 0, before = 0;
    bool hit = true;
    for (int64_t nth = 1; hit; nth++) {
        snprintf(log, sizeof log, "%s/log-%lld", test_dir(), (long long)nth);
        struct skate_sink sink = {sizeof sink, "mem_tally", committed, NULL, &commits};
        struct skate_resume o = {.size = sizeof o, .log = log, .job = "job"};
        struct skate_unit unit[3] = {{"a", 1, 1, 1}, {"b", 1, 1, 1}, {"c", 1, 1, 1}};
        skate_dataset *ds =
            sk_dataset_writes(skate_source("mem_source", unit, 3, NULL), "mem_tally", NULL, 77);
        CHECK(ds);
        int64_t blocks = sk_mem_blocks(SK_TAG_N);
        sk_mem_fail_at(nth);
        sk_rc rc = SK_OK;
        for (int call = 0; call < 2 && rc == SK_OK; call++) {
            struct sk_resume *r = NULL;
            struct sk_reports p = {.v = {NULL, 0, 0}};
            rc = sk_resume_open(ds, &sink, NULL, &o, &r, &err);
            if (rc == SK_OK && !call) rc = sk_reports_add(&p, (struct sk_bytes){"one", 3}, &err);
            if (rc == SK_OK && !call) rc = sk_reports_add(&p, (struct sk_bytes){"", 0}, &err);
            if (rc == SK_OK && !call) rc = sk_resume_units(r, 0, &p, 2, &err);
            if (rc == SK_OK && call) {
                CHECK(!sk_resume_all(r) && sk_resume_done(r).n == 3);
                CHECK_MEM_EQ(sk_resume_done(r).p, "\1\1\0", 3);
                rc = sk_reports_add(&p, (struct sk_bytes){"two", 3}, &err);
                if (rc == SK_OK) rc = sk_resume_units(r, 2, &p, 3, &err);
                if (rc == SK_OK) rc = sk_resume_commit(r, &sink, &err);
            }
            sk_reports_free(&p);
            sk_resume_close(r);
        }
        hit = sk_mem_failed();
        sk_mem_fail_at(0);
        CHECK_MSG(rc == (hit ? SK_ENOMEM : SK_OK), "allocation %lld: %s", (long long)nth, err.msg);
        CHECK_EQ(commits, hit ? 0 : 1);
        CHECK_MSG(sk_mem_blocks(SK_TAG_N) == blocks, "allocation %lld leaks", (long long)nth);
        skate_dataset_release(ds);
        before++;
    }
    CHECK(before > 10);
}

TEST(plans_without_memory) {
    int64_t before = sk_mem_blocks(SK_TAG_N);
    bool hit = true;
    int64_t nth = 1;
    for (; hit; nth++) {
        struct sk_dataset_run run = {NULL};
        struct sk_plan *plan;
        uint32_t root;
        sk_mem_fail_at(nth);
        skate_dataset *ds = everything();
        sk_rc rc =
            ds ? sk_dataset_lower(ds, NULL, sk_shuffle_find("auto"), &run, &plan, &root, &err)
               : (sk_rc)sk_api_err()->code;
        hit = sk_mem_failed();
        sk_mem_fail_at(0);
        CHECK_MSG(rc == (hit ? SK_ENOMEM : SK_OK), "allocation %lld: %s %s", (long long)nth,
                  sk_rc_name(rc), rc ? ds ? err.msg : skate_error() : "");
        if (rc == SK_OK) sk_plan_destroy(plan, release_block, NULL);
        sk_feeders_free(run.feeders);
        skate_dataset_release(ds);
        CHECK_MSG(sk_mem_blocks(SK_TAG_N) == before, "allocation %lld leaks", (long long)nth);
    }
    CHECK(nth > 60);
}
