/* inputs.h - the input of a task that cuts, merges or reduces (work.h): batches that are opened
 * over the bytes of packs, or given as Arrow structs, slice by slice; and the work that is made of
 * them. Pure.
 *
 *     sk_inputs_create(what)
 *     for each part: sk_inputs_slice, then sk_inputs_blocks or sk_inputs_batch
 *     sk_inputs_cut, sk_inputs_merge or sk_inputs_reduce, once
 *
 * Whatever is given, bytes and structs, must outlive the inputs, and the inputs the work and its
 * values. */
#ifndef SK_INPUTS_H
#define SK_INPUTS_H

#include "shuffle/work.h"

struct sk_inputs;
/* what: as sk_what_write wrote it. */
sk_rc sk_inputs_create(struct sk_bytes what, struct sk_inputs **out,
                       struct sk_err *err) SK_MUST_USE;
void sk_inputs_destroy(struct sk_inputs *in); /* NULL is fine */
const struct sk_what *sk_inputs_what(const struct sk_inputs *in);

struct sk_input_slice {
    uint32_t run, partition; /* as in struct sk_slice */
    bool columns_only;
    const uint32_t *parts; /* of a pack that is merged, as in struct sk_merge_input; else NULL */
};
/* The next slice: batches that come from now on are its own. */
sk_rc sk_inputs_slice(struct sk_inputs *in, const struct sk_input_slice *s,
                      struct sk_err *err) SK_MUST_USE;
/* Behind the last slice: the batch that comes next is the bounds. */
void sk_inputs_bounds(struct sk_inputs *in);
/* Batches of whole blocks, one behind the other. SK_ECORRUPT: they are none. */
sk_rc sk_inputs_blocks(struct sk_inputs *in, struct sk_bytes blocks,
                       struct sk_err *err) SK_MUST_USE;
/* A batch. All that are given so have one schema. */
sk_rc sk_inputs_batch(struct sk_inputs *in, const struct ArrowSchema *schema,
                      const struct ArrowArray *array, struct sk_err *err) SK_MUST_USE;

/* *fits false: the batches, or their keys and the bounds, are of different types: they have to be
 * cast to one schema first, and given as that; there is no work then. *out NULL: nothing comes of
 * it, because there is no batch. */
sk_rc sk_inputs_cut(struct sk_inputs *in, uint32_t n_partitions, bool *fits, struct sk_work **out,
                    struct sk_err *err) SK_MUST_USE;
/* n: partitions, of which each slice has `parts`; 0: runs. */
sk_rc sk_inputs_merge(struct sk_inputs *in, uint32_t first, uint32_t n, uint32_t values, bool *fits,
                      struct sk_work **out, struct sk_err *err) SK_MUST_USE;
sk_rc sk_inputs_reduce(struct sk_inputs *in, uint32_t first, uint32_t end, uint32_t n,
                       uint64_t target_bytes, bool *fits, struct sk_work **out,
                       struct sk_err *err) SK_MUST_USE;

#endif
