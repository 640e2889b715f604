/* scale.c - see scale.h. A task is a row of phases, each one or more flows of the cluster:
 *
 *     map:    read input ─ compute ─ for each value: take room, keep it, tell the driver
 *     merge:  take room ─ fetch what it merges ─ compute ─ values as above
 *     reduce: take room ─ fetch its parts, from all nodes at once ─ compute and write, side by side
 *
 * Where a task runs: a map on the node of its input (S3: on the node with the fewest tasks); a
 * merge of PUSH on the node of its partitions; others on a node with half of their input, or with
 * the fewest tasks. Each node has a number of slots for each kind of task; a task without a slot
 * waits in the node's queue. */
#include "sim/cluster/scale.h"

#include <stdlib.h>
#include <string.h>

#include "base/rand.h"
#include "exec/exec_int.h"
#include "shuffle/exchange.h"
#include "shuffle/pack.h"

#define TAG SK_TAG_EXEC
#define PIECE 33554432.0 /* bytes of a flow's pieces */

enum kind { MAP, MERGE, REDUCE, KINDS };
#define PIECES 16.0 /* of a flow, at most */
/* first id of the values that reduces yield, which are written already */
#define REPORT (UINT64_C(1) << 40)

struct value { /* a value, which has the same number as an object of exec and in the cluster */
    uint32_t refs;
    bool of_map;
    /* weight: real values for which it stands; entries: reduces that have parts of each */
    double weight, entries;
};

struct stask {
    struct scale *s;
    struct stask *next; /* the next task in the node's queue */
    uint64_t id;        /* of exec */
    enum kind kind;
    /* first, n_parts: partitions of a merge by a strategy */
    uint32_t node, phase, pending, n_out, next_out, range, merged, first, n_parts;
    uint64_t taken, in_bytes;
    double slow, weight, entries; /* of its values */
};

struct word { /* to the driver */
    struct stask *k;
    uint32_t value; /* 0: the task is over */
    uint64_t bytes;
};

struct from { /* the bytes that a task fetches from a node */
    double memory, disk, parts;
};

struct scale {
    struct sk_scale_conf c;
    struct sk_cluster *cl;
    struct sk_plan *plan;
    struct sk_stages st;
    struct sk_step *x;
    uint32_t maps, reduces, factor, ranges, nodes, a_value,
        /* simulated; ranges: of reduces, each on a node; a_value: reduces that share a value of a
         * merge */
        slots[KINDS];
    struct sk_shuffle_ops pushes; /* what merges on nodes are to it */
    struct sk_gathers gathers;
    /* merges: the plan has a stage of merges; own: the strategy decides which packs are merged */
    bool merges, own;
    uint64_t part64; /* bytes of a map's output for one reduce, in units of 64 */
    struct sk_pool tasks, words;
    struct queue {
        struct stask *head, *tail;
        uint32_t running, known; /* running: running tasks; known: these and waiting ones */
    } *queue[KINDS];             /* [nodes] */
    uint32_t turn;
    SK_VEC(struct value) values;
    SK_VEC(uint64_t) kept; /* merged map output of PUSH, from n_gone on */
    uint32_t n_gone;
    struct from *from;
    struct sk_pack_note *note;
    struct sk_rand rng;
    struct sk_scale_result r;
    double values_bytes, parts_now, tasks_now;
    uint64_t n_reports, reduced;
    sk_rc rc;
    struct sk_err err;
};

static double uniform(struct scale *s) {
    return (double)(sk_rand_next(&s->rng) >> 11) / 9007199254740992.0;
}
static int64_t ns(const struct scale *s) { return (int64_t)(sk_cl_now(s->cl) * 1e9); }

static void *need(void *p) {
    if (!p) abort(); /* a simulation without memory has no result */
    return p;
}

static void failed(struct scale *s, sk_rc rc, const struct sk_err *err) {
    if (s->rc != SK_OK || rc == SK_OK) return;
    s->rc = rc;
    if (err != &s->err) s->err = *err;
}

/* parts_weight: number of real parts for which one part of a simulated task's input stands;
 * tasks_weight likewise for tasks. */
static double parts_weight(const struct scale *s, enum kind kind) {
    double g = s->c.grain;
    return kind == REDUCE && s->c.way == SK_SCALE_DIRECT ? g * g : g;
}
static double tasks_weight(const struct scale *s, enum kind kind) {
    return kind == MERGE ? 1 : s->c.grain;
}

