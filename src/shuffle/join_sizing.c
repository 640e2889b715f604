/* join_sizing.c - which side of a join is measured, and what becomes of it (join_sizing.h): rules
 * of kinds, four figures, two decisions. Pure.
 *
 * Measured on 2 cores, seconds of work moved and broadcast, 5 million rows with 1,000: 7.4 and
 * 0.23; with 600,000 (9.2 MiB): 2.5 and 1.6. A filter costs a hash a row of either side, so it pays
 * where the other side is some times larger and few of its rows meet something; what of them do,
 * nobody knows before: where most do it is given up (op/join_filter.py). */
#include "shuffle/join_sizing.h"

/* times the limit: what a side is expected to have at most, to be run first for being broadcast */
#define LOOKED_AT 2
#define FILTERS 16 /* the same where a filter is all that may come of it */
/* times the bytes of the side that filters: the other one has, or nobody knows */
#define LARGER 4
#define FILTER_ROWS 6000000u /* whose keys a filter has at most: 7.5 MB of it go to each task */

#define BIT(side) (1u << (side))
enum { NEITHER = 0, LEFT = BIT(SK_SIDE_LEFT), RIGHT = BIT(SK_SIDE_RIGHT), BOTH = LEFT | RIGHT };

/* Which sides' rows come out for having met nothing (alone), or, once however many they meet, for
 * having met something. A block of a side knows neither about rows of the other one. */
static const struct {
    uint8_t alone, once;
} RULE[] = {
    [SK_JOIN_INNER] = {NEITHER, NEITHER},    [SK_JOIN_LEFT] = {LEFT, NEITHER},
    [SK_JOIN_RIGHT] = {RIGHT, NEITHER},      [SK_JOIN_FULL] = {BOTH, NEITHER},
    [SK_JOIN_LEFT_SEMI] = {NEITHER, LEFT},   [SK_JOIN_LEFT_ANTI] = {LEFT, LEFT},
    [SK_JOIN_RIGHT_SEMI] = {NEITHER, RIGHT}, [SK_JOIN_RIGHT_ANTI] = {RIGHT, RIGHT},
};

bool sk_side_by_block(enum sk_join_kind kind, int side) {
    unsigned other = BIT(!side);
    return !(RULE[kind].alone & other) && !(RULE[kind].once & other);
}

unsigned sk_side_tells(enum sk_join_kind kind) {
    return (sk_side_by_block(kind, SK_SIDE_LEFT) ? NEITHER : LEFT) |
           (sk_side_by_block(kind, SK_SIDE_RIGHT) ? NEITHER : RIGHT);
}

bool sk_side_may_lack(enum sk_join_kind kind, int side) { return !(RULE[kind].alone & BIT(side)); }

/* ---- which one is measured ------------------------------------------------------------------- */

static uint64_t times(uint64_t k, uint64_t bytes) {
    return bytes > UINT64_MAX / k ? UINT64_MAX : k * bytes;
}

static bool may_be_broadcast(const struct sk_sides *z, int side) {
    return !z->parted && sk_side_by_block(z->kind, !side);
}

/* Of a side that nobody knows it is expected that it may just be broadcast: a reader's filter
 * leaves a few rows as often as all. */
static uint64_t expected(const struct sk_sides *z, int side) {
    return z->side[side].bytes < 0 ? z->limit_bytes : (uint64_t)z->side[side].bytes;
}

static bool may_filter(const struct sk_sides *z, int side) {
    if (!sk_side_may_lack(z->kind, !side) || z->side[side].bytes < 0 || z->side[!side].bytes < 0)
        return false;
    return expected(z, side) <= times(FILTERS, z->limit_bytes) &&
           times(LARGER, expected(z, side)) <= expected(z, !side);
}

int sk_sides_first(const struct sk_sides *z) {
    /* of equal ones the right one */
    int smaller =
        expected(z, SK_SIDE_LEFT) < expected(z, SK_SIDE_RIGHT) ? SK_SIDE_LEFT : SK_SIDE_RIGHT;
    int order[2] = {smaller, !smaller};
    if (!z->limit_bytes) return SK_SIDE_NONE;
    for (int i = 0; i < 2; i++)
        if (z->side[order[i]].alone && may_be_broadcast(z, order[i]) &&
            expected(z, order[i]) <= times(LOOKED_AT, z->limit_bytes))
            return order[i];
    for (int i = 0; i < 2; i++)
        if (z->side[order[i]].alone && may_filter(z, order[i])) return order[i];
    return SK_SIDE_NONE;
}

/* ---- what becomes of it ---------------------------------------------------------------------- */

enum sk_side_use sk_side_use(const struct sk_sides *z, int side, const struct sk_side_size *m) {
    if (m->columns && may_be_broadcast(z, side) && m->bytes <= z->limit_bytes)
        return SK_SIDE_BROADCAST;
    bool larger = z->side[!side].bytes < 0 || times(LARGER, m->bytes) <= expected(z, !side);
    return sk_side_may_lack(z->kind, !side) && m->rows && m->rows <= FILTER_ROWS && larger
               ? SK_SIDE_FILTERS
               : SK_SIDE_MOVED;
}
