/* test_dag_graph.c - a graph in shared memory by hand: its tables, burying actors, whether readers
 * still use messages; and loops of random graphs in processes that are killed. */
#include "dag/graph.h"
#include "dag_help.h"

#define MB ((uint64_t)1 << 20)

struct world {
    struct rig rig; /* its pool is the source of buffers */
    struct sk_dag_head *head;
    struct sk_dag_plan plan;
    uint32_t n_nodes;
};

/* x -> a0: n1 -> a1: n2 (takes x, too) -> out; and n1 -> out. */
static const uint32_t ACTOR[] = {2, 0, 1, 3};
static const struct sk_dag_edge EDGES[] = {
    {0, 1, false}, {1, 2, false}, {0, 2, false}, {1, 3, false}, {2, 3, false}};
static const uint64_t IDS[] = {70, 71}, GRAPH = 5;

static struct world *world(uint32_t n_cells) {
    struct world *w = share(sizeof *w);
    struct sk_dag_shape s = {.id = GRAPH,
                             .n_actors = 2,
                             .n_nodes = SK_COUNT(ACTOR),
                             .n_edges = SK_COUNT(EDGES),
                             .actor = ACTOR,
                             .edges = EDGES,
                             .ids = IDS,
                             .n_cells = n_cells,
                             .n_bufs = n_cells + 4};
    struct sk_dag_graph g = {
        .n_nodes = s.n_nodes, .n_actors = 4, .n_edges = s.n_edges, .actor = ACTOR, .edges = EDGES};
    struct sk_err err;
    w->rig =
        (struct rig){.pool = share(sizeof *w->rig.pool), .arena = share(64 * MB), .size = 64 * MB};
    w->rig.ops = (struct sk_chan_pool){&w->rig, pool_alloc, pool_free};
    uint64_t bytes = sk_dag_bytes(&s, &err);
    CHECK(bytes > 0);
    w->head = share(bytes);
    CHECK_OK_ERR(sk_dag_create(w->head, &s, &err), &err);
    CHECK_OK_ERR(sk_dag_schedule(&w->plan, &g, &err), &err);
    w->n_nodes = s.n_nodes;
    return w;
}

static struct sk_chan_end end_at(struct world *w, uint32_t node, uint32_t end) {
    struct sk_chan_end e;
    struct sk_err err;
    CHECK_OK_ERR(sk_chan_attach(&e, sk_dag_channel(w->head, node), end, w->rig.arena, w->rig.size,
                                end == SK_CHAN_WRITER ? &w->rig.ops : NULL, &err),
                 &err);
    return e;
}

/* ---- an actor whose values are numbers ---- */

struct actor {
    struct sk_dag_loop loop;
    struct sk_dag_port ports[8];
    uint32_t port_of[8];
    uint64_t value[8];
    struct sk_chan_msg read[8];
    bool has[8];
    uint64_t sum; /* sum of the values that actor 1 has computed: its state */
    struct sk_dag_states states;
};

static sk_rc take(void *ctx, uint32_t port, const struct sk_chan_msg *m, struct sk_err *err) {
    struct actor *a = ctx;
    (void)err;
    CHECK_EQ(m->len, 8);
    memcpy(&a->value[a->ports[port].node], m->p, 8);
    a->read[port] = *m;
    a->has[port] = true;
    return SK_OK;
}

static sk_rc compute(void *ctx, uint32_t node, struct sk_err *err) {
    struct actor *a = ctx;
    (void)err;
    a->value[node] = node == 1 ? a->value[0] * 3 + 1 : (a->sum += a->value[1] + a->value[0]);
    return SK_OK;
}

static sk_rc give(void *ctx, uint32_t port, struct sk_err *err) {
    struct actor *a = ctx;
    void *p;
    SK_TRY(sk_chan_reserve(&a->ports[port].end, 8, test_patience(), &p, err));
    memcpy(p, &a->value[a->ports[port].node], 8);
    sk_chan_publish(&a->ports[port].end, 8, 1);
    return SK_OK;
}

