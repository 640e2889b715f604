/* inline.c - the engine that runs tasks in the thread that waits for them: for pdb, for unit tests, and as the model of `local`. This file is the
 * public side; values, tasks and the running of them are in engine/inline/.
 *
 * Not here: processes, zero copy, limits in time. A task is queued by submit and runs when somebody gets, waits, drives or reads a stream:
 * the first runnable one in order of submission or, with conf.seed, a random one of the first 64 runnable. Methods of an actor keep their order.
 * A streaming task runs to its end at once (stream_window is ignored: nobody else could take the values).
 *
 * Invariant: the lock is never held while user code runs (the runner takes the GIL, a caller may hold it), and reference counts are those
 * of own.c with everything in process 0. A wait that nobody can end (nothing runnable, nothing running elsewhere) is SK_ESTALL at once.
 * Cost: about 0.3 us a task besides the function. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "engine/actors.h"
#include "engine/conf.h"
#include "engine/custom.h"
#include "engine/groups.h"
#include "engine/inline/inline_int.h"
#include "engine/res.h"
#include "engine/state.h"
#include "engine/streams.h"

static struct sk_inline *of(struct sk_engine *e) { return sk_container_of(e, struct sk_inline, e); }

/* ---- the ops: functions, shapes ----------------------------------------------------------------------------------------------------- */

static sk_rc op_define(struct sk_engine *e, sk_fid fn, const char *name, struct sk_bytes def, struct sk_err *err) {
    struct sk_inline *x = of(e);
    sk_inline_lock(x);
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
    sk_inline_unlock(x);
    return rc;
}

static sk_rc op_res_index(struct sk_engine *e, const char *name, uint32_t *out, struct sk_err *err) {
    return sk_res_index(name, &of(e)->names_of_res, out, err);
}

static sk_rc op_more(struct sk_engine *e, const struct sk_amount *a, uint32_t n, uint32_t *out, struct sk_err *err) {
    struct sk_inline *x = of(e);
    SK_TRY(sk_res_check_more(a, n, x->place.more_total, &x->names_of_res, err));
    sk_inline_lock(x);
    sk_rc rc = sk_place_more(&x->place, a, n, out, err);
    sk_inline_unlock(x);
    return rc;
}

static size_t op_more_read(struct sk_engine *e, uint32_t more, struct sk_amount *out, size_t cap) {
    struct sk_inline *x = of(e);
    sk_inline_lock(x);
    size_t n = sk_place_more_read(&x->place, more, out, cap);
    sk_inline_unlock(x);
    return n;
}

static sk_rc op_nodes(struct sk_engine *e, struct sk_node *out, size_t cap, size_t *n, struct sk_err *err) {
    struct sk_inline *x = of(e);
    sk_inline_lock(x);
    sk_rc rc = x->closed ? SK_ERR(err, SK_ECLOSED, "the engine is shut down") : SK_OK;
    *n = 1;
    if (cap)
        *out = (struct sk_node){.number = 1,
                                .alive = true,
                                .name = "this process",
                                .total = x->place.total,
                                .free = x->place.avail,
                                .capacity_bytes = x->store_bytes,
                                .resident_bytes = x->bytes};
    sk_inline_unlock(x);
    return rc;
}

/* ---- the ops: tasks ------------------------------------------------------------------------------------------------------------------- */

