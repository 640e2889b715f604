/* guards.h - rules that hold a task back, each by itself: a view -> may (SK_STOP_NONE) or may not,
 * and why. Pure; a policy calls those it wants.
 *
 * Cost: a few instructions each; sk_guard_early is O(operators) where a task would start ahead of
 * its turn. */
#ifndef SK_EXEC_GUARDS_H
#define SK_EXEC_GUARDS_H

#include "exec/policy.h"

/* what no policy may pass: input, window, the user's cap, a slot */
enum sk_stop sk_guard_can(const struct sk_sched_view *v, uint32_t i);
enum sk_stop sk_guard_turn(const struct sk_sched_view *v,
                           /* inputs of a union one after another, those of a zip side by side */
                           uint32_t i);
/* above a LIMIT: few tasks at first */
enum sk_stop sk_guard_ramp(const struct sk_sched_view *v, uint32_t i);
/* behind running tasks only while half of memory is free */
enum sk_stop sk_guard_queue(const struct sk_sched_view *v, uint32_t i);
/* what waits for the consumer */
enum sk_stop sk_guard_consumer(const struct sk_sched_view *v, uint32_t i);
/* what waits before a busy operator */
enum sk_stop sk_guard_reader(const struct sk_sched_view *v, uint32_t i);
/* one task until its size is known, unless memory is ample */
enum sk_stop sk_guard_probe(const struct sk_sched_view *v, uint32_t i);
/* what starts ahead of its turn */
enum sk_stop sk_guard_early(const struct sk_sched_view *v, uint32_t i);

/* writes v->why: sk_guard_can, and a slot that is free now */
void sk_guards_bare(const struct sk_sched_view *v);
void sk_guards_full(const struct sk_sched_view *v); /* writes v->why: all of the above */

/* Room left for those downstream that take turns with it at the GPUs: they do not run beside it, so
 * what it makes stays until it stops. */
uint64_t sk_turn_headroom(const struct sk_sched_view *v, uint32_t i);
static inline uint64_t sk_need(const struct sk_sched_view *v, uint32_t i) {
    /* bytes that a launch of it needs */
    return v->op[i].est_out + (v->op[i].gpu_e4 ? sk_turn_headroom(v, i) : 0);
}
/* Room for what a launch of it needs. While some of memory's data is on disk, the store is full of
 * blocks that wait, and stays so: it is room for a task that works them off if its input and output
 * fit beside those of the tasks that run; and none for what brings data in until all has come
 * back. */
uint64_t sk_room(const struct sk_sched_view *v, uint32_t i);

/* Turns at the GPUs. What must not be with actors so that i can launch; may pool p end idle actors
 * for it. */
int64_t sk_turn_need(const struct sk_sched_view *v, uint32_t i);
bool sk_turn_gives(const struct sk_sched_view *v, uint32_t p, uint32_t i);

/* Choices beyond "what fits", by v->why; op -1: none. */
/* who lacks only the GPUs of idle pools */
struct sk_choice sk_choose_turn(const struct sk_sched_view *v);
/* nothing runs and the consumer has nothing to take */
struct sk_choice sk_choose_forced(const struct sk_sched_view *v);
/* memory is over its limit: who works it off, one task at a time */
struct sk_choice sk_choose_drain(const struct sk_sched_view *v);

/* The first source whose next output fits beside one output of each operator that is no source;
 * -1: none. */
int sk_pick_source(const struct sk_sched_view *v);

#define SK_CHOOSE(i) ((struct sk_choice){.op = (i)})
/* `op` where the policy has found one, else a turn at the GPUs, else an exception. */
struct sk_choice sk_choose_or_beyond(const struct sk_sched_view *v, int op);

#endif
