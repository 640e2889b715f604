/* test_shuffle_task.c - tasks of an exchange that run without an interpreter, on an engine with
 * only the calls that a task needs: a sort from its runs to its rows; tasks that have to be left to
 * Python; and damaged arguments. */
#include "engine/engine_int.h"
#include "exec/args.h"
#include "kernel_make.h"
#include "plan/plan.h"
#include "shuffle/task.h"
#include "test.h"

#define MAPS 3
#define PARTITIONS 4u
#define VALUES 64

static struct sk_err err;

/* ---- an engine, and a task of it ---- */

struct value {
    uint32_t kind, note_n;
    union sk_yield_note note;
    uint8_t *bytes;
    size_t n;
};
static struct value out[VALUES];
static uint32_t n_out, skip, n_notes, refuse_at;
static struct sk_task_note_op told;

static sk_rc room(struct sk_engine *e SK_UNUSED, size_t len, struct sk_buf *b,
                  struct sk_err *why SK_UNUSED) {
    *b = (struct sk_buf){sk_alloc_aligned(SK_TAG_TEST, SK_BLOCK_ALIGN, len), len, 0};
    CHECK(b->data);
    return SK_OK;
}

static sk_rc on_yield(struct sk_task *t, const struct sk_payload *p, struct sk_err *why) {
    if (n_out == refuse_at || n_out == VALUES) {
        if (p->buf) sk_free(p->buf->data);
        return SK_ERR(why, SK_ECANCEL, "nobody wants the rest");
    }
    struct value *v = &out[n_out++];
    *v = (struct value){.kind = p->kind, .note_n = (uint32_t)p->note.n};
    CHECK(p->note.n <= sizeof v->note);
    memcpy(&v->note, p->note.p, p->note.n);
    if (p->buf) v->bytes = p->buf->data, v->n = p->buf_len;
    t->n_yielded++;
    return SK_OK;
}

static uint32_t on_skip(const struct sk_task *t SK_UNUSED) { return skip; }

static void on_note(struct sk_task *t SK_UNUSED, struct sk_bytes note) {
    const struct sk_task_note *h = note.p;
    CHECK(note.n == sizeof *h + sizeof told && h->magic == SK_TASK_NOTE && h->n == 1);
    memcpy(&told, h + 1, sizeof told);
    n_notes++;
}

static const struct sk_engine_ops engine_ops = {.buf_alloc = room};
static struct sk_engine engine = {.ops = &engine_ops};
static const struct sk_task_ops task_ops = {.yield = on_yield, .skip = on_skip, .note = on_note};

static void forget(void) {
    for (uint32_t i = 0; i < n_out; i++) sk_free(out[i].bytes);
    n_out = n_notes = skip = 0;
    refuse_at = UINT32_MAX;
}

static sk_rc run(struct sk_view *args, uint32_t n_args, bool *may, enum sk_native *how) {
    struct sk_task_priv p = {.t = {.engine = &engine,
                                   .name = "a task",
                                   .n_args = n_args,
                                   .args = args,
                                   .n_returns = SK_STREAMING},
                             .ops = &task_ops};
    *how = SK_NATIVE_NOT;
    *may = sk_native_may(&p.t);
    return *may ? sk_native_run(&p.t, how, &err) : SK_OK;
}

/* ---- a sort: its runs ---- */

struct bytes {
    uint8_t *p;
    uint64_t n;
};
static struct {
    struct column cols[MAPS][2];
    struct batch batch[MAPS];
    struct bytes sample[MAPS], run[MAPS];
    int64_t rows;
} S;

static bool joins; /* the reduces are those of a join */

static size_t write_what(void *to, size_t cap, bool own_reduce) {
    char *k = (char *)(uintptr_t)"k", *none = (char *)(uintptr_t)"",
         *suffix = (char *)(uintptr_t)"_l";
    struct sk_what_key key = {.name = k};
    struct sk_what w = {.kind = joins ? SK_WHAT_JOIN : SK_WHAT_SORT,
                        .n_keys = 1,
                        .keys = &key,
                        .join = {SK_JOIN_FULL, &k, {suffix, none}},
                        .own_reduce = own_reduce};
    return sk_what_write(&w, to, cap);
}

