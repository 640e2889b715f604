/* group.c - groups of equal keys: where they begin in sorted rows, and the first row of each key in
 * rows of any order. For the order of the keys (sk_sort_firsts) rows are sorted: only first rows,
 * found by a hash table, where keys repeat; else all, and equal neighbours are left out. */
#include "kernel/kernel_int.h"

uint64_t sk_group_starts(const struct sk_keys *k, uint32_t *start) {
    uint64_t n = 0;
    for (uint64_t i = 0; i < k->rows; i++)
        if (!i || sk_keys_compare(k, i - 1, k, i)) start[n++] = (uint32_t)i;
    return n;
}

/* ---- the first row of each key --------------------------------------------------------------- */

enum { LOOK = 1 << 16 }; /* rows that say whether keys repeat */

struct table {
    uint32_t *slots; /* [mask + 1]: place of a key's first row in the index + 1; 0: it is free */
    uint64_t mask;   /* 0: there are no slots yet */
};

/* Grows the table to four slots for each of the n first rows in `index`, at least. */
static bool grow(struct table *t, const uint64_t *hash, const uint32_t *index, uint64_t n) {
    uint64_t slots = t->mask ? 4 * (t->mask + 1) : 1024;
    uint32_t *p = sk_alloc_large(SK_TAG_KERNEL, (size_t)slots * sizeof *p);
    if (!p) return false;
    memset(p, 0, (size_t)slots * sizeof *p);
    for (uint64_t i = 0; i < n; i++) {
        uint64_t at = hash[index[i]] & (slots - 1);
        while (p[at]) at = (at + 1) & (slots - 1);
        p[at] = (uint32_t)i + 1;
    }
    sk_free(t->slots);
    *t = (struct table){p, slots - 1};
    return true;
}

/* Sets index[0, *n) to the first row of each key, in the order of the batch, and ids[i] to the
 * place there of row i's key (ids NULL: not wanted). false: no memory. */
static bool find(const struct sk_keys *k, const uint64_t *hash, uint32_t *index, uint32_t *ids,
                 uint64_t *n) {
    struct table t = {NULL, 0};
    enum sk_key_kind kind = k->col[0].kind;
    /* the hashes of different integers differ, but one has that of null */
    bool number = k->n == 1 && (kind == SK_KEY_INT || kind == SK_KEY_UINT || kind == SK_KEY_BOOL),
         ok = true;
    uint64_t null = sk_hash_null();
    *n = 0;
    for (uint64_t i = 0; ok && i < k->rows; i++) {
        if (2 * *n >= t.mask && !(ok = grow(&t, hash, index, *n))) break;
        uint64_t at = hash[i] & t.mask;
        for (; t.slots[at]; at = (at + 1) & t.mask) {
            uint64_t row = index[t.slots[at] - 1];
            if (hash[row] == hash[i] &&
                ((number && hash[i] != null) || !sk_keys_compare(k, row, k, i)))
                break;
        }
        if (!t.slots[at]) {
            index[(*n)++] = (uint32_t)i;
            t.slots[at] = (uint32_t)*n;
        }
        if (ids) ids[i] = t.slots[at] - 1;
    }
    sk_free(t.slots);
    return ok;
}

static uint64_t *hash_of(const struct sk_keys *k) {
    uint64_t *hash = sk_alloc_large(SK_TAG_KERNEL, k->rows * sizeof *hash);
    if (hash) sk_keys_hash(k, hash);
    return hash;
}

static sk_rc no_memory(const struct sk_keys *k, struct sk_err *err) {
    return SK_ERR(err, SK_ENOMEM, "no memory to find the keys of %llu rows",
                  (unsigned long long)k->rows);
}

sk_rc sk_first_rows(const struct sk_keys *k, uint32_t *index, uint32_t *ids, uint64_t *n,
                    struct sk_err *err) {
    uint64_t *hash = hash_of(k);
    bool ok = hash && find(k, hash, index, ids, n);
    sk_free(hash);
    return ok ? SK_OK : no_memory(k, err);
}

/* True if at most half of the rows have a key of their own, judged by the first ones. */
static bool repeats(const uint64_t *hash, uint64_t rows) {
    struct sk_distinct keys = {.n = 0};
    rows = SK_MIN(rows, (uint64_t)LOOK);
    sk_distinct_add(&keys, hash, rows);
    return 2 * sk_distinct_estimate(&keys) <= rows;
}

sk_rc sk_sort_firsts(const struct sk_keys *k, uint32_t *index, uint64_t *n_out,
                     struct sk_err *err) {
    uint64_t *hash = hash_of(k), n = k->rows, kept = 0;
    bool ok = hash != NULL;
    if (ok && repeats(hash, n)) ok = find(k, hash, index, NULL, &n);
    else
        for (uint64_t i = 0; ok && i < n; i++) index[i] = (uint32_t)i;
    sk_free(hash);
    sk_rc rc = ok ? sk_sort_some(k, index, n, err) : no_memory(k, err);
    for (uint64_t i = 0; rc == SK_OK && i < n; i++)
        if (!kept || sk_keys_compare(k, index[kept - 1], k, index[i]) != 0)
            index[kept++] = index[i];
    *n_out = kept;
    return rc;
}
