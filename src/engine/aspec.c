/* aspec.c - the options of an actor besides its constructor, taken from the caller's spec and
 * checked; for all engines. */
#include "engine/engine_int.h"
#include "engine/books/names.h"

struct sk_aspec sk_aspec_of(const struct sk_actor_spec *s) {
    const struct sk_actor_opts *o = s->opts;
    struct sk_aspec a = {.max_restarts = s->max_restarts, .max_task_retries = s->max_task_retries};
    if (!o) return a;
    a.is_async = o->is_async;
    a.detached = o->detached;
    a.n_groups = o->n_groups;
    a.groups = o->groups;
    a.meta = o->meta;
    if (o->name) a.name = (struct sk_bytes){o->name, strlen(o->name)};
    if (o->space) a.space = (struct sk_bytes){o->space, strlen(o->space)};
    return a;
}

sk_rc sk_aspec_check(const struct sk_aspec *a, struct sk_err *err) {
    if (a->n_groups > SK_GROUPS_MAX)
        return SK_ERR(err, SK_EINVAL, "an actor has at most %d concurrency groups", SK_GROUPS_MAX);
    for (uint32_t i = 0; i < a->n_groups; i++)
        if (!a->groups[i])
            return SK_ERR(err, SK_EINVAL, "concurrency group %u of an actor runs no calls at all",
                          i);
    return sk_names_check("actor", a->space, a->name, err);
}
