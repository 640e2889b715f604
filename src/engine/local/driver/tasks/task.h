/* task.h - the life of a task in the driver.
 *
 * Calls: functions, object, part, link, send, spec, state, stream. */
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

/* What only few tasks have: those that lineage keeps, those that run again, and those that lost an
 * argument while a worker read it. */
struct sk_task_extra {
    struct sk_val_vec {
        struct sk_kept_val {
            uint64_t oid;
            struct sk_inl *inl;
            uint32_t kind;
        } *p;
        uint32_t n, cap;
    } vals; /* copies of small arguments, so that no task has to make them again */
    struct sk_index_vec {
        uint32_t *p;
        uint32_t n, cap;
    } wanted;        /* indices of the lost yields that this attempt makes again, rising */
    uint32_t n_made; /* how many of them have been made */
    struct sk_old_vec {
        struct sk_old {
            uint64_t oid, off;
        } *p;
        uint32_t n, cap;
    } old; /* lost arguments whose bytes its worker still reads; they are pinned for it */
    struct sk_part_vec {
        struct sk_part {
            uint64_t oid;
            uint32_t arg;
        } *p;
        uint32_t n, cap;
        /* arguments that are a part of a value on disk, each with the object made for it (part.h)
         */
    } parts;
};

/* A task's states. What may follow which, and what holds in each, is this table; sk_ltask_to
 * asserts it at each step, sk_local_check for all tasks.
 *
 *     WAITING --all arguments are there--> READY --sent--> SENT --reported, taken back, its worker
 *     died--> LEFT --its values are there--> DONE --> ENDED
 *        ^------an argument is lost or on disk--'  ^--------------------not begun, or it runs
 *        again----------' `---it has an error---> FAILED -----^
 *        `------------------------------------------a value of it was lost: it runs
 *        again----------------------------------------------------------'
 *
 * A task may fail in WAITING and in READY, too. The constructor of an actor stays DONE or FAILED
 * until the actor is gone, or is READY again to be restarted. */
enum sk_tstate {
    SK_T_WAITING, /* for arguments that do not exist, or are on disk */
    SK_T_READY,   /* in line for a worker (place.h), or in its actor's queue */
    SK_T_SENT,    /* on a worker */
    /* off its worker; who took it off decides what becomes of it, before anything else happens to
     * it */
    SK_T_LEFT,
    SK_T_DONE,   /* its values are there; who waits is being told */
    SK_T_FAILED, /* the same with its error */
    SK_T_ENDED,  /* over; known as long as its stream is read or lineage keeps it */
    SK_T_STATES
};
struct sk_tstate_row {
    const char *name;
    uint8_t next;    /* bit i: state i may follow */
    bool on_worker;  /* t->worker is its worker; else NULL */
    bool holds_args; /* its arguments are held; in the others a constructor's may be */
};
extern const struct sk_tstate_row sk_tstates[SK_T_STATES];

/* INIT: the constructor of an actor; CALL: of a method */
enum sk_tkind { SK_TASK_PLAIN, SK_TASK_INIT, SK_TASK_CALL };

/* Why it is to stop, or was: the later one in this list is the reason. */
enum sk_tstop {
    SK_STOP_NONE,
    /* it ended as cancelled: instead of a run for lost values, that error again */
    SK_STOP_STANDS,
    /* its worker was asked to stop, so that it can begin anew for lost yields */
    SK_STOP_RESTART,
    SK_STOP_CANCELLED,  /* by somebody who has its id */
    SK_STOP_LOST_YIELD, /* there was no memory to record a yield */
    SK_STOP_DIFFERS     /* a retry yielded something else than the run before: `differs` */
};

/* What lineage (recover.c) has of it. */
enum sk_tkept {
    SK_KEPT_NO,
    /* it made something that can be lost: in the store, or with references inside */
    SK_KEPT_WANTED,
    SK_KEPT_TRIED, /* it could not be kept, or was let go: see let_go */
    SK_KEPT_YES    /* not freed */
};

