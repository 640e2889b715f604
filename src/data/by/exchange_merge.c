/* exchange_merge.c - between the halves of an exchange: its tasks run in shuffle/task.c. */
#include "data/data.h"

const struct sk_data_op sk_data_by_exchange_merge = {.name = "exchange_merge"};
