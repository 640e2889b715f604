/* plan.c - the logical DAG (append only, everything copied) and its translation into stages.
 *
 * Not here: what an operator does, or its name: rules and stages read properties only. exec runs
 * the stages.
 *
 * sk_plan_stages: expand the DAG to a tree -> rules (rule_limit.c, rule_fuse.c) -> stages in
 * topological order. The stages of a union's earlier inputs come behind those of later ones: so a
 * higher index means, for the scheduler, nearer to the output and earlier in the order of rows.
 * Cost: a few hundred ns a node; the units of sources are copied once, with their parameters. */
#include "plan/plan_int.h"

#define TAG SK_TAG_PLAN

sk_rc sk_plan_create(struct sk_plan **out, struct sk_err *err) {
    struct sk_plan *p = sk_calloc(TAG, sizeof *p);
    if (!p) return SK_ERR(err, SK_ENOMEM, "plan");
    sk_arena_init(&p->mem, TAG, 4096);
    *out = p;
    return SK_OK;
}

void sk_plan_destroy(struct sk_plan *p, void (*release_block)(void *ctx, uint64_t oid), void *ctx) {
    if (!p) return;
    for (uint32_t i = 0; release_block && i < p->nodes.n; i++)
        for (uint32_t b = 0; b < p->nodes.p[i]->d.n_blocks; b++)
            release_block(ctx, p->nodes.p[i]->d.blocks[b].oid);
    sk_vec_free(&p->nodes);
    sk_arena_deinit(&p->mem);
    sk_free(p);
}

void sk_plan_leave_out(struct sk_plan *p, uint32_t rules) { p->left_out = rules; }

uint32_t sk_plan_n_nodes(const struct sk_plan *p) { return p->nodes.n; }

const struct sk_plan_node *sk_plan_get(const struct sk_plan *p, uint32_t id) {
    return id < p->nodes.n ? p->nodes.p[id] : NULL;
}

/* Checks that packs go to exchanges and merges only, and that these get nothing else. */
static sk_rc check_packs(const struct sk_plan *p, const struct sk_node_desc *d, const char *name,
                         struct sk_err *err) {
    bool takes = (d->op->props & (SK_OP_EXCHANGE | SK_OP_MERGE)) != 0;
    for (uint32_t i = 0; i < d->n_inputs; i++) {
        const struct sk_node_desc *in = &p->nodes.p[d->inputs[i]]->d;
        if (in->op->props & d->op->props & SK_OP_MERGE)
            return SK_ERR(err, SK_EINVAL,
                          "%s: what is merged once goes to an exchange, and %s merges", name,
                          in->label);
        if (((in->op->props & SK_OP_PACKS) != 0) != takes)
            return SK_ERR(err, SK_EINVAL, "%s: %s, and %s gives %s", name,
                          takes ? "takes packs" : "takes blocks", in->label,
                          takes ? "blocks" : "packs");
    }
    if ((d->op->props & SK_OP_MERGE) &&
        (d->op->props & (SK_OP_PACKS | SK_OP_EXCHANGE)) != SK_OP_PACKS)
        return SK_ERR(err, SK_EINVAL, "%s: what merges gives packs, and is no exchange", name);
    if (d->exchange.n_partitions > SK_PARTITIONS_MAX)
        return SK_ERR(err, SK_EINVAL, "%s: %u partitions; %u are possible", name,
                      d->exchange.n_partitions, SK_PARTITIONS_MAX);
    if (d->exchange.spread && (d->exchange.cut || d->exchange.spread > d->n_inputs + 1))
        return SK_ERR(err, SK_EINVAL, "%s: input %u of %u cannot be shared by reduces%s", name,
                      d->exchange.spread, d->n_inputs,
                      d->exchange.cut ? ", as runs are cut anyway" : "");
    if (d->exchange.tells &&
        (!d->exchange.spread || d->n_inputs > 32 || (uint64_t)d->exchange.tells >> d->n_inputs))
        return SK_ERR(err, SK_EINVAL,
                      "%s: reduces that share an input tell of it; there is no such input in %#x",
                      name, d->exchange.tells);
    if (!(d->op->props & SK_OP_EXCHANGE) &&
        (d->exchange.cut || d->exchange.n_partitions || d->exchange.spread || d->exchange.tables ||
         d->exchange.strategy))
        return SK_ERR(err, SK_EINVAL, "%s: only an exchange has partitions, or a strategy", name);
    return SK_OK;
}

