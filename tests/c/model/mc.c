/* mc.c - the search of mc.h.
 *
 * Seen states are in a hash table with open addressing; for each state its parent and the step from
 * there are stored by its number. The queue is one buffer of compressed states in the order of
 * their numbers. Invariant: states are numbered in the order of discovery, so a parent has a
 * smaller number, and the depth never decreases along the queue.
 *
 * Cost: about 0.3 us a step for a state of 900 bytes (hash, squeeze, look-up); the rest is the
 * model's. */
#include "mc.h"

#include <stdarg.h>

#include "base/clock.h"
#include "base/containers/vec.h"

struct seen { /* a state that was numbered */
    uint32_t parent;
    uint16_t step, depth;
};

struct mc {
    const struct mc_model *model;
    uint64_t states_max;
    struct mc_result *r;
    struct place {     /* of the table of states, beside one another for the cache's sake */
        uint64_t hash; /* 0: free */
        uint32_t number;
    } *at;
    uint64_t mask;
    SK_VEC(struct seen) seen;
    SK_VEC(uint32_t) edge_from; /* all steps, for the walk backwards from the ends */
    SK_VEC(uint32_t) edge_to;
    SK_VEC(uint32_t) ends;
    uint64_t *q;      /* squeezed states, in words */
    uint32_t n_words; /* of a state */
    size_t q_head, q_tail, q_cap;
    uint32_t cur;    /* number of the state that is expanded */
    uint32_t n_step; /* steps emitted from it */
    bool stop;
    bool walk; /* random walk: only one successor is used */
    SK_VEC(uint16_t) path;
    /* going a way again */
    bool replay;
    uint16_t want;
    bool got;
    uint8_t kept[MC_STATE_MAX];
    char text[400];
};

static uint64_t mix(uint64_t a, uint64_t b) {
    __uint128_t p =
        (__uint128_t)(a ^ UINT64_C(0x9e3779b97f4a7c15)) * (b ^ UINT64_C(0xe7037ed1a0b428db));
    return (uint64_t)p ^ (uint64_t)(p >> 64);
}

enum { WORDS_MAX = MC_STATE_MAX / 8 };

static uint64_t hash_of(const uint64_t *w, uint32_t n) {
    /* never 0; four chains, so that multiplications overlap */
    const uint64_t K = UINT64_C(0xd6e8feb86659fd93);
    uint64_t h[4] = {n, 1, 2, 3};
    uint32_t i = 0;
    for (; i + 4 <= n; i += 4) {
        h[0] = mix(h[0] ^ w[i], K);
        h[1] = mix(h[1] ^ w[i + 1], K);
        h[2] = mix(h[2] ^ w[i + 2], K);
        h[3] = mix(h[3] ^ w[i + 3], K);
    }
    for (; i < n; i++) h[i % 4] = mix(h[i % 4] ^ w[i], K);
    uint64_t x = mix(mix(h[0], h[1]), mix(h[2], h[3]));
    return x ? x : 1;
}

/* Compresses a state, most of whose words are zero: writes one bit for each word, then the words
 * that are not zero. */
static uint32_t squeeze(const uint64_t *w, uint32_t n, uint64_t *out) {
    uint32_t n_bits = (n + 63) / 64, k = n_bits;
    memset(out, 0, n_bits * sizeof *out);
    for (uint32_t i = 0; i < n; i++) {
        out[k] = w[i];
        k += w[i] != 0;
        out[i / 64] |= (uint64_t)(w[i] != 0) << i % 64;
    }
    return k;
}

/* Decompresses a state; returns the number of words read. */
static uint32_t unsqueeze(const uint64_t *p, uint32_t n, uint64_t *w) {
    uint32_t k = (n + 63) / 64;
    for (uint32_t i = 0; i < n; i++) w[i] = p[i / 64] >> i % 64 & 1 ? p[k++] : 0;
    return k;
}

static void grow_table(struct mc *m) {
    uint64_t n = m->mask ? (m->mask + 1) * 2 : 1u << 16;
    struct place *at = sk_calloc(SK_TAG_TEST, n * sizeof *at);
    CHECK(at);
    for (uint64_t i = 0; m->mask && i <= m->mask; i++) {
        if (!m->at[i].hash) continue;
        uint64_t k = m->at[i].hash & (n - 1);
        while (at[k].hash) k = (k + 1) & (n - 1);
        at[k] = m->at[i];
    }
    sk_free(m->at);
    m->at = at;
    m->mask = n - 1;
}

/* Returns the number of the state; *fresh: it was not seen before. */
static uint32_t number_of(struct mc *m, const void *s, bool *fresh) {
    uint64_t c[WORDS_MAX];
    c[m->n_words - 1] = 0;
    memcpy(c, s, m->model->size);
    if (m->model->canon) m->model->canon(m->model->arg, c);
    uint64_t h = hash_of(c, m->n_words);
    if ((uint64_t)m->seen.n * 2 >= m->mask) grow_table(m);
    uint64_t k = h & m->mask;
    while (m->at[k].hash && m->at[k].hash != h) k = (k + 1) & m->mask;
    *fresh = !m->at[k].hash;
    if (*fresh) m->at[k] = (struct place){h, m->seen.n};
    return m->at[k].number;
}

