/* messages.c - the incoming half of the driver's loop: messages of workers, one small function for
 * each kind. Everything here runs with the engine's lock held.
 *
 * It holds no policy: a handler reads its message and calls the part that the message concerns
 * (task, object, stream, request, actor, store). A worker's message is input: a damaged one ends
 * the worker, never the driver. Invariant: messages of one worker are handled in order, each once.
 * Cost of a message: one indirect call. */
#include <stdio.h>

#include "base/clock.h"
#include "base/mem.h"
#include "engine/foreign.h"
#include "engine/local/driver/local_int.h"
#include "engine/place/res.h"

/* ---- a task ended ---------------------------------------------------------------------------- */

/* The process has run a function max_calls times, the most allowed: tasks queued on it go
 * elsewhere, and the process is told to end. */
static void retire(struct sk_local *l, struct sk_lworker *w) {
    sk_ltask_take_back_all(l, w);
    sk_driver_link_leave(l, w, "it has run a function with max_calls often enough");
}

static enum sk_verdict_over verdict_of(const struct sk_ltask *t, uint32_t status) {
    const struct sk_lactor *a = t->actor;
    return sk_verdict_over(&(struct sk_verdict_run){
        .failed = status & SK_DONE_FAILED,
        .final = status & SK_DONE_FINAL,
        .exits = (status & SK_DONE_EXIT) || (t->kind == SK_TASK_INIT && a->leaving),
        .is_init = t->kind == SK_TASK_INIT,
        .of_actor = a != NULL,
        .async = a && a->is_async,
        .is_stream = sk_ltask_is_stream(t),
        .has_sink = t->sink != NULL,
        .cancelled = sk_ltask_cancelled(t),
        .spoiled = t->stop > SK_STOP_CANCELLED,
        .remake = t->remake,
        .all_made = SK_UNLIKELY(t->remake) && sk_recover_all_made(t),
        .restart = t->stop == SK_STOP_RESTART,
        .retry_exceptions = t->spec.retry_exceptions,
        .retries_left = t->retries_left});
}

static void runs_again(struct sk_local *l, struct sk_ltask *t, sk_rc rc, const char *why) {
    struct sk_lactor *a = t->actor;
    sk_ltask_charge(t);
    if (!a) {
        sk_ltask_retry(l, t, rc, why);
        return;
    }
    sk_ltask_next_attempt(l, t, rc, why);
    l->stats.n_retries++;
    sk_ltask_to(t, SK_T_READY);
    sk_actor_call_again(a, &t->on);
    sk_actor_advance(l, a);
}

/* Handles the ends of a task that are neither a success nor a failure with the first value. */
static void ended_otherwise(struct sk_local *l, struct sk_ltask *t, enum sk_verdict_over over) {
    struct sk_lactor *a = t->actor;
    bool init = t->kind == SK_TASK_INIT;
    char name[200];
    switch (over) {
    case SK_OVER_EXIT:
        sk_actor_leaves(a);
        sk_ltask_fail(l, t, SK_EACTOR, "the actor is dead: exit_actor() was called in it");
        /* for a constructor, the failure above has ended the actor */
        if (!init) sk_actor_dead(l, a, "exit_actor() was called in it");
        break;
    case SK_OVER_STOPPED:
        sk_ltask_fail_cancelled(l, t);
        if (a && !init) sk_actor_advance(l, a);
        break;
    case SK_OVER_REMADE:
        sk_ltask_to(t, SK_T_DONE);
        sk_ltask_end(l, t);
        break;
    case SK_OVER_LESS:
        sk_ltask_fail(l, t, SK_ETASK,
                      "task %s is not deterministic: run again for output that was lost, it gave "
                      "less of it than the first time; "
                      "make the function give the same output for the same input",
                      sk_ltask_name(l, t, name, sizeof name));
        break;
    case SK_OVER_AGAIN: runs_again(l, t, SK_ETASK, "it raised, and runs again"); break;
    case SK_OVER_FROM_START:
        runs_again(l, t, SK_ELOST, "yields that are wanted were lost while it ran");
        break;
    case SK_OVER_WELL:
    case SK_OVER_FAILED: break;
    }
}

