/* record.c - sort, partition and merge of records of fixed width by a key of leading bytes
 * (record.h). */
#include "kernel/record.h"

#include "kernel/kernel_int.h"

enum { BUCKET_BYTES = 1 << 20, MAX_BUCKETS = 1024, SAMPLES = 32, AHEAD = 16 };

static sk_rc check(struct sk_records f, size_t n, struct sk_err *err) {
    if (!f.width || !f.key || f.key > f.width)
        return SK_ERR(err, SK_EINVAL, "records of %u bytes with a key of %u", f.width, f.key);
    if (n > UINT32_MAX) return SK_ERR(err, SK_EINVAL, "%zu records at a time, at most 2^32 - 1", n);
    return SK_OK;
}

/* Returns bytes [8 at, 8 at + 8) of a key as a big-endian number, padded with zeros. */
SK_INLINE uint64_t word(struct sk_records f, const uint8_t *record, uint32_t at) {
    uint64_t v = 0;
    if (SK_LIKELY(8 * at + 8 <= f.key)) {
        memcpy(&v, record + 8 * at, 8);
        return __builtin_bswap64(v);
    }
    memcpy(&v, record + 8 * at, f.key - 8 * at);
    return __builtin_bswap64(v);
}

SK_INLINE void copy(uint32_t width, void *to, const void *from) {
    /* a constant width, that of the public sort benchmark, compiles to seven loads and stores
     * without a call */
    if (SK_LIKELY(width == 100)) memcpy(to, from, 100);
    else memcpy(to, from, width);
}

/* ---- sorting records ------------------------------------------------------------------------- */

static void by_words(struct sk_records f, const uint8_t *in, struct sk_entry *e,
                     struct sk_entry *tmp, size_t n, uint32_t at) {
    sk_radix_sort(e, tmp, n);
    if (8 * (at + 1) >= f.key) return;
    for (size_t i = 0, j; i < n; i = j) {
        for (j = i + 1; j < n && e[j].key == e[i].key; j++) continue;
        if (j - i == 1) continue;
        for (size_t k = i; k < j; k++) e[k].key = word(f, in + (size_t)e[k].row * f.width, at + 1);
        by_words(f, in, e + i, tmp, j - i, at + 1);
    }
}

struct index { /* an index of records, which grows as needed */
    struct sk_entry *e;
    size_t cap;
};

static sk_rc sort_bucket(struct sk_records f, const uint8_t *in, size_t n, uint8_t *out,
                         struct index *x, struct sk_err *err) {
    if (n > x->cap) {
        sk_free(x->e);
        x->cap = n;
        if (!(x->e = sk_alloc_large(SK_TAG_KERNEL, 2 * n * sizeof *x->e)))
            return SK_ERR(err, SK_ENOMEM, "no memory to sort %zu records", n);
    }
    struct sk_entry *e = x->e;
    for (size_t i = 0; i < n; i++)
        e[i] = (struct sk_entry){word(f, in + i * f.width, 0), (uint32_t)i, 0};
    by_words(f, in, e, e + n, n, 0);
    for (size_t i = 0; i < n; i++) {
        if (i + AHEAD < n) {
            const uint8_t *next = in + (size_t)e[i + AHEAD].row * f.width;
            __builtin_prefetch(next);
            __builtin_prefetch(next + f.width - 1);
        }
        copy(f.width, out + i * f.width, in + (size_t)e[i].row * f.width);
    }
    return SK_OK;
}

static sk_rc sort_by_buckets(struct sk_records f, const uint8_t *in, size_t n, uint8_t *out,
                             uint8_t *scratch, struct index *x, struct sk_err *err) {
    size_t parts = SK_MIN(n / (BUCKET_BYTES / f.width + 1) + 1, (size_t)MAX_BUCKETS),
           samples = SAMPLES * parts;
    uint8_t *sample = sk_alloc(SK_TAG_KERNEL, samples * f.width + parts * f.key);
    size_t start[MAX_BUCKETS + 1];
    if (!sample) return SK_ERR(err, SK_ENOMEM, "no memory for a sample of %zu records", samples);
    for (size_t i = 0; i < samples; i++)
        memcpy(sample + i * f.width, in + sk_draw(n, i) % n * f.width, f.width);
    sk_rc rc = sk_records_quantiles(f, sample, samples, sample + samples * f.width, parts - 1, err);
    if (rc == SK_OK)
        rc = sk_records_partition(f, in, n, sample + samples * f.width, parts - 1, scratch, start,
                                  err);
    for (size_t p = 0; p < parts && rc == SK_OK; p++)
        rc = sort_bucket(f, scratch + start[p] * f.width, start[p + 1] - start[p],
                         out + start[p] * f.width, x, err);
    sk_free(sample);
    return rc;
}

