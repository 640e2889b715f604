/* nodes_sim.c - the driver's book of a cluster and the agents of its nodes in one deterministic
 * simulation: each agent over a toy engine, messages in queues that deliver in random order between
 * pairs and in order within a pair, nodes that join, are drained, are lost, come back as zombies,
 * and pairs of nodes that cannot reach each other.
 *
 * Some tasks look at an object whose number is inside their arguments: a value of the program, or
 * an object that a task on a node has put and given inside its value. So references are held across
 * engines, and values are brought to where something waits for them.
 *
 * A program is a random graph of tasks whose values follow from their arguments, so what each value
 * must be is known without running anything. At the end every task has ended once, every value that
 * was fetched is right, and nothing is left in the book or on any node that is alive. Where nodes
 * are only drained, each task has begun once, and none has failed. */
#include "base/clock.h"
#include "base/containers/list.h"
#include "base/containers/map.h"
#include "base/containers/vec.h"
#include "engine/cluster/agent.h"
#include "engine/cluster/book.h"
#include "engine/envs.h"
#include "engine/foreign.h"
#include "engine/groups.h"
#include "engine/inner.h"
#include "engine/watch.h"
#include "test.h"

enum {
    N_NODES = 12,
    N_TASKS = 120,
    MAX_ARGS = 4,
    MAX_VALUES = 5,
    FN = 3,
    KIND = 9,
    N_GROUPS = 3,
    GROUP = 5000,
    SHARE = SK_RES_UNIT / 16
};

/* ---- what a task computes -------------------------------------------------------------------- */

struct plan { /* what a task does; its bytes are the first argument */
    uint64_t salt;
    uint32_t index, n_values, stream;
    uint32_t inner; /* number of the value that contains a reference; 0: none does */
    uint32_t inner_size;
    uint64_t inner_seed;
    uint64_t peek, peek_seed; /* number of the object that it looks at; 0: none. What it must be */
    uint32_t peek_size;
    /* of an actor and its calls: number of concurrency groups; not 0: calls run in any order */
    uint32_t n_groups, group;
    uint32_t env;    /* of a task or actor: the environment in which it runs */
    uint32_t where;  /* the same: what it asks of its node (wheres below); 0: nothing */
    uint32_t pg;     /* of a task or actor: number of its placement group; 0: none */
    uint32_t bundle; /* its bundle, if the task names one, + 1 */
    uint32_t serial; /* of a call: how many of its actor were submitted before it */
    uint32_t caller; /* of a call: calls of one caller keep their order */
    uint32_t size[MAX_VALUES];
};

static uint64_t mix(uint64_t h, uint64_t x) {
    h = (h ^ x) * UINT64_C(0x9e3779b97f4a7c15);
    return h ^ h >> 29;
}
static uint64_t mix_bytes(uint64_t h, const uint8_t *p, size_t n) {
    uint64_t x;
    h = mix(h, n);
    for (size_t i = 0; i + 8 <= n; i += 512) { /* a sample is enough: values are made by `fill` */
        memcpy(&x, p + i, 8);
        h = mix(h, x);
    }
    return h;
}
/* Fills n bytes, a multiple of 8, from a seed. */
static void fill(uint8_t *p, size_t n, uint64_t seed) {
    for (size_t i = 0; i + 8 <= n; i += 8) {
        uint64_t x = mix(seed, i);
        memcpy(p + i, &x, 8);
    }
}

/* ---- a toy engine ---------------------------------------------------------------------------- */

struct tobj {
    uint64_t refs;
    uint32_t kind;
    size_t n;
    uint8_t *p;
    uint64_t inner; /* the object inside, to which it has a reference; 0: none */
    bool foreign, pending;
    struct sk_watch *watch;
};
struct ttask {
    struct sk_list link;
    uint64_t id, tag, actor, first;
    uint32_t n_args, n_returns, n_yielded;
    struct sk_sink *sink;
    uint64_t arg[MAX_ARGS + 1];
    size_t off[MAX_ARGS + 1], len[MAX_ARGS + 1];
    bool part[MAX_ARGS + 1];
    struct plan plan;
    uint64_t hash;
    bool begun, init, cancelled, looks;
};
struct toy {
    struct sk_engine e;
    struct sk_map objs, actors; /* actors: id -> number of calls + 1 */
    struct sk_list tasks;
    uint64_t next, id_base;
    uint32_t n_envs, env[4];
    uint8_t
        here[N_GROUPS + 1]; /* a bit for each bundle of a group that is here; bit 7: the group is */
    struct sk_foreign *server;
};

/* True if nodes were lost: a run that makes lost values again may look at what is gone. */
static bool may_be_gone(void);
/* True if a task with this `where` may run on the node of that engine. */
static bool may_be_at(uint32_t where, const struct toy *x);
/* True if the task has begun before, so it may be a call that makes a lost value again: it need not
 * keep its place. */
static bool may_run_again(const struct ttask *t);
static void t_release(struct sk_engine *e, sk_oid o);
static struct toy *toy_of(struct sk_engine *e) { return sk_container_of(e, struct toy, e); }

static struct tobj *tobj_new(struct toy *x, uint64_t id, uint32_t kind, const void *p, size_t n) {
    struct tobj *o = sk_calloc(SK_TAG_TEST, sizeof *o);
    CHECK(o && (o->p = sk_alloc(SK_TAG_TEST, n + 1)));
    if (p) memcpy(o->p, p, n);
    o->kind = kind;
    o->n = n;
    o->refs = 1;
    CHECK_OK(sk_map_put(&x->objs, id, o));
    return o;
}
static sk_rc t_define(struct sk_engine *e, sk_fid fn, const char *name, struct sk_bytes def,
                      struct sk_err *err) {
    (void)e, (void)err;
    CHECK(fn.v == FN && !strcmp(name, "f") && def.n == 3);
    return SK_OK;
}
static sk_rc t_shape(struct sk_engine *e, const struct sk_need *n, sk_shape *out,
                     struct sk_err *err) {
    (void)err;
    CHECK(n->env <= toy_of(e)->n_envs);
    uint8_t here = n->group ? toy_of(e)->here[n->group - GROUP] : 0;
    if (n->group && !here) return SK_EGROUP; /* it was removed while the task waited here */
    if (n->group) CHECK(n->bundle >= 0 && n->bundle < 2 && here >> n->bundle & 1 && n->capture);
    *out = 1000 * (uint32_t)(n->group ? n->group - GROUP : 0) + 1 +
           (n->env ? toy_of(e)->env[n->env - 1] : 0);
    return SK_OK;
}
/* Environment i has i bytes. Here each has the number of the order in which it came. */
static sk_rc t_env(struct sk_engine *e, struct sk_bytes env, uint32_t *out, struct sk_err *err) {
    struct toy *x = toy_of(e);
    (void)err;
    CHECK(x->n_envs < SK_COUNT(x->env) && env.n);
    for (uint32_t i = 0; i < x->n_envs; i++) CHECK(x->env[i] != env.n); /* each comes once */
    x->env[x->n_envs++] = (uint32_t)env.n;
    *out = x->n_envs;
    return SK_OK;
}
static sk_rc t_group(struct sk_engine *e, const struct sk_group_spec *s, uint64_t *out,
                     sk_oid *ready, struct sk_err *err) {
    uint8_t *here = &toy_of(e)->here[s->id - GROUP], was = *here;
    (void)out, (void)ready, (void)err;
    CHECK(s->n == 2 && s->id > GROUP && s->id <= GROUP + N_GROUPS);
    *here = 1 << 7;
    for (uint32_t i = 0; i < 2; i++) {
        CHECK_EQ(s->bundles[i].amount[0], SHARE);
        *here |= (uint8_t)(!s->elsewhere[i] << i);
    }
    CHECK((was & *here) == was && was != *here); /* bundles come, and none goes */
    return SK_OK;
}
static sk_rc t_group_end(struct sk_engine *e, uint64_t id, struct sk_err *err) {
    struct toy *x = toy_of(e);
    (void)err;
    CHECK(x->here[id - GROUP]);
    x->here[id - GROUP] = 0;
    SK_LIST_EACH (it, &x->tasks) { /* what runs in it is killed; actors of this engine live on */
        struct ttask *t = sk_container_of(it, struct ttask, link);
        if (t->plan.pg == id - GROUP && !t->actor) t->cancelled = true;
    }
    return SK_OK;
}
static const struct sk_groups_ops toy_groups = {.create = t_group, .remove = t_group_end};
static const struct sk_envs_ops toy_envs = {.define = t_env};
static void t_retain(struct sk_engine *e, sk_oid o) {
    struct tobj *x = sk_map_get(&toy_of(e)->objs, o.v);
    CHECK(x || may_be_gone());
    if (x) x->refs++;
}
/* ---- foreign.h, watch.h */
static sk_rc t_serve(struct sk_engine *e, struct sk_foreign *f, struct sk_err *err) {
    (void)err;
    CHECK(!f || !toy_of(e)->server);
    toy_of(e)->server = f;
    return SK_OK;
}
static sk_rc t_bring(struct sk_engine *e, sk_oid id, const struct sk_payload *p,
                     struct sk_err *err) {
    struct tobj *o = sk_map_get(&toy_of(e)->objs, id.v);
    (void)err;
    if (!o || !o->foreign) return SK_ENOENT;
    if (!o->pending) return SK_EEXIST;
    o->pending = false;
    o->kind = p->kind;
    o->n = p->bytes.n;
    CHECK(o->p = sk_realloc(SK_TAG_TEST, o->p, o->n + 1));
    if (o->n) memcpy(o->p, p->bytes.p, o->n);
    return SK_OK;
}
/* Others may have room for tasks of its tasks: how many it has changes all the time. */
static uint64_t n_rooms; /* offers of the driver */
static uint32_t t_hand_over(struct sk_engine *e, int64_t cpu, bool *waits) {
    (void)e;
    CHECK(!cpu || (cpu > 0 && cpu % SK_RES_UNIT == 0));
    *waits = test_below(4);
    n_rooms += cpu > 0;
    return *waits ? (uint32_t)test_below(5) : 0;
}
static const struct sk_foreign_ops toy_foreign = {
    .serve = t_serve, .bring = t_bring, .hand_over = t_hand_over};
