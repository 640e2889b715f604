/* loop.c - the driver's loop: messages of the workers in, tasks out. Everything here runs with the engine's lock held.
 *
 * It holds no policy: who runs what is place.c's, who lives is own.c's; this file moves bytes between them, the rings and the store. The
 * values of finished tasks are recorded, whoever waits for them is told, and what became ready is handed out. Cost of a no-op task: about
 * 1 us here (submit, place, ring, done, free). */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/mem.h"
#include "base/vec.h"
#include "engine/local/local_int.h"

/* ---- objects ---------------------------------------------------------------------------------------------------------------- */

sk_rc sk_obj_new(struct sk_local *l, uint64_t id, uint32_t proc, struct sk_obj **out, struct sk_err *err) {
    struct sk_obj *o = sk_calloc(SK_TAG_ENGINE, sizeof *o);
    if (!o) return SK_ERR(err, SK_ENOMEM, "no memory for an object entry");
    o->id = id;
    sk_rc rc = sk_own_add(l->own, id, proc, o, err);
    if (rc != SK_OK) {
        sk_free(o);
        return rc;
    }
    *out = o;
    return SK_OK;
}

void sk_inl_drop(struct sk_inl *i) {
    if (i && --i->refs == 0) sk_free(i);
}

static void obj_free(struct sk_local *l, struct sk_obj *o) {
    if (o->state == SK_O_ACTOR) {
        sk_actor_unreferenced(l, o->u.actor);
    } else if (o->state == SK_O_READY) {
        if (o->where == SK_V_INLINE) sk_inl_drop(o->u.inl);
        if (o->where == SK_V_STORE) sk_store_unref(l->store, o->u.off);
    }
    SK_ASSERT(!o->deps || o->state == SK_O_PENDING);
    for (struct sk_dep *d = o->deps; d;) { /* of waiters that went away: who still waits for it holds it */
        struct sk_dep *next = d->next;
        SK_ASSERT(!d->task && !d->req);
        sk_free(d);
        d = next;
    }
    if (o->known) sk_lineage_gone(l->lin, o->id, (enum sk_lost_why)o->why);
    sk_free(o);
}

void sk_loop_drain(struct sk_local *l) {
    uint64_t id;
    void *data;
    while (sk_own_next_freed(l->own, &id, &data)) obj_free(l, data);
    sk_recover_drain(l);
}

static void req_reply(struct sk_local *l, struct sk_req *q, sk_rc rc);
static void task_free(struct sk_local *l, struct sk_ltask *t);

/* The list stays reachable for dep_forget while it is worked off: telling one may end others, or find that the object is lost: then the rest
 * waits on. */
static void dep_done(struct sk_local *l, struct sk_dep **list, const struct sk_obj *o) {
    for (struct sk_dep *d; (d = *list) != NULL && (!o || o->state == SK_O_READY);) {
        *list = d->next;
        if (d->task) {
            if (d->task->state == SK_T_WAITING && --d->task->n_unready == 0) sk_task_ready(l, d->task);
        } else if (d->req) {
            struct sk_req *q = d->req;
            q->n_ready++;
            if (q->n_ready >= q->want) req_reply(l, q, SK_OK);
        }
        sk_free(d);
    }
}

/* Waiters that went away (cancelled tasks, answered or dead requests) leave their entries with task = req = NULL. */
static void dep_forget(struct sk_local *l, uint64_t oid, struct sk_ltask *t, struct sk_req *q) {
    struct sk_obj *o = sk_obj_get(l, oid);
    if (!o) return;
    for (struct sk_dep *d = o->deps; d; d = d->next) {
        if (t && d->task == t) d->task = NULL;
        if (q && d->req == q) d->req = NULL;
    }
}

sk_rc sk_dep_add(struct sk_obj *o, struct sk_ltask *t, struct sk_req *q) {
    struct sk_dep *d = sk_alloc(SK_TAG_ENGINE, sizeof *d);
    if (!d) return SK_ENOMEM;
    *d = (struct sk_dep){o->deps, t, q};
    o->deps = d;
    return SK_OK;
}

void sk_obj_ready(struct sk_local *l, struct sk_obj *o) {
    o->state = SK_O_READY;
    o->maker = NULL;
    l->progress++;
    if (!o->deps) return;
    uint64_t id = o->id;
    if (SK_UNLIKELY(o->gone)) {
        sk_loop_lost(l, id);
        return;
    }
    bool held = sk_own_hold(l->own, id, NULL) == SK_OK; /* the last waiter may be its last holder */
    dep_done(l, &o->deps, o);
    if (held) sk_own_unhold(l->own, id);
}

struct sk_inl *sk_inl_new(const void *p, size_t n) {
    struct sk_inl *i = sk_alloc(SK_TAG_ENGINE, sizeof *i + n);
    if (!i) return NULL;
    i->refs = 1;
    i->len = (uint32_t)n;
    if (n) memcpy(i->bytes, p, n);
    return i;
}

/* Gives object `id` the value in a message of process `proc`. A value that nobody wants any more is thrown away. */
static void value_set(struct sk_local *l, uint64_t id, uint32_t proc, const struct sk_val *v, const void *bytes, const uint64_t *contains,
                      uint32_t n_contains) {
    struct sk_err err;
    struct sk_obj *o = id ? sk_obj_get(l, id) : NULL;
    sk_rc sealed = v->where == SK_V_STORE ? sk_store_commit(l->store, proc, v->off, v->len, &err) : SK_OK;
    if (sealed != SK_OK) {
        /* A worker that reports memory it does not hold is mad: its value is lost, loudly. */
        if (sealed == SK_ENOMEM) SK_IGNORE(sk_store_unlease(l->store, proc, v->off, v->len, NULL)); /* else it goes back with the worker */
        if (o && o->state == SK_O_PENDING) {
            uint8_t buf[600];
            int32_t rc = sealed == SK_ENOMEM ? SK_ENOMEM : SK_ECORRUPT;
            memcpy(buf, &rc, 4);
            int n = snprintf((char *)buf + 4, sizeof buf - 4, "%s: %.400s",
                             sealed == SK_ENOMEM ? "no memory to record a value" : "a worker sealed memory that it did not hold", err.msg);
            struct sk_val ev = {.kind = SK_KIND_ENGINE_ERROR, .where = SK_V_INLINE, .len = 4 + (uint64_t)n + 1};
            value_set(l, id, proc, &ev, buf, NULL, 0);
        }
        return;
    }
    if (!o || o->state != SK_O_PENDING) {
        if (v->where == SK_V_STORE) sk_store_unref(l->store, v->off);
        return;
    }
    o->kind = v->kind;
    o->len = v->len;
    o->where = (uint8_t)v->where;
    if (v->where == SK_V_STORE) {
        o->u.off = v->off;
    } else {
        o->where = SK_V_INLINE;
        o->u.inl = sk_inl_new(bytes, (size_t)v->len);
        if (!o->u.inl) { /* no memory for 8 KiB: say so with what needs none */
            o->kind = SK_KIND_ENGINE_ERROR;
            o->len = 0;
        }
    }
    if (n_contains && sk_own_contains(l->own, id, contains, n_contains, &err) != SK_OK) {
        /* References in a value that do not exist: getting them later says "lost", the value itself is whole. */
    }
    if (v->where == SK_V_STORE && SK_FAULT("store.lose")) o->gone = true;
    sk_obj_ready(l, o);
}

struct sk_inl *sk_engine_error(sk_rc rc, const char *msg) {
    size_t n = strlen(msg) + 1;
    struct sk_inl *i = sk_alloc(SK_TAG_ENGINE, sizeof *i + 4 + n);
    if (!i) return NULL;
    int32_t code = rc;
    i->refs = 1;
    i->len = (uint32_t)(4 + n);
    memcpy(i->bytes, &code, 4);
    memcpy(i->bytes + 4, msg, n);
    return i;
}

/* ---- tasks -------------------------------------------------------------------------------------------------------------------- */

static uint32_t n_return_objects(const struct sk_ltask *t) { return t->is_stream ? 0 : t->spec.n_returns; }

static const char *task_name(struct sk_local *l, const struct sk_ltask *t, char *buf, size_t cap) {
    if (t->spec.name.n) {
        snprintf(buf, cap, "%.*s", (int)SK_MIN(t->spec.name.n, cap - 1), (const char *)t->spec.name.p);
        return buf;
    }
    struct sk_fn *f = sk_map_get(&l->fns, t->spec.fid);
    return f ? f->name : "?";
}

void sk_task_forget_deps(struct sk_local *l, struct sk_ltask *t) {
    struct sk_rd r = sk_rd_init(t->spec.args, t->spec.args_len);
    for (uint32_t i = 0; i < t->spec.n_args; i++) {
        struct sk_val v;
        sk_rd_val(&r, &v);
        if (v.oid) dep_forget(l, v.oid, t, NULL);
    }
    t->n_unready = 0;
}

void sk_task_let_args_go(struct sk_local *l, struct sk_ltask *t) {
    if (!t->holds_args) return;
    t->holds_args = false;
    struct sk_rd r = sk_rd_init(t->spec.args, t->spec.args_len);
    for (uint32_t i = 0; i < t->spec.n_args; i++) {
        struct sk_val v;
        sk_rd_val(&r, &v);
        if (v.oid) sk_own_unhold(l->own, v.oid);
    }
    for (uint32_t i = 0; i < t->spec.n_contains; i++) sk_own_unhold(l->own, t->spec.contains[i]);
}

