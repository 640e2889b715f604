/* client.c - the engine as a worker sees it: the calls of engine.h as messages to the driver. What needs no answer (submit, put, reference
 * counts, definitions) is sent and forgotten: messages of a process are handled in order, so no acknowledgement is needed. Ids of new
 * objects come from the worker's own range. Store memory is leased in pieces and cut here without a round trip. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/hash.h"
#include "base/mem.h"
#include "engine/local/worker_int.h"

#define SPIN_NS 20000

static struct sk_client *C(struct sk_engine *e) { return sk_container_of(e, struct sk_client, base); }

/* ---- messages ------------------------------------------------------------------------------------------------------------------ */

void sk_client_ring(struct sk_client *c, bool lazy) {
    uint32_t who = atomic_load_explicit(&c->ctl->who, memory_order_seq_cst);
    c->quiet = lazy && who == 0 && !sk_ring_empty(&c->down); /* it wakes by itself within a millisecond, and more is coming */
    if (c->quiet) atomic_fetch_add_explicit(&c->ctl->bell[0].seq, 1, memory_order_seq_cst);
    else sk_bell_ring(&c->ctl->bell[who & 1]);
}

static void *reserve(struct sk_client *c, size_t len) {
    if (SK_UNLIKELY(sk_stray_)) sk_stray_end("only the task's own process may talk to the driver");
    for (;;) {
        void *p = sk_ring_reserve(&c->up, len);
        if (p) return p;
        uint32_t seen = sk_bell_seq(&c->slot->bell);
        atomic_store_explicit(&c->slot->want_space, 1, memory_order_seq_cst);
        p = sk_ring_reserve(&c->up, len);
        if (p) return p;
        sk_client_ring(c, false);
        (void)sk_bell_wait(&c->slot->bell, seen, SPIN_NS, sk_now_ns() + 100000000);
    }
}

static sk_rc lease(struct sk_client *c, uint64_t len, uint64_t min, uint64_t *off, uint64_t *got, struct sk_err *err);