static sk_rc t_watch(struct sk_engine *e, sk_oid o, sk_tid s, struct sk_watch *w,
                     struct sk_err *err) {
    struct tobj *t = sk_map_get(&toy_of(e)->objs, o.v);
    (void)s, (void)err;
    if (sk_map_get(&toy_of(e)->actors, o.v))
        return SK_OK; /* of its end: none dies by itself here */
    CHECK(t ? !t->foreign && !t->watch : may_be_gone());
    if (!t || !t->pending) return SK_EDONE;
    t->watch = w;
    t->refs++;
    w->id = o.v;
    return SK_OK;
}
static bool t_unwatch(struct sk_engine *e, struct sk_watch *w) {
    struct tobj *t = w->id ? sk_map_get(&toy_of(e)->objs, w->id) : NULL;
    if (!t) return false;
    t->watch = NULL;
    t_release(e, (sk_oid){w->id});
    return true;
}
static void t_exists(struct toy *x, uint64_t id, struct tobj *o) {
    struct sk_watch *w = o->watch;
    o->pending = false;
    o->watch = NULL;
    if (!w) return;
    w->id = 0;
    w->fn(w);
    t_release(&x->e, (sk_oid){id});
}
static const struct sk_watch_ops toy_watch = {.add = t_watch, .remove = t_unwatch};
/* Takes a reference to the object that a task looks at, which it waits for. */
static struct tobj *t_meet(struct toy *x, uint64_t id) {
    struct tobj *o = sk_map_get(&x->objs, id);
    if (o) {
        o->refs++;
        return o;
    }
    if (sk_id_place(id) == sk_id_place(x->id_base)) { /* its own ones are held by the driver */
        CHECK(may_be_gone());
        return NULL;
    }
    o = tobj_new(x, id, KIND, NULL, 0);
    o->foreign = o->pending = true;
    x->server->held(x->server, (sk_oid){id});
    x->server->wanted(x->server, (sk_oid){id});
    return o;
}

static void t_release(struct sk_engine *e, sk_oid o) {
    struct toy *x = toy_of(e);
    struct tobj *t = sk_map_get(&x->objs, o.v);
    if (!t && sk_map_get(&x->actors, o.v)) { /* the handle of an actor */
        sk_map_del(&x->actors, o.v);
        return;
    }
    CHECK(t ? t->refs > 0 : may_be_gone());
    if (!t || --t->refs) return;
    sk_map_del(&x->objs, o.v);
    if (t->inner) t_release(e, (sk_oid){t->inner});
    if (t->foreign && x->server) x->server->dropped(x->server, o);
    sk_free(t->p);
    sk_free(t);
}
static sk_rc t_put(struct sk_engine *e, const struct sk_payload *p, sk_oid *out,
                   struct sk_err *err) {
    struct toy *x = toy_of(e);
    (void)err;
    out->v = x->next++;
    tobj_new(x, out->v, p->kind, p->bytes.p, p->bytes.n);
    return SK_OK;
}
static sk_rc t_get(struct sk_engine *e, const sk_oid *ids, size_t n, int64_t deadline_ns,
                   struct sk_view *out, struct sk_err *err) {
    (void)deadline_ns;
    for (size_t i = 0; i < n; i++) {
        struct tobj *o = sk_map_get(&toy_of(e)->objs, ids[i].v);
        CHECK(o || may_be_gone());
        if (!o) return SK_ERR(err, SK_ELOST, "it is gone");
        o->refs++;
        out[i] = (struct sk_view){o->p, o->n, o->kind, ids[i], ids[i].v};
    }
    return SK_OK;
}
static void t_view_release(struct sk_engine *e, struct sk_view *v) {
    t_release(e, v->oid);
    *v = (struct sk_view){0};
}
static struct ttask *t_task(struct toy *x, const struct sk_task_spec *s) {
    struct ttask *t = sk_calloc(SK_TAG_TEST, sizeof *t);
    CHECK(t && s->n_args <= MAX_ARGS + 1 && s->n_args);
    *t = (struct ttask){.tag = s->sink_tag,
                        .actor = s->actor.v,
                        .n_args = s->n_args,
                        .n_returns = s->n_returns,
                        .sink = s->sink};
    CHECK(s->args[0].bytes.n >= sizeof t->plan);
    memcpy(&t->plan, s->args[0].bytes.p, sizeof t->plan);
    CHECK_EQ(s->shape, s->actor.v ? 0 : 1 + t->plan.env + 1000 * t->plan.pg);
    CHECK(s->actor.v || may_be_at(t->plan.where, x));
    for (uint32_t i = 1; i < s->n_args; i++) {
        const struct sk_arg *a = &s->args[i];
        if (a->ref.v) t_retain(&x->e, a->ref);
        t->arg[i] = a->ref.v;
        if (!a->ref.v) {
            t->arg[i] = x->next++;
            tobj_new(x, t->arg[i], a->kind, a->bytes.p, a->bytes.n);
        }
        const struct tobj *o = sk_map_get(&x->objs, t->arg[i]);
        t->off[i] = a->part ? a->offset : 0;
        t->len[i] = a->part ? a->length : o->n;
        CHECK(t->off[i] + t->len[i] <= o->n);
    }
    sk_list_push_back(&x->tasks, &t->link);
    return t;
}
static sk_rc t_submit(struct sk_engine *e, const struct sk_task_spec *s, sk_oid *first, sk_tid *tid,
                      struct sk_err *err) {
    struct toy *x = toy_of(e);
    (void)err;
    struct ttask *t = t_task(x, s);
    if (t->actor) {
        CHECK(s->opts->group == t->plan.group && s->opts->no_wait == (t->plan.group == 1));
        if (!t->plan.n_groups)
            SK_LIST_EACH (it, &x->tasks) { /* they are given in the order of their submission */
                const struct ttask *y = sk_container_of(it, struct ttask, link);
                CHECK(y->actor != t->actor || y->init || y == t ||
                      y->plan.caller != t->plan.caller || y->plan.serial < t->plan.serial ||
                      may_run_again(y) || may_run_again(t));
            }
    }
    uint32_t n = s->n_returns == SK_STREAMING ? 0 : s->n_returns;
    t->first = x->next;
    x->next += n;
    t->id = x->next++;
    for (uint32_t i = 0; i < n; i++) tobj_new(x, t->first + i, KIND, NULL, 0);
    if (first) first->v = t->first;
    tid->v = t->id;
    return SK_OK;
}
static sk_rc t_actor_create(struct sk_engine *e, const struct sk_actor_spec *spec, sk_aid *out,
                            sk_oid *ready, struct sk_err *err) {
    struct toy *x = toy_of(e);
    (void)err;
    struct ttask *t = t_task(x, &spec->init);
    ready->v = t->first = x->next++;
    out->v = t->actor = x->next++;
    t->id = x->next++;
    t->init = true;
    CHECK_EQ(spec->opts->n_groups, t->plan.n_groups);
    CHECK(spec->opts->is_async == (t->plan.n_groups == 3) &&
          spec->max_task_retries == (int32_t)t->plan.n_groups);
    for (uint32_t i = 0; i < spec->opts->n_groups; i++) CHECK_EQ(spec->opts->groups[i], i + 5);
    tobj_new(x, t->first, KIND, NULL, 0)->pending = true;
    CHECK_OK(sk_map_put(&x->actors, out->v, x));
    return SK_OK;
}
static sk_rc t_actor_end(struct sk_engine *e, sk_aid a, bool no_restart, struct sk_err *err) {
    (void)err, (void)no_restart;
    SK_LIST_EACH (it, &toy_of(e)->tasks)
        if (sk_container_of(it, struct ttask, link)->actor == a.v)
            sk_container_of(it, struct ttask, link)->cancelled = true;
    return SK_OK;
}
static sk_rc t_cancel(struct sk_engine *e, sk_tid id, uint32_t flags, struct sk_err *err) {
    (void)flags, (void)err;
    SK_LIST_EACH (it, &toy_of(e)->tasks)
        if (sk_container_of(it, struct ttask, link)->id == id.v)
            sk_container_of(it, struct ttask, link)->cancelled = true;
    return SK_OK;
}
static sk_rc t_nodes(struct sk_engine *e, struct sk_node *out, size_t cap, size_t *n,
                     struct sk_err *err) {
    uint64_t key, bytes = 0;
    void *val;
    (void)err;
    for (uint32_t i = 0; sk_map_next(&toy_of(e)->objs, &i, &key, &val);)
        bytes += ((const struct tobj *)val)->n;
    *n = 1;
    if (cap) *out = (struct sk_node){.number = 1, .alive = true, .resident_bytes = bytes};
    return SK_OK;
}

