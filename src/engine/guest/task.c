/* task.c - tasks and actors of a guest engine, from the spec to the last event. A task is given to
 * the guest when its arguments exist and its actor has begun.
 *
 * Invariant: a task is in `waiting` or in `told` until its end, which happens once; by then its
 * returns exist and its sink has its last event. */
#include "engine/guest/guest_int.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"

/* The number of an object of this engine means nothing where the task runs. */
static sk_rc inner(const struct sk_gtask *t, struct sk_err *err) {
    return SK_ERR(err, SK_ENOSYS,
                  "%s: a reference or an actor inside an argument does not travel to the process "
                  "that runs the task; pass a reference as an argument of its own",
                  t->name ? t->name : "task");
}

static sk_rc fill(struct sk_ghost *x, struct sk_gtask *t, const struct sk_task_spec *s,
                  struct sk_err *err) {
    t->args = sk_calloc(TAG, (s->n_args + 1) * sizeof *t->args);
    const char *name = sk_map_get(&x->fns, s->fn.v);
    if (!name) return SK_ERR(err, SK_EINVAL, "function %s is not defined", s->name ? s->name : "?");
    t->name = sk_strdup(TAG, s->name ? s->name : name);
    if (s->n_contains && !x->g.refs) return inner(t, err);
    t->contains = sk_alloc(TAG, (s->n_contains + 1) * sizeof *t->contains);
    if (!t->args || !t->name || !t->contains) return SK_ERR(err, SK_ENOMEM, "task %s", name);
    for (uint32_t i = 0; i < s->n_contains; i++) /* of one that is gone, the task's get fails */
        if (sk_own_hold(x->own, s->contains[i].v, NULL) == SK_OK)
            t->contains[t->n_contains++] = s->contains[i].v;
    for (uint32_t i = 0; i < s->n_args; i++) {
        const struct sk_arg *a = &s->args[i];
        if (a->part && !x->g.parts)
            return SK_ERR(
                err, SK_EINVAL,
                "task %s: argument %u is a part of an object; this engine gives whole ones only",
                name, i);
        if (a->ref.v && !x->g.refs && sk_own_n_inner(x->own, a->ref.v)) return inner(t, err);
        if (a->ref.v) SK_TRY(sk_own_hold(x->own, a->ref.v, err));
        else if (a->bytes.n > SK_INLINE_MAX)
            return SK_ERR(err, SK_EINVAL, "task %s: argument %u has %zu bytes; put it first",
                          t->name, i, a->bytes.n);
        t->args[i].ref = a->ref.v;
        t->args[i].part = a->part;
        t->args[i].offset = a->offset;
        t->args[i].length = a->length;
        t->args[i].of = t;
        sk_list_init(&t->args[i].lack);
        if (!a->ref.v && !(t->args[i].val = sk_gval_new(a->kind, a->bytes)))
            return SK_ERR(err, SK_ENOMEM, "task %s: argument %u", t->name, i);
        t->n_args++;
        struct sk_gobj *o = a->ref.v ? sk_own_get(x->own, a->ref.v) : NULL;
        if (!o || sk_gobj_there(o)) continue;
        t->n_lacking++;
        sk_list_push_back(&o->lacking, &t->args[i].lack);
    }
    return SK_OK;
}

static bool has_stream(const struct sk_gtask *t) {
    return t->n_returns == SK_STREAMING && !t->sink;
}

