/* msg.c - messages of a cluster as bytes, and back. Pure. */
#include "engine/cluster/msg.h"
#include "engine/cluster/which/where.h"

#include <stdio.h>

#include "base/crc32c.h"
#include "base/mem.h"

static void bytes(struct sk_wr *w, struct sk_bytes b) { sk_wr_bytes(w, b.p, b.n); }

static void res(struct sk_wr *w, const struct sk_res *r) {
    for (int i = 0; i < SK_RES_MAX; i++) sk_wr_i64(w, r->amount[i]);
}
static struct sk_res read_res(struct sk_rd *r) {
    struct sk_res out;
    for (int i = 0; i < SK_RES_MAX; i++) {
        int64_t n = out.amount[i] = sk_rd_i64(r);
        r->bad = r->bad || n < -SK_CMSG_RES_MAX || n > SK_CMSG_RES_MAX;
    }
    return out;
}

void sk_cmsg_arg_put(struct sk_wr *w, const struct sk_cmsg_arg *a) {
    sk_wr_u64(w, a->id);
    sk_wr_u32(w, a->node);
    sk_wr_u32(w, a->kind);
    sk_wr_u32(w, a->part);
    if (a->part) {
        sk_wr_u64(w, a->offset);
        sk_wr_u64(w, a->length);
    }
    if (!a->id) bytes(w, a->bytes);
    sk_wr_align(w, 8);
}

struct sk_cmsg_arg sk_cmsg_arg_next(struct sk_rd *r) {
    struct sk_cmsg_arg a = {.id = sk_rd_u64(r), .node = sk_rd_u32(r), .kind = sk_rd_u32(r)};
    a.part = sk_rd_u32(r) != 0;
    if (a.part) {
        a.offset = sk_rd_u64(r);
        a.length = sk_rd_u64(r);
    }
    if (!a.id) a.bytes = sk_rd_bytes(r);
    sk_rd_align(r, 8);
    return a;
}

void *sk_cmsg_call(const struct sk_task_spec *s, uint64_t first, const struct sk_foreign_need *need,
                   struct sk_cmsg *out) {
    const struct sk_task_opts *o = sk_task_opts_of(s);
    struct sk_wr w = sk_wr_init(NULL, 0);
    void *p = NULL;
    for (int round = 0; round < 2; round++) {
        for (uint32_t i = 0; i < s->n_args; i++) {
            struct sk_cmsg_arg a = {
                .id = s->args[i].ref.v, .kind = s->args[i].kind, .bytes = s->args[i].bytes};
            sk_cmsg_arg_put(&w, &a);
        }
        if (round) break;
        if (!(p = sk_calloc(SK_TAG_ENGINE, w.n))) return NULL;
        w = sk_wr_init(p, w.n);
    }
    SK_DCHECK(!need == (s->actor.v != 0));
    *out = (struct sk_cmsg){.type = SK_CMSG_CALL,
                            .call = {.actor = s->actor.v,
                                     .first = first,
                                     .fn = s->fn.v,
                                     .caller = o->caller,
                                     .known = o->known_task,
                                     .n_returns = s->n_returns,
                                     .flags = (s->retry_exceptions ? SK_RUN_RETRY_ERRORS : 0u) |
                                              (o->no_wait ? SK_RUN_NO_WAIT : 0u),
                                     .group = o->group,
                                     .window = o->stream_window,
                                     .max_retries = s->max_retries,
                                     .name = sk_text(s->name),
                                     .n_args = s->n_args,
                                     .args = {p, w.n},
                                     .n_contains = s->n_contains,
                                     .contains = {s->contains, 8 * (size_t)s->n_contains}}};
    if (need) {
        out->call.max_calls = o->max_calls;
        out->call.need = *need;
    }
    return p;
}

void sk_cmsg_call_spec(const struct sk_cmsg *m, struct sk_arg *args, struct sk_task_opts *opts,
                       struct sk_task_spec *out) {
    struct sk_rd r = sk_rd_init(m->call.args.p, m->call.args.n);
    for (uint32_t i = 0; i < m->call.n_args; i++) {
        struct sk_cmsg_arg a = sk_cmsg_arg_next(&r);
        args[i] = (struct sk_arg){.ref = {a.id}, .kind = a.kind, .bytes = a.bytes};
    }
    SK_DCHECK(m->type == SK_CMSG_CALL && !r.bad);
    *opts = (struct sk_task_opts){.group = m->call.group,
                                  .caller = m->call.caller,
                                  .known_task = m->call.known,
                                  .max_calls = m->call.max_calls,
                                  .stream_window = m->call.window,
                                  .no_wait = (m->call.flags & SK_RUN_NO_WAIT) != 0};
    *out = (struct sk_task_spec){.fn = {m->call.fn},
                                 .args = args,
                                 .n_args = m->call.n_args,
                                 .n_contains = m->call.n_contains,
                                 .n_returns = m->call.n_returns,
                                 .actor = {m->call.actor},
                                 .max_retries = m->call.max_retries,
                                 .retry_exceptions = (m->call.flags & SK_RUN_RETRY_ERRORS) != 0,
                                 .opts = opts};
}

