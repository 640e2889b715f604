/* place_int.h - declarations that the files of this folder share. Calls go from pick to workers and
 * groups, from these to shapes and room, and from all to amounts and devices. */
#ifndef SK_PLACE_INT_H
#define SK_PLACE_INT_H

#include "engine/place/place.h"

static inline struct sk_place_task *task_of(struct sk_list *l) {
    return sk_container_of(l, struct sk_place_task, link);
}
static inline struct sk_place_worker *worker_of(struct sk_list *l) {
    return sk_container_of(l, struct sk_place_worker, link);
}

/* room.c: true if a task of this shape can start now; *bundle: in which bundle of its placement
 * group. */
bool sk_place_room(const struct sk_place *p, const struct sk_place_shape *s, uint32_t *bundle);

/* ---- amounts.c */
static inline bool fits(const struct sk_res *need, const struct sk_res *have) {
    for (uint32_t i = 0; i < SK_RES_MAX; i++)
        if (need->amount[i] > 0 && need->amount[i] > have->amount[i]) return false;
    return true;
}
static inline void move_amounts(struct sk_res *have, const struct sk_res *by, int64_t sign) {
    for (uint32_t i = 0; i < SK_RES_MAX; i++) have->amount[i] += sign * by->amount[i];
}
bool sk_place_more_fits(const struct sk_place *p, const struct sk_place_more *m);
void sk_place_more_move(struct sk_place *p, const struct sk_place_more *m, int64_t sign);

/* devices.c: GPUs, and the other kind that sk_place_devices names. `left` is the free share of each
 * device; a mask has a bit for each device. */
static inline int64_t devices_of(const struct sk_place *p, const struct sk_res *need) {
    return p->devices ? need->amount[p->devices] : 0;
}
static inline bool sk_place_asks_devices(const struct sk_place *p, const struct sk_res *need) {
    return need->amount[SK_RES_GPU] > 0 || devices_of(p, need) > 0;
}
bool sk_place_choose_asked(const struct sk_place *p, const int64_t *left, const struct sk_res *need,
                           uint64_t *mask);
/* Chooses devices for `need`; false: there are not enough. */
static inline bool sk_place_choose_devices(const struct sk_place *p, const int64_t *left,
                                           const struct sk_res *need, uint64_t *mask) {
    *mask = 0;
    return SK_LIKELY(!sk_place_asks_devices(p, need)) || sk_place_choose_asked(p, left, need, mask);
}
void sk_place_move_devices(const struct sk_place *p, int64_t *left, uint64_t mask,
                           const struct sk_res *need, int64_t sign);

/* shapes.c: saves the entry of a dead shape that no worker holds, for use under another id. */
void sk_place_shape_unused(struct sk_place *p, struct sk_place_shape *s);

/* ---- groups.c */
/* Takes all bundles of g from the machine, or none (false). */
bool sk_place_reserve(struct sk_place *p, struct sk_place_group *g);
/* The oldest group that waits for its bundles and could have them once enough is given back;
 * NULL: none. *sum: the sum of its bundles. */
struct sk_place_group *sk_place_waiting_group(const struct sk_place *p, struct sk_res *sum);

/* workers.c: IDLE -> LEASED. Takes the resources that the shape asks for; the caller has checked
 * sk_place_room. */
void sk_place_worker_lease(struct sk_place *p, struct sk_place_worker *w, struct sk_place_shape *s);

#endif
