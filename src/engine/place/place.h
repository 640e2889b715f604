/* place.h - which ready task goes to which worker (pure: no clock, no ipc, no allocation but its
 * shape table).
 *
 * A worker serves one shape at a time: giving it a task of a shape takes the shape's resources once
 * (a lease, as Ray's lease for a scheduling key), and as long as tasks of that shape are queued on
 * it nothing more is taken. It may hold several tasks, so that it never waits for the loop; how
 * many follows from how long they take (sk_place_depth). The lease ends when its queue is empty.
 * Tasks queued on a worker can be taken back while not started, so a queue never traps a task
 * behind a long one: see `steal`.
 *
 * Order: tasks of one shape start in order of submission; between shapes the longest waiting head
 * first. While it cannot be placed nothing is added to the queues of leases that block it, and
 * younger tasks may start past it only SK_PLACE_BYPASS times on the resources that it needs; from
 * then on these are saved up for it, so that a task that asks for much runs at last.
 *
 * A placement group takes its bundles from the machine at once, when all fit: a pending one counts
 * as a waiting head. A shape in a group takes from its bundles only, and there the oldest that fits
 * goes first. When it is removed its shapes are dead: what is ready of them, or comes back ready
 * later, is given to the caller to fail (SK_PLACE_DEAD), and a shape that no worker holds any more
 * is used again, under another id. Custom resources beyond those in sk_res are in lists of the few
 * shapes that ask for them; while such a shape waits, another such one counts as passing it. A
 * worker process has one environment for good, and has GPUs or has none: tasks of another kind need
 * another worker, which is asked for while younger tasks go on (`spawn`). GPUs are given by index,
 * whole or a share of one.
 *
 * A worker whose task waits for objects gives its CPU back (and nothing else: what it has on a GPU
 * or in memory stays there). Each such wait holds a process, so with very many of them the most
 * deeply nested tasks go first: they end the waits. Without that, 1,000 tasks that each wait for a
 * child need 1,000 processes before the first child runs. */
#ifndef SK_PLACE_H
#define SK_PLACE_H

#include "base/containers/list.h"
#include "engine/engine.h"

#define SK_PLACE_DEPTH_MAX 256u
#define SK_PLACE_SHAPES_MAX 8192u
/* GPUs that are told apart; with more of them only their number counts */
#define SK_PLACE_GPUS 16u
/* then those of another kind, a custom resource: see sk_place_devices */
#define SK_PLACE_DEVICES (2 * SK_PLACE_GPUS)
#define SK_PLACE_LEVELS 16u /* of nesting that are told apart */
#define SK_PLACE_BYPASS 64u

/* What may begin now (memory.h decides): all; one more; one of a shape that is to run alone;
 * nothing. But for ALL nothing is queued on a worker. */
enum sk_place_launch { SK_LAUNCH_ALL, SK_LAUNCH_ONE, SK_LAUNCH_ALONE, SK_LAUNCH_NONE };

enum sk_place_wstate { SK_W_NONE, SK_W_STARTING, SK_W_IDLE, SK_W_LEASED, SK_W_ACTOR };

struct sk_place_task { /* embedded in the engine's task */
    struct sk_list link;
    uint64_t order; /* of submission; set by push */
    sk_shape shape;
    uint8_t level; /* of nesting: 0 = submitted by the driver; < SK_PLACE_LEVELS */
};

/* What can be taken from: the machine, or one bundle of a placement group. Of each GPU a share may
 * be taken, several only whole. */
struct sk_place_pool {
    struct sk_res total, avail;
    /* of GPU i (from SK_PLACE_GPUS on: of the other kind), in 1/SK_RES_UNIT */
    int64_t gpu_left[SK_PLACE_DEVICES];
};

struct sk_place_group {  /* bundles that are taken from the machine together or not at all */
    struct sk_list link; /* in p->groups, oldest first */
    uint64_t id, order;
    /* never: STRICT_SPREAD of several bundles asks for several machines */
    bool ready, removed, never;
    /* workers that hold of it; the last one frees it when it is removed */
    uint32_t n_leases;
    uint32_t n;
    struct sk_place_pool b[];
};

struct sk_place_more { /* amounts of further custom resources, by rising index; interned */
    uint32_t n;
    struct sk_amount a[];
};

struct sk_place_worker { /* embedded in the engine's worker */
    struct sk_list link; /* in the list of its state */
    enum sk_place_wstate state;
    sk_shape shape;   /* LEASED or ACTOR */
    uint32_t depth;   /* tasks on it */
    int64_t since_ns; /* when the task at its head began, as far as known */
    bool blocked;     /* its running task waits for objects: its CPU is given back meanwhile */
    bool used;        /* something ran in it, or its environment is chosen */
    /* once used: by what asks for GPUs or other devices (libraries look for them once in a
     * process) */
    bool with_gpu;
    uint32_t env; /* its environment, once used */
    /* LEASED or ACTOR: from where it holds what its shape asks for */
    struct sk_place_group *in; /* NULL: the machine */
    uint32_t bundle;
    uint64_t gpus; /* bit i: GPU i, or a share of it; from SK_PLACE_GPUS on: of the other kind */
};

