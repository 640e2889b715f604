/* gather.c - the calls that a gather may make (contract: gather.h). Pure.
 *
 * Invariant: a block of a gather is in one of its two lists (held; or parked, by its value), in the
 * input of a task, or on its way to the next gather. A parked value has parts, or parts of it will
 * be made; else it is released. Cost: about 20 ns a part. */
#include "exec/exec_int.h"

/* ---- facts that a gather asks for ------------------------------------------------------------ */

struct sk_gather_facts sk_gather_facts(const struct sk_gather *g) {
    const struct sk_step *x = g->x;
    const struct sk_sstage *s = g->s;
    return (struct sk_gather_facts){
        .memory_bytes = x->mem.limit,
        .target_min_bytes = x->conf.target_min_bytes,
        .target_max_bytes = x->conf.target_max_bytes,
        .tasks = sk_stage_slots(x, s),
        .by_cpus = (uint32_t)SK_MAX(x->conf.cpu_e4 / SK_MAX(s->cpu_e4, SK_RES_UNIT / 8), 1),
        .nodes = SK_MAX(x->conf.n_nodes, 1u),
        .spills = x->conf.moves,
        .parts = !x->conf.no_parts};
}

/* If the stage still waits for input from a source upstream, the total is estimated from the share
 * of the source's tasks that have started. */
void sk_gather_expect(const struct sk_gather *g, uint32_t side, uint64_t *task_bytes,
                      uint64_t *all_bytes) {
    const struct sk_step *x = g->x;
    const struct sk_sstage *s = &x->s[g->s->inputs[side]];
    uint64_t takes = sk_stage_next_in_bytes(s),
             a_task = SK_MAX(sk_stage_est_out(x, s), s->in_flight ? s->promise / s->in_flight : 0);
    if (takes && !sk_size_est_known(&s->size))
        /* before a size is known, the promise is many times the input, so the input's size is
         * used */
        a_task = takes;
    if (s->tasks_done) a_task = SK_MAX(a_task, s->bytes_out / s->tasks_done);
    uint64_t tasks = s->in_flight + (s->source ? s->n_units - s->next_unit : s->n_ready), parts = 1,
             begun = 1;
    for (const struct sk_sstage *in = s; in->n_inputs && !in->source; in = &x->s[in->inputs[0]])
        if (x->s[in->inputs[0]].source) {
            parts = x->s[in->inputs[0]].n_units;
            begun = SK_MAX(x->s[in->inputs[0]].next_unit, 1u);
        }
    *all_bytes =
        SK_MAX((uint64_t)((double)(s->bytes_out + tasks * a_task) * (double)parts / (double)begun),
               a_task);
    *task_bytes = a_task;
}

struct sk_gather *sk_gather_input(const struct sk_gather *g, uint32_t side) {
    return g->x->s[g->s->inputs[side]].gather;
}

struct sk_gather *sk_gather_next(const struct sk_gather *g, uint32_t *side) {
    *side = g->s->which;
    return g->s->parent == SK_NO_STAGE ? NULL : g->x->s[g->s->parent].gather;
}

const char *sk_gather_label(const struct sk_gather *g) { return g->s->label; }
bool sk_gather_ready(const struct sk_gather *g) { return g->s->n_ready > 0; }

/* ---- values of a gather ---------------------------------------------------------------------- */

void sk_gather_came(struct sk_gather *g, const struct sk_blk *b) {
    g->s->rows_in += b->ref.n_rows;
    g->s->bytes_in += b->ref.bytes;
}

void sk_gather_hold(struct sk_gather *g, struct sk_blk *b) {
    SK_DCHECK(sk_list_empty(&b->link));
    sk_list_push_back(&g->held, &b->link);
}

