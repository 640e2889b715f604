/* abroad.c - the agent's part that knows references (contract: abroad.h).
 *
 * Cost: an entry of some 100 bytes for each object that is held across, and two or three messages
 * for its whole life. */
#include "engine/cluster/abroad.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/containers/map.h"
#include "base/containers/vec.h"
#include "base/mem.h"
#include "engine/cluster/which/where.h"
#include "engine/engine_int.h"
#include "engine/foreign.h"
#include "engine/inner.h"
#include "engine/streams.h"
#include "engine/watch.h"

#define TAG SK_TAG_ENGINE

struct lent { /* an object of this engine that the driver holds; its key is the driver's name */
    uint64_t name;
    sk_oid oid;
    struct sk_arefs *r;
    struct sk_watch watch;
    uint64_t serial; /* of the holding: the driver may hold the object anew */
    bool watched, told;
};

struct given { /* a call that the driver has made here; its key is its tag */
    uint64_t first;
    uint32_t n_names; /* of its returns; a stream has one, for its end */
    uint32_t taken;   /* yields of a stream that were taken */
    bool stream;
    sk_aid actor;
    sk_tid task;
};

struct owed { /* an object of another engine to which there are references here */
    bool wanted, there, reading, done;
    bool dropped;    /* a return without references: UNHOLD follows when its call has ended */
    uint32_t n_late; /* `dropped` of earlier times that are to come (foreign.h) */
    uint32_t node;
    uint64_t value;    /* there: lies on `node`, 0: the driver has to be asked */
    struct made *call; /* not NULL: a return of this call, which has not ended */
};

struct made { /* a call of an actor of another engine, or a task there, until it has ended; its key
               * is `first`. Or an actor, until it has been made there: `first` is the question. */
    uint64_t first;
    bool is_actor;
    uint32_t n_names, n_refs;
    sk_oid *refs;         /* references to arguments, which are given back at the end */
    struct sk_outbox say; /* the messages */
};

enum what {
    HELD = 1,
    WANTED,
    DROPPED,
    CALLED,
    TAKEN,
    QUEUED,
    KILLED,
    CANCELLED,
    ASKED,
    EXISTS,
    YIELDED,
    OVER
};
struct news {
    enum what what;
    uint64_t id; /* object; EXISTS: name; YIELDED, OVER: tag */
    uint64_t serial;
    bool flag;      /* KILLED: no restart */
    uint32_t flags; /* CANCELLED; TAKEN: how many */
    struct made *call;
    struct sk_outbox say; /* ASKED: the message */
    sk_oid oid;           /* YIELDED; OVER: the error; with a reference */
};

struct sk_arefs {
    struct sk_foreign f;
    struct sk_sink sink;
    struct sk_arefs_host h;
    struct sk_map lent, given, owed, made, defined;
    struct sk_map actors; /* that are being made elsewhere */
    uint64_t next_tag, next_serial;
    bool over;
};

static void put(struct sk_map *m, uint64_t key, void *val) {
    if (sk_map_put(m, key, val) != SK_OK) abort(); /* a reference would be lost */
}
static void say(struct sk_arefs *r, enum sk_cmsg_type type, uint64_t id, uint32_t flags) {
    struct sk_cmsg m = {.type = type, .end = {id, flags}};
    r->h.send(r->h.ctx, &m);
}
static void *zeros(size_t n) {
    void *p = sk_calloc(TAG, n);
    if (!p) abort(); /* a reference would be lost */
    return p;
}

/* ---- what the engine says, with its lock held ------------------------------------------------ */

static void queue(struct sk_arefs *r, struct news n) {
    SK_DCHECK(n.what >= HELD && n.what <= OVER);
    struct news *copy = sk_memdup(TAG, &n, sizeof n);
    if (!copy) abort();
    r->h.queue(r->h.ctx, copy);
}
static struct sk_arefs *of(struct sk_foreign *f) { return sk_container_of(f, struct sk_arefs, f); }
static void f_held(struct sk_foreign *f, sk_oid o) {
    queue(of(f), (struct news){.what = HELD, .id = o.v});
}
static void f_wanted(struct sk_foreign *f, sk_oid o) {
    queue(of(f), (struct news){.what = WANTED, .id = o.v});
}
static void f_dropped(struct sk_foreign *f, sk_oid o) {
    queue(of(f), (struct news){.what = DROPPED, .id = o.v});
}
static void f_killed(struct sk_foreign *f, sk_aid a, bool no_restart) {
    queue(of(f), (struct news){.what = KILLED, .id = a.v, .flag = no_restart});
}

