/* task.c - the life of a task in the driver: it is made, waits for its arguments, becomes ready,
 * and ends with values, an error or a cancel. Runs with the lock held.
 *
 * Not here: the choice of a worker (engine/place), the message to a worker (send.c), yields
 * (stream.c), running it again for lost values (recover.c). Invariant: a task under way holds
 * its arguments; however it ends, sk_ltask_end is the last step, after everything that waits for
 * the task was told. */
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/mem.h"
#include "base/containers/vec.h"
#include "engine/foreign.h"
#include "engine/local/driver/local_int.h"

#define TO(state) (1u << SK_T_##state)
const struct sk_tstate_row sk_tstates[SK_T_STATES] = {
    [SK_T_WAITING] = {"waits for arguments", TO(READY) | TO(FAILED), false, true},
    [SK_T_READY] = {"ready", TO(SENT) | TO(WAITING) | TO(FAILED), false, true},
    [SK_T_SENT] = {"on a worker", TO(LEFT), true, true},
    [SK_T_LEFT] = {"off its worker", TO(READY) | TO(DONE) | TO(FAILED), false, true},
    /* READY follows for a constructor whose actor is started again */
    [SK_T_DONE] = {"done", TO(ENDED) | TO(READY), false, false},
    [SK_T_FAILED] = {"failed", TO(ENDED), false, false},
    [SK_T_ENDED] = {"ended", TO(WAITING), false, false},
};
_Static_assert(SK_T_STATES <= 8, "a bit for each");

void sk_ltasks_init(struct sk_local *l, int32_t retries) {
    sk_map_init(&l->tasks, SK_TAG_ENGINE);
    sk_list_init(&l->due.tasks);
    l->task_retries = retries;
}

/* Frees what belongs to a task besides its entry. */
static void free_parts(struct sk_ltask *t) {
    sk_ltask_extra_free(t);
    sk_inl_drop(t->end_inl);
    sk_vec_free(&t->yields);
    sk_vec_free(&t->note_hash);
    sk_free(t);
}

void sk_ltasks_abandon(struct sk_local *l) {
    uint64_t id;
    void *v;
    struct sk_err e = {.code = SK_ECLOSED, .msg = "the engine was shut down"};
    for (uint32_t i = 0; sk_map_next(&l->tasks, &i, &id, &v);) {
        struct sk_event ev = {.kind = SK_EV_FAILED, .err = &e};
        if (((struct sk_ltask *)v)->state < SK_T_DONE) sk_ltask_emit(v, &ev);
    }
}

void sk_ltasks_free(struct sk_local *l) {
    uint64_t id;
    void *v;
    for (uint32_t i = 0; sk_map_next(&l->tasks, &i, &id, &v);) {
        sk_deps_free(((struct sk_ltask *)v)->stream_waiters);
        free_parts(v);
    }
    sk_map_deinit(&l->tasks);
}

static uint32_t n_return_objects(const struct sk_ltask *t) {
    return sk_ltask_is_stream(t) ? 0 : t->spec.n_returns;
}

void sk_ltask_forget_deps(struct sk_ltask *t) {
    sk_dep_forget(t->waits);
    SK_DCHECK(!t->waits);
    t->n_unready = 0;
}

void sk_ltask_let_args_go(struct sk_local *l, struct sk_ltask *t) {
    if (!t->holds_args) return;
    t->holds_args = false;
    sk_parts_drop(l, t);
    struct sk_rd r = sk_rd_init(t->spec.args, t->spec.args_len);
    for (uint32_t i = 0; i < t->spec.n_args; i++) {
        struct sk_val v;
        sk_rd_val(&r, &v);
        if (v.oid) sk_own_unhold(l->own, v.oid);
    }
    for (uint32_t i = 0; i < t->spec.n_contains; i++) sk_own_unhold(l->own, t->spec.contains[i]);
}

/* Ends the rule that the task runs alone. */
static void not_alone(struct sk_local *l, struct sk_ltask *t) {
    SK_ASSERT(l->n_alone > 0);
    t->place.shape = t->spec.shape;
    l->n_alone--;
}

sk_rc sk_ltask_run_alone(struct sk_local *l, struct sk_ltask *t, struct sk_err *err) {
    if (sk_ltask_alone(t)) return SK_OK;
    SK_TRY(sk_place_alone(&l->place, t->spec.shape, &t->place.shape, err));
    SK_ASSERT(sk_ltask_alone(t));
    l->n_alone++;
    return SK_OK;
}

