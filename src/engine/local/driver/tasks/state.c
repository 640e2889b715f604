/* state.c - state lists of the local engine: rows of its tasks, actors, objects and workers
 * (engine/state.h). Runs with the lock held; changes nothing but the history.
 *
 * Invariant: each ended attempt of a task is in the history once, and attempts under way are in
 * l->tasks; so no attempt is listed twice. A task that runs again for lineage counts as another
 * attempt. Cost: 10 ns for an ended task; for a list, a walk over its table. */
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "engine/local/driver/local_int.h"

static uint32_t kind_of(const struct sk_ltask *t) {
    return t->kind == SK_TASK_INIT   ? SK_TK_INIT
           : t->kind == SK_TASK_CALL ? SK_TK_METHOD
                                     : SK_TK_TASK;
}
static uint64_t actor_of(const struct sk_ltask *t) {
    return t->actor ? t->actor->id : t->spec.actor;
}

static void past(struct sk_local *l, const struct sk_ltask *t, uint32_t error_kind,
                 struct sk_bytes error) {
    struct sk_ended e = {.p = {.id = t->id,
                               .fn = t->spec.fid,
                               .submit_ns = t->submit_ns,
                               .pid = t->ran_on,
                               .worker = (uint16_t)t->ran_slot,
                               .attempt = (uint16_t)t->attempt,
                               .n_returns = t->spec.n_returns,
                               .shape = t->spec.shape,
                               .kind = (uint8_t)kind_of(t),
                               .failed = error_kind != 0},
                         .parent = t->spec.parent,
                         .actor = actor_of(t),
                         .error_kind = error_kind,
                         .name = t->spec.name,
                         .error = error,
                         .start_ns = t->start_ns,
                         .end_ns = t->end_ns};
    if (SK_UNLIKELY(!e.end_ns)) e.end_ns = sk_now_ns(); /* the task never ran, or its worker died */
    sk_history_add(&l->past, &e);
    sk_show_ended(l, &e);
}

void sk_state_ended(struct sk_local *l, struct sk_ltask *t, uint32_t error_kind,
                    struct sk_bytes error) {
    past(l, t, error_kind, error);
}

void sk_state_attempt(struct sk_local *l, struct sk_ltask *t, sk_rc rc, const char *why) {
    char text[400];
    int32_t code = rc;
    memcpy(text, &code, 4);
    int n = snprintf(text + 4, sizeof text - 4, "%s", why);
    past(l, t, SK_KIND_ENGINE_ERROR,
         (struct sk_bytes){text, 4 + SK_MIN((size_t)n, sizeof text - 5) + 1});
    sk_state_not_run(t);
}

void sk_state_ran(struct sk_ltask *t, const struct sk_lworker *w, int64_t start_ns,
                  int64_t end_ns) {
    t->ran_on = w->pid;
    t->ran_slot = w->slot;
    t->start_ns = start_ns;
    t->end_ns = end_ns;
}

void sk_state_not_run(struct sk_ltask *t) {
    t->ran_on = 0;
    t->start_ns = t->end_ns = 0;
}

/* ---- rows ------------------------------------------------------------------------------------ */

static struct sk_bytes fn_name(struct sk_local *l, uint64_t fid) {
    const struct sk_fn *f = sk_map_get(&l->fns, fid);
    return f ? (struct sk_bytes){f->name, strlen(f->name)} : (struct sk_bytes){"", 0};
}

static struct sk_past_more more(void *ctx, const struct sk_past *p) {
    struct sk_local *l = ctx;
    return (struct sk_past_more){fn_name(l, p->fn), sk_place_need_of(&l->place, p->shape)};
}

static uint32_t state_of(const struct sk_ltask *t) {
    if (sk_ltask_over(t)) return SK_TS_FINISHED;
    if (t->state == SK_T_WAITING) return SK_TS_ARGS;
    if (!t->worker) return SK_TS_PLACE;
    uint64_t c = atomic_load_explicit(&t->worker->sh->claims[t->claim], memory_order_acquire);
    return c == (t->id << 2 | SK_CLAIM_STARTED) || c == (t->id << 2 | SK_CLAIM_CANCELLED)
               ? SK_TS_RUNNING
               : SK_TS_SENT;
}

