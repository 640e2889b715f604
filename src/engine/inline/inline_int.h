/* inline_int.h - what the files of the inline engine (by/inline.c and inline/) share: its
 * structures, and a line about each function.
 *
 * Everything here runs with the engine's lock held unless it says otherwise; user code runs
 * without it. */
#ifndef SK_INLINE_INT_H
#define SK_INLINE_INT_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/containers/list.h"
#include "base/containers/map.h"
#include "base/mem.h"
#include "base/containers/vec.h"
#include "engine/actors.h"
#include "engine/engine_int.h"
#include "engine/groups.h"
#include "engine/inner.h"
#include "engine/books/history.h"
#include "engine/books/names.h"
#include "engine/own/own.h"
#include "engine/place/place.h"
#include "engine/place/res.h"
#include "engine/state.h"
#include "engine/streams.h"

#define TAG SK_TAG_ENGINE
#define ME 0u /* the only process that own.c counts for */

struct sk_blob { /* a value; counted by views and objects */
    _Atomic uint32_t refs;
    uint32_t kind;
    size_t len;
    size_t cap;
    uint8_t *data; /* 64-aligned, in this allocation */
};

struct sk_iobj {
    struct sk_blob *val; /* NULL: the value does not exist yet */
};

struct sk_ival { /* a return that is not sealed yet; the references inside it are held */
    struct sk_blob *b;
    uint64_t *in;
    uint32_t n_in;
};

struct sk_iactor {
    uint64_t id, ready;
    uint32_t n_handles;
    uint32_t n_calls; /* number of queued or running calls, with the constructor */
    bool dead, started, busy, ready_gone;
    struct sk_place_worker holds; /* the resources that the actor holds */
    uint64_t scan; /* number of the last scan of the queue that found a call of this actor */
    struct sk_itask *init; /* the constructor, kept for restarts; its arguments stay held */
    int32_t restarts_left, max_task_retries;
    struct sk_blob *why; /* of a dead actor: the error with which its calls end */
    struct sk_name *name;
    bool detached; /* the actor lives without handles: the engine holds its `ready` object */
};

struct sk_igroup {
    struct sk_list link;
    uint64_t id, ready_oid;
    uint32_t strategy;
    struct sk_place_group *place;
    struct sk_name *name;
};

enum { SK_INLINE_NODE = 1 }; /* number of the only node */

struct sk_itask {
    struct sk_task_priv p; /* must be first */
    struct sk_inline *e;
    struct sk_list node; /* link in the queue of tasks */
    uint64_t id, first;
    uint32_t n_ret; /* 0 for a stream */
    bool streaming, queued, running, cancelled, is_init, retry_exceptions;
    int32_t retries_left;
    sk_shape shape;
    uint64_t parent;
    int64_t submit_ns, start_ns; /* start: when this attempt began */
    struct sk_need need;
    /* the resources that the task holds while it runs; a call of an actor holds none */
    struct sk_place_worker holds;
    /* the task further down on the same thread's stack, whose wait runs this task */
    struct sk_itask *outer;
    struct sk_iactor *actor;
    char *name;
    struct sk_view *views;
    struct sk_blob **vals; /* inline argument i, or NULL when it is a reference */
    uint64_t *refs;        /* reference argument i, or 0 */
    struct sk_ipart {
        bool is;
        uint64_t offset, length;
        /* parts[i]: the part of reference argument i's value; NULL: all arguments are whole
         * values */
    } *parts;
    uint64_t *held; /* references inside inline arguments */
    uint32_t n_held;
    struct sk_ival *ret; /* returns of this attempt */
    struct sk_blob *error;
    SK_VEC(uint64_t) yields; /* of a stream: reported ids; [0, n_taken) were taken */
    uint32_t n_taken, n_reported;
    SK_VEC(uint64_t) notes; /* hash of the note of each reported yield */
    bool finished, stream_dropped;
    uint64_t stream_error; /* id of the error object */
    struct sk_err fail;    /* code and text of the task's failure */
    uint32_t note_n;
    uint8_t note[SK_NOTE_MAX];
    struct sk_sink *sink;
    uint64_t sink_tag;
};