void sk_ltask_stopped_for_memory(struct sk_ltask *t) { t->n_oom++; }

void sk_ltask_reopened(struct sk_local *l) { l->n_open++; }

/* Ends a task: its arguments are let go (a constructor that may run again keeps them), and its
 * entry leaves the table. */
void sk_ltask_end(struct sk_local *l, struct sk_ltask *t) {
    /* no worker uses what is freed here, and no task ends twice */
    SK_ASSERT(t->state == SK_T_DONE || t->state == SK_T_FAILED);
    SK_DCHECK(l->n_open);
    l->n_open--;
    sk_ltask_forget_deps(t);
    if (t->state == SK_T_DONE) sk_state_ended(l, t, 0, (struct sk_bytes){"", 0});
    if (t->kept != SK_KEPT_NO || sk_ltask_is_stream(t) || t->remake) l->upcalls->ended(l, t);
    if (t->kind != SK_TASK_INIT || t->actor->state == SK_A_DEAD || t->actor->restarts_left == 0)
        sk_ltask_let_args_go(l, t);
    if (SK_UNLIKELY(sk_ltask_alone(t))) not_alone(l, t);
    sk_list_del(&t->on);
    sk_list_del(&t->place.link); /* removes the task from l->due.tasks, if it is there */
    sk_progressed(l);
    if (t->actor) {
        if (t->kind == SK_TASK_INIT)
            return; /* a constructor is kept for restarts, and freed with the actor */
        l->upcalls->call_over(t);
    }
    sk_ltask_to(t, SK_T_ENDED);
    if (sk_ltask_is_stream(t) && !t->sink && t->stream != SK_STREAM_DROPPED)
        return; /* the yields are still to be read; stream_drop frees the task */
    sk_ltask_free(l, t);
}

void sk_ltask_extra_free(struct sk_ltask *t) {
    struct sk_task_extra *a = t->extra;
    if (!a) return;
    for (uint32_t i = 0; i < a->vals.n; i++) sk_inl_drop(a->vals.p[i].inl);
    sk_vec_free(&a->vals);
    sk_vec_free(&a->wanted);
    sk_vec_free(&a->old);
    sk_vec_free(&a->parts);
    sk_free(a);
    t->extra = NULL;
}

sk_rc sk_ltask_enter(struct sk_local *l, struct sk_ltask *t) {
    if (sk_map_put(&l->tasks, t->id, t) != SK_OK) return SK_ENOMEM;
    if (!sk_ltask_over(t)) l->n_open++;
    if (sk_ltask_is_stream(t) && !t->sink && t->owner != SK_PROC_DRIVER) l->n_worker_streams++;
    if (t->spec.parent) l->n_nested++;
    return SK_OK;
}

/* Makes the entry of a stream that no task of this engine fills. NULL: no memory. */
static struct sk_ltask *stream_only(struct sk_local *l, uint32_t proc, uint64_t id) {
    struct sk_ltask *t = sk_calloc(SK_TAG_ENGINE, sizeof *t);
    if (!t) return NULL;
    t->id = id;
    t->owner = proc;
    t->spec.n_returns = SK_STREAMING;
    sk_list_init(&t->on);
    sk_list_init(&t->place.link);
    t->state = SK_T_ENDED;
    if (sk_ltask_enter(l, t) == SK_OK) return t;
    sk_free(t);
    return NULL;
}

sk_rc sk_ltask_stream_abroad(struct sk_local *l, uint32_t proc, uint64_t id, uint32_t window,
                             struct sk_err *err) {
    struct sk_ltask *t = stream_only(l, proc, id);
    if (!t) return SK_ERR(err, SK_ENOMEM, "no memory for a stream");
    t->kind = SK_TASK_ABROAD;
    t->spec.stream_window = window;
    return SK_OK;
}

void sk_ltask_refused_stream(struct sk_local *l, uint32_t proc, uint64_t id, struct sk_inl *error) {
    struct sk_ltask *t = stream_only(l, proc, id);
    if (!t) return;
    t->stream = SK_STREAM_OVER;
    t->end_error = sk_obj_error(l, SK_KIND_ENGINE_ERROR, error ? (void *)error->bytes : (void *)"",
                                error ? error->len : 0);
    sk_stream_ended(l, t, true, SK_KIND_ENGINE_ERROR, error);
}

