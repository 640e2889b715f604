/* engine.c - the engine as code in a worker sees it: the calls of engine.h as messages to the
 * driver. A call that needs no answer (submit, put, reference counts, definitions) only sends
 * its message. Ids of new objects come from the worker's own range. link.c sends the messages. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/hash.h"
#include "base/mem.h"
#include "engine/actors.h"
#include "engine/custom.h"
#include "engine/cluster/wheres.h"
#include "engine/envs.h"
#include "engine/groups.h"
#include "engine/local/worker/worker.h"
#include "engine/books/names.h"
#include "engine/state.h"
#include "engine/streams.h"
#include "engine/watch.h"
#include "engine/windows.h"

static struct sk_worker_engine *C(struct sk_engine *e) {
    return sk_container_of(e, struct sk_worker_engine, base);
}

/* ---- the calls ------------------------------------------------------------------------------- */

/* the worker's engine ends with its process */
static void c_close(struct sk_engine *e) { (void)e; }

static sk_rc c_define(struct sk_engine *e, sk_fid fn, const char *name, struct sk_bytes def,
                      struct sk_err *err) {
    struct sk_worker_engine *c = C(e);
    struct sk_wr m = sk_wr_init(NULL, 0);
    for (int pass = 0; pass < 2; pass++) {
        sk_wr_u32(&m, SK_M_DEFINE);
        sk_wr_u64(&m, fn.v);
        sk_wr_str(&m, name);
        sk_wr_bytes(&m, def.p, def.n);
        if (pass == 0) {
            uint8_t *p = sk_alloc(SK_TAG_ENGINE, m.n);
            if (!p) return SK_ERR(err, SK_ENOMEM, "no memory for a function definition");
            m = sk_wr_init(p, m.n);
        }
    }
    pthread_mutex_lock(&c->mu);
    sk_worker_link_send_unlocked(c, m.p, m.n, false);
    pthread_mutex_unlock(&c->mu);
    sk_free(m.p);
    return SK_OK;
}

static sk_rc c_shape(struct sk_engine *e, const struct sk_need *need, sk_shape *out,
                     struct sk_err *err) {
    struct sk_worker_engine *c = C(e);
    uint64_t h = sk_hash(need, sizeof *need);
    pthread_mutex_lock(&c->mu);
    uintptr_t known = (uintptr_t)sk_map_get(&c->shapes, h | 1);
    pthread_mutex_unlock(&c->mu);
    if (known) {
        *out = (sk_shape)(known - 1);
        return SK_OK;
    }
    struct {
        uint32_t type, pad;
        uint64_t req;
        struct sk_need need;
    } q = {SK_M_SHAPE, 0, 0, *need};
    struct sk_msg *m =
        sk_worker_link_answer(c, sk_worker_link_ask(c, &q, sizeof q, REQ_AT), INT64_MAX);
    struct sk_rd r;
    sk_rc rc = sk_worker_link_answer_rc(m, &r, err);
    if (rc == SK_OK) {
        *out = (sk_shape)sk_rd_u64(&r);
        pthread_mutex_lock(&c->mu);
        /* without memory for this entry, the driver is asked again next time */
        SK_IGNORE(sk_map_put(&c->shapes, h | 1, (void *)((uintptr_t)*out + 1)));
        pthread_mutex_unlock(&c->mu);
    }
    sk_free(m);
    return rc;
}

static sk_rc c_env_define(struct sk_engine *e, struct sk_bytes env, uint32_t *out,
                          struct sk_err *err) {
    size_t cap = env.n + 64;
    uint64_t v = 0;
    uint8_t *p = sk_alloc(SK_TAG_ENGINE, cap);
    if (!p) return SK_ERR(err, SK_ENOMEM, "no memory for an environment");
    struct sk_wr w = sk_wr_init(p, cap);
    sk_wr_u32(&w, SK_M_DEFENV);
    sk_wr_u64(&w, 0);
    sk_wr_bytes(&w, env.p, env.n);
    SK_ASSERT(sk_wr_ok(&w));
    sk_rc rc = sk_worker_link_ask_number(C(e), p, w.n, REQ_AT, &v, err);
    sk_free(p);
    if (rc == SK_OK) *out = (uint32_t)v;
    return rc;
}