/* ---- exec's side ----------------------------------------------------------------------------- */

static void launch(struct scale *s, uint64_t id);

static void release(struct scale *s, uint64_t oid) {
    if (oid > REPORT) return;
    SK_ASSERT(s->values.p[oid].refs);
    if (--s->values.p[oid].refs) return;
    if (s->c.way == SK_SCALE_PUSH && s->values.p[oid].of_map) {
        if (!sk_vec_push(&s->kept, TAG, oid)) abort();
        if (s->kept.n - s->n_gone <= s->nodes * s->c.slots_map * s->ranges / s->c.grain) return;
        oid = s->kept.p[s->n_gone++];
    }
    const struct value *v = &s->values.p[oid];
    s->values_bytes -= v->weight * (s->c.value_bytes + v->entries * s->c.entry_bytes);
    sk_cl_drop(s->cl, (uint32_t)oid);
}

static void acts(struct scale *s) {
    for (uint32_t i = 0; i < s->x->acts.n; i++) {
        struct sk_act a = s->x->acts.p[i];
        if (a.kind == SK_ACT_LAUNCH) launch(s, a.id);
        else if (a.kind == SK_ACT_RELEASE) release(s, a.id);
        else if (a.kind == SK_ACT_ADDREF) s->values.p[a.id].refs++;
    }
    s->x->acts.n = 0;
    if (s->x->stalled)
        failed(s, SK_ERR(&s->err, SK_ESTALL, "the simulated run stalls at %g s", sk_cl_now(s->cl)),
               &s->err);
    double bytes =
        s->values_bytes + s->parts_now * s->c.part_bytes + s->tasks_now * s->c.task_bytes;
    s->r.driver_bytes = SK_MAX(s->r.driver_bytes, bytes);
}

static void tell(struct scale *s, const struct sk_step_ev *ev) {
    struct sk_err err = {0};
    struct sk_bref b;
    if (s->rc != SK_OK) return;
    failed(s, sk_step_event(s->x, ev, ns(s), &err), &err);
    acts(s);
    while (s->rc == SK_OK && sk_step_take(s->x, ns(s), &b, &err) == SK_OK) acts(s);
}

static void spilled(void *ctx, uint32_t object) {
    tell(ctx, &(struct sk_step_ev){.kind = SK_SEV_SPILLED, .block = {.oid = object}});
}

/* ---- what a task makes ----------------------------------------------------------------------- */

static void advance(struct stask *k);
static void start(struct scale *s, uint32_t node, enum kind kind);

/* Returns the number of partitions of the i-th value of k, from *first on; a map whose output is
 * merged has one part for each range. */
static uint32_t parts_of(const struct stask *k, uint32_t i, uint32_t *first, uint64_t *part64) {
    const struct scale *s = k->s;
    *part64 = s->part64;
    if (s->c.way == SK_SCALE_DIRECT) {
        uint32_t all = k->kind == MAP ? s->reduces : k->n_parts,
                 at = (uint32_t)((uint64_t)i * all / k->n_out);
        if (k->kind == MERGE) *part64 *= k->merged;
        *first = (k->kind == MAP ? 0 : k->first) + at;
        return (uint32_t)((uint64_t)(i + 1) * all / k->n_out) - at;
    }
    if (k->kind == MAP) {
        *first = i * s->a_value;
        *part64 *= s->reduces / s->ranges;
        return 1;
    }
    *first = (i * s->ranges + k->range) * s->a_value;
    *part64 *= k->merged;
    return s->a_value;
}

/* Tells the driver that the task is over. */
static void over(struct scale *s, struct stask *k) {
    if (k->kind != REDUCE) s->r.map_sec = sk_cl_now(s->cl);
    s->tasks_now -= tasks_weight(s, k->kind);
    if (k->kind == REDUCE) { /* a report, so that it has yielded something */
        uint64_t oid = REPORT + ++s->n_reports;
        tell(s, &(struct sk_step_ev){.kind = SK_SEV_YIELDED,
                                     .task = k->id,
                                     .block = {.oid = oid, .n_rows = 1, .bytes = 64},
                                     .cost = 64});
    }
    const struct sk_stask *t = sk_step_task(s->x, k->id);
    s->parts_now -= (t ? t->in.n : 0) * parts_weight(s, k->kind);
    tell(s, &(struct sk_step_ev){
                .kind = SK_SEV_DONE, .task = k->id, .run_ns = (int64_t)(k->slow * 1e9)});
    sk_pool_put(&s->tasks, k);
}

