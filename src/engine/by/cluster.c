/* cluster.c - the engine over several machines, each with an engine of its own: the book of the
 * driver (cluster/book.h) as a guest of guest.h, and a thread that sends and receives its messages
 * over TCP.
 *
 *  the host's thread --orders--> book --outboxes--> this file's thread --TCP--> agents of nodes
 *  the host's thread <--tell---- book <--messages-- this file's thread <-------
 *
 * The book is behind one lock, which is held for no call of the host but `tell`, and for no system
 * call. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "base/containers/map.h"
#include "base/containers/vec.h"
#include "engine/cluster/book.h"
#include "engine/cluster/cluster.h"
#include "engine/cluster/tcp.h"
#include "engine/conf.h"
#include "engine/host.h"
#include "engine/state.h"

#define TAG SK_TAG_ENGINE
#define PART_NS SK_SEC /* how long the end waits for nodes to answer */
#define BEAT_NS (SK_SEC / 2)
#define ANSWER_NS (2 * SK_SEC) /* as long as nodes have to tell of themselves */

struct joining { /* a call of join; lives on the stack of its caller until it is over */
    char address[SK_TCP_ADDRESS];
    int64_t deadline_ns;
    uint32_t number;
    struct sk_err err; /* of a failure */
    bool over;
};
struct asked { /* a request to tell something */
    uint64_t number;
    int64_t sent_ns;
};
struct clock { /* of a node, by the request whose answer came soonest */
    int64_t ahead_ns, trip_ns;
};
struct drain { /* a node that is to go away */
    uint32_t number;
    int64_t deadline_ns;
};
struct link {              /* to a node */
    uint32_t conn, number; /* number in the book; 0: it has not answered yet */
    const char *address;   /* until it has */
    struct joining *join;  /* who waits until it has; NULL: opening does */
    int64_t heard_ns;
    bool gone, answered;
    struct sk_cmsg welcome; /* its answer; the name is in `name` */
    char name[64];
    void *labels;
};

struct sk_cluster {
    struct sk_cluster_conf conf;
    uint8_t secret[SK_SECRET];
    struct sk_prints *prints; /* may be NULL */
    struct sk_tcp *tcp;       /* owned by the thread, or, before it runs, by open */
    SK_VEC(struct link) links;
    struct sk_err refused; /* code != 0: a node did not answer as it must, at the start */
    pthread_mutex_t mu;    /* guards what follows */
    pthread_cond_t moved;  /* a message came, or a node was lost */
    struct sk_book *book;
    bool closing, parting; /* parting: only what workers have printed is still taken */
    struct sk_err broken;
    SK_VEC(struct joining *) joins; /* not begun yet */
    uint32_t n_joining;             /* callers within join */
    SK_VEC(struct drain) drains;
    SK_VEC(struct asked) asks;
    /* workers: the request for rows of workers that goes on, 0: none; of_workers: the last answers
     */
    uint64_t workers;
    int64_t workers_ns;
    bool want_workers;
    SK_VEC(struct sk_guest_told) of_workers;
    SK_VEC(struct clock) clocks; /* number of a node - 1 */
    void (*wake)(void *host);
    void *host;
    pthread_t thread;
    bool running;
};

/* ---- the thread ------------------------------------------------------------------------------ */

static struct link *link_of(struct sk_cluster *c, uint32_t conn) {
    for (uint32_t i = 0; i < c->links.n; i++)
        if (c->links.p[i].conn == conn && !c->links.p[i].gone) return &c->links.p[i];
    return NULL;
}

/* Ends a call of join, whose memory belongs to its caller then. Called with the lock held. */
static void join_over(struct sk_cluster *c, struct joining *j, uint32_t number,
                      const struct sk_err *err) {
    SK_ASSERT(!j->over && (number ? !err : err && err->code));
    j->number = number;
    if (err) j->err = *err;
    j->over = true;
    pthread_cond_broadcast(&c->moved);
}

/* empty: nothing is lost with the node. */
static void gone(struct sk_cluster *c, struct link *l, const char *why, bool empty) {
    SK_ASSERT(!l->gone && why);
    l->gone = true;
    if (!l->number && !l->join) {
        if (!c->refused.code) (void)!SK_ERR(&c->refused, SK_EIO, "node at %s: %s", l->address, why);
        return;
    }
    pthread_mutex_lock(&c->mu);
    if (l->join) {
        struct sk_err err = {0};
        (void)!SK_ERR(&err, sk_now_ns() < l->join->deadline_ns ? SK_EIO : SK_ETIMEOUT,
                      "node at %s: %s", l->address, why);
        join_over(c, l->join, 0, &err);
        l->join = NULL;
    } else sk_book_lost(c->book, l->number, why);
    bool any = false;
    for (uint32_t i = 0; i < c->links.n; i++) any = any || !c->links.p[i].gone;
    if (!any && !empty && !c->broken.code && !c->closing)
        (void)!SK_ERR(&c->broken, SK_EDEAD, "all nodes of the cluster are lost; the last one: %s",
                      why);
    pthread_cond_broadcast(&c->moved);
    pthread_mutex_unlock(&c->mu);
    if (c->wake) c->wake(c->host);
}

