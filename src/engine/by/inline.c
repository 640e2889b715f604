/* inline.c - the engine that runs tasks in the thread that waits for them: for pdb, for unit tests, and as the model of `local`.
 *
 * Not here: processes, zero copy, limits in time. A task is queued by submit and runs when somebody gets, waits, drives or reads a stream:
 * the first runnable one in order of submission or, with conf.seed, a random one of the first 64 runnable. Methods of an actor keep their order.
 * A streaming task runs to its end at once (stream_window is ignored: nobody else could take the values).
 *
 * Invariant: the lock is never held while user code runs (the runner takes the GIL, a caller may hold it), and reference counts are those
 * of own.c with everything in process 0. A wait that nobody can end (nothing runnable, nothing running elsewhere) is SK_ESTALL at once.
 * Cost: about 0.3 us a task besides the function. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/list.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/vec.h"
#include "engine/engine_int.h"
#include "engine/own.h"

#define TAG SK_TAG_ENGINE
#define ME 0u /* the one process of own.c */

static _Thread_local uint32_t my_running; /* tasks on this thread's stack */

struct blob { /* a value; views and objects count */
    _Atomic uint32_t refs;
    uint32_t kind;
    size_t len;
    size_t cap;
    uint8_t *data; /* 64-aligned, in this allocation */
};

struct obj {
    struct blob *val; /* NULL: not made yet */
};

struct ival { /* a return before it is sealed: the references inside are held */
    struct blob *b;
    uint64_t *in;
    uint32_t n_in;
};

struct actor {
    uint64_t id, ready;
    uint32_t n_handles;
    uint32_t n_calls; /* queued or running, constructor included */
    bool dead, started, busy, ready_gone;
    bool charged;       /* its shape is in use */
    uint64_t scan;      /* stamp of the scan that found an earlier call of it */
    struct itask *init; /* kept, arguments held, for restarts */
    int32_t restarts_left, max_task_retries;
    struct blob *why; /* dead: what calls get */
};

struct itask {
    struct sk_task_priv p; /* first */
    struct inl *e;
    struct sk_list node; /* in queue */
    uint64_t id, first;
    uint32_t n_ret; /* 0 for streams */
    bool streaming, queued, running, cancelled, is_init, retry_exceptions;
    int32_t retries_left;
    sk_shape shape;
    struct actor *actor;
    char *name;
    struct sk_view *views;
    struct blob **vals; /* inline argument i, or NULL when it is a reference */
    uint64_t *refs;     /* reference argument i, or 0 */
    uint64_t *held;     /* contains */
    uint32_t n_held;
    struct ival *ret; /* of this attempt */
    struct blob *error;
    SK_VEC(uint64_t) yields; /* streaming: reported oids; [0, n_taken) were taken */
    uint32_t n_taken, n_reported;
    SK_VEC(uint64_t) notes; /* hash of the note of each reported yield */
    bool finished, stream_dropped;
    uint64_t stream_error; /* oid */
    struct sk_err fail;    /* code and text when it failed */
    uint32_t note_n;
    uint8_t note[SK_NOTE_MAX];
    struct sk_sink *sink;
    uint64_t sink_tag;
};

struct inl {
    struct sk_engine e;
    pthread_mutex_t mu;
    pthread_cond_t cv;
    pthread_t owner;
    uint32_t depth; /* of the recursive lock */
    bool closed;
    uint32_t n_running, n_waiting;
    struct sk_runner *runner;
    struct sk_own *own;
    struct sk_map fns, tasks, actors; /* fid -> fn; tid -> itask (streams and unfinished); aid -> actor */
    struct sk_list queue;             /* of itask.node */
    uint64_t next_id, scan, rng;
    uint64_t bytes, store_bytes, n_done;
    struct sk_res total, used;
    SK_VEC(uint64_t) gone; /* dead actors whose state the runner still keeps; told by the outermost unlock */
    SK_VEC(struct sk_res) shapes;
    char *custom[SK_RES_MAX];
    uint32_t n_custom;
};

static struct inl *of(struct sk_engine *e) { return sk_container_of(e, struct inl, e); }

/* ---- the lock: recursive, and can be let go of whatever its depth ------------------------------------------------------------- */

static void lock(struct inl *x) {
    if (pthread_equal(__atomic_load_n(&x->owner, __ATOMIC_RELAXED), pthread_self())) {
        x->depth++; /* only the owner can see itself there */
        return;
    }
    pthread_mutex_lock(&x->mu);
    __atomic_store_n(&x->owner, pthread_self(), __ATOMIC_RELAXED);
    x->depth = 1;
}

static void unlock(struct inl *x) {
    if (x->depth > 1) {
        x->depth--;
        return;
    }
    uint64_t gone[8];
    uint32_t n = 0;
    while (n < SK_COUNT(gone) && x->gone.n) gone[n++] = x->gone.p[--x->gone.n];
    x->depth = 0;
    __atomic_store_n(&x->owner, (pthread_t)0, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&x->mu);
    for (uint32_t i = 0; i < n; i++) /* runs user code (destructors): never under the lock */
        if (x->runner->actor_gone) x->runner->actor_gone(x->runner->ctx, (sk_aid){gone[i]});
}

/* ---- values --------------------------------------------------------------------------------------------------------------------- */

static sk_rc blob_new(struct inl *x, uint32_t kind, size_t len, struct blob **out, struct sk_err *err) {
    if (x->store_bytes && len > SK_INLINE_MAX && x->bytes + len > x->store_bytes)
        return SK_ERR(err, SK_EFULL, "object store is full: %zu bytes wanted, %llu of %llu used%s", len, (unsigned long long)x->bytes,
                      (unsigned long long)x->store_bytes, len > x->store_bytes ? "; larger than the store" : "");
    struct blob *b = sk_alloc(TAG, sizeof *b + 63 + len);
    if (!b) return SK_ERR(err, SK_ENOMEM, "value of %zu bytes", len);
    atomic_init(&b->refs, 1);
    b->kind = kind;
    b->len = b->cap = len;
    b->data = (uint8_t *)SK_ALIGN((uintptr_t)(b + 1), 64);
    if (len > SK_INLINE_MAX) x->bytes += len;
    *out = b;
    return SK_OK;
}

static void blob_unref(struct inl *x, struct blob *b) {
    if (!b || atomic_fetch_sub(&b->refs, 1) != 1) return;
    if (b->cap > SK_INLINE_MAX) x->bytes -= b->cap;
    sk_free(b);
}

static struct blob *blob_ref(struct blob *b) {
    atomic_fetch_add(&b->refs, 1);
    return b;
}

