/* work_int.h - inside the shuffle layer only: how kinds of work are told apart, and how values are
 * put together. */
#ifndef SK_WORK_INT_H
#define SK_WORK_INT_H

#include "base/mem.h"
#include "shuffle/work.h"

struct sk_work { /* the head of each kind of work */
    sk_rc (*next)(struct sk_work *w, struct sk_value **out, struct sk_err *err);
    void (*destroy)(struct sk_work *w);
};

struct sk_what_class { /* a row of the table in what.c; NULL: as runs (SORT) */
    const char *name;
    bool needs_keys, runs; /* runs: its maps make sorted runs, if there are keys and no bounds */
    /* its reduces must know which partition a batch is of: empty ones are blocks, too */
    bool tells_partitions;
    /* Where each row of a batch goes. */
    sk_rc (*partition)(const struct sk_what *what, const struct sk_map_input *in,
                       struct sk_parts *parts, struct sk_err *err);
    /* The order of a reduce's rows. */
    sk_rc (*order)(const struct sk_what *what, const struct sk_reduce_input *in,
                   struct sk_row_at *places, uint64_t n, struct sk_err *err);
    /* A reduce of its own. */
    sk_rc (*reduce)(const struct sk_what *what, const struct sk_reduce_input *in,
                    struct sk_work **out, struct sk_err *err);
};
const struct sk_what_class *sk_what_class_of(enum sk_what_kind kind);

/* Columns of what's keys in a schema; out: n_keys of them. */
sk_rc sk_what_columns(const struct sk_what *what, const struct ArrowSchema *schema,
                      struct sk_key *out, struct sk_err *err) SK_MUST_USE;
/* Its keys over a batch; sk_keys_destroy. */
sk_rc sk_what_keys(const struct sk_what *what, const struct ArrowSchema *schema,
                   const struct ArrowArray *array, struct sk_keys **out,
                   struct sk_err *err) SK_MUST_USE;
/* The first n columns of a sample or of bounds as these keys. */
sk_rc sk_what_first_keys(const struct sk_what *what, uint32_t n, const struct ArrowSchema *schema,
                         const struct ArrowArray *array, struct sk_keys **out,
                         struct sk_err *err) SK_MUST_USE;

/* A value with room for so many blocks and parts, all zero; NULL: no memory. */
struct sk_value *sk_value_create(enum sk_value_kind kind, uint32_t n_blocks, uint32_t n_parts);
/* The next block of a value goes behind those that it has; the plan is the value's. */
void sk_value_add(struct sk_value *v, struct sk_block_plan *plan);

struct sk_frame { /* rows of the key columns of some batches, with numbers beside them */
    const struct ArrowSchema *schema;
    /* the list is copied, what it points to must outlive the value */
    const struct ArrowArray *const *arrays;
    uint32_t n_arrays;
    const struct sk_key *keys;
    uint32_t n_keys, n_numbers;     /* numbers: 3 of a sample, 1 of bounds */
    const uint64_t *const *numbers; /* [n_numbers][rows] */
    const struct sk_row_at *places;
    uint64_t rows;
};
sk_rc sk_frame_value(const struct sk_frame *of, enum sk_value_kind kind, struct sk_value **out,
                     struct sk_err *err) SK_MUST_USE;

/* Which rows of its batches, in the order of the slices, are of the partitions of a reduce: leaves
 * out those of others that the first and last pages of a run have. keys: of each batch; ranges: all
 * of its rows, before. */
sk_rc sk_reduce_trim(const struct sk_what *what, const struct sk_reduce_input *in,
                     struct sk_keys *const *keys, struct sk_range *ranges,
                     struct sk_err *err) SK_MUST_USE;

/* The kinds of work that sk_work_map and sk_work_reduce choose from. */
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
sk_rc sk_putting_create(const struct sk_what *what, const struct sk_reduce_input *in,
                        struct sk_work **out, struct sk_err *err) SK_MUST_USE;

#endif
