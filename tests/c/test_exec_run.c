/* test_exec_run.c - whole pipelines with stages written in C, each test on the inline engine (tasks
 * run in the thread that waits, in random order; with notes and without) and on the local one (this
 * program is its own fork server).
 *
 * A block here is an array of u64. Stage operators: "read" (unit = first, count), "map_batches"
 * with params "inc", "twice", "half", "fail N", "raw" (yields something that is no block), "bad N"
 * (a dead letter for each row below N). */
#include "base/clock.h"
#include "base/wire.h"
#include "engine/conf.h"
#include "engine/host.h"
#include "engine/state.h"
#include "exec/run/run_int.h"
#include "shuffle/told.h"
#include "test.h"
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>

enum { FN_RUN = 11, FN_INIT = 12, FN_CALL = 13, KIND_BLOCK = 1 };

static const struct sk_op READ = {.name = "read", .props = SK_OP_SOURCE};
static const struct sk_op MAPB = {.name = "map_batches"};
static const struct sk_op ACTORS = {.name = "map_batches"};
static const struct sk_op LIMIT = {.name = "limit", .props = SK_OP_LIMIT};
static const struct sk_op UNION = {.name = "union", .props = SK_OP_UNION};
static const struct sk_op PACKS = {.name = "map_batches", .props = SK_OP_PACKS};
static const struct sk_op MERGE = {.name = "map_batches", .props = SK_OP_PACKS | SK_OP_MERGE};
static const struct sk_op EXCHANGE = {.name = "map_batches", .props = SK_OP_EXCHANGE};

/* ---- what a worker does with a stage --------------------------------------------------------- */

struct worker {
    uint8_t *actor_stage[64]; /* [actor id]: a copy of the stage's description */
    size_t actor_len[64];
    uint64_t aid[64];
    uint32_t n_actors, n_runs, n_gone;
};

struct rows {
    uint64_t *p;
    uint32_t n, cap;
};

#include "exec_run_packs.h"

static sk_rc node(struct sk_rd *r, struct sk_bytes unit, struct rows *rows, bool *raw, bool *packs,
                  uint32_t *bad, struct sk_task *t, struct sk_err *err) {
    struct sk_stage_node of = sk_stage_node_read(r);
    struct sk_bytes name = of.op, params = of.params;
    if (name.n == 4 && memcmp(name.p, "read", 4) == 0) {
        uint64_t first, count;
        memcpy(&first, unit.p, 8);
        memcpy(&count, (const char *)unit.p + 8, 8);
        for (uint64_t i = 0; i < count; i++) CHECK(sk_vec_push(rows, SK_TAG_TEST, first + i));
        return SK_OK;
    }
    char what[32] = {0};
    memcpy(what, params.p, SK_MIN(params.n, sizeof what - 1));
    uint32_t n = rows->n;
    *raw = *raw || strcmp(what, "raw") == 0;
    *packs = *packs || strcmp(what, "packs") == 0;
    for (uint32_t i = 0; i < n; i++) {
        if (strcmp(what, "inc") == 0) rows->p[i]++;
        if (strcmp(what, "twice") == 0) CHECK(sk_vec_push(rows, SK_TAG_TEST, rows->p[i] + 1000000));
        if (strncmp(what, "fail ", 5) == 0 && rows->p[i] == strtoull(what + 5, NULL, 10)) {
            SK_TRY(sk_task_fail(
                t, &(struct sk_payload){.kind = SK_KIND_ERROR, .bytes = {"ValueError: no", 15}},
                err));
            return SK_ECANCEL; /* and nothing more */
        }
    }
    if (strncmp(what, "bad ", 4) == 0) {
        uint32_t k = 0;
        for (uint32_t i = 0; i < n; i++)
            if (rows->p[i] < strtoull(what + 4, NULL, 10)) ++*bad;
            else rows->p[k++] = rows->p[i];
        rows->n = k;
    }
    if (strcmp(what, "half") == 0) {
        uint32_t k = 0;
        for (uint32_t i = 0; i < n; i++)
            if (rows->p[i] % 2 == 0) rows->p[k++] = rows->p[i];
        rows->n = k;
    }
    return SK_OK;
}

static sk_rc stage(struct sk_task *t, struct sk_bytes desc, const struct sk_view *exec,
                   const struct sk_view *blocks, struct sk_err *err) {
    struct sk_rd r = sk_rd_init(exec->data, exec->len), d = sk_rd_init(desc.p, desc.n);
    struct sk_stage_task task = sk_stage_task_read(&r);
    int64_t cap = task.cap_rows;
    uint64_t target = task.target_bytes;
    struct sk_bytes unit = task.unit;
    struct rows rows = {0};
    bool raw = false, packs = false;
    uint32_t bad = 0;
    struct input in = {.n = task.n_blocks, .values = task.hint};
    read_input(&r, &in);
    for (uint32_t i = 0; !in.phase && i < in.n; i++)
        for (uint64_t k = 0; k < in.piece[i].rows; k++)
            CHECK(sk_vec_push(
                &rows, SK_TAG_TEST,
                ((const uint64_t *)(const void *)blocks[i].data)[in.piece[i].row0 + k]));
    CHECK(exec->kind == SK_KIND_EXEC);
    if (in.phase == SK_PHASE_REDUCE) reduce_rows(&in, blocks, &rows);
    sk_rc rc = in.phase == SK_PHASE_MERGE ? merge_packs(t, &in, blocks, err) : SK_OK;
    uint32_t n_nodes = sk_stage_read(&d);
    struct {
        struct sk_task_note head;
        struct sk_task_note_op op[4];
    } note = {{SK_TASK_NOTE, n_nodes}, {{0}}};
    for (uint32_t i = 0; rc == SK_OK && i < n_nodes; i++) {
        rc = node(&d, unit, &rows, &raw, &packs, &bad, t, err);
        note.op[i].rows_out = rows.n;
    }
    CHECK(sk_rd_ok(&d));
    uint32_t per = (uint32_t)(target / 8),
             all = cap >= 0 ? (uint32_t)SK_MIN((int64_t)rows.n, cap) : rows.n;
    if (rc == SK_OK && packs) rc = yield_packs(t, &rows, 0, PARTITIONS, in.values, err);
    for (uint32_t i = 0; rc == SK_OK && !packs && i < all; i += per) {
        uint32_t k = SK_MIN(per, all - i);
        struct sk_block_note bn = {SK_BLOCK_NOTE, 0, k, k * 8, 1};
        rc = sk_task_yield(t,
                           &(struct sk_payload){.kind = KIND_BLOCK,
                                                .bytes = {rows.p + i, k * 8},
                                                .note = {&bn, raw ? 3 : sizeof bn}},
                           err);
    }
    if (rc == SK_OK && bad) {
        struct sk_block_note bn = {SK_BLOCK_NOTE, bad, 0, 0, 0};
        rc = sk_task_yield(t,
                           &(struct sk_payload){.kind = KIND_BLOCK,
                                                .bytes = {&bad, sizeof bad},
                                                .note = {&bn, sizeof bn}},
                           err);
    }
    sk_task_note(t, (struct sk_bytes){&note, sizeof note.head + n_nodes * sizeof *note.op});
    sk_vec_free(&rows);
    return rc == SK_ECANCEL ? SK_OK : rc;
}

