/* test_block_batch.c - hand-made batches through write and export: values, lifetimes, refused
 * input, damage, lack of memory. All types are tested against pyarrow in
 * tests/py/unit/test_block_ctypes.py. */
#include <pthread.h>
#include <stdatomic.h>

#include "block/block_int.h"
#include "block_make.h"
#include "block_read.h"
#include "block_zoo.h"
#include "test.h"

static _Atomic int released;
static void owner_release(void *ctx) {
    CHECK(ctx == &released);
    atomic_fetch_add(&released, 1);
}
static struct sk_block_owner owner(void) {
    return (struct sk_block_owner){owner_release, &released};
}

static void export_all(const struct block *b, struct ArrowSchema *s, struct ArrowArray *a) {
    struct sk_err err;
    CHECK_OK_ERR(sk_block_export(b->p, b->n, 0, UINT64_MAX, owner(), s, a, &err), &err);
}

TEST(batch_ints_exact_bytes) {
    int64_t v[4] = {10, 11, 12, 13};
    uint8_t valid = 0x0D; /* row 1 is null */
    struct made batch, col;
    MAKE_LEAF(&col, "l", "x", 3, 1, &valid, v);
    make_batch(&batch, 3);
    make_child(&batch, &col);
    struct block b = make_block(&batch);
    const struct sk_block_hdr *h = (const void *)b.p;
    CHECK_EQ(h->n_nodes, 2);
    CHECK_EQ(h->n_buffers, 3);
    CHECK_EQ(h->total_bytes, h->data_off + 128);
    CHECK_EQ(b.p[h->data_off], 0x06); /* rows 1..3 of the source: null, set, set */
    CHECK_MEM_EQ(b.p + h->data_off + 64, v + 1, 24);
    for (size_t i = 1; i < 64; i++) CHECK_EQ(b.p[h->data_off + i], 0);
    struct ArrowSchema s;
    struct ArrowArray a;
    export_all(&b, &s, &a);
    CHECK_STR_EQ(s.format, "+s");
    CHECK_STR_EQ(s.name, "");
    CHECK_STR_EQ(s.children[0]->format, "l");
    CHECK_STR_EQ(s.children[0]->name, "x");
    CHECK_EQ(s.children[0]->flags, ARROW_FLAG_NULLABLE);
    CHECK(s.children[0]->metadata == NULL);
    CHECK_EQ(a.length, 3);
    CHECK_EQ(a.children[0]->null_count, 1);
    CHECK(a.children[0]->buffers[1] == b.p + h->data_off + 64); /* in place */
    s.release(&s);
    a.release(&a);
    CHECK_EQ(released, 1);
    free_block(&b);
}

TEST(batch_zoo_reads_the_same) {
    struct zoo z;
    for (int part = 0; part < 2; part++) {
        part ? make_zoo2(&z) : make_zoo(&z);
        struct block b = make_block(&z.batch);
        struct ArrowSchema s;
        struct ArrowArray a;
        export_all(&b, &s, &a);
        /* the reader takes struct offsets into account, so the source can be read the same way */
        struct made flat = z.batch;
        flat.array.children = z.batch.array_children;
        CHECK(block_read(&s, &a) == block_read(&flat.schema, &flat.array));
        struct made again = {.schema = s, .array = a};
        struct block c = make_block(&again);
        CHECK_EQ(c.n, b.n);
        CHECK_MEM_EQ(c.p, b.p, b.n);
        s.release(&s);
        a.release(&a);
        free_block(&b);
        free_block(&c);
    }
    CHECK_EQ(released, 2);
}

