/* guest_int.h - what the files of the host of a guest engine (by/guest.c and guest/) share: its
 * structures, and a line about each function.
 *
 *  callers: ids, counts, orders to the guest --orders--> the host's thread --calls--> guest
 *  sinks <--events-- the host's thread <--tell-- guest
 *
 * A function is called with the lock held unless it says otherwise. The guest and the sinks are
 * called without it. */
#ifndef SK_GUEST_INT_H
#define SK_GUEST_INT_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/containers/list.h"
#include "base/containers/map.h"
#include "base/mem.h"
#include "base/containers/vec.h"
#include "engine/books/group_row.h"
#include "engine/books/names.h"
#include "engine/engine_int.h"
#include "engine/groups.h"
#include "engine/guest.h"
#include "engine/local/wire/shown.h"
#include "engine/own/own.h"
#include "engine/place/res.h"

#define TAG SK_TAG_ENGINE
#define ME 0u /* the only process that own.c counts for */

/* A value: bytes in this process, or in place in the guest's memory. Counted by views, objects
 * and arguments. */
struct sk_gval {
    _Atomic uint32_t refs;
    uint32_t kind;
    size_t len;
    const uint8_t *data;
    void *token; /* the guest's token for the bytes, see let_go in guest.h; may be NULL */
};

struct sk_gobj {
    struct sk_gval *val; /* val, handle: the object exists if one of them is set, or both */
    void *handle;
    uint64_t size, task; /* task: the task that makes it; 0: none */
    uint32_t node;
    /* foreign.c. foreign: of a node, and held there. ret: a return of a call of a node's actor.
     * waits: nodes that hold the object and were not told its value yet; NULL: none */
    bool foreign, ret;
    struct sk_gwaits *waits;
    struct sk_list lacking; /* arguments that wait for it, while it does not exist */
};

struct sk_gwaits {
    struct sk_gwait {
        uint32_t node;
        uint64_t name; /* of the object there */
    } w;
    struct sk_gwaits *next;
};

struct sk_garg {
    struct sk_list lack; /* in `lacking` of its object */
    struct sk_gtask *of;
    uint64_t ref; /* a held reference; 0: the argument is `val` */
    struct sk_gval *val;
    bool part; /* only these bytes of the value */
    uint64_t offset, length;
};

struct sk_gcaller { /* who has made calls of an actor that have not ended */
    struct sk_list link;
    uint64_t who;         /* 0: this process; else a process of a node */
    uint32_t n;           /* calls that have not ended */
    struct sk_list calls; /* those that wait, in order */
};

struct sk_gactor {
    uint64_t id, ready; /* ready + 1 == id */
    uint32_t n_handles, n_calls;
    bool started, ended, ready_gone;
    bool detached;        /* its `ready` object is held */
    struct sk_name *name; /* NULL: none, or it is dead */
    int32_t max_task_retries;
    bool is_async;
    uint32_t n_groups; /* not 0: its calls begin in any order */
    uint32_t *groups;
    struct sk_list callers;
    struct sk_gval *why; /* of a failed actor: the error with which its calls end */
    sk_fid fn;
    struct sk_need need;
};

struct sk_gtask {
    struct sk_list link;   /* in `waiting` until the task is given to the guest, then in `told` */
    struct sk_list call;   /* of a call that waits: in `calls` of its caller */
    struct sk_gcaller *by; /* of a call of an actor of this process */
    uint64_t id, first, actor;
    int64_t submit_ns; /* 0: the engine has no lists of tasks */
    sk_fid fn;
    uint32_t n_returns, n_args, n_lacking, max_calls, group, window;
    bool is_init, told, retry_exceptions, node_only, no_wait;
    uint32_t node;
    int32_t max_retries;
    struct sk_need need;
    char *name;
    struct sk_garg *args;
    struct sk_sink *sink;
    uint64_t sink_tag;
    uint64_t *contains; /* held references inside arguments */
    uint32_t n_contains;
    bool abroad;                /* a call of an actor of a node: it is in x->abroad, too */
    uint32_t caller;            /* node that has made the call; 0: this process */
    uint64_t caller_first, who; /* who: of a call abroad: sk_task_opts.caller */
    uint64_t known;             /* sk_task_opts.known_task, or its own number */
};