/* Ends a failed task with its first value, the error. t NULL: no task takes the value. */
static void failed_with(struct sk_local *l, struct sk_lworker *w, struct sk_ltask *t,
                        struct sk_val v, const void *bytes) {
    struct sk_lactor *a = t && t->kind != SK_TASK_INIT ? t->actor : NULL;
    if (v.where == SK_V_STORE) { /* errors are inline; the worker cuts large ones */
        if (sk_store_commit(l->store, w->proc, v.off, v.len, NULL) == SK_OK)
            sk_store_unref(l->store, v.off);
        v.len = 0;
        bytes = "";
    }
    if (t) sk_ltask_finish_error(l, t, v.kind, bytes, (size_t)v.len);
    if (a) sk_actor_advance(l, a);
}

/* Ends a task all of whose values exist. */
static void ended_well(struct sk_local *l, struct sk_ltask *t, struct sk_bytes note,
                       int64_t run_ns) {
    struct sk_lactor *a = t->actor;
    if (sk_ltask_is_stream(t) && !t->sink) {
        sk_stream_over(l, t);
        sk_stream_ended(l, t, false, 0, NULL);
    }
    sk_ltask_to(t, SK_T_DONE); /* from here on a cancel by the sink has no effect */
    if (t->sink) {
        struct sk_event ev = {
            .kind = SK_EV_DONE, .note = note, .run_ns = run_ns, .index = t->n_yielded};
        ev.pid = t->ran_on;
        ev.start_ns = t->start_ns;
        sk_ltask_emit(t, &ev);
    }
    if (t->kind == SK_TASK_INIT) {
        SK_DCHECK(a->init == t);
        sk_actor_began(a);
    }
    sk_ltask_end(l, t);
    if (a) sk_actor_advance(l, a);
}

static void on_DONE(struct sk_local *l, struct sk_lworker *w, struct sk_rd *r) {
    struct sk_msg_done h;
    r->at = 0; /* the reader goes back to the beginning, where the message has a fixed head */
    const void *hp = sk_rd_raw(r, sizeof h);
    if (!hp) return;
    memcpy(&h, hp, sizeof h);
    r->bad = h.start_ns < 0 || h.run_ns < 0 || h.start_ns > INT64_MAX - h.run_ns;
    if (r->bad) return;
    struct sk_bytes note = sk_rd_bytes(r);
    struct sk_ltask *t = sk_map_get(&l->tasks, h.tid);
    if (t && (t->worker != w || t->attempt != h.attempt || t->state != SK_T_SENT)) t = NULL;
    sk_driver_link_reported(w);
    l->stats.n_tasks_done++;
    if (t) {
        sk_ltask_left(l, t, w, h.run_ns);
        SK_DCHECK(t->state == SK_T_LEFT);
        sk_state_ran(t, w, h.start_ns, h.start_ns + h.run_ns);
    }
    if ((h.status & SK_DONE_LEAVE) && !w->actor && !w->killed) retire(l, w);
    enum sk_verdict_over over = t ? verdict_of(t, h.status) : SK_OVER_WELL;
    if (over > SK_OVER_FAILED) {
        ended_otherwise(l, t, over);
        t = NULL; /* the task does not get the values: they are thrown away */
    }
    for (uint32_t i = 0; i < h.n_values; i++) {
        struct sk_val v;
        struct sk_ids in;
        const void *b = sk_rd_val_ids(r, &v, &in);
        if (r->bad) break;
        if (h.status & SK_DONE_FAILED) {
            failed_with(l, w, t, v, b);
            return;
        }
        if (t && (v.where == SK_V_STORE || in.n)) sk_ltask_made_bulky(t);
        sk_obj_set(l, t ? v.oid : 0, w->proc, &v, b, in);
    }
    if (t) ended_well(l, t, note, h.run_ns);
}

static void on_PUT(struct sk_local *l, struct sk_lworker *w, struct sk_rd *r) {
    uint64_t id = sk_rd_u64(r);
    struct sk_val v;
    struct sk_ids in;
    const void *b = sk_rd_val_ids(r, &v, &in);
    struct sk_obj *o = NULL;
    if (r->bad || !sk_driver_link_fresh_ids(l, w, id)) return;
    /* without an object, the worker, which uses the id already, would be told that it is lost */
    if (sk_obj_new(l, id, w->proc, &o, NULL) != SK_OK) {
        sk_driver_link_unheard(l, w, "there is no memory left to record what it put");
        return;
    }
    sk_obj_set(l, id, w->proc, &v, b, in);
}

