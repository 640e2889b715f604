/* recover.c - lost values of the local engine: keeps finished tasks (lineage) and runs them again.
 * Runs with the lock held.
 *
 * lineage.c knows the tasks that make each object; this file carries out its decisions on objects
 * and tasks:
 *  - Only values in the store can be lost. A task is kept when it has made one (or a value with
 *    references inside, which cannot be copied). Small arguments are kept as bytes with the task
 *    that needs them, so that no task has to make them again.
 *  - A lost object becomes PENDING again, and so do arguments that went out of scope and must
 *    exist once more, under their old ids. The kept tasks are submitted again as they are, with
 *    the next attempt number, in the order that lineage gives. From there on everything is as the
 *    first time: waiters are told when an object exists.
 *  - A stream is told which of its yields are needed; it makes only these again and stops after
 *    the last (SK_TF_REMAKE). A stream that still runs its first time is stopped and begun anew:
 *    its reader may be waiting for the lost yield before it takes more.
 *  - Workers that read a lost argument go on reading the old bytes, which are pinned for them
 *    until they are done.
 *
 * Losses are noted at once and recovered at the next dispatch, from a list: if a task that is
 * submitted again turns out to lack an argument, that only adds to the list, so depth costs no
 * stack. This file does nothing for tasks that make only small values. */
#include <stdio.h>

#include "base/mem.h"
#include "base/containers/vec.h"
#include "engine/local/driver/local_int.h"

/* approximate bytes of lineage's own entry for a task */
enum { TASK_BYTES = 104, ARG_BYTES = 32, OBJ_BYTES = 80 };

static struct sk_task_extra *extra_of(struct sk_ltask *t) {
    return t->extra ? t->extra : (t->extra = sk_calloc(SK_TAG_ENGINE, sizeof *t->extra));
}

sk_rc sk_recover_open(struct sk_local *l, uint64_t lineage_bytes, struct sk_err *err) {
    l->recovery.lineage_bytes = lineage_bytes;
    return sk_lineage_create(&l->lin, lineage_bytes, err);
}

void sk_recover_close(struct sk_local *l) {
    uint64_t id;
    void *v;
    for (uint32_t c = 0; l->lin && sk_lineage_each(l->lin, &c, &id, &v);) {
        struct sk_ltask *t = v;
        t->kept = SK_KEPT_TRIED;
        if (sk_map_get(&l->tasks, t->id) != t) sk_ltask_free(l, t);
    }
    if (l->lin) sk_lineage_destroy(l->lin);
    sk_vec_free(&l->recovery.lost);
    sk_vec_free(&l->recovery.relics);
}

void sk_recover_unkept(struct sk_local *l, struct sk_ltask *t) {
    uint64_t culprit;
    enum sk_lost_why why = sk_lineage_freed_why(l->lin, &culprit);
    SK_DCHECK(t->kept == SK_KEPT_YES);
    t->let_go = (uint8_t)(1 + (culprit ? SK_LOST_NEEDS : why));
    sk_ltask_kept_free(l, t);
}

/* ---- keeping --------------------------------------------------------------------------------- */

struct keeping { /* lists for sk_lineage_add */
    struct sk_obj_id_vec args, returns;
    uint64_t bytes;
};

/* Keeps an object that the task needs: as an argument in lineage, or as a copy of its bytes. */
static bool keep_arg(struct sk_local *l, struct sk_ltask *t, uint64_t oid, struct keeping *k) {
    struct sk_obj *o = sk_obj_get(l, oid);
    /* a reference inside a value to an object that did not exist the first time either */
    if (!o) return true;
    if (o->state == SK_O_READY && o->where == SK_V_INLINE && sk_own_n_inner(l->own, oid) == 0) {
        struct sk_task_extra *a = extra_of(t);
        if (!a ||
            !sk_vec_push(&a->vals, SK_TAG_ENGINE, (struct sk_kept_val){oid, o->u.inl, o->kind}))
            return false;
        if (o->u.inl) o->u.inl->refs++;
        k->bytes += sizeof(struct sk_kept_val) + (o->u.inl ? o->u.inl->len : 0);
        return true;
    }
    if (o->state == SK_O_PENDING && o->maker && o->maker->kept != SK_KEPT_YES) {
        /* the maker must be kept even if the value turns out to be small */
        sk_ltask_made_bulky(o->maker);
        o->awaited = o->awaited || sk_own_hold(l->own, oid, NULL) == SK_OK;
    }
    k->bytes += ARG_BYTES;
    return sk_vec_push(&k->args, SK_TAG_ENGINE, oid);
}

