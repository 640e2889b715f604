/* check.c - compares all state of place.h with a recount, for tests. */
#include "engine/place/place_int.h"

bool sk_place_check(const struct sk_place *p) {
    uint32_t ready = 0, idle = 0, blocked = 0, alone = 0;
    struct sk_res held = p->avail;
    uint32_t waiting = 0;
    SK_LIST_EACH (it, &p->groups) { /* free amounts of bundles count as held */
        const struct sk_place_group *g = sk_container_of(it, struct sk_place_group, link);
        waiting += !g->ready;
        for (uint32_t b = 0; b < g->n; b++) {
            if (g->ready && g->b[b].there == g->b[b].elsewhere) return false;
            if (!g->b[b].there) continue;
            for (uint32_t r = 0; r < SK_RES_MAX; r++) held.amount[r] += g->b[b].avail.amount[r];
        }
    }
    if (waiting != p->n_groups_waiting) return false;
    struct sk_res unreserved = p->total;
    SK_LIST_EACH (it, &p->groups) {
        const struct sk_place_group *g = sk_container_of(it, struct sk_place_group, link);
        for (uint32_t b = 0; b < g->n; b++)
            for (uint32_t r = 0; g->b[b].there && r < SK_RES_MAX; r++)
                unreserved.amount[r] -= g->b[b].total.amount[r];
    }
    if (memcmp(&unreserved, &p->unreserved, sizeof unreserved) != 0) return false;
    SK_LIST_EACH (it, &p->dead) {
        if (!sk_place_shape_dead(p, task_of(it)->shape)) return false;
        ready++;
    }
    for (uint32_t i = 0; i < p->n_shapes; i++) {
        struct sk_place_shape *s = p->shapes[i];
        uint32_t n = 0, workers = 0;
        if ((s->id & ((1u << SK_PLACE_SHAPE_BITS) - 1)) != i) return false;
        for (uint32_t l = 0; l < SK_PLACE_LEVELS; l++) {
            uint64_t last = 0;
            if (sk_list_empty(&s->ready[l]) == (s->levels >> l & 1)) return false;
            SK_LIST_EACH (it, &s->ready[l]) {
                if (task_of(it)->order <= last || task_of(it)->shape != s->id ||
                    task_of(it)->level != l)
                    return false;
                last = task_of(it)->order;
                n++;
            }
        }
        if (n != s->n_ready) return false;
        ready += n;
        alone += s->alone ? n : 0;
        SK_LIST_EACH (it, &s->leased) {
            const struct sk_place_worker *w = worker_of(it);
            if (w->state != SK_W_LEASED || w->shape != s->id || w->depth == 0) return false;
            blocked += w->blocked;
            workers++;
            for (uint32_t r = 0; r < SK_RES_MAX; r++)
                if (r != SK_RES_CPU || !w->blocked) held.amount[r] += s->res.amount[r];
        }
        SK_LIST_EACH (it, &p->actors) workers += worker_of(it)->shape == s->id;
        if (workers != s->n_workers) return false;
        if (s->id <= UINT32_MAX - (1u << SK_PLACE_SHAPE_BITS) &&
            (sk_list_empty(&s->unused) == (s->group && !s->in && !workers)))
            return false;
    }
    SK_LIST_EACH (it, &p->actors) {
        const struct sk_place_worker *w = worker_of(it);
        if (w->state != SK_W_ACTOR) return false;
        blocked += w->blocked;
        for (uint32_t r = 0; r < SK_RES_MAX; r++)
            if (r != SK_RES_CPU || !w->blocked)
                held.amount[r] += sk_place_shape_at(p, w->shape)->res.amount[r];
    }
    SK_LIST_EACH (it, &p->idle) {
        if (worker_of(it)->state != SK_W_IDLE || worker_of(it)->depth) return false;
        idle++;
    }
    for (uint32_t k = 0; k < p->n_more; k++) {
        int64_t sum = p->more_avail[k];
        for (uint32_t i = 0; i < p->n_shapes; i++) {
            const struct sk_place_shape *s = p->shapes[i];
            for (uint32_t j = 0; s->more && j < s->more->n; j++)
                if (s->more->a[j].index == SK_RES_MAX + k)
                    sum += s->n_workers * s->more->a[j].amount;
        }
        if (sum != p->more_total[k]) return false;
    }
    return ready == p->n_ready && alone == p->n_alone && idle == p->n_idle &&
           blocked == p->n_blocked && !memcmp(&held, &p->total, sizeof held);
}