struct sk_gstream { /* a stream without a sink; its key is the id of its task */
    SK_VEC(uint64_t) yields;
    uint32_t n_taken, end_kind;
    bool over, dropped, why_taken;
    bool window;     /* the guest is told what was taken */
    uint32_t reader; /* the node that reads it, whose name of its end is `name`; 0: none */
    uint64_t name;
    struct sk_gval *why; /* its task has failed */
    uint64_t end; /* the object that exists when it is over; 0: sk_gstream_end was not called */
};

struct sk_ggroup {       /* a placement group */
    struct sk_list link; /* in x->groups, the oldest first */
    uint64_t id;         /* id + 1 is its `ready` object, which the engine holds */
    struct sk_name *name;
    uint32_t n, strategy;
    bool ready; /* all bundles have a node */
    int64_t since_ns, reserved_ns;
    struct sk_res *bundle; /* in the same block */
    uint32_t *node;        /* of each bundle, 0: none; the same */
};

enum sk_gorder_kind {
    SK_GORDER_DEFINE = 1,
    SK_GORDER_ENV,
    SK_GORDER_SUBMIT,
    SK_GORDER_CANCEL,
    SK_GORDER_TAKEN,
    SK_GORDER_ACTOR_END,
    SK_GORDER_DROP,
    SK_GORDER_GROUP,
    SK_GORDER_UNGROUP,
    /* of foreign.c */
    SK_GORDER_HOLD,
    SK_GORDER_UNHOLD,
    SK_GORDER_THERE,
    SK_GORDER_CALL,
    SK_GORDER_YIELD,
    SK_GORDER_TOOK,
    SK_GORDER_ENDED,
    SK_GORDER_KILL,
    SK_GORDER_STOP,
    SK_GORDER_NAMED
};
struct sk_gorder { /* an order to the guest, carried out by the host's thread */
    enum sk_gorder_kind kind;
    bool flag;             /* KILL: no restart */
    enum sk_guest_end how; /* ACTOR_END */
    uint32_t flags;        /* CANCEL, STOP: SK_CANCEL_*; TAKEN, TOOK: how many yields */
    uint64_t of;           /* STOP; NAMED, TOOK: the actor; YIELD: the object */
    sk_rc rc;              /* NAMED */
    uint64_t id;           /* id of the function, task or actor; number of the environment */
    void *handle;          /* DROP: the handle to be dropped */
    char *name;            /* DEFINE: owned by the order, as are the bytes, also of ENV, NAMED,
                            * GROUP */
    void *def;
    size_t def_n;
    uint32_t node;       /* THERE, YIELD, ENDED, NAMED; id is the node's name of the object */
    struct sk_gval *val; /* THERE: not NULL: the value, owned by the order */
};
struct sk_gfound { /* an actor that a node was told of, and does not hold yet */
    uint32_t node;
    uint64_t ask, actor;
};
struct sk_gout { /* an event for a sink */
    struct sk_sink *sink;
    struct sk_event ev;
    struct sk_err *err; /* owned by this struct, as is the note */
    void *note;
};

struct sk_gshow { /* show.c */
    pthread_mutex_t
        mu; /* recursive; guards `s` but its ring of tasks; taken before that of sk_ghost */
    struct sk_shown s;
    struct sk_view_workers *workers;
    uint64_t *tasks; /* of each of them; 0: it is idle */
    int64_t next_ns; /* of the next tick; of the host's thread */
};

