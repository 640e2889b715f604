/* shalloc.c - the book of extents: leases, seals, references and reuse of the data segment.
 *
 * The book is private heap memory of the engine's process that covers [0, size) with extents
 * (drawing in store_int.h). This file touches no shared page and makes no system call; pins and
 * deaths are in pin.c, searches in free_index.c.
 *
 * Invariant (checked by sk_store_check): extents cover the segment without gap; two free neighbours
 * are never both warm or both cold; `live` has every leased or sealed extent and nothing else; a
 * run of two or more pieces has its span.
 *
 * Where an allocation goes, in this order:
 *   1. a warm piece of the bin that fits best (a touched page costs a tenth of a fresh one);
 *   2. for 1 MiB and more: one of the longest warm pieces of at least half the size, completed by
 *      its cold neighbours;
 *   3. a cold piece, lowest address first;
 *   4. a mixed run, lowest address first, where it overlaps most with warm pieces: an allocation
 *      never fails only because free memory is partly warm and partly cold;
 *   5. a warm piece again, without the limit on effort (a bin's list may be long: 100 us for 1e5
 *      pieces of nearly this length; a refusal is remembered until a free makes a long enough run,
 *      so a caller that asks again and again pays it once).
 * Every operation that can fail reserves nodes and map slots first and then cannot fail half-way;
 * freeing never allocates.
 *
 * Cost: alloc + commit + unref together 50 ns in cache, 150 to 280 ns among 1e5 live extents at
 * random; 64 bytes of book (+ 56 for the reserved span) for each extent. */
#include "store/store_int.h"

#define WARM_EFFORT 16u
#define MIXED_MIN (UINT64_C(1) << 20)
#define MIXED_PROBES 8u
#define WINDOW_PIECES 16u

/* ---- create and destroy ---------------------------------------------------------------------- */

static bool reserve_exts(struct sk_store *st, uint64_t n) {
    uint64_t exts = st->ext_pool.n_used + n;
    return sk_pool_reserve(&st->ext_pool, n) &&
           sk_pool_reserve(&st->span_pool, exts - st->span_pool.n_used);
}

static void add_span(struct sk_store *st, struct sk_spans *t, sk_off off, uint64_t len,
                     struct sk_ext *ext) {
    struct sk_span *s = sk_pool_get(&st->span_pool);
    SK_ASSERT(s); /* a span was reserved together with each extent, so there is one */
    s->off = off;
    s->len = len;
    s->ext = ext;
    sk_spans_add(t, s);
}

static void del_span(struct sk_store *st, struct sk_spans *t, sk_off off) {
    sk_pool_put(&st->span_pool, sk_spans_del(t, off));
}

sk_rc sk_store_create(struct sk_store **out, uint64_t size, struct sk_err *err) {
    size &= ~(uint64_t)(SK_STORE_ALIGN - 1);
    if (size == 0 || size > SK_STORE_MAX)
        return SK_ERR(err, SK_EINVAL,
                      "create store: size must be between 64 bytes and 64 TiB; check "
                      "object_store_memory in init()");
    struct sk_store *st = sk_calloc(SK_TAG_STORE, sizeof *st);
    if (!st) return SK_ERR(err, SK_ENOMEM, "create store: no memory for its book");
    st->size = size;
    st->refused_len = UINT64_MAX;
    sk_map_init(&st->live, SK_TAG_STORE);
    sk_map_init(&st->pins, SK_TAG_STORE);
    sk_map_init(&st->procs, SK_TAG_STORE);
    sk_pool_init(&st->ext_pool, SK_TAG_STORE, sizeof(struct sk_ext));
    sk_pool_init(&st->span_pool, SK_TAG_STORE, sizeof(struct sk_span));
    sk_pool_init(&st->pin_pool, SK_TAG_STORE, sizeof(struct sk_pin));
    if (!reserve_exts(st, 1)) {
        sk_store_destroy(st);
        return SK_ERR(err, SK_ENOMEM, "create store: no memory for its book");
    }
    struct sk_ext *x = sk_pool_get(&st->ext_pool);
    *x = (struct sk_ext){.off = 0, .len = size, .state = SK_EXT_COLD};
    st->first = x;
    add_span(st, &st->cold, 0, size, x);
    *out = st;
    return SK_OK;
}

