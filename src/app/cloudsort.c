/* cloudsort.c - sorts files of 100-byte records with 10-byte keys into parts, in memory and on
 * disk: Exoshuffle-CloudSort (Luan et al., 2022) on skate.
 *
 *     cloudsort [options] OUTPUT INPUT...
 *         OUTPUT: a folder, or s3://bucket/prefix; INPUT: files, or s3://bucket/key
 *
 *     input ranges --> map (one a range) --> W blocks each --> merge (F blocks of a merge range)
 *     --> R/W runs each --> reduce (one a part) --> part-00000 ...
 *
 * A map reads a range of the input and makes a sorted block for each of the W merge ranges of keys.
 * A merge takes the blocks of F maps in one merge range and makes a sorted run for each output part
 * in that range; a reduce merges the runs of its part and writes the part. Bounds of ranges and
 * parts are quantiles of a sample. Without merges (F = 0) W equals R, and a reduce takes the blocks
 * themselves, which is faster if blocks are large, and is chosen then.
 *
 * This process is the controller: it starts tasks and waits for acknowledgements, one small object
 * a task. Back-pressure: the maps whose merge is not acknowledged are at most as many as two merges
 * take, plus one for each CPU. Data that do not fit the store go to disk. A task whose worker dies
 * is run again; blocks and runs are merged in the order of the input, so the output is always the
 * same. If this process dies, the same command continues the job: outputs in the journal are not
 * sorted or written again. */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cost.h"
#include "files.h"
#include "journal.h"
#include "layout.h"
#include "skate.h"
#include "sortrec.h"
#include "tool.h"

enum { SIZE = SORTREC_SIZE, KEY = SORTREC_KEY, URL = LAYOUT_URL, CHUNK = 10000, RETRIES = 100 };
static const struct skate_records FORMAT = {SIZE, KEY};

struct plan { /* passed to all tasks as one object */
    uint32_t ranges, parts;
    bool past_cache;
    /* the bounds of the parts, [parts - 1] keys; then [parts] bytes, each 1 if that part is
     * finished */
    uint8_t keys[];
};
struct job { /* arguments of one task, as bytes */
    /* map: about how many ranges behind this one the next map of the same worker begins; merge:
     * number of its range; reduce: number of its part. */
    uint32_t index;
    /* map: the input range; reduce: its member `url` is the name of the part */
    struct layout_range range;
};
struct ack { /* acknowledgement: the last result of each task */
    uint64_t records, gets, puts;
};

static const uint8_t *finished(const struct plan *p) {
    return p->keys + (size_t)(p->parts - 1) * KEY;
}
/* Returns the number of parts in one merge range. */
static uint32_t parts_of(const struct plan *p) { return p->parts / p->ranges; }

static int acknowledge(struct skate_task *t, uint64_t records) {
    struct ack a = {records, files_count.gets, files_count.puts};
    files_count = (struct files_count){0};
    return skate_return(t, skate_n_returns(t) - 1, &a, sizeof a);
}
static bool range_finished(const struct plan *p, uint32_t range) {
    return !memchr(finished(p) + range * parts_of(p), 0, parts_of(p));
}