sk_rc sk_gtask_make(struct sk_ghost *x, const struct sk_task_spec *s, uint64_t id, uint64_t first,
                    struct sk_gtask **out, struct sk_err *err) {
    bool streaming = s->n_returns == SK_STREAMING;
    if (!streaming && s->n_returns > SK_MAX_RETURNS)
        return SK_ERR(err, SK_EINVAL, "%u returns (at most %d)", s->n_returns, SK_MAX_RETURNS);
    if (s->shape > x->shapes.n) return SK_ERR(err, SK_EINVAL, "no such shape");
    struct sk_gtask *t = sk_calloc(TAG, sizeof *t);
    if (!t) return SK_ERR(err, SK_ENOMEM, "task");
    *t = (struct sk_gtask){
        .id = id,
        .first = first,
        .actor = s->actor.v,
        .fn = s->fn,
        .n_returns = s->n_returns,
        .max_calls = s->actor.v ? 0 : sk_task_opts_of(s)->max_calls,
        .group = sk_task_opts_of(s)->group,
        .window = x->g.ops->taken && !s->sink ? sk_task_opts_of(s)->stream_window : 0,
        .no_wait = sk_task_opts_of(s)->no_wait,
        .known = sk_task_opts_of(s)->known_task ? sk_task_opts_of(s)->known_task : id,
        .submit_ns = x->g.ops->ask ? sk_now_ns() : 0,
        .retry_exceptions = s->retry_exceptions,
        .max_retries = s->max_retries == SK_RETRIES_DEFAULT ? x->task_retries : s->max_retries,
        .sink = s->sink,
        .sink_tag = s->sink_tag};
    sk_list_init(&t->link);
    sk_list_init(&t->call);
    if (s->shape) t->need = x->shapes.p[s->shape - 1];
    else if (!s->actor.v) t->need.res.amount[SK_RES_CPU] = SK_RES_UNIT;
    sk_rc rc = fill(x, t, s, err);
    if (rc == SK_OK) rc = sk_map_put(&x->tasks, id, t);
    if (rc == SK_OK && has_stream(t)) rc = sk_gstream_new(x, id, t->window > 0, err);
    if (rc != SK_OK) {
        sk_gtask_free(x, t);
        return rc;
    }
    sk_list_push_back(&x->waiting, &t->link);
    *out = t;
    return SK_OK;
}

uint32_t sk_gtask_node(const struct sk_ghost *x, const struct sk_task_spec *s) {
    for (uint32_t i = 0; i < x->nodes.n; i++)
        if (x->nodes.p[i].number == s->node && x->nodes.p[i].alive) return s->node;
    return 0;
}

static struct sk_gcaller *caller_of(const struct sk_gactor *a, uint64_t who) {
    SK_LIST_EACH (it, &a->callers) {
        struct sk_gcaller *c = sk_container_of(it, struct sk_gcaller, link);
        if (c->who == who) return c;
    }
    return NULL;
}

static struct sk_gcaller *caller_new(struct sk_gactor *a, uint64_t who) {
    struct sk_gcaller *c = sk_calloc(TAG, sizeof *c);
    if (!c) abort(); /* as sk_ghost_order */
    c->who = who;
    sk_list_init(&c->link);
    sk_list_init(&c->calls);
    sk_list_push_back(&a->callers, &c->link);
    return c;
}

static void caller_free(struct sk_gcaller *c) {
    SK_ASSERT(sk_list_empty(&c->calls));
    sk_list_del(&c->link);
    sk_free(c);
}

/* Takes a call that ends off its caller. The last caller stays for its next call. */
static void call_over(const struct sk_gactor *a, struct sk_gtask *t) {
    struct sk_gcaller *c = t->by;
    SK_ASSERT(a && c->n > 0);
    t->by = NULL;
    if (!--c->n && a->callers.next != a->callers.prev) caller_free(c);
}

sk_rc sk_gtask_submit(struct sk_ghost *x, const struct sk_task_spec *s, sk_oid *first, sk_tid *tid,
                      struct sk_err *err) {
    struct sk_gtask *t;
    uint32_t n = s->n_returns == SK_STREAMING ? 0 : s->n_returns, made = 0;
    sk_rc rc = SK_OK;
    uint64_t base = x->next_id, id = base + n;
    struct sk_gcaller *by = NULL;
    struct sk_gactor *a = s->actor.v ? sk_map_get(&x->actors, s->actor.v) : NULL;
    const struct sk_task_opts *opts = sk_task_opts_of(s);
    if (s->actor.v) {
        by = a ? caller_of(a, opts->caller) : NULL;
        SK_GO(sk_call_check(a, by ? by->n : 0, opts->max_pending, err));
    }
    uint32_t node = a ? 0 : sk_gtask_node(x, s);
    SK_GO(sk_spec_check(s, node, err));
    x->next_id += n + 1;
    for (; made < n; made++) SK_GO(sk_gobj_new(x, base + made, id, NULL, NULL, 0, err));
    SK_GO(sk_gtask_make(x, s, id, base, &t, err));
    t->node = node;
    t->node_only = s->node_only;
    if (first) first->v = base;
    if (tid) tid->v = id;
    if (a) {
        a->n_calls++;
        t->by = by ? by : caller_new(a, opts->caller);
        t->by->n++;
    }
    if (a && !t->max_retries && x->g.actors) t->max_retries = a->max_task_retries;
    if (opts->refused) sk_gtask_fail(x, t, SK_EINFEASIBLE, opts->refused);
    else if (a && a->why) sk_gtask_fail(x, t, SK_EACTOR, "its actor is dead");
    else sk_gtask_try(x, t);
out:
    while (rc != SK_OK && made) sk_gobj_unref(x, base + --made);
    return rc;
}

