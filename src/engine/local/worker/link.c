/* link.c - a worker's end of its link to the driver: messages both ways, answers to its requests,
 * and the store memory that it leases to cut values from. Any thread of the worker may send; one
 * thread at a time reads.
 *
 * Not here: the meaning of the messages (engine.c), tasks (task.c). Invariant: messages of a
 * process are handled in order, so a message that needs no answer is just sent; each request has
 * one answer. Cost: a value that fits into the lease needs no round trip. */
#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/mem.h"
#include "engine/local/worker/worker.h"
#include "engine/watch.h"

#define SPIN_NS 20000

/* ---- messages -------------------------------------------------------------------------------- */

void sk_worker_link_ring(struct sk_worker_engine *c, bool lazy) {
    for (;; lazy = false) {
        uint32_t who = atomic_load_explicit(&c->ctl->who, memory_order_seq_cst);
        /* no wake-up: the driver wakes by itself within a millisecond, and more messages follow */
        c->quiet = lazy && who == 0 && !sk_ring_empty(&c->down);
        if (c->quiet) atomic_fetch_add_explicit(&c->ctl->bell[0].seq, 1, memory_order_seq_cst);
        else sk_bell_ring(&c->ctl->bell[who & 1]);
        /* the first read of `who` may have come before the message was seen: see sk_ctl_drives */
        if (atomic_load_explicit(&c->ctl->who, memory_order_seq_cst) == who) return;
    }
}

static void *reserve(struct sk_worker_engine *c, size_t len) {
    if (SK_UNLIKELY(sk_stray_)) sk_stray_end("only the task's own process may talk to the driver");
    SK_DCHECK(len <= sk_ring_max_msg(&c->up)); /* a longer message would wait for ever */
    for (;;) {
        void *p = sk_ring_reserve(&c->up, len);
        if (p) return p;
        uint32_t seen = sk_bell_seq(&c->slot->bell);
        atomic_store_explicit(&c->slot->want_space, 1, memory_order_seq_cst);
        p = sk_ring_reserve(&c->up, len);
        if (p) return p;
        sk_worker_link_ring(c, false);
        (void)sk_bell_wait(&c->slot->bell, seen, SPIN_NS, sk_now_ns() + 100000000);
        if (c->has_reader) {
            /* The reader may sleep on the same bell, and this thread's waking has told ringers
             * that nobody sleeps there. */
            atomic_fetch_add_explicit(&c->slot->bell.seq, 1, memory_order_seq_cst);
            sk_futex_wake(&c->slot->bell.seq, INT_MAX);
        }
    }
}

static sk_rc lease(struct sk_worker_engine *c, uint64_t len, uint64_t min, uint64_t *off,
                   uint64_t *got, struct sk_err *err);

sk_rc sk_worker_link_try_send_unlocked(struct sk_worker_engine *c, const void *msg, size_t len,
                                       struct sk_err *err) {
    if (len <= sk_ring_max_msg(&c->up)) {
        void *p = reserve(c, len);
        memcpy(p, msg, len);
        SK_FAULT_HERE("worker.before_publish");
        sk_ring_commit(&c->up, len);
    } else {
        uint64_t off, got;
        pthread_mutex_unlock(&c->mu);
        sk_rc rc =
            lease(c, SK_ALIGN(len, SK_STORE_ALIGN), SK_ALIGN(len, SK_STORE_ALIGN), &off, &got, err);
        pthread_mutex_lock(&c->mu);
        if (rc != SK_OK) return rc;
        memcpy(c->data_seg.base + off, msg, len);
        struct {
            uint32_t type, pad;
            uint64_t off, len;
        } m = {SK_M_BIGUP, 0, off, len};
        void *p = reserve(c, sizeof m);
        memcpy(p, &m, sizeof m);
        sk_ring_commit(&c->up, sizeof m);
    }
    c->quiet = true;
    return SK_OK;
}

void sk_worker_link_send_unlocked(struct sk_worker_engine *c, const void *msg, size_t len,
                                  bool wake) {
    struct sk_err err;
    if (sk_worker_link_try_send_unlocked(c, msg, len, &err) != SK_OK) {
        /* no message may be lost silently: the worker ends, and the driver reports the reason */
        int n = snprintf(c->slot->crash, sizeof c->slot->crash,
                         "no store memory for a message of %zu bytes: %s", len, err.msg);
        (void)n;
        abort();
    }
    if (wake) sk_worker_link_ring(c, false);
}

