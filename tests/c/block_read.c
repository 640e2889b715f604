/* block_read.c - see block_read.h. It uses no code of the block layer (it parses formats itself),
 * so a sanitizer run tests what sk_block_validate promises. It compares no values and only computes
 * a hash. */
#include "block_read.h"

#include <stdlib.h>

static uint64_t mix(uint64_t h, const void *p, size_t n) {
    const uint8_t *b = p;
    for (size_t i = 0; i < n; i++) h = (h ^ b[i]) * UINT64_C(0x100000001b3);
    return h;
}

static bool bit(const uint8_t *p, int64_t i) { return (p[i >> 3] >> (i & 7)) & 1; }

static int64_t number(const void *p, int width, int64_t i) {
    switch (width) {
    case 1: return ((const int8_t *)p)[i];
    case 2: return ((const int16_t *)p)[i];
    case 4: return ((const int32_t *)p)[i];
    default: return ((const int64_t *)p)[i];
    }
}

static int width_of(const char *f) {
    switch (f[0]) {
    case 'c':
    case 'C': return 1;
    case 's':
    case 'S':
    case 'e': return 2;
    case 'i':
    case 'I':
    case 'f': return 4;
    case 'l':
    case 'L':
    case 'g': return 8;
    case 'w': return atoi(f + 2);
    case 'd': {
        const char *comma = strchr(strchr(f, ',') + 1, ',');
        return comma ? atoi(comma + 1) / 8 : 16;
    }
    case 't':
        if (f[1] == 'i') return f[2] == 'M' ? 4 : f[2] == 'D' ? 8 : 16;
        return (f[1] == 'd' && f[2] == 'D') || (f[1] == 't' && (f[2] == 's' || f[2] == 'm')) ? 4
                                                                                             : 8;
    default: return 0;
    }
}

static uint64_t row(uint64_t h, const struct ArrowSchema *s, const struct ArrowArray *a, int64_t i);

static uint64_t rows(uint64_t h, const struct ArrowSchema *s, const struct ArrowArray *a,
                     int64_t at, int64_t n) {
    for (int64_t i = 0; i < n; i++) h = row(h, s, a, at + i);
    return h;
}

static uint64_t union_row(uint64_t h, const struct ArrowSchema *s, const struct ArrowArray *a,
                          int64_t i) {
    int id = ((const int8_t *)a->buffers[0])[i], child = 0;
    const char *p = strchr(s->format, ':') + 1;
    while (atoi(p) != id) {
        p = strchr(p, ',') + 1;
        child++;
    }
    return row(h, s->children[child], a->children[child],
               s->format[2] == 'd' ? ((const int32_t *)a->buffers[1])[i] : i);
}

static uint64_t view(uint64_t h, const struct ArrowArray *a, int64_t i) {
    const int32_t *v = (const int32_t *)a->buffers[1] + 4 * i;
    if (v[0] <= 12) return mix(h, v + 1, (size_t)v[0]);
    if (v[3] + (int64_t)v[0] > ((const int64_t *)a->buffers[a->n_buffers - 1])[v[2]]) abort();
    return mix(h, (const char *)a->buffers[2 + v[2]] + v[3], (size_t)v[0]);
}

static uint64_t nested(uint64_t h, const struct ArrowSchema *s, const struct ArrowArray *a,
                       int64_t i) {
    const char *f = s->format;
    int w = f[1] == 'L' || f[2] == 'L' ? 8 : 4;
    switch (f[1]) {
    case 'l':
    case 'L':
    case 'm': {
        int64_t at = number(a->buffers[1], w, i);
        return rows(h, s->children[0], a->children[0], at, number(a->buffers[1], w, i + 1) - at);
    }
    case 'v':
        return rows(h, s->children[0], a->children[0], number(a->buffers[1], w, i),
                    number(a->buffers[2], w, i));
    case 'w': return rows(h, s->children[0], a->children[0], i * atoi(f + 3), atoi(f + 3));
    case 'u': return union_row(h, s, a, i);
    case 's':
        for (int64_t c = 0; c < s->n_children; c++) h = row(h, s->children[c], a->children[c], i);
        return h;
    default: { /* runs; by search from the front: tests are small */
        int64_t run = 0, rw = width_of(s->children[0]->format);
        while (number(a->children[0]->buffers[1], (int)rw, run) <= i) run++;
        return row(h, s->children[1], a->children[1], run);
    }
    }
}

/* Hashes row i, which is counted from the array's first row, behind its offset. */
static uint64_t row(uint64_t h, const struct ArrowSchema *s, const struct ArrowArray *a,
                    int64_t i) {
    const char *f = s->format;
    if (i < 0 || i >= a->length) abort();
    i += a->offset;
    bool has_bits = a->n_buffers && !(f[0] == '+' && f[1] == 'u');
    if (has_bits && a->buffers[0] && !bit(a->buffers[0], i)) return mix(h, "null", 4);
    if (f[0] == 'n') return mix(h, "n", 1);
    if (s->dictionary) {
        int w = width_of(f);
        int64_t k = number(a->buffers[1], w, i);
        if (strchr("CSIL", f[0]) && w < 8) k &= (INT64_C(1) << (8 * w)) - 1;
        return row(h, s->dictionary, a->dictionary, k);
    }
    if (f[0] == '+') return nested(h, s, a, i);
    if (f[0] == 'v') return view(h, a, i);
    if (f[0] == 'b') return mix(h, bit(a->buffers[1], i) ? "t" : "f", 1);
    if (strchr("uUzZ", f[0])) {
        int w = f[0] == 'U' || f[0] == 'Z' ? 8 : 4;
        int64_t at = number(a->buffers[1], w, i);
        return mix(h, (const char *)a->buffers[2] + at,
                   (size_t)(number(a->buffers[1], w, i + 1) - at));
    }
    int w = width_of(f);
    return mix(h, (const uint8_t *)a->buffers[1] + i * w, (size_t)w);
}

static uint64_t schema(uint64_t h, const struct ArrowSchema *s) {
    h = mix(h, s->format, strlen(s->format));
    h = mix(h, s->name, strlen(s->name));
    if (s->metadata) {
        const char *m = s->metadata;
        int32_t n, len;
        memcpy(&n, m, 4);
        m += 4;
        for (int64_t i = 0; i < 2 * (int64_t)n; i++) {
            memcpy(&len, m, 4);
            h = mix(h, m + 4, (size_t)len);
            m += 4 + len;
        }
    }
    for (int64_t i = 0; i < s->n_children; i++) h = schema(h, s->children[i]);
    return s->dictionary ? schema(h, s->dictionary) : h;
}

/* Damaged bytes may declare 2^60 rows without bytes (null columns, structs without fields): then
 * only rows at both ends are read. */
uint64_t block_read(const struct ArrowSchema *s, const struct ArrowArray *a) {
    uint64_t h = schema(UINT64_C(0xcbf29ce484222325), s);
    int64_t n = a->length, most = 1 << 16;
    return n <= 2 * most ? rows(h, s, a, 0, n) : rows(rows(h, s, a, 0, most), s, a, n - most, most);
}
