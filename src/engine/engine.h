/* engine.h - the contract of every engine (the narrow waist), and all that exec, a shuffle, a
 * compiled graph and a C program may rely upon.
 *
 * An engine runs tasks and actors and keeps immutable objects. Engines are files of engine/by/,
 * found by name in the generated table: `local` (worker processes, shared memory), `inline` (the
 * caller runs tasks itself), `guest` (an engine written in another language). Inside a worker the
 * same struct talks to the driver. What only some engines have is in side contracts (actors.h,
 * groups.h, ...), each a table of calls. A NULL table in struct sk_engine is the one way to tell
 * that an engine has no such calls. See docs/design/waist.md.
 *
 * Rules of lifetime and of counting
 *  1. An sk_oid obtained from submit/put/view/event comes with ONE reference owned by this process;
 *     release gives it back. A process that dies gives all of its references back.
 *  2. An argument reference is held by the task from submit until the task is finally done (retries
 *     included); the caller may release its own reference at once.
 *  3. An object whose value contains references (payload.contains) holds them as long as it lives.
 *  4. A view pins its bytes until view_release; the bytes never move or change meanwhile.
 *  5. A worker takes a reference (retain) for each one that it finds inside a value before it
 *     releases that value; messages of one process are handled in order, so counts are exact
 *     without any acknowledgement.
 *  6. Retries run under attempt numbers; reports of an older attempt are dropped. A streaming task
 *     that is retried yields the same values again; those already reported are skipped, and a
 *     difference in the notes is an error at once.
 *  7. After engine close every call returns SK_ECLOSED and every wait ends. Views that are not
 *     released by then stay readable for ever: their memory is left mapped, and nobody releases it.
 *     The sink of a task that has not ended gets SK_EV_FAILED with SK_ECLOSED and without an
 * object; it may be called while the engine closes, and must not call the engine then.
 *  8. An sk_aid is an object id, too, and a handle of an actor is a reference to that object. An
 *     actor lives while a handle is counted or its `ready` object lives: a handle inside a value
 *     travels as contains = ready. Calls of an actor whose constructor failed end with the
 *     constructor's own error value.
 *  9. A worker has no sinks: submit with a sink, and drive, are SK_EINVAL there.
 *
 * Thread-safety: every call may be made from any thread of the process. A sink is called by one
 * thread at a time (whichever thread drives), maybe with locks of the engine held: a sink may call
 * the engine, but it must not wait for anything else and must not run user code. */
#ifndef SK_ENGINE_H
#define SK_ENGINE_H

#include "engine/task.h"

struct sk_engine;

struct sk_engine_ops {
    /* Registers a function under the hash of its definition. Idempotent. The bytes are copied,
     * and reach each worker at most once. */
    sk_rc (*define)(struct sk_engine *e, sk_fid fn, const char *name, struct sk_bytes def,
                    struct sk_err *err);
    /* Interns a need: equal needs get the same number. SK_EINFEASIBLE, with the amounts in the
     * message: no node can ever give as much as the need asks for. SK_EGROUP: the placement group
     * was removed. */
    sk_rc (*shape)(struct sk_engine *e, const struct sk_need *n, sk_shape *out, struct sk_err *err);

    /* Submits a task. Its returns have the ids first->v to first->v + n_returns - 1, each with a
     * reference. A streaming task has none (first may be NULL); its yields come as events, or
     * through streams.h by the task's id. `tid` may be NULL. */
    sk_rc (*submit)(struct sk_engine *e, const struct sk_task_spec *spec, sk_oid *first,
                    sk_tid *tid, struct sk_err *err);
    /* Cancels a task. If it has not begun, it ends with SK_ECANCEL. If it runs, it is asked to
     * end: by SIGINT (plain tasks only), at its next yield, or through runner.cancel (async
     * actors). With SK_CANCEL_FORCE its process is killed (not for calls of actors). A caller
     * that does not know the task's id may give the id of one of its return objects as `t`. */
    sk_rc (*cancel)(struct sk_engine *e, sk_tid t, uint32_t flags, struct sk_err *err);
    sk_rc (*actor_create)(struct sk_engine *e, const struct sk_actor_spec *spec, sk_aid *out,
                          sk_oid *ready, struct sk_err *err);
    /* Kills an actor, even if handles of it exist. The actor restarts if it has restarts left,
     * unless no_restart is set. */
    sk_rc (*actor_end)(struct sk_engine *e, sk_aid a, bool no_restart, struct sk_err *err);