void sk_worker_link_tell(struct sk_worker_engine *c, uint32_t type, uint64_t a, uint64_t b,
                         bool wake) {
    struct {
        uint32_t type, pad;
        uint64_t a, b;
    } m = {type, 0, a, b};
    pthread_mutex_lock(&c->mu);
    sk_worker_link_send_unlocked(c, &m, sizeof m, wake);
    pthread_mutex_unlock(&c->mu);
}

void sk_worker_link_nudge(struct sk_group *g) {
    uint64_t one = 1;
    if (g->fd >= 0 && !sk_fd_ours(g->fd, g->fd_id)) sk_worker_link_fd_lost(g->c);
    /* a write fails only if the eventfd is full, and then it is readable anyway */
    if (g->fd >= 0 && write(g->fd, &one, sizeof one) < 0) SK_ASSERT(errno == EAGAIN);
}

void sk_worker_link_fd_lost(struct sk_worker_engine *c) {
    (void)snprintf(c->slot->crash, sizeof c->slot->crash,
                   "user code has closed descriptors of the worker (closefrom, os.closerange, dup2 "
                   "over them); it should keep those that "
                   "it did not open");
    abort();
}

/* Wakes all running event loops of an async actor. Call with c->mu held. */
static void nudge_all(struct sk_worker_engine *c) {
    for (uint32_t i = 0; c->is_async && i < c->n_groups; i++)
        if (i == 0 || c->groups[i].n_threads) sk_worker_link_nudge(&c->groups[i]);
}

static struct sk_msg *keep(const void *p, size_t len, uint64_t req) {
    struct sk_msg *m = sk_alloc(SK_TAG_ENGINE, sizeof *m + len);
    if (!m) abort(); /* without memory the worker ends, and the driver runs its tasks elsewhere */
    sk_list_init(&m->link);
    m->req = req;
    m->len = len;
    memcpy(m->bytes, p, len);
    return m;
}

/* ---- a function a message -------------------------------------------------------------------- */

struct in { /* a message that was read */
    const void *p;
    size_t len;
    bool in_wait;         /* the thread that read the message waits for an answer */
    struct sk_msg **task; /* where to store a call that is to run next; may be NULL */
};

static void on_FUNC(struct sk_worker_engine *c, struct sk_rd *r, const struct in *in) {
    (void)in;
    uint64_t fid = sk_rd_u64(r);
    struct sk_bytes name = sk_rd_bytes(r), def = sk_rd_bytes(r);
    if (r->bad || sk_map_get(&c->defs, fid)) return;
    struct sk_def *d = sk_calloc(SK_TAG_ENGINE, sizeof *d);
    if (!d || !(d->name = sk_calloc(SK_TAG_ENGINE, name.n + 1)) ||
        !(d->def = sk_memdup(SK_TAG_ENGINE, def.p, def.n)))
        abort();
    memcpy(d->name, name.p, name.n);
    d->len = def.n;
    if (sk_map_put(&c->defs, fid, d) != SK_OK) abort();
}

static void on_TASK(struct sk_worker_engine *c, struct sk_rd *r, const struct in *in) {
    (void)r;
    const struct sk_msg_task *h = in->p;
    if (in->in_wait && h->aid == 0) {
        /* tasks queued behind a waiting one go back to the driver: another worker takes them */
        uint64_t want = h->tid << 2 | SK_CLAIM_QUEUED;
        if (!atomic_compare_exchange_strong(&c->slot->claims[h->claim], &want,
                                            h->tid << 2 | SK_CLAIM_TAKEN))
            return;
        struct {
            uint32_t type, pad;
            uint64_t tid;
        } m = {SK_M_RETURNED, 0, h->tid};
        sk_worker_link_send_unlocked(c, &m, sizeof m, true);
    } else if (in->task && !c->n_groups) {
        *in->task = keep(in->p, in->len, 0);
    } else {
        c->queue_call(c, keep(in->p, in->len, 0));
    }
}

static void on_REPLY(struct sk_worker_engine *c, struct sk_rd *r, const struct in *in) {
    (void)sk_rd_u32(r);
    uint64_t req = sk_rd_u64(r);
    sk_list_push_back(&c->replies, &keep(in->p, in->len, req)->link);
    if (c->has_reader) pthread_cond_broadcast(&c->cond);
}

