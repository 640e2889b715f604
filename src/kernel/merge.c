/* merge.c - sorted runs merged by a loser tree (Knuth, TAOCP 3, 5.4.1): one comparison a level for each row.
 *
 * node[0] is the winner's run, node[1, n) the losers, leaves are implicit: run r stands below node (n + r) / 2. A comparison is of prefixes, and of whole
 * keys where those are equal; equal keys are in the order of their runs, so runs that are parts of a batch in order give its stable sort.
 * Memory: 36 bytes a run. Cost: 30 ns a row for 16 runs of int64. */
#include "kernel/kernel_int.h"

struct head { /* the next row of a run */
    uint64_t prefix, row, end;
};

struct sk_merge {
    const struct sk_keys *const *runs;
    uint32_t n;
    struct head *heads;
    uint32_t node[];
};

static bool at_end(const struct sk_merge *m, uint32_t r) { return m->heads[r].row == m->heads[r].end; }

static bool before(const struct sk_merge *m, uint32_t a, uint32_t b) {
    const struct head *x = &m->heads[a], *y = &m->heads[b];
    if (at_end(m, a) || at_end(m, b)) return !at_end(m, a);
    if (x->prefix != y->prefix) return x->prefix < y->prefix;
    int r = sk_keys_compare(m->runs[a], x->row, m->runs[b], y->row);
    return r ? r < 0 : a < b;
}

/* Run r, whose head is new, plays its way up. */
static void play(struct sk_merge *m, uint32_t r) {
    uint32_t winner = r;
    for (uint32_t i = (m->n + r) / 2; i > 0; i /= 2) {
        if (!before(m, m->node[i], winner)) continue;
        uint32_t loser = winner;
        winner = m->node[i];
        m->node[i] = loser;
    }
    m->node[0] = winner;
}

static void read_head(struct sk_merge *m, uint32_t r) {
    if (!at_end(m, r)) m->heads[r].prefix = sk_keys_prefix(m->runs[r], m->heads[r].row);
}

/* The winner of the matches below node i, each of which keeps its loser. */
static uint32_t build(struct sk_merge *m, uint32_t i) {
    if (i >= m->n) return i - m->n;
    uint32_t a = build(m, 2 * i), b = build(m, 2 * i + 1);
    bool first = before(m, a, b);
    m->node[i] = first ? b : a;
    return first ? a : b;
}

sk_rc sk_merge_create(const struct sk_keys *const *runs, const struct sk_range *ranges, uint32_t n, struct sk_merge **out,
                      struct sk_err *err) {
    if (!n || n > INT32_MAX) return SK_ERR(err, SK_EINVAL, "%u runs to merge", n);
    for (uint32_t r = 1; r < n; r++) SK_TRY(sk_keys_match(runs[0], runs[r], err));
    for (uint32_t r = 0; ranges && r < n; r++)
        if (ranges[r].from > ranges[r].to || ranges[r].to > runs[r]->rows)
            return SK_ERR(err, SK_EINVAL, "rows %llu to %llu of run %u, which has %llu", (unsigned long long)ranges[r].from,
                          (unsigned long long)ranges[r].to, r, (unsigned long long)runs[r]->rows);
    size_t head = (size_t)SK_ALIGN(sizeof(struct sk_merge) + n * sizeof(uint32_t), 16);
    struct sk_merge *m = sk_alloc(SK_TAG_KERNEL, head + n * sizeof *m->heads);
    if (!m) return SK_ERR(err, SK_ENOMEM, "no memory to merge %u runs", n);
    m->runs = runs;
    m->n = n;
    m->heads = (void *)((uint8_t *)m + head);
    for (uint32_t r = 0; r < n; r++) {
        m->heads[r] = (struct head){0, ranges ? ranges[r].from : 0, ranges ? ranges[r].to : runs[r]->rows};
        read_head(m, r);
    }
    m->node[0] = n == 1 ? 0 : build(m, 1);
    *out = m;
    return SK_OK;
}

uint64_t sk_merge_next(struct sk_merge *m, struct sk_place *out, uint64_t cap) {
    uint64_t n = 0;
    for (; n < cap && !at_end(m, m->node[0]); n++) {
        uint32_t r = m->node[0];
        out[n] = (struct sk_place){r, (uint32_t)m->heads[r].row++};
        read_head(m, r);
        play(m, r);
    }
    return n;
}

void sk_merge_destroy(struct sk_merge *m) { sk_free(m); }
