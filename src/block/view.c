/* view.c - reads blocks in place: the facts in the header (sk_block_info), and an ArrowArray tree
 * over the bytes.
 *
 * No data is copied: the exported structs point into the block. They are one allocation with a
 * count of live structs, since the consumer may move children out and release them in any order, on
 * any thread; the last release calls the owner's release. Invariant: no struct is built before
 * check.c has accepted the block. Cost: ~50 ns a column to check, ~30 to build, one malloc each for
 * array and schema. */
#include <stdatomic.h>

#include "block/block_int.h"

/* Head of the allocation of one exported tree, shared by all its structs; structs, child pointers
 * and buffer pointers follow. */
struct hold {
    _Atomic uint64_t live;
    struct sk_block_owner owner;
};

struct build {
    struct hold *hold;
    const uint8_t *block, *record;    /* record: the next schema record */
    const struct sk_block_node *node; /* the next node */
    const struct sk_block_span *spans;
    struct ArrowArray *arrays;
    struct ArrowArray **children;
    const void **buffers;
};

/* Address of all empty buffers, because some readers need a 64-byte aligned address even for no
 * bytes. */
static const uint8_t nothing[64] __attribute__((aligned(64)));

static void array_release(struct ArrowArray *a);

/* Marks a struct and all children that it still owns as released; returns the number of these
 * structs. */
static uint64_t drop(struct ArrowArray *a, const struct hold *hold) {
    uint64_t n = 1;
    for (int64_t i = -1; i < a->n_children; i++) {
        struct ArrowArray *c = i < 0 ? a->dictionary : a->children[i];
        if (!c || !c->release) continue;
        if (c->release == array_release && c->private_data == hold) n += drop(c, hold);
        else c->release(c); /* a consumer has put a struct of its own in this child's place */
    }
    a->release = NULL;
    return n;
}

static void array_release(struct ArrowArray *a) {
    struct hold *hold = a->private_data;
    uint64_t n = drop(a, hold);
    if (atomic_fetch_sub_explicit(&hold->live, n, memory_order_acq_rel) != n) return;
    struct sk_block_owner owner = hold->owner;
    sk_free(hold);
    if (owner.release) owner.release(owner.ctx);
}

static void fill_buffers(struct build *b, const struct sk_block_node *node, bool validity) {
    const struct sk_block_span *s = b->spans + node->first_buffer;
    for (uint32_t i = 0; i < node->n_buffers; i++)
        *b->buffers++ = s[i].len ? b->block + s[i].off : nothing;
    if (validity && !s[0].len) b->buffers[-(ptrdiff_t)node->n_buffers] = NULL;
}

static void fill(struct build *b, struct ArrowArray *a) {
    const struct sk_block_field *f = (const void *)b->record;
    const struct sk_block_node *node = b->node++;
    const char *format = (const char *)(f + 1);
    b->record += f->rec_len;
    *a = (struct ArrowArray){
        .length = node->length,
        .null_count = node->null_count,
        .n_buffers = node->n_buffers,
        .buffers = node->n_buffers ? b->buffers : NULL,
        .n_children = f->n_children,
        .children = f->n_children ? b->children : NULL,
        .release = array_release,
        .private_data = b->hold,
    };
    if (node->n_buffers) fill_buffers(b, node, !(format[0] == '+' && format[1] == 'u'));
    b->children += f->n_children;
    for (uint32_t i = 0; i < f->n_children; i++) {
        a->children[i] = b->arrays++;
        fill(b, a->children[i]);
    }
    if (f->has_dictionary) {
        a->dictionary = b->arrays++;
        fill(b, a->dictionary);
    }
}