static bool keep_args(struct sk_local *l, struct sk_ltask *t, struct keeping *k) {
    struct sk_rd r = sk_rd_init(t->spec.args, t->spec.args_len);
    for (uint32_t i = 0; i < t->spec.n_args; i++) {
        struct sk_val v;
        sk_rd_val(&r, &v);
        if (v.oid && !keep_arg(l, t, v.oid, k)) return false;
    }
    for (uint32_t i = 0; i < t->spec.n_contains; i++)
        if (!keep_arg(l, t, t->spec.contains[i], k)) return false;
    return true;
}

static bool can_be_lost(struct sk_local *l, uint64_t oid, const struct sk_obj *o) {
    if (o->state == SK_O_PENDING)
        return true; /* the value may be lost as soon as it exists, so it counts as losable */
    return o->state == SK_O_READY && (o->where == SK_V_STORE || o->where == SK_V_DISK ||
                                      sk_own_n_inner(l->own, oid) || sk_lineage_knows(l->lin, oid));
}

/* Gives a task to lineage, while its arguments are held. If there is no memory, errors for lost
 * returns of the task will say "forgotten". */
static void keep(struct sk_local *l, struct sk_ltask *t, uint64_t first_yield) {
    struct keeping k = {.bytes = sizeof *t + t->spec_len + TASK_BYTES};
    if (t->kept >= SK_KEPT_TRIED || t->actor || t->spec.actor || t->spec.max_retries == 0) return;
    SK_DCHECK(t->holds_args);
    t->kept = SK_KEPT_TRIED;
    bool ok = !first_yield || sk_vec_push(&k.returns, SK_TAG_ENGINE, first_yield);
    for (uint32_t i = 0; ok && !sk_ltask_is_stream(t) && i < t->spec.n_returns; i++) {
        struct sk_obj *o = sk_obj_get(l, t->first + i);
        if (!o || !can_be_lost(l, o->id, o)) continue;
        if (t->retries_left == 0) o->why = SK_LOST_RETRIES;
        ok = sk_vec_push(&k.returns, SK_TAG_ENGINE, o->id);
    }
    if (ok && t->retries_left != 0 && k.returns.n &&
        (t->stop == SK_STOP_STANDS || keep_args(l, t, &k))) {
        struct sk_lineage_task spec = {.id = t->id,
                                       .args = k.args.p,
                                       .n_args = k.args.n,
                                       .returns = k.returns.p,
                                       .n_returns = k.returns.n,
                                       .bytes = k.bytes + OBJ_BYTES * (uint64_t)k.returns.n,
                                       .retries = t->retries_left,
                                       .open = first_yield != 0,
                                       .data = t};
        sk_rc rc = sk_lineage_add(l->lin, &spec, NULL);
        /* one of the task's arguments is out of scope already */
        if (rc == SK_EINVAL) t->let_go = 1 + SK_LOST_NEEDS;
        if (rc == SK_OK) {
            /* lineage keeps the task until next_free gives it back, maybe at the next drain */
            t->kept = SK_KEPT_YES;
            for (uint32_t i = 0; i < k.args.n; i++) sk_obj_get(l, k.args.p[i])->known = true;
            for (uint32_t i = 0; i < k.returns.n; i++) sk_obj_get(l, k.returns.p[i])->known = true;
        }
    }
    sk_vec_free(&k.args);
    sk_vec_free(&k.returns);
}

void sk_recover_yielded(struct sk_local *l, struct sk_ltask *t, struct sk_obj *o) {
    if (t->retries_left == 0) o->why = SK_LOST_RETRIES;
    if (t->kept < SK_KEPT_TRIED) keep(l, t, o->id);
    else if (t->kept == SK_KEPT_YES &&
             sk_lineage_return(l->lin, t->id, o->id, OBJ_BYTES + 16, NULL) == SK_OK)
        o->known = true;
}