static struct bytes written(const struct sk_value *v) {
    struct bytes b = {sk_alloc_aligned(SK_TAG_TEST, SK_BLOCK_ALIGN, v->size), v->size};
    sk_value_write(v, b.p);
    return b;
}

static void make_runs(void) {
    uint64_t wire[32];
    struct sk_what *what;
    size_t n = write_what(wire, sizeof wire, false);
    CHECK_OK_ERR(sk_what_read((struct sk_bytes){wire, n}, &what, &err), &err);
    forget();
    for (uint32_t m = 0; m < MAPS; m++) {
        int64_t rows = 3000 + (int64_t)test_below(3000);
        struct sk_work *w;
        struct sk_value *v;
        column_make(&S.cols[m][0], "l", rows, (struct column_how){.seed = m, .distinct = 500});
        column_make(&S.cols[m][1], "g", rows, (struct column_how){.seed = m + 9});
        S.cols[m][0].schema.name = "k";
        S.cols[m][1].schema.name = "x";
        batch_make(&S.batch[m], S.cols[m], 2, rows, 0);
        S.rows += rows;
        struct sk_map_input in = {
            .schema = &S.batch[m].schema, .array = &S.batch[m].array, .seq = m, .values = 1};
        CHECK_OK_ERR(sk_work_map(what, &in, &w, &err), &err);
        for (int i = 0; i < 2; i++) {
            CHECK_OK_ERR(sk_work_next(w, &v, &err), &err);
            CHECK_EQ(v->kind, i ? SK_VALUE_RUN : SK_VALUE_SAMPLE);
            *(i ? &S.run[m] : &S.sample[m]) = written(v);
            sk_value_destroy(v);
        }
        sk_work_destroy(w);
    }
    sk_what_destroy(what);
}

static void free_runs(void) {
    for (uint32_t m = 0; m < MAPS; m++) {
        sk_free(S.run[m].p);
        sk_free(S.sample[m].p);
        column_free(&S.cols[m][0]);
        column_free(&S.cols[m][1]);
    }
}

/* ---- arguments ---- */

struct part { /* of an input block */
    struct bytes of;
    uint64_t off, len;
    uint32_t side, run, row;
    bool columns_only;
};

static struct sk_view value_of(struct bytes b) {
    return (struct sk_view){.data = b.p, .len = b.n, .kind = SK_KIND_PACK};
}

static size_t write_stage(void *to, size_t cap, uint32_t n_nodes, bool own_reduce) {
    uint64_t what[32];
    size_t n = write_what(what, sizeof what, own_reduce);
    struct sk_wr w = sk_wr_init(to, cap);
    sk_stage_write(&w, n_nodes);
    for (uint32_t i = 0; i < n_nodes; i++)
        sk_stage_node_write(&w, &(struct sk_stage_node){.op = {"an_op", 5},
                                                        .label = {"Op(k)", 5},
                                                        .params = {"", 0},
                                                        .what = {what, i ? 0 : n}});
    CHECK(sk_wr_ok(&w));
    return w.n;
}

static size_t write_task(void *to, size_t cap, struct sk_pack_task x, const struct part *parts,
                         uint32_t n) {
    struct sk_wr w = sk_wr_init(to, cap);
    sk_stage_task_write(
        &w,
        &(struct sk_stage_task){
            .cap_rows = -1, .target_bytes = 1 << 14, .unit = {"", 0}, .hint = 1, .n_blocks = n});
    for (uint32_t i = 0; i < n; i++)
        sk_stage_block_write(
            &w, &(struct sk_stage_block){parts[i].off, !parts[i].columns_only, parts[i].side});
    sk_pack_task_write(&w, &x);
    for (uint32_t i = 0; i < n; i++)
        sk_pack_block_write(&w, x.phase,
                            &(struct sk_pack_block){.length = parts[i].len,
                                                    .run = parts[i].run,
                                                    .row = parts[i].row,
                                                    .parts = {"", 0}});
    CHECK(sk_wr_ok(&w));
    return w.n;
}

