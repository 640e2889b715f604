/* test_block_places.c - rows by places in several batches, of every type: each row of the result,
 * written as a block by itself, has the same bytes as the block of its source row; a row of nulls
 * is null in every column. */
#include "block_read.h"
#include "block_zoo.h"
#include "test.h"

enum { BATCHES = 4, MOST = 60, COLUMNS = 8 };

/* A naive twin of sk_block_plan_values: walks the arrays of the block. */
static struct sk_block_values values_naive(const struct ArrowSchema *s, const struct ArrowArray *a,
                                           const struct block *b) {
    while (!a->null_count && (!strcmp(s->format, "+l") || !strcmp(s->format, "+L") ||
                              !strncmp(s->format, "+w:", 3))) {
        s = s->children[0];
        a = a->children[0];
    }
    if (a->null_count || s->dictionary || !strchr("cCsSiIlLefg", s->format[0]) || !a->length)
        return (struct sk_block_values){0, 0};
    uint64_t width = strchr("cC", s->format[0])    ? 1
                     : strchr("sSe", s->format[0]) ? 2
                     : strchr("iIf", s->format[0]) ? 4
                                                   : 8;
    return (struct sk_block_values){(uint64_t)((const uint8_t *)a->buffers[1] - b->p),
                                    (uint64_t)a->length * width};
}

static void check_values(const struct sk_block_plan *plan, const struct block *b) {
    struct sk_err err = {.code = 0};
    struct sk_block_values values[COLUMNS];
    struct made all;
    CHECK_OK_ERR(sk_block_export(b->p, b->n, 0, UINT64_MAX, (struct sk_block_owner){NULL, NULL},
                                 &all.schema, &all.array, &err),
                 &err);
    CHECK(all.schema.n_children <= COLUMNS);
    sk_block_plan_values(plan, values);
    for (int64_t i = 0; i < all.schema.n_children; i++) {
        const struct ArrowSchema *s = all.schema.children[i];
        struct sk_block_values want = values_naive(s, all.array.children[i], b);
        /* these types have one width, too, but are not numbers of C */
        if (s->format[0] == 'w' || s->format[0] == 'd' || s->format[0] == 't') continue;
        CHECK_MSG(values[i].off == want.off && values[i].len == want.len,
                  "column %lld of '%s': %llu bytes at %llu, not %llu at %llu", (long long)i,
                  s->format, (unsigned long long)values[i].len, (unsigned long long)values[i].off,
                  (unsigned long long)want.len, (unsigned long long)want.off);
    }
    all.schema.release(&all.schema);
    all.array.release(&all.array);
}

static struct block places_block(const struct ArrowSchema *s, const struct sk_block_side *sides,
                                 uint32_t n_sides, const struct sk_block_pick *picks, uint64_t n) {
    struct sk_err err = {.code = 0};
    struct sk_block_plan *plan = NULL;
    struct block b = {NULL, 0};
    uint64_t size = 0;
    CHECK_OK_ERR(sk_block_measure_places(s, sides, n_sides, picks, n, &plan, &size, &err), &err);
    CHECK_EQ(sk_block_plan_sizes(plan).n_rows, n);
    b.n = (size_t)size;
    b.p = sk_alloc_aligned(SK_TAG_TEST, SK_BLOCK_ALIGN, b.n);
    memset(b.p, 0xEE, b.n);
    sk_block_write(plan, b.p);
    check_values(plan, &b);
    sk_block_plan_free(plan);
    CHECK_OK_ERR(sk_block_validate(b.p, b.n, &err), &err);
    return b;
}

static void export_row(const struct block *from, uint64_t i, struct made *one) {
    struct sk_err err = {.code = 0};
    CHECK_OK_ERR(sk_block_export(from->p, from->n, i, 1, (struct sk_block_owner){NULL, NULL},
                                 &one->schema, &one->array, &err),
                 &err);
}

static struct block row_block(const struct block *from, uint64_t i) {
    struct made one;
    export_row(from, i, &one);
    struct block b = make_block(&one);
    one.schema.release(&one.schema);
    one.array.release(&one.array);
    return b;
}

/* True if row 0 is null: a union has its null in the first child, run-end encoding in its
 * values. */
static bool is_null(const struct ArrowSchema *s, const struct ArrowArray *a) {
    if (!strcmp(s->format, "+r")) return is_null(s->children[1], a->children[1]);
    if (!strncmp(s->format, "+u", 2)) return is_null(s->children[0], a->children[0]);
    if (a->length != 1 || s->format[0] == 'n') return a->length == 1;
    const uint8_t *valid = a->buffers[0];
    return valid && !(valid[a->offset / 8] >> (a->offset & 7) & 1);
}

