/* object.c - objects of the local engine in the driver: entries, values from messages, waits for
 * objects, and their end. Runs with the lock held.
 *
 * Not here: counting references (own.c), making a lost value again (recover.c). Invariant: a READY
 * object has its value, or is `gone`: its value is lost, which is noticed when the value is needed.
 * A waiter holds the objects that it waits for, and removes its entries when it ends. Cost: one
 * allocation an object, one more for a value of up to 8 KiB, one for each wait for a pending
 * object; a wait begins and ends in O(1), however many waits there are. */
#include <stdio.h>

#include "base/fault.h"
#include "base/mem.h"
#include "engine/foreign.h"
#include "engine/local/driver/local_int.h"

sk_rc sk_obj_new(struct sk_local *l, uint64_t id, uint32_t proc, struct sk_obj **out,
                 struct sk_err *err) {
    struct sk_obj *o = sk_calloc(SK_TAG_ENGINE, sizeof *o);
    if (!o) return SK_ERR(err, SK_ENOMEM, "no memory for an object entry");
    o->id = id;
    sk_rc rc = sk_own_add(l->own, id, proc, o, err);
    if (rc != SK_OK) {
        sk_free(o);
        return rc;
    }
    *out = o;
    return SK_OK;
}

/* ---- objects of other engines ---------------------------------------------------------------- */

bool sk_obj_is_foreign(const struct sk_local *l, uint64_t id) {
    return l->foreign.server && id && (id ^ l->id_base) / SK_ID_RANGE != 0;
}

sk_rc sk_obj_new_foreign(struct sk_local *l, uint64_t id, uint32_t proc, struct sk_err *err) {
    struct sk_obj *o = NULL;
    SK_TRY(sk_obj_new(l, id, proc, &o, err));
    SK_ASSERT(o->state == SK_O_PENDING && l->foreign.server);
    o->foreign = true;
    return SK_OK;
}

void sk_obj_becomes_foreign(struct sk_local *l, struct sk_obj *o) {
    SK_ASSERT(o->state == SK_O_PENDING && !o->foreign && l->foreign.server);
    o->foreign = true;
    o->maker = NULL;
    if (o->deps) sk_obj_want(l, o);
}

static void meet(struct sk_local *l, uint64_t id) {
    if (!sk_obj_is_foreign(l, id) || sk_own_has(l->own, id)) return;
    if (!sk_vec_push(&l->foreign.met, SK_TAG_ENGINE, id)) return;
    if (sk_obj_new_foreign(l, id, SK_PROC_DRIVER, NULL) == SK_OK)
        l->foreign.server->held(l->foreign.server, (sk_oid){id});
    else l->foreign.met.n--;
}

void sk_obj_meet(struct sk_local *l, const uint64_t *ids, uint32_t n) {
    if (SK_LIKELY(!l->foreign.server)) return;
    for (uint32_t i = 0; i < n; i++) meet(l, ids[i]);
}

/* Gives back the references that keep new entries alive. */
static void met(struct sk_local *l) {
    for (uint32_t i = 0; i < l->foreign.met.n; i++)
        SK_IGNORE(sk_own_unref(l->own, l->foreign.met.p[i], SK_PROC_DRIVER, 1, NULL));
    l->foreign.met.n = 0;
}

void sk_obj_want(struct sk_local *l, struct sk_obj *o) {
    if (SK_LIKELY(!o->foreign) || o->wanted || o->state != SK_O_PENDING) return;
    o->wanted = true;
    l->foreign.server->wanted(l->foreign.server, (sk_oid){o->id});
}

/* ---- the end of objects ---------------------------------------------------------------------- */

void sk_inl_drop(struct sk_inl *i) {
    if (!i) return;
    SK_ASSERT(i->refs > 0);
    if (--i->refs == 0) sk_free(i);
}