void sk_gather_park(struct sk_gather *g, struct sk_blk *b) {
    struct sk_kept *k = b->kept;
    SK_ASSERT(k && k->blk == b && !k->parked);
    sk_list_del(&b->link);
    sk_list_push_back(&g->parked, &k->link);
    k->parked = k->more = true;
    *(b->on_disk ? &g->x->parked_disk : &g->x->parked) += b->cost;
    g->s->peak_queued_bytes = SK_MAX(g->s->peak_queued_bytes, g->rest);
}

void sk_gather_waits(struct sk_gather *g, int64_t bytes, int64_t rows) {
    g->waiting_bytes += (uint64_t)bytes;
    g->waiting_rows += (uint64_t)rows;
    g->s->ready_bytes += (uint64_t)bytes;
    g->s->ready_rows += (uint64_t)rows;
    g->s->peak_queued_bytes = SK_MAX(g->s->peak_queued_bytes, g->s->ready_bytes);
}

sk_rc sk_gather_pass(struct sk_gather *g, struct sk_blk *b, struct sk_err *err) {
    uint32_t side;
    struct sk_gather *to = sk_gather_next(g, &side);
    SK_ASSERT(to);
    sk_list_del(&b->link);
    return to->ops->take(to, side, b, err);
}

sk_rc sk_gather_drop(struct sk_gather *g, struct sk_blk *b, struct sk_err *err) {
    SK_DCHECK(!b->kept || !b->kept->parked);
    sk_list_del(&b->link);
    return sk_step_drop(g->x, b, err);
}

sk_rc sk_gather_more(struct sk_gather *g, struct sk_kept *k, bool more, struct sk_err *err) {
    SK_DCHECK(k->parked);
    k->more = more;
    return more || k->parts ? SK_OK : sk_step_drop(g->x, k->blk, err);
}

struct sk_kept *sk_gather_resize(struct sk_gather *g, struct sk_kept *k, size_t bytes) {
    sk_list_del(&k->link);
    struct sk_kept *q = sk_realloc(SK_TAG_EXEC, k, bytes);
    if (q) q->blk->kept = q;
    sk_list_init(q ? &q->link : &k->link);
    sk_list_push_back(&g->parked, q ? &q->link : &k->link);
    return q;
}

/* ---- tasks that a gather makes --------------------------------------------------------------- */

sk_rc sk_gather_task(struct sk_gather *g, const struct sk_gather_task *t, struct sk_err *err) {
    struct sk_sstage *s = g->s;
    struct sk_bundle *k = sk_pool_get(&g->x->bundles);
    if (!k) return SK_ERR(err, SK_ENOMEM, "%s: no memory for its input queue", s->label);
    *k = (struct sk_bundle){.say = t->say,
                            .inner = t->inner,
                            .node = t->node,
                            .origin = t->origin,
                            .work = t->work,
                            .hint = t->hint};
    sk_step_push_ready(s, k);
    s->n_ready++;
    return SK_OK;
}

static void add(struct sk_gather *g, struct sk_blk *b) {
    g->s->ready_bytes += b->ref.bytes;
    g->s->ready_rows += b->ref.n_rows;
    sk_blkq_push(&g->s->ready_last->q, b);
}

void sk_gather_add(struct sk_gather *g, struct sk_blk *b) {
    sk_list_del(&b->link);
    add(g, b);
}

sk_rc sk_gather_add_part(struct sk_gather *g, struct sk_kept *k, struct sk_bref part, uint32_t side,
                         struct sk_err *err) {
    struct sk_blk *b = sk_pool_get(&g->x->blks);
    if (!b) return SK_ERR(err, SK_ENOMEM, "%s: no memory for a block", g->s->label);
    SK_DCHECK(k->parked && part.row0 + part.bytes <= k->blk->ref.bytes);
    part.oid = k->blk->ref.oid;
    *b = (struct sk_blk){.ref = part, .side = side, .node = k->blk->node, .part = true, .kept = k};
    sk_list_init(&b->link);
    k->parts++;
    add(g, b);
    return SK_OK;
}
