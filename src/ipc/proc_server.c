/* proc_server.c - the fork server itself: a loop that forks workers, reaps them, reports, and dies
 * with its driver.
 *
 * Not here: the driver's half and why nothing outlives the driver (proc.c); what workers run.
 *
 * Invariant: a pid is signalled only while it is in `kids`, that is, before wait4 has returned it,
 * so another process is never hit. Reports wait in memory when the socket is full: the loop never
 * blocks on the driver, so the driver may hold its lock while it sends.
 *
 * Cost: a spawn is one fork of this process (imported modules are shared copy-on-write). While a
 * note is handled (it may import for seconds) nothing is forked or reaped; a timer still notices
 * the driver's death. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/mem.h"
#include "base/containers/vec.h"
#include "ipc/ipc_int.h"

#define WATCH_PERIOD_NS 50000000L
/* a signal that is ignored by default, so that a late one is harmless, and that Python and
 * libraries do not use */
#define WATCH_SIGNAL SIGURG

struct kid {
    pid_t pid;
    uint32_t worker;
};
struct server {
    int sock, driver_fd, sigchld_fd;
    pid_t self;
    SK_VEC(struct kid) kids;
    SK_VEC(struct sk_fork_report) out;
    uint32_t out_first;
    sigset_t old_mask, chld;
    struct sk_forksrv_hooks hooks;
};

static pid_t driver_pid; /* read by the signal handler `watch`; a process has one server at most */

static void __attribute__((noreturn)) die(struct server *s) {
    /* kills the workers now; the kernel would do it when this process ends (PR_SET_PDEATHSIG) */
    for (uint32_t i = 0; i < s->kids.n; i++) (void)kill(s->kids.p[i].pid, SIGKILL);
    _exit(0);
}

static void __attribute__((noreturn)) end(const char *why) {
    fprintf(stderr, "skate fork server: %s\n", why); /* the driver notices that the socket closes */
    _exit(1);
}

static void __attribute__((noreturn)) give_up(const char *what) {
    struct sk_err err;
    (void)SK_ERR_SYS(&err, "%s", what);
    end(err.msg);
}

/* ---- the driver's death while a note is handled ---------------------------------------------- */

static void watch(int sig) {
    (void)sig;
    if (getppid() != driver_pid) _exit(0); /* the kernel then ends the workers (PR_SET_PDEATHSIG) */
}

static bool watch_start(timer_t *t) {
    struct sigaction sa = {.sa_handler = watch, .sa_flags = SA_RESTART};
    struct sigevent ev = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = WATCH_SIGNAL};
    struct itimerspec every = {{0, WATCH_PERIOD_NS}, {0, WATCH_PERIOD_NS}};
    return sigaction(WATCH_SIGNAL, &sa, NULL) == 0 && timer_create(CLOCK_MONOTONIC, &ev, t) == 0 &&
           timer_settime(*t, 0, &every, NULL) == 0;
}

static void watch_stop(timer_t t) {
    struct sigaction dfl = {.sa_handler = SIG_DFL};
    (void)timer_delete(t);
    (void)sigaction(WATCH_SIGNAL, &dfl, NULL);
}

/* ---- reports --------------------------------------------------------------------------------- */

static void flush(struct server *s) {
    SK_DCHECK(s->out_first <= s->out.n);
    while (s->out_first < s->out.n) {
        if (send(s->sock, &s->out.p[s->out_first], sizeof s->out.p[0],
                 MSG_DONTWAIT | MSG_NOSIGNAL) < 0) {
            if (errno == EINTR) continue;
            if (errno == EAGAIN || errno == ENOBUFS || errno == ENOMEM) return;
            die(s); /* EPIPE: the driver has ended */
        }
        s->out_first++;
    }
    s->out_first = s->out.n = 0;
}

static void report(struct server *s, struct sk_fork_report r) {
    /* if the report were lost, the driver would wait for it for ever */
    if (!sk_vec_push(&s->out, SK_TAG_IPC, r)) give_up("no memory for a report");
    flush(s);
}

static void reap(struct server *s) {
    for (;;) {
        int status;
        struct rusage ru;
        pid_t pid = wait4(-1, &status, WNOHANG, &ru);
        if (pid < 0 && errno == EINTR) continue;
        /* 0: all children that are left are alive; ECHILD: no child is left */
        if (pid <= 0) return;
        for (uint32_t i = 0; i < s->kids.n; i++) {
            if (s->kids.p[i].pid != pid) continue;
            uint32_t worker = s->kids.p[i].worker;
            s->kids.p[i] = s->kids.p[--s->kids.n];
            report(s, (struct sk_fork_report){SK_FORK_ENDED, worker, pid, status,
                                              (uint64_t)ru.ru_maxrss * 1024});
            break;
        } /* not found: the process is a child that an import started */
    }
}

/* ---- commands -------------------------------------------------------------------------------- */

/* Tells the kernel to end workers first when memory runs out: a worker's task runs again, the
 * driver's work would be lost. Where /proc is not writable the kernel chooses as usual. */
