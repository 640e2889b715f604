/* book_int.h - the structures of the book, and a line about each function that its files share. */
#ifndef SK_CLUSTER_BOOK_INT_H
#define SK_CLUSTER_BOOK_INT_H

#include "base/containers/list.h"
#include "base/containers/map.h"
#include "base/containers/vec.h"
#include "engine/cluster/book.h"
#include "engine/cluster/which/where.h"
#include "engine/cluster/which/which.h"
#include <stdlib.h>

#include "engine/own/lineage.h"

#define TAG SK_TAG_ENGINE

struct sk_bval {
    uint64_t id;
    uint32_t refs; /* the host's handle (`held`), and arguments of tasks that have not ended */
    bool held;
    bool asked; /* a FETCH is under way */
    /* The bytes are being fetched, because a node that needs them cannot read them from the node
     * that has them. */
    bool relay;
    uint32_t n_fetching;
    uint32_t node; /* a node that has the value; 0: none has; changed by sk_bval_settle */
    /* The number of the order by which it is being moved off its node, which is draining; 0: none.
     * move_to: the node that was ordered to bring it; 0: it is being fetched by the driver. */
    uint64_t move;
    uint32_t move_to;
    SK_VEC(uint32_t) copies; /* other nodes that have it, or that were told to read it */
    struct sk_bblob *blob;   /* of put(): the value itself; else bytes that were fetched, or NULL */
    bool mine;               /* blob is the value itself */
    /* It has references inside, so the node that made it has to have it: if the node drains, it
     * waits until the value is released, or for the deadline. */
    bool stays;
    uint64_t size;
    enum sk_lost_why why; /* why no task would make it again, if lineage does not know the task */
    struct sk_err *err;   /* not NULL: it cannot be made again */
};

struct sk_barg {
    uint64_t id; /* 0: the value is `blob` */
    struct sk_bblob *blob;
    bool part;
    uint64_t offset, length;
};

enum sk_bstate {
    SK_B_BLOCKED, /* an argument is being made again */
    SK_B_READY,   /* in the queue of its shape, or of its actor */
    SK_B_SENT,    /* a node has it */
    SK_B_KEPT     /* it is over, and lineage may run it again */
};

struct sk_btask {
    struct sk_list link; /* by state: b->blocked, shape->ready, or actor->calls; node->sent */
    uint64_t id, seq;    /* number of the host; number in messages */
    uint64_t caller;     /* of a call */
    uint64_t known;      /* the number by which its code knows it */
    enum sk_bstate state;
    uint32_t attempt, node;
    bool over;   /* the host was told that it is over */
    bool kept;   /* lineage has it */
    bool ending; /* it is being ended or queued: whoever does that frees it */
    bool begun, cancelled;
    bool actor_lives; /* of a call that fails: its actor is started again */
    bool lacks; /* of a stream: a yield of this attempt was lost, so it has to run once more */
    bool is_init, retry_errors, node_only, no_wait;
    sk_fid fn;
    char *name;
    struct sk_bactor *actor;
    uint32_t n_returns, n_args, max_calls, group, env, wish, shape;
    uint32_t bundle;          /* of a task in a placement group that was sent */
    uint32_t window, n_taken; /* of a stream: as in RUN */
    int32_t retries;          /* left */
    struct sk_barg *args;
    /* of a stream: number of yields that the host was told of, and a hash of the note of each */
    SK_VEC(uint64_t) notes;
    uint32_t n_seen; /* yields of this attempt */
};

struct sk_bactor {
    uint64_t id;
    uint32_t node; /* 0: nowhere now */
    /* ended: the host has ended it, so it is there only to make lost values again; dead: it cannot
     * be started again */
    bool started, ended, dead;
    bool sweep;   /* a call that waits is needed no more */
    bool closing; /* it was ended where it is, and what was under way there has not ended yet */
    /* A call came back from its node as MISSING, and those behind it come back, too: no call is
     * sent until n_sent is 0. Stays false if the calls may begin in any order. */
    bool settling;
    /* Not only the driver calls it: a call that waits holds back those of its caller only. */
    bool mixed;
    bool moving;           /* its node is draining and another has room: its calls are held back */
    struct sk_btask *init; /* kept as long as the actor, or a call of it that lineage keeps */
    struct sk_list calls;  /* that wait until it has started, in order */
    uint32_t n_calls;      /* all calls that have not ended */
    uint32_t n_sent;       /* those that its node has */
    uint32_t n_kept;       /* those that lineage keeps */
    /* of the constructor's RUN; n_groups not 0: the calls may begin in any order */
    bool is_async;
    int32_t max_task_retries;
    uint32_t n_groups, *groups;
    char *why; /* of a dead actor */
    /* Its node has said that it is dead. The node goes on answering its calls, with what happened;
     * what it took there is free. */
    bool gone;
};

