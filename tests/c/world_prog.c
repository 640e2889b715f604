/* world_prog.c - the functions of the random programs, and the values that they must return. */
#include "base/clock.h"
#include "world.h"

#define MAGIC 0x57A7E5u

/* ---- expected values ------------------------------------------------------------------------- */

static uint64_t name_of(const struct params *p) { return mix(p->salt, p->code); }

static enum code child_code(uint64_t salt, uint32_t depth) {
    static const enum code leaf[] = {LEAF, LEAF, FAIL, FLAKY, KEEP, PUTTER},
                           more[] = {LEAF, CHILDREN, NEST, OPEN, WAITER, READER, PUTTER, FLAKY};
    uint64_t r = mix(salt, 5);
    return depth == 0 ? leaf[r % SK_COUNT(leaf)] : more[r % SK_COUNT(more)];
}

static struct params child_params(const struct params *p, uint32_t k) {
    uint64_t salt = mix(p->salt, 100 + k);
    uint32_t depth = p->depth ? p->depth - 1 : 0;
    if (p->code == GATHER)
        return (struct params){.code = LEAF, .n_ret = 1, .size = p->size, .flaky = 1, .salt = salt};
    enum code c = p->code == READER ? STREAM : child_code(salt, depth);
    return (struct params){.code = c,
                           .n_ret = c == STREAM ? 1 + (uint32_t)(salt % 4) : 1,
                           .size = p->size && (salt >> 8) % 2 ? p->size : 0,
                           .depth = depth,
                           .flaky = 1,
                           .fails = c == STREAM && (salt >> 20) % 8 == 0,
                           .salt = salt};
}

/* Chooses the arguments of a child: the first of its parent's, if it has any. */
static uint32_t child_args(const struct params *p, const uint32_t *args, uint32_t n_args,
                           uint32_t k, uint32_t *out) {
    if (!n_args || (mix(p->salt, 200 + k) & 1)) return 0;
    out[0] = args[0];
    return 1;
}

static uint32_t n_children(const struct params *p) {
    return p->code == WAITER || p->code == GATHER ? 3
           : p->code == CHILDREN                  ? 1 + (uint32_t)(p->salt % 2)
                                                  : 1;
}

struct expect expect_base(const struct params *p, const uint32_t *args, uint32_t n_args) {
    uint64_t h = name_of(p);
    for (uint32_t i = 0; i < n_args; i++) {
        if (W.objs[args[i]].x.bad) return W.objs[args[i]].x;
        h = mix(h, W.objs[args[i]].x.vid);
    }
    if (p->code == METHOD && W.tasks[W.actors[p->actor - 1].init].p.fails)
        return (struct expect){name_of(&W.tasks[W.actors[p->actor - 1].init].p), true};
    if (p->code == FAIL || (p->code == INIT && p->fails)) return (struct expect){name_of(p), true};
    if (p->code == CHILDREN || p->code == WAITER || p->code == GATHER)
        for (uint32_t k = 0; k < n_children(p); k++) {
            uint32_t a[MAX_ARGS] = {0}, n = child_args(p, args, n_args, k, a);
            struct params c = child_params(p, k);
            struct expect x = expect_return(&c, a, n, 0);
            if (x.bad) return x;
            h = mix(h, x.vid);
        }
    if (p->code == READER) {
        struct params c = child_params(p, 0);
        uint32_t a[MAX_ARGS] = {0}, n = child_args(p, args, n_args, 0, a);
        struct expect b = expect_base(&c, a, n);
        if (b.bad) return b;
        for (uint32_t i = 0; i < c.n_ret; i++) h = mix(h, expect_return(&c, a, n, i).vid);
        if (c.fails) return (struct expect){mix(name_of(&c), 1), true};
    }
    return (struct expect){h, false};
}

struct expect expect_return(const struct params *p, const uint32_t *args, uint32_t n_args,
                            uint32_t i) {
    struct expect b = expect_base(p, args, n_args);
    return b.bad ? b : (struct expect){mix(b.vid, i), false};
}

