/* stray.c - processes that user code forks from a server or a worker without an exec: os.fork in a
 * task, multiprocessing, a daemon.
 *
 * Such a *stray* has inherited everything of its parent: the rings, the memory of the store. The
 * rings belong to the parent alone, so sk_stray_ is set in the stray for code that is about to
 * touch one. The stray may read the memory but must not keep it: it ends with the server or worker
 * that it comes from, however that process dies and however many processes lie between the two.
 *
 * How: the server or worker holds the only read end of a pipe, the *leash*, to which nobody writes.
 * A stray opens the write end anew, which makes a file description with an owner of its own, and
 * asks for SIGKILL when the reader goes. So does a stray's stray. An exec closes the descriptor: a
 * program that a task starts is free. PR_SET_PDEATHSIG would not do: it depends on the thread that
 * forked, lasts beyond an exec, and a daemon's parent ends at once.
 *
 * Invariant: the read end is open in one process only, since the fork handler closes it first in a
 * child. A stray that closes all its descriptors is free as well; it keeps its memory until it
 * ends.
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
    int rd, wr; /* read and write end of the leash; -1: none */
    /* Identity of both ends: user code may close them and open something else under the same
     * number. */
    struct sk_fd_id pipe;
    bool ours; /* the fork under way makes a worker, not a stray */
} leash = {.rd = -1, .wr = -1};

static void say(const char *what) {
    char text[300];
    int n = snprintf(text, sizeof text, "skate: process %d, forked by a task, ends: %s\n",
                     (int)getpid(), what);
    /* nothing can be done if stderr is closed */
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
        /* the user's code has closed the leash: this stray is a daemon and may outlive the
         * worker */
        leash.wr = -1;
        return;
    }
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", leash.wr);
    int fd = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
    /* the pipe's reader, the worker that forked this stray, has just ended */
    if (fd < 0 && errno == ENXIO) (void)raise(SIGKILL);
    if (fd < 0 || fcntl(fd, F_SETOWN, getpid()) || fcntl(fd, F_SETSIG, SIGKILL) ||
        fcntl(fd, F_SETFL, O_ASYNC | O_NONBLOCK))
        sk_stray_end("it cannot be tied to its worker (check ulimit -n and that /proc is there)");
    (void)close(leash.wr);
    leash.wr = fd;
    struct pollfd p = {.fd = fd};
    /* the reader may have ended before the signal was asked for */
    if (poll(&p, 1, 0) > 0 && (p.revents & POLLERR)) (void)raise(SIGKILL);
}

static void close_fd(int *fd) {
    if (*fd >= 0) (void)close(*fd);
    *fd = -1;
}

sk_rc sk_stray_watch(struct sk_err *err) {
    static bool registered;
    int fd[2];
    close_fd(&leash.rd); /* the server that forked this worker had this read end */
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
    SK_ASSERT(leash.ours != ours); /* called before and after each fork of the server */
    leash.ours = ours;
}
