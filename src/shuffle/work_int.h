/* work_int.h - inside the shuffle layer only: how the kinds of work are told apart, and how values
 * are put together. */
#ifndef SK_WORK_INT_H
#define SK_WORK_INT_H

#include "base/mem.h"
#include "shuffle/work.h"

struct sk_work { /* the head of the struct of each kind of work */
    sk_rc (*next)(struct sk_work *w, struct sk_value **out, struct sk_err *err);
    void (*destroy)(struct sk_work *w);
};

/* A row of the table in what.c. If a function is NULL, the kind uses that of SORT (sorted runs). */
struct sk_what_class {
    const char *name;
    bool needs_keys, runs; /* runs: its maps make sorted runs, if there are keys and no bounds */
    /* The reduces must know the partition of each batch, so a part without rows has an (empty)
     * block, too. */
    bool tells_partitions;
    /* Deals the rows of a batch out to partitions. */
    sk_rc (*partition)(const struct sk_what *what, const struct sk_map_input *in,
                       struct sk_parts *parts, struct sk_err *err);
    /* Orders the rows of a reduce. */
    sk_rc (*order)(const struct sk_what *what, const struct sk_reduce_input *in,
                   struct sk_row_at *places, uint64_t n, struct sk_err *err);
    /* Makes a reduce of this kind's own. */
    sk_rc (*reduce)(const struct sk_what *what, const struct sk_reduce_input *in,
                    struct sk_work **out, struct sk_err *err);
};
const struct sk_what_class *sk_what_class_of(enum sk_what_kind kind);

/* Finds the columns of the description's keys in a schema. out: room for n_keys. */
sk_rc sk_what_columns(const struct sk_what *what, const struct ArrowSchema *schema,
                      struct sk_key *out, struct sk_err *err) SK_MUST_USE;
/* Opens the keys of the description in a batch; free them with sk_keys_destroy. */
sk_rc sk_what_keys(const struct sk_what *what, const struct ArrowSchema *schema,
                   const struct ArrowArray *array, struct sk_keys **out,
                   struct sk_err *err) SK_MUST_USE;
/* The same for the first n columns of a sample or of bounds. */
sk_rc sk_what_first_keys(const struct sk_what *what, uint32_t n, const struct ArrowSchema *schema,
                         const struct ArrowArray *array, struct sk_keys **out,
                         struct sk_err *err) SK_MUST_USE;

/* Makes a value with room for these numbers of blocks and parts, all zero. NULL: no memory. */
struct sk_value *sk_value_create(enum sk_value_kind kind, uint32_t n_blocks, uint32_t n_parts);
/* Adds a block behind those that the value has. The value owns the plan. */
void sk_value_add(struct sk_value *v, struct sk_block_plan *plan);

struct sk_frame { /* rows of the key columns of some batches, with columns of numbers beside them */
    const struct ArrowSchema *schema;
    /* the list is copied; the arrays it points to must outlive the value */
    const struct ArrowArray *const *arrays;
    uint32_t n_arrays;
    const struct sk_key *keys;
    uint32_t n_keys, n_numbers;     /* numbers: 3 in a sample, 1 in bounds */
    const uint64_t *const *numbers; /* [n_numbers][rows] */
    const struct sk_row_at *places;
    uint64_t rows;
};
sk_rc sk_frame_value(const struct sk_frame *of, enum sk_value_kind kind, struct sk_value **out,
                     struct sk_err *err) SK_MUST_USE;

/* Finds which rows of a reduce's batches, in the order of the slices, belong to its partitions: the
 * first and last pages of a run may also have rows of others. keys: of each batch; ranges: all rows
 * of each batch when called, those that belong to the reduce afterwards. */
sk_rc sk_reduce_trim(const struct sk_what *what, const struct sk_reduce_input *in,
                     struct sk_keys *const *keys, struct sk_range *ranges,
                     struct sk_err *err) SK_MUST_USE;

/* The kinds of work among which sk_work_map and sk_work_reduce choose. */
sk_rc sk_run_create(const struct sk_what *what, const struct sk_map_input *in, struct sk_work **out,
                    struct sk_err *err) SK_MUST_USE;
sk_rc sk_run_merge_create(const struct sk_what *what, const struct sk_merge_input *in,
                          struct sk_work **out, struct sk_err *err) SK_MUST_USE;
sk_rc sk_parts_create(const struct sk_what *what, const struct sk_map_input *in,
                      struct sk_work **out, struct sk_err *err) SK_MUST_USE;
sk_rc sk_merging_create(const struct sk_what *what, const struct sk_reduce_input *in,
                        struct sk_work **out, struct sk_err *err) SK_MUST_USE;
sk_rc sk_aggregating_create(const struct sk_what *what, const struct sk_reduce_input *in,
                            struct sk_work **out, struct sk_err *err) SK_MUST_USE;
sk_rc sk_joining_create(const struct sk_what *what, const struct sk_reduce_input *in,
                        struct sk_work **out, struct sk_err *err) SK_MUST_USE;
/* As sk_aggregating_create, but it gives states: each value is a block of groups behind those of
 * the values before, in no order among themselves. */
sk_rc sk_restating_create(const struct sk_what *what, const struct sk_reduce_input *in,
                          struct sk_work **out, struct sk_err *err) SK_MUST_USE;
/* The merge of packs of an AGGREGATE. */
sk_rc sk_combining_create(const struct sk_what *what, const struct sk_merge_input *in,
                          struct sk_work **out, struct sk_err *err) SK_MUST_USE;
/* True if batches of this schema are states; false: rows. */
bool sk_is_states(const struct sk_what *what, const struct ArrowSchema *s);
sk_rc sk_putting_create(const struct sk_what *what, const struct sk_reduce_input *in,
                        struct sk_work **out, struct sk_err *err) SK_MUST_USE;

#endif
