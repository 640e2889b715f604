/* test_engine_which.c - the node for a task: sizes, places of arguments, load, and limits. And the
 * messages of a cluster, written and read. */
#include "engine/cluster/msg.h"
#include "engine/cluster/which/bundles.h"
#include "engine/cluster/which/where.h"
#include "engine/cluster/which/which.h"
#include "engine/guest.h"
#include "engine/state.h"
#include "test.h"

static struct sk_which_node node(double cpus, double used, uint64_t local) {
    return (struct sk_which_node){.alive = true,
                                  .total.amount = {(int64_t)(cpus * SK_RES_UNIT)},
                                  .used.amount = {(int64_t)(used * SK_RES_UNIT)},
                                  .local_bytes = local};
}
static struct sk_which_task task(double cpus, uint64_t bytes, int64_t avg_ns) {
    return (struct sk_which_task){
        .need.amount = {(int64_t)(cpus * SK_RES_UNIT)}, .bytes = bytes, .avg_ns = avg_ns};
}

TEST(which_prefers_the_node_with_the_smallest_part_in_use) {
    struct sk_which_node n[] = {node(4, 2, 0), node(2, 0, 0), node(8, 3, 0)};
    struct sk_which_task t = task(1, 0, 0);
    CHECK_EQ(sk_which_node(&t, n, 3), 1);
    n[1].alive = false;
    CHECK_EQ(sk_which_node(&t, n, 3), 2);
}

TEST(which_goes_to_the_bytes_unless_moving_them_is_faster) {
    struct sk_which_node n[] = {node(1, 1, 100000000), node(1, 0, 0)};
    struct sk_which_task t = task(1, 100000000, 10000000); /* 10 ms; 0.1 s to move the bytes */
    CHECK_EQ(sk_which_node(&t, n, 2), 0);
    t.avg_ns = 1000000000; /* a second: it would wait longer than the bytes take */
    CHECK_EQ(sk_which_node(&t, n, 2), 1);
}

TEST(which_sends_some_tasks_ahead_and_not_more) {
    struct sk_which_node n[] = {node(2, 0, 0)};
    struct sk_which_task slow = task(1, 0, 1000000000), fast = task(1, 0, 10000);
    uint32_t sent = 0;
    while (sk_which_node(&slow, n, 1) == 0) {
        n[0].used.amount[0] += SK_RES_UNIT;
        sent++;
    }
    CHECK_EQ(sent, 4); /* two run, two wait */
    CHECK_EQ(sk_which_ahead(&fast, &n[0].total), 1000);
    slow.keeps = true; /* an actor waits nowhere */
    CHECK_EQ(sk_which_ahead(&slow, &n[0].total), 0);
}

TEST(which_sends_nothing_ahead_to_what_is_held) {
    struct sk_which_node n[] = {node(1, 1, 0), node(1, 0, 0)};
    struct sk_which_task t = task(1, 0, 0), nothing = task(0, 0, 0);
    n[0].held = n[0].used;        /* an actor or a bundle has the CPU */
    for (int i = 0; i < 2; i++) { /* one runs, one waits */
        CHECK_EQ(sk_which_node(&t, n, 2), 1);
        n[1].used.amount[0] += SK_RES_UNIT;
    }
    CHECK_EQ(sk_which_node(&t, n, 2), UINT32_MAX);
    CHECK_EQ(sk_which_node(&nothing, n, 1), 0);
    n[0].used.amount[0] = 0; /* the actor waits, and lets others have it */
    CHECK_EQ(sk_which_node(&t, n, 2), 0);
}

TEST(which_knows_what_no_node_can_run) {
    struct sk_which_node n[] = {node(2, 0, 0), node(4, 0, 0)};
    struct sk_res need = {{4 * SK_RES_UNIT}}, gpu = {{0, SK_RES_UNIT}}, nothing = {{0}};
    CHECK(sk_which_ever(&need, n, 2));
    CHECK(!sk_which_ever(&gpu, n, 2));
    CHECK(sk_which_ever(&nothing, n, 2));
    n[1].alive = false;
    CHECK(!sk_which_ever(&need, n, 2));
    struct sk_which_task t = task(4, 0, 0);
    CHECK_EQ(sk_which_node(&t, n, 2), UINT32_MAX);
}

