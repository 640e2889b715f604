/* refs.c - the book of a cluster: references between the host and nodes (contract: book.h, guest.h;
 * messages: msg.h). The host counts; here is which node has what, and where values lie. */
#include "engine/cluster/book_int.h"
#include "engine/cluster/which/where.h"

#include <stdlib.h>

struct basked { /* an object of a node that the host holds */
    uint32_t node;
    bool told;  /* that it is there */
    bool moves; /* its value can be moved off the node */
};

static void put(struct sk_map *m, uint64_t key, void *val) {
    if (sk_map_put(m, key, val) != SK_OK) abort(); /* a reference would be lost */
}
static void *zeros(size_t n) {
    void *p = sk_calloc(TAG, n);
    if (!p) abort(); /* a reference would be lost */
    return p;
}
static struct sk_bnode *node_of(const struct sk_book *b, uint64_t id) {
    uint64_t place = sk_id_place(id);
    for (uint32_t i = 0; place && i < b->nodes.n; i++)
        if (b->nodes.p[i]->place == place && b->nodes.p[i]->alive) return b->nodes.p[i];
    return NULL;
}
static void say(struct sk_bnode *n, enum sk_cmsg_type type, uint64_t id, uint32_t flags) {
    SK_DCHECK(n && id);
    struct sk_cmsg m = {.type = type, .end = {id, flags}};
    sk_bnode_send(n, &m);
}

/* ---- news for the host ----------------------------------------------------------------------- */

static struct sk_btold *tell(struct sk_book *b, uint32_t node, const struct sk_guest_news *w) {
    /* the host does not read `kind` of an event that has news */
    struct sk_guest_event ev = {.kind = SK_EV_STARTED, .node = node, .news = w};
    return sk_book_told(b, ev);
}
static struct sk_guest_news *news(struct sk_book *b, const struct sk_bnode *n,
                                  enum sk_guest_news_kind kind, uint64_t id,
                                  struct sk_btold **told) {
    struct sk_guest_news *w = zeros(sizeof *w);
    *w = (struct sk_guest_news){.kind = kind, .id = id, .place = n ? n->place : sk_id_place(id)};
    struct sk_btold *t = tell(b, n ? n->number : 0, w);
    t->keep[0] = w;
    if (told) *told = t;
    return w;
}
static void *kept(struct sk_bytes b) {
    char *p = zeros(b.n + 1);
    if (b.n) memcpy(p, b.p, b.n);
    return p;
}

static void tell_lost(struct sk_book *b, uint64_t id) {
    struct sk_btold *t;
    uint8_t room[SK_CMSG_ERROR];
    struct sk_bytes why =
        sk_cmsg_error(room, SK_ELOST, "the object was lost with the node whose tasks have made it");
    struct sk_guest_news *w = news(b, NULL, SK_NEWS_THERE, id, &t);
    w->size = why.n;
    w->value = (struct sk_guest_value){.kind = SK_KIND_ENGINE_ERROR,
                                       .bytes = {t->keep[1] = kept(why), why.n}};
}

/* ---- what the host orders -------------------------------------------------------------------- */

static void ask_for(struct sk_book *b, struct sk_bnode *n, uint64_t id) {
    struct basked *a = zeros(sizeof *a);
    a->node = n->number;
    SK_ASSERT(!sk_map_get(&b->asked, id)); /* the host holds it once */
    put(&b->asked, id, a);
}

void sk_book_hold(struct sk_book *b, uint64_t id) {
    struct sk_bnode *n = node_of(b, id);
    if (!n) {
        tell_lost(b, id);
        return;
    }
    if (sk_map_get(&b->asked, id)) return; /* a wrong yield of the node has noted it */
    ask_for(b, n, id);
    say(n, SK_CMSG_HOLD, id, 0);
}

void sk_book_unhold(struct sk_book *b, uint64_t id) {
    struct basked *a = sk_map_del(&b->asked, id);
    if (a) say(sk_bnode_of(b, a->node), SK_CMSG_UNHOLD, id, 0);
    sk_free(a);
}

bool sk_brefs_busy(const struct sk_book *b, uint32_t node) {
    uint64_t key;
    void *val;
    for (uint32_t i = 0; sk_map_next(&b->asked, &i, &key, &val);)
        if (((const struct basked *)val)->node == node && !((const struct basked *)val)->moves)
            return true;
    return false;
}

