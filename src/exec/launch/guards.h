/* guards.h - guards: rules that forbid a launch for now. Each is a function from a view to
 * SK_STOP_NONE or the reason. Pure; a policy calls the guards that it needs.
 *
 * Cost: a few instructions each; sk_guard_early is O(operators) where a task would start ahead of
 * its turn. */
#ifndef SK_EXEC_GUARDS_H
#define SK_EXEC_GUARDS_H

#include "exec/policy.h"

/* Rules that no policy may override: there is input, a place in the window and a slot, and the
 * user's limit of tasks is not reached. */
enum sk_stop sk_guard_can(const struct sk_sched_view *v, uint32_t i);
/* The inputs of a union come one after another, those of a zip side by side. */
enum sk_stop sk_guard_turn(const struct sk_sched_view *v, uint32_t i);
/* Above a LIMIT few tasks run at first. */
enum sk_stop sk_guard_ramp(const struct sk_sched_view *v, uint32_t i);
/* A task is queued behind running ones only while half of memory is free. */
enum sk_stop sk_guard_queue(const struct sk_sched_view *v, uint32_t i);
/* Not too much output may wait for the consumer. */
enum sk_stop sk_guard_consumer(const struct sk_sched_view *v, uint32_t i);
/* Not too much output may wait before a busy operator. */
enum sk_stop sk_guard_reader(const struct sk_sched_view *v, uint32_t i);
/* One task runs until its output size is known, unless memory is ample. */
enum sk_stop sk_guard_probe(const struct sk_sched_view *v, uint32_t i);
/* A task may start ahead of its turn only if its output has room. */
enum sk_stop sk_guard_early(const struct sk_sched_view *v, uint32_t i);

/* Writes v->why: sk_guard_can, and that a slot is free now. */
void sk_guards_bare(const struct sk_sched_view *v);
void sk_guards_full(const struct sk_sched_view *v); /* writes v->why: all guards above */

/* Bytes kept free for the downstream operators that take turns with operator i at the GPUs: they do
 * not run beside it, so its output stays in memory until it stops. */
uint64_t sk_turn_headroom(const struct sk_sched_view *v, uint32_t i);
static inline uint64_t sk_need(const struct sk_sched_view *v, uint32_t i) {
    /* bytes that a launch of operator i needs */
    return v->op[i].est_out + (v->op[i].gpu_e4 ? sk_turn_headroom(v, i) : 0);
}
/* Room for the needs of a launch. While blocks that are not parked are on disk, the store is full
 * of waiting blocks and stays so. Then an operator has room if the input and output of its task fit
 * beside those of the running tasks; a source has none until its output fits beside all that is on
 * disk. */
uint64_t sk_room(const struct sk_sched_view *v, uint32_t i);

/* Turns at the GPUs. sk_turn_need: GPUs that actors of other pools must not have so that operator i
 * can launch; sk_turn_gives: true if pool p may end idle actors for it. */
int64_t sk_turn_need(const struct sk_sched_view *v, uint32_t i);
bool sk_turn_gives(const struct sk_sched_view *v, uint32_t p, uint32_t i);

/* Choices that exceed the memory limit or need other pools' GPUs, by v->why; op -1: none. */
/* An operator that lacks only the GPUs of idle pools. */
struct sk_choice sk_choose_turn(const struct sk_sched_view *v);
/* Chooses some operator, if nothing runs and the consumer has nothing to take. */
struct sk_choice sk_choose_forced(const struct sk_sched_view *v);
/* An operator that frees memory, if memory is over its limit; one task at a time. */
struct sk_choice sk_choose_drain(const struct sk_sched_view *v);

/* The first source whose next output fits beside one output of each operator that is no source;
 * -1: none. */
int sk_pick_source(const struct sk_sched_view *v);
/* The operator of the highest rank that may launch (v->why) and whose output fits, the one
 * downstream where ranks are equal; where there is none, sk_pick_source. */
int sk_pick_ranked(const struct sk_sched_view *v,
                   double (*rank)(const struct sk_sched_view *v, uint32_t i));

#define SK_CHOOSE(i) ((struct sk_choice){.op = (i)})
/* Returns `op` if it is not -1; else the first choice of sk_choose_turn, sk_choose_forced and
 * sk_choose_drain. */
struct sk_choice sk_choose_or_beyond(const struct sk_sched_view *v, int op);

#endif
