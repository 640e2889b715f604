/* join.c - sales by country: orders joined with customers, by skate_data.h.
 *
 *     join [ORDERS [CUSTOMERS]]      prints each country and the sum of its orders
 *
 * Both sides are made here; a program would read them, as in pipeline.c. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "skate_data.h"

struct rows {
    int64_t from, to;
};

static int two_columns(struct skate_task *t, const char *a, const char *b,
                       void (*fill)(int64_t id, int64_t *a, int64_t *b)) {
    struct skate_column c[] = {{.name = a}, {.name = b}};
    struct ArrowSchema schema;
    struct ArrowArray batch;
    struct rows r;
    memcpy(&r, skate_arg(t, NULL), sizeof r);
    int rc = skate_batch_new(c, 2, (size_t)(r.to - r.from), &schema, &batch);
    if (rc) return rc;
    for (int64_t i = r.from; i < r.to; i++)
        fill(i, (int64_t *)c[0].data + i - r.from, (int64_t *)c[1].data + i - r.from);
    rc = skate_emit(t, &schema, &batch);
    return schema.release(&schema), rc;
}
static void order(int64_t i, int64_t *customer, int64_t *cents) {
    *customer = i * i % 1009;
    *cents = 100 + i % 13;
}
static void customer(int64_t i, int64_t *id, int64_t *country) {
    *id = i;
    *country = i % 7;
}
SKATE_TASK(orders) { return two_columns(t, "customer", "cents", order); }
SKATE_TASK(customers) { return two_columns(t, "id", "country", customer); }

static skate_dataset *source(const char *name, int64_t rows) {
    struct rows r[8];
    struct skate_unit u[8];
    for (int i = 0; i < 8; i++) {
        r[i] = (struct rows){rows * i / 8, rows * (i + 1) / 8};
        u[i] = (struct skate_unit){&r[i], sizeof *r, r[i].to - r[i].from, -1};
    }
    return skate_source(name, u, 8, NULL);
}

static int failed(void) { return fprintf(stderr, "join: %s\n", skate_error()), 1; }

int main(int argc, char **argv) {
    if (skate_worker_main(argc, argv)) return 0;
    if (skate_init(NULL)) return failed();
    struct skate_join on = SKATE_OPTS(struct skate_join);
    on.left_keys = (const char *[]){"customer"}, on.right_keys = (const char *[]){"id"};
    on.n_keys = 1;
    skate_dataset *ds = skate_join(source("orders", argc > 1 ? atoll(argv[1]) : 100000),
                                   source("customers", argc > 2 ? atoll(argv[2]) : 500), &on, NULL);
    struct skate_agg sum = {.kind = "sum", .column = "cents", .as = "cents"};
    ds = skate_groupby(ds, (const char *[]){"country"}, 1, &sum, 1, NULL);
    struct ArrowArrayStream out;
    struct ArrowSchema schema;
    struct ArrowArray b;
    if (skate_stream(ds, NULL, &out) || out.get_schema(&out, &schema)) return failed();
    struct skate_column c[] = {{.name = "country"}, {.name = "cents"}};
    for (int rc; (rc = out.get_next(&out, &b)) || b.release; b.release(&b)) {
        if (rc || skate_columns(NULL, &schema, &b, c, 2)) return failed();
        for (int64_t i = 0; i < b.length; i++)
            printf("%" PRId64 " %" PRId64 "\n", ((int64_t *)c[0].data)[i],
                   ((int64_t *)c[1].data)[i]);
    }
    schema.release(&schema), out.release(&out), skate_dataset_release(ds), skate_shutdown();
    return 0;
}