/* Says where the value is that the node holds as `name`. */
static void say_there(struct sk_bnode *n, uint64_t name, const struct sk_bval *v) {
    SK_DCHECK(n->alive && name);
    uint8_t room[SK_CMSG_ERROR];
    struct sk_cmsg m = {.type = SK_CMSG_THERE,
                        .there = {.name = name, .size = v->size, .value = v->id}};
    if (v->err) {
        m.there.here = true;
        m.there.kind = SK_KIND_ENGINE_ERROR;
        m.there.bytes = sk_cmsg_error(room, v->err->code, v->err->msg);
    } else if (v->mine && v->blob->len <= SK_INLINE_MAX) {
        m.there.here = true;
        m.there.kind = v->blob->kind;
        m.there.bytes = (struct sk_bytes){v->blob->data, v->blob->len};
    } else if (sk_bval_at(v, n->number)) m.there.node = n->number;
    else if (!v->mine) m.there.node = v->node;
    sk_bnode_send(n, &m);
}

static void unwant(struct sk_book *b, struct sk_blent *e) {
    SK_ASSERT(!e->wanted || b->n_wanted > 0);
    if (e->wanted) b->n_wanted--;
    e->wanted = false;
}
static void lent_set(struct sk_book *b, struct sk_blent *e, struct sk_bval *v) {
    struct sk_bval *was = e->v;
    SK_DCHECK(!v || v->refs > 0);
    if (v) v->refs++;
    e->v = v;
    if (was) sk_bval_unref(b, was);
}

void sk_book_there(struct sk_book *b, uint32_t node, uint64_t name,
                   const struct sk_guest_value *v) {
    struct sk_bnode *n = sk_bnode_of(b, node);
    struct sk_blent *e = n && n->alive ? sk_map_get(&n->lent, name) : NULL;
    if (!e) return; /* it was let go of meanwhile */
    if (v->handle) {
        lent_set(b, e, v->handle);
        say_there(n, name, e->v);
        return;
    }
    struct sk_cmsg m = {
        .type = SK_CMSG_THERE,
        .there = {
            .name = name, .size = v->bytes.n, .here = true, .kind = v->kind, .bytes = v->bytes}};
    sk_bnode_send(n, &m);
}

sk_rc sk_book_call(struct sk_book *b, const struct sk_task_spec *s, uint64_t first,
                   struct sk_err *err) {
    struct sk_bnode *n = node_of(b, s->actor.v);
    if (!n) return SK_ERR(err, SK_EACTOR, "%s: the node of the actor is lost", s->name);
    if (!sk_map_get(&b->fns, s->fn.v))
        return SK_ERR(err, SK_EINVAL, "%s: its function is not defined", s->name);
    sk_bnode_define(b, n, s->fn.v);
    struct sk_cmsg m;
    void *args = sk_cmsg_call(s, first, NULL, &m);
    if (!args) return SK_ERR(err, SK_ENOMEM, "arguments of %s", s->name);
    for (uint32_t i = 0; i < sk_foreign_n_names(s->n_returns); i++) ask_for(b, n, first + i);
    sk_bnode_send(n, &m);
    sk_free(args);
    return SK_OK;
}

void sk_book_yield(struct sk_book *b, uint32_t node, uint64_t first, uint64_t id) {
    struct sk_bnode *n = sk_bnode_of(b, node);
    struct sk_cmsg m = {.type = SK_CMSG_YIELD, .yield = {first, id}};
    if (!n || !n->alive) return;
    if (!sk_map_get(&n->lent, id)) /* it may have said HOLD before it could know the number */
        put(&n->lent, id, zeros(sizeof(struct sk_blent)));
    sk_bnode_send(n, &m);
}

void sk_book_took(struct sk_book *b, uint64_t actor, uint64_t first, uint32_t count) {
    struct sk_bnode *n = node_of(b, actor);
    struct sk_cmsg m = {.type = SK_CMSG_TOOK, .taken = {first, count}};
    if (n) sk_bnode_send(n, &m);
}

