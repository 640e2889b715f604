/* kernel_make.c - see kernel_make.h. */
#include "kernel_make.h"

#include "base/rand.h"
#include "test.h"

const char *const key_formats[] = {
    "n",   "b",   "c",   "C",   "s",       "S",        "i",         "I",      "l",
    "L",   "e",   "f",   "g",   "z",       "u",        "Z",         "U",      "vz",
    "vu",  "w:3", "w:0", "w:8", "w:11",    "d:9,2,32", "d:18,2,64", "d:38,2", "d:76,4,256",
    "tdD", "tdm", "tts", "ttn", "tsu:UTC", "tDn",      "tiM"};
const size_t n_key_formats = SK_COUNT(key_formats);

static bool is_float(const char *f) { return !f[1] && strchr("efg", f[0]); }
static bool is_text(const char *f) { return (f[0] == 'v' || strchr("uUzZ", f[0])); }
static bool is_wide(const char *f) { return f[0] == 'd' && strstr(f, ",256"); }
static size_t width_of(const char *f) {
    if (f[0] == 'w') return (size_t)atoi(f + 2);
    if (f[0] == 'd')
        return strstr(f, ",32") ? 4 : strstr(f, ",64") ? 8 : strstr(f, ",256") ? 32 : 16;
    if (f[0] == 't') return !strcmp(f, "tdD") || !strcmp(f, "tts") || !strcmp(f, "tiM") ? 4 : 8;
    return strchr("cC", f[0]) ? 1 : strchr("sSe", f[0]) ? 2 : strchr("iIf", f[0]) ? 4 : 8;
}
static bool is_unsigned(const char *f) { return !f[1] && strchr("CSIL", f[0]); }

static void *keep(struct column *c, size_t n) {
    CHECK((size_t)c->n_mem < SK_COUNT(c->mem));
    return c->mem[c->n_mem++] = sk_calloc(SK_TAG_TEST, n);
}

/* Makes a value of the format from 64 random bits. */
static struct cell cell_of(const char *f, uint64_t h, unsigned prefix) {
    struct cell v = {.class = CELL_VALUE};
    if (f[0] == 'n') v.class = CELL_NULL;
    else if (is_float(f)) {
        static const double odd[] = {0.0, -0.0, 1, -1, 0.5, -0.5, 65504, -65504, 0x1p-24, -0x1p-24};
        v.d = h % 4 == 0 ? odd[h / 4 % SK_COUNT(odd)] : (double)((int64_t)(h >> 8) % 512) / 4;
        if (h % 16 == 1) v.d = h & 32 ? __builtin_inf() : -__builtin_inf();
        if (h % 16 == 2) v.class = CELL_NAN;
    } else if (is_text(f) || f[0] == 'w') {
        static const uint8_t letters[] = {0, 1, 'a', 'b', 255};
        v.n = f[0] == 'w' ? width_of(f) : prefix + h % 21;
        for (size_t i = 0; i < v.n; i++)
            v.bytes[i] = i < prefix ? 'p' : letters[sk_rand_mix(h + i) % (h % 3 ? 5 : 1)];
    } else if (is_wide(f)) {
        v.n = 32;
        for (size_t i = 0; i < 32; i++)
            v.bytes[i] = (uint8_t)(sk_rand_mix(h + i / (h % 2 ? 32 : 1)) >> (h % 2 ? 56 : 0));
    } else {
        size_t bits = f[0] == 'b' ? 1 : 8 * width_of(f);
        unsigned __int128 raw =
            bits > 64 && h % 2 ? (unsigned __int128)sk_rand_mix(h) << 64 | h : h;
        if (h % 8 == 0) raw = h & 8 ? ~(unsigned __int128)0 : (unsigned __int128)1 << (bits - 1);
        raw <<= 128 - bits;
        v.i = is_unsigned(f) || f[0] == 'b' ? (__int128)(raw >> (128 - bits))
                                            : (__int128)raw >> (128 - bits);
    }
    return v;
}

static void put_number(const char *f, uint8_t *at, const struct cell *v) {
    size_t width = width_of(f);
    double d =
        v->class == CELL_NAN ? (test_below(2) ? __builtin_nan("") : -__builtin_nan("7")) : v->d;
    float s = (float)d;
    _Float16 h = (_Float16)d;
    if (f[0] == 'w' || is_wide(f)) memcpy(at, v->bytes, width);
    else if (is_float(f))
        memcpy(at, width == 8 ? (void *)&d : width == 4 ? (void *)&s : (void *)&h, width);
    else memcpy(at, &v->i, width);
}

