/* loop.c - the driver's loop: messages of the workers in, tasks out. Everything here runs with the engine's lock held.
 *
 * It holds no policy: who runs what is place.c's, who lives is own.c's; this file moves between them, the rings and the store. What a message
 * does to a task, an object, a stream or a request is in the file of that name. Cost of a no-op task: about 1 us for all of them (submit, place,
 * ring, done, free). */
#include <stdio.h>

#include "base/clock.h"
#include "base/mem.h"
#include "engine/local/local_int.h"

#define STALL_NS (10 * SK_SEC)

/* ---- tasks out ----------------------------------------------------------------------------------------------------------------- */

void sk_loop_fail_waiting(struct sk_local *l, sk_rc rc, const char *why) {
    for (struct sk_place_task *p; (p = sk_place_any(&l->place));) {
        struct sk_ltask *t = sk_container_of(p, struct sk_ltask, place);
        char name[200];
        sk_place_unpush(&l->place, p);
        sk_ltask_fail(l, t, rc, "task %s cannot be run: %s", sk_ltask_name(l, t, name, sizeof name), why);
    }
    SK_LIST_EACH_SAFE (it, tmp, &l->actors) {
        struct sk_lactor *a = sk_container_of(it, struct sk_lactor, link);
        if (!a->worker && a->state == SK_A_STARTING && a->init->state == SK_T_READY) sk_actor_dead(l, a, why);
    }
    sk_obj_drain(l);
}

/* It goes on only when somebody gives it something: a task, or who reads its stream. */
static bool waits(const struct sk_lworker *w) { return w->place.blocked || (w->place.state == SK_W_ACTOR && sk_list_empty(&w->sent)); }

/* A stream at the end of its window, which the driver reads. (One that a worker reads: that worker waits itself, or it is not stuck.) */
static bool waits_for_driver(const struct sk_lworker *w) {
    const struct sk_list *head = sk_list_first(&w->sent);
    const struct sk_ltask *t = head ? sk_container_of(head, struct sk_ltask, on) : NULL;
    return t && w->place.blocked && t->spec.stream_window && t->owner == SK_PROC_DRIVER && sk_list_empty(&w->reqs);
}

/* No process more can be had, and all that there are wait: nothing would ever move again. But the driver may read on what it reads; when it waits
 * for something else instead, and no other thread of it has read for STALL_NS, it will not. */
static bool stuck(struct sk_local *l, int64_t now) {
    bool driver = false;
    if (l->n_live < sk_pool_limit(l) || l->place.n_idle || l->place.n_starting) return false;
    for (uint32_t i = 0; i < l->n_used; i++) {
        const struct sk_lworker *w = l->workers[i];
        if (w && !waits(w)) return false;
        driver |= w && waits_for_driver(w);
    }
    if (!driver) return true;
    if (!l->stall_since_ns || l->stall_progress != l->progress || !l->driving) {
        l->stall_since_ns = now;
        l->stall_progress = l->progress;
    }
    return now - l->stall_since_ns > STALL_NS;
}

static void fail_stuck(struct sk_local *l) {
    char why[400] = "all worker processes wait for the results of tasks that need one; nest less deeply, or allow more workers";
    if (l->n_live < l->max_workers)
        (void)snprintf(
            why, sizeof why,
            "all %u worker processes wait for the results of tasks that need one, and the system refuses another: fork: %s (" SK_FORK_HINT
            "); nest less deeply, or allow more processes",
            l->n_live, strerror(l->refused.e));
    sk_loop_fail_waiting(l, SK_ESTALL, why);
}

void sk_loop_dispatch(struct sk_local *l) { sk_loop_dispatch_at(l, sk_now_ns()); }

