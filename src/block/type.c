/* type.c - parses format strings of the C Data Interface into what the block layer must know of a
 * type.
 *
 * Units, time zones, decimal digits and the like are copied as text; only their presence is
 * checked. The checks are strict, because a block from a file must not have a format that crashes
 * its reader. Cost: a few branches a column. */
#include "block/block_int.h"

/* Parses decimal digits of a number up to `max`; advances *s. */
static bool number(const char **s, int64_t max, int32_t *out) {
    int64_t v = 0;
    const char *p = *s;
    if (*p < '0' || *p > '9') return false;
    for (; *p >= '0' && *p <= '9'; p++) {
        v = v * 10 + (*p - '0');
        if (v > max) return false;
    }
    *s = p;
    *out = (int32_t)v;
    return true;
}

static bool set_type(struct sk_block_type *t, enum sk_block_kind kind, int32_t width,
                     int32_t n_buffers, int32_t n_children) {
    *t = (struct sk_block_type){.kind = kind,
                                .width = width,
                                .n_buffers = n_buffers,
                                .n_children = n_children,
                                .validity = n_buffers > 0};
    return true;
}

static bool set_fixed(struct sk_block_type *t, int32_t width, char index) {
    set_type(t, SK_BLOCK_FIXED, width, 2, 0);
    t->index = index;
    return true;
}

/* Parses d:precision,scale[,bits]. */
static bool parse_decimal(const char *f, struct sk_block_type *t) {
    int32_t precision, scale, bits = 128;
    if (f[1] != ':') return false;
    f += 2;
    if (!number(&f, 76, &precision) || *f++ != ',') return false;
    if (*f == '-') f++;
    if (!number(&f, INT32_MAX, &scale)) return false;
    if (*f == ',') {
        f++;
        if (!number(&f, 256, &bits)) return false;
    }
    if (*f || (bits != 32 && bits != 64 && bits != 128 && bits != 256)) return false;
    if (precision < 1 || precision > (bits == 32 ? 9 : bits == 64 ? 18 : bits == 128 ? 38 : 76))
        return false;
    return set_fixed(t, bits / 8, 0);
}

static bool parse_temporal(const char *f, struct sk_block_type *t) {
    const char *rest = f[1] && f[2] ? f + 3 : f;
    switch (f[1]) {
    case 'd': return (f[2] == 'D' || f[2] == 'm') && !*rest && set_fixed(t, f[2] == 'D' ? 4 : 8, 0);
    case 't':
        if (f[2] == 's' || f[2] == 'm') return !*rest && set_fixed(t, 4, 0);
        return (f[2] == 'u' || f[2] == 'n') && !*rest && set_fixed(t, 8, 0);
    /* a time zone follows, which may be any text */
    case 's': return f[2] && strchr("smun", f[2]) && *rest == ':' && set_fixed(t, 8, 0);
    case 'D': return f[2] && strchr("smun", f[2]) && !*rest && set_fixed(t, 8, 0);
    case 'i':
        return f[2] && strchr("MDn", f[2]) && !*rest &&
               set_fixed(t,
                         f[2] == 'M'   ? 4
                         : f[2] == 'D' ? 8
                                       : 16,
                         0);
    default: return false;
    }
}

/* Parses ud:I,J,.. or us:I,J,..; map may be NULL. */
static bool parse_union(const char *f, uint8_t *map, int32_t *n_children) {
    uint8_t own[256];
    int32_t n = 0, id;
    if (!map) map = own;
    memset(map, 0xFF, 256);
    for (f += 3; *f;) {
        if (!number(&f, 127, &id) || map[id] != 0xFF) return false;
        map[id] = (uint8_t)n++;
        if (*f == ',' && f[1]) f++;
        else if (*f) return false;
    }
    *n_children = n;
    return true;
}

static bool parse_nested(const char *f, struct sk_block_type *t) {
    int32_t n;
    switch (f[1]) {
    case 'l': return !f[2] && set_type(t, SK_BLOCK_LIST, 4, 2, 1);
    case 'L': return !f[2] && set_type(t, SK_BLOCK_LIST, 8, 2, 1);
    case 'm':
        set_type(t, SK_BLOCK_LIST, 4, 2, 1);
        t->is_map = true;
        return !f[2];
    case 'v':
        return (f[2] == 'l' || f[2] == 'L') && !f[3] &&
               set_type(t, SK_BLOCK_LIST_VIEW, f[2] == 'l' ? 4 : 8, 3, 1);
    case 'w':
        if (f[2] != ':') return false;
        f += 3;
        return number(&f, INT32_MAX, &n) && !*f && set_type(t, SK_BLOCK_FIXED_LIST, n, 1, 1);
    case 's': return !f[2] && set_type(t, SK_BLOCK_STRUCT, 0, 1, -1);
    case 'r': return !f[2] && set_type(t, SK_BLOCK_RUNS, 0, 0, 2);
    case 'u':
        if ((f[2] != 'd' && f[2] != 's') || f[3] != ':' || !parse_union(f + 1, NULL, &n))
            return false;
        set_type(t, f[2] == 'd' ? SK_BLOCK_DENSE : SK_BLOCK_SPARSE, 0, f[2] == 'd' ? 2 : 1, n);
        t->validity = false;
        return true;
    default: return false;
    }
}

bool sk_block_type_parse(const char *f, struct sk_block_type *t) {
    int32_t n;
    if (f[0] && !f[1]) {
        switch (f[0]) {
        case 'n': return set_type(t, SK_BLOCK_NULL, 0, 0, 0);
        case 'b': return set_type(t, SK_BLOCK_BOOL, 0, 2, 0);
        case 'c':
        case 'C': return set_fixed(t, 1, f[0]);
        case 's':
        case 'S': return set_fixed(t, 2, f[0]);
        case 'i':
        case 'I': return set_fixed(t, 4, f[0]);
        case 'l':
        case 'L': return set_fixed(t, 8, f[0]);
        case 'e': return set_fixed(t, 2, 0);
        case 'f': return set_fixed(t, 4, 0);
        case 'g': return set_fixed(t, 8, 0);
        case 'z':
        case 'u': return set_type(t, SK_BLOCK_VAR, 4, 3, 0);
        case 'Z':
        case 'U': return set_type(t, SK_BLOCK_VAR, 8, 3, 0);
        default: return false;
        }
    }
    switch (f[0]) {
    case 'v': return (f[1] == 'u' || f[1] == 'z') && !f[2] && set_type(t, SK_BLOCK_VIEW, 16, 3, 0);
    case 'd': return parse_decimal(f, t);
    case 't': return parse_temporal(f, t);
    case '+': return parse_nested(f, t);
    case 'w':
        if (f[1] != ':') return false;
        f += 2;
        return number(&f, INT32_MAX, &n) && !*f && set_fixed(t, n, 0);
    default: return false;
    }
}

void sk_block_union_map(const char *format, uint8_t map[256]) {
    int32_t n;
    SK_ASSERT(parse_union(format + 1, map, &n));
}

bool sk_block_metadata_len(const char *m, uint64_t limit, uint64_t *out) {
    int32_t n, len;
    uint64_t at = 4;
    if (limit < 4) return false;
    memcpy(&n, m, 4);
    if (n < 0) return false;
    for (int64_t i = 0; i < 2 * (int64_t)n; i++) {
        if (limit - at < 4) return false;
        memcpy(&len, m + at, 4);
        at += 4;
        if (len < 0 || limit - at < (uint64_t)len) return false;
        at += (uint64_t)len;
    }
    *out = at;
    return true;
}