sk_rc sk_store_add_overflow(struct sk_store *st, uint64_t size, struct sk_err *err) {
    SK_ASSERT(!st->overflow); /* offsets behind the overflow are in use already */
    if (size > SK_STORE_MAX - st->size)
        return SK_ERR(err, SK_EINVAL, "create store: no more than 64 TiB with what lies on disk");
    return sk_store_create(&st->overflow, size, err);
}

void sk_store_destroy(struct sk_store *st) {
    if (!st) return;
    sk_store_destroy(st->overflow);
    uint64_t key;
    void *val;
    for (uint32_t i = 0; sk_map_next(&st->procs, &i, &key, &val);) sk_free(val);
    sk_map_deinit(&st->live);
    sk_map_deinit(&st->pins);
    sk_map_deinit(&st->procs);
    sk_pool_deinit(&st->ext_pool);
    sk_pool_deinit(&st->span_pool);
    sk_pool_deinit(&st->pin_pool);
    sk_free(st);
}

/* ---- the list by address and the indices ----------------------------------------------------- */

/* Links x behind prev; with prev NULL, x becomes the first extent. */
static void link_after(struct sk_store *st, struct sk_ext *prev, struct sk_ext *x) {
    x->prev = prev;
    x->next = prev ? prev->next : st->first;
    if (prev) prev->next = x;
    else st->first = x;
    if (x->next) x->next->prev = x;
}

static void unlink_ext(struct sk_store *st, struct sk_ext *x) {
    SK_DCHECK((x->prev ? x->prev->next : st->first) == x && (!x->next || x->next->prev == x));
    if (x->prev) x->prev->next = x->next;
    else st->first = x->next;
    if (x->next) x->next->prev = x->prev;
    sk_pool_put(&st->ext_pool, x);
}

static bool is_free(const struct sk_ext *x) { return x && SK_EXT_IS_FREE(x); }
static bool in_mixed_run(const struct sk_ext *piece) {
    return is_free(piece->prev) || is_free(piece->next);
}

static void index_add(struct sk_store *st, struct sk_ext *x) {
    if (x->state == SK_EXT_WARM) sk_bins_add(&st->warm, x);
    else add_span(st, &st->cold, x->off, x->len, x);
}

static void index_del(struct sk_store *st, struct sk_ext *x) {
    if (x->state == SK_EXT_WARM) sk_bins_del(&st->warm, x);
    else del_span(st, &st->cold, x->off);
}

/* the run that a piece belongs to */
struct run {
    sk_off off, end;
    struct sk_ext *head;
};

static struct run run_of(const struct sk_store *st, struct sk_ext *piece) {
    if (!in_mixed_run(piece)) return (struct run){piece->off, sk_ext_end(piece), piece};
    const struct sk_span *s = sk_spans_floor(&st->runs, piece->off);
    SK_ASSERT(s && s->off + s->len >= sk_ext_end(piece));
    return (struct run){s->off, s->off + s->len, s->ext};
}

/* ---- where to allocate ----------------------------------------------------------------------- */

/* Bytes of [off, off + len) that lie on warm pieces; x is the piece that has `off`, or one before
 * it. */
static uint64_t warm_overlap(const struct sk_ext *x, sk_off off, uint64_t len) {
    uint64_t warm = 0;
    for (; x && x->off < off + len; x = x->next)
        if (x->state == SK_EXT_WARM && sk_ext_end(x) > off)
            warm += SK_MIN(sk_ext_end(x), off + len) - SK_MAX(x->off, off);
    return warm;
}

/* Chooses where in the run the allocation starts: at the start with the largest warm overlap,
 * among the starts where the allocation begins or ends with a warm piece (an optimum is always one
 * of them). Looks at the first WINDOW_PIECES pieces only. */
