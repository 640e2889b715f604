/* test_api_data.c - pipelines by skate_data.h, as a program would use them. */
#include "skate_data.h"
#include "test.h"

/* ---- functions of batches -------------------------------------------------------------------- */

SKATE_BATCHES(twice) { /* id -> id, x = 2 * id, k = id % 10 */
    struct skate_column in = {.name = "id"},
                        out[] = {{.name = "id"}, {.name = "k"}, {.name = "x", .format = "g"}};
    struct ArrowSchema s;
    struct ArrowArray a;
    size_t n = (size_t)batch->length;
    int rc = skate_columns(t, schema, batch, &in, 1);
    if (rc || (rc = skate_batch_new(out, 3, n, &s, &a))) return rc;
    const int64_t *id = in.data;
    for (size_t i = 0; i < n; i++) {
        ((int64_t *)out[0].data)[i] = id[i];
        ((int64_t *)out[1].data)[i] = id[i] % 10;
        ((double *)out[2].data)[i] = 2.0 * (double)id[i];
    }
    rc = skate_emit(t, &s, &a);
    s.release(&s);
    return rc;
}
SKATE_BATCHES(same) { return skate_emit(t, schema, batch); }
SKATE_BATCHES(odd) {
    struct skate_column in = {.name = "id"};
    int rc = skate_columns(t, schema, batch, &in, 1);
    for (int64_t i = 0; !rc && i < batch->length; i++)
        skate_keep(t)[i] = ((const int64_t *)in.data)[i] % 2 != 0;
    return rc;
}
SKATE_BATCHES(fails_at_77) {
    struct skate_column in = {.name = "id"};
    int rc = skate_columns(t, schema, batch, &in, 1);
    for (int64_t i = 0; !rc && i < batch->length; i++)
        if (((const int64_t *)in.data)[i] == 77) return skate_fail(t, "seventy-%s", "seven");
    return rc ? rc : skate_emit(t, schema, batch);
}

/* ---- help ------------------------------------------------------------------------------------ */

static void open_engine(void) {
    CHECK_EQ(skate_init(&(struct skate_opts){.cpus = 2, .store_bytes = 256 << 20}), 0);
}

/* Reads one int64 column of a whole run. */
static int64_t *numbers(skate_dataset *ds, const char *column, size_t *n) {
    struct ArrowArrayStream s;
    struct ArrowSchema schema;
    struct ArrowArray a;
    int64_t *all = NULL;
    *n = 0;
    CHECK(ds != NULL);
    CHECK_EQ(skate_stream(ds, NULL, &s), 0);
    CHECK_EQ(s.get_schema(&s, &schema), 0);
    for (;;) {
        CHECK_EQ(s.get_next(&s, &a), 0);
        if (!a.release) break;
        struct skate_column c = {.name = column};
        CHECK_EQ(skate_columns(NULL, &schema, &a, &c, 1), 0);
        all = realloc(all, (*n + (size_t)a.length + 1) * sizeof *all);
        memcpy(all + *n, c.data, (size_t)a.length * sizeof *all);
        *n += (size_t)a.length;
        a.release(&a);
    }
    schema.release(&schema);
    s.release(&s);
    return all;
}

TEST(range_is_streamed_in_order) {
    open_engine();
    size_t n;
    skate_dataset *ds = skate_range(1000000, NULL, NULL);
    int64_t *v = numbers(ds, "id", &n);
    CHECK_EQ(n, 1000000);
    for (size_t i = 0; i < n; i++) CHECK_EQ(v[i], (int64_t)i);
    free(v);
    skate_dataset_release(ds);
    skate_shutdown();
}

TEST(a_map_a_filter_and_a_limit) {
    open_engine();
    size_t n;
    skate_dataset *ds = skate_limit(
        skate_filter(skate_map(skate_range(100000, NULL, NULL), "twice", NULL), "odd", NULL), 1000);
    int64_t *v = numbers(ds, "id", &n);
    CHECK_EQ(n, 1000);
    for (size_t i = 0; i < n; i++) CHECK_EQ(v[i], (int64_t)(2 * i + 1));
    free(v);
    skate_dataset_release(ds);
    skate_shutdown();
}

TEST(a_sort_downwards) {
    open_engine();
    size_t n;
    skate_dataset *ds = skate_sort(skate_map(skate_range(300000, NULL, NULL), "same", NULL),
                                   (struct skate_key[]){{"id", true, false}}, 1, NULL);
    int64_t *v = numbers(ds, "id", &n);
    CHECK_EQ(n, 300000);
    for (size_t i = 0; i < n; i++) CHECK_EQ(v[i], (int64_t)(n - 1 - i));
    free(v);
    skate_dataset_release(ds);
    skate_shutdown();
}

TEST(groups_and_their_sums) {
    open_engine();
    size_t n;
    const char *keys[] = {"k"};
    skate_dataset *ds =
        skate_groupby(skate_map(skate_range(100000, NULL, NULL), "twice", NULL), keys, 1,
                      (struct skate_agg[]){{.kind = "sum", .column = "id", .as = "s"},
                                           {.kind = "count", .as = "n"}},
                      2, NULL);
    int64_t *v = numbers(skate_dataset_retain(ds), "s", &n);
    CHECK_EQ(n, 10);
    for (size_t i = 0; i < n; i++) CHECK_EQ(v[i], (int64_t)(499950000 + 10000 * i));
    free(v);
    v = numbers(ds, "n", &n);
    for (size_t i = 0; i < n; i++) CHECK_EQ(v[i], 10000);
    free(v);
    skate_dataset_release(ds);
    skate_dataset_release(ds);
    skate_shutdown();
}

TEST(a_random_order_is_a_permutation) {
    open_engine();
    size_t n;
    skate_dataset *ds = skate_random_shuffle(skate_range(200000, NULL, NULL), 7, NULL);
    int64_t *v = numbers(ds, "id", &n);
    CHECK_EQ(n, 200000);
    uint8_t *seen = calloc(n, 1);
    size_t moved = 0;
    for (size_t i = 0; i < n; i++) {
        CHECK(v[i] >= 0 && v[i] < (int64_t)n && !seen[v[i]]);
        seen[v[i]] = 1;
        moved += v[i] != (int64_t)i;
    }
    CHECK(moved > n / 2);
    free(seen);
    free(v);
    skate_dataset_release(ds);
    skate_shutdown();
}

TEST(a_failure_of_a_function_names_it) {
    open_engine();
    skate_dataset *ds = skate_map(skate_range(1000, NULL, NULL), "fails_at_77", NULL);
    int64_t rows;
    CHECK_EQ(skate_count(ds, NULL, &rows), SKATE_ETASK);
    CHECK_STR_EQ(skate_error(), "Map(fails_at_77): fails_at_77: seventy-seven");
    skate_dataset_release(ds);
    struct skate_map_opts o = SKATE_OPTS(struct skate_map_opts);
    o.on_error = SKATE_SKIP;
    ds = skate_map(skate_range(1000, NULL, NULL), "fails_at_77", &o);
    CHECK_EQ(skate_count(ds, NULL, &rows), 0);
    CHECK_EQ(rows, 999);
    skate_dataset_release(ds);
    skate_shutdown();
}

TEST(a_chain_keeps_its_first_failure) {
    open_engine();
    skate_dataset *ds = skate_sort(skate_map(skate_range(10, NULL, NULL), "no_such", NULL),
                                   (struct skate_key[]){{"id", false, false}}, 1, NULL);
    CHECK(!ds);
    CHECK_STR_EQ(skate_error(), "no function of batches 'no_such' is registered in this process");
    skate_shutdown();
}