static void on_PROMISE(struct sk_local *l, struct sk_lworker *w, struct sk_rd *r) {
    uint64_t id = sk_rd_u64(r);
    if (r->bad || !sk_driver_link_fresh_ids(l, w, id) ||
        sk_promise_new(l, w->proc, id, NULL) == SK_OK)
        return;
    sk_driver_link_unheard(l, w, "there is no memory left to record what it promised");
}

static void on_KEEP(struct sk_local *l, struct sk_lworker *w, struct sk_rd *r) {
    uint64_t id = sk_rd_u64(r);
    struct sk_val v;
    struct sk_ids in;
    const void *b = sk_rd_val_ids(r, &v, &in);
    if (!r->bad && !sk_promise_keep(l, w->proc, id, &v, b, in))
        sk_driver_link_kill(l, w, "it sent a message that makes no sense");
}

/* Gives the reason to a worker's submission that was not accepted, as the value of its return
 * objects or of its stream. */
static void submit_failed(struct sk_local *l, uint32_t proc, uint64_t base, struct sk_bytes spec,
                          const struct sk_err *err) {
    struct sk_spec s;
    struct sk_rd r = sk_rd_init(spec.p, spec.n);
    uint32_t n = sk_spec_read(&r, &s) ? s.n_returns : 1;
    struct sk_inl *e = sk_engine_error(err->code, err->msg);
    if (n == SK_STREAMING) sk_ltask_refused_stream(l, proc, base, e);
    for (uint32_t i = 0; n != SK_STREAMING && i < n; i++) {
        struct sk_obj *o = NULL;
        if (sk_obj_new(l, base + 1 + i, proc, &o, NULL) != SK_OK) break;
        sk_obj_set_inline(l, o, SK_KIND_ENGINE_ERROR, e);
    }
    sk_inl_drop(e);
}

/* Returns the nesting level of tasks that the worker's running task submits. */
static uint32_t level_of(const struct sk_lworker *w) {
    const struct sk_list *first = sk_list_first(&w->sent);
    return first && !w->actor
               ? (uint32_t)sk_container_of(first, struct sk_ltask, on)->place.level + 1
               : 1;
}

static void on_STREAMEND(struct sk_local *l, struct sk_lworker *w, struct sk_rd *r) {
    uint64_t id = sk_rd_u64(r), tid = sk_rd_u64(r);
    uint32_t kind = sk_rd_u32(r);
    struct sk_err err;
    if (r->bad || !sk_driver_link_fresh_ids(l, w, id)) return;
    sk_rc rc = sk_stream_end(l, tid, id, w->proc, kind, &err);
    if (rc == SK_OK) return;
    struct sk_inl *e = sk_engine_error(rc, err.msg);
    struct sk_obj *o = NULL;
    rc = sk_obj_new(l, id, w->proc, &o, NULL);
    /* the worker uses the id already, so the reason becomes the object's value */
    if (rc == SK_OK) sk_obj_set_inline(l, o, SK_KIND_ENGINE_ERROR, e);
    sk_inl_drop(e);
    if (rc != SK_OK)
        sk_driver_link_unheard(l, w, "there is no memory left to record what it asked for");
}

static sk_rc may_call(struct sk_local *l, const struct sk_lworker *w, struct sk_bytes spec,
                      uint32_t max, struct sk_err *err) {
    struct sk_spec s;
    struct sk_rd r = sk_rd_init(spec.p, spec.n);
    if (!sk_spec_read(&r, &s)) return SK_ERR(err, SK_ECORRUPT, "a task specification is damaged");
    return sk_obj_is_foreign(l, s.actor) ? sk_abroad_may_call(l, s.actor, w->proc, max, err)
                                         : sk_actor_may_call(l, s.actor, w->proc, max, err);
}

/* ---- a function a message -------------------------------------------------------------------- */

static void on_HELLO(struct sk_local *l, struct sk_lworker *w, struct sk_rd *r) {
    sk_pool_ready(l, w, (int32_t)sk_rd_u32(r));
    sk_driver_link_retire(l, w);
}

