/* test_data_batch.c - batches over shared arrays: taking, slicing, joining, choosing rows and
 * columns, exports whose children are moved, schemas, lack of memory; for columns of all types. */
#include "block_read.h"
#include "block_zoo.h"
#include "data_rig.h"

static struct sk_err err;

/* ---- help ------------------------------------------------------------------------------------ */

static int released;
static void count_release(struct ArrowArray *a) {
    released++;
    a->release = NULL;
}
static void no_release(struct ArrowArray *a) { a->release = NULL; }
static void mark(struct ArrowArray *a) {
    a->release = no_release;
    for (int64_t i = 0; i < a->n_children; i++) mark(a->children[i]);
    if (a->dictionary) mark(a->dictionary);
}

static struct sk_schema *schema_of(const struct ArrowSchema *s) {
    struct sk_schema *out;
    CHECK_OK_ERR(sk_schema_copy(s, &out, &err), &err);
    return out;
}

/* A batch of the zoo's columns, whose array's release is counted. */
static struct sk_batch *zoo_batch(struct zoo *z, int part) {
    struct sk_batch *b;
    part ? make_zoo2(z) : make_zoo(z);
    struct ArrowArray a = z->batch.array;
    mark(&a);
    a.release = count_release;
    CHECK_OK_ERR(sk_batch_take(schema_of(&z->batch.schema), &a, &b, &err), &err);
    CHECK(!a.release);
    return b;
}

/* A hash of schema and values, the same for each way in which the rows may be cut. */
static uint64_t hash_of(const struct ArrowSchema *s, const struct ArrowArray *a) {
    struct sk_batch *one;
    struct sk_block_plan *plan;
    uint64_t size;
    CHECK_OK_ERR(sk_block_measure(s, a, &plan, &size, &err), &err);
    CHECK_OK_ERR(sk_batch_of_plan(plan, size, &one, &err), &err);
    uint64_t h = block_read(&one->schema->s, &one->array);
    sk_batch_destroy(one);
    return h;
}
static uint64_t hash(const struct sk_batch *b) { return hash_of(&b->schema->s, &b->array); }

/* ---- tests ----------------------------------------------------------------------------------- */

TEST(slices_and_joins_of_all_types) {
    for (int part = 0; part < 2; part++) {
        struct zoo z;
        struct sk_batch *b = zoo_batch(&z, part), *parts[3], *all, *again;
        released = 0;
        int64_t n = b->array.length;
        uint64_t want = hash(b);
        CHECK_EQ(n, 5);
        CHECK_EQ(b->array.offset, 0);
        CHECK_OK_ERR(sk_batch_slice(b, 0, 2, &parts[0], &err), &err);
        CHECK_OK_ERR(sk_batch_slice(b, 2, 0, &parts[1], &err), &err);
        CHECK_OK_ERR(sk_batch_slice(b, 2, 3, &parts[2], &err), &err);
        sk_batch_destroy(b);
        CHECK_EQ(released, 0); /* the slices share it */
        CHECK_OK_ERR(sk_batch_concat(parts, 3, &all, &err), &err);
        CHECK_EQ(hash(all), want);
        for (int i = 0; i < 3; i++) sk_batch_destroy(parts[i]);
        CHECK_EQ(released, 1);
        uint32_t rows[] = {4, 3, 2, 1, 0};
        CHECK_OK_ERR(sk_batch_rows(all, rows, 5, &again, &err), &err);
        sk_batch_destroy(all);
        CHECK_OK_ERR(sk_batch_rows(again, rows, 5, &all, &err), &err);
        sk_batch_destroy(again);
        if (!part) CHECK_EQ(all->array.length, 5);
        sk_batch_destroy(all);
    }
}

TEST(exports_outlive_their_batch) {
    for (int part = 0; part < 2; part++) {
        struct zoo z;
        struct sk_batch *b = zoo_batch(&z, part);
        struct ArrowArray a, moved[8];
        struct sk_schema *s = sk_schema_keep(b->schema);
        released = 0;
        CHECK_OK_ERR(sk_batch_export(b, &a, &err), &err);
        uint64_t want = hash(b);
        sk_batch_destroy(b);
        CHECK_EQ(hash_of(&s->s, &a), want);
        int64_t n = a.n_children;
        for (int64_t i = 0; i < n; i++) { /* moved out, as the specification allows */
            moved[i] = *a.children[i];
            a.children[i]->release = NULL;
        }
        a.release(&a);
        CHECK(!a.release);
        CHECK_EQ(released, 0);
        for (int64_t i = 0; i < n; i++) {
            struct ArrowSchema top = {
                .format = "+s", .n_children = 1, .children = &s->s.children[i]};
            struct ArrowArray *child = &moved[i];
            const void *none[1] = {NULL};
            struct ArrowArray one = {.length = moved[i].length,
                                     .n_buffers = 1,
                                     .buffers = none,
                                     .n_children = 1,
                                     .children = &child};
            (void)hash_of(&top, &one);
            moved[i].release(&moved[i]);
        }
        CHECK_EQ(released, 1);
        sk_schema_drop(s);
    }
}

