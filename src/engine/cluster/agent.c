/* agent.c - the agent of a node (contract: agent.h).
 *
 * A task waits here until its arguments have been read from other nodes. Calls of an actor are
 * given to the engine in the order in which they came, so one that waits holds back those behind
 * it. */
#include "engine/cluster/agent.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/containers/list.h"
#include "base/containers/map.h"
#include "base/containers/vec.h"
#include "engine/cluster/abroad.h"
#include "engine/cluster/tell.h"
#include "base/clock.h"
#include "engine/envs.h"
#include "engine/groups.h"
#include "engine/host.h"
#include "engine/inner.h"
#include "engine/streams.h"
#include "engine/watch.h"

#define TAG SK_TAG_ENGINE
#define PRINTS_MOST (64u << 10) /* of lines in one message */

struct aval { /* a value that the driver knows to be here, or to be on its way */
    uint64_t id;
    sk_oid oid;         /* 0: it is on its way */
    uint64_t ask;       /* number of the ask by which it comes */
    bool dropped;       /* while it was on its way */
    struct sk_err *err; /* it could not be stored */
};

struct aactor {
    uint64_t id;
    sk_aid aid;
    sk_oid ready;
    struct sk_list calls; /* that wait */
    bool any_order;       /* it has concurrency groups: a call that waits holds back no other */
    bool returns;         /* a call went back to the driver, so those behind it do, too */
    uint64_t init;        /* the task that is its constructor */
    uint32_t attempt;     /* of the first start here */
    struct sk_agent *agent;
    struct sk_watch watch; /* of its end */
    bool watched;
};

struct atask {
    struct sk_list link;  /* waiting: in a->waiting or in actor->calls */
    uint64_t id, serial;  /* serial: of this run; the driver may send the task again */
    struct aactor *actor; /* of a call */
    struct sk_cmsg run;   /* borrows from `body` until the engine has the task */
    void *body;
    /* for each argument: an object to which the task has a reference of its own, or 0 */
    sk_oid *own;
    bool *whole;        /* own[i] is the whole value, whatever part of it is the argument */
    uint32_t n_missing; /* arguments that are being read */
    bool given;         /* the engine has the task */
    uint32_t taken;     /* yields of which the engine knows that they were taken */
    bool refused;       /* it made a value that does not travel, so it fails when it has ended */
    uint32_t attempt;   /* number of the driver for the engine's attempt 0 */
    bool is_init;
    uint32_t n_returns;
    sk_oid first;
    sk_tid tid;
    struct sk_agent *agent; /* of a constructor: watched until it is ready */
    struct sk_watch watch;
    bool watched; /* until its end is handled; it has a reference to `first` */
};

struct awaiter {           /* argument `arg` of the run `serial` of a task */
    uint64_t task, serial; /* task 0: the driver's order BRING, whose number is `serial` */
    uint32_t arg;
};

struct ask { /* something that is being read from another node */
    uint64_t id;
    uint32_t node;
    bool part;     /* only a part, for one task; else the value, for all tasks that wait for it */
    uint64_t name; /* not 0: for this object of another engine, and for no task */
    SK_VEC(struct awaiter) waiters;
};

struct pin { /* an object whose bytes wait to be sent from where they are */
    uint64_t oid;
    uint32_t refs; /* frames */
    struct sk_view view;
};

struct coming { /* a buffer of the engine that the bytes of a value are read into */
    struct sk_buf buf;
    size_t room;
};

struct aevent { /* an event of the engine, until the next step */
    struct sk_event ev;
    struct sk_err err;
    uint8_t note[SK_NOTE_MAX];
};

struct aqueued { /* one of the two */
    struct aevent *event;
    void *news; /* of abroad.h */
};

struct ashape {
    struct sk_need need; /* with the driver's number of the environment */
    sk_shape shape;
};

struct apeer {
    uint32_t number;
    uint64_t incarnation;
    char *address;
    struct sk_outbox out;
};

struct sk_agent {
    struct sk_engine *e;
    struct sk_sink sink;
    struct sk_agent_conf conf;
    struct sk_map tasks, values, actors, asks, peers;
    struct sk_map envs; /* number of an environment -> its number here */
    struct sk_list waiting;
    struct sk_outbox out; /* to the driver */
    uint64_t next_ask, next_serial, read_bytes, n_runs;
    struct sk_map pins; /* object -> pin */
    /* Bytes of pinned objects, bytes of buffers that values are coming into, and how many there may
     * be of each: neither can leave memory, and this thread may wait for room. */
    uint64_t pinned, placed, most;
    bool closing, stirred;
    bool queued;           /* tasks of tasks wait here which other nodes may run */
    struct sk_arefs *refs; /* NULL: references do not travel */
    struct sk_atell *tell;
    pthread_mutex_t mu; /* guards `events` and `dead` */
    SK_VEC(struct aqueued) events;
    SK_VEC(uint64_t) dead; /* actors that have ended for good since the last step */
    SK_VEC(struct ashape) shapes;
};

/* ---- messages -------------------------------------------------------------------------------- */

static void to_driver(struct sk_agent *a, const struct sk_cmsg *m) {
    if (!a->closing && sk_cmsg_put(&a->out, m, NULL) != SK_OK) abort();
}

static struct apeer *peer_of(struct sk_agent *a, uint32_t number) {
    return sk_map_get(&a->peers, number);
}

/* Makes the peer if it is not known: it may ask before the driver says where it is. */
static struct apeer *peer_get(struct sk_agent *a, uint32_t number) {
    struct apeer *p = peer_of(a, number);
    if (p) return p;
    p = sk_calloc(TAG, sizeof *p);
    if (!p || sk_map_put(&a->peers, number, p) != SK_OK) abort();
    p->number = number;
    return p;
}

static void say_failed(struct sk_agent *a, uint64_t task, uint32_t attempt, sk_rc code,
                       const char *text) {
    struct sk_cmsg m = {.type = SK_CMSG_EVENT,
                        .event = {.task = task,
                                  .kind = SK_EV_FAILED,
                                  .attempt = attempt,
                                  .code = code,
                                  .text = {text, strlen(text)}}};
    to_driver(a, &m);
}

/* ---- values ---------------------------------------------------------------------------------- */

static struct aval *value_new(struct sk_agent *a, uint64_t id, sk_oid oid) {
    SK_DCHECK(id && !sk_map_get(&a->values, id));
    struct aval *v = sk_calloc(TAG, sizeof *v);
    if (!v || sk_map_put(&a->values, id, v) != SK_OK) abort();
    v->id = id;
    v->oid = oid;
    return v;
}

static void value_free(struct sk_agent *a, struct aval *v) {
    SK_DCHECK(sk_map_get(&a->values, v->id) == v);
    sk_map_del(&a->values, v->id);
    if (v->oid.v) a->e->ops->release(a->e, v->oid);
    sk_free(v->err);
    sk_free(v);
}

/* Notes that the value is here now; takes the reference over. */
static void value_here(struct sk_agent *a, uint64_t id, sk_oid oid) {
    struct aval *v = sk_map_get(&a->values, id);
    if (!v) {
        value_new(a, id, oid);
        return;
    }
    if (v->oid.v) a->e->ops->release(a->e, v->oid);
    v->oid = oid;
    if (v->dropped) value_free(a, v);
}

static void drop(struct sk_agent *a, uint64_t id) {
    struct aval *v = sk_map_get(&a->values, id);
    if (!v) return;
    if (v->oid.v || v->err) value_free(a, v);
    else v->dropped = true;
}

/* ---- tasks that wait ------------------------------------------------------------------------- */

static void task_free(struct sk_agent *a, struct atask *t) {
    SK_ASSERT(sk_map_get(&a->tasks, t->id) == t);
    if (t->watched) {
        (void)a->e->watch->remove(a->e, &t->watch); /* it may have been called */
        a->e->ops->release(a->e, t->first);
    }
    sk_list_del(&t->link);
    sk_map_del(&a->tasks, t->id);
    for (uint32_t i = 0; t->own && i < t->run.run.n_args; i++)
        if (t->own[i].v) a->e->ops->release(a->e, t->own[i]);
    sk_free(t->own);
    sk_free(t->whole);
    sk_free(t->body);
    sk_free(t);
}

