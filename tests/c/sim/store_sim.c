/* store_sim.c - the store's book of extents against a naive model, under random operations of many
 * processes that die.
 *
 * The model knows the state of each cell of 64 bytes (or more): free and cold, free and warm,
 * leased to a process, or part of an object. It finds runs of cells by scanning. Checked at each
 * step: the cells of an allocation were free; an allocation fails only when no run of free cells is
 * long enough; when a warm run is clearly long enough, the result is warm; objects live exactly as
 * long as they are referenced or pinned; invalid messages of a process are refused; only whole warm
 * runs are punched. Every few steps the whole book is walked and its statistics are compared. */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "store/store.h"
#include "store/store_int.h"
#include "test.h"

enum { N_PROCS = 12, MAX_OBJS = 4096, MAX_LEASES = 512 };

struct object {     /* a sealed extent */
    uint32_t at, n; /* cells */
    uint32_t refs, n_pins;
    uint32_t pins[N_PROCS];
};
struct lease {
    uint32_t at, n, proc;
};
enum cell { COLD, WARM, BUSY };

struct sim {
    struct sk_store *st;
    uint64_t unit; /* bytes a cell */
    uint32_t n_cells, max_len;
    uint64_t rng;
    uint8_t *cell;
    struct object obj[MAX_OBJS];
    uint32_t n_obj;
    struct lease lease[MAX_LEASES];
    uint32_t n_lease;
    uint64_t n_full, n_alloc, n_dead, n_punched, n_mixed;
};

/* Returns a random number below n, by xorshift, since test_rand would take half of the test's
 * time. */
static uint64_t rnd(struct sim *s, uint64_t n) {
    s->rng ^= s->rng << 13;
    s->rng ^= s->rng >> 7;
    s->rng ^= s->rng << 17;
    return (s->rng >> 8) % n;
}

static void mark(struct sim *s, uint32_t at, uint32_t n, enum cell c) {
    memset(s->cell + at, (int)c, n);
}

/* Returns the longest run of free cells (warm_only: of warm cells). The scan is linear, so it is
 * only called if the result matters. */
static uint32_t longest(const struct sim *s, bool warm_only) {
    uint32_t best = 0, run = 0;
    for (uint32_t i = 0; i < s->n_cells; i++) {
        run = (warm_only ? s->cell[i] == WARM : s->cell[i] != BUSY) ? run + 1 : 0;
        best = SK_MAX(best, run);
    }
    return best;
}

/* Returns a random length: often small, sometimes large. */
static uint32_t random_len(struct sim *s) {
    uint64_t top = UINT64_C(1) << rnd(s, (uint64_t)(64 - __builtin_clzll(s->max_len)));
    return (uint32_t)(1 + rnd(s, SK_MIN(top, s->max_len)));
}

/* Returns a length in bytes that is rounded up to n cells. */
static uint64_t ragged(struct sim *s, uint32_t n) {
    return s->unit == SK_STORE_ALIGN ? n * s->unit - rnd(s, 64) : n * s->unit;
}

static void step_alloc(struct sim *s) {
    uint32_t n = random_len(s), proc = (uint32_t)rnd(s, N_PROCS);
    if (s->n_lease == MAX_LEASES) return;
    uint32_t warm_run = rnd(s, 8) == 0 ? longest(s, true) : 0;
    sk_off off = 12345;
    sk_rc rc = sk_store_alloc(s->st, proc, ragged(s, n), &off, NULL);
    s->n_alloc++;
    if (rc != SK_OK) {
        CHECK_EQ(rc, SK_EFULL);
        CHECK_EQ(off, 12345);
        CHECK(longest(s, false) < n);
        s->n_full++;
        return;
    }
    CHECK_EQ(off % s->unit, 0);
    uint32_t at = (uint32_t)(off / s->unit), warm = 0;
    CHECK(at + n <= s->n_cells);
    for (uint32_t i = at; i < at + n; i++) {
        CHECK(s->cell[i] != BUSY);
        warm += s->cell[i] == WARM;
    }
    if (warm_run > n + n / 16 + 1) CHECK_EQ(warm, n);
    s->n_mixed += warm > 0 && warm < n;
    mark(s, at, n, BUSY);
    s->lease[s->n_lease++] = (struct lease){at, n, proc};
}

