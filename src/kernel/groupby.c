/* groupby.c - finds groups of equal keys by a hash table, and updates their states.
 *
 * The key of a group is a row: the rows of a batch that make new groups are gathered into a small
 * block, and a group's key is the place (block, row) of its row. So any type with an order may be a
 * key, dictionaries too. A slot has 8 bytes (the upper half of the hash, the number of the group).
 * The hash of each group is stored, so the table grows without reading keys. If the only key is an
 * integer, its hash is a bijection, so equal hashes are equal keys, except for the hash of null. If
 * all keys are dictionaries of few values, the group of a row is found by its codes; only the first
 * row with each combination of codes is searched by its key. Results: results.c. Memory: for each
 * group 8 to 16 bytes of slots, 16 bytes, its key and its states; for each row of the batch 12
 * bytes while the batch is read. */
#include <stdio.h>

#include "kernel/groupby.h"

enum { AHEAD = 16, FIRST = 1024 };
/* ---- creating an aggregation ---- */

static sk_rc set_schemas(struct sk_groupby *g, const struct ArrowSchema *schema,
                         struct sk_err *err) {
    for (uint32_t i = 0; i < g->n_keys; i++) {
        if (g->key[i] >= schema->n_children)
            return SK_ERR(err, SK_EINVAL, "key column %u of a batch with %lld", g->key[i],
                          (long long)schema->n_children);
        const struct ArrowSchema *s = schema->children[g->key[i]];
        g->keys_fields[i] = schema->children[g->key[i]];
        /* a field that is not nullable stays so, and states have the keys of rows */
        g->fields[i] = g->fields[g->n_columns + i] = *s;
        g->all[i].column = i;
    }
    for (uint32_t i = 0; i < g->n_aggs; i++) {
        struct sk_agg_col *a = &g->agg[i];
        if (g->collect[i]) {
            for (uint32_t p = 0; p < 2; p++)
                g->fields[p * g->n_columns + g->n_keys + i] = *sk_collect_schema(g->collect[i], p);
            g->fields[g->n_columns + g->n_keys + i].name = SK_STATE;
            continue;
        }
        snprintf(a->state_name, sizeof a->state_name, SK_STATE "%s", a->source);
        g->fields[g->n_keys + i] = (struct ArrowSchema){
            .format = a->format, .name = a->name, .flags = ARROW_FLAG_NULLABLE};
        g->fields[g->n_columns + g->n_keys + i] = (struct ArrowSchema){
            .format = "z", .name = a->state_name, .flags = ARROW_FLAG_NULLABLE};
    }
    for (uint32_t i = 0; i < 2 * g->n_columns; i++) g->children[i] = &g->fields[i];
    for (uint32_t p = 0; p < 2; p++)
        g->schema[p] = (struct ArrowSchema){.format = "+s",
                                            .name = "",
                                            .n_children = g->n_columns,
                                            .children = g->children + p * g->n_columns};
    g->keys_schema = (struct ArrowSchema){
        .format = "+s", .name = "", .n_children = g->n_keys, .children = g->keys_fields};
    return SK_OK;
}