TEST(batch_rows_cut_on_export) {
    struct zoo z;
    make_zoo(&z);
    struct block b = make_block(&z.batch);
    for (uint64_t at = 0; at <= 5; at++)
        for (uint64_t n = 0; n <= 5 - at; n++) {
            struct ArrowSchema s;
            struct ArrowArray a;
            struct sk_err err;
            CHECK_OK_ERR(sk_block_export(b.p, b.n, at, n, owner(), &s, &a, &err), &err);
            struct made cut = z.batch;
            cut.array.children = z.batch.array_children;
            cut.array.offset += (int64_t)at;
            cut.array.length = (int64_t)n;
            CHECK_EQ(a.length, n);
            CHECK_EQ(a.offset, 0);
            CHECK(block_read(&s, &a) == block_read(&cut.schema, &cut.array));
            s.release(&s);
            a.release(&a);
        }
    struct ArrowSchema s;
    struct ArrowArray a;
    int before = released;
    CHECK_RC(sk_block_export(b.p, b.n, 5, 1, owner(), &s, &a, NULL), SK_EINVAL);
    CHECK_RC(sk_block_export(b.p, b.n, 6, UINT64_MAX, owner(), &s, &a, NULL), SK_EINVAL);
    CHECK_EQ(released, before + 2); /* the owner is taken, also on failure */
    free_block(&b);
}

TEST(batch_children_outlive_the_parent) {
    struct zoo z;
    make_zoo(&z);
    struct block b = make_block(&z.batch);
    struct ArrowSchema s, moved_schema;
    struct ArrowArray a, moved[8];
    export_all(&b, &s, &a);
    moved_schema = *s.children[2];
    s.children[2]->release = NULL;
    s.release(&s);
    CHECK(s.release == NULL);
    CHECK_STR_EQ(moved_schema.name, "text");
    moved_schema.release(&moved_schema);
    for (int i = 0; i < 8; i++) {
        moved[i] = *a.children[i];
        a.children[i]->release = NULL;
    }
    a.release(&a);
    CHECK(a.release == NULL);
    for (int i = 7; i >= 0; i--) {
        CHECK_EQ(released, 0);
        moved[i].release(&moved[i]);
        CHECK(moved[i].release == NULL);
    }
    CHECK_EQ(released, 1);
    free_block(&b);
}

static void *release_array(void *p) {
    struct ArrowArray *a = p;
    a->release(a);
    return NULL;
}

TEST(batch_children_released_by_threads) { /* meant for TSan */
    struct zoo z;
    make_zoo(&z);
    struct block b = make_block(&z.batch);
    for (int round = 0; round < 50; round++) {
        struct ArrowSchema s;
        struct ArrowArray a, moved[8];
        pthread_t t[8];
        export_all(&b, &s, &a);
        s.release(&s);
        for (int i = 0; i < 8; i++) {
            moved[i] = *a.children[i];
            a.children[i]->release = NULL;
        }
        for (int i = 0; i < 8; i++)
            CHECK_EQ(pthread_create(&t[i], NULL, release_array, &moved[i]), 0);
        a.release(&a);
        for (int i = 0; i < 8; i++) pthread_join(t[i], NULL);
        CHECK_EQ(released, round + 1);
    }
    free_block(&b);
}

TEST(batch_same_bytes_however_sliced) {
    int64_t v[100];
    uint8_t valid[13];
    int32_t offs[101];
    char chars[1000];
    for (int i = 0; i < 1000; i++) chars[i] = (char)('a' + i % 26);
    for (int i = 0; i < 100; i++) v[i] = i * 7;
    for (int i = 0; i < 13; i++) valid[i] = (uint8_t)(37 * i);
    for (int i = 0; i <= 100; i++) offs[i] = i * 9;
    for (int at = 0; at < 90; at++) {
        int64_t copy[10];
        uint8_t bits[2] = {0xFF, 0xFF}; /* bits behind the end are set */
        int32_t rebased[11];
        for (int i = 0; i < 10; i++) {
            copy[i] = v[at + i];
            if (!sk_block_bit(valid, at + i)) bits[i / 8] = (uint8_t)(bits[i / 8] & ~(1u << i % 8));
        }
        for (int i = 0; i <= 10; i++) rebased[i] = i * 9;
        struct made one, other, a, b, c, d;
        MAKE_LEAF(&a, "l", "v", 10, at, valid, v);
        MAKE_LEAF(&b, "u", "t", 10, at, valid, offs, chars);
        MAKE_LEAF(&c, "l", "v", 10, 0, bits, copy);
        MAKE_LEAF(&d, "u", "t", 10, 0, bits, rebased, chars + at * 9);
        make_batch(&one, 10);
        make_child(&one, &a);
        make_child(&one, &b);
        make_batch(&other, 10);
        make_child(&other, &c);
        make_child(&other, &d);
        struct block x = make_block(&one), y = make_block(&other);
        CHECK_EQ(x.n, y.n);
        CHECK_MEM_EQ(x.p, y.p, x.n);
        free_block(&x);
        free_block(&y);
    }
}

