/* cluster.c - see cluster.h: an event heap, servers, flows, stores.
 *
 * A server that works in the order of arrival needs no queue of waiting pieces, only the time
 * `free` at which it is free: a piece that arrives at time t begins at max(t, free). Pieces arrive
 * in order of time, because each arrival is an event. Cost: about 0.1 us a piece and server. */
#include "sim/cluster/cluster.h"

#include <stdlib.h>

#include "base/containers/heap.h"
#include "base/containers/list.h"
#include "base/pool.h"

#define TAG SK_TAG_ENGINE
#define EAGER                                                                          \
    0.8 /* share of a store's memory above which values are written to disk in advance \
         */

struct flow {
    struct sk_cl_flow d;
    uint32_t begun, ended;
};

struct event {
    double at;
    uint64_t order;
    struct flow *flow; /* NULL: call */
    uint32_t hop;      /* number of the hop at which the piece arrives; n_hops: it has passed all */
    void (*call)(void *ctx, void *arg);
    void *arg;
};
static inline bool sooner(const struct event *a, const struct event *b) {
    return a->at < b->at || (!(b->at < a->at) && a->order < b->order);
}
SK_HEAP(event_heap, struct event, sooner)

enum where { FREE, MEMORY, LEAVING, DISK };
struct object {
    struct sk_list link; /* MEMORY: of its node, oldest first */
    struct sk_cluster *c;
    uint64_t bytes;
    double stretches;
    uint32_t node, number;
    enum where where;
    bool dropped; /* true: the value was dropped while it was LEAVING */
};

struct asker {
    uint64_t bytes;
    void (*done)(void *ctx, void *arg);
    void *arg;
};
struct node {
    /* [server]: time at which the server will have done all work that has arrived */
    double *free[SK_CL_KINDS];
    struct sk_list values;
    /* used: bytes of the store; leaving: those of them that are being written to disk */
    uint64_t used, leaving;
    uint32_t n_leaving, first;
    SK_VEC(struct asker) queue; /* from `first` on */
};

struct sk_cluster {
    struct sk_cl_conf conf;
    double now, busy[SK_CL_WAIT + 1], driver, s3;
    uint64_t order;
    struct event_heap heap;
    struct sk_pool flows;
    struct node *nodes;
    SK_VEC(struct object *) objects;
    SK_VEC(uint32_t) numbers; /* free ones */
    uint64_t n_objects;
    struct sk_cl_stats st;
};

static void *need(void *p) {
    if (!p) abort(); /* a simulation without memory has no result */
    return p;
}

static void at(struct sk_cluster *c, struct event e, double when) {
    e.at = when;
    e.order = c->order++;
    if (!event_heap_push(&c->heap, TAG, e)) abort();
}

static uint32_t servers(const struct sk_cluster *c, enum sk_cl_server what) {
    return what == SK_CL_CORE ? c->conf.node.cores : what == SK_CL_DISK ? c->conf.node.disks : 1;
}

sk_rc sk_cl_create(const struct sk_cl_conf *conf, struct sk_cluster **out) {
    struct sk_cluster *c = sk_calloc(TAG, sizeof *c);
    if (!c) return SK_ENOMEM;
    c->conf = *conf;
    if (!c->conf.spillers) c->conf.spillers = 4;
    sk_pool_init(&c->flows, TAG, sizeof(struct flow));
    c->nodes = need(sk_calloc(TAG, conf->n_nodes * sizeof *c->nodes));
    for (uint32_t i = 0; i < conf->n_nodes; i++) {
        sk_list_init(&c->nodes[i].values);
        for (uint32_t k = 0; k < SK_CL_KINDS; k++)
            c->nodes[i].free[k] = need(sk_calloc(TAG, servers(c, k) * sizeof(double)));
    }
    *out = c;
    return SK_OK;
}

