/* test_shuffle_exchange.c - an exchange by hand: packs, cuts, slices, merges; when values are
 * released, and invalid notes of workers. A row has 64 bytes. */
#include "exec_rig.h"
#include "shuffle/exchange/exchange_int.h"

static struct rig R;

static const struct sk_op PACKS = {"map_packs", SK_OP_PACKS}, EXCHANGE = {"reduce", SK_OP_EXCHANGE},
                          MERGE = {"merge", SK_OP_PACKS | SK_OP_MERGE};

static struct sk_shuffle_layout WAY; /* what the strategy says from now on */
/* Merges come back with at most so many bytes; 0: they do not. */
static uint64_t AGAIN;
static uint32_t values(struct sk_shuffle *s) {
    CHECK(sk_shuffle_sizes(s)->memory_bytes && sk_shuffle_sizes(s)->slots);
    return sk_shuffle_sizes(s)->runs && sk_shuffle_sizes(s)->merges && WAY.merge > 1 ? 1
                                                                                     : WAY.values;
}
static void came(struct sk_shuffle *s, const struct sk_shuffle_pack *p) {
    CHECK(p->first < p->end && p->bytes);
    const struct sk_shuffle_group *g = AGAIN ? sk_shuffle_hold(s, 1, SK_SHUFFLE_ANY) : NULL;
    if (g && g->n >= WAY.merge) sk_shuffle_merge_again(s, g, AGAIN);
    if (AGAIN) return;
    if (WAY.merge > 1) sk_shuffle_gather(s, WAY.merge, SK_MAX(WAY.merged, 1u), SK_SHUFFLE_ANY);
    else sk_shuffle_pass(s);
}
static const struct sk_shuffle_ops SAYS = {
    .name = "says", .merges = true, .values = values, .came = came};
static struct sk_gathers GATHERS;

static const struct sk_exchange *exchange_at(uint32_t stage) {
    return sk_exchange_of(R.x->s[stage].gather);
}
static const struct sk_pack_task *pack_task(const struct sk_stask *t) {
    return sk_exchange_task(t->say);
}

struct note {
    struct sk_pack_note h;
    union {
        struct sk_pack_part part[SK_PACK_PARTS_MAX];
        struct sk_pack_cut cut[SK_PACK_CUTS_MAX];
    };
};

static void begin(void) {
    rig_begin(&R);
    AGAIN = 0;
    GATHERS = sk_shuffle_gathers(NULL);
    R.conf.gathers = &GATHERS;
    R.conf.target_min_bytes = 64;
    R.conf.target_max_bytes = 64000;
}

static uint32_t packs(uint32_t in) {
    return rig_add(&R, &PACKS,
                   (struct sk_node_desc){.label = "P", .cpu_e4 = 10000, .max_tasks = 100}, &in, 1);
}

static uint32_t merge(uint32_t in, uint32_t k) {
    WAY = (struct sk_shuffle_layout){.values = 1, .merge = k};
    GATHERS = sk_shuffle_gathers(&SAYS);
    return rig_add(&R, &MERGE, (struct sk_node_desc){.label = "M", .cpu_e4 = 10000}, &in, 1);
}

static uint32_t exchange(bool cut, uint32_t n, const uint32_t *in, uint32_t n_in) {
    struct sk_node_desc d = {
        .label = "X", .cpu_e4 = 10000, .exchange = {.cut = cut, .n_partitions = n}};
    return rig_add(&R, &EXCHANGE, d, in, n_in);
}

/* Starts a plan of a source with n_units tasks, a map to packs, and an exchange: stages 0, 1 (the
 * map) and 2. */
static void start(uint32_t n_units, bool cut, uint32_t n) {
    uint32_t in = packs(rig_source(&R, n_units, 64));
    rig_start(&R, exchange(cut, n, &in, 1));
    /* each source task yields a block, which is the input of a map */
    for (uint32_t i = 0; i < n_units; i++) {
        rig_yield(&R, rig_task(&R, 0, i), 1, 64);
        rig_done(&R, rig_task(&R, 0, i), 1);
    }
}

static struct sk_step_ev pack_event(uint64_t task, struct note *note) {
    note->h.magic = SK_PACK_NOTE;
    CHECK(sk_pack_note_ok((struct sk_bytes){note, sizeof *note}));
    return (struct sk_step_ev){
        .kind = SK_SEV_YIELDED,
        .task = task,
        .block = {.oid = ++R.next_oid, .n_rows = note->h.rows, .bytes = note->h.bytes},
        .cost = note->h.bytes,
        .note = (const void *)&note->h};
}

static uint64_t yield(uint64_t task, struct note note) {
    CHECK(task);
    struct sk_step_ev ev = pack_event(task, &note);
    R.live++;
    rig_event(&R, ev);
    return R.next_oid;
}

/* Yields a pack whose parts have these numbers of rows; a "0" has no bytes, and a pack without rows
 * has one empty block. */
static uint64_t parts(uint64_t task, uint32_t first, const char *rows) {
    struct note note = {.h = {.kind = SK_PACK_PARTS, .first = first}};
    for (; *rows; rows++, note.h.n++) {
        uint32_t n = (uint32_t)(*rows - '0');
        note.part[note.h.n] = (struct sk_pack_part){n, n};
        note.h.rows += n;
        note.h.bytes += n * 64;
    }
    if (!note.h.rows) note.h.bytes = 64 * (note.part[0].len64 = 1);
    return yield(task, note);
}

static uint64_t run_of(uint64_t task, uint32_t rows) {
    yield(task, (struct note){.h = {.kind = SK_PACK_SAMPLE, .rows = 1, .bytes = 64}});
    return yield(
        task,
        (struct note){.h = {.kind = SK_PACK_RUN, .rows = rows, .bytes = 64 * (rows ? rows : 1)}});
}

static void done(uint32_t stage, uint64_t seq) { rig_done(&R, rig_task(&R, stage, seq), 1000); }

/* Returns the input of a task as text: "phase first-last/n" and "side:run@offset+bytes(rows)" of
 * each slice; B: the bounds. */
static const char *input(uint64_t seq) {
    static char text[800];
    const struct sk_stask *t = sk_step_task(R.x, rig_task(&R, R.x->n - 1, seq));
    CHECK_MSG(t, "task %llu is not there", (unsigned long long)seq);
    const struct sk_pack_task *of = pack_task(t);
    int n = snprintf(text, sizeof text, "%s %u-%u/%u",
                     of->phase == SK_PHASE_CUT            ? "cut"
                     : of->phase == SK_PHASE_SPLIT_REDUCE ? "share"
                     : of->phase == SK_PHASE_UNMATCHED    ? "rest"
                                                          : "reduce",
                     of->first, of->end, exchange_at(t->stage)->n);
    for (const struct sk_blk *b = t->in.head; b; b = b->next)
        n += snprintf(text + n, sizeof text - (size_t)n,
                      b->side == SK_SIDE_BOUNDS    ? " B"
                      : b->side == SK_SIDE_REPORTS ? " T"
                                                   : " %u:%u@%llu+%llu(%llu)",
                      b->side, sk_pack_of(b)->run, (unsigned long long)b->ref.row0 / 64,
                      (unsigned long long)b->ref.bytes / 64, (unsigned long long)b->ref.n_rows);
    return text;
}

static void end(void) {
    CHECK(R.x->done);
    while (R.x->out.n) CHECK(rig_take(&R, 1));
    CHECK_EQ(R.live, 0);
    CHECK_EQ(R.x->parked + R.x->parked_disk + R.x->mem.used + R.x->mem.reserved, 0);
    rig_end(&R);
}

TEST(each_reduce_has_its_part_of_each_pack) {
    begin();
    start(2, false, 3);
    parts(rig_task(&R, 1, 1), 0, "103");
    done(1, 1);
    CHECK(!rig_flying(&R, 2));
    parts(rig_task(&R, 1, 0), 0, "22");
    parts(rig_task(&R, 1, 0), 2, "1");
    CHECK_EQ(R.x->parked, 5 * 64); /* the packs of the second task wait for their turn */
    done(1, 0);
    CHECK_STR_EQ(input(0), "reduce 0-1/3 0:0@0+2(2) 0:2@0+1(1)"); /* in the order of the tasks */
    CHECK_STR_EQ(input(1), "reduce 1-2/3 0:0@2+2(2)");
    CHECK_STR_EQ(input(2), "reduce 2-3/3 0:1@0+1(1) 0:2@1+3(3)");
    CHECK_EQ(R.live, 3);
    done(2, 1);
    CHECK_EQ(R.live, 3);
    done(2, 0);
    CHECK_EQ(R.live, 2); /* the first pack is freed */
    rig_yield(&R, rig_task(&R, 2, 2), 1, 64);
    done(2, 2);
    end();
}

