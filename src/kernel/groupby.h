/* groupby.h - the struct of an aggregation, shared by groupby.c, which finds groups, and results.c,
 * which lays out results; inside the kernel layer only. */
#ifndef SK_GROUPBY_H
#define SK_GROUPBY_H

#include "base/containers/vec.h"
#include "kernel/agg/agg.h"
#include "kernel/agg/collect.h"

struct sk_group_slot {
    uint32_t tag, group; /* number of the group + 1; 0: the slot is free */
};

struct sk_keys_block { /* keys of the groups whose first rows were in one batch */
    struct sk_held held;
    struct sk_keys *keys;
};

/* the built result: its columns of aggregates, as one batch; the keys stay in their blocks */
struct sk_built {
    const struct ArrowSchema *schema; /* NULL: nothing is built */
    struct ArrowArray array, *columns;
    struct ArrowArray **children;
    const void **buffers; /* 3 for each column */
    const void *none[1];
    /* For each result row its place in the blocks of keys (keys), in the columns of results (rows),
     * and in the columns of stored values, which are in the order of groups (groups). */
    struct sk_row_at *keys, *rows, *groups;
    const struct ArrowArray **blocks;
    struct sk_block_pick *picks;
};

struct sk_groupby {
    uint32_t n_keys, n_aggs, n_columns;
    struct ArrowSchema keys_schema, **keys_fields; /* the key columns alone */
    /* schema[0]: schema of results; schema[1]: schema of partial results; each has n_columns
     * fields */
    struct ArrowSchema schema[2], *fields, **children;
    uint32_t *key; /* positions of the key columns in a batch */
    struct sk_agg_col *agg;
    /* [n_aggs]: the collection of an aggregate that stores values; NULL: the aggregate has
     * states */
    struct sk_collect **collect;
    struct sk_key *all; /* n_keys keys: columns 0, 1, ... of keys_schema */
    uint64_t n, cap, rows, mask;
    struct sk_group_slot *slots;
    uint64_t *hash;
    struct sk_row_at *place;
    SK_VEC(struct sk_keys_block) blocks;
    uint64_t kept; /* bytes of the blocks of keys */
    /* true: a key of 0.0 has in results the sign that it has in the group's first row; false: it is
     * always 0.0 */
    bool zeros_as_seen;
    struct sk_built out;
};

#define SK_NO_GROUPS(g) \
    SK_ERR(err, SK_ENOMEM, "no memory to aggregate %llu groups", (unsigned long long)(g)->n)

void sk_keys_block_drop(struct sk_keys_block *b);
void sk_built_drop(struct sk_built *b, uint32_t n_aggs);

#endif
