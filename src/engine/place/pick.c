/* pick.c - the queue of ready tasks, and the decision about the next step. Costs: push O(1); pick
 * O(shapes with ready tasks); a shape has few leases. */
#include "engine/place/place_int.h"

/* A worker's queue should hold about 2 ms of work: that covers many round trips of the loop, and
 * leaves little to take back. */
#define DEPTH_WORK_NS 2000000
/* least queued work that is worth moving to an idle worker (a wake-up costs about 34 us) */
#define SHARE_WORK_NS 100000
/* a running task of this age (ns) counts as long: tasks queued behind it are moved */
#define SHARE_HEAD_NS 1000000

void sk_place_push(struct sk_place *p, struct sk_place_task *t) {
    struct sk_place_shape *s = sk_place_shape_at(p, t->shape);
    SK_DCHECK(sk_list_empty(&t->link) && t->level < SK_PLACE_LEVELS);
    if (sk_place_shape_dead(p, t->shape)) {
        sk_list_push_back(&p->dead, &t->link);
        p->n_ready++;
        return;
    }
    struct sk_list *l = &s->ready[t->level], *at = l;
    if (!t->order) t->order = ++p->next_order;
    else /* a task that came back keeps its turn, near the front of the queue */
        for (at = l->next; at != l && task_of(at)->order < t->order;) at = at->next;
    sk_list_insert_before(at, &t->link);
    s->levels |= 1u << t->level;
    s->n_ready++;
    p->n_ready++;
    p->n_alone += s->alone;
}

void sk_place_unpush(struct sk_place *p, struct sk_place_task *t) {
    struct sk_place_shape *s = sk_place_shape_at(p, t->shape);
    SK_DCHECK(!sk_list_empty(&t->link) && p->n_ready > 0);
    sk_list_del(&t->link);
    p->n_ready--;
    if (sk_place_shape_dead(p, t->shape)) return;
    SK_DCHECK(s->n_ready > 0 && p->n_alone >= s->alone && s->levels >> t->level & 1);
    if (sk_list_empty(&s->ready[t->level])) s->levels &= ~(1u << t->level);
    s->n_ready--;
    p->n_alone -= s->alone;
}

struct sk_place_task *sk_place_any(const struct sk_place *p) {
    if (!p->n_ready) return NULL;
    if (!sk_list_empty(&p->dead)) return task_of(p->dead.next);
    uint32_t i = 0;
    while (!p->shapes[i]->levels) i++;
    SK_DCHECK(i < p->n_shapes);
    return task_of(p->shapes[i]->ready[__builtin_ctz(p->shapes[i]->levels)].next);
}

uint32_t sk_place_depth(const struct sk_place_shape *s) {
    if (!s->avg_ns) return 2;
    int64_t n = DEPTH_WORK_NS / s->avg_ns;
    return n < 2 ? 2 : n > SK_PLACE_DEPTH_MAX ? SK_PLACE_DEPTH_MAX : (uint32_t)n;
}

/* True if more workers than a limit wait for nested tasks, so that the most deeply nested tasks go
 * first. */
static bool deep(const struct sk_place *p) { return p->n_blocked > p->deep_above; }

/* Returns the task of shape s that goes first. */
static struct sk_place_task *head(const struct sk_place *p, const struct sk_place_shape *s) {
    uint32_t m = s->levels;
    SK_DCHECK(m && s->n_ready);
    if (deep(p) || !(m & (m - 1))) return task_of(s->ready[31 - __builtin_clz(m)].next);
    struct sk_place_task *best = NULL;
    for (; m; m &= m - 1) {
        struct sk_place_task *t = task_of(s->ready[__builtin_ctz(m)].next);
        if (!best || t->order < best->order) best = t;
    }
    return best;
}

/* Returns the rank of a task: the task with the lowest rank goes first. */
static uint64_t rank(const struct sk_place *p, const struct sk_place_task *t) {
    return deep(p) ? (uint64_t)(SK_PLACE_LEVELS - t->level) << 56 | t->order : t->order;
}

/* The task, actor or group that has waited longest and lacks only resources; need NULL: there is
 * none. */
struct waiting {
    uint64_t rank, order;
    const struct sk_res *need;
    const struct sk_place_more *more;
};

/* True if a task of shape s may start although `w` is older. *passes: it takes resources that
 * `w` waits for. */
