/* merges.c - the gather of the stage between the maps and an exchange: it tells the strategy of
 * each pack and carries out the strategy's answer (contracts: exec/gather.h, shuffle.h). Pure.
 *
 * A merge takes packs of the same partitions that come one behind the other, or runs. How many
 * packs are merged may depend on time, but the rows that reduces see do not: a partition's packs
 * are in the order of the maps, as only neighbours are merged, and a merged pack has the place of
 * its first one. A run takes its sample along to the exchange. If runs are merged, their samples
 * are dropped, since the merged run has a sample of its own.
 *
 * What a merge yields may come back (sk_shuffle_merge_again): such a merge is an inner task. Its
 * group stays, and takes the packs of later maps while the merge runs; then what it has yielded is
 * put in front of them. If the group was ended meanwhile, the yields pass to the reduces.
 *
 * Invariant: each group is of neighbours, and no two groups have a partition in common. Cost: a few
 * ns a pack, and a look at as many as one map gives. */
#include "exchange_int.h"

static struct sk_merges *merges_of(const struct sk_gather *g) {
    return sk_container_of(g, struct sk_merges, g);
}

static struct sk_shuffle *shuffle_of(struct sk_merges *m) {
    uint32_t side;
    struct sk_shuffle *s = &sk_exchange_of(sk_gather_next(&m->g, &side))->in[side];
    SK_ASSERT(s->side == side);
    s->m = m;
    return s;
}

/* ---- sizes for the strategy ------------------------------------------------------------------ */

/* Rounds to 1/32, so that a strategy is not asked again because of small changes of sizes. */
static uint64_t about(uint64_t bytes) {
    int low = bytes >> 6 ? 59 - __builtin_clzll(bytes) : 0;
    return bytes >> low << low;
}

static void expect(const struct sk_exchange *e, uint32_t side, uint64_t *map, uint64_t *all) {
    const struct sk_gather *m = sk_gather_input(&e->g, side);
    sk_gather_expect(m ? m : &e->g, m ? 0 : side, map, all);
}

static void look_at_sizes(struct sk_shuffle *s) {
    const struct sk_exchange *e = s->e;
    struct sk_gather_facts f = sk_gather_facts(&e->g);
    struct sk_shuffle_sizes z = {.memory_bytes = f.memory_bytes,
                                 .spills = f.spills,
                                 .parts = f.parts,
                                 .runs = e->cut,
                                 .merges = sk_gather_input(&e->g, s->side) != NULL,
                                 .slots = f.by_cpus,
                                 .nodes = f.nodes};
    expect(e, s->side, &z.map_bytes, &z.bytes);
    for (uint32_t k = 0; k < e->n_inputs; k++) {
        uint64_t map, all;
        if (k == s->side) continue;
        expect(e, k, &map, &all);
        z.bytes += all;
    }
    z.map_bytes = about(z.map_bytes);
    z.bytes = about(z.bytes);
    z.reduce_bytes = sk_exchange_target(e, z.bytes);
    s->z = z;
}

uint32_t sk_shuffle_ask_values(struct sk_shuffle *s) {
    if (!s->by) return 1;
    look_at_sizes(s);
    uint32_t values = s->by->values(s);
    SK_ASSERT(values);
    s->e->values = values;
    return values;
}

const struct sk_shuffle_sizes *sk_shuffle_sizes(struct sk_shuffle *s) { return &s->z; }
uint32_t sk_shuffle_side(const struct sk_shuffle *s) { return s->side; }
void *sk_shuffle_state(const struct sk_shuffle *s) { return s->state; }
void *sk_shuffle_arg(const struct sk_shuffle *s) { return s->by->arg; }
uint64_t sk_shuffle_held(const struct sk_shuffle *s) { return s->m ? s->m->open_bytes : 0; }
const struct sk_shuffle_group *sk_shuffle_group(const struct sk_shuffle *s, uint32_t i) {
    return s->m && i < s->m->open.n ? &s->m->open.p[i]->g : NULL;
}

/* ---- groups ---------------------------------------------------------------------------------- */

static sk_rc drop_sample(struct sk_merges *m, struct sk_blk **b, struct sk_err *err) {
    struct sk_blk *sample = *b;
    *b = NULL;
    return sample ? sk_gather_drop(&m->g, sample, err) : SK_OK;
}

static void free_group(struct sk_open_group *k) {
    if (k->merging) k->merging->group = NULL;
    sk_list_del(&k->link);
    sk_vec_free(&k->packs);
    sk_vec_free(&k->back);
    sk_free(k);
}