static void let_awaited_go(struct sk_local *l, const struct sk_ltask *t) {
    uint32_t n = sk_ltask_is_stream(t) ? t->yields.n : t->spec.n_returns;
    for (uint32_t i = 0; i < n; i++) {
        struct sk_obj *o = sk_obj_get(l, sk_ltask_is_stream(t) ? t->yields.p[i] : t->first + i);
        if (!o || !o->awaited) continue;
        o->awaited = false;
        sk_own_unhold(l->own, o->id);
    }
}

void sk_recover_ended(struct sk_local *l, struct sk_ltask *t) {
    if (!sk_ltask_is_stream(t) && !t->remake) {
        keep(l, t, 0);
        let_awaited_go(l, t);
        return;
    }
    /* the stream had small values only */
    if (t->kept == SK_KEPT_NO && !t->remake && !l->n_lost) return;
    sk_lineage_done(l->lin, t->id, t->retries_left);
    t->remake = false;
    if (t->stop == SK_STOP_RESTART) t->stop = SK_STOP_NONE;
    let_awaited_go(l, t);
    for (uint32_t i = 0; sk_ltask_is_stream(t) && i < t->yields.n; i++) {
        /* the yield was lost too late for this attempt to make it again */
        struct sk_obj *o = sk_obj_get(l, t->yields.p[i]);
        if (o && o->state == SK_O_PENDING && !sk_vec_push(&l->recovery.lost, SK_TAG_ENGINE, o->id))
            sk_stream_fail_rest(l, t, SK_KIND_ENGINE_ERROR, NULL);
    }
}

/* ---- losing ---------------------------------------------------------------------------------- */

static bool reads(const struct sk_ltask *t, uint64_t oid) {
    struct sk_rd r = sk_rd_init(t->spec.args, t->spec.args_len);
    for (uint32_t i = 0; i < t->spec.n_args; i++) {
        struct sk_val v;
        sk_rd_val(&r, &v);
        if (v.oid == oid) return true;
    }
    return false;
}

bool sk_recover_old(const struct sk_lworker *w, uint64_t oid, uint64_t *off) {
    SK_LIST_EACH (it, &w->sent) {
        const struct sk_task_extra *a = sk_container_of(it, struct sk_ltask, on)->extra;
        for (uint32_t i = 0; a && i < a->old.n; i++)
            if (a->old.p[i].oid == oid) {
                *off = a->old.p[i].off;
                return true;
            }
    }
    return false;
}

/* Pins the bytes for every task on a worker that was sent them. */
static bool pin_for_readers(struct sk_local *l, const struct sk_obj *o) {
    for (uint32_t i = 0; i < l->pool.n_used; i++) {
        struct sk_lworker *w = l->pool.workers[i];
        if (!w) continue;
        SK_LIST_EACH (it, &w->sent) {
            struct sk_ltask *t = sk_container_of(it, struct sk_ltask, on);
            if (!reads(t, o->id)) continue;
            bool has = false; /* the task was sent with older bytes of the object */
            for (uint32_t k = 0; t->extra && k < t->extra->old.n; k++)
                has |= t->extra->old.p[k].oid == o->id;
            if (has) continue;
            struct sk_task_extra *a = extra_of(t);
            if (!a || !sk_vec_reserve(&a->old, SK_TAG_ENGINE, a->old.n + 1) ||
                sk_store_pin(l->store, w->proc, o->u.off) != SK_OK)
                return false;
            a->old.p[a->old.n++] = (struct sk_old){o->id, o->u.off};
        }
    }
    return true;
}

/* Makes requests that counted the object as existing wait again. */
static void unready_requests(struct sk_local *l, struct sk_obj *o) {
    for (uint32_t i = 0; i < l->pool.n_used; i++) {
        struct sk_lworker *w = l->pool.workers[i];
        if (!w) continue;
        SK_LIST_EACH (it, &w->reqs) {
            struct sk_req *q = sk_container_of(it, struct sk_req, link);
            uint32_t counted = 0;
            for (uint32_t k = 0; k < q->n; k++) counted += q->oids[k] == o->id;
            for (struct sk_dep *d = o->deps; d; d = d->next) counted -= d->req == q;
            for (; counted; counted--) {
                if (sk_dep_again(o, q) == SK_OK) continue;
                sk_driver_link_kill(l, w, "there is no memory left to answer it");
                break;
            }
        }
    }
}

