/* which.c - the node for a task, by the time at which it is likely to end. Pure. */
#include "engine/cluster/which/which.h"

#define AHEAD_NS 5e6    /* work that waits at a node; a round trip takes 0.1 to 1 ms */
#define AHEAD_MOST 1000 /* tasks */
#define UNKNOWN_NS 1e7  /* time of a task before one has ended */

/* The number of tasks with this need that can run at once; UINT32_MAX: it needs nothing. */
static uint32_t slots(const struct sk_res *need, const struct sk_res *total) {
    int64_t n = UINT32_MAX;
    for (int i = 0; i < SK_RES_MAX; i++)
        if (need->amount[i] > 0) n = SK_MIN(n, total->amount[i] / need->amount[i]);
    return (uint32_t)SK_MAX(n, 0);
}

uint32_t sk_which_ahead(const struct sk_which_task *t, const struct sk_res *total) {
    uint32_t n = slots(&t->need, total);
    if (n == UINT32_MAX) n = AHEAD_MOST;
    if (t->keeps || !n) return 0;
    double most = t->avg_ns > 0 ? AHEAD_NS * n / (double)t->avg_ns : n;
    return (uint32_t)SK_MIN(SK_MAX(most, (double)n), AHEAD_MOST);
}

/* The number of tasks of this need that are beyond what can run, if the task comes, too. */
static double beyond(const struct sk_which_task *t, const struct sk_which_node *n) {
    double most = 0;
    for (int i = 0; i < SK_RES_MAX; i++) {
        if (t->need.amount[i] <= 0) continue;
        int64_t over = n->used.amount[i] + t->need.amount[i] - n->total.amount[i];
        most = SK_MAX(most, (double)over / (double)t->need.amount[i]);
    }
    return most;
}

static double part_used(const struct sk_which_task *t, const struct sk_which_node *n) {
    double most = 0;
    for (int i = 0; i < SK_RES_MAX; i++)
        if ((t->need.amount[i] > 0 || i == SK_RES_CPU) && n->total.amount[i] > 0)
            most = SK_MAX(most, (double)n->used.amount[i] / (double)n->total.amount[i]);
    return most;
}

/* The part of a node that tasks give back. */
static struct sk_res part_of_tasks(const struct sk_which_node *n) {
    struct sk_res r = n->total;
    for (int i = 0; i < SK_RES_MAX; i++) r.amount[i] -= SK_MIN(n->held.amount[i], r.amount[i]);
    return r;
}

uint32_t sk_which_node(const struct sk_which_task *t, const struct sk_which_node *n, uint32_t n_n) {
    uint32_t best = UINT32_MAX;
    double best_ns = 0, best_part = 0;
    for (uint32_t i = 0; i < n_n; i++) {
        if (!n[i].alive || !slots(&t->need, &n[i].total)) continue;
        struct sk_res part_there = part_of_tasks(&n[i]);
        uint32_t can = SK_MAX(slots(&t->need, &part_there), 1);
        double over = beyond(t, &n[i]);
        SK_DCHECK(over >= 0 && can > 0);
        if (over > sk_which_ahead(t, &part_there)) continue;
        double each = t->avg_ns > 0 ? (double)t->avg_ns : UNKNOWN_NS;
        uint64_t far = t->spread ? 0 : t->bytes - SK_MIN(t->bytes, n[i].local_bytes);
        double ns = over * each / can + (double)far;
        double part = t->spread ? (double)n[i].spread : part_used(t, &n[i]);
        if (best != UINT32_MAX && (ns > best_ns || (ns >= best_ns && part >= best_part))) continue;
        best = i;
        best_ns = ns;
        best_part = part;
    }
    return best;
}

bool sk_which_ever(const struct sk_res *need, const struct sk_which_node *n, uint32_t n_n) {
    for (uint32_t i = 0; i < n_n; i++)
        if (n[i].alive && slots(need, &n[i].total) > 0) return true;
    return false;
}