static void lost(struct sk_cluster *c, struct link *l, const char *why) { gone(c, l, why, false); }

static sk_rc welcomed(struct link *l, const struct sk_cmsg *m, struct sk_err *err) {
    if (m->type != SK_CMSG_WELCOME) return SK_ERR(err, SK_ECORRUPT, "it is no node of a cluster");
    if (m->welcome.why.n)
        return SK_ERR(err, SK_EINVAL, "%.*s", (int)SK_MIN(m->welcome.why.n, (size_t)200),
                      (const char *)m->welcome.why.p);
    if (!m->welcome.id_base)
        return SK_ERR(err, SK_EINVAL, "its engine has no ids of its own (conf.h: id_base)");
    struct sk_bytes b = m->welcome.labels;
    if (!(l->labels = sk_memdup(TAG, b.p, b.n))) return SK_ERR(err, SK_ENOMEM, "labels of a node");
    l->answered = true;
    l->welcome = *m;
    l->welcome.welcome.name.n = SK_MIN(m->welcome.name.n, sizeof l->name);
    memcpy(l->name, m->welcome.name.p, l->welcome.welcome.name.n);
    l->welcome.welcome.labels.p = l->labels;
    return SK_OK;
}

/* Makes the nodes known to the book, in the order of their addresses. */
static sk_rc join_all(struct sk_cluster *c, struct sk_err *err) {
    for (uint32_t i = 0; i < c->links.n; i++) {
        struct link *l = &c->links.p[i];
        l->welcome.welcome.name.p = l->name;
        SK_ASSERT(l->answered && !l->number);
        SK_TRY(sk_book_joined(c->book, &l->welcome,
                              (struct sk_bytes){l->address, strlen(l->address)}, &l->number, err));
    }
    return SK_OK;
}

/* Makes a node known that has answered after the start. */
static sk_rc joined(struct sk_cluster *c, struct link *l, struct sk_err *err) {
    SK_ASSERT(l->join && !l->number);
    l->welcome.welcome.name.p = l->name;
    pthread_mutex_lock(&c->mu);
    sk_rc rc = sk_book_joined(c->book, &l->welcome,
                              (struct sk_bytes){l->address, strlen(l->address)}, &l->number, err);
    if (rc == SK_OK) {
        join_over(c, l->join, l->number, NULL);
        l->join = NULL;
        l->address = NULL; /* it was the caller's */
    }
    pthread_mutex_unlock(&c->mu);
    return rc;
}

/* Learns from an answer how far the node's clock is ahead of the one here: by half the time from
 * the request to the answer at most. Clocks that may be the same are: those of one machine. */
static void set_clock(struct sk_cluster *c, uint32_t node, const struct sk_cmsg *m, int64_t now) {
    for (uint32_t i = 0; i < c->asks.n; i++) {
        int64_t trip = now - c->asks.p[i].sent_ns, at = c->asks.p[i].sent_ns + trip / 2;
        struct clock k = {m->told.now_ns - at, trip};
        if (c->asks.p[i].number != m->told.ask) continue;
        SK_DCHECK(trip >= 0);
        if (k.ahead_ns <= trip && k.ahead_ns >= -trip) k.ahead_ns = 0;
        while (c->clocks.n < node)
            if (!sk_vec_push(&c->clocks, TAG, (struct clock){.trip_ns = INT64_MAX})) return;
        if (trip <= c->clocks.p[node - 1].trip_ns) c->clocks.p[node - 1] = k;
    }
}

static sk_rc on_message(void *ctx, uint32_t conn, const struct sk_cmsg *m, struct sk_err *err) {
    struct sk_cluster *c = ctx;
    struct link *l = link_of(c, conn);
    if (!l) return SK_OK;
    l->heard_ns = sk_now_ns();
    if (!l->answered) {
        SK_TRY(welcomed(l, m, err));
        return l->join ? joined(c, l, err) : SK_OK;
    }
    if (m->type == SK_CMSG_PRINTS) {
        if (c->prints)
            sk_prints_hand_in(c->prints, (int)m->prints.to, m->prints.text.p, m->prints.text.n);
        return SK_OK;
    }
    if (c->parting) {
        l->gone = m->type == SK_CMSG_BYE;
        return SK_OK;
    }
    if (!l->number) return SK_OK; /* a sign of life while others are waited for */
    pthread_mutex_lock(&c->mu);
    if (m->type == SK_CMSG_TOLD) set_clock(c, l->number, m, l->heard_ns);
    sk_rc rc = sk_book_message(c->book, l->number, m, err);
    pthread_cond_broadcast(&c->moved);
    pthread_mutex_unlock(&c->mu);
    return rc;
}

static void on_closed(void *ctx, uint32_t conn, const char *why) {
    struct sk_cluster *c = ctx;
    struct link *l = link_of(c, conn);
    if (l && c->parting) l->gone = true;
    else if (l) lost(c, l, why);
}