static void put_texts(struct column *c, const char *f, const struct cell *all, int64_t n,
                      const void **buffers) {
    size_t total = 0, at = 0;
    for (int64_t i = 0; i < n; i++) total += all[i].n;
    uint8_t *bytes = keep(c, total + 1), *slots = keep(c, 16 * ((size_t)n + 1));
    int64_t *sizes = keep(c, 8);
    bool large = strchr("UZ", f[0]) != NULL;
    for (int64_t i = 0; i <= n; i++) {
        size_t len = i < n && all[i].class == CELL_VALUE ? all[i].n : 0;
        int32_t at32[2] = {(int32_t)at, (int32_t)len};
        if (i < n) memcpy(bytes + at, all[i].bytes, len);
        if (f[0] == 'v' && i < n) {
            memcpy(slots + 16 * i, &at32[1], 4);
            memcpy(slots + 16 * i + 4, all[i].bytes, SK_MIN(len, len > 12 ? 4 : 12));
            if (len > 12) memcpy(slots + 16 * i + 12, &at32[0], 4);
        } else if (large) memcpy(slots + 8 * i, &(int64_t){(int64_t)at}, 8);
        else if (f[0] != 'v') memcpy(slots + 4 * i, at32, 4);
        at += len;
    }
    *sizes = (int64_t)at;
    buffers[1] = slots;
    buffers[2] = bytes;
    buffers[3] = sizes;
}

/* Makes an Arrow array of n cells. */
static void lay_out(struct column *c, const char *f, const struct cell *all, int64_t n,
                    int64_t offset, struct ArrowSchema *s, struct ArrowArray *a,
                    const void **buffers) {
    bool text = is_text(f), nulls = false;
    uint8_t *valid = keep(c, (size_t)n / 8 + 1), *data = keep(c, 32 * (size_t)n + 8);
    for (int64_t i = 0; i < n; i++) {
        nulls |= all[i].class == CELL_NULL;
        if (all[i].class != CELL_NULL) valid[i / 8] |= (uint8_t)(1u << (i & 7));
        if (f[0] == 'b') data[i / 8] |= (uint8_t)((all[i].i & 1) << (i & 7));
        else if (!text && f[0] != 'n') put_number(f, data + (size_t)i * width_of(f), &all[i]);
    }
    buffers[0] = nulls ? valid : NULL;
    buffers[1] = data;
    if (text) put_texts(c, f, all, n, buffers);
    *s = (struct ArrowSchema){.format = f, .name = "x", .flags = ARROW_FLAG_NULLABLE};
    *a = (struct ArrowArray){
        .length = n - offset, .offset = offset, .null_count = -1, .buffers = buffers};
    a->n_buffers = f[0] == 'n' ? 0 : f[0] == 'v' ? 4 : text ? 3 : 2;
}

static struct cell draw(const char *f, struct column_how how) {
    uint64_t h = how.distinct ? sk_rand_mix(how.seed + test_below(how.distinct)) : test_rand();
    struct cell v = cell_of(f, h, how.prefix);
    if (test_below(100) < how.nulls) v.class = CELL_NULL;
    return v;
}

/* Makes all[0, n) an array of codes with the dictionary `values`; at[i] is the index of cell i in
 * the dictionary. */
static void lay_out_codes(struct column *c, int64_t n, int64_t offset, const int64_t *at) {
    static const char *const codes[] = {"c", "C", "s", "S", "i", "I", "l", "L"};
    const char *f = codes[test_below(8)];
    uint8_t *valid = keep(c, (size_t)n / 8 + 1), *data = keep(c, 8 * (size_t)n + 8);
    for (int64_t i = 0; i < n; i++) {
        int64_t code = at[i] < 0 ? 100 : at[i]; /* beyond the values */
        if (at[i] >= 0) valid[i / 8] |= (uint8_t)(1u << (i & 7));
        memcpy(data + (size_t)i * width_of(f), &code, width_of(f));
    }
    c->buffers[0] = valid;
    c->buffers[1] = data;
    c->schema = (struct ArrowSchema){
        .format = f, .name = "x", .flags = ARROW_FLAG_NULLABLE, .dictionary = &c->values_schema};
    c->array = (struct ArrowArray){.length = n - offset,
                                   .offset = offset,
                                   .null_count = -1,
                                   .n_buffers = 2,
                                   .buffers = c->buffers,
                                   .dictionary = &c->values_array};
}