struct params random_params(enum code code, uint32_t depth) {
    uint64_t salt = mix(rnd(UINT64_MAX), 3);
    return (struct params){
        .code = code,
        .n_ret = code == STREAM                                   ? 1 + (uint32_t)rnd(5)
                 : code == LEAF || code == PASS || code == PUTTER ? (uint32_t)rnd(MAX_RETURNS + 1)
                                                                  : 1,
        .size = code == GATHER ? 9000 + 8 * (uint32_t)rnd(W.f->max_size / 8)
                : W.f->big && rnd(3) == 0
                    ? 9000 + 8 * (uint32_t)rnd(W.f->max_size ? W.f->max_size / 8 : 4000)
                    : 0,
        .depth = depth,
        .flaky = 1 + (uint32_t)rnd(2),
        .fails = code == STREAM && rnd(8) == 0,
        .salt = salt};
}

enum code random_code(uint32_t depth) {
    static const enum code any[] = {LEAF, LEAF,     LEAF, FAIL, FLAKY,  PUTTER, PASS,
                                    KEEP, CHILDREN, NEST, OPEN, READER, WAITER, ACTOR_USER};
    enum code c = any[rnd(depth ? SK_COUNT(any) : 8)];
    if (W.f->gather && depth && rnd(3) == 0) return GATHER;
    if (c == ACTOR_USER && !W.f->actors) return CHILDREN;
    return c == READER && !W.f->streams ? LEAF : c;
}

/* ---- making objects -------------------------------------------------------------------------- */

/* Makes a value; a large one is made in store memory. */
static sk_rc build(struct sk_engine *e, struct expect x, uint32_t size, uint32_t attempt,
                   uint32_t task, const uint32_t *inner, uint32_t n_inner, struct sk_buf *buf,
                   uint8_t *small, sk_oid *contains, struct sk_payload *p, struct sk_err *err) {
    struct value h = {.magic = MAGIC,
                      .n_inner = n_inner,
                      .vid = x.vid,
                      .len = sizeof h + size,
                      .attempt = attempt,
                      .task = task};
    for (uint32_t k = 0; k < n_inner; k++) {
        const struct wobj *o = &W.objs[inner[k]];
        h.inner[k] = (struct inner){o->oid, o->x.vid, o->x.bad};
        contains[k] = (sk_oid){o->oid};
    }
    *p = (struct sk_payload){.kind = KIND_VALUE, .contains = contains, .n_contains = n_inner};
    uint8_t *b = small;
    if (size) {
        SK_TRY(e->ops->buf_alloc(e, (size_t)h.len, buf, err));
        b = buf->data;
        p->buf = buf;
        p->buf_len = (size_t)h.len;
    } else {
        p->bytes = (struct sk_bytes){small, (size_t)h.len};
    }
    memcpy(b, &h, sizeof h);
    for (size_t k = sizeof h; k < h.len; k += 8) {
        uint64_t w = word_of(h.vid, k);
        memcpy(b + k, &w, 8);
    }
    return SK_OK;
}

sk_rc world_put(struct sk_engine *e, uint64_t salt, uint32_t size, const uint32_t *inner,
                uint32_t n_inner, uint32_t *obj, struct sk_err *err) {
    struct sk_buf buf;
    uint8_t small[sizeof(struct value)];
    sk_oid contains[MAX_INNER], o;
    struct sk_payload p;
    struct expect x = {salt, false};
    SK_TRY(build(e, x, size, 0, 0, inner, n_inner, &buf, small, contains, &p, err));
    SK_TRY(e->ops->put(e, &p, &o, err));
    *obj = obj_new(o.v, x, 0);
    for (uint32_t k = 0; k < n_inner; k++) W.objs[*obj].inner[k] = inner[k] + 1;
    W.objs[*obj].n_inner = n_inner;
    return SK_OK;
}

