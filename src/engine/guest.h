/* guest.h - the interface of an engine that is written in another language: a table of calls, which
 * by/guest.c turns into the contract of engine.h. Such an engine usually has no notes
 * (sk_engine.no_notes): values of kind SK_KIND_NOTE are passed as bytes with their events, in the
 * order in which they were yielded.
 *
 * The host (the C code of guest/) keeps ids, reference counts, the tasks that wait for
 * arguments, and the order of events. The guest runs tasks whose arguments exist, and keeps
 * values behind handles of its own: the host drops a handle when the value has no reference any
 * more. One thread of the host makes all calls but `fetch`, `let_go`, `drop`, `join`, `drain`,
 * `give_up`, `ask` and `workers`, which come from any thread (and `nodes`, see nodes_now). No lock
 * of the host is held during any call, so a guest may take locks of its language. */
#ifndef SK_GUEST_H
#define SK_GUEST_H

#include "engine/foreign.h"

/* Values that the driver puts travel with each task up to this many bytes; larger ones are put
 * into the guest once. */
enum { SK_GUEST_INLINE = 64u << 10 };

struct sk_guest_value {
    /* not NULL: the guest's handle of the value; NULL: the value is `kind` and `bytes` */
    void *handle;
    uint32_t kind;
    struct sk_bytes bytes;
    void *token; /* set by fetch: keeps the bytes alive until it is passed to let_go */
    /* an argument: the task sees only bytes [offset, offset + length) of the value */
    bool part;
    uint64_t offset, length;
};
struct sk_guest_task {
    uint64_t task, actor; /* ids; actor 0: none */
    sk_fid fn;
    const char *name;
    /* This is the constructor of the actor: its value exists when the actor is ready. */
    bool is_init;
    uint32_t n_returns;         /* SK_STREAMING for a stream */
    const struct sk_need *need; /* resources; NULL for a method: nothing */
    /* Number of times that the task runs again after its process has died; -1: no limit. For a
     * constructor: restarts of the actor. */
    int32_t max_retries;
    bool retry_exceptions;
    /* The process ends after this many runs of fn; 0: no limit. A guest that cannot do that
     * returns SK_ENOSYS from submit. Not for methods. */
    uint32_t max_calls;
    /* Of a stream: how many yields may wait to be taken (`taken`); then the task waits. 0: no
     * limit, also of a guest without `taken`. */
    uint32_t window;
    /* number of the row of nodes() where the task or actor should be; 0: anywhere */
    uint32_t node;
    /* the task runs on that node only: when the node goes away, the task ends with
     * SK_EINFEASIBLE */
    bool node_only;
    /* If the guest takes the options of actors. A constructor: as in sk_actor_spec. A call: its
     * concurrency group, and whether it fails rather than waits while its actor starts again
     * (sk_task_opts.no_wait). */
    const struct sk_actor_opts *opts;
    int32_t max_task_retries;
    uint32_t group;
    bool no_wait;
    uint64_t known; /* the number by which its code is to know it (sk_task_opts.known_task) */
    /* of a call: whoever makes it; those of one caller keep their order */
    uint64_t caller;
    const struct sk_guest_value *args;
    uint32_t n_args;
};
enum sk_guest_end {
    SK_GUEST_KILL,    /* at once */
    SK_GUEST_RESTART, /* as KILL, and it starts again if it may */
    /* No handle of it is left, and no call: it ends in order, as when a program ends. */
    SK_GUEST_LEAVE
};
struct sk_guest_event {
    enum sk_event_kind kind; /* STARTED, YIELDED, DONE, FAILED */
    uint64_t task;
    uint32_t attempt, node; /* node: number of a row of nodes(); 0: not known */
    int64_t run_ns;         /* DONE, FAILED: time that the task ran; 0: not known */
    /* DONE, FAILED: when it began (CLOCK_MONOTONIC), and in which process; 0: not known */
    int64_t start_ns;
    int32_t pid;
    /* YIELDED: one value. DONE: all returns. FAILED: one value of an error kind, or none; then
     * `code` and `text` are the error. The host takes the values over. */
    struct sk_guest_value *values;
    const uint64_t *sizes;
    uint32_t n_values;
    /* YIELDED, DONE, if the guest has notes: the note of the value, or of the task */
    struct sk_bytes note;
    sk_rc code;
    const char *text;
    bool actor_lives; /* FAILED: as in sk_event */
    /* not NULL: this is news about references; `kind`, `task` and `values` mean nothing, `node` is
     * the node that says so */
    const struct sk_guest_news *news;
};

