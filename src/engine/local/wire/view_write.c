/* view_write.c - the driver's side of the view: the segment, and cells that are written. See
 * view.h. Cost: a copy and a checksum, 2 us for a run of 8 operators with all its samples. */
#include <stdio.h>
#include <sys/mman.h>

#include "base/atomic.h"
#include "base/crc32c.h"
#include "base/mem.h"
#include "engine/local/wire/view.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

static struct sk_view_head *head_of(const struct sk_view_writer *w) {
    return (struct sk_view_head *)(void *)w->seg.base;
}

sk_rc sk_viewer_open(struct sk_view_writer *w, const struct sk_view_about *about,
                     struct sk_err *err) {
    *w = (struct sk_view_writer){.seg = SK_SEG_EMPTY};
    if (sk_machine_) return SK_OK;
    SK_TRY(sk_seg_create(&w->seg, "skate-view", sk_view_bytes(), false, err));
    sk_map_init(&w->names, SK_TAG_ENGINE);
    if (sk_map_reserve(&w->names, SK_VIEW_NAMES) != SK_OK) {
        sk_seg_close(&w->seg);
        return SK_ERR(err, SK_ENOMEM, "no memory for the engine");
    }
    w->tasks = (struct sk_view_ring *)(void *)(w->seg.base + sk_view_tasks_at());
    w->flows = (struct sk_view_ring *)(void *)(w->seg.base + sk_view_flows_at());
    struct sk_view_head *h = head_of(w);
    h->started_ns = about->started_ns;
    h->started_wall_ns = about->started_wall_ns;
    h->cpu_e4 = about->cpu_e4;
    h->gpu_e4 = about->gpu_e4;
    h->pid = about->pid;
    memcpy(h->program, about->program, sizeof h->program);
    h->crc =
        sk_crc32c(0, &h->started_ns,
                  offsetof(struct sk_view_head, crc) - offsetof(struct sk_view_head, started_ns));
    SK_ASSERT(w->seg.size >= sk_view_bytes() && sizeof *h <= SK_VIEW_COUNTERS_AT);
    h->size = sk_view_bytes(); /* the segment may end later, with a page */
    h->version = SK_VIEW_VERSION;
    h->magic = SK_VIEW_MAGIC;
    return SK_OK;
}

void sk_viewer_warm(struct sk_view_writer *w) {
    if (!sk_viewer_on(w)) return;
    /* refused by kernels before 5.14: the first tasks then pay for the pages */
    uint64_t at = sk_view_tasks_at(), n = sk_view_flows_at() - at;
    (void)madvise(w->seg.base + at, n, MADV_POPULATE_WRITE);
}

void sk_viewer_end(struct sk_view_writer *w) {
    if (sk_viewer_on(w)) sk_store_rel(&head_of(w)->ended, 1);
}

void sk_viewer_close(struct sk_view_writer *w) {
    if (!sk_viewer_on(w)) return;
    sk_seg_close(&w->seg);
    sk_map_deinit(&w->names);
    w->tasks = w->flows = NULL;
}

/* Writes the cell at `at` from n pieces of bytes, of which at most `max` bytes fit. */
static void write_cell(struct sk_view_writer *w, uint64_t at, uint64_t max,
                       const struct sk_bytes *pieces, size_t n) {
    SK_ASSERT(at + sk_cell_stride(max) <= w->seg.size);
    struct sk_cell *c = (struct sk_cell *)(void *)(w->seg.base + at);
    uint64_t turn = sk_load_relaxed(&c->turn) + 1;
    SK_ASSERT(at % 8 == 0 && head_of(w)->magic == SK_VIEW_MAGIC);
    uint8_t *to = w->seg.base + sk_cell_copy_at(at, max, turn);
    struct sk_cell_copy copy = {0};
    /* the copy that is written now was valid until the last store of `turn`, which a reader must
     * see before it sees any of these bytes */
    atomic_thread_fence(memory_order_release);
    for (size_t i = 0; i < n; i++) {
        SK_ASSERT(copy.n + pieces[i].n <= max);
        memcpy(to + sizeof copy + copy.n, pieces[i].p, pieces[i].n);
        copy.crc = sk_crc32c(copy.crc, pieces[i].p, pieces[i].n);
        copy.n += (uint32_t)pieces[i].n;
    }
    memcpy(to, &copy, sizeof copy);
    sk_store_rel(&c->turn, turn);
}

void sk_viewer_counters(struct sk_view_writer *w, const struct sk_view_counters *c) {
    if (!sk_viewer_on(w)) return;
    write_cell(w, SK_VIEW_COUNTERS_AT, sizeof *c, &(struct sk_bytes){c, sizeof *c}, 1);
}

void sk_viewer_run(struct sk_view_writer *w, uint32_t slot, const struct sk_view_run *run) {
    if (!sk_viewer_on(w) || slot >= SK_VIEW_RUNS) return;
    SK_ASSERT(run->n_shown <= SK_VIEW_OPS && run->n_samples <= SK_VIEW_SAMPLES);
    struct sk_bytes pieces[] = {
        {run, sk_view_run_head()},
        {run->ops, run->n_shown * sizeof run->ops[0]},
        {run->samples, run->n_samples * (SK_VS_N + run->n_shown) * sizeof run->samples[0]}};
    write_cell(w, sk_view_run_at(slot), sizeof *run, pieces, SK_COUNT(pieces));
}

