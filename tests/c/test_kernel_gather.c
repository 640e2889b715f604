/* test_kernel_gather.c - gathers rows of batches that each have their own dictionary, and columns
 * of two sides; results are compared by values, not by bytes. */
#include "kernel_make.h"
#include "test.h"

enum { RUNS = 5, MOST = 80 };

struct side {
    struct column c[RUNS];
    struct batch b[RUNS];
    const struct ArrowArray *arrays[RUNS];
    struct sk_row_at places[MOST];
};

static void side_make(struct side *s, const char *format, struct column_how how, uint64_t n,
                      unsigned nulls) {
    int64_t rows[RUNS];
    for (int r = 0; r < RUNS; r++) {
        rows[r] = 1 + (int64_t)test_below(30);
        column_make(&s->c[r], format, rows[r], how);
        while (how.dictionary && strcmp(s->c[r].schema.format, "i") != 0) { /* one type of codes */
            column_free(&s->c[r]);
            column_make(&s->c[r], format, rows[r], how);
        }
        batch_make(&s->b[r], &s->c[r], 1, rows[r], 0);
        s->arrays[r] = &s->b[r].array;
    }
    for (uint64_t i = 0; i < n; i++) {
        uint32_t r = (uint32_t)test_below(RUNS);
        s->places[i] = test_below(100) < nulls
                           ? (struct sk_row_at){SK_ROW_NONE, 0}
                           : (struct sk_row_at){r, (uint32_t)test_below((uint64_t)rows[r])};
    }
}

static void side_free(struct side *s) {
    for (int r = 0; r < RUNS; r++) column_free(&s->c[r]);
}

struct result {
    uint8_t *block;
    struct ArrowSchema schema;
    struct ArrowArray array;
};

static void gather(const struct ArrowSchema *schema, const struct sk_block_side *sides,
                   uint32_t n_sides, const struct sk_block_pick *picks, uint64_t n,
                   struct result *out) {
    struct sk_err err = {.code = 0};
    struct sk_block_plan *plan;
    uint64_t size;
    CHECK_OK_ERR(sk_block_measure_places(schema, sides, n_sides, picks, n, &plan, &size, &err),
                 &err);
    out->block = sk_alloc_aligned(SK_TAG_TEST, SK_BLOCK_ALIGN, (size_t)size);
    sk_block_write(plan, out->block);
    sk_block_plan_free(plan);
    CHECK_OK_ERR(sk_block_validate(out->block, (size_t)size, &err), &err);
    CHECK_OK_ERR(sk_block_export(out->block, (size_t)size, 0, UINT64_MAX,
                                 (struct sk_block_owner){NULL, NULL}, &out->schema, &out->array,
                                 &err),
                 &err);
}

static void result_free(struct result *r) {
    r->schema.release(&r->schema);
    r->array.release(&r->array);
    sk_free(r->block);
}

/* Checks that a column of the result has the side's values by its places. */
static void check_column(const struct result *got, uint32_t column, const struct side *s,
                         uint64_t n) {
    struct sk_err err = {.code = 0};
    struct sk_keys *k, *from[RUNS];
    CHECK_OK_ERR(
        sk_keys_create(&got->schema, &got->array, &(struct sk_key){.column = column}, 1, &k, &err),
        &err);
    for (int r = 0; r < RUNS; r++)
        CHECK_OK_ERR(sk_keys_create(&s->b[r].schema, &s->b[r].array, &(struct sk_key){.column = 0},
                                    1, &from[r], &err),
                     &err);
    for (uint64_t i = 0; i < n; i++) {
        struct sk_row_at p = s->places[i];
        if (p.run != SK_ROW_NONE) CHECK_EQ(sk_keys_compare(k, i, from[p.run], p.row), 0);
        else CHECK_EQ(sk_keys_prefix(k, i) >> 62, 2); /* the class of nulls */
    }
    for (int r = 0; r < RUNS; r++) sk_keys_destroy(from[r]);
    sk_keys_destroy(k);
}

static void check_distinct(const struct ArrowSchema *schema, const struct ArrowArray *array) {
    struct ArrowSchema *fields[1] = {schema->dictionary};
    struct ArrowArray *columns[1] = {array->dictionary};
    struct ArrowSchema s = {.format = "+s", .name = "", .n_children = 1, .children = fields};
    const void *none[1] = {NULL};
    struct ArrowArray a = {.length = array->dictionary->length,
                           .n_buffers = 1,
                           .buffers = none,
                           .n_children = 1,
                           .children = columns};
    struct sk_keys *k;
    struct sk_err err;
    CHECK_OK(sk_keys_create(&s, &a, &(struct sk_key){.column = 0}, 1, &k, &err));
    for (uint64_t i = 0; i < sk_keys_rows(k); i++)
        for (uint64_t j = 0; j < i; j++) CHECK(sk_keys_compare(k, i, k, j) != 0);
    sk_keys_destroy(k);
}

