/* actors.c - a model that is loaded once in each process of a pool of actors, by skate_data.h.
 *
 *     actors [ROWS [ACTORS]]         prints the sum of what the model says of each row
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "skate_data.h"

struct model {
    double weight[256];
};

static int load(struct skate_task *t, void **state) { /* once in each process */
    double seed;
    struct model *m = malloc(sizeof *m);
    if (!m) return skate_fail(t, "no memory for the model");
    memcpy(&seed, skate_arg(t, NULL), sizeof seed); /* of skate_map_opts.arg */
    for (int i = 0; i < 256; i++) m->weight[i] = seed * i;
    *state = m;
    return SKATE_OK;
}

static int predict(struct skate_task *t, const struct ArrowSchema *schema,
                   struct ArrowArray *batch) {
    const struct model *m = skate_state(t);
    struct skate_column in = {.name = "id"}, out = {.name = "score", .format = "g"};
    struct ArrowSchema s;
    struct ArrowArray b;
    size_t rows = (size_t)batch->length;
    int rc = skate_columns(t, schema, batch, &in, 1);
    if (rc || (rc = skate_batch_new(&out, 1, rows, &s, &b))) return rc;
    for (size_t i = 0; i < rows; i++)
        ((double *)out.data)[i] = m->weight[((const int64_t *)in.data)[i] % 256];
    rc = skate_emit(t, &s, &b);
    return s.release(&s), rc;
}

static const struct skate_batch_fns fns = {
    .size = sizeof fns, .init = load, .batch = predict, .fini = free};

static int failed(void) { return fprintf(stderr, "actors: %s\n", skate_error()), 1; }

int main(int argc, char **argv) {
    double seed = 0.5;
    if (skate_register_batches("predict", &fns)) return failed(); /* in workers, too */
    if (skate_worker_main(argc, argv)) return 0;
    if (skate_init(NULL)) return failed();
    struct skate_map_opts o = SKATE_OPTS(struct skate_map_opts);
    o.arg = &seed, o.arg_size = sizeof seed;
    o.actors = argc > 2 ? (uint32_t)atoi(argv[2]) : 1;
    o.batch_rows = 1024;
    skate_dataset *ds = skate_range(argc > 1 ? atoll(argv[1]) : 1000000, NULL, NULL);
    ds = skate_map(ds, "predict", &o);
    struct skate_agg sum = {.kind = "sum", .column = "score", .as = "score"};
    ds = skate_groupby(ds, NULL, 0, &sum, 1, NULL);
    struct ArrowArrayStream out;
    struct ArrowSchema schema;
    struct ArrowArray b;
    struct skate_column c = {.name = "score", .format = "g"};
    if (skate_stream(ds, NULL, &out) || out.get_schema(&out, &schema) || out.get_next(&out, &b) ||
        !b.release || skate_columns(NULL, &schema, &b, &c, 1))
        return failed();
    printf("%.1f\n", *(const double *)c.data);
    b.release(&b), schema.release(&schema), out.release(&out);
    skate_dataset_release(ds), skate_shutdown();
    return 0;
}
