/* schedule_sim.c - schedules of random small graphs, and every interleaving of their actors over
 * several executions: no interleaving hangs, each operation occurs once, and no node computes
 * before it has its inputs. The explorer itself is tested with a schedule that hangs. */
#include "base/containers/map.h"
#include "dag/schedule.h"
#include "test.h"

#define NODES 8u
#define ACTORS 5u
#define EDGES 24u
#define EXECUTIONS 3u

struct graph {
    struct sk_dag_graph g;
    uint32_t actor[NODES];
    struct sk_dag_edge edge[EDGES];
};

struct world { /* [actor]: number of operations that it has done, over all executions */
    const struct sk_dag_graph *g;
    const struct sk_dag_plan *p;
    uint32_t n_cells, at[ACTORS];
};

static uint32_t ops_of(const struct world *w, uint32_t a) {
    return w->p->first[a + 1] - w->p->first[a];
}
static bool ended(const struct world *w, uint32_t a) {
    return ops_of(w, a) == 0 || w->at[a] >= EXECUTIONS * ops_of(w, a);
}
static uint32_t execution(const struct world *w, uint32_t a) {
    return ops_of(w, a) ? w->at[a] / ops_of(w, a) : EXECUTIONS;
}
static const struct sk_dag_op *op_of(const struct world *w, uint32_t a) {
    return &w->p->ops[w->p->first[a] + w->at[a] % ops_of(w, a)];
}

/* Returns how many times actor a has done this operation. */
static uint32_t times(const struct world *w, uint32_t a, enum sk_dag_kind kind, uint32_t node,
                      uint32_t peer) {
    for (uint32_t i = 0; i < ops_of(w, a); i++) {
        const struct sk_dag_op *o = &w->p->ops[w->p->first[a] + i];
        if (o->kind == kind && o->node == node &&
            (kind == SK_DAG_WRITE || kind == SK_DAG_READ || o->peer == peer))
            return execution(w, a) + (w->at[a] % ops_of(w, a) > i);
    }
    return UINT32_MAX; /* the actor has no such operation */
}

/* True if the actor's next operation can run. *partner: the actor that does it together with a. */
static bool can(const struct world *w, uint32_t a, uint32_t *partner) {
    const struct sk_dag_op *o = op_of(w, a);
    uint32_t i = execution(w, a);
    *partner = a;
    switch (o->kind) {
    case SK_DAG_READ: return times(w, o->peer, SK_DAG_WRITE, o->node, 0) > i;
    case SK_DAG_WRITE: /* each reader has passed execution i - n_cells */
        for (uint32_t r = 0; r < w->g->n_actors; r++)
            if (r != a && times(w, r, SK_DAG_READ, o->node, 0) != UINT32_MAX &&
                execution(w, r) + w->n_cells <= i)
                return false;
        return true;
    case SK_DAG_SEND:
    case SK_DAG_RECV: {
        if (ended(w, o->peer) || execution(w, o->peer) != i) return false;
        const struct sk_dag_op *other = op_of(w, o->peer);
        *partner = o->peer;
        return other->node == o->node && other->peer == a &&
               other->kind == (o->kind == SK_DAG_SEND ? SK_DAG_RECV : SK_DAG_SEND);
    }
    default: return true;
    }
}

static uint64_t key_of(const struct world *w) {
    uint64_t k = 1; /* not 0 */
    for (uint32_t a = 0; a < w->g->n_actors; a++)
        k = k * (EXECUTIONS * ops_of(w, a) + 1) + w->at[a];
    return k;
}

/* Explores all states that can follow w. False: one of them hangs. */
static bool explore(struct world *w, struct sk_map *seen) {
    if (sk_map_get(seen, key_of(w))) return true;
    CHECK_OK(sk_map_put(seen, key_of(w), seen));
    bool any = false, all = true;
    for (uint32_t a = 0, with; a < w->g->n_actors; a++) {
        if (ended(w, a)) continue;
        all = false;
        if (!can(w, a, &with)) continue;
        any = true;
        w->at[a]++;
        if (with != a) w->at[with]++;
        bool fine = explore(w, seen);
        w->at[a]--;
        if (with != a) w->at[with]--;
        if (!fine) return false;
    }
    return any || all;
}