SKATE_TASK(map) { /* takes job and plan; returns a sorted block for each range, then an ack */
    struct job j;
    const struct plan *p = skate_arg_data(t, 1, NULL);
    if (skate_arg_copy(t, 0, &j, sizeof j)) return SKATE_EINVAL;
    uint32_t ranges = p->ranges;
    files_past_cache = p->past_cache;
    uint8_t *in = tool_scratch(0, j.range.n * SIZE), *parts = tool_scratch(1, j.range.n * SIZE),
            *bounds = tool_scratch(2, (size_t)ranges * KEY + (ranges + 1) * sizeof(size_t) + 8);
    size_t *start = (size_t *)(void *)(bounds + ((size_t)ranges * KEY + 7) / 8 * 8);
    for (uint32_t r = 1; r < ranges; r++)
        memcpy(bounds + (r - 1) * KEY, p->keys + (r * parts_of(p) - 1) * KEY, KEY);
    struct files_range mine = {j.range.url, j.range.at, in, j.range.n * SIZE};
    if (files_read(&mine, 1)) return skate_fail(t, "%s", files_error());
    /* the next range is read ahead from disk while this one is sorted */
    files_ahead(&mine, j.index);
    int rc = skate_records_partition(FORMAT, in, j.range.n, bounds, ranges - 1, parts, start);
    for (uint32_t r = 0; r < ranges && !rc; r++) {
        size_t n = range_finished(p, r) ? 0 : start[r + 1] - start[r];
        struct skate_buf b;
        if (!(rc = skate_buf_alloc(n * SIZE, &b)) &&
            (rc = skate_records_sort(FORMAT, parts + start[r] * SIZE, n, b.data, in)))
            skate_buf_abort(&b);
        if (!rc) rc = skate_return_buf(t, r, &b, n * SIZE);
    }
    return rc ? rc : acknowledge(t, j.range.n);
}

/* takes job, plan and blocks; returns a run for each part of the range, then an ack */
SKATE_TASK(merge) {
    struct job j;
    const struct plan *p = skate_arg_data(t, 1, NULL);
    if (skate_arg_copy(t, 0, &j, sizeof j)) return SKATE_EINVAL;
    uint32_t parts = parts_of(p), first = j.index * parts;
    struct tool_runs r = tool_runs(t, 2, 0, 0), here = tool_runs(t, 2, 1, parts + 1);
    size_t *start = here.more, total = 0;
    for (size_t i = 0; i < r.k; i++, total += r.n[i - 1])
        skate_records_cut(FORMAT, r.at[i], r.n[i], p->keys + first * KEY, parts - 1,
                          start + i * (parts + 1));
    int rc = 0;
    for (uint32_t part = 0; part < parts && !rc; part++) {
        size_t n = 0;
        struct skate_buf b;
        struct skate_records_merge *m;
        for (size_t i = 0; i < r.k; i++) {
            const size_t *cut = start + i * (parts + 1) + part;
            here.at[i] = (const uint8_t *)r.at[i] + cut[0] * SIZE;
            n += here.n[i] = finished(p)[first + part] ? 0 : cut[1] - cut[0];
        }
        if (!(rc = skate_buf_alloc(n * SIZE, &b)) &&
            (rc = skate_records_merge_create(FORMAT, here.at, here.n, here.k, &m)))
            skate_buf_abort(&b);
        if (rc) break;
        (void)skate_records_merge_next(m, b.data, n);
        skate_records_merge_destroy(m);
        rc = skate_return_buf(t, part, &b, n * SIZE);
    }
    return rc ? rc : acknowledge(t, total);
}

SKATE_TASK(reduce) { /* takes job, plan and runs; writes a file and returns an ack */
    struct job j;
    const struct plan *p = skate_arg_data(t, 1, NULL);
    struct tool_runs r = tool_runs(t, 2, 0, 0);
    struct files_out *f;
    struct skate_records_merge *m;
    /* the chunk is small enough to stay in the CPU's cache between merge and write */
    uint8_t *chunk = tool_scratch(1, (size_t)CHUNK * SIZE);
    uint64_t total = 0;
    if (skate_arg_copy(t, 0, &j, sizeof j) ||
        skate_records_merge_create(FORMAT, r.at, r.n, r.k, &m))
        return SKATE_EINVAL;
    files_past_cache = p->past_cache;
    int rc = files_create(j.range.url, &f);
    if (!rc) {
        for (size_t n; !rc && (n = skate_records_merge_next(m, chunk, CHUNK)); total += n)
            rc = files_write(f, chunk, n * SIZE);
        if (rc) files_abort(f);
        else rc = files_commit(f);
    }
    skate_records_merge_destroy(m);
    return rc ? skate_fail(t, "%s", files_error()) : acknowledge(t, total);
}
/* ---- the controller, which submits all tasks ------------------------------------------------- */