static void heard(void *ctx, void *arg) {
    struct scale *s = ctx;
    struct word w = *(struct word *)arg;
    sk_pool_put(&s->words, arg);
    if (!w.value) {
        over(s, w.k);
        return;
    }
    uint64_t part64;
    uint32_t first, i = (uint32_t)w.bytes, n = parts_of(w.k, i, &first, &part64);
    struct sk_pack_part *p = (void *)(s->note + 1);
    *s->note = (struct sk_pack_note){.magic = SK_PACK_NOTE,
                                     .kind = SK_PACK_PARTS,
                                     .first = first,
                                     .n = n,
                                     .rows = n,
                                     .bytes = n * part64 * 64};
    for (uint32_t j = 0; j < n; j++) p[j] = (struct sk_pack_part){(uint32_t)part64, 1};
    tell(s, &(struct sk_step_ev){.kind = SK_SEV_YIELDED,
                                 .task = w.k->id,
                                 .block = {.oid = w.value, .n_rows = n, .bytes = s->note->bytes},
                                 .cost = s->note->bytes,
                                 .node = w.k->node,
                                 .note = (const void *)s->note});
    /* it was there before the driver knew of it */
    if (s->values.p[w.value].refs && sk_cl_on_disk(s->cl, w.value)) spilled(s, w.value);
}

static void say(struct stask *k, uint32_t value, uint32_t i) {
    struct scale *s = k->s;
    struct word *w = need(sk_pool_get(&s->words));
    *w = (struct word){k, value, i};
    double sec = value ? s->c.value_s * k->weight : 0;
    sk_cl_begin(s->cl, &(struct sk_cl_flow){.hop = {{SK_CL_DRIVER, 0, sec}},
                                            .n_hops = 1,
                                            .pieces = 1,
                                            .window = 1,
                                            .done = heard,
                                            .arg = w});
}

/* Called when there is room for a task's next value. */
static void granted(void *ctx, void *arg) {
    struct scale *s = ctx;
    struct stask *k = arg;
    uint64_t part64;
    uint32_t first, n = parts_of(k, k->next_out, &first, &part64);
    uint64_t bytes = n * part64 * 64;
    /* small ones are written together */
    uint32_t o = sk_cl_keep(s->cl, k->node, bytes, (double)bytes / s->c.stretch_bytes);
    while (s->values.n <= o)
        if (!sk_vec_push(&s->values, TAG, (struct value){0})) abort();
    s->values.p[o] = (struct value){
        .refs = 1, .of_map = k->kind == MAP, .weight = k->weight, .entries = k->entries};
    s->values_bytes += k->weight * (s->c.value_bytes + k->entries * s->c.entry_bytes);
    s->r.values += k->weight;
    say(k, o, k->next_out++);
    advance(k);
}

/* Ends the task on its node, which frees its slot. */
static void finished(struct stask *k) {
    struct scale *s = k->s;
    struct queue *q = &s->queue[k->kind][k->node];
    uint32_t node = k->node;
    enum kind kind = k->kind;
    q->running--;
    q->known--;
    say(k, 0, 0);
    start(s, node, kind);
}

/* ---- what a task does ------------------------------------------------------------------------ */

static void one_done(void *ctx, void *arg) {
    struct stask *k = arg;
    (void)ctx;
    SK_ASSERT(k->pending);
    if (--k->pending == 0) advance(k);
}

static uint32_t side_by_side(const struct stask *k) { return k->kind == MERGE ? 1 : k->s->c.grain; }

static uint32_t pieces_of(double bytes) {
    return (uint32_t)SK_MIN(SK_MAX(bytes / PIECE, 1), PIECES);
}

static void flow(struct stask *k, double bytes, uint32_t window, const struct sk_cl_hop *hop,
                 uint32_t n) {
    /* hop.sec: of all its bytes */
    struct sk_cl_flow f = {.n_hops = n,
                           .pieces = pieces_of(bytes),
                           .window = window * side_by_side(k),
                           .done = one_done,
                           .arg = k};
    for (uint32_t i = 0; i < n; i++) {
        f.hop[i] = hop[i];
        f.hop[i].sec /= f.pieces;
    }
    k->pending++;
    sk_cl_begin(k->s->cl, &f);
}