void sk_cl_destroy(struct sk_cluster *c) {
    if (!c) return;
    SK_ASSERT(event_heap_check(&c->heap));
    for (uint32_t i = 0; i < c->conf.n_nodes; i++) {
        for (uint32_t k = 0; k < SK_CL_KINDS; k++) sk_free(c->nodes[i].free[k]);
        sk_vec_free(&c->nodes[i].queue);
    }
    for (uint32_t i = 0; i < c->objects.n; i++) sk_free(c->objects.p[i]);
    sk_vec_free(&c->objects);
    sk_vec_free(&c->numbers);
    event_heap_free(&c->heap);
    sk_pool_deinit(&c->flows);
    sk_free(c->nodes);
    sk_free(c);
}

double sk_cl_now(const struct sk_cluster *c) { return c->now; }
double sk_cl_busy(const struct sk_cluster *c, enum sk_cl_server what) { return c->busy[what]; }
double sk_cl_disk_s(const struct sk_cluster *c, double bytes, double stretches) {
    return bytes / c->conf.node.disk_bytes_s + stretches * c->conf.node.seek_s;
}
double sk_cl_net_s(const struct sk_cluster *c, double bytes) {
    return bytes / c->conf.node.net_bytes_s;
}

/* ---- flows ----------------------------------------------------------------------------------- */

static double *server(struct sk_cluster *c, const struct sk_cl_hop *h) {
    /* the server of the kind that is free first */
    if (h->what == SK_CL_DRIVER) return &c->driver;
    if (h->what == SK_CL_S3) return &c->s3;
    SK_ASSERT(h->what < SK_CL_KINDS && h->node < c->conf.n_nodes);
    double *f = c->nodes[h->node].free[h->what], *best = f;
    for (uint32_t i = 1; i < servers(c, h->what); i++)
        if (f[i] < *best) best = &f[i];
    return best;
}

static void arrive(struct sk_cluster *c, struct flow *f, uint32_t hop) {
    /* a piece, at its next server or behind the last one */
    const struct sk_cl_hop *h = &f->d.hop[hop];
    double end = c->now + h->sec;
    c->busy[h->what] += h->sec;
    if (h->what != SK_CL_WAIT) {
        double *free = server(c, h);
        end = SK_MAX(c->now, *free) + h->sec;
        *free = end;
    }
    at(c, (struct event){.flow = f, .hop = hop + 1}, end);
}

void sk_cl_begin(struct sk_cluster *c, const struct sk_cl_flow *d) {
    SK_ASSERT(d->pieces && d->window && d->n_hops <= SK_CL_HOPS);
    struct flow *f = need(sk_pool_get(&c->flows));
    *f = (struct flow){.d = *d};
    for (; f->begun < SK_MIN(d->pieces, d->window); f->begun++)
        at(c, (struct event){.flow = f}, c->now);
}

bool sk_cl_turn(struct sk_cluster *c) {
    if (!c->heap.n) return false;
    struct event e = event_heap_pop(&c->heap);
    SK_ASSERT(e.at >= c->now);
    c->now = e.at;
    if (!e.flow) {
        e.call(c->conf.ctx, e.arg);
        return true;
    }
    struct flow *f = e.flow;
    if (e.hop < f->d.n_hops) {
        arrive(c, f, e.hop);
        return true;
    }
    f->ended++;
    if (f->begun < f->d.pieces) {
        f->begun++;
        at(c, (struct event){.flow = f}, c->now);
    }
    if (f->ended < f->d.pieces) return true;
    struct sk_cl_flow d = f->d;
    sk_pool_put(&c->flows, f);
    d.done(c->conf.ctx, d.arg);
    return true;
}

/* ---- stores ---------------------------------------------------------------------------------- */

static void serve(struct sk_cluster *c, uint32_t i);

static void forget(struct sk_cluster *c, uint32_t number) {
    struct object *o = c->objects.p[number - 1];
    o->where = FREE;
    c->n_objects--;
    if (!sk_vec_push(&c->numbers, TAG, number)) abort();
}

static void written(void *ctx, void *arg) {
    struct object *o = arg;
    struct sk_cluster *c = o->c;
    struct node *n = &c->nodes[o->node];
    (void)ctx;
    n->used -= o->bytes;
    n->leaving -= o->bytes;
    n->n_leaving--;
    o->where = DISK;
    if (o->dropped) forget(c, o->number);
    else if (c->conf.spilled) c->conf.spilled(c->conf.ctx, o->number);
    serve(c, o->node);
}

