/* amounts.c - amounts of custom resources that have no place in struct sk_res: interned lists,
 * for the few shapes that ask for them. */
#include "base/mem.h"
#include "engine/custom.h"
#include "engine/place/place_int.h"

sk_rc sk_place_more_init(struct sk_place *p, const int64_t *total, uint32_t n, struct sk_err *err) {
    if (!n) return SK_OK;
    p->more_total = sk_memdup(SK_TAG_ENGINE, total, n * sizeof *total);
    p->more_avail = sk_memdup(SK_TAG_ENGINE, total, n * sizeof *total);
    if (!p->more_total || !p->more_avail)
        return SK_ERR(err, SK_ENOMEM, "no memory for %u custom resources", n);
    p->n_more = n;
    return SK_OK;
}

sk_rc sk_place_more(struct sk_place *p, const struct sk_amount *a, uint32_t n, uint32_t *out,
                    struct sk_err *err) {
    *out = 0;
    if (!n) return SK_OK;
    for (uint32_t i = 0; i < p->n_mores; i++)
        if (p->mores[i]->n == n && !memcmp(p->mores[i]->a, a, n * sizeof *a)) {
            *out = i + 1;
            return SK_OK;
        }
    if (p->n_mores == SK_PLACE_SHAPES_MAX)
        return SK_ERR(err, SK_EINVAL,
                      "more than %u different resource requests; use fewer distinct amounts",
                      SK_PLACE_SHAPES_MAX);
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

size_t sk_place_more_read(const struct sk_place *p, uint32_t more, struct sk_amount *out,
                          size_t cap) {
    bool all = more == SK_MORE_TOTAL || more == SK_MORE_FREE;
    if (!all && (!more || more > p->n_mores)) return 0;
    const struct sk_place_more *m = all ? NULL : p->mores[more - 1];
    size_t n = all ? p->n_more : m->n;
    for (size_t i = 0; n <= cap && i < n; i++)
        out[i] = m ? m->a[i]
                   : (struct sk_amount){SK_RES_MAX + i,
                                        (more == SK_MORE_TOTAL ? p->more_total : p->more_avail)[i]};
    return n;
}

bool sk_place_more_fits(const struct sk_place *p, const struct sk_place_more *m) {
    for (uint32_t i = 0; m && i < m->n; i++)
        if (m->a[i].amount > p->more_avail[m->a[i].index - SK_RES_MAX]) return false;
    return true;
}

void sk_place_more_move(struct sk_place *p, const struct sk_place_more *m, int64_t sign) {
    for (uint32_t i = 0; m && i < m->n; i++) {
        uint64_t at = m->a[i].index - SK_RES_MAX;
        SK_ASSERT(at < p->n_more);
        p->more_avail[at] += sign * m->a[i].amount;
        SK_DCHECK(p->more_avail[at] <= p->more_total[at]);
    }
}
