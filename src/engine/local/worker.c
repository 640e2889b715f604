/* worker.c - a worker process of the local engine: reads tasks from its ring, runs them with the program's runner, reports.
 *
 * A task is claimed by compare-and-swap before it runs, so that the driver can take back what is queued here at any moment. Its message is
 * copied before it is popped: while it runs it may wait for answers that come behind it. A finished task's report is published in the
 * ring at once; the wake-up call is left out while more work is queued and the driver is known to look by itself. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/mem.h"
#include "base/vec.h"
#include "engine/local/worker_int.h"

#define SPIN_NS 50000
#define IDLE_NS 200000000 /* idle for so long: give the lease back */

struct wtask {                /* the running task */
    struct sk_task_priv priv; /* first */
    struct sk_client *c;
    uint64_t first;
    uint32_t skip, window, n_ret, claim;
    uint32_t from, n_wanted, n_made; /* yields before `from` exist, but for wanted[]; n_made of these are done */
    const uint32_t *wanted;          /* in the task's message */
    bool remake;
    bool failed;
    SK_VEC(uint8_t) set; /* which returns are set, when there are several */
    SK_VEC(uint8_t) out; /* values of the DONE message */
    uint32_t n_values;
    SK_VEC(uint64_t) held; /* references inside the values: ours until the report is sent, whatever user code drops meanwhile */
    uint8_t note[SK_NOTE_MAX];
    uint32_t note_len;
    SK_VEC(struct sk_view) args;
};

static struct wtask *W(const struct sk_task *t) { return (struct wtask *)(uintptr_t)t; }

static bool out_put(struct wtask *t, const void *p, size_t n) {
    if (!sk_vec_reserve(&t->out, SK_TAG_ENGINE, (uint64_t)t->out.n + n)) return false;
    if (n) memcpy(t->out.p + t->out.n, p, n);
    t->out.n += (uint32_t)n;
    return true;
}

static sk_rc add_bytes(struct wtask *t, const struct sk_val *v, const void *bytes, const struct sk_payload *p, struct sk_err *err) {
    for (uint32_t i = 0; i < p->n_contains; i++) {
        if (!sk_vec_push(&t->held, SK_TAG_ENGINE, p->contains[i].v)) return SK_ERR(err, SK_ENOMEM, "no memory for a return value");
        t->c->base.ops->addref(&t->c->base, p->contains[i]);
    }
    static const uint8_t zero[8];
    uint32_t nc[2] = {p->n_contains, 0};
    size_t pad = v->where == SK_V_INLINE ? (size_t)(SK_ALIGN(v->len, 8) - v->len) : 0;
    if (!out_put(t, v, sizeof *v) || (v->where == SK_V_INLINE && (!out_put(t, bytes, (size_t)v->len) || !out_put(t, zero, pad))) ||
        !out_put(t, nc, sizeof nc) || !out_put(t, p->contains, 8 * (size_t)p->n_contains))
        return SK_ERR(err, SK_ENOMEM, "no memory for a return value");
    t->n_values++;
    return SK_OK;
}

static sk_rc add_value(struct wtask *t, uint64_t oid, const struct sk_payload *p, struct sk_err *err) {
    struct sk_val v;
    const void *bytes;
    SK_TRY(sk_client_value(t->c, p, &v, &bytes, err));
    v.oid = oid;
    return add_bytes(t, &v, bytes, p, err);
}

static sk_rc w_return(struct sk_task *task, uint32_t i, const struct sk_payload *p, struct sk_err *err) {
    struct wtask *t = W(task);
    if (t->failed || (task->n_returns == 1 ? t->n_ret : t->set.p[i])) {
        if (p->buf) t->c->base.ops->buf_abort(&t->c->base, p->buf);
        return t->failed ? SK_ERR(err, SK_EINVAL, "task %s has failed already", task->name)
                         : SK_ERR(err, SK_EINVAL, "task %s sets its return value %u twice", task->name, i);
    }
    SK_TRY(add_value(t, t->first + i, p, err));
    if (task->n_returns > 1) t->set.p[i] = 1;
    t->n_ret++;
    return SK_OK;
}