/* A large value that was fetched comes into the memory that the book keeps it in. */
static uint8_t *place(void *ctx, uint32_t conn, const struct sk_cmsg *m, size_t room,
                      void **owner) {
    const struct link *l = link_of(ctx, conn);
    struct sk_bblob *b = l && l->number && m->value.rc == SK_OK
                             ? sk_bblob_new(m->value.kind, (struct sk_bytes){NULL, room})
                             : NULL;
    if (!b) return NULL;
    b->len = m->value.bytes.n;
    *owner = b;
    return b->data;
}

static void unplace(void *ctx, void *owner) {
    (void)ctx;
    sk_bblob_unref(owner);
}

/* Sends what the book has for the nodes. */
static void send_all(struct sk_cluster *c) {
    for (uint32_t i = 0; i < c->links.n; i++) {
        struct link *l = &c->links.p[i];
        struct sk_outbox now = {0};
        if (l->gone || !l->number) continue;
        pthread_mutex_lock(&c->mu);
        struct sk_outbox *o = sk_book_out(c->book, l->number);
        if (o && o->n) {
            now = *o;
            *o = (struct sk_outbox){0};
        }
        pthread_mutex_unlock(&c->mu);
        if (now.n) sk_tcp_send(c->tcp, l->conn, &now);
    }
}

static void beat(struct sk_cluster *c, int64_t now) {
    struct sk_cmsg m = {.type = SK_CMSG_BEAT};
    for (uint32_t i = 0; i < c->links.n; i++) {
        struct link *l = &c->links.p[i];
        struct sk_outbox o = {0};
        if (l->gone) continue;
        if (!l->join && now - l->heard_ns > c->conf.lease_ns) {
            sk_tcp_end(c->tcp, l->conn);
            lost(c, l, "nothing was heard of it");
        } else if (sk_cmsg_put(&o, &m, NULL) == SK_OK) sk_tcp_send(c->tcp, l->conn, &o);
    }
}

/* Connects to a node; what comes of it is in its link. */
static sk_rc say_hello(struct sk_cluster *c, const char *address, struct joining *j,
                       struct sk_err *err) {
    struct link l = {.address = address, .join = j, .heard_ns = sk_now_ns()};
    struct sk_outbox o = {0};
    struct sk_cmsg m = {
        .type = SK_CMSG_HELLO,
        .hello = {.version = SK_CMSG_VERSION, .role = SK_ROLE_DRIVER, .job = c->conf.job}};
    memcpy(m.hello.secret, c->secret, SK_SECRET);
    if (!sk_vec_reserve(&c->links, TAG, c->links.n + 1))
        return SK_ERR(err, SK_ENOMEM, "node %s", address);
    SK_TRY(sk_cmsg_put(&o, &m, err));
    sk_rc rc = sk_tcp_connect(c->tcp, address, &l.conn, err);
    if (rc != SK_OK) {
        sk_free(o.p);
        return rc;
    }
    SK_ASSERT(sk_vec_push(&c->links, TAG, l)); /* there is room */
    sk_tcp_send(c->tcp, l.conn, &o);
    sk_tcp_trust(c->tcp, l.conn);
    return SK_OK;
}

/* Begins the calls of join that have come, and ends those that have waited for too long. Returns
 * when the next of them has. */
static int64_t join_some(struct sk_cluster *c, int64_t until) {
    struct joining *j;
    struct sk_err err = {0};
    for (;;) {
        pthread_mutex_lock(&c->mu);
        j = c->joins.n ? c->joins.p[--c->joins.n] : NULL;
        pthread_mutex_unlock(&c->mu);
        if (!j) break;
        if (say_hello(c, j->address, j, &err) == SK_OK) continue;
        pthread_mutex_lock(&c->mu);
        join_over(c, j, 0, &err);
        pthread_mutex_unlock(&c->mu);
    }
    for (uint32_t i = 0; i < c->links.n; i++) {
        struct link *l = &c->links.p[i];
        if (l->gone || !l->join) continue;
        if (sk_now_ns() >= l->join->deadline_ns) {
            char text[100];
            snprintf(text, sizeof text, "no answer within %.1f s; is it reachable from here?",
                     (double)c->conf.patience_ns / SK_SEC);
            sk_tcp_end(c->tcp, l->conn);
            lost(c, l, text);
        } else until = SK_MIN(until, l->join->deadline_ns);
    }
    return until;
}

/* Tells a node that it is not needed any more. */
static void let_go(struct sk_cluster *c, uint32_t number, bool empty) {
    struct sk_cmsg m = {.type = SK_CMSG_BYE};
    struct sk_outbox o = {0};
    struct link *l = NULL;
    for (uint32_t i = 0; i < c->links.n; i++)
        if (c->links.p[i].number == number && !c->links.p[i].gone) l = &c->links.p[i];
    if (!l) return; /* it was lost meanwhile */
    gone(c, l, empty ? "it was drained" : "its drain was not over at the deadline", empty);
    if (sk_cmsg_put(&o, &m, NULL) == SK_OK) sk_tcp_send(c->tcp, l->conn, &o);
    sk_tcp_end(c->tcp, l->conn);
}