static void spill(struct sk_cluster *c, struct node *n) { /* the oldest */
    struct object *o = sk_container_of(sk_list_first(&n->values), struct object, link);
    sk_list_del(&o->link);
    o->where = LEAVING;
    n->leaving += o->bytes;
    n->n_leaving++;
    c->st.spilled_bytes += o->bytes;
    uint32_t pieces = (uint32_t)(o->bytes >> 25) + 1; /* of 32 MiB */
    sk_cl_begin(
        c, &(struct sk_cl_flow){.hop = {{SK_CL_DISK, o->node,
                                         sk_cl_disk_s(c, (double)o->bytes, o->stretches) / pieces}},
                                .n_hops = 1,
                                .pieces = pieces,
                                .window = 1,
                                .done = written,
                                .arg = o});
}

/* Grants waiting requests for room in their order, then spills values until memory is below the
 * mark. */
static void serve(struct sk_cluster *c, uint32_t i) {
    struct node *n = &c->nodes[i];
    uint64_t size = c->conf.node.store_bytes, wanted = 0;
    while (n->first < n->queue.n) {
        const struct asker *a = &n->queue.p[n->first];
        bool fits = n->used + a->bytes <= size,
             over = !fits && !n->n_leaving && sk_list_empty(&n->values);
        if (!fits && !over) break;
        n->used += a->bytes;
        c->st.over_bytes += over ? a->bytes : 0;
        at(c, (struct event){.call = a->done, .arg = a->arg}, c->now);
        n->first++;
    }
    if (n->first == n->queue.n) n->first = n->queue.n = 0;
    for (uint32_t k = n->first; k < n->queue.n; k++) wanted += n->queue.p[k].bytes;
    while (!sk_list_empty(&n->values) && n->n_leaving < c->conf.spillers &&
           (double)(n->used - n->leaving + wanted) > EAGER * (double)size)
        spill(c, n);
}

void sk_cl_take(struct sk_cluster *c, uint32_t node, uint64_t bytes,
                void (*done)(void *ctx, void *arg), void *arg) {
    if (!sk_vec_push(&c->nodes[node].queue, TAG, ((struct asker){bytes, done, arg}))) abort();
    serve(c, node);
}

void sk_cl_give(struct sk_cluster *c, uint32_t node, uint64_t bytes) {
    SK_ASSERT(c->nodes[node].used >= bytes);
    c->nodes[node].used -= bytes;
    serve(c, node);
}

uint32_t sk_cl_keep(struct sk_cluster *c, uint32_t node, uint64_t bytes, double stretches) {
    uint32_t number = c->numbers.n ? c->numbers.p[--c->numbers.n] : 0;
    if (!number) {
        if (!sk_vec_push(&c->objects, TAG, need(sk_alloc(TAG, sizeof(struct object))))) abort();
        number = c->objects.n;
    }
    struct object *o = c->objects.p[number - 1];
    *o = (struct object){.c = c,
                         .bytes = bytes,
                         .stretches = stretches,
                         .node = node,
                         .number = number,
                         .where = MEMORY};
    sk_list_push_back(&c->nodes[node].values, &o->link);
    c->n_objects++;
    c->st.peak_objects = SK_MAX(c->st.peak_objects, c->n_objects);
    serve(c, node);
    return number;
}

void sk_cl_drop(struct sk_cluster *c, uint32_t number) {
    struct object *o = c->objects.p[number - 1];
    SK_ASSERT(o->where != FREE && !o->dropped);
    if (o->where == LEAVING) {
        o->dropped = true;
        return;
    }
    if (o->where == MEMORY) {
        sk_list_del(&o->link);
        sk_cl_give(c, o->node, o->bytes);
    }
    forget(c, number);
}

bool sk_cl_on_disk(const struct sk_cluster *c, uint32_t number) {
    return c->objects.p[number - 1]->where == DISK;
}
uint32_t sk_cl_home(const struct sk_cluster *c, uint32_t number) {
    return c->objects.p[number - 1]->node;
}

void sk_cl_get_stats(const struct sk_cluster *c, struct sk_cl_stats *out) { *out = c->st; }
