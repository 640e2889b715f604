/* combine.c - the merge of an exchange that computes aggregates: neighbouring packs of states
 * become states with one row for each group, so that they do not grow with the number of maps.
 * Packs of rows, which maps send where states would hardly be fewer (aggregate.c), stay rows:
 * neighbours become one run. States and rows do not pass each other, because lists of values are in
 * the order of the maps.
 *
 * Memory: as in a reduce, groups are made in parts, one range of keys behind the other, each in
 * about target_bytes; each part becomes a run. */
#include "shuffle/work_int.h"

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
    return sk_work_map(
        w->what,
        &(struct sk_map_input){.schema = &w->schema, .array = &w->array, .values = w->in.values},
        &w->packs, err);
}

static uint64_t rows_of(const struct sk_slice *s) {
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
        rows += rows_of(&s[n]);
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

sk_rc sk_combining_create(const struct sk_what *what, const struct sk_merge_input *in,
                          struct sk_work **out, struct sk_err *err) {
    struct combining *w = sk_calloc(SK_TAG_KERNEL, sizeof *w);
    if (!w) return SK_ERR(err, SK_ENOMEM, "no memory to merge aggregates");
    w->head = (struct sk_work){combining_next, combining_destroy};
    w->what = what;
    w->in = *in;
    *out = &w->head;
    return SK_OK;
}
