/* abroad.c - calls of actors that belong to other engines, and tasks that only another engine can
 * run: see abroad.h. Runs with the lock held.
 *
 * Such a call or task is no task here: its returns are foreign objects with ids of this engine,
 * which the server brings. Cost: a walk over the arguments, and a table of them. */
#include "engine/local/driver/loop/abroad.h"

#include <stdio.h>

#include "base/mem.h"
#include "engine/local/driver/local_int.h"

void sk_abroad_init(struct sk_local *l) { sk_map_init(&l->foreign.calls, SK_TAG_ENGINE); }

void sk_abroad_free(struct sk_local *l) {
    uint64_t first;
    void *call;
    for (uint32_t i = 0; sk_map_next(&l->foreign.calls, &i, &first, &call);) sk_free(call);
    sk_map_deinit(&l->foreign.calls);
}

sk_rc sk_abroad_may_call(const struct sk_local *l, uint64_t actor, uint32_t proc, uint32_t max,
                         struct sk_err *err) {
    uint64_t first;
    void *call;
    uint32_t n = 0;
    for (uint32_t i = 0; sk_map_next(&l->foreign.calls, &i, &first, &call);)
        n += ((struct sk_abroad *)call)->actor == actor && ((struct sk_abroad *)call)->proc == proc;
    return sk_call_check(true, n, max, err);
}

static void forget(struct sk_local *l, uint64_t first) {
    sk_free(sk_map_del(&l->foreign.calls, first));
}

/* The stream of a call whose end is object `first`; NULL: the call has none, or it was dropped. */
static struct sk_ltask *stream_of(struct sk_local *l, uint64_t first) {
    struct sk_ltask *t = sk_map_get(&l->tasks, first - 1);
    return t && t->kind == SK_TASK_ABROAD && t->stream == SK_STREAM_OPEN ? t : NULL;
}

void sk_abroad_yielded(struct sk_local *l, uint64_t first, uint64_t oid) {
    struct sk_ltask *t = stream_of(l, first);
    bool there = sk_obj_new_foreign(l, oid, SK_PROC_DRIVER, NULL) == SK_OK;
    if (t) sk_stream_came(l, t, there ? oid : 0);
    else if (there) SK_IGNORE(sk_own_unref(l->own, oid, SK_PROC_DRIVER, 1, NULL));
    if (!there) l->foreign.server->dropped(l->foreign.server, (sk_oid){oid});
}

void sk_abroad_ended(struct sk_local *l, uint64_t first) {
    const struct sk_abroad *call = sk_map_get(&l->foreign.calls, first);
    bool stream = call && call->stream;
    forget(l, first);
    if (!stream) return;
    struct sk_ltask *t = stream_of(l, first);
    const struct sk_obj *o = sk_obj_get(l, first);
    SK_ASSERT(o && o->foreign); /* it has a reference of this part until now */
    if (t && o->state == SK_O_PENDING) {
        struct sk_inl *why = sk_engine_error(SK_ELOST, "the call has ended without a value");
        sk_stream_closed(l, t, true, SK_KIND_ENGINE_ERROR, why);
        sk_inl_drop(why);
    } else if (t)
        sk_stream_closed(l, t, SK_KIND_IS_ERROR(o->kind), o->kind,
                         o->where == SK_V_INLINE ? o->u.inl : NULL);
    SK_IGNORE(sk_own_unref(l->own, first, SK_PROC_DRIVER, 1, NULL));
}

/* Takes a reference for the server, which gives it back when the call has ended. */
static sk_rc take(struct sk_local *l, uint64_t id, struct sk_err *err) {
    sk_obj_meet(l, &id, 1);
    return sk_own_ref(l->own, id, SK_PROC_DRIVER, 1, err);
}

