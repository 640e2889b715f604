/* equal_rows.c - a program that runs pipelines by skate_data.h and prints their rows, for
 * tests/py/data/test_equal_to_c.py, which runs the same pipelines in Python.
 *
 *     equal_rows OPERATOR...          for each: its name, then a line for each row */
#include <stdio.h>
#include <string.h>

#include "skate_data.h"

enum { ROWS = 40000 };

SKATE_BATCHES(equal_columns) { /* id, k = id * 7919 % 1000 */
    struct skate_column in = {.name = "id"}, out[] = {{.name = "id"}, {.name = "k"}};
    struct ArrowSchema s;
    struct ArrowArray a;
    int rc = skate_columns(t, schema, batch, &in, 1);
    if (rc || (rc = skate_batch_new(out, 2, (size_t)batch->length, &s, &a))) return rc;
    const int64_t *id = in.data;
    for (int64_t i = 0; i < batch->length; i++) {
        ((int64_t *)out[0].data)[i] = id[i];
        ((int64_t *)out[1].data)[i] = id[i] * 7919 % 1000;
    }
    rc = skate_emit(t, &s, &a);
    s.release(&s);
    return rc;
}

static skate_dataset *input(void) {
    return skate_map(skate_range(ROWS, NULL, NULL), "equal_columns", NULL);
}

static skate_dataset *plan(const char *op) {
    static const char *const k[] = {"k"}, *const id[] = {"id"}, *const kid[] = {"k", "id"},
                             *const r[] = {"r", "y"};
    static const struct skate_agg aggs[] = {{.kind = "sum", .column = "id", .as = "sum"},
                                            {.kind = "max", .column = "id", .as = "max"}};
    struct skate_join j = SKATE_OPTS(struct skate_join);
    struct skate_exchange_opts x = SKATE_OPTS(struct skate_exchange_opts);
    x.partitions = 16;
    j.left_keys = id;
    j.right_keys = r;
    j.n_keys = 1;
    if (!strcmp(op, "sort"))
        return skate_sort(input(), (struct skate_key[]){{"k", true, false}}, 1, NULL);
    if (!strcmp(op, "random_shuffle")) return skate_random_shuffle(input(), 17, NULL);
    if (!strcmp(op, "groupby")) return skate_groupby(input(), k, 1, aggs, 2, NULL);
    if (!strcmp(op, "distinct")) return skate_distinct(input(), k, 1, NULL);
    if (!strcmp(op, "join")) return skate_join(input(), skate_select(input(), kid, r, 2), &j, &x);
    return NULL;
}

static int print(const char *op) {
    struct ArrowArrayStream s;
    struct ArrowArray a;
    skate_dataset *ds = plan(op);
    int rc = skate_stream(ds, NULL, &s);
    skate_dataset_release(ds);
    if (rc) return rc;
    printf("%s\n", op);
    while (!(rc = s.get_next(&s, &a)) && a.release) {
        for (int64_t i = 0; i < a.length; i++)
            for (int64_t c = 0; c < a.n_children; c++) {
                const struct ArrowArray *x = a.children[c];
                printf("%lld%c", (long long)((const int64_t *)x->buffers[1])[x->offset + i],
                       c + 1 < a.n_children ? ' ' : '\n');
            }
        a.release(&a);
    }
    s.release(&s);
    return rc;
}

int main(int argc, char **argv) {
    if (skate_worker_main(argc, argv)) return 0;
    int rc = skate_init(SKATE_WITH(struct skate_opts, .cpus = 2, .store_bytes = 256 << 20));
    for (int i = 1; !rc && i < argc; i++) rc = print(argv[i]);
    if (rc) fprintf(stderr, "%s\n", skate_error());
    skate_shutdown();
    return rc != 0;
}
