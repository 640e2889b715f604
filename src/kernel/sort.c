/* sort.c - a stable sort of rows by several key columns, as an index.
 *
 * An entry is a word of a row's key and the row's number. A group of rows whose words were equal so
 * far is sorted by its next word with radix.c; rows that are equal in that word, too, form a group
 * for the next word: the next eight bytes of a text, the next 64 bits of a decimal, or the next
 * column. Null and NaN rows leave their group before it is sorted, so that every word belongs to a
 * value. Groups of few rows are sorted by comparing whole keys. Groups that are not sorted yet are
 * on a list, so long texts need no recursion, and the list is no longer than rows / FEW. Cost: 32
 * bytes of scratch a row; 10M int64 take 0.34 s. */
#include "base/containers/vec.h"
#include "kernel/kernel_int.h"

enum { FEW = 16 };

/* entries [from, to), which are equal in all words before word `word` of column `col` */
struct group {
    uint32_t from, to, col, word;
};

struct sorter {
    const struct sk_keys *keys;
    struct sk_entry *a, *tmp;
    SK_VEC(struct group) groups;
};

/* Sorts a small group by comparing whole keys from (col, word) on. */
static void sort_few(struct sorter *s, struct group g) {
    struct sk_entry *a = s->a + g.from;
    for (uint32_t i = 1; i < g.to - g.from; i++) {
        struct sk_entry e = a[i];
        uint32_t j = i;
        for (; j && sk_keys_compare_from(s->keys, a[j - 1].row, s->keys, e.row, g.col, g.word) > 0;
             j--)
            a[j] = a[j - 1];
        a[j] = e;
    }
}

/* Sorts a small group, or puts a larger one on the list. false: out of memory. */
static bool put_group(struct sorter *s, struct group g) {
    if (g.to - g.from < 2 || g.col == s->keys->n) return true;
    if (g.to - g.from > FEW) return sk_vec_push(&s->groups, SK_TAG_KERNEL, g);
    sort_few(s, g);
    return true;
}

/* Divides the group into values, NaNs and nulls; *g becomes the group of the values. */
static bool part_classes(struct sorter *s, struct group *g) {
    const struct sk_key_col *c = &s->keys->col[g->col];
    if (!c->valid && !(c->code && c->codes_valid) && c->kind != SK_KEY_FLOAT &&
        c->kind != SK_KEY_NULL)
        return true;
    struct sk_entry *a = s->a + g->from;
    uint32_t n = g->to - g->from, count[3] = {0}, at[4] = {0};
    for (uint32_t i = 0; i < n; i++) {
        a[i].end = sk_class_rank(c, sk_key_class(c, sk_key_at(c, a[i].row)));
        count[a[i].end]++;
    }
    unsigned values = sk_class_rank(c, SK_CLASS_VALUE);
    if (count[values] == n) return true;
    for (unsigned r = 0; r < 3; r++) at[r + 1] = at[r] + count[r];
    uint32_t to[3] = {at[0], at[1], at[2]};
    for (uint32_t i = 0; i < n; i++) s->tmp[to[a[i].end]++] = a[i];
    memcpy(a, s->tmp, n * sizeof *a);
    for (unsigned r = 0; r < 3; r++)
        if (r != values &&
            !put_group(s, (struct group){g->from + at[r], g->from + at[r + 1], g->col + 1, 0}))
            return false;
    g->to = g->from + at[values + 1];
    g->from += at[values];
    return true;
}

SK_INLINE void read_words(struct sorter *s, struct group g, enum sk_key_kind kind, uint32_t width) {
    const struct sk_key_col *c = &s->keys->col[g.col];
    uint64_t flip = c->descending ? UINT64_MAX : 0;
    for (uint32_t i = g.from; i < g.to; i++) {
        struct sk_entry *e = &s->a[i];
        e->key = sk_key_word(c, kind, width, sk_key_at(c, e->row), g.word, &e->end) ^ flip;
    }
}