/* Lets nodes go whose drain is over. Returns when the next deadline is. */
static int64_t drain_some(struct sk_cluster *c, int64_t until) {
    pthread_mutex_lock(&c->mu);
    for (uint32_t i = 0; i < c->drains.n; i++) {
        struct drain d = c->drains.p[i];
        bool empty = sk_book_empty(c->book, d.number);
        if (!empty && sk_now_ns() < d.deadline_ns) {
            until = SK_MIN(until, d.deadline_ns);
            continue;
        }
        c->drains.p[i--] = c->drains.p[--c->drains.n];
        pthread_mutex_unlock(&c->mu);
        let_go(c, d.number, empty);
        pthread_mutex_lock(&c->mu);
    }
    pthread_mutex_unlock(&c->mu);
    return until;
}

/* ---- what nodes tell of themselves ----------------------------------------------------------- */

static uint64_t ask_begin(struct sk_cluster *c, uint32_t what) {
    uint64_t number = sk_book_ask(c->book, what);
    (void)!sk_vec_push(&c->asks, TAG, (struct asked){number, sk_now_ns()}); /* else no clock */
    return number;
}

struct answers {
    struct sk_cluster *c;
    void (*told)(void *host, const struct sk_guest_told *t);
    void *host;
};

/* How far the node's clock is ahead of this one. */
static int64_t ahead_of(const struct sk_cluster *c, uint32_t node) {
    bool known = node && node <= c->clocks.n && c->clocks.p[node - 1].trip_ns < INT64_MAX;
    return known ? c->clocks.p[node - 1].ahead_ns : 0;
}

static void answered(void *ctx, const struct sk_guest_told *t) {
    const struct answers *a = ctx;
    struct sk_guest_told with = *t;
    with.ahead_ns = ahead_of(a->c, t->node);
    a->told(a->host, &with);
}

static void ask_end(struct sk_cluster *c, uint64_t number,
                    void (*told)(void *host, const struct sk_guest_told *t), void *host) {
    for (uint32_t i = 0; i < c->asks.n; i++)
        if (c->asks.p[i].number == number) c->asks.p[i] = c->asks.p[--c->asks.n];
    sk_book_answers(c->book, number, answered, &(struct answers){c, told, host});
}

static void forget_workers(struct sk_cluster *c) {
    for (uint32_t i = 0; i < c->of_workers.n; i++)
        sk_free((void *)(uintptr_t)c->of_workers.p[i].bytes.p);
    c->of_workers.n = 0;
}

static void keep_workers(void *host, const struct sk_guest_told *t) {
    struct sk_cluster *c = host;
    struct sk_guest_told copy = *t;
    if (t->silent) return;
    copy.bytes.p = sk_memdup(TAG, t->bytes.p, t->bytes.n);
    if (copy.bytes.p && !sk_vec_push(&c->of_workers, TAG, copy))
        sk_free((void *)(uintptr_t)copy.bytes.p);
}

/* Asks for rows of workers while somebody wants them, without a wait. */
static void ask_workers(struct sk_cluster *c, int64_t now) {
    pthread_mutex_lock(&c->mu);
    if (c->workers && (sk_book_answered(c->book, c->workers) || now - c->workers_ns > ANSWER_NS)) {
        forget_workers(c);
        ask_end(c, c->workers, keep_workers, c);
        c->workers = 0;
    }
    if (c->want_workers && !c->workers) {
        c->want_workers = false;
        c->workers = ask_begin(c, SK_STATE_WORKERS);
        c->workers_ns = now;
    }
    pthread_mutex_unlock(&c->mu);
}

static void *serve(void *arg) {
    struct sk_cluster *c = arg;
    int64_t next = sk_now_ns();
    for (;;) {
        struct sk_err err = {0};
        pthread_mutex_lock(&c->mu);
        bool on = !c->closing;
        if (on) sk_book_launch(c->book);
        pthread_mutex_unlock(&c->mu);
        if (!on) return NULL;
        send_all(c);
        int64_t now = sk_now_ns();
        if (now >= next) {
            beat(c, now);
            ask_workers(c, now);
            next = now + BEAT_NS;
        }
        sk_rc rc = sk_tcp_pump(c->tcp, drain_some(c, join_some(c, next)), &err);
        if (rc != SK_OK) {
            pthread_mutex_lock(&c->mu);
            if (!c->broken.code) c->broken = err;
            pthread_mutex_unlock(&c->mu);
        }
        if (c->wake) c->wake(c->host);
    }
}

/* ---- the guest ------------------------------------------------------------------------------- */

static struct sk_cluster *lock(void *ctx) {
    struct sk_cluster *c = ctx;
    pthread_mutex_lock(&c->mu);
    return c;
}
static sk_rc unlock(struct sk_cluster *c, sk_rc rc, bool tell) {
    pthread_mutex_unlock(&c->mu);
    if (tell) sk_tcp_wake(c->tcp);
    return rc;
}

