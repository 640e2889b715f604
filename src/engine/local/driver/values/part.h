/* part.h - arguments that are a part of an object's value.
 *
 * Calls: object, stored. The code of this part may call these parts of the driver and no others;
 * tests/shape.py reads this line. */
#ifndef SK_LOCAL_PART_H
#define SK_LOCAL_PART_H

#include "engine/local/driver/values/stored.h"

struct sk_local;
struct sk_ltask;
struct sk_obj;
struct sk_val;

/* the entry (`st`) of an object that stands for a part of a value on disk */
struct sk_stored_part {
    struct sk_stored st; /* must be first */
    uint64_t whole, len; /* whole: the id of the whole object; len: its length */
    uint64_t at;         /* offset of the part in the whole value */
};
static inline const struct sk_stored_part *sk_part_of(const struct sk_stored *st) {
    SK_DCHECK(st->part);
    return (const struct sk_stored_part *)(const void *)st;
}

/* The object that was made for argument `arg` of t; 0: none. */
uint64_t sk_part_find(const struct sk_ltask *t, uint32_t arg);
/* Makes an object for the part v of the value of o, which is on disk. v has at least one
 * byte. SK_ENOMEM: nothing changed. */
sk_rc sk_part_make(struct sk_local *l, struct sk_ltask *t, uint32_t arg, const struct sk_obj *o,
                   const struct sk_val *v) SK_MUST_USE;
/* Drops all objects that were made for parts among the arguments of t. */
void sk_parts_drop(struct sk_local *l, struct sk_ltask *t);

#endif