static sk_rc op_submit(struct sk_engine *e, const struct sk_task_spec *s, sk_oid *first, sk_tid *tid, struct sk_err *err) {
    struct sk_inline *x = of(e);
    struct sk_itask *t = NULL;
    sk_rc rc = SK_OK;
    uint32_t n_ret = s->n_returns == SK_STREAMING ? 0 : s->n_returns, made = 0;
    sk_inline_lock(x);
    uint64_t base = x->next_id;
    struct sk_iactor *a = s->actor.v ? sk_map_get(&x->actors, s->actor.v) : NULL;
    if (x->closed) {
        rc = SK_ERR(err, SK_ECLOSED, "the engine is shut down");
        goto out;
    }
    if (s->actor.v && !a) {
        rc = SK_ERR(err, SK_EACTOR, "the actor is dead: no handle was left");
        goto out;
    }
    if (s->max_pending && a && a->n_calls - !a->started >= s->max_pending) {
        rc = SK_ERR(err, SK_EPENDING,
                    "%u calls (max_pending_calls) wait for the actor already; wait for some of their results, then call again",
                    s->max_pending);
        goto out;
    }
    x->next_id += n_ret;
    for (; made < n_ret; made++) SK_GO(sk_iobj_new(x, base + made, NULL, NULL, 0, err));
    SK_GO(sk_itask_make(x, s, n_ret, base, &t, err));
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
            sk_itask_finish(x, t, sk_blob_ref(a->why), 0);
            goto out;
        }
    }
    if (s->refused) sk_itask_finish_code(x, t, SK_EINFEASIBLE, s->refused);
    else sk_itask_enqueue(x, t);
out:
    if (rc != SK_OK)
        while (made) sk_iobj_unref(x, base + --made);
    sk_inline_unlock(x);
    return rc;
}

static sk_rc op_stream_next(struct sk_engine *e, sk_tid tid, int64_t deadline_ns, sk_oid *out, struct sk_err *err) {
    struct sk_inline *x = of(e);
    sk_rc rc = SK_OK;
    sk_inline_lock(x);
    for (;;) {
        struct sk_itask *t = sk_map_get(&x->tasks, tid.v);
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
            sk_itask_free(x, t);
            rc = SK_EDONE;
            break;
        }
        rc = sk_inline_step(x, deadline_ns, t->name, err);
        if (rc != SK_OK) break;
    }
    sk_inline_unlock(x);
    return rc;
}

static sk_rc op_stream_wait(struct sk_engine *e, sk_tid tid, int64_t deadline_ns, struct sk_err *err) {
    struct sk_inline *x = of(e);
    sk_rc rc = SK_OK;
    struct sk_itask *t;
    sk_inline_lock(x);
    while (rc == SK_OK && (t = sk_map_get(&x->tasks, tid.v)) != NULL && t->n_taken == t->yields.n && !t->finished)
        rc = sk_inline_step(x, deadline_ns, t->name, err);
    if (rc == SK_OK && (!t || (t->n_taken == t->yields.n && !t->stream_error))) rc = SK_EDONE;
    sk_inline_unlock(x);
    return rc;
}

/* Runs the task to its end. */
static sk_rc op_stream_end(struct sk_engine *e, sk_tid tid, uint32_t kind, sk_oid *out, struct sk_err *err) {
    struct sk_inline *x = of(e);
    sk_rc rc = SK_OK;
    struct sk_itask *t;
    struct sk_blob *b = NULL;
    sk_inline_lock(x);
    while (rc == SK_OK && (t = sk_map_get(&x->tasks, tid.v)) != NULL && !t->finished) rc = sk_inline_step(x, INT64_MAX, t->name, err);
    if (rc == SK_OK && !t) rc = SK_ERR(err, SK_ENOENT, "this stream was dropped");
    struct sk_iobj *o = rc == SK_OK && t->stream_error ? sk_own_get(x->own, t->stream_error) : NULL;
    if (o) b = sk_blob_ref(o->val);
    else if (rc == SK_OK) rc = sk_blob_bytes(x, kind, (struct sk_bytes){"", 0}, &b, err);
    if (rc == SK_OK) rc = sk_iobj_new(x, x->next_id, b, NULL, 0, err);
    if (rc == SK_OK) *out = (sk_oid){x->next_id++};
    else sk_blob_unref(x, b);
    sk_inline_unlock(x);
    return rc;
}

