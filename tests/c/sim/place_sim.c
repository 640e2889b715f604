/* place_sim.c - placement on a virtual clock: random tasks, demands, workers, deaths, waits and
 * actors, against a naive model.
 *
 * The model stores in plain arrays which task runs where, and computes all sums from scratch.
 * Checked at each step: no resource is given out twice (CPUs may be, after a wait ends); tasks of
 * one shape and level start in order; every task that could start does (unless resources are saved
 * up for an older one); a task that has waited long is passed at most SK_PLACE_BYPASS times; tasks
 * that are stuck behind a long task are moved to another worker; and in the end all tasks have
 * run. */
#include "base/clock.h"
#include "engine/place/place.h"
#include "test.h"

enum { N_WORKERS = 40, N_TASKS = 4000, QUEUE = 600, N_SHAPES = 9 };

struct stask {
    struct sk_place_task p;
    enum { T_FREE, T_READY, T_SENT } state;
    /* passed: tasks that overtook it; n_older: times that an older task became ready again while it
     * waited */
    uint32_t passed, n_older;
};
struct sworker {
    struct sk_place_worker p;
    struct stask *q[QUEUE];
    uint32_t n;
    int64_t began;
};
struct sim {
    struct sk_place p;
    struct sworker w[N_WORKERS];
    struct stask t[N_TASKS];
    sk_shape shape[N_SHAPES];
    uint32_t n_workers, n_shapes, n_free;
    int64_t now;
    uint64_t n_submitted, n_done, n_stolen, n_deaths, n_blocks, n_actors, n_steps, n_saved,
        most_passed;
    uint64_t actor_order; /* one waits */
    sk_shape actor_shape;
    bool modes; /* true: which tasks may begin changes, as it does when memory is short */
    uint64_t n_alone, n_one;
};

static const struct sk_res *res_of(const struct sim *s, sk_shape x) {
    return &sk_place_shape_at(&s->p, x)->res;
}

/* True if a start of y takes resources for which x waits. */
static bool hurts(const struct sk_res *x, const struct sk_res *y, const struct sk_res *avail) {
    for (int i = 0; i < SK_RES_MAX; i++)
        if (x->amount[i] > 0 && y->amount[i] > 0 && x->amount[i] + y->amount[i] > avail->amount[i])
            return true;
    return false;
}

static bool covers(const struct sk_res *avail, const struct sk_res *x) {
    for (int i = 0; i < SK_RES_MAX; i++)
        if (x->amount[i] > 0 && x->amount[i] > avail->amount[i]) return false;
    return true;
}

static struct sk_res held(const struct sim *s) {
    struct sk_res h = {.amount = {0}};
    for (uint32_t i = 0; i < s->n_workers; i++) {
        const struct sk_place_worker *w = &s->w[i].p;
        if (w->state != SK_W_LEASED && w->state != SK_W_ACTOR) continue;
        for (int r = 0; r < SK_RES_MAX; r++)
            if (r != SK_RES_CPU || !w->blocked) h.amount[r] += res_of(s, w->shape)->amount[r];
    }
    return h;
}

enum { N_MORE = 4 }; /* custom resources that have no place in sk_res */

static int64_t more_of(const struct sim *s, sk_shape x, uint32_t i) {
    const struct sk_place_more *m = sk_place_shape_at(&s->p, x)->more;
    for (uint32_t k = 0; m && k < m->n; k++)
        if (m->a[k].index == SK_RES_MAX + i) return m->a[k].amount;
    return 0;
}
static int64_t more_left(const struct sim *s, uint32_t i) {
    int64_t left = s->p.more_total[i];
    for (uint32_t k = 0; k < s->n_workers; k++)
        if (s->w[k].p.state == SK_W_LEASED || s->w[k].p.state == SK_W_ACTOR)
            left -= more_of(s, s->w[k].p.shape, i);
    return left;
}

static void check_resources(const struct sim *s) {
    struct sk_res h = held(s);
    for (uint32_t i = 0; i < s->p.n_more; i++) {
        CHECK_EQ(more_left(s, i), s->p.more_avail[i]);
        CHECK_GE(s->p.more_avail[i], 0);
    }
    for (int r = 0; r < SK_RES_MAX; r++) {
        CHECK_EQ(s->p.total.amount[r] - h.amount[r], s->p.avail.amount[r]);
        if (r != SK_RES_CPU) CHECK_GE(s->p.avail.amount[r], 0);
    }
}

static bool model_fits(const struct sim *s, sk_shape x) {
    for (int r = 0; r < SK_RES_MAX; r++)
        if (res_of(s, x)->amount[r] > 0 && res_of(s, x)->amount[r] > s->p.avail.amount[r])
            return false;
    for (uint32_t i = 0; i < s->p.n_more; i++)
        if (more_of(s, x, i) > more_left(s, i)) return false;
    return true;
}