static double core_s(const struct stask *k, double bytes, double a_byte) {
    return bytes * a_byte * k->slow;
}

static double stream_s(const struct scale *s, double bytes) {
    return sk_cl_disk_s(s->cl, bytes, bytes / s->c.stretch_bytes);
}

/* Returns the seconds of requests to S3 by the task's connections, which work side by side. */
static double s3_s(const struct scale *s, double bytes, double requests) {
    return (requests * s->c.s3_wait_s + bytes / s->c.s3_conn_bytes_s) / s->c.s3_threads /
           s->c.grain;
}

static void read_input(struct stask *k) {
    struct scale *s = k->s;
    double b = (double)k->in_bytes, n = b / s->c.s3_get_bytes, cpu = core_s(k, b, s->c.cpu_read);
    if (!s->c.s3) {
        flow(
            k, b, 2,
            (struct sk_cl_hop[]){{SK_CL_DISK, k->node, stream_s(s, b)}, {SK_CL_CORE, k->node, cpu}},
            2);
        return;
    }
    double wait = s3_s(s, b, n),
           service = s->c.cluster.s3_requests_s > 0 ? n / s->c.cluster.s3_requests_s : 0;
    s->r.gets += n;
    flow(k, b, 4,
         (struct sk_cl_hop[]){{SK_CL_S3, 0, service},
                              {SK_CL_WAIT, 0, wait * 4},
                              {SK_CL_NET_IN, k->node, sk_cl_net_s(s->cl, b)},
                              {SK_CL_CORE, k->node, cpu}},
         4);
}

static void write_output(struct stask *k) { /* and merge, piece by piece */
    struct scale *s = k->s;
    double b = (double)k->in_bytes, n = b / s->c.s3_put_bytes,
           cpu = core_s(k, b, s->c.cpu_reduce + s->c.cpu_write);
    if (!s->c.s3) {
        flow(
            k, b, 2,
            (struct sk_cl_hop[]){{SK_CL_CORE, k->node, cpu}, {SK_CL_DISK, k->node, stream_s(s, b)}},
            2);
        return;
    }
    double wait = s3_s(s, b, n),
           service = s->c.cluster.s3_requests_s > 0 ? n / s->c.cluster.s3_requests_s : 0;
    s->r.puts += n;
    flow(k, b, 4,
         (struct sk_cl_hop[]){{SK_CL_CORE, k->node, cpu},
                              {SK_CL_NET_OUT, k->node, sk_cl_net_s(s->cl, b)},
                              {SK_CL_S3, 0, service},
                              {SK_CL_WAIT, 0, wait * 4}},
         4);
}

/* Sums the task's input by the node that has it at present. */
static void look(struct scale *s, const struct stask *k) {
    const struct sk_stask *t = sk_step_task(s->x, k->id);
    memset(s->from, 0, s->nodes * sizeof *s->from);
    for (const struct sk_blk *b = t->in.head; b; b = b->next) {
        struct from *f = &s->from[sk_cl_home(s->cl, (uint32_t)b->ref.oid)];
        bool disk = sk_cl_on_disk(s->cl, (uint32_t)b->ref.oid);
        *(disk ? &f->disk : &f->memory) += (double)b->ref.bytes;
        f->parts += disk ? parts_weight(s, k->kind) : 0;
    }
}

static void fetch(struct stask *k) {
    struct scale *s = k->s;
    look(s, k);
    k->pending++; /* held until all flows have begun */
    for (uint32_t i = 0; i < s->nodes; i++) {
        const struct from *f = &s->from[i];
        bool here = i == k->node;
        double all = f->memory + f->disk,
               stretch = here ? s->c.stretch_bytes : s->c.part_stretch_bytes;
        struct sk_cl_hop net[3] = {
            {SK_CL_NET_OUT, i, 0}, {SK_CL_NET_IN, k->node, 0}, {SK_CL_CORE, k->node, 0}};
        if (!here) s->r.moved_bytes += all;
        for (uint32_t d = 0; d < 2; d++) { /* memory, disk */
            double b = d ? f->disk : f->memory;
            struct sk_cl_hop hop[4] = {
                {SK_CL_DISK, i,
                 sk_cl_disk_s(s->cl, b, b / stretch + f->parts * s->c.part_stretches)}};
            for (uint32_t h = 0; h < 3; h++) {
                hop[h + d] = net[h];
                hop[h + d].sec = h < 2 ? sk_cl_net_s(s->cl, b) : core_s(k, b, s->c.cpu_receive);
            }
            if (b <= 0 || (here && !d)) continue;
            flow(k, b, 2, hop, here ? 1 : 3 + d);
        }
    }
    one_done(s, k);
}