sk_rc sk_groupby_create(const struct ArrowSchema *schema, const uint32_t *keys, uint32_t n_keys,
                        const struct sk_agg *aggs, uint32_t n_aggs, struct sk_groupby **out,
                        struct sk_err *err) {
    sk_rc rc = SK_OK;
    uint32_t n = n_keys + n_aggs;
    struct sk_groupby *g = sk_calloc(SK_TAG_KERNEL, sizeof *g);
    if (!g) return SK_ERR(err, SK_ENOMEM, "no memory for %u aggregates", n_aggs);
    g->n_keys = n_keys;
    g->n_aggs = n_aggs;
    g->n_columns = n;
    g->key = sk_memdup(SK_TAG_KERNEL, keys, n_keys * sizeof *keys);
    g->all = sk_calloc(SK_TAG_KERNEL, n_keys * sizeof *g->all);
    g->keys_fields = sk_calloc(SK_TAG_KERNEL, n_keys * sizeof(void *));
    g->fields = sk_calloc(SK_TAG_KERNEL, 2 * n * sizeof *g->fields);
    g->children = sk_calloc(SK_TAG_KERNEL, 2 * n * sizeof(void *));
    g->agg = sk_calloc(SK_TAG_KERNEL, n_aggs * sizeof *g->agg);
    g->collect = sk_calloc(SK_TAG_KERNEL, n_aggs * sizeof(void *));
    if (!g->collect || !g->key || !g->all || !g->keys_fields || !g->fields || !g->children ||
        !g->agg)
        SK_GO(SK_NO_GROUPS(g));
    for (uint32_t i = 0; i < n_aggs; i++) {
        bool column = aggs[i].column != SK_AGG_ROWS;
        if (column && aggs[i].column >= schema->n_children)
            SK_GO(SK_ERR(err, SK_EINVAL, "column %u of a batch with %lld", aggs[i].column,
                         (long long)schema->n_children));
        if (sk_agg_facts(aggs[i].kind)->result == SK_GIVES_KEPT) {
            if (!column) SK_GO(SK_ERR(err, SK_EINVAL, "'%s': it needs a column", aggs[i].name));
            g->agg[i].agg = aggs[i];
            SK_GO(sk_collect_create(&aggs[i], schema->children[aggs[i].column], !n_keys,
                                    &g->collect[i], err));
        } else
            SK_GO(sk_agg_col_init(&g->agg[i], &aggs[i],
                                  column ? schema->children[aggs[i].column] : NULL, err));
    }
    SK_GO(set_schemas(g, schema, err));
    *out = g;
out:
    if (rc) sk_groupby_destroy(g);
    return rc;
}

void sk_keys_block_drop(struct sk_keys_block *b) {
    sk_keys_destroy(b->keys);
    sk_held_free(&b->held);
}

void sk_built_drop(struct sk_built *b, uint32_t n) {
    for (uint32_t i = 0; b->buffers && i < 3 * n; i++) sk_free((void *)(uintptr_t)b->buffers[i]);
    sk_free(b->buffers);
    sk_free(b->columns);
    sk_free(b->children);
    sk_free(b->keys);
    sk_free(b->rows);
    sk_free(b->groups);
    sk_free(b->blocks);
    sk_free(b->picks);
    *b = (struct sk_built){.columns = NULL};
}

void sk_groupby_clear(struct sk_groupby *g) {
    sk_built_drop(&g->out, g->n_aggs);
    for (uint32_t i = 0; g->agg && i < g->n_aggs; i++) {
        struct sk_agg_col *a = &g->agg[i];
        for (uint64_t s = 0; a->text && s < g->n; s++)
            sk_free(((struct sk_agg_text *)(void *)(a->states + s * a->size))->p);
        sk_free(a->states);
        a->states = NULL;
        if (g->collect && g->collect[i]) sk_collect_clear(g->collect[i]);
    }
    for (uint32_t i = 0; i < g->blocks.n; i++) sk_keys_block_drop(&g->blocks.p[i]);
    sk_vec_free(&g->blocks);
    sk_free(g->slots);
    sk_free(g->hash);
    sk_free(g->place);
    g->slots = NULL;
    g->hash = NULL;
    g->place = NULL;
    g->n = g->cap = g->rows = g->mask = g->kept = 0;
}

void sk_groupby_destroy(struct sk_groupby *g) {
    if (!g) return;
    sk_groupby_clear(g);
    for (uint32_t i = 0; g->collect && i < g->n_aggs; i++) sk_collect_destroy(g->collect[i]);
    sk_free(g->collect);
    sk_free(g->key);
    sk_free(g->all);
    sk_free(g->keys_fields);
    sk_free(g->fields);
    sk_free(g->children);
    sk_free(g->agg);
    sk_free(g);
}

uint64_t sk_groupby_rows(const struct sk_groupby *g) { return g->rows; }
uint64_t sk_groupby_groups(const struct sk_groupby *g) { return g->n; }

enum {
    SLOTS = 4 * sizeof(struct sk_group_slot),
    PLACES = 2 * (sizeof(uint64_t) + sizeof(struct sk_row_at))
}; /* bytes of each group besides key and states; arrays may have room for twice as many groups */

uint64_t sk_groupby_group_bytes(const struct sk_groupby *g) {
    uint64_t bytes = SLOTS + PLACES;
    for (uint32_t i = 0; i < g->n_aggs; i++) bytes += g->collect[i] ? 0 : 2 * g->agg[i].size;
    return bytes;
}

