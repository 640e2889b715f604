/* test_exec_args.c - the arguments of a stage's tasks (exec/args.h): written arguments are read
 * back, and reading damaged bytes stays within them. */
#include "exec/args.h"

#include "test.h"

static struct sk_bytes bytes(const char *s) { return (struct sk_bytes){s, strlen(s)}; }

static bool same(struct sk_bytes a, struct sk_bytes b) {
    return a.n == b.n && !memcmp(a.p, b.p, a.n);
}

static const struct sk_stage_node nodes[] = {{{"read", 4}, {"Read(x)", 7}, {"\0p", 2}, {"", 0}},
                                             {{"map", 3}, {"", 0}, {"", 0}, {"how", 3}}};
static const struct sk_stage_block blocks[] = {{0, 7, 0}, {UINT64_MAX, 1, UINT32_MAX}, {3, 0, 1}};

static size_t write_stage(void *to, size_t cap) {
    struct sk_wr w = sk_wr_init(to, cap);
    sk_stage_write(&w, SK_COUNT(nodes));
    for (uint32_t i = 0; i < SK_COUNT(nodes); i++) sk_stage_node_write(&w, &nodes[i]);
    return w.n;
}

static struct sk_stage_task a_task(void) {
    return (struct sk_stage_task){.seq = SK_NO_SEQ,
                                  .cap_rows = -1,
                                  .target_bytes = 1u << 20,
                                  .table_bytes = 3u << 20,
                                  .unit = bytes("a unit"),
                                  .hint = 3,
                                  .n_blocks = SK_COUNT(blocks)};
}

static size_t write_task(void *to, size_t cap) {
    struct sk_wr w = sk_wr_init(to, cap);
    struct sk_stage_task t = a_task();
    sk_stage_task_write(&w, &t);
    for (uint32_t i = 0; i < SK_COUNT(blocks); i++) sk_stage_block_write(&w, &blocks[i]);
    sk_wr_u32(&w, 99); /* of a gather */
    return w.n;
}

TEST(args_of_a_stage_are_read_as_they_were_written) {
    uint64_t buf[64];
    size_t n = write_stage(buf, sizeof buf);
    CHECK_LE(n, sizeof buf);
    struct sk_rd r = sk_rd_init(buf, n);
    CHECK_EQ(sk_stage_read(&r), SK_COUNT(nodes));
    for (uint32_t i = 0; i < SK_COUNT(nodes); i++) {
        struct sk_stage_node got = sk_stage_node_read(&r);
        CHECK(same(got.op, nodes[i].op) && same(got.label, nodes[i].label));
        CHECK(same(got.params, nodes[i].params) && same(got.what, nodes[i].what));
    }
    CHECK(sk_rd_ok(&r) && sk_rd_end(&r));
}

TEST(args_of_a_task_are_read_as_they_were_written) {
    uint64_t buf[64];
    size_t n = write_task(buf, sizeof buf);
    CHECK_LE(n, sizeof buf);
    struct sk_rd r = sk_rd_init(buf, n);
    struct sk_stage_task t = sk_stage_task_read(&r), want = a_task();
    CHECK(t.seq == want.seq && t.cap_rows == want.cap_rows && t.hint == want.hint);
    CHECK(t.target_bytes == want.target_bytes && t.table_bytes == want.table_bytes);
    CHECK(same(t.unit, want.unit));
    CHECK_EQ(t.n_blocks, SK_COUNT(blocks));
    for (uint32_t i = 0; i < t.n_blocks; i++) {
        struct sk_stage_block b = sk_stage_block_read(&r);
        CHECK(b.row0 == blocks[i].row0 && b.n_rows == blocks[i].n_rows && b.side == blocks[i].side);
    }
    CHECK(sk_rd_ok(&r) && !sk_rd_end(&r));
    CHECK_EQ(sk_rd_u32(&r), 99);
    CHECK(sk_rd_ok(&r) && sk_rd_end(&r));
}

/* True if b is inside p[0..n), or empty. */
static bool within(struct sk_bytes b, const uint8_t *p, size_t n) {
    const uint8_t *at = b.p;
    return !b.n || (at >= p && at <= p + n && b.n <= (size_t)(p + n - at));
}

static void read_all(const uint8_t *p, size_t n, bool task) {
    struct sk_rd r = sk_rd_init(p, n);
    if (task) {
        struct sk_stage_task t = sk_stage_task_read(&r);
        CHECK(within(t.unit, p, n));
        for (uint32_t i = 0; i < t.n_blocks && sk_rd_ok(&r); i++) (void)sk_stage_block_read(&r);
    } else {
        uint32_t n_nodes = sk_stage_read(&r);
        for (uint32_t i = 0; i < n_nodes && sk_rd_ok(&r); i++) {
            struct sk_stage_node got = sk_stage_node_read(&r);
            CHECK(within(got.op, p, n) && within(got.label, p, n));
            CHECK(within(got.params, p, n) && within(got.what, p, n));
        }
    }
    CHECK_LE(r.at, n);
}

TEST(args_that_are_damaged_or_cut_off_read_nothing_beyond_their_end) {
    uint64_t whole[64];
    for (int round = 0; round < test_rounds(20000); round++) {
        bool task = round % 2;
        size_t n = task ? write_task(whole, sizeof whole) : write_stage(whole, sizeof whole);
        size_t cut = test_below(4) ? n : (size_t)test_below(n + 1);
        /* the bytes end where the allocation ends, so that a sanitizer sees overruns */
        uint8_t *p = malloc(cut + 1);
        CHECK(p);
        memcpy(p, whole, cut);
        for (uint64_t k = test_below(4); cut && k > 0; k--)
            p[test_below(cut)] = (uint8_t)(test_below(3) ? test_rand() : 0xff);
        read_all(p, cut, task);
        free(p);
    }
}
