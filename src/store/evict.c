/* evict.c - chooses what to evict when memory is short.
 *
 * A pure choice without allocation: `how` serves as scratch space. Each candidate has two prices:
 * to drop it (and compute it again) or to spill it (write now, read back later: twice its bytes
 * over the disk's speed). The lower price counts; on a tie it is dropped (which wears no disk).
 * Candidates are taken by price per byte, then least recently used, then position, until `need` is
 * covered; those needed soon come last. A price per byte is a fraction, compared exactly by cross
 * multiplication in 128 bits, so that ties are true ties and LRU decides among equals.
 *
 * Cost: O(n) for the heap and O(k log n) for k victims; 1e5 candidates take about 1 ms. */
#include "store/store.h"

typedef unsigned __int128 u128;

#define IDX_BITS 30u
#define IDX_MASK ((UINT32_C(1) << IDX_BITS) - 1)

struct price { /* ns per byte = ns / bytes */
    uint64_t ns, bytes;
    enum sk_evict_how how;
};

static struct price price_of(const struct sk_evict_cand *c) {
    if (c->pinned || c->bytes == 0) return (struct price){0, 0, SK_EVICT_KEEP};
    bool can_drop = c->remake_ns != INT64_MAX, can_spill = c->write_bytes_per_s != 0;
    struct price drop = {(uint64_t)SK_MAX(c->remake_ns, 0), c->bytes, SK_EVICT_DROP};
    struct price spill = {UINT64_C(2000000000), c->write_bytes_per_s, SK_EVICT_SPILL};
    if (can_drop && (!can_spill || (u128)drop.ns * spill.bytes <= (u128)spill.ns * drop.bytes))
        return drop;
    return can_spill ? spill : (struct price){0, 0, SK_EVICT_KEEP};
}

/* True if candidate a is evicted before b. Both may be evicted (neither is KEEP). */
static bool before(const struct sk_evict_cand *c, uint32_t a, uint32_t b) {
    struct price pa = price_of(&c[a]), pb = price_of(&c[b]);
    u128 l = (u128)pa.ns * pb.bytes, r = (u128)pb.ns * pa.bytes;
    if (c[a].soon != c[b].soon) return c[b].soon;
    if (l != r) return l < r;
    if (c[a].last_use_ns != c[b].last_use_ns) return c[a].last_use_ns < c[b].last_use_ns;
    return a < b;
}

static uint32_t at(const uint32_t *work, size_t i) { return work[i] & IDX_MASK; }

static void sift_down(const struct sk_evict_cand *c, uint32_t *heap, size_t i, size_t n) {
    uint32_t x = at(heap, i);
    for (size_t child; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && before(c, at(heap, child + 1), at(heap, child))) child++;
        if (!before(c, at(heap, child), x)) break;
        heap[i] = at(heap, child);
    }
    heap[i] = x;
}

uint64_t sk_evict_choose(const struct sk_evict_cand *c, size_t n, uint64_t need,
                         enum sk_evict_how *out) {
    _Static_assert(sizeof *out == sizeof(uint32_t),
                   "an entry of `out` holds an index and a verdict while it is worked on");
    uint32_t *how = (uint32_t *)out; /* the enum is an unsigned int */
    SK_ASSERT(n <= IDX_MASK);
    size_t m = 0;
    for (size_t i = 0; i < n; i++)
        if (price_of(&c[i]).how != SK_EVICT_KEEP) how[m++] = (uint32_t)i;
    for (size_t i = m; i < n; i++) how[i] = 0;
    for (size_t i = m / 2; i-- > 0;) sift_down(c, how, i, m);

    /* Victims collect behind the shrinking heap, in how[heap_n .. m). */
    uint64_t covered = 0;
    size_t heap_n = m;
    while (covered < need && heap_n > 0) {
        uint32_t victim = at(how, 0);
        heap_n--;
        how[0] = at(how, heap_n);
        if (heap_n) sift_down(c, how, 0, heap_n);
        how[heap_n] = victim;
        SK_DCHECK(victim < n && !c[victim].pinned);
        covered = c[victim].bytes > UINT64_MAX - covered ? UINT64_MAX : covered + c[victim].bytes;
    }

    /* if `need` is not covered, all candidates were taken */
    SK_DCHECK(covered >= need || heap_n == 0);

    /* The verdict of candidate i goes into the two high bits of how[i]; the indices below stay
     * readable until the last step. */
    for (size_t i = heap_n; i < m; i++) {
        uint32_t victim = at(how, i);
        how[victim] |= (uint32_t)price_of(&c[victim]).how << IDX_BITS;
    }
    for (size_t i = 0; i < n; i++) how[i] >>= IDX_BITS;
    return covered;
}
