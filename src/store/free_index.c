/* free_index.c - finds free pieces: bins by size for warm ones, treaps by address for cold ones and
 * for mixed runs.
 *
 * Not here: making and merging pieces (shalloc.c). No allocation: links live in the
 * extent, spans come from the caller.
 * Invariant: a bin's bit is set exactly when its list is not empty; a span's max is the largest len
 * of its subtree.
 * Cost: bins O(1), 5 ns; treaps O(log n) expected, with n the cold pieces or mixed runs (usually a
 * handful; thousands after punching). */
#include "base/rand.h"
#include "store/store_int.h"

/* ---- bins ------------------------------------------------------------------------------------ */

void sk_bin_of(uint64_t len, uint32_t *row, uint32_t *sub) {
    uint64_t u = len / SK_STORE_ALIGN;
    if (u < SK_BIN_SUB) {
        *row = 0;
        *sub = (uint32_t)u;
        return;
    }
    uint32_t log2 = 63u - (uint32_t)__builtin_clzll(u); /* at least 5, since u is at least 32 */
    *row = log2 - 4;
    *sub = (uint32_t)(u >> (log2 - 5)) & (SK_BIN_SUB - 1);
    SK_DCHECK(*row < SK_BIN_ROWS);
}

void sk_bins_add(struct sk_bins *b, struct sk_ext *x) {
    uint32_t row, sub;
    SK_DCHECK(x->len && x->len % SK_STORE_ALIGN == 0);
    sk_bin_of(x->len, &row, &sub);
    sk_ext_push(&b->head[row][sub], x);
    b->subs[row] |= 1u << sub;
    b->rows |= UINT64_C(1) << row;
}

void sk_bins_del(struct sk_bins *b, struct sk_ext *x) {
    uint32_t row, sub;
    sk_bin_of(x->len, &row, &sub);
    SK_DCHECK(b->subs[row] >> sub & 1); /* a piece keeps its length while it is in a bin */
    sk_ext_unpush(&b->head[row][sub], x);
    if (b->head[row][sub]) return;
    b->subs[row] &= ~(1u << sub);
    if (!b->subs[row]) b->rows &= ~(UINT64_C(1) << row);
}

/* Looks at the first `effort` pieces of a bin and returns the shortest one that is long enough; on
 * a tie, the one at the lowest address. */
static struct sk_ext *best_of_bin(struct sk_ext *x, uint64_t len, uint32_t effort) {
    struct sk_ext *best = NULL;
    for (; x && effort; x = x->ln_next, effort--)
        if (x->len >= len &&
            (!best || x->len < best->len || (x->len == best->len && x->off < best->off)))
            best = x;
    return best;
}

struct sk_ext *sk_bins_find(const struct sk_bins *b, uint64_t len, uint32_t effort) {
    uint32_t row, sub;
    sk_bin_of(len, &row, &sub);
    struct sk_ext *x = best_of_bin(b->head[row][sub], len, effort);
    if (x) return x;
    uint32_t subs = sub == SK_BIN_SUB - 1 ? 0 : b->subs[row] & (~0u << (sub + 1));
    if (!subs) {
        uint64_t rows = b->rows & (~UINT64_C(0) << (row + 1));
        if (!rows) return NULL;
        row = (uint32_t)__builtin_ctzll(rows);
        subs = b->subs[row];
    }
    x = best_of_bin(b->head[row][__builtin_ctz(subs)], len, 8);
    SK_DCHECK(x); /* later bins hold no shorter piece, and their bits are right */
    return x;
}

struct sk_ext *sk_bins_top(const struct sk_bins *b, uint32_t *row, uint32_t *sub) {
    uint32_t subs = b->subs[*row] & (~0u >> (SK_BIN_SUB - 1 - *sub));
    if (!subs) {
        uint64_t rows = b->rows & ((UINT64_C(1) << *row) - 1);
        if (!rows) return NULL;
        *row = 63u - (uint32_t)__builtin_clzll(rows);
        subs = b->subs[*row];
    }
    *sub = 31u - (uint32_t)__builtin_clz(subs);
    SK_DCHECK(b->head[*row][*sub]);
    return b->head[*row][*sub];
}

