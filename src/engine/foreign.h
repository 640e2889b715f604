/* foreign.h - side contract: objects and actors of other engines. The engines of a cluster number
 * their objects in ranges of their own (conf.h: id_base), so an engine sees from an id that an
 * object is foreign. References to foreign objects arrive inside values (payload.contains), and are
 * counted here as others are. Whoever serves the engine hears of the first and of the last of them,
 * and brings the value when something waits for it. A call of a foreign actor is handed to the
 * server, which brings the values of its returns. */
#ifndef SK_FOREIGN_H
#define SK_FOREIGN_H

#include "engine/engine.h"

/* Ids of one engine: id_base + 1 to id_base + this - 1. So there are 1,023 places besides that of a
 * driver, and the highest bit of an id stays free. */
#define SK_ID_RANGE (UINT64_C(1) << 53)
#define SK_ID_PLACES 1023u
/* How many ids the returns of a call of another engine have: a stream has one, for its end. */
static inline uint32_t sk_foreign_n_names(uint32_t n_returns) {
    return n_returns == SK_STREAMING ? 1 : n_returns;
}
static inline uint64_t sk_id_place(uint64_t id) { return id / SK_ID_RANGE; }

/* What is asked of the server about names of actors, which all engines of a cluster share. */
enum sk_name_what {
    SK_NAME_FIND = 1, /* which actor has the name? */
    SK_NAME_LIST,     /* all names */
    SK_NAME_CLAIM,    /* `actor`, which is about to be made here, wants the name */
    /* without an answer: the name of `actor` is free; the actor of the answer `ask` is held */
    SK_NAME_FREE,
    SK_NAME_GOT,
};
struct sk_foreign_name {
    uint32_t what;                     /* enum sk_name_what */
    sk_aid actor;                      /* CLAIM, FREE */
    struct sk_bytes space, name, meta; /* FIND, CLAIM (with meta) */
};

/* What a task for another engine needs: sk_need, with bytes in place of numbers. */
struct sk_foreign_need {
    struct sk_res res;
    struct sk_bytes env, where; /* envs.h, cluster/wheres.h; empty: the job's, any node */
};

/* The server. Its functions are called with the engine's lock held: they must neither block nor
 * call the engine. Of one object they are called in the order in which things happen, but that
 * `dropped` may come late: after `held` and `wanted` of the next time that the object is met, which
 * then say that it was dropped. */
struct sk_foreign {
    /* References to the foreign object or actor exist here from now on. */
    void (*held)(struct sk_foreign *f, sk_oid o);
    /* Something waits for its value; called once. Not for actors. */
    void (*wanted)(struct sk_foreign *f, sk_oid o);
    /* No reference exists here any more. Also called for returns of a call, even of one that failed
     * before `called`: the server ignores objects that it does not know. */
    void (*dropped)(struct sk_foreign *f, sk_oid o);
    /* An actor of another engine (s->actor) is called, or a task is submitted that this engine can
     * never run, or is handed over (s->actor 0; `need` says what it needs). The server copies what
     * it needs of both,
     * and brings the values of first.v to first.v + s->n_returns - 1, each when it is wanted; all
     * of these are held from now on. The server owns a reference (of the driver's process) to each
     * s->args[i].ref and s->contains[i], and releases them when the call has ended. s->shape, sink
     * and node are not set; opts->caller is the process that makes the call. def: the definition of
     * s->fn, which the other engine may not know; empty if it is not known here.
     * Of a stream, first.v is the end: a value of no kind, or the error; what it yields comes by
     * `yielded`. */
    void (*called)(struct sk_foreign *f, const struct sk_task_spec *s,
                   const struct sk_foreign_need *need, struct sk_bytes def, sk_oid first);
    /* An actor is to be made that this engine can never hold: s->init is its constructor, as a task
     * of `called`. To be answered by `answer` with its id, as FIND; then the server releases its
     * references to the arguments. */
    void (*made)(struct sk_foreign *f, uint64_t ask, const struct sk_actor_spec *s,
                 const struct sk_foreign_need *need, struct sk_bytes def);
    /* True if a task with this where (cluster/wheres.h) may run on the node of this engine, as far
     * as its labels are concerned. False also for bytes that are no where. */
    bool (*here)(struct sk_foreign *f, struct sk_bytes where);
    /* The task that makes the foreign object, or the call whose first return it is (also one
     * without returns), is to be cancelled. flags: SK_CANCEL_*. It may have ended, or be unknown.
     */
    void (*cancelled)(struct sk_foreign *f, sk_oid o, uint32_t flags);
    /* To be answered by `answer`, but for FREE (ask 0). The server copies what it needs. */
    void (*asked)(struct sk_foreign *f, uint64_t ask, const struct sk_foreign_name *n);
    /* The first n yields of a stream of `called` were taken; UINT32_MAX: nobody reads it any more.
     */
    void (*taken)(struct sk_foreign *f, sk_oid first, uint32_t n);
    /* Tasks that processes of this engine have submitted wait for room, and other engines may run
     * them; called once, until `hand_over` finds none. */
    void (*queued)(struct sk_foreign *f);
    /* A foreign actor is killed (actor_end). */
    void (*killed)(struct sk_foreign *f, sk_aid a, bool no_restart);
};

struct sk_foreign_ops {
    /* From now on foreign ids are known. There is one server at most, and none after it; f NULL:
     * the server ends, and is not called any more; nothing is brought from then on. */
    sk_rc (*serve)(struct sk_engine *e, struct sk_foreign *f, struct sk_err *err);
    /* Gives a foreign object, or a return of `called`, its value; as put() does. SK_ENOENT: no
     * reference exists any more (the payload is consumed all the same). SK_EEXIST: it has a value
     * already. Others: as put(); the object stays without a value, and the caller brings an error
     * instead. */
    sk_rc (*bring)(struct sk_engine *e, sk_oid o, const struct sk_payload *p, struct sk_err *err);
    /* A stream of `called` has yielded this foreign object, which is held from now on, and
     * `dropped` as others are. */
    void (*yielded)(struct sk_engine *e, sk_oid first, sk_oid o);
    /* A call of `called` with this first return has ended. */
    void (*ended)(struct sk_engine *e, sk_oid first);
    /* Has tasks of `queued` run elsewhere, by `called`: those that have waited longest, and ask for
     * no more than `cpu` (in 1/SK_RES_UNIT) together. Only tasks count that have waited for some
     * milliseconds, so that a burst of short ones stays here. Returns how many such tasks are left
     * (the first few hundred are counted); *waits: there are some, or younger ones. */
    uint32_t (*hand_over)(struct sk_engine *e, int64_t cpu, bool *waits);
    /* Answers `asked` and `made`. rc not SK_OK: `bytes` says why. FIND: the actor, and its meta;
     * the id of its `ready` object is one less; whoever answers keeps both until this call is over,
     * which takes references. LIST: as sk_actors_ops.names. */
    void (*answer)(struct sk_engine *e, uint64_t ask, sk_rc rc, sk_aid a, struct sk_bytes bytes);
};

#endif