struct sk_bytes sk_cmsg_error(uint8_t *room, sk_rc code, const char *text) {
    int32_t c = code;
    memcpy(room, &c, 4);
    snprintf((char *)room + 4, SK_CMSG_ERROR - 4, "%s", text);
    return (struct sk_bytes){room, 4 + strlen((char *)room + 4) + 1};
}

void sk_cmsg_value_put(struct sk_wr *w, const struct sk_cmsg_value *v) {
    sk_wr_u64(w, v->id);
    sk_wr_u64(w, v->size);
    sk_wr_u32(w, (v->here ? 1u : 0u) | (v->stays ? 2u : 0u));
    sk_wr_u32(w, v->kind);
    if (v->here) bytes(w, v->bytes);
    sk_wr_align(w, 8);
}

struct sk_cmsg_value sk_cmsg_value_next(struct sk_rd *r) {
    struct sk_cmsg_value v = {.id = sk_rd_u64(r), .size = sk_rd_u64(r)};
    uint32_t flags = sk_rd_u32(r);
    v.here = flags & 1;
    v.stays = flags & 2;
    v.kind = sk_rd_u32(r);
    if (v.here) v.bytes = sk_rd_bytes(r);
    sk_rd_align(r, 8);
    return v;
}

static void write_run(struct sk_wr *w, const struct sk_cmsg *m) {
    sk_wr_u64(w, m->run.task);
    sk_wr_u64(w, m->run.fn);
    sk_wr_u64(w, m->run.actor);
    sk_wr_u64(w, m->run.known);
    sk_wr_u64(w, m->run.host);
    sk_wr_u32(w, m->run.attempt);
    sk_wr_u32(w, m->run.flags);
    sk_wr_u32(w, m->run.n_returns);
    sk_wr_u32(w, (uint32_t)m->run.max_retries);
    sk_wr_u32(w, m->run.max_calls);
    sk_wr_u32(w, m->run.window);
    sk_wr_u32(w, m->run.taken);
    sk_wr_u32(w, m->run.n_args);
    sk_wr_u32(w, m->run.group);
    sk_wr_u32(w, m->run.env);
    sk_wr_u32(w, (uint32_t)m->run.max_task_retries);
    res(w, &m->run.need);
    sk_wr_u64(w, m->run.pg);
    sk_wr_u32(w, m->run.bundle);
    sk_wr_u32(w, m->run.capture);
    bytes(w, m->run.groups);
    bytes(w, m->run.name);
    sk_wr_align(w, 8);
    bytes(w, m->run.args);
}

static void read_run(struct sk_rd *r, struct sk_cmsg *m) {
    m->run.task = sk_rd_u64(r);
    m->run.fn = sk_rd_u64(r);
    m->run.actor = sk_rd_u64(r);
    m->run.known = sk_rd_u64(r);
    m->run.host = sk_rd_u64(r);
    m->run.attempt = sk_rd_u32(r);
    m->run.flags = sk_rd_u32(r);
    m->run.n_returns = sk_rd_u32(r);
    m->run.max_retries = (int32_t)sk_rd_u32(r);
    m->run.max_calls = sk_rd_u32(r);
    m->run.window = sk_rd_u32(r);
    m->run.taken = sk_rd_u32(r);
    m->run.n_args = sk_rd_u32(r);
    m->run.group = sk_rd_u32(r);
    m->run.env = sk_rd_u32(r);
    m->run.max_task_retries = (int32_t)sk_rd_u32(r);
    m->run.need = read_res(r);
    m->run.pg = sk_rd_u64(r);
    m->run.bundle = sk_rd_u32(r);
    m->run.capture = sk_rd_u32(r);
    m->run.groups = sk_rd_bytes(r);
    m->run.name = sk_rd_bytes(r);
    sk_rd_align(r, 8);
    m->run.args = sk_rd_bytes(r);
    struct sk_rd a = sk_rd_init(m->run.args.p, m->run.args.n);
    for (uint32_t i = 0; i < m->run.n_args && !a.bad; i++) (void)sk_cmsg_arg_next(&a);
    r->bad = r->bad || a.bad || !sk_rd_end(&a) || m->run.groups.n % 4 ||
             m->run.groups.n > 4 * (size_t)SK_GROUPS_MAX ||
             (m->run.n_returns > SK_MAX_RETURNS && m->run.n_returns != SK_STREAMING);
}