/* again: what the task yields comes back to group k. */
static sk_rc make_task(struct sk_merges *m, struct sk_open_group *k, bool again,
                       struct sk_err *err) {
    const struct sk_pack *one = k->packs.p[0];
    struct sk_xtask *say = sk_xtask_new(SK_PHASE_MERGE, one->first, one->first + one->n, 0);
    if (!say) return SK_ERR(err, SK_ENOMEM, "%s: no memory for a task", sk_gather_label(&m->g));
    sk_rc rc = sk_gather_task(&m->g,
                              &(struct sk_gather_task){.say = say,
                                                       .inner = again,
                                                       .node = k->node,
                                                       .origin = sk_pack_blk(one)->ref.origin,
                                                       .hint = k->values},
                              err);
    if (rc != SK_OK) {
        sk_xtask_forget(say);
        return rc;
    }
    if (again) {
        say->group = k;
        k->merging = say;
    }
    for (uint32_t i = 0; i < k->packs.n; i++) {
        struct sk_pack *p = k->packs.p[i];
        if (i >= k->n_back) sk_gather_came(&m->g, sk_pack_blk(p));
        SK_TRY(drop_sample(m, &p->sample, err));
        sk_gather_add(&m->g, sk_pack_blk(p));
    }
    return SK_OK;
}

static sk_rc pass_packs(struct sk_merges *m, struct sk_pack *const *packs, uint32_t n,
                        struct sk_err *err) {
    for (uint32_t i = 0; i < n; i++) SK_TRY(sk_gather_pass(&m->g, sk_pack_blk(packs[i]), err));
    return SK_OK;
}

/* The packs of a group become a task, or pass; the group is empty afterwards. */
static void empty_group(struct sk_shuffle *s, struct sk_open_group *k, bool merge, bool again) {
    struct sk_merges *m = s->m;
    uint64_t rows = 0;
    m->open_bytes -= k->g.bytes;
    for (uint32_t j = 0; j < k->packs.n; j++) rows += sk_pack_blk(k->packs.p[j])->ref.n_rows;
    sk_gather_waits(&m->g, -(int64_t)k->g.bytes, -(int64_t)rows);
    if (merge) s->merge = SK_MAX(s->merge, k->packs.n);
    if (s->rc == SK_OK)
        s->rc =
            merge ? make_task(m, k, again, s->err) : pass_packs(m, k->packs.p, k->packs.n, s->err);
    k->packs.n = k->n_back = k->g.n = 0;
    k->g.bytes = k->g.back = 0;
}

static void remove_group(struct sk_merges *m, uint32_t i) { m->open.p[i] = m->open.p[--m->open.n]; }

/* Removes group i, whose packs become a task or pass. */
static void end_group_by(struct sk_shuffle *s, uint32_t i, bool merge) {
    struct sk_open_group *k = s->m->open.p[i];
    remove_group(s->m, i);
    empty_group(s, k, merge && k->packs.n, false);
    if (k->merging) sk_list_push_back(&s->m->closed, &k->link);
    else free_group(k);
}

/* A single pack is passed, since merging it would be of no use. */
static void end_group(struct sk_shuffle *s, uint32_t i) {
    end_group_by(s, i, s->m->open.p[i]->packs.n > 1);
}

/* Returns the group of exactly these partitions, or NULL. Groups that have only some of them are
 * ended first, so that the rows of a partition stay in the order of maps. */
static struct sk_open_group *find_group(struct sk_shuffle *s, uint32_t first, uint32_t end,
                                        bool wanted) {
    struct sk_merges *m = s->m;
    struct sk_open_group *found = NULL;
    for (uint32_t i = m->open.n; i-- > 0;) {
        struct sk_open_group *k = m->open.p[i];
        if (wanted && k->g.first == first && k->g.end == end) found = k;
        else if (k->g.first < end && first < k->g.end) end_group(s, i);
    }
    return found;
}

/* True if, with one pack more, some partition would be too large for reduces that share it pack by
 * pack. */
static bool too_hot(const struct sk_exchange *e, const struct sk_open_group *k,
                    const struct sk_pack *p) {
    uint64_t most = e->spread ? sk_exchange_most(e) / 2 : 0;
    for (uint32_t i = 0; e->spread && i < p->n; i++) {
        uint64_t sum = p->part[i].len64;
        for (uint32_t j = 0; j < k->packs.n; j++) sum += k->packs.p[j]->part[i].len64;
        if (sum * 64 > most) return true;
    }
    return false;
}

