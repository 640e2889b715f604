/* node.c - the thread of a node: the agent's messages over TCP (contract: node.h).
 *
 * Whoever connects says HELLO first, with the secret of the job. The first driver is the driver for
 * good; a node that has lost it ends, since nobody would ever ask for what it does. */
#include "engine/cluster/node.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <time.h>

#include "base/clock.h"
#include "base/containers/map.h"
#include "engine/cluster/agent.h"
#include "engine/cluster/tcp.h"
#include "engine/cluster/which/where.h"

#define TAG SK_TAG_ENGINE
#define BEAT_NS (SK_SEC / 2)
#define PART_NS SK_SEC       /* how long the end waits for the driver to take what is left */
#define WAIT_NS (20 * SK_MS) /* as long as a task waits for an object: room for another one */
/* Least time between two messages that tell what is free, when tasks begin and end. */
#define SOON_NS (SK_SEC / 20)

struct sk_cluster_node {
    struct sk_node_conf conf;
    uint8_t secret[SK_SECRET];
    char *name;
    struct sk_bytes labels;
    struct sk_engine *e;
    struct sk_agent *agent;
    struct sk_tcp *tcp;
    uint64_t incarnation;
    uint32_t number, driver; /* number: told by the driver; driver: its connection, 0: none yet */
    struct sk_map conns;     /* connection -> number of the node + 1, once it has said HELLO */
    struct sk_map peers;     /* number of a node -> connection to it */
    int64_t heard_ns, start_ns;
    pthread_t thread;
    pthread_mutex_t mu;
    pthread_cond_t over_cond;
    bool over, stop; /* guarded by mu */
    bool bye;        /* the driver has said BYE, and waits for the answer */
    atomic_bool printed;
    struct sk_err why;
};

static void *as_ptr(uint32_t x) { return (void *)(uintptr_t)x; } /* NOLINT: a number in a map */
static uint32_t conn_of(const struct sk_cluster_node *n, uint32_t peer) {
    return (uint32_t)(uintptr_t)sk_map_get(&n->peers, peer);
}

static void end(struct sk_cluster_node *n, sk_rc rc, const char *why) {
    pthread_mutex_lock(&n->mu);
    if (!n->over) {
        n->why.code = rc;
        snprintf(n->why.msg, sizeof n->why.msg, "%s", why);
    }
    n->over = true;
    pthread_cond_broadcast(&n->over_cond);
    pthread_mutex_unlock(&n->mu);
}

/* True if the secrets are equal; takes equally long for all that differ. */
static bool same_secret(const uint8_t *a, const uint8_t *b) {
    uint8_t diff = 0;
    for (int i = 0; i < SK_SECRET; i++) diff |= a[i] ^ b[i];
    return !diff;
}

static void send_now(struct sk_cluster_node *n, uint32_t conn, const struct sk_cmsg *m) {
    struct sk_outbox o = {0};
    if (sk_cmsg_put(&o, m, NULL) != SK_OK) abort();
    sk_tcp_send(n->tcp, conn, &o);
}

/* ---- HELLO ----------------------------------------------------------------------------------- */

static void welcome(struct sk_cluster_node *n, uint32_t conn, const char *why) {
    SK_DCHECK(conn && why);
    struct sk_node sum = {0};
    if (sk_engine_sum(n->e, &sum, NULL) != SK_OK) why = "its engine is closed";
    struct sk_cmsg m = {.type = SK_CMSG_WELCOME,
                        .welcome = {.version = SK_CMSG_VERSION,
                                    .incarnation = n->incarnation,
                                    .total = sum.total,
                                    .store_bytes = n->conf.store_bytes,
                                    .disk_limit_bytes = sum.disk_limit_bytes,
                                    .id_base = n->conf.id_base,
                                    .name = {n->name, strlen(n->name)},
                                    .why = {why, strlen(why)},
                                    .labels = n->labels}};
    send_now(n, conn, &m);
}

