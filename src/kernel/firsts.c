/* firsts.c - the first row of each key, in the order of the keys.
 *
 * Rows are looked up in a small hash table, which stays in the processor's second cache, and rows
 * whose key is there are left out; the others are sorted, and equal neighbours are left out. The
 * table is given up where it leaves few rows out. Cost: a hash and a look-up a row, and a sort of
 * the rows that are left; without many equal keys, a sort of all rows. Scratch: 8 bytes a row
 * beside those of the sort. */
#include "kernel/kernel_int.h"

enum { SLOTS = 1 << 16, FULL = SLOTS / 2, LOOK = 1 << 14 };

struct slot {
    uint32_t tag, row; /* tag: the upper half of the hash, 0 if the slot is empty */
};

/* Returns false if the row's key is in the table; adds the row while there is room. */
static bool is_new(const struct sk_keys *k, struct slot *slots, uint32_t *n, uint64_t hash,
                   uint32_t row) {
    uint32_t tag = (uint32_t)(hash >> 32) | 1;
    for (uint32_t i = (uint32_t)hash % SLOTS;; i = (i + 1) % SLOTS) {
        if (!slots[i].tag) {
            if (*n < FULL) {
                slots[i] = (struct slot){tag, row};
                ++*n;
            }
            return true;
        }
        if (slots[i].tag == tag && sk_keys_compare(k, slots[i].row, k, row) == 0) return false;
    }
}

/* Sets index to numbers of rows, in ascending order, the first of each key among them; returns how
 * many these are. */
static uint64_t leave_out(const struct sk_keys *k, const uint64_t *hash, struct slot *slots,
                          uint32_t *index) {
    uint64_t n = 0;
    uint32_t in_table = 0, row = 0;
    while (row < k->rows) {
        uint64_t end = SK_MIN(row + (uint64_t)LOOK, k->rows), before = n, looked = end - row;
        for (; row < end; row++)
            if (is_new(k, slots, &in_table, hash[row], row)) index[n++] = row;
        if (n - before > looked / 2) break;
    }
    while (row < k->rows) index[n++] = row++;
    return n;
}

sk_rc sk_sort_firsts(const struct sk_keys *k, uint32_t *index, uint64_t *n_out,
                     struct sk_err *err) {
    struct slot *slots = sk_calloc(SK_TAG_KERNEL, SLOTS * sizeof *slots);
    uint64_t *hash = sk_alloc_large(SK_TAG_KERNEL, (size_t)k->rows * sizeof *hash), n = 0, kept = 0;
    sk_rc rc = SK_ENOMEM;
    if (slots && hash) {
        sk_keys_hash(k, hash);
        n = leave_out(k, hash, slots, index);
        rc = SK_OK;
    } else {
        SK_ERR(err, rc, "no memory to find the keys of %llu rows", (unsigned long long)k->rows);
    }
    sk_free(hash);
    sk_free(slots);
    if (rc == SK_OK) rc = sk_sort_some(k, index, n, err);
    for (uint64_t i = 0; rc == SK_OK && i < n; i++)
        if (!kept || sk_keys_compare(k, index[kept - 1], k, index[i]) != 0)
            index[kept++] = index[i];
    *n_out = kept;
    return rc;
}
