/* sim.h - the simulated machine of the engine `sim`: what a test may ask of it beyond engine.h.
 *
 * `sim` is the local engine itself, driver and worker code as they are, on a machine that is
 * simulated: processes are fibers of one thread, time is virtual, segments are heap, and every
 * interleaving, delay and fault follows from one seed (open.c, docs/design/sim.md). One at a time
 * in a process. Tasks are C functions (conf.runner); one may be abandoned at any fault point and in
 * any call of the engine, as a
 * killed process is: what it took by sk_alloc is freed then, other heap memory it must not hold. */
#ifndef SK_SIM_H
#define SK_SIM_H

#include "engine/conf.h"
#include "engine/streams.h"
#include "engine/groups.h"
#include "engine/state.h"

/* Bugs that can be switched on, to see that a checker finds them. All are in what the simulated
 * machine does. */
enum sk_sim_bug {
    SK_SIM_BUG_LATE = 1,    /* messages of a dead worker are taken for its successor's */
    SK_SIM_BUG_TWICE = 2,   /* a message that the network delivers twice is handled twice */
    SK_SIM_BUG_ORDER = 4,   /* messages are handled as they arrive, not as they were sent */
    SK_SIM_BUG_LOSS = 8,    /* a message that the network loses is not sent again */
    SK_SIM_BUG_UNTOLD = 16, /* the death of a worker is not reported */
    SK_SIM_BUG_ARGS = 32,   /* the arguments of a task are let go when it starts */
    SK_SIM_BUG_ROT = 64     /* a byte of the store changes */
};

struct sk_sim_conf { /* all zero: no faults, one node. Chances are of 10,000 */
    uint64_t seed;
    /* besides the driver's own; workers are spread over all, each behind its network */
    uint32_t n_nodes;
    uint32_t preempt; /* at a fault point: others go on first */
    uint32_t kill;    /* at a step: a worker process dies */
    /* at a step: all processes of a node die, values that they made in the store are lost, messages
     * under way come late or never */
    uint32_t node_lost;
    /* of a value in the store: found gone when it is needed */
    uint32_t value_lost;
    uint32_t net_loss, net_twice, net_late; /* of a packet; late: fifty times as long */
    uint64_t disk_bytes;                    /* of the disk where values are spilled; 0: no end */
    uint32_t disk_rot;                      /* of a write: a byte of it changes */
    uint32_t slow;                          /* of a worker: it runs a thousand times slower */
    uint32_t spawn_fails;                   /* of a start of a worker */
    /* kills, lost nodes, lost values and failed starts in all; 0: no limit */
    uint32_t max_faults;
    uint64_t max_steps; /* more are taken for a livelock; 0: 5,000,000 */
    uint32_t bugs;
    bool trace; /* on stderr: each step */
    void *ctx;
    /* a worker died that had this task: begun (it may have ended long ago), or queued */
    void (*on_kill)(void *ctx, sk_tid t, bool begun);
    /* nothing can ever happen any more, or nothing does. Must not return */
    void (*on_stuck)(void *ctx, const char *why);
};

struct sk_sim_stats {
    /* of schedule: a process runs from one point where others can go on to the next, a packet
     * arrives, a fault happens */
    uint64_t steps;
    uint64_t n_disk_writes, n_disk_reads, n_disk_full, n_disk_rot, n_disk_filled;
    uint64_t n_kills, n_nodes_lost, n_values_lost, n_spawns, n_spawns_failed;
    /* late: dropped, their session was over */
    uint64_t n_packets, n_packets_lost, n_packets_twice, n_resent, n_late;
    int64_t now_ns;
    uint64_t hash; /* of the whole schedule: equal for equal seeds */
};

/* conf as for `local`; spawn_argv is not needed, runner is. */
sk_rc sk_sim_open(const struct sk_engine_conf *conf, const struct sk_sim_conf *sim,
                  struct sk_engine **out, struct sk_err *err) SK_MUST_USE;
void sk_sim_get_stats(const struct sk_engine *e, struct sk_sim_stats *out);
/* no faults from here on (the network stays what it is), or faults again */
void sk_sim_calm(struct sk_engine *e, bool calm);
/* every structure of the driver against the others; between its calls */
bool sk_sim_check(struct sk_engine *e);
/* in a task or in the driver between calls: so much virtual time passes */
void sk_sim_nap(int64_t ns);
uint64_t sk_sim_objects(const struct sk_engine *e); /* alive now */
uint64_t sk_sim_tasks(const struct sk_engine *e);   /* not finished */
/* alive? held how often? */
bool sk_sim_object(const struct sk_engine *e, sk_oid o, uint64_t *count);
bool sk_sim_each(const struct sk_engine *e, uint32_t *cursor, sk_oid *o);

#endif