static void write_there(struct sk_wr *w, const struct sk_cmsg *m) {
    sk_wr_u64(w, m->there.name);
    sk_wr_u64(w, m->there.size);
    sk_wr_u32(w, (m->there.here ? 1u : 0u) | (m->there.stays ? 2u : 0u));
    sk_wr_u32(w, m->there.node);
    sk_wr_u64(w, m->there.value);
    sk_wr_u32(w, m->there.kind);
    bytes(w, m->there.bytes);
}

static void read_there(struct sk_rd *r, struct sk_cmsg *m) {
    m->there.name = sk_rd_u64(r);
    m->there.size = sk_rd_u64(r);
    uint32_t flags = sk_rd_u32(r);
    m->there.here = flags & 1;
    m->there.stays = flags & 2;
    m->there.node = sk_rd_u32(r);
    m->there.value = sk_rd_u64(r);
    m->there.kind = sk_rd_u32(r);
    m->there.bytes = sk_rd_bytes(r);
}

static void write_yield(struct sk_wr *w, const struct sk_cmsg *m) {
    SK_DCHECK(m->yield.first && m->yield.id);
    sk_wr_u64(w, m->yield.first);
    sk_wr_u64(w, m->yield.id);
}

static void read_yield(struct sk_rd *r, struct sk_cmsg *m) {
    m->yield.first = sk_rd_u64(r);
    m->yield.id = sk_rd_u64(r);
    r->bad = r->bad || !m->yield.first || !m->yield.id;
}

static void write_call(struct sk_wr *w, const struct sk_cmsg *m) {
    sk_wr_u64(w, m->call.actor);
    sk_wr_u64(w, m->call.first);
    sk_wr_u64(w, m->call.fn);
    sk_wr_u64(w, m->call.caller);
    sk_wr_u64(w, m->call.known);
    sk_wr_u32(w, m->call.n_returns);
    sk_wr_u32(w, m->call.flags);
    sk_wr_u32(w, m->call.group);
    sk_wr_u32(w, m->call.window);
    sk_wr_u32(w, (uint32_t)m->call.max_retries);
    sk_wr_u32(w, m->call.n_args);
    sk_wr_u32(w, m->call.n_contains);
    bytes(w, m->call.name);
    sk_wr_align(w, 8);
    bytes(w, m->call.contains);
    bytes(w, m->call.args);
    if (m->call.actor) return;
    sk_wr_u32(w, m->call.max_calls);
    res(w, &m->call.need.res);
    bytes(w, m->call.need.env);
    bytes(w, m->call.need.where);
    if (!(m->call.flags & SK_RUN_INIT)) return;
    sk_wr_u32(w, (uint32_t)m->call.max_task_retries);
    bytes(w, m->call.groups);
    bytes(w, m->call.space);
    bytes(w, m->call.actor_name);
    bytes(w, m->call.meta);
}

static void read_call(struct sk_rd *r, struct sk_cmsg *m) {
    m->call.actor = sk_rd_u64(r);
    m->call.first = sk_rd_u64(r);
    m->call.fn = sk_rd_u64(r);
    m->call.caller = sk_rd_u64(r);
    m->call.known = sk_rd_u64(r);
    m->call.n_returns = sk_rd_u32(r);
    m->call.flags = sk_rd_u32(r);
    m->call.group = sk_rd_u32(r);
    m->call.window = sk_rd_u32(r);
    m->call.max_retries = (int32_t)sk_rd_u32(r);
    m->call.n_args = sk_rd_u32(r);
    m->call.n_contains = sk_rd_u32(r);
    m->call.name = sk_rd_bytes(r);
    sk_rd_align(r, 8);
    m->call.contains = sk_rd_bytes(r);
    m->call.args = sk_rd_bytes(r);
    if (!m->call.actor) {
        m->call.max_calls = sk_rd_u32(r);
        m->call.need.res = read_res(r);
        m->call.need.env = sk_rd_bytes(r);
        m->call.need.where = sk_rd_bytes(r);
    }
    if (!m->call.actor && m->call.flags & SK_RUN_INIT) {
        m->call.max_task_retries = (int32_t)sk_rd_u32(r);
        m->call.groups = sk_rd_bytes(r);
        m->call.space = sk_rd_bytes(r);
        m->call.actor_name = sk_rd_bytes(r);
        m->call.meta = sk_rd_bytes(r);
    }
    struct sk_rd a = sk_rd_init(m->call.args.p, m->call.args.n);
    for (uint32_t i = 0; i < m->call.n_args && !a.bad; i++) {
        struct sk_cmsg_arg x = sk_cmsg_arg_next(&a);
        a.bad = a.bad || x.part || x.bytes.n > SK_INLINE_MAX;
    }
    r->bad = r->bad || a.bad || !sk_rd_end(&a) ||
             sk_foreign_n_names(m->call.n_returns) > SK_MAX_RETURNS ||
             m->call.contains.n != 8 * (uint64_t)m->call.n_contains || m->call.groups.n % 4 ||
             m->call.groups.n > sizeof(uint32_t) * SK_GROUPS_MAX;
}