sk_rc sk_records_sort(struct sk_records f, const void *in, size_t n, void *out, void *scratch,
                      struct sk_err *err) {
    SK_TRY(check(f, n, err));
    struct index x = {NULL, 0};
    sk_rc rc;
    if (n <= 2 * (size_t)BUCKET_BYTES / f.width) {
        rc = n ? sort_bucket(f, in, n, out, &x, err) : SK_OK;
    } else {
        void *own = scratch ? NULL : sk_alloc_large(SK_TAG_KERNEL, n * f.width);
        rc = scratch || own ? sort_by_buckets(f, in, n, out, scratch ? scratch : own, &x, err)
                            : SK_ERR(err, SK_ENOMEM, "no memory to sort %zu records", n);
        sk_free(own);
    }
    sk_free(x.e);
    return rc;
}

/* ---- partitioning records -------------------------------------------------------------------- */

/* The bounds in a form in which the part of a key is found by its first two bytes, then by
 * bisection among the bounds with the same two bytes. */
struct bounds {
    uint32_t before[65537]; /* number of bounds whose first two bytes are less */
    uint64_t top[];         /* first words of the bounds */
};

static sk_rc bounds_create(struct sk_records f, const uint8_t *key, size_t n, struct bounds **out,
                           struct sk_err *err) {
    if (n >= UINT32_MAX) return SK_ERR(err, SK_EINVAL, "%zu bounds", n);
    for (size_t i = 1; i < n; i++)
        if (memcmp(key + (i - 1) * f.key, key + i * f.key, f.key) > 0)
            return SK_ERR(err, SK_EINVAL,
                          "bound %zu is before bound %zu: bounds must be in ascending order", i,
                          i - 1);
    struct bounds *b = sk_calloc(SK_TAG_KERNEL, sizeof *b + n * sizeof *b->top);
    if (!b) return SK_ERR(err, SK_ENOMEM, "no memory for %zu bounds", n);
    for (size_t i = 0; i < n; i++) {
        b->top[i] = word(f, key + i * f.key, 0);
        b->before[(b->top[i] >> 48) + 1]++;
    }
    for (size_t t = 0; t < 65536; t++) b->before[t + 1] += b->before[t];
    *out = b;
    return SK_OK;
}

/* Returns the number of bounds that are not above the record's key. */
SK_INLINE uint32_t part_of(struct sk_records f, const struct bounds *b, const uint8_t *key,
                           const uint8_t *record) {
    uint64_t top = word(f, record, 0);
    uint32_t low = b->before[top >> 48], high = b->before[(top >> 48) + 1];
    while (low < high) {
        uint32_t mid = low + (high - low) / 2;
        bool behind = b->top[mid] > top;
        if (SK_UNLIKELY(b->top[mid] == top))
            behind = memcmp(key + (size_t)mid * f.key, record, f.key) > 0;
        high = behind ? mid : high;
        low = behind ? low : mid + 1;
    }
    return low;
}

sk_rc sk_records_partition(struct sk_records f, const void *in, size_t n, const void *bounds,
                           size_t n_bounds, void *out, size_t *start, struct sk_err *err) {
    SK_TRY(check(f, n, err));
    struct bounds *b = NULL;
    SK_TRY(bounds_create(f, bounds, n_bounds, &b, err));
    uint32_t *part = sk_alloc_large(SK_TAG_KERNEL, n * sizeof *part);
    size_t *at = part ? sk_calloc(SK_TAG_KERNEL, (n_bounds + 2) * sizeof *at) : NULL;
    if (at) {
        const uint8_t *r = in;
        for (size_t i = 0; i < n; i++, r += f.width) at[(part[i] = part_of(f, b, bounds, r)) + 1]++;
        for (size_t p = 0; p <= n_bounds; p++) at[p + 1] += at[p];
        memcpy(start, at, (n_bounds + 2) * sizeof *at);
        r = in;
        for (size_t i = 0; i < n; i++, r += f.width)
            copy(f.width, (uint8_t *)out + at[part[i]]++ * f.width, r);
    }
    sk_rc rc = at ? SK_OK : SK_ERR(err, SK_ENOMEM, "no memory to partition %zu records", n);
    sk_free(at);
    sk_free(part);
    sk_free(b);
    return rc;
}

void sk_records_cut(struct sk_records f, const void *sorted, size_t n, const void *bounds,
                    size_t n_bounds, size_t *start) {
    start[0] = 0;
    for (size_t p = 0; p < n_bounds; p++) {
        size_t low = start[p], high = n;
        while (low < high) { /* finds the first record that is not below the bound */
            size_t mid = low + (high - low) / 2;
            if (memcmp((const uint8_t *)sorted + mid * f.width, (const uint8_t *)bounds + p * f.key,
                       f.key) < 0)
                low = mid + 1;
            else high = mid;
        }
        start[p + 1] = low;
    }
    start[n_bounds + 1] = n;
}

