/* policy.c - scheduling policies by name, in the table that the build makes from exec/by/. */
#include <string.h>

#include "exec/exec.h"
#include "exec/policy.h"

extern const struct sk_policy *const sk_exec_table[];
extern const unsigned sk_exec_table_n;

const struct sk_policy *sk_policy_find(const char *name) {
    for (unsigned i = 0; name && i < sk_exec_table_n; i++)
        if (strcmp(name, sk_exec_table[i]->name) == 0) return sk_exec_table[i];
    return NULL;
}

const struct sk_policy *sk_policy_default(bool spills) {
    unsigned where = spills ? SK_DEFAULT_SPILLS : SK_DEFAULT_STAYS;
    unsigned i = 0;
    while (i < sk_exec_table_n && !(sk_exec_table[i]->default_where & where)) i++;
    SK_ASSERT(i < sk_exec_table_n); /* some policy of exec/by/ is the default */
    return sk_exec_table[i];
}

const char *sk_policy_name(unsigned i) {
    return i < sk_exec_table_n ? sk_exec_table[i]->name : NULL;
}