static void began(const struct plan *p);

static void t_emit(struct ttask *t, struct sk_event ev) {
    if (t->init) return; /* constructors are watched */
    ev.task.v = t->id;
    ev.tag = t->tag;
    t->sink->on_events(t->sink, &ev, 1);
}
static void t_over(struct toy *x, struct ttask *t) {
    for (uint32_t i = 1; i < t->n_args; i++) t_release(&x->e, (sk_oid){t->arg[i]});
    if (t->looks) t_release(&x->e, (sk_oid){t->plan.peek});
    sk_list_del(&t->link);
    sk_free(t);
}
static void t_value(struct toy *x, struct ttask *t, uint32_t i, uint64_t id) {
    struct tobj *o =
        t->n_returns == SK_STREAMING ? tobj_new(x, id, KIND, NULL, 0) : sk_map_get(&x->objs, id);
    if (!o) return; /* nobody holds the return any more */
    o->n = t->plan.size[i];
    CHECK(o->p = sk_realloc(SK_TAG_TEST, o->p, o->n + 1));
    fill(o->p, o->n, mix(t->hash, i));
    if (t->init) t_exists(x, id, o);
    if (t->plan.inner != i + 1) return;
    o->inner = x->next++; /* the number of this object is the last 8 bytes */
    struct tobj *in = tobj_new(x, o->inner, KIND, NULL, t->plan.inner_size);
    fill(in->p, in->n, t->plan.inner_seed);
    memcpy(o->p + o->n - 8, &o->inner, 8);
}
static bool looked_well(const struct ttask *t, const struct tobj *o);
/* True if the task waits for the object that it looks at. */
static bool t_waits(const struct toy *x, const struct ttask *t) {
    const struct tobj *o = t->looks ? sk_map_get(&x->objs, t->plan.peek) : NULL;
    return o && o->pending && !t->cancelled;
}
/* Does the next step of a task that may do one. Calls of an actor run in order. */
static void t_step(struct toy *x, struct ttask *t) {
    if (t->cancelled) {
        struct sk_err err = {0};
        (void)!SK_ERR(&err, SK_ECANCEL, "cancelled there");
        struct tobj *ready = t->init ? sk_map_get(&x->objs, t->first) : NULL;
        if (ready) {
            ready->kind = SK_KIND_ENGINE_ERROR;
            ready->n = 0;
            t_exists(x, t->first, ready);
        }
        t_emit(t, (struct sk_event){.kind = SK_EV_FAILED, .err = &err});
        t_over(x, t);
        return;
    }
    if (!t->begun) {
        t->begun = true;
        began(&t->plan);
        t->hash = t->plan.salt;
        for (uint32_t i = 1; i < t->n_args; i++) {
            const struct tobj *o = sk_map_get(&x->objs, t->arg[i]);
            t->hash = mix_bytes(t->hash, o->p + t->off[i], t->len[i]);
        }
        t_emit(t, (struct sk_event){.kind = SK_EV_STARTED});
        if (!t->plan.peek) return;
        t->looks = t_meet(x, t->plan.peek) != NULL;
        return;
    }
    if (t->looks) {
        CHECK(looked_well(t, sk_map_get(&x->objs, t->plan.peek)));
        t->looks = false;
        t_release(&x->e, (sk_oid){t->plan.peek});
    }
    if (t->n_returns == SK_STREAMING && t->n_yielded < t->plan.n_values) {
        uint32_t i = t->n_yielded++;
        uint64_t id = x->next++, note = mix(t->hash, i);
        t_value(x, t, i, id);
        t_emit(t, (struct sk_event){.kind = SK_EV_YIELDED,
                                    .index = i,
                                    .oid = {id},
                                    .size_bytes = t->plan.size[i],
                                    .note = {&note, 8}});
        return;
    }
    if (t->n_returns != SK_STREAMING)
        for (uint32_t i = 0; i < t->n_returns; i++) t_value(x, t, i, t->first + i);
    t_emit(t, (struct sk_event){.kind = SK_EV_DONE, .run_ns = 1000 + (int64_t)(t->hash % 100000)});
    t_over(x, t);
}
static sk_rc t_drive(struct sk_engine *e, bool (*is)(void *arg), void *arg, int64_t deadline_ns,
                     struct sk_err *err) {
    struct toy *x = toy_of(e);
    (void)deadline_ns, (void)err;
    while (!is(arg)) {
        CHECK(!sk_list_empty(&x->tasks));
        t_step(x, sk_container_of(sk_list_first(&x->tasks), struct ttask, link));
    }
    return SK_OK;
}
static uint64_t t_inner(struct sk_engine *e, const sk_oid *ids, size_t n) {
    uint64_t sum = 0;
    for (size_t i = 0; i < n; i++) {
        const struct tobj *o = sk_map_get(&toy_of(e)->objs, ids[i].v);
        sum += o && o->inner != 0;
    }
    return sum;
}
static const struct sk_inner_ops toy_inner = {.count = t_inner};
static const struct sk_engine_ops toy_ops = {
    .drive = t_drive,
    .define = t_define,
    .shape = t_shape,
    .submit = t_submit,
    .cancel = t_cancel,
    .actor_create = t_actor_create,
    .actor_end = t_actor_end,
    .put = t_put,
    .get = t_get,
    .retain = t_retain,
    .release = t_release,
    .view_release = t_view_release,
    .nodes = t_nodes,
};

/* ---- the cluster ----------------------------------------------------------------------------- */

struct frame {
    struct sk_list link;
    size_t n;
    uint8_t p[];
};
struct node {
    struct toy toy;
    struct sk_agent *agent;
    uint32_t number; /* in the book; 0: not joined yet */
    bool up;         /* the process runs */
    bool fenced;     /* the driver has given it up, and it goes on as a zombie */
    bool draining;
    uint64_t until; /* draining: the step at which it is lost */
};
struct want {    /* a value of a task, or an object of a node (foreign), as the host has it */
    uint64_t id; /* its number as an object */
    bool foreign, failed;                        /* failed: it has an error */
    bool holder[N_NODES + 1], tell[N_NODES + 1]; /* nodes that hold it; to be told its value */
    uint32_t place;                              /* foreign: the node of its engine */
    struct want *next;                           /* foreign: in c.refs */
    struct sk_bval *handle;
    uint8_t *bytes;
    size_t n;
    uint64_t seed; /* what it must be */
    uint32_t size, n_takers;
    bool there;
};
struct htask { /* a task of the program */
    struct plan plan;
    uint32_t n_args, arg[MAX_ARGS], value[MAX_ARGS]; /* value value[i] of task arg[i] */
    bool part[MAX_ARGS];
    uint32_t off[MAX_ARGS], len[MAX_ARGS];
    uint32_t actor; /* index of the actor + 1 */
    int32_t retries;
    bool is_init, is_put, submitted, over, failed, cancelled;
    uint32_t n_told, n_begun;
    struct want *looks_at;
    struct want v[MAX_VALUES];
};
static struct {
    struct sk_book *book;
    struct node node[N_NODES + 1]; /* [0] is the driver */
    struct sk_list link[N_NODES + 1][N_NODES + 1];
    bool cut[N_NODES + 1][N_NODES + 1];
    struct htask task[N_TASKS];
    uint32_t n_over, n_submitted, n_lost, n_fetched, n_failed, n_cancelled;
    uint32_t n_drained, n_late;
    uint64_t n_again, n_remade, n_moved, n_moved_actors, n_met, n_looked, n_relayed;
    uint64_t n_revived, ask, n_asked; /* ask: a request to the nodes that goes on; 0: none */
    bool lacked[2];                   /* there was no node with label p=a, p=b at some time */
    bool lost_any, killed_any;        /* killed: an actor was ended while it had calls */
    uint64_t n_placed;
    uint32_t at[N_GROUPS + 1][2]; /* of each bundle: its node */
    bool group_gone[N_GROUPS + 1];
    bool strict;  /* what is lost can be made again, and puts are kept, so nothing fails */
    struct gone { /* what a node holds that the host does not have any more */
        uint32_t node;
        uint64_t id;
    } gone[200];
    uint32_t n_gone;
    struct want *refs; /* objects of nodes that the host holds; each with one reference that the
                        * program lets go of at some time */
} c;

static bool may_be_gone(void) { return c.lost_any; }

