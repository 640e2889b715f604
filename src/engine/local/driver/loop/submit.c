/* submit.c - a task or a call of an actor is submitted: the task is accepted, or ends at once with
 * the reason of the refusal. Runs with the lock held.
 *
 * Invariant: once sk_ltask_submit has returned SK_OK, the task has its return objects, and
 * getting them tells how it ended. Cost: about 0.5 us a task. */
#include "engine/local/driver/local_int.h"

/* Submits a call: it waits with its caller for its turn, unless the actor is dead or dies before
 * the call could begin. */
static void submit_call(struct sk_local *l, struct sk_ltask *t) {
    struct sk_obj *ao = sk_obj_get(l, t->spec.actor);
    struct sk_lactor *a = ao && ao->state == SK_O_ACTOR ? ao->u.actor : NULL;
    t->kind = SK_TASK_CALL;
    if (a && a->state == SK_A_DEAD && a->dead_kind) {
        sk_ltask_finish_error(l, t, a->dead_kind,
                              a->dead_value ? (void *)a->dead_value->bytes : (void *)"",
                              a->dead_value ? a->dead_value->len : 0);
        return;
    }
    /* the actor was killed, and its worker is about to end */
    if (a && a->no_restart && a->state != SK_A_DEAD) {
        sk_ltask_fail(l, t, SK_EACTOR, "the actor is dead: %s",
                      sk_place_shape_dead(&l->place, a->shape) ? "its placement group was removed"
                                                               : "it was killed by `ray.kill`");
        return;
    }
    struct sk_verdict_actor ac;
    struct sk_verdict_task tc = sk_ltask_case(l, t);
    if (a && (ac = sk_actor_case(a), !sk_verdict_call_joins(&ac, &tc))) {
        sk_ltask_fail(l, t, SK_EUNAVAIL,
                      "The actor is restarting; try again, or give the call max_task_retries");
        return;
    }
    if (!a && sk_obj_is_foreign(l, t->spec.actor)) {
        sk_ltask_fail(l, t, SK_ENOSYS,
                      "a call that takes parts of values, of an actor that another node or the "
                      "driver has made");
        return;
    }
    if (!a || a->state == SK_A_DEAD) {
        sk_ltask_fail(l, t, SK_EACTOR, "the actor is dead%s%s", a && a->why[0] ? ": " : "",
                      a ? a->why : " (no such actor)");
        return;
    }
    if (!sk_actor_call(a, t)) {
        sk_ltask_fail(l, t, SK_ENOMEM, "no memory to record a call of an actor");
        return;
    }
    if (t->retries_left == 0) sk_ltask_may_repeat(t, a->max_task_retries);
    if (t->n_unready == 0) sk_ltask_ready(l, t);
}

sk_rc sk_ltask_submit(struct sk_local *l, uint32_t proc, uint32_t level, uint64_t base,
                      const uint8_t *spec, size_t len, struct sk_sink *sink, struct sk_err *err) {
    struct sk_ltask *t;
    sk_rc rc = sk_abroad_call(l, proc, base, (struct sk_bytes){spec, len}, err);
    if (rc != SK_EAGAIN) return rc;
    SK_TRY(sk_ltask_make(l, proc, level, base, (struct sk_bytes){spec, len}, sink, &t, err));
    if (t->spec.actor) {
        submit_call(l, t);
        return SK_OK;
    }
    if (SK_UNLIKELY(t->spec.refused.n)) {
        sk_ltask_fail(l, t, SK_EINFEASIBLE, "%.*s", (int)t->spec.refused.n,
                      (const char *)t->spec.refused.p);
        return SK_OK;
    }
    if (sk_place_shape_dead(&l->place, t->spec.shape)) {
        sk_ltask_fail(l, t, SK_EGROUP, "the placement group of the task was removed");
        return SK_OK;
    }
    if (!sk_place_fits_ever(&l->place, t->spec.shape)) {
        sk_ltask_fail(l, t, SK_EINFEASIBLE, "the task asks for more than this machine was given");
        return SK_OK;
    }
    if (t->n_unready == 0) sk_ltask_ready(l, t);
    return SK_OK;
}
