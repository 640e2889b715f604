/* verdict.h - decides about a task, and its actor, when a run of the task has ended by the worker's
 * report or with the worker's process; and words the messages about that (pure: no clock, no ipc,
 * no allocation; strings belong to the caller).
 *
 *     the worker reports that a run is over    | verdict
 *     ------------+--------------------------------------------------------------------------------
 *     exit_actor() was called in it            | it ends so, and its actor with it
 *     its output cannot be trusted, or it was  | it ends so; its values are thrown away
 *     cancelled and knows that                 |
 *     it ran for lost yields, and made them    | it is over, however it ended after that
 *     it failed, and may be repeated           | it runs again
 *     it failed                                | it ends with its first value, the error
 *     it ran for lost yields, and made fewer   | it is not deterministic: an error
 *     else                                     | its values exist
 *
 * And when a worker process has ended:
 *
 *     a task                                   | verdict
 *     ------------+--------------------------------------------------------------------------------
 *     was cancelled                            | it ends so
 *     runs in a placement group that is gone   | it ends so, if it had begun
 *     is the constructor of an actor           | what becomes of the actor decides
 *     is a call of an actor                    | it waits for the actor's next process, if there is
 *                                              | one and the call may be repeated; else it ends
 *     had not begun                            | it goes elsewhere at no cost
 *     was killed along with another task       | it runs again at no cost
 *     was stopped for memory                   | it runs again, alone, as often as is allowed
 *                                              | (sk_verdict_memory); else it ends
 *     had begun                                | it runs again, which costs a retry; if none is
 *                                              | left, it ends
 *
 * Whether a task had *begun* is told by its claim word. A death is *charged* to an actor, which
 * means that it costs a restart, unless the actor's constructor had not begun, or the engine killed
 * the process because of a task that was there before the actor. Invariant: what has not begun is
 * never charged, and what is charged had a retry. */
#ifndef SK_VERDICT_H
#define SK_VERDICT_H

#include "base/base.h"
#include "engine/state.h"

struct sk_verdict_worker { /* the process that has ended */
    int32_t pid;
    bool refused;        /* the system refused to make the process */
    int status;          /* status from wait(2); -1: unknown, the fork server is gone, too */
    uint64_t peak_bytes; /* highest memory use */
    bool up;             /* the process was ready at some time */
    bool killed;         /* the engine killed the process */
    /* the reason why the engine killed the process or asked it to end; NULL: neither */
    const char *kill_why;
    /* id of the task because of which the process was killed; 0: no single task */
    uint64_t kill_task;
    /* text why the process was stopped for memory; NULL: it was not stopped for that */
    const char *oom;
    const char *doing;      /* text for messages: what the process was working on; may be empty */
    const char *last_words; /* text that the crashing process wrote; may be empty */
};

struct sk_verdict_actor { /* the actor whose process has ended */
    bool alive;           /* the constructor has ended */
    bool placed;          /* the constructor was sent to the process */
    bool begun;           /* the constructor had begun in the process */
    bool no_restart;      /* the actor was killed for good */
    bool asked;           /* a restart was requested */
    /* The process for which calls were submitted is gone or about to end, and the next process has
     * not begun. */
    bool between;
    /* restarts_left: -1: no limit */
    int32_t restarts_left, max_task_retries;
};

struct sk_verdict_task { /* a task that was on the process */
    uint64_t id;
    bool is_init, is_call;
    bool begun, cancelled, group_gone;
    bool no_wait;         /* a call that does not wait for the actor's next process */
    int32_t retries_left; /* -1: no limit */
};

enum sk_verdict_what {
    SK_VERDICT_CANCELLED,
    SK_VERDICT_FAIL, /* the task fails with `rc` */
    /* The task runs again. `attempt`: it had begun, so the next run has another attempt number;
     * `charged`: the new run costs a retry. */
    SK_VERDICT_AGAIN,
    SK_VERDICT_MEMORY,     /* sk_verdict_memory decides what follows */
    SK_VERDICT_WITH_ACTOR, /* the constructor: the decision about the actor decides */
};
struct sk_verdict {
    enum sk_verdict_what what;
    sk_rc rc;
    bool attempt, charged;
};