static void g_begin(void *ctx, void (*wake)(void *host), void *host) {
    struct sk_cluster *c = ctx;
    SK_ASSERT(!c->running && wake);
    c->wake = wake;
    c->host = host;
    c->running = pthread_create(&c->thread, NULL, serve, c) == 0;
    if (!c->running) (void)!SK_ERR(&c->broken, SK_ENOMEM, "cluster: no thread");
}

/* Ends all calls of join, and waits until their callers have left. */
static void end_joins(struct sk_cluster *c) {
    struct sk_err err = {0};
    (void)!SK_ERR(&err, SK_ECLOSED, "the engine is shut down");
    pthread_mutex_lock(&c->mu);
    while (c->joins.n) join_over(c, c->joins.p[--c->joins.n], 0, &err);
    for (uint32_t i = 0; i < c->links.n; i++)
        if (c->links.p[i].join) join_over(c, c->links.p[i].join, 0, &err);
    while (c->n_joining) pthread_cond_wait(&c->moved, &c->mu);
    pthread_mutex_unlock(&c->mu);
}

/* Says BYE to all nodes, and takes what their workers have printed, until they have answered. */
static void part(struct sk_cluster *c) {
    struct sk_cmsg m = {.type = SK_CMSG_BYE};
    int64_t until = sk_now_ns() + PART_NS;
    c->parting = true;
    for (uint32_t i = 0; i < c->links.n; i++) {
        struct sk_outbox o = {0};
        if (c->links.p[i].gone) continue;
        if (!c->links.p[i].answered || sk_cmsg_put(&o, &m, NULL) != SK_OK)
            c->links.p[i].gone = true;
        else sk_tcp_send(c->tcp, c->links.p[i].conn, &o);
    }
    for (uint32_t i = 0; i < c->links.n && sk_now_ns() < until;) {
        if (c->links.p[i].gone) i++;
        else if (sk_tcp_pump(c->tcp, until, NULL) != SK_OK) return;
    }
}

static void g_end(void *ctx) {
    struct sk_cluster *c = lock(ctx);
    c->closing = true;
    (void)unlock(c, SK_OK, true);
    if (c->running) SK_ASSERT(pthread_join(c->thread, NULL) == 0);
    end_joins(c);
    part(c);
    sk_book_destroy(c->book);
    sk_tcp_close(c->tcp);
    for (uint32_t i = 0; i < c->links.n; i++) sk_free(c->links.p[i].labels);
    sk_vec_free(&c->links);
    sk_vec_free(&c->joins);
    sk_vec_free(&c->drains);
    sk_vec_free(&c->asks);
    forget_workers(c);
    sk_vec_free(&c->of_workers);
    sk_vec_free(&c->clocks);
    pthread_mutex_destroy(&c->mu);
    pthread_cond_destroy(&c->moved);
    sk_free(c);
}

static sk_rc g_nodes(void *ctx, struct sk_node *out, size_t cap, size_t *n, struct sk_err *err) {
    struct sk_cluster *c = lock(ctx);
    (void)err;
    *n = sk_book_n_nodes(c->book);
    for (size_t i = 0; i < SK_MIN(cap, *n); i++) {
        out[i] = sk_book_node(c->book, (uint32_t)i + 1);
        out[i].resident_bytes = 0; /* the host counts what is referenced there */
    }
    return unlock(c, SK_OK, false);
}

static sk_rc g_define(void *ctx, sk_fid fn, const char *name, struct sk_bytes def,
                      struct sk_err *err) {
    struct sk_cluster *c = lock(ctx);
    return unlock(c, sk_book_define(c->book, fn, name, def, err), false);
}

static void g_env(void *ctx, uint32_t number, struct sk_bytes env) {
    struct sk_cluster *c = lock(ctx);
    sk_book_env(c->book, number, env);
    (void)unlock(c, SK_OK, false);
}

static sk_rc g_group(void *ctx, uint64_t id, const struct sk_group_spec *s, struct sk_err *err) {
    struct sk_cluster *c = lock(ctx);
    return unlock(c, sk_book_group(c->book, id, s, err), false); /* poll, which follows, sends it */
}

static void g_group_end(void *ctx, uint64_t id) {
    struct sk_cluster *c = lock(ctx);
    sk_book_group_end(c->book, id);
    (void)unlock(c, SK_OK, false);
}

static sk_rc g_submit(void *ctx, const struct sk_guest_task *t, struct sk_err *err) {
    struct sk_cluster *c = lock(ctx);
    return unlock(c, sk_book_submit(c->book, t, err), false); /* poll, which follows, sends it */
}

static void g_cancel(void *ctx, uint64_t task, uint32_t flags) {
    struct sk_cluster *c = lock(ctx);
    sk_book_cancel(c->book, task, flags);
    (void)unlock(c, SK_OK, true);
}

static void g_taken(void *ctx, uint64_t task, uint32_t n) {
    struct sk_cluster *c = lock(ctx);
    sk_book_taken(c->book, task, n);
    (void)unlock(c, SK_OK, true);
}

