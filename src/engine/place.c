/* place.c - see place.h. Costs: push and pick O(1) for a shape plus O(shapes with ready tasks); leases of a shape are few. */
#include "engine/place.h"

#include "engine/custom.h"

#include "base/mem.h"

#define DEPTH_WORK_NS 2000000 /* a worker's queue should hold about 2 ms of work: many round trips of the loop, little to take back */
#define SHARE_WORK_NS 100000  /* queued work worth moving to an idle worker (a wake-up costs about 34 us) */
#define SHARE_HEAD_NS 1000000 /* a head that runs this long traps what is behind it */

static struct sk_place_task *task_of(struct sk_list *l) { return sk_container_of(l, struct sk_place_task, link); }
static struct sk_place_worker *worker_of(struct sk_list *l) { return sk_container_of(l, struct sk_place_worker, link); }

sk_rc sk_place_init(struct sk_place *p, const struct sk_res *total, struct sk_err *err) {
    memset(p, 0, sizeof *p);
    p->total = p->avail = p->unreserved = *total;
    p->deep_above = UINT32_MAX;
    sk_list_init(&p->idle);
    sk_list_init(&p->actors);
    sk_list_init(&p->groups);
    sk_list_init(&p->gone);
    sk_list_init(&p->unused);
    sk_list_init(&p->dead);
    int64_t gpus = total->amount[SK_RES_GPU] / SK_RES_UNIT;
    p->gpus_told_apart = gpus <= (int64_t)SK_PLACE_GPUS;
    for (int64_t i = 0; p->gpus_told_apart && i < gpus; i++) p->gpu_left[i] = SK_RES_UNIT;
    sk_shape s;
    struct sk_res one = {.amount = {[SK_RES_CPU] = SK_RES_UNIT}}, none = {.amount = {0}};
    SK_TRY(sk_place_shape(p, &one, &s, err));
    return sk_place_shape(p, &none, &s, err);
}

void sk_place_devices(struct sk_place *p, uint32_t index) {
    SK_ASSERT(index >= SK_RES_CUSTOM && index < SK_RES_MAX && !p->devices);
    int64_t n = p->total.amount[index] / SK_RES_UNIT;
    if (n > (int64_t)SK_PLACE_GPUS || p->total.amount[index] % SK_RES_UNIT) return; /* only their number counts */
    p->devices = index;
    for (int64_t i = 0; i < n; i++) p->gpu_left[SK_PLACE_GPUS + i] = SK_RES_UNIT;
}

void sk_place_deinit(struct sk_place *p) {
    SK_LIST_EACH_SAFE (it, tmp, &p->groups) sk_free(sk_container_of(it, struct sk_place_group, link));
    SK_LIST_EACH_SAFE (it, tmp, &p->gone) sk_free(sk_container_of(it, struct sk_place_group, link));
    sk_list_init(&p->groups);
    sk_list_init(&p->gone);
    for (uint32_t i = 0; i < p->n_shapes; i++) sk_free(p->shapes[i]);
    sk_free(p->shapes);
    for (uint32_t i = 0; i < p->n_mores; i++) sk_free(p->mores[i]);
    sk_free(p->mores);
    sk_free(p->more_total);
    sk_free(p->more_avail);
    p->mores = NULL;
    p->more_total = p->more_avail = NULL;
    p->n_mores = p->n_more = 0;
    p->shapes = NULL;
    p->n_shapes = 0;
}

sk_rc sk_place_shape(struct sk_place *p, const struct sk_res *r, sk_shape *out, struct sk_err *err) {
    return sk_place_need(p, &(struct sk_need){.res = *r}, out, err);
}

struct sk_place_group *sk_place_group_find(const struct sk_place *p, uint64_t id) {
    SK_LIST_EACH (it, &p->groups)
        if (sk_container_of(it, struct sk_place_group, link)->id == id) return sk_container_of(it, struct sk_place_group, link);
    return NULL;
}

/* ---- further custom resources ------------------------------------------------------------------------------------------------------- */

sk_rc sk_place_more_init(struct sk_place *p, const int64_t *total, uint32_t n, struct sk_err *err) {
    if (!n) return SK_OK;
    p->more_total = sk_memdup(SK_TAG_ENGINE, total, n * sizeof *total);
    p->more_avail = sk_memdup(SK_TAG_ENGINE, total, n * sizeof *total);
    if (!p->more_total || !p->more_avail) return SK_ERR(err, SK_ENOMEM, "no memory for %u custom resources", n);
    p->n_more = n;
    return SK_OK;
}

sk_rc sk_place_more(struct sk_place *p, const struct sk_amount *a, uint32_t n, uint32_t *out, struct sk_err *err) {
    *out = 0;
    if (!n) return SK_OK;
    for (uint32_t i = 0; i < p->n_mores; i++)
        if (p->mores[i]->n == n && !memcmp(p->mores[i]->a, a, n * sizeof *a)) {
            *out = i + 1;
            return SK_OK;
        }
    if (p->n_mores == SK_PLACE_SHAPES_MAX)
        return SK_ERR(err, SK_EINVAL, "more than %u different resource requests; use fewer distinct amounts", SK_PLACE_SHAPES_MAX);
    struct sk_place_more **v = sk_realloc(SK_TAG_ENGINE, p->mores, (p->n_mores + 1) * sizeof *v);
    if (v) p->mores = v;
    struct sk_place_more *m = v ? sk_alloc(SK_TAG_ENGINE, sizeof *m + n * sizeof *a) : NULL;
    if (!m) return SK_ERR(err, SK_ENOMEM, "no memory for the amounts of %u resources", n);
    m->n = n;
    memcpy(m->a, a, n * sizeof *a);
    v[p->n_mores++] = m;
    *out = p->n_mores;
    return SK_OK;
}

