/* range.c - a source of numbers, in batches of the size of a block. A unit is two int64: the first
 * number, and the one behind the last. params: name of the column, ended by NUL. */
#include "base/mem.h"
#include "data/data.h"

#define TAG SK_TAG_EXEC

static struct sk_schema **schema_of(struct sk_data_node *n) { return sk_data_state(n); }

static sk_rc open(struct sk_data_node *n, struct sk_err *err) {
    struct sk_bytes name = sk_data_params(n);
    if (!name.n || ((const char *)name.p)[name.n - 1])
        return SK_ERR(err, SK_ECORRUPT, "the parameters are damaged");
    struct ArrowSchema child = {.format = "l", .name = name.p, .flags = ARROW_FLAG_NULLABLE},
                       *children[] = {&child},
                       top = {.format = "+s", .children = children, .n_children = 1};
    return sk_schema_copy(&top, schema_of(n), err);
}

static void release_numbers(struct ArrowArray *a) {
    sk_free(a->private_data);
    a->release = NULL;
}

struct numbers { /* what one batch needs, in one piece of memory */
    struct ArrowArray child, *children[1];
    const void *top_buffers[1], *buffers[2];
    int64_t values[];
};

static void release_child(struct ArrowArray *a) { a->release = NULL; }

static sk_rc send(struct sk_data_node *n, int64_t from, int64_t rows, struct sk_err *err) {
    struct numbers *m = sk_alloc(TAG, sizeof *m + (size_t)rows * sizeof m->values[0]);
    struct sk_batch *b;
    if (!m) return SK_ERR(err, SK_ENOMEM, "no memory for %lld numbers", (long long)rows);
    for (int64_t i = 0; i < rows; i++) m->values[i] = from + i;
    m->top_buffers[0] = m->buffers[0] = NULL;
    m->buffers[1] = m->values;
    m->child = (struct ArrowArray){
        .length = rows, .n_buffers = 2, .buffers = m->buffers, .release = release_child};
    m->children[0] = &m->child;
    struct ArrowArray a = {.length = rows,
                           .n_buffers = 1,
                           .n_children = 1,
                           .buffers = m->top_buffers,
                           .children = m->children,
                           .release = release_numbers,
                           .private_data = m};
    SK_TRY(sk_batch_take(sk_schema_keep(*schema_of(n)), &a, &b, err));
    return sk_data_send(n, b, err);
}

static sk_rc begin(struct sk_data_node *n, struct sk_err *err) {
    struct sk_bytes unit = sk_data_task_of(n)->d.unit;
    int64_t ends[2];
    if (unit.n != sizeof ends) return SK_ERR(err, SK_ECORRUPT, "a unit of numbers is damaged");
    memcpy(ends, unit.p, sizeof ends);
    int64_t at = ends[0],
            most = (int64_t)SK_MIN(sk_data_task_of(n)->d.target_bytes / sizeof at, 1u << 30);
    do {
        int64_t rows = SK_MIN(ends[1] - at, SK_MAX(most, 1));
        SK_TRY(send(n, at, rows, err));
        at += rows;
    } while (at < ends[1]);
    return SK_OK;
}

static void close(struct sk_data_node *n) { sk_schema_drop(*schema_of(n)); }

const struct sk_data_op sk_data_by_range = {.name = "range",
                                            .state_bytes = sizeof(struct sk_schema *),
                                            .open = open,
                                            .begin = begin,
                                            .close = close};
