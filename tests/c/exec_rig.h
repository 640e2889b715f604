/* exec_rig.h - for the tests of exec: makes plans, and drives exec's step function by hand. The
 * test decides when a task yields, when it ends, and when a block is taken. */
#ifndef EXEC_RIG_H
#define EXEC_RIG_H

#include "exec/exec_int.h"
#include "test.h"

struct rig {
    struct sk_plan *plan;
    struct sk_stages st;
    struct sk_step *x;
    struct sk_step_conf conf;
    int64_t now;
    uint64_t next_oid, live;   /* objects that exist */
    SK_VEC(uint64_t) launched; /* ids of launched tasks, in order; 0: that task has ended */
    uint32_t n_created, n_killed, n_cancelled, n_released;
};

extern const struct sk_op RIG_READ, RIG_MAPB, RIG_MAP, RIG_LIMIT, RIG_UNION, RIG_ZIP;

void rig_begin(struct rig *r); /* fills conf with useful values and creates the plan */
uint32_t rig_add(struct rig *r, const struct sk_op *op, struct sk_node_desc d, const uint32_t *in,
                 uint32_t n_in);
uint32_t rig_source(struct rig *r, uint32_t n_units, int64_t est_bytes);
uint32_t rig_map(struct rig *r, uint32_t in); /* adds a map that is a stage of its own */
void rig_start(struct rig *r, uint32_t root);
/* gives the step an event, a millisecond after the last one */
void rig_event(struct rig *r, struct sk_step_ev ev);
/* Calls sk_step_call, a millisecond after the last event. */
void rig_call(struct rig *r, sk_rc (*fn)(void *arg, struct sk_err *err), void *arg);
void rig_yield(struct rig *r, uint64_t task, uint64_t rows, uint64_t bytes);
void rig_done(struct rig *r, uint64_t task, int64_t run_ns);
void rig_fail(struct rig *r, uint64_t task);
/* Returns the id of the running task with number seq of that stage; 0: it does not run. */
uint64_t rig_task(struct rig *r, uint32_t stage, uint64_t seq);
uint32_t rig_flying(struct rig *r, uint32_t stage);
/* Takes a block, which must have `rows` rows; false: no block is ready. */
bool rig_take(struct rig *r, uint64_t rows);
/* Frees the run and the plan; checks that every reference to an object was released. */
void rig_end(struct rig *r);

#endif