static void f_taken(struct sk_foreign *f, sk_oid first, uint32_t n) {
    queue(of(f), (struct news){.what = TAKEN, .id = first.v, .flags = n});
}

static void f_queued(struct sk_foreign *f) { queue(of(f), (struct news){.what = QUEUED}); }

static void f_cancelled(struct sk_foreign *f, sk_oid o, uint32_t flags) {
    queue(of(f), (struct news){.what = CANCELLED, .id = o.v, .flags = flags});
}

static void f_asked(struct sk_foreign *f, uint64_t ask, const struct sk_foreign_name *name) {
    struct news n = {.what = ASKED};
    struct sk_cmsg m = {.type = SK_CMSG_NAME, .name = {ask, *name}};
    if (sk_cmsg_put(&n.say, &m, NULL) != SK_OK) abort(); /* its worker would wait for ever */
    queue(of(f), n);
}

static bool f_here(struct sk_foreign *f, struct sk_bytes where) {
    if (!sk_where_n(where)) return false;
    return !(sk_where_flags(where) & SK_WHERE_SPREAD) && sk_where_rank(where, of(f)->h.labels) == 0;
}

/* A call, a task or (as not NULL) an actor of another engine, with its messages. */
static struct made *made_new(uint64_t first, const struct sk_task_spec *s,
                             const struct sk_foreign_need *need, const struct sk_actor_spec *as,
                             struct sk_bytes def) {
    struct made *c = zeros(sizeof *c);
    *c = (struct made){
        .first = first, .n_names = sk_foreign_n_names(s->n_returns), .is_actor = as != NULL};
    c->refs = zeros((s->n_args + s->n_contains + 1) * sizeof *c->refs);
    for (uint32_t i = 0; i < s->n_args; i++)
        if (s->args[i].ref.v) c->refs[c->n_refs++] = s->args[i].ref;
    for (uint32_t i = 0; i < s->n_contains; i++) c->refs[c->n_refs++] = s->contains[i];
    struct sk_cmsg m;
    void *args = sk_cmsg_call(s, first, need, &m);
    if (!args) abort(); /* the call would be lost */
    if (as) {
        struct sk_aspec a = sk_aspec_of(as);
        m.call.flags |=
            SK_RUN_INIT | (a.is_async ? SK_RUN_ASYNC : 0u) | (a.detached ? SK_RUN_DETACHED : 0u);
        m.call.max_retries = a.max_restarts;
        m.call.max_task_retries = a.max_task_retries;
        m.call.groups = (struct sk_bytes){a.groups, 4 * (size_t)a.n_groups};
        m.call.space = a.space;
        m.call.actor_name = a.name;
        m.call.meta = a.meta;
    }
    struct sk_cmsg d = {.type = SK_CMSG_DEFINE,
                        .define = {.fn = s->fn.v, .name = m.call.name, .def = def}};
    if ((def.n && sk_cmsg_put(&c->say, &d, NULL) != SK_OK) ||
        sk_cmsg_put(&c->say, &m, NULL) != SK_OK)
        abort();
    sk_free(args);
    return c;
}

static void f_called(struct sk_foreign *f, const struct sk_task_spec *s,
                     const struct sk_foreign_need *need, struct sk_bytes def, sk_oid first) {
    struct made *c = made_new(first.v, s, need, NULL, def);
    queue(of(f), (struct news){.what = CALLED, .id = first.v, .call = c});
}

static void f_made(struct sk_foreign *f, uint64_t ask, const struct sk_actor_spec *s,
                   const struct sk_foreign_need *need, struct sk_bytes def) {
    SK_ASSERT(s && need && ask);
    struct made *c = made_new(ask, &s->init, need, s, def);
    queue(of(f), (struct news){.what = CALLED, .call = c});
}

