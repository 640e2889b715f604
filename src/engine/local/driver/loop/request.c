/* request.c - requests of workers that wait: get, wait and the next value of a stream, answered
 * when the objects or yields that they wait for exist. Runs with the lock held.
 *
 * Invariant: a request is in its worker's `reqs`, holds its objects and is answered once. While
 * a worker waits, its CPU is lent to others, and the tasks queued behind the waiting one go
 * elsewhere. */
#include "base/mem.h"
#include "engine/local/driver/local_int.h"
#include "engine/foreign.h"
#include "engine/watch.h"

void sk_reqs_init(struct sk_local *l) { sk_list_init(&l->watches); }

void sk_reqs_free(struct sk_local *l) {
    for (uint32_t i = 0; i < l->pool.n_used; i++) {
        struct sk_lworker *w = l->pool.workers[i];
        if (!w) continue;
        sk_list_splice(&w->reqs, &w->watches);
        while (!sk_list_empty(&w->reqs)) {
            struct sk_list *it = w->reqs.next;
            sk_list_del(it);
            sk_free(sk_container_of(it, struct sk_req, link));
        }
    }
}

void sk_reqs_worker_gone(struct sk_local *l, struct sk_lworker *w) {
    sk_list_splice(&w->reqs, &w->watches);
    while (!sk_list_empty(&w->reqs))
        sk_req_free(l, sk_container_of(w->reqs.next, struct sk_req, link));
}

void sk_req_fire_all(struct sk_local *l) {
    while (!sk_list_empty(&l->watches))
        sk_req_fire(l, sk_container_of(l->watches.next, struct sk_req, link));
}

void sk_req_free(struct sk_local *l, struct sk_req *q) {
    sk_dep_forget(q->waits);
    SK_DCHECK(!q->waits);
    for (uint32_t i = 0; i < q->n; i++) sk_own_unhold(l->own, q->oids[i]);
    sk_space_get_over(l, &q->get);
    sk_list_del(&q->link);
    sk_free(q);
}

static void write_get(struct sk_local *l, struct sk_req *q, struct sk_wr *m) {
    sk_wr_u32(m, SK_M_REPLY);
    sk_wr_u32(m, SK_OK);
    sk_wr_u64(m, q->req);
    sk_wr_u32(m, q->n);
    for (uint32_t i = 0; i < q->n; i++) {
        struct sk_obj *o = sk_obj_get(l, q->oids[i]);
        /* the object is held by the request, and sk_space_get has checked it */
        SK_DCHECK(o && o->state != SK_O_PENDING && o->where != SK_V_DISK);
        struct sk_val v = {.kind = o->kind, .where = o->where, .oid = o->id, .len = o->len};
        if (o->where == SK_V_STORE) v.off = o->u.off;
        sk_wr_val(m, &v, o->where == SK_V_INLINE && o->u.inl ? (const void *)o->u.inl->bytes : "");
    }
}

static void unpin(struct sk_local *l, struct sk_req *q, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) {
        struct sk_obj *o = sk_obj_get(l, q->oids[i]);
        if (o->where == SK_V_STORE && o->state == SK_O_READY)
            (void)sk_store_unpin(l->store, q->w->proc, o->u.off);
    }
}

static bool pin_all(struct sk_local *l, struct sk_req *q) {
    uint32_t i = 0;
    for (; i < q->n; i++) {
        struct sk_obj *o = sk_obj_get(l, q->oids[i]);
        if (o->where == SK_V_STORE && o->state == SK_O_READY &&
            sk_store_pin(l->store, q->w->proc, o->u.off) != SK_OK)
            break;
    }
    if (i == q->n) return true;
    unpin(l, q, i);
    return false;
}

/* Fires a watch: the object or yield that it watches exists. */
void sk_req_fire(struct sk_local *l, struct sk_req *q) {
    struct sk_lworker *w = q->w;
    struct sk_watch *watch = q->watch;
    SK_DCHECK(!w != !watch);
    struct {
        uint32_t type, pad;
        uint64_t req;
    } m = {SK_M_FIRED, 0, q->req};
    sk_req_free(l, q);
    if (w) {
        (void)sk_driver_link_reply(l, w, &m, sizeof m);
        if (sk_list_empty(&w->reqs)) sk_worker_goes_on(l, w);
        return;
    }
    watch->id = 0;
    watch->fn(watch);
}

void sk_req_unwatch(struct sk_local *l, struct sk_lworker *w, uint64_t req) {
    SK_LIST_EACH (it, &w->watches) {
        struct sk_req *q = sk_container_of(it, struct sk_req, link);
        if (q->req != req) continue;
        sk_req_free(l, q);
        if (sk_list_empty(&w->reqs)) sk_worker_goes_on(l, w);
        return;
    }
}