static void first_to_go(void) {
    int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    if (fd < 0) return;
    if (write(fd, "1000", 4) < 0) SK_DCHECK(errno != EINVAL);
    (void)close(fd);
}

/* Turns the forked child into a worker. fork clears PDEATHSIG, so it is set anew; if the server
 * died in between, the parent is another process. */
static void become_worker(struct server *s) {
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != s->self) _exit(1);
    struct sk_err err;
    if (sk_stray_watch(&err) != SK_OK) {
        fprintf(stderr, "skate worker: %s\n", err.msg);
        _exit(1);
    }
    (void)close(s->sock);
    (void)close(s->driver_fd);
    (void)close(s->sigchld_fd);
    sk_vec_free(&s->kids);
    sk_vec_free(&s->out);
    first_to_go();
    (void)sigprocmask(SIG_SETMASK, &s->old_mask, NULL);
}

/* Forks a worker and reports it. Returns true in the worker. */
static bool spawn(struct server *s, uint32_t worker) {
    if (!sk_vec_reserve(&s->kids, SK_TAG_IPC, s->kids.n + 1)) {
        report(s, (struct sk_fork_report){SK_FORK_FAILED, worker, 0, ENOMEM, 0});
        return false;
    }
    SK_FAULT_HERE("forksrv.before_fork");
    if (s->hooks.before_fork) s->hooks.before_fork(s->hooks.ctx);
    sk_stray_ours(true);
    pid_t pid = SK_FAULT("forksrv.fork") ? (errno = EAGAIN, -1) : fork();
    if (pid == 0) {
        SK_FAULT_HERE("forksrv.child");
        become_worker(s);
        return true;
    }
    int e = errno;
    sk_stray_ours(false);
    if (s->hooks.after_fork) s->hooks.after_fork(s->hooks.ctx);
    if (pid < 0) {
        report(s, (struct sk_fork_report){SK_FORK_FAILED, worker, 0, e, 0});
        return false;
    }
    /* the worker's place in `kids` was reserved before the fork: without an entry the worker could
     * not be killed */
    SK_ASSERT(s->kids.n < s->kids.cap);
    s->kids.p[s->kids.n++] = (struct kid){pid, worker};
    SK_FAULT_HERE("forksrv.after_fork");
    report(s, (struct sk_fork_report){SK_FORK_STARTED, worker, pid, 0, 0});
    return false;
}

static void signal_kid(struct server *s, pid_t pid, int sig) {
    for (uint32_t i = 0; i < s->kids.n; i++)
        if (s->kids.p[i].pid == pid) {
            /* kill() takes 0 and negative numbers for process groups */
            SK_ASSERT(pid > 0 && pid != s->self);
            (void)kill(pid, sig);
        }
}

static void note(struct server *s, int fd, size_t n) {
    void *p = NULL;
    if (n) {
        p = fd >= 0 ? mmap(NULL, n, PROT_READ, MAP_PRIVATE, fd, 0) : MAP_FAILED;
        if (p == MAP_FAILED) give_up("map a note");
    }
    timer_t t;
    if (!watch_start(&t)) give_up("timer");
    /* Handles the note with the caller's signal mask, as an import may start programs. SIGCHLD of a
     * worker that ends meanwhile is lost, hence the reap below. */
    (void)sigprocmask(SIG_SETMASK, &s->old_mask, NULL);
    if (s->hooks.on_note) s->hooks.on_note(s->hooks.ctx, p ? p : "", n);
    (void)sigprocmask(SIG_BLOCK, &s->chld, NULL);
    watch_stop(t);
    reap(s);
    if (p) (void)munmap(p, n);
}

/* Handles one command. 1: this process is a worker now; 0: done; -1: no command has arrived. */
static int command(struct server *s, uint32_t *worker) {
    struct fork_cmd c;
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int))];
    } ctl;
    struct iovec iov = {&c, sizeof c};
    struct msghdr m = {.msg_iov = &iov,
                       .msg_iovlen = 1,
                       .msg_control = ctl.bytes,
                       .msg_controllen = sizeof ctl.bytes};
    ssize_t n = recvmsg(s->sock, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return -1;
    /* 0: the driver closed or ended; ECONNRESET: it ended with reports unread */
    if (n <= 0) die(s);
    int fd = -1;
    struct cmsghdr *cm = CMSG_FIRSTHDR(&m);
    if (cm && cm->cmsg_level == SOL_SOCKET && cm->cmsg_type == SCM_RIGHTS)
        memcpy(&fd, CMSG_DATA(cm), sizeof fd);
    errno = EPROTO;
    if (n != (ssize_t)sizeof c || (m.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) ||
        c.note_len > FORK_NOTE_MAX)
        give_up("bad command");
    switch (c.kind) {
    /* spawn() sends the answer to this command itself */
    case FORK_SPAWN: *worker = c.worker; return spawn(s, c.worker);
    case FORK_KILL: signal_kid(s, c.pid, c.sig); break;
    case FORK_NOTE: note(s, fd, (size_t)c.note_len); break;
    default: give_up("bad command");
    }
    if (fd >= 0) (void)close(fd);
    report(s, (struct sk_fork_report){FORK_ACK, 0, 0, 0, 0});
    return 0;
}

