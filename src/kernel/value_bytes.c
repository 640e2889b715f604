/* value_bytes.c - encodes values of any type as bytes that are equal for equal values, so that
 * values of types without an order can be compared.
 *
 * Equality is that of keys, at each level of nesting: nulls are equal, NaNs are equal, 0.0 equals
 * -0.0, texts are compared as bytes, and dictionaries by their values. A value is encoded as a byte
 * (0: null) and its bytes, with the length in front for texts and lists. */
#include <stdlib.h>

#include "kernel/agg/collect.h"

struct out {
    uint8_t *p;
    size_t n, cap;
};

static bool put(struct out *o, const void *p, size_t n) {
    if (o->n + n > o->cap) {
        size_t cap = SK_MAX(o->n + n, 2 * o->cap + 256);
        uint8_t *to = sk_realloc(SK_TAG_KERNEL, o->p, cap);
        if (!to) return false;
        o->p = to;
        o->cap = cap;
    }
    if (n) memcpy(o->p + o->n, p, n);
    o->n += n;
    return true;
}

static bool put_length(struct out *o, int64_t n) { return put(o, &n, sizeof n); }

static bool put_value(struct out *o, const struct ArrowSchema *s, const struct ArrowArray *a,
                      int64_t at);

static bool put_items(struct out *o, const struct ArrowSchema *s, const struct ArrowArray *a,
                      int64_t from, int64_t n) {
    if (!put_length(o, n)) return false;
    for (int64_t i = 0; i < n; i++)
        if (!put_value(o, s->children[0], a->children[0], from + i)) return false;
    return true;
}

static int64_t number(const void *p, int64_t i, uint32_t width) {
    return sk_load_signed((const uint8_t *)p + i * width, width);
}

/* Writes the list at index `i`, counted from the beginning of the buffers. */
static bool put_list(struct out *o, const struct ArrowSchema *s, const struct ArrowArray *a,
                     int64_t i) {
    const char *f = s->format;
    bool view = f[1] == 'v';
    uint32_t width = f[1] == 'L' || (view && f[2] == 'L') ? 8 : 4;
    int64_t from = number(a->buffers[1], i, width);
    return put_items(o, s, a, from,
                     view ? number(a->buffers[2], i, width)
                          : number(a->buffers[1], i + 1, width) - from);
}

static bool put_union(struct out *o, const struct ArrowSchema *s, const struct ArrowArray *a,
                      int64_t i) {
    int8_t type = ((const int8_t *)a->buffers[0])[i];
    int64_t child = 0, at = s->format[2] == 'd' ? number(a->buffers[1], i, 4) : i;
    const char *ids = strchr(s->format, ':'); /* the type ids, in the order of the children */
    for (const char *p = ids ? ids + 1 : ""; *p && strtol(p, NULL, 10) != type; child++) {
        p = strchr(p, ',');
        if (!p++) break;
    }
    size_t begin = o->n;
    uint8_t head[2] = {1, (uint8_t)type};
    if (child == s->n_children) return put(o, &(uint8_t){0}, 1);
    if (!put(o, head, 2) || !put_value(o, s->children[child], a->children[child], at)) return false;
    if (o->p[begin + 2]) return true;
    o->n = begin; /* a null is encoded alike in every type */
    return put(o, &(uint8_t){0}, 1);
}

static bool put_run(struct out *o, const struct ArrowSchema *s, const struct ArrowArray *a,
                    int64_t i) {
    const struct ArrowArray *ends = a->children[0];
    uint32_t width = s->children[0]->format[0] == 's'   ? 2
                     : s->children[0]->format[0] == 'i' ? 4
                                                        : 8;
    int64_t low = 0, high = ends->length;
    while (low < high) { /* finds the first run that ends behind i */
        int64_t mid = (low + high) / 2;
        if (number(ends->buffers[1], ends->offset + mid, width) > i) high = mid;
        else low = mid + 1;
    }
    return put_value(o, s->children[1], a->children[1], low);
}

