/* exec_sim.c - exec's pure step under a simulated engine: random pipelines, random task times,
 * random deaths of tasks, and the pipeline of figure 9 of the streaming batch paper.
 *
 * Checked: each run ends and none stalls; the rows are those of a sequential model, in its order;
 * the output blocks do not depend on timing; every reference is released exactly once; memory stays
 * within the limit plus amounts that no estimate could foresee. */
#include <math.h>

#include "base/containers/map.h"
#include "base/rand.h"
#include "exec/exec_int.h"
#include "shuffle/exchange.h"
#include "shuffle/told.h"
#include "shuffle/pack.h"
#include "test.h"

#define TAG SK_TAG_TEST
#define MAXS 24u
#define ROW_BYTES 1000u
#define DISK_BYTES_PER_S 1e6 /* a block of 16 rows in 16 ms */

struct vnote;
struct blk {            /* an existing block; its rows are numbers */
    struct vnote *note; /* of a pack */
    uint64_t oid, refs, bytes;
    /* n: number of rows; used_by: number of running tasks that use the block, which keep it in
     * memory */
    uint32_t n, used_by;
    bool there, on_disk; /* there: the block was yielded; on_disk: it was spilled */
    uint64_t row[];
};

struct stage {          /* what a stage of the simulation does */
    uint32_t times, of; /* each row gives `times` rows; then 1 of `of` is kept */
    double sec;         /* of a task, mean */
    double sec_row;
    bool at_end;                         /* true: the task yields at its end only */
    uint64_t frame;                      /* bytes of a row; 0: ROW_BYTES */
    uint32_t block_rows;                 /* rows of each block; 0: by the target size */
    enum { NO_PACKS, PARTS, RUNS } pack; /* kind of packs of a map, a merge, an exchange */
    uint32_t keys;                       /* see exec_packs.h */
    /* share of tasks that take ten times as long; factor on the time of those after the first
     * twenty (0: 1) */
    double spike, later;
    uint32_t n_fed; /* of a source with a feed: number of its blocks, one of each unit's rows */
};

struct task {
    struct task *next;
    struct input {
        /* part: bytes that the task takes of a pack, 0: the whole block; read: bytes of these read
         * from disk */
        uint64_t oid, part, read;
    } *in;
    uint32_t n_in;
    uint64_t id;
    uint32_t stage, actor;
    struct blk **out;
    uint32_t n_out, n_yielded, cap_out;
    double begin, dur;
    uint32_t n_rows; /* rows of its output, before they are packed */
    bool started, dead;
};

struct ev {
    double t;
    uint64_t order;
    enum { E_YIELD, E_DONE, E_TAKE, E_ANSWER, E_FED } kind;
    struct task *task;
};

struct sim {
    struct sk_plan *plan;
    struct sk_stages st;
    struct sk_step *x;
    struct stage s[MAXS]; /* by plan node */
    struct sk_step_conf conf;
    struct sk_gathers gathers;
    /* again: share of tasks whose end is reported twice */
    double now, sigma, pause, deaths, actor_deaths, again;
    /* store_bytes 0: it never spills */
    uint64_t store_bytes, resident, spilled, restored, peak_resident;
    /* told: the run is notified of spills; one_disk: tasks read one after the other */
    bool told, one_disk;
    double disk_until; /* with one_disk: when the disk has read what it was asked for */
    /* seconds in which the maps of an exchange pack a row; the run is told of them if not 0 */
    double pack_row;
    /* share of tasks that fail while they run, and are skipped */
    double lost;
    /* of the plan; by_size: exchanges choose the number of their reduces */
    bool exchanges, by_size, limits, zips;
    bool any_order; /* of its output */
    /* outside: the told strategy of the exchanges, which answers later, at E_ANSWER; answers: an
     * answer is under way */
    struct sk_told outside;
    bool answers;
    bool careless; /* true: the policy promises more memory than exists */
    uint64_t rng, next_oid, order;
    struct sk_map blks;
    SK_VEC(struct ev) heap;
    struct task *queue, *queue_last;
    int64_t cpu, gpu;
    /* DEAD: for good; its other calls end, too */
    enum { ACTOR_NONE, ACTOR_WAITS, ACTOR_ON, ACTOR_DEAD } actor[MAXS][64];
    bool actor_busy[MAXS][64];
    SK_VEC(uint64_t) rows;  /* taken by the consumer */
    SK_VEC(uint32_t) sizes; /* number of rows of each block that was taken */
    uint64_t unit_rows[4096];
    uint64_t peak, max_task, max_input, max_flying, max_over, n_forced, n_launched, n_retries;
    /* seconds of tasks: on CPUs, of each stage, of the longest task */
    double busy_cpu, work[MAXS], longest;
    /* n_tasks: started tasks of each stage; ops_max: most operators behind the sources */
    uint32_t n_tasks[MAXS], ops_max;
    uint32_t unchecked;        /* number of events since the last check of the whole step */
    SK_VEC(struct look) looks; /* the estimates of the run, after each 16th event */
};

struct look {
    double now, share, left; /* left < 0: not known */
    bool guess;
};

static double uniform(struct sim *m) {
    m->rng = m->rng * UINT64_C(6364136223846793005) + 1442695040888963407u;
    return (double)(sk_rand_mix(m->rng) >> 11) / 9007199254740992.0;
}

static double lognormal(struct sim *m) {
    if (m->sigma <= 0) return 1;
    double n = sqrt(-2 * log(uniform(m) + 1e-12)) * cos(6.283185307179586 * uniform(m));
    return exp(m->sigma * n - m->sigma * m->sigma / 2);
}

/* ---- virtual engine -------------------------------------------------------------------------- */

