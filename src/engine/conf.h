/* conf.h - what an engine is opened with. Fields of one engine say which; the others ignore
 * them. */
#ifndef SK_CONF_H
#define SK_CONF_H

#include "engine/worker.h"

struct sk_guest; /* guest.h */

struct sk_engine_conf {
    struct sk_res total;             /* resources of this machine */
    const char *const *custom_names; /* [SK_RES_CUSTOM + i] */
    uint32_t n_custom;
    const int64_t *more; /* amounts of the custom resources that have no place in `total` */
    uint64_t store_bytes;
    uint32_t max_workers; /* 0: chosen */
    int64_t spin_ns;      /* how long a waiter spins before it sleeps; -1: chosen */
    /* idle workers beyond the CPUs are ended after this; 0: chosen */
    int64_t idle_reap_ns;
    char *const *spawn_argv;  /* the fork server's command line (local) */
    char *const *spawn_env;   /* whole environment, NULL: inherit */
    struct sk_bytes preload;  /* first note to the fork server */
    struct sk_runner *runner; /* inline: runs the tasks; local: unused in the driver */
    uint64_t seed;            /* inline: order of tasks; 0: submission order */
    /* inline: be an engine without notes, for tests of what foreign engines need */
    bool no_notes;
    /* local: where objects go when the store is full, in turn; none: a full store is an error */
    const char *const *spill_dirs;
    uint32_t n_spill_dirs;
    /* local: asked every 100 ms, without the lock, by a caller that waits for room; true:
     * SK_ECANCEL. May be NULL */
    bool (*interrupted)(void *ctx);
    void *interrupted_ctx;
    /* local: an actor whose namespace begins with '_' was made and has a name: a worker asks this
     * process for something. With the engine's lock held: must neither block nor call the engine.
     * May be NULL */
    const struct sk_graph_hooks *graphs; /* channels.h; NULL: no compiled graphs */
    void (*named)(void *ctx, struct sk_bytes space, struct sk_bytes name);
    void *named_ctx;
    /* local: most bytes of disk; 0: as much as there is; UINT64_MAX: nine tenths of what is free,
     * whenever more is wanted */
    uint64_t spill_bytes;
    /* local: what can neither be in the store nor leave it lies in a file that is mapped behind the
     * store, of so many bytes at most; 0: four times the store, at least 4 GiB; UINT64_MAX: no such
     * file, then it is an error */
    uint64_t overflow_bytes;
    /* local: memory for finished tasks that could make lost objects again; 0: 64 MiB */
    uint64_t lineage_bytes;
    /* local: the budget of store and worker heaps together (memory.h); 0: none but the machine's,
     * or the cgroup's */
    uint64_t memory_bytes;
    /* so much of the machine's, or the cgroup's, may be used, by whomever; 0: 950 */
    uint32_t memory_permille;
    /* looked at so often at least while something runs; 0: every 250 ms; -1: never, and nobody is
     * stopped for it */
    int64_t memory_every_ns;
    /* how often a task that was stopped for memory is run again, at no other cost; 0: until it has
     * run alone; -1: not */
    int32_t oom_retries;
    int32_t task_retries; /* max_retries of tasks that do not say */
    struct sk_prints *
        /* local: takes what workers print, and outlives the engine (host.h); NULL: they write where
         * the driver's descriptors lead */
        prints;
    const struct sk_guest *guest; /* guest: what it is made of; copied */
};

#endif
