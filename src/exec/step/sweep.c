/* sweep.c - the end of a run: gives up everything that it still holds, in whatever state a failed
 * step left it. Pure. */
#include "exec/exec_int.h"

static void sweep_blk(struct sk_step *x, struct sk_blk *b, const struct sk_sweep *w) {
    if (b->part) {
        b->kept->parts--;
    } else {
        if (w->object && b->ref.oid) w->object(w->ctx, b->ref.oid);
        sk_step_forget(x, b);
    }
    sk_pool_put(&x->blks, b);
}

static void sweep_queue(struct sk_step *x, struct sk_blkq *q, const struct sk_sweep *w) {
    for (struct sk_blk *b; (b = sk_blkq_pop(q));) sweep_blk(x, b, w);
}

/* Releases the values of a gather. Call after tasks and inputs are swept, so that no parts of the
 * values are left. */
static void sweep_gather(struct sk_step *x, const struct sk_gather *g, const struct sk_sweep *w) {
    for (struct sk_list *it; g && (it = sk_list_first(&g->held));) {
        sk_list_del(it);
        sweep_blk(x, sk_container_of(it, struct sk_blk, link), w);
    }
    for (struct sk_list *it; g && (it = sk_list_first(&g->parked));)
        sweep_blk(x, sk_container_of(it, struct sk_kept, link)->blk, w);
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
        sweep_tasks(x, &s->inner, w);
        sk_step_close(s);
        for (struct sk_bundle *b; (b = s->ready);) {
            s->ready = b->next;
            sweep_queue(x, &b->q, w);
            sk_gather_forget(s->gather, &b->say);
            sk_pool_put(&x->bundles, b);
        }
        for (uint32_t k = 0; s->sides && k < s->n_inputs; k++) sweep_queue(x, &s->sides[k].q, w);
        sweep_gather(x, s->gather, w);
        for (uint32_t k = 0; k < s->n_actors; k++)
            if (s->actors[k].state != SK_ACTOR_GONE && w->actor) w->actor(w->ctx, i, k);
        s->n_actors = s->n_live = 0;
    }
}