size_t sk_place_more_read(const struct sk_place *p, uint32_t more, struct sk_amount *out, size_t cap) {
    bool all = more == SK_MORE_TOTAL || more == SK_MORE_FREE;
    if (!all && (!more || more > p->n_mores)) return 0;
    const struct sk_place_more *m = all ? NULL : p->mores[more - 1];
    size_t n = all ? p->n_more : m->n;
    for (size_t i = 0; n <= cap && i < n; i++)
        out[i] = m ? m->a[i] : (struct sk_amount){SK_RES_MAX + i, (more == SK_MORE_TOTAL ? p->more_total : p->more_avail)[i]};
    return n;
}

static bool more_fits(const struct sk_place *p, const struct sk_place_more *m) {
    for (uint32_t i = 0; m && i < m->n; i++)
        if (m->a[i].amount > p->more_avail[m->a[i].index - SK_RES_MAX]) return false;
    return true;
}

static void more_move(struct sk_place *p, const struct sk_place_more *m, int64_t sign) {
    for (uint32_t i = 0; m && i < m->n; i++) {
        uint64_t at = m->a[i].index - SK_RES_MAX;
        SK_ASSERT(at < p->n_more);
        p->more_avail[at] += sign * m->a[i].amount;
        SK_DCHECK(p->more_avail[at] <= p->more_total[at]);
    }
}

/* One that was used before has nothing in its lists. */
static sk_rc fresh_shape(struct sk_place *p, struct sk_place_shape **out, struct sk_err *err) {
    struct sk_list *unused = sk_list_first(&p->unused);
    if (unused) {
        sk_list_del(unused);
        *out = sk_container_of(unused, struct sk_place_shape, unused);
        SK_DCHECK(!(*out)->n_ready && !(*out)->n_workers && !(*out)->levels && sk_list_empty(&(*out)->leased));
        return SK_OK;
    }
    if (p->n_shapes == SK_PLACE_SHAPES_MAX)
        return SK_ERR(err, SK_EINVAL,
                      "more than %u different resource requests; use fewer distinct amounts, or fewer placement groups at once",
                      SK_PLACE_SHAPES_MAX);
    struct sk_place_shape **v = sk_realloc(SK_TAG_ENGINE, p->shapes, (p->n_shapes + 1) * sizeof *v);
    if (!v) return SK_ERR(err, SK_ENOMEM, "no memory for a resource shape");
    p->shapes = v;
    struct sk_place_shape *s = sk_calloc(SK_TAG_ENGINE, sizeof *s);
    if (!s) return SK_ERR(err, SK_ENOMEM, "no memory for a resource shape");
    for (uint32_t i = 0; i < SK_PLACE_LEVELS; i++) sk_list_init(&s->ready[i]);
    sk_list_init(&s->leased);
    sk_list_init(&s->unused);
    s->id = p->n_shapes;
    v[p->n_shapes++] = s;
    *out = s;
    return SK_OK;
}

/* A dead shape that no worker holds. Who still has its id learns from another id in its place that it is dead; after 65,536 uses the place stays
 * empty, so that no id comes twice. */
static void shape_unused(struct sk_place *p, struct sk_place_shape *s) {
    SK_ASSERT(!s->n_workers && !s->n_ready && sk_list_empty(&s->unused)); /* or its next user would find them */
    uint64_t next = (uint64_t)s->id + (1u << SK_PLACE_SHAPE_BITS);
    s->avg_ns = 0;
    if (next > UINT32_MAX) return;
    s->id = (sk_shape)next;
    sk_list_push_back(&p->unused, &s->unused);
}

sk_rc sk_place_need_in(struct sk_place *p, const struct sk_need *n, sk_shape *out, struct sk_err *err) {
    SK_TRY(sk_place_need(p, n, out, err));
    if (sk_place_fits_ever(p, *out)) return SK_OK;
    return SK_ERR(err, SK_EINFEASIBLE, "a task or actor asks for more than %s of its placement group holds",
                  n->bundle < 0 ? "any bundle" : "the bundle");
}

static sk_rc intern(struct sk_place *p, const struct sk_need *need, bool alone, sk_shape *out, struct sk_err *err) {
    const struct sk_res *r = &need->res;
    int32_t bundle = need->group ? need->bundle : 0;
    struct sk_place_group *g = need->group ? sk_place_group_find(p, need->group) : NULL;
    if (need->group && !g) return SK_ERR(err, SK_EGROUP, "the placement group was removed");
    if (g && (bundle < -1 || (bundle >= 0 && (uint32_t)bundle >= g->n)))
        return SK_ERR(err, SK_EINVAL, "the placement group has bundles 0 to %u, and no bundle %d", g->n - 1, bundle);
    if (need->more > p->n_mores) return SK_ERR(err, SK_EINVAL, "no further resources have number %u", need->more);
    if (g && need->more)
        return SK_ERR(err, SK_EINFEASIBLE, "bundles of placement groups hold only the first %d custom resources of init(resources={...})",
                      SK_RES_MAX - SK_RES_CUSTOM);
    const struct sk_place_more *more = need->more ? p->mores[need->more - 1] : NULL;
    for (uint32_t i = 0; i < p->n_shapes; i++) {
        const struct sk_place_shape *s = p->shapes[i];
        if (s->more == more && s->alone == alone && s->group == need->group && s->bundle == bundle && s->env == need->env &&
            s->capture == (need->capture != 0) && s->in == g && !memcmp(&s->res, r, sizeof *r)) {
            *out = s->id;
            return SK_OK;
        }
    }
    for (uint32_t i = 0; i < SK_RES_MAX; i++)
        if (r->amount[i] < 0) return SK_ERR(err, SK_EINVAL, "a resource amount is negative");
    struct sk_place_shape *s = NULL;
    SK_TRY(fresh_shape(p, &s, err));
    s->res = *r;
    s->group = need->group;
    s->bundle = bundle;
    s->env = need->env;
    s->alone = alone;
    s->capture = need->capture != 0;
    s->more = more;
    s->in = g;
    *out = s->id;
    return SK_OK;
}