struct sk_place_shape {
    sk_shape id; /* index in p->shapes, and above it how often that was used before */
    struct sk_list unused;
    struct sk_res res;
    uint64_t group;
    int32_t bundle;
    uint32_t env;
    bool capture;
    /* its tasks run when no others do: with SK_LAUNCH_ALONE */
    bool alone;
    const struct sk_place_more *more;      /* NULL: none; not in a group */
    struct sk_place_group *in;             /* NULL: none, or it was removed */
    struct sk_list ready[SK_PLACE_LEVELS]; /* sk_place_task.link, by order */
    uint32_t levels;                       /* bit i: ready[i] is not empty */
    struct sk_list leased;                 /* sk_place_worker.link */
    uint32_t n_workers;                    /* LEASED or ACTOR with it */
    uint32_t n_ready;
    int64_t avg_ns; /* of its tasks, learned; 0 unknown */
};

struct sk_place {
    struct sk_res total, avail; /* CPUs available may be negative after an unblock */
    int64_t gpu_left[SK_PLACE_DEVICES];
    bool gpus_told_apart;
    uint32_t devices;      /* index of the other kind; 0: none */
    struct sk_list groups; /* sk_place_group, those not removed */
    struct sk_list gone;   /* removed groups whose last process has not been given back yet */
    uint32_t n_groups_waiting;
    int64_t *more_total, *more_avail; /* of custom resource SK_RES_MAX + i */
    uint32_t n_more;
    struct sk_place_more **mores; /* number i + 1 */
    uint32_t n_mores;
    /* total, less what groups have taken: nothing more can ever be free while they stay */
    struct sk_res unreserved;
    struct sk_place_shape **shapes;
    uint32_t n_shapes;
    struct sk_list unused; /* shapes of removed groups, to be used again */
    struct sk_list dead;   /* ready tasks of dead shapes; counted in n_ready */
    /* most recently used first: its caches are warm and it may still be spinning */
    struct sk_list idle;
    struct sk_list actors; /* workers in state ACTOR */
    uint32_t n_starting, n_idle, n_ready, n_blocked;
    uint32_t n_alone; /* of n_ready: of shapes that run alone */
    enum sk_place_launch launch;
    uint32_t deep_above, depth_cap; /* see sk_place_nested_first and sk_place_cap_depth */
    uint64_t next_order;
    uint64_t want_order; /* 0, or the order of an actor that waits for `want` */
    sk_shape want;
    /* order of the head that resources kept waiting last, and how many started past it */
    uint64_t starved;
    uint32_t n_bypassed;
};

/* This custom resource (index below SK_RES_MAX) is of devices that are told apart. Before anything
 * is placed. */
void sk_place_devices(struct sk_place *p, uint32_t index);
sk_rc sk_place_init(struct sk_place *p, const struct sk_res *total,
                    struct sk_err *err) SK_MUST_USE; /* shape 0: one CPU; shape 1: nothing */
void sk_place_deinit(struct sk_place *p);
/* interns */
sk_rc sk_place_shape(struct sk_place *p, const struct sk_res *r, sk_shape *out,
                     struct sk_err *err) SK_MUST_USE;
#define SK_PLACE_SHAPE_BITS 16u
/* A shape that is not dead, or that a worker holds. */
static inline struct sk_place_shape *sk_place_shape_at(const struct sk_place *p, sk_shape s) {
    return p->shapes[s & ((1u << SK_PLACE_SHAPE_BITS) - 1)];
}
/* The machine has these, too: once, before anything asks. */
sk_rc sk_place_more_init(struct sk_place *p, const int64_t *total, uint32_t n,
                         struct sk_err *err) SK_MUST_USE;
/* Interns amounts that were checked (res.h). *out is 0 for none. */
sk_rc sk_place_more(struct sk_place *p, const struct sk_amount *a, uint32_t n, uint32_t *out,
                    struct sk_err *err) SK_MUST_USE;
/* of engine.h */
size_t sk_place_more_read(const struct sk_place *p, uint32_t more, struct sk_amount *out,
                          size_t cap);
static inline bool sk_place_shape_known(const struct sk_place *p, sk_shape s) {
    /* it is, or was */
    return (s & ((1u << SK_PLACE_SHAPE_BITS) - 1)) < p->n_shapes &&
           s <= sk_place_shape_at(p, s)->id;
}
sk_rc sk_place_need(struct sk_place *p, const struct sk_need *n, sk_shape *out,
                    struct sk_err *err) SK_MUST_USE; /* interns; SK_EGROUP: no such group */
sk_rc sk_place_need_in(struct sk_place *p, const struct sk_need *n, sk_shape *out,
                       /* the same; SK_EINFEASIBLE: no bundle has so much */
                       struct sk_err *err) SK_MUST_USE;