uint64_t sk_groupby_bytes(const struct sk_groupby *g, uint64_t *kept) {
    uint64_t sum = g->kept;
    for (uint32_t i = 0; i < g->n_aggs; i++) {
        const struct sk_agg_col *a = &g->agg[i];
        if (g->collect[i]) sum += sk_collect_bytes(g->collect[i]);
        for (uint64_t s = 0; !g->collect[i] && a->text && s < g->n; s++)
            sum += ((const struct sk_agg_text *)(const void *)(a->states + s * a->size))->cap;
    }
    if (kept) *kept = sum;
    return sum + g->n * sk_groupby_group_bytes(g);
}

const struct ArrowSchema *sk_groupby_schema(const struct sk_groupby *g, bool partial) {
    return &g->schema[partial];
}

/* ---- making room for groups ---- */

static bool grow(void **p, uint64_t have, uint64_t cap, size_t each) {
    void *to = sk_alloc_large(SK_TAG_KERNEL, (size_t)cap * each);
    if (!to) return false;
    if (*p) memcpy(to, *p, (size_t)have * each);
    sk_free(*p);
    *p = to;
    return true;
}

/* Makes room for `more` groups, whose states are not initialised yet. */
static bool reserve(struct sk_groupby *g, uint64_t more) {
    uint64_t cap = SK_MAX(g->cap, FIRST);
    while (cap < g->n + more) cap *= 2;
    if (cap == g->cap) return true;
    if (!grow((void **)&g->hash, g->n, cap, sizeof *g->hash) ||
        !grow((void **)&g->place, g->n, cap, sizeof *g->place))
        return false;
    for (uint32_t i = 0; i < g->n_aggs; i++)
        if (!g->collect[i] && !grow((void **)&g->agg[i].states, g->n, cap, g->agg[i].size))
            return false;
    g->cap = cap;
    return true;
}

/* Grows the table to at least twice as many slots as `groups`. */
static bool rehash(struct sk_groupby *g, uint64_t groups) {
    uint64_t slots = 2 * FIRST;
    while (slots < 2 * groups) slots *= 2;
    if (g->slots && g->mask + 1 >= slots) return true;
    struct sk_group_slot *s = sk_alloc_large(SK_TAG_KERNEL, (size_t)slots * sizeof *s);
    if (!s) return false;
    memset(s, 0, (size_t)slots * sizeof *s);
    for (uint64_t i = 0; i < g->n; i++) {
        uint64_t at = g->hash[i] & (slots - 1);
        while (s[at].group) at = (at + 1) & (slots - 1);
        s[at] = (struct sk_group_slot){(uint32_t)(g->hash[i] >> 32), (uint32_t)i + 1};
    }
    sk_free(g->slots);
    g->slots = s;
    g->mask = slots - 1;
    return true;
}

static void new_group(struct sk_groupby *g, uint64_t hash, struct sk_row_at place) {
    g->hash[g->n] = hash;
    g->place[g->n] = place;
    for (uint32_t i = 0; i < g->n_aggs; i++)
        if (!g->collect[i]) sk_agg_zero(&g->agg[i], g->agg[i].states + g->n * g->agg[i].size);
    g->n++;
}

/* ---- finding the groups of rows ---- */

struct lookup {
    const struct sk_keys *keys;
    /* hash: of each row; null: the hash of null, if the only key is an integer */
    uint64_t *hash, null;
    uint32_t *ids, *fresh, n_fresh; /* ids: the group of each row; fresh: rows that made a group */
    bool number;
};

static bool same_key(const struct sk_groupby *g, const struct lookup *l, uint64_t row,
                     uint32_t group) {
    if (g->hash[group] != l->hash[row]) return false;
    if (l->number && l->hash[row] != l->null) return true;
    struct sk_row_at p = g->place[group];
    if (p.run == g->blocks.n) return !sk_keys_compare(l->keys, row, l->keys, l->fresh[p.row]);
    return !sk_keys_compare(l->keys, row, g->blocks.p[p.run].keys, p.row);
}

