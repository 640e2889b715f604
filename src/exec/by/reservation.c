/* reservation.c - the policy of Ray Data 2.54 to 2.60: a share of memory for each operator, and
 * among operators with room the one that holds the least.
 *
 * Half of memory is split evenly between the operators: half of each share is for output that waits
 * to be read, the other half for tasks (enough for one at least). The other half of memory is given
 * out from downstream to upstream, in even parts; an operator that lacks room for one task borrows
 * it. An operator that has used nine tenths of its budget waits while ten blocks for each running
 * task wait before the next operator. If nothing runs, any operator may. Skate's guards are not
 * used: a slot must be free, and nothing is queued behind running tasks.
 *
 * Not here, since a running task of skate cannot be paused: Ray stops reading the output of an
 * operator that is over its output budget. State: none. Cost: O(operators). */
#include "exec/launch/guards.h"

#define QUEUE_PER_TASK 10u

static bool eligible(const struct sk_op_view *op) { return op->runs && (!op->over || op->running); }

static uint64_t outputs(const struct sk_sched_view *v, const struct sk_op_view *op) {
    return op->out_bytes + (op->parent < v->n ? v->op[op->parent].taken_bytes : 0);
}

static uint64_t less(uint64_t a, uint64_t b) { return a > b ? a - b : 0; }

static bool next_is_behind(const struct sk_sched_view *v, const struct sk_op_view *op) {
    const struct sk_op_view *p = op->parent < v->n ? &v->op[op->parent] : NULL;
    return p && p->runs && p->in_blocks > QUEUE_PER_TASK * SK_MAX(p->running, 1u);
}

static int pick(const struct sk_sched_view *v) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < v->n; i++) n += eligible(&v->op[i]);
    /* own: bytes of an operator's share for its tasks; as many bytes again are for its outputs */
    uint64_t own = v->memory_limit / 4 / SK_MAX(n, 1u), shared = v->memory_limit;
    for (uint32_t i = 0; i < v->n; i++) {
        const struct sk_op_view *op = &v->op[i];
        if (!eligible(op)) continue;
        uint64_t tasks = SK_MAX(own, op->est_out), used = op->promised + less(outputs(v, op), own);
        shared = less(shared, own + SK_MAX(tasks, used));
    }
    int best = -1;
    uint64_t least = UINT64_MAX;
    for (uint32_t i = v->n; i-- > 0;) {
        const struct sk_op_view *op = &v->op[i];
        if (!eligible(op)) continue;
        uint64_t used = op->promised + less(outputs(v, op), own), part = shared / n--;
        uint64_t budget = less(SK_MAX(own, op->est_out), used) + part,
                 borrowed = SK_MIN(less(op->est_out, budget), shared - part);
        shared -= part + borrowed;
        budget += borrowed;
        if (v->why[i] || op->est_out > budget || (used >= 9 * budget && next_is_behind(v, op)))
            continue;
        uint64_t holds = op->promised + outputs(v, op);
        if (holds >= least) continue;
        least = holds;
        best = (int)i;
    }
    return best;
}

static struct sk_choice choose(const struct sk_sched_view *v, void *state) {
    (void)state;
    sk_guards_bare(v);
    int i = pick(v);
    return i >= 0 ? SK_CHOOSE(i) : sk_choose_forced(v);
}

extern const struct sk_policy sk_exec_by_reservation;
const struct sk_policy sk_exec_by_reservation = {.name = "reservation", .choose = choose};
