/* engine_graph.c - a worker's side of channels.h. The driver gives out the memory of compiled
 * graphs, which survives this process. */
#include "base/mem.h"
#include "engine/local/worker/worker.h"

static struct sk_worker_engine *engine_of(struct sk_engine *e) {
    return sk_container_of(e, struct sk_worker_engine, base);
}

static uint8_t *c_memory(struct sk_engine *e, uint64_t *size) {
    const struct sk_worker_engine *c = engine_of(e);
    *size = c->data_seg.size + c->data_seg.tail;
    return c->data_seg.base;
}

/* Makes one thread read the ring for all others from now on. */
static sk_rc c_attend(struct sk_engine *e, struct sk_err *err) {
    struct sk_worker_engine *c = engine_of(e);
    pthread_mutex_lock(&c->mu);
    sk_rc rc = sk_worker_link_start_reader(c, err);
    pthread_mutex_unlock(&c->mu);
    return rc;
}

static sk_rc c_graph_open(struct sk_engine *e, uint64_t *graph, struct sk_err *err) {
    struct {
        uint32_t type, pad;
        uint64_t req;
    } q = {SK_M_GRAPHOPEN, 0, 0};
    return sk_worker_link_ask_number(engine_of(e), &q, sizeof q, REQ_AT, graph, err);
}

static sk_rc c_graph_alloc(struct sk_engine *e, uint64_t graph, uint64_t len, sk_off *off,
                           uint64_t *cap, struct sk_err *err) {
    struct sk_worker_engine *c = engine_of(e);
    struct {
        uint32_t type, pad;
        uint64_t req, graph, len;
    } q = {SK_M_EXTENT, 0, 0, graph, len};
    SK_TRY(c_attend(e, err));
    struct sk_msg *m =
        sk_worker_link_answer(c, sk_worker_link_ask(c, &q, sizeof q, REQ_AT), INT64_MAX);
    struct sk_rd r;
    sk_rc rc = sk_worker_link_answer_rc(m, &r, err);
    if (rc == SK_OK) *off = sk_rd_u64(&r), *cap = sk_rd_u64(&r);
    SK_DCHECK(rc != SK_OK || (*cap >= len && *off + *cap <= c->data_seg.size + c->data_seg.tail));
    sk_free(m);
    return rc;
}

static void c_graph_free(struct sk_engine *e, uint64_t graph, sk_off off) {
    sk_worker_link_tell(engine_of(e), SK_M_EXTENTFREE, graph, off, false);
}
static void c_graph_close(struct sk_engine *e, uint64_t graph) {
    sk_worker_link_tell(engine_of(e), SK_M_GRAPHCLOSE, graph, 0, false);
}
static uint32_t c_graphs_living(struct sk_engine *e) {
    (void)e;
    return 0;
}

static sk_rc c_promise(struct sk_engine *e, sk_oid *out, struct sk_err *err) {
    struct sk_worker_engine *c = engine_of(e);
    struct {
        uint32_t type, pad;
        uint64_t oid;
    } m = {SK_M_PROMISE, 0, 0};
    (void)err;
    pthread_mutex_lock(&c->mu);
    m.oid = ++c->next_id;
    sk_worker_link_send_unlocked(c, &m, sizeof m, false);
    pthread_mutex_unlock(&c->mu);
    *out = (sk_oid){m.oid};
    return SK_OK;
}

static sk_rc c_keep(struct sk_engine *e, sk_oid o, const struct sk_payload *p, struct sk_err *err) {
    SK_DCHECK(o.v);
    return sk_worker_engine_send_value(engine_of(e), SK_M_KEEP, p, &o, err);
}

const struct sk_channels_ops sk_worker_engine_channels = {.memory = c_memory,
                                                          .attend = c_attend,
                                                          .open = c_graph_open,
                                                          .alloc = c_graph_alloc,
                                                          .free = c_graph_free,
                                                          .close = c_graph_close,
                                                          .living = c_graphs_living,
                                                          .promise = c_promise,
                                                          .keep = c_keep};