void sk_loop_dispatch_at(struct sk_local *l, int64_t now) {
    if (l->lost.n) sk_recover_run(l);
    sk_lmem_turn(l, now);
    if (SK_UNLIKELY(now >= l->look_ns)) sk_pool_look(l, now);
    if (l->n_homeless) {
        bool wants_process = false;
        sk_place_want(&l->place, 0, 0);
        SK_LIST_EACH_SAFE (it, tmp, &l->actors) { /* oldest first */
            struct sk_lactor *a = sk_container_of(it, struct sk_lactor, link);
            if (a->worker || a->state != SK_A_STARTING) continue;
            sk_actor_advance(l, a);
            if (a->worker || a->init->state != SK_T_READY) continue;
            if (sk_place_fits_now(&l->place, a->shape)) wants_process = true;
            else if (!l->place.want_order) sk_place_want(&l->place, a->order, a->shape);
        }
        if (wants_process && stuck(l, now)) fail_stuck(l);
    } else if (l->place.want_order) {
        sk_place_want(&l->place, 0, 0);
    }
    for (;;) {
        struct sk_place_pick pick;
        (void)sk_lmem_may_start(l);
        sk_place_pick(&l->place, now, &pick);
        if (pick.what == SK_PLACE_NOTHING) return;
        if (pick.what == SK_PLACE_GROUP) {
            sk_lgroup_ready(l, pick.group);
            continue;
        }
        if (pick.what == SK_PLACE_DEAD) {
            sk_ltask_fail(l, sk_container_of(pick.task, struct sk_ltask, place), SK_EGROUP, "the placement group of the task was removed");
            continue;
        }
        if (pick.what == SK_PLACE_SPAWN) {
            if (sk_pool_spawn(l)) continue;
            if (l->place.n_ready && stuck(l, now)) fail_stuck(l);
            return;
        }
        struct sk_lworker *w = sk_container_of(pick.worker, struct sk_lworker, place);
        if (pick.what == SK_PLACE_RUN) {
            struct sk_ltask *t = sk_container_of(pick.task, struct sk_ltask, place);
            sk_rc rc = sk_ltask_send(l, t, w);
            if (l->place.launch != SK_LAUNCH_ALL) sk_memory_launched(&l->mem.policy, now);
            if (rc == SK_OK) continue;
            sk_place_done(&l->place, &w->place, -1, now);
            if (rc == SK_EAGAIN && t->state != SK_T_READY) { /* an argument is lost: it waits for that */
                if (t->n_unready == 0) sk_ltask_ready(l, t);
                if (l->lost.n) sk_recover_run(l);
                continue;
            }
            if (rc == SK_EFULL && sk_space_hope(l, t->spec_len)) rc = SK_EAGAIN;
            if (rc == SK_EAGAIN) { /* the ring is full; whoever waits looks again soon as long as something is ready */
                sk_place_push(&l->place, &t->place);
                return;
            }
            char name[200];
            sk_ltask_fail(l, t, rc, "task %s: no memory%s for the message with its arguments", sk_ltask_name(l, t, name, sizeof name),
                          rc == SK_EFULL ? " in the object store" : "");
            continue;
        }
        /* STEAL: the last one queued is the least likely to start meanwhile. */
        bool got = false;
        for (struct sk_list *it = w->sent.prev; it != &w->sent && !got; it = it->prev) {
            struct sk_ltask *t = sk_container_of(it, struct sk_ltask, on);
            struct sk_list *prev = it->prev;
            got = sk_ltask_take_back(l, w, t);
            if (got) break;
            it = prev->next;
        }
        if (!got) return;
    }
}

struct sk_pace_view sk_loop_view(const struct sk_local *l, int64_t now_ns, uint32_t n_messages) {
    /* Looked at now: what a caller finds lost, or on disk, after the last turn is begun by the next one, and nobody else wakes us for it. */
    bool space = l->space.waiting || !sk_list_empty(&l->space.restores) || !sk_list_empty(&l->space.rooms);
    return (struct sk_pace_view){.now_ns = now_ns,
                                 .n_messages = n_messages,
                                 .n_live = l->n_live,
                                 .n_busy = l->n_live - l->place.n_idle - l->place.n_starting,
                                 .waiting = l->place.n_ready || l->n_homeless || space || l->lost.n,
                                 .driven = l->driving,
                                 .large = l->tasks.mask >= SK_MAP_LARGE || sk_own_large(l->own)};
}

/* ---- messages of workers in --------------------------------------------------------------------------------------------------------- */

/* Its process has run enough (max_calls): what waits on it goes elsewhere, and it is told to leave. */
static void retire(struct sk_local *l, struct sk_lworker *w) {
    sk_ltask_take_back_all(l, w);
    sk_pool_leave(l, w, "it has run a function with max_calls often enough");
}