sk_rc sk_place_need(struct sk_place *p, const struct sk_need *need, sk_shape *out, struct sk_err *err) {
    return intern(p, need, false, out, err);
}

struct sk_need sk_place_need_of(const struct sk_place *p, sk_shape x) {
    const struct sk_place_shape *s = sk_place_shape_at(p, x);
    uint32_t more = 0;
    if (s->id != x) return (struct sk_need){0};
    while (s->more && p->mores[more++] != s->more) {}
    return (struct sk_need){.res = s->res, .group = s->group, .bundle = s->bundle, .env = s->env, .capture = s->capture, .more = more};
}

sk_rc sk_place_alone(struct sk_place *p, sk_shape s, sk_shape *out, struct sk_err *err) {
    if (sk_place_shape_dead(p, s)) return SK_ERR(err, SK_EGROUP, "the placement group was removed");
    struct sk_need need = sk_place_need_of(p, s);
    return intern(p, &need, true, out, err);
}

static bool fits(const struct sk_res *need, const struct sk_res *have) {
    for (uint32_t i = 0; i < SK_RES_MAX; i++)
        if (need->amount[i] > 0 && need->amount[i] > have->amount[i]) return false;
    return true;
}

/* Which of a kind: whole ones for 1 and more, else the fullest that has so much left. `left` and *mask begin with the first. */
static bool choose_of(const int64_t *left, int64_t amount, uint64_t *mask) {
    *mask = 0;
    if (amount <= 0) return true;
    if (amount < SK_RES_UNIT) {
        uint32_t best = SK_PLACE_GPUS;
        for (uint32_t i = 0; i < SK_PLACE_GPUS; i++)
            if (left[i] >= amount && (best == SK_PLACE_GPUS || left[i] < left[best])) best = i;
        if (best < SK_PLACE_GPUS) *mask = UINT64_C(1) << best;
        return best < SK_PLACE_GPUS;
    }
    int64_t n = (amount + SK_RES_UNIT - 1) / SK_RES_UNIT;
    for (uint32_t i = 0; i < SK_PLACE_GPUS && n > 0; i++)
        if (left[i] >= SK_RES_UNIT) *mask |= UINT64_C(1) << i, n--;
    return n == 0;
}

static int64_t devices_of(const struct sk_place *p, const struct sk_res *need) { return p->devices ? need->amount[p->devices] : 0; }

static bool choose_gpus(const struct sk_place *p, const int64_t *left, const struct sk_res *need, uint64_t *mask) {
    uint64_t more = 0;
    bool ok = choose_of(left, p->gpus_told_apart ? need->amount[SK_RES_GPU] : 0, mask);
    if (SK_UNLIKELY(p->devices != 0)) ok = choose_of(left + SK_PLACE_GPUS, devices_of(p, need), &more) && ok;
    *mask |= more << SK_PLACE_GPUS;
    return ok;
}

static void move_gpus(const struct sk_place *p, int64_t *left, uint64_t mask, const struct sk_res *need, int64_t sign) {
    for (uint32_t i = 0; i < SK_PLACE_DEVICES; i++)
        if (mask >> i & 1) left[i] += sign * SK_MIN(i < SK_PLACE_GPUS ? need->amount[SK_RES_GPU] : devices_of(p, need), SK_RES_UNIT);
}

static bool with_devices(const struct sk_place *p, const struct sk_res *need) {
    return need->amount[SK_RES_GPU] > 0 || devices_of(p, need) > 0;
}

static bool pool_fits(const struct sk_place *p, const struct sk_res *need, const struct sk_res *avail, const int64_t *gpu_left) {
    uint64_t mask;
    return fits(need, avail) && choose_gpus(p, gpu_left, need, &mask);
}

/* Where a task of this shape could start now. *bundle: of its group. */
static bool room(const struct sk_place *p, const struct sk_place_shape *s, uint32_t *bundle) {
    *bundle = 0;
    if (!s->group) return pool_fits(p, &s->res, &p->avail, p->gpu_left) && (SK_LIKELY(!s->more) || more_fits(p, s->more));
    for (uint32_t i = s->bundle < 0 ? 0 : (uint32_t)s->bundle; s->in && s->in->ready && i < s->in->n; i++) {
        if (pool_fits(p, &s->res, &s->in->b[i].avail, s->in->b[i].gpu_left)) {
            *bundle = i;
            return true;
        }
        if (s->bundle >= 0) break;
    }
    return false;
}

bool sk_place_fits_ever(const struct sk_place *p, sk_shape x) {
    const struct sk_place_shape *s = sk_place_shape_at(p, x);
    if (sk_place_shape_dead(p, x)) return false;
    if (!s->group) return fits(&s->res, &p->total);
    for (uint32_t i = s->bundle < 0 ? 0 : (uint32_t)s->bundle; s->in && i < s->in->n; i++) {
        if (fits(&s->res, &s->in->b[i].total)) return true;
        if (s->bundle >= 0) break;
    }
    return false;
}
bool sk_place_fits_now(const struct sk_place *p, sk_shape s) {
    uint32_t bundle;
    return !sk_place_shape_dead(p, s) && room(p, sk_place_shape_at(p, s), &bundle);
}