/* References between the host and the nodes of a guest (sk_guest.refs). The host's ids are those of
 * place 0 (foreign.h), and each node has a place of its own. All is told in order, with the events
 * of tasks. */
enum sk_guest_news_kind {
    SK_NEWS_HELD =
        1, /* there are references to object or actor `id` on the node; once until UNHELD */
    SK_NEWS_UNHELD,
    SK_NEWS_THERE,   /* object `id`, which the host holds, or which a call returns, has `value` */
    SK_NEWS_DEFINED, /* `fn` is a function with this name, which calls may name from now on */
    /* the node calls the actor spec->actor, or (0) submits a task with this `need`; its returns are
     * named id, ... Or (`actor`) it makes an actor, which `named` answers; `id` is the number of
     * the question. */
    SK_NEWS_CALLED,
    /* the stream with the end `id` has yielded object `of`, which the host holds from now on */
    SK_NEWS_YIELDED,
    SK_NEWS_TOOK,    /* the node has taken so many (`flags`) yields of its stream `id` */
    SK_NEWS_ENDED,   /* the call of an actor there, with the first return `id`, has ended */
    SK_NEWS_KILLED,  /* the node kills actor `id` */
    SK_NEWS_NAME,    /* the node asks about names of actors; `id` is the number of the question */
    SK_NEWS_STOPPED, /* the node cancels its call `id`, or the task that makes object `id` */
    /* the node is lost, with its references, and the objects and actors of its place */
    SK_NEWS_LOST,
    /* placement group `id` has its n bundles on these nodes (0: not now) */
    SK_NEWS_GROUP,
};
struct sk_guest_news {
    enum sk_guest_news_kind kind;
    bool no_restart;                     /* KILLED */
    uint32_t flags;                      /* STOPPED: SK_CANCEL_*; TOOK */
    uint64_t of;                         /* YIELDED */
    const struct sk_foreign_name *asked; /* NAME */
    uint64_t id, size;
    uint64_t place;              /* of the node's ids (foreign.h) */
    struct sk_guest_value value; /* taken over by the host */
    const char *name;            /* DEFINED; LOST: what happened */
    sk_fid fn;
    const uint32_t *nodes; /* GROUP */
    uint32_t n;
    const struct sk_task_spec *spec;    /* CALLED: references by their numbers; no shape, no sink */
    const struct sk_foreign_need *need; /* CALLED: of a task or an actor */
    const struct sk_actor_spec
        *actor; /* CALLED: its constructor is *spec; NULL: no actor is made */
};
struct sk_guest_ref_ops {
    /* There are references to the object or actor here, until unhold: of a node, or a return of
     * `call`. A return is let go of when its call has ended, not before. */
    void (*hold)(void *ctx, uint64_t id);
    void (*unhold)(void *ctx, uint64_t id);
    /* An object that the node holds has this value: its name there is `name`. */
    void (*there)(void *ctx, uint32_t node, uint64_t name, const struct sk_guest_value *v);
    /* Calls an actor of a node; ends with SK_NEWS_ENDED, after THERE for each return. */
    sk_rc (*call)(void *ctx, const struct sk_task_spec *s, uint64_t first, struct sk_err *err);
    /* The stream of a node, whose end it named `first`, has yielded object `id`, which the node
     * holds from now on. And the first n yields of the stream of a node's actor were taken. */
    void (*yield)(void *ctx, uint32_t node, uint64_t first, uint64_t id);
    void (*took)(void *ctx, uint64_t actor, uint64_t first, uint32_t n);
    /* The call of a node, whose first return it named so, has ended. */
    void (*ended)(void *ctx, uint32_t node, uint64_t first);
    /* Cancels the task that makes object `id` of a node, or the call with the first return `id`.
     * `of` is an id of that node: the object, or the actor. */
    void (*stop)(void *ctx, uint64_t of, uint64_t id, uint32_t flags);
    /* Answers SK_NEWS_NAME, as sk_foreign_ops.answer. The actor is kept until the node says
     * SK_NAME_GOT. */
    void (*named)(void *ctx, uint32_t node, uint64_t ask, sk_rc rc, uint64_t actor,
                  struct sk_bytes bytes);
    void (*kill)(void *ctx, uint64_t actor, bool no_restart);
};
/* What the nodes of a guest can tell of themselves. The lists are those of state.h: values below
 * SK_ASK_STATUS are those of enum sk_state_what. */
