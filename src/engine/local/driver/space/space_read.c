/* space_read.c - values on disk: waits for them, and how they are read back. Runs with the lock
 * held.
 *
 * Values are read in the order in which they were wanted, several in one job. The arguments of
 * tasks that are next in line are read ahead when there is memory that nothing else needs.
 * Invariant: a wait for a value ends when the value is in the store, or with the reason why it
 * cannot be read. */
#include <stdio.h>

#include "base/clock.h"
#include "base/log/log.h"
#include "base/mem.h"
#include "base/containers/vec.h"
#include "engine/local/driver/space/space_int.h"

#define OVER_BYTES (UINT64_C(1) << 20) /* approximate bytes read into the overflow by one job */
/* bytes; read together with a small value: those values that were written behind it */
#define AHEAD_MIN (UINT64_C(128) << 10)
#define AGAIN_NS INT64_C(2000000) /* wait after a choice that found nothing */

/* ---- waits for values ------------------------------------------------------------------------ */

/* Gives each argument of t that is a part of a value on disk an object of its own, for which
 * only the part is read. */
static sk_rc make_parts(struct sk_local *l, struct sk_ltask *t) {
    struct sk_rd r = sk_rd_init(t->spec.args, t->spec.args_len);
    for (uint32_t i = 0; i < t->spec.n_args; i++) {
        struct sk_val v;
        sk_rd_val(&r, &v);
        if (v.where != SK_V_PART || !v.len || sk_part_find(t, i)) continue;
        const struct sk_obj *o = sk_obj_get(l, v.oid);
        if (o->state == SK_O_READY && o->where == SK_V_DISK) SK_TRY(sk_part_make(l, t, i, o, &v));
    }
    return SK_OK;
}

sk_rc sk_space_args(struct sk_local *l, struct sk_ltask *t) {
    if (SK_UNLIKELY(t->spec.parts)) SK_TRY(make_parts(l, t));
    struct arg_iter it = args_of(t);
    SK_DCHECK(t->state == SK_T_READY && !t->waits && t->n_unready == 0);
    for (struct sk_obj *o; (o = next_arg(l, &it));) {
        if (o->where != SK_V_DISK) continue;
        if (sk_dep_add(&o->deps, t, NULL) != SK_OK) {
            sk_ltask_forget_deps(t);
            return SK_ENOMEM;
        }
        sk_stored_want(l, o);
    }
    if (!t->n_unready) return SK_OK;
    sk_ltask_to(t, SK_T_WAITING);
    return SK_EAGAIN;
}

bool sk_space_get(struct sk_local *l, struct sk_req *q) {
    bool waits = false;
    if (!l->stored.n_disk) return false;
    for (uint32_t i = 0; i < q->n; i++) {
        struct sk_obj *o = sk_obj_get(l, q->oids[i]);
        SK_ASSERT(o);
        if (o->state != SK_O_READY || o->where != SK_V_DISK) continue;
        waits = true;
        if (sk_dep_again(o, q) != SK_OK) {
            sk_driver_link_kill(l, q->w, "there is no memory left to answer it");
            break;
        }
        sk_stored_want(l, o);
    }
    return waits;
}

void sk_space_get_begins(struct sk_local *l, struct sk_get_wait *g) {
    sk_list_push_back(&l->space.get_waits, &g->link);
    /* the thread that drives may be asleep on this bell */
    if (!sk_list_empty(wanted_of(l))) sk_bell_ring(&l->ctl->bell[0]);
}

void sk_space_get_over(struct sk_local *l, struct sk_get_wait *g) {
    sk_list_del(&g->link);
    sk_space_released(l);
}