sk_rc sk_records_quantiles(struct sk_records f, const void *in, size_t n, void *bounds,
                           size_t n_bounds, struct sk_err *err) {
    SK_TRY(check(f, n, err));
    if (!n) return SK_ERR(err, SK_EINVAL, "quantiles of no records");
    struct sk_entry *e = sk_alloc(SK_TAG_KERNEL, 2 * n * sizeof *e);
    if (!e) return SK_ERR(err, SK_ENOMEM, "no memory for a sample of %zu records", n);
    for (size_t i = 0; i < n; i++)
        e[i] = (struct sk_entry){word(f, (const uint8_t *)in + i * f.width, 0), (uint32_t)i, 0};
    by_words(f, in, e, e + n, n, 0);
    for (size_t p = 0; p < n_bounds; p++) {
        size_t i = (size_t)((unsigned __int128)n * (p + 1) / (n_bounds + 1));
        memcpy((uint8_t *)bounds + p * f.key,
               (const uint8_t *)in + (size_t)e[SK_MIN(i, n - 1)].row * f.width, f.key);
    }
    sk_free(e);
    return SK_OK;
}

/* ---- merging records ------------------------------------------------------------------------- */

/* the first word of the next record of a run in the tree; UINT64_MAX at the end of the run, too */
struct head {
    uint64_t key;
    uint64_t run;
};
struct sk_records_merge {
    struct sk_records f;
    size_t k;                  /* number of leaves, a power of two */
    const uint8_t **at, **end; /* [k]: next record and end of each run */
    struct head winner;
    /* [k]: the losers of the nodes; lost[0] is unused. The winners of nodes 2 i and 2 i + 1 play at
     * node i; the leaf of run r is node k + r. */
    struct head lost[];
};

static struct head head_of(const struct sk_records_merge *m, size_t run) {
    return (struct head){m->at[run] < m->end[run] ? word(m->f, m->at[run], 0) : UINT64_MAX, run};
}

/* True if a comes before b, for equal first words. */
static __attribute__((noinline)) bool before(const struct sk_records_merge *m, struct head a,
                                             struct head b) {
    bool a_ends = m->at[a.run] == m->end[a.run], b_ends = m->at[b.run] == m->end[b.run];
    if (a_ends != b_ends) return b_ends;
    int d = a_ends ? 0 : memcmp(m->at[a.run], m->at[b.run], m->f.key);
    return d ? d < 0 : a.run < b.run;
}

/* Lets cur play the losers from its leaf to the root; returns the winner. */
SK_INLINE struct head play(struct sk_records_merge *m, struct head cur) {
    for (size_t i = (m->k + cur.run) / 2; i; i /= 2) {
        struct head other = m->lost[i];
        bool wins = other.key < cur.key;
        if (SK_UNLIKELY(other.key == cur.key)) wins = before(m, other, cur);
        /* written so that conditional moves result, since the outcome cannot be predicted */
        m->lost[i].key = wins ? cur.key : other.key;
        m->lost[i].run = wins ? cur.run : other.run;
        cur.key = wins ? other.key : cur.key;
        cur.run = wins ? other.run : cur.run;
    }
    return cur;
}

static struct head begin(struct sk_records_merge *m, size_t node) {
    if (node >= m->k) return head_of(m, node - m->k);
    struct head a = begin(m, 2 * node), b = begin(m, 2 * node + 1);
    bool first = a.key == b.key ? before(m, a, b) : a.key < b.key;
    m->lost[node] = first ? b : a;
    return first ? a : b;
}

sk_rc sk_records_merge_create(struct sk_records f, const void *const *run, const size_t *n,
                              size_t k, struct sk_records_merge **out, struct sk_err *err) {
    SK_TRY(check(f, k, err));
    size_t leaves = 1;
    while (leaves < k) leaves *= 2;
    struct sk_records_merge *m =
        sk_calloc(SK_TAG_KERNEL, sizeof *m + leaves * (sizeof *m->lost + 2 * sizeof *m->at));
    if (!m) return SK_ERR(err, SK_ENOMEM, "no memory to merge %zu runs", k);
    m->f = f;
    m->k = leaves;
    m->at = (const uint8_t **)(void *)(m->lost + leaves);
    m->end = m->at + leaves;
    for (size_t r = 0; r < k; r++) {
        m->at[r] = run[r];
        m->end[r] = m->at[r] + n[r] * f.width;
    }
    m->winner = begin(m, 1);
    *out = m;
    return SK_OK;
}

size_t sk_records_merge_next(struct sk_records_merge *m, void *out, size_t cap) {
    uint8_t *to = out;
    size_t done = 0;
    for (; done < cap; done++, to += m->f.width) {
        size_t run = m->winner.run;
        const uint8_t *at = m->at[run];
        /* if the winner's run has ended, all runs have */
        if (SK_UNLIKELY(at == m->end[run])) break;
        copy(m->f.width, to, at);
        __builtin_prefetch(at + 4 * (size_t)m->f.width);
        m->at[run] = at + m->f.width;
        m->winner = play(m, head_of(m, run));
    }
    return done;
}

void sk_records_merge_destroy(struct sk_records_merge *m) { sk_free(m); }