/* ---- life ------------------------------------------------------------------------------------ */

static int env_number(const char *name) {
    /* launch_child (proc.c) passes the numbers of descriptors in environment variables */
    const char *v = getenv(name);
    return v ? atoi(v) : -1;
}

static void begin(struct server *s) {
    s->self = getpid();
    driver_pid = (pid_t)env_number(FORK_ENV_DRIVER);
    int live = env_number(FORK_ENV_LIVE);
    /* Programs that workers start must hold neither descriptor: the driver would wait for them. */
    if (fcntl(s->sock, F_SETFD, FD_CLOEXEC) != 0) give_up("control socket (SKATE_FORK_FD)");
    if (live >= 0 && fcntl(live, F_SETFD, FD_CLOEXEC) != 0)
        give_up("liveness pipe (SKATE_LIVE_FD)");
    /* without this, a program that a worker starts would take itself for a fork server */
    (void)unsetenv(FORK_ENV_SOCK);
    (void)unsetenv(FORK_ENV_DRIVER);
    (void)unsetenv(FORK_ENV_LIVE);
    struct sk_err err;
    if (sk_stray_watch(&err) != SK_OK) end(err.msg);

    struct sigaction ign = {.sa_handler = SIG_IGN}, dfl = {.sa_handler = SIG_DFL};
    (void)sigemptyset(&s->chld);
    (void)sigaddset(&s->chld, SIGCHLD);
    if (sigaction(SIGINT, &ign, NULL) != 0 || sigaction(SIGCHLD, &dfl, NULL) != 0 ||
        sigprocmask(SIG_BLOCK, &s->chld, &s->old_mask) != 0)
        give_up("signals");
    s->sigchld_fd = signalfd(-1, &s->chld, SFD_CLOEXEC | SFD_NONBLOCK);
    if (s->sigchld_fd < 0) give_up("signalfd");

    errno = ESRCH;
    if (getppid() != driver_pid)
        give_up("the parent is not the driver (it died, or the command is wrapped by one that does "
                "not exec)");
    s->driver_fd = (int)syscall(SYS_pidfd_open, driver_pid, 0);
    if (s->driver_fd < 0) give_up("pidfd_open of the driver");
    /* if the driver has died, another process may have its pid since before pidfd_open */
    if (getppid() != driver_pid) die(s);
}

/* Checked between two turns of the loop: each worker is listed once, with a pid that may be
 * signalled, and no sent report is kept. */
static bool server_ok(const struct server *s) {
    if (s->sock < 0 || s->driver_fd < 0 || s->sigchld_fd < 0 || s->self != getpid()) return false;
    if (s->kids.n > s->kids.cap || s->out.n > s->out.cap || s->out_first > s->out.n ||
        (s->out.n && s->out_first == s->out.n))
        return false;
    for (uint32_t i = 0; i < s->kids.n; i++) {
        if (s->kids.p[i].pid <= 1 || s->kids.p[i].pid == s->self) return false;
        for (uint32_t j = 0; j < i; j++)
            if (s->kids.p[i].pid == s->kids.p[j].pid) return false;
    }
    for (uint32_t i = s->out_first; i < s->out.n; i++)
        if (s->out.p[i].kind > SK_FORK_FAILED) return false;
    return true;
}

uint32_t sk_forksrv_run(int sock, const struct sk_forksrv_hooks *hooks) {
    struct server s = {.sock = sock};
    if (hooks) s.hooks = *hooks;
    uint32_t worker = 0;
    begin(&s);
    if (s.hooks.witness) {
        struct sk_witness w = *s.hooks.witness;
        sk_witness_start(&w, s.driver_fd);
    }
    for (;;) {
        SK_DCHECK(server_ok(&s));
        struct pollfd p[3] = {{.fd = s.sock, .events = (short)(POLLIN | (s.out.n ? POLLOUT : 0))},
                              {.fd = s.driver_fd, .events = POLLIN},
                              {.fd = s.sigchld_fd, .events = POLLIN}};
        if (poll(p, SK_COUNT(p), -1) < 0) {
            if (errno == EINTR) continue;
            give_up("poll");
        }
        if (p[1].revents || (p[0].revents & (POLLHUP | POLLERR))) die(&s);
        if (p[2].revents) {
            struct signalfd_siginfo si;
            /* the descriptor is emptied before the reap, so that a later death makes it readable
             * again */
            while (read(s.sigchld_fd, &si, sizeof si) > 0) continue;
            reap(&s);
        }
        if (p[0].revents & POLLOUT) flush(&s);
        if ((p[0].revents & POLLIN) && command(&s, &worker) == 1) return worker;
    }
}