/* What was interned; nothing when its group was removed and its place is used again. */
struct sk_need sk_place_need_of(const struct sk_place *p, sk_shape s);
/* the same need, to run alone */
sk_rc sk_place_alone(struct sk_place *p, sk_shape s, sk_shape *out, struct sk_err *err) SK_MUST_USE;
/* Its placement group was removed: nothing of this shape can ever start. */
static inline bool sk_place_shape_dead(const struct sk_place *p, sk_shape s) {
    const struct sk_place_shape *x = sk_place_shape_at(p, s);
    return x->id != s || (x->group && !x->in);
}
/* A placement group: bundles are taken as soon as all of them fit; pick says when. Owned by `p`. */
sk_rc sk_place_group_add(struct sk_place *p, uint64_t id, const struct sk_res *bundles, uint32_t n,
                         bool apart, struct sk_place_group **out, struct sk_err *err) SK_MUST_USE;
/* Gives back what nobody holds now, the rest with the leases. What is ready in its shapes is given
 * out by pick. */
void sk_place_group_remove(struct sk_place *p, struct sk_place_group *g);
static inline struct sk_place_group *sk_place_group_find(const struct sk_place *p, uint64_t id) {
    /* NULL: it was removed */
    SK_LIST_EACH (it, &p->groups)
        if (sk_container_of(it, struct sk_place_group, link)->id == id)
            return sk_container_of(it, struct sk_place_group, link);
    return NULL;
}
/* An idle worker for tasks of this shape, NULL: none. */
struct sk_place_worker *sk_place_idle_for(const struct sk_place *p, sk_shape s);
bool sk_place_fits_ever(const struct sk_place *p, sk_shape s);
bool sk_place_fits_now(const struct sk_place *p, sk_shape s);

/* at its place by order: a fresh one last, a returned one where it was */
void sk_place_push(struct sk_place *p, struct sk_place_task *t);
void sk_place_unpush(struct sk_place *p, struct sk_place_task *t); /* cancelled while ready */
struct sk_place_task *sk_place_any(const struct sk_place *p);      /* a ready one; NULL: none */

void sk_place_worker_init(struct sk_place_worker *w);
void sk_place_worker_starting(struct sk_place *p, struct sk_place_worker *w);
void sk_place_worker_up(struct sk_place *p, struct sk_place_worker *w); /* STARTING -> IDLE */
/* any -> NONE; gives its resources back */
void sk_place_worker_gone(struct sk_place *p, struct sk_place_worker *w);
/* IDLE or STARTING -> NONE, given nothing for a while; and NONE -> IDLE, what it was. */
void sk_place_worker_aside(struct sk_place *p, struct sk_place_worker *w, bool aside);
/* IDLE -> ACTOR, takes the resources */
void sk_place_worker_actor(struct sk_place *p, struct sk_place_worker *w, sk_shape s);
/* An actor that could not be placed counts as a waiting head; it takes its turn by `order` (one of
 * sk_place_order). 0: none waits. */
static inline uint64_t sk_place_order(struct sk_place *p) { return ++p->next_order; }
static inline void sk_place_want(struct sk_place *p, uint64_t order, sk_shape s) {
    p->want_order = order;
    p->want = s;
}
static inline void sk_place_allow(struct sk_place *p, enum sk_place_launch launch) {
    p->launch = launch;
}
/* With more blocked workers than this nested tasks go first; below the engine's limit of
 * processes. */
static inline void sk_place_nested_first(struct sk_place *p, uint32_t above) {
    p->deep_above = above;
}
/* Not 0: at most so many tasks on a worker, however short they are; the engine asks for it while
 * memory is short. */
static inline void sk_place_cap_depth(struct sk_place *p, uint32_t most) { p->depth_cap = most; }
void sk_place_worker_block(struct sk_place *p, struct sk_place_worker *w, bool blocked);
/* One task less on w (finished, or taken back); the lease ends at depth 0. ran_ns >= 0: how long it
 * ran. */
void sk_place_done(struct sk_place *p, struct sk_place_worker *w, int64_t ran_ns, int64_t now_ns);

enum sk_place_what {
    SK_PLACE_NOTHING,
    SK_PLACE_RUN,
    SK_PLACE_SPAWN,
    SK_PLACE_STEAL,
    SK_PLACE_GROUP,
    SK_PLACE_DEAD
};
struct sk_place_pick {
    enum sk_place_what what;
    struct sk_place_group *group; /* GROUP: it has its bundles now */
    /* RUN: removed from its queue; goes on worker. DEAD: removed from its queue; its group is */
    struct sk_place_task *task;
    /* RUN: depth already counted. STEAL: take one not started task back from it, push it, pick
     * again */
    struct sk_place_worker *worker;
    /* RUN: an older task has room, but no idle worker is of its kind: start one besides */
    bool spawn;
};
/* Next thing to do. SPAWN: another worker process would help (the caller starts one, or not when at
 * its limit). Call until NOTHING (SPAWN counts as such when the caller cannot). */
void sk_place_pick(struct sk_place *p, int64_t now_ns, struct sk_place_pick *out);
/* how many tasks of it may be on one worker */
uint32_t sk_place_depth(const struct sk_place_shape *s);
bool sk_place_check(const struct sk_place *p);

#endif
