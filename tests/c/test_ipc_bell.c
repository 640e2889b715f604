/* test_ipc_bell.c - futex and bell: no ring is lost, no time is wasted, no system call while the
 * sleeper is awake. */
#include <linux/futex.h>
#include <linux/seccomp.h>
#include <pthread.h>

#include "ipc_help.h"

TEST(futex_returns_at_once_when_the_word_moved) {
    _Atomic uint32_t w = 5;
    CHECK_OK(sk_futex_wait(&w, 4, INT64_MAX));
    CHECK_OK(sk_futex_wait(&w, 4, 0));
    sk_futex_wake(&w, 1);
}

TEST(futex_deadline) {
    _Atomic uint32_t w = 5;
    int64_t t = sk_now_ns();
    CHECK_RC(sk_futex_wait(&w, 5, t + 20 * SK_MS), SK_ETIMEOUT);
    CHECK_GE(sk_now_ns() - t, 20 * SK_MS);
    CHECK_RC(sk_futex_wait(&w, 5, t), SK_ETIMEOUT); /* past */
    CHECK_RC(sk_futex_wait(&w, 5, -1), SK_ETIMEOUT);
    CHECK_RC(sk_futex_wait(&w, 5, INT64_MIN), SK_ETIMEOUT);
}

TEST(bell_deadline_and_spin) {
    struct sk_bell b = {0};
    const int64_t spins[] = {0, 5 * SK_MS, SK_SEC};
    for (size_t i = 0; i < SK_COUNT(spins); i++) {
        int64_t t = sk_now_ns();
        CHECK_RC(sk_bell_wait(&b, 0, spins[i], t + 10 * SK_MS), SK_ETIMEOUT);
        CHECK_GE(sk_now_ns() - t, 10 * SK_MS);
        CHECK_EQ(atomic_load(&b.asleep), 0);
    }
    sk_bell_ring(&b);
    CHECK_EQ(sk_bell_seq(&b), 1);
    /* the bell was rung before: no wait, whether the deadline is over or not */
    CHECK_OK(sk_bell_wait(&b, 0, 0, 0));
    CHECK_OK(sk_bell_wait(&b, 0, SK_SEC, 0));
    CHECK_RC(sk_bell_wait(&b, 1, 0, 0), SK_ETIMEOUT);
}

/* Rings the bell in a process that may only read, write and exit (seccomp), so that a wake-up call
 * would kill it. */
static int ring_without_syscalls(struct sk_bell *b) {
    pid_t pid = fork();
    if (pid == 0) {
        if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) != 0) _exit(77);
        for (int i = 0; i < 1000; i++) sk_bell_ring(b);
        syscall(SYS_exit, 0);
    }
    return wait_exit(pid);
}

TEST(bell_makes_no_system_call_while_awake) {
    if (test_sanitized()) test_skip("the sanitizer makes system calls of its own");
    struct sk_bell *b = share(sizeof *b);
    int st = ring_without_syscalls(b);
    if (WIFEXITED(st) && WEXITSTATUS(st) == 77) test_skip("no seccomp here");
    CHECK_EQ(st, 0);
    CHECK_EQ(sk_bell_seq(b), 1000);
    /* After a real sleep it is awake again, too. */
    CHECK_RC(sk_bell_wait(b, 1000, 0, sk_now_ns() + SK_MS), SK_ETIMEOUT);
    CHECK_EQ(ring_without_syscalls(b), 0);
    /* The test itself works: with a sleeper, the same process is killed. */
    atomic_store(&b->asleep, 2000 * 2 + 1);
    CHECK(WIFSIGNALED(ring_without_syscalls(b)));
}

TEST(bell_clears_old_tokens_only) {
    struct sk_bell b = {.seq = 10};
    /* the sleeper sleeps since ring 10: this ring, 11, ends that sleep */
    atomic_store(&b.asleep, 10 * 2 + 1);
    sk_bell_ring(&b);
    CHECK_EQ(atomic_load(&b.asleep), 0);
    /* the sleeper knows ring 12 already: the late ringer of 12 must not clear its flag */
    atomic_store(&b.asleep, 12 * 2 + 1);
    sk_bell_ring(&b);
    CHECK_EQ(atomic_load(&b.asleep), 12 * 2 + 1);
    sk_bell_ring(&b);
    CHECK_EQ(atomic_load(&b.asleep), 0);
    atomic_store(&b.seq, UINT32_MAX); /* across the wrap */
    atomic_store(&b.asleep, UINT32_MAX * 2u + 1);
    sk_bell_ring(&b);
    CHECK_EQ(atomic_load(&b.asleep), 0);
}

/* ---- nothing is lost ------------------------------------------------------------------------- */

/* Waits for a ring. A lost wake-up shows as a wait that ends only at its deadline, although the
 * bell was rung. */
static void wait_heard(struct sk_bell *b, uint32_t seen, int64_t spin_ns) {
    int64_t deadline = test_patience();
    CHECK_OK(sk_bell_wait(b, seen, spin_ns, deadline));
    CHECK_LT(sk_now_ns(), deadline);
}

struct game {
    struct sk_bell bell[2];
    _Atomic uint64_t count[2]; /* [0]: work added by ringers, [1]: work that the sleeper has seen */
    uint64_t goal;
    uint64_t seed;
};

