/* store_bench.c - price of the extent book: ns an operation with many live extents.
 *
 *   store_bench [live extents = 100000] [rounds = 1000000]
 * Steady state: each round frees a random object and makes one of a random size, so that holes of
 * all sizes are about. */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "store/store.h"

static uint64_t rng = 88172645463325252u;
static uint64_t rnd(uint64_t n) {
    rng ^= rng << 13;
    rng ^= rng >> 7;
    rng ^= rng << 17;
    return rng % n;
}

static void line(const char *what, int64_t ns, uint64_t n) {
    printf("%-44s %8.1f ns\n", what, (double)ns / (double)n);
}

static sk_off make(struct sk_store *st, uint64_t len) {
    sk_off off;
    struct sk_err err;
    if (sk_store_alloc(st, 1, len, &off, &err) != SK_OK ||
        sk_store_commit(st, 1, off, len, &err) != SK_OK) {
        printf("%s\n", err.msg);
        exit(1);
    }
    return off;
}

static void churn(struct sk_store *st, sk_off *o, uint64_t live, uint64_t rounds, const char *what,
                  uint64_t (*len)(void)) {
    for (uint64_t i = 0; i < live; i++) o[i] = make(st, len());
    for (uint64_t i = 0; i < live * 2; i++) { /* age it */
        uint64_t k = rnd(live);
        sk_store_unref(st, o[k]);
        o[k] = make(st, len());
    }
    int64_t t0 = sk_now_ns();
    for (uint64_t i = 0; i < rounds; i++) {
        uint64_t k = rnd(live);
        sk_store_unref(st, o[k]);
        o[k] = make(st, len());
    }
    line(what, sk_now_ns() - t0, rounds);
    for (uint64_t i = 0; i < live; i++) sk_store_unref(st, o[i]);
}

static uint64_t same(void) { return 65536; }
static uint64_t mixed(void) { return 64 + rnd(UINT64_C(1) << (7 + rnd(12))); }
static uint64_t large(void) { return (UINT64_C(1) << 20) + rnd(UINT64_C(1) << 24); }

int main(int argc, char **argv) {
    uint64_t live = argc > 1 ? strtoull(argv[1], NULL, 10) : 100000,
             rounds = argc > 2 ? strtoull(argv[2], NULL, 10) : 1000000;
    struct sk_store *st;
    sk_off *o = malloc(live * sizeof *o);
    if (!o || sk_store_create(&st, UINT64_C(1) << 40, NULL) != SK_OK) return 1;

    int64_t t0 = sk_now_ns();
    for (uint64_t i = 0; i < rounds; i++) sk_store_unref(st, make(st, 4096));
    line("alloc+commit+unref, empty store", sk_now_ns() - t0, rounds);

    churn(st, o, live, rounds, "unref+alloc+commit, random, all 64 KiB", same);
    churn(st, o, live, rounds, "unref+alloc+commit, random, 64 B..512 KiB", mixed);
    churn(st, o, live / 10, rounds, "unref+alloc+commit, random, 1..17 MiB", large);

    for (uint64_t i = 0; i < live; i++) o[i] = make(st, 1000);
    t0 = sk_now_ns();
    for (uint64_t i = 0; i < rounds; i++) {
        sk_store_ref(st, o[i % live]);
        sk_store_unref(st, o[i % live]);
    }
    line("ref+unref", sk_now_ns() - t0, rounds);
    t0 = sk_now_ns();
    for (uint64_t i = 0; i < rounds; i++) {
        uint64_t k = rnd(live);
        if (sk_store_pin(st, 3, o[k]) != SK_OK || !sk_store_unpin(st, 3, o[k])) return 1;
    }
    line("pin+unpin, random", sk_now_ns() - t0, rounds);

    sk_off lease = 0, off;
    const uint64_t n = 4096;
    int64_t sealing = 0;
    for (uint64_t i = 0; i < rounds / n; i++) {
        if (sk_store_alloc(st, 2, n * 1024, &lease, NULL) != SK_OK) return 1;
        t0 = sk_now_ns();
        for (uint64_t k = 0; k < n; k++)
            if (sk_store_commit(st, 2, lease + k * 1024, 1000, NULL) != SK_OK) return 1;
        sealing += sk_now_ns() - t0;
        for (uint64_t k = 0; k < n; k++) sk_store_unref(st, lease + k * 1024);
    }
    line("commit of a piece of a lease", sealing, rounds / n * n);

    /* A full store: what a refused allocation costs (holes everywhere, none large enough). */
    struct sk_store *full;
    if (sk_store_create(&full, live * 65536, NULL) != SK_OK) return 1;
    for (uint64_t i = 0; i < live; i++) o[i] = make(full, 65536);
    for (uint64_t i = 0; i < live; i += 2) sk_store_unref(full, o[i]);
    struct sk_err err;
    t0 = sk_now_ns();
    for (uint64_t i = 0; i < 10000; i++)
        if (sk_store_alloc(full, 1, 131072, &off, &err) != SK_EFULL) return 1;
    line("refused, other bin", sk_now_ns() - t0, 10000);
    t0 = sk_now_ns();
    for (uint64_t i = 0; i < 100; i++)
        if (sk_store_alloc(full, 1, 66000, &off, NULL) != SK_EFULL) return 1;
    line("refused, same bin", sk_now_ns() - t0, 100);
    sk_store_destroy(full);
    sk_store_destroy(st);
    free(o);
    return 0;
}
