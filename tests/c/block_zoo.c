/* block_zoo.c - see block_zoo.h. */
#include "block_zoo.h"

void make_zoo(struct zoo *z) {
    static const int64_t i64[40] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
    static const uint8_t valid[2] = {0x5F, 0x02}, bits[2] = {0xA5, 0x01},
                         types[10] = {0, 7, 0, 0, 7, 0, 7, 7, 0, 0},
                         index[10] = {0, 1, 2, 0, 1, 2, 0, 1, 2, 0};
    static const int32_t offs[12] = {1, 2, 2, 5, 9, 9, 10, 12, 12, 20, 20, 22},
                         sizes[10] = {1, 3, 0, 2, 2, 2, 5, 0, 1, 4},
                         starts[10] = {0, 7, 20, 4, 5, 6, 12, 3, 2, 1},
                         dense_at[10] = {0, 0, 1, 2, 1, 4, 2, 3, 5, 6}, ends[4] = {2, 5, 6, 10},
                         three[4] = {0, 2, 3, 5};
    static const int64_t offs64[11] = {1, 2, 2, 5, 9, 9, 10, 12, 12, 20, 20}, view_size[1] = {40};
    static const char chars[41] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMN";
    static int32_t views[40];
    for (int i = 0; i < 10; i++) {
        int32_t len = i % 2 ? 13 + i : i, at = i;
        views[4 * i] = len;
        memcpy(&views[4 * i + 1], chars + at, 12);
        if (len > 12) {
            views[4 * i + 2] = 0;
            views[4 * i + 3] = at;
        }
    }
    MAKE_LEAF(&z->batch, "+s", "", 5, 3, NULL);
    MAKE_LEAF(&z->ints, "l", "ints", 10, 0, valid, i64);
    MAKE_LEAF(&z->bools, "b", "bools", 9, 1, NULL, bits);
    MAKE_LEAF(&z->text, "u", "text", 10, 0, valid, offs, chars);
    MAKE_LEAF(&z->large, "Z", "large", 10, 0, valid, offs64, chars);
    MAKE_LEAF(&z->views, "vu", "views", 10, 0, valid, views, chars, view_size);
    MAKE_LEAF(&z->list, "+l", "list", 10, 0, valid, offs);
    MAKE_LEAF(&z->list_items, "l", "item", 30, 1, NULL, i64);
    MAKE_LEAF(&z->list_view, "+vl", "list_view", 10, 0, NULL, starts, sizes);
    MAKE_LEAF(&z->dict, "C", "dict", 10, 0, NULL, index);
    MAKE_LEAF(&z->dict_values, "u", "", 3, 0, NULL, three, chars);
    MAKE_LEAF(&z->dense, "+ud:7,0", "dense", 10, 0, types, dense_at);
    MAKE_LEAF(&z->dense_a, "l", "a", 8, 0, NULL, i64);
    MAKE_LEAF(&z->dense_b, "u", "b", 8, 0, NULL, offs, chars);
    make_leaf(&z->runs, "+r", "runs", 10, 0, 0, NULL);
    MAKE_LEAF(&z->run_ends, "i", "run_ends", 4, 0, NULL, ends);
    MAKE_LEAF(&z->run_values, "l", "values", 4, 0, NULL, i64);
    MAKE_LEAF(&z->fixed_list, "+w:3", "fixed", 9, 1, NULL);
    MAKE_LEAF(&z->fixed_items, "l", "item", 30, 5, NULL, i64);
    MAKE_LEAF(&z->map, "+m", "map", 10, 0, NULL, offs);
    MAKE_LEAF(&z->entries, "+s", "entries", 22, 0, NULL);
    MAKE_LEAF(&z->keys, "C", "key", 22, 0, NULL, chars);
    MAKE_LEAF(&z->items, "C", "value", 22, 1, NULL, chars);
    make_child(&z->list, &z->list_items);
    make_child(&z->list_view, &z->list_items);
    make_dictionary(&z->dict, &z->dict_values);
    make_child(&z->dense, &z->dense_b);
    make_child(&z->dense, &z->dense_a);
    make_child(&z->runs, &z->run_ends);
    make_child(&z->runs, &z->run_values);
    make_child(&z->fixed_list, &z->fixed_items);
    make_child(&z->entries, &z->keys);
    make_child(&z->entries, &z->items);
    make_child(&z->map, &z->entries);
    struct made *columns[] = {&z->ints,  &z->bools, &z->text,      &z->large,
                              &z->views, &z->list,  &z->list_view, &z->dict};
    for (size_t i = 0; i < SK_COUNT(columns); i++) make_child(&z->batch, columns[i]);
}

void make_zoo2(struct zoo *z) {
    make_zoo(z);
    z->batch.schema.n_children = z->batch.array.n_children = 0;
    struct made *columns[] = {&z->dense, &z->runs, &z->fixed_list, &z->map};
    for (size_t i = 0; i < SK_COUNT(columns); i++) make_child(&z->batch, columns[i]);
}
