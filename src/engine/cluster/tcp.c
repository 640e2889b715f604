/* tcp.c - frames over TCP by epoll (contract: tcp.h). */
#include "engine/cluster/tcp.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/containers/map.h"
#include "base/containers/vec.h"

#define TAG SK_TAG_ENGINE
enum {
    STAGE = 256 << 10, /* bytes that one read takes; larger bodies are read in place */
    FEW = 4 << 10,     /* the same where large values follow each other: these bytes are copied */
    PARTS = 16,        /* buffers that one write gathers */
    ROUNDS = 8,        /* reads of one connection before others have their turn */
};
#define LINGER_NS SK_SEC
#define STRANGER_NS (30 * SK_SEC)

struct piece {
    const uint8_t *p;
    size_t n, at;
    void *mem; /* freed when the piece has been sent; NULL: nothing is */
    struct sk_apart apart;
};
struct conn {
    uint32_t id;
    int fd;
    bool connecting, trusted, ending, wants_out;
    int64_t end_ns; /* of one that is ending, or a stranger: when it is closed; 0: never */
    SK_VEC(struct piece) out;
    /* a frame whose head has come: body of body_n bytes, of which body_at have come */
    uint8_t head[SK_CMSG_HEAD];
    uint32_t head_at, type;
    uint8_t *body; /* where the bytes of the body from `from` on go to; NULL: not known yet */
    uint64_t body_n, body_at, from;
    /* of a large value: the start of the body, and who owns `body`; NULL: this file does */
    uint8_t start[SK_CMSG_VALUE_HEAD];
    void *owner;
    bool bulk; /* the frame that came last, or comes now, is a large value */
};
struct sk_tcp {
    struct sk_tcp_hooks hooks;
    int epoll, listener, bell;
    char carrier[SK_TCP_CARRIER + 1]; /* "": there is none */
    struct sk_map conns;
    uint32_t next;
    uint8_t *stage;
};

static void piece_free(struct piece *p) {
    sk_free(p->mem);
    if (p->apart.release) p->apart.release(p->apart.ctx, p->apart.owner);
}

static void conn_free(struct sk_tcp *t, struct conn *c) {
    sk_map_del(&t->conns, c->id);
    (void)epoll_ctl(t->epoll, EPOLL_CTL_DEL, c->fd, NULL);
    close(c->fd);
    for (uint32_t i = 0; i < c->out.n; i++) piece_free(&c->out.p[i]);
    sk_vec_free(&c->out);
    if (c->owner) t->hooks.unplace(t->hooks.ctx, c->owner);
    else sk_free(c->body);
    sk_free(c);
}

static void fail(struct sk_tcp *t, struct conn *c, const char *why) {
    SK_DCHECK(why && sk_map_get(&t->conns, c->id) == c);
    uint32_t id = c->id;
    bool quiet = c->ending;
    conn_free(t, c);
    if (!quiet) t->hooks.closed(t->hooks.ctx, id, why);
}

static void fail_errno(struct sk_tcp *t, struct conn *c, const char *what, int e) {
    char text[160], name[100];
    snprintf(text, sizeof text, "%s: %s", what, strerror_r(e, name, sizeof name));
    fail(t, c, text);
}

static sk_rc watch(struct sk_tcp *t, struct conn *c, bool add, struct sk_err *err) {
    struct epoll_event ev = {.events = EPOLLIN | (c->wants_out ? (uint32_t)EPOLLOUT : 0),
                             .data.u64 = c->id};
    if (epoll_ctl(t->epoll, add ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, c->fd, &ev) == 0) return SK_OK;
    return SK_ERR_SYS(err, "epoll");
}

static struct conn *conn_new(struct sk_tcp *t, int fd, bool connecting, struct sk_err *err) {
    struct conn *c = sk_calloc(TAG, sizeof *c);
    int on = 1;
    if (!c || sk_map_put(&t->conns, t->next, c) != SK_OK) {
        sk_free(c);
        close(fd);
        (void)!SK_ERR(err, SK_ENOMEM, "connection");
        return NULL;
    }
    c->id = t->next++;
    c->fd = fd;
    c->connecting = c->wants_out = connecting;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on); /* only slower without it */
    if (watch(t, c, true, err) == SK_OK) return c;
    conn_free(t, c);
    return NULL;
}

