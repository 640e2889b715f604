/* own_proto.h - the protocol of references as a model for mc.h: a driver that owns all objects,
 * workers that borrow, ordered messages.
 *
 * Reference counts and lineage are the engine's own code (real.h). The code between the user's
 * calls and these two (object.c, task.c, stream.c, request.c, death.c, recover.c, worker.c: shared
 * memory, rings, processes) is modelled here, function by function under the same names. The model
 * has no fixed user programs: at every step a process may do all that its references allow (put,
 * submit, get, drop, return, yield, raise, cancel, die), within bounds.
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
    /* Six bugs of Ray (papers.md 1.1.4), translated to this protocol: */
    /* #19910: a reference that a process gets twice is counted once, but released twice */
    OWN_BORROW_IS_A_FLAG,
    /* #30341: a put() by a worker is owned by another process, which does not learn of the
     * references inside */
    OWN_PUT_LOSES_INNER,
    /* #17553: arguments are released before the references in the result are counted */
    OWN_ARGUMENT_IN_RESULT,
    /* #19734, #18456: a release overtakes the earlier retain */
    OWN_OUT_OF_ORDER,
    OWN_HANDLE_NO_BORROW, /* #9049: a handle of an actor does not make its process a borrower */
    /* #63025: only references that arrived by the call are counted, not those inside a value that
     * was got */
    OWN_ONLY_FROM_THE_CALLER,
    /* Ours: */
    /* references inside a result are released before the result is reported (wtask.held is
     * missing) */
    OWN_RESULT_GIVEN_BACK_EARLY,
    OWN_NO_FENCE,               /* reports of an older attempt are accepted */
    OWN_STREAM_OUTLIVES_READER, /* a stream is not dropped when the process that reads it dies */
    OWN_TASK_DOES_NOT_HOLD,     /* a task does not hold its arguments */
    /* objects that only a lost value held are freed after lineage has planned to use them for
     * making that value again */
    OWN_PLAN_BEFORE_DRAIN,
    /* an argument that does not exist yet is freed before the task that makes it could be put into
     * lineage */
    OWN_PENDING_NOT_AWAITED,
    /* a value is lost while its bytes are sent to a process, and the references inside are released
     * too early */
    OWN_LOST_UNDER_A_READER,
    OWN_N_BUGS
};

struct own_cfg {
    const char *name;
    enum own_bug bug;
    /* 1..3; the last worker is the actor's, if there is an actor */
    uint8_t n_workers;
    uint8_t n_objs, n_tasks;                             /* made in all */
    uint8_t puts, gets, deaths, losses, raises, cancels; /* in all */
    uint8_t inner;                                       /* references in a value: at most */
    uint8_t yields;                                      /* of a stream; 0: no streams */
    /* number of yields after which a stream waits for its reader; 0: it never waits */
    uint8_t window;
    uint8_t retries; /* of a task */
    /* number of tasks that lineage may keep; 0: there is no lineage and no loss of values */
    uint8_t budget;
    /* also pass references as arguments whose value the task gets */
    bool by_value;
    /* actor_keeps: references that the actor holds between calls stay for ever (its state) */
    bool actor, actor_keeps;
    bool nested_submit; /* workers submit */
    bool pairs;         /* tasks have two returns */
    bool circles;       /* values that contain one another */
    /* a death may be noticed before the last messages of the process arrive */
    bool late;
};

/* To be called before mc_run: sets up tables and the handler of failed asserts. */
void own_proto_init(const struct own_cfg *cfg);
void own_proto_exit(void);
extern const struct mc_model own_proto; /* arg: struct own_cfg */

#endif