enum kind { MAP, MERGE, REDUCE, KINDS };
static struct layout lay = {.per_merge = LAYOUT_CHOSEN};
static const char *out;
static uint32_t cpus;
static bool past_cache; /* the files are larger than memory */
static struct {
    uint32_t n[KINDS], begun[KINDS], done[KINDS]; /* numbers of tasks */
    uint32_t mapped;                              /* maps [0, mapped) are acknowledged */
    bool *acked;                                  /* [maps]: the map is acknowledged */
    /* block[range][map], run[part][group]; without merges both are the same array */
    skate_ref plan, *block, *run;
    /* made: for each part 1 + its number of records, or 0 if the part is not finished; in, out:
     * numbers of records; gets, puts: numbers of S3 requests */
    uint64_t *made, in, out, gets, puts;
    struct journal journal;
    struct flight { /* a task that is under way */
        enum kind kind;
        uint32_t at;
    } flight[1024];
    skate_ref ack[1024];
    uint32_t flights;
    double began, mapped_s;
} c;

/* Ends the program with an error. The finished parts and their journal stay in the output folder;
 * other files of this job in that folder are removed. */
static void fail(const char *what) {
    skate_shutdown();
    (void)files_sweep(out);
    tool_die("%s", what);
}
static void ok(int rc) { rc ? fail(skate_error()) : (void)0; }
static void part_url(uint32_t part, char url[URL]) {
    (void)snprintf(url, URL, "%s/part-%05" PRIu32, out, part);
}

/* Makes the plan: bounds from a sample of the input, finished parts from the journal. */
static void plan_put(void) {
    size_t keys = (size_t)(lay.parts - 1) * KEY, samples;
    struct plan *p = tool_need(calloc(1, sizeof *p + keys + lay.parts));
    uint8_t *sample = layout_sample(&lay, &samples);
    *p = (struct plan){lay.ranges, lay.parts, past_cache};
    if (samples) ok(skate_records_quantiles(FORMAT, sample, samples, p->keys, lay.parts - 1));
    for (uint32_t i = 0; i < lay.parts; i++) {
        char url[URL];
        uint64_t size, version;
        part_url(i, url);
        if (c.made[i] && (files_size(url, &size, &version) || size != (c.made[i] - 1) * SIZE))
            c.made[i] = 0;
        if (c.made[i]) p->keys[keys + i] = 1, c.out += c.made[i] - 1;
    }
    ok(skate_put(p, sizeof *p + keys + lay.parts, &c.plan));
    free(sample), free(p);
}

/* Submits task `at` of a kind. The call takes over and releases the n_in references to its inputs.
 * The references to the task's n_out results are stored in every `step`th entry of `result`. */
static void submit(enum kind kind, uint32_t at, struct job *j, const skate_ref *in, size_t n_in,
                   skate_ref *result, size_t step, size_t n_out) {
    static const char *const name[] = {"map", "merge", "reduce"};
    struct skate_arg *args = tool_need(malloc((n_in + 2) * sizeof *args));
    skate_ref *made = tool_need(malloc((n_out + 1) * sizeof *made));
    size_t n = 0;
    args[n++] = SKATE_BYTES(j, sizeof *j);
    args[n++] = SKATE_REF(c.plan);
    for (size_t i = 0; i < n_in; i++) args[n++] = SKATE_REF(in[i]);
    ok(skate_submit(name[kind], args, n, n_out + 1,
                    SKATE_WITH(struct skate_call_opts, .max_retries = RETRIES), made));
    /* the submitted task has its own references to the inputs */
    for (size_t i = 0; i < n_in; i++) skate_release(in[i]);
    for (size_t i = 0; i < n_out; i++) result[i * step] = made[i];
    c.ack[c.flights] = made[n_out];
    c.flight[c.flights++] = (struct flight){kind, at};
    c.begun[kind]++;
    free(args), free(made);
}

/* Starts the next task that may begin; false: no task may. Merges are started before maps, so that
 * fewer blocks wait for a merge. */
