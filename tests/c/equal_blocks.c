/* equal_blocks.c - a program that runs pipelines by skate_data.h and writes their blocks, for
 * tests/py/data/test_equal_to_c.py, which runs the same pipelines in Python.
 *
 *     equal_blocks FOLDER BLOCK_BYTES PIPELINE...
 *
 * FOLDER has the files `left` and `right`, each blocks one behind the other (block/block.h); the
 * blocks that a pipeline gives are written to FOLDER/PIPELINE.blocks in the same way. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "block/block.h"
#include "skate_data.h"

enum { ROWS = 300000, BLOCKS_MAX = 64, RECORD = 10, PARTITIONS = 7 };

static const char *folder;
static uint64_t block_bytes;

static int failed(const struct sk_err *err) {
    fprintf(stderr, "%s\n", err->msg);
    exit(1);
}

SKATE_BATCHES(equal_columns) { /* id, k = id * 7919 % 1000 */
    struct skate_column in = {.name = "id"}, out[] = {{.name = "id"}, {.name = "k"}};
    struct ArrowSchema s;
    struct ArrowArray a;
    int rc = skate_columns(t, schema, batch, &in, 1);
    if (rc || (rc = skate_batch_new(out, 2, (size_t)batch->length, &s, &a))) return rc;
    const int64_t *id = in.data;
    for (int64_t i = 0; i < batch->length; i++) {
        ((int64_t *)out[0].data)[i] = id[i];
        ((int64_t *)out[1].data)[i] = id[i] * 7919 % 1000;
    }
    rc = skate_emit(t, &s, &a);
    s.release(&s);
    return rc;
}

SKATE_BATCHES(equal_same) { return skate_emit(t, schema, batch); }

/* ---- blocks in files ------------------------------------------------------------------------- */

static FILE *open_file(const char *name, const char *suffix, const char *mode) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s%s", folder, name, suffix);
    FILE *f = fopen(path, mode);
    if (!f) perror(path), exit(1);
    return f;
}

static void keep(void *p) { (void)p; }

/* The blocks of a file, as a dataset of arrays. */
static skate_dataset *blocks_of(const char *name) {
    struct sk_err err;
    struct sk_block_info info;
    struct ArrowSchema schema;
    static struct ArrowArray arrays[BLOCKS_MAX];
    size_t n = 0, at = 0, size, got;
    FILE *f = open_file(name, "", "rb");
    if (fseek(f, 0, SEEK_END)) perror(name), exit(1);
    size = (size_t)ftell(f);
    rewind(f);
    uint8_t *p = sk_alloc_aligned(SK_TAG_TEST, SK_BLOCK_ALIGN, SK_ALIGN(size + 1, SK_BLOCK_ALIGN));
    got = p ? fread(p, 1, size, f) : 0;
    fclose(f);
    if (got != size) perror(name), exit(1);
    for (; at < size && n < BLOCKS_MAX; n++) {
        if (n) schema.release(&schema);
        if (sk_block_info(p + at, size - at, &info, &err) ||
            sk_block_export(p + at, info.total_bytes, 0, UINT64_MAX,
                            (struct sk_block_owner){keep, NULL}, &schema, &arrays[n], &err))
            failed(&err);
        at += SK_ALIGN(info.total_bytes, SK_BLOCK_ALIGN);
    }
    skate_dataset *ds = skate_from_arrays(&schema, arrays, n);
    schema.release(&schema);
    sk_free(p);
    return ds;
}

static void write_block(FILE *f, const struct ArrowSchema *s, const struct ArrowArray *a) {
    struct sk_err err;
    struct sk_block_plan *plan;
    uint64_t size;
    if (sk_block_measure(s, a, &plan, &size, &err)) failed(&err);
    size_t room = (size_t)SK_ALIGN(size, SK_BLOCK_ALIGN);
    uint8_t *p = sk_alloc_aligned(SK_TAG_TEST, SK_BLOCK_ALIGN, room);
    memset(p, 0, room);
    sk_block_write(plan, p);
    sk_block_plan_free(plan);
    if (fwrite(p, 1, room, f) != room) perror("write"), exit(1);
    sk_free(p);
}

/* ---- pipelines ------------------------------------------------------------------------------- */

static skate_dataset *records(void) {
    char path[4096];
    const char *paths[] = {path};
    snprintf(path, sizeof path, "%s/records", folder);
    return skate_read_records(paths, 1, RECORD, NULL, NULL);
}

