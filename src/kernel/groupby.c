/* groupby.c - groups of equal keys in a hash table, and their states.
 *
 * Keys of groups are rows: those of a batch that are new are gathered into a small block of their own, so a group is a place (block, row) and any type that
 * has an order may be a key, dictionaries too. A slot is 8 bytes (the high half of the hash, the number of the group); groups keep their hash, so a
 * table that grows does not look at keys. Where the only key is a number its hash is a bijection and decides alone, but for what null and NaN hash to.
 * Results are laid out by the block layer: keys gathered from the blocks, columns of results beside them.
 * Memory: 8 to 16 bytes of slots, 16 bytes, the key and the states a group; 12 bytes a row of the batch while it is read. */
#include "base/vec.h"
#include "kernel/agg.h"
#include "kernel/collect.h"

enum { AHEAD = 16, FIRST = 1024 };

struct slot {
    uint32_t tag, group; /* group 0: free; else its number + 1 */
};

struct keys_block { /* of groups that one batch brought */
    struct sk_held held;
    struct sk_keys *keys;
};

struct built { /* columns of results, as one batch beside the keys */
    struct ArrowArray array, *columns;
    struct ArrowArray **children;
    const void **buffers; /* 3 a column */
    const void *none[1];
    struct sk_place *keys, *rows, *groups; /* groups: rows of what is collected, which lies in the order of groups */
    const struct ArrowArray **blocks;
    struct sk_block_pick *picks;
};

struct sk_groupby {
    uint32_t n_keys, n_aggs, n_columns;
    struct ArrowSchema keys_schema, **keys_fields;     /* the key columns alone */
    struct ArrowSchema schema[2], *fields, **children; /* of results and of partials; n_columns fields each */
    uint32_t *key;                                     /* their columns in a batch */
    struct sk_agg_col *agg;
    struct sk_collect **collect; /* of each aggregate; NULL: it has states */
    struct sk_key *all;          /* n_keys keys: columns 0, 1, ... */
    bool each;                   /* groups were not looked up: only partials come of them */
    uint64_t n, cap, rows, mask;
    struct slot *slots;
    uint64_t *hash;
    struct sk_place *place;
    SK_VEC(struct keys_block) blocks;
    struct built out;
};

#define NO_MEMORY(g) SK_ERR(err, SK_ENOMEM, "no memory to aggregate %llu groups", (unsigned long long)(g)->n)

/* ---- creation ---- */

static sk_rc set_schemas(struct sk_groupby *g, const struct ArrowSchema *schema, struct sk_err *err) {
    for (uint32_t i = 0; i < g->n_keys; i++) {
        if (g->key[i] >= schema->n_children)
            return SK_ERR(err, SK_EINVAL, "key column %u of a batch with %lld", g->key[i], (long long)schema->n_children);
        const struct ArrowSchema *s = schema->children[g->key[i]];
        g->keys_fields[i] = schema->children[g->key[i]];
        g->fields[i] = g->fields[g->n_columns + i] = *s;
        g->fields[i].flags |= ARROW_FLAG_NULLABLE;
        g->fields[g->n_columns + i].flags |= ARROW_FLAG_NULLABLE;
        g->all[i].column = i;
    }
    for (uint32_t i = 0; i < g->n_aggs; i++) {
        struct sk_agg_col *a = &g->agg[i];
        if (g->collect[i]) {
            for (uint32_t p = 0; p < 2; p++) g->fields[p * g->n_columns + g->n_keys + i] = *sk_collect_schema(g->collect[i], p);
            continue;
        }
        int64_t nullable = a->agg.kind == SK_AGG_COUNT ? 0 : ARROW_FLAG_NULLABLE;
        g->fields[g->n_keys + i] = (struct ArrowSchema){.format = a->format, .name = a->name, .flags = nullable};
        g->fields[g->n_columns + g->n_keys + i] = (struct ArrowSchema){.format = "z", .name = a->name};
    }
    for (uint32_t i = 0; i < 2 * g->n_columns; i++) g->children[i] = &g->fields[i];
    for (uint32_t p = 0; p < 2; p++)
        g->schema[p] =
            (struct ArrowSchema){.format = "+s", .name = "", .n_children = g->n_columns, .children = g->children + p * g->n_columns};
    g->keys_schema = (struct ArrowSchema){.format = "+s", .name = "", .n_children = g->n_keys, .children = g->keys_fields};
    return SK_OK;
}

