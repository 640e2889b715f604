/* test_data_chain.c - chains of operators, each run in the test's process: results, unaligned
 * input, caps, consumers that stop, damaged descriptions, lack of memory. */
#include <fcntl.h>
#include <unistd.h>

#include "base/wire.h"
#include "data/columns.h"
#include "data/groups.h"
#include "data_rig.h"
#include "kernel/kernel.h"

static struct sk_err err;

/* ---- parameters ------------------------------------------------------------------------------ */

static uint8_t select_wire[100], group_wire[100], agg_wire[100], record_wire[100], unit_wire[200],
    what_wire[4][400];
static struct sk_bytes select_params, group_params, agg_params, record_params, unit, whats[4];
static char path[200];
enum { SORT, HASH, RANDOM, AGGREGATE };

static void make_params(void) {
    const char *b[] = {"b"}, *new_b[] = {"x"}, *k[] = {"k"}, *agg[] = {"k", "v"},
               *as[] = {"k", "v0"};
    struct sk_wr w = sk_wr_init(select_wire, sizeof select_wire);
    sk_columns_write(&w, 1, b, new_b);
    select_params = (struct sk_bytes){select_wire, w.n};
    w = sk_wr_init(group_wire, sizeof group_wire);
    sk_groups_write(&w, k, 1);
    group_params = (struct sk_bytes){group_wire, w.n};
    w = sk_wr_init(agg_wire, sizeof agg_wire);
    sk_columns_write(&w, 2, agg, as);
    agg_params = (struct sk_bytes){agg_wire, w.n};
    w = sk_wr_init(record_wire, sizeof record_wire);
    sk_wr_u64(&w, 4);
    sk_wr_bytes(&w, "r", 2);
    record_params = (struct sk_bytes){record_wire, w.n};
    snprintf(path, sizeof path, "%s/records", test_dir());
    int fd = open(path, O_CREAT | O_WRONLY, 0600);
    CHECK_EQ(write(fd, "aaaabbbbcccc", 12), 12);
    close(fd);
    w = sk_wr_init(unit_wire, sizeof unit_wire);
    sk_wr_u64(&w, 4);
    sk_wr_u64(&w, 2);
    sk_wr_bytes(&w, path, strlen(path) + 1);
    unit = (struct sk_bytes){unit_wire, w.n};
    char name[] = "k", sum[] = "s";
    struct sk_what_key key = {.name = name};
    struct sk_agg a = {.kind = SK_AGG_SUM, .column = 1, .name = sum, .ignore_nulls = true};
    struct sk_what what[4] = {{.kind = SK_WHAT_SORT, .n_keys = 1, .keys = &key},
                              {.kind = SK_WHAT_HASH, .n_keys = 1, .keys = &key, .n_partitions = 4},
                              {.kind = SK_WHAT_RANDOM, .n_partitions = 4, .seed = 9},
                              {.kind = SK_WHAT_AGGREGATE,
                               .n_partitions = 1,
                               .groups = true,
                               .n_keys = 1,
                               .keys = &key,
                               .n_aggs = 1,
                               .aggs = &a}};
    for (int i = 0; i < 4; i++)
        whats[i] = (struct sk_bytes){what_wire[i],
                                     sk_what_write(&what[i], what_wire[i], sizeof what_wire[i])};
}

static struct rig_task task_of(const struct sk_stage_node *nodes, uint32_t n,
                               const struct rig_input *in, uint32_t n_in) {
    return (struct rig_task){.nodes = nodes,
                             .n_nodes = n,
                             .in = in,
                             .n_in = n_in,
                             .task = {.cap_rows = -1, .target_bytes = 1 << 20, .hint = 4}};
}
#define TASK(nodes, in) task_of((nodes), (uint32_t)SK_COUNT(nodes), (in), (uint32_t)SK_COUNT(in))

static int64_t sum_of(int64_t column, int64_t *rows) {
    int64_t s = 0;
    *rows = 0;
    for (uint32_t i = 0; i < rig.n_out; i++) {
        struct sk_batch *b = rig_batch(i);
        for (int64_t r = 0; r < b->array.length; r++) s += rig_at(b, column, r);
        *rows += b->array.length;
        sk_batch_destroy(b);
    }
    return s;
}

static struct sk_batch *keyed(int64_t from, int64_t rows) { /* k: row / 3, v: row */
    int64_t v[400];
    for (int64_t i = 0; i < rows; i++) v[2 * i] = (from + i) / 3, v[2 * i + 1] = from + i;
    return rig_numbers("k,v", v, rows);
}