static sk_rc c_group_create(struct sk_engine *e, const struct sk_group_spec *s, uint64_t *out,
                            sk_oid *ready, struct sk_err *err) {
    struct sk_worker_engine *c = C(e);
    if (s->id) return SK_ERR(err, SK_ENOSYS, "a worker reserves no part of another group");
    size_t cap = 2 * SK_NAME_MAX + 128 + s->n * sizeof *s->bundles;
    uint64_t base, v;
    struct sk_bytes name = sk_text(s->name), space = sk_text(s->space);
    /* checked here, so that both names fit into the message */
    SK_TRY(sk_names_check("placement group", space, name, err));
    uint8_t *p = sk_alloc(SK_TAG_ENGINE, cap);
    if (!p) return SK_ERR(err, SK_ENOMEM, "no memory for a placement group");
    pthread_mutex_lock(&c->mu);
    base = c->next_id + 1;
    c->next_id += 2;
    pthread_mutex_unlock(&c->mu);
    struct sk_wr w = sk_wr_init(p, cap);
    sk_wr_u32(&w, SK_M_GROUP);
    sk_wr_u64(&w, base);
    sk_wr_u64(&w, 0);
    sk_wr_u32(&w, s->strategy);
    sk_wr_u32(&w, s->n);
    sk_wr_bytes(&w, name.p, name.n);
    sk_wr_bytes(&w, space.p, space.n);
    sk_wr_align(&w, 8);
    sk_wr_raw(&w, s->bundles, s->n * sizeof *s->bundles);
    SK_ASSERT(sk_wr_ok(&w));
    sk_rc rc = sk_worker_link_ask_number(c, p, w.n, 16, &v, err);
    sk_free(p);
    if (rc != SK_OK) return rc;
    *out = base;
    *ready = (sk_oid){base + 1};
    return SK_OK;
}

static sk_rc c_group_remove(struct sk_engine *e, uint64_t group, struct sk_err *err) {
    uint8_t buf[24];
    uint64_t v;
    struct sk_wr w = sk_wr_init(buf, sizeof buf);
    sk_wr_u32(&w, SK_M_UNGROUP);
    sk_wr_u64(&w, 0);
    sk_wr_u64(&w, group);
    return sk_worker_link_ask_number(C(e), buf, w.n, REQ_AT, &v, err);
}

static sk_rc c_res_index(struct sk_engine *e, const char *name, uint32_t *out, struct sk_err *err) {
    uint8_t buf[256];
    struct sk_wr w = sk_wr_init(buf, sizeof buf);
    sk_wr_u32(&w, SK_M_RESIDX);
    sk_wr_u64(&w, 0);
    sk_wr_bytes(&w, name, SK_MIN(strlen(name), 127));
    uint64_t v = 0;
    sk_rc rc = sk_worker_link_ask_number(C(e), buf, w.n, REQ_AT, &v, err);
    if (rc == SK_OK) *out = (uint32_t)v;
    return rc;
}

static sk_rc c_nodes(struct sk_engine *e, struct sk_node *out, size_t cap, size_t *n,
                     struct sk_err *err) {
    struct sk_worker_engine *c = C(e);
    struct {
        uint32_t type, pad;
        uint64_t req;
    } q = {SK_M_NODES, 0, 0};
    struct sk_msg *m =
        sk_worker_link_answer(c, sk_worker_link_ask(c, &q, sizeof q, REQ_AT), INT64_MAX);
    struct sk_rd r;
    sk_rc rc = sk_worker_link_answer_rc(m, &r, err);
    if (rc == SK_OK) {
        struct sk_bytes b = sk_rd_bytes(&r);
        *n = b.n / sizeof *out;
        memcpy(out, b.p, SK_MIN(*n, cap) * sizeof *out);
    }
    sk_free(m);
    return rc;
}

/* Sends the spec of a task or (as not NULL) of an actor. *req becomes the number of the request,
 * whose answer the caller gets by sk_worker_link_answer; req NULL: no answer is needed. */