void sk_gtask_free(struct sk_ghost *x, struct sk_gtask *t) {
    sk_list_del(&t->link);
    sk_list_del(&t->call);
    if (sk_map_get(&x->tasks, t->id) == t) sk_map_del(&x->tasks, t->id);
    for (uint32_t i = 0; i < t->n_args; i++) {
        sk_list_del(&t->args[i].lack);
        if (t->args[i].ref) sk_own_unhold(x->own, t->args[i].ref);
        sk_gval_unref(x, t->args[i].val);
    }
    for (uint32_t i = 0; i < t->n_contains; i++) sk_own_unhold(x->own, t->contains[i]);
    sk_free(t->name);
    sk_free(t->args);
    sk_free(t->contains);
    sk_free(t);
    sk_gobj_drain(x);
}

/* ---- to the guest ---------------------------------------------------------------------------- */

static void tell(struct sk_ghost *x, struct sk_gtask *t) {
    SK_ASSERT(!t->told && !t->n_lacking);
    t->told = true;
    sk_list_del(&t->call);
    sk_list_del(&t->link);
    sk_list_push_back(&x->told, &t->link);
    sk_ghost_order(x, (struct sk_gorder){.kind = SK_GORDER_SUBMIT, .id = t->id});
}

/* Gives the calls that can begin to the guest. */
static void flush(struct sk_ghost *x, struct sk_gactor *a) {
    if (!a->started || a->ended) return;
    SK_LIST_EACH (by, &a->callers)
        SK_LIST_EACH_SAFE (it, tmp, &sk_container_of(by, struct sk_gcaller, link)->calls) {
            struct sk_gtask *t = sk_container_of(it, struct sk_gtask, call);
            if (!t->n_lacking) tell(x, t);
            else if (!a->n_groups) break; /* those behind it keep their order */
        }
}

void sk_gtask_try(struct sk_ghost *x, struct sk_gtask *t) {
    struct sk_gactor *a = t->actor && !t->is_init ? sk_map_get(&x->actors, t->actor) : NULL;
    if (a && sk_list_empty(&t->call)) sk_list_push_back(&t->by->calls, &t->call);
    if (t->n_lacking) return;
    if (!a) tell(x, t);
    else if (!a->n_groups) flush(x, a);
    else if (a->started && !a->ended) tell(x, t);
}

void sk_gtask_exists(struct sk_ghost *x, uint64_t id, struct sk_gobj *o) {
    sk_gobj_came(x, id, o);
    for (struct sk_list *it; (it = sk_list_first(&o->lacking));) {
        struct sk_gtask *t = sk_container_of(it, struct sk_garg, lack)->of;
        sk_list_del(it);
        SK_ASSERT(t->n_lacking > 0 && !t->told);
        if (!--t->n_lacking) sk_gtask_try(x, t);
    }
    sk_gwatch_tell(x, id);
}

/* ---- from the guest -------------------------------------------------------------------------- */

static void emit(struct sk_ghost *x, const struct sk_gtask *t, struct sk_event ev,
                 const struct sk_err *err) {
    if (!t->sink) return;
    ev.task.v = t->id;
    ev.tag = t->sink_tag;
    struct sk_gout o = {
        .sink = t->sink, .ev = ev, .err = err ? sk_memdup(TAG, err, sizeof *err) : NULL};
    if (ev.note.n) {
        SK_ASSERT(ev.note.n <= SK_NOTE_MAX);
        o.ev.note.p = o.note = sk_memdup(TAG, ev.note.p, ev.note.n);
    }
    /* no memory: the sink's run would never end */
    if ((err && !o.err) || (ev.note.n && !o.note) || !sk_vec_push(&x->out, TAG, o)) abort();
    pthread_cond_signal(&x->todo);
}

/* Makes an object of a value that arrived with an event; takes over the value. 0: there was no
 * memory, and the value is dropped. */
