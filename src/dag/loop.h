/* loop.h - an actor's part of a graph: its list of operations, run once for each execution, until
 * the graph ends.
 *
 * What an operation means is the caller's (a table of calls): here is when it comes, which channel
 * it has, and that inputs are passed after all outputs of the execution are published. So a
 * successor that attaches to the same ends begins with an execution whose outputs may be there, and
 * writes none twice (replay.h). */
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
    /* What failed of the user's is a value of the caller's: these fail only where the loop cannot
     * go on. */
    sk_rc (*take)(void *ctx, uint32_t port, const struct sk_chan_msg *m,
                  struct sk_err *err); /* READ: m is to be released after `turn` has begun */
    sk_rc (*compute)(void *ctx, uint32_t node, struct sk_err *err);
    /* WRITE: reserves and publishes, unless it is there (a successor) */
    sk_rc (*give)(void *ctx, uint32_t port, struct sk_err *err);
    /* all of this execution is passed */
    sk_rc (*turn)(void *ctx, struct sk_err *err);
    /* Of an actor that keeps its state: the one it has now into the end, published; and the last
     * one there is, when the loop begins. */
    sk_rc (*save)(void *ctx, struct sk_chan_end *into, struct sk_err *err);
    sk_rc (*restore)(void *ctx, const struct sk_chan_msg *m, struct sk_err *err);
    void (*wait_begin)(void *ctx); /* around a read that has to wait */
    void (*wait_end)(void *ctx);
};

/* An actor's channel to itself: message 0 is its state when it begins, published by who takes the
 * seat, before the loop; the state after execution i is message i + 1. It reads the last one only
 * when its loop begins, so the last one is never passed. */
struct sk_dag_states {
    struct sk_chan_end out, in;
};
/* the last one, and the one that is being written */
#define SK_DAG_STATES ((struct sk_chan_shape){1, 2, 2})

struct sk_dag_loop {
    const struct sk_dag_op *ops; /* no SEND, no RECV */
    uint32_t n_ops, n_ports;
    struct sk_dag_port *ports;
    const uint32_t *port_of;      /* of each node, UINT32_MAX: none here */
    struct sk_dag_states *states; /* NULL: it keeps none */
    uint64_t execution;           /* the one under way */
};

/* Until something ends it: SK_ECLOSED (the graph was closed), SK_EDEAD, or what an action says. */
sk_rc sk_dag_run(struct sk_dag_loop *l, const struct sk_dag_actions *a, struct sk_err *err);

/* Where an actor's loop says, in memory that all map, that it runs and that it has ended. */
enum { SK_SEAT_EMPTY, SK_SEAT_TAKEN, SK_SEAT_LEFT };
struct sk_dag_seat {
    /* The state, and a key of the graph above it: who comes late, to memory that is another's by
     * now, takes nothing. */
    _Atomic uint64_t word;
    int32_t rc; /* why it left; before `word` */
    /* so often an execution is run again when this actor dies of it; negative: without end. By who
     * sits there */
    int32_t retries;
    struct sk_replay_deaths deaths; /* who buries knows it, and nobody else */
    _Atomic uint32_t n_lost;        /* deaths after which it was empty again; by who buries */
    char why[220];
};
_Static_assert(sizeof(struct sk_dag_seat) == 256, "whole lines");
void sk_dag_seat_init(struct sk_dag_seat *s, uint64_t graph);
uint32_t sk_dag_seat_state(const struct sk_dag_seat *s);
/* False: it was left before (the graph was torn down meanwhile), or somebody sits there, or it is
 * none of that graph any more. */
bool sk_dag_seat_take(struct sk_dag_seat *s, uint64_t graph, int32_t retries);
/* nobody sits there, and nobody will. False: somebody does, or did */
bool sk_dag_seat_skip(struct sk_dag_seat *s);
/* who sat there is dead, and has a successor; by who buries. False: it was left */
bool sk_dag_seat_lose(struct sk_dag_seat *s);
/* by who sat there, or by who buries it; the first counts */
void sk_dag_seat_leave(struct sk_dag_seat *s, sk_rc rc, const char *why);
/* SK_OK: nobody sits there any more, and nobody will. SK_ETIMEOUT. */
sk_rc sk_dag_seat_wait(struct sk_dag_seat *s, int64_t deadline_ns) SK_MUST_USE;

#endif
