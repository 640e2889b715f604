/* run_int.h - shared by what does a run's work on an engine: run.c (its public calls), act.c
 * (actions), event.c (events), aside.c (failures). Everything between sk_inbox_enter and
 * sk_inbox_leave.
 *
 *     run.c -> act.c, event.c (by the inbox's table) -> aside.c */
#ifndef SK_EXEC_RUN_INT_H
#define SK_EXEC_RUN_INT_H

#include "exec/exec_int.h"
#include "exec/run/verdict.h"

struct sk_exec {
    struct sk_engine *e;
    struct sk_step *step;
    struct sk_inbox *inbox;
    struct sk_stages stages;
    const struct sk_plan *plan;
    struct sk_exec_conf conf;
    sk_oid *blobs;                /* of each stage */
    struct sk_run_actor **actors; /* of each stage */
    bool failed, swept;
    sk_rc fail_rc;
    struct sk_err fail;
    sk_oid bad;
    SK_VEC(struct sk_aside) sides; /* from next_side on: not taken */
    uint32_t next_side;
    struct sk_faults faults;
    struct sk_flow_ring made, taken;
    uint8_t *buf;
    size_t buf_cap;
    SK_VEC(struct sk_arg) args; /* of a task with many blocks */
};

static inline void sk_run_release(struct sk_engine *e, sk_oid o) {
    if (o.v) e->ops->release(e, o);
}

static inline const struct sk_node_desc *sk_run_desc(const struct sk_exec *x, uint32_t stage) {
    return &sk_plan_get(x->plan, x->stages.s[stage].nodes[0])->d;
}

/* ---- aside.c: what comes of a run beside its blocks */
/* The first failure is the run's. `bad` (a reference, taken) is the error object. */
void sk_run_fail(struct sk_exec *x, sk_rc rc, const struct sk_err *err, sk_oid bad);
/* *bad: a reference for the caller */
sk_rc sk_run_give_failure(const struct sk_exec *x, sk_oid *bad, struct sk_err *err);
void sk_run_bad(struct sk_exec *x, const struct sk_stask *t, sk_oid oid,
                uint32_t bad); /* t yielded dead letters, oid (taken), of so many rows */
/* A task of `stage` failed for good; oid (taken): its error. True: it is left out and the run goes
 * on. */
bool sk_run_left_out(struct sk_exec *x, const struct sk_stask *t, sk_oid oid, struct sk_err *err,
                     bool actor_lives, bool *actor_dead);
const char *sk_run_task_name(const struct sk_stask *t, char buf[40]);

/* ---- act.c: calls of the engine */
/* the stage's description */
sk_rc sk_run_put_blob(struct sk_exec *x, uint32_t stage, struct sk_err *err) SK_MUST_USE;
/* After each step: its actions. What the engine says meanwhile waits in the inbox. */
void sk_run_settle(struct sk_exec *x, sk_rc rc, const struct sk_err *step_err);
void sk_run_sweep(struct sk_exec *x); /* gives up everything; once */

/* ---- event.c */
extern const struct sk_inbox_run sk_run_events;

#endif