static void task_fail(struct sk_agent *a, struct atask *t, sk_rc code, const char *text) {
    say_failed(a, t->id, t->attempt, code, text);
    task_free(a, t);
}

static sk_rc shape_of(struct sk_agent *a, const struct sk_cmsg *m, sk_shape *out,
                      struct sk_err *err) {
    struct sk_need n = {.res = m->run.need,
                        .group = m->run.pg,
                        .bundle = (int32_t)m->run.bundle,
                        .env = m->run.env,
                        .capture = m->run.capture};
    /* a group comes and goes, and the engine has the shapes of those that are there */
    for (uint32_t i = 0; !n.group && i < a->shapes.n; i++)
        if (a->shapes.p[i].need.env == n.env &&
            !memcmp(&a->shapes.p[i].need.res, &n.res, sizeof n.res)) {
            *out = a->shapes.p[i].shape;
            return SK_OK;
        }
    struct ashape made = {.need = n};
    if (n.env) n.env = (uint32_t)(uintptr_t)sk_map_get(&a->envs, n.env);
    if (made.need.env && !n.env)
        return SK_ERR(err, SK_ENOSYS, "this node has no environments of tasks");
    SK_TRY(a->e->ops->shape(a->e, &n, out, err));
    made.shape = *out;
    if (!n.group) (void)!sk_vec_push(&a->shapes, TAG, made); /* else asked again */
    return SK_OK;
}

/* Reserves the bundles of a placement group that are here. What fails here, tasks that come for
 * them say. */
static void group(struct sk_agent *a, const struct sk_cmsg *m) {
    uint32_t n = m->group.n;
    struct sk_res *bundles = sk_memdup(TAG, m->group.bundles.p, m->group.bundles.n);
    bool *elsewhere = sk_calloc(TAG, n);
    uint64_t id;
    sk_oid ready;
    if (!bundles || !elsewhere) abort();
    for (uint32_t i = 0; i < n; i++) elsewhere[i] = !((const uint8_t *)m->group.here.p)[i];
    struct sk_group_spec s = {.id = m->group.id,
                              .bundles = bundles,
                              .n = n,
                              .strategy = m->group.strategy,
                              .elsewhere = elsewhere};
    if (a->e->groups) (void)!a->e->groups->create(a->e, &s, &id, &ready, NULL);
    a->n_runs++;
    sk_free(bundles);
    sk_free(elsewhere);
}

/* Makes the arguments of a task. Objects that are made for it are in t->own. */
static sk_rc make_args(struct sk_agent *a, struct atask *t, struct sk_arg *args,
                       struct sk_err *err) {
    struct sk_rd r = sk_rd_init(t->run.run.args.p, t->run.run.args.n);
    for (uint32_t i = 0; i < t->run.run.n_args; i++) {
        struct sk_cmsg_arg m = sk_cmsg_arg_next(&r);
        const struct aval *v = m.id ? sk_map_get(&a->values, m.id) : NULL;
        if (!m.id && m.part) {
            if (m.offset > m.bytes.n || m.length > m.bytes.n - m.offset)
                return SK_ERR(err, SK_EINVAL, "argument %u: bytes %llu to %llu of %zu", i,
                              (unsigned long long)m.offset,
                              (unsigned long long)(m.offset + m.length), m.bytes.n);
            m.bytes = (struct sk_bytes){(const uint8_t *)m.bytes.p + m.offset, (size_t)m.length};
        }
        if (!m.id && m.bytes.n > SK_INLINE_MAX) {
            struct sk_payload p = {.kind = m.kind, .bytes = m.bytes};
            SK_TRY(a->e->ops->put(a->e, &p, &t->own[i], err));
        }
        if (t->own[i].v)
            args[i] = (struct sk_arg){.ref = t->own[i],
                                      .part = m.part && t->whole[i],
                                      .offset = m.offset,
                                      .length = m.length};
        else if (!m.id) args[i] = (struct sk_arg){.kind = m.kind, .bytes = m.bytes};
        else if (v && v->oid.v)
            args[i] = (struct sk_arg){
                .ref = v->oid, .part = m.part, .offset = m.offset, .length = m.length};
        else
            return SK_ERR(err, v && v->err ? v->err->code : SK_ELOST, "argument %u: %s", i,
                          v && v->err ? v->err->msg : "it is not here");
    }
    return SK_OK;
}

static void push_event(struct sk_agent *a, const struct sk_event *ev) {
    SK_DCHECK(ev->kind >= SK_EV_STARTED && ev->tag);
    struct aevent *e = sk_alloc(TAG, sizeof *e);
    if (!e) abort(); /* a task would never end */
    e->ev = *ev;
    if (ev->err) {
        e->err = *ev->err;
        e->ev.err = &e->err;
    }
    e->ev.note.n = SK_MIN(ev->note.n, sizeof e->note);
    if (e->ev.note.n) memcpy(e->note, ev->note.p, e->ev.note.n);
    e->ev.note.p = e->note;
    pthread_mutex_lock(&a->mu);
    if (!sk_vec_push(&a->events, TAG, (struct aqueued){.event = e})) abort();
    pthread_mutex_unlock(&a->mu);
}

static void is_ready(struct sk_watch *w) {
    struct atask *t = sk_container_of(w, struct atask, watch);
    struct sk_agent *a =
        t->agent; /* NOLINT(clang-analyzer-security.ArrayBound): it is that field */
    push_event(a, &(struct sk_event){.kind = SK_EV_DONE, .tag = t->id});
    a->conf.wake(a->conf.ctx);
}

static void is_dead(struct sk_watch *w) {
    const struct aactor *x = sk_container_of(w, struct aactor, watch);
    struct sk_agent *a =
        x->agent; /* NOLINT(clang-analyzer-security.ArrayBound): it is that field */
    pthread_mutex_lock(&a->mu);
    if (!sk_vec_push(&a->dead, TAG, x->id)) abort(); /* its name would be taken for ever */
    pthread_mutex_unlock(&a->mu);
    a->conf.wake(a->conf.ctx);
}

/* Watches the actor's end, of which its driver may hear from nobody else. */
static void await_end(struct sk_agent *a, struct aactor *x) {
    if (!a->e->watch) return;
    x->agent = a;
    x->watch.fn = is_dead;
    sk_rc rc = a->e->watch->add(a->e, (sk_oid){x->aid.v}, (sk_tid){0}, &x->watch, NULL);
    x->watched = rc == SK_OK;
    if (rc == SK_EDONE) is_dead(&x->watch);
}

/* Constructors have no events (where an engine has watches), so their value is watched. */
static sk_rc await_ready(struct sk_agent *a, struct atask *t, struct sk_err *err) {
    if (!a->e->watch) return SK_OK;
    SK_ASSERT(t->is_init && !t->watched && t->first.v);
    t->agent = a;
    t->watch.fn = is_ready;
    /* the actor may be ended before its end is handled, and its object with it */
    a->e->ops->retain(a->e, t->first);
    sk_rc rc = a->e->watch->add(a->e, t->first, (sk_tid){0}, &t->watch, err);
    if (rc == SK_EDONE) {
        is_ready(&t->watch);
        rc = SK_OK;
    }
    t->watched = rc == SK_OK;
    if (rc != SK_OK) a->e->ops->release(a->e, t->first);
    return rc;
}

/* Whether tasks of the engine wait until what they yielded is taken. */
static bool may_wait(const struct sk_agent *a) { return a->e->streams && a->e->streams->taken; }

