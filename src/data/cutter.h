/* cutter.h - cuts batches into blocks of about the target size.
 *
 * Neighbours of one schema are joined up to that size, and a larger batch is sliced evenly by rows.
 * The first block has a 16th of the size and each following one twice the size of the one before,
 * so that consumers can start early. Cuts depend on bytes, rows and schemas only. If there are no
 * rows at all, one empty block keeps the columns. */
#ifndef SK_DATA_CUTTER_H
#define SK_DATA_CUTTER_H

#include "data/batch.h"

struct sk_cutter;
/* A block: its plan, which the callee must have written or dropped when it returns. */
typedef sk_rc (*sk_cut_fn)(void *ctx, struct sk_block_plan *plan, struct sk_err *err);

/* target: bytes of a block; 0: each batch is a block. cap: rows after which no more are needed; -1:
 * no limit. */
sk_rc sk_cutter_create(uint64_t target, int64_t cap, sk_cut_fn fn, void *ctx,
                       struct sk_cutter **out, struct sk_err *err) SK_MUST_USE;
/* Takes b over. SK_EDONE: the cap is reached. */
sk_rc sk_cutter_push(struct sk_cutter *c, struct sk_batch *b, struct sk_err *err) SK_MUST_USE;
/* Gives the rest. */
sk_rc sk_cutter_end(struct sk_cutter *c, struct sk_err *err) SK_MUST_USE;
void sk_cutter_destroy(struct sk_cutter *c); /* NULL is fine */

#endif