static struct stask *oldest_ready(struct sim *s) {
    struct stask *best = NULL;
    for (uint32_t i = 0; i < N_TASKS; i++)
        if (s->t[i].state == T_READY && (!best || s->t[i].p.order < best->p.order)) best = &s->t[i];
    return best;
}

static void submit(struct sim *s) {
    if (s->n_free == 0) return;
    struct stask *t = &s->t[test_below(N_TASKS)];
    while (t->state != T_FREE) t = t == &s->t[N_TASKS - 1] ? &s->t[0] : t + 1;
    memset(t, 0, sizeof *t);
    sk_list_init(&t->p.link);
    t->p.shape = s->shape[test_below(s->n_shapes)];
    t->p.level = (uint8_t)(test_below(4) ? 0 : test_below(SK_PLACE_LEVELS));
    t->state = T_READY;
    s->n_free--;
    s->n_submitted++;
    sk_place_push(&s->p, &t->p);
}

static void give_back(struct sim *s, struct sworker *w, uint32_t at) {
    /* task `at` of w becomes ready again */
    struct stask *t = w->q[at];
    memmove(&w->q[at], &w->q[at + 1], (w->n - at - 1) * sizeof *w->q);
    w->n--;
    t->state = T_READY;
    sk_place_push(&s->p, &t->p);
    for (uint32_t i = 0; i < N_TASKS; i++)
        if (s->t[i].state == T_READY && s->t[i].p.order > t->p.order) s->t[i].n_older++;
}

/* Checks a start: whether the model would start this task now. */
static void check_start(struct sim *s, const struct stask *t, bool fresh_lease,
                        const struct sk_res *avail) {
    bool is_deep = s->p.n_blocked > s->p.deep_above;
    for (uint32_t i = 0; i < N_TASKS && s->n_steps % 16 == 0; i++) {
        struct stask *o = &s->t[i];
        if (o->state != T_READY || o == t) continue;
        if (o->p.shape == t->p.shape && o->p.level == t->p.level) CHECK_LT(t->p.order, o->p.order);
        if (o->p.shape == t->p.shape && is_deep) CHECK_LE(o->p.level, t->p.level);
    }
    /* if nested tasks overtake, the task for which resources are saved changes */
    if (s->p.deep_above != UINT32_MAX || !fresh_lease) return;
    struct stask *old = oldest_ready(s);
    if (!old || old->p.order > t->p.order || (s->actor_order && s->actor_order < old->p.order))
        return;
    if (!hurts(res_of(s, old->p.shape), res_of(s, t->p.shape), avail)) return;
    /* a worker of its kind is missing and was requested, see picks() */
    if (covers(avail, res_of(s, old->p.shape))) return;
    old->passed++;
    s->most_passed = SK_MAX(s->most_passed, old->passed);
    /* tasks that return, and actors, may have a turn first */
    if (!s->modes) CHECK_LE(old->passed, SK_PLACE_BYPASS * (2 + old->n_older));
}