TEST(neighbours_are_one_reduce_until_it_is_large_enough) {
    begin();
    R.conf.cpu_e4 = 10000; /* two tasks, one after the other */
    start(2, false, 0);
    parts(rig_task(&R, 1, 0), 0, "1111");
    done(1, 0);
    parts(rig_task(&R, 1, 1), 4, "0293");
    done(1, 1);
    CHECK_EQ(exchange_at(2)->n, 8);
    CHECK_STR_EQ(input(0), "reduce 0-6/8 0:0@0+4(4) 0:1@0+2(2)"); /* 18 rows: 9 each */
    done(2, 0);
    CHECK_STR_EQ(input(1), "reduce 6-7/8 0:1@2+9(9)");
    CHECK_STR_EQ(input(2), "reduce 7-8/8 0:1@11+3(3)");
    done(2, 2);
    done(2, 1);
    end();
}

TEST(no_reduce_is_larger_than_an_eighth_of_memory_if_that_can_be) {
    begin();
    R.conf.memory_bytes = 64 * 8 * 4;
    R.conf.cpu_e4 = 10000;
    start(1, false, 0);
    parts(rig_task(&R, 1, 0), 0, "3223711");
    done(1, 0);
    static const char *const WANT[] = {"0-1", "1-3", "3-4", "4-5", "5-7"};
    for (uint64_t i = 0; i < SK_COUNT(WANT); i++) {
        CHECK_STR_HAS(input(i), WANT[i]);
        done(2, i);
    }
    end();
}

TEST(no_more_reduces_run_than_there_is_memory_for_their_tables) {
    for (int tables = 0; tables < 2; tables++) {
        begin();
        R.conf.moves = true;
        R.conf.memory_bytes = 64 * 60;
        R.conf.target_max_bytes = 64 * 20;
        uint32_t in = packs(rig_source(&R, 1, 64));
        struct sk_node_desc d = {
            .label = "X", .cpu_e4 = 10000, .exchange = {.n_partitions = 2, .tables = tables}};
        rig_start(&R, rig_add(&R, &EXCHANGE, d, &in, 1));
        rig_yield(&R, rig_task(&R, 0, 0), 1, 64);
        rig_done(&R, rig_task(&R, 0, 0), 1);
        parts(rig_task(&R, 1, 0), 0, "99");
        done(1, 0);
        const struct sk_exchange *e = exchange_at(2);
        /* each task takes 9 rows, yields 9, and has 20 for its tables */
        CHECK_EQ(R.x->s[2].in_flight, tables ? 1 : 2);
        CHECK_EQ(e->g.working, tables ? 64 * 20 : 0);
        done(2, 0);
        CHECK_EQ(R.x->s[2].in_flight, 1);
        done(2, 1);
        CHECK_EQ(e->g.working, 0);
        end();
    }
}

/* Starts an exchange of two inputs of two maps each, to n partitions, and yields their packs in the
 * order (input, task). */
static void start_telling(uint32_t n, uint32_t spread, uint32_t tells, const char *const rows[4]) {
    uint32_t in[2] = {packs(rig_source(&R, 2, 64)), packs(rig_source(&R, 2, 64))};
    struct sk_node_desc d = {.label = "X",
                             .cpu_e4 = 10000,
                             .exchange = {.n_partitions = n, .spread = spread, .tells = tells}};
    rig_start(&R, rig_add(&R, &EXCHANGE, d, in, 2));
    const uint32_t *map = R.x->s[4].inputs;
    for (uint32_t i = 0; i < 4; i++) {
        uint32_t read = R.x->s[map[i / 2]].inputs[0];
        rig_yield(&R, rig_task(&R, read, i % 2), 1, 64);
        done(read, i % 2);
        parts(rig_task(&R, map[i / 2], i % 2), 0, rows[i]);
        done(map[i / 2], i % 2);
    }
}

static void start_two(uint32_t n, uint32_t spread, const char *const rows[4]) {
    start_telling(n, spread, 0, rows);
}

TEST(a_hot_partition_is_shared_by_reduces_each_of_which_has_all_of_the_other_input) {
    static const char *const ROWS[] = {"16", "15", "11", "01"};
    begin();
    R.conf.memory_bytes = 64 * 8 * 9; /* a reduce: 9 rows */
    start_two(2, 1, ROWS);
    CHECK_STR_EQ(input(0), "reduce 0-1/2 0:0@0+1(1) 0:1@0+1(1) 1:2@0+1(1)");
    CHECK_STR_EQ(input(1), "reduce 1-2/2 0:0@1+6(6) 1:2@1+1(1) 1:3@0+1(1)");
    CHECK_STR_EQ(input(2), "reduce 1-2/2 0:1@1+5(5) 1:2@1+1(1) 1:3@0+1(1)");
    CHECK_EQ(R.live, 4);
    done(4, 2);
    CHECK_EQ(R.live, 4);
    done(4, 0);
    CHECK_EQ(R.live, 3); /* the second pack of the shared input has been used up */
    done(4, 1);
    end();
}

TEST(of_a_hot_partition_the_input_with_more_rows_is_shared_where_either_may_be) {
    static const char *const ROWS[] = {"11", "01", "16", "15"}, *const EQUAL[] = {"3", "3", "3",
                                                                                  "3"};
    begin();
    R.conf.memory_bytes = 64 * 8 * 9;
    start_two(2, 3, ROWS);
    CHECK_STR_EQ(input(0), "reduce 0-1/2 0:0@0+1(1) 1:2@0+1(1) 1:3@0+1(1)");
    CHECK_STR_EQ(input(1), "reduce 1-2/2 0:0@1+1(1) 0:1@0+1(1) 1:2@1+6(6)");
    CHECK_STR_EQ(input(2), "reduce 1-2/2 0:0@1+1(1) 0:1@0+1(1) 1:3@1+5(5)");
    /* all reduces get the number of the shared input, also those that share no partition */
    for (uint64_t i = 0; i < 3; i++)
        CHECK_EQ(pack_task(sk_step_task(R.x, rig_task(&R, 4, i)))->shared, 2);
    for (uint64_t i = 0; i < 3; i++) done(4, i);
    end();
    begin();
    start_two(1, 3, EQUAL);
    CHECK_EQ(pack_task(sk_step_task(R.x, rig_task(&R, 4, 0)))->shared, 1);
    done(4, 0);
    end();
}

static uint64_t tell_met(uint64_t seq) {
    return yield(rig_task(&R, 4, seq),
                 (struct note){.h = {.kind = SK_PACK_MATCH_REPORT, .rows = 2, .bytes = 8}});
}

/* rows of the packs; in the second partition the left side has the most */
static const char *const HOT[] = {"161", "151", "111", "011"};

TEST(what_shares_tell_goes_to_one_task_behind_them) {
    begin();
    R.conf.memory_bytes = 64 * 8 * 9;
    start_telling(3, 3, 3, HOT);
    /* one task has the whole partition, and writes no report */
    CHECK_STR_EQ(input(0), "reduce 0-1/3 0:0@0+1(1) 0:1@0+1(1) 1:2@0+1(1)");
    CHECK_STR_EQ(input(1), "share 1-2/3 0:0@1+6(6) 1:2@1+1(1) 1:3@0+1(1)");
    CHECK_STR_EQ(input(2), "share 1-2/3 0:1@1+5(5) 1:2@1+1(1) 1:3@0+1(1)");
    CHECK(!rig_task(&R, 4, 3));
    tell_met(2);
    CHECK_EQ(R.x->parked, 64 * 20 + 8);
    rig_yield(&R, rig_task(&R, 4, 1), 1, 64);
    CHECK(!rig_task(&R, 4, 3));
    tell_met(1);
    CHECK_STR_EQ(input(3),
                 /* columns of the shared side, all rows of the other; split reduces still run */
                 "rest 1-2/3 T T 0:0@0+1(0) 1:2@1+1(1) 1:3@0+1(1)");
    const struct sk_blk *told = sk_step_task(R.x, rig_task(&R, 4, 3))->in.head;
    /* in the order of the split reduces, whichever ended first */
    CHECK_LT(sk_pack_of(told)->run, sk_pack_of(told->next)->run);
    for (uint64_t i = 0; i < 3; i++) done(4, i);
    CHECK_EQ(R.live, 4 + 2 + 1);
    done(4, 3);
    CHECK_STR_EQ(input(4), "reduce 2-3/3 0:0@7+1(1) 0:1@6+1(1) 1:2@2+1(1) 1:3@1+1(1)");
    CHECK_EQ(R.live, 4 + 1);
    done(4, 4);
    CHECK_EQ(R.x->s[4].tasks_done, 5);
    end();
}

TEST(nothing_is_told_where_that_side_does_not_ask_or_the_other_one_has_no_rows) {
    static const char *const EMPTY[] = {"161", "151", "101", "001"};
    for (int i = 0; i < 2; i++) {
        begin();
        R.conf.memory_bytes = 64 * 8 * 9;
        start_telling(3, 3, i ? 3 : 2, i ? EMPTY : HOT);
        for (uint64_t k = 0; k < 4; k++) {
            CHECK_STR_HAS(input(k), "reduce");
            done(4, k);
        }
        end();
    }
}

