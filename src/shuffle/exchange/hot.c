/* hot.c - partitions that are too large for one reduce, where the plan lets several reduces share
 * them. Pure.
 *
 * A hot partition (a frequent key of a join) is shared by split reduces: each has some packs of one
 * input, and all packs of the others. A split reduce cannot know alone which rows of the other
 * inputs have no partner anywhere, so each first yields a match report. When all reports are there,
 * one more reduce gets the rows of the other inputs and the reports. It is numbered behind the
 * split reduces, so the output has the order of a single reduce. No other input is made until that
 * reduce is ready, which costs a wave of half-empty slots for each hot partition. */
#include "exchange_int.h"

/* Returns 1 + the input that reduces of partitions [a, b) may share; 0: none. It follows from the
 * numbers of rows alone. */
uint32_t sk_hot_shared(const struct sk_exchange *e, uint32_t a, uint32_t b) {
    uint64_t most = 0;
    uint32_t best = 0, at = 0;
    if (e->spread <= e->n_inputs) return e->spread;
    for (uint32_t side = 0; side < e->n_inputs; side++) { /* packs are in the order of inputs */
        uint64_t rows = 0;
        for (; at < e->found.n && e->packs.p[e->found.p[at]]->side == side; at++)
            rows += sk_pack_part_of(e->packs.p[e->found.p[at]], a, b).n_rows;
        if (side && rows <= most) continue;
        most = rows;
        best = side;
    }
    return best + 1;
}

/* Returns the index of the first pack of the shared input that the current reduce does not take;
 * e->packs.n: it takes all that are left. A hot partition is spread over reduces of `most` bytes
 * each. If the shared input can help it, the packs that all these reduces have in common are not
 * larger than what each has for itself. */
uint32_t sk_hot_piece_end(const struct sk_exchange *e, uint32_t a, uint32_t b) {
    uint64_t most = sk_exchange_most(e), all = 0, shared = 0, sum = 0;
    for (uint32_t i = 0; e->shared && i < e->found.n; i++) {
        const struct sk_pack *p = e->packs.p[e->found.p[i]];
        if (p->side + 1 == e->shared)
            shared += e->found.p[i] >= e->piece ? sk_pack_part_of(p, a, b).bytes : 0;
        else all += sk_pack_part_of(p, a, b).bytes;
    }
    if (!e->shared || all + shared <= most) return e->packs.n;
    uint64_t own = SK_MAX(most - SK_MIN(all, most), SK_MIN(all, most) / 2);
    for (uint32_t i = 0; i < e->found.n; i++) {
        const struct sk_pack *p = e->packs.p[e->found.p[i]];
        if (p->side + 1 != e->shared || e->found.p[i] < e->piece) continue;
        uint64_t bytes = sk_pack_part_of(p, a, b).bytes;
        if (sum && sum + bytes > own) return e->found.p[i];
        sum += bytes;
    }
    return e->packs.n;
}

/* True: the reduces that share the packs must report matches, because there are rows of the other
 * inputs. */
bool sk_hot_tells(const struct sk_exchange *e, uint32_t a, uint32_t b) {
    if (!e->shared || !(e->tells >> (e->shared - 1) & 1)) return false;
    for (uint32_t i = 0; i < e->found.n; i++) {
        const struct sk_pack *p = e->packs.p[e->found.p[i]];
        if (p->side + 1 != e->shared && sk_pack_part_of(p, a, b).n_rows) return true;
    }
    return false;
}

/* Makes a place behind all packs for the match report of the split reduce that is being made. */
uint32_t sk_hot_make_share(struct sk_exchange *e) {
    struct sk_pack *const *before = e->packs.p;
    if (!sk_vec_push(&e->packs, TAG, NULL)) return 0;
    for (uint32_t i = 0; e->packs.p != before && i < e->packs.n; i++) /* the pointers have moved */
        if (e->packs.p[i]) e->packs.p[i]->place = &e->packs.p[i];
    uint32_t share = e->packs.n - 1;
    if (!e->first_told) e->first_told = share;
    e->untold++;
    return share;
}

/* Adds all match reports to the input of the reduce behind the split reduces. */
sk_rc sk_hot_add_told(struct sk_exchange *e, struct sk_err *err) {
    SK_ASSERT(!e->untold);
    for (uint32_t i = e->first_told; i < e->packs.n; i++) {
        struct sk_pack *p = e->packs.p[i];
        struct sk_bref all = {.n_rows = sk_pack_blk(p)->ref.n_rows,
                              .bytes = sk_pack_blk(p)->ref.bytes};
        SK_TRY(sk_gather_add_part(&e->g, &p->kept, all, SK_SIDE_REPORTS, err));
        SK_TRY(sk_gather_more(&e->g, &p->kept, false, err));
    }
    e->first_told = 0;
    return SK_OK;
}

void sk_hot_told(struct sk_exchange *e, struct sk_xtask *say, struct sk_pack *p) {
    SK_ASSERT(e->untold && say->share < e->packs.n && !e->packs.p[say->share]);
    e->packs.p[say->share] = p;
    p->run = say->share;
    p->place = &e->packs.p[say->share];
    say->share = 0;
    e->untold--;
    sk_gather_park(&e->g, sk_pack_blk(p));
}
