/* exchange.c - the gather of an exchange's reduces: it receives packs (those of each input in
 * order), and makes the cut task for runs when all packs have arrived (contract: exec/gather.h).
 * Pure.
 *
 *     packs come in -> the input has ended -> runs: a cut task says which pages are whose -> inputs
 *     of reduces, one at a time (reduces.c)
 *
 * The number of reduces and their partitions are chosen when all packs have arrived, from exact
 * sizes. Packs are in the order (input, task, yield), so the input of a reduce does not depend on
 * time.
 *
 * Cost: 16 bytes for each part of a pack. */
#include <stdlib.h>

#include "exchange_int.h"

/* ---- packs come in --------------------------------------------------------------------------- */

static bool fits(const struct sk_gather *g, const struct sk_value_note *head) {
    const struct sk_exchange *e = sk_exchange_of(g);
    const struct sk_pack_note *note = (const void *)head;
    if (e->cut) return note->kind == SK_PACK_RUN || note->kind == SK_PACK_SAMPLE;
    return note->kind == SK_PACK_PARTS && (!e->wanted || note->first + note->n <= e->wanted);
}

static sk_rc take(struct sk_gather *g, uint32_t side, struct sk_blk *b, struct sk_err *err) {
    struct sk_exchange *e = sk_exchange_of(g);
    struct sk_pack *p = sk_pack_of(b);
    SK_ASSERT(!e->n && side < e->n_inputs && p->kind != SK_PACK_MATCH_REPORT);
    sk_gather_hold(g, b);
    if (p->kind == SK_PACK_SAMPLE) {
        /* the task of the pending sample failed before it yielded the sample's run, and the job
         * goes on without that run */
        struct sk_blk *late = e->pending[side];
        e->pending[side] = b;
        return late ? sk_gather_drop(g, late, err) : SK_OK;
    }
    sk_gather_came(g, b);
    if (!sk_gather_input(g, side)) b->ref.origin = e->packs.n;
    if (e->cut && !p->sample && !e->pending[side])
        return SK_ERR(err, SK_ECORRUPT, "%s: a run came without its sample", sk_gather_label(g));
    if (!sk_vec_push(&e->packs, TAG, p))
        return SK_ERR(err, SK_ENOMEM, "%s: no memory for its packs", sk_gather_label(g));
    if (p->sample) { /* the stage that merges packs has held this run's sample until now */
        sk_list_del(&p->sample->link);
        sk_gather_hold(g, p->sample);
    } else {
        p->sample = e->pending[side];
        e->pending[side] = NULL;
    }
    p->side = side;
    e->n_came++;
    e->longest = SK_MAX(e->longest, p->n);
    if (!e->cut) e->last = SK_MAX(e->last, p->first + p->n);
    e->total += b->ref.bytes;
    g->rest += b->ref.bytes;
    sk_gather_park(g, b);
    return SK_OK;
}

static uint32_t hint(struct sk_gather *g, uint32_t side) {
    return sk_shuffle_ask_values(&sk_exchange_of(g)->in[side]);
}

static bool awaits(const struct sk_gather *g, uint32_t side) {
    const struct sk_exchange *e = sk_exchange_of(g);
    return e->by && e->by->open && !e->n && !e->running && !e->by->open(&e->in[side]);
}

/* ---- all packs are there --------------------------------------------------------------------- */

/* Sorts packs by input; within an input they keep the order of maps, within a map the order of
 * yields. */
static int by_place(const void *a, const void *b) {
    const struct sk_pack *x = *(const struct sk_pack *const *)a,
                         *y = *(const struct sk_pack *const *)b;
    uint64_t i = sk_pack_blk(x)->ref.origin, k = sk_pack_blk(y)->ref.origin;
    if (x->side != y->side) return x->side < y->side ? -1 : 1;
    if (i != k) return i < k ? -1 : 1;
    return x->run < y->run ? -1 : x->run > y->run;
}

static void sort_by_side(struct sk_exchange *e) {
    for (uint32_t i = 0; i < e->packs.n; i++) e->packs.p[i]->run = i;
    if (e->packs.n) qsort(e->packs.p, e->packs.n, sizeof *e->packs.p, by_place);
    for (uint32_t i = 0; i < e->packs.n; i++) {
        e->packs.p[i]->run = i;
        e->packs.p[i]->place = &e->packs.p[i];
    }
}

static uint32_t count_partitions(const struct sk_exchange *e) {
    SK_ASSERT(e->target > 0);
    uint64_t n = e->wanted;
    if (!n) n = e->cut ? (e->total + e->target - 1) / e->target : e->last;
    return (uint32_t)SK_MIN(SK_MAX(n, 1), SK_PARTITIONS_MAX);
}