/* The runner of a worker of the local engine; it begins before main. */
static sk_rc run(void *ctx, struct sk_task *t, struct sk_err *err);
static sk_rc define(void *ctx, sk_fid fn, const char *name, struct sk_bytes def,
                    struct sk_err *err);

__attribute__((constructor)) static void serve(void) {
    static struct worker w;
    struct sk_runner r = {.ctx = &w, .define = define, .run = run};
    bool was;
    if (!getenv("SKATE_FORK_FD")) return;
    if (sk_worker_serve(&r, &(struct sk_worker_hooks){0}, &was, NULL) != SK_OK) _exit(1);
    if (was) _exit(0);
}

static sk_rc run(void *ctx, struct sk_task *t, struct sk_err *err) {
    struct worker *w = ctx;
    w->n_runs++;
    if (t->fn.v == FN_INIT) {
        CHECK(t->n_args == 1 && t->args[0].kind == SK_KIND_STAGE);
        if (memmem(t->args[0].data, t->args[0].len, "badinit", 7))
            return sk_task_fail(
                t, &(struct sk_payload){.kind = SK_KIND_ERROR, .bytes = {"no model", 9}}, err);
        w->actor_stage[w->n_actors] = sk_memdup(SK_TAG_TEST, t->args[0].data, t->args[0].len);
        w->actor_len[w->n_actors] = t->args[0].len;
        w->aid[w->n_actors++] = t->actor.v;
        return sk_task_return(t, 0, &(struct sk_payload){.kind = 2, .bytes = {"", 0}}, err);
    }
    if (t->fn.v == FN_RUN)
        return stage(t, (struct sk_bytes){t->args[0].data, t->args[0].len}, &t->args[1],
                     t->args + 2, err);
    CHECK_EQ(t->fn.v, FN_CALL);
    for (uint32_t i = 0; i < w->n_actors; i++)
        if (w->aid[i] == t->actor.v)
            return stage(t, (struct sk_bytes){w->actor_stage[i], w->actor_len[i]}, &t->args[0],
                         t->args + 1, err);
    return sk_task_fail(t, &(struct sk_payload){.kind = SK_KIND_ERROR, .bytes = {"no model", 9}},
                        err); /* the call was queued behind a constructor that failed */
}

static sk_rc define(void *ctx, sk_fid fn, const char *name, struct sk_bytes def,
                    struct sk_err *err) {
    (void)ctx, (void)name, (void)def, (void)err;
    CHECK(fn.v >= FN_RUN && fn.v <= FN_CALL);
    return SK_OK;
}

static void actor_gone(void *ctx, sk_aid a) {
    struct worker *w = ctx;
    for (uint32_t i = 0; i < w->n_actors; i++)
        if (w->aid[i] == a.v) {
            sk_free(w->actor_stage[i]);
            w->actor_stage[i] = NULL;
            w->n_gone++;
        }
}

/* ---- the rig --------------------------------------------------------------------------------- */

static struct sk_engine *E;
static struct sk_plan *P;
static struct worker W;
static struct sk_exec *X;
static uint64_t objects_before;

static uint64_t n_objects(void) {
    char text[2000];
    E->state->status(E, text, sizeof text);
    const char *at = strstr(text, "objects ");
    CHECK(at);
    return strtoull(at + 8, NULL, 10);
}

static bool local, no_notes; /* the engine of this test: local, or inline; without notes */
static uint64_t store_bytes = 64 << 20;
static const char *spill_dir; /* NULL: it does not spill */

static void begin(void) {
    static struct sk_runner runner = {
        .ctx = &W, .define = define, .run = run, .actor_gone = actor_gone};
    struct sk_err err = {0};
    char *argv[] = {(char *)(uintptr_t)"/proc/self/exe", NULL};
    struct sk_engine_conf c = {.runner = &runner,
                               .seed = test_rand() | 1,
                               .store_bytes = store_bytes,
                               .spawn_argv = argv,
                               .spin_ns = -1,
                               .no_notes = no_notes};
    if (spill_dir) c.spill_dirs = &spill_dir, c.n_spill_dirs = 1;
    c.total.amount[SK_RES_CPU] = 40000;
    CHECK_OK_ERR(sk_engine_find(local ? "local" : "inline")->open(&c, &E, &err), &err);
    CHECK_OK(E->ops->define(E, (sk_fid){FN_RUN}, "run_stage", (struct sk_bytes){"", 0}, NULL));
    CHECK_OK(E->ops->define(E, (sk_fid){FN_INIT}, "stage_init", (struct sk_bytes){"", 0}, NULL));
    CHECK_OK(E->ops->define(E, (sk_fid){FN_CALL}, "stage_call", (struct sk_bytes){"", 0}, NULL));
    CHECK_OK(sk_plan_create(&P, NULL));
    objects_before = n_objects();
}

