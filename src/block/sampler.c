/* sampler.c - the order of the rows of a stream (sampler.h). Batches wait in a queue; a window is
 * opened when all its rows have been added, and is permuted while its rows are given out. */
#include "block/sampler.h"

#include "base/rand.h"
#include "base/containers/vec.h"

struct queued {
    /* rows: number of rows; taken: how many of them windows have taken or, if the order is kept,
     * were given out */
    uint32_t slot, rows, taken;
};

struct sk_sampler {
    struct sk_sampler_conf conf;
    /* numbers of rows of the stream that were given out and that were added; both include the rows
     * before `start` */
    uint64_t given, added;
    bool ended;
    /* The open window: its number; its rows are [opened - n_open, opened) of the stream, of which
     * `drawn` were given out. */
    uint64_t number, opened, n_open, drawn;
    uint64_t skip; /* number of rows of the next window that were given out before `start` */
    struct sk_rand rand;
    SK_VEC(struct sk_row_at) open;
    SK_VEC(struct queued) queue;
    uint32_t head;         /* index of the queue's first batch */
    SK_VEC(uint32_t) left; /* [slot]: number of rows of that batch that were not given out yet */
    SK_VEC(uint32_t) gone, unused;
};

/* ---- windows */

static struct sk_rand rand_of(const struct sk_sampler_conf *c, uint64_t what) {
    struct sk_rand r;
    sk_rand_init(&r, sk_rand_mix(sk_rand_mix(c->seed + UINT64_C(0x9e3779b97f4a7c15)) + c->epoch) +
                         what);
    return r;
}

/* Returns the end of the first window: the number of the row behind it. */
static uint64_t first_end(const struct sk_sampler_conf *c) {
    struct sk_rand r = rand_of(c, UINT64_MAX);
    return c->window + sk_rand_below(&r, c->window);
}

/* Returns the number of the window that has row `at`; *begin: the window's first row. */
static uint64_t window_of(const struct sk_sampler_conf *c, uint64_t at, uint64_t *begin) {
    uint64_t first = first_end(c);
    *begin = at < first ? 0 : first + (at - first) / c->window * c->window;
    return at < first ? 0 : 1 + (at - first) / c->window;
}

static uint64_t end_of(const struct sk_sampler_conf *c, uint64_t number) {
    return first_end(c) + number * c->window;
}

uint64_t sk_sampler_begin(const struct sk_sampler_conf *c) {
    uint64_t begin = c->start;
    if (c->window) (void)window_of(c, c->start, &begin);
    return begin;
}

/* ---- life */

sk_rc sk_sampler_create(const struct sk_sampler_conf *c, struct sk_sampler **out,
                        struct sk_err *err) {
    if (c->window >= UINT32_MAX)
        return SK_ERR(err, SK_EINVAL, "a shuffle of %llu rows at a time: fewer than 2^32 - 1",
                      (unsigned long long)c->window);
    struct sk_sampler *r = sk_calloc(SK_TAG_BLOCK, sizeof *r);
    if (!r) return SK_ERR(err, SK_ENOMEM, "no memory for the order of rows");
    r->conf = *c;
    r->given = c->start;
    r->added = r->opened = sk_sampler_begin(c);
    if (c->window) r->number = window_of(c, c->start, &r->opened);
    r->skip = c->start - r->opened;
    *out = r;
    return SK_OK;
}

void sk_sampler_destroy(struct sk_sampler *r) {
    if (!r) return;
    sk_vec_free(&r->open);
    sk_vec_free(&r->queue);
    sk_vec_free(&r->left);
    sk_vec_free(&r->gone);
    sk_vec_free(&r->unused);
    sk_free(r);
}

/* ---- in */

/* Removes batches whose rows are all taken from the queue, once they are half of it. */
static void shorten(struct sk_sampler *r) {
    if (r->head < 64 || r->head < r->queue.n / 2) return;
    memmove(r->queue.p, r->queue.p + r->head, (r->queue.n - r->head) * sizeof *r->queue.p);
    r->queue.n -= r->head;
    r->head = 0;
}

sk_rc sk_sampler_add(struct sk_sampler *r, uint64_t n, uint32_t *slot, struct sk_err *err) {
    *slot = UINT32_MAX;
    if (r->ended) return SK_ERR(err, SK_EINVAL, "rows were added behind the end of the stream");
    if (n >= UINT32_MAX)
        return SK_ERR(err, SK_EINVAL, "a batch of %llu rows: fewer than 2^32 - 1",
                      (unsigned long long)n);
    if (!n) return SK_OK;
    shorten(r);
    /* All memory that this batch will need is reserved here, so that later calls cannot fail
     * half-way. */
    if (!sk_vec_reserve(&r->queue, SK_TAG_BLOCK, (uint64_t)r->queue.n + 1) ||
        !sk_vec_reserve(&r->left, SK_TAG_BLOCK, (uint64_t)r->left.n + 1) ||
        !sk_vec_reserve(&r->gone, SK_TAG_BLOCK, (uint64_t)r->left.n + 1) ||
        !sk_vec_reserve(&r->unused, SK_TAG_BLOCK, (uint64_t)r->left.n + 1))
        return SK_ERR(err, SK_ENOMEM, "no memory for the order of rows");
    if (r->unused.n) *slot = sk_vec_pop(&r->unused);
    else *slot = r->left.n++;
    SK_ASSERT(*slot < r->left.n && r->added <= UINT64_MAX - n);
    r->left.p[*slot] = (uint32_t)n;
    r->queue.p[r->queue.n++] = (struct queued){*slot, (uint32_t)n, 0};
    r->added += n;
    return SK_OK;
}

