/* key.c - opens the key columns of a batch, knows which types have an order, and compares rows.
 *
 * Not here: the fast loops over rows; those of sort.c and hash.c are specialised by type and use
 * the same words (kernel_int.h). */
#include "kernel/kernel_int.h"

/* ---- types that can be keys ---- */

static bool set_kind(struct sk_key_col *c, enum sk_key_kind kind, uint32_t width,
                     uint32_t n_words) {
    c->kind = kind;
    c->width = width;
    c->n_words = n_words;
    return true;
}

/* Parses d:precision,scale[,bits]. */
static bool set_decimal(struct sk_key_col *c, const char *f) {
    const char *bits = strchr(f, ',');
    bits = bits ? strchr(bits + 1, ',') : NULL;
    if (!bits || !strcmp(bits, ",128")) return set_kind(c, SK_KEY_DECIMAL, 16, 2);
    if (!strcmp(bits, ",256")) return set_kind(c, SK_KEY_DECIMAL, 32, 4);
    return set_kind(c, SK_KEY_INT, !strcmp(bits, ",32") ? 4 : 8, 1);
}

/* Parses w:bytes. */
static bool set_fixed(struct sk_key_col *c, const char *f) {
    uint64_t n = 0;
    for (f += 2; *f >= '0' && *f <= '9' && n <= INT32_MAX; f++) n = n * 10 + (uint64_t)(*f - '0');
    return !*f && n <= INT32_MAX && set_kind(c, SK_KEY_FIXED, (uint32_t)n, (uint32_t)((n + 7) / 8));
}

static bool set_temporal(struct sk_key_col *c, const char *f) {
    if (!strcmp(f, "tdD") || !strcmp(f, "tts") || !strcmp(f, "ttm") || !strcmp(f, "tiM"))
        return set_kind(c, SK_KEY_INT, 4, 1);
    /* intervals of days have no order, since a month is not a fixed number of days */
    return f[1] != 'i' && set_kind(c, SK_KEY_INT, 8, 1);
}

bool sk_key_type(struct sk_key_col *c, const char *f) {
    switch (f[0]) {
    case 'n': return set_kind(c, SK_KEY_NULL, 0, 0);
    case 'b': return set_kind(c, SK_KEY_BOOL, 1, 1);
    case 'c': return set_kind(c, SK_KEY_INT, 1, 1);
    case 's': return set_kind(c, SK_KEY_INT, 2, 1);
    case 'i': return set_kind(c, SK_KEY_INT, 4, 1);
    case 'l': return set_kind(c, SK_KEY_INT, 8, 1);
    case 'C': return set_kind(c, SK_KEY_UINT, 1, 1);
    case 'S': return set_kind(c, SK_KEY_UINT, 2, 1);
    case 'I': return set_kind(c, SK_KEY_UINT, 4, 1);
    case 'L': return set_kind(c, SK_KEY_UINT, 8, 1);
    case 'e': return set_kind(c, SK_KEY_FLOAT, 2, 1);
    case 'f': return set_kind(c, SK_KEY_FLOAT, 4, 1);
    case 'g': return set_kind(c, SK_KEY_FLOAT, 8, 1);
    case 'u':
    case 'z': return set_kind(c, SK_KEY_VAR, 4, UINT32_MAX);
    case 'U':
    case 'Z': return set_kind(c, SK_KEY_VAR, 8, UINT32_MAX);
    case 'v': return set_kind(c, SK_KEY_VIEW, 16, UINT32_MAX);
    case 'w': return set_fixed(c, f);
    case 'd': return set_decimal(c, f);
    case 't': return set_temporal(c, f);
    default: return false;
    }
}

bool sk_can_be_key(const char *format) {
    struct sk_key_col unused;
    return sk_key_type(&unused, format);
}

static const char *type_name(const char *f) {
    static const struct {
        const char *start, *name;
    } names[] = {{"+l", "list"},
                 {"+L", "large list"},
                 {"+vl", "list view"},
                 {"+vL", "large list view"},
                 {"+w", "fixed-size list"},
                 {"+s", "struct"},
                 {"+m", "map"},
                 {"+u", "union"},
                 {"+r", "run-end encoded"},
                 {"tiD", "interval of days"},
                 {"tin", "interval of months, days and nanoseconds"}};
    for (size_t i = 0; i < SK_COUNT(names); i++)
        if (!strncmp(f, names[i].start, strlen(names[i].start))) return names[i].name;
    return f;
}