void sk_viewer_error(struct sk_view_writer *w, const struct sk_view_error *e) {
    if (!sk_viewer_on(w)) return;
    write_cell(w, sk_view_error_at(w->n_errors++ % SK_VIEW_ERRORS), sizeof *e,
               &(struct sk_bytes){e, sizeof *e}, 1);
}

void sk_viewer_history(struct sk_view_writer *w, const struct sk_view_history *h) {
    if (!sk_viewer_on(w)) return;
    SK_ASSERT(h->n <= SK_VIEW_SAMPLES);
    write_cell(w, sk_view_history_at(), sizeof *h,
               &(struct sk_bytes){h, offsetof(struct sk_view_history, rows) +
                                         h->n * SK_VH_N * sizeof h->rows[0]},
               1);
}

void sk_viewer_nodes(struct sk_view_writer *w, const struct sk_view_nodes *n) {
    if (!sk_viewer_on(w)) return;
    SK_ASSERT(n->n <= SK_VIEW_NODES);
    size_t used = offsetof(struct sk_view_nodes, of) + n->n * sizeof n->of[0];
    write_cell(w, sk_view_nodes_at(), sizeof *n, &(struct sk_bytes){n, used}, 1);
}

void sk_viewer_workers(struct sk_view_writer *w, const struct sk_view_workers *n) {
    if (!sk_viewer_on(w)) return;
    SK_ASSERT(n->n <= SK_VIEW_WORKERS);
    size_t used = offsetof(struct sk_view_workers, of) + n->n * sizeof n->of[0];
    write_cell(w, sk_view_workers_at(), sizeof *n, &(struct sk_bytes){n, used}, 1);
}

/* ---- rings ----------------------------------------------------------------------------------- */

void sk_viewer_task(struct sk_view_writer *w, const struct sk_view_task *t) {
    struct sk_view_ring *r = w->tasks;
    if (!r) return;
    struct sk_view_task *ring = (struct sk_view_task *)(void *)(r + 1);
    uint64_t n = sk_load_relaxed(&r->n);
    /* as in a cell: the entry that is written now was valid until the last store of n */
    atomic_thread_fence(memory_order_release);
    ring[n % SK_VIEW_TASKS] = *t;
    sk_store_rel(&r->n, n + 1);
    __builtin_prefetch(&ring[(n + 1) % SK_VIEW_TASKS], 1);
}

void sk_viewer_flow(struct sk_view_writer *w, const struct sk_view_flow *f) {
    struct sk_view_ring *r = w->flows;
    if (!r) return;
    uint64_t i = sk_add_relaxed(&r->n, 1);
    struct sk_view_flow_entry *e = (struct sk_view_flow_entry *)(void *)(r + 1) + i % SK_VIEW_FLOWS;
    sk_store_relaxed(&e->seq, 0);
    atomic_thread_fence(memory_order_release);
    e->flow = *f;
    sk_store_rel(&e->seq, i + 1);
}

/* ---- names of tasks -------------------------------------------------------------------------- */

/* A cheap hash of a name: its length and some of its bytes. Names that have the same one are told
 * apart by their bytes. */
static uint64_t key_of(struct sk_bytes name) {
    uint64_t a = 0, b = 0, k = UINT64_C(0x9e3779b97f4a7c15);
    if (SK_LIKELY(name.n >= 8)) {
        memcpy(&a, name.p, 8);
        memcpy(&b, (const uint8_t *)name.p + name.n - 8, 8);
    } else if (name.n) {
        memcpy(&a, name.p, name.n);
    }
    a = (a ^ name.n) * k;
    b = (b ^ (a >> 32)) * k;
    return (b ^ (b >> 29)) | UINT64_C(1) << 63; /* keys that callers give have a 0 there */
}

static char *name_at(const struct sk_view_writer *w, uint32_t i) {
    SK_DCHECK(i < SK_VIEW_NAMES);
    return (char *)w->seg.base + sk_view_names_at() + sizeof(struct sk_view_ring) +
           i * SK_VIEW_NAME;
}

/* The map has the index of a name, plus one. */
static uint32_t index_of(const struct sk_view_writer *w, uint64_t key) {
    return (uint32_t)(uintptr_t)sk_map_get(&w->names, key) - 1;
}

uint32_t sk_viewer_known(const struct sk_view_writer *w, uint64_t key) { return index_of(w, key); }

uint32_t sk_viewer_name(struct sk_view_writer *w, uint64_t key, struct sk_bytes name,
                        const char *end) {
    if (!sk_viewer_on(w)) return UINT32_MAX;
    bool by_text = !key;
    size_t n = SK_MIN(name.n, SK_VIEW_NAME - 1);
    if (by_text) key = key_of(name);
    uint32_t at;
    while ((at = index_of(w, key)) != UINT32_MAX) {
        if (!by_text || memcmp(name_at(w, at), name.p, n) == 0) return at;
        key++; /* of another name with this hash */
    }
    at = w->names.n;
    if (at == SK_VIEW_NAMES || sk_map_put(&w->names, key, (void *)(uintptr_t)(at + 1)) != SK_OK)
        return UINT32_MAX;
    (void)snprintf(name_at(w, at), SK_VIEW_NAME, "%.*s%s", (int)n, (const char *)name.p, end);
    sk_store_rel(&((struct sk_view_ring *)(void *)(w->seg.base + sk_view_names_at()))->n, at + 1);
    return at;
}
