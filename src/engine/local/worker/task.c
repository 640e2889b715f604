/* task.c - one task in a worker: its claim, its arguments, its yields and values, its report. Runs
 * user code, without any lock.
 *
 * Not here: choosing the next task and its thread (worker.c). Invariant: a task whose claim was
 * won is reported exactly once, however it ends; a value that it keeps stays pinned until it is
 * released. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/mem.h"
#include "base/containers/vec.h"
#include "engine/local/worker/worker.h"

#define SPIN_NS 50000

static struct wtask *W(const struct sk_task *t) { return (struct wtask *)(uintptr_t)t; }

static bool out_put(struct wtask *t, const void *p, size_t n) {
    if (!sk_vec_reserve(&t->out, SK_TAG_ENGINE, (uint64_t)t->out.n + n)) return false;
    if (n) memcpy(t->out.p + t->out.n, p, n);
    t->out.n += (uint32_t)n;
    return true;
}

static sk_rc add_bytes(struct wtask *t, const struct sk_val *v, const void *bytes,
                       const struct sk_payload *p, struct sk_err *err) {
    for (uint32_t i = 0; i < p->n_contains; i++) {
        if (!sk_vec_push(&t->held, SK_TAG_ENGINE, p->contains[i].v))
            return SK_ERR(err, SK_ENOMEM, "no memory for a return value");
        t->c->base.ops->retain(&t->c->base, p->contains[i]);
    }
    static const uint8_t zero[8];
    uint32_t nc[2] = {p->n_contains, 0};
    size_t pad = v->where == SK_V_INLINE ? (size_t)(SK_ALIGN(v->len, 8) - v->len) : 0;
    if (!out_put(t, v, sizeof *v) ||
        (v->where == SK_V_INLINE &&
         (!out_put(t, bytes, (size_t)v->len) || !out_put(t, zero, pad))) ||
        !out_put(t, nc, sizeof nc) || !out_put(t, p->contains, 8 * (size_t)p->n_contains))
        return SK_ERR(err, SK_ENOMEM, "no memory for a return value");
    t->n_values++;
    return SK_OK;
}

static sk_rc add_value(struct wtask *t, uint64_t oid, const struct sk_payload *p,
                       struct sk_err *err) {
    struct sk_val v;
    const void *bytes;
    SK_TRY(sk_worker_link_value(t->c, p, &v, &bytes, err));
    v.oid = oid;
    return add_bytes(t, &v, bytes, p, err);
}

static void unwanted(struct sk_worker_engine *c, const struct sk_payload *p) {
    struct sk_val v;
    const void *bytes;
    if (!p->buf) return;
    if (!p->keep) c->base.ops->buf_abort(&c->base, p->buf);
    /* cannot fail for a value that is in a buffer */
    else if (sk_worker_link_value(c, p, &v, &bytes, NULL) == SK_OK)
        sk_worker_engine_unwanted(c, &v);
}

static sk_rc w_return(struct sk_task *task, uint32_t i, const struct sk_payload *p,
                      struct sk_err *err) {
    struct wtask *t = W(task);
    if (t->failed || (task->n_returns == 1 ? t->n_ret : t->set.p[i])) {
        unwanted(t->c, p);
        return t->failed ? SK_ERR(err, SK_EINVAL, "task %s has failed already", task->name)
                         : SK_ERR(err, SK_EINVAL, "task %s sets its return value %u twice",
                                  task->name, i);
    }
    if (p->buf && p->keep) {
        pthread_mutex_lock(&t->c->mu);
        bool noted =
            sk_vec_push(&t->c->kept, SK_TAG_ENGINE, ((struct sk_kept){p->buf->token, t, false}));
        pthread_mutex_unlock(&t->c->mu);
        if (!noted) {
            unwanted(t->c, p);
            return SK_ERR(err, SK_ENOMEM, "no memory for a return value");
        }
    }
    SK_TRY(add_value(t, t->first + i, p, err));
    if (task->n_returns > 1) t->set.p[i] = 1;
    t->n_ret++;
    return SK_OK;
}