static sk_rc w_fail(struct sk_task *task, const struct sk_payload *error, struct sk_err *err) {
    struct wtask *t = W(task);
    struct sk_engine *e = &t->c->base;
    if (t->failed) { /* the first one counts */
        if (error->buf) e->ops->buf_abort(e, error->buf);
        return SK_OK;
    }
    struct sk_rd r = sk_rd_init(t->out.p, t->out.n); /* what was returned before is not wanted */
    for (uint32_t i = 0; i < t->n_values; i++) {
        struct sk_val v;
        (void)sk_rd_val(&r, &v);
        uint32_t nc = sk_rd_u32(&r);
        sk_rd_align(&r, 8);
        (void)sk_rd_raw(&r, 8 * (size_t)nc);
        struct sk_buf b = {t->c->data_seg.base + v.off, (size_t)v.len, v.off};
        if (v.where == SK_V_STORE) e->ops->buf_abort(e, &b);
    }
    t->out.n = 0;
    t->n_values = 0;
    t->failed = true;
    struct sk_payload p = *error;
    if (p.buf) p.bytes = (struct sk_bytes){p.buf->data, p.buf_len};
    p.bytes.n = SK_MIN(p.bytes.n, (size_t)SK_ERROR_VALUE_MAX);
    struct sk_val v = {.kind = p.kind, .where = SK_V_INLINE, .len = p.bytes.n};
    sk_rc rc = add_bytes(t, &v, p.bytes.p, &p, err);
    if (p.buf) e->ops->buf_abort(e, p.buf);
    return rc;
}

static bool cancelled(struct wtask *t) {
    return atomic_load_explicit(&t->c->slot->claims[t->claim], memory_order_acquire) == (t->priv.t.id.v << 2 | SK_CLAIM_CANCELLED);
}

static sk_rc w_yield(struct sk_task *task, const struct sk_payload *p, struct sk_err *err) {
    struct wtask *t = W(task);
    struct sk_client *c = t->c;
    uint32_t index = task->n_yielded;
    if (cancelled(t) || (t->remake && t->n_made == t->n_wanted)) {
        if (p->buf) c->base.ops->buf_abort(&c->base, p->buf);
        return SK_ERR(err, SK_ECANCEL, "nobody wants the rest");
    }
    struct sk_val v = {.where = SK_V_NONE};
    const void *bytes = NULL;
    bool again = t->n_made < t->n_wanted && t->wanted[t->n_made] == index;
    if (index >= t->from || again) {
        SK_TRY(sk_client_value(c, p, &v, &bytes, err));
        t->n_made += again;
    } else if (p->buf) {
        c->base.ops->buf_abort(&c->base, p->buf);
    }
    size_t cap = 256 + p->note.n + (v.where == SK_V_INLINE ? (size_t)v.len : 0) + 8 * (size_t)p->n_contains;
    uint8_t stack[2048], *b = cap <= sizeof stack ? stack : sk_alloc(SK_TAG_ENGINE, cap);
    if (!b) return SK_ERR(err, SK_ENOMEM, "no memory for a message");
    struct sk_wr w = sk_wr_init(b, cap);
    sk_wr_u32(&w, SK_M_YIELD);
    sk_wr_u32(&w, task->attempt);
    sk_wr_u64(&w, task->id.v);
    sk_wr_u32(&w, index);
    sk_wr_bytes(&w, p->note.p, p->note.n);
    sk_wr_val(&w, &v, bytes);
    sk_wr_u32(&w, v.where == SK_V_NONE ? 0 : p->n_contains);
    sk_wr_align(&w, 8);
    if (v.where != SK_V_NONE) sk_wr_raw(&w, p->contains, 8 * (size_t)p->n_contains);
    pthread_mutex_lock(&c->mu);
    SK_FAULT_HERE("worker.before_yield");
    sk_client_send(c, b, w.n, false);
    sk_client_ring(c, false);
    pthread_mutex_unlock(&c->mu);
    if (b != stack) sk_free(b);
    SK_FAULT_HERE("worker.after_yield");
    task->n_yielded++;
    if (!t->window) return SK_OK;
    /* The consumer's window: wait until it has taken enough. */
    sk_rc rc = SK_OK;
    bool began = false;
    pthread_mutex_lock(&c->mu);
    for (;;) {
        uint32_t seen = sk_bell_seq(&c->slot->bell);
        while (sk_client_read(c, true, NULL)) {}
        if (cancelled(t)) {
            rc = SK_ERR(err, SK_ECANCEL, "nobody wants the rest");
            break;
        }
        if ((uint64_t)task->n_yielded < c->credit + t->window) break;
        if (!began && c->runner->block_begin) {
            pthread_mutex_unlock(&c->mu);
            c->runner->block_begin(c->runner->ctx);
            pthread_mutex_lock(&c->mu);
            began = true;
            continue;
        }
        pthread_mutex_unlock(&c->mu);
        sk_client_sleep(c, seen, SPIN_NS, INT64_MAX);
        pthread_mutex_lock(&c->mu);
    }
    pthread_mutex_unlock(&c->mu);
    if (began && c->runner->block_end) c->runner->block_end(c->runner->ctx);
    return rc;
}

