/* fuzz.h - shared by the fuzz drivers: random numbers, and values that break size arithmetic. */
#ifndef FUZZ_H
#define FUZZ_H

#include <stdlib.h>

#include "base/base.h"

static uint64_t state = 88172645463325252u;
static uint64_t next(void) { /* xorshift64 */
    state ^= state << 13;
    state ^= state >> 7;
    return state ^= state << 17;
}

static void seed_from_env(void) { /* SK_TEST_SEED */
    const char *seed = getenv("SK_TEST_SEED");
    if (seed) state ^= strtoull(seed, NULL, 0) * 0x9e3779b97f4a7c15u;
    if (!state) state = 1;
}

/* Returns a value that may break size arithmetic, or a small one that looks right. */
static SK_UNUSED uint64_t word(void) {
    /* clang-format off */
    static const uint64_t odd[] = {
        0, 1, 2, 3, 7, 8, 9, 63, 64, 65, 127, 128, 255,
        UINT64_MAX, INT64_MAX, (uint64_t)INT64_MIN, UINT32_MAX, INT32_MAX,
        1ull << 31, 1ull << 32, 1ull << 61, 1ull << 62, (1ull << 61) - 1,
        UINT64_MAX - 7, UINT64_MAX - 63, UINT64_MAX / 3, UINT64_MAX / 8, UINT64_MAX / 8 + 1,
    };
    /* clang-format on */
    uint64_t i = next() % (SK_COUNT(odd) + 4);
    return i < SK_COUNT(odd) ? odd[i] : next() % 1000;
}

#endif