static void credit_queued(struct sk_list *queue, uint64_t tid, uint64_t n) {
    /* gives credit to calls that were read and have not begun */
    SK_LIST_EACH (it, queue) {
        struct sk_msg_task *q = (void *)sk_container_of(it, struct sk_msg, link)->bytes;
        if (q->tid == tid) q->credit = n;
    }
}

static void on_CREDIT(struct sk_worker_engine *c, struct sk_rd *r, const struct in *in) {
    (void)in;
    uint64_t tid = sk_rd_u64(r), n = sk_rd_u64(r);
    SK_LIST_EACH (it, &c->running) {
        struct sk_running *t = sk_container_of(it, struct sk_running, link);
        if (t->tid == tid) t->credit = n;
    }
    credit_queued(&c->queue, tid, n);
    for (uint32_t i = 0; i < c->n_groups; i++) credit_queued(&c->groups[i].queue, tid, n);
    if (c->has_reader) pthread_cond_broadcast(&c->cond);
}

static void on_EXIT(struct sk_worker_engine *c, struct sk_rd *r, const struct in *in) {
    (void)r, (void)in;
    c->exit = true;
    if (c->has_reader) pthread_cond_broadcast(&c->cond);
    nudge_all(c);
}

static void on_UNLEASE(struct sk_worker_engine *c, struct sk_rd *r, const struct in *in) {
    (void)r, (void)in;
    sk_worker_link_idle(c);
}

static void on_ENV(struct sk_worker_engine *c, struct sk_rd *r, const struct in *in) {
    /* the environment comes before the first task */
    (void)in;
    struct sk_bytes b = sk_rd_bytes(r);
    c->env = (struct sk_bytes){sk_memdup(SK_TAG_ENGINE, b.p, b.n), b.n};
    if (r->bad || !c->env.p) abort();
}

static void on_FIRED(struct sk_worker_engine *c, struct sk_rd *r, const struct in *in) {
    (void)in;
    struct sk_watch *w = sk_map_del(&c->watches, sk_rd_u64(r));
    if (w) w->fn(w);
}

static void handle(struct sk_worker_engine *c, const struct in *in);
static void on_BIG(struct sk_worker_engine *c, struct sk_rd *r, const struct in *in) {
    uint64_t off = sk_rd_u64(r), n = sk_rd_u64(r);
    struct sk_msg *m = keep(c->data_seg.base + off, (size_t)n, 0);
    struct {
        uint32_t type, pad;
        uint64_t off;
    } f = {SK_M_BIGFREE, 0, off};
    sk_worker_link_send_unlocked(c, &f, sizeof f, false);
    handle(c, &(struct in){m->bytes, m->len, in->in_wait, in->task});
    sk_free(m);
}

#define ROW(kind) [SK_M_##kind] = on_##kind,
static void (*const handlers[SK_M_DOWN_END])(struct sk_worker_engine *c, struct sk_rd *r,
                                             const struct in *in) = {SK_MESSAGES_DOWN(ROW)};

/* Handles a message; an unknown kind is ignored. */
static void handle(struct sk_worker_engine *c, const struct in *in) {
    SK_DCHECK(in->len >= sizeof(uint32_t));
    struct sk_rd r = sk_rd_init(in->p, in->len);
    uint32_t kind = sk_rd_u32(&r);
    if (kind > SK_M_DOWN && kind < SK_M_DOWN_END) handlers[kind](c, &r, in);
}

/* Reads and handles one message. The handler may send, and wait for room to send; the message is
 * popped only afterwards. That cannot block the driver, which never waits for a worker. */
bool sk_worker_link_read(struct sk_worker_engine *c, bool in_wait, struct sk_msg **task) {
    size_t len;
    const void *p = sk_ring_peek(&c->down, &len);
    if (!p) {
        if (len == SIZE_MAX) abort(); /* the driver's memory is damaged */
        return false;
    }
    handle(c, &(struct in){p, len, in_wait, task});
    sk_ring_pop(&c->down);
    return true;
}

#define READER_IDLE_NS 200000000 /* after this time without messages the lease is given back */

/* The reader: the one thread that reads the ring, so that others can wait for their own answers.
 * It runs without the GIL, and never runs user code. */
