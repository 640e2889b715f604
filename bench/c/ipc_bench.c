/* ipc_bench.c - what the ipc layer costs: ipc_bench [ring|trip|stream|seg|fork] (all when nothing
 * is named).
 *
 *   ring    reserve+commit+peek+pop in one thread, ns a message
 *   trip    round trip of ring + bell between two processes, spinning and sleeping
 *   stream  messages a second from one process to another, bodies of 16, 64, 1024 bytes
 *   seg     GB/s of memcpy into fresh pages of a 1 GiB segment by method, with 1 and 2 threads, and
 *           what each way of fetching pages costs
 *   fork    start of a fork server (exec of this program), spawn to STARTED, spawn to running, stop
 * 2-core AMD EPYC VM, Linux 6.18, gcc 12 -O2: ring 8-10 ns a message, ring of a bell 2 ns, round
 * trip 0.15-0.3 us spinning and 40 us sleeping (5 us when both run on one core), 10-38 M small
 * messages/s, start 0.3-0.7 ms, a worker spawned, ended and reaped 0.1-0.17 ms. Prints "name value
 * unit" lines. Not a test: nothing here fails on a number. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "ipc/ipc.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

static struct sk_err err;
#define MUST(x)                                                              \
    do {                                                                     \
        if ((x) != SK_OK) fprintf(stderr, "%s: %s\n", #x, err.msg), exit(1); \
    } while (0)

static void out(const char *name, double v, const char *unit) {
    printf("%-44s %12.2f %s\n", name, v, unit);
    fflush(stdout);
}

static double secs(int64_t from) { return (double)(sk_now_ns() - from) * 1e-9; }

/* ---- ring, trip, stream ---------------------------------------------------------------------- */

#define RING ((size_t)256 << 10)

struct side {
    struct sk_bell bell;
    uint8_t ring[192 + ((size_t)256 << 10)] __attribute__((aligned(64)));
};
struct both {
    struct side a, b; /* what a process listens to */
};