struct sk_inline {
    struct sk_engine e;
    pthread_mutex_t mu;
    pthread_cond_t cv;
    pthread_t owner;
    uint32_t depth; /* depth of the recursive lock */
    bool closed;
    /* Set while a loop drains freed objects: objects freed meanwhile are left to that loop, so
     * that no chain costs stack. */
    bool draining;
    uint32_t n_running, n_waiting;
    struct sk_runner *runner;
    struct sk_own *own;
    /* function id -> definition; task id -> itask (streams and unfinished tasks); actor id ->
     * actor */
    struct sk_map fns, tasks, actors;
    struct sk_list queue; /* tasks, linked by itask.node */
    struct sk_list names; /* names of actors */
    struct sk_list groups, group_names;
    struct sk_history past;
    uint64_t next_id, scan, rng;
    uint64_t bytes, store_bytes, n_done;
    int32_t task_retries;
    /* the resources held by tasks and actors, and placement groups; no task is queued there */
    struct sk_place place;
    /* dead actors whose state the runner still keeps; the outermost unlock tells the runner */
    SK_VEC(uint64_t) gone;
    struct sk_res_names names_of_res;
};

static inline struct sk_inline *sk_inline_of(struct sk_engine *e) {
    return sk_container_of(e, struct sk_inline, e);
}

/* A file calls files that come later in this list: by/inline.c -> group, actor, submit, stream,
 * object, call -> run -> life -> hold, state -> blob, lock. */

/* ---- lock.c */
void sk_inline_lock(struct sk_inline *x); /* takes the lock, which is recursive */
void sk_inline_unlock(struct sk_inline *x);
/* Waits until another thread has changed something; the lock is dropped meanwhile. */
void sk_inline_wait_unlocked(struct sk_inline *x, int64_t deadline_ns);
/* Call when user code is about to run on this thread, then drop the lock; after it has run, take
 * the lock and call sk_inline_user_ended. */
void sk_inline_user_begins(struct sk_inline *x);
void sk_inline_user_ended(struct sk_inline *x);
/* true if user code is on this thread's stack */
bool sk_inline_is_running(void);
bool sk_inline_others_run(const struct sk_inline *x); /* true if user code runs on other threads */

/* ---- blob.c: values, which are counted */
sk_rc sk_blob_new(struct sk_inline *x, uint32_t kind, size_t len, struct sk_blob **out,
                  struct sk_err *err);
sk_rc sk_blob_bytes(struct sk_inline *x, uint32_t kind, struct sk_bytes v, struct sk_blob **out,
                    struct sk_err *err);
/* Makes the value of a payload, whose buffer is taken over on every path. */
sk_rc sk_blob_payload(struct sk_inline *x, const struct sk_payload *p, struct sk_blob **out,
                      struct sk_err *err);
sk_rc sk_blob_engine_error(struct sk_inline *x, sk_rc code, const char *msg, struct sk_blob **out);
struct sk_blob *sk_blob_ref(struct sk_blob *b);
void sk_blob_unref(struct sk_inline *x, struct sk_blob *b);
struct sk_view sk_blob_view(struct sk_blob *b, uint64_t oid);
static inline struct sk_blob *sk_iobj_val(const struct sk_inline *x, uint64_t id) {
    /* NULL: the object or its value does not exist */
    const struct sk_iobj *o = sk_own_get(x->own, id);
    return o ? o->val : NULL;
}

/* ---- hold.c */
/* A running task holds the resources that its shape asks for. Only bundles of placement groups are
 * waited for (sk_place_fits_now). */
void sk_inline_hold(struct sk_inline *x, struct sk_place_worker *w, sk_shape s);
void sk_inline_give_back(struct sk_inline *x, struct sk_place_worker *w);
/* Called after resources were given back: tells the groups that now have their bundles. */
void sk_inline_groups_ready(struct sk_inline *x);
/* NULL: the group was removed. */
struct sk_igroup *sk_inline_group(struct sk_inline *x, uint64_t id);

/* ---- state.c: side contracts state and progress */
extern const struct sk_state_ops sk_inline_state;
extern const struct sk_progress_ops sk_inline_progress;
extern const struct sk_inner_ops sk_inline_inner;
/* Adds an ended attempt to the history; error NULL: the attempt succeeded. */
void sk_istate_ended(struct sk_inline *x, struct sk_itask *t, const struct sk_blob *error,
                     int64_t now_ns);
void sk_istate_actor_gone(struct sk_inline *x, const struct sk_iactor *a);

