/* channel_bench.c - one hop there and back over two channels, beside what the machine can do:
 * channel_bench [rounds].
 *
 *   limit    a word that two processes hand each other, spinning, or by futex (both sides sleep
 *            each time)
 *   hop      a message of 8 B, 64 KiB, 1 MB there and one of 8 B back; "copy": both ends touch all
 *            bytes (the writer fills, the reader sums them)
 *   fan      one writer, 1 to 4 readers that answer with 8 B
 * each spinning (never sleeps), sleeping (never spins) and adaptive (as graphs do). us a round
 * trip: the median of 9 runs. 2-core AMD EPYC VM, Linux 6.18, dev build, other jobs beside it (load
 * 4 to 5; three runs of `channel_bench 1000`), us: limits 0.4-1.1 spinning and 2.0-2.5 by futex
 * (both ends on one core then; 33-46 on two). 8 B: 0.7-2.2 spinning, 2.0 sleeping, 1.0-2.7
 * adaptive; 1 MB, no copy: 0.66, 2.0, 2.1-2.4; 1 MB, copy: 131-314, 50-56, 50-112. Adaptive ends
 * find the way that is quicker at the time, to about 0.5 us. Prints "name value unit" lines. Not a
 * test: nothing here fails on a number. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "dag/channel.h"
#include "ipc/ipc.h"

#define ARENA ((uint64_t)64 << 20)
#define RUNS 9

static struct sk_err err;
#define MUST(x)                                                              \
    do {                                                                     \
        if ((x) != SK_OK) fprintf(stderr, "%s: %s\n", #x, err.msg), exit(1); \
    } while (0)

static uint8_t *arena;
static _Atomic uint64_t *used;

static void *share(size_t n) {
    void *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) exit(1);
    return p;
}
static sk_rc alloc(void *ctx, uint64_t len, sk_off *off, uint64_t *cap, struct sk_err *e) {
    (void)ctx, (void)e;
    *cap = SK_ALIGN(len, 4096);
    *off = atomic_fetch_add(used, *cap);
    return *off + *cap <= ARENA ? SK_OK : SK_EFULL;
}
static void give(void *ctx, sk_off off, uint64_t cap) { (void)ctx, (void)off, (void)cap; }
static const struct sk_chan_pool pool = {NULL, alloc, give};

static void *channel(uint32_t n_readers) {
    struct sk_chan_shape s = {n_readers, 2, 4};
    void *mem = share(sk_chan_bytes(&s));
    MUST(sk_chan_create(mem, &s, &err));
    return mem;
}
static struct sk_chan_end end(void *mem, uint32_t which, int64_t cap_ns) {
    struct sk_chan_end e;
    MUST(
        sk_chan_attach(&e, mem, which, arena, ARENA, which == SK_CHAN_WRITER ? &pool : NULL, &err));
    e.spin = sk_spin_of(cap_ns);
    return e;
}

static uint64_t sum(const uint8_t *p, uint64_t len) {
    uint64_t s = 0, w;
    for (uint64_t i = 0; i + 8 <= len; i += 8) memcpy(&w, p + i, 8), s += w;
    return s;
}
static volatile uint64_t sink;

static void put(struct sk_chan_end *w, uint64_t len, bool touch, int fill) {
    void *p;
    MUST(sk_chan_reserve(w, len, INT64_MAX, &p, &err));
    if (touch) memset(p, fill, len);
    sk_chan_publish(w, len, 0);
}
static void take(struct sk_chan_end *r, bool touch) {
    struct sk_chan_msg m;
    MUST(sk_chan_read(r, INT64_MAX, &m, &err));
    if (touch) sink = sum(m.p, m.len);
    sk_chan_pass(r);
    sk_chan_release(r, &m);
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}
static void out(const char *name, double *v) {
    qsort(v, RUNS, sizeof *v, by_value);
    printf("%-44s %10.2f us (%.2f to %.2f)\n", name, v[RUNS / 2], v[0], v[RUNS - 1]);
    fflush(stdout);
}

static void hop(const char *name, uint32_t n_readers, uint64_t len, bool touch, int64_t cap_ns,
                int rounds) {
    double v[RUNS];
    sk_store_relaxed(used, 0);
    void *there = channel(n_readers), *back[4];
    pid_t pid[4];
    for (uint32_t i = 0; i < n_readers; i++) {
        back[i] = channel(1);
        if ((pid[i] = fork())) continue;
        struct sk_chan_end r = end(there, i, cap_ns), w = end(back[i], SK_CHAN_WRITER, cap_ns);
        for (;;) take(&r, touch), put(&w, 8, true, 1);
    }
    struct sk_chan_end w = end(there, SK_CHAN_WRITER, cap_ns), r[4];
    for (uint32_t i = 0; i < n_readers; i++) r[i] = end(back[i], 0, cap_ns);
    for (int k = -1; k < RUNS; k++) { /* the first is not counted */
        int64_t from = sk_now_ns();
        for (int i = 0; i < rounds; i++) {
            put(&w, len, touch, i);
            for (uint32_t j = 0; j < n_readers; j++) take(&r[j], true);
        }
        if (k >= 0) v[k] = (double)(sk_now_ns() - from) * 1e-3 / rounds;
    }
    for (uint32_t i = 0; i < n_readers; i++) kill(pid[i], SIGKILL), waitpid(pid[i], NULL, 0);
    out(name, v);
}