static sk_rc give(struct sk_agent *a, struct atask *t, struct sk_arg *args, struct sk_err *err) {
    const struct sk_cmsg *m = &t->run;
    char name[256];
    snprintf(name, sizeof name, "%.*s", (int)SK_MIN(m->run.name.n, sizeof name - 1),
             (const char *)m->run.name.p);
    struct sk_task_opts opts = {.stream_window = may_wait(a) ? m->run.window : 0,
                                .known_task = m->run.known,
                                .known_actor = m->run.actor,
                                .max_calls = m->run.max_calls,
                                .group = m->run.group,
                                .no_wait = (m->run.flags & SK_RUN_NO_WAIT) != 0};
    struct sk_task_spec s = {.fn = {m->run.fn},
                             .name = *name ? name : NULL, /* else that of the function */
                             .args = args,
                             .n_args = m->run.n_args,
                             .n_returns = m->run.n_returns,
                             .max_retries = m->run.max_retries,
                             .retry_exceptions = (m->run.flags & SK_RUN_RETRY_ERRORS) != 0,
                             .sink = &a->sink,
                             .sink_tag = t->id,
                             .opts = &opts};
    SK_TRY(make_args(a, t, args, err));
    if (t->actor) {
        s.actor = t->actor->aid;
        return a->e->ops->submit(a->e, &s, &t->first, &t->tid, err);
    }
    SK_TRY(shape_of(a, m, &s.shape, err));
    if (!t->is_init) return a->e->ops->submit(a->e, &s, &t->first, &t->tid, err);
    struct aactor *x = sk_calloc(TAG, sizeof *x);
    if (!x) return SK_ERR(err, SK_ENOMEM, "actor");
    uint32_t groups[SK_GROUPS_MAX];
    struct sk_actor_opts ao = {.is_async = (m->run.flags & SK_RUN_ASYNC) != 0,
                               .n_groups = (uint32_t)(m->run.groups.n / 4),
                               .groups = groups};
    if (ao.n_groups) memcpy(groups, m->run.groups.p, m->run.groups.n);
    struct sk_actor_spec spec = {.init = s,
                                 .max_restarts = m->run.max_retries,
                                 .max_task_retries = m->run.max_task_retries,
                                 .opts = &ao};
    spec.init.n_returns = 1;
    x->any_order = ao.n_groups > 0;
    sk_rc rc = a->e->ops->actor_create(a->e, &spec, &x->aid, &x->ready, err);
    if (rc != SK_OK) {
        sk_free(x);
        return rc;
    }
    x->id = m->run.actor;
    x->init = t->id;
    x->attempt = t->attempt;
    sk_list_init(&x->calls);
    if (sk_map_put(&a->actors, x->id, x) != SK_OK) abort();
    t->first = x->ready;
    await_end(a, x);
    return await_ready(a, t, err);
}

/* The first n yields of a stream with a window were taken. */
static void were_taken(struct sk_agent *a, struct atask *t, uint32_t n) {
    n = SK_MIN(n, SK_CLUSTER_VALUES);
    if (!t->given) t->run.run.taken = SK_MAX(t->run.run.taken, n);
    if (!t->given || !t->run.run.window || n <= t->taken || !may_wait(a)) return;
    a->e->streams->taken(a->e, t->tid, n - t->taken);
    t->taken = n;
}

/* Notes which task of the driver an engine's task is. */
static void known(struct sk_agent *a, const struct atask *t) {
    const struct aactor *x = t->is_init ? sk_map_get(&a->actors, t->run.run.actor) : NULL;
    if (t->tid.v && t->run.run.host) sk_atell_known(a->tell, t->tid.v, t->run.run.host, t->attempt);
    if (x) sk_atell_known(a->tell, x->aid.v, x->id, t->attempt);
}

/* Gives a task, whose arguments are here, to the engine. */
static void start(struct sk_agent *a, struct atask *t) {
    SK_ASSERT(!t->n_missing && !t->given && t->body);
    struct sk_err err = {0};
    struct sk_arg *args = sk_calloc(TAG, (t->run.run.n_args + 1) * sizeof *args);
    sk_rc rc = args ? give(a, t, args, &err) : SK_ERR(&err, SK_ENOMEM, "arguments");
    sk_free(args);
    if (rc != SK_OK) {
        task_fail(a, t, rc, err.msg);
        return;
    }
    sk_list_del(&t->link);
    for (uint32_t i = 0; i < t->run.run.n_args; i++)
        if (t->own[i].v) a->e->ops->release(a->e, t->own[i]); /* the task holds them */
    sk_free(t->own);
    sk_free(t->whole);
    sk_free(t->body);
    t->own = NULL;
    t->whole = NULL;
    t->body = NULL;
    t->given = true;
    known(a, t);
    were_taken(a, t, t->run.run.taken);
}

static void start_calls(struct sk_agent *a, struct aactor *x) {
    SK_LIST_EACH_SAFE (it, tmp, &x->calls) {
        struct atask *t = sk_container_of(it, struct atask, link);
        if (!t->n_missing) start(a, t);
        else if (!x->any_order) return;
    }
}

/* Gives the task to the engine if nothing is missing any more. */
static void try_start(struct sk_agent *a, struct atask *t) {
    if (t->n_missing) return;
    if (t->actor) start_calls(a, t->actor);
    else start(a, t);
}

/* Ends a task that waits; if it is a call of an actor, those behind it go on. */
static void fail_waiting(struct sk_agent *a, struct atask *t, sk_rc code, const char *text) {
    struct aactor *x = t->actor;
    task_fail(a, t, code, text);
    if (x) start_calls(a, x);
}

/* Sends a call back that is behind one that went back. */
static void go_back(struct sk_agent *a, struct atask *t) {
    struct sk_cmsg m = {.type = SK_CMSG_MISSING, .missing = {.task = t->id, .code = SK_EAGAIN}};
    SK_ASSERT(t->actor && !t->given);
    to_driver(a, &m);
    task_free(a, t);
}

/* An argument cannot be read: the task goes back to the driver. */
static void missing(struct sk_agent *a, struct atask *t, uint64_t id, uint32_t node, sk_rc code) {
    struct aactor *x = t->actor;
    struct sk_cmsg m = {.type = SK_CMSG_MISSING, .missing = {t->id, id, node, code}};
    to_driver(a, &m);
    if (x && !x->any_order) {
        x->returns = true;
        while (t->link.next != &x->calls)
            go_back(a, sk_container_of(t->link.next, struct atask, link));
    }
    task_free(a, t);
    if (x) start_calls(a, x);
}

/* ---- reading from other nodes ---------------------------------------------------------------- */

/* Begins to read a value, or a part of it. NULL: its node is not known. */
static struct ask *read_from(struct sk_agent *a, const struct sk_cmsg_arg *x) {
    struct apeer *p = peer_of(a, x->node);
    if (!p || !p->address) return NULL;
    struct ask *k = sk_calloc(TAG, sizeof *k);
    if (!k || sk_map_put(&a->asks, ++a->next_ask, k) != SK_OK) abort();
    k->id = x->id;
    k->node = x->node;
    k->part = x->part;
    struct sk_cmsg m = {.type = SK_CMSG_READ,
                        .fetch = {a->next_ask, x->id, x->part, x->offset, x->length}};
    if (sk_cmsg_put(&p->out, &m, NULL) != SK_OK) abort();
    return k;
}

static void ask_free(struct ask *k) {
    sk_vec_free(&k->waiters);
    sk_free(k);
}

/* The task that waits; NULL: it has ended meanwhile, or was sent again since. */
static struct atask *waiting(struct sk_agent *a, const struct awaiter *w) {
    struct atask *t = sk_map_get(&a->tasks, w->task);
    return t && t->serial == w->serial && !t->given ? t : NULL;
}

static void say_brought(struct sk_agent *a, uint64_t ask, uint64_t id, sk_rc rc) {
    struct sk_cmsg m = {.type = SK_CMSG_BROUGHT, .brought = {ask, id, rc}};
    to_driver(a, &m);
}

static void read_failed(struct sk_agent *a, uint64_t number, const struct ask *k, sk_rc code) {
    if (k->name) sk_arefs_came(a->refs, k->name, NULL);
    struct aval *v = k->part ? NULL : sk_map_get(&a->values, k->id);
    if (v && !v->oid.v && v->ask == number) value_free(a, v);
    for (uint32_t i = 0; i < k->waiters.n; i++) {
        const struct awaiter *w = &k->waiters.p[i];
        struct atask *t = w->task ? waiting(a, w) : NULL;
        if (!w->task) say_brought(a, w->serial, k->id, code);
        else if (t) missing(a, t, k->id, k->node, code);
    }
}

