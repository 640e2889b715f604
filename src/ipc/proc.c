/* proc.c - the driver's half of the fork server: start it, command it, receive its reports, and end
 * it and all workers.
 *
 * Not here: what a worker does and when to spawn one (engine), the server itself (proc_server.c).
 *
 * Invariant: no process of the engine outlives the driver, whatever the process is doing and
 * however the driver dies.
 * - A pipe ("live") has the driver as its only reader, and server and workers as writers. The write
 *   end has O_ASYNC with F_SETSIG = SIGKILL and the server as owner: when the driver's end closes,
 *   the kernel kills the server, even before its main, inside an import or while it is stopped. The
 *   same pipe tells the driver by EOF when the last worker has ended.
 * - A forked copy of the driver may keep the read end open; then the server's own watch of the
 *   driver decides (a pidfd, and a timer while it handles notes).
 * - Workers die with the server by PR_SET_PDEATHSIG. The driver may have threads: between vfork and
 *   exec the child makes only async-signal-safe calls, signals are blocked, and all memory was
 *   allocated before.
 *
 * Cost: start = one vfork+exec (about 0.5 ms on the development machine, whatever the driver's
 * size), a spawn request = one sendmsg. Needs Linux 5.3. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/mem.h"
#include "base/containers/vec.h"
#include "ipc/ipc_int.h"

#ifndef CLOSE_RANGE_CLOEXEC
#define CLOSE_RANGE_CLOEXEC 4U
#endif
#define GONE_WAIT_NS (2 * SK_SEC)

extern char **environ;

/* ---- commands: held back while the socket is full, never dropped ----------------------------- */

struct held {
    struct fork_cmd cmd;
    int fd; /* memfd with a note's bytes, or -1 */
};
struct sk_forksrv_out {
    SK_VEC(struct held) q;
    uint32_t first; /* index in q; commands before it have been sent */
};

static void close_fd(int *fd) {
    if (*fd >= 0) (void)close(*fd);
    *fd = -1;
}

static struct sk_forksrv_out *out_create(void) {
    return sk_calloc(SK_TAG_IPC, sizeof(struct sk_forksrv_out));
}

static void out_destroy(struct sk_forksrv_out *out) {
    if (!out) return;
    for (uint32_t i = out->first; i < out->q.n; i++) close_fd(&out->q.p[i].fd);
    sk_vec_free(&out->q);
    sk_free(out);
}

/* Returns SK_OK (sent), SK_EAGAIN (no room in the socket), SK_EDEAD or SK_EIO. */
static sk_rc send_cmd(int sock, const struct held *h, struct sk_err *err) {
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int))];
    } ctl;
    memset(&ctl, 0, sizeof ctl);
    struct iovec iov = {(void *)(uintptr_t)&h->cmd, sizeof h->cmd};
    struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1};
    if (h->fd >= 0) {
        m.msg_control = ctl.bytes;
        m.msg_controllen = sizeof ctl.bytes;
        struct cmsghdr *c = CMSG_FIRSTHDR(&m);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(c), &h->fd, sizeof(int));
    }
    ssize_t n;
    do n = sendmsg(sock, &m, MSG_DONTWAIT | MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    if (n >= 0) return SK_OK;
    if (errno == EAGAIN) return SK_EAGAIN;
    if (errno == EPIPE || errno == ECONNRESET)
        return SK_ERR(err, SK_EDEAD, "the fork server is gone");
    return SK_ERR_SYS(err, "send to the fork server");
}

/* Sends held commands while the socket has room. Other failures are reported by the next command or
 * by sk_forksrv_next, which sees the end of the socket. */
static void flush(struct sk_forksrv *f) {
    struct sk_forksrv_out *o = f->out;
    SK_DCHECK(o->first <= o->q.n);
    while (o->first < o->q.n) {
        if (send_cmd(f->sock, &o->q.p[o->first], NULL) != SK_OK) return;
        close_fd(&o->q.p[o->first++].fd);
    }
    o->first = o->q.n = 0;
}

/* Sends a command or holds it back; takes fd. The server may be importing for seconds and the
 * socket holds a few hundred datagrams, so commands that do not fit wait in `out`: the server
 * answers each command in the socket, and sk_forksrv_next flushes at each answer. */