static skate_dataset *grouped(void) {
    static const char *const k[] = {"k"};
    static const struct skate_agg aggs[] = {{.kind = "sum", .column = "id", .as = "sum"},
                                            {.kind = "max", .column = "id", .as = "max"},
                                            {.kind = "mean", .column = "x", .as = "mean"},
                                            {.kind = "count", .as = "rows"}};
    return skate_groupby(blocks_of("left"), k, 1, aggs, SK_COUNT(aggs), NULL);
}

static skate_dataset *joined(unsigned kind) {
    static const char *const left[] = {"k"}, *const right[] = {"r"};
    struct skate_join j = SKATE_OPTS(struct skate_join);
    j.kind = (enum skate_join_kind)kind;
    j.left_keys = left;
    j.right_keys = right;
    j.n_keys = 1;
    j.right_suffix = "_right";
    return skate_join(blocks_of("left"), blocks_of("right"), &j, NULL);
}

static skate_dataset *plan(const char *name) {
    static const char *const k[] = {"k"}, *const some[] = {"s", "id"}, *const as[] = {"text", "id"};
    static const struct skate_key keys[] = {{.column = "k", .descending = true}, {.column = "s"}};
    struct skate_exchange_opts x = SKATE_OPTS(struct skate_exchange_opts);
    skate_dataset *two[2];
    x.partitions = PARTITIONS;
    if (!strcmp(name, "range"))
        return skate_map(skate_range(ROWS, NULL, NULL), "equal_columns", NULL);
    if (!strcmp(name, "records")) return records();
    if (!strcmp(name, "arrays")) return blocks_of("left");
    if (!strcmp(name, "map")) return skate_map(blocks_of("right"), "equal_same", NULL);
    if (!strcmp(name, "select")) return skate_select(blocks_of("left"), some, as, 2);
    if (!strcmp(name, "limit")) return skate_limit(blocks_of("left"), ROWS / 20);
    if (!strcmp(name, "groupby")) return grouped();
    if (!strcmp(name, "distinct")) return skate_distinct(blocks_of("left"), k, 1, NULL);
    if (!strcmp(name, "sort")) return skate_sort(blocks_of("left"), keys, 2, NULL);
    if (!strcmp(name, "random_shuffle")) return skate_random_shuffle(blocks_of("left"), 17, NULL);
    if (!strcmp(name, "repartition")) return skate_repartition(blocks_of("left"), &x);
    if (!strcmp(name, "map_groups"))
        return skate_map_groups(blocks_of("left"), k, 1, "equal_same", NULL, NULL);
    if (!strncmp(name, "join", 4)) return joined((unsigned)atoi(name + 4));
    two[0] = blocks_of("left");
    two[1] = blocks_of(!strcmp(name, "zip") ? "right" : "left");
    if (!strcmp(name, "union")) return skate_union(two, 2);
    if (!strcmp(name, "zip")) return skate_zip(two[0], two[1]);
    return fprintf(stderr, "there is no pipeline %s\n", name), NULL;
}

static int run(const char *name) {
    struct ArrowArrayStream s;
    struct ArrowArray a;
    struct ArrowSchema schema;
    struct skate_run_opts o = SKATE_OPTS(struct skate_run_opts);
    o.block_bytes = block_bytes;
    skate_dataset *ds = plan(name);
    int rc = skate_stream(ds, &o, &s);
    skate_dataset_release(ds);
    if (rc) return rc;
    FILE *f = open_file(name, ".blocks", "wb");
    if (!(rc = s.get_schema(&s, &schema))) {
        while (!(rc = s.get_next(&s, &a)) && a.release) {
            write_block(f, &schema, &a);
            a.release(&a);
        }
        schema.release(&schema);
    }
    s.release(&s);
    return fclose(f) || rc;
}

int main(int argc, char **argv) {
    if (skate_worker_main(argc, argv)) return 0;
    if (argc < 3) return fputs("equal_blocks FOLDER BLOCK_BYTES PIPELINE...\n", stderr), 2;
    folder = argv[1];
    block_bytes = strtoull(argv[2], NULL, 10);
    struct skate_opts o = SKATE_OPTS(struct skate_opts);
    o.cpus = 2;
    o.store_bytes = 256 << 20;
    int rc = skate_init(&o);
    for (int i = 3; !rc && i < argc; i++)
        if ((rc = run(argv[i]))) fprintf(stderr, "%s: %s\n", argv[i], skate_error());
    skate_shutdown();
    return rc != 0;
}
