/* wire.h - the control segment, the messages and the values of the local engine, for driver and
 * workers.
 *
 * Shared memory: one control segment (the driver's bells; for each worker a slot with its bell,
 * claim words and two rings) and one data segment (the store's extents). Both are memfds
 * inherited by the fork server and so by every worker. All metadata (objects, tasks, counts,
 * extents) is private to the driver; a worker that dies leaves at most an unfinished message,
 * which is never read. spec.c encodes and decodes the specs of tasks and actors. */
#ifndef SK_LOCAL_WIRE_H
#define SK_LOCAL_WIRE_H

#include "base/wire.h"
#include "engine/engine_int.h"
#include "ipc/ipc.h"

#define SK_RING_SIZE (256u * 1024u)
#define SK_CLAIMS 2048u /* claim words of a worker, used round robin */
/* most calls on an actor's worker; at most half of the claim words */
#define SK_ACTOR_DEPTH_MAX 1024u
#define SK_CTL_MAGIC 0x4c544b53u
#define SK_CTL_VERSION 8u
/* a worker leases store memory in pieces of this size and cuts small values from it */
#define SK_LEASE_CHUNK (4u << 20)

/* ---- control segment ------------------------------------------------------------------------- */

/* Fields of the control segment: writer | reader | memory order; then the state that the death of
 * the worker leaves.
 *
 *  magic..data_size, id_base
 *                     driver, once, before any worker | all
 *  who                driver, by sk_ctl_drives | workers | seq_cst
 *  bell[2]            all ring it | driver sleeps on it | see ipc.h
 *  slot.bell          driver rings it | worker sleeps on it | see ipc.h
 *                     asleep = 1: the driver makes one wake-up call in vain
 *  slot.claims[i]     driver sets (task << 2 | QUEUED) before the message; after that both
 *                     sides change it by compare-and-swap | both | acq_rel
 *                     STARTED: the task was running, so the death costs an attempt
 *                     QUEUED: it was not
 *  slot.want_space    both | both | seq_cst
 *                     1: the driver makes one wake-up call in vain
 *  slot.interrupted   worker sets the task that it interrupted, driver 0 before it asks |
 *                     both | acq_rel
 *                     the driver sends SIGINT again until the worker has set it
 *  slot.since_ns      worker, before task | driver, `skate stack` after task
 *                     the time of a task that no longer runs
 *  slot.task          worker | driver, `skate stack` | release, acquire
 *                     a task that no longer runs
 *  slot.task_name     worker | driver, `skate stack`
 *                     the text may be torn: it is only shown
 *  slot.hand..doing   worker | driver, after the worker's death | relaxed
 *                     what it was working on in task `hand`; may be torn: it is only shown
 *  slot.crash         worker | driver, after the worker's death
 *                     the text of the crash handler
 *  printed            workers | driver | release, acquire
 *                     text in a pipe that was not counted: it is shown a moment later
 *  driver_pid, n_used, waits
 *                     driver | `skate stack`; the text may be torn: it is only shown */
struct sk_slot {
    struct sk_bell bell;
    _Atomic uint64_t claims[SK_CLAIMS];
    _Atomic uint32_t want_space; /* the worker waits for room in its ring to the driver */
    /* process number of the present worker in this slot (never used twice) */
    uint32_t proc;
    _Atomic uint64_t interrupted;
    uint32_t pad[12];
    /* the task that began last and has not ended, for state lists and `skate stack`; 0: none */
    _Atomic uint64_t task;
    _Atomic int64_t since_ns;
    int32_t pid;
    char task_name[108];
    _Atomic uint64_t hand; /* the task that `doing` tells about */
    char doing[504];
    char crash[2048]; /* text that a crashing worker leaves (Python's faulthandler writes here) */
};
_Static_assert(sizeof(struct sk_slot) % 64 == 0, "slots keep cache lines apart");

