/* downstream.c - the most downstream operator whose output fits; sources only beside headroom. The
 * default where blocks must stay in memory.
 *
 * Headroom is one output of every operator that is not a source: only those may use it, so that
 * what sources have made can always be worked off. Clipped, so that one source task can always run
 * in an empty pipeline. Simulated against the alternatives in tests/c/sim/exec_sim.c. State: none.
 * Cost: O(operators). */
#include "exec/launch/guards.h"

static int pick(const struct sk_sched_view *v) {
    uint64_t headroom = 0;
    for (uint32_t i = v->n; i-- > 0;) {
        uint64_t need = sk_need(v, i);
        if (v->op[i].source)
            need += SK_MIN(headroom, v->memory_limit > need ? v->memory_limit - need : 0);
        else headroom += need;
        if (!v->why[i] && need <= sk_room(v, i)) return (int)i;
    }
    return -1;
}

static struct sk_choice choose(const struct sk_sched_view *v, void *state) {
    (void)state;
    sk_guards_full(v);
    return sk_choose_or_beyond(v, pick(v));
}

extern const struct sk_policy sk_exec_by_downstream;
const struct sk_policy sk_exec_by_downstream = {
    .name = "downstream", .choose = choose, .default_where = SK_DEFAULT_STAYS};