static sk_rc turn(void *ctx, struct sk_err *err) {
    struct actor *a = ctx;
    (void)err;
    for (uint32_t i = 0; i < a->loop.n_ports; i++)
        if (a->has[i]) sk_chan_release(&a->ports[i].end, &a->read[i]), a->has[i] = false;
    return SK_OK;
}

static sk_rc save(void *ctx, struct sk_chan_end *into, struct sk_err *err) {
    struct actor *a = ctx;
    void *p;
    SK_TRY(sk_chan_reserve(into, 8, 0, &p, err)); /* the channel of states always has room */
    memcpy(p, &a->sum, 8);
    sk_chan_publish(into, 8, 0);
    return SK_OK;
}

static sk_rc restore(void *ctx, const struct sk_chan_msg *m, struct sk_err *err) {
    struct actor *a = ctx;
    (void)err;
    CHECK_EQ(m->len, 8);
    memcpy(&a->sum, m->p, 8);
    return SK_OK;
}

static sk_rc run_actor(struct world *w, uint32_t who) {
    struct actor a = {0};
    struct sk_err err;
    static const struct sk_dag_actions actions = {.take = take,
                                                  .compute = compute,
                                                  .give = give,
                                                  .turn = turn,
                                                  .save = save,
                                                  .restore = restore};
    struct sk_dag_actions mine = actions;
    mine.ctx = &a;
    memset(a.port_of, 0xff, sizeof a.port_of);
    a.loop = (struct sk_dag_loop){.ops = w->plan.ops + w->plan.first[who],
                                  .n_ops = w->plan.first[who + 1] - w->plan.first[who],
                                  .ports = a.ports,
                                  .port_of = a.port_of};
    for (uint32_t i = 0; i < a.loop.n_ops; i++) {
        const struct sk_dag_op *op = &a.loop.ops[i];
        if (op->kind == SK_DAG_COMPUTE) continue;
        a.port_of[op->node] = a.loop.n_ports;
        a.ports[a.loop.n_ports++] = (struct sk_dag_port){
            op->node, end_at(w, op->node,
                             op->kind == SK_DAG_WRITE ? SK_CHAN_WRITER
                                                      : sk_dag_reader(w->head, op->node, who))};
    }
    if (who == 1) {
        void *mem = sk_dag_states(w->head, who);
        CHECK_OK_ERR(sk_chan_attach(&a.states.out, mem, SK_CHAN_WRITER, w->rig.arena, w->rig.size,
                                    &w->rig.ops, &err),
                     &err);
        CHECK_OK_ERR(sk_chan_attach(&a.states.in, mem, 0, w->rig.arena, w->rig.size, NULL, &err),
                     &err);
        a.loop.states = &a.states;
        /* the process that takes a seat publishes the first state */
        if (!a.states.out.next) CHECK_OK_ERR(save(&a, &a.states.out, &err), &err);
    }
    return sk_dag_run(&a.loop, &mine, &err);
}

static pid_t child(struct world *w, uint32_t who, const char *fault, int64_t nth) {
    pid_t pid = fork();
    if (pid) return pid;
    if (fault) CHECK_OK(sk_fault_set(fault, SK_FAULT_KILL, nth));
    if (!sk_dag_seat_take(sk_dag_seat(w->head, who), GRAPH, -1)) {
        /* all results existed, and the graph was closed, before this successor began */
        CHECK(sk_dag_closed(w->head));
        _exit(0);
    }
    sk_rc rc = run_actor(w, who);
    sk_dag_seat_leave(sk_dag_seat(w->head, who), rc, sk_rc_name(rc));
    _exit(rc == SK_ECLOSED ? 0 : 3);
}

static void put(struct sk_chan_end *in, uint64_t i) {
    void *p;
    struct sk_err err;
    CHECK_OK_ERR(sk_chan_reserve(in, 8, test_patience(), &p, &err), &err);
    memcpy(p, &i, 8);
    sk_chan_publish(in, 8, 1);
}