struct sk_ctl {
    uint32_t magic, version;
    uint32_t n_slots, ring_size;
    uint64_t data_size;
    uint64_t slot_stride;
    uint64_t heap_keep_bytes; /* result of sk_memory_keep */
    /* index of the bell that workers ring: 0: a caller drives the loop; 1: the loop thread does */
    _Atomic uint32_t who;
    int32_t driver_pid;
    /* time until which `waits` is valid; INT64_MAX: the wait goes on */
    _Atomic int64_t waits_ns;
    _Atomic uint32_t n_used; /* slots that were ever used */
    /* pid of the process that writes its stacks to stderr (sk_look_speak); 0: none */
    _Atomic int32_t speaks;
    struct sk_bell bell[2];
    _Atomic uint32_t printed; /* counts what Python code printed in workers (prints.c) */
    uint32_t pad2;
    uint64_t id_base; /* conf.h */
    uint8_t pad3[48];
    char waits[512]; /* text: what the driving caller is waiting for, if its wait is long */
};
_Static_assert(sizeof(struct sk_ctl) == 768, "fixed layout");

/* Says which bell the driver listens to from here on. The caller then reads the rings of all
 * workers once, before it sleeps on that bell or leaves it to the loop thread. No message is
 * missed: a worker publishes one, rings the bell that `who` names, and reads `who` again
 * (sk_worker_link_ring). If it still reads the old value there, its ring came before this store in
 * the one order of seq_cst operations. So the load below, of the bell that is left, sees that ring,
 * and with it the message. Without the load a processor may read the rings before its store is
 * seen, on x86 as well as on arm64. */
static inline void sk_ctl_drives(struct sk_ctl *c, uint32_t who) {
    atomic_store_explicit(&c->who, who, memory_order_seq_cst);
    (void)atomic_load_explicit(&c->bell[!who].seq, memory_order_seq_cst);
}

/* States of a claim word. CANCELLED: the task has started, and should stop at its next yield.
 * (Each task has a word of its own. With one word for a worker, a late cancel of a task that had
 * ended overwrote the cancel of the next task, which then never stopped.) */
enum { SK_CLAIM_QUEUED = 0, SK_CLAIM_STARTED = 1, SK_CLAIM_TAKEN = 2, SK_CLAIM_CANCELLED = 3 };

static inline size_t sk_slot_stride(void) {
    return SK_ALIGN(sizeof(struct sk_slot) + 2 * (size_t)sk_ring_bytes(SK_RING_SIZE), 4096);
}
static inline struct sk_slot *sk_slot_at(uint8_t *base, uint32_t i) {
    return (struct sk_slot *)(void *)(base + 4096 + i * sk_slot_stride());
}
/* Returns the ring from the driver to the worker. */
static inline void *sk_slot_down(struct sk_slot *s) { return s + 1; }
/* Returns the ring from the worker to the driver. */
static inline void *sk_slot_up(struct sk_slot *s) {
    return (uint8_t *)(s + 1) + sk_ring_bytes(SK_RING_SIZE);
}

/* ---- messages: wire format (base/wire.h), first field u32 type ------------------------------- */

