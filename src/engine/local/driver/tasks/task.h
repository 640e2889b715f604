/* task.h - the life of a task in the driver.
 *
 * Calls: functions, object, part, link, send, spec, state, stream. The code of this part may call
 * these parts of the driver and no others; tests/shape.py reads this line. */
#ifndef SK_LOCAL_TASK_H
#define SK_LOCAL_TASK_H

#include "base/containers/list.h"
#include "engine/own/lineage.h"
#include "engine/local/driver/values/object.h"
#include "engine/place/place.h"
#include "engine/rules/verdict.h"

struct sk_local;
struct sk_lworker;
struct sk_lactor;
struct sk_inl;
struct sk_dep;
struct sk_sink;
struct sk_event;
struct sk_err;

/* Fields that only few tasks need: those that lineage keeps, those that run again, and those
 * that lost an argument while a worker read it. */
struct sk_task_extra {
    struct sk_val_vec {
        struct sk_kept_val {
            uint64_t oid;
            struct sk_inl *inl;
            uint32_t kind;
        } *p;
        uint32_t n, cap;
    } vals; /* copies of small arguments, so that no other task has to run again to make them */
    struct sk_index_vec {
        uint32_t *p;
        uint32_t n, cap;
    } wanted;        /* indices of the lost yields that this attempt makes again, sorted */
    uint32_t n_made; /* number of yields of `wanted` that have been made */
    struct sk_old_vec {
        struct sk_old {
            uint64_t oid, off;
        } *p;
        uint32_t n, cap;
        /* lost arguments whose bytes the task's worker still reads; the bytes are pinned for it */
    } old;
    struct sk_part_vec {
        struct sk_part {
            uint64_t oid;
            uint32_t arg;
        } *p;
        uint32_t n, cap;
        /* arguments that are a part of a value on disk, each with the object that was made for
         * it (part.h) */
    } parts;
};

/* The states of a task. Which state may follow which, and what holds in each, is in this table;
 * sk_ltask_to asserts it at each step, sk_local_check for all tasks. docs/design/states.md draws
 * it.
 *
 *     WAITING --> READY     all arguments exist
 *     READY --> WAITING     an argument is lost, or on disk
 *     READY --> SENT        it was sent to a worker
 *     SENT --> LEFT         it was reported or taken back, or its worker died
 *     LEFT --> READY        it had not begun, or runs again
 *     LEFT --> DONE         its values exist
 *     LEFT --> FAILED       it has an error; also from WAITING and READY
 *     DONE, FAILED --> ENDED     everything that waits for it was told
 *     ENDED --> WAITING     a value of it was lost, so it runs again
 *
 * The constructor of an actor stays DONE or FAILED until the actor is gone, or is READY again when
 * the actor is restarted. */
enum sk_tstate {
    SK_T_WAITING, /* the task waits for arguments that do not exist or are on disk */
    SK_T_READY,   /* the task is in line for a worker (place.h), or in its actor's queue */
    SK_T_SENT,    /* the task is on a worker, queued or running */
    /* The task was taken off its worker. The code that took it off sets the next state before it
     * does anything else with the task. */
    SK_T_LEFT,
    SK_T_DONE,   /* the task's values exist, and their waiters are being told */
    SK_T_FAILED, /* the task has an error, and its waiters are being told */
    SK_T_ENDED, /* the task is over; its entry stays while its stream is read or lineage keeps it */
    SK_T_STATES
};
struct sk_tstate_row {
    const char *name;
    uint8_t next;    /* bit i: state i may follow this one */
    bool on_worker;  /* true: t->worker is the task's worker; false: t->worker is NULL */
    bool holds_args; /* true: the arguments are held; false: only a constructor's may be */
};
extern const struct sk_tstate_row sk_tstates[SK_T_STATES];

/* INIT: the constructor of an actor; CALL: a call of an actor; ABROAD: a stream of another engine
 * (loop/abroad.h), which no task of this engine fills */
enum sk_tkind { SK_TASK_PLAIN, SK_TASK_INIT, SK_TASK_CALL, SK_TASK_ABROAD };

/* Why a task is to stop, or was stopped. If there are several reasons, the one that is later in
 * this list counts. */
enum sk_tstop {
    SK_STOP_NONE,
    /* The task has ended as cancelled: when its values are lost, it does not run again, and the
     * cancel error is given again. */
    SK_STOP_STANDS,
    /* the worker was asked to stop the task, so that it can run from the start for lost yields */
    SK_STOP_RESTART,
    SK_STOP_CANCELLED,  /* the task was cancelled by a caller */
    SK_STOP_LOST_YIELD, /* there was no memory to record one of the task's yields */
    SK_STOP_DIFFERS     /* a retry yielded something else than the run before: see `differs` */
};

/* Whether lineage (recover.c) keeps a task. */
enum sk_tkept {
    SK_KEPT_NO,
    /* the task made a value that can be lost: in the store, or with references inside */
    SK_KEPT_WANTED,
    SK_KEPT_TRIED, /* lineage could not keep the task, or has dropped it: see let_go */
    SK_KEPT_YES    /* lineage keeps the task, so it is not freed */
};