static sk_rc blob_bytes(struct inl *x, uint32_t kind, struct sk_bytes v, struct blob **out, struct sk_err *err) {
    SK_TRY(blob_new(x, kind, v.n, out, err));
    if (v.n) memcpy((*out)->data, v.p, v.n);
    return SK_OK;
}

/* The payload's value; its buffer is taken on every path. */
static sk_rc blob_payload(struct inl *x, const struct sk_payload *p, struct blob **out, struct sk_err *err) {
    if (!p->buf) return blob_bytes(x, p->kind, p->bytes, out, err);
    struct blob *b = (struct blob *)(uintptr_t)p->buf->token; /* NOLINT: made by buf_alloc */
    b->kind = p->kind;
    b->len = SK_MIN(p->buf_len, b->cap);
    *out = b;
    return SK_OK;
}

static sk_rc blob_engine_error(struct inl *x, sk_rc code, const char *msg, struct blob **out) {
    size_t n = strlen(msg) + 1;
    SK_TRY(blob_new(x, SK_KIND_ENGINE_ERROR, n + 4, out, NULL));
    int32_t c = code;
    memcpy((*out)->data, &c, 4);
    memcpy((*out)->data + 4, msg, n);
    return SK_OK;
}

static struct sk_view view_of(struct blob *b, uint64_t oid) { return (struct sk_view){b->data, b->len, b->kind, {oid}, (uintptr_t)b}; }

/* ---- objects -------------------------------------------------------------------------------------------------------------------- */

static void actor_maybe_end(struct inl *x, struct actor *a);

static void drain(struct inl *x) {
    uint64_t id;
    void *data;
    while (sk_own_next_freed(x->own, &id, &data)) {
        struct obj *o = data;
        blob_unref(x, o->val);
        sk_free(o);
        struct actor *a = sk_map_get(&x->actors, id); /* ready objects have their actor's id */
        if (a) {
            a->ready_gone = true;
            actor_maybe_end(x, a);
        }
    }
}

static sk_rc obj_new(struct inl *x, uint64_t id, struct blob *val, const sk_oid *in, uint32_t n_in, struct sk_err *err) {
    struct obj *o = sk_alloc(TAG, sizeof *o);
    if (!o) return SK_ERR(err, SK_ENOMEM, "object");
    o->val = val;
    sk_rc rc = sk_own_add(x->own, id, ME, o, err);
    if (rc == SK_OK && n_in) {
        rc = sk_own_contains(x->own, id, (const uint64_t *)(const void *)in, n_in, err);
        if (rc != SK_OK) {
            o->val = NULL; /* stays the caller's */
            SK_ASSERT(sk_own_unref(x->own, id, ME, 1, NULL) == SK_OK);
            drain(x);
            return rc;
        }
    }
    if (rc != SK_OK) sk_free(o);
    return rc;
}

static struct blob *obj_val(struct inl *x, uint64_t id) {
    struct obj *o = sk_own_get(x->own, id);
    return o ? o->val : NULL;
}

static void unref(struct inl *x, uint64_t id) {
    if (id && sk_own_has(x->own, id)) (void)!sk_own_unref(x->own, id, ME, 1, NULL); /* one too many by the caller: nothing to do about it */
    drain(x);
}

/* ---- tasks: making and ending ------------------------------------------------------------------------------------------------------ */

static void ival_drop(struct inl *x, struct ival *v) {
    for (uint32_t i = 0; i < v->n_in; i++) sk_own_unhold(x->own, v->in[i]);
    sk_free(v->in);
    blob_unref(x, v->b);
    *v = (struct ival){0};
    drain(x);
}

static void drop_attempt(struct inl *x, struct itask *t) {
    for (uint32_t i = 0; t->ret && i < t->n_ret; i++) ival_drop(x, &t->ret[i]);
    blob_unref(x, t->error);
    t->error = NULL;
    t->note_n = 0;
}

static void drop_args(struct inl *x, struct itask *t) {
    for (uint32_t i = 0; i < t->p.t.n_args; i++) {
        if (t->refs && t->refs[i]) sk_own_unhold(x->own, t->refs[i]);
        if (t->vals) blob_unref(x, t->vals[i]);
    }
    for (uint32_t i = 0; i < t->n_held; i++) sk_own_unhold(x->own, t->held[i]);
    t->p.t.n_args = 0;
    t->n_held = 0;
    drain(x);
}

static void task_free(struct inl *x, struct itask *t) {
    sk_map_del(&x->tasks, t->id);
    drop_attempt(x, t);
    drop_args(x, t);
    sk_free(t->name);
    sk_free(t->views);
    sk_free(t->vals);
    sk_free(t->refs);
    sk_free(t->held);
    sk_free(t->ret);
    sk_vec_free(&t->yields);
    sk_vec_free(&t->notes);
    sk_free(t);
}

static void emit(struct itask *t, enum sk_event_kind kind, uint64_t oid, uint64_t size, struct sk_bytes note, int64_t run_ns) {
    if (!t->sink) return;
    struct sk_event ev = {.kind = kind,
                          .task = {t->id},
                          .tag = t->sink_tag,
                          .attempt = t->p.t.attempt,
                          .index = t->n_reported,
                          .oid = {oid},
                          .size_bytes = size,
                          .note = note,
                          .run_ns = run_ns,
                          .err = kind == SK_EV_FAILED ? &t->fail : NULL};
    t->sink->on_event(t->sink, &ev);
}

static void use_shape(struct inl *x, sk_shape s, int sign) {
    for (uint32_t i = 0; i < SK_RES_MAX; i++) x->used.amount[i] += sign * x->shapes.p[s].amount[i];
}

static void actor_die(struct inl *x, struct actor *a, struct blob *why);

static void call_ended(struct inl *x, struct itask *t) {
    struct actor *a = t->actor;
    if (!a) return;
    a->n_calls--;
    if (t->running) a->busy = false;
    actor_maybe_end(x, a);
}

