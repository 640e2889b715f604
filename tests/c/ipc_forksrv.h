/* ipc_forksrv.h - a test program that is its own fork server, for test_ipc_forksrv.c and
 * crash/forksrv_crash.c.
 *
 * The fork server is this same program, started again: a constructor takes over before main when
 * SKATE_FORK_FD is set. The test, the server and the workers share one page (struct desk), with
 * orders of the test and answers of the others. It is a memfd whose descriptor is inherited. */
#ifndef SK_TEST_IPC_FORKSRV_H
#define SK_TEST_IPC_FORKSRV_H

#include "ipc_help.h"

#define DESK_ENV "TEST_DESK_FD"

enum act { ACT_EXIT = 1, ACT_SIGNAL, ACT_PAUSE, ACT_GATE, ACT_EAT, ACT_STRAYS };

struct desk {
    /* set: the server pauses for ever before it serves */
    _Atomic uint32_t slow_start;
    _Atomic uint32_t started_exec; /* counts the runs of the server's constructor */
    _Atomic uint32_t act;          /* an enum act for the workers without an entry in acts */
    _Atomic uint32_t acts[256];    /* by worker number: enum act | argument << 8 */
    _Atomic uint32_t pid[256];     /* by worker number: its process id, once it runs */
    _Atomic uint32_t running;      /* how many workers ever ran */
    /* ACT_STRAYS: process ids of a child of the worker, of a grandchild whose parent has ended, and
     * of a grandchild that has closed all inherited descriptors. 0: that process does not know that
     * it is a stray (sk_stray_). */
    _Atomic uint32_t strays[3];
    /* futex: how many strays run and have written their entry */
    _Atomic uint32_t n_strays;
    /* futex: an ACT_GATE worker exits with 7 once it is not 0; the note "gate" waits for it, too */
    _Atomic uint32_t gate;
    _Atomic uint32_t notes;   /* futex: how many notes on_note has handled */
    _Atomic uint32_t in_note; /* futex: how many times on_note was entered */
    uint64_t note_len, note_sum;
    uint32_t n_fds;
    int32_t fds[64];           /* the server's descriptors at its start */
    _Atomic uint32_t env_left; /* set: a worker still had one of our environment variables */
    char fault[64];            /* fault spec that the server arms */
};