static bool find(struct sk_groupby *g, struct lookup *l, uint64_t row) {
    uint64_t h = l->hash[row], at = h & g->mask;
    for (; g->slots[at].group; at = (at + 1) & g->mask)
        if (g->slots[at].tag == (uint32_t)(h >> 32) &&
            same_key(g, l, row, g->slots[at].group - 1)) {
            l->ids[row] = g->slots[at].group - 1;
            return true;
        }
    if (g->n == g->cap && !reserve(g, 1)) return false;
    g->slots[at] = (struct sk_group_slot){(uint32_t)(h >> 32), (uint32_t)g->n + 1};
    l->ids[row] = (uint32_t)g->n;
    new_group(g, h, (struct sk_row_at){g->blocks.n, l->n_fresh});
    l->fresh[l->n_fresh++] = (uint32_t)row;
    return 2 * g->n <= g->mask || rehash(g, 2 * g->n);
}

/* Gives equal keys equal bytes: 0.0 for -0.0 (unless zeros_as_seen), one NaN for all, zeros in null
 * slots. So results do not depend on which row of a group was first. */
static void make_plain(const struct sk_keys_block *b, uint32_t n_keys, bool zeros_as_seen) {
    for (uint32_t i = 0; i < n_keys; i++) {
        const struct sk_key_col *c = &b->keys->col[i];
        uint8_t *p = (uint8_t *)(uintptr_t)c->data;
        if (c->code || c->kind == SK_KEY_NULL || c->kind >= SK_KEY_VAR) continue;
        for (uint64_t row = 0; row < b->keys->rows; row++, p += c->width) {
            enum sk_key_class class = sk_key_class(c, sk_key_at(c, row));
            uint64_t nan = c->width == 8   ? UINT64_C(0x7FF8) << 48
                           : c->width == 4 ? 0x7FC00000
                                           : 0x7E00;
            if (c->kind == SK_KEY_BOOL) {
                uint8_t *byte = (uint8_t *)(uintptr_t)c->data + row / 8;
                if (class == SK_CLASS_NULL) *byte = (uint8_t)(*byte & ~(1u << (row & 7)));
            } else if (class == SK_CLASS_NULL) memset(p, 0, c->width);
            else if (class == SK_CLASS_NAN) memcpy(p, &nan, c->width);
            else if (c->kind == SK_KEY_FLOAT && !zeros_as_seen && !(sk_float_top(p, c->width) << 1))
                memset(p, 0, c->width);
        }
    }
}

/* Copies the keys of the rows that made groups into a new block of the aggregation. */
static sk_rc keep_keys(struct sk_groupby *g, const struct ArrowArray *keys, const uint32_t *fresh,
                       uint32_t n, struct sk_err *err) {
    struct sk_block_plan *plan = NULL;
    struct sk_keys_block b = {.keys = NULL};
    uint64_t size;
    sk_rc rc;
    SK_TRY(sk_block_measure_rows(&g->keys_schema, keys, fresh, n, &plan, &size, err));
    SK_TRY(sk_held_make(&b.held, plan, size, err));
    SK_GO(sk_keys_create(&b.held.schema, &b.held.array, g->all, g->n_keys, &b.keys, err));
    make_plain(&b, g->n_keys, g->zeros_as_seen);
    if (!sk_vec_push(&g->blocks, SK_TAG_KERNEL, b)) rc = SK_NO_GROUPS(g);
    else g->kept += size;
out:
    if (rc) sk_keys_block_drop(&b);
    return rc;
}

/* Returns the number of combinations of the dictionaries' codes, nulls included; 0: a key is not a
 * dictionary, or there are more combinations than rows. */
static uint64_t combinations(const struct sk_keys *k) {
    uint64_t n = 1;
    for (uint32_t i = 0; i < k->n && n && n <= k->rows; i++) {
        const struct sk_key_col *c = &k->col[i];
        n = c->code && (uint64_t)c->n_values < k->rows ? n * ((uint64_t)c->n_values + 1) : 0;
    }
    return n <= k->rows ? n : 0;
}

/* Sets out[row] = out[row] * (values + 1) + code for all rows; null has the code behind all
 * others. */
SK_INLINE void add_codes(const struct sk_key_col *c, char code, uint64_t rows, uint32_t *out) {
    struct sk_key_col as = *c; /* a copy, so that its `code` letter is a constant in the loops */
    uint32_t n = (uint32_t)c->n_values;
    as.code = code;
    if (!c->codes_valid)
        for (uint64_t i = 0; i < rows; i++)
            out[i] = out[i] * (n + 1) + (uint32_t)sk_key_code(&as, c->codes_offset + (int64_t)i);
    else
        for (uint64_t i = 0; i < rows; i++) {
            int64_t at = c->codes_offset + (int64_t)i;
            out[i] = out[i] * (n + 1) +
                     (sk_bit(c->codes_valid, at) ? (uint32_t)sk_key_code(&as, at) : n);
        }
}