static struct sk_res *avail_of(struct sk_place *p, const struct sk_place_worker *w) {
    return w->in && !w->in->removed ? &w->in->b[w->bundle].avail : &p->avail;
}

/* w holds what its shape asks for; `room` has said so, or it is a moment before. */
static void take(struct sk_place *p, struct sk_place_worker *w) {
    struct sk_place_shape *s = sk_place_shape_at(p, w->shape);
    SK_DCHECK(s->id == w->shape && !w->in && !w->gpus && !w->blocked);
    s->n_workers++;
    bool there = room(p, s, &w->bundle);
    w->in = there && s->group ? s->in : NULL;
    if (w->in) w->in->n_leases++;
    struct sk_res *avail = avail_of(p, w);
    int64_t *left = w->in ? w->in->b[w->bundle].gpu_left : p->gpu_left;
    for (uint32_t i = 0; i < SK_RES_MAX; i++) avail->amount[i] -= s->res.amount[i];
    if (SK_UNLIKELY(s->more)) more_move(p, s->more, -1);
    if (!choose_gpus(p, left, &s->res, &w->gpus)) w->gpus = 0;
    move_gpus(p, left, w->gpus, &s->res, -1);
    w->used = true;
    w->with_gpu = with_devices(p, &s->res);
    w->env = s->env;
}

static void give_back(struct sk_place *p, struct sk_place_worker *w) {
    struct sk_place_shape *s = sk_place_shape_at(p, w->shape);
    const struct sk_res *res = &s->res;
    SK_ASSERT(s->n_workers > 0);
    sk_place_worker_block(p, w, false);
    struct sk_res *avail = avail_of(p, w);
    for (uint32_t i = 0; i < SK_RES_MAX; i++) avail->amount[i] += res->amount[i];
    if (SK_UNLIKELY(s->more)) more_move(p, s->more, 1);
    move_gpus(p, w->in && !w->in->removed ? w->in->b[w->bundle].gpu_left : p->gpu_left, w->gpus, res, 1);
    SK_DCHECK(!w->in || w->in->n_leases > 0);
    if (w->in && --w->in->n_leases == 0 && w->in->removed) {
        sk_list_del(&w->in->link);
        sk_free(w->in);
    }
    w->in = NULL;
    w->gpus = 0;
    if (--s->n_workers == 0 && s->group && !s->in) shape_unused(p, s);
}

struct sk_place_worker *sk_place_idle_for(const struct sk_place *p, sk_shape s) {
    struct sk_place_worker *fresh = NULL;
    uint32_t env = sk_place_shape_at(p, s)->env;
    bool gpu = with_devices(p, &sk_place_shape_at(p, s)->res);
    SK_LIST_EACH (it, &p->idle) {
        struct sk_place_worker *w = worker_of(it);
        if (w->used ? w->env == env && w->with_gpu == gpu : env == 0 && !gpu) return w;
        if (!w->used && !fresh) fresh = w;
    }
    return fresh;
}

/* ---- placement groups ------------------------------------------------------------------------------------------------------------- */

sk_rc sk_place_group_add(struct sk_place *p, uint64_t id, const struct sk_res *bundles, uint32_t n, bool apart, struct sk_place_group **out,
                         struct sk_err *err) {
    if (!n) return SK_ERR(err, SK_EINVAL, "a placement group needs a bundle");
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t r = 0; r < SK_RES_MAX; r++)
            if (bundles[i].amount[r] < 0) return SK_ERR(err, SK_EINVAL, "bundle %u asks for a negative amount", i);
    struct sk_place_group *g = sk_calloc(SK_TAG_ENGINE, sizeof *g + n * sizeof g->b[0]);
    if (!g) return SK_ERR(err, SK_ENOMEM, "no memory for a placement group of %u bundles", n);
    g->id = id;
    g->order = ++p->next_order;
    g->never = apart && n > 1;
    g->n = n;
    for (uint32_t i = 0; i < n; i++) g->b[i].total = bundles[i];
    sk_list_init(&g->link);
    sk_list_push_back(&p->groups, &g->link);
    p->n_groups_waiting++;
    *out = g;
    return SK_OK;
}

void sk_place_group_remove(struct sk_place *p, struct sk_place_group *g) {
    sk_list_del(&g->link);
    for (uint32_t i = 0; i < p->n_shapes; i++) {
        struct sk_place_shape *s = p->shapes[i];
        if (s->in != g) continue;
        s->in = NULL;
        for (; s->levels; s->levels &= s->levels - 1) sk_list_splice(&p->dead, &s->ready[__builtin_ctz(s->levels)]);
        p->n_alone -= s->alone ? s->n_ready : 0;
        s->n_ready = 0;
        if (!s->n_workers) shape_unused(p, s);
    }
    for (uint32_t b = 0; g->ready && b < g->n; b++) {
        for (uint32_t r = 0; r < SK_RES_MAX; r++) {
            p->avail.amount[r] += g->b[b].avail.amount[r];
            p->unreserved.amount[r] += g->b[b].total.amount[r];
        }
        for (uint32_t i = 0; i < SK_PLACE_DEVICES; i++) p->gpu_left[i] += g->b[b].gpu_left[i];
    }
    SK_ASSERT(!g->removed && (g->ready || (p->n_groups_waiting && !g->n_leases)));
    if (!g->ready) p->n_groups_waiting--;
    g->removed = true;
    if (g->n_leases) sk_list_push_back(&p->gone, &g->link);
    else sk_free(g);
}

