/* msg.h - the messages between the driver of a cluster and its nodes, and between nodes. Pure.
 *
 * A message is a frame: a head of 16 bytes (length of the body, type, CRC-32C of the body), then
 * the body, padded to a multiple of 8 bytes. Numbers are little-endian. A reader checks every
 * length, so damaged bytes give SK_ECORRUPT and never a crash; what a message borrows lives as long
 * as its frame.
 *
 *     both ways        HELLO, WELCOME, BEAT, BYE
 *     driver -> node   PEER, ENV, RUN, CANCEL, END_ACTOR, PUT, DROP, FETCH, BRING, TAKEN, GROUP,
 *                      UNGROUP, ASK
 *     node -> driver   EVENT, VALUE, STATE, MISSING, BROUGHT, WANT, PRINTS, TOLD
 *     references       DEFINE, HOLD, UNHOLD, THERE, CALL, ENDED, KILL, STOP: both ways between a
 *                      driver and a node
 *     streams          YIELD, TOOK: both ways, of calls across
 *     names            NAME: a node asks the driver about names of actors; NAMED: the answer
 *     node <-> node    READ, DATA
 *
 * Ids. The driver numbers tasks; value i of a task (a return, or a yield) has the id
 * sk_value_id(task, i), so a node can name a value before the driver has heard of it. A value that
 * the driver puts has a number of its own, and index 0. An object of a node's engine, and a return
 * of a call of its actor, has the id sk_foreign_value(name) as a value.
 *
 * References (engine/foreign.h). Each side names an object of the other by its number there. HOLD:
 * "there are references to it here"; the owner keeps the object until UNHOLD, and says THERE once,
 * as soon as it has a value. CALL calls an actor of the other side, or (a node's, actor 0) submits
 * a task that this node cannot run; its returns are named by the caller, count as held, and are let
 * go by UNHOLD after ENDED, which comes after the last THERE. Until then the caller keeps the
 * arguments. The one return of a stream is its end, which is empty or an error. YIELD is what it
 * yields, which counts as held by the receiver, as if it had said HOLD; TOOK says how many of these
 * were taken. With SK_RUN_INIT it makes an actor that the node cannot hold; NAMED repeats `first`
 * then, and says which actor it is, or why there is none. STOP cancels a call of the sender (by the
 * name of its first return), or the task that makes an object of the receiver. WANT: the value
 * could not be read from where THERE said that it is; the driver sends it by PUT, and says THERE
 * once more. All of these travel on the one connection between the two, in order. */
#ifndef SK_CLUSTER_MSG_H
#define SK_CLUSTER_MSG_H

#include "base/containers/vec.h"
#include "base/wire.h"
#include "engine/foreign.h"
#include "engine/resources.h"
#include "engine/task.h"

enum {
    SK_CMSG_VERSION = 11,
    SK_CMSG_HEAD = 16,
    /* longest body of a peer whose HELLO has not been accepted yet */
    SK_CMSG_STRANGER = 1024,
    /* what a body of VALUE, DATA or PUT has in front of its bytes, which are its end */
    SK_CMSG_VALUE_HEAD = 24,
    /* Values of at least this many bytes are sent from where they are, and received where they are
     * to be. */
    SK_CMSG_LARGE = 64 << 10,
    SK_SECRET = 32,
};

#define SK_CLUSTER_VALUES (1u << 24) /* most values of one task */