/* ---- opening --------------------------------------------------------------------------------- */

static sk_rc resolve(const char *host, const char *port, bool passive, struct addrinfo **out,
                     struct sk_err *err) {
    struct addrinfo hint = {.ai_socktype = SOCK_STREAM,
                            .ai_flags = passive ? AI_PASSIVE | AI_NUMERICHOST : 0};
    int rc = getaddrinfo(host, port, &hint, out);
    if (rc == 0) return SK_OK;
    return SK_ERR(err, SK_EINVAL, "%s:%s: %s", host, port, gai_strerror(rc));
}

static sk_rc listen_at(struct sk_tcp *t, const char *host, uint16_t *port, struct sk_err *err) {
    struct addrinfo *a;
    struct sockaddr_storage at = {0};
    socklen_t n = sizeof at;
    SK_TRY(resolve(host, "0", true, &a, err));
    t->listener = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    bool good = t->listener >= 0 && bind(t->listener, a->ai_addr, a->ai_addrlen) == 0 &&
                listen(t->listener, 128) == 0 &&
                getsockname(t->listener, (struct sockaddr *)&at, &n) == 0;
    freeaddrinfo(a);
    if (!good) return SK_ERR_SYS(err, "listen at %s", host);
    *port = ntohs(at.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&at)->sin6_port
                                           : ((struct sockaddr_in *)&at)->sin_port);
    struct epoll_event ev = {.events = EPOLLIN, .data.u64 = 0};
    if (epoll_ctl(t->epoll, EPOLL_CTL_ADD, t->listener, &ev) == 0) return SK_OK;
    return SK_ERR_SYS(err, "epoll");
}

#define BELL UINT64_MAX

sk_rc sk_tcp_open(struct sk_tcp **out, const struct sk_tcp_hooks *hooks, const char *listen_on,
                  uint16_t *port, struct sk_err *err) {
    struct sk_tcp *t = sk_calloc(TAG, sizeof *t);
    if (!t) return SK_ERR(err, SK_ENOMEM, "connections");
    t->hooks = *hooks;
    if (!t->hooks.stranger_ns) t->hooks.stranger_ns = STRANGER_NS;
    t->listener = -1;
    t->next = 1;
    sk_map_init(&t->conns, TAG);
    t->epoll = epoll_create1(EPOLL_CLOEXEC);
    t->bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    t->stage = sk_alloc(TAG, STAGE);
    struct epoll_event ev = {.events = EPOLLIN, .data.u64 = BELL};
    sk_rc rc = SK_OK;
    if (!t->stage) rc = SK_ERR(err, SK_ENOMEM, "connections");
    else if (t->epoll < 0 || t->bell < 0 || epoll_ctl(t->epoll, EPOLL_CTL_ADD, t->bell, &ev) != 0)
        rc = SK_ERR_SYS(err, "epoll");
    if (rc == SK_OK && listen_on) rc = listen_at(t, listen_on, port, err);
    if (rc == SK_OK) *out = t;
    else sk_tcp_close(t);
    return rc;
}

sk_rc sk_tcp_carried_by(struct sk_tcp *t, const char *name, struct sk_err *err) {
    SK_DCHECK(t->next == 1);
    if (strlen(name) > SK_TCP_CARRIER)
        return SK_ERR(err, SK_EINVAL, "the name of a carrier has at most %d bytes", SK_TCP_CARRIER);
    memcpy(t->carrier, name, strlen(name) + 1);
    return SK_OK;
}

void sk_tcp_cut(struct sk_tcp *t) {
    uint64_t key;
    void *val;
    SK_VEC(struct conn *) all = {0};
    for (uint32_t i = 0; sk_map_next(&t->conns, &i, &key, &val);)
        if (!sk_vec_push(&all, TAG, (struct conn *)val)) abort();
    for (uint32_t i = 0; i < all.n; i++) conn_free(t, all.p[i]);
    sk_vec_free(&all);
}

void sk_tcp_close(struct sk_tcp *t) {
    sk_tcp_cut(t);
    sk_map_deinit(&t->conns);
    if (t->listener >= 0) close(t->listener);
    if (t->epoll >= 0) close(t->epoll);
    if (t->bell >= 0) close(t->bell);
    sk_free(t->stage);
    sk_free(t);
}