void sk_book_ended(struct sk_book *b, uint32_t node, uint64_t first) {
    struct sk_bnode *n = sk_bnode_of(b, node);
    if (n) say(n, SK_CMSG_ENDED, first, 0);
}

void sk_book_stop(struct sk_book *b, uint64_t of, uint64_t id, uint32_t flags) {
    struct sk_bnode *n = node_of(b, of);
    if (n) say(n, SK_CMSG_STOP, id, sk_cmsg_of_cancel(flags));
}

void sk_book_named(struct sk_book *b, uint32_t node, uint64_t ask, sk_rc rc, uint64_t actor,
                   struct sk_bytes bytes) {
    struct sk_bnode *n = sk_bnode_of(b, node);
    struct sk_cmsg m = {.type = SK_CMSG_NAMED, .named = {ask, actor, rc, bytes}};
    if (n) sk_bnode_send(n, &m);
}

void sk_book_kill(struct sk_book *b, uint64_t actor, bool no_restart) {
    struct sk_bnode *n = node_of(b, actor);
    if (n) say(n, SK_CMSG_KILL, actor, no_restart ? 0 : SK_RUN_RESTART);
}

/* ---- from nodes ------------------------------------------------------------------------------ */

static sk_rc bad(const struct sk_bnode *n, const char *what, struct sk_err *err) {
    return SK_ERR(err, SK_ECORRUPT, "node %s: %s", n->name, what);
}

static sk_rc define(struct sk_book *b, struct sk_bnode *n, const struct sk_cmsg *m,
                    struct sk_err *err) {
    struct sk_btold *t;
    char *name = kept(m->define.name);
    sk_rc rc = m->define.fn ? sk_book_define(b, (sk_fid){m->define.fn}, name, m->define.def, err)
                            : bad(n, "a function without a number", err);
    if (rc != SK_OK) {
        sk_free(name);
        return rc;
    }
    put(&n->defined, m->define.fn, n);
    struct sk_guest_news *w = news(b, n, SK_NEWS_DEFINED, 0, &t);
    w->fn.v = m->define.fn;
    w->name = t->keep[1] = name;
    return SK_OK;
}

static sk_rc held(struct sk_book *b, struct sk_bnode *n, uint64_t id, struct sk_err *err) {
    if (!id || sk_id_place(id) == n->place) return bad(n, "it holds an object of its own", err);
    if (sk_map_get(&n->lent, id)) return SK_OK;
    put(&n->lent, id, zeros(sizeof(struct sk_blent)));
    (void)news(b, n, SK_NEWS_HELD, id, NULL);
    return SK_OK;
}

static void lent_free(struct sk_book *b, struct sk_blent *e) {
    unwant(b, e);
    lent_set(b, e, NULL);
    sk_free(e);
}

static void unheld(struct sk_book *b, struct sk_bnode *n, uint64_t id) {
    struct sk_blent *e = sk_map_del(&n->lent, id);
    if (!e) return;
    lent_free(b, e);
    (void)news(b, n, SK_NEWS_UNHELD, id, NULL);
}

static sk_rc there(struct sk_book *b, struct sk_bnode *n, const struct sk_cmsg *m,
                   struct sk_err *err) {
    struct basked *a = sk_map_get(&b->asked, m->there.name);
    struct sk_btold *t;
    uint64_t value = sk_foreign_value(m->there.name);
    if (!m->there.here && m->there.value != value) return bad(n, "a wrong id", err);
    if (!a || a->node != n->number || a->told) return SK_OK; /* it was let go of meanwhile */
    a->told = true;
    a->moves = !m->there.stays;
    struct sk_bval *v = m->there.here ? NULL : sk_bval_of(b, value);
    /* The host released the object and holds it again: an event that it has not read yet gives it
     * the handle. */
    if (v && v->held) return SK_OK;
    struct sk_guest_news *w = news(b, n, SK_NEWS_THERE, m->there.name, &t);
    w->size = m->there.size;
    if (m->there.here) {
        w->value = (struct sk_guest_value){
            .kind = m->there.kind, .bytes = {t->keep[1] = kept(m->there.bytes), m->there.bytes.n}};
        return SK_OK;
    }
    if (!v) v = sk_bval_new(b, value);
    v->refs++;
    v->held = true;
    v->size = m->there.size;
    v->stays = m->there.stays;
    if (!sk_bval_there(v)) sk_bval_settle(b, v, n->number);
    v->why = SK_LOST_PUT;
    w->value.handle = v;
    return SK_OK;
}

