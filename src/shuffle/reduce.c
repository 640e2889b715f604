/* reduce.c - the reduce of an exchange: makes blocks of about the target size from the rows of its
 * slices, in order.
 *
 * There are two kinds. Runs are merged while blocks are made; for packs of partitions the order of
 * all rows is computed beforehand, as a list of places (8 bytes a row). Blocks are gathered from
 * the slices straight into their final place. */
#include "shuffle/work_int.h"

enum { CHUNK = 64 }; /* rows that are taken at once to find the end of a group */

struct reduce {
    struct sk_work head;
    const struct sk_what *what;
    struct sk_reduce_input in;
    struct ArrowArray *batches; /* the batches of all slices */
    const struct ArrowArray **list;
    uint32_t n_batches;
    struct sk_keys **keys;    /* merge: the keys of each batch */
    struct sk_range *ranges;  /* merge: the rows of each batch that belong to this reduce */
    struct sk_merge *merge;   /* NULL: the places of all rows are known */
    struct sk_row_at *places; /* of all rows: packs of partitions, the first rows of keys */
    uint64_t rows, bytes, block_rows, done;
    bool given;
    struct sk_row_at back[CHUNK]; /* merge: rows that were taken too many */
    uint32_t n_back;
};

/* ---- batches ---- */

static sk_rc take_batches(struct reduce *w, struct sk_err *err) {
    uint32_t n = 0;
    for (uint32_t s = 0; s < w->in.n_slices; s++) n += w->in.slices[s].n;
    w->batches = sk_calloc(SK_TAG_KERNEL, n * sizeof *w->batches);
    w->list = sk_calloc(SK_TAG_KERNEL, n * sizeof *w->list);
    w->keys = sk_calloc(SK_TAG_KERNEL, n * sizeof *w->keys);
    w->ranges = sk_calloc(SK_TAG_KERNEL, n * sizeof *w->ranges);
    if (!w->batches || !w->list || !w->keys || !w->ranges)
        return SK_ERR(err, SK_ENOMEM, "no memory for %u batches", n);
    for (uint32_t s = 0; s < w->in.n_slices; s++)
        for (uint32_t b = 0; b < w->in.slices[s].n; b++, w->n_batches++) {
            struct ArrowArray *a = &w->batches[w->n_batches];
            *a = *w->in.slices[s].batches[b];
            if (w->in.slices[s].columns_only) a->length = 0;
            w->ranges[w->n_batches].to = (uint64_t)a->length;
            w->list[w->n_batches] = a;
        }
    return SK_OK;
}

static void choose_block_rows(struct reduce *w, uint64_t bytes) {
    uint64_t blocks = w->what->one_block || !w->in.target_bytes
                          ? 1
                          : SK_MAX((bytes + w->in.target_bytes - 1) / w->in.target_bytes, 1);
    w->block_rows = SK_MIN(SK_MAX((w->rows + blocks - 1) / blocks, 1), UINT32_MAX);
}

static sk_rc size_up(struct reduce *w, struct sk_err *err) {
    uint64_t bytes = 0, one;
    for (uint32_t b = 0; b < w->n_batches; b++) {
        SK_TRY(sk_block_nbytes(w->in.schema, w->list[b], &one, err));
        uint64_t all = (uint64_t)w->list[b]->length, rows = w->ranges[b].to - w->ranges[b].from;
        bytes += all ? (uint64_t)((unsigned __int128)one * rows / all) : 0;
        w->rows += rows;
    }
    if (w->what->limit) w->rows = SK_MIN(w->rows, w->what->limit);
    choose_block_rows(w, bytes);
    w->bytes = bytes;
    return SK_OK;
}

static void reduce_destroy(struct sk_work *head) {
    struct reduce *w = (void *)head;
    sk_merge_destroy(w->merge);
    for (uint32_t b = 0; w->keys && b < w->n_batches; b++) sk_keys_destroy(w->keys[b]);
    sk_free(w->keys);
    sk_free(w->ranges);
    sk_free(w->places);
    sk_free(w->list);
    sk_free(w->batches);
    sk_free(w);
}

/* ---- rows of a merge ---- */

static bool same_key(const struct reduce *w, struct sk_row_at a, struct sk_row_at b) {
    return !sk_keys_compare(w->keys[a.run], a.row, w->keys[b.run], b.row);
}

/* Takes the next n rows. */
static sk_rc take_rows(struct reduce *w, struct sk_row_at *places, uint64_t n, struct sk_err *err) {
    uint32_t back = (uint32_t)SK_MIN(w->n_back, n);
    memcpy(places, w->back, back * sizeof *places);
    w->n_back -= back;
    memmove(w->back, w->back + back, w->n_back * sizeof *places);
    if (sk_merge_next(w->merge, places + back, n - back) != n - back)
        return SK_ERR(err, SK_EINVAL, "a merge ended before its rows");
    w->done += n;
    return SK_OK;
}