void sk_ltask_free(struct sk_local *l, struct sk_ltask *t) {
    SK_DCHECK(!t->waits && !t->worker && sk_list_empty(&t->on) && sk_list_empty(&t->place.link));
    if (sk_map_del(&l->tasks, t->id)) {
        if (!sk_ltask_over(t)) l->n_open--; /* it could not even begin */
        if (sk_ltask_is_stream(t) && !t->sink && t->owner != SK_PROC_DRIVER) l->n_worker_streams--;
        SK_DCHECK(!t->spec.parent || l->n_nested);
        if (t->spec.parent) l->n_nested--;
    }
    if (t->kept == SK_KEPT_YES) return; /* lineage still keeps the task */
    free_parts(t);
}

void sk_ltask_kept_free(struct sk_local *l, struct sk_ltask *t) {
    SK_DCHECK(t->kept == SK_KEPT_YES);
    t->kept = SK_KEPT_TRIED;
    /* otherwise the code that is working on the task frees it */
    if (t->state == SK_T_ENDED &&
        (!sk_ltask_is_stream(t) || t->sink || t->stream == SK_STREAM_DROPPED))
        sk_ltask_free(l, t);
}

void sk_ltask_emit(struct sk_ltask *t, struct sk_event *ev) {
    if (!t->sink || t->remake) return;
    ev->task = (sk_tid){t->id};
    ev->tag = t->spec.sink_tag;
    ev->attempt = t->attempt;
    ev->node = SK_LOCAL_NODE;
    t->sink->on_events(t->sink, ev, 1);
}

/* Ends a task with an error value: of its user code, of an argument, or of the engine. */
void sk_ltask_finish_error(struct sk_local *l, struct sk_ltask *t, uint32_t kind, const void *bytes,
                           size_t n) {
    struct sk_inl *shared = sk_inl_new(bytes, n);
    sk_ltask_to(t, SK_T_FAILED); /* from here on a cancel by the sink has no effect */
    sk_state_ended(l, t, kind, (struct sk_bytes){bytes, n});
    for (uint32_t i = 0; i < n_return_objects(t); i++) {
        struct sk_obj *o = sk_obj_get(l, t->first + i);
        if (o && o->state == SK_O_PENDING) sk_obj_set_inline(l, o, kind, shared);
    }
    if (sk_ltask_is_stream(t) && t->remake) sk_stream_fail_rest(l, t, kind, shared);
    if (sk_ltask_is_stream(t) && !t->sink && t->stream != SK_STREAM_DROPPED && !t->remake) {
        t->end_error = sk_obj_error(l, kind, bytes, n);
        if (!t->end_error) t->end_rc = SK_ENOMEM;
        sk_stream_over(l, t);
    }
    if (sk_ltask_is_stream(t)) sk_stream_ended(l, t, true, kind, shared);
    if (t->sink && !t->remake) {
        struct sk_err e = {.code = SK_ETASK};
        if (kind == SK_KIND_ENGINE_ERROR && n > 4) {
            int32_t rc;
            memcpy(&rc, bytes, 4);
            e.code = rc;
            snprintf(e.msg, sizeof e.msg, "%.*s", (int)SK_MIN(n - 4, sizeof e.msg - 1),
                     (const char *)bytes + 4);
        } else {
            char name[200];
            snprintf(e.msg, sizeof e.msg, "task %s raised", sk_ltask_name(l, t, name, sizeof name));
        }
        struct sk_event ev = {.kind = SK_EV_FAILED,
                              .oid = {sk_obj_error(l, kind, bytes, n)},
                              .err = &e,
                              .run_ns = t->end_ns > t->start_ns ? t->end_ns - t->start_ns : 0,
                              .start_ns = t->start_ns,
                              .pid = t->ran_on,
                              .actor_lives = t->actor_lives};
        sk_ltask_emit(t, &ev);
    }
    if (t->kind == SK_TASK_INIT && t->actor->state != SK_A_DEAD) {
        /* the actor's calls end with the same error */
        struct sk_lactor *a = t->actor;
        sk_ltask_end(l, t);
        l->upcalls->init_failed(l, a, kind, shared);
        return;
    }
    sk_inl_drop(shared);
    sk_ltask_end(l, t);
}

