/* local_int.h - the driver's side of the local engine, whole: struct sk_local, made of what its
 * parts keep.
 *
 * Each part has a header of its name that says what it offers and which parts it may call
 * (tests/shape.py holds it to that). Calls go downwards; what a part tells those above it are
 * upcalls (loop.h). All of it runs with the engine's lock held.
 *
 *     host    death    messages    loop                                          threads and
 *             reports; what is left of a worker; in; out
 *     submit    group    actor                                                   what is asked for
 *     pool    request    launch    memory    yield    space    recover           processes,
 *             waiting, room, what is lost
 *     task    stream    state    send                                            a task's life, its
 *             yields, its way
 *     part    extent    promise    object    stored    moves    functions    link   values, memory
 *             of graphs, one worker, its prints, bytes */
#ifndef SK_LOCAL_INT_H
#define SK_LOCAL_INT_H

#include <pthread.h>

#include "base/containers/list.h"
#include "base/containers/map.h"
#include "engine/local/driver/actors/actor.h"
#include "engine/local/driver/loop/death.h"
#include "engine/local/driver/values/extent.h"
#include "engine/local/driver/link/functions.h"
#include "engine/local/driver/actors/group.h"
#include "engine/local/driver/loop/host.h"
#include "engine/local/driver/pool/launch.h"
#include "engine/local/wire/look.h"
#include "engine/local/driver/loop/loop.h"
#include "engine/local/driver/pool/memory.h"
#include "engine/local/driver/loop/messages.h"
#include "engine/local/driver/values/moves.h"
#include "engine/local/driver/values/object.h"
#include "engine/local/driver/values/part.h"
#include "engine/local/driver/link/link.h"
#include "engine/local/driver/pool/pool.h"
#include "engine/local/wire/prints.h"
#include "engine/local/driver/values/promise.h"
#include "engine/local/driver/tasks/recover.h"
#include "engine/local/driver/loop/request.h"
#include "engine/local/driver/link/send.h"
#include "engine/local/driver/space/space.h"
#include "engine/local/driver/tasks/state.h"
#include "engine/local/driver/values/stored.h"
#include "engine/local/driver/tasks/stream.h"
#include "engine/local/driver/loop/submit.h"
#include "engine/local/driver/tasks/task.h"
#include "engine/local/driver/tasks/yield.h"
#include "engine/local/wire/wire.h"
#include "engine/own/own.h"
#include "engine/place/res.h"
#include "store/store.h"

/* What a part keeps is a struct of its name, and written by its files only (OWNERS of
 * tests/shape.py): others read it, and call. */
struct sk_local {
    struct sk_engine base;
    const struct sk_upcalls *upcalls;
    pthread_mutex_t mu; /* recursive; guards everything below */
    /* callers waiting for their turn to drive, or for progress by another driver */
    pthread_cond_t turn;
    pthread_cond_t server_up; /* the watch thread, while there is no fork server */
    bool driving, closing;
    /* messages are read, or a worker is buried: a sink called from there that submits reads none */
    bool pumping;
    uint32_t n_callers;
    uint64_t progress; /* how often something changed that somebody may wait for: sk_progressed */
    uint64_t next_id;
    int64_t now_ns; /* of the last submission, or message that submits */
    int64_t n_cpu;
    int64_t spin_ns; /* of a caller that waits */

    /* what is shared with workers, and the pure parts */
    struct sk_forksrv forksrv;
    struct sk_seg ctl_seg, data_seg;
    struct sk_ctl *ctl;
    struct sk_store *store;
    struct sk_own *own;
    struct sk_lineage *lin;
    struct sk_place place;
    struct sk_res_names names;

    /* task, stream, functions */
    struct sk_map tasks; /* id -> sk_ltask, until finished */
    struct sk_map fns;
    uint32_t n_worker_streams; /* streams that workers read */
    uint32_t n_nested;         /* known tasks that tasks submitted */
    uint32_t n_alone;          /* known tasks that are to run alone */
    uint32_t n_cancel_rounds;  /* how often a task was cancelled with those that it submitted */
    int32_t task_retries;
    struct { /* task.c */
        /* sk_ltask.place.link: their arguments are all there, and they are looked at in turn
         * (sk_ltask_due) */
        struct sk_list tasks;
        bool looking;
    } due;

