/* work_int.h - inside the shuffle layer only: the table of the kinds of work, and the calls that
 * make values. */
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
    /* runs: maps of this kind make sorted runs if the description has keys and no bounds */
    bool needs_keys, runs;
    /* True: reduces need to know the partition of each batch, so a part without rows has an empty
     * block. */
    bool tells_partitions;
    /* Assigns the rows of a batch to partitions. */
    sk_rc (*partition)(const struct sk_what *what, const struct sk_map_input *in,
                       struct sk_parts *parts, struct sk_err *err);
    /* Puts the places of a reduce's rows in order. */
    sk_rc (*order)(const struct sk_what *what, const struct sk_reduce_input *in,
                   struct sk_row_at *places, uint64_t n, struct sk_err *err);
    /* Starts a reduce that only this kind has. */
    sk_rc (*reduce)(const struct sk_what *what, const struct sk_reduce_input *in,
                    struct sk_work **out, struct sk_err *err);
};
const struct sk_what_class *sk_what_class_of(enum sk_what_kind kind);

/* Finds the columns of the description's keys in a schema. out: [n_keys]. */
sk_rc sk_what_columns(const struct sk_what *what, const struct ArrowSchema *schema,
                      struct sk_key *out, struct sk_err *err) SK_MUST_USE;
/* Opens the keys of the description in a batch; free them with sk_keys_destroy. */
sk_rc sk_what_keys(const struct sk_what *what, const struct ArrowSchema *schema,
                   const struct ArrowArray *array, struct sk_keys **out,
                   struct sk_err *err) SK_MUST_USE;
/* Like sk_what_keys, for the first n columns of a sample or of bounds. */
sk_rc sk_what_first_keys(const struct sk_what *what, uint32_t n, const struct ArrowSchema *schema,
                         const struct ArrowArray *array, struct sk_keys **out,
                         struct sk_err *err) SK_MUST_USE;

/* Makes a value with room for these numbers of blocks and parts, all zero. NULL: out of memory. */
struct sk_value *sk_value_create(enum sk_value_kind kind, uint32_t n_blocks, uint32_t n_parts);
/* Adds a block at the end of the value, which takes the plan over. */
void sk_value_add(struct sk_value *v, struct sk_block_plan *plan);

/* rows of the key columns of some batches, and columns of numbers, which together make one batch
 * (frame.c) */
struct sk_frame {
    const struct ArrowSchema *schema;
    /* the list is copied; the arrays to which it points must outlive the value */
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
 * first and last page of a run may also have rows of other partitions. keys: of each batch; ranges:
 * on entry all rows of each batch, on return those that belong to the reduce. */
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
/* True if batches of this schema are states; false: rows. */
bool sk_is_states(const struct sk_what *what, const struct ArrowSchema *s);
sk_rc sk_putting_create(const struct sk_what *what, const struct sk_reduce_input *in,
                        struct sk_work **out, struct sk_err *err) SK_MUST_USE;

#endif