static void handle_done(struct sk_local *l, struct sk_lworker *w, const void *p, size_t n) {
    struct sk_msg_done h;
    struct sk_rd r = sk_rd_init(p, n);
    const void *hp = sk_rd_raw(&r, sizeof h);
    if (!hp) return;
    memcpy(&h, hp, sizeof h);
    struct sk_bytes note = sk_rd_bytes(&r);
    struct sk_ltask *t = sk_map_get(&l->tasks, h.tid);
    if (t && (t->worker != w || t->attempt != h.attempt || t->state != SK_T_SENT)) t = NULL;
    w->n_done++;
    l->n_tasks_done++;
    if (t) {
        sk_ltask_left(l, t, w, h.run_ns);
        t->ran_on = w->pid;
        t->ran_slot = w->slot;
        t->start_ns = h.start_ns;
        t->end_ns = h.start_ns + h.run_ns;
    }
    struct sk_lactor *a = t ? t->actor : NULL;
    bool init = t && t->is_init, failed = h.status & SK_DONE_FAILED;
    if ((h.status & SK_DONE_LEAVE) && !w->actor && !w->killed) retire(l, w);
    if (t && a && (h.status & SK_DONE_EXIT)) {
        a->leaving = true;
        sk_ltask_fail(l, t, SK_EACTOR, "the actor is dead: exit_actor() was called in it");
        if (!init) sk_actor_dead(l, a, "exit_actor() was called in it"); /* the end of its constructor was its own */
        t = NULL;
        a = NULL;
    }
    if (t && (t->differs || t->lost_yield ||
              (t->cancelled && (failed || (a && !init && !(a->is_async && !t->is_stream)) || (t->is_stream && t->sink))))) {
        /* The values are thrown away. Not those of a coroutine that caught its CancelledError: it was told, and went on. */
        sk_ltask_fail_cancelled(l, t);
        if (a && !init) sk_actor_advance(l, a);
        t = NULL;
        a = NULL;
    }
    if (t && t->remake && t->is_stream && sk_recover_all_made(t)) { /* however it ended after that */
        t->state = SK_T_FINISHED;
        sk_ltask_end(l, t);
        t = NULL;
    }
    if (t && t->restart && failed && !t->cancelled) {
        if (t->retries_left > 0) t->retries_left--;
        sk_ltask_retry(l, t, SK_ELOST, "yields that are wanted were lost while it ran");
        return;
    }
    if (t && failed && t->spec.retry_exceptions && !(h.status & SK_DONE_FINAL) && t->retries_left != 0 && !init && !t->cancelled) {
        if (t->retries_left > 0) t->retries_left--;
        if (!a) {
            sk_ltask_retry(l, t, SK_ETASK, "it raised, and runs again");
            return;
        }
        sk_state_attempt(l, t, SK_ETASK, "it raised, and runs again");
        t->attempt++;
        l->n_retries++;
        t->state = SK_T_READY;
        sk_list_push_front(&a->queue, &t->on);
        sk_actor_advance(l, a);
        return;
    }
    for (uint32_t i = 0; i < h.n_values; i++) {
        struct sk_val v;
        struct sk_ids in;
        const void *b = sk_rd_val_ids(&r, &v, &in);
        if (r.bad) break;
        if (failed) {
            if (v.where == SK_V_STORE) { /* errors are inline; a large one would be cut by the worker */
                if (sk_store_commit(l->store, w->proc, v.off, v.len, NULL) == SK_OK) sk_store_unref(l->store, v.off);
                v.len = 0;
                b = "";
            }
            if (t) sk_ltask_finish_error(l, t, v.kind, b, (size_t)v.len);
            if (a && !init) sk_actor_advance(l, a);
            return;
        }
        if (t && (v.where == SK_V_STORE || in.n)) t->bulky = true;
        sk_obj_set(l, t ? v.oid : 0, w->proc, &v, b, in);
    }
    if (!t) return;
    if (t->is_stream && t->remake) {
        char name[200];
        sk_ltask_fail(l, t, SK_ETASK,
                      "task %s is not deterministic: run again for output that was lost, it gave less of it than the first time; "
                      "make the function give the same output for the same input",
                      sk_ltask_name(l, t, name, sizeof name));
        return;
    }
    if (t->is_stream && !t->sink) {
        t->stream_done = 1;
        sk_stream_wake(l, t);
        sk_stream_ended(l, t, false, 0, NULL);
    }
    t->state = SK_T_FINISHED; /* a sink that cancels it now is late */
    if (t->sink) {
        struct sk_event ev = {.kind = SK_EV_DONE, .note = note, .run_ns = h.run_ns, .index = t->n_yielded};
        sk_ltask_emit(t, &ev);
    }
    if (t->is_init) {
        a->state = SK_A_ALIVE;
        a->asked = false;
    }
    sk_ltask_end(l, t);
    if (a) sk_actor_advance(l, a);
}