static sk_rc send_spec(struct sk_worker_engine *c, const struct sk_task_spec *s,
                       const struct sk_aspec *as, uint32_t n_ids, uint64_t *base, uint64_t *req,
                       struct sk_err *err) {
    struct sk_wr w = sk_wr_init(NULL, 0), aw = w;
    SK_TRY(sk_spec_check(s, s->node == SK_LOCAL_NODE, err));
    sk_spec_write(&w, s);
    if (as) sk_aspec_write(&aw, as);
    size_t n = w.n, cap = n + aw.n + 64;
    uint8_t stack[1024], *p = cap <= sizeof stack ? stack : sk_alloc(SK_TAG_ENGINE, cap);
    if (!p) return SK_ERR(err, SK_ENOMEM, "no memory for a task");
    w = sk_wr_init(p, cap);
    sk_wr_u32(&w, as ? SK_M_ACTOR : SK_M_SUBMIT);
    sk_wr_u64(&w, 0); /* base id, set below */
    sk_wr_u64(&w, 0); /* request, set below */
    if (as) sk_aspec_write(&w, as);
    else sk_wr_u64(&w, sk_task_opts_of(s)->max_pending);
    sk_wr_u64(&w, n);
    struct sk_wr in = sk_wr_init(p + w.n, n); /* a spec starts at a multiple of 8 */
    sk_spec_write(&in, s);
    w.n += n;
    SK_ASSERT(in.n == n && sk_wr_ok(&w)); /* the length is as measured */
    pthread_mutex_lock(&c->mu);
    *base = c->next_id + 1;
    c->next_id += n_ids;
    memcpy(p + 8, base, 8);
    if (req) {
        *req = ++c->next_req;
        memcpy(p + 16, req, 8);
    }
    sk_worker_link_send_unlocked(c, p, w.n, true);
    pthread_mutex_unlock(&c->mu);
    if (p != stack) sk_free(p);
    return SK_OK;
}

static sk_rc c_submit(struct sk_engine *e, const struct sk_task_spec *s, sk_oid *first, sk_tid *tid,
                      struct sk_err *err) {
    if (s->sink) return SK_ERR(err, SK_EINVAL, "a task submitted from a worker cannot have a sink");
    uint64_t base, req;
    /* a stream of another engine has an object for its end (loop/abroad.h of the driver) */
    uint32_t n_ids = 1 + (s->n_returns == SK_STREAMING ? 1 : s->n_returns);
    bool asks = sk_task_opts_of(s)->max_pending > 0;
    SK_TRY(send_spec(C(e), s, NULL, n_ids, &base, asks ? &req : NULL, err));
    /* waits for the answer: the limit of pending calls may be reached already */
    if (asks) SK_TRY(sk_worker_link_answer_of(C(e), req, err));
    if (first) *first = (sk_oid){base + 1};
    if (tid) *tid = (sk_tid){base};
    return SK_OK;
}

static sk_rc c_actor_create(struct sk_engine *e, const struct sk_actor_spec *s, sk_aid *out,
                            sk_oid *ready, struct sk_err *err) {
    struct sk_task_spec init = s->init;
    init.n_returns = 1;
    struct sk_aspec as = sk_aspec_of(s);
    uint64_t base, req;
    SK_TRY(sk_aspec_check(&as, err));
    /* waits for the answer: the name may be taken, or on one of several nodes (id_base) another
     * node may have to hold the actor */
    bool asks = as.name.n || C(e)->ctl->id_base;
    SK_TRY(send_spec(C(e), &init, &as, 3, &base, asks ? &req : NULL, err));
    uint64_t actor = base + 2;
    if (asks) SK_TRY(sk_worker_link_number_of(C(e), req, &actor, err));
    *out = (sk_aid){actor};
    *ready = (sk_oid){actor - 1};
    return SK_OK;
}

