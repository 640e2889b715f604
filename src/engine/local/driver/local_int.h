/* local_int.h - struct sk_local, the driver's side of the local engine, which is made of the
 * structs of its parts.
 *
 * Each part has a header of its name that says what it offers and which parts it may call
 * (tests/shape.py checks that). The parts lie in rooms (README.md has a table), and a part calls
 * parts of its own room and of rooms further down in this list; it tells those above it by upcalls
 * (loop/loop.h). Everything here runs with the engine's lock held.
 *
 *     calls     the calls of engine.h and of the side contracts
 *     loop      threads; messages in, tasks out; waiting workers; the end of a worker
 *     actors    actors; placement groups and environments
 *     pool      worker processes and their heaps; the last check of a task before it is sent
 *     space     room in the store: waits, eviction, reading back
 *     tasks     a task's life, its yields, its history; making lost values again
 *     link      one worker's rings; functions and tasks that are sent to it
 *     values    objects and their values; promises; memory of graphs; sinks that follow values */
#ifndef SK_LOCAL_INT_H
#define SK_LOCAL_INT_H

#include <pthread.h>

#include "base/containers/list.h"
#include "base/containers/map.h"
#include "engine/local/driver/loop/abroad.h"
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
#include "engine/local/driver/loop/named.h"
#include "engine/local/driver/values/object.h"
#include "engine/local/driver/values/part.h"
#include "engine/local/driver/link/link.h"
#include "engine/local/driver/pool/pool.h"
#include "engine/local/wire/prints.h"
#include "engine/local/driver/values/promise.h"
#include "engine/local/driver/tasks/recover.h"
#include "engine/local/driver/loop/request.h"
#include "engine/local/driver/link/send.h"
#include "engine/local/driver/tasks/show.h"
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

/* The state of a part is a struct of its name and is written by the part's files only (OWNERS of
 * tests/shape.py): other parts read it, and call the part. */
struct sk_local {
    struct sk_engine base;
    const struct sk_upcalls *upcalls;
    pthread_mutex_t mu; /* recursive; guards everything below */
    /* callers that wait for their turn to drive the loop, or for progress made by the caller that
     * drives */
    pthread_cond_t turn;
    pthread_cond_t server_up; /* the watch thread waits here while there is no fork server */
    bool driving, closing;
    /* Messages are being read, or a worker's death is being handled: a sink that is called
     * meanwhile and submits a task must not read messages. */
    bool pumping;
    uint32_t n_callers;
    uint64_t progress;         /* counts changes that some caller may wait for: sk_progressed */
    uint64_t next_id, id_base; /* conf.h */
    int64_t now_ns; /* time of the last submission, or of the last message that submits */
    int64_t n_cpu;
    int64_t spin_ns; /* how long a waiting caller spins */

    /* memory shared with workers, and the pure parts of the engine */
    struct sk_forksrv forksrv;
    struct sk_seg ctl_seg, data_seg;
    struct sk_ctl *ctl;
    struct sk_store *store;
    struct sk_own *own;
    struct sk_lineage *lin;
    struct sk_place place;
    struct sk_res_names names;

    /* of the parts task, stream and functions */
    struct sk_map tasks; /* id -> sk_ltask, until finished */
    struct sk_map fns;
    uint32_t n_worker_streams; /* streams whose reader is a worker */
    uint32_t n_nested;         /* known tasks that were submitted by tasks */
    uint64_t n_open;           /* tasks that have not ended */
    uint32_t n_alone;          /* known tasks that have to run alone */
    uint32_t n_cancel_rounds;  /* number of recursive cancels so far */
    int32_t task_retries;
    struct { /* of the part task */
        /* Tasks (sk_ltask.place.link) whose arguments all exist now; they are handled one after
         * the other (sk_ltask_due). */
        struct sk_list tasks;
        bool looking;
    } due;

    struct sk_stored_all stored;
    struct sk_space space;
    struct sk_moves moves;
    struct sk_lgraphs graphs; /* of the part extent */
    struct sk_list promises;
    struct {                       /* objects of other engines; of the part object */
        struct sk_foreign *server; /* NULL: nobody brings them */
        /* foreign objects whose entry is new: each has a reference of the driver until the next
         * drain, so that it lives until whoever met it has taken its own */
        SK_VEC(uint64_t) met;
        struct sk_map calls; /* first return -> struct sk_abroad */
        struct sk_map asks;  /* of the part named */
        bool queued;         /* the server was told that tasks wait which others may run */
        uint64_t next_ask;
    } foreign;
    struct sk_lmem mem;
    struct sk_history past; /* of the part state */
    struct sk_lshow show;