/* Gives back the last n rows that were taken, n <= CHUNK. */
static void give_back(struct reduce *w, const struct sk_row_at *places, uint32_t n) {
    memmove(w->back + n, w->back, w->n_back * sizeof *places);
    memcpy(w->back, places, n * sizeof *places);
    w->n_back += n;
    w->done -= n;
}

/* Takes the rest of the group of the last row; *places grows. */
static sk_rc take_rest(struct reduce *w, struct sk_row_at **places, uint64_t *n,
                       struct sk_err *err) {
    uint64_t cap = *n;
    while (*n && w->done < w->rows) {
        uint32_t want = (uint32_t)SK_MIN(w->rows - w->done, (uint64_t)CHUNK), same = 0;
        if (*n + want > cap) {
            cap = *n + want + *n / 2;
            void *p = sk_realloc(SK_TAG_KERNEL, *places, cap * sizeof **places);
            if (!p) return SK_ERR(err, SK_ENOMEM, "no memory for a group of rows");
            *places = p;
        }
        struct sk_row_at *more = *places + *n;
        SK_TRY(take_rows(w, more, want, err));
        while (same < want && same_key(w, more[-1], more[same])) same++;
        give_back(w, more + same, want - same);
        *n += same;
        if (same < want) break;
    }
    return SK_OK;
}

/* Takes the rows of the next block, about *n. */
static sk_rc take_block(struct reduce *w, struct sk_row_at **places, uint64_t *n,
                        struct sk_err *err) {
    SK_TRY(take_rows(w, *places, *n, err));
    return w->what->whole_groups ? take_rest(w, places, n, err) : SK_OK;
}

static sk_rc reduce_next(struct sk_work *head, struct sk_value **out, struct sk_err *err) {
    struct reduce *w = (void *)head;
    uint64_t n = SK_MIN(w->rows - w->done, w->block_rows), size;
    if (!n && w->given) return SK_OK;
    struct sk_value *v = sk_value_create(SK_VALUE_BLOCK, 1, 0);
    struct sk_row_at *places =
        w->merge ? sk_alloc(SK_TAG_KERNEL, n * sizeof *places) : w->places + w->done;
    struct sk_block_plan *plan;
    sk_rc rc = SK_OK;
    if (!v || !places)
        rc = SK_ERR(err, SK_ENOMEM, "no memory for %llu rows", (unsigned long long)n);
    if (rc == SK_OK && w->merge) rc = take_block(w, &places, &n, err);
    if (v && w->merge) v->mem[0] = places;
    else if (w->merge) sk_free(places);
    if (rc) goto out;
    if (!w->merge) w->done += n;
    SK_GO(sk_block_measure_places(w->in.schema,
                                  &(struct sk_block_side){w->list, w->n_batches, places}, 1, NULL,
                                  n, &plan, &size, err));
    sk_value_add(v, plan);
    w->given = true;
    *out = v;
out:
    if (rc) sk_value_destroy(v);
    return rc;
}

static sk_rc begin(const struct sk_what *what, const struct sk_reduce_input *in,
                   struct reduce **out, struct sk_err *err) {
    struct reduce *w = sk_calloc(SK_TAG_KERNEL, sizeof *w);
    if (!w) return SK_ERR(err, SK_ENOMEM, "no memory to reduce");
    w->head = (struct sk_work){reduce_next, reduce_destroy};
    w->what = what;
    w->in = *in;
    sk_rc rc = take_batches(w, err);
    if (rc) reduce_destroy(&w->head);
    else *out = w;
    return rc;
}

/* ---- by places ---- */

sk_rc sk_putting_create(const struct sk_what *what, const struct sk_reduce_input *in,
                        struct sk_work **out, struct sk_err *err) {
    struct reduce *w;
    sk_rc rc;
    SK_TRY(begin(what, in, &w, err));
    SK_GO(size_up(w, err));
    w->places = sk_alloc_large(SK_TAG_KERNEL, (size_t)w->rows * sizeof *w->places);
    if (!w->places)
        SK_GO(SK_ERR(err, SK_ENOMEM, "no memory for %llu rows", (unsigned long long)w->rows));
    SK_GO(sk_what_class_of(what->kind)->order(what, in, w->places, w->rows, err));
out:
    if (rc) reduce_destroy(&w->head);
    else *out = &w->head;
    return rc;
}

/* ---- merged runs ---- */

