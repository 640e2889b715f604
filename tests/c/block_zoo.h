/* block_zoo.h - a batch with a column of nearly every type, for tests; nothing to free. */
#ifndef BLOCK_ZOO_H
#define BLOCK_ZOO_H

#include "block_make.h"

/* One of everything, sliced, with nulls: rows 3..8 of 10. */
struct zoo {
    struct made batch, ints, bools, text, large, views, list, list_items, list_view, dict,
        dict_values, dense, dense_a, dense_b, runs, run_ends, run_values, fixed_list, fixed_items,
        map, entries, keys, items;
};

void make_zoo(struct zoo *z);
void make_zoo2(struct zoo *z); /* the other columns: a made struct has room for 8 children */

#endif