static void compute(struct stask *k) {
    const struct scale *s = k->s;
    double b = (double)k->in_bytes;
    flow(k, b, 1,
         (struct sk_cl_hop[]){
             {SK_CL_CORE, k->node, core_s(k, b, k->kind == MAP ? s->c.cpu_map : s->c.cpu_merge)}},
         1);
}

static void have_room(void *ctx, void *arg) {
    (void)ctx;
    fetch(arg);
}

/* Requests room for input that is not in this node's memory. */
static void ask_for_room(struct stask *k) {
    struct scale *s = k->s;
    look(s, k);
    double b = (double)k->in_bytes - s->from[k->node].memory;
    k->taken = (uint64_t)SK_MAX(b, 0);
    sk_cl_take(s->cl, k->node, k->taken, have_room, k);
}

static void advance(struct stask *k) {
    struct scale *s = k->s;
    switch (k->phase++) {
    case 0:
        if (k->kind == MAP) read_input(k);
        else ask_for_room(k);
        return;
    case 1:
        if (k->kind == REDUCE) write_output(k);
        else compute(k);
        return;
    default: break;
    }
    if (k->taken) sk_cl_give(s->cl, k->node, k->taken);
    k->taken = 0;
    if (k->next_out == k->n_out) {
        finished(k);
        return;
    }
    uint64_t part64;
    uint32_t first, n = parts_of(k, k->next_out, &first, &part64);
    sk_cl_take(s->cl, k->node, n * part64 * 64, granted, k);
}

/* ---- where a task runs ----------------------------------------------------------------------- */

static void start(struct scale *s, uint32_t node, enum kind kind) {
    struct queue *q = &s->queue[kind][node];
    while (q->head && q->running < s->slots[kind]) {
        struct stask *k = q->head;
        q->head = k->next;
        if (!q->head) q->tail = NULL;
        q->running++;
        advance(k);
    }
}

static uint32_t idlest(struct scale *s, enum kind kind) {
    uint32_t best = s->turn++ % s->nodes;
    for (uint32_t i = 0; i < s->nodes; i++)
        if (s->queue[kind][i].known < s->queue[kind][best].known) best = i;
    return best;
}

static uint32_t choose(struct scale *s, const struct stask *k) {
    const struct sk_stask *t = sk_step_task(s->x, k->id);
    if (k->kind == MAP) {
        if (s->c.s3) return idlest(s, MAP);
        return s->c.way == SK_SCALE_MERGE ? t->unit / s->factor % s->nodes : t->unit % s->nodes;
    }
    if (t->node != SK_ANY_NODE) return t->node;
    if (k->kind == MERGE && !s->own && s->c.way != SK_SCALE_MERGE) return k->range % s->nodes;
    look(s, k);
    /* a strategy for one machine may have put all next tasks on one node: other nodes take some of
     * them */
    for (uint32_t i = 0; i < s->nodes; i++)
        if (2 * (s->from[i].memory + s->from[i].disk) >= (double)k->in_bytes &&
            (!s->own || s->queue[k->kind][i].known < 2 * s->slots[k->kind]))
            return i;
    return idlest(s, k->kind);
}

static void placed(void *ctx, void *arg) { /* the driver has sent it */
    struct scale *s = ctx;
    struct stask *k = arg;
    SK_ASSERT(k->kind < KINDS);
    k->node = choose(s, k);
    struct queue *q = &s->queue[k->kind][k->node];
    k->next = NULL;
    if (q->tail) q->tail->next = k;
    else q->head = k;
    q->tail = k;
    q->known++;
    start(s, k->node, k->kind);
}

