/* sim.h - the simulated machine of the engine `sim`: the calls for tests beyond engine.h.
 *
 * `sim` is the local engine itself, with the code of its driver and workers unchanged, on a
 * simulated machine: processes are fibers of one thread, time is virtual, segments are heap memory,
 * and one seed decides every interleaving, delay and fault (open.c, docs/design/sim.md). A process
 * has at most one simulation. Tasks are C functions (conf.runner). A task may be abandoned at any
 * fault point and in any call of the engine, as in a killed process: its memory from sk_alloc is
 * freed then, and it must hold no other heap memory. */
#ifndef SK_SIM_H
#define SK_SIM_H

#include "engine/conf.h"
#include "engine/streams.h"
#include "engine/groups.h"
#include "engine/state.h"

/* Bugs that a test can switch on, to see that its checker finds them. They are bugs of the
 * simulated machine, not of the engine. */
enum sk_sim_bug {
    /* messages of a dead worker are treated as messages of the next one in its slot */
    SK_SIM_BUG_LATE = 1,
    SK_SIM_BUG_TWICE = 2,   /* a message that the network delivers twice is handled twice */
    SK_SIM_BUG_ORDER = 4,   /* messages are handled as they arrive, not as they were sent */
    SK_SIM_BUG_LOSS = 8,    /* a message that the network loses is not sent again */
    SK_SIM_BUG_UNTOLD = 16, /* the death of a worker is not reported */
    SK_SIM_BUG_ARGS = 32,   /* a task's arguments are released when it starts, not when it ends */
    SK_SIM_BUG_ROT = 64     /* a byte of the store changes */
};

struct sk_sim_conf { /* All zero: no faults, one node. A chance is a number out of 10,000. */
    uint64_t seed;
    /* Nodes besides the driver's own. Workers are spread over all nodes; those elsewhere are behind
     * a network. */
    uint32_t n_nodes;
    uint32_t preempt; /* chance that at a fault point other processes run first */
    uint32_t kill;    /* chance, at each step, that a worker process dies */
    /* Chance, at each step, that a node is lost: all its processes die, the values in the store
     * that they made are lost, and their messages under way arrive late or never. */
    uint32_t node_lost;
    /* Chance that a value in the store is found lost when it is needed. */
    uint32_t value_lost;
    /* chances that a packet is lost, doubled, late; a late one takes fifty times as long */
    uint32_t net_loss, net_twice, net_late;
    uint64_t disk_bytes; /* size of the disk for spilled values; 0: no limit */
    uint32_t disk_rot;   /* chance that one byte of a write to disk changes */
    uint32_t slow; /* chance that a worker process is slow: it waits up to 2 ms after each turn */
    uint32_t spawn_fails; /* chance that the start of a worker fails */
    /* Limit on the number of kills, lost nodes, lost values and failed starts together; 0: none. */
    uint32_t max_faults;
    uint64_t max_steps; /* a longer run counts as a livelock; 0: 5,000,000 */
    uint32_t bugs;
    bool trace; /* prints each step on stderr */
    void *ctx;
    /* Called when a worker that had this task died. begun: the task had begun (and may have ended
     * long ago); false: it was queued. */
    void (*on_kill)(void *ctx, sk_tid t, bool begun);
    /* Called when no step is possible any more, or only timers are. Must not return. */
    void (*on_stuck)(void *ctx, const char *why);
};

struct sk_sim_stats {
    /* Steps of the schedule: a process ran to the next point where others can go on, a packet
     * arrived, or a fault happened. */
    uint64_t steps;
    uint64_t n_disk_writes, n_disk_reads, n_disk_full, n_disk_rot, n_disk_filled;
    uint64_t n_kills, n_nodes_lost, n_values_lost, n_spawns, n_spawns_failed;
    /* n_late: packets that were dropped because their session was over */
    uint64_t n_packets, n_packets_lost, n_packets_twice, n_resent, n_late;
    int64_t now_ns;
    uint64_t hash; /* hash of the whole schedule; equal seeds give equal hashes */
};

/* Opens the engine. conf: as for the engine `local`, but runner is required and spawn_argv is not
 * used. SK_EINVAL: no runner, or too many nodes. */
sk_rc sk_sim_open(const struct sk_engine_conf *conf, const struct sk_sim_conf *sim,
                  struct sk_engine **out, struct sk_err *err) SK_MUST_USE;
void sk_sim_get_stats(const struct sk_engine *e, struct sk_sim_stats *out);
/* Switches faults off (the network stays as it is) or on again. */
void sk_sim_calm(struct sk_engine *e, bool calm);
/* Checks each structure of the driver against the others. Call it between the engine's calls. */
bool sk_sim_check(struct sk_engine *e);
/* Lets virtual time pass, in a task or, between calls, in the driver. */
void sk_sim_nap(int64_t ns);
uint64_t sk_sim_objects(const struct sk_engine *e); /* objects that are alive */
uint64_t sk_sim_tasks(const struct sk_engine *e);   /* tasks that have not ended */
/* True: the object is alive. count: its references. */
bool sk_sim_object(const struct sk_engine *e, sk_oid o, uint64_t *count);
bool sk_sim_each(const struct sk_engine *e, uint32_t *cursor, sk_oid *o);

#endif