/* The task is over for good. `error` (taken) is NULL when it succeeded. */
static void finish(struct inl *x, struct itask *t, struct blob *error, int64_t run_ns) {
    uint64_t ev_oid = 0;
    t->finished = true;
    x->n_done++;
    for (uint32_t i = 0; i < t->n_ret; i++) {
        struct obj *o = sk_own_get(x->own, t->first + i);
        if (!o || o->val) /* nobody wants it any more; or a restarted constructor, whose `ready` is there */
            continue;
        if (error) {
            o->val = blob_ref(error);
            if (!ev_oid && t->sink && sk_own_ref(x->own, t->first + i, ME, 1, NULL) == SK_OK) ev_oid = t->first + i;
        } else {
            o->val = t->ret[i].b;
            t->ret[i].b = NULL;
            if (t->ret[i].n_in) /* no memory for it: then the inner objects are lost when nobody else holds them; a get says so */
                (void)!sk_own_contains(x->own, t->first + i, t->ret[i].in, t->ret[i].n_in, NULL);
        }
    }
    if (error && !ev_oid && (t->sink || t->streaming) && !t->stream_dropped) {
        uint64_t id = x->next_id++;
        if (obj_new(x, id, error, NULL, 0, NULL) == SK_OK) {
            blob_ref(error);
            ev_oid = id;
        }
    }
    if (t->is_init) { /* its call counts until the end: calls that end with it, and the sink, may be the last that hold the actor, and so t */
        struct actor *a = t->actor;
        drop_attempt(x, t);
        if (error) actor_die(x, a, blob_ref(error));
        else a->started = true;
        if (!error && a->dead && !sk_vec_push(&x->gone, TAG, a->id)) abort(); /* killed while its constructor ran */
        emit(t, error ? SK_EV_FAILED : SK_EV_DONE, ev_oid, 0, (struct sk_bytes){t->note, t->note_n}, run_ns);
        a->n_calls--;
        if (t->running) a->busy = false;
        t->running = false;
        actor_maybe_end(x, a); /* may free t */
    } else {
        drop_args(x, t);
        call_ended(x, t);
        emit(t, error ? SK_EV_FAILED : SK_EV_DONE, t->sink ? ev_oid : 0, 0, (struct sk_bytes){t->note, t->note_n}, run_ns);
        t->running = false;
        if (t->streaming && !t->sink && !t->stream_dropped) {
            t->stream_error = ev_oid;
            drop_attempt(x, t);
        } else {
            task_free(x, t);
        }
    }
    blob_unref(x, error);
    pthread_cond_broadcast(&x->cv);
}

static void finish_code(struct inl *x, struct itask *t, sk_rc code, const char *msg) {
    struct blob *b = NULL;
    if (blob_engine_error(x, code, msg, &b) != SK_OK) abort(); /* a waiter would wait for ever: no memory for 200 bytes */
    sk_err_set(&t->fail, code, __FILE__, __LINE__, "%s", msg);
    if (t->queued) {
        sk_list_del(&t->node);
        t->queued = false;
    }
    finish(x, t, b, 0);
}

/* ---- actors ------------------------------------------------------------------------------------------------------------------------ */

/* Ends the calls that wait; the caller counts as one, or the last of them would take the actor along. */
static void actor_die(struct inl *x, struct actor *a, struct blob *why) {
    if (a->dead) {
        blob_unref(x, why);
        return;
    }
    a->dead = true;
    a->why = why;
    if (a->charged) use_shape(x, a->init->shape, -1);
    a->charged = false;
    if (a->started && !sk_vec_push(&x->gone, TAG, a->id)) abort();
    for (struct sk_list *it = x->queue.next; it != &x->queue;) {
        struct itask *t = sk_container_of(it, struct itask, node);
        it = it->next;
        if (t->actor != a || t->is_init) continue;
        sk_list_del(&t->node);
        t->queued = false;
        int32_t code = SK_ETASK;
        if (why->kind == SK_KIND_ENGINE_ERROR) memcpy(&code, why->data, 4);
        sk_err_set(&t->fail, code, __FILE__, __LINE__, "%s: its actor is dead", t->name);
        finish(x, t, blob_ref(why), 0);
        it = x->queue.next; /* the end of a task can end others */
    }
}

/* Last handle gone and every call done: the state goes. The record stays while refs to `ready` could name it: never, so it goes too. */
static void actor_maybe_end(struct inl *x, struct actor *a) {
    if (a->n_handles || !a->ready_gone || a->n_calls || a->busy) return;
    if (!a->dead) {
        struct blob *why = NULL;
        if (blob_engine_error(x, SK_EACTOR, "the actor ended: its last handle is gone", &why) != SK_OK) abort();
        actor_die(x, a, why);
    }
    struct itask *init = a->init;
    a->init = NULL;
    sk_map_del(&x->actors, a->id);
    blob_unref(x, a->why);
    sk_free(a);
    if (init) task_free(x, init);
}

/* ---- what a running task may call ---------------------------------------------------------------------------------------------- */

static struct itask *task_of(struct sk_task *t) { return sk_container_of(sk_container_of(t, struct sk_task_priv, t), struct itask, p); }

static sk_rc t_ret(struct sk_task *pt, uint32_t i, const struct sk_payload *p, struct sk_err *err) {
    struct itask *t = task_of(pt);
    struct inl *x = t->e;
    struct ival v = {0};
    lock(x);
    sk_rc rc = blob_payload(x, p, &v.b, err);
    if (rc == SK_OK && t->ret[i].b) rc = SK_ERR(err, SK_EINVAL, "task %s: return %u is set twice", t->name, i);
    if (rc == SK_OK && p->n_contains && !(v.in = sk_memdup(TAG, p->contains, p->n_contains * sizeof *v.in)))
        rc = SK_ERR(err, SK_ENOMEM, "task %s: return %u", t->name, i);
    for (; rc == SK_OK && v.n_in < p->n_contains; v.n_in += rc == SK_OK) rc = sk_own_hold(x->own, v.in[v.n_in], err);
    if (rc == SK_OK) t->ret[i] = v;
    else ival_drop(x, &v);
    unlock(x);
    return rc;
}

static uint64_t note_hash(struct sk_bytes n) {
    uint64_t h = 1469598103934665603u ^ n.n;
    for (size_t i = 0; i < n.n; i++) h = (h ^ ((const uint8_t *)n.p)[i]) * 1099511628211u;
    return h;
}

static sk_rc t_yield(struct sk_task *pt, const struct sk_payload *p, struct sk_err *err) {
    struct itask *t = task_of(pt);
    struct inl *x = t->e;
    struct blob *b = NULL;
    uint64_t h = note_hash(p->note);
    lock(x);
    sk_rc rc = blob_payload(x, p, &b, err);
    if (rc == SK_OK && t->cancelled) rc = SK_ERR(err, SK_ECANCEL, "task %s: nobody wants the rest", t->name);
    uint32_t i = pt->n_yielded;
    if (rc == SK_OK && i < t->n_reported) { /* a retry, before the point where the last attempt broke off */
        if (t->notes.p[i] != h)
            rc = SK_ERR(err, SK_ECORRUPT, "task %s: attempt %u made another value %u than the attempt before", t->name, pt->attempt, i);
        else pt->n_yielded++;
        blob_unref(x, b);
        unlock(x);
        return rc;
    }
    uint64_t id = x->next_id++;
    if (rc == SK_OK && (!sk_vec_reserve(&t->notes, TAG, t->notes.n + 1) || !sk_vec_reserve(&t->yields, TAG, t->yields.n + 1)))
        rc = SK_ERR(err, SK_ENOMEM, "task %s: yield %u", t->name, i);
    size_t len = b ? b->len : 0;
    if (rc == SK_OK) rc = obj_new(x, id, b, p->contains, p->n_contains, err);
    if (rc == SK_OK) {
        t->notes.p[t->notes.n++] = h;
        pt->n_yielded++;
        if (t->sink) emit(t, SK_EV_YIELDED, id, len, p->note, 0);
        else t->yields.p[t->yields.n++] = id;
        t->n_reported++;
        pthread_cond_broadcast(&x->cv);
    } else {
        blob_unref(x, b);
    }
    unlock(x);
    return rc;
}

