/* events.c - the engine inside a server with an epoll loop of its own: a request becomes a task,
 * and its answer is sent when the result is ready. The loop waits for no task.
 *
 *     events SOCKET                  serves at the path SOCKET, until it is asked for 0
 *     events SOCKET N ...            asks how many primes are below each N */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "skate.h"

SKATE_TASK(primes) {
    long long n, found = 0;
    if (skate_arg_copy(t, 0, &n, sizeof n)) return SKATE_EINVAL;
    if (n < 0) return skate_fail(t, "%lld is negative", n);
    for (long long i = 2, d; i<n; found += d * d> i, i++)
        for (d = 2; d * d <= i && i % d;) d++;
    return skate_return(t, 0, &found, sizeof found);
}

struct request {
    int fd; /* a descriptor of its own of the connection, which the client may close meanwhile */
    long long n;
    skate_ref result;
};
static void answer(int code, void *ctx) { /* called by skate_process */
    struct request *q = ctx;
    struct skate_value v;
    char text[200] = "";
    if (code == 0 && skate_get(q->result, 0, &v) == 0) {
        snprintf(text, sizeof text, "%lld: %lld", q->n, *(const long long *)v.data);
        skate_value_release(&v);
    } else snprintf(text, sizeof text, "%lld: %s", q->n, skate_error());
    (void)send(q->fd, text, sizeof text, MSG_NOSIGNAL | MSG_DONTWAIT);
    close(q->fd), skate_release(q->result), free(q);
}
static bool take_request(int client) { /* false: the server shall end */
    struct request *q = calloc(1, sizeof *q);
    if (!q || recv(client, &q->n, sizeof q->n, MSG_DONTWAIT) != sizeof q->n)
        return close(client), free(q), true; /* the end of the connection */
    if (q->n == 0) return free(q), false;
    q->fd = fcntl(client, F_DUPFD_CLOEXEC, 0);
    if (skate_submit("primes", &SKATE_BYTES(&q->n, 8), 1, 1, NULL, &q->result) ||
        skate_on_ready(q->result, answer, q))
        answer(SKATE_EINVAL, q); /* with the message of the call that failed */
    return true;
}

int main(int argc, char **argv) {
    if (skate_worker_main(argc, argv)) return 0;
    if (argc < 2) return fprintf(stderr, "usage: events SOCKET [N ...]\n"), 2;
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    snprintf(at.sun_path, sizeof at.sun_path, "%s", argv[1]);
    int s = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0), loop = epoll_create1(EPOLL_CLOEXEC);
    if (argc > 2) { /* a client */
        char text[200];
        if (s < 0 || connect(s, (struct sockaddr *)&at, sizeof at)) return perror(argv[1]), 1;
        for (int i = 2; i < argc; i++) (void)send(s, &(long long){atoll(argv[i])}, 8, MSG_NOSIGNAL);
        for (int i = 2; i < argc && recv(s, text, sizeof text, 0) > 0; i++) puts(text);
        return 0;
    }
    if (s < 0 || bind(s, (struct sockaddr *)&at, sizeof at) || listen(s, 16))
        return perror(argv[1]), 1;
    if (skate_init(NULL)) return fprintf(stderr, "events: %s\n", skate_error()), 1;
    int fds[] = {s, skate_event_fd()};
    for (int i = 0; i < 2; i++)
        epoll_ctl(loop, EPOLL_CTL_ADD, fds[i], &(struct epoll_event){EPOLLIN, {.fd = fds[i]}});
    puts("ready"), fflush(stdout);
    for (struct epoll_event ev; epoll_wait(loop, &ev, 1, -1) >= 0;)
        if (ev.data.fd == fds[1]) skate_process();
        else if (ev.data.fd == s) {
            ev.data.fd = accept4(s, NULL, NULL, SOCK_CLOEXEC);
            epoll_ctl(loop, EPOLL_CTL_ADD, ev.data.fd, &ev);
        } else if (!take_request(ev.data.fd)) break;
    unlink(argv[1]), skate_shutdown(), skate_process(); /* the callbacks that are left free */
}
