/* show.c - the view (engine/view.h) of an engine whose nodes tell of themselves: numbers of all
 * nodes and of each, their workers, the runs of this process, its errors, and ended tasks.
 *
 * Two locks, since a run stores its state while it holds one of its own, and may call the engine:
 * that of the view is taken before that of the host. The ring of tasks is written with the host's.
 * Cost: 10 us every 100 ms while something goes on. */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "engine/books/history.h"
#include "engine/conf.h"
#include "engine/guest/guest_int.h"

#define EVERY_NS (100 * SK_MS)
#define AGAIN_NS (10 * SK_MS) /* time until the next try if a run was busy */

static struct sk_ghost *of(struct sk_engine *e) { return sk_container_of(e, struct sk_ghost, e); }

void sk_gshow_init(struct sk_ghost *x) {
    pthread_mutexattr_t ma;
    pthread_mutexattr_init(&ma);
    pthread_mutexattr_settype(&ma, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&x->show.mu, &ma);
    pthread_mutexattr_destroy(&ma);
    sk_shown_init(&x->show.s);
}

sk_rc sk_gshow_open(struct sk_ghost *x, const struct sk_engine_conf *conf, struct sk_err *err) {
    struct sk_engine_conf all = *conf;
    if (!x->g.ops->workers) return SK_OK;
    all.total = (struct sk_res){0};
    for (uint32_t i = 0; i < x->nodes.n; i++)
        for (int k = 0; k < SK_RES_MAX; k++) all.total.amount[k] += x->nodes.p[i].total.amount[k];
    x->show.workers = sk_calloc(TAG, sizeof *x->show.workers);
    x->show.tasks = sk_calloc(TAG, SK_VIEW_WORKERS * sizeof *x->show.tasks);
    if (!x->show.workers || !x->show.tasks) return SK_ERR(err, SK_ENOMEM, "view");
    SK_TRY(sk_shown_open(&x->show.s, &all, err));
    if (!sk_viewer_on(&x->show.s.w)) return SK_OK;
    x->e.view = &sk_gshow_view;
    x->e.progress = &sk_gshow_progress;
    return SK_OK;
}

/* ---- numbers --------------------------------------------------------------------------------- */

static void add_workers(void *host, const struct sk_guest_told *t) {
    struct sk_gshow *s = host;
    struct sk_view_workers *all = s->workers;
    struct sk_rd r = sk_rd_init(t->bytes.p, t->bytes.n);
    struct sk_state_head head;
    struct sk_row row;
    if (!sk_rows_head(&r, &head)) return;
    for (uint64_t i = 0; i < head.n && sk_rows_next(&r, SK_STATE_WORKERS, &row); i++) {
        const struct sk_worker_row *w = &row.worker;
        struct sk_bytes name = row.texts[0];
        if (w->end != SK_WE_LIVES || w->pid <= 0 || all->n == SK_VIEW_WORKERS) continue;
        struct sk_view_worker *v = &all->of[all->n];
        s->tasks[all->n++] = w->task;
        *v = (struct sk_view_worker){.pid = w->pid, .node = t->node};
        if (!w->task) continue;
        v->since_ns = w->since_ns - t->ahead_ns;
        (void)snprintf(v->name, sizeof v->name, "%.*s", (int)SK_MIN(name.n, sizeof v->name),
                       name.n ? (const char *)name.p : "");
    }
}

static struct sk_view_node of_node(const struct sk_node *n) {
    struct sk_view_node v = {.number = n->number,
                             .alive = n->draining ? 2 : n->alive,
                             .cpu_e4 = n->total.amount[SK_RES_CPU],
                             .cpu_free_e4 = n->free.amount[SK_RES_CPU],
                             .gpu_e4 = n->total.amount[SK_RES_GPU],
                             .gpu_free_e4 = n->free.amount[SK_RES_GPU],
                             .store_used = n->resident_bytes + n->promised_bytes,
                             .store_capacity = n->capacity_bytes,
                             .spilled_now = n->disk_bytes,
                             .load = n->load};
    memcpy(v.name, n->name, sizeof v.name);
    return v;
}

static void count(struct sk_view_counters *c, const struct sk_view_node *n, uint64_t *sent) {
    const struct sk_load *l = &n->load;
    c->done += l->done; /* of nodes that are gone, too */
    c->failed += l->failed;
    c->spilled_total += l->spilled_bytes;
    c->restored_total += l->restored_bytes;
    if (!n->alive) return;
    c->running += l->running;
    c->queued += l->queued;
    c->store_used += n->store_used;
    c->store_capacity += n->store_capacity;
    c->spilled_now += n->spilled_now;
    *sent += l->sent;
}

