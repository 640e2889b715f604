/* tcp.h - frames of msg.h over TCP: connections that are opened and accepted, without a thread of
 * its own. One thread owns a struct sk_tcp and makes all calls that take it, but
 * sk_tcp_wake.
 *
 * A peer is a stranger, whose messages have at most SK_CMSG_STRANGER bytes, until sk_tcp_trust. One
 * that connects and stays a stranger for 30 s is closed. */
#ifndef SK_CLUSTER_TCP_H
#define SK_CLUSTER_TCP_H

#include "engine/cluster/msg.h"

enum { SK_TCP_ADDRESS = 80, SK_TCP_CARRIER = 100 };

struct sk_tcp;
struct sk_tcp_hooks {
    void *ctx;
    /* A message has come; it borrows from the call. If this fails, the connection is closed (and
     * `closed` is called) with the error's text. */
    sk_rc (*message)(void *ctx, uint32_t conn, const struct sk_cmsg *m, struct sk_err *err);
    /* The connection is gone, by the peer, by an error, or because `message` failed. */
    void (*closed)(void *ctx, uint32_t conn, const char *why);
    /* A large VALUE or DATA is coming, of which m has all but the bytes. Gives the memory for them,
     * which has `room` bytes (up to 7 more than the value), and names its owner. They are read to
     * there, and m.value.owner of the message leads to the owner. NULL: no such memory. */
    uint8_t *(*place)(void *ctx, uint32_t conn, const struct sk_cmsg *m, size_t room, void **owner);
    /* Called if `message` did not take the owner over, or if it is never called. */
    void (*unplace)(void *ctx, void *owner);
    int64_t stranger_ns; /* how long one may stay a stranger; 0: 30 s */
};

/* listen_on: an address of this machine, numeric, at which others can connect; NULL: none can.
 * *port is set then. SK_EIO, with the reason. */
sk_rc sk_tcp_open(struct sk_tcp **out, const struct sk_tcp_hooks *hooks, const char *listen_on,
                  uint16_t *port, struct sk_err *err) SK_MUST_USE;
/* Names the carrier of this process: the socket in the abstract UNIX namespace at which it listens.
 * It opens connections to addresses that begin with '@' (TLS; messages of a launcher where ports
 * are closed): the first SK_TCP_ADDRESS bytes that it gets are the rest of the address, padded with
 * zeros, and then it passes on what comes from both sides. Call it before the first connection.
 * SK_EINVAL: the name has more than SK_TCP_CARRIER bytes. */
sk_rc sk_tcp_carried_by(struct sk_tcp *t, const char *name, struct sk_err *err) SK_MUST_USE;
/* Closes all connections, and throws away what waits; no hook is called but unplace. */
void sk_tcp_cut(struct sk_tcp *t);
void sk_tcp_close(struct sk_tcp *t); /* the same, and frees t */

/* Writes the numeric form of "host:port" or "@host:port", which is what the nodes of a cluster tell
 * each other, and which sk_tcp_connect takes without a wait for a name server. Any thread.
 * SK_EINVAL: it is no address, or the name is not known. */
sk_rc sk_tcp_resolve(const char *address, char out[SK_TCP_ADDRESS], struct sk_err *err) SK_MUST_USE;
/* Begins to connect to "host:port", or by the carrier to "@host:port"; what is sent meanwhile
 * waits. `closed` is called if it fails. Numbers of connections are not used again. SK_EINVAL: no
 * such address, or no carrier is named; SK_EIO, also if the carrier is another user's. */
sk_rc sk_tcp_connect(struct sk_tcp *t, const char *address, uint32_t *conn,
                     struct sk_err *err) SK_MUST_USE;
void sk_tcp_trust(struct sk_tcp *t, uint32_t conn);
/* Sends what the outbox holds and empties it: its memory is taken over. If the connection is gone,
 * it is thrown away. */
void sk_tcp_send(struct sk_tcp *t, uint32_t conn, struct sk_outbox *o);
/* Closes the connection when all that waits has been sent, but at most a second later; no hook is
 * called for it any more. */
void sk_tcp_end(struct sk_tcp *t, uint32_t conn);
/* Reads and writes, and calls hooks, until something has happened, the deadline, or sk_tcp_wake. */
sk_rc sk_tcp_pump(struct sk_tcp *t, int64_t deadline_ns, struct sk_err *err) SK_MUST_USE;
void sk_tcp_wake(struct sk_tcp *t); /* any thread; async-signal-safe */

#endif