    sk_rc (*put)(struct sk_engine *e, const struct sk_payload *p, sk_oid *out, struct sk_err *err);
    /* Waits until all n objects exist, and pins them; out[i] is the view of ids[i]. The view of
     * a failed task's object has an error kind: the caller checks each. SK_ETIMEOUT: nothing is
     * pinned. SK_ELOST: an object is lost and cannot be made again. SK_ECLOSED. */
    sk_rc (*get)(struct sk_engine *e, const sk_oid *ids, size_t n, int64_t deadline_ns,
                 struct sk_view *out, struct sk_err *err);
    /* Waits until `want` of the n objects exist (a value or an error), or the deadline:
     * SK_ETIMEOUT. ready[i] says whether ids[i] exists, in both cases. */
    sk_rc (*wait)(struct sk_engine *e, const sk_oid *ids, size_t n, size_t want,
                  int64_t deadline_ns, bool *ready, struct sk_err *err);
    void (*retain)(struct sk_engine *e, sk_oid o);
    /* Gives one reference back. With the last handle of an actor, the actor stops after the
     * calls that were already made. */
    void (*release)(struct sk_engine *e, sk_oid o);
    /* Allocates a buffer in the store. If the store is full and the engine spills, the call
     * waits until other objects are spilled or released; called by a sink, it never waits.
     * SK_EFULL: there is no room, and no room can be made. SK_ENOSPC, SK_EIO: objects could not be
     * written to disk either. */
    sk_rc (*buf_alloc)(struct sk_engine *e, size_t len, struct sk_buf *out, struct sk_err *err);
    void (*buf_abort)(struct sk_engine *e, struct sk_buf *b);
    void (*view_release)(struct sk_engine *e, struct sk_view *v);

    /* Runs the engine's loop and delivers events until done(arg) is true or the deadline is
     * over: SK_OK, SK_ETIMEOUT or SK_ECLOSED. */
    sk_rc (*drive)(struct sk_engine *e, bool (*done)(void *arg), void *arg, int64_t deadline_ns,
                   struct sk_err *err);
    /* Lists the nodes, including dead nodes, since callers may still have their numbers. Writes at
     * most cap rows; *n is how many there are. */
    sk_rc (*nodes)(struct sk_engine *e, struct sk_node *out, size_t cap, size_t *n,
                   struct sk_err *err);
};

struct sk_engine {
    const struct sk_engine_class *cls;
    const struct sk_engine_ops *ops;
    /* Side contracts. NULL: this engine has none of the calls of that table. A table that is not
     * NULL has all of its calls. */
    const struct sk_actors_ops *actors;
    const struct sk_streams_ops *streams;
    const struct sk_custom_ops *custom;
    const struct sk_groups_ops *groups;
    const struct sk_envs_ops *envs;
    const struct sk_wheres_ops *wheres;
    const struct sk_state_ops *state;
    const struct sk_progress_ops *progress;
    const struct sk_usage_ops *usage;
    const struct sk_watch_ops *watch;
    const struct sk_windows_ops *windows;
    const struct sk_moves_ops *moves;
    const struct sk_inner_ops *inner;
    const struct sk_foreign_ops *foreign;
    const struct sk_channels_ops *channels;
    const struct sk_host_ops *host;
    const struct sk_view_ops *view;
    const struct sk_nodes_ops *nodes;
    /* Notes do not travel with the events of this engine: each note is a yield of its own
     * (sk_note_value). A get of a note's value never waits, not even in a sink. */
    bool no_notes;
    bool no_parts; /* sk_arg.part is refused */
    /* References inside arguments and definitions do not travel to the processes that run tasks:
     * sk_task_spec.contains, and an argument whose value contains some, are refused. */
    bool no_inner;
};

struct sk_engine_conf;   /* defined in conf.h */
struct sk_engine_class { /* engine/by/<name>.c defines sk_engine_by_<name> */
    const char *name;
    bool prints; /* what its workers print comes to conf.prints */
    sk_rc (*open)(const struct sk_engine_conf *conf, struct sk_engine **out, struct sk_err *err);
    void (*close)(struct sk_engine *e); /* ends all tasks and processes, frees e */
};
const struct sk_engine_class *sk_engine_find(const char *name); /* NULL: no engine has this name */
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
/* Sums over all nodes that are alive. The sum's number is 0 and its name is empty. */
sk_rc sk_engine_sum(struct sk_engine *e, struct sk_node *out, struct sk_err *err) SK_MUST_USE;
/* For each resource, the total of the node that has the most of it: no task can have more. */
sk_rc sk_engine_most(struct sk_engine *e, struct sk_res *out, struct sk_err *err) SK_MUST_USE;

#endif