sk_rc world_submit(struct sk_engine *e, const struct params *p, const uint32_t *args,
                   uint32_t n_args, uint32_t parent, uint32_t actor, struct sk_sink *sink,
                   uint32_t *task, uint32_t *first, struct sk_err *err) {
    static const int32_t some[] = {0, 1, 3, 3, 3, 10, -1, -1};
    int32_t retries = actor              ? (int32_t)(p->salt % 3)
                      : p->code == FLAKY ? 6
                                         : some[p->salt % SK_COUNT(some)];
    uint32_t k = task_new(p, args, n_args, parent, retries);
    W.tasks[k].actor = actor;
    W.tasks[k].group = parent || actor ? 0 : W.in_group;
    struct params q = W.tasks[k].p;
    struct sk_arg a[1 + MAX_ARGS] = {{.kind = 1, .bytes = {&q, sizeof q}}};
    for (uint32_t i = 0; i < n_args; i++) a[1 + i] = (struct sk_arg){.ref = {W.objs[args[i]].oid}};
    bool stream = p->code == STREAM;
    struct sk_task_opts opts = {.stream_window = stream && !sink ? (uint32_t)(p->salt % 3) : 0};
    struct sk_task_spec s = {.fn = {1000 + p->code},
                             .args = a,
                             .n_args = 1 + n_args,
                             .n_returns = stream ? SK_STREAMING : p->n_ret,
                             .actor = {actor ? W.actors[actor - 1].aid : 0},
                             .shape = W.tasks[k].group ? W.groups[W.tasks[k].group - 1].one : 0,
                             .max_retries = retries,
                             .retry_exceptions = p->code == FLAKY,
                             /* a preferred node, which may not exist */
                             .node = p->salt % 5 == 0 ? (uint32_t)(p->salt % 7) : 0,
                             .node_only = p->salt % 7 == 1,
                             .sink = sink,
                             .sink_tag = k,
                             .opts = &opts};
    sk_oid f = {0};
    sk_tid tid = {0};
    /* Registers the objects before the submit: ids are given in order, so a worker that runs the
     * task at once finds the entries. */
    sk_rc rc = e->ops->submit(e, &s, &f, &tid, err);
    if (rc != SK_OK) return rc;
    task_named(k, tid.v);
    if (W.trace) {
        fprintf(stderr,
                "submitted: task %llx, code %u, returns %u, retries %d, by task %u, arguments",
                (unsigned long long)tid.v, p->code, p->n_ret, retries, parent);
        for (uint32_t i = 0; i < n_args; i++)
            fprintf(stderr, " %llx", (unsigned long long)W.objs[args[i]].oid);
        fprintf(stderr, "\n");
    }
    *task = k;
    *first = W.n_objs;
    for (uint32_t i = 0; !stream && i < p->n_ret; i++) {
        uint32_t at;
        MUST(!obj_known(f.v + i, &at), "object %llx exists already", (unsigned long long)f.v + i);
        (void)obj_new(f.v + i, expect_return(p, args, n_args, i), k + 1);
    }
    return SK_OK;
}

sk_rc world_actor(struct sk_engine *e, uint32_t parent, uint64_t salt, uint32_t fails,
                  uint32_t *actor, struct sk_err *err) {
    struct params p = {.code = INIT, .n_ret = 1, .salt = salt, .fails = fails};
    uint32_t at = W.n_actors;
    if (at == W.cap_actors) {
        W.cap_actors = W.cap_actors ? 2 * W.cap_actors : 64;
        W.actors = realloc(W.actors, W.cap_actors * sizeof *W.actors);
        if (!W.actors) abort();
    }
    p.actor = at + 1;
    uint32_t k = task_new(&p, NULL, 0, parent, 0);
    W.tasks[k].actor = at + 1;
    W.tasks[k].group = parent ? 0 : W.in_group;
    W.actors[at] = (struct wactor){.init = k, .restarts = (int32_t)(salt % 4) - 1};
    W.n_actors++;
    struct params q = W.tasks[k].p;
    struct sk_arg a = {.kind = 1, .bytes = {&q, sizeof q}};
    struct sk_actor_spec s = {.init = {.fn = {1000 + INIT}, .args = &a, .n_args = 1, .shape = 1},
                              .max_restarts = W.actors[at].restarts,
                              .max_task_retries = (int32_t)(salt >> 8) % 3};
    if (W.tasks[k].group) s.init.shape = W.groups[W.tasks[k].group - 1].none;
    else if (!parent && at == 0 && W.f->cpus > 1 && !W.f->groups)
        /* one actor at most, since actors hold their CPU and other tasks must be able to run */
        s.init.shape = 0;
    sk_aid aid;
    sk_oid ready;
    SK_TRY(e->ops->actor_create(e, &s, &aid, &ready, err));
    W.actors[at].aid = aid.v;
    W.actors[at].ready = ready.v;
    task_named(k, ready.v - 1); /* as wire.h says */
    (void)obj_new(ready.v, expect_return(&p, NULL, 0, 0), k + 1);
    *actor = at + 1;
    return SK_OK;
}

/* ---- running --------------------------------------------------------------------------------- */

