/* fuzz.h - shared by the fuzz targets: random numbers, values that break size arithmetic, and files
 * of a corpus.
 *
 * Each target <x>_fuzz.c defines fuzz_one, which treats some bytes as the parser's input and aborts
 * if the parser breaks a promise. The target is built twice: as <x>_fuzz, with a driver of its
 * own that damages good inputs (any compiler), and with SK_LIBFUZZER as <x>_hunt, which libFuzzer
 * drives (./dev soak fuzz). */
#ifndef FUZZ_H
#define FUZZ_H

#include <stdio.h>
#include <stdlib.h>

#include "base/base.h"

static int fuzz_one(const uint8_t *data, size_t n); /* drivers count what it returns */

#ifdef SK_LIBFUZZER
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
    (void)fuzz_one(data, n);
    return 0; /* with another value libFuzzer would learn nothing from the input */
}
#endif

static uint64_t state = 88172645463325252u;
static struct sk_bytes choices; /* set: next() takes its numbers from here, then gives zeros */
static SK_UNUSED uint64_t next(void) { /* xorshift64 */
    if (choices.p) {
        const uint8_t *p = choices.p;
        size_t n = SK_MIN(choices.n, 2);
        choices = (struct sk_bytes){p + n, choices.n - n};
        return n == 2 ? p[0] | (uint64_t)p[1] << 8 : n ? p[0] : 0;
    }
    state ^= state << 13;
    state ^= state >> 7;
    return state ^= state << 17;
}

static SK_UNUSED void seed_from_env(void) { /* SK_TEST_SEED */
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

/* Reads a file into an allocation of its exact size, at a multiple of 64 bytes. */
static SK_UNUSED uint8_t *fuzz_load(const char *file, size_t *n) {
    FILE *f = fopen(file, "rb");
    void *p = NULL;
    if (!f || fseek(f, 0, SEEK_END)) perror(file), exit(1);
    *n = (size_t)ftell(f);
    rewind(f);
    if (posix_memalign(&p, 64, *n + !*n) || fread(p, 1, *n, f) != *n) perror(file), exit(1);
    fclose(f);
    return p;
}

/* Tries the files that the command line names, and returns its first argument that is a number: how
 * many rounds the driver goes on for. rounds: returned if there is no number. */
static SK_UNUSED uint64_t fuzz_begin(int argc, char **argv, uint64_t rounds) {
    uint64_t files = 0;
    bool number = false;
    for (int i = 1; i < argc; i++) {
        char *end;
        uint64_t x = strtoull(argv[i], &end, 10);
        if (!number && end != argv[i] && !*end) {
            number = true, rounds = x;
            continue;
        }
        size_t n;
        uint8_t *p = fuzz_load(argv[i], &n);
        (void)fuzz_one(p, n);
        free(p);
        files++;
    }
    seed_from_env(); /* a target may have set the state for a file */
    const char *times = getenv("SK_TEST_ROUNDS"), *seed = getenv("SK_TEST_SEED");
    if (!number && times) rounds *= strtoull(times, NULL, 10);
    printf("seed %s files %llu ", seed ? seed : "0", (unsigned long long)files);
    return rounds;
}

/* Writes a driver's input into the folder SK_FUZZ_SEEDS, if that is set: what libFuzzer begins
 * with. */
static SK_UNUSED void fuzz_save(const uint8_t *p, size_t n, uint64_t number) {
    const char *folder = getenv("SK_FUZZ_SEEDS");
    char path[512];
    if (!folder || number >= 100) return;
    snprintf(path, sizeof path, "%s/seed-%llu", folder, (unsigned long long)number);
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(p, 1, n, f) != n || fclose(f)) perror(path), exit(1);
}

/* Damages up to three places of n bytes behind the first `keep`; returns the new length. */
static SK_UNUSED size_t fuzz_damage(uint8_t *p, size_t n, size_t keep) {
    for (uint64_t k = next() % 4; k > 0; k--) {
        size_t at = keep + next() % (n - keep), to8 = SK_MAX(at & ~(size_t)7, keep),
               to4 = SK_MAX(at & ~(size_t)3, keep);
        uint64_t w = word();
        switch (next() % 4) {
        case 0: p[at] ^= (uint8_t)(1u << next() % 8); break;
        case 1: memcpy(p + to8, &w, SK_MIN(8, n - to8)); break;
        case 2: memcpy(p + to4, &w, SK_MIN(4, n - to4)); break;
        default: n = at + 1;
        }
    }
    return n;
}

/* Tries a copy of n bytes in an allocation of its exact size. number: of the input. */
static SK_UNUSED int fuzz_exact(const uint8_t *p, size_t n, uint64_t number) {
    uint8_t *exact = malloc(n);
    if (!exact) abort();
    memcpy(exact, p, n);
    fuzz_save(exact, n, number);
    int r = fuzz_one(exact, n);
    free(exact);
    return r;
}

/* Says what the driver did; returns its exit status. If all inputs have the same result, the
 * generator tests nothing. */
static SK_UNUSED int fuzz_end(uint64_t rounds, uint64_t refused) {
    printf("tried %llu refused %llu read %llu\n", (unsigned long long)rounds,
           (unsigned long long)refused, (unsigned long long)(rounds - refused));
    return refused == 0 || refused == rounds;
}

#endif
