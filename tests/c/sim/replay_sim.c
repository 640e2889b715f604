/* replay_sim.c - random graphs whose actors are killed before each of their steps, and also by
 * chance. The results must be those of a run without kills, and no message may be written twice. A
 * step is one store to shared memory that other processes see. Wrong variants of the rule must be
 * found to fail. */
#include <string.h>

#include "base/rand.h"
#include "dag/replay.h"
#include "dag/schedule.h"
#include "test.h"

#define NODES 8u
#define ACTORS 5u
#define EDGES 24u
#define EXECUTIONS 4u
#define NEVER UINT32_MAX

struct graph {
    struct sk_dag_graph g;
    struct sk_dag_plan p;
    uint32_t actor[NODES], n_cells;
    struct sk_dag_edge edge[EDGES];
    /* keeps: the actor's state is saved; counts: its results depend on earlier executions */
    bool keeps[ACTORS], counts[ACTORS];
    /* the state that the actor had before the graph; a successor begins with 0, or with the saved
     * state */
    uint64_t begins[ACTORS];
};

struct channel {
    uint64_t count, value[EXECUTIONS + 1], passed[ACTORS];
};

struct actor { /* the actor's process, with which all is lost but the channels */
    uint32_t at;
    uint64_t execution, state, value[NODES], next[NODES];
};

struct rule {
    uint64_t (*from)(const uint64_t *passed, uint32_t n, uint64_t n_states);
    bool (*written)(uint64_t count, uint64_t execution);
    bool first_state; /* true: the state before the first execution is published */
};
static const struct rule RIGHT = {sk_replay_from, sk_replay_written, true};

struct world {
    const struct graph *x;
    const struct rule *rule;
    struct channel chan[NODES], states[ACTORS];
    struct actor actor[ACTORS];
    uint64_t out[EXECUTIONS][NODES];
    bool wrong; /* true: a message was written twice, or over one that a reader needs */
};

static uint64_t mix(uint64_t a, uint64_t b) { return sk_rand_mix(a * 31 + b + 1); }
static uint32_t ops_of(const struct world *w, uint32_t a) {
    return w->x->p.first[a + 1] - w->x->p.first[a];
}
static const struct sk_dag_op *op_of(const struct world *w, uint32_t a, uint32_t i) {
    return &w->x->p.ops[w->x->p.first[a] + i];
}
static bool ended(const struct world *w, uint32_t a) {
    return !ops_of(w, a) || w->actor[a].execution == EXECUTIONS;
}
static bool reads(const struct world *w, uint32_t a, uint32_t node) {
    for (uint32_t i = 0; i < ops_of(w, a); i++)
        if (op_of(w, a, i)->kind == SK_DAG_READ && op_of(w, a, i)->node == node) return true;
    return false;
}

/* Returns the first channel of which actor a has not passed `upto` messages; NODES: there is
 * none. */
static uint32_t behind(const struct world *w, uint32_t a, uint64_t upto) {
    for (uint32_t n = 0; n < w->x->g.n_nodes; n++)
        if (reads(w, a, n) && w->chan[n].passed[a] < upto) return n;
    return NODES;
}

static void compute(struct world *w, uint32_t a, uint32_t node) {
    struct actor *m = &w->actor[a];
    uint64_t v = node == 0 ? m->execution : 0;
    for (uint32_t e = 0; e < w->x->g.n_edges; e++)
        if (w->x->edge[e].to == node) v = mix(v, m->value[w->x->edge[e].from]);
    if (w->x->counts[a]) v = mix(m->state = mix(m->state, v), node);
    m->value[node] = v;
}

/* Writes the node's message; false: the actor has to wait. */
static bool write(struct world *w, uint32_t a, uint32_t node) {
    struct channel *c = &w->chan[node];
    struct actor *m = &w->actor[a];
    if (w->rule->written(c->count, m->execution)) return true;
    for (uint32_t r = 0; r < w->x->g.n_actors; r++)
        if (reads(w, r, node) && c->count >= c->passed[r] + w->x->n_cells) return false;
    w->wrong |= c->count != m->execution || c->count >= EXECUTIONS;
    if (!w->wrong) c->value[c->count++] = m->value[node];
    return true;
}

static bool read(struct world *w, uint32_t a, uint32_t node) {
    struct channel *c = &w->chan[node];
    struct actor *m = &w->actor[a];
    if (m->next[node] >= c->count) return false;
    w->wrong |= m->next[node] < c->passed[a];
    m->value[node] = c->value[m->next[node]++];
    if (a == w->x->g.n_actors - 1) w->out[m->execution][node] = m->value[node];
    return true;
}

/* Makes one store that other actors see; false: the actor has to wait. An execution ends with
 * storing the state, then passing the channels that were read, one at a time. */