/* Makes the cut task, whose input is all samples, and makes room for cuts in the pack of each
 * run. */
static sk_rc ask_for_cuts(struct sk_exchange *e, struct sk_err *err) {
    const char *label = sk_gather_label(&e->g);
    for (uint32_t i = 0; i < e->packs.n; i++) {
        struct sk_kept *k =
            sk_gather_resize(&e->g, &e->packs.p[i]->kept,
                             sizeof(struct sk_pack) + e->n * sizeof(struct sk_pack_cut));
        if (!k) return SK_ERR(err, SK_ENOMEM, "%s: no memory for %u parts of a run", label, e->n);
        struct sk_pack *p = e->packs.p[i] = sk_container_of(k, struct sk_pack, kept);
        p->first = 0;
        p->n = e->n;
        memset(p->part, 0, e->n * sizeof *p->part);
    }
    struct sk_xtask *say = sk_xtask_new(SK_PHASE_CUT, 0, e->n, e->n);
    if (!say) return SK_ERR(err, SK_ENOMEM, "%s: no memory for a task", label);
    sk_rc rc = sk_gather_task(
        &e->g, &(struct sk_gather_task){.say = say, .inner = true, .node = SK_ANY_NODE}, err);
    if (rc != SK_OK) {
        sk_xtask_forget(say);
        return rc;
    }
    for (uint32_t i = 0; i < e->packs.n; i++) {
        struct sk_blk *b = e->packs.p[i]->sample;
        b->side = e->packs.p[i]->side;
        sk_pack_of(b)->run = i;
        e->packs.p[i]->sample = NULL;
        sk_gather_add(&e->g, b);
    }
    return SK_OK;
}

static sk_rc ended(struct sk_gather *g, struct sk_err *err) {
    struct sk_exchange *e = sk_exchange_of(g);
    for (uint32_t k = 0; k < e->n_inputs; k++) {
        struct sk_blk *late = e->pending[k];
        e->pending[k] = NULL;
        if (late) SK_TRY(sk_gather_drop(g, late, err));
    }
    e->target = sk_exchange_target(e, e->total);
    e->n = count_partitions(e);
    e->bytes = sk_calloc(TAG, e->n * sizeof *e->bytes);
    if (!e->bytes)
        return SK_ERR(err, SK_ENOMEM, "%s: no memory for %u partitions", sk_gather_label(g), e->n);
    sort_by_side(e);
    return e->cut && e->packs.n ? ask_for_cuts(e, err) : sk_reduces_begin(e, err);
}

/* ---- the note of the cut task ---------------------------------------------------------------- */

/* Cut i of a note belongs to partition first + i of its run; behind the run's last partition follow
 * those of the next run. */
static sk_rc take_cuts(struct sk_exchange *e, const struct sk_pack_note *note, struct sk_err *err) {
    const struct sk_pack_cut *c = (const struct sk_pack_cut *)(const void *)(note + 1),
                             *end = c + note->n;
    uint32_t run = note->run, at = note->first;
    for (; c < end; c++) {
        struct sk_pack *p = run < e->packs.n && at < e->n ? e->packs.p[run] : NULL;
        uint64_t behind = ((uint64_t)c->off64 + c->len64) * 64;
        if (!p || behind > sk_pack_blk(p)->ref.bytes || (c->rows && !c->len64) || p->part[at].len64)
            return SK_ERR(err, SK_ECORRUPT, "%s: its cut task named pages that are not there",
                          sk_gather_label(&e->g));
        p->part[at] = *c;
        p->told++;
        if (++at < e->n) continue;
        at = 0;
        run++;
    }
    return SK_OK;
}

static sk_rc cut_yielded(struct sk_exchange *e, struct sk_blk *b, const struct sk_pack_note *note,
                         struct sk_err *err) {
    if (!note || note->kind != SK_PACK_BOUNDS || e->bounds) {
        SK_TRY(sk_gather_drop(&e->g, b, err));
        if (note && note->kind == SK_PACK_CUTS) return take_cuts(e, note, err);
        return SK_ERR(err, SK_ECORRUPT,
                      "%s: its cut task yielded something that is neither cuts nor bounds",
                      sk_gather_label(&e->g));
    }
    e->bounds = sk_pack_of(b);
    e->bounds->place = &e->bounds;
    sk_gather_park(&e->g, b);
    return SK_OK;
}

