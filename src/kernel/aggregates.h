/* aggregates.h - the table of the built-in aggregates, one row each.
 *
 * X(KIND, name, takes, state, result, finish): SK_AGG_<KIND> is its number, `name` what Python and
 * messages call it. The other columns are words of the four lists below.
 *
 * takes: the types of its column (a column of type null fits all).
 * state: what is kept of a group. The state also says how a row is added, and how two states are
 *     merged and travel.
 * result: the type of its result.
 * finish: the function finish_<word> of agg.c, which makes a result of a state. "kept": collect.c
 *     builds the column of results. */
#ifndef SK_AGGREGATES_H
#define SK_AGGREGATES_H

enum sk_agg_takes {
    SK_TAKES_NUMBERS = 1, /* integers and floats */
    SK_TAKES_BOOL = 2,
    SK_TAKES_DECIMALS = 4, /* of 32 to 128 bits */
    SK_TAKES_DECIMALS_256 = 8,
    SK_TAKES_DURATIONS = 16,
    SK_TAKES_ORDERED = 31 | 32, /* every type whose values have an order */
    SK_TAKES_ALL = 127          /* nested types, too */
};
enum sk_agg_state {
    SK_STATE_COUNT,   /* rows */
    SK_STATE_SHARE,   /* rows, and how many of them count */
    SK_STATE_SUM,     /* an exact, or a reproducible, sum */
    SK_STATE_MOMENTS, /* sums of the values and of their squares */
    SK_STATE_VALUE,   /* the value that is ahead of all others */
    SK_STATE_LIST,    /* values, in their order (collect.c, as is the next one) */
    SK_STATE_PAIRS    /* distinct values, and how often each was there */
};
enum sk_agg_gives {
    SK_GIVES_INT64,
    SK_GIVES_DOUBLE,
    SK_GIVES_SAME, /* the type of the column */
    SK_GIVES_SUM,  /* int64, uint64, decimal(38, s), double, or the duration's type */
    SK_GIVES_KEPT  /* collect.c says it */
};

#define SK_NUMERIC (SK_TAKES_NUMBERS | SK_TAKES_DECIMALS)
#define SK_AGGREGATES(X)                                                                        \
    X(COUNT, "count", SK_TAKES_ALL, COUNT, INT64, count)                                        \
    X(SUM, "sum", SK_NUMERIC | SK_TAKES_BOOL | SK_TAKES_DURATIONS, SUM, SUM, sum)               \
    X(MIN, "min", SK_TAKES_ORDERED, VALUE, SAME, value)                                         \
    X(MAX, "max", SK_TAKES_ORDERED, VALUE, SAME, value)                                         \
    X(MEAN, "mean", SK_NUMERIC | SK_TAKES_BOOL, SUM, DOUBLE, mean)                              \
    X(STD, "std", SK_NUMERIC, MOMENTS, DOUBLE, std)                                             \
    X(VAR, "var", SK_NUMERIC, MOMENTS, DOUBLE, var)                                             \
    X(ABS_MAX, "abs_max", SK_NUMERIC | SK_TAKES_DECIMALS_256 | SK_TAKES_DURATIONS, VALUE, SAME, \
      value)                                                                                    \
    X(MISSING_PCT, "missing_pct", SK_TAKES_ALL, SHARE, DOUBLE, share) /* null or NaN */         \
    X(ZERO_PCT, "zero_pct", SK_NUMERIC, SHARE, DOUBLE, share)                                   \
    X(LIST, "list", SK_TAKES_ALL, LIST, KEPT, kept)                                             \
    X(FIRST, "first", SK_TAKES_ALL, LIST, KEPT, kept)                                           \
    X(UNIQUE, "unique", SK_TAKES_ALL, PAIRS, KEPT, kept)                                        \
    X(COUNT_DISTINCT, "count_distinct", SK_TAKES_ALL, PAIRS, KEPT, kept)                        \
    X(VALUE_COUNTER, "value_counter", SK_TAKES_ALL, PAIRS, KEPT, kept)                          \
    X(QUANTILE, "quantile", SK_TAKES_NUMBERS, PAIRS, KEPT, kept)                                \
    X(APPROX_QUANTILES, "approx_quantile", SK_TAKES_NUMBERS, PAIRS, KEPT, kept)                 \
    X(TOP_K, "approx_topk", SK_TAKES_ALL, PAIRS, KEPT, kept)

enum sk_agg_kind {
#define SK_AGG_NUMBER(kind, ...) SK_AGG_##kind,
    SK_AGGREGATES(SK_AGG_NUMBER)
#undef SK_AGG_NUMBER
        SK_AGG_KINDS
};

/* A row of the table, for the code. */
struct sk_agg_facts {
    const char *name;
    unsigned takes; /* enum sk_agg_takes, or-ed */
    enum sk_agg_state state;
    enum sk_agg_gives result;
};
const struct sk_agg_facts *sk_agg_facts(enum sk_agg_kind kind);

#endif
