/* guards.c - rules that forbid a launch (contract: guards.h). Each rule gets numbers and gives a
 * reason, without knowing a run, so tests/c/test_exec_guards.c tests each rule by itself. */
#include "exec/launch/guards.h"

const enum sk_wait sk_wait_of[SK_STOP_N] = {
    [SK_STOP_NONE] = SK_WAIT_NONE,     [SK_STOP_OVER] = SK_WAIT_OVER,
    [SK_STOP_INPUT] = SK_WAIT_INPUT,   [SK_STOP_WINDOW] = SK_WAIT_TURN,
    [SK_STOP_ANSWER] = SK_WAIT_TURN,   [SK_STOP_TURN] = SK_WAIT_TURN,
    [SK_STOP_RAMP] = SK_WAIT_TURN,     [SK_STOP_CAP] = SK_WAIT_RESOURCE,
    [SK_STOP_SLOT] = SK_WAIT_RESOURCE, [SK_STOP_QUEUE] = SK_WAIT_RESOURCE,
    [SK_STOP_PROBE] = SK_WAIT_MEMORY,  [SK_STOP_CONSUMER] = SK_WAIT_CONSUMER,
    [SK_STOP_READER] = SK_WAIT_MEMORY, [SK_STOP_EARLY] = SK_WAIT_MEMORY,
    [SK_STOP_ROOM] = SK_WAIT_MEMORY,
};

static const struct sk_choice NOTHING = {.op = -1};

enum sk_stop sk_guard_can(const struct sk_sched_view *v, uint32_t i) {
    const struct sk_op_view *op = &v->op[i];
    if (op->over) return SK_STOP_OVER;
    if (!op->input) return op->awaited ? SK_STOP_ANSWER : SK_STOP_INPUT;
    if (op->window_full) return SK_STOP_WINDOW;
    if (op->capped) return SK_STOP_CAP;
    return op->slot == SK_SLOT_NONE ? SK_STOP_SLOT : SK_STOP_NONE;
}

/* A later input of a union starts when the earlier ones have started all their tasks: no gap
 * between them, and no memory taken from them. An input that is zipped waits while it is ahead of
 * the others. */
enum sk_stop sk_guard_turn(const struct sk_sched_view *v, uint32_t i) {
    return v->op[i].in_turn && v->op[i].lead_bytes <= v->memory_limit / 8 ? SK_STOP_NONE
                                                                          : SK_STOP_TURN;
}

/* Limits how many tasks run and how many unused blocks exist above a LIMIT, which may never need
 * more output. */
enum sk_stop sk_guard_ramp(const struct sk_sched_view *v, uint32_t i) {
    const struct sk_op_view *op = &v->op[i];
    if (!op->ramp) return SK_STOP_NONE;
    uint64_t under_way =
        op->running + op->held_blocks + (op->parent < v->n ? v->op[op->parent].in_blocks : 0);
    return under_way >= op->ramp ? SK_STOP_RAMP : SK_STOP_NONE;
}

/* Forbids queueing while memory is short: a queued task would take memory from tasks that can
 * run. */
enum sk_stop sk_guard_queue(const struct sk_sched_view *v, uint32_t i) {
    const struct sk_op_view *op = &v->op[i];
    return op->slot == SK_SLOT_QUEUE && v->memory_taken + op->est_out > v->memory_limit / 2
               ? SK_STOP_QUEUE
               : SK_STOP_NONE;
}

/* Never holds an operator back while the consumer waits for a block. */
enum sk_stop sk_guard_consumer(const struct sk_sched_view *v, uint32_t i) {
    const struct sk_op_view *op = &v->op[i];
    if (!op->feeder || !v->out_blocks) return SK_STOP_NONE;
    if (v->consumer_blocks && v->feed_blocks >= v->consumer_blocks) return SK_STOP_CONSUMER;
    uint64_t share = SK_MAX(v->memory_limit / 4, 2 * op->block_bytes);
    return v->feed_bytes + (op->est_known ? op->est_out : 0) > share ? SK_STOP_CONSUMER
                                                                     : SK_STOP_NONE;
}

/* Half of memory keeps a busy operator supplied for long: more would only take room from other
 * operators, and pages from the memory of user functions in workers. */