/* ---- results --------------------------------------------------------------------------------- */

TEST(select_of_blocks_that_are_not_aligned) {
    make_params();
    struct sk_batch *b = rig_numbers("a,b", NULL, 100);
    struct sk_stage_node nodes[] = {RIG_NODE("select", select_params.p, select_params.n)};
    struct rig_input in[] = {{b, 0}, {b, 0}};
    struct rig_task t = TASK(nodes, in);
    for (int i = 0; i < 2; i++) {
        int64_t rows;
        rig.unaligned = i;
        CHECK_OK_ERR(rig_run(&t, 2, &err), &err); /* the chain runs two tasks */
        CHECK_EQ(rig.n_notes, 2);
        CHECK_EQ(sum_of(0, &rows), 4 * 10000);
        CHECK_EQ(rows, 400);
        rig_forget();
    }
    t.task.cap_rows = 7;
    int64_t rows;
    CHECK_OK_ERR(rig_run(&t, 1, &err), &err);
    CHECK_EQ(sum_of(0, &rows), 49);
    CHECK_EQ(rows, 7);
    rig_forget();
    rig.refuse_at = 0;
    CHECK_RC(rig_run(&t, 1, &err), SK_ECANCEL);
    CHECK_STR_EQ(err.msg, "nobody wants the rest"); /* not the operator's fault: no label */
    sk_batch_destroy(b);
}

TEST(sources_give_their_units) {
    make_params();
    int64_t ends[2] = {100000, 300000}, rows;
    struct sk_stage_node nodes[] = {RIG_NODE("range", "id", 3)};
    struct rig_task t = task_of(nodes, 1, NULL, 0);
    t.task.unit = (struct sk_bytes){ends, sizeof ends};
    CHECK_OK_ERR(rig_run(&t, 1, &err), &err);
    CHECK_EQ(sum_of(0, &rows), INT64_C(39999900000));
    CHECK_EQ(rows, 200000);
    rig_forget();
    struct sk_stage_node records[] = {RIG_NODE("read_records", record_params.p, record_params.n)};
    t.nodes = records;
    t.task.unit = unit;
    CHECK_OK_ERR(rig_run(&t, 1, &err), &err);
    struct sk_batch *b = rig_batch(0);
    CHECK_EQ(b->array.length, 2);
    CHECK_MEM_EQ(b->array.children[0]->buffers[1], "bbbbcccc", 8);
    sk_batch_destroy(b);
    rig_forget();
    CHECK_EQ(truncate(path, 10), 0);
    CHECK_RC(rig_run(&t, 1, &err), SK_EIO);
    CHECK_STR_HAS(err.msg, "it ends 2 bytes before it did at first");
    unlink(path);
    CHECK_RC(rig_run(&t, 1, &err), SK_EIO);
    CHECK_STR_HAS(err.msg, "L: open ");
    for (t.task.unit.n = 0; t.task.unit.n < unit.n; t.task.unit.n++)
        CHECK_RC(rig_run(&t, 1, &err), SK_ECORRUPT);
    t.nodes = nodes;
    t.task.unit.n = 15;
    CHECK_RC(rig_run(&t, 1, &err), SK_ECORRUPT);
    rig_forget();
}

TEST(zipped_sides) {
    struct sk_batch *l[] = {rig_numbers("a", NULL, 4), rig_numbers("a", NULL, 2)},
                    *r = rig_numbers("a,a_1", NULL, 6), *b;
    struct sk_stage_node zip[] = {RIG_NODE("zip_rows", NULL, 0)};
    struct rig_input in[] = {{l[0], 0}, {l[1], 0}, {r, 1}}, bad[] = {{l[0], 0}, {l[1], 9000}};
    struct rig_task t = TASK(zip, in);
    CHECK_OK_ERR(rig_run(&t, 1, &err), &err);
    b = rig_batch(0);
    CHECK_EQ(b->array.length, 6);
    CHECK_EQ(b->array.n_children, 3);
    CHECK_STR_EQ(b->schema->s.children[1]->name, "a_1");
    CHECK_STR_EQ(b->schema->s.children[2]->name, "a_1_1");
    CHECK_EQ(rig_at(b, 0, 5), 1);
    CHECK_EQ(rig_at(b, 2, 5), 11);
    sk_batch_destroy(b);
    rig_forget();
    t.in = bad;
    t.n_in = 2;
    CHECK_RC(rig_run(&t, 1, &err), SK_ECORRUPT);
    sk_batch_destroy(l[0]);
    sk_batch_destroy(l[1]);
    sk_batch_destroy(r);
}