/* The task is over: arguments are let go (a constructor that may run again keeps them), the entry leaves the table. */
static void task_end(struct sk_local *l, struct sk_ltask *t) {
    if (t->n_unready) sk_task_forget_deps(l, t);
    if (t->bulky || t->kept || t->remake) sk_recover_ended(l, t);
    if (!t->is_init || t->actor->state == SK_A_DEAD || t->actor->restarts_left == 0) sk_task_let_args_go(l, t);
    t->state = SK_T_FINISHED;
    sk_list_del(&t->on);
    l->progress++;
    if (t->actor) {
        if (t->is_init) return; /* kept for restarts; freed with the actor */
        t->actor->n_tasks--;
    }
    t->ended = true;
    if (t->is_stream && !t->sink && !t->dropped) return; /* its yields are still to be read; stream_drop frees it */
    task_free(l, t);
}

void sk_loop_free_task(struct sk_local *l, struct sk_ltask *t) { task_free(l, t); }

static void task_free(struct sk_local *l, struct sk_ltask *t) {
    if (sk_map_del(&l->tasks, t->id) && t->is_stream && !t->sink && t->owner != SK_PROC_DRIVER) l->n_worker_streams--;
    if (t->kept) return; /* lineage still has it */
    sk_recover_free(t);
    sk_vec_free(&t->yields);
    sk_vec_free(&t->note_hash);
    sk_free(t);
}

void sk_loop_kept_free(struct sk_local *l, struct sk_ltask *t) {
    t->kept = false;
    if (t->ended && (!t->is_stream || t->sink || t->dropped)) task_free(l, t); /* else whoever is about it frees it */
}

static void emit(struct sk_local *l, struct sk_ltask *t, struct sk_event *ev) {
    (void)l;
    if (!t->sink || t->remake) return;
    ev->task = (sk_tid){t->id};
    ev->tag = t->spec.sink_tag;
    ev->attempt = t->attempt;
    t->sink->on_event(t->sink, ev);
}

/* New object with this value and a reference of the driver: errors of streams. 0 when there is no memory. */
static uint64_t error_object(struct sk_local *l, uint32_t kind, const void *bytes, size_t n) {
    struct sk_obj *o = NULL;
    uint64_t id = ++l->next_id;
    if (sk_obj_new(l, id, SK_PROC_DRIVER, &o, NULL) != SK_OK) return 0;
    o->kind = kind;
    o->where = SK_V_INLINE;
    o->u.inl = sk_inl_new(bytes, n);
    o->len = o->u.inl ? n : 0;
    o->state = SK_O_READY;
    return id;
}

static void stream_wake(struct sk_local *l, struct sk_ltask *t) {
    l->progress++;
    dep_done(l, &t->stream_waiters, NULL);
}

/* Ends a task with an error value: of its user code, of an argument, or of the engine. */
void sk_loop_finish_error(struct sk_local *l, struct sk_ltask *t, uint32_t kind, const void *bytes, size_t n) {
    struct sk_inl *shared = sk_inl_new(bytes, n);
    t->state = SK_T_FINISHED; /* a sink that cancels it now is late */
    for (uint32_t i = 0; i < n_return_objects(t); i++) {
        struct sk_obj *o = sk_obj_get(l, t->first + i);
        if (!o || o->state != SK_O_PENDING) continue;
        o->kind = kind;
        o->len = shared ? n : 0;
        o->where = SK_V_INLINE;
        o->u.inl = shared;
        if (shared) shared->refs++;
        sk_obj_ready(l, o);
    }
    if (t->is_stream && t->remake) sk_recover_fail_rest(l, t, kind, shared);
    if (t->is_stream && !t->sink && !t->dropped && !t->remake) {
        t->end_error = error_object(l, kind, bytes, n);
        if (!t->end_error) t->end_rc = SK_ENOMEM;
        t->stream_done = 1;
        stream_wake(l, t);
    }
    if (t->sink && !t->remake) {
        struct sk_err e = {.code = SK_ETASK};
        if (kind == SK_KIND_ENGINE_ERROR && n > 4) {
            int32_t rc;
            memcpy(&rc, bytes, 4);
            e.code = rc;
            snprintf(e.msg, sizeof e.msg, "%.*s", (int)SK_MIN(n - 4, sizeof e.msg - 1), (const char *)bytes + 4);
        } else {
            char name[200];
            snprintf(e.msg, sizeof e.msg, "task %s raised", task_name(l, t, name, sizeof name));
        }
        struct sk_event ev = {.kind = SK_EV_FAILED, .oid = {error_object(l, kind, bytes, n)}, .err = &e};
        emit(l, t, &ev);
    }
    if (t->is_init && t->actor->state != SK_A_DEAD) { /* calls of this actor end with the same error */
        struct sk_lactor *a = t->actor;
        a->dead_kind = kind;
        a->dead_value = shared;
        task_end(l, t);
        sk_actor_dead(l, a, "its constructor failed");
        return;
    }
    sk_inl_drop(shared);
    task_end(l, t);
}

void sk_loop_fail(struct sk_local *l, struct sk_ltask *t, sk_rc rc, const char *fmt, ...) {
    char buf[1400];
    int32_t code = rc;
    memcpy(buf, &code, 4);
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(buf + 4, sizeof buf - 4, fmt, ap);
    va_end(ap);
    sk_loop_finish_error(l, t, SK_KIND_ENGINE_ERROR, buf, 4 + SK_MIN((size_t)n, sizeof buf - 5) + 1);
}

/* All arguments exist: an error among them is the task's result; otherwise it may be placed. */
void sk_task_ready(struct sk_local *l, struct sk_ltask *t) {
    struct sk_rd r = sk_rd_init(t->spec.args, t->spec.args_len);
    for (uint32_t i = 0; i < t->spec.n_args; i++) {
        struct sk_val v;
        sk_rd_val(&r, &v);
        if (!v.oid) continue;
        struct sk_obj *o = sk_obj_get(l, v.oid);
        if (SK_UNLIKELY(o && (o->gone || o->state == SK_O_PENDING))) {
            sk_rc rc = sk_recover_args(l, t, false);
            if (rc == SK_EAGAIN) return;
            if (rc != SK_OK) {
                struct sk_lactor *a = t->is_method ? t->actor : NULL;
                sk_loop_fail(l, t, rc, "no memory to wait for the arguments of a task");
                if (a) sk_actor_advance(l, a);
                return;
            }
        }
        if (o && o->state == SK_O_READY && SK_KIND_IS_ERROR(o->kind) && o->where == SK_V_INLINE) {
            struct sk_inl *e = o->u.inl;
            if (e) e->refs++;
            struct sk_lactor *a = t->is_method ? t->actor : NULL;
            sk_loop_finish_error(l, t, o->kind, e ? (void *)e->bytes : (void *)"", e ? e->len : 0);
            sk_inl_drop(e);
            if (a) sk_actor_advance(l, a);
            return;
        }
    }
    t->n_unready = 0;
    t->seen_lost = (uint32_t)l->n_lost;
    t->state = SK_T_READY;
    if (t->actor) sk_actor_advance(l, t->actor);
    else sk_place_push(&l->place, &t->place);
}

/* Holds the arguments and counts those that do not exist yet. */
sk_rc sk_task_take_args(struct sk_local *l, struct sk_ltask *t, struct sk_err *err) {
    struct sk_rd r = sk_rd_init(t->spec.args, t->spec.args_len);
    uint32_t i = 0, c = 0;
    sk_rc rc = SK_OK;
    for (; i < t->spec.n_args; i++) {
        struct sk_val v;
        sk_rd_val(&r, &v);
        if (!v.oid) continue;
        rc = sk_own_hold(l->own, v.oid, err);
        if (rc != SK_OK) goto undo;
    }
    for (; c < t->spec.n_contains; c++) {
        rc = sk_own_hold(l->own, t->spec.contains[c], err);
        if (rc != SK_OK) goto undo;
    }
    r = sk_rd_init(t->spec.args, t->spec.args_len);
    for (uint32_t k = 0; k < t->spec.n_args; k++) {
        struct sk_val v;
        sk_rd_val(&r, &v);
        if (!v.oid) continue;
        struct sk_obj *o = sk_obj_get(l, v.oid);
        if (o->state != SK_O_PENDING) continue;
        if (sk_dep_add(o, t, NULL) != SK_OK) {
            rc = SK_ERR(err, SK_ENOMEM, "no memory for the arguments of a task");
            sk_task_forget_deps(l, t);
            goto undo;
        }
        t->n_unready++;
    }
    t->holds_args = true;
    return SK_OK;
undo:
    r = sk_rd_init(t->spec.args, t->spec.args_len);
    for (uint32_t k = 0; k < i; k++) {
        struct sk_val v;
        sk_rd_val(&r, &v);
        if (v.oid) sk_own_unhold(l->own, v.oid);
    }
    for (uint32_t k = 0; k < c; k++) sk_own_unhold(l->own, t->spec.contains[k]);
    return rc;
}

