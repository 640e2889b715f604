/* lineage_sim.c - the lineage against a naive model: random graphs, releases, losses, streams, and
 * a tight budget.
 *
 * The model knows every task and object of a round. After each step it computes which tasks must be
 * kept by repeating its rules until nothing changes, without counts or lists. A task must be kept
 * if it is needed (it is open, one of its returns is in scope, or a kept task uses one) and can run
 * again (each argument is in scope or made by a kept task). Exactly those tasks must be kept. After
 * a loss the lineage must give exactly the missing tasks that have to run again, makers first, or a
 * reason why that is impossible with which the model agrees (if two arguments cannot be made,
 * either is a right reason). */
#include "base/clock.h"
#include "engine/own/lineage.h"
#include "test.h"

enum {
    MAX_TASKS = 40,
    MAX_OBJS = 160,
    MAX_ARGS = 4,
    MAX_RETS = 4,
    MAX_WHY = 32,
    TASK_ID = 1000000
};

struct reasons {
    uint32_t n; /* number of reasons; MAX_WHY: too many to list */
    struct {
        uint8_t why;
        uint64_t culprit;
    } p[MAX_WHY]; /* culprit 0: the return itself */
};

struct mobj {
    uint64_t id;
    bool alive;
    int maker;          /* slot of the task that makes it, kept or not; -1: none */
    struct reasons own; /* maker == -1 */
};

struct mtask {
    uint64_t id, bytes;
    int arg[MAX_ARGS], n_args;
    int32_t retries;
    bool kept, open, running, fresh; /* fresh: dropped in this step */
    /* true: dropped for `because`, not (only) because of its arguments */
    bool event;
    struct reasons because;
};

struct sim {
    struct sk_lineage *l;
    struct mobj obj[MAX_OBJS];
    struct mtask task[MAX_TASKS];
    int n_objs, n_tasks;
    uint64_t budget, n_remade, n_hopeless, n_evicted, n_freed, n_brought, whys;
};

/* ---- the model ------------------------------------------------------------------------------- */

static bool reason_add(struct reasons *r, uint8_t why, uint64_t culprit) {
    for (uint32_t i = 0; i < r->n; i++)
        if (r->p[i].why == why && r->p[i].culprit == culprit) return false;
    if (r->n == MAX_WHY) return false;
    r->p[r->n].why = why;
    r->p[r->n++].culprit = culprit;
    return true;
}

static void reasons_of(const struct sim *s, int o, struct reasons *out) {
    const struct mobj *x = &s->obj[o];
    const struct reasons *r = x->maker < 0 ? &x->own : &s->task[x->maker].because;
    for (uint32_t i = 0; i < r->n; i++)
        reason_add(out, r->p[i].why, r->p[i].culprit ? r->p[i].culprit : x->id);
}

static bool uses(const struct mtask *t, int o) {
    for (int i = 0; i < t->n_args; i++)
        if (t->arg[i] == o) return true;
    return false;
}

static bool used(const struct sim *s, int o) {
    for (int i = 0; i < s->n_tasks; i++)
        if (s->task[i].kept && uses(&s->task[i], o)) return true;
    return false;
}

static bool can_be_had(const struct sim *s, int o) {
    return s->obj[o].alive || (s->obj[o].maker >= 0 && s->task[s->obj[o].maker].kept);
}

static void drop(struct mtask *t) {
    t->kept = t->running = t->open = false;
    t->fresh = true;
}

static void settle(struct sim *s) {
    for (bool again = true; again;) {
        again = false;
        for (int i = 0; i < s->n_tasks; i++) {
            struct mtask *t = &s->task[i];
            if (!t->kept) continue;
            bool needed = t->open, can = true;
            for (int o = 0; o < s->n_objs && !needed; o++)
                needed = s->obj[o].maker == i && (s->obj[o].alive || used(s, o));
            for (int k = 0; k < t->n_args; k++) can = can && can_be_had(s, t->arg[k]);
            if (needed && can) continue;
            drop(t);
            again = true;
        }
    }
    for (bool again = true; again;) { /* reasons of those dropped now, from their arguments */
        again = false;
        for (int i = 0; i < s->n_tasks; i++) {
            struct mtask *t = &s->task[i];
            if (!t->fresh || t->event) continue;
            for (int k = 0; k < t->n_args; k++) {
                if (can_be_had(s, t->arg[k])) continue;
                struct reasons r = {0};
                reasons_of(s, t->arg[k], &r);
                for (uint32_t j = 0; j < r.n; j++)
                    again |= reason_add(&t->because, r.p[j].why, r.p[j].culprit);
            }
        }
    }
}

