/* step.c - the state machine: a block was yielded, a task ended, the consumer took one -> blocks move on, actions come out. Pure.
 *
 * Not here: choosing what to launch (by/<policy>.c), doing it (run.c).
 *
 * Order: a stage's tasks are numbered as they are launched, and they are launched in the order of their inputs. Blocks leave a stage in
 * (task, yield) order: the head of its window passes on at once, the others hold theirs. So what a stage sees, what is coalesced into one
 * task's input, and where a LIMIT cuts, are functions of the data and never of timing.
 *
 * A block that is large enough to be a task's input by itself need not wait for its turn to be worked on, only to be seen: it may go ahead to
 * the next stage, and a place is kept for it in the order, and for the task that took it.
 *
 * Every block is in exactly one queue: held by its task, in a bundle (open or ready), input of a task, or out. An action that gives a
 * reference back is made when a block leaves the last one.
 *
 * Cost: about 0.1 us a block and 0.3 us a task for three stages (bench/c/exec_bench.c). */
#include "exec/exec_int.h"

#define TAG SK_TAG_EXEC

static sk_rc flush(struct sk_step *x, uint32_t si, struct sk_err *err);
static sk_rc stage_end(struct sk_step *x, uint32_t si, struct sk_err *err);

struct sk_stask *sk_step_task(const struct sk_step *x, uint64_t id) {
    uint32_t slot = (uint32_t)id;
    struct sk_stask *t = slot < x->slots.n ? x->slots.p[slot] : NULL;
    return t && t->id == id ? t : NULL;
}

void sk_step_free_task(struct sk_step *x, struct sk_stask *t) {
    uint32_t slot = (uint32_t)t->id;
    sk_list_del(&t->link);
    x->slots.p[slot] = NULL;
    x->free_slots.p[x->free_slots.n++] = slot; /* reserved when the slot was made */
    sk_pool_put(&x->tasks, t);
}

void sk_step_forget(struct sk_step *x, const struct sk_blk *b) {
    if (!b->cost) return;
    if (b->on_disk) {
        SK_ASSERT(b->cost <= x->mem.disk);
        x->mem.disk -= b->cost;
    } else {
        sk_budget_give(&x->mem, b->cost);
    }
    void *there = sk_map_del(&x->by_oid, b->ref.oid);
    SK_ASSERT(there == b);
}

sk_rc sk_step_drop(struct sk_step *x, struct sk_blk *b, struct sk_err *err) {
    struct sk_act a = {.kind = SK_ACT_RELEASE, .id = b->ref.oid};
    sk_step_forget(x, b);
    sk_pool_put(&x->blks, b);
    return a.id ? sk_step_act(x, a, err) : SK_OK;
}

static sk_rc drop_queue(struct sk_step *x, struct sk_blkq *q, struct sk_err *err) {
    for (struct sk_blk *b; (b = sk_blkq_pop(q));) SK_TRY(sk_step_drop(x, b, err));
    return SK_OK;
}

/* ---- input: bundles ----------------------------------------------------------------------------------------------------------------- */

void sk_step_push_ready(struct sk_sstage *s, struct sk_bundle *b) {
    b->next = NULL;
    if (s->ready_last) s->ready_last->next = b;
    else s->ready = b;
    s->ready_last = b;
}

static void close_bundle(struct sk_sstage *s) {
    if (!s->open) return;
    sk_step_push_ready(s, s->open);
    s->n_bundled += s->open->q.n;
    s->open = NULL;
    s->n_ready++;
}

void sk_step_settle(struct sk_step *x, uint32_t si) {
    struct sk_sstage *s = &x->s[si];
    for (struct sk_bundle *b; (b = s->ready) && b->early;) {
        sk_list_del(&b->early->link);
        b->early->seq = s->next_seq++;
        sk_list_push_back(&s->window, &b->early->link);
        s->ready = b->next;
        if (!s->ready) s->ready_last = NULL;
        sk_pool_put(&x->bundles, b);
    }
}

/* A pool runs a model: one full batch is enough, or a whole block where there is no batch size, however small. That keeps the actors evenly busy, and
 * what a death costs small. So is what a writer wants in a file. */
