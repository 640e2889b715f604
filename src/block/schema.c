/* schema.c - the ArrowSchema tree: checks and measures it, flattens it into a block, and builds it
 * again from there.
 *
 * Not here: computing with types. Records of fields are in depth-first order: a field, its
 * children, its dictionary. A built tree is one allocation with a count of live structs, because a
 * consumer may move children out and release them in any order, on any thread. Cost: about 30 ns a
 * field in each direction. */
#include <stdatomic.h>
#include <stdio.h>

#include "base/crc32c.h"
#include "block/block_int.h"

/* ---- measuring a schema ---- */

static const char *safe(const char *s) { return s ? s : ""; }

static sk_rc check_type(const struct ArrowSchema *s, const struct sk_block_type *t,
                        struct sk_err *err) {
    if (s->n_children < 0 || s->n_children > UINT32_MAX ||
        (t->n_children >= 0 && s->n_children != t->n_children))
        return SK_ERR(err, SK_EINVAL, "type '%s' has %lld children", s->format,
                      (long long)s->n_children);
    if (s->n_children && !s->children)
        return SK_ERR(err, SK_EINVAL, "type '%s': no children array", s->format);
    for (int64_t i = 0; i < s->n_children; i++)
        if (!s->children[i] || !s->children[i]->format)
            return SK_ERR(err, SK_EINVAL, "type '%s': child %lld is missing", s->format,
                          (long long)i);
    if (s->dictionary && !t->index)
        return SK_ERR(err, SK_EINVAL, "dictionary index of type '%s' is not an integer", s->format);
    if (t->is_map && (strcmp(s->children[0]->format, "+s") != 0 || s->children[0]->n_children != 2))
        return SK_ERR(err, SK_EINVAL, "a map's child is not a struct of key and value");
    if (t->kind == SK_BLOCK_RUNS) {
        const struct ArrowSchema *ends = s->children[0];
        if ((strcmp(ends->format, "s") != 0 && strcmp(ends->format, "i") != 0 &&
             strcmp(ends->format, "l") != 0) ||
            ends->dictionary)
            return SK_ERR(err, SK_EINVAL, "run ends of type '%s' are not int16, int32 or int64",
                          ends->format);
    }
    return SK_OK;
}

static sk_rc measure(const struct ArrowSchema *s, unsigned depth, struct sk_block_shape *shape,
                     struct sk_err *err) {
    struct sk_block_type t;
    uint64_t metadata = 0;
    if (depth >= SK_BLOCK_MAX_DEPTH)
        return SK_ERR(err, SK_EINVAL, "nested deeper than %u levels", SK_BLOCK_MAX_DEPTH);
    if (!s->format || !sk_block_type_parse(s->format, &t))
        return SK_ERR(err, SK_EINVAL, "unknown Arrow format '%s'", safe(s->format));
    SK_TRY(check_type(s, &t, err));
    if (s->metadata && !sk_block_metadata_len(s->metadata, UINT32_MAX - 1, &metadata))
        return SK_ERR(err, SK_EINVAL, "metadata has a negative or too large length");
    size_t strings = strlen(s->format) + 1 + strlen(safe(s->name)) + 1;
    if (strings + metadata > UINT32_MAX / 2)
        return SK_ERR(err, SK_EINVAL, "name or metadata of over 2 GiB");
    if (shape->n_nodes == UINT32_MAX / 8) return SK_ERR(err, SK_EINVAL, "too many fields");
    shape->n_nodes++;
    shape->n_buffers += (uint32_t)t.n_buffers + (t.kind == SK_BLOCK_VIEW);
    shape->schema_len += SK_ALIGN(sizeof(struct sk_block_field) + strings + metadata, 8);
    int64_t numbers[3] = {s->flags, s->n_children, s->dictionary != NULL};
    shape->crc = sk_crc32c(shape->crc, s->format, strlen(s->format) + 1);
    shape->crc = sk_crc32c(shape->crc, safe(s->name), strlen(safe(s->name)) + 1);
    shape->crc = sk_crc32c(shape->crc, numbers, sizeof numbers);
    if (metadata) shape->crc = sk_crc32c(shape->crc, s->metadata, (size_t)metadata);
    for (int64_t i = 0; i < s->n_children; i++) {
        sk_rc rc = measure(s->children[i], depth + 1, shape, err);
        if (rc) {
            sk_err_prefix(err, "%s '%s'", depth ? "field" : "column", safe(s->children[i]->name));
            return rc;
        }
    }
    if (s->dictionary) {
        sk_rc rc = measure(s->dictionary, depth + 1, shape, err);
        if (rc) {
            sk_err_prefix(err, "dictionary");
            return rc;
        }
    }
    return SK_OK;
}