static bool may_pass(const struct sk_place *p, const struct sk_place_shape *s,
                     const struct waiting *w, bool *passes) {
    const struct sk_res *need = &s->res;
    /* both may ask for the same custom resource: these sets are not compared here */
    *passes = s->more && w->more;
    if (*passes && p->n_bypassed >= SK_PLACE_BYPASS) return false;
    for (uint32_t i = 0; i < SK_RES_MAX; i++)
        if (need->amount[i] > 0 && w->need->amount[i] > 0) {
            *passes = true;
            if (need->amount[i] + w->need->amount[i] > p->avail.amount[i] &&
                p->n_bypassed >= SK_PLACE_BYPASS)
                return false;
        }
    return true;
}

static void run(struct sk_place *p, struct sk_place_shape *s, struct sk_place_worker *w,
                int64_t now_ns, struct sk_place_pick *out) {
    struct sk_place_task *t = head(p, s);
    SK_DCHECK((w->state == SK_W_LEASED || w->state == SK_W_ACTOR) && w->shape == t->shape &&
              w->depth < SK_PLACE_DEPTH_MAX);
    sk_place_unpush(p, t);
    if (w->depth++ == 0) w->since_ns = now_ns;
    *out = (struct sk_place_pick){.what = SK_PLACE_RUN, .task = t, .worker = w};
}

/* True if tasks of this shape may not begin, because memory is short or a task has to run alone. */
static bool launch_forbidden(const struct sk_place *p, const struct sk_place_shape *s) {
    return s->alone != (p->launch == SK_LAUNCH_ALONE);
}

/* Returns how many more workers could start a task now if they existed. */
static uint32_t could_start(const struct sk_place *p) {
    struct sk_res left = p->avail;
    uint32_t n = 0;
    for (uint32_t i = 0; i < p->n_shapes && n < p->n_ready; i++) {
        const struct sk_place_shape *s = p->shapes[i];
        int64_t k = launch_forbidden(p, s) ? 0 : s->n_ready;
        uint32_t bundle;
        if (s->group) { /* count one task, since its pool may have room for no more */
            n += k && sk_place_room(p, s, &bundle);
            continue;
        }
        /* counts at most one task */
        if (SK_UNLIKELY(s->more)) k = k && sk_place_more_fits(p, s->more);
        for (uint32_t r = 0; k && r < SK_RES_MAX; r++)
            if (s->res.amount[r] > 0) k = SK_MIN(k, SK_MAX(left.amount[r], 0) / s->res.amount[r]);
        for (uint32_t r = 0; k && r < SK_RES_MAX; r++) left.amount[r] -= k * s->res.amount[r];
        n += (uint32_t)k;
    }
    return n;
}

/* Queues one more task on a worker that serves its shape already: the least loaded one, up to
 * the depth. No task is queued past an older one that waits for the same resources. */
static bool feed(struct sk_place *p, const struct waiting *w, int64_t now_ns,
                 struct sk_place_pick *out) {
    for (uint32_t i = 0; i < p->n_shapes && p->launch == SK_LAUNCH_ALL; i++) {
        struct sk_place_shape *s = p->shapes[i];
        bool passes = false;
        if (!s->n_ready || s->alone || sk_list_empty(&s->leased)) continue;
        if (w->need && !s->group && rank(p, head(p, s)) > w->rank &&
            (!may_pass(p, s, w, &passes) || passes))
            continue;
        uint32_t depth = p->depth_cap ? SK_MIN(sk_place_depth(s), p->depth_cap) : sk_place_depth(s),
                 low = UINT32_MAX;
        struct sk_place_worker *to = NULL;
        SK_LIST_EACH (it, &s->leased) {
            struct sk_place_worker *x = worker_of(it);
            if (!x->blocked && x->depth < depth && x->depth < low) to = x, low = x->depth;
        }
        if (to) {
            run(p, s, to, now_ns, out);
            return true;
        }
    }
    return false;
}

/* When no task is ready, takes one from a worker whose queue holds tasks that could start
 * elsewhere. A short queue of short tasks is left alone, unless its running task turns out to
 * take long. */
static void share(struct sk_place *p, int64_t now_ns, struct sk_place_pick *out) {
    uint32_t bundle;
    for (uint32_t i = 0; i < p->n_shapes; i++) {
        struct sk_place_shape *s = p->shapes[i];
        if (sk_list_empty(&s->leased) || !sk_place_room(p, s, &bundle)) continue;
        SK_LIST_EACH (it, &s->leased) {
            struct sk_place_worker *w = worker_of(it);
            if (w->depth < 2) continue;
            if (s->avg_ns && s->avg_ns * (w->depth - 1) < SHARE_WORK_NS &&
                now_ns - w->since_ns < SHARE_HEAD_NS)
                continue;
            if (sk_place_idle_for(p, s->id))
                *out = (struct sk_place_pick){.what = SK_PLACE_STEAL, .worker = w};
            else if (!p->n_starting) out->what = SK_PLACE_SPAWN;
            return;
        }
    }
}

