/* packs.c - packs on their way to an exchange: what their notes say is checked, what is to be merged is gathered. Pure.
 *
 * A merge takes k packs of the same partitions that come one behind the other, or k runs; k, and whether there is a merge at all, is what the strategy says when
 * a pack comes. That may depend on time. What reduces see does not: a partition's packs are in the order of the maps, as only neighbours are merged, and a merged
 * pack has the place of its first one. A run brings its sample along to the exchange; one that is merged leaves it behind, for the merged one has its own.
 *
 * Cost: a few ns a pack, and a look at as many as one map gives. */
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
    case SK_PACK_BOUNDS:
    case SK_PACK_TOLD: return !h.n;
    default: return false;
    }
}

/* ---- merges -------------------------------------------------------------------------------------------------------------------------- */

/* Nothing is to be done to it: it goes to the exchange now, whatever is merged meanwhile. There it comes behind what came before it (ref.origin). */
static sk_rc pass(struct sk_step *x, struct sk_sstage *s, struct sk_blk *b, struct sk_err *err) {
    return sk_packs_take_in(x, &x->s[s->parent], s->which, b, err);
}

static sk_rc drop_sample(struct sk_step *x, struct sk_blk **b, struct sk_err *err) {
    struct sk_blk *sample = *b;
    *b = NULL;
    return sample ? sk_step_drop(x, sample, err) : SK_OK;
}

static sk_rc drop_samples(struct sk_step *x, const struct sk_blkq *q, struct sk_err *err) {
    for (struct sk_blk *b = q->head; b; b = b->next) SK_TRY(drop_sample(x, &b->pack->sample, err));
    return SK_OK;
}

static bool same_sizes(const struct sk_shuffle_sizes *a, const struct sk_shuffle_sizes *b) {
    return a->bytes == b->bytes && a->map_bytes == b->map_bytes && a->reduce_bytes == b->reduce_bytes &&
           a->memory_bytes == b->memory_bytes && a->slots == b->slots; /* the rest is the run's */
}

/* What the strategy says of the exchange that the packs of map s go to; of sizes that it was asked of last, what it said then. */
static struct sk_shuffle_way ask(struct sk_step *x, const struct sk_sstage *s) {
    const struct sk_shuffle_ops *by = x->conf.shuffle;
    const struct sk_sstage *in = s, *r = &x->s[s->parent];
    if (!by) return (struct sk_shuffle_way){.values = 1};
    if (r->merge) {
        in = r;
        r = &x->s[r->parent];
    }
    struct sk_exchange *e = r->exchange;
    struct sk_exchange_asked *last = &e->asked[in->which];
    struct sk_shuffle_sizes z = sk_view_sizes(x, r, s);
    if (!last->way.values || !same_sizes(&z, &last->z)) {
        struct sk_shuffle_way way = by->way(&z);
        if (by->merge_all) way.merge = by->merge_all;
        if (in == s) way.merge = 0;                  /* no stage merges */
        if (z.runs && way.merge > 1) way.values = 1; /* keys of values of two maps are not cut at the same places */
        *last = (struct sk_exchange_asked){z, way};
        SK_ASSERT(way.values > 0);
    }
    e->way = last->way;
    return last->way;
}

uint32_t sk_packs_values(struct sk_step *x, const struct sk_sstage *s) {
    struct sk_shuffle_way way = ask(x, s->merge ? &x->s[s->inputs[0]] : s);
    return s->merge ? SK_MAX(way.merged, 1u) : way.values;
}

static bool merges_all(const struct sk_step *x) { return x->conf.shuffle && x->conf.shuffle->merge_all; }

/* What was gathered is a task's input now; of one pack there is nothing to merge. */
static sk_rc close(struct sk_step *x, struct sk_sstage *s, uint32_t i, struct sk_err *err) {
    struct sk_bundle *k = s->merge->open.p[i].b;
    s->merge->open.p[i] = s->merge->open.p[--s->merge->open.n];
    s->merge->open_bytes -= k->q.bytes;
    if (k->q.n > 1 || merges_all(x)) {
        s->n_bundled += k->q.n;
        s->rows_in += k->q.rows;
        s->bytes_in += k->q.bytes;
        sk_step_push_ready(s, k);
        s->n_ready++;
        return drop_samples(x, &k->q, err);
    }
    struct sk_blk *one = sk_blkq_pop(&k->q);
    sk_pool_put(&x->bundles, k);
    s->ready_bytes -= one->ref.bytes;
    s->ready_rows -= one->ref.n_rows;
    return pass(x, s, one, err);
}

