/* data_rig.h - runs chains of operators in the test's process, on an engine with only the calls
 * that a chain needs, and makes batches of numbers. */
#ifndef DATA_RIG_H
#define DATA_RIG_H

#include "base/mem.h"
#include "data/data.h"
#include "test.h"

enum { RIG_VALUES = 512 };
struct rig_value {
    uint32_t kind;
    uint8_t *bytes;
    size_t n;
};
struct rig {
    struct rig_value out[RIG_VALUES]; /* what the last run has yielded */
    uint32_t n_out, n_notes;
    uint32_t refuse_at; /* the yield with this number fails with SK_ECANCEL; UINT32_MAX: none */
    int views;          /* input blocks that are still mapped */
    bool unaligned;     /* input blocks lie at odd addresses */
    /* of the caller's operators, as sk_data_chain_open takes them; NULL: none */
    const struct sk_data_op *(*find)(const char *name, size_t n);
    struct skate_task *ctx;
    int64_t fail_at; /* the allocation of the next run that fails; 0: none */
    bool failed;     /* it has failed */
};
extern struct rig rig;

struct rig_input {
    const struct sk_batch *batch;
    uint32_t side;
};
struct rig_task {
    const struct sk_stage_node *nodes;
    uint32_t n_nodes;
    const struct rig_input *in;
    uint32_t n_in;
    struct sk_stage_task task; /* but for n_blocks */
};
#define RIG_NODE(op_, params_, params_n) \
    { .op = {(op_), strlen(op_)}, .label = {"L", 1}, .params = {(params_), (params_n)} }

/* Opens a chain, runs one task `times` times in it, and closes it. Returns the first failure. */
sk_rc rig_run(const struct rig_task *t, int times, struct sk_err *err);
/* Frees what was yielded. */
void rig_forget(void);
/* Opens yielded value i as a batch, which the caller destroys. */
struct sk_batch *rig_batch(uint32_t i);
/* Runs the task with the nth allocation failing, for n = 1, 2, ... until none fails: each run has
 * to return SK_ENOMEM and to leave nothing behind. */
void rig_run_without_memory(const struct rig_task *t);

/* Makes a batch of int64 columns. names: such as "k,x". values: row by row; NULL: 0, 1, 2, ... */
struct sk_batch *rig_numbers(const char *names, const int64_t *values, int64_t rows);
/* The value of an int64 column. */
int64_t rig_at(const struct sk_batch *b, int64_t column, int64_t row);

#endif