static uint32_t w_skip(const struct sk_task *task) { return W(task)->skip; }

static void w_note(struct sk_task *task, struct sk_bytes note) {
    struct wtask *t = W(task);
    t->note_len = (uint32_t)SK_MIN(note.n, sizeof t->note);
    memcpy(t->note, note.p, t->note_len);
}

static struct sk_view w_keep(struct sk_task *task, uint32_t i) {
    struct wtask *t = W(task);
    struct sk_view *v = &t->args.p[i], kept = *v;
    if (v->token & 1) { /* in the store: held for the task until now, by this process from here on */
        struct {
            uint32_t type, pad;
            uint64_t oid;
        } m = {SK_M_PIN, 0, v->oid.v};
        pthread_mutex_lock(&t->c->mu);
        sk_client_send(t->c, &m, sizeof m, false);
        pthread_mutex_unlock(&t->c->mu);
    } else {
        void *copy = sk_memdup(SK_TAG_ENGINE, v->len ? (const void *)v->data : "", v->len ? v->len : 1);
        if (!copy) abort();
        kept.data = copy;
        kept.token = (uint64_t)(uintptr_t)copy;
    }
    return kept;
}

static const struct sk_task_ops task_ops = {
    .ret = w_return, .yield = w_yield, .skip = w_skip, .fail = w_fail, .note = w_note, .keep_arg = w_keep};

static void engine_failure(struct wtask *t, const struct sk_err *e) {
    uint8_t buf[4 + sizeof e->msg];
    int32_t code = e->code ? e->code : SK_EINVAL;
    size_t n = strlen(e->msg) + 1;
    memcpy(buf, &code, 4);
    memcpy(buf + 4, e->msg, n);
    struct sk_payload p = {.kind = SK_KIND_ENGINE_ERROR, .bytes = {buf, 4 + n}};
    if (w_fail(&t->priv.t, &p, NULL) != SK_OK) abort();
}

/* Sends the end of the task. An error value that is too long for the ring when the store is full becomes an error that says so. */
static void report(struct sk_client *c, struct wtask *t, struct sk_msg_done *d) {
    struct sk_err err;
    for (bool sent = false; !sent;) {
        d->status = t->failed;
        d->n_values = t->n_values;
        size_t n = sizeof *d + 8 + (size_t)SK_ALIGN(t->note_len, 8) + t->out.n;
        uint8_t stack[1024], *b = n <= sizeof stack ? stack : sk_alloc(SK_TAG_ENGINE, n);
        if (!b) abort();
        struct sk_wr w = sk_wr_init(b, n);
        sk_wr_raw(&w, d, sizeof *d);
        sk_wr_bytes(&w, t->note, t->note_len);
        sk_wr_align(&w, 8);
        sk_wr_raw(&w, t->out.p, t->out.n);
        pthread_mutex_lock(&c->mu);
        c->cur_tid = 0;
        sent = !t->failed || sk_client_try_send(c, b, w.n, &err) == SK_OK;
        if (!t->failed) sk_client_send(c, b, w.n, false);
        if (sent) {
            SK_FAULT_HERE("worker.after_done");
            sk_client_ring(c, true);
        }
        pthread_mutex_unlock(&c->mu);
        if (b != stack) sk_free(b);
        if (sent) return;
        struct sk_err full;
        SK_ERR(&full, SK_EFULL, "task %s failed, and its error of %u bytes cannot be sent: %.400s", t->priv.t.name, t->out.n, err.msg);
        t->failed = false; /* else the first error stays */
        engine_failure(t, &full);
    }
}