static bool settled(void *arg) {
    (void)arg;
    return n_objects() == objects_before;
}

static void end(void) {
    sk_exec_stop(&X);
    sk_exec_stop(&X);
    /* cancelled tasks run to their end */
    (void)!E->ops->drive(E, settled, NULL, test_patience(), NULL);
    CHECK_EQ(n_objects(), objects_before);
    CHECK_EQ(W.n_gone, W.n_actors);
    sk_engine_close(&E);
    sk_plan_destroy(P, NULL, NULL);
}

#define BOTH(name)                 \
    static void both_##name(void); \
    TEST(name) { both_##name(); }  \
    TEST(name##_local) {           \
        local = true;              \
        both_##name();             \
    }                              \
    TEST(name##_without_notes) {   \
        no_notes = true;           \
        both_##name();             \
    }                              \
    static void both_##name(void)

static uint32_t add(const struct sk_op *op, struct sk_node_desc d, const uint32_t *in,
                    uint32_t n_in) {
    struct sk_err err = {0};
    uint32_t id;
    d.op = op;
    d.inputs = in;
    d.n_inputs = n_in;
    CHECK_OK_ERR(sk_plan_add(P, &d, &id, &err), &err);
    return id;
}

static uint32_t range(uint64_t n_units, uint64_t per_unit) {
    struct sk_unit u[300];
    uint64_t p[300][2];
    for (uint64_t i = 0; i < n_units; i++) {
        p[i][0] = i * per_unit;
        p[i][1] = per_unit;
        u[i] = (struct sk_unit){{p[i], 16}, (int64_t)per_unit, (int64_t)per_unit * 8};
    }
    return add(&READ,
               (struct sk_node_desc){
                   .label = "Range", .cpu_e4 = 10000, .units = u, .n_units = (uint32_t)n_units},
               NULL, 0);
}

static uint32_t map(const char *what, uint32_t in) {
    return add(&MAPB,
               (struct sk_node_desc){
                   .label = "MapBatches(f)", .cpu_e4 = 10000, .params = {what, strlen(what)}},
               &in, 1);
}

static uint32_t pool(const char *what, uint32_t in) {
    sk_shape half;
    CHECK_OK(sk_shape_of(E, &(struct sk_res){.amount = {5000}}, &half, NULL));
    return add(&ACTORS,
               (struct sk_node_desc){.label = "MapBatches(A)",
                                     .shape = half,
                                     .cpu_e4 = 5000,
                                     .params = {what, strlen(what)},
                                     .pool_min = 2,
                                     .pool_max = 3},
               &in, 1);
}

static int64_t max_bad, max_errored;
static const char *shuffle;
static uint32_t target_rows = 10;

static void start(uint32_t root) {
    struct sk_err err = {0};
    static struct sk_gathers gathers;
    gathers = sk_shuffle_gathers(sk_shuffle_find(shuffle ? shuffle : "auto"));
    struct sk_exec_conf c = {.gathers = &gathers,
                             .memory_bytes = 1 << 20,
                             .target_max_bytes = 8 * target_rows,
                             .target_min_bytes = 4 * target_rows,
                             .preserve_order = true,
                             .max_bad_rows = max_bad,
                             .max_errored_blocks = max_errored,
                             .run_stage = {FN_RUN},
                             .stage_init = {FN_INIT},
                             .stage_call = {FN_CALL}};
    CHECK_OK_ERR(sk_exec_start(E, P, root, &c, &X, &err), &err);
}

/* Appends the rows of the run's next block. Returns the code of sk_exec_next. */
static sk_rc next(struct rows *out, struct sk_err *err) {
    struct sk_bref b;
    sk_oid bad = {0};
    sk_rc rc = sk_exec_next(X, test_patience(), &b, &bad, err);
    if (rc != SK_OK) {
        if (bad.v) E->ops->release(E, bad);
        char text[4000];
        if (rc == SK_ETIMEOUT && E->state->status(E, text, sizeof text))
            printf("# %s\n%s", err->msg, text);
        return rc;
    }
    struct sk_view v;
    CHECK_OK_ERR(E->ops->get(E, &(sk_oid){b.oid}, 1, INT64_MAX, &v, err), err);
    CHECK_EQ(v.kind, KIND_BLOCK);
    for (uint64_t i = 0; i < b.n_rows; i++)
        CHECK(sk_vec_push(out, SK_TAG_TEST, ((const uint64_t *)(const void *)v.data)[b.row0 + i]));
    E->ops->view_release(E, &v);
    E->ops->release(E, (sk_oid){b.oid});
    return SK_OK;
}

static void all(struct rows *out) {
    struct sk_err err = {0};
    sk_rc rc;
    while ((rc = next(out, &err)) == SK_OK);
    CHECK_MSG(rc == SK_EDONE, "%s: %s", sk_rc_name(rc), err.msg);
}

BOTH(a_pipeline_in_random_order_gives_rows_in_order) {
    begin();
    start(map("inc", map("half", range(50, 7))));
    struct rows r = {0};
    all(&r);
    CHECK_EQ(r.n, 175);
    for (uint64_t i = 0; i < r.n; i++) CHECK_EQ(r.p[i], 2 * i + 1);
    struct sk_exec_stats st;
    struct sk_exec_op_stats op[3];
    sk_exec_get_stats(X, &st, op, 3);
    CHECK_EQ(st.n_ops, 1);
    CHECK(st.done);
    CHECK_EQ(op[0].tasks_done, 50);
    CHECK_EQ(op[0].n_fused, 3);
    CHECK_EQ(op[0].fused[0].rows_out, 350);
    CHECK_EQ(op[0].fused[2].rows_out, 175);
    CHECK_EQ(st.memory_now, 0);
    sk_vec_free(&r);
    end();
}

/* One source task yields 16 times the budget and four times the store at once. Blocks on disk do
 * not count in the budget until a task uses them. */
static bool much_is_on_disk(void *arg) {
    struct sk_node node;
    struct sk_err err;
    CHECK_OK_ERR(sk_engine_sum(E, &node, &err), &err);
    return node.disk_bytes > *(uint64_t *)arg;
}

TEST(the_budget_counts_what_is_in_memory) {
    enum { STORE = 4 << 20, BLOCK = 8192, BLOCKS = 256 };
    char dir[600];
    snprintf(dir, sizeof dir, "%s/spill", test_dir());
    local = true;
    spill_dir = dir;
    store_bytes = STORE;
    target_rows = BLOCK;
    begin();
    uint64_t p[2] = {0, (uint64_t)BLOCK * BLOCKS};
    struct sk_unit u = {{p, 16}, -1, -1};
    uint32_t in = add(
        &READ, (struct sk_node_desc){.label = "Range", .cpu_e4 = 10000, .units = &u, .n_units = 1},
        NULL, 0);
    start(add(&MAPB,
              (struct sk_node_desc){.label = "MapBatches(f)", .cpu_e4 = 9900, .params = {"inc", 3}},
              &in, 1));
    struct sk_exec_stats st;
    struct sk_exec_op_stats op[2];
    struct sk_node node;
    struct sk_err err;
    struct rows r = {0};
    uint64_t disk = 0, much = 3 * STORE / 2;
    sk_rc rc;
    /* otherwise a quick reader may leave little on disk */
    CHECK_OK(E->ops->drive(E, much_is_on_disk, &much, test_patience(), &err));
    while ((rc = next(&r, &err)) == SK_OK) {
        CHECK_OK_ERR(sk_engine_sum(E, &node, &err), &err);
        sk_exec_get_stats(X, &st, op, 2);
        /* blocks restored since then are still being reported */
        CHECK_LE(st.memory_disk, node.disk_bytes + STORE);
        disk = SK_MAX(disk, st.memory_disk);
    }
    CHECK_MSG(rc == SK_EDONE, "%s: %s", sk_rc_name(rc), err.msg);
    CHECK_EQ(r.n, (uint64_t)BLOCK * BLOCKS);
    for (uint64_t i = 0; i < r.n; i++) CHECK_EQ(r.p[i], i + 1);
    sk_exec_get_stats(X, &st, op, 2);
    CHECK_EQ(st.n_ops, 2);
    CHECK_GT(disk, STORE); /* of 16 MiB */
    CHECK_LE(st.memory_peak, 2 * STORE);
    CHECK_EQ(st.memory_now + st.memory_disk, 0);
    CHECK_LE(st.forced, op[1].tasks_done / 4);
    sk_vec_free(&r);
    end();
}

BOTH(actors_and_unions) {
    begin();
    uint32_t in[2] = {range(20, 3), range(4, 30)};
    start(pool("inc", pool("inc", add(&UNION, (struct sk_node_desc){0}, in, 2))));
    struct rows r = {0};
    all(&r);
    CHECK_EQ(r.n, 180);
    for (uint64_t i = 0; i < 60; i++) CHECK_EQ(r.p[i], i + 2);
    for (uint64_t i = 0; i < 120; i++) CHECK_EQ(r.p[60 + i], i + 2);
    CHECK(local || W.n_actors >= 4);
    sk_vec_free(&r);
    end();
}

BOTH(limit_stops_the_rest) {
    begin();
    uint32_t in = pool("twice", range(300, 5));
    start(add(&LIMIT, (struct sk_node_desc){.limit = 23}, &in, 1));
    struct rows r = {0};
    all(&r);
    CHECK_EQ(r.n, 23);
    /* of 300 reads and 300 calls; the engine runs its tasks in random order */
    CHECK_LT(W.n_runs, 290);
    sk_vec_free(&r);
    end();
}

static _Atomic bool looked_enough;
static void *looker(void *arg) {
    /* another thread reads the run's statistics, and sometimes holds the run when an event
     * arrives */
    struct sk_exec_stats st;
    struct sk_exec_op_stats ops[8];
    char text[400];
    (void)arg;
    while (!looked_enough) {
        sk_exec_get_stats(X, &st, ops, 8);
        (void)sk_exec_quiet(X, text, sizeof text);
    }
    return NULL;
}

BOTH(a_run_is_used_by_two_threads) {
    /* one thread waits with short deadlines, again and again, and prints which task waits for
     * what */
    begin();
    start(map("inc", range(300, 7)));
    pthread_t th;
    looked_enough = false;
    CHECK_EQ(pthread_create(&th, NULL, looker, NULL), 0);
    sk_rc rc;
    uint64_t n_rows = 0;
    do {
        struct sk_bref b;
        sk_oid bad = {0};
        struct sk_err err = {0};
        rc = sk_exec_next(X, sk_now_ns() + 20000, &b, &bad, &err);
        if (rc == SK_ETIMEOUT)
            CHECK_STR_HAS(err.msg, "no block within the time given: Range->MapBatches(f): ");
        if (rc == SK_OK) n_rows += b.n_rows, E->ops->release(E, (sk_oid){b.oid});
    } while (rc == SK_OK || rc == SK_ETIMEOUT);
    looked_enough = true;
    pthread_join(th, NULL);
    CHECK_RC(rc, SK_EDONE);
    CHECK_EQ(n_rows, 300 * 7);
    end();
}

BOTH(a_failed_task_fails_the_run_and_says_where) {
    begin();
    start(pool("inc", map("fail 33", range(20, 7))));
    struct rows r = {0};
    struct sk_err err = {0};
    sk_rc rc;
    while ((rc = next(&r, &err)) == SK_OK);
    CHECK_RC(rc, SK_ETASK);
    CHECK_STR_HAS(err.msg, "Range->MapBatches(f), task 4: ");
    struct sk_bref b;
    sk_oid bad = {0};
    /* the error is returned again, with a reference of its own */
    CHECK_RC(sk_exec_next(X, INT64_MAX, &b, &bad, &err), SK_ETASK);
    struct sk_view v;
    CHECK_OK(E->ops->get(E, &bad, 1, INT64_MAX, &v, &err));
    CHECK_EQ(v.kind, SK_KIND_ERROR);
    CHECK_STR_EQ((const char *)v.data, "ValueError: no");
    E->ops->view_release(E, &v);
    E->ops->release(E, bad);
    sk_vec_free(&r);
    end();
}

BOTH(a_failed_constructor_fails_the_run) {
    begin();
    start(pool("badinit", range(20, 7)));
    struct rows r = {0};
    struct sk_err err = {0};
    sk_rc rc = next(&r, &err);
    CHECK_MSG(rc == SK_ETASK, "%s: %s", sk_rc_name(rc), err.msg);
    CHECK_STR_HAS(err.msg, "MapBatches(A), ");
    end();
}

BOTH(a_value_that_is_no_block_is_an_error) {
    begin();
    start(map("raw", range(20, 7)));
    struct rows r = {0};
    struct sk_err err = {0};
    CHECK_RC(next(&r, &err), SK_ECORRUPT);
    CHECK_STR_HAS(err.msg, "Range->MapBatches(f), task ");
    end();
}

BOTH(stopping_early_gives_everything_back) {
    for (uint32_t k = 0; k < 12; k++) {
        W = (struct worker){0};
        begin();
        start(pool("inc", pool("twice", map("half", range(60, 40)))));
        struct rows r = {0};
        struct sk_err err = {0};
        for (uint32_t i = 0; i < k * 5; i++) CHECK_OK_ERR(next(&r, &err), &err);
        sk_vec_free(&r);
        end();
    }
}

BOTH(existing_blocks_pass_and_stay_the_plans) {
    begin();
    uint64_t rows[10] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
    struct sk_bref b[3];
    for (uint32_t i = 0; i < 3; i++) {
        sk_oid o;
        CHECK_OK(E->ops->put(
            E, &(struct sk_payload){.kind = KIND_BLOCK, .bytes = {rows, sizeof rows}}, &o, NULL));
        b[i] = (struct sk_bref){o.v, i, 10 - i, 8 * (10 - i), 0, 0};
    }
    objects_before = n_objects();
    uint32_t s = add(&READ, (struct sk_node_desc){.blocks = b, .n_blocks = 3}, NULL, 0);
    for (int round = 0; round < 2; round++) {
        start(round ? pool("inc", s) : s);
        struct rows r = {0};
        all(&r);
        CHECK_EQ(r.n, 27);
        CHECK_EQ(r.p[10], 1 + (uint64_t)round);
        CHECK_EQ(r.p[19], 2 + (uint64_t)round);
        sk_vec_free(&r);
        sk_exec_stop(&X);
    }
    end();
}

BOTH(large_units_are_put) {
    begin();
    uint64_t *p = sk_calloc(SK_TAG_TEST, 100000);
    p[0] = 5;
    p[1] = 3;
    struct sk_unit u[2] = {{{p, 100000}, 3, 24}, {{p, 8192}, 3, 24}};
    start(map("inc", add(&READ, (struct sk_node_desc){.units = u, .n_units = 2, .cpu_e4 = 10000},
                         NULL, 0)));
    struct rows r = {0};
    all(&r);
    CHECK_EQ(r.n, 6);
    CHECK_EQ(r.p[5], 8);
    sk_vec_free(&r);
    sk_free(p);
    end();
}

BOTH(impossible_runs_do_not_start) {
    begin();
    struct sk_err err = {0};
    struct sk_exec_conf c = {
        .memory_bytes = 1 << 20, .target_max_bytes = 80, .run_stage = {FN_RUN}};
    uint32_t in = range(3, 3);
    in = add(&ACTORS,
             (struct sk_node_desc){.label = "A", .cpu_e4 = 50000, .pool_min = 1, .pool_max = 4},
             &in, 1);
    CHECK_RC(sk_exec_start(E, P, in, &c, &X, &err), SK_EINFEASIBLE);
    CHECK_STR_HAS(err.msg, "= 5 CPUs at the same time, the machine has 4");
    c.policy = "nonsense";
    CHECK_RC(sk_exec_start(E, P, 0, &c, &X, &err), SK_EINVAL);
    c.policy = NULL;
    c.target_max_bytes = 0;
    CHECK_RC(sk_exec_start(E, P, 0, &c, &X, &err), SK_EINVAL);
    CHECK(!X);
    end();
}

/* Each strategy, with blocks of 80 bytes: 40 maps, the strategy's number of packs, merges, reduces.
 * The output is always the same. */
BOTH(an_exchange_gives_the_same_rows_by_each_strategy) {
    for (unsigned i = 0; sk_shuffle_name(i); i++) {
        begin();
        shuffle = sk_shuffle_name(i);
        bool merges = sk_shuffle_find(shuffle)->merges;
        uint32_t in = range(40, 30);
        in = add(&PACKS,
                 (struct sk_node_desc){.label = "Map", .cpu_e4 = 10000, .params = {"packs", 5}},
                 &in, 1);
        if (merges)
            in = add(&MERGE,
                     (struct sk_node_desc){.label = "Merge", .cpu_e4 = 10000, .params = {"", 0}},
                     &in, 1);
        struct sk_node_desc d = {.label = "Reduce",
                                 .cpu_e4 = 10000,
                                 .params = {"inc", 3},
                                 .exchange = {.n_partitions = PARTITIONS}};
        start(add(&EXCHANGE, d, &in, 1));
        struct rows r = {0};
        all(&r);
        CHECK_EQ(r.n, 1200);
        for (uint64_t k = 0; k < r.n; k++) CHECK_EQ(r.p[k], k / 120 + PARTITIONS * (k % 120) + 1);
        struct sk_exec_stats st;
        struct sk_exec_op_stats op[3] = {0};
        sk_exec_get_stats(X, &st, op, 3);
        const struct sk_exec_op_stats *x = &op[st.n_ops - 1];
        const uint64_t *n = x->gather.n;
        CHECK_STR_EQ(x->gather.by, shuffle);
        CHECK_EQ(n[SK_XSTAT_PARTITIONS], PARTITIONS);
        CHECK(n[SK_XSTAT_PACKS] &&
              n[SK_XSTAT_TAKEN] >= n[SK_XSTAT_BYTES] - 64 * n[SK_XSTAT_PACKS] &&
              n[SK_XSTAT_LARGEST]);
        if (merges)
            CHECK(op[1].gather.by == sk_merges_name &&
                  (op[1].tasks_done > 0 || strcmp(shuffle, "auto") == 0));
        CHECK_EQ(st.memory_now, 0);
        sk_vec_free(&r);
        end();
    }
}

/* ---- a strategy that answers from outside of the run, on a thread of its own --------------------
 */

static struct sk_told OUTSIDE;
static sem_t WOKEN; /* once for each call of wake() */
static _Atomic bool run_is_over;
static uint32_t fails_at; /* number of the answer after which only errors follow; 0: none */
static void outside_woken(void *arg) {
    (void)arg;
    sem_post(&WOKEN);
}

static sk_rc answer(void *arg, struct sk_err *err) {
    struct sk_told_question q;
    struct sk_told_state now;
    uint32_t *n = arg;
    sk_told_next(&OUTSIDE, &q);
    if (q.kind && ++*n == fails_at) return SK_ERR(err, SK_ETASK, "the strategy has no answer");
    switch (q.kind) {
    case SK_TOLD_NOTHING: return SK_OK;
    case SK_TOLD_SIZES: sk_told_values(&OUTSIDE, q.side, 2); return SK_OK;
    case SK_TOLD_PACK: {
        SK_TRY(sk_told_hold(&OUTSIDE, q.side, 1, SK_SHUFFLE_ANY, &now, err));
        if (now.group.n < 4) return SK_OK;
        return sk_told_end_group(&OUTSIDE, q.side, now.group.first, SK_TOLD_MERGE, 0, &now, err);
    }
    case SK_TOLD_ENDED: return sk_told_over(&OUTSIDE, q.side, &now, err);
    }
    return SK_OK;
}

static void *answerer(void *arg) {
    uint32_t n = 0;
    (void)arg;
    while (!run_is_over) {
        uint32_t before = n;
        struct sk_err err = {0};
        sk_rc rc = sk_exec_call(X, answer, &n, &err);
        if (rc == SK_EDONE) return NULL;
        if (rc != SK_OK) CHECK_STR_HAS(err.msg, "the strategy has no answer");
        if (n == before) /* no question is open */
            while (sem_wait(&WOKEN) != 0);
    }
    return NULL;
}

static uint32_t outside_exchange(void) {
    sk_told_init(&OUTSIDE, "outside", outside_woken, NULL);
    CHECK_EQ(sem_init(&WOKEN, 0, 0), 0);
    run_is_over = false;
    uint32_t in = range(40, 30);
    in = add(&PACKS, (struct sk_node_desc){.label = "Map", .cpu_e4 = 10000, .params = {"packs", 5}},
             &in, 1);
    in = add(&MERGE, (struct sk_node_desc){.label = "Merge", .cpu_e4 = 10000, .params = {"", 0}},
             &in, 1);
    return add(
        &EXCHANGE,
        (struct sk_node_desc){.label = "Reduce",
                              .cpu_e4 = 10000,
                              .params = {"inc", 3},
                              .exchange = {.n_partitions = PARTITIONS, .strategy = &OUTSIDE.ops}},
        &in, 1);
}

static void end_outside(pthread_t th) {
    run_is_over = true;
    sem_post(&WOKEN);
    pthread_join(th, NULL);
    end();
    sk_told_deinit(&OUTSIDE);
    sem_destroy(&WOKEN);
}

BOTH(a_strategy_answers_on_a_thread_of_its_own) {
    begin();
    fails_at = 0;
    start(outside_exchange());
    struct sk_bref b;
    sk_oid bad = {0};
    struct sk_err err = {0};
    /* no answer was given yet: no map begins, and that is not a stall */
    sk_rc rc;
    while ((rc = sk_exec_next(X, 0, &b, &bad, &err)) == SK_ETIMEOUT && X->step->n_flying)
        CHECK_RC(E->ops->drive(E, sk_inbox_wakes, X->inbox, test_patience(), &err), SK_OK);
    CHECK_RC(rc, SK_ETIMEOUT);
    CHECK_STR_HAS(err.msg, "awaits an answer from outside of the run");
    pthread_t th;
    CHECK_EQ(pthread_create(&th, NULL, answerer, NULL), 0);
    struct rows r = {0};
    all(&r);
    CHECK_EQ(r.n, 1200);
    for (uint64_t k = 0; k < r.n; k++) CHECK_EQ(r.p[k], k / 120 + PARTITIONS * (k % 120) + 1);
    struct sk_exec_stats st;
    struct sk_exec_op_stats op[3] = {0};
    sk_exec_get_stats(X, &st, op, 3);
    CHECK_STR_EQ(op[2].gather.by, "outside");
    CHECK(op[1].tasks_done >= 10 && op[2].gather.n[SK_XSTAT_MERGE] == 4);
    sk_vec_free(&r);
    end_outside(th);
}

BOTH(an_answer_that_fails_is_the_failure_of_the_run) {
    for (fails_at = 1; fails_at < 60; fails_at += 7) {
        W = (struct worker){0};
        begin();
        start(outside_exchange());
        pthread_t th;
        CHECK_EQ(pthread_create(&th, NULL, answerer, NULL), 0);
        struct rows r = {0};
        struct sk_err err = {0};
        sk_rc rc;
        while ((rc = next(&r, &err)) == SK_OK);
        CHECK_RC(rc, SK_ETASK);
        CHECK_STR_EQ(err.msg, "the strategy has no answer");
        sk_vec_free(&r);
        end_outside(th);
    }
}

/* ---- a source that a thread of this process feeds ----------------------------------------------
 */

static const struct sk_op FED = {.name = "stream", .props = SK_OP_SOURCE | SK_OP_NO_FUSE};
enum { FED_ROWS = 7 };
static struct feeder {
    struct sk_feed base;
    sem_t asked;
    _Atomic uint64_t ticket;
    _Atomic bool stop;
    uint32_t n_asks, n_blocks, fails_at;
} F;

static void feeder_ask(struct sk_feed *f, uint64_t ticket) {
    ((struct feeder *)(void *)f)->ticket = ticket;
    sem_post(&((struct feeder *)(void *)f)->asked);
}

static void *feed_run(void *arg) {
    struct feeder *f = arg;
    for (;;) {
        struct sk_err err = {0};
        struct sk_fed fed = {.rc = SK_EDONE, .ns = 1000, .err = &err};
        uint64_t rows[FED_ROWS];
        while (sem_wait(&f->asked) != 0);
        if (f->stop) return NULL;
        uint32_t i = f->n_asks++;
        for (uint32_t k = 0; k < FED_ROWS; k++) rows[k] = i * FED_ROWS + k;
        if (i == f->fails_at) {
            fed.rc = SK_ERR(&err, SK_EIO, "the source is dry");
        } else if (i < f->n_blocks) {
            sk_oid o;
            struct sk_payload p = {.kind = KIND_BLOCK, .bytes = {rows, sizeof rows}};
            CHECK_OK_ERR(E->ops->put(E, &p, &o, &err), &err);
            fed.rc = SK_OK;
            fed.block = (struct sk_bref){.oid = o.v, .n_rows = FED_ROWS, .bytes = sizeof rows};
            fed.cost = sizeof rows;
        }
        sk_exec_fed(X, f->ticket, &fed);
    }
}

static uint32_t fed_source(uint32_t n_blocks, uint32_t fails) {
    F = (struct feeder){.base = {feeder_ask}, .n_blocks = n_blocks, .fails_at = fails};
    CHECK_EQ(sem_init(&F.asked, 0, 0), 0);
    return add(&FED, (struct sk_node_desc){.label = "Fed", .feed = &F.base}, NULL, 0);
}

static void end_fed(pthread_t th) {
    F.stop = true;
    sem_post(&F.asked);
    pthread_join(th, NULL);
    sem_destroy(&F.asked);
    end();
}

BOTH(a_thread_of_this_process_feeds_a_run) {
    for (int how = 0; how < 4; how++) {
        W = (struct worker){0};
        begin();
        uint32_t root = fed_source(200, UINT32_MAX); /* 0: to the consumer, without any task */
        if (how > 0) root = map("inc", root);
        if (how == 1) root = pool("inc", root);
        if (how == 2) root = add(&LIMIT, (struct sk_node_desc){.limit = 100}, &root, 1);
        if (how == 3) {
            uint32_t both[2] = {root, map("inc", range(20, 7))};
            root = add(&UNION, (struct sk_node_desc){0}, both, 2);
        }
        start(root);
        pthread_t th;
        CHECK_EQ(pthread_create(&th, NULL, feed_run, &F), 0);
        struct rows r = {0};
        all(&r);
        CHECK_EQ(r.n, how == 2 ? 100 : how == 3 ? 1540 : 1400);
        for (uint64_t i = 0; i < SK_MIN(r.n, 1400); i++)
            CHECK_EQ(r.p[i], how == 1 ? i + 2 : how ? i + 1 : i);
        for (uint64_t i = 1400; i < r.n; i++) CHECK_EQ(r.p[i], i - 1399);
        /* with a limit: as many as were asked for before the first task, which may be the last */
        if (how != 2) CHECK_EQ(F.n_asks, 201);
        sk_vec_free(&r);
        end_fed(th);
    }
}

TEST(units_of_a_feed_cannot_be_kept_apart) {
    struct sk_err err = {0};
    uint8_t none = 0;
    begin();
    struct sk_exec_conf c = {.memory_bytes = 1 << 20,
                             .target_max_bytes = 100,
                             .run_stage = {FN_RUN},
                             .keep_units = true,
                             .skip_units = &none,
                             .n_skip = 1};
    CHECK_RC(sk_exec_start(E, P, fed_source(1, UINT32_MAX), &c, &X, &err), SK_EINVAL);
    CHECK_STR_HAS(err.msg, "'Fed' is not part of a chain over one source of 1 units");
    sem_destroy(&F.asked);
    end();
}

BOTH(a_feed_that_fails_is_the_failure_of_the_run) {
    for (uint32_t at = 0; at < 60; at += 13) {
        begin();
        start(map("inc", fed_source(200, at)));
        pthread_t th;
        CHECK_EQ(pthread_create(&th, NULL, feed_run, &F), 0);
        struct rows r = {0};
        struct sk_err err = {0};
        sk_rc rc;
        while ((rc = next(&r, &err)) == SK_OK);
        CHECK_RC(rc, SK_EIO);
        CHECK_STR_EQ(err.msg, "the source is dry");
        sk_vec_free(&r);
        end_fed(th);
    }
}

/* The run is stopped with an ask that nobody has answered, and with blocks in all places. */
BOTH(a_run_that_is_stopped_while_it_is_fed) {
    for (uint32_t n = 0; n < 30; n += 9) {
        begin();
        start(map("inc", fed_source(2000, UINT32_MAX)));
        pthread_t th;
        CHECK_EQ(pthread_create(&th, NULL, feed_run, &F), 0);
        struct rows r = {0};
        struct sk_err err = {0};
        while (r.n < n * FED_ROWS) CHECK_OK_ERR(next(&r, &err), &err);
        sk_vec_free(&r);
        end_fed(th);
    }
}

BOTH(empty_sources_end_at_once) {
    begin();
    start(pool("inc", map("inc", range(0, 1))));
    struct rows r = {0};
    all(&r);
    CHECK_EQ(r.n, 0);
    end();
}

/* Kills worker number r of the local engine, busy or idle, unless it is dead already. */
static void kill_one(uint64_t r) {
    struct sk_worker_info w[64];
    size_t n = SK_MIN(E->state->workers(E, w, SK_COUNT(w)), SK_COUNT(w));
    if (n && w[r % n].pid > 0 && w[r % n].state != 3) (void)kill(w[r % n].pid, SIGKILL);
}

TEST(killed_workers_change_nothing_local) {
    local = true;
    begin();
    for (int round = 0; round < 6; round++) {
        start(pool("inc", map("inc", pool("twice", range(80, 25)))));
        struct rows r = {0};
        struct sk_err err = {0};
        sk_rc rc;
        uint32_t n = 0, kills = 0;
        while ((rc = next(&r, &err)) == SK_OK)
            if (++n % 40 == 7 && kills++ < 3) /* a task survives three deaths */
                kill_one(test_rand());
        CHECK_MSG(rc == SK_EDONE, "%s: %s", sk_rc_name(rc), err.msg);
        CHECK_EQ(r.n, 80 * 25 * 2);
        uint64_t at = 0;
        for (uint64_t t = 0; t < 80; t++) /* blocks of 10, 10, 5 rows, each doubled by itself */
            for (uint64_t b = 0; b < 25; b += 10)
                for (uint64_t i = 0, k = SK_MIN(10, 25 - b); i < 2 * k; i++)
                    CHECK_EQ(r.p[at++], t * 25 + b + i % k + 2 + i / k * 1000000);
        sk_vec_free(&r);
        sk_exec_stop(&X);
    }
    end();
}

/* Counts dead letters and errors of tasks that were left out; releases all of them. */
static void failures(uint32_t *bad, uint32_t *errors) {
    struct sk_exec_failure s;
    *bad = *errors = 0;
    while (sk_exec_next_failure(X, &s) == SK_OK) {
        *bad += s.bad;
        *errors += !s.bad;
        CHECK(s.bad || s.err.msg[0]);
        if (s.oid.v) E->ops->release(E, s.oid);
    }
}

BOTH(dead_letters_come_beside_the_output) {
    begin();
    max_bad = 100;
    start(map("inc", map("bad 100", range(50, 7))));
    struct rows r = {0};
    all(&r);
    CHECK_EQ(r.n, 250);
    for (uint64_t i = 0; i < r.n; i++) CHECK_EQ(r.p[i], 101 + i);
    struct sk_exec_stats st;
    sk_exec_get_stats(X, &st, NULL, 0);
    CHECK_EQ(st.bad_rows, 100);
    uint32_t bad, errors;
    failures(&bad, &errors);
    CHECK_EQ(bad, 100);
    CHECK_EQ(errors, 0);
    sk_vec_free(&r);
    end();
}

BOTH(more_dead_letters_than_allowed_fail_the_run) {
    begin();
    max_bad = 99;
    start(map("bad 100", range(50, 7)));
    struct rows r = {0};
    struct sk_err err = {0};
    sk_rc rc;
    while ((rc = next(&r, &err)) == SK_OK);
    CHECK_RC(rc, SK_ETASK);
    CHECK(strstr(err.msg, "100 rows failed, and 99 may"));
    sk_vec_free(&r);
    end(); /* blocks that were not taken are released */
}

BOTH(tasks_may_fail_up_to_a_number) {
    begin();
    max_errored = 2;
    start(map("fail 3", map("fail 40", range(20, 5))));
    struct rows r = {0};
    all(&r);
    CHECK_EQ(r.n, 90);
    uint32_t bad, errors;
    failures(&bad, &errors);
    CHECK_EQ(errors, 2);
    CHECK_EQ(r.p[0], 5);
    sk_vec_free(&r);
    end();
}

BOTH(one_more_task_fails_the_run) {
    begin();
    max_errored = 1;
    start(map("fail 3", map("fail 40", range(20, 5))));
    struct rows r = {0};
    struct sk_err err = {0};
    sk_rc rc;
    while ((rc = next(&r, &err)) == SK_OK);
    CHECK_RC(rc, SK_ETASK);
    sk_vec_free(&r);
    end();
}

/* An invalid note ends a task before its last event: the failure counts once, and later events of
 * the task are dropped. */
TEST(a_task_that_ends_twice_is_left_out_once) {
    begin();
    max_errored = 1;
    start(map("inc", range(4, 10)));
    struct sk_err err = {.code = SK_ECORRUPT, .msg = "other values"};
    uint64_t id = 0, missing;
    for (uint32_t i = 0; i < X->step->slots.n; i++)
        /* the task launched last: its output waits for its turn after its end */
        if (X->step->slots.p[i]) id = X->step->slots.p[i]->id;
    missing = sk_step_task(X->step, id)->seq;
    sk_oid left;
    CHECK_OK(E->ops->put(E, &(struct sk_payload){.kind = KIND_BLOCK, .bytes = {"left over", 9}},
                         &left, NULL));
    struct sk_event failed = {.kind = SK_EV_FAILED, .tag = id, .err = &err},
                    yielded = {.kind = SK_EV_YIELDED, .tag = id, .oid = left};
    sk_inbox_enter(X->inbox);
    sk_run_events.take(X, &failed);
    CHECK(sk_step_task(X->step, id) && sk_step_task(X->step, id)->over);
    sk_run_events.take(X, &yielded);
    sk_run_events.take(X, &failed);
    CHECK_EQ(X->faults.errored_blocks, 1);
    CHECK(!X->failed);
    sk_inbox_leave(X->inbox);
    struct rows r = {0};
    all(&r); /* the engine ends the task, too: the error is reported once */
    CHECK_EQ(r.n, 30);
    for (uint64_t i = 0; i < r.n; i++) CHECK_EQ(r.p[i], i + 1 + (i / 10 >= missing ? 10 : 0));
    CHECK_EQ(X->failures.n, 1);
    sk_vec_free(&r);
    end();
}