/* Returns the name of an extension type from a field's metadata, not NUL-terminated; n 0: there is
 * none. */
static struct sk_bytes extension_name(const char *m) {
    static const char key[] = "ARROW:extension:name";
    int32_t n, len[2];
    if (!m) return (struct sk_bytes){"", 0};
    memcpy(&n, m, 4);
    for (m += 4; n > 0; n--) {
        memcpy(&len[0], m, 4);
        const char *k = m + 4;
        memcpy(&len[1], k + len[0], 4);
        const char *v = k + len[0] + 4;
        if ((size_t)len[0] == sizeof key - 1 && !memcmp(k, key, sizeof key - 1))
            return (struct sk_bytes){v, (size_t)len[1]};
        m = v + len[1];
    }
    return (struct sk_bytes){"", 0};
}

/* ---- opening key columns ---- */

static void set_values(struct sk_key_col *c, const struct ArrowArray *a, int64_t offset) {
    c->offset = offset;
    if (c->kind == SK_KEY_NULL) return;
    c->valid = a->null_count ? a->buffers[0] : NULL;
    c->data = a->buffers[1];
    if (c->kind == SK_KEY_VAR) c->bytes = a->buffers[2];
    c->buffers = a->buffers;
}

static sk_rc set_column(struct sk_key_col *c, const struct ArrowSchema *s,
                        const struct ArrowArray *a, int64_t offset, struct sk_err *err) {
    const struct ArrowSchema *values = s->dictionary ? s->dictionary : s;
    c->name = s->name ? s->name : "";
    c->format = values->format;
    if (values->dictionary || !sk_key_type(c, values->format)) {
        struct sk_bytes ext = extension_name(s->metadata);
        return SK_ERR(
            err, SK_EINVAL,
            "column '%.200s' of type %s%s%.*s%s cannot be a key: its values have no order", c->name,
            s->dictionary ? "dictionary of " : "", type_name(values->format),
            (int)SK_MIN(ext.n, 200), (const char *)ext.p, ext.n ? " (an extension type)" : "");
    }
    offset += a->offset;
    if (!s->dictionary) {
        set_values(c, a, offset);
        return SK_OK;
    }
    c->code = s->format[0];
    c->codes_valid = a->null_count ? a->buffers[0] : NULL;
    c->codes = a->buffers[1];
    c->codes_offset = offset;
    c->n_values = a->dictionary->length;
    set_values(c, a->dictionary, a->dictionary->offset);
    return SK_OK;
}

sk_rc sk_column_find(const struct ArrowSchema *schema, const char *name, uint32_t *column,
                     struct sk_err *err) {
    for (int64_t i = 0; i < schema->n_children; i++) {
        const char *is = schema->children[i]->name;
        if (strcmp(is ? is : "", name) != 0) continue;
        *column = (uint32_t)i;
        return SK_OK;
    }
    return SK_ERR(err, SK_EINVAL, "there is no column '%.200s' among %lld", name,
                  (long long)schema->n_children);
}

sk_rc sk_keys_create(const struct ArrowSchema *schema, const struct ArrowArray *array,
                     const struct sk_key *key, uint32_t n_keys, struct sk_keys **out,
                     struct sk_err *err) {
    if (!n_keys) return SK_ERR(err, SK_EINVAL, "no key columns");
    if (array->length > UINT32_MAX)
        return SK_ERR(err, SK_EINVAL, "a block of %lld rows; keys are taken of up to 2^32 - 1",
                      (long long)array->length);
    struct sk_keys *k = sk_calloc(SK_TAG_KERNEL, sizeof *k + n_keys * sizeof k->col[0]);
    if (!k) return SK_ERR(err, SK_ENOMEM, "no memory for %u key columns", n_keys);
    sk_rc rc = SK_OK;
    k->rows = (uint64_t)array->length;
    k->n = n_keys;
    for (uint32_t i = 0; i < n_keys && rc == SK_OK; i++) {
        uint32_t at = key[i].column;
        k->col[i].descending = key[i].descending;
        k->col[i].nulls_first = key[i].nulls_first;
        if (at < schema->n_children)
            rc = set_column(&k->col[i], schema->children[at], array->children[at], array->offset,
                            err);
        else
            rc = SK_ERR(err, SK_EINVAL, "key column %u of a batch with %lld", at,
                        (long long)schema->n_children);
    }
    if (rc) sk_keys_destroy(k);
    else *out = k;
    return rc;
}

