/* record.c - the public C API: records of fixed width (kernel/record.h). Needs no engine. */
#include "api/api_int.h"
#include "kernel/record.h"

static struct sk_records of(struct skate_records f) { return (struct sk_records){f.width, f.key}; }

int skate_records_sort(struct skate_records f, const void *in, size_t n, void *out, void *scratch) {
    return sk_records_sort(of(f), in, n, out, scratch, sk_api_err());
}
int skate_records_partition(struct skate_records f, const void *in, size_t n, const void *bounds,
                            size_t n_bounds, void *out, size_t *start) {
    return sk_records_partition(of(f), in, n, bounds, n_bounds, out, start, sk_api_err());
}
void skate_records_cut(struct skate_records f, const void *sorted, size_t n, const void *bounds,
                       size_t n_bounds, size_t *start) {
    sk_records_cut(of(f), sorted, n, bounds, n_bounds, start);
}
int skate_records_quantiles(struct skate_records f, const void *in, size_t n, void *bounds,
                            size_t n_bounds) {
    return sk_records_quantiles(of(f), in, n, bounds, n_bounds, sk_api_err());
}

/* struct skate_records_merge is not defined anywhere: a pointer to it is a pointer to the kernel's
 * struct. */
int skate_records_merge_create(struct skate_records f, const void *const *run, const size_t *n,
                               size_t k, struct skate_records_merge **out) {
    struct sk_records_merge *m;
    SK_TRY(sk_records_merge_create(of(f), run, n, k, &m, sk_api_err()));
    *out = (struct skate_records_merge *)(void *)m;
    return SK_OK;
}
size_t skate_records_merge_next(struct skate_records_merge *m, void *out, size_t cap) {
    return sk_records_merge_next((struct sk_records_merge *)(void *)m, out, cap);
}
void skate_records_merge_destroy(struct skate_records_merge *m) {
    sk_records_merge_destroy((struct sk_records_merge *)(void *)m);
}
