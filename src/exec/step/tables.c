/* tables.c - the tables of a run: tasks by id, blocks by object, the list of actions. Pure.
 *
 * Invariant: a slot has a living task or is free; if blocks can go to disk, every block that
 * costs bytes of the budget is in by_oid once. Cost: a few instructions each, a map access for a
 * block. */
#include "exec/exec_int.h"

#define TAG SK_TAG_EXEC

struct sk_stask *sk_step_task(const struct sk_step *x, uint64_t id) {
    uint32_t slot = (uint32_t)id;
    struct sk_stask *t = slot < x->slots.n ? x->slots.p[slot] : NULL;
    return t && t->id == id ? t : NULL;
}

struct sk_stask *sk_step_new_task(struct sk_step *x) {
    if (!x->free_slots.n) { /* a new slot also needs room in free_slots, for its return */
        if (!sk_vec_reserve(&x->free_slots, TAG, x->slots.n + 1) ||
            !sk_vec_push(&x->slots, TAG, NULL))
            return NULL;
        x->free_slots.p[x->free_slots.n++] = x->slots.n - 1;
    }
    struct sk_stask *t = sk_pool_get(&x->tasks);
    if (!t) return NULL;
    uint32_t slot = sk_vec_pop(&x->free_slots);
    x->generation = x->generation + 1 < 0x7fffffff ? x->generation + 1 : 1;
    *t = (struct sk_stask){.id = (uint64_t)x->generation << 32 | slot};
    sk_list_init(&t->link);
    x->slots.p[slot] = t;
    return t;
}

void sk_step_free_task(struct sk_step *x, struct sk_stask *t) {
    uint32_t slot = (uint32_t)t->id;
    sk_gather_forget(x->s[t->stage].gather, &t->say);
    sk_list_del(&t->link);
    x->slots.p[slot] = NULL;
    x->free_slots.p[x->free_slots.n++] = slot; /* this place was reserved when the slot was made */
    sk_pool_put(&x->tasks, t);
}

sk_rc sk_step_act(struct sk_step *x, struct sk_act a, struct sk_err *err) {
    return sk_vec_push(&x->acts, TAG, a)
               ? SK_OK
               : SK_ERR(err, SK_ENOMEM, "pipeline: no memory for an action");
}

void sk_step_forget(struct sk_step *x, const struct sk_blk *b) {
    if (SK_UNLIKELY(b->kept)) sk_gather_forget_value(x, b->kept);
    if (!b->cost) return;
    if (b->on_disk) {
        SK_ASSERT(b->cost <= x->mem.disk);
        x->mem.disk -= b->cost;
    } else {
        sk_budget_give(&x->mem, b->cost);
    }
    void *there = x->conf.moves ? sk_map_del(&x->by_oid, b->ref.oid) : NULL;
    SK_ASSERT(!x->conf.moves || there == b);
}

static sk_rc drop_part(struct sk_step *x, struct sk_blk *b, struct sk_err *err) {
    struct sk_kept *k = b->kept;
    SK_ASSERT(k->parts);
    sk_pool_put(&x->blks, b);
    return --k->parts || k->more ? SK_OK : sk_step_drop(x, k->blk, err);
}

sk_rc sk_step_drop(struct sk_step *x, struct sk_blk *b, struct sk_err *err) {
    if (SK_UNLIKELY(b->part)) return drop_part(x, b, err);
    struct sk_act a = {.kind = SK_ACT_RELEASE, .id = b->ref.oid};
    sk_step_forget(x, b);
    sk_pool_put(&x->blks, b);
    return a.id ? sk_step_act(x, a, err) : SK_OK;
}

sk_rc sk_step_drop_queue(struct sk_step *x, struct sk_blkq *q, struct sk_err *err) {
    for (struct sk_blk *b; (b = sk_blkq_pop(q));) SK_TRY(sk_step_drop(x, b, err));
    return SK_OK;
}