enum sk_stop sk_guard_reader(const struct sk_sched_view *v, uint32_t i) {
    const struct sk_op_view *op = &v->op[i], *p = op->parent < v->n ? &v->op[op->parent] : NULL;
    if (!p || !p->running || p->waited != SK_WAIT_RESOURCE) return SK_STOP_NONE;
    uint64_t there =
        op->held_bytes + p->in_bytes + op->promised + (op->est_known ? op->est_out : 0);
    return there > v->memory_limit / 2 ? SK_STOP_READER : SK_STOP_NONE;
}

enum sk_stop sk_guard_probe(const struct sk_sched_view *v, uint32_t i) {
    const struct sk_op_view *op = &v->op[i];
    return op->unknown && !op->est_known && v->unknown_bytes > v->memory_room / 2 ? SK_STOP_PROBE
                                                                                  : SK_STOP_NONE;
}

/* The output of a task ahead of its turn may have to be kept until its turn: a task whose output
 * grows starts only if one output of every operator behind it has room beside its own. */
enum sk_stop sk_guard_early(const struct sk_sched_view *v, uint32_t i) {
    const struct sk_op_view *op = &v->op[i];
    if (!op->ahead || !op->grows) return SK_STOP_NONE;
    uint64_t need = op->est_out;
    for (uint32_t k = i; k < v->n; k++) need += v->op[k].est_out;
    return need > v->memory_room ? SK_STOP_EARLY : SK_STOP_NONE;
}

uint64_t sk_room(const struct sk_sched_view *v, uint32_t i) {
    if (!v->memory_disk) return v->memory_room;
    if (v->op[i].source)
        return v->memory_room > v->memory_disk ? v->memory_room - v->memory_disk : 0;
    uint64_t working = v->memory_working + v->op[i].next_in_bytes;
    return v->memory_limit > working ? v->memory_limit - working : 0;
}

void sk_guards_bare(const struct sk_sched_view *v) {
    for (uint32_t i = 0; i < v->n; i++) {
        enum sk_stop s = sk_guard_can(v, i);
        v->why[i] = !s && v->op[i].slot == SK_SLOT_QUEUE ? SK_STOP_SLOT : s;
    }
}

/* Returns the first reason that holds, in the order in which a waiting user needs to know them:
 * missing input, the turn, taken resources, full memory. */
static enum sk_stop full(const struct sk_sched_view *v, uint32_t i) {
    const struct sk_op_view *op = &v->op[i];
    enum sk_stop s = sk_guard_can(v, i);
    if (s == SK_STOP_OVER || s == SK_STOP_INPUT || s == SK_STOP_ANSWER || s == SK_STOP_WINDOW)
        return s;
    enum sk_stop turn = sk_guard_turn(v, i);
    if (turn || (op->ramp && (turn = sk_guard_ramp(v, i)))) return turn;
    if (s || (s = sk_guard_queue(v, i)) || (s = sk_guard_consumer(v, i))) return s;
    if ((s = sk_guard_reader(v, i)) || (s = sk_guard_probe(v, i))) return s;
    return sk_guard_early(v, i);
}

void sk_guards_full(const struct sk_sched_view *v) {
    for (uint32_t i = 0; i < v->n; i++) v->why[i] = full(v, i);
}

/* ---- pools take turns at the GPUs ------------------------------------------------------------ */

uint64_t sk_turn_headroom(const struct sk_sched_view *v, uint32_t i) {
    uint64_t sum = 0;
    for (uint32_t k = i + 1; v->op[i].gpu_e4 && k < v->n; k++)
        if (v->op[k].gpu_e4 && v->op[i].gpu_e4 + v->op[k].gpu_e4 > v->gpu_e4)
            sum += v->op[k].est_out;
    return SK_MIN(sum, v->memory_limit / 2);
}

int64_t sk_turn_need(const struct sk_sched_view *v, uint32_t i) {
    return v->op[i].gpu_e4 + (v->op[i].actors || v->gpu_limited ? v->task_gpu_e4 : 0);
}

/* True if pool p gives its idle actors' GPUs to operator i: a pool upstream of i always does, one
 * downstream only if it has no work that it could do now. */