static void *reader(void *arg) {
    struct sk_worker_engine *c = arg;
    pthread_mutex_lock(&c->mu);
    /* the threads that sleep on the bell wake and find that there is a reader */
    while (c->n_on_bell) {
        pthread_mutex_unlock(&c->mu);
        sk_bell_ring(&c->slot->bell);
        sched_yield();
        pthread_mutex_lock(&c->mu);
    }
    for (;;) {
        uint32_t seen = sk_bell_seq(&c->slot->bell);
        while (sk_worker_link_read(c, false, NULL)) {}
        nudge_all(c); /* the bell is also rung when a task is cancelled */
        if (c->quiet) sk_worker_link_ring(c, false);
        bool lent = c->lease_len > 0;
        pthread_mutex_unlock(&c->mu);
        sk_rc rc = sk_bell_wait(&c->slot->bell, seen, SPIN_NS,
                                lent ? sk_now_ns() + READER_IDLE_NS : INT64_MAX);
        pthread_mutex_lock(&c->mu);
        if (rc == SK_ETIMEOUT && sk_list_empty(&c->running)) {
            sk_worker_link_idle(c);
            sk_worker_link_ring(c, false);
        }
    }
    return NULL;
}

sk_rc sk_worker_link_start_reader(struct sk_worker_engine *c, struct sk_err *err) {
    if (c->has_reader) return SK_OK;
    pthread_t th;
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    c->has_reader = true;
    int e = pthread_create(&th, NULL, reader, c);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (e == 0) {
        pthread_detach(th);
        return SK_OK;
    }
    c->has_reader = false;
    errno = e;
    return SK_ERR_SYS(err, "starting the thread that reads what the driver sends");
}

void sk_worker_link_wait_unlocked(struct sk_worker_engine *c, int64_t deadline) {
    struct timespec ts;
    int64_t until = SK_MIN(deadline, sk_now_ns() + 10 * SK_SEC);
    ts.tv_sec = until / SK_SEC;
    ts.tv_nsec = until % SK_SEC;
    pthread_cond_timedwait(&c->cond, &c->mu, &ts);
}

void sk_worker_link_sleep_unlocked(struct sk_worker_engine *c, uint32_t seen, int64_t spin_ns,
                                   int64_t deadline) {
    int64_t cap = sk_now_ns() + (c->n_waiting > 1 ? 1000000 : 1000000000);
    c->n_on_bell++;
    pthread_mutex_unlock(&c->mu);
    (void)sk_bell_wait(&c->slot->bell, seen, spin_ns, SK_MIN(deadline, cap));
    pthread_mutex_lock(&c->mu);
    c->n_on_bell--;
}

/* Waits for the answer to `req`; the caller frees it. Called without the lock. At the deadline this
 * function tells the driver, which always answers. */
struct sk_msg *sk_worker_link_answer(struct sk_worker_engine *c, uint64_t req, int64_t deadline) {
    struct sk_msg *got = NULL;
    bool told = false;
    if (c->runner->block_begin) c->runner->block_begin(c->runner->ctx);
    pthread_mutex_lock(&c->mu);
    c->n_waiting++;
    for (;;) {
        /* Read one message at a time: behind the answer the driver may send tasks without end,
         * each of which would have to go back. */
        uint32_t seen = sk_bell_seq(&c->slot->bell);
        bool more = !c->has_reader && sk_worker_link_read(c, true, NULL);
        SK_LIST_EACH (it, &c->replies) {
            struct sk_msg *m = sk_container_of(it, struct sk_msg, link);
            if (m->req == req) {
                got = m;
                break;
            }
        }
        if (got) break;
        if (!told && deadline != INT64_MAX && sk_now_ns() >= deadline) {
            struct {
                uint32_t type, pad;
                uint64_t req;
            } m = {SK_M_TIMEOUT, 0, req};
            sk_worker_link_send_unlocked(c, &m, sizeof m, true);
            told = true;
        }
        if (more) continue;
        if (c->has_reader) {
            sk_worker_link_wait_unlocked(c, told ? INT64_MAX : deadline);
            continue;
        }
        sk_worker_link_sleep_unlocked(c, seen, SPIN_NS, told ? INT64_MAX : deadline);
    }
    sk_list_del(&got->link);
    SK_DCHECK(c->n_waiting > 0);
    c->n_waiting--;
    pthread_mutex_unlock(&c->mu);
    if (c->runner->block_end) c->runner->block_end(c->runner->ctx);
    return got;
}