static void g_actor_end(void *ctx, uint64_t actor, enum sk_guest_end how) {
    struct sk_cluster *c = lock(ctx);
    sk_book_actor_end(c->book, actor, how);
    (void)unlock(c, SK_OK, true);
}

static sk_rc g_put(void *ctx, uint32_t kind, struct sk_bytes bytes, void **handle,
                   struct sk_err *err) {
    struct sk_bblob *b = sk_bblob_new(kind, bytes);
    struct sk_bval *v;
    if (!b) return SK_ERR(err, SK_ENOMEM, "value of %zu bytes", bytes.n);
    struct sk_cluster *c = lock(ctx);
    sk_rc rc = sk_book_put(c->book, b, &v, err);
    if (rc == SK_OK) *handle = v;
    return unlock(c, rc, false);
}

struct teller {
    const struct sk_cluster *c;
    void (*tell)(void *host, const struct sk_guest_event *ev);
    void *host;
};
static void tell_here(void *ctx, const struct sk_guest_event *ev) {
    const struct teller *t = ctx;
    struct sk_guest_event here = *ev;
    if (ev->start_ns) here.start_ns -= ahead_of(t->c, ev->node);
    t->tell(t->host, &here);
}

static sk_rc g_poll(void *ctx, void (*tell)(void *host, const struct sk_guest_event *ev),
                    void *host, struct sk_err *err) {
    struct sk_cluster *c = lock(ctx);
    if (c->broken.code) {
        if (err) *err = c->broken;
        return unlock(c, c->broken.code, false);
    }
    sk_book_launch(c->book);
    sk_book_tell(c->book, tell_here, &(struct teller){c, tell, host});
    bool any = false;
    for (uint32_t i = 1; i <= sk_book_n_nodes(c->book); i++) {
        const struct sk_outbox *o = sk_book_out(c->book, i);
        any = any || (o && o->n);
    }
    return unlock(c, SK_OK, any);
}

static sk_rc g_fetch(void *ctx, void *handle, int64_t deadline_ns, struct sk_guest_value *out,
                     struct sk_err *err) {
    struct sk_cluster *c = lock(ctx);
    struct sk_bval *v = handle;
    struct sk_bblob *b = NULL;
    struct timespec ts = {.tv_sec = deadline_ns / SK_SEC, .tv_nsec = deadline_ns % SK_SEC};
    sk_rc rc;
    sk_book_fetch_begin(v);
    while ((rc = sk_book_fetch(c->book, v, &b, err)) == SK_EAGAIN) {
        if (c->closing) rc = SK_ERR(err, SK_ECLOSED, "the engine is shut down");
        else if (c->broken.code) {
            if (err) *err = c->broken;
            rc = c->broken.code;
        } else if (deadline_ns != INT64_MAX && sk_now_ns() >= deadline_ns) rc = SK_ETIMEOUT;
        if (rc != SK_EAGAIN) break;
        sk_tcp_wake(c->tcp); /* the thread sends what was asked for */
        if (deadline_ns == INT64_MAX) pthread_cond_wait(&c->moved, &c->mu);
        else (void)pthread_cond_timedwait(&c->moved, &c->mu, &ts);
    }
    sk_book_fetch_end(v);
    if (rc == SK_OK)
        *out = (struct sk_guest_value){.kind = b->kind, .bytes = {b->data, b->len}, .token = b};
    return unlock(c, rc, false);
}

static void g_let_go(void *ctx, void *token) {
    (void)ctx;
    sk_bblob_unref(token);
}

static void g_drop(void *ctx, void *handle) {
    SK_DCHECK(handle);
    struct sk_cluster *c = lock(ctx);
    sk_book_drop(c->book, handle);
    (void)unlock(c, SK_OK, false);
}

static void g_hold(void *ctx, uint64_t id) {
    struct sk_cluster *c = lock(ctx);
    sk_book_hold(c->book, id);
    (void)unlock(c, SK_OK, false); /* poll, which follows, sends what these say */
}
static void g_unhold(void *ctx, uint64_t id) {
    struct sk_cluster *c = lock(ctx);
    sk_book_unhold(c->book, id);
    (void)unlock(c, SK_OK, false);
}
static void g_there(void *ctx, uint32_t node, uint64_t name, const struct sk_guest_value *v) {
    struct sk_cluster *c = lock(ctx);
    sk_book_there(c->book, node, name, v);
    (void)unlock(c, SK_OK, false);
}
static sk_rc g_call(void *ctx, const struct sk_task_spec *s, uint64_t first, struct sk_err *err) {
    struct sk_cluster *c = lock(ctx);
    return unlock(c, sk_book_call(c->book, s, first, err), false);
}
static void g_ended(void *ctx, uint32_t node, uint64_t first) {
    struct sk_cluster *c = lock(ctx);
    sk_book_ended(c->book, node, first);
    (void)unlock(c, SK_OK, false);
}
static void g_yield(void *ctx, uint32_t node, uint64_t first, uint64_t id) {
    struct sk_cluster *c = lock(ctx);
    sk_book_yield(c->book, node, first, id);
    (void)unlock(c, SK_OK, false);
}
static void g_took(void *ctx, uint64_t actor, uint64_t first, uint32_t n) {
    struct sk_cluster *c = lock(ctx);
    sk_book_took(c->book, actor, first, n);
    (void)unlock(c, SK_OK, false);
}
static void g_kill(void *ctx, uint64_t actor, bool no_restart) {
    struct sk_cluster *c = lock(ctx);
    sk_book_kill(c->book, actor, no_restart);
    (void)unlock(c, SK_OK, false);
}
static void g_stop(void *ctx, uint64_t of, uint64_t id, uint32_t flags) {
    struct sk_cluster *c = lock(ctx);
    sk_book_stop(c->book, of, id, flags);
    (void)unlock(c, SK_OK, false);
}