static bool never_stops(const struct sk_dag_graph *g, const struct sk_dag_plan *p, uint32_t n_cells,
                        uint32_t *n) {
    struct sk_map seen;
    sk_map_init(&seen, SK_TAG_TEST);
    struct world w = {.g = g, .p = p, .n_cells = n_cells};
    bool fine = explore(&w, &seen);
    *n += seen.n;
    sk_map_deinit(&seen);
    return fine;
}

static void random_graph(struct graph *x, uint32_t n_inner, uint32_t n_inner_actors) {
    uint32_t n = n_inner + 2, driver_in = n_inner_actors, driver_out = n_inner_actors + 1;
    *x = (struct graph){
        .g = {.n_nodes = n, .n_actors = n_inner_actors + 2, .overlap = test_below(2)}};
    x->g.actor = x->actor;
    x->g.edges = x->edge;
    x->actor[0] = driver_in;
    x->actor[n - 1] = driver_out;
    for (uint32_t v = 1; v < n; v++) {
        if (v < n - 1) x->actor[v] = (uint32_t)test_below(n_inner_actors);
        for (uint32_t k = 1 + (uint32_t)test_below(2); k && x->g.n_edges < EDGES - 1; k--) {
            uint32_t from = (uint32_t)test_below(v);
            x->edge[x->g.n_edges++] =
                (struct sk_dag_edge){from, v, from && v < n - 1 && test_below(4) == 0};
        }
    }
}

/* Checks that each operation occurs once, and each value exists before it is needed. */
static void is_whole(const struct sk_dag_graph *g, const struct sk_dag_plan *p) {
    bool has[ACTORS][NODES] = {{false}}, done[NODES] = {false};
    uint32_t n_sent = 0, n_received = 0;
    for (uint32_t a = 0; a < g->n_actors; a++) {
        bool written[NODES] = {false};
        for (uint32_t i = p->first[a], last = 0; i < p->first[a + 1]; i++) {
            const struct sk_dag_op *o = &p->ops[i];
            if (o->kind == SK_DAG_READ || o->kind == SK_DAG_RECV) {
                CHECK(g->actor[o->node] != a && o->peer == g->actor[o->node]);
                n_received += o->kind == SK_DAG_RECV;
                has[a][o->node] = true;
                continue;
            }
            CHECK_EQ(g->actor[o->node], a);
            if (o->kind == SK_DAG_COMPUTE) {
                CHECK(!done[o->node] && o->node >= last);
                done[o->node] = has[a][o->node] = true;
                last = o->node;
                for (uint32_t e = 0; e < g->n_edges; e++)
                    CHECK(g->edges[e].to != o->node || has[a][g->edges[e].from]);
            } else {
                CHECK(done[o->node]);
                n_sent += o->kind == SK_DAG_SEND;
                CHECK(o->kind == SK_DAG_SEND || !written[o->node]);
                written[o->node] |= o->kind == SK_DAG_WRITE;
            }
        }
    }
    for (uint32_t v = 0; v < g->n_nodes; v++) CHECK(done[v]);
    CHECK_EQ(n_sent, n_received);
}

TEST_LARGE(no_interleaving_stops, 300) {
    uint32_t n_states = 0, n_meet = 0;
    for (int i = 0, rounds = test_rounds(300); i < rounds; i++) {
        struct graph x;
        random_graph(&x, 1 + (uint32_t)test_below(6), 1 + (uint32_t)test_below(3));
        struct sk_dag_plan p;
        struct sk_err err;
        CHECK_OK_ERR(sk_dag_schedule(&p, &x.g, &err), &err);
        is_whole(&x.g, &p);
        for (uint32_t k = 0; k < p.first[x.g.n_actors]; k++) n_meet += p.ops[k].kind == SK_DAG_SEND;
        for (uint32_t n_cells = 1; n_cells <= 2; n_cells++)
            CHECK(never_stops(&x.g, &p, n_cells, &n_states));
        sk_dag_plan_deinit(&p);
    }
    CHECK_GT(n_states, 10000);
    CHECK_GT(n_meet, 0);
}

