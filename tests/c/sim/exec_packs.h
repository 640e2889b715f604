/* exec_packs.h - how a simulated worker of exec_sim.c makes and reads packs, whose rows are
 * numbers.
 *
 * A row of a pack has PACK_ROW bytes. A part without rows, which only brings the columns, has 64
 * bytes. Pages have PAGE rows. The key of a row is a hash of the row, modulo the stage's `keys`: it
 * is the row's partition, or the sort key (many keys are equal then). */
#define PACK_ROW 1024u
#define PAGE 4u

struct vnote {
    struct sk_pack_note h;
    union {
        struct sk_pack_part part[SK_PACK_PARTS_MAX];
        struct sk_pack_cut cut[SK_PACK_CUTS_MAX];
    };
};

struct keyed {
    uint64_t row;
    uint32_t key, run, at;
};

static uint32_t key_of(uint64_t row, uint32_t keys) {
    return (uint32_t)(sk_rand_mix(row ^ 0x5eed) % keys);
}

static int by_key(const void *a, const void *b) {
    const struct keyed *x = a, *y = b;
    if (x->key != y->key) return x->key < y->key ? -1 : 1;
    if (x->run != y->run) return x->run < y->run ? -1 : 1;
    return x->at < y->at ? -1 : x->at > y->at;
}

static bool less(const struct keyed *x, const uint64_t *bound) { /* bound: key, run, row */
    struct keyed y = {0, (uint32_t)bound[0], (uint32_t)bound[1], (uint32_t)bound[2]};
    return by_key(x, &y) < 0;
}

/* Sorts rows by their keys; rows of equal keys keep their order. */
static void sort_by_key(uint64_t *rows, uint32_t n, uint32_t keys) {
    struct keyed *k = sk_alloc(TAG, (n + 1) * sizeof *k);
    CHECK(k);
    for (uint32_t i = 0; i < n; i++) k[i] = (struct keyed){rows[i], key_of(rows[i], keys), 0, i};
    qsort(k, n, sizeof *k, by_key);
    for (uint32_t i = 0; i < n; i++) rows[i] = k[i].row;
    sk_free(k);
}

static struct blk *give(struct sim *m, struct task *k, const uint64_t *rows, uint32_t n,
                        uint64_t bytes, const struct vnote *note) {
    static const uint64_t none;
    struct blk *b = new_blk(m, rows ? rows : &none, n, bytes);
    b->note = sk_memdup(TAG, note, sizeof *note);
    CHECK(b->note);
    b->note->h.magic = SK_PACK_NOTE;
    b->note->h.rows = n;
    b->note->h.bytes = bytes;
    push_out(k, b);
    return b;
}

/* Gives the sorted rows of partitions [first, last) as one pack. */
static void give_parts(struct sim *m, struct task *k, const uint64_t *rows, uint32_t n,
                       uint32_t keys, uint32_t first, uint32_t last) {
    struct vnote note = {.h = {.kind = SK_PACK_PARTS, .first = first, .n = last - first}};
    for (uint32_t i = 0; i < n; i++) {
        struct sk_pack_part *p = &note.part[key_of(rows[i], keys) - first];
        p->rows++;
        p->len64 += PACK_ROW / 64;
    }
    if (!n) note.part[sk_rand_mix(k->id) % note.h.n].len64 = 1; /* a part for the columns */
    give(m, k, rows, n, n ? n * PACK_ROW : 64, &note);
}

static void give_run(struct sim *m, struct task *k, const uint64_t *rows, uint32_t n) {
    struct vnote note = {.h = {.kind = SK_PACK_SAMPLE}};
    uint64_t *firsts = sk_alloc(TAG, (n / PAGE + 1) * sizeof *firsts);
    uint32_t pages = 0;
    CHECK(firsts);
    for (uint32_t i = 0; i < n; i += PAGE) firsts[pages++] = rows[i];
    give(m, k, firsts, pages, pages * 64 + 64, &note);
    sk_free(firsts);
    note.h.kind = SK_PACK_RUN;
    give(m, k, rows, n, n ? n * PACK_ROW : 64, &note);
}

/* Gives the sorted rows of partitions [first, last) as packs, cut into `values` values. Sometimes
 * leaves out the values without rows. */
static void give_values(struct sim *m, struct task *k, const uint64_t *rows, uint32_t n,
                        uint32_t keys, uint32_t first, uint32_t last, uint32_t values) {
    uint32_t at = 0, each = SK_MIN((last - first + values - 1) / values, SK_PACK_PARTS_MAX);
    for (uint32_t from = first; from < last; from += each) {
        uint32_t to = SK_MIN(from + each, last), c = 0;
        while (at + c < n && key_of(rows[at + c], keys) < to) c++;
        if (c || from == first || n % 2) give_parts(m, k, rows + at, c, keys, from, to);
        at += c;
    }
    CHECK_EQ(at, n);
}