static sk_rc c_actor_end(struct sk_engine *e, sk_aid a, bool no_restart, struct sk_err *err) {
    (void)err;
    sk_worker_link_tell(C(e), SK_M_KILL, a.v, no_restart ? 1 : 0, true);
    return SK_OK;
}
static sk_rc c_actor_leave(struct sk_engine *e, struct sk_err *err) {
    (void)err;
    sk_worker_link_tell(C(e), SK_M_LEAVE, 0, 0, true);
    return SK_OK;
}
static void c_retain(struct sk_engine *e, sk_oid o) {
    sk_worker_link_tell(C(e), SK_M_REF, o.v, 1, false);
}
static void c_release(struct sk_engine *e, sk_oid o) {
    sk_worker_link_tell(C(e), SK_M_REF, o.v, (uint64_t)-1, false);
}
static sk_rc c_actor_find(struct sk_engine *e, const char *space, const char *name, sk_aid *out,
                          sk_oid *ready, struct sk_bytes *meta, struct sk_err *err) {
    struct sk_worker_engine *c = C(e);
    size_t ns = space ? strlen(space) : 0, nn = strlen(name);
    uint8_t buf[2 * SK_NAME_MAX + 64];
    if (ns > SK_NAME_MAX || nn > SK_NAME_MAX)
        return SK_ERR(err, SK_ENOENT, "no actor has a name of more than %d bytes", SK_NAME_MAX);
    struct sk_wr w = sk_wr_init(buf, sizeof buf);
    sk_wr_u32(&w, SK_M_FIND);
    sk_wr_u64(&w, 0);
    sk_wr_bytes(&w, space, ns);
    sk_wr_bytes(&w, name, nn);
    SK_ASSERT(sk_wr_ok(&w));
    struct sk_msg *m = sk_worker_link_answer(c, sk_worker_link_ask(c, buf, w.n, REQ_AT), INT64_MAX);
    struct sk_rd r;
    sk_rc rc = sk_worker_link_answer_rc(m, &r, err);
    if (rc == SK_OK) {
        uint64_t aid = sk_rd_u64(&r);
        struct sk_bytes b = sk_rd_bytes(&r);
        void *p = sk_memdup(SK_TAG_ENGINE, b.p, b.n);
        *meta = (struct sk_bytes){p, p ? b.n : 0};
        *out = (sk_aid){aid};
        *ready = (sk_oid){aid - 1};
        if (!p) { /* the answer brought a reference to each object, which is given back */
            c_release(e, (sk_oid){aid});
            c_release(e, *ready);
            rc = SK_ERR(err, SK_ENOMEM, "no memory for the name's actor");
        }
    }
    sk_free(m);
    return rc;
}

static size_t ask_list(struct sk_engine *e, uint32_t type, uint64_t of, void *buf, size_t cap) {
    struct sk_worker_engine *c = C(e);
    struct {
        uint32_t type, pad;
        uint64_t req, of;
    } q = {type, 0, 0, of};
    struct sk_msg *m =
        sk_worker_link_answer(c, sk_worker_link_ask(c, &q, sizeof q, REQ_AT), INT64_MAX);
    struct sk_rd r;
    size_t n = 0;
    if (sk_worker_link_answer_rc(m, &r, NULL) == SK_OK) {
        struct sk_bytes b = sk_rd_bytes(&r);
        n = b.n;
        if (n && n <= cap) memcpy(buf, b.p, n);
    }
    sk_free(m);
    return n;
}

static size_t c_actor_names(struct sk_engine *e, char *buf, size_t cap) {
    return ask_list(e, SK_M_NAMES, 0, buf, cap);
}
static size_t c_state(struct sk_engine *e, enum sk_state_what what, void *buf, size_t cap) {
    return ask_list(e, SK_M_STATE, what, buf, cap);
}
static size_t c_groups(struct sk_engine *e, void *buf, size_t cap) {
    return ask_list(e, SK_M_GROUPS, 0, buf, cap);
}

static size_t c_more_read(struct sk_engine *e, uint32_t more, struct sk_amount *out, size_t cap) {
    return ask_list(e, SK_M_MOREREAD, more, out, cap * sizeof *out) / sizeof *out;
}

