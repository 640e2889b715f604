/* keys.c - the two sides of a join and their keys: which types of keys can be compared as they are,
 * and the key's columns as batches of their own.
 *
 * Nothing is cast here but integers that are narrower than those of the other side. All other casts
 * are the caller's, who then gives the keys beside the rows (work.h: SK_JOIN_KEYS). */
#include "shuffle/join/join_int.h"

enum { LEFT = 0, RIGHT = 1 };

static sk_rc no_memory(struct sk_err *err) {
    return SK_ERR(err, SK_ENOMEM, "no memory for the sides of a join");
}

/* ---- the types of keys ---- */

static size_t length_at(const char *p) {
    int32_t n;
    memcpy(&n, p, sizeof n);
    return (size_t)n;
}

size_t sk_type_metadata(const char *metadata, char *to) {
    static const char prefix[] = "ARROW:extension:";
    const size_t word = sizeof(int32_t), begin = sizeof prefix - 1;
    size_t n = word;
    int32_t kept = 0;
    if (!metadata) return 0;
    const char *p = metadata + word;
    for (size_t left = length_at(metadata); left; left--) {
        size_t key = length_at(p), pair = word + key;
        pair += word + length_at(p + pair);
        if (key >= begin && !memcmp(p + word, prefix, begin)) {
            if (to) memcpy(to + n, p, pair);
            n += pair;
            kept++;
        }
        p += pair;
    }
    if (to && kept) memcpy(to, &kept, word);
    return kept ? n : 0;
}

/* True if the types are equal, whatever names and metadata the fields have. */
static bool same_type(const struct ArrowSchema *a, const struct ArrowSchema *b) {
    struct ArrowSchema x = *a, y = *b;
    x.name = y.name = x.metadata = y.metadata = NULL;
    x.flags &= ~(int64_t)ARROW_FLAG_NULLABLE;
    y.flags &= ~(int64_t)ARROW_FLAG_NULLABLE;
    return sk_block_same_schema(&x, &y);
}

/* Returns the bytes of an integer of this format; 0: it is none. */
static uint32_t int_width(const char *format) {
    static const char letters[] = "cCsSiIlL";
    const char *at = format[0] && !format[1] ? strchr(letters, format[0]) : NULL;
    return at ? 1u << (at - letters) / 2 : 0;
}

static bool is_signed(const char *format) { return format[0] >= 'a'; }

/* The Arrow format without the width of its offsets. */
static const char *without_width(const char *format) {
    return !strcmp(format, "U") ? "u" : !strcmp(format, "Z") ? "z" : format;
}

enum fit {
    FIT_NOT,   /* they need a cast of the caller's, or cannot be compared */
    FIT_ROWS,  /* they can be compared, but one column cannot hold the values of both */
    FIT_WIDEN, /* integers of one signedness: the narrower ones are widened first */
    FIT_TYPES  /* they have one type */
};

static enum fit fit_of(const struct ArrowSchema *a, const struct ArrowSchema *b) {
    const struct ArrowSchema *x = a->dictionary ? a->dictionary : a,
                             *y = b->dictionary ? b->dictionary : b;
    if (sk_type_metadata(a->metadata, NULL) || sk_type_metadata(b->metadata, NULL) ||
        x->dictionary || y->dictionary || !sk_can_be_key(x->format) || !sk_can_be_key(y->format))
        return FIT_NOT;
    if (same_type(a, b)) return FIT_TYPES;
    if (!strcmp(without_width(x->format), without_width(y->format))) return FIT_ROWS;
    bool ints = !a->dictionary && !b->dictionary && int_width(x->format) && int_width(y->format);
    return ints && is_signed(x->format) == is_signed(y->format) ? FIT_WIDEN : FIT_NOT;
}

/* Returns column k of the key of a side; NULL: there is none. */
static const struct ArrowSchema *key_field(const struct sk_what *what, uint32_t side,
                                           const struct ArrowSchema *schema, uint32_t k,
                                           uint32_t *column) {
    struct sk_err unused;
    const char *name = side == LEFT ? what->keys[k].name : what->join.right[k];
    return sk_column_find(schema, name, column, &unused) == SK_OK ? schema->children[*column]
                                                                  : NULL;
}

struct sk_names sk_schema_names(const struct ArrowSchema *schema) {
    size_t n = (size_t)schema->n_children;
    const char **name = sk_alloc(SK_TAG_KERNEL, (n + 1) * sizeof *name);
    for (size_t i = 0; name && i < n; i++)
        name[i] = schema->children[i]->name ? schema->children[i]->name : "";
    return (struct sk_names){name, (uint32_t)n};
}