/* True if the death costs the actor a restart. a: the actor, or NULL if the process has no actor
 * (any more). */
bool sk_verdict_charged(const struct sk_verdict_worker *w, const struct sk_verdict_actor *a);
/* True if the actor is started again; otherwise it is dead. */
bool sk_verdict_restarts(const struct sk_verdict_actor *a, bool charged);
struct sk_verdict sk_verdict_task(const struct sk_verdict_worker *w,
                                  const struct sk_verdict_actor *a, bool charged,
                                  const struct sk_verdict_task *t);
/* True if a call that has not begun may run in the actor's next process. As in Ray, a call without
 * retries ends with the process for which it was submitted, unless that process had not begun, or
 * was ended because a restart was asked for. */
bool sk_verdict_call_waits(const struct sk_verdict_actor *a, const struct sk_verdict_task *t);
/* True if a call that is made now may run in the actor's next process. */
bool sk_verdict_call_joins(const struct sk_verdict_actor *a, const struct sk_verdict_task *t);

struct sk_verdict_run { /* a run that the worker reports as over */
    /* from the report: it failed; the failure must not be retried; exit_actor() was called in it */
    bool failed, final, exits;
    bool is_init, of_actor; /* a constructor; a constructor or a call of an actor */
    bool async;             /* the actor has an event loop */
    bool is_stream, has_sink;
    bool cancelled;
    /* The output differs from an earlier run's, or there was no memory to record the output. */
    bool spoiled;
    bool remake, all_made; /* the task ran to make lost yields again; all of these were made */
    /* The task was asked to stop, so that it can run again from the start for lost yields. */
    bool restart;
    bool retry_exceptions;
    int32_t retries_left; /* -1: no limit */
};
enum sk_verdict_over {
    SK_OVER_WELL,
    /* The task ends with the error that is its first value. For the verdicts below, its values
     * are thrown away. */
    SK_OVER_FAILED,
    SK_OVER_EXIT,
    SK_OVER_STOPPED,
    SK_OVER_REMADE,
    SK_OVER_LESS,       /* the task made fewer yields than were lost */
    SK_OVER_AGAIN,      /* the task runs again, which costs a retry */
    SK_OVER_FROM_START, /* the task runs again for other lost yields, which costs a retry, too */
};
enum sk_verdict_over sk_verdict_over(const struct sk_verdict_run *r);

struct sk_verdict_stop { /* a task that was stopped for memory */
    uint32_t n_stops;    /* number of stops, with this one */
    int32_t max_retries; /* max_retries of the task */
    int32_t oom_retries; /* oom_retries of the engine; 0: the usual number; negative: none */
    bool alone;          /* the task was to run alone */
    bool beside;         /* other tasks ran at the same time, also if `alone` is set */
};
/* True: the task runs again, alone. False: it does not run again, and `why` is a sentence for the
 * error message. */
bool sk_verdict_memory(const struct sk_verdict_stop *s, char *why, size_t cap);

/* True if the process ended before it was ready, and was not told to end: several such ends in a
 * row are no accident. others: number of other processes. */
bool sk_verdict_bad_start(const struct sk_verdict_worker *w, uint32_t others);
enum sk_worker_end sk_verdict_end(const struct sk_verdict_worker *w);
/* True if the end counts as a death: the process was not told to end, and had existed. */
bool sk_verdict_counts(const struct sk_verdict_worker *w, bool had_tasks);
/* Writes how the process ended, for messages. The process must have existed. */
void sk_verdict_text(const struct sk_verdict_worker *w, char *buf, size_t cap);

#endif
