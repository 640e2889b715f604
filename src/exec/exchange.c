/* exchange.c - what waits for the reduces of a stage that begins with an exchange, and how their inputs are made of it. Pure.
 *
 *     packs come in, of each input in order -> the input has ended -> runs: a cut task says which pages are whose -> inputs of reduces, one at a time
 *
 * A reduce takes a range of partitions: a slice of each pack that has rows of them. A slice is a reference to a part of the pack, which costs nothing; the pack
 * keeps the reference and the cost, and is given back when its last slice was used. As nothing is decided before all packs are there, how many reduces there are,
 * and what each takes, follows from exact sizes. Packs are in the order (input, task, yield), so what a reduce sees does not depend on time.
 *
 * A partition that is too large (a hot key of a join) is shared by several reduces, where the plan allows it: each has some packs of one input, and all of the others. What no share
 * can know alone (which rows of the others meet nothing in any of them) each tells first; when all have, one more reduce has the rows of the others and what was told. Its number is
 * behind theirs, so the order is that of one reduce; until it is ready no other input is made, which costs a wave of half-empty slots a hot partition.
 *
 * Memory: where the engine spills, what waits here is no reason to hold a task back (x->parked: it may go to disk, and what was there before it will not
 * get less by waiting); parts that must be read from disk for a reduce, and its tables, are reserved when it is launched.
 *
 * Cost: 16 bytes a part of a pack; about 30 ns a slice. */
#include <stdlib.h>

#include "exec/exec_int.h"

#define TAG SK_TAG_EXEC
#define TABLE 8u /* bytes of tables for a byte of the input, about: a group of a few numbers has 100 to 200 bytes */
#define WAVES 2u /* reduces a slot, where they are worth it: the last ones end together */

static uint64_t len_of(const struct sk_pack_cut *c) { return (uint64_t)c->len64 * 64; }

/* ---- packs come ---------------------------------------------------------------------------------------------------------------------- */

static void park(struct sk_step *x, struct sk_pack *p) {
    p->parked = p->more = true;
    *(p->blk->on_disk ? &x->parked_disk : &x->parked) += p->blk->cost;
}

/* The run is over; the block is put somewhere, for the sweep. */
static sk_rc refused(struct sk_step *x, const struct sk_sstage *s, struct sk_blk *b, struct sk_err *err) {
    sk_blkq_push(&x->out, b);
    return SK_ERR(err, SK_ENOMEM, "%s: no memory for its packs", s->label);
}

sk_rc sk_exchange_take_in(struct sk_step *x, struct sk_sstage *s, uint32_t side, struct sk_blk *b, struct sk_err *err) {
    struct sk_exchange *e = s->exchange;
    struct sk_pack *p = b->pack;
    SK_ASSERT(!e->n && side < s->n_inputs && p->kind != SK_PACK_TOLD);
    if (p->kind == SK_PACK_SAMPLE) {
        struct sk_blk *late = e->pending[side]; /* its task has failed before its run, and was left out */
        e->pending[side] = b;
        return late ? sk_step_drop(x, late, err) : SK_OK;
    }
    if (!x->s[s->inputs[side]].merge) b->ref.origin = e->packs.n;
    if (e->cut && !p->sample && !e->pending[side]) {
        sk_blkq_push(&x->out, b);
        return SK_ERR(err, SK_ECORRUPT, "%s: a run came without its sample", s->label);
    }
    if (!sk_vec_push(&e->packs, TAG, p)) return refused(x, s, b, err);
    if (!p->sample) { /* else it was not merged, and another task's may have come in between */
        p->sample = e->pending[side];
        e->pending[side] = NULL;
    }
    p->side = side;
    e->n_came++;
    e->longest = SK_MAX(e->longest, p->n);
    e->total += b->ref.bytes;
    e->rest += b->ref.bytes;
    s->peak_queued_bytes = SK_MAX(s->peak_queued_bytes, e->rest);
    park(x, p);
    return SK_OK;
}