static void drop_lease(struct sim *s, uint32_t i) { s->lease[i] = s->lease[--s->n_lease]; }

static void step_commit(struct sim *s) {
    if (s->n_lease == 0 || s->n_obj == MAX_OBJS) return;
    uint32_t i = (uint32_t)rnd(s, s->n_lease);
    struct lease *l = &s->lease[i];
    uint32_t skip = 0, n = l->n;
    switch (rnd(s, 4)) {
    case 0: /* in order */ n = (uint32_t)(1 + rnd(s, l->n)); break;
    case 1: /* anywhere */
        if (s->n_lease < MAX_LEASES) {
            skip = (uint32_t)rnd(s, l->n);
            n = (uint32_t)(1 + rnd(s, l->n - skip));
        }
        break;
    default: /* all of it */ break;
    }
    CHECK_EQ(sk_store_commit(s->st, l->proc, (l->at + skip) * s->unit, ragged(s, n), NULL), SK_OK);
    s->obj[s->n_obj++] = (struct object){.at = l->at + skip, .n = n, .refs = 1};
    struct lease after = {l->at + skip + n, l->n - skip - n, l->proc};
    l->n = skip;
    if (after.n && skip) s->lease[s->n_lease++] = after;
    else if (after.n) *l = after;
    else if (!skip) drop_lease(s, i);
}

static void step_unlease(struct sim *s) {
    if (s->n_lease == 0) return;
    uint32_t i = (uint32_t)rnd(s, s->n_lease);
    struct lease *l = &s->lease[i];
    uint32_t keep = rnd(s, 2) ? 0 : (uint32_t)rnd(s, l->n);
    CHECK_EQ(
        sk_store_unlease(s->st, l->proc, (l->at + keep) * s->unit, (l->n - keep) * s->unit, NULL),
        SK_OK);
    mark(s, l->at + keep, l->n - keep, WARM);
    l->n = keep;
    if (!keep) drop_lease(s, i);
}

/* Makes a process report an invalid range: one that is not within one of its leases. */
static void step_mad(struct sim *s) {
    uint32_t proc = (uint32_t)rnd(s, N_PROCS + 2);
    uint32_t at = (uint32_t)rnd(s, s->n_cells + 10), n = random_len(s);
    for (uint32_t i = 0; i < s->n_lease; i++)
        if (s->lease[i].proc == proc && s->lease[i].at <= at &&
            at + n <= s->lease[i].at + s->lease[i].n)
            return;
    CHECK_EQ(sk_store_commit(s->st, proc, at * s->unit, n * s->unit, NULL), SK_EINVAL);
    CHECK_EQ(sk_store_unlease(s->st, proc, at * s->unit, n * s->unit, NULL), SK_EINVAL);
}

static void free_if_unheld(struct sim *s, uint32_t i) {
    struct object *o = &s->obj[i];
    if (o->refs || o->n_pins) return;
    mark(s, o->at, o->n, WARM);
    *o = s->obj[--s->n_obj];
}

static void step_ref(struct sim *s) {
    if (s->n_obj == 0) return;
    struct object *o = &s->obj[rnd(s, s->n_obj)];
    sk_store_ref(s->st, o->at * s->unit);
    o->refs++;
}

static void step_unref(struct sim *s) {
    if (s->n_obj == 0) return;
    uint32_t i = (uint32_t)rnd(s, s->n_obj);
    struct object *o = &s->obj[i];
    for (uint32_t times = rnd(s, 4) ? o->refs : SK_MIN(o->refs, 1u); times; times--) {
        o->refs--;
        sk_store_unref(s->st, o->at * s->unit);
    }
    free_if_unheld(s, i);
}