static void doom(struct sim *s, int i, uint8_t why, uint64_t culprit) {
    struct mtask *t = &s->task[i];
    drop(t);
    t->event = true;
    t->because.n = 0;
    reason_add(&t->because, why, culprit);
    settle(s);
}

static void over_budget(struct sim *s) {
    for (;;) {
        uint64_t sum = 0;
        int oldest = -1;
        for (int i = s->n_tasks - 1; i >= 0; i--) {
            const struct mtask *t = &s->task[i];
            if (t->kept) sum += t->bytes;
            if (t->kept && !t->open && !t->running) oldest = i;
        }
        if (sum <= s->budget || oldest < 0) return;
        s->n_evicted++;
        doom(s, oldest, SK_LOST_EVICTED, 0);
    }
}

/* ---- both must agree ------------------------------------------------------------------------- */

static void agree(struct sim *s) {
    uint64_t id, kept = 0, bytes = 0;
    void *data;
    while (sk_lineage_next_free(s->l, &id, &data)) {
        struct mtask *t = data;
        CHECK_EQ(t->id, id);
        CHECK_MSG(t->fresh && !t->kept, "task %d was let go, but the model keeps it",
                  (int)(t - s->task));
        t->fresh = false;
        s->n_freed++;
    }
    for (int i = 0; i < s->n_tasks; i++) {
        CHECK_MSG(!s->task[i].fresh, "task %d is kept for nothing", i);
        kept += s->task[i].kept;
        bytes += s->task[i].kept ? s->task[i].bytes : 0;
    }
    CHECK_EQ(sk_lineage_n(s->l), kept);
    CHECK_EQ(sk_lineage_bytes(s->l), bytes);
}

/* ---- steps ----------------------------------------------------------------------------------- */

static int new_obj(struct sim *s, int maker) {
    int o = s->n_objs++;
    s->obj[o] = (struct mobj){.id = (uint64_t)o + 1, .alive = true, .maker = maker};
    return o;
}

static int pick_alive(const struct sim *s) {
    for (int tries = 0; tries < 12 && s->n_objs; tries++) {
        int o = (int)test_below((uint64_t)s->n_objs);
        /* mostly young objects are chosen, which gives chains */
        if (tries < 6 && s->n_objs > 12 && test_below(4)) o = s->n_objs - 1 - (int)test_below(12);
        if (s->obj[o].alive) return o;
    }
    return -1;
}

static void step_put(struct sim *s) {
    if (s->n_objs == MAX_OBJS) return;
    int o = new_obj(s, -1);
    reason_add(&s->obj[o].own, test_below(5) ? SK_LOST_PUT : SK_LOST_ACTOR, 0);
}

static void step_add(struct sim *s) {
    if (s->n_tasks == MAX_TASKS || s->n_objs + MAX_RETS > MAX_OBJS) return;
    int i = s->n_tasks;
    struct mtask *t = &s->task[i];
    *t = (struct mtask){.id = (uint64_t)(TASK_ID + i),
                        .bytes = test_below(50) || s->budget > UINT32_MAX
                                     ? 1 + test_below(100)
                                     : s->budget + test_below(2),
                        .kept = true};
    t->retries = test_below(4) ? 1 + (int32_t)test_below(3) : -1;
    t->open = test_below(5) == 0;
    uint64_t args[MAX_ARGS], rets[MAX_RETS];
    for (uint64_t k = test_below(MAX_ARGS + 1); k > 0; k--) {
        int o = pick_alive(s);
        if (o < 0) break;
        args[t->n_args] = s->obj[o].id;
        t->arg[t->n_args++] = o;
    }
    struct sk_lineage_task spec = {.id = t->id,
                                   .args = args,
                                   .n_args = (uint32_t)t->n_args,
                                   .returns = rets,
                                   .bytes = t->bytes,
                                   .retries = t->retries,
                                   .open = t->open,
                                   .data = t};
    s->n_tasks++;
    for (uint64_t k = test_below(MAX_RETS + 1); k > 0; k--)
        rets[spec.n_returns++] = s->obj[new_obj(s, i)].id;
    CHECK_OK(sk_lineage_add(s->l, &spec, NULL));
    settle(s);
    if (t->kept && t->bytes > s->budget && !t->open) {
        s->n_evicted++;
        doom(s, i, SK_LOST_EVICTED, 0);
    }
    over_budget(s);
}