static sk_rc c_more(struct sk_engine *e, const struct sk_amount *a, uint32_t n, uint32_t *out,
                    struct sk_err *err) {
    size_t cap = n * sizeof *a + 64;
    uint64_t v = 0;
    uint8_t *p = sk_alloc(SK_TAG_ENGINE, cap);
    if (!p) return SK_ERR(err, SK_ENOMEM, "no memory for the amounts of %u resources", n);
    struct sk_wr w = sk_wr_init(p, cap);
    sk_wr_u32(&w, SK_M_MORE);
    sk_wr_u64(&w, 0);
    sk_wr_u64(&w, n);
    sk_wr_raw(&w, a, n * sizeof *a);
    SK_ASSERT(sk_wr_ok(&w));
    sk_rc rc = sk_worker_link_ask_number(C(e), p, w.n, REQ_AT, &v, err);
    sk_free(p);
    if (rc == SK_OK) *out = (uint32_t)v;
    return rc;
}

static sk_rc c_stream_wait(struct sk_engine *e, sk_tid t, int64_t deadline, struct sk_err *err) {
    struct {
        uint32_t type, pad;
        uint64_t req, tid;
    } q = {SK_M_PEEK, 0, 0, t.v};
    struct sk_msg *m =
        sk_worker_link_answer(C(e), sk_worker_link_ask(C(e), &q, sizeof q, REQ_AT), deadline);
    struct sk_rd r = sk_rd_init(m->bytes, m->len);
    (void)sk_rd_u32(&r);
    sk_rc rc = (sk_rc)sk_rd_u32(&r);
    sk_free(m);
    return rc == SK_OK || rc == SK_EDONE ? rc : SK_ERR(err, rc, "%s", sk_rc_name(rc));
}

static sk_rc c_stream_end(struct sk_engine *e, sk_tid t, uint32_t kind, sk_oid *out,
                          struct sk_err *err) {
    struct sk_worker_engine *c = C(e);
    struct {
        uint32_t type, pad;
        uint64_t oid, tid;
        uint32_t kind, pad2;
    } m = {SK_M_STREAMEND, 0, 0, t.v, kind, 0};
    (void)err;
    pthread_mutex_lock(&c->mu);
    m.oid = ++c->next_id;
    sk_worker_link_send_unlocked(c, &m, sizeof m, false);
    pthread_mutex_unlock(&c->mu);
    *out = (sk_oid){m.oid};
    return SK_OK;
}

/* The answer may arrive at any time, so from now on a thread reads the ring of this process. */
static sk_rc c_watch(struct sk_engine *e, sk_oid o, sk_tid stream, struct sk_watch *w,
                     struct sk_err *err) {
    struct sk_worker_engine *c = C(e);
    struct {
        uint32_t type, pad;
        uint64_t req, oid, tid;
    } m = {SK_M_WATCH, 0, 0, o.v, stream.v};
    pthread_mutex_lock(&c->mu);
    sk_rc rc = sk_worker_link_start_reader(c, err);
    if (rc == SK_OK) {
        m.req = w->id = ++c->next_req;
        if (sk_map_put(&c->watches, w->id, w) != SK_OK)
            rc = SK_ERR(err, SK_ENOMEM, "no memory to watch an object");
    }
    if (rc == SK_OK) sk_worker_link_send_unlocked(c, &m, sizeof m, true);
    pthread_mutex_unlock(&c->mu);
    return rc;
}

static bool c_unwatch(struct sk_engine *e, struct sk_watch *w) {
    struct sk_worker_engine *c = C(e);
    struct {
        uint32_t type, pad;
        uint64_t req;
    } m = {SK_M_UNWATCH, 0, w->id};
    pthread_mutex_lock(&c->mu);
    bool found = sk_map_del(&c->watches, w->id) != NULL;
    if (found) sk_worker_link_send_unlocked(c, &m, sizeof m, false);
    pthread_mutex_unlock(&c->mu);
    return found;
}

static void c_stream_drop(struct sk_engine *e, sk_tid t) {
    sk_worker_link_tell(C(e), SK_M_DROP, t.v, 0, true);
}
static sk_rc c_cancel(struct sk_engine *e, sk_tid t, uint32_t flags, struct sk_err *err) {
    (void)err;
    sk_worker_link_tell(C(e), SK_M_CANCEL, t.v, flags, true);
    return SK_OK;
}