TEST(maps_of_exchanges) {
    make_params();
    struct sk_batch *b = keyed(0, 60), *other = rig_numbers("v", NULL, 3);
    struct rig_input in[] = {{b, 0}, {b, 0}}, mixed[] = {{b, 0}, {other, 0}}, none[] = {{other, 0}};
    for (int i = 0; i < 4; i++) {
        struct sk_stage_node nodes[] = {
            i == AGGREGATE
                ? (struct sk_stage_node)RIG_NODE("aggregate_map", agg_params.p, agg_params.n)
                : (struct sk_stage_node)RIG_NODE("exchange_map", NULL, 0)};
        nodes[0].what = whats[i];
        struct rig_task t = TASK(nodes, in);
        CHECK_OK_ERR(rig_run(&t, 1, &err), &err);
        CHECK(rig.n_out > 0);
        for (uint32_t k = 0; k < rig.n_out; k++) CHECK_EQ(rig.out[k].kind, SK_KIND_PACK);
        rig_forget();
        t.in = mixed;
        CHECK_RC(rig_run(&t, 1, &err), SK_EINVAL);
        t.in = none;
        t.n_in = 1;
        sk_rc rc = rig_run(&t, 1, &err);
        CHECK_RC(rc, i == RANDOM ? SK_OK : SK_EINVAL);
        if (rc != SK_OK) CHECK_STR_EQ(err.msg, "L: there is no column 'k'; the columns are 'v'");
        rig_forget();
        t.in = in;
        rig.refuse_at = 0;
        CHECK_RC(rig_run(&t, 1, &err), SK_ECANCEL);
        rig.refuse_at = UINT32_MAX;
        rig_forget();
    }
    sk_batch_destroy(b);
    sk_batch_destroy(other);
}

static struct sk_batch *cycle(int64_t rows, int64_t keys) { /* k: row % keys, v: row */
    int64_t *v = sk_alloc(SK_TAG_TEST, (size_t)rows * 16);
    for (int64_t i = 0; i < rows; i++) v[2 * i] = i % keys, v[2 * i + 1] = i;
    struct sk_batch *b = rig_numbers("k,v", v, rows);
    sk_free(v);
    return b;
}

/* Counts the rows of the runs that a map yielded; *states: of these, those that are states. */
static int64_t rows_of_runs(int64_t *states) {
    int64_t rows = 0;
    *states = 0;
    for (uint32_t i = 1; i < rig.n_out; i += 2) /* behind its sample */
        for (size_t at = 0; at < rig.out[i].n;) {
            struct sk_block_info info;
            struct ArrowSchema s;
            struct ArrowArray a;
            const uint8_t *p = rig.out[i].bytes + at;
            CHECK_OK_ERR(sk_block_info(p, rig.out[i].n - at, &info, &err), &err);
            CHECK_OK_ERR(sk_block_export(p, rig.out[i].n - at, 0, UINT64_MAX,
                                         (struct sk_block_owner){NULL, NULL}, &s, &a, &err),
                         &err);
            rows += a.length;
            if (*s.children[1]->format == 'z') *states += a.length;
            s.release(&s);
            a.release(&a);
            at += SK_ALIGN(info.total_bytes, 64);
        }
    return rows;
}

/* Rows whose keys repeat late become states; others stay rows; and a table that is full is sent. */
TEST(maps_of_aggregates_that_find_out_late) {
    enum { ROWS = 200000 };
    static const struct {
        int64_t keys;
        uint64_t target, table;
        int64_t states, rows;                               /* that the map sends */
    } cases[] = {{40000, 16 << 20, 64 << 20, 40000, 40000}, /* a quarter at 160,000 rows */
                 {60000, 16 << 20, 64 << 20, 0, ROWS},
                 {40000, 1 << 19, 8 << 20, 40000, 168000}, /* 128,000 rows were sent meanwhile */
                 {1000, 16 << 20, 1 << 16, -1, -1},
                 {ROWS, 16 << 20, 64 << 20, 0, ROWS}};
    make_params();
    struct sk_stage_node nodes[] = {RIG_NODE("aggregate_map", agg_params.p, agg_params.n)};
    nodes[0].what = whats[AGGREGATE];
    for (size_t i = 0; i < SK_COUNT(cases); i++) {
        struct sk_batch *whole = cycle(ROWS, cases[i].keys), *b[50];
        struct rig_input in[SK_COUNT(b)];
        for (size_t k = 0; k < SK_COUNT(b); k++) {
            CHECK_OK_ERR(sk_batch_slice(whole, (int64_t)k * 4000, 4000, &b[k], &err), &err);
            in[k] = (struct rig_input){b[k], 0};
        }
        struct rig_task t = TASK(nodes, in);
        t.task.hint = 1;
        t.task.target_bytes = cases[i].target;
        t.task.table_bytes = cases[i].table;
        CHECK_OK_ERR(rig_run(&t, 1, &err), &err);
        int64_t states, rows = rows_of_runs(&states);
        if (cases[i].rows < 0) CHECK(rows == states && states > 2 * cases[i].keys);
        else
            CHECK_MSG(rows == cases[i].rows && states == cases[i].states, "%zu: %lld, %lld", i,
                      (long long)rows, (long long)states);
        rig_forget();
        for (size_t k = 0; k < SK_COUNT(b); k++) sk_batch_destroy(b[k]);
        sk_batch_destroy(whole);
    }
}

