/* verdict.h - what becomes of a run when something in it fails. Pure. */
#ifndef SK_EXEC_VERDICT_H
#define SK_EXEC_VERDICT_H

#include "exec/exec.h"

struct sk_faults { /* that a run has had and goes on with */
    uint64_t bad_rows, errored_blocks;
};

/* Deaths of its worker that a task or a pool's call survives, and restarts of a pool's actor (-1:
 * for ever). */
int32_t sk_exec_retries(const struct sk_node_desc *d);
int32_t sk_exec_restarts(const struct sk_node_desc *d);

/* So many more rows went to dead letters. Does the run go on? */
bool sk_exec_bad_rows(const struct sk_exec_conf *c, struct sk_faults *f, uint32_t n);

/* A task of stage `d` has failed for good. */
struct sk_task_verdict {
    /* the run goes on; the rest of its output is missing, what it has yielded stays. Else: the run
     * has failed */
    bool left_out;
    bool actor_dead; /* its actor is gone for good with it */
};
/* actor_lives: the engine says that it is started again. */
struct sk_task_verdict sk_exec_failed(const struct sk_exec_conf *c, struct sk_faults *f,
                                      const struct sk_node_desc *d, sk_rc why, bool actor_lives);

#endif