static sk_rc c_stream_next(struct sk_engine *e, sk_tid t, int64_t deadline, sk_oid *out,
                           struct sk_err *err) {
    struct sk_worker_engine *c = C(e);
    struct {
        uint32_t type, pad;
        uint64_t req, tid;
    } q = {SK_M_NEXT, 0, 0, t.v};
    struct sk_msg *m =
        sk_worker_link_answer(c, sk_worker_link_ask(c, &q, sizeof q, REQ_AT), deadline);
    struct sk_rd r = sk_rd_init(m->bytes, m->len);
    (void)sk_rd_u32(&r);
    sk_rc rc = (sk_rc)sk_rd_u32(&r);
    (void)sk_rd_u64(&r);
    uint64_t oid = sk_rd_u64(&r);
    sk_free(m);
    if (oid && (rc == SK_OK || rc == SK_ETASK)) *out = (sk_oid){oid};
    if (rc == SK_OK || rc == SK_EDONE) return rc;
    return SK_ERR(err, rc, rc == SK_ETASK ? "the task failed" : "%s", sk_rc_name(rc));
}

static void c_buf_warm(struct sk_engine *e, void *at, size_t len) {
    struct sk_worker_engine *c = C(e);
    sk_seg_warm(&c->data_seg, (sk_off)((uint8_t *)at - c->data_seg.base), len);
}

static sk_rc c_window(struct sk_engine *e, const void *data, size_t len, bool own, void **at,
                      struct sk_err *err) {
    struct sk_worker_engine *c = C(e);
    return sk_seg_window(&c->data_seg, (sk_off)((const uint8_t *)data - c->data_seg.base), len, own,
                         at, err);
}

static sk_rc c_file(struct sk_engine *e, const void *data, size_t len, int *fd, uint64_t *at,
                    struct sk_err *err) {
    struct sk_worker_engine *c = C(e);
    return sk_seg_file(&c->data_seg, (sk_off)((const uint8_t *)data - c->data_seg.base), len, fd,
                       at, err);
}

void sk_worker_engine_unwanted(struct sk_worker_engine *c, const struct sk_val *v) {
    uint8_t b[128];
    pthread_mutex_lock(&c->mu);
    uint64_t id = ++c->next_id;
    struct sk_wr w = sk_wr_init(b, sizeof b);
    sk_wr_u32(&w, SK_M_PUT);
    sk_wr_u64(&w, id);
    sk_wr_val(&w,
              &(struct sk_val){
                  .kind = v->kind, .where = SK_V_STORE, .keep = 1, .len = v->len, .off = v->off},
              "");
    sk_wr_u32(&w, 0);
    sk_wr_align(&w, 8);
    sk_worker_link_send_unlocked(c, b, w.n, false);
    pthread_mutex_unlock(&c->mu);
    c_release(&c->base, (sk_oid){id});
}

sk_rc sk_worker_engine_send_value(struct sk_worker_engine *c, uint32_t type,
                                  const struct sk_payload *p, sk_oid *oid, struct sk_err *err) {
    struct sk_val v;
    const void *bytes;
    SK_TRY(sk_worker_link_value(c, p, &v, &bytes, err));
    size_t cap = 128 + (v.where == SK_V_INLINE ? v.len : 0) + 8 * (size_t)p->n_contains;
    uint8_t stack[SK_INLINE_MAX + 512],
        *b = cap <= sizeof stack ? stack : sk_alloc(SK_TAG_ENGINE, cap);
    if (!b) return SK_ERR(err, SK_ENOMEM, "no memory for a message");
    pthread_mutex_lock(&c->mu);
    if (!oid->v) oid->v = ++c->next_id;
    struct sk_wr w = sk_wr_init(b, cap);
    sk_wr_u32(&w, type);
    sk_wr_u64(&w, oid->v);
    sk_wr_val(&w, &v, bytes);
    sk_wr_u32(&w, p->n_contains);
    sk_wr_align(&w, 8);
    sk_wr_raw(&w, p->contains, 8 * (size_t)p->n_contains);
    sk_worker_link_send_unlocked(c, b, w.n, false);
    pthread_mutex_unlock(&c->mu);
    if (b != stack) sk_free(b);
    return SK_OK;
}

