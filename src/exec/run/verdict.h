/* verdict.h - decides what a failure of a task or row means for the run. Pure. */
#ifndef SK_EXEC_VERDICT_H
#define SK_EXEC_VERDICT_H

#include "exec/exec.h"

struct sk_faults { /* failures that a run has had and survived */
    uint64_t bad_rows, errored_blocks;
};

/* Number of worker deaths that a task or call survives, and number of restarts of a pool's actor
 * (-1: without limit). */
int32_t sk_exec_retries(const struct sk_node_desc *d);
int32_t sk_exec_restarts(const struct sk_node_desc *d);

/* Counts n more rows in dead letters. Returns true if the run goes on. */
bool sk_exec_bad_rows(const struct sk_exec_conf *c, struct sk_faults *f, uint32_t n);

/* What it means for the run that a task of stage `d` has failed for good. */
struct sk_task_verdict {
    /* True: the run goes on without the rest of the task's output, and blocks already yielded stay.
     * false: the run has failed. */
    bool left_out;
    bool actor_dead; /* the task's actor is gone for good, too */
};
/* actor_lives: the engine will restart the task's actor. */
struct sk_task_verdict sk_exec_failed(const struct sk_exec_conf *c, struct sk_faults *f,
                                      const struct sk_node_desc *d, sk_rc why, bool actor_lives);

#endif