enum { N_ENVS = 4 };
/* Numbers N_ENVS + 1 and on. Node i has the label p: a if i is even, else b. */
#define W(s) {(s), sizeof(s) - 1}
static const struct sk_bytes wheres[] = {
    W("\1|=p\0=a\0\0|"),                           /* p is a; any node, if there is none such */
    W("\1|!p\0=a\0=2\0\0+p\0|"),                   /* p is not a; the same */
    W("\0|=p\0=b\0\0|=p\0=a\0=7\0\0"),             /* p is b; another, if these are busy */
    W("\2|-q\0"),                                  /* any, by turns */
    W("\0|=q\0=b\0\0|-p\0|=p\0=b\0\0|!p\0=b\0\0"), /* the same as the third */
};
static bool may_be_at(uint32_t where, const struct toy *x) {
    uint32_t p = (uint32_t)(x->id_base / SK_ID_RANGE % 2);
    return !where || where > N_ENVS + 2 || p == where - N_ENVS - 1 || c.lacked[where - N_ENVS - 1];
}
static void look_at_labels(void) {
    bool there[2] = {false, false};
    for (uint32_t i = 1; i <= N_NODES; i++)
        if (c.node[i].up && !c.node[i].fenced && !c.node[i].draining) there[i % 2] = true;
    for (int p = 0; p < 2; p++) c.lacked[p] = c.lacked[p] || !there[p];
}
static bool looked_well(const struct ttask *t, const struct tobj *o) {
    CHECK(o && !o->pending);
    c.n_looked++;
    c.n_relayed += sk_id_place(t->plan.peek) != 0;
    if (SK_KIND_IS_ERROR(o->kind)) return may_be_gone();
    uint8_t *p = sk_alloc(SK_TAG_TEST, t->plan.peek_size + 8);
    CHECK(p);
    fill(p, t->plan.peek_size, t->plan.peek_seed);
    bool well = o->n == t->plan.peek_size && !memcmp(o->p, p, o->n);
    sk_free(p);
    return well;
}
static bool may_run_again(const struct ttask *t) {
    return c.task[t->plan.index].n_begun > t->begun;
}
static void began(const struct plan *p) { c.task[p->index].n_begun++; }

static void woken(void *ctx) { (void)ctx; }

static void node_start(uint32_t i) {
    struct node *n = &c.node[i];
    struct toy *x = &n->toy;
    *n = (struct node){.up = true};
    x->e.ops = &toy_ops;
    x->e.inner = &toy_inner;
    x->e.envs = &toy_envs;
    x->e.groups = &toy_groups;
    x->e.foreign = &toy_foreign;
    x->e.watch = &toy_watch;
    x->id_base = i * SK_ID_RANGE;
    x->next = x->id_base + 1;
    sk_map_init(&x->objs, SK_TAG_TEST);
    sk_map_init(&x->actors, SK_TAG_TEST);
    sk_list_init(&x->tasks);
    CHECK_OK(sk_agent_create(
        &n->agent,
        &(struct sk_agent_conf){.engine = &x->e, .wake = woken, .ctx = n, .id_base = x->id_base},
        NULL));
    struct sk_cmsg w = {.type = SK_CMSG_WELCOME,
                        .welcome = {.incarnation = test_rand() | 1,
                                    .total.amount = {(1 + (int64_t)test_below(3)) * SK_RES_UNIT +
                                                     2 * N_GROUPS * SHARE},
                                    .store_bytes = test_below(3) ? test_below(2) << 20 : 50000,
                                    .id_base = x->id_base,
                                    .name = {"n", 1},
                                    .labels = {i % 2 ? "p\0b" : "p\0a", 4}}};
    CHECK_OK(sk_book_joined(c.book, &w, (struct sk_bytes){"addr", 4}, &n->number, NULL));
    CHECK_EQ(n->number, i);
}

static void node_free(struct node *n) { /* as a process that ends: nothing is said to anybody */
    struct toy *x = &n->toy;
    uint64_t key;
    void *val;
    sk_agent_destroy(n->agent);
    CHECK_EQ(x->objs.n, 0);
    for (uint32_t i = 0; sk_map_next(&x->objs, &i, &key, &val);) {
        sk_free(((struct tobj *)val)->p);
        sk_free(val);
    }
    sk_map_deinit(&x->objs);
    sk_map_deinit(&x->actors);
    n->agent = NULL;
    n->up = false;
}

/* Moves what an outbox holds into the link, frame by frame. */
static void ship(uint32_t from, uint32_t to, struct sk_outbox *o) {
    size_t at = 0;
    while (o && at < o->n) {
        uint64_t body;
        uint32_t type;
        sk_cmsg_head(o->p + at, &body, &type);
        struct frame *f = sk_alloc(SK_TAG_TEST, sizeof *f + SK_CMSG_HEAD + body);
        CHECK(f && at + SK_CMSG_HEAD + body <= o->n);
        f->n = SK_CMSG_HEAD + body;
        memcpy(f->p, o->p + at, f->n);
        sk_list_init(&f->link);
        sk_list_push_back(&c.link[from][to], &f->link);
        at += f->n;
    }
    CHECK(!o || !o->apart.n); /* values are small here */
    if (o) o->n = 0;
}
static void sever(uint32_t i, uint32_t k);
static void ship_all(void) {
    for (uint32_t i = 1; i <= N_NODES; i++) {
        struct node *n = &c.node[i];
        if (!n->up) continue;
        ship(0, i, sk_book_out(c.book, n->number));
        ship(i, 0, sk_agent_out(n->agent, 0));
        for (uint32_t k = 1; k <= N_NODES; k++)
            if (k != i) ship(i, k, sk_agent_out(n->agent, k));
        for (uint32_t k = 1; k <= N_NODES; k++) /* nobody is there any more */
            if (!c.node[k].up && !sk_list_empty(&c.link[i][k])) sever(i, k);
    }
}
static void link_clear(uint32_t from, uint32_t to) {
    while (!sk_list_empty(&c.link[from][to])) {
        struct frame *f = sk_container_of(sk_list_first(&c.link[from][to]), struct frame, link);
        sk_list_del(&f->link);
        sk_free(f);
    }
}
static bool deliver(uint32_t from, uint32_t to) {
    struct sk_list *it = sk_list_first(&c.link[from][to]);
    if (!it) return false;
    struct frame *f = sk_container_of(it, struct frame, link);
    uint64_t body;
    uint32_t type;
    struct sk_cmsg m;
    sk_list_del(it);
    sk_cmsg_head(f->p, &body, &type);
    CHECK_OK(sk_cmsg_read(type, (struct sk_bytes){f->p + SK_CMSG_HEAD, body}, &m, NULL));
    struct sk_err err = {0};
    sk_rc rc = SK_OK;
    if (type == SK_CMSG_PEER && m.peer.number == to) rc = SK_OK; /* node.c takes it */
    else if (!to) rc = sk_book_message(c.book, c.node[from].number, &m, &err);
    else if (c.node[to].up) rc = sk_agent_message(c.node[to].agent, from, &m, &err);
    CHECK_MSG(rc == SK_OK, "%u to %u: message %u: %s", from, to, type, err.msg);
    if (to && c.node[to].up && test_below(2)) sk_agent_step(c.node[to].agent);
    sk_free(f);
    return true;
}
/* Two nodes cannot reach each other (any more): both notice, at once here. */
static void sever(uint32_t i, uint32_t k) {
    link_clear(i, k);
    link_clear(k, i);
    if (i && c.node[i].up) sk_agent_peer_lost(c.node[i].agent, k);
    if (k && c.node[k].up) sk_agent_peer_lost(c.node[k].agent, i);
}
static void lose(uint32_t i, bool zombie) {
    struct node *n = &c.node[i];
    c.lost_any = true;
    c.n_lost++;
    if (!zombie) {
        node_free(n);
        for (uint32_t k = 0; k <= N_NODES; k++) sever(i, k);
    }
    n->fenced = zombie;
    look_at_labels();
    sk_book_lost(c.book, n->number, zombie ? "no sign of life" : "its connection ended");
    link_clear(0, i);
}

/* Lets nodes go that are empty, and gives up those that are not in time. */
static void end_drains(uint64_t steps) {
    for (uint32_t i = 1; i <= N_NODES; i++) {
        struct node *n = &c.node[i];
        if (!n->up || n->fenced || !n->draining) continue;
        struct sk_book_stats before = sk_book_stats(c.book);
        if (sk_book_empty(c.book, n->number)) {
            CHECK_EQ(sk_agent_stats(n->agent).n_tasks, 0);
            c.n_drained++;
            node_free(n);
            for (uint32_t k = 0; k <= N_NODES; k++) sever(i, k);
            look_at_labels();
            sk_book_lost(c.book, n->number, "it was drained");
            link_clear(0, i);
            CHECK(sk_book_check(c.book));
            struct sk_book_stats after = sk_book_stats(c.book);
            CHECK_EQ(before.n_again, after.n_again);
            CHECK_EQ(before.n_remade, after.n_remade);
        } else if (steps >= n->until) {
            c.n_late++;
            lose(i, test_below(2));
        }
    }
}

/* ---- the program ----------------------------------------------------------------------------- */

static uint64_t expected(const struct htask *t) {
    uint64_t h = t->plan.salt;
    for (uint32_t i = 0; i < t->n_args; i++) {
        const struct want *w = &c.task[t->arg[i]].v[t->value[i]];
        uint8_t *p = sk_alloc(SK_TAG_TEST, w->size + 8);
        CHECK(p);
        fill(p, w->size, w->seed);
        h = mix_bytes(h, p + t->off[i], t->len[i]);
        sk_free(p);
    }
    return h;
}

