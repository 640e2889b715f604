/* loop.h - an actor's part of a graph: its list of operations, run once for each execution, until
 * the graph ends.
 *
 * The caller's table of calls says what an operation does. The loop decides the order and the
 * channels, and it passes the inputs of an execution after all outputs of that execution are
 * published. A successor that attaches to the same ends begins with the first execution whose
 * inputs are not passed, and does not write outputs that exist already (replay.h). */
#ifndef SK_LOOP_H
#define SK_LOOP_H

#include "dag/channel.h"
#include "dag/replay.h"
#include "dag/schedule.h"

struct sk_dag_port { /* an end of the channel of `node` */
    uint32_t node;
    struct sk_chan_end end;
};

struct sk_dag_actions {
    void *ctx;
    /* The actions of an actor. Errors of user code are values here; an action fails only if the
     * loop cannot go on. */
    /* READ: gets a message, to be released by the callee after `turn` has begun. */
    sk_rc (*take)(void *ctx, uint32_t port, const struct sk_chan_msg *m, struct sk_err *err);
    sk_rc (*compute)(void *ctx, uint32_t node, struct sk_err *err);
    /* WRITE: reserves and publishes a message; not called if a predecessor has written the
     * value. */
    sk_rc (*give)(void *ctx, uint32_t port, struct sk_err *err);
    /* Called when all inputs of this execution are passed. */
    sk_rc (*turn)(void *ctx, struct sk_err *err);
    /* For an actor that keeps its state: `save` publishes its present state into the end; `restore`
     * sets the last published state, when the loop begins. */
    sk_rc (*save)(void *ctx, struct sk_chan_end *into, struct sk_err *err);
    sk_rc (*restore)(void *ctx, const struct sk_chan_msg *m, struct sk_err *err);
    void (*wait_begin)(void *ctx); /* called before and after a read that has to wait */
    void (*wait_end)(void *ctx);
};

/* The channel of an actor to itself. Message 0 is the state before the first execution, published
 * by the process that takes the seat, before its loop; message i + 1 is the state after execution
 * i. The actor reads the last message only when its loop begins, so the last message is never
 * passed. */
struct sk_dag_states {
    struct sk_chan_end out, in;
};
/* shape of that channel: one reader; cells for the last state and for the next one */
#define SK_DAG_STATES ((struct sk_chan_shape){1, 2, 2})

struct sk_dag_loop {
    const struct sk_dag_op *ops; /* the operations of the actor, without SEND and RECV */
    uint32_t n_ops, n_ports;
    struct sk_dag_port *ports;
    /* [nodes]: number of the node's port; UINT32_MAX: this actor has no port for the node */
    const uint32_t *port_of;
    struct sk_dag_states *states; /* NULL: the actor keeps no state */
    uint64_t execution;           /* number of the current execution */
};

/* Runs the actor's operations until the graph ends. Returns SK_ECLOSED (the graph was closed),
 * SK_EDEAD (the other end of a channel is buried), or the error of an action. */
sk_rc sk_dag_run(struct sk_dag_loop *l, const struct sk_dag_actions *a, struct sk_err *err);

/* A seat: where an actor's loop records, in memory that all processes map, that it runs and that it
 * has ended. */
enum { SK_SEAT_EMPTY, SK_SEAT_TAKEN, SK_SEAT_LEFT };
struct sk_dag_seat {
    /* The state in the low bits, and above it a key of the graph, so that a late process cannot
     * take a seat after the memory was reused for another graph. */
    _Atomic uint64_t word;
    int32_t rc; /* reason why the loop left the seat; written before `word` */
    /* Number of times that an execution is run again if this actor dies during it; negative: no
     * limit. Written by the process in the seat. */
    int32_t retries;
    struct sk_replay_deaths deaths; /* used only by sk_dag_bury */
    /* number of deaths after which the seat became empty; written by sk_dag_bury */
    _Atomic uint32_t n_lost;
    char why[220];
};
_Static_assert(sizeof(struct sk_dag_seat) == 256, "whole lines");
void sk_dag_seat_init(struct sk_dag_seat *s, uint64_t graph);
uint32_t sk_dag_seat_state(const struct sk_dag_seat *s);
/* Takes an empty seat. false: the seat was left before (the graph has ended), it is taken, or the
 * memory belongs to another graph. */
bool sk_dag_seat_take(struct sk_dag_seat *s, uint64_t graph, int32_t retries);
/* Marks an empty seat as left, so that no process takes it. false: the seat is or was taken. */
bool sk_dag_seat_skip(struct sk_dag_seat *s);
/* Makes the seat of a dead process empty, for a successor; called by sk_dag_bury. false: the seat
 * was left. */
bool sk_dag_seat_lose(struct sk_dag_seat *s);
/* Marks the seat as left, with a reason; called by the process in the seat or by sk_dag_bury. Only
 * the first call has an effect. */
void sk_dag_seat_leave(struct sk_dag_seat *s, sk_rc rc, const char *why);
/* Waits until the seat is left, which is final. SK_ETIMEOUT. */
sk_rc sk_dag_seat_wait(struct sk_dag_seat *s, int64_t deadline_ns) SK_MUST_USE;

#endif
