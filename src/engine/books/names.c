/* names.c - see names.h. Cost: a walk over the names. */
#include "engine/books/names.h"

#include "base/mem.h"

static struct sk_name *name_of(struct sk_list *it) {
    return sk_container_of(it, struct sk_name, link);
}

static bool same(struct sk_bytes a, struct sk_bytes b) {
    return a.n == b.n && (!a.n || !memcmp(a.p, b.p, a.n));
}

struct sk_name *sk_names_find(struct sk_list *all, struct sk_bytes space, struct sk_bytes name) {
    SK_LIST_EACH (it, all)
        if (same(name_of(it)->name, name) && same(name_of(it)->space, space)) return name_of(it);
    return NULL;
}

static struct sk_bytes copy(uint8_t **at, struct sk_bytes b) {
    struct sk_bytes c = {*at, b.n};
    if (b.n) memcpy(*at, b.p, b.n);
    *at += b.n;
    return c;
}

sk_rc sk_names_check(const char *what, struct sk_bytes space, struct sk_bytes name,
                     struct sk_err *err) {
    if (name.n > SK_NAME_MAX || space.n > SK_NAME_MAX)
        return SK_ERR(err, SK_EINVAL,
                      "the name of this %s, or its namespace, has %zu bytes; at most %d will do",
                      what, SK_MAX(name.n, space.n), SK_NAME_MAX);
    if ((name.n && memchr(name.p, 0, name.n)) || (space.n && memchr(space.p, 0, space.n)))
        return SK_ERR(err, SK_EINVAL,
                      "the name of this %s, or its namespace, holds a NUL character; take it out",
                      what);
    return SK_OK;
}

sk_rc sk_names_add(struct sk_list *all, const char *what, struct sk_bytes space,
                   struct sk_bytes name, struct sk_bytes meta, void *owner, struct sk_name **out,
                   struct sk_err *err) {
    *out = NULL;
    SK_TRY(sk_names_check(what, space, name, err));
    if (!name.n) return SK_OK;
    if (sk_names_find(all, space, name))
        return SK_ERR(err, SK_EEXIST,
                      "the name '%.*s' is already taken by a living %s%s%.*s%s. Please use a "
                      "different name, or the %s that there is",
                      (int)SK_MIN(name.n, 200), (const char *)name.p, what,
                      space.n ? " of namespace '" : "", (int)SK_MIN(space.n, 200),
                      (const char *)space.p, space.n ? "'" : "", what);
    struct sk_name *n = sk_alloc(SK_TAG_ENGINE, sizeof *n + space.n + name.n + meta.n);
    if (!n) return SK_ERR(err, SK_ENOMEM, "no memory for the name of the %s", what);
    uint8_t *at = n->bytes;
    n->owner = owner;
    n->space = copy(&at, space);
    n->name = copy(&at, name);
    n->meta = copy(&at, meta);
    SK_ASSERT(at == n->bytes + space.n + name.n + meta.n);
    sk_list_init(&n->link);
    sk_list_push_back(all, &n->link);
    *out = n;
    return SK_OK;
}

void sk_name_free(struct sk_name **n) {
    if (!*n) return;
    sk_list_del(&(*n)->link);
    sk_free(*n);
    *n = NULL;
}

size_t sk_names_write(struct sk_list *all, char *buf, size_t cap) {
    size_t need = 0;
    SK_LIST_EACH (it, all) need += name_of(it)->space.n + name_of(it)->name.n + 2;
    if (need > cap) return need;
    const char *end = buf + need;
    SK_LIST_EACH (it, all) {
        const struct sk_bytes part[2] = {name_of(it)->space, name_of(it)->name};
        for (int i = 0; i < 2; i++) {
            if (part[i].n) memcpy(buf, part[i].p, part[i].n);
            buf += part[i].n;
            *buf++ = 0;
        }
    }
    SK_ASSERT(buf == end);
    return need;
}
