/* test_data_cutter.c - the cutter against a naive second implementation of its rule, on random
 * batches of several schemas; gathered batches, columns and groups; lack of memory. */
#include "block_zoo.h"
#include "data/columns.h"
#include "data/cutter.h"
#include "data/gathered.h"
#include "data/groups.h"
#include "data_rig.h"

static struct sk_err err;

/* ---- the cutter ------------------------------------------------------------------------------ */

enum { CUTS_MAX = 200 * 5000 }; /* a block for each row of the largest case */
static int64_t cuts[CUTS_MAX];  /* rows of each block */
static uint32_t n_cuts;
static int64_t sum, next_value;
static bool ordered;

static sk_rc on_cut(void *ctx SK_UNUSED, struct sk_block_plan *plan, struct sk_err *e) {
    struct sk_block_sizes z = sk_block_plan_sizes(plan);
    CHECK(n_cuts < CUTS_MAX);
    uint8_t *p = sk_alloc_aligned(SK_TAG_TEST, SK_BLOCK_ALIGN, z.total_bytes);
    struct sk_batch *b;
    if (!p) return SK_ERR(e, SK_ENOMEM, "no memory in the store");
    sk_block_write(plan, p);
    sk_rc rc =
        sk_batch_open(p, z.total_bytes, 0, UINT64_MAX, (struct sk_block_owner){NULL, NULL}, &b, e);
    if (rc == SK_OK) {
        for (int64_t i = 0; i < b->array.length; i++)
            ordered = ordered && rig_at(b, 0, i) == next_value++;
        cuts[n_cuts++] = b->array.length;
        sum += b->array.length;
        sk_batch_destroy(b);
    }
    sk_free(p);
    return rc;
}

struct case_ { /* a list of batches: rows and schema of each */
    int64_t rows[200];
    int schema[200];
    int n;
    int64_t target, cap;
};

static const char *const schemas[] = {"a", "b", "a,b"};
static int64_t bytes_of(int schema, int64_t rows) { return rows * (schema == 2 ? 16 : 8); }

static sk_rc run_cutter(const struct case_ *x) {
    struct sk_cutter *c;
    struct sk_batch *b[200];
    int64_t at = 0;
    n_cuts = 0;
    sum = next_value = 0;
    ordered = true;
    for (int i = 0; i < x->n; i++) {
        int64_t n = x->rows[i], columns = x->schema[i] == 2 ? 2 : 1;
        int64_t *v = malloc((size_t)(n * columns + 1) * sizeof *v);
        for (int64_t k = 0; k < n * columns; k++) v[k] = at + k / columns;
        b[i] = rig_numbers(schemas[x->schema[i]], v, n);
        at += n;
        free(v);
    }
    sk_mem_fail_at(rig.fail_at);
    sk_rc rc = sk_cutter_create((uint64_t)x->target, x->cap, on_cut, NULL, &c, &err);
    bool made = rc == SK_OK;
    for (int i = 0; i < x->n; i++)
        if (rc == SK_OK) rc = sk_cutter_push(c, b[i], &err);
        else sk_batch_destroy(b[i]);
    if (rc == SK_OK || rc == SK_EDONE) rc = sk_cutter_end(c, &err);
    if (made) sk_cutter_destroy(c);
    rig.failed = sk_mem_failed();
    sk_mem_fail_at(0);
    return rc;
}