/* New ids come from the worker's own range, each once. */
bool sk_loop_fresh_ids(struct sk_local *l, struct sk_lworker *w, uint64_t base) {
    if (base >> 40 == w->proc && !sk_map_get(&l->tasks, base)) return true;
    sk_pool_kill(l, w, "it sent a message that makes no sense");
    return false;
}

static void handle_put(struct sk_local *l, struct sk_lworker *w, struct sk_rd *r) {
    uint64_t id = sk_rd_u64(r);
    struct sk_val v;
    struct sk_ids in;
    const void *b = sk_rd_val_ids(r, &v, &in);
    struct sk_obj *o = NULL;
    if (r->bad || !sk_loop_fresh_ids(l, w, id)) return;
    if (sk_obj_new(l, id, w->proc, &o, NULL) != SK_OK) { /* it has the id, and would hear "lost" */
        w->unheard = true;
        sk_pool_kill(l, w, "there is no memory left to record what it put");
        return;
    }
    sk_obj_set(l, id, w->proc, &v, b, in);
}

/* A submission of a worker that could not be accepted still has return objects (or a stream), which hold the reason. */
static void submit_failed(struct sk_local *l, uint32_t proc, uint64_t base, struct sk_bytes spec, const struct sk_err *err) {
    struct sk_spec s;
    struct sk_rd r = sk_rd_init(spec.p, spec.n);
    uint32_t n = sk_spec_read(&r, &s) ? s.n_returns : 1;
    struct sk_inl *e = sk_engine_error(err->code, err->msg);
    struct sk_ltask *t = n == SK_STREAMING ? sk_calloc(SK_TAG_ENGINE, sizeof *t) : NULL;
    if (t && sk_map_put(&l->tasks, base, t) == SK_OK) {
        t->id = base;
        t->owner = proc;
        t->is_stream = true;
        t->state = SK_T_FINISHED;
        t->ended = true;
        t->stream_done = 1;
        t->end_error = sk_obj_error(l, SK_KIND_ENGINE_ERROR, e ? (void *)e->bytes : (void *)"", e ? e->len : 0);
        sk_stream_ended(l, t, true, SK_KIND_ENGINE_ERROR, e);
        l->n_worker_streams++;
    } else {
        sk_free(t);
    }
    for (uint32_t i = 0; n != SK_STREAMING && i < n; i++) {
        struct sk_obj *o = NULL;
        if (sk_obj_new(l, base + 1 + i, proc, &o, NULL) != SK_OK) break;
        o->kind = SK_KIND_ENGINE_ERROR;
        o->where = SK_V_INLINE;
        o->u.inl = e;
        if (e) e->refs++;
        o->len = e ? e->len : 0;
        sk_obj_ready(l, o);
    }
    sk_inl_drop(e);
}

/* Of what its running task submits. */
static uint32_t level_of(const struct sk_lworker *w) {
    const struct sk_list *first = sk_list_first(&w->sent);
    return first && !w->actor ? (uint32_t)sk_container_of(first, struct sk_ltask, on)->place.level + 1 : 1;
}

static void handle_stream_end(struct sk_local *l, struct sk_lworker *w, struct sk_rd *r) {
    uint64_t id = sk_rd_u64(r), tid = sk_rd_u64(r);
    uint32_t kind = sk_rd_u32(r);
    struct sk_err err;
    if (r->bad || !sk_loop_fresh_ids(l, w, id)) return;
    sk_rc rc = sk_stream_end(l, tid, id, w->proc, kind, &err);
    if (rc == SK_OK) return;
    struct sk_inl *e = sk_engine_error(rc, err.msg);
    struct sk_obj *o = NULL;
    if (sk_obj_new(l, id, w->proc, &o, NULL) == SK_OK) { /* it has the id: the reason is its value */
        o->kind = SK_KIND_ENGINE_ERROR;
        o->where = SK_V_INLINE;
        o->u.inl = e;
        o->len = e ? e->len : 0;
        sk_obj_ready(l, o);
        return;
    }
    sk_inl_drop(e);
    w->unheard = true;
    sk_pool_kill(l, w, "there is no memory left to record what it asked for");
}

