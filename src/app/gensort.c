/* gensort.c - makes the input of the public sort benchmark, byte by byte as gensort 1.5 does, on
 * all CPUs.
 *
 *     gensort [-a] [-c] [-bN] [-tN] RECORDS FILE[,opts]
 *
 *     -a   printable keys
 *     -c   writes the sum of the records' CRC-32 to standard error, in hexadecimal
 *     -bN  begins with record N
 *     -tN  uses N CPUs
 *
 * Tasks write parts of the file at their places. If FILE is not a regular file (a pipe, /dev/null),
 * this process writes the records in order. A failure leaves no file behind. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sortrec.h"
#include "tool.h"

/* numbers of records: PART in one task (32 MB), CHUNK in one write */
enum { PART = 320000, CHUNK = 2560 };

struct part {
    sortrec_u128 first;
    uint64_t at, n; /* at: byte in the file; n: number of records */
    uint8_t ascii, sum;
    char path[4096];
};

/* Writes the records of a part. Returns 0, or -1 and sets errno. *sum grows by the records' CRCs if
 * p->sum. at: offset in the file; UINT64_MAX: the file's current position. */
static int generate(const struct part *p, int fd, uint64_t at, sortrec_u128 *sum) {
    static uint8_t buf[CHUNK * SORTREC_SIZE];
    sortrec_u128 x = sortrec_seek(p->first);
    for (uint64_t i = 0; i < p->n;) {
        uint64_t k = p->n - i < CHUNK ? p->n - i : CHUNK;
        for (uint64_t j = 0; j < k; j++, x = sortrec_next(x)) {
            sortrec_make(buf + j * SORTREC_SIZE, x, p->first + i + j, p->ascii);
            if (p->sum) *sum += sortrec_crc(buf + j * SORTREC_SIZE);
        }
        if (at != UINT64_MAX) {
            if (tool_write(fd, buf, k * SORTREC_SIZE, at + i * SORTREC_SIZE)) return -1;
        } else {
            for (size_t done = 0; done < k * SORTREC_SIZE;) {
                ssize_t n = write(fd, buf + done, k * SORTREC_SIZE - done);
                if (n < 0 && errno != EINTR) return -1;
                done += n > 0 ? (size_t)n : 0;
            }
        }
        i += k;
    }
    return 0;
}

SKATE_TASK(generate_part) {
    struct part p;
    sortrec_u128 sum = 0;
    if (skate_arg_copy(t, 0, &p, sizeof p)) return SKATE_EINVAL;
    int fd = open(p.path, O_WRONLY | O_CLOEXEC);
    int rc = fd < 0 ? -1 : generate(&p, fd, p.at, &sum), error = errno;
    if (fd >= 0) close(fd);
    if (rc) return skate_fail(t, "%s: %s", p.path, strerror(error));
    return skate_return(t, 0, &sum, sizeof sum);
}

struct output {
    const char *path;
    sortrec_u128 sum;
};

static void take(void *ctx, const void *result) {
    sortrec_u128 sum;
    memcpy(&sum, result, sizeof sum);
    ((struct output *)ctx)->sum += sum;
}
static void undo(void *ctx) { unlink(((struct output *)ctx)->path); }

static void usage(void) {
    fputs("usage: gensort [-a] [-c] [-bSTARTING_RECORD] [-tN] RECORDS FILE[,opts]\n"
          "-a        printable keys (PennySort, JouleSort); without it keys are random bytes\n"
          "-c        the sum of the CRC-32 of all records goes to standard error, hexadecimal\n"
          "-bN       the first record is record N; without it record 0\n"
          "-tN       on N CPUs; without it on all\n"
          "RECORDS   how many records of 100 bytes\n"
          "FILE      where they go. Options of the original (,buf ,dir ,trans=N ,count=N) are "
          "taken and make no difference\n"
          "The skewed keys of the original's -s are not made here.\n",
          stderr);
    exit(1);
}

int main(int argc, char **argv) {
    int worker = skate_worker_main(argc, argv), flag;
    if (worker) return worker < 0;
    struct part all = {0};
    struct output out = {0};
    double cpus = 0;
    sortrec_u128 n = 0;
    while ((flag = getopt(argc, argv, "+acb:t:s")) != -1) {
        if (flag == 'a') all.ascii = 1;
        else if (flag == 'c') all.sum = 1;
        else if (flag == 'b' && sortrec_parse(optarg, &all.first)) continue;
        else if (flag == 't' && atoi(optarg) > 0) cpus = atoi(optarg);
        else if (flag == 's') tool_die("-s: skewed keys are not made here");
        else usage();
    }
    if (argc - optind != 2 || !sortrec_parse(argv[optind], &n)) usage();
    if (n > INT64_MAX / SORTREC_SIZE) tool_die("%s records: more than a file holds", argv[optind]);
    all.n = (uint64_t)n;
    char *path = tool_path(argv[optind + 1]);
    out.path = path;
    if (strlen(out.path) >= sizeof all.path) tool_die("%s: %s", out.path, strerror(ENAMETOOLONG));
    memcpy(all.path, out.path, strlen(out.path) + 1);

    struct stat st;
    int fd = open(out.path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0 || fstat(fd, &st)) tool_die("%s: %s", out.path, strerror(errno));
    size_t parts = (size_t)((all.n + PART - 1) / PART);
    if (S_ISREG(st.st_mode) && parts > 1 && cpus != 1) {
        struct part *p = tool_need(malloc(parts * sizeof *p));
        for (size_t i = 0; i < parts; i++) {
            p[i] = all;
            p[i].first += i * PART;
            p[i].at = i * PART * SORTREC_SIZE;
            p[i].n = all.n - i * PART < PART ? all.n - i * PART : PART;
        }
        int rc = skate_init(SKATE_WITH(struct skate_opts, .cpus = cpus, .store_bytes = 16 << 20));
        if (rc) undo(&out);
        tool_ok(rc);
        tool_parts("generate_part", p, sizeof *p, parts, take, undo, &out);
        skate_shutdown();
        free(p);
    } else if (generate(&all, fd, S_ISREG(st.st_mode) ? 0 : UINT64_MAX, &out.sum)) {
        int error = errno;
        if (S_ISREG(st.st_mode)) undo(&out);
        tool_die("%s: %s", out.path, strerror(error));
    }
    if (close(fd)) tool_die("%s: %s", out.path, strerror(errno));
    char text[SORTREC_HEX];
    if (all.sum) fprintf(stderr, "%s\n", sortrec_hex(out.sum, text));
    free(path);
    return 0;
}
