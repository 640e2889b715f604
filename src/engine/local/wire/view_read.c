/* view_read.c - reads the view of another process, or a record in a file: see engine/view.h.
 *
 * The bytes may be of anybody, and may change while they are read. Invariant: all reads are by
 * pread() into memory of this process, with lengths that are checked here, so nothing that the file
 * contains, nor a file that gets shorter, leads outside; a number is used as an index or a length
 * only after it was checked; every text ends. Nothing is ever executed or unpickled. */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/crc32c.h"
#include "base/mem.h"
#include "engine/local/wire/view.h"

#define TRIES 8 /* a live cell is written every 100 ms, and read in microseconds */

/* Reads exactly n bytes; false: the file ends before, or cannot be read. */
static bool get(int fd, uint64_t at, void *to, size_t n) {
    uint8_t *p = to;
    while (n) {
        ssize_t k = pread(fd, p, n, (off_t)at);
        if (k < 0 && errno == EINTR) continue;
        if (k <= 0) return false;
        p += k;
        at += (uint64_t)k;
        n -= (size_t)k;
    }
    return true;
}

static sk_rc damaged(struct sk_err *err, const char *what) {
    return SK_ERR(err, SK_ECORRUPT, "the record is damaged: %s", what);
}

sk_rc sk_view_open(const char *path, struct sk_view_reader *out, struct sk_err *err) {
    struct stat st;
    struct sk_view_head h;
    /* O_NONBLOCK: opening a FIFO without a writer would wait */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) return SK_ERR_SYS(err, "open %s", path);
    sk_rc rc = SK_OK;
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || !get(fd, 0, &h, sizeof h) ||
        h.magic != SK_VIEW_MAGIC)
        rc = SK_ERR(err, SK_ECORRUPT, "%s is not a record of a skate program", path);
    else if (h.version > SK_VIEW_VERSION)
        rc = SK_ERR(err, SK_EINVAL,
                    "%s was made by a newer skate (format %u; this one reads %u): update skate",
                    path, h.version, SK_VIEW_VERSION);
    else if (h.version < SK_VIEW_VERSION && h.version)
        rc = SK_ERR(
            err, SK_EINVAL,
            "%s was made by an older skate (format %u; this one reads %u): read it with that", path,
            h.version, SK_VIEW_VERSION);
    else if (h.version != SK_VIEW_VERSION || h.size != sk_view_bytes() ||
             (uint64_t)st.st_size < h.size ||
             h.crc != sk_crc32c(0, &h.started_ns,
                                offsetof(struct sk_view_head, crc) -
                                    offsetof(struct sk_view_head, started_ns)))
        rc = SK_ERR(err, SK_ECORRUPT, "%s is damaged: %lld bytes of a record of %llu", path,
                    (long long)st.st_size, (unsigned long long)sk_view_bytes());
    if (rc != SK_OK) {
        (void)close(fd);
        return rc;
    }
    *out = (struct sk_view_reader){.fd = fd,
                                   .about = {.pid = h.pid,
                                             .ended = h.ended,
                                             .started_ns = h.started_ns,
                                             .started_wall_ns = h.started_wall_ns,
                                             .cpu_e4 = h.cpu_e4,
                                             .gpu_e4 = h.gpu_e4}};
    memcpy(out->about.program, h.program, sizeof h.program - 1);
    return SK_OK;
}

void sk_view_close(struct sk_view_reader *r) {
    if (r->fd >= 0) (void)close(r->fd);
    r->fd = -1;
}

/* Reads the valid copy of a cell into `to`, and its length into *n. */
static sk_rc read_cell(int fd, uint64_t at, size_t max, void *to, size_t *n, struct sk_err *err) {
    for (int i = 0; i < TRIES; i++) {
        uint64_t turn, again;
        struct sk_cell_copy copy;
        if (!get(fd, at, &turn, sizeof turn)) return damaged(err, "it is too short");
        if (!turn) return SK_EAGAIN;
        atomic_thread_fence(memory_order_acquire);
        uint64_t from = sk_cell_copy_at(at, max, turn);
        bool whole = get(fd, from, &copy, sizeof copy) && copy.n <= max &&
                     get(fd, from + sizeof copy, to, copy.n);
        atomic_thread_fence(memory_order_acquire);
        if (!get(fd, at, &again, sizeof again)) return damaged(err, "it is too short");
        if (again != turn) continue; /* the driver may have begun to write this copy */
        if (!whole || sk_crc32c(0, to, copy.n) != copy.crc)
            return damaged(err, "a checksum is wrong");
        SK_ASSERT(copy.n <= max);
        *n = copy.n;
        return SK_OK;
    }
    return SK_EAGAIN;
}