static void op_stream_drop(struct sk_engine *e, sk_tid tid) {
    struct sk_inline *x = of(e);
    sk_inline_lock(x);
    struct sk_itask *t = sk_map_get(&x->tasks, tid.v);
    if (t && t->streaming && !t->stream_dropped) {
        while (t->n_taken < t->yields.n) sk_iobj_unref(x, t->yields.p[t->n_taken++]);
        sk_iobj_unref(x, t->stream_error);
        t->stream_error = 0;
        if (t->finished) sk_itask_free(x, t);
        else t->stream_dropped = true;
    }
    sk_inline_unlock(x);
}

/* Tasks that run here wait for their children, or end before them: there are none to cancel with them. */
static sk_rc op_cancel(struct sk_engine *e, sk_tid tid, uint32_t flags, struct sk_err *err) {
    (void)flags;
    (void)err;
    struct sk_inline *x = of(e);
    sk_inline_lock(x);
    struct sk_itask *t = sk_map_get(&x->tasks, tid.v);
    if (t && !t->finished && !t->is_init) {
        t->cancelled = true;
        char msg[256];
        snprintf(msg, sizeof msg, "task %s was cancelled", t->name);
        if (t->queued) sk_itask_finish_code(x, t, SK_ECANCEL, msg);
    }
    sk_inline_unlock(x);
    return SK_OK;
}

static sk_rc op_actor_create(struct sk_engine *e, const struct sk_actor_spec *spec, sk_aid *out, sk_oid *ready, struct sk_err *err) {
    struct sk_inline *x = of(e);
    struct sk_iactor *a = NULL;
    struct sk_itask *t = NULL;
    bool made = false;
    sk_rc rc = SK_OK;
    struct sk_task_spec s = spec->init;
    s.n_returns = 1;
    s.actor = (sk_aid){0};
    sk_inline_lock(x);
    uint64_t id = x->next_id;
    if (x->closed) {
        rc = SK_ERR(err, SK_ECLOSED, "the engine is shut down");
        goto out;
    }
    x->next_id += 2; /* `ready`, then the actor */
    struct sk_aspec as = sk_aspec_of(spec);
    SK_GO(sk_aspec_check(&as, err));
    SK_GO(sk_iobj_new(x, id, NULL, NULL, 0, err));
    made = true;
    a = sk_calloc(TAG, sizeof *a);
    if (!a) {
        rc = SK_ERR(err, SK_ENOMEM, "actor");
        goto out;
    }
    *a = (struct sk_iactor){.id = id + 1,
                            .ready = id,
                            .n_handles = 1,
                            .n_calls = 1,
                            .restarts_left = spec->max_restarts,
                            .max_task_retries = spec->max_task_retries};
    sk_place_worker_init(&a->holds);
    SK_GO(sk_names_add(&x->names, "actor", as.space, as.name, as.meta, a, &a->name, err));
    if (as.detached) a->detached = sk_own_hold(x->own, id, NULL) == SK_OK;
    SK_GO(sk_itask_make(x, &s, 1, id, &t, err));
    SK_GO(sk_map_put(&x->actors, a->id, a));
    t->actor = a;
    t->is_init = true;
    t->p.t.actor.v = a->id;
    t->p.t.is_actor_init = true;
    a->init = t;
    if (s.refused) sk_itask_finish_code(x, t, SK_EINFEASIBLE, s.refused);
    else sk_itask_enqueue(x, t);
    out->v = a->id;
    ready->v = id;
out:
    if (rc != SK_OK) {
        if (t) sk_itask_free(x, t);
        if (a) {
            sk_name_free(&a->name);
            if (a->detached) sk_own_unhold(x->own, id);
        }
        sk_free(a);
        if (made) sk_iobj_unref(x, id);
    }
    sk_inline_unlock(x);
    return rc;
}