static void on_YIELD(struct sk_local *l, struct sk_lworker *w, struct sk_rd *r) {
    sk_stream_yielded(l, w, r);
}

static void on_RETURNED(struct sk_local *l, struct sk_lworker *w, struct sk_rd *r) {
    struct sk_ltask *t = sk_map_get(&l->tasks, sk_rd_u64(r));
    if (!t || t->worker != w || t->state != SK_T_SENT || t->actor) return;
    sk_ltask_left(l, t, w, -1);
    /* the task was cancelled while this message was on its way */
    if (sk_ltask_cancelled(t)) sk_ltask_fail_cancelled(l, t);
    else sk_ltask_queue(l, t);
}

static void on_SUBMIT(struct sk_local *l, struct sk_lworker *w, struct sk_rd *r) {
    struct sk_err err;
    uint64_t base = sk_rd_u64(r), req = sk_rd_u64(r), max = sk_rd_u64(r);
    struct sk_bytes s = sk_rd_bytes(r);
    l->now_ns = sk_now_ns();
    if (r->bad || !sk_driver_link_fresh_ids(l, w, base)) return;
    sk_rc rc = req ? may_call(l, w, s, (uint32_t)max, &err) : SK_OK;
    if (rc == SK_OK) rc = sk_ltask_submit(l, w->proc, level_of(w), base, s.p, s.n, NULL, &err);
    if (req) sk_driver_link_error(l, w, req, rc, rc == SK_OK ? "" : err.msg);
    else if (rc != SK_OK) submit_failed(l, w->proc, base, s, &err);
}

static void on_ACTOR(struct sk_local *l, struct sk_lworker *w, struct sk_rd *r) {
    struct sk_err err;
    uint64_t base = sk_rd_u64(r), req = sk_rd_u64(r);
    struct sk_aspec as;
    SK_DCHECK(r->bad || r->at % 8 == 0);
    struct sk_bytes how = {r->p + r->at, r->n - r->at};
    bool good = sk_aspec_read(r, &as);
    struct sk_bytes s = sk_rd_bytes(r);
    if (!good || r->bad || !sk_driver_link_fresh_ids(l, w, base)) return;
    l->now_ns = sk_now_ns();
    if (sk_named_make(l, w, req, &as, s) || sk_named_claim(l, w, base, req, &as, how)) return;
    sk_rc rc = sk_actor_create(l, w->proc, base, s.p, s.n, &as, &err);
    if (req) sk_driver_link_answer(l, w, req, rc, base + 2, &err);
    else if (rc != SK_OK) submit_failed(l, w->proc, base, s, &err);
}

static void on_FIND(struct sk_local *l, struct sk_lworker *w, struct sk_rd *r) {
    uint64_t req = sk_rd_u64(r);
    struct sk_bytes space = sk_rd_bytes(r), name = sk_rd_bytes(r);
    if (!r->bad) sk_named_find(l, w, req, space, name);
}

static void on_STATE(struct sk_local *l, struct sk_lworker *w, struct sk_rd *r) {
    sk_state_for(l, w, r);
}

static void on_NAMES(struct sk_local *l, struct sk_lworker *w, struct sk_rd *r) {
    sk_named_list(l, w, sk_rd_u64(r));
}

/* Messages of group.c: a damaged one is answered, and the worker lives on. */
static void on_group(struct sk_local *l, struct sk_lworker *w, uint32_t kind,
                     const struct sk_rd *r) {
    struct sk_rd own = *r;
    sk_lgroup_handle(l, w, kind, &own);
}
static void on_GROUP(struct sk_local *l, struct sk_lworker *w, struct sk_rd *r) {
    on_group(l, w, SK_M_GROUP, r);
}
static void on_UNGROUP(struct sk_local *l, struct sk_lworker *w, struct sk_rd *r) {
    on_group(l, w, SK_M_UNGROUP, r);
}
static void on_GROUPS(struct sk_local *l, struct sk_lworker *w, struct sk_rd *r) {
    on_group(l, w, SK_M_GROUPS, r);
}
static void on_MORE(struct sk_local *l, struct sk_lworker *w, struct sk_rd *r) {
    on_group(l, w, SK_M_MORE, r);
}
static void on_MOREREAD(struct sk_local *l, struct sk_lworker *w, struct sk_rd *r) {
    on_group(l, w, SK_M_MOREREAD, r);
}
static void on_DEFENV(struct sk_local *l, struct sk_lworker *w, struct sk_rd *r) {
    on_group(l, w, SK_M_DEFENV, r);
}