    struct sk_stored_all stored;
    struct sk_space space;
    struct sk_moves moves;
    struct sk_lgraphs graphs; /* extent */
    struct sk_list promises;
    struct sk_lmem mem;
    struct sk_history past; /* state */

    uint64_t n_lost;               /* values, ever: who has looked before looks again */
    struct {                       /* recover */
        struct sk_obj_id_vec lost; /* PENDING objects to make again, at the next dispatch */
        bool running;
        struct sk_relic_vec {
            struct sk_relic {
                uint64_t oid, off;
            } *p;
            uint32_t n, cap;
            /* bytes of lost values that somebody still reads, and the objects that hold the
             * references in them */
        } relics;
        uint64_t lineage_bytes;
    } recovery;

    struct { /* actor */
        struct sk_list all;
        struct sk_list wanting; /* those that could start and have no worker */
        struct sk_list names;   /* sk_name */
        uint32_t n_unreferenced;
    } actors;

    struct {                  /* group */
        struct sk_list all;   /* sk_lgroup */
        struct sk_list names; /* sk_name */
        struct sk_env_vec {
            struct sk_bytes *p;
            uint32_t n, cap;
        } envs; /* environment i + 1 */
    } groups;

    struct sk_worker_pool pool;
    struct sk_prints *prints; /* the program's, or NULL */

    struct sk_list watches; /* request: sk_req of callers in the driver */
    /* loop: since when nothing but the driver's reading would help, at this `progress` */
    struct {
        int64_t since_ns;
        uint64_t progress;
    } stall;

    struct { /* host: the engine's threads */
        pthread_t loop_thread, watch_thread;
        bool threads_up;
        bool roomy; /* found so at the last look: much more was known than is now */
    } host;
    struct { /* of the program, from its opening on: see conf.h */
        bool (*interrupted)(void *ctx);
        void *interrupted_ctx;
        void (*named)(void *ctx, struct sk_bytes space, struct sk_bytes name);
        void *named_ctx;
    } hooks;
    struct { /* ever; for who looks on */
        uint64_t n_submits, n_tasks_done, n_retries, n_worker_deaths, n_reruns;
    } stats;
};

static inline struct sk_obj *sk_obj_get(struct sk_local *l, uint64_t id) {
    return sk_own_get(l->own, id);
}
/* Something changed that somebody may wait for. */
static inline void sk_progressed(struct sk_local *l) { l->progress++; }
/* n ids that nothing had before; the first of them. */
static inline uint64_t sk_new_ids(struct sk_local *l, uint32_t n) {
    l->next_id += n;
    return l->next_id - n + 1;
}
/* Somebody who used memory of the store let some go: a value, a view of it, an argument, a lease.
 * What waits for room may look for it again. */
static inline void sk_space_released(struct sk_local *l) { l->space.n_released++; }
static inline bool sk_space_awaited(const struct sk_local *l) {
    /* somebody waits for room, or for an object on disk */
    return !sk_list_empty(&l->space.mem_waits) || !sk_list_empty(&l->stored.in[SK_STORED_WANTED]);
}
static inline void sk_lmem_turn(struct sk_local *l, int64_t now_ns) {
    if (SK_UNLIKELY(now_ns >= l->mem.next_ns)) sk_lmem_look(l, now_ns);
}
static inline bool sk_lmem_may_start(struct sk_local *l) {
    /* asked before each launch; sets place.launch */
    enum sk_place_launch mode = SK_LIKELY(sk_memory_free(&l->mem.policy, l->n_alone != 0))
                                    ? SK_LAUNCH_ALL
                                    : sk_lmem_mode(l);
    sk_place_allow(&l->place, mode);
    return mode == SK_LAUNCH_ALL || mode == SK_LAUNCH_ONE;
}

bool sk_local_check(struct sk_local *l); /* check.c: every structure against the others */

#endif