TEST(which_spreads_by_turns_wherever_the_bytes_are) {
    struct sk_which_node n[] = {node(4, 3, 100000000), node(4, 0, 0), node(4, 4, 0)};
    struct sk_which_task t = task(1, 100000000, 1000000000);
    t.spread = true;
    for (uint64_t i = 1; i < 7; i++) {
        uint32_t at = sk_which_node(&t, n, 3);
        CHECK_EQ(at, (i - 1) % 2); /* the third would have to wait */
        n[at].spread = i;
    }
}

#define BYTES(s) ((struct sk_bytes){(s), sizeof(s) - 1})

TEST(where_reads_choices_and_refuses_what_is_none) {
    struct sk_bytes a = BYTES("zone\0a\0tier\0gold\0none\0\0");
    CHECK(sk_labels_good(a) && sk_labels_good(BYTES("")));
    CHECK(!sk_labels_good(BYTES("zone\0")) && !sk_labels_good(BYTES("\0x\0")) &&
          !sk_labels_good(BYTES("zone\0a")));
    static const struct {
        struct sk_bytes where;
        uint32_t n, rank;
    } row[] = {
        {BYTES("\0|"), 1, 0},
        {BYTES("\0|=zone\0=b\0=a\0\0"), 1, 0},
        {BYTES("\0|=zone\0=b\0\0"), 1, UINT32_MAX},
        {BYTES("\0|=zone\0=\0\0"), 1, UINT32_MAX},
        {BYTES("\0|=none\0=\0\0"), 1, 0},
        {BYTES("\0|!zone\0=b\0\0!other\0=x\0\0"), 1, 0},
        {BYTES("\0|!zone\0=b\0=a\0\0"), 1, UINT32_MAX},
        {BYTES("\0|+zone\0-other\0"), 1, 0},
        {BYTES("\0|-zone\0|=zone\0=a\0\0=tier\0=tin\0\0|=tier\0=gold\0\0"), 3, 2},
        {BYTES("\3|=zone\0=b\0\0||"), 3, 1},
        /* these are none */
        {BYTES(""), 0, 0},
        {BYTES("\0"), 0, 0},
        {BYTES("\4|"), 0, 0},
        {BYTES("\0=zone\0=a\0\0"), 0, 0},
        {BYTES("\0|=zone\0=a\0"), 0, 0},
        {BYTES("\0|=zone\0a\0\0"), 0, 0},
        {BYTES("\0|=\0=a\0\0"), 0, 0},
        {BYTES("\0|?zone\0"), 0, 0},
        {BYTES("\0|+zone"), 0, 0},
        {BYTES("\0|||||||||||||||||||||||||||||||||"), 0, 0},
    };
    for (uint32_t i = 0; i < SK_COUNT(row); i++) {
        CHECK_MSG(sk_where_n(row[i].where) == row[i].n, "row %u", i);
        if (row[i].n) CHECK_MSG(sk_where_rank(row[i].where, a) == row[i].rank, "row %u", i);
    }
    for (int i = 0; i < 20000; i++) { /* damaged in any way */
        uint8_t b[40];
        uint32_t n = (uint32_t)test_below(sizeof b), k = (uint32_t)test_below(10);
        struct sk_bytes w = row[k].where;
        n = SK_MIN(n, (uint32_t)w.n);
        memcpy(b, w.p, n);
        if (n) b[test_below(n)] = (uint8_t)"|=!+-\0a\1"[test_below(8)];
        struct sk_bytes x = {b, n};
        if (sk_where_n(x))
            CHECK(sk_where_rank(x, a) == UINT32_MAX || sk_where_rank(x, a) < sk_where_n(x));
    }
}

enum { MOST_NODES = 5, MOST_BUNDLES = 5 };
struct bundles {
    struct sk_res bundle[MOST_BUNDLES], room[MOST_NODES];
    bool may[MOST_BUNDLES][MOST_NODES];
    uint32_t at[MOST_BUNDLES];
};
static bool may(const void *ctx, uint32_t bundle, uint32_t node) {
    return ((const struct bundles *)ctx)->may[bundle][node];
}
/* Whether this is a way to place the bundles. */
static bool is_way(const struct bundles *x, uint32_t n, uint32_t n_nodes, uint32_t strategy) {
    struct sk_res room[MOST_NODES];
    uint32_t n_at[MOST_NODES] = {0};
    memcpy(room, x->room, sizeof room);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t k = x->at[i];
        if (k >= n_nodes || !x->may[i][k] || (strategy == SK_GROUP_STRICT_PACK && k != x->at[0]) ||
            (n_at[k]++ && strategy == SK_GROUP_STRICT_SPREAD))
            return false;
        for (int r = 0; r < SK_RES_MAX; r++)
            if ((room[k].amount[r] -= x->bundle[i].amount[r]) < 0) return false;
    }
    return true;
}
static bool any_way(struct bundles *x, uint32_t n, uint32_t n_nodes, uint32_t strategy, uint32_t i,
                    const uint32_t *fixed) {
    if (i == n) return is_way(x, n, n_nodes, strategy);
    for (uint32_t k = 0; k < n_nodes; k++) {
        if (fixed[i] != SK_NO_NODE && fixed[i] != k) continue;
        x->at[i] = k;
        if (any_way(x, n, n_nodes, strategy, i + 1, fixed)) return true;
    }
    return false;
}

