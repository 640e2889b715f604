/* devices.c - GPUs, and one other kind of devices, are given by index: a task gets whole ones,
 * or a share of one. */
#include "engine/place/place_int.h"

void sk_place_devices(struct sk_place *p, uint32_t index) {
    SK_ASSERT(index >= SK_RES_CUSTOM && index < SK_RES_MAX && !p->devices);
    int64_t n = p->total.amount[index] / SK_RES_UNIT;
    /* with more devices than this, only their number counts, and none is given by index */
    if (n > (int64_t)SK_PLACE_GPUS || p->total.amount[index] % SK_RES_UNIT) return;
    p->devices = index;
    for (int64_t i = 0; i < n; i++) p->gpu_left[SK_PLACE_GPUS + i] = SK_RES_UNIT;
}

/* Chooses devices of one kind: whole devices for an amount of 1 or more; for less, the device with
 * the least left that is enough. */
static bool choose_of(const int64_t *left, int64_t amount, uint64_t *mask) {
    *mask = 0;
    if (amount <= 0) return true;
    if (amount < SK_RES_UNIT) {
        uint32_t best = SK_PLACE_GPUS;
        for (uint32_t i = 0; i < SK_PLACE_GPUS; i++)
            if (left[i] >= amount && (best == SK_PLACE_GPUS || left[i] < left[best])) best = i;
        if (best < SK_PLACE_GPUS) *mask = UINT64_C(1) << best;
        return best < SK_PLACE_GPUS;
    }
    int64_t n = (amount + SK_RES_UNIT - 1) / SK_RES_UNIT;
    for (uint32_t i = 0; i < SK_PLACE_GPUS && n > 0; i++)
        if (left[i] >= SK_RES_UNIT) *mask |= UINT64_C(1) << i, n--;
    return n == 0;
}

bool sk_place_choose_asked(const struct sk_place *p, const int64_t *left, const struct sk_res *need,
                           uint64_t *mask) {
    uint64_t more = 0;
    bool ok = choose_of(left, p->gpus_told_apart ? need->amount[SK_RES_GPU] : 0, mask);
    if (SK_UNLIKELY(p->devices != 0))
        ok = choose_of(left + SK_PLACE_GPUS, devices_of(p, need), &more) && ok;
    *mask |= more << SK_PLACE_GPUS;
    return ok;
}

void sk_place_move_devices(const struct sk_place *p, int64_t *left, uint64_t mask,
                           const struct sk_res *need, int64_t sign) {
    for (uint32_t i = 0; i < SK_PLACE_DEVICES; i++)
        if (mask >> i & 1)
            left[i] +=
                sign * SK_MIN(i < SK_PLACE_GPUS ? need->amount[SK_RES_GPU] : devices_of(p, need),
                              SK_RES_UNIT);
}