/* Finds the groups of rows by their codes; n is combinations(). */
static sk_rc look_up_codes(struct sk_groupby *g, struct lookup *l, uint64_t rows, uint64_t n,
                           struct sk_err *err) {
    /* [n]: 1 + the group of each combination; 0: the combination was not seen yet */
    uint32_t *group = sk_calloc(SK_TAG_KERNEL, n * sizeof *group);
    sk_rc rc = group ? SK_OK : SK_NO_GROUPS(g);
    if (rc) return rc;
    memset(l->ids, 0, rows * sizeof *l->ids);
    for (uint32_t i = 0; i < l->keys->n; i++) {
        const struct sk_key_col *c = &l->keys->col[i];
        /* these are the types of codes that Parquet's reader and pandas use */
        if (c->code == 'i') add_codes(c, 'i', rows, l->ids);
        else if (c->code == 'c') add_codes(c, 'c', rows, l->ids);
        else add_codes(c, c->code, rows, l->ids);
    }
    for (uint64_t i = 0; i < rows; i++) {
        uint32_t at = l->ids[i];
        if (SK_UNLIKELY(at >= n))
            SK_GO(SK_ERR(err, SK_EINVAL, "row %llu of a key has a code beyond its dictionary",
                         (unsigned long long)i));
        if (SK_UNLIKELY(!group[at])) {
            l->hash[i] = sk_keys_hash_row(l->keys, i);
            if (!find(g, l, i)) SK_GO(SK_NO_GROUPS(g));
            group[at] = l->ids[i] + 1;
        }
        l->ids[i] = group[at] - 1;
    }
out:
    sk_free(group);
    return rc;
}

static sk_rc look_up(struct sk_groupby *g, struct lookup *l, uint64_t rows, struct sk_err *err) {
    const struct sk_key_col *c = &l->keys->col[0];
    l->number = l->keys->n == 1 &&
                (c->kind == SK_KEY_INT || c->kind == SK_KEY_UINT || c->kind == SK_KEY_BOOL);
    l->null = sk_hash_null();
    if (!rehash(g, g->n)) return SK_NO_GROUPS(g);
    uint64_t n = combinations(l->keys);
    if (n) return look_up_codes(g, l, rows, n, err);
    sk_keys_hash(l->keys, l->hash);
    for (uint64_t i = 0; i < rows; i++) {
        if (i + AHEAD < rows) __builtin_prefetch(&g->slots[l->hash[i + AHEAD] & g->mask]);
        if (!find(g, l, i)) return SK_NO_GROUPS(g);
    }
    return SK_OK;
}

/* Finds ids[row], the group of each row, in a batch whose key columns are `keys`. Without keys all
 * rows are in group 0, and ids is not written. */
static sk_rc group_rows(struct sk_groupby *g, const struct ArrowArray *keys, uint32_t *ids,
                        struct sk_err *err) {
    uint64_t rows = (uint64_t)keys->length;
    struct sk_keys *k = NULL;
    struct lookup l = {.ids = ids};
    sk_rc rc;
    if (rows > UINT32_MAX - 1 - g->n)
        return SK_ERR(err, SK_EINVAL, "more than 2^32 - 2 groups or rows in one aggregation");
    if (!g->n_keys) { /* without keys one group has all rows */
        if (!g->n && !reserve(g, 1)) return SK_NO_GROUPS(g);
        if (!g->n && rows) new_group(g, 0, (struct sk_row_at){SK_ROW_NONE, 0});
        return SK_OK;
    }
    SK_TRY(sk_keys_create(&g->keys_schema, keys, g->all, g->n_keys, &k, err));
    l.keys = k;
    l.hash = sk_alloc_large(SK_TAG_KERNEL, (size_t)rows * sizeof *l.hash);
    l.fresh = sk_alloc_large(SK_TAG_KERNEL, (size_t)rows * sizeof *l.fresh);
    if (!l.hash || !l.fresh) SK_GO(SK_NO_GROUPS(g));
    if (!g->n) SK_GO(reserve(g, 1) ? SK_OK : SK_NO_GROUPS(g));
    SK_GO(look_up(g, &l, rows, err));
    if (l.n_fresh) rc = keep_keys(g, keys, l.fresh, l.n_fresh, err);
out:
    sk_free(l.hash);
    sk_free(l.fresh);
    sk_keys_destroy(k);
    return rc;
}