static sk_rc check_desc(const struct sk_plan *p, const struct sk_node_desc *d, struct sk_err *err) {
    if (!d->op || !d->op->name) return SK_ERR(err, SK_EINVAL, "add to a plan: no such operator");
    const char *name = d->label && d->label[0] ? d->label : d->op->name;
    uint32_t props = d->op->props, least = props & SK_OP_SOURCE ? 0 : props & SK_OP_ZIP ? 2 : 1;
    uint32_t most = props & SK_OP_UNION                    ? UINT32_MAX
                    : props & (SK_OP_ZIP | SK_OP_EXCHANGE) ? SK_PLAN_SIDES_MAX
                                                           : least;
    if (d->n_inputs < least || d->n_inputs > most)
        return SK_ERR(err, SK_EINVAL, "%s: takes %u to %u inputs, has %u", name, least, most,
                      d->n_inputs);
    for (uint32_t i = 0; i < d->n_inputs; i++)
        if (d->inputs[i] >= p->nodes.n)
            return SK_ERR(err, SK_EINVAL, "%s: input %u is node %u, the plan has %u", name, i,
                          d->inputs[i], p->nodes.n);
    for (uint32_t i = 0; d->parts && i < d->n_inputs; i++)
        if (!(props & SK_OP_ZIP) || !d->parts[i])
            return SK_ERR(err, SK_EINVAL,
                          "%s: input %u gives no rows of a round; only inputs side by side have "
                          "rounds",
                          name, i);
    if (!(props & SK_OP_SOURCE) && (d->n_units || d->n_blocks || d->feed))
        return SK_ERR(err, SK_EINVAL, "%s: only a source has units, blocks or a feed", name);
    if ((d->n_units > 0) + (d->n_blocks > 0) + (d->feed != NULL) > 1)
        return SK_ERR(err, SK_EINVAL, "%s: has several of units, blocks and a feed; give one",
                      name);
    if (d->feed && (!(props & SK_OP_NO_FUSE) || d->pool_max || d->cpu_e4 || d->gpu_e4))
        return SK_ERR(err, SK_EINVAL,
                      "%s: a feed runs in no worker, so it fuses with no operator and takes no "
                      "actors, CPUs or GPUs",
                      name);
    if ((props & SK_OP_LIMIT) && d->limit < 0)
        return SK_ERR(err, SK_EINVAL, "%s: negative limit %lld", name, (long long)d->limit);
    if ((props & (SK_OP_LIMIT | SK_OP_UNION)) && d->pool_max)
        return SK_ERR(err, SK_EINVAL, "%s: runs no tasks, so it can have no actors", name);
    if (d->pool_max && (d->pool_min > d->pool_max))
        return SK_ERR(err, SK_EINVAL,
                      "%s: pool of %u to %u actors; the least must not be more than the most", name,
                      d->pool_min, d->pool_max);
    if (d->cpu_e4 < 0 || d->gpu_e4 < 0)
        return SK_ERR(err, SK_EINVAL, "%s: negative amount of CPU or GPU", name);
    return check_packs(p, d, name, err);
}

/* Copies everything that d points to into the plan's arena. */
static bool copy_desc(struct sk_arena *m, struct sk_node_desc *d) {
    d->label = sk_arena_strdup(m, d->label && d->label[0] ? d->label : d->op->name);
    d->params.p = sk_arena_memdup(m, d->params.p, d->params.n);
    d->what.p = sk_arena_memdup(m, d->what.p, d->what.n);
    d->inputs = sk_arena_memdup(m, d->inputs, d->n_inputs * sizeof *d->inputs);
    if (d->parts) {
        d->parts = sk_arena_memdup(m, d->parts, d->n_inputs * sizeof *d->parts);
        if (!d->parts) return false;
    }
    d->blocks = sk_arena_memdup(m, d->blocks, d->n_blocks * sizeof *d->blocks);
    struct sk_unit *u = sk_arena_memdup(m, d->units, d->n_units * sizeof *u);
    d->units = u;
    struct sk_op *op = sk_arena_memdup(m, d->op, sizeof *op);
    d->op = op;
    bool ok = d->label && d->params.p && d->what.p && d->inputs && d->blocks && u && op &&
              (op->name = sk_arena_strdup(m, op->name));
    for (uint32_t i = 0; ok && i < d->n_units; i++) {
        u[i].params.p = sk_arena_memdup(m, u[i].params.p, u[i].params.n);
        ok = u[i].params.p;
    }
    return ok;
}