bool sk_turn_gives(const struct sk_sched_view *v, uint32_t p, uint32_t i) {
    if (p == i || !v->op[p].actors) return false;
    if (p < i) return true;
    enum sk_wait w = sk_wait_of[v->why[p]];
    return w == SK_WAIT_INPUT || w == SK_WAIT_TURN || w == SK_WAIT_MEMORY || w == SK_WAIT_OVER;
}

/* True if the operator would launch with the GPUs that idle actors of other pools keep. */
static bool lacks_gpu(const struct sk_sched_view *v, uint32_t i) {
    const struct sk_op_view *op = &v->op[i];
    if (!op->gpu_e4 || op->n_actors || op->over || !op->input || op->window_full || op->capped ||
        op->cpus_spent)
        return false;
    int64_t need = sk_turn_need(v, i), could = v->gpu_left_e4;
    if (could >= need || sk_guard_turn(v, i) || sk_guard_consumer(v, i) || sk_guard_probe(v, i))
        return false;
    for (uint32_t p = 0; p < v->n; p++) could += sk_turn_gives(v, p, i) ? v->op[p].idle_gpu_e4 : 0;
    return could >= need;
}

/* Takes a turn once nothing runs, or once the operator's input is a quarter of memory: a pool that
 * takes turns loads its model again each time. */
struct sk_choice sk_choose_turn(const struct sk_sched_view *v) {
    for (uint32_t i = v->n; i-- > 0;) {
        if (v->flying && v->op[i].in_bytes < v->memory_limit / 4) continue;
        if (v->op[i].gpu_e4 && sk_need(v, i) <= v->memory_room && lacks_gpu(v, i))
            return (struct sk_choice){(int)i, true, false};
    }
    return NOTHING;
}

/* ---- launches beyond the guards -------------------------------------------------------------- */

struct sk_choice sk_choose_forced(const struct sk_sched_view *v) {
    if (v->out_blocks || v->flying || v->awaits) return NOTHING;
    for (uint32_t i = v->n; i-- > 0;) {
        bool can = v->why[i] == SK_STOP_NONE;
        if (can || lacks_gpu(v, i)) return (struct sk_choice){(int)i, !can, true};
    }
    return NOTHING;
}

/* Chooses a task that frees memory when memory is over its limit, because tasks have yielded more
 * than was promised: without it those tasks might never end. */
struct sk_choice sk_choose_drain(const struct sk_sched_view *v) {
    if (v->out_blocks || !v->flying || v->memory_used <= v->memory_limit) return NOTHING;
    for (uint32_t i = v->n; i-- > 0;) {
        const struct sk_op_view *op = &v->op[i];
        if (v->why[i] == SK_STOP_NONE && !op->source && !op->running)
            return (struct sk_choice){(int)i, false, true};
        /* this operator, further downstream, can still free memory, or is a source */
        if (op->source || op->running || op->in_blocks) return NOTHING;
    }
    return NOTHING;
}

int sk_pick_source(const struct sk_sched_view *v) {
    uint64_t headroom = 0;
    for (uint32_t i = 0; i < v->n; i++) headroom += v->op[i].source ? 0 : sk_need(v, i);
    for (uint32_t i = 0; i < v->n; i++) {
        uint64_t need = sk_need(v, i),
                 most_else = v->memory_limit > need ? v->memory_limit - need : 0;
        if (v->op[i].source && !v->why[i] && need + SK_MIN(headroom, most_else) <= sk_room(v, i))
            return (int)i;
    }
    return -1;
}

int sk_pick_ranked(const struct sk_sched_view *v,
                   double (*rank)(const struct sk_sched_view *v, uint32_t i)) {
    double most = 0;
    int best = -1;
    for (uint32_t i = v->n; i-- > 0;) { /* downstream operators first */
        if (v->op[i].source || v->why[i] || sk_need(v, i) > sk_room(v, i)) continue;
        double r = rank(v, i);
        if (best >= 0 && r <= most) continue;
        most = r;
        best = (int)i;
    }
    return best >= 0 ? best : sk_pick_source(v);
}

struct sk_choice sk_choose_or_beyond(const struct sk_sched_view *v, int op) {
    if (op >= 0) return SK_CHOOSE(op);
    struct sk_choice c = sk_choose_turn(v);
    if (c.op < 0) c = sk_choose_forced(v);
    return c.op < 0 ? sk_choose_drain(v) : c;
}