/* A value, or a part of one, has come and is an object of the engine; or it could not be stored. */
static void came(struct sk_agent *a, const struct ask *k, sk_rc rc, sk_oid oid,
                 const struct sk_err *err) {
    for (uint32_t i = 0; i < k->waiters.n; i++) {
        const struct awaiter *w = &k->waiters.p[i];
        struct atask *t = w->task ? waiting(a, w) : NULL;
        if (!w->task) say_brought(a, w->serial, k->id, rc);
        if (!t) continue;
        if (rc != SK_OK) {
            fail_waiting(a, t, rc, err->msg);
            continue;
        }
        SK_ASSERT(t->n_missing > 0 && !t->own[w->arg].v);
        a->e->ops->retain(a->e, oid);
        t->own[w->arg] = oid;
        t->whole[w->arg] = !k->part;
        t->n_missing--;
        try_start(a, t);
    }
    struct aval *v = k->part ? NULL : sk_map_get(&a->values, k->id);
    if (v && !v->oid.v && rc == SK_OK) value_here(a, k->id, oid);
    else if (v && !v->oid.v) value_free(a, v);
    else if (rc == SK_OK) a->e->ops->release(a->e, oid); /* a part; made here; or dropped since */
}

uint8_t *sk_agent_place(struct sk_agent *a, uint32_t from, const struct sk_cmsg *m, size_t room,
                        void **owner) {
    const struct ask *k = from ? sk_map_get(&a->asks, m->value.ask) : NULL;
    if (!k || k->node != from || m->value.rc != SK_OK) return NULL;
    if (room > a->most - a->placed) return NULL;
    struct coming *c = sk_calloc(TAG, sizeof *c);
    if (!c || a->e->ops->buf_alloc(a->e, room, &c->buf, NULL) != SK_OK) { /* put says why not */
        sk_free(c);
        return NULL;
    }
    c->room = room;
    a->placed += room;
    *owner = c;
    return c->buf.data;
}

static void coming_free(struct sk_agent *a, struct coming *c) {
    SK_ASSERT(a->placed >= c->room);
    a->placed -= c->room;
    sk_free(c);
}

void sk_agent_unplace(struct sk_agent *a, void *owner) {
    struct coming *c = owner;
    a->e->ops->buf_abort(a->e, &c->buf);
    coming_free(a, c);
}

static void data_came(struct sk_agent *a, uint32_t from, const struct sk_cmsg *m) {
    struct ask *k = sk_map_get(&a->asks, m->value.ask);
    if (!k || k->node != from) return;
    sk_map_del(&a->asks, m->value.ask);
    if (m->value.rc != SK_OK) {
        read_failed(a, m->value.ask, k, m->value.rc);
    } else {
        struct sk_err err = {0};
        sk_oid oid = {0};
        struct sk_payload p = {.kind = m->value.kind, .bytes = m->value.bytes};
        struct coming *c = m->value.owner ? *m->value.owner : NULL;
        if (c)
            p = (struct sk_payload){
                .kind = m->value.kind, .buf = &c->buf, .buf_len = m->value.bytes.n};
        sk_rc rc = SK_OK;
        if (k->name) sk_arefs_came(a->refs, k->name, &p);
        else rc = a->e->ops->put(a->e, &p, &oid, &err);
        if (c && (!k->name || !c->buf.data)) { /* the engine has taken it over */
            coming_free(a, c);
            *m->value.owner = NULL;
        }
        a->read_bytes += m->value.bytes.n;
        if (!k->name) came(a, k, rc, oid, &err);
    }
    ask_free(k);
}

static void unpin(void *ctx, void *owner) {
    struct sk_agent *a = ctx;
    struct pin *p = owner;
    SK_ASSERT(p->refs > 0);
    if (--p->refs) return;
    a->pinned -= p->view.len;
    sk_map_del(&a->pins, p->oid);
    a->e->ops->view_release(a->e, &p->view);
    sk_free(p);
}

/* Gives the pin of an object, counted once more, and takes the view over. NULL: the object is not
 * to be pinned, since too much is: what is cannot leave memory. */
static struct pin *pin(struct sk_agent *a, sk_oid oid, struct sk_view *view) {
    struct pin *p = sk_map_get(&a->pins, oid.v);
    if (p) {
        a->e->ops->view_release(a->e, view);
        p->refs++;
        return p;
    }
    if (view->len > a->most - a->pinned || !(p = sk_alloc(TAG, sizeof *p))) return NULL;
    *p = (struct pin){.oid = oid.v, .refs = 1, .view = *view};
    if (sk_map_put(&a->pins, oid.v, p) != SK_OK) {
        sk_free(p);
        return NULL;
    }
    a->pinned += view->len;
    return p;
}

/* Sends bytes of a large value from where they are. False: they are to be copied. */
static bool send_apart(struct sk_agent *a, struct sk_outbox *o, struct sk_cmsg *m, sk_oid oid,
                       struct sk_view *view) {
    struct sk_bytes b = m->value.bytes;
    size_t at = (size_t)((const uint8_t *)b.p - view->data);
    struct pin *p = b.n < SK_CMSG_LARGE ? NULL : pin(a, oid, view);
    if (!p) return false;
    b.p = p->view.data + at; /* the same bytes, of the view that is kept */
    struct sk_apart apart = {.bytes = b, .release = unpin, .ctx = a, .owner = p};
    m->value.bytes = (struct sk_bytes){0};
    if (sk_cmsg_put_apart(o, m, apart, NULL) != SK_OK) abort();
    return true;
}

/* Answers READ of a node, or FETCH of the driver. */
static void answer(struct sk_agent *a, uint32_t from, const struct sk_cmsg *m) {
    SK_DCHECK(m->type == (from ? SK_CMSG_READ : SK_CMSG_FETCH));
    const struct aval *v = sk_map_get(&a->values, m->fetch.id);
    struct sk_cmsg out = {.type = from ? SK_CMSG_DATA : SK_CMSG_VALUE, .value.ask = m->fetch.ask};
    struct sk_err err = {0};
    struct sk_view view = {0};
    sk_rc rc = v && v->oid.v ? SK_OK : SK_ERR(&err, SK_ENOENT, "the value is not here (any more)");
    if (rc == SK_OK) rc = a->e->ops->get(a->e, &v->oid, 1, INT64_MAX, &view, &err);
    if (rc == SK_OK && m->fetch.part &&
        (m->fetch.offset > view.len || m->fetch.length > view.len - m->fetch.offset))
        rc = SK_ERR(&err, SK_EINVAL, "bytes %llu to %llu of a value of %zu",
                    (unsigned long long)m->fetch.offset,
                    (unsigned long long)(m->fetch.offset + m->fetch.length), view.len);
    out.value.rc = rc;
    if (rc != SK_OK) out.value.bytes = (struct sk_bytes){err.msg, strlen(err.msg)};
    else {
        out.value.kind = view.kind;
        out.value.bytes = m->fetch.part
                              ? (struct sk_bytes){view.data + m->fetch.offset, m->fetch.length}
                              : (struct sk_bytes){view.data, view.len};
    }
    struct sk_outbox *o = from ? &peer_get(a, from)->out : &a->out;
    if (rc == SK_OK && !a->closing && send_apart(a, o, &out, v->oid, &view)) return;
    if (!from) to_driver(a, &out);
    else if (sk_cmsg_put(o, &out, NULL) != SK_OK) abort();
    if (view.token || view.data) a->e->ops->view_release(a->e, &view);
}

/* ---- RUN ------------------------------------------------------------------------------------- */

/* Copies a message into a task of its own. */
static struct atask *task_of(const struct sk_cmsg *m) {
    SK_DCHECK(m->type == SK_CMSG_RUN);
    struct atask *t = sk_calloc(TAG, sizeof *t);
    size_t n = m->run.args.n, at_groups = (size_t)SK_ALIGN(n, 8),
           at_name = at_groups + m->run.groups.n;
    if (!t || !(t->body = sk_alloc(TAG, at_name + m->run.name.n)) ||
        !(t->own = sk_calloc(TAG, (m->run.n_args + 1) * sizeof *t->own)) ||
        !(t->whole = sk_calloc(TAG, (m->run.n_args + 1) * sizeof *t->whole)))
        abort(); /* the task would be lost */
    memcpy(t->body, m->run.args.p, n);
    memcpy((uint8_t *)t->body + at_name, m->run.name.p, m->run.name.n);
    if (m->run.groups.n) memcpy((uint8_t *)t->body + at_groups, m->run.groups.p, m->run.groups.n);
    t->id = m->run.task;
    t->attempt = m->run.attempt;
    t->is_init = (m->run.flags & SK_RUN_INIT) != 0;
    t->n_returns = m->run.n_returns;
    t->run = *m;
    t->run.run.args.p = t->body;
    t->run.run.name.p = (uint8_t *)t->body + at_name;
    t->run.run.groups.p = (uint8_t *)t->body + at_groups;
    sk_list_init(&t->link);
    return t;
}

