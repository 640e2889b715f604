/* test_shuffle_work.c - maps, a cut and reduces over random batches in one process, against a
 * stable sort of all rows and the rows of each partition.
 *
 * A row's identity is its number, which a column of the batch has. */
#include "kernel_make.h"
#include "shuffle/work.h"
#include "test.h"

#define MAPS_MAX 9
#define VALUES_MAX 4
#define RUNS_MAX (MAPS_MAX * VALUES_MAX)

struct map {
    struct column cols[4];
    struct batch batch;
    int64_t rows, first; /* number of its first row */
    int64_t *ids;
};

struct pack {              /* a value that was written */
    struct sk_value value; /* its numbers, with a copy of the parts */
    uint8_t *bytes;
};

static struct sk_err err;

static void map_make(struct map *m, const char *const *formats, int n_keys, int64_t rows,
                     int64_t first, uint64_t seed) {
    m->rows = rows;
    m->first = first;
    for (int i = 0; i < n_keys; i++)
        column_make(&m->cols[i], formats[i], rows,
                    (struct column_how){
                        .seed = seed + (uint64_t)i, .distinct = 9, .nulls = 15, .prefix = 7});
    struct column *id = &m->cols[n_keys];
    column_make(id, "l", rows, (struct column_how){.seed = 1});
    m->ids = sk_alloc(SK_TAG_TEST, (size_t)(rows + 1) * sizeof *m->ids);
    for (int64_t i = 0; i < rows; i++) m->ids[i] = first + i;
    id->array.offset = 0;
    id->array.null_count = 0;
    id->buffers[0] = NULL;
    id->buffers[1] = m->ids;
    batch_make(&m->batch, m->cols, n_keys + 1, rows, 0);
    static const char *const names[] = {"k0", "k1", "k2", "k3"};
    for (int i = 0; i < n_keys; i++) m->cols[i].schema.name = names[i];
    id->schema.name = "id";
}

static void map_free(struct map *m, int n_keys) {
    for (int i = 0; i <= n_keys; i++) column_free(&m->cols[i]);
    sk_free(m->ids);
}

static struct pack written(const struct sk_value *v) {
    struct pack p = {.value = *v, .bytes = sk_alloc_aligned(SK_TAG_TEST, SK_BLOCK_ALIGN, v->size)};
    sk_value_write(v, p.bytes);
    p.value.parts = sk_memdup(SK_TAG_TEST, v->parts, v->n * sizeof *v->parts);
    CHECK(v->kind == SK_VALUE_BLOCK || v->size % 64 == 0);
    return p;
}

static void pack_free(struct pack *p) {
    sk_free(p->bytes);
    sk_free(p->value.parts);
}

struct blocks { /* the batches over some bytes */
    struct ArrowSchema schema[4096];
    struct ArrowArray array[4096];
    const struct ArrowArray *list[4096];
    uint32_t n;
};

static void blocks_open(struct blocks *b, const uint8_t *p, uint64_t n) {
    while (n) {
        struct sk_block_info info;
        CHECK(b->n < SK_COUNT(b->list));
        CHECK_OK_ERR(sk_block_info(p, n, &info, &err), &err);
        CHECK_OK_ERR(sk_block_validate(p, n, &err), &err);
        CHECK_OK_ERR(sk_block_export(p, n, 0, UINT64_MAX, (struct sk_block_owner){NULL, NULL},
                                     &b->schema[b->n], &b->array[b->n], &err),
                     &err);
        b->list[b->n] = &b->array[b->n];
        b->n++;
        uint64_t step = SK_MIN(SK_ALIGN(info.total_bytes, 64), n);
        p += step;
        n -= step;
    }
}

static void blocks_close(struct blocks *b) {
    for (uint32_t i = 0; i < b->n; i++) {
        b->schema[i].release(&b->schema[i]);
        b->array[i].release(&b->array[i]);
    }
    b->n = 0;
}

static int64_t block_ends[8192]; /* in `got`: where the blocks of the last reduce end */