/* Returns the number of rows of a batch of run `run` that are before bound b. */
static uint64_t before(const struct sk_what *what, const struct sk_reduce_input *in,
                       const struct sk_keys *keys, uint32_t run, const struct sk_keys *bounds,
                       uint32_t b, bool upper) {
    const struct ArrowArray *runs = in->bounds->children[what->n_keys];
    uint64_t lo = 0, hi = sk_keys_rows(keys),
             of = ((const uint64_t *)runs->buffers[1])[runs->offset + in->bounds->offset + b];
    /* ties: whether rows with the bound's key are before the bound, as they are in all earlier
     * runs; in the run of the bound itself the cut is at a page */
    bool ties = what->groups ? false : upper ? run <= of : run < of;
    while (lo < hi) {
        uint64_t mid = lo + (hi - lo) / 2;
        int r = sk_keys_compare(keys, mid, bounds, b);
        if (r < 0 || (r == 0 && ties)) lo = mid + 1;
        else hi = mid;
    }
    return lo;
}

sk_rc sk_reduce_trim(const struct sk_what *what, const struct sk_reduce_input *in,
                     struct sk_keys *const *keys, struct sk_range *ranges, struct sk_err *err) {
    struct sk_keys *bounds;
    uint32_t n_keys = what->n_keys;
    sk_rc rc = SK_OK;
    if (in->bounds->n_children != (int64_t)n_keys + 1 ||
        strcmp(in->bounds_schema->children[n_keys]->format, "L") != 0 ||
        in->bounds->length + 1 < (int64_t)in->n)
        return SK_ERR(err, SK_EINVAL, "bounds of %lld columns and %lld rows for %u partitions",
                      (long long)in->bounds->n_children, (long long)in->bounds->length, in->n);
    SK_TRY(sk_what_first_keys(what, n_keys, in->bounds_schema, in->bounds, &bounds, err));
    for (uint32_t s = 0, at = 0; rc == SK_OK && s < in->n_slices; at += in->slices[s++].n) {
        uint32_t n = in->slices[s].n, run = in->slices[s].run, last = at + n - 1;
        if (!n) continue;
        rc = sk_keys_match(keys[at], bounds, err);
        if (rc == SK_OK && in->first)
            ranges[at].from = before(what, in, keys[at], run, bounds, in->first - 1, false);
        if (rc == SK_OK && in->end < in->n)
            ranges[last].to = before(what, in, keys[last], run, bounds, in->end - 1, true);
        ranges[last].to = SK_MAX(ranges[last].to, ranges[last].from);
    }
    sk_keys_destroy(bounds);
    return rc;
}

static sk_rc begin_merge(struct reduce *w, struct sk_err *err) {
    uint32_t *n = sk_alloc(SK_TAG_KERNEL, w->in.n_slices * sizeof *n);
    if (!n) return SK_ERR(err, SK_ENOMEM, "no memory to merge %u runs", w->in.n_slices);
    for (uint32_t s = 0; s < w->in.n_slices; s++) n[s] = w->in.slices[s].n;
    sk_rc rc = sk_merge_create((const struct sk_keys *const *)w->keys, w->ranges, n, w->in.n_slices,
                               &w->merge, err);
    sk_free(n);
    return rc;
}

/* Merges all rows now, and keeps the first of those with equal keys. */
static sk_rc keep_firsts(struct reduce *w, struct sk_err *err) {
    uint64_t n = 0;
    w->places = sk_alloc_large(SK_TAG_KERNEL, (size_t)w->rows * sizeof *w->places);
    if (!w->places)
        return SK_ERR(err, SK_ENOMEM, "no memory for %llu rows", (unsigned long long)w->rows);
    if (sk_merge_next(w->merge, w->places, w->rows) != w->rows)
        return SK_ERR(err, SK_EINVAL, "a merge ended before its rows");
    for (uint64_t i = 0; i < w->rows; i++) {
        struct sk_row_at at = w->places[i], last = n ? w->places[n - 1] : at;
        if (!n || !same_key(w, last, at)) w->places[n++] = at;
    }
    uint64_t bytes = w->rows ? (uint64_t)((unsigned __int128)w->bytes * n / w->rows) : 0;
    w->rows = n;
    choose_block_rows(w, bytes);
    sk_merge_destroy(w->merge);
    w->merge = NULL;
    return SK_OK;
}

sk_rc sk_merging_create(const struct sk_what *what, const struct sk_reduce_input *in,
                        struct sk_work **out, struct sk_err *err) {
    struct reduce *w;
    sk_rc rc = SK_OK;
    SK_TRY(begin(what, in, &w, err));
    for (uint32_t b = 0; b < w->n_batches; b++)
        SK_GO(sk_what_keys(what, in->schema, w->list[b], &w->keys[b], err));
    if (in->bounds) SK_GO(sk_reduce_trim(what, in, w->keys, w->ranges, err));
    SK_GO(size_up(w, err));
    if (w->n_batches) SK_GO(begin_merge(w, err));
    if (w->merge && what->firsts) SK_GO(keep_firsts(w, err));
out:
    if (rc) reduce_destroy(&w->head);
    else *out = &w->head;
    return rc;
}