/* Gives the addresses of "host:port", which the caller frees. */
static sk_rc addresses_of(const char *address, struct addrinfo **out, struct sk_err *err) {
    char host[256];
    const char *colon = strrchr(address, ':');
    if (!colon || (size_t)(colon - address) >= sizeof host)
        return SK_ERR(err, SK_EINVAL, "%s is no address (HOST:PORT)", address);
    size_t skip = address[0] == '[' && colon > address + 1 && colon[-1] == ']';
    snprintf(host, sizeof host, "%.*s", (int)((size_t)(colon - address) - 2 * skip),
             address + skip);
    return resolve(host, colon + 1, false, out, err);
}

sk_rc sk_tcp_resolve(const char *address, char out[SK_TCP_ADDRESS], struct sk_err *err) {
    struct addrinfo *a;
    char host[64], port[8]; /* numeric ones are shorter */
    bool carried = address[0] == '@';
    SK_TRY(addresses_of(address + carried, &a, err));
    int rc = getnameinfo(a->ai_addr, a->ai_addrlen, host, sizeof host, port, sizeof port,
                         NI_NUMERICHOST | NI_NUMERICSERV);
    bool six = a->ai_family == AF_INET6;
    freeaddrinfo(a);
    if (rc != 0) return SK_ERR(err, SK_EINVAL, "%s: %s", address, gai_strerror(rc));
    snprintf(out, SK_TCP_ADDRESS, six ? "%s[%s]:%s" : "%s%s:%s", carried ? "@" : "", host, port);
    return SK_OK;
}

static sk_rc connect_carrier(struct sk_tcp *t, const char *address, uint32_t *conn,
                             struct sk_err *err) {
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    struct ucred who = {0};
    socklen_t n = sizeof who;
    if (!*t->carrier || strlen(address) >= SK_TCP_ADDRESS)
        return SK_ERR(err, SK_EINVAL, "%s: %s", address,
                      *t->carrier ? "the address is too long" : "this process has no carrier");
    memcpy(at.sun_path + 1, t->carrier, strlen(t->carrier));
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(t->carrier));
    bool good = fd >= 0 && connect(fd, (struct sockaddr *)&at, size) == 0 &&
                getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &n) == 0;
    sk_rc rc = good ? SK_OK : SK_ERR_SYS(err, "connect to the carrier of this process");
    if (good && who.uid != geteuid())
        rc = SK_ERR(err, SK_EIO, "the carrier of this process is another user's");
    struct piece first = {.n = SK_TCP_ADDRESS};
    if (rc == SK_OK && !(first.mem = sk_calloc(TAG, SK_TCP_ADDRESS)))
        rc = SK_ERR(err, SK_ENOMEM, "connection");
    if (rc != SK_OK) {
        if (fd >= 0) close(fd);
        return rc;
    }
    struct conn *c = conn_new(t, fd, true, err);
    first.p = memcpy(first.mem, address, strlen(address));
    if (c && sk_vec_push(&c->out, TAG, first)) {
        *conn = c->id;
        return SK_OK;
    }
    sk_free(first.mem);
    if (c) conn_free(t, c);
    return c ? SK_ERR(err, SK_ENOMEM, "connection") : err ? err->code : SK_ENOMEM;
}

sk_rc sk_tcp_connect(struct sk_tcp *t, const char *address, uint32_t *conn, struct sk_err *err) {
    struct addrinfo *a;
    if (address[0] == '@') return connect_carrier(t, address + 1, conn, err);
    SK_TRY(addresses_of(address, &a, err));
    int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    bool good = fd >= 0 && (connect(fd, a->ai_addr, a->ai_addrlen) == 0 || errno == EINPROGRESS);
    freeaddrinfo(a);
    if (!good) {
        sk_rc rc = SK_ERR_SYS(err, "connect to %s", address);
        if (fd >= 0) close(fd);
        return rc;
    }
    struct conn *c = conn_new(t, fd, true, err);
    if (!c) return err ? err->code : SK_ENOMEM;
    *conn = c->id;
    return SK_OK;
}