static sk_rc post(struct sk_forksrv *f, struct fork_cmd cmd, int fd, struct sk_err *err) {
    struct held h = {cmd, fd};
    sk_rc rc = SK_OK;
    SK_DCHECK((fd >= 0) == (cmd.note_len > 0));
    if (f->pid <= 0) {
        rc = SK_ERR(err, SK_ECLOSED, "the fork server is not running");
        goto out;
    }
    if (sk_forksrv_lost(f)) {
        rc = SK_ERR(err, SK_EIO, SK_FD_LOST);
        goto out;
    }
    flush(f);
    if (f->out->q.n == 0) {
        rc = SK_FAULT("forksrv.post") ? SK_EAGAIN : send_cmd(f->sock, &h, err);
        if (rc != SK_EAGAIN) goto out;
    }
    rc = SK_OK;
    if (!sk_vec_push(&f->out->q, SK_TAG_IPC, h))
        rc = SK_ERR(err, SK_ENOMEM, "queue a command for the fork server");
    else h.fd = -1;
out:
    close_fd(&h.fd);
    return rc;
}

sk_rc sk_forksrv_spawn(struct sk_forksrv *f, uint32_t worker, struct sk_err *err) {
    if (SK_UNLIKELY(sk_machine_ != NULL)) {
        sk_machine_->spawn(sk_machine_->ctx, worker);
        return SK_OK;
    }
    return post(f, (struct fork_cmd){.kind = FORK_SPAWN, .worker = worker}, -1, err);
}

sk_rc sk_forksrv_kill(struct sk_forksrv *f, pid_t pid, int sig, struct sk_err *err) {
    if (SK_UNLIKELY(sk_machine_ != NULL)) {
        sk_machine_->kill(sk_machine_->ctx, pid, sig);
        return SK_OK;
    }
    if (pid <= 0) return SK_ERR(err, SK_EINVAL, "kill worker: pid %d", (int)pid);
    return post(f, (struct fork_cmd){.kind = FORK_KILL, .pid = pid, .sig = sig}, -1, err);
}

sk_rc sk_forksrv_note(struct sk_forksrv *f, const void *p, size_t n, struct sk_err *err) {
    if (sk_machine_) return SK_OK; /* a simulated server imports nothing */
    if (n > FORK_NOTE_MAX)
        return SK_ERR(err, SK_EINVAL, "note to the fork server: %zu bytes, at most %zu", n,
                      FORK_NOTE_MAX);
    int fd = -1;
    if (n) {
        fd = memfd_create("skate-note", MFD_CLOEXEC);
        if (fd < 0) return SK_ERR_SYS(err, "note to the fork server: memfd (check ulimit -n)");
        (void)fchmod(fd, 0600); /* no other user needs access */
        for (size_t done = 0; done < n;) {
            ssize_t k = write(fd, (const char *)p + done, n - done);
            if (k < 0 && errno == EINTR) continue;
            if (k <= 0) {
                sk_rc rc = SK_ERR_SYS(err, "note to the fork server: write %zu bytes", n);
                close_fd(&fd);
                return rc;
            }
            done += (size_t)k;
        }
    }
    return post(f, (struct fork_cmd){.kind = FORK_NOTE, .note_len = n}, fd, err);
}

bool sk_forksrv_lost(const struct sk_forksrv *f) {
    return f->pid > 0 && (!sk_fd_ours(f->sock, f->sock_id) || !sk_fd_ours(f->live, f->live_id));
}

bool sk_forksrv_check(const struct sk_forksrv *f) {
    const struct sk_forksrv_out *o = f->out;
    /* without a server (zeroed struct or SK_FORKSRV_EMPTY) no descriptor may be open */
    if (f->pid <= 0) return f->pid == 0 && f->sock <= 0 && f->pidfd <= 0 && f->live <= 0 && !o;
    if (f->sock < 0 || f->live < 0 || !o || o->first > o->q.n || o->q.n > o->q.cap ||
        (o->q.n && o->first == o->q.n))
        return false;
    for (uint32_t i = 0; i < o->q.n; i++) {
        const struct held *h = &o->q.p[i];
        if (h->cmd.kind < FORK_SPAWN || h->cmd.kind > FORK_NOTE || h->cmd.note_len > FORK_NOTE_MAX)
            return false;
        if (i < o->first ? h->fd != -1 : (h->fd >= 0) != (h->cmd.note_len > 0)) return false;
        if (h->cmd.kind == FORK_KILL && h->cmd.pid <= 0) return false;
    }
    return true;
}

/* ---- start: everything that the child needs is allocated before the vfork -------------------- */

