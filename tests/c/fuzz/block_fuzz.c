/* block_fuzz.c - damages blocks and reads them. tests/py/unit/test_block_ctypes.py builds it, too,
 * with ASan+UBSan, for all kinds of blocks.
 *
 *     block_fuzz [ROUNDS] [FILE...]   damages the good blocks in files named *.skb; seed in
 *                                     SK_TEST_SEED. Prints "tried refused read N N N".
 *
 * Each damaged copy is in an allocation of its exact size. A copy that sk_block_validate accepts is
 * read to the last value, with its rows cut at random; a copy that only sk_block_info accepts is
 * exported and released. */
#include <stdio.h>
#include <stdlib.h>

#include "block/block.h"
#include "block_read.h"
#include "fuzz.h"

static void die(const char *what, const char *file) {
    fprintf(stderr, "%s: %s\n", file, what);
    abort();
}

static int released;
static void owner_release(void *ctx) {
    (void)ctx;
    released++;
}

static sk_rc read_it(const uint8_t *p, size_t n, bool all, const char *file) {
    struct ArrowSchema s;
    struct ArrowArray a;
    struct sk_block_info info;
    struct sk_err err;
    int before = released;
    uint64_t at = 0, rows = UINT64_MAX;
    sk_rc rc = sk_block_info(p, n, &info, &err);
    if (rc) return rc;
    if (next() % 2) {
        at = next() % (info.n_rows + 1);
        rows = next() % (info.n_rows - at + 1);
    }
    if (sk_block_export(p, n, at, rows, (struct sk_block_owner){owner_release, NULL}, &s, &a, &err))
        die(err.msg, file);
    if (all) (void)block_read(&s, &a);
    s.release(&s);
    if (released != before) die("released early", file);
    a.release(&a);
    if (released != before + 1) die("not released", file);
    return SK_OK;
}

/* The block has to lie at a multiple of 64 bytes, in an allocation of its exact size. */
static sk_rc try_block(const uint8_t *p, size_t n, const char *file) {
    struct sk_err err;
    sk_rc rc = sk_block_validate(p, n, &err);
    if (rc && rc != SK_ECORRUPT) die(err.msg, file);
    sk_rc tables = read_it(p, n, rc == SK_OK, file);
    if (!rc && tables) die("info refuses what validate takes", file);
    return rc;
}

static int fuzz_one(const uint8_t *data, size_t n) {
    void *p = NULL;
    state = n | 1ull << 32; /* the rows that are read depend on the input only */
    if (posix_memalign(&p, 64, n + !n)) abort();
    if (n) memcpy(p, data, n);
    (void)try_block(p, n, "an input");
    free(p);
    return 0;
}

#ifndef SK_LIBFUZZER
static void damage(uint8_t *p, size_t *n) {
    uint64_t data_off;
    memcpy(&data_off, p + 72, 8);
    for (uint64_t times = 1 + next() % 3; times; times--) {
        /* tables more often than data */
        size_t from = next() % 4 ? 0 : (size_t)data_off, upto = next() % 2 ? (size_t)data_off : *n;
        if (from >= upto) from = 0;
        size_t at = from + next() % (upto - from);
        uint64_t w = word();
        switch (next() % 6) {
        case 0: p[at] ^= (uint8_t)(1u << next() % 8); break;
        case 1: p[at] = (uint8_t)next(); break;
        case 2: memcpy(p + (at & ~7u), &w, 8); break;
        case 3: memcpy(p + (at & ~3u), &w, 4); break;
        case 4: p[at]++; break;
        default: {
            size_t other = (next() % *n) & ~7u;
            memcpy(&w, p + other, 8);
            memcpy(p + (at & ~7u), &w, 8);
        }
        }
    }
    if (next() % 16 == 0) *n = next() % (*n + 1);
}

int main(int argc, char **argv) {
    long good_files = 0, tried = 0, refused = 0, read = 0,
         rounds = (long)fuzz_begin(argc, argv, 200);
    for (int f = 1; f < argc; f++) {
        if (!strstr(argv[f], ".skb")) continue;
        good_files++;
        size_t whole;
        uint8_t *good = fuzz_load(argv[f], &whole);
        for (long i = 0; i <= rounds; i++, tried++) {
            size_t n = whole;
            uint8_t *scratch = malloc(whole);
            if (!scratch) die("no memory", argv[f]);
            memcpy(scratch, good, whole);
            if (i) damage(scratch, &n); /* round 0: unharmed */
            uint8_t *p = NULL;
            if (posix_memalign((void **)&p, 64, n)) die("no memory", argv[f]);
            memcpy(p, scratch, n);
            free(scratch);
            sk_rc rc = try_block(p, n, argv[f]);
            if (!i && rc) die("a good block is refused", argv[f]);
            if (rc) refused++;
            else read++;
            free(p);
        }
        free(good);
    }
    printf("tried refused read %ld %ld %ld\n", tried, refused, read);
    return good_files && (!refused || !read); /* the damage tests nothing */
}
#endif