static void tasks(struct sk_local *l, struct sk_rows *r) {
    uint64_t id;
    void *v;
    sk_rows_past(r, &l->past, more, l);
    for (uint32_t i = 0; sk_map_next(&l->tasks, &i, &id, &v);) {
        const struct sk_ltask *t = v;
        /* the task is in the history already; its entry is kept for yields, lineage or restarts */
        if (sk_ltask_over(t)) continue;
        const struct sk_lworker *w = t->worker;
        struct sk_need need = sk_place_need_of(&l->place, t->spec.shape);
        struct sk_bytes fn = fn_name(l, t->spec.fid);
        struct sk_task_row row = {.id = t->id,
                                  .parent = t->spec.parent,
                                  .actor = actor_of(t),
                                  .group = need.group,
                                  .submit_ns = t->submit_ns,
                                  .pid = w ? w->pid : 0,
                                  .worker = w ? w->slot : 0,
                                  .attempt = t->attempt,
                                  .state = state_of(t),
                                  .kind = kind_of(t),
                                  .n_returns = t->spec.n_returns,
                                  .name_n = (uint32_t)t->spec.name.n,
                                  .fn_n = (uint32_t)fn.n,
                                  .more = need.more,
                                  .res = need.res};
        SK_ASSERT(w || row.state != SK_TS_RUNNING);
        if (row.state == SK_TS_RUNNING && atomic_load(&w->sh->task) == t->id)
            row.start_ns = atomic_load(&w->sh->since_ns);
        sk_rows_add(r, &row, sizeof row, (struct sk_bytes[]){t->spec.name, fn}, 2);
    }
}

static void actor(struct sk_local *l, const struct sk_lactor *a, struct sk_rows *r) {
    struct sk_need need = sk_place_need_of(&l->place, a->shape);
    struct sk_bytes none = {"", 0}, name = a->name ? a->name->name : none,
                    space = a->name ? a->name->space : none;
    struct sk_bytes cls = fn_name(l, a->init->spec.fid), why = none;
    if (!cls.n) cls = a->init->spec.name;
    if (a->state == SK_A_DEAD)
        why = a->dead_value ? (struct sk_bytes){a->dead_value->bytes, a->dead_value->len}
                            : (struct sk_bytes){a->why, strlen(a->why)};
    uint32_t state = a->state == SK_A_DEAD ? SK_AS_DEAD
                     : a->worker && a->worker->killed
                         ? (a->no_restart ? SK_AS_DEAD : SK_AS_RESTARTING)
                     : a->state == SK_A_ALIVE         ? SK_AS_ALIVE
                     : a->init->attempt               ? SK_AS_RESTARTING
                     : a->init->state == SK_T_WAITING ? SK_AS_ARGS
                                                      : SK_AS_PENDING;
    struct sk_actor_row row = {.id = a->id,
                               .group = need.group,
                               .init = a->init->id,
                               .pid = a->worker             ? a->worker->pid
                                      : state == SK_AS_DEAD ? a->init->ran_on
                                                            : 0,
                               .worker = a->worker ? a->worker->slot : a->init->ran_slot,
                               .state = state,
                               .n_restarts = a->init->attempt,
                               .n_calls = a->n_tasks,
                               .detached = a->detached,
                               .error_kind = a->dead_value ? a->dead_kind : 0,
                               .class_n = (uint32_t)cls.n,
                               .name_n = (uint32_t)name.n,
                               .space_n = (uint32_t)space.n,
                               .why_n = (uint32_t)why.n,
                               .more = need.more,
                               .res = need.res};
    sk_rows_add(r, &row, sizeof row, (struct sk_bytes[]){cls, name, space, why}, 4);
}

void sk_state_actor_gone(struct sk_local *l, struct sk_lactor *a) {
    uint8_t buf[4096];
    struct sk_rows r = {.w = sk_wr_init(buf, sizeof buf)};
    actor(l, a, &r);
    if (sk_wr_ok(&r.w)) sk_history_gone(&l->past.actors, (struct sk_bytes){buf, r.w.n});
}