static sk_rc task_make(struct sk_local *l, uint32_t proc, uint32_t level, uint64_t base, const uint8_t *spec, size_t len,
                       struct sk_sink *sink, struct sk_ltask **out, struct sk_err *err) {
    struct sk_ltask *t = sk_calloc(SK_TAG_ENGINE, sizeof *t + len);
    if (!t) return SK_ERR(err, SK_ENOMEM, "no memory for a task");
    memcpy(t->bytes, spec, len);
    t->spec_len = len;
    struct sk_rd r = sk_rd_init(t->bytes, len);
    if (!sk_spec_read(&r, &t->spec)) {
        sk_free(t);
        return SK_ERR(err, SK_ECORRUPT, "a task specification is damaged");
    }
    if (t->spec.shape >= l->place.n_shapes) t->spec.shape = 0;
    if (sink) t->spec.stream_window = 0; /* its yields are taken as they come */
    t->id = base;
    t->first = base + 1;
    t->sink = sink;
    t->owner = proc;
    t->retries_left = t->spec.max_retries;
    t->is_stream = t->spec.n_returns == SK_STREAMING;
    t->place.shape = t->spec.shape;
    t->place.level = (uint8_t)SK_MIN(level, SK_PLACE_LEVELS - 1);
    if (t->is_stream && !sink && proc != SK_PROC_DRIVER) l->n_worker_streams++;
    sk_list_init(&t->on);
    sk_list_init(&t->place.link);
    sk_rc rc = sk_map_put(&l->tasks, t->id, t);
    if (rc != SK_OK) {
        if (t->is_stream && !sink && proc != SK_PROC_DRIVER) l->n_worker_streams--;
        sk_free(t);
        return SK_ERR(err, SK_ENOMEM, "no memory for the task table");
    }
    uint32_t n = n_return_objects(t), i = 0;
    for (; i < n; i++) {
        struct sk_obj *o = NULL;
        rc = sk_obj_new(l, t->first + i, proc, &o, err);
        if (rc != SK_OK) break;
        o->maker = t;
        o->why = (uint8_t)sk_recover_why(t);
    }
    if (rc == SK_OK) rc = sk_task_take_args(l, t, err);
    if (rc != SK_OK) {
        while (i-- > 0) SK_IGNORE(sk_own_unref(l->own, t->first + i, proc, 1, NULL));
        sk_loop_drain(l);
        task_free(l, t);
        return rc;
    }
    *out = t;
    return SK_OK;
}

sk_rc sk_loop_submit(struct sk_local *l, uint32_t proc, uint32_t level, uint64_t base, const uint8_t *spec, size_t len,
                     struct sk_sink *sink, struct sk_err *err) {
    struct sk_ltask *t;
    SK_TRY(task_make(l, proc, level, base, spec, len, sink, &t, err));
    if (t->spec.actor) {
        struct sk_obj *ao = sk_obj_get(l, t->spec.actor);
        struct sk_lactor *a = ao && ao->state == SK_O_ACTOR ? ao->u.actor : NULL;
        t->is_method = true;
        if (a && a->state == SK_A_DEAD && a->dead_kind) {
            sk_loop_finish_error(l, t, a->dead_kind, a->dead_value ? (void *)a->dead_value->bytes : (void *)"",
                                 a->dead_value ? a->dead_value->len : 0);
            return SK_OK;
        }
        if (a && a->stopping) { /* killed; its worker is about to know */
            sk_loop_fail(l, t, SK_EACTOR, "the actor is dead: kill() was called on it");
            return SK_OK;
        }
        if (!a || a->state == SK_A_DEAD) {
            sk_loop_fail(l, t, SK_EACTOR, "the actor is dead%s%s", a && a->why[0] ? ": " : "", a ? a->why : " (no such actor)");
            return SK_OK;
        }
        t->actor = a;
        a->n_tasks++;
        if (t->retries_left == 0) t->retries_left = a->max_task_retries;
        sk_list_push_back(&a->queue, &t->on);
        if (t->n_unready == 0) sk_task_ready(l, t);
        return SK_OK;
    }
    if (!sk_place_fits_ever(&l->place, t->spec.shape)) {
        sk_loop_fail(l, t, SK_EINFEASIBLE, "the task asks for more than this machine was given");
        return SK_OK;
    }
    if (t->n_unready == 0) sk_task_ready(l, t);
    return SK_OK;
}

sk_rc sk_loop_actor(struct sk_local *l, uint32_t proc, uint64_t base, const uint8_t *spec, size_t len, int32_t max_restarts,
                    int32_t max_task_retries, struct sk_err *err) {
    struct sk_ltask *t;
    struct sk_obj *o = NULL;
    uint64_t aid = base + 2; /* base: the task, base + 1: the ready value, base + 2: the actor */
    struct sk_lactor *a = sk_calloc(SK_TAG_ENGINE, sizeof *a);
    if (!a) return SK_ERR(err, SK_ENOMEM, "no memory for an actor");
    sk_rc rc = sk_obj_new(l, aid, proc, &o, err);
    if (rc != SK_OK) {
        sk_free(a);
        return rc;
    }
    rc = task_make(l, proc, 0, base, spec, len, NULL, &t, err);
    if (rc != SK_OK) {
        o->state = SK_O_PENDING;
        SK_IGNORE(sk_own_unref(l->own, aid, proc, 1, NULL));
        sk_loop_drain(l);
        sk_free(a);
        return rc;
    }
    o->state = SK_O_ACTOR;
    o->u.actor = a;
    a->id = aid;
    a->order = sk_place_order(&l->place);
    a->init = t;
    a->restarts_left = max_restarts;
    l->n_homeless++;
    a->max_task_retries = max_task_retries;
    a->shape = t->spec.shape;
    sk_list_init(&a->queue);
    sk_list_init(&a->link);
    sk_list_push_back(&l->actors, &a->link);
    t->is_init = true;
    t->actor = a;
    sk_obj_get(l, base + 1)->why = o->why = SK_LOST_ACTOR;
    SK_IGNORE(sk_own_contains(l->own, base + 1, &aid, 1, NULL)); /* a handle inside a value travels as its ready object */
    if (!sk_place_fits_ever(&l->place, a->shape)) {
        sk_loop_fail(l, t, SK_EINFEASIBLE, "the actor asks for more than this machine was given");
        return SK_OK;
    }
    if (t->n_unready == 0) sk_task_ready(l, t);
    return SK_OK;
}

sk_rc sk_loop_define(struct sk_local *l, uint64_t fid, struct sk_bytes name, struct sk_bytes def, struct sk_err *err) {
    if (!fid) return SK_ERR(err, SK_EINVAL, "function id 0");
    if (sk_map_get(&l->fns, fid)) return SK_OK;
    struct sk_fn *f = sk_calloc(SK_TAG_ENGINE, sizeof *f);
    if (!f) goto oom;
    f->fid = fid;
    f->name = sk_alloc(SK_TAG_ENGINE, name.n + 1);
    f->def = sk_alloc(SK_TAG_ENGINE, def.n ? def.n : 1);
    if (!f->name || !f->def) goto oom;
    memcpy(f->name, name.p, name.n);
    f->name[name.n] = 0;
    if (def.n) memcpy(f->def, def.p, def.n);
    f->len = def.n;
    if (sk_map_put(&l->fns, fid, f) != SK_OK) goto oom;
    return SK_OK;
oom:
    if (f) {
        sk_free(f->name);
        sk_free(f->def);
        sk_free(f);
    }
    return SK_ERR(err, SK_ENOMEM, "no memory for a function definition of %zu bytes", def.n);
}

/* ---- sending a task ------------------------------------------------------------------------------------------------------------- */

static sk_rc send_fn(struct sk_local *l, struct sk_lworker *w, uint64_t fid) {
    if (sk_map_get(&w->known, fid)) return SK_OK;
    struct sk_fn *f = sk_map_get(&l->fns, fid);
    if (!f) return SK_OK; /* the worker says "unknown function" */
    struct sk_wr m = sk_wr_init(NULL, 0);
    for (int pass = 0; pass < 2; pass++) {
        sk_wr_u32(&m, SK_M_FUNC);
        sk_wr_u64(&m, f->fid);
        sk_wr_str(&m, f->name);
        sk_wr_bytes(&m, f->def, f->len);
        if (pass == 0) {
            uint8_t *p = sk_alloc(SK_TAG_ENGINE, m.n);
            if (!p) return SK_ENOMEM;
            m = sk_wr_init(p, m.n);
        }
    }
    sk_rc rc = sk_pool_send(l, w, m.p, m.n);
    sk_free(m.p);
    if (rc == SK_OK) SK_IGNORE(sk_map_put(&w->known, fid, f)); /* not noted: sent again, and the worker ignores it */
    return rc;
}

static void write_task(struct sk_local *l, struct sk_ltask *t, uint32_t claim, struct sk_wr *m) {
    uint32_t n_wanted = t->aside ? t->aside->wanted.n : 0;
    struct sk_msg_task h = {.type = SK_M_TASK,
                            .claim = claim,
                            .tid = t->id,
                            .fid = t->spec.fid,
                            .aid = t->actor ? t->actor->id : 0,
                            .first = t->first,
                            .attempt = t->attempt,
                            .n_args = t->spec.n_args,
                            .n_returns = t->spec.n_returns,
                            .skip = n_wanted ? t->aside->wanted.p[0] : t->n_yielded,
                            .window = t->remake ? 0 : t->spec.stream_window,
                            .flags = (t->is_init ? SK_TF_INIT : 0u) | (t->remake ? SK_TF_REMAKE : 0u),
                            .credit = t->n_released,
                            .from = t->n_yielded,
                            .n_wanted = n_wanted};
    sk_wr_raw(m, &h, sizeof h);
    sk_wr_bytes(m, t->spec.name.p, t->spec.name.n);
    struct sk_rd r = sk_rd_init(t->spec.args, t->spec.args_len);
    for (uint32_t i = 0; i < t->spec.n_args; i++) {
        struct sk_val v;
        const void *b = sk_rd_val(&r, &v);
        if (v.oid) {
            struct sk_obj *o = sk_obj_get(l, v.oid);
            if (o->state == SK_O_ACTOR) {
                v = (struct sk_val){.kind = 0, .where = SK_V_NONE, .oid = v.oid};
            } else {
                v = (struct sk_val){.kind = o->kind, .where = o->where, .oid = v.oid, .len = o->len};
                if (o->where == SK_V_STORE) v.off = o->u.off;
                if (o->where == SK_V_INLINE) {
                    b = o->u.inl ? o->u.inl->bytes : NULL;
                    if (!b) v.len = 0;
                }
            }
        }
        sk_wr_val(m, &v, b);
    }
    if (n_wanted) sk_wr_raw(m, t->aside->wanted.p, n_wanted * sizeof(uint32_t));
}