static void write_event(struct sk_wr *w, const struct sk_cmsg *m) {
    sk_wr_u64(w, m->event.task);
    sk_wr_u32(w, m->event.kind);
    sk_wr_u32(w, m->event.attempt);
    sk_wr_u32(w, m->event.index);
    sk_wr_u32(w, (uint32_t)m->event.code);
    sk_wr_u32(w, m->event.actor_lives);
    sk_wr_u32(w, (uint32_t)m->event.pid);
    sk_wr_i64(w, m->event.run_ns);
    sk_wr_i64(w, m->event.start_ns);
    bytes(w, m->event.text);
    bytes(w, m->event.note);
    sk_wr_u32(w, m->event.n_values);
    sk_wr_align(w, 8);
    bytes(w, m->event.values);
}

static int64_t read_ns(struct sk_rd *r) {
    int64_t ns = sk_rd_i64(r);
    r->bad = r->bad || ns < 0 || ns > SK_CMSG_NS_MAX;
    return ns;
}

static void read_event(struct sk_rd *r, struct sk_cmsg *m) {
    m->event.task = sk_rd_u64(r);
    m->event.kind = sk_rd_u32(r);
    m->event.attempt = sk_rd_u32(r);
    m->event.index = sk_rd_u32(r);
    m->event.code = (int32_t)sk_rd_u32(r);
    m->event.actor_lives = sk_rd_u32(r) != 0;
    m->event.pid = (int32_t)sk_rd_u32(r);
    m->event.run_ns = read_ns(r);
    m->event.start_ns = read_ns(r);
    m->event.text = sk_rd_bytes(r);
    m->event.note = sk_rd_bytes(r);
    m->event.n_values = sk_rd_u32(r);
    sk_rd_align(r, 8);
    m->event.values = sk_rd_bytes(r);
    struct sk_rd v = sk_rd_init(m->event.values.p, m->event.values.n);
    for (uint32_t i = 0; i < m->event.n_values && !v.bad; i++) (void)sk_cmsg_value_next(&v);
    r->bad = r->bad || v.bad || !sk_rd_end(&v) || m->event.kind < SK_EV_STARTED ||
             m->event.kind > SK_EV_FAILED || m->event.note.n > SK_NOTE_MAX ||
             m->event.index >= SK_CLUSTER_VALUES;
}

static void write_hello(struct sk_wr *w, const struct sk_cmsg *m) {
    sk_wr_u32(w, m->hello.version);
    sk_wr_u32(w, m->hello.role);
    sk_wr_u64(w, m->hello.job);
    sk_wr_raw(w, m->hello.secret, SK_SECRET);
    sk_wr_u64(w, m->hello.incarnation);
    sk_wr_u32(w, m->hello.number);
}

static void write_welcome(struct sk_wr *w, const struct sk_cmsg *m) {
    sk_wr_u32(w, m->welcome.version);
    sk_wr_u64(w, m->welcome.incarnation);
    res(w, &m->welcome.total);
    sk_wr_u64(w, m->welcome.store_bytes);
    sk_wr_u64(w, m->welcome.disk_limit_bytes);
    sk_wr_u64(w, m->welcome.id_base);
    bytes(w, m->welcome.name);
    bytes(w, m->welcome.why);
    bytes(w, m->welcome.labels);
}

static void write_name(struct sk_wr *w, const struct sk_cmsg *m) {
    sk_wr_u64(w, m->name.ask);
    sk_wr_u64(w, m->name.name.actor.v);
    sk_wr_u32(w, m->name.name.what);
    bytes(w, m->name.name.space);
    bytes(w, m->name.name.name);
    bytes(w, m->name.name.meta);
}

static void read_name(struct sk_rd *r, struct sk_cmsg *m) {
    m->name.ask = sk_rd_u64(r);
    m->name.name.actor.v = sk_rd_u64(r);
    m->name.name.what = sk_rd_u32(r);
    m->name.name.space = sk_rd_bytes(r);
    m->name.name.name = sk_rd_bytes(r);
    m->name.name.meta = sk_rd_bytes(r);
    r->bad = r->bad || m->name.name.what < SK_NAME_FIND || m->name.name.what > SK_NAME_GOT;
}

static void write_named(struct sk_wr *w, const struct sk_cmsg *m) {
    sk_wr_u64(w, m->named.ask);
    sk_wr_u64(w, m->named.actor);
    sk_wr_u32(w, (uint32_t)m->named.rc);
    bytes(w, m->named.bytes);
}

static void read_named(struct sk_rd *r, struct sk_cmsg *m) {
    m->named.ask = sk_rd_u64(r);
    m->named.actor = sk_rd_u64(r);
    m->named.rc = (int32_t)sk_rd_u32(r);
    m->named.bytes = sk_rd_bytes(r);
}