static sk_off best_window(const struct run *r, uint64_t len) {
    sk_off best = r->off;
    uint64_t best_warm = 0;
    uint32_t n = 0;
    for (const struct sk_ext *x = r->head; x && x->off < r->end && n < WINDOW_PIECES;
         x = x->next, n++) {
        if (x->state != SK_EXT_WARM) continue;
        sk_off last = r->end - len;
        sk_off begin = SK_MIN(x->off, last);
        sk_off tail = sk_ext_end(x) > r->off + len ? SK_MIN(sk_ext_end(x) - len, last) : r->off;
        /* the lower start is tried first, because it wins ties */
        uint64_t warm = warm_overlap(r->head, tail, len);
        if (warm > best_warm) {
            best_warm = warm;
            best = tail;
        }
        warm = warm_overlap(r->head, begin, len);
        if (warm > best_warm) {
            best_warm = warm;
            best = begin;
        }
    }
    return best;
}

static struct sk_ext *piece_at(struct sk_ext *x, sk_off off) {
    while (sk_ext_end(x) <= off) x = x->next;
    SK_DCHECK(SK_EXT_IS_FREE(x) && x->off <= off);
    return x;
}

/* Step 2: the longest warm pieces, completed by their cold neighbours. */
static struct sk_ext *find_mostly_warm(const struct sk_store *st, uint64_t len, sk_off *off) {
    uint32_t row = SK_BIN_ROWS - 1, sub = SK_BIN_SUB - 1, probes = MIXED_PROBES;
    struct sk_ext *x = sk_bins_top(&st->warm, &row, &sub);
    while (x && probes--) {
        if (x->len >= len / 2 && in_mixed_run(x)) {
            struct run r = run_of(st, x);
            if (r.end - r.off >= len) {
                /* use as much of this piece as possible: begin with it, or end with it when the run
                 * ends too early */
                *off = SK_MIN(x->off, r.end - len);
                return piece_at(r.head, *off);
            }
        }
        x = x->ln_next;
        if (!x) {
            if (sub == 0 && row == 0) break;
            sub = sub ? sub - 1 : (row--, SK_BIN_SUB - 1);
            x = sk_bins_top(&st->warm, &row, &sub);
        }
    }
    return NULL;
}

/* Returns the free piece in which the allocation [*off, *off + len) starts, or NULL. */
static struct sk_ext *find_room(const struct sk_store *st, uint64_t len, sk_off *off) {
    struct sk_ext *x = sk_bins_find(&st->warm, len, WARM_EFFORT);
    if (!x && len >= MIXED_MIN && (x = find_mostly_warm(st, len, off))) return x;
    const struct sk_span *s;
    if (!x && (s = sk_spans_first_fit(&st->cold, len))) x = s->ext;
    if (!x && (s = sk_spans_first_fit(&st->runs, len))) {
        struct run r = {s->off, s->off + s->len, s->ext};
        *off = best_window(&r, len);
        return piece_at(r.head, *off);
    }
    if (!x) x = sk_bins_find(&st->warm, len, UINT32_MAX);
    if (x) *off = x->off;
    return x;
}

/* True if carve uses q itself as the new extent. */
static bool reuses(const struct sk_ext *q, sk_off off, uint64_t len) {
    return q->off == off && q->len <= len;
}

/* Takes [off, off + len), which begins in the free piece q, out of its run and makes it extent x: x
 * is q when reuses(), else a fresh extent. Leaves x in the address list and in no index. The caller
 * has reserved one more extent. */