static sk_rc cut_over(struct sk_exchange *e, struct sk_err *err) {
    for (uint32_t i = 0; i < e->packs.n; i++)
        if (e->packs.p[i]->told != e->n)
            return SK_ERR(err, SK_ECORRUPT,
                          "%s: its cut task has cut run %u into %u partitions of %u",
                          sk_gather_label(&e->g), i, e->packs.p[i]->told, e->n);
    return sk_reduces_begin(e, err);
}

/* ---- tasks ----------------------------------------------------------------------------------- */

static sk_rc refill(struct sk_gather *g, struct sk_err *err) {
    return sk_reduces_refill(sk_exchange_of(g), err);
}

static void launched(struct sk_gather *g, void *say, uint64_t in_bytes, uint64_t disk_bytes) {
    struct sk_exchange *e = sk_exchange_of(g);
    if (!sk_phase_reduces(((struct sk_xtask *)say)->t.phase)) return;
    e->taken += in_bytes;
    e->taken_disk += disk_bytes;
}

static bool wants(const struct sk_gather *g, const void *say, const struct sk_value_note *note) {
    (void)g;
    return ((const struct sk_xtask *)say)->share && note && note->kind == SK_PACK_MATCH_REPORT;
}

static sk_rc yielded(struct sk_gather *g, void *say, struct sk_blk *b,
                     const struct sk_value_note *note, struct sk_err *err) {
    struct sk_exchange *e = sk_exchange_of(g);
    struct sk_xtask *t = say;
    if (t->t.phase == SK_PHASE_CUT) return cut_yielded(e, b, (const void *)note, err);
    sk_hot_told(e, t, sk_pack_of(b));
    return sk_reduces_refill(e, err);
}

static bool needed(const void *say) {
    /* without the cut task no reduce can begin; without a match report the output would be wrong */
    const struct sk_xtask *t = say;
    return t->t.phase == SK_PHASE_CUT || t->share;
}

static sk_rc over(struct sk_gather *g, void *say, struct sk_err *err) {
    const struct sk_xtask *t = say;
    if (t->share)
        return SK_ERR(err, SK_ECORRUPT, "%s: a reduce that has a share has not told what it met",
                      sk_gather_label(g));
    return t->t.phase == SK_PHASE_CUT ? cut_over(sk_exchange_of(g), err) : SK_OK;
}

static sk_rc drop(struct sk_gather *g, struct sk_err *err) {
    struct sk_exchange *e = sk_exchange_of(g);
    e->running = g->spent = true;
    e->next = e->n;
    g->rest = 0;
    e->piece = e->first_told = e->untold = 0;
    for (uint32_t k = 0; k < e->n_inputs; k++) {
        struct sk_blk *late = e->pending[k];
        e->pending[k] = NULL;
        e->columns[k] = NULL;
        if (late) SK_TRY(sk_gather_drop(g, late, err));
    }
    for (uint32_t i = 0; i < e->packs.n; i++) {
        struct sk_pack *p = e->packs.p[i];
        if (!p) continue;
        struct sk_blk *sample = p->sample;
        p->sample = NULL;
        p->place = &e->packs.p[i];
        if (sample) SK_TRY(sk_gather_drop(g, sample, err));
        SK_TRY(sk_gather_more(g, &p->kept, false, err));
    }
    return e->bounds ? sk_gather_more(g, &e->bounds->kept, false, err) : SK_OK;
}

/* ---- for people, and for tests --------------------------------------------------------------- */

static uint64_t task_bytes(const struct sk_gather *g, uint64_t all_bytes, uint32_t *work) {
    return sk_exchange_reduce_bytes(sk_exchange_of(g), all_bytes, work);
}

static void stats(const struct sk_gather *g, struct sk_gather_stats *s) {
    const struct sk_exchange *e = sk_exchange_of(g);
    *s = (struct sk_gather_stats){.by = e->by ? e->by->name : ""};
    s->n[SK_XSTAT_VALUES] = e->values;
    for (uint32_t k = 0; k < e->n_inputs; k++)
        s->n[SK_XSTAT_MERGE] = SK_MAX(s->n[SK_XSTAT_MERGE], e->in[k].merge);
    s->n[SK_XSTAT_PACKS] = e->n_came;
    s->n[SK_XSTAT_BYTES] = e->total;
    s->n[SK_XSTAT_DISK] = e->disk_bytes;
    s->n[SK_XSTAT_PARTITIONS] = e->running ? e->n : 0;
    for (uint32_t i = 0; e->running && i < e->n; i++)
        s->n[SK_XSTAT_LARGEST] = SK_MAX(s->n[SK_XSTAT_LARGEST], e->bytes[i]);
    s->n[SK_XSTAT_TAKEN] = e->taken;
    s->n[SK_XSTAT_READ] = e->taken_disk;
}