/* Decides in how many values the task's output is, and how many real values each stands for. */
static void plan_output(struct scale *s, struct stask *k, const struct sk_stask *t) {
    double g = s->c.grain;
    k->weight = 1;
    if (k->kind == MAP && s->c.way == SK_SCALE_DIRECT) {
        uint32_t asked = SK_MIN(s->c.values_a_map ? s->c.values_a_map : t->hint, s->c.reduces);
        /* at least as many values as their notes need */
        double real = SK_MAX(asked, (s->c.reduces + SK_PACK_PARTS_MAX - 1) / SK_PACK_PARTS_MAX);
        k->n_out = SK_MIN(asked, s->reduces);
        k->weight = real * g / k->n_out;
        k->entries = s->c.reduces / real;
    } else if (k->kind == MAP) {
        k->n_out = s->ranges;
        k->weight = g;
        k->entries = 1;
    } else if (k->kind == MERGE && s->own) {
        double real = t->hint;
        k->n_out = (uint32_t)SK_MIN(real, k->n_parts);
        uint32_t notes = (k->n_parts + SK_PACK_PARTS_MAX - 1) / SK_PACK_PARTS_MAX;
        real = SK_MAX(real, notes);
        k->weight = real / k->n_out;
        k->entries = k->n_parts / real;
    } else if (k->kind == MERGE) {
        k->n_out = s->reduces / s->ranges / s->a_value;
        k->weight = (double)s->c.reduces / s->ranges / SK_MAX(s->c.reduces_a_value, 1u) / k->n_out;
        k->entries = SK_MAX(s->c.reduces_a_value, 1u);
    }
}

static void launch(struct scale *s, uint64_t id) {
    struct sk_stask *t = sk_step_task(s->x, id);
    const struct sk_sstage *st = &s->x->s[t->stage];
    struct stask *k = need(sk_pool_get(&s->tasks));
    *k = (struct stask){.s = s,
                        .id = id,
                        .kind = !st->gather         ? MAP
                                : st->gather->parks ? REDUCE
                                                    : MERGE,
                        .slow = 0.95 + 0.1 * uniform(s)};
    double parts = t->in.n * parts_weight(s, k->kind), tasks = tasks_weight(s, k->kind);
    k->in_bytes = k->kind == MAP ? s->part64 * 64 * s->reduces : t->in.bytes;
    k->merged = t->in.n;
    if (k->kind == MERGE) {
        const struct sk_pack_task *of = sk_exchange_task(t->say);
        k->first = of->first;
        k->n_parts = of->end - of->first;
        k->range = of->first / (s->own ? k->n_parts : s->a_value);
        /* packs that have come back are of several maps */
        if (s->own) k->merged = (uint32_t)(t->in.bytes / (s->part64 * 64 * k->n_parts));
    }
    if (k->kind == REDUCE) {
        s->r.parts += parts;
        s->reduced += t->in.bytes;
    }
    plan_output(s, k, t);
    s->r.tasks += tasks;
    s->tasks_now += tasks;
    s->parts_now += parts;
    double sec = tasks * s->c.task_s + parts * s->c.part_s;
    sk_cl_begin(s->cl, &(struct sk_cl_flow){.hop = {{SK_CL_DRIVER, 0, sec}},
                                            .n_hops = 1,
                                            .pieces = 1,
                                            .window = 1,
                                            .done = placed,
                                            .arg = k});
}

/* ---- a run ----------------------------------------------------------------------------------- */

static const struct sk_op READ = {"read", SK_OP_SOURCE}, PACKS = {"map_packs", SK_OP_PACKS},
                          EXCHANGE = {"reduce", SK_OP_EXCHANGE},
                          MERGING = {"merge", SK_OP_PACKS | SK_OP_MERGE};

static sk_rc make_plan(struct scale *s, uint32_t *root, struct sk_err *err) {
    struct sk_unit *u = need(sk_calloc(TAG, s->maps * sizeof *u));
    for (uint32_t i = 0; i < s->maps; i++)
        u[i] = (struct sk_unit){{"", 0}, -1, (int64_t)(s->part64 * 64 * s->reduces)};
    struct sk_node_desc d = {.op = &READ,
                             .label = "read",
                             .cpu_e4 = SK_RES_UNIT,
                             .units = u,
                             .n_units = s->maps,
                             .max_tasks = s->slots[MAP] * s->nodes};
    sk_rc rc = sk_plan_create(&s->plan, err);
    if (rc == SK_OK) rc = sk_plan_add(s->plan, &d, root, err);
    sk_free(u);
    d = (struct sk_node_desc){.op = &PACKS,
                              .label = "map",
                              .cpu_e4 = SK_RES_UNIT,
                              .inputs = root,
                              .n_inputs = 1,
                              .max_tasks = d.max_tasks};
    if (rc == SK_OK) rc = sk_plan_add(s->plan, &d, root, err);
    d.op = &MERGING;
    d.label = "merge";
    d.max_tasks = s->slots[MERGE] * s->nodes;
    if (rc == SK_OK && s->merges) rc = sk_plan_add(s->plan, &d, root, err);
    d = (struct sk_node_desc){.op = &EXCHANGE,
                              .label = "reduce",
                              /* twice as many as there are slots wait at their nodes */
                              .cpu_e4 = SK_RES_UNIT / 2,
                              .inputs = root,
                              .n_inputs = 1,
                              .max_tasks = 2 * s->slots[REDUCE] * s->nodes};
    d.exchange.n_partitions = s->reduces;
    if (rc == SK_OK) rc = sk_plan_add(s->plan, &d, root, err);
    return rc == SK_OK ? sk_plan_stages(s->plan, *root, &s->st, err) : rc;
}

