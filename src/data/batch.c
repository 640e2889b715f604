/* batch.c - batches over shared Arrow arrays.
 *
 * An array that was taken over is kept whole in a struct sk_shared, with a count. Slices and
 * exports are trees of ArrowArrays of our own, whose buffers point into it; every node of such a
 * tree that a consumer may release by itself holds one count. */
#include <stdio.h>

#include "base/mem.h"
#include "data/batch.h"

#define TAG SK_TAG_EXEC

/* ---- schemas --------------------------------------------------------------------------------- */

static void release_schema(struct ArrowSchema *s) {
    for (int64_t i = 0; i < s->n_children; i++) {
        if (s->children[i] && s->children[i]->release) s->children[i]->release(s->children[i]);
        sk_free(s->children[i]);
    }
    if (s->dictionary) {
        if (s->dictionary->release) s->dictionary->release(s->dictionary);
        sk_free(s->dictionary);
    }
    sk_free(s->children);
    sk_free(s->private_data); /* format, name and metadata lie in one piece */
    s->release = NULL;
}

/* Bytes of metadata: int32 number of pairs, then for each: int32 length and bytes, twice. */
static size_t metadata_bytes(const char *m) {
    int32_t n, len;
    size_t at = sizeof n;
    if (!m) return 0;
    memcpy(&n, m, sizeof n);
    for (int64_t i = 0; i < 2 * (int64_t)n; i++) {
        memcpy(&len, m + at, sizeof len);
        at += sizeof len + (size_t)len;
    }
    return at;
}

static sk_rc copy_schema(const struct ArrowSchema *from, struct ArrowSchema *to, uint32_t depth,
                         struct sk_err *err) {
    memset(to, 0, sizeof *to);
    if (depth > SK_BLOCK_MAX_DEPTH)
        return SK_ERR(err, SK_EINVAL, "a schema has more than %u levels", SK_BLOCK_MAX_DEPTH);
    if (!from->format || from->n_children < 0 || (from->n_children && !from->children))
        return SK_ERR(err, SK_EINVAL, "a schema has no format, or no children where it has some");
    const char *name = from->name ? from->name : "";
    size_t nf = strlen(from->format) + 1, nn = strlen(name) + 1,
           nm = metadata_bytes(from->metadata);
    char *text = sk_alloc(TAG, nm + nf + nn);
    struct ArrowSchema **children =
        sk_calloc(TAG, (size_t)SK_MAX(from->n_children, 1) * sizeof *children);
    *to = (struct ArrowSchema){.flags = from->flags,
                               .children = children,
                               .release = release_schema,
                               .private_data = text};
    sk_rc rc = text && children ? SK_OK : SK_ERR(err, SK_ENOMEM, "no memory for a schema");
    if (rc == SK_OK) {
        if (nm) memcpy(text, from->metadata, nm);
        memcpy(text + nm, from->format, nf);
        memcpy(text + nm + nf, name, nn);
        to->metadata = nm ? text : NULL;
        to->format = text + nm;
        to->name = text + nm + nf;
    }
    for (int64_t i = 0; rc == SK_OK && i < from->n_children; i++) {
        if (!(children[i] = sk_alloc(TAG, sizeof **children)))
            rc = SK_ERR(err, SK_ENOMEM, "no memory for a schema");
        else rc = copy_schema(from->children[i], children[i], depth + 1, err);
        if (children[i]) to->n_children = i + 1;
    }
    if (rc == SK_OK && from->dictionary) {
        to->dictionary = sk_alloc(TAG, sizeof *to->dictionary);
        rc = to->dictionary ? copy_schema(from->dictionary, to->dictionary, depth + 1, err)
                            : SK_ERR(err, SK_ENOMEM, "no memory for a schema");
    }
    if (rc != SK_OK) release_schema(to);
    return rc;
}

sk_rc sk_schema_export(const struct ArrowSchema *from, struct ArrowSchema *out,
                       struct sk_err *err) {
    return copy_schema(from, out, 1, err);
}