static void write_state(struct sk_wr *w, const struct sk_cmsg *m) {
    res(w, &m->state.free);
    sk_wr_u64(w, m->state.resident_bytes);
    sk_wr_u64(w, m->state.disk_bytes);
    sk_wr_u64(w, m->state.promised_bytes);
    sk_wr_u64(w, m->state.disk_limit_bytes);
    sk_wr_u64(w, m->state.n_runs);
    sk_wr_u32(w, m->state.n_spare);
    const struct sk_load *l = &m->state.load;
    sk_wr_u32(w, l->workers);
    sk_wr_u32(w, l->running);
    sk_wr_u32(w, l->queued);
    sk_wr_u64(w, l->done);
    sk_wr_u64(w, l->failed);
    sk_wr_u64(w, l->objects);
    sk_wr_u64(w, l->spilled_bytes);
    sk_wr_u64(w, l->restored_bytes);
}

static void write_told(struct sk_wr *w, const struct sk_cmsg *m) {
    sk_wr_u64(w, m->told.ask);
    sk_wr_u32(w, m->told.what);
    if (m->type == SK_CMSG_ASK) return;
    sk_wr_i64(w, m->told.now_ns);
    sk_wr_align(w, 8);
    bytes(w, m->told.bytes);
}

static void read_told(struct sk_rd *r, struct sk_cmsg *m) {
    m->told.ask = sk_rd_u64(r);
    m->told.what = sk_rd_u32(r);
    if (m->type == SK_CMSG_ASK) return;
    m->told.now_ns = read_ns(r);
    sk_rd_align(r, 8);
    m->told.bytes = sk_rd_bytes(r);
}

static void write_group(struct sk_wr *w, const struct sk_cmsg *m) {
    sk_wr_u64(w, m->group.id);
    sk_wr_u32(w, m->group.n);
    sk_wr_u32(w, m->group.strategy);
    bytes(w, m->group.bundles);
    bytes(w, m->group.here);
}

static void read_group(struct sk_rd *r, struct sk_cmsg *m) {
    m->group.id = sk_rd_u64(r);
    m->group.n = sk_rd_u32(r);
    m->group.strategy = sk_rd_u32(r);
    m->group.bundles = sk_rd_bytes(r);
    m->group.here = sk_rd_bytes(r);
    r->bad = r->bad || !m->group.n || m->group.here.n != m->group.n || !m->group.id ||
             m->group.bundles.n != m->group.n * sizeof(struct sk_res);
}

static void write_body(struct sk_wr *w, const struct sk_cmsg *m) {
    switch (m->type) {
    case SK_CMSG_HELLO: write_hello(w, m); break;
    case SK_CMSG_WELCOME: write_welcome(w, m); break;
    case SK_CMSG_BEAT:
    case SK_CMSG_BYE: break;
    case SK_CMSG_PEER:
        sk_wr_u64(w, m->peer.incarnation);
        sk_wr_u32(w, m->peer.number);
        bytes(w, m->peer.address);
        break;
    case SK_CMSG_DEFINE:
        sk_wr_u64(w, m->define.fn);
        bytes(w, m->define.name);
        bytes(w, m->define.def);
        break;
    case SK_CMSG_ENV:
        sk_wr_u32(w, m->env.number);
        bytes(w, m->env.bytes);
        break;
    case SK_CMSG_RUN: write_run(w, m); break;
    case SK_CMSG_THERE: write_there(w, m); break;
    case SK_CMSG_CALL: write_call(w, m); break;
    case SK_CMSG_NAME: write_name(w, m); break;
    case SK_CMSG_NAMED: write_named(w, m); break;
    case SK_CMSG_CANCEL:
    case SK_CMSG_END_ACTOR:
    case SK_CMSG_HOLD:
    case SK_CMSG_UNHOLD:
    case SK_CMSG_WANT:
    case SK_CMSG_ENDED:
    case SK_CMSG_KILL:
    case SK_CMSG_STOP:
    case SK_CMSG_UNGROUP:
    case SK_CMSG_ROOM:
        sk_wr_u64(w, m->end.id);
        sk_wr_u32(w, m->end.flags);
        break;
    case SK_CMSG_PUT:
        sk_wr_u64(w, m->put.id);
        sk_wr_u32(w, m->put.kind);
        bytes(w, m->put.bytes);
        break;
    case SK_CMSG_DROP:
        sk_wr_u32(w, m->drop.n);
        bytes(w, m->drop.ids);
        break;
    case SK_CMSG_FETCH:
    case SK_CMSG_READ:
        sk_wr_u64(w, m->fetch.ask);
        sk_wr_u64(w, m->fetch.id);
        sk_wr_u64(w, m->fetch.offset);
        sk_wr_u64(w, m->fetch.length);
        sk_wr_u32(w, m->fetch.part);
        break;
    case SK_CMSG_EVENT: write_event(w, m); break;
    case SK_CMSG_VALUE:
    case SK_CMSG_DATA:
        sk_wr_u64(w, m->value.ask);
        sk_wr_u32(w, (uint32_t)m->value.rc);
        sk_wr_u32(w, m->value.kind);
        bytes(w, m->value.bytes);
        break;
    case SK_CMSG_STATE: write_state(w, m); break;
    case SK_CMSG_MISSING:
        sk_wr_u64(w, m->missing.task);
        sk_wr_u64(w, m->missing.id);
        sk_wr_u32(w, m->missing.node);
        sk_wr_u32(w, (uint32_t)m->missing.code);
        break;
    case SK_CMSG_BRING:
        sk_wr_u64(w, m->bring.ask);
        sk_wr_u64(w, m->bring.id);
        sk_wr_u32(w, m->bring.node);
        break;
    case SK_CMSG_BROUGHT:
        sk_wr_u64(w, m->brought.ask);
        sk_wr_u64(w, m->brought.id);
        sk_wr_u32(w, (uint32_t)m->brought.rc);
        break;
    case SK_CMSG_PRINTS:
        sk_wr_u32(w, m->prints.to);
        bytes(w, m->prints.text);
        break;
    case SK_CMSG_YIELD: write_yield(w, m); break;
    case SK_CMSG_TAKEN:
    case SK_CMSG_TOOK:
        sk_wr_u64(w, m->taken.task);
        sk_wr_u32(w, m->taken.n);
        break;
    case SK_CMSG_ASK:
    case SK_CMSG_TOLD: write_told(w, m); break;
    case SK_CMSG_GROUP: write_group(w, m); break;
    }
}