static uint64_t get(struct sk_chan_end *out) {
    struct sk_chan_msg m;
    struct sk_err err;
    uint64_t v;
    CHECK_OK_ERR(sk_chan_read(out, test_patience(), &m, &err), &err);
    memcpy(&v, m.p, 8);
    done(out, &m);
    return v;
}

TEST(a_condemned_actor_closes_the_graph_while_its_process_lives) {
    struct world *w = world(2);
    const char *how;
    sk_dag_condemn(w->head, 5, "a stranger");
    CHECK(!sk_dag_closed(w->head) && sk_dag_dead(w->head, &how) == SK_DAG_NONE);
    CHECK(sk_dag_seat_take(sk_dag_seat(w->head, 0), GRAPH, 0) &&
          sk_dag_seat_take(sk_dag_seat(w->head, 1), GRAPH, 0));
    sk_dag_condemn(w->head, 71, "killed for good");
    CHECK(sk_dag_closed(w->head) && sk_dag_dead(w->head, &how) == 1);
    CHECK(strcmp(how, "killed for good") == 0);
    sk_dag_bury(w->head, 70, "the other one", false);
    CHECK(sk_dag_in_use(w->head)); /* its process may still read the memory */
    sk_dag_bury(w->head, 71, "signal 9", false);
    CHECK(!sk_dag_in_use(w->head));
    CHECK_EQ(sk_dag_dead(w->head, &how), 1);
    CHECK(strcmp(how, "killed for good") == 0);
    sk_dag_plan_deinit(&w->plan);
}

TEST(graph_tables) {
    struct world *w = world(2);
    CHECK(sk_dag_channel(w->head, 0) && sk_dag_channel(w->head, 1) && sk_dag_channel(w->head, 2) &&
          !sk_dag_channel(w->head, 3));
    CHECK_EQ(sk_dag_reader(w->head, 0, 0), 0);
    CHECK_EQ(sk_dag_reader(w->head, 0, 1), 1);
    CHECK_EQ(sk_dag_reader(w->head, 2, 0), SK_DAG_NONE);
    const char *how;
    CHECK_EQ(sk_dag_dead(w->head, &how), SK_DAG_NONE);
    sk_dag_bury(w->head, 5, "a stranger", false);
    CHECK_EQ(sk_dag_dead(w->head, &how), SK_DAG_NONE);
    CHECK(sk_dag_in_use(w->head)); /* seats that may be taken */
    /* a seat of an earlier graph in the same memory */
    CHECK(!sk_dag_seat_take(sk_dag_seat(w->head, 0), GRAPH + 1, 0));
    CHECK(sk_dag_seat_take(sk_dag_seat(w->head, 0), GRAPH, 0) &&
          !sk_dag_seat_take(sk_dag_seat(w->head, 0), GRAPH, 0));
    sk_dag_bury(w->head, 71, "killed", false);
    sk_dag_bury(w->head, 70, "later", false);
    CHECK_EQ(sk_dag_dead(w->head, &how), 1);
    CHECK(strcmp(how, "killed") == 0);
    CHECK(!sk_dag_in_use(w->head));
    CHECK_OK(sk_dag_seat_wait(sk_dag_seat(w->head, 0), 0));
    uint64_t none[200] = {0};
    sk_dag_bury(none, 71, "of no graph", true);
    sk_dag_condemn(none, 71, "of no graph");
    CHECK(!sk_dag_in_use(none));
    sk_dag_plan_deinit(&w->plan);
}

TEST(graph_is_in_use_while_somebody_looks) {
    struct world *w = world(2);
    struct sk_chan_end in = end_at(w, 0, SK_CHAN_WRITER), a = end_at(w, 0, 0);
    struct sk_chan_msg m;
    for (uint32_t i = 0; i < 2; i++) sk_dag_seat_leave(sk_dag_seat(w->head, i), SK_ECLOSED, "");
    CHECK(!sk_dag_in_use(w->head));
    put(&in, 1);
    CHECK_OK(sk_chan_read(&a, 0, &m, NULL));
    /* the reader that has not passed the message has no loop any more */
    CHECK(!sk_dag_in_use(w->head));
    sk_chan_pass(&a);
    CHECK(sk_dag_in_use(w->head));
    sk_dag_close(w->head);
    CHECK(sk_dag_in_use(w->head));
    sk_chan_release(&a, &m);
    CHECK(!sk_dag_in_use(w->head));
    sk_dag_plan_deinit(&w->plan);
}