static void check_null_row(const struct block *b, uint64_t i) {
    struct block row = row_block(b, i);
    struct made one;
    export_row(&row, 0, &one);
    for (int64_t c = 0; c < one.schema.n_children; c++)
        CHECK_MSG(is_null(one.schema.children[c], one.array.children[c]),
                  "row %llu: column %lld of '%s' is not null", (unsigned long long)i, (long long)c,
                  one.schema.children[c]->format);
    one.schema.release(&one.schema);
    one.array.release(&one.array);
    free_block(&row);
}

/* Makes batches that are slices of one zoo, so they have the same dictionaries. */
static void cut_batches(const struct zoo *z, struct ArrowArray *batch,
                        const struct ArrowArray **arrays) {
    for (int b = 0; b < BATCHES; b++) {
        batch[b] = z->batch.array;
        batch[b].offset = (int64_t)test_below(9);
        batch[b].length = 1 + (int64_t)test_below((uint64_t)(9 - batch[b].offset));
        arrays[b] = &batch[b];
    }
}

static uint64_t draw_places(const struct ArrowArray *batch, unsigned nulls, struct sk_row_at *out) {
    uint64_t n = test_below(4) ? test_below(MOST) : test_below(3);
    uint32_t run = 0, row = 0;
    for (uint64_t i = 0; i < n; i++) {
        if (test_below(2)) run = (uint32_t)test_below(BATCHES);
        row = (uint32_t)((test_below(2) ? row + 1 : test_below(9)) % (uint64_t)batch[run].length);
        out[i] = test_below(100) < nulls ? (struct sk_row_at){SK_ROW_NONE, (uint32_t)test_rand()}
                                         : (struct sk_row_at){run, row};
    }
    return n;
}

static void check_places(const struct zoo *z, const struct ArrowArray *batch,
                         const struct block *got, const struct sk_row_at *places, uint64_t n) {
    struct block whole[BATCHES];
    for (int b = 0; b < BATCHES; b++) {
        struct made m = z->batch;
        m.array = batch[b];
        whole[b] = make_block(&m);
    }
    for (uint64_t i = 0; i < n; i++) {
        if (places[i].run == SK_ROW_NONE) {
            check_null_row(got, i);
            continue;
        }
        struct block a = row_block(got, i), b = row_block(&whole[places[i].run], places[i].row);
        CHECK_EQ(a.n, b.n);
        CHECK_MEM_EQ(a.p, b.p, a.n);
        free_block(&a);
        free_block(&b);
    }
    for (int b = 0; b < BATCHES; b++) free_block(&whole[b]);
}

TEST(places_of_a_zoo) {
    for (int round = 0; round < test_rounds(200); round++) {
        struct zoo z;
        struct ArrowArray batch[BATCHES];
        const struct ArrowArray *arrays[BATCHES];
        struct sk_row_at places[MOST];
        test_below(2) ? make_zoo2(&z) : make_zoo(&z);
        cut_batches(&z, batch, arrays);
        uint64_t n = draw_places(batch, test_below(2) ? 20 : 0, places);
        struct sk_block_side side = {arrays, BATCHES, places};
        struct block got = places_block(&z.batch.schema, &side, 1, NULL, n);
        check_places(&z, batch, &got, places, n);
        free_block(&got);
    }
}

/* All rows of one batch in order give the block of that batch, whatever other batches are given. */
TEST(places_in_order_are_the_batch) {
    for (int part = 0; part < 2; part++) {
        struct zoo z;
        static const struct sk_row_at places[5] = {{1, 0}, {1, 1}, {1, 2}, {1, 3}, {1, 4}};
        part ? make_zoo2(&z) : make_zoo(&z);
        struct ArrowArray other = z.batch.array;
        other.offset = 0;
        const struct ArrowArray *arrays[2] = {&other, &z.batch.array};
        /* run ends: a row is a run; unions stay */
        if (part) z.batch.schema.n_children = z.batch.array.n_children = other.n_children = 1;
        struct block a = make_block(&z.batch),
                     b = places_block(&z.batch.schema, &(struct sk_block_side){arrays, 2, places},
                                      1, NULL, 5);
        CHECK_EQ(a.n, b.n);
        CHECK_MEM_EQ(a.p, b.p, a.n);
        free_block(&a);
        free_block(&b);
    }
}

