/* calls.h - the local engine as the driver's own code calls it: the calls of engine.h and the
 * tables of the side contracts, and what these share: the lock and the waiting. by/local.c puts the
 * tables into the engine.
 *
 * Calls: abroad, actor, extent, functions, group, loop, memory, messages, moves, named, object,
 * promise, recover, request, show, shown, space, spec, state, stored, stream, submit, task, view,
 * yield. The code of this part may call these parts of the driver and no others; tests/shape.py
 * reads this line. */
#ifndef SK_DRIVER_H
#define SK_DRIVER_H

#include "engine/actors.h"
#include "engine/channels.h"
#include "engine/custom.h"
#include "engine/envs.h"
#include "engine/foreign.h"
#include "engine/groups.h"
#include "engine/host.h"
#include "engine/inner.h"
#include "engine/local/driver/local_int.h"
#include "engine/moves.h"
#include "engine/state.h"
#include "engine/streams.h"
#include "engine/usage.h"
#include "engine/view.h"
#include "engine/watch.h"
#include "engine/windows.h"

static inline struct sk_local *sk_local_of(struct sk_engine *e) {
    return sk_container_of(e, struct sk_local, base);
}

/* Takes the engine's lock, which is recursive. It spins for a short time first: the loop holds
 * the lock for microseconds, and a futex sleep costs 34 us. */
static inline void sk_driver_lock(struct sk_engine *e) {
    struct sk_local *l = sk_local_of(e);
    sk_space_depth++;
    for (int i = 0; i < 200; i++) {
        if (pthread_mutex_trylock(&l->mu) == 0) return;
#if defined(__x86_64__)
        __builtin_ia32_pause();
#endif
    }
    pthread_mutex_lock(&l->mu);
}
static inline void sk_driver_unlock(struct sk_engine *e) {
    sk_space_depth--;
    pthread_mutex_unlock(&sk_local_of(e)->mu);
}

/* ---- calls_drive.c */
sk_rc sk_driver_closed(struct sk_err *err) SK_MUST_USE;

/* Describes what a caller waits for; `skate stack` shows this when the wait is long. */
struct sk_waited {
    const char *verb;
    const sk_oid *ids;
    size_t n;
    uint64_t tid; /* id of a stream's task */
};
/* Called with the lock held once. Drives the loop, or waits for the thread that drives it, until
 * done(arg) is true. Returns with the lock held; the lock is dropped meanwhile. */
sk_rc sk_driver_wait_unlocked(struct sk_local *l, bool (*done)(void *), void *arg, int64_t deadline,
                              const struct sk_waited *w) SK_MUST_USE;

/* ---- the calls of engine.h */
sk_rc sk_driver_drive(struct sk_engine *e, bool (*done)(void *), void *arg, int64_t deadline,
                      struct sk_err *err);
sk_rc sk_driver_define(struct sk_engine *e, sk_fid fn, const char *name, struct sk_bytes def,
                       struct sk_err *err);
sk_rc sk_driver_shape(struct sk_engine *e, const struct sk_need *n, sk_shape *out,
                      struct sk_err *err);
sk_rc sk_driver_submit(struct sk_engine *e, const struct sk_task_spec *s, sk_oid *first,
                       sk_tid *tid, struct sk_err *err);
sk_rc sk_driver_cancel(struct sk_engine *e, sk_tid t, uint32_t flags, struct sk_err *err);
sk_rc sk_driver_actor_create(struct sk_engine *e, const struct sk_actor_spec *s, sk_aid *out,
                             sk_oid *ready, struct sk_err *err);
sk_rc sk_driver_actor_end(struct sk_engine *e, sk_aid a, bool no_restart, struct sk_err *err);
void sk_driver_retain(struct sk_engine *e, sk_oid o);
void sk_driver_release(struct sk_engine *e, sk_oid o);
sk_rc sk_driver_buf_alloc(struct sk_engine *e, size_t len, struct sk_buf *out, struct sk_err *err);
void sk_driver_buf_abort(struct sk_engine *e, struct sk_buf *b);
sk_rc sk_driver_put(struct sk_engine *e, const struct sk_payload *p, sk_oid *out,
                    struct sk_err *err);
sk_rc sk_driver_get(struct sk_engine *e, const sk_oid *ids, size_t n, int64_t deadline,
                    struct sk_view *out, struct sk_err *err);
void sk_driver_view_release(struct sk_engine *e, struct sk_view *v);
sk_rc sk_driver_wait_for(struct sk_engine *e, const sk_oid *ids, size_t n, size_t want,
                         int64_t deadline, bool *ready, struct sk_err *err);
sk_rc sk_driver_nodes(struct sk_engine *e, struct sk_node *out, size_t cap, size_t *n,
                      struct sk_err *err);

/* ---- calls_side.c, calls_state.c */
extern const struct sk_actors_ops sk_driver_actors;
extern const struct sk_streams_ops sk_driver_streams;
extern const struct sk_custom_ops sk_driver_custom;
extern const struct sk_groups_ops sk_driver_groups;
extern const struct sk_envs_ops sk_driver_envs;
extern const struct sk_state_ops sk_driver_state;
extern const struct sk_progress_ops sk_driver_progress;
extern const struct sk_usage_ops sk_driver_usage;
extern const struct sk_inner_ops sk_driver_inner;
extern const struct sk_foreign_ops sk_driver_foreign;
extern const struct sk_watch_ops sk_driver_watch;
extern const struct sk_windows_ops sk_driver_windows;
extern const struct sk_moves_ops sk_driver_moves;
extern const struct sk_channels_ops sk_driver_channels;
extern const struct sk_host_ops sk_driver_host;
extern const struct sk_view_ops sk_driver_view;

#endif
