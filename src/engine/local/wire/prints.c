/* prints.c - brings what workers write to stdout and stderr to the driver, as whole lines with the
 * name of the task in front.
 *
 * A fresh worker makes two pipes, puts their write ends in the places of its descriptors 1 and 2
 * and sends the read ends to the driver over a socket that the fork server has inherited. So output
 * of C libraries and child programs is included, lines of different workers do not mix, and what
 * was written before a kill is in the pipe. A line that Python wrote begins with SK_PRINTS_MARK and
 * its label; a line without is labelled here, by what the worker runs when the line is read.
 *
 * Bounds: a pipe holds 64 KiB, an unfinished line here LINE_MOST; a worker whose pipe is full waits
 * in its write until the driver reads. Workers whose descriptors would go beyond half of
 * RLIMIT_NOFILE write to the driver's descriptors directly, as all workers do without a struct
 * sk_prints.
 *
 * Not here: where the lines go (python/skate/terminal/prints.py). In the driver one thread at a
 * time calls take (under Python's lock); wait is for one other thread. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/containers/vec.h"
#include "engine/host.h"
#include "engine/local/wire/prints.h"

#define LINE_MOST (256u << 10)
/* the size of a pipe, so that all text is read that was there when `take` began */
#define READ_MOST (64u << 10)
#define AT_ONCE 64

struct hello {
    uint32_t slot;
    int32_t pid;
};
struct source {
    int fd, to;
    struct sk_fd_id id;
    uint32_t slot;
    int32_t pid;
    SK_VEC(char) rest; /* the beginning of a line that has not ended */
    uint32_t looked;   /* the first `looked` bytes have no line end */
};

struct sk_prints {
    struct sk_prints_news news; /* must be first: it is read inline */
    bool none;
    int hand[2], ep, wake, lock_fd;
    struct sk_fd_id hand_id[2], ep_id, wake_id, lock_id;
    /* a mapping of the control segment of this struct's own, since it outlives the engine */
    const uint8_t *ctl;
    size_t ctl_size;
    SK_VEC(struct source *) sources;
    struct { /* lines that were handed in: of each text `to`, its length (4 bytes each), its bytes
              */
        pthread_mutex_t mu;
        SK_VEC(char) text;
        _Atomic uint32_t n; /* the counter for `news`, where there is no control segment */
    } in;
    char buf[READ_MOST];
};

static _Atomic uint32_t nobody; /* counter for `none`: never changes */

/* ---- the driver ------------------------------------------------------------------------------ */

static bool listen_to(struct sk_prints *p, int fd, void *key) {
    struct epoll_event ev = {.events = EPOLLIN, .data.ptr = key};
    return epoll_ctl(p->ep, EPOLL_CTL_ADD, fd, &ev) == 0;
}

sk_rc sk_prints_open(bool none, struct sk_prints **out, struct sk_err *err) {
    struct sk_prints *p = sk_calloc(SK_TAG_ENGINE, sizeof *p);
    if (!p) return SK_ERR(err, SK_ENOMEM, "no memory for what tasks print");
    *p = (struct sk_prints){.news = {.now = &nobody},
                            .none = none,
                            .hand = {-1, -1},
                            .ep = -1,
                            .wake = -1,
                            .lock_fd = -1};
    if (!none && (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, p->hand) != 0 ||
                  (p->ep = epoll_create1(EPOLL_CLOEXEC)) < 0 ||
                  (p->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) < 0 ||
                  !listen_to(p, p->hand[0], p->hand) || !listen_to(p, p->wake, &p->wake))) {
        sk_rc rc = SK_ERR_SYS(err, "a socket for what tasks print (check ulimit -n)");
        sk_prints_close(p);
        return rc;
    }
    pthread_mutex_init(&p->in.mu, NULL);
    p->news.now = &p->in.n;
    for (int i = 0; i < 2; i++) p->hand_id[i] = sk_fd_id(p->hand[i]);
    p->ep_id = sk_fd_id(p->ep);
    p->wake_id = sk_fd_id(p->wake);
    *out = p;
    return SK_OK;
}