static uint32_t index_of(const struct sk_merges *m, const struct sk_shuffle_group *g) {
    uint32_t i = 0;
    while (i < m->open.n && &m->open.p[i]->g != g) i++;
    SK_ASSERT(i < m->open.n); /* fails if the strategy names a group that has been ended */
    return i;
}

static struct sk_open_group *new_group(struct sk_shuffle *s, uint32_t first, uint32_t end) {
    struct sk_open_group *k = sk_calloc(TAG, sizeof *k);
    if (k && sk_vec_push(&s->m->open, TAG, k)) {
        k->g = (struct sk_shuffle_group){.first = first, .end = end};
        sk_list_init(&k->link);
        return k;
    }
    sk_free(k);
    return NULL;
}

/* ---- calls of the strategy ------------------------------------------------------------------- */

static uint32_t end_of(const struct sk_pack *p) { return p->first + SK_MAX(p->n, 1u); }

/* The strategy has decided about the current pack. */
static void say(struct sk_shuffle *s) {
    SK_ASSERT(s->now && !s->said);
    s->said = true;
    struct sk_merges *m = s->m;
    if (m->next_late == m->late.n || m->late.p[m->next_late] != s->now) return;
    const struct sk_bref *ref = &sk_pack_blk(s->now)->ref;
    if (++m->next_late == m->late.n) m->next_late = m->late.n = 0;
    m->late_bytes -= ref->bytes;
    sk_gather_waits(&m->g, -(int64_t)ref->bytes, -(int64_t)ref->n_rows);
}

void sk_shuffle_pass(struct sk_shuffle *s) {
    say(s);
    (void)find_group(s, s->now->first, end_of(s->now), false);
    if (s->rc == SK_OK) s->rc = sk_gather_pass(&s->m->g, sk_pack_blk(s->now), s->err);
}

const struct sk_shuffle_group *sk_shuffle_hold(struct sk_shuffle *s, uint32_t values,
                                               uint32_t node) {
    struct sk_pack *p = s->now;
    SK_ASSERT(values);
    say(s);
    struct sk_open_group *k = find_group(s, p->first, end_of(p), true);
    if (k && too_hot(s->e, k, p)) {
        end_group(s, index_of(s->m, &k->g));
        k = NULL;
    }
    if (s->rc == SK_OK && !k) k = new_group(s, p->first, end_of(p));
    if (s->rc == SK_OK && !(k && sk_vec_push(&k->packs, TAG, p)))
        s->rc = SK_ERR(s->err, SK_ENOMEM, "%s: no memory for its input queue",
                       sk_gather_label(&s->m->g));
    if (s->rc != SK_OK) return NULL;
    const struct sk_bref *ref = &sk_pack_blk(p)->ref;
    k->values = values;
    k->node = node;
    k->g.n = k->packs.n;
    k->g.bytes += ref->bytes;
    s->m->open_bytes += ref->bytes;
    sk_gather_waits(&s->m->g, (int64_t)ref->bytes, (int64_t)ref->n_rows);
    return &k->g;
}

void sk_shuffle_merge(struct sk_shuffle *s, const struct sk_shuffle_group *g) {
    if (g) end_group_by(s, index_of(s->m, g), true);
}

/* Packs of which all or all but one have come back stay as they are. */
static void merge_again(struct sk_shuffle *s, struct sk_open_group *k) {
    k->again = k->merging != NULL;
    if (!k->again && k->packs.n > 1 && k->packs.n > k->n_back) empty_group(s, k, true, true);
}

void sk_shuffle_merge_again(struct sk_shuffle *s, const struct sk_shuffle_group *g, uint64_t most) {
    struct sk_open_group *k = s->m->open.p[index_of(s->m, g)];
    k->most = most;
    merge_again(s, k);
}

void sk_shuffle_pass_group(struct sk_shuffle *s, const struct sk_shuffle_group *g) {
    if (g) end_group_by(s, index_of(s->m, g), false);
}

void sk_shuffle_gather(struct sk_shuffle *s, uint32_t n, uint32_t values, uint32_t node) {
    const struct sk_shuffle_group *g = sk_shuffle_hold(s, values, node);
    if (g && (g->n >= n || sk_shuffle_held(s) > s->z.memory_bytes / 4))
        end_group(s, index_of(s->m, g));
}

/* ---- what comes back from a merge ------------------------------------------------------------ */