/* Gives a map's output as packs: cut by partition into several values, or as one or two runs. */
static void map_packs(struct sim *m, const struct stage *s, struct task *k, uint64_t *rows,
                      uint32_t n, uint32_t values) {
    sort_by_key(rows, n, s->keys);
    uint32_t half = values > 1 && n > 1 ? n / 2 : 0;
    if (s->pack != RUNS) {
        give_values(m, k, rows, n, s->keys, 0, s->keys, values);
        return;
    }
    if (half) give_run(m, k, rows, half);
    give_run(m, k, rows + half, n - half);
}

/* Merges packs of the same partitions, or runs, and gives the result in one value or several. */
static void merge_packs(struct sim *m, const struct stage *s, struct task *k,
                        const struct sk_stask *t) {
    uint64_t *rows = sk_alloc(TAG, 200000 * sizeof *rows);
    uint32_t n = 0, first = 0, last = 0, values = t->hint;
    CHECK(rows && t->in.n && sk_exchange_task(t->say)->phase == SK_PHASE_MERGE);
    for (const struct sk_blk *b = t->in.head; b; b = b->next) {
        const struct blk *p = sk_map_get(&m->blks, b->ref.oid);
        CHECK(p && p->note && n + p->n < 200000);
        CHECK_EQ(p->note->h.kind, s->pack == RUNS ? SK_PACK_RUN : SK_PACK_PARTS);
        CHECK(b == t->in.head || (first == p->note->h.first && last == first + p->note->h.n));
        first = p->note->h.first;
        last = first + p->note->h.n;
        memcpy(rows + n, p->row, p->n * sizeof *rows);
        n += p->n;
    }
    sort_by_key(rows, n, s->keys);
    if (s->pack == RUNS) {
        if (values > 1 && n > 1) give_run(m, k, rows, n / 2);
        give_run(m, k, rows + (values > 1 ? n / 2 : 0), n - (values > 1 ? n / 2 : 0));
    } else {
        give_values(m, k, rows, n, s->keys, first, last, values);
    }
    sk_free(rows);
}

/* ---- the cut task ---------------------------------------------------------------------------- */

static struct keyed *all_rows(struct sim *m, const struct sk_stask *t, uint32_t keys, uint32_t *n) {
    struct keyed *all = sk_alloc(TAG, 200000 * sizeof *all);
    uint32_t run = 0;
    CHECK(all);
    *n = 0;
    for (const struct sk_blk *b = t->in.head; b; b = b->next, run++) {
        /* the run is the object that was yielded right after its sample */
        const struct blk *r = sk_map_get(&m->blks, b->ref.oid + 1);
        CHECK(r && r->note->h.kind == SK_PACK_RUN && sk_exchange_run(b->kept) == run);
        for (uint32_t i = 0; i < r->n; i++) {
            CHECK_LT(*n, 200000);
            all[(*n)++] = (struct keyed){r->row[i], key_of(r->row[i], keys), run, i};
        }
    }
    return all;
}

/* Writes for each partition which pages of a run belong to it. The cuts are added to `note`, which
 * is yielded each time it is full. */
static void cut_run(struct sim *m, struct task *k, const struct blk *r, uint32_t run, uint32_t keys,
                    const uint64_t *bounds, uint32_t n, struct vnote *note) {
    for (uint32_t p = 0, lo = 0, hi; p < n; p++, lo = hi) {
        if (!note->h.n) *note = (struct vnote){.h = {.kind = SK_PACK_CUTS, .run = run, .first = p}};
        struct sk_pack_cut *c = &note->cut[note->h.n++];
        for (hi = lo; hi < r->n; hi++) {
            struct keyed x = {0, key_of(r->row[hi], keys), run, hi};
            if (p + 1 < n && !less(&x, bounds + (uint64_t)p * 3)) break;
        }
        uint32_t page = lo / PAGE * PAGE,
                 end = (uint32_t)SK_MIN((hi + PAGE - 1) / PAGE * PAGE, r->n);
        if (hi > lo)
            *c = (struct sk_pack_cut){page * (PACK_ROW / 64), (end - page) * (PACK_ROW / 64), page,
                                      hi - lo};
        if (!r->n && !p) c->len64 = 1;
        if (note->h.n < SK_PACK_CUTS_MAX - r->oid % 20) continue;
        give(m, k, NULL, 0, 0, note);
        note->h.n = 0;
    }
}