static void program(bool hard) {
    uint32_t n_actors = 0, actor_task[8];
    for (uint32_t i = 0; i < N_TASKS; i++) {
        struct htask *t = &c.task[i];
        *t = (struct htask){.plan = {.salt = test_rand(),
                                     .index = i,
                                     .n_values = 1 + (uint32_t)test_below(MAX_VALUES)}};
        t->retries = hard && !test_below(6) ? (int32_t)test_below(2) : -1;
        t->is_put = i < 4 || !test_below(12);
        t->plan.stream = !t->is_put && test_below(2);
        if (t->is_put) t->plan.n_values = 1;
        else if (n_actors < 8 && !test_below(14)) {
            t->is_init = true;
            t->plan.stream = 0;
            t->plan.n_values = 1;
            t->actor = ++n_actors;
            t->plan.n_groups = test_below(2) ? (uint32_t)test_below(4) : 0;
            actor_task[n_actors - 1] = i;
        } else if (n_actors && !test_below(5)) t->actor = 1 + (uint32_t)test_below(n_actors);
        if (!t->actor || t->is_init) {
            t->plan.env = test_below(3) ? 0 : (uint32_t)test_below(N_ENVS + 1);
            t->plan.pg = test_below(4) ? 0 : 1 + (uint32_t)test_below(N_GROUPS);
            t->plan.bundle = t->plan.pg ? (uint32_t)test_below(3) : 0;
            if (!t->plan.pg && !test_below(3))
                t->plan.where = N_ENVS + 1 + (uint32_t)test_below(SK_COUNT(wheres));
        }
        if (t->actor && !t->is_init) {
            t->plan.n_groups = c.task[actor_task[t->actor - 1]].plan.n_groups;
            t->plan.caller = (uint32_t)test_below(3);
            t->plan.group = t->plan.n_groups ? (uint32_t)test_below(t->plan.n_groups) : 0;
        }
        if (!t->is_put && !t->is_init && !test_below(5)) {
            t->plan.inner = 1 + (uint32_t)test_below(t->plan.n_values);
            t->plan.inner_seed = test_rand();
            t->plan.inner_size = test_below(2) ? 64 : 20000;
        }
        /* Chosen when it begins. A call that waits for a value that a call behind it has to make
         * again waits for ever, so where nothing may fail, calls look at nothing. */
        t->plan.peek = !t->is_put && !t->is_init && !(c.strict && t->actor) && !test_below(3);
        if (t->actor && hard && test_below(4))
            t->retries = c.task[actor_task[t->actor - 1]].retries;
        t->n_args = t->is_put || !i ? 0 : (uint32_t)test_below(MAX_ARGS + 1);
        for (uint32_t k = 0; k < t->n_args; k++) {
            uint32_t a = (uint32_t)test_below(i);
            t->arg[k] = a;
            t->value[k] = (uint32_t)test_below(c.task[a].plan.n_values);
            if (c.task[a].plan.inner == t->value[k] + 1) { /* another number each time it is made */
                t->n_args = k;
                break;
            }
            struct want *w = &c.task[a].v[t->value[k]];
            w->n_takers++;
            t->len[k] = w->size;
            if (w->size > 16 && !test_below(3)) {
                t->part[k] = true;
                t->off[k] = (uint32_t)test_below(w->size / 16) * 8;
                t->len[k] = (uint32_t)test_below((w->size - t->off[k]) / 8) * 8;
            }
        }
        for (uint32_t k = 0; k < t->plan.n_values; k++) {
            uint32_t size = t->is_init      ? 16
                            : test_below(2) ? 8 * (uint32_t)test_below(40)
                                            : 16384 + 8 * (uint32_t)test_below(100);
            t->plan.size[k] = size;
            t->v[k].size = size;
        }
        uint64_t h = expected(t);
        for (uint32_t k = 0; k < t->plan.n_values; k++) {
            t->v[k].seed = mix(h, k);
            t->v[k].id = 1 + i * MAX_VALUES + k;
            if (t->plan.inner == k + 1) t->v[k].size = t->plan.size[k] = SK_MAX(t->v[k].size, 8u);
        }
    }
}

static void value_let_go(struct want *w) {
    if (w->handle) sk_book_drop(c.book, w->handle);
    sk_free(w->bytes);
    w->handle = NULL;
    w->bytes = NULL;
}
/* Gives back one reference to what the host has of a node. */
static void ref_gone(struct want *w) {
    if (--w->n_takers) return;
    for (struct want **at = &c.refs; *at; at = &(*at)->next)
        if (*at == w) {
            *at = w->next;
            break;
        }
    for (uint32_t i = 1; i <= N_NODES; i++) { /* held by tasks that run again for lost values */
        if (!w->holder[i] || !w->tell[i]) continue;
        CHECK(may_be_gone() && c.n_gone < SK_COUNT(c.gone));
        c.gone[c.n_gone++] = (struct gone){i, w->id};
    }
    value_let_go(w);
    sk_book_unhold(c.book, w->id);
    sk_free(w);
}
static struct want *ref_of(uint64_t id) {
    struct want *w = c.refs;
    while (w && w->id != id) w = w->next;
    return w;
}
/* The value contains the number of an object of a node: the host holds it. */
static void ref_found(const struct htask *t, const uint8_t *value, size_t n) {
    uint64_t id;
    memcpy(&id, value + n - 8, 8);
    if (ref_of(id)) return;
    struct want *w = sk_calloc(SK_TAG_TEST, sizeof *w);
    CHECK(w && sk_id_place(id));
    *w = (struct want){.id = id,
                       .foreign = true,
                       .place = (uint32_t)sk_id_place(id),
                       .next = c.refs,
                       .seed = t->plan.inner_seed,
                       .size = t->plan.inner_size,
                       .n_takers = 1};
    c.refs = w;
    c.n_met++;
    sk_book_hold(c.book, id);
}
/* Lets go of objects of nodes: of all, or of a random one. */
static void let_go_refs(bool all) {
    for (struct want *w = c.refs, *next; w; w = next) {
        next = w->next;
        if (w->n_takers == 1 && (all || !test_below(3))) ref_gone(w);
    }
}
/* An object that is there, for a task to look at; with a reference. */
static struct want *some_object(void) {
    uint32_t n = 0;
    struct want *w = c.refs;
    for (const struct want *x = c.refs; x; x = x->next) n++;
    if (n && test_below(3)) {
        for (uint32_t skip = (uint32_t)test_below(n); skip; skip--) w = w->next;
    } else {
        struct htask *t = &c.task[test_below(N_TASKS)];
        w = &t->v[test_below(t->plan.n_values)];
        if (!w->there || (!w->handle && !w->bytes) || t->plan.inner) return NULL;
    }
    w->n_takers++;
    return w;
}

static void taker_gone(struct htask *t) {
    struct want *at = t->looks_at;
    t->looks_at = NULL;
    if (at && at->foreign) ref_gone(at);
    else if (at && !--at->n_takers && test_below(2) && !c.strict) value_let_go(at);
    for (uint32_t i = 0; i < t->n_args; i++) {
        struct want *w = &c.task[t->arg[i]].v[t->value[i]];
        CHECK(w->n_takers > 0);
        if (!--w->n_takers && test_below(2) && !(c.strict && c.task[t->arg[i]].is_put))
            value_let_go(w);
    }
}

static bool can_submit(const struct htask *t, bool *never) {
    *never = false;
    for (uint32_t i = 0; i < t->n_args; i++) {
        const struct htask *a = &c.task[t->arg[i]];
        if (a->v[t->value[i]].there) continue;
        *never = *never || a->over;
        return false;
    }
    return true;
}

static void give_up(struct htask *t) { /* it cannot run, since what it takes has failed */
    t->submitted = t->over = t->failed = true;
    c.n_over++;
    c.n_submitted++;
    c.n_failed++;
    taker_gone(t);
}

static uint32_t init_of(uint32_t actor) {
    for (uint32_t i = 0; i < N_TASKS; i++)
        if (c.task[i].is_init && c.task[i].actor == actor) return i;
    CHECK(false);
    return 0;
}

