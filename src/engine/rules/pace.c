/* pace.c - see pace.h. */
#include "engine/rules/pace.h"

struct sk_pace_sleep sk_pace_caller(const struct sk_pace_view *v, int64_t n_cpu, int64_t spin_ns,
                                    int64_t deadline_ns) {
    struct sk_pace_sleep s = {.until_ns = deadline_ns};
    /* With a free core it is worth spinning for the answer; otherwise the core belongs to the
     * workers. */
    if (v->n_busy < (uint32_t)SK_MAX(n_cpu, 1)) s.spin_ns = spin_ns;
    if (v->n_busy || v->waiting)
        s.until_ns = SK_MIN(deadline_ns, v->now_ns + SK_PACE_TICK_NS + s.spin_ns);
    return s;
}

struct sk_pace_sleep sk_pace_thread(struct sk_pace *p, const struct sk_pace_view *v) {
    struct sk_pace_sleep s = {.until_ns = INT64_MAX};
    if (v->n_live || v->large) s.until_ns = v->now_ns + SK_PACE_REAP_NS;
    if (!v->driven && (v->n_busy || v->waiting)) s.until_ns = v->now_ns + 10 * SK_PACE_TICK_NS;
    if (!v->n_messages) return s;
    /* messages arrived again soon after the last ones */
    if (v->now_ns - p->last_ns < 4 * SK_PACE_NAP_NS) s.nap_ns = SK_PACE_NAP_NS;
    p->last_ns = v->now_ns;
    return s;
}

bool sk_pace_reap(struct sk_pace *p, int64_t now_ns) {
    if (now_ns - p->last_reap_ns < SK_PACE_REAP_NS) return false;
    p->last_reap_ns = now_ns;
    return true;
}
