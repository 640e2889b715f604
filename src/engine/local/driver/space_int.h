/* space_int.h - shared by space.c and its parts: space_mark.c (who uses what), space_disk.c (to disk and back), space_room.c (bytes, now). They call each other in
 * one direction: space, disk, room and mark. */
#ifndef SK_LOCAL_SPACE_INT_H
#define SK_LOCAL_SPACE_INT_H

#include "engine/local/driver/local_int.h"

enum { GOES, LATER, WANTED, FIRST, STAYS, CLASSES }; /* marks: sk_stored.mark - epoch */

static inline uint64_t room_of(const struct sk_obj *o) { return SK_ALIGN(SK_MAX(o->len, 1), SK_STORE_ALIGN); }
static inline uint64_t size_of(const struct sk_local *l) { return l->data_seg.size; }
static inline bool in_store(const struct sk_local *l, const struct sk_obj *o) {
    return o->u.off < size_of(l);
} /* and not in the overflow */
/* Of the free bytes so many belong to the heaps of workers now (memory.c). */
static inline uint64_t lent_of(const struct sk_local *l) {
    return l->space.cap_bytes ? size_of(l) - SK_MIN(l->space.cap_bytes, size_of(l)) : 0;
}
static inline uint64_t left_of(const struct sk_local *l) {
    uint64_t left = sk_store_free_bytes(l->store);
    return left - SK_MIN(lent_of(l), left);
}
static inline struct sk_stored *stored_of(struct sk_list *it) { return sk_container_of(it, struct sk_stored, link); }
/* Objects on disk that somebody waits for, in this order. */
static inline const struct sk_list *wanted_of(const struct sk_local *l) { return &l->stored.in[SK_STORED_WANTED]; }
static inline uint64_t class_of(const struct sk_local *l, const struct sk_stored *st) {
    return st->mark > l->space.epoch ? st->mark - l->space.epoch : GOES;
}

struct arg_iter {
    const struct sk_ltask *t;
    struct sk_rd r;
    uint32_t i;
};
static inline struct arg_iter args_of(const struct sk_ltask *t) {
    return (struct arg_iter){t, sk_rd_init(t->spec.args, t->spec.args_len), 0};
}
static inline struct sk_obj *next_arg(struct sk_local *l,
                                      struct arg_iter *it) { /* that has, or had, its bytes in the store; NULL: no more */
    while (it->i < it->t->spec.n_args) {
        struct sk_val v;
        uint32_t i = it->i++;
        sk_rd_val(&it->r, &v);
        uint64_t part = SK_UNLIKELY(v.where == SK_V_PART) ? sk_part_find(it->t, i) : 0;
        struct sk_obj *o = v.oid ? sk_obj_get(l, part ? part : v.oid) : NULL;
        if (SK_UNLIKELY(v.where == SK_V_PART) && o && !part && o->where == SK_V_DISK) continue; /* not the whole is needed */
        if (o && o->state == SK_O_READY && o->st) return o;
    }
    return NULL;
}

/* space_mark.c */
void sk_space_mark_all(struct sk_local *l);
/* Who waits for the first object that is wanted back: the oldest get, else the oldest task. */
void sk_space_first_waiter(struct sk_local *l, const struct sk_getter **get, const struct sk_ltask **task);
/* Calls f for the arguments of the next tasks in line, up to a quarter of the store. */
void sk_space_each_soon(struct sk_local *l, void (*f)(struct sk_local *l, struct sk_obj *o));

/* space_disk.c */
/* Frees, or begins to write, at least `need` bytes of classes up to `most` if it can. Returns what it found. */
uint64_t sk_space_choose(struct sk_local *l, uint64_t need, uint64_t most, int64_t now);
void sk_space_wrote(struct sk_local *l, struct sk_spill_job *job); /* marks are fresh */
void sk_space_read_back(struct sk_local *l, struct sk_spill_job *job);
sk_rc sk_space_read(struct sk_local *l);     /* SK_EFULL: the first one that is wanted finds no room */
bool sk_space_read_over(struct sk_local *l); /* that one, into the overflow */
void sk_space_read_ahead(struct sk_local *l);
void sk_space_refuse(struct sk_local *l, struct sk_stored *st, sk_rc rc, const char *msg); /* those that wait for it get an error */

#endif