sk_rc sk_schema_copy(const struct ArrowSchema *from, struct sk_schema **out, struct sk_err *err) {
    if (!from || !from->format || strcmp(from->format, "+s") != 0)
        return SK_ERR(err, SK_EINVAL,
                      "the schema of a batch has to be a struct (format \"+s\") with a column a "
                      "child");
    struct sk_schema *s = sk_alloc(TAG, sizeof *s);
    if (!s) return SK_ERR(err, SK_ENOMEM, "no memory for a schema");
    sk_rc rc = copy_schema(from, &s->s, 1, err);
    s->refs = 1;
    if (rc == SK_OK) *out = s;
    else sk_free(s);
    return rc;
}

/* Sets whether a field may have nulls, and its children: entries and keys of maps, and ends of
 * runs, never do. entries: the field is that of a map's entries. */
static void set_nullable(struct ArrowSchema *s, bool may, bool entries) {
    bool map = !strcmp(s->format, "+m"), runs = !strcmp(s->format, "+r");
    s->flags &= ~(int64_t)ARROW_FLAG_NULLABLE;
    if (may) s->flags |= ARROW_FLAG_NULLABLE;
    for (int64_t i = 0; i < s->n_children; i++)
        set_nullable(s->children[i], !map && (i || (!entries && !runs)), map);
    if (s->dictionary) set_nullable(s->dictionary, true, false);
}

sk_rc sk_schema_nullable(const struct ArrowSchema *from, struct sk_schema **out,
                         struct sk_err *err) {
    SK_TRY(sk_schema_copy(from, out, err));
    set_nullable(&(*out)->s, false, false);
    (*out)->s.metadata = NULL;
    return SK_OK;
}

struct sk_schema *sk_schema_keep(struct sk_schema *s) {
    __atomic_fetch_add(&s->refs, 1, __ATOMIC_RELAXED);
    return s;
}

void sk_schema_drop(struct sk_schema *s) {
    if (!s || __atomic_sub_fetch(&s->refs, 1, __ATOMIC_ACQ_REL)) return;
    s->s.release(&s->s);
    sk_free(s);
}

int64_t sk_schema_find(const struct ArrowSchema *s, const char *name) {
    for (int64_t i = 0; i < s->n_children; i++)
        if (s->children[i]->name && strcmp(s->children[i]->name, name) == 0) return i;
    return -1;
}

sk_rc sk_schema_no_column(const struct ArrowSchema *s, const char *name, struct sk_err *err) {
    char list[400];
    size_t at = 0;
    list[0] = 0;
    for (int64_t i = 0; i < s->n_children && at < sizeof list - 1; i++)
        at += (size_t)snprintf(list + at, sizeof list - at, "%s'%s'", i ? ", " : "",
                               s->children[i]->name);
    return SK_ERR(err, SK_EINVAL, "there is no column '%s'; the columns are %s", name,
                  at ? list : "none");
}

static const char *text_of(const char *s) { return s ? s : ""; }

static sk_rc changed(const struct ArrowSchema *was, const struct ArrowSchema *is, const char *name,
                     struct sk_err *err) {
    if (strcmp(was->format, is->format) != 0 || !was->dictionary != !is->dictionary)
        return SK_ERR(
            err, SK_EINVAL,
            "the schema changes between batches: column '%s' has format \"%s\"%s, and had "
            "\"%s\"%s before",
            name, is->format, is->dictionary ? " with a dictionary" : "", was->format,
            was->dictionary ? " with a dictionary" : "");
    if (is->flags & ~was->flags & ARROW_FLAG_NULLABLE)
        return SK_ERR(err, SK_EINVAL,
                      "the schema changes between batches: column '%s' (format \"%s\") may have "
                      "nulls, and could not before",
                      name, is->format);
    bool top = !*name;
    for (int64_t i = 0; i < was->n_children && i < is->n_children; i++) {
        const struct ArrowSchema *x = was->children[i], *y = is->children[i];
        if (strcmp(text_of(x->name), text_of(y->name)) != 0)
            return SK_ERR(
                err, SK_EINVAL,
                "the schema changes between batches: %s %lld is '%s' (format \"%s\"), and "
                "was '%s' (format \"%s\") before",
                top ? "column" : "field", (long long)i, text_of(y->name), y->format,
                text_of(x->name), x->format);
        SK_TRY(changed(x, y, top ? text_of(y->name) : name, err));
    }
    if (was->n_children != is->n_children)
        return SK_ERR(err, SK_EINVAL,
                      "the schema changes between batches: %s%s%s%lld columns, and %lld before",
                      top ? "" : "column '", name, top ? "" : "' has ", (long long)is->n_children,
                      (long long)was->n_children);
    return was->dictionary ? changed(was->dictionary, is->dictionary, name, err) : SK_OK;
}