sk_rc sk_prints_attach(struct sk_prints *p, const struct sk_seg *ctl, struct sk_err *err) {
    SK_ASSERT(!p->ctl);
    void *base = mmap(NULL, ctl->size, PROT_READ, MAP_SHARED, ctl->fd, 0);
    if (base == MAP_FAILED) return SK_ERR_SYS(err, "map the control segment once more");
    p->ctl = base;
    p->ctl_size = ctl->size;
    p->news.now = &((const struct sk_ctl *)base)->printed;
    p->lock_fd = fcntl(ctl->fd, F_DUPFD_CLOEXEC, 3);
    p->lock_id = ctl->id;
    return p->lock_fd < 0 ? SK_ERR_SYS(err, "a descriptor of the control segment (check ulimit -n)")
                          : SK_OK;
}

int sk_prints_hand(const struct sk_prints *p) {
    return !p ? SK_PRINTS_PLAIN : p->none ? SK_PRINTS_NONE : p->hand[1];
}

static void close_fd(int *fd) {
    if (*fd >= 0) (void)close(*fd);
    *fd = -1;
}

static void forget(struct sk_prints *p, struct source *s) {
    /* a mere close is not enough: a forked copy of the driver may hold the descriptor */
    if (sk_fd_ours(p->ep, p->ep_id)) (void)epoll_ctl(p->ep, EPOLL_CTL_DEL, s->fd, NULL);
    sk_fd_close(&s->fd, s->id);
    for (uint32_t i = 0; i < p->sources.n; i++)
        if (p->sources.p[i] == s) p->sources.p[i] = p->sources.p[--p->sources.n];
    sk_vec_free(&s->rest);
    sk_free(s);
}

static void close_all(struct sk_prints *p) {
    for (int i = 0; i < 2; i++) sk_fd_close(&p->hand[i], p->hand_id[i]);
    sk_fd_close(&p->ep, p->ep_id);
    sk_fd_close(&p->wake, p->wake_id);
    sk_fd_close(&p->lock_fd, p->lock_id);
}

bool sk_prints_lost(const struct sk_prints *p) {
    if (!p || p->none) return false;
    return !sk_fd_ours(p->hand[0], p->hand_id[0]) || !sk_fd_ours(p->hand[1], p->hand_id[1]) ||
           !sk_fd_ours(p->ep, p->ep_id) || !sk_fd_ours(p->wake, p->wake_id);
}

void sk_prints_close(struct sk_prints *p) {
    if (!p) return;
    while (p->sources.n) forget(p, p->sources.p[0]);
    SK_DCHECK(!p->sources.n);
    sk_vec_free(&p->sources);
    sk_vec_free(&p->in.text);
    close_all(p);
    if (p->ctl) (void)munmap((void *)(uintptr_t)p->ctl, p->ctl_size);
    sk_free(p);
}

void sk_prints_in_child(struct sk_prints *p) {
    for (uint32_t i = 0; i < p->sources.n; i++)
        sk_fd_close(&p->sources.p[i]->fd, p->sources.p[i]->id);
    /* the epoll is shared with the parent, and its list is the parent's: nothing is removed from
     * it */
    close_all(p);
}

bool sk_prints_end(struct sk_prints *p) {
    uint64_t one = 1;
    if (sk_prints_lost(p)) return false;
    if (p->wake >= 0 && write(p->wake, &one, sizeof one) < 0) SK_ASSERT(errno == EAGAIN);
    return true;
}

static bool ended(const struct sk_prints *p, int ms) {
    struct pollfd w = {.fd = p->wake, .events = POLLIN};
    return poll(&w, 1, ms) > 0;
}

bool sk_prints_wait(struct sk_prints *p, int pause_ms) {
    if (pause_ms && ended(p, pause_ms)) return false;
    struct epoll_event ev;
    while (epoll_wait(p->ep, &ev, 1, -1) < 0 && errno == EINTR) continue;
    return !ended(p, 0);
}

