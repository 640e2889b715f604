/* agg.h - states of aggregates; inside the kernel layer only.
 *
 * A state is a head and a body of 128-bit numbers, without pointers (except a text's), so all kinds
 * are encoded in one way: flags, then each number in as many bytes as it needs. A state depends
 * only on the set of values, not on their order: merging is associative and commutative. */
#ifndef SK_AGG_H
#define SK_AGG_H

#include "kernel/agg/fsum.h"

enum { SK_AGG_NULLS = 1, SK_AGG_NAN = 2, SK_AGG_INF = 4, SK_AGG_MINUS_INF = 8 };

struct sk_agg_head {
    int64_t n; /* number of values, or of rows if nulls count */
    uint32_t flags;
    int32_t top; /* number of the top bin, of sums of floats */
};
struct sk_agg_text { /* state of min and max of bytes, with memory of its own */
    struct sk_agg_head head;
    uint8_t *p;
    uint32_t n, cap;
};
/* the most numbers in a body, and the most bytes of a state without text */
enum { SK_AGG_BODY = 9, SK_AGG_MOST = 16 + 16 * SK_AGG_BODY };

/* One aggregate over one column. */
struct sk_agg_col {
    struct sk_agg agg;
    enum sk_agg_state state;
    enum sk_key_kind kind; /* kind of the values; SK_KEY_NULL without a column */
    uint32_t width, n_words;
    int32_t scale;              /* of decimals: digits behind the point */
    bool text;                  /* the values are bytes */
    bool nested;                /* the type has no order, and only the validity of values is read */
    size_t size;                /* bytes of a state */
    uint32_t body;              /* numbers in a state's body */
    char format[96], name[256]; /* format: Arrow format of the result */
    /* source: Arrow format of the values, or "n" where states do not depend on it. */
    char source[96], state_name[104];
    uint8_t *states;
};

/* Prepares the aggregate for a column of type s; NULL: it counts rows. SK_EINVAL: the aggregate is
 * not possible for this type. */
sk_rc sk_agg_col_init(struct sk_agg_col *a, const struct sk_agg *agg, const struct ArrowSchema *s,
                      struct sk_err *err) SK_MUST_USE;
void sk_agg_zero(const struct sk_agg_col *a, uint8_t *state);
/* Adds row i of the column to state ids[i], which is below groups. c NULL: rows are counted. ids
 * may be NULL if sk_agg_needs_ids() returns false. false: no memory. */
bool sk_agg_needs_ids(const struct sk_agg_col *a, const struct sk_key_col *c, uint64_t rows,
                      uint64_t groups);
bool sk_agg_update(const struct sk_agg_col *a, const struct sk_key_col *c, const uint32_t *ids,
                   uint64_t rows, uint64_t groups) SK_MUST_USE;
/* agg_sum.c: true if sk_agg_sum_update does the same faster for this column. */
bool sk_agg_sum_fits(const struct sk_agg_col *a, const struct sk_key_col *c, uint64_t rows,
                     uint64_t groups);
bool sk_agg_sum_update(const struct sk_agg_col *a, const struct sk_key_col *c, const uint32_t *ids,
                       uint64_t rows, uint64_t groups) SK_MUST_USE;
/* agg_one.c: the same if all rows are in one group. */
bool sk_agg_one_fits(const struct sk_agg_col *a, const struct sk_key_col *c, uint64_t rows,
                     uint64_t groups);
bool sk_agg_one_update(const struct sk_agg_col *a, const struct sk_key_col *c,
                       uint64_t rows) SK_MUST_USE;
/* agg_floats.c: adds the rows of a column of floats to the one state, a sum or moments. */
void sk_agg_floats_update(const struct sk_agg_col *a, const struct sk_key_col *c, uint64_t rows);
/* Returns the least, or the greatest, value, and the numbers of values and of NaNs. */
double sk_agg_floats_scan(const struct sk_key_col *c, uint64_t rows, bool least, int64_t *values,
                          int64_t *nans);
extern bool sk_agg_plain; /* true: AVX2 is not used (for tests) */
/* True if functions marked SK_AGG_WIDE may be called. Each has a twin for other processors. */
bool sk_agg_wide(void);
#if defined(__x86_64__)
#define SK_AGG_WIDE __attribute__((target("avx2,fma")))
#else
#define SK_AGG_WIDE
#endif
bool sk_agg_merge(const struct sk_agg_col *a, uint8_t *to, const uint8_t *from) SK_MUST_USE;
size_t sk_agg_encoded_max(const struct sk_agg_col *a, const uint8_t *state);
/* returns the bytes written */
size_t sk_agg_encode(const struct sk_agg_col *a, const uint8_t *state, uint8_t *out);
/* Decodes a state; a text in it stays in b's bytes. false: the bytes are no state. */
bool sk_agg_decode(const struct sk_agg_col *a, struct sk_bytes b, uint8_t *state) SK_MUST_USE;
/* Converts a state of values of from's type to one of to's type, which must be wider: int to float
 * or decimal, coarse to fine units, null to any type. A text stays the memory of `state`.
 * SK_ERANGE: the value is not exact in to's type. SK_EINVAL: the types do not fit together. */
sk_rc sk_agg_lift(const struct sk_agg_col *to, const struct sk_agg_col *from, const uint8_t *state,
                  uint8_t *out, struct sk_err *err) SK_MUST_USE;

/* Writes the result: bytes of type a->format, or a text. SK_ERANGE: the result overflows. */
struct sk_agg_value {
    bool null;
    uint8_t raw[32];
    struct sk_bytes text;
};
sk_rc sk_agg_finish(const struct sk_agg_col *a, const uint8_t *state, struct sk_agg_value *out,
                    struct sk_err *err) SK_MUST_USE;
/* bytes of a result; 0: a text, or null */
uint32_t sk_agg_result_width(const struct sk_agg_col *a);

#endif