sk_rc sk_schema_changed(const struct ArrowSchema *was, const struct ArrowSchema *is,
                        struct sk_err *err) {
    /* The flags of the whole batch mean nothing. */
    struct ArrowSchema x = *was, y = *is;
    x.flags = y.flags = 0;
    return changed(&x, &y, "", err);
}

/* ---- shared arrays --------------------------------------------------------------------------- */

struct sk_shared {
    struct ArrowArray a;
    uint32_t refs;
};

static void shared_drop(struct sk_shared *s) {
    if (__atomic_sub_fetch(&s->refs, 1, __ATOMIC_ACQ_REL)) return;
    if (s->a.release) s->a.release(&s->a);
    sk_free(s);
}
static struct sk_shared *shared_keep(struct sk_shared *s) {
    __atomic_fetch_add(&s->refs, 1, __ATOMIC_RELAXED);
    return s;
}

/* A tree of arrays over the buffers of a shared one. Each node holds a count of it and frees
 * nothing but itself, so that a consumer may move a child out and release the rest. */
static void release_node(struct ArrowArray *a) {
    for (int64_t i = 0; i < a->n_children; i++) {
        if (a->children[i]->release) a->children[i]->release(a->children[i]);
        sk_free(a->children[i]);
    }
    if (a->dictionary) {
        if (a->dictionary->release) a->dictionary->release(a->dictionary);
        sk_free(a->dictionary);
    }
    sk_free(a->children);
    shared_drop(a->private_data);
    a->release = NULL;
}

static struct ArrowArray *new_node(const struct ArrowArray *from, struct sk_shared *own);

static bool fill_node(struct ArrowArray *to, const struct ArrowArray *from, struct sk_shared *own) {
    *to = *from;
    to->children = NULL;
    to->dictionary = NULL;
    to->n_children = 0;
    to->release = release_node;
    to->private_data = shared_keep(own);
    if (from->n_children &&
        !(to->children = sk_calloc(TAG, (size_t)from->n_children * sizeof *to->children)))
        return false;
    for (; to->n_children < from->n_children; to->n_children++)
        if (!(to->children[to->n_children] = new_node(from->children[to->n_children], own)))
            return false;
    return !from->dictionary || (to->dictionary = new_node(from->dictionary, own));
}

static struct ArrowArray *new_node(const struct ArrowArray *from, struct sk_shared *own) {
    struct ArrowArray *a = sk_alloc(TAG, sizeof *a);
    if (!a || fill_node(a, from, own)) return a;
    release_node(a);
    sk_free(a);
    return NULL;
}

static void cut_column(struct ArrowArray *c, int64_t row, int64_t n) {
    if (c->length != n) c->null_count = c->null_count ? -1 : 0;
    c->offset += row;
    c->length = n;
}

/* ---- batches --------------------------------------------------------------------------------- */

