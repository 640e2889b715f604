/* merge.c - the merge of an exchange: packs of the same partitions become one pack. Within a
 * partition its rows are in the order of the packs, or of the keys where they are sorted. Runs are
 * merged in run.c. States of aggregates are combined.
 *
 * Rows are gathered by their places, straight into the value. Memory: 8 bytes for each row of the
 * value that is being made. */
#include "shuffle/work_int.h"

struct merging {
    struct sk_work head;
    const struct sk_what *what;
    struct sk_merge_input in;
    uint32_t next; /* the next partition, counted from in.first */
    /* all batches: first those of partition in.first, in the order of the packs, then those of the
     * next partition */
    const struct ArrowArray **list;
    uint64_t *start; /* [in.n + 1] index in `list` of each partition's first batch */
};

/* ---- batches by partition ---- */

static sk_rc take_batches(struct merging *w, struct sk_err *err) {
    uint32_t *at = sk_calloc(SK_TAG_KERNEL, w->in.n_slices * sizeof *at);
    uint64_t n = 0;
    for (uint32_t s = 0; s < w->in.n_slices; s++) n += w->in.slices[s].n;
    w->list = sk_calloc(SK_TAG_KERNEL, n * sizeof *w->list);
    w->start = sk_calloc(SK_TAG_KERNEL, (w->in.n + UINT64_C(1)) * sizeof *w->start);
    sk_rc rc = at && w->list && w->start
                   ? SK_OK
                   : SK_ERR(err, SK_ENOMEM, "no memory for %llu batches", (unsigned long long)n);
    n = 0;
    for (uint32_t p = 0; p < w->in.n && rc == SK_OK; p++) {
        for (uint32_t s = 0; s < w->in.n_slices && rc == SK_OK; s++) {
            if (!w->in.parts[s][p]) continue;
            if (at[s] == w->in.slices[s].n)
                rc = SK_ERR(err, SK_EINVAL, "pack %u has %u blocks, and more parts", s, at[s]);
            else w->list[n++] = w->in.slices[s].batches[at[s]++];
        }
        w->start[p + 1] = n;
    }
    for (uint32_t s = 0; s < w->in.n_slices && rc == SK_OK; s++)
        if (at[s] != w->in.slices[s].n)
            rc = SK_ERR(err, SK_EINVAL, "pack %u has %u blocks, and %u parts", s, w->in.slices[s].n,
                        at[s]);
    sk_free(at);
    return rc;
}

static uint64_t rows_of(const struct merging *w, uint32_t p) {
    uint64_t rows = 0;
    for (uint64_t b = w->start[p]; b < w->start[p + 1]; b++) rows += (uint64_t)w->list[b]->length;
    return rows;
}

/* ---- parts ---- */

static sk_rc merge_keys(const struct merging *w, const struct ArrowArray *const *list, uint32_t n,
                        struct sk_row_at *places, uint64_t rows, struct sk_err *err) {
    struct sk_keys **keys = sk_calloc(SK_TAG_KERNEL, n * sizeof *keys);
    struct sk_merge *m = NULL;
    sk_rc rc = keys ? SK_OK : SK_ERR(err, SK_ENOMEM, "no memory to merge %u parts", n);
    for (uint32_t b = 0; b < n && rc == SK_OK; b++)
        rc = sk_what_keys(w->what, w->in.schema, list[b], &keys[b], err);
    if (rc == SK_OK)
        rc = sk_merge_create((const struct sk_keys *const *)keys, NULL, NULL, n, &m, err);
    if (rc == SK_OK && sk_merge_next(m, places, rows) != rows)
        rc = SK_ERR(err, SK_EINVAL, "a merge ended before its rows");
    sk_merge_destroy(m);
    for (uint32_t b = 0; keys && b < n; b++) sk_keys_destroy(keys[b]);
    sk_free(keys);
    return rc;
}

