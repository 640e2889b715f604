/* actor.c - the public C API: actors and their calls. */
#include "api/call.h"
#include "base/mem.h"
#include "engine/actors.h"

int skate_actor_create(const char *name, const struct skate_arg *args, size_t n_args,
                       const struct skate_call_opts *o, skate_actor *out) {
    struct sk_api_call c;
    SK_API_GIVEN("skate_actor_create", out);
    SK_TRY(sk_api_call_begin(&c, 0, name, args, n_args, o));
    struct sk_actor_spec s = {.max_restarts = o ? o->max_restarts : 0, .max_task_retries = 0};
    struct sk_actor_opts opts = {0};
    sk_aid a;
    sk_oid ready;
    if (o && (o->name || o->detached)) {
        opts = (struct sk_actor_opts){.name = o->name, .space = o->space, .detached = o->detached};
        s.opts = &opts;
    }
    sk_rc rc = sk_api_call_shape(&c, o, 0);
    s.init = c.s;
    s.init.n_returns = 1;
    if (rc == SK_OK) rc = c.e->ops->actor_create(c.e, &s, &a, &ready, sk_api_err());
    if (rc == SK_OK) *out = (skate_actor){a.v, ready.v};
    sk_api_call_end(&c);
    return rc;
}

int skate_actor_call(skate_actor a, const char *name, const struct skate_arg *args, size_t n_args,
                     size_t n_returns, const struct skate_call_opts *o, skate_ref *returns) {
    struct sk_api_call c;
    if (!a.id) return SK_ERR(sk_api_err(), SK_EINVAL, "skate_actor_call: no actor");
    SK_TRY(sk_api_call_begin(&c, a.id, name, args, n_args, o));
    c.s.actor = (sk_aid){a.id};
    c.s.max_retries = sk_api_retries(o, 0);
    sk_rc rc = sk_api_call_submit(&c, n_returns, returns);
    sk_api_call_end(&c);
    return rc;
}

int skate_actor_find(const char *name, const char *space, skate_actor *out) {
    struct sk_engine *e = sk_api_engine();
    struct sk_bytes meta = {0};
    sk_aid a;
    sk_oid ready;
    if (!e) return SK_ECLOSED;
    SK_API_GIVEN("skate_actor_find", name);
    SK_API_GIVEN("skate_actor_find", out);
    if (!e->actors) return SK_ERR(sk_api_err(), SK_ENOSYS, "this engine has no names of actors");
    sk_rc rc = e->actors->find(e, space ? space : "", name, &a, &ready, &meta, sk_api_err());
    if (rc == SK_ENOENT)
        return SK_ERR(sk_api_err(), rc, "no living actor is named '%s' in namespace '%s'", name,
                      space ? space : "");
    SK_TRY(rc);
    sk_free((void *)(uintptr_t)meta.p);
    *out = (skate_actor){a.v, ready.v};
    return SK_OK;
}

void skate_actor_release(skate_actor a) {
    struct sk_engine *e = a.id ? sk_api_engine_of(a.id) : NULL;
    if (!e) return;
    sk_actor_release(e, (sk_aid){a.id});
    e->ops->release(e, (sk_oid){a.ready});
}

int skate_actor_kill(skate_actor a) {
    struct sk_engine *e = sk_api_engine_of(a.id);
    if (!e) return SK_ECLOSED;
    if (!a.id) return SK_ERR(sk_api_err(), SK_EINVAL, "skate_actor_kill: no actor");
    return e->ops->actor_end(e, (sk_aid){a.id}, true, sk_api_err());
}