static void run_task(struct sk_client *c, struct wtask *t, const uint8_t *msg, size_t len) {
    struct sk_rd r = sk_rd_init(msg, len);
    struct sk_msg_task h;
    const void *hp = sk_rd_raw(&r, sizeof h);
    if (!hp) abort();
    memcpy(&h, hp, sizeof h);
    uint64_t want = h.tid << 2 | SK_CLAIM_QUEUED;
    if (c->broken) return;
    if (!atomic_compare_exchange_strong(&c->slot->claims[h.claim], &want, h.tid << 2 | SK_CLAIM_STARTED)) return; /* taken back */
    struct sk_bytes name = sk_rd_bytes(&r);
    struct sk_def *def = sk_map_get(&c->defs, h.fid);
    char own_name[256];
    if (name.n) snprintf(own_name, sizeof own_name, "%.*s", (int)SK_MIN(name.n, sizeof own_name - 1), (const char *)name.p);
    t->args.n = 0;
    if (!sk_vec_reserve(&t->args, SK_TAG_ENGINE, h.n_args)) abort();
    for (uint32_t i = 0; i < h.n_args; i++) {
        struct sk_val v;
        const void *b = sk_rd_val(&r, &v);
        struct sk_view a = {.kind = v.kind, .len = (size_t)v.len, .oid = {v.oid}, .data = b};
        if (v.where == SK_V_STORE) {
            a.data = c->data_seg.base + v.off;
            a.token = v.off << 1 | 1;
        }
        t->args.p[t->args.n++] = a;
    }
    t->wanted = sk_rd_raw(&r, h.n_wanted * sizeof(uint32_t));
    if (r.bad) abort(); /* the driver wrote it: this process's view of memory is not to be trusted */
    t->priv.ops = &task_ops;
    t->priv.t = (struct sk_task){.engine = &c->base,
                                 .id = {h.tid},
                                 .fn = {h.fid},
                                 .actor = {h.aid},
                                 .is_actor_init = (h.flags & SK_TF_INIT) != 0,
                                 .attempt = h.attempt,
                                 .n_args = h.n_args,
                                 .args = t->args.p,
                                 .n_returns = h.n_returns,
                                 .name = name.n ? own_name
                                         : def  ? def->name
                                                : "?"};
    t->first = h.first;
    t->skip = h.skip;
    t->claim = h.claim;
    t->from = h.from;
    t->n_wanted = h.n_wanted;
    t->n_made = 0;
    t->remake = (h.flags & SK_TF_REMAKE) != 0;
    t->window = h.window;
    t->n_ret = t->n_values = t->note_len = 0;
    t->failed = false;
    t->out.n = 0;
    c->cur_tid = h.tid;
    c->credit = h.credit;
    if (h.n_returns > 1 && h.n_returns != SK_STREAMING) {
        if (!sk_vec_reserve(&t->set, SK_TAG_ENGINE, h.n_returns)) abort();
        memset(t->set.p, 0, h.n_returns);
    }
    struct sk_err err = {0};
    sk_rc rc = SK_OK;
    SK_FAULT_HERE("worker.before_run");
    int64_t t0 = sk_now_ns();
    if (!def) rc = SK_ERR(&err, SK_ENOENT, "unknown function %llx", (unsigned long long)h.fid);
    else if (!def->given) {
        rc = c->runner->define(c->runner->ctx, (sk_fid){h.fid}, def->name, (struct sk_bytes){def->def, def->len}, &err);
        def->given = rc == SK_OK;
    }
    if (rc == SK_OK) rc = c->runner->run(c->runner->ctx, &t->priv.t, &err);
    int64_t t1 = sk_now_ns();
    if (rc != SK_OK && !t->failed) engine_failure(t, &err);
    else if (!t->failed && h.n_returns != SK_STREAMING && t->n_ret != h.n_returns) {
        SK_ERR(&err, SK_EINVAL, "task %s set %u of its %u return values", t->priv.t.name, t->n_ret, h.n_returns);
        engine_failure(t, &err);
    }
    if (t->priv.t.is_actor_init && t->failed) c->broken = true; /* there is no actor to call: the driver will end this process */
    SK_FAULT_HERE("worker.after_run");
    report(c, t, &(struct sk_msg_done){.type = SK_M_DONE, .attempt = h.attempt, .tid = h.tid, .run_ns = t1 - t0});
    for (uint32_t i = 0; i < t->held.n; i++) c->base.ops->release(&c->base, (sk_oid){t->held.p[i]});
    t->held.n = 0;
    if (t->out.cap > 1u << 20) sk_vec_free(&t->out);
}

void sk_client_serve(struct sk_client *c) {
    struct wtask *t = sk_calloc(SK_TAG_ENGINE, sizeof *t);
    if (!t) abort();
    t->c = c;
    struct {
        uint32_t type;
        int32_t pid;
    } hello = {SK_M_HELLO, c->pid};
    pthread_mutex_lock(&c->mu);
    sk_client_send(c, &hello, sizeof hello, true);
    while (!c->exit) {
        uint32_t seen = sk_bell_seq(&c->slot->bell);
        struct sk_msg *m = NULL;
        if (!sk_list_empty(&c->queue)) {
            m = sk_container_of(c->queue.next, struct sk_msg, link);
            sk_list_del(&m->link);
        } else {
            while (!m && sk_client_read(c, false, &m)) {}
        }
        if (m) {
            pthread_mutex_unlock(&c->mu);
            run_task(c, t, m->bytes, m->len);
            sk_free(m);
            pthread_mutex_lock(&c->mu);
            continue;
        }
        if (c->exit) break;
        if (c->quiet) sk_client_ring(c, false);
        pthread_mutex_unlock(&c->mu);
        if (c->runner->block_begin) c->runner->block_begin(c->runner->ctx);
        sk_rc rc = sk_bell_wait(&c->slot->bell, seen, SPIN_NS, c->lease_len ? sk_now_ns() + IDLE_NS : INT64_MAX);
        if (c->runner->block_end) c->runner->block_end(c->runner->ctx);
        pthread_mutex_lock(&c->mu);
        if (rc == SK_ETIMEOUT) {
            sk_client_idle(c);
            sk_client_ring(c, false);
        }
    }
    pthread_mutex_unlock(&c->mu);
}

