/* space_int.h - shared by space.c and its files: space_stuck.c, space_memory.c, space_read.c,
 * space_evict.c and space_mark.c, which call each other in this direction only. */
#ifndef SK_LOCAL_SPACE_INT_H
#define SK_LOCAL_SPACE_INT_H

#include "engine/local/driver/local_int.h"

/* How much a value is needed, by the marks of space_mark.c: sk_stored.mark less the epoch. */
enum {
    SK_USE_NONE,
    SK_USE_SOON,    /* needed by a task that is next in line */
    SK_USE_AWAITED, /* needed by a get or task that still waits for other values */
    /* needed by the get or task that is served first, which still waits for other values */
    SK_USE_FIRST,
    SK_USE_NOW, /* needed by a task on a worker */
    SK_USES
};

#define JOB_BYTES (UINT64_C(4) << 20) /* bytes written or read by one job */
#define JOB_OBJECTS 4096u

static inline uint64_t room_of(const struct sk_obj *o) {
    return SK_ALIGN(SK_MAX(o->len, 1), SK_STORE_ALIGN);
}
static inline uint64_t size_of(const struct sk_local *l) { return l->data_seg.size; }
static inline bool in_store(const struct sk_local *l, const struct sk_obj *o) {
    return o->u.off < size_of(l);
    /* false: the value is in the overflow */
}
/* Free bytes of the store that belong to the heaps of workers now (memory.c). */
static inline uint64_t lent_of(const struct sk_local *l) {
    return l->space.cap_bytes ? size_of(l) - SK_MIN(l->space.cap_bytes, size_of(l)) : 0;
}
static inline uint64_t left_of(const struct sk_local *l) {
    uint64_t left = sk_store_free_bytes(l->store);
    return left - SK_MIN(lent_of(l), left);
}
static inline struct sk_stored *stored_of(struct sk_list *it) {
    return sk_container_of(it, struct sk_stored, link);
}
/* List of the objects on disk that gets or tasks wait for, in the order of the waits. */
static inline const struct sk_list *wanted_of(const struct sk_local *l) {
    return &l->stored.in[SK_STORED_WANTED];
}
static inline uint64_t use_of(const struct sk_local *l, const struct sk_stored *st) {
    return st->mark > l->space.epoch ? st->mark - l->space.epoch : SK_USE_NONE;
}

struct arg_iter {
    const struct sk_ltask *t;
    struct sk_rd r;
    uint32_t i;
};
static inline struct arg_iter args_of(const struct sk_ltask *t) {
    return (struct arg_iter){t, sk_rd_init(t->spec.args, t->spec.args_len), 0};
}
static inline struct sk_obj *next_arg(struct sk_local *l, struct arg_iter *it) {
    /* the next argument whose bytes are or were in the store; NULL: no more */
    while (it->i < it->t->spec.n_args) {
        struct sk_val v;
        uint32_t i = it->i++;
        sk_rd_val(&it->r, &v);
        uint64_t part = SK_UNLIKELY(v.where == SK_V_PART) ? sk_part_find(it->t, i) : 0;
        struct sk_obj *o = v.oid ? sk_obj_get(l, part ? part : v.oid) : NULL;
        /* skips a part of a value on disk until sk_part_make has made its object */
        if (SK_UNLIKELY(v.where == SK_V_PART) && o && !part && o->where == SK_V_DISK) continue;
        if (o && o->state == SK_O_READY && o->st) return o;
    }
    return NULL;
}

/* ---- space_mark.c */
void sk_space_mark_all(struct sk_local *l);
/* Finds the waiter for the first wanted value: the oldest get, or the oldest task if there is no
 * get. */
void sk_space_first_waiter(struct sk_local *l, const struct sk_get_wait **get,
                           const struct sk_ltask **task);
/* Calls f for each argument of the next tasks in line, up to a quarter of the store. */
void sk_space_each_soon(struct sk_local *l, void (*f)(struct sk_local *l, struct sk_obj *o));

/* ---- space_evict.c */
/* Evicts at least `need` bytes of values, or begins to write them, if possible. Takes only values
 * whose need (SK_USE_*) is at most `most`. The caller has just marked all values. Returns the bytes
 * of the values found. */
uint64_t sk_space_evict(struct sk_local *l, uint64_t need, uint64_t most, int64_t now);
/* Takes the result of a job that wrote. */
void sk_space_wrote(struct sk_local *l, struct sk_spill_job *job);

/* ---- space_read.c */
void sk_space_read_back(struct sk_local *l, struct sk_spill_job *job);
/* Begins to read the wanted values, in order. SK_EFULL: there is no memory for the next value. */
sk_rc sk_space_read(struct sk_local *l);
bool sk_space_read_over(struct sk_local *l); /* Reads the next wanted value into the overflow. */
/* Reads the values that the next tasks in line need, into memory that nothing else needs. */
void sk_space_read_ahead(struct sk_local *l);
/* Gives an error to all waits for this value. */
void sk_space_refuse(struct sk_local *l, struct sk_stored *st, sk_rc rc, const char *msg);

/* ---- space_memory.c */
/* Returns the process that the memory is leased to: for a graph's extent, that is no worker. */
static inline uint32_t sk_space_proc_of(const struct sk_mem_wait *r) {
    return r->w && !r->graph ? r->w->proc : SK_PROC_DRIVER;
}
/* Tries to serve a wait. True: there was memory, and the wait is answered. */
bool sk_space_try(struct sk_local *l, struct sk_mem_wait *r);
/* Answers a wait and ends it; the call may free r. */
void sk_space_answer(struct sk_local *l, struct sk_mem_wait *r, sk_rc rc, const char *msg);

/* space_stuck.c: called when nothing was freed, written or read for a while. */
void sk_space_stuck(struct sk_local *l, int64_t now);

#endif
