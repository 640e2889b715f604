/* names.h - names of living actors (in another list: of placement groups), one of each in a
 * namespace. Pure: no clock, no ipc. What has no name (length 0) has no entry.
 *
 * A list: a program has few named actors, and looks them up seldom. Thread-safety: none; the
 * engine's lock guards it. */
#ifndef SK_NAMES_H
#define SK_NAMES_H

#include "base/base.h"
#include "base/err.h"
#include "base/containers/list.h"
#include "engine/engine.h"

struct sk_name {
    struct sk_list link;
    void *owner;
    struct sk_bytes space, name, meta; /* in bytes[] */
    uint8_t bytes[];
};

/* SK_EINVAL: too long (SK_NAME_MAX), or with a NUL inside. `what` has the name, for the message. */
sk_rc sk_names_check(const char *what, struct sk_bytes space, struct sk_bytes name,
                     struct sk_err *err) SK_MUST_USE;
/* *out: the entry, NULL for an empty name. Checks it. SK_EEXIST: taken in this space. */
sk_rc sk_names_add(struct sk_list *all, const char *what, struct sk_bytes space,
                   struct sk_bytes name, struct sk_bytes meta, void *owner, struct sk_name **out,
                   struct sk_err *err) SK_MUST_USE;
/* NULL: none */
struct sk_name *sk_names_find(struct sk_list *all, struct sk_bytes space, struct sk_bytes name);
void sk_name_free(struct sk_name **n); /* the name may be taken again; *n = NULL; NULL is fine */
/* "space" NUL "name" NUL for each, oldest first: the length needed; writes only when it fits. */
size_t sk_names_write(struct sk_list *all, char *buf, size_t cap);

#endif
