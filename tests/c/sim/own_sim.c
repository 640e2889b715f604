/* own_sim.c - compares reference counts with reachability that is computed from scratch.
 *
 * The model stores which objects each process and the engine hold, and which object contains which.
 * It computes the living objects by following references from all held objects, without counts.
 * Every object must leave the queue exactly once, exactly when it stops being alive. */
#include "base/clock.h"
#include "engine/own/own.h"
#include "test.h"

enum { N_PROCS = 6, MAX_OBJS = 128, MAX_INNER = 4 };

struct model_obj { /* slot reused; id 0: free slot */
    uint64_t id;
    uint32_t refs[N_PROCS], holds, n_inner;
    uint32_t inner[MAX_INNER]; /* slots */
    bool alive, said;          /* said: contains was called */
};

struct sim {
    struct sk_own *o;
    struct model_obj obj[MAX_OBJS];
    uint64_t next_id, n_freed, n_made, n_dead, n_refused, n_cascade;
};

/* Returns a random living object, or NULL. */
static struct model_obj *pick(struct sim *s) {
    for (int tries = 0; tries < 8; tries++) {
        struct model_obj *x = &s->obj[test_below(MAX_OBJS)];
        if (x->alive) return x;
    }
    return NULL;
}

static bool held(const struct model_obj *x) {
    uint32_t n = x->holds;
    for (int p = 0; p < N_PROCS; p++) n += x->refs[p];
    return n > 0;
}

/* Marks the objects that should be alive, starting from those that are held. */
static void mark(struct sim *s) {
    uint32_t stack[MAX_OBJS], n = 0;
    for (uint32_t i = 0; i < MAX_OBJS; i++) {
        s->obj[i].alive = s->obj[i].id && held(&s->obj[i]);
        if (s->obj[i].alive) stack[n++] = i;
    }
    while (n) {
        const struct model_obj *x = &s->obj[stack[--n]];
        for (uint32_t k = 0; k < x->n_inner; k++) {
            if (s->obj[x->inner[k]].alive) continue;
            s->obj[x->inner[k]].alive = true;
            stack[n++] = x->inner[k];
        }
    }
}

static void drain(struct sim *s) {
    uint64_t id, n = 0;
    void *data;
    while (sk_own_next_freed(s->o, &id, &data)) {
        struct model_obj *x = data;
        CHECK_EQ(x->id, id); /* an id is freed only once: its slot would be free or reused */
        CHECK(!x->alive);
        *x = (struct model_obj){0};
        n++;
    }
    s->n_freed += n;
    s->n_cascade += n > 1;
    /* no dead object may be left */
    for (int i = 0; i < MAX_OBJS; i++) CHECK(!s->obj[i].id || s->obj[i].alive);
}

static void step_add(struct sim *s) {
    struct model_obj *x = &s->obj[test_below(MAX_OBJS)];
    uint32_t proc = (uint32_t)test_below(N_PROCS);
    bool added = false;
    /* the object is in the queue: its id is unknown, but its slot is used until the drain */
    if (x->id && !x->alive) return;
    if (x->id) {
        CHECK_OK(sk_own_add_once(s->o, x->id, proc, NULL, &added, NULL));
        CHECK(!added);
        CHECK(sk_own_get(s->o, x->id) == x);
        return;
    }
    *x = (struct model_obj){.id = s->next_id++};
    x->refs[proc] = 1;
    CHECK_OK(sk_own_add(s->o, x->id, proc, x, NULL));
    s->n_made++;
}

