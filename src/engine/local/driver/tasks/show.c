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
    sk_shown_init(&l->show.s);
    l->show.next_ns = INT64_MAX;
}

sk_rc sk_show_open(struct sk_local *l, const struct sk_engine_conf *conf, struct sk_err *err) {
    SK_TRY(sk_shown_open(&l->show.s, conf, err));
    if (sk_viewer_on(&l->show.s.w)) sk_show_now(l, sk_now_ns());
    return SK_OK;
}

void sk_show_last(struct sk_local *l) {
    if (!sk_viewer_on(&l->show.s.w)) return;
    sk_show_now(l, sk_now_ns());
    sk_shown_last(&l->show.s);
}

void sk_show_close(struct sk_local *l) {
    sk_shown_close(&l->show.s);
    l->show.next_ns = INT64_MAX;
}

static uint64_t running(const struct sk_local *l) {
    uint64_t n = 0;
    for (uint32_t i = 0; i < l->pool.n_used; i++)
        n += l->pool.workers[i] && atomic_load(&l->pool.workers[i]->sh->task) != 0;
    return n;
}

struct sk_load sk_show_load(struct sk_local *l) {
    struct sk_spill_stats d = {0};
    if (l->space.spill) sk_spill_get_stats(l->space.spill, &d);
    uint64_t runs = running(l);
    SK_DCHECK(l->pool.n_live <= l->pool.n_used);
    return (struct sk_load){.workers = l->pool.n_live,
                            .running = (uint32_t)runs,
                            .queued = (uint32_t)(l->n_open > runs ? l->n_open - runs : 0),
                            .done = l->show.s.n_done,
                            .failed = l->show.s.n_failed,
                            .objects = sk_own_n(l->own),
                            .spilled_bytes = d.written_bytes,
                            .restored_bytes = d.read_bytes};
}

static void counters(struct sk_local *l, int64_t now_ns) {
    struct sk_store_stats s;
    struct sk_load load = sk_show_load(l);
    sk_store_get_stats(l->store, &s);
    struct sk_view_counters c = {.now_ns = now_ns,
                                 .store_used = s.sealed_bytes + s.leased_bytes,
                                 .store_capacity = s.size_bytes,
                                 .spilled_now = l->stored.disk_object_bytes,
                                 .spilled_total = load.spilled_bytes,
                                 .restored_total = load.restored_bytes,
                                 .objects = load.objects,
                                 .done = load.done,
                                 .failed = load.failed,
                                 .running = load.running,
                                 .queued = load.queued};
    if (atomic_load(&l->ctl->waits_ns) > now_ns)
        (void)snprintf(c.waits, sizeof c.waits, "%.*s", (int)sizeof l->ctl->waits - 1,
                       l->ctl->waits);
    sk_shown_counters(&l->show.s, &c);
}

void sk_show_now(struct sk_local *l, int64_t now_ns) {
    /* A run may call the engine here, and its calls may end up in this function again. */
    l->show.next_ns = INT64_MAX;
    counters(l, now_ns);
    bool all = sk_shown_tick(&l->show.s, now_ns);
    l->show.seen = l->progress;
    l->show.next_ns = now_ns + (all ? EVERY_NS : AGAIN_NS);
}

void sk_show_alone(struct sk_local *l) {
    if (SK_LIKELY(l->pool.n_live) || !sk_viewer_on(&l->show.s.w)) return;
    int64_t now = sk_now_ns();
    if (now < l->show.alone_ns) return;
    l->show.alone_ns = now + AGAIN_NS;
    counters(l, now);
}

static uint32_t name_of(struct sk_local *l, const struct sk_ended *e) {
    struct sk_view_writer *w = &l->show.s.w;
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
    if (e->p.failed) l->show.s.n_failed++;
    else l->show.s.n_done++;
    if (!sk_viewer_on(&l->show.s.w)) return;
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
    sk_viewer_task(&l->show.s.w, &t);
}

void sk_show_end(struct sk_local *l, struct sk_viewed *v) {
    sk_shown_end(&l->show.s, v);
    if (sk_viewer_on(&l->show.s.w) && !l->closing) counters(l, sk_now_ns());
}
