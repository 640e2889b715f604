/* run_int.h - shared by the files that do a run's work on an engine: run.c (public calls), act.c
 * (actions), event.c (events), failures.c (failures). Everything here is used between
 * sk_inbox_enter and sk_inbox_leave.
 *
 *     run.c -> show.c, act.c, event.c (by the inbox's table) -> failures.c
 */
#ifndef SK_EXEC_RUN_INT_H
#define SK_EXEC_RUN_INT_H

#include "base/containers/samples.h"
#include "engine/view.h"
#include "exec/exec_int.h"
#include "exec/run/verdict.h"

struct sk_exec {
    struct sk_engine *e;
    struct sk_step *step;
    struct sk_inbox *inbox;
    struct sk_stages stages;
    const struct sk_plan *plan;
    struct sk_exec_conf conf;
    sk_oid *blobs;                /* [stages]: the description of each stage in the store */
    struct sk_run_actor **actors; /* [stages]: the actors of each stage */
    bool failed, swept;
    sk_rc fail_rc;
    struct sk_err fail;
    sk_oid bad;
    /* failures that did not end the run; the caller has not received those from next_failure on */
    SK_VEC(struct sk_exec_failure) failures;
    uint32_t next_failure;
    struct sk_faults faults;
    struct sk_samples samples;
    struct sk_view_run *shown; /* NULL: the engine has no view */
    struct sk_viewed viewed;   /* tick NULL: the run is not shown */
    uint8_t *buf;
    size_t buf_cap;
    SK_VEC(struct sk_arg) args; /* arguments of a task with many blocks */
};

static inline void sk_run_release(struct sk_engine *e, sk_oid o) {
    if (o.v) e->ops->release(e, o);
}

static inline const struct sk_node_desc *sk_run_desc(const struct sk_exec *x, uint32_t stage) {
    return &sk_plan_get(x->plan, x->stages.s[stage].nodes[0])->d;
}

/* ---- failures.c: the failure that ends a run, and failures that do not end it */
/* Records the run's failure; only the first one counts. `bad` is the error object, whose reference
 * is taken. */
void sk_run_fail(struct sk_exec *x, sk_rc rc, const struct sk_err *err, sk_oid bad);
/* Returns the run's failure. *bad gets a reference for the caller. */
sk_rc sk_run_give_failure(const struct sk_exec *x, sk_oid *bad, struct sk_err *err);
/* Call when task t has yielded dead letters: oid, whose reference is taken, stands for `bad`
 * rows. */
void sk_run_bad(struct sk_exec *x, const struct sk_stask *t, sk_oid oid, uint32_t bad);
/* Call when task t has failed for good; oid is its error, whose reference is taken. Returns true if
 * the task is left out and the run goes on. */
bool sk_run_left_out(struct sk_exec *x, const struct sk_stask *t, sk_oid oid, struct sk_err *err,
                     bool actor_lives, bool *actor_dead);
const char *sk_run_task_name(const struct sk_stask *t, char buf[40]);

/* ---- act.c: engine calls */
/* Puts the stage's description into the store. */
sk_rc sk_run_put_blob(struct sk_exec *x, uint32_t stage, struct sk_err *err) SK_MUST_USE;
/* Call after each step: carries out its actions. Events that the engine delivers meanwhile wait in
 * the inbox. */
void sk_run_settle(struct sk_exec *x, sk_rc rc, const struct sk_err *step_err);
void sk_run_sweep(struct sk_exec *x); /* gives up everything that the run holds; once */

/* The statistics of the run, between enter and leave. */
void sk_run_stats(struct sk_exec *x, struct sk_exec_stats *s, struct sk_exec_op_stats *ops,
                  uint32_t cap);

/* ---- show.c */
sk_rc sk_run_show(struct sk_exec *x, struct sk_err *err) SK_MUST_USE;
void sk_run_show_begin(struct sk_exec *x, int64_t now_ns); /* the run begins */
void sk_run_show_end(struct sk_exec *x);                   /* stores the last state */
void sk_run_sample(struct sk_exec *x, int64_t now_ns);
/* Notes for timelines that a task has yielded a block, and that a task got one as its input. */
void sk_run_made(struct sk_exec *x, uint64_t block, uint64_t task);
void sk_run_took(struct sk_exec *x, uint64_t block, uint64_t task);

/* ---- event.c */
extern const struct sk_inbox_run sk_run_events;

#endif