/* ---- adding rows and partial results --------------------------------------------------------- */

/* Makes a batch of the key columns of a batch. In a partial result they are the first columns. */
static sk_rc keys_of(const struct sk_groupby *g, const struct ArrowArray *batch, bool partial,
                     struct ArrowArray *out, struct ArrowArray **children, struct sk_err *err) {
    static const void *none[1] = {NULL};
    for (uint32_t i = 0; i < g->n_keys; i++) {
        uint32_t c = partial ? i : g->key[i];
        if (c >= batch->n_children)
            return SK_ERR(err, SK_EINVAL, "key column %u of a batch with %lld", c,
                          (long long)batch->n_children);
        children[i] = batch->children[c];
    }
    *out = (struct ArrowArray){.length = batch->length,
                               .offset = batch->offset,
                               .n_buffers = 1,
                               .buffers = none,
                               .n_children = g->n_keys,
                               .children = children};
    return SK_OK;
}

/* Finds the groups of a batch's rows: *ids[row]. Without keys *ids is NULL, until zeros() allocates
 * the array. */
static sk_rc begin_rows(struct sk_groupby *g, const struct ArrowArray *batch, bool partial,
                        uint32_t **ids, struct sk_err *err) {
    struct ArrowArray keys, **children;
    sk_rc rc;
    *ids = NULL;
    sk_built_drop(&g->out, g->n_aggs);
    children = sk_calloc(SK_TAG_KERNEL, g->n_keys * sizeof *children);
    if (g->n_keys) *ids = sk_alloc_large(SK_TAG_KERNEL, (size_t)batch->length * sizeof **ids);
    if (!children || (g->n_keys && !*ids)) SK_GO(SK_NO_GROUPS(g));
    SK_GO(keys_of(g, batch, partial, &keys, children, err));
    SK_GO(group_rows(g, &keys, *ids, err));
    g->rows += (uint64_t)batch->length;
out:
    sk_free(children);
    return rc;
}

static sk_rc zeros(const struct sk_groupby *g, uint64_t rows, uint32_t **ids, struct sk_err *err) {
    if (*ids) return SK_OK;
    *ids = sk_alloc_large(SK_TAG_KERNEL, (size_t)rows * sizeof **ids);
    if (!*ids) return SK_NO_GROUPS(g);
    if (rows) memset(*ids, 0, rows * sizeof **ids);
    return SK_OK;
}

static sk_rc update_states(const struct sk_groupby *g, const struct sk_agg_col *a,
                           const struct sk_key_col *c, uint64_t rows, uint32_t **ids,
                           struct sk_err *err) {
    if (sk_agg_needs_ids(a, c, rows, g->n)) SK_TRY(zeros(g, rows, ids, err));
    return sk_agg_update(a, c, *ids, rows, g->n) ? SK_OK : SK_NO_GROUPS(g);
}

/* Opens the column that an aggregate reads; of a column whose type has no order, only the validity
 * bitmap is read. */
static sk_rc update_column(struct sk_groupby *g, uint32_t i, const struct ArrowSchema *schema,
                           const struct ArrowArray *batch, uint32_t **ids, struct sk_err *err) {
    const struct sk_agg_col *a = &g->agg[i];
    uint64_t rows = (uint64_t)batch->length;
    if (a->agg.column == SK_AGG_ROWS) return update_states(g, a, NULL, rows, ids, err);
    if (a->agg.column >= batch->n_children)
        return SK_ERR(err, SK_EINVAL, "column %u of a batch with %lld", a->agg.column,
                      (long long)batch->n_children);
    if (g->collect[i]) {
        SK_TRY(zeros(g, rows, ids, err));
        return sk_collect_add(g->collect[i], batch->children[a->agg.column], batch->offset,
                              batch->length, *ids, err);
    }
    if (a->nested) {
        const struct ArrowArray *of = batch->children[a->agg.column];
        bool bitmap =
            of->null_count && of->n_buffers && schema->children[a->agg.column]->format[1] != 'u';
        struct sk_key_col c = {.kind = SK_KEY_FIXED,
                               .valid = bitmap ? of->buffers[0] : NULL,
                               .offset = of->offset + batch->offset};
        return update_states(g, a, &c, rows, ids, err);
    }
    struct sk_keys *k;
    SK_TRY(sk_keys_create(schema, batch, &(struct sk_key){.column = a->agg.column}, 1, &k, err));
    sk_rc rc = update_states(g, a, &k->col[0], rows, ids, err);
    sk_keys_destroy(k);
    return rc;
}

