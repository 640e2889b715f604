/* block_int.h - inside the block layer: the bytes of a block, parsed Arrow types, row sets, the
 * plan.
 *
 * measure.c walks schema and array together once and turns every output buffer into one `struct
 * sk_block_op`; write.c executes the ops. A node is always planned for a set of its rows, which is
 * nearly always one range; so slices need no code of their own. */
#ifndef SK_BLOCK_INT_H
#define SK_BLOCK_INT_H

#include "base/mem.h"
#include "block/block.h"

/* ---- the bytes of a block ---- */

#define SK_BLOCK_MAGIC 0x31424B53u /* "SKB1" */
#define SK_BLOCK_VERSION 1u

struct sk_block_hdr {
    uint32_t magic;
    uint16_t version, flags; /* flags: always 0 */
    uint64_t n_rows, n_columns, total_bytes;
    uint32_t n_nodes, n_buffers;
    uint64_t schema_off, schema_len, nodes_off, buffers_off, data_off;
    uint64_t hash; /* always 0, because the store and the files have checksums of whole objects */
    uint64_t reserved;
};
_Static_assert(sizeof(struct sk_block_hdr) == 96, "layout");

/* A field of the schema section. Format, name (both NUL-terminated; the lengths do not count the
 * NUL) and metadata follow, then zeros up to a multiple of 8 bytes. */
