/* join.c - finds which rows of two sides have equal keys.
 *
 * A hash table numbers the distinct keys of the side with fewer rows; each row of both sides then
 * has the number of its key, or NONE (its key is null or not in the table). A counting sort puts
 * the rows of the right side in the order of these numbers, so the partners of a left row are a
 * range of that order, and results are in the order of left rows, whichever side is in the table. A
 * row costs one comparison, even if half of all rows have its key. Memory: 4 bytes a row of the
 * left, 12 of the right, 9 a distinct key; during the creation also 32 to 48 a row of the smaller
 * side and 8 a row of the largest batch. Cost: 20 to 60 ns a row of both sides. */
#include "kernel/kernel_int.h"

enum { AHEAD = 16, NONE = UINT32_MAX };

struct slot {
    uint32_t tag, key; /* number of the key + 1; 0: the slot is free */
};

struct side {
    const struct sk_keys *const *keys;
    uint32_t n;
    uint64_t rows;
    uint32_t *number; /* number of each row's key, batch after batch */
};

struct sk_join {
    enum sk_join_kind kind;
    struct side left, right;
    uint32_t n_keys; /* distinct keys */
    /* [n_keys + 1]: the right rows with key number k are places[start[k], start[k + 1]). */
    uint64_t *start;
    struct sk_row_at *places; /* places of the right rows, in the order of their keys' numbers */
    uint8_t *met;             /* [n_keys]: 1 if a left row has the key */
    /* true: this is the join of a share; sk_join_rest gives the right rows without a partner */
    bool share;
    int phase;      /* 0: left rows, 1: right rows, 2: end */
    uint32_t batch; /* number of the batch, in the side of the phase, of the next result */
    /* row, at: number of the next row in its batch and in its side; partner: index of its next
     * partner */
    uint64_t row, at, partner;
};

/* ---- kinds ---- */

static const struct {
    const char *name;
    enum sk_join_kind swapped;
} kinds[SK_JOIN_KINDS] = {
    [SK_JOIN_INNER] = {"inner", SK_JOIN_INNER},
    [SK_JOIN_LEFT] = {"left_outer", SK_JOIN_RIGHT},
    [SK_JOIN_RIGHT] = {"right_outer", SK_JOIN_LEFT},
    [SK_JOIN_FULL] = {"full_outer", SK_JOIN_FULL},
    [SK_JOIN_LEFT_SEMI] = {"left_semi", SK_JOIN_RIGHT_SEMI},
    [SK_JOIN_LEFT_ANTI] = {"left_anti", SK_JOIN_RIGHT_ANTI},
    [SK_JOIN_RIGHT_SEMI] = {"right_semi", SK_JOIN_LEFT_SEMI},
    [SK_JOIN_RIGHT_ANTI] = {"right_anti", SK_JOIN_LEFT_ANTI},
};

bool sk_join_kind_find(const char *name, enum sk_join_kind *out) {
    for (unsigned k = 0; k < SK_JOIN_KINDS; k++)
        if (!strcmp(kinds[k].name, name)) {
            *out = (enum sk_join_kind)k;
            return true;
        }
    return false;
}

enum sk_join_kind sk_join_kind_swapped(enum sk_join_kind kind) { return kinds[kind].swapped; }

/* ---- numbering the keys ---- */

struct table {
    const struct side *of; /* the side whose keys the table has */
    struct slot *slots;
    /* hash: of each key; null: the hash of null, if the only key is an integer */
    uint64_t mask, *hash, null;
    struct sk_row_at *first; /* the first row found with each key */
    uint32_t n;
    bool number; /* true: the only key is an integer, so equal hashes are equal keys */
};

static bool same_key(const struct table *t, uint32_t key, const struct sk_keys *k, uint64_t row,
                     uint64_t hash) {
    if (t->hash[key] != hash) return false;
    if (t->number && hash != t->null) return true;
    struct sk_row_at p = t->first[key];
    return !sk_keys_compare(t->of->keys[p.run], p.row, k, row);
}

/* Returns the slot of a row's key; if the table does not have the key, the free slot where it
 * belongs. */