static sk_rc op_actor_find(struct sk_engine *e, const char *space, const char *name, sk_aid *out, sk_oid *ready, struct sk_bytes *meta,
                           struct sk_err *err) {
    struct sk_inline *x = of(e);
    sk_rc rc = SK_OK;
    sk_inline_lock(x);
    struct sk_name *n =
        sk_names_find(&x->names, (struct sk_bytes){space, space ? strlen(space) : 0}, (struct sk_bytes){name, strlen(name)});
    struct sk_iactor *a = n ? n->owner : NULL;
    void *copy = a ? sk_memdup(TAG, n->meta.n ? n->meta.p : "", n->meta.n ? n->meta.n : 1) : NULL;
    if (!a) rc = SK_ERR(err, SK_ENOENT, "there is no living actor named '%s'", name);
    else if (!copy) rc = SK_ERR(err, SK_ENOMEM, "actor %s", name);
    else rc = sk_own_ref(x->own, a->ready, ME, 1, err);
    if (rc == SK_OK) {
        a->n_handles++;
        out->v = a->id;
        ready->v = a->ready;
        *meta = (struct sk_bytes){copy, n->meta.n};
    } else {
        sk_free(copy);
    }
    sk_inline_unlock(x);
    return rc;
}

static size_t op_actor_names(struct sk_engine *e, char *buf, size_t cap) {
    struct sk_inline *x = of(e);
    sk_inline_lock(x);
    size_t n = sk_names_write(&x->names, buf, cap);
    sk_inline_unlock(x);
    return n;
}

static sk_rc op_actor_end(struct sk_engine *e, sk_aid aid, bool no_restart, struct sk_err *err) {
    struct sk_inline *x = of(e);
    sk_rc rc = SK_OK;
    sk_inline_lock(x);
    struct sk_iactor *a = sk_map_get(&x->actors, aid.v);
    if (!a) {
        rc = SK_ERR(err, SK_ENOENT, "no such actor");
    } else if (!a->dead && !no_restart && a->init->queued) {
        /* it is about to begin (anew) */
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
        struct sk_blob *why = NULL;
        char msg[200];
        snprintf(msg, sizeof msg, "actor %s is dead: it was killed by skate.kill", a->init ? a->init->name : "?");
        SK_GO(sk_blob_engine_error(x, SK_EACTOR, msg, &why));
        if (a->init && a->init->queued) sk_itask_finish_code(x, a->init, SK_EACTOR, msg);
        a = sk_map_get(&x->actors, aid.v);
        if (a) {
            a->n_calls++; /* the calls that end with it may be the last that hold it */
            sk_iactor_die(x, a, why);
            a->n_calls--;
            sk_iactor_maybe_end(x, a);
        } else {
            sk_blob_unref(x, why);
        }
    }
out:
    sk_inline_unlock(x);
    return rc;
}

/* ---- the ops: objects ------------------------------------------------------------------------------------------------------------------ */

static sk_rc op_buf_alloc(struct sk_engine *e, size_t len, struct sk_buf *out, struct sk_err *err) {
    struct sk_inline *x = of(e);
    struct sk_blob *b = NULL;
    sk_inline_lock(x);
    sk_rc rc = sk_blob_new(x, 0, len, &b, err);
    sk_inline_unlock(x);
    if (rc == SK_OK) *out = (struct sk_buf){b->data, len, (uintptr_t)b};
    return rc;
}

static void op_buf_abort(struct sk_engine *e, struct sk_buf *b) {
    struct sk_inline *x = of(e);
    sk_inline_lock(x);
    sk_blob_unref(x, (struct sk_blob *)(uintptr_t)b->token);
    sk_inline_unlock(x);
    *b = (struct sk_buf){0};
}

static sk_rc op_put(struct sk_engine *e, const struct sk_payload *p, sk_oid *out, struct sk_err *err) {
    struct sk_inline *x = of(e);
    struct sk_blob *b = NULL;
    sk_inline_lock(x);
    sk_rc rc = sk_blob_payload(x, p, &b, err);
    if (rc == SK_OK && x->closed) rc = SK_ERR(err, SK_ECLOSED, "the engine is shut down");
    uint64_t id = x->next_id++;
    if (rc == SK_OK) rc = sk_iobj_new(x, id, b, p->contains, p->n_contains, err);
    if (rc == SK_OK) out->v = id;
    else sk_blob_unref(x, b);
    sk_inline_unlock(x);
    return rc;
}

