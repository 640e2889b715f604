/* parts.c - tasks whose inputs are parts of values: the bytes that they reserve, and how values and
 * tasks are forgotten. Pure. */
#include "exec/exec_int.h"

void sk_gather_forget_value(struct sk_step *x, struct sk_kept *k) {
    SK_ASSERT(!k->parts);
    if (k->parked) {
        *(k->blk->on_disk ? &x->parked_disk : &x->parked) -= k->blk->cost;
        sk_list_del(&k->link);
    }
    x->conf.gathers->gone(k);
}

static uint64_t bytes_on_disk(const struct sk_blkq *q) {
    uint64_t sum = 0;
    for (const struct sk_blk *b = q->head; b; b = b->next)
        sum += b->part && b->kept->blk->on_disk ? b->ref.bytes : 0;
    return sum;
}

bool sk_gather_reads(const struct sk_step *x, const struct sk_sstage *s) {
    return x->parked_disk && s->ready && bytes_on_disk(&s->ready->q);
}

bool sk_gather_awaits(const struct sk_step *x, const struct sk_sstage *s) {
    const struct sk_gather *to = x->s[s->parent].gather;
    return to->ops->awaits && to->ops->awaits(to, s->which);
}

bool sk_step_awaits(const struct sk_step *x) {
    bool awaits = x->n_asked > 0, moves = x->done || x->n_flying > x->n_asked || x->out.n;
    for (uint32_t i = 0; x->n_awaiting && !moves && !awaits && i < x->n; i++)
        awaits = x->s[i].values && sk_gather_awaits(x, &x->s[i]);
    return awaits && !moves;
}

uint64_t sk_gather_work(const struct sk_step *x, uint32_t work, uint64_t in_bytes) {
    return work && x->conf.moves
               ? SK_MIN(SK_MIN(work * in_bytes, x->conf.target_max_bytes), x->mem.limit)
               : 0;
}

void sk_gather_launched(struct sk_gather *g, struct sk_stask *t, uint32_t work) {
    if (sk_task_has_parts(t)) {
        t->read = g->x->conf.moves ? bytes_on_disk(&t->in) : 0;
        t->work = sk_gather_work(g->x, work, t->in.bytes);
        sk_budget_reserve(&g->x->mem, t->read + t->work);
        g->working += t->work;
        g->sliced += t->in.bytes - t->read;
        g->reading += t->read;
    }
    if (g->ops->launched) g->ops->launched(g, t->say, t->in.bytes, t->read);
}

void sk_gather_over(struct sk_gather *g, struct sk_stask *t) {
    if (!sk_task_has_parts(t)) return;
    sk_budget_unreserve(&g->x->mem, t->read + t->work);
    g->working -= t->work;
    g->sliced -= t->in.bytes - t->read;
    g->reading -= t->read;
    t->read = t->work = 0;
}

void sk_gather_forget(const struct sk_gather *g, void **say) {
    if (*say) g->ops->forget(*say);
    *say = NULL;
}
