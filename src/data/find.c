/* find.c - the table of operators, made from the files of by/. */
#include "data/data.h"

extern const struct sk_data_op *const sk_data_table[];
extern const unsigned sk_data_table_n;

const struct sk_data_op *sk_data_op_find(const char *name, size_t n) {
    for (unsigned i = 0; i < sk_data_table_n; i++)
        if (strlen(sk_data_table[i]->name) == n && memcmp(sk_data_table[i]->name, name, n) == 0)
            return sk_data_table[i];
    return NULL;
}
