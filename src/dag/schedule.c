/* schedule.c - makes the operation lists of a graph's actors: a walk over the nodes, in order,
 * appends each operation to its actor's list. The walk is done twice: first to count the
 * operations, then to write them.
 *
 * Not here: running the lists. The cost is nodes times edges, once for each compilation. */
#include "dag/schedule.h"

#include "base/mem.h"

struct walk {
    const struct sk_dag_graph *g;
    struct sk_dag_op *ops; /* NULL: this walk only counts */
    /* [actors]: number of operations counted so far, then the index of the actor's next
     * operation */
    uint32_t *at;
};

static void give(struct walk *w, uint32_t actor, enum sk_dag_kind kind, uint32_t node,
                 uint32_t peer) {
    SK_DCHECK(actor < w->g->n_actors);
    uint32_t i = w->at[actor]++;
    if (w->ops) w->ops[i] = (struct sk_dag_op){.kind = kind, .node = node, .peer = peer};
}

static bool by_channel(const struct sk_dag_graph *g, const struct sk_dag_edge *e) {
    return !e->meets && g->actor[e->from] != g->actor[e->to];
}

/* True for the first edge of its kind between its node and its reader's actor; only that edge has
 * an operation. */
static bool is_first(const struct sk_dag_graph *g, uint32_t edge) {
    const struct sk_dag_edge *e = &g->edges[edge];
    for (uint32_t i = 0; i < g->n_edges; i++) {
        const struct sk_dag_edge *o = &g->edges[i];
        if (o->from != e->from || g->actor[o->to] != g->actor[e->to] || o->meets != e->meets)
            continue;
        if (o->to < e->to || (o->to == e->to && i < edge)) return false;
    }
    return true;
}

static void read_inputs(struct walk *w, uint32_t node) {
    const struct sk_dag_graph *g = w->g;
    for (uint32_t i = 0; i < g->n_edges; i++) {
        const struct sk_dag_edge *e = &g->edges[i];
        if (e->to == node && by_channel(g, e) && is_first(g, i))
            give(w, g->actor[node], SK_DAG_READ, e->from, g->actor[e->from]);
    }
}

static void hand_on(struct walk *w, uint32_t node) {
    const struct sk_dag_graph *g = w->g;
    uint32_t mine = g->actor[node];
    bool written = false;
    for (uint32_t i = 0; i < g->n_edges; i++) {
        const struct sk_dag_edge *e = &g->edges[i];
        if (e->from != node || !by_channel(g, e)) continue;
        if (!written) give(w, mine, SK_DAG_WRITE, node, mine);
        written = true;
        if (g->overlap && is_first(g, i)) give(w, g->actor[e->to], SK_DAG_READ, node, mine);
    }
    for (uint32_t i = 0; i < g->n_edges; i++) {
        const struct sk_dag_edge *e = &g->edges[i];
        if (e->from != node || !e->meets || g->actor[e->to] == mine || !is_first(g, i)) continue;
        give(w, mine, SK_DAG_SEND, node, g->actor[e->to]);
        give(w, g->actor[e->to], SK_DAG_RECV, node, mine);
    }
}

static void walk(struct walk *w) {
    for (uint32_t n = 0; n < w->g->n_nodes; n++) {
        if (!w->g->overlap) read_inputs(w, n);
        give(w, w->g->actor[n], SK_DAG_COMPUTE, n, w->g->actor[n]);
        hand_on(w, n);
    }
}

sk_rc sk_dag_schedule(struct sk_dag_plan *out, const struct sk_dag_graph *g, struct sk_err *err) {
    for (uint32_t n = 0; n < g->n_nodes; n++)
        if (g->actor[n] >= g->n_actors)
            return SK_ERR(err, SK_EINVAL, "schedule a graph: node %u is on actor %u of %u", n,
                          g->actor[n], g->n_actors);
    for (uint32_t i = 0; i < g->n_edges; i++) {
        uint32_t from = g->edges[i].from, to = g->edges[i].to;
        if (from >= g->n_nodes || to >= g->n_nodes)
            return SK_ERR(err, SK_EINVAL, "schedule a graph: an edge from %u to %u of %u nodes",
                          from, to, g->n_nodes);
        if (from >= to)
            return SK_ERR(err, SK_EINVAL,
                          "schedule a graph: node %u takes the value of node %u, which is not "
                          "before it: a cycle",
                          to, from);
    }
    uint32_t n_ops = 0, *first = sk_calloc(SK_TAG_PLAN, (g->n_actors + 1) * sizeof *first);
    if (!first) return SK_ERR(err, SK_ENOMEM, "schedule a graph of %u actors", g->n_actors);
    struct walk count = {.g = g, .at = first};
    walk(&count);
    for (uint32_t a = 0; a <= g->n_actors; a++) { /* counts become start indices */
        uint32_t n = first[a];
        first[a] = n_ops;
        n_ops += n;
    }
    struct walk fill = {.g = g,
                        .ops = sk_calloc(SK_TAG_PLAN, (n_ops + 1) * sizeof *fill.ops),
                        .at = sk_memdup(SK_TAG_PLAN, first, (g->n_actors + 1) * sizeof *first)};
    if (!fill.ops || !fill.at) {
        sk_free(fill.ops);
        sk_free(fill.at);
        sk_free(first);
        return SK_ERR(err, SK_ENOMEM, "schedule a graph of %u operations", n_ops);
    }
    walk(&fill);
    for (uint32_t a = 0; a < g->n_actors; a++) SK_ASSERT(fill.at[a] == first[a + 1]);
    sk_free(fill.at);
    *out = (struct sk_dag_plan){.ops = fill.ops, .first = first};
    return SK_OK;
}

void sk_dag_plan_deinit(struct sk_dag_plan *p) {
    sk_free(p->ops);
    sk_free(p->first);
    *p = (struct sk_dag_plan){0};
}