static struct sk_dag_seat *sits(struct world *w, uint32_t i, int32_t retries) {
    CHECK(sk_dag_seat_take(sk_dag_seat(w->head, i), GRAPH, retries));
    return sk_dag_seat(w->head, i);
}

TEST(who_restarts_has_its_seat_again) {
    struct world *w = world(2);
    struct sk_dag_seat *s = sits(w, 0, 2);
    struct sk_chan_end in = end_at(w, 0, SK_CHAN_WRITER), a = end_at(w, 0, 0), b = end_at(w, 0, 1);
    struct sk_chan_msg m;
    const char *how;
    for (uint32_t i = 0; i < 4; i++) { /* twice in execution 0, then twice in execution 1 */
        uint32_t seen = *sk_dag_changes(w->head);
        if (i == 2) {
            put(&in, 1);
            CHECK_OK(sk_chan_read(&a, 0, &m, NULL));
            sk_chan_pass(&a);
        }
        sk_dag_bury(w->head, 70, "killed", true);
        CHECK(*sk_dag_changes(w->head) != seen);
        CHECK_EQ(sk_dag_dead(w->head, &how), SK_DAG_NONE);
        CHECK_EQ(s->n_lost, i + 1);
        sk_dag_bury(w->head, 70, "its next process, before it sat there", true);
        CHECK_EQ(s->n_lost, i + 1);
        CHECK(sits(w, 0, 2) == s);
    }
    /* messages that the dead reader had passed but not released */
    CHECK(!sk_chan_shown(sk_dag_channel(w->head, 0), 0));
    CHECK(!sk_dag_closed(w->head));
    sk_dag_bury(w->head, 70, "for the third time", true);
    CHECK_EQ(sk_dag_dead(w->head, &how), 0);
    CHECK(strncmp(how, "for the third time\n", 19) == 0 && strstr(how, "max_task_retries is 2") &&
          strstr(how, "in execution 1"));
    CHECK(sk_dag_closed(w->head));
    CHECK_EQ(sk_chan_read(&b, 0, &m, NULL), SK_ECLOSED);
    CHECK(!sk_dag_in_use(w->head)); /* the other seat was never taken, and cannot be any more */
    CHECK(!sk_dag_seat_take(sk_dag_seat(w->head, 1), GRAPH, 0));
    sk_dag_plan_deinit(&w->plan);
}

TEST(who_restarts_into_a_graph_that_ends) {
    for (int order = 0; order < 3; order++) {
        struct world *w = world(2);
        const char *how;
        sits(w, 0, order == 2 ? 0 : -1);
        sits(w, 1, -1);
        if (order == 1) sk_dag_close(w->head);
        sk_dag_bury(w->head, 70, "killed", true);
        if (order == 0) sk_dag_close(w->head);
        CHECK_EQ(sk_dag_seat_state(sk_dag_seat(w->head, 0)), SK_SEAT_LEFT);
        CHECK(sk_dag_closed(w->head));
        CHECK_EQ(sk_dag_dead(w->head, &how), order == 0 ? SK_DAG_NONE : 0);
        CHECK(sk_dag_in_use(w->head));
        sk_dag_seat_leave(sk_dag_seat(w->head, 1), SK_ECLOSED, "");
        CHECK(!sk_dag_in_use(w->head));
        sk_dag_plan_deinit(&w->plan);
    }
}

TEST(graph_closed_under_a_reader_that_drains) {
    struct world *w = world(3);
    struct sk_chan_end in = end_at(w, 0, SK_CHAN_WRITER), a = end_at(w, 0, 0), b = end_at(w, 0, 1);
    struct sk_chan_msg m;
    put(&in, 1);
    put(&in, 2);
    sk_dag_close(w->head);
    a.drains = true;
    CHECK_EQ(get(&a), 1);
    CHECK_EQ(get(&a), 2);
    CHECK_EQ(sk_chan_read(&a, 0, &m, NULL), SK_ECLOSED);
    CHECK_EQ(sk_chan_read(&b, 0, &m, NULL), SK_ECLOSED);
    sk_dag_plan_deinit(&w->plan);
}