static void cut_runs(struct sim *m, uint32_t keys, struct task *k, const struct sk_stask *t) {
    const struct sk_pack_task *of = sk_exchange_task(t->say);
    uint32_t n, parts = of->end;
    struct keyed *all = all_rows(m, t, keys, &n);
    uint64_t *bounds = sk_calloc(TAG, (uint64_t)parts * 3 * sizeof *bounds);
    CHECK(bounds && !of->first && parts == of->n);
    qsort(all, n, sizeof *all, by_key);
    for (uint32_t i = 1; i < parts; i++) {
        uint64_t at = (uint64_t)i * n / parts;
        for (uint32_t c = 0; c < 3; c++)
            bounds[(i - 1) * 3 + c] = at >= n  ? UINT32_MAX
                                      : c == 0 ? all[at].key
                                      : c == 1 ? all[at].run
                                               : all[at].at;
    }
    struct vnote note = {.h = {.kind = SK_PACK_BOUNDS}}, cuts = {.h = {.n = 0}};
    bool first = n % 2;
    if (first) give(m, k, bounds, (parts - 1) * 3, 64 + parts * 24, &note);
    uint32_t run = 0;
    for (const struct sk_blk *b = t->in.head; b; b = b->next)
        cut_run(m, k, sk_map_get(&m->blks, b->ref.oid + 1), run++, keys, bounds, parts, &cuts);
    if (cuts.h.n) give(m, k, NULL, 0, 0, &cuts);
    if (!first && parts > 1) give(m, k, bounds, (parts - 1) * 3, 64 + parts * 24, &note);
    sk_free(all);
    sk_free(bounds);
}

/* ---- joins ----------------------------------------------------------------------------------
 *
 * The simulated join of a partition gives the rows of its larger input and then, if the plan asks
 * for unmatched rows (exchange.tells), those rows of the smaller input that match none of them. */

static uint64_t tag_of(uint64_t row) { return sk_rand_mix(row ^ 0x7a6) % 8; }

static bool meets(const uint64_t *rows, uint32_t n, uint64_t row) {
    for (uint32_t i = 0; i < n; i++)
        if (tag_of(rows[i]) == tag_of(row)) return true;
    return false;
}

/* Writes to `out` the join of n rows of the larger input and n_others rows of the smaller one, and
 * returns how many rows that is. */
static uint32_t join_rows(const uint64_t *rows, uint32_t n, const uint64_t *others,
                          uint32_t n_others, uint64_t *out) {
    uint32_t k = n;
    memcpy(out, rows, n * sizeof *out);
    for (uint32_t i = 0; i < n_others; i++)
        if (!meets(rows, n, others[i])) out[k++] = others[i];
    return k;
}

struct partition {
    /* rows: of all inputs, input by input. told, for the reduce behind split reduces: whether one
     * of those had a match for the i-th row of the input that is not shared. */
    uint64_t *rows, *told;
    uint32_t n, n_of[2]; /* n: rows of both inputs; n_of: of each */
};

static bool has_told(const struct sk_blk *b, const struct blk *p, struct partition *all) {
    if (b->side != SK_SIDE_REPORTS) return false;
    CHECK(p->note->h.kind == SK_PACK_MATCH_REPORT && p->n < 200000);
    for (uint32_t i = 0; i < p->n; i++) all->told[i] |= p->row[i];
    return true;
}

static const uint64_t *rows_of(const struct partition *all, uint32_t side) {
    return all->rows + (side ? all->n_of[0] : 0);
}

/* Writes to `out` the output of a reduce of a join: a whole reduce, a split reduce, or the one
 * behind split reduces, which gives the unmatched rows. */
static uint32_t join_task(const struct sk_pack_task *of, const struct partition *all,
                          uint32_t tells, uint64_t *out) {
    uint32_t shared = of->shared - 1, n = all->n_of[shared], n_others = all->n_of[!shared], k = 0;
    const uint64_t *others = rows_of(all, !shared);
    CHECK(of->shared && of->shared <= 2 && of->end == of->first + 1);
    CHECK(of->phase == SK_PHASE_REDUCE ||
          ((tells >> shared & 1) && n_others && !(n && of->phase == SK_PHASE_UNMATCHED)));
    if (of->phase != SK_PHASE_UNMATCHED)
        return join_rows(rows_of(all, shared), n, others,
                         of->phase == SK_PHASE_REDUCE && (tells >> shared & 1) ? n_others : 0, out);
    for (uint32_t i = 0; i < n_others; i++)
        if (!all->told[i]) out[k++] = others[i];
    return k;
}

/* ---- reduces --------------------------------------------------------------------------------- */