static void fail(struct sk_local *l, struct sk_obj *o, sk_rc rc, const char *msg) {
    struct sk_inl *e = sk_engine_error(rc, msg);
    sk_obj_set_inline(l, o, SK_KIND_ENGINE_ERROR, e);
    sk_inl_drop(e);
}

/* A process may have the bytes mapped and find references in them that it has not counted yet
 * (rule 5 of engine.h gives it time until it releases the bytes). So an object without other use
 * holds these references as long as the bytes exist. */
static bool keep_relic(struct sk_local *l, const struct sk_obj *o) {
    if (!sk_own_n_inner(l->own, o->id) || !sk_store_pins(l->store, o->u.off)) return false;
    /* no memory: then an object to which such a reference points may be gone, and a get of it
     * fails */
    if (!sk_vec_reserve(&l->recovery.relics, SK_TAG_ENGINE, l->recovery.relics.n + 1)) return false;
    uint64_t id = sk_obj_pass_bytes(l, o);
    if (id) l->recovery.relics.p[l->recovery.relics.n++] = (struct sk_relic){id, o->u.off};
    return id != 0;
}

void sk_recover_relics(struct sk_local *l) {
    for (uint32_t i = 0; i < l->recovery.relics.n;) {
        struct sk_relic r = l->recovery.relics.p[i];
        SK_DCHECK(sk_own_has(l->own, r.oid));
        if (sk_store_pins(l->store, r.off)) {
            i++;
            continue;
        }
        l->recovery.relics.p[i] = l->recovery.relics.p[--l->recovery.relics.n];
        SK_IGNORE(sk_own_unref(l->own, r.oid, SK_PROC_DRIVER, 1, NULL));
    }
}

void sk_recover_lost(struct sk_local *l, uint64_t oid) {
    struct sk_obj *o = sk_obj_get(l, oid);
    if (!o || o->state != SK_O_READY || (o->where != SK_V_STORE && o->where != SK_V_DISK)) return;
    l->n_lost++;
    sk_progressed(l);
    if (o->st && o->st->follower && o->where == SK_V_DISK) sk_moves_note(l, o->st, false);
    /* waits for the read of this value become waits for making it again */
    if (o->st) sk_stored_gone(l, o);
    /* Without memory to pin the bytes, they are never freed: that is better than bytes that change
     * under a task. */
    if (o->where == SK_V_STORE && pin_for_readers(l, o) && !keep_relic(l, o))
        sk_store_unref(l->store, o->u.off);
    sk_obj_unready(l, o);
    unready_requests(l, o);
    if (!sk_vec_push(&l->recovery.lost, SK_TAG_ENGINE, oid))
        fail(l, o, SK_ENOMEM, "no memory to make a lost object again");
}

void sk_recover_spoiled(struct sk_local *l, struct sk_obj *o) {
    o->spoiled = true;
    sk_recover_lost(l, o->id);
}

/* ---- making again ---------------------------------------------------------------------------- */

/* Brings an object into scope again, with a reference of the driver that the caller gives back. */
static struct sk_obj *bring_back(struct sk_local *l, uint64_t oid, struct sk_obj_id_vec *back) {
    struct sk_obj *o = sk_obj_get(l, oid);
    if (!sk_vec_reserve(back, SK_TAG_ENGINE, back->n + 1)) return NULL;
    if (o ? sk_own_ref(l->own, oid, SK_PROC_DRIVER, 1, NULL) != SK_OK
          : sk_obj_new(l, oid, SK_PROC_DRIVER, &o, NULL) != SK_OK)
        return NULL;
    back->p[back->n++] = oid;
    return o;
}

static bool bring_back_values(struct sk_local *l, struct sk_ltask *t, struct sk_obj_id_vec *back) {
    for (uint32_t i = 0; t->extra && i < t->extra->vals.n; i++) {
        const struct sk_kept_val *v = &t->extra->vals.p[i];
        bool there = sk_own_has(l->own, v->oid);
        struct sk_obj *o = bring_back(l, v->oid, back);
        if (!o) return false;
        if (!there) sk_obj_set_inline(l, o, v->kind, v->inl); /* `v` may be a value or an error */
    }
    return true;
}