static sk_rc check(const struct sk_scale_conf *c, struct sk_err *err) {
    bool merges = c->way != SK_SCALE_DIRECT;
    uint32_t ranges = c->way >= SK_SCALE_PUSH ? c->cluster.n_nodes : 1, g = c->grain;
    if (!g || c->maps % g || c->reduces % g || !c->maps || !c->reduces || !c->cluster.n_nodes)
        return SK_ERR(err, SK_EINVAL, "%u maps and %u reduces are no multiples of %u", c->maps,
                      c->reduces, g);
    uint32_t a_value = merges ? SK_MAX(c->reduces_a_value * SK_MAX(c->bundle, 1u) / g, 1u) : 1;
    if (merges && (!c->factor || (c->factor % g && g % c->factor) || c->reduces / g % ranges ||
                   c->reduces / g / ranges % a_value))
        return SK_ERR(err, SK_EINVAL,
                      "merges of %u maps for %u nodes, %u reduces a value: they do not divide %u "
                      "reduces in grains of %u",
                      c->factor, ranges, a_value * g, c->reduces, g);
    const struct sk_shuffle_ops *own = merges ? NULL : sk_shuffle_find(c->strategy);
    if (own && own->merges && g > 1)
        return SK_ERR(err, SK_EINVAL, "%s decides what is merged by sizes: it runs in grains of 1",
                      own->name);
    return !merges && !own ? SK_ERR(err, SK_EINVAL, "no strategy is called '%s'",
                                    c->strategy ? c->strategy : "")
                           : SK_OK;
}

static void collect(struct scale *s, struct sk_scale_result *out) {
    struct sk_cl_stats st;
    sk_cl_get_stats(s->cl, &st);
    double sec = sk_cl_now(s->cl);
    s->r.sec = sec;
    s->r.spilled_bytes = (double)st.spilled_bytes;
    s->r.over_bytes = (double)st.over_bytes;
    for (uint32_t k = 0; k < SK_CL_KINDS; k++) {
        uint32_t n = k == SK_CL_CORE   ? s->c.cluster.node.cores
                     : k == SK_CL_DISK ? s->c.cluster.node.disks
                                       : 1;
        s->r.busy[k] = sk_cl_busy(s->cl, k) / sec / n / s->nodes;
    }
    s->r.driver_busy = sk_cl_busy(s->cl, SK_CL_DRIVER) / sec;
    s->r.forced = s->x->n_forced;
    *out = s->r;
}

/* The strategy of the published systems: each `factor` packs of a range are merged, whatever their
 * size; at the end also the remaining ones. */
static uint32_t one_value(struct sk_shuffle *s SK_UNUSED) { return 1; }
static void gather_factor(struct sk_shuffle *sh, const struct sk_shuffle_pack *p SK_UNUSED) {
    const struct scale *s = sk_shuffle_arg(sh);
    const struct sk_shuffle_group *g = sk_shuffle_hold(sh, 1, SK_SHUFFLE_ANY);
    if (g && g->n >= s->factor) sk_shuffle_merge(sh, g);
}
static void merge_rest(struct sk_shuffle *s) {
    for (const struct sk_shuffle_group *g; (g = sk_shuffle_group(s, 0));) sk_shuffle_merge(s, g);
}