static void carve(struct sk_store *st, struct sk_ext *q, sk_off off, uint64_t len,
                  struct sk_ext *x) {
    sk_off end = off + len;
    struct run run = {0, 0, NULL};
    SK_DCHECK(SK_EXT_IS_FREE(q) && q->off <= off && off < sk_ext_end(q));
    bool mixed = in_mixed_run(q);
    if (mixed) {
        run = run_of(st, q);
        del_span(st, &st->runs, run.off);
    }

    struct sk_ext *prev = q->off < off ? q : q->prev; /* x's predecessor */
    bool fresh = x != q;
    for (sk_off q_end = 0; q_end < end;) {
        struct sk_ext *next = q->next, *right = NULL;
        q_end = sk_ext_end(q);
        SK_DCHECK(SK_EXT_IS_FREE(q)); /* find_room has found that all of [off, end) is free */
        index_del(st, q);
        if (q->state == SK_EXT_WARM) st->warm_bytes -= SK_MIN(q_end, end) - SK_MAX(q->off, off);
        if (q_end > end) {
            right = q;
            /* x lies inside q: a rest stays free in front of x as well as behind it */
            if (q->off < off) {
                right = sk_pool_get(&st->ext_pool);
                *right = *q;
                link_after(st, q, right);
            }
            right->off = end;
            right->len = q_end - end;
            index_add(st, right);
        }
        if (q->off < off) {
            q->len = off - q->off;
            index_add(st, q);
        } else if (q != right && q != x) {
            unlink_ext(st, q);
        }
        q = next;
    }
    SK_DCHECK(!fresh || !prev || sk_ext_end(prev) == off);
    if (fresh) link_after(st, prev, x);
    *x = (struct sk_ext){
        .off = off, .len = len, .prev = x->prev, .next = x->next, .state = SK_EXT_LEASED};

    if (mixed) {
        /* the rests of the run lie beside x */
        SK_ASSERT((x->prev || off <= run.off) && (x->next || end >= run.end));
        if (run.off < off && is_free(x->prev->prev))
            add_span(st, &st->runs, run.off, off - run.off, run.head);
        if (end < run.end && is_free(x->next->next))
            add_span(st, &st->runs, end, run.end - end, x->next);
    }
}

/* ---- messages -------------------------------------------------------------------------------- */

static sk_rc full(const struct sk_store *st, uint64_t len, struct sk_err *err) {
    char need[24], size[24], used[24], run[24];
    if (len > st->size)
        return SK_ERR(
            err, SK_EFULL,
            "object of %s is larger than the store (%s); raise object_store_memory in init()",
            sk_store_human(len, need), sk_store_human(st->size, size));
    if (!err) return SK_EFULL;
    uint64_t largest = sk_bins_largest(&st->warm);
    largest = st->cold.root && st->cold.root->max > largest ? st->cold.root->max : largest;
    largest = st->runs.root && st->runs.root->max > largest ? st->runs.root->max : largest;
    return SK_ERR(err, SK_EFULL,
                  "store is full: need %s; %s of %s in use by %llu objects and %llu writers, "
                  "largest free run %s; release references or raise "
                  "object_store_memory in init()",
                  sk_store_human(len, need),
                  sk_store_human(st->sealed_bytes + st->leased_bytes, used),
                  sk_store_human(st->size, size), (unsigned long long)st->n_sealed,
                  (unsigned long long)st->n_leased, sk_store_human(largest, run));
}

static sk_rc not_leased(const char *what, uint32_t proc, sk_off off, uint64_t len,
                        struct sk_err *err) {
    return SK_ERR(err, SK_EINVAL, "%s [%llu, +%llu): not within a lease of process %u", what,
                  (unsigned long long)off, (unsigned long long)len, proc);
}

static sk_rc no_memory(const char *what, struct sk_err *err) {
    return SK_ERR(err, SK_ENOMEM, "%s: no memory for the store's book", what);
}

/* ---- leases ---------------------------------------------------------------------------------- */

static uint64_t round_len(uint64_t len) {
    return len ? SK_ALIGN(len, SK_STORE_ALIGN) : SK_STORE_ALIGN;
}

static void note_peak(struct sk_store *st) {
    uint64_t used = st->leased_bytes + st->sealed_bytes;
    if (used > st->peak_bytes) st->peak_bytes = used;
}

