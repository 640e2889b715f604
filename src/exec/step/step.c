/* step.c - the state machine: when a block was yielded, a task ended or the consumer took a block,
 * blocks move on and actions result. Pure.
 *
 * Not here: where a block goes (order.c), the inputs of tasks (input.c), what to launch (launch.c
 * and by/<policy>.c), carrying actions out (act.c).
 *
 * Cost: about 0.1 us a block and 0.3 us a task for three stages (bench/c/exec_bench.c). */
#include "exec/exec_int.h"

#define TAG SK_TAG_EXEC

/* Marks the actor of a call that has given a result as started. */
static void actor_proven(struct sk_sstage *s, const struct sk_stask *t) {
    if (s->kind == SK_STAGE_ACTORS && s->actors[t->actor].state == SK_ACTOR_STARTING) {
        s->actors[t->actor].state = SK_ACTOR_READY;
        s->n_starting--;
    }
}

/* Makes the block that t yielded, in no queue yet: its bytes count in the budget and leave t's
 * promise. On failure its reference is released. */
static sk_rc new_blk(struct sk_step *x, struct sk_stask *t, const struct sk_step_ev *ev,
                     struct sk_blk **out, struct sk_err *err) {
    struct sk_sstage *s = &x->s[t->stage];
    struct sk_blk *b = sk_pool_get(&x->blks);
    if (b)
        *b = (struct sk_blk){
            .ref = ev->block, .cost = SK_MAX(ev->cost, ev->block.bytes), .node = ev->node};
    if (b && ev->note && (b->kept = x->conf.gathers->value(ev->note))) b->kept->blk = b;
    bool ok = b && !ev->note == !b->kept;
    if (!ok || (b->cost && x->conf.moves && sk_map_put(&x->by_oid, ev->block.oid, b) != SK_OK)) {
        if (b && b->kept) x->conf.gathers->gone(b->kept);
        if (b) sk_pool_put(&x->blks, b);
        /* reserve() has made room for this action, so it cannot fail */
        SK_TRY(sk_step_act(x, (struct sk_act){.kind = SK_ACT_RELEASE, .id = ev->block.oid}, err));
        return SK_ERR(err, SK_ENOMEM, "%s: no memory for a block", s->label);
    }
    b->ref.origin = t->origin;
    sk_list_init(&b->link);
    uint64_t promise = t->promise;
    sk_budget_use(&x->mem, &t->promise, b->cost);
    s->promise -= promise - t->promise;
    x->feed_bytes -= s->feeder ? promise - t->promise : 0;
    *out = b;
    return SK_OK;
}

static sk_rc yielded(struct sk_step *x, const struct sk_step_ev *ev, struct sk_err *err) {
    struct sk_stask *t = sk_step_task(x, ev->task);
    if (!t || t->cancelled || t->over)
        return sk_step_act(x, (struct sk_act){.kind = SK_ACT_RELEASE, .id = ev->block.oid}, err);
    struct sk_sstage *s = &x->s[t->stage];
    struct sk_blk *b;
    actor_proven(s, t);
    struct sk_gather *own = t->say ? s->gather : NULL;
    if (SK_UNLIKELY(own &&
                    (t->inner || (own->ops->wants && own->ops->wants(own, t->say, ev->note))))) {
        SK_TRY(new_blk(x, t, ev, &b, err));
        return own->ops->yielded(own, t->say, b, ev->note, err);
    }
    const struct sk_gather *to = s->values ? x->s[s->parent].gather : NULL;
    if (SK_UNLIKELY(s->values != !!ev->note || (ev->note && !to->ops->fits(to, ev->note)))) {
        SK_TRY(sk_step_act(x, (struct sk_act){.kind = SK_ACT_RELEASE, .id = ev->block.oid}, err));
        return SK_ERR(err, SK_ECORRUPT, "%s: yielded %s", s->label,
                      ev->note ? "a value that is not wanted here"
                               : "a block, where a value for the next stage is wanted");
    }
    SK_TRY(new_blk(x, t, ev, &b, err));
    t->n_yields++;
    t->out_bytes += b->cost;
    s->blocks_out++;
    s->rows_out += b->ref.n_rows;
    s->bytes_out += b->ref.bytes;
    s->held_cost += b->cost;
    s->held_n++;
    if (s->feeder) {
        x->feed_bytes += b->cost;
        x->feed_held_n++;
    }
    sk_blkq_push(&t->held, b);
    if (s->ordered && sk_list_first(&s->window) != &t->link) sk_step_offer(x, t, b);
    return sk_order_moved(x, t, err);
}

/* Called when the engine has moved an object to disk or back. Objects that are no block of the run,
 * because they existed before it or belong to the consumer, do not matter. */
