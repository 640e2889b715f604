/* send.c - sends a task to a worker and takes it off again: the function that it needs, its
 * message, its claim word. Runs with the lock held.
 *
 * Not here: which task goes where (engine/place, asked in loop.c), the rings (pool.c).
 * Invariant: a task is in w->sent exactly while its claim word is taken in w->claimed. Cost: the
 * message is measured, then written straight into the ring. */
#include "base/clock.h"
#include "base/mem.h"
#include "engine/local/driver/local_int.h"

static sk_rc send_fn(struct sk_local *l, struct sk_lworker *w, uint64_t fid) {
    if (sk_map_get(&w->known, fid)) return SK_OK;
    struct sk_fn *f = sk_map_get(&l->fns, fid);
    if (!f) return SK_OK; /* nothing to send: the worker will report "unknown function" */
    struct sk_wr m = sk_wr_init(NULL, 0);
    for (int pass = 0; pass < 2; pass++) {
        sk_wr_u32(&m, SK_M_FUNC);
        sk_wr_u64(&m, f->fid);
        sk_wr_str(&m, f->name);
        sk_wr_bytes(&m, f->def, f->len);
        if (pass == 0) {
            uint8_t *p = sk_alloc(SK_TAG_ENGINE, m.n);
            if (!p) return SK_ENOMEM;
            m = sk_wr_init(p, m.n);
        }
    }
    sk_rc rc = sk_driver_link_send(l, w, m.p, m.n);
    sk_free(m.p);
    /* without memory for this note, the function is sent again later, and the worker ignores it */
    if (rc == SK_OK) SK_IGNORE(sk_map_put(&w->known, fid, f));
    return rc;
}

/* Sends the worker its environment, once per process. */
static sk_rc send_env(struct sk_local *l, struct sk_lworker *w) {
    SK_ASSERT(w->place.env <= l->groups.envs.n && !w->has_env);
    struct sk_bytes env = l->groups.envs.p[w->place.env - 1];
    struct sk_wr m = sk_wr_init(NULL, 0);
    for (int pass = 0; pass < 2; pass++) {
        sk_wr_u32(&m, SK_M_ENV);
        sk_wr_bytes(&m, env.p, env.n);
        if (pass) break;
        uint8_t *p = sk_alloc(SK_TAG_ENGINE, m.n);
        if (!p) return SK_ENOMEM;
        m = sk_wr_init(p, m.n);
    }
    sk_rc rc = sk_driver_link_send(l, w, m.p, m.n);
    sk_free(m.p);
    w->has_env = rc == SK_OK;
    return rc;
}

/* Makes the value to be sent for an argument that is an object or a part of one; *v is the
 * argument as in the spec. Returns the bytes of an inline value. */
static const void *arg_value(struct sk_local *l, const struct sk_ltask *t, uint32_t i,
                             struct sk_val *v, uint64_t *part_at) {
    bool part = SK_UNLIKELY(v->where == SK_V_PART);
    const struct sk_val asked = *v;
    uint64_t own = part ? sk_part_find(t, i) : 0;
    struct sk_obj *o = sk_obj_get(l, own ? own : v->oid);
    /* sk_launch has checked that the argument exists in memory */
    SK_DCHECK(o && o->state != SK_O_PENDING &&
              (o->state == SK_O_ACTOR || o->where != SK_V_DISK || (part && !asked.len)));
    if (o->state == SK_O_ACTOR) {
        *v = (struct sk_val){.kind = 0, .where = SK_V_NONE, .oid = v->oid};
        return NULL;
    }
    *v = (struct sk_val){.kind = o->kind, .where = o->where, .oid = o->id, .len = o->len};
    if (o->where == SK_V_STORE) v->off = o->u.off;
    if (o->st) sk_stored_used(l, o);
    const uint8_t *b = o->where == SK_V_INLINE && o->u.inl ? o->u.inl->bytes : NULL;
    if (o->where == SK_V_INLINE && !b) v->len = 0;
    if (!part || own) return b;
    /* the range of the part was checked when the value's size became known */
    SK_ASSERT(asked.off <= v->len && asked.len <= v->len - asked.off);
    v->len = asked.len;
    if (!asked.len) v->where = SK_V_INLINE;
    else if (v->where == SK_V_STORE) v->where = SK_V_PART;
    *part_at = asked.off;
    return b ? b + asked.off : NULL;
}