SK_INLINE struct slot *slot_of(const struct table *t, const struct sk_keys *k, uint64_t row,
                               uint64_t hash) {
    uint64_t at = hash & t->mask;
    while (t->slots[at].key && (t->slots[at].tag != (uint32_t)(hash >> 32) ||
                                !same_key(t, t->slots[at].key - 1, k, row, hash)))
        at = (at + 1) & t->mask;
    return &t->slots[at];
}

/* Sets the number of rows with a null in any key to NONE, of all other rows to 0. */
static void mark_nulls(const struct sk_keys *k, uint32_t *number) {
    memset(number, 0, (size_t)k->rows * sizeof *number);
    for (uint32_t c = 0; c < k->n; c++) {
        const struct sk_key_col *col = &k->col[c];
        if (!col->valid && !(col->code && col->codes_valid) && col->kind != SK_KEY_NULL) continue;
        for (uint64_t i = 0; i < k->rows; i++)
            if (sk_key_at(col, i) < 0) number[i] = NONE;
    }
}

static void number_rows(struct table *t, const struct side *s, uint64_t *hash) {
    uint32_t *number = s->number;
    for (uint32_t b = 0; b < s->n; number += s->keys[b++]->rows) {
        const struct sk_keys *k = s->keys[b];
        mark_nulls(k, number);
        sk_keys_hash(k, hash);
        for (uint64_t i = 0; i < k->rows; i++) {
            if (i + AHEAD < k->rows) __builtin_prefetch(&t->slots[hash[i + AHEAD] & t->mask]);
            if (number[i] == NONE) continue;
            struct slot *at = slot_of(t, k, i, hash[i]);
            if (!at->key && s == t->of) {
                t->hash[t->n] = hash[i];
                t->first[t->n] = (struct sk_row_at){b, (uint32_t)i};
                *at = (struct slot){(uint32_t)(hash[i] >> 32), ++t->n};
            }
            number[i] = at->key - 1; /* for a free slot this is NONE */
        }
    }
}

static uint64_t largest(const struct side *s) {
    uint64_t n = 0;
    for (uint32_t b = 0; b < s->n; b++) {
        SK_ASSERT(s->keys[b]);
        n = SK_MAX(n, s->keys[b]->rows);
    }
    return n;
}

static sk_rc number_both(struct sk_join *j, struct sk_err *err) {
    struct table t = {.of = j->left.rows < j->right.rows ? &j->left : &j->right};
    uint64_t slots = 64, keys = t.of->rows;
    while (slots < 2 * keys) slots *= 2;
    const struct sk_keys *any = t.of->n ? t.of->keys[0] : NULL;
    t.number = any && any->n == 1 && any->col[0].kind >= SK_KEY_BOOL &&
               any->col[0].kind < SK_KEY_FLOAT; /* two different floats may have the same hash */
    t.mask = slots - 1;
    t.null = sk_hash_null();
    t.slots = sk_alloc_large(SK_TAG_KERNEL, (size_t)slots * sizeof *t.slots);
    t.hash = sk_alloc_large(SK_TAG_KERNEL, (size_t)keys * sizeof *t.hash);
    t.first = sk_alloc_large(SK_TAG_KERNEL, (size_t)keys * sizeof *t.first);
    uint64_t *hash = sk_alloc_large(
        SK_TAG_KERNEL, (size_t)SK_MAX(largest(&j->left), largest(&j->right)) * sizeof *hash);
    bool ok = t.slots && t.hash && t.first && hash;
    if (ok) {
        memset(t.slots, 0, (size_t)slots * sizeof *t.slots);
        number_rows(&t, t.of, hash);
        number_rows(&t, t.of == &j->left ? &j->right : &j->left, hash);
        j->n_keys = t.n;
    }
    sk_free(t.slots);
    sk_free(t.hash);
    sk_free(t.first);
    sk_free(hash);
    return ok ? SK_OK
              : SK_ERR(err, SK_ENOMEM, "no memory to join %llu and %llu rows",
                       (unsigned long long)j->left.rows, (unsigned long long)j->right.rows);
}

/* ---- the partners of each row ---- */

