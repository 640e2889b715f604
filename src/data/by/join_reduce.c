/* join_reduce.c - the second half of a join. Its tasks run in
 * shuffle/task.c; where operators are fused behind it, the chain sends them its rows. */
#include "data/data.h"

const struct sk_data_op sk_data_by_join_reduce = {.name = "join_reduce", .exchange = true};
