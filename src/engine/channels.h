/* channels.h - side contract: memory that all processes of an engine map and that belongs to a
 * compiled graph, and news of the deaths of a graph's actors. An engine without shared memory
 * has none: there a graph runs by plain calls (skate/dag). */
#ifndef SK_CHANNELS_H
#define SK_CHANNELS_H

#include "engine/engine.h"

/* Callbacks of an engine into a graph, set when the engine is opened (conf.h). They run in the
 * driver's process, whichever process owns the graph. `head` is the extent that was allocated
 * first. They are called with locks held: they must neither block nor call the engine. */
struct sk_graph_hooks {
    /* A process of actor `a` has ended; `how` says why. restarts: the actor will have another
     * process. a.v is 0: the graph's owner has ended. a.v is UINT64_MAX: the engine closes, and
     * the graph's owner may go on reading the memory. */
    void (*bury)(void *head, sk_aid a, const char *how, bool restarts);
    /* Actor `a` was killed for good; bury is called when its process has ended. */
    void (*condemn)(void *head, sk_aid a, const char *how);
    /* True if a process may still read the memory of a closed graph. */
    bool (*in_use)(const void *head);
};

struct sk_channels_ops {
    /* the address that offsets count from in this process, and the number of bytes mapped */
    uint8_t *(*memory)(struct sk_engine *e, uint64_t *size);
    /* Says that threads of graphs call the engine from now on, beside the thread that runs the
     * tasks of this process. */
    sk_rc (*attend)(struct sk_engine *e, struct sk_err *err);
    /* Opens a graph, which this process owns. */
    sk_rc (*open)(struct sk_engine *e, uint64_t *graph, struct sk_err *err);
    /* Allocates len bytes (64-aligned; *cap is how many are usable) that belong to the graph
     * until free or close, even if processes die meanwhile. These bytes are never spilled. Waits
     * for room as buf_alloc does, with the same errors. SK_ECLOSED: the graph does not exist or was
     * closed. */
    sk_rc (*alloc)(struct sk_engine *e, uint64_t graph, uint64_t len, sk_off *off, uint64_t *cap,
                   struct sk_err *err);
    void (*free)(struct sk_engine *e, uint64_t graph, sk_off off);
    /* Closes a graph; its owner's death does the same. The memory is given back when it is not in
     * use; the engine checks this at each open and close of a graph and death of a worker. */
    void (*close)(struct sk_engine *e, uint64_t graph);
    /* Makes an object whose value this process will give later, and a reference to it: for
     * results that are passed on before they exist. If the process dies before, the value is an
     * error. */
    sk_rc (*promise)(struct sk_engine *e, sk_oid *out, struct sk_err *err);
    /* Gives a promised object its value, once. After an error it may be tried with another
     * value. */
    sk_rc (*keep)(struct sk_engine *e, sk_oid o, const struct sk_payload *p, struct sk_err *err);
    /* number of graphs that have memory, in the driver; elsewhere 0. For tests. */
    uint32_t (*living)(struct sk_engine *e);
};

#endif