/* Appends the ids of the rows of all blocks of a reduce behind got[n]. */
static int64_t reduced(const struct sk_what *what, const struct sk_reduce_input *in, int64_t *got,
                       int64_t n, uint32_t *n_blocks) {
    struct sk_work *w;
    struct sk_value *v;
    struct blocks *b = sk_calloc(SK_TAG_TEST, sizeof *b);
    CHECK_OK_ERR(sk_work_reduce(what, in, &w, &err), &err);
    for (*n_blocks = 0;; ++*n_blocks) {
        CHECK_OK_ERR(sk_work_next(w, &v, &err), &err);
        if (!v) break;
        CHECK_EQ(v->kind, SK_VALUE_BLOCK);
        struct pack p = written(v);
        blocks_open(b, p.bytes, v->size);
        CHECK_EQ(b->array[0].length, v->rows);
        const int64_t *ids =
            (const int64_t *)b->array[0].children[b->array[0].n_children - 1]->buffers[1];
        for (uint64_t i = 0; i < v->rows; i++) got[n++] = ids[i];
        CHECK_LT(*n_blocks, SK_COUNT(block_ends));
        block_ends[*n_blocks] = n;
        blocks_close(b);
        pack_free(&p);
        sk_value_destroy(v);
    }
    sk_work_destroy(w);
    sk_free(b);
    return n;
}

static struct sk_what *what_of(enum sk_what_kind kind, int n_keys, uint32_t partitions,
                               bool groups) {
    static char names[4][3] = {"k0", "k1", "k2", "k3"};
    struct sk_what_key keys[4];
    struct sk_what w = {.kind = kind,
                        .n_partitions = partitions,
                        .groups = groups,
                        .seed = 7,
                        .n_keys = (uint32_t)n_keys,
                        .keys = keys},
                   *back;
    uint8_t wire[512];
    for (int i = 0; i < n_keys; i++)
        keys[i] = (struct sk_what_key){names[i], test_below(2), test_below(2)};
    size_t n = sk_what_write(&w, wire, sizeof wire);
    CHECK_OK_ERR(sk_what_read((struct sk_bytes){wire, n}, &back, &err), &err);
    CHECK(back->kind == kind && back->n_partitions == partitions && back->groups == groups &&
          back->n_keys == (uint32_t)n_keys);
    for (int i = 0; i < n_keys; i++)
        CHECK(!strcmp(back->keys[i].name, names[i]) &&
              back->keys[i].descending == keys[i].descending);
    for (size_t cut = 0; cut < n; cut++) {
        struct sk_what *bad;
        CHECK_RC(sk_what_read((struct sk_bytes){wire, cut}, &bad, &err), SK_EINVAL);
    }
    return back;
}

/* ---- sort ---- */

struct row {
    const struct map *map;
    int64_t row;
};
static const struct sk_what *by;
static const char *const *by_formats;

static int row_compare_keys(const struct row *a, const struct row *b) {
    for (uint32_t k = 0; k < by->n_keys; k++) {
        int r = cell_compare(by_formats[k], &a->map->cols[k].cells[a->row],
                             &b->map->cols[k].cells[b->row], by->keys[k].descending,
                             by->keys[k].nulls_first);
        if (r) return r;
    }
    return 0;
}
static int row_compare(const void *x, const void *y) {
    const struct row *a = x, *b = y;
    int r = row_compare_keys(a, b);
    int64_t i = a->map->first + a->row, j = b->map->first + b->row;
    return r ? r : i < j ? -1 : i > j;
}

/* Makes the runs of all maps; returns the number of runs. */
static uint32_t run_maps(const struct sk_what *what, struct map *maps, uint32_t n_maps,
                         struct pack *samples, struct pack *runs) {
    uint32_t n_runs = 0;
    for (uint32_t i = 0; i < n_maps; i++) {
        struct sk_work *w;
        struct sk_value *v;
        uint64_t rows = 0;
        uint32_t values = (uint32_t)test_below(VALUES_MAX + 1), first = n_runs;
        struct sk_map_input in = {.schema = &maps[i].batch.schema,
                                  .array = &maps[i].batch.array,
                                  .seq = i,
                                  .values = values};
        CHECK_OK_ERR(sk_work_map(what, &in, &w, &err), &err);
        for (int step = 0;; step++) {
            CHECK_OK_ERR(sk_work_next(w, &v, &err), &err);
            if (!v) break;
            CHECK_EQ(v->kind, step % 2 ? SK_VALUE_RUN : SK_VALUE_SAMPLE);
            *(step % 2 ? &runs[n_runs] : &samples[n_runs]) = written(v);
            if (step % 2) {
                rows += v->rows;
                n_runs++;
            }
            sk_value_destroy(v);
        }
        if (!what->firsts) CHECK_EQ(rows, maps[i].rows);
        CHECK(n_runs > first && n_runs - first <= SK_MAX(values, 1u));
        sk_work_destroy(w);
    }
    return n_runs;
}