static void end_text(char *text, size_t cap) { text[cap - 1] = 0; }
#define END_TEXT(t) end_text((t), sizeof(t))

sk_rc sk_view_counters(struct sk_view_reader *r, struct sk_view_counters *out, struct sk_err *err) {
    size_t n;
    struct sk_view_counters c;
    SK_TRY(read_cell(r->fd, SK_VIEW_COUNTERS_AT, sizeof c, &c, &n, err));
    if (n != sizeof c) return damaged(err, "its counters are cut");
    END_TEXT(c.waits);
    *out = c;
    return SK_OK;
}

sk_rc sk_view_error(struct sk_view_reader *r, uint32_t slot, struct sk_view_error *out,
                    struct sk_err *err) {
    size_t n;
    struct sk_view_error e;
    if (slot >= SK_VIEW_ERRORS) return SK_EAGAIN;
    SK_TRY(read_cell(r->fd, sk_view_error_at(slot), sizeof e, &e, &n, err));
    if (n != sizeof e) return damaged(err, "an error is cut");
    END_TEXT(e.text);
    END_TEXT(e.op);
    END_TEXT(e.replay);
    *out = e;
    return SK_OK;
}

static bool op_ok(struct sk_view_op *o, uint32_t n_ops) {
    END_TEXT(o->label);
    END_TEXT(o->by);
    if (o->n_inputs > SK_VIEW_INPUTS || o->n_fused > SK_VIEW_FUSED) return false;
    for (uint32_t i = 0; i < o->n_inputs; i++)
        if (o->inputs[i] >= n_ops) return false;
    for (uint32_t i = 0; i < o->n_fused; i++) END_TEXT(o->fused[i].label);
    return true;
}

/* Takes a run apart; false: its bytes are no run. */
static bool run_ok(const uint8_t *bytes, size_t n, struct sk_view_run *out) {
    size_t at = sk_view_run_head();
    if (n < at) return false;
    memcpy(out, bytes, at);
    END_TEXT(out->why);
    if (out->n_shown > SK_VIEW_OPS || out->n_shown > out->n_ops ||
        out->n_samples > SK_VIEW_SAMPLES || !(out->share <= 1) || /* NaN, too */
        (out->bottleneck >= out->n_ops && out->bottleneck != UINT32_MAX))
        return false;
    size_t ops = out->n_shown * sizeof out->ops[0],
           samples = out->n_samples * (SK_VS_N + out->n_shown) * sizeof out->samples[0];
    if (n != at + ops + samples) return false;
    SK_ASSERT(ops <= sizeof out->ops && samples <= sizeof out->samples);
    memcpy(out->ops, bytes + at, ops);
    memcpy(out->samples, bytes + at + ops, samples);
    for (uint32_t i = 0; i < out->n_shown; i++)
        if (!op_ok(&out->ops[i], out->n_ops)) return false;
    return true;
}

sk_rc sk_view_run(struct sk_view_reader *r, uint32_t slot, struct sk_view_run *out,
                  struct sk_err *err) {
    size_t n;
    if (slot >= SK_VIEW_RUNS) return SK_EAGAIN;
    uint8_t *bytes = sk_alloc(SK_TAG_ENGINE, sizeof *out);
    if (!bytes) return SK_ERR(err, SK_ENOMEM, "no memory to read a run");
    sk_rc rc = read_cell(r->fd, sk_view_run_at(slot), sizeof *out, bytes, &n, err);
    if (rc == SK_OK && !run_ok(bytes, n, out)) rc = damaged(err, "a run has impossible numbers");
    sk_free(bytes);
    return rc;
}

sk_rc sk_view_history(struct sk_view_reader *r, struct sk_view_history *out, struct sk_err *err) {
    size_t n, head = offsetof(struct sk_view_history, rows);
    struct sk_view_history h;
    SK_TRY(read_cell(r->fd, sk_view_history_at(), sizeof h, &h, &n, err));
    if (n < head || h.n > SK_VIEW_SAMPLES || n != head + h.n * SK_VH_N * sizeof h.rows[0])
        return damaged(err, "the numbers over time are cut");
    memcpy(out, &h, n);
    return SK_OK;
}

