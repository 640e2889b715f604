/* place.h - gives ready tasks to workers (pure: no clock, no ipc, no allocation but for its table
 * of shapes).
 *
 * A worker serves one shape at a time. Its first task of a shape takes the shape's resources (a
 * lease, as Ray's lease for a scheduling key), and while tasks of that shape are queued on the
 * worker nothing more is taken. A worker may have several tasks queued, so that it never waits for
 * the loop; how many follows from how long they take (sk_place_depth). The lease ends when its
 * queue is empty. Tasks queued on a worker can be taken back while they have not started, so that
 * no task is trapped in a queue behind a long one: see SK_PLACE_STEAL.
 *
 * Order: tasks of one shape start in order of submission; between shapes, the head of a queue that
 * has waited longest comes first. While that head cannot be placed, nothing is added to the queues
 * of leases that block it, and younger tasks may start past it only SK_PLACE_BYPASS times on the
 * resources that it needs; from then on these are saved up for it, so that a task that asks for
 * much runs at last.
 *
 * A placement group takes its bundles from the machine at once, when all of them fit; a pending
 * group counts as a waiting head. A shape in a group takes from the group's bundles only, and there
 * the oldest that fits goes first. When a group is removed, its shapes are dead: their ready tasks,
 * and tasks that come back ready later, are given to the caller to fail (SK_PLACE_DEAD), and the
 * entry of a shape that no worker holds any more is reused under another id. Custom resources
 * beyond those in sk_res are in lists of the few shapes that ask for them; while such a shape
 * waits, a start of another such shape counts as passing it. A worker process has one environment
 * for good, and either has GPUs or has none: tasks of another kind need another worker, which is
 * asked for while younger tasks go on (`spawn`). GPUs are given by index, whole or a share of one.
 *
 * A worker whose task waits for objects gives its CPU back (and nothing else: what it has on a GPU
 * or in memory stays there). Each such wait holds a process, so when very many wait, the most
 * deeply nested tasks go first: they end the waits. Without that, 1,000 tasks that each wait for a
 * child need 1,000 processes before the first child runs. */
#ifndef SK_PLACE_H
#define SK_PLACE_H

#include "base/containers/list.h"
#include "engine/engine.h"

#define SK_PLACE_DEPTH_MAX 256u
#define SK_PLACE_SHAPES_MAX 8192u
/* number of GPUs that are given by index; with more GPUs only their number counts */
#define SK_PLACE_GPUS 16u
/* number of devices: GPUs, then devices of one other kind (sk_place_devices) */
#define SK_PLACE_DEVICES (2 * SK_PLACE_GPUS)
#define SK_PLACE_LEVELS 16u /* levels of nesting that are distinguished */
#define SK_PLACE_BYPASS 64u

/* The tasks that may begin now, by decision of rules/memory.h: all tasks; one more task; one task
 * that has to run alone; none. Unless it is ALL, nothing is queued on a worker that has a task. */
enum sk_place_launch { SK_LAUNCH_ALL, SK_LAUNCH_ONE, SK_LAUNCH_ALONE, SK_LAUNCH_NONE };

enum sk_place_wstate { SK_W_NONE, SK_W_STARTING, SK_W_IDLE, SK_W_LEASED, SK_W_ACTOR };

struct sk_place_task { /* a member of the engine's task */
    struct sk_list link;
    uint64_t order; /* order of submission; set by push */
    sk_shape shape;
    uint8_t level; /* level of nesting: 0 = submitted by the driver; < SK_PLACE_LEVELS */
};

/* Resources that tasks take from: the machine's, or those of one bundle of a placement group. A
 * share of one GPU may be taken, or several whole GPUs. */
struct sk_place_pool {
    struct sk_res total, avail;
    /* of a bundle. there: it was taken from the machine; elsewhere: another node has it */
    bool there, elsewhere;
    /* free share of GPU i (from SK_PLACE_GPUS on: of device i of the other kind), in
     * 1/SK_RES_UNIT */
    int64_t gpu_left[SK_PLACE_DEVICES];
};

/* A placement group: bundles that are taken from the machine together or not at all. Bundles that
 * another node had (elsewhere) may be added later: they are taken together, too, while tasks go on
 * in the others. */
