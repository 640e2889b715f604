/* aggregate_reduce.c - the second half of an exchange that computes aggregates. Its tasks run in
 * shuffle/task.c; where operators are fused behind it, the chain sends them its rows. */
#include "data/data.h"

const struct sk_data_op sk_data_by_aggregate_reduce = {.name = "aggregate_reduce",
                                                       .exchange = true};