bool sk_step_large(const struct sk_step *x, const struct sk_sstage *s, uint64_t bytes, uint64_t rows) {
    uint64_t batch = s->batch_rows > 0 ? (uint64_t)s->batch_rows : 0;
    return rows >= batch && (bytes >= x->conf.target_min_bytes || s->kind == SK_STAGE_ACTORS || (s->writes && batch));
}

/* Few blocks are as somebody has cut them: a list of a hundred addresses in ten blocks is ten downloads at once. Of many, a task takes no more than a 1024th of what
 * came before it: tasks grow, and the last ones end together all the same. */
bool sk_step_enough(const struct sk_step *x, const struct sk_sstage *s, uint32_t n, uint64_t bytes, uint64_t rows) {
    bool many = n > s->n_bundled / 1024 && rows >= (s->batch_rows > 0 ? (uint64_t)s->batch_rows : 0);
    return (many && !s->writes) || sk_step_large(x, s, bytes, rows);
}

/* Small neighbours become one task's input: greedy, in order, by number, bytes and rows only. */
static sk_rc coalesce(struct sk_step *x, struct sk_sstage *s, struct sk_blk *b, struct sk_err *err) {
    bool large = sk_step_large(x, s, b->ref.bytes, b->ref.n_rows);
    bool apart = s->open && x->conf.keep_units && s->open->q.tail->ref.origin != b->ref.origin;
    uint64_t most = SK_MAX(x->conf.target_max_bytes, x->conf.target_min_bytes);
    if (s->open && (large || apart || s->open->q.bytes + b->ref.bytes > most)) close_bundle(s);
    if (!s->open) {
        s->open = sk_pool_get(&x->bundles);
        if (!s->open) {
            sk_blkq_push(&x->out, b); /* the run is over; somewhere, for the sweep */
            return SK_ERR(err, SK_ENOMEM, "%s: no memory for its input queue", s->label);
        }
        *s->open = (struct sk_bundle){0};
    }
    sk_blkq_push(&s->open->q, b);
    const struct sk_blkq *q = &s->open->q;
    if (large || q->n >= SK_BUNDLE_BLOCKS_MAX || sk_step_enough(x, s, q->n, q->bytes, q->rows)) close_bundle(s);
    return SK_OK;
}

/* A block of stage `from`, which is an input of s. */
static sk_rc take_in(struct sk_step *x, struct sk_sstage *s, const struct sk_sstage *from, struct sk_blk *b, struct sk_err *err) {
    s->rows_in += b->ref.n_rows;
    s->bytes_in += b->ref.bytes;
    s->ready_bytes += b->ref.bytes;
    s->ready_rows += b->ref.n_rows;
    s->peak_queued_bytes = SK_MAX(s->peak_queued_bytes, s->ready_bytes);
    return s->sides ? sk_zip_take_in(x, s, from->which, b, err) : coalesce(x, s, b, err);
}

/* ---- ahead of the order ------------------------------------------------------------------------------------------------------------------ */

/* b of task t must wait for its turn. If it will be the input of a task by itself, then that task may start before. */
static void offer(struct sk_step *x, struct sk_stask *t, struct sk_blk *b) {
    const struct sk_sstage *s = &x->s[t->stage];
    if (s->parent == SK_NO_STAGE) return;
    struct sk_sstage *p = &x->s[s->parent];
    if (!p->early_ok || !sk_step_large(x, p, b->ref.bytes, b->ref.n_rows)) return;
    b->of = t;
    sk_list_push_back(&p->ahead, &b->ahead);
}

void sk_step_go_ahead(struct sk_step *x, struct sk_sstage *s, struct sk_blk *b, struct sk_blk *in, struct sk_stask *t) {
    struct sk_sstage *from = &x->s[b->of->stage];
    struct sk_blkq *q = &b->of->held;
    *in = (struct sk_blk){.ref = b->ref, .cost = b->cost, .on_disk = b->on_disk};
    sk_list_init(&in->ahead);
    sk_rc rc = in->cost ? sk_map_put(&x->by_oid, in->ref.oid, in) : SK_OK;
    SK_ASSERT(rc == SK_OK); /* it is there: replacing never fails */
    sk_blkq_push(&t->in, in);
    q->bytes -= b->ref.bytes;
    q->rows -= b->ref.n_rows;
    q->cost -= b->cost;
    from->held_cost -= b->cost;
    s->rows_in += b->ref.n_rows;
    s->bytes_in += b->ref.bytes;
    sk_list_del(&b->ahead);
    b->ref = (struct sk_bref){0};
    b->cost = 0;
    b->early = t;
}

