/* test_base_joblog.c - the log of a job: cut at every byte, flipped at every byte, with failing
 * writes, opened by two processes. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/log/joblog.h"
#include "base/mem.h"
#include "test.h"

static char path[64];

static struct sk_bytes b(const char *s) { return (struct sk_bytes){s, strlen(s)}; }

static struct sk_joblog *opened(void) {
    struct sk_err err = {0};
    struct sk_joblog *log = NULL;
    CHECK_OK_ERR(sk_joblog_open(path, &log, &err), &err);
    return log;
}

static sk_rc head(struct sk_joblog *log, struct sk_err *err) {
    struct sk_job_part p[2] = {{b("Read"), b("0123456789abcdef")}, {b("Map(f)"), b("x")}};
    return sk_joblog_append(
        log,
        &(struct sk_job_rec){
            .kind = SK_JOB_HEAD, .n = 2, .unit = 7, .mode = b("append"), .prefix = b("")},
        p, NULL, err);
}

static sk_rc unit(struct sk_joblog *log, uint64_t u, struct sk_err *err) {
    struct sk_job_file f = {b("run-1/a.parquet"), b("a.parquet"), 5, 100 + u};
    return sk_joblog_append(log, &(struct sk_job_rec){.kind = SK_JOB_UNIT, .n = u % 2, .unit = u},
                            NULL, &f, err);
}

static sk_rc mark(struct sk_joblog *log, uint32_t kind) {
    return sk_joblog_append(log, &(struct sk_job_rec){.kind = kind}, NULL, NULL, NULL);
}

static void begin(void) {
    snprintf(path, sizeof path, "/tmp/skate-joblog-XXXXXX");
    int fd = mkstemp(path);
    CHECK(fd >= 0);
    close(fd);
    struct sk_joblog *log = opened();
    CHECK_OK(head(log, NULL));
    for (uint64_t u = 0; u < 3; u++) CHECK_OK(unit(log, u, NULL));
    CHECK_OK(mark(log, SK_JOB_COMMIT));
    CHECK_OK(mark(log, SK_JOB_DONE));
    CHECK_OK(sk_joblog_sync(log, NULL));
    sk_joblog_close(&log);
}

/* Returns the number of records in the file; checks that each is as it was written. */
static uint32_t count(struct sk_joblog *log) {
    static const uint32_t kinds[] = {SK_JOB_HEAD, SK_JOB_UNIT,   SK_JOB_UNIT,
                                     SK_JOB_UNIT, SK_JOB_COMMIT, SK_JOB_DONE};
    struct sk_bytes all = sk_joblog_bytes(log);
    struct sk_job_rec r;
    size_t at = 0;
    uint32_t crc = 0, n = 0;
    for (; sk_job_next(all.p, all.n, &at, &crc, &r); n++) {
        CHECK(n < SK_COUNT(kinds));
        CHECK_EQ(r.kind, kinds[n]);
        if (r.kind == SK_JOB_UNIT) CHECK_EQ(r.unit, n - 1);
        for (uint32_t i = 0; r.kind == SK_JOB_UNIT && i < r.n; i++) {
            struct sk_job_file f;
            sk_job_file(&r, &f);
            CHECK_EQ(f.bytes, 100 + r.unit);
            CHECK(f.final.n == 9 && !memcmp(f.final.p, "a.parquet", 9));
        }
    }
    if (at) CHECK_EQ(at, all.n);
    return n;
}

static size_t load(uint8_t *p, size_t cap) {
    FILE *f = fopen(path, "rb");
    CHECK(f);
    size_t n = fread(p, 1, cap, f);
    fclose(f);
    return n;
}

static void store(const uint8_t *p, size_t n) {
    FILE *f = fopen(path, "wb");
    CHECK(f && fwrite(p, 1, n, f) == n);
    fclose(f);
}

TEST(a_torn_log_gives_what_is_whole_and_goes_on) {
    uint8_t all[4096];
    begin();
    size_t n = load(all, sizeof all);
    uint32_t last = 0;
    for (size_t cut = 0; cut <= n; cut++) {
        store(all, cut);
        struct sk_joblog *log = opened();
        uint32_t k = count(log);
        CHECK(k >= last && k <= last + 1);
        last = k;
        if (k == 3) CHECK_OK(unit(log, 2, NULL)); /* the log continues behind the whole records */
        sk_joblog_close(&log);
        if (k == 3) {
            log = opened();
            CHECK_EQ(count(log), 4);
            CHECK_EQ(sk_joblog_cut(log), 0);
            sk_joblog_close(&log);
        }
    }
    CHECK_EQ(last, 6);
    unlink(path);
}

TEST(a_damaged_log_gives_nothing_that_was_not_written) {
    uint8_t all[4096];
    begin();
    size_t n = load(all, sizeof all);
    for (size_t at = 0; at < n; at++) {
        uint8_t was = all[at];
        all[at] ^= (uint8_t)(1u << test_rand() % 8);
        store(all, n);
        struct sk_joblog *log = NULL;
        struct sk_err err = {0};
        sk_rc rc = sk_joblog_open(path, &log, &err);
        if (at < 16) CHECK_RC(rc, SK_ECORRUPT);
        else {
            CHECK_OK_ERR(rc, &err);
            CHECK(count(log) < 6 && sk_joblog_cut(log) > 0);
            sk_joblog_close(&log);
        }
        all[at] = was;
    }
    unlink(path);
}

TEST(names_that_lead_out_are_refused) {
    static const char *const bad[] = {"",     "/etc/passwd", "..",  "../x", "a/../../x",
                                      "a//b", "a/",          "./a", "a/."};
    for (size_t i = 0; i < SK_COUNT(bad); i++) {
        uint8_t buf[512];
        struct sk_job_file f = {b("run/a"), b(bad[i]), 1, 1};
        struct sk_wr w = sk_wr_init(buf, sizeof buf);
        struct sk_job_rec r = {.kind = SK_JOB_UNIT, .n = 1}, out;
        sk_job_write(&w, &r, NULL, &f);
        CHECK_MSG(!sk_job_read((struct sk_bytes){buf, w.n}, &out), "'%s' was taken", bad[i]);
        f.final = b("k=1/..a.parquet");
        w = sk_wr_init(buf, sizeof buf);
        sk_job_write(&w, &r, NULL, &f);
        CHECK(sk_job_read((struct sk_bytes){buf, w.n}, &out));
    }
}

TEST(a_write_that_fails_ends_the_log_but_not_what_is_in_it) {
    begin();
    for (int nth = 1; nth <= 3; nth++) {
        struct sk_joblog *log = opened();
        struct sk_err err = {0};
        CHECK_OK(sk_joblog_clear(log, NULL));
        CHECK_OK(head(log, NULL));
        CHECK_OK(unit(log, 0, NULL));
        CHECK_OK(sk_fault_set("joblog.write", SK_FAULT_FAIL, nth));
        CHECK_RC(unit(log, 1, &err), SK_ENOSPC);
        sk_fault_clear();
        /* after a failed write the state of the file's end is unknown */
        CHECK_RC(unit(log, 1, &err), SK_EIO);
        sk_joblog_close(&log);
        log = opened();
        CHECK_EQ(count(log), 2);
        CHECK_OK(unit(log, 1, NULL));
        sk_joblog_close(&log);
    }
    unlink(path);
}

TEST(one_process_at_a_time) {
    begin();
    struct sk_joblog *log = opened(), *two = NULL;
    CHECK_RC(sk_joblog_open(path, &two, NULL), SK_EAGAIN);
    sk_joblog_close(&log);
    log = opened();
    sk_joblog_close(&log);
    unlink(path);
}