static sk_rc take_all(struct sk_local *l, const struct sk_spec *s, struct sk_arg *args,
                      struct sk_err *err) {
    struct sk_rd r = sk_rd_init(s->args, s->args_len);
    uint32_t i = 0, c = 0;
    sk_rc rc = SK_OK;
    for (; rc == SK_OK && i < s->n_args; i += rc == SK_OK) {
        struct sk_val v;
        const void *bytes = sk_rd_val(&r, &v);
        args[i] = (struct sk_arg){.kind = v.kind};
        if (v.oid) {
            rc = take(l, v.oid, err);
            args[i].ref.v = v.oid;
        } else args[i].bytes = (struct sk_bytes){bytes, (size_t)v.len};
    }
    for (; rc == SK_OK && c < s->n_contains; c += rc == SK_OK) rc = take(l, s->contains[c], err);
    if (rc == SK_OK) return SK_OK;
    while (i--)
        if (args[i].ref.v) SK_IGNORE(sk_own_unref(l->own, args[i].ref.v, SK_PROC_DRIVER, 1, NULL));
    while (c--) SK_IGNORE(sk_own_unref(l->own, s->contains[c], SK_PROC_DRIVER, 1, NULL));
    return rc;
}

sk_rc sk_abroad_shape(struct sk_local *l, const struct sk_need *n, sk_shape *out,
                      struct sk_err *err) {
    struct sk_foreign *f = l->foreign.server;
    struct sk_need here = *n;
    here.where = n->where ? SK_WHERE_HERE : 0;
    if (!f || n->group || n->more) return sk_need_shape(l, &here, out, err);
    if (n->where > l->groups.envs.n)
        return SK_ERR(err, SK_EINVAL, "where %u is not defined", n->where);
    if (!n->where || f->here(f, l->groups.envs.p[n->where - 1])) {
        sk_rc rc = sk_need_shape(l, &here, out, err);
        if (rc != SK_EINFEASIBLE) return rc;
    }
    return sk_place_need(&l->place, n, out, err);
}

/* True if a task of this shape is for another engine. */
static bool is_for_others(const struct sk_local *l, sk_shape shape) {
    const struct sk_place *p = &l->place;
    return sk_place_shape_known(p, shape) && !sk_place_fits_ever(p, shape) &&
           !sk_place_shape_dead(p, shape) && !sk_place_need_of(p, shape).group;
}

static struct sk_foreign_need need_of(const struct sk_local *l, sk_shape shape) {
    struct sk_need n = sk_place_need_of(&l->place, shape);
    const struct sk_bytes *envs = l->groups.envs.p, none = {0};
    return (struct sk_foreign_need){.res = n.res,
                                    .env = n.env ? envs[n.env - 1] : none,
                                    .where = n.where ? envs[n.where - 1] : none};
}

/* A spec of a process as the server is told it. */
struct told {
    struct sk_task_spec spec;
    struct sk_task_opts opts;
    struct sk_foreign_need need;
    struct sk_bytes def;
    char name[256];
};

/* Takes the references that the server has to give back. id: of the task here; args: room for all
 * arguments. */
static sk_rc told(struct sk_local *l, uint32_t proc, uint64_t id, const struct sk_spec *s,
                  struct sk_arg *args, struct told *out, struct sk_err *err) {
    SK_TRY(take_all(l, s, args, err));
    const struct sk_fn *f = sk_map_get(&l->fns, s->fid);
    if (s->name.n)
        snprintf(out->name, sizeof out->name, "%.*s", (int)SK_MIN(s->name.n, sizeof out->name - 1),
                 (const char *)s->name.p);
    else snprintf(out->name, sizeof out->name, "%s", f ? f->name : "?");
    out->opts = (struct sk_task_opts){.group = s->group,
                                      .no_wait = s->no_wait,
                                      .max_calls = s->max_calls,
                                      .stream_window = s->stream_window,
                                      .known_task = id,
                                      .caller = proc};
    out->need = s->actor ? (struct sk_foreign_need){0} : need_of(l, s->shape);
    out->def = f ? (struct sk_bytes){f->def, f->len} : (struct sk_bytes){0};
    out->spec = (struct sk_task_spec){.fn = {s->fid},
                                      .name = out->name,
                                      .args = args,
                                      .n_args = s->n_args,
                                      .contains = (const sk_oid *)(const void *)s->contains,
                                      .n_contains = s->n_contains,
                                      .n_returns = s->n_returns,
                                      .actor = {s->actor},
                                      .max_retries = s->max_retries,
                                      .retry_exceptions = s->retry_exceptions,
                                      .opts = &out->opts};
    return SK_OK;
}