TEST(batch_misaligned_input) {
    char raw[100] = {0};
    int32_t offs[4] = {0, 1, 3, 6};
    memcpy(raw + 1, offs, sizeof offs);
    struct made batch, col;
    MAKE_LEAF(&col, "u", "x", 2, 1, NULL, raw + 1, "abcdef");
    make_batch(&batch, 2);
    make_child(&batch, &col);
    struct block b = make_block(&batch);
    const struct sk_block_hdr *h = (const void *)b.p;
    CHECK_MEM_EQ(b.p + h->data_off, ((int32_t[]){0, 2, 5}), 12);
    CHECK_MEM_EQ(b.p + h->data_off + 64, "bcdef", 5);
    free_block(&b);
}

static void refused(const struct made *m, const char *says) {
    struct sk_block_plan *plan = (void *)1;
    uint64_t size = 77, bytes = 77;
    struct sk_err err = {.code = 0};
    CHECK_RC(sk_block_measure(&m->schema, &m->array, &plan, &size, &err), SK_EINVAL);
    CHECK_STR_HAS(err.msg, says);
    CHECK(plan == (void *)1 && size == 77);
    CHECK_RC(sk_block_nbytes(&m->schema, &m->array, &bytes, NULL), SK_EINVAL);
    CHECK_EQ(bytes, 77);
}

TEST(batch_refuses_what_it_must_not_read) {
    struct zoo z;
    int32_t bad_ends[4] = {2, 7, 6, 10}, bad_offsets[11] = {5, 4, 3, 2, 1, 0, 0, 0, 0, 0, 0},
            views[40] = {0};
#define REFUSED(make, change, says) \
    do {                            \
        make(&z);                   \
        change;                     \
        refused(&z.batch, says);    \
    } while (0)
    REFUSED(make_zoo, z.batch.schema.format = "+l", "struct");
    REFUSED(make_zoo, z.ints.schema.format = "?", "column 'ints'");
    REFUSED(make_zoo, z.ints.buffers[1] = NULL, "column 'ints'");
    REFUSED(make_zoo, z.ints.array.length = 7, "column 'ints'");
    REFUSED(make_zoo, z.text.buffers[2] = NULL, "column 'text'");
    REFUSED(make_zoo, z.text.buffers[1] = bad_offsets, "offsets run from");
    REFUSED(make_zoo, z.list_items.array.length = 3, "field 'item'");
    REFUSED(make_zoo, z.list_view.array.buffers[2] = NULL, "column 'list_view'");
    REFUSED(make_zoo, z.dict.array.dictionary = NULL, "dictionary");
    REFUSED(make_zoo, z.dict.schema.format = "f", "not an integer");
    REFUSED(make_zoo, z.list.schema.children = NULL, "column 'list'");
    REFUSED(make_zoo, z.list.array.n_children = 0, "column 'list'");
    REFUSED(make_zoo, (views[4 * 4] = 20, views[4 * 4 + 2] = 3, z.views.buffers[1] = views),
            "column 'views'");
    REFUSED(make_zoo, (views[4 * 4 + 2] = 0, views[4 * 4 + 3] = 21, z.views.buffers[1] = views),
            "column 'views'");
    REFUSED(make_zoo2, z.dense_b.array.length = 1, "union offset");
    REFUSED(make_zoo2, z.dense.schema.format = "+ud:7,1", "no type id 0");
    REFUSED(make_zoo2, z.run_ends.buffers[1] = bad_ends, "increase");
    REFUSED(make_zoo2, z.run_ends.array.length = 2, "run ends stop");
    REFUSED(make_zoo2, z.run_ends.schema.format = "f", "run ends");
    REFUSED(make_zoo2, z.fixed_items.array.length = 10, "column 'fixed'");
    REFUSED(make_zoo2, z.entries.schema.format = "+l", "map");
#undef REFUSED
}