static void read_group(struct sorter *s, struct group g) {
    const struct sk_key_col *c = &s->keys->col[g.col];
    if (c->kind == SK_KEY_INT && c->width == 8) read_words(s, g, SK_KEY_INT, 8);
    else if (c->kind == SK_KEY_INT && c->width == 4) read_words(s, g, SK_KEY_INT, 4);
    else if (c->kind == SK_KEY_FLOAT && c->width == 8) read_words(s, g, SK_KEY_FLOAT, 8);
    else if (c->kind == SK_KEY_VAR && c->width == 4) read_words(s, g, SK_KEY_VAR, 4);
    else if (c->kind == SK_KEY_FIXED) read_words(s, g, SK_KEY_FIXED, c->width);
    else read_words(s, g, c->kind, c->width);
}

/* Divides texts that are equal in this word. Texts that end in this word come first, by length,
 * then the longer ones (for a descending key in the opposite order). */
static bool part_ends(struct sorter *s, struct group g) {
    bool down = s->keys->col[g.col].descending;
    struct sk_entry *a = s->a + g.from;
    uint32_t n = g.to - g.from, at[10] = {0};
    for (uint32_t i = 0; i < n; i++) at[1 + (down ? 8 - a[i].end : a[i].end)]++;
    for (unsigned e = 0; e < 9; e++) at[e + 1] += at[e];
    uint32_t to[9];
    memcpy(to, at, sizeof to);
    for (uint32_t i = 0; i < n; i++) s->tmp[to[down ? 8 - a[i].end : a[i].end]++] = a[i];
    memcpy(a, s->tmp, n * sizeof *a);
    for (unsigned e = 0; e < 9; e++) {
        bool goes_on = (down ? 8 - e : e) == 8;
        struct group next = {g.from + at[e], g.from + at[e + 1], g.col + !goes_on,
                             goes_on ? g.word + 1 : 0};
        if (!put_group(s, next)) return false;
    }
    return true;
}

/* Makes a group of each range of rows with equal words. */
static bool part_ties(struct sorter *s, struct group g) {
    const struct sk_key_col *c = &s->keys->col[g.col];
    bool text = c->n_words == UINT32_MAX, more = g.word + 1 < c->n_words;
    if (!more && g.col + 1 == s->keys->n) return true;
    for (uint32_t i = g.from, j; i < g.to; i = j) {
        for (j = i + 1; j < g.to && s->a[j].key == s->a[i].key; j++) continue;
        if (j - i < 2) continue;
        struct group tie = {i, j, more ? g.col : g.col + 1, more ? g.word + 1 : 0};
        if (text ? !part_ends(s, (struct group){i, j, g.col, g.word}) : !put_group(s, tie))
            return false;
    }
    return true;
}

static bool sort_group(struct sorter *s, struct group g) {
    if (!g.word && !part_classes(s, &g)) return false;
    /* values of 0 bytes are all equal */
    if (!s->keys->col[g.col].n_words)
        return put_group(s, (struct group){g.from, g.to, g.col + 1, 0});
    if (g.to - g.from < 2) return true;
    read_group(s, g);
    sk_radix_sort(s->a + g.from, s->tmp + g.from, g.to - g.from);
    return part_ties(s, g);
}

sk_rc sk_sort(const struct sk_keys *k, uint32_t *index, struct sk_err *err) {
    for (uint64_t i = 0; i < k->rows; i++) index[i] = (uint32_t)i;
    return sk_sort_some(k, index, k->rows, err);
}

sk_rc sk_sort_some(const struct sk_keys *k, uint32_t *index, uint64_t n, struct sk_err *err) {
    struct sorter s = {.keys = k, .a = sk_alloc_large(SK_TAG_KERNEL, 2 * (size_t)n * sizeof *s.a)};
    bool ok = s.a != NULL;
    if (ok) {
        s.tmp = s.a + n;
        for (uint64_t i = 0; i < n; i++) s.a[i] = (struct sk_entry){.row = index[i]};
        ok = put_group(&s, (struct group){.to = (uint32_t)n});
        while (ok && s.groups.n) ok = sort_group(&s, sk_vec_pop(&s.groups));
        for (uint64_t i = 0; ok && i < n; i++) index[i] = s.a[i].row;
    }
    sk_vec_free(&s.groups);
    sk_free(s.a);
    return ok ? SK_OK
              : SK_ERR(err, SK_ENOMEM, "no memory to sort %llu rows", (unsigned long long)n);
}