bool sk_abroad_for_others(const struct sk_local *l, struct sk_bytes spec) {
    struct sk_rd r = sk_rd_init(spec.p, spec.n);
    struct sk_spec s;
    return l->foreign.server && sk_spec_read(&r, &s) && !s.refused.n && !s.parts &&
           is_for_others(l, s.shape);
}

sk_rc sk_abroad_make(struct sk_local *l, uint32_t proc, uint64_t ask, struct sk_bytes spec,
                     const struct sk_aspec *as, struct sk_err *err) {
    struct sk_rd r = sk_rd_init(spec.p, spec.n);
    struct sk_spec s;
    struct told t;
    char name[SK_NAME_MAX + 1], space[SK_NAME_MAX + 1];
    SK_DCHECK(sk_abroad_for_others(l, spec));
    SK_TRY(sk_aspec_check(as, err));
    struct sk_arg *args =
        sk_spec_read(&r, &s) ? sk_calloc(SK_TAG_ENGINE, (s.n_args + 1) * sizeof *args) : NULL;
    if (!args) return SK_ERR(err, SK_ENOMEM, "no memory for an actor");
    sk_rc rc = told(l, proc, 0, &s, args, &t, err);
    if (rc == SK_OK) {
        snprintf(name, sizeof name, "%.*s", (int)as->name.n, (const char *)as->name.p);
        snprintf(space, sizeof space, "%.*s", (int)as->space.n, (const char *)as->space.p);
        const struct sk_actor_opts opts = {.name = as->name.n ? name : NULL,
                                           .space = space,
                                           .meta = as->meta,
                                           .detached = as->detached,
                                           .is_async = as->is_async,
                                           .n_groups = as->n_groups,
                                           .groups = as->groups};
        const struct sk_actor_spec all = {.init = t.spec,
                                          .max_restarts = as->max_restarts,
                                          .max_task_retries = as->max_task_retries,
                                          .opts = &opts};
        l->foreign.server->made(l->foreign.server, ask, &all, &t.need, t.def);
    }
    sk_free(args);
    return rc;
}

sk_rc sk_abroad_call(struct sk_local *l, uint32_t proc, uint64_t base, struct sk_bytes spec,
                     struct sk_err *err) {
    struct sk_rd r = sk_rd_init(spec.p, spec.n);
    struct sk_spec s;
    struct told t;
    uint32_t made = 0;
    if (!l->foreign.server || !sk_spec_read(&r, &s)) return SK_EAGAIN;
    if (s.actor ? !sk_obj_is_foreign(l, s.actor) : s.refused.n || !is_for_others(l, s.shape))
        return SK_EAGAIN;
    if (s.parts) return SK_EAGAIN;
    bool stream = s.n_returns == SK_STREAMING;
    uint32_t n = sk_foreign_n_names(s.n_returns), of = stream ? SK_PROC_DRIVER : proc;
    struct sk_arg *args = sk_calloc(SK_TAG_ENGINE, (s.n_args + 1) * sizeof *args);
    struct sk_abroad *call = sk_calloc(SK_TAG_ENGINE, sizeof *call);
    sk_rc rc = !args || !call ? SK_ENOMEM : sk_map_put(&l->foreign.calls, base + 1, call);
    if (rc != SK_OK) {
        sk_free(args);
        sk_free(call);
        return SK_ERR(err, rc, "no memory for a call");
    }
    *call = (struct sk_abroad){s.actor, s.parent, proc, stream};
    SK_DCHECK(!sk_obj_get(l, base + 1));
    for (; rc == SK_OK && made < n; made += rc == SK_OK)
        rc = sk_obj_new_foreign(l, base + 1 + made, of, err);
    if (rc == SK_OK && stream) rc = sk_ltask_stream_abroad(l, proc, base, s.stream_window, err);
    if (rc == SK_OK && (rc = told(l, proc, base, &s, args, &t, err)) != SK_OK && stream)
        sk_ltask_free(l, sk_map_get(&l->tasks, base));
    if (rc == SK_OK)
        l->foreign.server->called(l->foreign.server, &t.spec, s.actor ? NULL : &t.need, t.def,
                                  (sk_oid){base + 1});
    if (rc != SK_OK) forget(l, base + 1);
    while (rc != SK_OK && made) SK_IGNORE(sk_own_unref(l->own, base + made--, of, 1, NULL));
    sk_free(args);
    return rc;
}

