/* task.h - types only: what is submitted (tasks, actors), and the events that come of it. */
#ifndef SK_TASK_H
#define SK_TASK_H

#include "engine/resources.h"

#define SK_STREAMING UINT32_MAX /* n_returns of a streaming task */
#define SK_MAX_RETURNS 100000   /* n_returns of any other */
#define SK_RETRIES_DEFAULT INT32_MIN

struct sk_arg {
    sk_oid ref;    /* not 0: the object's value; the task starts when it exists */
    uint32_t kind; /* inline value otherwise; bytes <= SK_INLINE_MAX (put larger ones first) */
    /* of ref: the task sees [offset, offset + length) of its value only, and no more than that is
     * brought to it, or read from disk. Its view has the value's kind, and an oid that is nobody's
     * to use. Not within the value: the task ends with SK_EINVAL */
    bool part;
    struct sk_bytes bytes;
    uint64_t offset, length;
};

struct sk_sink; /* receives the events of the tasks that name it */

/* What programs ask of a task and exec does not. `local` serves all of it; an engine that does not
 * know a field runs the task as if it were not set. */
struct sk_task_opts {
    /* the task that submits it, 0: none. A recursive cancel of that one cancels this one */
    sk_tid parent;
    /* not NULL: why it can never run here. Its values are this error (SK_EINFEASIBLE) at once. Not
     * for methods */
    const char *refused;
    /* streaming without a sink: at most so many yields that were not taken; 0 = no limit */
    uint32_t stream_window;
    uint32_t group; /* a method call: index into sk_actor_opts.groups */
    /* a method call: SK_EPENDING when so many calls of this process are not finished; 0: no
     * limit */
    uint32_t max_pending;
    /* a worker process leaves after so many runs of `fn`; 0: no limit. Not for methods */
    uint32_t max_calls;
    /* a call without retries: SK_EUNAVAIL while its actor is restarted, instead of waiting for
     * it */
    bool no_wait;
};

extern const struct sk_task_opts sk_task_no_opts; /* engine.c */

struct sk_task_spec {
    sk_fid fn;        /* defined before */
    const char *name; /* for messages; copied; NULL: the function's */
    const struct sk_arg *args;
    uint32_t n_args;
    /* references inside inline argument bytes: held like arguments, not waited for */
    const sk_oid *contains;
    uint32_t n_contains;
    uint32_t n_returns; /* 0..SK_MAX_RETURNS or SK_STREAMING */
    sk_shape shape;     /* 0: the default shape, one CPU (for a method of an actor: nothing) */
    sk_aid actor;       /* not 0: a method call, in order of submission */
    /* after a death of the worker; -1 = for ever; SK_RETRIES_DEFAULT = what the engine was opened
     * with */
    int32_t max_retries;
    bool retry_exceptions; /* retry when user code raised, too */
    struct sk_sink *sink;  /* may be NULL */
    uint64_t sink_tag;     /* comes back in the events */
    /* Number of the node where it, or the actor, should be; 0: anywhere. A wish: it goes elsewhere
     * when that node is gone, or has no room now. node_only: it waits for room there;
     * SK_EINFEASIBLE when there is no such node, and when it goes before the task has ended. Not
     * for methods: they are where their actor is. */
    uint32_t node;
    bool node_only;
    const struct sk_task_opts *opts; /* NULL: none of them */
};

enum { SK_GROUPS_MAX = 64, SK_NAME_MAX = 1024 };
static inline const struct sk_task_opts *sk_task_opts_of(const struct sk_task_spec *s) {
    return s->opts ? s->opts : &sk_task_no_opts;
}

/* What programs ask of an actor and exec does not (actors.h). An engine without these refuses them
 * with SK_ENOSYS. */
struct sk_actor_opts {
    /* A name is of one living actor in its space: SK_EEXIST. actors.h: find gives `meta` to whoever
     * asks for it. */
    const char *name, *space; /* NULL: none; the space may be NULL or empty */
    struct sk_bytes meta;
    bool detached; /* lives without handles, until it is killed or the engine closes */
    /* Concurrency groups: at most groups[i] calls of group i run at once, each on a thread, or
     * (is_async) all on the group's event loop, see runner.serve_async. Calls then start in the
     * order in which their arguments exist. n_groups 0: one call at a time, in order. */
    bool is_async;
    uint32_t n_groups;
    const uint32_t *groups; /* [0] is the group of calls that name none; at most SK_GROUPS_MAX */
};

struct sk_actor_spec {
    /* the constructor; n_returns is taken as 1 (a value that is ready when the actor is) */
    struct sk_task_spec init;
    int32_t max_restarts; /* -1 = for ever */
    int32_t max_task_retries;
    const struct sk_actor_opts *opts; /* NULL: none of them */
};

/* ---- events ---------------------------------------------------------------------------------- */

enum sk_event_kind {
    SK_EV_STARTED = 1, /* a worker took it (may repeat: attempts) */
    SK_EV_YIELDED,     /* oid (a reference for the sink's process), index, size_bytes, note */
    SK_EV_DONE,        /* all returns exist; note of the task */
    SK_EV_FAILED,      /* finally: err, and oid = the error object (a reference) */
    /* Only for who asked for it (moves.h). oid (no reference), size_bytes, node of a value yielded
     * before; nothing else: */
    SK_EV_SPILLED,  /* its bytes are on disk, and no more in memory */
    SK_EV_RESTORED, /* and in memory again, or about to be made again there */
};
struct sk_event {
    enum sk_event_kind kind;
    sk_tid task;
    uint64_t tag; /* spec.sink_tag */
    uint32_t attempt;
    uint32_t index;
    sk_oid oid;
    uint64_t size_bytes;
    uint32_t node;        /* where it ran, and its value lies; 0: not known */
    struct sk_bytes note; /* valid during the call */
    int64_t run_ns;       /* DONE/FAILED: time in the worker */
    const struct sk_err *err;
    bool actor_lives; /* FAILED: a call whose actor died with it, and is started again */
};
struct sk_sink {
    /* n >= 1, in order */
    void (*on_events)(struct sk_sink *s, const struct sk_event *ev, size_t n);
};

enum { SK_CANCEL_FORCE = 1, SK_CANCEL_CHILDREN = 2 /* and what it has submitted, and so on */ };

#endif
