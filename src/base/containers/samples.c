/* samples.c - see samples.h. */
#include "base/containers/samples.h"

#include <string.h>

#define FIRST_EVERY_NS INT64_C(20000000)

void sk_samples_init(struct sk_samples *b, int64_t *rows, uint32_t cap, uint32_t width) {
    SK_ASSERT(cap > 1 && width > 0);
    *b = (struct sk_samples){.cap = cap, .width = width, .every_ns = FIRST_EVERY_NS, .rows = rows};
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
    if (b->n == b->cap) thin(b);
    SK_DCHECK(b->n < b->cap && t_ns >= b->next_ns);
    int64_t *row = b->rows + b->n++ * b->width;
    row[0] = t_ns;
    /* on a grid, so that rows stay evenly spaced although they are added late */
    b->next_ns = t_ns - t_ns % b->every_ns + b->every_ns;
    return row;
}