static void step_contains(struct sim *s) {
    struct model_obj *x = pick(s);
    if (!x) return;
    uint64_t ids[MAX_INNER];
    uint32_t slots[MAX_INNER], n = 1 + (uint32_t)test_below(MAX_INNER);
    sk_rc want = x->said ? SK_EINVAL : SK_OK;
    for (uint32_t i = 0; i < n; i++) {
        const struct model_obj *y = pick(s);
        if (!y) return;
        if (y->id > x->id) /* only older objects, so that there are no circles */
            y = x;
        slots[i] = (uint32_t)(y - s->obj);
        ids[i] = y->id;
    }
    if (test_below(20) == 0 && want == SK_OK) {
        ids[test_below(n)] = s->next_id; /* not there */
        want = SK_ENOENT;
    }
    CHECK_RC(sk_own_contains(s->o, x->id, ids, n, NULL), want);
    if (want != SK_OK) {
        s->n_refused++;
        return;
    }
    for (uint32_t i = 0; i < n; i++) /* a reference to the object itself is skipped */
        if (&s->obj[slots[i]] != x) x->inner[x->n_inner++] = slots[i];
    x->said = true;
}

static void step_ref(struct sim *s) {
    struct model_obj *x = pick(s);
    uint32_t proc = (uint32_t)test_below(N_PROCS), n = (uint32_t)test_below(3);
    if (!x) return;
    CHECK_OK(sk_own_ref(s->o, x->id, proc, n, NULL));
    x->refs[proc] += n;
}

static void step_unref(struct sim *s) {
    struct model_obj *x = pick(s);
    uint32_t proc = (uint32_t)test_below(N_PROCS);
    if (!x) return;
    /* mostly a process that has references */
    for (uint32_t i = 0; i < N_PROCS && !x->refs[proc] && test_below(16); i++)
        proc = (proc + 1) % N_PROCS;
    uint32_t n = test_below(4) ? x->refs[proc] : (uint32_t)test_below(4);
    bool ok = n <= x->refs[proc];
    CHECK_RC(sk_own_unref(s->o, x->id, proc, n, NULL), ok ? SK_OK : SK_EINVAL);
    CHECK_RC(sk_own_unref(s->o, s->next_id, proc, 1, NULL), SK_ENOENT);
    if (ok) x->refs[proc] -= n;
    else s->n_refused++;
}

static void step_hold(struct sim *s) {
    struct model_obj *x = pick(s);
    if (!x) return;
    if (x->holds && test_below(3)) {
        sk_own_unhold(s->o, x->id);
        x->holds--;
    } else if (test_below(2)) {
        CHECK_OK(sk_own_hold(s->o, x->id, NULL));
        x->holds++;
    }
}

static void step_dead(struct sim *s) {
    uint32_t proc = 1 + (uint32_t)test_below(N_PROCS - 1);
    sk_own_proc_dead(s->o, proc);
    for (int i = 0; i < MAX_OBJS; i++) s->obj[i].refs[proc] = 0;
    s->n_dead++;
}

static void compare(struct sim *s) {
    CHECK(sk_own_check(s->o));
    uint64_t n = 0;
    for (uint32_t i = 0; i < MAX_OBJS; i++) {
        const struct model_obj *x = &s->obj[i];
        if (!x->id) continue;
        n++;
        uint64_t count = x->holds;
        for (uint32_t p = 0; p < N_PROCS; p++) {
            CHECK_EQ(sk_own_borrowed(s->o, x->id, p), x->refs[p]);
            count += x->refs[p];
        }
        for (uint32_t j = 0; j < MAX_OBJS; j++)
            for (uint32_t k = 0; k < s->obj[j].n_inner; k++) count += s->obj[j].inner[k] == i;
        CHECK_EQ(sk_own_count(s->o, x->id), count);
    }
    CHECK_EQ(sk_own_n(s->o), n);
}

