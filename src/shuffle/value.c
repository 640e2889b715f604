/* value.c - values: planned blocks one behind the other, each at a multiple of 64 bytes. */
#include "shuffle/work_int.h"

struct sk_value *sk_value_create(enum sk_value_kind kind, uint32_t n_blocks, uint32_t n_parts) {
    struct sk_value *v = sk_calloc(SK_TAG_KERNEL, sizeof *v);
    if (!v) return NULL;
    v->kind = kind;
    v->n = n_parts;
    v->blocks = sk_calloc(SK_TAG_KERNEL, n_blocks * sizeof *v->blocks);
    v->at = sk_alloc(SK_TAG_KERNEL, n_blocks * sizeof *v->at);
    v->parts = sk_calloc(SK_TAG_KERNEL, n_parts * sizeof *v->parts);
    if (v->blocks && v->at && v->parts) return v;
    sk_value_destroy(v);
    return NULL;
}

void sk_value_add(struct sk_value *v, struct sk_block_plan *plan) {
    struct sk_block_sizes size = sk_block_plan_sizes(plan);
    v->blocks[v->n_blocks] = plan;
    v->at[v->n_blocks++] = v->size;
    v->size +=
        v->kind == SK_VALUE_BLOCK ? size.total_bytes : SK_ALIGN(size.total_bytes, SK_BLOCK_ALIGN);
    v->rows += size.n_rows;
    v->bytes += size.data_bytes;
    v->schema = size.schema_crc;
}

void sk_value_write(const struct sk_value *v, uint8_t *dst) {
    for (uint32_t i = 0; i < v->n_blocks; i++) {
        uint64_t n = sk_block_plan_sizes(v->blocks[i]).total_bytes,
                 end = i + 1 < v->n_blocks ? v->at[i + 1] : v->size;
        sk_block_write(v->blocks[i], dst + v->at[i]);
        memset(dst + v->at[i] + n, 0, (size_t)(end - v->at[i] - n));
    }
}

void sk_value_destroy(struct sk_value *v) {
    if (!v) return;
    for (uint32_t i = 0; v->blocks && i < v->n_blocks; i++) sk_block_plan_free(v->blocks[i]);
    for (size_t i = 0; i < SK_COUNT(v->mem); i++) sk_free(v->mem[i]);
    sk_free(v->blocks);
    sk_free(v->at);
    sk_free(v->parts);
    sk_free(v);
}