static void on_watch(struct sk_watch *w) {
    struct lent *l = sk_container_of(w, struct lent, watch);
    queue(l->r, (struct news){.what = EXISTS, .id = l->name, .serial = l->serial});
}

static void on_events(struct sk_sink *s, const struct sk_event *ev, size_t n) {
    struct sk_arefs *r = sk_container_of(s, struct sk_arefs, sink);
    for (size_t i = 0; i < n; i++)
        if (ev[i].kind == SK_EV_DONE || ev[i].kind == SK_EV_FAILED)
            queue(r, (struct news){.what = OVER, .id = ev[i].tag, .oid = ev[i].oid});
        else if (ev[i].kind == SK_EV_YIELDED)
            queue(r, (struct news){.what = YIELDED, .id = ev[i].tag, .oid = ev[i].oid});
}

/* ---- objects of this engine ------------------------------------------------------------------ */

/* Tells the driver the value, or where it lies. */
static void tell(struct sk_arefs *r, struct lent *l) {
    struct sk_engine *e = r->h.e;
    struct sk_err err = {0};
    struct sk_view v = {0};
    uint8_t room[SK_CMSG_ERROR];
    SK_DCHECK(sk_map_get(&r->lent, l->name) == l);
    if (l->told || r->over) return;
    sk_rc rc = e->ops->get(e, &l->oid, 1, INT64_MAX, &v, &err);
    if (rc == SK_OK && !v.data && !v.kind) return; /* an actor */
    l->told = true;
    struct sk_cmsg m = {.type = SK_CMSG_THERE,
                        .there = {.name = l->name, .size = v.len, .here = true, .kind = v.kind}};
    m.there.stays = e->inner && e->inner->count(e, &l->oid, 1) > 0;
    if (rc != SK_OK) {
        m.there.kind = SK_KIND_ENGINE_ERROR;
        m.there.bytes = sk_cmsg_error(room, rc, err.msg);
    } else if (v.len <= SK_INLINE_MAX || SK_KIND_IS_ERROR(v.kind)) {
        m.there.bytes = (struct sk_bytes){v.data, v.len};
    } else {
        m.there.here = false;
        m.there.value = sk_foreign_value(l->name);
        e->ops->retain(e, l->oid);
        r->h.keep(r->h.ctx, m.there.value, l->oid);
    }
    r->h.send(r->h.ctx, &m);
    if (rc == SK_OK) e->ops->view_release(e, &v);
}

static struct lent *lend(struct sk_arefs *r, uint64_t name, sk_oid oid) {
    SK_DCHECK(oid.v && !sk_map_get(&r->lent, name));
    struct lent *l = zeros(sizeof *l);
    *l = (struct lent){
        .name = name, .oid = oid, .r = r, .watch.fn = on_watch, .serial = ++r->next_serial};
    put(&r->lent, name, l);
    return l;
}

static void hold(struct sk_arefs *r, uint64_t id) {
    struct sk_engine *e = r->h.e;
    if (sk_map_get(&r->lent, id)) return;
    e->ops->retain(e, (sk_oid){id});
    struct lent *l = lend(r, id, (sk_oid){id});
    sk_rc rc = e->watch->add(e, l->oid, (sk_tid){0}, &l->watch, NULL);
    l->watched = rc == SK_OK;
    if (rc != SK_OK) tell(r, l);
}

static void unlend(struct sk_arefs *r, struct lent *l) {
    struct sk_engine *e = r->h.e;
    SK_ASSERT(sk_map_get(&r->lent, l->name) == l);
    if (l->watched) (void)e->watch->remove(e, &l->watch); /* it may have been called */
    sk_map_del(&r->lent, l->name);
    r->h.drop(r->h.ctx, sk_foreign_value(l->name));
    e->ops->release(e, l->oid);
    sk_free(l);
}

/* ---- calls of actors of this engine ---------------------------------------------------------- */