struct sk_place_group {
    struct sk_list link; /* in p->groups, oldest first */
    uint64_t id, order;
    /* never: the group can never be ready, since STRICT_SPREAD of several bundles needs several
     * machines */
    bool ready, removed, never;
    /* Number of workers that hold resources of the group. When the group is removed, the last of
     * these workers frees it. */
    uint32_t n_leases;
    uint32_t n;
    struct sk_place_pool b[];
};

struct sk_place_more { /* amounts of further custom resources, sorted by index; interned */
    uint32_t n;
    struct sk_amount a[];
};

struct sk_place_worker { /* a member of the engine's worker */
    struct sk_list link; /* in the list of its state */
    enum sk_place_wstate state;
    sk_shape shape;   /* in state LEASED or ACTOR: the shape that the worker serves */
    uint32_t depth;   /* number of tasks on the worker */
    int64_t since_ns; /* time at which its first task began, as far as known */
    bool blocked; /* the running task waits for objects, and its CPU is lent to others meanwhile */
    bool used;    /* a task ran in the process, or its environment is decided */
    /* If used: the process was used by a task that asks for GPUs or other devices (libraries look
     * for devices once in a process). */
    bool with_gpu;
    uint32_t env; /* the environment of the process, if used */
    /* in state LEASED or ACTOR: the group whose resources the worker holds; NULL: it holds
     * resources of the machine */
    struct sk_place_group *in; /* NULL: resources of the machine */
    uint32_t bundle;
    /* bit i: the worker holds GPU i, or a share of it; from SK_PLACE_GPUS on: devices of the other
     * kind */
    uint64_t gpus;
};

struct sk_place_shape {
    sk_shape id; /* index in p->shapes; the bits above count the earlier uses of that entry */
    struct sk_list unused;
    struct sk_res res;
    uint64_t group;
    int32_t bundle;
    uint32_t env;
    /* neither 0 nor SK_WHERE_HERE: its tasks run on other nodes only, so none of them is queued
     * here */
    uint32_t where;
    bool capture;
    /* tasks of this shape have to run alone (SK_LAUNCH_ALONE) */
    bool alone;
    const struct sk_place_more *more; /* NULL: none; always NULL in a group */
    struct sk_place_group *in; /* the placement group; NULL: none, or the group was removed */
    /* queues of ready tasks (sk_place_task.link) by level, each by order */
    struct sk_list ready[SK_PLACE_LEVELS];
    uint32_t levels; /* bit i is set if ready[i] is not empty */
    /* workers that have a lease of this shape (sk_place_worker.link) */
    struct sk_list leased;
    uint32_t n_workers; /* workers in state LEASED or ACTOR with this shape */
    uint32_t n_ready;
    int64_t avg_ns; /* measured mean run time of its tasks; 0: unknown */
};

struct sk_place {
    struct sk_res total, avail; /* CPUs available may be negative after an unblock */
    int64_t gpu_left[SK_PLACE_DEVICES];
    bool gpus_told_apart;
    /* index of the custom resource that is the other kind of devices; 0: there is none */
    uint32_t devices;
    struct sk_list groups; /* groups (sk_place_group) that are not removed */
    struct sk_list gone;   /* removed groups whose last process has not been given back yet */
    uint32_t n_groups_waiting;
    int64_t *more_total, *more_avail; /* amounts of custom resource SK_RES_MAX + i */
    uint32_t n_more;
    struct sk_place_more **mores; /* entry i has the number i + 1 */
    uint32_t n_mores;
    /* the total less the resources of groups: the most that can be free while the groups stay */
    struct sk_res unreserved;
    struct sk_place_shape **shapes;
    uint32_t n_shapes;
    struct sk_list unused; /* entries of shapes of removed groups, to be reused */
    struct sk_list dead;   /* ready tasks of dead shapes; counted in n_ready */
    /* idle workers, the most recently used first: its caches are warm, and it may still be
     * spinning */
    struct sk_list idle;
    struct sk_list actors; /* workers in state ACTOR */
    uint32_t n_starting, n_idle, n_ready, n_blocked;
    uint32_t n_alone; /* number of ready tasks that have to run alone */
    enum sk_place_launch launch;
    uint32_t deep_above, depth_cap; /* see sk_place_nested_first and sk_place_cap_depth */
    uint64_t next_order;
    uint64_t want_order; /* order of the actor that waits for the shape `want`; 0: no actor waits */
    sk_shape want;
    /* starved: order of the task at the head of its queue that last lacked resources; n_bypassed:
     * number of tasks that started before it although they are younger */
    uint64_t starved;
    uint32_t n_bypassed;
};

