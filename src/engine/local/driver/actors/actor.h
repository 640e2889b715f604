/* actor.h - actors: each has a worker of its own, gets calls in order, and may be restarted.
 *
 * Calls: extent, launch, memory, object, link, pool, send, space, state, task. The code of this
 * part may call these parts of the driver and no others; tests/shape.py reads this line. */
#ifndef SK_LOCAL_ACTOR_H
#define SK_LOCAL_ACTOR_H

#include "engine/engine_int.h"
#include "engine/local/driver/tasks/task.h"
#include "engine/books/names.h"
#include "engine/place/place.h"
#include "engine/rules/verdict.h"

struct sk_local;
struct sk_ltask;
struct sk_lworker;
struct sk_inl;
struct sk_err;

struct sk_lcaller { /* who has made calls of an actor */
    struct sk_list link;
    /* its calls that wait for an argument, and the calls behind them, in order */
    struct sk_list held;
    uint64_t who; /* a process here, or (OTHERS) sk_task_opts.caller */
    uint32_t n;   /* number of its calls that are not finished */
};

enum { SK_A_STARTING, SK_A_ALIVE, SK_A_DEAD };
struct sk_lactor {
    /* order: the actor's turn among the tasks and actors that wait for resources */
    uint64_t id, order;
    struct sk_list link;
    /* Link of an actor that waits for a worker: in l->actors.wanting if this actor is the oldest
     * of its shape, else in `alike` of the oldest one. */
    struct sk_list wants;
    /* younger actors of the same shape that wait for a worker, oldest first */
    struct sk_list alike;
    struct sk_ltask *init; /* the constructor; kept for restarts */
    struct sk_lworker *worker;
    struct sk_list queue; /* calls whose turn has come, not sent yet, in order */
    struct sk_list callers;
    struct sk_dep *watchers; /* watches of the actor's end */
    uint32_t n_callers, n_held;
    /* A call that other calls stood behind has ended: the next sk_actor_advance queues those other
     * calls. */
    bool let_on;
    uint32_t state, n_sent;
    int32_t restarts_left, max_task_retries;
    sk_shape shape;
    uint32_t n_tasks; /* number of calls that are not finished */
    /* no reference to the actor is left: it is freed once it is dead and no call is under way */
    bool unreferenced;
    /* no handle is left, or the actor was killed for good: no more calls will be made */
    bool stopping;
    bool no_restart; /* the actor was killed for good: unfinished calls fail */
    bool placed;     /* the constructor was sent to the actor's present worker */
    bool detached;   /* the actor lives without handles: the engine holds its `ready` object */
    /* kill(no_restart=False) has asked for a restart; reset when the actor is ALIVE again */
    bool asked;
    bool leaving; /* the actor's process has said that it will end */
    bool is_async;
    struct sk_name *name; /* NULL: the actor has no name */
    uint32_t depth;       /* most calls that may be on the actor's worker at once */
    /* Kind of the constructor's error, with which calls of the actor end; 0: calls end with the
     * text `why`. */
    uint32_t dead_kind;
    struct sk_inl *dead_value;
    char why[256]; /* why the actor died */
    uint32_t n_groups, groups[];
};

void sk_actors_init(struct sk_local *l);
void sk_actors_free(struct sk_local *l);
sk_rc sk_actor_create(struct sk_local *l, uint32_t proc, uint64_t base_id, const uint8_t *spec,
                      size_t len, const struct sk_aspec *as, struct sk_err *err);
/* Does what can be done for the actor now: starts it, sends calls, or stops it. */
void sk_actor_advance(struct sk_local *l, struct sk_lactor *a);
void sk_actor_dead(struct sk_local *l, struct sk_lactor *a, const char *why);
/* Call when the constructor has ended with this error; the actor's calls end with it, too. Takes
 * over the reference to the error. */
void sk_actor_init_failed(struct sk_local *l, struct sk_lactor *a, uint32_t kind,
                          struct sk_inl *error);
void sk_actor_began(struct sk_lactor *a); /* call when the constructor has run */
/* Call when the process of the actor has ended. sk_actor_worker_died decides what becomes of the
 * actor. */
void sk_actor_worker_gone(struct sk_lactor *a);
/* Makes the actor end with its process: it is not started again, and its calls are not finished. */
void sk_actor_ends(struct sk_lactor *a);
/* Call when the actor's process has said that it will end. */
void sk_actor_leaves(struct sk_lactor *a);
/* Call when a call that was sent has left its worker. */
static inline void sk_actor_call_left(struct sk_lactor *a) {
    if (a->n_sent) a->n_sent--;
}
/* Queues a call (by its sk_ltask.on) as the next to be sent: a call that had not begun, or one
 * that runs again. */
static inline void sk_actor_call_again(struct sk_lactor *a, struct sk_list *on) {
    sk_list_push_front(&a->queue, on);
}
/* Ends the actor at a caller's request or, with no_restart false, restarts it. */
void sk_actor_kill(struct sk_local *l, struct sk_lactor *a, bool no_restart);
/* Ends all calls that are not on the actor's worker. */
void sk_actor_fail_calls(struct sk_local *l, struct sk_lactor *a, const char *why);
/* Call when the process has ended: starts the actor again, or makes it dead. charged: the death
 * costs a restart. */
void sk_actor_worker_died(struct sk_local *l, struct sk_lactor *a, bool charged, const char *why);
/* Checks whether process proc may make a call. SK_EPENDING: `max` of its calls are not finished. */
sk_rc sk_actor_may_call(struct sk_local *l, uint64_t aid, uint32_t proc, uint32_t max,
                        struct sk_err *err) SK_MUST_USE;
/* the actor's state in the form that verdict.c needs */
struct sk_verdict_actor sk_actor_case(const struct sk_lactor *a);
/* Adds the call to its caller's calls, in order. False: no memory. */
bool sk_actor_call(struct sk_lactor *a, struct sk_ltask *t) SK_MUST_USE;
/* Call when the arguments of the call exist: queues the call, with those that stood behind it,
 * unless a call in front of it still waits. */
void sk_actor_call_ready(struct sk_ltask *t);
void sk_actor_call_over(struct sk_ltask *t);
void sk_actor_free(struct sk_lactor *a);
/* Call when the process has ended: calls that are only queued fail, unless they may wait for the
 * restart. */
void sk_actor_fail_hasty(struct sk_local *l, struct sk_lactor *a, const char *why);
void sk_actor_unreferenced(struct sk_local *l, struct sk_lactor *a);
/* Finds an actor by name. Process proc gets a reference to *out and to its `ready` object, whose
 * id is one less. */
sk_rc sk_actor_find(struct sk_local *l, uint32_t proc, struct sk_bytes space, struct sk_bytes name,
                    struct sk_lactor **out, struct sk_err *err) SK_MUST_USE;
void sk_actor_find_for(struct sk_local *l, struct sk_lworker *w, uint64_t req,
                       struct sk_bytes space, struct sk_bytes name);
/* Answers FIND: with the actor and its meta; or (actor 0) NAMES, with the names. */
void sk_actor_found(struct sk_local *l, struct sk_lworker *w, uint64_t req, uint64_t actor,
                    struct sk_bytes bytes);
void sk_actor_names_for(struct sk_local *l, struct sk_lworker *w, uint64_t req);
/* Frees dead actors that nothing refers to; called at the end of a turn of the loop. */
void sk_actor_sweep(struct sk_local *l);

#endif