static struct sk_bytes part_of(char **at, struct sk_bytes b) {
    char *p = *at;
    if (b.n) memcpy(p, b.p, b.n);
    *at += b.n;
    return (struct sk_bytes){p, b.n};
}

static sk_rc check_call(const struct sk_book *b, const struct sk_bnode *n, const struct sk_cmsg *m,
                        struct sk_err *err) {
    uint64_t first = m->call.first;
    uint32_t n_groups = (uint32_t)(m->call.groups.n / 4), group;
    bool actor = m->call.flags & SK_RUN_INIT;
    SK_DCHECK(sk_bnode_of(b, n->number) == n);
    for (uint32_t i = 0; i < n_groups; i++) {
        memcpy(&group, (const uint8_t *)m->call.groups.p + 4 * (size_t)i, 4);
        if (!group) return bad(n, "a group of an actor that runs no calls", err);
    }
    if ((m->call.need.where.n && !sk_where_n(m->call.need.where)) ||
        (m->call.actor && sk_id_place(m->call.actor) == n->place) ||
        m->call.space.n > SK_NAME_MAX || m->call.actor_name.n > SK_NAME_MAX ||
        (actor && (m->call.actor || m->call.n_returns != 1 || !first)))
        return bad(n, "a call that cannot be", err);
    if (actor) return SK_OK;
    uint32_t n_names = sk_foreign_n_names(m->call.n_returns);
    if (sk_id_place(first) != n->place || sk_id_place(first + n_names) != n->place)
        return bad(n, "returns of a call that cannot be", err);
    for (uint32_t i = 0; i < n_names; i++)
        if (sk_map_get(&n->lent, first + i)) return bad(n, "two calls return the same", err);
    return SK_OK;
}

/* What the host is told of a call, a task or an actor. */
struct btold_call {
    struct sk_guest_news news;
    struct sk_task_opts opts;
    struct sk_task_spec spec;
    struct sk_foreign_need need;
    struct sk_actor_opts actor_opts;
    struct sk_actor_spec actor;
    uint32_t groups[SK_GROUPS_MAX];
};

static char *text_of(char **at, struct sk_bytes b) { /* `at` has room for a NUL, too */
    char *p = *at;
    (void)part_of(at, b);
    *(*at)++ = 0;
    return p;
}

/* The options of an actor; `at` has room for what is borrowed. */
static void actor_of(struct btold_call *all, const struct sk_cmsg *m, char **at) {
    char *name = text_of(at, m->call.actor_name);
    if (m->call.groups.n) memcpy(all->groups, m->call.groups.p, m->call.groups.n);
    all->actor_opts = (struct sk_actor_opts){.name = *name ? name : NULL,
                                             .space = text_of(at, m->call.space),
                                             .meta = part_of(at, m->call.meta),
                                             .detached = (m->call.flags & SK_RUN_DETACHED) != 0,
                                             .is_async = (m->call.flags & SK_RUN_ASYNC) != 0,
                                             .n_groups = (uint32_t)(m->call.groups.n / 4),
                                             .groups = all->groups};
    all->actor = (struct sk_actor_spec){.init = all->spec,
                                        .max_restarts = m->call.max_retries,
                                        .max_task_retries = m->call.max_task_retries,
                                        .opts = &all->actor_opts};
    all->news.actor = &all->actor;
}