/* Sends a task whose arguments exist. On success it is in w->sent. */
sk_rc sk_loop_send_task(struct sk_local *l, struct sk_ltask *t, struct sk_lworker *w) {
    if (SK_UNLIKELY(t->seen_lost != (uint32_t)l->n_lost)) SK_TRY(sk_recover_args(l, t, true));
    if (t->is_stream && (t->kept || t->aside)) SK_TRY(sk_recover_wanted(l, t));
    SK_TRY(send_fn(l, w, t->spec.fid));
    uint32_t claim = w->next_claim % SK_CLAIMS;
    while (w->claimed[claim / 64] >> claim % 64 & 1) claim = (claim + 1) % SK_CLAIMS; /* at most half of them are taken */
    struct sk_wr m = sk_wr_init(NULL, 0);
    write_task(l, t, claim, &m);
    atomic_store_explicit(&w->sh->claims[claim], t->id << 2 | SK_CLAIM_QUEUED, memory_order_release);
    if (m.n <= sk_ring_max_msg(&w->down)) {
        void *p = w->out.n ? NULL : sk_ring_reserve(&w->down, m.n);
        if (!p) return SK_EAGAIN;
        m = sk_wr_init(p, m.n);
        write_task(l, t, claim, &m);
        sk_ring_commit(&w->down, m.n);
        sk_bell_ring(&w->sh->bell);
    } else {
        uint8_t *p = sk_alloc(SK_TAG_ENGINE, m.n);
        if (!p) return SK_ENOMEM;
        m = sk_wr_init(p, m.n);
        write_task(l, t, claim, &m);
        sk_rc rc = sk_pool_send(l, w, p, m.n);
        sk_free(p);
        if (rc != SK_OK) return rc;
    }
    w->next_claim = claim + 1;
    w->claimed[claim / 64] |= UINT64_C(1) << claim % 64;
    t->claim = claim;
    t->worker = w;
    t->state = SK_T_SENT;
    sk_list_del(&t->on);
    sk_list_push_back(&w->sent, &t->on);
    return SK_OK;
}

static void task_left_worker(struct sk_local *l, struct sk_ltask *t, struct sk_lworker *w, int64_t ran_ns) {
    sk_list_del(&t->on);
    t->worker = NULL;
    w->claimed[t->claim / 64] &= ~(UINT64_C(1) << t->claim % 64);
    if (w->place.state == SK_W_LEASED) sk_place_done(&l->place, &w->place, ran_ns, ran_ns >= 0 ? sk_now_ns() : 0);
    if (w->actor && w->actor->n_sent) w->actor->n_sent--;
    w->idle_since_ns = 0;
    if (SK_UNLIKELY(t->aside != NULL)) sk_recover_left(l, t, w);
}

bool sk_loop_unsend(struct sk_local *l, struct sk_lworker *w, struct sk_ltask *t) {
    uint64_t want = t->id << 2 | SK_CLAIM_QUEUED;
    if (!atomic_compare_exchange_strong(&w->sh->claims[t->claim], &want, t->id << 2 | SK_CLAIM_TAKEN)) return false;
    task_left_worker(l, t, w, -1);
    t->state = SK_T_READY;
    return true;
}

/* A started one, at its next yield. */
static void ask_to_stop(struct sk_lworker *w, struct sk_ltask *t) {
    uint64_t want = t->id << 2 | SK_CLAIM_STARTED;
    (void)atomic_compare_exchange_strong(&w->sh->claims[t->claim], &want, t->id << 2 | SK_CLAIM_CANCELLED); /* not: asked already */
    sk_bell_ring(&w->sh->bell);                                                                             /* it may wait for credit */
}

static bool take_back(struct sk_local *l, struct sk_lworker *w, struct sk_ltask *t) {
    if (!sk_loop_unsend(l, w, t)) return false;
    sk_place_push(&l->place, &t->place);
    return true;
}

void sk_loop_fail_waiting(struct sk_local *l, sk_rc rc, const char *why) {
    for (uint32_t i = 0; i < l->place.n_shapes; i++)
        while (l->place.shapes[i]->levels) {
            struct sk_list *first = l->place.shapes[i]->ready[__builtin_ctz(l->place.shapes[i]->levels)].next;
            struct sk_ltask *t = sk_container_of(sk_container_of(first, struct sk_place_task, link), struct sk_ltask, place);
            char name[200];
            sk_place_unpush(&l->place, &t->place);
            sk_loop_fail(l, t, rc, "task %s cannot be run: %s", task_name(l, t, name, sizeof name), why);
        }
    SK_LIST_EACH_SAFE (it, tmp, &l->actors) {
        struct sk_lactor *a = sk_container_of(it, struct sk_lactor, link);
        if (!a->worker && a->state == SK_A_STARTING && a->init->state == SK_T_READY) sk_actor_dead(l, a, why);
    }
    sk_loop_drain(l);
}

/* No process more can be had, and all that there are wait for tasks: nothing would ever move again. */
static bool stuck(const struct sk_local *l) {
    if (l->n_live < l->max_workers || l->place.n_idle || l->place.n_starting) return false;
    for (uint32_t i = 0; i < l->n_used; i++) {
        const struct sk_lworker *w = l->workers[i];
        if (w && !w->place.blocked && (w->place.state != SK_W_ACTOR || !sk_list_empty(&w->sent))) return false;
    }
    return true;
}

void sk_loop_dispatch(struct sk_local *l) {
    if (l->lost.n) sk_recover_run(l);
    int64_t now = sk_now_ns();
    if (l->n_homeless) {
        sk_place_want(&l->place, 0, 0);
        SK_LIST_EACH_SAFE (it, tmp, &l->actors) { /* oldest first */
            struct sk_lactor *a = sk_container_of(it, struct sk_lactor, link);
            if (a->worker || a->state != SK_A_STARTING) continue;
            sk_actor_advance(l, a);
            if (!a->worker && a->init->state == SK_T_READY && !l->place.want_order && !sk_place_fits_now(&l->place, a->shape))
                sk_place_want(&l->place, a->order, a->shape);
        }
    } else if (l->place.want_order) {
        sk_place_want(&l->place, 0, 0);
    }
    for (;;) {
        struct sk_place_pick pick;
        sk_place_pick(&l->place, now, &pick);
        if (pick.what == SK_PLACE_NOTHING) return;
        if (pick.what == SK_PLACE_SPAWN) {
            if (sk_pool_spawn(l)) continue;
            if (l->place.n_ready && stuck(l))
                sk_loop_fail_waiting(
                    l, SK_ESTALL,
                    "all worker processes wait for the results of tasks that need one; nest less deeply, or allow more workers");
            return;
        }
        struct sk_lworker *w = sk_container_of(pick.worker, struct sk_lworker, place);
        if (pick.what == SK_PLACE_RUN) {
            struct sk_ltask *t = sk_container_of(pick.task, struct sk_ltask, place);
            sk_rc rc = sk_loop_send_task(l, t, w);
            if (rc == SK_OK) continue;
            sk_place_done(&l->place, &w->place, -1, now);
            if (rc == SK_EAGAIN && t->state != SK_T_READY) { /* an argument is lost: it waits for that */
                if (t->n_unready == 0) sk_task_ready(l, t);
                if (l->lost.n) sk_recover_run(l);
                continue;
            }
            if (rc == SK_EAGAIN) { /* the ring is full; whoever waits looks again soon as long as something is ready */
                sk_place_push(&l->place, &t->place);
                return;
            }
            char name[200];
            sk_loop_fail(l, t, rc, "task %s: no memory%s for the message with its arguments", task_name(l, t, name, sizeof name),
                         rc == SK_EFULL ? " in the object store" : "");
            continue;
        }
        /* STEAL: the last one queued is the least likely to start meanwhile. */
        bool got = false;
        for (struct sk_list *it = w->sent.prev; it != &w->sent && !got; it = it->prev) {
            struct sk_ltask *t = sk_container_of(it, struct sk_ltask, on);
            struct sk_list *prev = it->prev;
            got = take_back(l, w, t);
            if (got) break;
            it = prev->next;
        }
        if (!got) return;
    }
}

/* ---- streams ---------------------------------------------------------------------------------------------------------------------- */

static uint64_t hash_bytes(const void *p, size_t n) { /* FNV-1a: notes are small and compared only with themselves */
    uint64_t h = 1469598103934665603u;
    for (size_t i = 0; i < n; i++) h = (h ^ ((const uint8_t *)p)[i]) * 1099511628211u;
    return h;
}

static void send_credit(struct sk_local *l, struct sk_ltask *t) {
    if (t->state != SK_T_SENT || !t->worker || !t->spec.stream_window) return;
    struct {
        uint32_t type, pad;
        uint64_t tid, n;
    } m = {SK_M_CREDIT, 0, t->id, t->n_released};
    (void)sk_pool_reply(l, t->worker, &m, sizeof m);
}