static void picks(struct sim *s, bool may_spawn) {
    sk_place_want(&s->p, s->actor_order, s->actor_shape);
    for (;;) {
        struct sk_place_pick pick;
        struct sk_res before = s->p.avail;
        uint32_t idle = s->p.n_idle;
        sk_place_pick(&s->p, s->now, &pick);
        if (pick.what == SK_PLACE_NOTHING) break;
        CHECK(s->p.launch != SK_LAUNCH_NONE);
        if (pick.what == SK_PLACE_SPAWN) {
            CHECK_EQ(s->p.n_idle, 0);
            CHECK(s->p.launch == SK_LAUNCH_ALL || s->p.n_starting == 0);
            uint32_t i = 0;
            while (i < s->n_workers && s->w[i].p.state != SK_W_NONE) i++;
            if (!may_spawn || i == s->n_workers) return;
            sk_place_worker_starting(&s->p, &s->w[i].p);
            continue;
        }
        struct sworker *w = sk_container_of(pick.worker, struct sworker, p);
        if (pick.what == SK_PLACE_STEAL) {
            CHECK(s->p.launch == SK_LAUNCH_ALL && s->p.n_ready == s->p.n_alone && idle > 0 &&
                  w->n >= 2 && w->p.state == SK_W_LEASED && model_fits(s, w->p.shape));
            sk_place_done(&s->p, &w->p, -1, s->now);
            give_back(s, w, w->n - 1);
            s->n_stolen++;
            continue;
        }
        struct stask *t = sk_container_of(pick.task, struct stask, p);
        CHECK(t->state == T_READY && sk_list_empty(&t->p.link));
        bool fresh = w->n == 0, alone = sk_place_shape_at(&s->p, t->p.shape)->alone;
        CHECK(alone == (s->p.launch == SK_LAUNCH_ALONE) && (fresh || s->p.launch == SK_LAUNCH_ALL));
        s->n_alone += alone;
        s->n_one += s->p.launch == SK_LAUNCH_ONE;
        t->state = T_SENT;
        check_start(s, t, fresh, &before);
        if (fresh) { /* a new lease has taken the free resources */
            CHECK(idle > 0);
            for (int r = 0; r < SK_RES_MAX; r++)
                if (res_of(s, t->p.shape)->amount[r] > 0)
                    CHECK_GE(before.amount[r], res_of(s, t->p.shape)->amount[r]);
            w->began = s->now;
        } else {
            CHECK(!w->p.blocked && w->q[0]->p.shape == t->p.shape && w->n < SK_PLACE_DEPTH_MAX);
        }
        CHECK(w->p.state == SK_W_LEASED && w->p.shape == t->p.shape && w->n < QUEUE);
        w->q[w->n++] = t;
        CHECK_EQ(w->p.depth, w->n);
    }
    /* The engine found no task to start: checks that the model finds none, either. */
    if (s->p.launch == SK_LAUNCH_NONE) return;
    if (s->p.n_idle > 0)
        for (uint32_t x = 0; x < s->p.n_shapes; x++) {
            if (s->p.shapes[x]->alone != (s->p.launch == SK_LAUNCH_ALONE)) continue;
            if (!s->p.shapes[x]->n_ready || !model_fits(s, (sk_shape)x)) continue;
            CHECK_GE(s->p.n_bypassed, SK_PLACE_BYPASS); /* resources are saved for an older task */
            s->n_saved++;
        }
    if (s->p.launch == SK_LAUNCH_ALL && s->p.n_idle > 0 && s->p.n_ready == s->p.n_alone)
        for (uint32_t i = 0; i < s->n_workers; i++) {
            const struct sworker *w = &s->w[i];
            if (w->p.state == SK_W_LEASED && w->n >= 2 && model_fits(s, w->p.shape))
                CHECK_LT(s->now - w->p.since_ns, 1000000);
        }
}

static struct sworker *some(struct sim *s, enum sk_place_wstate state, int blocked) {
    uint32_t from = (uint32_t)test_below(s->n_workers);
    for (uint32_t i = 0; i < s->n_workers; i++) {
        struct sworker *w = &s->w[(from + i) % s->n_workers];
        if (w->p.state == state && (blocked < 0 || w->p.blocked == (bool)blocked)) return w;
    }
    return NULL;
}

static void complete(struct sim *s) {
    struct sworker *w = some(s, SK_W_LEASED, 0);
    if (!w) return;
    int64_t ran = (int64_t)test_below(test_below(20) ? 2000 : 20000000) + 1;
    s->now += ran / 4;
    struct stask *t = w->q[0];
    memmove(&w->q[0], &w->q[1], (w->n - 1) * sizeof *w->q);
    w->n--;
    t->state = T_FREE;
    s->n_free++;
    s->n_done++;
    sk_place_done(&s->p, &w->p, ran, s->now);
    CHECK_EQ(w->p.state, w->n ? SK_W_LEASED : SK_W_IDLE);
}

static void block(struct sim *s) {
    struct sworker *w = some(s, SK_W_LEASED, 0);
    if (!w) return;
    sk_place_worker_block(&s->p, &w->p, true);
    while (w->n > 1) { /* as the engine does */
        sk_place_done(&s->p, &w->p, -1, s->now);
        give_back(s, w, w->n - 1);
    }
    s->n_blocks++;
}

static void die(struct sim *s, struct sworker *w) {
    if (!w) return;
    sk_place_worker_gone(&s->p, &w->p);
    while (w->n) give_back(s, w, 0);
    s->n_deaths++;
}

static void place_actor(struct sim *s) {
    if (!s->actor_order) return;
    struct sk_list *l = sk_list_first(&s->p.idle);
    if (!l || !sk_place_fits_now(&s->p, s->actor_shape)) return;
    sk_place_worker_actor(&s->p, sk_container_of(l, struct sk_place_worker, link), s->actor_shape);
    s->actor_order = 0;
    s->n_actors++;
}

static void want_actor(struct sim *s) {
    if (s->actor_order) return;
    s->actor_order = sk_place_order(&s->p);
    s->actor_shape = s->shape[test_below(s->n_shapes)];
}

