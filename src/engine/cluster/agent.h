/* agent.h - the agent of a node: carries out what the driver of a cluster orders, on the engine of
 * this machine, and gives values to other nodes. It has no thread and no socket: its owner hands it
 * messages, calls sk_agent_step when the engine has events, and sends what its outboxes hold
 * (node.h does so over TCP; tests simulate it).
 *
 * Any engine of engine.h will do whose `get` of an object that exists does not wait, but for a disk
 * (local, inline). The agent holds one reference to each value that the driver has not dropped.
 * Outboxes may have bytes apart, which are views of the engine: whoever has taken an outbox frees
 * it before the agent ends.
 *
 * Thread-safety: one thread, or one lock, for all calls; the engine's events come on any thread. */
#ifndef SK_CLUSTER_AGENT_H
#define SK_CLUSTER_AGENT_H

#include "engine/cluster/msg.h"
#include "engine/engine.h"

struct sk_agent;
struct sk_agent_conf {
    struct sk_engine *engine; /* borrowed; closed by its owner after sk_agent_destroy */
    /* Called when there is an event for sk_agent_step, on any thread and maybe with locks of the
     * engine held. */
    void (*wake)(void *ctx);
    void *ctx;
    uint64_t id_base; /* of the engine (conf.h); 0: it knows no objects of others */
    /* What the engine's workers print, or NULL; taken here only, while the agent exists. */
    struct sk_prints *prints;
    bool labels;                 /* lines have "(name pid=N) " in front */
    struct sk_bytes node_labels; /* (wheres.h) */
};
sk_rc sk_agent_create(struct sk_agent **out, const struct sk_agent_conf *conf,
                      struct sk_err *err) SK_MUST_USE;
/* Ends all tasks and gives all references back. The engine delivers no event of this agent's tasks
 * after it. */
void sk_agent_destroy(struct sk_agent *a);

/* Takes a message of the driver (from = 0) or of node `from`. SK_ECORRUPT: it must not say that. */
sk_rc sk_agent_message(struct sk_agent *a, uint32_t from, const struct sk_cmsg *m,
                       struct sk_err *err) SK_MUST_USE;
/* Gives memory of the engine for a large value that is coming from node `from` (tcp.h, place).
 * NULL: nobody waits for it, or there is no room. */
uint8_t *sk_agent_place(struct sk_agent *a, uint32_t from, const struct sk_cmsg *m, size_t room,
                        void **owner);
void sk_agent_unplace(struct sk_agent *a, void *owner);
/* Call when node `number` cannot be reached: what is being read from it is missing. */
void sk_agent_peer_lost(struct sk_agent *a, uint32_t number);
/* Turns the engine's events since the last call into messages, and before them what their tasks
 * have printed. True: there were events. */
bool sk_agent_step(struct sk_agent *a);
/* Tells the driver what was printed since. */
void sk_agent_prints(struct sk_agent *a);
/* Tells the driver how much is free: a sign of life. */
void sk_agent_beat(struct sk_agent *a);
/* A task has begun to wait for an object of another engine since the last beat: what it takes is
 * free. waits: some task waits for one. */
bool sk_agent_stirred(const struct sk_agent *a);
bool sk_agent_waits(const struct sk_agent *a);

/* What waits to be sent to the driver (0) or to node `number`; NULL: there is nothing. */
struct sk_outbox *sk_agent_out(struct sk_agent *a, uint32_t number);
/* The next node after `number` (0: the first) that the agent knows; 0: there is none. *address is
 * where it can be reached; NULL: not known yet, but it has asked for something. */
uint32_t sk_agent_peer(const struct sk_agent *a, uint32_t number, const char **address,
                       uint64_t *incarnation);

struct sk_agent_stats {
    uint64_t n_tasks, n_waiting, n_values, n_actors, read_bytes;
    /* objects that the driver holds here; calls across, of either side; objects of others */
    uint64_t n_lent, n_calls, n_foreign;
};
struct sk_agent_stats sk_agent_stats(const struct sk_agent *a);

#endif