static struct bundles *copied(struct bundles *to, const struct bundles *from) {
    *to = *from;
    return to;
}

TEST(bundles_are_placed_as_a_search_of_all_ways_says) {
    uint64_t found = 0, none = 0, missed = 0;
    for (int round = 0; round < test_rounds(3000); round++) {
        struct bundles x = {0}, way;
        uint32_t n = 1 + (uint32_t)test_below(MOST_BUNDLES),
                 n_nodes = (uint32_t)test_below(MOST_NODES + 1), strategy = (uint32_t)test_below(4),
                 fixed[MOST_BUNDLES];
        for (uint32_t k = 0; k < n_nodes; k++)
            x.room[k].amount[0] = (int64_t)test_below(5),
            x.room[k].amount[1] = (int64_t)test_below(2);
        for (uint32_t i = 0; i < n; i++) {
            x.bundle[i].amount[0] = (int64_t)test_below(3);
            x.bundle[i].amount[1] = !test_below(4);
            for (uint32_t k = 0; k < n_nodes; k++) x.may[i][k] = test_below(6);
            fixed[i] = SK_NO_NODE;
        }
        struct bundles full = x; /* with the room that those with a node have already taken */
        if (any_way(copied(&way, &full), n, n_nodes, strategy, 0, fixed) && test_below(2))
            for (uint32_t i = 0; i < n; i++) {
                if (test_below(2)) continue;
                fixed[i] = way.at[i];
                for (int r = 0; r < SK_RES_MAX; r++)
                    x.room[way.at[i]].amount[r] -= x.bundle[i].amount[r];
            }
        memcpy(x.at, fixed, sizeof fixed);
        struct sk_bundles b = {.bundle = x.bundle,
                               .n = n,
                               .strategy = strategy,
                               .room = x.room,
                               .n_nodes = n_nodes,
                               .may = may,
                               .ctx = &x,
                               .at = x.at};
        bool good = sk_bundles_place(&b),
             way_is = any_way(copied(&way, &full), n, n_nodes, strategy, 0, fixed);
        if (good) {
            memcpy(full.at, x.at, sizeof x.at);
            CHECK(way_is && is_way(&full, n, n_nodes, strategy));
            for (uint32_t i = 0; i < n; i++) CHECK(fixed[i] == SK_NO_NODE || fixed[i] == x.at[i]);
        } else CHECK(!memcmp(x.at, fixed, n * sizeof fixed[0]));
        if (strategy == SK_GROUP_STRICT_PACK || strategy == SK_GROUP_STRICT_SPREAD)
            CHECK_EQ(good, way_is);
        found += good;
        none += !way_is;
        missed += way_is && !good;
    }
    printf("# %llu placed, %llu could not be, %llu of PACK and SPREAD missed\n",
           (unsigned long long)found, (unsigned long long)none, (unsigned long long)missed);
    CHECK(found > 500 && none > 100 && missed * 20 < found);
}

TEST(bundles_keep_together_or_apart) {
    struct bundles x;
    for (uint32_t strategy = 0; strategy < 2; strategy++) {
        x = (struct bundles){0};
        for (uint32_t k = 0; k < 4; k++) x.room[k].amount[0] = k == 2 ? 3 : 4;
        for (uint32_t i = 0; i < 3; i++) {
            x.bundle[i].amount[0] = 1;
            x.at[i] = SK_NO_NODE;
            for (uint32_t k = 0; k < 4; k++) x.may[i][k] = true;
        }
        struct sk_bundles b = {.bundle = x.bundle,
                               .n = 3,
                               .strategy = strategy,
                               .room = x.room,
                               .n_nodes = 4,
                               .may = may,
                               .ctx = &x,
                               .at = x.at};
        CHECK(sk_bundles_place(&b));
        if (strategy == SK_GROUP_PACK) CHECK(x.at[0] == 2 && x.at[1] == 2 && x.at[2] == 2);
        else CHECK(x.at[0] != x.at[1] && x.at[1] != x.at[2] && x.at[0] != x.at[2]);
    }
}

