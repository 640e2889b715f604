/* abroad.h - the agent's part that knows references: objects and actors of its engine to which the
 * driver has references, and objects and actors of others to which there are references here
 * (engine/foreign.h; the messages HOLD to KILL of msg.h). It serves the engine as struct
 * sk_foreign.
 *
 * Rules
 *  1. An object of this engine that the driver holds has one reference from here, until UNHOLD.
 *  2. What the engine says is queued with its other events, in order, so HOLD goes to the driver
 *     before the end of the task that met the reference.
 *  3. A foreign value is small and comes with THERE, or is read when something waits for it: from
 *     here, from the node that has it, or else by WANT.
 *
 * Thread-safety: as agent.h; `queue` is called by any thread with locks of the engine held. */
#ifndef SK_CLUSTER_ABROAD_H
#define SK_CLUSTER_ABROAD_H

#include "engine/cluster/msg.h"
#include "engine/engine.h"

struct sk_arefs;

struct sk_arefs_host { /* the agent */
    struct sk_engine *e;
    struct sk_bytes labels; /* of this node (wheres.h) */
    void *ctx;
    void (*send)(void *ctx, const struct sk_cmsg *m); /* to the driver */
    /* Calls sk_arefs_news(news) after the events that came before. */
    void (*queue)(void *ctx, void *news);
    /* Reads a value from a node, for object `name`; sk_arefs_came gives it. False: the node is not
     * known. */
    bool (*read)(void *ctx, uint32_t node, uint64_t value, uint64_t name);
    /* Gives the object of a value that is here, without a reference. SK_ENOENT: it is not; others:
     * it could not be stored. */
    sk_rc (*have)(void *ctx, uint64_t value, sk_oid *out, struct sk_err *err);
    /* The engine's object is a value from now on; takes the reference over. drop: not any more. */
    void (*keep)(void *ctx, uint64_t value, sk_oid o);
    void (*drop)(void *ctx, uint64_t value);
    /* A task has begun to wait for an object, which frees what it takes meanwhile. */
    void (*waits)(void *ctx);
    /* As sk_foreign.queued. */
    void (*queued)(void *ctx);
};

/* SK_ENOSYS: the engine knows no foreign objects. */
sk_rc sk_arefs_create(struct sk_arefs **out, const struct sk_arefs_host *h,
                      struct sk_err *err) SK_MUST_USE;
/* Ends the calls that run here: each ends with an event. */
void sk_arefs_cancel(struct sk_arefs *r);
bool sk_arefs_wait(const struct sk_arefs *r); /* something waits for an object of another engine */
bool sk_arefs_idle(const struct sk_arefs *r); /* no call runs here */
/* Gives all references back and stops serving the engine; sk_arefs_free follows when what was
 * queued has been handed to sk_arefs_news. */
void sk_arefs_end(struct sk_arefs *r);
void sk_arefs_free(struct sk_arefs *r); /* NULL is fine */

void sk_arefs_news(struct sk_arefs *r, void *news);
/* HOLD, UNHOLD, THERE, CALL, ENDED, KILL of the driver. */
sk_rc sk_arefs_message(struct sk_arefs *r, const struct sk_cmsg *m, struct sk_err *err) SK_MUST_USE;
/* What was read for object `name`; NULL: it could not be read. A buffer that is taken over has no
 * data any more. */
void sk_arefs_came(struct sk_arefs *r, uint64_t name, const struct sk_payload *p);
/* Objects that the driver holds here, calls under way (of either side), objects of others. */
void sk_arefs_count(const struct sk_arefs *r, uint64_t *n_lent, uint64_t *n_calls,
                    uint64_t *n_foreign);

#endif