/* Gives everything that waits for the value an error. */
void sk_space_refuse(struct sk_local *l, struct sk_stored *st, sk_rc rc, const char *msg) {
    struct sk_obj *o = st->o;
    char name[200];
    if (st->state != SK_STORED_DISK) sk_stored_unwant(l, st);
    sk_progressed(l);
    l->space.refuse_rc = rc;
    snprintf(l->space.refuse_msg, sizeof l->space.refuse_msg,
             "object %llu (%llu bytes) cannot be read back from disk: %s",
             (unsigned long long)o->id, (unsigned long long)o->len, msg);
    uint64_t id = o->id;
    SK_LIST_EACH (it, &l->space.get_waits) {
        struct sk_get_wait *g = sk_container_of(it, struct sk_get_wait, link);
        for (size_t i = 0; i < g->n; i++)
            if (g->ids[i] == id) g->refused = rc;
    }
    if (sk_own_hold(l->own, id, NULL) != SK_OK) return;
    for (struct sk_dep *d; (d = o->deps) != NULL;) {
        struct sk_ltask *t = d->task;
        struct sk_req *q = d->req;
        if (t) sk_ltask_forget_deps(t);
        else sk_dep_forget(q->waits);
        if (t && t->state == SK_T_WAITING) {
            struct sk_lactor *a = t->kind == SK_TASK_CALL ? t->actor : NULL;
            sk_ltask_fail(l, t, rc, "task %s: %s", sk_ltask_name(l, t, name, sizeof name),
                          l->space.refuse_msg);
            if (a) l->upcalls->advance(l, a);
        }
        if (q) l->upcalls->answer(l, q, rc);
    }
    sk_own_unhold(l->own, id);
    sk_obj_drain(l);
}

/* Call when the bytes of st are in the store at `off`: tells the tasks and gets that wait for
 * them. */
static void came_back(struct sk_local *l, struct sk_stored *st, sk_off off) {
    struct sk_obj *o = st->o;
    uint64_t id = o->id;
    sk_stored_back(l, st, off);
    sk_obj_home(SK_PROC_SPILL, off);
    sk_progressed(l);
    if (!o->deps) return;
    if (sk_own_hold(l->own, id, NULL) != SK_OK) return;
    sk_dep_done(l, o);
    sk_own_unhold(l->own, id);
}

/* Call when the bytes of a part are damaged: makes the task that needs the part check its arguments
 * again. By then the whole value is in memory, or is lost as well. */
static void part_lost(struct sk_local *l, uint64_t id) {
    struct sk_obj *o = sk_obj_get(l, id);
    if (!o || sk_own_hold(l->own, id, NULL) != SK_OK) return;
    for (struct sk_dep *d; (d = o->deps) != NULL;) {
        struct sk_ltask *t = d->task;
        SK_ASSERT(t && t->state == SK_T_WAITING); /* only that task knows the object */
        sk_ltask_forget_deps(t);
        sk_parts_drop(l, t);
        l->upcalls->due(l, t);
    }
    sk_own_unhold(l->own, id);
}

/* ---- reading --------------------------------------------------------------------------------- */

void sk_space_read_back(struct sk_local *l, struct sk_spill_job *job) {
    l->space.progress_ns = l->space.alone_ns = sk_now_ns();
    for (uint32_t i = 0; i < job->n; i++) {
        struct sk_spill_item *x = &job->items[i];
        struct sk_stored *st = x->user;
        sk_off off = (sk_off)(x->bytes - l->data_seg.base);
        uint64_t len = SK_MAX(x->part_len ? x->part_len : x->len, 1);
        sk_rc rc = x->rc;
        if (st && rc == SK_OK) rc = sk_store_commit(l->store, SK_PROC_SPILL, off, len, NULL);
        /* this cannot fail, because a whole lease is given back */
        if (!st || rc != SK_OK)
            SK_IGNORE(sk_store_unlease(l->store, SK_PROC_SPILL, off, len, NULL));
        if (!st) continue;
        SK_ASSERT(st->io == x && st->o->where == SK_V_DISK);
        sk_stored_unwant(l, st);
        if (rc == SK_OK) {
            came_back(l, st, off);
        } else if (rc == SK_ENOMEM) {
            sk_space_refuse(l, st, rc, "no memory");
        } else { /* the bytes are lost: the value is made again if that is possible */
            sk_log(SK_LOG_WARN, "spill_lost object=%llu msg=\"%s\"", (unsigned long long)x->id,
                   job->err.msg);
            snprintf(l->space.spoiled_msg, sizeof l->space.spoiled_msg, "%.290s", job->err.msg);
            l->space.n_spoiled++;
            bool part = st->part; /* st is freed with the value */
            uint64_t id = st->o->id;
            struct sk_obj *o = part ? sk_obj_get(l, x->id) : st->o;
            if (o && (!part || o->where == SK_V_DISK)) sk_recover_spoiled(l, o);
            if (part) part_lost(l, id);
        }
    }
    sk_obj_drain(l);
}