/* All bundles of g, or nothing. */
static bool reserve(struct sk_place *p, struct sk_place_group *g) {
    struct sk_res avail = p->avail;
    int64_t left[SK_PLACE_DEVICES];
    if (g->never) return false;
    memcpy(left, p->gpu_left, sizeof left);
    for (uint32_t b = 0; b < g->n; b++) {
        uint64_t mask;
        const struct sk_res *t = &g->b[b].total;
        if (!fits(t, &avail) || !choose_gpus(p, left, t, &mask)) return false;
        for (uint32_t r = 0; r < SK_RES_MAX; r++) avail.amount[r] -= t->amount[r];
        move_gpus(p, left, mask, t, -1);
        memset(g->b[b].gpu_left, 0, sizeof g->b[b].gpu_left);
        move_gpus(p, g->b[b].gpu_left, mask, t, 1);
        g->b[b].avail = *t;
    }
    for (uint32_t r = 0; r < SK_RES_MAX; r++) p->unreserved.amount[r] -= p->avail.amount[r] - avail.amount[r];
    p->avail = avail;
    memcpy(p->gpu_left, left, sizeof left);
    g->ready = true;
    SK_DCHECK(p->n_groups_waiting > 0);
    p->n_groups_waiting--;
    return true;
}

static struct sk_res sum_of(const struct sk_place_group *g) {
    struct sk_res sum = {.amount = {0}};
    for (uint32_t b = 0; b < g->n; b++)
        for (uint32_t r = 0; r < SK_RES_MAX; r++) sum.amount[r] += g->b[b].total.amount[r];
    return sum;
}

/* The oldest pending group that could have its bundles once enough is given back. */
static struct sk_place_group *waiting_group(const struct sk_place *p, struct sk_res *sum) {
    if (!p->n_groups_waiting) return NULL;
    SK_LIST_EACH (it, &p->groups) {
        struct sk_place_group *g = sk_container_of(it, struct sk_place_group, link);
        *sum = sum_of(g);
        if (!g->ready && !g->never && fits(sum, &p->unreserved)) return g;
    }
    return NULL;
}

void sk_place_push(struct sk_place *p, struct sk_place_task *t) {
    struct sk_place_shape *s = sk_place_shape_at(p, t->shape);
    SK_DCHECK(sk_list_empty(&t->link) && t->level < SK_PLACE_LEVELS);
    if (sk_place_shape_dead(p, t->shape)) {
        sk_list_push_back(&p->dead, &t->link);
        p->n_ready++;
        return;
    }
    struct sk_list *l = &s->ready[t->level], *at = l;
    if (!t->order) t->order = ++p->next_order;
    else /* came back: keeps its turn, which is near the front */
        for (at = l->next; at != l && task_of(at)->order < t->order;) at = at->next;
    sk_list_insert_before(at, &t->link);
    s->levels |= 1u << t->level;
    s->n_ready++;
    p->n_ready++;
    p->n_alone += s->alone;
}

void sk_place_unpush(struct sk_place *p, struct sk_place_task *t) {
    struct sk_place_shape *s = sk_place_shape_at(p, t->shape);
    SK_DCHECK(!sk_list_empty(&t->link) && p->n_ready > 0);
    sk_list_del(&t->link);
    p->n_ready--;
    if (sk_place_shape_dead(p, t->shape)) return;
    SK_DCHECK(s->n_ready > 0 && p->n_alone >= s->alone && s->levels >> t->level & 1);
    if (sk_list_empty(&s->ready[t->level])) s->levels &= ~(1u << t->level);
    s->n_ready--;
    p->n_alone -= s->alone;
}

struct sk_place_task *sk_place_any(const struct sk_place *p) {
    if (!p->n_ready) return NULL;
    if (!sk_list_empty(&p->dead)) return task_of(p->dead.next);
    uint32_t i = 0;
    while (!p->shapes[i]->levels) i++;
    SK_DCHECK(i < p->n_shapes);
    return task_of(p->shapes[i]->ready[__builtin_ctz(p->shapes[i]->levels)].next);
}

void sk_place_worker_init(struct sk_place_worker *w) {
    memset(w, 0, sizeof *w);
    sk_list_init(&w->link);
}

void sk_place_worker_starting(struct sk_place *p, struct sk_place_worker *w) {
    SK_ASSERT(w->state == SK_W_NONE);
    w->state = SK_W_STARTING;
    p->n_starting++;
}

static void to_idle(struct sk_place *p, struct sk_place_worker *w) {
    w->state = SK_W_IDLE;
    sk_list_push_front(&p->idle, &w->link);
    p->n_idle++;
}

void sk_place_worker_up(struct sk_place *p, struct sk_place_worker *w) {
    SK_ASSERT(w->state == SK_W_STARTING && p->n_starting);
    p->n_starting--;
    to_idle(p, w);
}

void sk_place_worker_gone(struct sk_place *p, struct sk_place_worker *w) {
    SK_DCHECK(w->state != SK_W_IDLE || (p->n_idle && !w->depth));
    if (w->state == SK_W_STARTING) p->n_starting--;
    if (w->state == SK_W_IDLE) p->n_idle--;
    if (w->state == SK_W_LEASED || w->state == SK_W_ACTOR) give_back(p, w);
    sk_list_del(&w->link);
    sk_place_worker_init(w);
}