static void limit(const char *name, bool spins, int rounds) {
    struct {
        _Atomic uint32_t turn;
        uint8_t pad[60];
        _Atomic uint32_t back;
    } *w = share(128);
    double v[RUNS];
    pid_t pid = fork();
    if (pid == 0)
        for (uint32_t i = 0;; i++) {
            while (sk_load_acq(&w->turn) == i)
                spins ? sk_cpu_relax() : (void)sk_futex_wait(&w->turn, i, INT64_MAX);
            sk_store_seq(&w->back, i + 1);
            if (!spins) sk_futex_wake(&w->back, 1);
        }
    uint32_t i = 0;
    for (int k = -1; k < RUNS; k++) {
        int64_t from = sk_now_ns();
        for (int n = 0; n < rounds; n++, i++) {
            sk_store_seq(&w->turn, i + 1);
            if (!spins) sk_futex_wake(&w->turn, 1);
            while (sk_load_acq(&w->back) == i)
                spins ? sk_cpu_relax() : (void)sk_futex_wait(&w->back, i, INT64_MAX);
        }
        if (k >= 0) v[k] = (double)(sk_now_ns() - from) * 1e-3 / rounds;
    }
    kill(pid, SIGKILL), waitpid(pid, NULL, 0);
    out(name, v);
}

int main(int argc, char **argv) {
    int n = argc > 1 ? atoi(argv[1]) : 5000;
    arena = share(ARENA);
    used = share(64);
    limit("limit: spinning", true, 10 * n);
    limit("limit: futex", false, n);
    static const struct {
        const char *name;
        int64_t cap_ns;
    } way[] = {{"spinning", INT64_MAX}, {"sleeping", 0}, {"adaptive", SK_SPIN_CAP_NS}};
    static const struct {
        const char *name;
        uint32_t n_readers;
        uint64_t len;
        bool touch;
    } what[] = {{"hop 8 B", 1, 8, true},
                {"hop 64 KiB, copy", 1, 65536, true},
                {"hop 1 MB, no copy", 1, 1000000, false},
                {"hop 1 MB, copy", 1, 1000000, true},
                {"fan 2", 2, 8, true},
                {"fan 4", 4, 8, true}};
    for (size_t i = 0; i < SK_COUNT(what); i++)
        for (size_t k = 0; k < SK_COUNT(way); k++) {
            /* more processes that spin than cores */
            if (what[i].n_readers > 1 && way[k].cap_ns == INT64_MAX) continue;
            char name[80];
            (void)snprintf(name, sizeof name, "%s, %s", what[i].name, way[k].name);
            hop(name, what[i].n_readers, what[i].len, what[i].touch, way[k].cap_ns,
                what[i].len > 8 ? n / 5 : n);
        }
    return 0;
}