/* Messages of a worker to the driver. Each is handled by on_<kind> in messages.c. */
#define SK_MESSAGES_UP(X)                                                                  \
    X(HELLO)      /* ready */                                                              \
    X(DONE)       /* tid, attempt, status, run_ns, note, returns */                        \
    X(YIELD)      /* tid, attempt, index, note, value */                                   \
    X(RETURNED)   /* tid: the task goes back unstarted (the worker waits in get) */        \
    X(SUBMIT)     /* base id, req or 0, limit of pending calls, spec */                    \
    X(ACTOR)      /* base id, req or 0, options, constructor's spec; answered by the id */ \
    X(PUT)        /* oid, value */                                                         \
    X(PROMISE)    /* oid */                                                                \
    X(KEEP)       /* oid, value of a promised object */                                    \
    X(REF)        /* oid, n (negative: release) */                                         \
    X(GET)        /* req, n, oids */                                                       \
    X(WAIT)       /* req, want, n, oids */                                                 \
    X(TIMEOUT)    /* req: the worker gave up waiting */                                    \
    X(LEASE)      /* req, len, least length that is enough */                              \
    X(GIVE)       /* off, len: unused lease */                                             \
    X(EXTENT)     /* req, graph, len */                                                    \
    X(GRAPHOPEN)  /* req */                                                                \
    X(GRAPHCLOSE) /* graph */                                                              \
    X(EXTENTFREE) /* graph, off */                                                         \
    X(PIN)        /* oid: the worker keeps a view of this argument */                      \
    X(UNPIN)      /* off */                                                                \
    X(DEFINE)     /* fid, name, def */                                                     \
    X(SHAPE)      /* req, amounts */                                                       \
    X(RESIDX)     /* req, name */                                                          \
    X(NEXT)       /* req, tid: next yield of a stream */                                   \
    X(PEEK)       /* req, tid: waits for a next yield, takes nothing */                    \
    X(DROP)       /* tid */                                                                \
    X(CANCEL)     /* tid, force */                                                         \
    X(KILL)       /* aid, no_restart */                                                    \
    X(NODES)      /* req */                                                                \
    X(BIGUP)      /* off, len: the message lies in the sender's lease */                   \
    X(BIGFREE)    /* off: an SK_M_BIG message was copied */                                \
    X(FIND)       /* req, namespace, name: finds an actor */                               \
    X(NAMES)      /* req: names of all actors */                                           \
    X(DEFENV)     /* req, bytes */                                                         \
    X(GROUP)      /* base id, req, strategy, n, name, space, amounts of n bundles */       \
    X(UNGROUP)    /* req, id */                                                            \
    X(GROUPS)     /* req */                                                                \
    X(STATE)      /* req, what */                                                          \
    X(MORE)       /* req, sk_amounts */                                                    \
    X(MOREREAD)   /* req, number */                                                        \
    X(LEAVE)      /* the actor of this process ends */                                     \
    X(STREAMEND)  /* oid, tid, kind: an object that exists when the task has ended */      \
    X(WATCH)      /* req, oid or 0, tid: answered by FIRED */                              \
    X(UNWATCH)    /* req: ends a watch; no answer */

/* Messages of the driver to a worker. Each is handled by on_<kind> in worker/link.c. */
#define SK_MESSAGES_DOWN(X)                                   \
    X(FUNC)    /* fid, name, def bytes */                     \
    X(TASK)    /* see sk_msg_task */                          \
    X(REPLY)   /* req, rc, n, values | error text */          \
    X(CREDIT)  /* tid, number of yields that were released */ \
    X(EXIT)    /* end when the queued tasks are done */       \
    X(BIG)     /* off, len: the message lies in the store */  \
    X(UNLEASE) /* the worker has to give its lease back */    \
    X(ENV)     /* bytes of the worker's environment */        \
    X(FIRED)   /* req: the watch of this number has fired */

#define SK_M_KIND(kind) SK_M_##kind,
enum {
    SK_M_DOWN = 0,
    SK_MESSAGES_DOWN(SK_M_KIND) SK_M_DOWN_END,
    SK_M_UP = 32,
    SK_MESSAGES_UP(SK_M_KIND) SK_M_UP_END
};
_Static_assert(SK_M_DOWN_END <= SK_M_UP, "a message of one direction is none of the other");
#undef SK_M_KIND

/* Where the bytes of a value are. PART in a spec: len bytes at off of the value of `oid`. PART
 * in a message to a worker: len bytes of a value that lies at off in the store, followed by a
 * u64: the offset of these bytes in that value. */
enum {
    SK_V_INLINE = 0,
    SK_V_STORE = 1,
    SK_V_NONE = 2,
    /* where the value of an object may be; never in a message */
    SK_V_DISK = 3,
    SK_V_PART = 4
};
/* A value in a message: this head, then the inline bytes if `where` is SK_V_INLINE. */
struct sk_val {
    uint32_t kind;
    uint16_t where;
    /* STORE, from a worker: the worker goes on reading the value, which is pinned for it */
    uint16_t keep;
    uint64_t oid; /* the object whose value this is; 0: a plain inline argument */
    uint64_t len;
    uint64_t off; /* where the bytes of a STORE or PART value begin */
};
static inline void sk_wr_val(struct sk_wr *w, const struct sk_val *v, const void *bytes) {
    sk_wr_align(w, 8);
    sk_wr_raw(w, v, sizeof *v);
    if (v->where == SK_V_INLINE) {
        sk_wr_raw(w, bytes, (size_t)v->len);
        sk_wr_align(w, 8);
    }
}
static inline const void *sk_rd_val(struct sk_rd *r, struct sk_val *v) {
    sk_rd_align(r, 8);
    const void *h = sk_rd_raw(r, sizeof *v);
    if (!h) {
        memset(v, 0, sizeof *v);
        return NULL;
    }
    memcpy(v, h, sizeof *v);
    if (v->where != SK_V_INLINE) return NULL;
    const void *b = sk_rd_raw(r, v->len > SIZE_MAX ? SIZE_MAX : (size_t)v->len);
    if (!r->bad) sk_rd_align(r, 8);
    return b;
}

