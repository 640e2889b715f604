/* adaptive.c - downstream first, and sources as fast as the other operators can process their
 * output.
 *
 * A source task takes memory when it yields, not when it starts. So besides the sources whose
 * output fits now (as in downstream.c), others start in advance: at the rate at which the operators
 * behind can process their output (Algorithm 2 of arXiv 2501.12407, with the bottleneck instead of
 * the sum of stages, since stages run side by side), and while the existing blocks leave room for
 * one output. If times vary more than that, output that is made too early is spilled.
 *
 * State: tokens, in bytes of source output. Cost: O(operators). */
#include "exec/launch/guards.h"

struct state {
    int64_t last_ns;
    double tokens;
};

/* Bytes of source output that the operators behind can process in a second, with the CPUs that
 * sources leave; 0: not known. */
static double drain(const struct sk_sched_view *v) {
    double cpu_left = (double)v->cpu_e4, cpu = 0, gpu = 0, alpha = 1;
    for (uint32_t i = 0; i < v->n; i++)
        if (v->op[i].source) cpu_left -= (double)v->op[i].running * (double)v->op[i].cpu_e4;
    for (uint32_t i = 0; i < v->n; i++) {
        const struct sk_op_view *op = &v->op[i];
        if (op->source || (op->cpu_e4 <= 0 && op->gpu_e4 <= 0)) continue;
        if (op->est_ns <= 0 || op->in_per_task <= 0) return 0;
        /* seconds of one slot for each byte of source output */
        double s = (double)op->est_ns / 1e9 / op->in_per_task * alpha;
        cpu += s * (double)op->cpu_e4;
        if (op->gpu_e4 > 0 && v->gpu_e4 > 0) gpu += s * (double)op->gpu_e4 / (double)v->gpu_e4;
        alpha *= op->out_per_in;
    }
    if (cpu_left <= 0) return 0;
    double sec = SK_MAX(cpu / cpu_left, gpu);
    return sec > 0 ? 1 / sec : 0;
}

/* Time in ns that all slots together need for the rest of the work; 0: not known, or there are
 * several sources (the view is no tree). */
static double rest_ns(const struct sk_sched_view *v) {
    double cpu = 0, gpu = 0, bytes = 0;
    for (uint32_t i = 0; i < v->n; i++) {
        const struct sk_op_view *op = &v->op[i];
        if (op->units_left == UINT32_MAX) return 0;
        if (op->cpu_e4 <= 0 && op->gpu_e4 <= 0) continue;
        if (op->est_ns <= 0 || (op->source ? i > 0 : op->in_per_task <= 0)) return 0;
        double in = bytes + (double)op->in_bytes,
               tasks = (op->source ? op->units_left : in / op->in_per_task) + 0.5 * op->running;
        cpu += tasks * (double)op->est_ns * (double)op->cpu_e4;
        gpu += tasks * (double)op->est_ns * (double)op->gpu_e4;
        bytes =
            (op->source ? (double)op->units_left * (double)sk_need(v, i) : in * op->out_per_in) +
            (double)op->promised;
    }
    return SK_MAX(v->cpu_e4 > 0 ? cpu / (double)v->cpu_e4 : 0,
                  v->gpu_e4 > 0 ? gpu / (double)v->gpu_e4 : 0);
}

/* Near the end the longest path comes first: finds the most upstream operator whose task, followed
 * by one task of each operator behind it, takes as long as all work that is left. -1: none. */
static int critical_path(const struct sk_sched_view *v, uint64_t headroom) {
    double rest = rest_ns(v), way = 0;
    int found = -1;
    for (uint32_t i = v->n; rest > 0 && i-- > 0;) {
        const struct sk_op_view *op = &v->op[i];
        way += (double)op->est_ns;
        uint64_t need = sk_need(v, i) + (op->source ? headroom : 0);
        if (!v->why[i] && way >= rest && need <= sk_room(v, i)) found = (int)i;
    }
    return found;
}

static int pick(const struct sk_sched_view *v, struct state *s) {
    uint64_t headroom = 0, promised = 0, most = 0;
    for (uint32_t i = 0; i < v->n; i++) {
        uint64_t need = sk_need(v, i);
        headroom += v->op[i].source ? 0 : need;
        promised += v->op[i].source ? 0 : v->op[i].promised;
        most = SK_MAX(most, v->op[i].source ? need : 0);
    }
    if (s->last_ns)
        s->tokens =
            SK_MIN(s->tokens + drain(v) * (double)(v->now_ns - s->last_ns) / 1e9, (double)most);
    s->last_ns = v->now_ns;
    int first = critical_path(v, headroom);
    if (first >= 0) return first;
    headroom = 0;
    /* `promised` leaves out the promises of source tasks, so `room` does, too */
    uint64_t taken = v->memory_used + promised,
             room = v->memory_limit > taken ? v->memory_limit - taken : 0;
    for (uint32_t i = v->n; i-- > 0;) {
        const struct sk_op_view *op = &v->op[i];
        uint64_t need = sk_need(v, i), out = need;
        if (!op->source) {
            headroom += need;
            bool shrinks = !op->grows && promised <= v->memory_limit / 8;
            if (!v->why[i] && (need <= SK_MAX(room, sk_room(v, i)) || shrinks)) return (int)i;
            continue;
        }
        if (v->why[i]) continue;
        need += SK_MIN(headroom, v->memory_limit > need ? v->memory_limit - need : 0);
        if (need <= sk_room(v, i)) return (int)i;
        if (op->est_known && need + v->memory_disk <= room && s->tokens >= (double)out) {
            s->tokens -= (double)out;
            return (int)i;
        }
    }
    return -1;
}

static struct sk_choice choose(const struct sk_sched_view *v, void *state) {
    sk_guards_full(v);
    return sk_choose_or_beyond(v, pick(v, state));
}

extern const struct sk_policy sk_exec_by_adaptive;
const struct sk_policy sk_exec_by_adaptive = {.name = "adaptive",
                                              .choose = choose,
                                              .state_bytes = sizeof(struct state),
                                              .default_where = SK_DEFAULT_SPILLS};