static struct mtask *pick_task(struct sim *s, bool under_way) {
    for (int tries = 0; tries < 12 && s->n_tasks; tries++) {
        struct mtask *t = &s->task[test_below((uint64_t)s->n_tasks)];
        if (t->kept && (t->open || t->running) == under_way) return t;
    }
    return NULL;
}

static void step_return(struct sim *s) {
    struct mtask *t = pick_task(s, true);
    if (!t || !t->open || s->n_objs == MAX_OBJS) return;
    uint64_t more = test_below(20);
    CHECK_OK(sk_lineage_return(s->l, t->id, s->obj[new_obj(s, (int)(t - s->task))].id, more, NULL));
    t->bytes += more;
    over_budget(s);
}

static void step_done(struct sim *s) {
    struct mtask *t = pick_task(s, true);
    if (!t) {
        sk_lineage_done(s->l, TASK_ID - 1, 1); /* unknown: nothing */
        return;
    }
    if (t->retries > 0 && test_below(4) == 0) t->retries--; /* its worker died meanwhile */
    t->open = t->running = false;
    sk_lineage_done(s->l, t->id, t->retries);
    settle(s);
    if (t->kept && t->retries == 0) doom(s, (int)(t - s->task), SK_LOST_RETRIES, 0);
    if (t->kept && t->bytes > s->budget) {
        s->n_evicted++;
        doom(s, (int)(t - s->task), SK_LOST_EVICTED, 0);
    }
    over_budget(s);
}

static void step_gone(struct sim *s) {
    int o = pick_alive(s);
    if (o < 0) return;
    sk_lineage_gone(s->l, s->obj[o].id,
                    s->obj[o].maker < 0 ? (enum sk_lost_why)s->obj[o].own.p[0].why
                                        : SK_LOST_EVICTED);
    s->obj[o].alive = false;
    settle(s);
}

/* Computes which tasks must run before `maker` can run, and which objects must be in scope for
 * that. */
static void closure(struct sim *s, int maker, bool *run, bool *back) {
    struct mtask *t = &s->task[maker];
    if (run[maker] || t->running || t->open) return;
    run[maker] = true;
    for (int k = 0; k < t->n_args; k++) {
        int o = t->arg[k];
        if (s->obj[o].alive) continue;
        back[o] = true;
        closure(s, s->obj[o].maker, run, back);
    }
}

static void step_lost(struct sim *s) {
    int o = pick_alive(s);
    if (o < 0) return;
    const struct mobj *x = &s->obj[o];
    enum sk_lost_why why = x->maker < 0 ? (enum sk_lost_why)x->own.p[0].why : SK_LOST_EVICTED;
    uint64_t culprit = 0, id;
    bool yes = sk_lineage_lost(s->l, x->id, &why, &culprit);
    CHECK_EQ(yes, x->maker >= 0 && s->task[x->maker].kept);
    if (!yes) {
        struct reasons r = {0};
        reasons_of(s, o, &r);
        bool found = r.n == MAX_WHY;
        for (uint32_t i = 0; i < r.n; i++)
            found = found || (r.p[i].why == why && r.p[i].culprit == culprit);
        CHECK_MSG(found,
                  "object %llu: why %d, culprit %llu; the model has %u reasons, first %d, %llu",
                  (unsigned long long)x->id, (int)why, (unsigned long long)culprit, r.n,
                  r.n ? r.p[0].why : -1, (unsigned long long)(r.n ? r.p[0].culprit : 0));
        s->n_hopeless++;
        s->whys |= 1u << why;
        for (int i = 0; i < s->n_tasks; i++)
            if (s->task[i].kept && uses(&s->task[i], o)) {
                drop(&s->task[i]);
                s->task[i].event = true;
                s->task[i].because = r;
            }
        settle(s);
        return;
    }
    bool run[MAX_TASKS] = {0}, back[MAX_OBJS] = {0}, was[MAX_OBJS], ran[MAX_TASKS] = {0};
    closure(s, x->maker, run, back);
    memcpy(was, back, sizeof was);
    while (sk_lineage_next_object(s->l, &id)) {
        int b = (int)id - 1;
        CHECK(back[b] && !s->obj[b].alive);
        s->obj[b].alive = true;
        back[b] = false;
        s->n_brought++;
    }
    for (int i = 0; i < s->n_objs; i++) CHECK(!back[i]);
    void *data;
    int32_t retries;
    while (sk_lineage_next_task(s->l, &id, &data, &retries)) {
        struct mtask *t = data;
        int i = (int)(t - s->task);
        CHECK(run[i] && !ran[i] && t->id == id);
        for (int k = 0; k < t->n_args; k++) { /* the makers of missing arguments run first */
            int m = s->obj[t->arg[k]].maker;
            CHECK(!was[t->arg[k]] || !run[m] || ran[m]);
        }
        ran[i] = true;
        t->running = true;
        if (t->retries > 0) t->retries--;
        CHECK_EQ(t->retries, retries);
        s->n_remade++;
    }
    for (int i = 0; i < s->n_tasks; i++) CHECK_EQ(run[i], ran[i]);
}