TEST(batch_null_rows_at_the_top) {
    uint8_t valid = 0x01;
    int64_t v[2] = {1, 2};
    struct made batch, col;
    MAKE_LEAF(&col, "l", "x", 2, 0, NULL, v);
    make_batch(&batch, 2);
    make_child(&batch, &col);
    batch.buffers[0] = &valid;
    refused(&batch, "null rows");
    batch.array.length = 1;
    struct block b = make_block(&batch);
    free_block(&b);
}

TEST(batch_no_memory_anywhere) {
    struct zoo z;
    for (int part = 0; part < 2; part++) {
        part ? make_zoo2(&z) : make_zoo(&z);
        int64_t n = 1;
        for (;; n++) {
            struct sk_block_plan *plan;
            uint64_t size, bytes;
            struct sk_err err;
            struct ArrowSchema s;
            struct ArrowArray a;
            int before = released;
            sk_mem_fail_at(n);
            sk_rc rc = sk_block_nbytes(&z.batch.schema, &z.batch.array, &bytes, &err);
            if (rc == SK_OK)
                rc = sk_block_measure(&z.batch.schema, &z.batch.array, &plan, &size, &err);
            if (rc == SK_OK) {
                uint8_t *p = sk_alloc_aligned(SK_TAG_TEST, SK_BLOCK_ALIGN, size);
                if (p) {
                    sk_block_write(plan, p);
                    rc = sk_block_export(p, size, 0, UINT64_MAX, owner(), &s, &a, &err);
                    CHECK_EQ(released, before + (rc != SK_OK));
                    if (rc == SK_OK) {
                        a.release(&a);
                        s.release(&s);
                    }
                }
                sk_free(p);
                sk_block_plan_free(plan);
            }
            bool hit = sk_mem_failed();
            sk_mem_fail_at(0);
            CHECK(rc == SK_OK || rc == SK_ENOMEM);
            CHECK_EQ(sk_mem_blocks(SK_TAG_BLOCK), 0);
            if (!hit) break;
        }
        CHECK_GE(n, 5);
    }
}

/* Any damage ends in an error or in a batch that can be walked; without ASan only crashes are
 * detected. fuzz/block_fuzz.c does the same with blocks of all types. */
TEST(batch_damaged_bytes) {
    struct zoo z;
    int refusals = 0, reads = 0;
    for (int round = 0; round < test_rounds(20000); round++) {
        test_below(2) ? make_zoo(&z) : make_zoo2(&z);
        struct block b = make_block(&z.batch);
        size_t n = test_below(8) ? b.n : test_below(b.n);
        for (uint64_t k = test_below(3); k < 3; k++) {
            size_t at = test_below(b.n);
            if (test_below(2)) b.p[at] ^= (uint8_t)(1u << test_below(8));
            else
                memset(b.p + (at & ~7u), test_below(2) ? 0xFF : (int)test_below(20),
                       test_below(2) ? 8 : 4);
        }
        uint8_t *exact = NULL;
        CHECK_EQ(posix_memalign((void **)&exact, SK_BLOCK_ALIGN, n), 0);
        memcpy(exact, b.p, n);
        struct ArrowSchema s;
        struct ArrowArray a;
        sk_rc rc = sk_block_validate(exact, n, NULL);
        CHECK(rc == SK_OK || rc == SK_ECORRUPT);
        sk_rc tables = sk_block_export(exact, n, 0, UINT64_MAX, owner(), &s, &a, NULL);
        CHECK(tables == SK_OK || tables == SK_ECORRUPT);
        CHECK(rc != SK_OK || tables == SK_OK);
        if (tables == SK_OK) {
            if (rc == SK_OK) (void)block_read(&s, &a);
            s.release(&s);
            a.release(&a);
        }
        rc ? refusals++ : reads++;
        free(exact);
        free_block(&b);
    }
    CHECK_GT(refusals, 0);
    CHECK_GT(reads, 0);
    CHECK_EQ(released, refusals + reads);
}

