/* verdict.h - a run has ended, by its worker's report or with its worker process: what becomes of
 * the task, of the actor, and what is said about it (pure: no clock, no ipc, no allocation; strings
 * are the caller's).
 *
 *     the worker says that a run is over      | verdict
 *     ------------+--------------------------------------------------------------------------------
 *     exit_actor() was called in it           | ends so, and its actor with it
 *     its output is not to be trusted, or it  | ends so, and the values, if any, are thrown away
 *     was cancelled and has heard of it       |
 *     it ran for lost yields, and made them   | is over, however it ended after that
 *     it failed, and may be repeated          | runs again
 *     it failed                               | ends with its first value, the error
 *     it ran for lost yields, and made fewer  | is not deterministic
 *     else                                    | its values are there
 *
 * And when a worker process ended:
 *
 *     a task                                  | verdict
 *     ------------+--------------------------------------------------------------------------------
 *     was cancelled                           | ends so
 *     runs in a placement group that is gone  | ends so, if it had begun
 *     is the constructor of an actor          | what becomes of the actor says it
 *     is a call of an actor                   | waits for the next life, if there is one and it may
 *                                             be repeated; else ends
 *     had not begun                           | goes elsewhere at no cost
 *     was killed along with another           | runs again at no cost
 *     was stopped for memory                  | runs again, alone, as often as is allowed
 *                                             (sk_verdict_memory); else ends
 *     had begun                               | runs again for a retry; without one left it ends
 *
 * *Begun* is told by the claim word. A death is *charged* to an actor, so that it costs a restart,
 * unless its constructor had not begun, or the engine killed the process for the sake of a task
 * that was there before it. Invariant: what is not begun is never charged, and what is charged had
 * a retry. */
#ifndef SK_VERDICT_H
#define SK_VERDICT_H

#include "base/base.h"
#include "engine/state.h"

struct sk_verdict_worker { /* who ended */
    int32_t pid;
    bool refused;        /* the system never made it */
    int status;          /* of wait(2); -1: the fork server is gone, too */
    uint64_t peak_bytes; /* of its memory */
    bool up;             /* it was ready once */
    bool killed;         /* by the engine, */
    /* which says why, here and when it only asked it to leave; NULL: neither */
    const char *kill_why;
    uint64_t kill_task;     /* and because of this task; 0: because of itself */
    const char *oom;        /* it was stopped for memory: the story; NULL: it was not */
    const char *doing;      /* what it had in hand, as it is shown; may be empty */
    const char *last_words; /* what a crashing process wrote; may be empty */
};

struct sk_verdict_actor { /* whose process it was */
    bool alive;           /* its constructor is over */
    bool placed;          /* its constructor was sent there, */
    bool begun;           /* and has begun */
    bool no_restart;      /* somebody killed it for good */
    bool asked;           /* somebody wants it anew */
    /* the process that calls were meant for is gone, or about to, and the next one has not begun */
    bool between;
    int32_t restarts_left /* -1: no end */, max_task_retries;
};

struct sk_verdict_task { /* that was on it */
    uint64_t id;
    bool is_init, is_call;
    bool begun, cancelled, group_gone;
    bool no_wait; /* a call that does not wait for a next life */
    int32_t retries_left /* -1: no end */;
};

enum sk_verdict_what {
    SK_VERDICT_CANCELLED,
    SK_VERDICT_FAIL, /* with `rc` */
    /* `attempt`: it had begun, and the next one has another number; `charged`: that costs a
     * retry */
    SK_VERDICT_AGAIN,
    SK_VERDICT_MEMORY,     /* sk_verdict_memory says */
    SK_VERDICT_WITH_ACTOR, /* the constructor */
};
struct sk_verdict {
    enum sk_verdict_what what;
    sk_rc rc;
    bool attempt, charged;
};

/* a: of its actor, or NULL: it has none, or none any more. */
bool sk_verdict_charged(const struct sk_verdict_worker *w, const struct sk_verdict_actor *a);
bool sk_verdict_restarts(const struct sk_verdict_actor *a, bool charged); /* else it is dead */
struct sk_verdict sk_verdict_task(const struct sk_verdict_worker *w,
                                  const struct sk_verdict_actor *a, bool charged,
                                  const struct sk_verdict_task *t);
/* A call that has not begun: is it made for whatever life its actor has? As in Ray, a call without
 * retries ends with the process that it was meant for; not if that process was still to begin, or
 * was ended by who wants a new one. */
bool sk_verdict_call_waits(const struct sk_verdict_actor *a, const struct sk_verdict_task *t);
/* the same of one that is made now */
bool sk_verdict_call_joins(const struct sk_verdict_actor *a, const struct sk_verdict_task *t);

struct sk_verdict_run { /* that its worker says is over */
    /* as reported: it failed; which is not to be retried; exit_actor() was called in it */
    bool failed, final, exits;
    bool is_init, of_actor; /* a constructor; that, or a call */
    bool async;             /* of an actor with an event loop */
    bool is_stream, has_sink;
    bool cancelled;
    /* its output differs from an earlier run's, or there was no memory to record it */
    bool spoiled;
    bool remake, all_made; /* it ran for lost yields; they are there */
    bool restart;          /* it was asked to stop, so that it can begin anew for lost yields */
    bool retry_exceptions;
    int32_t retries_left; /* -1: no end */
};
enum sk_verdict_over {
    SK_OVER_WELL,
    SK_OVER_FAILED, /* with the first value; behind it, the values are nobody's: */
    SK_OVER_EXIT,
    SK_OVER_STOPPED,
    SK_OVER_REMADE,
    SK_OVER_LESS,       /* of what was lost */
    SK_OVER_AGAIN,      /* costs a retry, */
    SK_OVER_FROM_START, /* and so does this: it goes on with other lost yields */
};
enum sk_verdict_over sk_verdict_over(const struct sk_verdict_run *r);

struct sk_verdict_stop { /* of a task that was stopped for memory */
    uint32_t n_stops;    /* with this one */
    int32_t max_retries; /* the task's own */
    int32_t oom_retries; /* the engine's: 0: the usual number, negative: none */
    bool alone;          /* it ran alone, */
    bool beside;         /* but others were there all the same */
};
/* True: it runs again, alone. False: why not, as a sentence. */
bool sk_verdict_memory(const struct sk_verdict_stop *s, char *why, size_t cap);

/* It ended before it was ready, and nobody wanted that: several in a row are no accident. others:
 * processes that there are besides. */
bool sk_verdict_bad_start(const struct sk_verdict_worker *w, uint32_t others);
enum sk_worker_end sk_verdict_end(const struct sk_verdict_worker *w);
/* as a death; not: it was sent away, or never lived */
bool sk_verdict_counts(const struct sk_verdict_worker *w, bool had_tasks);
/* of one that lived */
void sk_verdict_text(const struct sk_verdict_worker *w, char *buf, size_t cap);

#endif