sk_rc sk_block_schema_measure(const struct ArrowSchema *s, struct sk_block_shape *shape,
                              struct sk_err *err) {
    struct sk_block_shape sum = {0};
    if (!s->format || strcmp(s->format, "+s") != 0)
        return SK_ERR(err, SK_EINVAL, "encode block: a record batch is a struct array, not '%s'",
                      safe(s->format));
    sk_rc rc = measure(s, 0, &sum, err);
    if (rc) {
        sk_err_prefix(err, "encode block");
        return rc;
    }
    if (!sum.crc) sum.crc = 1;
    *shape = sum;
    return SK_OK;
}

/* ---- writing a schema section ---- */

uint8_t *sk_block_schema_write(const struct ArrowSchema *s, uint8_t *dst) {
    size_t nf = strlen(s->format), nn = strlen(safe(s->name));
    uint64_t nm = 0;
    if (s->metadata) (void)sk_block_metadata_len(s->metadata, UINT32_MAX - 1, &nm);
    size_t used = sizeof(struct sk_block_field) + nf + 1 + nn + 1 + (size_t)nm,
           len = (size_t)SK_ALIGN(used, 8);
    struct sk_block_field f = {
        .flags = (uint64_t)s->flags,
        .rec_len = (uint32_t)len,
        .n_children = (uint32_t)s->n_children,
        .format_len = (uint32_t)nf,
        .name_len = (uint32_t)nn,
        .metadata_len = s->metadata ? (uint32_t)nm : SK_BLOCK_NO_METADATA,
        .has_dictionary = s->dictionary != NULL,
    };
    uint8_t *d = dst;
    memcpy(d, &f, sizeof f);
    d += sizeof f;
    memcpy(d, s->format, nf + 1);
    d += nf + 1;
    memcpy(d, safe(s->name), nn + 1);
    d += nn + 1;
    if (nm) memcpy(d, s->metadata, (size_t)nm);
    d += nm;
    memset(d, 0, len - used);
    d = dst + len;
    for (int64_t i = 0; i < s->n_children; i++) d = sk_block_schema_write(s->children[i], d);
    if (s->dictionary) d = sk_block_schema_write(s->dictionary, d);
    return d;
}

/* ---- building an ArrowSchema ---- */

/* Head of the allocation of one built tree, shared by all its structs; structs, pointers and
 * strings follow. */
struct hold {
    _Atomic uint64_t live;
};

struct build {
    struct hold *hold;
    const uint8_t *at;           /* next record in the copied section */
    struct ArrowSchema *structs; /* the next unused struct of the allocation */
    struct ArrowSchema **pointers;
};

static void schema_release(struct ArrowSchema *s);

/* Marks a struct and all children that it still owns as released; returns the number of these
 * structs. */
static uint64_t drop(struct ArrowSchema *s, const struct hold *hold) {
    uint64_t n = 1;
    for (int64_t i = -1; i < s->n_children; i++) {
        struct ArrowSchema *c = i < 0 ? s->dictionary : s->children[i];
        if (!c || !c->release) continue;
        if (c->release == schema_release && c->private_data == hold) n += drop(c, hold);
        else c->release(c); /* a consumer has put a struct of its own in this child's place */
    }
    s->release = NULL;
    return n;
}

static void schema_release(struct ArrowSchema *s) {
    struct hold *hold = s->private_data;
    uint64_t n = drop(s, hold);
    if (atomic_fetch_sub_explicit(&hold->live, n, memory_order_acq_rel) == n) sk_free(hold);
}