void sk_prints_hand_in(struct sk_prints *p, int to, const char *text, size_t n) {
    uint32_t head[2] = {(uint32_t)to, (uint32_t)n};
    struct hello none = {0};
    if (!n || p->none || sk_prints_lost(p)) return;
    pthread_mutex_lock(&p->in.mu);
    bool room = n <= UINT32_MAX &&
                sk_vec_reserve(&p->in.text, SK_TAG_ENGINE, p->in.text.n + sizeof head + n);
    if (room) {
        memcpy(p->in.text.p + p->in.text.n, head, sizeof head);
        memcpy(p->in.text.p + p->in.text.n + sizeof head, text, n);
        p->in.text.n += (uint32_t)(sizeof head + n);
        atomic_fetch_add_explicit(&p->in.n, 1, memory_order_release);
    }
    pthread_mutex_unlock(&p->in.mu);
    /* wakes the thread that shows lines, as a new worker does */
    (void)send(p->hand[1], &none, sizeof none, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void take_handed(struct sk_prints *p, sk_prints_line *line, void *ctx) {
    pthread_mutex_lock(&p->in.mu);
    char *text = p->in.text.p;
    uint32_t n = p->in.text.n, head[2];
    memset(&p->in.text, 0, sizeof p->in.text);
    pthread_mutex_unlock(&p->in.mu);
    for (uint32_t at = 0; at < n; at += (uint32_t)sizeof head + head[1]) {
        memcpy(head, text + at, sizeof head);
        SK_DCHECK(head[1] && text[at + sizeof head + head[1] - 1] == '\n');
        line(ctx, (int)head[0], "", text + at + sizeof head, head[1] - 1);
    }
    sk_free(text);
}

/* ---- new workers ----------------------------------------------------------------------------- */

union rights {
    struct cmsghdr align;
    char bytes[CMSG_SPACE(2 * sizeof(int))];
};

static void add(struct sk_prints *p, int fd, int to, const struct hello *h) {
    struct source *s = sk_calloc(SK_TAG_ENGINE, sizeof *s);
    if (s)
        *s =
            (struct source){.fd = fd, .to = to, .id = sk_fd_id(fd), .slot = h->slot, .pid = h->pid};
    if (!s || fcntl(fd, F_SETFL, O_NONBLOCK) != 0 || !sk_vec_push(&p->sources, SK_TAG_ENGINE, s)) {
        sk_free(s); /* no memory: writes to this pipe fail with EPIPE */
        (void)close(fd);
        return;
    }
    if (!listen_to(p, fd, s)) forget(p, s);
}

static void welcome(struct sk_prints *p) {
    for (;;) {
        union rights ctl;
        struct hello h;
        struct iovec iov = {&h, sizeof h};
        struct msghdr m = {.msg_iov = &iov,
                           .msg_iovlen = 1,
                           .msg_control = ctl.bytes,
                           .msg_controllen = sizeof ctl.bytes};
        ssize_t n = recvmsg(p->hand[0], &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return;
        struct cmsghdr *c = CMSG_FIRSTHDR(&m);
        size_t n_fds = c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS
                           ? (c->cmsg_len - CMSG_LEN(0)) / sizeof(int)
                           : 0;
        for (size_t i = 0; i < n_fds; i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(c) + i * sizeof fd, sizeof fd);
            if (n == (ssize_t)sizeof h && i < 2) add(p, fd, i ? STDERR_FILENO : STDOUT_FILENO, &h);
            else (void)close(fd);
        }
    }
}

/* ---- lines ----------------------------------------------------------------------------------- */

static void say(const struct sk_prints *p, const struct source *s, size_t n, sk_prints_line *line,
                void *ctx) {
    const char *text = s->rest.p;
    char label[160] = "";
    if (n >= 2 && memcmp(text, SK_PRINTS_MARK, 2) == 0) {
        line(ctx, s->to, label, text + 2, n - 2);
        return;
    }
    const struct sk_ctl *ctl = (const struct sk_ctl *)(const void *)p->ctl;
    const struct sk_slot *at =
        s->slot < ctl->n_slots && 4096 + (s->slot + 1) * sk_slot_stride() <= p->ctl_size
            ? (const struct sk_slot *)(const void *)(p->ctl + 4096 + s->slot * sk_slot_stride())
            : NULL;
    bool runs = at && at->pid == s->pid && atomic_load(&at->task);
    snprintf(label, sizeof label, "(%.*s%spid=%d) ",
             runs ? (int)strnlen(at->task_name, sizeof at->task_name) : 0,
             runs ? at->task_name : "", runs ? " " : "", (int)s->pid);
    line(ctx, s->to, label, text, n);
}

/* Finds the first whole line: its length, and the bytes between it and the next line; false:
 * there is none. A mark ends a line that has no end. */
static bool first_line(struct source *s, size_t *len, size_t *gap) {
    for (uint32_t i = s->looked; i < s->rest.n; i++) {
        char c = s->rest.p[i];
        bool mark = c == SK_PRINTS_MARK[0] && i > 0 && i + 1 < s->rest.n &&
                    s->rest.p[i + 1] == SK_PRINTS_MARK[1];
        if (c != '\n' && !mark) continue;
        *len = i;
        *gap = c == '\n';
        return true;
    }
    s->looked = s->rest.n ? s->rest.n - 1 : 0; /* the last byte may be the first half of a mark */
    return false;
}

static void split(const struct sk_prints *p, struct source *s, bool last, sk_prints_line *line,
                  void *ctx) {
    SK_DCHECK(s->looked <= s->rest.n && p->ctl);
    size_t len, gap, done = 0;
    struct source at = *s; /* a copy that walks over the bytes */
    while (first_line(&at, &len, &gap)) {
        say(p, &at, len, line, ctx);
        at.rest.p += len + gap;
        at.rest.n -= (uint32_t)(len + gap);
        at.looked = 0;
        done += len + gap;
    }
    if (at.rest.n && (last || at.rest.n > LINE_MOST)) {
        say(p, &at, at.rest.n, line, ctx);
        done += at.rest.n;
        at.looked = 0;
    }
    if (!done) {
        s->looked = at.looked;
        return;
    }
    SK_DCHECK(done <= s->rest.n);
    s->rest.n -= (uint32_t)done;
    s->looked = at.looked;
    memmove(s->rest.p, s->rest.p + done, s->rest.n);
}

/* Reads what is in a pipe; false: the pipe has ended. */
static bool take_from(struct sk_prints *p, struct source *s, sk_prints_line *line, void *ctx) {
    for (size_t got = 0; got < READ_MOST;) {
        ssize_t n = read(s->fd, p->buf, sizeof p->buf);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && errno == EAGAIN) return true;
        if (n <= 0) {
            if (s->rest.n) split(p, s, true, line, ctx);
            return false;
        }
        got += (size_t)n;
        if (!sk_vec_reserve(&s->rest, SK_TAG_ENGINE, (uint64_t)s->rest.n + (size_t)n)) return false;
        memcpy(s->rest.p + s->rest.n, p->buf, (size_t)n);
        s->rest.n += (uint32_t)n;
        split(p, s, false, line, ctx);
    }
    return true;
}

void sk_prints_take(struct sk_prints *p, bool last, sk_prints_line *line, void *ctx) {
    if (p->none || sk_prints_lost(p)) return;
    /* taken before reading, so that text printed later counts as new */
    p->news.seen = atomic_load_explicit(p->news.now, memory_order_acquire);
    welcome(p);
    take_handed(p, line, ctx);
    for (uint32_t left = last ? 0 : p->sources.n; left;) {
        struct epoll_event ev[AT_ONCE];
        int n = epoll_wait(p->ep, ev, AT_ONCE, 0);
        for (int i = 0; i < n; i++)
            if (ev[i].data.ptr != p->hand && ev[i].data.ptr != &p->wake &&
                !take_from(p, ev[i].data.ptr, line, ctx))
                forget(p, ev[i].data.ptr);
        if (n < AT_ONCE) return;
        left -= SK_MIN(left, AT_ONCE);
    }
    while (last && p->sources.n) {
        struct source *s = p->sources.p[0];
        if (sk_fd_ours(s->fd, s->id)) (void)take_from(p, s, line, ctx);
        if (s->rest.n) split(p, s, true, line, ctx);
        forget(p, s);
    }
}

/* ---- a worker -------------------------------------------------------------------------------- */

static struct {
    /* copies of the driver's descriptors 1 and 2; -1: this process still has them at their
     * places */
    int plain[3];
    struct sk_ctl *ctl;
    int ctl_fd;
    struct sk_fd_id ctl_id;
    bool joined;
    struct stat at[3]; /* identity of the files of descriptors 1 and 2 when the process began */
} mine = {.plain = {-1, -1, -1}, .ctl_fd = -1};

void sk_prints_server(int hand) {
    if (hand >= 0) (void)fcntl(hand, F_SETFD, FD_CLOEXEC);
}

static bool hand_over(int hand, const struct hello *h, const int fds[2]) {
    union rights ctl;
    memset(&ctl, 0, sizeof ctl);
    struct iovec iov = {(void *)(uintptr_t)h, sizeof *h};
    struct msghdr m = {.msg_iov = &iov,
                       .msg_iovlen = 1,
                       .msg_control = ctl.bytes,
                       .msg_controllen = sizeof ctl.bytes};
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(2 * sizeof(int));
    memcpy(CMSG_DATA(c), fds, 2 * sizeof(int));
    ssize_t n;
    do n = sendmsg(hand, &m, MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    return n >= 0;
}

static void replace(int to, int with) {
    mine.plain[to] = fcntl(to, F_DUPFD_CLOEXEC, 3); /* -1 if the driver's descriptor is closed */
    (void)dup2(with, to);
}

static void join(int hand, uint32_t slot) {
    struct rlimit most;
    int out[2] = {-1, -1}, err[2] = {-1, -1};
    if (getrlimit(RLIMIT_NOFILE, &most) == 0 && slot < most.rlim_cur / 4 &&
        pipe2(out, O_CLOEXEC) == 0 && pipe2(err, O_CLOEXEC) == 0 &&
        hand_over(hand, &(struct hello){slot, (int32_t)getpid()}, (const int[2]){out[0], err[0]})) {
        replace(STDOUT_FILENO, out[1]);
        replace(STDERR_FILENO, err[1]);
        mine.joined = true;
    }
    for (int i = 0; i < 2; i++) {
        close_fd(&out[i]);
        close_fd(&err[i]);
    }
    (void)close(hand);
}

void sk_prints_worker(int hand, uint32_t slot, const struct sk_seg *ctl) {
    SK_ASSERT(!mine.ctl && hand >= SK_PRINTS_NONE); /* called once a process */
    mine.ctl = (struct sk_ctl *)(void *)ctl->base;
    mine.ctl_fd = ctl->fd;
    mine.ctl_id = ctl->id;
    if (hand == SK_PRINTS_NONE) {
        int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
        for (int to = 1; null >= 0 && to <= 2; to++) replace(to, null);
        close_fd(&null);
    }
    if (hand >= 0) join(hand, slot);
    for (int to = 1; to <= 2; to++) (void)fstat(to, &mine.at[to]);
}

bool sk_prints_own(int fd, bool *joined) {
    struct stat now;
    *joined = mine.joined;
    return fstat(fd, &now) == 0 && now.st_ino == mine.at[fd].st_ino &&
           now.st_dev == mine.at[fd].st_dev;
}

int sk_prints_plain(int fd) { return mine.plain[fd]; }

void sk_prints_done(void) {
    if (mine.ctl && !sk_stray_)
        atomic_fetch_add_explicit(&mine.ctl->printed, 1, memory_order_release);
}

/* ---- the terminal, which one process at a time has ------------------------------------------- */

/* The terminal is a lock on the first byte of the control segment's file. The kernel releases it
 * when the process that holds it dies. */
int32_t sk_prints_terminal(struct sk_prints *p, bool take, bool wait) {
    struct flock k = {.l_type = take ? F_WRLCK : F_UNLCK, .l_whence = SEEK_SET, .l_len = 1};
    int fd = p ? p->lock_fd : mine.ctl_fd;
    if (!sk_fd_ours(fd, p ? p->lock_id : mine.ctl_id) ||
        fcntl(fd, wait ? F_SETLKW : F_SETLK, &k) == 0)
        return 0;
    if (wait || fcntl(fd, F_GETLK, &k) != 0) return -1; /* a signal has interrupted the wait */
    return k.l_type == F_UNLCK ? -1 : k.l_pid;
}
