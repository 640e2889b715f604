/* state.c - state lists of the inline engine (engine/state.h): one process, which is its only
 * worker.
 *
 * Invariant: as in engine/local/driver/tasks/state.c. Cost: 10 ns for an ended task; for a list, a
 * walk over its table. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "engine/inline/inline_int.h"

static uint32_t kind_of(const struct sk_itask *t) {
    return t->is_init ? SK_TK_INIT : t->actor || t->p.t.actor.v ? SK_TK_METHOD : SK_TK_TASK;
}

static struct sk_bytes fn_name(struct sk_inline *x, uint64_t fid) {
    return sk_text(sk_map_get(&x->fns, fid));
}

/* Returns the task's own name, if it differs from the function's. */
static struct sk_bytes own_name(struct sk_inline *x, const struct sk_itask *t) {
    struct sk_bytes fn = fn_name(x, t->p.t.fn.v), own = {t->name, strlen(t->name)};
    return own.n == fn.n && !memcmp(own.p, fn.p, own.n) ? (struct sk_bytes){"", 0} : own;
}

void sk_istate_ended(struct sk_inline *x, struct sk_itask *t, const struct sk_blob *error,
                     int64_t now_ns) {
    struct sk_bytes none = {"", 0};
    struct sk_ended e = {.p = {.id = t->id,
                               .fn = t->p.t.fn.v,
                               .submit_ns = t->submit_ns,
                               .pid = t->start_ns ? getpid() : 0,
                               .attempt = (uint16_t)t->p.t.attempt,
                               .n_returns = t->p.t.n_returns,
                               .shape = t->shape,
                               .kind = (uint8_t)kind_of(t),
                               .failed = error != NULL},
                         .parent = t->parent,
                         .actor = t->p.t.actor.v,
                         .error_kind = error ? error->kind : 0,
                         .name = own_name(x, t),
                         .error = error ? (struct sk_bytes){error->data, error->len} : none,
                         .start_ns = t->start_ns,
                         .end_ns = now_ns};
    sk_history_add(&x->past, &e);
    t->start_ns = 0;
}

static struct sk_past_more more(void *ctx, const struct sk_past *p) {
    struct sk_inline *x = ctx;
    return (struct sk_past_more){fn_name(x, p->fn), sk_place_need_of(&x->place, p->shape)};
}

static void task(struct sk_inline *x, const struct sk_itask *t, struct sk_rows *r) {
    struct sk_bytes own = own_name(x, t), fn = fn_name(x, t->p.t.fn.v);
    bool waits = false; /* true if the task waits for an argument */
    for (uint32_t i = 0; t->queued && i < t->p.t.n_args; i++)
        waits |= t->refs[i] && !sk_iobj_val(x, t->refs[i]);
    struct sk_need need = sk_place_need_of(&x->place, t->shape);
    struct sk_task_row row = {.id = t->id,
                              .parent = t->parent,
                              .actor = t->p.t.actor.v,
                              .submit_ns = t->submit_ns,
                              .start_ns = t->start_ns,
                              .pid = t->running ? getpid() : 0,
                              .attempt = t->p.t.attempt,
                              .state = t->running ? SK_TS_RUNNING
                                       : waits    ? SK_TS_ARGS
                                                  : SK_TS_PLACE,
                              .kind = kind_of(t),
                              .n_returns = t->p.t.n_returns,
                              .name_n = (uint32_t)own.n,
                              .fn_n = (uint32_t)fn.n,
                              .group = need.group,
                              .more = need.more,
                              .res = need.res};
    sk_rows_add(r, &row, sizeof row, (struct sk_bytes[]){own, fn}, 2);
}

static void actor(struct sk_inline *x, const struct sk_iactor *a, struct sk_rows *r) {
    struct sk_bytes none = {"", 0}, name = a->name ? a->name->name : none,
                    space = a->name ? a->name->space : none;
    struct sk_bytes cls = fn_name(x, a->init->p.t.fn.v),
                    why = a->dead && a->why ? (struct sk_bytes){a->why->data, a->why->len} : none;
    if (!cls.n) cls = (struct sk_bytes){a->init->name, strlen(a->init->name)};
    struct sk_need need = sk_place_need_of(&x->place, a->init->shape);
    struct sk_actor_row row = {.id = a->id,
                               .init = a->init->id,
                               .pid = a->started ? getpid() : 0,
                               .state = a->dead                ? SK_AS_DEAD
                                        : a->started           ? SK_AS_ALIVE
                                        : a->init->p.t.attempt ? SK_AS_RESTARTING
                                                               : SK_AS_PENDING,
                               .n_restarts = a->init->p.t.attempt,
                               .n_calls = a->n_calls,
                               .detached = a->detached,
                               .error_kind = why.n ? a->why->kind : 0,
                               .class_n = (uint32_t)cls.n,
                               .name_n = (uint32_t)name.n,
                               .space_n = (uint32_t)space.n,
                               .why_n = (uint32_t)why.n,
                               .group = need.group,
                               .more = need.more,
                               .res = need.res};
    sk_rows_add(r, &row, sizeof row, (struct sk_bytes[]){cls, name, space, why}, 4);
}