static uint32_t tells_of(const struct sim *m, const struct sk_stask *t) {
    return m->st.s[t->stage].exchange.tells;
}

/* Collects the rows of the partitions of a reduce: input by input, each in order, or sorted by key
 * if it is not a join. Checks that the reduce got all its blocks, in the right order. */
static void gather(struct sim *m, const struct stage *s, const struct sk_stask *t,
                   struct partition *to) {
    const struct sk_pack_task *of = sk_exchange_task(t->say);
    struct keyed *all = sk_alloc(TAG, 200000 * sizeof *all);
    const uint64_t *bounds = NULL;
    uint32_t n = 0;
    int64_t side = -1, run = -1, told = -1;
    *to = (struct partition){.rows = sk_alloc(TAG, 200000 * sizeof *to->rows),
                             .told = sk_calloc(TAG, 200000 * sizeof *to->told)};
    CHECK(all && to->rows && to->told && sk_phase_reduces(of->phase) && of->first < of->end &&
          of->end <= of->n);
    for (const struct sk_blk *b = t->in.head; b; b = b->next) {
        const struct blk *p = sk_map_get(&m->blks, b->ref.oid);
        CHECK(p && b->part && b->ref.row0 + b->ref.bytes <= p->bytes &&
              (b->side >= SK_SIDE_REPORTS || (b->ref.row0 | b->ref.bytes) % 64 == 0));
        if (b->side == SK_SIDE_BOUNDS) {
            CHECK(!bounds && b == t->in.head && p->note->h.kind == SK_PACK_BOUNDS);
            bounds = p->row;
            continue;
        }
        if (has_told(b, p, to)) {
            CHECK(of->phase == SK_PHASE_UNMATCHED && side < 0 &&
                  (int64_t)sk_exchange_run(b->kept) > told);
            told = sk_exchange_run(b->kept);
            continue;
        }
        CHECK((int64_t)b->side > side ||
              ((int64_t)b->side == side && (int64_t)sk_exchange_run(b->kept) > run));
        side = b->side;
        run = sk_exchange_run(b->kept);
        if (!b->ref.n_rows) continue; /* a part for the columns */
        uint32_t from = (uint32_t)(b->ref.row0 / PACK_ROW),
                 to_row = from + (uint32_t)(b->ref.bytes / PACK_ROW), before = n;
        CHECK(to_row <= p->n &&
              (s->pack == RUNS ? b->ref.origin == from : to_row - from == b->ref.n_rows));
        for (uint32_t i = from; i < to_row; i++) {
            struct keyed x = {p->row[i], key_of(p->row[i], s->keys), (uint32_t)run, i};
            bool mine = s->pack == RUNS
                            ? (!of->first || !less(&x, bounds + (of->first - 1) * 3ull)) &&
                                  (of->end == of->n || less(&x, bounds + (of->end - 1) * 3ull))
                            : x.key >= of->first && x.key < of->end;
            CHECK(mine || s->pack == RUNS);
            CHECK_LT(n, 200000);
            if (mine) all[n++] = x;
        }
        to->n_of[side] += n - before;
    }
    CHECK_EQ(of->phase == SK_PHASE_UNMATCHED, told >= 0);
    if (!tells_of(m, t)) qsort(all, n, sizeof *all, by_key);
    to->n = n;
    for (uint32_t i = 0; i < n; i++) to->rows[i] = all[i].row;
    sk_free(all);
}

static uint32_t reduce(struct sim *m, const struct stage *s, const struct sk_stask *t,
                       uint64_t *out) {
    uint32_t tells = tells_of(m, t);
    struct partition all;
    gather(m, s, t, &all);
    uint32_t n = all.n;
    if (tells) n = join_task(sk_exchange_task(t->say), &all, tells, out);
    else memcpy(out, all.rows, n * sizeof *out);
    sk_free(all.rows);
    sk_free(all.told);
    return n;
}

/* A split reduce yields its report: which rows of the other input it has matched. */
static void tell_met(struct sim *m, const struct stage *s, struct task *k,
                     const struct sk_stask *t) {
    struct partition all;
    struct vnote note = {.h = {.kind = SK_PACK_MATCH_REPORT}};
    gather(m, s, t, &all);
    const struct sk_pack_task *of = sk_exchange_task(t->say);
    uint32_t shared = of->shared - 1, n = all.n_of[!shared];
    CHECK(n);
    for (uint32_t i = 0; i < n; i++)
        all.told[i] = meets(rows_of(&all, shared), all.n_of[shared], rows_of(&all, !shared)[i]);
    give(m, k, all.told, n, n, &note);
    sk_free(all.rows);
    sk_free(all.told);
}