static bool put_leaf(struct out *o, const struct ArrowSchema *s, const struct ArrowArray *a,
                     int64_t i) {
    struct sk_key_col c = {.data = a->buffers[1], .buffers = a->buffers};
    uint8_t raw[32] = {0};
    if (!sk_key_type(&c, s->format)) { /* the type is an interval, which has no order */
        c.kind = SK_KEY_FIXED;
        c.width = strcmp(s->format, "tin") != 0 ? 8 : 16;
    }
    if (c.kind == SK_KEY_VAR) c.bytes = a->buffers[2];
    if (c.kind == SK_KEY_VAR || c.kind == SK_KEY_VIEW) {
        struct sk_bytes b = sk_key_bytes(&c, i);
        return put_length(o, (int64_t)b.n) && put(o, b.p, b.n);
    }
    if (c.kind == SK_KEY_BOOL) raw[0] = sk_bit(c.data, i);
    else if (c.kind != SK_KEY_FLOAT) return put(o, c.data + i * c.width, c.width);
    else if (sk_key_class(&c, i) == SK_CLASS_NAN) memset(raw, 0xFF, c.width);
    else if (sk_float_value(c.data + i * c.width, c.width) != 0)
        memcpy(raw, c.data + i * c.width, c.width);
    return put(o, raw, c.kind == SK_KEY_BOOL ? 1 : c.width);
}

/* Writes row `at` of the array. */
static bool put_value(struct out *o, const struct ArrowSchema *s, const struct ArrowArray *a,
                      int64_t at) {
    const char *f = s->format;
    bool is_union = !strncmp(f, "+u", 2), is_runs = !strncmp(f, "+r", 2);
    int64_t i = a->offset + at;
    if (is_union) return put_union(o, s, a, i);
    if (is_runs) return put_run(o, s, a, i);
    uint8_t valid = f[0] != 'n' && (!a->null_count || !a->buffers[0] || sk_bit(a->buffers[0], i));
    if (s->dictionary) {
        struct sk_key_col codes = {.code = f[0], .codes = a->buffers[1]};
        return valid ? put_value(o, s->dictionary, a->dictionary, sk_key_code(&codes, i))
                     : put(o, &(uint8_t){0}, 1);
    }
    if (!put(o, &valid, 1)) return false;
    if (!valid) return true;
    if (f[0] != '+') return put_leaf(o, s, a, i);
    if (f[1] == 'w') {
        int64_t n = strtoll(f + 3, NULL, 10);
        return put_items(o, s, a, i * n, n);
    }
    if (f[1] != 's') return put_list(o, s, a, i);
    for (int64_t c = 0; c < s->n_children; c++)
        if (!put_value(o, s->children[c], a->children[c], i)) return false;
    return true;
}

sk_rc sk_value_bytes(const struct ArrowSchema *s, const struct ArrowArray *a, int32_t **offsets,
                     uint8_t **bytes, struct sk_err *err) {
    struct out o = {.n = 0};
    int32_t *to = sk_alloc_large(SK_TAG_KERNEL, (size_t)(a->length + 1) * sizeof *to);
    sk_rc rc = to && put(&o, "", 0) ? SK_OK : SK_ERR(err, SK_ENOMEM, "no memory to compare values");
    for (int64_t i = 0; rc == SK_OK && i < a->length; i++) {
        to[i] = (int32_t)o.n;
        if (!put_value(&o, s, a, i)) rc = SK_ERR(err, SK_ENOMEM, "no memory to compare values");
        else if (o.n > INT32_MAX)
            rc = SK_ERR(err, SK_EINVAL, "more than 2 GiB of values in one batch to compare");
    }
    if (rc == SK_OK) {
        to[a->length] = (int32_t)o.n;
        *offsets = to;
        *bytes = o.p;
        return SK_OK;
    }
    sk_free(to);
    sk_free(o.p);
    return rc;
}
