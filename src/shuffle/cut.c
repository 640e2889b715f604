/* cut.c - decides where sorted runs are cut: finds bounds in the total order of (key, run, row),
 * and the pages of each run that have rows between two bounds.
 *
 * A bound is the first row of a page: of the first page, in the order of first rows, at which the
 * bytes of the pages before it reach the share of the partitions before the bound. So a partition
 * differs from its share by less than a page of each run. The cut is exact in the run that has the
 * bound. In other runs a page may have rows of two partitions; both partitions then get the page,
 * and reduce.c drops the rows of the other one. A run that ends before a bound (as a map's runs of
 * single ranges of keys do) has no page behind it. If rows of equal keys must stay together, a
 * bound is a key alone, and all rows with that key are behind it. Cost: a merge of the samples, and
 * a binary search for each run and bound. */
#include "shuffle/work_int.h"

struct cutting {
    struct sk_work head;
    const struct sk_what *what;
    const struct ArrowSchema *schema;
    const struct ArrowArray *const *samples;
    struct sk_keys **keys;
    struct sk_row_at *bounds; /* [n_partitions - 1]: run and page */
    uint32_t n_runs, n_partitions, run, first;
    bool none, begun; /* none: all runs are without rows */
};

static const uint64_t *numbers_of(const struct cutting *w, uint32_t run, uint32_t which) {
    const struct ArrowArray *a = w->samples[run], *c = a->children[w->what->n_keys + which];
    return (const uint64_t *)c->buffers[1] + c->offset + a->offset;
}
/* Returns the number of pages of a run; the sample has one row more, the run's last row. */
static uint64_t pages_of(const struct cutting *w, uint32_t run) {
    return (uint64_t)w->samples[run]->length - 1;
}

static sk_rc check_samples(const struct cutting *w, struct sk_err *err) {
    int64_t want = (int64_t)w->what->n_keys + 3;
    if (w->schema && w->schema->n_children == want)
        for (int64_t i = want - 3; i < want; i++)
            if (strcmp(w->schema->children[i]->format, "L") != 0)
                return SK_ERR(err, SK_EINVAL, "a sample's column %lld holds no numbers",
                              (long long)i);
    for (uint32_t r = 0; r < w->n_runs; r++)
        if (w->samples[r]->n_children != want || w->samples[r]->length < 2 ||
            w->samples[r]->length > UINT32_MAX)
            return SK_ERR(err, SK_EINVAL, "the sample of run %u is none: %lld columns, %lld rows",
                          r, (long long)w->samples[r]->n_children,
                          (long long)w->samples[r]->length);
    return SK_OK;
}

static sk_rc choose_bounds(struct cutting *w, struct sk_err *err) {
    struct sk_merge *m;
    struct sk_row_at at;
    uint64_t total = 0, sum = 0;
    uint32_t n = 0;
    for (uint32_t r = 0; r < w->n_runs; r++)
        for (uint64_t i = 0; i < pages_of(w, r); i++)
            total += numbers_of(w, r, 0)[i] ? numbers_of(w, r, 2)[i] : 0;
    w->none = !total;
    if (w->none || !w->n_runs) return SK_OK;
    SK_TRY(sk_merge_create((const struct sk_keys *const *)w->keys, NULL, NULL, w->n_runs, &m, err));
    while (n + 1 < w->n_partitions && sk_merge_next(m, &at, 1)) {
        if (numbers_of(w, at.run, 0)[at.row]) sum += numbers_of(w, at.run, 2)[at.row];
        while (n + 1 < w->n_partitions &&
               sum > (uint64_t)((unsigned __int128)total * (n + 1) / w->n_partitions))
            w->bounds[n++] = at;
    }
    sk_merge_destroy(m);
    SK_ASSERT(n + 1 == w->n_partitions);
    return SK_OK;
}

/* Returns the number of pages of a run that begin before bound b; pages + 1: all rows are before
 * the bound. */
static uint64_t begin_before(const struct cutting *w, uint32_t run, uint32_t b) {
    struct sk_row_at of = w->bounds[b];
    uint64_t lo = 0, hi = pages_of(w, run) + 1;
    if (run == of.run && !w->what->groups) return of.row;
    while (lo < hi) {
        uint64_t mid = lo + (hi - lo) / 2;
        int r = sk_keys_compare(w->keys[run], mid, w->keys[of.run], of.row);
        if (r < 0 || (r == 0 && !w->what->groups && run < of.run)) lo = mid + 1;
        else hi = mid;
    }
    return lo;
}