static bool fits(const struct sk_gather *g, const struct sk_value_note *note) {
    (void)g;
    return note->kind == SK_PACK_RUN || note->kind == SK_PACK_SAMPLE || note->kind == SK_PACK_PARTS;
}

static sk_rc yielded(struct sk_gather *g, void *say, struct sk_blk *b,
                     const struct sk_value_note *note, struct sk_err *err) {
    struct sk_merges *m = merges_of(g);
    struct sk_open_group *k = ((struct sk_xtask *)say)->group;
    struct sk_pack *p = b->kept ? sk_pack_of(b) : NULL;
    sk_gather_hold(g, b);
    SK_ASSERT(k);
    if (p && p->kind == SK_PACK_SAMPLE) {
        SK_TRY(drop_sample(m, &k->sample, err));
        k->sample = b;
        return SK_OK;
    }
    if (!p || !note || !fits(g, note) || (p->kind == SK_PACK_RUN && !k->sample))
        return SK_ERR(err, SK_ECORRUPT, "%s: a merge yielded something that is no pack",
                      sk_gather_label(g));
    p->sample = k->sample;
    k->sample = NULL;
    return sk_vec_push(&k->back, TAG, p)
               ? SK_OK
               : SK_ERR(err, SK_ENOMEM, "%s: no memory for its packs", sk_gather_label(g));
}

/* True if the packs that came back can be the first ones of their group. */
static bool may_stay(const struct sk_exchange *e, const struct sk_open_group *k) {
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < k->back.n; i++) {
        const struct sk_pack *p = k->back.p[i];
        bytes += sk_pack_blk(p)->ref.bytes;
        if (p->kind == SK_PACK_PARTS &&
            (k->back.n > 1 || p->first != k->g.first || end_of(p) != k->g.end || too_hot(e, k, p)))
            return false;
    }
    return bytes <= k->most && k->back.n;
}

/* Puts the packs that came back in front of those that came meanwhile. */
static bool put_in_front(struct sk_merges *m, struct sk_open_group *k) {
    uint32_t n = k->back.n;
    uint64_t rows = 0;
    SK_ASSERT(!k->n_back);
    if (!sk_vec_reserve(&k->packs, TAG, k->packs.n + n)) return false;
    if (k->packs.n) memmove(k->packs.p + n, k->packs.p, k->packs.n * sizeof *k->packs.p);
    for (uint32_t i = 0; i < n; i++) {
        const struct sk_bref *ref = &sk_pack_blk(k->packs.p[i] = k->back.p[i])->ref;
        k->g.back += ref->bytes;
        rows += ref->n_rows;
    }
    k->packs.n += n;
    k->n_back = n;
    k->g.n = k->packs.n;
    k->g.bytes += k->g.back;
    m->open_bytes += k->g.back;
    sk_gather_waits(&m->g, (int64_t)k->g.back, (int64_t)rows);
    k->back.n = 0;
    return true;
}

/* The merge of group k has ended: what it yielded stays in the group, or passes. */
static sk_rc came_back(struct sk_shuffle *s, struct sk_open_group *k, struct sk_err *err) {
    struct sk_merges *m = s->m;
    bool closed = !sk_list_empty(&k->link);
    SK_TRY(drop_sample(m, &k->sample, err));
    if (closed || !may_stay(s->e, k) || !put_in_front(m, k))
        SK_TRY(pass_packs(m, k->back.p, k->back.n, err));
    k->back.n = 0;
    if (closed) {
        free_group(k);
    } else if (!k->packs.n) {
        remove_group(m, index_of(m, &k->g));
        free_group(k);
    } else if (k->again) {
        merge_again(s, k);
    }
    return s->rc;
}

static sk_rc over(struct sk_gather *g, void *say, struct sk_err *err) {
    struct sk_shuffle *s = shuffle_of(merges_of(g));
    struct sk_xtask *t = say;
    struct sk_open_group *k = t->group;
    if (!k) return SK_OK;
    t->group = NULL;
    k->merging = NULL;
    s->rc = SK_OK;
    s->err = err;
    return came_back(s, k, err);
}

static void forget(void *say) {
    struct sk_xtask *t = say;
    if (t->group) t->group->merging = NULL;
    sk_xtask_forget(say);
}

/* ---- a strategy that answers later (told.h) -------------------------------------------------- */