/* The rule of cutter.h, on sizes alone. Returns the number of blocks. */
static uint32_t naive(const struct case_ *x, int64_t *out) {
    uint32_t n_out = 0;
    int64_t held_rows = 0, held_bytes = 0, left = x->cap,
            soon = x->target / 16 > 1 ? x->target / 16 : 1;
    int held_schema = -1;
    bool none = true, empty = false;
    for (int i = 0; i < x->n; i++) {
        int64_t n = x->rows[i];
        if (!n) {
            empty = true;
            if (!left) break;
            continue;
        }
        if (left >= 0) {
            if (n > left) n = left;
            left -= n;
            if (!n) {
                empty = true;
                break;
            }
        }
        none = false;
        int64_t size = bytes_of(x->schema[i], n);
        if (!x->target) {
            out[n_out++] = n;
        } else {
            if (held_rows && (held_bytes + size > x->target || held_schema != x->schema[i])) {
                out[n_out++] = held_rows;
                held_rows = held_bytes = 0;
            }
            if (size > x->target && n > 1) {
                int64_t per = n * x->target / size;
                if (per < 1) per = 1;
                int64_t k = (n + per - 1) / per;
                for (int64_t s = 0; s < k; s++) out[n_out++] = (s + 1) * n / k - s * n / k;
            } else {
                held_rows += n;
                held_bytes += size;
                held_schema = x->schema[i];
                if (4 * held_bytes >= 3 * soon) {
                    out[n_out++] = held_rows;
                    held_rows = held_bytes = 0;
                    soon = 2 * soon < x->target ? 2 * soon : x->target;
                }
            }
        }
        if (!left) break;
    }
    if (held_rows) out[n_out++] = held_rows;
    else if (none && empty) out[n_out++] = 0;
    return n_out;
}

static void random_case(struct case_ *x) {
    x->n = (int)test_below(60);
    x->target = test_below(8) ? 1 + (int64_t)test_below(20000) : 0;
    x->cap = test_below(3) ? -1 : (int64_t)test_below(3000);
    for (int i = 0; i < x->n; i++) {
        x->rows[i] = test_below(5) ? (int64_t)test_below(300) : 0;
        if (!test_below(30)) x->rows[i] = (int64_t)test_below(5000);
        x->schema[i] = test_below(6) ? 0 : (int)test_below(3);
    }
}

TEST(cuts_are_those_of_the_rule) {
    static int64_t want[CUTS_MAX];
    for (int round = 0; round < test_rounds(400); round++) {
        struct case_ x;
        random_case(&x);
        CHECK_OK_ERR(run_cutter(&x), &err);
        uint32_t n = naive(&x, want);
        CHECK_EQ(n_cuts, n);
        CHECK_MEM_EQ(cuts, want, n * sizeof *want);
        CHECK(ordered);
    }
}

/* The same batches as in tests/py/unit/test_cut_twin.py, which has the same sum of the cuts that
 * Python makes. */
TEST(cuts_are_those_of_python) {
    uint64_t state = 1, check = 0;
    for (int round = 0; round < 50; round++) {
        struct case_ x = {.n = 40, .cap = -1};
#define NEXT(n) \
    ((int64_t)((state = state * 6364136223846793005u + 1442695040888963407u) >> 33) % (n))
        x.target = 1 + NEXT(20000);
        if (NEXT(3) == 0) x.cap = NEXT(3000);
        for (int i = 0; i < x.n; i++) {
            int64_t kind = NEXT(20), small = NEXT(300), large = NEXT(5000);
            x.rows[i] = kind == 0 ? large : kind < 4 ? 0 : small;
            x.schema[i] = NEXT(8) == 0 ? 1 : 0;
        }
        CHECK_OK_ERR(run_cutter(&x), &err);
        for (uint32_t i = 0; i < n_cuts; i++) check = check * 1000003 + (uint64_t)cuts[i] + 1;
        check = check * 1000003 + n_cuts;
    }
    CHECK_EQ(check, UINT64_C(119516640750622573));
}

TEST(cutting_without_memory) {
    struct case_ x = {.n = 6,
                      .target = 1000,
                      .cap = -1,
                      .rows = {10, 0, 30, 500, 20, 20},
                      .schema = {0, 0, 0, 0, 1, 1}};
    int64_t before = sk_mem_blocks(SK_TAG_N);
    for (rig.fail_at = 1;; rig.fail_at++) {
        sk_rc rc = run_cutter(&x);
        CHECK_RC(rc, rig.failed ? SK_ENOMEM : SK_OK);
        CHECK_EQ(sk_mem_blocks(SK_TAG_N), before);
        if (!rig.failed) break;
    }
    CHECK(rig.fail_at > 20);
}

static sk_rc count_rows(void *ctx, struct sk_block_plan *plan, struct sk_err *e SK_UNUSED) {
    *(uint64_t *)ctx += sk_block_plan_sizes(plan).n_rows;
    n_cuts++;
    return SK_OK;
}
static void leave_alone(struct ArrowArray *a) { a->release = NULL; }

