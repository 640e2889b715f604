/* block_bench.c - what a batch costs: measure + write, export + release, nbytes, validate.
 *
 *     build/release/bin/block_bench [seconds per line, default 0.2]
 *
 * Columns: batch shape, data bytes, microseconds a batch each, and the data rate of encoding next
 * to memcpy of the same bytes into the same (warm) buffer. Input is hand-made; no Python. */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/mem.h"
#include "block/block.h"

enum { MAX_COLUMNS = 100 };

struct batch {
    const char *name;
    int64_t rows, columns;
    struct ArrowSchema schema, field;
    struct ArrowArray array, column;
    const void *buffers[4], *none[1];
    struct ArrowSchema *fields[MAX_COLUMNS];
    struct ArrowArray *arrays[MAX_COLUMNS];
};

static void *need(void *p) {
    if (p) return p;
    fprintf(stderr, "no memory\n");
    exit(1);
}

static void fail(const struct sk_err *err) {
    fprintf(stderr, "%s\n", err->msg);
    exit(1);
}

/* All columns are the same array. */
static void init(struct batch *b, const char *name, const char *format, int64_t rows,
                 int64_t columns, int64_t offset, int n_buffers) {
    b->name = name;
    b->rows = rows;
    b->columns = columns;
    b->field =
        (struct ArrowSchema){.format = format, .name = "column", .flags = ARROW_FLAG_NULLABLE};
    b->column = (struct ArrowArray){.length = rows,
                                    .offset = offset,
                                    .null_count = b->buffers[0] ? -1 : 0,
                                    .n_buffers = n_buffers,
                                    .buffers = b->buffers};
    for (int64_t i = 0; i < columns; i++) {
        b->fields[i] = &b->field;
        b->arrays[i] = &b->column;
    }
    b->schema = (struct ArrowSchema){
        .format = "+s", .name = "", .n_children = columns, .children = b->fields};
    b->array = (struct ArrowArray){.length = rows,
                                   .n_buffers = 1,
                                   .n_children = columns,
                                   .buffers = b->none,
                                   .children = b->arrays};
}

static uint64_t encode(const struct batch *b, uint8_t *dst) {
    struct sk_block_plan *plan;
    struct sk_err err;
    uint64_t size;
    if (sk_block_measure(&b->schema, &b->array, &plan, &size, &err)) fail(&err);
    if (dst) sk_block_write(plan, dst);
    sk_block_plan_free(plan);
    return size;
}

static void owner_release(void *ctx) { ++*(int64_t *)ctx; }

static int64_t released;
static void export(const uint8_t *p, size_t n) {
    struct ArrowSchema s;
    struct ArrowArray a;
    struct sk_err err;
    if (sk_block_export(p, n, 0, UINT64_MAX, (struct sk_block_owner){owner_release, &released}, &s,
                        &a, &err))
        fail(&err);
    s.release(&s);
    a.release(&a);
}

static void copy_bytes(uint8_t *to, const uint8_t *from, size_t n) {
    memcpy(to, from, n);
    __asm__ volatile("" ::: "memory"); /* else it would be done once */
}

static double limit_ns = 0.2e9;
#define TIME(us, work)                                           \
    do {                                                         \
        int64_t t0_ = sk_now_ns(), t_, n_ = 0, step_ = 1;        \
        do {                                                     \
            for (int64_t k_ = 0; k_ < step_; k_++) work;         \
            n_ += step_;                                         \
            step_ *= 2;                                          \
        } while ((double)((t_ = sk_now_ns()) - t0_) < limit_ns); \
        us = (double)(t_ - t0_) / 1e3 / (double)n_;              \
    } while (0)