TEST(batch_head_is_checked) {
    int64_t v[1] = {1};
    struct made batch, col;
    struct sk_err err;
    MAKE_LEAF(&col, "l", "x", 1, 0, NULL, v);
    make_batch(&batch, 1);
    make_child(&batch, &col);
    struct block b = make_block(&batch);
    CHECK_RC(sk_block_validate(b.p + 4, b.n - 4, &err), SK_EINVAL); /* misaligned */
    for (size_t n = 0; n < b.n; n += 8) CHECK_RC(sk_block_validate(b.p, n, NULL), SK_ECORRUPT);
    /* every byte of the header counts */
    for (size_t at = 0; at < sizeof(struct sk_block_hdr); at++)
        for (int bit = 0; bit < 8; bit++) {
            b.p[at] ^= (uint8_t)(1u << bit);
            CHECK_MSG(sk_block_validate(b.p, b.n, NULL) == SK_ECORRUPT, "byte %zu bit %d", at, bit);
            b.p[at] ^= (uint8_t)(1u << bit);
        }
    CHECK_OK(sk_block_validate(b.p, b.n, NULL));
    b.p[0] = 'X';
    CHECK_RC(sk_block_validate(b.p, b.n, &err), SK_ECORRUPT);
    CHECK_STR_HAS(err.msg, "magic");
    free_block(&b);
}

TEST(batch_schema_alone) {
    struct zoo z;
    make_zoo2(&z);
    static const int32_t metadata[] = {1, 4, 0x2179656b, 0}; /* "key!" -> "" */
    z.map.schema.metadata = (const char *)metadata;
    z.map.schema.flags = ARROW_FLAG_MAP_KEYS_SORTED;
    z.dense.schema.name = NULL;
    struct block b = make_block(&z.batch);
    struct ArrowSchema s;
    CHECK_OK(sk_block_export_schema(b.p, b.n, &s, NULL));
    memset(b.p, 0, b.n);
    free_block(&b);
    CHECK_EQ(s.n_children, 4);
    CHECK_STR_EQ(s.children[0]->name, "");
    CHECK_STR_EQ(s.children[3]->format, "+m");
    CHECK_EQ(s.children[3]->flags, ARROW_FLAG_MAP_KEYS_SORTED);
    CHECK_MEM_EQ(s.children[3]->metadata, metadata, sizeof metadata);
    CHECK_STR_EQ(s.children[3]->children[0]->children[1]->name, "value");
    s.release(&s);
}

/* Lists of a struct with one field, whose format is changed in the bytes to a map's. */
TEST(batch_map_entries_are_checked) {
    static const int32_t offs[3] = {0, 1, 2};
    int64_t v[2] = {1, 2};
    struct made batch, list, entries, key;
    MAKE_LEAF(&list, "+l", "lists", 2, 0, NULL, offs);
    MAKE_LEAF(&entries, "+s", "e", 2, 0, NULL);
    MAKE_LEAF(&key, "l", "k", 2, 0, NULL, v);
    make_batch(&batch, 2);
    make_child(&entries, &key);
    make_child(&list, &entries);
    make_child(&batch, &list);
    struct block b = make_block(&batch);
    struct sk_block_hdr *h = (void *)b.p;
    struct sk_block_field *top = (void *)(b.p + h->schema_off),
                          *f = (void *)((uint8_t *)top + top->rec_len);
    char *format = (char *)(f + 1);
    struct sk_err err;
    CHECK_STR_EQ(format, "+l");
    format[1] = 'm';
    CHECK_RC(sk_block_info(b.p, b.n, &(struct sk_block_info){0}, &err), SK_ECORRUPT);
    CHECK_STR_HAS(err.msg, "map");
    format[1] = 'L'; /* 64-bit offsets: the buffer is too short for them */
    CHECK_RC(sk_block_info(b.p, b.n, &(struct sk_block_info){0}, &err), SK_ECORRUPT);
    CHECK_STR_HAS(err.msg, "lists");
    free_block(&b);
}