/* Stores the numbers of the nodes. True: something goes on. */
static bool numbers(struct sk_ghost *x, int64_t now_ns) {
    struct sk_view_nodes all;
    struct sk_view_counters c = {.now_ns = now_ns};
    uint64_t sent = 0;
    all.n = 0;
    pthread_mutex_lock(&x->mu);
    all.total = x->nodes.n;
    for (uint32_t i = 0; i < x->nodes.n; i++) {
        struct sk_view_node v = of_node(&x->nodes.p[i]);
        count(&c, &v, &sent);
        if (all.n < SK_VIEW_NODES) all.of[all.n++] = v;
    }
    uint64_t tasks = x->tasks.n;
    c.objects = sk_own_n(x->own);
    pthread_mutex_unlock(&x->mu);
    c.queued += tasks > sent ? tasks - sent : 0; /* those that no node has yet */
    bool busy = tasks || c.running || c.queued || !sk_list_empty(&x->show.s.runs);
    bool had = x->show.workers->n > 0;
    x->show.workers->n = 0;
    if (busy || had) x->g.ops->workers(x->g.ctx, add_workers, &x->show);
    sk_shown_counters(&x->show.s, &c);
    sk_viewer_nodes(&x->show.s.w, &all);
    sk_viewer_workers(&x->show.s.w, x->show.workers);
    return busy;
}

int64_t sk_gshow_next(const struct sk_ghost *x) {
    return sk_viewer_on(&x->show.s.w) ? x->show.next_ns : INT64_MAX;
}

int64_t sk_gshow_tick(struct sk_ghost *x) {
    int64_t now = sk_now_ns();
    SK_ASSERT(sk_viewer_on(&x->show.s.w) && x->show.workers && x->show.tasks);
    pthread_mutex_lock(&x->show.mu);
    bool busy = numbers(x, now), all = sk_shown_tick(&x->show.s, now);
    pthread_mutex_unlock(&x->show.mu);
    x->show.next_ns = now + (all ? EVERY_NS : AGAIN_NS);
    return busy ? x->show.next_ns : INT64_MAX;
}

void sk_gshow_last(struct sk_ghost *x) {
    if (!sk_viewer_on(&x->show.s.w)) return;
    (void)sk_gshow_tick(x);
    sk_shown_last(&x->show.s);
}

void sk_gshow_free(struct sk_ghost *x) {
    sk_shown_close(&x->show.s);
    sk_free(x->show.workers);
    sk_free(x->show.tasks);
    pthread_mutex_destroy(&x->show.mu);
}

void sk_gshow_ended(struct sk_ghost *x, const struct sk_gtask *t, const struct sk_guest_event *ev) {
    struct sk_view_writer *w = &x->show.s.w;
    if (!sk_viewer_on(w)) return;
    SK_ASSERT(ev->kind == SK_EV_DONE || ev->kind == SK_EV_FAILED);
    SK_DCHECK(ev->node <= UINT16_MAX && t->id);
    struct sk_view_task row = {
        .id = t->id,
        .actor = t->actor,
        .submit_ns = t->submit_ns,
        .start_ns = ev->start_ns,
        .end_ns = ev->start_ns ? ev->start_ns + ev->run_ns : sk_now_ns(),
        .name = sk_viewer_name(w, 0, (struct sk_bytes){t->name, strlen(t->name)}, ""),
        .pid = ev->pid,
        .attempt = (uint16_t)ev->attempt,
        .node = (uint16_t)ev->node,
        .kind = t->is_init ? SK_TK_INIT
                : t->actor ? SK_TK_METHOD
                           : SK_TK_TASK,
        .failed = ev->kind == SK_EV_FAILED};
    sk_viewer_task(w, &row);
}

/* ---- view.h ---------------------------------------------------------------------------------- */

static void g_begin(struct sk_engine *e, struct sk_viewed *v) {
    pthread_mutex_lock(&of(e)->show.mu);
    sk_shown_begin(&of(e)->show.s, v);
    pthread_mutex_unlock(&of(e)->show.mu);
}
static void g_publish(struct sk_engine *e, struct sk_viewed *v, struct sk_view_run *run) {
    pthread_mutex_lock(&of(e)->show.mu);
    sk_shown_run(&of(e)->show.s, v, run);
    pthread_mutex_unlock(&of(e)->show.mu);
}
static void g_end(struct sk_engine *e, struct sk_viewed *v) {
    pthread_mutex_lock(&of(e)->show.mu);
    sk_shown_end(&of(e)->show.s, v);
    pthread_mutex_unlock(&of(e)->show.mu);
}
static void g_error(struct sk_engine *e, struct sk_view_error *error) {
    pthread_mutex_lock(&of(e)->show.mu);
    sk_shown_error(&of(e)->show.s, error);
    pthread_mutex_unlock(&of(e)->show.mu);
}
static void g_flow(struct sk_engine *e, uint64_t block, uint64_t task, int64_t ns) {
    sk_viewer_flow(&of(e)->show.s.w, &(struct sk_view_flow){block, task, ns});
}
const struct sk_view_ops sk_gshow_view = {
    .begin = g_begin, .publish = g_publish, .end = g_end, .error = g_error, .flow = g_flow};

/* As the nodes have told last; they are asked again while something goes on. */
static int64_t g_began(struct sk_engine *e, sk_tid t) {
    struct sk_gshow *s = &of(e)->show;
    int64_t began = 0;
    pthread_mutex_lock(&s->mu);
    SK_DCHECK(s->workers->n <= SK_VIEW_WORKERS && t.v);
    for (uint64_t i = 0; i < s->workers->n && !began; i++)
        if (s->tasks[i] == t.v) began = s->workers->of[i].since_ns;
    pthread_mutex_unlock(&s->mu);
    return began;
}
const struct sk_progress_ops sk_gshow_progress = {.began = g_began};