/* Prepares a task to run again. All tasks of a plan hold their arguments before any of them
 * runs: so no object that the plan needs is freed. */
static sk_rc begin_again(struct sk_local *l, struct sk_ltask *t, int32_t retries,
                         struct sk_obj_id_vec *back) {
    /* a task that is under way must not run a second time at once */
    SK_ASSERT(t->kept == SK_KEPT_YES && t->state == SK_T_ENDED && !t->holds_args && !t->n_unready);
    sk_ltask_again(t, retries);
    t->remake = true;
    if (t->stop != SK_STOP_STANDS) t->stop = SK_STOP_NONE;
    sk_ltask_to(t, SK_T_WAITING);
    if (sk_map_get(&l->tasks, t->id)) sk_ltask_reopened(l);
    else if (sk_ltask_enter(l, t) != SK_OK) return SK_ENOMEM;
    /* yields that a stream gave before its end may be needed */
    if (t->stop == SK_STOP_STANDS && !sk_ltask_is_stream(t)) return SK_OK;
    l->stats.n_reruns++;
    if (!bring_back_values(l, t, back)) return SK_ENOMEM;
    return sk_ltask_take_args(l, t, NULL);
}

/* Restarts a stream that runs its first time, because a yield of it is lost. */
static void restart(struct sk_local *l, struct sk_ltask *t) {
    struct sk_lworker *w = t->worker;
    /* a task that has not begun learns of the lost yield when it is sent */
    if (t->stop == SK_STOP_RESTART || t->state != SK_T_SENT) return;
    if (sk_ltask_take_back(l, w, t)) return;
    if (t->retries_left == 0) {
        struct sk_inl *e =
            sk_engine_error(SK_ELOST, "a value is lost and cannot be remade: its task may not run "
                                      "again (max_retries is used up)");
        sk_stream_fail_rest(l, t, SK_KIND_ENGINE_ERROR, e);
        sk_inl_drop(e);
        return;
    }
    sk_ltask_stop_for(t, SK_STOP_RESTART);
    sk_stream_ask_to_stop(l, t);
}

static void hopeless(struct sk_local *l, struct sk_obj *o, enum sk_lost_why why, uint64_t culprit) {
    char of[120] = "it", disk[340] = "", msg[1000];
    if (culprit != o->id)
        snprintf(of, sizeof of, "it is made from object %llu, which is gone, too, and that",
                 (unsigned long long)culprit);
    if (o->spoiled) snprintf(disk, sizeof disk, " (%s)", l->space.spoiled_msg);
    int n = snprintf(msg, sizeof msg, "object %llu is lost%s and cannot be remade: %s ",
                     (unsigned long long)o->id, disk, of);
    size_t room = sizeof msg - (size_t)n;
    switch (why) {
    case SK_LOST_PUT:
        snprintf(msg + n, room, "was put(), no task made it; keep the source or use a task");
        break;
    case SK_LOST_ACTOR:
        snprintf(msg + n, room,
                 "was made by a call of an actor, and such calls are not repeated; use a task");
        break;
    case SK_LOST_RETRIES:
        snprintf(
            msg + n, room,
            "was made by a task that may not run again: max_retries is 0 or used up; allow more");
        break;
    case SK_LOST_NEEDS:
        snprintf(msg + n, room,
                 "was made by a task that cannot run again, because something that it needs is "
                 "lost for good");
        break;
    case SK_LOST_EVICTED:
    default:
        snprintf(msg + n, room,
                 "was made by a task that was forgotten, to stay within %.0f MiB for all that are "
                 "kept; raise lineage_bytes, or release "
                 "references sooner",
                 (double)l->recovery.lineage_bytes / 1048576.0);
    }
    fail(l, o, SK_ELOST, msg);
}