static sk_rc called(struct sk_book *b, struct sk_bnode *n, const struct sk_cmsg *m,
                    struct sk_err *err) {
    SK_TRY(check_call(b, n, m, err));
    bool actor = m->call.flags & SK_RUN_INIT;
    for (uint32_t i = 0; !actor && i < sk_foreign_n_names(m->call.n_returns); i++)
        put(&n->lent, m->call.first + i, zeros(sizeof(struct sk_blent)));
    struct btold_call *all = zeros(sizeof *all);
    struct sk_btold *t = tell(b, n->number, &all->news);
    t->keep[0] = all;
    size_t at_args = (m->call.n_contains) * sizeof(sk_oid);
    uint8_t *block = t->keep[1] = zeros(at_args + (m->call.n_args + 1) * sizeof(struct sk_arg));
    if (at_args) memcpy(block, m->call.contains.p, at_args);
    struct sk_arg *args = (struct sk_arg *)(void *)(block + at_args);
    const struct sk_foreign_need *need = &m->call.need;
    size_t texts = m->call.name.n + need->env.n + need->where.n + m->call.space.n +
                   m->call.actor_name.n + m->call.meta.n;
    char *bytes = t->keep[2] = zeros(m->call.args.n + 8 + texts + 3), *at = bytes;
    (void)part_of(&at, m->call.args);
    char *name = text_of(&at, m->call.name);
    all->need.res = need->res;
    all->need.env = part_of(&at, need->env);
    all->need.where = part_of(&at, need->where);
    struct sk_cmsg own = *m;
    own.call.args.p = bytes;
    sk_cmsg_call_spec(&own, args, &all->opts, &all->spec);
    all->spec.name = *name ? name : NULL;
    all->spec.contains = (sk_oid *)(void *)block;
    all->news = (struct sk_guest_news){.kind = SK_NEWS_CALLED,
                                       .id = m->call.first,
                                       .place = n->place,
                                       .spec = &all->spec,
                                       .need = m->call.actor ? NULL : &all->need};
    if (actor) actor_of(all, m, &at);
    return SK_OK;
}

/* A stream of a node has yielded an object of it, which the host holds from now on. */
static sk_rc yielded(struct sk_book *b, struct sk_bnode *n, const struct sk_cmsg *m,
                     struct sk_err *err) {
    uint64_t id = m->yield.id;
    if (sk_id_place(id) != n->place || sk_map_get(&b->asked, id))
        return bad(n, "a yield that cannot be", err);
    ask_for(b, n, id);
    news(b, n, SK_NEWS_YIELDED, m->yield.first, NULL)->of = id;
    return SK_OK;
}

static sk_rc asked(struct sk_book *b, struct sk_bnode *n, const struct sk_cmsg *m,
                   struct sk_err *err) {
    const struct sk_foreign_name *name = &m->name.name;
    bool gives = name->what == SK_NAME_CLAIM || name->what == SK_NAME_FREE;
    if (name->space.n > SK_NAME_MAX || name->name.n > SK_NAME_MAX ||
        (gives && sk_id_place(name->actor.v) != n->place))
        return bad(n, "a name that cannot be", err);
    struct sk_btold *t;
    struct sk_guest_news *w = news(b, n, SK_NEWS_NAME, m->name.ask, &t);
    struct sk_foreign_name *copy = t->keep[1] = zeros(sizeof *copy);
    char *at = t->keep[2] = zeros(name->space.n + name->name.n + name->meta.n + 1);
    *copy = *name;
    copy->space = part_of(&at, name->space);
    copy->name = part_of(&at, name->name);
    copy->meta = part_of(&at, name->meta);
    w->asked = copy;
    return SK_OK;
}

sk_rc sk_brefs_message(struct sk_book *b, struct sk_bnode *n, const struct sk_cmsg *m,
                       struct sk_err *err) {
    struct sk_blent *e;
    if (!n->place) return bad(n, "references do not travel to it", err);
    switch (m->type) {
    case SK_CMSG_DEFINE: return define(b, n, m, err);
    case SK_CMSG_HOLD: return held(b, n, m->end.id, err);
    case SK_CMSG_UNHOLD: unheld(b, n, m->end.id); return SK_OK;
    case SK_CMSG_THERE: return there(b, n, m, err);
    case SK_CMSG_CALL: return called(b, n, m, err);
    case SK_CMSG_ENDED: (void)news(b, n, SK_NEWS_ENDED, m->end.id, NULL); return SK_OK;
    case SK_CMSG_NAME: return asked(b, n, m, err);
    case SK_CMSG_YIELD: return yielded(b, n, m, err);
    case SK_CMSG_TOOK:
        news(b, n, SK_NEWS_TOOK, m->taken.task, NULL)->flags = m->taken.n;
        return SK_OK;
    case SK_CMSG_STOP:
        news(b, n, SK_NEWS_STOPPED, m->end.id, NULL)->flags = sk_cmsg_cancel_of(m->end.flags);
        return SK_OK;
    case SK_CMSG_KILL:
        news(b, n, SK_NEWS_KILLED, m->end.id, NULL)->no_restart = !(m->end.flags & SK_RUN_RESTART);
        return SK_OK;
    default: /* WANT */
        if ((e = sk_map_get(&n->lent, m->end.id)) && e->v && !e->wanted) {
            e->wanted = true;
            b->n_wanted++;
        }
        return SK_OK;
    }
}