static void step_pin(struct sim *s) {
    if (s->n_obj == 0) return;
    struct object *o = &s->obj[rnd(s, s->n_obj)];
    uint32_t proc = (uint32_t)rnd(s, N_PROCS);
    CHECK_EQ(sk_store_pin(s->st, proc, o->at * s->unit), SK_OK);
    o->pins[proc]++;
    o->n_pins++;
}

static void step_unpin(struct sim *s) {
    if (s->n_obj == 0) return;
    uint32_t i = (uint32_t)rnd(s, s->n_obj), proc = (uint32_t)rnd(s, N_PROCS);
    struct object *o = &s->obj[i];
    bool has = o->pins[proc] > 0;
    CHECK_EQ(sk_store_unpin(s->st, proc, o->at * s->unit), has);
    if (!has) return;
    o->pins[proc]--;
    o->n_pins--;
    free_if_unheld(s, i);
}

static void step_dead(struct sim *s) {
    uint32_t proc = (uint32_t)rnd(s, N_PROCS);
    sk_store_proc_dead(s->st, proc);
    s->n_dead++;
    for (uint32_t i = s->n_obj; i-- > 0;) {
        s->obj[i].n_pins -= s->obj[i].pins[proc];
        s->obj[i].pins[proc] = 0;
        free_if_unheld(s, i);
    }
    for (uint32_t i = s->n_lease; i-- > 0;) {
        if (s->lease[i].proc != proc) continue;
        mark(s, s->lease[i].at, s->lease[i].n, WARM);
        drop_lease(s, i);
    }
}

static void step_punch(struct sim *s) {
    uint32_t min = random_len(s);
    sk_off off;
    uint64_t len;
    for (uint64_t k = 1 + rnd(s, 20); k; k--) {
        if (!sk_store_take_punch(s->st, min * s->unit, &off, &len)) {
            CHECK(longest(s, true) < min);
            return;
        }
        uint32_t at = (uint32_t)(off / s->unit), n = (uint32_t)(len / s->unit);
        CHECK(n >= min && at + n <= s->n_cells);
        for (uint32_t i = at; i < at + n; i++) CHECK_EQ(s->cell[i], WARM);
        CHECK(at == 0 || s->cell[at - 1] != WARM); /* all of it */
        CHECK(at + n == s->n_cells || s->cell[at + n] != WARM);
        mark(s, at, n, COLD);
        s->n_punched++;
    }
}

static void check_all(const struct sim *s) {
    const char *why = sk_store_check_why(s->st);
    CHECK_MSG(why == NULL, "%s", why);
    struct sk_store_stats got;
    sk_store_get_stats(s->st, &got);
    uint64_t leased = 0, sealed = 0, pins = 0, warm = 0;
    for (uint32_t i = 0; i < s->n_lease; i++) leased += s->lease[i].n * s->unit;
    for (uint32_t i = 0; i < s->n_obj; i++) {
        sealed += s->obj[i].n * s->unit;
        pins += s->obj[i].n_pins;
    }
    for (uint32_t i = 0; i < s->n_cells; i++) warm += s->cell[i] == WARM ? s->unit : 0;
    CHECK_EQ(got.leased_bytes, leased);
    CHECK_EQ(got.sealed_bytes, sealed);
    CHECK_EQ(got.warm_bytes, warm);
    CHECK_EQ(got.n_pins, pins);
    CHECK_EQ(got.n_extents, s->n_lease + s->n_obj);
}

struct totals {
    uint64_t steps, full, mixed, punched, dead;
    int64_t ns;
};

/* Makes one random operation, by a table of chances in thousandths. The chances change in three
 * periods, so that the store is nearly full, half full and nearly empty. */