static sk_rc hello(struct sk_cluster_node *n, uint32_t conn, const struct sk_cmsg *m,
                   struct sk_err *err) {
    if (m->type != SK_CMSG_HELLO || !same_secret(m->hello.secret, n->secret))
        return SK_ERR(err, SK_EINVAL, "it does not know the secret of the job");
    const char *why = "";
    if (m->hello.version != SK_CMSG_VERSION) why = "the versions of skate differ";
    else if (m->hello.job != n->conf.job) why = "it is a node of another job";
    else if (m->hello.incarnation && m->hello.incarnation != n->incarnation)
        why = "it was started anew since";
    else if (m->hello.role == SK_ROLE_DRIVER && n->driver) why = "it has a driver already";
    if (*why) {
        welcome(n, conn, why);
        sk_tcp_end(n->tcp, conn);
        return SK_OK;
    }
    sk_tcp_trust(n->tcp, conn);
    uint32_t number = m->hello.role == SK_ROLE_DRIVER ? 0 : m->hello.number;
    if (sk_map_put(&n->conns, conn, as_ptr(number + 1)) != SK_OK) abort();
    if (m->hello.role == SK_ROLE_DRIVER) {
        n->driver = conn;
        welcome(n, conn, "");
    } else if (!conn_of(n, number) && sk_map_put(&n->peers, number, as_ptr(conn)) != SK_OK) abort();
    return SK_OK;
}

static sk_rc on_message(void *ctx, uint32_t conn, const struct sk_cmsg *m, struct sk_err *err) {
    struct sk_cluster_node *n = ctx;
    uint32_t who = (uint32_t)(uintptr_t)sk_map_get(&n->conns, conn);
    if (!who) return hello(n, conn, m, err);
    if (conn == n->driver) n->heard_ns = sk_now_ns();
    if (m->type == SK_CMSG_BYE) {
        if (conn != n->driver) return SK_OK;
        n->bye = true;
        end(n, SK_OK, "the driver has ended, or has let the node go");
        return SK_OK;
    }
    if (m->type == SK_CMSG_PEER && conn == n->driver && m->peer.incarnation == n->incarnation) {
        n->number = m->peer.number; /* the first message after the answer to HELLO */
        return SK_OK;
    }
    return sk_agent_message(n->agent, who - 1, m, err);
}

static uint8_t *place(void *ctx, uint32_t conn, const struct sk_cmsg *m, size_t room,
                      void **owner) {
    struct sk_cluster_node *n = ctx;
    uint32_t who = (uint32_t)(uintptr_t)sk_map_get(&n->conns, conn);
    return who ? sk_agent_place(n->agent, who - 1, m, room, owner) : NULL;
}

static void unplace(void *ctx, void *owner) {
    sk_agent_unplace(((struct sk_cluster_node *)ctx)->agent, owner);
}

static void on_closed(void *ctx, uint32_t conn, const char *why) {
    struct sk_cluster_node *n = ctx;
    uint32_t who = (uint32_t)(uintptr_t)sk_map_del(&n->conns, conn);
    if (conn == n->driver) {
        n->bye = false;
        char text[200];
        snprintf(text, sizeof text, "the driver is gone (%s)", why);
        end(n, SK_EDEAD, text);
    } else if (who) {
        if (conn_of(n, who - 1) == conn) sk_map_del(&n->peers, who - 1);
        sk_agent_peer_lost(n->agent, who - 1);
    }
}

/* ---- the thread ------------------------------------------------------------------------------ */

static uint32_t connect_to(struct sk_cluster_node *n, uint32_t number, const char *address,
                           uint64_t incarnation) {
    SK_DCHECK(number && !conn_of(n, number) && incarnation);
    uint32_t conn = 0;
    if (sk_tcp_connect(n->tcp, address, &conn, NULL) != SK_OK) {
        sk_agent_peer_lost(n->agent, number);
        return 0;
    }
    struct sk_cmsg m = {.type = SK_CMSG_HELLO,
                        .hello = {.version = SK_CMSG_VERSION,
                                  .role = SK_ROLE_NODE,
                                  .job = n->conf.job,
                                  .number = n->number,
                                  .incarnation = incarnation}};
    memcpy(m.hello.secret, n->secret, SK_SECRET);
    send_now(n, conn, &m);
    sk_tcp_trust(n->tcp, conn);
    if (sk_map_put(&n->conns, conn, as_ptr(number + 1)) != SK_OK ||
        sk_map_put(&n->peers, number, as_ptr(conn)) != SK_OK)
        abort();
    return conn;
}