static sk_rc op_get(struct sk_engine *e, const sk_oid *ids, size_t n, int64_t deadline_ns, struct sk_view *out, struct sk_err *err) {
    struct sk_inline *x = of(e);
    sk_rc rc = SK_OK;
    sk_inline_lock(x);
    for (size_t i = 0; i < n && rc == SK_OK;) {
        struct sk_iobj *o = sk_own_get(x->own, ids[i].v);
        if (!o)
            rc = x->closed ? SK_ERR(err, SK_ECLOSED, "the engine is shut down")
                           : SK_ERR(err, SK_ELOST, "object %llx does not exist (any more)", (unsigned long long)ids[i].v);
        else if (o->val) i++;
        else rc = sk_inline_step(x, deadline_ns, "get", err);
    }
    for (size_t i = 0; rc == SK_OK && i < n; i++) /* an object that was there can be gone only if the caller let go of it meanwhile */
        if (!sk_iobj_val(x, ids[i].v)) rc = SK_ERR(err, SK_ELOST, "object %llx was released during the get", (unsigned long long)ids[i].v);
    for (size_t i = 0; rc == SK_OK && i < n; i++) out[i] = sk_blob_view(sk_blob_ref(sk_iobj_val(x, ids[i].v)), ids[i].v);
    sk_inline_unlock(x);
    return rc;
}

static void op_view_release(struct sk_engine *e, struct sk_view *v) {
    struct sk_inline *x = of(e);
    if (v->token) {
        sk_inline_lock(x);
        sk_blob_unref(x, (struct sk_blob *)(uintptr_t)v->token);
        sk_inline_unlock(x);
    }
    *v = (struct sk_view){0};
}

static sk_rc op_wait(struct sk_engine *e, const sk_oid *ids, size_t n, size_t want, int64_t deadline_ns, bool *ready, struct sk_err *err) {
    struct sk_inline *x = of(e);
    sk_rc rc = SK_OK;
    if (want > n) return SK_ERR(err, SK_EINVAL, "wait for %zu of %zu objects", want, n);
    sk_inline_lock(x);
    for (;;) {
        size_t have = 0;
        for (size_t i = 0; i < n && rc == SK_OK; i++) {
            struct sk_iobj *o = sk_own_get(x->own, ids[i].v);
            if (!o)
                rc = x->closed ? SK_ERR(err, SK_ECLOSED, "the engine is shut down")
                               : SK_ERR(err, SK_ELOST, "object %llx does not exist (any more)", (unsigned long long)ids[i].v);
            ready[i] = o && o->val;
            have += ready[i];
        }
        if (rc != SK_OK || have >= want) break;
        rc = sk_inline_step(x, deadline_ns, "wait", err);
        if (rc != SK_OK) break; /* step changes nothing when it fails: ready[] is right */
    }
    sk_inline_unlock(x);
    return rc;
}

static void op_retain(struct sk_engine *e, sk_oid o) {
    struct sk_inline *x = of(e);
    sk_inline_lock(x);
    struct sk_iactor *a = sk_map_get(&x->actors, o.v);
    if (a) a->n_handles++;
    else (void)!sk_own_ref(x->own, o.v, ME, 1, NULL); /* of an object that is gone: the next get says so */
    sk_inline_unlock(x);
}

static void op_release(struct sk_engine *e, sk_oid o) {
    struct sk_inline *x = of(e);
    sk_inline_lock(x);
    struct sk_iactor *a = sk_map_get(&x->actors, o.v);
    if (!a) {
        sk_iobj_unref(x, o.v);
    } else if (a->n_handles) {
        a->n_handles--;
        sk_iactor_maybe_end(x, a);
    }
    sk_inline_unlock(x);
}

static sk_rc op_actor_leave(struct sk_engine *e, struct sk_err *err) {
    (void)e;
    return SK_ERR(err, SK_EINVAL, "this process runs no actor");
}

/* ---- the ops: the rest ------------------------------------------------------------------------------------------------------------------ */

