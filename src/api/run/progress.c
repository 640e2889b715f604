/* progress.c - how far a run of a dataset is, as skate_watch tells it. */
#include "api/data_int.h"
#include "base/mem.h"

/* The number of a stage's tasks that are known of. */
static uint64_t tasks_of(const struct sk_exec_op_stats *o) {
    uint64_t seen = o->tasks_done + o->tasks_running + o->tasks_queued;
    return o->total_units > 0 ? SK_MAX((uint64_t)o->total_units, seen) : seen;
}

struct sk_exec_op_stats *sk_data_op_stats(struct sk_exec *x, struct sk_exec_stats *s) {
    uint32_t n = sk_exec_n_ops(x);
    struct sk_exec_op_stats *ops = sk_calloc(SK_TAG_EXEC, (n + 1) * sizeof *ops);
    if (ops) sk_exec_get_stats(x, s, ops, n);
    return ops;
}

bool sk_data_progress(struct sk_exec *x, struct skate_progress *out) {
    struct sk_exec_stats s;
    struct sk_exec_op_stats *ops = sk_data_op_stats(x, &s);
    if (!ops) return false;
    *out = (struct skate_progress){.size = sizeof *out,
                                   .wall_ns = s.wall_ns,
                                   .memory_used = s.memory_now,
                                   .memory_limit = s.memory_limit,
                                   .disk_bytes = s.memory_disk,
                                   .done = s.done,
                                   .left_guess = s.left_guess,
                                   .share = s.share,
                                   .left_ns = s.left_ns};
    for (uint32_t i = 0; i < s.n_ops; i++) {
        const struct sk_exec_op_stats *o = &ops[i];
        out->tasks_done += o->tasks_done;
        out->tasks_running += o->tasks_running;
        out->tasks_total += tasks_of(o);
        if (!o->source) continue;
        out->rows_in += o->n_fused > 1 ? o->fused[0].rows_out : o->rows_out;
        out->bytes_in += o->bytes_out;
    }
    sk_free(ops);
    return true;
}
