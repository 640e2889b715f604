/* block_int.h - inside the block layer only: the bytes of a block, parsed Arrow types, row sets,
 * the encoding plan.
 *
 * measure.c walks schema and array together once and turns every output buffer into one `struct
 * sk_block_op`; write.c replays them. Row sets are what makes slicing uniform: a node is always
 * encoded for a set of its rows, nearly always one range. */
#ifndef SK_BLOCK_INT_H
#define SK_BLOCK_INT_H

#include "base/mem.h"
#include "block/block.h"

/* ---- the bytes ---- */

#define SK_BLOCK_MAGIC 0x31424B53u /* "SKB1" */
#define SK_BLOCK_VERSION 1u

struct sk_block_hdr {
    uint32_t magic;
    uint16_t version, flags; /* flags: 0 */
    uint64_t n_rows, n_columns, total_bytes;
    uint32_t n_nodes, n_buffers;
    uint64_t schema_off, schema_len, nodes_off, buffers_off, data_off;
    uint64_t hash; /* 0: none; the store and the files checksum whole objects */
    uint64_t reserved;
};
_Static_assert(sizeof(struct sk_block_hdr) == 96, "layout");

/* Followed by format, name (both NUL-terminated, the length does not count the NUL), metadata; then
 * zeros up to 8 bytes. */
struct sk_block_field {
    uint64_t flags;
    /* rec_len: the whole record; metadata_len UINT32_MAX: none */
    uint32_t rec_len, n_children, format_len, name_len, metadata_len;
    uint32_t has_dictionary;
};
_Static_assert(sizeof(struct sk_block_field) == 32, "layout");
#define SK_BLOCK_NO_METADATA UINT32_MAX

struct sk_block_node {
    int64_t length, null_count;
    uint32_t n_buffers, first_buffer;
};
_Static_assert(sizeof(struct sk_block_node) == 24, "layout");

struct sk_block_span { /* row of the buffer table */
    uint64_t off, len;
};

/* Readers rely on a view buffer being addressable by int32. Tests make it small. */
#ifndef SK_BLOCK_VIEW_CHUNK
#define SK_BLOCK_VIEW_CHUNK INT32_MAX
#endif
#define SK_BLOCK_VIEW_INLINE 12

/* ---- types (type.c) ---- */

enum sk_block_kind {
    SK_BLOCK_NULL,
    SK_BLOCK_BOOL,
    SK_BLOCK_FIXED,      /* width bytes a value */
    SK_BLOCK_VAR,        /* utf8, binary; width of an offset */
    SK_BLOCK_VIEW,       /* utf8 view, binary view */
    SK_BLOCK_LIST,       /* list, large list, map; width of an offset */
    SK_BLOCK_LIST_VIEW,  /* width of an offset */
    SK_BLOCK_FIXED_LIST, /* width values a slot */
    SK_BLOCK_STRUCT,
    SK_BLOCK_SPARSE,
    SK_BLOCK_DENSE,
    SK_BLOCK_RUNS,
};

struct sk_block_type {
    enum sk_block_kind kind;
    int32_t width;      /* see kind */
    int32_t n_buffers;  /* SK_BLOCK_VIEW: at least */
    int32_t n_children; /* -1: any */
    bool validity;      /* buffer 0 is a validity bitmap */
    bool is_map;
    char index; /* integers only: the format letter; may be a dictionary's or a run's index */
};

/* false: not a format of the C Data Interface. */
bool sk_block_type_parse(const char *format, struct sk_block_type *out);
/* Child index by type id, 0xFF for ids the union does not have. The format has been parsed
 * before. */
void sk_block_union_map(const char *format, uint8_t map[256]);
/* Length of a metadata blob (reading at most `limit` bytes of it); false: negative or too long. */
bool sk_block_metadata_len(const char *metadata, uint64_t limit, uint64_t *out);

/* ---- schema (schema.c) ---- */