void sk_istate_actor_gone(struct sk_inline *x, const struct sk_iactor *a) {
    uint8_t buf[4096];
    struct sk_rows r = {.w = sk_wr_init(buf, sizeof buf)};
    actor(x, a, &r);
    if (sk_wr_ok(&r.w)) sk_history_gone(&x->past.actors, (struct sk_bytes){buf, r.w.n});
}

static void objects(struct sk_inline *x, struct sk_rows *r) {
    uint64_t id;
    void *v;
    for (uint32_t c = 0; sk_own_each(x->own, &c, &id, &v);) {
        const struct sk_iobj *o = v;
        struct sk_object_row row = {.id = id,
                                    .size_bytes = o->val ? o->val->len : 0,
                                    .n_refs = sk_own_borrowed(x->own, id, ME),
                                    .n_total = sk_own_count(x->own, id),
                                    .where = !o->val                       ? SK_OW_PENDING
                                             : o->val->len > SK_INLINE_MAX ? SK_OW_STORE
                                                                           : SK_OW_INLINE,
                                    .task_state = o->val ? SK_TS_FINISHED : SK_TS_PLACE,
                                    .kind = o->val ? o->val->kind : 0};
        row.pid = row.n_refs ? getpid() : 0;
        sk_rows_add(r, &row, sizeof row, NULL, 0);
    }
}

static size_t write_rows(struct sk_inline *x, enum sk_state_what what, void *buf, size_t cap) {
    struct sk_rows r = sk_rows_begin(buf, cap);
    uint64_t id;
    void *v;
    switch (what) {
    case SK_STATE_TASKS:
        sk_rows_past(&r, &x->past, more, x);
        for (uint32_t i = 0; sk_map_next(&x->tasks, &i, &id, &v);)
            if (!((const struct sk_itask *)v)->finished) task(x, v, &r);
        break;
    case SK_STATE_ACTORS:
        sk_rows_gone(&r, &x->past.actors);
        for (uint32_t i = 0; sk_map_next(&x->actors, &i, &id, &v);) actor(x, v, &r);
        break;
    case SK_STATE_OBJECTS: objects(x, &r); break;
    case SK_STATE_WORKERS: {
        struct sk_worker_row row = {
            .n_done = x->n_done, .pid = getpid(), .state = x->n_running ? 2 : 1};
        for (uint32_t i = 0; sk_map_next(&x->tasks, &i, &id, &v);) {
            const struct sk_itask *t = v;
            /* the innermost task, which is the one that makes progress */
            if (!t->running || t->start_ns < row.since_ns) continue;
            row.task = t->id;
            row.since_ns = t->start_ns;
            row.text_n = (uint32_t)strlen(t->name);
        }
        const struct sk_itask *t = row.task ? sk_map_get(&x->tasks, row.task) : NULL;
        sk_rows_add(&r, &row, sizeof row, (struct sk_bytes[]){{t ? t->name : "", row.text_n}}, 1);
        break;
    }
    default: break;
    }
    return sk_rows_end(&r, buf, cap);
}

/* ---- the side contracts ---------------------------------------------------------------------- */

static size_t op_workers(struct sk_engine *e, struct sk_worker_info *out, size_t cap) {
    struct sk_inline *x = sk_inline_of(e);
    sk_inline_lock(x);
    if (cap) out[0] = (struct sk_worker_info){getpid(), 0, x->n_running ? 2 : 1, x->n_done};
    sk_inline_unlock(x);
    return 1;
}

static size_t op_status(struct sk_engine *e, char *buf, size_t cap) {
    struct sk_inline *x = sk_inline_of(e);
    sk_inline_lock(x);
    uint32_t queued = 0;
    SK_LIST_EACH (it, &x->queue) queued++;
    int n =
        snprintf(buf, cap,
                 "engine inline\ntasks_done %llu\ntasks_queued %u\ntasks_running %u\nobjects "
                 "%llu\nstore_bytes %llu\nactors %u\n",
                 (unsigned long long)x->n_done, queued, x->n_running,
                 (unsigned long long)sk_own_n(x->own), (unsigned long long)x->bytes, x->actors.n);
    sk_inline_unlock(x);
    return n < 0 ? 0 : (size_t)n;
}

static size_t op_state(struct sk_engine *e, enum sk_state_what what, void *buf, size_t cap) {
    struct sk_inline *x = sk_inline_of(e);
    sk_inline_lock(x);
    size_t n = x->closed ? 0 : write_rows(x, what, buf, cap);
    sk_inline_unlock(x);
    return n;
}

static int64_t op_began(struct sk_engine *e, sk_tid tid) {
    struct sk_inline *x = sk_inline_of(e);
    sk_inline_lock(x);
    const struct sk_itask *t = sk_map_get(&x->tasks, tid.v);
    int64_t ns = t && t->running ? t->start_ns : 0;
    sk_inline_unlock(x);
    return ns;
}

const struct sk_progress_ops sk_inline_progress = {.began = op_began};
const struct sk_state_ops sk_inline_state = {
    .rows = op_state, .workers = op_workers, .status = op_status};