/* Makes `places` and `start`, and finds which keys the left side has. */
static bool find_partners(struct sk_join *j) {
    j->start = sk_calloc(SK_TAG_KERNEL, ((size_t)j->n_keys + 2) * sizeof *j->start);
    j->places = sk_alloc_large(SK_TAG_KERNEL, (size_t)j->right.rows * sizeof *j->places);
    j->met = sk_calloc(SK_TAG_KERNEL, (size_t)j->n_keys + 1);
    if (!j->start || !j->places || !j->met) return false;
    uint64_t *at = j->start + 1;
    for (uint64_t i = 0; i < j->right.rows; i++)
        if (j->right.number[i] != NONE) at[j->right.number[i] + 1]++;
    for (uint32_t k = 1; k <= j->n_keys; k++) at[k] += at[k - 1];
    const uint32_t *number = j->right.number;
    for (uint32_t b = 0; b < j->right.n; number += j->right.keys[b++]->rows)
        for (uint64_t i = 0; i < j->right.keys[b]->rows; i++)
            /* places the row, and moves at[key] towards the start of the next key */
            if (number[i] != NONE) j->places[at[number[i]]++] = (struct sk_row_at){b, (uint32_t)i};
    for (uint64_t i = 0; i < j->left.rows; i++)
        if (j->left.number[i] != NONE) j->met[j->left.number[i]] = 1;
    return true;
}

static sk_rc check_side(struct side *s, const struct sk_keys *first, struct sk_err *err) {
    for (uint32_t b = 0; b < s->n; b++) {
        SK_TRY(sk_keys_match(first, s->keys[b], err));
        s->rows += s->keys[b]->rows;
    }
    if (s->rows >= NONE)
        return SK_ERR(err, SK_EINVAL, "a side of %llu rows; up to 2^32 - 2 are joined at a time",
                      (unsigned long long)s->rows);
    s->number = sk_alloc_large(SK_TAG_KERNEL, (size_t)s->rows * sizeof *s->number);
    return s->number
               ? SK_OK
               : SK_ERR(err, SK_ENOMEM, "no memory to join %llu rows", (unsigned long long)s->rows);
}

static bool right_rows_follow(const struct sk_join *j) {
    return !j->share && (j->kind == SK_JOIN_RIGHT || j->kind == SK_JOIN_FULL);
}

static int first_phase(enum sk_join_kind k) {
    return k == SK_JOIN_RIGHT_SEMI || k == SK_JOIN_RIGHT_ANTI;
}

sk_rc sk_join_create(const struct sk_keys *const *left, uint32_t n_left,
                     const struct sk_keys *const *right, uint32_t n_right, enum sk_join_kind kind,
                     struct sk_join **out, struct sk_err *err) {
    sk_rc rc;
    struct sk_join *j = sk_calloc(SK_TAG_KERNEL, sizeof *j);
    if (!j) return SK_ERR(err, SK_ENOMEM, "no memory for a join");
    const struct sk_keys *first = n_left ? left[0] : n_right ? right[0] : NULL;
    j->kind = kind;
    j->left = (struct side){.keys = left, .n = n_left};
    j->right = (struct side){.keys = right, .n = n_right};
    j->phase = first_phase(kind);
    SK_GO(check_side(&j->left, first, err));
    SK_GO(check_side(&j->right, first, err));
    SK_GO(number_both(j, err));
    SK_GO(find_partners(j) ? SK_OK
                           : SK_ERR(err, SK_ENOMEM, "no memory to join with %llu rows",
                                    (unsigned long long)j->right.rows));
    *out = j;
out:
    if (rc) sk_join_destroy(j);
    return rc;
}

sk_rc sk_join_rest(const struct sk_keys *const *right, uint32_t n_right, enum sk_join_kind kind,
                   const uint8_t *met, struct sk_join **out, struct sk_err *err) {
    sk_rc rc;
    struct sk_join *j = sk_calloc(SK_TAG_KERNEL, sizeof *j);
    if (!j) return SK_ERR(err, SK_ENOMEM, "no memory for a join");
    j->kind = kind;
    j->right = (struct side){.keys = right, .n = n_right};
    j->phase = right_rows_follow(j) || first_phase(kind) ? 1 : 2;
    SK_GO(check_side(&j->right, n_right ? right[0] : NULL, err));
    j->met = sk_calloc(SK_TAG_KERNEL, 1); /* number 0 stands for each key that a left row has */
    SK_GO(j->met ? SK_OK : SK_ERR(err, SK_ENOMEM, "no memory for a join"));
    j->met[0] = 1;
    for (uint64_t i = 0; i < j->right.rows; i++)
        j->right.number[i] = met[i / 8] >> (i & 7) & 1 ? 0 : NONE;
    *out = j;
out:
    if (rc) sk_join_destroy(j);
    return rc;
}

