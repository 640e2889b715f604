/* reduces.c - makes the inputs of reduces from all packs of an exchange, one reduce at a time.
 * Pure.
 *
 * A reduce takes a range of partitions: a part of each pack that has rows of them. A part is a
 * reference to a range of the pack's value, so it costs no copy. The pack holds its value until the
 * last of its parts was used. Cost: about 30 ns per part. */
#include <stdlib.h>

#include "exchange_int.h"

/* Indexes packs by their first partition: fills e->order and e->at. */
static bool index_packs(struct sk_exchange *e) {
    e->order = sk_alloc(TAG, (e->packs.n + 1) * sizeof *e->order);
    e->at = sk_calloc(TAG, (e->n + 2) * sizeof *e->at);
    if (!e->order || !e->at) return false;
    for (uint32_t i = 0; i < e->packs.n; i++) e->at[e->packs.p[i]->first + 2]++;
    for (uint32_t f = 2; f < e->n + 2; f++) e->at[f] += e->at[f - 1];
    for (uint32_t i = 0; i < e->packs.n; i++) e->order[e->at[e->packs.p[i]->first + 1]++] = i;
    /* at[f + 1] is now the end of the list of partition f, and so the beginning of the list of f +
     * 1 */
    return true;
}

sk_rc sk_reduces_begin(struct sk_exchange *e, struct sk_err *err) {
    if (!index_packs(e))
        return SK_ERR(err, SK_ENOMEM, "%s: no memory for %u packs", sk_gather_label(&e->g),
                      e->packs.n);
    e->longest = e->cut ? e->n : e->longest;
    e->g.rest = 0;
    for (uint32_t i = 0; i < e->packs.n; i++) {
        struct sk_pack *p = e->packs.p[i];
        p->last = 0;
        for (uint32_t k = 0; k < p->n; k++) {
            e->bytes[p->first + k] += sk_pack_len(&p->part[k]);
            e->g.rest += sk_pack_len(&p->part[k]);
            if (p->part[k].len64) p->last = p->first + k + 1;
        }
        e->disk_bytes += sk_pack_blk(p)->on_disk ? sk_pack_blk(p)->ref.bytes : 0;
        if (p->last && !e->columns[p->side]) e->columns[p->side] = p;
        SK_TRY(sk_gather_more(&e->g, &p->kept, p->last > 0, err));
    }
    e->g.whole = e->g.rest;
    e->running = true;
    return sk_reduces_refill(e, err);
}

/* ---- which partitions a reduce takes --------------------------------------------------------- */

/* Returns the end of the partitions of the reduce that begins with a, as the strategy of the first
 * input says. */
static uint32_t range_end(struct sk_exchange *e, uint32_t a, uint32_t *node) {
    struct sk_shuffle_ranges r = {e->n, e->bytes, e->target, sk_exchange_most(e)};
    uint32_t b = 0;
    *node = SK_SHUFFLE_ANY;
    if (e->by && e->by->range) b = e->by->range(&e->in[0], &r, a, node);
    if (e->wanted || e->cut) return a + 1;
    return b > a && b <= e->n ? b : sk_shuffle_range(&r, a);
}

/* ---- the parts of packs that a reduce takes -------------------------------------------------- */

