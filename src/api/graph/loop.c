/* loop.c - an actor's part of a compiled graph: the actions of dag/loop.h over values that
 * are bytes, and the actor's turn.
 *
 * The loop is a thread of the actor's process beside the one that runs its calls; around each
 * function either holds the turn. A result is written straight into its channel's buffer.
 * Invariant: before a function runs, its channel has a cell, so that no function waits for a reader
 * while it holds the turn. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>

#include "api/graph/graph_int.h"
#include "base/arena.h"
#include "base/mem.h"
#include "base/wire.h"

/* bytes that the first buffer of each channel has, whatever the memory */
enum { ALWAYS = 64 };

struct slot { /* the value of a node in the current execution */
    const void *p;
    size_t len;
    uint32_t kind;
    void *heap; /* memory for values that stay within the actor */
    size_t cap;
};

struct node_call { /* fn NULL: the node is another actor's */
    struct sk_api_fn *fn;
    const char *name;
    uint32_t *args, n_args;
};

struct loop {
    struct sk_graph_memory memory; /* must be first: it is the context of the pool */
    struct sk_chan_pool pool;
    struct sk_dag_loop dag;
    struct sk_dag_seat *seat;
    uint32_t n_nodes;
    struct slot *slots;
    struct node_call *calls;
    struct sk_view *views;    /* the arguments of a call */
    struct sk_chan_msg *read; /* for each port, the message read last */
    bool *has_read;
    struct sk_arena arena; /* of everything but the heaps of slots */
};

struct running {               /* a function of a graph that runs */
    struct sk_graph_call call; /* must be first */
    struct loop *l;
    uint32_t node;
    bool returned;
};

sk_rc sk_graph_alloc(void *memory, uint64_t len, sk_off *off, uint64_t *cap, struct sk_err *err) {
    struct sk_graph_memory *m = memory;
    return m->e->channels->alloc(m->e, m->graph, len, off, cap, err);
}
void sk_graph_free(void *memory, sk_off off, uint64_t cap) {
    (void)cap;
    struct sk_graph_memory *m = memory;
    m->e->channels->free(m->e, m->graph, off);
}

/* ---- values of nodes ------------------------------------------------------------------------- */

/* Makes room for the value of a node of this actor: in the buffer of its channel, or on the heap.
 * A second call replaces the value. */
static sk_rc room_for(struct loop *l, uint32_t node, size_t n, void **out, struct sk_err *err) {
    struct slot *s = &l->slots[node];
    uint32_t port = l->dag.port_of[node];
    if (port != SK_DAG_NONE)
        SK_TRY(sk_chan_reserve(&l->dag.ports[port].end, n, INT64_MAX, out, err));
    else {
        if (s->cap < n || !s->heap) {
            void *p = sk_realloc(SK_TAG_EXEC, s->heap, n + 1);
            if (!p) return SK_ERR(err, SK_ENOMEM, "no memory for a value of %zu bytes", n);
            s->heap = p;
            s->cap = n;
        }
        *out = s->heap;
    }
    s->p = *out;
    s->len = n;
    return SK_OK;
}

/* Makes a failure the value of a node, cut short if there is no memory for it. */
static sk_rc set_failure(struct loop *l, uint32_t node, const void *p, size_t n,
                         struct sk_err *err) {
    void *room = NULL;
    sk_rc rc = room_for(l, node, n, &room, err);
    if (rc == SK_EFULL || rc == SK_ENOSPC || rc == SK_ENOMEM) {
        n = SK_MIN(n, (size_t)ALWAYS);
        rc = room_for(l, node, n, &room, err);
    }
    if (rc != SK_OK) return rc;
    memcpy(room, p, n);
    l->slots[node].kind = KIND_FAILURE;
    return SK_OK;
}