/* Has somebody wait for a value that is not here. False: its node is not known. */
static bool wait_for(struct sk_agent *a, const struct sk_cmsg_arg *x, struct awaiter w) {
    struct aval *v = sk_map_get(&a->values, x->id);
    struct ask *k = v ? sk_map_get(&a->asks, v->ask) : read_from(a, x);
    SK_ASSERT(k || !v); /* what is on its way has been asked for */
    if (!k) return false;
    /* The value is wanted whole again. A task that takes a part of it waits for all of it, too, but
     * the driver does not take the value to be here for that. */
    if (v && !x->part) v->dropped = false;
    else if (!v && !x->part) value_new(a, x->id, (sk_oid){0})->ask = a->next_ask;
    if (!sk_vec_push(&k->waiters, TAG, w)) abort();
    return true;
}

/* Asks for an argument that is not here. False: its node is not known. */
static bool ask_for(struct sk_agent *a, struct atask *t, uint32_t i, const struct sk_cmsg_arg *x) {
    const struct aval *v = sk_map_get(&a->values, x->id);
    if (v && (v->oid.v || v->err)) return true;
    if (!wait_for(a, x, (struct awaiter){t->id, t->serial, i})) return false;
    t->n_missing++;
    return true;
}

static void bring(struct sk_agent *a, const struct sk_cmsg *m) {
    const struct aval *v = sk_map_get(&a->values, m->bring.id);
    struct sk_cmsg_arg x = {.id = m->bring.id, .node = m->bring.node};
    if (v && (v->oid.v || v->err))
        say_brought(a, m->bring.ask, m->bring.id, v->err ? v->err->code : SK_OK);
    else if (!wait_for(a, &x, (struct awaiter){.serial = m->bring.ask}))
        say_brought(a, m->bring.ask, m->bring.id, SK_EIO); /* that node is not known here */
}

/* Has a task that waits hold the arguments that are here: the driver may drop them meanwhile. */
static void hold_arguments(struct sk_agent *a, struct atask *t) {
    struct sk_rd r = sk_rd_init(t->body, t->run.run.args.n);
    for (uint32_t i = 0; i < t->run.run.n_args; i++) {
        struct sk_cmsg_arg x = sk_cmsg_arg_next(&r);
        const struct aval *v = x.id ? sk_map_get(&a->values, x.id) : NULL;
        if (!v || !v->oid.v || t->own[i].v) continue;
        a->e->ops->retain(a->e, v->oid);
        t->own[i] = v->oid;
        t->whole[i] = true;
    }
}

static sk_rc run(struct sk_agent *a, const struct sk_cmsg *m, struct sk_err *err) {
    a->n_runs++;
    if (sk_map_get(&a->tasks, m->run.task))
        return SK_ERR(err, SK_ECORRUPT, "task %llu was sent twice",
                      (unsigned long long)m->run.task);
    struct atask *t = task_of(m);
    t->serial = ++a->next_serial;
    if (sk_map_put(&a->tasks, t->id, t) != SK_OK) abort();
    if (m->run.actor && !t->is_init && !(t->actor = sk_map_get(&a->actors, m->run.actor))) {
        task_fail(a, t, SK_EACTOR, "the actor is dead");
        return SK_OK;
    }
    if (t->actor && (m->run.flags & SK_RUN_RESUME)) t->actor->returns = false;
    if (t->actor && t->actor->returns) {
        go_back(a, t);
        return SK_OK;
    }
    sk_list_push_back(t->actor ? &t->actor->calls : &a->waiting, &t->link);
    struct sk_rd r = sk_rd_init(t->body, m->run.args.n);
    for (uint32_t i = 0; i < m->run.n_args; i++) {
        struct sk_cmsg_arg x = sk_cmsg_arg_next(&r);
        if (!x.id || ask_for(a, t, i, &x)) continue;
        missing(a, t, x.id, x.node, SK_ENOENT);
        return SK_OK;
    }
    if (t->n_missing || t->actor) hold_arguments(a, t);
    try_start(a, t);
    return SK_OK;
}

/* ---- actors ---------------------------------------------------------------------------------- */

/* Gives the actor's handle back, and ends the calls that wait. */
static void actor_free(struct sk_agent *a, struct aactor *x) {
    while (!sk_list_empty(&x->calls))
        task_fail(a, sk_container_of(sk_list_first(&x->calls), struct atask, link), SK_EACTOR,
                  "the actor is dead");
    sk_map_del(&a->actors, x->id);
    SK_ASSERT(sk_list_empty(&x->calls));
    if (x->watched) (void)a->e->watch->remove(a->e, &x->watch); /* it may have been called */
    a->e->ops->release(a->e, x->ready);
    sk_actor_release(a->e, x->aid);
    sk_free(x);
}

static void end_actor(struct sk_agent *a, uint64_t id, uint32_t flags) {
    bool restart = (flags & SK_RUN_RESTART) != 0;
    struct aactor *x = sk_map_get(&a->actors, id);
    SK_LIST_EACH_SAFE (it, tmp, &a->waiting) { /* its constructor may still wait */
        struct atask *t = sk_container_of(it, struct atask, link);
        if (t->is_init && t->run.run.actor == id && !restart)
            task_fail(a, t, SK_EACTOR, "the actor was ended before it began");
    }
    if (!x) return;
    if (!(flags & SK_RUN_LEAVE)) /* else it ends as its last handle goes */
        (void)!a->e->ops->actor_end(a->e, x->aid, !restart, NULL); /* it may have ended by itself */
    if (!restart) actor_free(a, x);
}

/* ---- events of the engine -------------------------------------------------------------------- */

static void on_events(struct sk_sink *s, const struct sk_event *ev, size_t n) {
    struct sk_agent *a = sk_container_of(s, struct sk_agent, sink);
    for (size_t i = 0; i < n; i++) push_event(a, &ev[i]);
    a->conf.wake(a->conf.ctx);
}

/* Makes a value for a message: a small one by its bytes. The view, if any, lives until the message
 * is written. keep: large values stay here, under their id. */
static struct sk_cmsg_value value_for(struct sk_agent *a, uint64_t id, sk_oid oid, uint64_t size,
                                      bool init, struct sk_view *view) {
    struct sk_cmsg_value v = {.id = id, .size = size};
    SK_DCHECK(oid.v);
    *view = (struct sk_view){0};
    /* A value with references inside stays here, with them, until the driver has met them. The
     * reference inside `ready` of an actor does not count: it is the actor itself. */
    v.stays = a->refs && !init && a->e->inner->count(a->e, &oid, 1) > 0;
    if (size <= SK_INLINE_MAX && a->e->ops->get(a->e, &oid, 1, INT64_MAX, view, NULL) == SK_OK) {
        v.size = view->len;
        if ((view->len <= SK_INLINE_MAX && !v.stays) || SK_KIND_IS_ERROR(view->kind)) {
            v.here = true;
            v.kind = view->kind;
            v.bytes = (struct sk_bytes){view->data, view->len};
        }
    }
    if (v.here) return v;
    a->e->ops->retain(a->e, oid);
    value_here(a, id, oid);
    return v;
}

static void event_with(struct sk_agent *a, const struct atask *t, const struct sk_event *ev,
                       const struct sk_cmsg_value *v, uint32_t n) {
    uint8_t few[SK_INLINE_MAX + 256], *buf = few;
    struct sk_wr w = sk_wr_init(few, sizeof few);
    for (int round = 0; round < 2; round++) {
        for (uint32_t i = 0; i < n; i++) sk_cmsg_value_put(&w, &v[i]);
        if (sk_wr_ok(&w)) break;
        size_t need = w.n;
        if (!(buf = sk_alloc(TAG, need))) abort();
        w = sk_wr_init(buf, need);
    }
    struct sk_cmsg m = {.type = SK_CMSG_EVENT,
                        .event = {.task = t->id,
                                  .kind = ev->kind,
                                  .attempt = t->attempt + ev->attempt,
                                  .index = ev->kind == SK_EV_YIELDED ? ev->index : 0,
                                  .run_ns = ev->run_ns,
                                  .pid = ev->pid,
                                  .start_ns = ev->start_ns,
                                  .code = ev->err ? ev->err->code : 0,
                                  .actor_lives = ev->actor_lives,
                                  .note = ev->note,
                                  .n_values = n,
                                  .values = {buf, w.n}}};
    if (ev->err) m.event.text = (struct sk_bytes){ev->err->msg, strlen(ev->err->msg)};
    to_driver(a, &m);
    if (buf != few) sk_free(buf);
}