void sk_join_destroy(struct sk_join *j) {
    if (!j) return;
    sk_free(j->left.number);
    sk_free(j->right.number);
    sk_free(j->start);
    sk_free(j->places);
    sk_free(j->met);
    sk_free(j);
}

/* ---- writing the results ---- */

/* Returns the number of results of a left row with that key; *partners: whether they have a right
 * row. */
static uint64_t results_of(const struct sk_join *j, uint32_t key, bool *partners) {
    uint64_t n = key == NONE ? 0 : j->start[key + 1] - j->start[key];
    *partners = false;
    switch (j->kind) {
    case SK_JOIN_LEFT_SEMI: return n > 0;
    case SK_JOIN_LEFT_ANTI: return n == 0;
    case SK_JOIN_LEFT:
    case SK_JOIN_FULL: *partners = n > 0; return SK_MAX(n, 1);
    default: *partners = true; return n;
    }
}

static bool has_met(const struct sk_join *j, uint32_t key) { return key != NONE && j->met[key]; }

static bool right_row_is_one(const struct sk_join *j, uint32_t key) {
    bool met = has_met(j, key);
    return j->kind == SK_JOIN_RIGHT_SEMI ? met : !met;
}

/* Advances to the next row of a side; behind the last one the phase becomes `next`. */
static void step(struct sk_join *j, const struct side *s, int next) {
    j->row++;
    j->at++;
    j->partner = 0;
    if (j->at < s->rows) return;
    j->phase = next;
    j->batch = 0;
    j->row = j->at = 0;
}

static void skip_empty(struct sk_join *j, const struct side *s) {
    while (j->row == s->keys[j->batch]->rows) {
        j->batch++;
        j->row = 0;
    }
}

void sk_join_share(struct sk_join *j, uint8_t *met) {
    SK_ASSERT(!j->batch && !j->at && !j->partner);
    j->share = true;
    if (j->phase == 1) j->phase = 2;
    memset(met, 0, (size_t)(j->right.rows + 7) / 8);
    for (uint64_t i = 0; i < j->right.rows; i++)
        met[i / 8] |= (uint8_t)(has_met(j, j->right.number[i]) << (i & 7));
}

uint64_t sk_join_next(struct sk_join *j, struct sk_row_at *left, struct sk_row_at *right,
                      uint64_t cap) {
    const struct sk_row_at none = {SK_ROW_NONE, 0};
    uint64_t n = 0;
    if (j->phase == 0 && !j->left.rows) j->phase = right_rows_follow(j) ? 1 : 2;
    while (j->phase == 0 && n < cap) {
        uint32_t key = j->left.number[j->at];
        bool partners;
        skip_empty(j, &j->left);
        uint64_t have = results_of(j, key, &partners), take = SK_MIN(have - j->partner, cap - n);
        for (uint64_t i = 0; i < take; i++) {
            left[n + i] = (struct sk_row_at){j->batch, (uint32_t)j->row};
            right[n + i] = partners ? j->places[j->start[key] + j->partner + i] : none;
        }
        n += take;
        j->partner += take;
        if (j->partner == have) step(j, &j->left, right_rows_follow(j) ? 1 : 2);
    }
    if (j->phase == 1 && !j->right.rows) j->phase = 2;
    while (j->phase == 1 && n < cap) {
        skip_empty(j, &j->right);
        if (right_row_is_one(j, j->right.number[j->at])) {
            left[n] = none;
            right[n++] = (struct sk_row_at){j->batch, (uint32_t)j->row};
        }
        step(j, &j->right, 2);
    }
    return n;
}
