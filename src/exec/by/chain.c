/* chain.c - the operator that frees memory fastest goes first: Chain scheduling (Babcock, Babu,
 * Datar, Motwani, SIGMOD 2003), for tasks.
 *
 * A byte of input, followed down the pipeline, takes CPU time and becomes fewer or more bytes. The
 * priority of an operator is the steepest descent from it, over one or more operators: bytes freed
 * for each second of CPU. For one CPU and one chain this is optimal in peak memory, whatever the
 * input. An operator that has not been measured goes before all others. Sources free nothing: one
 * starts when no other operator can, beside one output of each operator behind it.
 *
 * State: none. Cost: O(operators squared), for a few operators. */
#include <math.h>

#include "exec/launch/guards.h"

static double steepest(const struct sk_sched_view *v, uint32_t i) {
    double bytes = 1, sec = 0, best = -INFINITY;
    for (; i < v->n; i = v->op[i].parent) {
        const struct sk_op_view *op = &v->op[i];
        if (!op->runs) continue;
        if (op->est_ns <= 0 || op->in_per_task <= 0) return sec > 0 ? best : INFINITY;
        sec += bytes * (double)op->est_ns / 1e9 * SK_MAX((double)op->cpu_e4, 1) / op->in_per_task;
        bytes *= op->out_per_in;
        best = SK_MAX(best, (1 - bytes) / sec);
    }
    return best;
}

static struct sk_choice choose(const struct sk_sched_view *v, void *state) {
    (void)state;
    sk_guards_full(v);
    return sk_choose_or_beyond(v, sk_pick_ranked(v, steepest));
}

extern const struct sk_policy sk_exec_by_chain;
const struct sk_policy sk_exec_by_chain = {.name = "chain", .choose = choose};