TEST(a_share_that_does_not_tell_ends_the_run) {
    struct sk_err err = {0};
    begin();
    R.conf.memory_bytes = 64 * 8 * 9;
    start_telling(3, 3, 3, HOT);
    struct sk_step_ev ev = {.kind = SK_SEV_DONE, .task = rig_task(&R, 4, 1), .run_ns = 1};
    CHECK_RC(sk_step_event(R.x, &ev, 1, &err), SK_ECORRUPT);
    CHECK_STR_HAS(err.msg, "has not told");
    rig_end(&R);
}

TEST(nobody_waits_for_shares_of_what_is_not_wanted_any_more) {
    begin();
    R.conf.memory_bytes = 64 * 8 * 9;
    uint32_t in[2] = {packs(rig_source(&R, 1, 64)), packs(rig_source(&R, 1, 64))};
    struct sk_node_desc d = {
        .label = "X", .cpu_e4 = 10000, .exchange = {.n_partitions = 1, .spread = 3, .tells = 3}};
    uint32_t x = rig_add(&R, &EXCHANGE, d, in, 2);
    rig_start(&R, rig_add(&R, &RIG_LIMIT, (struct sk_node_desc){.limit = 3}, &x, 1));
    const uint32_t *map = R.x->s[4].inputs;
    for (uint32_t i = 0; i < 2; i++) {
        uint32_t read = R.x->s[map[i]].inputs[0];
        rig_yield(&R, rig_task(&R, read, 0), 1, 64);
        done(read, 0);
        for (int k = 0; k < 2 - (int)i; k++) parts(rig_task(&R, map[i], 0), 0, i ? "1" : "6");
        done(map[i], 0);
    }
    tell_met(1);
    rig_yield(&R, rig_task(&R, 4, 0), 3, 64);
    CHECK_EQ(R.n_cancelled, 2);
    CHECK(rig_take(&R, 3));
    for (uint32_t i = R.launched.n; i-- > 0;)
        if (R.launched.p[i]) rig_done(&R, R.launched.p[i], 1);
    end();
}

TEST(a_hot_partition_is_whole_where_sharing_is_not_allowed_or_helps_nothing) {
    static const char *const ROWS[] = {"16", "15", "11", "01"}, *const OTHER[] = {"11", "11", "19",
                                                                                  "19"};
    for (int i = 0; i < 2; i++) {
        begin();
        R.conf.memory_bytes = 64 * 8 * 9;
        start_two(2, (uint32_t)i,
                  /* the packs that all reduces would get are too large: each takes at least half as
                   * much of the shared input, so there is only one */
                  i ? OTHER : ROWS);
        CHECK_STR_EQ(input(1), i ? "reduce 1-2/2 0:0@1+1(1) 0:1@1+1(1) 1:2@1+9(9) 1:3@1+9(9)"
                                 : "reduce 1-2/2 0:0@1+6(6) 0:1@1+5(5) 1:2@1+1(1) 1:3@0+1(1)");
        done(4, 0);
        done(4, 1);
        end();
    }
}

TEST(who_has_no_rows_of_an_input_sees_its_columns) {
    begin();
    uint32_t in[2] = {packs(rig_source(&R, 1, 64)), packs(rig_source(&R, 1, 64))};
    rig_start(&R, exchange(false, 3, in, 2));
    const uint32_t *map = R.x->s[4].inputs;
    for (uint32_t k = 0; k < 2; k++) {
        uint32_t read = R.x->s[map[k]].inputs[0];
        rig_yield(&R, rig_task(&R, read, 0), 1, 64);
        done(read, 0);
    }
    parts(rig_task(&R, map[1], 0), 0, "000"); /* the second input arrives first */
    done(map[1], 0);
    parts(rig_task(&R, map[0], 0), 0, "020");
    done(map[0], 0);
    /* the only part of that input, of which no row belongs to this reduce */
    CHECK_STR_EQ(input(0), "reduce 0-1/3 0:0@0+2(0) 1:1@0+1(0)");
    CHECK_STR_EQ(input(1), "reduce 1-2/3 0:0@0+2(2) 1:1@0+1(0)");
    for (uint64_t i = 0; i < 3; i++) {
        CHECK_EQ(R.live, 2);
        rig_done(&R, rig_task(&R, 4, i), 1);
    }
    end();
}

TEST(without_any_pack_reduces_run_all_the_same) {
    for (uint32_t wanted = 0; wanted < 4; wanted += 3)
        for (int cut = 0; cut < 2; cut++) {
            begin();
            start(wanted ? 1 : 0, cut, wanted);
            if (wanted) done(1, 0); /* a map that yields nothing; or no map at all */
            for (uint32_t i = 0; i < SK_MAX(wanted, 1u); i++) {
                CHECK_EQ(sk_step_task(R.x, rig_task(&R, 2, i))->in.n, 0);
                done(2, i);
            }
            end();
        }
}

static void cuts(uint64_t task, uint32_t run, uint32_t first, const struct sk_pack_cut *c,
                 uint32_t n) {
    struct note note = {.h = {.kind = SK_PACK_CUTS, .run = run, .first = first, .n = n}};
    memcpy(note.cut, c, n * sizeof *c);
    yield(task, note);
}

TEST(runs_are_cut_by_a_task_and_reduces_have_its_pages) {
    begin();
    start(2, true, 3);
    run_of(rig_task(&R, 1, 0), 9);
    done(1, 0);
    run_of(rig_task(&R, 1, 1), 0);
    done(1, 1);
    CHECK_STR_EQ(input(0), "cut 0-3/3 0:0@0+1(1) 0:1@0+1(1)"); /* the samples */
    uint64_t t = rig_task(&R, 2, 0);
    /* the cuts of the next run follow */
    cuts(t, 0, 1, (struct sk_pack_cut[]){{2, 4, 2, 3}, {4, 5, 4, 4}, {0, 1, 0, 0}, {0}, {0}}, 5);
    CHECK_EQ(R.live, 4);
    yield(t, (struct note){.h = {.kind = SK_PACK_BOUNDS, .rows = 2, .bytes = 64}});
    cuts(t, 0, 0, (struct sk_pack_cut[]){{0, 4, 0, 2}}, 1);
    CHECK_EQ(rig_flying(&R, 2), 1);
    CHECK_EQ(R.x->s[2].next_seq, 0); /* the cut task has no sequence number */
    done(2, 0);
    CHECK_EQ(R.live, 3); /* the samples are freed */
    CHECK_STR_EQ(input(0), "reduce 0-1/3 B 0:0@0+4(2) 0:1@0+1(0)");
    CHECK_STR_EQ(input(1), "reduce 1-2/3 B 0:0@2+4(3)");
    CHECK_EQ(sk_step_task(R.x, rig_task(&R, 2, 1))->in.tail->ref.origin, 2); /* its first row */
    CHECK_STR_EQ(input(2), "reduce 2-3/3 B 0:0@4+5(4)");
    CHECK_EQ(R.x->s[2].size.n, 0); /* the cut task does not change the estimates of sizes */
    done(2, 2);
    done(2, 1);
    CHECK_EQ(R.live, 3);
    done(2, 0);
    end();
}

static uint64_t expected_rows(uint64_t rows) {
    const struct sk_exchange *e = exchange_at(2);
    uint32_t work = 1;
    uint64_t bytes = e->g.ops->task_bytes(&e->g, rows * 64, &work);
    CHECK_EQ(work, 0);
    return bytes / 64;
}

/* One pack of 8 partitions of 9 rows comes. `most`: the rows that a reduce may have at most. */
static void expect_of_parts(uint32_t wanted, uint64_t most, uint64_t before, uint64_t after) {
    begin();
    R.conf.memory_bytes = 64 * 8 * most;
    R.conf.cpu_e4 = 10000; /* two reduces, if they may be so large */
    start(1, false, wanted);
    CHECK_EQ(expected_rows(72), before);
    parts(rig_task(&R, 1, 0), 0, "99999999");
    CHECK_EQ(expected_rows(72), after);
    done(1, 0);
    for (uint64_t i = 0; i < 72 / after; i++) {
        CHECK_EQ(sk_step_task(R.x, rig_task(&R, 2, i))->in_bytes, 64 * after);
        done(2, i);
    }
    end();
}

TEST(what_a_reduce_takes_is_known_before_it_begins) {
    expect_of_parts(0, 1000, 36, 36);
    expect_of_parts(0, 20, 20, 18); /* two partitions are not more than it may take */
    expect_of_parts(0, 4, 4, 9);    /* no less than a partition */
    expect_of_parts(8, 1000, 9, 9); /* each partition that the user asked for is one reduce */
    begin();
    R.conf.cpu_e4 = 10000;
    start(1, true, 0);
    CHECK_EQ(expected_rows(72), 36);
    run_of(rig_task(&R, 1, 0), 72);
    CHECK_EQ(expected_rows(72), 36);
    done(1, 0);
    cuts(rig_task(&R, 2, 0), 0, 0, (struct sk_pack_cut[]){{0, 36, 0, 36}, {36, 36, 36, 36}}, 2);
    done(2, 0);
    for (uint64_t i = 0; i < 2; i++) done(2, i);
    end();
}