static void write_task(struct sk_local *l, struct sk_ltask *t, struct sk_lworker *w, uint32_t claim,
                       struct sk_wr *m) {
    SK_ASSERT(t->actor || t->kind != SK_TASK_INIT);
    bool with_need = t->spec.shape && t->kind != SK_TASK_CALL;
    uint32_t n_wanted = t->extra ? t->extra->wanted.n : 0;
    struct sk_msg_task h = {
        .type = SK_M_TASK,
        .claim = claim,
        .tid = t->id,
        .fid = t->spec.fid,
        .aid = t->actor ? t->actor->id : 0,
        .first = t->first,
        .known_tid = t->spec.known_task ? t->spec.known_task : t->id,
        .known_aid = t->spec.known_actor ? t->spec.known_actor
                     : t->actor          ? t->actor->id
                                         : 0,
        .attempt = t->attempt,
        .n_args = t->spec.n_args,
        .n_returns = t->spec.n_returns,
        .skip = n_wanted ? t->extra->wanted.p[0] : t->n_yielded,
        .window = t->remake ? 0 : t->spec.stream_window,
        .flags = (t->kind == SK_TASK_INIT ? SK_TF_INIT : 0u) | (t->remake ? SK_TF_REMAKE : 0u) |
                 (t->kind == SK_TASK_INIT && t->actor->is_async ? SK_TF_ASYNC : 0u) |
                 (with_need ? SK_TF_NEED : 0u),
        .gpus = w->place.gpus,
        .group = t->spec.group,
        .max_calls = t->actor ? 0 : t->spec.max_calls,
        .credit = t->n_released,
        .from = t->n_yielded,
        .n_wanted = n_wanted};
    sk_wr_raw(m, &h, sizeof h);
    sk_wr_bytes(m, t->spec.name.p, t->spec.name.n);
    struct sk_rd r = sk_rd_init(t->spec.args, t->spec.args_len);
    for (uint32_t i = 0; i < t->spec.n_args; i++) {
        struct sk_val v;
        uint64_t part_at = 0;
        const void *b = sk_rd_val(&r, &v);
        if (v.oid) b = arg_value(l, t, i, &v, &part_at);
        sk_wr_val(m, &v, b);
        if (v.where == SK_V_PART) sk_wr_u64(m, part_at);
    }
    if (n_wanted) sk_wr_raw(m, t->extra->wanted.p, n_wanted * sizeof(uint32_t));
    if (t->kind == SK_TASK_INIT) {
        sk_wr_u32(m, t->actor->n_groups);
        for (uint32_t i = 0; i < t->actor->n_groups; i++) sk_wr_u32(m, t->actor->groups[i]);
    }
    if (with_need) {
        struct sk_need need = sk_place_need_of(&l->place, t->spec.shape);
        need.bundle = need.group ? (int32_t)w->place.bundle : 0;
        sk_wr_align(m, 8);
        sk_wr_raw(m, &need, sizeof need);
    }
}

sk_rc sk_ltask_send(struct sk_local *l, struct sk_ltask *t, struct sk_lworker *w) {
    if (SK_UNLIKELY(w->place.env && !w->has_env)) SK_TRY(send_env(l, w));
    SK_TRY(send_fn(l, w, t->spec.fid));
    uint32_t claim = w->next_claim % SK_CLAIMS;
    /* at most half of the claim words are taken, so a free one is found */
    while (w->claimed[claim / 64] >> claim % 64 & 1) claim = (claim + 1) % SK_CLAIMS;
    SK_DCHECK(t->state == SK_T_READY && !t->worker && t->n_unready == 0);
    SK_DCHECK(!(w->claimed[claim / 64] >> claim % 64 & 1));
    struct sk_wr m = sk_wr_init(NULL, 0);
    write_task(l, t, w, claim, &m);
    atomic_store_explicit(&w->sh->claims[claim], t->id << 2 | SK_CLAIM_QUEUED,
                          memory_order_release);
    if (m.n <= sk_ring_max_msg(&w->down)) {
        void *p = w->out.n ? NULL : sk_ring_reserve(&w->down, m.n);
        if (!p) return SK_EAGAIN;
        m = sk_wr_init(p, m.n);
        write_task(l, t, w, claim, &m);
        sk_ring_commit(&w->down, m.n);
        sk_bell_ring(&w->sh->bell);
    } else {
        uint8_t *p = sk_alloc(SK_TAG_ENGINE, m.n);
        if (!p) return SK_ENOMEM;
        m = sk_wr_init(p, m.n);
        write_task(l, t, w, claim, &m);
        sk_rc rc = sk_driver_link_send(l, w, p, m.n);
        sk_free(p);
        if (rc != SK_OK) return rc;
    }
    w->next_claim = claim + 1;
    w->claimed[claim / 64] |= UINT64_C(1) << claim % 64;
    t->claim = claim;
    t->worker = w;
    sk_ltask_to(t, SK_T_SENT);
    sk_list_del(&t->on);
    sk_list_push_back(&w->sent, &t->on);
    return SK_OK;
}