static void one_step(struct sim *s, uint32_t i) {
    static const struct {
        uint32_t alloc, commit, unlease, ref, pin, unpin, unref, mad, dead; /* the rest: punch */
    } tide[3] = {
        {300, 520, 560, 590, 650, 730, 850, 860, 865},
        {220, 480, 520, 550, 580, 640, 930, 940, 945},
        {130, 520, 560, 580, 590, 650, 970, 980, 985},
    };
    uint32_t r = (uint32_t)rnd(s, 1000), t = i / 4000 % 3;
    if (r < tide[t].alloc) step_alloc(s);
    else if (r < tide[t].commit) step_commit(s);
    else if (r < tide[t].unlease) step_unlease(s);
    else if (r < tide[t].ref) step_ref(s);
    else if (r < tide[t].pin) step_pin(s);
    else if (r < tide[t].unpin) step_unpin(s);
    else if (r < tide[t].unref) step_unref(s);
    else if (r < tide[t].mad) step_mad(s);
    else if (r < tide[t].dead) step_dead(s);
    else if (rnd(s, 10) == 0) step_punch(s);
}

static void simulate(uint64_t unit, uint32_t n_cells, uint32_t max_len, uint32_t steps,
                     struct totals *sum) {
    struct sim *s = sk_calloc(SK_TAG_TEST, sizeof *s);
    CHECK(s != NULL);
    s->cell = sk_calloc(SK_TAG_TEST, n_cells);
    CHECK(s->cell != NULL);
    s->unit = unit;
    s->n_cells = n_cells;
    s->max_len = max_len;
    s->rng = test_rand() | 1;
    CHECK_OK(sk_store_create(&s->st, n_cells * unit, NULL));
    int64_t t0 = sk_now_ns();
    for (uint32_t i = 0; i < steps; i++) {
        one_step(s, i);
        if (i % 512 == 0) check_all(s);
    }
    sum->ns += sk_now_ns() - t0;
    check_all(s);
    /* All processes die: all memory becomes free. */
    for (uint32_t p = 0; p < N_PROCS; p++) sk_store_proc_dead(s->st, p);
    for (uint32_t i = 0; i < s->n_obj; i++)
        for (uint32_t k = s->obj[i].refs; k; k--) sk_store_unref(s->st, s->obj[i].at * s->unit);
    CHECK(sk_store_check(s->st));
    sk_off off;
    CHECK_OK(sk_store_alloc(s->st, 0, n_cells * unit, &off, NULL));
    CHECK_EQ(off, 0);
    sum->steps += steps;
    sum->full += s->n_full;
    sum->mixed += s->n_mixed;
    sum->punched += s->n_punched;
    sum->dead += s->n_dead;
    sk_store_destroy(s->st);
    CHECK_EQ(sk_mem_bytes(SK_TAG_STORE), 0);
    sk_free(s->cell);
    sk_free(s);
}

static void report(const struct totals *t) {
    printf("# %llu steps, %.0f a second; %llu refused, %llu of mixed temperature, %llu punched, "
           "%llu deaths\n",
           (unsigned long long)t->steps, (double)t->steps / ((double)t->ns / 1e9),
           (unsigned long long)t->full, (unsigned long long)t->mixed,
           (unsigned long long)t->punched, (unsigned long long)t->dead);
    /* the random walk has reached all these cases */
    CHECK(t->full > 100 && t->mixed > 100 && t->punched > 100 && t->dead > 100);
}

TEST_SLOW(store_sim_tiny, 300) {
    struct totals t = {0};
    for (int i = 0; i < test_rounds(20); i++) simulate(64, 64, 24, 50000, &t);
    report(&t);
}

TEST_SLOW(store_sim_small_extents, 300) {
    struct totals t = {0};
    for (int i = 0; i < test_rounds(4); i++) simulate(64, 8192, 300, 100000, &t);
    report(&t);
}

/* Cells of 64 KiB, for allocations above 1 MiB, which have code of their own. */
TEST_SLOW(store_sim_large_extents, 300) {
    struct totals t = {0};
    for (int i = 0; i < test_rounds(4); i++) simulate(65536, 4096, 700, 100000, &t);
    report(&t);
}