TEST(a_merge_takes_packs_of_the_same_partitions) {
    begin();
    R.conf.target_max_bytes = 640;
    uint32_t m = packs(rig_source(&R, 3, 64));
    m = merge(m, 2);
    rig_start(&R, exchange(false, 4, &m, 1));
    for (uint32_t i = 0; i < 3; i++) {
        rig_yield(&R, rig_task(&R, 0, i), 1, 64);
        done(0, i);
    }
    uint64_t id[3][2];
    for (uint32_t i = 0; i < 3; i++) {
        for (uint32_t g = 0; g < 2; g++) id[i][g] = parts(rig_task(&R, 1, i), 2 * g, "11");
        done(1, i);
        CHECK_EQ(rig_flying(&R, 2), i == 0 ? 0 : 2); /* one pack is not merged */
    }
    for (uint32_t g = 0; g < 2; g++) {
        const struct sk_stask *t = sk_step_task(R.x, rig_task(&R, 2, g));
        CHECK(t->in.n == 2 && t->in.head->ref.oid == id[0][g] && t->in.tail->ref.oid == id[1][g] &&
              pack_task(t)->phase == SK_PHASE_MERGE);
    }
    for (uint64_t i = 2; i-- > 0;) parts(rig_task(&R, 2, i), 2 * (uint32_t)i, "22"), done(2, i);
    /* packs that were not merged arrived first, and keep their place */
    CHECK_STR_EQ(input(0), "reduce 0-1/4 0:0@0+2(2) 0:2@0+1(1)");
    CHECK_STR_EQ(input(3), "reduce 3-4/4 0:1@2+2(2) 0:3@1+1(1)");
    for (uint64_t i = 0; i < 4; i++) done(3, i);
    end();
}

TEST(a_strategy_may_change_its_mind_and_packs_keep_their_order) {
    begin();
    R.conf.target_max_bytes = 640;
    rig_start(&R, exchange(false, 4, (uint32_t[]){merge(packs(rig_source(&R, 9, 64)), 3)}, 1));
    static const char *const ROWS[] = {"1111", "1111", "1111", "1111", "11",
                                       "11",   "1111", "1111", "1111"};
    for (uint32_t i = 0; i < 9; i++) {
        rig_yield(&R, rig_task(&R, 0, i), 1, 64);
        done(0, i);
    }
    for (uint32_t i = 0; i < 9; i++) {
        /* a pack of four partitions waits, and packs of two partitions arrive: it is passed on
         * unmerged */
        if (i == 4) WAY.merge = 2;
        if (i == 6) WAY.merge = 0;
        if (i == 7) WAY.merge = 2;
        parts(rig_task(&R, 1, i), i == 5 ? 2 : 0, ROWS[i]);
        done(1, i);
    }
    CHECK_EQ(rig_flying(&R, 2), 2); /* 0 to 2; 7 and 8 */
    parts(rig_task(&R, 2, 1), 0, "2222");
    done(2, 1);
    parts(rig_task(&R, 2, 0), 0, "3333");
    done(2, 0);
    CHECK_STR_EQ(input(0), "reduce 0-1/4 0:0@0+3(3) 0:1@0+1(1) 0:2@0+1(1) 0:4@0+1(1) 0:5@0+2(2)");
    CHECK_STR_EQ(input(2), "reduce 2-3/4 0:0@6+3(3) 0:1@2+1(1) 0:3@0+1(1) 0:4@2+1(1) 0:5@4+2(2)");
    for (uint64_t i = 0; i < 4; i++) done(3, i);
    end();
}

TEST(packs_of_a_hot_partition_that_reduces_share_are_merged_no_further_than_a_reduce_takes) {
    begin();
    R.conf.target_max_bytes = 12 * 64; /* of a reduce */
    struct sk_node_desc d = {
        .label = "X", .cpu_e4 = 10000, .exchange = {.n_partitions = 2, .spread = 1}};
    rig_start(&R,
              rig_add(&R, &EXCHANGE, d, (uint32_t[]){merge(packs(rig_source(&R, 4, 64)), 4)}, 1));
    static const char *const ROWS[] = {"13", "13", "13", "12"};
    for (uint32_t i = 0; i < 4; i++) {
        rig_yield(&R, rig_task(&R, 0, i), 1, 64);
        done(0, i);
        parts(rig_task(&R, 1, i), 0, ROWS[i]);
        done(1, i);
    }
    CHECK_EQ(rig_flying(&R, 2), 2); /* two packs in each merge, not all four in one */
    parts(rig_task(&R, 2, 0), 0, "26");
    done(2, 0);
    parts(rig_task(&R, 2, 1), 0, "25");
    done(2, 1);
    CHECK_STR_EQ(input(0), "reduce 0-1/2 0:0@0+2(2) 0:1@0+2(2)");
    CHECK_STR_EQ(input(1), "reduce 1-2/2 0:0@2+6(6) 0:1@2+5(5)");
    done(3, 0);
    done(3, 1);
    end();
}

TEST(a_run_that_is_not_merged_brings_its_sample) {
    begin();
    rig_start(&R, exchange(true, 2, (uint32_t[]){merge(packs(rig_source(&R, 3, 64)), 2)}, 1));
    for (uint32_t i = 0; i < 3; i++) {
        rig_yield(&R, rig_task(&R, 0, i), 1, 64);
        done(0, i);
        run_of(rig_task(&R, 1, i), 3 + i);
        if (i < 2) done(1, i);
    }
    CHECK_EQ(rig_flying(&R, 2), 1);
    /* samples of merged runs are freed; the last map's input is not */
    CHECK_EQ(R.live, 2 + 2 + 1);
    uint64_t t = rig_task(&R, 2, 0);
    yield(t, (struct note){.h = {.kind = SK_PACK_SAMPLE, .rows = 1, .bytes = 64}});
    done(1, 2); /* the last run goes through between a merge's sample and its run */
    yield(t, (struct note){.h = {.kind = SK_PACK_RUN, .rows = 7, .bytes = 7 * 64}});
    done(2, 0);
    CHECK_STR_EQ(input(0), "cut 0-2/2 0:0@0+1(1) 0:1@0+1(1)");
    cuts(rig_task(&R, 3, 0), 0, 0,
         (struct sk_pack_cut[]){{0, 4, 0, 4}, {4, 3, 4, 3}, {0, 2, 0, 2}, {2, 3, 2, 3}}, 4);
    done(3, 0);
    CHECK_STR_EQ(input(0), "reduce 0-1/2 0:0@0+4(4) 0:1@0+2(2)");
    for (uint64_t i = 0; i < 2; i++) done(3, i);
    end();
}

TEST(a_map_that_fails_before_its_run_has_lost_nothing_but_its_sample) {
    begin();
    start(2, true, 1);
    yield(rig_task(&R, 1, 0), (struct note){.h = {.kind = SK_PACK_SAMPLE, .rows = 1, .bytes = 64}});
    done(1, 0);          /* the map was skipped */
    CHECK_EQ(R.live, 2); /* its input is freed, the other map's is not */
    run_of(rig_task(&R, 1, 1), 2);
    CHECK_EQ(R.live, 3);
    done(1, 1);
    CHECK_STR_EQ(input(0), "cut 0-1/1 0:0@0+1(1)");
    cuts(rig_task(&R, 2, 0), 0, 0, (struct sk_pack_cut[]){{0, 2, 0, 2}}, 1);
    done(2, 0);
    CHECK_STR_EQ(input(0), "reduce 0-1/1 0:0@0+2(2)");
    done(2, 0);
    end();
}

/* A limit behind the exchange, which a second input of a union reaches, ends it at every point of
 * its life. */
TEST(a_limit_cuts_it_at_any_time) {
    for (int at = 0; at < 6; at++) {
        begin();
        uint32_t in = packs(rig_source(&R, 2, 64));
        in = exchange(true, 2, &in, 1);
        in = rig_add(&R, &RIG_LIMIT, (struct sk_node_desc){.limit = 1}, &in, 1);
        R.conf.preserve_order = false;
        rig_start(&R, in);
        for (uint32_t i = 0; i < 2; i++) {
            rig_yield(&R, rig_task(&R, 0, i), 1, 64);
            done(0, i);
        }
        for (uint32_t i = 0; i < 2 && at > (int)i; i++) {
            run_of(rig_task(&R, 1, i), 4);
            if (i == 0 || at > 2) done(1, i);
        }
        if (at > 3) { /* the cut task runs */
            uint64_t t = rig_task(&R, 2, 0);
            for (uint32_t run = 0; run < 2; run++)
                cuts(t, run, 0, (struct sk_pack_cut[]){{0, 2, 0, 2}, {2, 2, 2, 2}}, 2);
            yield(t, (struct note){.h = {.kind = SK_PACK_BOUNDS, .rows = 2, .bytes = 64}});
        }
        if (at > 4) {
            done(2, 0);
            /* the limit is reached: the other reduce is cancelled */
            rig_yield(&R, rig_task(&R, 2, 1), 1, 64);
        } else { /* its output is not needed */
            struct sk_err err = {0};
            CHECK_OK_ERR(sk_order_limit_done(R.x, 3, &err), &err);
            rig_event(&R, (struct sk_step_ev){.kind = SK_SEV_TICK});
        }
        CHECK(R.x->done);
        for (uint32_t i = 0; i < R.launched.n; i++)
            if (R.launched.p[i]) rig_fail(&R, R.launched.p[i]);
        if (at > 4) CHECK(rig_take(&R, 1));
        end();
    }
}

