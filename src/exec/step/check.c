/* check.c - compares the state of a run with a recount of everything in it, for simulations, tests
 * and SK_XCHECK. It only reads. Pure.
 *
 * Tasks and inputs of a stage are counted by walking them, and compared with the stage's counters;
 * the sums over all stages with the counters of the run. Cost: linear in blocks and tasks. */
#include "exec/exec_int.h"

#define NEED(x)                 \
    do {                        \
        if (!(x)) return false; \
    } while (0)

struct recount {
    /* sums over all blocks; n_paid: number of blocks that count in the budget */
    uint64_t blocks, cost, disk, n_paid;
    uint64_t tasks, flying, asked, feeding, bundles;
    uint64_t promise, feed_bytes, feed_held_n;
    /* parts: number of existing parts of values; parts_of: the number that the values' records say;
     * parked, parked_disk: cost of parked values; sliced: bytes in memory of parts that running
     * tasks have. */
    uint64_t parts, parts_of, parked, parked_disk, sliced;
    uint64_t waiting_bytes, waiting_rows; /* for one stage: the input that its gather holds */
    /* Placeholders of blocks that went ahead of the order; tasks without a number. */
    uint64_t places, early;
    int64_t cpu, cpu_actors, gpu, gpu_kept; /* gpu_kept: GPUs of living actors */
};

struct of_stage {
    uint64_t window, in_flight, unknown, promise, taken, held_n, held_cost;
    uint32_t calls[64]; /* number of calls in flight of the first 64 actors */
};

static bool block(const struct sk_step *x, const struct sk_blk *b, struct recount *r) {
    r->blocks++;
    r->cost += b->cost;
    r->disk += b->on_disk ? b->cost : 0;
    r->n_paid += b->cost > 0;
    r->places += b->early != NULL;
    r->parts += b->part;
    NEED(!b->cost || !x->conf.moves || sk_map_get(&x->by_oid, b->ref.oid) == b);
    NEED(!b->early == (b->ref.oid != 0) && (!b->early || b->early->seq == SK_NO_SEQ));
    NEED(!b->kept || b->part == (b->kept->blk != b));
    return !b->part || (!b->cost && !b->on_disk && b->ref.oid == b->kept->blk->ref.oid &&
                        b->ref.row0 + b->ref.bytes <= b->kept->blk->ref.bytes);
}

static bool queue(const struct sk_step *x, const struct sk_blkq *q, struct recount *r) {
    uint64_t n = 0, bytes = 0, rows = 0, cost = 0;
    NEED(!q->head == !q->tail && (!q->tail || !q->tail->next));
    for (const struct sk_blk *b = q->head; b; b = b->next) {
        n++;
        bytes += b->ref.bytes;
        rows += b->ref.n_rows;
        cost += b->cost;
        NEED(block(x, b, r));
    }
    return n == q->n && bytes == q->bytes && rows == q->rows && cost == q->cost;
}

static bool task(const struct sk_step *x, const struct sk_stask *t, struct recount *r,
                 struct of_stage *s) {
    const struct sk_sstage *st = &x->s[t->stage];
    NEED(sk_step_task(x, t->id) == t && queue(x, &t->in, r) && queue(x, &t->held, r));
    NEED(!t->over || (!t->promise && !t->in.n));
    r->tasks++;
    r->flying += !t->over;
    r->asked += !t->over && st->feed;
    r->feeding += !t->over && st->feeder;
    r->promise += t->promise + t->read + t->work;
    r->sliced += sk_task_has_parts(t) && !t->over ? t->in.bytes - t->read : 0;
    NEED(!(t->read + t->work) || (!t->over && st->gather));
    r->feed_bytes += st->feeder ? t->promise + t->held.cost : 0;
    r->feed_held_n += st->feeder ? t->held.n : 0;
    s->in_flight += !t->over;
    s->unknown += !t->over && t->unknown;
    s->promise += t->promise;
    s->taken += t->in.cost;
    s->held_n += t->held.n;
    s->held_cost += t->held.cost;
    if (!t->over && st->kind == SK_STAGE_ACTORS && t->actor < SK_COUNT(s->calls))
        s->calls[t->actor]++;
    return true;
}

static bool tasks(const struct sk_step *x, uint32_t si, struct recount *r, struct of_stage *s) {
    const struct sk_sstage *st = &x->s[si];
    const struct sk_stask *last = NULL;
    SK_LIST_EACH (it, &st->window) {
        const struct sk_stask *t = sk_container_of(it, struct sk_stask, link);
        NEED(t->stage == si && !t->cancelled && t->seq != SK_NO_SEQ && !t->inner &&
             (!last || t->seq > last->seq) && task(x, t, r, s));
        last = t;
        s->window++;
    }
    SK_LIST_EACH (it, &st->early) {
        const struct sk_stask *t = sk_container_of(it, struct sk_stask, link);
        NEED(t->stage == si && !t->cancelled && t->seq == SK_NO_SEQ && task(x, t, r, s));
        r->early++;
        s->window++;
    }
    SK_LIST_EACH (it, &st->inner) {
        const struct sk_stask *t = sk_container_of(it, struct sk_stask, link);
        NEED(t->stage == si && !t->cancelled && t->inner && !t->held.n && task(x, t, r, s));
        s->window++;
    }
    NEED(s->window == st->n_window && s->held_n == st->held_n && s->held_cost == st->held_cost);
    SK_LIST_EACH (
        it, &x->cancelled) { /* results of these tasks are not needed, but the tasks still run */
        const struct sk_stask *t = sk_container_of(it, struct sk_stask, link);
        NEED(t->cancelled && !t->over && !t->held.n && (t->stage != si || task(x, t, r, s)));
    }
    return s->in_flight == st->in_flight && s->unknown == st->n_unknown &&
           s->promise == st->promise && s->taken == st->taken_cost;
}