static void obj_free(struct sk_local *l, struct sk_obj *o) {
    if (o->state == SK_O_ACTOR) {
        l->upcalls->unreferenced(l, o->u.actor);
    } else if (o->state == SK_O_READY) {
        if (o->where == SK_V_INLINE) sk_inl_drop(o->u.inl);
        if (o->st) sk_stored_gone(l, o);
        if (o->where == SK_V_STORE) sk_store_unref(l->store, o->u.off);
    }
    if (SK_UNLIKELY(o->foreign)) l->foreign.server->dropped(l->foreign.server, (sk_oid){o->id});
    SK_ASSERT(!o->deps); /* a waiter holds the object, so an object to be freed has none */
    if (o->known) sk_lineage_gone(l->lin, o->id, (enum sk_lost_why)o->why);
    sk_free(o);
}

void sk_obj_drain(struct sk_local *l) {
    uint64_t id;
    void *data;
    if (SK_UNLIKELY(l->foreign.met.n)) met(l);
    if (l->recovery.relics.n) l->upcalls->relics(l);
    while (sk_own_next_freed(l->own, &id, &data)) obj_free(l, data);
    while (l->lin && sk_lineage_next_free(l->lin, &id, &data)) l->upcalls->unkept(l, data);
}

void sk_objs_free(struct sk_local *l) {
    uint64_t id;
    void *v;
    if (!l->own) return;
    sk_obj_drain(l);
    for (uint32_t c = 0; sk_own_each(l->own, &c, &id, &v);) {
        struct sk_obj *o = v;
        if (o->state == SK_O_READY && o->where == SK_V_INLINE) sk_inl_drop(o->u.inl);
        sk_free(o->st);
        sk_deps_free(o->deps);
        sk_free(o);
    }
}

void sk_deps_free(struct sk_dep *list) {
    for (struct sk_dep *d = list, *next; d; d = next) {
        next = d->next;
        sk_free(d);
    }
}

static void dep_free(struct sk_dep *d) {
    SK_DCHECK(*d->at == d && *d->more_at == d);
    if ((*d->at = d->next)) d->next->at = d->at;
    if ((*d->more_at = d->more)) d->more->more_at = d->more_at;
    sk_free(d);
}

sk_rc sk_dep_add(struct sk_dep **list, struct sk_ltask *t, struct sk_req *q) {
    struct sk_dep **waits = t ? &t->waits : &q->waits, *d = sk_alloc(SK_TAG_ENGINE, sizeof *d);
    if (!d) return SK_ENOMEM;
    SK_DCHECK(!t != !q); /* exactly one of the two is given */
    *d = (struct sk_dep){
        .next = *list, .at = list, .more = *waits, .more_at = waits, .task = t, .req = q};
    SK_DCHECK(!*list || (*list)->at == list);
    if (d->next) d->next->at = &d->next;
    if (d->more) d->more->more_at = &d->more;
    *list = *waits = d;
    if (t) t->n_unready++;
    return SK_OK;
}

sk_rc sk_dep_again(struct sk_obj *o, struct sk_req *q) {
    SK_TRY(sk_dep_add(&o->deps, NULL, q));
    SK_DCHECK(q->n_ready > 0);
    q->n_ready--;
    return SK_OK;
}

void sk_dep_forget(struct sk_dep *waits) {
    for (struct sk_dep *d = waits, *more; d; d = more) {
        more = d->more;
        dep_free(d);
    }
}

void sk_dep_tell(struct sk_local *l, struct sk_dep *d) {
    struct sk_ltask *t = d->task;
    struct sk_req *q = d->req;
    SK_DCHECK(!t || t->state != SK_T_WAITING || t->n_unready > 0);
    SK_DCHECK(!q || q->n_ready < q->want || q->type == SK_M_WAIT || q->type == SK_M_GET);
    dep_free(d);
    if (t) {
        if (t->state == SK_T_WAITING && --t->n_unready == 0) l->upcalls->due(l, t);
    } else if (++q->n_ready >= q->want) {
        l->upcalls->answer(l, q, SK_OK);
    }
}

/* Telling one waiter may end others, or show that the object is lost: then the other waiters go on
 * waiting. */