struct sk_block_shape {
    /* buffers: enough unless a view column needs more than one data buffer */
    uint32_t n_nodes, n_buffers;
    uint64_t schema_len;
    uint32_t crc; /* of all that a schema says */
};
/* Checks the schema tree and sizes its section. */
sk_rc sk_block_schema_measure(const struct ArrowSchema *s, struct sk_block_shape *shape,
                              struct sk_err *err) SK_MUST_USE;
uint8_t *sk_block_schema_write(const struct ArrowSchema *s, uint8_t *dst); /* returns the end */
/* The section has been validated. */
sk_rc sk_block_schema_build(const uint8_t *section, uint64_t len, uint32_t n_nodes,
                            struct ArrowSchema *out, struct sk_err *err) SK_MUST_USE;

/* ---- row sets (sets.c) ---- */

struct sk_block_range {
    int64_t at, n;
};
/* Rows to encode, in this order: ranges of rows of a node of one batch, of several batches, or
 * single rows of several. */
struct sk_block_set {
    int64_t total;
    size_t n_ranges;
    bool nulls;                        /* rows of null are among them */
    struct sk_block_range one;         /* used when n_ranges is 1 */
    const struct sk_block_range *many; /* else */
    /* the batch of each range, SK_ROW_NONE: rows of null; NULL: all of batch 0 */
    const uint32_t *from;
    const struct sk_row_at *places; /* not NULL: these instead of ranges, n_ranges of them */
    /* with places: where each batch's row 0 lies in the node, and how many rows it has */
    const struct sk_block_range *span;
};
static inline const struct sk_block_range *sk_block_ranges(const struct sk_block_set *s) {
    return s->n_ranges > 1 ? s->many : &s->one;
}

struct sk_block_piece {
    int64_t at, n;
    uint32_t from;
};
static inline struct sk_block_piece sk_block_piece(const struct sk_block_set *s, size_t i) {
    if (s->places) {
        struct sk_row_at p = s->places[i];
        return (struct sk_block_piece){p.run == SK_ROW_NONE ? 0 : s->span[p.run].at + p.row, 1,
                                       p.run};
    }
    const struct sk_block_range *r = sk_block_ranges(s) + i;
    return (struct sk_block_piece){r->at, r->n, s->from ? s->from[i] : 0};
}

/* memory beyond the plan's own piece; only for unions, list-views, many view buffers, rows of
 * several batches */
struct sk_block_extra {
    struct sk_block_extra *next;
    uint64_t pad; /* keeps what follows 16-byte aligned */
};
void *sk_block_extra_alloc(struct sk_block_extra **list, size_t n); /* NULL: no memory */
void sk_block_extras_free(struct sk_block_extra *list);

/* collects ranges; merges neighbours, so the usual outcome is one range and no memory */
struct sk_block_builder {
    struct sk_block_set set;
    /* not yet in a list: [cap] ranges; their batches, once one is not of batch 0 */
    struct sk_block_extra *mem, *from;
    size_t cap;
    bool only_total; /* no ranges are kept */
};
/* false: no memory, or more rows than a number holds. */
bool sk_block_builder_push(struct sk_block_builder *b, uint32_t from, int64_t at, int64_t n);
/* Its memory is the list's from now on; to be called after a failure, too. */
struct sk_block_set sk_block_builder_done(struct sk_block_builder *b, struct sk_block_extra **list);

/* ---- the plan ---- */

enum sk_block_op_kind {
    SK_BLOCK_OP_ABSENT,
    SK_BLOCK_OP_COPY,         /* src, width; with places src is of the batch's row 0 */
    SK_BLOCK_OP_BITS,         /* src; NULL: ones. Rows of null are zeros */
    SK_BLOCK_OP_OFFSETS,      /* src: offsets, width; rebased */
    SK_BLOCK_OP_VAR_DATA,     /* src: offsets, width; aux: bytes */
    SK_BLOCK_OP_VIEWS,        /* array; src: validity or NULL */
    SK_BLOCK_OP_VIEW_DATA,    /* same; arg: which data buffer */
    SK_BLOCK_OP_VIEW_SIZES,   /* arg: number of data buffers, they are the ops right before */
    SK_BLOCK_OP_LIST_OFFSETS, /* list-view; src: sizes, width; aux: validity or NULL */
    SK_BLOCK_OP_LIST_SIZES,   /* same */
    SK_BLOCK_OP_TYPES,        /* src: type ids; rows of null are of type arg */
    SK_BLOCK_OP_DENSE,        /* src: type ids; arg as there */
    SK_BLOCK_OP_RUN_ENDS,     /* src: run ends, width, n: number of runs there; set: rows */
    /* src: codes, width; aux: their numbers (uint32_t) among the values of all batches, n of
     * them */
    SK_BLOCK_OP_CODES,
};

