/* names.h - names of living actors and, in another list, of placement groups: each name is unique
 * in its namespace. Pure: no clock, no ipc. An object without a name (length 0) has no entry.
 *
 * A linear list: a program has few named actors, and seldom looks them up. Thread-safety: none;
 * the engine's lock guards it. */
#ifndef SK_NAMES_H
#define SK_NAMES_H

#include "base/base.h"
#include "base/err.h"
#include "base/containers/list.h"
#include "engine/engine.h"

struct sk_name {
    struct sk_list link;
    void *owner;
    struct sk_bytes space, name, meta; /* point into bytes[] */
    uint8_t bytes[];
};

/* Checks a name. SK_EINVAL: it is too long (SK_NAME_MAX), or has a NUL inside. `what` ("actor",
 * "placement group") is the noun in the message. */
sk_rc sk_names_check(const char *what, struct sk_bytes space, struct sk_bytes name,
                     struct sk_err *err) SK_MUST_USE;
/* Checks a name and adds it. *out is the entry; NULL for an empty name. SK_EEXIST: the name is
 * taken in this namespace. */
sk_rc sk_names_add(struct sk_list *all, const char *what, struct sk_bytes space,
                   struct sk_bytes name, struct sk_bytes meta, void *owner, struct sk_name **out,
                   struct sk_err *err) SK_MUST_USE;
/* NULL: there is none */
struct sk_name *sk_names_find(struct sk_list *all, struct sk_bytes space, struct sk_bytes name);
/* Frees the name, which may then be taken again; sets *n to NULL. *n may be NULL. */
void sk_name_free(struct sk_name **n);
/* Writes "space" NUL "name" NUL for each, oldest first, if all of it fits. Returns the length
 * needed. */
size_t sk_names_write(struct sk_list *all, char *buf, size_t cap);

#endif