static uint32_t t_skip(const struct sk_task *pt) {
    return sk_container_of(pt, const struct itask, p.t)->n_reported; /* only this thread writes it while the task runs */
}

static sk_rc t_fail(struct sk_task *pt, const struct sk_payload *p, struct sk_err *err) {
    struct itask *t = task_of(pt);
    struct blob *b = NULL;
    lock(t->e);
    sk_rc rc = blob_payload(t->e, p, &b, err);
    if (rc == SK_OK && !t->error) t->error = b;
    else blob_unref(t->e, b);
    unlock(t->e);
    return rc;
}

static void t_note(struct sk_task *pt, struct sk_bytes note) {
    struct itask *t = task_of(pt);
    t->note_n = (uint32_t)note.n;
    memcpy(t->note, note.p, note.n);
}

static struct sk_view t_keep_arg(struct sk_task *pt, uint32_t i) {
    struct itask *t = task_of(pt);
    struct sk_view v = t->views[i];
    t->views[i].token = 0;
    return v;
}

static const struct sk_task_ops TASK_OPS = {t_ret, t_yield, t_skip, t_fail, t_note, t_keep_arg};

/* ---- running ------------------------------------------------------------------------------------------------------------------------- */

static bool runnable(struct inl *x, const struct itask *t) {
    if (t->actor && !t->is_init && (t->actor->busy || !t->actor->started)) return false;
    for (uint32_t i = 0; i < t->p.t.n_args; i++)
        if (t->refs[i] && !obj_val(x, t->refs[i])) return false;
    return true;
}

static struct itask *pick(struct inl *x) {
    struct itask *cand[64];
    uint32_t n = 0;
    x->scan++;
    SK_LIST_EACH (it, &x->queue) {
        struct itask *t = sk_container_of(it, struct itask, node);
        if (t->actor) { /* in order: only its first call in the queue may run */
            if (t->actor->scan == x->scan) continue;
            t->actor->scan = x->scan;
        }
        if (!runnable(x, t)) continue;
        if (!x->rng) return t;
        cand[n++] = t;
        if (n == SK_COUNT(cand)) break;
    }
    if (!n) return NULL;
    x->rng ^= x->rng << 13;
    x->rng ^= x->rng >> 7;
    x->rng ^= x->rng << 17;
    return cand[x->rng % n];
}

static void run_task(struct inl *x, struct itask *t) {
    struct sk_err err = {0};
    sk_list_del(&t->node);
    t->queued = false;
    t->running = true;
    x->n_running++;
    my_running++;
    if (t->actor) t->actor->busy = true;
    if (!t->is_init || !t->actor->charged) use_shape(x, t->shape, 1);
    if (t->is_init) t->actor->charged = true;
    for (uint32_t i = 0; i < t->p.t.n_args; i++)
        t->views[i] = view_of(blob_ref(t->refs[i] ? obj_val(x, t->refs[i]) : t->vals[i]), t->refs[i]);
    t->p.t.n_yielded = 0;
    emit(t, SK_EV_STARTED, 0, 0, (struct sk_bytes){"", 0}, 0);
    SK_ASSERT(x->depth == 1);
    unlock(x);
    int64_t t0 = sk_now_ns();
    sk_rc rc = x->runner->run(x->runner->ctx, &t->p.t, &err);
    int64_t run_ns = sk_now_ns() - t0;
    lock(x);
    my_running--;
    x->n_running--;
    for (uint32_t i = 0; i < t->p.t.n_args; i++)
        if (t->views[i].token) blob_unref(x, (struct blob *)(uintptr_t)t->views[i].token);
    if (!t->is_init) use_shape(x, t->shape, -1);

    struct blob *error = t->error;
    t->error = NULL;
    if (error) sk_err_set(&t->fail, SK_ETASK, __FILE__, __LINE__, "task %s failed", t->name);
    for (uint32_t i = 0; rc == SK_OK && !error && i < t->n_ret; i++)
        if (!t->ret[i].b && !(t->is_init && t->p.t.attempt)) rc = SK_ERR(&err, SK_ETASK, "task %s ended without its return %u", t->name, i);
    if (t->cancelled && (rc != SK_OK || error || t->streaming)) {
        blob_unref(x, error);
        error = NULL;
        rc = SK_ERR(&err, SK_ECANCEL, "task %s was cancelled", t->name);
    }
    if (rc != SK_OK && !error) {
        t->fail = err;
        if (blob_engine_error(x, rc, err.msg, &error) != SK_OK) abort();
    }
    if (error && !t->cancelled && !x->closed && t->retry_exceptions && t->retries_left && t->fail.code != SK_ECORRUPT) {
        t->retries_left -= t->retries_left > 0;
        blob_unref(x, error);
        drop_attempt(x, t);
        t->p.t.attempt++;
        t->running = false;
        if (t->actor) t->actor->busy = false;
        sk_list_push_front(&x->queue, &t->node);
        t->queued = true;
        return;
    }
    finish(x, t, error, run_ns);
}

static void timed_wait(struct inl *x, int64_t deadline_ns) {
    SK_ASSERT(x->depth == 1);
    x->depth = 0;
    __atomic_store_n(&x->owner, (pthread_t)0, __ATOMIC_RELAXED);
    x->n_waiting++;
    if (deadline_ns == INT64_MAX) {
        pthread_cond_wait(&x->cv, &x->mu);
    } else {
        struct timespec ts = {deadline_ns / 1000000000, deadline_ns % 1000000000};
        pthread_cond_timedwait(&x->cv, &x->mu, &ts);
    }
    x->n_waiting--;
    __atomic_store_n(&x->owner, pthread_self(), __ATOMIC_RELAXED);
    x->depth = 1;
    if (x->closed) pthread_cond_broadcast(&x->cv); /* close waits for the waiters */
}