/* Makes all values of a work; returns their number. For runs, samples and runs alternate. */
static uint32_t all_values(struct sk_work *w, struct pack *samples, struct pack *out,
                           uint32_t cap) {
    struct sk_value *v;
    uint32_t n = 0;
    for (uint32_t step = 0;; step++) {
        CHECK_OK_ERR(sk_work_next(w, &v, &err), &err);
        if (!v) break;
        CHECK_LT(n, cap);
        if (samples) CHECK_EQ(v->kind, step % 2 ? SK_VALUE_RUN : SK_VALUE_SAMPLE);
        if (samples && step % 2 == 0) samples[n] = written(v);
        else out[n++] = written(v);
        sk_value_destroy(v);
    }
    sk_work_destroy(w);
    return n;
}

/* Merges values of the same partitions, or runs, into one or a few. */
static uint32_t merged(const struct sk_what *what, struct pack *const *p, uint32_t n,
                       struct pack *samples, struct pack *out, uint32_t cap, uint32_t values) {
    struct blocks *b = sk_calloc(SK_TAG_TEST, sizeof *b);
    struct sk_slice slices[RUNS_MAX];
    uint32_t *lengths[RUNS_MAX], from[RUNS_MAX],
        n_parts = p[0]->value.kind == SK_VALUE_PARTS ? p[0]->value.n : 0, made = 0;
    for (uint32_t i = 0; i < n; i++) {
        from[i] = b->n;
        blocks_open(b, p[i]->bytes, p[i]->value.size);
        slices[i] = (struct sk_slice){.n = b->n - from[i]};
        CHECK(p[i]->value.n == n_parts || !n_parts);
        CHECK(lengths[i] = sk_calloc(SK_TAG_TEST, (n_parts + 1) * sizeof **lengths));
        for (uint32_t k = 0; k < n_parts; k++)
            lengths[i][k] = (uint32_t)(p[i]->value.parts[k].len / 64);
    }
    for (uint32_t i = 0; i < n; i++) slices[i].batches = b->list + from[i];
    struct sk_merge_input in = {.schema = &b->schema[0],
                                .slices = slices,
                                .n_slices = n,
                                .first = p[0]->value.first,
                                .n = n_parts,
                                .parts = (const uint32_t *const *)lengths,
                                .values = values};
    struct sk_work *w;
    if (n_parts && b->n) { /* also tries a pack with more or fewer blocks than its parts say */
        for (uint32_t k = 0; k < n_parts; k++) {
            if (!lengths[0][k]) continue;
            lengths[0][k] = 0;
            CHECK_RC(sk_work_merge(what, &in, &w, &err), SK_EINVAL);
            lengths[0][k] = 1;
            break;
        }
    }
    if (b->n) {
        CHECK_OK_ERR(sk_work_merge(what, &in, &w, &err), &err);
        made = all_values(w, samples, out, cap);
    }
    blocks_close(b);
    for (uint32_t i = 0; i < n; i++) sk_free(lengths[i]);
    sk_free(b);
    return made;
}

/* Merges runs, some neighbouring ones at a time. */
static uint32_t merge_runs(const struct sk_what *what, struct pack *samples, struct pack *runs,
                           uint32_t n) {
    struct pack new_samples[RUNS_MAX], new_runs[RUNS_MAX], *group[RUNS_MAX];
    uint32_t made = 0;
    for (uint32_t i = 0, k; i < n; i += k) {
        k = 1 + (uint32_t)test_below(6);
        k = SK_MIN(k, n - i);
        for (uint32_t j = 0; j < k; j++) group[j] = &runs[i + j];
        made += merged(what, group, k, new_samples + made, new_runs + made, RUNS_MAX - made,
                       (uint32_t)test_below(k + 1));
    }
    for (uint32_t i = 0; i < n; i++) {
        pack_free(&samples[i]);
        pack_free(&runs[i]);
    }
    memcpy(samples, new_samples, made * sizeof *samples);
    memcpy(runs, new_runs, made * sizeof *runs);
    return made;
}