static void setup(struct sim *s, bool modes) {
    struct sk_res total = {.amount = {(int64_t)(1 + test_below(8)) * SK_RES_UNIT, 0, 1000000,
                                      2 * SK_RES_UNIT, (int64_t)test_below(3) * SK_RES_UNIT}};
    memset(s, 0, sizeof *s);
    s->modes = modes;
    int64_t more[N_MORE];
    for (uint32_t i = 0; i < N_MORE; i++) more[i] = (int64_t)(1 + test_below(3)) * SK_RES_UNIT;
    CHECK_OK(sk_place_init(&s->p, &total, NULL));
    CHECK_OK(sk_place_more_init(&s->p, more, N_MORE, NULL));
    s->n_workers = (uint32_t)(2 + test_below(N_WORKERS - 2));
    s->n_free = N_TASKS;
    s->n_shapes = (uint32_t)(1 + test_below(N_SHAPES));
    for (uint32_t i = 0; i < s->n_shapes; i++) {
        struct sk_res r = {.amount = {0}};
        switch (test_below(6)) {
        case 0: r.amount[SK_RES_CPU] = SK_RES_UNIT; break;
        case 1: r.amount[SK_RES_CPU] = (int64_t)(1 + test_below((uint64_t)total.amount[0])); break;
        /* a task that needs the whole machine, which may starve */
        case 2: r.amount[SK_RES_CPU] = total.amount[0]; break;
        case 3:
            r.amount[SK_RES_CUSTOM + 1] = total.amount[SK_RES_CUSTOM + 1] / 2,
                                     r.amount[SK_RES_CPU] = SK_RES_UNIT / 2;
            break;
        case 4: r.amount[SK_RES_CUSTOM] = SK_RES_UNIT, r.amount[SK_RES_MEMORY] = 300000; break;
        default: break; /* nothing at all */
        }
        struct sk_amount a[N_MORE];
        struct sk_need need = {.res = r};
        uint32_t n = 0;
        for (uint32_t k = 0; k < N_MORE && i % 3 == 1; k++)
            if (test_below(2))
                a[n++] =
                    (struct sk_amount){SK_RES_MAX + k, (int64_t)test_below((uint64_t)more[k] + 1)};
        CHECK_OK(sk_place_more(&s->p, a, n, &need.more, NULL));
        CHECK_OK(sk_place_need(&s->p, &need, &s->shape[i], NULL));
        CHECK(sk_place_fits_ever(&s->p, s->shape[i]));
        if (modes && test_below(3) == 0)
            CHECK_OK(sk_place_alone(&s->p, s->shape[i], &s->shape[i], NULL));
    }
    s->p.deep_above = test_below(2) ? UINT32_MAX : (uint32_t)test_below(6);
    for (uint32_t i = 0; i < s->n_workers; i++) sk_place_worker_init(&s->w[i].p);
}

/* Ends all tasks without new events. */
static void drain(struct sim *s) {
    for (uint64_t n = 0; s->n_done < s->n_submitted || s->actor_order; n++) {
        CHECK_MSG(n < 50 * (uint64_t)N_TASKS, "stuck: %llu of %llu done, %u ready",
                  (unsigned long long)s->n_done, (unsigned long long)s->n_submitted, s->p.n_ready);
        struct sworker *w;
        while ((w = some(s, SK_W_STARTING, -1))) sk_place_worker_up(&s->p, &w->p);
        while ((w = some(s, SK_W_LEASED, 1))) sk_place_worker_block(&s->p, &w->p, false);
        /* an actor ends */
        if ((w = some(s, SK_W_ACTOR, -1))) sk_place_worker_gone(&s->p, &w->p);
        place_actor(s);
        if (s->actor_order && s->p.n_ready == 0 && !some(s, SK_W_IDLE, -1) &&
            (w = some(s, SK_W_NONE, -1)))
            sk_place_worker_starting(&s->p, &w->p);
        s->p.launch = s->p.n_alone && n % 2 ? SK_LAUNCH_ALONE : SK_LAUNCH_ALL;
        picks(s, true);
        complete(s);
    }
    for (uint32_t i = 0; i < s->n_workers; i++) sk_place_worker_gone(&s->p, &s->w[i].p);
    CHECK(memcmp(&s->p.avail, &s->p.total, sizeof s->p.total) == 0);
    CHECK(sk_place_check(&s->p) && s->p.n_ready == 0 && s->p.n_idle == 0 && s->p.n_starting == 0);
}

static void step(struct sim *s) {
    s->n_steps++;
    s->now += (int64_t)test_below(1000);
    switch (test_below(32)) {
    case 0: block(s); break;
    case 1:
    case 2: {
        struct sworker *w = some(s, SK_W_LEASED, 1);
        if (w) sk_place_worker_block(&s->p, &w->p, false);
        break;
    }
    case 3:
        if (test_below(8) == 0) die(s, &s->w[test_below(s->n_workers)]);
        break;
    case 4:
        if (test_below(8) == 0) want_actor(s);
        break;
    case 5: {
        struct sworker *w = some(s, SK_W_ACTOR, -1);
        if (w && test_below(2)) sk_place_worker_gone(&s->p, &w->p);
        break;
    }
    case 6: { /* a ready one is cancelled */
        struct stask *t = &s->t[test_below(N_TASKS)];
        if (t->state != T_READY) break;
        sk_place_unpush(&s->p, &t->p);
        t->state = T_FREE;
        s->n_free++;
        s->n_submitted--;
        break;
    }
    case 7: s->now += 2000000; break; /* time passes, so running tasks count as long */
    case 8 ... 17: submit(s); break;
    case 18 ... 20: {
        struct sworker *w = some(s, SK_W_STARTING, -1);
        if (w) sk_place_worker_up(&s->p, &w->p);
        break;
    }
    default: complete(s);
    }
    place_actor(s);
    if (s->modes && test_below(8) == 0) s->p.launch = (enum sk_place_launch)test_below(4);
    picks(s, true);
    check_resources(s);
    if (s->n_steps % 256 == 0) CHECK(sk_place_check(&s->p));
}