void sk_client_init(struct sk_client *c, struct sk_slot *slot, int32_t pid, struct sk_runner *runner) {
    c->base = (struct sk_engine){&sk_client_ops, SK_CAP_PROCESSES | SK_CAP_ZERO_COPY | SK_CAP_KILL};
    c->slot = slot;
    c->pid = pid;
    c->proc = slot->proc;
    c->next_id = (uint64_t)c->proc << 40;
    c->runner = runner;
    c->chunk = SK_MIN(SK_LEASE_CHUNK, SK_ALIGN(SK_MAX(c->data_seg.size / 64, 65536), 4096));
    pthread_mutex_init(&c->mu, NULL);
    sk_list_init(&c->replies);
    sk_list_init(&c->queue);
    sk_map_init(&c->defs, SK_TAG_ENGINE);
    sk_map_init(&c->shapes, SK_TAG_ENGINE);
}

static struct sk_client *the_client; /* one a process, for the crash handler */

int sk_worker_crash_fd(void) {
    if (!the_client) return -1;
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", the_client->ctl_seg.fd);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    off_t at = (off_t)((uint8_t *)the_client->slot->crash - the_client->ctl_seg.base);
    if (fd >= 0 && lseek(fd, at, SEEK_SET) != at) {
        close(fd);
        return -1;
    }
    return fd;
}

sk_rc sk_worker_serve(struct sk_runner *runner, const struct sk_worker_hooks *hooks, bool *was_worker, struct sk_err *err) {
    const char *sock = getenv("SKATE_FORK_FD"), *ctl = getenv("SKATE_CTL");
    *was_worker = false;
    if (!sock || !ctl) return SK_OK;
    int cfd, dfd;
    size_t csize, dsize;
    if (sscanf(ctl, "%d,%zu,%d,%zu", &cfd, &csize, &dfd, &dsize) != 4) return SK_ERR(err, SK_EINVAL, "SKATE_CTL is damaged: %s", ctl);
    struct sk_client *c = sk_calloc(SK_TAG_ENGINE, sizeof *c);
    if (!c) return SK_ERR(err, SK_ENOMEM, "no memory for a worker");
    c->ctl_seg = c->data_seg = SK_SEG_EMPTY;
    SK_TRY(sk_seg_attach(&c->ctl_seg, cfd, csize, false, err)); /* mapped before the fork: workers inherit it */
    SK_TRY(sk_seg_attach(&c->data_seg, dfd, dsize, true, err));
    c->ctl = (struct sk_ctl *)(void *)c->ctl_seg.base;
    if (c->ctl->magic != SK_CTL_MAGIC || c->ctl->version != SK_CTL_VERSION || c->ctl->slot_stride != sk_slot_stride())
        return SK_ERR(err, SK_ECORRUPT,
                      "the control segment is not of this version of skate; driver and worker must load the same library");
    int fd = atoi(sock);
    unsetenv("SKATE_FORK_FD"); /* programs that the workers start are not workers */
    unsetenv("SKATE_CTL");
    uint32_t slot = sk_forksrv_run(fd, hooks ? hooks->on_note : NULL, hooks ? hooks->ctx : NULL);
    /* From here on: a fresh worker. */
    sk_client_init(c, sk_slot_at(c->ctl_seg.base, slot), getpid(), runner);
    SK_TRY(sk_ring_attach(&c->down, sk_slot_down(c->slot), SK_RING_SIZE, err));
    SK_TRY(sk_ring_attach(&c->up, sk_slot_up(c->slot), SK_RING_SIZE, err));
    the_client = c;
    *was_worker = true;
    if (hooks && hooks->after_fork) hooks->after_fork(hooks->ctx, &c->base);
    sk_client_serve(c);
    return SK_OK;
}