static bool names_fit(const struct sk_what *what, const struct ArrowSchema *const sides[2]) {
    struct sk_names names[2] = {sk_schema_names(sides[LEFT]), sk_schema_names(sides[RIGHT])};
    struct sk_join_columns columns;
    struct sk_err unused;
    /* without memory the work says so */
    bool fit = !names[LEFT].name || !names[RIGHT].name ||
               sk_join_columns(what, names, &columns, &unused) != SK_OK;
    if (!fit) {
        fit = columns.whole;
        sk_join_columns_free(&columns);
    }
    sk_free((void *)(uintptr_t)names[LEFT].name);
    sk_free((void *)(uintptr_t)names[RIGHT].name);
    return fit;
}

bool sk_work_joins(const struct sk_what *what, const struct ArrowSchema *const sides[2]) {
    if (!sides[LEFT] || !sides[RIGHT] || !names_fit(what, sides)) return false;
    for (uint32_t k = 0; k < what->n_keys; k++) {
        uint32_t at;
        const struct ArrowSchema *a = key_field(what, LEFT, sides[LEFT], k, &at),
                                 *b = key_field(what, RIGHT, sides[RIGHT], k, &at);
        if (!a || !b) return false;
        enum fit fit = fit_of(a, b);
        if (fit == FIT_NOT || (fit == FIT_ROWS && what->join.kind == SK_JOIN_FULL)) return false;
    }
    return true;
}

/* ---- opening ---- */

/* Returns zeroed memory that lives as long as the side. */
static void *keep(struct sk_join_side *side, size_t n) {
    void *p = sk_calloc(SK_TAG_KERNEL, n);
    SK_ASSERT(side->n_mem < SK_COUNT(side->mem));
    side->mem[side->n_mem++] = p;
    return p;
}

void sk_join_side_free(struct sk_join_side *side) {
    for (uint32_t i = 0; side->keys && i < side->n; i++) sk_keys_destroy(side->keys[i]);
    for (uint32_t i = 0; i < side->n_widened; i++) sk_free(side->widened[i]);
    for (uint32_t i = 0; i < side->n_mem; i++) sk_free(side->mem[i]);
}

/* Collects the batches that the slices have of one side. Batches of which only the columns are
 * wanted get no rows. */
static sk_rc collect(const struct sk_reduce_input *in, uint32_t which, struct sk_join_side *side,
                     const struct ArrowSchema **schema, const struct ArrowArray ***list,
                     struct sk_err *err) {
    uint32_t n = 0, at = 0;
    for (uint32_t s = 0; s < in->n_slices; s++)
        if (in->slices[s].side == which) n += in->slices[s].n;
    struct ArrowArray *batches = keep(side, n * sizeof *batches);
    *list = keep(side, n * sizeof **list);
    if (!batches || !*list) return no_memory(err);
    for (uint32_t s = 0; s < in->n_slices; s++) {
        const struct sk_slice *slice = &in->slices[s];
        for (uint32_t b = 0; slice->side == which && b < slice->n; b++, at++) {
            batches[at] = *slice->batches[b];
            if (slice->columns_only) batches[at].length = 0;
            (*list)[at] = &batches[at];
            if (!*schema) *schema = slice->schemas[b];
        }
    }
    side->n = n;
    return SK_OK;
}

/* Makes a column of integers of `width` bytes of one of narrower ones. The values under nulls are
 * widened, too. */
static sk_rc widen(struct sk_join_side *side, const struct ArrowArray *from, const char *format,
                   uint32_t width, struct ArrowArray *out, const void **buffers,
                   struct sk_err *err) {
    uint32_t narrow = int_width(format);
    SK_DCHECK(narrow > 0);
    size_t n = (size_t)(from->offset + from->length);
    uint8_t *to = sk_alloc(SK_TAG_KERNEL, n * width + 1);
    const uint8_t *p = from->buffers[1];
    if (!to) return no_memory(err);
    side->widened[side->n_widened++] = to;
    for (size_t i = (size_t)from->offset; i < n; i++) {
        uint64_t v = 0;
        memcpy(&v, p + i * narrow, narrow);
        if (is_signed(format) && v >> (8 * narrow - 1)) v |= UINT64_MAX << (8 * narrow);
        memcpy(to + i * width, &v, width);
    }
    *out = *from;
    out->buffers = buffers;
    buffers[0] = from->buffers[0];
    buffers[1] = to;
    return SK_OK;
}

/* Makes the key's columns of a side into batches of their own. other: the schema of the other
 * side. */