/* One step of progress for somebody who waits for `what`. */
static sk_rc step(struct inl *x, int64_t deadline_ns, const char *what, struct sk_err *err) {
    if (x->closed) return SK_ERR(err, SK_ECLOSED, "the engine is shut down");
    if (x->depth != 1) return SK_ERR(err, SK_EINVAL, "%s: waits with the engine's lock held", what);
    if (deadline_ns <= 0 || (deadline_ns != INT64_MAX && sk_now_ns() >= deadline_ns))
        return SK_ERR(err, SK_ETIMEOUT, "%s: timed out", what);
    struct itask *t = pick(x);
    if (t) {
        run_task(x, t);
        return SK_OK;
    }
    if (x->n_running > my_running) {
        timed_wait(x, deadline_ns);
        return SK_OK;
    }
    return SK_ERR(err, SK_ESTALL, "%s: waits for something that cannot happen (%s)", what,
                  my_running ? "it depends on the task that waits" : "no task makes it");
}

/* ---- the ops: functions, shapes ----------------------------------------------------------------------------------------------------- */

static sk_rc op_fn_define(struct sk_engine *e, sk_fid fn, const char *name, struct sk_bytes def, struct sk_err *err) {
    struct inl *x = of(e);
    lock(x);
    sk_rc rc = x->closed ? SK_ERR(err, SK_ECLOSED, "the engine is shut down") : SK_OK;
    char *copy = NULL;
    if (rc == SK_OK && !sk_map_get(&x->fns, fn.v)) {
        rc = !fn.v                                         ? SK_ERR(err, SK_EINVAL, "function id 0")
             : !(copy = sk_strdup(TAG, name ? name : "?")) ? SK_ERR(err, SK_ENOMEM, "function")
                                                           : SK_OK;
        if (rc == SK_OK) rc = sk_map_put(&x->fns, fn.v, copy);
        if (rc == SK_OK) rc = x->runner->define(x->runner->ctx, fn, copy, def, err);
        if (rc != SK_OK && copy) {
            sk_map_del(&x->fns, fn.v);
            sk_free(copy);
        }
    }
    unlock(x);
    return rc;
}

static const char *res_name(struct inl *x, uint32_t i) {
    static const char *const name[] = {"CPU", "GPU", "memory"};
    return i < SK_RES_CUSTOM ? name[i] : i - SK_RES_CUSTOM < x->n_custom ? x->custom[i - SK_RES_CUSTOM] : "?";
}

static sk_rc op_shape(struct sk_engine *e, const struct sk_res *r, sk_shape *out, struct sk_err *err) {
    struct inl *x = of(e);
    for (uint32_t i = 0; i < SK_RES_MAX; i++) {
        double unit = i == SK_RES_MEMORY ? 1 : SK_RES_UNIT;
        if (r->amount[i] < 0) return SK_ERR(err, SK_EINVAL, "a negative amount of %s", res_name(x, i));
        if (r->amount[i] > x->total.amount[i])
            return SK_ERR(err, SK_EINFEASIBLE, "asks for %g of %s, this machine has %g", (double)r->amount[i] / unit, res_name(x, i),
                          (double)x->total.amount[i] / unit);
    }
    lock(x);
    sk_rc rc = SK_OK;
    uint32_t s = 1;
    while (s < x->shapes.n && memcmp(&x->shapes.p[s], r, sizeof *r) != 0) s++;
    if (s == UINT16_MAX || (s == x->shapes.n && !sk_vec_push(&x->shapes, TAG, *r))) rc = SK_ERR(err, SK_ENOMEM, "too many shapes");
    else *out = (sk_shape)s;
    unlock(x);
    return rc;
}

static sk_rc op_res_index(struct sk_engine *e, const char *name, uint32_t *out, struct sk_err *err) {
    struct inl *x = of(e);
    for (uint32_t i = 0; i < x->n_custom; i++)
        if (!strcmp(x->custom[i], name)) {
            *out = SK_RES_CUSTOM + i;
            return SK_OK;
        }
    return SK_ERR(err, SK_EINFEASIBLE, "this machine has no resource \"%s\"; name it in init(resources=...)", name);
}

static void op_resources(struct sk_engine *e, struct sk_res *total, struct sk_res *available) {
    struct inl *x = of(e);
    lock(x);
    *total = *available = x->total;
    for (uint32_t i = 0; i < SK_RES_MAX; i++) available->amount[i] -= x->used.amount[i];
    unlock(x);
}

/* ---- the ops: tasks ------------------------------------------------------------------------------------------------------------------- */

static sk_rc make_task(struct inl *x, const struct sk_task_spec *s, uint32_t n_ret, uint64_t first, struct itask **out,
                       struct sk_err *err) {
    if (s->n_returns != SK_STREAMING && s->n_returns > 1000) return SK_ERR(err, SK_EINVAL, "%u returns (at most 1000)", s->n_returns);
    if (s->shape >= x->shapes.n) return SK_ERR(err, SK_EINVAL, "no such shape");
    const char *name = sk_map_get(&x->fns, s->fn.v);
    if (!name) return SK_ERR(err, SK_EINVAL, "function %s is not defined", s->name ? s->name : "?");
    sk_rc rc = SK_OK;
    struct itask *t = sk_calloc(TAG, sizeof *t);
    if (!t) return SK_ERR(err, SK_ENOMEM, "task");
    *t = (struct itask){.e = x,
                        .id = x->next_id,
                        .first = first,
                        .streaming = s->n_returns == SK_STREAMING,
                        .n_ret = n_ret,
                        .retry_exceptions = s->retry_exceptions,
                        .retries_left = s->max_retries,
                        .shape = s->shape,
                        .sink = s->sink,
                        .sink_tag = s->sink_tag};
    sk_list_init(&t->node);
    uint32_t n = s->n_args;
    t->name = sk_strdup(TAG, s->name ? s->name : name);
    t->views = sk_calloc(TAG, (n + 1) * sizeof *t->views);
    t->vals = sk_calloc(TAG, (n + 1) * sizeof(struct blob *));
    t->refs = sk_calloc(TAG, (n + 1) * sizeof *t->refs);
    t->held = sk_calloc(TAG, (s->n_contains + 1) * sizeof *t->held);
    t->ret = sk_calloc(TAG, (n_ret + 1) * sizeof *t->ret);
    t->p = (struct sk_task_priv){
        .t = {.engine = &x->e, .id = {t->id}, .fn = s->fn, .actor = s->actor, .args = t->views, .n_returns = s->n_returns, .name = t->name},
        .ops = &TASK_OPS};
    if (!t->name || !t->views || !t->vals || !t->refs || !t->held || !t->ret) {
        rc = SK_ERR(err, SK_ENOMEM, "task %s", name);
        goto out;
    }
    for (uint32_t i = 0; i < n; i++) {
        const struct sk_arg *a = &s->args[i];
        if (a->ref.v) {
            SK_GO(sk_own_hold(x->own, a->ref.v, err));
            t->refs[i] = a->ref.v;
        } else if (a->bytes.n > SK_INLINE_MAX) {
            rc = SK_ERR(err, SK_EINVAL, "task %s: argument %u has %zu bytes; put it first", t->name, i, a->bytes.n);
            goto out;
        } else {
            SK_GO(blob_bytes(x, a->kind, a->bytes, &t->vals[i], err));
        }
        t->p.t.n_args++;
    }
    for (uint32_t i = 0; i < s->n_contains; i++) {
        SK_GO(sk_own_hold(x->own, s->contains[i].v, err));
        t->held[t->n_held++] = s->contains[i].v;
    }
    SK_GO(sk_map_put(&x->tasks, t->id, t));
    x->next_id++;
    *out = t;
    return SK_OK;
out:
    task_free(x, t);
    return rc;
}