static void send_all(struct sk_cluster_node *n) {
    struct sk_outbox *o = n->driver ? sk_agent_out(n->agent, 0) : NULL;
    if (o) sk_tcp_send(n->tcp, n->driver, o);
    const char *address = NULL;
    uint64_t incarnation = 0;
    for (uint32_t k = 0; (k = sk_agent_peer(n->agent, k, &address, &incarnation));) {
        if (!(o = sk_agent_out(n->agent, k))) continue;
        uint32_t conn = conn_of(n, k);
        if (!conn && !address) sk_outbox_free(o); /* it asked, and has gone */
        if (!conn && address) conn = connect_to(n, k, address, incarnation);
        if (conn && (o = sk_agent_out(n->agent, k))) sk_tcp_send(n->tcp, conn, o);
    }
}

/* Returns false when the node is to end. */
static bool alive(struct sk_cluster_node *n, int64_t now) {
    if (!n->driver && now - n->start_ns > n->conf.patience_ns)
        end(n, SK_ETIMEOUT, "no driver has come");
    if (n->driver && now - n->heard_ns > n->conf.lease_ns)
        end(n, SK_EDEAD, "nothing was heard of the driver");
    pthread_mutex_lock(&n->mu);
    bool on = !n->over && !n->stop;
    pthread_mutex_unlock(&n->mu);
    return on;
}

/* Sends what workers have printed by now, and BYE, and waits until the driver has closed the
 * connection. */
static void part(struct sk_cluster_node *n) {
    struct sk_cmsg m = {.type = SK_CMSG_BYE};
    int64_t until = sk_now_ns() + PART_NS;
    sk_agent_prints(n->agent);
    send_all(n);
    send_now(n, n->driver, &m);
    while (n->bye && sk_now_ns() < until)
        if (sk_tcp_pump(n->tcp, until, NULL) != SK_OK) return;
}

static void *serve(void *arg) {
    struct sk_cluster_node *n = arg;
    struct sk_err err = {0};
    int64_t told = sk_now_ns() - BEAT_NS; /* when the driver was last told what is free */
    bool moved = false;                   /* there were events since */
    for (int64_t now; alive(n, now = sk_now_ns());) {
        if (sk_agent_step(n->agent)) moved = true;
        int64_t pause = sk_agent_waits(n->agent) ? WAIT_NS : moved ? SOON_NS : BEAT_NS;
        if (n->driver && (now >= told + pause || sk_agent_stirred(n->agent))) {
            sk_agent_beat(n->agent);
            told = now;
            moved = false;
            pause = sk_agent_waits(n->agent) ? WAIT_NS : BEAT_NS;
        }
        if (atomic_exchange(&n->printed, false)) sk_agent_prints(n->agent);
        send_all(n);
        int64_t until = n->driver ? SK_MAX(told + pause, now) : now + BEAT_NS;
        if (sk_tcp_pump(n->tcp, until, &err) != SK_OK) end(n, err.code, err.msg);
    }
    end(n, SK_OK, "the node was closed");
    if (n->bye) part(n);
    return NULL;
}

static void wake(void *ctx) { sk_tcp_wake(((struct sk_cluster_node *)ctx)->tcp); }

/* ---- opening, waiting, closing --------------------------------------------------------------- */

static void forget(struct sk_cluster_node *n) {
    if (n->tcp) sk_tcp_cut(n->tcp); /* what waits there are views */
    if (n->agent) sk_agent_destroy(n->agent);
    if (n->tcp) sk_tcp_close(n->tcp);
    sk_map_deinit(&n->conns);
    sk_map_deinit(&n->peers);
    pthread_mutex_destroy(&n->mu);
    pthread_cond_destroy(&n->over_cond);
    sk_free(n->name);
    sk_free((void *)(uintptr_t)n->labels.p); /* node_open's copy */
    sk_free(n);
}

