/* pessimistic.c - the paper's baseline (arXiv 2501.12407, 4.1): whoever has the least output lying about, and nobody once memory is full.
 *
 * What tasks in flight will still make is not counted, so it goes over the limit by what they yield; the engine spills that. */
#include "exec/exec.h"

static int choose(const struct sk_sched_view *v, void *state) {
    (void)state;
    int best = -1;
    uint64_t used = 0;
    for (uint32_t i = 0; i < v->n; i++) used += v->op[i].out_bytes;
    if (used >= v->memory_limit) return -1;
    for (uint32_t i = 0; i < v->n; i++)
        if (v->op[i].can_launch && (best < 0 || v->op[i].out_bytes <= v->op[best].out_bytes)) best = (int)i;
    return best;
}

extern const struct sk_policy sk_exec_by_pessimistic;
const struct sk_policy sk_exec_by_pessimistic = {.name = "pessimistic", .choose = choose};
