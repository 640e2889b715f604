/* cut.c - finds where to cut sorted runs so that each partition is a piece of their merged order,
 * without merging them.
 *
 * The merged order is that of (key, run, row), so each rank belongs to exactly one row, and equal
 * keys may be separated. A rank is found by multi-sequence selection (Varman et al. 1991, "Merging
 * multiple lists on hierarchical-memory multiprocessors"): each run has an interval that must
 * contain the cut; the middle row of the widest interval is searched in all other runs, and its
 * rank shows on which side of it the cut is. Cuts are found in order, so each search begins where
 * the last one ended. Memory: 24 bytes a run. Cost: 25 to 40 rounds of one binary search a run for
 * each cut. */
#include "kernel/kernel_int.h"

/* Returns the first row in [lo, hi) of a run that does not come before row `row` of b in the merged
 * order; with `ties`, rows with an equal key count as before it. */
static uint64_t before(const struct sk_keys *k, uint64_t lo, uint64_t hi, const struct sk_keys *b,
                       uint64_t row, bool ties) {
    while (lo < hi) {
        uint64_t mid = lo + (hi - lo) / 2;
        if (sk_keys_compare(k, mid, b, row) < ties) lo = mid + 1;
        else hi = mid;
    }
    return lo;
}

static sk_rc check_runs(const struct sk_keys *const *runs, uint32_t n, uint32_t parts,
                        struct sk_err *err) {
    if (!n || !parts) return SK_ERR(err, SK_EINVAL, "%u runs to cut into %u partitions", n, parts);
    for (uint32_t r = 1; r < n; r++) SK_TRY(sk_keys_match(runs[0], runs[r], err));
    return SK_OK;
}

struct cutter {
    const struct sk_keys *const *runs;
    const uint64_t *const *weight;
    uint32_t n;
    /* [n]: the cut of run r is in [lo[r], hi[r]]. at[r]: where the row that is being tested would
     * be in run r. */
    uint64_t *lo, *hi, *at;
};

/* Returns the total weight of the rows before a row of a run. */
static uint64_t in_front(const struct cutter *c, uint32_t r, uint64_t row) {
    return c->weight ? c->weight[r][row] : row;
}

static uint32_t widest(const struct cutter *c) {
    uint32_t w = 0;
    for (uint32_t r = 1; r < c->n; r++)
        if (c->hi[r] - c->lo[r] > c->hi[w] - c->lo[w]) w = r;
    return w;
}

/* Sets lo to the cut of `rank`: the cut is behind all rows that have a weight of less than `rank`
 * before them in the merged order. */
static void find(struct cutter *c, uint64_t rank) {
    for (uint32_t r = 0; r < c->n; r++) c->hi[r] = c->runs[r]->rows;
    for (uint32_t w = widest(c); c->lo[w] < c->hi[w]; w = widest(c)) {
        uint64_t mid = c->lo[w] + (c->hi[w] - c->lo[w]) / 2, sum = 0;
        for (uint32_t r = 0; r < c->n; r++) {
            c->at[r] =
                r == w ? mid : before(c->runs[r], c->lo[r], c->hi[r], c->runs[w], mid, r < w);
            sum += in_front(c, r, c->at[r]);
        }
        if (sum < rank) {
            memcpy(c->lo, c->at, c->n * sizeof *c->lo);
            c->lo[w]++;
        } else memcpy(c->hi, c->at, c->n * sizeof *c->hi);
    }
}

sk_rc sk_cut_ranks(const struct sk_keys *const *runs, uint32_t n, const uint64_t *const *weight,
                   uint32_t parts, uint64_t *cuts, struct sk_err *err) {
    SK_TRY(check_runs(runs, n, parts, err));
    struct cutter c = {.runs = runs,
                       .weight = weight,
                       .n = n,
                       .lo = sk_calloc(SK_TAG_KERNEL, 3 * (size_t)n * sizeof *c.lo)};
    unsigned __int128 total = 0;
    size_t stride = (size_t)parts + 1;
    if (!c.lo) return SK_ERR(err, SK_ENOMEM, "no memory to cut %u runs", n);
    c.hi = c.lo + n;
    c.at = c.hi + n;
    for (uint32_t r = 0; r < n; r++) {
        cuts[r * stride] = 0;
        cuts[r * stride + parts] = runs[r]->rows;
        total += in_front(&c, r, runs[r]->rows);
    }
    for (uint32_t p = 1; p < parts; p++) {
        find(&c, (uint64_t)(total * p / parts));
        for (uint32_t r = 0; r < n; r++) cuts[r * stride + p] = c.lo[r];
    }
    sk_free(c.lo);
    return SK_OK;
}

/* True if row i of bounds does not come after row i + 1, in the order of keys or, if `at` is given,
 * of (key, run, row). */
static bool in_order(const struct sk_keys *bounds, const struct sk_row_at *at, uint64_t i) {
    int r = sk_keys_compare(bounds, i, bounds, i + 1);
    if (r || !at) return r <= 0;
    return at[i].run != at[i + 1].run ? at[i].run < at[i + 1].run : at[i].row <= at[i + 1].row;
}

sk_rc sk_cut_bounds(const struct sk_keys *const *runs, uint32_t n, const uint64_t *row0,
                    const struct sk_keys *bounds, const struct sk_row_at *at, uint64_t *cuts,
                    struct sk_err *err) {
    uint64_t stride = bounds->rows + 2;
    SK_TRY(check_runs(runs, n, 1, err));
    SK_TRY(sk_keys_match(runs[0], bounds, err));
    for (uint64_t i = 0; i + 1 < bounds->rows; i++)
        if (!in_order(bounds, at, i))
            return SK_ERR(err, SK_EINVAL,
                          "bound %llu is out of order: it sorts before the one in front of it",
                          (unsigned long long)i + 1);
    for (uint32_t r = 0; r < n; r++) {
        uint64_t lo = 0, rows = runs[r]->rows, first = row0 ? row0[r] : 0;
        for (uint64_t i = 0; i < bounds->rows; i++) {
            if (at && r == at[i].run)
                lo = SK_MAX(lo, SK_MIN(rows, at[i].row > first ? at[i].row - first : 0));
            else lo = before(runs[r], lo, rows, bounds, i, at && r < at[i].run);
            cuts[r * stride + i + 1] = lo;
        }
        cuts[r * stride] = 0;
        cuts[r * stride + bounds->rows + 1] = rows;
    }
    return SK_OK;
}
