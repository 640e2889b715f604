/* local_int.h - shared inside the local engine: layout of the control segment, messages, and the driver's structures.
 *
 * Shared memory: one control segment (driver's bells, one slot a worker: its bell, claim words, two rings) and one data segment (the store's
 * extents). Both are memfds inherited by the fork server and so by every worker. All metadata (objects, tasks, counts, extents) is private
 * to the driver; a worker that dies leaves at most an unfinished message, which nobody sees. */
#ifndef SK_LOCAL_INT_H
#define SK_LOCAL_INT_H

#include <pthread.h>

#include "base/list.h"
#include "base/map.h"
#include "base/wire.h"
#include "engine/engine_int.h"
#include "engine/lineage.h"
#include "engine/memory.h"
#include "engine/names.h"
#include "engine/own.h"
#include "engine/pace.h"
#include "engine/place.h"
#include "engine/res.h"
#include "engine/state.h"
#include "ipc/ipc.h"
#include "store/store.h"

#define SK_RING_SIZE (256u * 1024u)
#define SK_CLAIMS 2048u          /* claim words of a worker, used round robin */
#define SK_ACTOR_DEPTH_MAX 1024u /* calls on the worker of an actor; at most half of the claims */
#define SK_CTL_MAGIC 0x4c544b53u
#define SK_CTL_VERSION 5u
#define SK_LEASE_CHUNK (4u << 20) /* a worker leases store memory in pieces of this size and cuts small values from it */

/* ---- control segment ------------------------------------------------------------------------------------------------------- */

/*  field            | writes  | reads   | order                       | what a crash of the worker leaves
 *  magic..data_size | driver, once before any worker | all | -      | -
 *  who              | driver  | workers | seq_cst                     | -
 *  bell[2]          | all ring, driver sleeps | -    | see ipc.h   | -
 *  slot.bell        | driver rings, worker sleeps | - | see ipc.h    | asleep = 1: the driver wastes one wake
 *  slot.claims[i]   | driver sets (task<<2|QUEUED) before the message; then either side by compare-and-swap | acq_rel | STARTED: the task was
 *                   |         |         |                             | running, its death costs an attempt; QUEUED: it was not
 *  slot.want_space  | both    | both    | seq_cst                     | 1: the driver wastes one wake
 *  slot.interrupted | worker: the task that it interrupted; driver: 0 before it asks | both | acq_rel | SIGINT is sent again until it says so
 *  slot.task..task_name | worker | driver, skate stack | relaxed   | a task that does not run any more; the text may be torn: it is only shown
 *  slot.hand..doing | worker  | driver, after its death | relaxed     | what it was at in task `hand`; the text may be torn: it is only shown
 *  slot.crash       | worker  | driver, after its death | -           | the story of the crash
 *  driver_pid, n_used, waits | driver  | skate stack | -                       | - (a text that may be torn: it is only shown)
 */
struct sk_slot {
    struct sk_bell bell;
    _Atomic uint64_t claims[SK_CLAIMS];
    _Atomic uint32_t want_space; /* the worker waits for room in its ring to the driver */
    uint32_t proc;               /* process number of the present worker in this slot (never used twice) */
    _Atomic uint64_t interrupted;
    uint32_t pad[12];
    _Atomic uint64_t task; /* begun last, and not ended: for who looks on (state lists, skate stack); 0: none */
    _Atomic int64_t since_ns;
    int32_t pid;
    char task_name[108];
    _Atomic uint64_t hand; /* the task that `doing` is about */
    char doing[504];
    char crash[2048]; /* text that a crashing worker leaves (Python's faulthandler writes here) */
};
_Static_assert(sizeof(struct sk_slot) % 64 == 0, "slots keep cache lines apart");

struct sk_ctl {
    uint32_t magic, version;
    uint32_t n_slots, ring_size;
    uint64_t data_size;
    uint64_t slot_stride;
    uint64_t heap_keep_bytes; /* sk_memory_keep */
    _Atomic uint32_t who;     /* which bell the workers ring: 0 = a caller drives the loop, 1 = the loop thread does */
    int32_t driver_pid;
    _Atomic int64_t waits_ns; /* `waits` holds: INT64_MAX; or held until then */
    _Atomic uint32_t n_used;  /* slots that were ever used */
    _Atomic int32_t speaks;   /* pid of the process that writes its stacks to stderr, 0: none; sk_look_speak */
    struct sk_bell bell[2];
    uint8_t pad2[64];
    char waits[512]; /* what the caller that drives waits for, when it does for long */
};
_Static_assert(sizeof(struct sk_ctl) == 768, "fixed layout");

/* CANCELLED: started, and should stop at its next yield (one word a task: with one a worker, a late cancel of a task that had ended already
 * overwrote that of the task behind it, which then never stopped). */
enum { SK_CLAIM_QUEUED = 0, SK_CLAIM_STARTED = 1, SK_CLAIM_TAKEN = 2, SK_CLAIM_CANCELLED = 3 };

static inline size_t sk_slot_stride(void) { return SK_ALIGN(sizeof(struct sk_slot) + 2 * (size_t)sk_ring_bytes(SK_RING_SIZE), 4096); }
static inline struct sk_slot *sk_slot_at(uint8_t *base, uint32_t i) {
    return (struct sk_slot *)(void *)(base + 4096 + i * sk_slot_stride());
}
static inline void *sk_slot_down(struct sk_slot *s) { return s + 1; }                                          /* driver -> worker */
static inline void *sk_slot_up(struct sk_slot *s) { return (uint8_t *)(s + 1) + sk_ring_bytes(SK_RING_SIZE); } /* worker -> driver */

/* ---- messages: wire format (base/wire.h), first field u32 type ----------------------------------------------------------------- */

