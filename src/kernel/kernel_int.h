/* kernel_int.h - inside the kernel layer only: a key column in the form that loops over rows need.
 *
 * A value is a sequence of 64-bit words, compared as unsigned numbers. Integers, floats, bool and
 * short decimals are one word with the value at its top, so that the first word can serve as a
 * prefix; wide decimals are several words; bytes are cut into words of eight, padded with zeros
 * (the number of bytes in the last word then distinguishes "a" from "a\0"). Null and NaN have no
 * words: rows are first divided into nulls, NaNs and values. */
#ifndef SK_KERNEL_INT_H
#define SK_KERNEL_INT_H

#include "base/mem.h"
#include "kernel/kernel.h"

enum sk_key_kind {
    SK_KEY_NULL,
    SK_KEY_BOOL,
    SK_KEY_INT,
    SK_KEY_UINT,
    SK_KEY_FLOAT,
    SK_KEY_DECIMAL,
    SK_KEY_FIXED,
    SK_KEY_VAR,
    SK_KEY_VIEW
};

struct sk_key_col {
    enum sk_key_kind kind;
    uint32_t width; /* bytes of a value; SK_KEY_VAR: bytes of an offset */
    /* number of words of a value; UINT32_MAX: depends on the length of the text */
    uint32_t n_words;
    bool descending, nulls_first;
    const uint8_t *valid, *data; /* data: values, offsets or views */
    const uint8_t *bytes;        /* of SK_KEY_VAR: the text's bytes */
    const void *const *buffers;  /* of SK_KEY_VIEW: all buffers of the array */
    int64_t offset;
    char code; /* of a dictionary: format letter of its codes; else 0 */
    const uint8_t *codes, *codes_valid;
    int64_t codes_offset, n_values; /* n_values: number of values of the dictionary */
    const char *format, *name;      /* format: Arrow format of the values */
};

struct sk_keys {
    uint64_t rows;
    uint32_t n;
    struct sk_key_col col[];
};

#define SK_INLINE static inline __attribute__((always_inline))

SK_INLINE uint64_t sk_load(const uint8_t *p, uint32_t width) {
    /* loads a little-endian number; width is 1, 2, 4 or 8 bytes */
    uint8_t v1;
    uint16_t v2;
    uint32_t v4;
    uint64_t v8;
    switch (width) {
    case 1: memcpy(&v1, p, 1); return v1;
    case 2: memcpy(&v2, p, 2); return v2;
    case 4: memcpy(&v4, p, 4); return v4;
    default: memcpy(&v8, p, 8); return v8;
    }
}
SK_INLINE int64_t sk_load_signed(const uint8_t *p, uint32_t width) {
    unsigned up = 64 - 8 * width;
    return (int64_t)(sk_load(p, width) << up) >> up;
}
SK_INLINE bool sk_bit(const uint8_t *p, int64_t i) { return (p[i >> 3] >> (i & 7)) & 1; }
/* Reads 64 bits that begin at bit i, and no byte without one of them. */
SK_INLINE uint64_t sk_load_bits(const uint8_t *p, int64_t i) {
    uint64_t w = sk_load(p + (i >> 3), 8) >> (i & 7);
    return i & 7 ? w | (uint64_t)p[(i >> 3) + 8] << (64 - (i & 7)) : w;
}

static inline int64_t sk_key_code(const struct sk_key_col *c, int64_t i) {
    switch (c->code) {
    case 'c': return sk_load_signed(c->codes + i, 1);
    case 'C': return (int64_t)sk_load(c->codes + i, 1);
    case 's': return sk_load_signed(c->codes + 2 * i, 2);
    case 'S': return (int64_t)sk_load(c->codes + 2 * i, 2);
    case 'i': return sk_load_signed(c->codes + 4 * i, 4);
    case 'I': return (int64_t)sk_load(c->codes + 4 * i, 4);
    default: return (int64_t)sk_load(c->codes + 8 * i, 8);
    }
}

/* Returns the index of the row's value in `data`; -1: null. */
SK_INLINE int64_t sk_key_at(const struct sk_key_col *c, uint64_t row) {
    int64_t i = (int64_t)row;
    if (c->kind == SK_KEY_NULL) return -1;
    if (SK_UNLIKELY(c->code)) {
        i += c->codes_offset;
        if (c->codes_valid && !sk_bit(c->codes_valid, i)) return -1;
        i = sk_key_code(c, i);
    }
    i += c->offset;
    return c->valid && !sk_bit(c->valid, i) ? -1 : i;
}

SK_INLINE uint64_t sk_float_top(const uint8_t *p, uint32_t width) {
    return sk_load(p, width) << (64 - 8 * width);
} /* returns the bits of the float at the top of a word */
SK_INLINE bool sk_float_nan(uint64_t top, uint32_t width) {
    uint64_t inf = width == 2   ? UINT64_C(0x7C00) << 48
                   : width == 4 ? UINT64_C(0x7F800000) << 32
                                : UINT64_C(0x7FF) << 52;
    return (top & ~(UINT64_C(1) << 63)) > inf;
}

SK_INLINE double sk_float_value(const uint8_t *p, uint32_t width) {
    float f;
    double d;
    _Float16 h;
    if (width == 8) {
        memcpy(&d, p, 8);
        return d;
    }
    if (width == 4) {
        memcpy(&f, p, 4);
        return (double)f;
    }
    memcpy(&h, p, 2);
    return (double)h;
}

