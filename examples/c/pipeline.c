/* pipeline.c - sums of a CSV file by a key, on all cores: `pipeline FILE`. Lines: store,gross.
 * The file is cut at ends of lines into units, and a task reads each unit. */
#include <stdio.h>
#include <string.h>

#include "skate_data.h"

enum { UNIT = 1 << 20, MAX_UNITS = 4096 };
struct part {
    long from, to;
    char path[1000];
};

SKATE_TASK(read_csv) { /* a part of the file -> store, amount */
    struct part p;
    struct skate_column c[] = {{.name = "store"}, {.name = "amount", .format = "g"}};
    struct ArrowSchema schema;
    struct ArrowArray b;
    memcpy(&p, skate_arg(t, NULL), sizeof p);
    long n = 0, most = (p.to - p.from) / 4 + 1; /* a line has at least four bytes */
    FILE *f = fopen(p.path, "re");
    if (!f || fseek(f, p.from, SEEK_SET)) return skate_fail(t, "cannot read %s", p.path);
    int rc = skate_batch_new(c, 2, (size_t)most, &schema, &b);
    if (rc) return fclose(f), rc;
    for (; !rc && ftell(f) < p.to; n++)
        if (fscanf(f, "%ld,%lf\n", (long *)c[0].data + n, (double *)c[1].data + n) != 2)
            rc = skate_fail(t, "%s: no store,amount at byte %ld", p.path, ftell(f));
    b.length = b.children[0]->length = b.children[1]->length = n;
    if (rc) b.release(&b);
    else rc = skate_emit(t, &schema, &b);
    return schema.release(&schema), fclose(f), rc;
}

SKATE_BATCHES(net) { /* without the value-added tax of 25 percent */
    struct skate_column in[] = {{.name = "store"}, {.name = "amount", .format = "g"}};
    struct skate_column out[] = {{.name = "store"}, {.name = "net", .format = "g"}};
    struct ArrowSchema s;
    struct ArrowArray b;
    int rc = skate_columns(t, schema, batch, in, 2);
    if (rc || (rc = skate_batch_new(out, 2, (size_t)batch->length, &s, &b))) return rc;
    memcpy(out[0].data, in[0].data, (size_t)batch->length * sizeof(int64_t));
    for (int64_t i = 0; i < batch->length; i++)
        ((double *)out[1].data)[i] = ((const double *)in[1].data)[i] / 1.25;
    rc = skate_emit(t, &s, &b);
    return s.release(&s), rc;
}

static int failed(void) { return fprintf(stderr, "pipeline: %s\n", skate_error()), 1; }
int main(int argc, char **argv) {
    static struct part p[MAX_UNITS];
    static struct skate_unit units[MAX_UNITS];
    struct ArrowArrayStream out;
    struct ArrowSchema schema;
    struct ArrowArray b;
    char line[1000];
    if (skate_worker_main(argc, argv)) return 0;
    size_t n = 0;
    FILE *f = argc == 2 ? fopen(argv[1], "re") : NULL;
    if (!f || fseek(f, 0, SEEK_END)) return fprintf(stderr, "usage: pipeline FILE\n"), 2;
    for (long size = ftell(f), at = 0; at < size; at = p[n++].to) {
        fseek(f, at + UNIT + size / MAX_UNITS, SEEK_SET); /* at most MAX_UNITS units */
        p[n] = (struct part){at, fgets(line, sizeof line, f) ? ftell(f) : size, ""};
        snprintf(p[n].path, sizeof p[n].path, "%s", argv[1]);
        units[n] = (struct skate_unit){&p[n], sizeof *p, -1, p[n].to - at};
    }
    if (fclose(f) || skate_init(NULL)) return failed();
    skate_dataset *ds = skate_map(skate_source("read_csv", units, n, NULL), "net", NULL);
    ds = skate_groupby(ds, (const char *[]){"store"}, 1,
                       &(struct skate_agg){.kind = "sum", .column = "net", .as = "net"}, 1, NULL);
    ds = skate_sort(ds, &(struct skate_key){"net", true, false}, 1, NULL);
    if (skate_stream(ds, NULL, &out) || out.get_schema(&out, &schema)) return failed();
    struct skate_column c[] = {{.name = "store"}, {.name = "net", .format = "g"}};
    for (int rc; (rc = out.get_next(&out, &b)) || b.release; b.release(&b)) {
        if (rc || skate_columns(NULL, &schema, &b, c, 2)) return failed();
        for (int64_t i = 0; i < b.length; i++)
            printf("%ld %.2f\n", ((long *)c[0].data)[i], ((double *)c[1].data)[i]);
    }
    schema.release(&schema), out.release(&out), skate_dataset_release(ds);
    return skate_shutdown(), 0;
}
