/* agg.h - states of aggregates; inside the kernel layer only.
 *
 * A state is a head and a body of 128-bit numbers, without pointers (but for a text's), so all
 * kinds travel in one way: flags, then each number by as many bytes as it needs. What a state is
 * depends on the set of values alone, but for nothing: merging is associative and commutative. */
#ifndef SK_AGG_H
#define SK_AGG_H

#include "kernel/fsum.h"

enum { SK_AGG_NULLS = 1, SK_AGG_NAN = 2, SK_AGG_INF = 4, SK_AGG_MINUS_INF = 8 };

struct sk_agg_head {
    int64_t n; /* values; rows where nulls count */
    uint32_t flags;
    int32_t top; /* of sums of floats */
};
struct sk_agg_text { /* of min and max of bytes: memory of its own */
    struct sk_agg_head head;
    uint8_t *p;
    uint32_t n, cap;
};
enum { SK_AGG_BODY = 9, SK_AGG_MOST = 16 + 16 * SK_AGG_BODY }; /* numbers; bytes of a state */

/* One aggregate over one column. */
struct sk_agg_col {
    struct sk_agg agg;
    enum sk_key_kind kind; /* of the values; SK_KEY_NULL where there is no column */
    uint32_t width, n_words;
    int32_t scale;              /* of decimals */
    bool text;                  /* values are bytes */
    bool nested;                /* only their validity is looked at */
    size_t size;                /* of a state */
    uint32_t body;              /* numbers in it */
    char format[96], name[256]; /* format: of the result */
    /* source: format of the values, or "n" where states are the same whatever these are */
    char source[96], state_name[104];
    uint8_t *states;
};

/* What the aggregate is on a column of that type; SK_EINVAL: nothing. s NULL: it counts rows. */
sk_rc sk_agg_col_init(struct sk_agg_col *a, const struct sk_agg *agg, const struct ArrowSchema *s,
                      struct sk_err *err) SK_MUST_USE;
void sk_agg_zero(const struct sk_agg_col *a, uint8_t *state);
/* Row i of the column goes to state ids[i], which is below groups; c NULL: rows are counted. false:
 * no memory. */
bool sk_agg_update(const struct sk_agg_col *a, const struct sk_key_col *c, const uint32_t *ids,
                   uint64_t rows, uint64_t groups) SK_MUST_USE;
/* agg_sum.c: whether it can do the same, and faster; and that. */
bool sk_agg_sum_fits(const struct sk_agg_col *a, const struct sk_key_col *c, uint64_t rows,
                     uint64_t groups);
bool sk_agg_sum_update(const struct sk_agg_col *a, const struct sk_key_col *c, const uint32_t *ids,
                       uint64_t rows, uint64_t groups) SK_MUST_USE;
bool sk_agg_merge(const struct sk_agg_col *a, uint8_t *to, const uint8_t *from) SK_MUST_USE;
size_t sk_agg_encoded_max(const struct sk_agg_col *a, const uint8_t *state);
size_t sk_agg_encode(const struct sk_agg_col *a, const uint8_t *state, uint8_t *out); /* bytes */
/* A state whose text, if any, is the bytes'. false: these are no state. */
bool sk_agg_decode(const struct sk_agg_col *a, struct sk_bytes b, uint8_t *state) SK_MUST_USE;
/* A state of values of from's type as one of to's, which is wider: int to float or decimal, coarse
 * to fine units, null to any. A text stays state's.
 * SK_ERANGE: the value is not exact in that type. SK_EINVAL: the types do not go together. */
sk_rc sk_agg_lift(const struct sk_agg_col *to, const struct sk_agg_col *from, const uint8_t *state,
                  uint8_t *out, struct sk_err *err) SK_MUST_USE;

/* The result: bytes of a->format, or text. SK_ERANGE: an overflow. */
struct sk_agg_value {
    bool null;
    uint8_t raw[32];
    struct sk_bytes text;
};
sk_rc sk_agg_finish(const struct sk_agg_col *a, const uint8_t *state, struct sk_agg_value *out,
                    struct sk_err *err) SK_MUST_USE;
uint32_t sk_agg_result_width(const struct sk_agg_col *a); /* 0: text, or null */

#endif