/* Plays a ringer: it adds work, rings, and after every few rings waits until the sleeper has caught
 * up, so that the sleeper really sleeps. */
static void play_ringer(struct game *g, uint64_t n, uint64_t seed) {
    for (uint64_t i = 0; i < n; i++) {
        atomic_fetch_add(&g->count[0], 1);
        sk_bell_ring(&g->bell[0]);
        if (mix(seed + i) % 8) continue;
        for (;;) {
            uint32_t seen = sk_bell_seq(&g->bell[1]);
            if (atomic_load(&g->count[1]) + 4 >= atomic_load(&g->count[0])) break;
            int64_t spin = mix(seed ^ i) % 2 ? 0 : 3000;
            wait_heard(&g->bell[1], seen, spin);
        }
    }
}
static void play_sleeper(struct game *g) {
    for (uint64_t heard = 0; heard < g->goal;) {
        uint32_t seen = sk_bell_seq(&g->bell[0]);
        uint64_t now = atomic_load(&g->count[0]);
        if (now != heard) {
            heard = now;
            atomic_store(&g->count[1], heard);
            sk_bell_ring(&g->bell[1]);
            continue;
        }
        int64_t spin = mix(g->seed + heard) % 3 ? 0 : (int64_t)(mix(heard) % 4000);
        wait_heard(&g->bell[0], seen, spin);
    }
}

static void *ringer_thread(void *arg) {
    struct game *g = arg;
    play_ringer(g, g->goal, g->seed);
    return NULL;
}

TEST_SLOW(bell_loses_nothing_between_threads, 300) {
    struct game g = {.goal = (uint64_t)test_rounds(test_sanitized() ? 20000 : 100000),
                     .seed = test_rand()};
    pthread_t th;
    CHECK_EQ(pthread_create(&th, NULL, ringer_thread, &g), 0);
    play_sleeper(&g);
    CHECK_EQ(pthread_join(th, NULL), 0);
    CHECK_EQ(atomic_load(&g.count[1]), g.goal);
}

TEST_SLOW(bell_loses_nothing_of_many_processes, 300) {
    enum { RINGERS = 4 };
    struct game *g = share(sizeof *g);
    uint64_t each = (uint64_t)test_rounds(test_sanitized() ? 4000 : 20000);
    g->seed = test_rand();
    g->goal = each * RINGERS;
    for (uint64_t i = 0; i < RINGERS; i++)
        if (fork() == 0) {
            for (uint64_t k = 0; k < each; k++) {
                /* the ringers do not wait for the sleeper, since they are four */
                atomic_fetch_add(&g->count[0], 1);
                sk_bell_ring(&g->bell[0]);
                uint64_t idle = mix(g->seed + i * each + k) % 16 ? 0 : mix(k) % 3000;
                for (volatile uint64_t s = 0; s < idle; s++) continue;
            }
            _exit(0);
        }
    play_sleeper(g);
    for (int i = 0; i < RINGERS; i++) CHECK_EQ(wait_exit(-1), 0);
}

static void idle(int64_t ns) {
    for (int64_t end = sk_now_ns() + ns; sk_now_ns() < end;) continue;
}

/* The bug of a plain flag: a ringer that is delayed between its add and its clearing of the flag
 * clears the flag of a later sleep that is about to begin, and the next ringer wakes no process.
 * One ringer is slowed down at that point and the sleeper just before the system call; the other
 * ringer rings only after its last ring was heard, so one lost wake-up stops the test (with the bug
 * within a few hundred rounds). */
TEST_LARGE(bell_delayed_ringer_hides_no_sleeper, 300) {
    struct game *g = share(sizeof *g);
    pid_t slow = fork();
    if (slow == 0) {
        CHECK_OK(sk_fault_delay("bell.before_clear", 100, 0));
        for (;;) {
            sk_bell_ring(&g->bell[0]);
            idle(200000); /* otherwise its next ring would hide that the last one was lost */
        }
    }
    pid_t fast = fork();
    if (fast == 0)
        for (;;) {
            uint32_t seen = sk_bell_seq(&g->bell[1]);
            uint64_t rung = atomic_fetch_add(&g->count[0], 1) + 1;
            sk_bell_ring(&g->bell[0]);
            while (atomic_load(&g->count[1]) < rung) {
                (void)sk_bell_wait(&g->bell[1], seen, 1000, INT64_MAX);
                seen = sk_bell_seq(&g->bell[1]);
            }
            idle(200000);
        }
    CHECK_OK(sk_fault_delay("bell.before_sleep", 30, 0));
    uint64_t goal = (uint64_t)test_rounds(700);
    for (uint64_t heard = 0; heard < goal;) {
        uint32_t seen = sk_bell_seq(&g->bell[0]);
        uint64_t now = atomic_load(&g->count[0]);
        if (now == heard) {
            wait_heard(&g->bell[0], seen, 0);
            continue;
        }
        heard = now;
        atomic_store(&g->count[1], heard);
        sk_bell_ring(&g->bell[1]);
    }
    for (int i = 0; i < 2; i++) kill(i ? slow : fast, SIGKILL);
    for (int i = 0; i < 2; i++) wait_exit(-1);
}
