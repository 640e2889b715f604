/* data_columns.c - batches of plain numbers, for functions that want arrays. */
#include <stdlib.h>

#include "api/data_int.h"
#include "base/mem.h"

/* Bytes of a value of the format; 0: it is no fixed-width number. */
static size_t width_of(const char *format) {
    if (!format[0] || format[1]) return 0;
    switch (format[0]) {
    case 'c':
    case 'C': return 1;
    case 's':
    case 'S':
    case 'e': return 2;
    case 'i':
    case 'I':
    case 'f': return 4;
    case 'l':
    case 'L':
    case 'g': return 8;
    default: return 0;
    }
}

/* True if one of the array's rows is null. */
static bool has_nulls(const struct ArrowArray *a) {
    const uint8_t *bits = a->n_buffers ? a->buffers[0] : NULL;
    if (!a->null_count || !bits) return false;
    for (int64_t i = a->offset; i < a->offset + a->length; i++)
        if (!(bits[i >> 3] >> (i & 7) & 1)) return true;
    return false;
}

int skate_columns(struct skate_task *t, const struct ArrowSchema *schema,
                  const struct ArrowArray *batch, struct skate_column *columns, size_t n) {
    (void)t;
    if (!schema || !batch || (n && !columns) || batch->n_children != schema->n_children)
        return SK_ERR(sk_api_err(), SK_EINVAL,
                      "columns: a batch and its schema are needed, and columns to find");
    for (size_t i = 0; i < n; i++) {
        const char *format = columns[i].format ? columns[i].format : "l";
        size_t width = width_of(format);
        columns[i].data = NULL;
        if (!columns[i].name)
            return SK_ERR(sk_api_err(), SK_EINVAL, "columns: column %zu has no name", i);
        int64_t at = sk_schema_find(schema, columns[i].name);
        if (at < 0) return sk_schema_no_column(schema, columns[i].name, sk_api_err());
        const struct ArrowArray *a = batch->children[at];
        const char *has = schema->children[at]->format;
        if (!width || strcmp(format, has) != 0)
            return SK_ERR(sk_api_err(), SK_EINVAL,
                          "column '%s' has the Arrow format \"%s\", and \"%s\" is asked for%s",
                          columns[i].name, has, format, width ? "" : ", which is no number");
        if (schema->children[at]->dictionary)
            return SK_ERR(sk_api_err(), SK_EINVAL,
                          "column '%s' has a dictionary: its numbers are indices of values",
                          columns[i].name);
        if (!a->release)
            return SK_ERR(sk_api_err(), SK_EINVAL, "column '%s' was moved out of its batch",
                          columns[i].name);
        if (has_nulls(a))
            return SK_ERR(sk_api_err(), SK_EINVAL, "column '%s' has nulls", columns[i].name);
        const uint8_t *values = a->buffers[1];
        size_t first = (size_t)(a->offset + batch->offset);
        columns[i].data = (void *)(uintptr_t)(values ? values + width * first : NULL);
    }
    return SK_OK;
}

/* The memory of a batch that was made here is one piece. It begins with the number of structs that
 * are not released, since children may be moved out of the batch. */
static void drop_made(struct ArrowArray *a) {
    uint64_t *live = a->private_data;
    a->release = NULL;
    if (!__atomic_sub_fetch(live, 1, __ATOMIC_ACQ_REL)) free(live);
}
static void release_child(struct ArrowArray *a) { drop_made(a); }
static void release_made(struct ArrowArray *a) {
    for (int64_t i = 0; i < a->n_children; i++)
        if (a->children[i]->release) a->children[i]->release(a->children[i]);
    drop_made(a);
}

int skate_batch_new(struct skate_column *columns, size_t n, size_t rows, struct ArrowSchema *schema,
                    struct ArrowArray *batch) {
    enum { COLUMNS_MAX = 1 << 20 };
    if (!schema || !batch || (n && !columns) || n > COLUMNS_MAX || rows > UINT32_MAX - 1)
        return SK_ERR(
            sk_api_err(), SK_EINVAL,
            "batch_new: %zu columns of %zu rows; a schema and a batch to fill are needed, "
            "at most %d columns and 2^32 - 2 rows",
            n, rows, COLUMNS_MAX);
    schema->release = NULL;
    batch->release = NULL;
    struct ArrowSchema *list = sk_calloc(SK_TAG_EXEC, (n + 1) * sizeof *list),
                       **children = sk_calloc(SK_TAG_EXEC, (n + 1) * sizeof *children);
    size_t head = SK_ALIGN(sizeof(uint64_t) + n * (sizeof(struct ArrowArray) + sizeof(void *) * 3) +
                               sizeof(void *),
                           64),
           bytes = head;
    sk_rc rc = list && children ? SK_OK : SK_ENOMEM;
    for (size_t i = 0; rc == SK_OK && i < n; i++) {
        const char *format = columns[i].format ? columns[i].format : "l";
        if (!columns[i].name || !width_of(format))
            rc = SK_ERR(sk_api_err(), SK_EINVAL,
                        "batch_new: column %zu needs a name and the Arrow format of a number, not "
                        "\"%s\"",
                        i, format);
        list[i] = (struct ArrowSchema){
            .format = format, .name = columns[i].name, .flags = ARROW_FLAG_NULLABLE};
        children[i] = &list[i];
        bytes += SK_ALIGN(width_of(format) * rows, 64);
    }
    uint8_t *p = rc == SK_OK ? aligned_alloc(64, SK_ALIGN(bytes + 64, 64)) : NULL;
    if (rc == SK_OK && !p) rc = SK_ENOMEM;
    if (rc == SK_ENOMEM) SK_ERR(sk_api_err(), SK_ENOMEM, "batch_new: no memory for %zu rows", rows);
    if (rc == SK_OK)
        rc = sk_schema_export(
            &(struct ArrowSchema){.format = "+s", .children = children, .n_children = (int64_t)n},
            schema, sk_api_err());
    if (rc == SK_OK) {
        *(uint64_t *)(void *)p = n + 1;
        struct ArrowArray *child = (struct ArrowArray *)(void *)(p + sizeof(uint64_t));
        struct ArrowArray **kids = (struct ArrowArray **)(void *)(child + n);
        const void **buffers = (const void **)(void *)(kids + n);
        uint8_t *data = p + head;
        for (size_t i = 0; i < n; i++) {
            buffers[2 * i] = NULL;
            buffers[2 * i + 1] = columns[i].data = data;
            data += SK_ALIGN(width_of(list[i].format) * rows, 64);
            child[i] = (struct ArrowArray){.length = (int64_t)rows,
                                           .n_buffers = 2,
                                           .buffers = &buffers[2 * i],
                                           .release = release_child,
                                           .private_data = p};
            kids[i] = &child[i];
        }
        buffers[2 * n] = NULL;
        *batch = (struct ArrowArray){.length = (int64_t)rows,
                                     .n_buffers = 1,
                                     .n_children = (int64_t)n,
                                     .buffers = &buffers[2 * n],
                                     .children = kids,
                                     .release = release_made,
                                     .private_data = p};
    } else {
        free(p);
    }
    sk_free(list);
    sk_free(children);
    return rc;
}
