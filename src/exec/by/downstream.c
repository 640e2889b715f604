/* downstream.c - picks the most downstream operator whose output fits into memory; a source only if
 * the headroom stays free. This is the default where blocks must stay in memory.
 *
 * Headroom is one output of every operator that is no source: sources leave it free, so that their
 * output can always be processed. It is limited so that one source task can always run in an empty
 * pipeline. tests/c/sim/exec_sim.c simulates this policy against the others. State: none. Cost:
 * O(operators). */
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