struct sk_ghost {
    struct sk_engine e;
    struct sk_guest g;
    pthread_mutex_t mu;
    pthread_cond_t todo, moved; /* todo: wakes the host's thread; moved: wakes waiting callers */
    pthread_t thread;
    bool closing, woken, draining;
    struct sk_err broken; /* code != 0: the guest has failed and is not called any more */
    struct sk_own *own;
    struct sk_map fns, tasks, actors, streams;
    struct sk_map watches; /* object, or task of a stream -> its watches */
    struct sk_list waiting, told;
    struct sk_list actor_names;
    struct sk_map named; /* actor of a node -> its name */
    SK_VEC(struct sk_gfound) found;
    /* conf.h, named */
    void (*hook)(void *ctx, struct sk_bytes space, struct sk_bytes name);
    void *hook_ctx;
    struct sk_list groups, group_names;
    SK_VEC(struct sk_gorder) orders;
    SK_VEC(struct sk_gout) out;
    SK_VEC(struct sk_need) shapes; /* index: shape - 1 */
    SK_VEC(struct sk_gval *) envs; /* index: number - 1; wheres (cluster/wheres.h), too */
    SK_VEC(struct sk_node) nodes;
    struct sk_res_names names; /* of custom resources; the nodes number them in the same order */
    SK_VEC(struct sk_map) holders; /* index: node - 1; the node's name -> object or actor here */
    struct sk_map abroad;          /* first return -> a call of a node's actor */
    uint64_t next_id;
    int32_t task_retries;
    int64_t asked_ns; /* when the guest was last asked for its nodes */
    /* Numbers of requests to ask the guest for its nodes now: of the last one that was made, and of
     * the last one that the rows in `nodes` answer. */
    uint64_t ask_made, ask_done;
    struct sk_gshow show;
    uint64_t n_ordered, n_carried; /* orders that were given, and carried out */
};

/* ---- object.c */
/* copies the bytes; NULL: no memory */
struct sk_gval *sk_gval_new(uint32_t kind, struct sk_bytes b);
struct sk_gval *sk_gval_error(sk_rc code, const char *text);
struct sk_gval *sk_gval_ref(struct sk_gval *v);
void sk_gval_unref(struct sk_ghost *x, struct sk_gval *v); /* called with or without the lock */
/* Makes an object; takes val over if it succeeds. */
sk_rc sk_gobj_new(struct sk_ghost *x, uint64_t id, uint64_t task, struct sk_gval *val,
                  const sk_oid *in, uint32_t n_in, struct sk_err *err);
static inline bool sk_gobj_there(const struct sk_gobj *o) { return o->val || o->handle; }
void sk_gobj_unref(struct sk_ghost *x, uint64_t id);
void sk_gobj_drain(struct sk_ghost *x);
/* Queues an order. If there is no memory, the process aborts, since a reference or a task would be
 * lost for ever. */
void sk_ghost_order(struct sk_ghost *x, struct sk_gorder o);
/* Gives a handle back to the guest. NULL is fine. */
static inline void sk_ghost_drop(struct sk_ghost *x, void *handle) {
    if (handle) sk_ghost_order(x, (struct sk_gorder){.kind = SK_GORDER_DROP, .handle = handle});
}

/* The object has come to exist: tells the nodes that hold it. */
void sk_gobj_came(struct sk_ghost *x, uint64_t id, struct sk_gobj *o);
/* The object that the node holds under this name; 0: it holds none. */
uint64_t sk_gobj_held_as(const struct sk_ghost *x, uint32_t node, uint64_t name);
/* Tells a node that what it holds exists; val: the value, which is taken over, if it is not that of
 * the object. */
void sk_gobj_say_there(struct sk_ghost *x, uint32_t node, uint64_t name, struct sk_gval *val);

/* add and remove of watch.h */
struct sk_watch;
sk_rc sk_gwatch_add(struct sk_ghost *x, uint64_t oid, uint64_t stream, struct sk_watch *w,
                    struct sk_err *err);
bool sk_gwatch_remove(struct sk_ghost *x, struct sk_watch *w);
/* Says that the object exists now, or that the stream of the task has news. The caller drains the
 * objects later (sk_gobj_drain). */
void sk_gwatch_tell(struct sk_ghost *x, uint64_t key);
void sk_gwatch_tell_all(struct sk_ghost *x);

/* ---- task.c */
/* The number of the node where a task should run; 0: anywhere, also if that node is gone. */
uint32_t sk_gtask_node(const struct sk_ghost *x, const struct sk_task_spec *s);
/* submit() and actor_end() of engine.h. */
sk_rc sk_gtask_submit(struct sk_ghost *x, const struct sk_task_spec *s, sk_oid *first, sk_tid *tid,
                      struct sk_err *err);