/* Writes a message into `o`, alone, and reads it again. */
static sk_rc there_and_back(const struct sk_cmsg *m, struct sk_outbox *o, struct sk_cmsg *back) {
    uint64_t body;
    uint32_t type;
    o->n = 0;
    CHECK_OK(sk_cmsg_put(o, m, NULL));
    sk_cmsg_head(o->p, &body, &type);
    return sk_cmsg_read(type, (struct sk_bytes){o->p + SK_CMSG_HEAD, body}, back, NULL);
}

TEST(cluster_messages_round_trip) {
    uint8_t args[400];
    struct sk_wr w = sk_wr_init(args, sizeof args);
    sk_cmsg_arg_put(&w, &(struct sk_cmsg_arg){.kind = 3, .bytes = {"inline", 6}});
    sk_cmsg_arg_put(
        &w, &(struct sk_cmsg_arg){.id = 77, .node = 2, .part = true, .offset = 5, .length = 9});
    struct sk_cmsg m = {.type = SK_CMSG_RUN,
                        .run = {.task = 9,
                                .fn = 8,
                                .attempt = 3,
                                .n_returns = SK_STREAMING,
                                .max_retries = -1,
                                .group = 3,
                                .env = 6,
                                .max_task_retries = -1,
                                .groups = {&(uint32_t[]){7, 8}, 8},
                                .need.amount = {5000},
                                .name = {"name", 4},
                                .n_args = 2,
                                .args = {args, w.n}}},
                   back;
    struct sk_outbox o = {0};
    CHECK_OK(sk_cmsg_put(&o, &m, NULL));
    CHECK_OK(sk_cmsg_put(&o, &(struct sk_cmsg){.type = SK_CMSG_BEAT}, NULL));
    uint64_t body;
    uint32_t type;
    sk_cmsg_head(o.p, &body, &type);
    CHECK_OK(sk_cmsg_read(type, (struct sk_bytes){o.p + SK_CMSG_HEAD, body}, &back, NULL));
    CHECK(back.type == SK_CMSG_RUN && back.run.task == 9 && back.run.max_retries == -1);
    CHECK(back.run.n_args == 2 && back.run.need.amount[0] == 5000 && back.run.name.n == 4);
    CHECK(back.run.env == 6 && back.run.group == 3 && back.run.max_task_retries == -1 &&
          back.run.groups.n == 8);
    CHECK(!memcmp(back.run.groups.p, &(uint32_t[]){7, 8}, 8));
    struct sk_rd r = sk_rd_init(back.run.args.p, back.run.args.n);
    struct sk_cmsg_arg a = sk_cmsg_arg_next(&r), b = sk_cmsg_arg_next(&r);
    CHECK(!a.id && a.bytes.n == 6 && !memcmp(a.bytes.p, "inline", 6));
    CHECK(b.id == 77 && b.node == 2 && b.part && b.offset == 5 && b.length == 9);
    /* no prefix of it can be read */
    for (uint64_t n = 0; n + 8 <= body; n++)
        CHECK_EQ(sk_cmsg_read(type, (struct sk_bytes){o.p + SK_CMSG_HEAD, n}, &back, NULL),
                 SK_ECORRUPT);
    sk_cmsg_head(o.p + SK_CMSG_HEAD + body, &body, &type);
    CHECK(!body && type == SK_CMSG_BEAT);
    uint32_t many[SK_GROUPS_MAX + 1] = {0};
    for (size_t n = 7; n <= sizeof many; n += sizeof many - 7) { /* half a group, and too many */
        m.run.groups = (struct sk_bytes){many, n};
        CHECK_EQ(there_and_back(&m, &o, &back), SK_ECORRUPT);
    }
    sk_free(o.p);
}

static void count_release(void *ctx, void *owner) {
    (void)owner;
    ++*(int *)ctx;
}