static sk_rc build_array(const uint8_t *p, struct sk_block_owner owner, struct ArrowArray *out,
                         struct sk_err *err) {
    const struct sk_block_hdr *h = (const void *)p;
    size_t head = (size_t)SK_ALIGN(sizeof(struct hold), 16),
           arrays = (h->n_nodes - 1u) * sizeof(struct ArrowArray);
    size_t children = h->n_nodes * sizeof(struct ArrowArray *),
           buffers = h->n_buffers * sizeof(void *);
    uint8_t *m = sk_alloc(SK_TAG_BLOCK, head + arrays + children + buffers);
    if (!m) return SK_ERR(err, SK_ENOMEM, "export block: no memory for %u arrays", h->n_nodes);
    struct build b = {
        .hold = (void *)m,
        .block = p,
        .record = p + h->schema_off,
        .node = (const void *)(p + h->nodes_off),
        .spans = (const void *)(p + h->buffers_off),
        .arrays = (void *)(m + head),
        .children = (void *)(m + head + arrays),
        .buffers = (void *)(m + head + arrays + children),
    };
    atomic_init(&b.hold->live, h->n_nodes);
    b.hold->owner = owner;
    fill(&b, out);
    return SK_OK;
}

/* Cuts the rows in the columns and not in the top struct: pyarrow refuses a batch with an
 * offset. */
static void cut_rows(struct ArrowArray *a, int64_t row0, int64_t n) {
    a->length = n;
    /* pyarrow treats the buffers of a batch without rows as empty, so an offset would be past their
     * end */
    if (!n) row0 = 0;
    for (int64_t i = 0; i < a->n_children; i++) {
        struct ArrowArray *c = a->children[i];
        if (c->null_count && n != c->length) c->null_count = c->null_count == c->length ? n : -1;
        c->offset = row0;
        c->length = n;
    }
}

static sk_rc export_block(const uint8_t *p, size_t n, uint64_t row0, uint64_t n_rows,
                          struct sk_block_owner owner, struct ArrowSchema *schema,
                          struct ArrowArray *array, struct sk_err *err) {
    struct ArrowSchema s;
    SK_TRY(sk_block_check(p, n, false, err));
    const struct sk_block_hdr *h = (const void *)p;
    if (row0 > h->n_rows || (n_rows != UINT64_MAX && n_rows > h->n_rows - row0))
        return SK_ERR(err, SK_EINVAL, "export block: rows %llu + %llu of %llu",
                      (unsigned long long)row0, (unsigned long long)n_rows,
                      (unsigned long long)h->n_rows);
    SK_TRY(sk_block_schema_build(p + h->schema_off, h->schema_len, h->n_nodes, &s, err));
    sk_rc rc = build_array(p, owner, array, err);
    if (rc) {
        s.release(&s);
        return rc;
    }
    if (n_rows == UINT64_MAX) n_rows = h->n_rows - row0;
    if (n_rows != h->n_rows) cut_rows(array, (int64_t)row0, (int64_t)n_rows);
    *schema = s;
    return SK_OK;
}

sk_rc sk_block_export(const uint8_t *p, size_t n, uint64_t row0, uint64_t n_rows,
                      struct sk_block_owner owner, struct ArrowSchema *schema,
                      struct ArrowArray *array, struct sk_err *err) {
    sk_rc rc = export_block(p, n, row0, n_rows, owner, schema, array, err);
    if (rc && owner.release) owner.release(owner.ctx);
    return rc;
}

sk_rc sk_block_export_schema(const uint8_t *p, size_t n, struct ArrowSchema *schema,
                             struct sk_err *err) {
    SK_TRY(sk_block_check(p, n, false, err));
    const struct sk_block_hdr *h = (const void *)p;
    return sk_block_schema_build(p + h->schema_off, h->schema_len, h->n_nodes, schema, err);
}

sk_rc sk_block_info(const uint8_t *p, size_t n, struct sk_block_info *out, struct sk_err *err) {
    SK_TRY(sk_block_check(p, n, false, err));
    const struct sk_block_hdr *h = (const void *)p;
    *out = (struct sk_block_info){
        .n_rows = h->n_rows, .n_columns = h->n_columns, .total_bytes = h->total_bytes};
    return SK_OK;
}

sk_rc sk_block_validate(const uint8_t *p, size_t n, struct sk_err *err) {
    return sk_block_check(p, n, true, err);
}
