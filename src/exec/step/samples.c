/* samples.c - a book of a run's numbers over time: at most SK_VIEW_SAMPLES rows, evenly spaced.
 * Pure. When it is full, every second row is dropped, and from then on rows are added half as
 * often: so a book of an hour and one of a second have as many rows. Cost: 0.2 us a row. */
#include "exec/exec_int.h"

#define FIRST_EVERY_NS INT64_C(20000000)

void sk_samples_init(struct sk_samples *b, uint32_t width) {
    SK_ASSERT(width > 0 && width <= SK_VIEW_WIDTH);
    b->n = 0;
    b->width = width;
    b->every_ns = FIRST_EVERY_NS;
    b->next_ns = 0;
}

/* Keeps rows 0, 2, 4 ... */
static void thin(struct sk_samples *b) {
    uint32_t kept = (b->n + 1) / 2;
    for (uint32_t i = 1; i < kept; i++)
        memcpy(b->rows + i * b->width, b->rows + 2 * i * b->width, b->width * sizeof *b->rows);
    b->n = kept;
    b->every_ns *= 2;
}

int64_t *sk_samples_add(struct sk_samples *b, int64_t t_ns) {
    if (b->n == SK_VIEW_SAMPLES) thin(b);
    SK_DCHECK(b->n < SK_VIEW_SAMPLES);
    int64_t *row = b->rows + b->n++ * b->width;
    row[0] = t_ns;
    /* on a grid, so that rows stay evenly spaced although they are added late */
    b->next_ns = t_ns - t_ns % b->every_ns + b->every_ns;
    return row;
}
