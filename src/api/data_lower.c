/* data_lower.c - makes the plan of a run from the nodes of a dataset. A node that several others
 * use runs once. */
#include "api/data_int.h"
#include "base/mem.h"
#include "base/containers/vec.h"

#define TAG SK_TAG_PLAN

struct done {
    const skate_dataset *ds;
    uint32_t id;
    /* what is known of the node's batches before the run, in the form of sk_schema_nullable: their
     * schema, and another one that some of them have; NULL: unknown, none */
    const struct sk_schema *schema, *other;
};
struct lowering {
    struct sk_engine *e;
    struct sk_plan *plan;
    struct sk_dataset_run *run; /* NULL: the plan will not run */
    const struct sk_shuffle_ops *strategy;
    SK_VEC(struct done) done;
    SK_VEC(skate_dataset *) stack;
};

static const struct done *found(const struct lowering *l, const skate_dataset *ds) {
    for (uint32_t i = l->done.n; i--;)
        if (l->done.p[i].ds == ds) return &l->done.p[i];
    return NULL;
}

/* The resources of a node, as those of a description. An actor keeps for life what it has but for
 * its CPUs (exec.h). */
static sk_rc resources(const struct lowering *l, const skate_dataset *ds, struct sk_node_desc *d,
                       struct sk_err *err) {
    bool plain = ds->cpus == 1 && ds->gpus == 0 && ds->n_resources == 0 && !ds->pool_max;
    d->cpu_e4 = (int64_t)(ds->cpus * SK_RES_UNIT + 0.5);
    d->gpu_e4 = (int64_t)(ds->gpus * SK_RES_UNIT + 0.5);
    d->pool_min = ds->pool_min;
    d->pool_max = ds->pool_max;
    d->max_tasks = ds->max_tasks;
    if (ds->max_retries)
        d->retries = (struct sk_times){true, ds->max_retries == -2 ? 0 : ds->max_retries};
    if (plain) return SK_OK;
    struct sk_api_amounts a = {.cpus = ds->pool_max ? 0 : ds->cpus,
                               .gpus = ds->gpus,
                               .resources = ds->resources,
                               .n_resources = ds->n_resources};
    return sk_api_shape(l->e, &a, &d->shape, err);
}

/* Notes what is known of the schemas of a node, whose inputs are noted already. */
static void note_schemas(const struct lowering *l, struct done *d) {
    const skate_dataset *ds = d->ds;
    if (ds->blocks) d->schema = ds->blocks->schema;
    /* operators that change no column */
    if (!ds->watch && !(ds->props & (SK_OP_UNION | SK_OP_LIMIT))) return;
    for (uint32_t i = 0; i < ds->n_inputs && !d->other; i++) {
        const struct done *in = found(l, ds->inputs[i]);
        if (!d->schema) d->schema = in->schema;
        d->other = in->other;
        if (d->schema && in->schema && !sk_block_same_schema(&d->schema->s, &in->schema->s))
            d->other = in->schema;
    }
}

/* An exchange moves rows of one schema, unless its map picks columns. */
static sk_rc one_schema(const skate_dataset *ds, uint32_t side, const struct done *in,
                        struct sk_err *err) {
    char a[400], b[400];
    if (!in->other || ds->exchange->map_params[side].n) return SK_OK;
    (void)sk_block_schema_text(&in->schema->s, a, sizeof a);
    (void)sk_block_schema_text(&in->other->s, b, sizeof b);
    return SK_ERR(err, SK_EINVAL,
                  "%s: its input %s has batches of two schemas, (%s) and (%s)%s: cast them to one "
                  "before it",
                  ds->label, in->ds->label, a, b,
                  strcmp(a, b) ? "" : ", whose metadata or flags differ");
}

/* Adds the map of an exchange's input, and a merge if the strategy may merge. */
static sk_rc add_map(struct lowering *l, const skate_dataset *ds, uint32_t side, uint32_t *id,
                     struct sk_err *err) {
    const struct sk_dataset_exchange *x = ds->exchange;
    const skate_dataset *in = ds->inputs[side];
    while (in->watch) in = in->inputs[0];
    const struct sk_shuffle_ops *by = x->desc.strategy ? x->desc.strategy : l->strategy;
    struct sk_op op = {x->map_op, SK_OP_PACKS | x->map_props};
    struct sk_bytes what = x->map_what[side];
    struct sk_node_desc d = {.op = &op,
                             .label = x->map_label,
                             .params = x->map_params[side],
                             .what = what,
                             .inputs = id,
                             .n_inputs = 1,
                             .limit = -1,
                             .cpu_e4 = SK_RES_UNIT};
    /* The resources of its input, so that the two fuse; but a map needs no actors of its own. */
    if (!in->pool_max) SK_TRY(resources(l, in, &d, err));
    SK_TRY(sk_plan_add(l->plan, &d, id, err));
    if (!by || !by->merges) return SK_OK;
    struct sk_op merge = {"exchange_merge", SK_OP_PACKS | SK_OP_MERGE};
    struct sk_node_desc m = {.op = &merge,
                             .label = "ExchangeMerge",
                             .what = what,
                             .inputs = id,
                             .n_inputs = 1,
                             .limit = -1,
                             .cpu_e4 = SK_RES_UNIT};
    return sk_plan_add(l->plan, &m, id, err);
}