static bool begin(void) {
    uint32_t g = c.begun[MERGE] / lay.ranges, w = c.begun[MERGE] % lay.ranges, f = lay.per_merge,
             m = c.begun[MAP], r = c.begun[REDUCE];
    uint32_t per = lay.parts / lay.ranges, end = f * (g + 1) < lay.maps ? f * (g + 1) : lay.maps;
    struct job j = {0};
    if (c.begun[MERGE] < c.n[MERGE] && c.mapped >= end) {
        j.index = w;
        submit(MERGE, w, &j, c.block + (size_t)w * lay.maps + f * g, end - f * g,
               c.run + (size_t)w * per * lay.groups + g, lay.groups, per);
    } else if (m < lay.maps && (!f || m < c.done[MERGE] / lay.ranges * f + 2 * f + cpus)) {
        j.range = lay.map[m], j.index = cpus;
        submit(MAP, m, &j, NULL, 0, c.block + m, lay.maps, lay.ranges);
    } else if (r < c.n[REDUCE] && c.done[MAP] == lay.maps && c.done[MERGE] == c.n[MERGE]) {
        if (c.mapped_s == 0) c.mapped_s = tool_now();
        j.index = r;
        part_url(r, j.range.url);
        if (!c.made[r])
            return submit(REDUCE, r, &j, c.run + (size_t)r * lay.groups, lay.groups, NULL, 0, 0),
                   true;
        for (uint32_t i = 0; i < lay.groups; i++) skate_release(c.run[(size_t)r * lay.groups + i]);
        c.begun[REDUCE]++, c.done[REDUCE]++;
    } else return false;
    return true;
}

/* Handles acknowledgement i, which has arrived. */
static void take(uint32_t i) {
    struct flight f = c.flight[i];
    struct skate_value v;
    struct ack a;
    ok(skate_get(c.ack[i], -1, &v));
    memcpy(&a, v.data, sizeof a);
    skate_value_release(&v), skate_release(c.ack[i]);
    c.flight[i] = c.flight[--c.flights], c.ack[i] = c.ack[c.flights];
    c.done[f.kind]++, c.gets += a.gets, c.puts += a.puts;
    if (f.kind == MAP) c.in += a.records, c.acked[f.at] = true;
    while (c.mapped < lay.maps && c.acked[c.mapped]) c.mapped++;
    if (f.kind == REDUCE) c.out += a.records, journal_done(&c.journal, f.at, a.records);
}

static void run(void) {
    bool ready[1024], show = isatty(STDERR_FILENO);
    for (;;) {
        while (c.flights < cpus + 2 && begin()) continue;
        if (!c.flights) break;
        int rc = skate_wait(c.ack, c.flights, 1, 500, ready);
        if (rc && rc != SKATE_ETIMEOUT) ok(rc);
        for (uint32_t i = c.flights; i-- > 0;)
            if (ready[i]) take(i);
        if (show)
            fprintf(stderr,
                    "\rcloudsort: map %u/%u, merge %u/%u, reduce %u/%u; %.1f of %.1f GB in, %.1f "
                    "out; %.0f s ",
                    c.done[MAP], lay.maps, c.done[MERGE], c.n[MERGE], c.done[REDUCE], c.n[REDUCE],
                    (double)(c.in * SIZE) / 1e9, (double)lay.bytes / 1e9,
                    (double)(c.out * SIZE) / 1e9, tool_now() - c.began);
    }
    char text[200];
    if (show) fputc('\n', stderr);
    (void)snprintf(text, sizeof text,
                   "%" PRIu64 " records are in the input, %" PRIu64 " were read and %" PRIu64
                   " written",
                   lay.bytes / SIZE, c.in, c.out);
    if (c.in != lay.bytes / SIZE || c.out != c.in) fail(text);
}

static const char usage[] = "usage: cloudsort [options] OUTPUT INPUT...      a folder and files, "
                            "or s3://bucket/prefix and s3://bucket/key\n"
                            "-t N      CPUs                   -s BYTES  memory for blocks and runs "
                            "      -d DIR   where they go when it is full\n"
                            "-m BYTES  of a map's input       -p BYTES  of a part of the output    "
                            "      -f N     blocks a merge takes; 0: no merges\n"
                            "-j FILE   journal of finished parts (OUTPUT/.cloudsort)    What is "
                            "not given is chosen. BYTES: 64m, 2g\n"
                            "-u        files past the page cache, as it is done where input and "
                            "output are more than half of memory\n";