static void recover(struct sk_local *l, uint64_t oid) {
    struct sk_obj *o = sk_obj_get(l, oid);
    /* nothing needs the object any more, or it has a value already */
    if (!o || o->state != SK_O_PENDING) return;
    enum sk_lost_why why = (enum sk_lost_why)o->why;
    uint64_t culprit;
    if (!sk_lineage_lost(l->lin, oid, &why, &culprit)) {
        hopeless(l, o, why, culprit);
        return;
    }
    struct sk_obj_id_vec back = {0};
    /* the plan has only tasks that are not waiting, so no other code touches them meanwhile */
    struct sk_list run, failed;
    sk_list_init(&run);
    sk_list_init(&failed);
    uint64_t id;
    void *data;
    int32_t retries;
    struct sk_ltask *m = o->maker = sk_lineage_maker(l->lin, oid);
    if (!m->remake && m->state != SK_T_ENDED && sk_ltask_is_stream(m)) restart(l, m);
    uint32_t n_first = 0;
    while (sk_lineage_next_object(l->lin, &id)) {
        struct sk_obj *b = bring_back(l, id, &back);
        if (!b) { /* the task that needs this object will fail */
            sk_lineage_gone(l->lin, id, SK_LOST_EVICTED);
            continue;
        }
        b->known = true;
        struct sk_ltask *of = sk_lineage_maker(l->lin, id);
        b->why = (uint8_t)(of ? sk_recover_why(of) : SK_LOST_EVICTED);
        if (b->state == SK_O_PENDING) b->maker = of;
        n_first = back.n;
    }
    for (uint32_t i = 0; i < n_first; i++) {
        struct sk_ltask *t = sk_lineage_maker(l->lin, back.p[i]);
        if (t && !t->remake && t->state != SK_T_ENDED && sk_ltask_is_stream(t)) restart(l, t);
    }
    while (sk_lineage_next_task(l->lin, &id, &data, &retries)) {
        struct sk_ltask *t = data;
        if (begin_again(l, t, retries, &back) != SK_OK) sk_list_push_back(&failed, &t->place.link);
        else if (t->n_unready == 0) sk_list_push_back(&run, &t->place.link);
    }
    while (!sk_list_empty(&failed)) {
        struct sk_ltask *t = sk_container_of(
            sk_container_of(failed.next, struct sk_place_task, link), struct sk_ltask, place);
        sk_list_del(failed.next);
        sk_ltask_fail(l, t, SK_ENOMEM, "no memory to make a lost object again");
    }
    while (!sk_list_empty(&run)) {
        struct sk_ltask *t = sk_container_of(sk_container_of(run.next, struct sk_place_task, link),
                                             struct sk_ltask, place);
        sk_list_del(run.next);
        if (t->stop == SK_STOP_STANDS && !sk_ltask_is_stream(t)) sk_ltask_fail_cancelled(l, t);
        else sk_ltask_ready(l, t);
    }
    for (uint32_t i = 0; i < back.n; i++)
        SK_IGNORE(sk_own_unref(l->own, back.p[i], SK_PROC_DRIVER, 1, NULL));
    sk_vec_free(&back);
}

void sk_recover_run(struct sk_local *l) {
    if (l->recovery.running) return;
    l->recovery.running = true;
    for (uint32_t i = 0; i < l->recovery.lost.n; i++) { /* the list may grow meanwhile */
        /* frees what only the lost value held, which lineage has to know before it plans */
        sk_obj_drain(l);
        recover(l, l->recovery.lost.p[i]);
    }
    l->recovery.lost.n = 0;
    l->recovery.running = false;
    sk_obj_drain(l);
}

/* ---- streams --------------------------------------------------------------------------------- */

sk_rc sk_recover_wanted(struct sk_local *l, struct sk_ltask *t) {
    if (t->extra) t->extra->wanted.n = t->extra->n_made = 0;
    for (uint32_t i = 0; i < t->yields.n; i++) {
        const struct sk_obj *o = sk_obj_get(l, t->yields.p[i]);
        if (!o || o->state != SK_O_PENDING) continue;
        if (!extra_of(t) || !sk_vec_push(&t->extra->wanted, SK_TAG_ENGINE, i)) return SK_ENOMEM;
    }
    return SK_OK;
}

uint64_t sk_recover_remade(struct sk_ltask *t, uint32_t index) {
    struct sk_task_extra *a = t->extra;
    SK_DCHECK(a->n_made <= a->wanted.n);
    if (a->n_made == a->wanted.n || a->wanted.p[a->n_made] != index) return 0;
    a->n_made++;
    return t->yields.p[index];
}

bool sk_recover_all_made(const struct sk_ltask *t) {
    return !t->extra || t->extra->n_made == t->extra->wanted.n;
}