static void on_REF(struct sk_local *l, struct sk_lworker *w, struct sk_rd *r) {
    uint64_t id = sk_rd_u64(r);
    int64_t d = sk_rd_i64(r);
    if (d > 0) sk_obj_meet(l, &id, 1);
    if (d > 0) SK_IGNORE(sk_own_ref(l->own, id, w->proc, (uint32_t)d, NULL));
    if (d < 0) SK_IGNORE(sk_own_unref(l->own, id, w->proc, (uint32_t)-d, NULL));
}

static void on_GET(struct sk_local *l, struct sk_lworker *w, struct sk_rd *r) {
    sk_req_wait(l, w, SK_M_GET, r);
}
static void on_WAIT(struct sk_local *l, struct sk_lworker *w, struct sk_rd *r) {
    sk_req_wait(l, w, SK_M_WAIT, r);
}
static void on_NEXT(struct sk_local *l, struct sk_lworker *w, struct sk_rd *r) {
    sk_req_next(l, w, SK_M_NEXT, r);
}
static void on_PEEK(struct sk_local *l, struct sk_lworker *w, struct sk_rd *r) {
    sk_req_next(l, w, SK_M_PEEK, r);
}

static void on_WATCH(struct sk_local *l, struct sk_lworker *w, struct sk_rd *r) {
    struct sk_err err;
    uint64_t req = sk_rd_u64(r), oid = sk_rd_u64(r), tid = sk_rd_u64(r);
    if (r->bad || sk_req_watch(l, w, req, oid, tid, NULL, &err) == SK_OK) return;
    struct {
        uint32_t type, pad;
        uint64_t req;
        /* The object exists already. Or there was no memory for a watch: then the worker is woken
         * all the same, and waits by itself. */
    } m = {SK_M_FIRED, 0, req};
    (void)sk_driver_link_reply(l, w, &m, sizeof m);
}

static void on_UNWATCH(struct sk_local *l, struct sk_lworker *w, struct sk_rd *r) {
    sk_req_unwatch(l, w, sk_rd_u64(r));
}

static void on_LEAVE(struct sk_local *l, struct sk_lworker *w, struct sk_rd *r) {
    (void)r;
    if (!w->actor) return;
    sk_actor_leaves(w->actor);
    /* the constructor is running, and the report of its end will say that the actor leaves */
    if (w->actor->init->worker == w) return;
    sk_actor_dead(l, w->actor, "exit_actor() was called in it");
}

static void on_TIMEOUT(struct sk_local *l, struct sk_lworker *w, struct sk_rd *r) {
    uint64_t req = sk_rd_u64(r);
    SK_LIST_EACH (it, &w->reqs) {
        struct sk_req *q = sk_container_of(it, struct sk_req, link);
        if (q->req == req) {
            sk_req_reply(l, q, SK_ETIMEOUT);
            return;
        }
    }
}

static void on_LEASE(struct sk_local *l, struct sk_lworker *w, struct sk_rd *r) {
    uint64_t req = sk_rd_u64(r), len = sk_rd_u64(r), min = sk_rd_u64(r);
    if (!r->bad && !min) sk_space_lease_now(l, w, req, len);
    else if (!r->bad) sk_space_lease(l, w, req, 0, len, SK_MIN(min, len));
}

static void on_EXTENT(struct sk_local *l, struct sk_lworker *w, struct sk_rd *r) {
    uint64_t req = sk_rd_u64(r), graph = sk_rd_u64(r), asked = sk_rd_u64(r),
             len = SK_ALIGN(SK_MAX(asked, 1), SK_STORE_ALIGN);
    if (!r->bad && graph && len >= asked) sk_space_lease(l, w, req, graph, len, len);
}

static void on_GRAPHOPEN(struct sk_local *l, struct sk_lworker *w, struct sk_rd *r) {
    struct sk_err err;
    uint64_t req = sk_rd_u64(r), id = 0;
    sk_rc rc = sk_lgraph_open(l, w->proc, &id, &err);
    sk_driver_link_answer(l, w, req, rc, id, &err);
}

