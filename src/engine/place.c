/* place.c - see place.h. Costs: push and pick O(1) for a shape plus O(shapes with ready tasks); leases of a shape are few. */
#include "engine/place.h"

#include "base/mem.h"

#define DEPTH_WORK_NS 2000000 /* a worker's queue should hold about 2 ms of work: many round trips of the loop, little to take back */
#define SHARE_WORK_NS 100000  /* queued work worth moving to an idle worker (a wake-up costs about 34 us) */
#define SHARE_HEAD_NS 1000000 /* a head that runs this long traps what is behind it */

static struct sk_place_task *task_of(struct sk_list *l) { return sk_container_of(l, struct sk_place_task, link); }
static struct sk_place_worker *worker_of(struct sk_list *l) { return sk_container_of(l, struct sk_place_worker, link); }

sk_rc sk_place_init(struct sk_place *p, const struct sk_res *total, struct sk_err *err) {
    memset(p, 0, sizeof *p);
    p->total = p->avail = *total;
    sk_list_init(&p->idle);
    sk_shape s;
    struct sk_res one = {.amount = {[SK_RES_CPU] = SK_RES_UNIT}}, none = {.amount = {0}};
    SK_TRY(sk_place_shape(p, &one, &s, err));
    return sk_place_shape(p, &none, &s, err);
}

void sk_place_deinit(struct sk_place *p) {
    for (uint32_t i = 0; i < p->n_shapes; i++) sk_free(p->shapes[i]);
    sk_free(p->shapes);
    p->shapes = NULL;
    p->n_shapes = 0;
}

sk_rc sk_place_shape(struct sk_place *p, const struct sk_res *r, sk_shape *out, struct sk_err *err) {
    for (uint32_t i = 0; i < p->n_shapes; i++)
        if (!memcmp(&p->shapes[i]->res, r, sizeof *r)) {
            *out = (sk_shape)i;
            return SK_OK;
        }
    for (uint32_t i = 0; i < SK_RES_MAX; i++)
        if (r->amount[i] < 0) return SK_ERR(err, SK_EINVAL, "a resource amount is negative");
    if (p->n_shapes == SK_PLACE_SHAPES_MAX)
        return SK_ERR(err, SK_EINVAL, "more than %u different resource requests; use fewer distinct amounts", SK_PLACE_SHAPES_MAX);
    struct sk_place_shape **v = sk_realloc(SK_TAG_ENGINE, p->shapes, (p->n_shapes + 1) * sizeof *v);
    if (!v) return SK_ERR(err, SK_ENOMEM, "no memory for a resource shape");
    p->shapes = v;
    struct sk_place_shape *s = sk_calloc(SK_TAG_ENGINE, sizeof *s);
    if (!s) return SK_ERR(err, SK_ENOMEM, "no memory for a resource shape");
    s->res = *r;
    sk_list_init(&s->ready);
    sk_list_init(&s->leased);
    v[p->n_shapes] = s;
    *out = (sk_shape)p->n_shapes++;
    return SK_OK;
}

static bool fits(const struct sk_res *need, const struct sk_res *have) {
    for (uint32_t i = 0; i < SK_RES_MAX; i++)
        if (need->amount[i] > 0 && need->amount[i] > have->amount[i]) return false;
    return true;
}

bool sk_place_fits_ever(const struct sk_place *p, sk_shape s) { return fits(&p->shapes[s]->res, &p->total); }
bool sk_place_fits_now(const struct sk_place *p, sk_shape s) { return fits(&p->shapes[s]->res, &p->avail); }

static void take(struct sk_place *p, sk_shape s, int64_t sign) {
    for (uint32_t i = 0; i < SK_RES_MAX; i++) p->avail.amount[i] -= sign * p->shapes[s]->res.amount[i];
}

void sk_place_push(struct sk_place *p, struct sk_place_task *t) {
    struct sk_place_shape *s = p->shapes[t->shape];
    struct sk_list *at = s->ready.prev;
    if (!t->order)
        t->order = ++p->next_order;
    else /* came back: keeps its turn (it is near the front, but the walk from the back stops at once for the usual case) */
        for (struct sk_list *it = s->ready.next;; it = it->next)
            if (it == &s->ready || task_of(it)->order > t->order) {
                at = it->prev;
                break;
            }
    t->link.prev = at;
    t->link.next = at->next;
    at->next->prev = &t->link;
    at->next = &t->link;
    s->n_ready++;
    p->n_ready++;
}

void sk_place_unpush(struct sk_place *p, struct sk_place_task *t) {
    sk_list_del(&t->link);
    p->shapes[t->shape]->n_ready--;
    p->n_ready--;
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
    SK_ASSERT(w->state == SK_W_STARTING);
    p->n_starting--;
    to_idle(p, w);
}

void sk_place_worker_gone(struct sk_place *p, struct sk_place_worker *w) {
    if (w->state == SK_W_STARTING) p->n_starting--;
    if (w->state == SK_W_IDLE) p->n_idle--;
    if ((w->state == SK_W_LEASED || w->state == SK_W_ACTOR) && !w->blocked) take(p, w->shape, -1);
    sk_list_del(&w->link);
    sk_place_worker_init(w);
}

void sk_place_worker_actor(struct sk_place *p, struct sk_place_worker *w, sk_shape s) {
    SK_ASSERT(w->state == SK_W_IDLE);
    sk_list_del(&w->link);
    p->n_idle--;
    w->state = SK_W_ACTOR;
    w->shape = s;
    take(p, s, 1);
}

void sk_place_worker_block(struct sk_place *p, struct sk_place_worker *w, bool blocked) {
    if ((w->state != SK_W_LEASED && w->state != SK_W_ACTOR) || w->blocked == blocked) return;
    w->blocked = blocked;
    take(p, w->shape, blocked ? -1 : 1);
}