static void check_sort(const char *const *formats, int n_keys, struct map *maps, uint32_t n_maps,
                       int64_t rows, uint32_t n_partitions, bool groups) {
    struct sk_what *what = what_of(SK_WHAT_SORT, n_keys, 0, groups);
    what->firsts = groups && test_below(2);
    what->whole_groups = groups && test_below(2);
    struct pack samples[RUNS_MAX], runs[RUNS_MAX], bounds = {.bytes = NULL};
    uint32_t n_runs = run_maps(what, maps, n_maps, samples, runs);
    if (test_below(2)) n_runs = merge_runs(what, samples, runs, n_runs);
    struct sk_value_part *cuts = sk_calloc(SK_TAG_TEST, n_runs * n_partitions * sizeof *cuts);
    struct blocks *b = sk_calloc(SK_TAG_TEST, sizeof *b);
    struct sk_work *w;
    struct sk_value *v;
    for (uint32_t i = 0; i < n_runs; i++) blocks_open(b, samples[i].bytes, samples[i].value.size);
    CHECK_EQ(b->n, n_runs);
    CHECK_OK_ERR(sk_work_cut(what, &b->schema[0], b->list, n_runs, n_partitions, &w, &err), &err);
    for (bool first = true;; first = false) {
        CHECK_OK_ERR(sk_work_next(w, &v, &err), &err);
        if (!v) break;
        CHECK_EQ(v->kind, first ? SK_VALUE_BOUNDS : SK_VALUE_CUTS);
        if (first) bounds = written(v);
        for (uint32_t i = 0; !first && i < v->n; i++)
            cuts[v->run * n_partitions + v->first + i] = v->parts[i];
        sk_value_destroy(v);
    }
    sk_work_destroy(w);
    blocks_close(b);

    struct row *want = sk_alloc(SK_TAG_TEST, (size_t)(rows + 1) * sizeof *want);
    int64_t *got = sk_alloc(SK_TAG_TEST, (size_t)(rows + 1) * sizeof *got), n = 0, seen = 0;
    for (uint32_t i = 0; i < n_maps; i++)
        for (int64_t r = 0; r < maps[i].rows; r++) want[n++] = (struct row){&maps[i], r};
    by = what;
    by_formats = formats;
    qsort(want, (size_t)rows, sizeof *want, row_compare);
    n = 0;
    for (int64_t r = 0; what->firsts && r < rows; r++)
        if (!n || row_compare_keys(&want[n - 1], &want[r]) != 0) want[n++] = want[r];
    if (what->firsts) rows = n;
    n = 0;
    for (uint32_t p = 0; p < n_partitions; p++) {
        struct sk_slice slices[RUNS_MAX];
        uint32_t n_slices = 0, n_blocks, from[RUNS_MAX];
        for (uint32_t r = 0; r < n_runs; r++) {
            struct sk_value_part c = cuts[r * n_partitions + p];
            if (!c.len) continue;
            from[n_slices] = b->n;
            blocks_open(b, runs[r].bytes + c.off, c.len);
            slices[n_slices] = (struct sk_slice){.run = r, .n = b->n - from[n_slices]};
            n_slices++;
        }
        for (uint32_t s = 0; s < n_slices; s++) slices[s].batches = b->list + from[s];
        uint32_t at = b->n;
        blocks_open(b, bounds.bytes, bounds.value.size);
        struct sk_reduce_input in = {.schema = &b->schema[0],
                                     .slices = slices,
                                     .n_slices = n_slices,
                                     .first = p,
                                     .end = p + 1,
                                     .n = n_partitions,
                                     .target_bytes = 1 + test_below(20000),
                                     .bounds_schema = &b->schema[at],
                                     .bounds = b->list[at]};
        n_blocks = 0;
        if (n_slices) n = reduced(what, &in, got, n, &n_blocks);
        for (uint32_t i = 0; what->whole_groups && i + 1 < n_blocks; i++)
            CHECK(row_compare_keys(&want[block_ends[i] - 1], &want[block_ends[i]]) != 0);
        if (groups && n > seen && seen) CHECK(row_compare_keys(&want[seen - 1], &want[seen]) != 0);
        seen = n;
        blocks_close(b);
    }
    CHECK_EQ(n, rows);
    for (int64_t i = 0; i < rows; i++) CHECK_EQ(got[i], want[i].map->first + want[i].row);
    for (uint32_t i = 0; i < n_runs; i++) {
        pack_free(&samples[i]);
        pack_free(&runs[i]);
    }
    pack_free(&bounds);
    sk_free(want);
    sk_free(got);
    sk_free(cuts);
    sk_free(b);
    sk_what_destroy(what);
}

