/* sets.c - makes sets of rows, and allocates the memory of plans.
 *
 * A set is nearly always one range of one batch, which needs no memory. For rows of several batches
 * the number of each range's batch is stored, too, in an array that is allocated at the first range
 * that is not of batch 0. */
#include "block/block_int.h"

void *sk_block_extra_alloc(struct sk_block_extra **list, size_t n) {
    struct sk_block_extra *e = sk_alloc(SK_TAG_BLOCK, sizeof *e + n);
    if (!e) return NULL;
    e->next = *list;
    *list = e;
    return e + 1;
}

void sk_block_extras_free(struct sk_block_extra *e) {
    while (e) {
        struct sk_block_extra *next = e->next;
        sk_free(e);
        e = next;
    }
}

static uint32_t *from_of(const struct sk_block_builder *b) {
    return b->from ? (uint32_t *)(void *)(b->from + 1) : NULL;
}

/* Allocates the array of batch numbers at the first range that is not of batch 0; all ranges before
 * are of batch 0. */
static bool begin_from(struct sk_block_builder *b) {
    struct sk_block_extra *mem =
        sk_alloc(SK_TAG_BLOCK, sizeof *mem + SK_MAX(b->cap, 1) * sizeof(uint32_t));
    if (!mem) return false;
    memset(mem + 1, 0, b->set.n_ranges * sizeof(uint32_t));
    b->from = mem;
    return true;
}

static bool grow(struct sk_block_builder *b) {
    size_t cap = b->cap ? 2 * b->cap : 16;
    struct sk_block_range *r;
    struct sk_block_extra *mem = sk_realloc(SK_TAG_BLOCK, b->mem, sizeof *mem + cap * sizeof *r);
    if (!mem) return false;
    if (!b->mem) memcpy(mem + 1, &b->set.one, sizeof *r);
    b->mem = mem;
    if (b->from) {
        mem = sk_realloc(SK_TAG_BLOCK, b->from, sizeof *mem + cap * sizeof(uint32_t));
        if (!mem) return false;
        b->from = mem;
    }
    b->cap = cap;
    return true;
}

bool sk_block_builder_push(struct sk_block_builder *b, uint32_t from, int64_t at, int64_t n) {
    struct sk_block_range *r = b->mem ? (void *)(b->mem + 1) : &b->set.one;
    SK_DCHECK(b->set.n_ranges <= SK_MAX(b->cap, 1));
    if (!n) return true;
    if (__builtin_add_overflow(b->set.total, n, &b->set.total)) return false;
    if (b->only_total) return true;
    if (from && !b->from && !begin_from(b)) return false;
    b->set.nulls |= from == SK_ROW_NONE;
    uint32_t *batch = from_of(b);
    size_t last = b->set.n_ranges - 1;
    if (b->set.n_ranges && (!batch || batch[last] == from) &&
        (from == SK_ROW_NONE || r[last].at + r[last].n == at)) {
        r[last].n += n;
        return true;
    }
    if (b->set.n_ranges >= (b->mem ? b->cap : 1)) {
        if (!grow(b)) return false;
        r = (void *)(b->mem + 1);
        batch = from_of(b);
    }
    if (batch) batch[b->set.n_ranges] = from;
    r[b->set.n_ranges++] = (struct sk_block_range){at, n};
    return true;
}

static void keep(struct sk_block_extra **list, struct sk_block_extra *mem) {
    if (!mem) return;
    mem->next = *list;
    *list = mem;
}

struct sk_block_set sk_block_builder_done(struct sk_block_builder *b,
                                          struct sk_block_extra **list) {
    struct sk_block_set s = b->set;
    if (b->mem) {
        s.many = (void *)(b->mem + 1);
        if (s.n_ranges == 1) s.one = s.many[0];
    }
    s.from = from_of(b);
    keep(list, b->mem);
    keep(list, b->from);
    b->mem = b->from = NULL;
    b->cap = 0;
    return s;
}
