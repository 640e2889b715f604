/* witness.c - a process that sees the driver end, and saves what the driver has left in shared
 * memory: only if the program asks for it (SKATE_TRACE).
 *
 * The kernel kills the fork server together with the driver (proc.c), so the server itself cannot.
 * The witness is forked by the server at its start. It is no worker: it holds neither the server's
 * socket nor the liveness pipe, is in a session of its own, and heeds no signal that ends the
 * programs of a terminal. It sleeps until the driver has ended, or until the server has and the
 * callback says that the driver has closed the engine. If the server alone has died, the witness
 * goes on (the next server makes another one, which saves the same).
 *
 * Cost: a fork, and the private pages of a process that only sleeps: 0.3 MB. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fault.h"
#include "ipc/ipc_int.h"

/* Closes the descriptors from `from` up to and including `to`. */
static void close_all(unsigned from, unsigned to) {
    if (from > to || syscall(SYS_close_range, from, to, 0) == 0) return;
    struct rlimit lim; /* Linux before 5.9, or a sandbox */
    unsigned max = getrlimit(RLIMIT_NOFILE, &lim) == 0 && lim.rlim_cur < 65536
                       ? (unsigned)lim.rlim_cur
                       : 65536;
    for (unsigned fd = from; fd <= to && fd < max; fd++) (void)close((int)fd);
}

/* Closes all descriptors but `kept`, of which it returns a copy; -1: the system refuses it. stdin,
 * stdout and stderr lead to /dev/null: who reads them must not wait for this process. */
static int leave_all_but(int kept) {
    kept = fcntl(kept, F_DUPFD_CLOEXEC, 3); /* it may be 0 if the driver has no stdin */
    if (kept < 0) return -1;
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int fd = 0; fd < 3; fd++)
        if (null < 0 || (null != fd && dup2(null, fd) < 0)) (void)close(fd);
    close_all(3, (unsigned)kept - 1);
    close_all((unsigned)kept + 1, ~0u);
    return kept;
}

static bool ended(const struct pollfd *p) { return p->fd >= 0 && p->revents; }

static void __attribute__((noreturn)) watch(const struct sk_witness *w, int driver_fd,
                                            pid_t server) {
    static const int heedless[] = {SIGTERM, SIGHUP, SIGINT, SIGQUIT, SIGTSTP, SIGPIPE};
    struct sigaction ign = {.sa_handler = SIG_IGN};
    for (size_t i = 0; i < SK_COUNT(heedless); i++) (void)sigaction(heedless[i], &ign, NULL);
    (void)setsid();
    driver_fd = leave_all_but(driver_fd);
    if (driver_fd < 0) _exit(1);
    /* -1 if the server has ended already */
    struct pollfd p[2] = {{.fd = driver_fd, .events = POLLIN},
                          {.fd = (int)syscall(SYS_pidfd_open, server, 0), .events = POLLIN}};
    bool over = p[1].fd < 0 && w->over(w->ctx);
    while (!over && !ended(&p[0])) {
        if (poll(p, 2, -1) < 0 && errno != EINTR) _exit(1);
        if (ended(&p[0]) || !ended(&p[1])) continue;
        over = w->over(w->ctx);
        (void)close(p[1].fd);
        p[1].fd = -1;
    }
    if (!over) w->save(w->ctx);
    _exit(0);
}

void sk_witness_start(struct sk_witness *w, int driver_fd) {
    pid_t server = getpid();
    sk_stray_ours(true); /* not a process of user code */
    errno = EAGAIN;      /* of the fault */
    pid_t pid = SK_FAULT("witness.fork") ? -1 : fork();
    if (pid == 0) watch(w, driver_fd, server);
    if (pid < 0)
        fprintf(stderr, "skate: there will be no record if this program is killed: %s\n",
                strerror(errno));
    sk_stray_ours(false);
    /* the server and its workers do without the descriptor */
    (void)close(w->fd);
    w->fd = -1;
}
