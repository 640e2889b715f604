/* columns.c - the columns of a join's result, from the names of both sides' columns. Pure.
 *
 * Cost: a sort of the names. */
#include <stdlib.h>

#include "shuffle/work_int.h"

enum { LEFT = 0, RIGHT = 1 };

static bool has(const struct sk_names *names, const char *name) {
    for (uint32_t i = 0; i < names->n; i++)
        if (!strcmp(names->name[i], name)) return true;
    return false;
}

static char *key_of(const struct sk_what *what, uint32_t side, uint32_t k) {
    return side == LEFT ? what->keys[k].name : what->join.right[k];
}

/* Returns the index in the key of a column of this name; -1: it is no column of the key. */
static int32_t in_key(const struct sk_what *what, uint32_t side, const char *name) {
    for (uint32_t k = 0; k < what->n_keys; k++)
        if (!strcmp(key_of(what, side, k), name)) return (int32_t)k;
    return -1;
}

/* Returns the side whose columns alone are in the result; -1: there are columns of both. */
static int only_side(enum sk_join_kind kind) {
    switch (kind) {
    case SK_JOIN_LEFT_SEMI:
    case SK_JOIN_LEFT_ANTI: return LEFT;
    case SK_JOIN_RIGHT_SEMI:
    case SK_JOIN_RIGHT_ANTI: return RIGHT;
    default: return -1;
    }
}

static int by_name(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Lists the columns without suffixes, and sets `of` of each side to its names in order. */
static void list(const struct sk_what *what, const struct sk_names sides[2],
                 struct sk_join_columns *out, struct sk_names of[2], const char **names) {
    int only = only_side(what->join.kind);
    uint32_t with_key = what->join.kind == SK_JOIN_RIGHT ? RIGHT : LEFT;
    out->n = 0;
    for (uint32_t s = LEFT; s <= RIGHT; s++) {
        uint32_t from = out->n;
        for (uint32_t i = 0; i < sides[s].n; i++) {
            int32_t k = in_key(what, s, sides[s].name[i]);
            if (only >= 0 ? s != (uint32_t)only : s != with_key && k >= 0) continue;
            names[out->n] = sides[s].name[i];
            out->column[out->n++] =
                (struct sk_join_column){.side = s,
                                        .column = i,
                                        .of_key = what->join.kind == SK_JOIN_FULL ? k : -1,
                                        .name = sides[s].name[i]};
        }
        of[s] = (struct sk_names){names + from, out->n - from};
        qsort(names + from, of[s].n, sizeof *names, by_name);
    }
}

/* Returns the suffix of a column's name. other: the names that the result has of the other side. */
static const char *suffix_of(const struct sk_what *what, const struct sk_join_column *c,
                             const struct sk_names *other) {
    bool both = other->n && bsearch(&c->name, other->name, other->n, sizeof *other->name, by_name);
    return both && in_key(what, c->side, c->name) < 0 ? what->join.suffix[c->side] : "";
}

/* Appends the suffixes; false: no memory. */
static bool put_suffixes(const struct sk_what *what, const struct sk_names of[2],
                         struct sk_join_columns *c) {
    size_t n = 1;
    for (uint32_t i = 0; i < c->n; i++)
        n += strlen(c->column[i].name) + 1 +
             strlen(suffix_of(what, &c->column[i], &of[!c->column[i].side]));
    char *to = c->names = sk_alloc(SK_TAG_KERNEL, n);
    for (uint32_t i = 0; to && i < c->n; i++) {
        struct sk_join_column *it = &c->column[i];
        const char *suffix = suffix_of(what, it, &of[!it->side]);
        size_t name = strlen(it->name), more = strlen(suffix);
        memcpy(to, it->name, name);
        memcpy(to + name, suffix, more + 1);
        it->name = to;
        to += name + more + 1;
    }
    return to != NULL;
}

sk_rc sk_join_columns(const struct sk_what *what, const struct sk_names sides[2],
                      struct sk_join_columns *out, struct sk_err *err) {
    uint32_t most = sides[LEFT].n + sides[RIGHT].n;
    struct sk_names of[2];
    const char **names = sk_alloc(SK_TAG_KERNEL, (most + UINT64_C(1)) * sizeof *names);
    *out = (struct sk_join_columns){
        .whole = true,
        .column = sk_alloc(SK_TAG_KERNEL, (most + UINT64_C(1)) * sizeof *out->column)};
    bool ok = names && out->column;
    if (ok) {
        list(what, sides, out, of, names);
        ok = put_suffixes(what, of, out);
    }
    for (uint32_t i = 0; ok && i < out->n; i++) names[i] = out->column[i].name;
    if (ok) qsort(names, out->n, sizeof *names, by_name);
    /* a side of a semi or anti join is as it is */
    for (uint32_t i = 1; ok && only_side(what->join.kind) < 0 && i < out->n; i++)
        out->whole &= strcmp(names[i - 1], names[i]) != 0;
    for (uint32_t k = 0; k < what->n_keys; k++)
        out->whole &=
            has(&sides[LEFT], key_of(what, LEFT, k)) && has(&sides[RIGHT], key_of(what, RIGHT, k));
    sk_free(names);
    if (ok) return SK_OK;
    sk_join_columns_free(out);
    return SK_ERR(err, SK_ENOMEM, "no memory for the %u columns of a join", most);
}

void sk_join_columns_free(struct sk_join_columns *c) {
    sk_free(c->column);
    sk_free(c->names);
    c->column = NULL;
    c->names = NULL;
}
