/* loop.c - runs an actor's list of operations.
 *
 * Not here: what a value is, locks of the caller's, who watches processes. Invariant: an input is passed after the outputs of its execution are published, so
 * what was passed needs no replay. Cost: a look at `count` for each input that is there; a wait for one that is not. */
#include "dag/loop.h"

#include <stdio.h>

#include "base/atomic.h"
#include "base/fault.h"
#include "ipc/ipc.h"

static sk_rc next_message(struct sk_chan_end *e, const struct sk_dag_actions *a, struct sk_chan_msg *m, struct sk_err *err) {
    sk_rc rc = sk_chan_read(e, 0, m, NULL);
    if (rc == SK_OK) return rc;
    if (a->wait_begin) a->wait_begin(a->ctx);
    rc = sk_chan_read(e, INT64_MAX, m, err);
    if (a->wait_end) a->wait_end(a->ctx);
    return rc;
}

static sk_rc once(struct sk_dag_loop *l, const struct sk_dag_actions *a, struct sk_err *err) {
    for (uint32_t i = 0; i < l->n_ops; i++) {
        const struct sk_dag_op *op = &l->ops[i];
        uint32_t port = l->port_of[op->node];
        struct sk_chan_msg m;
        SK_FAULT_HERE("loop.before_op");
        switch (op->kind) {
        case SK_DAG_READ:
            SK_ASSERT(port < l->n_ports);
            SK_TRY(next_message(&l->ports[port].end, a, &m, err));
            SK_TRY(a->take(a->ctx, port, &m, err));
            break;
        case SK_DAG_COMPUTE: SK_TRY(a->compute(a->ctx, op->node, err)); break;
        case SK_DAG_WRITE:
            SK_ASSERT(port < l->n_ports);
            if (l->ports[port].end.next > l->execution) break; /* its predecessor has published it */
            SK_TRY(a->give(a->ctx, port, err));
            SK_ASSERT(l->ports[port].end.next == l->execution + 1);
            break;
        case SK_DAG_SEND:
        case SK_DAG_RECV: return SK_ERR(err, SK_ENOSYS, "a value that goes by a meeting: there is no transport of that kind here");
        }
    }
    SK_FAULT_HERE("loop.before_pass");
    for (uint32_t i = 0; i < l->n_ports; i++)
        if (l->ports[i].end.end != SK_CHAN_WRITER) sk_chan_pass(&l->ports[i].end);
    SK_FAULT_HERE("loop.after_pass");
    l->execution++;
    return a->turn(a->ctx, err);
}

sk_rc sk_dag_run(struct sk_dag_loop *l, const struct sk_dag_actions *a, struct sk_err *err) {
    bool reads = false;
    l->execution = 0;
    for (uint32_t i = 0; i < l->n_ports; i++) {
        if (l->ports[i].end.end == SK_CHAN_WRITER) continue;
        reads = true;
        l->execution = SK_MAX(l->execution, l->ports[i].end.next);
    }
    if (!reads) return SK_ERR(err, SK_EINVAL, "an actor of a graph reads nothing that comes from elsewhere: it would run without end");
    for (uint32_t i = 0; i < l->n_ports;
         i++) { /* its predecessor died while it passed them: what is not passed of that execution is done with */
        struct sk_chan_end *e = &l->ports[i].end;
        while (e->end != SK_CHAN_WRITER && e->next < l->execution) {
            struct sk_chan_msg m;
            SK_TRY(sk_chan_read(e, 0, &m, err));
            sk_chan_pass(e);
            sk_chan_release(e, &m);
        }
    }
    for (;;) SK_TRY(once(l, a, err));
}

/* ---- seats ------------------------------------------------------------------------------------------------------------------------- */

bool sk_dag_seat_take(struct sk_dag_seat *s) {
    uint32_t empty = SK_SEAT_EMPTY;
    return sk_cas_acqrel(&s->state, &empty, SK_SEAT_TAKEN);
}

void sk_dag_seat_leave(struct sk_dag_seat *s, sk_rc rc, const char *why) {
    if (sk_load_seq(&s->state) == SK_SEAT_LEFT) return;
    s->rc = rc;
    (void)snprintf(s->why, sizeof s->why, "%s", why);
    sk_store_seq(&s->state, SK_SEAT_LEFT);
    sk_futex_wake(&s->state, 1 << 20);
}

sk_rc sk_dag_seat_wait(struct sk_dag_seat *s, int64_t deadline_ns) {
    uint32_t state;
    while ((state = sk_load_seq(&s->state)) != SK_SEAT_LEFT)
        if (sk_futex_wait(&s->state, state, deadline_ns) == SK_ETIMEOUT && sk_load_seq(&s->state) != SK_SEAT_LEFT) return SK_ETIMEOUT;
    return SK_OK;
}
