/* test_shuffle_strategy.c - strategies by name, their layouts, and which one `auto` chooses. */
#include "shuffle/shuffle.h"
#include "test.h"

#define MB (UINT64_C(1) << 20)

static struct sk_shuffle_layout layout_of(const char *name, struct sk_shuffle_sizes z) {
    return sk_shuffle_find(name)->layout(&z);
}

/* Sizes of an exchange of `mb` MiB in 1 GiB of memory. */
static struct sk_shuffle_sizes sizes(uint64_t mb) {
    return (struct sk_shuffle_sizes){.memory_bytes = 1024 * MB,
                                     .spills = true,
                                     .parts = true,
                                     .slots = 8,
                                     .bytes = mb * MB,
                                     .map_bytes = 64 * MB,
                                     .reduce_bytes = 32 * MB};
}

TEST(strategies_have_names_and_only_those_merge_that_say_so) {
    for (unsigned i = 0; sk_shuffle_name(i); i++) {
        const struct sk_shuffle_ops *s = sk_shuffle_find(sk_shuffle_name(i));
        CHECK_STR_EQ(s->name, sk_shuffle_name(i));
        CHECK(s->values && s->merges == (s->came != NULL));
        for (uint64_t mb = 0; s->layout && mb < 1000000; mb = 3 * mb + 1)
            for (int runs = 0; runs < 2; runs++) {
                struct sk_shuffle_sizes z = sizes(mb);
                z.runs = runs;
                struct sk_shuffle_layout w = layout_of(s->name, z);
                CHECK_GE(w.values, 1);
                CHECK(w.merge <= SK_SHUFFLE_MERGE_MAX && (s->merges || !w.merge));
            }
    }
    CHECK(!sk_shuffle_find("no such one") && !sk_shuffle_find(NULL));
}

/* The table of docs/design/exchange.md, of 64 GiB in 1 GiB of memory, 8 slots, maps of 64 MiB. */
TEST(each_strategy_is_wired_as_its_paper_says) {
    static const struct {
        const char *name;
        struct sk_shuffle_layout layout;
    } WANT[] = {{"index", {1, 0, 0}},     {"grouped", {8, 0, 0}}, {"simple", {1024, 0, 0}},
                {"merge", {1, 4, 8}},     {"push", {8, 4, 1}},    {"push_star", {8, 4, 1}},
                {"two_level", {48, 4, 1}}};
    for (unsigned i = 0; i < SK_COUNT(WANT); i++) {
        struct sk_shuffle_layout w = layout_of(WANT[i].name, sizes(65536));
        CHECK_MSG(w.values == WANT[i].layout.values && w.merge == WANT[i].layout.merge &&
                      w.merged == WANT[i].layout.merged,
                  "%s: %u %u %u", WANT[i].name, w.values, w.merge, w.merged);
    }
}

TEST(auto_has_one_value_a_map_while_memory_holds_all_and_a_few_beyond) {
    CHECK_EQ(layout_of("auto", sizes(100)).values, 1);
    CHECK_EQ(layout_of("auto", sizes(1000)).values, 1);
    CHECK_GE(layout_of("auto", sizes(1100)).values, 4);
    CHECK_EQ(layout_of("auto", sizes(4000)).merge,
             0); /* a hundred reads of each reduce do not change the choice */
    struct sk_shuffle_sizes z = sizes(4000);
    z.spills = false; /* all data fit memory, and nothing is read from disk */
    CHECK_EQ(layout_of("auto", z).values, 1);
    CHECK_EQ(layout_of("auto", z).merge, 0);
    z.parts = false; /* whole values only */
    CHECK_GT(layout_of("auto", z).values, 8);
}

TEST(auto_merges_where_reduces_would_read_many_small_parts) {
    struct sk_shuffle_sizes z = sizes(4000000);
    CHECK_GT(layout_of("auto", z).merge, 1);
    z.map_bytes = 1 * MB; /* 16,000 maps of 16 GB: parts of 2 KiB */
    z.bytes = 16000 * MB;
    CHECK_GT(layout_of("auto", z).merge, 10);
}

/* As measured on two cores (the heads of bench/py/strategies.py's cells;
 * docs/design/exchange.md). */
TEST(auto_takes_what_was_fastest_when_it_was_measured) {
    static const struct {
        uint32_t mb, maps;
        bool merges;
    } CELLS[] = {{128, 16, false}, {384, 16, false}, {128, 64, false},
                 {384, 64, false}, {128, 256, true}, {384, 256, true}};
    for (unsigned i = 0; i < SK_COUNT(CELLS); i++)
        for (int runs = 0; runs < 2; runs++) {
            uint64_t bytes = CELLS[i].mb * MB;
            struct sk_shuffle_sizes z = {.memory_bytes = 57 * MB,
                                         .spills = true,
                                         .parts = true,
                                         .runs = runs,
                                         .slots = 2,
                                         .bytes = bytes,
                                         .map_bytes = bytes / CELLS[i].maps,
                                         .reduce_bytes = 4 * MB};
            struct sk_shuffle_layout w = layout_of("auto", z);
            CHECK_MSG((w.merge > 1) == CELLS[i].merges, "%u MiB in %u maps, runs %d: %u/%u/%u",
                      CELLS[i].mb, CELLS[i].maps, runs, w.values, w.merge, w.merged);
            CHECK(w.merge > 1 || w.values >= 4);
        }
}

TEST(auto_is_never_dearer_than_another_one) {
    for (uint64_t mb = 1; mb < 10000000; mb *= 3)
        for (int k = 0; k < 8; k++)
            for (unsigned i = 0; sk_shuffle_name(i); i++) {
                struct sk_shuffle_sizes z = sizes(mb);
                /* `auto` does not consider a strategy without a layout */
                if (!sk_shuffle_find(sk_shuffle_name(i))->layout) continue;
                z.spills = k & 1;
                z.parts = k & 2;
                z.runs = k & 4;
                CHECK(sk_shuffle_cost(&z, layout_of("auto", z)) <=
                      sk_shuffle_cost(&z, layout_of(sk_shuffle_name(i), z)));
            }
}