void sk_tcp_trust(struct sk_tcp *t, uint32_t conn) {
    struct conn *c = sk_map_get(&t->conns, conn);
    if (c) c->trusted = true;
}

static void accept_all(struct sk_tcp *t) {
    for (;;) {
        int fd = accept4(t->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0) return; /* none, or too many files: the peer tries again */
        struct conn *c = conn_new(t, fd, false, NULL);
        if (c) c->end_ns = sk_now_ns() + t->hooks.stranger_ns;
    }
}

/* ---- writing --------------------------------------------------------------------------------- */

/* Writes as much as goes. False: the connection is gone. */
static bool flush(struct sk_tcp *t, struct conn *c) {
    while (!c->connecting && c->out.n) {
        struct iovec v[PARTS];
        uint32_t k = SK_MIN(c->out.n, (uint32_t)PARTS), done = 0;
        for (uint32_t i = 0; i < k; i++)
            v[i] = (struct iovec){(uint8_t *)(uintptr_t)c->out.p[i].p + c->out.p[i].at, /* NOLINT */
                                  c->out.p[i].n - c->out.p[i].at};
        ssize_t n = writev(c->fd, v, (int)k);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && errno == EAGAIN) break;
        if (n < 0) {
            fail_errno(t, c, "send", errno);
            return false;
        }
        for (size_t left = (size_t)n; done < k; done++) {
            struct piece *p = &c->out.p[done];
            size_t part = SK_MIN(left, p->n - p->at);
            p->at += part;
            left -= part;
            if (p->at < p->n) break;
            piece_free(p);
        }
        memmove(c->out.p, c->out.p + done, (c->out.n - done) * sizeof *c->out.p);
        c->out.n -= done;
    }
    bool wants = c->connecting || c->out.n;
    if (c->ending && !wants) {
        conn_free(t, c);
        return false;
    }
    if (wants == c->wants_out) return true;
    c->wants_out = wants;
    struct sk_err err;
    if (watch(t, c, false, &err) == SK_OK) return true;
    fail(t, c, err.msg);
    return false;
}

void sk_tcp_send(struct sk_tcp *t, uint32_t conn, struct sk_outbox *o) {
    SK_DCHECK(o->n <= o->cap);
    struct conn *c = sk_map_get(&t->conns, conn);
    if (!o->n || !c || c->ending) {
        sk_outbox_free(o);
        return;
    }
    size_t at = 0;
    if (!sk_vec_reserve(&c->out, TAG, c->out.n + 2 * (size_t)o->apart.n + 1))
        abort(); /* a message would be lost */
    for (uint32_t i = 0; i < o->apart.n; i++) {
        const struct sk_apart *a = &o->apart.p[i];
        (void)!sk_vec_push(&c->out, TAG, (struct piece){.p = o->p + at, .n = a->at - at});
        (void)!sk_vec_push(&c->out, TAG,
                           (struct piece){.p = a->bytes.p, .n = a->bytes.n, .apart = *a});
        at = a->at;
    }
    (void)!sk_vec_push(&c->out, TAG, (struct piece){.p = o->p + at, .n = o->n - at, .mem = o->p});
    sk_vec_free(&o->apart);
    *o = (struct sk_outbox){0};
    (void)flush(t, c);
}

void sk_tcp_end(struct sk_tcp *t, uint32_t conn) {
    struct conn *c = sk_map_get(&t->conns, conn);
    if (!c) return;
    c->ending = true;
    c->end_ns = sk_now_ns() + LINGER_NS;
    (void)flush(t, c);
}

/* ---- reading --------------------------------------------------------------------------------- */

/* Hands a whole frame over; owner: of a body that was placed. False: the connection is gone. */
static bool deliver(struct sk_tcp *t, struct conn *c, struct sk_bytes body, void **owner) {
    SK_DCHECK((uintptr_t)body.p % 8 == 0);
    struct sk_cmsg m;
    struct sk_err err = {0};
    uint32_t id = c->id;
    sk_rc rc = SK_OK;
    struct sk_bytes start = {c->start, owner ? sizeof c->start : 0},
                    rest = {body.p, body.n - start.n};
    if (!sk_cmsg_whole(c->head, start, rest)) {
        fail(t, c, "a message came with a wrong checksum");
        return false;
    }
    if (owner) {
        SK_ASSERT(sk_cmsg_read_value_head(c->type, c->start, c->body_n, &m)); /* read before */
        m.value.bytes.p = body.p;
        m.value.owner = owner;
    } else rc = sk_cmsg_read(c->type, body, &m, &err);
    if (rc == SK_OK && !c->ending) rc = t->hooks.message(t->hooks.ctx, id, &m, &err);
    if (sk_map_get(&t->conns, id) != c) return false;
    if (rc == SK_OK) return true;
    fail(t, c, err.msg);
    return false;
}