struct run {
    struct sk_task *t;
    struct sk_engine *e;
    struct params p;
    uint32_t args[MAX_ARGS], n_args; /* objects */
};

static sk_rc ret(struct run *r, uint32_t i, struct expect x, const uint32_t *inner,
                 uint32_t n_inner, struct sk_err *err) {
    struct sk_buf buf;
    uint8_t small[sizeof(struct value)];
    sk_oid contains[MAX_INNER];
    struct sk_payload p;
    SK_TRY(build(r->e, x, r->p.size, r->t->attempt, r->p.task, inner, n_inner, &buf, small,
                 contains, &p, err));
    return sk_task_return(r->t, i, &p, err);
}

static sk_rc ret_all(struct run *r, const uint32_t *inner, uint32_t n_inner, struct sk_err *err) {
    for (uint32_t i = 0; i < r->p.n_ret; i++)
        SK_TRY(ret(r, i, expect_return(&r->p, r->args, r->n_args, i), inner, n_inner, err));
    return SK_OK;
}

static sk_rc task_fail(struct run *r, const struct sk_payload *p, struct sk_err *err) {
    W.tasks[r->p.task].n_raised++;
    return sk_task_fail(r->t, p, err);
}

static sk_rc fail_with(struct run *r, uint64_t magic, uint64_t vid, struct sk_err *err) {
    struct user_error u = {magic, vid};
    struct sk_payload p = {.kind = KIND_USER_ERROR, .bytes = {&u, sizeof u}};
    return task_fail(r, &p, err);
}

/* Gets and checks the value of object i; if it is an error, this task ends with that error. */
enum got { GOT, FAILED, BROKEN };
static enum got take(struct run *r, uint32_t i, struct sk_err *err) {
    sk_oid o = {W.objs[i].oid};
    struct sk_view v;
    struct sk_err e = {0};
    sk_rc rc = r->e->ops->get(r->e, &o, 1, INT64_MAX, &v, &e);
    if (rc != SK_OK) {
        check_rc(rc, &e, i);
        *err = e;
        return BROKEN;
    }
    bool ok = check_view(&v, i);
    if (!ok) {
        struct sk_payload p = {.kind = v.kind, .bytes = {v.data, v.len}};
        MUST(task_fail(r, &p, err) == SK_OK, "fail: %s", err->msg);
    }
    r->e->ops->view_release(r->e, &v);
    return ok ? GOT : FAILED;
}

static void let_go(struct run *r, uint32_t i) { r->e->ops->release(r->e, (sk_oid){W.objs[i].oid}); }

static sk_rc children(struct run *r, struct sk_err *err) {
    uint32_t n = n_children(&r->p), made = 0, task, first[4];
    sk_rc rc = SK_OK;
    enum got g = GOT;
    for (; made < n && rc == SK_OK; made += rc == SK_OK) {
        uint32_t a[MAX_ARGS] = {0}, na = child_args(&r->p, r->args, r->n_args, made, a);
        struct params c = child_params(&r->p, made);
        rc = world_submit(r->e, &c, a, na, r->p.task + 1, 0, NULL, &task, &first[made], err);
    }
    if (rc == SK_OK && r->p.code == WAITER) {
        sk_oid ids[4];
        bool ready[4];
        for (uint32_t i = 0; i < n; i++) ids[i].v = W.objs[first[i]].oid;
        sk_rc w = r->e->ops->wait(r->e, ids, n, 1 + r->p.salt % n,
                                  sk_deadline_ns((int64_t)(r->p.salt % 5) * 1000000), ready, err);
        MUST(w == SK_OK || w == SK_ETIMEOUT, "wait: %s", err->msg);
    }
    for (uint32_t i = 0; i < made && rc == SK_OK && g == GOT; i++) g = take(r, first[i], err);
    for (uint32_t i = 0; i < made; i++) let_go(r, first[i]);
    if (rc != SK_OK || g == BROKEN) return rc != SK_OK ? rc : err->code;
    return g == FAILED ? SK_OK : ret_all(r, NULL, 0, err);
}

/* Gets all values with one get and holds them for a while, so that several tasks compete for the
 * same room. */
