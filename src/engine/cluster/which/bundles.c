/* bundles.c - which nodes get the bundles of a placement group. Pure.
 *
 * Cost: a comparison for each bundle and node, times the number of bundles. */
#include "engine/cluster/which/bundles.h"

#include <math.h>

#include "base/mem.h"

static bool fits(const struct sk_res *need, const struct sk_res *room) {
    for (int i = 0; i < SK_RES_MAX; i++)
        if (need->amount[i] > 0 && need->amount[i] > room->amount[i]) return false;
    return true;
}

static bool can(const struct sk_bundles *b, uint32_t i, uint32_t k) {
    return fits(&b->bundle[i], &b->room[k]) && b->may(b->ctx, i, k);
}

static void put(struct sk_bundles *b, uint32_t i, uint32_t k) {
    SK_DCHECK(b->at[i] == SK_NO_NODE && can(b, i, k));
    b->at[i] = k;
    for (int r = 0; r < SK_RES_MAX; r++) b->room[k].amount[r] -= b->bundle[i].amount[r];
}

static void take(struct sk_bundles *b, uint32_t i) {
    for (int r = 0; r < SK_RES_MAX; r++) b->room[b->at[i]].amount[r] += b->bundle[i].amount[r];
    b->at[i] = SK_NO_NODE;
}

/* The size of a bundle, for the order in which they are placed: GPUs first, then CPUs. */
static double size(const struct sk_res *r) {
    return (double)r->amount[SK_RES_GPU] * 1000 + (double)r->amount[SK_RES_CPU];
}

/* The largest bundle that has no node; SK_NO_NODE: there is none. */
static uint32_t largest(const struct sk_bundles *b) {
    uint32_t best = SK_NO_NODE;
    for (uint32_t i = 0; i < b->n; i++)
        if (b->at[i] == SK_NO_NODE &&
            (best == SK_NO_NODE || size(&b->bundle[i]) > size(&b->bundle[best])))
            best = i;
    return best;
}

static uint32_t n_at(const struct sk_bundles *b, uint32_t k) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < b->n; i++) n += b->at[i] == k;
    return n;
}

/* Fills node k with bundles, the larger ones first. Returns how many it took; `marks`: those. */
static uint32_t fill(struct sk_bundles *b, uint32_t k, bool *marks) {
    uint32_t n = 0;
    memset(marks, 0, b->n * sizeof *marks);
    for (double last = INFINITY;;) { /* in the order of their sizes */
        double now = -1;
        for (uint32_t i = 0; i < b->n; i++)
            if (b->at[i] == SK_NO_NODE && size(&b->bundle[i]) < last)
                now = SK_MAX(now, size(&b->bundle[i]));
        if (now < 0) return n;
        for (uint32_t i = 0; i < b->n; i++) {
            if (b->at[i] != SK_NO_NODE || size(&b->bundle[i]) != now || !can(b, i, k)) continue;
            put(b, i, k);
            marks[i] = true;
            n++;
        }
        last = now;
    }
}

static void undo(struct sk_bundles *b, const bool *marks) {
    for (uint32_t i = 0; i < b->n; i++)
        if (marks[i]) take(b, i);
}

/* The node that takes the most bundles, of those the one with the least room left. */
static bool pack(struct sk_bundles *b, bool strict, bool *marks) {
    uint32_t home = SK_NO_NODE; /* of a strict group of which some are placed */
    for (uint32_t i = 0; strict && i < b->n; i++)
        if (b->at[i] != SK_NO_NODE) home = b->at[i];
    while (largest(b) != SK_NO_NODE) {
        uint32_t best = SK_NO_NODE, most = 0, todo = 0;
        double left = 0;
        for (uint32_t i = 0; i < b->n; i++) todo += b->at[i] == SK_NO_NODE;
        for (uint32_t k = 0; k < b->n_nodes; k++) {
            if (home != SK_NO_NODE && k != home) continue;
            uint32_t n = fill(b, k, marks), own = 2 * n + (n_at(b, k) > n); /* one that has some */
            double rest = size(&b->room[k]);
            undo(b, marks);
            if (!n || (strict && n < todo)) continue;
            if (best != SK_NO_NODE && (own < most || (own == most && rest >= left))) continue;
            best = k;
            most = own;
            left = rest;
        }
        if (best == SK_NO_NODE) return false;
        (void)fill(b, best, marks);
    }
    return true;
}