static void release_returns(struct sk_agent *a, const struct atask *t) {
    uint32_t n = t->n_returns == SK_STREAMING || t->is_init ? 0 : t->n_returns;
    for (uint32_t i = 0; i < n; i++) a->e->ops->release(a->e, (sk_oid){t->first.v + i});
}

static void done(struct sk_agent *a, struct atask *t, const struct sk_event *ev) {
    SK_ASSERT(ev->kind == SK_EV_DONE && t->given);
    uint32_t n = t->n_returns == SK_STREAMING ? 0 : t->n_returns;
    struct sk_cmsg_value *v = sk_calloc(TAG, (n + 1) * sizeof *v);
    struct sk_view *view = sk_calloc(TAG, (n + 1) * sizeof *view);
    if (!v || !view) abort();
    for (uint32_t i = 0; i < n; i++)
        v[i] =
            value_for(a, sk_value_id(t->id, i), (sk_oid){t->first.v + i}, 0, t->is_init, &view[i]);
    event_with(a, t, ev, v, n);
    for (uint32_t i = 0; i < n; i++)
        if (view[i].data || view[i].token) a->e->ops->view_release(a->e, &view[i]);
    release_returns(a, t);
    sk_free(v);
    sk_free(view);
}

/* True if a value that the event tells of contains references. */
static bool has_inner(struct sk_agent *a, const struct atask *t, const struct sk_event *ev) {
    const struct sk_inner_ops *inner = a->e->inner;
    uint32_t n = ev->kind == SK_EV_DONE && t->n_returns != SK_STREAMING ? t->n_returns : 0;
    sk_oid few[32];
    if (!inner || t->is_init) return false; /* what a constructor makes is made here */
    if (ev->oid.v && inner->count(a->e, &ev->oid, 1)) return true;
    for (uint32_t i = 0; i < n;) {
        uint32_t k = 0;
        while (k < SK_COUNT(few) && i < n) few[k++].v = t->first.v + i++;
        if (inner->count(a->e, few, k)) return true;
    }
    return false;
}

/* Fails a task whose value contains references: their numbers mean nothing to another engine.
 * False: the event is to be told as it is. */
static bool refuse(struct sk_agent *a, struct atask *t, const struct sk_event *ev) {
    if (a->refs || (!t->refused && !has_inner(a, t, ev))) return false;
    SK_DCHECK(t->given && ev->tag == t->id);
    if (!t->refused && ev->kind == SK_EV_YIELDED)
        (void)!a->e->ops->cancel(a->e, t->tid, 0, NULL); /* the rest is of no use */
    t->refused = true;
    if (ev->oid.v) a->e->ops->release(a->e, ev->oid);
    if (ev->kind != SK_EV_DONE && ev->kind != SK_EV_FAILED) return true;
    release_returns(a, t);
    task_fail(a, t, SK_ENOSYS,
              "a value of the task contains a reference or an actor, which only the engine of its "
              "node knows, so it does not travel to the driver; give the value itself");
    return true;
}

static void take(struct sk_agent *a, const struct sk_event *ev) {
    struct atask *t = sk_map_get(&a->tasks, ev->tag);
    struct sk_view view = {0};
    if (!t) { /* cannot be: tasks end by their last event */
        if (ev->oid.v) a->e->ops->release(a->e, ev->oid);
        return;
    }
    struct sk_event end = *ev;
    if (t->agent) { /* a constructor: its value says how it ended */
        end.oid = t->first;
        SK_ASSERT(t->watched); /* its reference is the event's now */
        t->watched = false;
        if (a->e->ops->get(a->e, &end.oid, 1, INT64_MAX, &view, NULL) == SK_OK) {
            if (SK_KIND_IS_ERROR(view.kind)) end.kind = SK_EV_FAILED;
            a->e->ops->view_release(a->e, &view);
        } else end.kind = SK_EV_FAILED;
        if (end.kind == SK_EV_DONE) {
            a->e->ops->release(a->e, end.oid);
            end.oid = (sk_oid){0};
        }
        ev = &end;
    }
    if (refuse(a, t, ev)) return;
    if (ev->kind == SK_EV_STARTED) event_with(a, t, ev, NULL, 0);
    if (ev->kind == SK_EV_YIELDED || (ev->kind == SK_EV_FAILED && ev->oid.v)) {
        bool error = ev->kind == SK_EV_FAILED;
        struct sk_cmsg_value v = value_for(a, sk_value_id(t->id, ev->index), ev->oid,
                                           error ? 0 : ev->size_bytes, t->is_init, &view);
        event_with(a, t, ev, &v, !error || v.here);
        if (error && !v.here) drop(a, v.id);
        if (view.data || view.token) a->e->ops->view_release(a->e, &view);
        a->e->ops->release(a->e, ev->oid);
    } else if (ev->kind == SK_EV_FAILED) event_with(a, t, ev, NULL, 0);
    else if (ev->kind == SK_EV_DONE) done(a, t, ev);
    if (ev->kind == SK_EV_FAILED) release_returns(a, t);
    struct aactor *x =
        t->is_init && ev->kind == SK_EV_FAILED ? sk_map_get(&a->actors, t->run.run.actor) : NULL;
    if (x) actor_free(a, x);
    if (ev->kind == SK_EV_FAILED || ev->kind == SK_EV_DONE) task_free(a, t);
}

struct printed { /* successive lines for the same stream */
    struct sk_agent *a;
    int to;
    SK_VEC(char) text;
};

static void say_printed(struct printed *p) {
    struct sk_cmsg m = {.type = SK_CMSG_PRINTS,
                        .prints = {(uint32_t)p->to, {p->text.p, p->text.n}}};
    if (p->text.n) to_driver(p->a, &m);
    p->text.n = 0;
}

static void printed(void *ctx, int to, const char *label, const char *text, size_t n) {
    struct printed *p = ctx;
    size_t k = p->a->conf.labels ? strlen(label) : 0;
    SK_DCHECK(to == 1 || to == 2);
    if (to != p->to || p->text.n > PRINTS_MOST) say_printed(p);
    p->to = to;
    if (!sk_vec_reserve(&p->text, TAG, (uint64_t)p->text.n + k + n + 1)) return;
    memcpy(p->text.p + p->text.n, label, k);
    memcpy(p->text.p + p->text.n + k, text, n);
    p->text.n += (uint32_t)(k + n + 1);
    p->text.p[p->text.n - 1] = '\n';
}

void sk_agent_prints(struct sk_agent *a) {
    struct printed p = {.a = a};
    if (!a->conf.prints) return;
    sk_prints_take(a->conf.prints, false, printed, &p);
    say_printed(&p);
    sk_vec_free(&p.text);
}

bool sk_agent_step(struct sk_agent *a) {
    pthread_mutex_lock(&a->mu);
    struct aqueued *p = a->events.p;
    uint64_t *dead = a->dead.p;
    uint32_t n = a->events.n, n_dead = a->dead.n;
    memset(&a->events, 0, sizeof a->events);
    memset(&a->dead, 0, sizeof a->dead);
    pthread_mutex_unlock(&a->mu);
    if (a->conf.prints && sk_prints_due(a->conf.prints)) sk_agent_prints(a);
    uint32_t n_ends = 0;
    for (uint32_t i = 0; i < n; i++)
        n_ends += p[i].event &&
                  (p[i].event->ev.kind == SK_EV_DONE || p[i].event->ev.kind == SK_EV_FAILED);
    /* The last tasks have ended: who waits for them may ask next what is free. */
    if (n_ends && n_ends >= a->tasks.n) sk_agent_beat(a);
    for (uint32_t i = 0; i < n; i++) {
        if (p[i].event) take(a, &p[i].event->ev);
        else sk_arefs_news(a->refs, p[i].news);
        sk_free(p[i].event);
    }
    sk_free(p);
    for (uint32_t i = 0; i < n_dead; i++) {
        const struct aactor *x = sk_map_get(&a->actors, dead[i]);
        /* if its constructor has not ended, that says it */
        if (x && !sk_map_get(&a->tasks, x->init))
            say_failed(a, x->init, 0, SK_EACTOR, "the actor is dead");
    }
    sk_free(dead);
    SK_DCHECK(n_ends <= n);
    return n || n_dead;
}

