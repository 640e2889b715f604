/* actor.c - the making of actors of a guest engine: those of this process, and those that nodes ask
 * for. Called with the lock held. What they do then: task.c. */
#include "engine/guest/guest_int.h"

sk_rc sk_gactor_create(struct sk_ghost *x, const struct sk_actor_spec *spec, sk_aid *out,
                       sk_oid *ready, struct sk_err *err) {
    struct sk_gtask *t;
    struct sk_task_spec s = spec->init;
    struct sk_gactor *a = NULL;
    bool made = false;
    struct sk_aspec o = sk_aspec_of(spec);
    sk_rc rc = SK_OK;
    uint64_t id = x->next_id;
    const char *cls = sk_map_get(&x->fns, s.fn.v);
    bool at_once = o.is_async || o.n_groups > 1 || (o.n_groups && o.groups[0] > 1);
    SK_GO(sk_aspec_check(&o, err));
    if (!x->g.actors && (o.name.n || o.detached || at_once))
        SK_GO(SK_ERR(err, SK_ENOSYS, "%s: this engine has no %s", cls ? cls : "actor",
                     o.name.n     ? "names of actors"
                     : o.detached ? "detached actors"
                                  : "concurrency within an actor (max_concurrency, "
                                    "concurrency_groups, async methods)"));
    uint32_t node = sk_gtask_node(x, &s);
    SK_GO(sk_spec_check(&s, node, err));
    x->next_id += 3; /* ids of `ready`, the actor and its constructor */
    s.n_returns = 1;
    s.max_retries = spec->max_restarts;
    s.actor.v = id + 1;
    if (!s.shape) { /* an actor for which no resources were asked takes none */
        SK_GO(sk_vec_push(&x->shapes, TAG, (struct sk_need){0}) ? SK_OK
                                                                : SK_ERR(err, SK_ENOMEM, "actor"));
        s.shape = x->shapes.n;
    }
    if (!(a = sk_calloc(TAG, sizeof *a))) SK_GO(SK_ERR(err, SK_ENOMEM, "actor"));
    *a = (struct sk_gactor){.id = id + 1,
                            .ready = id,
                            .n_handles = 1,
                            .n_calls = 1,
                            .max_task_retries = o.max_task_retries,
                            .is_async = o.is_async};
    sk_list_init(&a->callers);
    SK_GO(sk_names_add(&x->actor_names, "actor", o.space, o.name, o.meta, sk_gname_owner(id + 1),
                       &a->name, err));
    if (x->g.actors && o.n_groups) {
        if (!(a->groups = sk_memdup(TAG, o.groups, o.n_groups * sizeof *o.groups)))
            SK_GO(SK_ERR(err, SK_ENOMEM, "actor"));
        a->n_groups = o.n_groups;
    }
    SK_GO(sk_gobj_new(x, id, id + 2, NULL, NULL, 0, err));
    made = true;
    SK_GO(sk_gtask_make(x, &s, id + 2, id, &t, err));
    t->is_init = true;
    a->fn = t->fn;
    a->need = t->need;
    t->node = node;
    t->node_only = s.node_only;
    SK_GO(sk_map_put(&x->actors, a->id, a));
    a->detached = o.detached && sk_own_hold(x->own, id, NULL) == SK_OK;
    out->v = a->id;
    ready->v = id;
    const char *refused = sk_task_opts_of(&s)->refused;
    if (refused) sk_gtask_fail(x, t, SK_EINFEASIBLE, refused);
    else sk_gtask_try(x, t);
    return SK_OK;
out:
    if ((t = sk_map_get(&x->tasks, id + 2)) && made) sk_gtask_free(x, t);
    sk_gactor_free(x, a);
    if (made) sk_gobj_unref(x, id);
    return rc;
}