void sk_ltask_fail(struct sk_local *l, struct sk_ltask *t, sk_rc rc, const char *fmt, ...) {
    char buf[1400];
    int32_t code = rc;
    memcpy(buf, &code, 4);
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(buf + 4, sizeof buf - 4, fmt, ap);
    va_end(ap);
    sk_ltask_finish_error(l, t, SK_KIND_ENGINE_ERROR, buf,
                          4 + SK_MIN((size_t)n, sizeof buf - 5) + 1);
}

sk_rc sk_ltask_look(struct sk_local *l, struct sk_ltask *t, bool errors) {
    struct sk_rd r = sk_rd_init(t->spec.args, t->spec.args_len);
    bool bad = false;
    SK_DCHECK(!t->worker && (t->state == SK_T_WAITING || t->state == SK_T_READY));
    if (t->n_unready) sk_ltask_forget_deps(t);
    for (uint32_t i = 0; i < t->spec.n_args; i++) {
        struct sk_val v;
        sk_rd_val(&r, &v);
        struct sk_obj *o = v.oid ? sk_obj_get(l, v.oid) : NULL;
        if (!o) continue;
        if (o->gone) l->upcalls->lost(l, v.oid);
        if (o->state == SK_O_PENDING) {
            if (sk_dep_add(&o->deps, t, NULL) != SK_OK) {
                sk_ltask_forget_deps(t);
                return SK_ENOMEM;
            }
        }
        bad |= o->state == SK_O_READY && SK_KIND_IS_ERROR(o->kind);
        /* the value was made again, and is too short for the part */
        bad |= o->state == SK_O_READY && v.where == SK_V_PART &&
               !sk_part_within(i, v.off, v.len, o->len, NULL, 0);
    }
    t->seen_lost = (uint32_t)l->n_lost;
    if (!t->n_unready && !(errors && bad)) return SK_OK;
    if (t->state != SK_T_WAITING) sk_ltask_to(t, SK_T_WAITING);
    return SK_EAGAIN;
}

/* Called when the arguments exist. True: a part goes beyond its value, and the task has ended
 * with that error. */
static bool too_far(struct sk_local *l, struct sk_ltask *t) {
    struct sk_rd r = sk_rd_init(t->spec.args, t->spec.args_len);
    char text[200], name[200];
    for (uint32_t i = 0; i < t->spec.n_args; i++) {
        struct sk_val v;
        sk_rd_val(&r, &v);
        if (v.where != SK_V_PART) continue;
        const struct sk_obj *o = sk_obj_get(l, v.oid);
        if (o->state == SK_O_ACTOR)
            (void)snprintf(text, sizeof text, "argument %u: a part of an actor, which has no bytes",
                           i);
        else if (sk_part_within(i, v.off, v.len, o->len, text, sizeof text)) continue;
        struct sk_lactor *a = t->kind == SK_TASK_CALL ? t->actor : NULL;
        sk_ltask_fail(l, t, SK_EINVAL, "task %s: %s", sk_ltask_name(l, t, name, sizeof name), text);
        if (a) l->upcalls->advance(l, a);
        return true;
    }
    return false;
}

/* Call when all arguments exist: an error among them becomes the task's result; otherwise the task
 * may be placed. */