enum sk_cmsg_type {
    SK_CMSG_HELLO = 1,
    SK_CMSG_WELCOME,
    SK_CMSG_BEAT,
    SK_CMSG_BYE,
    SK_CMSG_PEER,
    SK_CMSG_DEFINE,
    SK_CMSG_ENV,
    SK_CMSG_RUN,
    SK_CMSG_CANCEL,
    SK_CMSG_END_ACTOR,
    SK_CMSG_PUT,
    SK_CMSG_DROP,
    SK_CMSG_FETCH,
    SK_CMSG_EVENT,
    SK_CMSG_VALUE,
    SK_CMSG_STATE,
    SK_CMSG_MISSING,
    SK_CMSG_READ,
    SK_CMSG_DATA,
    SK_CMSG_HOLD,
    SK_CMSG_UNHOLD,
    SK_CMSG_THERE,
    SK_CMSG_WANT,
    SK_CMSG_CALL,
    SK_CMSG_ENDED,
    SK_CMSG_KILL,
    SK_CMSG_BRING,
    SK_CMSG_BROUGHT,
    SK_CMSG_PRINTS,
    SK_CMSG_TAKEN,
    SK_CMSG_STOP,
    SK_CMSG_NAME,
    SK_CMSG_NAMED,
    SK_CMSG_ASK,
    SK_CMSG_TOLD,
    SK_CMSG_YIELD,
    SK_CMSG_TOOK,
    SK_CMSG_GROUP,
    SK_CMSG_UNGROUP,
    SK_CMSG_ROOM,
};
#define SK_CMSG_LAST SK_CMSG_ROOM

enum { SK_ROLE_DRIVER = 1, SK_ROLE_NODE = 2 };
/* Times of nodes are in 0 .. SK_CMSG_NS_MAX, so that sums and differences of two cannot overflow.
 */
#define SK_CMSG_NS_MAX (INT64_MAX / 4)
/* So large at most are amounts of resources, for the same reason; Ray has at most 10^14, in units
 * of SK_RES_UNIT. */
#define SK_CMSG_RES_MAX (INT64_MAX / 8)
/* flags of RUN, and (the first two, ASYNC, NO_WAIT, DETACHED) of CALL; of CANCEL and STOP:
 * SK_RUN_FORCE, SK_RUN_CHILDREN; of END_ACTOR: SK_RUN_RESTART, SK_RUN_LEAVE; of KILL:
 * SK_RUN_RESTART */
enum {
    SK_RUN_INIT = 1,
    SK_RUN_RETRY_ERRORS = 2,
    SK_RUN_FORCE = 4,
    SK_RUN_RESTART = 8,
    SK_RUN_ASYNC = 16,   /* of a constructor: the actor has an event loop */
    SK_RUN_NO_WAIT = 32, /* of a call: sk_task_opts.no_wait */
    /* of a call: the first one after the calls of its actor came back as MISSING */
    SK_RUN_RESUME = 64,
    SK_RUN_CHILDREN = 128,
    SK_RUN_LEAVE = 256,   /* the actor ends in order */
    SK_RUN_DETACHED = 512 /* of a CALL that makes an actor */
};

struct sk_cmsg_arg { /* an argument of RUN */
    uint64_t id;     /* 0: the value is `kind` and `bytes` */
    /* id: the node that has the value; it is the receiver itself, or another one, from which the
     * receiver reads it */
    uint32_t node, kind;
    bool part; /* only [offset, offset + length) of the value */
    uint64_t offset, length;
    struct sk_bytes bytes;
};
struct sk_cmsg_value { /* a value that EVENT tells of */
    uint64_t id, size;
    bool here; /* the value is `kind` and `bytes`, and does not lie on the node */
    /* it has references inside, which live as long as the value lies on the node that made it */
    bool stays;
    uint32_t kind;
    struct sk_bytes bytes;
};