TEST_SLOW(own_sim, 300) {
    uint64_t steps = 0, freed = 0, dead = 0, cascades = 0, refused = 0;
    int64_t t0 = sk_now_ns();
    for (int round = 0; round < test_rounds(6); round++) {
        struct sim *s = sk_calloc(SK_TAG_TEST, sizeof *s);
        CHECK(s != NULL);
        s->next_id = 1 + (test_rand() >> 20 << 4);
        CHECK_OK(sk_own_create(&s->o, NULL));
        for (int i = 0; i < 60000; i++, steps++) {
            uint64_t r = test_below(100);
            if (r < 25) step_add(s);
            else if (r < 40) step_contains(s);
            else if (r < 50) step_ref(s);
            else if (r < 90) step_unref(s);
            else if (r < 98) step_hold(s);
            else if (r == 98 && test_below(10) == 0) step_dead(s);
            mark(s);
            if (test_below(3)) /* sometimes several calls before a drain */
                drain(s);
            if (i % 256 == 0) {
                drain(s);
                compare(s);
            }
        }
        /* All go. */
        for (uint32_t p = 1; p < N_PROCS; p++) {
            sk_own_proc_dead(s->o, p);
            for (int i = 0; i < MAX_OBJS; i++) s->obj[i].refs[p] = 0;
        }
        mark(s);
        for (int i = 0; i < MAX_OBJS; i++) {
            struct model_obj *x = &s->obj[i];
            if (!x->alive) continue;
            for (; x->holds; x->holds--) sk_own_unhold(s->o, x->id);
            if (x->refs[0]) CHECK_OK(sk_own_unref(s->o, x->id, 0, x->refs[0], NULL));
            x->refs[0] = 0;
            mark(s);
        }
        drain(s);
        CHECK_EQ(sk_own_n(s->o), 0);
        CHECK_EQ(s->n_freed, s->n_made);
        freed += s->n_freed;
        dead += s->n_dead;
        cascades += s->n_cascade;
        refused += s->n_refused;
        sk_own_destroy(s->o);
        sk_free(s);
    }
    printf("# %llu steps, %.0f a second; %llu freed, %llu cascades, %llu deaths, %llu refused\n",
           (unsigned long long)steps, (double)steps / ((double)(sk_now_ns() - t0) / 1e9),
           (unsigned long long)freed, (unsigned long long)cascades, (unsigned long long)dead,
           (unsigned long long)refused);
    CHECK(freed > 1000 && cascades > 100 && dead > 20 && refused > 100);
}

/* Deep and wide graphs: each object contains random older objects, and all are dropped in random
 * order at the end. Each is freed once. */
TEST_SLOW(own_sim_deep_chains, 300) {
    enum { N = 100000 };
    struct sk_own *o;
    CHECK_OK(sk_own_create(&o, NULL));
    uint8_t *seen = sk_calloc(SK_TAG_TEST, N + 1);
    uint32_t *order = sk_calloc(SK_TAG_TEST, (N + 1) * sizeof *order);
    CHECK(seen && order);
    for (uint64_t id = 1; id <= N; id++) {
        CHECK_OK(sk_own_add(o, id, (uint32_t)(id % 3), NULL, NULL));
        uint64_t inner[3] = {id - 1, id > 2 ? 1 + test_below(id - 1) : 0,
                             id > 2 ? id - 1 - test_below(SK_MIN(id - 2, 10u)) : 0};
        if (id > 2) CHECK_OK(sk_own_contains(o, id, inner, 1 + (uint32_t)test_below(3), NULL));
        order[id] = (uint32_t)id;
    }
    for (uint32_t i = N; i > 1; i--) {
        uint32_t j = 1 + (uint32_t)test_below(i), t = order[i];
        order[i] = order[j];
        order[j] = t;
    }
    uint64_t id, n = 0;
    void *data;
    for (uint32_t i = 1; i <= N; i++) {
        if (order[i] % 3 == 0) CHECK_OK(sk_own_unref(o, order[i], 0, 1, NULL));
        if (i == N / 2) sk_own_proc_dead(o, 1);
        if (i == N / 4 * 3) sk_own_proc_dead(o, 2);
        while (sk_own_next_freed(o, &id, &data)) {
            CHECK(id <= N && !seen[id]);
            seen[id] = 1;
            n++;
        }
    }
    CHECK_EQ(n, N);
    CHECK_EQ(sk_own_n(o), 0);
    CHECK(sk_own_check(o));
    sk_own_destroy(o);
    sk_free(seen);
    sk_free(order);
}