static sk_rc op_drive(struct sk_engine *e, bool (*done)(void *arg), void *arg, int64_t deadline_ns, struct sk_err *err) {
    struct sk_inline *x = of(e);
    sk_rc rc = SK_OK;
    sk_inline_lock(x);
    while (rc == SK_OK && !done(arg)) rc = sk_inline_step(x, deadline_ns, "drive", err);
    sk_inline_unlock(x);
    return rc;
}

static size_t op_workers(struct sk_engine *e, struct sk_worker_info *out, size_t cap) {
    struct sk_inline *x = of(e);
    sk_inline_lock(x);
    if (cap) out[0] = (struct sk_worker_info){getpid(), 0, x->n_running ? 2 : 1, x->n_done};
    sk_inline_unlock(x);
    return 1;
}

static size_t op_status(struct sk_engine *e, char *buf, size_t cap) {
    struct sk_inline *x = of(e);
    sk_inline_lock(x);
    uint32_t queued = 0;
    SK_LIST_EACH (it, &x->queue) queued++;
    int n =
        snprintf(buf, cap, "engine inline\ntasks_done %llu\ntasks_queued %u\ntasks_running %u\nobjects %llu\nstore_bytes %llu\nactors %u\n",
                 (unsigned long long)x->n_done, queued, x->n_running, (unsigned long long)sk_own_n(x->own), (unsigned long long)x->bytes,
                 x->actors.n);
    sk_inline_unlock(x);
    return n < 0 ? 0 : (size_t)n;
}

static size_t op_state(struct sk_engine *e, enum sk_state_what what, void *buf, size_t cap) {
    struct sk_inline *x = of(e);
    sk_inline_lock(x);
    size_t n = x->closed ? 0 : sk_istate_write(x, what, buf, cap);
    sk_inline_unlock(x);
    return n;
}

static void op_close(struct sk_engine *e) {
    struct sk_inline *x = of(e);
    uint64_t key;
    void *val;
    SK_ASSERT(!sk_inline_is_running()); /* a task cannot close the engine that runs it */
    sk_inline_lock(x);
    x->closed = true;
    pthread_cond_broadcast(&x->cv);
    while (x->n_running || x->n_waiting) sk_inline_wait(x, INT64_MAX);
    x->n_waiting = 0;
    for (uint32_t i = 0; sk_map_next(&x->actors, &i, &key, &val);) {
        const struct sk_iactor *a = val;
        if (a->started && !a->dead && x->runner->actor_gone) x->runner->actor_gone(x->runner->ctx, (sk_aid){key});
    }
    while (x->gone.n) {
        uint64_t id = x->gone.p[--x->gone.n];
        if (x->runner->actor_gone) x->runner->actor_gone(x->runner->ctx, (sk_aid){id});
    }
    for (;;) {
        uint32_t i = 0;
        if (!sk_map_next(&x->tasks, &i, &key, &val)) break;
        sk_itask_free(x, val);
    }
    for (uint32_t i = 0; sk_map_next(&x->actors, &i, &key, &val);) {
        struct sk_iactor *a = val;
        sk_name_free(&a->name);
        sk_blob_unref(x, a->why);
        sk_free(a);
    }
    sk_inline_groups_free(x);
    sk_map_deinit(&x->actors);
    sk_map_init(&x->actors, TAG); /* drain looks there */
    sk_iobj_drain(x);
    uint32_t cursor = 0;
    while (sk_own_each(x->own, &cursor, &key, &val)) {
        sk_blob_unref(x, ((struct sk_iobj *)val)->val);
        sk_free(val);
    }
    sk_own_destroy(x->own);
    for (uint32_t i = 0; sk_map_next(&x->fns, &i, &key, &val);) sk_free(val);
    sk_map_deinit(&x->fns);
    sk_map_deinit(&x->tasks);
    sk_map_deinit(&x->actors);
    sk_place_deinit(&x->place);
    sk_vec_free(&x->gone);
    sk_history_free(&x->past);
    sk_res_names_deinit(&x->names_of_res);
    pthread_mutex_unlock(&x->mu);
    pthread_mutex_destroy(&x->mu);
    pthread_cond_destroy(&x->cv);
    sk_free(x);
}