void sk_sampler_end(struct sk_sampler *r) { r->ended = true; }

/* ---- out */

uint64_t sk_sampler_ready(const struct sk_sampler *r) {
    uint64_t whole = r->added; /* rows before this number can be given out */
    if (r->conf.window && !r->ended) {
        uint64_t first = first_end(&r->conf);
        whole = r->added < first ? 0 : first + (r->added - first) / r->conf.window * r->conf.window;
    }
    return whole > r->given ? whole - r->given : 0;
}

bool sk_sampler_wants(const struct sk_sampler *r, uint64_t n) {
    if (r->ended) return false;
    return sk_sampler_ready(r) < n ||
           (r->conf.window && r->added - SK_MIN(r->added, r->given) < r->conf.window + n);
}

uint64_t sk_sampler_position(const struct sk_sampler *r) { return r->given; }

static void given(struct sk_sampler *r, uint32_t slot, uint32_t n) {
    SK_ASSERT(r->left.p[slot] >= n);
    r->left.p[slot] -= n;
    /* sk_sampler_add has reserved memory for this entry */
    if (!r->left.p[slot]) r->gone.p[r->gone.n++] = slot;
}

/* Takes the next rows in order from the head of the queue, at most *n; *n becomes their number.
 * Returns the place of the first. */
static struct sk_row_at take(struct sk_sampler *r, uint64_t *n) {
    SK_ASSERT(r->head < r->queue.n);
    struct queued *q = &r->queue.p[r->head];
    struct sk_row_at first = {q->slot, q->taken};
    *n = SK_MIN(*n, (uint64_t)(q->rows - q->taken));
    q->taken += (uint32_t)*n;
    r->head += q->taken == q->rows;
    return first;
}

static struct sk_row_at draw(struct sk_sampler *r) {
    struct sk_row_at *p = r->open.p + r->drawn,
                     *other = p + sk_rand_below(&r->rand, r->n_open - r->drawn), out = *other;
    *other = *p;
    *p = out;
    r->drawn++;
    given(r, out.run, 1);
    return out;
}

/* Opens the next window, whose rows were all added. Rows of the first window that were given out
 * before `start` are drawn and skipped. */
static sk_rc open_window(struct sk_sampler *r, struct sk_err *err) {
    uint64_t begin = r->opened, end = SK_MIN(end_of(&r->conf, r->number), r->added), filled = 0;
    SK_ASSERT(r->drawn == r->n_open && begin + r->skip < end);
    if (!sk_vec_reserve(&r->open, SK_TAG_BLOCK, end - begin))
        return SK_ERR(err, SK_ENOMEM, "no memory for a shuffle of %llu rows",
                      (unsigned long long)(end - begin));
    while (filled < end - begin) {
        uint64_t n = end - begin - filled;
        struct sk_row_at p = take(r, &n);
        for (uint64_t i = 0; i < n; i++)
            r->open.p[filled++] = (struct sk_row_at){p.run, p.row + (uint32_t)i};
    }
    r->n_open = end - begin;
    r->drawn = 0;
    r->opened = end;
    r->rand = rand_of(&r->conf, r->number++);
    for (; r->skip; r->skip--) (void)draw(r);
    return SK_OK;
}

sk_rc sk_sampler_next(struct sk_sampler *r, struct sk_row_at *places, uint64_t *n,
                      struct sk_err *err) {
    uint64_t want = SK_MIN(*n, sk_sampler_ready(r)), made = 0;
    *n = 0;
    while (made < want && !r->conf.window) {
        uint64_t k = want - made;
        struct sk_row_at p = take(r, &k);
        for (uint64_t i = 0; i < k; i++)
            places[made++] = (struct sk_row_at){p.run, p.row + (uint32_t)i};
        given(r, p.run, (uint32_t)k);
    }
    while (made < want) {
        if (r->drawn == r->n_open) SK_TRY(open_window(r, err));
        for (uint64_t k = SK_MIN(want - made, r->n_open - r->drawn); k; k--)
            places[made++] = draw(r);
    }
    r->given += made;
    while (r->ended && r->given >= r->added && r->head < r->queue.n) {
        /* all rows of the last window were given out before `start`, so its batches are only
         * removed */
        uint64_t k = UINT64_MAX;
        struct sk_row_at p = take(r, &k);
        given(r, p.run, (uint32_t)k);
    }
    *n = made;
    return SK_OK;
}

uint32_t sk_sampler_let_go(struct sk_sampler *r) {
    if (!r->gone.n) return UINT32_MAX;
    uint32_t slot = sk_vec_pop(&r->gone);
    r->unused.p[r->unused.n++] = slot;
    return slot;
}