/* ---- all have come ------------------------------------------------------------------------------------------------------------------- */

/* By input, each in the order of the maps; those of one task as they came, which p->run has. */
static int by_place(const void *a, const void *b) {
    const struct sk_pack *x = *(const struct sk_pack *const *)a, *y = *(const struct sk_pack *const *)b;
    if (x->side != y->side) return x->side < y->side ? -1 : 1;
    if (x->blk->ref.origin != y->blk->ref.origin) return x->blk->ref.origin < y->blk->ref.origin ? -1 : 1;
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

uint64_t sk_exchange_most(const struct sk_step *x) { return SK_MAX(SK_MIN(x->conf.target_max_bytes, x->mem.limit / 8), 1); }

/* Bytes of a reduce: all slots are busy, if there is enough for that; none is larger than a block should be, or an eighth of memory. */
uint64_t sk_exchange_target(const struct sk_step *x, const struct sk_sstage *s, uint64_t total) {
    int64_t slots = s->kind == SK_STAGE_ACTORS ? s->pool_max : x->conf.cpu_e4 / SK_MAX(s->cpu_e4, 1);
    if (s->kind == SK_STAGE_TASKS && s->cpu_e4 <= 0) slots = x->conf.cpu_e4 / SK_RES_UNIT;
    if (s->max_tasks) slots = SK_MIN(slots, (int64_t)s->max_tasks);
    uint64_t even = total / (WAVES * (uint64_t)SK_MAX(slots, 1)) + 1;
    return SK_MIN(SK_MAX(even, x->conf.target_min_bytes), sk_exchange_most(x));
}

static uint32_t count_partitions(const struct sk_exchange *e) {
    SK_ASSERT(e->target > 0);
    uint64_t n = e->wanted;
    if (!n && e->cut) n = (e->total + e->target - 1) / e->target;
    for (uint32_t i = 0; !e->wanted && !e->cut && i < e->packs.n; i++) n = SK_MAX(n, e->packs.p[i]->first + e->packs.p[i]->n);
    return (uint32_t)SK_MIN(SK_MAX(n, 1), SK_PARTITIONS_MAX);
}

static bool push_input(struct sk_step *x, struct sk_sstage *s, uint32_t phase) {
    struct sk_bundle *k = sk_pool_get(&x->bundles);
    if (!k) return false;
    *k = (struct sk_bundle){0};
    s->exchange->phase = phase;
    sk_step_push_ready(s, k);
    s->n_ready++;
    return true;
}

/* The samples are the input of one task; each run gets room for what it will say of it. */
static sk_rc ask_for_cuts(struct sk_step *x, struct sk_sstage *s, struct sk_err *err) {
    struct sk_exchange *e = s->exchange;
    for (uint32_t i = 0; i < e->packs.n; i++) {
        struct sk_pack *p = e->packs.p[i], *q = sk_realloc(TAG, p, sizeof *p + e->n * sizeof *p->part);
        if (!q) return SK_ERR(err, SK_ENOMEM, "%s: no memory for %u parts of a run", s->label, e->n);
        q->blk->pack = e->packs.p[i] = q;
        q->first = 0;
        q->n = e->n;
        memset(q->part, 0, e->n * sizeof *q->part);
    }
    if (!push_input(x, s, SK_PHASE_CUT)) return SK_ERR(err, SK_ENOMEM, "%s: no memory for its input queue", s->label);
    for (uint32_t i = 0; i < e->packs.n; i++) {
        struct sk_blk *b = e->packs.p[i]->sample;
        b->side = e->packs.p[i]->side;
        b->pack->run = i;
        e->packs.p[i]->sample = NULL;
        s->ready_bytes += b->ref.bytes;
        s->ready_rows += b->ref.n_rows;
        sk_blkq_push(&s->ready_last->q, b);
    }
    return SK_OK;
}

/* Packs by their first partition. */
static bool index_packs(struct sk_exchange *e) {
    e->order = sk_alloc(TAG, (e->packs.n + 1) * sizeof *e->order);
    e->at = sk_calloc(TAG, (e->n + 2) * sizeof *e->at);
    if (!e->order || !e->at) return false;
    for (uint32_t i = 0; i < e->packs.n; i++) e->at[e->packs.p[i]->first + 2]++;
    for (uint32_t f = 2; f < e->n + 2; f++) e->at[f] += e->at[f - 1];
    for (uint32_t i = 0; i < e->packs.n; i++) e->order[e->at[e->packs.p[i]->first + 1]++] = i;
    return true; /* at[f + 1] has become where f ends, and f + 1 begins */
}

static sk_rc drop_if_done(struct sk_step *x, struct sk_pack *p, bool more, struct sk_err *err) {
    p->more = more;
    return more || p->slices ? SK_OK : sk_step_drop(x, p->blk, err);
}

static sk_rc begin_reduces(struct sk_step *x, struct sk_sstage *s, struct sk_err *err) {
    struct sk_exchange *e = s->exchange;
    if (!index_packs(e)) return SK_ERR(err, SK_ENOMEM, "%s: no memory for %u packs", s->label, e->packs.n);
    e->longest = e->cut ? e->n : e->longest;
    e->rest = 0;
    for (uint32_t i = 0; i < e->packs.n; i++) {
        struct sk_pack *p = e->packs.p[i];
        p->last = 0;
        for (uint32_t k = 0; k < p->n; k++) {
            e->bytes[p->first + k] += len_of(&p->part[k]);
            e->rest += len_of(&p->part[k]);
            if (p->part[k].len64) p->last = p->first + k + 1;
        }
        e->disk_bytes += p->blk->on_disk ? p->blk->ref.bytes : 0;
        if (p->last && !e->columns[p->side]) e->columns[p->side] = p;
        SK_TRY(drop_if_done(x, p, p->last > 0, err));
    }
    e->running = true;
    s->next_seq = 0; /* the cut task has no number */
    return sk_exchange_refill(x, s, err);
}

sk_rc sk_exchange_input_ended(struct sk_step *x, struct sk_sstage *s, struct sk_err *err) {
    struct sk_exchange *e = s->exchange;
    for (uint32_t k = 0; k < s->n_inputs; k++) {
        struct sk_blk *late = e->pending[k];
        e->pending[k] = NULL;
        if (late) SK_TRY(sk_step_drop(x, late, err));
    }
    e->target = sk_exchange_target(x, s, e->total);
    e->n = count_partitions(e);
    e->bytes = sk_calloc(TAG, e->n * sizeof *e->bytes);
    if (!e->bytes) return SK_ERR(err, SK_ENOMEM, "%s: no memory for %u partitions", s->label, e->n);
    sort_by_side(e);
    return e->cut && e->packs.n ? ask_for_cuts(x, s, err) : begin_reduces(x, s, err);
}

/* ---- the cut task -------------------------------------------------------------------------------------------------------------------- */

/* The i-th cut of a note is of partition first + i of its run, or of those behind it. */
static sk_rc take_cuts(struct sk_exchange *e, const char *label, const struct sk_pack_note *note, struct sk_err *err) {
    const struct sk_pack_cut *c = (const struct sk_pack_cut *)(const void *)(note + 1), *end = c + note->n;
    uint32_t run = note->run, at = note->first;
    for (; c < end; c++) {
        struct sk_pack *p = run < e->packs.n && at < e->n ? e->packs.p[run] : NULL;
        uint64_t behind = ((uint64_t)c->off64 + c->len64) * 64;
        if (!p || behind > p->blk->ref.bytes || (c->rows && !c->len64) || p->part[at].len64)
            return SK_ERR(err, SK_ECORRUPT, "%s: its cut task named pages that are not there", label);
        p->part[at] = *c;
        p->told++;
        if (++at < e->n) continue;
        at = 0;
        run++;
    }
    return SK_OK;
}

sk_rc sk_exchange_cut(struct sk_step *x, struct sk_sstage *s, struct sk_blk *b, const struct sk_pack_note *note, struct sk_err *err) {
    struct sk_exchange *e = s->exchange;
    if (!note || note->kind != SK_PACK_BOUNDS || e->bounds) {
        SK_TRY(sk_step_drop(x, b, err));
        if (note && note->kind == SK_PACK_CUTS) return take_cuts(e, s->label, note, err);
        return SK_ERR(err, SK_ECORRUPT, "%s: its cut task yielded something that is neither cuts nor bounds", s->label);
    }
    e->bounds = b->pack;
    b->pack->place = &e->bounds;
    park(x, b->pack);
    return SK_OK;
}

sk_rc sk_exchange_cut_done(struct sk_step *x, struct sk_sstage *s, struct sk_err *err) {
    struct sk_exchange *e = s->exchange;
    for (uint32_t i = 0; i < e->packs.n; i++)
        if (e->packs.p[i]->told != e->n)
            return SK_ERR(err, SK_ECORRUPT, "%s: its cut task has cut run %u into %u partitions of %u", s->label, i, e->packs.p[i]->told,
                          e->n);
    return begin_reduces(x, s, err);
}

/* ---- inputs of reduces --------------------------------------------------------------------------------------------------------------- */

/* The partitions of the reduce that begins with a. */
static uint32_t range_end(const struct sk_step *x, const struct sk_exchange *e, uint32_t a) {
    uint64_t sum = e->bytes[a], most = sk_exchange_most(x);
    uint32_t b = a + 1;
    if (e->wanted || e->cut) return b;
    while (b < e->n && sum + e->bytes[b] <= most && sum + e->bytes[b] / 2 <= e->target) sum += e->bytes[b++];
    while (b < e->n && !e->bytes[b]) b++;
    return b;
}

static sk_rc add_slice(struct sk_step *x, struct sk_sstage *s, struct sk_pack *p, struct sk_bref part, uint32_t side, struct sk_err *err) {
    struct sk_blk *b = sk_pool_get(&x->blks);
    if (!b) return SK_ERR(err, SK_ENOMEM, "%s: no memory for a block", s->label);
    part.oid = p->blk->ref.oid;
    *b = (struct sk_blk){.ref = part, .side = side, .slice = true, .pack = p};
    sk_list_init(&b->ahead);
    p->slices++;
    s->ready_bytes += part.bytes;
    s->ready_rows += part.n_rows;
    sk_blkq_push(&s->ready_last->q, b);
    return SK_OK;
}

/* Its part of partitions a to b - 1: whole blocks, one behind the other. */
static struct sk_bref part_of(const struct sk_pack *p, uint32_t a, uint32_t b) {
    struct sk_bref r = {0};
    uint64_t end = 0;
    for (uint32_t i = SK_MAX(a, p->first); i < SK_MIN(b, p->first + p->n); i++) {
        const struct sk_pack_cut *c = &p->part[i - p->first];
        if (!c->len64) continue;
        if (!end) {
            r.row0 = (uint64_t)c->off64 * 64;
            r.origin = p->kind == SK_PACK_RUN ? c->row : i;
        }
        r.n_rows += c->rows;
        end = (uint64_t)c->off64 * 64 + len_of(c);
    }
    r.bytes = end - r.row0;
    return r;
}

static int by_number(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

/* The packs that have bytes of partitions a to b - 1, in order, into e->found. */
static bool find(struct sk_exchange *e, uint32_t a, uint32_t b) {
    uint32_t from = a + 1 > e->longest ? a + 1 - e->longest : 0, lists = 0;
    e->found.n = 0;
    for (uint32_t f = from; f < b; f++) {
        uint32_t before = e->found.n;
        for (uint32_t k = e->at[f]; k < e->at[f + 1]; k++) {
            const struct sk_pack *p = e->packs.p[e->order[k]];
            if (p && p->last > a && part_of(p, a, b).bytes && !sk_vec_push(&e->found, TAG, e->order[k])) return false;
        }
        lists += e->found.n > before;
    }
    if (lists > 1) qsort(e->found.p, e->found.n, sizeof *e->found.p, by_number);
    return true;
}

/* Of inputs from `*side` to `to` - 1, which have no rows: their columns. */
static sk_rc add_columns(struct sk_step *x, struct sk_sstage *s, uint32_t *side, uint32_t to, struct sk_err *err) {
    for (; *side < to; ++*side) {
        struct sk_pack *p = s->exchange->columns[*side];
        if (!p) continue;
        uint32_t i = 0;
        while (!p->part[i].len64) i++;
        struct sk_bref part = part_of(p, p->first + i, p->first + i + 1);
        part.n_rows = 0;
        SK_TRY(add_slice(x, s, p, part, *side, err));
    }
    return SK_OK;
}

/* 1 + the input that reduces of partitions a to b - 1 may share, whose packs are found: it follows from rows alone. */
static uint32_t shared_input(const struct sk_sstage *s, uint32_t a, uint32_t b) {
    const struct sk_exchange *e = s->exchange;
    uint64_t most = 0;
    uint32_t best = 0, at = 0;
    if (e->spread <= s->n_inputs) return e->spread;
    for (uint32_t side = 0; side < s->n_inputs; side++) { /* packs are in the order of inputs */
        uint64_t rows = 0;
        for (; at < e->found.n && e->packs.p[e->found.p[at]]->side == side; at++) rows += part_of(e->packs.p[e->found.p[at]], a, b).n_rows;
        if (side && rows <= most) continue;
        most = rows;
        best = side;
    }
    return best + 1;
}

/* Of partitions a to b - 1, whose packs are found: where the packs of the shared input end that the reduce at hand takes; e->packs.n: it takes all that are left. A
 * hot partition is spread over reduces of `most` bytes, in which what all of them have is not larger than what they have for themselves, if the shared input can help it. */
static uint32_t piece_end(const struct sk_step *x, const struct sk_exchange *e, uint32_t a, uint32_t b) {
    uint64_t most = sk_exchange_most(x), all = 0, shared = 0, sum = 0;
    for (uint32_t i = 0; e->shared && i < e->found.n; i++) {
        const struct sk_pack *p = e->packs.p[e->found.p[i]];
        if (p->side + 1 == e->shared) shared += e->found.p[i] >= e->piece ? part_of(p, a, b).bytes : 0;
        else all += part_of(p, a, b).bytes;
    }
    if (!e->shared || all + shared <= most) return e->packs.n;
    uint64_t own = SK_MAX(most - SK_MIN(all, most), SK_MIN(all, most) / 2);
    for (uint32_t i = 0; i < e->found.n; i++) {
        const struct sk_pack *p = e->packs.p[e->found.p[i]];
        if (p->side + 1 != e->shared || e->found.p[i] < e->piece) continue;
        uint64_t bytes = part_of(p, a, b).bytes;
        if (sum && sum + bytes > own) return e->found.p[i];
        sum += bytes;
    }
    return e->packs.n;
}

/* Whether the reduces that share the packs that are found tell of the other inputs: there are rows of these. */
static bool have_to_tell(const struct sk_exchange *e, uint32_t a, uint32_t b) {
    if (!e->shared || !(e->tells >> (e->shared - 1) & 1)) return false;
    for (uint32_t i = 0; i < e->found.n; i++) {
        const struct sk_pack *p = e->packs.p[e->found.p[i]];
        if (p->side + 1 != e->shared && part_of(p, a, b).n_rows) return true;
    }
    return false;
}

/* A place behind all packs for what the share that is made will tell. */
static bool make_share(struct sk_exchange *e) {
    struct sk_pack *const *before = e->packs.p;
    if (!sk_vec_push(&e->packs, TAG, NULL)) return false;
    for (uint32_t i = 0; e->packs.p != before && i < e->packs.n; i++) /* they have moved */
        if (e->packs.p[i]) e->packs.p[i]->place = &e->packs.p[i];
    e->share = e->packs.n - 1;
    if (!e->first_told) e->first_told = e->share;
    e->untold++;
    e->phase = SK_PHASE_SHARE;
    return true;
}

/* What all shares have told goes to the one behind them. */
static sk_rc add_told(struct sk_step *x, struct sk_sstage *s, struct sk_err *err) {
    struct sk_exchange *e = s->exchange;
    SK_ASSERT(!e->untold);
    e->phase = SK_PHASE_REST;
    for (uint32_t i = e->first_told; i < e->packs.n; i++) {
        struct sk_pack *p = e->packs.p[i];
        SK_TRY(add_slice(x, s, p, (struct sk_bref){.n_rows = p->blk->ref.n_rows, .bytes = p->blk->ref.bytes}, SK_SIDE_TOLD, err));
        p->more = false;
    }
    e->first_told = 0;
    return SK_OK;
}

/* The next reduce of partitions a to b - 1; e->piece and e->first_told say whether there is one more of them. */
static sk_rc make_input(struct sk_step *x, struct sk_sstage *s, uint32_t a, uint32_t b, struct sk_err *err) {
    struct sk_exchange *e = s->exchange;
    uint32_t side = 0, from = e->piece, to = 0; /* of packs of the shared input; the last one behind those that tell has none */
    bool fine = push_input(x, s, SK_PHASE_REDUCE) && find(e, a, b);
    e->share = 0;
    if (fine && e->first_told && !from) {
        SK_TRY(add_told(x, s, err));
    } else if (fine) {
        if (!from) e->shared = shared_input(s, a, b);
        to = piece_end(x, e, a, b);
        e->piece = to < e->packs.n ? to : 0;
        if ((from || e->piece) && have_to_tell(e, a, b)) fine = make_share(e);
    }
    if (!fine) return SK_ERR(err, SK_ENOMEM, "%s: no memory for its input queue", s->label);
    if (e->bounds) {
        struct sk_bref all = {.n_rows = e->bounds->blk->ref.n_rows, .bytes = e->bounds->blk->ref.bytes};
        SK_TRY(add_slice(x, s, e->bounds, all, SK_SIDE_BOUNDS, err));
    }
    for (uint32_t i = 0; i < e->found.n; i++) {
        struct sk_pack *p = e->packs.p[e->found.p[i]];
        bool spread = p->side + 1 == e->shared;
        if (spread && (e->found.p[i] < from || e->found.p[i] >= to)) continue;
        SK_TRY(add_columns(x, s, &side, p->side, err));
        side = p->side + 1;
        SK_TRY(add_slice(x, s, p, part_of(p, a, b), p->side, err));
        p->more = p->last > b || e->columns[p->side] == p || ((e->piece || e->first_told) && !spread);
    }
    s->n_bundled += s->ready_last->q.n;
    return add_columns(x, s, &side, s->n_inputs, err);
}

/* No more inputs will be made: what was kept for them all goes when the last task that has it is over. */
static sk_rc let_go(struct sk_step *x, struct sk_sstage *s, struct sk_err *err) {
    struct sk_exchange *e = s->exchange;
    for (uint32_t k = 0; k < s->n_inputs; k++) {
        struct sk_pack *p = e->columns[k];
        e->columns[k] = NULL;
        if (p) SK_TRY(drop_if_done(x, p, false, err));
    }
    return e->bounds ? drop_if_done(x, e->bounds, false, err) : SK_OK;
}

static uint64_t bytes_on_disk(const struct sk_blkq *q) {
    uint64_t sum = 0;
    for (const struct sk_blk *b = q->head; b; b = b->next) sum += b->slice && b->pack->blk->on_disk ? b->ref.bytes : 0;
    return sum;
}

bool sk_exchange_reads(const struct sk_step *x, const struct sk_sstage *s) {
    return x->parked_disk && s->exchange->running && s->ready && bytes_on_disk(&s->ready->q);
}

sk_rc sk_exchange_refill(struct sk_step *x, struct sk_sstage *s, struct sk_err *err) {
    struct sk_exchange *e = s->exchange;
    if (!e->running || s->n_ready || e->next == e->n || (e->untold && !e->piece)) return SK_OK;
    uint32_t a = e->next, b = range_end(x, e, a);
    SK_TRY(make_input(x, s, a, b, err));
    e->first = a;
    e->end = b;
    if (e->piece || e->first_told) return SK_OK;
    e->next = b;
    for (; a < b; a++) e->rest -= e->bytes[a];
    return e->next == e->n ? let_go(x, s, err) : SK_OK;
}

/* ---- tasks --------------------------------------------------------------------------------------------------------------------------- */

uint64_t sk_exchange_work(const struct sk_step *x, const struct sk_exchange *e, uint64_t in_bytes) {
    return e->tables && x->conf.moves ? SK_MIN(SK_MIN(TABLE * in_bytes, x->conf.target_max_bytes), x->mem.limit) : 0;
}

void sk_exchange_launched(struct sk_step *x, struct sk_sstage *s, struct sk_stask *t) {
    const struct sk_exchange *e = s->exchange;
    t->phase = (uint8_t)e->phase;
    t->unit = e->running ? e->first : 0;
    t->last = e->running ? e->end : e->n;
    t->shared = e->shared;
    t->share = e->share;
    if (!sk_phase_reduces(t->phase)) return;
    t->read = x->conf.moves ? bytes_on_disk(&t->in) : 0;
    t->work = sk_exchange_work(x, e, t->in.bytes);
    sk_budget_reserve(&x->mem, t->read + t->work);
    s->exchange->working += t->work;
    s->exchange->sliced += t->in.bytes - t->read;
    s->exchange->reading += t->read;
    s->exchange->taken += t->in.bytes;
    s->exchange->taken_disk += t->read;
}

void sk_exchange_over(struct sk_step *x, struct sk_sstage *s, struct sk_stask *t) {
    if (!sk_phase_reduces(t->phase)) return;
    sk_budget_unreserve(&x->mem, t->read + t->work);
    s->exchange->working -= t->work;
    s->exchange->sliced -= t->in.bytes - t->read;
    s->exchange->reading -= t->read;
    t->read = t->work = 0;
}

sk_rc sk_exchange_told(struct sk_step *x, struct sk_sstage *s, struct sk_stask *t, struct sk_blk *b, struct sk_err *err) {
    struct sk_exchange *e = s->exchange;
    struct sk_pack *p = b->pack;
    SK_ASSERT(e->untold && t->share < e->packs.n && !e->packs.p[t->share]);
    e->packs.p[t->share] = p;
    p->run = t->share;
    p->place = &e->packs.p[t->share];
    t->share = 0;
    e->untold--;
    park(x, p);
    return sk_exchange_refill(x, s, err);
}

sk_rc sk_exchange_drop(struct sk_step *x, struct sk_sstage *s, struct sk_err *err) {
    struct sk_exchange *e = s->exchange;
    e->running = true;
    e->next = e->n;
    e->rest = 0;
    e->piece = e->first_told = e->untold = 0;
    for (uint32_t k = 0; k < s->n_inputs; k++) {
        struct sk_blk *late = e->pending[k];
        e->pending[k] = NULL;
        e->columns[k] = NULL;
        if (late) SK_TRY(sk_step_drop(x, late, err));
    }
    for (uint32_t i = 0; i < e->packs.n; i++) {
        struct sk_pack *p = e->packs.p[i];
        if (!p) continue;
        struct sk_blk *sample = p->sample;
        p->sample = NULL;
        p->place = &e->packs.p[i];
        if (sample) SK_TRY(sk_step_drop(x, sample, err));
        SK_TRY(drop_if_done(x, p, false, err));
    }
    return e->bounds ? drop_if_done(x, e->bounds, false, err) : SK_OK;
}
