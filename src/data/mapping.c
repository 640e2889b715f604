/* mapping.c - the map of an exchange; see mapping.h. */
#include "data/mapping.h"

sk_rc sk_data_map(struct sk_data_node *n, const struct sk_what *what, struct sk_batch *b,
                  uint64_t *row0, struct sk_err *err) {
    const struct sk_data_task *t = sk_data_task_of(n);
    struct sk_work *work = NULL;
    struct sk_value *v;
    struct sk_map_input in = {.schema = &b->schema->s,
                              .array = &b->array,
                              .seq = t->d.seq == SK_NO_SEQ ? 0 : t->d.seq,
                              .values = t->d.hint,
                              .row0 = *row0};
    sk_rc rc = sk_work_map(what, &in, &work, err);
    while (rc == SK_OK && (rc = sk_work_next(work, &v, err)) == SK_OK && v) {
        rc = sk_data_yield(n, v, err);
        sk_value_destroy(v);
    }
    sk_work_destroy(work);
    *row0 += (uint64_t)b->array.length;
    sk_batch_destroy(b);
    return rc;
}