static void at(struct sim *m, double t, int kind, struct task *task) {
    struct ev e = {t, ++m->order, (unsigned)kind, task};
    CHECK(sk_vec_push(&m->heap, TAG, e));
    uint32_t i = m->heap.n - 1;
    while (i && (m->heap.p[(i - 1) / 2].t > t ||
                 (!(m->heap.p[(i - 1) / 2].t < t) && m->heap.p[(i - 1) / 2].order > e.order))) {
        m->heap.p[i] = m->heap.p[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    m->heap.p[i] = e;
}

static bool before(const struct ev *a, const struct ev *b) {
    return a->t < b->t || (!(b->t < a->t) && a->order < b->order);
}

static struct ev pop(struct sim *m) {
    struct ev top = m->heap.p[0], e = m->heap.p[--m->heap.n];
    uint32_t i = 0;
    for (;;) {
        uint32_t c = 2 * i + 1;
        if (c >= m->heap.n) break;
        if (c + 1 < m->heap.n && before(&m->heap.p[c + 1], &m->heap.p[c])) c++;
        if (before(&e, &m->heap.p[c])) break;
        m->heap.p[i] = m->heap.p[c];
        i = c;
    }
    m->heap.p[i] = e;
    return top;
}

/* ---- a store that spills: the oldest first, as by LRU of blocks that are read once ----------- */

static int64_t ns(double sec) { return (int64_t)(sec * 1e9); }

static void tell(struct sim *m, enum sk_step_ev_kind kind, uint64_t oid, double sec) {
    struct sk_err err = {0};
    struct sk_step_ev ev = {.kind = kind, .block = {.oid = oid}, .run_ns = ns(sec)};
    if (m->told) CHECK_OK_ERR(sk_step_event(m->x, &ev, ns(m->now), &err), &err);
}

/* Spills blocks to make room for new bytes, in the order of their ids. Blocks of running tasks
 * stay, so the store may hold more than its size. */
static void make_room(struct sim *m, uint64_t bytes) {
    while (m->store_bytes && m->resident + bytes > m->store_bytes) {
        struct blk *oldest = NULL;
        uint64_t key;
        void *val;
        for (uint32_t i = 0; sk_map_next(&m->blks, &i, &key, &val);) {
            struct blk *b = val;
            if (b->there && !b->on_disk && !b->used_by && (!oldest || b->oid < oldest->oid))
                oldest = b;
        }
        if (!oldest) break;
        oldest->on_disk = true;
        m->resident -= oldest->bytes;
        m->spilled += oldest->bytes;
        tell(m, SK_SEV_SPILLED, oldest->oid, (double)oldest->bytes / DISK_BYTES_PER_S);
    }
    m->resident += bytes;
    m->peak_resident = SK_MAX(m->peak_resident, m->resident);
}

/* Keeps a task's input in memory until the task ends; returns the bytes that have to be read from
 * disk. */
static uint64_t hold_input(struct sim *m, struct task *k) {
    uint64_t read = 0, input = 0;
    for (uint32_t i = 0; m->store_bytes && i < k->n_in; i++) {
        struct blk *b = sk_map_get(&m->blks, k->in[i].oid);
        b->used_by++;
        input += b->bytes;
    }
    m->max_input = SK_MAX(m->max_input, input);
    for (uint32_t i = 0; m->store_bytes && i < k->n_in; i++) {
        struct blk *b = sk_map_get(&m->blks, k->in[i].oid);
        if (!b->on_disk) continue;
        if (k->in[i].part) { /* only the part is read, into memory of its own */
            k->in[i].read = k->in[i].part;
            make_room(m, k->in[i].read);
            read += k->in[i].read;
            continue;
        }
        make_room(m, b->bytes);
        b->on_disk = false;
        read += b->bytes;
        tell(m, SK_SEV_RESTORED, b->oid, 0);
    }
    m->restored += read;
    return read;
}

/* Returns the time that a task waits for its input to be read from disk. */
static double read_input(struct sim *m, struct task *k) {
    double sec = (double)hold_input(m, k) / DISK_BYTES_PER_S;
    if (!m->one_disk || sec <= 0) return sec;
    m->disk_until = SK_MAX(m->disk_until, m->now) + sec;
    return m->disk_until - m->now;
}

static struct blk *new_blk(struct sim *m, const uint64_t *rows, uint32_t n, uint64_t bytes) {
    struct blk *b = sk_alloc(TAG, sizeof *b + n * sizeof *rows);
    CHECK(b);
    b->oid = ++m->next_oid;
    b->refs = 1;
    b->used_by = 0;
    b->there = b->on_disk = false;
    b->note = NULL;
    b->n = n;
    b->bytes = bytes;
    memcpy(b->row, rows, n * sizeof *rows);
    CHECK_OK(sk_map_put(&m->blks, b->oid, b));
    return b;
}

static void push_out(struct task *k, struct blk *b) {
    if (k->n_out == k->cap_out) {
        k->cap_out = 2 * k->cap_out + 8;
        k->out = sk_realloc(TAG, k->out, k->cap_out * sizeof *k->out);
    }
    CHECK(k->out);
    k->out[k->n_out++] = b;
}

static void unref(struct sim *m, uint64_t oid) {
    struct blk *b = sk_map_get(&m->blks, oid);
    CHECK_MSG(b && b->refs, "object %llu is given back once too often", (unsigned long long)oid);
    if (--b->refs) return;
    if (b->there && !b->on_disk && m->store_bytes) m->resident -= b->bytes;
    sk_map_del(&m->blks, oid);
    sk_free(b->note);
    sk_free(b);
}

static uint32_t apply(const struct stage *s, uint32_t node, uint64_t row, uint64_t *out) {
    uint32_t n = 0;
    for (uint32_t j = 0; j < s->times; j++) {
        uint64_t r = sk_rand_mix(row * 31 + j + 7919 * (uint64_t)node);
        if (s->of <= 1 || r % s->of == 0) out[n++] = r;
    }
    return n;
}

/* Computes the rows of a task's output, by every node of the chain in turn. Returns their
 * number. */
static uint32_t compute(const struct sim *m, const struct sk_stage *st, const uint64_t *in,
                        uint32_t n, uint64_t **out) {
    uint64_t *a = sk_memdup(TAG, in, n * sizeof *in);
    for (uint32_t k = 0; k < st->n_nodes; k++) {
        const struct stage *s = &m->s[st->nodes[k]];
        uint64_t *b = sk_alloc(TAG, ((uint64_t)n * s->times + 1) * sizeof *b);
        uint32_t nb = 0;
        CHECK(a && b);
        for (uint32_t i = 0; i < n; i++) nb += apply(s, st->nodes[k], a[i], b + nb);
        sk_free(a);
        a = b;
        n = nb;
    }
    *out = a;
    return n;
}

/* Combines the rows of k inputs, which are one behind the other, side by side. Returns the number
 * of rows. */
static uint32_t side_by_side(uint64_t *rows, uint32_t n, uint32_t k) {
    CHECK_EQ(n % k, 0);
    for (uint32_t i = 0; i < n / k; i++)
        for (uint32_t j = 1; j < k; j++)
            rows[i] = sk_rand_mix(rows[i] * 31 + rows[j * (n / k) + i]);
    return n / k;
}

static void unit_ids(const struct sim *m, uint32_t node, uint32_t unit, uint64_t *out) {
    for (uint64_t i = 0; i < m->unit_rows[unit]; i++)
        out[i] = sk_rand_mix((uint64_t)node << 48 | (uint64_t)unit << 24 | i);
}

#include "exec_packs.h"

static void give_blocks(struct sim *m, const struct stage *last, struct task *k,
                        const uint64_t *out, uint32_t n) {
    uint64_t row_bytes = last->frame ? last->frame : ROW_BYTES;
    uint32_t per = last->block_rows ? last->block_rows
                                    : (uint32_t)SK_MAX(m->conf.target_max_bytes / row_bytes, 1);
    for (uint32_t i = 0; i < n; i += per) {
        uint32_t c = SK_MIN(per, n - i);
        push_out(k, new_blk(m, out + i, c, c * row_bytes));
    }
}

static void launch(struct sim *m, uint64_t id) {
    struct sk_stask *t = sk_step_task(m->x, id);
    CHECK(t);
    const struct sk_stage *st = &m->st.s[t->stage];
    const struct sk_sstage *ss = &m->x->s[t->stage];
    static uint64_t in[200000];
    uint64_t *out;
    uint32_t n = 0;
    if (ss->source) {
        n = (uint32_t)m->unit_rows[t->unit];
        unit_ids(m, st->nodes[0], t->unit, in);
    }
    const struct stage *first = &m->s[st->nodes[0]], *last = &m->s[st->nodes[st->n_nodes - 1]];
    uint32_t phase = t->say ? sk_exchange_task(t->say)->phase : SK_PHASE_NONE;
    if (sk_phase_reduces(phase)) n = reduce(m, first, t, in);
    for (const struct sk_blk *b = t->in.head; b && !ss->gather; b = b->next) {
        const struct blk *k = sk_map_get(&m->blks, b->ref.oid);
        CHECK(k && b->ref.row0 + b->ref.n_rows <= k->n);
        memcpy(in + n, k->row + b->ref.row0, b->ref.n_rows * sizeof *in);
        n += (uint32_t)b->ref.n_rows;
        CHECK_LT(n, SK_COUNT(in));
    }
    if (ss->sides) n = side_by_side(in, n, ss->n_inputs);
    uint32_t n_in = n;
    n = compute(m, st, in, n, &out);
    if (st->cap_rows >= 0 && n > st->cap_rows) n = (uint32_t)st->cap_rows;
    struct task *k = sk_calloc(TAG, sizeof *k);
    CHECK(k);
    k->id = id;
    CHECK(k->in = sk_calloc(TAG, (t->in.n + 1) * sizeof *k->in));
    for (const struct sk_blk *b = t->in.head; b; b = b->next)
        k->in[k->n_in++] = (struct input){
            b->ref.oid, b->part && b->ref.bytes < b->kept->blk->ref.bytes ? b->ref.bytes : 0, 0};
    k->stage = t->stage;
    k->actor = t->actor;
    k->n_rows = n;
    if (phase == SK_PHASE_SPLIT_REDUCE) tell_met(m, first, k, t);
    if (phase == SK_PHASE_CUT) cut_runs(m, first->keys, k, t);
    else if (phase == SK_PHASE_MERGE) merge_packs(m, first, k, t);
    else if (ss->values) map_packs(m, last, k, out, n, t->hint);
    else give_blocks(m, last, k, out, n);
    if (phase != SK_PHASE_CUT && m->lost > 0 && uniform(m) < m->lost) {
        /* the task fails, and its remaining output does not exist */
        uint32_t keep = (uint32_t)(uniform(m) * (k->n_out + 1));
        /* a split reduce without its report would end the run, so it keeps that */
        keep = SK_MAX(keep, phase == SK_PHASE_SPLIT_REDUCE);
        while (k->n_out > keep) unref(m, k->out[--k->n_out]->oid);
    }
    uint64_t total = 0;
    for (uint32_t i = 0; i < k->n_out; i++) total += k->out[i]->bytes;
    m->max_task = SK_MAX(m->max_task, total);
    double sec = first->sec + first->sec_row * n_in;
    if (first->spike > 0 && uniform(m) < first->spike) sec *= 10;
    if (first->later > 0 && m->n_tasks[t->stage] >= 20) sec *= first->later;
    m->n_tasks[t->stage]++;
    k->dur = sec * lognormal(m);
    while (uniform(m) < m->deaths) { /* its worker dies: the task runs again from the beginning */
        k->dur += sec * lognormal(m);
        m->n_retries++;
    }
    sk_free(out);
    t->user = (uint64_t)(uintptr_t)k;
    if (m->queue_last) m->queue_last->next = k;
    else m->queue = k;
    m->queue_last = k;
    m->n_launched++;
}

/* A feed was asked for a block: it will answer, whatever else happens. */
static void ask(struct sim *m, uint64_t id) {
    const struct sk_stask *t = sk_step_task(m->x, id);
    struct task *k = sk_calloc(TAG, sizeof *k);
    CHECK(k && t);
    k->id = id;
    k->stage = t->stage;
    k->dur = 0.02 * lognormal(m);
    at(m, m->now + k->dur, E_FED, k);
}

/* The answer: a block of the rows of the next unit, or that there are no more. */
static void fed(struct sim *m, struct task *k) {
    const struct sk_stask *t = sk_step_task(m->x, k->id);
    uint32_t node = m->st.s[k->stage].nodes[0];
    bool again = m->again > 0 && uniform(m) < m->again;
    CHECK(t && m->x->s[k->stage].in_flight == 1);
    uint32_t unit = m->n_tasks[k->stage];
    while (unit < m->s[node].n_fed && !m->unit_rows[unit]) unit++;
    m->n_tasks[k->stage] = unit + 1;
    for (int i = 0; i < 1 + again; i++) { /* the second answer is to an ask that is over */
        struct sk_err err = {0};
        struct sk_fed f = {.rc = SK_EDONE, .ns = ns(k->dur)};
        if (unit < m->s[node].n_fed || i) {
            uint64_t rows[64];
            uint32_t n = (uint32_t)m->unit_rows[unit];
            CHECK_LE(n, SK_COUNT(rows));
            unit_ids(m, node, unit, rows);
            struct blk *b = new_blk(m, rows, n, n * ROW_BYTES);
            if (m->store_bytes) make_room(m, b->bytes);
            b->there = true;
            m->max_task = SK_MAX(m->max_task, b->bytes);
            f.rc = SK_OK;
            f.block = (struct sk_bref){.oid = b->oid, .n_rows = n, .bytes = b->bytes};
            f.cost = b->bytes;
        }
        CHECK_OK_ERR(sk_step_fed(m->x, k->id, &f, ns(m->now), &err), &err);
    }
    sk_free(k);
}

/* Starts all that the resources allow: actors, which then hold their GPUs, then calls and tasks in
 * order of submission. */
static void dispatch(struct sim *m) {
    for (uint32_t i = 0; i < m->st.n; i++)
        for (uint32_t k = 0; k < 64; k++)
            if (m->actor[i][k] == ACTOR_WAITS && m->gpu >= m->x->s[i].gpu_e4) {
                m->actor[i][k] = ACTOR_ON;
                m->gpu -= m->x->s[i].gpu_e4;
            }
    struct task *prev = NULL;
    for (struct task *k = m->queue, *next; k; k = next) {
        const struct sk_sstage *s = &m->x->s[k->stage];
        bool actor = s->kind == SK_STAGE_ACTORS;
        next = k->next;
        if (m->cpu < s->cpu_e4 ||
            (actor ? m->actor_busy[k->stage][k->actor] || m->actor[k->stage][k->actor] < ACTOR_ON
                   : m->gpu < s->gpu_e4)) {
            prev = k;
            continue;
        }
        m->cpu -= s->cpu_e4;
        if (actor) m->actor_busy[k->stage][k->actor] = true;
        else m->gpu -= s->gpu_e4;
        if (prev) prev->next = next;
        else m->queue = next;
        if (m->queue_last == k) m->queue_last = prev;
        k->started = true;
        k->begin = m->now;
        k->dur += read_input(m, k);
        m->busy_cpu += k->dur * (double)s->cpu_e4 / 1e4;
        m->work[k->stage] += k->dur;
        m->longest = SK_MAX(m->longest, k->dur);
        const struct sk_stage *st = &m->st.s[k->stage];
        bool at_end = m->s[st->nodes[st->n_nodes - 1]].at_end;
        for (uint32_t i = 0; i < k->n_out; i++)
            at(m, m->now + k->dur * (at_end ? 1 : (i + 1.0) / k->n_out), E_YIELD, k);
        at(m, m->now + k->dur, E_DONE, k);
    }
}

static void over(struct sim *m, struct task *k, bool failed) {
    struct sk_err err = {0};
    for (uint32_t i = 0; k->started && m->store_bytes && i < k->n_in; i++) {
        ((struct blk *)sk_map_get(&m->blks, k->in[i].oid))->used_by--;
        m->resident -= k->in[i].read;
    }
    bool actor_dead = m->actor[k->stage][k->actor] == ACTOR_DEAD;
    struct sk_step_ev ev = {.kind = failed ? SK_SEV_FAILED : SK_SEV_DONE,
                            .task = k->id,
                            .run_ns = ns(k->dur),
                            .actor_dead = actor_dead};
    struct sk_task_note_op ops[16] = {0};
    if (m->pack_row > 0 && m->x->s[k->stage].values && !m->x->s[k->stage].gather) {
        ev.n_fused = m->st.s[k->stage].n_nodes;
        ev.fused = ops;
        for (uint32_t i = 0; i < ev.n_fused; i++) ops[i].rows_out = k->n_rows;
        ops[ev.n_fused - 1].ns = (uint64_t)ns(m->pack_row * k->n_rows);
    }
    for (uint32_t i = k->n_yielded; i < k->n_out; i++) unref(m, k->out[i]->oid);
    CHECK_OK_ERR(sk_step_event(m->x, &ev, ns(m->now), &err), &err);
    if (m->again > 0 && uniform(m) < m->again) {
        /* the end is reported twice, then a late yield arrives, which must be dropped */
        uint64_t row = 0;
        struct blk *b = new_blk(m, &row, 1, ROW_BYTES);
        ev.kind = uniform(m) < 0.5 ? SK_SEV_DONE : SK_SEV_FAILED;
        CHECK_OK_ERR(sk_step_event(m->x, &ev, ns(m->now), &err), &err);
        ev = (struct sk_step_ev){.kind = SK_SEV_YIELDED,
                                 .task = k->id,
                                 .block = {b->oid, 0, 1, b->bytes, 0, 0},
                                 .cost = b->bytes};
        CHECK_OK_ERR(sk_step_event(m->x, &ev, ns(m->now), &err), &err);
        ev = (struct sk_step_ev){.kind = uniform(m) < 0.5 ? SK_SEV_SPILLED : SK_SEV_RESTORED,
                                 .block = {.oid = b->oid}};
        CHECK_OK_ERR(sk_step_event(m->x, &ev, ns(m->now), &err), &err);
    }
    sk_free(k->in);
    sk_free(k->out);
    sk_free(k);
}

/* A launch that was not forced leaves used + promised within the limit; what exceeds it can only be
 * yields beyond a promise. */
static void check_promises(struct sim *m, bool forced, bool promised) {
    uint64_t taken = sk_view_used(m->x) + m->x->mem.reserved;
    if (promised && !forced)
        CHECK_MSG(taken <= m->conf.memory_bytes || m->careless || m->spilled,
                  "launched with %llu taken of %llu", (unsigned long long)taken,
                  (unsigned long long)m->conf.memory_bytes);
    m->max_flying = SK_MAX(m->max_flying, (uint64_t)m->x->n_flying + m->x->n_feeding);
    if (getenv("SIM_OVER") && m->x->mem.used > m->conf.memory_bytes + m->max_over) {
        char text[2000];
        sk_stall_text(m->x, ns(m->now), text, sizeof text);
        fprintf(stderr,
                "over at %.4f: flying %u out %u mem %llu+%llu parked %llu disk %llu resident %llu: "
                "%s\n",
                m->now, m->x->n_flying, m->x->out.n, (unsigned long long)m->x->mem.used,
                (unsigned long long)m->x->mem.reserved, (unsigned long long)m->x->parked,
                (unsigned long long)m->x->mem.disk, (unsigned long long)m->resident, text);
    }
    m->max_over =
        SK_MAX(m->max_over,
               m->x->mem.used > m->conf.memory_bytes ? m->x->mem.used - m->conf.memory_bytes : 0);
}

/* Cancels a task; one that has not begun ends at once. */
static void cancel(struct sim *m, struct task *k) {
    k->dead = true;
    if (k->started) { /* the remaining output is not needed */
        m->work[k->stage] -= k->begin + k->dur - m->now;
        return;
    }
    for (struct task **p = &m->queue, *prev = NULL; *p; prev = *p, p = &(*p)->next)
        if (*p == k) {
            *p = k->next;
            if (m->queue_last == k) m->queue_last = prev;
            break;
        }
    at(m, m->now, E_DONE, k);
}

/* Checks the whole step after each event, and where there are very many blocks, which the check
 * walks, after every few events: what is wrong with a sum stays wrong. */
static void check_step(struct sim *m) {
    if (++m->unchecked * 64 < m->blks.n) return;
    m->unchecked = 0;
    CHECK(sk_step_check(m->x));
}

static void acts(struct sim *m) {
    bool forced = m->x->n_forced != m->n_forced, promised = false;
    if (forced && getenv("SIM_VERBOSE")) {
        char text[2000];
        sk_stall_text(m->x, ns(m->now), text, sizeof text);
        fprintf(stderr, "forced at %.4f: flying %u out %u mem %llu+%llu: %s\n", m->now,
                m->x->n_flying, m->x->out.n, (unsigned long long)m->x->mem.used,
                (unsigned long long)m->x->mem.reserved, text);
    }
    m->n_forced = m->x->n_forced;
    for (uint32_t i = 0; i < m->x->acts.n; i++) {
        struct sk_act a = m->x->acts.p[i];
        switch (a.kind) {
        case SK_ACT_LAUNCH:
            promised = promised || sk_step_task(m->x, a.id)->promise;
            if (m->x->s[a.stage].feed) ask(m, a.id);
            else launch(m, a.id);
            break;
        case SK_ACT_CANCEL: {
            const struct sk_stask *t = sk_step_task(m->x, a.id); /* NULL: a feed's, answered */
            if (t && t->user) cancel(m, (struct task *)(uintptr_t)t->user);
            break;
        }
        case SK_ACT_RELEASE: unref(m, a.id); break;
        case SK_ACT_ADDREF: ((struct blk *)sk_map_get(&m->blks, a.id))->refs++; break;
        case SK_ACT_ACTOR_CREATE: /* an actor holds no CPU; its calls take one */
            CHECK(m->actor[a.stage][a.actor] == ACTOR_NONE ||
                  m->actor[a.stage][a.actor] == ACTOR_DEAD);
            m->actor[a.stage][a.actor] = ACTOR_WAITS;
            break;
        case SK_ACT_ACTOR_KILL:
            CHECK(m->actor[a.stage][a.actor] != ACTOR_NONE);
            if (m->actor[a.stage][a.actor] == ACTOR_ON) m->gpu += m->x->s[a.stage].gpu_e4;
            m->actor[a.stage][a.actor] = ACTOR_NONE;
            break;
        }
    }
    m->x->acts.n = 0;
    check_promises(m, forced, promised);
    dispatch(m);
    m->peak = SK_MAX(m->peak, m->x->mem.used);
    check_step(m);
    CHECK_MSG(!m->x->stalled, "stalled at %g s", m->now);
}

/* ---- a strategy that answers later (shuffle/told.h) --------------------------------------------
 */

static void outside_woken(void *arg) {
    struct sim *m = arg;
    if (!m->answers) at(m, m->now + 0.05 * uniform(m), E_ANSWER, NULL);
    m->answers = true;
}

static enum sk_told_end some_end(struct sim *m) { return (enum sk_told_end)(3 * uniform(m)); }

/* What is said of a pack: by its size and by chance; rows do not depend on it. */
static sk_rc answer_pack(struct sim *m, const struct sk_told_question *q, struct sk_err *err) {
    struct sk_told_state now;
    struct sk_shuffle_group g;
    uint32_t node = uniform(m) < 0.5 ? SK_SHUFFLE_ANY : q->pack.node;
    if (uniform(m) < 0.2) return sk_told_pass(&m->outside, q->side, &now, err);
    SK_TRY(sk_told_hold(&m->outside, q->side, 1 + (uint32_t)(2 * uniform(m)), node, &now, err));
    CHECK(!now.gone && now.group.n && now.held >= now.group.bytes);
    if (uniform(m) < 0.3)
        SK_TRY(sk_told_end_group(&m->outside, q->side, now.group.first, some_end(m), 20 * PACK_ROW,
                                 &now, err));
    if (uniform(m) < 0.2 && sk_told_group(&m->outside, q->side, 0, &g))
        SK_TRY(
            sk_told_end_group(&m->outside, q->side, g.first, some_end(m), UINT64_MAX, &now, err));
    return SK_OK;
}

static sk_rc answer(void *arg, struct sk_err *err) {
    struct sim *m = arg;
    struct sk_told_question q;
    struct sk_told_state now;
    sk_told_next(&m->outside, &q);
    if (!q.kind) return SK_OK;
    if (q.kind == SK_TOLD_PACK) SK_TRY(answer_pack(m, &q, err));
    if (q.kind == SK_TOLD_ENDED) SK_TRY(sk_told_over(&m->outside, q.side, &now, err));
    if (q.kind == SK_TOLD_SIZES)
        sk_told_values(&m->outside, q.side,
                       q.sizes.runs && q.sizes.merges ? 1 : 1 + (uint32_t)(3 * uniform(m)));
    outside_woken(m); /* wakes the strategy for the next question */
    return SK_OK;
}

static void on(struct sim *m, struct ev e) {
    struct sk_err err = {0};
    struct task *k = e.task;
    m->now = e.t;
    if (e.kind == E_YIELD) {
        if (k->dead) return;
        struct blk *b = k->out[k->n_yielded++];
        /* objects of other tasks: the run does not know them yet */
        if (m->store_bytes) make_room(m, b->bytes);
        b->there = true;
        struct sk_step_ev ev = {.kind = SK_SEV_YIELDED,
                                .task = k->id,
                                .block = {.oid = b->oid, .n_rows = b->n, .bytes = b->bytes},
                                .cost = b->bytes};
        if (b->note) {
            CHECK(sk_pack_note_ok((struct sk_bytes){b->note, sizeof *b->note}));
            ev.note = (const void *)&b->note->h;
            ev.block.n_rows = b->note->h.rows;
        }
        CHECK_OK_ERR(sk_step_event(m->x, &ev, ns(m->now), &err), &err);
        acts(m);
    } else if (e.kind == E_DONE) {
        const struct sk_sstage *s = &m->x->s[k->stage];
        if (k->started) {
            m->cpu += s->cpu_e4;
            if (s->kind == SK_STAGE_ACTORS) m->actor_busy[k->stage][k->actor] = false;
            else m->gpu += s->gpu_e4;
            if (m->actor[k->stage][k->actor] == ACTOR_ON && m->actor_deaths > 0 &&
                uniform(m) < m->actor_deaths) {
                m->actor[k->stage][k->actor] = ACTOR_DEAD;
                m->gpu += s->gpu_e4;
            }
        }
        over(m, k, k->dead);
        acts(m);
    } else if (e.kind == E_FED) {
        fed(m, k);
        acts(m);
    } else if (e.kind == E_ANSWER) {
        m->answers = false;
        if (m->x->done) return;
        CHECK_OK_ERR(sk_step_call(m->x, answer, m, ns(m->now), &err), &err);
        acts(m);
    }
}

/* Plays the consumer: takes all blocks that are ready, or one block and then pauses. */
static void consume(struct sim *m, double *wake) {
    struct sk_bref b;
    while (m->now >= *wake) {
        sk_rc rc = sk_step_take(m->x, ns(m->now), &b, NULL);
        if (rc != SK_OK) return;
        const struct blk *k = sk_map_get(&m->blks, b.oid);
        CHECK(k && b.row0 + b.n_rows <= k->n);
        for (uint64_t i = 0; i < b.n_rows; i++)
            CHECK(sk_vec_push(&m->rows, TAG, k->row[b.row0 + i]));
        CHECK(sk_vec_push(&m->sizes, TAG, (uint32_t)b.n_rows));
        unref(m, b.oid);
        acts(m);
        if (m->pause > 0) {
            *wake = m->now + m->pause * lognormal(m);
            at(m, *wake, E_TAKE, NULL);
        }
    }
}

/* True for policies whose launches keep used + promised within the limit, except forced ones. */
static bool keeps_within(const char *policy) {
    static const char *const THEY[] = {"chain", "downstream", "upstream"};
    for (uint32_t i = 0; i < SK_COUNT(THEY); i++)
        if (strcmp(policy, THEY[i]) == 0) return true;
    return false;
}

/* Asks how far the run is, as users do. */
static void look(struct sim *m) {
    struct sk_exec_stats st;
    sk_metrics_advance(m->x, ns(m->now));
    sk_metrics_get(m->x, &st, NULL, 0);
    CHECK_MSG(st.share >= 0 && st.share <= 1 && (st.share < 1 || st.done), "share %g", st.share);
    CHECK_MSG(st.left_ns >= 0 || (st.left_ns == -1 && st.share <= 0), "left %lld, share %g",
              (long long)st.left_ns, st.share);
    CHECK(sk_vec_push(&m->looks, TAG,
                      ((struct look){m->now, st.share, (double)st.left_ns / 1e9, st.left_guess})));
}

static void run(struct sim *m, uint32_t root, const char *policy) {
    struct sk_err err = {0};
    m->conf.policy = sk_policy_find(policy);
    CHECK(m->conf.policy);
    m->careless = !keeps_within(policy);
    sk_map_init(&m->blks, TAG);
    m->next_oid = 1000000;
    m->cpu = m->conf.cpu_e4;
    m->gpu = m->conf.gpu_e4;
    CHECK_OK_ERR(sk_plan_stages(m->plan, root, &m->st, &err), &err);
    CHECK_OK_ERR(sk_step_create(m->plan, &m->st, &m->conf, &m->x, &err), &err);
    CHECK_OK_ERR(sk_step_feasible(m->x, &err), &err);
    for (uint32_t i = 0; i < m->st.n; i++) /* existing blocks */
        for (uint32_t b = 0; b < m->x->s[i].n_blocks; b++) {
            uint64_t rows[16];
            const struct sk_bref *r = &m->x->s[i].blocks[b];
            for (uint32_t j = 0; j < r->n_rows; j++) rows[j] = sk_rand_mix(r->oid << 20 | j);
            struct blk *k = new_blk(m, rows, (uint32_t)r->n_rows, r->bytes);
            sk_map_del(&m->blks, k->oid);
            k->oid = r->oid;
            CHECK_OK(sk_map_put(&m->blks, k->oid, k));
        }
    double wake = 0;
    CHECK_OK_ERR(sk_step_start(m->x, 0, &err), &err);
    acts(m);
    consume(m, &wake);
    uint64_t n = 0;
    while (m->heap.n) {
        on(m, pop(m));
        consume(m, &wake);
        CHECK_MSG(++n < 3000000, "does not end");
        if (n % 16 == 0) look(m);
    }
    look(m);
    CHECK(m->looks.p[m->looks.n - 1].share >= 1);
    struct sk_bref b;
    char text[2000];
    sk_stall_text(m->x, ns(m->now), text, sizeof text);
    sk_rc rc = sk_step_take(m->x, ns(m->now), &b, NULL);
    CHECK_MSG(rc == SK_EDONE, "the engine has nothing to do, at %g s: %s", m->now, text);
}

static void finish(struct sim *m) {
    CHECK(!m->queue);
    CHECK_EQ(m->x->mem.used, 0);
    CHECK_EQ(m->x->mem.reserved, 0);
    CHECK_EQ(m->x->tasks.n_used, 0);
    sk_step_sweep(m->x, &(struct sk_sweep){0});
    for (uint32_t i = 0; i < m->st.n; i++)
        for (uint32_t b = 0; b < m->x->s[i].n_blocks; b++) unref(m, m->x->s[i].blocks[b].oid);
    CHECK_MSG(m->blks.n == 0, "%u objects were never given back", m->blks.n);
    sk_map_deinit(&m->blks);
    sk_step_destroy(m->x);
    sk_told_deinit(&m->outside);
    sk_stages_free(&m->st);
    sk_vec_free(&m->heap);
    sk_vec_free(&m->looks);
    sk_plan_destroy(m->plan, NULL, NULL);
}

/* ---- the sequential model -------------------------------------------------------------------- */

struct rows {
    uint64_t *p;
    uint32_t n, cap;
};

/* Joins two inputs partition by partition. rows: n rows of the first input, then those of the
 * second. */
static void model_join(const struct sim *m, uint32_t node, uint64_t *rows, uint32_t n,
                       uint32_t *all) {
    uint32_t keys = m->s[node].keys, tells = sk_plan_get(m->plan, node)->d.exchange.tells, k = 0;
    uint64_t *side[2] = {sk_alloc(TAG, (*all + 1) * sizeof *rows),
                         sk_alloc(TAG, (*all + 1) * sizeof *rows)},
             *in = sk_memdup(TAG, rows, *all * sizeof *rows);
    CHECK(side[0] && side[1] && in);
    for (uint32_t key = 0; key < keys; key++) {
        uint32_t of[2] = {0, 0};
        for (uint32_t i = 0; i < *all; i++)
            if (key_of(in[i], keys) == key) side[i >= n][of[i >= n]++] = in[i];
        uint32_t large = of[1] > of[0];
        k += join_rows(side[large], of[large], side[!large], tells >> large & 1 ? of[!large] : 0,
                       rows + k);
    }
    *all = k;
    sk_free(in);
    sk_free(side[0]);
    sk_free(side[1]);
}

static void model(const struct sim *m, uint32_t node, struct rows *out) {
    const struct sk_node_desc *d = &sk_plan_get(m->plan, node)->d;
    uint32_t from = out->n, first = 0;
    for (uint32_t i = 0; i < d->n_inputs; i++) {
        model(m, d->inputs[i], out);
        if (!i) first = out->n - from;
    }
    for (uint32_t u = 0; u < d->n_units + m->s[node].n_fed; u++)
        for (uint64_t i = 0; i < m->unit_rows[u]; i++)
            CHECK(sk_vec_push(out, TAG, sk_rand_mix((uint64_t)node << 48 | (uint64_t)u << 24 | i)));
    for (uint32_t b = 0; b < d->n_blocks; b++)
        for (uint32_t j = 0; j < d->blocks[b].n_rows; j++)
            CHECK(sk_vec_push(out, TAG, sk_rand_mix(d->blocks[b].oid << 20 | j)));
    if (d->op->props & SK_OP_LIMIT) out->n = (uint32_t)SK_MIN((int64_t)out->n, from + d->limit);
    if (d->op->props & (SK_OP_LIMIT | SK_OP_UNION | SK_OP_MERGE) || d->n_blocks || d->feed) return;
    if (d->exchange.tells) {
        uint32_t all = out->n - from;
        /* with skipped tasks the rows are only a subset: a row whose partners are lost is
         * unmatched */
        if (!(m->lost > 0)) model_join(m, node, out->p + from, first, &all);
        out->n = from + all;
    } else if (d->op->props & SK_OP_EXCHANGE)
        sort_by_key(out->p + from, out->n - from, m->s[node].keys);
    else if (d->n_inputs > 1)
        out->n = from + side_by_side(out->p + from, out->n - from, d->n_inputs);
    uint32_t n = out->n - from;
    uint64_t *in = sk_memdup(TAG, out->p + from, n * sizeof *in), tmp[64];
    out->n = from;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t c = apply(&m->s[node], node, in[i], tmp);
        for (uint32_t j = 0; j < c; j++) CHECK(sk_vec_push(out, TAG, tmp[j]));
    }
    sk_free(in);
}

/* ---- random pipelines ------------------------------------------------------------------------ */

static const struct sk_op READ = {"read", SK_OP_SOURCE}, EXISTING = {"blocks", SK_OP_SOURCE},
                          FED = {"stream", SK_OP_SOURCE | SK_OP_NO_FUSE},
                          UNION = {"union", SK_OP_UNION};
static const struct sk_op MAP = {"map", SK_OP_ONE_TO_ONE | SK_OP_BY_ROW},
                          MAP_BATCHES = {"map_batches", 0},
                          ZIP = {"zip_rows", SK_OP_BY_ROW | SK_OP_ZIP};
static const struct sk_op MAP_PACKS = {"map_packs", SK_OP_PACKS},
                          EXCHANGE = {"reduce", SK_OP_EXCHANGE},
                          MERGE = {"merge", SK_OP_PACKS | SK_OP_MERGE};
static const struct sk_op LIMIT = {"limit", SK_OP_LIMIT | SK_OP_NO_MORE};

static uint32_t add(struct sim *m, const struct sk_op *op, struct sk_node_desc d,
                    const uint32_t *in, uint32_t n_in) {
    struct sk_err err = {0};
    uint32_t id;
    d.op = op;
    d.inputs = in;
    d.n_inputs = n_in;
    CHECK_OK_ERR(sk_plan_add(m->plan, &d, &id, &err), &err);
    CHECK_LT(id, MAXS);
    return id;
}

static uint32_t random_source(struct sim *m, uint32_t n_units, bool est, bool blocks, bool exact) {
    struct sk_unit units[300];
    struct sk_bref brefs[300];
    uint32_t node = sk_plan_n_nodes(m->plan);
    for (uint32_t i = 0; i < n_units; i++) {
        units[i] = (struct sk_unit){{"", 0}, -1, est ? (int64_t)(m->unit_rows[i] * ROW_BYTES) : -1};
        brefs[i] =
            (struct sk_bref){node * 1000 + i + 1, 0, 1 + i % 9, (1 + i % 9) * ROW_BYTES, 0, 0};
    }
    m->s[node] = (struct stage){.times = 1, .of = 1, .sec = 0.001, .sec_row = 0.0005};
    static struct sk_feed feed; /* the simulation answers, so it is never called */
    if (!exact && !blocks && !m->ops_max && uniform(m) < 0.15) {
        m->s[node].n_fed = n_units;
        return add(m, &FED, (struct sk_node_desc){.feed = &feed}, NULL, 0);
    }
    if (blocks)
        return add(m, &EXISTING, (struct sk_node_desc){.blocks = brefs, .n_blocks = n_units}, NULL,
                   0);
    return add(
        m, &READ,
        (struct sk_node_desc){
            .units = units, .n_units = n_units, .cpu_e4 = 10000, .max_tasks = exact ? 1000 : 0},
        NULL, 0);
}

/* A strategy whose answers are random numbers seeded by the sizes, so it changes them when the
 * sizes change. */
static struct sk_shuffle_layout moody_way(const struct sk_shuffle_sizes *z) {
    uint64_t r = sk_rand_mix(z->bytes / 3000 ^ z->map_bytes / 500);
    return (struct sk_shuffle_layout){.values = 1 + (uint32_t)(r % 3),
                                      .merge = (uint32_t)(r >> 8) % 6,
                                      .merged = (uint32_t)(r >> 16) % 3};
}
static uint32_t moody_values(struct sk_shuffle *s) {
    struct sk_shuffle_layout w = moody_way(sk_shuffle_sizes(s));
    return sk_shuffle_sizes(s)->runs && sk_shuffle_sizes(s)->merges && w.merge > 1 ? 1 : w.values;
}
/* Holds packs that it later passes, ends groups to which the new pack does not belong, and merges
 * single packs. */
static void moody_came(struct sk_shuffle *s, const struct sk_shuffle_pack *p) {
    struct sk_shuffle_layout w = moody_way(sk_shuffle_sizes(s));
    uint32_t node = p->bytes % 3 ? SK_SHUFFLE_ANY : p->node;
    if (w.merge == 1) sk_shuffle_pass(s);
    if (w.merge == 2) sk_shuffle_merge(s, sk_shuffle_hold(s, SK_MAX(w.merged, 1u), node));
    if (w.merge == 3) {
        const struct sk_shuffle_group *g = sk_shuffle_hold(s, SK_MAX(w.merged, 1u), node);
        if (g && g->n % 3) sk_shuffle_merge_again(s, g, p->bytes % 5 ? UINT64_MAX : 20 * PACK_ROW);
    }
    if (w.merge > 3) sk_shuffle_gather(s, w.merge, SK_MAX(w.merged, 1u), node);
    if (w.merge > 4 && sk_shuffle_group(s, 1)) sk_shuffle_merge(s, sk_shuffle_group(s, 0));
}
static const struct sk_shuffle_ops MOODY = {
    .name = "moody", .merges = true, .values = moody_values, .came = moody_came};

/* Adds a random exchange: one or two inputs, each mapped to packs that may be merged, and the
 * reduce. */
static uint32_t random_exchange(struct sim *m, uint32_t at_node) {
    bool runs = uniform(m) < 0.5, two = uniform(m) < 0.3;
    uint32_t in[2] = {at_node, 0},
             keys = runs && uniform(m) < 0.5 ? 50 : 1 + (uint32_t)(uniform(m) * (runs ? 3 : 20)),
             wanted = 0;
    struct stage s = {.times = 1,
                      .of = 1,
                      .sec = 0.001,
                      .sec_row = 0.0001,
                      .pack = runs ? RUNS : PARTS,
                      .keys = keys};
    m->exchanges = true;
    if (uniform(m) < 0.4)
        wanted = runs ? 1 + (uint32_t)(uniform(m) * 12) : keys + (uint32_t)(uniform(m) * 3);
    m->by_size = m->by_size || !wanted;
    if (two) in[1] = random_source(m, (uint32_t)(uniform(m) * 15), uniform(m) < 0.5, false, false);
    for (uint32_t i = 0; i < 1u + two; i++) {
        m->s[sk_plan_n_nodes(m->plan)] = s;
        in[i] = add(m, &MAP_PACKS, (struct sk_node_desc){.cpu_e4 = 10000}, &in[i], 1);
        if (uniform(m) < 0.6) {
            m->s[sk_plan_n_nodes(m->plan)] = s;
            in[i] = add(m, &MERGE, (struct sk_node_desc){.cpu_e4 = 10000}, &in[i], 1);
        }
    }
    m->s[sk_plan_n_nodes(m->plan)] = s;
    bool spread = !runs && !two && uniform(m) < 0.5,
         /* the number of reduces depends on memory then */
        join = !runs && two && uniform(m) < 0.7;
    m->by_size = m->by_size || spread || join;
    struct sk_node_desc d = {.cpu_e4 = uniform(m) < 0.7 ? 10000 : 5000,
                             .exchange = {.cut = runs,
                                          .n_partitions = wanted,
                                          .spread = spread,
                                          .tables = runs && uniform(m) < 0.5}};
    /* each partition is a reduce: which input has more rows depends on the data alone */
    if (join) {
        d.exchange.n_partitions = keys;
        d.exchange.spread = 3;
        d.exchange.tells = 1 + (uint32_t)(uniform(m) * 3);
    }
    if (uniform(m) < 0.2) d.pool_min = 1, d.pool_max = 1 + (uint32_t)(uniform(m) * 3);
    return add(m, &EXCHANGE, d, in, 1 + two);
}

/* Makes a random plan. Its shape depends on `shape`, its timing on `timing`. */
static uint32_t random_plan(struct sim *m, uint64_t shape, bool exact) {
    static const struct {
        uint32_t times, of;
    } RATIO[] = {{1, 1}, {1, 1}, {2, 1}, {1, 2}, {5, 1}, {1, 10}, {20, 1}, {0, 1}, {3, 2}};
    uint64_t keep = m->rng;
    m->rng = shape;
    CHECK_OK(sk_plan_create(&m->plan, NULL));
    uint32_t n_units = (uint32_t)(uniform(m) * (uniform(m) < 0.2 ? 200 : 30));
    for (uint32_t i = 0; i < SK_COUNT(m->unit_rows); i++)
        m->unit_rows[i] = exact ? 10 : (uint64_t)(uniform(m) * uniform(m) * 40);
    bool blocks = !exact && uniform(m) < 0.1;
    uint32_t at_node = random_source(m, n_units, exact || uniform(m) < 0.5, blocks, exact);
    if (!exact && uniform(m) < 0.25) {
        uint32_t in[3] = {at_node,
                          random_source(m, (uint32_t)(uniform(m) * 20), false, uniform(m) < 0.2,
                                        false),
                          0},
                 n = 2;
        if (uniform(m) < 0.5)
            in[n++] = random_source(m, (uint32_t)(uniform(m) * 5), true, false, false);
        at_node = add(m, &UNION, (struct sk_node_desc){0}, in, n);
    } else if (!exact && uniform(m) < 0.3) {
        /* other sources with as many rows, in other blocks, some slower */
        uint32_t in[3] = {at_node, 0, 0}, n = 1;
        while (n < 2 || (n < 3 && uniform(m) < 0.3))
            in[n++] = random_source(m, n_units, uniform(m) < 0.5, blocks, false);
        for (uint32_t i = 0; i < n; i++) {
            uint32_t node = sk_plan_n_nodes(m->plan);
            if (uniform(m) < 0.5) continue;
            m->s[node] = (struct stage){
                .times = 1, .of = 1, .sec = 0.001, .sec_row = 0.0001 * exp(uniform(m) * 5)};
            m->s[node].block_rows = (uint32_t)(uniform(m) * 20);
            in[i] =
                add(m, &MAP_BATCHES,
                    (struct sk_node_desc){.cpu_e4 = uniform(m) < 0.5 ? 10000 : 5000}, &in[i], 1);
        }
        m->s[sk_plan_n_nodes(m->plan)] =
            (struct stage){.times = 1, .of = 1, .sec = 0.001, .sec_row = 0.0001};
        m->zips = true;
        at_node = add(m, &ZIP, (struct sk_node_desc){.cpu_e4 = 10000}, in, n);
    }
    double grow = 1;
    bool gpus = uniform(m) < 0.4; /* one GPU for several stages, which use it in turns */
    uint32_t n = (uint32_t)(uniform(m) * (m->ops_max ? m->ops_max : 6)), actors_cpu = 0;
    while (n-- && sk_plan_n_nodes(m->plan) < MAXS) {
        uint32_t node = sk_plan_n_nodes(m->plan);
        if (!exact && !m->ops_max && uniform(m) < 0.2 && node + 10 < MAXS && n_units <= 30 &&
            grow <= 4) {
            at_node = random_exchange(m, at_node);
            continue;
        }
        if (uniform(m) < 0.15) {
            m->limits = true;
            at_node = add(m, &LIMIT, (struct sk_node_desc){.limit = (int64_t)(uniform(m) * 300)},
                          &at_node, 1);
            continue;
        }
        uint32_t r = exact ? (uniform(m) < 0.5 ? 0 : 2) : (uint32_t)(uniform(m) * SK_COUNT(RATIO));
        if (grow * RATIO[r].times / RATIO[r].of > 40) r = 0;
        if (!RATIO[r].times && uniform(m) < 0.7) r = 0;
        grow *= (double)RATIO[r].times / RATIO[r].of;
        m->s[node] = (struct stage){.times = RATIO[r].times,
                                    .of = RATIO[r].of,
                                    .sec = 0.001,
                                    .sec_row = 0.0001 * exp(uniform(m) * 5),
                                    .at_end = uniform(m) < 0.3};
        if (m->ops_max && uniform(m) < 0.2) m->s[node].spike = 0.05;
        if (m->ops_max && uniform(m) < 0.2) m->s[node].later = uniform(m) < 0.5 ? 3 : 0.3;
        struct sk_node_desc d = {.cpu_e4 = uniform(m) < 0.8 ? 10000 : 5000,
                                 .batch_rows = uniform(m) < 0.3 ? (int64_t)(uniform(m) * 30) : 0};
        if (gpus && uniform(m) < 0.4) d.gpu_e4 = uniform(m) < 0.7 ? 10000 : 5000;
        if (uniform(m) < (d.gpu_e4 ? 0.6 : 0.3) && (actors_cpu < 2 || d.gpu_e4)) {
            d.pool_min = 1;
            d.pool_max = 1 + (uint32_t)(uniform(m) * 3);
            if (d.gpu_e4 == 5000 && d.pool_max > 1) d.pool_min = 2; /* all of the one GPU */
            d.cpu_e4 = 10000;
            actors_cpu++;
        } else if (uniform(m) < (d.gpu_e4 ? 0.3 : 0.1)) {
            d.max_tasks = 1 + (uint32_t)(uniform(m) * 3);
        }
        at_node = add(
            m,
            uniform(m) < 0.3 && m->s[node].times == 1 && m->s[node].of == 1 ? &MAP : &MAP_BATCHES,
            d, &at_node, 1);
    }
    m->rng = keep;
    return at_node;
}

static void setup(struct sim *m, uint64_t timing, double memory_rows) {
    *m = (struct sim){.rng = timing, .sigma = 1};
    m->conf = (struct sk_step_conf){.memory_bytes = (uint64_t)(memory_rows * ROW_BYTES),
                                    .target_min_bytes = 4 * ROW_BYTES,
                                    .target_max_bytes = 16 * ROW_BYTES,
                                    .preserve_order = true,
                                    .cpu_e4 = 40000,
                                    .gpu_e4 = 10000};
    m->sigma = uniform(m) * 1.2;
    m->pause = uniform(m) < 0.4 ? uniform(m) * 0.05 : 0;
    m->deaths = uniform(m) < 0.4 ? 0.2 : 0;
    m->actor_deaths = uniform(m) < 0.3 ? 0.1 : 0;
    m->again = uniform(m) < 0.2 ? 0.3 : 0;
    m->conf.cpu_limited = uniform(m) < 0.2; /* true: the limit on CPUs is never exceeded */
    m->conf.gpu_limited = uniform(m) < 0.2;
    m->conf.consumer_blocks = uniform(m) < 0.3 ? 1 + (uint32_t)(uniform(m) * 4) : 0;
    m->told = m->conf.moves = true;
    m->store_bytes = uniform(m) < 0.3 ? m->conf.memory_bytes + m->conf.memory_bytes / 15 : 0;
}

static int by_row(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static void check_rows(struct sim *m, uint32_t root) {
    struct rows want = {0};
    model(m, root, &want);
    if (m->any_order || m->lost > 0) {
        qsort(want.p, want.n, sizeof *want.p, by_row);
        qsort(m->rows.p, m->rows.n, sizeof *m->rows.p, by_row);
    }
    if (m->lost > 0) { /* with skipped tasks some rows are missing, and no other rows exist */
        for (uint32_t i = 0, k = 0; i < m->rows.n; i++, k++) {
            while (k < want.n && want.p[k] < m->rows.p[i]) k++;
            CHECK(k < want.n && want.p[k] == m->rows.p[i]);
        }
        sk_vec_free(&want);
        return;
    }
    CHECK_EQ(m->rows.n, want.n);
    CHECK_MEM_EQ(m->rows.p, want.p, want.n * sizeof *want.p);
    sk_vec_free(&want);
}

/* the policy for which the limits on memory are checked */
static const char STAYS[] = "downstream";

static unsigned n_policies(void) {
    unsigned n = 0;
    while (sk_policy_name(n)) n++;
    return n;
}

static double worst; /* memory over the limit, in tasks */

static void one_random(uint64_t shape, bool exact) {
    struct sim *a = sk_alloc(TAG, sizeof *a), *b = sk_alloc(TAG, sizeof *b);
    const double memory[] = {1e5, 40, 200, 20, 1000};
    for (uint32_t k = 0; k < 3; k++) {
        struct sim *m = k ? b : a;
        setup(m, sk_rand_mix(shape * 3 + k), memory[sk_rand_mix(shape + k) % SK_COUNT(memory)]);
        uint32_t root = random_plan(m, shape, exact);
        if (m->exchanges) {
            uint32_t which = (uint32_t)(sk_rand_mix(shape * 5 + k) % 12);
            sk_told_init(&m->outside, "outside", outside_woken, m);
            m->gathers =
                sk_shuffle_gathers(sk_shuffle_name(which) ? sk_shuffle_find(sk_shuffle_name(which))
                                   : which == 11          ? &m->outside.ops
                                                          : &MOODY);
            m->conf.gathers = &m->gathers;
            /* an exchange may be told that what waits can go to disk */
            m->conf.moves = m->told = m->store_bytes > 0;
            m->any_order = !m->limits && sk_rand_mix(shape + 7) % 4 == 0;
            m->conf.preserve_order = !m->any_order;
            m->lost = !m->limits && !m->zips && sk_rand_mix(shape + 9) % 5 == 0 ? 0.1 : 0;
        }
        if (getenv("SIM_VERBOSE")) {
            char text[4000];
            sk_plan_explain(m->plan, root, text, sizeof text);
            fprintf(stderr, "%s# memory %llu\n", text, (unsigned long long)m->conf.memory_bytes);
        }
        bool other = k == 2 && sk_rand_mix(shape) % 2 == 0;
        run(m, root,
            other ? sk_policy_name((unsigned)(sk_rand_mix(shape) / 2 % n_policies())) : STAYS);
        check_rows(m, root);
        /* Where sizes repeat: one surprise for each stage, its first task. Where they vary at
         * random: what can be in flight. */
        uint64_t most = m->max_task * (exact ? m->st.n : m->max_flying + m->st.n);
        if (m->exchanges)
            /* a value of which tasks have parts is not freed; one partition may be the whole
             * value */
            most += m->store_bytes + m->max_input;
        if (other || (m->exchanges && !m->store_bytes))
            /* these policies may promise more than exists; the packs for which an exchange waits
             * have to be stored */
            most = UINT64_MAX;
        CHECK_MSG(m->max_over <= most, "memory %llu over %llu; largest task %llu, forced %llu",
                  (unsigned long long)m->max_over, (unsigned long long)m->conf.memory_bytes,
                  (unsigned long long)m->max_task, (unsigned long long)m->x->n_forced);
        if (!other)
            worst = SK_MAX(worst, m->max_task ? (double)m->max_over / (double)m->max_task : 0);
        finish(m);
        if (!k) continue;
        if (m->by_size || m->any_order || m->lost > 0) a->sizes.n = b->sizes.n = 0;
        /* another timing, memory size or policy must give the same blocks */
        CHECK_EQ(a->sizes.n, b->sizes.n);
        if (a->sizes.n) CHECK_MEM_EQ(a->sizes.p, b->sizes.p, a->sizes.n * sizeof *a->sizes.p);
        sk_vec_free(&b->rows);
        sk_vec_free(&b->sizes);
    }
    sk_vec_free(&a->rows);
    sk_vec_free(&a->sizes);
    sk_free(a);
    sk_free(b);
}

static void many_random(bool exact, int n) {
    uint64_t seed = getenv("SIM_SHAPE") ? strtoull(getenv("SIM_SHAPE"), NULL, 0) : 0;
    if (seed) {
        one_random(seed, exact);
        return;
    }
    for (int i = 0; i < n; i++) {
        uint64_t shape = test_rand() | 1;
        if (getenv("SIM_VERBOSE")) fprintf(stderr, "SIM_SHAPE=%llu\n", (unsigned long long)shape);
        one_random(shape, exact);
    }
    printf("# memory over the limit at worst: %.2f times the largest task's output\n", worst);
}

TEST_SLOW(random_pipelines, 300) { many_random(false, test_rounds(test_sanitized() ? 100 : 250)); }

TEST_SLOW(random_pipelines_exact_sizes, 300) {
    many_random(true, test_rounds(test_sanitized() ? 50 : 125));
}

/* ---- policies -------------------------------------------------------------------------------- */

/* Returns a lower bound of the run's time, by the work of the CPUs, of the GPUs, of each pool, and
 * by the longest task. */
static double lower_bound(const struct sim *m) {
    double cpu = 0, gpu = 0, most = m->longest;
    for (uint32_t i = 0; i < m->st.n; i++) {
        const struct sk_sstage *s = &m->x->s[i];
        cpu += m->work[i] * (double)s->cpu_e4;
        gpu += m->work[i] * (double)s->gpu_e4;
        if (s->kind == SK_STAGE_ACTORS) most = SK_MAX(most, m->work[i] / s->pool_max);
        if (s->kind == SK_STAGE_TASKS && s->max_tasks)
            most = SK_MAX(most, m->work[i] / s->max_tasks);
    }
    if (gpu > 0) most = SK_MAX(most, gpu / (double)m->conf.gpu_e4);
    return SK_MAX(most, cpu / (double)m->conf.cpu_e4);
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* Compares policies by makespan / lower bound: pipelines of 1 to 14 operators with varying times,
 * with spikes and changes half-way, in three sizes of memory. */
TEST_SLOW(policies_compared, 600) {
    static const double ROWS[] = {40, 200, 1e5};
    enum { N = 100 };
    static double ratio[N];
    int n = test_sanitized() ? 10 : SK_MIN(N, test_rounds(20));
    uint64_t first = test_rand();
    for (uint32_t r = 0; r < SK_COUNT(ROWS); r++)
        for (unsigned k = 0; sk_policy_name(k); k++) {
            double sum = 0, peak = 0;
            for (int i = 0; i < n; i++) {
                struct sim *m = sk_alloc(TAG, sizeof *m);
                uint64_t shape = sk_rand_mix(first + (uint64_t)i);
                setup(m, shape, ROWS[r]);
                m->pause = m->deaths = m->actor_deaths = m->again = 0;
                m->conf.cpu_limited = m->conf.gpu_limited = false;
                m->conf.consumer_blocks = 0;
                m->ops_max = 14;
                run(m, random_plan(m, shape, false), sk_policy_name(k));
                double bound = lower_bound(m);
                CHECK_MSG(bound <= m->now * 1.000001,
                          "SIM_SHAPE %llu: %g s are less than the bound %g",
                          (unsigned long long)shape, m->now, bound);
                ratio[i] = bound > 0 ? m->now / bound : 1;
                sum += log(ratio[i]);
                peak += (double)m->peak / (double)m->conf.memory_bytes;
                finish(m);
                sk_vec_free(&m->rows);
                sk_vec_free(&m->sizes);
                sk_free(m);
            }
            qsort(ratio, (size_t)n, sizeof *ratio, by_value);
            printf("# %6.0f rows of memory, %-11s: %.3f mean, %.3f median, %.3f 95 %%, %.2f worst; "
                   "peak %.2f of memory\n",
                   ROWS[r], sk_policy_name(k), exp(sum / n), ratio[n / 2], ratio[n * 95 / 100],
                   ratio[n - 1], peak / n);
        }
}

/* ---- how far a run is, and the time left ------------------------------------------------------
 */

enum way { FAST_SLOW, SLOW_FAST, POOL, HALF, CONSUMER, FILTER, GROW, LARGE, WAYS };
static const char *const WAY[] = {"slow behind fast", "fast behind slow", "pool",  "limit",
                                  "slow consumer",    "filter",           "grows", "large units"};

/* A source of 200 tasks of 16 rows, and behind it what `way` says. LARGE: the units of the second
 * half are four times as large, which their sizes say. */
static uint32_t known_plan(struct sim *m, enum way way) {
    struct sk_unit units[200];
    for (uint32_t i = 0; i < SK_COUNT(units); i++) {
        m->unit_rows[i] = way == LARGE && i >= 100 ? 64 : 16;
        units[i] =
            (struct sk_unit){{"", 0}, -1, way == LARGE ? (int64_t)m->unit_rows[i] * ROW_BYTES : -1};
    }
    double first[WAYS] = {0.1, 1, 0.1, 1, 0.1, 0.5, 0.5},
           second[WAYS] = {1, 0.1, 0.3, 0, 0, 1, 0.3};
    CHECK_OK(sk_plan_create(&m->plan, NULL));
    m->s[0] = (struct stage){.times = way == GROW ? 4 : 1, .of = 1, .sec = first[way]};
    if (way == FILTER) m->s[0].of = 16;
    if (way == LARGE) m->s[0].sec_row = 0.05;
    uint32_t root = add(
        m, &READ, (struct sk_node_desc){.units = units, .n_units = 200, .cpu_e4 = 10000}, NULL, 0);
    if (way == CONSUMER) m->pause = 0.2;
    if (way == HALF) return add(m, &LIMIT, (struct sk_node_desc){.limit = 1600}, &root, 1);
    if (second[way] <= 0) return root;
    m->s[1] = (struct stage){.times = 1, .of = 1, .sec = second[way]};
    struct sk_node_desc d = {.cpu_e4 = 10000, .max_tasks = 100};
    if (way == POOL) d = (struct sk_node_desc){.cpu_e4 = 10000, .pool_min = 2, .pool_max = 2};
    return add(m, &MAP_BATCHES, d, &root, 1);
}

/* The predicted total of runs whose tasks take 0.7 to 1.4 of their mean time: within 2x
 * (usually 1.2x) from a tenth of the time on. Nothing else loads the simulated machine. */
TEST_SLOW(time_left_of_known_runs, 60) {
    for (unsigned k = 0; sk_policy_name(k); k++)
        for (uint32_t way = 0; way < WAYS; way++) {
            struct sim *m = sk_alloc(TAG, sizeof *m);
            *m = (struct sim){.rng = test_rand(), .sigma = 0.2};
            m->conf = (struct sk_step_conf){.memory_bytes = 1000 * ROW_BYTES,
                                            .target_min_bytes = 4 * ROW_BYTES,
                                            .target_max_bytes = 16 * ROW_BYTES,
                                            .preserve_order = true,
                                            .cpu_e4 = 40000};
            run(m, known_plan(m, way), sk_policy_name(k));
            double off = 1, back = 0, most = 0;
            uint32_t n = 0;
            for (uint32_t i = 0; i < m->looks.n; i++) {
                const struct look *l = &m->looks.p[i];
                if (l->left < 0 || l->now < m->now / 10) continue;
                double total = l->now + l->left;
                off = SK_MAX(off, SK_MAX(total / m->now, m->now / total));
                back = SK_MAX(back, most - l->share);
                most = SK_MAX(most, l->share);
                n++;
            }
            printf("# %-11s, %-16s: %5.1f s, predicted total at most %.2fx off, share back by at "
                   "most %.2f\n",
                   sk_policy_name(k), WAY[way], m->now, off, back);
            CHECK_GT(n, 10);
            CHECK_MSG(off < 2 && back < 0.2, "%s: %.2fx off, back by %.2f", WAY[way], off, back);
            finish(m);
            sk_vec_free(&m->rows);
            sk_vec_free(&m->sizes);
            sk_free(m);
        }
}

/* ---- more data than memory ------------------------------------------------------------------- */

struct beyond {
    double sec, spilled, peak; /* peak, spilled: as multiples of the memory */
    uint64_t launched, forced;
};

/* Two source tasks yield `times` the memory in total, ten times faster than two operators behind
 * them consume it; the store spills blocks that do not fit. */
static struct beyond beyond(double times, const char *policy, bool told) {
    enum { BLOCKS = 25, ROWS = 16 }; /* BLOCKS: blocks that fit memory; ROWS: rows of a block */
    struct sim *m = sk_alloc(TAG, sizeof *m);
    *m = (struct sim){.rng = 1, .sigma = 0.5, .told = told};
    m->conf = (struct sk_step_conf){.memory_bytes = BLOCKS * ROWS * ROW_BYTES,
                                    .target_min_bytes = 4 * ROW_BYTES,
                                    .target_max_bytes = ROWS * ROW_BYTES,
                                    .preserve_order = true,
                                    .moves = told,
                                    .cpu_e4 = 80000};
    m->store_bytes = m->conf.memory_bytes + m->conf.memory_bytes / 15;
    uint64_t rows = (uint64_t)(times * BLOCKS * ROWS);
    CHECK_OK(sk_plan_create(&m->plan, NULL));
    struct sk_unit units[2] = {{{"", 0}, -1, -1}, {{"", 0}, -1, -1}};
    m->unit_rows[0] = m->unit_rows[1] = rows / 2;
    uint32_t root =
        add(m, &READ,
            (struct sk_node_desc){.units = units, .n_units = 2, .cpu_e4 = 10000, .max_tasks = 2},
            NULL, 0);
    m->s[0] = (struct stage){.times = 1, .of = 1, .sec = 0.01 * (double)rows / 2 / ROWS};
    for (uint32_t i = 1; i <= 2; i++) {
        root = add(m, &MAP_BATCHES, (struct sk_node_desc){.cpu_e4 = 10000, .max_tasks = 100 + i},
                   &root, 1);
        m->s[i] = (struct stage){.times = 1, .of = 1, .sec = 0.2};
    }
    run(m, root, policy);
    check_rows(m, root);
    double memory = (double)m->conf.memory_bytes;
    struct beyond r = {m->now, (double)m->spilled / memory, (double)m->peak_resident / memory,
                       m->n_launched, m->x->n_forced};
    CHECK_EQ(m->x->mem.disk, 0);
    finish(m);
    CHECK_EQ(m->resident, 0);
    sk_vec_free(&m->rows);
    sk_vec_free(&m->sizes);
    sk_free(m);
    return r;
}

TEST_SLOW(data_beyond_memory, 120) {
    static const double TIMES[] = {0.5, 1, 4, 20};
    for (unsigned k = 0; sk_policy_name(k); k++)
        for (uint32_t i = 0; i < SK_COUNT(TIMES); i++) {
            struct beyond no = beyond(TIMES[i], sk_policy_name(k), false),
                          yes = beyond(TIMES[i], sk_policy_name(k), true);
            printf("# %-11s, data of %4.1f memories, not told / told of what is on disk: %5.1f / "
                   "%5.1f s, forced %llu / %llu of %llu "
                   "launches, "
                   "spilled %.1f / %.1f, peak %.2f / %.2f memories\n",
                   sk_policy_name(k), TIMES[i], no.sec, yes.sec, (unsigned long long)no.forced,
                   (unsigned long long)yes.forced, (unsigned long long)yes.launched, no.spilled,
                   yes.spilled, no.peak, yes.peak);
            CHECK_LE(yes.forced, no.forced);
            if (sk_policy_find(sk_policy_name(k))->default_where)
                CHECK_LE(yes.forced, yes.launched / 10);
        }
}

/* A run of an exchange of `times` the memory: all packs wait, in memory and on disk, before the
 * first reduce. Returns the node of the exchange. */
static uint32_t exchange_plan(struct sim *m, double times, const char *strategy) {
    enum { BLOCKS = 25, ROWS = 16, MOST = 1024 };
    m->conf = (struct sk_step_conf){.memory_bytes = BLOCKS * ROWS * ROW_BYTES,
                                    .target_min_bytes = 4 * ROW_BYTES,
                                    .target_max_bytes = ROWS * ROW_BYTES,
                                    .preserve_order = true,
                                    .moves = true,
                                    .cpu_e4 = 80000};
    m->store_bytes = m->conf.store_bytes = m->conf.memory_bytes + m->conf.memory_bytes / 15;
    struct sk_unit units[MOST];
    uint32_t n = (uint32_t)(times * BLOCKS);
    CHECK(n <= SK_COUNT(units));
    for (uint32_t i = 0; i < n; i++) {
        units[i] = (struct sk_unit){{"", 0}, -1, -1};
        m->unit_rows[i] = ROWS;
    }
    CHECK_OK(sk_plan_create(&m->plan, NULL));
    m->s[0] = m->s[1] = m->s[2] =
        (struct stage){.times = 1, .of = 1, .sec = 0.05, .pack = PARTS, .keys = 96};
    m->s[3] = m->s[2];
    m->gathers = sk_shuffle_gathers(sk_shuffle_find(strategy));
    m->conf.gathers = &m->gathers;
    uint32_t root = add(
        m, &READ, (struct sk_node_desc){.units = units, .n_units = n, .cpu_e4 = 10000}, NULL, 0);
    root = add(m, &MAP_PACKS, (struct sk_node_desc){.cpu_e4 = 10000}, &root, 1);
    if (sk_shuffle_find(strategy)->merges)
        root = add(m, &MERGE, (struct sk_node_desc){.cpu_e4 = 10000}, &root, 1);
    return add(m, &EXCHANGE, (struct sk_node_desc){.cpu_e4 = 10000}, &root, 1);
}

static struct beyond beyond_exchange(double times, const char *policy, const char *strategy) {
    struct sim *m = sk_alloc(TAG, sizeof *m);
    *m = (struct sim){.rng = 1, .sigma = 0.5, .told = true};
    uint32_t root = exchange_plan(m, times, strategy);
    run(m, root, policy);
    check_rows(m, root);
    double memory = (double)m->conf.memory_bytes;
    struct beyond r = {m->now, (double)m->spilled / memory, (double)m->peak_resident / memory,
                       m->n_launched, m->x->n_forced};
    finish(m);
    CHECK_EQ(m->resident, 0);
    sk_vec_free(&m->rows);
    sk_vec_free(&m->sizes);
    sk_free(m);
    return r;
}

TEST_LARGE(exchanges_beyond_memory, 120) {
    static const double TIMES[] = {0.5, 4, 20};
    for (unsigned k = 0; sk_policy_name(k); k++)
        for (uint32_t i = 0; i < SK_COUNT(TIMES); i++) {
            bool usual = sk_policy_find(sk_policy_name(k))->default_where;
            for (unsigned w = 0; sk_shuffle_name(w); w++) {
                const char *name = sk_shuffle_name(w);
                if (!usual && strcmp(name, "grouped") != 0 && strcmp(name, "index") != 0) continue;
                struct beyond r = beyond_exchange(TIMES[i], sk_policy_name(k), name);
                printf("# %-11s, %-9s, data of %4.1f memories: %5.1f s, forced %llu of %llu "
                       "launches, spilled %.1f, peak %.2f memories\n",
                       sk_policy_name(k), name, TIMES[i], r.sec, (unsigned long long)r.forced,
                       (unsigned long long)r.launched, r.spilled, r.peak);
                if (!usual) continue;
                CHECK_LE(r.forced, r.launched / 10 + 1);
                CHECK(r.peak < 1.2);
            }
        }
}

/* The time left of exchanges that spill: each row takes as long to reduce as five times its
 * packing, and one disk reads what was spilled. How many reduces have room at once, and what they
 * read, is known before they begin. */
TEST_SLOW(time_left_of_exchanges_beyond_memory, 120) {
    static const double TIMES[] = {4, 17, 30}, ROW_S = 8e-5;
    static const char *const BY[] = {"grouped", "index", "push"};
    for (unsigned k = 0; sk_policy_name(k); k++)
        for (uint32_t i = 0; i < SK_COUNT(TIMES) * SK_COUNT(BY); i++) {
            if (!sk_policy_find(sk_policy_name(k))->default_where) continue;
            struct sim *m = sk_alloc(TAG, sizeof *m);
            const char *by = BY[i % SK_COUNT(BY)];
            double times = TIMES[i / SK_COUNT(BY)];
            *m = (struct sim){.rng = test_rand(), .sigma = 0.2, .told = true, .one_disk = true};
            m->pack_row = ROW_S;
            uint32_t root = exchange_plan(m, times, by);
            m->s[root] = (struct stage){
                .times = 1, .of = 1, .sec_row = 5 * ROW_S, .pack = PARTS, .keys = m->s[root].keys};
            run(m, root, sk_policy_name(k));
            double off = 1, most = 1;
            uint32_t n = 0;
            for (uint32_t j = 0; j < m->looks.n; j++) {
                const struct look *l = &m->looks.p[j];
                if (l->left < 0 || l->guess || l->now < m->now / 10) continue;
                double total = l->now + l->left, real = m->now - l->now, left = l->left;
                off = SK_MAX(off, SK_MAX(total / m->now, m->now / total));
                if (real > m->now / 20) most = SK_MAX(most, SK_MAX(left / real, real / left));
                n++;
            }
            printf("# %-11s, %-8s, %4.1f memories: %5.1f s, predicted total at most %.2fx off, "
                   "time left %.2fx\n",
                   sk_policy_name(k), by, times, m->now, off, most);
            CHECK_GT(n, 10);
            CHECK_MSG(off < 2 && most < 2, "%s, %g memories: %.2fx off, time left %.2fx", by, times,
                      off, most);
            finish(m);
            sk_vec_free(&m->rows);
            sk_vec_free(&m->sizes);
            sk_free(m);
        }
}

/* ---- Fig. 9 ---------------------------------------------------------------------------------- */

static double fig9(bool order, uint32_t frames, double sigma, uint64_t seed, const char *policy,
                   bool est, uint64_t *peak, double *work) {
    struct sim *m = sk_alloc(TAG, sizeof *m);
    const uint64_t frame = 100u << 20;
    *m = (struct sim){.rng = seed, .sigma = sigma};
    m->conf = (struct sk_step_conf){.memory_bytes = frames * frame,
                                    .target_min_bytes = 1 << 20,
                                    .target_max_bytes = 128u << 20,
                                    .preserve_order = order,
                                    .cpu_e4 = 80000,
                                    .gpu_e4 = 40000};
    CHECK_OK(sk_plan_create(&m->plan, NULL));
    struct sk_unit units[160];
    for (uint32_t i = 0; i < 160; i++) {
        units[i] = (struct sk_unit){{"", 0}, -1, est ? (int64_t)(5 * frame) : -1};
        m->unit_rows[i] = 5;
    }
    uint32_t at_node = add(
        m, &READ,
        (struct sk_node_desc){.units = units, .n_units = 160, .cpu_e4 = 10000, .max_tasks = 160},
        NULL, 0);
    m->s[0] = (struct stage){
        .times = 1, .of = 1, .sec = 5, .at_end = true, .frame = frame, .block_rows = 1};
    /* max_tasks differs: not fused */
    at_node = add(m, &MAP_BATCHES, (struct sk_node_desc){.cpu_e4 = 10000}, &at_node, 1);
    m->s[1] = (struct stage){
        .times = 1, .of = 1, .sec = 0.5, .at_end = true, .frame = frame, .block_rows = 1};
    at_node = add(m, &MAP_BATCHES, (struct sk_node_desc){.gpu_e4 = 10000}, &at_node, 1);
    m->s[2] = (struct stage){.times = 0, .of = 1, .sec = 0.5};
    run(m, at_node, policy);
    CHECK_EQ(m->st.n, 3);
    double t = m->now;
    *peak = m->peak / frame;
    *work = m->busy_cpu / 8;
    finish(m);
    sk_vec_free(&m->rows);
    sk_vec_free(&m->sizes);
    sk_free(m);
    return t;
}

TEST_LARGE(fig9_of_the_streaming_batch_paper, 300) {
    static const struct {
        uint32_t m;
        double des, bound;
    } ROW[] = {{7, 1040, 800},   {10, 960, 800}, {20, 351, 267},  {30, 211, 160},  {40, 175, 150},
               {60, 154.5, 150}, {80, 153, 150}, {100, 153, 150}, {160, 153, 150}, {400, 153, 150}};
    static const char *const DEFAULT[] = {STAYS, "adaptive"};
    printf("# Fig. 9: 8 CPU, 4 GPU, 160 loads x 5 s -> 5 frames; seconds (peak frames), sizes "
           "known\n#    M | bound | DES down-first H=1 | "
           "sizes unknown");
    for (unsigned k = 0; sk_policy_name(k); k++) printf(" | %s", sk_policy_name(k));
    printf("\n");
    for (uint32_t i = 0; i < SK_COUNT(ROW); i += test_sanitized() ? 4 : 1) {
        uint64_t peak;
        double work;
        printf("# %4u | %5.0f | %18.1f | %13.1f", ROW[i].m, ROW[i].bound, ROW[i].des,
               fig9(true, ROW[i].m, 0, 1, STAYS, false, &peak, &work));
        for (unsigned k = 0; sk_policy_name(k); k++) {
            double t = fig9(true, ROW[i].m, 0, 1, sk_policy_name(k), true, &peak, &work);
            printf(" | %6.1f (%llu)", t, (unsigned long long)peak);
            if (strcmp(sk_policy_name(k), STAYS) != 0) continue;
            CHECK_MSG(t <= ROW[i].des * 1.03, "M=%u: %g s, the simulation of the design has %g",
                      ROW[i].m, t, ROW[i].des);
            CHECK_LE(peak, ROW[i].m);
        }
        printf("\n");
    }
    const uint64_t seeds = test_sanitized() ? 1 : (uint64_t)test_rounds(1);
    printf("# lognormal durations, makespan / (CPU work / 8), mean of %llu seeds (largest peak, "
           "frames)\n",
           (unsigned long long)seeds);
    static const double SIGMA[] = {0.3, 1.0};
    static const uint32_t M[] = {10, 20, 30, 40, 60, 160};
    for (uint32_t s = 0; s < SK_COUNT(SIGMA); s++)
        for (uint32_t i = 0; i < SK_COUNT(M); i++) {
            printf("# sigma %.1f M %3u:", SIGMA[s], M[i]);
            for (uint32_t k = 0; k < 2; k++)
                for (int order = 0; order < 2; order++) {
                    double sum = 0, work;
                    uint64_t peak, most = 0;
                    for (uint64_t seed = 1; seed <= seeds; seed++) {
                        sum += fig9(order, M[i], SIGMA[s], seed, DEFAULT[k], true, &peak, &work) /
                               work;
                        most = SK_MAX(most, peak);
                    }
                    printf("%s %s, %s %.3f (%llu)", k || order ? ";" : "", DEFAULT[k],
                           order ? "order kept" : "any order", sum / (double)seeds,
                           (unsigned long long)most);
                }
            printf("\n");
        }
}