static sk_rc flush(struct sk_step *x, uint32_t si, struct sk_err *err);

/* The turn of a block that went ahead: its task gets its number. */
static sk_rc place_early(struct sk_step *x, uint32_t si, struct sk_blk *b, struct sk_err *err) {
    struct sk_sstage *s = &x->s[si];
    struct sk_bundle *k = sk_pool_get(&x->bundles);
    struct sk_stask *t = b->early;
    sk_pool_put(&x->blks, b);
    if (!k) return SK_ERR(err, SK_ENOMEM, "%s: no memory for its input queue", s->label);
    *k = (struct sk_bundle){.early = t};
    close_bundle(s);
    s->n_bundled++;
    sk_step_push_ready(s, k);
    sk_step_settle(x, si);
    return flush(x, si, err);
}

/* ---- cutting: nobody wants the rest ----------------------------------------------------------------------------------------------------- */

static sk_rc cancel_task(struct sk_step *x, struct sk_stask *t, struct sk_err *err) {
    struct sk_sstage *s = &x->s[t->stage];
    s->n_window--;
    s->held_cost -= t->held.cost;
    s->held_n -= t->held.n;
    if (s->feeder) {
        x->feed_bytes -= t->held.cost;
        x->feed_held_n -= t->held.n;
    }
    SK_TRY(drop_queue(x, &t->held, err));
    if (t->over) {
        sk_step_free_task(x, t);
        return SK_OK;
    }
    t->cancelled = true; /* its inputs stay in the budget until the engine has let go of them */
    sk_list_del(&t->link);
    sk_list_push_back(&x->cancelled, &t->link);
    return sk_step_act(x, (struct sk_act){.kind = SK_ACT_CANCEL, .id = t->id}, err);
}

static sk_rc cut(struct sk_step *x, uint32_t si, struct sk_err *err) {
    struct sk_sstage *s = &x->s[si];
    s->cut = s->ended = true;
    while (!sk_list_empty(&s->window)) SK_TRY(cancel_task(x, sk_container_of(sk_list_first(&s->window), struct sk_stask, link), err));
    SK_ASSERT(sk_list_empty(&s->early)); /* see early_ok */
    close_bundle(s);
    for (struct sk_bundle *b; (b = s->ready);) {
        SK_TRY(drop_queue(x, &b->q, err));
        s->ready = b->next;
        sk_pool_put(&x->bundles, b);
    }
    s->ready_last = NULL;
    s->n_ready = 0;
    s->ready_bytes = s->ready_rows = 0;
    for (uint32_t i = 0; s->sides && i < s->n_inputs; i++) SK_TRY(drop_queue(x, &s->sides[i].q, err));
    for (uint32_t i = 0; i < s->n_inputs; i++)
        if (!x->s[s->inputs[i]].cut) SK_TRY(cut(x, s->inputs[i], err));
    return SK_OK;
}

/* ---- output: on to the next stage ------------------------------------------------------------------------------------------------------- */

static sk_rc push_down(struct sk_step *x, uint32_t si, struct sk_blk *b, struct sk_err *err);

static sk_rc limit_done(struct sk_step *x, uint32_t si, struct sk_err *err) {
    SK_TRY(cut(x, x->s[si].inputs[0], err));
    return stage_end(x, si, err);
}

static sk_rc through_limit(struct sk_step *x, uint32_t si, struct sk_blk *b, struct sk_err *err) {
    struct sk_sstage *s = &x->s[si];
    if (s->ended) return sk_step_drop(x, b, err);
    s->rows_in += b->ref.n_rows;
    s->bytes_in += b->ref.bytes;
    if (b->ref.n_rows > (uint64_t)s->left) b->ref = sk_bref_first(b->ref, (uint64_t)s->left);
    s->left -= (int64_t)b->ref.n_rows;
    bool enough = s->left == 0;
    s->rows_out += b->ref.n_rows;
    s->bytes_out += b->ref.bytes;
    s->blocks_out++;
    SK_TRY(push_down(x, si, b, err));
    return enough && !s->ended ? limit_done(x, si, err) : SK_OK;
}