/* A stream as its reader sees it. DROPPED: nobody reads it any more. */
enum sk_tstream { SK_STREAM_OPEN, SK_STREAM_OVER, SK_STREAM_DROPPED };

struct sk_ltask {
    struct sk_place_task place;
    /* linked in its worker's `sent` list, its actor's `queue`, its caller's `held`, or nowhere */
    struct sk_list on;
    uint64_t id, first;
    struct sk_spec spec; /* points into bytes[] */
    struct sk_sink *sink;
    struct sk_lactor *actor;
    struct sk_dep *waits;      /* list of the arguments that the task waits for */
    struct sk_lcaller *caller; /* of a call that is not finished: its caller */
    struct sk_lworker *worker;
    uint8_t state;  /* enum sk_tstate; set by sk_ltask_to only */
    uint8_t kind;   /* enum sk_tkind */
    uint8_t stop;   /* enum sk_tstop */
    uint8_t kept;   /* enum sk_tkept */
    uint8_t stream; /* enum sk_tstream */
    /* 0, or 1 + enum sk_lost_why: the reason why lineage no longer keeps the task */
    uint8_t let_go;
    uint8_t n_oom;    /* number of times that the task was stopped because memory was short */
    bool held;        /* the call is in `held` of its caller */
    bool actor_lives; /* the actor died during this call, and is started again */
    bool holds_args;
    bool was_started; /* the task had begun when its worker last died */
    /* The task runs again to make lost values: neither its sink nor its reader is told of this
     * run. */
    bool remake;
    bool end_failed;    /* the stream has failed, and end_kind and end_inl are the failure */
    uint32_t n_unready; /* number of arguments that do not exist yet */
    uint32_t attempt;
    int32_t retries_left;
    uint32_t claim; /* in state SENT: index in the worker's claim words */
    int32_t ran_on; /* pid, slot and times of the task's last run (for state.c) */
    uint32_t ran_slot;
    int64_t submit_ns, start_ns, end_ns;
    /* number of the last recursive cancel that listed the task, see n_cancel_rounds */
    uint32_t cancel_round;
    uint64_t space_epoch; /* last round of marks in which space_mark.c visited the task */
    uint32_t seen_lost;   /* value of l->n_lost when the task's arguments were last checked */
    /* SK_STOP_DIFFERS: index of the yield that a retry gave differently */
    uint32_t differs;
    struct sk_task_extra *extra; /* rarely used fields; NULL: none */
    /* members of a streaming task */
    uint32_t n_yielded, n_taken, n_released;
    struct sk_obj_id_vec {
        uint64_t *p;
        uint32_t n, cap;
        /* ids of the yields, by index. Without a sink, each yield that was not taken holds a
         * reference of process `owner`. */
    } yields;
    struct sk_note_vec {
        uint64_t *p;
        uint32_t n, cap;
    } note_hash;        /* hash of each yield's note: a retry must give the same notes */
    uint32_t owner;     /* the process that submitted the task, and reads the stream */
    uint64_t end_error; /* id of the error object, if the stream failed */
    sk_rc end_rc;       /* the failure, if there was no memory for an error object */
    /* id of an object that exists when the stream has ended; 0: no such object was requested */
    uint64_t end_oid;
    /* kind of that object's value or, once the stream has failed, kind of the failure's value */
    uint32_t end_kind;
    struct sk_inl *end_inl;
    struct sk_dep *stream_waiters;
    size_t spec_len;
    uint8_t bytes[];
};

static inline void sk_ltask_to(struct sk_ltask *t, enum sk_tstate state) {
    SK_ASSERT(sk_tstates[t->state].next >> state & 1);
    SK_ASSERT(!t->worker == !sk_tstates[state].on_worker);
    t->state = (uint8_t)state;
}
static inline bool sk_ltask_over(const struct sk_ltask *t) { return t->state >= SK_T_DONE; }
static inline bool sk_ltask_is_stream(const struct sk_ltask *t) {
    return t->spec.n_returns == SK_STREAMING;
}
/* True if the task was cancelled by a caller, or stopped for good by the engine. */
static inline bool sk_ltask_cancelled(const struct sk_ltask *t) {
    return t->stop >= SK_STOP_CANCELLED;
}
static inline void sk_ltask_stop_for(struct sk_ltask *t, enum sk_tstop why) {
    t->stop = (uint8_t)SK_MAX(t->stop, why);
}
static inline void sk_ltask_made_bulky(struct sk_ltask *t) {
    t->kept = (uint8_t)SK_MAX(t->kept, SK_KEPT_WANTED);
}
/* Puts a READY task in line for a worker. The task is not of an actor. */
void sk_ltask_queue(struct sk_local *l, struct sk_ltask *t);