static sk_rc c_put(struct sk_engine *e, const struct sk_payload *p, sk_oid *out,
                   struct sk_err *err) {
    sk_oid oid = {0};
    SK_TRY(sk_worker_engine_send_value(C(e), SK_M_PUT, p, &oid, err));
    *out = oid;
    return SK_OK;
}

static uint64_t ask_ids(struct sk_worker_engine *c, uint32_t type, uint32_t want, const sk_oid *ids,
                        size_t n) {
    size_t cap = 32 + 8 * n;
    uint8_t stack[1024], *b = cap <= sizeof stack ? stack : sk_alloc(SK_TAG_ENGINE, cap);
    if (!b) return 0;
    pthread_mutex_lock(&c->mu);
    uint64_t req = ++c->next_req;
    struct sk_wr w = sk_wr_init(b, cap);
    sk_wr_u32(&w, type);
    sk_wr_u64(&w, req);
    sk_wr_u32(&w, want);
    sk_wr_u32(&w, (uint32_t)n);
    sk_wr_raw(&w, ids, 8 * n);
    sk_worker_link_send_unlocked(c, b, w.n, true);
    pthread_mutex_unlock(&c->mu);
    if (b != stack) sk_free(b);
    return req;
}

void sk_worker_engine_unkeep(struct sk_worker_engine *c, const void *of) {
    for (uint32_t i = 0; i < c->kept.n;) {
        struct sk_kept k = c->kept.p[i];
        if (k.of != of) {
            i++;
            continue;
        }
        c->kept.p[i] = c->kept.p[--c->kept.n];
        struct {
            uint32_t type, pad;
            uint64_t off, zero;
        } m = {SK_M_UNPIN, 0, k.off, 0};
        if (k.let_go) sk_worker_link_send_unlocked(c, &m, sizeof m, false);
    }
}

static void unpin(struct sk_worker_engine *c, uint64_t off) {
    bool later = false;
    pthread_mutex_lock(&c->mu);
    for (uint32_t i = 0; i < c->kept.n && !later; i++)
        if (c->kept.p[i].off == off) later = c->kept.p[i].let_go = true;
    pthread_mutex_unlock(&c->mu);
    if (!later) sk_worker_link_tell(c, SK_M_UNPIN, off, 0, false);
}

static void c_view_release(struct sk_engine *e, struct sk_view *v) {
    if (v->token & 1) unpin(C(e), v->token >> 1);
    else sk_free((void *)(uintptr_t)v->token);
    v->token = 0;
    v->data = NULL;
}

static sk_rc c_get(struct sk_engine *e, const sk_oid *ids, size_t n, int64_t deadline,
                   struct sk_view *out, struct sk_err *err) {
    struct sk_worker_engine *c = C(e);
    uint64_t req = ask_ids(c, SK_M_GET, (uint32_t)n, ids, n);
    if (!req) return SK_ERR(err, SK_ENOMEM, "get: no memory");
    struct sk_msg *m = sk_worker_link_answer(c, req, deadline);
    struct sk_rd r;
    sk_rc rc = sk_worker_link_answer_rc(m, &r, err);
    uint32_t got = rc == SK_OK ? sk_rd_u32(&r) : 0;
    for (uint32_t i = 0; i < got && i < n; i++) {
        struct sk_val v;
        const void *b = sk_rd_val(&r, &v);
        out[i] = (struct sk_view){.kind = v.kind, .len = (size_t)v.len, .oid = ids[i]};
        if (v.where == SK_V_STORE) {
            out[i].data = c->data_seg.base + v.off;
            out[i].token = v.off << 1 | 1;
        } else {
            void *copy =
                sk_memdup(SK_TAG_ENGINE, b && v.len ? b : "", b && v.len ? (size_t)v.len : 1);
            if (!copy) abort();
            out[i].data = copy;
            out[i].token = (uint64_t)(uintptr_t)copy;
        }
    }
    sk_free(m);
    return rc;
}

