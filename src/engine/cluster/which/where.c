/* where.c - labels of nodes, and what tasks ask of them. Pure. */
#include "engine/cluster/which/where.h"

/* The next text, of which the NUL is not counted; NULL: the bytes are over, or have no NUL. */
static const char *text(struct sk_bytes *b, size_t *n) {
    const char *p = b->p, *end = b->n ? memchr(p, 0, b->n) : NULL;
    if (!end) return NULL;
    *n = (size_t)(end - p);
    *b = (struct sk_bytes){end + 1, b->n - *n - 1};
    return p;
}

static char next_char(struct sk_bytes *b) {
    SK_DCHECK(b->n);
    char c = *(const char *)b->p;
    *b = (struct sk_bytes){(const char *)b->p + 1, b->n - 1};
    return c;
}

static bool same(const char *p, size_t n, const char *q, size_t m) {
    return n == m && !memcmp(p, q, n);
}

/* The value of a label; NULL: there is none of this name. */
static const char *value_of(struct sk_bytes labels, const char *name, size_t n, size_t *value_n) {
    size_t k;
    for (const char *key; (key = text(&labels, &k));) {
        const char *value = text(&labels, value_n);
        if (!value) return NULL;
        if (same(key, k, name, n)) return value;
    }
    return NULL;
}

/* Reads a condition. *fits: whether the labels fulfil it. False: the bytes are damaged. */
static bool condition(struct sk_bytes *b, char op, struct sk_bytes labels, bool *fits) {
    size_t n, m = 0, have_n = 0;
    const char *name = text(b, &n);
    if (!name || !n) return false;
    const char *have = value_of(labels, name, n, &have_n);
    *fits = (have != NULL) == (op == '+');
    if (op == '+' || op == '-') return true;
    if (op != '=' && op != '!') return false;
    bool found = false;
    for (;;) {
        const char *value = text(b, &m);
        if (!value) return false;
        if (!m) break;
        if (*value != '=') return false;
        found = found || (have && same(have, have_n, value + 1, m - 1));
    }
    *fits = found == (op == '=');
    return true;
}

/* Reads a where: *n choices, of which *first is the first that the labels fulfil. */
static bool read(struct sk_bytes b, struct sk_bytes labels, uint32_t *n, uint32_t *first) {
    *n = 0;
    *first = UINT32_MAX;
    if (!b.n || (uint8_t)next_char(&b) > (SK_WHERE_STAYS | SK_WHERE_SPREAD)) return false;
    bool all = false; /* conditions of this choice so far */
    while (b.n) {
        char op = next_char(&b);
        bool fits = false;
        if (op == '|') {
            if (*n && all && *first == UINT32_MAX) *first = *n - 1;
            all = true;
            if (++*n > SK_WHERE_MOST) return false;
        } else if (!*n || !condition(&b, op, labels, &fits)) return false;
        else all = all && fits;
    }
    if (*n && all && *first == UINT32_MAX) *first = *n - 1;
    return *n > 0;
}

uint32_t sk_where_n(struct sk_bytes where) {
    uint32_t n, first;
    return read(where, (struct sk_bytes){0}, &n, &first) ? n : 0;
}

uint32_t sk_where_rank(struct sk_bytes where, struct sk_bytes labels) {
    uint32_t n, first;
    SK_ASSERT(read(where, labels, &n, &first)); /* callers have checked it by sk_where_n */
    return first;
}

bool sk_labels_good(struct sk_bytes labels) {
    size_t n;
    while (labels.n) {
        const char *key = text(&labels, &n);
        if (!key || !n || !text(&labels, &n)) return false;
    }
    return true;
}