sk_rc sk_node_open(const struct sk_node_conf *conf, struct sk_cluster_node **out, uint16_t *port,
                   struct sk_err *err) {
    if (conf->secret.n != SK_SECRET)
        return SK_ERR(err, SK_EINVAL, "the secret of a job has %d bytes, not %zu", SK_SECRET,
                      conf->secret.n);
    struct sk_cluster_node *n = sk_calloc(TAG, sizeof *n);
    if (!n) return SK_ERR(err, SK_ENOMEM, "node");
    n->conf = *conf;
    n->e = conf->engine;
    n->start_ns = n->heard_ns = sk_now_ns();
    if (!n->conf.lease_ns) n->conf.lease_ns = 5 * SK_SEC;
    if (!n->conf.patience_ns) n->conf.patience_ns = 60 * SK_SEC;
    memcpy(n->secret, conf->secret.p, SK_SECRET);
    sk_map_init(&n->conns, TAG);
    sk_map_init(&n->peers, TAG);
    pthread_mutex_init(&n->mu, NULL);
    pthread_condattr_t ca;
    pthread_condattr_init(&ca);
    pthread_condattr_setclock(&ca, CLOCK_MONOTONIC);
    pthread_cond_init(&n->over_cond, &ca);
    pthread_condattr_destroy(&ca);
    struct sk_tcp_hooks hooks = {
        .ctx = n, .message = on_message, .closed = on_closed, .place = place, .unplace = unplace};
    struct sk_agent_conf agent = {.engine = n->e,
                                  .wake = wake,
                                  .ctx = n,
                                  .id_base = conf->id_base,
                                  .prints = conf->prints,
                                  .labels = conf->labels};
    sk_rc rc = (n->name = sk_strdup(TAG, conf->name ? conf->name : "node"))
                   ? SK_OK
                   : SK_ERR(err, SK_ENOMEM, "node");
    struct sk_bytes l = conf->node_labels;
    n->labels = (struct sk_bytes){sk_memdup(TAG, l.p, l.n), l.n};
    agent.node_labels = n->labels;
    if (rc == SK_OK && !n->labels.p) rc = SK_ERR(err, SK_ENOMEM, "node");
    if (rc == SK_OK && !sk_labels_good(l)) rc = SK_ERR(err, SK_EINVAL, "labels of a node");
    if (rc == SK_OK && getrandom(&n->incarnation, sizeof n->incarnation, 0) < 0)
        rc = SK_ERR_SYS(err, "getrandom");
    n->incarnation |= 1; /* 0 means any */
    if (rc == SK_OK) rc = sk_tcp_open(&n->tcp, &hooks, conf->listen_on, port, err);
    if (rc == SK_OK && conf->carrier) rc = sk_tcp_carried_by(n->tcp, conf->carrier, err);
    if (rc == SK_OK) rc = sk_agent_create(&n->agent, &agent, err);
    if (rc == SK_OK && pthread_create(&n->thread, NULL, serve, n) != 0)
        rc = SK_ERR(err, SK_ENOMEM, "node: no thread");
    if (rc == SK_OK) *out = n;
    else forget(n);
    return rc;
}

void sk_node_prints(struct sk_cluster_node *n) {
    atomic_store(&n->printed, true);
    sk_tcp_wake(n->tcp);
}

sk_rc sk_node_wait(struct sk_cluster_node *n, int64_t deadline_ns, struct sk_err *err) {
    struct timespec ts = {.tv_sec = deadline_ns / SK_SEC, .tv_nsec = deadline_ns % SK_SEC};
    sk_rc rc = SK_OK;
    pthread_mutex_lock(&n->mu);
    while (!n->over && rc == SK_OK) {
        if (deadline_ns == INT64_MAX) pthread_cond_wait(&n->over_cond, &n->mu);
        else if (sk_now_ns() >= deadline_ns) rc = SK_EAGAIN;
        else (void)pthread_cond_timedwait(&n->over_cond, &n->mu, &ts);
    }
    if (n->over) {
        rc = n->why.code;
        if (err) *err = n->why;
    }
    pthread_mutex_unlock(&n->mu);
    return rc;
}

void sk_node_close(struct sk_cluster_node *n) {
    pthread_mutex_lock(&n->mu);
    n->stop = true;
    pthread_mutex_unlock(&n->mu);
    sk_tcp_wake(n->tcp);
    SK_ASSERT(pthread_join(n->thread, NULL) == 0);
    forget(n);
}
