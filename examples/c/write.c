/* write.c - a sink in two phases, by skate_data.h: no reader ever sees half a result.
 *
 *     write FOLDER [ROWS]            writes the numbers 0 to ROWS - 1 to files part-NNNNN in FOLDER
 *
 * Each task writes a file of a name of its own, `tmp-<id>`, and reports it; a task that runs again
 * after the death of its worker overwrites that file. When all tasks have ended, the files get
 * their final names in the order of the rows; after a failure they are removed. */
#include <glob.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "skate_data.h"

static void tmp_name(char *to, size_t size, const char *folder, const char *id) {
    snprintf(to, size, "%s/tmp-%s", folder, id);
}

static int begin(struct skate_task *t, void **file) {
    char path[1000];
    tmp_name(path, sizeof path, skate_arg(t, NULL), skate_write_id(t));
    return (*file = fopen(path, "we")) ? SKATE_OK : skate_fail(t, "cannot write %s", path);
}
static int batch(struct skate_task *t, const struct ArrowSchema *schema, struct ArrowArray *b) {
    struct skate_column c = {.name = "id"};
    int rc = skate_columns(t, schema, b, &c, 1);
    for (int64_t i = 0; !rc && i < b->length; i++)
        fprintf(skate_task_state(t), "%" PRId64 "\n", ((const int64_t *)c.data)[i]);
    return rc;
}
static int end(struct skate_task *t) {
    FILE *f = skate_task_state(t);
    if (fflush(f) || fsync(fileno(f))) return skate_fail(t, "the disk is full");
    return skate_report(t, skate_write_id(t), strlen(skate_write_id(t)) + 1);
}
static void drop(void *file) { fclose(file); }
static const struct skate_batch_fns fns = {
    .size = sizeof fns, .begin = begin, .batch = batch, .end = end, .drop = drop};

static int commit(void *folder, const struct skate_arg *reports, size_t n) {
    char from[1000], to[1000];
    for (size_t i = 0; i < n; i++) {
        tmp_name(from, sizeof from, folder, reports[i].data);
        snprintf(to, sizeof to, "%s/part-%05zu", (const char *)folder, i);
        if (rename(from, to)) return SKATE_EIO;
    }
    return SKATE_OK;
}
static void undo(void *folder, const struct skate_arg *reports, size_t n) {
    char path[1000];
    glob_t found = {0};
    (void)reports, (void)n; /* tasks that did not get to a report have left files, too */
    tmp_name(path, sizeof path, folder, "*");
    for (size_t i = glob(path, 0, NULL, &found) ? 0 : found.gl_pathc; i-- > 0;)
        unlink(found.gl_pathv[i]);
    globfree(&found);
}

static int failed(void) { return fprintf(stderr, "write: %s\n", skate_error()), 1; }

int main(int argc, char **argv) {
    if (skate_register_batches("numbers", &fns)) return failed(); /* in workers, too */
    if (skate_worker_main(argc, argv)) return 0;
    if (argc < 2) return fprintf(stderr, "usage: write FOLDER [ROWS]\n"), 2;
    if (skate_init(NULL)) return failed();
    struct skate_map_opts o = SKATE_OPTS(struct skate_map_opts);
    o.arg = argv[1], o.arg_size = strlen(argv[1]) + 1;
    struct skate_sink sink = {sizeof sink, "numbers", commit, undo, argv[1]};
    skate_dataset *ds = skate_range(argc > 2 ? atoll(argv[2]) : 1000000, NULL, NULL);
    if (skate_write(ds, &sink, &o, NULL)) return failed();
    skate_dataset_release(ds), skate_shutdown();
    return 0;
}
