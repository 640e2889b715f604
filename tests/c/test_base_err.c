/* test_base_err.c - error messages, the wire reader and writer, the clock. */
#include <errno.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log/log.h"
#include "base/wire.h"
#include "test.h"

TEST(err_set_and_prefix) {
    struct sk_err e;
    int line = __LINE__ + 1;
    CHECK_RC(SK_ERR(&e, SK_EFULL, "put %d bytes", 5), SK_EFULL);
    CHECK_EQ(e.code, SK_EFULL);
    CHECK_EQ(e.line, line);
    CHECK_STR_HAS(e.file, "test_base_err.c");
    CHECK_STR_EQ(e.msg, "put 5 bytes");
    sk_err_prefix(&e, "store %s", "x");
    CHECK_STR_EQ(e.msg, "store x: put 5 bytes");
    /* the error's own old message is an argument */
    CHECK_RC(SK_ERR(&e, SK_EIO, "again: %s", e.msg), SK_EIO);
    CHECK_STR_EQ(e.msg, "again: store x: put 5 bytes");
    CHECK_RC(SK_ERR(NULL, SK_EINVAL, "nobody listens"), SK_EINVAL);
    sk_err_prefix(NULL, "x");
}

TEST(err_sys_maps_errno) {
    struct sk_err e;
    errno = ENOENT;
    CHECK_RC(SK_ERR_SYS(&e, "open /x"), SK_EIO);
    CHECK_STR_EQ(e.msg, "open /x: No such file or directory");
    CHECK_EQ(errno, ENOENT);
    errno = ENOSPC;
    CHECK_RC(SK_ERR_SYS(&e, "w"), SK_ENOSPC);
    errno = EDQUOT;
    CHECK_RC(SK_ERR_SYS(&e, "w"), SK_ENOSPC);
    errno = ENOMEM;
    CHECK_RC(SK_ERR_SYS(NULL, "w"), SK_ENOMEM);
}

static bool utf8(const char *s) {
    while (*s) {
        unsigned char c = (unsigned char)*s++;
        int more = c < 0x80 ? 0 : c >= 0xf0 ? 3 : c >= 0xe0 ? 2 : c >= 0xc0 ? 1 : -1;
        if (more < 0) return false;
        while (more--)
            if (((unsigned char)*s++ & 0xc0) != 0x80) return false;
    }
    return true;
}

/* Long texts of 1- to 4-byte characters, shifted so that the cut falls at each place within a
 * character. */
TEST(err_is_cut_between_characters) {
    static const char *const letter[] = {"a", "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x9b\xbc"};
    for (size_t l = 0; l < SK_COUNT(letter); l++)
        for (size_t shift = 0; shift < 5; shift++) {
            char text[3000] = "";
            for (size_t i = 0; i < shift; i++) strcat(text, "b");
            while (strlen(text) < 2000) strcat(text, letter[l]);
            struct sk_err e;
            CHECK_RC(SK_ERR(&e, SK_EINVAL, "%s", text), SK_EINVAL);
            CHECK(utf8(e.msg));
            CHECK_GE(strlen(e.msg), sizeof(e.msg) - 4);
            CHECK(strncmp(e.msg, text, strlen(e.msg)) == 0);
            sk_err_prefix(&e, "\xc3\xa9%zu", shift);
            CHECK(utf8(e.msg));
            errno = EIO;
            CHECK_RC(SK_ERR_SYS(&e, "%s", text), SK_EIO);
            CHECK(utf8(e.msg));
        }
}

TEST(err_names) {
    CHECK_STR_EQ(sk_rc_name(SK_OK), "SK_OK");
    CHECK_STR_EQ(sk_rc_name(SK_ENOMEM), "SK_ENOMEM");
    CHECK_STR_EQ(sk_rc_name(SK_ECORRUPT), "SK_ECORRUPT");
    CHECK_STR_EQ(sk_rc_name(SK_EACTOR), "SK_EACTOR");
    CHECK_STR_EQ(sk_rc_name(SK_ESTALL), "SK_ESTALL");
    CHECK_STR_EQ(sk_rc_name(SK_EEXIST), "SK_EEXIST");
    CHECK_STR_EQ(sk_rc_name(SK_EUNAVAIL), "SK_EUNAVAIL");
    CHECK_STR_EQ(sk_rc_name(SK_EPENDING), "SK_EPENDING");
    CHECK_STR_EQ(sk_rc_name(-99), "SK_E?");
    CHECK_STR_EQ(sk_rc_name(1), "SK_E?");
}

TEST(assert_aborts_and_says_where) {
    int fd[2];
    CHECK_EQ(pipe(fd), 0);
    pid_t pid = fork();
    if (pid == 0) {
        dup2(fd[1], STDERR_FILENO);
        unsetenv("SKATE_ASSERT_LOG");
        sk_log(SK_LOG_WARN, "before_the_fall n=%d", 3); /* off, but kept */
        SK_ASSERT(1 + 1 == 3);
        _exit(0);
    }
    close(fd[1]);
    char text[2000];
    size_t n = 0;
    for (ssize_t r; (r = read(fd[0], text + n, sizeof(text) - 1 - n)) > 0;) n += (size_t)r;
    text[n] = 0;
    close(fd[0]);
    int status;
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    CHECK_STR_HAS(text, "assertion failed: 1 + 1 == 3 at ");
    CHECK_STR_HAS(text, "test_base_err.c:");
    CHECK_STR_HAS(text, "before_the_fall n=3");
}