    /* number of values lost so far: when it has grown, a task checks its arguments once more */
    uint64_t n_lost;
    struct {                       /* of the part recover */
        struct sk_obj_id_vec lost; /* PENDING objects that the next dispatch has to make again */
        bool running;
        struct sk_relic_vec {
            struct sk_relic {
                uint64_t oid, off;
            } *p;
            uint32_t n, cap;
            /* bytes of lost values that a process still reads; for each, the object that holds the
             * references inside the bytes */
        } relics;
        uint64_t lineage_bytes;
    } recovery;

    struct { /* of the part actor */
        struct sk_list all;
        struct sk_list wanting; /* actors that could start but have no worker yet */
        struct sk_list names;   /* list of sk_name: names of living actors */
        uint32_t n_unreferenced;
    } actors;

    struct {                  /* of the part group */
        struct sk_list all;   /* list of sk_lgroup: all placement groups */
        struct sk_list names; /* list of sk_name: names of groups */
        struct sk_env_vec {
            struct sk_bytes *p;
            uint32_t n, cap;
        } envs; /* environment i + 1 */
    } groups;

    struct sk_worker_pool pool;
    struct sk_prints *prints; /* belongs to the program; may be NULL */

    struct sk_list watches; /* of the part request: the watches (sk_req) of callers in the driver */
    /* of the part loop: the time since when only a reader in the driver could bring progress, and
     * `progress` at that time */
    struct {
        int64_t since_ns;
        uint64_t progress;
    } stall;

    struct { /* of the part host: threads of the engine */
        pthread_t loop_thread, watch_thread;
        bool threads_up;
        /* true if the tables had room for many more entries than there were at the last check */
        bool roomy;
    } host;
    struct { /* callbacks of the program: see conf.h */
        bool (*interrupted)(void *ctx);
        void *interrupted_ctx;
        void (*named)(void *ctx, struct sk_bytes space, struct sk_bytes name);
        void *named_ctx;
    } hooks;
    struct { /* totals, for statistics */
        uint64_t n_submits, n_tasks_done, n_retries, n_worker_deaths, n_reruns;
    } stats;
};

static inline struct sk_obj *sk_obj_get(struct sk_local *l, uint64_t id) {
    return sk_own_get(l->own, id);
}
/* Tells waiting callers that something for which they may wait has changed. */
static inline void sk_progressed(struct sk_local *l) { l->progress++; }
/* Reserves n ids that were never used; returns the first of them. */
static inline uint64_t sk_new_ids(struct sk_local *l, uint32_t n) {
    l->next_id += n;
    return l->id_base + l->next_id - n + 1;
}
/* Notes that memory of the store was released (a value, a view, an argument or a lease): waits for
 * room are tried again. */
static inline void sk_space_released(struct sk_local *l) { l->space.n_released++; }
static inline bool sk_space_awaited(const struct sk_local *l) {
    /* True if a caller, worker or task waits for room in the store, or for an object on disk. */
    return !sk_list_empty(&l->space.mem_waits) || !sk_list_empty(&l->stored.in[SK_STORED_WANTED]);
}
static inline void sk_lmem_turn(struct sk_local *l, int64_t now_ns) {
    if (SK_UNLIKELY(now_ns >= l->mem.next_ns)) sk_lmem_look(l, now_ns);
}
static inline bool sk_lmem_may_start(struct sk_local *l) {
    /* Called before each launch; sets place.launch. True if tasks that need not run alone may
     * begin. */
    enum sk_place_launch mode = SK_LIKELY(sk_memory_free(&l->mem.policy, l->n_alone != 0))
                                    ? SK_LAUNCH_ALL
                                    : sk_lmem_mode(l);
    sk_place_allow(&l->place, mode);
    return mode == SK_LAUNCH_ALL || mode == SK_LAUNCH_ONE;
}

bool sk_local_check(struct sk_local *l); /* check.c: compares every structure with the others */

#endif