static void read_hello(struct sk_rd *r, struct sk_cmsg *m) {
    m->hello.version = sk_rd_u32(r);
    m->hello.role = sk_rd_u32(r);
    m->hello.job = sk_rd_u64(r);
    const void *secret = sk_rd_raw(r, SK_SECRET);
    if (secret) memcpy(m->hello.secret, secret, SK_SECRET);
    m->hello.incarnation = sk_rd_u64(r);
    m->hello.number = sk_rd_u32(r);
}

static void read_welcome(struct sk_rd *r, struct sk_cmsg *m) {
    m->welcome.version = sk_rd_u32(r);
    m->welcome.incarnation = sk_rd_u64(r);
    m->welcome.total = read_res(r);
    m->welcome.store_bytes = sk_rd_u64(r);
    m->welcome.disk_limit_bytes = sk_rd_u64(r);
    m->welcome.id_base = sk_rd_u64(r);
    m->welcome.name = sk_rd_bytes(r);
    m->welcome.why = sk_rd_bytes(r);
    m->welcome.labels = sk_rd_bytes(r);
    r->bad = r->bad || !sk_labels_good(m->welcome.labels);
}

static void read_state(struct sk_rd *r, struct sk_cmsg *m) {
    m->state.free = read_res(r);
    m->state.resident_bytes = sk_rd_u64(r);
    m->state.disk_bytes = sk_rd_u64(r);
    m->state.promised_bytes = sk_rd_u64(r);
    m->state.disk_limit_bytes = sk_rd_u64(r);
    m->state.n_runs = sk_rd_u64(r);
    m->state.n_spare = sk_rd_u32(r);
    struct sk_load *l = &m->state.load;
    l->workers = sk_rd_u32(r);
    l->running = sk_rd_u32(r);
    l->queued = sk_rd_u32(r);
    l->done = sk_rd_u64(r);
    l->failed = sk_rd_u64(r);
    l->objects = sk_rd_u64(r);
    l->spilled_bytes = sk_rd_u64(r);
    l->restored_bytes = sk_rd_u64(r);
}

