/* upstream.c - the opposite order, for comparison: sources while they fit beside the headroom, then
 * the most upstream operator.
 *
 * A little better than `downstream` where memory is just short, worse where it is ample (blocks
 * pile up, and a tail of work is left). */
#include "exec/launch/guards.h"

static int pick(const struct sk_sched_view *v) {
    uint64_t headroom = 0;
    for (uint32_t i = 0; i < v->n; i++) headroom += v->op[i].source ? 0 : sk_need(v, i);
    for (uint32_t i = 0; i < v->n; i++) {
        uint64_t need = sk_need(v, i);
        if (v->op[i].source)
            need += SK_MIN(headroom, v->memory_limit > need ? v->memory_limit - need : 0);
        if (!v->why[i] && need <= sk_room(v, i)) return (int)i;
    }
    return -1;
}

static struct sk_choice choose(const struct sk_sched_view *v, void *state) {
    (void)state;
    sk_guards_full(v);
    return sk_choose_or_beyond(v, pick(v));
}

extern const struct sk_policy sk_exec_by_upstream;
const struct sk_policy sk_exec_by_upstream = {.name = "upstream", .choose = choose};