/* A block of stage si, in order, to whoever is next. */
static sk_rc push_down(struct sk_step *x, uint32_t si, struct sk_blk *b, struct sk_err *err) {
    struct sk_sstage *s = &x->s[si];
    if (s->first_out_ns < 0) s->first_out_ns = x->now_ns - x->start_ns;
    if (s->parent == SK_NO_STAGE) {
        sk_blkq_push(&x->out, b);
        return SK_OK;
    }
    struct sk_sstage *p = &x->s[s->parent];
    if (b->early) return place_early(x, s->parent, b, err);
    if (p->cut) return sk_step_drop(x, b, err);
    if (p->kind == SK_STAGE_LIMIT) return through_limit(x, s->parent, b, err);
    if (p->kind != SK_STAGE_UNION) return take_in(x, p, s, b, err);
    p->rows_in += b->ref.n_rows;
    p->rows_out += b->ref.n_rows;
    p->bytes_in += b->ref.bytes;
    p->bytes_out += b->ref.bytes;
    p->blocks_out++;
    return push_down(x, s->parent, b, err);
}

static sk_rc check_end(struct sk_step *x, uint32_t si, struct sk_err *err) {
    struct sk_sstage *s = &x->s[si];
    bool fed = s->source ? s->next_unit == s->n_units : s->input_ended;
    return s->ended || !fed || s->ready || s->open || s->n_window ? SK_OK : stage_end(x, si, err);
}

/* Existing blocks: all at once, they cost nothing. */
static sk_rc flush_blocks(struct sk_step *x, uint32_t si, struct sk_err *err) {
    struct sk_sstage *s = &x->s[si];
    while (!s->cut && s->next_unit < s->n_blocks) {
        struct sk_blk *b = sk_pool_get(&x->blks);
        if (!b) return SK_ERR(err, SK_ENOMEM, "%s: no memory for a block", s->label);
        *b = (struct sk_blk){.ref = s->blocks[s->next_unit]};
        sk_list_init(&b->ahead);
        if (!sk_vec_reserve(&x->acts, TAG, x->acts.n + 2)) {
            sk_pool_put(&x->blks, b);
            return SK_ERR(err, SK_ENOMEM, "%s: no memory for a block", s->label);
        }
        s->next_unit++;
        s->rows_out += b->ref.n_rows;
        s->bytes_out += b->ref.bytes;
        s->blocks_out++;
        SK_TRY(sk_step_act(x, (struct sk_act){.kind = SK_ACT_ADDREF, .id = b->ref.oid}, err));
        SK_TRY(push_down(x, si, b, err));
    }
    return s->ended ? SK_OK : stage_end(x, si, err);
}

/* Passes on what t holds. The stage may be cut meanwhile (a LIMIT below is satisfied): then its tasks are gone, and *gone is set. */
static sk_rc pass_on(struct sk_step *x, uint32_t si, struct sk_stask *t, bool *gone, struct sk_err *err) {
    struct sk_sstage *s = &x->s[si];
    for (struct sk_blk *b; (b = sk_blkq_pop(&t->held));) {
        s->held_cost -= b->cost;
        s->held_n--;
        x->feed_bytes -= s->feeder ? b->cost : 0;
        x->feed_held_n -= s->feeder;
        SK_TRY(push_down(x, si, b, err));
        if (s->cut) {
            *gone = true;
            return SK_OK;
        }
    }
    if (t->over) {
        s->n_window--;
        sk_step_free_task(x, t);
        *gone = true;
    }
    return SK_OK;
}

/* Passes on what is in turn: all of the head of the window, then of the next one ... */
static sk_rc flush(struct sk_step *x, uint32_t si, struct sk_err *err) {
    struct sk_sstage *s = &x->s[si];
    for (bool gone = sk_step_open(x, si); gone && !sk_list_empty(&s->window);) {
        gone = false;
        SK_TRY(pass_on(x, si, sk_container_of(sk_list_first(&s->window), struct sk_stask, link), &gone, err));
    }
    return check_end(x, si, err);
}

/* Task t has something new. */
static sk_rc moved(struct sk_step *x, struct sk_stask *t, struct sk_err *err) {
    uint32_t si = t->stage;
    if (!x->s[si].ordered) {
        bool gone = false;
        SK_TRY(pass_on(x, si, t, &gone, err));
        return check_end(x, si, err);
    }
    return sk_list_first(&x->s[si].window) == &t->link ? flush(x, si, err) : SK_OK;
}