static void submit(uint32_t i) {
    struct htask *t = &c.task[i];
    static const uint32_t groups[] = {5, 6, 7};
    if (t->actor && !t->is_init) t->plan.serial = c.task[init_of(t->actor)].plan.serial++;
    if (t->plan.peek) {
        struct want *w = t->looks_at = some_object();
        t->plan.peek = w ? w->id : 0;
        t->plan.peek_seed = w ? w->seed : 0;
        t->plan.peek_size = w ? w->size : 0;
    }
    /* some messages are longer than the buffer that they are usually written in */
    uint8_t plan[sizeof t->plan + 4000] = {0};
    memcpy(plan, &t->plan, sizeof t->plan);
    struct sk_guest_value args[MAX_ARGS + 1] = {
        {.kind = KIND, .bytes = {plan, test_below(4) ? sizeof t->plan : sizeof plan}}};
    struct sk_err err = {0};
    if (t->is_put) {
        struct sk_bblob *b = sk_bblob_new(KIND, (struct sk_bytes){NULL, t->plan.size[0]});
        CHECK(b);
        fill(b->data, b->len, t->v[0].seed);
        CHECK_OK(sk_book_put(c.book, b, &t->v[0].handle, NULL));
        t->v[0].there = t->submitted = t->over = true;
        c.n_over++;
        c.n_submitted++;
        return;
    }
    for (uint32_t k = 0; k < t->n_args; k++) {
        const struct want *w = &c.task[t->arg[k]].v[t->value[k]];
        args[k + 1] = (struct sk_guest_value){.handle = w->handle,
                                              .kind = KIND,
                                              .bytes = {w->bytes, w->n},
                                              .part = t->part[k],
                                              .offset = t->off[k],
                                              .length = t->len[k]};
    }
    /* tasks that wait for an object that may have to be made again must not keep others out */
    struct sk_need need = {.res.amount = {t->is_init || t->plan.peek ? 0
                                          : t->plan.pg               ? SHARE
                                          : test_below(8)            ? SK_RES_UNIT
                                                                     : SK_RES_UNIT / 2},
                           .env = t->plan.env,
                           .where = t->plan.where,
                           .group = t->plan.pg ? GROUP + t->plan.pg : 0,
                           .bundle = (int32_t)t->plan.bundle - 1,
                           .capture = t->plan.pg != 0};
    struct sk_actor_opts opts = {
        .is_async = t->plan.n_groups == 3, .n_groups = t->plan.n_groups, .groups = groups};
    struct sk_guest_task g = {.task = i + 1,
                              .actor = t->actor ? 1000 + t->actor : 0,
                              .fn = {FN},
                              .name = "f",
                              .is_init = t->is_init,
                              .n_returns = t->plan.stream ? SK_STREAMING : t->plan.n_values,
                              .need = t->actor && !t->is_init ? NULL : &need,
                              .max_retries = t->retries,
                              .opts = t->is_init ? &opts : NULL,
                              .max_task_retries = (int32_t)t->plan.n_groups,
                              .group = t->plan.group,
                              .no_wait = t->plan.group == 1,
                              .caller = t->plan.caller,
                              .args = args,
                              .n_args = t->n_args + 1};
    sk_rc rc = sk_book_submit(c.book, &g, &err);
    if (rc != SK_OK) {
        CHECK(t->actor && rc == SK_EACTOR);
        give_up(t);
        return;
    }
    t->submitted = true;
    c.n_submitted++;
}

static void take_value(struct htask *t, uint32_t k, const struct sk_guest_value *v) {
    struct want *w = &t->v[k];
    CHECK(!w->there && k < t->plan.n_values);
    CHECK(t->plan.inner != k + 1 || v->handle); /* it stays there until what is inside was met */
    w->there = true;
    w->handle = v->handle;
    if (!v->handle) {
        CHECK_MSG(v->kind == KIND && v->bytes.n == w->size, "kind %x, %zu bytes, not %u", v->kind,
                  v->bytes.n, w->size);
        CHECK(w->bytes = sk_memdup(SK_TAG_TEST, v->bytes.p, v->bytes.n));
        w->n = v->bytes.n;
    }
    if (!w->n_takers && test_below(2)) value_let_go(w);
}

static struct want *object_of(uint64_t id) {
    if (sk_id_place(id)) return ref_of(id);
    return &c.task[(id - 1) / MAX_VALUES].v[(id - 1) % MAX_VALUES];
}
static void news(uint32_t node, const struct sk_guest_news *n) {
    struct want *w = n->kind == SK_NEWS_LOST ? NULL : object_of(n->id);
    switch (n->kind) {
    case SK_NEWS_HELD:
        if (!w) { /* only a task that runs again for a lost value looks at what is gone */
            CHECK(may_be_gone() && c.n_gone < SK_COUNT(c.gone));
            c.gone[c.n_gone++] = (struct gone){node, n->id};
            break;
        }
        CHECK(!w->holder[node] && (w->n_takers || may_be_gone()));
        w->holder[node] = w->tell[node] = true;
        break;
    case SK_NEWS_UNHELD:
        if (w) w->holder[node] = w->tell[node] = false;
        break;
    case SK_NEWS_THERE:
        if (!w || w->there) { /* it was let go of meanwhile */
            if (n->value.handle) sk_book_drop(c.book, n->value.handle);
            break;
        }
        w->there = true;
        w->handle = n->value.handle;
        if (w->handle) break;
        w->failed = SK_KIND_IS_ERROR(n->value.kind);
        CHECK(!w->failed || may_be_gone());
        CHECK(w->bytes = sk_memdup(SK_TAG_TEST, n->value.bytes.p, n->value.bytes.n + 1));
        w->n = n->value.bytes.n;
        break;
    case SK_NEWS_LOST:
        for (uint32_t i = 0; i < N_TASKS; i++)
            for (uint32_t k = 0; k < MAX_VALUES; k++) c.task[i].v[k].holder[node] = false;
        for (w = c.refs; w; w = w->next) {
            w->holder[node] = false;
            if (w->place == node && !w->there) w->there = w->failed = true;
        }
        break;
    default: CHECK(false);
    }
}
/* Tells nodes the values of objects that they hold. */
static void tell_one(struct want *w) {
    for (uint32_t i = 1; w->there && i <= N_NODES; i++) {
        if (!w->tell[i] || !w->holder[i]) continue;
        w->tell[i] = false;
        struct sk_guest_value v = {.handle = w->handle, .kind = KIND, .bytes = {w->bytes, w->n}};
        if (w->failed || (!w->handle && !w->bytes))
            v = (struct sk_guest_value){.kind = SK_KIND_ENGINE_ERROR, .bytes = {"12345678", 8}};
        sk_book_there(c.book, i, w->id, &v);
    }
}
static void tell_all(void) {
    while (c.n_gone) {
        const struct gone *g = &c.gone[--c.n_gone];
        struct sk_guest_value v = {.kind = SK_KIND_ENGINE_ERROR, .bytes = {"12345678", 8}};
        sk_book_there(c.book, g->node, g->id, &v);
    }
    for (struct want *w = c.refs; w; w = w->next) tell_one(w);
    for (uint32_t i = 0; i < N_TASKS; i++)
        for (uint32_t k = 0; k < MAX_VALUES; k++) tell_one(&c.task[i].v[k]);
}

static void told(void *host, const struct sk_guest_event *ev) {
    (void)host;
    if (ev->news && ev->news->kind == SK_NEWS_GROUP) {
        uint64_t g = ev->news->id - GROUP;
        CHECK_EQ(ev->news->n, 2);
        memcpy(c.at[g], ev->news->nodes, sizeof c.at[g]);
        c.n_placed += c.at[g][0] && c.at[g][1];
        return;
    }
    if (ev->news) {
        news(ev->node, ev->news);
        return;
    }
    struct htask *t = &c.task[ev->task - 1];
    CHECK(t->submitted && !t->over);
    if (ev->kind == SK_EV_YIELDED) {
        uint64_t note;
        CHECK(t->plan.stream && ev->n_values == 1 && ev->note.n == 8);
        memcpy(&note, ev->note.p, 8);
        CHECK_EQ(note, t->v[t->n_told].seed);
        take_value(t, t->n_told++, ev->values);
    }
    if (ev->kind == SK_EV_DONE) {
        if (t->plan.stream) CHECK_EQ(t->n_told, t->plan.n_values);
        else {
            CHECK_EQ(ev->n_values, t->plan.n_values);
            for (uint32_t k = 0; k < ev->n_values; k++) take_value(t, k, &ev->values[k]);
        }
    }
    if (ev->kind == SK_EV_FAILED) {
        /* only for a reason: it was cancelled, or a node was lost and it may not run again */
        bool in_group = ev->code == SK_EGROUP || ev->code == SK_ECANCEL;
        CHECK_MSG(t->cancelled || (c.group_gone[t->plan.pg] && in_group) ||
                      (c.killed_any && t->actor) ||
                      (c.lost_any && !c.strict &&
                       (ev->code == SK_EDEAD || ev->code == SK_ELOST || ev->code == SK_EACTOR)),
                  "task %llu failed: %s", (unsigned long long)ev->task, ev->text);
        CHECK(t->cancelled || c.killed_any || c.group_gone[t->plan.pg] || t->retries >= 0 ||
              ev->code == SK_ELOST || ev->code == SK_EACTOR);
        t->failed = true;
        c.n_failed++;
    }
    if (ev->kind != SK_EV_DONE && ev->kind != SK_EV_FAILED) return;
    t->over = true;
    c.n_over++;
    taker_gone(t);
}

