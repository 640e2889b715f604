/* inputs.h - collects the input of a task that cuts, merges or reduces (work.h), slice by slice:
 * batches that are opened over the bytes of packs or given as Arrow structs; then starts the work
 * on them. Pure.
 *
 *     sk_inputs_create(what)
 *     for each part: sk_inputs_slice, then sk_inputs_blocks or sk_inputs_batch
 *     sk_inputs_cut, sk_inputs_merge or sk_inputs_reduce, once
 *
 * All bytes and structs that are passed in must outlive the inputs; the inputs must outlive the
 * work and its values. */
#ifndef SK_INPUTS_H
#define SK_INPUTS_H

#include "shuffle/work.h"

struct sk_inputs;
/* what: a description written by sk_what_write. */
sk_rc sk_inputs_create(struct sk_bytes what, struct sk_inputs **out,
                       struct sk_err *err) SK_MUST_USE;
void sk_inputs_destroy(struct sk_inputs *in); /* NULL is fine */
const struct sk_what *sk_inputs_what(const struct sk_inputs *in);

struct sk_input_slice {
    uint32_t run, partition, side; /* as in struct sk_slice; side counts in a join only */
    bool columns_only;
    const uint32_t *parts; /* for a merge of packs: as in struct sk_merge_input; else NULL */
};
/* Begins a slice; the batches that are added next belong to it. */
sk_rc sk_inputs_slice(struct sk_inputs *in, const struct sk_input_slice *s,
                      struct sk_err *err) SK_MUST_USE;
/* Call behind the last slice: the batches that are added next are of no slice. They are the bounds,
 * or the match reports of a join. */
void sk_inputs_beside(struct sk_inputs *in);
/* Adds the batches of whole blocks that lie behind each other. SK_ECORRUPT: the bytes are no
 * blocks. */
sk_rc sk_inputs_blocks(struct sk_inputs *in, struct sk_bytes blocks,
                       struct sk_err *err) SK_MUST_USE;
/* Adds a batch of Arrow structs. The batches of slices that are added by this call must have one
 * schema; those of a join are checked unless their keys are added, too (SK_JOIN_KEYS). */
sk_rc sk_inputs_batch(struct sk_inputs *in, const struct ArrowSchema *schema,
                      const struct ArrowArray *array, struct sk_err *err) SK_MUST_USE;

/* Each of the next three calls starts the work, once. *fits false: the batches, or their keys and
 * the bounds, differ in type, and no work was started; *err has a message with both schemas. Cast
 * them to one schema and add them again by sk_inputs_batch. *out NULL: no batch was added, so there
 * is nothing to do. */
sk_rc sk_inputs_cut(struct sk_inputs *in, uint32_t n_partitions, bool *fits, struct sk_work **out,
                    struct sk_err *err) SK_MUST_USE;
/* n: number of partitions, for each of which a slice has an entry in `parts`; 0: the slices are
 * runs. */
sk_rc sk_inputs_merge(struct sk_inputs *in, uint32_t first, uint32_t n, uint32_t values,
                      uint64_t target_bytes, bool *fits, struct sk_work **out,
                      struct sk_err *err) SK_MUST_USE;
/* how: partitions, target, part and shared side; the rest of the struct comes from the inputs. */
sk_rc sk_inputs_reduce(struct sk_inputs *in, const struct sk_reduce_input *how, bool *fits,
                       struct sk_work **out, struct sk_err *err) SK_MUST_USE;

#endif