static void on_GRAPHCLOSE(struct sk_local *l, struct sk_lworker *w, struct sk_rd *r) {
    sk_lgraph_close(l, w->proc, sk_rd_u64(r));
}

static void on_EXTENTFREE(struct sk_local *l, struct sk_lworker *w, struct sk_rd *r) {
    (void)w;
    uint64_t graph = sk_rd_u64(r);
    sk_lgraph_free(l, graph, sk_rd_u64(r));
}

static void on_GIVE(struct sk_local *l, struct sk_lworker *w, struct sk_rd *r) {
    uint64_t off = sk_rd_u64(r), len = sk_rd_u64(r);
    sk_space_released(l);
    /* fails for a range from the middle of a lease: only sealing can cut that out */
    if (sk_store_unlease(l->store, w->proc, off, len, NULL) != SK_OK &&
        sk_store_commit(l->store, w->proc, off, len, NULL) == SK_OK)
        sk_store_unref(l->store, off);
}

static void on_PIN(struct sk_local *l, struct sk_lworker *w, struct sk_rd *r) {
    struct sk_obj *o = sk_obj_get(l, sk_rd_u64(r));
    uint64_t off = o && o->state == SK_O_READY && o->where == SK_V_STORE ? o->u.off : UINT64_MAX;
    bool was_lost = o && sk_recover_old(w, o->id, &off);
    if ((was_lost || off != UINT64_MAX) && sk_store_pin(l->store, w->proc, off) != SK_OK)
        sk_driver_link_kill(l, w, "there is no memory left to note what it holds");
}

static void on_UNPIN(struct sk_local *l, struct sk_lworker *w, struct sk_rd *r) {
    (void)sk_store_unpin(l->store, w->proc, sk_rd_u64(r));
    sk_space_released(l);
}

static void on_DEFINE(struct sk_local *l, struct sk_lworker *w, struct sk_rd *r) {
    (void)w;
    uint64_t fid = sk_rd_u64(r);
    struct sk_bytes name = sk_rd_bytes(r), def = sk_rd_bytes(r);
    if (!r->bad) (void)sk_fn_define(l, fid, name, def, NULL);
}

static void on_SHAPE(struct sk_local *l, struct sk_lworker *w, struct sk_rd *r) {
    struct sk_err err;
    uint64_t req = sk_rd_u64(r);
    struct sk_need need;
    const void *q = sk_rd_raw(r, sizeof need);
    if (!q) return;
    memcpy(&need, q, sizeof need);
    sk_shape s = 0;
    sk_rc rc = sk_abroad_shape(l, &need, &s, &err);
    sk_driver_link_answer(l, w, req, rc, s, &err);
}

static void on_RESIDX(struct sk_local *l, struct sk_lworker *w, struct sk_rd *r) {
    struct sk_err err;
    uint64_t req = sk_rd_u64(r);
    struct sk_bytes b = sk_rd_bytes(r);
    char name[128];
    uint32_t ix = 0;
    snprintf(name, sizeof name, "%.*s", (int)SK_MIN(b.n, sizeof name - 1), (const char *)b.p);
    sk_rc rc = sk_res_index(name, &l->names, &ix, &err);
    sk_driver_link_answer(l, w, req, rc, ix, &err);
}

static void on_NODES(struct sk_local *l, struct sk_lworker *w, struct sk_rd *r) {
    struct sk_node node;
    uint8_t buf[sizeof node + 64];
    struct sk_wr m = sk_wr_init(buf, sizeof buf);
    sk_wr_u32(&m, SK_M_REPLY);
    sk_wr_u32(&m, SK_OK);
    sk_wr_u64(&m, sk_rd_u64(r));
    size_t n = sk_local_nodes(l, &node, 1);
    sk_wr_bytes(&m, &node, n * sizeof node);
    (void)sk_driver_link_reply(l, w, buf, m.n);
}

static void on_DROP(struct sk_local *l, struct sk_lworker *w, struct sk_rd *r) {
    struct sk_ltask *t = sk_map_get(&l->tasks, sk_rd_u64(r));
    if (t && sk_ltask_is_stream(t) && !t->sink && t->owner == w->proc) sk_stream_drop(l, t);
}