TEST(assert_also_writes_to_the_file_of_the_environment) {
    char path[] = "/tmp/skate-assert-XXXXXX", text[200] = {0};
    int fd = mkstemp(path);
    CHECK(fd >= 0);
    pid_t pid = fork();
    if (pid == 0) {
        setenv("SKATE_ASSERT_LOG", path, 1);
        close(STDERR_FILENO);
        SK_ASSERT(2 + 2 == 5);
        _exit(0);
    }
    int status;
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    CHECK(read(fd, text, sizeof(text) - 1) > 0);
    CHECK_STR_HAS(text, "assertion failed: 2 + 2 == 5 at ");
    close(fd);
    unlink(path);
}

/* ---- wire.h ---------------------------------------------------------------------------------- */

enum { F_U8, F_U32, F_U64, F_I64, F_BYTES, F_N };
struct field {
    int kind;
    uint64_t v;
    uint8_t bytes[40];
    size_t n;
};

static void write_field(struct sk_wr *w, const struct field *f) {
    switch (f->kind) {
    case F_U8: sk_wr_u8(w, (uint8_t)f->v); break;
    case F_U32: sk_wr_u32(w, (uint32_t)f->v); break;
    case F_U64: sk_wr_u64(w, f->v); break;
    case F_I64: sk_wr_i64(w, (int64_t)f->v); break;
    default: sk_wr_bytes(w, f->bytes, f->n); break;
    }
}

static bool same_field(struct sk_rd *r, const struct field *f) {
    switch (f->kind) {
    case F_U8: return sk_rd_u8(r) == (uint8_t)f->v;
    case F_U32: return sk_rd_u32(r) == (uint32_t)f->v;
    case F_U64: return sk_rd_u64(r) == f->v;
    case F_I64: return sk_rd_i64(r) == (int64_t)f->v;
    default: {
        struct sk_bytes b = sk_rd_bytes(r);
        return b.n == f->n && memcmp(b.p, f->bytes, b.n) == 0;
    }
    }
}

TEST(wire_round_trip_and_every_truncation) {
    for (int round = 0; round < test_rounds(300); round++) {
        struct field f[12];
        int n = 1 + (int)test_below(12);
        uint8_t buf[1024] __attribute__((aligned(8)));
        struct sk_wr measure = sk_wr_init(NULL, 0), w = sk_wr_init(buf, sizeof(buf));
        for (int i = 0; i < n; i++) {
            f[i] = (struct field){.kind = (int)test_below(F_N),
                                  .v = test_rand(),
                                  .n = (size_t)test_below(sizeof(f[i].bytes))};
            for (size_t k = 0; k < f[i].n; k++) f[i].bytes[k] = (uint8_t)test_rand();
            write_field(&measure, &f[i]);
            write_field(&w, &f[i]);
        }
        CHECK(sk_wr_ok(&w) && !sk_wr_ok(&measure));
        CHECK_EQ(measure.n, w.n); /* a dry run measures */
        struct sk_rd r = sk_rd_init(buf, w.n);
        for (int i = 0; i < n; i++) CHECK(same_field(&r, &f[i]));
        CHECK(sk_rd_ok(&r) && sk_rd_end(&r));
        for (size_t cut = 0; cut < w.n; cut++) {
            /* exact-size copies, so that ASan sees an overrun */
            uint8_t *part = sk_memdup(SK_TAG_TEST, buf, cut);
            struct sk_rd short_r = sk_rd_init(part, cut);
            for (int i = 0; i < n; i++) (void)same_field(&short_r, &f[i]);
            CHECK(!sk_rd_ok(&short_r));
            CHECK_EQ(sk_rd_u64(&short_r), 0); /* after an error the reader returns only zeros */
            sk_free(part);
        }
        struct sk_wr tight = sk_wr_init(buf, w.n - 1);
        for (int i = 0; i < n; i++) write_field(&tight, &f[i]);
        CHECK(!sk_wr_ok(&tight));
    }
}

TEST(wire_garbage_is_survived) {
    for (int round = 0; round < test_rounds(5000); round++) {
        size_t n = (size_t)test_below(64);
        uint8_t *p = sk_alloc(SK_TAG_TEST, n);
        for (size_t i = 0; i < n; i++)
            p[i] = test_below(3) ? (uint8_t)test_below(4) : (uint8_t)test_rand();
        struct sk_rd r = sk_rd_init(p, n);
        while (!sk_rd_end(&r) && sk_rd_ok(&r)) {
            struct sk_bytes b;
            switch (test_below(4)) {
            case 0: sk_rd_u8(&r); break;
            case 1: sk_rd_u32(&r); break;
            case 2: sk_rd_u64(&r); break;
            default:
                b = sk_rd_bytes(&r);
                if (sk_rd_ok(&r))
                    CHECK((const uint8_t *)b.p >= p && (const uint8_t *)b.p + b.n <= p + n);
                else CHECK_EQ(b.n, 0);
            }
        }
        sk_free(p);
    }
}

/* ---- clock.h --------------------------------------------------------------------------------- */

TEST(clock_goes_forward_and_can_be_virtual) {
    int64_t a = sk_now_ns(), b = sk_now_ns();
    CHECK(a > 0 && b >= a);
    CHECK_GT(sk_wall_ns(), INT64_C(1600000000) * SK_SEC);
    CHECK_GE(sk_thread_cpu_ns(), 0);
    static _Atomic int64_t now = 42;
    sk_clock_virtual(&now);
    CHECK_EQ(sk_now_ns(), 42);
    CHECK_EQ(sk_deadline_ns(8), 50);
    CHECK_EQ(sk_deadline_ns(-1), INT64_MAX);
    CHECK_EQ(sk_deadline_ns(INT64_MAX), INT64_MAX); /* no overflow */
    now = 43;
    CHECK_EQ(sk_now_ns(), 43);
    sk_clock_virtual(NULL);
    CHECK_GE(sk_now_ns(), b);
}