/* Sends a value that the node could not read, if it is here. */
static void send_wanted(struct sk_book *b, struct sk_bnode *n, uint64_t name, struct sk_blent *e) {
    struct sk_bval *v = e->v;
    if (!v->err && !v->mine) {
        sk_bval_relay(b, v);
        if (!v->mine) return;
    }
    if (!v->err) {
        struct sk_cmsg m = {.type = SK_CMSG_PUT, .put.id = v->id};
        if (v->blob->len > SK_INLINE_MAX) {
            sk_bnode_send_blob(n, &m, v->blob);
            sk_bval_copy(v, n->number);
        }
    }
    say_there(n, name, v);
    unwant(b, e);
}

void sk_brefs_launch(struct sk_book *b) {
    uint64_t name;
    void *val;
    for (uint32_t i = 0; b->n_wanted && i < b->nodes.n; i++) {
        struct sk_bnode *n = b->nodes.p[i];
        for (uint32_t k = 0; n->alive && sk_map_next(&n->lent, &k, &name, &val);)
            if (((struct sk_blent *)val)->wanted) send_wanted(b, n, name, val);
    }
}

/* ---- losses, ends ---------------------------------------------------------------------------- */

static void drop_all(struct sk_book *b, struct sk_bnode *n) {
    uint64_t key;
    void *val;
    struct sk_map lent = n->lent;
    sk_map_init(&n->lent, TAG);
    for (uint32_t i = 0; sk_map_next(&lent, &i, &key, &val);) lent_free(b, val);
    sk_map_deinit(&lent);
}

void sk_brefs_lost(struct sk_book *b, struct sk_bnode *n, const char *why) {
    uint64_t key;
    void *val;
    struct sk_btold *t;
    if (!n->place) return;
    drop_all(b, n);
    SK_VEC(uint64_t) gone = {0};
    for (uint32_t i = 0; sk_map_next(&b->asked, &i, &key, &val);)
        if (((struct basked *)val)->node == n->number && !sk_vec_push(&gone, TAG, key)) abort();
    for (uint32_t i = 0; i < gone.n; i++) sk_free(sk_map_del(&b->asked, gone.p[i]));
    sk_vec_free(&gone);
    struct sk_guest_news *w = news(b, n, SK_NEWS_LOST, 0, &t);
    w->name = t->keep[1] = kept((struct sk_bytes){why, strlen(why)});
}

void sk_brefs_free(struct sk_book *b) {
    uint64_t key;
    void *val;
    for (uint32_t i = 0; i < b->nodes.n; i++) {
        struct sk_map *m = &b->nodes.p[i]->lent;
        for (uint32_t k = 0; sk_map_next(m, &k, &key, &val);) sk_free(val);
        sk_map_deinit(m);
    }
    for (uint32_t i = 0; sk_map_next(&b->asked, &i, &key, &val);) sk_free(val);
    sk_map_deinit(&b->asked);
}

bool sk_brefs_count(const struct sk_book *b, struct sk_map *refs) {
    uint64_t key;
    void *val;
    bool good = true;
    uint32_t wanted = 0;
    for (uint32_t i = 0; i < b->nodes.n; i++)
        for (uint32_t k = 0; sk_map_next(&b->nodes.p[i]->lent, &k, &key, &val);) {
            const struct sk_blent *e = val;
            wanted += e->wanted;
            if (!e->v) continue;
            uintptr_t r = (uintptr_t)sk_map_get(refs, e->v->id);
            good = good && b->nodes.p[i]->alive && sk_bval_of(b, e->v->id) == e->v &&
                   sk_map_put(refs, e->v->id, (void *)(r + 1)) == SK_OK; /* NOLINT: a number */
        }
    return good && wanted == b->n_wanted;
}
