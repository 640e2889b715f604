/* aggregate_reduce.c - the second half of an exchange that computes aggregates: its tasks run in
 * shuffle/task.c. */
#include "data/data.h"

const struct sk_data_op sk_data_by_aggregate_reduce = {.name = "aggregate_reduce"};