struct sk_bgroup {       /* a placement group */
    struct sk_list link; /* in b->groups, the oldest first */
    uint64_t id;
    uint32_t n, strategy, n_missing; /* n_missing: bundles that have no node */
    SK_VEC(uint32_t) told;           /* nodes that know the group */
    struct {
        struct sk_res total;
        struct sk_res used; /* by tasks and actors that were sent to it, where it is now */
        struct sk_res kept; /* of `used`: what actors have */
        uint32_t node;      /* 0: none */
        uint32_t where;     /* number in b->envs; 0: any node */
    } b[];
};

static inline struct sk_bgroup *sk_bgroup_in(struct sk_list *it) {
    return sk_container_of(it, struct sk_bgroup, link);
}

struct sk_bshape {
    struct sk_res need;
    bool keeps;
    uint64_t group; /* a placement group, maybe one that is gone; 0: none */
    int32_t bundle; /* -1: any */
    bool capture;
    uint32_t n_tasks; /* that have this shape; at 0 that of a group is used anew */
    uint32_t where, where_flags, n_choices; /* where: number in b->envs, or 0 */
    /* with a where: index: node - 1; the first choice that the node fulfils, UINT32_MAX: none */
    SK_VEC(uint32_t) rank;
    int64_t avg_ns;
    struct sk_list ready;
    bool stuck; /* within a launch: no node may have its next task now */
};

struct sk_bnode {
    uint32_t number;
    bool alive, draining;
    uint64_t incarnation;
    char name[64];
    char *address;
    struct sk_bytes labels;
    uint64_t spread; /* as in struct sk_which_node */
    struct sk_res total, used, free;
    /* of `used`: what bundles of groups have, and what actors have that are in no group; and what
     * is being saved up for a group that waits (within a launch) */
    struct sk_res reserved, kept, saved;
    /* What is free on the node although `used` may say that it is full, since tasks there wait for
     * objects (they, or others, may be what these tasks wait for); 0: not known. n_runs: number of
     * RUN that were sent. */
    struct sk_res idle;
    uint64_t n_runs;
    /* Tasks of its tasks that wait there and could run elsewhere (drain.c); and the CPUs here that
     * were offered to node `offered_to` for such tasks, which have not come yet. */
    uint32_t n_spare, offered_to;
    int64_t offered;
    uint64_t capacity, resident, disk, promised, disk_limit;
    struct sk_load load;
    struct sk_outbox out;
    struct sk_map defined; /* functions that the node knows */
    struct sk_map envs;    /* environments that it knows */
    struct sk_list sent;   /* tasks */
    SK_VEC(uint64_t) drop; /* values to drop, sent together */
    uint64_t place;        /* of its engine's ids (foreign.h); 0: references do not travel */
    struct sk_map lent;    /* name -> struct blent: what the node holds */
    /* draining: values that have to be moved, and those that are being moved */
    SK_VEC(uint64_t) leaving;
    uint32_t n_moving;
    uint64_t moving_bytes;
    /* bytes of values that are being moved here, or were since the last STATE */
    uint64_t coming, arrived;
};

struct sk_blent {      /* an object of the host that a node holds */
    struct sk_bval *v; /* where it lies, with a reference; NULL: not there yet, or it was small */
    bool wanted;       /* the node could not read it, so it goes by here */
};

struct sk_bfn {
    char *name;
    void *def;
    size_t n;
};

struct sk_btold { /* an event for the host */
    struct sk_guest_event ev;
    struct sk_guest_value value; /* if n_values is 1 */
    void *keep[3];               /* what the event points to: values, bytes, texts */
};

struct sk_bask { /* a request to nodes */
    uint64_t number;
    uint32_t what;
    struct sk_banswer {
        uint32_t node;
        bool over;             /* it has answered, or is lost */
        struct sk_bblob *blob; /* the answer */
    } *of;
    uint32_t n, n_left;
};

struct sk_book {
    SK_VEC(struct sk_bnode *) nodes; /* number - 1 */
    SK_VEC(struct sk_which_node) which;
    SK_VEC(struct sk_bshape *) shapes;
    SK_VEC(struct sk_bblob *) envs; /* number - 1; wheres, too */
    struct sk_map fns, tasks, seqs, actors, values;
    struct sk_map asked; /* object of a node that the host holds -> struct basked (refs.c) */
    uint32_t n_wanted;   /* lent objects that are wanted */
    struct sk_list groups;
    uint32_t n_groups_wait; /* that have bundles without a node */
    /* What groups may have has become more (n_freed counts), or another group waits; what they were
     * tried with last. */
    uint64_t n_freed, n_tried;
    struct sk_list blocked;
    struct sk_list todo; /* blocked tasks to be looked at by sk_btasks_recheck */
    struct sk_lineage *lineage;
    SK_VEC(struct sk_btold) told;
    SK_VEC(struct sk_bask) asks;
    uint64_t next_seq, next_ask;
    bool recheck; /* a value has come to exist that a blocked task may wait for */
    uint64_t n_spread;
    bool spare; /* a node may have an n_spare */
    uint64_t n_again, n_remade, n_revived, n_moved, n_moved_actors, n_orders;
};

