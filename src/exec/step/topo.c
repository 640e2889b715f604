/* topo.c - makes the states of step.c from the stages of a plan, and checks whether the machine can
 * run them. Pure.
 *
 * Invariant: indices are in topological order, and of two stages the one with the higher index is
 * nearer to the output or earlier in turn. */
#include "exec/exec_int.h"

#define TAG SK_TAG_EXEC

/* True if the operators fused behind the source give no more rows than they take. */
static bool few_more(const struct sk_plan *plan, const struct sk_stage *st) {
    for (uint32_t i = 1; i < st->n_nodes; i++)
        if (!(sk_plan_get(plan, st->nodes[i])->d.op->props & (SK_OP_ONE_TO_ONE | SK_OP_NO_MORE)))
            return false;
    return true;
}

static void set_stage(struct sk_sstage *s, const struct sk_plan *plan, const struct sk_stage *st) {
    const struct sk_node_desc *d = &sk_plan_get(plan, st->nodes[0])->d;
    *s = (struct sk_sstage){
        .kind = st->kind,
        .label = st->label,
        .parent = SK_NO_STAGE,
        .n_inputs = st->n_inputs,
        .inputs = st->inputs,
        .units = d->units,
        .n_units = d->feed ? 1 : d->n_units,
        .blocks = d->blocks,
        .n_blocks = d->n_blocks,
        .feed = d->feed,
        .cap_rows = st->cap_rows,
        .limit = st->limit,
        .left = st->limit,
        .batch_rows = d->batch_rows,
        .parts = d->parts,
        .shortest = d->shortest,
        .writes = st->writes,
        .values = st->props & SK_OP_PACKS,
        .pool_min = d->pool_min,
        .pool_max = d->pool_max,
        .max_tasks = d->feed ? 1 : d->max_tasks,
        .first_out_ns = -1,
        .max_in_flight = d->max_in_flight ? d->max_in_flight : 2,
        .n_fused = SK_MIN(st->n_nodes, (uint32_t)SK_COUNT(s->fused)),
        .ramp = 1,
    };
    s->source = sk_stage_runs(s) && st->n_inputs == 0;
    for (uint32_t i = 0; i < st->n_nodes; i++)
        s->early_ok =
            s->early_ok || (sk_plan_get(plan, st->nodes[i])->d.op->props & SK_OP_NUMBERED);
    s->early_ok = !s->early_ok && sk_stage_runs(s) && st->n_inputs <= 1;
    s->sized = s->source && !s->feed && (st->n_nodes == 1 || few_more(plan, st));
    if (sk_stage_runs(s)) {
        s->cpu_e4 = d->cpu_e4;
        s->gpu_e4 = d->gpu_e4;
    }
    if (s->kind == SK_STAGE_ACTORS && !s->pool_min) s->pool_min = 1;
}

