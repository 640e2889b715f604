/* downstream.c - the default policy: the most downstream operator whose output fits; sources only beside headroom.
 *
 * Headroom is one output of every operator that is not a source: only those may use it, so that what sources have made can always be
 * worked off. Clipped, so that one source task can always run in an empty pipeline. Simulated against the alternatives in
 * tests/c/sim/exec_sim.c. State: none. Cost: O(operators). */
#include "exec/exec.h"

static int choose(const struct sk_sched_view *v, void *state) {
    (void)state;
    uint64_t headroom = 0;
    for (uint32_t i = v->n; i-- > 0;) {
        const struct sk_op_view *op = &v->op[i];
        uint64_t need = op->est_out_bytes;
        if (op->source) {
            uint64_t most = v->memory_limit > need ? v->memory_limit - need : 0;
            need += SK_MIN(headroom, most);
        } else {
            headroom += op->est_out_bytes;
        }
        if (op->can_launch && need <= v->memory_room) return (int)i;
    }
    return -1;
}

extern const struct sk_policy sk_exec_by_downstream;
const struct sk_policy sk_exec_by_downstream = {.name = "downstream", .choose = choose};