TEST_SLOW(place_random, 300) {
    static struct sim s;
    uint64_t steps = 0, saved = 0, stolen = 0, actors = 0, blocks = 0, deaths = 0, passed = 0;
    int64_t t0 = sk_now_ns();
    for (int run = 0; run < test_rounds(60); run++) {
        setup(&s, false);
        for (int i = 0; i < 5000; i++) step(&s);
        drain(&s);
        steps += s.n_steps, saved += s.n_saved, stolen += s.n_stolen, actors += s.n_actors,
            blocks += s.n_blocks, deaths += s.n_deaths;
        passed = SK_MAX(passed, s.most_passed);
        sk_place_deinit(&s.p);
    }
    /* the random walks have reached all these cases */
    CHECK(stolen && actors && blocks && deaths && passed);
    /* in 75,000 (quick) one of forty times none was */
    CHECK(saved || steps < 200000);
    printf("# %llu steps, %.0f a second; saved up %llu times, stolen %llu, actors %llu, waits "
           "%llu, deaths %llu, passed at most %llu times\n",
           (unsigned long long)steps, (double)steps * 1e9 / (double)(sk_now_ns() - t0),
           (unsigned long long)saved, (unsigned long long)stolen, (unsigned long long)actors,
           (unsigned long long)blocks, (unsigned long long)deaths, (unsigned long long)passed);
}

/* A task that needs the whole machine among a stream of small ones that never lets up. */
TEST_SLOW(place_launch_random, 300) {
    /* which tasks may begin changes all the time; at the end all tasks are done */
    static struct sim s;
    uint64_t alone = 0, one = 0;
    for (int run = 0; run < test_rounds(30); run++) {
        setup(&s, true);
        for (int i = 0; i < 5000; i++) step(&s);
        drain(&s);
        alone += s.n_alone, one += s.n_one;
        sk_place_deinit(&s.p);
    }
    CHECK(alone && one);
    printf("# %llu began alone, %llu one at a time\n", (unsigned long long)alone,
           (unsigned long long)one);
}

TEST(place_large_among_small) {
    static struct sim s;
    struct sk_res total = {.amount = {4 * SK_RES_UNIT}};
    sk_shape all;
    memset(&s, 0, sizeof s);
    CHECK_OK(sk_place_init(&s.p, &total, NULL));
    CHECK_OK(sk_place_shape(&s.p, &total, &all, NULL));
    s.n_workers = 8;
    s.n_free = N_TASKS;
    s.n_shapes = 1; /* shape 0: one CPU */
    for (uint32_t i = 0; i < s.n_workers; i++) {
        sk_place_worker_init(&s.w[i].p);
        sk_place_worker_starting(&s.p, &s.w[i].p);
        sk_place_worker_up(&s.p, &s.w[i].p);
    }
    for (int i = 0; i < 10; i++) submit(&s);
    picks(&s, false);
    static struct stask large;
    sk_list_init(&large.p.link);
    large.p.shape = all;
    large.state = T_READY;
    sk_place_push(&s.p, &large.p);
    uint64_t before = s.n_done;
    for (int i = 0; i < 3000 && large.state == T_READY; i++) {
        submit(&s);
        submit(&s);
        complete(&s);
        picks(&s, false);
    }
    CHECK_EQ(large.state, T_SENT);
    CHECK_LT(s.n_done - before, 2000); /* what was queued before it, and SK_PLACE_BYPASS leases */
    sk_place_deinit(&s.p);
}

/* ---- placement groups, GPUs by index, environments ------------------------------------------- */

enum { N_GROUPS = 12 };
struct gsim {
    struct sim s;
    struct {
        uint64_t id; /* 0: none */
        struct sk_place_group *g;
        sk_shape shape[3];
        bool ready;
    } group[N_GROUPS];
    uint64_t next_group, n_made, n_grown, n_ready, n_removed, n_in_bundles, n_gpu_shares, n_dead,
        n_stale;
    struct {
        bool used, gpu;
        uint32_t env;
    } seen[N_WORKERS];
    sk_shape plain[6], stale[64]; /* of removed groups */
};

