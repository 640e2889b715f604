/* test_block_rows.c - rows by an index, of every type: each row of the result, written as a block
 * by itself, has the same bytes as the block of its source row. */
#include "block_read.h"
#include "block_zoo.h"
#include "test.h"

static struct block rows_block(const struct ArrowSchema *s, const struct ArrowArray *a,
                               const uint32_t *index, uint64_t n) {
    struct sk_err err = {.code = 0};
    struct sk_block_plan *plan = NULL;
    struct block b = {NULL, 0};
    uint64_t size = 0;
    CHECK_OK_ERR(sk_block_measure_rows(s, a, index, n, &plan, &size, &err), &err);
    CHECK_EQ(sk_block_plan_sizes(plan).n_rows, n);
    b.n = (size_t)size;
    b.p = sk_alloc_aligned(SK_TAG_TEST, SK_BLOCK_ALIGN, b.n);
    memset(b.p, 0xEE, b.n);
    sk_block_write(plan, b.p);
    sk_block_plan_free(plan);
    CHECK_OK_ERR(sk_block_validate(b.p, b.n, &err), &err);
    return b;
}

/* Makes a block of row i of a block, by slicing. */
static struct block row_block(const struct block *from, uint64_t i) {
    struct sk_err err = {.code = 0};
    struct made one;
    CHECK_OK_ERR(sk_block_export(from->p, from->n, i, 1, (struct sk_block_owner){NULL, NULL},
                                 &one.schema, &one.array, &err),
                 &err);
    struct block b = make_block(&one);
    one.schema.release(&one.schema);
    one.array.release(&one.array);
    return b;
}

static void check_rows(const struct made *batch, const uint32_t *index, uint64_t n) {
    struct block whole = make_block(batch),
                 taken = rows_block(&batch->schema, &batch->array, index, n);
    struct sk_block_info info;
    CHECK_OK(sk_block_info(taken.p, taken.n, &info, NULL));
    CHECK_EQ(info.n_rows, n);
    for (uint64_t i = 0; i < n; i++) {
        struct block a = row_block(&taken, i), b = row_block(&whole, index[i]);
        CHECK_EQ(a.n, b.n);
        CHECK_MEM_EQ(a.p, b.p, a.n);
        free_block(&a);
        free_block(&b);
    }
    free_block(&whole);
    free_block(&taken);
}

TEST(rows_of_a_zoo) {
    for (int round = 0; round < test_rounds(100); round++) {
        struct zoo z;
        uint32_t index[60];
        uint64_t n = test_below(3) ? test_below(60) : test_below(3);
        test_below(2) ? make_zoo2(&z) : make_zoo(&z);
        for (uint64_t i = 0; i < n; i++)
            index[i] = i && test_below(2) ? (index[i - 1] + 1) % 5 : (uint32_t)test_below(5);
        check_rows(&z.batch, index, n);
    }
}

/* Each width, since the code has a loop for each: runs of neighbours and single rows, with nulls
 * and an offset. */
TEST(rows_of_each_width) {
    static const char *const formats[] = {"c",   "s",     "i",   "l", "d:38,2",
                                          "w:3", "w:100", "w:0", "b", "n"};
    static uint8_t bytes[100 * 300], valid[300];
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (uint8_t)test_rand();
    for (size_t i = 0; i < sizeof valid; i++) valid[i] = (uint8_t)test_rand();
    for (int round = 0; round < test_rounds(20); round++)
        for (size_t f = 0; f < SK_COUNT(formats); f++) {
            struct made batch, col;
            uint32_t index[200];
            int64_t rows = 1 + (int64_t)test_below(250);
            uint64_t n = test_below(200), jump = 1 + test_below(9);
            if (formats[f][0] == 'n') make_leaf(&col, "n", "x", rows, 3, 0, NULL);
            else MAKE_LEAF(&col, formats[f], "x", rows, 3, test_below(2) ? valid : NULL, bytes);
            for (uint64_t i = 0; i < n; i++)
                index[i] = (uint32_t)(i && test_below(jump) ? (index[i - 1] + 1) % (uint64_t)rows
                                                            : test_below((uint64_t)rows));
            make_batch(&batch, rows);
            make_child(&batch, &col);
            check_rows(&batch, index, n);
        }
}

TEST(rows_all_in_order_are_the_batch) {
    static const uint32_t all[5] = {0, 1, 2, 3, 4};
    struct zoo z;
    make_zoo(&z);
    struct block a = make_block(&z.batch), b = rows_block(&z.batch.schema, &z.batch.array, all, 5);
    CHECK_EQ(a.n, b.n);
    CHECK_MEM_EQ(a.p, b.p, a.n);
    free_block(&a);
    free_block(&b);
}

TEST(rows_refused) {
    static const uint32_t index[2] = {1, 5};
    struct zoo z;
    struct sk_block_plan *plan = NULL;
    struct sk_err err;
    uint64_t size = 0;
    make_zoo(&z);
    CHECK_RC(sk_block_measure_rows(&z.batch.schema, &z.batch.array, index, 2, &plan, &size, &err),
             SK_EINVAL);
    CHECK_STR_HAS(err.msg, "row 5 of 5");
    CHECK(plan == NULL);
    struct block none = rows_block(&z.batch.schema, &z.batch.array, NULL, 0);
    free_block(&none);
}

TEST(rows_without_memory) {
    for (int part = 0; part < 2; part++) {
        static uint32_t index[40];
        struct zoo z;
        part ? make_zoo2(&z) : make_zoo(&z);
        for (uint32_t i = 0; i < 40; i++) index[i] = 4 - i % 5;
        int64_t before = sk_mem_blocks(SK_TAG_BLOCK);
        for (int64_t n = 1;; n++) {
            struct sk_block_plan *plan = NULL;
            struct sk_err err;
            uint64_t size;
            sk_mem_fail_at(n);
            sk_rc rc = sk_block_measure_rows(&z.batch.schema, &z.batch.array, index, 40, &plan,
                                             &size, &err);
            bool hit = sk_mem_failed();
            sk_mem_fail_at(0);
            CHECK_EQ(rc, hit ? SK_ENOMEM : SK_OK);
            sk_block_plan_free(plan);
            CHECK_EQ(sk_mem_blocks(SK_TAG_BLOCK), before);
            if (!hit) break;
        }
    }
}