/* Finds the placement group, actor or task that has waited longest and could start if enough of
 * the machine were free. *sum: memory for the sum of a group's bundles, which the result points
 * to. */
static struct waiting longest_waiting(const struct sk_place *p, struct sk_res *sum) {
    struct waiting w = {.rank = UINT64_MAX};
    uint32_t bundle;
    const struct sk_place_group *g = sk_place_waiting_group(p, sum);
    /* no resources are saved for a group while only one task may run alone */
    if (p->launch == SK_LAUNCH_ALONE) g = NULL;
    if (g) w = (struct waiting){g->order, g->order, sum, NULL};
    const struct sk_place_shape *want = sk_place_shape_at(p, p->want);
    if (p->launch != SK_LAUNCH_ALONE && p->want_order && p->want_order < w.rank && !want->group &&
        fits(&want->res, &p->unreserved))
        w = (struct waiting){p->want_order, p->want_order, &want->res, want->more};
    for (uint32_t i = 0; i < p->n_shapes; i++) {
        struct sk_place_shape *s = p->shapes[i];
        if (!s->n_ready || launch_forbidden(p, s) || s->group || sk_place_room(p, s, &bundle) ||
            !fits(&s->res, &p->unreserved))
            continue;
        struct sk_place_task *t = head(p, s);
        uint64_t r = rank(p, t);
        if (r < w.rank) w = (struct waiting){r, t->order, &s->res, s->more};
    }
    return w;
}

void sk_place_pick(struct sk_place *p, int64_t now_ns, struct sk_place_pick *out) {
    *out = (struct sk_place_pick){.what = SK_PLACE_NOTHING};
    bool want_worker = false;
    uint32_t bundle;
    if (SK_UNLIKELY(!sk_list_empty(&p->dead))) {
        *out = (struct sk_place_pick){.what = SK_PLACE_DEAD, .task = task_of(p->dead.next)};
        sk_place_unpush(p, out->task);
        return;
    }
    if (p->n_groups_waiting)
        SK_LIST_EACH (it, &p->groups) {
            struct sk_place_group *g = sk_container_of(it, struct sk_place_group, link);
            if (g->ready || !sk_place_reserve(p, g)) continue;
            *out = (struct sk_place_pick){.what = SK_PLACE_GROUP, .group = g};
            return;
        }
    if (p->launch == SK_LAUNCH_NONE) return;
    if (p->n_ready) {
        struct sk_res sum;
        struct waiting w = longest_waiting(p, &sum);
        if (w.need && w.order != p->starved) p->starved = w.order, p->n_bypassed = 0;
        struct sk_place_shape *best = NULL;
        uint64_t best_rank = UINT64_MAX, no_worker_rank = UINT64_MAX;
        bool best_passes = false;
        for (uint32_t i = 0; i < p->n_shapes; i++) {
            struct sk_place_shape *s = p->shapes[i];
            if (!s->n_ready || launch_forbidden(p, s) || !sk_place_room(p, s, &bundle)) continue;
            uint64_t r = rank(p, head(p, s));
            bool passes = false;
            if (r >= best_rank || (r > w.rank && !s->group && !may_pass(p, s, &w, &passes)))
                continue;
            if (!sk_place_idle_for(p, head(p, s)->shape)) {
                /* a younger task may find a worker of its environment */
                want_worker = true;
                no_worker_rank = SK_MIN(no_worker_rank, r);
                continue;
            }
            best = s, best_rank = r, best_passes = passes;
        }
        if (best) {
            struct sk_place_worker *x = sk_place_idle_for(p, best->id);
            sk_place_worker_lease(p, x, best);
            p->n_bypassed += best_passes;
            run(p, best, x, now_ns, out);
            out->spawn = no_worker_rank < best_rank && !p->n_starting;
            return;
        }
        if (feed(p, &w, now_ns, out)) return;
        if (want_worker) {
            /* A fork costs a core half a millisecond: start no more at once than there are CPUs. */
            uint32_t most = p->launch == SK_LAUNCH_ALL
                                ? (uint32_t)SK_MAX(p->total.amount[SK_RES_CPU] / SK_RES_UNIT, 2)
                                : 1;
            if (p->n_starting < most && p->n_starting < could_start(p)) out->what = SK_PLACE_SPAWN;
            return;
        }
    }
    if (p->n_ready > p->n_alone || p->launch != SK_LAUNCH_ALL) return;
    share(p, now_ns, out);
}
