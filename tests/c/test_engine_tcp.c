/* test_engine_tcp.c - frames of a cluster over TCP: damaged ones end their connection, however
 * large they are and however few bytes come at once, and nothing of them is told. */
#include "base/mem.h"
#include "base/clock.h"
#include "engine/cluster/tcp.h"
#include "test.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

struct seen {
    struct sk_tcp *t;
    int messages, closed, placed, unplaced;
    uint64_t sum; /* of the bytes that came */
    char why[128];
};

static sk_rc message(void *ctx, uint32_t conn, const struct sk_cmsg *m, struct sk_err *err) {
    struct seen *s = ctx;
    (void)err;
    s->messages++;
    if (m->type == SK_CMSG_HELLO) sk_tcp_trust(s->t, conn);
    if (m->type == SK_CMSG_DATA)
        for (size_t i = 0; i < m->value.bytes.n; i++)
            s->sum += ((const uint8_t *)m->value.bytes.p)[i];
    return SK_OK;
}
static void closed(void *ctx, uint32_t conn, const char *why) {
    struct seen *s = ctx;
    (void)conn;
    s->closed++;
    snprintf(s->why, sizeof s->why, "%s", why);
}
static uint8_t *place(void *ctx, uint32_t conn, const struct sk_cmsg *m, size_t room,
                      void **owner) {
    (void)conn;
    CHECK(m->value.bytes.n <= room && room - m->value.bytes.n < 8);
    ((struct seen *)ctx)->placed++;
    return *owner = sk_alloc(SK_TAG_TEST, room);
}
static void unplace(void *ctx, void *owner) {
    ((struct seen *)ctx)->unplaced++;
    sk_free(owner);
}

static struct sk_tcp_hooks hooks_of(struct seen *s) {
    return (struct sk_tcp_hooks){
        .ctx = s, .message = message, .closed = closed, .place = place, .unplace = unplace};
}
static int connected(uint16_t port) { /* a plain socket */
    struct sockaddr_in to = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK_EQ(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    return fd;
}

/* Sends bytes from a plain socket, and pumps until all is read and the connection is over. */
static struct seen after(const uint8_t *p, size_t n, size_t at_once) {
    struct seen s = {0};
    struct sk_tcp_hooks hooks = hooks_of(&s);
    uint16_t port;
    CHECK_OK(sk_tcp_open(&s.t, &hooks, "127.0.0.1", &port, NULL));
    int fd = connected(port);
    for (size_t at = 0; at < n;) {
        ssize_t k = send(fd, p + at, SK_MIN(at_once, n - at), MSG_NOSIGNAL | MSG_DONTWAIT);
        if (k > 0) at += (size_t)k;
        else if (s.closed) break;
        CHECK_OK(sk_tcp_pump(s.t, sk_now_ns() + 1000000, NULL));
    }
    CHECK_EQ(shutdown(fd, SHUT_WR), 0);
    while (!s.closed) CHECK_OK(sk_tcp_pump(s.t, sk_now_ns() + 10000000000, NULL));
    close(fd);
    sk_tcp_close(s.t);
    return s;
}

/* HELLO, then DATA with n bytes, as one run of bytes. */
static struct sk_outbox frames(size_t n, uint64_t *sum) {
    uint8_t *bytes = sk_alloc(SK_TAG_TEST, n);
    *sum = 0;
    for (size_t i = 0; i < n; i++) *sum += bytes[i] = (uint8_t)(i * 31 + i / 256);
    struct sk_outbox o = {0};
    struct sk_cmsg hello = {.type = SK_CMSG_HELLO, .hello = {.version = SK_CMSG_VERSION}},
                   data = {.type = SK_CMSG_DATA, .value = {.ask = 1, .bytes = {bytes, n}}};
    CHECK_OK(sk_cmsg_put(&o, &hello, NULL));
    CHECK_OK(sk_cmsg_put(&o, &data, NULL));
    sk_free(bytes);
    return o;
}

TEST(tcp_frames_come_whole_or_end_their_connection) {
    static const size_t sizes[] = {0, 1, 100, 8192, SK_CMSG_LARGE - 1, SK_CMSG_LARGE + 3, 1 << 20};
    for (uint32_t i = 0; i < SK_COUNT(sizes); i++)
        for (int r = 0; r < 8; r++) {
            uint64_t sum;
            struct sk_outbox o = frames(sizes[i], &sum);
            size_t at_once = r % 2 ? o.n : 1 + (size_t)test_below(o.n);
            struct seen s = after(o.p, o.n, at_once);
            CHECK(s.messages == 2 && s.sum == sum &&
                  s.placed == (sizes[i] + SK_CMSG_VALUE_HEAD >= SK_CMSG_LARGE));
            CHECK_EQ(s.placed, s.unplaced);
            /* a bit of a body, or of its checksum */
            size_t hello = o.n - SK_CMSG_HEAD - (size_t)SK_ALIGN(SK_CMSG_VALUE_HEAD + sizes[i], 8),
                   at = hello + 8 + (size_t)test_below(o.n - hello - 8);
            if (at - hello >= 12 && at - hello < SK_CMSG_HEAD) at -= 4; /* not used */
            o.p[at] ^= (uint8_t)(1 << test_below(8));
            s = after(o.p, o.n, at_once);
            CHECK(s.messages == 1 && !s.sum && s.placed == s.unplaced);
            CHECK(!strcmp(s.why, "a message came with a wrong checksum"));
            sk_outbox_free(&o);
        }
}

TEST(tcp_strangers_say_little) {
    uint64_t sum;
    struct sk_outbox o = frames(2 * SK_CMSG_STRANGER, &sum);
    size_t hello = o.n - SK_CMSG_HEAD - SK_CMSG_VALUE_HEAD - 2 * SK_CMSG_STRANGER;
    struct seen s = after(o.p + hello, o.n - hello, o.n);
    CHECK(!s.messages && !strcmp(s.why, "it does not speak like a node of a cluster"));
    sk_outbox_free(&o);
}

/* Else whoever reaches the port could take all descriptors of a node. */
TEST(tcp_strangers_do_not_stay) {
    struct seen s = {0};
    struct sk_tcp_hooks hooks = hooks_of(&s);
    hooks.stranger_ns = 400 * SK_MS;
    uint64_t sum;
    struct sk_outbox o = frames(8, &sum);
    uint16_t port;
    int fd[2];
    CHECK_OK(sk_tcp_open(&s.t, &hooks, "127.0.0.1", &port, NULL));
    for (int i = 0; i < 2; i++) fd[i] = connected(port);
    CHECK_EQ(send(fd[1], o.p, o.n, MSG_NOSIGNAL), (ssize_t)o.n); /* HELLO, so it stays */
    int64_t until = sk_now_ns() + 10 * SK_SEC;
    while (!(s.closed && s.messages == 2) && sk_now_ns() < until)
        CHECK_OK(sk_tcp_pump(s.t, until, NULL));
    CHECK(s.closed == 1 && !strcmp(s.why, "it has not said who it is"));
    until = sk_now_ns() + 100 * SK_MS;
    while (sk_now_ns() < until) CHECK_OK(sk_tcp_pump(s.t, until, NULL));
    CHECK(s.closed == 1 && s.messages == 2);
    for (int i = 0; i < 2; i++) close(fd[i]);
    sk_outbox_free(&o);
    sk_tcp_close(s.t);
}

/* ---- carriers -------------------------------------------------------------------------------- */

static int listen_as(const char *name) {
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    memcpy(at.sun_path + 1, name, strlen(name));
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    socklen_t n = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name));
    CHECK_EQ(bind(fd, (struct sockaddr *)&at, n), 0);
    CHECK_EQ(listen(fd, 4), 0);
    return fd;
}