static sk_rc gather(struct run *r, struct sk_err *err) {
    uint32_t n = n_children(&r->p), made = 0, task, first[4];
    sk_oid ids[4];
    struct sk_view v[4];
    bool good = true;
    sk_rc rc = SK_OK;
    for (; made < n && rc == SK_OK; made += rc == SK_OK) {
        uint32_t a[MAX_ARGS] = {0}, na = child_args(&r->p, r->args, r->n_args, made, a);
        struct params c = child_params(&r->p, made);
        rc = world_submit(r->e, &c, a, na, r->p.task + 1, 0, NULL, &task, &first[made], err);
    }
    for (uint32_t i = 0; i < made; i++) ids[i].v = W.objs[first[i]].oid;
    if (rc == SK_OK) {
        struct sk_err e = {0};
        rc = r->e->ops->get(r->e, ids, n, INT64_MAX, v, &e);
        for (uint32_t i = 0; rc != SK_OK && i < n; i++) check_rc(rc, &e, first[i]);
        if (rc != SK_OK) *err = e;
        if (rc == SK_OK && r->p.salt >> 5 & 1) sk_sim_nap(1 + (int64_t)(r->p.salt % 3000000));
        for (uint32_t i = 0; rc == SK_OK && i < n; i++) {
            if (good && !check_view(&v[i], first[i])) {
                struct sk_payload p = {.kind = v[i].kind, .bytes = {v[i].data, v[i].len}};
                MUST(task_fail(r, &p, err) == SK_OK, "fail: %s", err->msg);
                good = false;
            }
            r->e->ops->view_release(r->e, &v[i]);
        }
    }
    for (uint32_t i = 0; i < made; i++) let_go(r, first[i]);
    return rc != SK_OK || !good ? rc : ret_all(r, NULL, 0, err);
}

static sk_rc nest(struct run *r, struct sk_err *err) {
    uint32_t task, first, a[MAX_ARGS] = {0}, na = child_args(&r->p, r->args, r->n_args, 0, a);
    struct params c = child_params(&r->p, 0);
    SK_TRY(world_submit(r->e, &c, a, na, r->p.task + 1, 0, NULL, &task, &first, err));
    sk_rc rc = ret_all(r, &first, 1, err);
    let_go(r, first);
    return rc;
}

static sk_rc open_args(struct run *r, struct sk_err *err) {
    for (uint32_t i = 0; i < r->n_args; i++) {
        /* as this task got it: another attempt of its maker may have other references inside */
        struct value h;
        memcpy(&h, r->t->args[1 + i].data, sizeof h);
        for (uint32_t k = 0; k < h.n_inner; k++) {
            uint32_t in = obj_of(h.inner[k].oid);
            sk_oid o = {W.objs[in].oid};
            struct sk_view v;
            r->e->ops->retain(r->e, o);
            sk_rc rc = r->e->ops->get(r->e, &o, 1, INT64_MAX, &v, err);
            if (rc == SK_OK) {
                (void)check_view(&v, in); /* an error inside is no error of this task */
                r->e->ops->view_release(r->e, &v);
            } else {
                check_rc(rc, err, in);
            }
            r->e->ops->release(r->e, o);
        }
    }
    return ret_all(r, NULL, 0, err);
}

static sk_rc putter(struct run *r, struct sk_err *err) {
    uint32_t in[MAX_INNER], n = 0, put;
    for (uint32_t i = 0; i < r->n_args; i++) in[n++] = r->args[i];
    SK_TRY(world_put(r->e, mix(r->p.salt, 77), r->p.size, in, n, &put, err));
    W.objs[put].by = r->p.task + 1;
    sk_rc rc = SK_OK;
    if (r->p.salt >> 9 & 1) {
        enum got g = take(r, put, err);
        if (g != GOT) {
            let_go(r, put);
            return g == BROKEN ? err->code : SK_OK;
        }
    }
    in[n++] = put;
    rc = ret_all(r, in, n, err);
    let_go(r, put);
    return rc;
}

static sk_rc keeper(struct run *r, struct sk_err *err) {
    struct sk_view kept[MAX_ARGS];
    for (uint32_t i = 0; i < r->n_args; i++) kept[i] = sk_task_keep_arg(r->t, 1 + i);
    sk_sim_nap(1 + (int64_t)(r->p.salt % 3000000));
    for (uint32_t i = 0; i < r->n_args; i++) {
        kept[i].oid.v = W.objs[r->args[i]].oid;
        (void)check_view(&kept[i], r->args[i]);
        r->e->ops->view_release(r->e, &kept[i]);
    }
    return ret_all(r, NULL, 0, err);
}