static struct both *shared(void) {
    struct both *s =
        mmap(NULL, sizeof *s, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (s == MAP_FAILED) perror("mmap"), exit(1);
    struct sk_ring r;
    sk_ring_create(&r, s->a.ring, RING);
    sk_ring_create(&r, s->b.ring, RING);
    return s;
}

static struct sk_ring attach(struct side *s) {
    struct sk_ring r;
    MUST(sk_ring_attach(&r, s->ring, RING, &err));
    return r;
}

static void bench_ring(void) {
    struct both *s = shared();
    struct sk_ring p = attach(&s->a), c = attach(&s->a);
    enum { N = 20000000 };
    uint64_t sum = 0;
    int64_t t = sk_now_ns();
    for (uint64_t i = 0; i < N; i++) {
        uint64_t *m = sk_ring_reserve(&p, 16);
        m[0] = i;
        sk_ring_commit(&p, 16);
        size_t len;
        const uint64_t *q = sk_ring_peek(&c, &len);
        sum += q[0];
        sk_ring_pop(&c);
    }
    if (sum != (uint64_t)N * (N - 1) / 2) exit(2);
    out("ring/reserve+commit+peek+pop", secs(t) * 1e9 / N, "ns");
    enum { BATCH = 64 };
    int64_t prod = 0, cons = 0;
    for (int i = 0; i < N / 100 / BATCH; i++) {
        int64_t t0 = sk_now_ns();
        for (int k = 0; k < BATCH; k++) {
            *(int *)sk_ring_reserve(&p, 16) = k;
            sk_ring_commit(&p, 16);
        }
        int64_t t1 = sk_now_ns();
        for (size_t len, k = 0; k < BATCH; k++) {
            sum += *(const uint32_t *)sk_ring_peek(&c, &len);
            sk_ring_pop(&c);
        }
        prod += t1 - t0;
        cons += sk_now_ns() - t1;
    }
    out("ring/reserve+commit", (double)prod * 100 / N, "ns");
    out("ring/peek+pop", (double)cons * 100 / N, "ns");
    t = sk_now_ns();
    for (int i = 0; i < N; i++) sk_bell_ring(&s->a.bell);
    out("bell/ring, sleeper awake", secs(t) * 1e9 / N, "ns");
    munmap(s, sizeof *s);
}

static void put(struct sk_ring *r, struct sk_bell *b, const void *p, size_t n) {
    void *m = sk_ring_reserve(r, n);
    if (!m) exit(3);
    memcpy(m, p, n);
    sk_ring_commit(r, n);
    sk_bell_ring(b);
}

static uint64_t take(struct sk_ring *r, struct sk_bell *b, int64_t spin_ns) {
    for (;;) {
        uint32_t seen = sk_bell_seq(b);
        size_t len;
        const uint64_t *m = sk_ring_peek(r, &len);
        if (m) {
            uint64_t v = m[0];
            sk_ring_pop(r);
            return v;
        }
        (void)sk_bell_wait(b, seen, spin_ns, INT64_MAX);
    }
}

static void trip(const char *name, int64_t spin_ns, int n) {
    struct both *s = shared();
    pid_t pid = fork();
    if (pid == 0) {
        struct sk_ring in = attach(&s->b), back = attach(&s->a);
        for (uint64_t v = 0; v != UINT64_MAX;) {
            v = take(&in, &s->b.bell, spin_ns);
            put(&back, &s->a.bell, &v, 8);
        }
        _exit(0);
    }
    struct sk_ring to = attach(&s->b), in = attach(&s->a);
    uint64_t v = 0;
    int64_t t = 0;
    for (int i = -n / 10; i < n; i++) {
        if (i == 0) t = sk_now_ns();
        put(&to, &s->b.bell, &v, 8);
        (void)take(&in, &s->a.bell, spin_ns);
    }
    out(name, secs(t) * 1e6 / n, "us");
    v = UINT64_MAX;
    put(&to, &s->b.bell, &v, 8);
    waitpid(pid, NULL, 0);
    munmap(s, sizeof *s);
}

static void bench_trip(void) {
    trip("trip/spin 50 us", 50000, 500000);
    trip("trip/spin 5 us", 5000, 200000);
    trip("trip/sleep", 0, 100000);
}

static void stream(size_t len, uint64_t n) {
    struct both *s = shared();
    pid_t pid = fork();
    if (pid == 0) {
        struct sk_ring in = attach(&s->a);
        for (uint64_t i = 0; i < n;) {
            uint32_t seen = sk_bell_seq(&s->a.bell);
            size_t k;
            const uint64_t *m;
            while ((m = sk_ring_peek(&in, &k))) {
                if (m[0] != i++) _exit(1);
                sk_ring_pop(&in);
                if ((i & 63) == 0) sk_bell_ring(&s->b.bell);
            }
            sk_bell_ring(&s->b.bell);
            if (i < n) (void)sk_bell_wait(&s->a.bell, seen, 20000, INT64_MAX);
        }
        _exit(0);
    }
    struct sk_ring to = attach(&s->a);
    int64_t t = sk_now_ns();
    for (uint64_t i = 0; i < n; i++) {
        uint64_t *m;
        for (;;) {
            uint32_t seen = sk_bell_seq(&s->b.bell);
            if ((m = sk_ring_reserve(&to, len))) break;
            (void)sk_bell_wait(&s->b.bell, seen, 20000, INT64_MAX);
        }
        memset(m, 0, len);
        m[0] = i;
        sk_ring_commit(&to, len);
        sk_bell_ring(&s->a.bell);
    }
    int st;
    waitpid(pid, &st, 0);
    if (st) exit(4);
    char name[64];
    snprintf(name, sizeof name, "stream/%zu bytes", len);
    out(name, (double)n / secs(t) * 1e-6, "M messages/s");
    munmap(s, sizeof *s);
}

static void bench_stream(void) {
    stream(16, 20000000);
    stream(64, 10000000);
    stream(1024, 2000000);
}

/* ---- seg ------------------------------------------------------------------------------------- */

#define GIB ((size_t)1 << 30)
enum how { FAULT, FAULT_HUGE, FALLOCATE, POPULATE, WARM, REUSE, N_HOW };
static const char *const how_name[N_HOW] = {"4 KiB faults", "huge=true faults",
                                            "fallocate",    "MADV_POPULATE_WRITE",
                                            "sk_seg_warm",  "warm pages"};

struct fill {
    struct sk_seg *s;
    size_t off, len;
    const uint8_t *src; /* 16 MiB */
    enum how how;
    double prep_s, copy_s;
    pthread_barrier_t *go;
};

static void *fill(void *arg) {
    struct fill *f = arg;
    enum { SRC = 16 << 20 };
    pthread_barrier_wait(f->go);
    int64_t t = sk_now_ns();
    if (f->how == FALLOCATE && fallocate(f->s->fd, 0, (off_t)f->off, (off_t)f->len) != 0)
        perror("fallocate");
    if (f->how == POPULATE && madvise(f->s->base + f->off, f->len, MADV_POPULATE_WRITE) != 0)
        perror("populate");
    if (f->how == WARM && sk_seg_warm(f->s, f->off, f->len) != f->len)
        fprintf(stderr, "warm: refused\n");
    f->prep_s = secs(t);
    t = sk_now_ns();
    for (size_t at = 0; at < f->len; at += SRC) memcpy(f->s->base + f->off + at, f->src, SRC);
    f->copy_s = secs(t);
    return NULL;
}

static void seg_case(enum how how, int n_threads) {
    uint8_t *src = malloc(16 << 20);
    memset(src, 1, 16 << 20);
    double best = 1e9, prep = 0, copy = 0, first = 0;
    for (int round = 0; round < 3; round++) {
        struct sk_seg s;
        MUST(sk_seg_create(&s, "bench", GIB, how == FAULT_HUGE || how == WARM, &err));
        if (how == REUSE) memset(s.base, 1, GIB);
        pthread_barrier_t go;
        pthread_barrier_init(&go, NULL, (unsigned)n_threads + 1);
        struct fill f[2];
        pthread_t th[2];
        for (int i = 0; i < n_threads; i++) {
            size_t len = GIB / (size_t)n_threads;
            f[i] = (struct fill){
                .s = &s, .off = len * (size_t)i, .len = len, .src = src, .how = how, .go = &go};
            pthread_create(&th[i], NULL, fill, &f[i]);
        }
        pthread_barrier_wait(&go);
        int64_t t = sk_now_ns();
        for (int i = 0; i < n_threads; i++) pthread_join(th[i], NULL);
        double all = secs(t);
        if (round == 0) first = all;
        if (all < best) best = all, prep = f[0].prep_s, copy = f[0].copy_s;
        sk_seg_close(&s);
    }
    char name[80];
    snprintf(name, sizeof name, "seg/%s, %d thread%s", how_name[how], n_threads,
             n_threads > 1 ? "s" : "");
    printf("%-44s %8.2f GB/s  (best of 3; fetch %.3f s, copy %.3f s; first round %.2f GB/s)\n",
           name, (double)GIB / best * 1e-9, prep, copy, (double)GIB / first * 1e-9);
    fflush(stdout);
    free(src);
}

static void bench_seg(void) {
    for (int n = 1; n <= 2; n++)
        for (int h = 0; h < N_HOW; h++) seg_case((enum how)h, n);
    /* What a reader in another process pays to map what is there already. */
    for (int h = 0; h < 2; h++) {
        struct sk_seg s;
        MUST(sk_seg_create(&s, "bench", GIB, true, &err));
        if (h) (void)sk_seg_warm(&s, 0, GIB);
        memset(s.base, 1, GIB);
        fflush(stdout);
        pid_t pid = fork();
        if (pid == 0) {
            struct sk_seg r;
            MUST(sk_seg_attach(&r, dup(s.fd), GIB, true, &err));
            uint64_t sum = 0;
            int64_t t = sk_now_ns();
            for (size_t i = 0; i < GIB; i += 64) sum += r.base[i];
            double first = secs(t);
            t = sk_now_ns();
            for (size_t i = 0; i < GIB; i += 64) sum += r.base[i];
            printf("%-44s %8.3f s first, %.3f s again (%llu)\n",
                   h ? "seg/read elsewhere, huge pages" : "seg/read elsewhere, 4 KiB pages", first,
                   secs(t), (unsigned long long)sum);
            fflush(stdout);
            _exit(0);
        }
        waitpid(pid, NULL, 0);
        int64_t t = sk_now_ns();
        MUST(sk_seg_punch(&s, 0, GIB, &err));
        out(h ? "seg/punch 1 GiB, huge pages" : "seg/punch 1 GiB, 4 KiB pages", secs(t) * 1e3,
            "ms");
        sk_seg_close(&s);
    }
    struct sk_seg s;
    MUST(sk_seg_create(&s, "bench", (size_t)64 << 20, true, &err));
    (void)sk_seg_warm(&s, 0, 2 << 20);
    int64_t t = sk_now_ns();
    (void)sk_seg_warm(&s, 2 << 20, 2 << 20);
    out("seg/sk_seg_warm of 2 MiB, cold", secs(t) * 1e6, "us");
    t = sk_now_ns();
    (void)sk_seg_warm(&s, 2 << 20, 2 << 20);
    out("seg/sk_seg_warm of 2 MiB, huge already", secs(t) * 1e6, "us");
    memset(s.base + (4 << 20), 1, 2 << 20);
    t = sk_now_ns();
    (void)sk_seg_warm(&s, 4 << 20, 2 << 20);
    out("seg/sk_seg_warm of 2 MiB, full of 4 KiB pages", secs(t) * 1e6, "us");
    sk_seg_close(&s);
}

/* ---- fork ------------------------------------------------------------------------------------ */

static struct sk_fork_report next(struct sk_forksrv *f) {
    struct sk_fork_report r;
    for (;;) {
        sk_rc rc = sk_forksrv_next(f, &r, &err);
        if (rc == SK_OK) return r;
        if (rc != SK_EAGAIN) MUST(rc);
        struct pollfd p = {.fd = f->sock, .events = POLLIN};
        (void)poll(&p, 1, -1);
    }
}

static void bench_fork(const char *self) {
    char *argv[] = {(char *)(uintptr_t)self, NULL};
    struct sk_forksrv f = SK_FORKSRV_EMPTY;
    int64_t t = sk_now_ns();
    MUST(sk_forksrv_start(&f, argv, NULL, NULL, 0, &err));
    out("fork/start returns", secs(t) * 1e6, "us");
    MUST(sk_forksrv_spawn(&f, 1, &err));
    (void)next(&f);
    out("fork/start to first worker STARTED", secs(t) * 1e6, "us");
    enum { N = 200 };
    t = sk_now_ns();
    for (uint32_t i = 0; i < N; i++) MUST(sk_forksrv_spawn(&f, 2 + i, &err));
    for (int started = 0, ended = 0; started < N || ended < N;) {
        struct sk_fork_report r = next(&f);
        started += r.kind == SK_FORK_STARTED;
        ended += r.kind == SK_FORK_ENDED && r.worker != 1;
    }
    out("fork/spawn, run, exit and reap", secs(t) * 1e6 / N, "us");
    for (uint32_t i = 0; i < 50; i++) MUST(sk_forksrv_spawn(&f, 1, &err));
    for (int i = 0; i < 50; i++) (void)next(&f);
    t = sk_now_ns();
    sk_forksrv_stop(&f);
    out("fork/stop with 51 workers", secs(t) * 1e6, "us");
}

int main(int argc, char **argv) {
    const char *fd = getenv("SKATE_FORK_FD");
    if (fd) {
        uint32_t w = sk_forksrv_run(atoi(fd), NULL);
        if (w == 1) pause();
        _exit(0);
    }
    for (int i = argc > 1 ? 1 : 0; i < argc; i++) {
        const char *what = argc > 1 ? argv[i] : "all";
        bool all = strcmp(what, "all") == 0;
        if (all || strcmp(what, "ring") == 0) bench_ring();
        if (all || strcmp(what, "trip") == 0) bench_trip();
        if (all || strcmp(what, "stream") == 0) bench_stream();
        if (all || strcmp(what, "fork") == 0) bench_fork("/proc/self/exe");
        if (all || strcmp(what, "seg") == 0) bench_seg();
    }
    return 0;
}