sk_rc sk_plan_add(struct sk_plan *p, const struct sk_node_desc *d, uint32_t *id,
                  struct sk_err *err) {
    SK_TRY(check_desc(p, d, err));
    struct sk_arena_mark mark = sk_arena_save(&p->mem);
    struct sk_plan_node *n = sk_arena_alloc(&p->mem, sizeof *n);
    sk_rc rc = SK_OK;
    if (!n || (*n = (struct sk_plan_node){p->nodes.n, *d}, !copy_desc(&p->mem, &n->d)))
        rc = SK_ERR(err, SK_ENOMEM, "add %s to a plan", d->op->name);
    if (rc == SK_OK && !sk_vec_push(&p->nodes, TAG, n))
        rc = SK_ERR(err, SK_ENOMEM, "add %s to a plan", d->op->name);
    if (rc != SK_OK) {
        sk_arena_restore(&p->mem, mark);
        return rc;
    }
    *id = n->id;
    return SK_OK;
}

/* ---- making stages --------------------------------------------------------------------------- */

static enum sk_stage_kind kind_of(const struct sk_node_desc *d) {
    if (d->op->props & SK_OP_LIMIT) return SK_STAGE_LIMIT;
    if (d->op->props & SK_OP_UNION) return SK_STAGE_UNION;
    if (d->n_blocks) return SK_STAGE_BLOCKS;
    return d->pool_max ? SK_STAGE_ACTORS : SK_STAGE_TASKS;
}

/* Appends the vertex of `root` and of all nodes that it needs, without recursion. */
static sk_rc expand(struct sk_tree *t, uint32_t root, struct sk_err *err) {
    struct todo {
        uint32_t node, parent, slot;
    };
    SK_VEC(struct todo) todo = {0};
    /* [nodes]: how many vertices each node has got that writes, or has a feed */
    SK_VEC(uint32_t) seen = {0};
    sk_rc rc = SK_OK;
    bool ok = sk_vec_push(&todo, TAG, ((struct todo){root, SK_VERT_NONE, 0})) &&
              sk_vec_reserve(&seen, TAG, t->plan->nodes.n);
    if (ok) memset(seen.p, 0, t->plan->nodes.n * sizeof *seen.p);
    while (ok && rc == SK_OK && todo.n) {
        struct todo at = sk_vec_pop(&todo);
        const struct sk_node_desc *d = &t->plan->nodes.p[at.node]->d;
        if (t->v.n >= SK_PLAN_STAGES_MAX) {
            rc = SK_ERR(err, SK_EINVAL,
                        "the plan needs more than %u steps (a dataset used twice is computed "
                        "twice); materialize() a part",
                        SK_PLAN_STAGES_MAX);
            break;
        }
        if (((d->op->props & SK_OP_WRITES) || d->feed) && seen.p[at.node]++) {
            rc = d->feed ? SK_ERR(err, SK_EINVAL,
                                  "%s is used twice, and can be read only once; put its rows into "
                                  "the store first",
                                  d->label)
                         : SK_ERR(err, SK_EINVAL,
                                  "%s is used twice, so it would write twice; materialize() it "
                                  "first",
                                  d->label);
            break;
        }
        struct sk_vert v = {.kind = kind_of(d),
                            .parent = at.parent,
                            .n_in = d->n_inputs,
                            .n_nodes = 1,
                            .cap_rows = -1,
                            .limit = d->limit,
                            .props = d->op->props};
        v.in = sk_arena_alloc(t->mem, v.n_in * sizeof *v.in);
        v.nodes = sk_arena_memdup(t->mem, &at.node, sizeof at.node);
        uint32_t i = t->v.n;
        ok = v.in && v.nodes && sk_vec_push(&t->v, TAG, v);
        if (ok && at.parent != SK_VERT_NONE) t->v.p[at.parent].in[at.slot] = i;
        for (uint32_t k = 0; ok && k < d->n_inputs; k++)
            ok = sk_vec_push(&todo, TAG, ((struct todo){d->inputs[k], i, k}));
    }
    sk_vec_free(&todo);
    sk_vec_free(&seen);
    return rc != SK_OK ? rc
           : ok        ? SK_OK
                       : SK_ERR(err, SK_ENOMEM, "plan of %u nodes", t->plan->nodes.n);
}