/* the references inside a value, which follow it in a message */
struct sk_ids {
    const uint64_t *p;
    uint32_t n;
};
static inline const void *sk_rd_val_ids(struct sk_rd *r, struct sk_val *v, struct sk_ids *in) {
    const void *b = sk_rd_val(r, v);
    in->n = sk_rd_u32(r);
    sk_rd_align(r, 8);
    in->p = sk_rd_raw(r, (size_t)in->n * 8);
    return b;
}

enum { SK_LOCAL_NODE = 1 }; /* number of the only node */

struct sk_msg_task { /* fixed head of SK_M_TASK; it is followed by the name and n_args values */
    uint32_t type, claim;
    uint64_t tid, fid, aid, first;
    uint64_t known_tid, known_aid; /* as the task's code knows itself and its actor */
    uint32_t attempt, n_args, n_returns, skip;
    uint32_t window, flags;
    uint32_t group, max_calls;
    uint64_t gpus;
    uint64_t credit; /* number of the first `from` yields that the reader has taken */
    /* Number of yields that an earlier attempt made. Of these, the reader needs only those whose
     * indices follow the arguments: */
    uint32_t from;
    uint32_t n_wanted; /* a u32 each, sorted; none is below `skip` */
};
enum {
    /* the constructor of an actor; behind the wanted indices follow u32 n_groups and a u32 for each
     * group */
    SK_TF_INIT = 1,
    /* a stream that runs again for lost yields: it is over when the last wanted yield is made */
    SK_TF_REMAKE = 2,
    SK_TF_NEED = 8, /* a struct sk_need follows at the very end */
    SK_TF_ASYNC = 4 /* with INIT: the actor has an event loop */
};

enum {
    /* user code raised an exception: there is one value, the error for all returns */
    SK_DONE_FAILED = 1,
    SK_DONE_LEAVE = 2, /* this process may run nothing more */
    SK_DONE_FINAL = 8, /* with FAILED: the task is not retried, whatever its options are */
    SK_DONE_EXIT = 4   /* with FAILED: the call has ended its own actor; no restart */
};
/* fixed head of SK_M_DONE; it is followed by the note and n_values times (value, u32 n_contains,
 * oids) */
struct sk_msg_done {
    uint32_t type, attempt;
    uint64_t tid;
    int64_t start_ns, run_ns;
    uint32_t status; /* bits SK_DONE_* */
    uint32_t n_values;
};

/* The spec of a task on the wire (SUBMIT, and the driver's own copy): written and read by
 * spec.c. */
struct sk_spec { /* decoded; points into the bytes */
    uint64_t fid, actor, sink_tag, parent, caller;
    uint64_t known_task, known_actor; /* sk_task_opts */
    uint32_t group, max_calls;
    struct sk_bytes name, refused;
    uint32_t n_args, n_contains, n_returns, stream_window;
    int32_t max_retries;
    sk_shape shape;
    uint8_t retry_exceptions, no_wait, parts; /* parts: some arguments are parts of values */
    const uint8_t *args;                      /* n_args values back to back */
    size_t args_len;
    const uint64_t *contains;
};
void sk_spec_write(struct sk_wr *w, const struct sk_task_spec *s);
bool sk_spec_read(struct sk_rd *r, struct sk_spec *out);
void sk_aspec_write(struct sk_wr *w, const struct sk_aspec *a);
bool sk_aspec_read(struct sk_rd *r, struct sk_aspec *out);

#endif