struct sk_cmsg {
    enum sk_cmsg_type type;
    union {
        struct { /* the first message of whoever has connected */
            uint32_t version, role;
            uint64_t job;
            uint8_t secret[SK_SECRET];
            uint32_t number; /* of a node: its own; of the driver: 0 */
            /* the incarnation of the receiver that the sender means; 0: any */
            uint64_t incarnation;
        } hello;
        struct { /* the answer to HELLO; `why` is empty, or says why it was refused */
            uint32_t version;
            uint64_t incarnation;
            struct sk_res total;
            uint64_t store_bytes, disk_limit_bytes;
            uint64_t id_base; /* of the node's engine (conf.h); 0: references do not travel */
            struct sk_bytes name, why, labels; /* labels: as in wheres.h */
        } welcome;
        struct { /* where a node can be reached; the first one tells the receiver its own number */
            uint32_t number;
            uint64_t incarnation;
            struct sk_bytes address;
        } peer;
        struct {
            uint64_t fn;
            struct sk_bytes name, def;
        } define;
        struct { /* an environment of processes, before the first RUN that names it */
            uint32_t number;
            struct sk_bytes bytes;
        } env;
        struct {
            uint64_t task, fn, actor; /* actor 0: none */
            uint64_t known;           /* sk_task_opts.known_task; `actor` is known_actor */
            uint64_t host;            /* the host's number of the task, which people see */
            uint32_t attempt, flags, n_returns;
            int32_t max_retries;
            uint32_t max_calls, group, env; /* group: of a call; env 0: the job's */
            /* of a stream: how many yields may wait to be taken (0: any number), and how many of
             * the first ones were taken of an earlier run */
            uint32_t window, taken;
            /* of a constructor: retries of its calls, and as many groups of 4 bytes, maybe not
             * aligned */
            int32_t max_task_retries;
            struct sk_bytes groups;
            struct sk_res need; /* of a call of an actor: nothing */
            /* as in sk_need: placement group (0: none), bundle (a number), capture */
            uint64_t pg;
            uint32_t bundle, capture;
            struct sk_bytes name; /* empty: that of the function */
            uint32_t n_args;
            struct sk_bytes args; /* read by sk_cmsg_arg_next */
        } run;
        /* CANCEL, END_ACTOR, HOLD, UNHOLD, WANT, ENDED, KILL, STOP, UNGROUP; ROOM: other nodes have
         * room for `id` (CPUs, in 1/SK_RES_UNIT) of what waits at the receiver (n_spare) */
        struct {
            uint64_t id;
            uint32_t flags;
        } end;
        struct {
            uint64_t id;
            uint32_t kind;
            struct sk_bytes bytes;
        } put;
        struct {
            uint32_t n;
            struct sk_bytes ids; /* n numbers of 8 bytes, maybe not aligned */
        } drop;
        struct { /* FETCH, READ: the answer, VALUE or DATA, repeats `ask` */
            uint64_t ask, id;
            bool part;
            uint64_t offset, length;
        } fetch;
        struct {
            uint64_t task;
            uint32_t kind, attempt, index; /* kind: enum sk_event_kind; index: of the first value */
            int32_t code;                  /* FAILED: reason, if there is no value */
            int64_t run_ns;
            /* DONE, FAILED: the worker, and when the task began, by the node's clock; 0: not known
             */
            int32_t pid;
            int64_t start_ns;
            bool actor_lives; /* FAILED: as in sk_event */
            struct sk_bytes text, note;
            uint32_t n_values;
            struct sk_bytes values; /* read by sk_cmsg_value_next */
        } event;
        struct { /* VALUE, DATA */
            uint64_t ask;
            int32_t rc; /* not SK_OK: `bytes` is the message of the error */
            uint32_t kind;
            struct sk_bytes bytes;
            /* Of a message that has come. NULL, or where the owner of the memory is named in which
             * the bytes lie (tcp.h, place): who takes that memory over sets it to NULL. */
            void **owner;
        } value;
        struct { /* sent as a sign of life, too */
            struct sk_res free;
            uint64_t resident_bytes, disk_bytes, promised_bytes, disk_limit_bytes;
            struct sk_load load; /* without `sent` */
            /* number of RUN and GROUP that had come by then; 0: some of these tasks wait for
             * arguments, so what is free is theirs */
            uint64_t n_runs;
            /* tasks of its tasks that wait for room, and may run elsewhere: up to some hundreds */
            uint32_t n_spare;
        } state;
        struct {
            uint64_t name, size;
            bool stays; /* from a node: there are references inside, see sk_cmsg_value */
            bool here;  /* the value, or an error, is `kind` and `bytes` */
            /* else `value` lies on this node; 0: the receiver of this message has to ask for it by
             * WANT. From a node: it lies there. */
            uint32_t node;
            uint64_t value;
            uint32_t kind;
            struct sk_bytes bytes;
        } there;
        struct {                       /* a call of an actor of the receiver, or a task */
            uint64_t actor, first, fn; /* first: the caller's name of the first return */
            uint64_t caller, known;    /* sk_task_opts.caller, known_task */
            uint32_t n_returns, flags, group, max_calls, window;
            int32_t max_retries;
            struct sk_bytes name;
            uint32_t n_args;
            struct sk_bytes args; /* as those of RUN; ids are numbers of objects */
            uint32_t n_contains;
            struct sk_bytes contains;    /* numbers of 8 bytes, maybe not aligned */
            struct sk_foreign_need need; /* of a task: actor is 0 */
            /* of a constructor; max_retries are restarts of the actor */
            int32_t max_task_retries;
            struct sk_bytes groups; /* numbers of 4 bytes, maybe not aligned */
            struct sk_bytes space, actor_name, meta;
        } call;
        struct { /* engine/foreign.h; ask 0: no answer is wanted */
            uint64_t ask;
            struct sk_foreign_name name;
        } name;
        struct { /* rc not SK_OK: `bytes` says why */
            uint64_t ask, actor;
            int32_t rc;
            struct sk_bytes bytes;
        } named;
        struct { /* a task that has not begun, since its argument could not be brought */
            /* id 0: a call that was behind such a call, and comes back to keep its order */
            uint64_t task, id;
            uint32_t node;
            int32_t code; /* SK_ENOENT: that node does not have it; else it cannot be reached */
        } missing;
        struct { /* read a value from another node and keep it, until DROP */
            uint64_t ask, id;
            uint32_t node;
        } bring;
        struct { /* the answer to BRING, which repeats `ask` */
            uint64_t ask, id;
            int32_t rc; /* SK_ENOENT: that node does not have it; else it cannot be reached */
        } brought;
        struct {         /* what tasks have printed: whole lines, before the ends of these tasks */
            uint32_t to; /* 1: stdout, 2: stderr */
            struct sk_bytes text;
        } prints;
        struct { /* a placement group, of which bundles are reserved here; the same again for more
                  */
            uint64_t id;
            uint32_t n, strategy;
            struct sk_bytes bundles; /* n of struct sk_res, maybe not aligned */
            struct sk_bytes here;    /* n bytes: 1 if this node has the bundle */
        } group;
        /* TAKEN, TOOK: of a stream with a window: how many yields were taken so far; UINT32_MAX:
         * nobody reads it any more. task: of TOOK: the name of the stream's end */
        struct {
            uint64_t task;
            uint32_t n;
        } taken;
        struct { /* ASK: what (enum sk_ask of guest.h) the node is to tell of itself; TOLD: the
                    answer */
            uint64_t ask; /* repeated by the answer */
            uint32_t what;
            int64_t now_ns; /* TOLD: the node's clock */
            struct sk_bytes bytes;
        } told;
        struct { /* of a call across, by the name of its end: object `id` of the sender */
            uint64_t first, id;
        } yield;
    };
};