static sk_rc new_batch(struct sk_schema *schema, struct sk_shared *own, struct sk_batch **out,
                       struct sk_err *err) {
    struct sk_batch *b = sk_calloc(TAG, sizeof *b);
    *out = b;
    if (!b) {
        sk_schema_drop(schema);
        return SK_ERR(err, SK_ENOMEM, "no memory for a batch");
    }
    b->schema = schema;
    b->own = shared_keep(own);
    return SK_OK;
}

/* Destroys a batch that could not be filled. */
static sk_rc give_up(struct sk_batch **out, struct sk_err *err) {
    sk_batch_destroy(*out);
    *out = NULL;
    return SK_ERR(err, SK_ENOMEM, "no memory for a batch");
}

static sk_rc take(struct sk_schema *schema, struct ArrowArray *array, struct sk_batch **out,
                  struct sk_err *err) {
    if (!array->release)
        return SK_ERR(err, SK_EINVAL, "the array of a batch was released, or never filled");
    if (array->n_children != schema->s.n_children || array->length < 0 || array->offset < 0)
        return SK_ERR(
            err, SK_EINVAL,
            "a batch of %lld columns and %lld rows does not fit its schema of %lld columns",
            (long long)array->n_children, (long long)array->length,
            (long long)schema->s.n_children);
    for (int64_t i = 0; i < array->n_children; i++)
        if (array->children[i]->length < array->offset + array->length)
            return SK_ERR(err, SK_EINVAL, "column '%s' has %lld rows, and its batch needs %lld",
                          schema->s.children[i]->name, (long long)array->children[i]->length,
                          (long long)(array->offset + array->length));
    struct sk_shared *own = sk_alloc(TAG, sizeof *own);
    if (!own) return SK_ERR(err, SK_ENOMEM, "no memory for a batch");
    *own = (struct sk_shared){*array, 1};
    array->release = NULL;
    sk_rc rc = new_batch(sk_schema_keep(schema), own, out, err);
    if (rc == SK_OK && !fill_node(&(*out)->array, &own->a, own)) rc = give_up(out, err);
    if (rc == SK_OK && ((*out)->array.offset || (*out)->array.n_children)) {
        struct ArrowArray *a = &(*out)->array;
        for (int64_t i = 0; i < a->n_children; i++)
            if (a->offset || a->children[i]->length != a->length)
                cut_column(a->children[i], a->offset, a->length);
        a->offset = 0;
    }
    shared_drop(own);
    return rc;
}

sk_rc sk_batch_take(struct sk_schema *schema, struct ArrowArray *array, struct sk_batch **out,
                    struct sk_err *err) {
    sk_rc rc = take(schema, array, out, err);
    if (array->release) array->release(array);
    array->release = NULL;
    sk_schema_drop(schema);
    return rc;
}

sk_rc sk_batch_slice(const struct sk_batch *b, int64_t row, int64_t n, struct sk_batch **out,
                     struct sk_err *err) {
    SK_DCHECK(row >= 0 && n >= 0 && row + n <= b->array.length);
    SK_TRY(new_batch(sk_schema_keep(b->schema), b->own, out, err));
    if (!fill_node(&(*out)->array, &b->array, b->own)) return give_up(out, err);
    struct ArrowArray *a = &(*out)->array;
    for (int64_t i = 0; i < a->n_children; i++) cut_column(a->children[i], row, n);
    a->length = n;
    a->null_count = 0;
    return SK_OK;
}

sk_rc sk_batch_columns(const struct sk_batch *b, struct sk_schema *schema, const uint32_t *columns,
                       struct sk_batch **out, struct sk_err *err) {
    SK_TRY(new_batch(schema, b->own, out, err));
    struct ArrowArray *a = &(*out)->array;
    int64_t n = schema->s.n_children;
    bool ok = true;
    *a = b->array;
    a->dictionary = NULL;
    a->n_children = 0;
    a->children = sk_calloc(TAG, (size_t)SK_MAX(n, 1) * sizeof *a->children);
    a->release = release_node;
    a->private_data = shared_keep(b->own);
    for (ok = a->children != NULL; ok && a->n_children < n; a->n_children++)
        if (!(a->children[a->n_children] =
                  new_node(b->array.children[columns[a->n_children]], b->own))) {
            ok = false;
            break;
        }
    if (ok) return SK_OK;
    return give_up(out, err);
}