static uint64_t object_of(struct sk_ghost *x, const struct sk_gtask *t,
                          const struct sk_guest_value *v, uint64_t size, uint32_t node) {
    uint64_t id = x->next_id++;
    struct sk_gval *val = v->handle ? NULL : sk_gval_new(v->kind, v->bytes);
    sk_rc rc = v->handle || val ? sk_gobj_new(x, id, t->id, val, NULL, 0, NULL) : SK_ENOMEM;
    if (rc != SK_OK) {
        sk_gval_unref(x, val);
        sk_ghost_drop(x, v->handle);
        return 0;
    }
    struct sk_gobj *o = sk_own_get(x->own, id);
    o->handle = v->handle;
    o->size = SK_MAX(o->size, size);
    o->node = node;
    return id;
}

/* Gives return object i its value; takes over *v. */
static void returned(struct sk_ghost *x, const struct sk_gtask *t, uint32_t i,
                     const struct sk_guest_value *v, struct sk_gval *val) {
    struct sk_gobj *o = sk_own_get(x->own, t->first + i);
    if (o && !sk_gobj_there(o)) {
        /* Else nothing refers to the return object any more, or it is the `ready` object of an
         * actor that began again, and has a value already. */
        o->handle = v ? v->handle : NULL;
        o->val = o->handle ? NULL : v ? sk_gval_new(v->kind, v->bytes) : sk_gval_ref(val);
        if (!sk_gobj_there(o)) o->val = sk_gval_error(SK_ENOMEM, "no memory for a value");
        sk_gtask_exists(x, t->first + i, o);
    } else if (v) sk_ghost_drop(x, v->handle);
}

void sk_gtask_over(struct sk_ghost *x, struct sk_gtask *t) {
    struct sk_gactor *a = t->actor ? sk_map_get(&x->actors, t->actor) : NULL;
    bool held_back = t->is_init || (a && !a->n_groups); /* calls that can begin now */
    uint64_t first = t->first, foreign = t->abroad ? t->actor : 0;
    uint32_t n = t->abroad ? sk_foreign_n_names(t->n_returns) : 0;
    if (t->abroad && t->n_returns == SK_STREAMING) sk_gobj_unref(x, first); /* the end */
    if (t->caller)
        sk_ghost_order(x, (struct sk_gorder){
                              .kind = SK_GORDER_ENDED, .id = t->caller_first, .node = t->caller});
    if (t->abroad) sk_map_del(&x->abroad, first);
    sk_list_del(&t->call);
    if (t->by) call_over(a, t);
    sk_gtask_free(x, t);
    for (uint32_t i = 0; i < n; i++) /* returns that were released before the call had ended */
        if (!sk_own_has(x->own, first + i))
            sk_ghost_order(x, (struct sk_gorder){.kind = SK_GORDER_UNHOLD, .id = first + i});
    if (foreign) sk_gobj_unref(x, foreign);
    if (a) {
        SK_ASSERT(a->n_calls > 0);
        if (held_back) flush(x, a);
        a->n_calls--;
        sk_gactor_maybe_end(x, a);
    }
    pthread_cond_broadcast(&x->moved);
}

/* Ends the task with this error value, which is taken over. */
static void failed(struct sk_ghost *x, struct sk_gtask *t, struct sk_gval *why,
                   struct sk_event ev) {
    struct sk_gactor *a = t->actor ? sk_map_get(&x->actors, t->actor) : NULL;
    struct sk_err err = {.code = SK_ETASK};
    if (a && a->why && !t->is_init) { /* calls of a failed actor end with the actor's error */
        sk_gval_unref(x, why);
        why = sk_gval_ref(a->why);
    }
    int32_t code = SK_ETASK;
    if (why->kind == SK_KIND_ENGINE_ERROR && why->len > 4) {
        memcpy(&code, why->data, 4);
        snprintf(err.msg, sizeof err.msg, "%.*s", (int)SK_MIN(why->len - 4, sizeof err.msg - 1),
                 (const char *)why->data + 4);
        err.code = code;
    } else {
        snprintf(err.msg, sizeof err.msg, "%s has failed", t->name);
    }
    if (a && !t->is_init && err.code == SK_EACTOR && !ev.actor_lives)
        sk_gactor_let_go(x, a); /* it is dead; this call keeps it until it has ended */
    for (uint32_t i = 0; t->n_returns != SK_STREAMING && i < t->n_returns; i++)
        returned(x, t, i, NULL, why);
    if (t->sink) {
        struct sk_guest_value v = {.kind = why->kind, .bytes = {why->data, why->len}};
        ev.kind = SK_EV_FAILED;
        ev.oid.v = object_of(x, t, &v, 0, 0);
        emit(x, t, ev, &err);
    }
    if (has_stream(t)) sk_gstream_over(x, t->id, why);
    if (a && t->is_init) {
        /* the guest may have made a process for the actor already */
        if (t->told)
            sk_ghost_order(x, (struct sk_gorder){.kind = SK_GORDER_ACTOR_END, .id = a->id});
        sk_gactor_die(x, a, sk_gval_ref(why));
    }
    sk_gval_unref(x, why);
    sk_gtask_over(x, t);
}