/* ---- references ------------------------------------------------------------------------------ */

static void r_send(void *ctx, const struct sk_cmsg *m) { to_driver(ctx, m); }
static void r_queue(void *ctx, void *news) {
    struct sk_agent *a = ctx;
    pthread_mutex_lock(&a->mu);
    if (!sk_vec_push(&a->events, TAG, (struct aqueued){.news = news})) abort();
    pthread_mutex_unlock(&a->mu);
    a->conf.wake(a->conf.ctx);
}
static bool r_read(void *ctx, uint32_t node, uint64_t value, uint64_t name) {
    struct ask *k = read_from(ctx, &(struct sk_cmsg_arg){.id = value, .node = node});
    if (!k) return false;
    k->part = true; /* it does not become a value of this node */
    k->name = name;
    return true;
}
static sk_rc r_have(void *ctx, uint64_t value, sk_oid *out, struct sk_err *err) {
    const struct sk_agent *a = ctx;
    const struct aval *v = sk_map_get(&a->values, value);
    if (v && v->err) {
        *err = *v->err;
        return v->err->code;
    }
    if (!v || !v->oid.v) return SK_ERR(err, SK_ENOENT, "it is not here");
    *out = v->oid;
    return SK_OK;
}
static void r_keep(void *ctx, uint64_t value, sk_oid o) { value_here(ctx, value, o); }
static void r_drop(void *ctx, uint64_t value) { drop(ctx, value); }
static void r_waits(void *ctx) { ((struct sk_agent *)ctx)->stirred = true; }
static void r_queued(void *ctx) { ((struct sk_agent *)ctx)->queued = true; }

static sk_rc refs_open(struct sk_agent *a, struct sk_err *err) {
    struct sk_arefs_host h = {
        a->e,    a->conf.node_labels, a, r_send, r_queue, r_read, r_have, r_keep, r_drop, r_waits,
        r_queued};
    return a->conf.id_base ? sk_arefs_create(&a->refs, &h, err) : SK_OK;
}

bool sk_agent_stirred(const struct sk_agent *a) { return a->stirred; }
bool sk_agent_waits(const struct sk_agent *a) {
    return a->refs && ((a->queued && a->peers.n) || sk_arefs_wait(a->refs));
}

/* Has tasks that wait here run elsewhere. Returns how many more of them could. */
static uint32_t hand_over(struct sk_agent *a, int64_t cpu) {
    if (!a->queued || !a->peers.n) return 0; /* nobody else could run them */
    return a->e->foreign->hand_over(a->e, cpu, &a->queued);
}

void sk_agent_beat(struct sk_agent *a) {
    struct sk_node sum = {0};
    a->stirred = false;
    if (sk_engine_sum(a->e, &sum, NULL) != SK_OK) return;
    struct sk_cmsg m = {.type = SK_CMSG_STATE,
                        .state = {.free = sum.free,
                                  .resident_bytes = sum.resident_bytes,
                                  .disk_bytes = sum.disk_bytes,
                                  .promised_bytes = sum.promised_bytes,
                                  .disk_limit_bytes = sum.disk_limit_bytes,
                                  .load = sum.load,
                                  .n_spare = hand_over(a, 0),
                                  .n_runs = sk_list_empty(&a->waiting) ? a->n_runs : 0}};
    to_driver(a, &m);
}

/* ---- messages of the driver ------------------------------------------------------------------ */

static void cancel(struct sk_agent *a, const struct sk_cmsg *m) {
    struct atask *t = sk_map_get(&a->tasks, m->end.id);
    uint32_t flags = sk_cmsg_cancel_of(m->end.flags);
    if (t && t->given) (void)!a->e->ops->cancel(a->e, t->tid, flags, NULL); /* it may have ended */
    else if (t) fail_waiting(a, t, SK_ECANCEL, "the task was cancelled before it began");
}

static sk_rc peer(struct sk_agent *a, const struct sk_cmsg *m) {
    struct apeer *p = peer_get(a, m->peer.number);
    sk_free(p->address);
    p->incarnation = m->peer.incarnation;
    p->address = sk_alloc(TAG, m->peer.address.n + 1);
    if (!p->address) abort();
    memcpy(p->address, m->peer.address.p, m->peer.address.n);
    p->address[m->peer.address.n] = 0;
    return SK_OK;
}

static void put(struct sk_agent *a, const struct sk_cmsg *m) {
    struct sk_payload p = {.kind = m->put.kind, .bytes = m->put.bytes};
    struct sk_err err = {0};
    sk_oid oid = {0};
    sk_rc rc = a->e->ops->put(a->e, &p, &oid, &err);
    value_here(a, m->put.id, oid);
    struct aval *v = rc == SK_OK ? NULL : sk_map_get(&a->values, m->put.id);
    if (v && !(v->err = sk_memdup(TAG, &err, sizeof err))) abort();
}

static sk_rc define(struct sk_agent *a, const struct sk_cmsg *m, struct sk_err *err) {
    char name[256];
    snprintf(name, sizeof name, "%.*s", (int)SK_MIN(m->define.name.n, sizeof name - 1),
             (const char *)m->define.name.p);
    return a->e->ops->define(a->e, (sk_fid){m->define.fn}, name, m->define.def, err);
}

/* Makes the environment known here. If that fails, its tasks say so. */
static void env(struct sk_agent *a, const struct sk_cmsg *m) {
    uint32_t number = 0;
    if (!m->env.number || !a->e->envs || sk_map_get(&a->envs, m->env.number) ||
        a->e->envs->define(a->e, m->env.bytes, &number, NULL) != SK_OK)
        return;
    void *as = (void *)(uintptr_t)number; /* NOLINT: a number in a map */
    if (sk_map_put(&a->envs, m->env.number, as) != SK_OK) abort();
}

/* Notes what the driver knows of the objects here, then answers. */
static void tell(struct sk_agent *a, const struct sk_cmsg *m) {
    uint64_t key;
    void *val;
    for (uint32_t i = 0; sk_map_next(&a->values, &i, &key, &val);) {
        const struct aval *v = val;
        if (v->oid.v) sk_atell_object(a->tell, v->oid.v, SK_OF_VALUE, v->id);
    }
    for (uint32_t i = 0; sk_map_next(&a->tasks, &i, &key, &val);) {
        const struct atask *t = val;
        if (!t->given || t->is_init || !t->run.run.host) continue;
        known(a, t);
        /* the host numbers the returns right before their task */
        for (uint32_t k = 0, n = t->n_returns == SK_STREAMING ? 0 : t->n_returns; k < n; k++)
            sk_atell_object(a->tell, t->first.v + k, SK_OF_DRIVER, t->run.run.host - n + k);
    }
    for (uint32_t i = 0; sk_map_next(&a->actors, &i, &key, &val);) {
        const struct aactor *x = val;
        sk_atell_known(a->tell, x->aid.v, x->id, x->attempt);
        sk_atell_object(a->tell, x->ready.v, SK_OF_DRIVER, x->id - 1);
    }
    struct sk_cmsg out = {
        .type = SK_CMSG_TOLD,
        .told = {m->told.ask, m->told.what, sk_now_ns(), sk_atell_answer(a->tell, m->told.what)}};
    to_driver(a, &out);
}