/* Checks the error for a worker that yields an invalid note. */
static void refused(struct note note, uint64_t task, const char *why) {
    struct sk_step_ev ev = pack_event(task, &note);
    struct sk_err err = {0};
    if (!note.h.kind) ev.note = NULL;
    uint32_t before = R.x->acts.n;
    CHECK_RC(sk_step_event(R.x, &ev, R.now, &err), SK_ECORRUPT);
    CHECK_STR_HAS(err.msg, why);
    R.live++;
    for (uint32_t i = before; i < R.x->acts.n; i++) R.live -= R.x->acts.p[i].kind == SK_ACT_RELEASE;
    R.x->acts.n = 0;
    rig_end(&R);
}

TEST(packs_that_are_not_wanted_are_an_error) {
    struct note part = {.h = {.kind = SK_PACK_PARTS, .first = 2, .n = 1, .rows = 1, .bytes = 64},
                        .part = {{1, 1}}};
    struct note run = {.h = {.kind = SK_PACK_RUN, .rows = 1, .bytes = 64}},
                bounds = {.h = {.kind = SK_PACK_BOUNDS}};
    begin();
    start(1, false, 2);
    /* a part of a third partition, where only two exist */
    refused(part, rig_task(&R, 1, 0), "a value that is not wanted here");
    begin();
    start(1, false, 0);
    refused(run, rig_task(&R, 1, 0), "a value that is not wanted here");
    begin();
    start(1, true, 0);
    refused(bounds, rig_task(&R, 1, 0), "a value that is not wanted here");
    begin();
    start(1, true, 0);
    refused(run, rig_task(&R, 1, 0), "without its sample");
    struct note told = {.h = {.kind = SK_PACK_MATCH_REPORT, .rows = 2, .bytes = 8}};
    begin();
    R.conf.memory_bytes = 64 * 8 * 9;
    start_telling(3, 3, 3, HOT);
    tell_met(1);
    refused(told, rig_task(&R, 4, 1), "a value that is not wanted here"); /* once is enough */
    begin();
    start_telling(3, 3, 3, HOT);
    refused(told, rig_task(&R, 4, 1), "a value that is not wanted here"); /* it has no share */
    begin();
    start(1, true, 0);
    struct sk_step_ev ev = {.kind = SK_SEV_YIELDED,
                            .task = rig_task(&R, 1, 0),
                            .block = {.oid = 7, .n_rows = 1, .bytes = 64},
                            .cost = 64};
    struct sk_err err = {0};
    CHECK_RC(sk_step_event(R.x, &ev, R.now, &err), SK_ECORRUPT);
    CHECK_STR_HAS(err.msg, "a block, where a value for the next stage is wanted");
    R.x->acts.n = 0;
    rig_end(&R);
}

TEST(a_cut_task_that_cuts_wrongly_is_an_error) {
    static const struct {
        uint32_t run, first;
        struct sk_pack_cut cut;
    } BAD[] = {
        {2, 0, {0, 1, 0, 1}}, {0, 2, {0, 1, 0, 1}}, {0, 0, {3, 2, 0, 1}}, {0, 0, {0, 0, 0, 1}}};
    for (uint32_t i = 0; i <= SK_COUNT(BAD) + 2; i++) {
        begin();
        start(2, true, 2);
        for (uint32_t k = 0; k < 2; k++) {
            run_of(rig_task(&R, 1, k), 4);
            done(1, k);
        }
        uint64_t t = rig_task(&R, 2, 0);
        struct note note = {.h = {.kind = SK_PACK_CUTS, .n = 1}};
        if (i < SK_COUNT(BAD)) {
            note.h.run = BAD[i].run;
            note.h.first = BAD[i].first;
            note.cut[0] = BAD[i].cut;
            refused(note, t, "pages that are not there");
        } else if (i == SK_COUNT(BAD)) {
            yield(t, (struct note){.h = {.kind = SK_PACK_BOUNDS, .bytes = 64}});
            refused((struct note){.h = {.kind = SK_PACK_BOUNDS, .bytes = 64}}, t,
                    "neither cuts nor bounds");
        } else if (i == SK_COUNT(BAD) + 1) {
            refused((struct note){.h = {.kind = SK_PACK_RUN, .bytes = 64}}, t,
                    "neither cuts nor bounds");
        } else { /* cuts of the second run are missing */
            cuts(t, 0, 0, (struct sk_pack_cut[]){{0, 4, 0, 4}, {0}, {0, 4, 0, 4}}, 3);
            struct sk_err err = {0};
            CHECK_RC(sk_step_event(
                         R.x, &(struct sk_step_ev){.kind = SK_SEV_DONE, .task = t, .run_ns = 1},
                         R.now, &err),
                     SK_ECORRUPT);
            CHECK_STR_HAS(err.msg, "cut run 1 into 1 partitions of 2");
            for (uint32_t k = 0; k < R.x->acts.n; k++)
                R.live -= R.x->acts.p[k].kind == SK_ACT_RELEASE;
            R.x->acts.n = 0;
            rig_end(&R);
        }
    }
}

TEST(notes_of_packs_are_checked) {
    struct note n = {.h = {.magic = SK_PACK_NOTE,
                           .kind = SK_PACK_PARTS,
                           .first = 3,
                           .n = 2,
                           .rows = 5,
                           .bytes = 192},
                     .part = {{1, 2}, {2, 3}}};
    const size_t least = sizeof n.h + 2 * sizeof n.part[0];
    CHECK(sk_pack_note_ok((struct sk_bytes){&n, least}));
    for (size_t len = 0; len < least; len++) CHECK(!sk_pack_note_ok((struct sk_bytes){&n, len}));
    for (uint32_t bad = 0; bad < 9; bad++) {
        struct note b = n;
        if (bad == 0) b.h.magic = SK_BLOCK_NOTE;
        if (bad == 1) b.h.kind = 0;
        if (bad == 2) b.h.kind = SK_PACK_BOUNDS + 1;
        if (bad == 3) b.h.n = 0;
        if (bad == 4) b.h.n = SK_PACK_PARTS_MAX + 1;
        if (bad == 5) b.h.rows++;
        if (bad == 6) b.h.bytes += 64;
        if (bad == 7) b.h.first = UINT32_MAX;
        /* rows without bytes */
        if (bad == 8) b.part[0] = (struct sk_pack_part){0, 2}, b.part[1].len64 = 3;
        CHECK_MSG(!sk_pack_note_ok((struct sk_bytes){&b, sizeof b}), "%u", bad);
    }
    n.h.kind = SK_PACK_CUTS;
    CHECK(sk_pack_note_ok((struct sk_bytes){&n, sizeof n.h + 2 * sizeof n.cut[0]}));
    CHECK(!sk_pack_note_ok((struct sk_bytes){&n, sizeof n.h + 2 * sizeof n.cut[0] - 1}));
    n.h.kind = SK_PACK_RUN; /* lists nothing */
    CHECK(!sk_pack_note_ok((struct sk_bytes){&n, sizeof n}));
}

TEST(what_waits_may_be_on_disk_and_what_is_read_is_reserved) {
    begin();
    R.conf.memory_bytes = 64 * 16;
    R.conf.target_max_bytes = 64 * 4;
    start(3, false, 2);
    uint64_t oid[3];
    for (uint32_t i = 0; i < 3; i++) {
        oid[i] = parts(rig_task(&R, 1, i), 0, "44");
        if (i < 2) done(1, i);
    }
    CHECK_EQ(R.x->mem.used, 24 * 64 + 64); /* more than the memory, while a map runs */
    CHECK_EQ(R.x->parked, 24 * 64);
    CHECK_EQ(sk_view_used(R.x), 64);
    for (uint32_t i = 0; i < 2; i++)
        rig_event(&R, (struct sk_step_ev){.kind = SK_SEV_SPILLED, .block = {.oid = oid[i]}});
    CHECK_EQ(R.x->parked, 8 * 64);
    CHECK_EQ(R.x->parked_disk, 16 * 64);
    done(1, 2);
    const struct sk_stask *t = sk_step_task(R.x, rig_task(&R, 2, 0));
    CHECK_EQ(t->read, 8 * 64);
    CHECK_EQ(R.x->s[2].gather->sliced, 4 * 64);
    CHECK_EQ(R.x->mem.reserved, t->read + t->promise);
    CHECK_EQ(rig_flying(&R, 2), 1); /* the memory has no room for the parts of one more reduce */
    done(2, 0);
    rig_event(&R, (struct sk_step_ev){.kind = SK_SEV_RESTORED, .block = {.oid = oid[0]}});
    CHECK_EQ(R.x->parked, 16 * 64);
    done(2, 1);
    end();
}