uint64_t sk_bins_largest(const struct sk_bins *b) {
    uint32_t row = SK_BIN_ROWS - 1, sub = SK_BIN_SUB - 1, effort = 256;
    uint64_t len = 0;
    for (const struct sk_ext *x = sk_bins_top(b, &row, &sub); x && effort; x = x->ln_next, effort--)
        len = SK_MAX(len, x->len);
    return len;
}

/* ---- spans ----------------------------------------------------------------------------------- */

/* A span's priority is a hash of its start (splitmix64): the shape is that of a random tree, and
 * the same in every run. */
static uint64_t prio_of(sk_off off) { return sk_rand_mix(off + UINT64_C(0x9e3779b97f4a7c15)); }

static void pull(struct sk_span *s) {
    s->max = s->len;
    if (s->l && s->l->max > s->max) s->max = s->l->max;
    if (s->r && s->r->max > s->max) s->max = s->r->max;
}

static void split(struct sk_span *t, sk_off off, struct sk_span **l, struct sk_span **r) {
    if (!t) {
        *l = *r = NULL;
    } else if (t->off < off) {
        split(t->r, off, &t->r, r);
        pull(t);
        *l = t;
    } else {
        split(t->l, off, l, &t->l);
        pull(t);
        *r = t;
    }
}

static struct sk_span *merge(struct sk_span *l, struct sk_span *r) {
    if (!l || !r) return l ? l : r;
    if (l->prio >= r->prio) {
        l->r = merge(l->r, r);
        pull(l);
        return l;
    }
    r->l = merge(l, r->l);
    pull(r);
    return r;
}

static struct sk_span *insert(struct sk_span *t, struct sk_span *s) {
    if (!t || s->prio > t->prio) {
        split(t, s->off, &s->l, &s->r);
        pull(s);
        return s;
    }
    if (s->off < t->off) t->l = insert(t->l, s);
    else t->r = insert(t->r, s);
    pull(t);
    return t;
}

static struct sk_span *extract(struct sk_span *t, sk_off off, struct sk_span **out) {
    SK_ASSERT(t);
    if (t->off == off) {
        *out = t;
        return merge(t->l, t->r);
    }
    if (off < t->off) t->l = extract(t->l, off, out);
    else t->r = extract(t->r, off, out);
    pull(t);
    return t;
}

void sk_spans_add(struct sk_spans *t, struct sk_span *s) {
    SK_DCHECK(s->len);
    s->prio = prio_of(s->off);
    t->root = insert(t->root, s);
    t->n++;
}

struct sk_span *sk_spans_del(struct sk_spans *t, sk_off off) {
    struct sk_span *s = NULL;
    t->root = extract(t->root, off, &s);
    SK_ASSERT(s && s->off == off && t->n);
    t->n--;
    return s;
}

struct sk_span *sk_spans_floor(const struct sk_spans *t, sk_off off) {
    struct sk_span *best = NULL;
    for (struct sk_span *s = t->root; s;) {
        if (s->off <= off) {
            best = s;
            s = s->r;
        } else {
            s = s->l;
        }
    }
    return best;
}

struct sk_span *sk_spans_first_fit(const struct sk_spans *t, uint64_t len) {
    struct sk_span *s = t->root;
    if (!s || s->max < len) return NULL;
    for (;;) {
        if (s->l && s->l->max >= len) s = s->l;
        else if (s->len >= len) return s;
        /* `max` of this subtree says that its right child has a span that is long enough */
        else s = s->r;
        SK_DCHECK(s);
    }
}

static bool check_span(const struct sk_span *s, uint64_t lo, uint64_t hi, uint64_t *n) {
    if (!s) return true;
    uint64_t max = s->len;
    max = s->l && s->l->max > max ? s->l->max : max;
    max = s->r && s->r->max > max ? s->r->max : max;
    if (s->off < lo || s->off >= hi || s->max != max || s->prio != prio_of(s->off)) return false;
    if ((s->l && s->l->prio > s->prio) || (s->r && s->r->prio > s->prio)) return false;
    ++*n;
    return check_span(s->l, lo, s->off, n) && check_span(s->r, s->off + 1, hi, n);
}

bool sk_spans_check(const struct sk_spans *t) {
    uint64_t n = 0;
    return check_span(t->root, 0, UINT64_MAX, &n) && n == t->n;
}