static void enqueue(struct inl *x, struct itask *t) {
    t->queued = true;
    sk_list_push_back(&x->queue, &t->node);
    pthread_cond_broadcast(&x->cv);
}

static sk_rc op_submit(struct sk_engine *e, const struct sk_task_spec *s, sk_oid *first, sk_tid *tid, struct sk_err *err) {
    struct inl *x = of(e);
    struct itask *t = NULL;
    sk_rc rc = SK_OK;
    uint32_t n_ret = s->n_returns == SK_STREAMING ? 0 : s->n_returns, made = 0;
    lock(x);
    uint64_t base = x->next_id;
    struct actor *a = s->actor.v ? sk_map_get(&x->actors, s->actor.v) : NULL;
    if (x->closed) {
        rc = SK_ERR(err, SK_ECLOSED, "the engine is shut down");
        goto out;
    }
    if (s->actor.v && !a) {
        rc = SK_ERR(err, SK_EACTOR, "the actor is dead: no handle was left");
        goto out;
    }
    x->next_id += n_ret;
    for (; made < n_ret; made++) SK_GO(obj_new(x, base + made, NULL, NULL, 0, err));
    SK_GO(make_task(x, s, n_ret, base, &t, err));
    if (n_ret && first) first->v = base;
    if (tid) tid->v = t->id;
    if (a) {
        t->actor = a;
        a->n_calls++;
        if (!t->retries_left) t->retries_left = a->max_task_retries;
        if (a->dead) {
            int32_t code = SK_ETASK;
            if (a->why->kind == SK_KIND_ENGINE_ERROR) memcpy(&code, a->why->data, 4);
            sk_err_set(&t->fail, code, __FILE__, __LINE__, "%s: its actor is dead", t->name);
            finish(x, t, blob_ref(a->why), 0);
            goto out;
        }
    }
    enqueue(x, t);
out:
    if (rc != SK_OK)
        while (made) unref(x, base + --made);
    unlock(x);
    return rc;
}

static sk_rc op_stream_next(struct sk_engine *e, sk_tid tid, int64_t deadline_ns, sk_oid *out, struct sk_err *err) {
    struct inl *x = of(e);
    sk_rc rc = SK_OK;
    lock(x);
    for (;;) {
        struct itask *t = sk_map_get(&x->tasks, tid.v);
        if (!t) {
            rc = SK_EDONE;
            break;
        }
        if (t->n_taken < t->yields.n) {
            out->v = t->yields.p[t->n_taken++];
            break;
        }
        if (t->finished && t->stream_error) {
            out->v = t->stream_error;
            t->stream_error = 0;
            rc = SK_ERR(err, t->fail.code ? t->fail.code : SK_ETASK, "%s", t->fail.msg);
            break;
        }
        if (t->finished) {
            task_free(x, t);
            rc = SK_EDONE;
            break;
        }
        rc = step(x, deadline_ns, t->name, err);
        if (rc != SK_OK) break;
    }
    unlock(x);
    return rc;
}

static void op_stream_drop(struct sk_engine *e, sk_tid tid) {
    struct inl *x = of(e);
    lock(x);
    struct itask *t = sk_map_get(&x->tasks, tid.v);
    if (t && t->streaming && !t->stream_dropped) {
        while (t->n_taken < t->yields.n) unref(x, t->yields.p[t->n_taken++]);
        unref(x, t->stream_error);
        t->stream_error = 0;
        if (t->finished) {
            task_free(x, t);
        } else {
            t->stream_dropped = t->cancelled = true;
            if (t->queued) finish_code(x, t, SK_ECANCEL, "nobody reads the stream");
        }
    }
    unlock(x);
}

static sk_rc op_cancel(struct sk_engine *e, sk_tid tid, bool force, struct sk_err *err) {
    (void)force;
    (void)err;
    struct inl *x = of(e);
    lock(x);
    struct itask *t = sk_map_get(&x->tasks, tid.v);
    if (t && !t->finished && !t->is_init) {
        t->cancelled = true;
        char msg[256];
        snprintf(msg, sizeof msg, "task %s was cancelled", t->name);
        if (t->queued) finish_code(x, t, SK_ECANCEL, msg);
    }
    unlock(x);
    return SK_OK;
}

static sk_rc op_actor_create(struct sk_engine *e, const struct sk_actor_spec *spec, sk_aid *out, sk_oid *ready, struct sk_err *err) {
    struct inl *x = of(e);
    struct actor *a = NULL;
    struct itask *t = NULL;
    sk_rc rc = SK_OK;
    struct sk_task_spec s = spec->init;
    s.n_returns = 1;
    s.actor = (sk_aid){0};
    lock(x);
    uint64_t id = x->next_id;
    if (x->closed) {
        rc = SK_ERR(err, SK_ECLOSED, "the engine is shut down");
        goto out;
    }
    x->next_id++;
    SK_GO(obj_new(x, id, NULL, NULL, 0, err));
    a = sk_calloc(TAG, sizeof *a);
    if (!a) {
        rc = SK_ERR(err, SK_ENOMEM, "actor");
        goto out;
    }
    *a = (struct actor){.id = id,
                        .ready = id,
                        .n_handles = 1,
                        .n_calls = 1,
                        .restarts_left = spec->max_restarts,
                        .max_task_retries = spec->max_task_retries};
    SK_GO(make_task(x, &s, 1, id, &t, err));
    SK_GO(sk_map_put(&x->actors, id, a));
    t->actor = a;
    t->is_init = true;
    t->p.t.actor.v = id;
    t->p.t.is_actor_init = true;
    a->init = t;
    enqueue(x, t);
    out->v = ready->v = id;
out:
    if (rc != SK_OK) {
        if (t) task_free(x, t);
        sk_free(a);
        unref(x, id);
    }
    unlock(x);
    return rc;
}