enum {
    /* driver -> worker */
    SK_M_FUNC = 1, /* fid, name, def bytes */
    SK_M_TASK,     /* see sk_msg_task */
    SK_M_REPLY,    /* req, rc, n, values | error text */
    SK_M_CREDIT,   /* tid, number of yields that were released */
    SK_M_EXIT,     /* leave when what is queued is done */
    SK_M_BIG,      /* off, len: the message lies in the store */
    SK_M_UNLEASE,  /* give your lease back */
    /* worker -> driver */
    SK_M_HELLO = 32, /* ready */
    SK_M_DONE,       /* tid, attempt, status, run_ns, note, returns */
    SK_M_YIELD,      /* tid, attempt, index, note, value */
    SK_M_RETURNED,   /* tid: not started, take it back (the worker waits in get) */
    SK_M_SUBMIT,     /* base id, req or 0, most pending calls, spec */
    SK_M_ACTOR,      /* base id, req or 0, options, spec of the constructor */
    SK_M_PUT,        /* oid, value */
    SK_M_REF,        /* oid, n (negative: release) */
    SK_M_GET,        /* req, n, oids */
    SK_M_WAIT,       /* req, want, n, oids */
    SK_M_TIMEOUT,    /* req: the worker gave up waiting */
    SK_M_LEASE,      /* req, len, least that will do */
    SK_M_GIVE,       /* off, len: unused lease */
    SK_M_PIN,        /* oid: of an argument that is kept */
    SK_M_UNPIN,      /* off */
    SK_M_DEFINE,     /* fid, name, def */
    SK_M_SHAPE,      /* req, amounts */
    SK_M_RESIDX,     /* req, name */
    SK_M_NEXT,       /* req, tid: next yield of a stream */
    SK_M_DROP,       /* tid */
    SK_M_CANCEL,     /* tid, force */
    SK_M_KILL,       /* aid, no_restart */
    SK_M_RESOURCES,  /* req */
    SK_M_BIGUP,      /* off, len: the message lies in the sender's lease */
    SK_M_BIGFREE,    /* off: a SK_M_BIG was copied */
    SK_M_FIND,       /* req, space, name: of an actor */
    SK_M_NAMES,      /* req: of all actors */
    SK_M_ENV,        /* driver -> worker: bytes of its environment */
    SK_M_DEFENV,     /* req, bytes */
    SK_M_GROUP,      /* base id, req, strategy, n, name, space, amounts of n bundles */
    SK_M_UNGROUP,    /* req, id */
    SK_M_GROUPS,     /* req */
    SK_M_STATE,      /* req, what */
    SK_M_MORE,       /* req, sk_amounts */
    SK_M_MOREREAD,   /* req, number */
    SK_M_LEAVE,      /* the actor of this process ends */
    SK_M_PEEK,       /* req, tid: until there is a next yield, which stays */
    SK_M_STREAMEND,  /* oid, tid, kind: an object that exists when the task has ended */
    SK_M_WATCH,      /* req, oid or 0, tid: answered by FIRED */
    SK_M_UNWATCH,    /* req: no answer is wanted any more */
    SK_M_FIRED,      /* driver -> worker: req */
};

