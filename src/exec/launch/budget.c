/* budget.c - bytes and slots: which bytes exist, which are promised, and what one more task will
 * need. Pure. Blocks that the engine has spilled are not in memory and are counted apart. A launch
 * reserves the estimated output; each yield turns promised bytes into used ones; the rest of the
 * promise is released when the task ends. A task may yield more than was promised. These bytes
 * count as used, so used + reserved may exceed the limit, and there is no room until consumers have
 * caught up. */
#include "exec/exec_int.h"

/* ns of queued work for each slot: about 100 times the cost of handing over a task */
#define AHEAD_NS 2e6
/* ns; longer tasks are not queued ahead, since one behind a slow task may start last of all */
#define LONG_NS 50e6
#define AHEAD_MAX 64u /* queued tasks for each slot */
#define PRIOR_TASKS 8 /* number of tasks until a stage's first results are trusted */

/* bytes; the target sizes are never limited to less, however small the store is */
#define LEAST_BLOCK (UINT64_C(1) << 20)

void sk_exec_choose(struct sk_exec_conf *c, uint64_t capacity_bytes) {
    /* the rest is for buffers that workers keep ready, and for gaps between objects */
    if (!c->memory_bytes) c->memory_bytes = capacity_bytes - capacity_bytes / 16;
    uint64_t most = SK_MAX(c->memory_bytes / 4, LEAST_BLOCK);
    c->target_max_bytes = SK_MIN(c->target_max_bytes, most);
    c->target_min_bytes = SK_MIN(c->target_min_bytes, most);
}

void sk_budget_reserve(struct sk_budget *b, uint64_t n) { b->reserved += n; }

void sk_budget_unreserve(struct sk_budget *b, uint64_t n) {
    SK_ASSERT(n <= b->reserved);
    b->reserved -= n;
}

void sk_budget_use(struct sk_budget *b, uint64_t *promise, uint64_t n) {
    uint64_t kept = SK_MIN(*promise, n);
    *promise -= kept;
    sk_budget_unreserve(b, kept);
    b->used += n;
    b->peak = SK_MAX(b->peak, b->used);
}

void sk_budget_give(struct sk_budget *b, uint64_t n) {
    SK_ASSERT(n <= b->used);
    b->used -= n;
}

void sk_budget_spilled(struct sk_budget *b, uint64_t n) {
    sk_budget_give(b, n);
    b->disk += n;
    b->disk_peak = SK_MAX(b->disk_peak, b->disk);
}

void sk_budget_restored(struct sk_budget *b, uint64_t n) {
    SK_ASSERT(n <= b->disk);
    b->disk -= n;
    b->used += n;
    b->peak = SK_MAX(b->peak, b->used);
}

void sk_size_est_add(struct sk_size_est *e, uint64_t in_bytes, uint64_t out_bytes) {
    const double w = e->n ? 0.3 : 1;
    e->recent_out += w * ((double)out_bytes - e->recent_out);
    if (in_bytes)
        e->recent_ratio +=
            (e->in_bytes ? 0.3 : 1) * ((double)out_bytes / (double)in_bytes - e->recent_ratio);
    e->n++;
    e->in_bytes += in_bytes;
    e->out_bytes += out_bytes;
}

uint64_t sk_size_est_out(const struct sk_size_est *e, uint64_t in_bytes, uint64_t prior) {
    double out;
    if (in_bytes && e->in_bytes)
        out =
            (double)in_bytes * SK_MAX((double)e->out_bytes / (double)e->in_bytes, e->recent_ratio);
    else out = SK_MAX((double)e->out_bytes / (double)e->n, e->recent_out);
    if (out < (double)prior / 4 && e->n < PRIOR_TASKS)
        out += ((double)prior - out) / (double)(e->n + 1);
    return (uint64_t)(out + 0.5); /* rounded, so that exact ratios give exact sizes */
}

bool sk_slots_admit(const struct sk_slots *s, int64_t amount, int64_t est_ns, uint32_t n_same,
                    bool *ahead) {
    if (amount <= 0 || s->used + amount <= s->total) return true;
    if (s->strict) return false;
    *ahead = true;
    if (s->total <= 0) return false; /* actors have all of it now */
    if ((double)est_ns > LONG_NS) return false;
    if (s->used + amount <= 2 * s->total) return true;
    int64_t slots = SK_MAX(s->total / amount, 1);
    return est_ns > 0 && s->queued_ns < AHEAD_NS * (double)s->total &&
           n_same < AHEAD_MAX * (uint64_t)slots;
}

void sk_blkq_push(struct sk_blkq *q, struct sk_blk *b) {
    b->next = NULL;
    if (q->tail) q->tail->next = b;
    else q->head = b;
    q->tail = b;
    q->n++;
    q->bytes += b->ref.bytes;
    q->rows += b->ref.n_rows;
    q->cost += b->cost;
}

struct sk_blk *sk_blkq_pop(struct sk_blkq *q) {
    struct sk_blk *b = q->head;
    if (!b) return NULL;
    q->head = b->next;
    if (!q->head) q->tail = NULL;
    q->n--;
    q->bytes -= b->ref.bytes;
    q->rows -= b->ref.n_rows;
    q->cost -= b->cost;
    sk_list_del(&b->link);
    return b;
}