/* Where packs of these partitions are gathered; others that have some of them, but not the same, end before: so the order of a partition's rows is that of maps. */
static sk_rc find_open(struct sk_step *x, struct sk_sstage *s, uint32_t first, uint32_t end, bool merge, struct sk_bundle **out,
                       struct sk_err *err) {
    struct sk_merge *m = s->merge;
    *out = NULL;
    for (uint32_t i = m->open.n; i-- > 0;) {
        bool same = m->open.p[i].first == first && m->open.p[i].end == end;
        if (same && merge) *out = m->open.p[i].b;
        else if (m->open.p[i].first < end && first < m->open.p[i].end) SK_TRY(close(x, s, i, err));
    }
    if (*out || !merge) return SK_OK;
    struct sk_bundle *k = sk_pool_get(&x->bundles);
    if (k) *k = (struct sk_bundle){0};
    if (k && sk_vec_push(&m->open, TAG, ((struct sk_open_merge){first, end, k}))) {
        *out = k;
        return SK_OK;
    }
    if (k) sk_pool_put(&x->bundles, k);
    return SK_ERR(err, SK_ENOMEM, "%s: no memory for its input queue", s->label);
}

/* With one pack more a partition would be too much for reduces that share it by packs. */
static bool too_hot(const struct sk_step *x, const struct sk_exchange *e, const struct sk_bundle *k, const struct sk_pack *p) {
    for (uint32_t i = 0; e->spread && i < p->n; i++) {
        uint64_t sum = p->part[i].len64;
        for (const struct sk_blk *b = k->q.head; b; b = b->next) sum += b->pack->part[i].len64;
        if (sum * 64 > sk_exchange_most(x) / 2) return true;
    }
    return false;
}

static sk_rc merge_take_in(struct sk_step *x, struct sk_sstage *s, struct sk_blk *b, struct sk_err *err) {
    struct sk_merge *m = s->merge;
    struct sk_pack *p = b->pack;
    if (p->kind == SK_PACK_SAMPLE) {
        SK_TRY(drop_sample(x, &m->sample, err)); /* its task has failed before its run, and was left out */
        m->sample = b;
        return SK_OK;
    }
    struct sk_shuffle_way way = ask(x, &x->s[s->inputs[0]]);
    struct sk_bundle *k;
    p->sample = m->sample;
    m->sample = NULL;
    b->ref.origin = m->came++;
    sk_rc rc = p->kind == SK_PACK_RUN && !p->sample ? SK_ERR(err, SK_ECORRUPT, "%s: a run came without its sample", s->label) : SK_OK;
    uint32_t end = p->first + SK_MAX(p->n, 1u);
    if (rc == SK_OK) rc = find_open(x, s, p->first, end, way.merge > 1 || merges_all(x), &k, err);
    if (rc == SK_OK && k && k->q.n && too_hot(x, x->s[s->parent].exchange, k, p)) {
        rc = find_open(x, s, p->first, end, false, &k, err); /* which closes it */
        if (rc == SK_OK) rc = find_open(x, s, p->first, end, true, &k, err);
    }
    if (rc != SK_OK) {
        sk_blkq_push(&x->out, b); /* the run is over; somewhere, for the sweep */
        return rc;
    }
    if (!k) return pass(x, s, b, err);
    s->ready_bytes += b->ref.bytes;
    s->ready_rows += b->ref.n_rows;
    s->peak_queued_bytes = SK_MAX(s->peak_queued_bytes, s->ready_bytes);
    m->open_bytes += b->ref.bytes;
    sk_blkq_push(&k->q, b);
    if (k->q.n < way.merge && (merges_all(x) || m->open_bytes <= x->mem.limit / 4)) return SK_OK;
    for (uint32_t i = 0; i < m->open.n; i++)
        if (m->open.p[i].b == k) return close(x, s, i, err);
    return SK_OK;
}

/* ---- for both ------------------------------------------------------------------------------------------------------------------------ */

sk_rc sk_packs_take_in(struct sk_step *x, struct sk_sstage *s, uint32_t side, struct sk_blk *b, struct sk_err *err) {
    SK_ASSERT(s->exchange || s->merge);
    if (s->merge) return merge_take_in(x, s, b, err);
    if (b->pack->kind != SK_PACK_SAMPLE) {
        s->rows_in += b->ref.n_rows;
        s->bytes_in += b->ref.bytes;
    }
    return sk_exchange_take_in(x, s, side, b, err);
}

sk_rc sk_packs_input_ended(struct sk_step *x, struct sk_sstage *s, struct sk_err *err) {
    if (s->exchange) return sk_exchange_input_ended(x, s, err);
    if (!s->merge) return SK_OK;
    while (s->merge->open.n) SK_TRY(close(x, s, 0, err));
    return drop_sample(x, &s->merge->sample, err);
}

sk_rc sk_packs_drop(struct sk_step *x, struct sk_sstage *s, struct sk_err *err) {
    if (s->exchange) return sk_exchange_drop(x, s, err);
    if (!s->merge) return SK_OK;
    while (s->merge->open.n) {
        struct sk_bundle *b = sk_vec_pop(&s->merge->open).b;
        SK_TRY(drop_samples(x, &b->q, err));
        SK_TRY(sk_step_drop_queue(x, &b->q, err));
        sk_pool_put(&x->bundles, b);
    }
    s->merge->open_bytes = 0;
    return drop_sample(x, &s->merge->sample, err);
}