/* Its output is in turn now: a later input of a union. */
static sk_rc opened(struct sk_step *x, uint32_t si, struct sk_err *err) {
    const struct sk_sstage *s = &x->s[si];
    if (s->ended) return SK_OK;
    switch (s->kind) {
    case SK_STAGE_BLOCKS: return flush_blocks(x, si, err);
    case SK_STAGE_UNION: return opened(x, s->inputs[s->turn], err);
    case SK_STAGE_LIMIT: return opened(x, s->inputs[0], err);
    case SK_STAGE_TASKS:
    case SK_STAGE_ACTORS: break;
    }
    return flush(x, si, err);
}

/* No block will come out of si any more. */
static sk_rc stage_end(struct sk_step *x, uint32_t si, struct sk_err *err) {
    struct sk_sstage *s = &x->s[si];
    s->ended = true;
    if (s->parent == SK_NO_STAGE) {
        x->done = true;
        return SK_OK;
    }
    struct sk_sstage *p = &x->s[s->parent];
    if (p->ended) return SK_OK;
    p->n_ended++;
    if (p->kind == SK_STAGE_LIMIT) return stage_end(x, s->parent, err);
    if (p->kind == SK_STAGE_UNION) {
        while (p->turn < p->n_inputs && x->s[p->inputs[p->turn]].ended) p->turn++;
        if (p->n_ended == p->n_inputs) return stage_end(x, s->parent, err);
        return sk_step_open(x, p->inputs[p->turn]) ? opened(x, p->inputs[p->turn], err) : SK_OK;
    }
    if (p->sides) SK_TRY(sk_zip_pair(x, p, err));
    if (p->n_ended < p->n_inputs) return SK_OK;
    p->input_ended = true;
    close_bundle(p);
    return check_end(x, s->parent, err);
}

/* ---- events --------------------------------------------------------------------------------------------------------------------------------- */

/* Something came back from a call: its actor has started. */
static void actor_proven(struct sk_sstage *s, const struct sk_stask *t) {
    if (s->kind == SK_STAGE_ACTORS && s->actors[t->actor].state == SK_ACTOR_STARTING) {
        s->actors[t->actor].state = SK_ACTOR_READY;
        s->n_starting--;
    }
}

static sk_rc yielded(struct sk_step *x, const struct sk_step_ev *ev, struct sk_err *err) {
    struct sk_stask *t = sk_step_task(x, ev->task);
    if (!t || t->cancelled || t->over) return sk_step_act(x, (struct sk_act){.kind = SK_ACT_RELEASE, .id = ev->block.oid}, err);
    struct sk_sstage *s = &x->s[t->stage];
    actor_proven(s, t);
    struct sk_blk *b = sk_pool_get(&x->blks);
    if (b) *b = (struct sk_blk){.ref = ev->block, .cost = SK_MAX(ev->cost, ev->block.bytes)};
    if (!b || (b->cost && sk_map_put(&x->by_oid, ev->block.oid, b) != SK_OK)) {
        if (b) sk_pool_put(&x->blks, b);
        SK_TRY(sk_step_act(x, (struct sk_act){.kind = SK_ACT_RELEASE, .id = ev->block.oid}, err)); /* room is reserved */
        return SK_ERR(err, SK_ENOMEM, "%s: no memory for a block", s->label);
    }
    b->ref.origin = t->origin;
    sk_list_init(&b->ahead);
    uint64_t promise = t->promise;
    sk_budget_use(&x->mem, &t->promise, b->cost);
    s->promise -= promise - t->promise;
    t->n_yields++;
    t->out_bytes += b->cost;
    s->blocks_out++;
    s->rows_out += b->ref.n_rows;
    s->bytes_out += b->ref.bytes;
    s->held_cost += b->cost;
    s->held_n++;
    if (s->feeder) {
        x->feed_bytes += b->cost - (promise - t->promise);
        x->feed_held_n++;
    }
    sk_blkq_push(&t->held, b);
    if (s->ordered && sk_list_first(&s->window) != &t->link) offer(x, t, b);
    return moved(x, t, err);
}

