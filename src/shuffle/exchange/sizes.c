/* sizes.c - computes how large a reduce should be, and which bytes of a pack belong to given
 * partitions. Pure. */
#include "exchange_int.h"

/* reduces per slot if there is enough data, so that all slots are busy until nearly the end */
#define WAVES 2u

uint64_t sk_exchange_most(const struct sk_exchange *e) {
    struct sk_gather_facts f = sk_gather_facts(&e->g);
    return SK_MAX(SK_MIN(f.target_max_bytes, f.memory_bytes / 8), 1);
}

/* Chooses the size that gives each slot WAVES reduces, if there is enough data for that; it is no
 * larger than a block should be, nor than an eighth of memory. */
uint64_t sk_exchange_target(const struct sk_exchange *e, uint64_t total) {
    struct sk_gather_facts f = sk_gather_facts(&e->g);
    uint64_t even = total / (WAVES * (uint64_t)f.tasks) + 1;
    return SK_MIN(SK_MAX(even, f.target_min_bytes), sk_exchange_most(e));
}

uint32_t sk_shuffle_range(const struct sk_shuffle_ranges *r, uint32_t first) {
    uint64_t sum = r->bytes[first];
    uint32_t b = first + 1;
    while (b < r->n && sum + r->bytes[b] <= r->most && sum + r->bytes[b] / 2 <= r->target)
        sum += r->bytes[b++];
    while (b < r->n && !r->bytes[b]) b++;
    return b;
}

/* Partitions are taken to be equally large: then a reduce takes as many as sk_shuffle_range says,
 * of those that the packs have so far. */
uint64_t sk_exchange_reduce_bytes(const struct sk_exchange *e, uint64_t total, uint32_t *work) {
    uint64_t target = sk_exchange_target(e, total), n = e->n ? e->n : e->wanted;
    SK_ASSERT(target > 0);
    *work = e->tables ? SK_REDUCE_TABLE : 0;
    if (!n) n = e->cut ? (total + target - 1) / target : e->last;
    if (!n) return target; /* no pack has come that could tell */
    uint64_t one = SK_MAX(total / n, 1);
    if (e->wanted || e->cut) return one;
    return one * SK_MAX(SK_MIN(sk_exchange_most(e) / one, (target + one / 2) / one), 1);
}

struct sk_bref sk_pack_part_of(const struct sk_pack *p, uint32_t a, uint32_t b) {
    struct sk_bref r = {0};
    uint64_t end = 0;
    for (uint32_t i = SK_MAX(a, p->first); i < SK_MIN(b, p->first + p->n); i++) {
        const struct sk_pack_cut *c = &p->part[i - p->first];
        if (!c->len64) continue;
        if (!end) {
            r.row0 = (uint64_t)c->off64 * 64;
            r.origin = p->kind == SK_PACK_RUN ? c->row : i;
        }
        r.n_rows += c->rows;
        end = (uint64_t)c->off64 * 64 + sk_pack_len(c);
    }
    r.bytes = end - r.row0;
    return r;
}