void sk_ltask_ready(struct sk_local *l, struct sk_ltask *t) {
    SK_DCHECK(t->state == SK_T_WAITING && t->holds_args);
    struct sk_rd r = sk_rd_init(t->spec.args, t->spec.args_len);
    for (uint32_t i = 0; i < t->spec.n_args; i++) {
        struct sk_val v;
        sk_rd_val(&r, &v);
        if (!v.oid) continue;
        struct sk_obj *o = sk_obj_get(l, v.oid);
        if (SK_UNLIKELY(o && (o->gone || o->state == SK_O_PENDING))) {
            sk_rc rc = sk_ltask_look(l, t, false);
            if (rc == SK_EAGAIN) return;
            if (rc != SK_OK) {
                struct sk_lactor *a = t->kind == SK_TASK_CALL ? t->actor : NULL;
                sk_ltask_fail(l, t, rc, "no memory to wait for the arguments of a task");
                if (a) l->upcalls->advance(l, a);
                return;
            }
        }
        if (o && o->state == SK_O_READY && SK_KIND_IS_ERROR(o->kind) && o->where == SK_V_INLINE) {
            struct sk_inl *e = o->u.inl;
            if (e) e->refs++;
            struct sk_lactor *a = t->kind == SK_TASK_CALL ? t->actor : NULL;
            sk_ltask_finish_error(l, t, o->kind, e ? (void *)e->bytes : (void *)"", e ? e->len : 0);
            sk_inl_drop(e);
            if (a) l->upcalls->advance(l, a);
            return;
        }
    }
    if (SK_UNLIKELY(t->spec.parts) && too_far(l, t)) return;
    SK_DCHECK(!t->waits && !t->worker);
    t->n_unready = 0;
    t->seen_lost = (uint32_t)l->n_lost;
    sk_ltask_to(t, SK_T_READY);
    if (t->held) l->upcalls->call_ready(t);
    if (t->actor) l->upcalls->advance(l, t->actor);
    else sk_place_push(&l->place, &t->place);
}

/* An error value ends a task that waits for it, and that task's error ends the next task: one loop
 * over a list, so that a chain of any length costs no stack. */
void sk_ltask_due(struct sk_local *l, struct sk_ltask *t) {
    SK_DCHECK(t->state == SK_T_WAITING && t->n_unready == 0);
    sk_list_push_back(&l->due.tasks, &t->place.link);
    if (l->due.looking) return;
    l->due.looking = true;
    for (struct sk_list *it; (it = sk_list_first(&l->due.tasks));) {
        sk_list_del(it);
        sk_ltask_ready(l, sk_container_of(sk_container_of(it, struct sk_place_task, link),
                                          struct sk_ltask, place));
    }
    l->due.looking = false;
}