/* Says that this custom resource (index below SK_RES_MAX) stands for devices that are given by
 * index. To be called before anything is placed. */
void sk_place_devices(struct sk_place *p, uint32_t index);
sk_rc sk_place_init(struct sk_place *p, const struct sk_res *total,
                    struct sk_err *err) SK_MUST_USE; /* shape 0: one CPU; shape 1: nothing */
void sk_place_deinit(struct sk_place *p);
/* Interns a shape that asks for `r` only. */
sk_rc sk_place_shape(struct sk_place *p, const struct sk_res *r, sk_shape *out,
                     struct sk_err *err) SK_MUST_USE;
#define SK_PLACE_SHAPE_BITS 16u
/* Returns the entry of a shape. Its placement group must exist, or a worker must still run in the
 * shape: only then is the entry kept. */
static inline struct sk_place_shape *sk_place_shape_at(const struct sk_place *p, sk_shape s) {
    return p->shapes[s & ((1u << SK_PLACE_SHAPE_BITS) - 1)];
}
/* Sets the machine's amounts of further custom resources. To be called once, before any task
 * asks for them. */
sk_rc sk_place_more_init(struct sk_place *p, const int64_t *total, uint32_t n,
                         struct sk_err *err) SK_MUST_USE;
/* Interns amounts that res.h has checked. *out is 0 for none. */
sk_rc sk_place_more(struct sk_place *p, const struct sk_amount *a, uint32_t n, uint32_t *out,
                    struct sk_err *err) SK_MUST_USE;
/* Reads amounts by their number; see more_read in custom.h. */
size_t sk_place_more_read(const struct sk_place *p, uint32_t more, struct sk_amount *out,
                          size_t cap);
static inline bool sk_place_shape_known(const struct sk_place *p, sk_shape s) {
    /* True for the number of a shape that exists or existed. */
    return (s & ((1u << SK_PLACE_SHAPE_BITS) - 1)) < p->n_shapes &&
           s <= sk_place_shape_at(p, s)->id;
}
/* Interns a need. SK_EGROUP: there is no such group. */
sk_rc sk_place_need(struct sk_place *p, const struct sk_need *n, sk_shape *out,
                    struct sk_err *err) SK_MUST_USE;
/* Like sk_place_need, with a check. SK_EINFEASIBLE: no bundle of the group has as much as the need
 * asks for. */
sk_rc sk_place_need_in(struct sk_place *p, const struct sk_need *n, sk_shape *out,
                       struct sk_err *err) SK_MUST_USE;
/* The need of a shape; an empty need when the shape's group was removed and its entry is reused. */
struct sk_need sk_place_need_of(const struct sk_place *p, sk_shape s);
/* Interns the need of s once more, for tasks that have to run alone. */
sk_rc sk_place_alone(struct sk_place *p, sk_shape s, sk_shape *out, struct sk_err *err) SK_MUST_USE;
/* True if the shape's placement group was removed: no task of the shape can ever start. */
static inline bool sk_place_shape_dead(const struct sk_place *p, sk_shape s) {
    const struct sk_place_shape *x = sk_place_shape_at(p, s);
    return x->id != s || (x->group && !x->in);
}
/* Adds a placement group. Its bundles are taken as soon as all of them fit; pick says when. `p`
 * owns the group. */
sk_rc sk_place_group_add(struct sk_place *p, uint64_t id, const struct sk_res *bundles, uint32_t n,
                         bool apart, struct sk_place_group **out, struct sk_err *err) SK_MUST_USE;
/* Says that a bundle is on another node, if no pick was asked since the group was added; or, that
 * it is here now, and is to be taken. */
void sk_place_bundle_elsewhere(struct sk_place *p, struct sk_place_group *g, uint32_t bundle,
                               bool elsewhere);
