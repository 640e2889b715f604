/* quota.c - a byte budget: reserved, in use, left.
 *
 * Pure arithmetic. Work is admitted by its estimate (`reserve`) and may turn out larger: `used` may
 * pass the limit, and then there is no room until enough is released. Releasing more than is held
 * is a bug of the caller (SK_ASSERT) and is not clamped: a budget that drifts silently is found
 * weeks later. */
#include "store/store.h"

uint64_t sk_quota_room(const struct sk_quota *q) {
    uint64_t left = q->limit > q->used ? q->limit - q->used : 0;
    return left > q->reserved ? left - q->reserved : 0;
}

bool sk_quota_reserve(struct sk_quota *q, uint64_t n) {
    if (sk_quota_room(q) < n) return false;
    q->reserved += n; /* cannot wrap, since reserved + n <= limit; n == 0 is always granted */
    return true;
}

void sk_quota_unreserve(struct sk_quota *q, uint64_t n) {
    SK_ASSERT(n <= q->reserved);
    q->reserved -= n;
}

void sk_quota_use(struct sk_quota *q, uint64_t from_reserved, uint64_t n) {
    SK_ASSERT(from_reserved <= q->reserved && from_reserved <= n && n <= UINT64_MAX - q->used);
    q->reserved -= from_reserved;
    q->used += n;
}

void sk_quota_unuse(struct sk_quota *q, uint64_t n) {
    SK_ASSERT(n <= q->used);
    q->used -= n;
}