static bool step(struct world *w, uint32_t a) {
    struct actor *m = &w->actor[a];
    uint32_t late = behind(w, a, m->execution), n = ops_of(w, a);
    if (late < NODES && m->at == 0) { /* a successor passes what its predecessor was done with */
        w->chan[late].passed[a]++;
        m->next[late] = SK_MAX(m->next[late], w->chan[late].passed[a]);
        return true;
    }
    if (m->at < n) {
        const struct sk_dag_op *o = op_of(w, a, m->at);
        bool moved = true;
        if (o->kind == SK_DAG_READ) moved = read(w, a, o->node);
        else if (o->kind == SK_DAG_WRITE) moved = write(w, a, o->node);
        else compute(w, a, o->node);
        m->at += moved;
        return moved;
    }
    if (m->at == n && w->x->keeps[a]) {
        w->wrong |= w->states[a].count != m->execution + w->rule->first_state;
        if (!w->wrong) w->states[a].value[w->states[a].count++] = m->state;
        m->at++;
        return true;
    }
    late = behind(w, a, m->execution + 1);
    if (late < NODES) {
        w->chan[late].passed[a] = m->next[late];
        m->at = n + 1;
        return true;
    }
    m->at = 0;
    m->execution++;
    return true;
}

/* Kills the actor's process; a successor goes on. */
static void kill(struct world *w, uint32_t a) {
    uint64_t passed[NODES];
    uint32_t n = 0;
    for (uint32_t i = 0; i < w->x->g.n_nodes; i++)
        if (reads(w, a, i)) passed[n++] = w->chan[i].passed[a];
    struct actor *m = &w->actor[a];
    *m = (struct actor){.execution = w->rule->from(passed, n, w->states[a].count)};
    if (w->x->keeps[a] && w->states[a].count) m->state = w->states[a].value[w->states[a].count - 1];
    for (uint32_t i = 0; i < w->x->g.n_nodes; i++) m->next[i] = w->chan[i].passed[a];
    w->wrong |= m->execution > EXECUTIONS;
    for (uint32_t i = 0; i < n && w->rule == &RIGHT; i++)
        CHECK(passed[i] <= m->execution && passed[i] + 1 >= m->execution);
}

/* Runs a graph from start to end in random order. The actor that makes step k is killed before it,
 * and later ones with a chance of one in `one_in` (0: none). Returns the number of steps; 0: the
 * run hung, or a message was written twice. */
static uint32_t run(struct world *w, const struct graph *x, const struct rule *rule, uint64_t seed,
                    uint32_t k, uint32_t one_in) {
    struct sk_rand rnd;
    uint32_t n = 0, n_inner = x->g.n_actors - 2, n_kills = one_in ? 20 : 0;
    *w = (struct world){.x = x, .rule = rule};
    for (uint32_t a = 0; a < x->g.n_actors; a++) {
        w->actor[a].state = x->begins[a];
        if (x->keeps[a] && rule->first_state)
            w->states[a].value[w->states[a].count++] = x->begins[a];
    }
    sk_rand_init(&rnd, seed);
    for (;;) {
        bool moved = false, all = true;
        uint32_t first = (uint32_t)sk_rand_below(&rnd, x->g.n_actors);
        for (uint32_t i = 0; i < x->g.n_actors && !moved; i++) {
            uint32_t a = (first + i) % x->g.n_actors;
            if (ended(w, a)) continue;
            all = false;
            bool now = n == k || (n_kills && sk_rand_below(&rnd, one_in) == 0);
            if (a < n_inner && now) {
                n_kills -= n != k && n_kills;
                kill(w, a);
                if (w->wrong) return 0;
                if (n == k) k = NEVER;
                if (ended(w, a)) {
                    moved = true;
                    break;
                }
            }
            moved = step(w, a);
        }
        if (all) return n;
        if (!moved || w->wrong) return 0;
        n++;
    }
}

static void random_graph(struct graph *x) {
    uint32_t n_inner = 1 + (uint32_t)test_below(6), n_actors = 1 + (uint32_t)test_below(3),
             n = n_inner + 2;
    *x = (struct graph){.g = {.n_nodes = n, .n_actors = n_actors + 2, .overlap = test_below(2)},
                        .n_cells = 1 + (uint32_t)test_below(3)};
    x->g.actor = x->actor;
    x->g.edges = x->edge;
    x->actor[0] = n_actors;
    x->actor[n - 1] = n_actors + 1;
    for (uint32_t v = 1; v < n; v++) {
        if (v < n - 1) x->actor[v] = (uint32_t)test_below(n_actors);
        for (uint32_t k = 1 + (uint32_t)test_below(2); k && x->g.n_edges < EDGES - 1; k--)
            x->edge[x->g.n_edges++] =
                (struct sk_dag_edge){.from = (uint32_t)test_below(v), .to = v};
    }
    for (uint32_t a = 0; a < n_actors; a++)
        x->begins[a] = (x->keeps[a] = x->counts[a] = test_below(2)) ? test_rand() : 0;
    struct sk_err err;
    CHECK_OK_ERR(sk_dag_schedule(&x->p, &x->g, &err), &err);
    CHECK(x->p.first && x->p.ops);
}

