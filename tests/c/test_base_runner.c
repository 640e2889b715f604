/* test_base_runner.c - the runner itself: every way in which a test can fail must count as one
 * failure, and leave no process behind. */
#include <errno.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test.h"

static char out[20000];

/* Runs the victim program; returns its exit status, with its stdout in `out`. */
static int victim(const char *args) {
    char cmd[1000];
    snprintf(cmd, sizeof(cmd), "%s %s 2>/dev/null", SK_VICTIM, args);
    FILE *f = popen(cmd, "r");
    CHECK(f);
    size_t n = fread(out, 1, sizeof(out) - 1, f);
    out[n] = 0;
    int status = pclose(f);
    CHECK(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void fails(const char *test, const char *why) {
    CHECK_EQ(victim(test), 1);
    CHECK_STR_HAS(out, "not ok 1 - ");
    CHECK_STR_HAS(out, why);
    CHECK_STR_HAS(out, "\n0 passed, 1 failed\n");
}

TEST(runner_sees_failed_check) {
    fails("check_fails", ": 1 + 1 == 3: 2 v 3");
    fails("rc_fails", "SK_EIO: disk 7 (");
    fails("strings_differ", "\"a\" v \"b\"");
}
TEST(runner_sees_crash) {
    if (test_sanitized()) test_skip("the sanitizer turns the signal into an exit");
    fails("crashes", "killed by signal 11");
}
TEST(runner_sees_exit) { fails("exits", "exit status 3"); }
TEST(runner_sees_hang) { fails("hangs", "past its deadline of"); }
TEST(runner_sees_leak) { fails("leaks", "10 bytes in 1 blocks of tag test"); }
TEST(runner_sees_failure_in_child) { fails("child_fails", "CHECK(false)"); }

/* The sanitizers must be on, and their reports must count as failures. */
TEST(runner_sees_what_a_sanitizer_sees) {
#if defined(__SANITIZE_THREAD__)
    fails("races", "exit status 66");
#elif defined(__SANITIZE_ADDRESS__)
    fails("overruns", "exit status 1");
    fails("overflows", "victim.c");
    fails("loses_malloc", "leak found by LeakSanitizer");
#else
    test_skip("no sanitizer in this build");
#endif
}

TEST(runner_leaves_out_what_is_large) {
    unsetenv("SK_TEST_QUICK");
    CHECK_EQ(victim("-l"), 0);
    CHECK_STR_HAS(out, "\nlarge ");
    setenv("SK_TEST_QUICK", "1", 1);
    CHECK_EQ(victim("-l"), 0);
    CHECK(!strstr(out, "\nlarge "));
    CHECK_STR_HAS(out, "\nhangs ");
    CHECK_EQ(victim("large"), 0); /* asked for by name */
    CHECK_STR_HAS(out, "ok 1 - large");
}

TEST(runner_passes_what_is_good) {
    CHECK_EQ(victim("good leak_excused skips"), 0);
    CHECK_STR_HAS(out, "ok 1 - good");
    CHECK_STR_HAS(out, "SKIP no reason");
    CHECK_STR_HAS(out, "1..3\n3 passed, 0 failed\n");
}

TEST(runner_counts_both) {
    CHECK_EQ(victim("good exits"), 1);
    CHECK_STR_HAS(out, "1..2\n1 passed, 1 failed\n");
}

TEST(runner_many_at_a_time) {
    CHECK_EQ(victim("-j 3 good hangs exits leaks skips crashes"), 1);
    CHECK_STR_HAS(out, " - hangs (");
    CHECK_STR_HAS(out, "past its deadline of");
    CHECK_STR_HAS(out, "exit status 3");
    CHECK_STR_HAS(out, "10 bytes in 1 blocks of tag test");
    CHECK_STR_HAS(out, "SKIP no reason");
    CHECK_STR_HAS(out, "1..6\n2 passed, 4 failed\n");
}

TEST(runner_refuses_nothing_to_do) {
    CHECK_EQ(victim("no_such_test"), 1);
    CHECK_STR_HAS(out, "0 passed, 0 failed\n");
    CHECK_EQ(victim("--nonsense"), 2);
}

TEST(runner_kills_orphans) {
    CHECK_EQ(victim("orphan"), 0);
    const char *at = strstr(out, "# orphan ");
    CHECK(at);
    int pid = atoi(at + 9);
    CHECK_GT(pid, 1);
    /* The process was killed; until init reaps it, it may be a zombie. */
    char path[64], state = '?';
    snprintf(path, sizeof(path), "/proc/%d/stat", pid);
    for (;;) {
        FILE *f = fopen(path, "r");
        if (!f) return;
        int n = fscanf(f, "%*d %*s %c", &state);
        fclose(f);
        if (n != 1 || state == 'Z' || state == 'X') return;
        usleep(1000); /* SIGKILL has been sent; the deadline of the test ends this wait */
    }
}

TEST(runner_removes_directory) {
    CHECK_EQ(victim("dir"), 0);
    char *at = strstr(out, "# dir ");
    CHECK(at);
    at[strcspn(at, "\n")] = 0;
    CHECK(access(at + 6, F_OK) != 0 && errno == ENOENT);
}

TEST(runner_seed_repeats) {
    static char first[sizeof(out)];
    setenv("SK_TEST_SEED", "5", 1);
    CHECK_EQ(victim("random"), 0);
    CHECK_STR_HAS(out, "# seed 5 ");
    char *a = strstr(out, "# random");
    CHECK(a);
    a[strcspn(a, "\n")] = 0;
    strcpy(first, a);
    CHECK_EQ(victim("random"), 0);
    CHECK_STR_HAS(out, first);
    setenv("SK_TEST_SEED", "6", 1);
    CHECK_EQ(victim("random"), 0);
    CHECK(!strstr(out, first));
}