void sk_dep_done(struct sk_local *l, struct sk_obj *o) {
    while (o->deps && o->state == SK_O_READY) sk_dep_tell(l, o->deps);
}

void sk_obj_ready(struct sk_local *l, struct sk_obj *o) {
    SK_DCHECK(o->state == SK_O_PENDING);
    o->state = SK_O_READY;
    o->maker = NULL;
    sk_progressed(l);
    if (!o->deps) return;
    uint64_t id = o->id;
    if (SK_UNLIKELY(o->gone)) {
        l->upcalls->lost(l, id);
        return;
    }
    /* the last waiter may be the last holder of the object */
    bool held = sk_own_hold(l->own, id, NULL) == SK_OK;
    sk_dep_done(l, o);
    if (held) sk_own_unhold(l->own, id);
}

struct sk_inl *sk_inl_new(const void *p, size_t n) {
    struct sk_inl *i = sk_alloc(SK_TAG_ENGINE, sizeof *i + n);
    if (!i) return NULL;
    SK_DCHECK(n <= UINT32_MAX);
    i->refs = 1;
    i->len = (uint32_t)n;
    if (n) memcpy(i->bytes, p, n);
    return i;
}

uint64_t sk_obj_error(struct sk_local *l, uint32_t kind, const void *bytes, size_t n) {
    struct sk_obj *o = NULL;
    uint64_t id = sk_new_ids(l, 1);
    if (sk_obj_new(l, id, SK_PROC_DRIVER, &o, NULL) != SK_OK) return 0;
    o->kind = kind;
    o->where = SK_V_INLINE;
    o->u.inl = sk_inl_new(bytes, n);
    o->len = o->u.inl ? n : 0;
    o->state = SK_O_READY;
    return id;
}

void sk_obj_set_inline(struct sk_local *l, struct sk_obj *o, uint32_t kind, struct sk_inl *value) {
    SK_DCHECK(o->state == SK_O_PENDING);
    if (value) value->refs++;
    o->kind = kind;
    o->where = SK_V_INLINE;
    o->u.inl = value;
    o->len = value ? value->len : 0;
    sk_obj_ready(l, o);
}

void sk_obj_set_stored(struct sk_local *l, struct sk_obj *o, uint32_t proc, uint32_t kind,
                       sk_off off, uint64_t len) {
    SK_DCHECK(o->state == SK_O_PENDING && !o->st); /* the pending object has no bytes yet */
    o->kind = kind;
    o->len = len;
    o->where = SK_V_STORE;
    o->u.off = off;
    sk_obj_home(proc, off);
    if (SK_FAULT("store.lose")) o->gone = true;
    sk_stored_new(l, o);
    sk_obj_ready(l, o);
}

void sk_obj_set_on_disk(struct sk_obj *o, uint32_t kind, uint64_t len, struct sk_stored *st) {
    SK_DCHECK(o->state == SK_O_PENDING && !o->deps);
    o->kind = kind;
    o->len = len;
    o->where = SK_V_DISK;
    o->st = st;
    o->state = SK_O_READY;
}

void sk_obj_set_actor(struct sk_obj *o, struct sk_lactor *a) {
    SK_DCHECK(o->state == SK_O_PENDING && !o->deps);
    o->state = SK_O_ACTOR;
    o->u.actor = a;
}

void sk_obj_unready(struct sk_local *l, struct sk_obj *o) {
    SK_DCHECK(o->state == SK_O_READY && !o->st);
    o->gone = false;
    o->state = SK_O_PENDING;
    o->maker = NULL;
    sk_own_uncontain(l->own, o->id);
}

uint64_t sk_obj_pass_bytes(struct sk_local *l, const struct sk_obj *o) {
    struct sk_obj *to = NULL;
    uint64_t id = sk_new_ids(l, 1);
    SK_DCHECK(o->state == SK_O_READY && o->where == SK_V_STORE);
    if (sk_obj_new(l, id, SK_PROC_DRIVER, &to, NULL) != SK_OK) return 0;
    to->state = SK_O_READY;
    to->kind = o->kind;
    to->len = o->len;
    to->where = SK_V_STORE;
    to->u.off = o->u.off;
    sk_own_pass_inner(l->own, o->id, id);
    return id;
}