/* Computes all sums from scratch: each pool must match the leases on it, each GPU its shares. */
static void check_pools(struct gsim *g) {
    struct sim *s = &g->s;
    struct sk_res node = s->p.avail;
    int64_t gpu[SK_PLACE_GPUS];
    memcpy(gpu, s->p.gpu_left, sizeof gpu);
    for (int i = 0; i < N_GROUPS; i++) {
        struct sk_place_group *pg = g->group[i].g;
        if (!g->group[i].id) continue;
        for (uint32_t b = 0; b < pg->n; b++) {
            if (!pg->b[b].there) continue;
            struct sk_res sum = pg->b[b].avail;
            for (uint32_t k = 0; k < s->n_workers; k++) {
                const struct sk_place_worker *w = &s->w[k].p;
                if ((w->state != SK_W_LEASED && w->state != SK_W_ACTOR) || w->in != pg ||
                    w->bundle != b)
                    continue;
                for (int r = 0; r < SK_RES_MAX; r++)
                    if (r != SK_RES_CPU || !w->blocked)
                        sum.amount[r] += res_of(s, w->shape)->amount[r];
            }
            CHECK_MEM_EQ(&sum, &pg->b[b].total, sizeof sum);
            for (int r = 0; r < SK_RES_MAX; r++) {
                node.amount[r] += pg->b[b].total.amount[r];
                if (r != SK_RES_CPU) CHECK_GE(pg->b[b].avail.amount[r], 0);
            }
            for (uint32_t x = 0; x < SK_PLACE_GPUS; x++) gpu[x] += pg->b[b].gpu_left[x];
        }
    }
    for (uint32_t k = 0; k < s->n_workers; k++) {
        const struct sk_place_worker *w = &s->w[k].p;
        if (w->state == SK_W_NONE || w->state == SK_W_STARTING) g->seen[k].used = false;
        if (w->state != SK_W_LEASED && w->state != SK_W_ACTOR) continue;
        const struct sk_place_shape *sh = sk_place_shape_at(&s->p, w->shape);
        int64_t amount = sh->res.amount[SK_RES_GPU];
        CHECK_EQ(sh->id, w->shape);
        /* a process is of one kind */
        if (g->seen[k].used) CHECK(g->seen[k].env == sh->env && g->seen[k].gpu == (amount > 0));
        g->seen[k].used = true;
        g->seen[k].env = sh->env;
        g->seen[k].gpu = amount > 0;
        CHECK_EQ(__builtin_popcountll(w->gpus), amount <= 0            ? 0
                                                : amount < SK_RES_UNIT ? 1
                                                                       : amount / SK_RES_UNIT);
        for (uint32_t x = 0; x < SK_PLACE_GPUS; x++)
            if (w->gpus >> x & 1) gpu[x] += SK_MIN(amount, SK_RES_UNIT);
        g->n_gpu_shares += amount > 0 && amount < SK_RES_UNIT;
        if (w->in && !w->in->removed) {
            g->n_in_bundles++;
            continue;
        }
        for (int r = 0; r < SK_RES_MAX; r++)
            if (r != SK_RES_CPU || !w->blocked) node.amount[r] += sh->res.amount[r];
    }
    CHECK_MEM_EQ(&node, &s->p.total, sizeof node);
    for (uint32_t x = 0; x < SK_PLACE_GPUS; x++)
        CHECK_EQ(gpu[x],
                 x < (uint32_t)(s->p.total.amount[SK_RES_GPU] / SK_RES_UNIT) ? SK_RES_UNIT : 0);
}

static void group_picks(struct gsim *g) {
    struct sim *s = &g->s;
    for (;;) {
        struct sk_place_pick pick;
        sk_place_pick(&s->p, s->now, &pick);
        if (pick.what == SK_PLACE_NOTHING) return;
        if (pick.what == SK_PLACE_GROUP) {
            int i = 0;
            while (i < N_GROUPS && (!g->group[i].id || g->group[i].g != pick.group)) i++;
            CHECK(i < N_GROUPS && !g->group[i].ready && pick.group->ready);
            g->group[i].ready = true;
            g->n_ready++;
            continue;
        }
        if (pick.what == SK_PLACE_DEAD) {
            struct stask *t = sk_container_of(pick.task, struct stask, p);
            CHECK(t->state == T_READY && sk_place_shape_dead(&s->p, t->p.shape));
            t->state = T_FREE;
            s->n_free++;
            g->n_dead++;
            continue;
        }
        if (pick.what == SK_PLACE_SPAWN) {
            uint32_t i = 0;
            while (i < s->n_workers && s->w[i].p.state != SK_W_NONE) i++;
            if (i < s->n_workers) {
                sk_place_worker_starting(&s->p, &s->w[i].p);
                continue;
            }
            /* all processes exist: one with another environment is ended */
            struct sk_list *cold = sk_list_last(&s->p.idle);
            if (!cold) return;
            sk_place_worker_gone(&s->p, sk_container_of(cold, struct sk_place_worker, link));
            continue;
        }
        struct sworker *w = sk_container_of(pick.worker, struct sworker, p);
        if (pick.what == SK_PLACE_STEAL) {
            CHECK(sk_place_idle_for(&s->p, w->p.shape) && w->n >= 2);
            sk_place_done(&s->p, &w->p, -1, s->now);
            give_back(s, w, w->n - 1);
            continue;
        }
        struct stask *t = sk_container_of(pick.task, struct stask, p);
        CHECK(t->state == T_READY && !sk_place_shape_dead(&s->p, t->p.shape));
        CHECK(w->p.state == SK_W_LEASED && w->p.shape == t->p.shape && w->n < QUEUE);
        t->state = T_SENT;
        w->q[w->n++] = t;
    }
}

