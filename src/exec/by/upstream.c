/* upstream.c - the other order, for comparison: sources as long as they fit beside the headroom, then the most upstream operator.
 *
 * A little better than `downstream` where memory is just short, worse where it is ample (it piles up blocks and leaves a tail). */
#include "exec/exec.h"

static int choose(const struct sk_sched_view *v, void *state) {
    (void)state;
    uint64_t headroom = 0;
    for (uint32_t i = 0; i < v->n; i++) headroom += v->op[i].source ? 0 : v->op[i].est_out_bytes;
    for (uint32_t i = 0; i < v->n; i++) {
        const struct sk_op_view *op = &v->op[i];
        uint64_t need = op->est_out_bytes;
        if (op->source) need += SK_MIN(headroom, v->memory_limit > need ? v->memory_limit - need : 0);
        if (op->can_launch && need <= v->memory_room) return (int)i;
    }
    return -1;
}

extern const struct sk_policy sk_exec_by_upstream;
const struct sk_policy sk_exec_by_upstream = {.name = "upstream", .choose = choose};
