/* group_row.c - writes a placement group as a row of the list of groups. */
#include "engine/books/group_row.h"

static void head(struct sk_wr *w, struct sk_group_row row, const struct sk_name *name) {
    static const uint8_t zero[8];
    const struct sk_bytes none = {"", 0}, *text = name ? &name->name : &none,
                          *space = name ? &name->space : &none;
    row.text_n = (uint32_t)SK_ALIGN(text->n + space->n + 2, 8);
    sk_wr_raw(w, &row, sizeof row);
    sk_wr_raw(w, text->p, text->n);
    sk_wr_raw(w, zero, 1);
    sk_wr_raw(w, space->p, space->n);
    sk_wr_raw(w, zero, row.text_n - text->n - space->n - 1);
}

void sk_group_row_write(struct sk_wr *w, struct sk_group_row row, const struct sk_name *name,
                        const struct sk_res *bundles, const uint32_t *nodes) {
    head(w, row, name);
    sk_wr_raw(w, bundles, row.n * sizeof *bundles);
    sk_wr_raw(w, nodes, row.n * sizeof *nodes);
    sk_wr_align(w, 8);
}

void sk_group_row_here(struct sk_wr *w, struct sk_group_row row, const struct sk_name *name,
                       const struct sk_place_group *g) {
    row.n = g->n;
    row.state = g->ready;
    head(w, row, name);
    for (uint32_t b = 0; b < g->n; b++) sk_wr_raw(w, &g->b[b].total, sizeof g->b[b].total);
    for (uint32_t b = 0; b < g->n; b++) sk_wr_u32(w, g->b[b].there);
    sk_wr_align(w, 8);
}