enum sk_ask {
    SK_ASK_STATUS = 16, /* lines, as sk_state_ops.status */
    SK_ASK_MEMORY       /* struct sk_memory_info, then rows of struct sk_memory_worker */
};
struct sk_guest_told {
    uint32_t node;    /* number of a row of nodes(); 0: the guest's own part of what was asked */
    bool silent;      /* it did not answer in time */
    int64_t ahead_ns; /* its clock less that of this process; all times in `bytes` are its own */
    struct sk_bytes bytes; /* well formed; none: it cannot tell */
};
struct sk_group_spec; /* groups.h */
struct sk_guest_ops {
    /* The first call. From now until `end`, any thread may call wake(host) to say that `poll` has
     * events to deliver. */
    void (*begin)(void *ctx, void (*wake)(void *host), void *host);
    void (*end)(void *ctx); /* the last call: ends all tasks */
    sk_rc (*nodes)(void *ctx, struct sk_node *out, size_t cap, size_t *n, struct sk_err *err);
    sk_rc (*define)(void *ctx, sk_fid fn, const char *name, struct sk_bytes def,
                    struct sk_err *err);
    /* Starts a task. If this call fails, the task fails with the same error. */
    sk_rc (*submit)(void *ctx, const struct sk_guest_task *t, struct sk_err *err);
    /* Cancels a task, which still ends with an event. flags: SK_CANCEL_*. */
    void (*cancel)(void *ctx, uint64_t task, uint32_t flags);
    /* The first n yields of a stream with a window were taken. May be NULL. */
    void (*taken)(void *ctx, uint64_t task, uint32_t n);
    /* Ends an actor now; its calls that are under way end with events. */
    void (*actor_end)(void *ctx, uint64_t actor, enum sk_guest_end how);
    /* The environment (envs.h) or where (cluster/wheres.h) with this number, before the first task
     * that needs it. NULL: the guest has none. */
    void (*env)(void *ctx, uint32_t number, struct sk_bytes env);
    sk_rc (*put)(void *ctx, uint32_t kind, struct sk_bytes bytes, void **handle,
                 struct sk_err *err);
    /* Calls `tell` for each event since the last poll, in order. Does not wait. */
    sk_rc (*poll)(void *ctx, void (*tell)(void *host, const struct sk_guest_event *ev), void *host,
                  struct sk_err *err);
    /* Gives the bytes of a handle's value, in place, until let_go. */
    sk_rc (*fetch)(void *ctx, void *handle, int64_t deadline_ns, struct sk_guest_value *out,
                   struct sk_err *err);
    void (*let_go)(void *ctx, void *token);
    void (*drop)(void *ctx, void *handle);
    /* Makes a placement group, of which SK_NEWS_GROUP tells, and removes it: tasks and actors that
     * run in it are killed, others end with SK_EGROUP. Both are NULL in a guest without groups. */
    sk_rc (*group)(void *ctx, uint64_t id, const struct sk_group_spec *s, struct sk_err *err);
    void (*group_end)(void *ctx, uint64_t id);
    /* The calls of cluster/nodes.h, of a guest whose nodes come and go; NULL in others. */
    sk_rc (*join)(void *ctx, const char *address, uint32_t *number, struct sk_err *err);
    sk_rc (*drain)(void *ctx, uint32_t number, int64_t deadline_ns, struct sk_err *err);
    void (*give_up)(void *ctx, const char *why);
    /* Asks all nodes that are alive (what: enum sk_ask), waits for their answers, at most a few
     * seconds, and calls `told` for each node. In rows of objects of SK_OF_VALUE, `id` is the
     * handle of the value (as a number), or 0. NULL: there is nothing to be told of the nodes. */
    void (*ask)(void *ctx, uint32_t what, void (*told)(void *host, const struct sk_guest_told *t),
                void *host);
    /* Calls `told` with the last rows of workers that nodes have told, and has these asked again in
     * a while; does not wait. NULL if `ask` is. */
    void (*workers)(void *ctx, void (*told)(void *host, const struct sk_guest_told *t), void *host);
};
struct sk_guest {
    const struct sk_guest_ops *ops;
    void *ctx;
    bool notes; /* its events have notes */
    bool parts; /* its tasks can take parts of values */
    /* `nodes` may come from any thread and costs little, so the host calls it whenever somebody
     * asks; it calls others once a second. */
    bool nodes_now;
    /* It takes the options of actors: concurrency groups, event loops, retries of calls. The host
     * gives such actors names; a call that fails with SK_EACTOR, and without actor_lives, says that
     * its actor is dead, and so does FAILED of a constructor that was DONE. */
    bool actors;
    bool wheres; /* its nodes have labels, and a task may say on which of them it runs */
    /* Not NULL: references inside values travel between the host and the nodes, and between nodes
     * through the host. NULL: values with references inside are refused. */
    const struct sk_guest_ref_ops *refs;
};

#endif