static void free_bytes(void *p) { sk_free(p); }

sk_rc sk_batch_of_plan(struct sk_block_plan *plan, uint64_t size, struct sk_batch **out,
                       struct sk_err *err) {
    uint8_t *p = sk_alloc_aligned(TAG, SK_BLOCK_ALIGN, SK_MAX(size, SK_BLOCK_ALIGN));
    if (p) sk_block_write(plan, p);
    sk_block_plan_free(plan);
    if (!p)
        return SK_ERR(err, SK_ENOMEM, "no memory for a batch of %llu bytes",
                      (unsigned long long)size);
    return sk_batch_open(p, size, 0, UINT64_MAX, (struct sk_block_owner){free_bytes, p}, out, err);
}

sk_rc sk_batch_open(const uint8_t *block, size_t n, uint64_t row0, uint64_t n_rows,
                    struct sk_block_owner owner, struct sk_batch **out, struct sk_err *err) {
    struct ArrowSchema s;
    struct ArrowArray a;
    SK_TRY(sk_block_export(block, n, row0, n_rows, owner, &s, &a, err));
    struct sk_schema *schema = sk_alloc(TAG, sizeof *schema);
    if (schema) {
        *schema = (struct sk_schema){s, 1};
        return sk_batch_take(schema, &a, out, err);
    }
    s.release(&s);
    a.release(&a);
    return SK_ERR(err, SK_ENOMEM, "no memory for a batch");
}

sk_rc sk_batch_concat(struct sk_batch *const *batches, uint32_t n, struct sk_batch **out,
                      struct sk_err *err) {
    const struct ArrowArray **arrays = sk_alloc(TAG, n * sizeof *arrays);
    uint64_t rows = 0, size, at = 0;
    struct sk_block_plan *plan;
    for (uint32_t i = 0; i < n; i++) rows += (uint64_t)batches[i]->array.length;
    struct sk_row_at *places = sk_alloc(TAG, (rows + 1) * sizeof *places);
    sk_rc rc = arrays && places ? SK_OK
                                : SK_ERR(err, SK_ENOMEM, "no memory for a batch of %llu rows",
                                         (unsigned long long)rows);
    for (uint32_t i = 0; rc == SK_OK && i < n; i++) {
        arrays[i] = &batches[i]->array;
        for (uint32_t k = 0; k < (uint64_t)batches[i]->array.length; k++)
            places[at++] = (struct sk_row_at){i, k};
    }
    struct sk_block_side side = {arrays, n, places};
    if (rc == SK_OK)
        rc = sk_block_measure_places(&batches[0]->schema->s, &side, 1, NULL, rows, &plan, &size,
                                     err);
    if (rc == SK_OK) rc = sk_batch_of_plan(plan, size, out, err);
    sk_free(arrays);
    sk_free(places);
    return rc;
}

sk_rc sk_batch_rows(const struct sk_batch *b, const uint32_t *rows, uint64_t n,
                    struct sk_batch **out, struct sk_err *err) {
    struct sk_block_plan *plan;
    uint64_t size;
    SK_TRY(sk_block_measure_rows(&b->schema->s, &b->array, rows, n, &plan, &size, err));
    return sk_batch_of_plan(plan, size, out, err);
}

sk_rc sk_batch_export(const struct sk_batch *b, struct ArrowArray *out, struct sk_err *err) {
    if (fill_node(out, &b->array, b->own)) return SK_OK;
    release_node(out);
    return SK_ERR(err, SK_ENOMEM, "no memory for a batch");
}

void sk_batch_destroy(struct sk_batch *b) {
    if (!b) return;
    if (b->array.release) b->array.release(&b->array);
    shared_drop(b->own);
    sk_schema_drop(b->schema);
    sk_free(b);
}
