/* conf.h - the configuration that an engine is opened with. A field that is marked with an
 * engine's name is ignored by the others. */
#ifndef SK_CONF_H
#define SK_CONF_H

#include "engine/worker.h"

struct sk_guest;        /* defined in guest.h */
struct sk_cluster_conf; /* defined in cluster/cluster.h */

struct sk_engine_conf {
    struct sk_res total; /* resources of this machine */
    /* names of custom resources; name i belongs to [SK_RES_CUSTOM + i] */
    const char *const *custom_names;
    uint32_t n_custom;
    const int64_t *more; /* amounts of the custom resources that have no place in `total` */
    uint64_t store_bytes;
    uint32_t max_workers; /* most worker processes; 0: the engine chooses */
    int64_t spin_ns;      /* how long a waiter spins before it sleeps; -1: the engine chooses */
    /* idle workers beyond the number of CPUs end after this time; 0: the engine chooses */
    int64_t idle_reap_ns;
    char *const *spawn_argv;  /* the fork server's command line (local) */
    char *const *spawn_env;   /* the fork server's whole environment; NULL: inherited */
    struct sk_bytes preload;  /* the first preload note to the fork server */
    struct sk_runner *runner; /* inline: runs the tasks; local: unused in the driver */
    uint64_t seed;            /* inline: seed of a random order of tasks; 0: order of submission */
    /* inline: behave as an engine without notes, to test what foreign engines need */
    bool no_notes;
    /* local: directories to which objects are spilled, in turn; none: a full store is an error */
    const char *const *spill_dirs;
    uint32_t n_spill_dirs;
    /* local: called every 100 ms, without the engine's lock, by a caller that waits for room. If
     * it returns true, the caller's call fails with SK_ECANCEL. May be NULL. */
    bool (*interrupted)(void *ctx);
    void *interrupted_ctx;
    const struct sk_graph_hooks *graphs; /* channels.h; NULL: no compiled graphs */
    /* named(), local: called when an actor is created with a name and in a namespace that begins
     * with '_': a worker uses this to ask the driver's process for a service. Called with the
     * engine's lock held: it must neither block nor call the engine. May be NULL. */
    void (*named)(void *ctx, struct sk_bytes space, struct sk_bytes name);
    void *named_ctx;
    /* local: most bytes on disk; 0: no limit; UINT64_MAX: nine tenths of the free disk space,
     * computed again whenever more is needed */
    uint64_t spill_bytes;
    /* local: size of the overflow, a file mapped behind the store for values that can neither be
     * in the store nor leave it. 0: four times the store, at least 4 GiB. UINT64_MAX: no
     * overflow, such a value is an error. */
    uint64_t overflow_bytes;
    /* local: most bytes of memory for finished tasks that are kept to make lost objects again; 0:
     * 64 MiB */
    uint64_t lineage_bytes;
    /* local: the budget of the store and the heaps of workers together (memory.h); 0: only the
     * limit of the machine or cgroup */
    uint64_t memory_bytes;
    /* share of the memory of the machine or cgroup that may be used by all processes, in
     * 1/1,000; 0: 950 */
    uint32_t memory_permille;
    /* longest time between two measurements of memory while tasks run; 0: 250 ms; -1: memory is
     * not measured, and no worker is stopped because memory is short */
    int64_t memory_every_ns;
    /* How many times a task that was stopped because memory was short runs again without using up
     * a retry. 0: until it has run alone. -1: never. */
    int32_t oom_retries;
    int32_t task_retries; /* max_retries of tasks that do not set it */
    /* local, cluster: receives the output of workers; lives longer than the engine (host.h). NULL:
     * workers write to the driver's descriptors, or (cluster) their output is dropped. */
    struct sk_prints *prints;
    /* local: all ids of the engine are above this number, a multiple of SK_ID_RANGE (foreign.h),
     * and below the next one; 0 for the only engine of a job */
    uint64_t id_base;
    /* local: the program's command line, as people shall see it (view.h); NULL: as the kernel has
     * it */
    const char *program;
    /* local: path of the file to which the engine's view is written at its end (view.h), also if
     * this process is killed; NULL: none */
    const char *record;
    const struct sk_guest *guest; /* guest: the engine's calls; copied */
    /* cluster: where its nodes are; its strings and bytes are borrowed as long as the engine is
     * being opened, its addresses as long as it is open */
    const struct sk_cluster_conf *cluster;
};

#endif