/* Long tasks are queued behind running ones only if the engine has to read their input from disk
 * first. */
TEST(what_reads_from_disk_stands_in_line) {
    enum { N = 20, CPUS = 4 };
    begin();
    start(1, false, N);
    uint64_t oid = parts(rig_task(&R, 1, 0), 0, "11111111111111111111"), next = 0;
    done(1, 0);
    CHECK_EQ(rig_flying(&R, 2), 2 * CPUS); /* the duration of the tasks is not known */
    for (; next < CPUS + 1; next++) rig_done(&R, rig_task(&R, 2, next), 100000000);
    CHECK_EQ(rig_flying(&R, 2), CPUS);
    rig_event(&R, (struct sk_step_ev){.kind = SK_SEV_SPILLED, .block = {.oid = oid}});
    CHECK_EQ(rig_flying(&R, 2), 2 * CPUS);
    rig_done(&R, rig_task(&R, 2, next++), 100000000);
    CHECK_EQ(rig_flying(&R, 2), 2 * CPUS);
    rig_event(&R, (struct sk_step_ev){.kind = SK_SEV_RESTORED, .block = {.oid = oid}});
    rig_done(&R, rig_task(&R, 2, next++), 100000000);
    CHECK_EQ(rig_flying(&R, 2), 2 * CPUS - 1);
    while (next < N) rig_done(&R, rig_task(&R, 2, next++), 100000000);
    end();
}

TEST(stats_and_words_tell_of_an_exchange) {
    begin();
    start(1, false, 4);
    parts(rig_task(&R, 1, 0), 0, "1051");
    char text[2000];
    sk_stall_text(R.x, R.now, text, sizeof text);
    CHECK_STR_HAS(text, "X: 1 packs of 0.0 MiB have come");
    done(1, 0);
    struct sk_exec_stats st;
    struct sk_exec_op_stats op[3];
    sk_metrics_get(R.x, &st, op, 3);
    CHECK_EQ(op[2].gather.n[SK_XSTAT_PACKS], 1);
    CHECK_EQ(op[2].gather.n[SK_XSTAT_BYTES], 7 * 64);
    CHECK_EQ(op[2].gather.n[SK_XSTAT_PARTITIONS], 4);
    CHECK_EQ(op[2].gather.n[SK_XSTAT_LARGEST], 5 * 64);
    for (uint64_t i = 0; i < 4; i++) done(2, i);
    end();
}

/* All of it with each allocation failing once: the run is over, and everything can still be given
 * up. */
static void each_allocation_fails(uint64_t again) {
    for (int64_t nth = 1;; nth++) {
        struct sk_err err = {0};
        begin();
        AGAIN = again;
        uint32_t m = packs(rig_source(&R, 40, 64));
        m = merge(m, 3);
        CHECK_OK(sk_plan_stages(R.plan, exchange(true, 5, &m, 1), &R.st, &err));
        sk_mem_fail_at(nth);
        sk_rc rc = sk_step_create(R.plan, &R.st, &R.conf, &R.x, &err);
        if (rc == SK_OK) rc = sk_step_start(R.x, 0, &err);
        else R.x = NULL;
        for (uint32_t seen = 0; rc == SK_OK && !R.x->done;) {
            while (seen < R.x->acts.n && R.x->acts.p[seen].kind != SK_ACT_LAUNCH) seen++;
            if (seen == R.x->acts.n) break;
            uint64_t id = R.x->acts.p[seen++].id;
            const struct sk_stask *t = sk_step_task(R.x, id);
            struct note notes[7];
            uint32_t n = 0, stage = t->stage;
            if (stage == 3 && t->inner) {
                uint32_t runs = exchange_at(3)->packs.n;
                for (uint32_t run = 0; run < runs; run += 12) {
                    notes[n] = (struct note){
                        .h = {.kind = SK_PACK_CUTS, .run = run, .n = 5 * SK_MIN(runs - run, 12u)}};
                    for (uint32_t i = 0; i < notes[n].h.n; i += 5)
                        notes[n].cut[i] = (struct sk_pack_cut){0, 1, 0, 1};
                    n++;
                }
                notes[n++] = (struct note){.h = {.kind = SK_PACK_BOUNDS, .bytes = 64}};
            } else if (stage == 1 || stage == 2) {
                notes[n++] = (struct note){.h = {.kind = SK_PACK_SAMPLE, .bytes = 64}};
                notes[n++] = (struct note){.h = {.kind = SK_PACK_RUN, .rows = 1, .bytes = 64}};
            } else {
                n = 1;
            }
            for (uint32_t i = 0; i < n && rc == SK_OK; i++) {
                struct sk_step_ev ev = {.kind = SK_SEV_YIELDED,
                                        .task = id,
                                        .block = {.oid = ++R.next_oid, .n_rows = 1, .bytes = 64},
                                        .cost = 64};
                if (stage == 1 || stage == 2 || n > 1) {
                    notes[i].h.magic = SK_PACK_NOTE;
                    ev.note = (const void *)&notes[i].h;
                }
                R.live++;
                rc = sk_step_event(R.x, &ev, 1, &err);
            }
            if (rc == SK_OK)
                rc = sk_step_event(
                    R.x, &(struct sk_step_ev){.kind = SK_SEV_DONE, .task = id, .run_ns = 5}, 2,
                    &err);
        }
        bool failed = sk_mem_failed();
        sk_mem_fail_at(0);
        CHECK_RC(rc, failed ? SK_ENOMEM : SK_OK);
        CHECK(failed || R.x->done);
        if (R.x) {
            for (uint32_t i = 0; i < R.x->acts.n; i++)
                R.live -= R.x->acts.p[i].kind == SK_ACT_RELEASE;
            rig_end(&R);
        } else {
            sk_stages_free(&R.st);
            sk_plan_destroy(R.plan, NULL, NULL);
        }
        CHECK_EQ(sk_mem_blocks(SK_TAG_EXEC), 0);
        if (!failed) break;
    }
}

TEST(each_allocation_of_an_exchange_may_fail) {
    each_allocation_fails(0);
    each_allocation_fails(UINT64_MAX);
}

/* The i-th merge that runs and comes back. */
static struct sk_stask *again(uint32_t stage, uint32_t i) {
    SK_LIST_EACH (it, &R.x->s[stage].inner)
        if (!i--) return sk_container_of(it, struct sk_stask, link);
    return NULL;
}

static uint64_t map_of(uint32_t i, const char *rows) {
    uint64_t oid = parts(rig_task(&R, 1, i), 0, rows);
    done(1, i);
    return oid;
}

static void start_again(uint32_t n_maps, uint64_t most) {
    begin();
    uint32_t in = packs(rig_source(&R, n_maps, 64));
    in = merge(in, 2);
    AGAIN = most;
    rig_start(&R, exchange(false, 2, &in, 1));
    for (uint32_t i = 0; i < n_maps; i++) {
        rig_yield(&R, rig_task(&R, 0, i), 1, 64);
        done(0, i);
    }
}

TEST(what_a_merge_yields_waits_in_front_of_the_packs_that_came_meanwhile) {
    start_again(7, 6 * 64);
    map_of(0, "11");
    CHECK(!again(2, 0));
    map_of(1, "11");
    struct sk_stask *t = again(2, 0);
    CHECK(t && t->in.n == 2 && t->hint == 1 && R.x->s[2].gather->ops->needed(t->say));
    uint64_t id = t->id, third = map_of(2, "11");
    CHECK_EQ(R.x->s[2].gather->waiting_bytes, 2 * 64);
    map_of(3, "11"); /* two wait: they become a merge when the first one has come back */
    CHECK(again(2, 0) == t && !again(2, 1));
    uint64_t state = parts(id, 0, "22");
    CHECK_EQ(R.x->s[2].gather->waiting_bytes, 4 * 64);
    rig_done(&R, id, 5);
    t = again(2, 0);
    CHECK(t && t->in.n == 3 && t->in.head->ref.oid == state && t->in.head->next->ref.oid == third &&
          !R.x->s[2].gather->waiting_bytes);
    id = t->id;
    map_of(4, "11");
    map_of(5, "11");
    parts(id, 0, "44"); /* more than may come back */
    rig_done(&R, id, 5);
    CHECK_EQ(R.x->parked, 8 * 64);
    t = again(2, 0); /* of the two that came meanwhile; then the input ends */
    CHECK(t && t->in.n == 2);
    id = t->id;
    map_of(6, "11");
    CHECK(R.x->s[2].input_ended && !R.x->s[2].ended && R.x->s[2].gather->spent);
    CHECK_EQ(R.x->parked, 10 * 64);
    parts(id, 0, "22");
    CHECK(!R.x->s[2].ended);
    rig_done(&R, id, 5); /* its group has ended, so it passes, behind what came of earlier maps */
    CHECK(R.x->s[2].ended);
    CHECK_STR_EQ(input(0), "reduce 0-1/2 0:0@0+4(4) 0:1@0+2(2) 0:2@0+1(1)");
    CHECK_STR_EQ(input(1), "reduce 1-2/2 0:0@4+4(4) 0:1@2+2(2) 0:2@1+1(1)");
    done(3, 0);
    done(3, 1);
    end();
}