/* Bytes of a frame that stay where they are until they have been sent. */
struct sk_apart {
    size_t at; /* they come after this many of the outbox's own bytes */
    struct sk_bytes bytes;
    void (*release)(void *ctx, void *owner); /* called once, when they are not needed any more */
    void *ctx, *owner;
};
struct sk_outbox { /* frames that wait to be sent to one peer */
    uint8_t *p;
    size_t n, cap;
    SK_VEC(struct sk_apart) apart; /* by `at` */
};

/* Flags of CANCEL and STOP for SK_CANCEL_*, and the other way. */
static inline uint32_t sk_cmsg_of_cancel(uint32_t flags) {
    return (flags & SK_CANCEL_FORCE ? SK_RUN_FORCE : 0u) |
           (flags & SK_CANCEL_CHILDREN ? SK_RUN_CHILDREN : 0u);
}
static inline uint32_t sk_cmsg_cancel_of(uint32_t flags) {
    return (flags & SK_RUN_FORCE ? SK_CANCEL_FORCE : 0u) |
           (flags & SK_RUN_CHILDREN ? SK_CANCEL_CHILDREN : 0u);
}

static inline uint64_t sk_value_id(uint64_t task, uint32_t index) {
    return task << 24 | (index & (SK_CLUSTER_VALUES - 1));
}

