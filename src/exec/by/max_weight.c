/* max_weight.c - picks the operator with the longest queue, weighted by the rate at which it can
 * empty the queue: MaxWeight, or back-pressure, scheduling (Tassiulas, Ephremides, IEEE Trans.
 * Automatic Control 37(12), 1992).
 *
 * The weight of an operator is the bytes that wait for it, less the bytes of its output that would
 * enter the queue of its consumer for each byte taken, divided by the CPU seconds that a byte costs
 * it. An operator before a long queue yields to those behind it, so queues stay even. In the model
 * of the paper this order keeps every load stable that any order keeps stable. An operator that has
 * not been measured goes before all others. Sources have no queue: one starts when no other
 * operator can, beside one output of each operator behind it.
 *
 * State: none. Cost: O(operators). */
#include <math.h>

#include "exec/launch/guards.h"

static double weight(const struct sk_sched_view *v, uint32_t i) {
    const struct sk_op_view *op = &v->op[i];
    if (op->est_ns <= 0 || op->in_per_task <= 0) return INFINITY;
    double behind = op->parent < v->n ? (double)v->op[op->parent].in_bytes : 0;
    double sec = (double)op->est_ns / 1e9 * SK_MAX((double)op->cpu_e4, 1) / op->in_per_task;
    return ((double)op->in_bytes - op->out_per_in * behind) / sec;
}

static struct sk_choice choose(const struct sk_sched_view *v, void *state) {
    (void)state;
    sk_guards_full(v);
    return sk_choose_or_beyond(v, sk_pick_ranked(v, weight));
}

extern const struct sk_policy sk_exec_by_max_weight;
const struct sk_policy sk_exec_by_max_weight = {.name = "max_weight", .choose = choose};