/* A block of the run went to disk, or came back. Others, which existed before it or are the consumer's by now, are none of its business. */
static void moved_to(struct sk_step *x, uint64_t oid, bool disk) {
    struct sk_blk *b = sk_map_get(&x->by_oid, oid);
    if (!b || b->on_disk == disk) return;
    b->on_disk = disk;
    if (disk) sk_budget_spilled(&x->mem, b->cost);
    else sk_budget_restored(&x->mem, b->cost);
}

/* The engine is finished with it: slots, promise and inputs come back. */
static sk_rc task_over(struct sk_step *x, struct sk_stask *t, struct sk_err *err) {
    struct sk_sstage *s = &x->s[t->stage];
    t->over = true;
    s->in_flight--;
    s->n_unknown -= t->unknown;
    x->n_flying--;
    x->n_feeding -= s->feeder;
    x->feed_bytes -= s->feeder ? t->promise : 0;
    if (s->kind == SK_STAGE_ACTORS) {
        if (--s->actors[t->actor].in_flight == 0) {
            x->cpu.used -= s->cpu_e4;
            x->cpu_actors -= s->cpu_e4;
        }
    } else {
        x->cpu.used -= s->cpu_e4;
        x->gpu.used -= s->gpu_e4;
        x->cpu.queued_ns = x->cpu.used ? x->cpu.queued_ns - (double)s->cpu_e4 * (double)t->est_ns : 0;
        x->gpu.queued_ns = x->gpu.used ? x->gpu.queued_ns - (double)s->gpu_e4 * (double)t->est_ns : 0;
    }
    sk_budget_unreserve(&x->mem, t->promise);
    s->promise -= t->promise;
    t->promise = 0;
    s->taken_cost -= t->in.cost;
    return drop_queue(x, &t->in, err);
}

static sk_rc over(struct sk_step *x, const struct sk_step_ev *ev, struct sk_err *err) {
    struct sk_stask *t = sk_step_task(x, ev->task);
    if (!t || t->over) return SK_OK;
    struct sk_sstage *s = &x->s[t->stage];
    s->retries += ev->attempt;
    if (ev->kind == SK_SEV_DONE) actor_proven(s, t);
    if (ev->actor_dead && s->kind == SK_STAGE_ACTORS) sk_pool_lost(x, t->stage, t->actor);
    if (ev->kind == SK_SEV_DONE && !t->cancelled) {
        s->tasks_done++;
        if (s->ramped && s->tasks_done >= s->ramp) s->ramp *= 2;
        if (ev->run_ns > 0) {
            s->est_ns += (s->est_ns > 0 ? 0.3 : 1) * ((double)ev->run_ns - s->est_ns);
            s->task_ns_total += ev->run_ns;
            s->task_ns_max = SK_MAX(s->task_ns_max, ev->run_ns);
        }
        for (uint32_t i = 0; i < SK_MIN(ev->n_fused, s->n_fused); i++) {
            s->fused[i].rows_out += ev->fused[i].rows_out;
            s->fused[i].ns += ev->fused[i].ns;
            s->fused[i].io_retries += ev->fused[i].io_retries;
        }
        sk_size_est_add(&s->size, t->in_bytes, t->out_bytes);
    }
    SK_TRY(task_over(x, t, err));
    if (t->cancelled) {
        sk_step_free_task(x, t);
        return SK_OK;
    }
    return ev->kind == SK_SEV_DONE ? moved(x, t, err) : SK_OK; /* FAILED: the caller ends the run */
}

/* Room for the actions that one event can make without a launch: every block released, every task cancelled. */
static sk_rc reserve(struct sk_step *x, struct sk_err *err) {
    uint64_t n = (uint64_t)x->acts.n + x->blks.n_used + x->tasks.n_used + 8;
    return sk_vec_reserve(&x->acts, TAG, n) ? SK_OK : SK_ERR(err, SK_ENOMEM, "pipeline: no memory for actions");
}

static sk_rc finish_step(struct sk_step *x, struct sk_err *err) {
    x->n_steps++;
    sk_rc rc = sk_launch_all(x, err);
    SK_XCHECK(rc != SK_OK || sk_step_check(x));
    return rc;
}