static void moved_to(struct sk_step *x, uint64_t oid, bool disk, int64_t ns) {
    struct sk_blk *b = sk_map_get(&x->by_oid, oid);
    if (!b || b->on_disk == disk) return;
    if (disk && ns > 0) {
        x->written += b->cost;
        x->write_ns += (uint64_t)ns;
    }
    b->on_disk = disk;
    if (b->kept && b->kept->parked) {
        *(disk ? &x->parked_disk : &x->parked) += b->cost;
        *(disk ? &x->parked : &x->parked_disk) -= b->cost;
    }
    if (disk) sk_budget_spilled(&x->mem, b->cost);
    else sk_budget_restored(&x->mem, b->cost);
}

/* Called when the engine has ended the task: releases slots, promise and inputs. */
static sk_rc task_over(struct sk_step *x, struct sk_stask *t, struct sk_err *err) {
    struct sk_sstage *s = &x->s[t->stage];
    t->over = true;
    s->in_flight--;
    s->n_unknown -= t->unknown;
    x->n_flying--;
    x->n_asked -= s->feed != NULL;
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
        x->cpu.queued_ns =
            x->cpu.used ? x->cpu.queued_ns - (double)s->cpu_e4 * (double)t->est_ns : 0;
        x->gpu.queued_ns =
            x->gpu.used ? x->gpu.queued_ns - (double)s->gpu_e4 * (double)t->est_ns : 0;
    }
    sk_budget_unreserve(&x->mem, t->promise);
    s->promise -= t->promise;
    t->promise = 0;
    s->taken_cost -= t->in.cost;
    if (SK_UNLIKELY(t->say)) sk_gather_over(s->gather, t);
    return sk_step_drop_queue(x, &t->in, err);
}

static sk_rc over(struct sk_step *x, const struct sk_step_ev *ev, struct sk_err *err) {
    struct sk_stask *t = sk_step_task(x, ev->task);
    if (!t || t->over) return SK_OK;
    struct sk_sstage *s = &x->s[t->stage];
    bool inner = t->inner;
    s->retries += ev->attempt;
    if (ev->kind == SK_SEV_DONE) actor_proven(s, t);
    if (ev->actor_dead && s->kind == SK_STAGE_ACTORS) sk_pool_lost(x, t->stage, t->actor);
    if (ev->kind == SK_SEV_DONE && !t->cancelled) {
        s->tasks_done++;
        /* a feed makes its blocks long before others have shown that more are needed */
        if (s->ramped && !s->feed && s->tasks_done >= s->ramp) s->ramp *= 2;
        if (ev->run_ns > 0 && !inner) {
            s->est_ns += (s->est_ns > 0 ? 0.3 : 1) * ((double)ev->run_ns - s->est_ns);
            sk_metrics_timed(x, s, t, ev->run_ns);
        }
        for (uint32_t i = 0; ev->fused && i < SK_MIN(ev->n_fused, s->n_fused); i++) {
            s->fused[i].rows_out += ev->fused[i].rows_out;
            s->fused[i].ns += ev->fused[i].ns;
            s->fused[i].io_retries += ev->fused[i].io_retries;
            s->fused[i].fallbacks += ev->fused[i].fallbacks;
            s->fused[i].in_place += ev->fused[i].in_place;
            s->fused[i].no_room += ev->fused[i].no_room;
            s->fused[i].native += ev->fused[i].native;
        }
        if (!inner) sk_size_est_add(&s->size, t->in_bytes, t->out_bytes);
    }
    if (t->say && s->gather->ops->over && ev->kind == SK_SEV_DONE && !t->cancelled)
        SK_TRY(s->gather->ops->over(s->gather, t->say, err));
    SK_TRY(task_over(x, t, err));
    if (t->cancelled) {
        sk_step_free_task(x, t);
        return SK_OK;
    }
    if (ev->kind == SK_SEV_FAILED) return SK_OK; /* the caller ends the run */
    if (!inner) return sk_order_moved(x, t, err);
    uint32_t si = t->stage;
    s->n_window--;
    sk_step_free_task(x, t);
    return sk_order_check_end(x, si, err);
}

/* Reserves room for the actions that one event can cause without a launch: every block released,
 * every task cancelled. */
static sk_rc reserve(struct sk_step *x, struct sk_err *err) {
    uint64_t n = (uint64_t)x->acts.n + x->blks.n_used + x->tasks.n_used + 8;
    return sk_vec_reserve(&x->acts, TAG, n)
               ? SK_OK
               : SK_ERR(err, SK_ENOMEM, "pipeline: no memory for actions");
}