/* The id, as a value, of an object that a node's engine owns or a call of its actor returns. */
static inline uint64_t sk_foreign_value(uint64_t name) { return name | UINT64_C(1) << 63; }

/* Appends a frame. SK_ENOMEM: nothing changed. */
sk_rc sk_cmsg_put(struct sk_outbox *o, const struct sk_cmsg *m, struct sk_err *err) SK_MUST_USE;
/* The same for VALUE, DATA or PUT, whose bytes (apart.bytes, not m's) are not copied. On success
 * the outbox owns `apart`. */
sk_rc sk_cmsg_put_apart(struct sk_outbox *o, const struct sk_cmsg *m, struct sk_apart apart,
                        struct sk_err *err) SK_MUST_USE;
void sk_outbox_free(struct sk_outbox *o); /* frees what it has; it is empty then */
/* Writes arguments and values into `w`, for the fields args and values of a message. */
void sk_cmsg_arg_put(struct sk_wr *w, const struct sk_cmsg_arg *a);
void sk_cmsg_value_put(struct sk_wr *w, const struct sk_cmsg_value *v);

/* Reads the head of a frame: *body is the length of what follows it, *type its type. */
void sk_cmsg_head(const uint8_t head[SK_CMSG_HEAD], uint64_t *body, uint32_t *type);
/* True if the body, which is `start` and then `rest`, has the checksum that the head says. */
bool sk_cmsg_whole(const uint8_t head[SK_CMSG_HEAD], struct sk_bytes start,
                   struct sk_bytes rest) SK_MUST_USE;
/* Reads a body. SK_ECORRUPT: it is damaged, or of an unknown type. */
sk_rc sk_cmsg_read(uint32_t type, struct sk_bytes body, struct sk_cmsg *out,
                   struct sk_err *err) SK_MUST_USE;
/* Reads a body of VALUE or DATA of which only the first SK_CMSG_VALUE_HEAD bytes are here; the
 * bytes of the value, value.bytes.n of them, come right behind these. False: it is damaged. */
bool sk_cmsg_read_value_head(uint32_t type, const uint8_t *head, uint64_t body,
                             struct sk_cmsg *out) SK_MUST_USE;
/* Gives the next argument or value; `r` is a reader of run.args or event.values, which
 * sk_cmsg_read has checked, so that as many follow as the message says. */
struct sk_cmsg_arg sk_cmsg_arg_next(struct sk_rd *r);
/* Makes the CALL of a call of an actor, or, with what it needs, of a task. Returns memory that *out
 * points into, which the caller frees. NULL: no memory. */
void *sk_cmsg_call(const struct sk_task_spec *s, uint64_t first, const struct sk_foreign_need *need,
                   struct sk_cmsg *out);
/* Gives the spec that a CALL carries; the caller sets `name` and `contains`. args: room for all of
 * them; what they point to lies in the message. */
void sk_cmsg_call_spec(const struct sk_cmsg *m, struct sk_arg *args, struct sk_task_opts *opts,
                       struct sk_task_spec *out);
#define SK_CMSG_ERROR 400
/* An error of the engine as a value, in `room`, of SK_CMSG_ERROR bytes; a longer text is cut. */
struct sk_bytes sk_cmsg_error(uint8_t *room, sk_rc code, const char *text);
struct sk_cmsg_value sk_cmsg_value_next(struct sk_rd *r);
static inline uint64_t sk_cmsg_drop_at(const struct sk_cmsg *m, uint32_t i) {
    uint64_t id;
    memcpy(&id, (const uint8_t *)m->drop.ids.p + 8 * (size_t)i, 8);
    return id;
}

#endif
