/* block_zoo.h - a batch with a column of nearly every type, for tests; nothing to free. */
#ifndef BLOCK_ZOO_H
#define BLOCK_ZOO_H

#include "block_make.h"

/* Columns of nearly every type, with nulls and slices. The batch is a slice, too: five of ten rows,
 * from row 3 on. */
struct zoo {
    struct made batch, ints, bools, text, large, views, list, list_items, list_view, dict,
        dict_values, dense, dense_a, dense_b, runs, run_ends, run_values, fixed_list, fixed_items,
        map, entries, keys, items;
};

void make_zoo(struct zoo *z);
/* Like make_zoo, with the columns that have no room there (8 children). */
void make_zoo2(struct zoo *z);

#endif
