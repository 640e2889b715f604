/* task.h - tasks of exchanges in a worker, without the operators' code: what a stage's arguments
 * (exec/args.h, pack.h) ask for is done here where it is a cut, a merge, or a reduce that is no
 * operator's own and has nothing fused behind it. No interpreter, no lock of anybody's: a runner
 * (engine/worker.h) asks first, and runs the others as it runs any task.
 *
 * And the notes with which values of exchanges are yielded, whoever yields them. */
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
/* The note of a value; its length. */
size_t sk_value_note(const struct sk_value *v, union sk_yield_note *note);
/* Rows that a value counts for: what only says where rows are has none. */
uint64_t sk_value_rows(const struct sk_value *v);

enum sk_native {
    SK_NATIVE_NOT,   /* the operator has to run it; nothing was yielded */
    SK_NATIVE_RAN,   /* rc is what run() of a runner returns */
    SK_NATIVE_FAILED /* its work has failed, as *err says: an error of the task like any exception
                      */
};
/* Whether the arguments of this task ask for something that may be done here. Cheap: it looks at
 * kinds and at the beginning of both. */
bool sk_native_may(const struct sk_task *t);
/* Runs it. NOT, too, where batches have to be cast to one schema first. */
sk_rc sk_native_run(struct sk_task *t, enum sk_native *how, struct sk_err *err) SK_MUST_USE;

#endif