/* ---- life.c: the ends of objects, tasks and actors, and what else ends with them */
sk_rc sk_iobj_new(struct sk_inline *x, uint64_t id, struct sk_blob *val, const sk_oid *in,
                  uint32_t n_in, struct sk_err *err);
void sk_iobj_unref(struct sk_inline *x, uint64_t id);
void sk_iobj_drain(struct sk_inline *x); /* frees objects that nothing refers to */
void sk_itask_emit(struct sk_itask *t, enum sk_event_kind kind, uint64_t oid, uint64_t size,
                   struct sk_bytes note, int64_t run_ns);
/* Ends the task for good; error NULL: the task succeeded. `error` is taken over. */
void sk_itask_finish(struct sk_inline *x, struct sk_itask *t, struct sk_blob *error,
                     int64_t run_ns);
void sk_itask_finish_code(struct sk_inline *x, struct sk_itask *t, sk_rc code, const char *msg);
/* Frees what an attempt has left: returns, error, note. */
void sk_itask_drop_attempt(struct sk_inline *x, struct sk_itask *t);
void sk_ival_drop(struct sk_inline *x, struct sk_ival *v);
void sk_itask_free(struct sk_inline *x, struct sk_itask *t);
/* Ends an actor: waiting calls end with `why`, which is taken over. The caller has to count
 * itself as a call of the actor, or the last of these calls would free the actor. */
void sk_iactor_die(struct sk_inline *x, struct sk_iactor *a, struct sk_blob *why);
void sk_iactor_maybe_end(struct sk_inline *x, struct sk_iactor *a);

/* ---- run.c */
/* Makes one step of progress for a caller that waits for `what`: runs a task here, or waits for
 * one that runs on another thread. */
sk_rc sk_inline_step_unlocked(struct sk_inline *x, int64_t deadline_ns, const char *what,
                              struct sk_err *err);
sk_rc sk_inline_drive(struct sk_engine *e, bool (*done)(void *arg), void *arg, int64_t deadline_ns,
                      struct sk_err *err);

/* ---- call.c: what a running task may call */
extern const struct sk_task_ops sk_inline_task_ops;

/* ---- object.c, submit.c, actor.c, stream.c, group.c: calls of engine.h and its side contracts */
sk_rc sk_inline_put(struct sk_engine *e, const struct sk_payload *p, sk_oid *out,
                    struct sk_err *err);
sk_rc sk_inline_get(struct sk_engine *e, const sk_oid *ids, size_t n, int64_t deadline_ns,
                    struct sk_view *out, struct sk_err *err);
sk_rc sk_inline_await(struct sk_engine *e, const sk_oid *ids, size_t n, size_t want,
                      int64_t deadline_ns, bool *ready, struct sk_err *err);
void sk_inline_retain(struct sk_engine *e, sk_oid o);
void sk_inline_release(struct sk_engine *e, sk_oid o);
sk_rc sk_inline_buf_alloc(struct sk_engine *e, size_t len, struct sk_buf *out, struct sk_err *err);
void sk_inline_buf_abort(struct sk_engine *e, struct sk_buf *b);
void sk_inline_view_release(struct sk_engine *e, struct sk_view *v);

sk_rc sk_inline_submit(struct sk_engine *e, const struct sk_task_spec *s, sk_oid *first,
                       sk_tid *tid, struct sk_err *err);
sk_rc sk_inline_cancel(struct sk_engine *e, sk_tid tid, uint32_t flags, struct sk_err *err);
sk_rc sk_itask_make(struct sk_inline *x, const struct sk_task_spec *s, uint32_t n_ret,
                    uint64_t first, struct sk_itask **out, struct sk_err *err);
void sk_itask_enqueue(struct sk_inline *x, struct sk_itask *t);

sk_rc sk_inline_actor_create(struct sk_engine *e, const struct sk_actor_spec *spec, sk_aid *out,
                             sk_oid *ready, struct sk_err *err);
sk_rc sk_inline_actor_end(struct sk_engine *e, sk_aid aid, bool no_restart, struct sk_err *err);
extern const struct sk_actors_ops sk_inline_actors;

extern const struct sk_streams_ops sk_inline_streams;

sk_rc sk_inline_need(struct sk_engine *e, const struct sk_need *n, sk_shape *out,
                     struct sk_err *err);
void sk_inline_groups_free(struct sk_inline *x);
extern const struct sk_groups_ops sk_inline_group_ops;

#endif
