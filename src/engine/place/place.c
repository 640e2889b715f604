/* place.c - sets up and frees the state of place.h. */
#include "base/mem.h"
#include "engine/place/place_int.h"

sk_rc sk_place_init(struct sk_place *p, const struct sk_res *total, struct sk_err *err) {
    memset(p, 0, sizeof *p);
    p->total = p->avail = p->unreserved = *total;
    p->deep_above = UINT32_MAX;
    sk_list_init(&p->idle);
    sk_list_init(&p->actors);
    sk_list_init(&p->groups);
    sk_list_init(&p->gone);
    sk_list_init(&p->unused);
    sk_list_init(&p->dead);
    int64_t gpus = total->amount[SK_RES_GPU] / SK_RES_UNIT;
    p->gpus_told_apart = gpus <= (int64_t)SK_PLACE_GPUS;
    for (int64_t i = 0; p->gpus_told_apart && i < gpus; i++) p->gpu_left[i] = SK_RES_UNIT;
    sk_shape s;
    struct sk_res one = {.amount = {[SK_RES_CPU] = SK_RES_UNIT}}, none = {.amount = {0}};
    SK_TRY(sk_place_shape(p, &one, &s, err));
    return sk_place_shape(p, &none, &s, err);
}

void sk_place_deinit(struct sk_place *p) {
    SK_LIST_EACH_SAFE (it, tmp, &p->groups)
        sk_free(sk_container_of(it, struct sk_place_group, link));
    SK_LIST_EACH_SAFE (it, tmp, &p->gone) sk_free(sk_container_of(it, struct sk_place_group, link));
    sk_list_init(&p->groups);
    sk_list_init(&p->gone);
    for (uint32_t i = 0; i < p->n_shapes; i++) sk_free(p->shapes[i]);
    sk_free(p->shapes);
    for (uint32_t i = 0; i < p->n_mores; i++) sk_free(p->mores[i]);
    sk_free(p->mores);
    sk_free(p->more_total);
    sk_free(p->more_avail);
    p->mores = NULL;
    p->more_total = p->more_avail = NULL;
    p->n_mores = p->n_more = 0;
    p->shapes = NULL;
    p->n_shapes = 0;
}