TEST(sort_of_maps_is_the_sort_of_all_rows) {
    static const int64_t sizes[] = {0, 1, 20, 700, 4000};
    for (int round = 0; round < test_rounds(60); round++) {
        struct map maps[MAPS_MAX];
        const char *formats[3];
        uint32_t n_maps = 1 + (uint32_t)test_below(MAPS_MAX);
        int n_keys = 1 + (int)test_below(3);
        int64_t rows = 0;
        uint64_t seed = test_rand();
        for (int i = 0; i < n_keys; i++) formats[i] = key_formats[test_below(n_key_formats)];
        for (uint32_t i = 0; i < n_maps; i++, rows += maps[i - 1].rows)
            map_make(&maps[i], formats, n_keys, sizes[test_below(5)], rows, seed);
        check_sort(formats, n_keys, maps, n_maps, rows,
                   1 + (uint32_t)test_below(round % 4 ? 5 : 70), test_below(3) == 0);
        for (uint32_t i = 0; i < n_maps; i++) map_free(&maps[i], n_keys);
    }
}

/* A map makes several runs, each of a range of keys: bounds are first rows of pages, so the cuts
 * have each page once, and no page of a run that ends before the bound. */
TEST(a_run_that_ends_before_a_partition_gives_it_no_page) {
    enum { ROWS = 40000, PARTITIONS = 16 };
    static struct map m;
    struct sk_what_key key = {.name = (char[]){"id"}, .descending = test_below(2)};
    struct sk_what what = {.kind = SK_WHAT_SORT, .n_keys = 1, .keys = &key};
    struct pack samples[VALUES_MAX], runs[VALUES_MAX];
    struct blocks *b = sk_calloc(SK_TAG_TEST, sizeof *b);
    struct sk_work *w;
    struct sk_value *v;
    uint64_t in_runs = 0, in_cuts = 0, n_parts = 0, rows = 0;
    map_make(&m, (const char *[]){"l"}, 1, ROWS, 0, 1);
    struct sk_map_input in = {
        .schema = &m.batch.schema, .array = &m.batch.array, .values = VALUES_MAX};
    CHECK_OK_ERR(sk_work_map(&what, &in, &w, &err), &err);
    CHECK_EQ(all_values(w, samples, runs, VALUES_MAX), VALUES_MAX);
    for (uint32_t r = 0; r < VALUES_MAX; r++) {
        in_runs += runs[r].value.size;
        blocks_open(b, samples[r].bytes, samples[r].value.size);
    }
    CHECK_OK_ERR(sk_work_cut(&what, &b->schema[0], b->list, VALUES_MAX, PARTITIONS, &w, &err),
                 &err);
    for (;;) {
        CHECK_OK_ERR(sk_work_next(w, &v, &err), &err);
        if (!v) break;
        for (uint32_t i = 0; v->kind == SK_VALUE_CUTS && i < v->n; i++) {
            in_cuts += v->parts[i].len;
            rows += v->parts[i].rows;
            n_parts += v->parts[i].len > 0;
        }
        sk_value_destroy(v);
    }
    sk_work_destroy(w);
    CHECK_EQ(in_cuts, in_runs);
    CHECK_EQ(rows, ROWS);
    CHECK_LT(n_parts, PARTITIONS + VALUES_MAX);
    blocks_close(b);
    for (uint32_t r = 0; r < VALUES_MAX; r++) {
        pack_free(&samples[r]);
        pack_free(&runs[r]);
    }
    map_free(&m, 1);
    sk_free(b);
}

/* ---- partitions ---- */