struct run {
    struct world *w;
    pid_t pid[2];
    bool again;        /* dead processes get a successor */
    const char *fault; /* fault point at which processes die */
    uint32_t n_kills;  /* this many times */
};

/* Starts a successor for each dead process: it continues where the dead one stopped, and writes no
 * message twice. */
static void tend(struct run *r) {
    for (uint32_t i = 0; r->again && i < 2; i++) {
        int st;
        if (waitpid(r->pid[i], &st, WNOHANG) != r->pid[i]) continue;
        CHECK(WIFSIGNALED(st));
        sk_dag_bury(r->w->head, IDS[i], "killed", true);
        r->pid[i] = child(r->w, i, r->n_kills ? r->fault : NULL,
                          r->n_kills ? 1 + (int64_t)test_below(20) : 0);
        r->n_kills -= r->n_kills > 0;
    }
}

static void comes(struct run *r, struct sk_chan_end *out, uint64_t want) {
    struct sk_chan_msg m;
    uint64_t v;
    sk_rc rc;
    int64_t until = test_patience();
    while ((rc = sk_chan_read(out, sk_now_ns() + 2000000, &m, NULL)) == SK_ETIMEOUT &&
           sk_now_ns() < until)
        tend(r);
    CHECK_OK(rc);
    memcpy(&v, m.p, 8);
    CHECK_EQ(v, want);
    done(out, &m);
}

static void runs(const char *fault, int64_t nth, uint32_t victim) {
    struct run r = {.w = world(3), .again = fault != NULL, .fault = fault, .n_kills = 2};
    struct sk_dag_head *h = r.w->head;
    enum { N = 60 };
    for (uint32_t i = 0; i < 2; i++) r.pid[i] = child(r.w, i, i == victim ? fault : NULL, nth);
    struct sk_chan_end in = end_at(r.w, 0, SK_CHAN_WRITER),
                       one = end_at(r.w, 1, sk_dag_reader(h, 1, 3)),
                       two = end_at(r.w, 2, sk_dag_reader(h, 2, 3));
    uint64_t n_in = 0;
    for (uint64_t i = 0; i < N; i++) {
        void *p;
        while (n_in < N && sk_chan_reserve(&in, 8, 0, &p, NULL) == SK_OK) {
            memcpy(p, &n_in, 8);
            sk_chan_publish(&in, 8, 1);
            n_in++;
        }
        tend(&r);
        if (n_in <= i) { /* the channel has no room: the reader that is behind may be dead */
            i--;
            continue;
        }
        comes(&r, &one, i * 3 + 1);
        comes(&r, &two, 2 * i * (i + 1) + i + 1);
    }
    sk_dag_close(h);
    for (uint32_t i = 0; i < 2; i++) CHECK_EQ(waitpid(r.pid[i], &(int){0}, 0), r.pid[i]);
    for (uint32_t n = 0; n < 3; n++) CHECK(sk_chan_check(sk_dag_channel(h, n)));
    sk_dag_plan_deinit(&r.w->plan);
}

TEST(loops_run_a_graph) { runs(NULL, 0, 0); }

TEST(a_loop_is_killed_at_each_fault_point_and_its_successor_goes_on) {
    static const char *const points[] = {
        "loop.before_op",         "loop.before_save",       "loop.after_save",
        "loop.before_pass",       "loop.after_pass",        "channel.before_version",
        "channel.before_publish", "channel.after_publish",  "channel.before_pass",
        "channel.after_pass",     "channel.before_release", "channel.after_release"};
    for (size_t i = 0; i < SK_COUNT(points); i++)
        for (uint32_t victim = 0; victim < 2; victim++)
            runs(points[i], (int64_t)(test_rand() % 40 + 1), victim);
}