sk_rc sk_gactor_end(struct sk_ghost *x, uint64_t id, bool no_restart, struct sk_err *err);
/* cancel() of engine.h: of a task, or of what makes an object. */
void sk_gtask_cancel(struct sk_ghost *x, uint64_t id, uint32_t flags);
/* The task is over: its returns exist. */
void sk_gtask_over(struct sk_ghost *x, struct sk_gtask *t);
sk_rc sk_gtask_make(struct sk_ghost *x, const struct sk_task_spec *s, uint64_t id, uint64_t first,
                    struct sk_gtask **out, struct sk_err *err);
void sk_gtask_free(struct sk_ghost *x, struct sk_gtask *t);
/* Gives the task to the guest, if it can begin; else it waits for its arguments and its actor. */
void sk_gtask_try(struct sk_ghost *x, struct sk_gtask *t);
/* Says that an object has come to exist: gives the tasks to the guest that waited for it only. */
void sk_gtask_exists(struct sk_ghost *x, uint64_t id, struct sk_gobj *o);
/* Handles an event of a task that is not over; takes the event's values over. */
void sk_gtask_event(struct sk_ghost *x, const struct sk_guest_event *ev);
void sk_gactor_free(struct sk_ghost *x, struct sk_gactor *a); /* NULL is fine */
void sk_gtask_fail(struct sk_ghost *x, struct sk_gtask *t, sk_rc code, const char *text);
void sk_gactor_maybe_end(struct sk_ghost *x, struct sk_gactor *a);
/* Ends an actor together with its waiting calls; takes over `why`, the error of these calls. */
void sk_gactor_die(struct sk_ghost *x, struct sk_gactor *a, struct sk_gval *why);

/* Says that the actor is dead: its name is free, and if it is detached it is kept no more. A call
 * or a count of the caller has to keep `a`. */
void sk_gactor_let_go(struct sk_ghost *x, struct sk_gactor *a);

/* ---- actor.c: actor_create() of engine.h */
sk_rc sk_gactor_create(struct sk_ghost *x, const struct sk_actor_spec *spec, sk_aid *out,
                       sk_oid *ready, struct sk_err *err);

/* ---- need.c */
/* Interns the bytes of an environment or a where, which the guest gets before the first task that
 * needs them. */
sk_rc sk_gneed_intern(struct sk_ghost *x, struct sk_bytes b, uint32_t *out, struct sk_err *err);
sk_rc sk_gneed_shape(struct sk_ghost *x, const struct sk_need *n, sk_shape *out,
                     struct sk_err *err);
sk_rc sk_gneed_of_node(struct sk_ghost *x, const struct sk_foreign_need *n, sk_shape *out,
                       struct sk_err *err);

/* ---- foreign.c: references between this process and nodes (sk_guest.refs) */
static inline bool sk_gref_is_foreign(const struct sk_ghost *x, uint64_t id) {
    return x->g.refs && sk_id_place(id) != 0;
}
/* Takes a reference to an object or actor. False: there is none. */
bool sk_gref_take(struct sk_ghost *x, uint64_t id);
/* retain() and release() of engine.h, for objects and actors. */
void sk_gref_retain(struct sk_ghost *x, uint64_t id);
void sk_gref_release(struct sk_ghost *x, uint64_t id);
/* submit of engine.h: a task, or a call of an actor, also of one that belongs to a node. */
sk_rc sk_gref_submit(struct sk_ghost *x, const struct sk_task_spec *s, sk_oid *first, sk_tid *tid,
                     struct sk_err *err);
void sk_gref_news(struct sk_ghost *x, const struct sk_guest_event *ev);
/* Gives all objects of place (0: of all nodes) that have no value an error. */
void sk_gref_lost(struct sk_ghost *x, uint64_t place, sk_rc code, const char *why);
/* Carries out an order of this file; without the lock. */
void sk_gref_carry_out(struct sk_ghost *x, struct sk_gorder *o);
void sk_gref_forget(struct sk_ghost *x);

/* ---- named.c: names of actors */
void *sk_gname_owner(uint64_t actor); /* of a name */
/* Finds a living actor, with a reference to it and to its `ready` object (actor - 1). */
sk_rc sk_gname_find(struct sk_ghost *x, struct sk_bytes space, struct sk_bytes name,
                    uint64_t *actor, struct sk_bytes *meta, struct sk_err *err);
void sk_gname_asked(struct sk_ghost *x, uint32_t node, uint64_t ask,
                    const struct sk_foreign_name *n);
