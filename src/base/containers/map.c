/* map.c - growing, inserting and removing for map.h.
 *
 * Invariant (sk_map_check): walking from an entry's home slot to the entry meets no free slot.
 * Removal keeps it by moving back every follower whose home does not lie between the hole and
 * itself.
 * Cost: get about 3 ns in cache, put and del about 5; growth doubles and rehashes (16 B a slot). */
#include "base/containers/map.h"

enum { MIN_SLOTS = 16 };

void sk_map_init(struct sk_map *m, enum sk_tag tag) { *m = (struct sk_map){.tag = tag}; }

void sk_map_deinit(struct sk_map *m) {
    sk_free(m->slot);
    sk_map_init(m, m->tag);
}

void sk_map_clear(struct sk_map *m) {
    if (m->slot) memset(m->slot, 0, ((size_t)m->mask + 1) * sizeof(*m->slot));
    m->n = 0;
}

static bool fits(uint64_t n, uint64_t slots) { return n * 8 <= slots * 5; }

/* The slot of `key`, or the free slot where it belongs. The load limit guarantees a free slot, so
 * the search ends. */
static struct sk_map_slot *seek(const struct sk_map *m, uint64_t key) {
    uint32_t i = sk_map_home_(m, key);
    while (m->slot[i].key && m->slot[i].key != key) i = (i + 1) & m->mask;
    return &m->slot[i];
}

static sk_rc resize(struct sk_map *m, uint64_t slots) {
    if (slots > UINT32_MAX) return SK_ENOMEM;
    struct sk_map_slot *new_slot = sk_calloc(m->tag, (size_t)slots * sizeof(*new_slot));
    if (!new_slot) return SK_ENOMEM;
    struct sk_map old = *m;
    m->slot = new_slot;
    m->mask = (uint32_t)(slots - 1);
    m->shift = 64 - (uint32_t)__builtin_ctzll(slots);
    if (old.slot)
        for (uint64_t i = 0; i <= old.mask; i++)
            if (old.slot[i].key) *seek(m, old.slot[i].key) = old.slot[i];
    sk_free(old.slot);
    return SK_OK;
}

sk_rc sk_map_reserve(struct sk_map *m, uint32_t n) {
    uint64_t slots = m->slot ? (uint64_t)m->mask + 1 : MIN_SLOTS;
    if (m->slot && fits(n, slots)) return SK_OK;
    while (!fits(n, slots)) slots *= 2;
    return resize(m, slots);
}

void sk_map_shrink(struct sk_map *m) {
    uint64_t slots = MIN_SLOTS;
    while (!fits(2 * (uint64_t)m->n, slots)) slots *= 2;
    /* without memory the map stays as large as it was */
    if (m->slot && slots < (uint64_t)m->mask + 1 && resize(m, slots) != SK_OK) return;
}

sk_rc sk_map_put(struct sk_map *m, uint64_t key, void *val) {
    SK_ASSERT(key != 0);
    if (SK_LIKELY(m->slot != NULL)) {
        struct sk_map_slot *s = seek(m, key);
        if (s->key) {
            s->val = val;
            return SK_OK;
        }
        if (SK_LIKELY(fits((uint64_t)m->n + 1, (uint64_t)m->mask + 1))) {
            *s = (struct sk_map_slot){key, val};
            m->n++;
            return SK_OK;
        }
    }
    if (m->n == UINT32_MAX) return SK_ENOMEM;
    SK_TRY(sk_map_reserve(m, m->n + 1));
    *seek(m, key) = (struct sk_map_slot){key, val};
    m->n++;
    return SK_OK;
}

void *sk_map_del(struct sk_map *m, uint64_t key) {
    if (!m->slot || !key) return NULL;
    struct sk_map_slot *s = seek(m, key);
    if (!s->key) return NULL;
    void *val = s->val;
    uint32_t hole = (uint32_t)(s - m->slot);
    for (uint32_t i = hole;;) {
        i = (i + 1) & m->mask;
        if (!m->slot[i].key) break;
        /* The entry at i may move into the hole if its home slot is not in (hole, i], counted
         * around the ring. */
        uint32_t dist_home = (i - sk_map_home_(m, m->slot[i].key)) & m->mask;
        if (dist_home >= ((i - hole) & m->mask)) {
            m->slot[hole] = m->slot[i];
            hole = i;
        }
    }
    m->slot[hole] = (struct sk_map_slot){0, NULL};
    m->n--;
    return val;
}

bool sk_map_next(const struct sk_map *m, uint32_t *i, uint64_t *key, void **val) {
    if (!m->slot) return false;
    for (; *i <= m->mask; (*i)++) {
        const struct sk_map_slot *s = &m->slot[*i];
        if (!s->key) continue;
        if (key) *key = s->key;
        if (val) *val = s->val;
        (*i)++;
        return true;
    }
    return false;
}

bool sk_map_check(const struct sk_map *m) {
    if (!m->slot) return m->n == 0 && m->mask == 0;
    uint32_t n = 0;
    for (uint64_t i = 0; i <= m->mask; i++) {
        uint64_t key = m->slot[i].key;
        if (!key) continue;
        n++;
        if (seek(m, key) != &m->slot[i]) return false;
    }
    return n == m->n && fits(n, (uint64_t)m->mask + 1);
}
