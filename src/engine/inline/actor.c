/* actor.c - actors of the inline engine: created, found by name, restarted and ended by callers.
 * life.c has the end of an actor, its calls and its references. */
#include <stdio.h>
#include <stdlib.h>

#include "engine/inline/inline_int.h"

sk_rc sk_inline_actor_create(struct sk_engine *e, const struct sk_actor_spec *spec, sk_aid *out,
                             sk_oid *ready, struct sk_err *err) {
    struct sk_inline *x = sk_inline_of(e);
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
    x->next_id += 2; /* first the id of `ready`, then that of the actor */
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
    const char *refused = sk_task_opts_of(&s)->refused;
    if (refused) sk_itask_finish_code(x, t, SK_EINFEASIBLE, refused);
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

static sk_rc op_actor_find(struct sk_engine *e, const char *space, const char *name, sk_aid *out,
                           sk_oid *ready, struct sk_bytes *meta, struct sk_err *err) {
    struct sk_inline *x = sk_inline_of(e);
    sk_rc rc = SK_OK;
    sk_inline_lock(x);
    struct sk_name *n = sk_names_find(&x->names, sk_text(space), sk_text(name));
    struct sk_iactor *a = n ? n->owner : NULL;
    void *copy = a ? sk_memdup(TAG, n->meta.p, n->meta.n) : NULL;
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
    struct sk_inline *x = sk_inline_of(e);
    sk_inline_lock(x);
    size_t n = sk_names_write(&x->names, buf, cap);
    sk_inline_unlock(x);
    return n;
}

sk_rc sk_inline_actor_end(struct sk_engine *e, sk_aid aid, bool no_restart, struct sk_err *err) {
    struct sk_inline *x = sk_inline_of(e);
    sk_rc rc = SK_OK;
    sk_inline_lock(x);
    struct sk_iactor *a = sk_map_get(&x->actors, aid.v);
    if (!a) {
        rc = SK_ERR(err, SK_ENOENT, "no such actor");
    } else if (!a->dead && !no_restart && a->init->queued) {
        /* nothing to do: the constructor is already queued */
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
        snprintf(msg, sizeof msg, "actor %s is dead: it was killed by skate.kill",
                 a->init ? a->init->name : "?");
        SK_GO(sk_blob_engine_error(x, SK_EACTOR, msg, &why));
        if (a->init && a->init->queued) sk_itask_finish_code(x, a->init, SK_EACTOR, msg);
        a = sk_map_get(&x->actors, aid.v);
        if (a) {
            a->n_calls++; /* this count keeps the actor while its calls end */
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

static sk_rc op_actor_leave(struct sk_engine *e, struct sk_err *err) {
    (void)e;
    return SK_ERR(err, SK_EINVAL, "this process runs no actor");
}

const struct sk_actors_ops sk_inline_actors = {
    .find = op_actor_find, .names = op_actor_names, .leave = op_actor_leave};