/* A task at the end of its window waits, as one in get does: it gives its CPU back. Any credit lets it go on. */
static void go_on(struct sk_local *l, struct sk_ltask *t) {
    struct sk_lworker *w = t->worker;
    if (w && w->place.blocked && t->spec.stream_window && sk_list_empty(&w->reqs)) sk_place_worker_block(&l->place, &w->place, false);
}

void sk_loop_ask_to_stop(struct sk_local *l, struct sk_ltask *t) {
    ask_to_stop(t->worker, t);
    go_on(l, t);
}

void sk_task_release_stream(struct sk_local *l, struct sk_ltask *t, uint32_t n) {
    t->n_released += n;
    send_credit(l, t);
    go_on(l, t);
}

void sk_stream_drop(struct sk_local *l, struct sk_ltask *t) {
    t->dropped = true;
    for (uint32_t i = t->n_taken; i < t->yields.n; i++) SK_IGNORE(sk_own_unref(l->own, t->yields.p[i], SK_PROC_DRIVER, 1, NULL));
    t->n_taken = t->yields.n;
    if (t->end_error) SK_IGNORE(sk_own_unref(l->own, t->end_error, SK_PROC_DRIVER, 1, NULL));
    t->end_error = 0;
    t->stream_done = 1;
    stream_wake(l, t); /* another thread of its process may be waiting: end of the stream */
    if (t->state == SK_T_FINISHED) task_free(l, t);
    else if (!t->remake) sk_loop_cancel(l, t, false);
    sk_loop_drain(l);
}

/* ---- requests of workers ---------------------------------------------------------------------------------------------------------- */

static void reply_err(struct sk_local *l, struct sk_lworker *w, uint64_t req, sk_rc rc, const char *msg) {
    uint8_t buf[1200];
    struct sk_wr m = sk_wr_init(buf, sizeof buf);
    sk_wr_u32(&m, SK_M_REPLY);
    sk_wr_u32(&m, (uint32_t)rc);
    sk_wr_u64(&m, req);
    sk_wr_str(&m, msg);
    (void)sk_pool_reply(l, w, buf, m.n);
}

static void worker_block(struct sk_local *l, struct sk_lworker *w) {
    if (w->place.blocked) return;
    sk_place_worker_block(&l->place, &w->place, true);
    if (w->place.state != SK_W_LEASED) return;
    for (struct sk_list *it = w->sent.next; it != &w->sent;) { /* what waits behind it must not wait for it */
        struct sk_ltask *t = sk_container_of(it, struct sk_ltask, on);
        it = it->next;
        take_back(l, w, t);
    }
}

static void req_free(struct sk_local *l, struct sk_req *q) {
    for (uint32_t i = 0; i < q->n; i++) {
        dep_forget(l, q->oids[i], NULL, q);
        sk_own_unhold(l->own, q->oids[i]);
    }
    if (q->tid) {
        struct sk_ltask *t = sk_map_get(&l->tasks, q->tid);
        if (t)
            for (struct sk_dep *d = t->stream_waiters; d; d = d->next)
                if (d->req == q) d->req = NULL;
    }
    sk_list_del(&q->link);
    sk_free(q);
}

static void write_get(struct sk_local *l, struct sk_req *q, struct sk_wr *m) {
    sk_wr_u32(m, SK_M_REPLY);
    sk_wr_u32(m, SK_OK);
    sk_wr_u64(m, q->req);
    sk_wr_u32(m, q->n);
    for (uint32_t i = 0; i < q->n; i++) {
        struct sk_obj *o = sk_obj_get(l, q->oids[i]);
        struct sk_val v = {.kind = o->kind, .where = o->where, .oid = o->id, .len = o->len};
        if (o->where == SK_V_STORE) v.off = o->u.off;
        sk_wr_val(m, &v, o->where == SK_V_INLINE && o->u.inl ? (const void *)o->u.inl->bytes : "");
    }
}

static void unpin(struct sk_local *l, struct sk_req *q, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) {
        struct sk_obj *o = sk_obj_get(l, q->oids[i]);
        if (o->where == SK_V_STORE && o->state == SK_O_READY) (void)sk_store_unpin(l->store, q->w->proc, o->u.off);
    }
}

static bool pin_all(struct sk_local *l, struct sk_req *q) {
    uint32_t i = 0;
    for (; i < q->n; i++) {
        struct sk_obj *o = sk_obj_get(l, q->oids[i]);
        if (o->where == SK_V_STORE && o->state == SK_O_READY && sk_store_pin(l->store, q->w->proc, o->u.off) != SK_OK) break;
    }
    if (i == q->n) return true;
    unpin(l, q, i);
    return false;
}

sk_rc sk_stream_take(struct sk_local *l, struct sk_ltask *t, uint32_t proc, uint64_t *oid) {
    sk_rc rc = SK_OK;
    uint64_t id = 0;
    if (t->n_taken < t->yields.n) {
        id = t->yields.p[t->n_taken++];
    } else if (!t->stream_done) {
        return SK_EAGAIN;
    } else if (t->end_error) {
        id = t->end_error;
        t->end_error = 0;
        rc = SK_ETASK;
    } else if (t->end_rc != SK_OK) {
        return t->end_rc;
    } else {
        return SK_EDONE;
    }
    if (proc != SK_PROC_DRIVER) {
        SK_IGNORE(sk_own_ref(l->own, id, proc, 1, NULL));
        SK_IGNORE(sk_own_unref(l->own, id, SK_PROC_DRIVER, 1, NULL));
    }
    *oid = id;
    if (rc == SK_OK) sk_task_release_stream(l, t, 1);
    return rc;
}
static void req_reply(struct sk_local *l, struct sk_req *q, sk_rc rc) {
    struct sk_lworker *w = q->w;
    if (w->place.blocked) sk_place_worker_block(&l->place, &w->place, false);
    if (q->type == SK_M_GET) {
        if (rc != SK_OK) {
            reply_err(l, w, q->req, rc, rc == SK_ETIMEOUT ? "get: the time is over" : "get failed");
        } else {
            struct sk_wr m = sk_wr_init(NULL, 0);
            write_get(l, q, &m);
            uint8_t *p = sk_alloc(SK_TAG_ENGINE, m.n);
            if (!p || !pin_all(l, q)) {
                reply_err(l, w, q->req, SK_ENOMEM, "get: no memory for the reply");
            } else {
                m = sk_wr_init(p, m.n);
                write_get(l, q, &m);
                if (!sk_pool_reply(l, w, p, m.n)) {
                    unpin(l, q, q->n);
                    reply_err(l, w, q->req, SK_EFULL,
                              "get: the values are many, and the object store is too full for the message that holds them");
                }
            }
            sk_free(p);
        }
    } else if (q->type == SK_M_WAIT) {
        size_t cap = 64 + q->n;
        uint8_t *p = sk_alloc(SK_TAG_ENGINE, cap);
        if (p) {
            struct sk_wr m = sk_wr_init(p, cap);
            sk_wr_u32(&m, SK_M_REPLY);
            sk_wr_u32(&m, (uint32_t)rc);
            sk_wr_u64(&m, q->req);
            sk_wr_u64(&m, q->n);
            for (uint32_t i = 0; i < q->n; i++) {
                struct sk_obj *o = sk_obj_get(l, q->oids[i]);
                sk_wr_u8(&m, o && o->state != SK_O_PENDING);
            }
            if (!sk_pool_reply(l, w, p, m.n)) reply_err(l, w, q->req, SK_EFULL, "wait: the object store is too full for the answer");
            sk_free(p);
        } else {
            reply_err(l, w, q->req, SK_ENOMEM, "wait: no memory for the reply");
        }
    } else { /* NEXT */
        struct sk_ltask *t = sk_map_get(&l->tasks, q->tid);
        uint64_t oid = 0;
        sk_rc r = rc == SK_OK ? (t ? sk_stream_take(l, t, w->proc, &oid) : SK_EDONE) : rc;
        if (r == SK_EAGAIN) return; /* woken for nothing; still waiting (cannot happen: one reader a stream) */
        struct {
            uint32_t type, rc;
            uint64_t req, oid;
        } m = {SK_M_REPLY, (uint32_t)r, q->req, oid};
        (void)sk_pool_reply(l, w, &m, sizeof m);
    }
    req_free(l, q);
}

static void handle_wait(struct sk_local *l, struct sk_lworker *w, uint32_t type, struct sk_rd *r) {
    uint64_t req = sk_rd_u64(r);
    uint32_t want = sk_rd_u32(r), n = sk_rd_u32(r);
    const uint64_t *ids = sk_rd_raw(r, (size_t)n * 8);
    if (r->bad) return;
    struct sk_req *q = sk_calloc(SK_TAG_ENGINE, sizeof *q + (size_t)n * 8);
    if (!q) {
        reply_err(l, w, req, SK_ENOMEM, "no memory for a request");
        return;
    }
    *q = (struct sk_req){.w = w, .type = type, .req = req, .want = want};
    sk_list_init(&q->link);
    for (uint32_t i = 0; i < n; i++) {
        struct sk_err e;
        if (sk_own_hold(l->own, ids[i], &e) != SK_OK) {
            sk_list_push_back(&w->reqs, &q->link);
            req_free(l, q);
            reply_err(l, w, req, SK_ELOST, "the object does not exist any more: its last reference was released");
            return;
        }
        q->oids[q->n++] = ids[i];
        if (type == SK_M_GET && sk_obj_get(l, ids[i])->gone) sk_loop_lost(l, ids[i]);
    }
    sk_list_push_back(&w->reqs, &q->link);
    for (uint32_t i = 0; i < n; i++) {
        struct sk_obj *o = sk_obj_get(l, ids[i]);
        if (o->state != SK_O_PENDING) {
            q->n_ready++;
        } else if (sk_dep_add(o, NULL, q) != SK_OK) {
            reply_err(l, w, req, SK_ENOMEM, "no memory for a request");
            req_free(l, q);
            return;
        }
    }
    if (q->n_ready >= q->want) req_reply(l, q, SK_OK);
    else worker_block(l, w);
}