static void set_ways(struct sk_step *x) {
    for (uint32_t i = 0; i < x->n; i++) {
        x->n_several += x->s[i].n_inputs > 1;
        x->n_parking += x->s[i].gather && x->s[i].gather->parks;
        x->n_awaiting += x->s[i].gather && x->s[i].gather->ops->awaits;
        for (uint32_t k = 0; k < x->s[i].n_inputs; k++) {
            struct sk_sstage *in = &x->s[x->s[i].inputs[k]];
            in->parent = i;
            in->which = k;
        }
    }
    for (uint32_t i = 0; i < x->n; i++) { /* inputs come before their consumers */
        struct sk_sstage *s = &x->s[i];
        s->phase += s->gather && s->gather->parks;
        if (s->parent != SK_NO_STAGE)
            x->s[s->parent].phase = SK_MAX(x->s[s->parent].phase, s->phase);
        s->first = true;
        for (uint32_t k = 0; k < s->n_inputs; k++)
            s->first = s->first && x->s[s->inputs[k]].first && !sk_stage_runs(&x->s[s->inputs[k]]);
    }
    for (uint32_t i = x->n; i-- > 0;) { /* consumers come before their inputs */
        struct sk_sstage *s = &x->s[i];
        const struct sk_sstage *p = s->parent == SK_NO_STAGE ? NULL : &x->s[s->parent];
        s->feeder = !p || (p->feeder && !sk_stage_runs(p));
        /* a gather needs all of its input, so a LIMIT behind the stage does not shorten it */
        s->ramped = p && !p->gather && (p->kind == SK_STAGE_LIMIT || p->ramped);
        /* The rows of zipped inputs are matched by number, so their order must not depend on time.
         * The same holds for the values of a gather and for their inputs. */
        s->ordered = x->conf.preserve_order || (p && (p->sides || p->gather || p->ordered));
        /* tasks that a LIMIT or the end of a mix may cut must start in order */
        s->may_cut = p && !p->gather && (p->kind == SK_STAGE_LIMIT || p->shortest || p->may_cut);
        s->early_ok = s->early_ok && s->ordered && !s->gather && !x->conf.keep_units && !s->may_cut;
        if (s->ramped && s->feed) s->ramp = (uint32_t)(x->conf.cpu_e4 / SK_RES_UNIT) + 1;
        if (s->ramped && s->cpu_e4 > 0) s->ramp = (uint32_t)SK_MAX(x->conf.cpu_e4 / s->cpu_e4, 1);
    }
}

static sk_rc create_stage(struct sk_step *x, uint32_t i, const struct sk_plan *plan,
                          const struct sk_stage *st, struct sk_err *err) {
    struct sk_sstage *s = &x->s[i];
    set_stage(s, plan, st);
    sk_list_init(&s->window);
    sk_list_init(&s->early);
    sk_list_init(&s->inner);
    sk_list_init(&s->ahead);
    if (x->conf.gathers) SK_TRY(x->conf.gathers->make(x->conf.gathers->arg, st, &s->gather, err));
    bool several = !s->gather && sk_stage_runs(s) && s->n_inputs > 1,
         pool = s->kind == SK_STAGE_ACTORS;
    if (several) s->sides = sk_calloc(TAG, s->n_inputs * sizeof *s->sides);
    if (pool) s->actors = sk_calloc(TAG, s->pool_max * sizeof *s->actors);
    if ((several && !s->sides) || (pool && !s->actors))
        return SK_ERR(err, SK_ENOMEM, "%s: no memory for the stage", s->label);
    if (!s->gather) return SK_OK;
    s->gather->x = x;
    s->gather->s = s;
    sk_list_init(&s->gather->held);
    sk_list_init(&s->gather->parked);
    return SK_OK;
}

sk_rc sk_step_create(const struct sk_plan *plan, const struct sk_stages *stages,
                     const struct sk_step_conf *conf, struct sk_step **out, struct sk_err *err) {
    struct sk_step *x = sk_calloc(TAG, sizeof *x);
    if (!x) return SK_ERR(err, SK_ENOMEM, "pipeline");
    x->conf = *conf;
    x->n = stages->n;
    x->mem.limit = conf->memory_bytes;
    x->cpu = (struct sk_slots){.total = conf->cpu_e4, .strict = conf->cpu_limited};
    x->gpu = (struct sk_slots){.total = conf->gpu_e4, .strict = conf->gpu_limited};
    sk_list_init(&x->cancelled);
    sk_map_init(&x->by_oid, TAG);
    sk_pool_init(&x->blks, TAG, sizeof(struct sk_blk));
    sk_pool_init(&x->bundles, TAG, sizeof(struct sk_bundle));
    sk_pool_init(&x->tasks, TAG, sizeof(struct sk_stask));
    x->s = sk_calloc(TAG, x->n * sizeof *x->s);
    x->view = sk_calloc(TAG, x->n * sizeof *x->view);
    x->why = sk_calloc(TAG, x->n * sizeof *x->why);
    x->facts = sk_calloc(TAG, x->n * sizeof *x->facts);
    x->policy_state = sk_calloc(TAG, conf->policy->state_bytes);
    if (!x->s || !x->view || !x->why || !x->facts || !x->policy_state ||
        !sk_vec_reserve(&x->acts, TAG, 64)) {
        sk_step_destroy(x);
        return SK_ERR(err, SK_ENOMEM, "pipeline of %u stages", stages->n);
    }
    for (uint32_t i = 0; i < x->n; i++) {
        sk_rc rc = create_stage(x, i, plan, &stages->s[i], err);
        if (rc == SK_OK) continue;
        sk_step_destroy(x);
        return rc;
    }
    set_ways(x);
    sk_view_init(x);
    *out = x;
    return SK_OK;
}