/* Takes holds of the arguments, and counts those that do not exist yet. */
sk_rc sk_ltask_take_args(struct sk_local *l, struct sk_ltask *t, struct sk_err *err) {
    struct sk_rd r = sk_rd_init(t->spec.args, t->spec.args_len);
    uint32_t i = 0, c = 0;
    sk_rc rc = SK_OK;
    for (; i < t->spec.n_args; i++) {
        struct sk_val v;
        sk_rd_val(&r, &v);
        if (!v.oid) continue;
        sk_obj_meet(l, &v.oid, 1);
        rc = sk_own_hold(l->own, v.oid, err);
        if (rc != SK_OK) goto undo;
    }
    sk_obj_meet(l, t->spec.contains, t->spec.n_contains);
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
        SK_ASSERT(o); /* the argument is held since the loop above */
        if (o->state != SK_O_PENDING) continue;
        sk_obj_want(l, o);
        if (sk_dep_add(&o->deps, t, NULL) != SK_OK) {
            rc = SK_ERR(err, SK_ENOMEM, "no memory for the arguments of a task");
            sk_ltask_forget_deps(t);
            goto undo;
        }
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

sk_rc sk_ltask_make(struct sk_local *l, uint32_t proc, uint32_t level, uint64_t base,
                    struct sk_bytes spec, struct sk_sink *sink, struct sk_ltask **out,
                    struct sk_err *err) {
    struct sk_ltask *t = sk_calloc(SK_TAG_ENGINE, sizeof *t + spec.n);
    if (!t) return SK_ERR(err, SK_ENOMEM, "no memory for a task");
    memcpy(t->bytes, spec.p, spec.n);
    t->spec_len = spec.n;
    struct sk_rd r = sk_rd_init(t->bytes, spec.n);
    if (!sk_spec_read(&r, &t->spec)) {
        sk_free(t);
        return SK_ERR(err, SK_ECORRUPT, "a task specification is damaged");
    }
    if (!sk_place_shape_known(&l->place, t->spec.shape)) t->spec.shape = 0;
    if (t->spec.max_retries == SK_RETRIES_DEFAULT) t->spec.max_retries = l->task_retries;
    t->id = base;
    t->first = base + 1;
    t->sink = sink;
    t->owner = proc;
    t->submit_ns = l->now_ns;
    t->retries_left = t->spec.max_retries;
    t->place.shape = t->spec.shape;
    t->place.level = (uint8_t)SK_MIN(level, SK_PLACE_LEVELS - 1);
    sk_list_init(&t->on);
    sk_list_init(&t->place.link);
    sk_rc rc = sk_ltask_enter(l, t);
    if (rc != SK_OK) {
        sk_free(t);
        return SK_ERR(err, SK_ENOMEM, "no memory for the task table");
    }
    uint32_t n = n_return_objects(t), i = 0;
    for (; i < n; i++) {
        struct sk_obj *o = NULL;
        rc = sk_obj_new(l, t->first + i, proc, &o, err);
        if (rc != SK_OK) break;
        sk_recover_makes(o, t);
    }
    if (rc == SK_OK) rc = sk_ltask_take_args(l, t, err);
    if (rc != SK_OK) {
        while (i-- > 0) SK_IGNORE(sk_own_unref(l->own, t->first + i, proc, 1, NULL));
        sk_obj_drain(l);
        sk_ltask_free(l, t);
        return rc;
    }
    *out = t;
    return SK_OK;
}

void sk_ltask_next_attempt(struct sk_local *l, struct sk_ltask *t, sk_rc rc, const char *why) {
    sk_state_attempt(l, t, rc, why);
    t->attempt++;
}

void sk_ltask_again(struct sk_ltask *t, int32_t retries) {
    t->attempt++;
    t->retries_left = retries;
}

void sk_ltask_may_repeat(struct sk_ltask *t, int32_t retries) { t->retries_left = retries; }

void sk_ltask_charge(struct sk_ltask *t) {
    if (t->retries_left > 0) t->retries_left--;
}

void sk_ltask_retry(struct sk_local *l, struct sk_ltask *t, sk_rc rc, const char *why) {
    SK_DCHECK(!t->actor && t->holds_args);
    sk_ltask_next_attempt(l, t, rc, why);
    l->stats.n_retries++;
    if (t->stop == SK_STOP_RESTART) t->stop = SK_STOP_NONE;
    sk_ltask_queue(l, t);
}

void sk_ltask_queue(struct sk_local *l, struct sk_ltask *t) {
    SK_DCHECK(!t->actor && t->n_unready == 0);
    sk_ltask_to(t, SK_T_READY);
    sk_place_push(&l->place, &t->place);
}

void sk_ltask_fail_cancelled(struct sk_local *l, struct sk_ltask *t) {
    char name[200];
    const char *tn = sk_ltask_name(l, t, name, sizeof name);
    if (t->stop == SK_STOP_DIFFERS)
        sk_ltask_fail(l, t, SK_ETASK,
                      "task %s is not deterministic: run again after a worker died, its output %u "
                      "differs from the first run's; "
                      "make the function give the same output for the same input",
                      tn, t->differs);
    else if (t->stop == SK_STOP_LOST_YIELD)
        sk_ltask_fail(l, t, SK_ENOMEM, "task %s: no memory to record its output", tn);
    else t->stop = SK_STOP_STANDS, sk_ltask_fail(l, t, SK_ECANCEL, "task %s was cancelled", tn);
}

void sk_ltask_cancel(struct sk_local *l, struct sk_ltask *t, bool force) {
    char name[200];
    const char *tn = sk_ltask_name(l, t, name, sizeof name);
    /* a task that runs again for lost values has ended before */
    if (sk_ltask_over(t) || t->kind == SK_TASK_INIT || t->remake) return;
    sk_ltask_stop_for(t, SK_STOP_CANCELLED);
    struct sk_lactor *a = t->actor;
    if (t->state == SK_T_LEFT) return; /* the task is about to end */
    if (t->state == SK_T_SENT) {
        struct sk_lworker *w = t->worker;
        if (!sk_ltask_unsend(l, w, t)) {
            sk_stream_ask_to_stop(l, t);
            if (!a) sk_driver_link_interrupt_task(l, w, t->id);
            if (force && !a) sk_driver_link_kill_task(l, t, "a task on it was cancelled by force");
            return; /* the task ends when the worker reports it */
        }
    } else if (t->state == SK_T_READY && !a) {
        sk_place_unpush(&l->place, &t->place);
    }
    t->stop = SK_STOP_STANDS;
    sk_ltask_fail(l, t, SK_ECANCEL, "task %s was cancelled", tn);
    if (a) l->upcalls->advance(l, a); /* calls behind this one need not wait any more */
    sk_obj_drain(l);
}

void sk_ltask_handed_over(struct sk_local *l, struct sk_ltask *t) {
    SK_ASSERT(t->state == SK_T_READY && t->kind == SK_TASK_PLAIN && !t->attempt && !t->kept);
    sk_place_unpush(&l->place, &t->place);
    sk_ltask_let_args_go(l, t);
    sk_progressed(l);
    sk_ltask_free(l, t);
}

struct sk_verdict_task sk_ltask_case(struct sk_local *l, const struct sk_ltask *t) {
    return (struct sk_verdict_task){.id = t->id,
                                    .is_init = t->kind == SK_TASK_INIT,
                                    .is_call = t->actor && t->kind != SK_TASK_INIT,
                                    .begun = t->was_started,
                                    .cancelled = sk_ltask_cancelled(t),
                                    .group_gone = sk_place_shape_dead(&l->place, t->place.shape),
                                    .no_wait = t->spec.no_wait,
                                    .retries_left = t->retries_left};
}

/* Collects the tasks that tid has submitted, those that they have submitted, and so on: a walk
 * over all tasks for each generation. (A list of children in each task would cost every
 * submission.) If there is no memory for all of them, some are left out. */
static void descendants(struct sk_local *l, uint64_t tid, struct sk_obj_id_vec *ids) {
    uint64_t key;
    void *v;
    uint32_t round = ++l->n_cancel_rounds;
    for (bool more = l->n_nested != 0; more;) {
        more = false;
        for (uint32_t i = 0; sk_map_next(&l->tasks, &i, &key, &v);) {
            struct sk_ltask *t = v;
            if (t->cancel_round == round || t->kind == SK_TASK_INIT || !t->spec.parent) continue;
            const struct sk_ltask *p =
                t->spec.parent == tid ? NULL : sk_map_get(&l->tasks, t->spec.parent);
            if (t->spec.parent != tid && !(p && p->cancel_round == round)) continue;
            if (!sk_vec_push(ids, SK_TAG_ENGINE, key)) return;
            t->cancel_round = round;
            more = true;
        }
    }
}

/* Has what other engines run for this engine cancelled: the task that makes object `tid`, call
 * `tid`, and calls that task `tid`, or one of its descendants, has made. */
static void cancel_abroad(struct sk_local *l, uint64_t tid, const struct sk_obj_id_vec *ids,
                          uint32_t flags) {
    struct sk_foreign *f = l->foreign.server;
    const struct sk_obj *o = sk_obj_get(l, tid);
    uint64_t first;
    void *call;
    if (!f) return;
    if (o && o->foreign && o->state == SK_O_PENDING) f->cancelled(f, (sk_oid){tid}, flags);
    else if (sk_map_get(&l->foreign.calls, tid + 1)) f->cancelled(f, (sk_oid){tid + 1}, flags);
    if (!(flags & SK_CANCEL_CHILDREN)) return;
    for (uint32_t i = 0; sk_map_next(&l->foreign.calls, &i, &first, &call);) {
        uint64_t parent = ((const struct sk_abroad *)call)->parent;
        bool child = parent == tid;
        for (uint32_t k = 0; parent && !child && k < ids->n; k++) child = ids->p[k] == parent;
        if (child) f->cancelled(f, (sk_oid){first}, flags);
    }
}

void sk_ltask_cancel_by(struct sk_local *l, uint64_t tid, uint32_t flags) {
    struct sk_obj_id_vec ids = {0};
    const struct sk_obj *o = sk_map_get(&l->tasks, tid) ? NULL : sk_obj_get(l, tid);
    /* tid may be the id of a return of the task: some callers know only that */
    if (o && o->state == SK_O_PENDING && o->maker) tid = o->maker->id;
    if (flags & SK_CANCEL_CHILDREN) descendants(l, tid, &ids);
    cancel_abroad(l, tid, &ids, flags);
    struct sk_ltask *t = sk_map_get(&l->tasks, tid);
    if (t) sk_ltask_cancel(l, t, flags & SK_CANCEL_FORCE);
    /* each task is looked up again, since the end of one may end others */
    for (uint32_t i = 0; i < ids.n; i++)
        if ((t = sk_map_get(&l->tasks, ids.p[i])) != NULL)
            sk_ltask_cancel(l, t, flags & SK_CANCEL_FORCE);
    sk_vec_free(&ids);
}
