/* channels.h - side contract: memory that all processes of an engine map and that belongs to a
 * compiled graph, and who hears of an actor's death. An engine
 * without shared memory has none: there a graph runs by plain calls (skate/dag). */
#ifndef SK_CHANNELS_H
#define SK_CHANNELS_H

#include "engine/engine.h"

/* What an engine asks of a graph, in the driver's process, whoever owns the graph; set when the
 * engine is opened (conf.h). The head of a graph is the extent that was
 * allocated first. With locks held: they must neither block nor call the engine. */
struct sk_graph_hooks {
    /* A process of actor `a` has ended, `how` says why. restarts: it will have another one. a.v 0:
     * the graph's owner has ended. UINT64_MAX: the engine closes, and who owns it may go on
     * looking. */
    void (*bury)(void *head, sk_aid a, const char *how, bool restarts);
    /* `a` was killed for good; when its process has ended, bury is called */
    void (*condemn)(void *head, sk_aid a, const char *how);
    /* of one that was closed: somebody may still look at its memory */
    bool (*in_use)(const void *head);
};

struct sk_channels_ops {
    /* what offsets count from, in this process, and how many bytes are mapped */
    uint8_t *(*memory)(struct sk_engine *e, uint64_t *size);
    /* Threads of graphs call the engine from now on, beside the one that runs the tasks of this
     * process. */
    sk_rc (*attend)(struct sk_engine *e, struct sk_err *err);
    /* this process owns it */
    sk_rc (*open)(struct sk_engine *e, uint64_t *graph, struct sk_err *err);
    /* len bytes (64-aligned, *cap of them are there) that are the graph's until free or close,
     * whatever processes die meanwhile. They are not spilled. Waits for room as buf_alloc does,
     * with its errors. SK_ECLOSED: there is no such graph (any more). */
    sk_rc (*alloc)(struct sk_engine *e, uint64_t graph, uint64_t len, sk_off *off, uint64_t *cap,
                   struct sk_err *err);
    void (*free)(struct sk_engine *e, uint64_t graph, sk_off off);
    /* By its owner, or by the death of that. All its memory is given back as soon as it is not in
     * use: that is looked at when a graph is opened or closed and when a worker dies. */
    void (*close)(struct sk_engine *e, uint64_t graph);
    /* An object that this process will give a value, and a reference to it: results that are passed
     * on before they are there. If it dies before, the value is an error. */
    sk_rc (*promise)(struct sk_engine *e, sk_oid *out, struct sk_err *err);
    sk_rc (*keep)(struct sk_engine *e, sk_oid o, const struct sk_payload *p,
                  /* once; after an error it may be tried with another value */
                  struct sk_err *err);
    /* graphs that have memory, in the driver; elsewhere 0. For tests */
    uint32_t (*living)(struct sk_engine *e);
};

#endif