static void g_named(void *ctx, uint32_t node, uint64_t ask, sk_rc rc, uint64_t actor,
                    struct sk_bytes bytes) {
    struct sk_cluster *c = lock(ctx);
    sk_book_named(c->book, node, ask, rc, actor, bytes);
    (void)unlock(c, SK_OK, false);
}

static const struct sk_guest_ref_ops ref_ops = {.hold = g_hold,
                                                .unhold = g_unhold,
                                                .there = g_there,
                                                .call = g_call,
                                                .yield = g_yield,
                                                .took = g_took,
                                                .ended = g_ended,
                                                .kill = g_kill,
                                                .stop = g_stop,
                                                .named = g_named};
static sk_rc g_join(void *ctx, const char *address, uint32_t *number, struct sk_err *err) {
    struct sk_cluster *c = ctx;
    struct joining j = {.deadline_ns = sk_deadline_ns(c->conf.patience_ns)};
    SK_TRY(sk_tcp_resolve(address, j.address, err));
    (void)lock(c);
    if (c->closing) return unlock(c, SK_ERR(err, SK_ECLOSED, "the engine is shut down"), false);
    if (!sk_vec_push(&c->joins, TAG, &j))
        return unlock(c, SK_ERR(err, SK_ENOMEM, "node at %s", address), false);
    c->n_joining++;
    sk_tcp_wake(c->tcp);
    while (!j.over) pthread_cond_wait(&c->moved, &c->mu);
    c->n_joining--;
    pthread_cond_broadcast(&c->moved);
    if (!j.err.code) *number = j.number;
    else if (err) *err = j.err;
    return unlock(c, j.err.code, false);
}

static sk_rc g_drain(void *ctx, uint32_t number, int64_t deadline_ns, struct sk_err *err) {
    struct sk_cluster *c = lock(ctx);
    sk_rc rc = sk_book_drain(c->book, number, err);
    struct drain *d = NULL;
    for (uint32_t i = 0; i < c->drains.n; i++)
        if (c->drains.p[i].number == number) d = &c->drains.p[i];
    if (rc == SK_OK && d) d->deadline_ns = SK_MIN(d->deadline_ns, deadline_ns);
    else if (rc == SK_OK && !sk_vec_push(&c->drains, TAG, (struct drain){number, deadline_ns}))
        abort(); /* the node would be drained for ever */
    return unlock(c, rc, true);
}

static void g_give_up(void *ctx, const char *why) {
    struct sk_cluster *c = lock(ctx);
    if (!c->broken.code) (void)!SK_ERR(&c->broken, SK_EDEAD, "%s", why);
    pthread_cond_broadcast(&c->moved);
    (void)unlock(c, SK_OK, true); /* the thread, once awake, wakes the host */
}

static void g_ask(void *ctx, uint32_t what, void (*told)(void *host, const struct sk_guest_told *t),
                  void *host) {
    struct sk_cluster *c = lock(ctx);
    int64_t until = sk_deadline_ns(ANSWER_NS);
    struct timespec ts = {.tv_sec = until / SK_SEC, .tv_nsec = until % SK_SEC};
    uint64_t number = ask_begin(c, what);
    sk_tcp_wake(c->tcp);
    while (!sk_book_answered(c->book, number) && !c->closing && !c->broken.code &&
           sk_now_ns() < until)
        (void)pthread_cond_timedwait(&c->moved, &c->mu, &ts);
    ask_end(c, number, told, host);
    if (what == SK_ASK_STATUS) {
        struct sk_book_stats s = sk_book_stats(c->book);
        char text[200];
        int n = snprintf(text, sizeof text, "lineage_tasks %llu\nlineage_bytes %llu\nreruns %llu\n",
                         (unsigned long long)s.n_kept, (unsigned long long)s.kept_bytes,
                         (unsigned long long)s.n_remade);
        told(host, &(struct sk_guest_told){.bytes = {text, (size_t)n}});
    }
    (void)unlock(c, SK_OK, false);
}

