/* groups.c - placement groups: bundles that are taken from the machine together or not at all. */
#include "base/mem.h"
#include "engine/place/place_int.h"

sk_rc sk_place_group_add(struct sk_place *p, uint64_t id, const struct sk_res *bundles, uint32_t n,
                         bool apart, struct sk_place_group **out, struct sk_err *err) {
    if (!n) return SK_ERR(err, SK_EINVAL, "a placement group needs a bundle");
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t r = 0; r < SK_RES_MAX; r++)
            if (bundles[i].amount[r] < 0)
                return SK_ERR(err, SK_EINVAL, "bundle %u asks for a negative amount", i);
    struct sk_place_group *g = sk_calloc(SK_TAG_ENGINE, sizeof *g + n * sizeof g->b[0]);
    if (!g) return SK_ERR(err, SK_ENOMEM, "no memory for a placement group of %u bundles", n);
    g->id = id;
    g->order = ++p->next_order;
    g->never = apart && n > 1;
    g->n = n;
    for (uint32_t i = 0; i < n; i++) g->b[i].total = bundles[i];
    sk_list_init(&g->link);
    sk_list_push_back(&p->groups, &g->link);
    p->n_groups_waiting++;
    *out = g;
    return SK_OK;
}

void sk_place_bundle_elsewhere(struct sk_place *p, struct sk_place_group *g, uint32_t bundle,
                               bool elsewhere) {
    SK_ASSERT(bundle < g->n && !g->b[bundle].there && !g->removed);
    if (g->b[bundle].elsewhere && !elsewhere && g->ready) {
        g->ready = false;
        p->n_groups_waiting++;
    }
    g->b[bundle].elsewhere = elsewhere;
}

void sk_place_group_remove(struct sk_place *p, struct sk_place_group *g) {
    sk_list_del(&g->link);
    for (uint32_t i = 0; i < p->n_shapes; i++) {
        struct sk_place_shape *s = p->shapes[i];
        if (s->in != g) continue;
        s->in = NULL;
        for (; s->levels; s->levels &= s->levels - 1)
            sk_list_splice(&p->dead, &s->ready[__builtin_ctz(s->levels)]);
        p->n_alone -= s->alone ? s->n_ready : 0;
        s->n_ready = 0;
        if (!s->n_workers) sk_place_shape_unused(p, s);
    }
    for (uint32_t b = 0; b < g->n; b++) {
        if (!g->b[b].there) continue;
        for (uint32_t r = 0; r < SK_RES_MAX; r++) {
            p->avail.amount[r] += g->b[b].avail.amount[r];
            p->unreserved.amount[r] += g->b[b].total.amount[r];
        }
        for (uint32_t i = 0; i < SK_PLACE_DEVICES; i++) p->gpu_left[i] += g->b[b].gpu_left[i];
    }
    SK_ASSERT(!g->removed && (g->ready || p->n_groups_waiting));
    if (!g->ready) p->n_groups_waiting--;
    g->removed = true;
    if (g->n_leases) sk_list_push_back(&p->gone, &g->link);
    else sk_free(g);
}

bool sk_place_reserve(struct sk_place *p, struct sk_place_group *g) {
    struct sk_res avail = p->avail;
    int64_t left[SK_PLACE_DEVICES];
    if (g->never) return false;
    memcpy(left, p->gpu_left, sizeof left);
    for (uint32_t b = 0; b < g->n; b++) {
        uint64_t mask;
        const struct sk_res *t = &g->b[b].total;
        if (g->b[b].there || g->b[b].elsewhere) continue;
        if (!fits(t, &avail) || !sk_place_choose_devices(p, left, t, &mask)) return false;
        for (uint32_t r = 0; r < SK_RES_MAX; r++) avail.amount[r] -= t->amount[r];
        sk_place_move_devices(p, left, mask, t, -1);
        memset(g->b[b].gpu_left, 0, sizeof g->b[b].gpu_left);
        sk_place_move_devices(p, g->b[b].gpu_left, mask, t, 1);
        g->b[b].avail = *t;
    }
    for (uint32_t r = 0; r < SK_RES_MAX; r++)
        p->unreserved.amount[r] -= p->avail.amount[r] - avail.amount[r];
    p->avail = avail;
    memcpy(p->gpu_left, left, sizeof left);
    for (uint32_t b = 0; b < g->n; b++) g->b[b].there = !g->b[b].elsewhere;
    g->ready = true;
    SK_DCHECK(p->n_groups_waiting > 0);
    p->n_groups_waiting--;
    return true;
}

/* The sum of the bundles that are to be taken. */
static struct sk_res sum_of(const struct sk_place_group *g) {
    struct sk_res sum = {.amount = {0}};
    for (uint32_t b = 0; b < g->n; b++)
        for (uint32_t r = 0; r < SK_RES_MAX; r++)
            if (!g->b[b].there && !g->b[b].elsewhere) sum.amount[r] += g->b[b].total.amount[r];
    return sum;
}

struct sk_place_group *sk_place_waiting_group(const struct sk_place *p, struct sk_res *sum) {
    if (!p->n_groups_waiting) return NULL;
    SK_LIST_EACH (it, &p->groups) {
        struct sk_place_group *g = sk_container_of(it, struct sk_place_group, link);
        *sum = sum_of(g);
        if (!g->ready && !g->never && fits(sum, &p->unreserved)) return g;
    }
    return NULL;
}