static size_t text(const struct sk_gather *g, char *buf, size_t cap) {
    const struct sk_exchange *e = sk_exchange_of(g);
    char how[64] = "have come";
    if (e->running) snprintf(how, sizeof how, "in %u partitions, %u of them taken", e->n, e->next);
    else if (e->n) snprintf(how, sizeof how, "are being cut");
    return (size_t)snprintf(buf, cap, "%u packs of %.1f MiB %s", e->n_came,
                            (double)e->total / 1048576.0, how);
}

static bool check(const struct sk_gather *g) {
    const struct sk_exchange *e = sk_exchange_of(g);
    uint64_t rest = 0;
    for (uint32_t i = 0; i < e->packs.n; i++) {
        const struct sk_pack *p = e->packs.p[i];
        if (p && (!p->kept.parked || (p->place && (p->run != i || p->place != &e->packs.p[i]))))
            return false;
        rest += p && !e->running ? sk_pack_blk(p)->ref.bytes : 0;
    }
    for (uint32_t i = e->next; e->running && i < e->n; i++) rest += e->bytes[i];
    if (e->next > e->n || rest != g->rest || g->spent != sk_exchange_spent(e) || g->waiting_bytes ||
        (e->untold && !e->first_told))
        return false;
    return !e->running || sk_gather_ready(g) || g->spent || e->untold;
}

static void destroy(struct sk_gather *g) {
    struct sk_exchange *e = sk_exchange_of(g);
    sk_vec_free(&e->packs);
    sk_vec_free(&e->found);
    sk_free(e->bytes);
    sk_free(e->order);
    sk_free(e->at);
    sk_free(e->pending);
    sk_free(e->columns);
    for (uint32_t k = 0; e->in && k < e->n_inputs; k++) sk_free(e->in[k].state);
    sk_free(e->in);
    sk_free(e);
}

const struct sk_gather_ops sk_exchange_ops = {.fits = fits,
                                              .take = take,
                                              .ended = ended,
                                              .drop = drop,
                                              .destroy = destroy,
                                              .hint = hint,
                                              .awaits = awaits,
                                              .refill = refill,
                                              .launched = launched,
                                              .write = sk_xtask_write,
                                              .wants = wants,
                                              .yielded = yielded,
                                              .needed = needed,
                                              .over = over,
                                              .forget = sk_xtask_forget,
                                              .task_bytes = task_bytes,
                                              .stats = stats,
                                              .text = text,
                                              .check = check};

/* ---- making the gather ----------------------------------------------------------------------- */

static bool create(const struct sk_shuffle_ops *by, const struct sk_stage *st,
                   struct sk_gather **out) {
    if (st->exchange.strategy) by = st->exchange.strategy;
    struct sk_exchange *e = sk_calloc(TAG, sizeof *e);
    if (!e) return false;
    *out = &e->g;
    e->g.ops = &sk_exchange_ops;
    e->g.parks = true;
    e->by = by;
    e->n_inputs = st->n_inputs;
    e->cut = st->exchange.cut;
    e->wanted = st->exchange.n_partitions;
    e->spread = st->exchange.spread;
    e->tells = st->exchange.tells;
    e->tables = st->exchange.tables;
    e->pending = sk_calloc(TAG, st->n_inputs * sizeof *e->pending);
    e->columns = sk_calloc(TAG, st->n_inputs * sizeof *e->columns);
    e->in = sk_calloc(TAG, st->n_inputs * sizeof *e->in);
    for (uint32_t k = 0; e->in && k < st->n_inputs; k++) {
        e->in[k] = (struct sk_shuffle){.by = by, .e = e, .side = k};
        if (by && by->state_bytes && !(e->in[k].state = sk_calloc(TAG, by->state_bytes)))
            return false;
        if (by && by->begin && !by->begin(&e->in[k])) return false;
    }
    return e->pending && e->columns && e->in;
}

static sk_rc make(const void *arg, const struct sk_stage *st, struct sk_gather **out,
                  struct sk_err *err) {
    *out = NULL;
    bool ok = st->props & SK_OP_MERGE ? sk_merges_create(out)
                                      : !(st->props & SK_OP_EXCHANGE) || create(arg, st, out);
    if (ok) return SK_OK;
    if (*out) (*out)->ops->destroy(*out);
    *out = NULL;
    return SK_ERR(err, SK_ENOMEM, "%s: no memory for the stage", st->label);
}

struct sk_gathers sk_shuffle_gathers(const struct sk_shuffle_ops *by) {
    return (struct sk_gathers){.make = make,
                               .note_ok = sk_pack_note_ok,
                               .value = sk_pack_new,
                               .gone = sk_pack_gone,
                               .arg = by};
}