static void push(struct mc *m, const void *s) {
    uint64_t w[WORDS_MAX];
    w[m->n_words - 1] = 0;
    memcpy(w, s, m->model->size);
    if (m->q_tail + WORDS_MAX * 2 > m->q_cap) {
        size_t live = m->q_tail - m->q_head,
               cap = SK_MAX((size_t)1 << 17, 2 * (live + WORDS_MAX * 2));
        uint64_t *q = sk_alloc(SK_TAG_TEST, cap * sizeof *q);
        CHECK(q);
        if (live) memcpy(q, m->q + m->q_head, live * sizeof *q);
        sk_free(m->q);
        m->q = q;
        m->q_cap = cap;
        m->q_tail = live;
        m->q_head = 0;
    }
    m->q_tail += squeeze(w, m->n_words, m->q + m->q_tail);
}

static bool pop(struct mc *m, void *s) {
    uint64_t w[WORDS_MAX];
    if (m->q_head == m->q_tail) return false;
    m->q_head += unsqueeze(m->q + m->q_head, m->n_words, w);
    memcpy(s, w, m->model->size);
    return true;
}

static void print_way(struct mc *m, uint32_t to, uint32_t last_step, const char *wrong);
static void print_steps(struct mc *m, const uint16_t *steps, uint32_t n, const char *wrong);

void mc_step(struct mc *m, const void *succ, const char *wrong, const char *fmt, ...) {
    uint32_t step = m->n_step++;
    if (m->replay) {
        if (step != m->want) return;
        va_list ap;
        va_start(ap, fmt);
        vsnprintf(m->text, sizeof m->text, fmt, ap);
        va_end(ap);
        memcpy(m->kept, succ, m->model->size);
        m->got = true;
        return;
    }
    if (m->stop) return;
    m->r->steps++;
    if (m->walk) {
        if (!wrong && test_below(m->n_step) != 0) return;
        memcpy(m->kept, succ, m->model->size);
        m->want = (uint16_t)step;
        if (!wrong) return;
        m->stop = true;
        CHECK(sk_vec_push(&m->path, SK_TAG_TEST, (uint16_t)step));
        print_steps(m, m->path.p, m->path.n, wrong);
        return;
    }
    if (wrong) {
        m->stop = true;
        print_way(m, m->cur, step, wrong);
        return;
    }
    bool fresh;
    uint32_t no = number_of(m, succ, &fresh);
    CHECK(sk_vec_push(&m->edge_from, SK_TAG_TEST, m->cur) &&
          sk_vec_push(&m->edge_to, SK_TAG_TEST, no));
    if (!fresh) return;
    struct seen x = {
        .parent = m->cur, .step = (uint16_t)step, .depth = (uint16_t)(m->seen.p[m->cur].depth + 1)};
    CHECK(step < UINT16_MAX && sk_vec_push(&m->seen, SK_TAG_TEST, x));
    m->r->depth = SK_MAX(m->r->depth, x.depth);
    push(m, succ);
    if (m->seen.n >= m->states_max) m->stop = true;
}

static void print_steps(struct mc *m, const uint16_t *steps, uint32_t n, const char *wrong) {
    uint64_t s[WORDS_MAX] = {0};
    size_t at = 0;
    /* copied first, since `wrong` may be in a buffer that the model overwrites below */
    snprintf(m->r->wrong, sizeof m->r->wrong, "%s", wrong);
    m->replay = true;
    m->model->init(m->model->arg, s);
    for (uint32_t i = 0; i < n; i++) {
        m->want = steps[i];
        m->n_step = 0;
        m->got = false;
        m->model->next(m->model->arg, s, m);
        CHECK(m->got); /* this fails if the model's successors depend on more than the state */
        memcpy(s, m->kept, m->model->size);
        if (at < sizeof m->r->way)
            at += (size_t)snprintf(m->r->way + at, sizeof m->r->way - at, "%3u. %s\n", i + 1,
                                   m->text);
    }
    m->replay = false;
    m->r->way_len = n;
}

/* Prints the steps from the initial state to state `to`, and one more step from there (UINT32_MAX:
 * none). */
static void print_way(struct mc *m, uint32_t to, uint32_t last_step, const char *wrong) {
    uint32_t n = m->seen.p[to].depth, i = n;
    uint16_t *steps = sk_alloc(SK_TAG_TEST, (n + 1) * sizeof *steps);
    CHECK(steps);
    for (uint32_t k = to; i > 0; k = m->seen.p[k].parent) steps[--i] = m->seen.p[k].step;
    if (last_step != UINT32_MAX) steps[n++] = (uint16_t)last_step;
    print_steps(m, steps, n, wrong);
    sk_free(steps);
}