sk_rc sk_store_alloc(struct sk_store *st, uint32_t proc, uint64_t len, sk_off *off,
                     struct sk_err *err) {
    if (len > st->size) return full(st, len, err);
    uint64_t n = round_len(len);
    if (n > st->size - st->leased_bytes - st->sealed_bytes || n >= st->refused_len)
        return full(st, n, err);
    struct sk_store_proc *p = sk_store_proc_get(st, proc);
    if (!p || !reserve_exts(st, 2)) return no_memory("alloc", err);
    sk_off at = 0;
    struct sk_ext *q = find_room(st, n, &at);
    if (!q) {
        st->refused_len = n; /* smaller than the last refused length, as checked above */
        return full(st, n, err);
    }
    struct sk_ext *x = q;
    if (!reuses(q, at, n)) x = sk_pool_get(&st->ext_pool);
    if (sk_map_put(&st->live, at + 1, x) != SK_OK) {
        if (x != q) sk_pool_put(&st->ext_pool, x);
        return no_memory("alloc", err);
    }
    SK_DCHECK(at % SK_STORE_ALIGN == 0 && at + n <= st->size);
    carve(st, q, at, n, x);
    x->proc = proc;
    sk_ext_push(&p->leases, x);
    st->leased_bytes += n;
    st->n_leased++;
    SK_ASSERT(st->leased_bytes + st->sealed_bytes <= st->size);
    note_peak(st);
    *off = at;
    return SK_OK;
}

sk_rc sk_store_alloc_overflow(struct sk_store *st, uint32_t proc, uint64_t len, sk_off *off,
                              struct sk_err *err) {
    if (!st->overflow) return full(st, len, err);
    SK_TRY(sk_store_alloc(st->overflow, proc, len, off, err));
    *off += st->size;
    return SK_OK;
}

/* The lease of proc that contains [off, off + len), or NULL. Usually off is the start of the lease,
 * because workers seal in order. */
static struct sk_ext *find_lease(struct sk_store *st, uint32_t proc, sk_off off, uint64_t len,
                                 struct sk_store_proc **p) {
    if (off % SK_STORE_ALIGN || off >= st->size || len > st->size) return NULL;
    *p = sk_store_proc_find(st, proc);
    if (!*p) return NULL;
    struct sk_ext *x = sk_map_get(&st->live, off + 1);
    if (!x || x->state != SK_EXT_LEASED || x->proc != proc) {
        if (x) return NULL;
        for (x = (*p)->leases; x && !(x->off <= off && off < sk_ext_end(x));) x = x->ln_next;
    }
    return x && round_len(len) <= sk_ext_end(x) - off ? x : NULL;
}

/* Makes a new live extent [off, off + len) out of the end of x and links it after x; x is not
 * shortened yet. The caller has reserved the extent. NULL: no memory. */
static struct sk_ext *cut(struct sk_store *st, struct sk_ext *x, sk_off off, uint64_t len) {
    struct sk_ext *y = sk_pool_get(&st->ext_pool);
    *y = (struct sk_ext){.off = off, .len = len, .state = SK_EXT_LEASED, .proc = x->proc};
    if (sk_map_put(&st->live, off + 1, y) != SK_OK) {
        sk_pool_put(&st->ext_pool, y);
        return NULL;
    }
    link_after(st, x, y);
    return y;
}

sk_rc sk_store_commit(struct sk_store *st, uint32_t proc, sk_off off, uint64_t len,
                      struct sk_err *err) {
    struct sk_store_proc *p;
    st = sk_store_book(st, &off);
    struct sk_ext *x = find_lease(st, proc, off, len, &p);
    if (!x) return not_leased("seal", proc, off, len, err);
    uint64_t n = round_len(len);
    SK_DCHECK(x->off <= off && off + n <= sk_ext_end(x) && x->proc == p->proc);
    uint64_t before = off - x->off, after = sk_ext_end(x) - off - n;
    if (before || after) {
        if (!reserve_exts(st, 2)) return no_memory("seal", err);
        struct sk_ext *rest = NULL, *mid = x;
        if (after && !(rest = cut(st, x, off + n, after))) return no_memory("seal", err);
        if (before && !(mid = cut(st, x, off, n))) {
            if (rest) {
                sk_map_del(&st->live, rest->off + 1);
                unlink_ext(st, rest);
            }
            return no_memory("seal", err);
        }
        if (rest) {
            sk_ext_push(&p->leases, rest);
            st->n_leased++;
        }
        if (before) {
            x->len = before;
            st->n_leased++;
        } else {
            x->len = n;
        }
        if (mid == x) sk_ext_unpush(&p->leases, x);
        x = mid;
    } else {
        sk_ext_unpush(&p->leases, x);
    }
    SK_ASSERT(x->len == n && st->leased_bytes >= n);
    x->state = SK_EXT_SEALED;
    x->refs = 1;
    x->pins = 0;
    st->leased_bytes -= n;
    st->sealed_bytes += n;
    st->n_leased--;
    st->n_sealed++;
    return SK_OK;
}

