/* owner.c - a compiled graph in the process that compiled it: its memory, the plans of its
 * actors, executions and their results, its end.
 *
 * Nodes are numbered for src/dag: 0 is the input, 1 + i is node i of the caller, and the last one
 * takes the outputs. Actors are numbered in the order of their first nodes. Thread-safety: one
 * thread writes `in` and `executed`, one reads `out` and writes `taken`. */
#include <stdio.h>
#include <stdlib.h>

#include "api/graph/graph_int.h"
#include "base/atomic.h"
#include "base/mem.h"
#include "base/wire.h"

enum { DEFAULT_EXECUTIONS = 16, MAX_EXECUTIONS = 1000, MAX_NODES = 100000, FIRST_BUFFER = 64 };

struct output {
    struct sk_chan_end end;
    struct sk_chan_msg msg;
    bool has; /* msg was read and not released */
};

struct skate_graph {
    struct sk_graph_memory memory; /* must be first: it is the context of the pool */
    struct sk_chan_pool pool;
    uint64_t engine;          /* number of the engine */
    struct sk_dag_head *head; /* NULL: not made yet */
    uint8_t *base;
    struct sk_dag_plan plan;
    skate_actor *actors; /* handles of the graph's own */
    uint32_t n_actors, n_kept, n_nodes, n_out, n_cells;
    struct sk_chan_end in;
    struct output *out;
    _Atomic uint64_t executed, taken;
    bool shows; /* the caller may use the messages of `out`, which are passed */
};

/* A graph while it is compiled: the caller's nodes in the numbers of src/dag. */
struct numbers {
    const struct skate_node *nodes;
    uint32_t n, n_edges;
    uint32_t *actor; /* [n + 2] */
    struct sk_dag_edge *edges;
};

/* ---- checks ---------------------------------------------------------------------------------- */

static sk_rc check_node(const struct skate_node *nodes, size_t i, bool *used, struct sk_err *err) {
    const struct skate_node *d = &nodes[i];
    struct sk_api_fn *fn;
    const char *name = d->name ? d->name : "(null)";
    if (!d->actor.id)
        return SK_ERR(err, SK_EINVAL, "node %zu (%s) of a graph has no actor", i, name);
    if (!d->args || !d->n_args)
        return SK_ERR(err, SK_EINVAL,
                      "node %zu (%s) of a graph takes nothing: give it the value of a node, or "
                      "SKATE_INPUT",
                      i, name);
    for (size_t k = 0; k < d->n_args; k++) {
        if (d->args[k] != SKATE_INPUT && d->args[k] >= i)
            return SK_ERR(err, SK_EINVAL,
                          "argument %zu of node %zu (%s) of a graph is node %u, which is not "
                          "before it",
                          k, i, name, d->args[k]);
        if (d->args[k] != SKATE_INPUT) used[d->args[k]] = true;
    }
    return sk_api_fn_find(name, &fn, err);
}

static sk_rc check(const struct skate_node *nodes, size_t n, const uint32_t *outputs,
                   size_t n_outputs, struct sk_err *err) {
    if (!nodes || !n || n > MAX_NODES || !outputs || !n_outputs)
        return SK_ERR(err, SK_EINVAL,
                      "a graph has from 1 to %d nodes, of which at least one is an output, not %zu "
                      "and %zu",
                      MAX_NODES, n, n_outputs);
    bool *used = sk_calloc(SK_TAG_PLAN, 2 * n);
    if (!used) return SK_ERR(err, SK_ENOMEM, "no memory for a graph of %zu nodes", n);
    bool *is_output = used + n;
    sk_rc rc = SK_OK;
    for (size_t i = 0; rc == SK_OK && i < n; i++) rc = check_node(nodes, i, used, err);
    for (size_t i = 0; rc == SK_OK && i < n_outputs; i++) {
        if (outputs[i] >= n)
            rc =
                SK_ERR(err, SK_EINVAL, "output %zu of a graph is node %u of %zu", i, outputs[i], n);
        else if (is_output[outputs[i]])
            rc = SK_ERR(err, SK_EINVAL, "node %u is an output of a graph twice", outputs[i]);
        else is_output[outputs[i]] = true;
    }
    for (size_t i = 0; rc == SK_OK && i < n; i++)
        if (!used[i] && !is_output[i])
            rc = SK_ERR(err, SK_EINVAL,
                        "nothing takes the value of node %zu (%s) of a graph: make it an output", i,
                        nodes[i].name);
    sk_free(used);
    return rc;
}

