/* engine.h - the narrow waist: what every engine gives, and all that exec, a shuffle, a compiled
 * graph and a C program may rely upon.
 *
 * An engine runs tasks and actors and keeps immutable objects. Engines are files of engine/by/,
 * found by name over the generated table: `local` (worker processes, shared memory), `inline` (the
 * caller runs tasks itself). Inside a worker the same struct talks to the driver. What only some
 * engines have is in side contracts (actors.h, groups.h, ... ), each a table of calls; NULL in
 * struct sk_engine is the one way to tell that an engine has none. See docs/design/waist.md.
 *
 * Rules of lifetime and of counting
 *  1. An sk_oid obtained from submit/put/view/event comes with ONE reference owned by this process;
 *     release gives it back. A process that dies gives all of its references back.
 *  2. An argument reference is held by the task from submit until it is finally done (retries
 *     included); the caller may release its own at once.
 *  3. An object that contains references (payload.contains) holds them as long as it lives.
 *  4. A view pins its bytes until view_release; the bytes never move or change meanwhile.
 *  5. A worker takes a reference for each ref that it finds inside a value (retain) before it
 *     releases the value that it was in; messages of one process are handled in order, so counts
 *     are exact without any acknowledgement.
 *  6. Retries run under attempt numbers; reports of an older attempt are dropped. A streaming task
 *     that is retried yields the same values again; those already reported are skipped, and a
 *     difference in the notes is an error at once.
 *  7. After engine close every call returns SK_ECLOSED and every wait ends. Views that are still
 *     out stay readable for ever (their memory is left mapped); nobody releases them any more.
 *  8. A handle of an actor is a reference to its sk_aid, which is of the same space of ids as
 *    objects. An actor lives while a handle is counted or its `ready`
 *     object lives: a handle inside a value travels as contains = ready. Calls of an actor whose
 *         constructor failed end with the constructor's own error value.
 *  9. Inside a worker there are no sinks: submit with one, and drive, are SK_EINVAL.
 *
 * Thread-safety: every call may be made from any thread of the process. A sink is called by one
 * thread at a time, whichever drives, and maybe with locks of the
 * engine held: it may call the engine, but it waits for nobody else and runs no user code. */
#ifndef SK_ENGINE_H
#define SK_ENGINE_H

#include "engine/task.h"

struct sk_engine;

struct sk_engine_ops {
    /* A function is known by the hash of its definition from now on. Idempotent; bytes are copied
     * and reach each worker at most once. */
    sk_rc (*define)(struct sk_engine *e, sk_fid fn, const char *name, struct sk_bytes def,
                    struct sk_err *err);
    /* One number for a need. SK_EINFEASIBLE: no node can ever give it, with the arithmetic.
     * SK_EGROUP: the group was removed. */
    sk_rc (*shape)(struct sk_engine *e, const struct sk_need *n, sk_shape *out, struct sk_err *err);

    /* Returns ids first.v .. first.v + n_returns - 1, each with a reference (streaming: none, and
     * first may be NULL; yields come as events, or through streams.h by the task's id). `tid` may
     * be NULL. */
    sk_rc (*submit)(struct sk_engine *e, const struct sk_task_spec *spec, sk_oid *first,
                    sk_tid *tid, struct sk_err *err);
    /* A task that has not begun ends with SK_ECANCEL. One that runs is asked to end: by SIGINT (not
     * a method), at its next yield, through runner.cancel (async actors). `t` may be one of its
     * return objects, too, for who knows no more. SK_CANCEL_FORCE: its process is killed (not of an
     * actor). */
    sk_rc (*cancel)(struct sk_engine *e, sk_tid t, uint32_t flags, struct sk_err *err);
    sk_rc (*actor_create)(struct sk_engine *e, const struct sk_actor_spec *spec, sk_aid *out,
                          sk_oid *ready, struct sk_err *err);
    /* Kills it, whoever has handles. Restarts, if it has any left, unless no_restart. */
    sk_rc (*actor_end)(struct sk_engine *e, sk_aid a, bool no_restart, struct sk_err *err);