int main(int argc, char **argv) {
    int worker = skate_worker_main(argc, argv), flag;
    if (worker) return worker < 0;
    struct skate_opts engine = SKATE_OPTS(struct skate_opts);
    char *journal = NULL, url[URL];
    uint64_t size, version;
    while ((flag = getopt(argc, argv, "+t:s:d:m:p:f:j:u")) != -1) {
        if (flag == 't') cpus = (uint32_t)tool_bytes(optarg);
        else if (flag == 's') engine.store_bytes = tool_bytes(optarg);
        else if (flag == 'd') engine.spill_dir = optarg;
        else if (flag == 'm') lay.map_bytes = tool_bytes(optarg);
        else if (flag == 'p') lay.part_bytes = tool_bytes(optarg);
        else if (flag == 'f') lay.per_merge = (uint32_t)tool_bytes(optarg);
        else if (flag == 'j') journal = optarg;
        else if (flag == 'u') past_cache = true;
        else argc = 0;
    }
    if (argc - optind < 2) return fputs(usage, stderr), 2;
    c.began = tool_now();
    out = argv[optind++];
    engine.cpus = cpus =
        (uint32_t)tool_clamp(cpus ? cpus : (uint64_t)sysconf(_SC_NPROCESSORS_ONLN), 1, 1000);
    bool local = strncmp(out, "s3://", 5) != 0;
    if (!engine.spill_dir) engine.spill_dir = local ? out : "/tmp";
    layout_make(&lay, out, argv + optind, (uint32_t)(argc - optind), cpus);
    past_cache |=
        lay.bytes > (uint64_t)sysconf(_SC_PHYS_PAGES) / 4 * (uint64_t)sysconf(_SC_PAGESIZE);
    if (files_sweep(out)) tool_die("%s", files_error());
    if (!journal && local && asprintf(&journal, "%s/.cloudsort", out) < 0) tool_die("no memory");
    part_url(0, url);
    if ((!journal || access(journal, F_OK)) && !files_size(url, &size, &version))
        tool_die("%s is there, and no journal: the output of another run", url);
    c.n[MAP] = lay.maps, c.n[MERGE] = lay.per_merge ? lay.groups * lay.ranges : 0,
    c.n[REDUCE] = lay.parts;
    c.made = tool_need(calloc(lay.parts + 1, sizeof *c.made)),
    c.acked = tool_need(calloc(lay.maps + 1, sizeof *c.acked));
    c.block = tool_need(calloc((size_t)lay.ranges * lay.maps + 1, sizeof *c.block));
    c.run = lay.per_merge ? tool_need(calloc((size_t)lay.parts * lay.groups + 1, sizeof *c.run))
                          : c.block;
    c.journal = journal_open(journal, lay.hash, lay.parts, c.made);
    ok(skate_init(&engine));
    plan_put();
    run();
    skate_shutdown();
    /* removes incomplete files of reduces whose workers were killed */
    if (files_sweep(out)) tool_die("%s", files_error());
    journal_remove(&c.journal);
    double s = tool_now() - c.began, mapped_s = c.mapped_s - c.began, gb = (double)lay.bytes / 1e9;
    printf("%" PRIu64 " records, %.3f GB in %.2f s (%.2f GB/s): %u maps and %u merges in %.2f s, "
           "%u parts in %.2f s\n",
           c.out, gb, s, gb / s, c.n[MAP], c.n[MERGE], mapped_s, lay.parts, s - mapped_s);
    cost_print(&(struct cost_run){1, s, s - mapped_s, (double)lay.bytes,
                                  (double)(c.gets + files_count.gets),
                                  (double)(c.puts + files_count.puts)});
    return fflush(stdout) ? 1 : 0;
}