/* ---- compiling ------------------------------------------------------------------------------- */

static void number_actors(skate_graph *g, struct numbers *k) {
    for (uint32_t i = 0; i < k->n; i++) {
        uint32_t a = 0;
        while (a < g->n_actors && g->actors[a].id != k->nodes[i].actor.id) a++;
        if (a == g->n_actors) g->actors[g->n_actors++] = k->nodes[i].actor;
        k->actor[1 + i] = a;
    }
    k->actor[0] = g->n_actors;
    k->actor[1 + k->n] = g->n_actors + 1;
}

static sk_rc number(skate_graph *g, struct numbers *k, const uint32_t *outputs,
                    struct sk_err *err) {
    size_t n_edges = g->n_out;
    for (uint32_t i = 0; i < k->n; i++) n_edges += k->nodes[i].n_args;
    k->actor = sk_calloc(SK_TAG_PLAN, (k->n + 2) * sizeof *k->actor);
    k->edges = sk_calloc(SK_TAG_PLAN, n_edges * sizeof *k->edges);
    g->actors = sk_calloc(SK_TAG_PLAN, k->n * sizeof *g->actors);
    g->out = sk_calloc(SK_TAG_PLAN, g->n_out * sizeof *g->out);
    if (!k->actor || !k->edges || !g->actors || !g->out)
        return SK_ERR(err, SK_ENOMEM, "no memory for a graph of %u nodes", k->n);
    number_actors(g, k);
    for (uint32_t i = 0; i < k->n; i++)
        for (size_t a = 0; a < k->nodes[i].n_args; a++) {
            uint32_t from = k->nodes[i].args[a];
            k->edges[k->n_edges++] =
                (struct sk_dag_edge){.from = from == SKATE_INPUT ? 0 : 1 + from, .to = 1 + i};
        }
    for (uint32_t i = 0; i < g->n_out; i++)
        k->edges[k->n_edges++] = (struct sk_dag_edge){.from = 1 + outputs[i], .to = 1 + k->n};
    struct sk_dag_graph d = {.n_nodes = g->n_nodes,
                             .n_actors = g->n_actors + 2,
                             .n_edges = k->n_edges,
                             .actor = k->actor,
                             .edges = k->edges};
    return sk_dag_schedule(&g->plan, &d, err);
}

/* Allocates and formats the graph's memory, and gives each channel its first buffer. */
static sk_rc make(skate_graph *g, const struct numbers *k, struct sk_err *err) {
    struct sk_engine *e = g->memory.e;
    uint64_t size, cap, *ids = sk_calloc(SK_TAG_PLAN, g->n_actors * sizeof *ids);
    if (!ids) return SK_ERR(err, SK_ENOMEM, "no memory for a graph");
    for (uint32_t i = 0; i < g->n_actors; i++) ids[i] = g->actors[i].id;
    struct sk_dag_shape s = {.n_actors = g->n_actors,
                             .n_nodes = g->n_nodes,
                             .n_edges = k->n_edges,
                             .actor = k->actor,
                             .edges = k->edges,
                             .ids = ids,
                             .n_cells = g->n_cells,
                             .n_bufs = g->n_cells + 2};
    sk_off off = 0;
    uint64_t bytes = sk_dag_bytes(&s, err);
    sk_rc rc = bytes ? e->channels->open(e, &g->memory.graph, err) : SK_EINVAL;
    g->base = e->channels->memory(e, &size);
    s.id = g->memory.graph;
    if (rc == SK_OK) rc = sk_graph_alloc(&g->memory, bytes, &off, &cap, err);
    if (rc == SK_OK) rc = sk_dag_create(g->base + off, &s, err);
    sk_free(ids);
    if (rc != SK_OK) return rc;
    g->head = (struct sk_dag_head *)(void *)(g->base + off);
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        struct sk_chan_end w;
        void *room, *c = sk_dag_channel(g->head, i);
        if (!c) continue;
        SK_TRY(sk_chan_attach(&w, c, SK_CHAN_WRITER, g->base, size, &g->pool, err));
        SK_TRY(sk_chan_reserve(&w, FIRST_BUFFER, INT64_MAX, &room, err));
        if (i == 0) g->in = w;
    }
    return SK_OK;
}