static sk_rc op_actor_kill(struct sk_engine *e, sk_aid aid, bool no_restart, struct sk_err *err) {
    struct inl *x = of(e);
    sk_rc rc = SK_OK;
    lock(x);
    struct actor *a = sk_map_get(&x->actors, aid.v);
    if (!a) {
        rc = SK_ERR(err, SK_ENOENT, "no such actor");
    } else if (!a->dead && !no_restart && a->restarts_left && a->started) {
        a->restarts_left -= a->restarts_left > 0;
        a->started = false;
        if (!sk_vec_push(&x->gone, TAG, a->id)) abort();
        a->n_calls++;
        a->init->p.t.attempt++;
        a->init->finished = false;
        a->init->queued = true;
        sk_list_push_front(&x->queue, &a->init->node);
    } else if (!a->dead) {
        struct blob *why = NULL;
        char msg[200];
        snprintf(msg, sizeof msg, "actor %s is dead: it was killed by skate.kill", a->init ? a->init->name : "?");
        SK_GO(blob_engine_error(x, SK_EACTOR, msg, &why));
        if (a->init && a->init->queued) finish_code(x, a->init, SK_EACTOR, msg);
        a = sk_map_get(&x->actors, aid.v);
        if (a) {
            a->n_calls++; /* the calls that end with it may be the last that hold it */
            actor_die(x, a, why);
            a->n_calls--;
            actor_maybe_end(x, a);
        } else {
            blob_unref(x, why);
        }
    }
out:
    unlock(x);
    return rc;
}

static void op_actor_addref(struct sk_engine *e, sk_aid aid) {
    struct inl *x = of(e);
    lock(x);
    struct actor *a = sk_map_get(&x->actors, aid.v);
    if (a) a->n_handles++;
    unlock(x);
}

static void op_actor_release(struct sk_engine *e, sk_aid aid) {
    struct inl *x = of(e);
    lock(x);
    struct actor *a = sk_map_get(&x->actors, aid.v);
    if (a && a->n_handles) {
        a->n_handles--;
        actor_maybe_end(x, a);
    }
    unlock(x);
}

/* ---- the ops: objects ------------------------------------------------------------------------------------------------------------------ */

static sk_rc op_buf_alloc(struct sk_engine *e, size_t len, struct sk_buf *out, struct sk_err *err) {
    struct inl *x = of(e);
    struct blob *b = NULL;
    lock(x);
    sk_rc rc = blob_new(x, 0, len, &b, err);
    unlock(x);
    if (rc == SK_OK) *out = (struct sk_buf){b->data, len, (uintptr_t)b};
    return rc;
}

static void op_buf_abort(struct sk_engine *e, struct sk_buf *b) {
    struct inl *x = of(e);
    lock(x);
    blob_unref(x, (struct blob *)(uintptr_t)b->token);
    unlock(x);
    *b = (struct sk_buf){0};
}

static sk_rc op_put(struct sk_engine *e, const struct sk_payload *p, sk_oid *out, struct sk_err *err) {
    struct inl *x = of(e);
    struct blob *b = NULL;
    lock(x);
    sk_rc rc = blob_payload(x, p, &b, err);
    if (rc == SK_OK && x->closed) rc = SK_ERR(err, SK_ECLOSED, "the engine is shut down");
    uint64_t id = x->next_id++;
    if (rc == SK_OK) rc = obj_new(x, id, b, p->contains, p->n_contains, err);
    if (rc == SK_OK) out->v = id;
    else blob_unref(x, b);
    unlock(x);
    return rc;
}

static sk_rc op_get(struct sk_engine *e, const sk_oid *ids, size_t n, int64_t deadline_ns, struct sk_view *out, struct sk_err *err) {
    struct inl *x = of(e);
    sk_rc rc = SK_OK;
    lock(x);
    for (size_t i = 0; i < n && rc == SK_OK;) {
        struct obj *o = sk_own_get(x->own, ids[i].v);
        if (!o)
            rc = x->closed ? SK_ERR(err, SK_ECLOSED, "the engine is shut down")
                           : SK_ERR(err, SK_ELOST, "object %llx does not exist (any more)", (unsigned long long)ids[i].v);
        else if (o->val) i++;
        else rc = step(x, deadline_ns, "get", err);
    }
    for (size_t i = 0; rc == SK_OK && i < n; i++) /* an object that was there can be gone only if the caller let go of it meanwhile */
        if (!obj_val(x, ids[i].v)) rc = SK_ERR(err, SK_ELOST, "object %llx was released during the get", (unsigned long long)ids[i].v);
    for (size_t i = 0; rc == SK_OK && i < n; i++) out[i] = view_of(blob_ref(obj_val(x, ids[i].v)), ids[i].v);
    unlock(x);
    return rc;
}

static void op_view_release(struct sk_engine *e, struct sk_view *v) {
    struct inl *x = of(e);
    if (v->token) {
        lock(x);
        blob_unref(x, (struct blob *)(uintptr_t)v->token);
        unlock(x);
    }
    *v = (struct sk_view){0};
}

static sk_rc op_wait(struct sk_engine *e, const sk_oid *ids, size_t n, size_t want, int64_t deadline_ns, bool *ready, struct sk_err *err) {
    struct inl *x = of(e);
    sk_rc rc = SK_OK;
    if (want > n) return SK_ERR(err, SK_EINVAL, "wait for %zu of %zu objects", want, n);
    lock(x);
    for (;;) {
        size_t have = 0;
        for (size_t i = 0; i < n && rc == SK_OK; i++) {
            struct obj *o = sk_own_get(x->own, ids[i].v);
            if (!o)
                rc = x->closed ? SK_ERR(err, SK_ECLOSED, "the engine is shut down")
                               : SK_ERR(err, SK_ELOST, "object %llx does not exist (any more)", (unsigned long long)ids[i].v);
            ready[i] = o && o->val;
            have += ready[i];
        }
        if (rc != SK_OK || have >= want) break;
        rc = step(x, deadline_ns, "wait", err);
        if (rc != SK_OK) break; /* step changes nothing when it fails: ready[] is right */
    }
    unlock(x);
    return rc;
}

static void op_addref(struct sk_engine *e, sk_oid o) {
    struct inl *x = of(e);
    lock(x);
    (void)!sk_own_ref(x->own, o.v, ME, 1, NULL); /* of an object that is gone: the next get says so */
    unlock(x);
}

static void op_release(struct sk_engine *e, sk_oid o) {
    struct inl *x = of(e);
    lock(x);
    unref(x, o.v);
    unlock(x);
}

/* ---- the ops: the rest ------------------------------------------------------------------------------------------------------------------ */

static sk_rc op_drive(struct sk_engine *e, bool (*done)(void *arg), void *arg, int64_t deadline_ns, struct sk_err *err) {
    struct inl *x = of(e);
    sk_rc rc = SK_OK;
    lock(x);
    while (rc == SK_OK && !done(arg)) rc = step(x, deadline_ns, "drive", err);
    unlock(x);
    return rc;
}