/* ---- tasks that wait here while others have room --------------------------------------------- */

enum {
    SOME_NS = 5000000, /* a task that waits for less stays here */
    LOOK_MOST = 1000,  /* tasks that are looked at in a turn */
};

void sk_abroad_queued(struct sk_local *l) {
    if (l->foreign.queued) return;
    l->foreign.queued = true;
    l->foreign.server->queued(l->foreign.server);
}

/* True if any node may run tasks of this shape, as far as is known here: they ask for CPUs only. */
static bool is_anywhere(const struct sk_place_shape *s) {
    for (uint32_t i = 0; i < SK_RES_MAX; i++)
        if (i != SK_RES_CPU && s->res.amount[i]) return false;
    return s->n_ready && s->res.amount[SK_RES_CPU] && !s->group && !s->where && !s->more &&
           !s->alone;
}

/* True if another engine may run the ready task: it has not begun, and nothing of it is known but
 * the ids of its returns. */
static bool may_go(struct sk_local *l, const struct sk_ltask *t) {
    if (t->kind != SK_TASK_PLAIN || t->sink || t->attempt || t->was_started || t->remake ||
        t->stop || t->kept || t->spec.parts || sk_ltask_is_stream(t))
        return false;
    for (uint32_t i = 0; i < t->spec.n_returns; i++) { /* others count on all of them */
        const struct sk_obj *o = sk_obj_get(l, t->first + i);
        if (!o || o->state != SK_O_PENDING || o->foreign) return false;
    }
    return true;
}

/* Hands a task to the server. False: there is no memory, and it stays. */
static bool hand(struct sk_local *l, struct sk_ltask *t) {
    struct told all;
    struct sk_arg *args = sk_calloc(SK_TAG_ENGINE, (t->spec.n_args + 1) * sizeof *args);
    struct sk_abroad *call = sk_calloc(SK_TAG_ENGINE, sizeof *call);
    bool known = args && call && sk_map_put(&l->foreign.calls, t->first, call) == SK_OK;
    if (!known || told(l, t->owner, t->id, &t->spec, args, &all, NULL) != SK_OK) {
        if (known) forget(l, t->first);
        else sk_free(call);
        sk_free(args);
        return false;
    }
    *call = (struct sk_abroad){0, t->spec.parent, t->owner, false};
    l->foreign.server->called(l->foreign.server, &all.spec, &all.need, all.def, (sk_oid){t->first});
    for (uint32_t i = 0; i < t->spec.n_returns; i++) {
        struct sk_obj *o = sk_obj_get(l, t->first + i);
        sk_obj_becomes_foreign(l, o);
        sk_recover_says(o, SK_LOST_PUT); /* no task of this engine makes it */
    }
    sk_ltask_handed_over(l, t);
    sk_free(args);
    return true;
}

uint32_t sk_abroad_hand_over(struct sk_local *l, int64_t cpu, int64_t now, bool *waits) {
    uint32_t left = 0, looked = 0;
    for (uint32_t i = 0; i < l->place.n_shapes; i++) {
        struct sk_place_shape *s = l->place.shapes[i];
        if (!is_anywhere(s)) continue;
        for (uint32_t level = 1; level < SK_PLACE_LEVELS; level++) { /* 0: the driver's own */
            struct sk_list *head = &s->ready[level];
            for (struct sk_list *it = head->next, *next; it != head; it = next) {
                struct sk_ltask *t = sk_container_of(
                    sk_container_of(it, struct sk_place_task, link), struct sk_ltask, place);
                next = it->next;
                if (looked++ == LOOK_MOST) return left;
                if (!may_go(l, t)) continue;
                *waits = true;
                if (now - t->submit_ns < SOME_NS) break; /* those behind it are younger */
                int64_t need = s->res.amount[SK_RES_CPU];
                if (need <= cpu && hand(l, t)) cpu -= need;
                else left++;
            }
        }
    }
    if (!*waits) l->foreign.queued = false;
    return left;
}
