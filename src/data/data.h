/* data.h - contract of the data layer: operators over batches, in C, and the chain of them that a
 * stage's task runs in a worker.
 *
 *     blocks of the task, or a unit of a source --> operator --> operator --> cutter --> blocks
 *
 * A stage (exec/args.h) names its operators; an operator is a file by/<name>.c, or one of the
 * caller's own (sk_data_chain_open). Batches are pushed: an operator gets a batch and sends
 * any number of batches to the next one, at once or at the end. The output is cut into blocks by a
 * rule that reads only bytes and rows, so a task that is run again gives the same blocks. The
 * operators that make packs yield values themselves (shuffle/work.h); tasks of exchanges run in
 * shuffle/task.c, followed by the operators that are fused behind them.
 *
 * Threads: a chain is one thread's. No call takes a lock of the engine while an operator runs. */
#ifndef SK_DATA_H
#define SK_DATA_H

#include "data/batch.h"
#include "engine/worker.h"
#include "exec/args.h"
#include "shuffle/work.h"

struct sk_data_node;  /* an operator in a chain */
struct sk_data_task { /* the task that a chain runs; valid until the task ends */
    struct sk_task *t;
    struct sk_stage_task d; /* its description (exec/args.h) */
    uint32_t side;          /* while a batch of the task's blocks is pushed: its input's number */
};

struct sk_data_op { /* an operator; a constant */
    const char *name;
    /* The operator sends no batches but yields values itself (sk_data_yield); it is the last. */
    bool yields;
    /* The second half of an exchange: its rows come from shuffle/task.c. It has no other calls. */
    bool exchange;
    uint32_t state_bytes; /* size of sk_data_state, zeroed before open */
    /* Reads the node's parameters, once for a chain. NULL: there is nothing to read. */
    sk_rc (*open)(struct sk_data_node *n, struct sk_err *err);
    /* Called at the beginning of each task. Of the first operator of a source: sends the rows of
     * the task's unit. NULL: nothing to do. */
    sk_rc (*begin)(struct sk_data_node *n, struct sk_err *err);
    /* Takes b over. SK_EDONE, of the next operator: no more rows are needed; hand it on. NULL: the
     * operator is a source. */
    sk_rc (*push)(struct sk_data_node *n, struct sk_batch *b, struct sk_err *err);
    /* All batches of the task were pushed. NULL: nothing to do. */
    sk_rc (*end)(struct sk_data_node *n, struct sk_err *err);
    /* Releases what belongs to a task, also after a failure. NULL: nothing. */
    void (*reset)(struct sk_data_node *n);
    /* Releases what open made. NULL: nothing. */
    void (*close)(struct sk_data_node *n);
};
/* The built-in operator of that name; NULL: there is none. */
const struct sk_data_op *sk_data_op_find(const char *name, size_t n);

/* ---- for operators --------------------------------------------------------------------------- */

void *sk_data_state(const struct sk_data_node *n);
void *sk_data_ctx(const struct sk_data_node *n); /* the runner's `ctx` */
struct sk_bytes sk_data_params(const struct sk_data_node *n);
struct sk_bytes sk_data_what(const struct sk_data_node *n); /* struct sk_what, in wire format */
struct sk_bytes sk_data_label(const struct sk_data_node *n);
const struct sk_data_task *sk_data_task_of(const struct sk_data_node *n);
/* Sends b, which the call takes over, to the next operator. SK_EDONE: no more rows are needed; the
 * operator returns it at once. */
sk_rc sk_data_send(struct sk_data_node *n, struct sk_batch *b, struct sk_err *err) SK_MUST_USE;
/* Yields one value of an exchange's work (struct sk_data_op.yields). */
sk_rc sk_data_yield(struct sk_data_node *n, const struct sk_value *v,
                    struct sk_err *err) SK_MUST_USE;
/* Yields a block of dead letters that stands for `rows` rows. Takes b over. */
sk_rc sk_data_dead(struct sk_data_node *n, struct sk_batch *b, uint32_t rows,
                   struct sk_err *err) SK_MUST_USE;
/* data bytes of a batch (sk_block_nbytes) */
sk_rc sk_data_nbytes(const struct sk_batch *b, uint64_t *out, struct sk_err *err) SK_MUST_USE;

/* ---- for runners ----------------------------------------------------------------------------- */

struct sk_data_chain;
/* Makes the chain of a stage (the bytes of its description, which must outlive it). find: finds an
 * operator of the caller; NULL from it: look among the built-in ones. ctx: for operators, while
 * they open. SK_ENOENT: an operator is unknown. */
sk_rc sk_data_chain_open(struct sk_bytes stage,
                         const struct sk_data_op *(*find)(const char *name, size_t n), void *ctx,
                         struct sk_data_chain **out, struct sk_err *err) SK_MUST_USE;
/* Runs a task: its arguments from `first` on are the task's description and its blocks. Yields
 * blocks and sets the task's note. An error of an operator is returned; its message begins with the
 * operator's label. */
sk_rc sk_data_chain_run(struct sk_data_chain *c, struct sk_task *t, uint32_t first, void *ctx,
                        struct sk_err *err) SK_MUST_USE;
void sk_data_chain_close(struct sk_data_chain *c); /* NULL is fine */

#endif