/* Plans the rows of partition p. An empty block has none, but keeps the columns. */
static sk_rc add_part(struct merging *w, struct sk_value *v, uint32_t p, struct sk_row_at *places,
                      uint64_t rows, struct sk_err *err) {
    struct sk_value_part *part = &v->parts[p - (v->first - w->in.first)];
    const struct ArrowArray *const *list = w->list + w->start[p];
    uint32_t n = (uint32_t)(w->start[p + 1] - w->start[p]);
    struct sk_block_plan *plan;
    uint64_t at = 0, size;
    *part = (struct sk_value_part){.off = v->size, .rows = rows};
    if (!n) return SK_OK;
    if (w->what->sorted) {
        SK_TRY(merge_keys(w, list, n, places, rows, err));
    } else {
        for (uint32_t b = 0; b < n; b++)
            for (int64_t row = 0; row < list[b]->length; row++)
                places[at++] = (struct sk_row_at){b, (uint32_t)row};
    }
    SK_TRY(sk_block_measure_places(w->in.schema, &(struct sk_block_side){list, n, places}, 1, NULL,
                                   rows, &plan, &size, err));
    sk_value_add(v, plan);
    part->len = v->size - part->off;
    return SK_OK;
}

static sk_rc merging_next(struct sk_work *head, struct sk_value **out, struct sk_err *err) {
    struct merging *w = (void *)head;
    uint32_t values = SK_MAX(w->in.values, 1u), each = (w->in.n + values - 1) / values;
    uint32_t n = SK_MIN(w->in.n - w->next, SK_MIN(each, SK_VALUE_PARTS_MAX));
    uint64_t rows = 0;
    if (!n) return SK_OK;
    for (uint32_t p = w->next; p < w->next + n; p++) rows += rows_of(w, p);
    struct sk_value *v = sk_value_create(SK_VALUE_PARTS, n, n);
    struct sk_row_at *places = sk_alloc_large(SK_TAG_KERNEL, (size_t)rows * sizeof *places);
    sk_rc rc = v && places ? SK_OK
                           : SK_ERR(err, SK_ENOMEM, "no memory to merge %llu rows",
                                    (unsigned long long)rows);
    if (v) v->mem[0] = places;
    else sk_free(places);
    if (rc == SK_OK) v->first = w->in.first + w->next;
    for (uint32_t i = 0; i < n && rc == SK_OK; i++) {
        uint64_t mine = rows_of(w, w->next + i);
        rc = add_part(w, v, w->next + i, places, mine, err);
        places += mine;
    }
    if (rc) {
        sk_value_destroy(v);
        return rc;
    }
    w->next += n;
    *out = v;
    return SK_OK;
}

static void merging_destroy(struct sk_work *head) {
    struct merging *w = (void *)head;
    sk_free(w->list);
    sk_free(w->start);
    sk_free(w);
}

/* ---- aggregates ----
 *
 * Neighbouring packs of states become states with one row for each group, so that they do not grow
 * with the number of maps. Packs of rows, which maps send where states would not be a quarter as
 * many (aggregate.c), stay rows: neighbours become one run. States and rows do not pass each other,
 * because lists of values are in the order of the maps. Groups are made in parts, as in a reduce:
 * each is a range of keys in about target_bytes of memory, and becomes a run. */

struct combining {
    struct sk_work head;
    const struct sk_what *what;
    struct sk_merge_input in;
    uint32_t next;          /* the first slice that is in no stretch yet */
    bool given;             /* a value was given */
    struct sk_work *states; /* makes the parts of a stretch of states */
    /* The part at hand, and the work that makes packs of it, or of a stretch of rows. */
    void *block;
    struct ArrowSchema schema;
    struct ArrowArray array;
    struct sk_work *packs;
};

static void close_part(struct combining *w) {
    sk_work_destroy(w->packs);
    if (w->schema.release) w->schema.release(&w->schema);
    if (w->array.release) w->array.release(&w->array);
    sk_free(w->block);
    w->packs = NULL;
    w->block = NULL;
    w->schema.release = NULL;
    w->array.release = NULL;
}

/* Makes packs of a block of states, which the part owns from now on. */
static sk_rc open_part(struct combining *w, struct sk_value *v, struct sk_err *err) {
    size_t size = (size_t)v->size;
    w->block = sk_alloc_aligned(SK_TAG_KERNEL, SK_BLOCK_ALIGN, SK_MAX(size, 1));
    if (w->block) sk_value_write(v, w->block);
    sk_value_destroy(v);
    if (!w->block) return SK_ERR(err, SK_ENOMEM, "no memory for %zu bytes of states", size);
    SK_TRY(sk_block_export(w->block, size, 0, UINT64_MAX, (struct sk_block_owner){NULL, NULL},
                           &w->schema, &w->array, err));
    return sk_work_map(w->what, &(struct sk_map_input){.schema = &w->schema, .array = &w->array},
                       &w->packs, err);
}

