/* actor.h - actors: a worker of their own, calls in order, restarts.
 *
 * Calls: extent, launch, memory, object, link, pool, send, space, state, task. */
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

struct sk_lcaller { /* a process that has called an actor */
    struct sk_list link;
    struct sk_list held; /* its calls that wait for an argument, and those behind them, in order */
    uint32_t proc, n;    /* n: calls that are not finished */
};

enum { SK_A_STARTING, SK_A_ALIVE, SK_A_DEAD };
struct sk_lactor {
    uint64_t id, order; /* order: its turn among tasks and actors that wait for resources */
    struct sk_list link;
    /* it wants a worker: in l->actors.wanting if it is the oldest of its shape, else in `alike` of
     * that one */
    struct sk_list wants;
    struct sk_list alike;  /* younger actors of its shape that want a worker, by age */
    struct sk_ltask *init; /* kept for restarts */
    struct sk_lworker *worker;
    struct sk_list queue; /* method calls whose turn it is, not sent yet, in order */
    struct sk_list callers;
    uint32_t n_callers, n_held;
    /* a call has ended that others stood behind: they are queued at the next sk_actor_advance */
    bool let_on;
    uint32_t state, n_sent;
    int32_t restarts_left, max_task_retries;
    sk_shape shape;
    uint32_t n_tasks;  /* calls that are not finished */
    bool unreferenced; /* it is freed when it is dead and nothing of it is under way */
    /* no handle left, or killed without restart: nothing comes after the calls already made */
    bool stopping;
    bool no_restart; /* it was killed: the calls already made are not finished either */
    bool placed;     /* the constructor was sent to the present worker */
    bool detached;   /* it lives without handles: the engine holds its `ready` object */
    bool asked;      /* kill(no_restart=False) asked for its restart; until it is ALIVE again */
    bool leaving;    /* its process has said that it ends */
    bool is_async;
    struct sk_name *name; /* NULL: none */
    uint32_t depth;       /* at most so many calls are on its worker */
    /* kind of the error of its constructor, which its calls end with; 0: they end with `why` */
    uint32_t dead_kind;
    struct sk_inl *dead_value;
    char why[256]; /* why it died */
    uint32_t n_groups, groups[];
};

void sk_actors_init(struct sk_local *l);
void sk_actors_free(struct sk_local *l);
sk_rc sk_actor_create(struct sk_local *l, uint32_t proc, uint64_t base_id, const uint8_t *spec,
                      size_t len, const struct sk_aspec *as, struct sk_err *err);
/* Starts the actor, sends what can be sent of its calls, or stops it, as far as that is possible
 * now. */
void sk_actor_advance(struct sk_local *l, struct sk_lactor *a);
void sk_actor_dead(struct sk_local *l, struct sk_lactor *a, const char *why);
/* Its constructor ended with this error, which its calls end with, too. Takes over the reference to
 * the error. */
void sk_actor_init_failed(struct sk_local *l, struct sk_lactor *a, uint32_t kind,
                          struct sk_inl *error);
void sk_actor_began(struct sk_lactor *a); /* its constructor has run */
/* Its process has ended. What becomes of the actor is decided by sk_actor_worker_died. */
void sk_actor_worker_gone(struct sk_lactor *a);
/* It ends with its process: it is not started again, and its calls are not finished. */
void sk_actor_ends(struct sk_lactor *a);
void sk_actor_leaves(struct sk_lactor *a); /* its process said that it ends */
/* A call that was sent is not on its worker any more. */
static inline void sk_actor_call_left(struct sk_lactor *a) {
    if (a->n_sent) a->n_sent--;
}
/* The call (its sk_ltask.on) is the next one to be sent: it was not begun, or is repeated. */
static inline void sk_actor_call_again(struct sk_lactor *a, struct sk_list *on) {
    sk_list_push_front(&a->queue, on);
}
/* Somebody asked for its end, or with no_restart false for its restart. */
void sk_actor_kill(struct sk_local *l, struct sk_lactor *a, bool no_restart);
/* Ends all calls that are not on its worker. */
void sk_actor_fail_calls(struct sk_local *l, struct sk_lactor *a, const char *why);
/* Its process has ended: the actor is started again, or dead. charged: that costs a restart. */
void sk_actor_worker_died(struct sk_local *l, struct sk_lactor *a, bool charged, const char *why);
/* SK_EPENDING: `max` calls of that process are not finished yet. */
sk_rc sk_actor_may_call(struct sk_local *l, uint64_t aid, uint32_t proc, uint32_t max,
                        struct sk_err *err) SK_MUST_USE;
struct sk_verdict_actor sk_actor_case(const struct sk_lactor *a); /* as verdict.c asks for it */
/* The call waits with its caller until it is its turn. False: no memory. */
bool sk_actor_call(struct sk_lactor *a, struct sk_ltask *t) SK_MUST_USE;
/* The arguments of the call exist: it is queued, with those behind it, unless one in front still
 * waits. */
void sk_actor_call_ready(struct sk_ltask *t);
void sk_actor_call_over(struct sk_ltask *t);
void sk_actor_free(struct sk_lactor *a);
/* Its process has ended: calls that only waited for their turn end with an error, unless they may
 * wait for the restart. */
void sk_actor_fail_hasty(struct sk_local *l, struct sk_lactor *a, const char *why);
void sk_actor_unreferenced(struct sk_local *l, struct sk_lactor *a);
/* By name; *out has a reference of proc, and so has its `ready` (id - 1). */
sk_rc sk_actor_find(struct sk_local *l, uint32_t proc, struct sk_bytes space, struct sk_bytes name,
                    struct sk_lactor **out, struct sk_err *err) SK_MUST_USE;
void sk_actor_find_for(struct sk_local *l, struct sk_lworker *w, uint64_t req,
                       struct sk_bytes space, struct sk_bytes name);
void sk_actor_names_for(struct sk_local *l, struct sk_lworker *w, uint64_t req);
/* frees dead actors that nobody can name; at the end of a turn of the loop */
void sk_actor_sweep(struct sk_local *l);

#endif
