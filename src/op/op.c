/* op.c - operators by name, over the table that the build makes from op/by/. Not here: any operator. Plan time only, so a plain walk. */
#include "op/op.h"

extern const struct sk_op_ops *const sk_op_table[];
extern const unsigned sk_op_table_n;

const struct sk_op_ops *sk_op_find(const char *name) {
    for (unsigned i = 0; name && i < sk_op_table_n; i++)
        if (strcmp(name, sk_op_table[i]->name) == 0) return sk_op_table[i];
    return NULL;
}
