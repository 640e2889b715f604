/* view_fuzz.c - views and records that lie: `skate top`, pages and timelines read the segment of
 * another process, or a file.
 *
 *     view_fuzz [ROUNDS] [FILE...]  own driver: random cells and rings; seed in SK_TEST_SEED.
 *                                   Prints "tried N refused N read N".
 *
 * An input is a sequence of patches of an empty record: a byte that says which part, a byte with
 * flags, two bytes of length, and the bytes. A patched cell is valid, with a right checksum unless
 * a flag says otherwise, so the code behind the checks is reached. */
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/crc32c.h"
#include "engine/local/wire/view.h"
#include "fuzz.h"

enum part { HEAD, COUNTERS, ERROR, HISTORY, RUN, NAMES, TASKS, FLOWS, NODES, WORKERS, PARTS };
enum { WRONG_SUM = 1, AT_END = 2, MOST = 2048 };

static uint8_t *record;
static char path[64];

static uint64_t cell_of(enum part part, uint64_t *max) {
    switch (part) {
    case COUNTERS: *max = sizeof(struct sk_view_counters); return SK_VIEW_COUNTERS_AT;
    case ERROR: *max = sizeof(struct sk_view_error); return sk_view_error_at(1);
    case NODES: *max = sizeof(struct sk_view_nodes); return sk_view_nodes_at();
    case WORKERS: *max = sizeof(struct sk_view_workers); return sk_view_workers_at();
    case HISTORY: *max = sizeof(struct sk_view_history); return sk_view_history_at();
    default: *max = sizeof(struct sk_view_run); return sk_view_run_at(2);
    }
}

static uint64_t ring_of(enum part part) {
    return part == NAMES   ? sk_view_names_at()
           : part == TASKS ? sk_view_tasks_at()
                           : sk_view_flows_at();
}

static void empty(void) {
    struct sk_view_head *h = (struct sk_view_head *)(void *)record;
    memset(record, 0, SK_VIEW_COUNTERS_AT);
    h->magic = SK_VIEW_MAGIC;
    h->version = SK_VIEW_VERSION;
    h->size = sk_view_bytes();
    h->pid = 1;
    for (enum part p = COUNTERS; p < PARTS; p++) {
        if (p >= NAMES && p <= FLOWS) continue;
        uint64_t max, at = cell_of(p, &max);
        memset(record + at, 0, SK_MIN(sk_cell_stride(max), 2 * MOST));
    }
    for (enum part p = NAMES; p <= FLOWS; p++) memset(record + ring_of(p), 0, 2 * MOST);
}

static void sum_of_head(void) {
    struct sk_view_head *h = (struct sk_view_head *)(void *)record;
    h->crc =
        sk_crc32c(0, &h->started_ns,
                  offsetof(struct sk_view_head, crc) - offsetof(struct sk_view_head, started_ns));
}

/* Run cells are filled up to the length that their first bytes claim, so that most are whole. */
static void patch(enum part part, uint8_t flags, const uint8_t *bytes, size_t n) {
    if (part == HEAD) {
        memcpy(record + (flags & AT_END ? offsetof(struct sk_view_head, started_ns) : 0), bytes,
               SK_MIN(n, sizeof(struct sk_view_head) / 2));
        return;
    }
    if (part >= NAMES && part <= FLOWS) {
        memcpy(record + ring_of(part), bytes, n);
        return;
    }
    uint64_t max, cell = cell_of(part, &max), copy_at = sk_cell_copy_at(cell, max, 2);
    struct sk_cell_copy copy = {.n = (uint32_t)SK_MIN(n, max)};
    uint8_t *to = record + copy_at + sizeof copy;
    memset(to, 0, SK_MIN(max, 2 * MOST));
    memcpy(to, bytes, copy.n);
    const struct sk_view_run *run = (const struct sk_view_run *)(const void *)to;
    if (part == RUN && copy.n >= sk_view_run_head() && run->n_shown <= SK_VIEW_OPS &&
        run->n_samples <= SK_VIEW_SAMPLES)
        copy.n = (uint32_t)(sk_view_run_head() + run->n_shown * sizeof run->ops[0] +
                            run->n_samples * (SK_VS_N + run->n_shown) * sizeof run->samples[0]);
    else if (part == NODES && copy.n >= 8 && *(uint64_t *)(void *)to <= SK_VIEW_NODES)
        copy.n = (uint32_t)(offsetof(struct sk_view_nodes, of) +
                            *(uint64_t *)(void *)to * sizeof(struct sk_view_node));
    else if (part == WORKERS && copy.n >= 8 && *(uint64_t *)(void *)to <= SK_VIEW_WORKERS)
        copy.n = (uint32_t)(offsetof(struct sk_view_workers, of) +
                            *(uint64_t *)(void *)to * sizeof(struct sk_view_worker));
    else if (part != RUN && flags & AT_END) copy.n = (uint32_t)max;
    copy.crc = sk_crc32c(0, to, copy.n) + (flags & WRONG_SUM);
    memcpy(record + copy_at, &copy, sizeof copy);
    ((struct sk_cell *)(void *)(record + cell))->turn = 2;
}

static void text_ends(const char *text, size_t cap) {
    if (strnlen(text, cap) == cap) abort();
}