/* Reads the head of an answer: its code and, of an error, the text. */
sk_rc sk_worker_link_answer_rc(const struct sk_msg *m, struct sk_rd *r, struct sk_err *err) {
    *r = sk_rd_init(m->bytes, m->len);
    (void)sk_rd_u32(r);
    sk_rc rc = (sk_rc)sk_rd_u32(r);
    (void)sk_rd_u64(r);
    if (rc == SK_OK || rc == SK_EDONE || rc == SK_ETASK) return rc;
    if (sk_rd_end(r)) return SK_ERR(err, rc, "%s", sk_rc_name(rc));
    struct sk_bytes b = sk_rd_bytes(r);
    return SK_ERR(err, rc, "%.*s", (int)b.n, (const char *)b.p);
}

sk_rc sk_worker_link_answer_of(struct sk_worker_engine *c, uint64_t req, struct sk_err *err) {
    struct sk_msg *m = sk_worker_link_answer(c, req, INT64_MAX);
    struct sk_rd r;
    sk_rc rc = sk_worker_link_answer_rc(m, &r, err);
    sk_free(m);
    return rc;
}

sk_rc sk_worker_link_number_of(struct sk_worker_engine *c, uint64_t req, uint64_t *out,
                               struct sk_err *err) {
    struct sk_msg *m = sk_worker_link_answer(c, req, INT64_MAX);
    struct sk_rd r;
    sk_rc rc = sk_worker_link_answer_rc(m, &r, err);
    if (rc == SK_OK) *out = sk_rd_u64(&r);
    sk_free(m);
    return rc;
}

/* Gives the request a number (stored at msg + at) and sends it; sk_worker_link_answer() waits
 * for that number. */
uint64_t sk_worker_link_ask(struct sk_worker_engine *c, void *msg, size_t len, size_t at) {
    pthread_mutex_lock(&c->mu);
    uint64_t req = ++c->next_req;
    memcpy((uint8_t *)msg + at, &req, 8);
    sk_worker_link_send_unlocked(c, msg, len, true);
    pthread_mutex_unlock(&c->mu);
    return req;
}

/* Makes a request whose answer is one number. */
sk_rc sk_worker_link_ask_number(struct sk_worker_engine *c, void *msg, size_t len, size_t at,
                                uint64_t *out, struct sk_err *err) {
    return sk_worker_link_number_of(c, sk_worker_link_ask(c, msg, len, at), out, err);
}

/* ---- store memory ---------------------------------------------------------------------------- */

/* Leases len bytes, or min of them if room is short; waits as long as there may be room. min 0:
 * leases all of len, and only if there is plenty of room now. */
static sk_rc lease(struct sk_worker_engine *c, uint64_t len, uint64_t min, uint64_t *off,
                   uint64_t *got, struct sk_err *err) {
    struct {
        uint32_t type, pad;
        uint64_t req, len, min;
    } q = {SK_M_LEASE, 0, 0, len, min};
    struct sk_msg *m =
        sk_worker_link_answer(c, sk_worker_link_ask(c, &q, sizeof q, REQ_AT), INT64_MAX);
    struct sk_rd r;
    sk_rc rc = sk_worker_link_answer_rc(m, &r, err);
    if (rc == SK_OK) *off = sk_rd_u64(&r), *got = sk_rd_u64(&r);
    sk_free(m);
    return rc;
}

sk_rc sk_worker_link_lease(struct sk_engine *e, size_t len, struct sk_buf *out,
                           struct sk_err *err) {
    struct sk_worker_engine *c = sk_container_of(e, struct sk_worker_engine, base);
    uint64_t off, got;
    SK_TRY(lease(c, SK_ALIGN(SK_MAX(len, 1), SK_STORE_ALIGN), 0, &off, &got, err));
    *out = (struct sk_buf){c->data_seg.base + off, len, off};
    return SK_OK;
}

/* call with c->mu held */
static void give(struct sk_worker_engine *c, uint64_t off, uint64_t len) {
    struct {
        uint32_t type, pad;
        uint64_t off, len;
    } m = {SK_M_GIVE, 0, off, len};
    if (len) sk_worker_link_send_unlocked(c, &m, sizeof m, false);
}