/* Fetches a random value that the host has, in steps of the simulation. */
static struct want *fetching;
static const struct htask *fetches; /* the task whose value it is */
static void fetch_step(void) {
    if (!fetching) {
        struct htask *t = &c.task[test_below(N_TASKS)];
        struct want *w = &t->v[t->plan.inner ? t->plan.inner - 1 : test_below(t->plan.n_values)];
        if (c.refs && !test_below(4)) w = c.refs;
        if (!w->handle) return;
        fetches = t;
        w->n_takers++; /* so that nobody lets it go */
        fetching = w;
        sk_book_fetch_begin(w->handle);
    }
    struct sk_bblob *b = NULL;
    struct sk_err err = {0};
    sk_rc rc = sk_book_fetch(c.book, fetching->handle, &b, &err);
    if (rc == SK_EAGAIN) return;
    if (rc == SK_OK) {
        uint8_t *p = sk_alloc(SK_TAG_TEST, fetching->size + 8);
        CHECK(p && b->len == fetching->size && b->kind == KIND);
        fill(p, fetching->size, fetching->seed);
        bool inner = !fetching->foreign && fetches->plan.inner == fetching - fetches->v + 1;
        CHECK(!memcmp(p, b->data, b->len - (inner ? 8 : 0)));
        if (inner) ref_found(fetches, b->data, b->len);
        sk_free(p);
        c.n_fetched++;
    } else
        CHECK_MSG(rc == SK_ELOST && c.lost_any && (!c.strict || fetching->foreign), "fetch: %s",
                  err.msg);
    sk_bblob_unref(b);
    sk_book_fetch_end(fetching->handle);
    if (fetching->foreign) ref_gone(fetching);
    else if (!--fetching->n_takers && !c.strict) value_let_go(fetching);
    fetching = NULL;
}

/* Asks all nodes to tell of themselves. The toys have nothing to tell; what counts is that each one
 * that is alive answers once, and that nobody waits for a lost one. */
static void answered(void *ctx, const struct sk_guest_told *t) {
    (void)ctx;
    CHECK(t->node && !t->silent && !t->bytes.n);
    c.n_asked++;
}
static void ask_step(void) {
    if (!c.ask) c.ask = sk_book_ask(c.book, (uint32_t)test_below(20));
    else if (sk_book_answered(c.book, c.ask)) {
        sk_book_answers(c.book, c.ask, answered, NULL);
        c.ask = 0;
    }
}

static uint32_t n_up(void) {
    uint32_t n = 0;
    for (uint32_t i = 1; i <= N_NODES; i++)
        n += c.node[i].up && !c.node[i].fenced && !c.node[i].draining;
    return n;
}

/* One random step; returns false if it found nothing to do. */
static bool step(void) {
    uint64_t r = test_below(100);
    uint32_t any = 1 + (uint32_t)test_below(N_NODES);
    if (c.node[any].up) sk_agent_step(c.node[any].agent);
    ship_all();
    tell_all();
    if (!test_below(50)) let_go_refs(false);
    if (r < 55) {
        uint32_t from = (uint32_t)test_below(N_NODES + 1), to = (uint32_t)test_below(N_NODES + 1);
        for (uint32_t k = 0; k < (N_NODES + 1) * (N_NODES + 1); k++) {
            if (from != to && deliver(from, to)) return true;
            if (++to > N_NODES) to = 0, from = (from + 1) % (N_NODES + 1);
        }
        return false;
    }
    if (r < 80) {
        uint32_t i = 1 + (uint32_t)test_below(N_NODES);
        for (uint32_t k = 0; k < N_NODES; k++, i = i % N_NODES + 1) {
            struct toy *x = &c.node[i].toy;
            if (!c.node[i].up || sk_list_empty(&x->tasks)) continue;
            uint64_t skip = test_below(4);
            struct ttask *t = NULL;
            SK_LIST_EACH (it, &x->tasks) { /* calls of an actor run in order */
                struct ttask *y = sk_container_of(it, struct ttask, link);
                bool first = true;
                if (y->actor && !y->plan.n_groups)
                    SK_LIST_EACH (jt, &x->tasks) {
                        if (jt == it) break;
                        first = first && sk_container_of(jt, struct ttask, link)->actor != y->actor;
                    }
                if (!first || t_waits(x, y)) continue;
                t = y;
                if (!skip--) break;
            }
            if (!t) continue; /* all wait for objects */
            t_step(x, t);
            sk_agent_step(c.node[i].agent);
            return true;
        }
        return false;
    }
    if (r < 90) {
        sk_book_launch(c.book);
        sk_book_tell(c.book, told, NULL);
        return false;
    }
    if (r < 93) {
        fetch_step();
        ask_step();
        return false;
    }
    if (r < 94) {
        uint32_t i = 1 + (uint32_t)test_below(N_NODES);
        struct sk_foreign *f = c.node[i].toy.server;
        if (c.node[i].up && f) f->queued(f);
        if (c.node[i].up) sk_agent_beat(c.node[i].agent);
        return false;
    }
    uint32_t i = (uint32_t)test_below(N_TASKS);
    for (uint32_t k = 0; k < N_TASKS; k++, i = (i + 1) % N_TASKS) {
        bool never;
        struct htask *t = &c.task[i];
        if (t->submitted) continue;
        if (t->actor && !t->is_init && !c.task[init_of(t->actor)].over) continue;
        if (t->actor && !t->is_init && c.task[init_of(t->actor)].failed) {
            give_up(t);
            return true;
        }
        if (can_submit(t, &never)) {
            submit(i);
            return true;
        }
        if (never) {
            give_up(t);
            return true;
        }
    }
    return false;
}

/* STRICT: what is lost can be made again: no retries are used up, and nothing is cancelled or cut
 */
enum { LOSSES = 1, HARD = 2, DRAINS = 4, STRICT = 8 };

/* Ends an actor as its owner does: when its calls are over, or, if `kills`, at any time. */
static void end_actor(bool kills) {
    uint32_t i = (uint32_t)test_below(N_TASKS), actor = c.task[i].actor;
    bool busy = false;
    if (!c.task[i].is_init || !c.task[i].submitted) return;
    for (uint32_t k = 0; k < N_TASKS; k++)
        busy = busy || (c.task[k].actor == actor && !c.task[k].over);
    if (busy && !kills) return;
    c.killed_any = c.killed_any || busy;
    sk_book_actor_end(c.book, 1000 + actor, false);
}

/* Removes a group whose tasks are over, or, if `kills`, any. */
static void end_group(uint32_t g, bool kills) {
    bool busy = false;
    for (uint32_t k = 0; k < N_TASKS; k++) { /* calls of actors that are in it, too */
        const struct htask *t = &c.task[k];
        uint32_t pg = t->actor ? c.task[init_of(t->actor)].plan.pg : t->plan.pg;
        busy = busy || (pg == g && !t->over);
    }
    if (c.group_gone[g] || (busy && !kills)) return;
    c.group_gone[g] = true;
    c.killed_any = c.killed_any || busy; /* the actors in it are not started again */
    sk_book_group_end(c.book, GROUP + g);
}