static sk_rc attach(skate_graph *g, const uint32_t *outputs, struct sk_err *err) {
    uint64_t size;
    uint8_t *base = g->memory.e->channels->memory(g->memory.e, &size);
    for (uint32_t i = 0; i < g->n_out; i++) {
        uint32_t node = 1 + outputs[i], r = sk_dag_reader(g->head, node, g->n_actors + 1);
        SK_ASSERT(r != SK_DAG_NONE);
        SK_TRY(sk_chan_attach(&g->out[i].end, sk_dag_channel(g->head, node), r, base, size, NULL,
                              err));
        /* messages that were written before the graph ended can still be read */
        g->out[i].end.drains = true;
    }
    return SK_OK;
}

/* Writes the plan of an actor (graph_int.h). */
static size_t write_plan(const skate_graph *g, const struct numbers *k, uint32_t a, void *buf,
                         size_t cap) {
    struct sk_wr w = sk_wr_init(buf, cap);
    const struct sk_dag_op *op = &g->plan.ops[g->plan.first[a]];
    uint32_t n_ops = g->plan.first[a + 1] - g->plan.first[a], n_calls = 0;
    for (uint32_t i = 0; i < n_ops; i++) n_calls += op[i].kind == SK_DAG_COMPUTE;
    sk_wr_u64(&w, g->memory.graph);
    sk_wr_u64(&w, (uint64_t)((uint8_t *)sk_dag_seat(g->head, a) - g->base));
    sk_wr_u32(&w, g->n_nodes);
    sk_wr_u32(&w, n_ops);
    sk_wr_u32(&w, n_ops - n_calls);
    sk_wr_u32(&w, n_calls);
    for (uint32_t i = 0; i < n_ops; i++) {
        sk_wr_u32(&w, op[i].kind);
        sk_wr_u32(&w, op[i].node);
    }
    for (uint32_t i = 0; i < n_ops; i++) {
        if (op[i].kind == SK_DAG_COMPUTE) continue;
        sk_wr_u64(&w, (uint64_t)((uint8_t *)sk_dag_channel(g->head, op[i].node) - g->base));
        sk_wr_u32(&w, op[i].node);
        sk_wr_u32(&w, op[i].kind == SK_DAG_WRITE ? SK_CHAN_WRITER
                                                 : sk_dag_reader(g->head, op[i].node, a));
    }
    for (uint32_t i = 0; i < n_ops; i++) {
        if (op[i].kind != SK_DAG_COMPUTE) continue;
        const struct skate_node *d = &k->nodes[op[i].node - 1];
        sk_wr_u32(&w, op[i].node);
        sk_wr_str(&w, d->name);
        sk_wr_u32(&w, (uint32_t)d->n_args);
        for (size_t x = 0; x < d->n_args; x++)
            sk_wr_u32(&w, d->args[x] == SKATE_INPUT ? 0 : 1 + d->args[x]);
    }
    return w.n;
}

