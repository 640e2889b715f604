/* sweep.c - the end of a run, however it came: everything that it still holds is given up, whatever state a failed step left. Pure. */
#include "exec/exec_int.h"

static void sweep_blk(struct sk_step *x, struct sk_blk *b, const struct sk_sweep *w) {
    if (b->slice) {
        b->pack->slices--;
    } else {
        if (b->pack && b->pack->sample) sweep_blk(x, b->pack->sample, w);
        if (w->object && b->ref.oid) w->object(w->ctx, b->ref.oid);
        sk_step_forget(x, b);
    }
    sk_pool_put(&x->blks, b);
}

static void sweep_queue(struct sk_step *x, struct sk_blkq *q, const struct sk_sweep *w) {
    for (struct sk_blk *b; (b = sk_blkq_pop(q));) sweep_blk(x, b, w);
}

/* After its tasks and inputs: nothing is a part of a pack any more. */
static void sweep_packs(struct sk_step *x, struct sk_sstage *s, const struct sk_sweep *w) {
    struct sk_exchange *e = s->exchange;
    while (s->merge && s->merge->open.n) {
        struct sk_bundle *b = sk_vec_pop(&s->merge->open).b;
        sweep_queue(x, &b->q, w);
        sk_pool_put(&x->bundles, b);
    }
    if (s->merge && s->merge->sample) sweep_blk(x, s->merge->sample, w);
    if (s->merge) s->merge->sample = NULL;
    if (!e) return;
    for (uint32_t k = 0; k < s->n_inputs; k++) {
        if (e->pending[k]) sweep_blk(x, e->pending[k], w);
        e->pending[k] = NULL;
        e->columns[k] = NULL;
    }
    for (uint32_t i = 0; i < e->packs.n; i++) {
        struct sk_pack *p = e->packs.p[i];
        if (!p) continue;
        e->packs.p[i] = NULL;
        p->place = NULL;
        sweep_blk(x, p->blk, w);
    }
    if (e->bounds) sweep_blk(x, e->bounds->blk, w); /* which clears e->bounds */
}

static void sweep_tasks(struct sk_step *x, struct sk_list *l, const struct sk_sweep *w) {
    SK_LIST_EACH_SAFE (it, tmp, l) {
        struct sk_stask *t = sk_container_of(it, struct sk_stask, link);
        if (!t->over && w->task) w->task(w->ctx, t);
        sweep_queue(x, &t->held, w);
        sweep_queue(x, &t->in, w);
        sk_step_free_task(x, t);
    }
}

void sk_step_sweep(struct sk_step *x, const struct sk_sweep *w) {
    sweep_tasks(x, &x->cancelled, w);
    sweep_queue(x, &x->out, w);
    for (uint32_t i = 0; i < x->n; i++) {
        struct sk_sstage *s = &x->s[i];
        sweep_tasks(x, &s->window, w);
        sweep_tasks(x, &s->early, w);
        sk_step_close(s);
        for (struct sk_bundle *b; (b = s->ready);) {
            s->ready = b->next;
            sweep_queue(x, &b->q, w);
            sk_pool_put(&x->bundles, b);
        }
        for (uint32_t k = 0; s->sides && k < s->n_inputs; k++) sweep_queue(x, &s->sides[k].q, w);
        sweep_packs(x, s, w);
        for (uint32_t k = 0; k < s->n_actors; k++)
            if (s->actors[k].state != SK_ACTOR_GONE && w->actor) w->actor(w->ctx, i, k);
        s->n_actors = s->n_live = 0;
    }
}