void sk_store_drop_lease(struct sk_store *st, struct sk_store_proc *p, struct sk_ext *x) {
    SK_ASSERT(x->state == SK_EXT_LEASED && x->proc == p->proc && st->leased_bytes >= x->len &&
              st->n_leased);
    sk_ext_unpush(&p->leases, x);
    sk_map_del(&st->live, x->off + 1);
    st->leased_bytes -= x->len;
    st->n_leased--;
    sk_store_free_ext(st, x);
}

sk_rc sk_store_unlease(struct sk_store *st, uint32_t proc, sk_off off, uint64_t len,
                       struct sk_err *err) {
    struct sk_store_proc *p;
    st = sk_store_book(st, &off);
    struct sk_ext *x = find_lease(st, proc, off, len, &p);
    uint64_t n = round_len(len);
    if (!x || off + n != sk_ext_end(x)) return not_leased("unlease", proc, off, len, err);
    if (off == x->off) {
        sk_store_drop_lease(st, p, x);
        return SK_OK;
    }
    if (!reserve_exts(st, 1)) return no_memory("unlease", err);
    struct sk_ext *y = sk_pool_get(&st->ext_pool);
    *y = (struct sk_ext){.off = off, .len = n, .state = SK_EXT_LEASED};
    SK_DCHECK(x->len > n); /* the front part of the lease stays leased */
    x->len -= n;
    link_after(st, x, y);
    st->leased_bytes -= n;
    sk_store_free_ext(st, y);
    return SK_OK;
}

/* ---- freeing --------------------------------------------------------------------------------- */

void sk_store_free_ext(struct sk_store *st, struct sk_ext *x) {
    SK_ASSERT(!SK_EXT_IS_FREE(x)); /* an extent freed twice would be allocated twice */
    struct run run = {x->off, sk_ext_end(x), NULL};
    if (is_free(x->prev)) {
        struct run l = run_of(st, x->prev);
        if (in_mixed_run(x->prev)) del_span(st, &st->runs, l.off);
        run.off = l.off;
        run.head = l.head;
    }
    if (is_free(x->next)) {
        struct run r = run_of(st, x->next);
        if (in_mixed_run(x->next)) del_span(st, &st->runs, r.off);
        run.end = r.end;
    }

    if (run.end - run.off >= st->refused_len) st->refused_len = UINT64_MAX;

    x->state = SK_EXT_WARM;
    st->warm_bytes += x->len;
    struct sk_ext *next = x->next;
    if (next && next->state == SK_EXT_WARM) {
        sk_bins_del(&st->warm, next);
        x->len += next->len;
        unlink_ext(st, next);
    }
    struct sk_ext *prev = x->prev;
    if (prev && prev->state == SK_EXT_WARM) {
        /* the left one of two merged pieces stays, since it may be the head of its run */
        sk_bins_del(&st->warm, prev);
        prev->len += x->len;
        unlink_ext(st, x);
        x = prev;
    }
    SK_DCHECK(run.off <= x->off && sk_ext_end(x) <= run.end);
    sk_bins_add(&st->warm, x);
    if (in_mixed_run(x))
        add_span(st, &st->runs, run.off, run.end - run.off, run.head ? run.head : x);
}