static inline struct sk_bnode *sk_bnode_of(const struct sk_book *b, uint32_t number) {
    return number && number <= b->nodes.n ? b->nodes.p[number - 1] : NULL;
}
static inline struct sk_bval *sk_bval_of(const struct sk_book *b, uint64_t id) {
    return sk_map_get(&b->values, id);
}
static inline bool sk_bval_there(const struct sk_bval *v) { return v->mine || v->node; }
static inline void sk_res_add(struct sk_res *to, const struct sk_res *r, int sign) {
    for (int i = 0; i < SK_RES_MAX; i++) to->amount[i] += sign * r->amount[i];
}
/* What is in use on a node: no more than what it last said, if that is known. */
static inline struct sk_res sk_bnode_used(const struct sk_bnode *n) {
    struct sk_res used = n->used;
    for (int k = 0; k < SK_RES_MAX; k++)
        if (n->idle.amount[k] > 0)
            used.amount[k] = SK_MIN(used.amount[k], n->total.amount[k] - n->idle.amount[k]);
    return used;
}
/* Writes a message to a node that is alive. No memory: the process aborts, since a task or a value
 * would be lost for ever. */
void sk_bnode_send(struct sk_bnode *n, const struct sk_cmsg *m);
/* Sends what the node is to drop. */
void sk_bnode_send_drops(struct sk_bnode *n);
/* Tells the node a function, if it does not know it. */
void sk_bnode_define(struct sk_book *b, struct sk_bnode *n, uint64_t fn);
/* Sends PUT with a blob, which is not copied if it is large. */
void sk_bnode_send_blob(struct sk_bnode *n, struct sk_cmsg *m, struct sk_bblob *blob);

/* ---- values.c */
struct sk_bval *sk_bval_new(struct sk_book *b, uint64_t id);
void sk_bval_unref(struct sk_book *b, struct sk_bval *v);
/* True if the node has the value, or was told to read it. */
bool sk_bval_at(const struct sk_bval *v, uint32_t node);
/* Says that a node has the value, or was told to read it. */
void sk_bval_copy(struct sk_bval *v, uint32_t node);
/* Says which node has the value; 0: none has. */
void sk_bval_settle(struct sk_book *b, struct sk_bval *v, uint32_t node);
/* Takes the node out of those that have the value; another one that does takes its place. */
void sk_bval_not_at(struct sk_book *b, struct sk_bval *v, uint32_t node);
/* Notes that a node does not have the value. It may still be reading it, and drops it then. */
void sk_bval_forget(struct sk_book *b, struct sk_bval *v, uint32_t node);
/* Asks the node that has the value for its bytes. */
void sk_bval_ask(struct sk_book *b, struct sk_bval *v);
/* Asks for the bytes of a value that is to go by here. */
void sk_bval_relay(struct sk_book *b, struct sk_bval *v);
/* Says that the value has come to lie on v->node, which may be draining. */
void sk_bval_leave(struct sk_book *b, const struct sk_bval *v);
/* Ends the value's move, if it is being moved. */
void sk_bval_unmove(struct sk_book *b, struct sk_bval *v);
/* The value is gone for good. */
void sk_bval_fail(struct sk_book *b, struct sk_bval *v, sk_rc code, const char *text);

/* ---- tasks.c */
/* Looks again at all tasks that wait for values. */
void sk_btasks_recheck(struct sk_book *b);
/* Sends the ready tasks that nodes may have now. */
void sk_btasks_send(struct sk_book *b);
void sk_btask_free(struct sk_book *b, struct sk_btask *t);
/* Queues a task: as ready, or as blocked if an argument is missing. front: before all others. */
void sk_btask_queue(struct sk_book *b, struct sk_btask *t, bool front);
/* Queues a task that has come off its node, or ends it if nobody needs it any more. */
void sk_btask_back(struct sk_book *b, struct sk_btask *t);
/* Takes the task off the node that has it, with the resources that it took there. */
void sk_btask_unsend(struct sk_book *b, struct sk_btask *t);
/* Stops a task that makes values again which nobody needs any more. */
void sk_btask_unneeded(struct sk_book *b, struct sk_btask *t);
/* Ends the task with an error of the engine. */
void sk_btask_fail(struct sk_book *b, struct sk_btask *t, sk_rc code, const char *text);
sk_rc sk_btask_event(struct sk_book *b, struct sk_bnode *n, const struct sk_cmsg *m,
                     struct sk_err *err);