/* The bundle without a node that has the fewest nodes to choose from, of those the largest. */
static uint32_t scarcest(const struct sk_bundles *b) {
    uint32_t best = SK_NO_NODE, least = UINT32_MAX;
    for (uint32_t i = 0; i < b->n; i++) {
        uint32_t n = 0;
        if (b->at[i] != SK_NO_NODE) continue;
        for (uint32_t k = 0; k < b->n_nodes; k++) n += can(b, i, k);
        if (best != SK_NO_NODE &&
            (n > least || (n == least && size(&b->bundle[i]) <= size(&b->bundle[best]))))
            continue;
        best = i;
        least = n;
    }
    return best;
}

static bool spread(struct sk_bundles *b) {
    for (uint32_t i; (i = scarcest(b)) != SK_NO_NODE;) {
        uint32_t best = SK_NO_NODE;
        for (uint32_t k = 0; k < b->n_nodes; k++) {
            if (!can(b, i, k)) continue;
            if (best != SK_NO_NODE &&
                (n_at(b, k) > n_at(b, best) ||
                 (n_at(b, k) == n_at(b, best) && size(&b->room[k]) <= size(&b->room[best]))))
                continue;
            best = k;
        }
        if (best == SK_NO_NODE) return false;
        put(b, i, best);
    }
    return true;
}

/* Finds a node for bundle i, maybe by giving another bundle that was placed now another node.
 * seen[k]: node k was tried. */
static bool augment(struct sk_bundles *b, uint32_t i, bool *seen, const bool *fixed) {
    for (uint32_t k = 0; k < b->n_nodes; k++)
        if (!seen[k] && !n_at(b, k) && can(b, i, k)) {
            put(b, i, k);
            return true;
        }
    for (uint32_t k = 0; k < b->n_nodes; k++) {
        if (seen[k]) continue;
        uint32_t other = SK_NO_NODE;
        for (uint32_t j = 0; j < b->n; j++)
            if (b->at[j] == k) other = j;
        if (other == SK_NO_NODE || fixed[other]) continue;
        take(b, other);
        bool good = can(b, i, k);
        if (good) seen[k] = true;
        if (good && augment(b, other, seen, fixed)) {
            put(b, i, k);
            return true;
        }
        put(b, other, k);
    }
    return false;
}

static bool apart(struct sk_bundles *b, const bool *fixed, bool *seen) {
    for (uint32_t i; (i = largest(b)) != SK_NO_NODE;) {
        memset(seen, 0, b->n_nodes * sizeof *seen);
        if (!augment(b, i, seen, fixed)) return false;
    }
    return true;
}

static void reset(struct sk_bundles *b, const bool *fixed) {
    for (uint32_t i = 0; i < b->n; i++)
        if (!fixed[i] && b->at[i] != SK_NO_NODE) take(b, i);
}

bool sk_bundles_place(struct sk_bundles *b) {
    SK_ASSERT(b->n && b->strategy <= SK_GROUP_STRICT_SPREAD);
    bool *fixed = sk_calloc(SK_TAG_ENGINE, 2 * (size_t)b->n + b->n_nodes);
    if (!fixed) return false;
    bool *marks = fixed + b->n, *seen = marks + b->n, good = true;
    for (uint32_t i = 0; i < b->n; i++) fixed[i] = b->at[i] != SK_NO_NODE;
    switch (b->strategy) {
    case SK_GROUP_STRICT_PACK: good = pack(b, true, marks); break;
    case SK_GROUP_PACK:
        good = pack(b, false, marks);
        if (good) break;
        reset(b, fixed);
        good = spread(b);
        break;
    case SK_GROUP_SPREAD: good = spread(b); break;
    default: good = apart(b, fixed, seen);
    }
    if (!good) reset(b, fixed);
    sk_free(fixed);
    return good;
}