static sk_rc finish_step(struct sk_step *x, struct sk_err *err) {
    x->n_steps++;
    sk_rc rc = sk_launch_all(x, err);
    SK_XCHECK(rc != SK_OK || sk_step_check(x));
    return rc;
}

sk_rc sk_step_start(struct sk_step *x, int64_t now_ns, struct sk_err *err) {
    x->start_ns = x->now_ns = x->moved_ns = now_ns;
    sk_metrics_start(x);
    for (uint32_t i = 0; i < x->n; i++) {
        if (x->s[i].kind == SK_STAGE_BLOCKS && !x->s[i].ended && sk_step_open(x, i))
            SK_TRY(sk_order_blocks(x, i, err));
        else if (x->s[i].source) {
            sk_step_next_unit(x, &x->s[i]);
            SK_TRY(sk_order_check_end(x, i, err));
        }
    }
    return finish_step(x, err);
}

sk_rc sk_step_event(struct sk_step *x, const struct sk_step_ev *ev, int64_t now_ns,
                    struct sk_err *err) {
    sk_metrics_advance(x, now_ns);
    sk_rc rc = reserve(x, err);
    if (rc != SK_OK) {
        /* The reference of a yielded block is taken over on failure, too. The list of actions is
         * empty here, so it has room for this one. */
        if (ev->kind == SK_SEV_YIELDED)
            (void)!sk_step_act(x, (struct sk_act){.kind = SK_ACT_RELEASE, .id = ev->block.oid},
                               NULL);
        return rc;
    }
    if (ev->kind <= SK_SEV_FAILED) x->moved_ns = now_ns;
    switch (ev->kind) {
    case SK_SEV_YIELDED: SK_TRY(yielded(x, ev, err)); break;
    case SK_SEV_DONE:
    case SK_SEV_FAILED: SK_TRY(over(x, ev, err)); break;
    case SK_SEV_SPILLED:
    case SK_SEV_RESTORED: moved_to(x, ev->block.oid, ev->kind == SK_SEV_SPILLED, ev->run_ns); break;
    case SK_SEV_TICK: break;
    }
    return finish_step(x, err);
}

sk_rc sk_step_fed(struct sk_step *x, uint64_t ticket, const struct sk_fed *fed, int64_t now_ns,
                  struct sk_err *err) {
    struct sk_step_ev ev = {.kind = SK_SEV_DONE, .task = ticket, .run_ns = fed->ns};
    struct sk_stask *t = sk_step_task(x, ticket);
    bool block = fed->rc == SK_OK;
    sk_metrics_advance(x, now_ns);
    sk_rc rc = reserve(x, err);
    if (rc != SK_OK && block) /* the list of actions is empty, so it has room for this one */
        (void)!sk_step_act(x, (struct sk_act){.kind = SK_ACT_RELEASE, .id = fed->block.oid}, NULL);
    SK_TRY(rc);
    x->moved_ns = now_ns;
    if (block) {
        ev.block = fed->block;
        ev.cost = fed->cost;
        SK_TRY(yielded(x, &ev, err));
    } else if (t) {
        x->s[t->stage].n_units = x->s[t->stage].next_unit;
    }
    SK_TRY(over(x, &ev, err));
    return finish_step(x, err);
}

sk_rc sk_step_call(struct sk_step *x, sk_rc (*fn)(void *arg, struct sk_err *err), void *arg,
                   int64_t now_ns, struct sk_err *err) {
    sk_metrics_advance(x, now_ns);
    SK_TRY(reserve(x, err));
    x->moved_ns = now_ns;
    SK_TRY(fn(arg, err));
    for (uint32_t i = 0; i < x->n; i++)
        if (x->s[i].gather) SK_TRY(sk_order_check_end(x, i, err));
    return finish_step(x, err);
}

sk_rc sk_step_take(struct sk_step *x, int64_t now_ns, struct sk_bref *out, struct sk_err *err) {
    if (x->took_ns && x->took_rows) sk_metrics_consumed(x, now_ns - x->took_ns);
    x->took_ns = 0;
    if (!x->out.n) return x->done ? SK_EDONE : SK_EAGAIN;
    sk_metrics_advance(x, now_ns);
    struct sk_blk *b = sk_blkq_pop(&x->out);
    x->moved_ns = x->took_ns = now_ns;
    x->took_rows = b->ref.n_rows;
    x->taken_rows += b->ref.n_rows;
    struct sk_bref ref = b->ref;
    sk_step_forget(x, b);
    sk_pool_put(&x->blks, b);
    *out = ref; /* before the launches: the block belongs to the consumer, whatever they do */
    return finish_step(x, err);
}
