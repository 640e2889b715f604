/* sim_int.h - inside the simulated machine: fibers, processes, links, the world.
 *
 *     driver's stack ──bell_wait──► world.c: step, step, step ... ──► back when the driver's bell
 *                                     │                                rang or its time is over
 *                                     │ resumes a fiber (a worker process, which runs the engine's
 *                                     │ worker code) until it sleeps or is preempted
 *                                     │ lets a packet arrive (link.c), a process start, a report
 *                                     │ come, or a fault happen
 *
 * A process behind a network has rings of its own. link.c carries messages between these and the
 * rings that the driver sees. */
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
/* Makes a fiber that will call run(arg). SK_ENOMEM. */
sk_rc sk_fiber_init(struct sk_fiber *f, void (*run)(void *arg), void *arg) SK_MUST_USE;
/* Frees the stack, even if the fiber has not returned. Not to be called from inside the fiber. */
void sk_fiber_deinit(struct sk_fiber *f);
/* Lets the fiber run until it yields or returns (done). */
void sk_fiber_resume(struct sk_fiber *f);
/* From inside a fiber: goes back to the caller of sk_fiber_resume. */
void sk_fiber_yield(void);

/* ---- link.c ---------------------------------------------------------------------------------- */

struct sk_sim;

struct sk_packet_msg { /* counts references, because the message may be under way several times */
    uint32_t refs;
    size_t len;
    uint8_t bytes[];
};

struct sk_way { /* one direction of a link */
    struct sk_ring src, dst;
    /* sequence numbers: sent: of the next message to send; want: of the next message to deliver */
    uint64_t sent, want;
    uint64_t acked;                      /* all messages before this number have arrived */
    int64_t again_ns;                    /* when unacknowledged messages are sent again */
    SK_VEC(struct sk_packet_msg *) held; /* the messages [acked, sent) */
};

struct sk_packet {
    int64_t at_ns;
    uint32_t session; /* process number of the worker that sends or receives the packet */
    uint32_t slot;
    bool up, ack;
    uint64_t seq;
    struct sk_packet_msg *msg;
};

struct sk_proc;
/* Opens the link of a process: p->c exists and does not serve yet. */
sk_rc sk_link_open(struct sk_proc *p) SK_MUST_USE;
/* Closes the link. Packets under way stay. */
void sk_link_close(struct sk_proc *p);
/* True: the link has something to send now. */
bool sk_link_due(struct sk_sim *s, struct sk_proc *p);
void sk_link_send(struct sk_sim *s, struct sk_proc *p);
/* True if all messages of the process have arrived, or never will. */
bool sk_link_drained(struct sk_proc *p);
/* Handles the arrival of packet i of s->net. */
void sk_link_arrive(struct sk_sim *s, uint32_t i);
int64_t sk_link_timer(const struct sk_proc *p);
void sk_packet_drop(struct sk_sim *s, uint32_t i);

/* ---- disk.c ---------------------------------------------------------------------------------- */

enum { SK_SIM_FILES = 16 };
struct sk_sim_file {
    uint8_t *p;
    uint8_t *there; /* one byte a page: the page is allocated */
    uint64_t len, cap;
    bool used;
};
void sk_disk_hooks(struct sk_machine *m);
void sk_disk_close(struct sk_sim *s);

/* ---- world.c --------------------------------------------------------------------------------- */

enum { SK_SIM_PROCS = 64, SK_SIM_NODES = 8 };
enum sk_proc_state {
    SK_P_FREE,
    SK_P_STARTING,
    SK_P_LIVE,
    SK_P_DEAD /* dead; the driver has not got the report yet */
};

struct sk_proc {
    enum sk_proc_state state;
    uint32_t slot, node, proc;
    int32_t pid, status;
    int64_t at_ns;                /* STARTING, DEAD: when the state ends */
    int64_t doom_ns;              /* LIVE: when it is killed; INT64_MAX: never */
    int64_t ready_ns;             /* LIVE: it is not resumed before this time */
    bool slow, asleep, spin, cut; /* cut: the link is cut, and messages under way are lost */
    struct sk_bell *bell;         /* asleep: the bell that would wake it */
    uint32_t seen;
    int64_t until_ns;
    struct sk_fiber fiber;
    struct sk_worker_engine *c; /* LIVE */
    struct sk_slot *sh;
    struct sk_way up, down; /* its link, if it is on another node */
    uint8_t *rings;
    void **mem; /* heap memory that it has taken */
    uint32_t n_mem, cap_mem;
};

struct sk_sim {
    struct sk_sim_conf conf;
    struct sk_engine_class cls; /* the engine's class; a sim engine is known by it */
    struct sk_local *l;
    struct sk_runner *runner;
    struct sk_machine machine;
    _Atomic int64_t now;
    struct sk_rand rng;
    struct sk_proc procs[SK_SIM_PROCS];
    struct sk_proc *cur; /* the process whose fiber runs; NULL: the driver or the world */
    /* waiting: the driver is in bell_wait, and its lock is free */
    bool in_world, calm, closing, waiting;
    uint32_t n_faults;
    int32_t next_pid;
    int64_t moved_ns; /* time of the last event that was not a timer */
    struct sk_pace pace;
    SK_VEC(struct sk_packet) net;
    SK_VEC(struct sk_fork_report) reports;
    struct sk_sim_file files[SK_SIM_FILES];
    uint64_t disk_bytes;
    struct sk_sim_work { /* the work of one of the driver's threads, which is done here in a step */
        bool (*turn)(void *arg);
        void *arg;
        int64_t at_ns; /* time of its next work; INT64_MAX: it has none */
    } work;
    struct sk_map nodes; /* process number -> node + 1, for processes on other nodes */
    struct sk_map homes; /* offset + 1 of a value in the store -> 1 + the node that has it */
    struct sk_bell nap;
    struct sk_sim_stats st;
};

uint64_t sk_sim_below(struct sk_sim *s, uint64_t n);
bool sk_sim_chance(struct sk_sim *s, uint32_t of_10000);
/* Draws whether a fault happens, and counts it; always false while the machine is calm. */
bool sk_sim_fault(struct sk_sim *s, uint32_t of_10000);
void sk_sim_mix(struct sk_sim *s, uint64_t x); /* mixes x into the hash of the schedule */
void sk_world_dump(struct sk_sim *s);          /* prints on stderr which process waits for what */
void sk_world_open(struct sk_sim *s);
void sk_world_close(struct sk_sim *s);
void sk_world_kill(struct sk_sim *s, struct sk_proc *p);
static inline int64_t sk_sim_now(const struct sk_sim *s) {
    return atomic_load_explicit(&s->now, memory_order_relaxed);
}
/* Allocates memory for the rings of processes behind a network; false: out of memory. */
bool sk_world_rings(uint32_t n_slots);
struct sk_sim *sk_sim_of(const struct sk_engine *e);

#endif
