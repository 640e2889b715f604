/* task.h - runs tasks of exchanges in a worker without the operators' code. The arguments of a task
 * (exec/args.h, pack.h) describe a cut, a merge or a reduce; these tasks run here, except a reduce
 * that an operator implements or that has operators fused behind it. They need neither an
 * interpreter nor a lock: a worker's runner (engine/worker.h) calls sk_native_may first, and runs
 * all other tasks itself.
 *
 * Also the notes of all values that tasks of exchanges yield, from C or from Python. */
#ifndef SK_SHUFFLE_TASK_H
#define SK_SHUFFLE_TASK_H

#include "engine/worker.h"
#include "exec/exec.h"
#include "shuffle/pack.h"
#include "shuffle/work.h"

union sk_yield_note {
    struct sk_block_note block;
    struct {
        struct sk_pack_note head;
        union {
            struct sk_pack_part part[SK_PACK_PARTS_MAX];
            struct sk_pack_cut cut[SK_PACK_CUTS_MAX];
        };
    } pack;
};
_Static_assert(sizeof(union sk_yield_note) <= SK_NOTE_MAX, "a note");
_Static_assert(SK_PACK_PARTS_MAX >= SK_VALUE_PARTS_MAX && SK_PACK_CUTS_MAX >= SK_VALUE_CUTS_MAX,
               "as many as a value has");
/* Writes the note of a value and returns the note's length. */
size_t sk_value_note(const struct sk_value *v, union sk_yield_note *note);
/* Returns the number of rows that a value counts for in statistics; samples, cuts and bounds count
 * for none. */
uint64_t sk_value_rows(const struct sk_value *v);

/* What a reduce of this phase has of a partition, and the side that is shared in it
 * (struct sk_pack_task). */
enum sk_reduce_part sk_phase_part(uint32_t phase);
uint32_t sk_shared_side(uint32_t shared);

enum sk_native {
    SK_NATIVE_NOT, /* the operator's code has to run the task; nothing was yielded */
    SK_NATIVE_RAN, /* the task has run; the call's result is what a runner's run() returns */
    /* the work has failed with *err, which is an error of the task, as an exception would be */
    SK_NATIVE_FAILED
};
/* True if sk_native_run may run this task. Cheap: reads only the kinds and the first bytes of the
 * first arguments. */
bool sk_native_may(const struct sk_task *t);
/* Runs the task. *how is SK_NATIVE_NOT also if batches have to be cast to one schema first: then
 * *err says which schemas differ. */
sk_rc sk_native_run(struct sk_task *t, enum sk_native *how, struct sk_err *err) SK_MUST_USE;
/* Runs a reduce whose rows go to operators that are fused behind it: gives each value of the work,
 * in order, to sink(ctx, ...), which must be done with it when it returns. Values are blocks; the
 * first one of a split reduce is its match report. SK_EDONE from sink: no more rows are needed.
 * *fits false: as SK_NATIVE_NOT of sk_native_run. */
sk_rc sk_native_reduce(struct sk_task *t,
                       sk_rc (*sink)(void *ctx, const struct sk_value *v, struct sk_err *err),
                       void *ctx, bool *fits, struct sk_err *err) SK_MUST_USE;

#endif
