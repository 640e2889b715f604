/* guest.h - an engine that is written in another language: a table of calls, of which by/guest.c
 * makes the contract of engine.h. It has no notes (sk_engine.no_notes): values of kind SK_KIND_NOTE
 * come as bytes with their events, in the order in which they were yielded.
 *
 * The host (guest/) has the ids, reference counts, the tasks that wait for arguments, and the
 * events' order. The guest runs tasks that can begin, and has values
 * behind handles of its own: a handle is dropped when nothing refers to its value any more. One
 * thread, the host's, makes all calls but `fetch`, `let_go` and `drop`, which come from any thread;
 * no lock of the host is held in any of them, so they may take locks of the guest's language. */
#ifndef SK_GUEST_H
#define SK_GUEST_H

#include "engine/engine.h"

/* values of the driver up to so many bytes go along with each task, larger ones are put once */
enum { SK_GUEST_INLINE = 64u << 10 };

struct sk_guest_value {
    void *handle; /* not NULL: the guest's; else: */
    uint32_t kind;
    struct sk_bytes bytes;
    void *token; /* of fetch: what keeps the bytes, for let_go */
};
struct sk_guest_task {
    uint64_t task, actor; /* ids; actor 0: none */
    sk_fid fn;
    const char *name;
    /* the constructor of the actor: its value says that the actor is ready */
    bool is_init;
    uint32_t n_returns;         /* or SK_STREAMING */
    const struct sk_need *need; /* amounts; NULL: of a method, nothing */
    /* after a death; -1: for ever. Of a constructor: restarts of the actor */
    int32_t max_retries;
    bool retry_exceptions;
    /* its process ends after so many runs of fn; 0: no limit. A guest that cannot: SK_ENOSYS of
     * submit. Not of methods */
    uint32_t max_calls;
    uint32_t node;  /* number of a row of nodes() where it should be, or the actor; 0: anywhere */
    bool node_only; /* and nowhere else: when that node goes it ends with SK_EINFEASIBLE */
    const struct sk_guest_value *args;
    uint32_t n_args;
};
struct sk_guest_event {
    enum sk_event_kind kind; /* STARTED, YIELDED, DONE, FAILED */
    uint64_t task;
    uint32_t attempt, node; /* node: number of a row of nodes(); 0: not known */
    int64_t run_ns;         /* of the last ones; 0: not known */
    /* The yield, or all returns: taken. FAILED: one value of an error kind, or none, then `code`
     * and `text`. */
    struct sk_guest_value *values;
    const uint64_t *sizes;
    uint32_t n_values;
    sk_rc code;
    const char *text;
};
struct sk_guest_ops {
    /* First call; wake(host) may be called from any thread until end: there is something for
     * poll. */
    void (*begin)(void *ctx, void (*wake)(void *host), void *host);
    void (*end)(void *ctx); /* last call: stops everything */
    sk_rc (*nodes)(void *ctx, struct sk_node *out, size_t cap, size_t *n, struct sk_err *err);
    sk_rc (*define)(void *ctx, sk_fid fn, const char *name, struct sk_bytes def,
                    struct sk_err *err);
    /* a failure is the task's */
    sk_rc (*submit)(void *ctx, const struct sk_guest_task *t, struct sk_err *err);
    /* it ends with an event all the same */
    void (*cancel)(void *ctx, uint64_t task, bool force);
    /* now; the calls that it has end with events */
    void (*actor_end)(void *ctx, uint64_t actor, bool restart);
    sk_rc (*put)(void *ctx, uint32_t kind, struct sk_bytes bytes, void **handle,
                 struct sk_err *err);
    /* What has happened: tell for each event, in order. Does not wait. */
    sk_rc (*poll)(void *ctx, void (*tell)(void *host, const struct sk_guest_event *ev), void *host,
                  struct sk_err *err);
    sk_rc (*fetch)(void *ctx, void *handle, int64_t deadline_ns, struct sk_guest_value *out,
                   struct sk_err *err); /* the value of a handle, its bytes in place */
    void (*let_go)(void *ctx, void *token);
    void (*drop)(void *ctx, void *handle);
};
struct sk_guest {
    const struct sk_guest_ops *ops;
    void *ctx;
};

#endif
