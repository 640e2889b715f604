/* pool.c - frees slabs that are unused (pool.h). The address of a free node tells its slab; most
 * nodes follow one of the same slab. */
#include "base/pool.h"

#include <stdlib.h>

static int by_address(const void *a, const void *b) {
    uintptr_t x = (uintptr_t)*(struct sk_pool_slab *const *)a,
              y = (uintptr_t)*(struct sk_pool_slab *const *)b;
    return x < y ? -1 : x > y;
}

static uint64_t n_nodes(const struct sk_pool *p, const struct sk_pool_slab *s) {
    return (sk_mem_size(s) - sizeof *s) / p->node_size;
}

/* The slab that holds `node`, among n slabs sorted by address; `guess` (the slab of the node
 * before) is tried first. */
static struct sk_pool_slab *slab_of(struct sk_pool_slab *const *v, size_t n,
                                    struct sk_pool_slab *guess, const void *node) {
    uintptr_t at = (uintptr_t)node;
    if (at > (uintptr_t)guess && at < (uintptr_t)guess + sk_mem_size(guess)) return guess;
    size_t lo = 0, hi = n;
    while (hi - lo > 1) {
        size_t mid = lo + (hi - lo) / 2;
        if ((uintptr_t)v[mid] < at) lo = mid;
        else hi = mid;
    }
    return v[lo];
}

void sk_pool_trim(struct sk_pool *p) {
    size_t n = 0, i = 0;
    for (struct sk_pool_slab *s = p->slabs; s; s = s->next) n++;
    struct sk_pool_slab **v = n ? sk_alloc((enum sk_tag)p->tag, n * sizeof *v) : NULL;
    if (!v) return;
    for (struct sk_pool_slab *s = p->slabs; s; s = s->next) {
        s->n_free = 0;
        v[i++] = s;
    }
    qsort(v, n, sizeof *v, by_address);
    struct sk_pool_slab *at = v[0];
    for (void *node = p->free; node; node = *(void **)node) {
        at = slab_of(v, n, at, node);
        at->n_free++;
    }
    void **to = &p->free;
    for (void *node = p->free, *next; node; node = next) {
        next = *(void **)node;
        at = slab_of(v, n, at, node);
        if (at->n_free == n_nodes(p, at)) continue;
        *to = node;
        to = node;
    }
    *to = NULL;
    p->slabs = NULL;
    for (i = 0; i < n; i++) {
        if (v[i]->n_free == n_nodes(p, v[i])) {
            p->n_cap -= v[i]->n_free;
            sk_free(v[i]);
        } else {
            v[i]->next = p->slabs;
            p->slabs = v[i];
        }
    }
    p->n_trimmed = p->n_cap;
    sk_free(v);
}
