/* world.h - random programs on the sim engine, and the checker of the values that they get.
 * world_prog.c has the functions of the programs, world_check.c the history.
 *
 * A program is a tree of calls whose values are known beforehand. The value of a task is a hash of
 * its parameters and of the values of its arguments; it does not depend on the worker that runs the
 * task, on the number of attempts, or on the other things that the task does (children, puts,
 * streams, actors). So every value is checked byte by byte wherever a task or the driver gets it,
 * and an error must have a cause in the history. */
#ifndef WORLD_H
#define WORLD_H

#include "sim/machine/sim.h"
#include "test.h"

enum code {
    LEAF,
    FAIL,
    FLAKY,
    CHILDREN,
    NEST,
    OPEN,
    PUTTER,
    PASS,
    KEEP,
    STREAM,
    READER,
    WAITER,
    ACTOR_USER,
    METHOD,
    INIT,
    GATHER,
    N_CODES
};
enum {
    KIND_VALUE = 4,
    KIND_USER_ERROR = 0xE1,
    MAX_ARGS = 3,
    MAX_INNER = 4,
    MAX_RETURNS = 3,
    FOUND = 42 /* exit code of a run that found the bug that it searched */
};

struct params { /* inline argument 0 of every task */
    uint32_t code, n_ret, size, depth, flaky, task, seq;
    uint32_t fails; /* STREAM, INIT: the task fails at its end */
    uint64_t salt, actor;
};

struct expect { /* what the value of an object must be */
    uint64_t vid;
    bool bad; /* the value is a user error */
};

struct value { /* the first bytes of a value; the bytes behind it follow from vid */
    uint32_t magic, n_inner;
    uint64_t vid, len;
    uint32_t attempt, task;
    struct inner {
        uint64_t oid, vid, bad;
    } inner[MAX_INNER];
};
struct user_error {
    uint64_t magic, vid;
};

struct wobj { /* an object of the program */
    uint64_t oid;
    struct expect x;
    uint32_t task; /* 1 + index of the task that returns it; 0: a put */
    uint32_t by;   /* of a put: 1 + index of the task that made it; 0: the driver */
    uint32_t n_inner;
    struct expect inner_x[MAX_INNER];
    uint32_t inner[MAX_INNER]; /* 1 + index of each object inside, once it is known */
    bool on_disk;              /* on disk, according to the events that its task's sink got */
};
struct wtask {
    uint64_t tid;
    struct params p;
    uint32_t args[MAX_ARGS], n_args; /* args: indices of objects */
    uint32_t parent;                 /* 1 + index of the task that submitted it; 0: the driver */
    int32_t retries;
    uint32_t kills, kills_queued, n_started, n_raised, last_attempt;
    bool cancelled, dropped;
    uint32_t actor;     /* 1 + index */
    uint32_t group;     /* 1 + index */
    uint32_t n_yielded; /* by the events that its sink got */
};
struct wactor {
    uint64_t aid, ready;
    uint32_t init; /* index of the task that runs the constructor */
    int32_t restarts;
    uint32_t n_begun;
    const void *home;  /* the engine of the worker process that has the actor now */
    uint32_t last_seq; /* of the last call that began in this incarnation */
    uint32_t next_seq;
    bool killed, shared;
};

struct wgroup { /* a placement group of the driver */
    uint64_t id;
    uint32_t cpus;
    sk_shape one, none; /* demands: one CPU of the group; nothing of it */
    bool removed;
};

struct profile { /* a kind of schedules to run */
    const char *name;
    struct sk_sim_conf sim;
    uint64_t store_bytes, lineage_bytes;
    uint32_t cpus, max_workers, n_ops, max_size;
    bool big, actors, streams, cancels, spill, groups;
    bool gather;     /* with tasks that get several large values at once */
    bool named_only; /* runs only when SK_SIM_PROFILE names it */
};

struct world {
    struct sk_engine *e;
    const struct profile *f;
    uint64_t seed, rng;
    bool trace, hunting; /* hunting: the run searches a failure and ends at the first */
    struct wobj *objs;
    struct wtask *tasks;
    struct wactor *actors;
    uint32_t n_objs, n_tasks, n_actors, cap_objs, cap_tasks, cap_actors;
    uint32_t *by_oid; /* hash table from oid to 1 + index in objs */
    uint32_t by_cap;
    uint64_t n_gets, n_errors, n_user_errors, n_full, n_stall, n_moved;
    uint32_t n_sinks; /* tasks with a sink that have not ended */
    struct wgroup groups[32];
    /* in_group: 1 + index of the group that the driver's next tasks go into; 0: none */
    uint32_t n_groups, in_group;
    struct {
        uint64_t tid;
        bool begun;
        /* kills in tasks whose submit() has not returned yet, so that the task's id is unknown */
    } early[64];
    uint32_t n_early;
};
extern struct world W;

_Noreturn void world_fail(const char *file, int line, const char *fmt, ...) SK_PRINTF(3, 4);
#define MUST(x, ...)                                           \
    do {                                                       \
        if (!(x)) world_fail(__FILE__, __LINE__, __VA_ARGS__); \
    } while (0)

uint64_t mix(uint64_t a, uint64_t b);
uint64_t rnd(uint64_t n);
static inline uint64_t word_of(uint64_t vid, size_t at) {
    return vid + at * UINT64_C(0x9e3779b97f4a7c15);
}

/* ---- world_check.c -------------------------------------------------------------------------- */
uint32_t obj_new(uint64_t oid, struct expect x, uint32_t task);
uint32_t obj_of(uint64_t oid); /* index of the object; fails the run when it is unknown */
bool obj_known(uint64_t oid, uint32_t *i);
uint32_t task_new(const struct params *p, const uint32_t *args, uint32_t n_args, uint32_t parent,
                  int32_t retries);
/* Records the engine's id of task k, as soon as the program knows it. */
void task_named(uint32_t k, uint64_t tid);
/* Checks the result of a get of object i: the right value, or an error that has a cause. True: a
 * value. */
bool check_view(const struct sk_view *v, uint32_t i);
/* Checks the error of a get of object i that failed as a whole. */
void check_rc(sk_rc rc, const struct sk_err *err, uint32_t i);
void world_on_kill(void *ctx, sk_tid t, bool begun);
void world_on_stuck(void *ctx, const char *why);
void world_reset(struct sk_engine *e, const struct profile *f, uint64_t seed);

/* ---- world_prog.c --------------------------------------------------------------------------- */
struct expect expect_base(const struct params *p, const uint32_t *args, uint32_t n_args);
struct expect expect_return(const struct params *p, const uint32_t *args, uint32_t n_args,
                            uint32_t i);
struct params random_params(enum code code, uint32_t depth);
enum code random_code(uint32_t depth);
/* Submits a task from the driver or from a worker, by `e`, and registers it and its objects. first:
 * gets the index of its first return (not for streams). */
sk_rc world_submit(struct sk_engine *e, const struct params *p, const uint32_t *args,
                   uint32_t n_args, uint32_t parent, uint32_t actor, struct sk_sink *sink,
                   uint32_t *task, uint32_t *first, struct sk_err *err);
sk_rc world_actor(struct sk_engine *e, uint32_t parent, uint64_t salt, uint32_t fails,
                  uint32_t *actor, struct sk_err *err);
sk_rc world_put(struct sk_engine *e, uint64_t salt, uint32_t size, const uint32_t *inner,
                uint32_t n_inner, uint32_t *obj, struct sk_err *err);
extern struct sk_runner world_runner;
void world_define(struct sk_engine *e);

#endif