void sk_ltask_old_left(struct sk_local *l, struct sk_ltask *t, struct sk_lworker *w) {
    SK_DCHECK(t->extra);
    for (uint32_t i = 0; w && i < t->extra->old.n; i++)
        (void)sk_store_unpin(l->store, w->proc, t->extra->old.p[i].off);
    t->extra->old.n = 0;
}

void sk_ltask_left(struct sk_local *l, struct sk_ltask *t, struct sk_lworker *w, int64_t ran_ns) {
    SK_ASSERT(t->worker == w && t->state == SK_T_SENT);
    SK_DCHECK(w->claimed[t->claim / 64] >> t->claim % 64 & 1);
    sk_list_del(&t->on);
    t->worker = NULL;
    sk_ltask_to(t, SK_T_LEFT);
    sk_space_released(l);
    w->claimed[t->claim / 64] &= ~(UINT64_C(1) << t->claim % 64);
    if (w->place.state == SK_W_LEASED)
        sk_place_done(&l->place, &w->place, ran_ns, ran_ns >= 0 ? sk_now_ns() : 0);
    sk_driver_link_retire(l, w);
    if (w->actor) sk_actor_call_left(w->actor);
    sk_driver_link_busy(w);
    if (SK_UNLIKELY(t->extra != NULL)) sk_ltask_old_left(l, t, w);
}

bool sk_ltask_unsend(struct sk_local *l, struct sk_lworker *w, struct sk_ltask *t) {
    uint64_t want = t->id << 2 | SK_CLAIM_QUEUED;
    if (!atomic_compare_exchange_strong(&w->sh->claims[t->claim], &want,
                                        t->id << 2 | SK_CLAIM_TAKEN))
        return false;
    sk_ltask_left(l, t, w, -1);
    sk_ltask_to(t, SK_T_READY);
    return true;
}

bool sk_ltask_take_back(struct sk_local *l, struct sk_lworker *w, struct sk_ltask *t) {
    if (!sk_ltask_unsend(l, w, t)) return false;
    sk_place_push(&l->place, &t->place);
    return true;
}

void sk_ltask_take_back_all(struct sk_local *l, struct sk_lworker *w) {
    for (struct sk_list *it = w->sent.prev; it != &w->sent;) {
        /* the last task is the least likely to start meanwhile */
        struct sk_ltask *t = sk_container_of(it, struct sk_ltask, on);
        it = it->prev;
        (void)sk_ltask_take_back(l, w, t);
    }
}

void sk_worker_waits(struct sk_local *l, struct sk_lworker *w) {
    if (w->place.blocked) return;
    sk_place_worker_block(&l->place, &w->place, true);
    /* tasks queued behind this one must not wait for it */
    if (w->place.state == SK_W_LEASED) sk_ltask_take_back_all(l, w);
}

/* The worker no longer waits for anything. A worker that has a watch counts as waiting, as far as
 * the engine can tell: if it kept its CPU, the task that it watches might never run. */
void sk_worker_goes_on(struct sk_local *l, struct sk_lworker *w) {
    if (w->place.blocked && sk_list_empty(&w->watches))
        sk_place_worker_block(&l->place, &w->place, false);
}