static void fill(struct build *b, struct ArrowSchema *s) {
    struct sk_block_field f;
    memcpy(&f, b->at, sizeof f);
    const char *text = (const char *)b->at + sizeof f;
    b->at += f.rec_len;
    *s = (struct ArrowSchema){
        .format = text,
        .name = text + f.format_len + 1,
        .metadata = f.metadata_len == SK_BLOCK_NO_METADATA
                        ? NULL
                        : text + f.format_len + 1 + f.name_len + 1,
        .flags = (int64_t)f.flags,
        .n_children = f.n_children,
        .children = f.n_children ? b->pointers : NULL,
        .release = schema_release,
        .private_data = b->hold,
    };
    b->pointers += f.n_children;
    for (uint32_t i = 0; i < f.n_children; i++) {
        s->children[i] = b->structs++;
        fill(b, s->children[i]);
    }
    if (f.has_dictionary) {
        s->dictionary = b->structs++;
        fill(b, s->dictionary);
    }
}

sk_rc sk_block_schema_build(const uint8_t *section, uint64_t len, uint32_t n_nodes,
                            struct ArrowSchema *out, struct sk_err *err) {
    size_t structs = (n_nodes - 1u) * sizeof(struct ArrowSchema),
           pointers = n_nodes * sizeof(struct ArrowSchema *);
    size_t head = (size_t)SK_ALIGN(sizeof(struct hold), 16);
    uint8_t *p = sk_alloc(SK_TAG_BLOCK, head + structs + pointers + (size_t)len);
    if (!p) return SK_ERR(err, SK_ENOMEM, "export schema: no memory for %u fields", n_nodes);
    memcpy(p + head + structs + pointers, section, (size_t)len);
    struct build b = {
        .hold = (void *)p,
        .at = p + head + structs + pointers,
        .structs = (void *)(p + head),
        .pointers = (void *)(p + head + structs),
    };
    atomic_init(&b.hold->live, n_nodes);
    fill(&b, out);
    return SK_OK;
}

static bool same_text(const char *a, const char *b) { return strcmp(a ? a : "", b ? b : "") == 0; }

static bool same_metadata(const char *a, const char *b) {
    uint64_t n = 0, m = 0;
    if (a && !sk_block_metadata_len(a, UINT64_MAX, &n)) return false;
    if (b && !sk_block_metadata_len(b, UINT64_MAX, &m)) return false;
    return n == m && (!n || memcmp(a, b, (size_t)n) == 0);
}

bool sk_block_same_schema(const struct ArrowSchema *a, const struct ArrowSchema *b) {
    if (a == b) return true;
    if (a->n_children != b->n_children || a->flags != b->flags ||
        !a->dictionary != !b->dictionary || !same_text(a->format, b->format) ||
        !same_text(a->name, b->name) || !same_metadata(a->metadata, b->metadata))
        return false;
    for (int64_t i = 0; i < a->n_children; i++)
        if (!sk_block_same_schema(a->children[i], b->children[i])) return false;
    return !a->dictionary || sk_block_same_schema(a->dictionary, b->dictionary);
}

static void text(const struct ArrowSchema *s, char *buf, size_t cap, size_t *n, bool top) {
#define PUT(...) \
    *n += (size_t)snprintf(*n < cap ? buf + *n : NULL, *n < cap ? cap - *n : 0, __VA_ARGS__)
    if (!top) PUT("%s \"%s\"", safe(s->name), s->format);
    if (!top && s->n_children) PUT("(");
    for (int64_t i = 0; i < s->n_children; i++) {
        if (i) PUT(", ");
        text(s->children[i], buf, cap, n, false);
    }
    if (!top && s->n_children) PUT(")");
    if (s->dictionary) PUT(" of \"%s\"", s->dictionary->format);
#undef PUT
}

size_t sk_block_schema_text(const struct ArrowSchema *s, char *buf, size_t cap) {
    size_t n = 0;
    if (cap) buf[0] = 0;
    text(s, buf, cap, &n, true);
    return n;
}