static uint64_t stage_bytes[64], task_bytes[512];

/* Runs a task of a stage of n fused nodes. */
static enum sk_native ran(struct sk_pack_task x, const struct part *parts, uint32_t n,
                          uint32_t n_nodes, bool own_reduce, sk_rc *rc) {
    struct sk_view args[2 + 16] = {
        {.data = (uint8_t *)stage_bytes,
         .len = write_stage(stage_bytes, sizeof stage_bytes, n_nodes, own_reduce),
         .kind = SK_KIND_STAGE},
        {.data = (uint8_t *)task_bytes,
         .len = write_task(task_bytes, sizeof task_bytes, x, parts, n),
         .kind = SK_KIND_EXEC}};
    bool may;
    enum sk_native how;
    for (uint32_t i = 0; i < n; i++) args[2 + i] = value_of(parts[i].of);
    *rc = run(args, 2 + n, &may, &how);
    return how;
}

static void ran_well(struct sk_pack_task x, const struct part *parts, uint32_t n) {
    sk_rc rc;
    CHECK_EQ(ran(x, parts, n, 1, false, &rc), SK_NATIVE_RAN);
    CHECK_OK_ERR(rc, &err);
    CHECK(n_notes == 1 && told.native == 1);
}

static struct part whole(struct bytes b, uint32_t number) {
    return (struct part){.of = b, .len = b.n, .run = number};
}

/* ---- what comes of it ---- */

/* Reads the keys of all blocks in some bytes, in order. */
static uint64_t keys_in(const uint8_t *p, uint64_t left, int64_t *got, uint64_t n) {
    while (left) {
        struct sk_block_info info;
        struct ArrowSchema schema;
        struct ArrowArray array;
        CHECK_OK_ERR(sk_block_info(p, left, &info, &err), &err);
        CHECK_OK_ERR(sk_block_export(p, left, 0, UINT64_MAX, (struct sk_block_owner){NULL, NULL},
                                     &schema, &array, &err),
                     &err);
        const struct ArrowArray *k = array.children[0];
        for (int64_t i = 0; i < array.length; i++)
            got[n++] = ((const int64_t *)k->buffers[1])[k->offset + i];
        schema.release(&schema);
        array.release(&array);
        uint64_t step = SK_MIN((uint64_t)SK_ALIGN(info.total_bytes, SK_BLOCK_ALIGN), left);
        p += step;
        left -= step;
    }
    return n;
}

static void check_sorted(const int64_t *keys, uint64_t n) {
    CHECK_EQ(n, (uint64_t)S.rows);
    for (uint64_t i = 1; i < n; i++) CHECK(keys[i - 1] <= keys[i]);
}

/* Runs a cut task of all runs: returns the bounds, and the cuts of each run. */
static struct bytes cut(struct sk_pack_cut cuts[MAPS][PARTITIONS]) {
    struct part parts[MAPS];
    for (uint32_t m = 0; m < MAPS; m++) parts[m] = whole(S.sample[m], m);
    ran_well((struct sk_pack_task){SK_PHASE_CUT, 0, PARTITIONS, PARTITIONS, 0}, parts, MAPS);
    CHECK_EQ(n_out, 1 + MAPS);
    CHECK(out[0].note.pack.head.kind == SK_PACK_BOUNDS && out[0].kind == SK_KIND_PACK);
    struct bytes bounds = {out[0].bytes, out[0].n};
    out[0].bytes = NULL;
    for (uint32_t m = 0; m < MAPS; m++) {
        const struct value *v = &out[1 + m];
        CHECK(v->note.pack.head.kind == SK_PACK_CUTS && !v->n);
        CHECK(v->note.pack.head.run == m && v->note.pack.head.n == PARTITIONS);
        CHECK(sk_pack_note_ok((struct sk_bytes){&v->note, v->note_n}));
        memcpy(cuts[m], v->note.pack.cut, sizeof cuts[m]);
    }
    forget();
    return bounds;
}

