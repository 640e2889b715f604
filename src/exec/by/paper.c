/* paper.c - Algorithms 1 and 2 of the streaming batch paper (arXiv 2501.12407, 4.2): launches of
 * sources are paid from a budget that grows at the rate at which the pipeline is expected to use
 * their output; of the other operators the one with the least unused output goes next.
 *
 * The rate is one byte in P seconds, P = sum over operators of (time of a task / its input bytes /
 * slots that it can use now) x (its input by byte of the source's output). While one of these
 * numbers is unknown the budget does not grow: one source task runs as a probe. Optimal if
 * estimates are exact and nothing varies.
 *
 * As published: an operator qualifies if it has input, a free slot, and room for output in its
 * share of memory; skate's guards are not used. The paper's loop wakes up by a clock, this one by
 * events. While nothing runs there are no events, so the task that the clock would launch next is
 * launched at once. */
#include "exec/launch/guards.h"

struct state {
    bool begun;
    int64_t last_ns;
    double budget;
};

static double slots(const struct sk_sched_view *v, const struct sk_op_view *op,
                    const struct sk_op_view *source) {
    double cpu = op->cpu_e4 > 0
                     ? ((double)v->cpu_e4 - (double)source->running * (double)source->cpu_e4) /
                           (double)op->cpu_e4
                     : 1e9;
    double gpu = op->gpu_e4 > 0 ? (double)v->gpu_e4 / (double)op->gpu_e4 : 1e9;
    return SK_MIN(cpu, gpu);
}

/* Bytes of source output that the other operators can process in a second; 0: not known yet, or the
 * sources have all slots. */
static double rate(const struct sk_sched_view *v, const struct sk_op_view *source) {
    double period = 0, alpha = 1;
    for (uint32_t i = 0; i < v->n; i++) {
        const struct sk_op_view *op = &v->op[i];
        if (op->source || (op->cpu_e4 <= 0 && op->gpu_e4 <= 0)) continue;
        double e = slots(v, op, source);
        if (op->est_ns <= 0 || op->in_per_task <= 0 || e <= 0) return 0;
        period += (double)op->est_ns / 1e9 / op->in_per_task / e * alpha;
        alpha *= op->out_per_in > 0 ? op->out_per_in : 1;
    }
    return period > 0 ? 1 / period : 1e18;
}

static int pick(const struct sk_sched_view *v, void *p) {
    struct state *s = p;
    int best = -1;
    if (!s->begun) *s = (struct state){true, v->now_ns, (double)v->memory_limit};
    for (uint32_t i = 0; i < v->n; i++) {
        const struct sk_op_view *op = &v->op[i];
        if (!op->source) {
            /* the paper's hasOutputBufferSpace, with the operator's share of memory */
            bool space = op->out_bytes + op->running * op->est_out <= v->memory_limit / v->n;
            if (!v->why[i] && space && (best < 0 || op->out_bytes < v->op[best].out_bytes))
                best = (int)i;
            continue;
        }
        s->budget = SK_MIN(s->budget + rate(v, op) * (double)(v->now_ns - s->last_ns) / 1e9,
                           (double)v->memory_limit);
        s->last_ns = v->now_ns;
        if (!v->why[i] && (op->est_known || !op->running) && (double)op->est_out <= s->budget) {
            s->budget -= (double)op->est_out;
            return (int)i;
        }
    }
    return best;
}

static struct sk_choice choose(const struct sk_sched_view *v, void *state) {
    sk_guards_bare(v);
    int i = pick(v, state);
    return i >= 0 ? SK_CHOOSE(i) : sk_choose_forced(v);
}

extern const struct sk_policy sk_exec_by_paper;
const struct sk_policy sk_exec_by_paper = {
    .name = "paper", .choose = choose, .state_bytes = sizeof(struct state)};