static sk_rc run(struct scale *s, struct sk_err *err) {
    uint32_t root;
    SK_TRY(make_plan(s, &root, err));
    const struct sk_scale_conf *c = &s->c;
    s->pushes = (struct sk_shuffle_ops){.name = "pushes",
                                        .merges = true,
                                        .arg = s,
                                        .values = one_value,
                                        .came = gather_factor,
                                        .ended = merge_rest};
    s->gathers =
        sk_shuffle_gathers(c->way == SK_SCALE_DIRECT ? sk_shuffle_find(c->strategy) : &s->pushes);
    uint64_t slots = SK_MAX(s->slots[MAP] + (s->merges ? s->slots[MERGE] : 0), s->slots[REDUCE]),
             map_bytes = s->part64 * 64 * s->reduces;
    struct sk_step_conf sc = {.memory_bytes = c->cluster.node.store_bytes * s->nodes,
                              .target_min_bytes = map_bytes / 2,
                              .target_max_bytes = map_bytes,
                              .moves = true,
                              .policy = sk_policy_default(true),
                              .gathers = &s->gathers,
                              .n_nodes = s->nodes,
                              .cpu_e4 = (int64_t)slots * s->nodes * SK_RES_UNIT};
    SK_TRY(sk_step_create(s->plan, &s->st, &sc, &s->x, err));
    SK_TRY(sk_step_start(s->x, 0, err));
    acts(s);
    while (s->rc == SK_OK && sk_cl_turn(s->cl)) continue;
    if (s->rc == SK_OK && !s->x->done)
        return SK_ERR(err, SK_ESTALL, "the simulated run ends before its reduces, at %g s",
                      sk_cl_now(s->cl));
    if (s->rc != SK_OK) *err = s->err;
    /* all bytes arrived exactly once */
    SK_ASSERT(s->rc != SK_OK || s->reduced == s->part64 * 64 * s->maps * s->reduces);
    return s->rc;
}

sk_rc sk_scale_run(const struct sk_scale_conf *conf, struct sk_scale_result *out,
                   struct sk_err *err) {
    SK_TRY(check(conf, err));
    struct scale *s = need(sk_calloc(TAG, sizeof *s));
    s->c = *conf;
    s->nodes = conf->cluster.n_nodes;
    s->maps = conf->maps / conf->grain;
    s->reduces = conf->reduces / conf->grain;
    s->factor = SK_MAX(conf->factor / conf->grain, 1u);
    s->ranges = conf->way >= SK_SCALE_PUSH ? s->nodes : 1;
    s->a_value = SK_MAX(conf->reduces_a_value * SK_MAX(conf->bundle, 1u) / conf->grain, 1u);
    s->slots[MAP] = SK_MAX(conf->slots_map / conf->grain, 1u);
    s->slots[MERGE] = conf->slots_merge;
    s->own = conf->way == SK_SCALE_DIRECT && sk_shuffle_find(conf->strategy)->merges;
    s->merges = conf->way != SK_SCALE_DIRECT || s->own;
    s->slots[REDUCE] = SK_MAX(conf->slots_reduce / conf->grain, 1u);
    s->part64 = conf->bytes / s->maps / s->reduces / 64 + 1;
    s->c.cluster.spilled = spilled;
    s->c.cluster.ctx = s;
    sk_pool_init(&s->tasks, TAG, sizeof(struct stask));
    sk_pool_init(&s->words, TAG, sizeof(struct word));
    sk_rand_init(&s->rng, conf->seed);
    for (uint32_t i = 0; i < KINDS; i++)
        s->queue[i] = need(sk_calloc(TAG, s->nodes * sizeof *s->queue[i]));
    s->from = need(sk_calloc(TAG, s->nodes * sizeof *s->from));
    s->note = need(sk_alloc(TAG, sizeof *s->note + s->reduces * sizeof(struct sk_pack_part)));
    sk_rc rc = sk_cl_create(&s->c.cluster, &s->cl);
    if (rc == SK_OK) rc = run(s, err);
    if (rc == SK_OK) collect(s, out);
    if (s->x) {
        sk_step_sweep(s->x, &(struct sk_sweep){0});
        sk_step_destroy(s->x);
    }
    sk_stages_free(&s->st);
    sk_plan_destroy(s->plan, NULL, NULL);
    sk_cl_destroy(s->cl);
    for (uint32_t i = 0; i < KINDS; i++) sk_free(s->queue[i]);
    sk_pool_deinit(&s->tasks);
    sk_pool_deinit(&s->words);
    sk_vec_free(&s->values);
    sk_vec_free(&s->kept);
    sk_free(s->from);
    sk_free(s->note);
    sk_free(s);
    return rc;
}
