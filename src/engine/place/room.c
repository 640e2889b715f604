/* room.c - whether there is room for a shape, on the machine or in its placement group: now, or
 * ever. Cost: a comparison for each amount. */
#include "engine/place/place_int.h"

static bool pool_fits(const struct sk_place *p, const struct sk_res *need,
                      const struct sk_res *avail, const int64_t *gpu_left) {
    uint64_t mask;
    return fits(need, avail) && sk_place_choose_devices(p, gpu_left, need, &mask);
}

bool sk_place_room(const struct sk_place *p, const struct sk_place_shape *s, uint32_t *bundle) {
    *bundle = 0;
    if (!s->group)
        return pool_fits(p, &s->res, &p->avail, p->gpu_left) &&
               (SK_LIKELY(!s->more) || sk_place_more_fits(p, s->more));
    for (uint32_t i = s->bundle < 0 ? 0 : (uint32_t)s->bundle; s->in && i < s->in->n; i++) {
        if (s->in->b[i].there && pool_fits(p, &s->res, &s->in->b[i].avail, s->in->b[i].gpu_left)) {
            *bundle = i;
            return true;
        }
        if (s->bundle >= 0) break;
    }
    return false;
}

bool sk_place_fits_ever(const struct sk_place *p, sk_shape x) {
    const struct sk_place_shape *s = sk_place_shape_at(p, x);
    if (sk_place_shape_dead(p, x) || (s->where && s->where != SK_WHERE_HERE)) return false;
    if (!s->group) return fits(&s->res, &p->total);
    for (uint32_t i = s->bundle < 0 ? 0 : (uint32_t)s->bundle; s->in && i < s->in->n; i++) {
        if (!s->in->b[i].elsewhere && fits(&s->res, &s->in->b[i].total)) return true;
        if (s->bundle >= 0) break;
    }
    return false;
}

bool sk_place_fits_now(const struct sk_place *p, sk_shape s) {
    uint32_t bundle;
    return !sk_place_shape_dead(p, s) && sk_place_room(p, sk_place_shape_at(p, s), &bundle);
}