void column_make(struct column *c, const char *format, int64_t rows, struct column_how how) {
    int64_t offset = (int64_t)test_below(20), n = rows + offset;
    *c = (struct column){.format = format};
    c->all = keep(c, ((size_t)n + 1) * sizeof *c->all);
    c->cells = c->all + offset;
    if (!how.dictionary) {
        for (int64_t i = 0; i < n; i++) c->all[i] = draw(format, how);
        lay_out(c, format, c->all, n, offset, &c->schema, &c->array, c->buffers);
        return;
    }
    enum { VALUES = 40 };
    struct cell *values = keep(c, VALUES * sizeof *values);
    int64_t *at = keep(c, ((size_t)n + 1) * sizeof *at), skip = (int64_t)test_below(5);
    for (int64_t i = 0; i < VALUES; i++) values[i] = draw(format, how);
    lay_out(c, format, values, VALUES, skip, &c->values_schema, &c->values_array,
            c->values_buffers);
    for (int64_t i = 0; i < n; i++) {
        at[i] = test_below(100) < how.nulls ? -1 : (int64_t)test_below((uint64_t)(VALUES - skip));
        c->all[i] = at[i] < 0 ? (struct cell){.class = CELL_NULL} : values[skip + at[i]];
    }
    lay_out_codes(c, n, offset, at);
}

void column_copy(struct column *c, const char *format, const struct column *from, int64_t rows,
                 bool dictionary) {
    int64_t offset = (int64_t)test_below(20), n = rows + offset;
    *c = (struct column){.format = format};
    c->all = keep(c, ((size_t)n + 1) * sizeof *c->all);
    c->cells = c->all + offset;
    for (int64_t i = 0; i < n; i++)
        c->all[i] = i < offset ? cell_of(format, test_rand(), 0) : from->cells[i - offset];
    if (!dictionary) {
        lay_out(c, format, c->all, n, offset, &c->schema, &c->array, c->buffers);
        return;
    }
    CHECK(n <= 120); /* each cell is a value of its own */
    int64_t *at = keep(c, ((size_t)n + 1) * sizeof *at);
    for (int64_t i = 0; i < n; i++) at[i] = i;
    lay_out(c, format, c->all, n, 0, &c->values_schema, &c->values_array, c->values_buffers);
    lay_out_codes(c, n, offset, at);
}

void column_free(struct column *c) {
    while (c->n_mem) sk_free(c->mem[--c->n_mem]);
}

static int compare_cells(const char *f, const struct cell *a, const struct cell *b) {
    if (is_float(f)) return (a->d > b->d) - (a->d < b->d);
    if (is_wide(f)) {
        if ((int8_t)a->bytes[31] != (int8_t)b->bytes[31])
            return (int8_t)a->bytes[31] < (int8_t)b->bytes[31] ? -1 : 1;
        for (int i = 30; i >= 0; i--)
            if (a->bytes[i] != b->bytes[i]) return a->bytes[i] < b->bytes[i] ? -1 : 1;
        return 0;
    }
    if (is_text(f) || f[0] == 'w') {
        for (size_t i = 0; i < a->n && i < b->n; i++)
            if (a->bytes[i] != b->bytes[i]) return a->bytes[i] < b->bytes[i] ? -1 : 1;
        return (a->n > b->n) - (a->n < b->n);
    }
    return (a->i > b->i) - (a->i < b->i);
}

int cell_compare(const char *f, const struct cell *a, const struct cell *b, bool descending,
                 bool nulls_first) {
    /* the order is values, NaN, null, or null, NaN, values */
    if (a->class != b->class) return (a->class < b->class) != nulls_first ? -1 : 1;
    if (a->class != CELL_VALUE) return 0;
    int r = compare_cells(f, a, b);
    return descending ? -r : r;
}

void batch_make(struct batch *b, struct column *columns, int n, int64_t rows, int64_t offset) {
    memset(b, 0, sizeof *b);
    for (int i = 0; i < n; i++) {
        b->fields[i] = &columns[i].schema;
        b->arrays[i] = &columns[i].array;
    }
    b->schema =
        (struct ArrowSchema){.format = "+s", .name = "", .n_children = n, .children = b->fields};
    b->array = (struct ArrowArray){.length = rows,
                                   .offset = offset,
                                   .n_buffers = 1,
                                   .n_children = n,
                                   .buffers = b->buffers,
                                   .children = b->arrays};
}