void sk_keys_destroy(struct sk_keys *k) { sk_free(k); }

uint64_t sk_keys_rows(const struct sk_keys *k) { return k->rows; }

/* ---- comparing rows ---- */

static bool is_text(const struct sk_key_col *c) {
    return c->kind == SK_KEY_VAR || c->kind == SK_KEY_VIEW;
}
static bool is_utf8(const struct sk_key_col *c) {
    return c->format[c->kind == SK_KEY_VIEW] == 'u' || c->format[0] == 'U';
}

static bool same_type(const struct sk_key_col *a, const struct sk_key_col *b) {
    if (is_text(a) && is_text(b)) return is_utf8(a) == is_utf8(b);
    return !strcmp(a->format, b->format);
}

sk_rc sk_keys_match(const struct sk_keys *a, const struct sk_keys *b, struct sk_err *err) {
    if (a->n != b->n) return SK_ERR(err, SK_EINVAL, "%u key columns against %u", a->n, b->n);
    for (uint32_t i = 0; i < a->n; i++) {
        const struct sk_key_col *x = &a->col[i], *y = &b->col[i];
        if (!same_type(x, y))
            return SK_ERR(err, SK_EINVAL,
                          "key column '%.200s' is of Arrow format '%.50s' on one side and of "
                          "'%.50s' ('%.200s') on the other",
                          x->name, x->format, y->format, y->name);
        if (x->descending != y->descending || x->nulls_first != y->nulls_first)
            return SK_ERR(err, SK_EINVAL, "key column '%.200s' has another order on the other side",
                          x->name);
    }
    return SK_OK;
}

static int compare_bytes(struct sk_bytes a, struct sk_bytes b, size_t from) {
    if (a.n > from && b.n > from) {
        int r = memcmp((const uint8_t *)a.p + from, (const uint8_t *)b.p + from,
                       SK_MIN(a.n, b.n) - from);
        if (r) return r < 0 ? -1 : 1;
    }
    return (a.n > b.n) - (a.n < b.n);
}

static int compare_values(const struct sk_key_col *a, int64_t i, const struct sk_key_col *b,
                          int64_t j, uint32_t w) {
    if (a->kind >= SK_KEY_FIXED)
        return compare_bytes(sk_key_bytes(a, i), sk_key_bytes(b, j), 8 * (size_t)w);
    for (uint32_t here; w < a->n_words; w++) {
        uint64_t x = sk_key_word(a, a->kind, a->width, i, w, &here),
                 y = sk_key_word(b, b->kind, b->width, j, w, &here);
        if (x != y) return x < y ? -1 : 1;
    }
    return 0;
}

int sk_keys_compare_from(const struct sk_keys *a, uint64_t i, const struct sk_keys *b, uint64_t j,
                         uint32_t first, uint32_t w) {
    for (uint32_t k = first; k < a->n; k++, w = 0) {
        const struct sk_key_col *x = &a->col[k], *y = &b->col[k];
        int64_t p = sk_key_at(x, i), q = sk_key_at(y, j);
        enum sk_key_class cp = sk_key_class(x, p), cq = sk_key_class(y, q);
        if (cp != cq) return sk_class_rank(x, cp) < sk_class_rank(x, cq) ? -1 : 1;
        if (cp != SK_CLASS_VALUE) continue;
        int r = compare_values(x, p, y, q, w);
        if (r) return x->descending ? -r : r;
    }
    return 0;
}

int sk_keys_compare(const struct sk_keys *a, uint64_t i, const struct sk_keys *b, uint64_t j) {
    return sk_keys_compare_from(a, i, b, j, 0, 0);
}

uint64_t sk_keys_prefix(const struct sk_keys *k, uint64_t row) {
    const struct sk_key_col *c = &k->col[0];
    int64_t at = sk_key_at(c, row);
    enum sk_key_class class = sk_key_class(c, at);
    uint64_t rank = (uint64_t)sk_class_rank(c, class) << 62;
    uint32_t here;
    if (class != SK_CLASS_VALUE || !c->n_words) return rank;
    uint64_t word = sk_key_word(c, c->kind, c->width, at, 0, &here);
    return rank | (c->descending ? ~word : word) >> 2;
}