/* for its reader. DROPPED: there is none any more */
enum sk_tstream { SK_STREAM_OPEN, SK_STREAM_OVER, SK_STREAM_DROPPED };

struct sk_ltask {
    struct sk_place_task place;
    /* in its worker's `sent` list, its actor's `queue`, its caller's `held`, or unlinked */
    struct sk_list on;
    uint64_t id, first;
    struct sk_spec spec; /* into bytes[] */
    struct sk_sink *sink;
    struct sk_lactor *actor;
    struct sk_dep *waits;      /* for these arguments */
    struct sk_lcaller *caller; /* of a call of an actor that is not finished */
    struct sk_lworker *worker;
    uint8_t state;    /* enum sk_tstate; set by sk_ltask_to only */
    uint8_t kind;     /* enum sk_tkind */
    uint8_t stop;     /* enum sk_tstop */
    uint8_t kept;     /* enum sk_tkept */
    uint8_t stream;   /* enum sk_tstream */
    uint8_t let_go;   /* 0, or 1 + enum sk_lost_why: why lineage does not have it any more */
    uint8_t n_oom;    /* how often its worker was stopped for memory */
    bool held;        /* in its caller's `held` */
    bool actor_lives; /* its actor died with it, and is started again */
    bool holds_args;
    bool was_started; /* when its worker died last */
    /* under way again, for what was lost of it: no sink and no reader hears of it */
    bool remake;
    bool end_failed;    /* of a stream: it failed; end_kind and end_inl are the failure */
    uint32_t n_unready; /* arguments that do not exist yet */
    uint32_t attempt;
    int32_t retries_left;
    uint32_t claim; /* index in the worker's claims; SENT */
    int32_t ran_on; /* pid, slot and times of its last run (state.c) */
    uint32_t ran_slot;
    int64_t submit_ns, start_ns, end_ns;
    uint32_t cancel_round; /* the last one that listed it, see n_cancel_rounds */
    uint64_t space_epoch;  /* space.c: looked at in this round of marks */
    uint32_t seen_lost;    /* l->n_lost when its arguments were looked at last */
    /* index of the yield that a retry gave differently; SK_STOP_DIFFERS */
    uint32_t differs;
    struct sk_task_extra *aside; /* NULL: nothing */
    /* streaming */
    uint32_t n_yielded, n_taken, n_released;
    struct sk_obj_id_vec {
        uint64_t *p;
        uint32_t n, cap;
    } yields; /* oids by index; no sink: those not taken hold a reference of proc owner */
    struct sk_note_vec {
        uint64_t *p;
        uint32_t n, cap;
    } note_hash;        /* of each yield: a retry must give the same */
    uint32_t owner;     /* process that submitted: reads the stream */
    uint64_t end_error; /* oid of the error object when it failed */
    sk_rc end_rc;       /* the failure, when there was no memory for that object */
    uint64_t end_oid;   /* object that exists when it has ended; 0: nobody asked */
    uint32_t end_kind;  /* of that object's value, or of the failure once it has ended in one: */
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
/* by somebody, or by the engine */
static inline bool sk_ltask_cancelled(const struct sk_ltask *t) {
    return t->stop >= SK_STOP_CANCELLED;
}
static inline void sk_ltask_stop_for(struct sk_ltask *t, enum sk_tstop why) {
    t->stop = (uint8_t)SK_MAX(t->stop, why);
}
static inline void sk_ltask_made_bulky(struct sk_ltask *t) {
    t->kept = (uint8_t)SK_MAX(t->kept, SK_KEPT_WANTED);
}
/* READY, in line for a worker. The task is of no actor. */
void sk_ltask_queue(struct sk_local *l, struct sk_ltask *t);

/* `retries`: max_retries of a task that says nothing about it. */
void sk_ltasks_init(struct sk_local *l, int32_t retries);
void sk_ltasks_free(struct sk_local *l);
sk_rc sk_ltask_make(struct sk_local *l, uint32_t proc, uint32_t level, uint64_t base_id,
                    struct sk_bytes spec, struct sk_sink *sink, struct sk_ltask **out,
                    struct sk_err *err);
/* Looks whether all arguments exist. SK_OK: they do. SK_EAGAIN: one is lost, and t waits for it
 * now; or, with `errors`, one is an error or too short for the part that is wanted, and t is
 * WAITING for nothing: the caller has to call sk_ltask_ready, which ends it. SK_ENOMEM: nothing
 * changed. */
sk_rc sk_ltask_look(struct sk_local *l, struct sk_ltask *t, bool errors) SK_MUST_USE;
sk_rc sk_ltask_take_args(struct sk_local *l, struct sk_ltask *t, struct sk_err *err) SK_MUST_USE;
void sk_ltask_let_args_go(struct sk_local *l, struct sk_ltask *t);
void sk_ltask_forget_deps(struct sk_ltask *t);
/* All arguments exist: the task is READY, or ends with the error that one of them is. */
void sk_ltask_ready(struct sk_local *l, struct sk_ltask *t);
/* As sk_ltask_ready, when the end of another task made the last argument. If that is under way
 * already, this task follows it: no recursion. */
void sk_ltask_due(struct sk_local *l, struct sk_ltask *t);
/* Gives the event to the sink of the task, if it has one. */
void sk_ltask_emit(struct sk_ltask *t, struct sk_event *ev);
/* Its attempt has ended, as `rc` and `why` say, for the history, and another one follows. */
void sk_ltask_next_attempt(struct sk_local *l, struct sk_ltask *t, sk_rc rc, const char *why);
void sk_ltask_may_repeat(struct sk_ltask *t, int32_t retries); /* so often */
void sk_ltask_charge(struct sk_ltask *t);                      /* that costs a retry */
/* after its end, as another attempt that may be repeated so often */
void sk_ltask_again(struct sk_ltask *t, int32_t retries);
/* The task runs again. `rc` and `why` say how the attempt before ended, for the history. */
void sk_ltask_retry(struct sk_local *l, struct sk_ltask *t, sk_rc rc, const char *why);
void sk_ltask_cancel(struct sk_local *l, struct sk_ltask *t, bool force);
/* As engine.h says of cancel; the task need not be known any more. */
void sk_ltask_cancel_by(struct sk_local *l, uint64_t tid, uint32_t flags);
void sk_ltask_finish_error(struct sk_local *l, struct sk_ltask *t, uint32_t kind, const void *bytes,
                           size_t n);
void sk_ltask_fail(struct sk_local *l, struct sk_ltask *t, sk_rc rc, const char *fmt, ...)
    SK_PRINTF(4, 5);
/* Ends a task that was asked to stop, with the reason that t->stop gives. */
void sk_ltask_fail_cancelled(struct sk_local *l, struct sk_ltask *t);
void sk_ltask_end(struct sk_local *l, struct sk_ltask *t);
/* Frees t->aside. */
void sk_ltask_aside_free(struct sk_ltask *t);
/* True if the task was stopped for memory once, and so runs only when no other does: it is placed
 * with a shape that says so. */
static inline bool sk_ltask_alone(const struct sk_ltask *t) {
    return t->place.shape != t->spec.shape;
}
void sk_ltask_stopped_for_memory(struct sk_ltask *t);
/* From now on the task runs only when no other task does. */
sk_rc sk_ltask_run_alone(struct sk_local *l, struct sk_ltask *t, struct sk_err *err) SK_MUST_USE;
/* Puts the task into the table of tasks, and counts it, until sk_ltask_free. SK_ENOMEM. */
sk_rc sk_ltask_enter(struct sk_local *l, struct sk_ltask *t);
/* A stream of process `proc` that was not accepted: whoever reads it finds the reason. */
void sk_ltask_refused_stream(struct sk_local *l, uint32_t proc, uint64_t id, struct sk_inl *error);
void sk_ltask_free(struct sk_local *l, struct sk_ltask *t);
/* Lineage does not keep the task any more: it is freed, unless it is still needed. */
void sk_ltask_kept_free(struct sk_local *l, struct sk_ltask *t);
struct sk_verdict_task sk_ltask_case(struct sk_local *l, const struct sk_ltask *t);

#endif