struct sk_block_input { /* what an op reads of one batch */
    const void *src, *aux;
    const struct ArrowArray *array;
    int64_t n;
};
/* one output buffer; rows of `set` are absolute: the array's offset is in them */
struct sk_block_op {
    enum sk_block_op_kind kind;
    int32_t width;
    int64_t arg;
    uint64_t off, len;
    struct sk_block_input one;         /* of batch 0 */
    const struct sk_block_input *many; /* not NULL: of each batch */
    struct sk_block_set set;
};
static inline const struct sk_block_input *sk_block_inputs(const struct sk_block_op *op) {
    return op->many ? op->many : &op->one;
}

/* One node of the schema in each of the batches that rows come from. */
struct sk_block_nodes {
    const struct ArrowArray *const *a;
    uint32_t n;
};

/* ---- dictionaries of several batches (unify.c) ---- */

/* The values of all dictionaries, each once where they can be compared: `values` is the set of rows
 * of `dicts` that the whole's dictionary has, map[b][code]
 * the new code of a code of batch b. *same: all dictionaries are equal, and map is not filled.
 * Memory is put on the list. */
struct sk_block_unified {
    bool same;
    struct sk_block_set values;
    const uint32_t **map;
};
sk_rc sk_block_unify(const struct sk_block_type *t, struct sk_block_nodes dicts,
                     struct sk_block_extra **list, struct sk_block_unified *out,
                     struct sk_err *err) SK_MUST_USE;

struct sk_block_plan {
    const struct ArrowSchema *schema;
    struct sk_block_hdr hdr;
    struct sk_block_node *nodes;
    struct sk_block_op *ops;
    uint32_t cap_ops;
    struct sk_block_extra *extras;
    uint64_t data_bytes;
    uint32_t schema_crc;
    /* of a joined plan; its ops say kind, width and place, those of the parts what to write */
    size_t n_parts;
    const struct sk_block_plan **parts;
};

struct sk_block_plan *sk_block_plan_create(const struct ArrowSchema *schema, uint32_t n_nodes,
                                           uint32_t n_buffers, size_t n_parts);
/* Places the sections and buffers; false: the size does not fit. */
bool sk_block_plan_place(struct sk_block_plan *p, uint64_t schema_len);

/* ---- the walk (measure.c) ---- */

struct sk_block_walk {
    struct sk_block_plan *plan; /* NULL: only count */
    const struct ArrowSchema *root;
    struct sk_block_extra *extras;
    struct sk_err *err;
    uint64_t data_bytes;
};
#define SK_BLOCK_NO_MEMORY(w) SK_ERR((w)->err, SK_ENOMEM, "no memory for the encoding plan")
#define SK_BLOCK_BAD(w, ...) SK_ERR((w)->err, SK_EINVAL, __VA_ARGS__)

sk_rc sk_block_visit(struct sk_block_walk *w, const struct ArrowSchema *s, struct sk_block_nodes in,
                     const struct sk_block_set *rows) SK_MUST_USE;
/* Child i of s, whose arrays are `in`. */
sk_rc sk_block_visit_child(struct sk_block_walk *w, const struct ArrowSchema *s, int64_t i,
                           struct sk_block_nodes in, const struct sk_block_set *rows) SK_MUST_USE;