TEST(columns_in_another_order) {
    struct sk_batch *b = rig_numbers("a,b,c", NULL, 4), *cut, *two;
    struct ArrowSchema list[2] = {{.format = "l", .name = "z"}, {.format = "l", .name = "a"}},
                       *children[2] = {&list[0], &list[1]},
                       top = {.format = "+s", .n_children = 2, .children = children};
    CHECK_OK_ERR(sk_batch_slice(b, 1, 2, &cut, &err), &err);
    CHECK_OK_ERR(sk_batch_columns(cut, schema_of(&top), (uint32_t[]){2, 0}, &two, &err), &err);
    sk_batch_destroy(b);
    sk_batch_destroy(cut);
    CHECK_EQ(two->array.length, 2);
    CHECK_EQ(rig_at(two, 0, 0), 5);
    CHECK_EQ(rig_at(two, 1, 1), 6);
    sk_batch_destroy(two);
}

TEST(batches_that_do_not_fit_their_schema) {
    struct zoo z;
    struct sk_batch *b;
    make_zoo(&z);
    struct ArrowArray a = z.batch.array;
    mark(&a);
    a.release = count_release;
    released = 0;
    a.n_children--;
    CHECK_RC(sk_batch_take(schema_of(&z.batch.schema), &a, &b, &err), SK_EINVAL);
    CHECK_EQ(released, 1);
    CHECK_RC(sk_batch_take(schema_of(&z.batch.schema), &a, &b, &err), SK_EINVAL);
    CHECK_STR_HAS(err.msg, "was released");
    a = z.batch.array;
    a.release = count_release;
    a.length = 100;
    CHECK_RC(sk_batch_take(schema_of(&z.batch.schema), &a, &b, &err), SK_EINVAL);
    CHECK_STR_HAS(err.msg, "rows, and its batch needs 103");
}

TEST(schemas_that_are_none) {
    struct sk_schema *s;
    struct ArrowSchema bad = {.format = "l"}, top = {.format = "+s", .n_children = 1};
    CHECK_RC(sk_schema_copy(NULL, &s, &err), SK_EINVAL);
    CHECK_RC(sk_schema_copy(&bad, &s, &err), SK_EINVAL);
    CHECK_RC(sk_schema_copy(&top, &s, &err), SK_EINVAL);
    struct ArrowSchema deep[70], *child[70];
    for (int i = 0; i < 70; i++) {
        child[i] = i + 1 < 70 ? &deep[i + 1] : NULL;
        deep[i] = (struct ArrowSchema){
            .format = "+s", .name = "d", .n_children = i + 1 < 70, .children = &child[i]};
    }
    CHECK_RC(sk_schema_copy(&deep[0], &s, &err), SK_EINVAL);
    CHECK_STR_HAS(err.msg, "more than 64 levels");
    static const char metadata[] = "\1\0\0\0\1\0\0\0k\2\0\0\0vv";
    struct ArrowSchema leaf = {.format = "l", .name = "x", .metadata = metadata, .flags = 2},
                       *leaves[] = {&leaf};
    top.children = leaves;
    CHECK_OK_ERR(sk_schema_copy(&top, &s, &err), &err);
    CHECK(sk_block_same_schema(&s->s, &top) || !top.name);
    CHECK_MEM_EQ(s->s.children[0]->metadata, metadata, sizeof metadata - 1);
    CHECK_EQ(sk_schema_find(&s->s, "x"), 0);
    CHECK_EQ(sk_schema_find(&s->s, "y"), -1);
    CHECK_RC(sk_schema_no_column(&s->s, "y", &err), SK_EINVAL);
    CHECK_STR_EQ(err.msg, "there is no column 'y'; the columns are 'x'");
    sk_schema_drop(s);
}