/* Starts the loops of all actors; waits until they have begun. */
static sk_rc begin(skate_graph *g, const struct numbers *k, struct sk_err *err) {
    sk_rc rc = SK_OK;
    skate_ref *began = sk_calloc(SK_TAG_PLAN, g->n_actors * sizeof *began);
    if (!began) return SK_ERR(err, SK_ENOMEM, "no memory for a graph");
    for (uint32_t a = 0; rc == SK_OK && a < g->n_actors; a++) {
        size_t n = write_plan(g, k, a, NULL, 0);
        void *plan = sk_alloc(SK_TAG_PLAN, n);
        if (!plan) {
            rc = SK_ERR(err, SK_ENOMEM, "no memory for a graph");
            break;
        }
        (void)write_plan(g, k, a, plan, n);
        rc = skate_actor_call(g->actors[a], sk_api_graph_begin, &SKATE_BYTES(plan, n), 1, 1, NULL,
                              &began[a]);
        sk_free(plan);
    }
    for (uint32_t a = 0; a < g->n_actors; a++) {
        struct skate_value v;
        if (rc == SK_OK && (rc = skate_get(began[a], -1, &v)) == SK_OK) skate_value_release(&v);
        if (began[a].id) {
            struct sk_err keep = *err; /* a release must not change the message */
            skate_release(began[a]);
            *err = keep;
        }
    }
    sk_free(began);
    return rc;
}

static sk_rc compile(skate_graph *g, struct numbers *k, const uint32_t *outputs,
                     struct sk_err *err) {
    SK_TRY(number(g, k, outputs, err));
    for (; g->n_kept < g->n_actors; g->n_kept++) {
        struct sk_engine *e = g->memory.e;
        sk_actor_retain(e, (sk_aid){g->actors[g->n_kept].id});
        e->ops->retain(e, (sk_oid){g->actors[g->n_kept].ready});
    }
    SK_TRY(make(g, k, err));
    SK_TRY(attach(g, outputs, err));
    return begin(g, k, err);
}

int skate_graph_compile(const struct skate_node *nodes, size_t n, const uint32_t *outputs,
                        size_t n_outputs, const struct skate_graph_opts *o, skate_graph **out) {
    struct sk_err *err = sk_api_err();
    struct sk_engine *e = NULL;
    for (size_t i = 0; nodes && i < n && n <= MAX_NODES; i++)
        SK_TRY(sk_api_join(&e, nodes[i].actor.id));
    if (!e && !(e = sk_api_engine())) return SK_ECLOSED;
    if (sk_api_in_worker() || !e->channels)
        return SK_ERR(err, SK_ENOSYS, "graphs are compiled in the process that called skate_init");
    if (o && (o->size != sizeof *o || o->executions > MAX_EXECUTIONS))
        return SK_ERR(err, SK_EINVAL,
                      "options of a graph: of size %zu, not %zu; at most %d executions, not %u",
                      sizeof *o, o->size, MAX_EXECUTIONS, o->executions);
    SK_TRY(check(nodes, n, outputs, n_outputs, err));
    skate_graph *g = sk_calloc(SK_TAG_PLAN, sizeof *g);
    if (!g) return SK_ERR(err, SK_ENOMEM, "no memory for a graph");
    g->memory.e = e;
    g->pool = (struct sk_chan_pool){&g->memory, sk_graph_alloc, sk_graph_free};
    g->engine = sk_api_number(e);
    g->n_nodes = (uint32_t)n + 2;
    g->n_out = (uint32_t)n_outputs;
    g->n_cells = o && o->executions ? o->executions : DEFAULT_EXECUTIONS;
    struct numbers k = {.nodes = nodes, .n = (uint32_t)n};
    sk_rc rc = compile(g, &k, outputs, err);
    sk_free(k.actor);
    sk_free(k.edges);
    if (rc == SK_OK) {
        *out = g;
        return SK_OK;
    }
    struct sk_err keep = *err;
    skate_graph_release(g);
    *err = keep;
    return rc;
}

void skate_graph_release(skate_graph *g) {
    if (!g) return;
    if (sk_api_numbered(g->engine)) {
        if (g->head) sk_dag_close(g->head);
        for (uint32_t i = 0; i < g->n_out; i++)
            if (g->out && g->out[i].has) {
                if (!g->shows) sk_chan_pass(&g->out[i].end);
                sk_chan_release(&g->out[i].end, &g->out[i].msg);
            }
        if (g->memory.graph) g->memory.e->channels->close(g->memory.e, g->memory.graph);
        for (uint32_t i = 0; i < g->n_kept; i++) skate_actor_release(g->actors[i]);
    }
    sk_dag_plan_deinit(&g->plan);
    sk_free(g->actors);
    sk_free(g->out);
    sk_free(g);
}