static int compare_ids(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

#define PACKS_MAX 40

/* Merges the packs of some neighbouring maps. */
static uint32_t merge_maps(const struct sk_what *what, struct pack (*packs)[PACKS_MAX],
                           uint32_t *n_values, uint32_t n_maps, bool one_value) {
    uint32_t made = 0;
    for (uint32_t i = 0, k; i < n_maps; i += k) {
        struct pack out[PACKS_MAX], *group[MAPS_MAX];
        uint32_t n = 0;
        k = 1 + (uint32_t)test_below(4);
        k = SK_MIN(k, n_maps - i);
        for (uint32_t v = 0; v < n_values[i]; v++) {
            for (uint32_t j = 0; j < k; j++) group[j] = &packs[i + j][v];
            uint32_t first = group[0]->value.first, end = first + group[0]->value.n,
                     now = merged(what, group, k, NULL, out + n, PACKS_MAX - n,
                                  one_value ? 1 : (uint32_t)test_below(4));
            if (!now) { /* no pack has rows of these partitions */
                out[n] = (struct pack){
                    .value = {.kind = SK_VALUE_PARTS, .first = first, .n = end - first}};
                CHECK(out[n].value.parts =
                          sk_calloc(SK_TAG_TEST, (end - first) * sizeof *out[n].value.parts));
                now = 1;
            }
            for (uint32_t j = n; j < n + now; j++, first += out[j - 1].value.n)
                CHECK_EQ(out[j].value.first, first);
            CHECK_EQ(first, end);
            n += now;
            for (uint32_t j = 0; j < k; j++) pack_free(group[j]);
        }
        memcpy(packs[made], out, n * sizeof *out);
        n_values[made++] = n;
    }
    return made;
}

/* Moves all rows through an exchange by parts, with `n` partitions for each reduce; got: the ids in
 * order. */
static void exchange(const struct sk_what *what, struct map *maps, uint32_t n_maps, uint32_t step,
                     int64_t *got, int64_t rows, int64_t *ends) {
    static struct pack packs[MAPS_MAX][PACKS_MAX];
    /* a slice is of one value */
    uint32_t n_values[MAPS_MAX] = {0}, n_blocks, values = step > 1 ? 1 : (uint32_t)test_below(9);
    bool merge = test_below(2);
    struct blocks *b = sk_calloc(SK_TAG_TEST, sizeof *b);
    for (uint32_t i = 0; i < n_maps; i++) {
        struct sk_work *w;
        struct sk_value *v;
        uint32_t next = 0;
        struct sk_map_input in = {
            .schema = &maps[i].batch.schema, .array = &maps[i].batch.array, .seq = i};
        in.values = merge || step > 1 ? values : (uint32_t)test_below(9);
        CHECK_OK_ERR(sk_work_map(what, &in, &w, &err), &err);
        for (;; n_values[i]++) {
            CHECK_OK_ERR(sk_work_next(w, &v, &err), &err);
            if (!v) break;
            CHECK_EQ(v->kind, SK_VALUE_PARTS);
            CHECK_EQ(v->first, next);
            next += v->n;
            packs[i][n_values[i]] = written(v);
            sk_value_destroy(v);
        }
        CHECK_EQ(next, what->n_partitions);
        sk_work_destroy(w);
    }
    if (merge) n_maps = merge_maps(what, packs, n_values, n_maps, step > 1);
    int64_t n = 0;
    for (uint32_t p = 0; p < what->n_partitions; p += step) {
        struct sk_slice slices[MAPS_MAX];
        uint32_t end = SK_MIN(p + step, what->n_partitions), n_slices = 0, from[MAPS_MAX];
        for (uint32_t i = 0; i < n_maps; i++) {
            uint64_t at = UINT64_MAX, to = 0, in_it = 0;
            const struct pack *k = packs[i];
            while (p >= k->value.first + k->value.n) k++;
            for (uint32_t q = p; q < end; q++) {
                struct sk_value_part part = k->value.parts[q - k->value.first];
                if (!part.len) continue;
                at = SK_MIN(at, part.off);
                to = part.off + part.len;
                in_it += part.rows;
            }
            if (!to) continue;
            from[n_slices] = b->n;
            blocks_open(b, k->bytes + at, to - at);
            slices[n_slices] = (struct sk_slice){
                .n = b->n - from[n_slices], .partition = p, .columns_only = !in_it};
            n_slices++;
        }
        for (uint32_t s = 0; s < n_slices; s++) slices[s].batches = b->list + from[s];
        struct sk_reduce_input in = {.schema = &b->schema[0],
                                     .slices = slices,
                                     .n_slices = n_slices,
                                     .first = p,
                                     .end = end,
                                     .n = what->n_partitions,
                                     .target_bytes = 1 + test_below(20000)};
        if (n_slices) n = reduced(what, &in, got, n, &n_blocks);
        for (uint32_t q = p; ends && q < end; q++) ends[q] = n;
        blocks_close(b);
    }
    CHECK_EQ(n, rows);
    for (uint32_t i = 0; i < n_maps; i++)
        for (uint32_t k = 0; k < n_values[i]; k++) pack_free(&packs[i][k]);
    sk_free(b);
}

static void check_parts(enum sk_what_kind kind, const char *const *formats, struct map *maps,
                        uint32_t n_maps, int64_t rows, uint32_t partitions) {
    struct sk_what *what = what_of(kind, kind == SK_WHAT_HASH, partitions, false);
    int64_t *got = sk_alloc(SK_TAG_TEST, (size_t)(rows + 1) * sizeof *got),
            *again = sk_alloc(SK_TAG_TEST, (size_t)(rows + 1) * sizeof *got);
    int64_t *ends = sk_calloc(SK_TAG_TEST, (partitions + 1) * sizeof *ends);
    exchange(what, maps, n_maps, 1, got, rows, ends + 1);
    if (kind == SK_WHAT_RANDOM) { /* a reduce may have any number of partitions */
        /* a slice is of one value */
        uint32_t step = partitions <= SK_VALUE_PARTS_MAX ? 1 + (uint32_t)test_below(partitions) : 1;
        exchange(what, maps, n_maps, step, again, rows, NULL);
        CHECK(!memcmp(got, again, (size_t)rows * sizeof *got));
    }
    for (uint32_t p = 0; p < partitions; p++) {
        bool in_order = kind != SK_WHAT_RANDOM;
        for (int64_t i = ends[p] + 1; in_order && i < ends[p + 1]; i++) CHECK(got[i - 1] < got[i]);
        if (kind == SK_WHAT_EVEN) CHECK_LE(ends[p + 1] - ends[p], rows / partitions + n_maps + 1);
    }
    if (kind == SK_WHAT_HASH) { /* checks that equal keys are in one partition */
        uint32_t *of = sk_alloc(SK_TAG_TEST, (size_t)(rows + 1) * sizeof *of);
        for (uint32_t p = 0; p < partitions; p++)
            for (int64_t i = ends[p]; i < ends[p + 1]; i++) of[got[i]] = p;
        for (uint32_t i = 0; i < n_maps; i++)
            for (int64_t r = 0; r < maps[i].rows; r++)
                for (int64_t q = 0; q < maps[0].rows; q++)
                    if (!cell_compare(formats[0], &maps[i].cols[0].cells[r],
                                      &maps[0].cols[0].cells[q], false, false))
                        CHECK_EQ(of[maps[i].first + r], of[maps[0].first + q]);
        sk_free(of);
    }
    qsort(got, (size_t)rows, sizeof *got, compare_ids);
    for (int64_t i = 0; i < rows; i++) CHECK_EQ(got[i], i);
    sk_free(got);
    sk_free(again);
    sk_free(ends);
    sk_what_destroy(what);
}

TEST(partitions_have_all_rows) {
    static const int64_t sizes[] = {0, 1, 20, 300};
    static const uint32_t partitions[] = {1, 2, 7, 96, 250};
    for (int round = 0; round < test_rounds(40); round++) {
        struct map maps[MAPS_MAX];
        const char *formats[] = {key_formats[test_below(n_key_formats)]};
        uint32_t n_maps = 1 + (uint32_t)test_below(MAPS_MAX);
        int64_t rows = 0;
        uint64_t seed = test_rand();
        for (uint32_t i = 0; i < n_maps; i++, rows += maps[i - 1].rows)
            map_make(&maps[i], formats, 1, sizes[test_below(4)], rows, seed);
        check_parts((enum sk_what_kind)(SK_WHAT_RANDOM + test_below(3)), formats, maps, n_maps,
                    rows, partitions[test_below(5)]);
        for (uint32_t i = 0; i < n_maps; i++) map_free(&maps[i], 1);
    }
}

/* A sort with given bounds: rows that equal a bound are behind it if the order is ascending, before
 * it if descending. */
TEST(sort_by_given_bounds) {
    for (int round = 0; round < test_rounds(20); round++) {
        struct column c[2], bound;
        struct batch b, bounds;
        struct sk_what_key key = {(char *)(uintptr_t)"k0", round & 1, false};
        struct sk_what what = {.kind = SK_WHAT_SORT, .n_partitions = 3, .n_keys = 1, .keys = &key};
        int64_t rows = (int64_t)test_below(200), values[200], limits[2] = {10, 20};
        for (int64_t i = 0; i < rows; i++) values[i] = (int64_t)test_below(30);
        if (key.descending) limits[0] = 20, limits[1] = 10;
        column_make(&c[0], "l", rows, (struct column_how){.seed = 1});
        column_make(&bound, "l", 2, (struct column_how){.seed = 1});
        c[0].schema.name = "k0";
        c[0].array.offset = bound.array.offset = 0;
        c[0].array.null_count = bound.array.null_count = 0;
        c[0].buffers[0] = bound.buffers[0] = NULL;
        c[0].buffers[1] = values;
        bound.buffers[1] = limits;
        batch_make(&b, c, 1, rows, 0);
        batch_make(&bounds, &bound, 1, 2, 0);
        struct sk_map_input in = {.schema = &b.schema,
                                  .array = &b.array,
                                  .bounds_schema = &bounds.schema,
                                  .bounds = &bounds.array};
        struct sk_work *w;
        struct sk_value *v;
        CHECK_OK_ERR(sk_work_map(&what, &in, &w, &err), &err);
        CHECK_OK_ERR(sk_work_next(w, &v, &err), &err);
        uint64_t want[3] = {0};
        for (int64_t i = 0; i < rows; i++) want[values[i] >= 20 ? 2 : values[i] >= 10]++;
        for (int p = 0; p < 3; p++) CHECK_EQ(v->parts[p].rows, want[key.descending ? 2 - p : p]);
        sk_value_destroy(v);
        sk_work_destroy(w);
        limits[0] = 30 - limits[0]; /* out of order */
        limits[1] = 30 - limits[1];
        if (rows > 100) CHECK_RC(sk_work_map(&what, &in, &w, &err), SK_EINVAL);
        column_free(&c[0]);
        column_free(&bound);
    }
}

TEST(work_refused) {
    const char *formats[] = {"l"};
    struct map m;
    struct sk_work *w;
    map_make(&m, formats, 1, 10, 0, 1);
    struct sk_map_input in = {.schema = &m.batch.schema, .array = &m.batch.array};
    struct sk_what_key key = {(char *)(uintptr_t)"none", false, false};
    struct sk_what what = {.kind = SK_WHAT_SORT, .n_partitions = 3, .n_keys = 1, .keys = &key};
    CHECK_RC(sk_work_map(&what, &in, &w, &err), SK_EINVAL);
    CHECK_STR_HAS(err.msg, "none");
    what.kind = SK_WHAT_HASH;
    CHECK_RC(sk_work_map(&what, &in, &w, &err), SK_EINVAL);
    enum sk_what_kind kind;
    CHECK_OK(sk_what_kind_find("hash", &kind, &err));
    CHECK_EQ(kind, SK_WHAT_HASH);
    CHECK_RC(sk_what_kind_find("hush", &kind, &err), SK_EINVAL);
    map_free(&m, 1);
}

/* Every allocation of a map and a reduce may fail. */
TEST(work_without_memory) {
    const char *formats[] = {"u"};
    struct map m;
    map_make(&m, formats, 1, 50, 0, 1);
    for (int kind = 0; kind <= SK_WHAT_KINDS; kind++) {
        /* test_shuffle_aggregate.c, test_shuffle_join.c */
        if (kind == SK_WHAT_AGGREGATE || kind == SK_WHAT_JOIN) continue;
        struct sk_what *what =
            what_of(kind < SK_WHAT_KINDS ? (enum sk_what_kind)kind : SK_WHAT_HASH, 1, 3, false);
        what->sorted = kind == SK_WHAT_KINDS;
        struct sk_map_input in = {.schema = &m.batch.schema, .array = &m.batch.array};
        for (int64_t nth = 1;; nth++) {
            struct sk_work *w = NULL;
            struct sk_value *v = NULL;
            sk_mem_fail_at(nth);
            sk_rc rc = sk_work_map(what, &in, &w, &err);
            while (rc == SK_OK) {
                rc = sk_work_next(w, &v, &err);
                if (!v) break;
                sk_value_destroy(v);
            }
            sk_work_destroy(w);
            bool hit = sk_mem_failed();
            sk_mem_fail_at(0);
            CHECK_EQ(rc, hit ? SK_ENOMEM : SK_OK);
            const struct ArrowArray *list[] = {&m.batch.array};
            struct sk_slice slice = {.batches = list, .n = 1};
            struct sk_reduce_input r = {
                .schema = &m.batch.schema, .slices = &slice, .n_slices = 1, .end = 1, .n = 1};
            w = NULL;
            sk_mem_fail_at(nth);
            rc = sk_work_reduce(what, &r, &w, &err);
            while (rc == SK_OK) {
                rc = sk_work_next(w, &v, &err);
                if (!v) break;
                sk_value_destroy(v);
            }
            sk_work_destroy(w);
            bool hit_too = sk_mem_failed();
            sk_mem_fail_at(0);
            CHECK_EQ(rc, hit_too ? SK_ENOMEM : SK_OK);
            if (!hit && !hit_too) break;
        }
        sk_what_destroy(what);
    }
    map_free(&m, 1);
}
