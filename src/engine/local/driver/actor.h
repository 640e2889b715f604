/* actor.h - actors: a worker of their own, calls in order, restarts.
 *
 * Calls: extent, launch, memory, object, link, pool, send, space, state, task. */
#ifndef SK_LOCAL_ACTOR_H
#define SK_LOCAL_ACTOR_H

#include "engine/engine_int.h"
#include "engine/local/driver/task.h"
#include "engine/names.h"
#include "engine/place/place.h"
#include "engine/verdict.h"

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
    uint64_t id, order; /* its turn among the tasks that wait for resources */
    struct sk_list link;
    struct sk_list wants, alike; /* in l->actors.wanting, or in `alike` of the oldest of its shape there; of that one: the others, by age */
    struct sk_ltask *init;       /* kept for restarts */
    struct sk_lworker *worker;
    struct sk_list queue; /* method calls whose turn it is, not sent yet, in order */
    struct sk_list callers;
    uint32_t n_callers, n_held;
    bool let_on; /* a call ended that held up others */
    uint32_t state, n_sent;
    int32_t restarts_left, max_task_retries;
    sk_shape shape;
    uint32_t n_tasks;  /* calls that are not finished */
    bool unreferenced; /* freed when dead and nothing of it is under way */
    bool stopping;     /* no handle left, or killed without restart: nothing comes after the calls already made */
    bool no_restart;   /* killed: they are not finished either */
    bool placed;       /* the constructor was sent to the present worker */
    bool detached;     /* the engine holds its `ready` */
    bool asked;        /* its restart, by kill(no_restart=False); until it is alive again */
    bool leaving;      /* it said that it ends */
    bool is_async;
    struct sk_name *name; /* NULL: none */
    uint32_t depth;       /* so many calls may be on its worker */
    uint32_t dead_kind;   /* of the constructor's error; 0: `why` is the story */
    struct sk_inl *dead_value;
    char why[256]; /* of its death */
    uint32_t n_groups, groups[];
};

void sk_actors_init(struct sk_local *l);
void sk_actors_free(struct sk_local *l);
sk_rc sk_actor_create(struct sk_local *l, uint32_t proc, uint64_t base_id, const uint8_t *spec, size_t len, const struct sk_aspec *as,
                      struct sk_err *err);
void sk_actor_advance(struct sk_local *l, struct sk_lactor *a); /* send what can be sent, start, stop */
void sk_actor_dead(struct sk_local *l, struct sk_lactor *a, const char *why);
void sk_actor_init_failed(struct sk_local *l, struct sk_lactor *a, uint32_t kind, struct sk_inl *error); /* with a reference to it */
void sk_actor_began(struct sk_lactor *a);                                                                /* its constructor has run */
void sk_actor_worker_gone(struct sk_lactor *a); /* its process has ended: what becomes of the actor follows */
void sk_actor_ends(struct sk_lactor *a);        /* with its process: it is not started again, and its calls are not finished */
void sk_actor_leaves(struct sk_lactor *a);      /* its process said that it ends */
/* A call that was sent is not on its worker any more. */
static inline void sk_actor_call_left(struct sk_lactor *a) {
    if (a->n_sent) a->n_sent--;
}
/* And is the next that is sent: it was not begun, or is repeated. */
static inline void sk_actor_call_again(struct sk_lactor *a, struct sk_ltask *t) { sk_list_push_front(&a->queue, &t->on); }
void sk_actor_kill(struct sk_local *l, struct sk_lactor *a, bool no_restart);                      /* by who asks for it */
void sk_actor_fail_calls(struct sk_local *l, struct sk_lactor *a, const char *why);                /* those that are not on its worker */
void sk_actor_worker_died(struct sk_local *l, struct sk_lactor *a, bool charged, const char *why); /* charged: it costs a restart */
/* SK_EPENDING: max calls of that process are not finished. */
sk_rc sk_actor_may_call(struct sk_local *l, uint64_t aid, uint32_t proc, uint32_t max, struct sk_err *err) SK_MUST_USE;
struct sk_verdict_actor sk_actor_case(const struct sk_lactor *a);        /* as verdict.c asks for it */
bool sk_actor_call(struct sk_lactor *a, struct sk_ltask *t) SK_MUST_USE; /* it is held; false: no memory */
void sk_actor_call_ready(struct sk_ltask *t); /* its arguments are there: it is let on, and those behind it; or no call */
void sk_actor_call_over(struct sk_ltask *t);
void sk_actor_free(struct sk_lactor *a);
void sk_actor_fail_hasty(struct sk_local *l, struct sk_lactor *a, const char *why); /* its process died: the others */
void sk_actor_unreferenced(struct sk_local *l, struct sk_lactor *a);
/* By name; *out has a reference of proc, and so has its `ready` (id - 1). */
sk_rc sk_actor_find(struct sk_local *l, uint32_t proc, struct sk_bytes space, struct sk_bytes name, struct sk_lactor **out,
                    struct sk_err *err) SK_MUST_USE;
void sk_actor_find_for(struct sk_local *l, struct sk_lworker *w, uint64_t req, struct sk_bytes space, struct sk_bytes name);
void sk_actor_names_for(struct sk_local *l, struct sk_lworker *w, uint64_t req);
void sk_actor_sweep(struct sk_local *l); /* frees dead actors that nobody can name; at the end of a turn of the loop */

#endif