/* True if the body is one that can be placed. */
static bool is_large(const struct sk_tcp *t, const struct conn *c) {
    return t->hooks.place && c->trusted && c->body_n >= SK_CMSG_LARGE &&
           (c->type == SK_CMSG_VALUE || c->type == SK_CMSG_DATA);
}

/* Takes the head of a frame. False: the connection is gone. */
static bool begin_body(struct sk_tcp *t, struct conn *c) {
    SK_ASSERT(!c->body && c->head_at == SK_CMSG_HEAD);
    sk_cmsg_head(c->head, &c->body_n, &c->type);
    if (!c->trusted && c->body_n > SK_CMSG_STRANGER) {
        fail(t, c, "it does not speak like a node of a cluster");
        return false;
    }
    c->body_at = c->from = 0;
    c->bulk = is_large(t, c);
    return true;
}

/* Takes the start of a large value, and finds the memory for the rest. False: no memory. */
static bool begin_large(struct sk_tcp *t, struct conn *c) {
    struct sk_cmsg m;
    size_t room = (size_t)(c->body_n - sizeof c->start);
    SK_ASSERT(c->body_at == sizeof c->start && !c->body);
    if (sk_cmsg_read_value_head(c->type, c->start, c->body_n, &m))
        c->body = t->hooks.place(t->hooks.ctx, c->id, &m, room, &c->owner);
    SK_DCHECK(!c->body == !c->owner);
    if (c->body) {
        c->from = sizeof c->start;
        return true;
    }
    c->body = sk_alloc(TAG, (size_t)c->body_n);
    if (c->body) memcpy(c->body, c->start, sizeof c->start);
    return c->body != NULL;
}

/* Takes n bytes that have been read. False: the connection is gone. */
static bool take(struct sk_tcp *t, struct conn *c, const uint8_t *p, size_t n) {
    while (n || c->head_at == SK_CMSG_HEAD) {
        SK_ASSERT(c->head_at <= SK_CMSG_HEAD && c->body_at <= c->body_n);
        if (c->head_at < SK_CMSG_HEAD) {
            size_t k = SK_MIN(n, (size_t)(SK_CMSG_HEAD - c->head_at));
            memcpy(c->head + c->head_at, p, k);
            c->head_at += (uint32_t)k;
            p += k;
            n -= k;
            if (c->head_at < SK_CMSG_HEAD) return true;
            if (!begin_body(t, c)) return false;
        }
        if (!c->body && c->bulk && c->body_at < sizeof c->start) {
            size_t k = SK_MIN(n, sizeof c->start - (size_t)c->body_at);
            memcpy(c->start + c->body_at, p, k);
            c->body_at += k;
            p += k;
            n -= k;
            if (c->body_at < sizeof c->start) return true;
            if (!begin_large(t, c)) {
                fail(t, c, "no memory for a message");
                return false;
            }
        }
        if (!c->body && n >= c->body_n) { /* it is here as a whole, and 8-byte aligned or copied */
            size_t k = (size_t)c->body_n;
            uint8_t *copy = NULL;
            if ((uintptr_t)p % 8 && !(copy = sk_memdup(TAG, p, k))) abort();
            c->head_at = 0;
            bool on = deliver(t, c, (struct sk_bytes){copy ? copy : p, k}, NULL);
            sk_free(copy);
            if (!on) return false;
            p += k;
            n -= k;
            continue;
        }
        if (!c->body && !(c->body = sk_alloc(TAG, (size_t)c->body_n))) {
            fail(t, c, "no memory for a message");
            return false;
        }
        size_t k = (size_t)SK_MIN(n, c->body_n - c->body_at);
        if (k) {
            memcpy(c->body + (c->body_at - c->from), p, k);
            p += k;
        }
        c->body_at += k;
        n -= k;
        if (c->body_at < c->body_n) return true;
        uint8_t *body = c->body;
        void *owner = c->owner;
        bool placed = c->from != 0;
        c->body = NULL;
        c->owner = NULL;
        c->head_at = 0;
        bool on = deliver(t, c, (struct sk_bytes){body, (size_t)c->body_n}, placed ? &owner : NULL);
        if (!placed) sk_free(body);
        else if (owner) t->hooks.unplace(t->hooks.ctx, owner);
        if (!on) return false;
    }
    return true;
}