/* retries: max_retries of tasks that do not set it. */
void sk_ltasks_init(struct sk_local *l, int32_t retries);
/* The engine closes: tells the sinks of tasks that have not ended that they never will. */
void sk_ltasks_abandon(struct sk_local *l);
void sk_ltasks_free(struct sk_local *l);
sk_rc sk_ltask_make(struct sk_local *l, uint32_t proc, uint32_t level, uint64_t base_id,
                    struct sk_bytes spec, struct sk_sink *sink, struct sk_ltask **out,
                    struct sk_err *err);
/* Checks whether all arguments of t exist. SK_OK: they do. SK_EAGAIN: one is lost, and t now waits
 * for it; or, with `errors`, one is an error or too short for the part that is needed, and t is
 * WAITING for nothing: the caller has to call sk_ltask_ready, which ends t. SK_ENOMEM: nothing
 * changed. */
sk_rc sk_ltask_look(struct sk_local *l, struct sk_ltask *t, bool errors) SK_MUST_USE;
sk_rc sk_ltask_take_args(struct sk_local *l, struct sk_ltask *t, struct sk_err *err) SK_MUST_USE;
void sk_ltask_let_args_go(struct sk_local *l, struct sk_ltask *t);
void sk_ltask_forget_deps(struct sk_ltask *t);
/* Call when all arguments exist: the task becomes READY, or ends with the error if an argument is
 * an error value. */
void sk_ltask_ready(struct sk_local *l, struct sk_ltask *t);
/* Like sk_ltask_ready, for a task whose last argument was made by the end of another task. If such
 * a task is being handled already, this one is handled after it, so there is no recursion. */
void sk_ltask_due(struct sk_local *l, struct sk_ltask *t);
/* Gives the event to the task's sink, if it has one. */
void sk_ltask_emit(struct sk_ltask *t, struct sk_event *ev);
/* Ends the present attempt, for the history with `rc` and `why`; another attempt follows. */
void sk_ltask_next_attempt(struct sk_local *l, struct sk_ltask *t, sk_rc rc, const char *why);
void sk_ltask_may_repeat(struct sk_ltask *t, int32_t retries); /* sets the number of retries left */
void sk_ltask_charge(struct sk_ltask *t);                      /* takes one retry off the task */
/* Makes an ended task run again, as another attempt that may be repeated `retries` times. */
void sk_ltask_again(struct sk_ltask *t, int32_t retries);
/* Makes the task run again. `rc` and `why` tell the history how the last attempt ended. */
void sk_ltask_retry(struct sk_local *l, struct sk_ltask *t, sk_rc rc, const char *why);
void sk_ltask_cancel(struct sk_local *l, struct sk_ltask *t, bool force);
/* Another engine runs the task, which is READY and has never begun: it is none of this one. */
void sk_ltask_handed_over(struct sk_local *l, struct sk_ltask *t);
/* Does the work of cancel() of engine.h; the task may be unknown by now. */
void sk_ltask_cancel_by(struct sk_local *l, uint64_t tid, uint32_t flags);
void sk_ltask_finish_error(struct sk_local *l, struct sk_ltask *t, uint32_t kind, const void *bytes,
                           size_t n);
void sk_ltask_fail(struct sk_local *l, struct sk_ltask *t, sk_rc rc, const char *fmt, ...)
    SK_PRINTF(4, 5);
/* Ends a task that was asked to stop, with the error for t->stop. */
void sk_ltask_fail_cancelled(struct sk_local *l, struct sk_ltask *t);
void sk_ltask_end(struct sk_local *l, struct sk_ltask *t);
/* Frees t->extra, the rarely used fields. */
void sk_ltask_extra_free(struct sk_ltask *t);
/* True if the task was stopped for memory once, so that it runs only when no other task does:
 * its shape then says so. */
static inline bool sk_ltask_alone(const struct sk_ltask *t) {
    return t->place.shape != t->spec.shape;
}
void sk_ltask_stopped_for_memory(struct sk_ltask *t);
/* Makes the task run alone from now on. */
sk_rc sk_ltask_run_alone(struct sk_local *l, struct sk_ltask *t, struct sk_err *err) SK_MUST_USE;
/* Puts the task into the table of tasks, and counts it, until sk_ltask_free. SK_ENOMEM. */
sk_rc sk_ltask_enter(struct sk_local *l, struct sk_ltask *t);
/* Call when a task that was over is about to run again. */
void sk_ltask_reopened(struct sk_local *l);
/* Call when a stream that process `proc` submitted was refused: its reader gets the reason as an
 * error. */
void sk_ltask_refused_stream(struct sk_local *l, uint32_t proc, uint64_t id, struct sk_inl *error);
/* The same for a stream that another engine runs, and whose end comes later. */
sk_rc sk_ltask_stream_abroad(struct sk_local *l, uint32_t proc, uint64_t id, uint32_t window,
                             struct sk_err *err) SK_MUST_USE;
void sk_ltask_free(struct sk_local *l, struct sk_ltask *t);
/* Call when lineage no longer keeps the task: frees the task, unless something else needs it. */
void sk_ltask_kept_free(struct sk_local *l, struct sk_ltask *t);
struct sk_verdict_task sk_ltask_case(struct sk_local *l, const struct sk_ltask *t);

#endif