static void group_submit(struct gsim *g, sk_shape shape) {
    struct sim *s = &g->s;
    s->n_shapes = 1;
    s->shape[0] = shape;
    submit(s);
}

static void group_make(struct gsim *g) {
    struct sim *s = &g->s;
    int i = (int)test_below(N_GROUPS);
    if (g->group[i].id) return;
    /* shapes of removed groups are reused */
    CHECK_LE(s->p.n_shapes, 2 + 6 + 3 * N_GROUPS + N_WORKERS);
    uint32_t n = (uint32_t)(1 + test_below(3));
    struct sk_res b[3];
    memset(b, 0, sizeof b);
    for (uint32_t k = 0; k < n; k++) {
        b[k].amount[SK_RES_CPU] = (int64_t)(1 + test_below(2)) * SK_RES_UNIT;
        b[k].amount[SK_RES_GPU] =
            (int64_t)test_below(3) * SK_RES_UNIT / 2 * (test_below(2) ? 2 : 1);
    }
    memset(&g->group[i], 0, sizeof g->group[i]);
    g->group[i].id = ++g->next_group;
    CHECK_OK(
        sk_place_group_add(&s->p, g->group[i].id, b, n, test_below(8) == 0, &g->group[i].g, NULL));
    for (uint32_t k = 0; k < n; k++)
        if (!test_below(6)) sk_place_bundle_elsewhere(&s->p, g->group[i].g, k, true);
    for (int k = 0; k < 3; k++) {
        struct sk_need need = {.res = {.amount = {SK_RES_UNIT}},
                               .group = g->group[i].id,
                               .bundle = k == 0 ? -1 : (int32_t)test_below(n)};
        if (k == 2)
            need.res.amount[SK_RES_CPU] = SK_RES_UNIT / 2,
            need.res.amount[SK_RES_GPU] = SK_RES_UNIT / 2;
        CHECK_OK(sk_place_need(&s->p, &need, &g->group[i].shape[k], NULL));
    }
    g->n_made++;
}

/* Bundles of a group that another node had are here from now on. */
static void group_grow(struct gsim *g) {
    int i = (int)test_below(N_GROUPS);
    if (!g->group[i].id || g->group[i].g->never) return;
    for (uint32_t k = 0; k < g->group[i].g->n; k++) {
        if (!g->group[i].g->b[k].elsewhere) continue;
        sk_place_bundle_elsewhere(&g->s.p, g->group[i].g, k, false);
        g->group[i].ready = false;
        g->n_grown++;
    }
}

static void group_drop(struct gsim *g, int i) {
    struct sim *s = &g->s;
    if (!g->group[i].id) return;
    struct sk_place_group *pg = g->group[i].g;
    struct sworker *in[N_WORKERS];
    uint32_t n_in = 0;
    for (uint32_t k = 0; k < s->n_workers; k++)
        if (s->w[k].n && s->w[k].p.in == pg) in[n_in++] = &s->w[k];
    sk_place_group_remove(&s->p, pg);
    for (int k = 0; k < 3; k++) g->stale[g->n_stale++ % SK_COUNT(g->stale)] = g->group[i].shape[k];
    for (uint64_t k = 0; k < SK_MIN(g->n_stale, SK_COUNT(g->stale)); k++)
        CHECK(sk_place_shape_dead(&s->p, g->stale[k]) && !sk_place_fits_now(&s->p, g->stale[k]) &&
              !sk_place_fits_ever(&s->p, g->stale[k]) && sk_place_shape_known(&s->p, g->stale[k]));
    CHECK_RC(sk_place_need(&s->p, &(struct sk_need){.group = g->group[i].id}, &(sk_shape){0}, NULL),
             SK_EGROUP);
    /* tasks that run in it are killed, sooner or later, and are queued again */
    for (uint32_t k = 0; k < n_in; k++)
        if (test_below(2)) die(s, in[k]);
    g->group[i].id = 0;
    g->n_removed++;
}