struct launch {
    char *const *argv;
    char **env;
    const int *keep;
    int n_keep;
    /* Ends of the child. status: a pipe for the errno of a failed exec; a successful exec closes
     * it. */
    int sock, live, status;
    int max_fd;
    int step; /* STEP_FDS or STEP_EXEC: the step that failed */
    sigset_t mask;
};
enum { STEP_FDS = 1, STEP_EXEC = 2 };

static bool is_ours(const char *var) {
    static const char *const names[] = {FORK_ENV_SOCK "=", FORK_ENV_DRIVER "=", FORK_ENV_LIVE "="};
    for (size_t i = 0; i < SK_COUNT(names); i++)
        if (strncmp(var, names[i], strlen(names[i])) == 0) return true;
    return false;
}

/* The server's environment in one allocation: the pointers, then the engine's three strings. The
 * other strings stay the caller's. */
static char **make_env(char *const *envp, int sock, int live) {
    enum { N_OURS = 3, ONE = 40 };
    size_t n = 0;
    while (envp[n]) n++;
    char **env = sk_alloc(SK_TAG_IPC, (n + N_OURS + 1) * sizeof *env + N_OURS * ONE);
    if (!env) return NULL;
    char *text = (char *)(env + n + N_OURS + 1);
    size_t k = 0;
    for (size_t i = 0; i < n; i++)
        if (!is_ours(envp[i])) env[k++] = envp[i];
    snprintf(env[k++] = text, ONE, FORK_ENV_SOCK "=%d", sock);
    snprintf(env[k++] = text + ONE, ONE, FORK_ENV_DRIVER "=%d", (int)getpid());
    snprintf(env[k++] = text + 2 * ONE, ONE, FORK_ENV_LIVE "=%d", live);
    SK_ASSERT(k <= n + N_OURS);
    env[k] = NULL;
    return env;
}

static int inherit(int fd) { return fcntl(fd, F_SETFD, 0); }

/* Runs in the vfork child, on the driver's memory: makes system calls only. */
static void __attribute__((noreturn)) launch_child(struct launch *l) {
    int failed[2] = {STEP_FDS, 0};
    /* Signal handlers must not run here (they would act on the driver's memory), so all signals get
     * their default action before the mask is opened. An ignored SIGCHLD would make the server's
     * children vanish unreported. SIGINT is ignored from before the exec on, or a Ctrl-C during
     * start-up would kill the server. */
    struct sigaction dfl = {.sa_handler = SIG_DFL}, ign = {.sa_handler = SIG_IGN};
    for (int s = 1; s <= SIGRTMAX; s++) (void)sigaction(s, &dfl, NULL);
    (void)sigaction(SIGINT, &ign, NULL);
    (void)sigaction(SIGPIPE, &ign, NULL);

    /* the system lacks close_range (Linux before 5.11, a sandbox): each descriptor is marked */
    if (syscall(SYS_close_range, 3u, ~0u, CLOSE_RANGE_CLOEXEC) != 0)
        for (int fd = 3; fd < l->max_fd; fd++) (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
    if (inherit(l->sock) || inherit(l->live)) goto fail;
    for (int i = 0; i < l->n_keep; i++)
        if (inherit(l->keep[i])) goto fail;
    /* Lets the kernel kill the server when the driver dies (see the head of this file). The owner
     * comes first: a signal without an owner is dropped. */
    if (fcntl(l->live, F_SETOWN, getpid()) || fcntl(l->live, F_SETSIG, SIGKILL) ||
        fcntl(l->live, F_SETFL, O_ASYNC))
        goto fail;
    (void)sigprocmask(SIG_SETMASK, &l->mask, NULL);
    failed[0] = STEP_EXEC;
    execvpe(l->argv[0], l->argv, l->env);
fail:
    failed[1] = errno;
    /* Reports through a pipe and not through memory, since ThreadSanitizer turns vfork into
     * fork. */
    if (write(l->status, failed, sizeof failed) != (ssize_t)sizeof failed) _exit(126);
    _exit(127);
}

/* A function of its own that is not inlined, because changes that a vfork child makes in the frame
 * also change the parent's. */
static pid_t __attribute__((noinline)) launch(struct launch *l) {
    sigset_t all, old;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_BLOCK, &all, &old);
    /* The child does not return into a stack frame that the parent still uses: launch_child ends in
     * exec or _exit.
     * NOLINTNEXTLINE(clang-analyzer-security.insecureAPI.vfork,bugprone-unsafe-functions) */
    pid_t pid = vfork();
    /* launch_child makes only calls that are permitted after vfork */
    if (pid == 0) launch_child(l); /* NOLINT(clang-analyzer-unix.Vfork) */
    int e = errno;
    (void)pthread_sigmask(SIG_SETMASK, &old, NULL);
    errno = e;
    return pid;
}

