/* spec_fuzz.c - damages task specifications and decodes them, as if a corrupt worker had sent them.
 * Build it with ASan+UBSan.
 *
 *     spec_fuzz [ROUNDS] [FILE...]  own driver: random specs, damaged; seed in SK_TEST_SEED. Prints
 *                                   "tried N refused N read N".
 *
 * Each copy lies in an allocation of its exact size, so that a read past its end is detected. A
 * copy that can be decoded is read to the last argument. */
#include <stdio.h>
#include <stdlib.h>

#include "engine/local/driver/local_int.h"
#include "fuzz.h"

static volatile uint64_t eaten;

static int fuzz_one(const uint8_t *data, size_t n) {
    struct sk_rd r = sk_rd_init(data, n);
    struct sk_spec s;
    if (!sk_spec_read(&r, &s)) return 1;
    uint64_t sum = s.fid + s.actor + s.shape + s.n_returns;
    for (size_t i = 0; i < s.name.n; i++) sum += ((const uint8_t *)s.name.p)[i];
    for (size_t i = 0; i < s.refused.n; i++) sum += ((const uint8_t *)s.refused.p)[i];
    for (uint32_t i = 0; i < s.n_contains; i++) {
        uint64_t x;
        memcpy(&x, s.contains + i, 8);
        sum += x;
    }
    struct sk_rd a = sk_rd_init(s.args, s.args_len);
    for (uint32_t i = 0; i < s.n_args; i++) {
        struct sk_val v;
        const uint8_t *b = sk_rd_val(&a, &v);
        sum += v.oid + v.kind;
        for (uint64_t k = 0; v.where == SK_V_INLINE && k < v.len; k++) sum += b[k];
    }
    /* the decoder has promised that the specification is valid */
    if (a.bad || !sk_rd_end(&a)) abort();
    eaten += sum;
    return 0;
}

#ifndef SK_LIBFUZZER

static size_t make(uint8_t *p, size_t cap) {
    static uint8_t bytes[300];
    struct sk_arg a[8];
    sk_oid c[8];
    struct sk_task_spec s = {.fn = {next()},
                             .name = next() % 2 ? "name of a task" : NULL,
                             .args = a,
                             .contains = c,
                             .n_returns = (uint32_t)(next() % 5)};
    struct sk_task_opts o = {.refused = next() % 4 ? NULL : "it asks for too much"};
    s.opts = &o;
    s.n_args = (uint32_t)(next() % 8);
    s.n_contains = (uint32_t)(next() % 8);
    for (uint32_t i = 0; i < 8; i++) {
        c[i].v = next();
        a[i] = next() % 2 ? (struct sk_arg){.ref = {next() | 1}}
                          : (struct sk_arg){.kind = 4, .bytes = {bytes, next() % sizeof bytes}};
    }
    if (next() % 4 == 0) s.n_returns = SK_STREAMING;
    struct sk_wr w = sk_wr_init(p, cap);
    sk_spec_write(&w, &s);
    if (!sk_wr_ok(&w)) abort();
    return w.n;
}

int main(int argc, char **argv) {
    uint64_t rounds = fuzz_begin(argc, argv, 200000), refused = 0;
    for (uint64_t i = 0; i < rounds; i++) {
        static uint8_t buf[8192];
        size_t n = fuzz_damage(buf, make(buf, sizeof buf), 0);
        refused += (uint64_t)fuzz_exact(buf, n, i);
    }
    return fuzz_end(rounds, refused);
}
#endif