TEST(native_tasks_cut_and_reduce_a_sort) {
    struct sk_pack_cut cuts[MAPS][PARTITIONS];
    make_runs();
    struct bytes bounds = cut(cuts);
    int64_t *got = sk_alloc(SK_TAG_TEST, (size_t)S.rows * sizeof *got);
    uint64_t n = 0;
    for (uint32_t p = 0; p < PARTITIONS; p++) {
        struct part parts[1 + MAPS] = {{.of = bounds, .len = bounds.n, .side = SK_SIDE_BOUNDS}};
        uint32_t k = 1;
        for (uint32_t m = 0; m < MAPS; m++)
            if (cuts[m][p].len64)
                parts[k++] = (struct part){.of = S.run[m],
                                           .off = (uint64_t)cuts[m][p].off64 * 64,
                                           .len = (uint64_t)cuts[m][p].len64 * 64,
                                           .run = m,
                                           .row = cuts[m][p].row};
        ran_well((struct sk_pack_task){SK_PHASE_REDUCE, p, p + 1, PARTITIONS, 0}, parts, k);
        uint64_t rows = 0;
        for (uint32_t i = 0; i < n_out; i++) {
            CHECK(out[i].kind == SK_KIND_BLOCK && out[i].note.block.magic == SK_BLOCK_NOTE);
            rows += out[i].note.block.rows;
            n = keys_in(out[i].bytes, out[i].n, got, n);
        }
        CHECK_EQ(told.rows_out, rows);
        forget();
    }
    check_sorted(got, n);
    sk_free(got);
    sk_free(bounds.p);
    free_runs();
}

TEST(native_tasks_merge_runs_and_leave_out_what_was_yielded_before) {
    struct part parts[MAPS];
    make_runs();
    for (uint32_t m = 0; m < MAPS; m++) parts[m] = whole(S.run[m], m);
    const struct sk_pack_task x = {SK_PHASE_MERGE, 0, 0, 0, 0};
    ran_well(x, parts, MAPS);
    CHECK_EQ(n_out, 2);
    CHECK(out[0].note.pack.head.kind == SK_PACK_SAMPLE);
    CHECK(out[1].note.pack.head.kind == SK_PACK_RUN && told.rows_out == (uint64_t)S.rows);
    int64_t *got = sk_alloc(SK_TAG_TEST, (size_t)S.rows * sizeof *got);
    check_sorted(got, keys_in(out[1].bytes, out[1].n, got, 0));
    sk_free(got);
    struct value sample = out[0];
    out[0].bytes = NULL;
    forget();
    skip = 1; /* an earlier attempt has delivered this yield: only its note is compared */
    ran_well(x, parts, MAPS);
    CHECK(n_out == 2 && !out[0].bytes && out[1].bytes);
    CHECK(!memcmp(&out[0].note, &sample.note, sample.note_n));
    sk_free(sample.bytes);
    forget();
    refuse_at = 1; /* the task was cancelled: the engine's code is the result of run() */
    sk_rc rc;
    CHECK_EQ(ran(x, parts, MAPS, 1, false, &rc), SK_NATIVE_RAN);
    CHECK(rc == SK_ECANCEL && n_out == 1 && !n_notes);
    forget();
    free_runs();
}