void sk_gtask_fail(struct sk_ghost *x, struct sk_gtask *t, sk_rc code, const char *text) {
    failed(x, t, sk_gval_error(code, text), (struct sk_event){.kind = SK_EV_FAILED});
}

static void done(struct sk_ghost *x, struct sk_gtask *t, const struct sk_guest_event *ev,
                 struct sk_event out) {
    if (t->n_returns != SK_STREAMING && ev->n_values != t->n_returns) {
        char text[200];
        snprintf(text, sizeof text, "%s: the engine gave %u values, and %u are to come", t->name,
                 ev->n_values, t->n_returns);
        sk_gtask_fail(x, t, SK_ECORRUPT, text);
        return;
    }
    for (uint32_t i = 0; t->n_returns != SK_STREAMING && i < t->n_returns; i++) {
        struct sk_gobj *o = sk_own_get(x->own, t->first + i);
        if (o && !o->size) o->size = ev->sizes ? ev->sizes[i] : 0;
        if (o) o->node = ev->node;
        returned(x, t, i, &ev->values[i], NULL);
    }
    struct sk_gactor *a = t->is_init ? sk_map_get(&x->actors, t->actor) : NULL;
    if (a) a->started = true;
    emit(x, t, out, NULL);
    if (has_stream(t)) sk_gstream_over(x, t->id, NULL);
    sk_gtask_over(x, t);
}

void sk_gtask_event(struct sk_ghost *x, const struct sk_guest_event *ev) {
    struct sk_gtask *t = sk_map_get(&x->tasks, ev->task);
    struct sk_event out = {
        .kind = ev->kind, .attempt = ev->attempt, .node = ev->node, .run_ns = ev->run_ns};
    if (ev->kind == SK_EV_YIELDED || ev->kind == SK_EV_DONE) out.note = ev->note;
    if (!t) { /* the host ended the task before this event arrived */
        /* of a constructor: its actor is dead */
        struct sk_gactor *a = sk_map_get(&x->actors, ev->task - 1);
        if (a && a->started && x->g.actors && ev->kind == SK_EV_FAILED) {
            a->n_calls++; /* keeps it */
            sk_gactor_let_go(x, a);
            a->n_calls--;
            sk_gactor_maybe_end(x, a);
        }
        for (uint32_t i = 0; i < ev->n_values; i++) sk_ghost_drop(x, ev->values[i].handle);
        return;
    }
    if (ev->kind == SK_EV_DONE || ev->kind == SK_EV_FAILED) sk_gshow_ended(x, t, ev);
    switch (ev->kind) {
    case SK_EV_STARTED: emit(x, t, out, NULL); break;
    case SK_EV_YIELDED:
        for (uint32_t i = 0; i < ev->n_values; i++) {
            struct sk_gstream *s = has_stream(t) ? sk_map_get(&x->streams, t->id) : NULL;
            /* the reader of a stream wants the values only */
            if (s && !ev->values[i].handle && ev->values[i].kind == SK_KIND_NOTE) continue;
            out.size_bytes = ev->sizes ? ev->sizes[i] : ev->values[i].bytes.n;
            out.oid.v = object_of(x, t, &ev->values[i], out.size_bytes, ev->node);
            if (out.oid.v && s) sk_gstream_yielded(x, t->id, s, out.oid.v);
            else if (out.oid.v) emit(x, t, out, NULL);
        }
        break;
    case SK_EV_DONE: done(x, t, ev, out); break;
    case SK_EV_FAILED:
        out.actor_lives = ev->actor_lives;
        failed(x, t,
               ev->n_values && !ev->values->handle
                   ? sk_gval_new(ev->values->kind, ev->values->bytes)
                   : sk_gval_error(ev->code ? ev->code : SK_ETASK,
                                   ev->text ? ev->text : "the task failed"),
               out);
        break;
    case SK_EV_SPILLED:
    case SK_EV_RESTORED: break; /* a guest does not report moves (moves.h) */
    }
}

