/* sampler.h - side contract: which rows of a stream of batches come next, in the order of the
 * stream or shuffled by windows, as places (block.h).
 *
 * Pure: it holds numbers of batches and rows, never a batch. Shuffled, the stream is cut into
 * windows of `window` rows (the first one is longer by 0 to window - 1 rows, drawn from seed and
 * epoch, so that the same rows do not meet in each epoch), and each window is permuted on its own
 * (Durstenfeld 1964, by xoshiro256**). So the order is a function of (seed, epoch, number of the
 * row) alone, not of where batches end; going on at any row needs the rows of one window and no
 * history; and a batch is let go when the last of its rows is given out, at the latest after two
 * windows. Cost: 4 ns a row, 8 bytes a row of the open window. Not thread-safe. */
#ifndef SK_BLOCK_SAMPLER_H
#define SK_BLOCK_SAMPLER_H

#include "block/block.h"

struct sk_sampler;
struct sk_sampler_conf {
    uint64_t window; /* rows that are shuffled together, at least; 0: they stay in order */
    uint64_t seed, epoch;
    uint64_t start; /* rows that were given out before: it goes on behind them */
};

/* The number of the first row of the stream that is needed to go on at c->start: what is added
 * begins with it. */
uint64_t sk_sampler_begin(const struct sk_sampler_conf *c);
sk_rc sk_sampler_create(const struct sk_sampler_conf *c, struct sk_sampler **out,
                        struct sk_err *err) SK_MUST_USE;
void sk_sampler_destroy(struct sk_sampler *r); /* NULL is fine */

/* The next batch of the stream has n rows. *slot: the `run` of its places until it is let go; a
 * batch without rows has none (UINT32_MAX). SK_EINVAL: 2^32 - 1 rows or more; after the end. */
sk_rc sk_sampler_add(struct sk_sampler *r, uint64_t n, uint32_t *slot,
                     struct sk_err *err) SK_MUST_USE;
void sk_sampler_end(struct sk_sampler *r); /* of the stream: what is there is all */

uint64_t sk_sampler_ready(const struct sk_sampler *r); /* how many can be given out now */
bool sk_sampler_wants(const struct sk_sampler *r,
                      uint64_t
                          /* whether to add more before n rows are asked for: shuffled, a window
                           * ahead, so that no window waits for all of its rows */
                          n);
/* rows given out, with those of `start` */
uint64_t sk_sampler_position(const struct sk_sampler *r);
/* The next rows, *n of those that are ready, at most; *n becomes how many. */
sk_rc sk_sampler_next(struct sk_sampler *r, struct sk_row_at *places, uint64_t *n,
                      struct sk_err *err) SK_MUST_USE;
/* A slot no row of which will be given out any more, each once; UINT32_MAX: there is none. It may
 * be given to another batch by the next add. */
uint32_t sk_sampler_let_go(struct sk_sampler *r);

#endif
