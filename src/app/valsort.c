/* valsort.c - checks sorted files of the public sort benchmark as valsort 1.5 does, on all CPUs:
 * order, number of records, checksum, equal keys.
 *
 *     valsort [-i] [-q] [-tN] [-o SUMMARY] FILE[,opts]
 *         checks a sorted file; -o writes its summary, in the original's layout
 *     valsort [-i] [-q] -s [-o SUMMARY] SUMMARIES
 *         checks the summaries of the parts of one output, which follow each other in a file
 *
 * Tasks summarise the parts of a file, and the summaries are joined, as with -s. Exit status 1: the
 * file is not in order, or cannot be read. Unlike the original, -i compares the 10 bytes of the key
 * only. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sortrec.h"
#include "tool.h"

/* numbers of records: PART in one task (32 MB), CHUNK in one read */
enum { PART = 320000, CHUNK = 5120 };

struct part {
    uint64_t at, n; /* at: byte in the file; n: number of records */
    uint8_t ignore_case;
    char path[4096];
};

SKATE_TASK(summarize_part) {
    static uint8_t buf[CHUNK * SORTREC_SIZE];
    struct part p;
    struct sortrec_summary sum = {0}, here;
    if (skate_arg_copy(t, 0, &p, sizeof p)) return SKATE_EINVAL;
    int fd = open(p.path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return skate_fail(t, "%s: %s", p.path, strerror(errno));
    for (uint64_t i = 0, k; i < p.n; i += k) {
        k = p.n - i < CHUNK ? p.n - i : CHUNK;
        if (tool_read(fd, buf, k * SORTREC_SIZE, p.at + i * SORTREC_SIZE)) {
            int error = errno;
            close(fd);
            return skate_fail(t, "%s: %s", p.path,
                              error ? strerror(error) : "it became shorter while it was read");
        }
        sortrec_summarize(buf, k, p.ignore_case, &here);
        sortrec_join(&sum, &here, p.ignore_case);
    }
    close(fd);
    return skate_return(t, 0, &sum, sizeof sum);
}

static bool ignore_case;
static void take(void *ctx, const void *result) {
    struct sortrec_summary part;
    memcpy(&part, result, sizeof part);
    sortrec_join(ctx, &part, ignore_case);
}

/* Summarises the records in a file of `size` bytes. */
static struct sortrec_summary of_records(const char *path, uint64_t size, double cpus) {
    struct sortrec_summary sum = {0};
    if (size % SORTREC_SIZE)
        tool_die("%s: partial record found at end: %" PRIu64 " bytes are %" PRIu64
                 " records of %d and %" PRIu64 " bytes more",
                 path, size, size / SORTREC_SIZE, SORTREC_SIZE, size % SORTREC_SIZE);
    uint64_t n = size / SORTREC_SIZE;
    size_t parts = (size_t)((n + PART - 1) / PART);
    struct part *p = tool_need(calloc(parts + 1, sizeof *p));
    for (size_t i = 0; i < parts; i++) {
        p[i] = (struct part){
            i * PART * SORTREC_SIZE, n - i * PART < PART ? n - i * PART : PART, ignore_case, {0}};
        memcpy(p[i].path, path, strlen(path) + 1);
    }
    tool_ok(skate_init(SKATE_WITH(struct skate_opts, .cpus = cpus, .store_bytes = 16 << 20)));
    tool_parts("summarize_part", p, sizeof *p, parts, take, NULL, &sum);
    skate_shutdown();
    free(p);
    return sum;
}

static struct sortrec_summary of_summaries(const char *path, FILE *in) {
    struct sortrec_summary sum = {0}, part;
    size_t n;
    for (uint64_t i = 0; (n = fread(&part, 1, sizeof part, in)) > 0; i++) {
        if (n != sizeof part)
            tool_die("%s: partial partition summary found at end: %zu of %zu bytes behind %" PRIu64
                     " summaries",
                     path, n, sizeof part, i);
        sortrec_u128 records = sortrec_value(part.records),
                     unordered = sortrec_value(part.unordered),
                     same = sortrec_value(part.duplicates);
        if (!records || unordered + same >= records ||
            sortrec_value(part.first_unordered) >= records ||
            !unordered != !sortrec_value(part.first_unordered))
            tool_die("%s: what begins at byte %" PRIu64 " is no summary", path, i * sizeof part);
        sortrec_join(&sum, &part, ignore_case);
    }
    if (ferror(in)) tool_die("%s: %s", path, strerror(errno));
    return sum;
}

static void write_summary(const char *path, const struct sortrec_summary *sum) {
    FILE *out = fopen(path, "we");
    if (!out) tool_die("%s: %s", path, strerror(errno));
    struct stat st;
    bool file = !fstat(fileno(out), &st) && S_ISREG(st.st_mode),
         written = fwrite(sum, sizeof *sum, 1, out) == 1;
    if (fclose(out) || !written) {
        int error = errno;
        if (file) unlink(path);
        tool_die("%s: %s", path, strerror(error));
    }
}

static void usage(void) {
    fputs("usage: valsort [-i] [-q] [-tN] [-o SUMMARY] [-s] FILE[,opts]\n"
          "-i        upper and lower case of keys are the same\n"
          "-q        no messages, only the exit status\n"
          "-tN       on N CPUs; without it on all\n"
          "-o FILE   a summary of what was checked. Summaries of the parts of an output, one "
          "behind the other in a file, are checked with "
          "-s\n"
          "-s        FILE holds such summaries, not records\n"
          "FILE      what is checked. Options of the original (,buf ,dir ,trans=N ,count=N) are "
          "taken and make no difference\n",
          stderr);
    exit(1);
}

int main(int argc, char **argv) {
    int worker = skate_worker_main(argc, argv), flag;
    if (worker) return worker < 0;
    const char *summary = NULL;
    bool quiet = false, summaries = false;
    double cpus = 0;
    while ((flag = getopt(argc, argv, "+iqst:o:")) != -1) {
        if (flag == 'i') ignore_case = true;
        else if (flag == 'q') quiet = true;
        else if (flag == 's') summaries = true;
        else if (flag == 'o') summary = optarg;
        else if (flag == 't' && atoi(optarg) > 0) cpus = atoi(optarg);
        else usage();
    }
    if (argc - optind != 1) usage();
    char *path = tool_path(argv[optind]);
    if (strlen(path) >= sizeof((struct part *)0)->path)
        tool_die("%s: %s", path, strerror(ENAMETOOLONG));
    FILE *in = fopen(path, "re");
    struct stat st;
    if (!in || fstat(fileno(in), &st)) tool_die("%s: %s", path, strerror(errno));
    if (!summaries && !S_ISREG(st.st_mode)) tool_die("%s: not a regular file", path);
    struct sortrec_summary sum =
        summaries ? of_summaries(path, in) : of_records(path, (uint64_t)st.st_size, cpus);
    fclose(in);
    if (!sortrec_value(sum.records))
        tool_die("%s: there must be at least one record to be validated", path);
    if (summary) write_summary(summary, &sum);

    char text[SORTREC_DEC];
    bool bad = sortrec_value(sum.unordered) != 0;
    if (!quiet) {
        if (bad)
            fprintf(stderr, "First unordered record is record %s\n",
                    sortrec_dec(sortrec_value(sum.first_unordered), text));
        fprintf(stderr, "Records: %s\n", sortrec_dec(sortrec_value(sum.records), text));
        fprintf(stderr, "Checksum: %s\n", sortrec_hex(sortrec_value(sum.checksum), text));
        if (bad)
            fprintf(stderr, "ERROR - there are %s unordered records\n",
                    sortrec_dec(sortrec_value(sum.unordered), text));
        else
            fprintf(stderr, "Duplicate keys: %s\nSUCCESS - all records are in order\n",
                    sortrec_dec(sortrec_value(sum.duplicates), text));
    }
    free(path);
    return bad;
}