sk_rc sk_groupby_update(struct sk_groupby *g, const struct ArrowSchema *schema,
                        const struct ArrowArray *batch, struct sk_err *err) {
    uint32_t *ids;
    sk_rc rc = begin_rows(g, batch, false, &ids, err);
    for (uint32_t i = 0; rc == SK_OK && i < g->n_aggs; i++)
        rc = update_column(g, i, schema, batch, &ids, err);
    sk_free(ids);
    return rc;
}

/* Parses the type of the values from which a column of states was made. *same: that type is the
 * type of the column of `a`. */
static sk_rc source_of(const struct sk_agg_col *a, const struct ArrowSchema *s,
                       struct sk_agg_col *from, bool *same, struct sk_err *err) {
    size_t n = strlen(SK_STATE);
    if (strcmp(s->format, "z") != 0 || !s->name || strncmp(s->name, SK_STATE, n) != 0)
        return SK_ERR(err, SK_EINVAL, "'%s': a column that is no state of this aggregate", a->name);
    *same = !strcmp(s->name + n, a->source);
    return *same
               ? SK_OK
               : sk_agg_col_init(from, &a->agg, &(struct ArrowSchema){.format = s->name + n}, err);
}

static sk_rc merge_column(struct sk_groupby *g, const struct sk_agg_col *a,
                          const struct ArrowSchema *schema, const struct ArrowArray *batch,
                          const struct ArrowArray *column, const uint32_t *ids,
                          struct sk_err *err) {
    uint8_t state[SK_AGG_MOST] __attribute__((aligned(16))),
        lifted[SK_AGG_MOST] __attribute__((aligned(16)));
    struct sk_agg_col source;
    bool same;
    SK_TRY(source_of(a, schema, &source, &same, err));
    const int32_t *offsets = column->buffers[1];
    int64_t at = column->offset + batch->offset;
    for (int64_t i = 0; i < batch->length; i++) {
        struct sk_bytes b = {(const uint8_t *)column->buffers[2] + offsets[at + i],
                             (size_t)(offsets[at + i + 1] - offsets[at + i])};
        if (!sk_agg_decode(same ? a : &source, b, state))
            return SK_ERR(err, SK_EINVAL, "'%s': row %lld is no state of this aggregate", a->name,
                          (long long)i);
        if (!same) SK_TRY(sk_agg_lift(a, &source, state, lifted, err));
        if (!sk_agg_merge(a, a->states + ids[i] * a->size, same ? state : lifted))
            return SK_NO_GROUPS(g);
    }
    return SK_OK;
}

sk_rc sk_groupby_merge(struct sk_groupby *g, const struct ArrowSchema *schema,
                       const struct ArrowArray *partial, struct sk_err *err) {
    uint32_t *ids;
    if (partial->n_children != g->n_columns || schema->n_children != g->n_columns)
        return SK_ERR(err, SK_EINVAL, "a partial result of %lld columns, not %u",
                      (long long)partial->n_children, g->n_columns);
    sk_rc rc = begin_rows(g, partial, true, &ids, err);
    if (rc == SK_OK) rc = zeros(g, (uint64_t)partial->length, &ids, err);
    for (uint32_t i = 0; rc == SK_OK && i < g->n_aggs; i++) {
        const struct ArrowArray *column = partial->children[g->n_keys + i];
        if (g->collect[i])
            rc =
                sk_collect_merge(g->collect[i], column, partial->offset, partial->length, ids, err);
        else
            rc = merge_column(g, &g->agg[i], schema->children[g->n_keys + i], partial, column, ids,
                              err);
    }
    sk_free(ids);
    return rc;
}