static void on_CANCEL(struct sk_local *l, struct sk_lworker *w, struct sk_rd *r) {
    (void)w;
    uint64_t tid = sk_rd_u64(r);
    sk_ltask_cancel_by(l, tid, (uint32_t)sk_rd_u64(r));
}

static void on_KILL(struct sk_local *l, struct sk_lworker *w, struct sk_rd *r) {
    (void)w;
    uint64_t id = sk_rd_u64(r);
    const struct sk_obj *o = sk_obj_get(l, id);
    bool no_restart = sk_rd_u64(r) != 0;
    if (o && o->state == SK_O_ACTOR) sk_actor_kill(l, o->u.actor, no_restart);
    else if (sk_obj_is_foreign(l, id)) /* also by a weak handle, which has no reference */
        l->foreign.server->killed(l->foreign.server, (sk_aid){id}, no_restart);
}

static void handle(struct sk_local *l, struct sk_lworker *w, const void *p, size_t n);
static void on_BIGUP(struct sk_local *l, struct sk_lworker *w, struct sk_rd *r) {
    uint64_t off = sk_rd_u64(r), len = sk_rd_u64(r), size = l->data_seg.size + l->data_seg.tail;
    uint32_t inner;
    if (r->bad || len < 8 || off > size || len > size - off) {
        r->bad = true;
        return;
    }
    memcpy(&inner, l->data_seg.base + off, sizeof inner);
    if (inner != SK_M_BIGUP) handle(l, w, l->data_seg.base + off, (size_t)len);
    SK_IGNORE(sk_store_unlease(l->store, w->proc, off, len, NULL));
}

static void on_BIGFREE(struct sk_local *l, struct sk_lworker *w, struct sk_rd *r) {
    sk_driver_link_big_read(l, w, sk_rd_u64(r));
}

/* ---- the table ------------------------------------------------------------------------------- */

#define ROW(kind) [SK_M_##kind - SK_M_UP - 1] = on_##kind,
static void (*const handlers[])(struct sk_local *l, struct sk_lworker *w,
                                struct sk_rd *r) = {SK_MESSAGES_UP(ROW)};
_Static_assert(SK_COUNT(handlers) == SK_M_UP_END - SK_M_UP - 1,
               "each message of workers has its handler");

/* Handles a message. A damaged one kills its sender, which may be waiting for the answer. An
 * unknown kind is ignored. */
static void handle(struct sk_local *l, struct sk_lworker *w, const void *p, size_t n) {
    struct sk_rd r = sk_rd_init(p, n);
    uint32_t kind = sk_rd_u32(&r);
    if (kind > SK_M_UP && kind < SK_M_UP_END) handlers[kind - SK_M_UP - 1](l, w, &r);
    if (r.bad && !w->killed && !w->dying)
        sk_driver_link_kill(l, w, "it sent a message that makes no sense");
}

uint32_t sk_loop_pump_worker(struct sk_local *l, struct sk_lworker *w) {
    uint32_t n = 0;
    for (;;) {
        size_t len;
        const void *p = sk_ring_peek(&w->up_ring, &len);
        if (!p) {
            if (len == SIZE_MAX && !w->killed)
                sk_driver_link_kill(l, w, "it sent a message that makes no sense");
            break;
        }
        if (!w->unheard) handle(l, w, p, len);
        sk_ring_pop(&w->up_ring);
        n++;
    }
    if (w->out.n) sk_driver_link_flush(l, w);
    /* Looked at without messages, too: the load may come before the worker sees the last pop, and
     * the worker that found the ring full then rings. */
    if (SK_UNLIKELY(atomic_load_explicit(&w->sh->want_space, memory_order_seq_cst))) {
        atomic_store_explicit(&w->sh->want_space, 0, memory_order_seq_cst);
        sk_bell_ring(&w->sh->bell);
    }
    return n;
}

uint32_t sk_loop_pump(struct sk_local *l) {
    uint32_t n = 0;
    if (l->pumping) return 0;
    l->pumping = true;
    for (uint32_t i = 0; i < l->pool.n_used; i++) {
        struct sk_lworker *w = l->pool.workers[i];
        if (w) n += sk_loop_pump_worker(l, w);
    }
    l->pumping = false;
    if (n) {
        sk_obj_drain(l);
        sk_progressed(l);
    }
    sk_actor_sweep(l);
    return n;
}