    sk_rc (*put)(struct sk_engine *e, const struct sk_payload *p, sk_oid *out, struct sk_err *err);
    /* Waits for all and pins all; out[i] in order. A failed task's object gives a view whose kind
     * is an error kind: check each.
     * SK_ETIMEOUT: nothing is pinned. SK_ELOST, SK_ECLOSED. */
    sk_rc (*get)(struct sk_engine *e, const sk_oid *ids, size_t n, int64_t deadline_ns,
                 struct sk_view *out, struct sk_err *err);
    /* ready[i] = exists (value or error). Returns when want of them are, or SK_ETIMEOUT (ready[] is
     * filled either way). */
    sk_rc (*wait)(struct sk_engine *e, const sk_oid *ids, size_t n, size_t want,
                  int64_t deadline_ns, bool *ready, struct sk_err *err);
    void (*retain)(struct sk_engine *e, sk_oid o);
    /* Of the last handle of an actor: it stops after the calls already made. */
    void (*release)(struct sk_engine *e, sk_oid o);
    /* Waits until others are spilled or released, if the engine spills. SK_EFULL: and it cannot be;
     * SK_ENOSPC, SK_EIO: nor written to disk. Called by a
     * sink: never waits. */
    sk_rc (*buf_alloc)(struct sk_engine *e, size_t len, struct sk_buf *out, struct sk_err *err);
    void (*buf_abort)(struct sk_engine *e, struct sk_buf *b);
    void (*view_release)(struct sk_engine *e, struct sk_view *v);

    /* Delivers events until done(arg), or the deadline: SK_OK / SK_ETIMEOUT / SK_ECLOSED. */
    sk_rc (*drive)(struct sk_engine *e, bool (*done)(void *arg), void *arg, int64_t deadline_ns,
                   struct sk_err *err);
    /* The nodes there are, and those that are gone and whose number somebody may still have. Writes
     * at most cap; *n: how many there are. */
    sk_rc (*nodes)(struct sk_engine *e, struct sk_node *out, size_t cap, size_t *n,
                   struct sk_err *err);
};

struct sk_engine {
    const struct sk_engine_class *cls;
    const struct sk_engine_ops *ops;
    /* Side contracts: NULL where this engine has none, whole where it has one. */
    const struct sk_actors_ops *actors;
    const struct sk_streams_ops *streams;
    const struct sk_custom_ops *custom;
    const struct sk_groups_ops *groups;
    const struct sk_envs_ops *envs;
    const struct sk_state_ops *state;
    const struct sk_progress_ops *progress;
    const struct sk_usage_ops *usage;
    const struct sk_watch_ops *watch;
    const struct sk_windows_ops *windows;
    const struct sk_moves_ops *moves;
    const struct sk_channels_ops *channels;
    const struct sk_host_ops *host;
    /* Notes do not travel with its events: they are yields of their own (sk_note_value), whose get
     * never waits, in a sink neither. */
    bool no_notes;
    bool no_parts; /* sk_arg.part is refused */
};

struct sk_engine_conf;   /* conf.h */
struct sk_engine_class { /* engine/by/<name>.c defines sk_engine_by_<name> */
    const char *name;
    sk_rc (*open)(const struct sk_engine_conf *conf, struct sk_engine **out, struct sk_err *err);
    void (*close)(struct sk_engine *e); /* stops everything; frees e */
};
const struct sk_engine_class *sk_engine_find(const char *name); /* NULL when there is none */
void sk_engine_close(struct sk_engine **e);

/* ---- conveniences over the calls, the same for every engine ---------------------------------- */

static inline sk_rc sk_shape_of(struct sk_engine *e, const struct sk_res *r, sk_shape *out,
                                struct sk_err *err) {
    return e->ops->shape(e, &(struct sk_need){.res = *r}, out, err);
}
static inline void sk_actor_retain(struct sk_engine *e, sk_aid a) {
    e->ops->retain(e, (sk_oid){a.v});
}
static inline void sk_actor_release(struct sk_engine *e, sk_aid a) {
    e->ops->release(e, (sk_oid){a.v});
}
/* Sums over all nodes that are alive (number 0, no name). */
sk_rc sk_engine_sum(struct sk_engine *e, struct sk_node *out, struct sk_err *err) SK_MUST_USE;
/* Of each resource, what the node has that has the most of it: no task can have more. */
sk_rc sk_engine_most(struct sk_engine *e, struct sk_res *out, struct sk_err *err) SK_MUST_USE;

#endif