void sk_place_worker_aside(struct sk_place *p, struct sk_place_worker *w, bool aside) {
    if (!aside) {
        SK_ASSERT(w->state == SK_W_NONE);
        to_idle(p, w);
        return;
    }
    SK_ASSERT(w->state == SK_W_IDLE || w->state == SK_W_STARTING);
    if (w->state == SK_W_STARTING) p->n_starting--;
    else p->n_idle--;
    sk_list_del(&w->link);
    w->state = SK_W_NONE;
}

void sk_place_worker_actor(struct sk_place *p, struct sk_place_worker *w, sk_shape s) {
    SK_ASSERT(w->state == SK_W_IDLE && p->n_idle && !w->depth);
    sk_list_del(&w->link);
    p->n_idle--;
    w->state = SK_W_ACTOR;
    w->shape = s;
    sk_list_push_back(&p->actors, &w->link);
    take(p, w);
}

void sk_place_worker_block(struct sk_place *p, struct sk_place_worker *w, bool blocked) {
    if ((w->state != SK_W_LEASED && w->state != SK_W_ACTOR) || w->blocked == blocked) return;
    SK_DCHECK(blocked || p->n_blocked);
    w->blocked = blocked;
    p->n_blocked += blocked ? 1u : -1u;
    avail_of(p, w)->amount[SK_RES_CPU] += (blocked ? 1 : -1) * sk_place_shape_at(p, w->shape)->res.amount[SK_RES_CPU];
}

void sk_place_done(struct sk_place *p, struct sk_place_worker *w, int64_t ran_ns, int64_t now_ns) {
    SK_ASSERT(w->depth > 0 && (w->state == SK_W_LEASED || w->state == SK_W_ACTOR));
    struct sk_place_shape *s = sk_place_shape_at(p, w->shape);
    w->depth--;
    if (ran_ns >= 0) w->since_ns = now_ns;
    if (ran_ns >= 0) s->avg_ns = s->avg_ns ? s->avg_ns + (ran_ns - s->avg_ns) / 8 : ran_ns + 1;
    if (w->state == SK_W_LEASED && w->depth == 0) {
        give_back(p, w);
        sk_list_del(&w->link);
        to_idle(p, w);
    }
}

uint32_t sk_place_depth(const struct sk_place_shape *s) {
    if (!s->avg_ns) return 2;
    int64_t n = DEPTH_WORK_NS / s->avg_ns;
    return n < 2 ? 2 : n > SK_PLACE_DEPTH_MAX ? SK_PLACE_DEPTH_MAX : (uint32_t)n;
}

/* ---- order ------------------------------------------------------------------------------------------------------------------------ */

static bool deep(const struct sk_place *p) { return p->n_blocked > p->deep_above; }

static struct sk_place_task *head(const struct sk_place *p, const struct sk_place_shape *s) {
    uint32_t m = s->levels;
    SK_DCHECK(m && s->n_ready);
    if (deep(p) || !(m & (m - 1))) return task_of(s->ready[31 - __builtin_clz(m)].next);
    struct sk_place_task *best = NULL;
    for (; m; m &= m - 1) {
        struct sk_place_task *t = task_of(s->ready[__builtin_ctz(m)].next);
        if (!best || t->order < best->order) best = t;
    }
    return best;
}

/* Lower goes first. */
static uint64_t rank(const struct sk_place *p, const struct sk_place_task *t) {
    return deep(p) ? (uint64_t)(SK_PLACE_LEVELS - t->level) << 56 | t->order : t->order;
}

struct waiting { /* the longest waiting head that resources keep waiting */
    uint64_t rank, order;
    const struct sk_res *need;
    const struct sk_place_more *more;
};

/* May s start, although w waits for some of the same? */
static bool may_pass(const struct sk_place *p, const struct sk_place_shape *s, const struct waiting *w, bool *passes) {
    const struct sk_res *need = &s->res;
    *passes = s->more && w->more; /* of the same, for all we know */
    if (*passes && p->n_bypassed >= SK_PLACE_BYPASS) return false;
    for (uint32_t i = 0; i < SK_RES_MAX; i++)
        if (need->amount[i] > 0 && w->need->amount[i] > 0) {
            *passes = true;
            if (need->amount[i] + w->need->amount[i] > p->avail.amount[i] && p->n_bypassed >= SK_PLACE_BYPASS) return false;
        }
    return true;
}

static void run(struct sk_place *p, struct sk_place_shape *s, struct sk_place_worker *w, int64_t now_ns, struct sk_place_pick *out) {
    struct sk_place_task *t = head(p, s);
    SK_DCHECK((w->state == SK_W_LEASED || w->state == SK_W_ACTOR) && w->shape == t->shape && w->depth < SK_PLACE_DEPTH_MAX);
    sk_place_unpush(p, t);
    if (w->depth++ == 0) w->since_ns = now_ns;
    *out = (struct sk_place_pick){.what = SK_PLACE_RUN, .task = t, .worker = w};
}

/* May its tasks begin now, or later as things are? */
static bool held(const struct sk_place *p, const struct sk_place_shape *s) { return s->alone != (p->launch == SK_LAUNCH_ALONE); }