void sk_shuffle_later(struct sk_shuffle *s) {
    struct sk_merges *m = s->m;
    struct sk_pack *p = s->now;
    if (!p) {
        m->ending = true;
        return;
    }
    say(s);
    if (!sk_vec_push(&m->late, TAG, p)) {
        s->rc =
            SK_ERR(s->err, SK_ENOMEM, "%s: no memory for its input queue", sk_gather_label(&m->g));
        return;
    }
    const struct sk_bref *ref = &sk_pack_blk(p)->ref;
    m->late_bytes += ref->bytes;
    sk_gather_waits(&m->g, (int64_t)ref->bytes, (int64_t)ref->n_rows);
}

static struct sk_shuffle_pack told_of(const struct sk_pack *p) {
    const struct sk_blk *b = sk_pack_blk(p);
    return (struct sk_shuffle_pack){
        .first = p->first, .end = end_of(p), .node = b->node, .bytes = b->ref.bytes};
}

bool sk_shuffle_enter(struct sk_shuffle *s, struct sk_shuffle_pack *pack, struct sk_err *err) {
    struct sk_merges *m = s->m;
    s->rc = SK_OK;
    s->err = err;
    s->said = false;
    s->now = m && m->next_late < m->late.n ? m->late.p[m->next_late] : NULL;
    look_at_sizes(s);
    if (s->now) *pack = told_of(s->now);
    return s->now != NULL;
}

sk_rc sk_shuffle_leave(struct sk_shuffle *s) {
    s->now = NULL;
    return s->rc;
}

bool sk_shuffle_ending(const struct sk_shuffle *s) {
    return s->m && s->m->ending && s->m->next_late == s->m->late.n;
}

bool sk_shuffle_spent(const struct sk_shuffle *s) { return s->m && s->m->g.spent; }

static sk_rc finish(struct sk_shuffle *s, struct sk_err *err) {
    struct sk_merges *m = s->m;
    while (m->open.n) end_group(s, 0);
    SK_TRY(s->rc);
    m->ending = false;
    m->g.spent = true;
    return drop_sample(m, &m->sample, err);
}

void sk_shuffle_over(struct sk_shuffle *s) {
    SK_ASSERT(sk_shuffle_ending(s));
    s->rc = finish(s, s->err);
}

/* ---- the stage ------------------------------------------------------------------------------- */

static sk_rc take(struct sk_gather *g, uint32_t side, struct sk_blk *b, struct sk_err *err) {
    struct sk_merges *m = merges_of(g);
    struct sk_shuffle *s = shuffle_of(m);
    struct sk_pack *p = sk_pack_of(b);
    (void)side;
    sk_gather_hold(g, b);
    if (p->kind == SK_PACK_SAMPLE) {
        /* the task failed before it yielded the sample's run, and the job goes on without it */
        SK_TRY(drop_sample(m, &m->sample, err));
        m->sample = b;
        return SK_OK;
    }
    p->sample = m->sample;
    m->sample = NULL;
    b->ref.origin = m->came++;
    if (p->kind == SK_PACK_RUN && !p->sample)
        return SK_ERR(err, SK_ECORRUPT, "%s: a run came without its sample", sk_gather_label(g));
    s->now = p;
    s->said = false;
    s->rc = SK_OK;
    s->err = err;
    if (s->by && s->by->came) {
        look_at_sizes(s);
        struct sk_shuffle_pack pack = told_of(p);
        s->by->came(s, &pack);
    }
    if (!s->said) sk_shuffle_pass(s);
    s->now = NULL;
    return s->rc;
}

static sk_rc ended(struct sk_gather *g, struct sk_err *err) {
    struct sk_merges *m = merges_of(g);
    struct sk_shuffle *s = shuffle_of(m);
    s->rc = SK_OK;
    s->err = err;
    if (s->by && s->by->ended) {
        look_at_sizes(s);
        s->by->ended(s);
    }
    return m->ending ? s->rc : finish(s, err);
}

static sk_rc drop_pack(struct sk_merges *m, struct sk_pack *p, struct sk_err *err) {
    SK_TRY(drop_sample(m, &p->sample, err));
    return sk_gather_drop(&m->g, sk_pack_blk(p), err);
}

static sk_rc drop_group(struct sk_merges *m, struct sk_open_group *k, struct sk_err *err) {
    sk_rc rc = drop_sample(m, &k->sample, err);
    for (uint32_t i = 0; rc == SK_OK && i < k->packs.n; i++) rc = drop_pack(m, k->packs.p[i], err);
    for (uint32_t i = 0; rc == SK_OK && i < k->back.n; i++) rc = drop_pack(m, k->back.p[i], err);
    free_group(k);
    return rc;
}