sk_rc sk_groupby_create(const struct ArrowSchema *schema, const uint32_t *keys, uint32_t n_keys, const struct sk_agg *aggs, uint32_t n_aggs,
                        struct sk_groupby **out, struct sk_err *err) {
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
    if (!g->collect || !g->key || !g->all || !g->keys_fields || !g->fields || !g->children || !g->agg) SK_GO(NO_MEMORY(g));
    for (uint32_t i = 0; i < n_aggs; i++) {
        bool column = aggs[i].column != SK_AGG_ROWS;
        if (column && aggs[i].column >= schema->n_children)
            SK_GO(SK_ERR(err, SK_EINVAL, "column %u of a batch with %lld", aggs[i].column, (long long)schema->n_children));
        if (column && aggs[i].kind >= SK_AGG_LIST) {
            g->agg[i].agg = aggs[i];
            SK_GO(sk_collect_create(&aggs[i], schema->children[aggs[i].column], &g->collect[i], err));
        } else SK_GO(sk_agg_col_init(&g->agg[i], &aggs[i], column ? schema->children[aggs[i].column] : NULL, err));
    }
    SK_GO(set_schemas(g, schema, err));
    *out = g;
out:
    if (rc) sk_groupby_destroy(g);
    return rc;
}

static void drop_block(struct keys_block *b) {
    sk_keys_destroy(b->keys);
    sk_held_free(&b->held);
}

static void drop_built(struct built *b, uint32_t n) {
    for (uint32_t i = 0; b->buffers && i < 3 * n; i++) sk_free((void *)(uintptr_t)b->buffers[i]);
    sk_free(b->buffers);
    sk_free(b->columns);
    sk_free(b->children);
    sk_free(b->keys);
    sk_free(b->rows);
    sk_free(b->groups);
    sk_free(b->blocks);
    sk_free(b->picks);
    *b = (struct built){.columns = NULL};
}

