/* test.h - writing a C test.
 *
 *     TEST(ring_wraps) { CHECK_OK(sk_thing(&t)); CHECK_EQ(t.n, 3); }
 *     TEST_SLOW(ring_soak, 120) { ... }      a deadline of 120 s instead of 60 s
 *     TEST_LARGE(ring_of_many, 60) { ... }   a test that takes more than 0.2 s of CPU time, with
 *                                            a deadline of 60 s; `./dev quick` leaves it out
 *
 * Each test runs in a forked process of its own (and in a process group of its own: its children
 * die with it). It must end before its deadline, and must free all sk_alloc memory (test_may_leak()
 * excuses it). A failed check ends the test at once and prints file:line. Randomness comes from
 * test_rand, which is seeded by SK_TEST_SEED or by chance; the seed is printed. SK_TEST_ROUNDS=n
 * multiplies test_rounds(), for runs that test more. */
#ifndef SK_TEST_H
#define SK_TEST_H

#include <stdio.h>
#include <stdlib.h>

#include "base/base.h"
#include "base/err.h"
#include "base/mem.h"

struct test_case {
    const char *name, *file;
    int line, seconds;
    bool large;
    void (*run)(void);
    struct test_case *next;
};
void test_register(struct test_case *t);

#define TEST_CASE_(name, secs, large)                                                       \
    static void test_run_##name(void);                                                      \
    static struct test_case test_case_##name = {#name,   __FILE__,        __LINE__, (secs), \
                                                (large), test_run_##name, NULL};            \
    __attribute__((constructor)) static void test_register_##name(void) {                   \
        test_register(&test_case_##name);                                                   \
    }                                                                                       \
    static void test_run_##name(void)
#define TEST_SLOW(name, secs) TEST_CASE_(name, secs, false)
#define TEST_LARGE(name, secs) TEST_CASE_(name, secs, true)
/* The deadline only ends a test that hangs and measures nothing: work that takes milliseconds on an
 * idle machine can take seconds on a shared one. */
#define TEST(name) TEST_SLOW(name, 60)

void test_fail(const char *file, int line, const char *fmt, ...) SK_PRINTF(3, 4)
    __attribute__((noreturn));
/* Ends the test, which counts as passed; `why` is printed. */
void test_skip(const char *why) __attribute__((noreturn));
/* Allows this test to end with sk_alloc memory still in use. */
void test_may_leak(void);
/* The seed of this test, which follows from the run's seed and the test's name. */
uint64_t test_seed(void);
/* 64 random bits (base/rand.h). Each test has one stream, which is not thread-safe. */
uint64_t test_rand(void);
uint64_t test_below(uint64_t n); /* uniform in [0, n); n > 0 */
/* `usual` times SK_TEST_ROUNDS; a quarter of it with SK_TEST_QUICK. */
int test_rounds(int usual);
/* Returns the time (sk_now_ns) until which a test should wait for something that must happen: 30 s
 * from now. */
int64_t test_patience(void);
/* Returns the CPU time of this process in ns; other processes on the machine do not change it. */
int64_t test_cpu_ns(void);
bool test_sanitized(void); /* true if built with ASan or TSan: the test should do less */
/* A scratch directory of this test. It is removed with all its content when the test ends, however
 * it ends. */
const char *test_dir(void);
/* Registers a directory to be removed when the test's processes have ended, which a cgroup
 * requires. At most one per test. */
void test_rmdir_last(const char *path);

#define CHECK(x)                                                  \
    do {                                                          \
        if (!(x)) test_fail(__FILE__, __LINE__, "CHECK(%s)", #x); \
    } while (0)

/* CHECK with a message in printf form. */
#define CHECK_MSG(x, ...)                                     \
    do {                                                      \
        if (!(x)) test_fail(__FILE__, __LINE__, __VA_ARGS__); \
    } while (0)

/* Compares integers, enums or pointers, as long long. Floating point values are refused, because
 * they would lose their fractions. */
#define TEST_CMP_(a, op, b)                                                                        \
    do {                                                                                           \
        _Static_assert(_Generic((a), float: 0, double: 0, default: 1) &&                           \
                           _Generic((b), float: 0, double: 0, default: 1),                         \
                       "use CHECK for floating point");                                            \
        long long test_a_ = (long long)(a), test_b_ = (long long)(b);                              \
        if (!(test_a_ op test_b_))                                                                 \
            test_fail(__FILE__, __LINE__, "%s " #op " %s: %lld v %lld", #a, #b, test_a_, test_b_); \
    } while (0)
#define CHECK_EQ(a, b) TEST_CMP_(a, ==, b)
#define CHECK_NE(a, b) TEST_CMP_(a, !=, b)
#define CHECK_LT(a, b) TEST_CMP_(a, <, b)
#define CHECK_LE(a, b) TEST_CMP_(a, <=, b)
#define CHECK_GT(a, b) TEST_CMP_(a, >, b)
#define CHECK_GE(a, b) TEST_CMP_(a, >=, b)

#define CHECK_STR_EQ(a, b)                                                         \
    do {                                                                           \
        const char *test_a_ = (a), *test_b_ = (b);                                 \
        if (!test_a_ || !test_b_ || strcmp(test_a_, test_b_) != 0)                 \
            test_fail(__FILE__, __LINE__, "%s == %s: \"%s\" v \"%s\"", #a, #b,     \
                      test_a_ ? test_a_ : "(null)", test_b_ ? test_b_ : "(null)"); \
    } while (0)
#define CHECK_STR_HAS(text, part)                                                            \
    do {                                                                                     \
        const char *test_a_ = (text), *test_b_ = (part);                                     \
        if (!strstr(test_a_, test_b_))                                                       \
            test_fail(__FILE__, __LINE__, "\"%s\" should contain \"%s\"", test_a_, test_b_); \
    } while (0)
#define CHECK_MEM_EQ(a, b, len)                                                                  \
    do {                                                                                         \
        size_t test_n_ = (size_t)(len);                                                          \
        if (test_n_ && memcmp((a), (b), test_n_) != 0)                                           \
            test_fail(__FILE__, __LINE__, "%s and %s differ within %zu bytes", #a, #b, test_n_); \
    } while (0)

/* Checks a call that returns sk_rc. CHECK_OK_ERR also prints the error's message. */
#define CHECK_RC(expr, want)                                                              \
    do {                                                                                  \
        sk_rc test_rc_ = (expr), test_want_ = (want);                                     \
        if (test_rc_ != test_want_)                                                       \
            test_fail(__FILE__, __LINE__, "%s: %s, want %s", #expr, sk_rc_name(test_rc_), \
                      sk_rc_name(test_want_));                                            \
    } while (0)
#define CHECK_OK(expr) CHECK_RC(expr, SK_OK)
#define CHECK_OK_ERR(expr, errp)                                                             \
    do {                                                                                     \
        sk_rc test_rc_ = (expr);                                                             \
        if (test_rc_ != SK_OK)                                                               \
            test_fail(__FILE__, __LINE__, "%s: %s: %s (%s:%d)", #expr, sk_rc_name(test_rc_), \
                      (errp)->msg, (errp)->file ? (errp)->file : "?", (errp)->line);         \
    } while (0)

#endif