struct sk_block_field {
    uint64_t flags;
    /* rec_len: length of the whole record; metadata_len: UINT32_MAX means no metadata. */
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

struct sk_block_span { /* entry of the buffer table */
    uint64_t off, len;
};

/* Most bytes in one data buffer of a view column, since views address it by int32. Tests make this
 * small. */
#ifndef SK_BLOCK_VIEW_CHUNK
#define SK_BLOCK_VIEW_CHUNK INT32_MAX
#endif
#define SK_BLOCK_VIEW_INLINE 12

/* ---- types (type.c) ---- */

enum sk_block_kind {
    SK_BLOCK_NULL,
    SK_BLOCK_BOOL,
    SK_BLOCK_FIXED,      /* `width` bytes a value */
    SK_BLOCK_VAR,        /* utf8, binary; width of an offset in bytes */
    SK_BLOCK_VIEW,       /* utf8 view, binary view */
    SK_BLOCK_LIST,       /* list, large list, map; width of an offset in bytes */
    SK_BLOCK_LIST_VIEW,  /* width of an offset in bytes */
    SK_BLOCK_FIXED_LIST, /* width: values in a slot */
    SK_BLOCK_STRUCT,
    SK_BLOCK_SPARSE,
    SK_BLOCK_DENSE,
    SK_BLOCK_RUNS,
};

struct sk_block_type {
    enum sk_block_kind kind;
    int32_t width;      /* meaning depends on the kind */
    int32_t n_buffers;  /* number of buffers; SK_BLOCK_VIEW: the least number */
    int32_t n_children; /* -1: any number */
    bool validity;      /* true: buffer 0 is a validity bitmap */
    bool is_map;
    /* the format's letter if the type is an integer, which may be the index of a dictionary or a
     * run end; else 0 */
    char index;
};

/* Parses a format of the C Data Interface; false: the text is no such format. */
bool sk_block_type_parse(const char *format, struct sk_block_type *out);
/* Fills map[id] with the index of the child for each type id, 0xFF for ids that the union does not
 * have. The format has to be parsed before. */
void sk_block_union_map(const char *format, uint8_t map[256]);
/* Finds the length of a metadata blob, reading at most `limit` bytes of it; false: a length in the
 * blob is negative, or the blob is longer than the limit. */
bool sk_block_metadata_len(const char *metadata, uint64_t limit, uint64_t *out);

/* ---- schema (schema.c) ---- */

struct sk_block_shape {
    /* Most nodes and buffers of a plan; only view columns may have more buffers, since they may
     * need several data buffers. */
    uint32_t n_nodes, n_buffers;
    uint64_t schema_len;
    uint32_t crc; /* checksum of names, types, nullability and metadata of the schema */
};
/* Checks the schema tree, and computes the size of its section. */
sk_rc sk_block_schema_measure(const struct ArrowSchema *s, struct sk_block_shape *shape,
                              struct sk_err *err) SK_MUST_USE;
/* Writes the schema section; returns the end of the written bytes. */
uint8_t *sk_block_schema_write(const struct ArrowSchema *s, uint8_t *dst);
/* Builds an ArrowSchema from a schema section that has been validated. */
sk_rc sk_block_schema_build(const uint8_t *section, uint64_t len, uint32_t n_nodes,
                            struct ArrowSchema *out, struct sk_err *err) SK_MUST_USE;

/* ---- row sets (sets.c) ---- */

struct sk_block_range {
    int64_t at, n;
};
/* A set of rows to be written, in order: ranges of rows of a node of one batch, ranges of several
 * batches, or single rows (places) of several batches. */
struct sk_block_set {
    int64_t total;
    size_t n_ranges;
    bool nulls;                        /* true: some rows are rows of nulls */
    struct sk_block_range one;         /* the range when n_ranges is 1 */
    const struct sk_block_range *many; /* the ranges if n_ranges is not 1 */
    /* The batch of each range, SK_ROW_NONE for rows of nulls; NULL: all ranges are of batch 0. */
    const uint32_t *from;
    const struct sk_row_at *places; /* not NULL: n_ranges single rows instead of ranges */
    /* with places: for each batch the index of its row 0 in the node, and its number of rows */
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

/* Memory beside the plan's own allocation; needed only for unions, list-views, many view buffers,
 * and rows of several batches. */
struct sk_block_extra {
    struct sk_block_extra *next;
    uint64_t pad; /* keeps the following data 16-byte aligned */
};
/* allocates n bytes, which belong to the list; NULL: out of memory */
void *sk_block_extra_alloc(struct sk_block_extra **list, size_t n);
void sk_block_extras_free(struct sk_block_extra *list);

/* Collects ranges of rows and merges neighbouring ones; the usual result, one range, needs no
 * memory. */
struct sk_block_builder {
    struct sk_block_set set;
    /* Arrays of [cap] ranges and of their batches; `from` is allocated at the first range that is
     * not of batch 0. Both belong to the builder. */
    struct sk_block_extra *mem, *from;
    size_t cap;
    bool only_total; /* true: rows are only counted, ranges are not stored */
};
/* Adds n rows from row `at` of batch `from` on. false: out of memory, or the number of rows
 * overflows. */
bool sk_block_builder_push(struct sk_block_builder *b, uint32_t from, int64_t at, int64_t n);
/* Returns the set, and moves the builder's memory to the list. To be called after a failure,
 * too. */
struct sk_block_set sk_block_builder_done(struct sk_block_builder *b, struct sk_block_extra **list);

/* ---- the plan of a block ---- */

enum sk_block_op_kind {
    SK_BLOCK_OP_ABSENT,
    /* copies src, `width` bytes a row; with places, src points to row 0 of the batch */
    SK_BLOCK_OP_COPY,
    SK_BLOCK_OP_BITS, /* copies bits of bitmap src (NULL: all ones); rows of nulls get zeros */
    /* src: offsets of `width` bytes, which are written minus the first one */
    SK_BLOCK_OP_OFFSETS,
    SK_BLOCK_OP_VAR_DATA, /* src: offsets of `width` bytes; aux: the bytes to which they refer */
    SK_BLOCK_OP_VIEWS,    /* views, read from `array`; src: validity bitmap or NULL */
    /* a data buffer of views, read like SK_BLOCK_OP_VIEWS; arg: number of the data buffer */
    SK_BLOCK_OP_VIEW_DATA,
    /* sizes of data buffers; arg: their number; their ops come right before this one */
    SK_BLOCK_OP_VIEW_SIZES,
    /* offsets of a list-view; src: its sizes, of `width` bytes; aux: validity bitmap or NULL */
    SK_BLOCK_OP_LIST_OFFSETS,
    SK_BLOCK_OP_LIST_SIZES, /* sizes of a list-view; src and aux as above */
    SK_BLOCK_OP_TYPES,      /* src: type ids of a union; rows of nulls get the type id `arg` */
    SK_BLOCK_OP_DENSE,      /* like SK_BLOCK_OP_TYPES, but writes each row's offset in its child */
    SK_BLOCK_OP_RUN_ENDS,   /* src: run ends of `width` bytes, n of them; set: the rows */
    /* src: codes of `width` bytes; aux: for each code the code in the unified dictionary
     * (uint32_t); n: number of entries in aux */
    SK_BLOCK_OP_CODES,
};

struct sk_block_input { /* the memory that an op reads of one batch */
    const void *src, *aux;
    const struct ArrowArray *array;
    int64_t n;
};
/* One output buffer. The rows of `set` are counted from the start of the buffers, so they include
 * the array's offset. */
struct sk_block_op {
    enum sk_block_op_kind kind;
    int32_t width;
    int64_t arg;
    uint64_t off, len;
    struct sk_block_input one;         /* input of batch 0 */
    const struct sk_block_input *many; /* not NULL: the inputs of all batches */
    struct sk_block_set set;
};
static inline const struct sk_block_input *sk_block_inputs(const struct sk_block_op *op) {
    return op->many ? op->many : &op->one;
}

/* One node of the schema, in each of the n batches from which rows come. */
struct sk_block_nodes {
    const struct ArrowArray *const *a;
    uint32_t n;
};

/* ---- dictionaries of several batches (unify.c) ---- */

/* The union of several dictionaries. `values`: the rows of `dicts` that the unified dictionary
 * consists of, each value once if values can be compared; map[b][code]: the new code for a code of
 * batch b. same: all dictionaries are equal, and map is not filled. The memory is put on the
 * list. */
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
    /* For a joined plan (join.c): this plan's ops give kind, width and place of each buffer; the
     * ops of the plans in `parts` give the content. */
    size_t n_parts;
    const struct sk_block_plan **parts;
};

struct sk_block_plan *sk_block_plan_create(const struct ArrowSchema *schema, uint32_t n_nodes,
                                           uint32_t n_buffers, size_t n_parts);
/* Computes the offsets of sections and buffers; false: the total size overflows. */
bool sk_block_plan_place(struct sk_block_plan *p, uint64_t schema_len);

/* ---- the walk over schema and arrays (measure.c) ---- */

struct sk_block_walk {
    struct sk_block_plan *plan; /* NULL: the walk only counts bytes */
    const struct ArrowSchema *root;
    struct sk_block_extra *extras;
    struct sk_err *err;
    uint64_t data_bytes;
};
#define SK_BLOCK_NO_MEMORY(w) SK_ERR((w)->err, SK_ENOMEM, "no memory for the encoding plan")
#define SK_BLOCK_BAD(w, ...) SK_ERR((w)->err, SK_EINVAL, __VA_ARGS__)

sk_rc sk_block_visit(struct sk_block_walk *w, const struct ArrowSchema *s, struct sk_block_nodes in,
                     const struct sk_block_set *rows) SK_MUST_USE;
/* Plans the rows of child i of field s; `in`: the arrays of s. */
sk_rc sk_block_visit_child(struct sk_block_walk *w, const struct ArrowSchema *s, int64_t i,
                           struct sk_block_nodes in, const struct sk_block_set *rows) SK_MUST_USE;
sk_rc sk_block_put(struct sk_block_walk *w, struct sk_block_op op) SK_MUST_USE;
/* Adds the next node to the plan, which has room for a node of each field. Returns NULL if the walk
 * only counts. */
struct sk_block_node *sk_block_put_node(struct sk_block_walk *w, int64_t length, int32_t n_buffers);

/* ---- writing the buffers (write.c) ---- */

void sk_block_write_op(const struct sk_block_op *op, uint8_t *d);
void sk_block_write_bits(const struct sk_block_op *op, uint8_t *d, int64_t at);
void sk_block_write_ones(uint8_t *d, int64_t at, int64_t n);
/* Writes the op's offsets so that they begin with `start`; returns the last one. */
uint64_t sk_block_write_offsets(const struct sk_block_op *op, uint8_t *d, uint64_t start);
/* join.c */
void sk_block_write_joined(const struct sk_block_plan *plan, uint32_t j, uint8_t *d);

/* Where the next long value of a view column goes: data buffer `index`, behind the `used` bytes in
 * it. Both measure and write use this rule. */
struct sk_block_chunk {
    int64_t index, used;
};
static inline void sk_block_chunk_place(struct sk_block_chunk *c, int64_t len) {
    /* after the call, the value is at used - len of data buffer `index` */
    if (c->used && len > SK_BLOCK_VIEW_CHUNK - c->used) {
        c->index++;
        c->used = 0;
    }
    c->used += len;
}

/* ---- small helpers ---- */

/* Loads by memcpy, since inputs may be misaligned (a slice of some file). */
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
    /* reads a signed integer of 2, 4 or 8 bytes */
    if (width == 4) return sk_block_i32(p, i);
    if (width == 8) return sk_block_i64(p, i);
    int16_t v;
    memcpy(&v, (const uint8_t *)p + i * 2, 2);
    return v;
}
static inline bool sk_block_bit(const uint8_t *p, int64_t i) { return (p[i >> 3] >> (i & 7)) & 1; }

