/* reservation.c - what Ray Data ships (its ReservationOpResourceAllocator): half of memory is split evenly between operators, the other half is dealt
 * from downstream to upstream; of those with room the one that holds the least goes first. */
#include "exec/exec.h"

static uint64_t holds(const struct sk_op_view *op) { return op->out_bytes + (uint64_t)op->running * op->est_out_bytes; }

static int choose(const struct sk_sched_view *v, void *state) {
    (void)state;
    uint32_t n = 0;
    int best = -1;
    for (uint32_t i = 0; i < v->n; i++) n += v->op[i].cpu_e4 > 0 || v->op[i].gpu_e4 > 0;
    uint64_t own = v->memory_limit / 2 / SK_MAX(n, 1), shared = v->memory_limit / 2;
    for (uint32_t i = v->n; i-- > 0;) {
        const struct sk_op_view *op = &v->op[i];
        uint64_t over = holds(op) > own ? holds(op) - own : 0, lent = SK_MIN(shared, SK_MAX(over, op->est_out_bytes));
        shared -= SK_MIN(shared, lent);
        if (op->can_launch && holds(op) + op->est_out_bytes <= own + lent && (best < 0 || holds(op) < holds(&v->op[best]))) best = (int)i;
    }
    return best;
}

extern const struct sk_policy sk_exec_by_reservation;
const struct sk_policy sk_exec_by_reservation = {.name = "reservation", .choose = choose};