static bool inputs(const struct sk_step *x, const struct sk_sstage *s, struct recount *r) {
    uint64_t ready = 0, bytes = r->waiting_bytes, rows = r->waiting_rows;
    NEED(!s->ready == !s->ready_last && (!s->ready || (!s->ready->early && !s->ready_last->next)));
    for (const struct sk_bundle *b = s->ready; b; b = b->next) {
        NEED(queue(x, &b->q, r) && (!b->early || (!b->q.n && b->early->seq == SK_NO_SEQ)));
        ready += !b->early;
        r->places += b->early != NULL;
        r->bundles++;
        bytes += b->q.bytes;
        rows += b->q.rows;
    }
    NEED(ready == s->n_ready);
    for (uint32_t k = 0; s->sides && k < s->n_inputs; k++) {
        NEED(queue(x, &s->sides[k].q, r));
        bytes += s->sides[k].q.bytes;
        rows += s->sides[k].q.rows;
    }
    if (s->open) {
        NEED(queue(x, &s->open->q, r) && s->open->q.n && s->open->q.n < SK_BUNDLE_BLOCKS_MAX &&
             !s->open->early);
        r->bundles++;
        bytes += s->open->q.bytes;
        rows += s->open->q.rows;
    }
    SK_LIST_EACH (it, &s->ahead) {
        const struct sk_blk *b = sk_container_of(it, struct sk_blk, link);
        NEED(b->ref.oid && !b->early && b->of && &x->s[x->s[b->of->stage].parent] == s);
    }
    return bytes == s->ready_bytes && rows == s->ready_rows;
}

static bool gather(const struct sk_step *x, const struct sk_sstage *s, struct recount *r) {
    const struct sk_gather *g = s->gather;
    if (!g) return true;
    SK_LIST_EACH (it, &g->held) NEED(block(x, sk_container_of(it, struct sk_blk, link), r));
    SK_LIST_EACH (it, &g->parked) {
        const struct sk_kept *k = sk_container_of(it, struct sk_kept, link);
        NEED(k->blk->kept == k && !k->blk->part && k->parked && (k->parts || k->more) &&
             block(x, k->blk, r));
        *(k->blk->on_disk ? &r->parked_disk : &r->parked) += k->blk->cost;
        r->parts_of += k->parts;
    }
    r->waiting_bytes = g->waiting_bytes;
    r->waiting_rows = g->waiting_rows;
    return r->sliced == g->sliced && (!s->ended || g->spent) && g->ops->check(g);
}

static bool pool(const struct sk_sstage *s, const struct of_stage *o, struct recount *r) {
    uint32_t live = 0, starting = 0, busy = 0;
    NEED(s->n_actors <= s->pool_max);
    for (uint32_t i = 0; i < s->n_actors; i++) {
        const struct sk_sactor *a = &s->actors[i];
        NEED(a->state >= SK_ACTOR_STARTING && a->state <= SK_ACTOR_GONE);
        NEED(i >= SK_COUNT(o->calls) || a->in_flight == o->calls[i]);
        live += a->state != SK_ACTOR_GONE;
        starting += a->state == SK_ACTOR_STARTING;
        busy += a->in_flight > 0;
    }
    r->cpu += busy * s->cpu_e4;
    r->cpu_actors += busy * s->cpu_e4;
    r->gpu_kept += live * s->gpu_e4;
    return live == s->n_live && starting == s->n_starting;
}

static bool stage(const struct sk_step *x, uint32_t si, struct recount *r) {
    const struct sk_sstage *s = &x->s[si];
    struct of_stage o = {0};
    r->sliced = r->waiting_bytes = r->waiting_rows = 0;
    NEED(tasks(x, si, r, &o) && gather(x, s, r) && inputs(x, s, r));
    NEED(!s->ended || (sk_list_empty(&s->window) && sk_list_empty(&s->inner)));
    NEED(s->kind != SK_STAGE_LIMIT || s->left >= 0);
    NEED(!s->max_tasks || s->in_flight <= s->max_tasks);
    if (s->kind == SK_STAGE_ACTORS) return pool(s, &o, r);
    r->cpu += (int64_t)o.in_flight * s->cpu_e4;
    r->gpu += (int64_t)o.in_flight * s->gpu_e4;
    return true;
}

bool sk_step_check(const struct sk_step *x) {
    struct recount r = {0};
    NEED(queue(x, &x->out, &r));
    for (uint32_t i = 0; i < x->n; i++) NEED(stage(x, i, &r));
    NEED(r.cost == x->mem.used + x->mem.disk && r.disk == x->mem.disk &&
         r.promise == x->mem.reserved && x->mem.used <= x->mem.peak);
    NEED((x->conf.moves ? r.n_paid : 0) == x->by_oid.n && r.blocks == x->blks.n_used &&
         r.bundles == x->bundles.n_used && r.places == r.early);
    NEED(r.parts == r.parts_of && r.parked == x->parked && r.parked_disk == x->parked_disk);
    NEED(r.tasks == x->tasks.n_used && r.tasks == x->slots.n - x->free_slots.n &&
         r.flying == x->n_flying && r.asked == x->n_asked && r.feeding == x->n_feeding);
    NEED(r.cpu == x->cpu.used && r.cpu_actors == x->cpu_actors && r.gpu == x->gpu.used &&
         r.gpu_kept == x->conf.gpu_e4 - x->gpu.total);
    /* the limits that the user set are respected */
    NEED((!x->cpu.strict || x->cpu.used <= x->cpu.total) &&
         (!x->gpu.strict || x->gpu.used <= x->gpu.total));
    return r.feed_bytes == x->feed_bytes && r.feed_held_n == x->feed_held_n;
}