/* Returns the index of the first run that ends after `pos`; n: there is no such run. */
static inline int64_t sk_block_run_find(const void *ends, int32_t width, int64_t n, int64_t pos) {
    int64_t lo = 0, hi = n;
    while (lo < hi) {
        int64_t mid = lo + (hi - lo) / 2;
        if (sk_block_int(ends, width, mid) > pos) hi = mid;
        else lo = mid + 1;
    }
    return lo;
}

/* ---- reading blocks (check.c, values.c) ---- */

struct sk_block_elem { /* one node of a block that is being checked; all pointers are borrowed */
    struct sk_block_type type;
    const char *format, *name;
    const struct sk_block_field *field;
    const struct sk_block_node *node;
    const struct sk_block_span *spans; /* the buffers of the node: node->n_buffers entries */
    const uint8_t *block;
};
static inline const void *sk_block_elem_buffer(const struct sk_block_elem *e, uint32_t i) {
    return e->block + e->spans[i].off;
}

/* Validates header and tables; with `values` also all that sk_block_validate promises. Code that
 * reads the block afterwards does not check again. */
sk_rc sk_block_check(const uint8_t *p, size_t n, bool values, struct sk_err *err) SK_MUST_USE;
/* Checks the values of one node. Returns NULL if they are valid, else what is wrong (a static
 * string). child_length[i]: rows of child i, [0] of the dictionary; read for list-view, dense union
 * and dictionary only. */
const char *sk_block_values_check(const struct sk_block_elem *e, const int64_t *child_length);

/* ---- bitmaps (bits.c) ---- */

/* Copies n bits of src from bit `from` on to bit `at` of dst. Bits of dst's last byte behind the
 * copied ones are overwritten. */
void sk_block_bits_append(uint8_t *dst, int64_t at, const uint8_t *src, int64_t from, int64_t n);
/* counts the ones among n bits */
int64_t sk_block_bits_count(const uint8_t *src, int64_t from, int64_t n);

#endif