static void reap(pid_t pid) {
    pid_t r;
    do r = waitpid(pid, NULL, 0);
    /* waitpid fails with ECHILD if the program ignores SIGCHLD (the kernel reaps then) or reaps all
     * of its children */
    while (r < 0 && errno == EINTR);
}

static int max_fd(void) {
    struct rlimit lim;
    if (getrlimit(RLIMIT_NOFILE, &lim) != 0 || lim.rlim_cur > 65536) return 65536;
    return (int)lim.rlim_cur;
}

static sk_rc check_exec(int status, const char *what, struct sk_err *err) {
    int failed[2];
    ssize_t n;
    do n = read(status, failed, sizeof failed);
    while (n < 0 && errno == EINTR);
    if (n != (ssize_t)sizeof failed) return SK_OK;
    errno = failed[1];
    return failed[0] == STEP_EXEC
               ? SK_ERR_SYS(err, "start the fork server: exec %s", what)
               : SK_ERR_SYS(
                     err, "start the fork server: hand descriptors to %s (are all of keep[] open?)",
                     what);
}

sk_rc sk_forksrv_start(struct sk_forksrv *f, char *const argv[], char *const envp[],
                       const int *keep, int n_keep, struct sk_err *err) {
    sk_rc rc = SK_OK;
    int sock[2] = {-1, -1}, live[2] = {-1, -1}, status[2] = {-1, -1}, pidfd = -1;
    pid_t pid = -1;
    struct launch l = {.argv = argv, .keep = keep, .n_keep = n_keep};
    struct sk_forksrv_out *out = NULL;
    if (!argv || !argv[0] || n_keep < 0)
        return SK_ERR(err, SK_EINVAL, "start the fork server: no command");
    if (sk_machine_) {
        *f = SK_FORKSRV_EMPTY;
        return SK_OK;
    }

    if (SK_FAULT("forksrv.start")) {
        rc = SK_ERR(err, SK_EIO, "start the fork server: fault injected");
        goto out;
    }
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sock) != 0 ||
        pipe2(live, O_CLOEXEC) != 0 || pipe2(status, O_CLOEXEC) != 0) {
        rc = SK_ERR_SYS(err, "start the fork server: socket and pipes (check ulimit -n)");
        goto out;
    }
    l.sock = sock[1];
    l.live = live[1];
    l.status = status[1];
    l.max_fd = max_fd();
    (void)sigemptyset(&l.mask);
    out = out_create();
    l.env = make_env(envp ? envp : environ, l.sock, l.live);
    if (!out || !l.env) {
        rc = SK_ERR(err, SK_ENOMEM, "start the fork server: environment");
        goto out;
    }

    pid = launch(&l);
    if (pid < 0) {
        rc = SK_ERR_SYS(err, "start the fork server: vfork (" SK_FORK_HINT ")");
        goto out;
    }
    pidfd = (int)syscall(SYS_pidfd_open, pid, 0); /* a pidfd is close-on-exec by itself */
    if (pidfd < 0 && errno != ESRCH) {
        rc = SK_ERR_SYS(err, "start the fork server: pidfd_open (needs Linux 5.3)");
        goto out;
    }
    close_fd(&sock[1]);
    close_fd(&live[1]);
    close_fd(&status[1]);
    SK_GO(check_exec(status[0], argv[0], err));
    SK_ASSERT(pid > 0 && sock[0] >= 0 && live[0] >= 0);
    *f = (struct sk_forksrv){.pid = pid,
                             .sock = sock[0],
                             .pidfd = pidfd,
                             .live = live[0],
                             .out = out,
                             .sock_id = sk_fd_id(sock[0]),
                             .pidfd_id = sk_fd_id(pidfd),
                             .live_id = sk_fd_id(live[0])};
    sock[0] = live[0] = pidfd = -1;
    pid = -1;
    out = NULL;
out:
    if (pid > 0) {
        (void)kill(pid, SIGKILL);
        reap(pid);
    }
    close_fd(&pidfd);
    for (int i = 0; i < 2; i++) {
        close_fd(&sock[i]);
        close_fd(&live[i]);
        close_fd(&status[i]);
    }
    sk_free(l.env);
    out_destroy(out);
    return rc;
}