TEST(tcp_carriers_get_the_address_and_then_all_bytes) {
    struct seen s = {0};
    struct sk_tcp_hooks hooks = hooks_of(&s);
    struct sk_err err = {0};
    char name[40], address[SK_TCP_ADDRESS], got[SK_TCP_ADDRESS];
    uint32_t conn;
    uint64_t sum;
    snprintf(name, sizeof name, "skate-test-carrier-%d", (int)getpid());
    CHECK_OK(sk_tcp_open(&s.t, &hooks, NULL, NULL, NULL));
    CHECK_OK(sk_tcp_resolve("@127.0.0.1:77", address, NULL));
    CHECK(!strcmp(address, "@127.0.0.1:77"));
    CHECK_EQ(sk_tcp_connect(s.t, address, &conn, &err), SK_EINVAL);
    CHECK_STR_HAS(err.msg, "this process has no carrier");
    CHECK_OK(sk_tcp_carried_by(s.t, name, NULL));
    CHECK_EQ(sk_tcp_connect(s.t, address, &conn, &err), SK_EIO);
    CHECK_STR_HAS(err.msg, "the carrier of this process");
    int at = listen_as(name);
    CHECK_OK(sk_tcp_connect(s.t, address, &conn, NULL));
    int fd = accept(at, NULL, NULL);
    struct sk_outbox o = frames(100, &sum), copy = frames(100, &sum);
    sk_tcp_send(s.t, conn, &o);
    for (int i = 0; i < 3; i++) CHECK_OK(sk_tcp_pump(s.t, sk_now_ns() + 1000000, NULL));
    CHECK_EQ(recv(fd, got, sizeof got, MSG_WAITALL), (ssize_t)sizeof got);
    CHECK(!memcmp(got, "127.0.0.1:77\0", 13));
    uint8_t *bytes = sk_alloc(SK_TAG_TEST, copy.n);
    CHECK_EQ(recv(fd, bytes, copy.n, MSG_WAITALL), (ssize_t)copy.n);
    CHECK(!memcmp(bytes, copy.p, copy.n));
    CHECK_EQ(send(fd, copy.p, copy.n, MSG_NOSIGNAL), (ssize_t)copy.n); /* and back */
    CHECK_EQ(shutdown(fd, SHUT_WR), 0);
    while (!s.closed) CHECK_OK(sk_tcp_pump(s.t, sk_now_ns() + 10000000000, NULL));
    CHECK(s.messages == 2 && s.sum == sum);
    sk_outbox_free(&copy);
    sk_free(bytes);
    sk_tcp_close(s.t);
    close(fd);
    close(at);
}