void sk_place_done(struct sk_place *p, struct sk_place_worker *w, int64_t ran_ns, int64_t now_ns) {
    SK_ASSERT(w->depth > 0);
    struct sk_place_shape *s = p->shapes[w->shape];
    w->depth--;
    if (ran_ns >= 0) w->since_ns = now_ns;
    if (ran_ns >= 0) s->avg_ns = s->avg_ns ? s->avg_ns + (ran_ns - s->avg_ns) / 8 : ran_ns + 1;
    if (w->state == SK_W_LEASED && w->depth == 0) {
        if (!w->blocked) take(p, w->shape, -1);
        w->blocked = false;
        sk_list_del(&w->link);
        to_idle(p, w);
    }
}

uint32_t sk_place_depth(const struct sk_place_shape *s) {
    if (!s->avg_ns) return 2;
    int64_t n = DEPTH_WORK_NS / s->avg_ns;
    return n < 2 ? 2 : n > SK_PLACE_DEPTH_MAX ? SK_PLACE_DEPTH_MAX : (uint32_t)n;
}

static void run(struct sk_place *p, struct sk_place_shape *s, struct sk_place_worker *w, int64_t now_ns, struct sk_place_pick *out) {
    struct sk_place_task *t = task_of(s->ready.next);
    sk_place_unpush(p, t);
    if (w->depth++ == 0) w->since_ns = now_ns;
    *out = (struct sk_place_pick){SK_PLACE_RUN, t, w};
}

void sk_place_pick(struct sk_place *p, int64_t now_ns, struct sk_place_pick *out) {
    *out = (struct sk_place_pick){.what = SK_PLACE_NOTHING};
    bool want_worker = false;
    uint64_t starving = UINT64_MAX; /* order of the oldest head that resources keep waiting */
    if (p->n_ready) {
        /* Oldest head first. A lease takes resources; while an older head waits for some, younger ones only use what is free for sure. */
        struct sk_place_shape *best = NULL;
        uint64_t best_order = UINT64_MAX;
        for (uint32_t i = 0; i < p->n_shapes; i++) {
            struct sk_place_shape *s = p->shapes[i];
            if (!s->n_ready) continue;
            uint64_t o = task_of(s->ready.next)->order;
            if (!fits(&s->res, &p->avail)) {
                if (o < starving) starving = o;
                continue;
            }
            if (o < best_order) best = s, best_order = o;
        }
        if (best) {
            if (!sk_list_empty(&p->idle)) {
                struct sk_place_worker *w = worker_of(p->idle.next);
                sk_list_del(&w->link);
                p->n_idle--;
                w->state = SK_W_LEASED;
                w->shape = task_of(best->ready.next)->shape;
                sk_list_push_back(&best->leased, &w->link);
                take(p, w->shape, 1);
                run(p, best, w, now_ns, out);
                return;
            }
            want_worker = true;
        }
        /* Feed the leases: the least loaded first, up to the depth; but not past an older task that waits for these resources. */
        for (uint32_t i = 0; i < p->n_shapes; i++) {
            struct sk_place_shape *s = p->shapes[i];
            if (!s->n_ready || task_of(s->ready.next)->order > starving) continue;
            uint32_t depth = sk_place_depth(s), low = UINT32_MAX;
            struct sk_place_worker *w = NULL;
            SK_LIST_EACH(it, &s->leased) {
                struct sk_place_worker *x = worker_of(it);
                if (!x->blocked && x->depth < depth && x->depth < low) w = x, low = x->depth;
            }
            if (w) {
                run(p, s, w, now_ns, out);
                return;
            }
        }
        if (want_worker) {
            /* As many on their way as there are tasks that could start now is enough. */
            if (p->n_starting < p->n_ready) out->what = SK_PLACE_SPAWN;
            return;
        }
    }
    if (p->n_ready) return;
    /* Nothing ready. Tasks queued behind others on a worker are trapped when they could start elsewhere: share. A short queue of short tasks
     * is left alone, unless its head turns out to take long. */
    for (uint32_t i = 0; i < p->n_shapes; i++) {
        struct sk_place_shape *s = p->shapes[i];
        if (sk_list_empty(&s->leased) || !fits(&s->res, &p->avail)) continue;
        SK_LIST_EACH(it, &s->leased) {
            struct sk_place_worker *w = worker_of(it);
            if (w->depth < 2) continue;
            if (s->avg_ns && s->avg_ns * (w->depth - 1) < SHARE_WORK_NS && now_ns - w->since_ns < SHARE_HEAD_NS) continue;
            if (p->n_idle)
                *out = (struct sk_place_pick){SK_PLACE_STEAL, NULL, w};
            else if (!p->n_starting)
                out->what = SK_PLACE_SPAWN;
            return;
        }
    }
}

bool sk_place_check(const struct sk_place *p) {
    uint32_t ready = 0, idle = 0;
    for (uint32_t i = 0; i < p->n_shapes; i++) {
        struct sk_place_shape *s = p->shapes[i];
        uint32_t n = 0;
        uint64_t last = 0;
        SK_LIST_EACH(it, &s->ready) {
            if (task_of(it)->order <= last || task_of(it)->shape != i) return false;
            last = task_of(it)->order;
            n++;
        }
        if (n != s->n_ready) return false;
        ready += n;
        SK_LIST_EACH(it, &s->leased)
            if (worker_of(it)->state != SK_W_LEASED || worker_of(it)->shape != i || worker_of(it)->depth == 0) return false;
    }
    SK_LIST_EACH(it, &p->idle) {
        if (worker_of(it)->state != SK_W_IDLE || worker_of(it)->depth) return false;
        idle++;
    }
    return ready == p->n_ready && idle == p->n_idle;
}