extern const struct sk_engine_class sk_engine_by_inline;
static const struct sk_engine_ops ops = {
    .define = op_define,
    .shape = sk_inline_need,
    .submit = op_submit,
    .cancel = op_cancel,
    .actor_create = op_actor_create,
    .actor_end = op_actor_end,
    .put = op_put,
    .get = op_get,
    .wait = op_wait,
    .retain = op_retain,
    .release = op_release,
    .buf_alloc = op_buf_alloc,
    .buf_abort = op_buf_abort,
    .view_release = op_view_release,
    .drive = op_drive,
    .nodes = op_nodes,
};
static const struct sk_actors_ops actors = {.find = op_actor_find, .names = op_actor_names, .leave = op_actor_leave};
static const struct sk_streams_ops streams = {.next = op_stream_next, .wait = op_stream_wait, .end = op_stream_end, .drop = op_stream_drop};
static const struct sk_custom_ops custom = {.index = op_res_index, .more = op_more, .more_read = op_more_read};
static const struct sk_groups_ops groups = {.create = sk_inline_group_create, .remove = sk_inline_group_remove, .list = sk_inline_groups};
static int64_t op_began(struct sk_engine *e, sk_tid tid) {
    struct sk_inline *x = of(e);
    sk_inline_lock(x);
    const struct sk_itask *t = sk_map_get(&x->tasks, tid.v);
    int64_t ns = t && t->running ? t->start_ns : 0;
    sk_inline_unlock(x);
    return ns;
}
static const struct sk_progress_ops progress = {.began = op_began};
static const struct sk_state_ops state = {.rows = op_state, .workers = op_workers, .status = op_status};

static sk_rc open_inline(const struct sk_engine_conf *conf, struct sk_engine **out, struct sk_err *err) {
    if (!conf->runner) return SK_ERR(err, SK_EINVAL, "inline engine: no runner");
    struct sk_inline *x = sk_calloc(TAG, sizeof *x);
    if (!x) return SK_ERR(err, SK_ENOMEM, "inline engine");
    sk_rc rc = SK_OK;
    x->e = (struct sk_engine){.cls = &sk_engine_by_inline,
                              .ops = &ops,
                              .actors = &actors,
                              .streams = &streams,
                              .custom = &custom,
                              .groups = &groups,
                              .state = &state,
                              .progress = &progress};
    x->runner = conf->runner;
    x->store_bytes = conf->store_bytes;
    x->task_retries = conf->task_retries;
    x->next_id = 1;
    x->rng = conf->seed;
    sk_list_init(&x->queue);
    sk_list_init(&x->names);
    sk_list_init(&x->groups);
    sk_list_init(&x->group_names);
    sk_map_init(&x->fns, TAG);
    sk_map_init(&x->tasks, TAG);
    sk_map_init(&x->actors, TAG);
    pthread_mutex_init(&x->mu, NULL);
    pthread_condattr_t ca;
    pthread_condattr_init(&ca);
    pthread_condattr_setclock(&ca, CLOCK_MONOTONIC);
    pthread_cond_init(&x->cv, &ca);
    pthread_condattr_destroy(&ca);
    rc = sk_place_init(&x->place, &conf->total, err);
    if (rc == SK_OK) rc = sk_res_names_init(&x->names_of_res, conf->custom_names, conf->n_custom, err);
    if (rc == SK_OK) rc = sk_place_more_init(&x->place, conf->more, sk_res_n_more(&x->names_of_res), err);
    if (rc == SK_OK) rc = sk_own_create(&x->own, err);
    if (rc == SK_OK) {
        *out = &x->e;
        return SK_OK;
    }
    sk_res_names_deinit(&x->names_of_res);
    sk_place_deinit(&x->place);
    sk_free(x);
    return rc;
}

const struct sk_engine_class sk_engine_by_inline = {.name = "inline", .open = open_inline, .close = op_close};