TEST(what_cannot_be_the_first_pack_of_its_group_passes) {
    start_again(4, UINT64_MAX);
    map_of(0, "11");
    map_of(1, "11");
    uint64_t id = again(2, 0)->id;
    parts(id, 0, "2"); /* in two values */
    parts(id, 1, "2");
    rig_done(&R, id, 5);
    CHECK_EQ(R.x->parked, 4 * 64);
    map_of(2, "11");
    map_of(3, "11");
    rig_done(&R, again(2, 0)->id, 5); /* it yields nothing */
    for (uint64_t i = 0; i < 2; i++) done(3, i);
    end();
}

TEST(a_merge_that_comes_back_may_yield_nothing_but_packs) {
    start_again(2, UINT64_MAX);
    map_of(0, "11");
    map_of(1, "11");
    struct note note = {.h = {.kind = SK_PACK_BOUNDS, .bytes = 64}};
    struct sk_step_ev ev = pack_event(again(2, 0)->id, &note);
    struct sk_err err = {0};
    R.live++;
    CHECK_RC(sk_step_event(R.x, &ev, 1, &err), SK_ECORRUPT);
    CHECK_STR_HAS(err.msg, "M: a merge yielded something that is no pack");
    rig_end(&R);
}

/* 33 packs of a range are a round, however small they are. */
TEST(streaming_merges_a_round_of_many_packs_with_the_state) {
    begin();
    R.conf.cpu_e4 = 100 * 10000;
    uint32_t in = packs(rig_source(&R, 66, 64));
    in = merge(in, 0);
    GATHERS = sk_shuffle_gathers(sk_shuffle_find("streaming"));
    rig_start(&R, exchange(false, 2, &in, 1));
    for (uint32_t i = 0; i < 66; i++) {
        rig_yield(&R, rig_task(&R, 0, i), 1, 64);
        done(0, i);
    }
    uint64_t state = 0;
    for (uint32_t i = 0; i < 66; i++) {
        map_of(i, "11");
        struct sk_stask *t = again(2, 0);
        CHECK_EQ(t != NULL, i == 32 || i == 64);
        if (!t) continue;
        CHECK_EQ(t->in.n, 33);
        CHECK(!state || t->in.head->ref.oid == state);
        uint64_t id = t->id;
        state = parts(id, 0, state ? "99" : "11");
        rig_done(&R, id, 5);
    }
    CHECK_STR_EQ(input(0), "reduce 0-1/2 0:0@0+9(9) 0:1@0+1(1)");
    for (uint64_t i = 0; i < 2; i++) done(3, i);
    end();
}

/* All maps end while the first merge runs: what came meanwhile does not go to the reduces pack by
 * pack. */
TEST(streaming_merges_what_came_while_its_last_merge_ran) {
    begin();
    R.conf.cpu_e4 = 100 * 10000;
    uint32_t in = packs(rig_source(&R, 80, 64));
    in = merge(in, 0);
    GATHERS = sk_shuffle_gathers(sk_shuffle_find("streaming"));
    rig_start(&R, exchange(false, 2, &in, 1));
    for (uint32_t i = 0; i < 80; i++) {
        rig_yield(&R, rig_task(&R, 0, i), 1, 64);
        done(0, i);
    }
    for (uint32_t i = 0; i < 80; i++) map_of(i, "11");
    struct sk_stask *state = again(2, 0);
    const struct sk_stask *rest = NULL;
    for (uint32_t i = 0; i < R.launched.n; i++) {
        const struct sk_stask *t = R.launched.p[i] ? sk_step_task(R.x, R.launched.p[i]) : NULL;
        if (t && t->stage == 2 && t != state) rest = t;
    }
    CHECK(state && state->in.n == 33 && rest && rest->in.n == 47);
    uint64_t ids[] = {state->id, rest->id};
    for (int i = 0; i < 2; i++) {
        parts(ids[i], 0, i ? "99" : "11");
        rig_done(&R, ids[i], 5);
    }
    CHECK_STR_EQ(input(0), "reduce 0-1/2 0:0@0+1(1) 0:1@0+9(9)");
    for (uint64_t i = 0; i < 2; i++) done(3, i);
    end();
}

/* Four maps of two packs each; memory of which a quarter holds two maps. */
TEST(rounds_merge_all_that_waits_when_a_quarter_of_memory_is_full) {
    begin();
    R.conf.memory_bytes = 64 * 64;
    R.conf.target_max_bytes = 64 * 2;
    uint32_t in = packs(rig_source(&R, 4, 64));
    in = merge(in, 0);
    GATHERS = sk_shuffle_gathers(sk_shuffle_find("rounds"));
    rig_start(&R, exchange(false, 2, &in, 1));
    for (uint32_t i = 0; i < 4; i++) {
        rig_yield(&R, rig_task(&R, 0, i), 1, 64);
        done(0, i);
    }
    for (uint32_t i = 0; i < 4; i++) {
        CHECK_EQ(sk_step_task(R.x, rig_task(&R, 1, i))->hint, 8);
        parts(rig_task(&R, 1, i), 0, "4");
        parts(rig_task(&R, 1, i), 1, "4");
        done(1, i);
        /* the fifth pack ends a round: merges of both ranges, of three packs and two; then the
         * input has ended */
        static const uint32_t MERGES[] = {0, 0, 2, 3};
        CHECK_EQ(rig_flying(&R, 2) + R.x->s[2].n_ready, MERGES[i]);
    }
    for (uint32_t k = 0; k < 3; k++) {
        /* the third merge is of the remaining packs of range 1; the last pack of range 0 is
         * alone */
        const struct sk_stask *t = sk_step_task(R.x, rig_task(&R, 2, k));
        CHECK(t);
        uint32_t first = pack_task(t)->first;
        parts(t->id, first, t->in.n == 3 ? "9" : "8");
        done(2, k);
    }
    CHECK_STR_HAS(input(0), "reduce 0-1/2");
    CHECK_STR_HAS(input(1), "reduce 1-2/2");
    done(3, 0);
    done(3, 1);
    end();
}

static uint32_t pairs(struct sk_shuffle *s, const struct sk_shuffle_ranges *r, uint32_t first,
                      uint32_t *node) {
    CHECK(r->n == 5 && r->bytes[first] == 64 && r->target && r->most >= r->target &&
          sk_shuffle_arg(s) == &R);
    *node = first / 2;
    /* past the last partition: the reduces are chosen by sizes */
    return first == 4 ? 9 : first + 2;
}

TEST(a_strategy_says_which_partitions_a_reduce_takes_and_on_which_node) {
    static const struct sk_shuffle_ops PAIRS = {
        .name = "pairs", .arg = &R, .values = values, .range = pairs};
    begin();
    WAY = (struct sk_shuffle_layout){.values = 1};
    GATHERS = sk_shuffle_gathers(&PAIRS);
    start(1, false, 0);
    parts(rig_task(&R, 1, 0), 0, "11111");
    done(1, 0);
    static const char *const WANT[] = {"reduce 0-2/5 0:0@0+2(2)", "reduce 2-4/5 0:0@2+2(2)",
                                       "reduce 4-5/5 0:0@4+1(1)"};
    for (uint32_t i = 0; i < SK_COUNT(WANT); i++) {
        CHECK_STR_EQ(input(i), WANT[i]);
        CHECK_EQ(sk_step_task(R.x, rig_task(&R, 2, i))->node, i);
    }
    for (uint32_t i = 0; i < SK_COUNT(WANT); i++) done(2, i);
    end();
}

/* ---- a strategy that answers later ------------------------------------------------------------
 */

static struct sk_told TOLD;
static uint32_t n_woken;
static void woken(void *arg) {
    CHECK(arg == &TOLD);
    n_woken++;
}

static struct sk_told_question ASKED;
static sk_rc ask(void *arg, struct sk_err *err) {
    (void)arg;
    (void)err;
    sk_told_next(&TOLD, &ASKED);
    return SK_OK;
}
static const struct sk_told_question *asked(void) {
    rig_call(&R, ask, NULL);
    return &ASKED;
}