static char *chain_label(struct sk_arena *m, const struct sk_plan *p, const struct sk_vert *v) {
    size_t n = 1;
    for (uint32_t i = 0; i < v->n_nodes; i++) n += strlen(p->nodes.p[v->nodes[i]]->d.label) + 2;
    char *s = sk_arena_alloc(m, n), *at = s;
    for (uint32_t i = 0; s && i < v->n_nodes; i++) {
        const char *l = p->nodes.p[v->nodes[i]]->d.label;
        if (i) at = memcpy(at, "->", 2), at += 2;
        memcpy(at, l, strlen(l));
        at += strlen(l);
    }
    if (s) *at = 0;
    return s;
}

/* Puts the vertices into post-order, visiting the last input first: order[i] is the vertex of stage
 * i, at[v] the stage of vertex v. */
static uint32_t post_order(const struct sk_tree *t, uint32_t *order, uint32_t *at) {
    uint32_t n = 0;
    uint32_t *next = at; /* until a vertex is put in order: how many of its inputs were visited */
    memset(next, 0, t->v.n * sizeof *next);
    for (uint32_t v = t->root; v != SK_VERT_NONE;) {
        const struct sk_vert *x = &t->v.p[v];
        if (next[v] < x->n_in) {
            v = x->in[x->n_in - 1 - next[v]++];
        } else {
            order[n] = v;
            at[v] = n++;
            v = x->parent;
        }
    }
    return n;
}

static bool emit_stages(const struct sk_tree *t, struct sk_arena *m, struct sk_stages *out) {
    uint32_t *order = sk_arena_alloc(m, t->v.n * sizeof *order),
             *at = sk_arena_alloc(m, t->v.n * sizeof *at);
    if (!order || !at) return false;
    uint32_t n = post_order(t, order, at);
    struct sk_stage *s = sk_arena_calloc(m, n * sizeof *s);
    for (uint32_t i = 0; s && i < n; i++) {
        const struct sk_vert *v = &t->v.p[order[i]];
        uint32_t *in = sk_arena_alloc(m, v->n_in * sizeof *in);
        for (uint32_t k = 0; in && k < v->n_in; k++) in[k] = at[v->in[k]];
        s[i] =
            (struct sk_stage){.kind = v->kind,
                              .n_nodes = v->n_nodes,
                              .nodes = sk_arena_memdup(m, v->nodes, v->n_nodes * sizeof *v->nodes),
                              .n_inputs = v->n_in,
                              .inputs = in,
                              .cap_rows = v->cap_rows,
                              .limit = v->kind == SK_STAGE_LIMIT ? v->limit : -1,
                              .writes = v->props & SK_OP_WRITES,
                              .label = chain_label(m, t->plan, v),
                              .props = v->props,
                              .exchange = t->plan->nodes.p[v->nodes[0]]->d.exchange};
        if (!in || !s[i].nodes || !s[i].label) return false;
    }
    out->s = s;
    out->n = n;
    return s != NULL;
}

sk_rc sk_plan_stages(const struct sk_plan *p, uint32_t root, struct sk_stages *out,
                     struct sk_err *err) {
    if (root >= p->nodes.n)
        return SK_ERR(err, SK_EINVAL, "stages of node %u: the plan has %u nodes", root, p->nodes.n);
    if (p->nodes.p[root]->d.op->props & SK_OP_PACKS)
        return SK_ERR(err, SK_EINVAL, "%s: gives packs, which only an exchange can take",
                      p->nodes.p[root]->d.label);
    struct sk_arena scratch, *m = sk_calloc(TAG, sizeof *m);
    if (!m) return SK_ERR(err, SK_ENOMEM, "stages");
    sk_arena_init(m, TAG, 4096);
    sk_arena_init(&scratch, TAG, 4096);
    struct sk_tree t = {.plan = p, .mem = &scratch};
    struct sk_stages s = {.mem = m};
    sk_rc rc = SK_OK;
    SK_GO(expand(&t, root, err));
    if (!(p->left_out & SK_RULE_LIMIT)) sk_rule_limit(&t);
    if (!(p->left_out & SK_RULE_FUSE)) SK_GO(sk_rule_fuse(&t, err));
    if (!emit_stages(&t, m, &s)) rc = SK_ERR(err, SK_ENOMEM, "%u stages", t.v.n);
out:
    sk_vec_free(&t.v);
    sk_arena_deinit(&scratch);
    if (rc == SK_OK) *out = s;
    else sk_stages_free(&s);
    return rc;
}

void sk_stages_free(struct sk_stages *s) {
    if (s->mem) {
        sk_arena_deinit(s->mem);
        sk_free(s->mem);
    }
    *s = (struct sk_stages){0};
}