static sk_rc cut_keys(const struct sk_what *what, uint32_t which, struct sk_join_side *side,
                      const struct ArrowSchema *other, struct sk_err *err) {
    static const void *no_buffers[1] = {NULL};
    size_t n_keys = what->n_keys, n = side->n;
    struct ArrowSchema *fields = keep(side, n_keys * sizeof *fields),
                       **children = keep(side, n_keys * sizeof *children);
    struct { /* one for each batch and column, and one for each batch */
        struct ArrowArray *column, **columns, *batch;
        const void **buffers;
    } m;
    m.column = keep(side, n * n_keys *
                                  (sizeof *m.column + sizeof *m.columns + 2 * sizeof *m.buffers +
                                   sizeof *side->widened) +
                              n * (sizeof *m.batch + sizeof *side->key_batches));
    if (!fields || !children || !m.column) return no_memory(err);
    m.batch = m.column + n * n_keys;
    m.columns = (void *)(m.batch + n);
    m.buffers = (void *)(m.columns + n * n_keys);
    side->widened = (void *)(m.buffers + 2 * n * n_keys);
    side->key_batches = (void *)(side->widened + n * n_keys);
    side->key_schema = (struct ArrowSchema){
        .format = "+s", .name = "", .n_children = (int64_t)n_keys, .children = children};
    for (size_t b = 0; b < n; b++) {
        m.batch[b] = (struct ArrowArray){.length = side->batches[b]->length,
                                         .offset = side->batches[b]->offset,
                                         .n_buffers = 1,
                                         .buffers = no_buffers,
                                         .n_children = (int64_t)n_keys,
                                         .children = m.columns + b * n_keys};
        side->key_batches[b] = &m.batch[b];
    }
    for (uint32_t k = 0; k < n_keys; k++) {
        uint32_t at, unused;
        const struct ArrowSchema *mine = key_field(what, which, side->schema, k, &at),
                                 *its = key_field(what, !which, other, k, &unused);
        if (!mine || !its) return SK_ERR(err, SK_EINVAL, "a side of a join lacks key %u", k);
        uint32_t width = int_width(mine->format), wide = int_width(its->format);
        bool widens = width && width < wide && fit_of(mine, its) == FIT_WIDEN;
        fields[k] = *mine;
        fields[k].format = widens ? its->format : mine->format;
        children[k] = &fields[k];
        for (size_t b = 0; b < n; b++) {
            const struct ArrowArray *from = side->batches[b]->children[at];
            size_t i = b * n_keys + k;
            m.columns[i] = widens ? &m.column[i] : side->batches[b]->children[at];
            if (widens)
                SK_TRY(widen(side, from, mine->format, wide, &m.column[i], m.buffers + 2 * i, err));
        }
    }
    return SK_OK;
}

static sk_rc open_keys(struct sk_join_side *side, uint32_t n_keys, struct sk_err *err) {
    struct sk_key *all = keep(side, n_keys * sizeof *all);
    side->keys = keep(side, side->n * sizeof *side->keys);
    if (!all || !side->keys) return no_memory(err);
    for (uint32_t k = 0; k < n_keys; k++) all[k].column = k;
    for (uint32_t b = 0; b < side->n; b++) {
        uint64_t bytes;
        SK_TRY(sk_keys_create(&side->key_schema, side->key_batches[b], all, n_keys, &side->keys[b],
                              err));
        SK_TRY(sk_block_nbytes(side->schema, side->batches[b], &bytes, err));
        side->rows += (uint64_t)side->batches[b]->length;
        side->bytes += bytes;
    }
    return SK_OK;
}

/* Takes the key's columns that the caller has cast. */
static sk_rc take_keys(const struct sk_what *what, const struct sk_reduce_input *in, uint32_t which,
                       struct sk_join_side *side, bool *given, struct sk_err *err) {
    uint32_t n = side->n;
    const struct ArrowSchema *schema = NULL;
    SK_TRY(collect(in, SK_JOIN_KEYS + which, side, &schema, &side->key_batches, err));
    *given = schema != NULL;
    if (!schema) {
        side->n = n;
        return SK_OK;
    }
    side->key_schema = *schema;
    if (side->n != n || schema->n_children != (int64_t)what->n_keys)
        return SK_ERR(err, SK_EINVAL, "a join by %u keys: %u batches, and keys of %u with %lld",
                      what->n_keys, n, side->n, (long long)schema->n_children);
    for (uint32_t b = 0; b < n; b++)
        if (side->key_batches[b]->length != side->batches[b]->length)
            return SK_ERR(err, SK_EINVAL, "batch %u of a join has %lld rows, and keys of %lld", b,
                          (long long)side->batches[b]->length,
                          (long long)side->key_batches[b]->length);
    return SK_OK;
}

sk_rc sk_join_sides_open(const struct sk_what *what, const struct sk_reduce_input *in,
                         struct sk_join_side sides[2], struct sk_err *err) {
    for (uint32_t s = LEFT; s <= RIGHT; s++) {
        SK_TRY(collect(in, s, &sides[s], &sides[s].schema, &sides[s].batches, err));
        if (!sides[s].schema) return SK_ERR(err, SK_EINVAL, "side %u of a join has no batch", s);
    }
    for (uint32_t s = LEFT; s <= RIGHT; s++) {
        bool given;
        SK_TRY(take_keys(what, in, s, &sides[s], &given, err));
        if (!given) SK_TRY(cut_keys(what, s, &sides[s], sides[!s].schema, err));
        SK_TRY(open_keys(&sides[s], what->n_keys, err));
    }
    return SK_OK;
}