static void handle_next(struct sk_local *l, struct sk_lworker *w, struct sk_rd *r) {
    uint64_t req = sk_rd_u64(r), tid = sk_rd_u64(r);
    struct sk_ltask *t = sk_map_get(&l->tasks, tid);
    struct sk_req *q = sk_calloc(SK_TAG_ENGINE, sizeof *q);
    struct sk_dep *d = q ? sk_alloc(SK_TAG_ENGINE, sizeof *d) : NULL;
    if (!d) {
        sk_free(q);
        reply_err(l, w, req, SK_ENOMEM, "no memory for a request");
        return;
    }
    *q = (struct sk_req){.w = w, .type = SK_M_NEXT, .req = req, .tid = tid, .want = 1};
    sk_list_init(&q->link);
    sk_list_push_back(&w->reqs, &q->link);
    if (!t || t->n_taken < t->yields.n || t->stream_done) {
        sk_free(d);
        req_reply(l, q, SK_OK);
        return;
    }
    *d = (struct sk_dep){t->stream_waiters, NULL, q};
    t->stream_waiters = d;
    worker_block(l, w);
}

/* ---- messages of workers ------------------------------------------------------------------------------------------------------------ */

static void retry(struct sk_local *l, struct sk_ltask *t) {
    t->attempt++;
    l->n_retries++;
    t->restart = false;
    t->state = SK_T_READY;
    sk_place_push(&l->place, &t->place);
}

static void fail_cancelled(struct sk_local *l, struct sk_ltask *t) {
    char name[200];
    const char *tn = task_name(l, t, name, sizeof name);
    if (t->differs)
        sk_loop_fail(l, t, SK_ETASK,
                     "task %s is not deterministic: run again after a worker died, its output %u differs from the first run's; "
                     "make the function give the same output for the same input",
                     tn, t->differs - 1);
    else if (t->lost_yield) sk_loop_fail(l, t, SK_ENOMEM, "task %s: no memory to record its output", tn);
    else sk_loop_fail(l, t, SK_ECANCEL, "task %s was cancelled", tn);
}

static void handle_done(struct sk_local *l, struct sk_lworker *w, const void *p, size_t n) {
    struct sk_msg_done h;
    struct sk_rd r = sk_rd_init(p, n);
    const void *hp = sk_rd_raw(&r, sizeof h);
    if (!hp) return;
    memcpy(&h, hp, sizeof h);
    struct sk_bytes note = sk_rd_bytes(&r);
    struct sk_ltask *t = sk_map_get(&l->tasks, h.tid);
    if (t && (t->worker != w || t->attempt != h.attempt || t->state != SK_T_SENT)) t = NULL;
    w->n_done++;
    l->n_tasks_done++;
    if (t) task_left_worker(l, t, w, h.run_ns);
    struct sk_lactor *a = t ? t->actor : NULL;
    bool init = t && t->is_init;
    if (t &&
        (t->differs || t->lost_yield || (t->cancelled && (h.status == 1 || (t->is_stream && t->sink))))) { /* the values are thrown away */
        fail_cancelled(l, t);
        if (a && !init) sk_actor_advance(l, a);
        t = NULL;
        a = NULL;
    }
    if (t && t->remake && t->is_stream && sk_recover_all_made(t)) { /* however it ended after that */
        t->state = SK_T_FINISHED;
        task_end(l, t);
        t = NULL;
    }
    if (t && t->restart && h.status == 1 && !t->cancelled) {
        if (t->retries_left > 0) t->retries_left--;
        retry(l, t);
        return;
    }
    if (t && h.status == 1 && t->spec.retry_exceptions && t->retries_left != 0 && !t->actor && !t->cancelled) {
        if (t->retries_left > 0) t->retries_left--;
        retry(l, t);
        return;
    }
    for (uint32_t i = 0; i < h.n_values; i++) {
        struct sk_val v;
        const void *b = sk_rd_val(&r, &v);
        uint32_t nc = sk_rd_u32(&r);
        sk_rd_align(&r, 8);
        const uint64_t *c = sk_rd_raw(&r, (size_t)nc * 8);
        if (r.bad) break;
        if (h.status == 1) {
            if (v.where == SK_V_STORE) { /* errors are inline; a large one would be cut by the worker */
                if (sk_store_commit(l->store, w->proc, v.off, v.len, NULL) == SK_OK) sk_store_unref(l->store, v.off);
                v.len = 0;
                b = "";
            }
            if (t) sk_loop_finish_error(l, t, v.kind, b, (size_t)v.len);
            if (a && !init) sk_actor_advance(l, a);
            return;
        }
        if (t && (v.where == SK_V_STORE || nc)) t->bulky = true;
        value_set(l, t ? v.oid : 0, w->proc, &v, b, c, nc);
    }
    if (!t) return;
    if (t->is_stream && t->remake) {
        char name[200];
        sk_loop_fail(l, t, SK_ETASK,
                     "task %s is not deterministic: run again for output that was lost, it gave less of it than the first time; "
                     "make the function give the same output for the same input",
                     task_name(l, t, name, sizeof name));
        return;
    }
    if (t->is_stream && !t->sink) {
        t->stream_done = 1;
        stream_wake(l, t);
    }
    t->state = SK_T_FINISHED; /* a sink that cancels it now is late */
    if (t->sink) {
        struct sk_event ev = {.kind = SK_EV_DONE, .note = note, .run_ns = h.run_ns, .index = t->n_yielded};
        emit(l, t, &ev);
    }
    if (t->is_init) a->state = SK_A_ALIVE;
    task_end(l, t);
    if (a) sk_actor_advance(l, a);
}

/* What it says from now on is ignored; the task fails when it has stopped: until then it reads its arguments. */
static void stop_stream(struct sk_local *l, struct sk_ltask *t, struct sk_lworker *w, const char *why) {
    t->cancelled = true;
    ask_to_stop(w, t);
    if (!t->actor) sk_pool_kill(l, w, why);
}

static void handle_yield(struct sk_local *l, struct sk_lworker *w, struct sk_rd *r) {
    uint32_t attempt = sk_rd_u32(r);
    uint64_t tid = sk_rd_u64(r);
    uint32_t index = sk_rd_u32(r);
    struct sk_bytes note = sk_rd_bytes(r);
    struct sk_val v;
    const void *b = sk_rd_val(r, &v);
    uint32_t nc = sk_rd_u32(r);
    sk_rd_align(r, 8);
    const uint64_t *c = sk_rd_raw(r, (size_t)nc * 8);
    if (r->bad) return;
    struct sk_ltask *t = sk_map_get(&l->tasks, tid);
    if (t && (t->worker != w || t->attempt != attempt || t->state != SK_T_SENT || t->differs || t->lost_yield ||
              (!t->remake && (t->dropped || (t->cancelled && t->sink)))))
        t = NULL;
    uint64_t h = hash_bytes(note.p, note.n), id = 0;
    if (t && t->spec.stream_window && !t->remake && index + 1 >= t->n_released + t->spec.stream_window) worker_block(l, w);
    if (t && index < t->n_yielded) { /* a retry repeats what is there */
        if (t->note_hash.p[index] != h) {
            t->differs = index + 1;
            stop_stream(l, t, w, "its task gave other output than before");
        } else if (t->aside && v.where != SK_V_NONE) {
            id = sk_recover_remade(t, index);
        }
        t = NULL;
    }
    if (t && (v.where == SK_V_NONE || t->remake)) t = NULL; /* a repeat that the engine does not know: nothing to record */
    struct sk_obj *o = NULL;
    if (t) {
        id = ++l->next_id;
        if (!sk_vec_reserve(&t->yields, SK_TAG_ENGINE, t->yields.n + 1) ||
            !sk_vec_reserve(&t->note_hash, SK_TAG_ENGINE, t->n_yielded + 1) ||
            sk_obj_new(l, id, SK_PROC_DRIVER, &o, NULL) != SK_OK) { /* a stream with a hole would be a lie */
            id = 0;
            t->lost_yield = true;
            stop_stream(l, t, w, "there is no memory left to record its output");
        }
    }
    if (o) o->why = (uint8_t)sk_recover_why(t);
    if (v.where != SK_V_NONE) value_set(l, id, w->proc, &v, b, c, nc);
    if (!t || !id) return;
    t->note_hash.p[t->n_yielded] = h;
    t->note_hash.n = ++t->n_yielded;
    t->yields.p[t->yields.n++] = id;
    if (v.where == SK_V_STORE || nc) sk_recover_yielded(l, t, o);
    if (t->sink) {
        struct sk_event ev = {.kind = SK_EV_YIELDED, .index = index, .oid = {id}, .size_bytes = v.len, .note = note};
        emit(l, t, &ev);
    } else {
        stream_wake(l, t);
    }
}

/* New ids come from the worker's own range, each once. */
static bool fresh_ids(struct sk_local *l, struct sk_lworker *w, uint64_t base) {
    if (base >> 40 == w->proc && !sk_map_get(&l->tasks, base)) return true;
    sk_pool_kill(l, w, "it sent a message that makes no sense");
    return false;
}

