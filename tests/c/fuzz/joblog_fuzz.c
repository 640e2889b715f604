/* joblog_fuzz.c - damages logs of jobs and reads them, as if a disk or an attacker had changed
 * them. Build it with ASan+UBSan.
 *
 *     joblog_fuzz [ROUNDS] [FILE...]   own driver: random logs, damaged; seed in SK_TEST_SEED.
 *                                      Prints "tried N whole N cut N".
 *
 * Each copy lies in an allocation of its exact size. Every record that is read is walked to its
 * last name. A damaged record and those behind it must not be read; in half of the rounds the
 * damaged bytes get a correct checksum, so that the decoder behind the check is reached. */
#include <stdio.h>
#include <stdlib.h>

#include "base/crc32c.h"
#include "base/log/joblog.h"
#include "fuzz.h"

static volatile uint64_t eaten;

static uint64_t eat(struct sk_bytes b) {
    uint64_t sum = b.n;
    for (size_t i = 0; i < b.n; i++) sum += ((const uint8_t *)b.p)[i];
    return sum;
}

static void walk(struct sk_job_rec r) {
    for (uint32_t i = 0; i < r.n; i++) {
        struct sk_job_part p;
        struct sk_job_file f;
        if (r.kind == SK_JOB_HEAD || r.kind == SK_JOB_REPORTS) {
            sk_job_part(&r, &p);
            eaten += eat(p.label) + eat(p.digest);
        } else {
            sk_job_file(&r, &f);
            eaten += eat(f.staged) + eat(f.final) + f.rows;
            const char *s = f.final.p;
            if (s[0] == '/' ||
                (f.final.n >= 2 && !memcmp(s, "..", 2) && (f.final.n == 2 || s[2] == '/')))
                abort(); /* the name leads out of the folder */
        }
        if (r.at.bad) abort(); /* the reader has promised that the record is valid */
    }
    eaten += eat(r.mode) + eat(r.prefix);
}

static int fuzz_one(const uint8_t *data, size_t n) { /* records read */
    struct sk_job_rec r;
    size_t at = 0;
    uint32_t crc = 0;
    int k = 0;
    for (; sk_job_next(data, n, &at, &crc, &r); k++) walk(r);
    if (sk_job_read((struct sk_bytes){data, n}, &r)) walk(r); /* without the checksum in front */
    return k;
}

#ifndef SK_LIBFUZZER

static uint8_t buf[1 << 16];
static size_t ends[64]; /* of each record */
static uint32_t n_ends;

static struct sk_bytes name(char *p) {
    size_t n = 1 + next() % 12;
    static const char set[] = "ab/.x_=0";
    for (size_t i = 0; i < n; i++) p[i] = set[next() % (sizeof set - 1)];
    return (struct sk_bytes){p, n};
}

static size_t make(void) {
    size_t at = 16;
    uint32_t crc = 0;
    n_ends = 0;
    memset(buf, 0, 16);
    for (uint64_t k = 1 + next() % 8; k; k--) {
        char text[16][16];
        struct sk_job_part parts[4];
        struct sk_job_file files[4];
        struct sk_job_rec r = {.kind = n_ends ? SK_JOB_UNIT + (uint32_t)(next() % 4) : SK_JOB_HEAD,
                               .unit = next() % 100,
                               .mode = {"append", 6},
                               .prefix = {"", 0}};
        bool has = r.kind != SK_JOB_COMMIT && r.kind != SK_JOB_DONE;
        r.n = has ? (uint32_t)(next() % 4) : 0;
        for (uint32_t i = 0; i < 4; i++) {
            parts[i] = (struct sk_job_part){name(text[i]), name(text[4 + i])};
            files[i] =
                (struct sk_job_file){name(text[8 + i]), name(text[12 + i]), next() % 100, next()};
        }
        struct sk_wr w = sk_wr_init(buf + at + 8, sizeof buf - at - 8);
        sk_job_write(&w, &r, parts, files);
        if (!sk_wr_ok(&w)) abort();
        uint32_t n = (uint32_t)w.n;
        crc = sk_crc32c(sk_crc32c(crc, &n, 4), buf + at + 8, n);
        memcpy(buf + at, &n, 4);
        memcpy(buf + at + 4, &crc, 4);
        at += 8 + n;
        ends[n_ends++] = at;
        struct sk_job_rec back;
        /* the name leads out of the folder: the reader stops here */
        if (!sk_job_read((struct sk_bytes){buf + at - n, n}, &back)) break;
        if (back.n != r.n || back.kind != r.kind || back.unit != r.unit) abort();
    }
    return at;
}

static void good_checksums(size_t n) {
    uint32_t crc = 0;
    for (size_t at = 16; at + 8 <= n;) {
        uint32_t len;
        memcpy(&len, buf + at, 4);
        if (len > n - at - 8) return;
        crc = sk_crc32c(sk_crc32c(crc, &len, 4), buf + at + 8, len);
        memcpy(buf + at + 4, &crc, 4);
        at += 8 + len;
    }
}

int main(int argc, char **argv) {
    uint64_t rounds = fuzz_begin(argc, argv, 200000), whole = 0, cut = 0;
    for (uint64_t i = 0; i < rounds; i++) {
        size_t n = make(), first = n;
        bool mend = next() % 2;
        uint8_t *before = malloc(n);
        if (!before) abort();
        memcpy(before, buf, n);
        n = fuzz_damage(buf, n, 16);
        if (mend) good_checksums(n);
        for (first = 0; first < n && before[first] == buf[first];) first++;
        int got = fuzz_exact(buf, n, i), could = 0;
        while (could < (int)n_ends && ends[could] <= first) could++;
        if (!mend && got > could) abort(); /* a record was read that was never written */
        if (got == (int)n_ends) whole++;
        else cut++;
        free(before);
    }
    printf("tried %llu whole %llu cut %llu\n", (unsigned long long)rounds,
           (unsigned long long)whole, (unsigned long long)cut);
    /* if all copies have the same result, the generator tests nothing */
    return whole == 0 || cut == 0;
}
#endif
