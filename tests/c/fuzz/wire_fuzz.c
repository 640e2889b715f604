/* wire_fuzz.c - damages the descriptions that workers get with a stage and its tasks (what an
 * exchange does, which columns and keys there are, packs and their notes), and decodes them.
 *
 *     wire_fuzz [ROUNDS] [FILE...]  own driver: descriptions, damaged; seed in SK_TEST_SEED.
 *                                   Prints "tried N refused N read N".
 *
 * The first byte of an input says which decoder gets the rest. Each copy lies in an allocation of
 * its exact size. */
#include "data/columns.h"
#include "data/groups.h"
#include "exec/args.h"
#include "fuzz.h"
#include "shuffle/pack.h"
#include "shuffle/work.h"

enum decoder { WHAT, COLUMNS, GROUPS, NOTE, STAGE, TASK, DECODERS };

static volatile uint64_t eaten;

static void eat(struct sk_bytes b) {
    uint64_t sum = b.n;
    for (size_t i = 0; i < b.n; i++) sum += ((const uint8_t *)b.p)[i];
    eaten += sum;
}

static int what(struct sk_bytes in) {
    struct sk_what *w = NULL;
    struct sk_err err;
    if (sk_what_read(in, &w, &err)) return 1;
    /* what was read can be written, and read again */
    size_t n = sk_what_write(w, NULL, 0);
    uint8_t *p = malloc(n);
    struct sk_what *again = NULL;
    if (!p || sk_what_write(w, p, n) != n || sk_what_read((struct sk_bytes){p, n}, &again, &err))
        abort();
    free(p);
    sk_what_destroy(again);
    sk_what_destroy(w);
    return 0;
}

static int columns(struct sk_bytes in) {
    struct sk_columns *c = NULL;
    struct sk_err err;
    if (sk_columns_read(in, &c, &err)) return 1;
    eaten += sk_columns_n(c);
    sk_columns_destroy(c);
    return 0;
}

static int groups(struct sk_bytes in) {
    struct sk_groups *g = NULL;
    struct sk_err err;
    if (sk_groups_read(in, &g, &err)) return 1;
    sk_groups_destroy(g);
    return 0;
}

static int stage(struct sk_bytes in) {
    struct sk_rd r = sk_rd_init(in.p, in.n);
    for (uint32_t n = sk_stage_read(&r); n && sk_rd_ok(&r); n--) {
        struct sk_stage_node node = sk_stage_node_read(&r);
        eat(node.op), eat(node.label), eat(node.params), eat(node.what);
    }
    return !sk_rd_ok(&r);
}

static int task(struct sk_bytes in) {
    struct sk_rd r = sk_rd_init(in.p, in.n);
    struct sk_stage_task t = sk_stage_task_read(&r);
    eat(t.unit);
    for (uint32_t i = 0; i < t.n_blocks && sk_rd_ok(&r); i++) eaten += sk_stage_block_read(&r).side;
    struct sk_pack_task p = sk_pack_task_read(&r);
    for (uint32_t i = 0; i < t.n_blocks && sk_rd_ok(&r); i++)
        eat(sk_pack_block_read(&r, p.phase).parts);
    return !sk_rd_ok(&r);
}

static int fuzz_one(const uint8_t *data, size_t n) { /* 1: refused */
    if (!n) return 1;
    /* a copy, so that the input lies at a multiple of 8 */
    uint8_t *copy = malloc(n);
    if (!copy) abort();
    memcpy(copy, data + 1, n - 1);
    struct sk_bytes in = {copy, n - 1};
    int refused = 1;
    switch ((enum decoder)(data[0] % DECODERS)) {
    case WHAT: refused = what(in); break;
    case COLUMNS: refused = columns(in); break;
    case GROUPS: refused = groups(in); break;
    case NOTE: refused = !sk_pack_note_ok(in); break;
    case STAGE: refused = stage(in); break;
    case TASK: refused = task(in); break;
    case DECODERS: break;
    }
    free(copy);
    return refused;
}

#ifndef SK_LIBFUZZER
static size_t make(uint8_t *p, size_t cap) {
    static const char *const names[] = {"a", "key", "a longer name of a column"};
    p[0] = (uint8_t)(next() % DECODERS);
    struct sk_wr w = sk_wr_init(p + 1, cap - 1);
    uint32_t n = (uint32_t)(next() % 4);
    switch ((enum decoder)p[0]) {
    case WHAT: {
        struct sk_what_key keys[3] = {{(char *)(uintptr_t)"a", true, false},
                                      {(char *)(uintptr_t)"key", false, true}};
        struct sk_what x = {.kind = SK_WHAT_SORT,
                            .n_partitions = (uint32_t)(next() % 5),
                            .keys = keys,
                            .n_keys = (uint32_t)(next() % 3)};
        return 1 + sk_what_write(&x, p + 1, cap - 1);
    }
    case COLUMNS: sk_columns_write(&w, SK_MIN(n, 3), names, names); break;
    case GROUPS: sk_groups_write(&w, names, SK_MIN(n, 3)); break;
    case NOTE: {
        struct sk_pack_note note = {
            .magic = SK_PACK_NOTE, .kind = SK_PACK_PARTS, .bytes = 64, .n = n};
        struct sk_pack_part parts[4] = {{1, 1}, {0, 0}};
        memcpy(p + 1, &note, sizeof note);
        memcpy(p + 1 + sizeof note, parts, n * sizeof *parts);
        return 1 + sizeof note + n * sizeof *parts;
    }
    case STAGE:
        sk_stage_write(&w, n);
        for (uint32_t i = 0; i < n; i++)
            sk_stage_node_write(&w, &(struct sk_stage_node){.op = {"map", 3}, .label = {"m", 1}});
        break;
    case TASK:
        sk_stage_task_write(&w, &(struct sk_stage_task){.seq = next(), .n_blocks = n});
        for (uint32_t i = 0; i < n; i++)
            sk_stage_block_write(&w, &(struct sk_stage_block){.n_rows = next() % 9});
        sk_pack_task_write(&w, &(struct sk_pack_task){.phase = SK_PHASE_MERGE, .end = n});
        for (uint32_t i = 0; i < n; i++)
            sk_pack_block_write(&w, SK_PHASE_MERGE, &(struct sk_pack_block){.parts = {"abcd", 4}});
        break;
    case DECODERS: break;
    }
    if (!sk_wr_ok(&w)) abort();
    return 1 + w.n;
}

int main(int argc, char **argv) {
    uint64_t rounds = fuzz_begin(argc, argv, 200000), refused = 0;
    for (uint64_t i = 0; i < rounds; i++) {
        static uint8_t buf[4096];
        size_t n = make(buf, sizeof buf);
        if (n > 1) n = fuzz_damage(buf, n, 1);
        refused += (uint64_t)fuzz_exact(buf, n, i);
    }
    return fuzz_end(rounds, refused);
}
#endif