/* A frame whose bytes are apart is the same frame, for each remainder of their number. */
TEST(cluster_messages_with_bytes_apart) {
    uint8_t bytes[32], joined[256];
    for (uint32_t i = 0; i < sizeof bytes; i++) bytes[i] = (uint8_t)(i + 1);
    for (size_t n = 1; n <= sizeof bytes; n++) {
        struct sk_cmsg whole[] = {
            {.type = SK_CMSG_DATA, .value = {.ask = 5, .kind = 7, .bytes = {bytes, n}}},
            {.type = SK_CMSG_PUT, .put = {.id = 9, .kind = 7, .bytes = {bytes, n}}}};
        for (uint32_t k = 0; k < SK_COUNT(whole); k++) {
            struct sk_outbox a = {0}, b = {0};
            struct sk_cmsg beat = {.type = SK_CMSG_BEAT}, m = whole[k], head;
            int released = 0;
            CHECK_OK(sk_cmsg_put(&a, &beat, NULL));
            CHECK_OK(sk_cmsg_put(&a, &m, NULL));
            CHECK_OK(sk_cmsg_put(&a, &beat, NULL));
            if (k) m.put.bytes = (struct sk_bytes){0};
            else m.value.bytes = (struct sk_bytes){0};
            struct sk_apart apart = {
                .bytes = {bytes, n}, .release = count_release, .ctx = &released};
            CHECK_OK(sk_cmsg_put(&b, &beat, NULL));
            CHECK_OK(sk_cmsg_put_apart(&b, &m, apart, NULL));
            CHECK_OK(sk_cmsg_put(&b, &beat, NULL));
            CHECK(b.apart.n == 1 && a.n == b.n + n);
            size_t at = b.apart.p[0].at;
            memcpy(joined, b.p, at);
            memcpy(joined + at, bytes, n);
            memcpy(joined + at + n, b.p + at, b.n - at);
            CHECK(!memcmp(joined, a.p, a.n));
            uint64_t body;
            uint32_t type;
            sk_cmsg_head(a.p + SK_CMSG_HEAD, &body, &type);
            const uint8_t *start = a.p + 2 * (size_t)SK_CMSG_HEAD;
            if (!k) {
                CHECK(sk_cmsg_read_value_head(type, start, body, &head));
                CHECK(head.value.ask == 5 && head.value.kind == 7 && head.value.bytes.n == n);
                CHECK(!sk_cmsg_read_value_head(type, start, body + 8, &head));
                CHECK(!sk_cmsg_read_value_head(type, start, SK_CMSG_VALUE_HEAD, &head));
            }
            CHECK_EQ(released, 0);
            sk_outbox_free(&b);
            CHECK_EQ(released, 1);
            sk_outbox_free(&a);
        }
    }
}

TEST(cluster_messages_of_groups_round_trip) {
    struct sk_res bundles[2] = {{.amount = {7}}, {.amount = {0, 9}}};
    struct sk_cmsg m = {.type = SK_CMSG_GROUP,
                        .group = {.id = 41,
                                  .n = 2,
                                  .strategy = SK_GROUP_SPREAD,
                                  .bundles = {bundles, sizeof bundles},
                                  .here = {"\1\0", 2}}},
                   back;
    struct sk_outbox o = {0};
    CHECK_OK(there_and_back(&m, &o, &back));
    CHECK(back.type == SK_CMSG_GROUP && back.group.id == 41 && back.group.n == 2 &&
          back.group.strategy == SK_GROUP_SPREAD);
    CHECK(!memcmp(back.group.bundles.p, bundles, sizeof bundles));
    CHECK(!memcmp(back.group.here.p, "\1\0", 2));
    for (size_t n = 0; n + SK_CMSG_HEAD + 8 <= o.n; n++) /* no prefix of it can be read */
        CHECK_EQ(sk_cmsg_read(m.type, (struct sk_bytes){o.p + SK_CMSG_HEAD, n}, &back, NULL),
                 SK_ECORRUPT);
    for (uint32_t i = 0; i < 4; i++) { /* nor one that contradicts itself */
        struct sk_cmsg bad = m;
        if (i == 0) bad.group.n = 0;
        if (i == 1) bad.group.n = UINT32_MAX;
        if (i == 2) bad.group.here.n = 1;
        if (i == 3) bad.group.id = 0;
        CHECK_EQ(there_and_back(&bad, &o, &back), SK_ECORRUPT);
    }
    sk_outbox_free(&o);
}

