/* shapes.c - the table of shapes, which interns needs: everything in this folder treats tasks of
 * one shape alike. Cost: a comparison with each shape. */
#include "base/mem.h"
#include "engine/place/place_int.h"

sk_rc sk_place_shape(struct sk_place *p, const struct sk_res *r, sk_shape *out,
                     struct sk_err *err) {
    return sk_place_need(p, &(struct sk_need){.res = *r}, out, err);
}

/* Gives an entry for a new shape: an unused one, else one more. Its lists are empty. */
static sk_rc fresh_shape(struct sk_place *p, struct sk_place_shape **out, struct sk_err *err) {
    struct sk_list *unused = sk_list_first(&p->unused);
    if (unused) {
        sk_list_del(unused);
        *out = sk_container_of(unused, struct sk_place_shape, unused);
        SK_DCHECK(!(*out)->n_ready && !(*out)->n_workers && !(*out)->levels &&
                  sk_list_empty(&(*out)->leased));
        return SK_OK;
    }
    if (p->n_shapes == SK_PLACE_SHAPES_MAX)
        return SK_ERR(err, SK_EINVAL,
                      "more than %u different resource requests; use fewer distinct amounts, or "
                      "fewer placement groups at once",
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

/* Saves the entry of a dead shape that no worker holds, for reuse. The entry gets another id, so
 * that code which still has the old id sees that the shape is dead. After 65,536 uses the entry
 * stays unused, so that no id is given twice. */
void sk_place_shape_unused(struct sk_place *p, struct sk_place_shape *s) {
    /* the entry's next shape must not inherit workers or tasks */
    SK_ASSERT(!s->n_workers && !s->n_ready && sk_list_empty(&s->unused));
    uint64_t next = (uint64_t)s->id + (1u << SK_PLACE_SHAPE_BITS);
    s->avg_ns = 0;
    if (next > UINT32_MAX) return;
    s->id = (sk_shape)next;
    sk_list_push_back(&p->unused, &s->unused);
}

static sk_rc intern(struct sk_place *p, const struct sk_need *need, bool alone, sk_shape *out,
                    struct sk_err *err) {
    const struct sk_res *r = &need->res;
    int32_t bundle = need->group ? need->bundle : 0;
    struct sk_place_group *g = need->group ? sk_place_group_find(p, need->group) : NULL;
    if (need->group && !g) return SK_ERR(err, SK_EGROUP, "the placement group was removed");
    if (g && (bundle < -1 || (bundle >= 0 && (uint32_t)bundle >= g->n)))
        return SK_ERR(err, SK_EINVAL, "the placement group has bundles 0 to %u, and no bundle %d",
                      g->n - 1, bundle);
    if (need->more > p->n_mores)
        return SK_ERR(err, SK_EINVAL, "no further resources have number %u", need->more);
    if (g && need->more)
        return SK_ERR(err, SK_EINFEASIBLE,
                      "bundles of placement groups hold only the first %d custom resources of "
                      "init(resources={...})",
                      SK_RES_MAX - SK_RES_CUSTOM);
    const struct sk_place_more *more = need->more ? p->mores[need->more - 1] : NULL;
    for (uint32_t i = 0; i < p->n_shapes; i++) {
        const struct sk_place_shape *s = p->shapes[i];
        if (s->more == more && s->alone == alone && s->group == need->group &&
            s->bundle == bundle && s->env == need->env && s->where == need->where &&
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
    s->where = need->where;
    s->alone = alone;
    s->capture = need->capture != 0;
    s->more = more;
    s->in = g;
    *out = s->id;
    return SK_OK;
}

sk_rc sk_place_need(struct sk_place *p, const struct sk_need *need, sk_shape *out,
                    struct sk_err *err) {
    return intern(p, need, false, out, err);
}

static bool has_others(const struct sk_place_group *g) {
    for (uint32_t i = 0; g && i < g->n; i++)
        if (g->b[i].elsewhere) return true;
    return false;
}

sk_rc sk_place_need_in(struct sk_place *p, const struct sk_need *n, sk_shape *out,
                       struct sk_err *err) {
    SK_TRY(sk_place_need(p, n, out, err));
    if (sk_place_fits_ever(p, *out)) return SK_OK;
    return SK_ERR(err, SK_EINFEASIBLE,
                  "a task or actor asks for more than %s of its placement group holds%s",
                  n->bundle < 0 ? "any bundle" : "the bundle",
                  has_others(sk_place_group_find(p, n->group))
                      ? " on this node, where tasks run that a task submits"
                      : "");
}

struct sk_need sk_place_need_of(const struct sk_place *p, sk_shape x) {
    const struct sk_place_shape *s = sk_place_shape_at(p, x);
    uint32_t more = 0;
    if (s->id != x) return (struct sk_need){0};
    while (s->more && p->mores[more++] != s->more) {}
    return (struct sk_need){.res = s->res,
                            .group = s->group,
                            .bundle = s->bundle,
                            .env = s->env,
                            .where = s->where,
                            .capture = s->capture,
                            .more = more};
}

sk_rc sk_place_alone(struct sk_place *p, sk_shape s, sk_shape *out, struct sk_err *err) {
    if (sk_place_shape_dead(p, s)) return SK_ERR(err, SK_EGROUP, "the placement group was removed");
    struct sk_need need = sk_place_need_of(p, s);
    return intern(p, &need, true, out, err);
}
