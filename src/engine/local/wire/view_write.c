/* view_write.c - the driver's side of the view: the segment, and cells that are written. See
 * view.h. Cost: a copy and a checksum, 2 us for a run of 8 operators with all its samples. */
#include <unistd.h>

#include "base/atomic.h"
#include "base/crc32c.h"
#include "engine/local/wire/view.h"

static struct sk_view_head *head_of(const struct sk_view_writer *w) {
    return (struct sk_view_head *)(void *)w->seg.base;
}

sk_rc sk_viewer_open(struct sk_view_writer *w, const struct sk_view_about *about,
                     struct sk_err *err) {
    *w = (struct sk_view_writer){.seg = SK_SEG_EMPTY};
    if (sk_machine_) return SK_OK;
    SK_TRY(sk_seg_create(&w->seg, "skate-view", sk_view_bytes(), false, err));
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
    h->size = w->seg.size;
    h->version = SK_VIEW_VERSION;
    h->magic = SK_VIEW_MAGIC;
    return SK_OK;
}

void sk_viewer_close(struct sk_view_writer *w, bool orderly) {
    if (!sk_viewer_on(w)) return;
    if (orderly) sk_store_rel(&head_of(w)->ended, 1);
    sk_seg_close(&w->seg);
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