static sk_rc set_result(struct sk_graph_call *call, size_t i, const void *data, size_t size,
                        struct sk_err *err) {
    struct running *c = (struct running *)(void *)call;
    void *room;
    if (i) return SK_ERR(err, SK_EINVAL, "result %zu: a function of a graph has one result", i);
    if (c->returned) return SK_ERR(err, SK_EINVAL, "result 0 was set before");
    SK_TRY(room_for(c->l, c->node, size, &room, err));
    if (size) memcpy(room, data, size);
    c->l->slots[c->node].kind = KIND_BYTES;
    c->returned = true;
    return SK_OK;
}

/* ---- actions of the loop (dag/loop.h) -------------------------------------------------------- */

static sk_rc take(void *ctx, uint32_t port, const struct sk_chan_msg *m, struct sk_err *err) {
    (void)err;
    struct loop *l = ctx;
    struct slot *s = &l->slots[l->dag.ports[port].node];
    l->read[port] = *m;
    l->has_read[port] = true;
    s->p = m->p;
    s->len = (size_t)m->len;
    s->kind = m->kind;
    return SK_OK;
}

/* Calls the function; makes what it says, or its failure, the value of its node. */
static sk_rc run(struct loop *l, uint32_t node, struct sk_err *err) {
    const struct node_call *c = &l->calls[node];
    struct running call = {.call = {set_result}, .l = l, .node = node};
    struct sk_task t = {.engine = l->memory.e,
                        .n_args = c->n_args,
                        .args = l->views,
                        .n_returns = 1,
                        .name = c->name};
    struct skate_task task = {.t = &t, .graph = &call.call};
    struct sk_err *last = sk_api_err();
    for (uint32_t i = 0; i < c->n_args; i++) {
        const struct slot *s = &l->slots[c->args[i]];
        l->views[i] = (struct sk_view){.kind = KIND_BYTES, .data = s->p, .len = s->len};
    }
    last->msg[0] = 0;
    sk_api_turn_begin();
    int rc = sk_api_fn_call(c->fn, &task);
    sk_api_turn_end();
    if (rc == 0 && !task.failed && call.returned) return SK_OK;
    char text[4 + sizeof last->msg];
    int32_t code = task.failed ? SK_ETASK : rc == 0 ? SK_EINVAL : rc < 0 ? rc : SK_ETASK;
    const char *msg = rc == 0 && !task.failed ? "it returned no result" : last->msg;
    memcpy(text, &code, 4);
    int n = task.failed ? snprintf(text + 4, sizeof text - 4, "%s", msg)
                        : snprintf(text + 4, sizeof text - 4, "task %s failed%s%s", c->name,
                                   msg[0] ? ": " : "", msg);
    return set_failure(l, node, text, 4 + SK_MIN((size_t)SK_MAX(n, 0), sizeof text - 5), err);
}

static sk_rc compute(void *ctx, uint32_t node, struct sk_err *err) {
    struct loop *l = ctx;
    const struct node_call *c = &l->calls[node];
    uint32_t port = l->dag.port_of[node];
    void *room;
    /* waits for a cell before the turn is taken */
    if (port != SK_DAG_NONE)
        SK_TRY(sk_chan_reserve(&l->dag.ports[port].end, ALWAYS, INT64_MAX, &room, err));
    for (uint32_t i = 0; i < c->n_args; i++) {
        const struct slot *s = &l->slots[c->args[i]];
        if (s->kind == KIND_FAILURE) return set_failure(l, node, s->p, s->len, err);
    }
    return run(l, node, err);
}

static sk_rc give(void *ctx, uint32_t port, struct sk_err *err) {
    (void)err;
    struct loop *l = ctx;
    const struct slot *s = &l->slots[l->dag.ports[port].node];
    sk_chan_publish(&l->dag.ports[port].end, s->len, s->kind);
    return SK_OK;
}

static sk_rc next(void *ctx, struct sk_err *err) {
    (void)err;
    struct loop *l = ctx;
    for (uint32_t i = 0; i < l->dag.n_ports; i++) {
        if (!l->has_read[i]) continue;
        l->has_read[i] = false;
        sk_chan_release(&l->dag.ports[i].end, &l->read[i]);
    }
    return SK_OK;
}

static void loop_free(struct loop *l) {
    for (uint32_t i = 0; l->slots && i < l->n_nodes; i++) sk_free(l->slots[i].heap);
    sk_arena_deinit(&l->arena);
    sk_free(l);
}

