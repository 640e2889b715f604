/* pool.h - fixed-size nodes from slabs: one pointer pop to get a node, one push to put it back.
 *
 * Not here: variable sizes (mem.h), regions (arena.h). Nodes are neither zeroed nor moved. Slabs
 * are freed by deinit and trim only; without them a pool stays as large as its peak.
 * sk_pool_reserve guarantees the next n gets: an operation reserves first and then cannot fail
 * half-way. Cost: about 2 ns a get or put; the size of slabs doubles from 64 nodes to 4096.
 *
 * Thread-safety: none. */
#ifndef SK_POOL_H
#define SK_POOL_H

#include "base/base.h"
#include "base/mem.h"

struct sk_pool_slab {
    struct sk_pool_slab *next;
    /* free nodes of this slab; valid within trim only. Also keeps nodes 16-byte aligned */
    uint64_t n_free;
};

struct sk_pool {
    void *free; /* first free node; the first word of a free node points to the next */
    struct sk_pool_slab *slabs;
    uint32_t node_size, tag;
    uint64_t n_used, n_cap;
    uint64_t n_trimmed; /* n_cap after the last trim */
};

static inline void sk_pool_init(struct sk_pool *p, enum sk_tag tag, size_t node_size) {
    *p = (struct sk_pool){.node_size = (uint32_t)SK_ALIGN(SK_MAX(node_size, sizeof(void *)), 8),
                          .tag = (uint32_t)tag};
}

static inline void sk_pool_deinit(struct sk_pool *p) {
    while (p->slabs) {
        struct sk_pool_slab *next = p->slabs->next;
        sk_free(p->slabs);
        p->slabs = next;
    }
    p->free = NULL;
    p->n_used = p->n_cap = p->n_trimmed = 0;
}

static inline bool sk_pool_grow_(struct sk_pool *p) {
    uint64_t n = SK_MIN(SK_MAX(p->n_cap, (uint64_t)64), (uint64_t)4096);
    struct sk_pool_slab *slab = sk_alloc((enum sk_tag)p->tag, sizeof *slab + n * p->node_size);
    if (!slab) return false;
    slab->next = p->slabs;
    p->slabs = slab;
    char *node = (char *)(slab + 1) + n * p->node_size;
    /* walks backwards, so that nodes are given out in address order */
    for (uint64_t i = 0; i < n; i++) {
        node -= p->node_size;
        *(void **)(void *)node = p->free;
        p->free = node;
    }
    p->n_cap += n;
    return true;
}

/* Makes sure that n nodes are free. false: no memory. */
static inline bool sk_pool_reserve(struct sk_pool *p, uint64_t n) {
    while (SK_UNLIKELY(p->n_cap - p->n_used < n))
        if (!sk_pool_grow_(p)) return false;
    return true;
}

/* Returns a node, or NULL when there is no memory. */
static inline void *sk_pool_get(struct sk_pool *p) {
    if (SK_UNLIKELY(!p->free) && !sk_pool_grow_(p)) return NULL;
    void *node = p->free;
    p->free = *(void **)node;
    p->n_used++;
    return node;
}

static inline void sk_pool_put(struct sk_pool *p, void *node) {
    *(void **)node = p->free;
    p->free = node;
    p->n_used--;
}

/* True if the pool has many nodes, most of them free, and trim has not run since it grew. */
static inline bool sk_pool_roomy(const struct sk_pool *p) {
    return p->n_cap >= 1u << 16 && p->n_used < p->n_cap / 4 && p->n_cap > 2 * p->n_trimmed;
}
/* Frees the slabs whose nodes are all free. Does nothing if there is no memory to sort the slabs.
 * Cost: two walks over the free nodes. */
void sk_pool_trim(struct sk_pool *p);

#endif