TEST(native_tasks_leave_to_operators_what_is_theirs) {
    struct sk_pack_cut cuts[MAPS][PARTITIONS];
    sk_rc rc;
    make_runs();
    struct bytes bounds = cut(cuts);
    struct part parts[2] = {{.of = bounds, .len = bounds.n, .side = SK_SIDE_BOUNDS},
                            {.of = S.run[0], .len = S.run[0].n}};
    struct sk_pack_task x = {SK_PHASE_REDUCE, 0, PARTITIONS, PARTITIONS, 0};
    CHECK_EQ(ran(x, parts, 2, 1, true, &rc), SK_NATIVE_NOT); /* a join's */
    /* an operator is fused behind the exchange */
    CHECK_EQ(ran(x, parts, 2, 2, false, &rc), SK_NATIVE_NOT);
    for (x.phase = SK_PHASE_SPLIT_REDUCE; x.phase <= SK_PHASE_UNMATCHED; x.phase++)
        CHECK_EQ(ran(x, parts, 2, 1, false, &rc), SK_NATIVE_NOT);
    x.phase = SK_PHASE_REDUCE;
    CHECK_EQ(ran(x, parts, 2, 1, false, &rc), SK_NATIVE_RAN);
    forget();
    struct part samples[MAPS];
    for (uint32_t m = 0; m < MAPS; m++) samples[m] = whole(S.sample[m], m);
    x.phase = SK_PHASE_CUT;
    CHECK_EQ(ran(x, samples, MAPS, 2, true, &rc), SK_NATIVE_RAN); /* a cut never is */
    forget();
    parts[0] = whole(S.sample[0], 0); /* the types differ from those of the runs */
    parts[1] = whole(S.run[0], 1);
    CHECK_EQ(ran((struct sk_pack_task){SK_PHASE_MERGE, 0, 0, 0, 0}, parts, 2, 1, false, &rc),
             SK_NATIVE_NOT);
    CHECK_EQ(n_out, 0);
    sk_free(bounds.p);
    free_runs();
}

/* ---- damage ---- */

/* Runs a task whose arguments are changed by chance; ended[how] counts how it ends. */
static void run_damaged(struct sk_pack_task x, const struct part *parts, uint32_t n,
                        uint32_t ended[3]) {
    static const uint64_t odd[] = {
        0, 1, 63, 64, UINT64_MAX, INT64_MAX, 1ull << 32, UINT32_MAX, UINT64_MAX - 63, 1u << 20};
    size_t len = write_task(task_bytes, sizeof task_bytes, x, parts, n),
           stage = write_stage(stage_bytes, sizeof stage_bytes, 1, false);
    uint64_t *words = task_bytes;
    for (uint64_t k = 1 + test_below(3); k > 0; k--) {
        if (test_below(2)) words[test_below(len / 8)] = odd[test_below(SK_COUNT(odd))];
        else ((uint8_t *)words)[test_below(len)] ^= (uint8_t)(1u << test_below(8));
    }
    if (!test_below(8)) len = (size_t)test_below(len + 1);
    if (!test_below(8)) stage = (size_t)test_below(stage + 1);
    struct sk_view args[2 + 2 * MAPS] = {
        {.data = (uint8_t *)stage_bytes, .len = stage, .kind = SK_KIND_STAGE},
        {.data = (uint8_t *)task_bytes, .len = len, .kind = SK_KIND_EXEC}};
    for (uint32_t i = 0; i < n; i++) args[2 + i] = value_of(parts[i].of);
    bool may;
    enum sk_native how;
    sk_rc rc = run(args, 2 + n, &may, &how);
    CHECK((rc == SK_OK) == (how == SK_NATIVE_RAN || (how == SK_NATIVE_NOT && rc == SK_OK)) ||
          n_out == VALUES);
    ended[how]++;
    forget();
}

TEST(native_tasks_with_damaged_arguments_end_with_an_error_or_run) {
    struct sk_pack_cut cuts[MAPS][PARTITIONS];
    make_runs();
    struct bytes bounds = cut(cuts);
    uint32_t ended[3] = {0};
    for (int round = 0; round < test_rounds(3000); round++) {
        struct part parts[1 + MAPS] = {{.of = bounds, .len = bounds.n, .side = SK_SIDE_BOUNDS}};
        struct sk_pack_task x = {SK_PHASE_CUT + (uint32_t)test_below(3), 0, 0, 0, 0};
        uint32_t n = 0;
        if (x.phase != SK_PHASE_MERGE) x.end = x.n = PARTITIONS;
        if (x.phase == SK_PHASE_REDUCE) n = 1;
        for (uint32_t m = 0; m < MAPS; m++)
            parts[n++] = whole(x.phase == SK_PHASE_CUT ? S.sample[m] : S.run[m], m);
        run_damaged(x, parts, n, ended);
    }
    CHECK(ended[SK_NATIVE_NOT] && ended[SK_NATIVE_RAN] && ended[SK_NATIVE_FAILED]);
    sk_free(bounds.p);
    free_runs();
}

/* ---- joins ---- */