void sk_btask_missing(struct sk_book *b, struct sk_bnode *n, const struct sk_cmsg *m);
void sk_bactor_die(struct sk_book *b, struct sk_bactor *a, const char *why);
/* Does what is due of an actor that the host has ended: starts it again for calls that make lost
 * values again, ends it when there are none, and frees it when lineage keeps none either. */
void sk_bactor_settle(struct sk_book *b, struct sk_bactor *a);
/* Sends the calls that can begin. It may free an actor that the host has ended. */
void sk_bactor_flush(struct sk_book *b, struct sk_bactor *a);
/* Has an actor, whose node is draining, start again elsewhere, if it may and another node has room;
 * its calls are held back until those under way have ended. True: it is queued now. */
bool sk_bactor_move(struct sk_book *b, struct sk_bactor *a);

/* ---- told.c */
sk_rc sk_btold_message(struct sk_book *b, const struct sk_bnode *n, const struct sk_cmsg *m,
                       struct sk_err *err);
void sk_btold_lost(struct sk_book *b, uint32_t node); /* nothing of it is waited for any more */
void sk_btold_free(struct sk_book *b);
/* ---- groups.c */
/* Reserves bundles where there is room for all that a group lacks, and saves room up for the oldest
 * group that could have them. */
void sk_bgroups_step(struct sk_book *b);
/* The node is lost, or is draining: its bundles have no node any more. */
void sk_bgroups_off(struct sk_book *b, struct sk_bnode *n);
void sk_bgroups_free(struct sk_book *b);
bool sk_bgroups_check(const struct sk_book *b); /* a part of sk_book_check */

/* ---- which/in_group.c */
struct sk_bgroup *sk_bgroup_of(const struct sk_book *b, uint64_t id); /* NULL: it is gone */
/* The node for a task in a group, and the bundle; NULL: none may have it now. b->which says where
 * its arguments are. */
struct sk_bnode *sk_bgroup_node(struct sk_book *b, const struct sk_bgroup *g,
                                const struct sk_btask *t, const struct sk_which_task *w,
                                uint32_t *bundle);
/* Notes that a task takes what it needs from its bundle (sign 1), or gives it back (-1). */
void sk_bgroup_take(struct sk_bgroup *g, const struct sk_btask *t, uint32_t node,
                    const struct sk_res *need, int sign);

/* ---- drain.c */
/* A node has said how many of its tasks' tasks could run elsewhere. */
void sk_bspare_state(struct sk_book *b, struct sk_bnode *n, uint32_t n_spare);
/* Offers such nodes what is free on others. */
void sk_bspare_offer(struct sk_book *b);
void sk_bdrain_brought(struct sk_book *b, struct sk_bnode *n, const struct sk_cmsg *m);
/* Begins moves. True: an actor was queued, and there may be more. */
bool sk_bdrain_step(struct sk_book *b);
bool sk_bdrain_check(const struct sk_book *b); /* a part of sk_book_check */

/* ---- lost.c */
/* Says that values of the task lie on a node: lineage keeps the task, if it may run again. */
void sk_blost_keep(struct sk_book *b, struct sk_btask *t, const uint64_t *returns, uint32_t n);
/* The value is nowhere any more: runs what makes it again, or fails it. */
void sk_blost_value(struct sk_book *b, struct sk_bval *v);
/* Frees tasks that lineage no longer keeps. */
void sk_blost_drain(struct sk_book *b);

/* ---- refs.c */
/* HOLD to KILL, DEFINE and WANT of a node. */
sk_rc sk_brefs_message(struct sk_book *b, struct sk_bnode *n, const struct sk_cmsg *m,
                       struct sk_err *err);
/* The node is lost; `why` is told to the host. */
void sk_brefs_lost(struct sk_book *b, struct sk_bnode *n, const char *why);
/* Sends wanted values that are here by now. */
void sk_brefs_launch(struct sk_book *b);
/* True if the host holds something of the node that goes away with it: an actor that a task has
 * made, an object whose value is not known here yet, or one with references inside. */
bool sk_brefs_busy(const struct sk_book *b, uint32_t node);
void sk_brefs_free(struct sk_book *b);
/* Adds the references that are counted here to `refs` (id of a value -> number). */
bool sk_brefs_count(const struct sk_book *b, struct sk_map *refs);

/* Begins an event for the host, whose other fields the caller fills. */
static inline struct sk_btold *sk_book_told(struct sk_book *b, struct sk_guest_event ev) {
    if (!sk_vec_push(&b->told, TAG, (struct sk_btold){.ev = ev})) abort(); /* it would be lost */
    return &b->told.p[b->told.n - 1];
}

#endif