/* ---- what is damaged ------------------------------------------------------------------------- */

TEST(stages_that_cannot_be_opened) {
    make_params();
    struct rig_task t = task_of(NULL, 0, NULL, 0);
    CHECK_RC(rig_run(&t, 1, &err), SK_ECORRUPT);
    struct sk_stage_node unknown[] = {RIG_NODE("no such", NULL, 0)};
    t = task_of(unknown, 1, NULL, 0);
    CHECK_RC(rig_run(&t, 1, &err), SK_ENOENT);
    CHECK_STR_EQ(err.msg, "L: this program has no operator 'no such'");
    struct sk_stage_node early[] = {RIG_NODE("exchange_map", NULL, 0),
                                    RIG_NODE("select", select_params.p, select_params.n)};
    early[0].what = whats[SORT];
    t = task_of(early, 2, NULL, 0);
    CHECK_RC(rig_run(&t, 1, &err), SK_EINVAL);
    CHECK_STR_HAS(err.msg, "is not the last one");
    static const char *const ops[] = {"select", "range", "read_records", "aggregate_map",
                                      "exchange_map"};
    for (size_t i = 0; i < SK_COUNT(ops); i++) {
        struct sk_stage_node bad[] = {RIG_NODE(ops[i], "\xFF\xFF\xFF\xFF\1", 5)};
        bad[0].what = (struct sk_bytes){"x", 1};
        t = task_of(bad, 1, NULL, 0);
        CHECK_RC(rig_run(&t, 1, &err), i < 4 ? SK_ECORRUPT : SK_EINVAL);
        CHECK_STR_HAS(err.msg, "damaged");
    }
}

/* ---- lack of memory -------------------------------------------------------------------------- */

TEST(chains_without_memory) {
    make_params();
    struct sk_batch *b[] = {keyed(0, 10), keyed(10, 50), rig_numbers("a,b", NULL, 60)};
    struct rig_input in[] = {{b[0], 0}, {b[1], 0}}, ab[] = {{b[2], 0}, {b[2], 0}},
                     sides[] = {{b[0], 0}, {b[1], 0}, {b[2], 1}};
    struct sk_stage_node select[] = {RIG_NODE("select", select_params.p, select_params.n)},
                         zip[] = {RIG_NODE("zip_rows", NULL, 0)},
                         range[] = {RIG_NODE("range", "b", 2),
                                    RIG_NODE("select", select_params.p, select_params.n)},
                         records[] = {RIG_NODE("read_records", record_params.p, record_params.n)};
    struct rig_task tasks[] = {TASK(select, ab), TASK(zip, sides), task_of(range, 2, NULL, 0),
                               task_of(records, 1, NULL, 0)};
    int64_t ends[2] = {0, 100};
    tasks[2].task.unit = (struct sk_bytes){ends, sizeof ends};
    tasks[3].task.unit = unit;
    for (size_t i = 0; i < SK_COUNT(tasks); i++)
        for (int k = 0; k < 2; k++) {
            rig.unaligned = k;
            tasks[i].task.target_bytes = k ? 100 : 1 << 20;
            rig_run_without_memory(&tasks[i]);
        }
    for (int i = 0; i < 4; i++) {
        struct sk_stage_node map = RIG_NODE("exchange_map", NULL, 0),
                             aggregate = RIG_NODE("aggregate_map", agg_params.p, agg_params.n),
                             nodes[] = {i == AGGREGATE ? aggregate : map};
        nodes[0].what = whats[i];
        struct rig_task t = TASK(nodes, in);
        rig_run_without_memory(&t);
    }
    for (size_t i = 0; i < SK_COUNT(b); i++) sk_batch_destroy(b[i]);
}