static void read_body(struct sk_rd *r, struct sk_cmsg *m) {
    switch (m->type) {
    case SK_CMSG_HELLO: read_hello(r, m); break;
    case SK_CMSG_WELCOME: read_welcome(r, m); break;
    case SK_CMSG_BEAT:
    case SK_CMSG_BYE: break;
    case SK_CMSG_PEER:
        m->peer.incarnation = sk_rd_u64(r);
        m->peer.number = sk_rd_u32(r);
        m->peer.address = sk_rd_bytes(r);
        break;
    case SK_CMSG_DEFINE:
        m->define.fn = sk_rd_u64(r);
        m->define.name = sk_rd_bytes(r);
        m->define.def = sk_rd_bytes(r);
        break;
    case SK_CMSG_ENV:
        m->env.number = sk_rd_u32(r);
        m->env.bytes = sk_rd_bytes(r);
        break;
    case SK_CMSG_RUN: read_run(r, m); break;
    case SK_CMSG_THERE: read_there(r, m); break;
    case SK_CMSG_CALL: read_call(r, m); break;
    case SK_CMSG_NAME: read_name(r, m); break;
    case SK_CMSG_NAMED: read_named(r, m); break;
    case SK_CMSG_CANCEL:
    case SK_CMSG_END_ACTOR:
    case SK_CMSG_HOLD:
    case SK_CMSG_UNHOLD:
    case SK_CMSG_WANT:
    case SK_CMSG_ENDED:
    case SK_CMSG_KILL:
    case SK_CMSG_STOP:
    case SK_CMSG_UNGROUP:
    case SK_CMSG_ROOM:
        m->end.id = sk_rd_u64(r);
        m->end.flags = sk_rd_u32(r);
        break;
    case SK_CMSG_PUT:
        m->put.id = sk_rd_u64(r);
        m->put.kind = sk_rd_u32(r);
        m->put.bytes = sk_rd_bytes(r);
        break;
    case SK_CMSG_DROP:
        m->drop.n = sk_rd_u32(r);
        m->drop.ids = sk_rd_bytes(r);
        r->bad = r->bad || m->drop.ids.n != 8 * (uint64_t)m->drop.n;
        break;
    case SK_CMSG_FETCH:
    case SK_CMSG_READ:
        m->fetch.ask = sk_rd_u64(r);
        m->fetch.id = sk_rd_u64(r);
        m->fetch.offset = sk_rd_u64(r);
        m->fetch.length = sk_rd_u64(r);
        m->fetch.part = sk_rd_u32(r) != 0;
        break;
    case SK_CMSG_EVENT: read_event(r, m); break;
    case SK_CMSG_VALUE:
    case SK_CMSG_DATA:
        m->value.ask = sk_rd_u64(r);
        m->value.rc = (int32_t)sk_rd_u32(r);
        m->value.kind = sk_rd_u32(r);
        m->value.bytes = sk_rd_bytes(r);
        break;
    case SK_CMSG_STATE: read_state(r, m); break;
    case SK_CMSG_MISSING:
        m->missing.task = sk_rd_u64(r);
        m->missing.id = sk_rd_u64(r);
        m->missing.node = sk_rd_u32(r);
        m->missing.code = (int32_t)sk_rd_u32(r);
        break;
    case SK_CMSG_BRING:
        m->bring.ask = sk_rd_u64(r);
        m->bring.id = sk_rd_u64(r);
        m->bring.node = sk_rd_u32(r);
        break;
    case SK_CMSG_BROUGHT:
        m->brought.ask = sk_rd_u64(r);
        m->brought.id = sk_rd_u64(r);
        m->brought.rc = (int32_t)sk_rd_u32(r);
        break;
    case SK_CMSG_PRINTS:
        m->prints.to = sk_rd_u32(r);
        m->prints.text = sk_rd_bytes(r);
        r->bad = r->bad || m->prints.to < 1 || m->prints.to > 2 || !m->prints.text.n ||
                 ((const char *)m->prints.text.p)[m->prints.text.n - 1] != '\n';
        break;
    case SK_CMSG_YIELD: read_yield(r, m); break;
    case SK_CMSG_TAKEN:
    case SK_CMSG_TOOK:
        m->taken.task = sk_rd_u64(r);
        m->taken.n = sk_rd_u32(r);
        break;
    case SK_CMSG_ASK:
    case SK_CMSG_TOLD: read_told(r, m); break;
    case SK_CMSG_GROUP: read_group(r, m); break;
    default: r->bad = true;
    }
}

struct head {
    uint32_t units, type, crc, zero;
};
_Static_assert(sizeof(struct head) == SK_CMSG_HEAD, "head of a frame");

/* Makes room for a frame, and writes its head but for the checksum. The length of a body counts
 * units of 8 bytes, and so reaches 32 GiB. */
static sk_rc begin_frame(struct sk_outbox *o, const struct sk_cmsg *m, size_t own, size_t body,
                         struct sk_err *err) {
    SK_DCHECK(o->n <= o->cap && m->type && body % 8 == 0);
    size_t need = o->n + SK_CMSG_HEAD + own;
    if (need > o->cap) {
        size_t cap = SK_MAX(need, o->cap + o->cap / 2);
        uint8_t *p = sk_realloc(SK_TAG_ENGINE, o->p, cap);
        if (!p) return SK_ERR(err, SK_ENOMEM, "message of %zu bytes", body);
        o->p = p;
        o->cap = cap;
    }
    struct head head = {.units = (uint32_t)(body / 8), .type = m->type};
    memcpy(o->p + o->n, &head, sizeof head);
    return SK_OK;
}

/* Writes the checksum into the head of the last frame. */
static void end_frame(struct sk_outbox *o, uint32_t crc) {
    memcpy(o->p + o->n + offsetof(struct head, crc), &crc, sizeof crc);
}