TEST(types_that_plans_cannot_join) { /* dictionaries, views, unions, run ends */
    struct zoo z;
    bool hit = true;
    make_zoo(&z);
    int64_t before = sk_mem_blocks(SK_TAG_N);
    for (int64_t nth = 1; hit; nth++) {
        struct sk_cutter *c;
        struct sk_schema *schema;
        struct sk_batch *b;
        uint64_t rows = 0;
        n_cuts = 0;
        CHECK_OK_ERR(sk_cutter_create(1 << 20, -1, count_rows, &rows, &c, &err), &err);
        sk_mem_fail_at(nth);
        sk_rc rc = SK_OK;
        for (int i = 0; rc == SK_OK && i < 3; i++) {
            struct ArrowArray a = z.batch.array;
            a.release = leave_alone;
            rc = sk_schema_copy(&z.batch.schema, &schema, &err);
            if (rc == SK_OK) rc = sk_batch_take(schema, &a, &b, &err);
            if (rc == SK_OK) rc = sk_cutter_push(c, b, &err);
        }
        if (rc == SK_OK) rc = sk_cutter_end(c, &err);
        hit = sk_mem_failed();
        sk_mem_fail_at(0);
        sk_cutter_destroy(c);
        CHECK_RC(rc, hit ? SK_ENOMEM : SK_OK);
        if (!hit) CHECK_EQ(rows, 15);
        if (!hit) CHECK_EQ(n_cuts, 1);
        CHECK_EQ(sk_mem_blocks(SK_TAG_N), before);
    }
}

/* ---- gathered batches ------------------------------------------------------------------------ */

TEST(gathered_batches) {
    struct sk_gathered g = {.some = false};
    struct sk_batch *out;
    CHECK_OK_ERR(sk_gathered_rest(&g, &out, &err), &err);
    CHECK(!out);
    CHECK_OK_ERR(sk_gathered_add(&g, rig_numbers("a", NULL, 0), 100, &out, &err), &err);
    CHECK_OK_ERR(sk_gathered_rest(&g, &out, &err), &err);
    CHECK(out && !out->array.length); /* the empty batch keeps the columns */
    sk_batch_destroy(out);
    for (int i = 0; i < 3; i++) {
        CHECK_OK_ERR(sk_gathered_add(&g, rig_numbers("a", NULL, 6), 100, &out, &err), &err);
        CHECK_EQ(out != NULL, i == 2); /* 3 * 48 bytes are more than 100 */
    }
    CHECK_EQ(out->array.length, 12);
    CHECK_EQ(rig_at(out, 0, 7), 1);
    sk_batch_destroy(out);
    CHECK_RC(sk_gathered_add(&g, rig_numbers("b", NULL, 6), 1000, &out, &err), SK_EINVAL);
    CHECK_STR_HAS(err.msg, "column 0 is 'b' (format \"l\"), and was 'a' (format \"l\") before");
    CHECK_OK_ERR(sk_gathered_add(&g, rig_numbers("a", NULL, 0), 1000, &out, &err), &err);
    CHECK_OK_ERR(sk_gathered_rest(&g, &out, &err), &err);
    CHECK_EQ(out->array.length, 6);
    sk_batch_destroy(out);
    CHECK_OK_ERR(sk_gathered_rest(&g, &out, &err), &err);
    CHECK(!out); /* there were rows, so that no empty batch follows */
    sk_gathered_reset(&g);
}

/* ---- columns and groups ---------------------------------------------------------------------- */