/* sk_block_info checks this, since it costs only two loads */
TEST(batch_ends_of_offsets_are_checked) {
    static const int32_t offs[4] = {0, 2, 4, 6};
    struct made batch, col;
    struct sk_block_info info;
    MAKE_LEAF(&col, "u", "x", 3, 0, NULL, offs, "abcdef");
    make_batch(&batch, 3);
    make_child(&batch, &col);
    struct block b = make_block(&batch);
    struct sk_block_hdr *h = (void *)b.p;
    int32_t *o = (void *)(b.p + h->data_off);
    for (int i = 0; i < 4; i++)
        for (int delta = -1; delta <= 1; delta += 2) {
            o[i] += delta;
            CHECK_RC(sk_block_info(b.p, b.n, &info, NULL), i == 0 || i == 3 ? SK_ECORRUPT : SK_OK);
            o[i] -= delta;
        }
    o[1] = 5; /* offsets that decrease in the middle are found only with the values */
    CHECK_OK(sk_block_info(b.p, b.n, &info, NULL));
    CHECK_RC(sk_block_validate(b.p, b.n, NULL), SK_ECORRUPT);
    free_block(&b);
}

/* Returns the checksum of a schema: name, type and nullability matter, rows do not. */
static uint32_t schema_of(const char *format, const char *name, int64_t length, int64_t flags) {
    static const int64_t values[4] = {1, 2, 3, 4};
    struct made batch, column;
    struct sk_block_plan *plan;
    uint64_t size;
    struct sk_err err;
    MAKE_LEAF(&column, format, name, length, 0, NULL, values);
    column.schema.flags = flags;
    make_batch(&batch, length);
    make_child(&batch, &column);
    CHECK_OK_ERR(sk_block_measure(&batch.schema, &batch.array, &plan, &size, &err), &err);
    uint32_t crc = sk_block_plan_sizes(plan).schema_crc;
    sk_block_plan_free(plan);
    return crc;
}

TEST(batches_of_one_schema_have_one_checksum) {
    uint32_t crc = schema_of("l", "x", 4, ARROW_FLAG_NULLABLE);
    CHECK(crc);
    CHECK_EQ(schema_of("l", "x", 1, ARROW_FLAG_NULLABLE), crc);
    CHECK(schema_of("g", "x", 4, ARROW_FLAG_NULLABLE) != crc);
    CHECK(schema_of("l", "y", 4, ARROW_FLAG_NULLABLE) != crc);
    CHECK(schema_of("l", "x", 4, 0) != crc);
}

TEST(batch_around_its_largest_buffer) {
    static int64_t big[1000];
    static int16_t small[1000];
    struct made x, y, z, b;
    for (int i = 0; i < 1000; i++) {
        big[i] = (int64_t)test_rand();
        small[i] = (int16_t)test_rand();
    }
    MAKE_LEAF(&x, "s", "x", 900, 3, NULL, small);
    MAKE_LEAF(&y, "l", "y", 900, 50, NULL, big);
    MAKE_LEAF(&z, "s", "z", 900, 0, NULL, small);
    make_batch(&b, 900);
    make_child(&b, &x);
    make_child(&b, &y);
    make_child(&b, &z);
    struct block want = make_block(&b);
    struct sk_block_plan *plan = NULL;
    struct sk_block_largest at;
    uint64_t size;
    CHECK_OK(sk_block_measure(&b.schema, &b.array, &plan, &size, NULL));
    CHECK(sk_block_plan_largest(plan, &at));
    CHECK(at.src == big + 50 && at.len == 900 * 8 && at.off % SK_BLOCK_ALIGN == 0 &&
          at.off + at.len < size && size == want.n);
    uint8_t *got = sk_alloc_aligned(SK_TAG_TEST, SK_BLOCK_ALIGN, size);
    CHECK(got);
    memset(got, 0xab, size);
    memcpy(got + at.off, at.src, at.len); /* the buffer is at its place already */
    sk_block_write_around(plan, got, &at);
    CHECK(!memcmp(got, want.p, size));
    memset(got + at.off, 0xab, at.len); /* so it must not be written */
    sk_block_write_around(plan, got, &at);
    CHECK(got[at.off] == 0xab && got[at.off + at.len - 1] == 0xab);
    struct sk_block_plan *joined = NULL;
    CHECK_OK(sk_block_plan_join((const struct sk_block_plan *[]){plan, plan}, 2, &joined, NULL));
    CHECK(joined && !sk_block_plan_largest(joined, &at)); /* of two places */
    sk_block_plan_free(joined);
    sk_block_plan_free(plan);
    sk_free(got);
    free_block(&want);
}