/* ---- reports and the end --------------------------------------------------------------------- */

/* Waits until fd is readable or at its end. False: the deadline has passed. */
static bool wait_fd(int fd, int64_t deadline_ns) {
    for (;;) {
        int64_t left = deadline_ns - sk_now_ns();
        struct pollfd p = {.fd = fd, .events = POLLIN};
        int r = poll(&p, 1, left > 0 ? (int)((left + SK_MS - 1) / SK_MS) : 0);
        if (r > 0) return true;
        if (r == 0 || errno != EINTR) return false;
    }
}

sk_rc sk_forksrv_next(struct sk_forksrv *f, struct sk_fork_report *out, struct sk_err *err) {
    if (SK_UNLIKELY(sk_machine_ != NULL))
        return sk_machine_->next(sk_machine_->ctx, out) ? SK_OK : SK_EAGAIN;
    if (f->pid <= 0) return SK_ERR(err, SK_ECLOSED, "the fork server is not running");
    if (sk_forksrv_lost(f)) return SK_ERR(err, SK_EIO, SK_FD_LOST);
    for (;;) {
        struct sk_fork_report r;
        SK_DCHECK(f->sock >= 0 && f->out);
        ssize_t n = recv(f->sock, &r, sizeof r, MSG_DONTWAIT | MSG_TRUNC);
        /* ECONNRESET: the server died with commands unread. The socket gives this error once; then
         * it gives the reports that the server had sent, then its end. */
        if (n < 0 && (errno == EINTR || errno == ECONNRESET)) continue;
        if (n < 0 && errno == EAGAIN) {
            flush(f);
            return SK_EAGAIN;
        }
        if (n < 0) return SK_ERR_SYS(err, "hear from the fork server");
        if (n == 0) {
            /* The socket ends some instructions before the kernel signals the workers. Waits for
             * the workers, so that SK_EDEAD means that all of them have ended. */
            (void)wait_fd(f->live, sk_now_ns() + GONE_WAIT_NS);
            return SK_ERR(err, SK_EDEAD, "the fork server (pid %d) died and its workers with it",
                          (int)f->pid);
        }
        if (n != (ssize_t)sizeof r || r.kind > SK_FORK_FAILED)
            return SK_ERR(err, SK_ECORRUPT, "a report of the fork server has %zd bytes, kind %u", n,
                          n >= 4 ? r.kind : 0);
        flush(f);
        if (r.kind == FORK_ACK) continue;
        *out = r;
        return SK_OK;
    }
}

bool sk_forksrv_stop(struct sk_forksrv *f) {
    siginfo_t si = {0};
    if (f->pid <= 0) return false;
    int64_t deadline = sk_now_ns() + GONE_WAIT_NS;
    if (f->pidfd >= 0 && !sk_fd_ours(f->pidfd, f->pidfd_id)) {
        /* The user closed the descriptor. The pid is still the server's as long as it is a child of
         * this process. */
        char state;
        pid_t parent;
        f->pidfd = sk_proc_state(f->pid, &state, &parent) && parent == getpid()
                       ? (int)syscall(SYS_pidfd_open, f->pid, 0)
                       : -1;
        f->pidfd_id = sk_fd_id(f->pidfd);
    }
    /* Signals by pidfd: if the program reaps all children (or ignores SIGCHLD), another process may
     * have the pid by now. */
    if (f->pidfd >= 0) {
        /* fails with ESRCH if the server has ended */
        (void)syscall(SYS_pidfd_send_signal, f->pidfd, SIGKILL, NULL, 0);
        (void)wait_fd(f->pidfd, deadline);
        /* fails with ECHILD if the program has reaped the server already */
        (void)waitid(P_PIDFD, (id_t)f->pidfd, &si, WEXITED | WNOHANG);
    }
    /* nobody writes to this pipe: readable means that the last writer has ended */
    if (sk_fd_ours(f->live, f->live_id)) (void)wait_fd(f->live, deadline);
    sk_fd_close(&f->sock, f->sock_id);
    sk_fd_close(&f->pidfd, f->pidfd_id);
    sk_fd_close(&f->live, f->live_id);
    out_destroy(f->out);
    *f = SK_FORKSRV_EMPTY;
    return si.si_code == CLD_EXITED;
}
