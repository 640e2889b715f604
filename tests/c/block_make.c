/* block_make.c - see block_make.h. */
#include "block_make.h"

#include "base/mem.h"
#include "test.h"

void make_leaf(struct made *m, const char *format, const char *name, int64_t length, int64_t offset,
               int n_buffers, const void *const *buffers) {
    memset(m, 0, sizeof *m);
    for (int i = 0; i < n_buffers; i++) m->buffers[i] = buffers[i];
    m->schema = (struct ArrowSchema){.format = format, .name = name, .flags = ARROW_FLAG_NULLABLE};
    m->array = (struct ArrowArray){.length = length,
                                   .offset = offset,
                                   .null_count = -1,
                                   .n_buffers = n_buffers,
                                   .buffers = m->buffers};
}

void make_child(struct made *m, struct made *child) {
    int64_t i = m->schema.n_children++;
    m->array.n_children++;
    m->schema_children[i] = &child->schema;
    m->array_children[i] = &child->array;
    m->schema.children = m->schema_children;
    m->array.children = m->array_children;
}

void make_dictionary(struct made *m, struct made *values) {
    m->schema.dictionary = &values->schema;
    m->array.dictionary = &values->array;
}

void make_batch(struct made *m, int64_t length) { MAKE_LEAF(m, "+s", NULL, length, 0, NULL); }

struct block make_block(const struct made *batch) {
    struct sk_err err = {.code = 0};
    struct sk_block_plan *plan = NULL;
    struct sk_block_info info;
    uint64_t size = 0, bytes = 0;
    CHECK_OK_ERR(sk_block_measure(&batch->schema, &batch->array, &plan, &size, &err), &err);
    struct block b = {sk_alloc_aligned(SK_TAG_TEST, SK_BLOCK_ALIGN, size), size};
    CHECK(b.p != NULL);
    memset(b.p, 0xEE, size);
    sk_block_write(plan, b.p);
    sk_block_plan_free(plan);
    CHECK_OK_ERR(sk_block_validate(b.p, b.n, &err), &err);
    CHECK_OK_ERR(sk_block_info(b.p, b.n, &info, &err), &err);
    CHECK_EQ(info.total_bytes, size);
    CHECK_EQ(info.n_rows, batch->array.length);
    CHECK_OK_ERR(sk_block_nbytes(&batch->schema, &batch->array, &bytes, &err), &err);
    CHECK_LT(bytes, size);
    return b;
}

void free_block(struct block *b) {
    sk_free(b->p);
    *b = (struct block){NULL, 0};
}