static sk_rc drop(struct sk_gather *g, struct sk_err *err) {
    struct sk_merges *m = merges_of(g);
    while (m->next_late < m->late.n) SK_TRY(drop_pack(m, m->late.p[m->next_late++], err));
    m->next_late = m->late.n = 0;
    m->late_bytes = 0;
    m->ending = false;
    while (m->open.n) SK_TRY(drop_group(m, sk_vec_pop(&m->open), err));
    for (struct sk_list *it; (it = sk_list_first(&m->closed));)
        SK_TRY(drop_group(m, sk_container_of(it, struct sk_open_group, link), err));
    m->open_bytes = g->waiting_bytes = g->waiting_rows = 0;
    g->spent = true;
    return drop_sample(m, &m->sample, err);
}

static uint32_t hint(struct sk_gather *g, uint32_t side) {
    (void)side;
    return sk_shuffle_ask_values(shuffle_of(merges_of(g)));
}

/* Maps wait while packs without an answer fill an eighth of memory. */
static bool awaits(const struct sk_gather *g, uint32_t side) {
    struct sk_merges *m = merges_of(g);
    const struct sk_shuffle *s = shuffle_of(m);
    (void)side;
    if (!s->by || !s->by->open || g->spent) return false;
    return m->ending || m->late_bytes > sk_gather_facts(g).memory_bytes / 8 || !s->by->open(s);
}

/* What comes back has rows of all earlier maps. */
static bool needed(const void *say) { return ((const struct sk_xtask *)say)->group != NULL; }

const char sk_merges_name[] = "merges";

static void stats(const struct sk_gather *g, struct sk_gather_stats *s) {
    (void)g;
    *s = (struct sk_gather_stats){.by = sk_merges_name};
}

static size_t text(const struct sk_gather *g, char *buf, size_t cap) {
    const struct sk_merges *m = merges_of(g);
    if (m->late.n || m->ending)
        return (size_t)snprintf(buf, cap, "the strategy has yet to answer for %u packs%s",
                                m->late.n - m->next_late, m->ending ? " and for the end" : "");
    return m->open.n ? (size_t)snprintf(buf, cap, "%.1f MiB wait to be merged",
                                        (double)m->open_bytes / 1048576.0)
                     : 0;
}

static bool check(const struct sk_gather *g) {
    const struct sk_merges *m = merges_of(g);
    uint64_t bytes = 0, sum = 0;
    for (uint32_t i = 0; i < m->open.n; i++) {
        const struct sk_open_group *k = m->open.p[i];
        bytes += k->g.bytes;
        for (uint32_t j = 0; j < k->packs.n; j++) sum += sk_pack_blk(k->packs.p[j])->ref.bytes;
        if ((!k->packs.n && !k->merging) || k->g.n != k->packs.n || k->n_back > k->packs.n ||
            (k->merging && (k->merging->group != k || k->n_back)))
            return false;
    }
    uint64_t late = 0;
    for (uint32_t i = m->next_late; i < m->late.n; i++)
        late += sk_pack_blk(m->late.p[i])->ref.bytes;
    return bytes == m->open_bytes && sum == bytes && late == m->late_bytes &&
           g->waiting_bytes == bytes + late;
}

static void destroy(struct sk_gather *g) {
    struct sk_merges *m = merges_of(g);
    for (uint32_t i = 0; i < m->open.n; i++) free_group(m->open.p[i]);
    for (struct sk_list *it; (it = sk_list_first(&m->closed));)
        free_group(sk_container_of(it, struct sk_open_group, link));
    sk_vec_free(&m->open);
    sk_vec_free(&m->late);
    sk_free(m);
}

const struct sk_gather_ops sk_merges_ops = {.fits = fits,
                                            .take = take,
                                            .ended = ended,
                                            .drop = drop,
                                            .destroy = destroy,
                                            .hint = hint,
                                            .awaits = awaits,
                                            .write = sk_xtask_write,
                                            .yielded = yielded,
                                            .needed = needed,
                                            .over = over,
                                            .forget = forget,
                                            .stats = stats,
                                            .text = text,
                                            .check = check};

bool sk_merges_create(struct sk_gather **out) {
    struct sk_merges *m = sk_calloc(TAG, sizeof *m);
    if (!m) return false;
    m->g.ops = &sk_merges_ops;
    sk_list_init(&m->closed);
    *out = &m->g;
    return true;
}
