/* list.h - intrusive circular doubly linked list. The head is a node that holds no element.
 *
 *     struct sk_list waiting;  sk_list_init(&waiting);
 *     sk_list_push_back(&waiting, &t->node);
 *     SK_LIST_EACH (it, &waiting) { struct task *t = sk_container_of(it, struct task, node); ... }
 *     SK_LIST_EACH_SAFE (it, tmp, &waiting) sk_list_del(it);
 *
 * The loop macros declare `it` and `tmp`; the safe one lets the body remove `it`. A removed node is
 * re-initialised: deleting it again is harmless, and sk_list_empty(node) tells whether it is in a
 * list. A list owns nothing and allocates nothing. */
#ifndef SK_LIST_H
#define SK_LIST_H

#include "base/base.h"

struct sk_list {
    struct sk_list *prev, *next;
};

static inline void sk_list_init(struct sk_list *l) { l->prev = l->next = l; }
static inline bool sk_list_empty(const struct sk_list *l) { return l->next == l; }

static inline void sk_list_insert_before(struct sk_list *at, struct sk_list *node) {
    node->prev = at->prev;
    node->next = at;
    at->prev->next = node;
    at->prev = node;
}
static inline void sk_list_push_back(struct sk_list *l, struct sk_list *node) {
    sk_list_insert_before(l, node);
}
static inline void sk_list_push_front(struct sk_list *l, struct sk_list *node) {
    sk_list_insert_before(l->next, node);
}

static inline void sk_list_del(struct sk_list *node) {
    node->prev->next = node->next;
    node->next->prev = node->prev;
    sk_list_init(node);
}

/* The first or last node, or NULL when the list is empty. */
static inline struct sk_list *sk_list_first(const struct sk_list *l) {
    return l->next == l ? NULL : l->next;
}
static inline struct sk_list *sk_list_last(const struct sk_list *l) {
    return l->prev == l ? NULL : l->prev;
}

/* Moves all of `from` to the back of `to` and leaves `from` empty. */
static inline void sk_list_splice(struct sk_list *to, struct sk_list *from) {
    if (sk_list_empty(from)) return;
    from->next->prev = to->prev;
    to->prev->next = from->next;
    from->prev->next = to;
    to->prev = from->prev;
    sk_list_init(from);
}

#define SK_LIST_EACH(it, list) for (struct sk_list *it = (list)->next; it != (list); it = it->next)
#define SK_LIST_EACH_SAFE(it, tmp, list) \
    for (struct sk_list *it = (list)->next, *tmp = it->next; it != (list); it = tmp, tmp = it->next)

#endif