void sk_worker_link_idle(struct sk_worker_engine *c) {
    /* otherwise memory that is being written would be given back to the driver */
    SK_ASSERT(c->lease_used <= c->lease_len);
    give(c, c->lease_off + c->lease_used, c->lease_len - c->lease_used);
    c->lease_off = c->lease_len = c->lease_used = 0;
}

sk_rc sk_worker_link_buf_alloc(struct sk_engine *e, size_t len, struct sk_buf *out,
                               struct sk_err *err) {
    struct sk_worker_engine *c = sk_container_of(e, struct sk_worker_engine, base);
    uint64_t al = SK_ALIGN(SK_MAX(len, 1), SK_STORE_ALIGN), off = 0;
    bool have = false;
    pthread_mutex_lock(&c->mu);
    if (al <= c->chunk / 2) {
        if (c->lease_len - c->lease_used < al) {
            sk_worker_link_idle(c);
            pthread_mutex_unlock(&c->mu);
            uint64_t o, got;
            SK_TRY(lease(c, c->chunk, al, &o, &got, err));
            pthread_mutex_lock(&c->mu);
            sk_worker_link_idle(c); /* another thread may have leased memory meanwhile */
            c->lease_off = o;
            c->lease_len = got;
            c->lease_used = 0;
        }
        if (c->lease_len - c->lease_used >= al) {
            off = c->lease_off + c->lease_used;
            c->lease_used += al;
            have = true;
        }
    }
    pthread_mutex_unlock(&c->mu);
    uint64_t got;
    if (!have) SK_TRY(lease(c, al, al, &off, &got, err));
    SK_DCHECK(off % SK_STORE_ALIGN == 0 && off + al <= c->data_seg.size + c->data_seg.tail);
    *out = (struct sk_buf){c->data_seg.base + off, len, off};
    return SK_OK;
}

static void buf_tail(struct sk_worker_engine *c, uint64_t off, uint64_t len) {
    /* call with c->mu held; gives back the end of an allocation that is not needed */
    if (!len) return;
    /* The second test: an allocation with its own lease may end where the chunk begins. */
    if (c->lease_len && off >= c->lease_off && off + len == c->lease_off + c->lease_used)
        c->lease_used -= len;
    else give(c, off, len);
}

void sk_worker_link_buf_abort(struct sk_engine *e, struct sk_buf *b) {
    struct sk_worker_engine *c = sk_container_of(e, struct sk_worker_engine, base);
    if (!b->data) return;
    pthread_mutex_lock(&c->mu);
    buf_tail(c, b->token, SK_ALIGN(SK_MAX(b->len, 1), SK_STORE_ALIGN));
    pthread_mutex_unlock(&c->mu);
    b->data = NULL;
}

sk_rc sk_worker_link_value(struct sk_worker_engine *c, const struct sk_payload *p, struct sk_val *v,
                           const void **bytes, struct sk_err *err) {
    *v = (struct sk_val){.kind = p->kind};
    *bytes = p->bytes.p;
    if (p->buf) {
        uint64_t al = SK_ALIGN(SK_MAX(p->buf_len, 1), SK_STORE_ALIGN),
                 have = SK_ALIGN(SK_MAX(p->buf->len, 1), SK_STORE_ALIGN);
        SK_ASSERT(al <= have); /* a buffer is at least as long as the value in it */
        v->where = SK_V_STORE;
        v->off = p->buf->token;
        v->len = p->buf_len;
        if (p->keep) {
            v->keep = 1;
            *p->keep = (struct sk_view){p->buf->data, p->buf_len, p->kind, {0}, v->off << 1 | 1};
        }
        pthread_mutex_lock(&c->mu);
        buf_tail(c, v->off + al, have - al);
        pthread_mutex_unlock(&c->mu);
        p->buf->data = NULL;
    } else if (p->bytes.n > SK_INLINE_MAX) {
        struct sk_buf b;
        SK_TRY(sk_worker_link_buf_alloc(&c->base, p->bytes.n, &b, err));
        memcpy(b.data, p->bytes.p, p->bytes.n);
        v->where = SK_V_STORE;
        v->off = b.token;
        v->len = p->bytes.n;
    } else {
        v->where = SK_V_INLINE;
        v->len = p->bytes.n;
    }
    return SK_OK;
}
