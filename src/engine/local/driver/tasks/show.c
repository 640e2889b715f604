/* show.c - stores the counters, runs and errors of the engine in its view. Runs with the lock held.
 * Decides nothing. Invariant: a slot of the view belongs to one run that goes on, or to one that
 * has ended. Cost: 1 us every 100 ms, and what the runs need for theirs. */
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "engine/conf.h"
#include "engine/local/driver/local_int.h"

#define EVERY_NS (100 * SK_MS)
#define AGAIN_NS (10 * SK_MS) /* time until the next try if a run was busy */

void sk_show_init(struct sk_local *l) {
    sk_list_init(&l->show.runs);
    l->show.next_ns = INT64_MAX;
}

/* Reads the command line of this process: its words, with spaces between them. */
static void command_line(char *to, size_t cap) {
    FILE *f = fopen("/proc/self/cmdline", "re");
    size_t n = f ? fread(to, 1, cap - 1, f) : 0;
    if (f) (void)fclose(f);
    while (n && !to[n - 1]) n--;
    for (size_t i = 0; i < n; i++)
        if (!to[i]) to[i] = ' ';
    to[n] = 0;
}

sk_rc sk_show_open(struct sk_local *l, const struct sk_engine_conf *conf, struct sk_err *err) {
    struct sk_view_about about = {.pid = getpid(),
                                  .started_ns = sk_now_ns(),
                                  .started_wall_ns = sk_wall_ns(),
                                  .cpu_e4 = conf->total.amount[SK_RES_CPU],
                                  .gpu_e4 = conf->total.amount[SK_RES_GPU]};
    if (conf->program) (void)snprintf(about.program, sizeof about.program, "%s", conf->program);
    else command_line(about.program, sizeof about.program);
    SK_TRY(sk_viewer_open(&l->show.w, &about, err));
    if (!sk_viewer_on(&l->show.w)) return SK_OK;
    l->show.history = sk_calloc(SK_TAG_ENGINE, sizeof *l->show.history);
    if (conf->record) {
        if (strlen(conf->record) >= SK_VIEW_PATH)
            return SK_ERR(err, SK_EINVAL, "the record's path is too long: %s", conf->record);
        l->show.record = sk_strdup(SK_TAG_ENGINE, conf->record);
    }
    if (!l->show.history || (conf->record && !l->show.record))
        return SK_ERR(err, SK_ENOMEM, "no memory for the engine");
    l->show.started_ns = about.started_ns;
    sk_samples_init(&l->show.samples, l->show.history->rows, SK_VIEW_SAMPLES, SK_VH_N);
    sk_show_now(l, about.started_ns);
    return SK_OK;
}

void sk_show_last(struct sk_local *l) {
    if (!sk_viewer_on(&l->show.w)) return;
    struct sk_err err;
    sk_show_now(l, sk_now_ns());
    sk_viewer_end(&l->show.w);
    if (l->show.record && sk_view_save(l->show.w.seg.base, l->show.record, &err) != SK_OK)
        fprintf(stderr, "skate: %s\n", err.msg);
}

void sk_show_close(struct sk_local *l) {
    sk_viewer_close(&l->show.w);
    sk_free(l->show.record);
    l->show.next_ns = INT64_MAX;
    sk_free(l->show.history);
    l->show.history = NULL;
}

static uint64_t running(const struct sk_local *l) {
    uint64_t n = 0;
    for (uint32_t i = 0; i < l->pool.n_used; i++)
        n += l->pool.workers[i] && atomic_load(&l->pool.workers[i]->sh->task) != 0;
    return n;
}

static void counters(struct sk_local *l, int64_t now_ns) {
    struct sk_store_stats s;
    struct sk_spill_stats d = {0};
    sk_store_get_stats(l->store, &s);
    if (l->space.spill) sk_spill_get_stats(l->space.spill, &d);
    uint64_t runs = running(l);
    struct sk_view_counters c = {.now_ns = now_ns,
                                 .store_used = s.sealed_bytes + s.leased_bytes,
                                 .store_capacity = s.size_bytes,
                                 .spilled_now = l->stored.disk_object_bytes,
                                 .spilled_total = d.written_bytes,
                                 .restored_total = d.read_bytes,
                                 .objects = sk_own_n(l->own),
                                 .done = l->show.n_done,
                                 .failed = l->show.n_failed,
                                 .running = runs,
                                 .queued = l->n_open > runs ? l->n_open - runs : 0};
    if (atomic_load(&l->ctl->waits_ns) > now_ns)
        (void)snprintf(c.waits, sizeof c.waits, "%.*s", (int)sizeof l->ctl->waits - 1,
                       l->ctl->waits);
    sk_viewer_counters(&l->show.w, &c);
    if (now_ns - l->show.started_ns < l->show.samples.next_ns) return;
    int64_t *row = sk_samples_add(&l->show.samples, now_ns - l->show.started_ns);
    row[SK_VH_STORE] = (int64_t)c.store_used;
    row[SK_VH_SPILLED] = (int64_t)c.spilled_now;
    row[SK_VH_RUNNING] = (int64_t)c.running;
    row[SK_VH_QUEUED] = (int64_t)c.queued;
    row[SK_VH_DONE] = (int64_t)(c.done + c.failed);
    l->show.history->n = l->show.samples.n;
    sk_viewer_history(&l->show.w, l->show.history);
}