TEST(columns_by_name) {
    uint8_t wire[200];
    const char *names[] = {"c", "a", "c"}, *as[] = {"c", "x", "again"};
    struct sk_columns *c;
    struct sk_batch *out;
    struct sk_wr w = sk_wr_init(wire, sizeof wire);
    sk_columns_write(&w, 3, names, as);
    for (size_t cut = 0; cut < w.n; cut++)
        CHECK_RC(sk_columns_read((struct sk_bytes){wire, cut}, &c, &err), SK_ECORRUPT);
    CHECK_OK_ERR(sk_columns_read((struct sk_bytes){wire, w.n}, &c, &err), &err);
    CHECK_EQ(sk_columns_n(c), 3);
    const char *inputs[] = {"a,b,c", "c,a", "a,b,c"};
    for (size_t i = 0; i < SK_COUNT(inputs); i++) { /* the places change with the schema */
        CHECK_OK_ERR(sk_columns_pick(c, rig_numbers(inputs[i], NULL, 2), &out, &err), &err);
        CHECK_EQ(out->array.n_children, 3);
        CHECK_STR_EQ(out->schema->s.children[1]->name, "x");
        CHECK_EQ(rig_at(out, 0, 1), i == 1 ? 2 : 5);
        CHECK_EQ(rig_at(out, 1, 1), 3);
        CHECK_EQ(rig_at(out, 2, 1), rig_at(out, 0, 1));
        sk_batch_destroy(out);
    }
    CHECK_RC(sk_columns_pick(c, rig_numbers("a,b", NULL, 2), &out, &err), SK_EINVAL);
    CHECK_STR_EQ(err.msg, "there is no column 'c'; the columns are 'a', 'b'");
    sk_columns_destroy(c);
}

TEST(groups_of_rows) {
    uint8_t wire[100];
    const char *keys[] = {"k"};
    struct sk_groups *g;
    const uint32_t *start;
    uint32_t n;
    struct sk_wr w = sk_wr_init(wire, sizeof wire);
    sk_groups_write(&w, keys, 1);
    for (size_t cut = 0; cut < w.n; cut++)
        CHECK_RC(sk_groups_read((struct sk_bytes){wire, cut}, &g, &err), SK_ECORRUPT);
    CHECK_OK_ERR(sk_groups_read((struct sk_bytes){wire, w.n}, &g, &err), &err);
    for (int round = 0; round < test_rounds(50); round++) {
        int64_t v[100], rows = (int64_t)test_below(100);
        for (int64_t i = 0; i < rows; i++) v[i] = (i ? v[i - 1] : 0) + !test_below(4);
        struct sk_batch *b = rig_numbers("k", v, rows);
        CHECK_OK_ERR(sk_groups_find(g, b, &start, &n, &err), &err);
        uint32_t want = 0;
        for (int64_t i = 0; i < rows; i++)
            if (!i || v[i] != v[i - 1]) {
                CHECK(want < n);
                CHECK_EQ(start[want++], i);
            }
        CHECK_EQ(n, want);
        sk_batch_destroy(b);
    }
    struct sk_batch *other = rig_numbers("x", NULL, 3);
    CHECK_RC(sk_groups_find(g, other, &start, &n, &err), SK_EINVAL);
    CHECK_STR_HAS(err.msg, "there is no column 'k'");
    sk_batch_destroy(other);
    sk_groups_destroy(g);
}

TEST(columns_and_groups_without_memory) {
    uint8_t wire[2][100];
    const char *keys[] = {"a"};
    struct sk_wr columns = sk_wr_init(wire[0], 100), groups = sk_wr_init(wire[1], 100);
    sk_columns_write(&columns, 1, keys, NULL);
    sk_groups_write(&groups, keys, 1);
    int64_t before = sk_mem_blocks(SK_TAG_N);
    bool hit = true;
    for (int64_t nth = 1; hit; nth++) {
        struct sk_batch *b = rig_numbers("a,b", NULL, 9), *out = NULL;
        struct sk_columns *c = NULL;
        struct sk_groups *g = NULL;
        const uint32_t *start;
        uint32_t n;
        sk_mem_fail_at(nth);
        sk_rc rc = sk_columns_read((struct sk_bytes){wire[0], columns.n}, &c, &err);
        if (rc == SK_OK) {
            rc = sk_columns_pick(c, b, &out, &err);
            if (rc != SK_OK) out = NULL;
        } else {
            sk_batch_destroy(b);
            c = NULL;
        }
        if (rc == SK_OK) rc = sk_groups_read((struct sk_bytes){wire[1], groups.n}, &g, &err);
        if (rc == SK_OK) rc = sk_groups_find(g, out, &start, &n, &err);
        hit = sk_mem_failed();
        sk_mem_fail_at(0);
        CHECK_RC(rc, hit ? SK_ENOMEM : SK_OK);
        sk_columns_destroy(c);
        sk_groups_destroy(g);
        sk_batch_destroy(out);
        CHECK_EQ(sk_mem_blocks(SK_TAG_N), before);
    }
}