void sk_groupby_clear(struct sk_groupby *g) {
    drop_built(&g->out, g->n_aggs);
    for (uint32_t i = 0; g->agg && i < g->n_aggs; i++) {
        struct sk_agg_col *a = &g->agg[i];
        for (uint64_t s = 0; a->text && s < g->n; s++) sk_free(((struct sk_agg_text *)(void *)(a->states + s * a->size))->p);
        sk_free(a->states);
        a->states = NULL;
        if (g->collect && g->collect[i]) sk_collect_clear(g->collect[i]);
    }
    for (uint32_t i = 0; i < g->blocks.n; i++) drop_block(&g->blocks.p[i]);
    sk_vec_free(&g->blocks);
    sk_free(g->slots);
    sk_free(g->hash);
    sk_free(g->place);
    g->slots = NULL;
    g->hash = NULL;
    g->place = NULL;
    g->n = g->cap = g->rows = g->mask = 0;
    g->each = false;
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
const struct ArrowSchema *sk_groupby_schema(const struct sk_groupby *g, bool partial) { return &g->schema[partial]; }

/* ---- room ---- */

static bool grow(void **p, uint64_t have, uint64_t cap, size_t each) {
    void *to = sk_alloc_large(SK_TAG_KERNEL, (size_t)cap * each);
    if (!to) return false;
    if (*p) memcpy(to, *p, (size_t)have * each);
    sk_free(*p);
    *p = to;
    return true;
}

/* Room for `more` groups; states of those beyond g->n are not set. */
static bool reserve(struct sk_groupby *g, uint64_t more) {
    uint64_t cap = SK_MAX(g->cap, FIRST);
    while (cap < g->n + more) cap *= 2;
    if (cap == g->cap) return true;
    if (!grow((void **)&g->hash, g->n, cap, sizeof *g->hash) || !grow((void **)&g->place, g->n, cap, sizeof *g->place)) return false;
    for (uint32_t i = 0; i < g->n_aggs; i++)
        if (!g->collect[i] && !grow((void **)&g->agg[i].states, g->n, cap, g->agg[i].size)) return false;
    g->cap = cap;
    return true;
}

/* Twice as many slots as groups can be. */
static bool rehash(struct sk_groupby *g, uint64_t groups) {
    uint64_t slots = 2 * FIRST;
    while (slots < 2 * groups) slots *= 2;
    if (g->slots && g->mask + 1 >= slots) return true;
    struct slot *s = sk_alloc_large(SK_TAG_KERNEL, (size_t)slots * sizeof *s);
    if (!s) return false;
    memset(s, 0, (size_t)slots * sizeof *s);
    for (uint64_t i = 0; i < g->n; i++) {
        uint64_t at = g->hash[i] & (slots - 1);
        while (s[at].group) at = (at + 1) & (slots - 1);
        s[at] = (struct slot){(uint32_t)(g->hash[i] >> 32), (uint32_t)i + 1};
    }
    sk_free(g->slots);
    g->slots = s;
    g->mask = slots - 1;
    return true;
}

static void new_group(struct sk_groupby *g, uint64_t hash, struct sk_place place) {
    g->hash[g->n] = hash;
    g->place[g->n] = place;
    for (uint32_t i = 0; i < g->n_aggs; i++)
        if (!g->collect[i]) sk_agg_zero(&g->agg[i], g->agg[i].states + g->n * g->agg[i].size);
    g->n++;
}

/* ---- looking up ---- */

struct lookup {
    const struct sk_keys *keys;
    uint64_t *hash, odd[2];         /* odd: what null and NaN hash to, if the only key is a number */
    uint32_t *ids, *fresh, n_fresh; /* fresh: rows that made a group */
    bool number;
};

static bool same_key(const struct sk_groupby *g, const struct lookup *l, uint64_t row, uint32_t group) {
    if (g->hash[group] != l->hash[row]) return false;
    if (l->number && l->hash[row] != l->odd[0] && l->hash[row] != l->odd[1]) return true;
    struct sk_place p = g->place[group];
    if (p.run == g->blocks.n) return !sk_keys_compare(l->keys, row, l->keys, l->fresh[p.row]);
    return !sk_keys_compare(l->keys, row, g->blocks.p[p.run].keys, p.row);
}

static bool find(struct sk_groupby *g, struct lookup *l, uint64_t row) {
    uint64_t h = l->hash[row], at = h & g->mask;
    for (; g->slots[at].group; at = (at + 1) & g->mask)
        if (g->slots[at].tag == (uint32_t)(h >> 32) && same_key(g, l, row, g->slots[at].group - 1)) {
            l->ids[row] = g->slots[at].group - 1;
            return true;
        }
    if (g->n == g->cap && !reserve(g, 1)) return false;
    g->slots[at] = (struct slot){(uint32_t)(h >> 32), (uint32_t)g->n + 1};
    l->ids[row] = (uint32_t)g->n;
    new_group(g, h, (struct sk_place){g->blocks.n, l->n_fresh});
    l->fresh[l->n_fresh++] = (uint32_t)row;
    return 2 * g->n <= g->mask || rehash(g, 2 * g->n);
}

/* One form of what is one key: 0.0 for -0.0, one NaN, zeros under null; so that results do not depend on which row was first. */
static void make_plain(const struct keys_block *b, uint32_t n_keys) {
    for (uint32_t i = 0; i < n_keys; i++) {
        const struct sk_key_col *c = &b->keys->col[i];
        uint8_t *p = (uint8_t *)(uintptr_t)c->data;
        if (c->code || c->kind == SK_KEY_NULL || c->kind >= SK_KEY_VAR) continue;
        for (uint64_t row = 0; row < b->keys->rows; row++, p += c->width) {
            enum sk_key_class class = sk_key_class(c, sk_key_at(c, row));
            uint64_t nan = c->width == 8 ? UINT64_C(0x7FF8) << 48 : c->width == 4 ? 0x7FC00000 : 0x7E00;
            if (c->kind == SK_KEY_BOOL) {
                uint8_t *byte = (uint8_t *)(uintptr_t)c->data + row / 8;
                if (class == SK_CLASS_NULL) *byte = (uint8_t)(*byte & ~(1u << (row & 7)));
            } else if (class == SK_CLASS_NULL) memset(p, 0, c->width);
            else if (class == SK_CLASS_NAN) memcpy(p, &nan, c->width);
            else if (c->kind == SK_KEY_FLOAT && !(sk_float_top(p, c->width) << 1)) memset(p, 0, c->width);
        }
    }
}

/* The rows that made groups, as a block that stays. */
static sk_rc keep_keys(struct sk_groupby *g, const struct ArrowArray *keys, const uint32_t *fresh, uint32_t n, struct sk_err *err) {
    struct sk_block_plan *plan = NULL;
    struct keys_block b = {.keys = NULL};
    uint64_t size;
    sk_rc rc;
    SK_TRY(sk_block_measure_rows(&g->keys_schema, keys, fresh, n, &plan, &size, err));
    SK_TRY(sk_held_make(&b.held, plan, size, err));
    SK_GO(sk_keys_create(&b.held.schema, &b.held.array, g->all, g->n_keys, &b.keys, err));
    make_plain(&b, g->n_keys);
    if (!sk_vec_push(&g->blocks, SK_TAG_KERNEL, b)) rc = NO_MEMORY(g);
out:
    if (rc) drop_block(&b);
    return rc;
}

static sk_rc look_up(struct sk_groupby *g, struct lookup *l, uint64_t rows, struct sk_err *err) {
    const struct sk_key_col *c = &l->keys->col[0];
    l->number = l->keys->n == 1 && (c->kind == SK_KEY_INT || c->kind == SK_KEY_UINT || c->kind == SK_KEY_FLOAT || c->kind == SK_KEY_BOOL);
    sk_hash_odd(l->odd);
    sk_keys_hash(l->keys, l->hash);
    if (!rehash(g, g->n)) return NO_MEMORY(g);
    for (uint64_t i = 0; i < rows; i++) {
        if (i + AHEAD < rows) __builtin_prefetch(&g->slots[l->hash[i + AHEAD] & g->mask]);
        if (!find(g, l, i)) return NO_MEMORY(g);
    }
    return SK_OK;
}

static sk_rc add_each(struct sk_groupby *g, struct lookup *l, uint64_t rows, struct sk_err *err) {
    if (!reserve(g, rows)) return NO_MEMORY(g);
    for (uint64_t i = 0; i < rows; i++) {
        l->ids[i] = (uint32_t)g->n;
        l->fresh[i] = (uint32_t)i;
        new_group(g, 0, (struct sk_place){g->blocks.n, (uint32_t)i});
    }
    l->n_fresh = (uint32_t)rows;
    return SK_OK;
}

/* ids[row]: the group of each row of a batch whose key columns are `keys`. */
static sk_rc group_rows(struct sk_groupby *g, const struct ArrowArray *keys, bool each, uint32_t *ids, struct sk_err *err) {
    uint64_t rows = (uint64_t)keys->length;
    struct sk_keys *k = NULL;
    struct lookup l = {.ids = ids};
    sk_rc rc;
    if (rows > UINT32_MAX - 1 - g->n) return SK_ERR(err, SK_EINVAL, "more than 2^32 - 2 groups or rows in one aggregation");
    if (!g->n_keys) { /* one group, of all */
        if (!g->n && !reserve(g, 1)) return NO_MEMORY(g);
        if (!g->n) new_group(g, 0, (struct sk_place){SK_PLACE_NONE, 0});
        if (rows) memset(ids, 0, rows * sizeof *ids);
        return SK_OK;
    }
    SK_TRY(sk_keys_create(&g->keys_schema, keys, g->all, g->n_keys, &k, err));
    l.keys = k;
    l.hash = sk_alloc_large(SK_TAG_KERNEL, (size_t)rows * sizeof *l.hash);
    l.fresh = sk_alloc_large(SK_TAG_KERNEL, (size_t)rows * sizeof *l.fresh);
    if (!l.hash || !l.fresh) SK_GO(NO_MEMORY(g));
    if (!g->n) SK_GO(reserve(g, 1) ? SK_OK : NO_MEMORY(g));
    SK_GO(each ? add_each(g, &l, rows, err) : look_up(g, &l, rows, err));
    if (l.n_fresh) rc = keep_keys(g, keys, l.fresh, l.n_fresh, err);
out:
    sk_free(l.hash);
    sk_free(l.fresh);
    sk_keys_destroy(k);
    return rc;
}

/* ---- rows in ---- */

/* The key columns of a batch as a batch; columns NULL: they are its first. */
static sk_rc keys_of(const struct sk_groupby *g, const struct ArrowArray *batch, bool partial, struct ArrowArray *out,
                     struct ArrowArray **children, struct sk_err *err) {
    static const void *none[1] = {NULL};
    for (uint32_t i = 0; i < g->n_keys; i++) {
        uint32_t c = partial ? i : g->key[i];
        if (c >= batch->n_children) return SK_ERR(err, SK_EINVAL, "key column %u of a batch with %lld", c, (long long)batch->n_children);
        children[i] = batch->children[c];
    }
    *out = (struct ArrowArray){
        .length = batch->length, .offset = batch->offset, .n_buffers = 1, .buffers = none, .n_children = g->n_keys, .children = children};
    return SK_OK;
}

static sk_rc begin_rows(struct sk_groupby *g, const struct ArrowArray *batch, bool partial, bool each, uint32_t **ids, struct sk_err *err) {
    struct ArrowArray keys, **children;
    sk_rc rc;
    *ids = NULL;
    drop_built(&g->out, g->n_aggs);
    if (g->n && g->each != each) return SK_ERR(err, SK_EINVAL, "groups that were looked up and groups that were not in one aggregation");
    children = sk_calloc(SK_TAG_KERNEL, g->n_keys * sizeof *children);
    *ids = sk_alloc_large(SK_TAG_KERNEL, (size_t)batch->length * sizeof **ids);
    if (!children || !*ids) SK_GO(NO_MEMORY(g));
    SK_GO(keys_of(g, batch, partial, &keys, children, err));
    g->each = each;
    SK_GO(group_rows(g, &keys, each, *ids, err));
    g->rows += (uint64_t)batch->length;
out:
    sk_free(children);
    return rc;
}

/* The column that an aggregate reads; of a type without order only its bitmap. */
static sk_rc update_column(struct sk_groupby *g, uint32_t i, const struct ArrowSchema *schema, const struct ArrowArray *batch,
                           const uint32_t *ids, struct sk_err *err) {
    const struct sk_agg_col *a = &g->agg[i];
    uint64_t rows = (uint64_t)batch->length;
    if (a->agg.column == SK_AGG_ROWS) return sk_agg_update(a, NULL, ids, rows) ? SK_OK : NO_MEMORY(g);
    if (a->agg.column >= batch->n_children)
        return SK_ERR(err, SK_EINVAL, "column %u of a batch with %lld", a->agg.column, (long long)batch->n_children);
    if (g->collect[i]) return sk_collect_add(g->collect[i], batch->children[a->agg.column], batch->offset, batch->length, ids, err);
    if (a->nested) {
        const struct ArrowArray *of = batch->children[a->agg.column];
        bool bitmap = of->null_count && of->n_buffers && schema->children[a->agg.column]->format[1] != 'u';
        struct sk_key_col c = {.kind = SK_KEY_FIXED, .valid = bitmap ? of->buffers[0] : NULL, .offset = of->offset + batch->offset};
        return sk_agg_update(a, &c, ids, rows) ? SK_OK : NO_MEMORY(g);
    }
    struct sk_keys *k;
    SK_TRY(sk_keys_create(schema, batch, &(struct sk_key){.column = a->agg.column}, 1, &k, err));
    bool ok = sk_agg_update(a, &k->col[0], ids, rows);
    sk_keys_destroy(k);
    return ok ? SK_OK : NO_MEMORY(g);
}

static sk_rc update(struct sk_groupby *g, const struct ArrowSchema *schema, const struct ArrowArray *batch, bool each, struct sk_err *err) {
    uint32_t *ids;
    sk_rc rc = begin_rows(g, batch, false, each, &ids, err);
    for (uint32_t i = 0; rc == SK_OK && i < g->n_aggs; i++) rc = update_column(g, i, schema, batch, ids, err);
    sk_free(ids);
    return rc;
}

sk_rc sk_groupby_update(struct sk_groupby *g, const struct ArrowSchema *schema, const struct ArrowArray *batch, struct sk_err *err) {
    return update(g, schema, batch, false, err);
}

sk_rc sk_groupby_update_each(struct sk_groupby *g, const struct ArrowSchema *schema, const struct ArrowArray *batch, struct sk_err *err) {
    return update(g, schema, batch, true, err);
}

static sk_rc merge_column(struct sk_groupby *g, const struct sk_agg_col *a, const struct ArrowArray *batch, const struct ArrowArray *column,
                          const uint32_t *ids, struct sk_err *err) {
    uint8_t state[SK_AGG_MOST] __attribute__((aligned(16)));
    const int32_t *offsets = column->buffers[1];
    int64_t at = column->offset + batch->offset;
    for (int64_t i = 0; i < batch->length; i++) {
        struct sk_bytes b = {(const uint8_t *)column->buffers[2] + offsets[at + i], (size_t)(offsets[at + i + 1] - offsets[at + i])};
        if (!sk_agg_decode(a, b, state))
            return SK_ERR(err, SK_EINVAL, "'%s': row %lld is no state of this aggregate", a->name, (long long)i);
        if (!sk_agg_merge(a, a->states + ids[i] * a->size, state)) return NO_MEMORY(g);
    }
    return SK_OK;
}

sk_rc sk_groupby_merge(struct sk_groupby *g, const struct ArrowArray *partial, struct sk_err *err) {
    uint32_t *ids;
    if (partial->n_children != g->n_columns)
        return SK_ERR(err, SK_EINVAL, "a partial result of %lld columns, not %u", (long long)partial->n_children, g->n_columns);
    sk_rc rc = begin_rows(g, partial, true, false, &ids, err);
    for (uint32_t i = 0; rc == SK_OK && i < g->n_aggs; i++) {
        const struct ArrowArray *column = partial->children[g->n_keys + i];
        if (g->collect[i]) rc = sk_collect_merge(g->collect[i], column, partial->offset, partial->length, ids, err);
        else rc = merge_column(g, &g->agg[i], partial, column, ids, err);
    }
    sk_free(ids);
    return rc;
}

/* ---- results out ---- */

/* order[i]: the group that comes i-th, by key. */
static sk_rc sort_groups(struct sk_groupby *g, uint32_t *order, struct sk_err *err) {
    struct sk_block_plan *plan = NULL;
    struct keys_block b = {.keys = NULL};
    uint64_t size;
    sk_rc rc;
    SK_TRY(sk_block_measure_places(&g->keys_schema, &(struct sk_block_side){g->out.blocks, g->blocks.n, g->place}, 1, NULL, g->n, &plan,
                                   &size, err));
    SK_TRY(sk_held_make(&b.held, plan, size, err));
    SK_GO(sk_keys_create(&b.held.schema, &b.held.array, g->all, g->n_keys, &b.keys, err));
    rc = sk_sort(b.keys, order, err);
out:
    drop_block(&b);
    return rc;
}

/* A column of bytes: one[i](i) appended; offsets of 32 bits. */
struct bytes {
    int32_t *offsets;
    uint8_t *p;
    size_t n, cap;
};

static sk_rc bytes_room(struct bytes *b, size_t more, const char *name, struct sk_err *err) {
    if (b->n + more > INT32_MAX)
        return SK_ERR(err, SK_EINVAL, "'%s': more than 2 GiB of states or texts in one batch; aggregate fewer groups at a time", name);
    if (b->p && b->n + more <= b->cap) return SK_OK;
    size_t cap = SK_MAX(b->n + more, 2 * b->cap + 256);
    uint8_t *p = sk_realloc(SK_TAG_KERNEL, b->p, cap);
    if (!p) return SK_ERR(err, SK_ENOMEM, "no memory for column '%s'", name);
    b->p = p;
    b->cap = cap;
    return SK_OK;
}

static sk_rc encode_column(struct sk_groupby *g, const struct sk_agg_col *a, const uint32_t *order, const void **buffers,
                           struct sk_err *err) {
    struct bytes b = {.offsets = sk_alloc(SK_TAG_KERNEL, (size_t)(g->n + 1) * 4)};
    sk_rc rc = b.offsets ? SK_OK : NO_MEMORY(g);
    for (uint64_t i = 0; rc == SK_OK && i < g->n; i++) {
        const uint8_t *state = a->states + (order ? order[i] : i) * a->size;
        b.offsets[i] = (int32_t)b.n;
        rc = bytes_room(&b, sk_agg_encoded_max(a, state), a->name, err);
        if (rc == SK_OK) b.n += sk_agg_encode(a, state, b.p + b.n);
    }
    if (b.offsets) b.offsets[g->n] = (int32_t)b.n;
    buffers[1] = b.offsets;
    buffers[2] = b.p;
    return rc;
}

static sk_rc put_value(const struct sk_agg_col *a, const struct sk_agg_value *v, uint64_t i, uint8_t *valid, uint8_t *data,
                       struct bytes *texts, struct sk_err *err) {
    uint32_t width = sk_agg_result_width(a);
    if (!v->null) valid[i / 8] |= (uint8_t)(1u << (i & 7));
    if (a->format[0] == 'b' && !a->format[1]) data[i / 8] |= (uint8_t)((v->raw[0] & 1) << (i & 7));
    else if (a->text && a->format[0] == 'w') {
        if (v->text.n) memcpy(data + i * a->width, v->text.p, v->text.n);
    } else if (a->text) {
        SK_TRY(bytes_room(texts, v->text.n, a->name, err));
        if (v->text.n) memcpy(texts->p + texts->n, v->text.p, v->text.n);
        texts->n += v->text.n;
        if (a->format[0] == 'U' || a->format[0] == 'Z') memcpy(data + 8 * (i + 1), &(int64_t){(int64_t)texts->n}, 8);
        else memcpy(data + 4 * (i + 1), &(int32_t){(int32_t)texts->n}, 4);
    } else if (width) memcpy(data + i * width, v->raw, width);
    return SK_OK;
}

static sk_rc finish_column(struct sk_groupby *g, const struct sk_agg_col *a, const uint32_t *order, const void **buffers, int64_t *nulls,
                           struct sk_err *err) {
    size_t each = a->format[0] == 'w' ? a->width : SK_MAX(sk_agg_result_width(a), 8);
    uint8_t *valid = sk_calloc(SK_TAG_KERNEL, (size_t)g->n / 8 + 1), *data = sk_calloc(SK_TAG_KERNEL, (size_t)(g->n + 1) * SK_MAX(each, 8));
    struct bytes texts = {.n = 0};
    sk_rc rc = valid && data ? SK_OK : NO_MEMORY(g);
    *nulls = 0;
    for (uint64_t i = 0; rc == SK_OK && i < g->n; i++) {
        struct sk_agg_value v;
        rc = sk_agg_finish(a, a->states + (order ? order[i] : i) * a->size, &v, err);
        if (rc == SK_OK) rc = put_value(a, &v, i, valid, data, &texts, err);
        *nulls += v.null;
    }
    buffers[0] = valid;
    buffers[1] = data;
    buffers[2] = texts.p;
    return rc;
}

static bool room_for_built(struct sk_groupby *g) {
    struct built *b = &g->out;
    b->columns = sk_calloc(SK_TAG_KERNEL, g->n_aggs * sizeof *b->columns);
    b->children = sk_calloc(SK_TAG_KERNEL, g->n_aggs * sizeof *b->children);
    b->buffers = sk_calloc(SK_TAG_KERNEL, 3 * g->n_aggs * sizeof *b->buffers);
    b->keys = sk_alloc(SK_TAG_KERNEL, (size_t)g->n * sizeof *b->keys);
    b->rows = sk_alloc(SK_TAG_KERNEL, (size_t)g->n * sizeof *b->rows);
    b->blocks = sk_calloc(SK_TAG_KERNEL, g->blocks.n * sizeof *b->blocks);
    b->groups = sk_alloc(SK_TAG_KERNEL, (size_t)g->n * sizeof *b->groups);
    b->picks = sk_calloc(SK_TAG_KERNEL, g->n_columns * sizeof *b->picks);
    return b->groups && b->columns && b->children && b->buffers && b->keys && b->rows && b->blocks && b->picks;
}

static int64_t n_buffers_of(const char *f) { return f[0] == 'n' ? 0 : !f[1] && strchr("uUzZ", f[0]) ? 3 : 2; }

static sk_rc build(struct sk_groupby *g, bool partial, uint32_t *order, struct sk_err *err) {
    struct built *b = &g->out;
    if (!room_for_built(g)) return NO_MEMORY(g);
    for (uint32_t i = 0; i < g->blocks.n; i++) b->blocks[i] = &g->blocks.p[i].held.array;
    if (g->n_keys && g->n && !partial) SK_TRY(sort_groups(g, order, err));
    else order = NULL;
    for (uint64_t i = 0; i < g->n; i++) {
        b->keys[i] = g->place[order ? order[i] : i];
        b->rows[i] = (struct sk_place){0, (uint32_t)i};
        b->groups[i] = (struct sk_place){0, order ? order[i] : (uint32_t)i};
    }
    for (uint32_t i = 0; i < g->n_aggs; i++) {
        const struct sk_agg_col *a = &g->agg[i];
        const struct ArrowArray *built;
        int64_t nulls = 0;
        b->children[i] = &b->columns[i];
        if (g->collect[i]) {
            SK_TRY(sk_collect_build(g->collect[i], partial, g->n, &built, err));
            b->columns[i] = *built;
            continue;
        }
        SK_TRY(partial ? encode_column(g, a, order, b->buffers + 3 * i, err) : finish_column(g, a, order, b->buffers + 3 * i, &nulls, err));
        const char *f = partial ? "z" : a->format;
        b->columns[i] =
            (struct ArrowArray){.length = (int64_t)g->n, .null_count = nulls, .n_buffers = n_buffers_of(f), .buffers = b->buffers + 3 * i};
    }
    b->array =
        (struct ArrowArray){.length = (int64_t)g->n, .n_buffers = 1, .buffers = b->none, .n_children = g->n_aggs, .children = b->children};
    for (uint32_t i = 0; i < g->n_keys; i++) b->picks[i] = (struct sk_block_pick){0, i};
    for (uint32_t i = 0; i < g->n_aggs; i++) b->picks[g->n_keys + i] = (struct sk_block_pick){g->collect[i] ? 2 : 1, i};
    return SK_OK;
}

sk_rc sk_groupby_measure(struct sk_groupby *g, bool partial, struct sk_block_plan **plan, uint64_t *size, struct sk_err *err) {
    sk_rc rc;
    uint32_t *order = NULL;
    drop_built(&g->out, g->n_aggs);
    if (g->each && !partial) return SK_ERR(err, SK_EINVAL, "groups that were not looked up are not a result");
    if (!g->n_keys && !g->n) SK_TRY(group_rows(g, &(struct ArrowArray){.length = 0}, false, NULL, err));
    order = sk_alloc_large(SK_TAG_KERNEL, (size_t)g->n * sizeof *order);
    if (!order) return NO_MEMORY(g);
    SK_GO(build(g, partial, order, err));
    const struct ArrowArray *built = &g->out.array;
    struct sk_block_side sides[3] = {{g->out.blocks, g->blocks.n, g->out.keys}, {&built, 1, g->out.rows}, {&built, 1, g->out.groups}};
    rc = sk_block_measure_places(&g->schema[partial], sides, 3, g->out.picks, g->n, plan, size, err);
out:
    sk_free(order);
    return rc;
}
