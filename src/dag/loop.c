/* loop.c - runs an actor's list of operations.
 *
 * Not here: the form of values, locks of the caller, and noticing that a process died. Invariant:
 * an input is passed after the outputs of its execution are published, so a passed message needs no
 * replay. Cost: for each input one read of its channel's `count` if the message exists, else a
 * wait. */
#include "dag/loop.h"

#include <stdio.h>

#include "base/atomic.h"
#include "base/fault.h"
#include "ipc/ipc.h"

static sk_rc next_message(struct sk_chan_end *e, const struct sk_dag_actions *a,
                          struct sk_chan_msg *m, struct sk_err *err) {
    sk_rc rc = sk_chan_read(e, 0, m, NULL);
    if (rc == SK_OK) return rc;
    if (a->wait_begin) a->wait_begin(a->ctx);
    rc = sk_chan_read(e, INT64_MAX, m, err);
    if (a->wait_end) a->wait_end(a->ctx);
    return rc;
}

/* Passes and releases the oldest message of the channel, which is not needed any more. */
static sk_rc pass_one(struct sk_chan_end *e, struct sk_err *err) {
    struct sk_chan_msg m;
    SK_TRY(sk_chan_read(e, 0, &m, err));
    sk_chan_pass(e);
    sk_chan_release(e, &m);
    return SK_OK;
}

static sk_rc save(struct sk_dag_loop *l, const struct sk_dag_actions *a, struct sk_err *err) {
    struct sk_dag_states *s = l->states;
    SK_FAULT_HERE("loop.before_save");
    /* if this state existed already, the loop would have begun with a later execution */
    SK_ASSERT(s->out.next == l->execution + 1);
    SK_TRY(a->save(a->ctx, &s->out, err));
    SK_ASSERT(s->out.next == l->execution + 2);
    SK_FAULT_HERE("loop.after_save");
    return pass_one(&s->in, err);
}

static sk_rc restore(struct sk_dag_states *s, const struct sk_dag_actions *a, struct sk_err *err) {
    struct sk_chan_msg m;
    SK_ASSERT(s->out.next > 0); /* the channel always has the state before the first execution */
    while (s->in.next + 1 < s->out.next) SK_TRY(pass_one(&s->in, err));
    SK_TRY(sk_chan_read(&s->in, 0, &m, err));
    /* the message is not passed, so that a successor can read it if this process dies, too */
    sk_chan_again(&s->in);
    return a->restore(a->ctx, &m, err);
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
            /* a predecessor has written the value */
            if (sk_replay_written(l->ports[port].end.next, l->execution)) break;
            SK_TRY(a->give(a->ctx, port, err));
            SK_ASSERT(l->ports[port].end.next == l->execution + 1);
            break;
        case SK_DAG_SEND:
        case SK_DAG_RECV:
            return SK_ERR(
                err, SK_ENOSYS,
                "a value that goes by a meeting: there is no transport of that kind here");
        }
    }
    if (l->states) SK_TRY(save(l, a, err));
    SK_FAULT_HERE("loop.before_pass");
    for (uint32_t i = 0; i < l->n_ports; i++)
        if (l->ports[i].end.end != SK_CHAN_WRITER) sk_chan_pass(&l->ports[i].end);
    SK_FAULT_HERE("loop.after_pass");
    l->execution++;
    return a->turn(a->ctx, err);
}

sk_rc sk_dag_run(struct sk_dag_loop *l, const struct sk_dag_actions *a, struct sk_err *err) {
    bool reads = false;
    l->execution = sk_replay_from(NULL, 0, l->states ? l->states->out.next : 0);
    /* no message was read yet, so `next` is the number of messages that were passed */
    for (uint32_t i = 0; i < l->n_ports; i++) {
        if (l->ports[i].end.end == SK_CHAN_WRITER) continue;
        reads = true;
        l->execution = SK_MAX(l->execution, l->ports[i].end.next);
    }
    if (!reads)
        return SK_ERR(err, SK_EINVAL,
                      "an actor of a graph reads nothing that comes from elsewhere: it would run "
                      "without end");
    if (l->states) SK_TRY(restore(l->states, a, err));
    for (uint32_t i = 0; i < l->n_ports; i++) {
        struct sk_chan_end *e = &l->ports[i].end;
        while (e->end != SK_CHAN_WRITER && e->next < l->execution) SK_TRY(pass_one(e, err));
    }
    for (;;) SK_TRY(once(l, a, err));
}

/* ---- seats of actors ------------------------------------------------------------------------- */

static uint64_t word_of(uint64_t graph, uint32_t state) {
    return graph * UINT64_C(0x9e3779b97f4a7c15) << 2 | state;
}
static uint32_t state_in(uint64_t word) { return (uint32_t)(word & 3); }
static _Atomic uint32_t *low_half(struct sk_dag_seat *s) {
    return (_Atomic uint32_t *)(void *)&s->word;
}
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "a futex is the half with the state");

void sk_dag_seat_init(struct sk_dag_seat *s, uint64_t graph) {
    *s = (struct sk_dag_seat){0};
    sk_store_seq(&s->word, word_of(graph, SK_SEAT_EMPTY));
}

uint32_t sk_dag_seat_state(const struct sk_dag_seat *s) { return state_in(sk_load_seq(&s->word)); }

/* Moves the seat from one state to another; false: the seat was not in state `from`. The access is
 * sequentially consistent: a process that empties a seat then checks whether the graph is closed,
 * while a process that closes the graph sets `closed` first and then checks the seats. */
static bool move(struct sk_dag_seat *s, uint32_t from, uint32_t to) {
    uint64_t word = sk_load_seq(&s->word);
    return state_in(word) == from &&
           atomic_compare_exchange_strong(&s->word, &word, word - from + to);
}

bool sk_dag_seat_take(struct sk_dag_seat *s, uint64_t graph, int32_t retries) {
    uint64_t empty = word_of(graph, SK_SEAT_EMPTY);
    if (!sk_cas_acqrel(&s->word, &empty, word_of(graph, SK_SEAT_TAKEN))) return false;
    s->retries = retries; /* sk_dag_bury reads this after this process has died */
    return true;
}

bool sk_dag_seat_skip(struct sk_dag_seat *s) {
    if (!move(s, SK_SEAT_EMPTY, SK_SEAT_LEFT)) return false;
    sk_futex_wake(low_half(s), 1 << 20);
    return true;
}

bool sk_dag_seat_lose(struct sk_dag_seat *s) {
    if (!move(s, SK_SEAT_TAKEN, SK_SEAT_EMPTY)) return false;
    (void)sk_add_seq(&s->n_lost, 1);
    return true;
}

void sk_dag_seat_leave(struct sk_dag_seat *s, sk_rc rc, const char *why) {
    if (sk_dag_seat_state(s) == SK_SEAT_LEFT) return;
    s->rc = rc;
    (void)snprintf(s->why, sizeof s->why, "%s", why);
    while (!move(s, sk_dag_seat_state(s), SK_SEAT_LEFT)) {}
    sk_futex_wake(low_half(s), 1 << 20);
}

sk_rc sk_dag_seat_wait(struct sk_dag_seat *s, int64_t deadline_ns) {
    uint64_t word;
    while (state_in(word = sk_load_seq(&s->word)) != SK_SEAT_LEFT)
        if (sk_futex_wait(low_half(s), (uint32_t)word, deadline_ns) == SK_ETIMEOUT &&
            sk_dag_seat_state(s) != SK_SEAT_LEFT)
            return SK_ETIMEOUT;
    return SK_OK;
}