/* Gives the plan existing blocks: d gets a reference to each, which the plan takes over. */
static sk_rc add_blocks(const struct lowering *l, const skate_dataset *ds, struct sk_node_desc *d,
                        struct sk_err *err) {
    struct sk_dataset_blocks *b = ds->blocks;
    if (b->n && b->engine != sk_api_number(l->e))
        return sk_api_numbered(b->engine)
                   ? SK_ERR(err, SK_EINVAL,
                            "%s: its batches are in another engine, where the dataset was made: "
                            "skate_use that one",
                            ds->label)
                   : SK_ERR(err, SK_ECLOSED, "%s: its batches were in an engine that was shut down",
                            ds->label);
    d->blocks = b->refs;
    d->n_blocks = b->n;
    for (uint32_t i = 0; i < b->n; i++) l->e->ops->retain(l->e, (sk_oid){b->refs[i].oid});
    return SK_OK;
}

/* The feed of a stream. */
static sk_rc feed_of(const struct lowering *l, skate_dataset *ds, struct sk_feed **out,
                     struct sk_err *err) {
    static struct sk_feed none; /* of plans that are only shown */
    *out = &none;
    return l->run ? sk_feeder_create(ds, l->e, &l->run->feeders, out, err) : SK_OK;
}

static sk_rc add_done(struct lowering *l, const skate_dataset *ds, uint32_t id,
                      struct sk_err *err) {
    struct done done = {.ds = ds, .id = id};
    note_schemas(l, &done);
    return sk_vec_push(&l->done, TAG, done) ? SK_OK
                                            : SK_ERR(err, SK_ENOMEM, "no memory for a plan");
}

static sk_rc add_node(struct lowering *l, skate_dataset *ds, struct sk_err *err) {
    if (ds->watch) {
        if (l->run) l->run->watch = ds->watch;
        return add_done(l, ds, found(l, ds->inputs[0])->id, err);
    }
    struct sk_op op = {ds->op, ds->props};
    uint32_t *inputs = sk_alloc(TAG, (ds->n_inputs + 1) * sizeof *inputs);
    uint32_t id = 0;
    if (!inputs) return SK_ERR(err, SK_ENOMEM, "no memory for a plan");
    struct sk_node_desc d = {.op = &op,
                             .label = ds->label,
                             .params = ds->params,
                             .what = ds->what,
                             .inputs = inputs,
                             .n_inputs = ds->n_inputs,
                             .limit = ds->limit,
                             .batch_rows = ds->batch_rows,
                             .units = ds->units,
                             .n_units = ds->n_units};
    sk_rc rc = ds->stream ? feed_of(l, ds, &d.feed, err) : resources(l, ds, &d, err);
    for (uint32_t i = 0; rc == SK_OK && i < ds->n_inputs; i++) {
        inputs[i] = found(l, ds->inputs[i])->id;
        if (ds->exchange) rc = one_schema(ds, i, found(l, ds->inputs[i]), err);
        if (ds->exchange && rc == SK_OK) rc = add_map(l, ds, i, &inputs[i], err);
    }
    if (ds->exchange) d.exchange = ds->exchange->desc;
    if (rc == SK_OK && ds->blocks) rc = add_blocks(l, ds, &d, err);
    if (rc == SK_OK) {
        rc = sk_plan_add(l->plan, &d, &id, err);
        for (uint32_t i = 0; rc != SK_OK && i < d.n_blocks; i++)
            l->e->ops->release(l->e, (sk_oid){d.blocks[i].oid});
    }
    sk_free(inputs);
    return rc == SK_OK ? add_done(l, ds, id, err) : rc;
}

static void release_block(void *e, uint64_t oid) {
    ((struct sk_engine *)e)->ops->release(e, (sk_oid){oid});
}

sk_rc sk_dataset_lower(skate_dataset *ds, struct sk_engine *e,
                       const struct sk_shuffle_ops *strategy, struct sk_dataset_run *run,
                       struct sk_plan **plan, uint32_t *root, struct sk_err *err) {
    struct lowering l = {.e = e, .strategy = strategy, .run = run};
    SK_TRY(sk_plan_create(&l.plan, err));
    sk_rc rc = sk_vec_push(&l.stack, TAG, ds) ? SK_OK : SK_ENOMEM;
    while (rc == SK_OK && l.stack.n) {
        skate_dataset *top = l.stack.p[l.stack.n - 1];
        uint32_t before = l.stack.n;
        for (uint32_t i = top->n_inputs; !found(&l, top) && rc == SK_OK && i--;)
            if (!found(&l, top->inputs[i]) && !sk_vec_push(&l.stack, TAG, top->inputs[i]))
                rc = SK_ENOMEM;
        if (rc != SK_OK || l.stack.n != before) continue;
        if (!found(&l, top)) rc = add_node(&l, top, err);
        l.stack.n--;
    }
    if (rc == SK_ENOMEM) SK_ERR(err, SK_ENOMEM, "no memory for a plan");
    if (rc == SK_OK) {
        *plan = l.plan;
        *root = found(&l, ds)->id;
    } else {
        sk_plan_destroy(l.plan, release_block, e);
    }
    sk_vec_free(&l.done);
    sk_vec_free(&l.stack);
    return rc;
}
