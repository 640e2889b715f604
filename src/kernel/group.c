/* group.c - groups of equal keys in sorted rows. */
#include "kernel/kernel_int.h"

uint64_t sk_group_starts(const struct sk_keys *k, uint32_t *start) {
    uint64_t n = 0;
    for (uint64_t i = 0; i < k->rows; i++)
        if (!i || sk_keys_compare(k, i - 1, k, i)) start[n++] = (uint32_t)i;
    return n;
}