static int by_number(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

/* Collects in e->found, in order, the packs that have bytes of partitions [a, b). */
static bool find(struct sk_exchange *e, uint32_t a, uint32_t b) {
    uint32_t from = a + 1 > e->longest ? a + 1 - e->longest : 0, lists = 0;
    e->found.n = 0;
    for (uint32_t f = from; f < b; f++) {
        uint32_t before = e->found.n;
        for (uint32_t k = e->at[f]; k < e->at[f + 1]; k++) {
            const struct sk_pack *p = e->packs.p[e->order[k]];
            if (p && p->last > a && sk_pack_part_of(p, a, b).bytes &&
                !sk_vec_push(&e->found, TAG, e->order[k]))
                return false;
        }
        lists += e->found.n > before;
    }
    if (lists > 1) qsort(e->found.p, e->found.n, sizeof *e->found.p, by_number);
    return true;
}

/* Adds an argument for the columns of each of the inputs [*side, to), which have no rows for this
 * reduce. */
static sk_rc add_columns(struct sk_exchange *e, uint32_t *side, uint32_t to, struct sk_err *err) {
    for (; *side < to; ++*side) {
        struct sk_pack *p = e->columns[*side];
        if (!p) continue;
        uint32_t i = 0;
        while (!p->part[i].len64) i++;
        struct sk_bref part = sk_pack_part_of(p, p->first + i, p->first + i + 1);
        part.n_rows = 0;
        SK_TRY(sk_gather_add_part(&e->g, &p->kept, part, *side, err));
    }
    return SK_OK;
}

static sk_rc no_memory(const struct sk_exchange *e, struct sk_err *err) {
    return SK_ERR(err, SK_ENOMEM, "%s: no memory for its input queue", sk_gather_label(&e->g));
}

/* Makes the input of the next reduce of partitions [a, b). If one more reduce of these partitions
 * follows, e->piece or e->first_told is not 0 afterwards. */
static sk_rc make_input(struct sk_exchange *e, uint32_t a, uint32_t b, uint32_t node,
                        struct sk_err *err) {
    /* from, to: the range of the shared input's packs that this reduce takes, which is empty for
     * the reduce behind split reduces */
    uint32_t side = 0, from = e->piece, to = 0;
    struct sk_xtask *say = sk_xtask_new(SK_PHASE_REDUCE, a, b, e->n);
    if (!say) return no_memory(e, err);
    struct sk_gather_task task = {
        .say = say, .node = node, .work = e->tables ? SK_REDUCE_TABLE : 0};
    sk_rc rc = find(e, a, b) ? sk_gather_task(&e->g, &task, err) : no_memory(e, err);
    if (rc != SK_OK) {
        sk_xtask_forget(say);
        return rc;
    }
    if (e->first_told && !from) {
        say->t.phase = SK_PHASE_UNMATCHED;
        SK_TRY(sk_hot_add_told(e, err));
    } else {
        if (!from) e->shared = sk_hot_shared(e, a, b);
        to = sk_hot_piece_end(e, a, b);
        e->piece = to < e->packs.n ? to : 0;
        if ((from || e->piece) && sk_hot_tells(e, a, b)) {
            say->t.phase = SK_PHASE_SPLIT_REDUCE;
            say->share = sk_hot_make_share(e);
            if (!say->share) return no_memory(e, err);
        }
    }
    say->t.shared = e->shared;
    if (e->bounds) {
        struct sk_bref all = {.n_rows = sk_pack_blk(e->bounds)->ref.n_rows,
                              .bytes = sk_pack_blk(e->bounds)->ref.bytes};
        SK_TRY(sk_gather_add_part(&e->g, &e->bounds->kept, all, SK_SIDE_BOUNDS, err));
    }
    for (uint32_t i = 0; i < e->found.n; i++) {
        struct sk_pack *p = e->packs.p[e->found.p[i]];
        bool spread = p->side + 1 == e->shared;
        if (spread && (e->found.p[i] < from || e->found.p[i] >= to)) continue;
        SK_TRY(add_columns(e, &side, p->side, err));
        side = p->side + 1;
        SK_TRY(sk_gather_add_part(&e->g, &p->kept, sk_pack_part_of(p, a, b), p->side, err));
        bool more =
            p->last > b || e->columns[p->side] == p || ((e->piece || e->first_told) && !spread);
        SK_TRY(sk_gather_more(&e->g, &p->kept, more, err));
    }
    return add_columns(e, &side, e->n_inputs, err);
}

/* Called when no more inputs will be made: releases the values that were held for all inputs, which
 * are freed when the last task that has them ends. */
static sk_rc let_go(struct sk_exchange *e, struct sk_err *err) {
    e->g.spent = true;
    for (uint32_t k = 0; k < e->n_inputs; k++) {
        struct sk_pack *p = e->columns[k];
        e->columns[k] = NULL;
        if (p) SK_TRY(sk_gather_more(&e->g, &p->kept, false, err));
    }
    return e->bounds ? sk_gather_more(&e->g, &e->bounds->kept, false, err) : SK_OK;
}

sk_rc sk_reduces_refill(struct sk_exchange *e, struct sk_err *err) {
    if (!e->running || sk_gather_ready(&e->g) || e->next == e->n || (e->untold && !e->piece))
        return SK_OK;
    uint32_t node, a = e->next, b = range_end(e, a, &node);
    SK_TRY(make_input(e, a, b, node, err));
    if (e->piece || e->first_told) return SK_OK;
    e->next = b;
    for (; a < b; a++) e->g.rest -= e->bytes[a];
    return e->next == e->n ? let_go(e, err) : SK_OK;
}