static void refuse(struct sk_arefs *r, const struct sk_cmsg *m, sk_rc code, const char *text) {
    uint8_t room[SK_CMSG_ERROR];
    struct sk_bytes why = sk_cmsg_error(room, code, text);
    for (uint32_t i = 0; i < sk_foreign_n_names(m->call.n_returns); i++) {
        struct sk_cmsg t = {.type = SK_CMSG_THERE,
                            .there = {.name = m->call.first + i,
                                      .here = true,
                                      .kind = SK_KIND_ENGINE_ERROR,
                                      .bytes = why}};
        r->h.send(r->h.ctx, &t);
    }
    say(r, SK_CMSG_ENDED, m->call.first, 0);
}

/* Whether streams of the engine wait until what they yielded is taken. */
static bool may_wait(const struct sk_arefs *r) { return r->h.e->streams && r->h.e->streams->taken; }

static sk_rc call(struct sk_arefs *r, const struct sk_cmsg *m, struct sk_err *err) {
    struct sk_engine *e = r->h.e;
    struct sk_err why = {0};
    char name[256];
    bool stream = m->call.n_returns == SK_STREAMING;
    if (!m->call.actor) return SK_ERR(err, SK_ECORRUPT, "a task as a call");
    for (uint32_t i = 0; i < sk_foreign_n_names(m->call.n_returns); i++)
        if (sk_map_get(&r->lent, m->call.first + i))
            return SK_ERR(err, SK_ECORRUPT, "two calls return the same object");
    struct sk_arg *args = zeros((m->call.n_args + 1) * sizeof *args);
    sk_oid *contains = zeros((m->call.n_contains + 1) * sizeof *contains);
    if (m->call.n_contains) memcpy(contains, m->call.contains.p, m->call.contains.n);
    snprintf(name, sizeof name, "%.*s", (int)SK_MIN(m->call.name.n, sizeof name - 1),
             (const char *)m->call.name.p);
    struct sk_task_opts o;
    struct sk_task_spec s;
    sk_cmsg_call_spec(m, args, &o, &s);
    if (!may_wait(r)) o.stream_window = 0;
    s.name = name;
    s.contains = contains;
    s.sink = &r->sink;
    s.sink_tag = ++r->next_tag;
    struct given *g = zeros(sizeof *g);
    *g = (struct given){.first = m->call.first,
                        .n_names = sk_foreign_n_names(m->call.n_returns),
                        .stream = stream,
                        .actor = {m->call.actor}};
    put(&r->given, s.sink_tag, g);
    sk_oid first = {0};
    sk_rc rc = e->ops->submit(e, &s, &first, &g->task, &why);
    for (uint32_t i = 0; rc == SK_OK && !stream && i < m->call.n_returns; i++)
        (void)lend(r, m->call.first + i, (sk_oid){first.v + i});
    sk_free(args);
    sk_free(contains);
    if (rc == SK_OK) return SK_OK;
    sk_map_del(&r->given, s.sink_tag);
    sk_free(g);
    refuse(r, m, rc, why.msg);
    return SK_OK;
}

static struct given *given_of(const struct sk_arefs *r, uint64_t first) {
    uint64_t key;
    void *val;
    for (uint32_t i = 0; sk_map_next(&r->given, &i, &key, &val);)
        if (((struct given *)val)->first == first) return val;
    return NULL;
}

/* The driver has taken so many yields of a stream. */
static void took(struct sk_arefs *r, uint64_t first, uint32_t n) {
    struct given *g = given_of(r, first);
    if (!g || !g->stream || !may_wait(r) || g->taken == UINT32_MAX || n <= g->taken) return;
    uint32_t more = SK_MIN(n, SK_CLUSTER_VALUES + g->taken) - g->taken;
    r->h.e->streams->taken(r->h.e, g->task, more);
    g->taken = n;
}

/* A stream of the driver has yielded an object, whose reference is taken over. */
static void yielded(struct sk_arefs *r, const struct news *n) {
    const struct given *g = sk_map_get(&r->given, n->id);
    if (!g || sk_map_get(&r->lent, n->oid.v)) {
        r->h.e->ops->release(r->h.e, n->oid);
        return;
    }
    struct sk_cmsg m = {.type = SK_CMSG_YIELD, .yield = {g->first, n->oid.v}};
    r->h.send(r->h.ctx, &m);
    tell(r, lend(r, n->oid.v, n->oid));
}