TEST(gather_of_each_type) {
    for (int round = 0; round < test_rounds(10); round++)
        for (size_t f = 0; f < n_key_formats; f++)
            for (int dictionary = 0; dictionary < 2; dictionary++) {
                struct side s;
                struct result got;
                uint64_t n = test_below(MOST);
                struct column_how how = {.seed = test_rand(),
                                         .distinct = test_below(2) * 9,
                                         .nulls = 10,
                                         .dictionary = dictionary};
                side_make(&s, key_formats[f], how, n, (unsigned)test_below(2) * 10);
                gather(&s.b[0].schema, &(struct sk_block_side){s.arrays, RUNS, s.places}, 1, NULL,
                       n, &got);
                check_column(&got, 0, &s, n);
                if (dictionary && !strchr("nefg", key_formats[f][0]))
                    check_distinct(got.schema.children[0], got.array.children[0]);
                result_free(&got);
                side_free(&s);
            }
}

TEST(gather_from_two_sides) {
    for (int round = 0; round < test_rounds(50); round++) {
        struct side left, right;
        struct result got;
        uint64_t n = test_below(MOST);
        side_make(&left, key_formats[test_below(n_key_formats)], (struct column_how){.nulls = 10},
                  n, 20);
        side_make(&right, key_formats[test_below(n_key_formats)],
                  (struct column_how){.nulls = 10, .dictionary = true}, n, 20);
        struct ArrowSchema *fields[3] = {&right.c[0].schema, &left.c[0].schema, &right.c[0].schema};
        struct ArrowSchema schema = {
            .format = "+s", .name = "", .n_children = 3, .children = fields};
        struct sk_block_side sides[2] = {{left.arrays, RUNS, left.places},
                                         {right.arrays, RUNS, right.places}};
        gather(&schema, sides, 2, (struct sk_block_pick[]){{1, 0}, {0, 0}, {1, 0}}, n, &got);
        check_column(&got, 0, &right, n);
        check_column(&got, 1, &left, n);
        check_column(&got, 2, &right, n);
        result_free(&got);
        side_free(&left);
        side_free(&right);
    }
}

/* 300 values do not fit codes of 8 bits. */
TEST(gather_of_too_many_codes) {
    enum { BATCHES = 3, VALUES = 100 };
    static int64_t values[BATCHES][VALUES];
    static const uint8_t codes[1] = {7};
    struct ArrowSchema value = {.format = "l", .name = ""},
                       field = {.format = "c", .name = "x", .dictionary = &value},
                       *fields[1] = {&field};
    struct ArrowSchema schema = {.format = "+s", .name = "", .n_children = 1, .children = fields};
    struct ArrowArray dict[BATCHES], column[BATCHES], *columns[BATCHES], batch[BATCHES];
    const struct ArrowArray *arrays[BATCHES];
    const void *buffers[BATCHES][2], *code_buffers[2] = {NULL, codes}, *none[1] = {NULL};
    for (int b = 0; b < BATCHES; b++) {
        for (int i = 0; i < VALUES; i++) values[b][i] = VALUES * b + i;
        buffers[b][0] = NULL;
        buffers[b][1] = values[b];
        dict[b] = (struct ArrowArray){.length = VALUES, .n_buffers = 2, .buffers = buffers[b]};
        column[b] = (struct ArrowArray){
            .length = 1, .n_buffers = 2, .buffers = code_buffers, .dictionary = &dict[b]};
        columns[b] = &column[b];
        batch[b] = (struct ArrowArray){
            .length = 1, .n_buffers = 1, .buffers = none, .n_children = 1, .children = &columns[b]};
        arrays[b] = &batch[b];
    }
    struct sk_row_at places[BATCHES] = {{2, 0}, {1, 0}, {0, 0}};
    struct sk_block_plan *plan = NULL;
    struct sk_err err;
    uint64_t size;
    CHECK_RC(sk_block_measure_places(&schema, &(struct sk_block_side){arrays, BATCHES, places}, 1,
                                     NULL, BATCHES, &plan, &size, &err),
             SK_EINVAL);
    CHECK_STR_HAS(err.msg, "300 values");
    struct result got;
    gather(&schema, &(struct sk_block_side){arrays, 1, &places[2]}, 1, NULL, 1, &got);
    result_free(&got);
}