sk_rc sk_block_put(struct sk_block_walk *w, struct sk_block_op op) SK_MUST_USE;
/* NULL when only counting. There is a place for each field of the schema. */
struct sk_block_node *sk_block_put_node(struct sk_block_walk *w, int64_t length, int32_t n_buffers);

/* ---- writing (write.c) ---- */

void sk_block_write_op(const struct sk_block_op *op, uint8_t *d);
void sk_block_write_bits(const struct sk_block_op *op, uint8_t *d, int64_t at);
void sk_block_write_ones(uint8_t *d, int64_t at, int64_t n);
/* returns the last one */
uint64_t sk_block_write_offsets(const struct sk_block_op *op, uint8_t *d, uint64_t start);
/* join.c */
void sk_block_write_joined(const struct sk_block_plan *plan, uint32_t j, uint8_t *d);

/* Where the next value of a view column goes: the one rule that measure and write share. */
struct sk_block_chunk {
    int64_t index, used;
};
static inline void sk_block_chunk_place(struct sk_block_chunk *c, int64_t len) {
    /* the value is at used - len of buffer index */
    if (c->used && len > SK_BLOCK_VIEW_CHUNK - c->used) {
        c->index++;
        c->used = 0;
    }
    c->used += len;
}

/* ---- small things ---- */

/* Inputs may be misaligned (a slice of some file), so values are loaded by memcpy. */
static inline int32_t sk_block_i32(const void *p, int64_t i) {
    int32_t v;
    memcpy(&v, (const uint8_t *)p + i * 4, 4);
    return v;
}
static inline int64_t sk_block_i64(const void *p, int64_t i) {
    int64_t v;
    memcpy(&v, (const uint8_t *)p + i * 8, 8);
    return v;
}
static inline int64_t sk_block_int(const void *p, int32_t width, int64_t i) {
    /* signed, width 2, 4 or 8 */
    if (width == 4) return sk_block_i32(p, i);
    if (width == 8) return sk_block_i64(p, i);
    int16_t v;
    memcpy(&v, (const uint8_t *)p + i * 2, 2);
    return v;
}
static inline bool sk_block_bit(const uint8_t *p, int64_t i) { return (p[i >> 3] >> (i & 7)) & 1; }

/* First run that ends after `pos`; n when none. */
static inline int64_t sk_block_run_find(const void *ends, int32_t width, int64_t n, int64_t pos) {
    int64_t lo = 0, hi = n;
    while (lo < hi) {
        int64_t mid = lo + (hi - lo) / 2;
        if (sk_block_int(ends, width, mid) > pos) hi = mid;
        else lo = mid + 1;
    }
    return lo;
}

/* ---- reading (check.c, values.c) ---- */

struct sk_block_elem { /* one node of a block that is being checked; all of it borrowed */
    struct sk_block_type type;
    const char *format, *name;
    const struct sk_block_field *field;
    const struct sk_block_node *node;
    const struct sk_block_span *spans; /* node->n_buffers of them */
    const uint8_t *block;
};
static inline const void *sk_block_elem_buffer(const struct sk_block_elem *e, uint32_t i) {
    return e->block + e->spans[i].off;
}

/* Header and tables; with `values` also what sk_block_validate promises. After it readers of the
 * block check nothing. */
sk_rc sk_block_check(const uint8_t *p, size_t n, bool values, struct sk_err *err) SK_MUST_USE;
/* NULL: fine; else what is wrong (static string). child_length[i]: rows of child i, [0] of the
 * dictionary; read for list-view, dense union and dictionary only. */
const char *sk_block_values_check(const struct sk_block_elem *e, const int64_t *child_length);

/* ---- bitmaps (bits.c) ---- */

/* n bits of src from bit `from`, to bit `at` of dst; what dst holds past `at` is overwritten or
 * left, never kept within the last byte. */
void sk_block_bits_append(uint8_t *dst, int64_t at, const uint8_t *src, int64_t from, int64_t n);
int64_t sk_block_bits_count(const uint8_t *src, int64_t from, int64_t n); /* ones */

#endif