/* Walks all steps backwards from the accepted ends: a state that is not reached can never end. */
static void check_that_all_can_end(struct mc *m) {
    uint32_t n = m->seen.n, *first = sk_calloc(SK_TAG_TEST, ((size_t)n + 2) * sizeof *first);
    uint32_t *from = sk_alloc(SK_TAG_TEST, ((size_t)m->edge_to.n + 1) * sizeof *from);
    uint8_t *met = sk_calloc(SK_TAG_TEST, n);
    uint32_t *todo = sk_alloc(SK_TAG_TEST, ((size_t)n + 1) * sizeof *todo), n_todo = 0;
    CHECK(first && from && met && todo);
    for (uint32_t i = 0; i < m->edge_to.n; i++) first[m->edge_to.p[i] + 2]++;
    for (uint32_t i = 1; i < n + 2; i++) first[i] += first[i - 1];
    for (uint32_t i = 0; i < m->edge_to.n; i++)
        from[first[m->edge_to.p[i] + 1]++] = m->edge_from.p[i];
    for (uint32_t i = 0; i < m->ends.n; i++) {
        met[m->ends.p[i]] = 1;
        todo[n_todo++] = m->ends.p[i];
    }
    while (n_todo) {
        uint32_t x = todo[--n_todo];
        for (uint32_t i = first[x]; i < first[x + 1]; i++)
            if (!met[from[i]]) {
                met[from[i]] = 1;
                todo[n_todo++] = from[i];
            }
    }
    for (uint32_t i = 0; i < n; i++)
        if (!met[i]) {
            print_way(m, i, UINT32_MAX, "from here no run can end");
            break;
        }
    sk_free(first);
    sk_free(from);
    sk_free(met);
    sk_free(todo);
}

void mc_run(const struct mc_model *model, uint64_t states, struct mc_result *out) {
    struct mc *m = sk_calloc(SK_TAG_TEST, sizeof *m);
    uint64_t s[WORDS_MAX] = {0};
    bool fresh;
    int64_t t0 = sk_thread_cpu_ns();
    CHECK(m && model->size <= MC_STATE_MAX);
    memset(out, 0, sizeof *out);
    *m = (struct mc){.model = model,
                     .states_max = states,
                     .r = out,
                     .n_words = (uint32_t)((model->size + 7) / 8)};
    grow_table(m);
    model->init(model->arg, s);
    (void)number_of(m, s, &fresh);
    CHECK(sk_vec_push(&m->seen, SK_TAG_TEST, (struct seen){0}));
    push(m, s);
    for (m->cur = 0; !m->stop && pop(m, s); m->cur++) {
        m->n_step = 0;
        model->next(model->arg, s, m);
        if (m->n_step || m->stop) continue;
        const char *wrong = model->end(model->arg, s);
        if (wrong) {
            m->stop = true;
            print_way(m, m->cur, UINT32_MAX, wrong);
        }
        out->ends++;
        CHECK(sk_vec_push(&m->ends, SK_TAG_TEST, m->cur));
    }
    out->states = m->seen.n;
    out->all = !m->stop;
    if (out->all) check_that_all_can_end(m);
    out->seconds = (double)(sk_thread_cpu_ns() - t0) / 1e9;
    sk_free(m->at);
    sk_free(m->q);
    sk_vec_free(&m->seen);
    sk_vec_free(&m->edge_from);
    sk_vec_free(&m->edge_to);
    sk_vec_free(&m->ends);
    sk_free(m);
}

void mc_walks(const struct mc_model *model, uint64_t n, struct mc_result *out) {
    struct mc *m = sk_calloc(SK_TAG_TEST, sizeof *m);
    int64_t t0 = sk_thread_cpu_ns();
    CHECK(m && model->size <= MC_STATE_MAX);
    memset(out, 0, sizeof *out);
    *m = (struct mc){.model = model, .r = out, .walk = true};
    for (; out->ends < n && !m->stop; out->ends++) {
        uint64_t s[WORDS_MAX] = {0};
        m->path.n = 0;
        model->init(model->arg, s);
        for (;;) {
            m->n_step = 0;
            model->next(model->arg, s, m);
            if (m->stop || !m->n_step) break;
            memcpy(s, m->kept, model->size);
            CHECK(sk_vec_push(&m->path, SK_TAG_TEST, m->want));
            out->states++;
        }
        out->depth = SK_MAX(out->depth, m->path.n);
        const char *wrong = m->stop ? NULL : model->end(model->arg, s);
        if (!wrong) continue;
        m->stop = true;
        print_steps(m, m->path.p, m->path.n, wrong);
    }
    out->seconds = (double)(sk_thread_cpu_ns() - t0) / 1e9;
    sk_vec_free(&m->path);
    sk_free(m);
}
