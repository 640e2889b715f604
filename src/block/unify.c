/* unify.c - makes one dictionary of several: finds its values, and the new code of each old code.
 *
 * The unified dictionary has the values of all dictionaries in the order of their batches, each
 * value where it occurs first; null is a value like others. Values are compared by their bytes
 * (fixed width, bool, text in all its forms); nested values are not compared, only concatenated.
 * Dictionaries that share memory are read once, and if all have the same values at the same codes,
 * the first is used as it is. Cost: 20 ns a value; 16 bytes a value while it works, 4 bytes a value
 * afterwards. */
#include "base/rand.h"
#include "block/block_int.h"

struct value { /* a value: where it is (batch and code), and its hash */
    uint64_t hash;
    uint32_t from, code;
};
struct table {
    const struct sk_block_type *t;
    struct sk_block_nodes in;
    uint32_t *slot; /* [mask + 1]: number of the value + 1; 0: free */
    uint64_t mask;
    struct value *value; /* [n]: the values by their number */
    uint32_t n;
};

static bool comparable(enum sk_block_kind k) {
    return k == SK_BLOCK_NULL || k == SK_BLOCK_BOOL || k == SK_BLOCK_FIXED || k == SK_BLOCK_VAR ||
           k == SK_BLOCK_VIEW;
}

/* Returns the bytes of value i; p NULL: the value is null. */
static struct sk_bytes bytes_of(const struct sk_block_type *t, const struct ArrowArray *a,
                                int64_t i) {
    static const uint8_t bools[2] = {0, 1};
    i += a->offset;
    if (t->kind == SK_BLOCK_NULL ||
        (a->null_count && a->buffers[0] && !sk_block_bit(a->buffers[0], i)))
        return (struct sk_bytes){NULL, 0};
    const uint8_t *data = a->buffers[1];
    if (t->kind == SK_BLOCK_BOOL) return (struct sk_bytes){&bools[sk_block_bit(data, i)], 1};
    if (t->kind == SK_BLOCK_FIXED)
        return (struct sk_bytes){t->width ? data + i * t->width : bools, (size_t)t->width};
    if (t->kind == SK_BLOCK_VAR) {
        int64_t at = sk_block_int(data, t->width, i), to = sk_block_int(data, t->width, i + 1);
        return (struct sk_bytes){to > at ? (const uint8_t *)a->buffers[2] + at : bools,
                                 to > at ? (size_t)(to - at) : 0};
    }
    int32_t len = sk_block_i32(data, 4 * i);
    const uint8_t *view = data + 16 * i;
    if (len <= SK_BLOCK_VIEW_INLINE) return (struct sk_bytes){view + 4, (size_t)SK_MAX(len, 0)};
    return (struct sk_bytes){(const uint8_t *)a->buffers[2 + sk_block_i32(view, 2)] +
                                 sk_block_i32(view, 3),
                             (size_t)len};
}

static uint64_t hash_of(struct sk_bytes b) {
    uint64_t h = sk_rand_mix(b.p ? b.n + 1 : 0), word;
    const uint8_t *p = b.p;
    for (size_t n = p ? b.n : 0; n; n -= SK_MIN(n, 8), p += 8) {
        word = 0;
        memcpy(&word, p, SK_MIN(n, 8));
        h = sk_rand_mix(h ^ word);
    }
    return h;
}

static bool equal(const struct table *u, const struct value *v, struct sk_bytes b) {
    struct sk_bytes a = bytes_of(u->t, u->in.a[v->from], v->code);
    if (!a.p || !b.p) return !a.p && !b.p;
    return a.n == b.n && !memcmp(a.p, b.p, a.n);
}

/* Returns the number of a value; a value that was not seen before gets the next number. */
static uint32_t number_of(struct table *u, uint32_t from, uint32_t code) {
    struct sk_bytes b = bytes_of(u->t, u->in.a[from], code);
    uint64_t h = hash_of(b), i = h & u->mask;
    for (; u->slot[i]; i = (i + 1) & u->mask) {
        const struct value *v = &u->value[u->slot[i] - 1];
        if (v->hash == h && equal(u, v, b)) return u->slot[i] - 1;
    }
    u->value[u->n] = (struct value){h, from, code};
    u->slot[i] = u->n + 1;
    return u->n++;
}

static bool same_memory(const struct ArrowArray *a, const struct ArrowArray *b) {
    if (a == b) return true;
    if (a->length != b->length || a->offset != b->offset || a->n_buffers != b->n_buffers ||
        a->n_children || a->dictionary)
        return false;
    for (int64_t i = 0; i < a->n_buffers; i++)
        if (a->buffers[i] != b->buffers[i]) return false;
    return true;
}

/* Numbers all values, and fills map[b][code] for all batches; *same: see sk_block_unified. */
static void number_all(struct table *u, const uint32_t **map, uint32_t *memory, bool *same) {
    *same = true;
    for (uint32_t b = 0; b < u->in.n; b++) {
        const struct ArrowArray *a = u->in.a[b];
        map[b] = memory;
        if (b && same_memory(a, u->in.a[b - 1])) {
            map[b] = map[b - 1];
            continue;
        }
        for (int64_t i = 0; i < a->length; i++) {
            memory[i] = u->slot ? number_of(u, b, (uint32_t)i) : u->n;
            if (!u->slot) u->value[u->n++] = (struct value){0, b, (uint32_t)i};
            *same &= memory[i] == (uint32_t)i;
        }
        *same &= a->length == u->in.a[0]->length;
        memory += a->length;
    }
}

static sk_rc too_large(struct sk_err *err, uint32_t n) {
    return SK_ERR(err, SK_EINVAL, "the dictionaries of %u batches have more than 2^31 values", n);
}

sk_rc sk_block_unify(const struct sk_block_type *t, struct sk_block_nodes dicts,
                     struct sk_block_extra **list, struct sk_block_unified *out,
                     struct sk_err *err) {
    uint64_t total = 0, slots = 16;
    out->same = true;
    for (uint32_t b = 1; b < dicts.n; b++) out->same &= same_memory(dicts.a[0], dicts.a[b]);
    if (out->same) return SK_OK;
    for (uint32_t b = 0; b < dicts.n; b++) {
        if (dicts.a[b]->length > INT32_MAX || (total += (uint64_t)dicts.a[b]->length) > INT32_MAX)
            return too_large(err, dicts.n);
    }
    while (slots < 2 * total) slots *= 2;
    bool compare = comparable(t->kind);
    struct table u = {.t = t, .in = dicts, .mask = slots - 1};
    struct sk_block_builder b = {.mem = NULL};
    const uint32_t **map = sk_block_extra_alloc(list, dicts.n * sizeof *map);
    uint32_t *memory = sk_block_extra_alloc(list, (size_t)total * sizeof *memory);
    u.value = sk_alloc(SK_TAG_BLOCK, (size_t)total * sizeof *u.value);
    if (compare) u.slot = sk_calloc(SK_TAG_BLOCK, (size_t)slots * sizeof *u.slot);
    bool ok = map && memory && u.value && (u.slot || !compare);
    if (ok) number_all(&u, map, memory, &out->same);
    for (uint32_t i = 0; ok && !out->same && i < u.n; i++)
        ok = sk_block_builder_push(&b, u.value[i].from, u.value[i].code, 1);
    out->values = sk_block_builder_done(&b, list);
    out->map = map;
    sk_free(u.slot);
    sk_free(u.value);
    return ok ? SK_OK
              : SK_ERR(err, SK_ENOMEM, "no memory to unify the dictionaries of %u batches",
                       dicts.n);
}