sk_rc sk_view_nodes(struct sk_view_reader *r, struct sk_view_nodes *out, struct sk_err *err) {
    size_t n, head = offsetof(struct sk_view_nodes, of);
    SK_TRY(read_cell(r->fd, sk_view_nodes_at(), sizeof *out, out, &n, err));
    if (n < head || out->n > SK_VIEW_NODES || n != head + out->n * sizeof out->of[0])
        return damaged(err, "its nodes are cut");
    for (uint64_t i = 0; i < out->n; i++) END_TEXT(out->of[i].name);
    return SK_OK;
}

sk_rc sk_view_workers(struct sk_view_reader *r, struct sk_view_workers *out, struct sk_err *err) {
    size_t n, head = offsetof(struct sk_view_workers, of);
    SK_TRY(read_cell(r->fd, sk_view_workers_at(), sizeof *out, out, &n, err));
    if (n < head || out->n > SK_VIEW_WORKERS || n != head + out->n * sizeof out->of[0])
        return damaged(err, "its workers are cut");
    for (uint64_t i = 0; i < out->n; i++) END_TEXT(out->of[i].name);
    return SK_OK;
}

/* Reads the last entries of the ring at `at` into `out`, oldest first. Entries that the driver may
 * have written over meanwhile are left out. *first: the number of the first entry. */
static sk_rc read_ring(int fd, uint64_t at, uint64_t cap, size_t size, void *out, uint64_t *first,
                       size_t *n, struct sk_err *err) {
    uint64_t end, now;
    if (!get(fd, at, &end, sizeof end)) return damaged(err, "it is too short");
    atomic_thread_fence(memory_order_acquire);
    uint64_t from = end > cap ? end - cap : 0, k = end - from,
             body = at + sizeof(struct sk_view_ring);
    uint64_t one = SK_MIN(k, cap - from % cap); /* the ring's end may be in the middle */
    if (!get(fd, body + from % cap * size, out, one * size) ||
        !get(fd, body, (uint8_t *)out + one * size, (k - one) * size))
        return damaged(err, "it is too short");
    atomic_thread_fence(memory_order_acquire);
    if (!get(fd, at, &now, sizeof now)) return damaged(err, "it is too short");
    /* entry `now` may be written at present, in the place of entry now - cap */
    uint64_t gone = now >= cap && now - cap + 1 > from ? SK_MIN(now - cap + 1 - from, k) : 0;
    SK_ASSERT(gone <= k && k <= cap);
    memmove(out, (uint8_t *)out + gone * size, (k - gone) * size);
    *first = from + gone;
    *n = (size_t)(k - gone);
    return SK_OK;
}

sk_rc sk_view_tasks(struct sk_view_reader *r, struct sk_view_task *out, size_t *n,
                    struct sk_err *err) {
    uint64_t first;
    return read_ring(r->fd, sk_view_tasks_at(), SK_VIEW_TASKS, sizeof *out, out, &first, n, err);
}

sk_rc sk_view_flows(struct sk_view_reader *r, struct sk_view_flow *out, size_t *n,
                    struct sk_err *err) {
    struct sk_view_flow_entry *e = sk_alloc(SK_TAG_ENGINE, SK_VIEW_FLOWS * sizeof *e);
    uint64_t first;
    size_t k = 0;
    if (!e) return SK_ERR(err, SK_ENOMEM, "no memory to read the flow of blocks");
    sk_rc rc = read_ring(r->fd, sk_view_flows_at(), SK_VIEW_FLOWS, sizeof *e, e, &first, &k, err);
    *n = 0;
    for (size_t i = 0; rc == SK_OK && i < k; i++)
        if (sk_load_relaxed(&e[i].seq) == first + i + 1) out[(*n)++] = e[i].flow;
    sk_free(e);
    return rc;
}

sk_rc sk_view_names(struct sk_view_reader *r, char (*out)[SK_VIEW_NAME], size_t *n,
                    struct sk_err *err) {
    uint64_t k;
    bool there = get(r->fd, sk_view_names_at(), &k, sizeof k) && k <= SK_VIEW_NAMES;
    atomic_thread_fence(memory_order_acquire);
    if (!there ||
        !get(r->fd, sk_view_names_at() + sizeof(struct sk_view_ring), out, k * SK_VIEW_NAME))
        return damaged(err, "the names of its tasks");
    for (uint64_t i = 0; i < k; i++) END_TEXT(out[i]);
    *n = (size_t)k;
    return SK_OK;
}
