/* join_sizing.c - chooses the side of a join that is measured, and how the measured side is used
 * (join_sizing.h): rules of the join kinds, four figures, two decisions. Pure.
 *
 * Measured on 2 cores, joining 5 million rows with a smaller side, seconds of work when both sides
 * are moved and when the smaller one is broadcast: with 1,000 rows 7.4 and 0.23; with 600,000 rows
 * (9.2 MiB) 2.5 and 1.6. A filter costs one hash per row of either side, so it saves time if the
 * other side is several times larger and few of its rows have a partner. The number of these rows
 * is not known before the run; if most have a partner, the filter is no longer used
 * (op/join_filter.py). */
#include "shuffle/join_sizing.h"

/* A side runs first, to be broadcast, if it is expected to have at most this times limit_bytes. */
#define LOOKED_AT 2
#define FILTERS 16 /* like LOOKED_AT, for a side that can only become a filter */
/* A side becomes a filter only if the bytes of the other side are at least this times its bytes, or
 * unknown. */
#define LARGER 4
/* the most rows of a side that becomes a filter; the filter then has 7.5 MB, and is sent to each
 * task */
#define FILTER_ROWS 6000000u

#define BIT(side) (1u << (side))
enum { NEITHER = 0, LEFT = BIT(SK_SIDE_LEFT), RIGHT = BIT(SK_SIDE_RIGHT), BOTH = LEFT | RIGHT };

/* For each kind two sets of sides. alone: the result has the side's rows without a partner. once:
 * the result has each row with partners only once, however many partners it has. A task that has
 * only a part of the other side cannot decide either of these. */
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

/* ---- choosing the side to measure ------------------------------------------------------------ */

static uint64_t times(uint64_t k, uint64_t bytes) {
    return bytes > UINT64_MAX / k ? UINT64_MAX : k * bytes;
}

static bool may_be_broadcast(const struct sk_sides *z, int side) {
    return !z->parted && sk_side_by_block(z->kind, !side);
}

/* Returns the expected bytes of a side. A side of unknown size is expected to be just small enough
 * to be broadcast, since a filter before it may keep all rows or few. */
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
    /* the right side, if both are expected to be equally large */
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

/* ---- using the measured side ----------------------------------------------------------------- */

enum sk_side_use sk_side_use(const struct sk_sides *z, int side, const struct sk_side_size *m) {
    if (m->columns && may_be_broadcast(z, side) && m->bytes <= z->limit_bytes)
        return SK_SIDE_BROADCAST;
    bool larger = z->side[!side].bytes < 0 || times(LARGER, m->bytes) <= expected(z, !side);
    return sk_side_may_lack(z->kind, !side) && m->rows && m->rows <= FILTER_ROWS && larger
               ? SK_SIDE_FILTERS
               : SK_SIDE_MOVED;
}