/* Held while a graph leaves its memory, and taken before the next graph uses it: between them is
 * only the driver, another process, which ThreadSanitizer does not see. */
static pthread_mutex_t leaving = PTHREAD_MUTEX_INITIALIZER;

static void *loop_main(void *arg) {
    struct loop *l = arg;
    struct sk_err err = {0};
    struct sk_dag_actions a = {
        .ctx = l, .take = take, .compute = compute, .give = give, .turn = next};
    sk_rc rc = sk_dag_run(&l->dag, &a, &err);
    for (uint32_t i = 0; i < l->dag.n_ports; i++) {
        if (l->has_read[i]) sk_chan_pass(&l->dag.ports[i].end);
        /* if this loop has failed, the others end, too */
        sk_chan_close(l->dag.ports[i].end.shm);
    }
    (void)next(l, &err);
    struct sk_dag_seat *seat = l->seat;
    loop_free(l);
    pthread_mutex_lock(&leaving);
    sk_dag_seat_leave(seat, rc, err.msg); /* from now on the graph's memory may be reused */
    pthread_mutex_unlock(&leaving);
    return NULL;
}

/* ---- beginning ------------------------------------------------------------------------------- */

static void *zeros(struct loop *l, size_t n, size_t each, bool *fine) {
    void *p = sk_arena_calloc(&l->arena, (n + 1) * each);
    *fine = *fine && p;
    return p;
}

static sk_rc read_call(struct loop *l, struct sk_rd *r, uint32_t *most, struct sk_err *err) {
    uint32_t node = sk_rd_u32(r);
    struct sk_bytes name = sk_rd_bytes(r);
    uint32_t n = sk_rd_u32(r);
    if (r->bad || node >= l->n_nodes || n > r->n / 4)
        return SK_ERR(err, SK_ECORRUPT, "a call of a graph's plan");
    struct node_call *c = &l->calls[node];
    bool fine = true;
    char *copy = zeros(l, name.n, 1, &fine);
    c->args = zeros(l, n, sizeof *c->args, &fine);
    if (!fine) return SK_ERR(err, SK_ENOMEM, "no memory for a call of a graph");
    memcpy(copy, name.p, name.n);
    c->name = copy;
    c->n_args = n;
    *most = SK_MAX(*most, n);
    for (uint32_t i = 0; i < n; i++)
        if ((c->args[i] = sk_rd_u32(r)) >= l->n_nodes)
            return SK_ERR(err, SK_ECORRUPT, "an argument of a graph's plan");
    return sk_api_fn_find(copy, &c->fn, err);
}