TEST_SLOW(place_groups_random, 300) {
    static struct gsim g;
    struct sim *s = &g.s;
    uint64_t steps = 0, made = 0, grown = 0, ready = 0, removed = 0, in = 0, shares = 0, dead = 0;
    int64_t t0 = sk_now_ns();
    for (int run = 0; run < test_rounds(20); run++) {
        memset(&g, 0, sizeof g);
        struct sk_res total = {.amount = {(int64_t)(2 + test_below(7)) * SK_RES_UNIT,
                                          (int64_t)test_below(5) * SK_RES_UNIT, 1000000}};
        CHECK_OK(sk_place_init(&s->p, &total, NULL));
        s->n_workers = (uint32_t)(6 + test_below(N_WORKERS - 6));
        s->n_free = N_TASKS;
        s->p.deep_above = UINT32_MAX;
        for (uint32_t i = 0; i < s->n_workers; i++) sk_place_worker_init(&s->w[i].p);
        for (uint32_t i = 0; i < 6; i++) {
            struct sk_need need = {.res = {.amount = {i % 3 == 2 ? SK_RES_UNIT / 4 : SK_RES_UNIT}},
                                   .env = i / 2};
            if (i % 3 == 2)
                need.res.amount[SK_RES_GPU] = SK_MIN(total.amount[SK_RES_GPU], SK_RES_UNIT / 4);
            CHECK_OK(sk_place_need(&s->p, &need, &g.plain[i], NULL));
        }
        for (int i = 0; i < 3000; i++) {
            s->now += (int64_t)test_below(1000);
            switch (test_below(24)) {
            case 0: group_make(&g); break;
            case 1:
                if (test_below(3) == 0) group_drop(&g, (int)test_below(N_GROUPS));
                else group_grow(&g);
                break;
            case 2: block(s); break;
            case 3:
            case 4: {
                struct sworker *w = some(s, SK_W_LEASED, 1);
                if (w) sk_place_worker_block(&s->p, &w->p, false);
                break;
            }
            case 5:
                if (test_below(8) == 0) {
                    struct sworker *w = &s->w[test_below(s->n_workers)];
                    if (w->p.state != SK_W_NONE) die(s, w);
                }
                break;
            case 6 ... 8: group_submit(&g, g.plain[test_below(6)]); break;
            case 9 ... 12: {
                int k = (int)test_below(N_GROUPS);
                sk_shape x = g.group[k].id ? g.group[k].shape[test_below(3)] : g.plain[0];
                if (g.n_stale && test_below(16) == 0)
                    x = g.stale[test_below(SK_MIN(g.n_stale, SK_COUNT(g.stale)))];
                if (sk_place_fits_ever(&s->p, x) || sk_place_shape_dead(&s->p, x))
                    group_submit(&g, x);
                break;
            }
            case 13 ... 15: {
                struct sworker *w = some(s, SK_W_STARTING, -1);
                if (w) sk_place_worker_up(&s->p, &w->p);
                break;
            }
            default: complete(s);
            }
            group_picks(&g);
            check_pools(&g);
            if (i % 256 == 0) CHECK(sk_place_check(&s->p));
            steps++;
        }
        /* All that can end ends: groups that are never ready, and their tasks, go first. */
        for (int i = 0; i < N_GROUPS; i++)
            if (g.group[i].id && !g.group[i].ready) group_drop(&g, i);
        for (uint64_t n = 0; s->n_free < N_TASKS; n++) {
            CHECK_MSG(n < 200000, "stuck: %u ready", s->p.n_ready);
            struct sworker *w;
            while ((w = some(s, SK_W_STARTING, -1))) sk_place_worker_up(&s->p, &w->p);
            while ((w = some(s, SK_W_LEASED, 1))) sk_place_worker_block(&s->p, &w->p, false);
            group_picks(&g);
            complete(s);
            /* now and then a group is removed that others wait for */
            if (n % 1000 == 999) group_drop(&g, (int)test_below(N_GROUPS));
        }
        for (int i = 0; i < N_GROUPS; i++) group_drop(&g, i);
        for (uint32_t i = 0; i < s->n_workers; i++) sk_place_worker_gone(&s->p, &s->w[i].p);
        check_pools(&g);
        CHECK(memcmp(&s->p.avail, &s->p.total, sizeof s->p.total) == 0 && sk_place_check(&s->p));
        made += g.n_made, grown += g.n_grown, ready += g.n_ready, removed += g.n_removed,
            in += g.n_in_bundles, shares += g.n_gpu_shares, dead += g.n_dead;
        sk_place_deinit(&s->p);
    }
    CHECK(made && grown && ready && removed && in && shares && dead);
    printf("# %llu steps, %.0f a second; groups made %llu, ready %llu, removed %llu, tasks that "
           "came too late %llu\n",
           (unsigned long long)steps, (double)steps * 1e9 / (double)(sk_now_ns() - t0),
           (unsigned long long)made, (unsigned long long)ready, (unsigned long long)removed,
           (unsigned long long)dead);
}