enum { SHARES = 2, FEW = 70 };
static struct {
    struct column cols[SHARES + 1][2];
    struct bytes pack[SHARES + 1],
        report[SHARES]; /* pack: shares of the left side, the right one */
} J;

static void make_sides(void) {
    joins = true;
    forget();
    for (int i = 0; i <= SHARES; i++) {
        struct batch b;
        struct sk_block_plan *plan;
        uint64_t size;
        column_make(&J.cols[i][0], "l", FEW, (struct column_how){.seed = 5, .distinct = 9});
        column_make(&J.cols[i][1], "g", FEW, (struct column_how){.seed = 6});
        J.cols[i][0].schema.name = "k";
        J.cols[i][1].schema.name = "x";
        batch_make(&b, J.cols[i], 2, i == SHARES ? FEW / 2 : FEW, 0);
        CHECK_OK_ERR(sk_block_measure(&b.schema, &b.array, &plan, &size, &err), &err);
        size = (uint64_t)SK_ALIGN(size, SK_BLOCK_ALIGN);
        J.pack[i] = (struct bytes){sk_alloc_aligned(SK_TAG_TEST, SK_BLOCK_ALIGN, size), size};
        memset(J.pack[i].p, 0, size);
        sk_block_write(plan, J.pack[i].p);
        sk_block_plan_free(plan);
    }
}

static void free_sides(void) {
    for (int i = 0; i <= SHARES; i++) {
        sk_free(J.pack[i].p);
        if (i < SHARES) sk_free(J.report[i].p);
        if (i < SHARES) J.report[i].p = NULL;
        column_free(&J.cols[i][0]);
        column_free(&J.cols[i][1]);
    }
    joins = false;
}

/* Lists the parts of a task of a join: all shares, or one, or what is unmatched. */
static uint32_t list_sides(struct sk_pack_task x, uint32_t share, struct part *parts) {
    uint32_t n = 0;
    for (uint32_t i = 0; x.phase == SK_PHASE_UNMATCHED && i < SHARES; i++) {
        parts[n] = whole(J.report[i], i);
        parts[n++].side = SK_SIDE_REPORTS;
    }
    for (uint32_t i = 0; i < SHARES; i++)
        if (x.phase == SK_PHASE_REDUCE || i == share) {
            parts[n] = whole(J.pack[i], i);
            parts[n++].columns_only = x.phase == SK_PHASE_UNMATCHED;
        }
    parts[n] = whole(J.pack[SHARES], n);
    parts[n++].side = 1;
    return n;
}

/* Runs a task, keeps its match report, and puts its keys behind the n that `keys` has. */
static uint64_t join_keys(uint32_t phase, uint32_t share, int64_t *keys, uint64_t n) {
    struct part parts[2 * SHARES + 1];
    struct sk_pack_task x = {phase, 0, 1, 1, 1};
    uint64_t before = n;
    ran_well(x, parts, list_sides(x, share, parts));
    for (uint32_t i = 0; i < n_out; i++) {
        bool report = out[i].kind == SK_KIND_PACK;
        CHECK_EQ(report, phase == SK_PHASE_SPLIT_REDUCE && !i);
        if (!report) n = keys_in(out[i].bytes, out[i].n, keys, n);
        if (!report) continue;
        CHECK(out[i].note.pack.head.kind == SK_PACK_MATCH_REPORT);
        CHECK(sk_pack_note_ok((struct sk_bytes){&out[i].note, out[i].note_n}));
        CHECK_EQ(out[i].note.pack.head.bytes, out[i].n);
        sk_free(J.report[share].p);
        J.report[share] = (struct bytes){out[i].bytes, out[i].n};
        out[i].bytes = NULL;
    }
    CHECK_EQ(told.rows_out, n - before);
    forget();
    return n;
}