static void handle_put(struct sk_local *l, struct sk_lworker *w, struct sk_rd *r) {
    uint64_t id = sk_rd_u64(r);
    struct sk_val v;
    const void *b = sk_rd_val(r, &v);
    uint32_t nc = sk_rd_u32(r);
    sk_rd_align(r, 8);
    const uint64_t *c = sk_rd_raw(r, (size_t)nc * 8);
    struct sk_obj *o = NULL;
    if (r->bad || !fresh_ids(l, w, id) || sk_obj_new(l, id, w->proc, &o, NULL) != SK_OK) return;
    value_set(l, id, w->proc, &v, b, c, nc);
}

/* A submission of a worker that could not be accepted still has return objects (or a stream), which hold the reason. */
static void submit_failed(struct sk_local *l, uint32_t proc, uint64_t base, struct sk_bytes spec, const struct sk_err *err) {
    struct sk_spec s;
    struct sk_rd r = sk_rd_init(spec.p, spec.n);
    uint32_t n = sk_spec_read(&r, &s) ? s.n_returns : 1;
    struct sk_inl *e = sk_engine_error(err->code, err->msg);
    struct sk_ltask *t = n == SK_STREAMING ? sk_calloc(SK_TAG_ENGINE, sizeof *t) : NULL;
    if (t && sk_map_put(&l->tasks, base, t) == SK_OK) {
        t->id = base;
        t->owner = proc;
        t->is_stream = true;
        t->state = SK_T_FINISHED;
        t->ended = true;
        t->stream_done = 1;
        t->end_error = error_object(l, SK_KIND_ENGINE_ERROR, e ? (void *)e->bytes : (void *)"", e ? e->len : 0);
        l->n_worker_streams++;
    } else {
        sk_free(t);
    }
    for (uint32_t i = 0; n != SK_STREAMING && i < n; i++) {
        struct sk_obj *o = NULL;
        if (sk_obj_new(l, base + 1 + i, proc, &o, NULL) != SK_OK) break;
        o->kind = SK_KIND_ENGINE_ERROR;
        o->where = SK_V_INLINE;
        o->u.inl = e;
        if (e) e->refs++;
        o->len = e ? e->len : 0;
        sk_obj_ready(l, o);
    }
    sk_inl_drop(e);
}

/* Of what its running task submits. */
static uint32_t level_of(const struct sk_lworker *w) {
    const struct sk_list *first = sk_list_first(&w->sent);
    return first && !w->actor ? (uint32_t)sk_container_of(first, struct sk_ltask, on)->place.level + 1 : 1;
}

static void handle(struct sk_local *l, struct sk_lworker *w, const void *p, size_t n) {
    struct sk_rd r = sk_rd_init(p, n);
    uint32_t type = sk_rd_u32(&r);
    struct sk_err err;
    switch (type) {
    case SK_M_HELLO:
        w->up = true;
        l->n_bad_starts = 0;
        w->pid = (int32_t)sk_rd_u32(&r);
        if (w->place.state == SK_W_STARTING) sk_place_worker_up(&l->place, &w->place);
        break;
    case SK_M_DONE: handle_done(l, w, p, n); break;
    case SK_M_YIELD: handle_yield(l, w, &r); break;
    case SK_M_RETURNED: {
        struct sk_ltask *t = sk_map_get(&l->tasks, sk_rd_u64(&r));
        if (t && t->worker == w && t->state == SK_T_SENT && !t->actor) {
            task_left_worker(l, t, w, -1);
            t->state = SK_T_READY;
            if (t->cancelled) /* while this message was on its way */
                fail_cancelled(l, t);
            else sk_place_push(&l->place, &t->place);
        }
        break;
    }
    case SK_M_SUBMIT: {
        uint64_t base = sk_rd_u64(&r);
        struct sk_bytes s = sk_rd_bytes(&r);
        if (!r.bad && fresh_ids(l, w, base) && sk_loop_submit(l, w->proc, level_of(w), base, s.p, s.n, NULL, &err) != SK_OK)
            submit_failed(l, w->proc, base, s, &err);
        break;
    }
    case SK_M_ACTOR: {
        uint64_t base = sk_rd_u64(&r);
        int32_t restarts = (int32_t)sk_rd_u32(&r), retries = (int32_t)sk_rd_u32(&r);
        struct sk_bytes s = sk_rd_bytes(&r);
        if (!r.bad && fresh_ids(l, w, base) && sk_loop_actor(l, w->proc, base, s.p, s.n, restarts, retries, &err) != SK_OK)
            submit_failed(l, w->proc, base, s, &err);
        break;
    }
    case SK_M_PUT: handle_put(l, w, &r); break;
    case SK_M_REF: {
        uint64_t id = sk_rd_u64(&r);
        int64_t d = sk_rd_i64(&r);
        if (d > 0) SK_IGNORE(sk_own_ref(l->own, id, w->proc, (uint32_t)d, NULL));
        if (d < 0) SK_IGNORE(sk_own_unref(l->own, id, w->proc, (uint32_t)-d, NULL));
        break;
    }
    case SK_M_GET:
    case SK_M_WAIT: handle_wait(l, w, type, &r); break;
    case SK_M_NEXT: handle_next(l, w, &r); break;
    case SK_M_TIMEOUT: {
        uint64_t req = sk_rd_u64(&r);
        SK_LIST_EACH (it, &w->reqs) {
            struct sk_req *q = sk_container_of(it, struct sk_req, link);
            if (q->req == req) {
                req_reply(l, q, SK_ETIMEOUT);
                break;
            }
        }
        break;
    }
    case SK_M_LEASE: {
        uint64_t req = sk_rd_u64(&r), len = sk_rd_u64(&r);
        sk_off off;
        sk_rc rc = sk_store_alloc(l->store, w->proc, len, &off, &err);
        if (rc != SK_OK) {
            reply_err(l, w, req, rc, err.msg);
        } else {
            struct {
                uint32_t type, rc;
                uint64_t req, off;
            } m = {SK_M_REPLY, SK_OK, req, off};
            (void)sk_pool_reply(l, w, &m, sizeof m);
            w->has_lease = true;
        }
        break;
    }
    case SK_M_GIVE: {
        uint64_t off = sk_rd_u64(&r), len = sk_rd_u64(&r);
        if (sk_store_unlease(l->store, w->proc, off, len, NULL) != SK_OK && /* from the middle: only sealing cuts there */
            sk_store_commit(l->store, w->proc, off, len, NULL) == SK_OK)
            sk_store_unref(l->store, off);
        break;
    }
    case SK_M_PIN: {
        struct sk_obj *o = sk_obj_get(l, sk_rd_u64(&r));
        uint64_t off = o && o->state == SK_O_READY && o->where == SK_V_STORE ? o->u.off : UINT64_MAX;
        bool was_lost = o && sk_recover_old(w, o->id, &off);
        if ((was_lost || off != UINT64_MAX) && sk_store_pin(l->store, w->proc, off) != SK_OK)
            sk_pool_kill(l, w, "there is no memory left to note what it holds");
        break;
    }
    case SK_M_UNPIN: (void)sk_store_unpin(l->store, w->proc, sk_rd_u64(&r)); break;
    case SK_M_DEFINE: {
        uint64_t fid = sk_rd_u64(&r);
        struct sk_bytes name = sk_rd_bytes(&r), def = sk_rd_bytes(&r);
        if (!r.bad) (void)sk_loop_define(l, fid, name, def, NULL);
        break;
    }
    case SK_M_SHAPE: {
        uint64_t req = sk_rd_u64(&r);
        struct sk_res res;
        const void *q = sk_rd_raw(&r, sizeof res);
        if (!q) break;
        memcpy(&res, q, sizeof res);
        sk_shape s = 0;
        sk_rc rc = l->base.ops->shape(&l->base, &res, &s, &err);
        if (rc != SK_OK) {
            reply_err(l, w, req, rc, err.msg);
        } else {
            struct {
                uint32_t type, rc;
                uint64_t req, shape;
            } m = {SK_M_REPLY, SK_OK, req, s};
            (void)sk_pool_reply(l, w, &m, sizeof m);
        }
        break;
    }
    case SK_M_RESIDX: {
        uint64_t req = sk_rd_u64(&r);
        struct sk_bytes b = sk_rd_bytes(&r);
        char name[128];
        uint32_t ix = 0;
        snprintf(name, sizeof name, "%.*s", (int)SK_MIN(b.n, sizeof name - 1), (const char *)b.p);
        sk_rc rc = l->base.ops->res_index(&l->base, name, &ix, &err);
        if (rc != SK_OK) {
            reply_err(l, w, req, rc, err.msg);
        } else {
            struct {
                uint32_t type, rc;
                uint64_t req, ix;
            } m = {SK_M_REPLY, SK_OK, req, ix};
            (void)sk_pool_reply(l, w, &m, sizeof m);
        }
        break;
    }
    case SK_M_RESOURCES: {
        uint8_t buf[2 * sizeof(struct sk_res) + 64];
        struct sk_wr m = sk_wr_init(buf, sizeof buf);
        sk_wr_u32(&m, SK_M_REPLY);
        sk_wr_u32(&m, SK_OK);
        sk_wr_u64(&m, sk_rd_u64(&r));
        sk_wr_raw(&m, &l->place.total, sizeof l->place.total);
        sk_wr_raw(&m, &l->place.avail, sizeof l->place.avail);
        (void)sk_pool_reply(l, w, buf, m.n);
        break;
    }
    case SK_M_DROP: {
        struct sk_ltask *t = sk_map_get(&l->tasks, sk_rd_u64(&r));
        if (t && t->is_stream && !t->sink && t->owner == w->proc) sk_stream_drop(l, t);
        break;
    }
    case SK_M_CANCEL: {
        uint64_t tid = sk_rd_u64(&r);
        struct sk_ltask *t = sk_map_get(&l->tasks, tid);
        if (t) sk_loop_cancel(l, t, sk_rd_u64(&r) != 0);
        break;
    }
    case SK_M_KILL: {
        struct sk_obj *o = sk_obj_get(l, sk_rd_u64(&r));
        if (o && o->state == SK_O_ACTOR) l->base.ops->actor_kill(&l->base, (sk_aid){o->id}, sk_rd_u64(&r) != 0, NULL);
        break;
    }
    case SK_M_BIGUP: {
        uint64_t off = sk_rd_u64(&r), len = sk_rd_u64(&r);
        if (r.bad || off > l->data_seg.size || len > l->data_seg.size - off) break;
        uint32_t inner;
        memcpy(&inner, l->data_seg.base + off, sizeof inner);
        if (len >= 8 && inner != SK_M_BIGUP) handle(l, w, l->data_seg.base + off, (size_t)len);
        SK_IGNORE(sk_store_unlease(l->store, w->proc, off, len, NULL));
        break;
    }
    case SK_M_BIGFREE: {
        uint64_t off = sk_rd_u64(&r);
        for (uint32_t i = 0; i < w->big.n; i++)
            if (w->big.p[i] == off) {
                w->big.p[i] = w->big.p[--w->big.n];
                sk_store_unref(l->store, off);
                break;
            }
        break;
    }
    default: break;
    }
}