struct reads {
    SK_VEC(struct sk_stored *) who;
    SK_VEC(sk_off) to;
    uint64_t bytes;
};

static void reads_flush(struct sk_local *l, struct reads *r) {
    uint32_t n = r->who.n;
    if (!n) return;
    struct sk_spill_job *job = sk_spill_job(n);
    struct sk_err err = {.msg = "no memory"};
    for (uint32_t i = 0; job && i < n; i++) {
        struct sk_stored *st = r->who.p[i];
        job->items[i] = (struct sk_spill_item){.id = st->o->id,
                                               .bytes = l->data_seg.base + r->to.p[i],
                                               .len = st->o->len,
                                               .at = st->at,
                                               .user = st};
        if (SK_LIKELY(!st->part)) continue;
        const struct sk_stored_part *p = sk_part_of(st);
        job->items[i].id = p->whole;
        job->items[i].len = p->len;
        job->items[i].part_at = p->at;
        job->items[i].part_len = st->o->len;
    }
    sk_rc rc = job ? sk_spill_read(l->space.spill, job, &err) : SK_ENOMEM;
    if (rc == SK_OK) {
        l->space.n_io++;
        /* the items are now in the order of their places on disk */
        for (uint32_t i = 0; i < n; i++) sk_stored_reads(job->items[i].user, &job->items[i]);
    } else {
        sk_free(job);
        for (uint32_t i = 0; i < n; i++)
            SK_IGNORE(sk_store_unlease(l->store, SK_PROC_SPILL, r->to.p[i],
                                       SK_MAX(r->who.p[i]->o->len, 1), NULL));
        while (r->who.n) { /* telling a waiter may free other entries of the list */
            struct sk_list *it = sk_list_first(&l->stored.in[SK_STORED_READING]);
            struct sk_stored *st = sk_vec_pop(&r->who);
            bool there = false;
            for (; it && it != &l->stored.in[SK_STORED_READING] && !there; it = it->next)
                there = stored_of(it) == st;
            if (there) sk_space_refuse(l, st, rc, err.msg);
        }
    }
    r->who.n = r->to.n = 0;
    r->bytes = 0;
}

static sk_rc reads_add(struct sk_local *l, struct reads *r, struct sk_stored *st, bool overflow) {
    sk_off off;
    uint64_t len = SK_MAX(st->o->len, 1);
    if (!sk_vec_reserve(&r->who, SK_TAG_ENGINE, r->who.n + 1) ||
        !sk_vec_reserve(&r->to, SK_TAG_ENGINE, r->to.n + 1))
        return SK_ENOMEM;
    SK_TRY(overflow ? sk_space_overflow(l, SK_PROC_SPILL, len, &off, NULL)
                    : sk_store_alloc(l->store, SK_PROC_SPILL, len, &off, NULL));
    SK_DCHECK(st->o->where == SK_V_DISK && !st->io && r->who.n == r->to.n);
    r->who.p[r->who.n++] = st;
    r->to.p[r->to.n++] = off;
    r->bytes += st->o->len;
    sk_stored_begin_read(l, st);
    return SK_OK;
}

/* If a small value lies where the last read ended, the values behind it will probably be wanted
 * next: they are read with it, twice as many bytes each time. */
static void read_on(struct sk_local *l, struct reads *r, struct sk_stored *st) {
    struct sk_space *sp = &l->space;
    uint64_t pos = sk_spill_pos(&st->at);
    bool follows = pos > sp->last_pos && pos - sp->last_pos < JOB_BYTES;
    sp->ahead_bytes = follows ? SK_MIN(SK_MAX(sp->ahead_bytes * 2, AHEAD_MIN), JOB_BYTES) : 0;
    sp->last_pos = pos;
    uint64_t until = st->at.off + sp->ahead_bytes;
    for (struct sk_list *it = st->sibling.next; sp->ahead_bytes; it = it->next) {
        struct sk_stored *x = sk_container_of(it, struct sk_stored, sibling);
        /* the ring of siblings has begun again, or enough is read ahead */
        if (x->at.off <= st->at.off || x->at.off > until) break;
        if (x->o->where == SK_V_DISK && !x->io &&
            (x->state == SK_STORED_DISK || x->state == SK_STORED_AHEAD) &&
            reads_add(l, r, x, false) != SK_OK)
            break;
        sp->last_pos = sk_spill_pos(&x->at);
    }
}