TEST(cluster_messages_of_drains_round_trip) {
    struct sk_cmsg bring = {.type = SK_CMSG_BRING, .bring = {3, 77, 4}},
                   brought = {.type = SK_CMSG_BROUGHT, .brought = {3, 77, SK_ENOENT}}, back;
    struct sk_outbox o = {0};
    CHECK_OK(there_and_back(&bring, &o, &back));
    CHECK(back.type == SK_CMSG_BRING && back.bring.ask == 3 && back.bring.id == 77 &&
          back.bring.node == 4);
    CHECK_OK(there_and_back(&brought, &o, &back));
    CHECK(back.type == SK_CMSG_BROUGHT && back.brought.rc == SK_ENOENT && back.brought.id == 77);
    sk_outbox_free(&o);
}

TEST(cluster_messages_of_what_one_sees_round_trip) {
    struct sk_outbox o = {0};
    struct sk_cmsg back;
    struct sk_load load = {.workers = 1,
                           .running = 2,
                           .queued = 3,
                           .done = 4,
                           .failed = 5,
                           .objects = 6,
                           .spilled_bytes = 7,
                           .restored_bytes = 8};
    struct sk_cmsg held = {.type = SK_CMSG_STATE, .state = {.disk_bytes = 9, .load = load}},
                   ask = {.type = SK_CMSG_ASK, .told = {.ask = 3, .what = SK_STATE_OBJECTS}},
                   told = {.type = SK_CMSG_TOLD, .told = {3, SK_ASK_STATUS, 7, {"a 1\n", 4}}},
                   ev = {.type = SK_CMSG_EVENT,
                         .event = {.task = 9, .kind = SK_EV_DONE, .pid = 44, .start_ns = 5}};
    CHECK_OK(there_and_back(&held, &o, &back));
    CHECK_EQ(back.state.disk_bytes, 9);
    CHECK_MEM_EQ(&back.state.load, &load, sizeof load);
    CHECK_OK(there_and_back(&ask, &o, &back));
    CHECK(back.told.ask == 3 && back.told.what == SK_STATE_OBJECTS);
    CHECK_OK(there_and_back(&told, &o, &back));
    CHECK(back.told.now_ns == 7 && back.told.bytes.n == 4);
    CHECK_OK(there_and_back(&ev, &o, &back));
    CHECK(back.event.pid == 44 && back.event.start_ns == 5 && back.event.run_ns == 0);
    /* times whose sum or difference would overflow */
    const int64_t wrong[] = {-1, INT64_MIN, SK_CMSG_NS_MAX + 1, INT64_MAX};
    for (size_t i = 0; i < SK_COUNT(wrong); i++) {
        ev.event.start_ns = wrong[i];
        CHECK_RC(there_and_back(&ev, &o, &back), SK_ECORRUPT);
        ev.event.start_ns = SK_CMSG_NS_MAX;
        ev.event.run_ns = wrong[i];
        CHECK_RC(there_and_back(&ev, &o, &back), SK_ECORRUPT);
        ev.event.run_ns = 0;
        told.told.now_ns = wrong[i];
        CHECK_RC(there_and_back(&told, &o, &back), SK_ECORRUPT);
    }
    sk_outbox_free(&o);
}

TEST(cluster_amounts_in_messages_have_bounds) {
    struct sk_outbox o = {0};
    struct sk_cmsg back, welcome = {.type = SK_CMSG_WELCOME}, told = {.type = SK_CMSG_STATE},
                         call = {.type = SK_CMSG_CALL, .call = {.first = 1, .n_returns = 1}};
    const int64_t wrong[] = {INT64_MIN, -SK_CMSG_RES_MAX - 1, SK_CMSG_RES_MAX + 1, INT64_MAX};
    for (uint32_t k = 0; k < SK_RES_MAX; k += SK_RES_MAX - 1)
        for (size_t i = 0; i <= SK_COUNT(wrong); i++) {
            bool bad = i < SK_COUNT(wrong);
            welcome.welcome.total.amount[k] = told.state.free.amount[k] =
                call.call.need.res.amount[k] = bad ? wrong[i] : SK_CMSG_RES_MAX;
            CHECK_RC(there_and_back(&welcome, &o, &back), bad ? SK_ECORRUPT : SK_OK);
            CHECK_RC(there_and_back(&told, &o, &back), bad ? SK_ECORRUPT : SK_OK);
            CHECK_RC(there_and_back(&call, &o, &back), bad ? SK_ECORRUPT : SK_OK);
        }
    sk_outbox_free(&o);
}