static sk_rc stream(struct run *r, struct sk_err *err) {
    for (uint32_t i = 0; i < r->p.n_ret; i++) {
        struct sk_buf buf;
        uint8_t small[sizeof(struct value)];
        sk_oid contains[MAX_INNER];
        struct sk_payload p;
        struct expect x = expect_return(&r->p, r->args, r->n_args, i);
        SK_TRY(build(r->e, x, r->p.size, 0, r->p.task, r->args, i == 0 ? r->n_args : 0, &buf, small,
                     contains, &p, err));
        p.note = (struct sk_bytes){&x.vid, 8};
        SK_TRY(sk_task_yield(r->t, &p, err));
        if (r->p.salt >> 7 & 1) sk_sim_nap(1 + (int64_t)(r->p.salt % 500000));
    }
    return r->p.fails ? fail_with(r, MAGIC, mix(name_of(&r->p), 1), err) : SK_OK;
}

static sk_rc reader(struct run *r, struct sk_err *err) {
    uint32_t task, first, a[MAX_ARGS] = {0}, na = child_args(&r->p, r->args, r->n_args, 0, a);
    struct params c = child_params(&r->p, 0);
    SK_TRY(world_submit(r->e, &c, a, na, r->p.task + 1, 0, NULL, &task, &first, err));
    sk_tid tid = {W.tasks[task].tid};
    enum got g = GOT;
    for (uint32_t i = 0; g == GOT; i++) {
        sk_oid o = {0};
        struct sk_err e = {0};
        sk_rc rc = r->e->streams->next(r->e, tid, INT64_MAX, &o, &e);
        if (rc == SK_EDONE) {
            MUST(i == c.n_ret, "a stream of %u values ended after %u", c.n_ret, i);
            break;
        }
        MUST(rc == SK_OK || rc == SK_ETASK, "stream_next: %s %s", sk_rc_name(rc), e.msg);
        uint32_t at;
        struct expect b = expect_base(&c, a, na);
        struct expect x = rc == SK_ETASK
                              ? (b.bad ? b : (struct expect){mix(name_of(&c), 1), c.fails})
                              : expect_return(&c, a, na, i);
        MUST(rc == SK_ETASK || i < c.n_ret, "a stream of %u values gives more", c.n_ret);
        if (!obj_known(o.v, &at)) at = obj_new(o.v, x, task + 1);
        g = take(r, at, err);
        MUST(rc == SK_OK || g != GOT, "the error of a stream is a value");
        let_go(r, at);
    }
    r->e->streams->drop(r->e, tid);
    if (g == BROKEN) return err->code;
    return g == FAILED ? SK_OK : ret_all(r, NULL, 0, err);
}

static sk_rc actor_user(struct run *r, struct sk_err *err) {
    uint32_t actor, task, first[3], n = 1 + (uint32_t)(r->p.salt % 3), made = 0;
    SK_TRY(world_actor(r->e, r->p.task + 1, mix(r->p.salt, 31), 0, &actor, err));
    enum got g = GOT;
    sk_rc rc = SK_OK;
    for (; made < n && rc == SK_OK; made += rc == SK_OK) {
        struct params c = {.code = METHOD,
                           .n_ret = 1,
                           .salt = mix(r->p.salt, 40 + made),
                           .actor = actor,
                           .seq = ++W.actors[actor - 1].next_seq};
        rc = world_submit(r->e, &c, r->args, r->n_args ? 1 : 0, r->p.task + 1, actor, NULL, &task,
                          &first[made], err);
    }
    for (uint32_t i = 0; i < made && rc == SK_OK && g == GOT; i++) g = take(r, first[i], err);
    for (uint32_t i = 0; i < made; i++) let_go(r, first[i]);
    r->e->ops->release(r->e, (sk_oid){W.actors[actor - 1].ready});
    sk_actor_release(r->e, (sk_aid){W.actors[actor - 1].aid});
    if (rc != SK_OK || g == BROKEN) return rc != SK_OK ? rc : err->code;
    return g == FAILED ? SK_OK : ret_all(r, NULL, 0, err);
}

