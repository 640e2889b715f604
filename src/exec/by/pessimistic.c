/* pessimistic.c - the paper's baseline (arXiv 2501.12407, 4.1): picks the operator with the least
 * unused output, and none once memory is full.
 *
 * The output that running tasks will still yield is not counted, so memory can exceed the limit by
 * that much, and the engine spills the excess. Skate's guards are not used; a slot must be free.
 * When memory is full and nothing runs any more, one task is let through, or memory would stay
 * full. */
#include "exec/launch/guards.h"

static int pick(const struct sk_sched_view *v) {
    int best = -1;
    uint64_t used = 0;
    for (uint32_t i = 0; i < v->n; i++) used += v->op[i].out_bytes;
    if (used >= v->memory_limit) return -1;
    for (uint32_t i = 0; i < v->n; i++)
        if (!v->why[i] && (best < 0 || v->op[i].out_bytes <= v->op[best].out_bytes)) best = (int)i;
    return best;
}

static struct sk_choice choose(const struct sk_sched_view *v, void *state) {
    (void)state;
    sk_guards_bare(v);
    int i = pick(v);
    return i >= 0 ? SK_CHOOSE(i) : sk_choose_forced(v);
}

extern const struct sk_policy sk_exec_by_pessimistic;
const struct sk_policy sk_exec_by_pessimistic = {.name = "pessimistic", .choose = choose};