/* Answers a node that has an actor made: rc SK_OK: with the actor, of which there are a reference
 * and one of its `ready` object, which are taken over; else why there is none. */
void sk_gname_made(struct sk_ghost *x, uint32_t node, uint64_t ask, sk_rc rc, uint64_t actor,
                   const char *why);
void sk_gname_lost(struct sk_ghost *x, uint32_t node);
void sk_gname_forget(struct sk_ghost *x);
/* ---- group.c: placement groups */
/* create, remove and list of groups.h */
sk_rc sk_ggroup_create(struct sk_ghost *x, const struct sk_group_spec *s, uint64_t *out,
                       sk_oid *ready, struct sk_err *err);
sk_rc sk_ggroup_remove(struct sk_ghost *x, uint64_t id, struct sk_err *err);
size_t sk_ggroups_write(struct sk_ghost *x, void *buf, size_t cap);
/* Checks a need that names a group. */
sk_rc sk_ggroup_check(const struct sk_ghost *x, const struct sk_need *n, struct sk_err *err);
void sk_ggroup_news(struct sk_ghost *x, const struct sk_guest_news *w);
void sk_ggroups_free(struct sk_ghost *x);

/* ---- told.c: what is told of the nodes and of what waits here (sk_guest_ops.ask) */
extern const struct sk_state_ops sk_gtold_state;
extern const struct sk_usage_ops sk_gtold_usage;

/* ---- show.c: the view of an engine whose nodes tell of themselves (sk_guest_ops.workers) */
extern const struct sk_view_ops sk_gshow_view;
extern const struct sk_progress_ops sk_gshow_progress;
void sk_gshow_init(struct sk_ghost *x);
/* Opens the view; the nodes are known. */
sk_rc sk_gshow_open(struct sk_ghost *x, const struct sk_engine_conf *conf, struct sk_err *err);
void sk_gshow_last(struct sk_ghost *x); /* stores the last numbers, and writes the record */
void sk_gshow_free(struct sk_ghost *x);
/* An attempt of a task has ended. */
void sk_gshow_ended(struct sk_ghost *x, const struct sk_gtask *t, const struct sk_guest_event *ev);
int64_t sk_gshow_next(const struct sk_ghost *x); /* time of the next tick; INT64_MAX: none */
/* Stores numbers and runs; by the host's thread without the lock, after the nodes were asked. Gives
 * the time of the next one if something goes on, else INT64_MAX. */
int64_t sk_gshow_tick(struct sk_ghost *x);

/* ---- stream.c: streams that have no sink */
sk_rc sk_gstream_new(struct sk_ghost *x, uint64_t task, bool window, struct sk_err *err);
void sk_gstream_free(struct sk_ghost *x, struct sk_gstream *s);
void sk_gstream_yielded(struct sk_ghost *x, uint64_t task, struct sk_gstream *s, uint64_t oid);
/* Says that the task has ended: well, or (why) with a failure. */
void sk_gstream_over(struct sk_ghost *x, uint64_t task, struct sk_gval *why);
/* As next() of streams.h, or with out NULL as wait(); SK_EAGAIN: it has to wait. */
sk_rc sk_gstream_take(struct sk_ghost *x, uint64_t task, sk_oid *out, struct sk_err *err);
sk_rc sk_gstream_end(struct sk_ghost *x, uint64_t task, uint32_t kind, sk_oid *out,
                     struct sk_err *err);
void sk_gstream_drop(struct sk_ghost *x, uint64_t task);
/* The stream is read by a node, which names its end `name`. *end: the object of the end. */
sk_rc sk_gstream_lend(struct sk_ghost *x, uint64_t task, uint32_t node, uint64_t name, sk_oid *end,
                      struct sk_err *err);
/* The reader has taken so many yields; UINT32_MAX: it reads no more. */
void sk_gstream_took(struct sk_ghost *x, uint64_t task, uint32_t n);

/* ---- loop.c: called without the lock */
void *sk_ghost_loop(void *host);
void sk_ghost_wake(void *host);
sk_rc sk_ghost_ask_nodes(struct sk_ghost *x, struct sk_err *err);
/* delivers events to their sinks; false: there were none */
bool sk_ghost_deliver(struct sk_ghost *x);

#endif