void sk_step_destroy(struct sk_step *x) {
    if (!x) return;
    for (uint32_t i = 0; x->s && i < x->n; i++) {
        sk_free(x->s[i].actors);
        sk_free(x->s[i].sides);
        if (x->s[i].gather) x->s[i].gather->ops->destroy(x->s[i].gather);
    }
    sk_free(x->s);
    sk_free(x->view);
    sk_free(x->why);
    sk_free(x->facts);
    sk_free(x->policy_state);
    sk_map_deinit(&x->by_oid);
    sk_pool_deinit(&x->blks);
    sk_pool_deinit(&x->bundles);
    sk_pool_deinit(&x->tasks);
    sk_vec_free(&x->slots);
    sk_vec_free(&x->free_slots);
    sk_vec_free(&x->acts);
    sk_free(x);
}

/* ---- can the machine run the plan? ----------------------------------------------------------- */

static int64_t amount(const struct sk_sstage *s, bool gpu) { return gpu ? s->gpu_e4 : s->cpu_e4; }

/* CPUs are shared in time, and GPUs between stages, too (pools.c): the stage that needs most must
 * fit alone, a pool with its least number of actors. */
static sk_rc fits(const struct sk_step *x, bool gpu, struct sk_err *err) {
    const char *unit = gpu ? "GPU" : "CPU";
    int64_t total = gpu ? x->conf.gpu_e4 : x->conf.cpu_e4;
    bool limited = gpu ? x->conf.gpu_limited : x->conf.cpu_limited;
    for (uint32_t i = 0; i < x->n; i++) {
        const struct sk_sstage *s = &x->s[i];
        int64_t a = amount(s, gpu), n = gpu && s->kind == SK_STAGE_ACTORS ? s->pool_min : 1;
        int64_t node = gpu ? x->conf.node_gpu_e4 : x->conf.node_cpu_e4;
        if (a * n <= total && (!node || a <= node)) continue;
        if (a * n <= total)
            return SK_ERR(err, SK_EINFEASIBLE,
                          "the pipeline can never run: %s needs %g %ss at the same place, and no "
                          "node has more than %g; use a smaller num_%s",
                          s->label, (double)a / 1e4, unit, (double)node / 1e4,
                          gpu ? "gpus" : "cpus");
        return SK_ERR(err, SK_EINFEASIBLE,
                      "the pipeline can never run: %s needs %lld %s%s x %g %s = %g %ss at the same "
                      "time, %s %g; use %sa smaller num_%s",
                      s->label, (long long)n, s->kind == SK_STAGE_ACTORS ? "actor" : "task",
                      n == 1 ? "" : "s", (double)a / 1e4, unit, (double)(a * n) / 1e4, unit,
                      limited ? "resource_limits allow" : "the machine has", (double)total / 1e4,
                      n > 1 ? "fewer actors (concurrency=) or " : "", gpu ? "gpus" : "cpus");
    }
    return SK_OK;
}

sk_rc sk_step_feasible(const struct sk_step *x, struct sk_err *err) {
    SK_TRY(fits(x, false, err));
    return fits(x, true, err);
}
