/* hot.c - splits partitions that are too large for one reduce among several, if the plan allows
 * that. Pure.
 *
 * A hot partition (a frequent key of a join) is shared by split reduces: each has some packs of one
 * input, and all packs of the others. A split reduce cannot know alone which rows of the other
 * inputs have no partner anywhere, so each first yields a match report. When all reports have
 * arrived, one more reduce gets the rows of the other inputs and the reports. It is numbered behind
 * the split reduces, so the output has the order of a single reduce. Inputs of other reduces are
 * not made before that reduce is ready, so some slots are idle for a while at each hot
 * partition. */
#include "exchange_int.h"

/* Returns 1 + the input that reduces of partitions [a, b) may share; 0: none. The result depends on
 * numbers of rows alone. */
uint32_t sk_hot_shared(const struct sk_exchange *e, uint32_t a, uint32_t b) {
    uint64_t most = 0;
    uint32_t best = 0, at = 0;
    if (e->spread <= e->n_inputs) return e->spread;
    for (uint32_t side = 0; side < e->n_inputs; side++) { /* the packs are sorted by input */
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
 * e->packs.n: the reduce takes all remaining ones. A hot partition is split among reduces of `most`
 * bytes each; but each takes at least half as many bytes of the shared input, if that has them, as
 * of the packs that all these reduces get. */
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

/* True if reduces that share the packs must write match reports, because the other inputs have
 * rows. */
bool sk_hot_tells(const struct sk_exchange *e, uint32_t a, uint32_t b) {
    if (!e->shared || !(e->tells >> (e->shared - 1) & 1)) return false;
    for (uint32_t i = 0; i < e->found.n; i++) {
        const struct sk_pack *p = e->packs.p[e->found.p[i]];
        if (p->side + 1 != e->shared && sk_pack_part_of(p, a, b).n_rows) return true;
    }
    return false;
}

/* Adds an entry behind all packs for the match report of the split reduce whose input is being
 * made. Returns its index; 0: out of memory. */
uint32_t sk_hot_make_share(struct sk_exchange *e) {
    struct sk_pack *const *before = e->packs.p;
    if (!sk_vec_push(&e->packs, TAG, NULL)) return 0;
    /* the array has moved, so each pack's pointer to its entry is updated */
    for (uint32_t i = 0; e->packs.p != before && i < e->packs.n; i++)
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