static int read_run(struct sk_view_reader *r) {
    struct sk_view_run *run = malloc(sizeof *run);
    struct sk_err err;
    if (!run) abort();
    sk_rc rc = sk_view_run(r, 2, run, &err);
    if (rc == SK_OK) {
        if (run->n_shown > SK_VIEW_OPS || run->n_samples > SK_VIEW_SAMPLES || run->share > 1)
            abort();
        for (uint32_t i = 0; i < run->n_shown; i++) {
            const struct sk_view_op *o = &run->ops[i];
            text_ends(o->label, sizeof o->label);
            if (o->n_inputs > SK_VIEW_INPUTS || o->n_fused > SK_VIEW_FUSED) abort();
            for (uint32_t k = 0; k < o->n_inputs; k++)
                if (o->inputs[k] >= run->n_ops) abort();
            for (uint32_t k = 0; k < o->n_fused; k++)
                text_ends(o->fused[k].label, sizeof o->fused[k].label);
        }
    }
    free(run);
    return rc == SK_OK;
}

static int read_nodes(struct sk_view_reader *r) {
    struct sk_view_nodes *nodes = malloc(sizeof *nodes);
    struct sk_view_workers *workers = malloc(sizeof *workers);
    struct sk_err err;
    int read = 0;
    if (!nodes || !workers) abort();
    if (sk_view_nodes(r, nodes, &err) == SK_OK && ++read)
        for (uint64_t i = 0; i < nodes->n; i++)
            text_ends(nodes->of[i].name, sizeof nodes->of[i].name);
    if (sk_view_workers(r, workers, &err) == SK_OK && ++read)
        for (uint64_t i = 0; i < workers->n; i++)
            text_ends(workers->of[i].name, sizeof workers->of[i].name);
    free(nodes);
    free(workers);
    return read;
}

static int read_all(struct sk_view_reader *r) { /* returns the number of parts that were read */
    struct sk_err err;
    struct sk_view_counters c;
    struct sk_view_error e;
    struct sk_view_history *h = malloc(sizeof *h);
    void *room = malloc(SK_VIEW_TASKS * sizeof(struct sk_view_task));
    size_t n = 0;
    int read = 0;
    if (!h || !room) abort();
    text_ends(r->about.program, sizeof r->about.program);
    if (sk_view_counters(r, &c, &err) == SK_OK) text_ends(c.waits, sizeof c.waits), read++;
    if (sk_view_error(r, 1, &e, &err) == SK_OK) text_ends(e.text, sizeof e.text), read++;
    if (sk_view_history(r, h, &err) == SK_OK) read += h->n <= SK_VIEW_SAMPLES;
    if (sk_view_tasks(r, room, &n, &err) == SK_OK && n > SK_VIEW_TASKS) abort();
    if (sk_view_flows(r, room, &n, &err) == SK_OK && n > SK_VIEW_FLOWS) abort();
    if (sk_view_names(r, room, &n, &err) == SK_OK)
        for (size_t i = 0; i < n; i++) text_ends(((char (*)[SK_VIEW_NAME])room)[i], SK_VIEW_NAME);
    free(h);
    free(room);
    return read + read_run(r) + read_nodes(r);
}

static int fuzz_one(const uint8_t *data, size_t n) { /* 1: refused */
    if (!record) {
        size_t size = sk_view_bytes();
        int fd = memfd_create("view_fuzz", MFD_CLOEXEC);
        if (fd < 0 || ftruncate(fd, (off_t)size)) abort();
        record = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (record == MAP_FAILED) abort();
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    }
    empty();
    sum_of_head();
    for (size_t at = 0; at + 4 <= n;) {
        size_t len = SK_MIN(SK_MIN(data[at + 2] | (size_t)data[at + 3] << 8, MOST), n - at - 4);
        enum part part = (enum part)(data[at] % PARTS);
        patch(part, data[at + 1], data + at + 4, len);
        if (part == HEAD && !(data[at + 1] & WRONG_SUM)) sum_of_head();
        at += 4 + len;
    }
    struct sk_view_reader r;
    struct sk_err err;
    if (sk_view_open(path, &r, &err)) return 1;
    int read = read_all(&r);
    sk_view_close(&r);
    return read == 0;
}

#ifndef SK_LIBFUZZER
static size_t add(uint8_t *to, enum part part, uint8_t flags, const void *bytes, size_t n) {
    memcpy(to, (uint8_t[]){(uint8_t)part, flags, (uint8_t)n, (uint8_t)(n >> 8)}, 4);
    memcpy(to + 4, bytes, n);
    return 4 + n;
}

int main(int argc, char **argv) {
    uint64_t rounds = fuzz_begin(argc, argv, 3000), refused = 0;
    for (uint64_t i = 0; i < rounds; i++) {
        static uint8_t buf[4 * MOST], bytes[MOST];
        static struct sk_view_run run;
        size_t n = 0;
        for (size_t k = 0; k + 8 <= sizeof bytes; k += 8) memcpy(bytes + k, &(uint64_t){word()}, 8);
        enum part part = (enum part)(next() % PARTS);
        if (part >= NODES && next() % 4) memcpy(bytes, &(uint64_t){next() % 6}, 8);
        n += add(buf, part, (uint8_t)(next() % 4), bytes, next() % 600);
        run = (struct sk_view_run){.id = 1,
                                   .n_ops = (uint32_t)(next() % 3),
                                   .n_shown = (uint32_t)(next() % 3),
                                   .n_samples = (uint32_t)(next() % 4),
                                   .share = next() % 5 ? 0.5 : 7};
        run.ops[0].n_inputs = (uint32_t)(next() % 12);
        run.ops[0].inputs[0] = (uint32_t)(next() % 3);
        run.ops[0].n_fused = (uint32_t)(next() % 20);
        if (next() % 2)
            n += add(buf + n, RUN, next() % 8 == 0, &run,
                     SK_MIN(MOST, sk_view_run_head() + run.n_shown * sizeof run.ops[0]));
        fuzz_save(buf, n, i);
        refused += (uint64_t)fuzz_one(buf, n);
    }
    return fuzz_end(rounds, refused);
}
#endif