static sk_rc may_call(struct sk_local *l, const struct sk_lworker *w, struct sk_bytes spec, uint32_t max, struct sk_err *err) {
    struct sk_spec s;
    struct sk_rd r = sk_rd_init(spec.p, spec.n);
    if (!sk_spec_read(&r, &s)) return SK_ERR(err, SK_ECORRUPT, "a task specification is damaged");
    return sk_actor_may_call(l, s.actor, w->proc, max, err);
}

static void handle(struct sk_local *l, struct sk_lworker *w, const void *p, size_t n) {
    struct sk_rd r = sk_rd_init(p, n);
    uint32_t type = sk_rd_u32(&r);
    struct sk_err err;
    switch (type) {
    case SK_M_HELLO:
        w->up = true;
        l->n_bad_starts = 0;
        w->pid = (int32_t)sk_rd_u32(&r);
        if (w->place.state == SK_W_STARTING) sk_place_worker_up(&l->place, &w->place);
        if (w->aside && !w->killed) sk_place_worker_aside(&l->place, &w->place, w->aside = false); /* stopped while it started */
        sk_pool_retire(l, w);
        break;
    case SK_M_DONE: handle_done(l, w, p, n); break;
    case SK_M_YIELD: sk_stream_yielded(l, w, &r); break;
    case SK_M_RETURNED: {
        struct sk_ltask *t = sk_map_get(&l->tasks, sk_rd_u64(&r));
        if (t && t->worker == w && t->state == SK_T_SENT && !t->actor) {
            sk_ltask_left(l, t, w, -1);
            t->state = SK_T_READY;
            if (t->cancelled) /* while this message was on its way */
                sk_ltask_fail_cancelled(l, t);
            else sk_place_push(&l->place, &t->place);
        }
        break;
    }
    case SK_M_SUBMIT: {
        uint64_t base = sk_rd_u64(&r), req = sk_rd_u64(&r), max = sk_rd_u64(&r);
        struct sk_bytes s = sk_rd_bytes(&r);
        l->now_ns = sk_now_ns();
        if (r.bad || !sk_loop_fresh_ids(l, w, base)) break;
        sk_rc rc = req ? may_call(l, w, s, (uint32_t)max, &err) : SK_OK;
        if (rc == SK_OK) rc = sk_ltask_submit(l, w->proc, level_of(w), base, s.p, s.n, NULL, &err);
        if (req) sk_req_error(l, w, req, rc, rc == SK_OK ? "" : err.msg);
        else if (rc != SK_OK) submit_failed(l, w->proc, base, s, &err);
        break;
    }
    case SK_M_ACTOR: {
        uint64_t base = sk_rd_u64(&r), req = sk_rd_u64(&r);
        struct sk_aspec as;
        bool good = sk_aspec_read(&r, &as);
        struct sk_bytes s = sk_rd_bytes(&r);
        if (!good || r.bad || !sk_loop_fresh_ids(l, w, base)) break;
        l->now_ns = sk_now_ns();
        sk_rc rc = sk_actor_create(l, w->proc, base, s.p, s.n, &as, &err);
        if (req) sk_req_error(l, w, req, rc, rc == SK_OK ? "" : err.msg);
        else if (rc != SK_OK) submit_failed(l, w->proc, base, s, &err);
        break;
    }
    case SK_M_FIND: {
        uint64_t req = sk_rd_u64(&r);
        struct sk_bytes space = sk_rd_bytes(&r), name = sk_rd_bytes(&r);
        if (!r.bad) sk_actor_find_for(l, w, req, space, name);
        break;
    }
    case SK_M_STATE: sk_state_for(l, w, &r); break;
    case SK_M_NAMES: sk_actor_names_for(l, w, sk_rd_u64(&r)); break;
    case SK_M_GROUP:
    case SK_M_UNGROUP:
    case SK_M_GROUPS:
    case SK_M_MORE:
    case SK_M_MOREREAD:
    case SK_M_DEFENV: sk_lgroup_handle(l, w, type, &r); return;
    case SK_M_PUT: handle_put(l, w, &r); break;
    case SK_M_REF: {
        uint64_t id = sk_rd_u64(&r);
        int64_t d = sk_rd_i64(&r);
        if (d > 0) SK_IGNORE(sk_own_ref(l->own, id, w->proc, (uint32_t)d, NULL));
        if (d < 0) SK_IGNORE(sk_own_unref(l->own, id, w->proc, (uint32_t)-d, NULL));
        break;
    }
    case SK_M_GET:
    case SK_M_WAIT: sk_req_wait(l, w, type, &r); break;
    case SK_M_NEXT:
    case SK_M_PEEK: sk_req_next(l, w, type, &r); break;
    case SK_M_WATCH: {
        uint64_t req = sk_rd_u64(&r), oid = sk_rd_u64(&r), tid = sk_rd_u64(&r);
        if (r.bad || sk_req_watch(l, w, req, oid, tid, NULL, &err) == SK_OK) break;
        struct {
            uint32_t type, pad;
            uint64_t req;
        } m = {SK_M_FIRED, 0, req}; /* it is there; without memory for a watch who asked waits by itself, for all that it knows */
        (void)sk_pool_reply(l, w, &m, sizeof m);
        break;
    }
    case SK_M_LEAVE:
        if (!w->actor) break;
        w->actor->leaving = true;
        sk_actor_dead(l, w->actor, "exit_actor() was called in it");
        break;
    case SK_M_UNWATCH: sk_req_unwatch(l, w, sk_rd_u64(&r)); break;
    case SK_M_STREAMEND: handle_stream_end(l, w, &r); break;
    case SK_M_TIMEOUT: {
        uint64_t req = sk_rd_u64(&r);
        SK_LIST_EACH (it, &w->reqs) {
            struct sk_req *q = sk_container_of(it, struct sk_req, link);
            if (q->req == req) {
                sk_req_reply(l, q, SK_ETIMEOUT);
                break;
            }
        }
        break;
    }
    case SK_M_LEASE: {
        uint64_t req = sk_rd_u64(&r), len = sk_rd_u64(&r), min = sk_rd_u64(&r);
        if (!r.bad) sk_space_lease(l, w, req, len, SK_MIN(min, len));
        break;
    }
    case SK_M_GIVE: {
        uint64_t off = sk_rd_u64(&r), len = sk_rd_u64(&r);
        l->space.n_eased++;
        if (sk_store_unlease(l->store, w->proc, off, len, NULL) != SK_OK && /* from the middle: only sealing cuts there */
            sk_store_commit(l->store, w->proc, off, len, NULL) == SK_OK)
            sk_store_unref(l->store, off);
        break;
    }
    case SK_M_PIN: {
        struct sk_obj *o = sk_obj_get(l, sk_rd_u64(&r));
        uint64_t off = o && o->state == SK_O_READY && o->where == SK_V_STORE ? o->u.off : UINT64_MAX;
        bool was_lost = o && sk_recover_old(w, o->id, &off);
        if ((was_lost || off != UINT64_MAX) && sk_store_pin(l->store, w->proc, off) != SK_OK)
            sk_pool_kill(l, w, "there is no memory left to note what it holds");
        break;
    }
    case SK_M_UNPIN:
        (void)sk_store_unpin(l->store, w->proc, sk_rd_u64(&r));
        l->space.n_eased++;
        break;
    case SK_M_DEFINE: {
        uint64_t fid = sk_rd_u64(&r);
        struct sk_bytes name = sk_rd_bytes(&r), def = sk_rd_bytes(&r);
        if (!r.bad) (void)sk_fn_define(l, fid, name, def, NULL);
        break;
    }
    case SK_M_SHAPE: {
        uint64_t req = sk_rd_u64(&r);
        struct sk_need need;
        const void *q = sk_rd_raw(&r, sizeof need);
        if (!q) break;
        memcpy(&need, q, sizeof need);
        sk_shape s = 0;
        sk_rc rc = sk_need_shape(l, &need, &s, &err);
        sk_req_answer(l, w, req, rc, s, &err);
        break;
    }
    case SK_M_RESIDX: {
        uint64_t req = sk_rd_u64(&r);
        struct sk_bytes b = sk_rd_bytes(&r);
        char name[128];
        uint32_t ix = 0;
        snprintf(name, sizeof name, "%.*s", (int)SK_MIN(b.n, sizeof name - 1), (const char *)b.p);
        sk_rc rc = l->base.ops->res_index(&l->base, name, &ix, &err);
        sk_req_answer(l, w, req, rc, ix, &err);
        break;
    }
    case SK_M_RESOURCES: {
        uint8_t buf[2 * sizeof(struct sk_res) + 64];
        struct sk_wr m = sk_wr_init(buf, sizeof buf);
        sk_wr_u32(&m, SK_M_REPLY);
        sk_wr_u32(&m, SK_OK);
        sk_wr_u64(&m, sk_rd_u64(&r));
        sk_wr_raw(&m, &l->place.total, sizeof l->place.total);
        sk_wr_raw(&m, &l->place.avail, sizeof l->place.avail);
        (void)sk_pool_reply(l, w, buf, m.n);
        break;
    }
    case SK_M_DROP: {
        struct sk_ltask *t = sk_map_get(&l->tasks, sk_rd_u64(&r));
        if (t && t->is_stream && !t->sink && t->owner == w->proc) sk_stream_drop(l, t);
        break;
    }
    case SK_M_CANCEL: {
        uint64_t tid = sk_rd_u64(&r);
        sk_ltask_cancel_by(l, tid, (uint32_t)sk_rd_u64(&r));
        break;
    }
    case SK_M_KILL: {
        struct sk_obj *o = sk_obj_get(l, sk_rd_u64(&r));
        if (o && o->state == SK_O_ACTOR) l->base.ops->actor_kill(&l->base, (sk_aid){o->id}, sk_rd_u64(&r) != 0, NULL);
        break;
    }
    case SK_M_BIGUP: {
        uint64_t off = sk_rd_u64(&r), len = sk_rd_u64(&r);
        if (r.bad || off > l->data_seg.size + l->data_seg.tail || len > l->data_seg.size + l->data_seg.tail - off) break;
        uint32_t inner;
        memcpy(&inner, l->data_seg.base + off, sizeof inner);
        if (len >= 8 && inner != SK_M_BIGUP) handle(l, w, l->data_seg.base + off, (size_t)len);
        SK_IGNORE(sk_store_unlease(l->store, w->proc, off, len, NULL));
        break;
    }
    case SK_M_BIGFREE: {
        uint64_t off = sk_rd_u64(&r);
        for (uint32_t i = 0; i < w->big.n; i++)
            if (w->big.p[i] == off) {
                w->big.p[i] = w->big.p[--w->big.n];
                sk_store_unref(l->store, off);
                break;
            }
        break;
    }
    default: break;
    }
    if (r.bad && !w->killed && !w->dying) sk_pool_kill(l, w, "it sent a message that makes no sense"); /* it may wait for the answer */
}