sk_rc sk_step_start(struct sk_step *x, int64_t now_ns, struct sk_err *err) {
    x->start_ns = x->now_ns = x->moved_ns = now_ns;
    for (uint32_t i = x->n; i-- > 0;)
        if (x->s[i].kind == SK_STAGE_LIMIT && !x->s[i].limit && !x->s[i].ended) SK_TRY(limit_done(x, i, err));
    for (uint32_t i = 0; i < x->n; i++) {
        if (x->s[i].kind == SK_STAGE_BLOCKS && !x->s[i].ended && sk_step_open(x, i)) SK_TRY(flush_blocks(x, i, err));
        else if (x->s[i].source) {
            sk_step_next_unit(x, &x->s[i]);
            SK_TRY(check_end(x, i, err));
        }
    }
    return finish_step(x, err);
}

sk_rc sk_step_event(struct sk_step *x, const struct sk_step_ev *ev, int64_t now_ns, struct sk_err *err) {
    sk_metrics_advance(x, now_ns);
    sk_rc rc = reserve(x, err);
    if (rc != SK_OK) {
        if (ev->kind == SK_SEV_YIELDED) /* taken in any case; an emptied list has room for one */
            (void)!sk_step_act(x, (struct sk_act){.kind = SK_ACT_RELEASE, .id = ev->block.oid}, NULL);
        return rc;
    }
    if (ev->kind <= SK_SEV_FAILED) x->moved_ns = now_ns;
    switch (ev->kind) {
    case SK_SEV_YIELDED: SK_TRY(yielded(x, ev, err)); break;
    case SK_SEV_DONE:
    case SK_SEV_FAILED: SK_TRY(over(x, ev, err)); break;
    case SK_SEV_SPILLED:
    case SK_SEV_RESTORED: moved_to(x, ev->block.oid, ev->kind == SK_SEV_SPILLED); break;
    case SK_SEV_TICK: break;
    }
    return finish_step(x, err);
}

sk_rc sk_step_take(struct sk_step *x, int64_t now_ns, struct sk_bref *out, struct sk_err *err) {
    if (!x->out.n) return x->done ? SK_EDONE : SK_EAGAIN;
    sk_metrics_advance(x, now_ns);
    struct sk_blk *b = sk_blkq_pop(&x->out);
    x->moved_ns = now_ns;
    struct sk_bref ref = b->ref;
    sk_step_forget(x, b);
    sk_pool_put(&x->blks, b);
    *out = ref; /* before the launches: the block is the consumer's, whatever comes of them */
    return finish_step(x, err);
}

/* ---- the end -------------------------------------------------------------------------------------------------------------------------------------- */

static void sweep_queue(struct sk_step *x, struct sk_blkq *q, const struct sk_sweep *w) {
    for (struct sk_blk *b; (b = sk_blkq_pop(q));) {
        if (w->object && b->ref.oid) w->object(w->ctx, b->ref.oid);
        sk_step_forget(x, b);
        sk_pool_put(&x->blks, b);
    }
}

static void sweep_tasks(struct sk_step *x, struct sk_list *l, const struct sk_sweep *w) {
    SK_LIST_EACH_SAFE (it, tmp, l) {
        struct sk_stask *t = sk_container_of(it, struct sk_stask, link);
        if (!t->over && w->task) w->task(w->ctx, t);
        sweep_queue(x, &t->held, w);
        sweep_queue(x, &t->in, w);
        sk_step_free_task(x, t);
    }
}

void sk_step_sweep(struct sk_step *x, const struct sk_sweep *w) {
    sweep_tasks(x, &x->cancelled, w);
    sweep_queue(x, &x->out, w);
    for (uint32_t i = 0; i < x->n; i++) {
        struct sk_sstage *s = &x->s[i];
        sweep_tasks(x, &s->window, w);
        sweep_tasks(x, &s->early, w);
        close_bundle(s);
        for (struct sk_bundle *b; (b = s->ready);) {
            s->ready = b->next;
            sweep_queue(x, &b->q, w);
            sk_pool_put(&x->bundles, b);
        }
        for (uint32_t k = 0; s->sides && k < s->n_inputs; k++) sweep_queue(x, &s->sides[k].q, w);
        for (uint32_t k = 0; k < s->n_actors; k++)
            if (s->actors[k].state != SK_ACTOR_GONE && w->actor) w->actor(w->ctx, i, k);
        s->n_actors = s->n_live = 0;
    }
}

