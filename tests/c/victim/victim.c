/* victim.c - tests that end badly in each way that a test can; test_base_runner.c checks that the
 * runner notices. Not run by ctest. */
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test.h"

TEST(good) { CHECK(true); }
TEST(check_fails) { CHECK_EQ(1 + 1, 3); }
TEST(rc_fails) {
    struct sk_err e;
    CHECK_OK_ERR(SK_ERR(&e, SK_EIO, "disk %d", 7), &e);
}
TEST(strings_differ) { CHECK_STR_EQ("a", "b"); }
TEST(crashes) { raise(SIGSEGV); }
TEST(exits) { exit(3); }
TEST_LARGE(large, 60) {}
TEST_SLOW(hangs, 1) {
    for (;;) pause();
}
TEST(leaks) { (void)!sk_alloc(SK_TAG_TEST, 10); }
TEST(leak_excused) {
    (void)!sk_alloc(SK_TAG_TEST, 10);
    test_may_leak();
}
TEST(skips) { test_skip("no reason"); }
/* A child of the test fails its check; the test itself ignores that. */
TEST(child_fails) {
    pid_t pid = fork();
    if (pid == 0) CHECK(false);
    waitpid(pid, NULL, 0);
}
/* Leaves a process behind; its pid is printed for the checker. */
TEST(orphan) {
    pid_t pid = fork();
    if (pid == 0)
        for (;;) pause();
    printf("# orphan %d\n", (int)pid);
}
TEST(dir) {
    char path[400];
    snprintf(path, sizeof(path), "%s/x", test_dir());
    FILE *f = fopen(path, "w");
    CHECK(f);
    fclose(f);
    printf("# dir %s\n", test_dir());
}
TEST(random) { printf("# random %llu\n", (unsigned long long)test_rand()); }

/* for a bug that only a sanitizer detects */
static int shared;
static void *add(void *arg) {
    for (int i = 0; i < 1000; i++) *(volatile int *)&shared += 1;
    return arg;
}
TEST(races) {
    pthread_t t[2];
    for (int i = 0; i < 2; i++) CHECK_EQ(pthread_create(&t[i], NULL, add, NULL), 0);
    for (int i = 0; i < 2; i++) CHECK_EQ(pthread_join(t[i], NULL), 0);
}
TEST(overruns) {
    volatile unsigned char *p = sk_alloc(SK_TAG_TEST, 10);
    volatile size_t at = 10;
    p[at] = 1;
    sk_free((void *)(uintptr_t)p);
}
TEST(overflows) {
    volatile int x = INT32_MAX;
    x = x + 1;
}
TEST(loses_malloc) {
    void *volatile p = malloc(100);
    p = NULL;
    CHECK(!p);
}