TEST_SLOW(lineage_sim, 300) {
    int rounds = test_rounds(test_sanitized() ? 300 : 1500);
    uint64_t steps = 0;
    struct sim *s = sk_calloc(SK_TAG_TEST, sizeof *s);
    CHECK(s);
    int64_t t0 = sk_now_ns();
    for (int round = 0; round < rounds; round++) {
        s->n_objs = s->n_tasks = 0;
        s->budget =
            /* all tasks may be larger than it: their sum must not wrap */
            test_below(2) ? 400 + test_below(600) : UINT64_MAX / 1024;
        CHECK_OK(sk_lineage_create(&s->l, s->budget, NULL));
        for (int i = 0; i < 250; i++, steps++) {
            uint64_t r = test_below(100);
            if (r < 10) step_put(s);
            else if (r < 35) step_add(s);
            else if (r < 45) step_return(s);
            else if (r < 65) step_done(s);
            else if (r < 88) step_gone(s);
            else step_lost(s);
            agree(s);
            if (i % 50 == 0) CHECK(sk_lineage_check(s->l));
        }
        /* All tasks end and all references are released: nothing may be left. */
        for (int i = 0; i < s->n_tasks; i++)
            if (s->task[i].kept && (s->task[i].open || s->task[i].running)) {
                s->task[i].open = s->task[i].running = false;
                sk_lineage_done(s->l, s->task[i].id, -1);
                s->task[i].retries = -1;
                settle(s);
                if (s->task[i].kept && s->task[i].bytes > s->budget) doom(s, i, SK_LOST_EVICTED, 0);
                over_budget(s);
                agree(s);
            }
        for (int o = 0; o < s->n_objs; o++) {
            if (!s->obj[o].alive) continue;
            s->obj[o].alive = false;
            sk_lineage_gone(s->l, s->obj[o].id, SK_LOST_PUT);
            settle(s);
            agree(s);
        }
        CHECK_EQ(sk_lineage_n(s->l), 0);
        CHECK_EQ(sk_lineage_bytes(s->l), 0);
        for (int o = 0; o < s->n_objs; o++) CHECK(!sk_lineage_knows(s->l, s->obj[o].id));
        CHECK(sk_lineage_check(s->l));
        sk_lineage_destroy(s->l);
    }
    double rate = (double)steps / ((double)(sk_now_ns() - t0) / 1e9);
    printf("# %llu steps, %.0f a second; %llu remade, %llu brought back, %llu hopeless (reasons "
           "%llx), %llu evicted, %llu let go\n",
           (unsigned long long)steps, rate, (unsigned long long)s->n_remade,
           (unsigned long long)s->n_brought, (unsigned long long)s->n_hopeless,
           (unsigned long long)s->whys, (unsigned long long)s->n_evicted,
           (unsigned long long)s->n_freed);
    CHECK(s->n_remade > 1000 && s->n_brought > 300 && s->n_hopeless > 1000 && s->n_evicted > 300 &&
          s->whys == 15);
    sk_free(s);
}