uint32_t sk_loop_pump_worker(struct sk_local *l, struct sk_lworker *w) {
    uint32_t n = 0;
    for (;;) {
        size_t len;
        const void *p = sk_ring_peek(&w->up_ring, &len);
        if (!p) {
            if (len == SIZE_MAX && !w->killed) sk_pool_kill(l, w, "it sent a message that makes no sense");
            break;
        }
        if (!w->unheard) handle(l, w, p, len);
        sk_ring_pop(&w->up_ring);
        n++;
    }
    if (n) {
        if (w->out.n) sk_pool_flush(l, w);
        if (atomic_load_explicit(&w->sh->want_space, memory_order_seq_cst)) {
            atomic_store_explicit(&w->sh->want_space, 0, memory_order_seq_cst);
            sk_bell_ring(&w->sh->bell);
        }
    } else if (w->out.n) {
        sk_pool_flush(l, w);
    }
    return n;
}

uint32_t sk_loop_pump(struct sk_local *l) {
    uint32_t n = 0;
    if (l->pumping) return 0;
    l->pumping = true;
    for (uint32_t i = 0; i < l->n_used; i++) {
        struct sk_lworker *w = l->workers[i];
        if (w) n += sk_loop_pump_worker(l, w);
    }
    l->pumping = false;
    if (n) {
        sk_obj_drain(l);
        l->progress++;
    }
    sk_actor_sweep(l);
    return n;
}