/* ---- executions ------------------------------------------------------------------------------ */

static sk_rc check_open(const skate_graph *g, struct sk_err *err) {
    return sk_api_numbered(g->engine)
               ? SK_OK
               : SK_ERR(err, SK_ECLOSED, "the engine of the graph was shut down");
}

/* Says why a channel of the graph is closed. */
static sk_rc why_closed(const skate_graph *g, sk_rc rc, struct sk_err *err) {
    const char *how;
    if (rc != SK_ECLOSED && rc != SK_EDEAD) return rc;
    uint32_t who = sk_dag_dead(g->head, &how);
    if (who < g->n_actors)
        return SK_ERR(err, SK_EACTOR, "actor %u of a graph (in the order of its nodes): %s", who,
                      how);
    for (uint32_t i = 0; i < g->n_actors; i++) {
        const struct sk_dag_seat *s = sk_dag_seat(g->head, i);
        if (sk_dag_seat_state(s) == SK_SEAT_LEFT && s->rc && s->rc != SK_ECLOSED &&
            s->rc != SK_EDEAD)
            return SK_ERR(err, s->rc, "actor %u of a graph: %s", i, s->why);
    }
    return SK_ERR(err, SK_ECLOSED, "the graph has ended");
}

int skate_graph_execute(skate_graph *g, const void *input, size_t size, int64_t timeout_ms) {
    struct sk_err *err = sk_api_err();
    void *room = NULL;
    SK_TRY(check_open(g, err));
    uint64_t executed = sk_load_relaxed(&g->executed);
    if (executed - sk_load_acq(&g->taken) >= g->n_cells)
        return SK_ERR(err, SK_EFULL,
                      "%u executions of the graph are under way, the most that it allows: take "
                      "one by skate_graph_get",
                      g->n_cells);
    sk_rc rc = sk_chan_reserve(&g->in, size, sk_api_deadline(timeout_ms), &room, err);
    if (rc != SK_OK) return why_closed(g, rc, err);
    if (size) memcpy(room, input, size);
    sk_chan_publish(&g->in, size, KIND_BYTES);
    sk_store_rel(&g->executed, executed + 1);
    return SK_OK;
}

static void release_shown(skate_graph *g) {
    for (uint32_t i = 0; g->shows && i < g->n_out; i++) {
        sk_chan_release(&g->out[i].end, &g->out[i].msg);
        g->out[i].has = false;
    }
    g->shows = false;
}

int skate_graph_get(skate_graph *g, int64_t timeout_ms, struct skate_arg *out) {
    struct sk_err *err = sk_api_err();
    SK_TRY(check_open(g, err));
    release_shown(g);
    uint64_t taken = sk_load_relaxed(&g->taken);
    if (taken == sk_load_acq(&g->executed))
        return SK_ERR(err, SK_EINVAL, "no execution of the graph is under way");
    int64_t deadline = sk_api_deadline(timeout_ms);
    for (uint32_t i = 0; i < g->n_out; i++) {
        struct output *o = &g->out[i];
        if (o->has) continue; /* read by a call that timed out */
        sk_rc rc = sk_chan_read(&o->end, deadline, &o->msg, err);
        if (rc != SK_OK) return why_closed(g, rc, err);
        o->has = true;
    }
    for (uint32_t i = 0; i < g->n_out; i++) sk_chan_pass(&g->out[i].end);
    g->shows = true;
    sk_store_rel(&g->taken, taken + 1);
    for (uint32_t i = 0; i < g->n_out; i++) {
        const struct sk_chan_msg *m = &g->out[i].msg;
        if (m->kind == KIND_FAILURE)
            return sk_api_failure(
                &(struct sk_view){.kind = m->kind, .data = m->p, .len = (size_t)m->len}, err);
    }
    for (uint32_t i = 0; i < g->n_out; i++)
        out[i] = SKATE_BYTES(g->out[i].msg.p, (size_t)g->out[i].msg.len);
    return SK_OK;
}
