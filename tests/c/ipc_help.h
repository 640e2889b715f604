/* ipc_help.h - shared by the ipc tests: shared memory, messages whose bytes are computed from their
 * number, and a count of open descriptors. */
#ifndef SK_TEST_IPC_HELP_H
#define SK_TEST_IPC_HELP_H

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fault.h"
#include "ipc/ipc.h"
#include "test.h"

SK_UNUSED static void *share(size_t n) {
    void *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(p != MAP_FAILED);
    return p;
}

SK_UNUSED static int count_fds(void) {
    DIR *d = opendir("/proc/self/fd");
    CHECK(d != NULL);
    int n = 0;
    while (readdir(d)) n++;
    closedir(d);
    return n;
}

SK_UNUSED static int wait_exit(pid_t pid) { /* returns the status that waitpid gives */
    int st;
    while (waitpid(pid, &st, 0) < 0) CHECK_EQ(errno, EINTR);
    return st;
}

/* Waits until fd is readable, at its end or broken; false: it was not before the deadline. */
SK_UNUSED static bool ready_by(int fd, int64_t deadline_ns) {
    for (;;) {
        int64_t left = deadline_ns - sk_now_ns();
        struct pollfd p = {.fd = fd, .events = POLLIN};
        int r = poll(&p, 1, left > 0 ? (int)(left / SK_MS + 1) : 0);
        if (r > 0) return true;
        if (r == 0) return false;
        CHECK_EQ(errno, EINTR);
    }
}

/* A cheap random number, for threads and child processes, which must not use test_rand (one stream
 * for each test). */
SK_UNUSED static uint64_t mix(uint64_t x) {
    x ^= x >> 31;
    x *= UINT64_C(0x9e3779b97f4a7c15);
    x ^= x >> 27;
    x *= UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 33);
}

/* Returns the length of message i of a stream, 0 to max and often small. Every byte of the message
 * is computed from i and its place. */
SK_UNUSED static size_t msg_len(uint64_t seed, uint64_t i, size_t max) {
    uint64_t r = mix(seed ^ i * 2654435761u);
    unsigned bits = (unsigned)(r % 64) % (unsigned)(65 - __builtin_clzll(max));
    size_t n = (size_t)((r >> 8) & ((UINT64_C(1) << bits) - 1));
    if (r >> 56 == 0) n = max;
    return n > max ? max : n;
}
SK_UNUSED static void msg_fill(void *p, size_t len, uint64_t i) {
    uint8_t *b = p;
    size_t k = 0;
    for (uint64_t w; k + 8 <= len; k += 8) w = i * 0x9e3779b97f4a7c15u + k, memcpy(b + k, &w, 8);
    for (; k < len; k++) b[k] = (uint8_t)(i + k);
}
SK_UNUSED static bool msg_true(const void *p, size_t len, uint64_t i) {
    const uint8_t *b = p;
    size_t k = 0;
    for (uint64_t w; k + 8 <= len; k += 8) {
        memcpy(&w, b + k, 8);
        if (w != i * 0x9e3779b97f4a7c15u + k) return false;
    }
    for (; k < len; k++)
        if (b[k] != (uint8_t)(i + k)) return false;
    return true;
}

#endif
