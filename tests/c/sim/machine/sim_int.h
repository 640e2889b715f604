/* sim_int.h - inside the simulated machine: fibers, processes, links, the world.
 *
 *     driver's stack ──bell_wait──► world.c: step, step, step ... ──► back when its bell rang or
 * its time is over │ resumes a fiber (a worker process, running worker/engine.c and worker.c) until
 * it sleeps or is preempted │ lets a packet arrive (link.c), a process start, a report come, a
 * fault happen
 *
 * A process behind a network has rings of its own; link.c carries the messages between them and
 * those that the driver sees. */
#ifndef SK_SIM_INT_H
#define SK_SIM_INT_H

#include <setjmp.h>

#include "base/clock.h"
#include "base/rand.h"
#include "base/containers/vec.h"
#include "engine/local/driver/local_int.h"
#include "engine/local/worker/worker.h"
#include "engine/rules/pace.h"
#include "sim/machine/sim.h"

/* ---- fiber.c --------------------------------------------------------------------------------- */

struct sk_fiber {
    sigjmp_buf env;
    uint8_t *stack;
    void (*run)(void *arg);
    void *arg;
    bool begun, done;
};
/* SK_ENOMEM */
sk_rc sk_fiber_init(struct sk_fiber *f, void (*run)(void *arg), void *arg) SK_MUST_USE;
/* wherever it stands; not from inside */
void sk_fiber_deinit(struct sk_fiber *f);
/* until it yields or returns (done) */
void sk_fiber_resume(struct sk_fiber *f);
/* from inside: back to who resumed */
void sk_fiber_yield(void);

/* ---- link.c ---------------------------------------------------------------------------------- */

struct sk_sim;

struct sk_packet_msg { /* counted: it may be under way several times */
    uint32_t refs;
    size_t len;
    uint8_t bytes[];
};

struct sk_way { /* one direction of a link */
    struct sk_ring src, dst;
    uint64_t sent, want;                 /* sequence numbers: next to send, next to hand over */
    uint64_t acked;                      /* all before are there */
    int64_t again_ns;                    /* when what is not acknowledged is sent again */
    SK_VEC(struct sk_packet_msg *) held; /* [acked, sent) */
};

struct sk_packet {
    int64_t at_ns;
    uint32_t session; /* the process number it belongs to */
    uint32_t slot;
    bool up, ack;
    uint64_t seq;
    struct sk_packet_msg *msg;
};

struct sk_proc;
sk_rc sk_link_open(struct sk_proc *p) SK_MUST_USE;     /* p->c exists, not serving yet */
void sk_link_close(struct sk_proc *p);                 /* packets under way stay */
bool sk_link_due(struct sk_sim *s, struct sk_proc *p); /* something to send */
void sk_link_send(struct sk_sim *s, struct sk_proc *p);
bool sk_link_drained(struct sk_proc *p);           /* all that the process said has arrived */
void sk_link_arrive(struct sk_sim *s, uint32_t i); /* packet i of s->net */
int64_t sk_link_timer(const struct sk_proc *p);
void sk_packet_drop(struct sk_sim *s, uint32_t i);

/* ---- disk.c ---------------------------------------------------------------------------------- */

enum { SK_SIM_FILES = 16 };
struct sk_sim_file {
    uint8_t *p;
    uint8_t *there; /* a byte a page: it is allocated */
    uint64_t len, cap;
    bool used;
};
void sk_disk_hooks(struct sk_machine *m);
void sk_disk_close(struct sk_sim *s);

/* ---- world.c --------------------------------------------------------------------------------- */

enum { SK_SIM_PROCS = 64, SK_SIM_NODES = 8 };
enum sk_proc_state { SK_P_FREE, SK_P_STARTING, SK_P_LIVE, SK_P_DEAD /* the report is not out */ };

struct sk_proc {
    enum sk_proc_state state;
    uint32_t slot, node, proc;
    int32_t pid, status;
    int64_t at_ns;                /* STARTING, DEAD: when that is over */
    int64_t doom_ns;              /* LIVE: killed then; INT64_MAX: not */
    int64_t ready_ns;             /* LIVE: not resumed before */
    bool slow, asleep, spin, cut; /* cut: the link is cut, and messages in flight are lost */
    struct sk_bell *bell;         /* asleep */
    uint32_t seen;
    int64_t until_ns;
    struct sk_fiber fiber;
    struct sk_worker_engine *c; /* LIVE */
    struct sk_slot *sh;
    struct sk_way up, down; /* node > 0 */
    uint8_t *rings;
    void **mem; /* what it has taken from the heap */
    uint32_t n_mem, cap_mem;
};

struct sk_sim {
    struct sk_sim_conf conf;
    struct sk_engine_class cls; /* of the engine: told from others by it */
    struct sk_local *l;
    struct sk_runner *runner;
    struct sk_machine machine;
    _Atomic int64_t now;
    struct sk_rand rng;
    struct sk_proc procs[SK_SIM_PROCS];
    struct sk_proc *cur; /* whose fiber runs; NULL: the driver or the world */
    /* waiting: the driver is in bell_wait, its lock is free */
    bool in_world, calm, closing, waiting;
    uint32_t n_faults;
    int32_t next_pid;
    int64_t moved_ns; /* when something last happened that is no timer */
    struct sk_pace pace;
    SK_VEC(struct sk_packet) net;
    SK_VEC(struct sk_fork_report) reports;
    struct sk_sim_file files[SK_SIM_FILES];
    uint64_t disk_bytes;
    struct sk_sim_work { /* what a thread of the driver's process does, elsewhere */
        bool (*turn)(void *arg);
        void *arg;
        int64_t at_ns; /* INT64_MAX: nothing to do */
    } work;
    struct sk_map nodes; /* process number -> node + 1, of processes on other nodes */
    struct sk_map homes; /* offset + 1 of a value in the store -> node that has it + 1 */
    struct sk_bell nap;
    struct sk_sim_stats st;
};

uint64_t sk_sim_below(struct sk_sim *s, uint64_t n);
bool sk_sim_chance(struct sk_sim *s, uint32_t of_10000);
bool sk_sim_fault(struct sk_sim *s, uint32_t of_10000); /* counts, and none while it is calm */
void sk_sim_mix(struct sk_sim *s, uint64_t x);          /* into the hash of the schedule */
void sk_world_dump(struct sk_sim *s);                   /* on stderr: who waits for what */
void sk_world_open(struct sk_sim *s);
void sk_world_close(struct sk_sim *s);
void sk_world_kill(struct sk_sim *s, struct sk_proc *p);
static inline int64_t sk_sim_now(const struct sk_sim *s) {
    return atomic_load_explicit(&s->now, memory_order_relaxed);
}
/* memory for the rings of processes behind a network; false: none */
bool sk_world_rings(uint32_t n_slots);
struct sk_sim *sk_sim_of(const struct sk_engine *e);

#endif