static struct {
    char what; /* v: values; p: pass; h: hold; m: merge a group; g: pass a group; o: over */
    uint32_t side, a;
} SAY;
static struct sk_told_state NOW;
static sk_rc say_it(void *arg, struct sk_err *err) {
    (void)arg;
    switch (SAY.what) {
    case 'v': sk_told_values(&TOLD, SAY.side, SAY.a); return SK_OK;
    case 'p': return sk_told_pass(&TOLD, SAY.side, &NOW, err);
    case 'h': return sk_told_hold(&TOLD, SAY.side, SAY.a, SK_SHUFFLE_ANY, &NOW, err);
    case 'o': return sk_told_over(&TOLD, SAY.side, &NOW, err);
    default:
        return sk_told_end_group(&TOLD, SAY.side, SAY.a,
                                 SAY.what == 'm'   ? SK_TOLD_MERGE
                                 : SAY.what == 'a' ? SK_TOLD_MERGE_AGAIN
                                                   : SK_TOLD_PASS,
                                 UINT64_MAX, &NOW, err);
    }
}
static const struct sk_told_state *say(char what, uint32_t side, uint32_t a) {
    SAY.what = what;
    SAY.side = side;
    SAY.a = a;
    rig_call(&R, say_it, NULL);
    return &NOW;
}

/* Makes a plan of a source, a map to packs, a merge and an exchange of n partitions. */
static uint32_t told_plan(uint32_t n_units, uint32_t n) {
    begin();
    R.conf.target_max_bytes = 640;
    n_woken = 0;
    sk_told_init(&TOLD, "told", woken, &TOLD);
    uint32_t in = packs(rig_source(&R, n_units, 64));
    in = rig_add(&R, &MERGE, (struct sk_node_desc){.label = "M", .cpu_e4 = 10000}, &in, 1);
    struct sk_node_desc d = {
        .label = "X", .cpu_e4 = 10000, .exchange = {.n_partitions = n, .strategy = &TOLD.ops}};
    return rig_add(&R, &EXCHANGE, d, &in, 1);
}

static void feed(uint32_t n_units) {
    for (uint32_t i = 0; i < n_units; i++) {
        rig_yield(&R, rig_task(&R, 0, i), 1, 64);
        done(0, i);
    }
}

static void end_told(void) {
    end();
    sk_told_deinit(&TOLD);
}

TEST(maps_begin_when_a_strategy_outside_has_said_in_how_many_values) {
    rig_start(&R, told_plan(3, 4));
    CHECK(n_woken);
    feed(3);
    CHECK(!rig_flying(&R, 1) && !R.x->stalled && sk_step_awaits(R.x));
    char text[400];
    sk_stall_text(R.x, R.now, text, sizeof text);
    CHECK_STR_HAS(text, "awaits an answer from outside of the run");
    CHECK_EQ(asked()->kind, SK_TOLD_SIZES);
    CHECK(ASKED.side == 0 && ASKED.sizes.memory_bytes && ASKED.sizes.merges && !ASKED.sizes.runs);
    CHECK_EQ(asked()->kind, SK_TOLD_SIZES); /* the question stays open until it is answered */
    say('v', 0, 2);
    CHECK_EQ(rig_flying(&R, 1), 3);
    CHECK_EQ(sk_step_task(R.x, rig_task(&R, 1, 0))->hint, 2);
    /* the sizes have changed, since maps run */
    while (asked()->kind == SK_TOLD_SIZES) say('v', 0, 2);
    CHECK_EQ(ASKED.kind, SK_TOLD_NOTHING);
    for (uint32_t i = 0; i < 3; i++) {
        parts(rig_task(&R, 1, i), 0, "1111");
        done(1, i);
    }
    for (uint32_t i = 0; i < 3; i++) {
        while (asked()->kind == SK_TOLD_SIZES) say('v', 0, 2);
        CHECK_EQ(ASKED.kind, SK_TOLD_PACK);
        say('p', 0, 0);
    }
    CHECK_EQ(asked()->kind, SK_TOLD_ENDED);
    say('o', 0, 0);
    for (uint64_t i = 0; i < 4; i++) done(3, i);
    end_told();
}

TEST(a_strategy_outside_is_told_of_each_pack_in_order_and_merges_what_it_holds) {
    rig_start(&R, told_plan(5, 4));
    say('v', 0, 1);
    feed(5);
    uint64_t id[5];
    for (uint32_t i = 5; i-- > 0;) { /* questions are in the order of the maps */
        id[i] = parts(rig_task(&R, 1, i), 0, "1111");
        done(1, i);
    }
    CHECK(R.x->s[2].input_ended && !R.x->s[2].ended && !R.x->stalled && sk_step_awaits(R.x));
    while (asked()->kind == SK_TOLD_SIZES) say('v', 0, 1);
    CHECK(ASKED.kind == SK_TOLD_PACK && ASKED.pack.first == 0 && ASKED.pack.end == 4 &&
          ASKED.pack.bytes == 256);
    CHECK(say('h', 0, 3)->group.n == 1 && NOW.held == 256 && !NOW.gone);
    CHECK(say('m', 0, 2)->no_group && !NOW.gone);
    CHECK_EQ(asked()->kind, SK_TOLD_PACK);
    CHECK(say('h', 0, 3)->group.n == 2 && NOW.group.bytes == 512);
    CHECK_EQ(say('m', 0, 0)->held, 0);
    const struct sk_stask *t = sk_step_task(R.x, rig_task(&R, 2, 0));
    CHECK(t && t->in.n == 2 && t->in.head->ref.oid == id[0] && t->in.tail->ref.oid == id[1] &&
          t->hint == 3);
    /* this pack is alone in its group, and is passed on later */
    CHECK_EQ(say('h', 0, 1)->group.n, 1);
    say('g', 0, 0);
    CHECK_EQ(say('h', 0, 1)->group.n, 1);
    CHECK_EQ(say('h', 0, 1)->group.n, 2); /* held at the end */
    CHECK(say('p', 0, 0)->gone);          /* the question is void */
    CHECK_EQ(asked()->kind, SK_TOLD_ENDED);
    CHECK(!rig_flying(&R, 3));
    CHECK(!say('o', 0, 0)->gone && !NOW.held);
    CHECK(say('o', 0, 0)->gone);
    CHECK_EQ(asked()->kind, SK_TOLD_NOTHING);
    CHECK_EQ(rig_flying(&R, 2), 1); /* held packs were passed to the reduces */
    parts(rig_task(&R, 2, 0), 0, "2222");
    done(2, 0);
    CHECK_STR_EQ(input(0), "reduce 0-1/4 0:0@0+2(2) 0:1@0+1(1) 0:2@0+1(1) 0:3@0+1(1)");
    for (uint64_t i = 0; i < 4; i++) done(3, i);
    end_told();
}

TEST(maps_wait_for_a_strategy_outside_that_is_behind_by_an_eighth_of_memory) {
    enum { MAPS = 40 };
    uint32_t root = told_plan(MAPS, 4);
    R.conf.memory_bytes = 64 * 4 * 8 * 4;
    rig_start(&R, root);
    say('v', 0, 1);
    feed(MAPS);
    uint32_t n = 0;
    for (; rig_task(&R, 1, n); n++) {
        parts(rig_task(&R, 1, n), 0, "1111");
        done(1, n);
    }
    CHECK_MSG(n > 4 && n <= 16, "%u maps ran",
              n); /* an eighth of memory is 4 packs; more were under way */
    CHECK(!R.x->stalled && sk_step_awaits(R.x) && !R.x->n_forced);
    for (uint32_t answered = 0; ASKED.kind != SK_TOLD_ENDED; answered++) {
        CHECK(answered < 200);
        if (asked()->kind == SK_TOLD_SIZES) say('v', 0, 1);
        if (ASKED.kind == SK_TOLD_PACK) say('p', 0, 0);
        for (; rig_task(&R, 1, n); n++) {
            parts(rig_task(&R, 1, n), 0, "1111");
            done(1, n);
        }
    }
    CHECK_EQ(n, MAPS);
    say('o', 0, 0);
    for (uint64_t i = 0; i < 4; i++) done(3, i);
    end_told();
}

TEST(nobody_answers_for_rows_that_are_not_wanted_any_more) {
    for (int at = 0; at < 5; at++) {
        uint32_t in = told_plan(3, 4);
        in = rig_add(&R, &RIG_LIMIT, (struct sk_node_desc){.limit = 1}, &in, 1);
        R.conf.preserve_order = false;
        rig_start(&R, in);
        if (at > 0) say('v', 0, 1);
        feed(3);
        for (uint32_t i = 0; i < 3 && at > 1; i++) {
            parts(rig_task(&R, 1, i), 0, "1111");
            done(1, i);
        }
        if (at > 2) CHECK_EQ(say('h', 0, 1)->group.n, 1);
        if (at > 3) CHECK_EQ(say('h', 0, 1)->group.n, 2);
        struct sk_err err = {0};
        CHECK_OK_ERR(sk_order_limit_done(R.x, 4, &err), &err);
        rig_event(&R, (struct sk_step_ev){.kind = SK_SEV_TICK});
        CHECK(R.x->done && !sk_step_awaits(R.x));
        for (uint32_t i = 0; i < R.launched.n; i++)
            if (R.launched.p[i]) rig_fail(&R, R.launched.p[i]);
        CHECK(say('h', 0, 1)->gone);
        if (at) CHECK(say('m', 0, 0)->gone);
        CHECK(say('o', 0, 0)->gone);
        end_told();
    }
}
