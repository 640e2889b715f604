/* sampler.h - side contract: in which order the rows of a stream of batches are given out,
 * unchanged or shuffled by windows. The result is places (block.h).
 *
 * A sampler is pure: it knows only numbers of batches and rows, never a batch. For a shuffle the
 * stream is cut into windows of `window` rows, and each window is permuted by itself (Durstenfeld
 * 1964, by xoshiro256**). The first window is longer by 0 to window - 1 rows, a number drawn from
 * seed and epoch, so that different rows share a window in each epoch. So the order depends on
 * seed, epoch and the numbers of the rows alone, not on where batches end. To resume at any row,
 * only the rows of that row's window are needed. A batch can be freed when its last row has been
 * given out, at the latest after two windows. Cost: 4 ns a row, 8 bytes a row of the open window.
 * Not thread-safe. */
#ifndef SK_BLOCK_SAMPLER_H
#define SK_BLOCK_SAMPLER_H

#include "block/block.h"

struct sk_sampler;
struct sk_sampler_conf {
    uint64_t window; /* least number of rows that are shuffled together; 0: keep the order */
    uint64_t seed, epoch;
    uint64_t start; /* number of rows given out before; the sampler continues behind them */
};

/* Returns the number of the first row of the stream that is needed to resume at c->start: the
 * caller must add batches from this row on. */
uint64_t sk_sampler_begin(const struct sk_sampler_conf *c);
sk_rc sk_sampler_create(const struct sk_sampler_conf *c, struct sk_sampler **out,
                        struct sk_err *err) SK_MUST_USE;
void sk_sampler_destroy(struct sk_sampler *r); /* r may be NULL */

/* Adds the stream's next batch, of n rows. *slot: the number that stands for the batch in places
 * (`run`) until sk_sampler_let_go returns it; UINT32_MAX for a batch without rows. SK_EINVAL: 2^32
 * - 1 rows or more, or the stream has ended. */
sk_rc sk_sampler_add(struct sk_sampler *r, uint64_t n, uint32_t *slot,
                     struct sk_err *err) SK_MUST_USE;
/* declares that the stream has ended: no batch will be added */
void sk_sampler_end(struct sk_sampler *r);

/* number of rows that can be given out now */
uint64_t sk_sampler_ready(const struct sk_sampler *r);
/* True if the caller should add more batches before it asks for n rows. For a shuffle this is true
 * one window early, so that the next window's rows exist when it begins. */
bool sk_sampler_wants(const struct sk_sampler *r, uint64_t n);
/* Returns the number of rows given out, including those before `start`. */
uint64_t sk_sampler_position(const struct sk_sampler *r);
/* Gives out the next rows: at most *n, and only rows that are ready; *n becomes their number. */
sk_rc sk_sampler_next(struct sk_sampler *r, struct sk_row_at *places, uint64_t *n,
                      struct sk_err *err) SK_MUST_USE;
/* Returns a slot whose rows have all been given out, each slot once; UINT32_MAX: there is no such
 * slot. The next sk_sampler_add may reuse the slot. */
uint32_t sk_sampler_let_go(struct sk_sampler *r);

#endif