static void run(const struct batch *b) {
    uint64_t size = encode(b, NULL), bytes = 0;
    uint8_t *dst = need(sk_alloc_aligned(SK_TAG_TEST, SK_BLOCK_ALIGN, size)),
            *copy = need(sk_alloc_aligned(SK_TAG_TEST, SK_BLOCK_ALIGN, size));
    double us_encode, us_export, us_nbytes, us_validate, us_copy;
    struct sk_err err;
    memset(copy, 1, size);
    TIME(us_encode, (void)encode(b, dst));
    TIME(us_export, export(dst, size));
    TIME(us_nbytes, if (sk_block_nbytes(&b->schema, &b->array, &bytes, &err)) fail(&err));
    TIME(us_validate, if (sk_block_validate(dst, size, &err)) fail(&err));
    TIME(us_copy, copy_bytes(copy, dst, size));
    printf("%-34s %8lld x %-4lld %10llu %10.2f %8.2f %8.2f %9.2f %8.2f %8.2f\n", b->name,
           (long long)b->rows, (long long)b->columns, (unsigned long long)bytes, us_encode,
           us_export, us_nbytes, us_validate, (double)bytes / us_encode / 1e3,
           (double)bytes / us_copy / 1e3);
    sk_free(dst);
    sk_free(copy);
}

int main(int argc, char **argv) {
    enum { N = 1 << 20, LEN = 16 };
    if (argc > 1) limit_ns = atof(argv[1]) * 1e9;
    int64_t *ints = need(sk_calloc(SK_TAG_TEST, (N + 64) * sizeof *ints));
    int32_t *offs = need(sk_alloc(SK_TAG_TEST, (N + 65) * sizeof *offs)),
            *views = need(sk_calloc(SK_TAG_TEST, (N + 64) * 16)),
            *lists = need(sk_alloc(SK_TAG_TEST, 2 * (N + 64) * sizeof *lists));
    uint8_t *valid = need(sk_alloc(SK_TAG_TEST, N / 8 + 16));
    char *chars = need(sk_calloc(SK_TAG_TEST, (size_t)(N + 64) * LEN));
    int64_t sizes[1] = {(N + 64) * (int64_t)LEN};
    memset(valid, 0xF7, N / 8 + 16);
    for (int i = 0; i <= N + 64; i++) offs[i] = i * LEN;
    for (int i = 0; i < N + 64; i++) {
        views[4 * i] = LEN;
        views[4 * i + 3] = i * LEN;
        lists[i] = i;
        lists[N + 64 + i] = 1;
    }
    printf("%-34s %8s   %-4s %10s %10s %8s %8s %9s %8s %8s\n", "columns of", "rows", "", "bytes",
           "encode us", "export", "nbytes", "validate", "GB/s", "memcpy");
    static const int64_t shapes[][2] = {{1000, 1}, {1000, 10}, {1000, 100}, {100000, 1}, {N, 1}};
    for (size_t i = 0; i < SK_COUNT(shapes); i++) {
        int64_t rows = shapes[i][0], columns = shapes[i][1];
        struct batch b;
        b.none[0] = NULL;
        b.buffers[0] = NULL;
        b.buffers[1] = ints;
        init(&b, "int64", "l", rows, columns, 0, 2);
        run(&b);
        b.buffers[0] = valid;
        init(&b, "int64, nulls, sliced at a bit", "l", rows, columns, 3, 2);
        run(&b);
        b.buffers[0] = NULL;
        b.buffers[1] = offs;
        b.buffers[2] = chars;
        init(&b, "utf8 of 16", "u", rows, columns, 0, 3);
        run(&b);
        init(&b, "utf8 of 16, sliced", "u", rows, columns, 5, 3);
        run(&b);
        b.buffers[1] = views;
        b.buffers[3] = sizes;
        init(&b, "utf8 view of 16", "vu", rows, columns, 5, 4);
        run(&b);
        b.buffers[1] = lists;
        b.buffers[2] = lists + N + 64;
        struct ArrowSchema item = {.format = "l", .name = "item"}, *items[1] = {&item};
        const void *item_buffers[2] = {NULL, ints};
        struct ArrowArray values = {.length = N + 64, .n_buffers = 2, .buffers = item_buffers},
                          *children[1] = {&values};
        init(&b, "list view of 1 int64", "+vl", rows, columns, 5, 3);
        b.field.n_children = b.column.n_children = 1;
        b.field.children = items;
        b.column.children = children;
        run(&b);
    }
    sk_free(ints);
    sk_free(offs);
    sk_free(views);
    sk_free(lists);
    sk_free(valid);
    sk_free(chars);
    return 0;
}