SK_UNUSED static struct desk *map_desk(int fd) {
    struct desk *d = mmap(NULL, sizeof *d, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(d != MAP_FAILED);
    return d;
}

static uint64_t sum_of(const void *p, size_t n) {
    const uint8_t *b = p;
    uint64_t s = n;
    for (size_t i = 0; i < n; i++) s = s * 31 + b[i];
    return s;
}

static void wait_word(_Atomic uint32_t *w, uint32_t until_at_least) {
    for (uint32_t v; (v = atomic_load(w)) < until_at_least;) (void)sk_futex_wait(w, v, INT64_MAX);
}

static void add_word(_Atomic uint32_t *w) {
    atomic_fetch_add(w, 1);
    sk_futex_wake(w, 1 << 20);
}

static void on_note(void *ctx, const void *p, size_t n) {
    struct desk *d = ctx;
    d->note_len = n;
    d->note_sum = sum_of(p, n);
    add_word(&d->in_note);
    if (n == 4 && memcmp(p, "hang", 4) == 0)
        for (;;) pause();
    if (n == 4 && memcmp(p, "gate", 4) == 0) wait_word(&d->gate, 1);
    add_word(&d->notes);
}

static __attribute__((noreturn)) void stray(struct desk *d, int i) {
    if (sk_stray_) atomic_store(&d->strays[i], (uint32_t)getpid());
    add_word(&d->n_strays);
    for (;;) pause();
}

/* Forks children as user code in a task may do. */
static void fork_strays(struct desk *d) {
    for (int i = 0; i < 3; i++) {
        if (fork() != 0) continue;
        if (i == 0) stray(d, i);
        setsid();
        if (i == 2) {
            /* A daemon: it closes all descriptors, opens pipes that get the numbers of ours, and
             * forks. */
            int fd[2];
            for (int n = 3; n < 256; n++) (void)close(n);
            for (int n = 0; n < 8; n++) CHECK_EQ(pipe(fd), 0);
            if (fork() != 0) _exit(0);
            for (int n = 3; n < 19; n++) CHECK(fcntl(n, F_GETFD) == 0);
            stray(d, i);
        }
        if (fork() != 0) _exit(0);
        stray(d, i);
    }
}

static __attribute__((noreturn)) void work(struct desk *d, uint32_t worker) {
    uint32_t act = worker < 256 && d->acts[worker] ? d->acts[worker] : d->act;
    if (worker < 256) atomic_store(&d->pid[worker], (uint32_t)getpid());
    if (getenv("SKATE_FORK_FD") || getenv("SKATE_DRIVER_PID") || getenv("SKATE_LIVE_FD"))
        atomic_store(&d->env_left, 1);
    add_word(&d->running);
    int arg = (int)(act >> 8);
    switch (act & 255) {
    case ACT_EXIT: _exit(arg);
    case ACT_SIGNAL:
        signal(arg, SIG_DFL);
        raise(arg);
        _exit(99);
    case ACT_GATE: wait_word(&d->gate, 1); _exit(7);
    case ACT_EAT: {
        size_t n = (size_t)arg << 20;
        char *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        memset(p, 1, n);
        _exit(0);
    }
    case ACT_STRAYS: fork_strays(d); break;
    default: break;
    }
    for (;;) pause();
}

__attribute__((constructor)) static void serve_when_asked(void) {
    const char *sock = getenv("SKATE_FORK_FD"), *desk = getenv(DESK_ENV);
    if (!sock || !desk) return;
    DIR *dir = opendir("/proc/self/fd");
    struct desk *d = mmap(NULL, sizeof *d, PROT_READ | PROT_WRITE, MAP_SHARED, atoi(desk), 0);
    if (d == MAP_FAILED || !dir) _exit(88);
    for (struct dirent *e; (e = readdir(dir));)
        if (e->d_name[0] != '.' && atoi(e->d_name) != dirfd(dir) && d->n_fds < 64)
            d->fds[d->n_fds++] = atoi(e->d_name);
    closedir(dir);
    add_word(&d->started_exec);
    if (atomic_load(&d->slow_start))
        for (;;) pause();
    if (d->fault[0] && sk_fault_parse(d->fault, NULL) != SK_OK) _exit(89);
    struct sk_witness w = {.fd = -1};
    struct sk_forksrv_hooks hooks = {.on_note = on_note, .ctx = d};
    if (strncmp(d->fault, "witness.", 8) == 0) hooks.witness = &w;
    work(d, sk_forksrv_run(atoi(sock), &hooks));
}

/* ---- the driver's side ----------------------------------------------------------------------- */

struct driver {
    struct sk_forksrv f;
    struct desk *d;
    int desk_fd;
};

static void driver_begin(struct driver *v) {
    v->f = SK_FORKSRV_EMPTY;
    v->desk_fd = memfd_create("desk", MFD_CLOEXEC);
    CHECK(v->desk_fd >= 0);
    CHECK_EQ(ftruncate(v->desk_fd, sizeof(struct desk)), 0);
    v->d = map_desk(v->desk_fd);
}

/* Starts the server. keep2: a second descriptor that it inherits, besides that of the page; -1:
 * none. */
static void driver_start(struct driver *v, int keep2) {
    char *argv[] = {(char *)(uintptr_t)"/proc/self/exe", NULL};
    char num[16];
    struct sk_err err;
    int keep[2] = {v->desk_fd, keep2};
    snprintf(num, sizeof num, "%d", v->desk_fd);
    CHECK_EQ(setenv(DESK_ENV, num, 1), 0);
    CHECK_OK_ERR(sk_forksrv_start(&v->f, argv, NULL, keep, keep2 >= 0 ? 2 : 1, &err), &err);
    CHECK(sk_forksrv_check(&v->f));
}

SK_UNUSED static struct driver driver_with(enum act act, int arg) {
    struct driver v;
    driver_begin(&v);
    v.d->act = (uint32_t)act | (uint32_t)arg << 8;
    driver_start(&v, -1);
    return v;
}

SK_UNUSED static void driver_end(struct driver *v) {
    CHECK(sk_forksrv_check(&v->f));
    sk_forksrv_stop(&v->f);
    CHECK(sk_forksrv_check(&v->f));
    munmap(v->d, sizeof *v->d);
    close(v->desk_fd);
}

/* Waits for the next report. SK_EDEAD: the server has ended. */
SK_UNUSED static sk_rc next_report(struct driver *v, struct sk_fork_report *r) {
    struct sk_err err;
    for (;;) {
        sk_rc rc = sk_forksrv_next(&v->f, r, &err);
        CHECK(sk_forksrv_check(&v->f));
        if (rc == SK_OK || rc == SK_EDEAD) return rc;
        CHECK_MSG(rc == SK_EAGAIN, "next: %s: %s", sk_rc_name(rc), err.msg);
        CHECK_MSG(ready_by(v->f.sock, test_patience()), "no report");
    }
}

SK_UNUSED static struct sk_fork_report expect_report(struct driver *v, uint32_t kind) {
    struct sk_fork_report r;
    CHECK_OK(next_report(v, &r));
    CHECK_EQ(r.kind, kind);
    return r;
}

SK_UNUSED static void spawn_n(struct driver *v, uint32_t from, uint32_t n) {
    struct sk_err err;
    for (uint32_t i = 0; i < n; i++) CHECK_OK_ERR(sk_forksrv_spawn(&v->f, from + i, &err), &err);
    CHECK(sk_forksrv_check(&v->f));
}

#endif