void sk_show_now(struct sk_local *l, int64_t now_ns) {
    bool all = true;
    /* A run may call the engine here, and its calls may end up in this function again. */
    l->show.next_ns = INT64_MAX;
    counters(l, now_ns);
    SK_LIST_EACH (it, &l->show.runs) {
        struct sk_viewed *v = sk_container_of(it, struct sk_viewed, link);
        all = v->tick(v, now_ns) && all;
    }
    l->show.seen = l->progress;
    l->show.next_ns = now_ns + (all ? EVERY_NS : AGAIN_NS);
}

void sk_show_alone(struct sk_local *l) {
    if (SK_LIKELY(l->pool.n_live) || !sk_viewer_on(&l->show.w)) return;
    int64_t now = sk_now_ns();
    if (now < l->show.alone_ns) return;
    l->show.alone_ns = now + AGAIN_NS;
    counters(l, now);
}

static uint32_t name_of(struct sk_local *l, const struct sk_ended *e) {
    struct sk_view_writer *w = &l->show.w;
    if (e->name.n) return sk_viewer_name(w, 0, e->name, "");
    bool init = e->p.kind == SK_TK_INIT;
    /* a number for the function, or for the constructor of a class: neither 0 nor above 2^63 */
    uint64_t key = (e->p.fn ^ (init ? UINT64_C(0x9e3779b97f4a7c15) : 0)) >> 1 | 1;
    uint32_t at = sk_viewer_known(w, key);
    if (SK_LIKELY(at != UINT32_MAX)) return at;
    const struct sk_fn *f = sk_map_get(&l->fns, e->p.fn);
    if (!f) return UINT32_MAX;
    return sk_viewer_name(w, key, (struct sk_bytes){f->name, strlen(f->name)},
                          init ? ".__init__" : "");
}

void sk_show_ended(struct sk_local *l, const struct sk_ended *e) {
    if (e->p.failed) l->show.n_failed++;
    else l->show.n_done++;
    if (!sk_viewer_on(&l->show.w)) return;
    struct sk_view_task t = {.id = e->p.id,
                             .parent = e->parent,
                             .actor = e->actor,
                             .submit_ns = e->p.submit_ns,
                             .start_ns = e->start_ns,
                             .end_ns = e->end_ns,
                             .name = name_of(l, e),
                             .pid = e->p.pid,
                             .attempt = e->p.attempt,
                             .worker = e->p.worker,
                             .kind = e->p.kind,
                             .failed = e->p.failed};
    sk_viewer_task(&l->show.w, &t);
}

void sk_show_begin(struct sk_local *l, struct sk_viewed *v) {
    uint32_t best = SK_VIEW_RUNS;
    v->id = ++l->show.n_runs;
    v->slot = UINT32_MAX;
    sk_list_init(&v->link);
    if (!sk_viewer_on(&l->show.w)) return;
    for (uint32_t i = 0; i < SK_VIEW_RUNS; i++)
        if (!l->show.slots[i].live &&
            (best == SK_VIEW_RUNS || l->show.slots[i].id < l->show.slots[best].id))
            best = i;
    if (best == SK_VIEW_RUNS) return;
    SK_ASSERT(l->show.slots[best].id < v->id);
    v->slot = best;
    l->show.slots[best].id = v->id;
    l->show.slots[best].live = true;
    sk_list_push_back(&l->show.runs, &v->link);
}

void sk_show_run(struct sk_local *l, struct sk_viewed *v, struct sk_view_run *run) {
    if (v->slot >= SK_VIEW_RUNS) return;
    SK_DCHECK(l->show.slots[v->slot].id == v->id);
    run->id = v->id;
    sk_viewer_run(&l->show.w, v->slot, run);
}

void sk_show_end(struct sk_local *l, struct sk_viewed *v) {
    SK_DCHECK(v->slot >= SK_VIEW_RUNS || l->show.slots[v->slot].live);
    if (v->slot < SK_VIEW_RUNS) l->show.slots[v->slot].live = false;
    v->slot = UINT32_MAX;
    sk_list_del(&v->link);
    if (sk_viewer_on(&l->show.w) && !l->closing) counters(l, sk_now_ns());
}

void sk_show_error(struct sk_local *l, struct sk_view_error *e) {
    e->ns = sk_now_ns();
    sk_viewer_error(&l->show.w, e);
}