/* How many more workers could start a task right now, if they were there. */
static uint32_t could_start(const struct sk_place *p) {
    struct sk_res left = p->avail;
    uint32_t n = 0;
    for (uint32_t i = 0; i < p->n_shapes && n < p->n_ready; i++) {
        const struct sk_place_shape *s = p->shapes[i];
        int64_t k = held(p, s) ? 0 : s->n_ready;
        uint32_t bundle;
        if (s->group) { /* one after the other */
            n += k && room(p, s, &bundle);
            continue;
        }
        if (SK_UNLIKELY(s->more)) k = k && more_fits(p, s->more); /* one after the other */
        for (uint32_t r = 0; k && r < SK_RES_MAX; r++)
            if (s->res.amount[r] > 0) k = SK_MIN(k, SK_MAX(left.amount[r], 0) / s->res.amount[r]);
        for (uint32_t r = 0; k && r < SK_RES_MAX; r++) left.amount[r] -= k * s->res.amount[r];
        n += (uint32_t)k;
    }
    return n;
}

/* Feed the leases: the least loaded first, up to the depth; but not past an older task that waits for these resources. */
static bool feed(struct sk_place *p, const struct waiting *w, int64_t now_ns, struct sk_place_pick *out) {
    for (uint32_t i = 0; i < p->n_shapes && p->launch == SK_LAUNCH_ALL; i++) {
        struct sk_place_shape *s = p->shapes[i];
        bool passes = false;
        if (!s->n_ready || s->alone || sk_list_empty(&s->leased)) continue;
        if (w->need && !s->group && rank(p, head(p, s)) > w->rank && (!may_pass(p, s, w, &passes) || passes)) continue;
        uint32_t depth = p->depth_cap ? SK_MIN(sk_place_depth(s), p->depth_cap) : sk_place_depth(s), low = UINT32_MAX;
        struct sk_place_worker *to = NULL;
        SK_LIST_EACH (it, &s->leased) {
            struct sk_place_worker *x = worker_of(it);
            if (!x->blocked && x->depth < depth && x->depth < low) to = x, low = x->depth;
        }
        if (to) {
            run(p, s, to, now_ns, out);
            return true;
        }
    }
    return false;
}

/* Nothing ready. Tasks queued behind others on a worker are trapped when they could start elsewhere: share. A short queue of short tasks
 * is left alone, unless its head turns out to take long. */
static void share(struct sk_place *p, int64_t now_ns, struct sk_place_pick *out) {
    uint32_t bundle;
    for (uint32_t i = 0; i < p->n_shapes; i++) {
        struct sk_place_shape *s = p->shapes[i];
        if (sk_list_empty(&s->leased) || !room(p, s, &bundle)) continue;
        SK_LIST_EACH (it, &s->leased) {
            struct sk_place_worker *w = worker_of(it);
            if (w->depth < 2) continue;
            if (s->avg_ns && s->avg_ns * (w->depth - 1) < SHARE_WORK_NS && now_ns - w->since_ns < SHARE_HEAD_NS) continue;
            if (sk_place_idle_for(p, s->id)) *out = (struct sk_place_pick){.what = SK_PLACE_STEAL, .worker = w};
            else if (!p->n_starting) out->what = SK_PLACE_SPAWN;
            return;
        }
    }
}

void sk_place_pick(struct sk_place *p, int64_t now_ns, struct sk_place_pick *out) {
    *out = (struct sk_place_pick){.what = SK_PLACE_NOTHING};
    bool want_worker = false;
    uint32_t bundle;
    if (SK_UNLIKELY(!sk_list_empty(&p->dead))) {
        *out = (struct sk_place_pick){.what = SK_PLACE_DEAD, .task = task_of(p->dead.next)};
        sk_place_unpush(p, out->task);
        return;
    }
    if (p->n_groups_waiting)
        SK_LIST_EACH (it, &p->groups) {
            struct sk_place_group *g = sk_container_of(it, struct sk_place_group, link);
            if (g->ready || !reserve(p, g)) continue;
            *out = (struct sk_place_pick){.what = SK_PLACE_GROUP, .group = g};
            return;
        }
    if (p->launch == SK_LAUNCH_NONE) return;
    if (p->n_ready) {
        struct waiting w = {.rank = UINT64_MAX};
        struct sk_res sum;
        const struct sk_place_group *g = waiting_group(p, &sum);
        if (p->launch == SK_LAUNCH_ALONE) g = NULL; /* nobody saves up for those who may not begin */
        if (g) w = (struct waiting){g->order, g->order, &sum, NULL};
        const struct sk_place_shape *want = sk_place_shape_at(p, p->want);
        if (p->launch != SK_LAUNCH_ALONE && p->want_order && p->want_order < w.rank && !want->group && fits(&want->res, &p->unreserved))
            w = (struct waiting){p->want_order, p->want_order, &want->res, want->more};
        for (uint32_t i = 0; i < p->n_shapes; i++) {
            struct sk_place_shape *s = p->shapes[i];
            if (!s->n_ready || held(p, s) || s->group || room(p, s, &bundle) || !fits(&s->res, &p->unreserved)) continue;
            struct sk_place_task *t = head(p, s);
            uint64_t r = rank(p, t);
            if (r < w.rank) w = (struct waiting){r, t->order, &s->res, s->more};
        }
        if (w.need && w.order != p->starved) p->starved = w.order, p->n_bypassed = 0;
        struct sk_place_shape *best = NULL;
        uint64_t best_rank = UINT64_MAX, no_worker_rank = UINT64_MAX;
        bool best_passes = false;
        for (uint32_t i = 0; i < p->n_shapes; i++) {
            struct sk_place_shape *s = p->shapes[i];
            if (!s->n_ready || held(p, s) || !room(p, s, &bundle)) continue;
            uint64_t r = rank(p, head(p, s));
            bool passes = false;
            if (r >= best_rank || (r > w.rank && !s->group && !may_pass(p, s, &w, &passes))) continue;
            if (!sk_place_idle_for(p, head(p, s)->shape)) { /* others may have one of their environment */
                want_worker = true;
                no_worker_rank = SK_MIN(no_worker_rank, r);
                continue;
            }
            best = s, best_rank = r, best_passes = passes;
        }
        if (best) {
            struct sk_place_worker *x = sk_place_idle_for(p, head(p, best)->shape);
            SK_ASSERT(x && x->state == SK_W_IDLE && !x->depth);
            sk_list_del(&x->link);
            p->n_idle--;
            p->n_bypassed += best_passes;
            x->state = SK_W_LEASED;
            x->shape = head(p, best)->shape;
            sk_list_push_back(&best->leased, &x->link);
            take(p, x);
            run(p, best, x, now_ns, out);
            out->spawn = no_worker_rank < best_rank && !p->n_starting;
            return;
        }
        if (feed(p, &w, now_ns, out)) return;
        if (want_worker) {
            /* A fork costs a core half a millisecond: not more at once than there are CPUs. */
            uint32_t most = p->launch == SK_LAUNCH_ALL ? (uint32_t)SK_MAX(p->total.amount[SK_RES_CPU] / SK_RES_UNIT, 2) : 1;
            if (p->n_starting < most && p->n_starting < could_start(p)) out->what = SK_PLACE_SPAWN;
            return;
        }
    }
    if (p->n_ready > p->n_alone || p->launch != SK_LAUNCH_ALL) return;
    share(p, now_ns, out);
}