TEST(what_changed_in_a_schema) {
    struct ArrowSchema values = {.format = "u", .name = ""}, item = {.format = "l", .name = "item"},
                       *items[] = {&item},
                       a = {.format = "+l", .name = "v", .n_children = 1, .children = items},
                       *as[] = {&a}, was = {.format = "+s", .n_children = 1, .children = as};
    struct ArrowSchema item2 = item, *items2[] = {&item2}, b = a, *bs[] = {&b, &b}, is = was;
    b.children = items2;
    is.children = bs;
    CHECK_OK_ERR(sk_schema_changed(&was, &is, &err), &err);
    item2.format = "i";
    CHECK_RC(sk_schema_changed(&was, &is, &err), SK_EINVAL);
    CHECK_STR_EQ(err.msg,
                 "the schema changes between batches: column 'v' has format \"i\", and had "
                 "\"l\" before");
    item2.format = "l";
    item2.name = "x";
    CHECK_RC(sk_schema_changed(&was, &is, &err), SK_EINVAL);
    CHECK_STR_HAS(err.msg, "field 0 is 'x' (format \"l\"), and was 'item'");
    item2.name = "item";
    item2.flags = ARROW_FLAG_NULLABLE;
    CHECK_RC(sk_schema_changed(&was, &is, &err), SK_EINVAL);
    CHECK_STR_HAS(err.msg, "column 'v' (format \"l\") may have nulls, and could not before");
    item2.flags = 0;
    item2.dictionary = &values;
    CHECK_RC(sk_schema_changed(&was, &is, &err), SK_EINVAL);
    CHECK_STR_HAS(err.msg, "with a dictionary");
    item2.dictionary = NULL;
    is.n_children = 2;
    CHECK_RC(sk_schema_changed(&was, &is, &err), SK_EINVAL);
    CHECK_STR_HAS(err.msg, "2 columns, and 1 before");
}

/* All that a batch can do, as one operation that may fail. Destroys what it has made. */
#define STEP(call, made)                                           \
    do {                                                           \
        if (rc == SK_OK && (rc = (call)) == SK_OK) *at++ = (made); \
    } while (0)
static sk_rc walk(struct zoo *z) {
    struct sk_schema *s;
    struct sk_batch *b, *parts[2], *all, *rows, *columns, *list[6], **at = list;
    struct ArrowArray a = z->batch.array, out = {.release = NULL};
    a.release = count_release;
    sk_rc rc = sk_schema_copy(&z->batch.schema, &s, &err);
    STEP(sk_batch_take(s, &a, &b, &err), b);
    STEP(sk_batch_slice(b, 0, 2, &parts[0], &err), parts[0]);
    STEP(sk_batch_slice(b, 2, 3, &parts[1], &err), parts[1]);
    STEP(sk_batch_concat(parts, 2, &all, &err), all);
    STEP(sk_batch_rows(all, (uint32_t[]){1, 0}, 2, &rows, &err), rows);
    if (rc == SK_OK) rc = sk_batch_export(rows, &out, &err);
    if (rc == SK_OK) out.release(&out);
    struct ArrowSchema top = {
        .format = "+s", .n_children = 1, .children = &z->batch.schema.children[1]};
    if (rc == SK_OK) rc = sk_schema_copy(&top, &s, &err);
    STEP(sk_batch_columns(b, s, (uint32_t[]){1}, &columns, &err), columns);
    while (at > list) sk_batch_destroy(*--at);
    return rc;
}
TEST(batches_without_memory) {
    for (int part = 0; part < 2; part++) {
        struct zoo z;
        part ? make_zoo2(&z) : make_zoo(&z);
        mark(&z.batch.array);
        int64_t before = sk_mem_blocks(SK_TAG_N);
        for (int64_t nth = 1;; nth++) {
            sk_mem_fail_at(nth);
            sk_rc rc = walk(&z);
            bool hit = sk_mem_failed();
            sk_mem_fail_at(0);
            CHECK_MSG(rc == (hit ? SK_ENOMEM : SK_OK), "allocation %lld: %s", (long long)nth,
                      sk_rc_name(rc));
            CHECK_EQ(sk_mem_blocks(SK_TAG_N), before);
            if (!hit) break;
        }
    }
}

TEST(arrays_from_outside_are_checked) { /* the zoo passes; each lie is found */
    for (int part = 0; part < 2; part++) {
        struct zoo z;
        part ? make_zoo2(&z) : make_zoo(&z);
        mark(&z.batch.array);
        CHECK_OK_ERR(sk_block_check_batch(&z.batch.schema, &z.batch.array, &err), &err);
        for (int64_t i = 0; i < z.batch.array.n_children; i++) {
            struct ArrowArray *c = z.batch.array.children[i], was = *c;
            c->release = NULL;
            CHECK_RC(sk_block_check_batch(&z.batch.schema, &z.batch.array, &err), SK_EINVAL);
            *c = was;
            c->length = 3;
            CHECK_RC(sk_block_check_batch(&z.batch.schema, &z.batch.array, &err), SK_EINVAL);
            *c = was;
            c->n_buffers += 5;
            if (strncmp(z.batch.schema.children[i]->format, "v", 1) != 0)
                CHECK_RC(sk_block_check_batch(&z.batch.schema, &z.batch.array, &err), SK_EINVAL);
            *c = was;
        }
    }
}