sk_rc sk_req_watch(struct sk_local *l, struct sk_lworker *w, uint64_t req, uint64_t oid,
                   uint64_t tid, struct sk_watch *watch, struct sk_err *err) {
    struct sk_ltask *t = oid ? NULL : sk_map_get(&l->tasks, tid);
    struct sk_obj *o = oid ? sk_obj_get(l, oid) : NULL;
    struct sk_lactor *a = o && o->state == SK_O_ACTOR ? o->u.actor : NULL;
    if (a ? a->state == SK_A_DEAD : oid ? !o || o->state != SK_O_PENDING : sk_stream_stirs(t))
        return SK_EDONE;
    struct sk_req *q = sk_calloc(SK_TAG_ENGINE, sizeof *q + 8);
    if (!q) return SK_ERR(err, SK_ENOMEM, "no memory to watch an object");
    *q = (struct sk_req){
        .w = w, .watch = watch, .type = SK_M_WATCH, .req = req, .want = 1, .tid = oid ? 0 : tid};
    sk_list_init(&q->link);
    sk_list_init(&q->get.link);
    sk_rc rc = SK_OK;
    if (a) {
        rc = sk_dep_add(&a->watchers, NULL, q);
    } else if (oid) {
        SK_GO(sk_own_hold(l->own, oid, err));
        SK_DCHECK(q->n == 0); /* there is room for one id */
        q->oids[q->n++] = oid;
        sk_obj_want(l, o);
        rc = sk_dep_add(&o->deps, NULL, q);
    } else {
        rc = sk_dep_add(&t->stream_waiters, NULL, q);
    }
    if (rc == SK_OK) {
        sk_list_push_back(w ? &w->watches : &l->watches, &q->link);
        if (watch) watch->id = (uintptr_t)q;
        if (w) sk_worker_waits(l, w);
        return SK_OK;
    }
    SK_ERR(err, rc, "no memory to watch an object");
out:
    sk_req_free(l, q);
    return rc;
}

void sk_req_reply(struct sk_local *l, struct sk_req *q, sk_rc rc) {
    struct sk_lworker *w = q->w;
    SK_ASSERT(w || q->type == SK_M_WATCH);
    SK_DCHECK(!sk_list_empty(&q->link)); /* still in a list, so it has not been answered */
    if (q->type == SK_M_WATCH) {
        sk_req_fire(l, q);
        return;
    }
    if (q->type == SK_M_GET && rc == SK_OK && sk_space_get(l, q)) {
        sk_worker_waits(l, w);
        return;
    }
    sk_worker_goes_on(l, w);
    if (q->type == SK_M_GET) {
        if (rc != SK_OK) {
            sk_driver_link_error(l, w, q->req, rc,
                                 rc == SK_ETIMEOUT ? "get: the time is over" : l->space.refuse_msg);
        } else {
            struct sk_wr m = sk_wr_init(NULL, 0);
            write_get(l, q, &m);
            uint8_t *p = sk_alloc(SK_TAG_ENGINE, m.n);
            if (!p || !pin_all(l, q)) {
                sk_driver_link_error(l, w, q->req, SK_ENOMEM, "get: no memory for the reply");
            } else {
                m = sk_wr_init(p, m.n);
                write_get(l, q, &m);
                if (!sk_driver_link_reply(l, w, p, m.n)) {
                    unpin(l, q, q->n);
                    sk_driver_link_error(l, w, q->req, SK_EFULL,
                                         "get: the values are many, and the object store is too "
                                         "full for the message that holds them");
                }
            }
            sk_free(p);
        }
    } else if (q->type == SK_M_WAIT) {
        size_t cap = 64 + q->n;
        uint8_t *p = sk_alloc(SK_TAG_ENGINE, cap);
        if (p) {
            struct sk_wr m = sk_wr_init(p, cap);
            sk_wr_u32(&m, SK_M_REPLY);
            sk_wr_u32(&m, (uint32_t)rc);
            sk_wr_u64(&m, q->req);
            sk_wr_u64(&m, q->n);
            for (uint32_t i = 0; i < q->n; i++) {
                struct sk_obj *o = sk_obj_get(l, q->oids[i]);
                sk_wr_u8(&m, o && o->state != SK_O_PENDING);
            }
            if (!sk_driver_link_reply(l, w, p, m.n))
                sk_driver_link_error(l, w, q->req, SK_EFULL,
                                     "wait: the object store is too full for the answer");
            sk_free(p);
        } else {
            sk_driver_link_error(l, w, q->req, SK_ENOMEM, "wait: no memory for the reply");
        }
    } else { /* a NEXT or a PEEK of a stream */
        struct sk_ltask *t = sk_map_get(&l->tasks, q->tid);
        uint64_t oid = 0;
        sk_rc r = rc;
        if (rc == SK_OK && q->type == SK_M_PEEK) r = sk_stream_at_end(t) ? SK_EDONE : SK_OK;
        else if (rc == SK_OK) r = t ? sk_stream_take(l, t, w->proc, &oid) : SK_EDONE;
        /* a request is answered only when a yield or the end exists, see sk_stream_wake */
        SK_ASSERT(r != SK_EAGAIN);
        struct {
            uint32_t type, rc;
            uint64_t req, oid;
        } m = {SK_M_REPLY, (uint32_t)r, q->req, oid};
        (void)sk_driver_link_reply(l, w, &m, sizeof m);
    }
    sk_req_free(l, q);
}