sk_rc sk_client_try_send(struct sk_client *c, const void *msg, size_t len, struct sk_err *err) {
    if (len <= sk_ring_max_msg(&c->up)) {
        void *p = reserve(c, len);
        memcpy(p, msg, len);
        SK_FAULT_HERE("worker.before_publish");
        sk_ring_commit(&c->up, len);
    } else {
        uint64_t off, got;
        pthread_mutex_unlock(&c->mu);
        sk_rc rc = lease(c, SK_ALIGN(len, SK_STORE_ALIGN), SK_ALIGN(len, SK_STORE_ALIGN), &off, &got, err);
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

void sk_client_send(struct sk_client *c, const void *msg, size_t len, bool wake) {
    struct sk_err err;
    if (sk_client_try_send(c, msg, len, &err) != SK_OK) { /* not to be lost quietly: the driver sees a dead worker and says why */
        int n = snprintf(c->slot->crash, sizeof c->slot->crash, "no store memory for a message of %zu bytes: %s", len, err.msg);
        (void)n;
        abort();
    }
    if (wake) sk_client_ring(c, false);
}

void sk_client_nudge(struct sk_group *g) {
    uint64_t one = 1;
    if (g->fd >= 0 && write(g->fd, &one, sizeof one) < 0) SK_ASSERT(errno == EAGAIN); /* it is readable then */
}

/* All event loops of an async actor that are there. Locked. */
static void nudge_all(struct sk_client *c) {
    for (uint32_t i = 0; c->is_async && i < c->n_groups; i++)
        if (i == 0 || c->groups[i].n_threads) sk_client_nudge(&c->groups[i]);
}

void sk_client_queue(struct sk_client *c, struct sk_msg *m) {
    const struct sk_msg_task *h = (const void *)m->bytes;
    if (!c->n_groups || (h->flags & SK_TF_INIT)) {
        sk_list_push_back(&c->queue, &m->link);
        if (c->has_reader) pthread_cond_broadcast(&c->cond);
        return;
    }
    struct sk_group *g = &c->groups[h->group < c->n_groups ? h->group : 0];
    sk_list_push_back(&g->queue, &m->link);
    g->n_queued++;
    if (c->is_async) {
        if (g != c->groups && c->ready && !g->n_threads) sk_worker_thread(g);
        sk_client_nudge(g);
    } else if (c->ready) {
        pthread_cond_signal(&g->cond);
        if (g->n_queued > g->n_idle && g->n_threads < g->max) sk_worker_thread(g);
    }
}

static struct sk_msg *keep(const void *p, size_t len, uint64_t req) {
    struct sk_msg *m = sk_alloc(SK_TAG_ENGINE, sizeof *m + len);
    if (!m) abort(); /* a worker without memory is a dead worker; the driver retries elsewhere */
    sk_list_init(&m->link);
    m->req = req;
    m->len = len;
    memcpy(m->bytes, p, len);
    return m;
}

static void got_func(struct sk_client *c, struct sk_rd *r) {
    uint64_t fid = sk_rd_u64(r);
    struct sk_bytes name = sk_rd_bytes(r), def = sk_rd_bytes(r);
    if (r->bad || sk_map_get(&c->defs, fid)) return;
    struct sk_def *d = sk_calloc(SK_TAG_ENGINE, sizeof *d);
    if (!d || !(d->name = sk_calloc(SK_TAG_ENGINE, name.n + 1)) ||
        !(d->def = sk_memdup(SK_TAG_ENGINE, def.n ? def.p : "", def.n ? def.n : 1)))
        abort();
    memcpy(d->name, name.p, name.n);
    d->len = def.n;
    if (sk_map_put(&c->defs, fid, d) != SK_OK) abort();
}

static void credit_queued(struct sk_list *queue, uint64_t tid, uint64_t n) { /* of calls that were read, but not begun */
    SK_LIST_EACH (it, queue) {
        struct sk_msg_task *q = (void *)sk_container_of(it, struct sk_msg, link)->bytes;
        if (q->tid == tid) q->credit = n;
    }
}

static bool handle(struct sk_client *c, const void *p, size_t len, bool in_wait, struct sk_msg **task) {
    struct sk_rd r = sk_rd_init(p, len);
    uint32_t type = sk_rd_u32(&r);
    switch (type) {
    case SK_M_TASK: {
        const struct sk_msg_task *h = p;
        if (in_wait && h->aid == 0) { /* what is behind a waiting task goes back: another worker will take it */
            uint64_t want = h->tid << 2 | SK_CLAIM_QUEUED;
            if (atomic_compare_exchange_strong(&c->slot->claims[h->claim], &want, h->tid << 2 | SK_CLAIM_TAKEN)) {
                struct {
                    uint32_t type, pad;
                    uint64_t tid;
                } m = {SK_M_RETURNED, 0, h->tid};
                sk_client_send(c, &m, sizeof m, true);
            }
        } else if (task && !c->n_groups) {
            *task = keep(p, len, 0);
        } else {
            sk_client_queue(c, keep(p, len, 0));
        }
        break;
    }
    case SK_M_FUNC: got_func(c, &r); break;
    case SK_M_REPLY: {
        (void)sk_rd_u32(&r);
        uint64_t req = sk_rd_u64(&r);
        sk_list_push_back(&c->replies, &keep(p, len, req)->link);
        if (c->has_reader) pthread_cond_broadcast(&c->cond);
        break;
    }
    case SK_M_FIRED: {
        struct sk_watch *w = sk_map_del(&c->watches, sk_rd_u64(&r));
        if (w) w->fn(w);
        break;
    }
    case SK_M_CREDIT: {
        uint64_t tid = sk_rd_u64(&r), n = sk_rd_u64(&r);
        SK_LIST_EACH (it, &c->running) {
            struct sk_running *t = sk_container_of(it, struct sk_running, link);
            if (t->tid == tid) t->credit = n;
        }
        credit_queued(&c->queue, tid, n);
        for (uint32_t i = 0; i < c->n_groups; i++) credit_queued(&c->groups[i].queue, tid, n);
        if (c->has_reader) pthread_cond_broadcast(&c->cond);
        break;
    }
    case SK_M_UNLEASE: sk_client_idle(c); break;
    case SK_M_ENV: { /* before the first task */
        struct sk_bytes b = sk_rd_bytes(&r);
        c->env = (struct sk_bytes){sk_memdup(SK_TAG_ENGINE, b.n ? b.p : "", b.n ? b.n : 1), b.n};
        if (r.bad || !c->env.p) abort();
        break;
    }
    case SK_M_EXIT:
        c->exit = true;
        if (c->has_reader) pthread_cond_broadcast(&c->cond);
        nudge_all(c);
        break;
    default: break;
    }
    return true;
}

bool sk_client_read(struct sk_client *c, bool in_wait, struct sk_msg **task) {
    size_t len;
    const void *p = sk_ring_peek(&c->down, &len);
    if (!p) {
        if (len == SIZE_MAX) abort(); /* the driver's own memory is damaged */
        return false;
    }
    struct sk_rd r = sk_rd_init(p, len);
    if (sk_rd_u32(&r) == SK_M_BIG) {
        uint64_t off = sk_rd_u64(&r), n = sk_rd_u64(&r);
        struct sk_msg *m = keep(c->data_seg.base + off, (size_t)n, 0);
        struct {
            uint32_t type, pad;
            uint64_t off;
        } f = {SK_M_BIGFREE, 0, off};
        sk_ring_pop(&c->down);
        sk_client_send(c, &f, sizeof f, false);
        handle(c, m->bytes, m->len, in_wait, task);
        sk_free(m);
        return true;
    }
    /* Sending from inside handle() can wait for room; the message is copied or done with by then, but popped only after: fine, the driver
     * does not wait for us. */
    handle(c, p, len, in_wait, task);
    sk_ring_pop(&c->down);
    return true;
}

#define READER_IDLE_NS 200000000 /* nothing came for so long: the lease goes back */

/* The reader: the one thread that looks at the ring, so that others can wait for what is theirs. Without the GIL, never runs user code. */
static void *reader(void *arg) {
    struct sk_client *c = arg;
    pthread_mutex_lock(&c->mu);
    for (;;) {
        uint32_t seen = sk_bell_seq(&c->slot->bell);
        while (sk_client_read(c, false, NULL)) {}
        nudge_all(c); /* the bell rings for cancelled tasks, too */
        if (c->quiet) sk_client_ring(c, false);
        pthread_mutex_unlock(&c->mu);
        sk_rc rc = sk_bell_wait(&c->slot->bell, seen, SPIN_NS, c->lease_len ? sk_now_ns() + READER_IDLE_NS : INT64_MAX);
        pthread_mutex_lock(&c->mu);
        if (rc == SK_ETIMEOUT && sk_list_empty(&c->running)) {
            sk_client_idle(c);
            sk_client_ring(c, false);
        }
    }
    return NULL;
}

sk_rc sk_client_start_reader(struct sk_client *c, struct sk_err *err) {
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

void sk_client_wait(struct sk_client *c, int64_t deadline) {
    struct timespec ts;
    int64_t until = SK_MIN(deadline, sk_now_ns() + 10 * SK_SEC);
    ts.tv_sec = until / SK_SEC;
    ts.tv_nsec = until % SK_SEC;
    pthread_cond_timedwait(&c->cond, &c->mu, &ts);
}

void sk_client_sleep(struct sk_client *c, uint32_t seen, int64_t spin_ns, int64_t deadline) {
    int64_t cap = sk_now_ns() + (c->n_waiting > 1 ? 1000000 : 1000000000);
    (void)sk_bell_wait(&c->slot->bell, seen, spin_ns, SK_MIN(deadline, cap));
}

/* Waits for the answer to `req`; the caller frees it. Not locked. At the deadline the driver is told, and it always answers. */
static struct sk_msg *answer(struct sk_client *c, uint64_t req, int64_t deadline) {
    struct sk_msg *got = NULL;
    bool told = false;
    if (c->runner->block_begin) c->runner->block_begin(c->runner->ctx);
    pthread_mutex_lock(&c->mu);
    c->n_waiting++;
    for (
        ;
        ;) { /* One message at a time: with the answer behind it the driver may send tasks without end, each of which would go back at once. */
        uint32_t seen = sk_bell_seq(&c->slot->bell);
        bool more = !c->has_reader && sk_client_read(c, true, NULL);
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
            sk_client_send(c, &m, sizeof m, true);
            told = true;
        }
        if (more) continue;
        if (c->has_reader) {
            sk_client_wait(c, told ? INT64_MAX : deadline);
            continue;
        }
        pthread_mutex_unlock(&c->mu);
        sk_client_sleep(c, seen, SPIN_NS, told ? INT64_MAX : deadline);
        pthread_mutex_lock(&c->mu);
    }
    sk_list_del(&got->link);
    c->n_waiting--;
    pthread_mutex_unlock(&c->mu);
    if (c->runner->block_end) c->runner->block_end(c->runner->ctx);
    return got;
}

/* Head of an answer: its code, with the text of an error. */
static sk_rc answer_rc(const struct sk_msg *m, struct sk_rd *r, struct sk_err *err) {
    *r = sk_rd_init(m->bytes, m->len);
    (void)sk_rd_u32(r);
    sk_rc rc = (sk_rc)sk_rd_u32(r);
    (void)sk_rd_u64(r);
    if (rc == SK_OK || rc == SK_EDONE || rc == SK_ETASK) return rc;
    if (sk_rd_end(r)) return SK_ERR(err, rc, "%s", sk_rc_name(rc));
    struct sk_bytes b = sk_rd_bytes(r);
    return SK_ERR(err, rc, "%.*s", (int)b.n, (const char *)b.p);
}

static sk_rc answer_of(struct sk_client *c, uint64_t req, struct sk_err *err) {
    struct sk_msg *m = answer(c, req, INT64_MAX);
    struct sk_rd r;
    sk_rc rc = answer_rc(m, &r, err);
    sk_free(m);
    return rc;
}

#define REQ_AT 8 /* of most requests: where their number stands */

/* Numbers the request (at msg + at) and sends it; answer() waits for that number. */
static uint64_t ask(struct sk_client *c, void *msg, size_t len, size_t at) {
    pthread_mutex_lock(&c->mu);
    uint64_t req = ++c->next_req;
    memcpy((uint8_t *)msg + at, &req, 8);
    sk_client_send(c, msg, len, true);
    pthread_mutex_unlock(&c->mu);
    return req;
}

/* A request whose answer is one number. */
static sk_rc ask_number(struct sk_client *c, void *msg, size_t len, size_t at, uint64_t *out, struct sk_err *err) {
    struct sk_msg *m = answer(c, ask(c, msg, len, at), INT64_MAX);
    struct sk_rd r;
    sk_rc rc = answer_rc(m, &r, err);
    if (rc == SK_OK) *out = sk_rd_u64(&r);
    sk_free(m);
    return rc;
}

/* ---- store memory ---------------------------------------------------------------------------------------------------------------- */

/* len bytes, or min of them when room is short; waits as long as there may be room. */
static sk_rc lease(struct sk_client *c, uint64_t len, uint64_t min, uint64_t *off, uint64_t *got, struct sk_err *err) {
    struct {
        uint32_t type, pad;
        uint64_t req, len, min;
    } q = {SK_M_LEASE, 0, 0, len, min};
    struct sk_msg *m = answer(c, ask(c, &q, sizeof q, REQ_AT), INT64_MAX);
    struct sk_rd r;
    sk_rc rc = answer_rc(m, &r, err);
    if (rc == SK_OK) *off = sk_rd_u64(&r), *got = sk_rd_u64(&r);
    sk_free(m);
    return rc;
}

static void give(struct sk_client *c, uint64_t off, uint64_t len) { /* locked */
    struct {
        uint32_t type, pad;
        uint64_t off, len;
    } m = {SK_M_GIVE, 0, off, len};
    if (len) sk_client_send(c, &m, sizeof m, false);
}

void sk_client_idle(struct sk_client *c) {
    give(c, c->lease_off + c->lease_used, c->lease_len - c->lease_used);
    c->lease_off = c->lease_len = c->lease_used = 0;
}

static sk_rc c_buf_alloc(struct sk_engine *e, size_t len, struct sk_buf *out, struct sk_err *err) {
    struct sk_client *c = C(e);
    uint64_t al = SK_ALIGN(SK_MAX(len, 1), SK_STORE_ALIGN), off = 0;
    bool have = false;
    pthread_mutex_lock(&c->mu);
    if (al <= c->chunk / 2) {
        if (c->lease_len - c->lease_used < al) {
            sk_client_idle(c);
            pthread_mutex_unlock(&c->mu);
            uint64_t o, got;
            SK_TRY(lease(c, c->chunk, al, &o, &got, err));
            pthread_mutex_lock(&c->mu);
            sk_client_idle(c); /* another thread may have got one meanwhile */
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
    *out = (struct sk_buf){c->data_seg.base + off, len, off};
    return SK_OK;
}

static void buf_tail(struct sk_client *c, uint64_t off, uint64_t len) { /* locked; the end of an allocation is not needed */
    if (!len) return;
    /* A lease of its own may end where the chunk begins. */
    if (c->lease_len && off >= c->lease_off && off + len == c->lease_off + c->lease_used) c->lease_used -= len;
    else give(c, off, len);
}

static void c_buf_abort(struct sk_engine *e, struct sk_buf *b) {
    struct sk_client *c = C(e);
    if (!b->data) return;
    pthread_mutex_lock(&c->mu);
    buf_tail(c, b->token, SK_ALIGN(SK_MAX(b->len, 1), SK_STORE_ALIGN));
    pthread_mutex_unlock(&c->mu);
    b->data = NULL;
}

sk_rc sk_client_value(struct sk_client *c, const struct sk_payload *p, struct sk_val *v, const void **bytes, struct sk_err *err) {
    *v = (struct sk_val){.kind = p->kind};
    *bytes = p->bytes.p;
    if (p->buf) {
        uint64_t al = SK_ALIGN(SK_MAX(p->buf_len, 1), SK_STORE_ALIGN), have = SK_ALIGN(SK_MAX(p->buf->len, 1), SK_STORE_ALIGN);
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
        SK_TRY(c_buf_alloc(&c->base, p->bytes.n, &b, err));
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

/* ---- the calls -------------------------------------------------------------------------------------------------------------------- */

static void c_close(struct sk_engine *e) { (void)e; } /* the worker ends with its process */

static sk_rc c_define(struct sk_engine *e, sk_fid fn, const char *name, struct sk_bytes def, struct sk_err *err) {
    struct sk_client *c = C(e);
    struct sk_wr m = sk_wr_init(NULL, 0);
    for (int pass = 0; pass < 2; pass++) {
        sk_wr_u32(&m, SK_M_DEFINE);
        sk_wr_u64(&m, fn.v);
        sk_wr_str(&m, name);
        sk_wr_bytes(&m, def.p, def.n);
        if (pass == 0) {
            uint8_t *p = sk_alloc(SK_TAG_ENGINE, m.n);
            if (!p) return SK_ERR(err, SK_ENOMEM, "no memory for a function definition");
            m = sk_wr_init(p, m.n);
        }
    }
    pthread_mutex_lock(&c->mu);
    sk_client_send(c, m.p, m.n, false);
    pthread_mutex_unlock(&c->mu);
    sk_free(m.p);
    return SK_OK;
}

static sk_rc c_need(struct sk_engine *e, const struct sk_need *need, sk_shape *out, struct sk_err *err) {
    struct sk_client *c = C(e);
    uint64_t h = sk_hash(need, sizeof *need);
    pthread_mutex_lock(&c->mu);
    uintptr_t known = (uintptr_t)sk_map_get(&c->shapes, h | 1);
    pthread_mutex_unlock(&c->mu);
    if (known) {
        *out = (sk_shape)(known - 1);
        return SK_OK;
    }
    struct {
        uint32_t type, pad;
        uint64_t req;
        struct sk_need need;
    } q = {SK_M_SHAPE, 0, 0, *need};
    struct sk_msg *m = answer(c, ask(c, &q, sizeof q, REQ_AT), INT64_MAX);
    struct sk_rd r;
    sk_rc rc = answer_rc(m, &r, err);
    if (rc == SK_OK) {
        *out = (sk_shape)sk_rd_u64(&r);
        pthread_mutex_lock(&c->mu);
        SK_IGNORE(sk_map_put(&c->shapes, h | 1, (void *)((uintptr_t)*out + 1))); /* asked again */
        pthread_mutex_unlock(&c->mu);
    }
    sk_free(m);
    return rc;
}

static sk_rc c_shape(struct sk_engine *e, const struct sk_res *res, sk_shape *out, struct sk_err *err) {
    return c_need(e, &(struct sk_need){.res = *res}, out, err);
}

static sk_rc c_env_define(struct sk_engine *e, struct sk_bytes env, uint32_t *out, struct sk_err *err) {
    size_t cap = env.n + 64;
    uint64_t v = 0;
    uint8_t *p = sk_alloc(SK_TAG_ENGINE, cap);
    if (!p) return SK_ERR(err, SK_ENOMEM, "no memory for an environment");
    struct sk_wr w = sk_wr_init(p, cap);
    sk_wr_u32(&w, SK_M_DEFENV);
    sk_wr_u64(&w, 0);
    sk_wr_bytes(&w, env.p, env.n);
    sk_rc rc = ask_number(C(e), p, w.n, REQ_AT, &v, err);
    sk_free(p);
    if (rc == SK_OK) *out = (uint32_t)v;
    return rc;
}

static sk_rc c_group_create(struct sk_engine *e, const struct sk_group_spec *s, uint64_t *out, sk_oid *ready, struct sk_err *err) {
    struct sk_client *c = C(e);
    size_t cap = 2 * SK_NAME_MAX + 128 + s->n * sizeof *s->bundles;
    uint64_t base, v;
    struct sk_bytes name = {s->name, s->name ? strlen(s->name) : 0}, space = {s->space, s->space ? strlen(s->space) : 0};
    SK_TRY(sk_names_check("placement group", space, name, err)); /* they fit into the message */
    uint8_t *p = sk_alloc(SK_TAG_ENGINE, cap);
    if (!p) return SK_ERR(err, SK_ENOMEM, "no memory for a placement group");
    pthread_mutex_lock(&c->mu);
    base = c->next_id + 1;
    c->next_id += 2;
    pthread_mutex_unlock(&c->mu);
    struct sk_wr w = sk_wr_init(p, cap);
    sk_wr_u32(&w, SK_M_GROUP);
    sk_wr_u64(&w, base);
    sk_wr_u64(&w, 0);
    sk_wr_u32(&w, s->strategy);
    sk_wr_u32(&w, s->n);
    sk_wr_bytes(&w, name.p, name.n);
    sk_wr_bytes(&w, space.p, space.n);
    sk_wr_align(&w, 8);
    sk_wr_raw(&w, s->bundles, s->n * sizeof *s->bundles);
    sk_rc rc = ask_number(c, p, w.n, 16, &v, err);
    sk_free(p);
    if (rc != SK_OK) return rc;
    *out = base;
    *ready = (sk_oid){base + 1};
    return SK_OK;
}

static sk_rc c_group_remove(struct sk_engine *e, uint64_t group, struct sk_err *err) {
    uint8_t buf[24];
    uint64_t v;
    struct sk_wr w = sk_wr_init(buf, sizeof buf);
    sk_wr_u32(&w, SK_M_UNGROUP);
    sk_wr_u64(&w, 0);
    sk_wr_u64(&w, group);
    return ask_number(C(e), buf, w.n, REQ_AT, &v, err);
}

static sk_rc c_res_index(struct sk_engine *e, const char *name, uint32_t *out, struct sk_err *err) {
    uint8_t buf[256];
    struct sk_wr w = sk_wr_init(buf, sizeof buf);
    sk_wr_u32(&w, SK_M_RESIDX);
    sk_wr_u64(&w, 0);
    sk_wr_bytes(&w, name, SK_MIN(strlen(name), 127));
    uint64_t v = 0;
    sk_rc rc = ask_number(C(e), buf, w.n, REQ_AT, &v, err);
    if (rc == SK_OK) *out = (uint32_t)v;
    return rc;
}

static void c_resources(struct sk_engine *e, struct sk_res *total, struct sk_res *avail) {
    struct sk_client *c = C(e);
    struct {
        uint32_t type, pad;
        uint64_t req;
    } q = {SK_M_RESOURCES, 0, 0};
    struct sk_msg *m = answer(c, ask(c, &q, sizeof q, REQ_AT), INT64_MAX);
    struct sk_rd r;
    memset(total, 0, sizeof *total);
    memset(avail, 0, sizeof *avail);
    if (answer_rc(m, &r, NULL) == SK_OK) {
        const void *a = sk_rd_raw(&r, sizeof *total), *b = sk_rd_raw(&r, sizeof *avail);
        if (a) memcpy(total, a, sizeof *total);
        if (b) memcpy(avail, b, sizeof *avail);
    }
    sk_free(m);
}

/* as: of an actor, NULL for a task. req: where to put the number of the request that asks for an answer, or NULL. */
static sk_rc send_spec(struct sk_client *c, const struct sk_task_spec *s, const struct sk_aspec *as, uint32_t n_ids, uint64_t *base,
                       uint64_t *req, struct sk_err *err) {
    struct sk_wr w = sk_wr_init(NULL, 0), aw = w;
    sk_spec_write(&w, s);
    if (as) sk_aspec_write(&aw, as);
    size_t n = w.n, cap = n + aw.n + 64;
    uint8_t stack[1024], *p = cap <= sizeof stack ? stack : sk_alloc(SK_TAG_ENGINE, cap);
    if (!p) return SK_ERR(err, SK_ENOMEM, "no memory for a task");
    w = sk_wr_init(p, cap);
    sk_wr_u32(&w, as ? SK_M_ACTOR : SK_M_SUBMIT);
    sk_wr_u64(&w, 0); /* base id, below */
    sk_wr_u64(&w, 0); /* request, below */
    if (as) sk_aspec_write(&w, as);
    else sk_wr_u64(&w, s->max_pending);
    sk_wr_u64(&w, n);
    struct sk_wr in = sk_wr_init(p + w.n, n); /* a spec starts 8-aligned */
    sk_spec_write(&in, s);
    w.n += n;
    pthread_mutex_lock(&c->mu);
    *base = c->next_id + 1;
    c->next_id += n_ids;
    memcpy(p + 8, base, 8);
    if (req) {
        *req = ++c->next_req;
        memcpy(p + 16, req, 8);
    }
    sk_client_send(c, p, w.n, true);
    pthread_mutex_unlock(&c->mu);
    if (p != stack) sk_free(p);
    return SK_OK;
}

static sk_rc c_submit(struct sk_engine *e, const struct sk_task_spec *s, sk_oid *first, sk_tid *tid, struct sk_err *err) {
    if (s->sink) return SK_ERR(err, SK_ENOSYS, "a task submitted from a worker cannot have a sink");
    uint64_t base, req;
    uint32_t n_ids = 1 + (s->n_returns == SK_STREAMING ? 0 : s->n_returns);
    SK_TRY(send_spec(C(e), s, NULL, n_ids, &base, s->max_pending ? &req : NULL, err));
    if (s->max_pending) SK_TRY(answer_of(C(e), req, err)); /* there may be too many already */
    if (first) *first = (sk_oid){base + 1};
    if (tid) *tid = (sk_tid){base};
    return SK_OK;
}

static sk_rc c_actor_create(struct sk_engine *e, const struct sk_actor_spec *s, sk_aid *out, sk_oid *ready, struct sk_err *err) {
    struct sk_task_spec init = s->init;
    init.n_returns = 1;
    struct sk_aspec as = sk_aspec_of(s);
    uint64_t base, req;
    SK_TRY(sk_aspec_check(&as, err));
    SK_TRY(send_spec(C(e), &init, &as, 3, &base, as.name.n ? &req : NULL, err));
    if (as.name.n) SK_TRY(answer_of(C(e), req, err)); /* somebody may have the name */
    *ready = (sk_oid){base + 1};
    *out = (sk_aid){base + 2};
    return SK_OK;
}

static void tell(struct sk_client *c, uint32_t type, uint64_t a, uint64_t b, bool wake) {
    struct {
        uint32_t type, pad;
        uint64_t a, b;
    } m = {type, 0, a, b};
    pthread_mutex_lock(&c->mu);
    sk_client_send(c, &m, sizeof m, wake);
    pthread_mutex_unlock(&c->mu);
}

static sk_rc c_actor_kill(struct sk_engine *e, sk_aid a, bool no_restart, struct sk_err *err) {
    (void)err;
    tell(C(e), SK_M_KILL, a.v, no_restart, true);
    return SK_OK;
}
static sk_rc c_actor_leave(struct sk_engine *e, struct sk_err *err) {
    (void)err;
    tell(C(e), SK_M_LEAVE, 0, 0, true);
    return SK_OK;
}
static void c_addref(struct sk_engine *e, sk_oid o) { tell(C(e), SK_M_REF, o.v, 1, false); }
static void c_release(struct sk_engine *e, sk_oid o) { tell(C(e), SK_M_REF, o.v, (uint64_t)-1, false); }
static void c_actor_addref(struct sk_engine *e, sk_aid a) { tell(C(e), SK_M_REF, a.v, 1, false); }
static void c_actor_release(struct sk_engine *e, sk_aid a) { tell(C(e), SK_M_REF, a.v, (uint64_t)-1, false); }
static sk_rc c_actor_find(struct sk_engine *e, const char *space, const char *name, sk_aid *out, sk_oid *ready, struct sk_bytes *meta,
                          struct sk_err *err) {
    struct sk_client *c = C(e);
    size_t ns = space ? strlen(space) : 0, nn = strlen(name);
    uint8_t buf[2 * SK_NAME_MAX + 64];
    if (ns > SK_NAME_MAX || nn > SK_NAME_MAX) return SK_ERR(err, SK_ENOENT, "no actor has a name of more than %d bytes", SK_NAME_MAX);
    struct sk_wr w = sk_wr_init(buf, sizeof buf);
    sk_wr_u32(&w, SK_M_FIND);
    sk_wr_u64(&w, 0);
    sk_wr_bytes(&w, space, ns);
    sk_wr_bytes(&w, name, nn);
    struct sk_msg *m = answer(c, ask(c, buf, w.n, REQ_AT), INT64_MAX);
    struct sk_rd r;
    sk_rc rc = answer_rc(m, &r, err);
    if (rc == SK_OK) {
        uint64_t aid = sk_rd_u64(&r);
        struct sk_bytes b = sk_rd_bytes(&r);
        void *p = sk_memdup(SK_TAG_ENGINE, b.n ? b.p : "", b.n ? b.n : 1);
        *meta = (struct sk_bytes){p, p ? b.n : 0};
        *out = (sk_aid){aid};
        *ready = (sk_oid){aid - 1};
        if (!p) { /* the answer came with a reference to each */
            c_actor_release(e, *out);
            c_release(e, *ready);
            rc = SK_ERR(err, SK_ENOMEM, "no memory for the name's actor");
        }
    }
    sk_free(m);
    return rc;
}

static size_t ask_list(struct sk_engine *e, uint32_t type, uint64_t of, void *buf, size_t cap) {
    struct sk_client *c = C(e);
    struct {
        uint32_t type, pad;
        uint64_t req, of;
    } q = {type, 0, 0, of};
    struct sk_msg *m = answer(c, ask(c, &q, sizeof q, REQ_AT), INT64_MAX);
    struct sk_rd r;
    size_t n = 0;
    if (answer_rc(m, &r, NULL) == SK_OK) {
        struct sk_bytes b = sk_rd_bytes(&r);
        n = b.n;
        if (n && n <= cap) memcpy(buf, b.p, n);
    }
    sk_free(m);
    return n;
}

static size_t c_actor_names(struct sk_engine *e, char *buf, size_t cap) { return ask_list(e, SK_M_NAMES, 0, buf, cap); }
static size_t c_state(struct sk_engine *e, enum sk_state_what what, void *buf, size_t cap) {
    return ask_list(e, SK_M_STATE, what, buf, cap);
}
static size_t c_groups(struct sk_engine *e, void *buf, size_t cap) { return ask_list(e, SK_M_GROUPS, 0, buf, cap); }

static size_t c_more_read(struct sk_engine *e, uint32_t more, struct sk_amount *out, size_t cap) {
    return ask_list(e, SK_M_MOREREAD, more, out, cap * sizeof *out) / sizeof *out;
}

static sk_rc c_more(struct sk_engine *e, const struct sk_amount *a, uint32_t n, uint32_t *out, struct sk_err *err) {
    size_t cap = n * sizeof *a + 64;
    uint64_t v = 0;
    uint8_t *p = sk_alloc(SK_TAG_ENGINE, cap);
    if (!p) return SK_ERR(err, SK_ENOMEM, "no memory for the amounts of %u resources", n);
    struct sk_wr w = sk_wr_init(p, cap);
    sk_wr_u32(&w, SK_M_MORE);
    sk_wr_u64(&w, 0);
    sk_wr_u64(&w, n);
    sk_wr_raw(&w, a, n * sizeof *a);
    sk_rc rc = ask_number(C(e), p, w.n, REQ_AT, &v, err);
    sk_free(p);
    if (rc == SK_OK) *out = (uint32_t)v;
    return rc;
}

static sk_rc c_stream_wait(struct sk_engine *e, sk_tid t, int64_t deadline, struct sk_err *err) {
    struct {
        uint32_t type, pad;
        uint64_t req, tid;
    } q = {SK_M_PEEK, 0, 0, t.v};
    struct sk_msg *m = answer(C(e), ask(C(e), &q, sizeof q, REQ_AT), deadline);
    struct sk_rd r = sk_rd_init(m->bytes, m->len);
    (void)sk_rd_u32(&r);
    sk_rc rc = (sk_rc)sk_rd_u32(&r);
    sk_free(m);
    return rc == SK_OK || rc == SK_EDONE ? rc : SK_ERR(err, rc, "%s", sk_rc_name(rc));
}

static sk_rc c_stream_end(struct sk_engine *e, sk_tid t, uint32_t kind, sk_oid *out, struct sk_err *err) {
    struct sk_client *c = C(e);
    struct {
        uint32_t type, pad;
        uint64_t oid, tid;
        uint32_t kind, pad2;
    } m = {SK_M_STREAMEND, 0, 0, t.v, kind, 0};
    (void)err;
    pthread_mutex_lock(&c->mu);
    m.oid = ++c->next_id;
    sk_client_send(c, &m, sizeof m, false);
    pthread_mutex_unlock(&c->mu);
    *out = (sk_oid){m.oid};
    return SK_OK;
}

/* The answer comes whenever it comes: from now on a thread reads the ring of this process. */
static sk_rc c_watch(struct sk_engine *e, sk_oid o, sk_tid stream, struct sk_watch *w, struct sk_err *err) {
    struct sk_client *c = C(e);
    struct {
        uint32_t type, pad;
        uint64_t req, oid, tid;
    } m = {SK_M_WATCH, 0, 0, o.v, stream.v};
    pthread_mutex_lock(&c->mu);
    sk_rc rc = sk_client_start_reader(c, err);
    if (rc == SK_OK) {
        m.req = w->id = ++c->next_req;
        if (sk_map_put(&c->watches, w->id, w) != SK_OK) rc = SK_ERR(err, SK_ENOMEM, "no memory to watch an object");
    }
    if (rc == SK_OK) sk_client_send(c, &m, sizeof m, true);
    pthread_mutex_unlock(&c->mu);
    return rc;
}

static bool c_unwatch(struct sk_engine *e, struct sk_watch *w) {
    struct sk_client *c = C(e);
    struct {
        uint32_t type, pad;
        uint64_t req;
    } m = {SK_M_UNWATCH, 0, w->id};
    pthread_mutex_lock(&c->mu);
    bool found = sk_map_del(&c->watches, w->id) != NULL;
    if (found) sk_client_send(c, &m, sizeof m, false);
    pthread_mutex_unlock(&c->mu);
    return found;
}

static void c_stream_drop(struct sk_engine *e, sk_tid t) { tell(C(e), SK_M_DROP, t.v, 0, true); }
static sk_rc c_cancel(struct sk_engine *e, sk_tid t, uint32_t flags, struct sk_err *err) {
    (void)err;
    tell(C(e), SK_M_CANCEL, t.v, flags, true);
    return SK_OK;
}

static sk_rc c_stream_next(struct sk_engine *e, sk_tid t, int64_t deadline, sk_oid *out, struct sk_err *err) {
    struct sk_client *c = C(e);
    struct {
        uint32_t type, pad;
        uint64_t req, tid;
    } q = {SK_M_NEXT, 0, 0, t.v};
    struct sk_msg *m = answer(c, ask(c, &q, sizeof q, REQ_AT), deadline);
    struct sk_rd r = sk_rd_init(m->bytes, m->len);
    (void)sk_rd_u32(&r);
    sk_rc rc = (sk_rc)sk_rd_u32(&r);
    (void)sk_rd_u64(&r);
    uint64_t oid = sk_rd_u64(&r);
    sk_free(m);
    if (oid && (rc == SK_OK || rc == SK_ETASK)) *out = (sk_oid){oid};
    if (rc == SK_OK || rc == SK_EDONE) return rc;
    return SK_ERR(err, rc, rc == SK_ETASK ? "the task failed" : "%s", sk_rc_name(rc));
}

static void c_buf_warm(struct sk_engine *e, void *at, size_t len) {
    struct sk_client *c = C(e);
    sk_seg_warm(&c->data_seg, (sk_off)((uint8_t *)at - c->data_seg.base), len);
}

static sk_rc c_window(struct sk_engine *e, const void *data, size_t len, bool own, void **at, struct sk_err *err) {
    struct sk_client *c = C(e);
    return sk_seg_window(&c->data_seg, (sk_off)((const uint8_t *)data - c->data_seg.base), len, own, at, err);
}

void sk_client_unwanted(struct sk_client *c, const struct sk_val *v) {
    uint8_t b[128];
    pthread_mutex_lock(&c->mu);
    uint64_t id = ++c->next_id;
    struct sk_wr w = sk_wr_init(b, sizeof b);
    sk_wr_u32(&w, SK_M_PUT);
    sk_wr_u64(&w, id);
    sk_wr_val(&w, &(struct sk_val){.kind = v->kind, .where = SK_V_STORE, .keep = 1, .len = v->len, .off = v->off}, "");
    sk_wr_u32(&w, 0);
    sk_wr_align(&w, 8);
    sk_client_send(c, b, w.n, false);
    pthread_mutex_unlock(&c->mu);
    c_release(&c->base, (sk_oid){id});
}

static sk_rc c_put(struct sk_engine *e, const struct sk_payload *p, sk_oid *out, struct sk_err *err) {
    struct sk_client *c = C(e);
    struct sk_val v;
    const void *bytes;
    SK_TRY(sk_client_value(c, p, &v, &bytes, err));
    size_t cap = 128 + (v.where == SK_V_INLINE ? v.len : 0) + 8 * (size_t)p->n_contains;
    uint8_t stack[SK_INLINE_MAX + 512], *b = cap <= sizeof stack ? stack : sk_alloc(SK_TAG_ENGINE, cap);
    if (!b) return SK_ERR(err, SK_ENOMEM, "no memory for a message");
    pthread_mutex_lock(&c->mu);
    uint64_t id = ++c->next_id;
    struct sk_wr w = sk_wr_init(b, cap);
    sk_wr_u32(&w, SK_M_PUT);
    sk_wr_u64(&w, id);
    sk_wr_val(&w, &v, bytes);
    sk_wr_u32(&w, p->n_contains);
    sk_wr_align(&w, 8);
    sk_wr_raw(&w, p->contains, 8 * (size_t)p->n_contains);
    sk_client_send(c, b, w.n, false);
    pthread_mutex_unlock(&c->mu);
    if (b != stack) sk_free(b);
    *out = (sk_oid){id};
    return SK_OK;
}

static uint64_t ask_ids(struct sk_client *c, uint32_t type, uint32_t want, const sk_oid *ids, size_t n) {
    size_t cap = 32 + 8 * n;
    uint8_t stack[1024], *b = cap <= sizeof stack ? stack : sk_alloc(SK_TAG_ENGINE, cap);
    if (!b) return 0;
    pthread_mutex_lock(&c->mu);
    uint64_t req = ++c->next_req;
    struct sk_wr w = sk_wr_init(b, cap);
    sk_wr_u32(&w, type);
    sk_wr_u64(&w, req);
    sk_wr_u32(&w, want);
    sk_wr_u32(&w, (uint32_t)n);
    sk_wr_raw(&w, ids, 8 * n);
    sk_client_send(c, b, w.n, true);
    pthread_mutex_unlock(&c->mu);
    if (b != stack) sk_free(b);
    return req;
}

void sk_client_unkeep(struct sk_client *c, const void *of) {
    for (uint32_t i = 0; i < c->kept.n;) {
        struct sk_kept k = c->kept.p[i];
        if (k.of != of) {
            i++;
            continue;
        }
        c->kept.p[i] = c->kept.p[--c->kept.n];
        struct {
            uint32_t type, pad;
            uint64_t off, zero;
        } m = {SK_M_UNPIN, 0, k.off, 0};
        if (k.let_go) sk_client_send(c, &m, sizeof m, false);
    }
}

static void unpin(struct sk_client *c, uint64_t off) {
    bool later = false;
    pthread_mutex_lock(&c->mu);
    for (uint32_t i = 0; i < c->kept.n && !later; i++)
        if (c->kept.p[i].off == off) later = c->kept.p[i].let_go = true;
    pthread_mutex_unlock(&c->mu);
    if (!later) tell(c, SK_M_UNPIN, off, 0, false);
}

static void c_view_release(struct sk_engine *e, struct sk_view *v) {
    if (v->token & 1) unpin(C(e), v->token >> 1);
    else sk_free((void *)(uintptr_t)v->token);
    v->token = 0;
    v->data = NULL;
}

static sk_rc c_get(struct sk_engine *e, const sk_oid *ids, size_t n, int64_t deadline, struct sk_view *out, struct sk_err *err) {
    struct sk_client *c = C(e);
    uint64_t req = ask_ids(c, SK_M_GET, (uint32_t)n, ids, n);
    if (!req) return SK_ERR(err, SK_ENOMEM, "get: no memory");
    struct sk_msg *m = answer(c, req, deadline);
    struct sk_rd r;
    sk_rc rc = answer_rc(m, &r, err);
    uint32_t got = rc == SK_OK ? sk_rd_u32(&r) : 0;
    for (uint32_t i = 0; i < got && i < n; i++) {
        struct sk_val v;
        const void *b = sk_rd_val(&r, &v);
        out[i] = (struct sk_view){.kind = v.kind, .len = (size_t)v.len, .oid = ids[i]};
        if (v.where == SK_V_STORE) {
            out[i].data = c->data_seg.base + v.off;
            out[i].token = v.off << 1 | 1;
        } else {
            void *copy = sk_memdup(SK_TAG_ENGINE, b && v.len ? b : "", b && v.len ? (size_t)v.len : 1);
            if (!copy) abort();
            out[i].data = copy;
            out[i].token = (uint64_t)(uintptr_t)copy;
        }
    }
    sk_free(m);
    return rc;
}

static sk_rc c_wait(struct sk_engine *e, const sk_oid *ids, size_t n, size_t want, int64_t deadline, bool *ready, struct sk_err *err) {
    struct sk_client *c = C(e);
    uint64_t req = ask_ids(c, SK_M_WAIT, (uint32_t)SK_MIN(want, n), ids, n);
    if (!req) return SK_ERR(err, SK_ENOMEM, "wait: no memory");
    struct sk_msg *m = answer(c, req, deadline);
    struct sk_rd r = sk_rd_init(m->bytes, m->len);
    (void)sk_rd_u32(&r);
    sk_rc rc = (sk_rc)sk_rd_u32(&r);
    (void)sk_rd_u64(&r);
    if (rc == SK_OK || rc == SK_ETIMEOUT) {
        uint64_t k = sk_rd_u64(&r);
        for (uint64_t i = 0; i < k && i < n; i++) ready[i] = sk_rd_u8(&r);
        if (rc == SK_ETIMEOUT) rc = SK_ERR(err, rc, "wait: the time is over");
    } else {
        struct sk_bytes b = sk_rd_bytes(&r);
        rc = SK_ERR(err, rc, "%.*s", (int)b.n, (const char *)b.p);
    }
    sk_free(m);
    return rc;
}

static sk_rc c_drive(struct sk_engine *e, bool (*done)(void *), void *arg, int64_t deadline, struct sk_err *err) {
    (void)e, (void)done, (void)arg, (void)deadline;
    return SK_ERR(err, SK_ENOSYS, "a worker does not drive the engine; run pipelines in the driver");
}
static void c_lock(struct sk_engine *e) { (void)e; }
static sk_rc c_preload(struct sk_engine *e, struct sk_bytes note, struct sk_err *err) {
    (void)e, (void)note, (void)err;
    return SK_OK; /* only a hint, and this process is forked already */
}
static size_t c_workers(struct sk_engine *e, struct sk_worker_info *out, size_t cap) {
    (void)e, (void)out, (void)cap;
    return 0;
}
static size_t c_status(struct sk_engine *e, char *buf, size_t cap) { return (size_t)snprintf(buf, cap, "proc %u\n", C(e)->proc) + 1; }

const struct sk_engine_ops sk_client_ops = {
    .name = "local-worker",
    .close = c_close,
    .fn_define = c_define,
    .shape = c_shape,
    .res_index = c_res_index,
    .resources = c_resources,
    .submit = c_submit,
    .stream_next = c_stream_next,
    .stream_drop = c_stream_drop,
    .stream_wait = c_stream_wait,
    .stream_end = c_stream_end,
    .cancel = c_cancel,
    .actor_create = c_actor_create,
    .actor_kill = c_actor_kill,
    .actor_leave = c_actor_leave,
    .actor_addref = c_actor_addref,
    .actor_release = c_actor_release,
    .actor_find = c_actor_find,
    .actor_names = c_actor_names,
    .need = c_need,
    .more = c_more,
    .more_read = c_more_read,
    .env_define = c_env_define,
    .group_create = c_group_create,
    .group_remove = c_group_remove,
    .groups = c_groups,
    .buf_alloc = c_buf_alloc,
    .buf_abort = c_buf_abort,
    .buf_warm = c_buf_warm,
    .window = c_window,
    .put = c_put,
    .get = c_get,
    .view_release = c_view_release,
    .wait = c_wait,
    .addref = c_addref,
    .release = c_release,
    .watch = c_watch,
    .unwatch = c_unwatch,
    .drive = c_drive,
    .lock = c_lock,
    .unlock = c_lock,
    .preload = c_preload,
    .workers = c_workers,
    .status = c_status,
    .state = c_state,
};
