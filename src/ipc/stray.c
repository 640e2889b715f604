/* stray.c - what user code forks from a server or a worker and runs no program of its own: os.fork
 * in a task, multiprocessing, a daemon.
 *
 * Such a *stray* holds all that its parent held: the rings, the memory of the store. The rings are
 * its parent's alone, so sk_stray_ is set in it for whoever is about to touch one. The memory it
 * may read, but not keep: it ends with the process of ours that it comes from, however that one
 * dies and whatever lies between the two.
 *
 * How: that process holds the only read end of a pipe, the *leash*, and nobody writes to it. A
 * stray opens the write end once more, which makes a description that has an owner of its own, and
 * has SIGKILL sent when the reader goes. So does a stray's stray. The descriptor is closed by exec:
 * a program that a task starts is free. PR_SET_PDEATHSIG would not do: it hangs on the thread that
 * forked, lasts beyond exec, and a daemon's parent ends at once.
 *
 * Invariant: the read end is open in the one process only, since the handler closes it first thing
 * in a child. Not here: a stray that closes all its descriptors is free as well; it keeps its
 * memory until it ends.
 *
 * Cost: two descriptors and 5 us a worker; 10 us in the child of a fork; nothing for vfork and
 * posix_spawn, which run no handlers. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "base/fault.h"
#include "ipc/ipc_int.h"

bool sk_stray_;

static struct {
    int rd, wr; /* -1: none */
    /* of both: user code may close what it does not know, and open something else under that
     * number */
    struct sk_fd_id pipe;
    bool ours; /* the fork under way makes a worker */
} leash = {.rd = -1, .wr = -1};

static void say(const char *what) {
    char text[300];
    int n = snprintf(text, sizeof text, "skate: process %d, forked by a task, ends: %s\n",
                     (int)getpid(), what);
    /* nobody reads it */
    if (write(STDERR_FILENO, text, (size_t)SK_MIN(n, (int)sizeof text - 1)) < 0) return;
}

void sk_stray_end(const char *what) {
    say(what);
    _exit(1);
}

static void in_child(void) {
    char path[40];
    if (leash.ours || leash.wr < 0) return;
    sk_stray_ = true;
    sk_fd_close(&leash.rd, leash.pipe);
    if (!sk_fd_ours(leash.wr, leash.pipe)) {
        leash.wr = -1; /* closed by the user: a daemon */
        return;
    }
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", leash.wr);
    int fd = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 && errno == ENXIO) (void)raise(SIGKILL); /* no reader: it ended just now */
    if (fd < 0 || fcntl(fd, F_SETOWN, getpid()) || fcntl(fd, F_SETSIG, SIGKILL) ||
        fcntl(fd, F_SETFL, O_ASYNC | O_NONBLOCK))
        sk_stray_end("it cannot be tied to its worker (check ulimit -n and that /proc is there)");
    (void)close(leash.wr);
    leash.wr = fd;
    struct pollfd p = {.fd = fd};
    /* the reader went before the signal was asked for */
    if (poll(&p, 1, 0) > 0 && (p.revents & POLLERR)) (void)raise(SIGKILL);
}

static void close_fd(int *fd) {
    if (*fd >= 0) (void)close(*fd);
    *fd = -1;
}

sk_rc sk_stray_watch(struct sk_err *err) {
    static bool registered;
    int fd[2];
    close_fd(&leash.rd); /* of the server that this worker was forked from */
    close_fd(&leash.wr);
    leash.ours = false;
    if (SK_FAULT("stray.pipe") ? (errno = EMFILE, true) : pipe2(fd, O_CLOEXEC | O_NONBLOCK) != 0)
        return SK_ERR_SYS(err, "a pipe for what tasks fork (check ulimit -n)");
    leash.rd = fd[0];
    leash.wr = fd[1];
    int e = registered ? 0 : pthread_atfork(NULL, NULL, in_child);
    if (e) {
        close_fd(&leash.rd);
        close_fd(&leash.wr);
        errno = e;
        return SK_ERR_SYS(err, "watching what tasks fork");
    }
    registered = true;
    leash.pipe = sk_fd_id(fd[1]);
    return SK_OK;
}

void sk_stray_ours(bool ours) {
    SK_ASSERT(leash.ours != ours); /* before each fork of the server and after it */
    leash.ours = ours;
}