static void op_lock(struct sk_engine *e) { lock(of(e)); }

static void op_unlock(struct sk_engine *e) { unlock(of(e)); }

static sk_rc op_preload(struct sk_engine *e, struct sk_bytes note, struct sk_err *err) {
    (void)e;
    (void)note;
    (void)err; /* the caller's modules are here already */
    return SK_OK;
}

static size_t op_workers(struct sk_engine *e, struct sk_worker_info *out, size_t cap) {
    struct inl *x = of(e);
    lock(x);
    if (cap) out[0] = (struct sk_worker_info){getpid(), 0, x->n_running ? 2 : 1, x->n_done};
    unlock(x);
    return 1;
}

static size_t op_status(struct sk_engine *e, char *buf, size_t cap) {
    struct inl *x = of(e);
    lock(x);
    uint32_t queued = 0;
    SK_LIST_EACH (it, &x->queue) queued++;
    int n =
        snprintf(buf, cap, "engine inline\ntasks_done %llu\ntasks_queued %u\ntasks_running %u\nobjects %llu\nstore_bytes %llu\nactors %u\n",
                 (unsigned long long)x->n_done, queued, x->n_running, (unsigned long long)sk_own_n(x->own), (unsigned long long)x->bytes,
                 x->actors.n);
    unlock(x);
    return n < 0 ? 0 : (size_t)n;
}

static void op_close(struct sk_engine *e) {
    struct inl *x = of(e);
    uint64_t key;
    void *val;
    SK_ASSERT(!my_running); /* a task cannot close the engine that runs it */
    lock(x);
    x->closed = true;
    pthread_cond_broadcast(&x->cv);
    while (x->n_running || x->n_waiting) timed_wait(x, INT64_MAX);
    x->n_waiting = 0;
    for (uint32_t i = 0; sk_map_next(&x->actors, &i, &key, &val);) {
        const struct actor *a = val;
        if (a->started && !a->dead && x->runner->actor_gone) x->runner->actor_gone(x->runner->ctx, (sk_aid){key});
    }
    while (x->gone.n) {
        uint64_t id = x->gone.p[--x->gone.n];
        if (x->runner->actor_gone) x->runner->actor_gone(x->runner->ctx, (sk_aid){id});
    }
    for (;;) {
        uint32_t i = 0;
        if (!sk_map_next(&x->tasks, &i, &key, &val)) break;
        task_free(x, val);
    }
    for (uint32_t i = 0; sk_map_next(&x->actors, &i, &key, &val);) {
        struct actor *a = val;
        blob_unref(x, a->why);
        sk_free(a);
    }
    sk_map_deinit(&x->actors);
    sk_map_init(&x->actors, TAG); /* drain looks there */
    drain(x);
    uint32_t cursor = 0;
    while (sk_own_each(x->own, &cursor, &key, &val)) {
        blob_unref(x, ((struct obj *)val)->val);
        sk_free(val);
    }
    sk_own_destroy(x->own);
    for (uint32_t i = 0; sk_map_next(&x->fns, &i, &key, &val);) sk_free(val);
    sk_map_deinit(&x->fns);
    sk_map_deinit(&x->tasks);
    sk_map_deinit(&x->actors);
    sk_vec_free(&x->shapes);
    sk_vec_free(&x->gone);
    for (uint32_t i = 0; i < x->n_custom; i++) sk_free(x->custom[i]);
    pthread_mutex_unlock(&x->mu);
    pthread_mutex_destroy(&x->mu);
    pthread_cond_destroy(&x->cv);
    sk_free(x);
}

static const struct sk_engine_ops OPS = {
    .name = "inline",
    .close = op_close,
    .fn_define = op_fn_define,
    .shape = op_shape,
    .res_index = op_res_index,
    .resources = op_resources,
    .submit = op_submit,
    .stream_next = op_stream_next,
    .stream_drop = op_stream_drop,
    .cancel = op_cancel,
    .actor_create = op_actor_create,
    .actor_kill = op_actor_kill,
    .actor_addref = op_actor_addref,
    .actor_release = op_actor_release,
    .buf_alloc = op_buf_alloc,
    .buf_abort = op_buf_abort,
    .put = op_put,
    .get = op_get,
    .view_release = op_view_release,
    .wait = op_wait,
    .addref = op_addref,
    .release = op_release,
    .drive = op_drive,
    .lock = op_lock,
    .unlock = op_unlock,
    .preload = op_preload,
    .workers = op_workers,
    .status = op_status,
};

static sk_rc open_inline(const struct sk_engine_conf *conf, struct sk_engine **out, struct sk_err *err) {
    if (!conf->runner || conf->n_custom > SK_RES_MAX - SK_RES_CUSTOM)
        return SK_ERR(err, SK_EINVAL, "inline engine: %s", conf->runner ? "too many custom resources" : "no runner");
    struct inl *x = sk_calloc(TAG, sizeof *x);
    if (!x) return SK_ERR(err, SK_ENOMEM, "inline engine");
    sk_rc rc = SK_OK;
    x->e = (struct sk_engine){&OPS, SK_CAP_DRIVER | SK_CAP_ZERO_COPY};
    x->runner = conf->runner;
    x->total = conf->total;
    x->store_bytes = conf->store_bytes;
    x->next_id = 1;
    x->rng = conf->seed;
    sk_list_init(&x->queue);
    sk_map_init(&x->fns, TAG);
    sk_map_init(&x->tasks, TAG);
    sk_map_init(&x->actors, TAG);
    pthread_mutex_init(&x->mu, NULL);
    pthread_condattr_t ca;
    pthread_condattr_init(&ca);
    pthread_condattr_setclock(&ca, CLOCK_MONOTONIC);
    pthread_cond_init(&x->cv, &ca);
    pthread_condattr_destroy(&ca);
    for (; x->n_custom < conf->n_custom; x->n_custom++)
        if (!(x->custom[x->n_custom] = sk_strdup(TAG, conf->custom_names[x->n_custom]))) break;
    struct sk_res one = {.amount = {[SK_RES_CPU] = SK_RES_UNIT}};
    if (x->n_custom < conf->n_custom || !sk_vec_push(&x->shapes, TAG, one)) rc = SK_ERR(err, SK_ENOMEM, "inline engine");
    if (rc == SK_OK) rc = sk_own_create(&x->own, err);
    if (rc == SK_OK) {
        *out = &x->e;
        return SK_OK;
    }
    for (uint32_t i = 0; i < x->n_custom; i++) sk_free(x->custom[i]);
    sk_vec_free(&x->shapes);
    sk_free(x);
    return rc;
}

extern const struct sk_engine_class sk_engine_by_inline;
const struct sk_engine_class sk_engine_by_inline = {"inline", open_inline};