static sk_rc init(struct run *r, struct sk_err *err) {
    struct wactor *a = &W.actors[r->p.actor - 1];
    a->home = r->e;
    a->last_seq = 0;
    a->n_begun++;
    if (r->p.fails) return fail_with(r, MAGIC, name_of(&r->p), err);
    return ret_all(r, NULL, 0, err);
}

static sk_rc method(struct run *r, struct sk_err *err) {
    struct wactor *a = &W.actors[r->p.actor - 1];
    MUST(a->home == r->e, "a call of an actor runs in a process that has no such actor");
    MUST(r->p.seq > a->last_seq, "call %u of an actor after call %u", r->p.seq, a->last_seq);
    a->last_seq = r->p.seq;
    return ret_all(r, NULL, 0, err);
}

static sk_rc run(void *ctx, struct sk_task *t, struct sk_err *err) {
    (void)ctx;
    struct run r = {.t = t, .e = t->engine};
    MUST(t->n_args >= 1 && t->args[0].len == sizeof r.p, "a task without its parameters");
    memcpy(&r.p, t->args[0].data, sizeof r.p);
    MUST(t->fn.v == 1000 + r.p.code, "task %u runs function %llu", r.p.task,
         (unsigned long long)t->fn.v);
    struct wtask *k = &W.tasks[r.p.task];
    if (W.trace)
        fprintf(stderr, "begun: task %llx (%u), attempt %u, code %u\n", (unsigned long long)t->id.v,
                r.p.task, t->attempt, r.p.code);
    MUST(t->n_args == 1 + k->n_args, "task %u has %u arguments, not %u", r.p.task, t->n_args,
         1 + k->n_args);
    MUST(!k->n_started || t->attempt > k->last_attempt,
         "task %u begins attempt %u after attempt %u", r.p.task, t->attempt, k->last_attempt);
    k->n_started++;
    k->last_attempt = t->attempt;
    task_named(r.p.task, t->id.v); /* its submitter may not have returned from the call yet */
    r.n_args = k->n_args;
    for (uint32_t i = 0; i < r.n_args; i++) {
        r.args[i] = k->args[i];
        MUST(t->args[1 + i].oid.v == W.objs[r.args[i]].oid,
             "task %u: argument %u is another object", r.p.task, i);
        MUST(check_view(&t->args[1 + i], r.args[i]),
             "task %u was begun although its argument %u is an error", r.p.task, i);
    }
    if (r.p.salt >> 3 & 1) sk_sim_nap(1 + (int64_t)(mix(r.p.salt, t->attempt) % 4000000));
    /* arguments must not change while the task runs */
    for (uint32_t i = 0; i < r.n_args; i++) (void)check_view(&t->args[1 + i], r.args[i]);
    switch ((enum code)r.p.code) {
    case FAIL: return fail_with(&r, MAGIC, name_of(&r.p), err);
    case FLAKY:
        return t->attempt < r.p.flaky ? fail_with(&r, MAGIC + 1, 0, err)
                                      : ret_all(&r, NULL, 0, err);
    case CHILDREN:
    case WAITER: return children(&r, err);
    case GATHER: return gather(&r, err);
    case NEST: return nest(&r, err);
    case OPEN: return open_args(&r, err);
    case PUTTER: return putter(&r, err);
    case PASS: return ret_all(&r, r.args, r.n_args, err);
    case KEEP: return keeper(&r, err);
    case STREAM: return stream(&r, err);
    case READER: return reader(&r, err);
    case ACTOR_USER: return actor_user(&r, err);
    case INIT: return init(&r, err);
    case METHOD: return method(&r, err);
    case LEAF:
    case N_CODES: break;
    }
    return ret_all(&r, NULL, 0, err);
}

static sk_rc define(void *ctx, sk_fid fn, const char *name, struct sk_bytes def,
                    struct sk_err *err) {
    (void)ctx, (void)name;
    uint64_t v = 0;
    if (def.n == 8) memcpy(&v, def.p, 8);
    return v == fn.v ? SK_OK
                     : SK_ERR(err, SK_EINVAL, "definition of %llu did not arrive whole",
                              (unsigned long long)fn.v);
}

struct sk_runner world_runner = {.define = define, .run = run};

void world_define(struct sk_engine *e) {
    for (uint64_t c = 1000; c < 1000 + N_CODES; c++)
        CHECK_OK(e->ops->define(e, (sk_fid){c}, "f", (struct sk_bytes){&c, 8}, NULL));
}