static void run_one(int how) {
    bool faults = (how & LOSSES) != 0, drains = (how & DRAINS) != 0;
    memset(&c, 0, sizeof c);
    fetching = NULL;
    c.strict = (how & STRICT) != 0;
    /* with the smaller one, tasks are evicted, and constructors with them */
    uint64_t lineage = c.strict || test_below(4) ? 1 << 20 : 20000;
    CHECK_OK(sk_book_create(&c.book, lineage, NULL));
    for (uint32_t i = 0; i <= N_NODES; i++)
        for (uint32_t k = 0; k <= N_NODES; k++) sk_list_init(&c.link[i][k]);
    program((how & HARD) != 0);
    CHECK_OK(sk_book_define(c.book, (sk_fid){FN}, "f", (struct sk_bytes){"abc", 3}, NULL));
    for (uint32_t i = 1; i <= N_ENVS; i++) sk_book_env(c.book, i, (struct sk_bytes){"envs", i});
    for (uint32_t i = 0; i < SK_COUNT(wheres); i++) sk_book_env(c.book, N_ENVS + 1 + i, wheres[i]);
    uint32_t n_started = 0, n_first = 2 + (uint32_t)test_below(3);
    while (n_started < n_first) node_start(++n_started);
    static const uint32_t ways[] = {SK_GROUP_PACK, SK_GROUP_SPREAD, SK_GROUP_STRICT_PACK};
    for (uint32_t i = 1; i <= N_GROUPS; i++) {
        struct sk_res bundles[2] = {{.amount = {SHARE}}, {.amount = {SHARE}}};
        uint32_t to[2] = {i == 1 ? N_ENVS + 3 : 0, 0}; /* any node fulfils one of its choices */
        struct sk_group_spec s = {
            .bundles = bundles, .n = 2, .strategy = ways[test_below(3)], .wheres = to};
        CHECK_OK(sk_book_group(c.book, GROUP + i, &s, NULL));
    }
    look_at_labels();
    uint64_t steps = 0, idle = 0;
    while (c.n_over < N_TASKS || fetching) {
        idle = step() ? 0 : idle + 1;
        CHECK_MSG(idle < 20000 && steps < 2000000, "the run stands still: %u of %u tasks are over",
                  c.n_over, N_TASKS);
        if (++steps % 64 == 0) CHECK(sk_book_check(c.book));
        if (!c.strict && !test_below(200))
            end_group(1 + (uint32_t)test_below(N_GROUPS), faults && !test_below(50));
        if (!test_below(20)) end_actor(!c.strict && faults && !test_below(50));
        if (!how) continue;
        uint64_t r = test_below(1500);
        uint32_t i = 1 + (uint32_t)test_below(n_started);
        if (r < 2 && n_started < N_NODES) node_start(++n_started);
        if (drains) end_drains(steps);
        if (drains && r >= 12 && r < 16 && c.node[i].up && !c.node[i].fenced &&
            !c.node[i].draining && (n_up() > 1 || n_started < N_NODES)) {
            if (n_up() == 1) node_start(++n_started);
            CHECK_OK(sk_book_drain(c.book, c.node[i].number, NULL));
            c.node[i].draining = true;
            look_at_labels();
            c.node[i].until = faults && test_below(2) ? steps + test_below(400) : UINT64_MAX;
        }
        if (!faults) continue;
        if (r >= 2 && r < 5 && c.node[i].up && !c.node[i].fenced &&
            (n_up() > 1 || n_started < N_NODES)) {
            if (n_up() == 1) node_start(++n_started);
            lose(i, test_below(2));
        }
        if (c.strict) continue;
        if (r == 5) {
            uint32_t k = 1 + (uint32_t)test_below(n_started);
            c.lost_any = true;
            if (i != k) sever(i, k);
        }
        if (r >= 6 && r < 12) {
            uint32_t k = (uint32_t)test_below(N_TASKS);
            struct htask *t = &c.task[k];
            if (t->submitted && !t->over && !t->is_init) {
                t->cancelled = true;
                c.n_cancelled++;
                sk_book_cancel(c.book, k + 1, (uint32_t)test_below(4));
            }
        }
    }
    /* the host ends, and then nothing is left */
    let_go_refs(true);
    CHECK(!c.refs);
    for (uint32_t i = 1; i <= N_GROUPS; i++) end_group(i, true);
    for (uint32_t i = 0; i < N_TASKS; i++) {
        for (uint32_t k = 0; k < MAX_VALUES; k++) value_let_go(&c.task[i].v[k]);
        if (c.task[i].is_init) sk_book_actor_end(c.book, 1000 + c.task[i].actor, SK_GUEST_KILL);
    }
    for (int quiet = 0; quiet < 3;) {
        bool any = false;
        ship_all();
        for (uint32_t i = 0; i <= N_NODES; i++)
            for (uint32_t k = 0; k <= N_NODES; k++)
                while (i != k && deliver(i, k)) any = true;
        for (uint32_t i = 1; i <= N_NODES; i++)
            if (c.node[i].up) {
                struct toy *x = &c.node[i].toy;
                SK_LIST_EACH_SAFE (it, tmp, &x->tasks) {
                    struct ttask *t = sk_container_of(it, struct ttask, link);
                    if (t_waits(x, t)) continue;
                    t_step(x, t);
                    any = true;
                }
                sk_agent_step(c.node[i].agent);
            }
        sk_book_launch(c.book);
        sk_book_tell(c.book, told, NULL);
        end_drains(0);
        tell_all();
        quiet = any ? 0 : quiet + 1;
    }
    if (c.ask) {
        CHECK(sk_book_answered(c.book, c.ask));
        ask_step();
    }
    struct sk_book_stats s = sk_book_stats(c.book);
    CHECK(sk_book_check(c.book));
    c.n_again = s.n_again;
    c.n_remade = s.n_remade;
    c.n_moved = s.n_moved;
    c.n_moved_actors = s.n_moved_actors;
    c.n_revived = s.n_revived;
    CHECK_EQ(s.n_tasks, 0);
    CHECK_EQ(s.n_values, 0);
    CHECK_EQ(s.n_kept, 0);
    CHECK_EQ(s.n_actors, 0);
    CHECK_EQ(s.n_asked, 0);
    CHECK_EQ(s.n_lent, 0);
    for (uint32_t i = 1; i <= n_started; i++) {
        struct node *n = &c.node[i];
        if (!n->up) continue;
        struct sk_agent_stats a = sk_agent_stats(n->agent);
        if (!n->fenced) {
            CHECK(!n->draining);
            CHECK_EQ(a.n_tasks, 0);
            CHECK_EQ(a.n_actors, 0);
            CHECK_EQ(a.n_values, 0);
            CHECK_EQ(a.n_lent, 0);
            CHECK_EQ(a.n_foreign, 0);
            CHECK_EQ(n->toy.objs.n, 0);
            for (uint32_t g = 1; g <= N_GROUPS; g++) CHECK_EQ(n->toy.here[g], 0);
        }
        node_free(n);
    }
    for (uint32_t i = 0; i <= N_NODES; i++)
        for (uint32_t k = 0; k <= N_NODES; k++) link_clear(i, k);
    sk_book_destroy(c.book);
}

TEST_SLOW(nodes_sim_without_faults, 120) {
    for (int i = 0; i < test_rounds(30); i++) {
        run_one(0);
        CHECK_EQ(c.n_failed, 0);
    }
}

/* What a drain promises: nothing fails for it, nothing runs twice, and no value is lost. */
TEST_SLOW(nodes_sim_with_drains, 300) {
    const uint64_t n = (uint64_t)test_rounds(75);
    uint64_t drained = 0, moved = 0, actors = 0, fetched = 0;
    for (uint64_t i = 0; i < n; i++) {
        run_one(DRAINS | (i % 2 ? HARD : 0));
        uint64_t n_init = 0, n_init_begun = 0;
        for (uint32_t k = 0; k < N_TASKS; k++) {
            const struct htask *t = &c.task[k];
            n_init += t->is_init;
            n_init_begun += t->is_init ? t->n_begun : 0;
            /* what failed was refused, see told(), or takes what a task did not give */
            CHECK(t->is_init || t->is_put || t->n_begun == 1 || (t->failed && !t->n_begun));
        }
        CHECK_EQ(c.n_again + c.n_remade, 0);
        CHECK(n_init_begun <= n_init + c.n_moved_actors);
        drained += c.n_drained;
        moved += c.n_moved;
        actors += c.n_moved_actors;
        fetched += c.n_fetched;
    }
    printf("# %llu nodes drained, %llu values and %llu actors moved, %llu values fetched\n",
           (unsigned long long)drained, (unsigned long long)moved, (unsigned long long)actors,
           (unsigned long long)fetched);
    CHECK(drained >= n && moved >= 3 * n && actors >= n / 8 && n_rooms >= n / 3);
}

/* Nodes are lost, and actors are ended when their calls are over, as those of a pool: each value is
 * right, whoever made it, and nothing fails. */
TEST_SLOW(nodes_sim_makes_all_that_is_lost_again, 300) {
    const uint64_t n = (uint64_t)test_rounds(60);
    uint64_t lost = 0, remade = 0, calls = 0, revived = 0, fetched = 0;
    for (uint64_t i = 0; i < n; i++) {
        run_one(LOSSES | STRICT | (i % 3 ? 0 : DRAINS));
        CHECK_EQ(c.n_failed, 0);
        lost += c.n_lost;
        remade += c.n_remade;
        revived += c.n_revived;
        fetched += c.n_fetched;
        for (uint32_t k = 0; k < N_TASKS; k++)
            calls += c.task[k].actor && !c.task[k].is_init && c.task[k].n_begun > 1;
    }
    printf(
        "# %llu nodes lost, %llu tasks run again for lost values, %llu calls run more than once, "
        "%llu ended actors started again, %llu values fetched\n",
        (unsigned long long)lost, (unsigned long long)remade, (unsigned long long)calls,
        (unsigned long long)revived, (unsigned long long)fetched);
    CHECK(lost >= n / 2 && remade >= n / 2 && calls >= n / 2 && revived >= n / 20 &&
          fetched >= n / 2);
}

TEST_SLOW(nodes_sim_with_lost_nodes, 300) {
    const uint64_t n = (uint64_t)test_rounds(100);
    uint64_t again = 0, remade = 0, lost = 0, fetched = 0, failed = 0, cancelled = 0, drained = 0,
             late = 0, moved = 0, met = 0, looked = 0, relayed = 0;
    for (uint64_t i = 0; i < n; i++) {
        run_one(LOSSES | (i % 2 ? HARD : 0) | (i % 3 ? DRAINS : 0));
        drained += c.n_drained;
        late += c.n_late;
        moved += c.n_moved;
        lost += c.n_lost;
        again += c.n_again;
        remade += c.n_remade;
        fetched += c.n_fetched;
        failed += c.n_failed;
        cancelled += c.n_cancelled;
        met += c.n_met;
        looked += c.n_looked;
        relayed += c.n_relayed;
    }
    printf(
        "# %llu nodes lost, %llu values fetched, %llu tasks sent again, %llu run again for lost "
        "values, %llu failed, %llu cancelled; %llu objects of nodes met, %llu objects looked at, "
        "%llu of them of nodes\n",
        (unsigned long long)lost, (unsigned long long)fetched, (unsigned long long)again,
        (unsigned long long)remade, (unsigned long long)failed, (unsigned long long)cancelled,
        (unsigned long long)met, (unsigned long long)looked, (unsigned long long)relayed);
    CHECK(lost >= n / 3 && fetched >= n / 3 && cancelled >= n / 15 && again >= n / 3 &&
          remade >= n / 3);
    printf("# %llu nodes drained, %llu not in time, %llu values moved\n",
           (unsigned long long)drained, (unsigned long long)late, (unsigned long long)moved);
    CHECK(drained >= n / 8 && late >= n / 8 && moved >= n / 3);
    CHECK(met >= n / 3 && looked >= 3 * n && relayed >= n / 3);
}
