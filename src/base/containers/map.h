/* map.h - hash map from a non-zero u64 (an id) to a pointer: open addressing, linear probing.
 *
 * Removal shifts the following entries back, so there are no tombstones and a map that lives for
 * weeks does not get slower. Keys may be sequential, aligned or packed with fields: the hash is a
 * multiplication whose high bits are used. It does not withstand keys that are chosen to collide;
 * all ids are made by skate. 16 bytes a slot, 5/16 to 5/8 of the slots in use. The map owns its
 * slots, not the values. Thread-safety: one thread or one lock. */
#ifndef SK_MAP_H
#define SK_MAP_H

#include "base/mem.h"

struct sk_map_slot {
    uint64_t key; /* 0: the slot is free */
    void *val;
};
struct sk_map {
    struct sk_map_slot *slot; /* NULL until the first put */
    uint32_t n;               /* number of entries */
    uint32_t mask;            /* slots - 1; 0 when slot is NULL */
    uint32_t shift;           /* 64 - log2(slots) */
    enum sk_tag tag;
};

void sk_map_init(struct sk_map *m, enum sk_tag tag); /* allocates nothing */
void sk_map_deinit(struct sk_map *m); /* frees the slots; the map is empty and usable afterwards */
/* Adds the key or replaces its value. SK_ENOMEM: nothing changed (a replacement never fails). */
sk_rc sk_map_put(struct sk_map *m, uint64_t key, void *val) SK_MUST_USE;
/* Removes the key. Returns its value, or NULL if it was not there. */
void *sk_map_del(struct sk_map *m, uint64_t key);
/* Makes room, so that n entries in all fit without another allocation. */
sk_rc sk_map_reserve(struct sk_map *m, uint32_t n) SK_MUST_USE;
void sk_map_clear(struct sk_map *m); /* removes all entries, keeps the slots */
#define SK_MAP_LARGE (1u << 16)
/* True if the map has many slots and nearly all are free, so that sk_map_shrink is worth its cost.
 */
static inline bool sk_map_roomy(const struct sk_map *m) {
    return m->mask >= SK_MAP_LARGE && m->n < m->mask / 8;
}
void sk_map_shrink(struct sk_map *m);

/* Iterates: for (uint32_t i = 0; sk_map_next(m, &i, &key, &val);) ...; key and val may be NULL. The
 * map must not change meanwhile, but sk_map_put may replace the value of a present key. */
bool sk_map_next(const struct sk_map *m, uint32_t *i, uint64_t *key, void **val);

/* True if every entry is reachable from its home slot and the count is right. */
bool sk_map_check(const struct sk_map *m);

/* Fibonacci hashing: an odd multiplier is a bijection mod 2^64, so keys that differ only in low (or
 * only in high) bits spread. */
static inline uint32_t sk_map_home_(const struct sk_map *m, uint64_t key) {
    return (uint32_t)(((key ^ (key >> 32)) * UINT64_C(0x9e3779b97f4a7c15)) >> m->shift);
}

static inline void *sk_map_get(const struct sk_map *m, uint64_t key) {
    if (SK_UNLIKELY(!m->slot)) return NULL;
    for (uint32_t i = sk_map_home_(m, key);; i = (i + 1) & m->mask) {
        const struct sk_map_slot *s = &m->slot[i];
        if (s->key == key) return key ? s->val : NULL;
        if (s->key == 0) return NULL;
    }
}

#endif