sk_rc sk_agent_message(struct sk_agent *a, uint32_t from, const struct sk_cmsg *m,
                       struct sk_err *err) {
    if (m->type == SK_CMSG_READ) {
        if (from) answer(a, from, m);
        return SK_OK;
    }
    if (m->type == SK_CMSG_DATA && from) {
        data_came(a, from, m);
        return SK_OK;
    }
    if (m->type == SK_CMSG_BEAT) return SK_OK;
    if (from)
        return SK_ERR(err, SK_ECORRUPT, "node %u sent a message of type %d, which is the driver's",
                      from, (int)m->type);
    switch (m->type) {
    case SK_CMSG_PEER: return peer(a, m);
    case SK_CMSG_DEFINE: return define(a, m, err);
    case SK_CMSG_ENV: env(a, m); return SK_OK;
    case SK_CMSG_RUN: return run(a, m, err);
    case SK_CMSG_CANCEL: cancel(a, m); return SK_OK;
    case SK_CMSG_GROUP: group(a, m); return SK_OK;
    case SK_CMSG_UNGROUP:
        if (a->e->groups) (void)!a->e->groups->remove(a->e, m->end.id, NULL);
        return SK_OK;
    case SK_CMSG_TAKEN: {
        struct atask *t = sk_map_get(&a->tasks, m->taken.task);
        if (t) were_taken(a, t, m->taken.n);
        return SK_OK;
    }
    case SK_CMSG_END_ACTOR: end_actor(a, m->end.id, m->end.flags); return SK_OK;
    case SK_CMSG_PUT: put(a, m); return SK_OK;
    case SK_CMSG_FETCH: answer(a, 0, m); return SK_OK;
    case SK_CMSG_BRING: bring(a, m); return SK_OK;
    case SK_CMSG_ASK: tell(a, m); return SK_OK;
    case SK_CMSG_ROOM: (void)hand_over(a, (int64_t)m->end.id); return SK_OK;
    case SK_CMSG_DROP:
        for (uint32_t i = 0; i < m->drop.n; i++) drop(a, sk_cmsg_drop_at(m, i));
        return SK_OK;
    case SK_CMSG_HOLD:
    case SK_CMSG_UNHOLD:
    case SK_CMSG_THERE:
    case SK_CMSG_CALL:
    case SK_CMSG_ENDED:
    case SK_CMSG_KILL:
    case SK_CMSG_STOP:
    case SK_CMSG_NAMED:
    case SK_CMSG_YIELD:
    case SK_CMSG_TOOK:
        return a->refs ? sk_arefs_message(a->refs, m, err)
                       : SK_ERR(err, SK_ECORRUPT, "references do not travel to this node");
    default:
        return SK_ERR(err, SK_ECORRUPT,
                      "the driver sent a message of type %d, which is not for a node",
                      (int)m->type);
    }
}

void sk_agent_peer_lost(struct sk_agent *a, uint32_t number) {
    SK_VEC(uint64_t) asks = {0};
    uint64_t key;
    void *val;
    struct apeer *p = peer_of(a, number);
    if (p) sk_outbox_free(&p->out);
    for (uint32_t i = 0; sk_map_next(&a->asks, &i, &key, &val);)
        if (((struct ask *)val)->node == number && !sk_vec_push(&asks, TAG, key)) abort();
    for (uint32_t i = 0; i < asks.n; i++) {
        struct ask *k = sk_map_del(&a->asks, asks.p[i]);
        read_failed(a, asks.p[i], k, SK_EIO);
        ask_free(k);
    }
    sk_vec_free(&asks);
}

/* ---- outboxes, making, ending ---------------------------------------------------------------- */

struct sk_outbox *sk_agent_out(struct sk_agent *a, uint32_t number) {
    struct apeer *p = number ? peer_of(a, number) : NULL;
    struct sk_outbox *o = number ? (p ? &p->out : NULL) : &a->out;
    return o && o->n ? o : NULL;
}

uint32_t sk_agent_peer(const struct sk_agent *a, uint32_t number, const char **address,
                       uint64_t *incarnation) {
    const struct apeer *best = NULL;
    uint64_t key;
    void *val;
    for (uint32_t i = 0; sk_map_next(&a->peers, &i, &key, &val);) {
        const struct apeer *p = val;
        if (p->number > number && (!best || p->number < best->number)) best = p;
    }
    if (!best) return 0;
    *address = best->address;
    *incarnation = best->incarnation;
    return best->number;
}

struct sk_agent_stats sk_agent_stats(const struct sk_agent *a) {
    struct sk_agent_stats s = {.n_tasks = a->tasks.n,
                               .n_values = a->values.n,
                               .n_actors = a->actors.n,
                               .read_bytes = a->read_bytes};
    sk_arefs_count(a->refs, &s.n_lent, &s.n_calls, &s.n_foreign);
    SK_LIST_EACH (it, &a->waiting) s.n_waiting++;
    return s;
}

sk_rc sk_agent_create(struct sk_agent **out, const struct sk_agent_conf *conf, struct sk_err *err) {
    struct sk_agent *a = sk_calloc(TAG, sizeof *a);
    if (!a) return SK_ERR(err, SK_ENOMEM, "agent");
    a->e = conf->engine;
    a->conf = *conf;
    a->sink.on_events = on_events;
    sk_map_init(&a->tasks, TAG);
    sk_map_init(&a->values, TAG);
    sk_map_init(&a->actors, TAG);
    sk_map_init(&a->asks, TAG);
    sk_map_init(&a->peers, TAG);
    sk_map_init(&a->pins, TAG);
    sk_map_init(&a->envs, TAG);
    sk_list_init(&a->waiting);
    pthread_mutex_init(&a->mu, NULL);
    struct sk_node sum = {0};
    if (sk_engine_sum(a->e, &sum, NULL) == SK_OK) a->most = sum.capacity_bytes / 8;
    sk_rc rc = refs_open(a, err);
    if (rc == SK_OK) rc = sk_atell_create(&a->tell, a->e, a->conf.id_base, err);
    if (rc == SK_OK) *out = a;
    else sk_agent_destroy(a);
    return rc;
}

static bool no_tasks(void *arg) {
    struct sk_agent *a = arg;
    sk_agent_step(a);
    return !a->tasks.n && (!a->refs || sk_arefs_idle(a->refs));
}

void sk_agent_destroy(struct sk_agent *a) {
    uint64_t key;
    void *val;
    SK_VEC(uint64_t) ids = {0};
    a->closing = true;
    for (uint32_t i = 0; sk_map_next(&a->actors, &i, &key, &val);)
        if (!sk_vec_push(&ids, TAG, key)) abort();
    for (uint32_t i = 0; i < ids.n; i++) end_actor(a, ids.p[i], 0);
    ids.n = 0;
    for (uint32_t i = 0; sk_map_next(&a->tasks, &i, &key, &val);)
        if (!sk_vec_push(&ids, TAG, key)) abort();
    for (uint32_t i = 0; i < ids.n; i++) {
        struct sk_cmsg m = {.type = SK_CMSG_CANCEL, .end = {ids.p[i], SK_RUN_FORCE}};
        cancel(a, &m);
    }
    sk_vec_free(&ids);
    if (a->refs) sk_arefs_cancel(a->refs);
    /* the engine ends what was cancelled; it may be closed already, which has ended all tasks */
    (void)!a->e->ops->drive(a->e, no_tasks, a, INT64_MAX, NULL);
    sk_agent_step(a);
    if (a->refs) sk_arefs_end(a->refs);
    sk_agent_step(a); /* what was queued meanwhile */
    sk_arefs_free(a->refs);
    sk_atell_free(a->tell);
    for (uint32_t i = 0; sk_map_next(&a->values, &i, &key, &val);) {
        struct aval *v = val;
        if (v->oid.v) a->e->ops->release(a->e, v->oid);
        sk_free(v->err);
        sk_free(v);
    }
    for (uint32_t i = 0; sk_map_next(&a->asks, &i, &key, &val);) ask_free(val);
    for (uint32_t i = 0; sk_map_next(&a->peers, &i, &key, &val);) {
        struct apeer *p = val;
        sk_free(p->address);
        sk_outbox_free(&p->out);
        sk_free(p);
    }
    sk_outbox_free(&a->out);
    SK_ASSERT(!a->pins.n && !a->pinned);
    sk_map_deinit(&a->tasks);
    sk_map_deinit(&a->values);
    sk_map_deinit(&a->actors);
    sk_map_deinit(&a->asks);
    sk_map_deinit(&a->peers);
    sk_map_deinit(&a->pins);
    sk_map_deinit(&a->envs);
    sk_vec_free(&a->events);
    sk_vec_free(&a->dead);
    sk_vec_free(&a->shapes);
    pthread_mutex_destroy(&a->mu);
    sk_free(a);
}