/* Cancels a call of the driver, or the task that makes an object of this engine. */
static void stop(struct sk_arefs *r, uint64_t id, uint32_t flags) {
    const struct lent *l = sk_map_get(&r->lent, id);
    const struct given *g = l ? NULL : given_of(r, id);
    sk_tid task = {l ? l->oid.v : g ? g->task.v : 0};
    if (task.v) (void)!r->h.e->ops->cancel(r->h.e, task, sk_cmsg_cancel_of(flags), NULL);
}

/* Tells the end of a stream: nothing, or the error object. */
static void tell_end(struct sk_arefs *r, const struct given *g, sk_oid error) {
    struct sk_engine *e = r->h.e;
    struct sk_view v = {0};
    struct sk_err err = {0};
    uint8_t room[SK_CMSG_ERROR];
    struct sk_cmsg m = {.type = SK_CMSG_THERE, .there = {.name = g->first, .here = true}};
    sk_rc rc = error.v ? e->ops->get(e, &error, 1, INT64_MAX, &v, &err) : SK_OK;
    m.there.kind = rc == SK_OK ? v.kind : SK_KIND_ENGINE_ERROR;
    m.there.bytes =
        rc == SK_OK ? (struct sk_bytes){v.data, v.len} : sk_cmsg_error(room, rc, err.msg);
    m.there.size = m.there.bytes.n;
    r->h.send(r->h.ctx, &m);
    if (rc == SK_OK && error.v) e->ops->view_release(e, &v);
}

static void over(struct sk_arefs *r, const struct news *n) {
    struct given *g = sk_map_del(&r->given, n->id);
    if (g && g->stream) tell_end(r, g, n->oid);
    if (n->oid.v) r->h.e->ops->release(r->h.e, n->oid);
    if (!g) return;
    for (uint32_t i = 0; i < g->n_names; i++) {
        struct lent *l = sk_map_get(&r->lent, g->first + i);
        if (l) tell(r, l);
    }
    say(r, SK_CMSG_ENDED, g->first, 0);
    sk_free(g);
}

/* ---- objects of others ----------------------------------------------------------------------- */

static void bring_payload(struct sk_arefs *r, uint64_t id, struct owed *o,
                          const struct sk_payload *p) {
    struct sk_engine *e = r->h.e;
    struct sk_err err = {0};
    uint8_t room[SK_CMSG_ERROR];
    o->done = true;
    sk_rc rc = e->foreign->bring(e, (sk_oid){id}, p, &err);
    if (rc == SK_OK || rc == SK_ENOENT || rc == SK_EEXIST || rc == SK_ECLOSED) return;
    struct sk_payload why = {.kind = SK_KIND_ENGINE_ERROR,
                             .bytes = sk_cmsg_error(room, rc, err.msg)};
    (void)!e->foreign->bring(e, (sk_oid){id}, &why, NULL); /* nobody can be told if that fails */
}
static void bring(struct sk_arefs *r, uint64_t id, struct owed *o, uint32_t kind,
                  struct sk_bytes bytes) {
    bring_payload(r, id, o, &(struct sk_payload){.kind = kind, .bytes = bytes});
}

static void ask_driver(struct sk_arefs *r, uint64_t id, struct owed *o) {
    SK_DCHECK(sk_map_get(&r->owed, id) == o && !o->done);
    o->there = o->reading = false;
    say(r, SK_CMSG_WANT, id, 0);
}

/* Brings a large value that something waits for. */
static void get_it(struct sk_arefs *r, uint64_t id, struct owed *o) {
    struct sk_engine *e = r->h.e;
    struct sk_view v = {0};
    struct sk_err err = {0};
    uint8_t room[SK_CMSG_ERROR];
    sk_oid here = {0};
    if (!o->wanted || !o->there || o->reading || o->done) return;
    sk_rc rc = r->h.have(r->h.ctx, o->value, &here, &err);
    if (rc == SK_OK) rc = e->ops->get(e, &here, 1, INT64_MAX, &v, &err);
    if (rc == SK_OK) {
        bring(r, id, o, v.kind, (struct sk_bytes){v.data, v.len});
        e->ops->view_release(e, &v);
    } else if (rc != SK_ENOENT) {
        bring(r, id, o, SK_KIND_ENGINE_ERROR, sk_cmsg_error(room, rc, err.msg));
    } else if (o->node && r->h.read(r->h.ctx, o->node, o->value, id)) {
        o->reading = true;
    } else ask_driver(r, id, o);
}