/* Two actors each compute a node and take the other's value: in the order of bind() the schedule
 * ends, with both reads first it hangs. */
TEST(the_explorer_sees_what_stops) {
    uint32_t actor[] = {0, 1, 0, 1}, n = 0;
    struct sk_dag_edge edge[] = {{0, 3, false}, {1, 2, false}};
    struct sk_dag_graph g = {
        .n_nodes = 4, .n_actors = 2, .n_edges = 2, .actor = actor, .edges = edge};
    struct sk_dag_plan p;
    CHECK_OK(sk_dag_schedule(&p, &g, NULL));
    CHECK(never_stops(&g, &p, 1, &n));
    for (uint32_t a = 0; a < 2; a++) { /* COMPUTE WRITE READ COMPUTE */
        struct sk_dag_op *o = p.ops + p.first[a], read = o[2];
        CHECK_EQ(p.first[a + 1] - p.first[a], 4);
        CHECK_EQ(read.kind, SK_DAG_READ);
        o[2] = o[1], o[1] = o[0], o[0] = read;
    }
    CHECK(!never_stops(&g, &p, 1, &n));
    sk_dag_plan_deinit(&p);
    edge[0].meets = edge[1].meets = true;
    CHECK_OK(sk_dag_schedule(&p, &g, NULL));
    CHECK(never_stops(&g, &p, 1, &n));
    for (uint32_t a = 0; a < 2; a++) { /* both send before they receive */
        struct sk_dag_op *o = p.ops + p.first[a], *send = o, *recv = o;
        while (send->kind != SK_DAG_SEND) send++;
        while (recv->kind != SK_DAG_RECV) recv++;
        if (recv > send) continue;
        struct sk_dag_op x = *send;
        *send = *recv;
        *recv = x;
    }
    CHECK(!never_stops(&g, &p, 1, &n));
    sk_dag_plan_deinit(&p);
}

TEST(wrong_graphs_are_refused) {
    uint32_t actor[] = {0, 1}, wrong[] = {0, 2};
    struct sk_dag_edge back = {1, 0, false}, self = {1, 1, false}, none = {0, 2, false};
    struct sk_dag_graph g = {
        .n_nodes = 2, .n_actors = 2, .n_edges = 1, .actor = actor, .edges = &back};
    struct sk_dag_plan p;
    struct sk_err err;
    CHECK_EQ(sk_dag_schedule(&p, &g, &err), SK_EINVAL);
    CHECK(strstr(err.msg, "a cycle"));
    g.edges = &self;
    CHECK_EQ(sk_dag_schedule(&p, &g, &err), SK_EINVAL);
    g.edges = &none;
    CHECK_EQ(sk_dag_schedule(&p, &g, &err), SK_EINVAL);
    g.n_edges = 0;
    g.actor = wrong;
    CHECK_EQ(sk_dag_schedule(&p, &g, &err), SK_EINVAL);
}

TEST(a_schedule_without_memory) {
    struct graph x;
    random_graph(&x, 4, 3);
    for (int64_t n = 1;; n++) {
        struct sk_dag_plan p;
        sk_mem_fail_at(n);
        sk_rc rc = sk_dag_schedule(&p, &x.g, NULL);
        bool hit = sk_mem_failed();
        sk_mem_fail_at(0);
        CHECK_EQ(rc, hit ? SK_ENOMEM : SK_OK);
        if (!hit) {
            sk_dag_plan_deinit(&p);
            break;
        }
    }
}