static sk_rc c_wait(struct sk_engine *e, const sk_oid *ids, size_t n, size_t want, int64_t deadline,
                    bool *ready, struct sk_err *err) {
    struct sk_worker_engine *c = C(e);
    uint64_t req = ask_ids(c, SK_M_WAIT, (uint32_t)SK_MIN(want, n), ids, n);
    if (!req) return SK_ERR(err, SK_ENOMEM, "wait: no memory");
    struct sk_msg *m = sk_worker_link_answer(c, req, deadline);
    struct sk_rd r = sk_rd_init(m->bytes, m->len);
    (void)sk_rd_u32(&r);
    sk_rc rc = (sk_rc)sk_rd_u32(&r);
    (void)sk_rd_u64(&r);
    if (rc == SK_OK || rc == SK_ETIMEOUT) {
        uint64_t k = sk_rd_u64(&r);
        for (uint64_t i = 0; i < k && i < n; i++) ready[i] = sk_rd_u8(&r);
        if (rc == SK_ETIMEOUT) rc = SK_ERR(err, rc, "wait: the time is over");
    } else {
        struct sk_bytes b = sk_rd_bytes(&r);
        rc = SK_ERR(err, rc, "%.*s", (int)b.n, (const char *)b.p);
    }
    sk_free(m);
    return rc;
}

static sk_rc c_drive(struct sk_engine *e, bool (*done)(void *), void *arg, int64_t deadline,
                     struct sk_err *err) {
    (void)e, (void)done, (void)arg, (void)deadline;
    return SK_ERR(err, SK_EINVAL,
                  "a worker does not drive the engine; run pipelines in the driver");
}
static size_t c_workers(struct sk_engine *e, struct sk_worker_info *out, size_t cap) {
    (void)e, (void)out, (void)cap;
    return 0;
}
static size_t c_status(struct sk_engine *e, char *buf, size_t cap) {
    return (size_t)snprintf(buf, cap, "proc %u\n", C(e)->proc) + 1;
}

static const struct sk_engine_ops ops = {
    .define = c_define,
    .shape = c_shape,
    .submit = c_submit,
    .cancel = c_cancel,
    .actor_create = c_actor_create,
    .actor_end = c_actor_end,
    .put = c_put,
    .get = c_get,
    .wait = c_wait,
    .retain = c_retain,
    .release = c_release,
    .buf_alloc = sk_worker_link_buf_alloc,
    .buf_abort = sk_worker_link_buf_abort,
    .view_release = c_view_release,
    .drive = c_drive,
    .nodes = c_nodes,
};
static const struct sk_actors_ops actors = {
    .find = c_actor_find, .names = c_actor_names, .leave = c_actor_leave};
static const struct sk_streams_ops streams = {
    .next = c_stream_next, .wait = c_stream_wait, .end = c_stream_end, .drop = c_stream_drop};
static const struct sk_custom_ops custom = {
    .index = c_res_index, .more = c_more, .more_read = c_more_read};
static const struct sk_groups_ops groups = {
    .create = c_group_create, .remove = c_group_remove, .list = c_groups};
static const struct sk_envs_ops envs = {.define = c_env_define};
/* In the same table as environments. An engine alone does not look at it: it has one node. */
static const struct sk_wheres_ops wheres = {.define = c_env_define};
static const struct sk_state_ops state = {
    .rows = c_state, .workers = c_workers, .status = c_status};
static const struct sk_watch_ops watch = {.add = c_watch, .remove = c_unwatch};
static const struct sk_windows_ops windows = {
    .open = c_window, .file = c_file, .lease = sk_worker_link_lease, .warm = c_buf_warm};
static const struct sk_engine_class cls = {.name = "local-worker", .close = c_close};
const struct sk_engine sk_worker_engine_calls = {.cls = &cls,
                                                 .ops = &ops,
                                                 .actors = &actors,
                                                 .streams = &streams,
                                                 .custom = &custom,
                                                 .groups = &groups,
                                                 .envs = &envs,
                                                 .wheres = &wheres,
                                                 .state = &state,
                                                 .watch = &watch,
                                                 .windows = &windows,
                                                 .channels = &sk_worker_engine_channels};