bool sk_place_check(const struct sk_place *p) {
    uint32_t ready = 0, idle = 0, blocked = 0, alone = 0;
    struct sk_res held = p->avail;
    uint32_t waiting = 0;
    SK_LIST_EACH (it, &p->groups) { /* what the bundles have left is held, too */
        const struct sk_place_group *g = sk_container_of(it, struct sk_place_group, link);
        waiting += !g->ready;
        for (uint32_t b = 0; g->ready && b < g->n; b++)
            for (uint32_t r = 0; r < SK_RES_MAX; r++) held.amount[r] += g->b[b].avail.amount[r];
    }
    if (waiting != p->n_groups_waiting) return false;
    struct sk_res unreserved = p->total;
    SK_LIST_EACH (it, &p->groups) {
        const struct sk_place_group *g = sk_container_of(it, struct sk_place_group, link);
        for (uint32_t b = 0; g->ready && b < g->n; b++)
            for (uint32_t r = 0; r < SK_RES_MAX; r++) unreserved.amount[r] -= g->b[b].total.amount[r];
    }
    if (memcmp(&unreserved, &p->unreserved, sizeof unreserved) != 0) return false;
    SK_LIST_EACH (it, &p->dead) {
        if (!sk_place_shape_dead(p, task_of(it)->shape)) return false;
        ready++;
    }
    for (uint32_t i = 0; i < p->n_shapes; i++) {
        struct sk_place_shape *s = p->shapes[i];
        uint32_t n = 0, workers = 0;
        if ((s->id & ((1u << SK_PLACE_SHAPE_BITS) - 1)) != i) return false;
        for (uint32_t l = 0; l < SK_PLACE_LEVELS; l++) {
            uint64_t last = 0;
            if (sk_list_empty(&s->ready[l]) == (s->levels >> l & 1)) return false;
            SK_LIST_EACH (it, &s->ready[l]) {
                if (task_of(it)->order <= last || task_of(it)->shape != s->id || task_of(it)->level != l) return false;
                last = task_of(it)->order;
                n++;
            }
        }
        if (n != s->n_ready) return false;
        ready += n;
        alone += s->alone ? n : 0;
        SK_LIST_EACH (it, &s->leased) {
            const struct sk_place_worker *w = worker_of(it);
            if (w->state != SK_W_LEASED || w->shape != s->id || w->depth == 0) return false;
            blocked += w->blocked;
            workers++;
            for (uint32_t r = 0; r < SK_RES_MAX; r++)
                if (r != SK_RES_CPU || !w->blocked) held.amount[r] += s->res.amount[r];
        }
        SK_LIST_EACH (it, &p->actors) workers += worker_of(it)->shape == s->id;
        if (workers != s->n_workers) return false;
        if (s->id <= UINT32_MAX - (1u << SK_PLACE_SHAPE_BITS) && (sk_list_empty(&s->unused) == (s->group && !s->in && !workers)))
            return false;
    }
    SK_LIST_EACH (it, &p->actors) {
        const struct sk_place_worker *w = worker_of(it);
        if (w->state != SK_W_ACTOR) return false;
        blocked += w->blocked;
        for (uint32_t r = 0; r < SK_RES_MAX; r++)
            if (r != SK_RES_CPU || !w->blocked) held.amount[r] += sk_place_shape_at(p, w->shape)->res.amount[r];
    }
    SK_LIST_EACH (it, &p->idle) {
        if (worker_of(it)->state != SK_W_IDLE || worker_of(it)->depth) return false;
        idle++;
    }
    for (uint32_t k = 0; k < p->n_more; k++) {
        int64_t sum = p->more_avail[k];
        for (uint32_t i = 0; i < p->n_shapes; i++) {
            const struct sk_place_shape *s = p->shapes[i];
            for (uint32_t j = 0; s->more && j < s->more->n; j++)
                if (s->more->a[j].index == SK_RES_MAX + k) sum += s->n_workers * s->more->a[j].amount;
        }
        if (sum != p->more_total[k]) return false;
    }
    return ready == p->n_ready && alone == p->n_alone && idle == p->n_idle && blocked == p->n_blocked &&
           !memcmp(&held, &p->total, sizeof held);
}