/* Reads the rest of the plan and attaches to the channels. */
static sk_rc read_plan(struct loop *l, struct sk_rd *r, struct sk_err *err) {
    l->n_nodes = sk_rd_u32(r);
    uint32_t n_ops = sk_rd_u32(r), n_ports = sk_rd_u32(r), n_calls = sk_rd_u32(r), most = 0;
    bool fine = !r->bad && n_ops < r->n && n_ports < r->n && n_calls < r->n;
    if (!fine || l->n_nodes > UINT32_MAX / 64)
        return SK_ERR(err, SK_ECORRUPT, "the plan of a graph");
    l->slots = zeros(l, l->n_nodes, sizeof *l->slots, &fine);
    l->calls = zeros(l, l->n_nodes, sizeof *l->calls, &fine);
    struct sk_dag_op *ops = zeros(l, n_ops, sizeof *ops, &fine);
    uint32_t *port_of = zeros(l, l->n_nodes, sizeof *port_of, &fine);
    l->dag.ports = zeros(l, n_ports, sizeof *l->dag.ports, &fine);
    l->read = zeros(l, n_ports, sizeof *l->read, &fine);
    l->has_read = zeros(l, n_ports, sizeof *l->has_read, &fine);
    if (!fine) return SK_ERR(err, SK_ENOMEM, "no memory for the plan of a graph");
    memset(port_of, 0xff, l->n_nodes * sizeof *port_of);
    l->dag.ops = ops;
    l->dag.n_ops = n_ops;
    l->dag.port_of = port_of;
    for (uint32_t i = 0; i < n_ops; i++) {
        ops[i].kind = sk_rd_u32(r);
        ops[i].node = sk_rd_u32(r);
        if (ops[i].node >= l->n_nodes) return SK_ERR(err, SK_ECORRUPT, "an operation of a graph");
    }
    uint64_t size;
    uint8_t *base = l->memory.e->channels->memory(l->memory.e, &size);
    for (uint32_t i = 0; i < n_ports; i++) {
        uint64_t off = sk_rd_u64(r);
        uint32_t node = sk_rd_u32(r), end = sk_rd_u32(r);
        if (node >= l->n_nodes || off >= size) return SK_ERR(err, SK_ECORRUPT, "a graph's channel");
        SK_TRY(sk_chan_attach(&l->dag.ports[i].end, base + off, end, base, size,
                              end == SK_CHAN_WRITER ? &l->pool : NULL, err));
        l->dag.ports[i].node = node;
        port_of[node] = i;
        l->dag.n_ports = i + 1;
    }
    for (uint32_t i = 0; i < n_calls; i++) SK_TRY(read_call(l, r, &most, err));
    l->views = zeros(l, most, sizeof *l->views, &fine);
    return fine ? SK_OK : SK_ERR(err, SK_ENOMEM, "no memory for the arguments of a graph");
}

static sk_rc start_thread(struct loop *l, struct sk_err *err) {
    pthread_t thread;
    sigset_t all, before;
    sigfillset(&all); /* signals are for the thread that runs calls */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int rc = pthread_create(&thread, NULL, loop_main, l);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc) return SK_ERR(err, SK_EIO, "no thread for a graph: %s", strerror(rc));
    pthread_detach(thread);
    return SK_OK;
}

static int graph_begin(struct skate_task *t) {
    struct sk_err *err = sk_api_err();
    struct sk_engine *e = sk_api_engine();
    uint64_t size;
    if (!e) return SK_ECLOSED;
    if (!t->t->actor.v || !t->t->n_args || !e->channels)
        return SK_ERR(err, SK_EINVAL, "only an actor runs in a graph");
    SK_TRY(e->channels->attend(e, err));
    struct sk_rd r = sk_rd_init(t->t->args[0].data, t->t->args[0].len);
    uint64_t graph = sk_rd_u64(&r), seat = sk_rd_u64(&r);
    uint8_t *base = e->channels->memory(e, &size);
    if (r.bad || seat >= size) return SK_ERR(err, SK_ECORRUPT, "the plan of a graph");
    struct loop *l = sk_calloc(SK_TAG_EXEC, sizeof *l);
    if (!l) return SK_ERR(err, SK_ENOMEM, "no memory for a graph");
    l->memory = (struct sk_graph_memory){e, graph};
    l->pool = (struct sk_chan_pool){&l->memory, sk_graph_alloc, sk_graph_free};
    l->seat = (struct sk_dag_seat *)(void *)(base + seat);
    sk_arena_init(&l->arena, SK_TAG_EXEC, 4096);
    struct sk_dag_seat *taken = l->seat;
    pthread_mutex_lock(&leaving);
    pthread_mutex_unlock(&leaving);
    if (!sk_dag_seat_take(taken, graph, 0)) {
        loop_free(l);
        return SK_ERR(err, SK_ECLOSED, "the graph has ended");
    }
    sk_rc rc = read_plan(l, &r, err);
    if (rc == SK_OK) rc = start_thread(l, err);
    if (rc == SK_OK) return skate_return(t, 0, NULL, 0);
    loop_free(l);
    sk_dag_seat_leave(taken, rc, err->msg);
    return rc;
}

const char sk_api_graph_begin[] = "skate:graph_begin";

/* Before the constructors of programs, one of which may call skate_worker_main. */
__attribute__((constructor(101))) static void register_begin(void) {
    (void)skate_register(sk_api_graph_begin, graph_begin);
}