sk_rc sk_cmsg_put(struct sk_outbox *o, const struct sk_cmsg *m, struct sk_err *err) {
    struct sk_wr w = sk_wr_init(NULL, 0);
    write_body(&w, m);
    size_t body = (size_t)SK_ALIGN(w.n, 8);
    SK_TRY(begin_frame(o, m, body, body, err));
    w = sk_wr_init(o->p + o->n + SK_CMSG_HEAD, body);
    write_body(&w, m);
    sk_wr_align(&w, 8);
    SK_ASSERT(w.n == body);
    end_frame(o, sk_crc32c(0, o->p + o->n + SK_CMSG_HEAD, body));
    o->n += SK_CMSG_HEAD + body;
    return SK_OK;
}

sk_rc sk_cmsg_put_apart(struct sk_outbox *o, const struct sk_cmsg *m, struct sk_apart apart,
                        struct sk_err *err) {
    static const uint8_t zero[8];
    uint64_t n = apart.bytes.n;
    size_t pad = (size_t)(SK_ALIGN(n, 8) - n), own = SK_CMSG_VALUE_HEAD + pad;
    if (!sk_vec_reserve(&o->apart, SK_TAG_ENGINE, o->apart.n + 1))
        return SK_ERR(err, SK_ENOMEM, "message of %zu bytes", apart.bytes.n);
    SK_TRY(begin_frame(o, m, own, own + apart.bytes.n, err));
    uint8_t *at = o->p + o->n + SK_CMSG_HEAD;
    struct sk_wr w = sk_wr_init(at, SK_CMSG_VALUE_HEAD);
    write_body(&w, m);
    SK_ASSERT(w.n == SK_CMSG_VALUE_HEAD); /* m has no bytes; their number is the last field */
    memcpy(at + SK_CMSG_VALUE_HEAD - sizeof n, &n, sizeof n);
    memcpy(at + SK_CMSG_VALUE_HEAD, zero, pad);
    uint32_t crc = sk_crc32c(0, at, SK_CMSG_VALUE_HEAD);
    crc = sk_crc32c(crc, apart.bytes.p, apart.bytes.n);
    end_frame(o, sk_crc32c(crc, zero, pad));
    apart.at = o->n + SK_CMSG_HEAD + SK_CMSG_VALUE_HEAD;
    SK_ASSERT(sk_vec_push(&o->apart, SK_TAG_ENGINE, apart)); /* there is room */
    o->n += SK_CMSG_HEAD + own;
    return SK_OK;
}

void sk_outbox_free(struct sk_outbox *o) {
    for (uint32_t i = 0; i < o->apart.n; i++)
        o->apart.p[i].release(o->apart.p[i].ctx, o->apart.p[i].owner);
    sk_vec_free(&o->apart);
    sk_free(o->p);
    *o = (struct sk_outbox){0};
}

bool sk_cmsg_read_value_head(uint32_t type, const uint8_t *head, uint64_t body,
                             struct sk_cmsg *out) {
    struct sk_rd r = sk_rd_init(head, SK_CMSG_VALUE_HEAD);
    SK_DCHECK((type == SK_CMSG_VALUE || type == SK_CMSG_DATA) && body >= SK_CMSG_VALUE_HEAD);
    *out = (struct sk_cmsg){.type = (enum sk_cmsg_type)type};
    out->value.ask = sk_rd_u64(&r);
    out->value.rc = (int32_t)sk_rd_u32(&r);
    out->value.kind = sk_rd_u32(&r);
    uint64_t n = sk_rd_u64(&r), room = body - SK_CMSG_VALUE_HEAD;
    out->value.bytes = (struct sk_bytes){"", (size_t)n};
    return n <= room && room - n < 8;
}

void sk_cmsg_head(const uint8_t head[SK_CMSG_HEAD], uint64_t *body, uint32_t *type) {
    struct head h;
    memcpy(&h, head, sizeof h);
    *type = h.type;
    *body = (uint64_t)h.units * 8;
}

bool sk_cmsg_whole(const uint8_t head[SK_CMSG_HEAD], struct sk_bytes start, struct sk_bytes rest) {
    struct head h;
    memcpy(&h, head, sizeof h);
    return sk_crc32c(sk_crc32c(0, start.p, start.n), rest.p, rest.n) == h.crc;
}

sk_rc sk_cmsg_read(uint32_t type, struct sk_bytes body, struct sk_cmsg *out, struct sk_err *err) {
    struct sk_rd r = sk_rd_init(body.p, body.n);
    memset(out, 0, sizeof *out);
    out->type = (enum sk_cmsg_type)type;
    read_body(&r, out);
    if (!r.bad && body.n - r.at < 8) return SK_OK;
    return SK_ERR(err, SK_ECORRUPT, "message of type %u and %zu bytes is damaged", type, body.n);
}