struct sums { /* of all blocks that the queues hold */
    uint64_t disk, n_paid;
};

static bool check_queue(const struct sk_step *x, const struct sk_blkq *q, uint64_t *cost, uint64_t *blocks, struct sums *sum) {
    uint64_t n = 0, bytes = 0, c = 0;
    for (const struct sk_blk *b = q->head; b; b = b->next) {
        n++, bytes += b->ref.bytes, c += b->cost;
        sum->disk += b->on_disk ? b->cost : 0;
        sum->n_paid += b->cost > 0;
        if (b->cost && sk_map_get(&x->by_oid, b->ref.oid) != b) return false;
    }
    *cost += c;
    *blocks += n;
    return n == q->n && bytes == q->bytes && c == q->cost && (!q->tail || !q->tail->next) && !q->head == !q->tail;
}

bool sk_step_check(const struct sk_step *x) {
    uint64_t cost = 0, blocks = 0, promise = 0, flying = 0, tasks = 0, bundles = 0, feed = 0;
    struct sums sum = {0};
    uint64_t of_stages = 0, taken = 0, of_tasks = 0;
    bool ok = check_queue(x, &x->out, &cost, &blocks, &sum);
    SK_LIST_EACH (it, &x->cancelled) {
        const struct sk_stask *t = sk_container_of(it, struct sk_stask, link);
        ok = ok && check_queue(x, &t->in, &cost, &blocks, &sum) && !t->held.n && t->cancelled && !t->over;
        promise += t->promise;
        of_tasks += t->in.cost;
        feed += x->s[t->stage].feeder ? t->promise : 0;
        flying++, tasks++;
    }
    for (uint32_t i = 0; i < x->n; i++) {
        const struct sk_sstage *s = &x->s[i];
        uint64_t held = 0, held_n = 0, window = 0, seq = 0;
        SK_LIST_EACH (it, &s->window) {
            const struct sk_stask *t = sk_container_of(it, struct sk_stask, link);
            ok = ok && check_queue(x, &t->in, &cost, &blocks, &sum) && check_queue(x, &t->held, &held, &held_n, &sum) &&
                 (!window || t->seq > seq) && !t->cancelled;
            promise += t->promise;
            of_tasks += t->in.cost;
            feed += s->feeder ? t->promise : 0;
            flying += !t->over, window++, tasks++;
            seq = t->seq;
        }
        SK_LIST_EACH (it, &s->early) {
            const struct sk_stask *t = sk_container_of(it, struct sk_stask, link);
            ok = ok && check_queue(x, &t->in, &cost, &blocks, &sum) && check_queue(x, &t->held, &held, &held_n, &sum) &&
                 t->seq == SK_NO_SEQ && !t->cancelled;
            promise += t->promise;
            of_tasks += t->in.cost;
            feed += s->feeder ? t->promise : 0;
            flying += !t->over, window++, tasks++;
        }
        ok = ok && held == s->held_cost && held_n == s->held_n && window == s->n_window;
        cost += held;
        blocks += held_n;
        of_stages += s->promise;
        taken += s->taken_cost;
        feed += s->feeder ? held : 0;
        uint64_t ready = 0;
        uint64_t places = 0;
        for (const struct sk_bundle *b = s->ready; b; b = b->next) {
            if (b->early) places++;
            else ready++, ok = ok && check_queue(x, &b->q, &cost, &blocks, &sum);
        }
        ok = ok && ready == s->n_ready && (!s->ready || !s->ready->early);
        bundles += places;
        for (uint32_t k = 0; s->sides && k < s->n_inputs; k++) ok = ok && check_queue(x, &s->sides[k].q, &cost, &blocks, &sum);
        if (s->open) bundles++, ok = ok && check_queue(x, &s->open->q, &cost, &blocks, &sum);
        bundles += ready;
    }
    return ok && cost == x->mem.used + x->mem.disk && sum.disk == x->mem.disk && sum.n_paid == x->by_oid.n && promise == x->mem.reserved &&
           promise == of_stages && taken == of_tasks && flying == x->n_flying && feed == x->feed_bytes && tasks == x->tasks.n_used &&
           blocks == x->blks.n_used && bundles == x->bundles.n_used;
}