/* Split reduces and the reduce behind them give what one reduce gives. */
TEST(native_tasks_join_a_partition_whole_and_in_shares) {
    static int64_t want[4 * FEW * FEW], got[4 * FEW * FEW];
    make_sides();
    uint64_t n_want = join_keys(SK_PHASE_REDUCE, 0, want, 0), n = 0;
    CHECK_GE(n_want, FEW * SHARES);
    for (uint32_t i = 0; i < SHARES; i++) n = join_keys(SK_PHASE_SPLIT_REDUCE, i, got, n);
    n = join_keys(SK_PHASE_UNMATCHED, 0, got, n);
    CHECK_EQ(n, n_want);
    CHECK(!memcmp(got, want, (size_t)n * sizeof *got));
    struct part parts[2 * SHARES + 1];
    struct sk_pack_task x = {SK_PHASE_REDUCE, 0, 1, 1, 1};
    sk_rc rc;
    uint32_t n_parts = list_sides(x, 0, parts);
    CHECK_EQ(ran(x, parts, n_parts, 2, false, &rc), SK_NATIVE_NOT); /* something is fused behind */
    CHECK_EQ(ran(x, parts, n_parts - 1, 1, false, &rc), SK_NATIVE_NOT); /* there is no right side */
    parts[0].of = J.report[0]; /* two schemas on one side */
    parts[0].len = J.report[0].n;
    CHECK_EQ(ran(x, parts, n_parts, 1, false, &rc), SK_NATIVE_NOT);
    CHECK_EQ(n_out, 0);
    free_sides();
}

TEST(native_joins_with_damaged_arguments_end_with_an_error_or_run) {
    static int64_t keys[4 * FEW * FEW];
    uint32_t ended[3] = {0};
    make_sides();
    for (uint32_t i = 0; i < SHARES; i++) join_keys(SK_PHASE_SPLIT_REDUCE, i, keys, 0);
    for (int round = 0; round < test_rounds(3000); round++) {
        static const uint32_t phases[] = {SK_PHASE_REDUCE, SK_PHASE_SPLIT_REDUCE,
                                          SK_PHASE_UNMATCHED};
        struct part parts[2 * SHARES + 1];
        struct sk_pack_task x = {phases[test_below(3)], 0, 1, 1, 1};
        run_damaged(x, parts, list_sides(x, 0, parts), ended);
    }
    CHECK(ended[SK_NATIVE_NOT] && ended[SK_NATIVE_RAN] && ended[SK_NATIVE_FAILED]);
    free_sides();
}

TEST(what_an_exchange_does_is_read_within_its_bounds_however_damaged) {
    static const double qs[] = {0.25, 0.5, 1};
    struct sk_what_key keys[] = {{(char *)(uintptr_t)"k", true, false},
                                 {(char *)(uintptr_t)"a longer name", false, true}};
    struct sk_agg aggs[] = {{.kind = SK_AGG_SUM, .column = 2, .name = "sum", .value_name = "v"},
                            {.kind = SK_AGG_APPROX_QUANTILES,
                             .column = 2,
                             .k = 3,
                             .qs = qs,
                             .name = "q",
                             .value_name = ""}};
    struct sk_what w = {.kind = SK_WHAT_AGGREGATE,
                        .n_partitions = 1,
                        .n_keys = SK_COUNT(keys),
                        .keys = keys,
                        .n_aggs = SK_COUNT(aggs),
                        .aggs = aggs};
    uint64_t wire[64];
    size_t n = sk_what_write(&w, wire, sizeof wire);
    CHECK_LE(n, sizeof wire);
    uint32_t read = 0;
    for (int round = 0; round < test_rounds(20000); round++) {
        size_t len = test_below(3) ? n : (size_t)test_below(n + 1);
        /* the bytes end where the allocation ends, so that a sanitizer sees overruns */
        uint8_t *p = malloc(len + 1);
        struct sk_what *back;
        CHECK(p);
        memcpy(p, wire, len);
        for (uint64_t k = test_below(4); len && k > 0; k--)
            p[test_below(len)] = (uint8_t)(test_below(3) ? test_rand() : 0xff);
        sk_rc rc = sk_what_read((struct sk_bytes){p, len}, &back, &err);
        CHECK(rc == SK_OK || rc == SK_EINVAL || rc == SK_ENOMEM);
        if (rc == SK_OK) {
            sk_what_destroy(back);
            read++;
        }
        free(p);
    }
    CHECK(read);
}
