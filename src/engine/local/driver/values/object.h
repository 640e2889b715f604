/* object.h - objects in the driver: entries, values, who waits for one, their end.
 *
 * Calls: stored. */
#ifndef SK_LOCAL_OBJECT_H
#define SK_LOCAL_OBJECT_H

#include "engine/local/wire/wire.h"
#include "engine/own/own.h"

struct sk_local;
struct sk_ltask;
struct sk_lactor;
struct sk_req;
struct sk_stored;
struct sk_val;
struct sk_err;

struct sk_inl { /* inline value: counted, because views outlive objects */
    uint32_t refs;
    uint32_t len;
    uint8_t bytes[];
};

enum { SK_O_PENDING, SK_O_READY, SK_O_ACTOR };
struct sk_obj {
    uint64_t id;
    uint8_t state, where; /* READY: SK_V_INLINE, SK_V_STORE or SK_V_DISK */
    /* the value of a READY object is lost, which is noticed when it is needed next (test hook
     * store.lose) */
    bool gone : 1;
    bool known : 1; /* lineage knows it, and has to be told when it is freed */
    bool awaited
        /* a task that lineage keeps needs it, while PENDING: it is held until its own maker has
         * ended, which lineage keeps, too */
        : 1;
    bool spoiled : 1;    /* its bytes were wrong when they were read from disk */
    bool stream_end : 1; /* it stands for the end of a stream; it has no maker, and is never lost */
    /* enum sk_lost_why: the reason that an error gives when the value is lost and lineage knows no
     * maker */
    uint8_t why;
    uint32_t kind;
    uint64_t len;
    union {
        struct sk_inl *inl;
        uint64_t off;
        struct sk_lactor *actor;
    } u;
    /* the task that makes it: always while PENDING, and while READY if lineage keeps the task */
    struct sk_ltask *maker;
    /* tasks and requests that wait for it, while it is PENDING or on disk */
    struct sk_dep *deps;
    /* of a READY value in the store or on disk; NULL: it cannot be evicted */
    struct sk_stored *st;
};

struct sk_dep {
    /* a task or a request waits for an object, or for the next yield of a stream. It is in two
     * lists, and knows the pointers that lead to it. */
    struct sk_dep *next, **at;      /* others that wait for the same, the youngest first */
    struct sk_dep *more, **more_at; /* what else the same task or request waits for: its `waits` */
    struct sk_ltask *task;          /* one of these two waits; the other is NULL */
    struct sk_req *req;
};

static inline void sk_obj_home(uint32_t proc, sk_off off) {
    /* a value of the store begins there, made by proc: a machine may
     * want to know */
    if (SK_UNLIKELY(sk_machine_ != NULL)) sk_machine_->sealed(sk_machine_->ctx, proc, off);
}
void sk_objs_free(struct sk_local *l); /* at the end of the engine, before its tasks */
sk_rc sk_obj_new(struct sk_local *l, uint64_t id, uint32_t proc, struct sk_obj **out,
                 struct sk_err *err);
/* New object with this value and a reference of the driver: errors of streams. 0 when there is no
 * memory. */
uint64_t sk_obj_error(struct sk_local *l, uint32_t kind, const void *bytes, size_t n);
/* Gives object `id` the value in a message of process `proc`. A value that nobody wants any more is
 * thrown away. */
void sk_obj_set(struct sk_local *l, uint64_t id, uint32_t proc, const struct sk_val *v,
                const void *bytes, struct sk_ids in);
/* wakes who waits */
void sk_obj_ready(struct sk_local *l, struct sk_obj *o);
/* frees what nothing references */
void sk_obj_drain(struct sk_local *l);
/* one of the two waits */
sk_rc sk_dep_add(struct sk_dep **list, struct sk_ltask *t, struct sk_req *q) SK_MUST_USE;
/* A request that has counted o as ready waits for it again. */
sk_rc sk_dep_again(struct sk_obj *o, struct sk_req *q) SK_MUST_USE;
/* tells the waiters, as long as it is READY */
void sk_dep_done(struct sk_local *l, struct sk_obj *o);
/* one of them; d is gone */
void sk_dep_tell(struct sk_local *l, struct sk_dep *d);
/* at the end of the engine: nobody is told */
void sk_deps_free(struct sk_dep *list);
/* all that somebody waits for */
void sk_dep_forget(struct sk_dep *waits);
struct sk_inl *sk_inl_new(const void *p, size_t n);
void sk_inl_drop(struct sk_inl *i);
/* A pending object has this value, or error; value NULL: no bytes. The caller keeps its reference
 * to it. */
void sk_obj_set_inline(struct sk_local *l, struct sk_obj *o, uint32_t kind, struct sk_inl *value);
/* A pending object has the value that process `proc` committed at `off` of the store. */
void sk_obj_set_stored(struct sk_local *l, struct sk_obj *o, uint32_t proc, uint32_t kind,
                       sk_off off, uint64_t len);
/* A new object is on disk from the beginning, as its entry says. */
void sk_obj_set_on_disk(struct sk_obj *o, uint32_t kind, uint64_t len, struct sk_stored *st);
/* A new object stands for an actor. */
void sk_obj_set_actor(struct sk_obj *o, struct sk_lactor *a);
/* The value of a READY object is lost: the object is PENDING once more, and contains nothing. */
void sk_obj_unready(struct sk_local *l, struct sk_obj *o);
/* Gives the bytes of o in the store, and the references in them, to a new object of the driver. Its
 * id; 0 when there is no memory. */
uint64_t sk_obj_pass_bytes(struct sk_local *l, const struct sk_obj *o);
struct sk_inl *sk_engine_error(sk_rc rc, const char *msg);

#endif
