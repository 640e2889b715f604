/* packs.c - packs on their way to an exchange: what their notes say is checked, what is to be merged is gathered. Pure.
 *
 * A merge takes k packs of the same partitions: those that begin with the same one, in the order in which they come. So what it takes is a function of the
 * data. Samples do not come through it: the merged run has one of its own.
 *
 * Cost: a few ns a pack, and a search among as many as one map gives. */
#include "exec/exec_int.h"

#define TAG SK_TAG_EXEC

/* Do the parts make up the value? */
static bool parts_ok(const struct sk_pack_note *h, const uint8_t *at) {
    uint64_t len = 0, rows = 0;
    for (uint32_t i = 0; i < h->n; i++) {
        struct sk_pack_part p;
        memcpy(&p, at + i * sizeof p, sizeof p);
        len += (uint64_t)p.len64 * 64;
        rows += p.rows;
        if (p.rows && !p.len64) return false;
    }
    return len == h->bytes && rows == h->rows;
}

bool sk_pack_note_ok(struct sk_bytes note) {
    struct sk_pack_note h;
    if (note.n < sizeof h || note.n > SK_NOTE_MAX) return false;
    memcpy(&h, note.p, sizeof h);
    const uint8_t *at = (const uint8_t *)note.p + sizeof h;
    uint64_t room = note.n - sizeof h;
    if (h.magic != SK_PACK_NOTE || h.zero || h.first > SK_PARTITIONS_MAX || h.n > SK_PARTITIONS_MAX - h.first) return false;
    switch (h.kind) {
    case SK_PACK_PARTS: return h.n && h.n <= SK_PACK_PARTS_MAX && h.n * sizeof(struct sk_pack_part) <= room && parts_ok(&h, at);
    case SK_PACK_CUTS: return h.n && h.n <= SK_PACK_CUTS_MAX && h.n * sizeof(struct sk_pack_cut) <= room;
    case SK_PACK_RUN:
    case SK_PACK_SAMPLE:
    case SK_PACK_BOUNDS: return !h.n;
    default: return false;
    }
}

/* ---- merges -------------------------------------------------------------------------------------------------------------------------- */

static void close(struct sk_sstage *s, struct sk_bundle **b) {
    if (!*b) return;
    s->n_bundled += (*b)->q.n;
    sk_step_push_ready(s, *b);
    s->n_ready++;
    *b = NULL;
}

static struct sk_bundle **open_of(struct sk_step *x, struct sk_merge *m, uint32_t first) {
    uint32_t i = 0;
    while (i < m->open.n && m->open.p[i].first != first) i++;
    if (i == m->open.n && !sk_vec_push(&m->open, TAG, ((struct sk_open_merge){first, NULL}))) return NULL;
    if (!m->open.p[i].b) {
        if (!(m->open.p[i].b = sk_pool_get(&x->bundles))) return NULL;
        *m->open.p[i].b = (struct sk_bundle){0};
    }
    return &m->open.p[i].b;
}

static sk_rc merge_take_in(struct sk_step *x, struct sk_sstage *s, struct sk_blk *b, struct sk_err *err) {
    if (b->pack->kind == SK_PACK_SAMPLE) return sk_step_drop(x, b, err);
    struct sk_bundle **k = open_of(x, s->merge, b->pack->first);
    if (!k) {
        sk_blkq_push(&x->out, b); /* the run is over; somewhere, for the sweep */
        return SK_ERR(err, SK_ENOMEM, "%s: no memory for its input queue", s->label);
    }
    s->ready_bytes += b->ref.bytes;
    s->ready_rows += b->ref.n_rows;
    s->peak_queued_bytes = SK_MAX(s->peak_queued_bytes, s->ready_bytes);
    sk_blkq_push(&(*k)->q, b);
    if ((*k)->q.n >= s->merge->k) close(s, k);
    return SK_OK;
}

/* ---- for both ------------------------------------------------------------------------------------------------------------------------ */

sk_rc sk_packs_take_in(struct sk_step *x, struct sk_sstage *s, uint32_t side, struct sk_blk *b, struct sk_err *err) {
    SK_ASSERT(s->exchange || s->merge);
    if (b->pack->kind != SK_PACK_SAMPLE) {
        s->rows_in += b->ref.n_rows;
        s->bytes_in += b->ref.bytes;
    }
    return s->exchange ? sk_exchange_take_in(x, s, side, b, err) : merge_take_in(x, s, b, err);
}

sk_rc sk_packs_input_ended(struct sk_step *x, struct sk_sstage *s, struct sk_err *err) {
    for (uint32_t i = 0; s->merge && i < s->merge->open.n; i++) close(s, &s->merge->open.p[i].b);
    return s->exchange ? sk_exchange_input_ended(x, s, err) : SK_OK;
}

sk_rc sk_packs_drop(struct sk_step *x, struct sk_sstage *s, struct sk_err *err) {
    for (uint32_t i = 0; s->merge && i < s->merge->open.n; i++) {
        struct sk_bundle *b = s->merge->open.p[i].b;
        if (!b) continue;
        SK_TRY(sk_step_drop_queue(x, &b->q, err));
        sk_pool_put(&x->bundles, b);
        s->merge->open.p[i].b = NULL;
    }
    return s->exchange ? sk_exchange_drop(x, s, err) : SK_OK;
}
