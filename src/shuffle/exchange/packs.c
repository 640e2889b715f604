/* packs.c - checks notes of packs, and writes and reads the descriptions of an exchange's tasks
 * (formats: pack.h). Pure. */
#include "exchange_int.h"

/* True if lengths and rows of the parts add up to those of the value. */
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
    if (note.n < sizeof h) return false;
    memcpy(&h, note.p, sizeof h);
    const uint8_t *at = (const uint8_t *)note.p + sizeof h;
    uint64_t room = note.n - sizeof h;
    if (h.magic != SK_PACK_NOTE || h.zero || h.first > SK_PARTITIONS_MAX ||
        h.n > SK_PARTITIONS_MAX - h.first)
        return false;
    switch (h.kind) {
    case SK_PACK_PARTS:
        return h.n && h.n <= SK_PACK_PARTS_MAX && h.n * sizeof(struct sk_pack_part) <= room &&
               parts_ok(&h, at);
    case SK_PACK_CUTS:
        return h.n && h.n <= SK_PACK_CUTS_MAX && h.n * sizeof(struct sk_pack_cut) <= room;
    case SK_PACK_RUN:
    case SK_PACK_SAMPLE:
    case SK_PACK_BOUNDS:
    case SK_PACK_MATCH_REPORT: return !h.n;
    default: return false;
    }
}

struct sk_kept *sk_pack_new(const struct sk_value_note *head) {
    const struct sk_pack_note *note = (const void *)head;
    uint32_t n = note->kind == SK_PACK_PARTS ? note->n : 0;
    struct sk_pack *p = sk_calloc(TAG, sizeof *p + n * sizeof *p->part);
    if (!p) return NULL;
    sk_list_init(&p->kept.link);
    p->kind = note->kind;
    p->first = note->first;
    p->n = n;
    const struct sk_pack_part *part = (const void *)(note + 1);
    for (uint32_t i = 0, off = 0; i < n; off += part[i++].len64) {
        p->part[i] =
            (struct sk_pack_cut){.off64 = off, .len64 = part[i].len64, .rows = part[i].rows};
        if (part[i].len64) p->last = p->first + i + 1;
    }
    return &p->kept;
}

void sk_pack_gone(struct sk_kept *k) {
    struct sk_pack *p = sk_container_of(k, struct sk_pack, kept);
    if (p->place) *p->place = NULL;
    sk_free(p);
}

uint32_t sk_exchange_run(const struct sk_kept *k) {
    return sk_container_of(k, struct sk_pack, kept)->run;
}

/* ---- the description of a task --------------------------------------------------------------- */

struct sk_xtask *sk_xtask_new(uint32_t phase, uint32_t first, uint32_t end, uint32_t n) {
    struct sk_xtask *say = sk_calloc(TAG, sizeof *say);
    if (say) say->t = (struct sk_pack_task){phase, first, end, n, 0};
    return say;
}

void sk_xtask_forget(void *say) { sk_free(say); }

const struct sk_pack_task *sk_exchange_task(const void *say) {
    return say ? &((const struct sk_xtask *)say)->t : NULL;
}

void sk_pack_task_write(struct sk_wr *w, const struct sk_pack_task *t) {
    sk_wr_u32(w, t->phase);
    sk_wr_u32(w, t->first);
    sk_wr_u32(w, t->end);
    sk_wr_u32(w, t->n);
    sk_wr_u32(w, t->shared);
}

struct sk_pack_task sk_pack_task_read(struct sk_rd *r) {
    struct sk_pack_task t;
    t.phase = sk_rd_u32(r);
    t.first = sk_rd_u32(r);
    t.end = sk_rd_u32(r);
    t.n = sk_rd_u32(r);
    t.shared = sk_rd_u32(r);
    return t;
}

void sk_pack_block_write(struct sk_wr *w, uint32_t phase, const struct sk_pack_block *b) {
    sk_wr_u64(w, b->length);
    sk_wr_u32(w, b->run);
    sk_wr_u32(w, b->row);
    if (phase == SK_PHASE_MERGE) sk_wr_bytes(w, b->parts.p, b->parts.n);
}

struct sk_pack_block sk_pack_block_read(struct sk_rd *r, uint32_t phase) {
    struct sk_pack_block b = {0};
    b.length = sk_rd_u64(r);
    b.run = sk_rd_u32(r);
    b.row = sk_rd_u32(r);
    if (phase == SK_PHASE_MERGE) b.parts = sk_rd_bytes(r);
    return b;
}

void sk_xtask_write(const struct sk_gather *g, const void *say, const struct sk_blk *in,
                    struct sk_wr *w) {
    const struct sk_pack_task *t = sk_exchange_task(say);
    (void)g;
    sk_pack_task_write(w, t);
    for (; in; in = in->next) {
        const struct sk_pack *p = sk_pack_of(in);
        struct sk_pack_block b = {
            .length = in->ref.bytes, .run = p->run, .row = in->part ? (uint32_t)in->ref.origin : 0};
        uint32_t len64[SK_PACK_PARTS_MAX];
        for (uint32_t i = 0; t->phase == SK_PHASE_MERGE && i < p->n; i++)
            len64[i] = p->part[i].len64;
        if (t->phase == SK_PHASE_MERGE) b.parts = (struct sk_bytes){len64, p->n * sizeof *len64};
        sk_pack_block_write(w, t->phase, &b);
    }
}
