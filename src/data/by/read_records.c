/* read_records.c - a source of fixed-width records in files. params: u64 width, bytes name of the
 * column. A unit: u64 offset in the file, u64 number of records, bytes path. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/mem.h"
#include "data/data.h"

#define TAG SK_TAG_EXEC

enum { BATCH_BYTES = 4 << 20 };

struct state {
    struct sk_schema *schema;
    uint64_t width;
};

static sk_rc open_op(struct sk_data_node *n, struct sk_err *err) {
    struct state *s = sk_data_state(n);
    struct sk_bytes p = sk_data_params(n);
    struct sk_rd r = sk_rd_init(p.p, p.n);
    char format[32];
    s->width = sk_rd_u64(&r);
    struct sk_bytes name = sk_rd_bytes(&r);
    if (!sk_rd_ok(&r) || !name.n || ((const char *)name.p)[name.n - 1] || !s->width)
        return SK_ERR(err, SK_ECORRUPT, "the parameters are damaged");
    snprintf(format, sizeof format, "w:%llu", (unsigned long long)s->width);
    struct ArrowSchema child = {.format = format, .name = name.p, .flags = ARROW_FLAG_NULLABLE},
                       *kids[] = {&child},
                       top = {.format = "+s", .children = kids, .n_children = 1};
    return sk_schema_copy(&top, &s->schema, err);
}

struct records { /* what one batch needs, in one piece of memory */
    struct ArrowArray child, *kids[1];
    const void *top_buffers[1], *buffers[2];
    uint8_t bytes[];
};

static void release_child(struct ArrowArray *a) { a->release = NULL; }
static void release_records(struct ArrowArray *a) {
    sk_free(a->private_data);
    a->release = NULL;
}

static sk_rc fill(int fd, const char *path, uint8_t *to, uint64_t n, uint64_t at,
                  struct sk_err *err) {
    while (n) {
        ssize_t got = pread(fd, to, n, (off_t)at);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return SK_ERR_SYS(err, "read %s", path);
        if (!got)
            return SK_ERR(err, SK_EIO, "read %s: it ends %llu bytes before it did at first", path,
                          (unsigned long long)n);
        to += got;
        n -= (uint64_t)got;
        at += (uint64_t)got;
    }
    return SK_OK;
}

/* Reads and sends some records. */
static sk_rc send(struct sk_data_node *n, int fd, const char *path, uint64_t at, uint64_t rows,
                  struct sk_err *err) {
    struct state *s = sk_data_state(n);
    struct sk_batch *b;
    struct records *m = sk_alloc(TAG, sizeof *m + rows * s->width);
    if (!m) return SK_ERR(err, SK_ENOMEM, "no memory for %llu records", (unsigned long long)rows);
    sk_rc rc = fill(fd, path, m->bytes, rows * s->width, at, err);
    if (rc != SK_OK) {
        sk_free(m);
        return rc;
    }
    m->top_buffers[0] = m->buffers[0] = NULL;
    m->buffers[1] = m->bytes;
    m->child = (struct ArrowArray){
        .length = (int64_t)rows, .n_buffers = 2, .buffers = m->buffers, .release = release_child};
    m->kids[0] = &m->child;
    struct ArrowArray a = {.length = (int64_t)rows,
                           .n_buffers = 1,
                           .n_children = 1,
                           .buffers = m->top_buffers,
                           .children = m->kids,
                           .release = release_records,
                           .private_data = m};
    SK_TRY(sk_batch_take(sk_schema_keep(s->schema), &a, &b, err));
    return sk_data_send(n, b, err);
}

static sk_rc begin(struct sk_data_node *n, struct sk_err *err) {
    struct state *s = sk_data_state(n);
    struct sk_bytes unit = sk_data_task_of(n)->d.unit;
    struct sk_rd r = sk_rd_init(unit.p, unit.n);
    uint64_t at = sk_rd_u64(&r), rows = sk_rd_u64(&r), per = SK_MAX(BATCH_BYTES / s->width, 1);
    struct sk_bytes path = sk_rd_bytes(&r);
    if (!sk_rd_ok(&r) || !path.n || ((const char *)path.p)[path.n - 1])
        return SK_ERR(err, SK_ECORRUPT, "a unit of records is damaged");
    int fd = open(path.p, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return SK_ERR_SYS(err, "open %s", (const char *)path.p);
    sk_rc rc = SK_OK;
    for (; rc == SK_OK && rows; at += per * s->width, rows -= SK_MIN(per, rows))
        rc = send(n, fd, path.p, at, SK_MIN(per, rows), err);
    close(fd);
    return rc;
}

static void close_op(struct sk_data_node *n) {
    sk_schema_drop(((struct state *)sk_data_state(n))->schema);
}

const struct sk_data_op sk_data_by_read_records = {.name = "read_records",
                                                   .state_bytes = sizeof(struct state),
                                                   .open = open_op,
                                                   .begin = begin,
                                                   .close = close_op};