static uint32_t pump_worker(struct sk_local *l, struct sk_lworker *w) {
    uint32_t n = 0;
    for (;;) {
        size_t len;
        const void *p = sk_ring_peek(&w->up_ring, &len);
        if (!p) {
            if (len == SIZE_MAX && !w->killed) sk_pool_kill(l, w, "it sent a message that makes no sense");
            break;
        }
        handle(l, w, p, len);
        sk_ring_pop(&w->up_ring);
        n++;
    }
    if (n) {
        if (w->out.n) sk_pool_flush(l, w);
        if (atomic_load_explicit(&w->sh->want_space, memory_order_seq_cst)) {
            atomic_store_explicit(&w->sh->want_space, 0, memory_order_seq_cst);
            sk_bell_ring(&w->sh->bell);
        }
    } else if (w->out.n) {
        sk_pool_flush(l, w);
    }
    return n;
}

uint32_t sk_loop_pump(struct sk_local *l) {
    uint32_t n = 0;
    if (l->pumping) return 0;
    l->pumping = true;
    for (uint32_t i = 0; i < l->n_used; i++) {
        struct sk_lworker *w = l->workers[i];
        if (w) n += pump_worker(l, w);
    }
    l->pumping = false;
    if (n) {
        sk_loop_drain(l);
        l->progress++;
    }
    sk_actor_sweep(l);
    return n;
}

/* ---- ends ------------------------------------------------------------------------------------------------------------------------------- */

static void death_text(struct sk_lworker *w, int status, uint64_t maxrss, char *buf, size_t cap) {
    char how[160];
    if (w->kill_why) snprintf(how, sizeof how, "was stopped: %s", w->kill_why);
    else if (WIFSIGNALED(status))
        snprintf(how, sizeof how, "was killed by signal %d (%s)%s", WTERMSIG(status), strsignal(WTERMSIG(status)),
                 WTERMSIG(status) == SIGKILL ? "; nobody but the kernel's out-of-memory killer or a user sends it" : "");
    else if (WIFEXITED(status)) snprintf(how, sizeof how, "exited with code %d", WEXITSTATUS(status));
    else snprintf(how, sizeof how, "disappeared with the fork server");
    size_t n = (size_t)snprintf(buf, cap, "worker process %d %s; peak memory %.0f MiB", w->pid, how, (double)maxrss / 1048576.0);
    w->sh->crash[sizeof w->sh->crash - 1] = 0;
    if (w->sh->crash[0] && n < cap) snprintf(buf + n, cap - n, "\n%.800s", w->sh->crash);
}

void sk_loop_worker_died(struct sk_local *l, struct sk_lworker *w, int status, uint64_t maxrss) {
    char why[1300];
    uint64_t key;
    void *val;
    w->dying = true;
    SK_ASSERT(!l->pumping);
    l->pumping = true;
    pump_worker(l, w); /* what it said before it died counts */
    l->pumping = false;
    death_text(w, status, maxrss, why, sizeof why);
    if (!w->kill_why || w->sent.next != &w->sent) l->n_worker_deaths++;
    while (!sk_list_empty(&w->reqs)) req_free(l, sk_container_of(w->reqs.next, struct sk_req, link));
    struct sk_lactor *a = w->actor;
    struct sk_list lost;
    sk_list_init(&lost);
    while (!sk_list_empty(&w->sent)) {
        struct sk_list *it = w->sent.next;
        struct sk_ltask *t = sk_container_of(it, struct sk_ltask, on);
        /* Looked at before anybody is told: a sink may submit, and the slot be used again. */
        uint64_t c = atomic_load_explicit(&w->sh->claims[t->claim], memory_order_acquire);
        t->was_started = c == (t->id << 2 | SK_CLAIM_STARTED) || c == (t->id << 2 | SK_CLAIM_CANCELLED);
        sk_list_del(it);
        sk_list_push_back(&lost, it);
    }
    l->workers[w->slot] = NULL;
    l->n_live--;
    sk_place_worker_gone(&l->place, &w->place);
    sk_own_proc_dead(l->own, w->proc);
    sk_store_proc_dead(l->store, w->proc);
    for (uint32_t i = 0; i < w->big.n; i++) sk_store_unref(l->store, w->big.p[i]);
    if (a) a->worker = NULL;
    for (uint32_t i = 0; l->n_worker_streams && sk_map_next(&l->tasks, &i, &key, &val);) { /* nobody reads its streams any more */
        struct sk_ltask *t = val;
        if (!t->is_stream || t->sink || t->owner != w->proc || t->dropped) continue;
        sk_stream_drop(l, t);
        i = 0; /* the map changed */
    }
    struct sk_list again; /* method calls of an actor that restarts, in order */
    sk_list_init(&again);
    while (!sk_list_empty(&lost)) {
        struct sk_ltask *t = sk_container_of(lost.next, struct sk_ltask, on);
        sk_list_del(&t->on);
        t->worker = NULL;
        if (t->aside) sk_recover_left(l, t, NULL);
        bool started = t->was_started;
        char name[200];
        const char *tn = task_name(l, t, name, sizeof name);
        if (t->cancelled) {
            fail_cancelled(l, t);
        } else if (t->is_init) {
            t->state = SK_T_READY;
        } else if (t->actor) {
            bool restart = a && !a->stopping && a->restarts_left != 0;
            if (restart && (!started || t->retries_left != 0)) {
                if (started && t->retries_left > 0) t->retries_left--;
                if (started) t->attempt++;
                t->state = SK_T_READY;
                sk_list_push_back(&again, &t->on);
            } else {
                sk_loop_fail(l, t, SK_EACTOR, "the actor died while task %s was on it: %s", tn, why);
            }
        } else if (!started) {
            t->state = SK_T_READY;
            sk_place_push(&l->place, &t->place);
        } else if (t->retries_left != 0) {
            if (t->retries_left > 0) t->retries_left--;
            retry(l, t);
        } else {
            sk_loop_fail(l, t, SK_EDEAD, "task %s, attempt %u: %s", tn, t->attempt + 1, why);
        }
    }
    if (a) {
        while (!sk_list_empty(&again)) { /* in front of those not sent */
            struct sk_list *it = again.prev;
            sk_list_del(it);
            sk_list_push_front(&a->queue, it);
        }
        sk_actor_worker_died(l, a, why);
    }
    bool bad_start = !w->up && !w->killed && (status != -1 || w->kill_why);
    sk_map_deinit(&w->known);
    for (uint32_t i = 0; i < w->out.n; i++) sk_free(w->out.p[i]);
    sk_vec_free(&w->out);
    sk_vec_free(&w->big);
    sk_free(w);
    if (bad_start) sk_pool_bad_start(l, why);
    sk_loop_drain(l);
    l->progress++;
}

void sk_loop_cancel(struct sk_local *l, struct sk_ltask *t, bool force) {
    char name[200];
    const char *tn = task_name(l, t, name, sizeof name);
    if (t->state == SK_T_FINISHED || t->is_init || t->remake) return; /* what is being remade was finished before */
    t->cancelled = true;
    struct sk_lactor *a = t->actor;
    if (t->state == SK_T_SENT) {
        struct sk_lworker *w = t->worker;
        if (!w) return; /* its worker died, and its end is near */
        if (!sk_loop_unsend(l, w, t)) {
            sk_loop_ask_to_stop(l, t);
            if (force && !a) sk_pool_kill(l, w, "a task on it was cancelled by force");
            return; /* ends when the worker says so */
        }
    } else if (t->state == SK_T_READY && !a) {
        sk_place_unpush(&l->place, &t->place);
    }
    sk_loop_fail(l, t, SK_ECANCEL, "task %s was cancelled", tn);
    if (a) sk_actor_advance(l, a); /* those behind it need not wait any more */
    sk_loop_drain(l);
}
