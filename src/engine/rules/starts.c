/* starts.c - see starts.h. */
#include "engine/rules/starts.h"

bool sk_starts_ended(struct sk_starts *s, int64_t now_ns, bool by_itself) {
    if (!s->n++) s->since_ns = now_ns;
    s->n_own += by_itself;
    SK_DCHECK(s->n_own <= s->n && now_ns >= s->since_ns);
    if (s->n_own >= SK_STARTS_OWN || now_ns - s->since_ns >= SK_STARTS_PATIENCE_NS) {
        sk_starts_ready(s);
        return false;
    }
    int64_t wait = SK_STARTS_WAIT_NS << SK_MIN(s->n - 1, 10u);
    s->again_ns = now_ns + SK_MIN(wait, SK_STARTS_WAIT_MAX_NS);
    return true;
}