/* Gives a pending object an error, because there is no way to get its value. */
static void fail_value(struct sk_local *l, struct sk_obj *o, sk_rc rc, const char *what,
                       const char *why) {
    char text[600];
    snprintf(text, sizeof text, "%s: %.400s", what, why);
    struct sk_inl *e = sk_engine_error(rc, text); /* NULL (no memory): an error without a text */
    sk_obj_set_inline(l, o, SK_KIND_ENGINE_ERROR, e);
    sk_inl_drop(e);
}

void sk_obj_set(struct sk_local *l, uint64_t id, uint32_t proc, const struct sk_val *v,
                const void *bytes, struct sk_ids in) {
    struct sk_err err;
    struct sk_obj *o = id ? sk_obj_get(l, id) : NULL;
    sk_rc sealed =
        v->where == SK_V_STORE ? sk_store_commit(l->store, proc, v->off, v->len, &err) : SK_OK;
    if (sealed != SK_OK) {
        /* The worker has reported memory that it does not hold, and its lease goes back when it
         * dies. Or (SK_ENOMEM) there is no memory to record the value, and the lease goes back
         * here. The object gets an error. */
        if (sealed == SK_ENOMEM) SK_IGNORE(sk_store_unlease(l->store, proc, v->off, v->len, NULL));
        if (o && o->state == SK_O_PENDING) {
            if (sealed == SK_ENOMEM)
                fail_value(l, o, SK_ENOMEM, "no memory to record a value", err.msg);
            else
                fail_value(l, o, SK_ECORRUPT, "a worker sealed memory that it did not hold",
                           err.msg);
        }
        return;
    }
    if (v->keep && v->where == SK_V_STORE && sk_store_pin(l->store, proc, v->off) != SK_OK) {
        sk_store_unref(l->store, v->off);
        if (o && o->state == SK_O_PENDING)
            fail_value(l, o, SK_ENOMEM, "no memory to record a value", "its writer reads it");
        return;
    }
    if (!o || o->state != SK_O_PENDING) {
        if (v->where == SK_V_STORE) sk_store_unref(l->store, v->off);
        return;
    }
    sk_obj_meet(l, in.p, in.n);
    /* A reference to an object that no longer exists is not an error here: a get of that object
     * fails with "lost", while this value is whole. */
    if (in.n && sk_own_contains(l->own, id, in.p, in.n, &err) == SK_ENOMEM) {
        if (v->where == SK_V_STORE) sk_store_unref(l->store, v->off);
        fail_value(l, o, SK_ENOMEM, "no memory to record the references in a value", err.msg);
        return;
    }
    if (v->where == SK_V_STORE) {
        sk_obj_set_stored(l, o, proc, v->kind, v->off, v->len);
        return;
    }
    struct sk_inl *value = sk_inl_new(bytes, (size_t)v->len);
    if (value) {
        sk_obj_set_inline(l, o, v->kind, value);
        sk_inl_drop(value);
    } else {
        snprintf(err.msg, sizeof err.msg, "%llu bytes were asked for", (unsigned long long)v->len);
        fail_value(l, o, SK_ENOMEM, "no memory for a value", err.msg);
    }
}

struct sk_inl *sk_engine_error(sk_rc rc, const char *msg) {
    size_t n = strlen(msg) + 1;
    struct sk_inl *i = sk_alloc(SK_TAG_ENGINE, sizeof *i + 4 + n);
    if (!i) return NULL;
    int32_t code = rc;
    i->refs = 1;
    i->len = (uint32_t)(4 + n);
    memcpy(i->bytes, &code, 4);
    memcpy(i->bytes + 4, msg, n);
    return i;
}
