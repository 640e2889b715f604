/* own_proto.h - the protocol of references as a model for mc.h: a driver that owns all objects,
 * workers that borrow, ordered messages.
 *
 * Reference counts and lineage are the engine's own code (real.h). What stands between the user's
 * calls and that code (object.c, task.c, stream.c, request.c, death.c, recover.c, worker.c: shared
 * memory, rings, processes) is modelled here, function by function under the same
 * names. User programs are not given: at every step a process may do whatever it has the references
 * for (put, submit, get, drop, return, yield, raise, cancel, die), within bounds.
 *
 * Not modelled: places and resources (any ready task may go to any free worker), bytes, pins and
 * leases of the store (a value is a list of references and "can be lost"), constructors of actors,
 * sinks, `wait`. */
#ifndef SK_TEST_OWN_PROTO_H
#define SK_TEST_OWN_PROTO_H

#include "mc.h"
#include "real.h"

enum own_bug {
    OWN_RIGHT,
    /* The six of papers.md 1.1.4, as they would look here. */
    /* #19910: a reference that reaches a process twice is noted once, and each of the two gives it
     * back */
    OWN_BORROW_IS_A_FLAG,
    /* #30341: a put() by a worker is owned by another process, which is not told what is inside */
    OWN_PUT_LOSES_INNER,
    /* #17553: arguments are let go before the references in the result are counted */
    OWN_ARGUMENT_IN_RESULT,
    /* #19734, #18456: what is given back overtakes what was taken before */
    OWN_OUT_OF_ORDER,
    OWN_HANDLE_NO_BORROW, /* #9049: a handle of an actor does not make its process a borrower */
    /* #63025: counted is what came by the call, not what came by another way (inside a value that
     * was got) */
    OWN_ONLY_FROM_THE_CALLER,
    /* Ours: */
    /* references inside a result are given back before the result is reported (wtask.held is
     * missing) */
    OWN_RESULT_GIVEN_BACK_EARLY,
    OWN_NO_FENCE,               /* reports of an older attempt are taken */
    OWN_STREAM_OUTLIVES_READER, /* a stream is not dropped when the process that reads it dies */
    OWN_TASK_DOES_NOT_HOLD,     /* a task does not hold its arguments */
    /* what only a lost value held is freed after lineage has planned how to make that value
     * again */
    OWN_PLAN_BEFORE_DRAIN,
    /* an argument that is not made yet is freed before its maker could be kept */
    OWN_PENDING_NOT_AWAITED,
    /* a value is lost while its bytes are on their way to a process: what is inside goes too
     * early */
    OWN_LOST_UNDER_A_READER,
    OWN_N_BUGS
};

struct own_cfg {
    const char *name;
    enum own_bug bug;
    /* 1..3; the last is the actor's when there is one */
    uint8_t n_workers;
    uint8_t n_objs, n_tasks;                             /* made in all */
    uint8_t puts, gets, deaths, losses, raises, cancels; /* in all */
    uint8_t inner;                                       /* references in a value: at most */
    uint8_t yields;                                      /* of a stream; 0: no streams */
    /* of a stream: it waits for its reader; 0: never */
    uint8_t window;
    uint8_t retries; /* of a task */
    /* tasks that lineage may keep; 0: no lineage, nothing is lost */
    uint8_t budget;
    /* references as arguments, too: the task gets the value */
    bool by_value;
    /* keeps: what it holds between calls stays for ever (a state) */
    bool actor, actor_keeps;
    bool nested_submit; /* workers submit */
    bool pairs;         /* tasks have two returns */
    bool circles;       /* values that contain one another */
    /* a death may be noticed before the last messages come; they come later */
    bool late;
};

/* before mc_run: tables and the handler of failed asserts */
void own_proto_init(const struct own_cfg *cfg);
void own_proto_exit(void);
extern const struct mc_model own_proto; /* arg: struct own_cfg */

#endif
