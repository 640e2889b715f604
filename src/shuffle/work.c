/* work.c - the calls that are the same for all pieces of work: starting a map or reduce by its
 * kind, getting the next value, ending the work. Pure. */
#include "shuffle/work_int.h"

sk_rc sk_work_next(struct sk_work *w, struct sk_value **out, struct sk_err *err) {
    *out = NULL;
    return w->next(w, out, err);
}

void sk_work_destroy(struct sk_work *w) {
    if (w) w->destroy(w);
}

sk_rc sk_work_map(const struct sk_what *what, const struct sk_map_input *in, struct sk_work **out,
                  struct sk_err *err) {
    const struct sk_what_class *class = sk_what_class_of(what->kind);
    bool runs = class->runs && what->n_keys && !in->bounds;
    if (!runs && !in->bounds && !class->partition)
        return SK_ERR(err, SK_EINVAL, "an exchange by %s has no maps of this kind", class->name);
    return runs ? sk_run_create(what, in, out, err) : sk_parts_create(what, in, out, err);
}

sk_rc sk_work_reduce(const struct sk_what *what, const struct sk_reduce_input *in,
                     struct sk_work **out, struct sk_err *err) {
    const struct sk_what_class *class = sk_what_class_of(what->kind);
    if (class->reduce) return class->reduce(what, in, out, err);
    return what->kind == SK_WHAT_SORT || what->sorted ? sk_merging_create(what, in, out, err)
                                                      : sk_putting_create(what, in, out, err);
}