static sk_rc w_fail(struct sk_task *task, const struct sk_payload *error, struct sk_err *err) {
    struct wtask *t = W(task);
    struct sk_engine *e = &t->c->base;
    if (t->failed) { /* only the first error counts */
        if (error->buf) e->ops->buf_abort(e, error->buf);
        return SK_OK;
    }
    /* values that the task returned before its error are thrown away */
    struct sk_rd r = sk_rd_init(t->out.p, t->out.n);
    for (uint32_t i = 0; i < t->n_values; i++) {
        struct sk_val v;
        struct sk_ids in;
        (void)sk_rd_val_ids(&r, &v, &in);
        struct sk_buf b = {t->c->data_seg.base + v.off, (size_t)v.len, v.off};
        if (v.where == SK_V_STORE && v.keep) sk_worker_engine_unwanted(t->c, &v);
        else if (v.where == SK_V_STORE) e->ops->buf_abort(e, &b);
    }
    pthread_mutex_lock(&t->c->mu);
    sk_worker_engine_unkeep(t->c, t);
    pthread_mutex_unlock(&t->c->mu);
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

bool sk_wtask_cancelled(struct wtask *t) {
    return atomic_load_explicit(&t->c->slot->claims[t->claim], memory_order_acquire) ==
           (t->priv.t.id.v << 2 | SK_CLAIM_CANCELLED);
}

static sk_rc w_yield(struct sk_task *task, const struct sk_payload *p, struct sk_err *err) {
    struct wtask *t = W(task);
    struct sk_worker_engine *c = t->c;
    uint32_t index = task->n_yielded;
    if (sk_wtask_cancelled(t) || (t->remake && t->n_made == t->n_wanted)) {
        unwanted(c, p);
        return SK_ERR(err, SK_ECANCEL, "nobody wants the rest");
    }
    struct sk_val v = {.where = SK_V_NONE};
    const void *bytes = NULL;
    bool again = t->n_made < t->n_wanted && t->wanted[t->n_made] == index;
    if (index >= t->from || again) {
        SK_TRY(sk_worker_link_value(c, p, &v, &bytes, err));
        t->n_made += again;
    } else {
        unwanted(c, p);
    }
    size_t cap =
        256 + p->note.n + (v.where == SK_V_INLINE ? (size_t)v.len : 0) + 8 * (size_t)p->n_contains;
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
    SK_ASSERT(sk_wr_ok(&w));
    pthread_mutex_lock(&c->mu);
    SK_FAULT_HERE("worker.before_yield");
    sk_worker_link_send_unlocked(c, b, w.n, false);
    sk_worker_link_ring(c, false);
    pthread_mutex_unlock(&c->mu);
    if (b != stack) sk_free(b);
    SK_FAULT_HERE("worker.after_yield");
    task->n_yielded++;
    if (!t->window) return SK_OK;
    /* Waits until the consumer has taken enough yields. */
    sk_rc rc = SK_OK;
    bool began = false;
    pthread_mutex_lock(&c->mu);
    for (;;) {
        uint32_t seen = sk_bell_seq(&c->slot->bell);
        /* reads one message at a time, as sk_worker_link_answer() does */
        bool more = !c->has_reader && sk_worker_link_read(c, true, NULL);
        if (sk_wtask_cancelled(t)) {
            rc = SK_ERR(err, SK_ECANCEL, "nobody wants the rest");
            break;
        }
        if ((uint64_t)task->n_yielded < t->run.credit + t->window) break;
        if (more) continue;
        if (!began && c->runner->block_begin) {
            pthread_mutex_unlock(&c->mu);
            c->runner->block_begin(c->runner->ctx);
            pthread_mutex_lock(&c->mu);
            began = true;
            continue;
        }
        if (c->has_reader) {
            sk_worker_link_wait_unlocked(c, sk_now_ns() + SK_SEC);
            continue;
        }
        sk_worker_link_sleep_unlocked(c, seen, SPIN_NS, INT64_MAX);
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
    if (v->token & 1) {
        /* a value in the store: until now held for the task, from here on pinned for this
         * process */
        struct {
            uint32_t type, pad;
            uint64_t oid;
        } m = {SK_M_PIN, 0, v->oid.v};
        pthread_mutex_lock(&t->c->mu);
        sk_worker_link_send_unlocked(t->c, &m, sizeof m, false);
        pthread_mutex_unlock(&t->c->mu);
    } else {
        void *copy =
            sk_memdup(SK_TAG_ENGINE, v->len ? (const void *)v->data : "", v->len ? v->len : 1);
        if (!copy) abort();
        kept.data = copy;
        kept.token = (uint64_t)(uintptr_t)copy;
    }
    return kept;
}

static void end(struct wtask *t, sk_rc rc, const struct sk_err *err);

/* Ends a call of an async actor. */
static void w_end(struct sk_task *task, sk_rc rc, const struct sk_err *err) {
    struct wtask *t = W(task);
    struct sk_worker_engine *c = t->c;
    struct sk_group *g = t->group;
    end(t, rc, err);
    if (!g) return;
    pthread_mutex_lock(&c->mu);
    sk_worker_step_more(g);
    pthread_mutex_unlock(&c->mu);
}
static bool w_cancelled(const struct sk_task *task) { return sk_wtask_cancelled(W(task)); }

static bool w_interrupt(struct sk_task *task) {
    struct wtask *t = W(task);
    return sk_wtask_cancelled(t) && atomic_exchange_explicit(&t->c->slot->interrupted, task->id.v,
                                                             memory_order_acq_rel) != task->id.v;
}

static const struct sk_task_ops task_ops = {.ret = w_return,
                                            .yield = w_yield,
                                            .skip = w_skip,
                                            .fail = w_fail,
                                            .note = w_note,
                                            .keep_arg = w_keep,
                                            .end = w_end,
                                            .cancelled = w_cancelled,
                                            .interrupt = w_interrupt};

static void engine_failure(struct wtask *t, const struct sk_err *e) {
    uint8_t buf[4 + sizeof e->msg];
    int32_t code = e->code ? e->code : SK_EINVAL;
    size_t n = strlen(e->msg) + 1;
    memcpy(buf, &code, 4);
    memcpy(buf + 4, e->msg, n);
    struct sk_payload p = {.kind = SK_KIND_ENGINE_ERROR, .bytes = {buf, 4 + n}};
    if (w_fail(&t->priv.t, &p, NULL) != SK_OK) abort();
}

/* Shows the task to observers (state lists, `skate stack`); if several tasks run, the one that
 * began last. Call with c->mu held. */
static void show(struct sk_worker_engine *c, const struct wtask *t) {
    struct sk_slot *s = c->slot;
    const char *name = t->priv.t.name;
    atomic_store_explicit(&s->since_ns, t->t0, memory_order_relaxed);
    /* who reads this task reads its time, too */
    atomic_store_explicit(&s->task, t->priv.t.id.v, memory_order_release);
    if (name == c->shown) return;
    size_t n = strnlen(name, sizeof s->task_name - 1);
    memcpy(s->task_name, name, n);
    s->task_name[n] = 0;
    /* a definition's name exists as long as the process */
    c->shown = name == t->own_name ? NULL : name;
}

static void unshow(struct sk_worker_engine *c, const struct wtask *t) {
    if (atomic_load_explicit(&c->slot->task, memory_order_relaxed) == t->priv.t.id.v)
        atomic_store_explicit(&c->slot->task, 0, memory_order_relaxed);
}

/* Reports the end of the task. If an error value is too long for the ring and the store is full,
 * an error that says so is sent instead. */
static void report(struct sk_worker_engine *c, struct wtask *t, struct sk_msg_done *d) {
    struct sk_err err;
    for (bool sent = false; !sent;) {
        uint32_t fl = t->priv.end_flags;
        d->status = (t->failed ? SK_DONE_FAILED : 0u) | (t->leave ? SK_DONE_LEAVE : 0u) |
                    (fl & SK_END_EXIT_ACTOR ? SK_DONE_EXIT : 0u) |
                    (fl & SK_END_FINAL ? SK_DONE_FINAL : 0u);
        d->n_values = t->n_values;
        size_t n = sizeof *d + 8 + (size_t)SK_ALIGN(t->note_len, 8) + t->out.n;
        uint8_t stack[1024], *b = n <= sizeof stack ? stack : sk_alloc(SK_TAG_ENGINE, n);
        if (!b) abort();
        struct sk_wr w = sk_wr_init(b, n);
        sk_wr_raw(&w, d, sizeof *d);
        sk_wr_bytes(&w, t->note, t->note_len);
        sk_wr_align(&w, 8);
        sk_wr_raw(&w, t->out.p, t->out.n);
        SK_ASSERT(sk_wr_ok(&w));
        pthread_mutex_lock(&c->mu);
        unshow(c, t);
        /* sending may wait and read messages, and this task must get no more credit by them */
        sk_list_del(&t->run.link);
        sent = !t->failed || sk_worker_link_try_send_unlocked(c, b, w.n, &err) == SK_OK;
        if (!t->failed) sk_worker_link_send_unlocked(c, b, w.n, false);
        if (sent) {
            if (SK_UNLIKELY(c->kept.n)) sk_worker_engine_unkeep(c, t);
            SK_FAULT_HERE("worker.after_done");
            sk_worker_link_ring(c, !c->has_reader);
        }
        pthread_mutex_unlock(&c->mu);
        if (b != stack) sk_free(b);
        if (sent) return;
        struct sk_err full;
        SK_ERR(&full, SK_EFULL, "task %s failed, and its error of %u bytes cannot be sent: %.400s",
               t->priv.t.name, t->out.n, err.msg);
        t->failed = false; /* lets the second error replace the first */
        engine_failure(t, &full);
    }
}

struct wtask *sk_wtask_get(struct sk_worker_engine *c) { /* call with c->mu held */
    struct wtask *t = c->free_tasks;
    if (t) {
        c->free_tasks = t->next;
        return t;
    }
    t = sk_calloc(SK_TAG_ENGINE, sizeof *t);
    if (!t) abort();
    t->c = c;
    return t;
}

void sk_wtask_put(struct wtask *t) { /* call with c->mu held */
    sk_free(t->msg);
    t->msg = NULL;
    SK_DCHECK(t != t->c->free_tasks);
    t->next = t->c->free_tasks;
    t->c->free_tasks = t;
}

/* Claims the task of a message, which is taken over, also on failure. False: the driver has
 * taken the task back. Called without the lock. */
bool sk_wtask_begin(struct wtask *t, struct sk_msg *msg) {
    struct sk_worker_engine *c = t->c;
    struct sk_rd r = sk_rd_init(msg->bytes, msg->len);
    struct sk_msg_task h;
    t->msg = msg;
    const void *hp = sk_rd_raw(&r, sizeof h);
    if (!hp) abort();
    memcpy(&h, hp, sizeof h);
    uint64_t want = h.tid << 2 | SK_CLAIM_QUEUED;
    SK_ASSERT(h.claim < SK_CLAIMS);
    if (c->broken) return false;
    /* the driver has taken the task back */
    if (!atomic_compare_exchange_strong(&c->slot->claims[h.claim], &want,
                                        h.tid << 2 | SK_CLAIM_STARTED))
        return false;
    struct sk_bytes name = sk_rd_bytes(&r);
    pthread_mutex_lock(&c->mu);
    t->def = sk_map_get(&c->defs, h.fid);
    pthread_mutex_unlock(&c->mu);
    if (name.n)
        snprintf(t->own_name, sizeof t->own_name, "%.*s",
                 (int)SK_MIN(name.n, sizeof t->own_name - 1), (const char *)name.p);
    t->args.n = 0;
    if (!sk_vec_reserve(&t->args, SK_TAG_ENGINE, h.n_args)) abort();
    for (uint32_t i = 0; i < h.n_args; i++) {
        struct sk_val v;
        const void *b = sk_rd_val(&r, &v);
        struct sk_view a = {.kind = v.kind, .len = (size_t)v.len, .oid = {v.oid}, .data = b};
        if (v.where == SK_V_STORE || v.where == SK_V_PART) {
            a.data = c->data_seg.base + v.off + (v.where == SK_V_PART ? sk_rd_u64(&r) : 0);
            a.token = v.off << 1 | 1;
        }
        t->args.p[t->args.n++] = a;
    }
    t->wanted = sk_rd_raw(&r, h.n_wanted * sizeof(uint32_t));
    if (h.flags & SK_TF_INIT) (void)sk_rd_raw(&r, sk_rd_u32(&r) * sizeof(uint32_t));
    if (h.flags & SK_TF_NEED) {
        sk_rd_align(&r, 8);
        const void *q = sk_rd_raw(&r, sizeof t->need);
        if (q) memcpy(&t->need, q, sizeof t->need);
        if (q && h.aid) { /* the task is a constructor: calls follow it in the ring */
            c->actor_need = t->need;
            c->has_need = true;
        }
    }
    /* the driver wrote this: if it is damaged, this process's memory cannot be trusted */
    if (r.bad) abort();
    t->priv.ops = &task_ops;
    t->priv.end_flags = 0;
    t->priv.t = (struct sk_task){.engine = &c->base,
                                 .id = {h.tid},
                                 .fn = {h.fid},
                                 .actor = {h.aid},
                                 .known_id = h.known_tid,
                                 .known_actor = h.known_aid,
                                 .is_actor_init = (h.flags & SK_TF_INIT) != 0,
                                 .is_async = c->is_async,
                                 .attempt = h.attempt,
                                 .n_args = h.n_args,
                                 .args = t->args.p,
                                 .n_returns = h.n_returns,
                                 .stream_window = h.window,
                                 .need = h.flags & SK_TF_NEED   ? &t->need
                                         : h.aid && c->has_need ? &c->actor_need
                                                                : NULL,
                                 .gpus = h.gpus,
                                 .name = name.n   ? t->own_name
                                         : t->def ? t->def->name
                                                  : "?"};
    t->first = h.first;
    t->skip = h.skip;
    t->claim = h.claim;
    t->from = h.from;
    t->n_wanted = h.n_wanted;
    t->n_made = 0;
    t->remake = (h.flags & SK_TF_REMAKE) != 0;
    t->window = h.window;
    t->max_calls = h.max_calls;
    t->n_ret = t->n_values = t->note_len = 0;
    t->failed = t->pending = t->told = t->leave = false;
    t->out.n = 0;
    if (h.n_returns > 1 && h.n_returns != SK_STREAMING) {
        if (!sk_vec_reserve(&t->set, SK_TAG_ENGINE, h.n_returns)) abort();
        memset(t->set.p, 0, h.n_returns);
    }
    t->run.tid = h.tid;
    t->t0 = sk_now_ns();
    pthread_mutex_lock(&c->mu);
    show(c, t);
    /* the credit may have grown meanwhile */
    t->run.credit = ((const struct sk_msg_task *)(const void *)msg->bytes)->credit;
    sk_list_push_back(&c->running, &t->run.link);
    pthread_mutex_unlock(&c->mu);
    return true;
}

/* Runs user code. True: the task goes on, and ends by sk_task_end. */
bool sk_wtask_run(struct wtask *t) {
    struct sk_worker_engine *c = t->c;
    struct sk_err err = {0};
    sk_rc rc = SK_OK;
    SK_FAULT_HERE("worker.before_run");
    /* another thread may end the task before run() returns here; then t is gone */
    bool is_async = t->priv.t.is_async;
    sk_fid fid = t->priv.t.fn;
    if (c->env_failed) {
        err = c->env_err;
        rc = err.code;
    } else if (!t->def) {
        rc = SK_ERR(&err, SK_ENOENT, "unknown function %llx", (unsigned long long)fid.v);
    } else {
        /* one thread at a time gives a definition to the runner */
        pthread_mutex_lock(&c->define_mu);
        if (!t->def->given) {
            rc = c->runner->define(c->runner->ctx, fid, t->def->name,
                                   (struct sk_bytes){t->def->def, t->def->len}, &err);
            t->def->given = rc == SK_OK;
        }
        pthread_mutex_unlock(&c->define_mu);
    }
    if (rc == SK_OK) rc = c->runner->run(c->runner->ctx, &t->priv.t, &err);
    if (SK_UNLIKELY(sk_stray_))
        sk_stray_end("it came back from the task, whose value is that of the task's own process");
    if (rc == SK_EAGAIN && is_async) return true;
    end(t, rc, &err);
    return false;
}

/* Call with c->mu held when the constructor of an async actor has run: starts the event loops of
 * groups that have calls. */
void sk_worker_engine_start_loops(struct sk_worker_engine *c) {
    c->ready = true;
    if (!sk_list_empty(&c->groups[0].queue)) sk_worker_link_nudge(&c->groups[0]);
    for (uint32_t i = 1; i < c->n_groups; i++)
        if (c->groups[i].n_queued && !c->groups[i].n_threads) sk_worker_thread(&c->groups[i]);
}

/* Ends the task: *why is the reason if rc is a failure. Sends the report. Called without the
 * lock. */
static void end(struct wtask *t, sk_rc rc, const struct sk_err *why) {
    struct sk_worker_engine *c = t->c;
    struct sk_task *k = &t->priv.t;
    int64_t t1 = sk_now_ns();
    struct sk_err err = {0};
    if (rc != SK_OK && !t->failed) engine_failure(t, why);
    else if (!t->failed && k->n_returns != SK_STREAMING && t->n_ret != k->n_returns) {
        SK_ERR(&err, SK_EINVAL, "task %s set %u of its %u return values", k->name, t->n_ret,
               k->n_returns);
        engine_failure(t, &err);
    }
    /* without an actor there are no calls: the driver will end this process */
    if (k->is_actor_init && t->failed) c->broken = true;
    SK_FAULT_HERE("worker.after_run");
    if (t->max_calls) {
        uintptr_t n = (uintptr_t)sk_map_get(&c->n_calls, k->fn.v) + 1;
        if (n >= t->max_calls || sk_map_put(&c->n_calls, k->fn.v, (void *)n) != SK_OK)
            t->leave = true;
    }
    uint32_t fl = t->priv.end_flags;
    if (fl & SK_END_PROCESS && !k->actor.v) t->leave = true;
    /* the driver gives tasks that are queued here to others */
    if (t->leave || (fl & SK_END_EXIT_ACTOR && t->failed)) c->broken = true;
    report(c, t,
           &(struct sk_msg_done){.type = SK_M_DONE,
                                 .attempt = k->attempt,
                                 .tid = k->id.v,
                                 .start_ns = t->t0,
                                 .run_ns = t1 - t->t0});
    for (uint32_t i = 0; i < t->held.n; i++) c->base.ops->release(&c->base, (sk_oid){t->held.p[i]});
    t->held.n = 0;
    if (t->out.cap > 1u << 20) sk_vec_free(&t->out);
    if (!t->pending) return; /* the code that began the task frees it */
    pthread_mutex_lock(&c->mu);
    SK_DCHECK(!t->group || t->group->n_running > 0);
    if (t->group) t->group->n_running--;
    else if (k->is_actor_init) sk_worker_engine_start_loops(c);
    sk_wtask_put(t);
    pthread_mutex_unlock(&c->mu);
}