/* True if all actors read from other actors. An actor that does not would run for ever; such graphs
 * are refused when they are compiled. */
static bool all_read(const struct world *w) {
    for (uint32_t a = 0; a + 2 < w->x->g.n_actors; a++)
        if (ops_of(w, a) && behind(w, a, UINT64_MAX) == NODES) return false;
    return true;
}

TEST(a_kill_at_every_step_changes_nothing) {
    uint32_t n_kills = 0;
    for (int i = 0, rounds = test_rounds(150); i < rounds; i++) {
        struct graph x;
        random_graph(&x);
        struct world calm = {.x = &x}, w;
        uint64_t seed = test_rand();
        uint32_t n = all_read(&calm) ? run(&calm, &x, &RIGHT, seed, NEVER, 0) : 0;
        CHECK(n || !all_read(&calm));
        for (uint32_t k = 0; k < n; k++, n_kills++) {
            CHECK(run(&w, &x, &RIGHT, seed, k, 0));
            CHECK(memcmp(w.out, calm.out, sizeof w.out) == 0);
            /* others die, and it dies again while it replays */
            CHECK(run(&w, &x, &RIGHT, test_rand(), k, 6));
            CHECK(memcmp(w.out, calm.out, sizeof w.out) == 0);
        }
        sk_dag_plan_deinit(&x.p);
    }
    CHECK_GT(n_kills, 1000);
}

static uint64_t forgets_states(const uint64_t *passed, uint32_t n, uint64_t n_states) {
    (void)n_states;
    return sk_replay_from(passed, n, 0);
}
static uint64_t from_the_least(const uint64_t *passed, uint32_t n, uint64_t n_states) {
    uint64_t saved = sk_replay_from(NULL, 0, n_states), from = n ? UINT64_MAX : saved;
    for (uint32_t i = 0; i < n; i++) from = SK_MIN(from, passed[i]);
    return SK_MAX(from, saved);
}
static uint64_t of_saved_ones(const uint64_t *passed, uint32_t n, uint64_t n_states) {
    return sk_replay_from(passed, n, n_states ? n_states + 1 : 0);
}
static bool writes_again(uint64_t count, uint64_t execution) { return count > execution + 1; }

/* True if some graph, killed at some step, shows a difference between this wrong rule and the right
 * one. */
static bool is_found(const struct rule *rule) {
    bool found = false;
    for (int i = 0; i < 2000 && !found; i++) {
        struct graph x;
        random_graph(&x);
        struct world calm = {.x = &x}, w;
        uint64_t seed = test_rand();
        uint32_t n = all_read(&calm) ? run(&calm, &x, &RIGHT, seed, NEVER, 0) : 0;
        for (uint32_t k = 0; k < n && !found; k++)
            found = !run(&w, &x, rule, seed, k, 0) || memcmp(w.out, calm.out, sizeof w.out) != 0;
        sk_dag_plan_deinit(&x.p);
    }
    return found;
}

TEST(wrong_rules_of_replay_are_found) {
    CHECK(is_found(&(struct rule){forgets_states, sk_replay_written, true}));
    CHECK(is_found(&(struct rule){from_the_least, sk_replay_written, true}));
    CHECK(is_found(&(struct rule){sk_replay_from, writes_again, true}));
    CHECK(is_found(&(struct rule){of_saved_ones, sk_replay_written,
                                  /* killed in its first execution it would forget what it had
                                   * before the graph */
                                  false}));
}

TEST(an_execution_that_kills_comes_to_an_end) {
    struct sk_replay_deaths d = {0};
    CHECK(!sk_replay_again(&d, 7, 0));
    d = (struct sk_replay_deaths){0};
    CHECK(sk_replay_again(&d, 7, 2) && sk_replay_again(&d, 7, 2) && !sk_replay_again(&d, 7, 2));
    CHECK(sk_replay_again(&d, 8, 2) && sk_replay_again(&d, 8, 2)); /* it got on */
    CHECK(sk_replay_again(&d, 9, 1) && !sk_replay_again(&d, 9, 1));
    for (int i = 0; i < 1000; i++) CHECK(sk_replay_again(&d, 9, -1));
}