static void g_workers(void *ctx, void (*told)(void *host, const struct sk_guest_told *t),
                      void *host) {
    struct sk_cluster *c = lock(ctx);
    c->want_workers = true;
    for (uint32_t i = 0; i < c->of_workers.n; i++) told(host, &c->of_workers.p[i]);
    (void)unlock(c, SK_OK, false);
}

static const struct sk_guest_ops guest_ops = {
    .begin = g_begin,
    .end = g_end,
    .nodes = g_nodes,
    .define = g_define,
    .env = g_env,
    .submit = g_submit,
    .cancel = g_cancel,
    .taken = g_taken,
    .actor_end = g_actor_end,
    .put = g_put,
    .poll = g_poll,
    .fetch = g_fetch,
    .let_go = g_let_go,
    .drop = g_drop,
    .group = g_group,
    .group_end = g_group_end,
    .join = g_join,
    .drain = g_drain,
    .give_up = g_give_up,
    .ask = g_ask,
    .workers = g_workers,
};

/* ---- open ------------------------------------------------------------------------------------ */

/* Waits until all nodes have answered. */
static sk_rc meet(struct sk_cluster *c, struct sk_err *err) {
    int64_t until = sk_deadline_ns(c->conf.patience_ns);
    for (;;) {
        const char *missing = NULL;
        for (uint32_t i = 0; i < c->links.n; i++)
            if (!c->links.p[i].answered) missing = c->links.p[i].address;
        if (c->refused.code) {
            if (err) *err = c->refused;
            return c->refused.code;
        }
        if (!missing) return join_all(c, err);
        if (sk_now_ns() >= until)
            return SK_ERR(err, SK_ETIMEOUT,
                          "node at %s: no answer within %.1f s; is it reachable from here?",
                          missing, (double)c->conf.patience_ns / SK_SEC);
        SK_TRY(sk_tcp_pump(c->tcp, until, err));
    }
}

extern const struct sk_engine_class sk_engine_by_cluster;
extern const struct sk_engine_class sk_engine_by_guest;

static sk_rc open_cluster(const struct sk_engine_conf *conf, struct sk_engine **out,
                          struct sk_err *err) {
    const struct sk_cluster_conf *k = conf->cluster;
    if (!k || !k->n_addresses) return SK_ERR(err, SK_EINVAL, "engine cluster: there are no nodes");
    if (k->secret.n != SK_SECRET)
        return SK_ERR(err, SK_EINVAL, "the secret of a job has %d bytes, not %zu", SK_SECRET,
                      k->secret.n);
    struct sk_cluster *c = sk_calloc(TAG, sizeof *c);
    if (!c) return SK_ERR(err, SK_ENOMEM, "engine cluster");
    c->conf = *k;
    c->prints = conf->prints;
    if (!c->conf.lease_ns) c->conf.lease_ns = 5 * SK_SEC;
    if (!c->conf.patience_ns) c->conf.patience_ns = 5 * SK_SEC;
    memcpy(c->secret, k->secret.p, SK_SECRET);
    pthread_condattr_t ca;
    pthread_mutex_init(&c->mu, NULL);
    pthread_condattr_init(&ca);
    pthread_condattr_setclock(&ca, CLOCK_MONOTONIC);
    pthread_cond_init(&c->moved, &ca);
    pthread_condattr_destroy(&ca);
    struct sk_tcp_hooks hooks = {
        .ctx = c, .message = on_message, .closed = on_closed, .place = place, .unplace = unplace};
    sk_rc rc = sk_book_create(&c->book, conf->lineage_bytes, err);
    if (rc == SK_OK) rc = sk_tcp_open(&c->tcp, &hooks, NULL, NULL, err);
    if (rc == SK_OK && k->carrier) rc = sk_tcp_carried_by(c->tcp, k->carrier, err);
    for (uint32_t i = 0; rc == SK_OK && i < k->n_addresses; i++)
        rc = say_hello(c, k->addresses[i], NULL, err);
    if (rc == SK_OK) rc = meet(c, err);
    struct sk_guest guest = {.ops = &guest_ops,
                             .ctx = c,
                             .notes = true,
                             .parts = true,
                             .nodes_now = true,
                             .actors = true,
                             .wheres = true,
                             .refs = &ref_ops};
    struct sk_engine_conf host = *conf;
    host.guest = &guest;
    if (rc == SK_OK) {
        rc = sk_engine_by_guest.open(&host, out, err); /* calls g_end if it fails */
        if (rc == SK_OK) (*out)->cls = &sk_engine_by_cluster;
        return rc;
    }
    if (c->tcp) sk_tcp_close(c->tcp);
    if (c->book) sk_book_destroy(c->book);
    for (uint32_t i = 0; i < c->links.n; i++) sk_free(c->links.p[i].labels);
    sk_vec_free(&c->links);
    pthread_mutex_destroy(&c->mu);
    pthread_cond_destroy(&c->moved);
    sk_free(c);
    return rc;
}

static void close_cluster(struct sk_engine *e) { sk_engine_by_guest.close(e); }

const struct sk_engine_class sk_engine_by_cluster = {
    .name = "cluster", .prints = true, .open = open_cluster, .close = close_cluster};
