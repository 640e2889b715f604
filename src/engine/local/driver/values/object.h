/* object.h - objects in the driver: their entries, their values, waits for objects, their end.
 *
 * Calls: stored. The code of this part may call these parts of the driver and no others;
 * tests/shape.py reads this line. */
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

struct sk_inl { /* an inline value; counted, because views may outlive the object */
    uint32_t refs;
    uint32_t len;
    uint8_t bytes[];
};

enum { SK_O_PENDING, SK_O_READY, SK_O_ACTOR };
/* a call of a foreign actor, or a task of another engine, that has not ended, see loop/abroad.h */
struct sk_abroad {
    uint64_t actor, parent; /* actor 0: a task */
    uint32_t proc;
    bool stream;
};
struct sk_obj {
    uint64_t id;
    uint8_t state, where; /* where: of a READY object, SK_V_INLINE, SK_V_STORE or SK_V_DISK */
    /* the value of a READY object is lost, which is noticed when the value is next needed (fault
     * point store.lose) */
    bool gone : 1;
    bool known : 1; /* lineage has a node of this object, and is told when the object is freed */
    /* awaited: while the object is PENDING, a task that lineage keeps needs it. The object is held
     * until the task that makes it has ended and is kept by lineage, too. */
    bool awaited : 1;
    bool spoiled : 1; /* the checksum was wrong when the value was read from disk */
    /* the object stands for the end of a stream: no task makes it, and it is never lost */
    bool stream_end : 1;
    /* foreign: the server of foreign objects brings the value (engine/foreign.h). wanted: it was
     * told that something waits for the value. */
    bool foreign : 1, wanted : 1;
    /* enum sk_lost_why: the reason to give when the value is lost and lineage knows no task that
     * makes it */
    uint8_t why;
    uint32_t kind;
    uint64_t len;
    union {
        struct sk_inl *inl;
        uint64_t off;
        struct sk_lactor *actor;
    } u;
    /* The task that makes the object: set while PENDING and, if lineage keeps the task, while
     * READY. */
    struct sk_ltask *maker;
    /* tasks and requests that wait for the object while it is PENDING or on disk */
    struct sk_dep *deps;
    /* the entry of a READY value in the store or on disk; NULL: the value cannot be evicted */
    struct sk_stored *st;
};

struct sk_dep {
    /* One wait of a task or a request, for an object or for the next yield of a stream. A wait is
     * in two lists, and has the addresses of the pointers that lead to it, so that it can be
     * removed at once. */
    struct sk_dep *next, **at;      /* other waits for the same object, the youngest first */
    struct sk_dep *more, **more_at; /* other waits of the same task or request: its `waits` */
    /* the task or the request that waits; the other pointer is NULL */
    struct sk_ltask *task;
    struct sk_req *req;
};

static inline void sk_obj_home(uint32_t proc, sk_off off) {
    /* Tells a simulated machine (sk_machine) that a value made by process proc begins at off in
     * the store. */
    if (SK_UNLIKELY(sk_machine_ != NULL)) sk_machine_->sealed(sk_machine_->ctx, proc, off);
}
/* Frees all objects at the end of the engine, before its tasks. */
void sk_objs_free(struct sk_local *l);
sk_rc sk_obj_new(struct sk_local *l, uint64_t id, uint32_t proc, struct sk_obj **out,
                 struct sk_err *err);
/* True if the object is of another engine, and there is a server that brings such objects. */
bool sk_obj_is_foreign(const struct sk_local *l, uint64_t id);
/* Makes entries for those of the objects that are foreign and have none. Call before references are
 * taken to objects that came inside a value. Without memory no entry is made, and taking the
 * reference fails. */
void sk_obj_meet(struct sk_local *l, const uint64_t *ids, uint32_t n);
/* Makes an object, with a reference of proc, whose value the server of foreign objects brings. */
sk_rc sk_obj_new_foreign(struct sk_local *l, uint64_t id, uint32_t proc,
                         struct sk_err *err) SK_MUST_USE;
/* From now on the server brings the value of an object that a task of this engine was to make. */
void sk_obj_becomes_foreign(struct sk_local *l, struct sk_obj *o);
/* Tells the server of foreign objects that something waits for the value, if o is one and
 * PENDING. */
void sk_obj_want(struct sk_local *l, struct sk_obj *o);
/* Makes an object with this value and a reference of the driver, for errors of streams. Returns
 * 0 when there is no memory. */
uint64_t sk_obj_error(struct sk_local *l, uint32_t kind, const void *bytes, size_t n);
/* Gives object `id` the value in a message of process `proc`. A value of an object that is gone is
 * thrown away. */
void sk_obj_set(struct sk_local *l, uint64_t id, uint32_t proc, const struct sk_val *v,
                const void *bytes, struct sk_ids in);
/* Tells all waits for o. */
void sk_obj_ready(struct sk_local *l, struct sk_obj *o);
/* Frees objects that nothing refers to. */
void sk_obj_drain(struct sk_local *l);
/* Adds a wait of t or of q (the other is NULL) to the list. */
sk_rc sk_dep_add(struct sk_dep **list, struct sk_ltask *t, struct sk_req *q) SK_MUST_USE;
/* Makes a request that has counted o as ready wait for o again. */
sk_rc sk_dep_again(struct sk_obj *o, struct sk_req *q) SK_MUST_USE;
/* Tells all waits for o, as long as o stays READY. */
void sk_dep_done(struct sk_local *l, struct sk_obj *o);
/* Tells one wait; d is freed. */
void sk_dep_tell(struct sk_local *l, struct sk_dep *d);
/* Frees a list of waits at the end of the engine, without telling the waiters. */
void sk_deps_free(struct sk_dep *list);
/* Frees all waits of a task or a request. */
void sk_dep_forget(struct sk_dep *waits);
struct sk_inl *sk_inl_new(const void *p, size_t n);
void sk_inl_drop(struct sk_inl *i);
/* Gives a pending object an inline value or an error; value NULL: no bytes. The caller keeps its
 * own reference to the value. */
void sk_obj_set_inline(struct sk_local *l, struct sk_obj *o, uint32_t kind, struct sk_inl *value);
/* Gives a pending object the value that process `proc` committed at `off` of the store. */
void sk_obj_set_stored(struct sk_local *l, struct sk_obj *o, uint32_t proc, uint32_t kind,
                       sk_off off, uint64_t len);
/* Marks a new object as READY and on disk, at the place in its entry. */
void sk_obj_set_on_disk(struct sk_obj *o, uint32_t kind, uint64_t len, struct sk_stored *st);
/* Marks a new object as one that stands for an actor. */
void sk_obj_set_actor(struct sk_obj *o, struct sk_lactor *a);
/* Takes the lost value off a READY object, which becomes PENDING again and contains no
 * references. */
void sk_obj_unready(struct sk_local *l, struct sk_obj *o);
/* Gives the bytes of o in the store, and the references in them, to a new object of the driver.
 * Returns the id of the new object; 0 when there is no memory. */
uint64_t sk_obj_pass_bytes(struct sk_local *l, const struct sk_obj *o);
struct sk_inl *sk_engine_error(sk_rc rc, const char *msg);

#endif
