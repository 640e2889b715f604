/* workers.c - the states of a worker, and the resources that it holds in each state: a lease or an
 * actor takes the resources of its shape, and gives them back at its end. */
#include "base/mem.h"
#include "engine/place/place_int.h"

/* The amounts that worker w takes from: its bundle's, or the machine's. */
static struct sk_res *avail_of(struct sk_place *p, const struct sk_place_worker *w) {
    return w->in && !w->in->removed ? &w->in->b[w->bundle].avail : &p->avail;
}

/* Takes the resources that the shape of worker w asks for. The caller has found room for them. */
static void take(struct sk_place *p, struct sk_place_worker *w) {
    struct sk_place_shape *s = sk_place_shape_at(p, w->shape);
    SK_DCHECK(s->id == w->shape && !w->in && !w->gpus && !w->blocked);
    s->n_workers++;
    bool there = sk_place_room(p, s, &w->bundle);
    w->in = there && s->group ? s->in : NULL;
    if (w->in) w->in->n_leases++;
    struct sk_res *avail = avail_of(p, w);
    int64_t *left = w->in ? w->in->b[w->bundle].gpu_left : p->gpu_left;
    move_amounts(avail, &s->res, -1);
    if (SK_UNLIKELY(s->more)) sk_place_more_move(p, s->more, -1);
    if (!sk_place_choose_devices(p, left, &s->res, &w->gpus)) w->gpus = 0;
    sk_place_move_devices(p, left, w->gpus, &s->res, -1);
    w->used = true;
    w->with_gpu = sk_place_asks_devices(p, &s->res);
    w->env = s->env;
}

/* Gives back the resources that take() took. */
static void give_back(struct sk_place *p, struct sk_place_worker *w) {
    struct sk_place_shape *s = sk_place_shape_at(p, w->shape);
    const struct sk_res *res = &s->res;
    SK_ASSERT(s->n_workers > 0);
    sk_place_worker_block(p, w, false);
    struct sk_res *avail = avail_of(p, w);
    move_amounts(avail, res, 1);
    if (SK_UNLIKELY(s->more)) sk_place_more_move(p, s->more, 1);
    sk_place_move_devices(p, w->in && !w->in->removed ? w->in->b[w->bundle].gpu_left : p->gpu_left,
                          w->gpus, res, 1);
    SK_DCHECK(!w->in || w->in->n_leases > 0);
    if (w->in && --w->in->n_leases == 0 && w->in->removed) {
        sk_list_del(&w->in->link);
        sk_free(w->in);
    }
    w->in = NULL;
    w->gpus = 0;
    if (--s->n_workers == 0 && s->group && !s->in) sk_place_shape_unused(p, s);
}

struct sk_place_worker *sk_place_idle_for(const struct sk_place *p, sk_shape s) {
    struct sk_place_worker *fresh = NULL;
    uint32_t env = sk_place_shape_at(p, s)->env;
    bool gpu = sk_place_asks_devices(p, &sk_place_shape_at(p, s)->res);
    SK_LIST_EACH (it, &p->idle) {
        struct sk_place_worker *w = worker_of(it);
        if (w->used ? w->env == env && w->with_gpu == gpu : env == 0 && !gpu) return w;
        if (!w->used && !fresh) fresh = w;
    }
    return fresh;
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

void sk_place_worker_exclude(struct sk_place *p, struct sk_place_worker *w, bool exclude) {
    if (!exclude) {
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

void sk_place_worker_lease(struct sk_place *p, struct sk_place_worker *w,
                           struct sk_place_shape *s) {
    SK_ASSERT(w->state == SK_W_IDLE && !w->depth);
    sk_list_del(&w->link);
    p->n_idle--;
    w->state = SK_W_LEASED;
    w->shape = s->id;
    sk_list_push_back(&s->leased, &w->link);
    take(p, w);
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
    avail_of(p, w)->amount[SK_RES_CPU] +=
        (blocked ? 1 : -1) * sk_place_shape_at(p, w->shape)->res.amount[SK_RES_CPU];
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
