/* hash.c - 64-bit hashes of key columns.
 *
 * A hash depends on the logical value only, so that equal rows go to the same partition even if one
 * block has a dictionary, a view, an offset or nulls and another does not. Integers are hashed as
 * 64-bit numbers; floats that equal an integer like that integer, other floats as doubles; decimals
 * as 256 bits; text by length and bytes. The hash of each column goes into that of the next.
 * Fixed-width values go through the finalizer of splitmix64, a bijection: 64-bit keys do not
 * collide. Bytes are folded 16 at a time by 64x64 -> 128-bit products, as wyhash does (Wang Yi,
 * public domain). The hash does not withstand an adversary. Cost: 2 ns a row and fixed-width
 * column. */
#include "kernel/kernel_int.h"

static const uint64_t salt[4] = {UINT64_C(0xa0761d6478bd642f), UINT64_C(0xe7037ed1a0b428db),
                                 UINT64_C(0x8ebc6af09c88c6e3), UINT64_C(0x589965cc75374cc3)};

static uint64_t fold(uint64_t a, uint64_t b) {
    unsigned __int128 r = (unsigned __int128)a * b;
    return (uint64_t)r ^ (uint64_t)(r >> 64);
}

static uint64_t hash_bytes(struct sk_bytes b) {
    const uint8_t *p = b.p;
    size_t n = b.n;
    uint64_t s = fold(n ^ salt[0], salt[1]), x = 0, y = 0;
    for (; n > 16; n -= 16, p += 16) s = fold(sk_load(p, 8) ^ salt[2], sk_load(p + 8, 8) ^ s);
    if (n >= 8) {
        x = sk_load(p, 8);
        y = sk_load(p + n - 8, 8);
    } else if (n >= 4) {
        x = sk_load(p, 4);
        y = sk_load(p + n - 4, 4);
    } else
        for (size_t i = 0; i < n; i++) x = x << 8 | p[i];
    s = fold(x ^ salt[2], y ^ s);
    return fold(s ^ salt[3], salt[0]);
}

static double half(uint64_t v) {
    double m = (double)(v & 0x3FF);
    int e = (int)(v >> 10 & 31);
    uint64_t bits;
    if (!e) m *= 0x1p-24;
    else if (e == 31) m = __builtin_inf();
    else {
        bits = (uint64_t)(e - 15 + 1023) << 52 | (v & 0x3FF) << 42;
        memcpy(&m, &bits, 8);
    }
    return v >> 15 ? -m : m;
}

SK_INLINE uint64_t float_bits(const uint8_t *p, uint32_t width) {
    uint64_t bits = sk_load(p, width);
    uint32_t single = (uint32_t)bits;
    float f;
    memcpy(&f, &single, 4);
    double d = width == 4 ? (double)f : half(bits);
    if (width == 8) memcpy(&d, &bits, 8);
    else memcpy(&bits, &d, 8);
    if (d >= -0x1p63 && d < 0x1p64) {
        /* a column may have integers in one block and floats in another: 1 equals 1.0, and -0.0
         * equals 0.0 */
        uint64_t whole = d < 0 ? (uint64_t)(int64_t)d : (uint64_t)d;
        if ((d < 0 ? (double)(int64_t)whole : (double)whole) == d) return whole;
    }
    return bits;
}

static uint64_t decimal_hash(const uint8_t *p, uint32_t width) {
    uint64_t h = 0, sign = (uint64_t)((int64_t)sk_load(p + width - 8, 8) >> 63);
    for (uint32_t i = 0; i < 4; i++)
        h = sk_rand_mix(h + salt[i]) ^ (8 * i < width ? sk_load(p + 8 * i, 8) : sign);
    return h;
}

SK_INLINE uint64_t value_hash(const struct sk_key_col *c, enum sk_key_kind kind, uint32_t width,
                              int64_t at) {
    switch (kind) {
    case SK_KEY_BOOL: return sk_bit(c->data, at);
    case SK_KEY_INT: return (uint64_t)sk_load_signed(c->data + at * width, width);
    case SK_KEY_UINT: return sk_load(c->data + at * width, width);
    case SK_KEY_FLOAT: return float_bits(c->data + at * width, width);
    case SK_KEY_DECIMAL: return decimal_hash(c->data + at * width, width);
    default: return hash_bytes(sk_key_bytes(c, at));
    }
}

SK_INLINE void hash_rows(const struct sk_key_col *c, enum sk_key_kind kind, uint32_t width,
                         uint64_t rows, uint64_t *out) {
    for (uint64_t i = 0; i < rows; i++) {
        int64_t at = sk_key_at(c, i);
        enum sk_key_class class = sk_key_class(c, at);
        uint64_t v = class == SK_CLASS_VALUE ? value_hash(c, kind, width, at) : salt[class];
        out[i] = sk_rand_mix(out[i] ^ v);
    }
}

static void hash_column(const struct sk_key_col *c, uint64_t rows, uint64_t *out) {
    enum sk_key_kind k = c->kind;
    if (k == SK_KEY_INT && c->width == 8) hash_rows(c, SK_KEY_INT, 8, rows, out);
    else if (k == SK_KEY_INT && c->width == 4) hash_rows(c, SK_KEY_INT, 4, rows, out);
    else if (k == SK_KEY_FLOAT && c->width == 8) hash_rows(c, SK_KEY_FLOAT, 8, rows, out);
    else if (k == SK_KEY_VAR && c->width == 4) hash_rows(c, SK_KEY_VAR, 4, rows, out);
    else hash_rows(c, k, c->width, rows, out);
}

void sk_keys_hash(const struct sk_keys *k, uint64_t *out) {
    for (uint64_t i = 0; i < k->rows; i++) out[i] = salt[3];
    for (uint32_t c = 0; c < k->n; c++) hash_column(&k->col[c], k->rows, out);
}

uint64_t sk_keys_hash_row(const struct sk_keys *k, uint64_t row) {
    uint64_t h = salt[3];
    for (uint32_t i = 0; i < k->n; i++) {
        const struct sk_key_col *c = &k->col[i];
        int64_t at = sk_key_at(c, row);
        enum sk_key_class class = sk_key_class(c, at);
        h = sk_rand_mix(
            h ^ (class == SK_CLASS_VALUE ? value_hash(c, c->kind, c->width, at) : salt[class]));
    }
    return h;
}

uint64_t sk_hash_null(void) { return sk_rand_mix(salt[3] ^ salt[SK_CLASS_NULL]); }