/* Reads into the rest of a body that has its memory, and what is beyond it into the stage. */
static void read_from(struct sk_tcp *t, struct conn *c) {
    for (int i = 0; i < ROUNDS; i++) {
        size_t rest = c->body ? (size_t)(c->body_n - c->body_at) : 0, most = c->bulk ? FEW : STAGE;
        struct iovec to[2] = {{c->body ? c->body + (c->body_at - c->from) : t->stage, rest},
                              {t->stage, most}};
        ssize_t n = readv(c->fd, to, 2);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && errno == EAGAIN) return;
        if (n < 0) {
            fail_errno(t, c, "receive", errno);
            return;
        }
        if (n == 0) {
            fail(t, c, "the connection was closed");
            return;
        }
        size_t placed = SK_MIN((size_t)n, rest);
        c->body_at += placed;
        if (placed < rest) return; /* there is no more now */
        if (!take(t, c, t->stage, (size_t)n - placed)) return;
        if ((size_t)n < rest + most) return;
    }
}

/* ---- the pump -------------------------------------------------------------------------------- */

static void ready(struct sk_tcp *t, struct conn *c, uint32_t events) {
    if (c->connecting && (events & (EPOLLOUT | EPOLLERR | EPOLLHUP))) {
        int e = 0;
        socklen_t n = sizeof e;
        (void)getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &e, &n); /* e stays 0 if that fails */
        if (e) {
            fail_errno(t, c, "connect", e);
            return;
        }
        c->connecting = false;
    }
    if ((events & EPOLLOUT) && !flush(t, c)) return;
    if (events & (EPOLLIN | EPOLLHUP | EPOLLERR)) read_from(t, c);
}

/* Closes a connection that has been ending, or of a stranger, for too long; returns when the next
 * is due. */
static int64_t reap(struct sk_tcp *t, int64_t deadline_ns) {
    uint64_t key;
    void *val;
    int64_t now = sk_now_ns();
    struct conn *late = NULL;
    for (uint32_t i = 0; sk_map_next(&t->conns, &i, &key, &val);) {
        struct conn *c = val;
        if (!c->end_ns || (c->trusted && !c->ending)) continue;
        if (c->end_ns <= now) late = c;
        deadline_ns = SK_MIN(deadline_ns, c->end_ns);
    }
    if (late) fail(t, late, "it has not said who it is");
    return deadline_ns;
}

sk_rc sk_tcp_pump(struct sk_tcp *t, int64_t deadline_ns, struct sk_err *err) {
    struct epoll_event ev[32];
    int64_t until = reap(t, deadline_ns), left = until - sk_now_ns();
    int ms = left <= 0 ? 0 : (int)SK_MIN((left + SK_MS - 1) / SK_MS, (int64_t)60000);
    int n = epoll_wait(t->epoll, ev, SK_COUNT(ev), ms);
    if (n < 0 && errno == EINTR) return SK_OK;
    if (n < 0) return SK_ERR_SYS(err, "epoll");
    for (int i = 0; i < n; i++) {
        uint64_t id = ev[i].data.u64, count;
        struct conn *c = id == BELL ? NULL : sk_map_get(&t->conns, id);
        if (id == BELL) (void)!read(t->bell, &count, sizeof count); /* it was only to wake */
        else if (!id) accept_all(t);
        else if (c) ready(t, c, ev[i].events);
    }
    return SK_OK;
}

void sk_tcp_wake(struct sk_tcp *t) {
    uint64_t one = 1;
    int e = errno;
    (void)!write(t->bell, &one, sizeof one); /* full: it is awake */
    errno = e;
}