static void there(struct sk_arefs *r, const struct sk_cmsg *m) {
    struct owed *o = sk_map_get(&r->owed, m->there.name);
    if (!o || o->done) return; /* it was let go of meanwhile */
    if (m->there.here) {
        bring(r, m->there.name, o, m->there.kind, m->there.bytes);
        return;
    }
    o->there = true;
    o->node = m->there.node;
    o->value = m->there.value;
    get_it(r, m->there.name, o);
}

void sk_arefs_came(struct sk_arefs *r, uint64_t name, const struct sk_payload *p) {
    struct owed *o = sk_map_get(&r->owed, name);
    if (!o || !o->reading || o->done) return;
    o->reading = false;
    if (p) bring_payload(r, name, o, p);
    else ask_driver(r, name, o);
}

static void let_go(struct sk_arefs *r, uint64_t id, struct owed *o) {
    SK_ASSERT(!o->call && sk_map_get(&r->owed, id) == o);
    sk_map_del(&r->owed, id);
    sk_free(o);
    say(r, SK_CMSG_UNHOLD, id, 0);
}

static void held(struct sk_arefs *r, uint64_t id, struct owed *o) {
    SK_DCHECK(!o || !o->call); /* returns are held from their call on */
    if (o) {                   /* it was dropped and met again */
        *o = (struct owed){.n_late = o->n_late + 1};
        say(r, SK_CMSG_UNHOLD, id, 0);
    } else put(&r->owed, id, zeros(sizeof *o));
    say(r, SK_CMSG_HOLD, id, 0);
}

/* ---- calls of actors of others --------------------------------------------------------------- */

static void made_free(struct sk_arefs *r, struct made *c) {
    for (uint32_t i = 0; i < c->n_refs; i++) r->h.e->ops->release(r->h.e, c->refs[i]);
    sk_free(c->refs);
    sk_free(c->say.p);
    sk_free(c);
}

/* Sends messages that were written when the engine said something. */
static void said(struct sk_arefs *r, struct sk_outbox *o) {
    for (size_t at = 0; at < o->n;) {
        uint64_t body;
        uint32_t type;
        struct sk_cmsg m;
        sk_cmsg_head(o->p + at, &body, &type);
        if (sk_cmsg_read(type, (struct sk_bytes){o->p + at + SK_CMSG_HEAD, body}, &m, NULL) !=
            SK_OK)
            abort(); /* it was written here */
        at += SK_CMSG_HEAD + body;
        if (m.type == SK_CMSG_DEFINE && sk_map_get(&r->defined, m.define.fn)) continue;
        if (m.type == SK_CMSG_DEFINE) put(&r->defined, m.define.fn, r);
        r->h.send(r->h.ctx, &m);
    }
    sk_free(o->p);
    *o = (struct sk_outbox){0};
}

static void called(struct sk_arefs *r, struct made *c) {
    SK_ASSERT(!sk_map_get(c->is_actor ? &r->actors : &r->made, c->first));
    said(r, &c->say);
    if (c->is_actor) {
        put(&r->actors, c->first, c);
        return;
    }
    for (uint32_t i = 0; i < c->n_names; i++) {
        struct owed *o = zeros(sizeof *o);
        o->call = c;
        put(&r->owed, c->first + i, o);
    }
    put(&r->made, c->first, c);
}

static void ended(struct sk_arefs *r, uint64_t first) {
    struct made *c = sk_map_del(&r->made, first);
    if (!c) return;
    for (uint32_t i = 0; i < c->n_names; i++) {
        struct owed *o = sk_map_get(&r->owed, first + i);
        SK_ASSERT(o && o->call == c); /* returns stay until their call has ended */
        o->call = NULL;
        if (o->dropped) let_go(r, first + i, o);
    }
    r->h.e->foreign->ended(r->h.e, (sk_oid){first});
    made_free(r, c);
}