void sk_gtask_cancel(struct sk_ghost *x, uint64_t id, uint32_t flags) {
    struct sk_gtask *t = sk_map_get(&x->tasks, id);
    const struct sk_gobj *o = t ? NULL : sk_own_get(x->own, id);
    if (o && o->task) t = sk_map_get(&x->tasks, o->task);
    struct sk_gorder stop = {.kind = SK_GORDER_STOP, .flags = flags, .of = id, .id = id};
    if (o && o->foreign && !sk_gobj_there(o)) sk_ghost_order(x, stop);
    if (!t) return;
    if (t->abroad) {
        stop.of = t->actor;
        stop.id = t->first;
        sk_ghost_order(x, stop);
    } else if (!t->told && !t->is_init)
        sk_gtask_fail(x, t, SK_ECANCEL, "the task was cancelled before it began");
    else
        sk_ghost_order(x,
                       (struct sk_gorder){.kind = SK_GORDER_CANCEL, .id = t->id, .flags = flags});
}

/* ---- actors ---------------------------------------------------------------------------------- */

void sk_gactor_free(struct sk_ghost *x, struct sk_gactor *a) {
    if (!a) return;
    sk_name_free(&a->name);
    while (!sk_list_empty(&a->callers))
        caller_free(sk_container_of(sk_list_first(&a->callers), struct sk_gcaller, link));
    sk_gval_unref(x, a->why);
    sk_free(a->groups);
    sk_free(a);
}

void sk_gactor_let_go(struct sk_ghost *x, struct sk_gactor *a) {
    sk_name_free(&a->name);
    if (!a->detached) return;
    a->detached = false;
    sk_own_unhold(x->own, a->ready);
    sk_gobj_drain(x);
}

void sk_gactor_maybe_end(struct sk_ghost *x, struct sk_gactor *a) {
    if (a->n_handles || !a->ready_gone || a->n_calls) return;
    if (!a->ended)
        sk_ghost_order(
            x, (struct sk_gorder){.kind = SK_GORDER_ACTOR_END, .id = a->id, .how = SK_GUEST_LEAVE});
    sk_map_del(&x->actors, a->id);
    sk_gactor_free(x, a);
}

sk_rc sk_gactor_end(struct sk_ghost *x, uint64_t id, bool no_restart, struct sk_err *err) {
    struct sk_gactor *a = sk_map_get(&x->actors, id);
    if (!a && sk_gref_is_foreign(x, id)) {
        sk_ghost_order(x, (struct sk_gorder){.kind = SK_GORDER_KILL, .id = id, .flag = no_restart});
        return SK_OK;
    }
    if (!a) return SK_ERR(err, SK_ENOENT, "no such actor");
    if (a->ended) return SK_OK;
    sk_ghost_order(x, (struct sk_gorder){.kind = SK_GORDER_ACTOR_END,
                                         .id = a->id,
                                         .how = no_restart ? SK_GUEST_KILL : SK_GUEST_RESTART});
    if (!no_restart) return SK_OK;
    /* this count keeps `a` alive: the calls that end with the actor may hold its last references */
    a->n_calls++;
    sk_gactor_die(x, a, sk_gval_error(SK_EACTOR, "the actor is dead: it was killed by `ray.kill`"));
    a->n_calls--;
    sk_gactor_maybe_end(x, a);
    return SK_OK;
}

/* A call that waits; NULL: there is none. */
static struct sk_gtask *waiting(const struct sk_gactor *a) {
    SK_LIST_EACH (by, &a->callers) {
        struct sk_list *it = sk_list_first(&sk_container_of(by, struct sk_gcaller, link)->calls);
        if (it) return sk_container_of(it, struct sk_gtask, call);
    }
    return NULL;
}

/* Ends an actor together with its waiting calls; the guest ends the calls that it was given. The
 * caller has to count itself as a call, or the last of these calls would free the actor. */
void sk_gactor_die(struct sk_ghost *x, struct sk_gactor *a, struct sk_gval *why) {
    SK_ASSERT(a->n_calls > 0);
    if (a->why) {
        sk_gval_unref(x, why);
        return;
    }
    a->why = why;
    a->ended = true;
    sk_gactor_let_go(x, a); /* the caller's count keeps it */
    for (struct sk_gtask *t; (t = waiting(a));)
        failed(x, t, sk_gval_ref(why), (struct sk_event){.kind = SK_EV_FAILED});
}