static void objects(struct sk_local *l, struct sk_rows *r) {
    uint64_t id;
    void *v;
    for (uint32_t c = 0; sk_own_each(l->own, &c, &id, &v);) {
        const struct sk_obj *o = v;
        const struct sk_ltask *t = o->maker;
        struct sk_object_row row = {.id = id,
                                    .size_bytes = o->state == SK_O_READY ? o->len : 0,
                                    .n_total = sk_own_count(l->own, id),
                                    .task = t ? t->id : 0,
                                    .where = o->state == SK_O_ACTOR     ? SK_OW_ACTOR
                                             : o->state == SK_O_PENDING ? SK_OW_PENDING
                                             : o->where == SK_V_STORE   ? SK_OW_STORE
                                             : o->where == SK_V_DISK    ? SK_OW_DISK
                                                                        : SK_OW_INLINE,
                                    .attempt = t ? t->attempt : 0,
                                    .task_state = t ? state_of(t) : SK_TS_FINISHED,
                                    .kind = o->state == SK_O_READY ? o->kind : 0};
        bool any = false;
        for (uint32_t i = 0; i <= l->pool.n_used; i++) {
            const struct sk_lworker *w = i ? l->pool.workers[i - 1] : NULL;
            if (i && !w) continue;
            row.n_refs = sk_own_borrowed(l->own, id, w ? w->proc : SK_PROC_DRIVER);
            if (!row.n_refs) continue;
            any = true;
            row.pid = w ? w->pid : getpid();
            row.worker = w ? w->slot + 1 : 0;
            sk_rows_add(r, &row, sizeof row, NULL, 0);
        }
        if (any) continue;
        row.pid = 0;
        row.worker = 0;
        sk_rows_add(r, &row, sizeof row, NULL, 0);
    }
}

static void workers(struct sk_local *l, struct sk_rows *r) {
    for (uint32_t i = 0; i < l->pool.n_used; i++) {
        const struct sk_lworker *w = l->pool.workers[i];
        if (!w || w->pid <= 0) continue; /* the fork server has not reported its pid yet */
        char name[sizeof w->sh->task_name];
        struct sk_worker_row row = {.n_done = w->n_done,
                                    .actor = w->actor ? w->actor->id : 0,
                                    .task = atomic_load(&w->sh->task),
                                    .since_ns = atomic_load(&w->sh->since_ns),
                                    .pid = w->pid,
                                    .worker = i,
                                    .state = sk_pool_worker_state(w),
                                    /* always the whole array, with a NUL inside, so that the
                                     * length does not change from moment to moment */
                                    .text_n = sizeof name};
        memcpy(name, w->sh->task_name, sizeof name);
        sk_rows_add(r, &row, sizeof row, (struct sk_bytes[]){{name, row.text_n}}, 1);
    }
}

void sk_state_worker_gone(struct sk_local *l, const struct sk_lworker *w,
                          const struct sk_verdict_worker *died, const char *why) {
    uint8_t buf[2048];
    struct sk_rows r = {.w = sk_wr_init(buf, sizeof buf)};
    struct sk_worker_row row = {.n_done = w->n_done,
                                .actor = w->actor ? w->actor->id : 0,
                                .pid = w->pid,
                                .worker = w->slot,
                                .state = 3,
                                .end = sk_verdict_end(died),
                                .signal = died->status != -1 && WIFSIGNALED(died->status)
                                              ? (uint32_t)WTERMSIG(died->status)
                                              : 0,
                                .end_ns = sk_now_ns(),
                                .text_n = (uint32_t)strlen(why)};
    if (w->pid <= 0) return; /* this worker never had a process */
    sk_rows_add(&r, &row, sizeof row, (struct sk_bytes[]){{why, row.text_n}}, 1);
    if (sk_wr_ok(&r.w)) sk_history_gone(&l->past.workers, (struct sk_bytes){buf, r.w.n});
}

size_t sk_state_write(struct sk_local *l, enum sk_state_what what, void *buf, size_t cap) {
    struct sk_rows r = sk_rows_begin(buf, cap);
    switch (what) {
    case SK_STATE_TASKS: tasks(l, &r); break;
    case SK_STATE_ACTORS:
        sk_rows_gone(&r, &l->past.actors);
        SK_LIST_EACH (it, &l->actors.all) actor(l, sk_container_of(it, struct sk_lactor, link), &r);
        break;
    case SK_STATE_OBJECTS: objects(l, &r); break;
    case SK_STATE_WORKERS:
        sk_rows_gone(&r, &l->past.workers);
        workers(l, &r);
        break;
    default: break;
    }
    return sk_rows_end(&r, buf, cap);
}

/* ---- what a caller waits for ----------------------------------------------------------------- */

static void why_not(struct sk_local *l, const struct sk_ltask *t, char *buf, size_t cap) {
    char name[200];
    const char *tn = sk_ltask_name(l, t, name, sizeof name);
    switch (state_of(t)) {
    case SK_TS_ARGS:
        snprintf(buf, cap, "task %s, which waits for %u of its arguments", tn, t->n_unready);
        break;
    case SK_TS_PLACE:
        if (t->actor) snprintf(buf, cap, "task %s, which waits for its actor", tn);
        else snprintf(buf, cap, "task %s, which waits for a worker with what it asks for", tn);
        break;
    case SK_TS_SENT:
        snprintf(buf, cap, "task %s, which is queued on worker %d", tn, t->worker->pid);
        break;
    case SK_TS_RUNNING:
        snprintf(buf, cap, "task %s, which runs in worker %d", tn, t->worker->pid);
        break;
    default: snprintf(buf, cap, "task %s, which has ended", tn); break;
    }
}