static struct sk_value_part cut(const struct cutting *w, uint32_t run, uint32_t p) {
    uint64_t from = 0, pages = pages_of(w, run), to = pages;
    const uint64_t *rows = numbers_of(w, run, 0), *off = numbers_of(w, run, 1),
                   *len = numbers_of(w, run, 2);
    struct sk_value_part part = {0};
    if (p && !rows[0]) return part; /* partition 0 gets the empty page, for the schema */
    if (p && rows[0]) {
        from = begin_before(w, run, p - 1);
        if (from > pages) return part;
        if (from && (w->what->groups || w->bounds[p - 1].run != run)) from--;
    }
    if (p + 1 < w->n_partitions && rows[0]) {
        to = SK_MIN(begin_before(w, run, p), pages);
        if (p && !memcmp(&w->bounds[p - 1], &w->bounds[p], sizeof w->bounds[p])) to = from;
    }
    if (from >= to) return part;
    for (uint64_t i = 0; i < to; i++) *(i < from ? &part.row : &part.rows) += rows[i];
    part.off = off[from];
    part.len = off[to - 1] + len[to - 1] - part.off;
    return part;
}

static sk_rc give_bounds(struct cutting *w, struct sk_value **out, struct sk_err *err) {
    uint32_t n = w->n_partitions - 1;
    uint64_t *run = sk_alloc(SK_TAG_KERNEL, n * sizeof *run);
    struct sk_key *keys = sk_alloc(SK_TAG_KERNEL, w->what->n_keys * sizeof *keys);
    sk_rc rc = SK_OK;
    if (!run || !keys) rc = SK_ERR(err, SK_ENOMEM, "no memory for %u bounds", n);
    for (uint32_t i = 0; i < n && rc == SK_OK; i++) {
        if (w->none) w->bounds[i] = (struct sk_row_at){SK_ROW_NONE, 0};
        run[i] = w->bounds[i].run;
    }
    for (uint32_t i = 0; i < w->what->n_keys && rc == SK_OK; i++)
        keys[i] = (struct sk_key){.column = i};
    struct sk_frame frame = {.schema = w->schema,
                             .arrays = w->samples,
                             .n_arrays = w->n_runs,
                             .keys = keys,
                             .n_keys = w->what->n_keys,
                             .n_numbers = 1,
                             .numbers = (const uint64_t *const *)&run,
                             .places = w->bounds,
                             .rows = n};
    if (rc == SK_OK) rc = sk_frame_value(&frame, SK_VALUE_BOUNDS, out, err);
    sk_free(run);
    sk_free(keys);
    return rc;
}

static sk_rc cut_next(struct sk_work *head, struct sk_value **out, struct sk_err *err) {
    struct cutting *w = (void *)head;
    if (!w->begun) {
        w->begun = true;
        return give_bounds(w, out, err);
    }
    if (w->run == w->n_runs) return SK_OK;
    uint32_t n = SK_MIN(w->n_partitions - w->first, SK_VALUE_CUTS_MAX);
    struct sk_value *v = sk_value_create(SK_VALUE_CUTS, 0, n);
    if (!v) return SK_ERR(err, SK_ENOMEM, "no memory for the cuts of run %u", w->run);
    v->run = w->run;
    v->first = w->first;
    for (uint32_t i = 0; i < n; i++) v->parts[i] = cut(w, w->run, w->first + i);
    w->first += n;
    if (w->first == w->n_partitions) {
        w->first = 0;
        w->run++;
    }
    *out = v;
    return SK_OK;
}

static void cut_destroy(struct sk_work *head) {
    struct cutting *w = (void *)head;
    for (uint32_t r = 0; w->keys && r < w->n_runs; r++) sk_keys_destroy(w->keys[r]);
    sk_free(w->keys);
    sk_free(w->bounds);
    sk_free(w);
}

sk_rc sk_work_cut(const struct sk_what *what, const struct ArrowSchema *schema,
                  const struct ArrowArray *const *samples, uint32_t n_runs, uint32_t n_partitions,
                  struct sk_work **out, struct sk_err *err) {
    if (!n_partitions || !n_runs)
        return SK_ERR(err, SK_EINVAL, "%u runs to cut into %u partitions", n_runs, n_partitions);
    struct cutting *w = sk_calloc(SK_TAG_KERNEL, sizeof *w);
    if (!w) return SK_ERR(err, SK_ENOMEM, "no memory to cut runs");
    sk_rc rc;
    w->head = (struct sk_work){cut_next, cut_destroy};
    w->what = what;
    w->schema = schema;
    w->samples = samples;
    w->n_runs = n_runs;
    w->n_partitions = n_partitions;
    w->keys = sk_calloc(SK_TAG_KERNEL, n_runs * sizeof *w->keys);
    w->bounds = sk_calloc(SK_TAG_KERNEL, n_partitions * sizeof *w->bounds);
    if (!w->keys || !w->bounds) SK_GO(SK_ERR(err, SK_ENOMEM, "no memory to cut %u runs", n_runs));
    SK_GO(check_samples(w, err));
    for (uint32_t r = 0; r < n_runs; r++)
        SK_GO(sk_what_first_keys(what, what->n_keys, schema, samples[r], &w->keys[r], err));
    SK_GO(choose_bounds(w, err));
out:
    if (rc) cut_destroy(&w->head);
    else *out = &w->head;
    return rc;
}