/* A stream of the other side has yielded an object, which is held from now on. */
static void came_yield(struct sk_arefs *r, uint64_t first, uint64_t id) {
    if (sk_map_get(&r->owed, id)) return; /* HOLD of it is on its way to the driver */
    if (!sk_map_get(&r->made, first)) {
        say(r, SK_CMSG_UNHOLD, id, 0);
        return;
    }
    put(&r->owed, id, zeros(sizeof(struct owed)));
    r->h.e->foreign->yielded(r->h.e, (sk_oid){first}, (sk_oid){id});
}

/* The driver's answer to a question about a name, or whether an actor was made. */
static void named(struct sk_arefs *r, const struct sk_cmsg *m) {
    struct made *c = sk_map_del(&r->actors, m->named.ask);
    r->h.e->foreign->answer(r->h.e, m->named.ask, m->named.rc, (sk_aid){m->named.actor},
                            m->named.bytes);
    if (m->named.actor) /* after HOLD of the actor */
        f_asked(&r->f, m->named.ask, &(struct sk_foreign_name){.what = SK_NAME_GOT});
    if (c) made_free(r, c); /* the driver has said HOLD of the arguments */
}

/* ---- news, messages -------------------------------------------------------------------------- */

void sk_arefs_news(struct sk_arefs *r, void *news) {
    struct news *n = news;
    struct owed *o = sk_map_get(&r->owed, n->id);
    struct lent *l;
    if (r->over) {
        if (n->call) made_free(r, n->call);
        sk_free(n->say.p);
        if (n->oid.v) r->h.e->ops->release(r->h.e, n->oid);
        sk_free(n);
        return;
    }
    switch (n->what) {
    case HELD: held(r, n->id, o); break;
    case WANTED:
        if (!o) break;
        o->wanted = true;
        get_it(r, n->id, o);
        if (!o->done) r->h.waits(r->h.ctx);
        break;
    case DROPPED:
        if (o && o->n_late) o->n_late--;
        else if (o && o->call) o->dropped = true;
        else if (o) let_go(r, n->id, o);
        break;
    case CALLED: called(r, n->call); break;
    case TAKEN:
        if (sk_map_get(&r->made, n->id)) {
            struct sk_cmsg m = {.type = SK_CMSG_TOOK, .taken = {n->id, n->flags}};
            r->h.send(r->h.ctx, &m);
        }
        break;
    case QUEUED: r->h.queued(r->h.ctx); break;
    case YIELDED: yielded(r, n); break;
    case CANCELLED:
        if (o || sk_map_get(&r->made, n->id))
            say(r, SK_CMSG_STOP, o && o->call ? o->call->first : n->id,
                sk_cmsg_of_cancel(n->flags));
        break;
    case ASKED: said(r, &n->say); break;
    case KILLED: say(r, SK_CMSG_KILL, n->id, n->flag ? 0 : SK_RUN_RESTART); break;
    case EXISTS:
        l = sk_map_get(&r->lent, n->id);
        if (!l || l->serial != n->serial) break;
        l->watched = false;
        tell(r, l);
        break;
    case OVER: over(r, n); break;
    }
    sk_free(n);
}

sk_rc sk_arefs_message(struct sk_arefs *r, const struct sk_cmsg *m, struct sk_err *err) {
    struct lent *l;
    switch (m->type) {
    case SK_CMSG_HOLD: hold(r, m->end.id); return SK_OK;
    case SK_CMSG_UNHOLD:
        if ((l = sk_map_get(&r->lent, m->end.id))) unlend(r, l);
        return SK_OK;
    case SK_CMSG_THERE: there(r, m); return SK_OK;
    case SK_CMSG_CALL: return call(r, m, err);
    case SK_CMSG_ENDED: ended(r, m->end.id); return SK_OK;
    case SK_CMSG_NAMED: named(r, m); return SK_OK;
    case SK_CMSG_YIELD: came_yield(r, m->yield.first, m->yield.id); return SK_OK;
    case SK_CMSG_TOOK: took(r, m->taken.task, m->taken.n); return SK_OK;
    case SK_CMSG_STOP: stop(r, m->end.id, m->end.flags); return SK_OK;
    case SK_CMSG_KILL: /* it may have ended by itself */
        (void)!r->h.e->ops->actor_end(r->h.e, (sk_aid){m->end.id}, !(m->end.flags & SK_RUN_RESTART),
                                      NULL);
        return SK_OK;
    default: return SK_ERR(err, SK_ECORRUPT, "message of type %d", (int)m->type);
    }
}