/* Values that the first waiter needs and that were in the store earlier, but were evicted before
 * the waiter became the first, are wanted together with the rest. */
static void gather_first(struct sk_local *l) {
    const struct sk_get_wait *g;
    const struct sk_ltask *t;
    struct sk_list *first = sk_list_first(wanted_of(l));
    if (!first || l->space.gathered == stored_of(first)->o->id) return;
    l->space.gathered = stored_of(first)->o->id;
    sk_space_first_waiter(l, &g, &t);
    for (size_t i = g ? g->n : 0; i-- > 0;)
        sk_stored_want_next(l, sk_obj_get(l, g->ids[i]), stored_of(first));
    if (!t) return;
    struct arg_iter it = args_of(t);
    for (struct sk_obj *o; (o = next_arg(l, &it));) sk_stored_want_next(l, o, stored_of(first));
}

/* Reads wanted values, in order. SK_EFULL: there is no room for the first one. */
sk_rc sk_space_read(struct sk_local *l) {
    struct reads r = {0};
    gather_first(l);
    sk_rc rc = SK_OK;
    for (struct sk_list *it; rc == SK_OK && (it = sk_list_first(wanted_of(l)));) {
        struct sk_stored *st = stored_of(it);
        rc = reads_add(l, &r, st, room_of(st->o) > size_of(l));
        if (rc == SK_OK && !st->part && st->o->len < JOB_BYTES / 4 &&
            sk_list_empty(&l->space.mem_waits))
            read_on(l, &r, st);
        if (r.bytes >= JOB_BYTES || r.who.n >= JOB_OBJECTS) reads_flush(l, &r);
    }
    reads_flush(l, &r);
    sk_vec_free(&r.who);
    sk_vec_free(&r.to);
    return rc;
}

/* Reads the values that the next tasks in line need, into room that nothing else needs. */
void sk_space_read_ahead(struct sk_local *l) {
    struct sk_space *sp = &l->space;
    uint64_t low = size_of(l) / 16, need = 2 * low, left = left_of(l);
    struct reads r = {0};
    sk_stored_soon_over(l); /* drops the marks of the previous call */
    if (!l->stored.n_disk || !sk_list_empty(&sp->mem_waits) || !sk_list_empty(wanted_of(l))) return;
    sk_space_each_soon(l, sk_stored_soon);
    if (sk_list_empty(&l->stored.in[SK_STORED_AHEAD])) return;
    SK_LIST_EACH (it, &l->stored.in[SK_STORED_AHEAD]) need += room_of(stored_of(it)->o);
    int64_t now = sk_now_ns();
    if (left + sp->writing_bytes < need && now >= sp->choose_after_ns &&
        !sk_space_evict(l, need - left - sp->writing_bytes, SK_USE_NONE, now))
        sp->choose_after_ns = now + AGAIN_NS;
    for (struct sk_list *it; (it = sk_list_first(&l->stored.in[SK_STORED_AHEAD]));) {
        struct sk_stored *st = stored_of(it);
        if (left_of(l) < room_of(st->o) + 2 * low || reads_add(l, &r, st, false) != SK_OK) break;
        if (r.bytes >= JOB_BYTES || r.who.n >= JOB_OBJECTS) reads_flush(l, &r);
    }
    reads_flush(l, &r);
    sk_vec_free(&r.who);
    sk_vec_free(&r.to);
}

bool sk_space_read_over(struct sk_local *l) {
    struct reads r = {0};
    /* the first wanted value, and the other values that its waiter needs */
    struct sk_list *it = sk_list_first(wanted_of(l));
    bool ok = reads_add(l, &r, stored_of(it), true) == SK_OK;
    while (ok && r.bytes < OVER_BYTES && (it = sk_list_first(wanted_of(l))) &&
           reads_add(l, &r, stored_of(it), true) == SK_OK) {}
    reads_flush(l, &r);
    sk_vec_free(&r.who);
    sk_vec_free(&r.to);
    return ok;
}