/* Removes a group. Resources that no worker holds are given back now, the rest when the leases
 * end. Ready tasks of its shapes are given out by pick. */
void sk_place_group_remove(struct sk_place *p, struct sk_place_group *g);
static inline struct sk_place_group *sk_place_group_find(const struct sk_place *p, uint64_t id) {
    /* Finds a group. NULL: there is no such group, or it was removed. */
    SK_LIST_EACH (it, &p->groups)
        if (sk_container_of(it, struct sk_place_group, link)->id == id)
            return sk_container_of(it, struct sk_place_group, link);
    return NULL;
}
/* An idle worker that can run tasks of this shape; NULL: there is none. */
struct sk_place_worker *sk_place_idle_for(const struct sk_place *p, sk_shape s);
bool sk_place_fits_ever(const struct sk_place *p, sk_shape s);
bool sk_place_fits_now(const struct sk_place *p, sk_shape s);

/* Queues a ready task at its place by order: a new task last, a returned task where it was. */
void sk_place_push(struct sk_place *p, struct sk_place_task *t);
/* takes a cancelled task off its queue */
void sk_place_unpush(struct sk_place *p, struct sk_place_task *t);
struct sk_place_task *sk_place_any(const struct sk_place *p); /* any ready task; NULL: none */

void sk_place_worker_init(struct sk_place_worker *w);
void sk_place_worker_starting(struct sk_place *p, struct sk_place_worker *w);
void sk_place_worker_up(struct sk_place *p, struct sk_place_worker *w); /* state STARTING -> IDLE */
/* any state -> NONE; gives its resources back */
void sk_place_worker_gone(struct sk_place *p, struct sk_place_worker *w);
/* exclude: IDLE or STARTING -> NONE, so that it is given no tasks; not exclude: NONE -> the state
 * before. */
void sk_place_worker_exclude(struct sk_place *p, struct sk_place_worker *w, bool exclude);
/* IDLE -> ACTOR; takes the shape's resources */
void sk_place_worker_actor(struct sk_place *p, struct sk_place_worker *w, sk_shape s);
static inline uint64_t sk_place_order(struct sk_place *p) { return ++p->next_order; }
/* Tells which actor could not be placed. The actor counts as a waiting task and takes its turn by
 * `order` (from sk_place_order). 0: no actor waits. */
static inline void sk_place_want(struct sk_place *p, uint64_t order, sk_shape s) {
    p->want_order = order;
    p->want = s;
}
static inline void sk_place_allow(struct sk_place *p, enum sk_place_launch launch) {
    p->launch = launch;
}
/* When more workers than this are blocked, nested tasks go first. It has to be below the
 * engine's limit of processes. */
static inline void sk_place_nested_first(struct sk_place *p, uint32_t above) {
    p->deep_above = above;
}
/* Not 0: limit of the tasks on a worker, however short they are; the engine sets it while memory
 * is short. */
static inline void sk_place_cap_depth(struct sk_place *p, uint32_t most) { p->depth_cap = most; }
void sk_place_worker_block(struct sk_place *p, struct sk_place_worker *w, bool blocked);
/* Says that one task of w has finished or was taken back; the lease ends at depth 0. ran_ns >=
 * 0: how long it ran. */
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
    struct sk_place_group *group; /* GROUP: the group that has its bundles now */
    /* RUN: the task to send to `worker`, taken off its queue. DEAD: a task whose group was
     * removed, taken off its queue. */
    struct sk_place_task *task;
    /* RUN: the worker that gets the task; its depth counts the task already. STEAL: take a task
     * that has not started back from this worker, push it, and pick again. */
    struct sk_place_worker *worker;
    /* RUN: there are resources for an older task, but no idle worker of its kind: the caller also
     * starts a worker */
    bool spawn;
};
/* Decides the next step. SPAWN: another worker process would help; the caller starts one
 * unless it is at its limit. Call it until NOTHING (or SPAWN, if the caller cannot start one). */
void sk_place_pick(struct sk_place *p, int64_t now_ns, struct sk_place_pick *out);
/* the most tasks of this shape that may be on one worker */
uint32_t sk_place_depth(const struct sk_place_shape *s);
bool sk_place_check(const struct sk_place *p);

#endif