/* Each width, since the code has a loop for each. */
TEST(places_of_each_width) {
    static const char *const formats[] = {"c",   "s",     "i",   "l", "d:38,2",
                                          "w:3", "w:100", "w:0", "b", "n"};
    static uint8_t bytes[100 * 300], valid[300];
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (uint8_t)test_rand();
    for (size_t i = 0; i < sizeof valid; i++) valid[i] = (uint8_t)test_rand();
    for (int round = 0; round < test_rounds(20); round++)
        for (size_t f = 0; f < SK_COUNT(formats); f++) {
            struct zoo z;
            struct made col;
            struct ArrowArray batch[BATCHES];
            const struct ArrowArray *arrays[BATCHES];
            struct sk_row_at places[MOST];
            if (formats[f][0] == 'n') make_leaf(&col, "n", "x", 250, 3, 0, NULL);
            else MAKE_LEAF(&col, formats[f], "x", 250, 3, test_below(2) ? valid : NULL, bytes);
            make_batch(&z.batch, 250);
            make_child(&z.batch, &col);
            cut_batches(&z, batch, arrays);
            uint64_t n = draw_places(batch, test_below(2) ? 20 : 0, places);
            struct block got = places_block(
                &z.batch.schema, &(struct sk_block_side){arrays, BATCHES, places}, 1, NULL, n);
            check_places(&z, batch, &got, places, n);
            free_block(&got);
        }
}

/* A side without a batch, like the right side of a left join with no rows. */
TEST(places_of_no_batch) {
    for (int part = 0; part < 2; part++) {
        struct zoo z;
        struct sk_row_at none[3] = {{SK_ROW_NONE, 0}, {SK_ROW_NONE, 1}, {SK_ROW_NONE, 2}};
        part ? make_zoo2(&z) : make_zoo(&z);
        for (uint64_t n = 0; n <= 3; n += 3) {
            struct block b =
                places_block(&z.batch.schema, &(struct sk_block_side){NULL, 0, none}, 1, NULL, n);
            for (uint64_t i = 0; i < n; i++) check_null_row(&b, i);
            free_block(&b);
        }
    }
}

TEST(places_refused) {
    struct zoo z;
    struct sk_block_plan *plan = NULL;
    struct sk_err err;
    uint64_t size = 0;
    make_zoo(&z);
    const struct ArrowArray *arrays[1] = {&z.batch.array};
    struct sk_row_at row = {0, 5}, batch = {1, 0}, fine = {0, 4};
    struct sk_block_side side = {arrays, 1, &row};
    const struct ArrowSchema *s = &z.batch.schema;
    CHECK_RC(sk_block_measure_places(s, &side, 1, NULL, 1, &plan, &size, &err), SK_EINVAL);
    CHECK_STR_HAS(err.msg, "row 5 of batch 0, which has 5");
    side.places = &batch;
    CHECK_RC(sk_block_measure_places(s, &side, 1, NULL, 1, &plan, &size, &err), SK_EINVAL);
    CHECK_STR_HAS(err.msg, "batch 1 of 1");
    side.places = &fine;
    struct sk_block_pick picks[8] = {{0, 0}, {0, 1}, {0, 2}, {0, 3},
                                     {0, 4}, {0, 5}, {0, 6}, {0, 8}};
    CHECK_RC(sk_block_measure_places(s, &side, 1, picks, 1, &plan, &size, &err), SK_EINVAL);
    CHECK_STR_HAS(err.msg, "column 8 of batch 0");
    picks[7] = (struct sk_block_pick){1, 0};
    CHECK_RC(sk_block_measure_places(s, &side, 1, picks, 1, &plan, &size, &err), SK_EINVAL);
    CHECK_STR_HAS(err.msg, "side 1 of 1");
    CHECK(plan == NULL);
}

TEST(places_without_memory) {
    for (int part = 0; part < 2; part++) {
        struct zoo z;
        struct sk_row_at places[40];
        part ? make_zoo2(&z) : make_zoo(&z);
        struct ArrowArray other = z.batch.array;
        other.offset = 1;
        const struct ArrowArray *arrays[2] = {&other, &z.batch.array};
        for (uint32_t i = 0; i < 40; i++)
            places[i] = (struct sk_row_at){i % 7 ? i % 2 : SK_ROW_NONE, 4 - i % 5};
        int64_t before = sk_mem_blocks(SK_TAG_BLOCK);
        for (int64_t n = 1;; n++) {
            struct sk_block_plan *plan = NULL;
            struct sk_err err;
            uint64_t size;
            sk_mem_fail_at(n);
            sk_rc rc =
                sk_block_measure_places(&z.batch.schema, &(struct sk_block_side){arrays, 2, places},
                                        1, NULL, 40, &plan, &size, &err);
            bool hit = sk_mem_failed();
            sk_mem_fail_at(0);
            CHECK_EQ(rc, hit ? SK_ENOMEM : SK_OK);
            sk_block_plan_free(plan);
            CHECK_EQ(sk_mem_blocks(SK_TAG_BLOCK), before);
            if (!hit) break;
        }
    }
}
