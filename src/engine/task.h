/* task.h - types only: the specs of tasks and actors that are submitted, and the events that
 * follow. */
#ifndef SK_TASK_H
#define SK_TASK_H

#include "engine/resources.h"

#define SK_STREAMING UINT32_MAX /* value of n_returns of a streaming task */
#define SK_MAX_RETURNS 100000   /* most returns of any other task */
#define SK_RETRIES_DEFAULT INT32_MIN

struct sk_arg {
    /* not 0: the argument is this object's value, and the task starts when it exists */
    sk_oid ref;
    /* ref is 0: kind of the inline value in `bytes`, which has at most SK_INLINE_MAX bytes (put
     * larger ones first) */
    uint32_t kind;
    /* The task sees only bytes [offset, offset + length) of ref's value, and only these are
     * brought to it or read from disk. The view has the value's kind, and an oid that must not
     * be used. If the range is not within the value, the task ends with SK_EINVAL. */
    bool part;
    struct sk_bytes bytes;
    uint64_t offset, length;
};

struct sk_sink; /* receives the events of the tasks that name it */

/* Options that users' programs set and the layer exec does not. `local` serves all of them; an
 * engine that does not know a field runs the task as if the field were not set. */
struct sk_task_opts {
    /* The task that submits this one; 0: none. A recursive cancel of the parent cancels this
     * task. */
    sk_tid parent;
    /* Not NULL: the reason why this task can never run here. All its returns become this error
     * (SK_EINFEASIBLE) at once. Not for methods. */
    const char *refused;
    /* For a stream: the number of yields that may wait to be taken (with a sink: streams.h, taken);
     * then the task waits. 0: no limit. */
    uint32_t stream_window;
    uint32_t group; /* for a method call: index into sk_actor_opts.groups */
    /* For a method call: submit fails with SK_EPENDING when this many calls of this process are
     * not finished. 0: no limit. */
    uint32_t max_pending;
    /* A worker process ends after this many runs of `fn`. 0: no limit. Not for methods. */
    uint32_t max_calls;
    /* For a method call that this process makes for somebody else: a number of whoever makes it.
     * Calls of one caller keep their order, and wait for no calls of others. 0: this process. */
    uint64_t caller;
    /* The numbers by which whoever submits the task knows it and its actor, and by which its code
     * is to know them; 0: those of this engine. */
    uint64_t known_task, known_actor;
    /* For a call without retries: it fails with SK_EUNAVAIL while its actor is being restarted,
     * instead of waiting for the restart. */
    bool no_wait;
};

extern const struct sk_task_opts sk_task_no_opts; /* defined in engine.c */

struct sk_task_spec {
    sk_fid fn;        /* known by an earlier define() */
    const char *name; /* for messages; copied; NULL: the function's name */
    const struct sk_arg *args;
    uint32_t n_args;
    /* References inside the bytes of inline arguments. The task holds them like arguments, and
     * does not wait for them. */
    const sk_oid *contains;
    uint32_t n_contains;
    uint32_t n_returns; /* 0..SK_MAX_RETURNS or SK_STREAMING */
    sk_shape shape;     /* 0: the default shape, one CPU (for a method of an actor: nothing) */
    sk_aid actor;       /* not 0: a call of this actor; calls run in order of submission */
    /* Number of times that the task runs again after its worker has died. -1: no limit.
     * SK_RETRIES_DEFAULT: the number that the engine was opened with. */
    int32_t max_retries;
    bool retry_exceptions; /* retry also when user code raised an exception */
    struct sk_sink *sink;  /* may be NULL */
    uint64_t sink_tag;     /* repeated in the task's events */
    /* Number of the node where the task or actor should be; 0: anywhere. It goes elsewhere when
     * that node is gone or has no room now. With node_only it waits for room there, and fails
     * with SK_EINFEASIBLE when there is no such node or the node goes away before the task has
     * ended. Not for methods: they run where their actor is. */
    uint32_t node;
    bool node_only;
    const struct sk_task_opts *opts; /* NULL: all options are unset */
};

enum { SK_GROUPS_MAX = 64, SK_NAME_MAX = 1024 };
static inline const struct sk_task_opts *sk_task_opts_of(const struct sk_task_spec *s) {
    return s->opts ? s->opts : &sk_task_no_opts;
}

/* Options that programs set and exec does not (actors.h). An engine without these refuses them
 * with SK_ENOSYS. */
struct sk_actor_opts {
    /* The actor's name and namespace; only one living actor may have the same (SK_EEXIST). NULL:
     * no name; the namespace may be NULL or empty. find() of actors.h gives `meta` to its
     * caller. */
    const char *name, *space;
    struct sk_bytes meta;
    bool detached; /* lives without handles, until it is killed or the engine closes */
    /* Concurrency groups: at most groups[i] calls of group i run at once, each on a thread, or
     * (is_async) all on the group's event loop, see runner.serve_async. Calls then start in the
     * order in which their arguments come to exist. n_groups 0: one call at a time, in order of
     * submission. */
    bool is_async;
    uint32_t n_groups;
    const uint32_t *groups; /* [0]: the group of calls that name no group; at most SK_GROUPS_MAX */
};

struct sk_actor_spec {
    /* the constructor; n_returns is taken as 1: a value that exists when the actor is ready */
    struct sk_task_spec init;
    int32_t max_restarts; /* -1 = for ever */
    int32_t max_task_retries;
    const struct sk_actor_opts *opts; /* NULL: all options are unset */
};

/* ---- events ---------------------------------------------------------------------------------- */

enum sk_event_kind {
    SK_EV_STARTED = 1, /* a worker has taken the task; sent once an attempt */
    SK_EV_YIELDED,     /* with oid (a reference for the sink's process), index, size_bytes, note */
    SK_EV_DONE,        /* all returns exist; with the note of the task */
    /* the task has failed for good; with err, and oid = the error object (a reference) */
    SK_EV_FAILED,
    /* Only for sinks that asked for them (moves.h). They carry oid (without a reference),
     * size_bytes and node of a value that was yielded before, SPILLED also run_ns, and nothing
     * else. */
    SK_EV_SPILLED,  /* the value's bytes are on disk and no longer in memory */
    SK_EV_RESTORED, /* the value is in memory again, or about to be made again there */
};
struct sk_event {
    enum sk_event_kind kind;
    sk_tid task;
    uint64_t tag; /* sink_tag of the task's spec */
    uint32_t attempt;
    uint32_t index;
    sk_oid oid;
    uint64_t size_bytes;
    uint32_t node;        /* node where the task ran and its value lies; 0: not known */
    struct sk_bytes note; /* valid only during the call of the sink */
    /* DONE/FAILED: time in the worker; SPILLED: time that the disk takes to write so many bytes, by
     * all that it has written so far; 0: not known */
    int64_t run_ns;
    int64_t start_ns; /* DONE/FAILED: when it began; 0: not known */
    int32_t pid;      /* DONE/FAILED: the process in which it ran; 0: not known */
    const struct sk_err *err;
    bool actor_lives; /* FAILED: the actor died during this call and is being restarted */
};
struct sk_sink {
    /* n >= 1; events arrive in order */
    void (*on_events)(struct sk_sink *s, const struct sk_event *ev, size_t n);
};

/* SK_CANCEL_CHILDREN: cancels also all tasks that the task has submitted, recursively */
enum { SK_CANCEL_FORCE = 1, SK_CANCEL_CHILDREN = 2 };

#endif