static uint64_t rows_in(const struct sk_slice *s) {
    uint64_t rows = 0;
    for (uint32_t b = 0; b < s->n; b++) rows += (uint64_t)s->batches[b]->length;
    return rows;
}

static bool are_states(const struct combining *w, const struct sk_slice *s) {
    return !w->what->n_keys || sk_is_states(w->what, s->schemas[0]);
}

/* Begins the next stretch: neighbouring packs of one kind; without keys, all packs. A stretch
 * without rows is left out, unless it is all there is. */
static sk_rc begin_stretch(struct combining *w, struct sk_err *err) {
    const struct sk_slice *s = w->in.slices + w->next;
    bool states = are_states(w, s);
    uint64_t rows = 0;
    uint32_t n = 0;
    for (; w->next < w->in.n_slices && (!s[n].n || are_states(w, &s[n]) == states); w->next++, n++)
        rows += rows_in(&s[n]);
    if (!rows && (w->given || w->next < w->in.n_slices)) return SK_OK;
    if (states)
        return sk_restating_create(w->what,
                                   &(struct sk_reduce_input){.schema = s->schemas[0],
                                                             .slices = s,
                                                             .n_slices = n,
                                                             .end = 1,
                                                             .n = 1,
                                                             .target_bytes = w->in.target_bytes},
                                   &w->states, err);
    return sk_run_merge_create(
        w->what,
        &(struct sk_merge_input){
            .schema = s->schemas[0], .slices = s, .n_slices = n, .values = w->in.values},
        &w->packs, err);
}

static sk_rc combining_next(struct sk_work *head, struct sk_value **out, struct sk_err *err) {
    struct combining *w = (void *)head;
    for (;;) {
        if (w->packs) {
            SK_TRY(sk_work_next(w->packs, out, err));
            w->given = w->given || *out;
            if (*out) return SK_OK;
            close_part(w);
        } else if (w->states) {
            struct sk_value *v;
            SK_TRY(sk_work_next(w->states, &v, err));
            if (v) {
                SK_TRY(open_part(w, v, err));
            } else {
                sk_work_destroy(w->states);
                w->states = NULL;
            }
        } else if (w->next < w->in.n_slices) {
            if (w->in.slices[w->next].n) SK_TRY(begin_stretch(w, err));
            else w->next++; /* a part without rows */
        } else {
            return SK_OK;
        }
    }
}

static void combining_destroy(struct sk_work *head) {
    struct combining *w = (void *)head;
    close_part(w);
    sk_work_destroy(w->states);
    sk_free(w);
}

static sk_rc combining_create(const struct sk_what *what, const struct sk_merge_input *in,
                              struct sk_work **out, struct sk_err *err) {
    struct combining *w = sk_calloc(SK_TAG_KERNEL, sizeof *w);
    if (!w) return SK_ERR(err, SK_ENOMEM, "no memory to merge aggregates");
    w->head = (struct sk_work){combining_next, combining_destroy};
    w->what = what;
    w->in = *in;
    *out = &w->head;
    return SK_OK;
}

sk_rc sk_work_merge(const struct sk_what *what, const struct sk_merge_input *in,
                    struct sk_work **out, struct sk_err *err) {
    if (what->kind == SK_WHAT_AGGREGATE) return combining_create(what, in, out, err);
    if (what->kind == SK_WHAT_SORT && !in->n) return sk_run_merge_create(what, in, out, err);
    struct merging *w = sk_calloc(SK_TAG_KERNEL, sizeof *w);
    if (!w) return SK_ERR(err, SK_ENOMEM, "no memory to merge packs");
    w->head = (struct sk_work){merging_next, merging_destroy};
    w->what = what;
    w->in = *in;
    sk_rc rc = take_batches(w, err);
    if (rc) merging_destroy(&w->head);
    else *out = &w->head;
    return rc;
}