void sk_state_waits(struct sk_local *l, const char *verb, const sk_oid *ids, size_t n,
                    uint64_t tid) {
    char *out = l->ctl->waits, story[300] = "";
    const size_t cap = sizeof l->ctl->waits;
    const struct sk_ltask *t = tid ? sk_map_get(&l->tasks, tid) : NULL;
    size_t missing = 0;
    for (size_t i = 0; i < n; i++) {
        const struct sk_obj *o = sk_obj_get(l, ids[i].v);
        if (!o || (o->state != SK_O_PENDING && o->where != SK_V_DISK)) continue;
        if (!missing++ && o->state == SK_O_PENDING) t = o->maker;
        if (missing && i >= 10000) break; /* enough objects for the message */
    }
    if (t) why_not(l, t, story, sizeof story);
    if (n)
        snprintf(out, cap, "%s: %zu of %zu objects are not there%s%s", verb, missing, n,
                 t ? "; the first is made by " : "", story);
    else snprintf(out, cap, "%s%s%s", verb, t ? " of " : "", story);
    atomic_store(&l->ctl->waits_ns, INT64_MAX);
}

void sk_state_about(struct sk_local *l, uint64_t oid, uint64_t tid, char *buf, size_t cap) {
    const struct sk_obj *o = oid ? sk_obj_get(l, oid) : NULL;
    const struct sk_ltask *t = o ? o->maker : oid ? NULL : sk_map_get(&l->tasks, tid);
    char story[300];
    SK_ASSERT(cap > 0 && (oid || tid));
    buf[0] = 0;
    if (o && o->state != SK_O_PENDING) {
        snprintf(buf, cap, o->where == SK_V_DISK ? "is read from disk" : "is there by now");
    } else if (t) {
        why_not(l, t, story, sizeof story);
        snprintf(buf, cap, "of %s, submitted %.1f s ago", story,
                 (double)(sk_now_ns() - t->submit_ns) / 1e9);
    }
}

/* ---- state lists that a worker asks for ------------------------------------------------------ */

static size_t write_rows(struct sk_local *l, uint64_t what, void *buf, size_t cap) {
    if (what <= SK_STATE_WORKERS) return sk_state_write(l, (enum sk_state_what)what, buf, cap);
    struct sk_rows none = sk_rows_begin(buf, cap); /* an unknown list, asked for by a worker */
    return sk_rows_end(&none, buf, cap);
}

void sk_state_for(struct sk_local *l, struct sk_lworker *w, struct sk_rd *r) {
    uint64_t req = sk_rd_u64(r), what = sk_rd_u64(r);
    if (!r->bad) sk_driver_link_list(l, w, req, write_rows, what);
}

size_t sk_local_nodes(struct sk_local *l, struct sk_node *out, size_t cap) {
    struct sk_store_stats s;
    if (!cap) return 1;
    sk_store_get_stats(l->store, &s);
    struct sk_spill_stats d = {0};
    if (l->space.spill) sk_spill_get_stats(l->space.spill, &d);
    *out = (struct sk_node){.number = SK_LOCAL_NODE,
                            .alive = true,
                            .name = "this machine",
                            .total = l->place.total,
                            .free = l->place.avail,
                            .capacity_bytes = s.size_bytes,
                            .resident_bytes = s.sealed_bytes,
                            .disk_bytes = l->stored.disk_object_bytes,
                            .promised_bytes = s.leased_bytes,
                            .disk_limit_bytes = !l->space.spill ? 0
                                                : d.quota_bytes ? d.quota_bytes
                                                                : UINT64_MAX,
                            .load = sk_show_load(l)};
    return 1;
}

int64_t sk_state_began(struct sk_local *l, uint64_t tid) {
    const struct sk_ltask *t = sk_map_get(&l->tasks, tid);
    if (!t || state_of(t) != SK_TS_RUNNING) return 0;
    const struct sk_slot *sh = t->worker->sh;
    /* the task is a call of an actor that runs beside another call */
    return atomic_load(&sh->task) == tid ? atomic_load(&sh->since_ns) : t->submit_ns;
}