/* ---- making, ending -------------------------------------------------------------------------- */

void sk_arefs_count(const struct sk_arefs *r, uint64_t *n_lent, uint64_t *n_calls,
                    uint64_t *n_foreign) {
    *n_lent = r ? r->lent.n : 0;
    *n_calls = r ? r->given.n + r->made.n + r->actors.n : 0;
    *n_foreign = r ? r->owed.n : 0;
}

sk_rc sk_arefs_create(struct sk_arefs **out, const struct sk_arefs_host *h, struct sk_err *err) {
    if (!h->e->foreign || !h->e->watch)
        return SK_ERR(err, SK_ENOSYS, "this engine knows no objects of others");
    struct sk_arefs *r = sk_calloc(TAG, sizeof *r);
    if (!r) return SK_ERR(err, SK_ENOMEM, "references of a node");
    *r = (struct sk_arefs){.f = {.held = f_held,
                                 .wanted = f_wanted,
                                 .dropped = f_dropped,
                                 .called = f_called,
                                 .made = f_made,
                                 .here = f_here,
                                 .taken = f_taken,
                                 .queued = f_queued,
                                 .cancelled = f_cancelled,
                                 .asked = f_asked,
                                 .killed = f_killed},
                           .sink = {on_events},
                           .h = *h};
    sk_map_init(&r->lent, TAG);
    sk_map_init(&r->given, TAG);
    sk_map_init(&r->owed, TAG);
    sk_map_init(&r->made, TAG);
    sk_map_init(&r->actors, TAG);
    sk_map_init(&r->defined, TAG);
    sk_rc rc = h->e->foreign->serve(h->e, &r->f, err);
    if (rc == SK_OK) *out = r;
    else sk_arefs_free(r);
    return rc;
}

void sk_arefs_cancel(struct sk_arefs *r) {
    uint64_t key;
    void *val;
    for (uint32_t i = 0; sk_map_next(&r->given, &i, &key, &val);)
        (void)!r->h.e->ops->actor_end(r->h.e, ((struct given *)val)->actor, true, NULL);
}

bool sk_arefs_wait(const struct sk_arefs *r) {
    uint64_t key;
    void *val;
    for (uint32_t i = 0; sk_map_next(&r->owed, &i, &key, &val);)
        if (((struct owed *)val)->wanted && !((struct owed *)val)->done) return true;
    return false;
}

bool sk_arefs_idle(const struct sk_arefs *r) { return !r->given.n; }

void sk_arefs_end(struct sk_arefs *r) {
    uint64_t key;
    void *val;
    SK_VEC(struct lent *) all = {0};
    for (uint32_t i = 0; sk_map_next(&r->lent, &i, &key, &val);)
        if (!sk_vec_push(&all, TAG, (struct lent *)val)) abort();
    for (uint32_t i = 0; i < all.n; i++) unlend(r, all.p[i]);
    sk_vec_free(&all);
    (void)!r->h.e->foreign->serve(r->h.e, NULL, NULL);
    for (uint32_t i = 0; sk_map_next(&r->made, &i, &key, &val);) made_free(r, val);
    for (uint32_t i = 0; sk_map_next(&r->actors, &i, &key, &val);) made_free(r, val);
    for (uint32_t i = 0; sk_map_next(&r->owed, &i, &key, &val);) sk_free(val);
    for (uint32_t i = 0; sk_map_next(&r->given, &i, &key, &val);) sk_free(val);
    sk_map_deinit(&r->made);
    sk_map_deinit(&r->actors);
    sk_map_deinit(&r->owed);
    sk_map_deinit(&r->given);
    r->over = true;
}

void sk_arefs_free(struct sk_arefs *r) {
    if (!r) return;
    sk_map_deinit(&r->lent);
    sk_map_deinit(&r->given);
    sk_map_deinit(&r->owed);
    sk_map_deinit(&r->made);
    sk_map_deinit(&r->actors);
    sk_map_deinit(&r->defined);
    sk_free(r);
}