void sk_req_wait(struct sk_local *l, struct sk_lworker *w, uint32_t type, struct sk_rd *r) {
    uint64_t req = sk_rd_u64(r);
    uint32_t want = sk_rd_u32(r), n = sk_rd_u32(r);
    const uint64_t *ids = sk_rd_raw(r, (size_t)n * 8);
    if (r->bad) return;
    struct sk_req *q = sk_calloc(SK_TAG_ENGINE, sizeof *q + (size_t)n * 8);
    if (!q) {
        sk_driver_link_error(l, w, req, SK_ENOMEM, "no memory for a request");
        return;
    }
    *q = (struct sk_req){.w = w, .type = type, .req = req, .want = want};
    sk_list_init(&q->link);
    sk_list_init(&q->get.link);
    for (uint32_t i = 0; i < n; i++) {
        struct sk_err e;
        if (sk_own_hold(l->own, ids[i], &e) != SK_OK) {
            sk_list_push_back(&w->reqs, &q->link);
            sk_req_free(l, q);
            sk_driver_link_error(
                l, w, req, SK_ELOST,
                (ids[i] ^ l->id_base) / SK_ID_RANGE
                    ? "the object belongs to another engine: a reference inside a value does not "
                      "travel between a node and its driver"
                    : "the object does not exist any more: its last reference was released");
            return;
        }
        q->oids[q->n++] = ids[i];
        struct sk_obj *o = sk_obj_get(l, ids[i]);
        if (type == SK_M_GET && o->gone) sk_recover_lost(l, ids[i]);
        sk_obj_want(l, o);
        /* this value is read from disk while the request waits for the others */
        if (type == SK_M_GET && o->state == SK_O_READY && o->where == SK_V_DISK)
            sk_stored_want(l, o);
    }
    sk_list_push_back(&w->reqs, &q->link);
    for (uint32_t i = 0; i < n; i++) {
        struct sk_obj *o = sk_obj_get(l, ids[i]);
        SK_ASSERT(o); /* the request holds this object */
        if (o->state != SK_O_PENDING) {
            q->n_ready++;
        } else if (sk_dep_add(&o->deps, NULL, q) != SK_OK) {
            sk_driver_link_error(l, w, req, SK_ENOMEM, "no memory for a request");
            sk_req_free(l, q);
            return;
        }
    }
    if (type == SK_M_GET) {
        q->get.ids = q->oids;
        q->get.n = n;
        sk_space_get_begins(l, &q->get);
    }
    if (q->n_ready >= q->want) sk_req_reply(l, q, SK_OK);
    else sk_worker_waits(l, w);
}

void sk_req_next(struct sk_local *l, struct sk_lworker *w, uint32_t type, struct sk_rd *r) {
    uint64_t req = sk_rd_u64(r), tid = sk_rd_u64(r);
    struct sk_ltask *t = sk_map_get(&l->tasks, tid);
    if (t && (!sk_ltask_is_stream(t) || t->sink)) { /* a worker cannot read this task's yields */
        r->bad = true;
        return;
    }
    struct sk_req *q = sk_calloc(SK_TAG_ENGINE, sizeof *q);
    if (!q) {
        sk_driver_link_error(l, w, req, SK_ENOMEM, "no memory for a request");
        return;
    }
    *q = (struct sk_req){.w = w, .type = type, .req = req, .tid = tid, .want = 1};
    sk_list_init(&q->link);
    sk_list_init(&q->get.link);
    sk_list_push_back(&w->reqs, &q->link);
    if (sk_stream_stirs(t)) {
        sk_req_reply(l, q, SK_OK);
    } else if (sk_dep_add(&t->stream_waiters, NULL, q) != SK_OK) {
        sk_driver_link_error(l, w, req, SK_ENOMEM, "no memory for a request");
        sk_req_free(l, q);
    } else {
        sk_worker_waits(l, w);
    }
}
