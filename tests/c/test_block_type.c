/* test_block_type.c - format strings and metadata blobs, good and bad. */
#include "block/block_int.h"
#include "test.h"

TEST(type_formats_known) {
    static const struct {
        const char *format;
        enum sk_block_kind kind;
        int width;
    } all[] = {
        {"n", SK_BLOCK_NULL, 0},
        {"b", SK_BLOCK_BOOL, 0},
        {"c", SK_BLOCK_FIXED, 1},
        {"C", SK_BLOCK_FIXED, 1},
        {"s", SK_BLOCK_FIXED, 2},
        {"S", SK_BLOCK_FIXED, 2},
        {"i", SK_BLOCK_FIXED, 4},
        {"I", SK_BLOCK_FIXED, 4},
        {"l", SK_BLOCK_FIXED, 8},
        {"L", SK_BLOCK_FIXED, 8},
        {"e", SK_BLOCK_FIXED, 2},
        {"f", SK_BLOCK_FIXED, 4},
        {"g", SK_BLOCK_FIXED, 8},
        {"z", SK_BLOCK_VAR, 4},
        {"Z", SK_BLOCK_VAR, 8},
        {"u", SK_BLOCK_VAR, 4},
        {"U", SK_BLOCK_VAR, 8},
        {"vz", SK_BLOCK_VIEW, 16},
        {"vu", SK_BLOCK_VIEW, 16},
        {"w:0", SK_BLOCK_FIXED, 0},
        {"w:42", SK_BLOCK_FIXED, 42},
        {"d:19,10", SK_BLOCK_FIXED, 16},
        {"d:9,-2,32", SK_BLOCK_FIXED, 4},
        {"d:18,0,64", SK_BLOCK_FIXED, 8},
        {"d:76,3,256", SK_BLOCK_FIXED, 32},
        {"tdD", SK_BLOCK_FIXED, 4},
        {"tdm", SK_BLOCK_FIXED, 8},
        {"tts", SK_BLOCK_FIXED, 4},
        {"ttm", SK_BLOCK_FIXED, 4},
        {"ttu", SK_BLOCK_FIXED, 8},
        {"ttn", SK_BLOCK_FIXED, 8},
        {"tss:", SK_BLOCK_FIXED, 8},
        {"tsm:UTC", SK_BLOCK_FIXED, 8},
        {"tsn:Europe/Berlin", SK_BLOCK_FIXED, 8},
        {"tDs", SK_BLOCK_FIXED, 8},
        {"tDn", SK_BLOCK_FIXED, 8},
        {"tiM", SK_BLOCK_FIXED, 4},
        {"tiD", SK_BLOCK_FIXED, 8},
        {"tin", SK_BLOCK_FIXED, 16},
        {"+l", SK_BLOCK_LIST, 4},
        {"+L", SK_BLOCK_LIST, 8},
        {"+m", SK_BLOCK_LIST, 4},
        {"+vl", SK_BLOCK_LIST_VIEW, 4},
        {"+vL", SK_BLOCK_LIST_VIEW, 8},
        {"+w:3", SK_BLOCK_FIXED_LIST, 3},
        {"+s", SK_BLOCK_STRUCT, 0},
        {"+ud:0,1", SK_BLOCK_DENSE, 0},
        {"+us:5", SK_BLOCK_SPARSE, 0},
        {"+us:", SK_BLOCK_SPARSE, 0},
        {"+r", SK_BLOCK_RUNS, 0},
    };
    for (size_t i = 0; i < SK_COUNT(all); i++) {
        struct sk_block_type t;
        CHECK_MSG(sk_block_type_parse(all[i].format, &t), "%s", all[i].format);
        CHECK_MSG(t.kind == all[i].kind && t.width == all[i].width, "%s: kind %d width %d",
                  all[i].format, t.kind, t.width);
    }
}

TEST(type_formats_refused) {
    static const char *const bad[] = {
        "",         "x",         "nn",      "lx",        "v",     "vx",
        "vuu",      "w",         "w:",      "w:-1",      "w:1x",  "w:99999999999",
        "d",        "d:",        "d:5",     "d:5,",      "d:0,1", "d:39,1",
        "d:5,1,33", "d:10,1,32", "d:5,1,",  "d:5,1,64x", "t",     "tx",
        "td",       "tdx",       "tdDx",    "ttx",       "tt",    "ts",
        "tss",      "tsx:",      "tD",      "tDsx",      "tix",   "ti",
        "+",        "+x",        "+lx",     "+v",        "+vx",   "+vlx",
        "+w",       "+w:",       "+w:x",    "+sx",       "+u",    "+ud",
        "+ux:0",    "+ud:0,0",   "+ud:128", "+ud:0,",    "+ud:,", "+ud:0x",
        "+ud:-1",   "+rx"};
    for (size_t i = 0; i < SK_COUNT(bad); i++) {
        struct sk_block_type t;
        CHECK_MSG(!sk_block_type_parse(bad[i], &t), "%s", bad[i]);
    }
}

TEST(type_union_map) {
    uint8_t map[256];
    sk_block_union_map("+ud:5,0,127", map);
    CHECK_EQ(map[5], 0);
    CHECK_EQ(map[0], 1);
    CHECK_EQ(map[127], 2);
    CHECK_EQ(map[1], 0xFF);
    CHECK_EQ(map[255], 0xFF);
}

TEST(type_metadata_len) {
    struct {
        int32_t n, k;
        char key[4];
        int32_t v;
        char value[3];
    } __attribute__((packed)) m = {1, 4, "key", 3, "ab"};
    uint64_t len;
    CHECK(sk_block_metadata_len((const char *)&m, UINT64_MAX, &len));
    CHECK_EQ(len, sizeof m);
    for (uint64_t limit = 0; limit < sizeof m; limit++)
        CHECK(!sk_block_metadata_len((const char *)&m, limit, &len));
    m.v = -1;
    CHECK(!sk_block_metadata_len((const char *)&m, UINT64_MAX, &len));
    m.n = -1;
    CHECK(!sk_block_metadata_len((const char *)&m, UINT64_MAX, &len));
    m.n = 0;
    CHECK(sk_block_metadata_len((const char *)&m, 4, &len));
    CHECK_EQ(len, 4);
}