bool sk_store_take_punch(struct sk_store *st, uint64_t min_len, sk_off *off, uint64_t *len) {
    uint32_t row = SK_BIN_ROWS - 1, sub = SK_BIN_SUB - 1;
    /* bins with the longest pieces are taken first */
    struct sk_ext *x = sk_bins_top(&st->warm, &row, &sub);
    while (x && x->len < min_len) x = x->ln_next;
    if (!x) return false;
    *off = x->off;
    *len = x->len;
    bool mixed = in_mixed_run(x);
    SK_DCHECK(x->state == SK_EXT_WARM && st->warm_bytes >= x->len);
    sk_bins_del(&st->warm, x);
    st->warm_bytes -= x->len;
    x->state = SK_EXT_COLD;
    sk_off run_off = mixed ? run_of(st, x).off : 0;
    struct sk_ext *next = x->next, *prev = x->prev;
    if (is_free(next)) { /* a warm piece's free neighbours are cold */
        SK_DCHECK(next->state == SK_EXT_COLD);
        del_span(st, &st->cold, next->off);
        x->len += next->len;
        unlink_ext(st, next);
    }
    if (is_free(prev)) {
        del_span(st, &st->cold, prev->off);
        prev->len += x->len;
        unlink_ext(st, x);
        x = prev;
    }
    if (mixed && !in_mixed_run(x)) del_span(st, &st->runs, run_off);
    add_span(st, &st->cold, x->off, x->len, x);
    return true;
}

bool sk_store_take_overflow(struct sk_store *st, sk_off *off, uint64_t *len) {
    const uint64_t border = UINT64_C(65536);
    struct sk_store *o = st->overflow;
    if (!o || !o->warm_bytes || !sk_store_take_punch(o, 1, off, len)) return false;
    /* the cold piece around the range, merged with its neighbours by now */
    const struct sk_span *s = sk_spans_floor(&o->cold, *off);
    SK_ASSERT(s && s->off + s->len >= *off + *len);
    sk_off lo = SK_MAX(s->off, *off & ~(border - 1)),
           hi = SK_MIN(s->off + s->len, SK_ALIGN(*off + *len, border));
    *off = st->size + lo;
    *len = hi - lo;
    return true;
}

uint64_t sk_store_overflow_used(const struct sk_store *st) {
    return st->overflow ? st->overflow->leased_bytes + st->overflow->sealed_bytes : 0;
}

/* ---- references ------------------------------------------------------------------------------ */

struct sk_ext *sk_store_sealed(const struct sk_store *st, sk_off off) {
    struct sk_ext *x = sk_map_get(&st->live, off + 1);
    SK_ASSERT(x && x->state == SK_EXT_SEALED);
    return x;
}

void sk_store_drop_sealed(struct sk_store *st, struct sk_ext *x) {
    SK_ASSERT(x->state == SK_EXT_SEALED && !x->refs && !x->pins && st->sealed_bytes >= x->len &&
              st->n_sealed);
    sk_map_del(&st->live, x->off + 1);
    st->sealed_bytes -= x->len;
    st->n_sealed--;
    sk_store_free_ext(st, x);
}

void sk_store_ref(struct sk_store *st, sk_off off) {
    st = sk_store_book(st, &off);
    struct sk_ext *x = sk_store_sealed(st, off);
    SK_ASSERT(x->refs < UINT32_MAX);
    x->refs++;
}

void sk_store_unref(struct sk_store *st, sk_off off) {
    st = sk_store_book(st, &off);
    struct sk_ext *x = sk_store_sealed(st, off);
    SK_ASSERT(x->refs > 0);
    if (--x->refs == 0 && x->pins == 0) sk_store_drop_sealed(st, x);
}

uint64_t sk_store_free_bytes(const struct sk_store *st) {
    return st->size - st->leased_bytes - st->sealed_bytes;
}

void sk_store_get_stats(const struct sk_store *st, struct sk_store_stats *out) {
    *out = (struct sk_store_stats){
        .size_bytes = st->size,
        .leased_bytes = st->leased_bytes,
        .sealed_bytes = st->sealed_bytes,
        .warm_bytes = st->warm_bytes,
        .peak_bytes = st->peak_bytes,
        .n_extents = st->n_leased + st->n_sealed,
        .n_pins = st->n_pins,
    };
}