/* A value in a message: head, then inline bytes when where == INLINE. */
enum { SK_V_INLINE = 0, SK_V_STORE = 1, SK_V_NONE = 2, SK_V_DISK = 3 /* of objects only, never in a message */ };
struct sk_val {
    uint32_t kind;
    uint16_t where;
    uint16_t keep; /* STORE, from a worker: it goes on reading the value, which is pinned for it */
    uint64_t oid;  /* the object it is, 0: a plain inline argument */
    uint64_t len;
    uint64_t off; /* STORE */
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

/* A value, then the references inside it. */
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

struct sk_msg_task { /* fixed head of SK_M_TASK; then name string, then n_args values */
    uint32_t type, claim;
    uint64_t tid, fid, aid, first;
    uint32_t attempt, n_args, n_returns, skip;
    uint32_t window, flags;
    uint32_t group, max_calls;
    uint64_t gpus;
    uint64_t credit;   /* how many of the first `from` yields were taken */
    uint32_t from;     /* so many yields were made before; of them only those are wanted that are named after the arguments: */
    uint32_t n_wanted; /* u32 each, rising; none of them is below `skip` */
};
enum {
    SK_TF_INIT = 1,   /* constructor of an actor: behind the wanted indices come u32 n_groups and a u32 for each */
    SK_TF_REMAKE = 2, /* a stream run again for what was lost: over when the last wanted one is made */
    SK_TF_NEED = 8,   /* at the very end comes a struct sk_need */
    SK_TF_ASYNC = 4   /* INIT: of an actor with an event loop */
};

enum {
    SK_DONE_FAILED = 1, /* user code raised: one value, the error for all returns */
    SK_DONE_LEAVE = 2,  /* nothing more may be run by this process */
    SK_DONE_FINAL = 8,  /* with FAILED: no retry, whatever the task's options say */
    SK_DONE_EXIT = 4    /* with FAILED: the call of an actor that ends itself; no restart */
};
struct sk_msg_done { /* fixed head of SK_M_DONE; then note bytes, n_values x (value, u32 n_contains, oids) */
    uint32_t type, attempt;
    uint64_t tid;
    int64_t start_ns, run_ns;
    uint32_t status; /* SK_DONE_* */
    uint32_t n_values;
};

/* Task spec on the wire (SUBMIT, and the driver's own copy): written and read by task.c. */
struct sk_spec { /* decoded, borrowing from the bytes */
    uint64_t fid, actor, sink_tag, parent;
    uint32_t group, max_calls;
    struct sk_bytes name, refused;
    uint32_t n_args, n_contains, n_returns, stream_window;
    int32_t max_retries;
    sk_shape shape;
    uint8_t retry_exceptions, no_wait;
    const uint8_t *args; /* n_args values back to back */
    size_t args_len;
    const uint64_t *contains;
};
void sk_spec_write(struct sk_wr *w, const struct sk_task_spec *s);
bool sk_spec_read(struct sk_rd *r, struct sk_spec *out);

/* ---- the driver ------------------------------------------------------------------------------------------------------------------ */

struct sk_local;
struct sk_lworker;

struct sk_inl { /* inline value: counted, because views outlive objects */
    uint32_t refs;
    uint32_t len;
    uint8_t bytes[];
};

enum { SK_O_PENDING, SK_O_READY, SK_O_ACTOR };
struct sk_stored {          /* space.c: of an object whose bytes are in the store or on disk */
    struct sk_list link;    /* l->space: lru or writing (in the store); restores, ahead, reading, or none (on disk) */
    struct sk_list sibling; /* ring of those that were written together, in order */
    struct sk_obj *o;
    struct sk_spill_at at;    /* its copy on disk */
    struct sk_spill_item *io; /* being written or read */
    uint64_t mark;
    bool ahead; /* it is in l->space.ahead */
};

struct sk_obj {
    uint64_t id;
    uint8_t state, where; /* READY: SK_V_INLINE, SK_V_STORE or SK_V_DISK */
    bool gone : 1;        /* READY, but the value is lost: found out when it is needed next (test hook store.lose) */
    bool known : 1;       /* to lineage: told when it is freed */
    bool awaited : 1;     /* PENDING, and a kept task needs it: held until its maker is over and so may be kept, too */
    bool spoiled : 1;     /* its bytes came back wrong from disk */
    bool stream_end : 1;  /* PENDING until a stream ends; no maker: it is never lost */
    uint8_t why;          /* enum sk_lost_why: what it is when lineage knows no maker */
    uint32_t kind;
    uint64_t len;
    union {
        struct sk_inl *inl;
        uint64_t off;
        struct sk_lactor *actor;
    } u;
    struct sk_ltask *maker; /* while the task is known: PENDING always, READY while lineage keeps it */
    struct sk_dep *deps;    /* tasks and requests that wait for it: PENDING, or on disk */
    struct sk_stored *st;   /* READY, in the store or on disk; NULL: it cannot be spilled */
};

struct sk_dep { /* one waiter of one object, or of the next yield of one stream; in two lists, each with the place that points to it */
    struct sk_dep *next, **at;      /* of what is waited for, the youngest first */
    struct sk_dep *more, **more_at; /* of who waits: `waits` of the task or request */
    struct sk_ltask *task;          /* either */
    struct sk_req *req;
};

/* What few tasks need: finished ones that lineage keeps, those run again, those whose arguments were lost under them. */
struct sk_aside {
    struct sk_val_vec {
        struct sk_kept_val {
            uint64_t oid;
            struct sk_inl *inl;
            uint32_t kind;
        } *p;
        uint32_t n, cap;
    } vals; /* small arguments: no task need make them */
    struct sk_index_vec {
        uint32_t *p;
        uint32_t n, cap;
    } wanted;        /* lost yields that this attempt makes again, rising */
    uint32_t n_made; /* of them */
    struct sk_old_vec {
        struct sk_old {
            uint64_t oid, off;
        } *p;
        uint32_t n, cap;
    } old; /* lost arguments that its worker still reads: pinned for it */
};

enum { SK_T_WAITING, SK_T_READY, SK_T_SENT, SK_T_FINISHED };
struct sk_ltask {
    struct sk_place_task place;
    struct sk_list on; /* in its worker's `sent` list, its actor's `queue`, its caller's `held`, or unlinked */
    uint64_t id, first;
    struct sk_spec spec; /* into bytes[] */
    struct sk_sink *sink;
    struct sk_lactor *actor;
    struct sk_dep *waits;      /* for these arguments */
    struct sk_lcaller *caller; /* of a call of an actor that is not finished */
    struct sk_lworker *worker;
    uint32_t state;
    uint32_t n_unready; /* arguments that do not exist yet */
    uint32_t attempt;
    int32_t retries_left;
    uint32_t claim; /* index in the worker's claims; SENT */
    int32_t ran_on; /* pid, slot and times of its last run (state.c) */
    uint32_t ran_slot;
    int64_t submit_ns, start_ns, end_ns;
    bool told; /* its end is in the history */
    bool is_init, is_stream, cancelled, is_method;
    bool held;        /* in its caller's `held` */
    bool listed;      /* among those that are about to be cancelled */
    bool dropped;     /* a stream that nobody reads any more */
    bool holds_args;  /* its arguments are held */
    bool was_started; /* when its worker died */
    bool bulky;       /* it made something that can be lost: in the store, or with references inside */
    bool kept;        /* lineage has it: not freed */
    bool keeping_tried;
    uint8_t let_go;         /* 0, or 1 + enum sk_lost_why: why lineage does not have it any more */
    bool stands;            /* it was cancelled for good: instead of a run, that error again */
    bool ended;             /* not under way, and nobody is about to touch it */
    bool remake;            /* under way again, for what was lost of it: no sink and no reader hears of it */
    bool alone;             /* stopped for memory once: runs when no other does (place.shape is such a shape) */
    uint8_t n_oom;          /* how often its worker was stopped for memory */
    bool restart;           /* its worker was asked to stop, so that it can begin anew for lost yields */
    uint64_t space_epoch;   /* space.c: looked at in this round of marks */
    uint32_t seen_lost;     /* l->n_lost when its arguments were looked at last */
    struct sk_aside *aside; /* NULL: nothing */
    uint32_t differs;       /* not 0: 1 + index of the yield that a retry gave differently; it is being stopped */
    bool lost_yield;        /* there was no memory to record one; it is being stopped */
    /* streaming */
    uint32_t n_yielded, n_taken, n_released, stream_done;
    struct sk_obj_id_vec {
        uint64_t *p;
        uint32_t n, cap;
    } yields; /* oids by index; no sink: those not taken hold a reference of proc owner */
    struct sk_note_vec {
        uint64_t *p;
        uint32_t n, cap;
    } note_hash;        /* of each yield: a retry must give the same */
    uint32_t owner;     /* process that submitted: reads the stream */
    uint64_t end_error; /* oid of the error object when it failed */
    sk_rc end_rc;       /* the failure, when there was no memory for that object */
    uint64_t end_oid;   /* object that exists when it has ended; 0: nobody asked */
    uint32_t end_kind;  /* of that object's value, or of the failure once it has ended in one: */
    struct sk_inl *end_inl;
    bool end_failed;
    struct sk_dep *stream_waiters;
    size_t spec_len;
    uint8_t bytes[];
};

struct sk_getter { /* a get that waits: what it has so far stays in the store */
    struct sk_list link;
    const uint64_t *ids;
    size_t n;
    sk_rc refused; /* one cannot be brought back (space.refuse_msg) */
};

struct sk_room { /* somebody waits for room in the store */
    struct sk_list link;
    struct sk_lworker *w;   /* NULL: a caller in the driver, on whose stack this is */
    uint64_t req, len, min; /* `min` will do */
    uint64_t off, got;
    sk_rc rc; /* SK_EAGAIN: it waits */
    struct sk_err *err;
};

struct sk_req { /* a worker that waits: GET, WAIT, NEXT, PEEK; or somebody who watches: WATCH */
    struct sk_getter get;
    struct sk_list link;    /* of its worker: reqs or watches; of the driver: l->watches */
    struct sk_lworker *w;   /* NULL: the driver's */
    struct sk_watch *watch; /* then */
    struct sk_dep *waits;
    uint32_t type;
    uint64_t req, tid;
    uint32_t n, want, n_ready;
    uint64_t oids[];
};

struct sk_lcaller { /* a process that has called an actor */
    struct sk_list link;
    struct sk_list held; /* its calls that wait for an argument, and those behind them, in order */
    uint32_t proc, n;    /* n: calls that are not finished */
};

enum { SK_A_STARTING, SK_A_ALIVE, SK_A_DEAD };
struct sk_lactor {
    uint64_t id, order; /* its turn among the tasks that wait for resources */
    struct sk_list link;
    struct sk_ltask *init; /* kept for restarts */
    struct sk_lworker *worker;
    struct sk_list queue; /* method calls whose turn it is, not sent yet, in order */
    struct sk_list callers;
    uint32_t n_callers, n_held;
    bool let_on; /* a call ended that held up others */
    uint32_t state, n_sent;
    int32_t restarts_left, max_task_retries;
    sk_shape shape;
    uint32_t n_tasks;  /* calls that are not finished */
    bool unreferenced; /* freed when dead and nothing of it is under way */
    bool stopping;     /* no handle left, or killed without restart: nothing comes after the calls already made */
    bool no_restart;   /* killed: they are not finished either */
    bool placed;       /* the constructor was sent to the present worker */
    bool detached;     /* the engine holds its `ready` */
    bool asked;        /* its restart, by kill(no_restart=False); until it is alive again */
    bool leaving;      /* it said that it ends */
    bool is_async;
    struct sk_name *name; /* NULL: none */
    uint32_t depth;       /* so many calls may be on its worker */
    uint32_t dead_kind;   /* of the constructor's error; 0: `why` is the story */
    struct sk_inl *dead_value;
    char why[256]; /* of its death */
    uint32_t n_groups, groups[];
};

struct sk_lworker {
    struct sk_place_worker place;
    uint32_t slot, proc;
    int32_t pid;
    bool up, dying, killed;
    uint32_t n_rooms; /* requests of it that wait for room in the store */
    bool unheard;     /* something it said could not be recorded: what it says after that may build on it, and is not listened to */
    struct sk_slot *sh;
    struct sk_ring down, up_ring;
    struct sk_list sent; /* tasks on it, in order */
    struct sk_list reqs;
    struct sk_list watches; /* requests that nobody waits for */
    struct sk_lactor *actor;
    struct sk_map known; /* fids it has */
    uint32_t next_claim;
    uint64_t claimed[SK_CLAIMS / 64]; /* bit: the claim word is of a task in `sent` */
    uint64_t n_done;
    int64_t idle_since_ns;
    bool has_lease;
    bool has_env;         /* it was told its environment */
    bool aside;           /* its process is stopped: it is given nothing */
    uint64_t head_seen;   /* the task that it had not begun when it was looked at last; UINT64_MAX: it was starting; 0: neither */
    int64_t leave_ns;     /* not 0: since when it is leaving */
    bool evicted;         /* to make room */
    uint64_t interrupt;   /* the task that is to be interrupted; 0: none, or it was */
    const char *kill_why; /* static text: why the engine killed it */
    int32_t refused;      /* errno: the system refused to make it */
    struct sk_worker_mem {
        uint64_t heap_bytes, peak_bytes; /* of its own; highest since `task` began */
        uint64_t shared_bytes;           /* counted by the kernel, but shared with the fork server */
        uint64_t task;                   /* that it ran, or 0, when looked at last */
        int64_t since_ns, exact_ns;      /* task began; shared_bytes is of then */
        bool oom, beside;                /* stopped for memory; while others ran */
        bool paused;                     /* by SIGSTOP, until memory that is on its way back is there */
        int pidfd;                       /* while it is paused */
        char *story;                     /* of that; heap, may be NULL */
    } mem;
    uint64_t kill_task; /* not 0: because of this task; others that it takes along are not charged for it */
    struct sk_big {
        uint64_t *p;
        uint32_t n, cap;
    } big; /* store offsets of big messages under way */
    struct sk_out {
        uint8_t **p;
        uint32_t n, cap;
    } out; /* replies that did not fit into the ring yet: length-prefixed copies */
};

struct sk_lgroup { /* placement group */
    struct sk_list link;
    uint64_t id; /* id + 1: its `ready` object, which the engine holds */
    struct sk_place_group *place;
    struct sk_name *name;
    uint32_t strategy;
    int64_t since_ns, reserved_ns;
};

struct sk_fn {
    uint64_t fid;
    char *name;
    uint8_t *def;
    size_t len;
};

struct sk_space {                                          /* space.c */
    struct sk_spill *spill;                                /* NULL: nothing is spilled */
    struct sk_list lru, writing, restores, ahead, reading; /* sk_stored.link */
    struct sk_list rooms, gets;                            /* oldest first */
    uint64_t epoch, writing_bytes, n_disk, disk_object_bytes, extra, n_spoiled;
    uint64_t n_out;                      /* how often an object left the store */
    uint64_t n_overflow, overflow_bytes; /* what went there so far */
    uint64_t n_eased, eased_seen;        /* how often somebody who used memory let some go; when the last campaign began */
    uint64_t gathered;                   /* the object that was wanted back first when all for its waiter was asked for */
    uint32_t n_io, n_inside;             /* jobs under way; callers that wait in the driver */
    uint64_t last_pos, ahead_bytes;      /* reading one small object after the other */
    sk_rc disk_rc, refuse_rc;
    int64_t disk_retry_ns, choose_after_ns, progress_ns, alone_ns;
    uint64_t free_seen;
    bool waiting, taken_back;
    uint64_t cap_bytes; /* it may take so much now, whatever its size: heaps need the rest. 0: as much as there is */
    bool campaign;      /* what others wait for is being taken */
    bool held_back;     /* an actor has calls that could be sent, but for memory */
    char disk_msg[400], refuse_msg[1100], spoiled_msg[300];
};

struct sk_lmem { /* memory.c */
    struct sk_memory policy;
    struct sk_sysmem *sys;    /* NULL: not looked at */
    bool stops;               /* somebody may be stopped */
    uint64_t own_limit_bytes; /* 0: none */
    uint32_t permille;
    int32_t oom_retries;
    int64_t next_ns, sys_ns; /* the next look; the last one at the machine */
    struct sk_sysmem_now machine;
    uint64_t limit_bytes, used_bytes, slack_bytes, heap_bytes; /* at the last look */
    char where[160];
    uint64_t kills_seen; /* by the kernel, at the last look */
    int64_t kills_ns;    /* when that changed */
    uint32_t n_alone;    /* tasks that are to run alone */
    bool was_held, failed, any_paused;
    uint64_t n_stopped, n_kernel_killed;
    struct sk_memory_procs {
        struct sk_memory_proc *p;
        uint32_t n, cap;
    } procs;
    struct sk_memory_who {
        struct sk_lworker **p;
        uint32_t n, cap;
    } who; /* of procs */
};

struct sk_local {
    struct sk_engine base;
    pthread_mutex_t mu;  /* recursive; guards everything below */
    pthread_cond_t turn; /* callers waiting for their turn to drive, or for progress by another driver */
    bool driving, closing, srv_dead;
    bool pumping; /* a sink called from within the pump submits: not again */
    uint32_t n_callers;
    uint64_t progress; /* bumped by every change that somebody may wait for */
    struct sk_seg ctl_seg, data_seg;
    struct sk_ctl *ctl;
    struct sk_store *store;
    struct sk_own *own;
    struct sk_lineage *lin;
    struct sk_space space;
    struct sk_lmem mem;
    struct sk_obj_id_vec lost; /* PENDING objects to make again, at the next dispatch */
    bool recovering;
    struct sk_relic_vec {
        struct sk_relic {
            uint64_t oid, off;
        } *p;
        uint32_t n, cap;
    } relics; /* bytes of lost values that somebody still reads, and the objects that hold the references in them */
    struct sk_place place;
    struct sk_map tasks; /* id -> sk_ltask, until finished */
    struct sk_list due;  /* sk_ltask.place.link: their arguments are all there, and they are looked at in turn (sk_ltask_due) */
    bool looking;
    bool roomy; /* found so at the last look: much more was known than is now */
    struct sk_map fns;
    struct sk_list actors;
    struct sk_list names_of_actors, names_of_groups; /* sk_name */
    struct sk_list groups;                           /* sk_lgroup */
    struct sk_env_vec {
        struct sk_bytes *p;
        uint32_t n, cap;
    } envs;                      /* environment i + 1 */
    uint32_t n_unreferenced;     /* of them nameless */
    uint32_t n_homeless;         /* of them without a worker and not dead */
    struct sk_lworker **workers; /* by slot, NULL = free */
    int64_t look_ns;             /* when they are looked at next: sk_pool_look */
    uint32_t n_slots, n_used;    /* slots; workers[n_used..] were never used */
    uint32_t n_live, max_workers, next_proc;
    struct {              /* forks, by the system, while there were other processes */
        uint32_t n;       /* since one was not */
        int32_t e;        /* errno of the last */
        uint32_t there;   /* so many processes there were then */
        int64_t again_ns; /* when the next is asked for */
    } refused;
    int64_t stall_since_ns; /* loop.c: since when nothing but the driver's reading would help, at this `progress` */
    uint64_t stall_progress;
    uint32_t n_evicted;        /* of n_live: told to make room for a process of another kind */
    uint32_t n_bad_starts;     /* processes that ended before they were ready, since one was */
    struct sk_list watches;    /* sk_req of callers in the driver */
    uint32_t n_worker_streams; /* streams that workers read */
    uint32_t n_nested;         /* known tasks that tasks submitted */
    int64_t n_cpu;
    uint64_t next_id;
    struct sk_forksrv srv;
    pthread_t loop_thread, watch_thread;
    bool threads_up;
    int wake_fd; /* eventfd: ends the watch thread */
    int64_t spin_ns, idle_reap_ns;
    struct sk_history past;
    int64_t now_ns; /* of the last submission, or message that submits */
    struct sk_res_names names;
    uint64_t n_submits, n_tasks_done, n_retries, n_worker_deaths, n_lost, n_reruns;
    uint64_t lineage_bytes;
    int32_t task_retries;
    bool (*interrupted)(void *ctx);
    void *interrupted_ctx;
    void (*named)(void *ctx, struct sk_bytes space, struct sk_bytes name);
    void *named_ctx;
    char *const *argv, *const *env;
    struct sk_vecb {
        uint8_t *p;
        size_t n;
    } note; /* preload, replayed to a new fork server */
};

/* loop.c */
uint32_t sk_loop_pump(struct sk_local *l); /* handle what is in the rings; returns messages handled */
uint32_t sk_loop_pump_worker(struct sk_local *l, struct sk_lworker *w);
void sk_loop_dispatch(struct sk_local *l); /* place what can be placed */
void sk_loop_dispatch_at(struct sk_local *l, int64_t now_ns);
struct sk_pace_view sk_loop_view(const struct sk_local *l, int64_t now_ns, uint32_t n_messages);
bool sk_loop_fresh_ids(struct sk_local *l, struct sk_lworker *w,
                       uint64_t base);                                    /* in a message of w; false: it makes no sense, and w is killed */
void sk_loop_fail_waiting(struct sk_local *l, sk_rc rc, const char *why); /* all that wait for a worker */

/* death.c */
size_t sk_worker_hand(const struct sk_lworker *w, char *buf, size_t cap); /* "\nin ...": what it has in hand; as snprintf */
void sk_loop_worker_died(struct sk_local *l, struct sk_lworker *w, int status, uint64_t maxrss);

/* object.c */
static inline struct sk_obj *sk_obj_get(struct sk_local *l, uint64_t id) { return sk_own_get(l->own, id); }
static inline void sk_obj_home(uint32_t proc,
                               sk_off off) { /* a value of the store begins there, made by proc: a machine may want to know */
    if (SK_UNLIKELY(sk_machine_ != NULL)) sk_machine_->sealed(sk_machine_->ctx, proc, off);
}
sk_rc sk_obj_new(struct sk_local *l, uint64_t id, uint32_t proc, struct sk_obj **out, struct sk_err *err);
/* New object with this value and a reference of the driver: errors of streams. 0 when there is no memory. */
uint64_t sk_obj_error(struct sk_local *l, uint32_t kind, const void *bytes, size_t n);
/* Gives object `id` the value in a message of process `proc`. A value that nobody wants any more is thrown away. */
void sk_obj_set(struct sk_local *l, uint64_t id, uint32_t proc, const struct sk_val *v, const void *bytes, struct sk_ids in);
void sk_obj_ready(struct sk_local *l, struct sk_obj *o);                                  /* wakes who waits */
void sk_obj_drain(struct sk_local *l);                                                    /* frees what nothing references */
sk_rc sk_dep_add(struct sk_dep **list, struct sk_ltask *t, struct sk_req *q) SK_MUST_USE; /* one of the two waits */
void sk_dep_done(struct sk_local *l, struct sk_obj *o);                                   /* tells the waiters, as long as it is READY */
void sk_dep_tell(struct sk_local *l, struct sk_dep *d);                                   /* one of them; d is gone */
void sk_dep_forget(struct sk_dep *waits);                                                 /* all that somebody waits for */
struct sk_inl *sk_inl_new(const void *p, size_t n);
void sk_inl_drop(struct sk_inl *i);
struct sk_inl *sk_engine_error(sk_rc rc, const char *msg);

/* task.c */
/* level: of nesting, see place.h */
sk_rc sk_ltask_submit(struct sk_local *l, uint32_t proc, uint32_t level, uint64_t base_id, const uint8_t *spec, size_t len,
                      struct sk_sink *sink, struct sk_err *err);
sk_rc sk_ltask_make(struct sk_local *l, uint32_t proc, uint32_t level, uint64_t base_id, const uint8_t *spec, size_t len,
                    struct sk_sink *sink, struct sk_ltask **out, struct sk_err *err);
sk_rc sk_ltask_take_args(struct sk_local *l, struct sk_ltask *t, struct sk_err *err) SK_MUST_USE;
void sk_ltask_let_args_go(struct sk_local *l, struct sk_ltask *t);
void sk_ltask_forget_deps(struct sk_ltask *t);
void sk_ltask_ready(struct sk_local *l, struct sk_ltask *t); /* all its arguments were there a moment ago */
/* The same, said by the end of another: here or later, in the loop that looks already. */
void sk_ltask_due(struct sk_local *l, struct sk_ltask *t);
void sk_ltask_emit(struct sk_ltask *t, struct sk_event *ev);                            /* to its sink, if it has one */
void sk_ltask_retry(struct sk_local *l, struct sk_ltask *t, sk_rc rc, const char *why); /* what ended this attempt */
void sk_ltask_cancel(struct sk_local *l, struct sk_ltask *t, bool force);
void sk_ltask_cancel_by(struct sk_local *l, uint64_t tid, uint32_t flags); /* of engine.h; also of a task that is not known any more */
void sk_ltask_finish_error(struct sk_local *l, struct sk_ltask *t, uint32_t kind, const void *bytes, size_t n);
void sk_ltask_fail(struct sk_local *l, struct sk_ltask *t, sk_rc rc, const char *fmt, ...) SK_PRINTF(4, 5);
void sk_ltask_fail_cancelled(struct sk_local *l, struct sk_ltask *t); /* or says why else it was stopped */
void sk_ltask_end(struct sk_local *l, struct sk_ltask *t);
void sk_ltask_free(struct sk_local *l, struct sk_ltask *t);
void sk_ltask_kept_free(struct sk_local *l, struct sk_ltask *t); /* lineage let it go */
const char *sk_ltask_name(struct sk_local *l, const struct sk_ltask *t, char *buf, size_t cap);

/* send.c */
sk_rc sk_fn_define(struct sk_local *l, uint64_t fid, struct sk_bytes name, struct sk_bytes def, struct sk_err *err);
/* Sends a task whose arguments exist: it is in w->sent. SK_EAGAIN: no room now. Else it can never be sent as things are; nothing was changed. */
sk_rc sk_ltask_send(struct sk_local *l, struct sk_ltask *t, struct sk_lworker *w) SK_MUST_USE;
void sk_ltask_left(struct sk_local *l, struct sk_ltask *t, struct sk_lworker *w, int64_t ran_ns); /* ran_ns < 0: it did not run */
/* Takes a not started task off w: READY, but in no queue. False: it has started. */
bool sk_ltask_unsend(struct sk_local *l, struct sk_lworker *w, struct sk_ltask *t);
bool sk_ltask_take_back(struct sk_local *l, struct sk_lworker *w, struct sk_ltask *t); /* the same, and to be placed again */
void sk_ltask_take_back_all(struct sk_local *l, struct sk_lworker *w); /* what has not started on a worker without an actor */

/* stream.c */
void sk_stream_yielded(struct sk_local *l, struct sk_lworker *w, struct sk_rd *r);
/* Next yield of t for process proc: SK_OK (*oid), SK_EDONE, SK_EAGAIN, SK_ETASK (*oid = error). The reference goes to proc. */
sk_rc sk_stream_take(struct sk_local *l, struct sk_ltask *t, uint32_t proc, uint64_t *oid);
void sk_stream_release(struct sk_local *l, struct sk_ltask *t, uint32_t n);
void sk_stream_drop(struct sk_local *l, struct sk_ltask *t);
void sk_stream_wake(struct sk_local *l, struct sk_ltask *t); /* its readers */
bool sk_stream_stirs(const struct sk_ltask *t);              /* next would not wait; NULL: it is over */
bool sk_stream_at_end(const struct sk_ltask *t);             /* of one that stirs: it has nothing more to give, nor a failure */
/* See engine.h; the object gets this id. SK_ENOENT: no such stream. */
sk_rc sk_stream_end(struct sk_local *l, uint64_t tid, uint64_t oid, uint32_t proc, uint32_t kind, struct sk_err *err) SK_MUST_USE;
/* It is over: well (why NULL), or with this failure. */
void sk_stream_ended(struct sk_local *l, struct sk_ltask *t, bool failed, uint32_t kind, struct sk_inl *why);
void sk_stream_ask_to_stop(struct sk_local *l, struct sk_ltask *t); /* any task that has started, at its next yield */

/* request.c */
void sk_req_wait(struct sk_local *l, struct sk_lworker *w, uint32_t type, struct sk_rd *r); /* GET, WAIT */
void sk_req_next(struct sk_local *l, struct sk_lworker *w, uint32_t type, struct sk_rd *r); /* NEXT, PEEK */
/* Of the driver (w NULL), or of a worker, with the number of its request. SK_EDONE: it is there already. */
sk_rc sk_req_watch(struct sk_local *l, struct sk_lworker *w, uint64_t req, uint64_t oid, uint64_t tid, struct sk_watch *watch,
                   struct sk_err *err) SK_MUST_USE;
void sk_req_unwatch(struct sk_local *l, struct sk_lworker *w, uint64_t req);
void sk_req_fire(struct sk_local *l, struct sk_req *q);      /* and frees it */
void sk_req_block(struct sk_local *l, struct sk_lworker *w); /* it waits: what is queued behind goes elsewhere */
void sk_req_go_on(struct sk_local *l, struct sk_lworker *w); /* it waits no more: it has its CPU again, unless it awaits something else */
void sk_req_reply(struct sk_local *l, struct sk_req *q, sk_rc rc);
void sk_req_error(struct sk_local *l, struct sk_lworker *w, uint64_t req, sk_rc rc, const char *msg);
/* To a request for one number: `value`, or an error. */
void sk_req_answer(struct sk_local *l, struct sk_lworker *w, uint64_t req, sk_rc rc, uint64_t value, const struct sk_err *err);
void sk_req_list(struct sk_local *l, struct sk_lworker *w, uint64_t req,
                 size_t (*write)(struct sk_local *l, uint64_t what, void *buf, size_t cap), uint64_t what); /* as long as `write` says */
void sk_req_free(struct sk_local *l, struct sk_req *q);

/* recover.c: lost values. Holds the rules; lineage.c knows what depends on what */
/* The bytes of this object are lost (nothing happens if it has none in the store). Whoever waits for it, or asks from now on, gets the value
 * that the next dispatch has made again, or an error value with SK_ELOST and the reason. Views that are out keep their bytes. */
void sk_recover_lost(struct sk_local *l, uint64_t oid);
void sk_recover_run(struct sk_local *l); /* submits what makes lost objects again */
static inline enum sk_lost_why
sk_recover_why(const struct sk_ltask *t) { /* of an object that it makes, as long as lineage does not keep it */
    return t->spec.actor              ? SK_LOST_ACTOR
           : t->let_go                ? (enum sk_lost_why)(t->let_go - 1)
           : t->spec.max_retries == 0 ? SK_LOST_RETRIES
                                      : SK_LOST_EVICTED;
}
void sk_recover_yielded(struct sk_local *l, struct sk_ltask *t, struct sk_obj *o); /* the first time */
uint64_t sk_recover_remade(struct sk_ltask *t, uint32_t index); /* a yield came again: the object to give it to; 0: not wanted */
bool sk_recover_all_made(const struct sk_ltask *t);             /* the lost yields that it runs for */
void sk_recover_fail_rest(struct sk_local *l, struct sk_ltask *t, uint32_t kind, struct sk_inl *value); /* the others get this value */
void sk_recover_ended(struct sk_local *l, struct sk_ltask *t); /* while its arguments are held: keep it, or note that its run is over */
/* Are all arguments there? SK_OK; SK_EAGAIN: one is lost, t waits for it now (`errors`, and one is an error: t is WAITING for nothing, and
 * sk_ltask_ready ends it); SK_ENOMEM: nothing changed. */
sk_rc sk_recover_args(struct sk_local *l, struct sk_ltask *t, bool errors) SK_MUST_USE;
sk_rc sk_recover_wanted(struct sk_local *l, struct sk_ltask *t) SK_MUST_USE;        /* before a stream is sent */
void sk_recover_left(struct sk_local *l, struct sk_ltask *t, struct sk_lworker *w); /* w reads its arguments no more; NULL: w is dead */
bool sk_recover_old(const struct sk_lworker *w, uint64_t oid, uint64_t *off);       /* where w still reads a lost argument */
void sk_recover_free(struct sk_ltask *t);                                           /* t->aside */
void sk_recover_relics(struct sk_local *l);                                         /* lets go of those that nobody reads any more */
void sk_recover_drain(struct sk_local *l);                                          /* frees tasks that lineage let go */

/* space.c: room in the store, and the disk behind it */
void sk_space_init(struct sk_local *l);
sk_rc sk_space_open(struct sk_local *l, const struct sk_engine_conf *conf,
                    struct sk_err *err) SK_MUST_USE; /* no directories: no spilling */
void sk_space_close(struct sk_local *l);
void sk_space_sealed(struct sk_local *l, struct sk_obj *o); /* READY, in the store */
void sk_space_gone(struct sk_local *l, struct sk_obj *o);   /* about to be freed, or its value is lost */
void sk_space_used(struct sk_local *l, struct sk_obj *o);   /* o->st is there: it goes last */
void sk_space_want(struct sk_local *l, struct sk_obj *o);   /* back, if it is on disk */
/* Before a task is sent. SK_EAGAIN: an argument is on disk, t is WAITING for it. SK_ENOMEM: nothing changed. */
sk_rc sk_space_args(struct sk_local *l, struct sk_ltask *t) SK_MUST_USE;
sk_rc sk_space_alloc(struct sk_local *l, uint32_t proc, uint64_t len, sk_off *off, struct sk_err *err) SK_MUST_USE; /* does not wait */
/* On disk, behind the store: for what cannot wait. err has told why the store would not do, and that stays its beginning. */
sk_rc sk_space_overflow(struct sk_local *l, uint32_t proc, uint64_t len, sk_off *off, struct sk_err *err) SK_MUST_USE;
bool sk_space_get(struct sk_local *l, struct sk_req *q); /* true: some of its objects are on disk, it waits for them now */
/* Replies now or later, with [off, +len) or [off, +min), or an error. */
void sk_space_lease(struct sk_local *l, struct sk_lworker *w, uint64_t req, uint64_t len, uint64_t min);
void sk_space_give_back(struct sk_local *l);          /* disk of what was freed in the overflow */
bool sk_space_hope(struct sk_local *l, uint64_t len); /* the store is full: may it have room for len soon? */
void sk_space_worker_gone(struct sk_local *l, struct sk_lworker *w);
void sk_space_step(struct sk_local *l); /* each turn of the loop: what the disk has done, who can be served */
void sk_space_no_waiting(void);         /* calls of this thread never wait for room: it is one of the engine's own */
bool sk_space_check(struct sk_local *l);

/* look.c: this process's engine for sk_look_self; slot: a worker's own */
void sk_look_open(const uint8_t *base, size_t size, const struct sk_slot *slot);
void sk_look_close(void);

/* state.c */
void sk_state_ended(struct sk_local *l, struct sk_ltask *t, uint32_t error_kind, struct sk_bytes error); /* kind 0: it succeeded */
void sk_state_attempt(struct sk_local *l, struct sk_ltask *t, sk_rc rc, const char *why);                /* it runs again */
void sk_state_actor_gone(struct sk_local *l, struct sk_lactor *a);
/* Says in ctl->waits what a caller waits for: n objects, or the stream tid, or neither. */
void sk_state_waits(struct sk_local *l, const char *verb, const sk_oid *ids, size_t n, uint64_t tid);
size_t sk_state_write(struct sk_local *l, enum sk_state_what what, void *buf, size_t cap);
void sk_state_for(struct sk_local *l, struct sk_lworker *w, struct sk_rd *r); /* STATE */
/* Does it run a call that waits for nothing? */
bool sk_space_at_work(const struct sk_lworker *w);

/* memory.c: store and heaps under one budget; how it is measured, and what follows. The rules are engine/memory.c's */
sk_rc sk_lmem_open(struct sk_local *l, const struct sk_engine_conf *conf, struct sk_err *err) SK_MUST_USE;
void sk_lmem_close(struct sk_local *l);
void sk_lmem_look(struct sk_local *l, int64_t now_ns); /* measures, and acts on it */
static inline void sk_lmem_turn(struct sk_local *l, int64_t now_ns) {
    if (SK_UNLIKELY(now_ns >= l->mem.next_ns)) sk_lmem_look(l, now_ns);
}
enum sk_place_launch sk_lmem_mode(struct sk_local *l);     /* what may begin now */
static inline bool sk_lmem_may_start(struct sk_local *l) { /* asked before each launch; sets place.launch */
    l->place.launch = SK_LIKELY(sk_memory_free(&l->mem.policy, l->mem.n_alone != 0)) ? SK_LAUNCH_ALL : sk_lmem_mode(l);
    return l->place.launch == SK_LAUNCH_ALL || l->place.launch == SK_LAUNCH_ONE;
}
/* Its process ended by `status`: was it for memory? Then w->mem.oom. */
void sk_lmem_died(struct sk_local *l, struct sk_lworker *w, int status);
/* Its process holds still (SIGSTOP) or, `still` false, goes on. One that is stopped already, or is no child of the fork server's any more, is left alone. A
 * SIGSTOP of somebody else that comes while it is held ends with that. */
void sk_lmem_hold(struct sk_local *l, struct sk_lworker *w, bool still);
void sk_lmem_gone(struct sk_lworker *w); /* it is freed */
/* The task that it ran, which has begun: runs again, or ends with SK_EOOM. */
void sk_lmem_stopped(struct sk_local *l, struct sk_lworker *w, struct sk_ltask *t);
void sk_lmem_task_over(struct sk_local *l, struct sk_ltask *t); /* it is no task that runs alone any more */
const char *sk_lmem_story(const struct sk_lworker *w);
sk_rc sk_lmem_info(struct sk_local *l, struct sk_memory_info *out, struct sk_memory_worker *w, size_t cap, size_t *n,
                   struct sk_err *err) SK_MUST_USE;

bool sk_local_check(struct sk_local *l); /* check.c: every structure against the others */

/* pool.c */
sk_rc sk_pool_start(struct sk_local *l, struct sk_err *err); /* fork server, threads */
void sk_pool_stop(struct sk_local *l);
void sk_pool_reports(struct sk_local *l); /* what the fork server says: who came up, who ended */
/* So many processes can be had: max_workers or, for a second after the system refused one several times in a row, as many as there were. */
uint32_t sk_pool_limit(const struct sk_local *l);
/* Asked when no idle worker will do. NULL: refused, or at the limit; there an idle one is told to make room, and its death asks again. */
struct sk_lworker *sk_pool_spawn(struct sk_local *l);
void sk_pool_bad_start(struct sk_local *l, const char *why); /* after several in a row what waits for workers fails */
void sk_pool_kill(struct sk_local *l, struct sk_lworker *w, const char *why);
/* Asks it to end by itself; nothing is sent to it any more. */
void sk_pool_leave(struct sk_local *l, struct sk_lworker *w, const char *why);
void sk_pool_retire(struct sk_local *l, struct sk_lworker *w);                   /* killed and idle: it is given nothing any more */
void sk_pool_kill_task(struct sk_local *l, struct sk_ltask *t, const char *why); /* the worker that it is on */
static inline uint32_t sk_pool_worker_state(const struct sk_lworker *w) {        /* of sk_worker_info */
    return w->killed ? 3 : w->place.state == SK_W_STARTING ? 0 : w->place.state == SK_W_IDLE ? 1 : 2;
}
/* From time to time: what lies, not begun, on a worker whose process is stopped (SIGSTOP, a debugger) goes elsewhere. */
void sk_pool_look(struct sk_local *l, int64_t now_ns);
void sk_pool_interrupt(struct sk_local *l, struct sk_lworker *w); /* SIGINT for the task w->interrupt, if it still runs there */
void sk_pool_reap(struct sk_local *l, int64_t now_ns);            /* idle workers, leases, punching */
/* By ring or store. SK_EAGAIN: the ring is full now. SK_EFULL: the message needs the store, which is full. Nothing sent then. */
sk_rc sk_pool_send(struct sk_local *l, struct sk_lworker *w, const void *msg, size_t len) SK_MUST_USE;
/* Never lost: kept until the ring has room. False: too large for the ring, and the store is full; only answers of get and wait can be. */
bool sk_pool_reply(struct sk_local *l, struct sk_lworker *w, const void *msg, size_t len);
void sk_pool_flush(struct sk_local *l, struct sk_lworker *w);

/* group.c: placement groups and environments */
sk_rc sk_lgroup_create(struct sk_local *l, uint32_t proc, uint64_t base, const struct sk_res *bundles, uint32_t n, uint32_t strategy,
                       struct sk_bytes space, struct sk_bytes name, struct sk_err *err) SK_MUST_USE;
sk_rc sk_lgroup_remove(struct sk_local *l, uint64_t id, struct sk_err *err) SK_MUST_USE;
void sk_lgroup_ready(struct sk_local *l, const struct sk_place_group *g); /* it has its bundles */
size_t sk_lgroups_write(struct sk_local *l, void *buf, size_t cap);
void sk_lgroups_free(struct sk_local *l);
void sk_lgroup_handle(struct sk_local *l, struct sk_lworker *w, uint32_t type,
                      struct sk_rd *r); /* GROUP, UNGROUP, GROUPS, DEFENV, MORE, MOREREAD */
sk_rc sk_env_define(struct sk_local *l, struct sk_bytes env, uint32_t *out, struct sk_err *err) SK_MUST_USE;
sk_rc sk_more_define(struct sk_local *l, const struct sk_amount *a, uint32_t n, uint32_t *out, struct sk_err *err) SK_MUST_USE;
sk_rc sk_need_shape(struct sk_local *l, const struct sk_need *n, sk_shape *out, struct sk_err *err) SK_MUST_USE;
/* actor.c */
sk_rc sk_actor_create(struct sk_local *l, uint32_t proc, uint64_t base_id, const uint8_t *spec, size_t len, const struct sk_aspec *as,
                      struct sk_err *err);
void sk_actor_advance(struct sk_local *l, struct sk_lactor *a); /* send what can be sent, start, stop */
void sk_actor_dead(struct sk_local *l, struct sk_lactor *a, const char *why);
void sk_actor_fail_calls(struct sk_local *l, struct sk_lactor *a, const char *why);                /* those that are not on its worker */
void sk_actor_worker_died(struct sk_local *l, struct sk_lactor *a, bool charged, const char *why); /* charged: it costs a restart */
/* SK_EPENDING: max calls of that process are not finished. */
sk_rc sk_actor_may_call(struct sk_local *l, uint64_t aid, uint32_t proc, uint32_t max, struct sk_err *err) SK_MUST_USE;
bool sk_actor_call_waits(const struct sk_lactor *a, const struct sk_ltask *t); /* for the next life of its actor */
bool sk_actor_call(struct sk_lactor *a, struct sk_ltask *t) SK_MUST_USE;       /* it is held; false: no memory */
void sk_actor_call_ready(struct sk_ltask *t); /* its arguments are there: it is let on, and those behind it; or no call */
void sk_actor_call_over(struct sk_ltask *t);
void sk_actor_free(struct sk_lactor *a);
void sk_actor_fail_hasty(struct sk_local *l, struct sk_lactor *a, const char *why); /* its process died: the others */
void sk_actor_unreferenced(struct sk_local *l, struct sk_lactor *a);
/* By name; *out has a reference of proc, and so has its `ready` (id - 1). */
sk_rc sk_actor_find(struct sk_local *l, uint32_t proc, struct sk_bytes space, struct sk_bytes name, struct sk_lactor **out,
                    struct sk_err *err) SK_MUST_USE;
void sk_actor_find_for(struct sk_local *l, struct sk_lworker *w, uint64_t req, struct sk_bytes space, struct sk_bytes name);
void sk_actor_names_for(struct sk_local *l, struct sk_lworker *w, uint64_t req);
void sk_actor_sweep(struct sk_local *l); /* frees dead actors that nobody can name; at the end of a turn of the loop */

#endif