enum sk_key_class { SK_CLASS_VALUE, SK_CLASS_NAN, SK_CLASS_NULL };
SK_INLINE enum sk_key_class sk_key_class(const struct sk_key_col *c, int64_t at) {
    if (at < 0) return SK_CLASS_NULL;
    if (c->kind == SK_KEY_FLOAT &&
        sk_float_nan(sk_float_top(c->data + at * c->width, c->width), c->width))
        return SK_CLASS_NAN;
    return SK_CLASS_VALUE;
}
static inline unsigned sk_class_rank(const struct sk_key_col *c, enum sk_key_class class) {
    return c->nulls_first ? 2u - (unsigned)class : (unsigned)class;
}

static inline struct sk_bytes sk_key_bytes(const struct sk_key_col *c, int64_t at) {
    /* only for SK_KEY_FIXED, SK_KEY_VAR and SK_KEY_VIEW */
    if (c->kind == SK_KEY_FIXED) return (struct sk_bytes){c->data + at * c->width, c->width};
    if (c->kind == SK_KEY_VAR) {
        int64_t from = sk_load_signed(c->data + at * c->width, c->width),
                to = sk_load_signed(c->data + (at + 1) * c->width, c->width);
        return (struct sk_bytes){c->bytes + from, (size_t)(to - from)};
    }
    const uint8_t *v = c->data + 16 * at;
    size_t n = (size_t)sk_load(v, 4);
    if (n <= 12) return (struct sk_bytes){v + 4, n};
    return (struct sk_bytes){
        (const uint8_t *)c->buffers[2 + sk_load(v + 8, 4)] + sk_load(v + 12, 4), n};
}

/* Returns bytes [8w, 8w + 8) of b as a big-endian number, padded with zeros; *here: how many of
 * these bytes exist (0 to 8). */
SK_INLINE uint64_t sk_bytes_word(struct sk_bytes b, uint32_t w, uint32_t *here) {
    size_t from = 8 * (size_t)w, left = b.n > from ? b.n - from : 0;
    uint64_t v = 0;
    const uint8_t *p = (const uint8_t *)b.p + (left ? from : 0);
    if (left >= 8) memcpy(&v, p, 8);
    else
        for (size_t i = 0; i < left; i++) v |= (uint64_t)p[i] << (8 * i);
    *here = left < 8 ? (uint32_t)left : 8;
    return __builtin_bswap64(v);
}

/* Returns word w of a value, for ascending order. kind and width are those of the column; a loop
 * that is specialised for one type passes them as constants. *here: for bytes, how many of the
 * word's bytes exist. */
SK_INLINE uint64_t sk_key_word(const struct sk_key_col *c, enum sk_key_kind kind, uint32_t width,
                               int64_t at, uint32_t w, uint32_t *here) {
    const uint64_t sign = UINT64_C(1) << 63;
    uint64_t v;
    switch (kind) {
    case SK_KEY_BOOL: return sk_bit(c->data, at) ? sign : 0;
    case SK_KEY_INT: return (sk_load(c->data + at * width, width) << (64 - 8 * width)) ^ sign;
    case SK_KEY_UINT: return sk_load(c->data + at * width, width) << (64 - 8 * width);
    case SK_KEY_FLOAT:
        v = sk_float_top(c->data + at * width, width);
        if (v == sign) v = 0; /* -0.0 */
        return v & sign ? ~v : v | sign;
    case SK_KEY_DECIMAL:
        v = sk_load(c->data + at * width + (width - 8 - 8 * w), 8);
        return w ? v : v ^ sign;
    case SK_KEY_FIXED:
    case SK_KEY_VAR:
    case SK_KEY_VIEW: return sk_bytes_word(sk_key_bytes(c, at), w, here);
    default: return 0;
    }
}

/* Sets kind, width and number of words by the Arrow format of the values; false: the type has no
 * order. */
bool sk_key_type(struct sk_key_col *c, const char *format);
/* Returns the hash of a row whose only key is an integer column and null. Any other hash of a
 * single integer key belongs to one value only. */
uint64_t sk_hash_null(void);
/* Returns the hash of one row, as sk_keys_hash computes it. */
uint64_t sk_keys_hash_row(const struct sk_keys *k, uint64_t row);

/* Compares row i of a with row j of b from word w of key `first` on; all words before are known to
 * be equal. */
int sk_keys_compare_from(const struct sk_keys *a, uint64_t i, const struct sk_keys *b, uint64_t j,
                         uint32_t first, uint32_t w);

/* ---- radix.c ---- */

/* a row that is being sorted; end: for text, the number of bytes that exist in the word */
struct sk_entry {
    uint64_t key;
    uint32_t row, end;
};
/* Sorts a[0, n) by key; stable. tmp has the same size and is overwritten. */
void sk_radix_sort(struct sk_entry *a, struct sk_entry *tmp, size_t n);
/* Sorts n numbers of rows, which are in ascending order; stable. */
sk_rc sk_sort_some(const struct sk_keys *k, uint32_t *index, uint64_t n,
                   struct sk_err *err) SK_MUST_USE;

#endif
