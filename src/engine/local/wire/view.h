/* view.h - the layout of the view segment (engine/view.h), and the calls that write it.
 *
 *     0        struct sk_view_head
 *     4096     counters                     a cell
 *     ..       errors                       SK_VIEW_ERRORS cells
 *     ..       history                      a cell
 *     ..       runs                         SK_VIEW_RUNS cells
 *     ..       names of tasks               a list that grows
 *     ..       ended tasks, flow of blocks  rings
 *     ..       nodes, workers of nodes      cells, of a cluster
 *
 * A *cell* has two copies of what it holds. The driver writes the copy that is not valid, with its
 * length and checksum, and then makes it the valid one by `turn`. So a driver that is killed while
 * it writes leaves the copy before; and a reader that finds `turn` unchanged after it has copied
 * knows that nothing was written to its copy meanwhile.
 *
 *  field                 | who writes it            | order
 *  head but `ended`      | driver, once             | before any reader can know the segment
 *  head.ended            | driver, when it closes   | release
 *  cell.turn             | driver, engine's lock    | release after the copy, then a release fence
 *                                                     before the next copy is written
 *  copy turn & 1         | nobody, until turn has grown by one
 *  names.n, tasks.n      | driver, engine's lock    | release, after the entry
 *  flows.n               | any thread of the driver | taken by an addition, before the entry
 *  flow.seq              | the same thread          | release, after the rest of the entry
 *
 * Of a driver that was killed, all that was made valid before is there. The driver is the only
 * process that maps the segment; readers read it as a file, which cannot shrink them to SIGBUS. */
#ifndef SK_LOCAL_VIEW_H
#define SK_LOCAL_VIEW_H

#include "base/containers/map.h"
#include "engine/view.h"
#include "ipc/ipc.h"

#define SK_VIEW_MAGIC UINT64_C(0x57454956544b5331) /* "1SKTVIEW" */
#define SK_VIEW_VERSION 2u

struct sk_view_head {
    uint64_t magic;
    uint32_t version;
    _Atomic uint32_t ended;
    uint64_t size; /* of the segment */
    int64_t started_ns, started_wall_ns;
    int64_t cpu_e4, gpu_e4;
    int32_t pid;
    uint32_t pad;
    char program[SK_VIEW_PROGRAM];
    uint32_t crc; /* of the bytes of started_ns .. program */
};

struct sk_cell {
    _Atomic uint64_t turn; /* 0: nothing was written yet; else copy turn & 1 is valid */
    uint64_t pad;
};
struct sk_cell_copy { /* followed by n bytes */
    uint32_t n, crc;
};
static inline uint64_t sk_cell_stride(uint64_t max) {
    return SK_ALIGN(sizeof(struct sk_cell) + 2 * (sizeof(struct sk_cell_copy) + SK_ALIGN(max, 8)),
                    64);
}
/* The offset of copy i of a cell whose content has at most `max` bytes. */
static inline uint64_t sk_cell_copy_at(uint64_t cell, uint64_t max, uint64_t i) {
    return cell + sizeof(struct sk_cell) +
           (i & 1) * (sizeof(struct sk_cell_copy) + SK_ALIGN(max, 8));
}
#define SK_VIEW_COUNTERS_AT UINT64_C(4096)
static inline uint64_t sk_view_error_at(uint64_t i) {
    return SK_VIEW_COUNTERS_AT + sk_cell_stride(sizeof(struct sk_view_counters)) +
           i * sk_cell_stride(sizeof(struct sk_view_error));
}
static inline uint64_t sk_view_history_at(void) { return sk_view_error_at(SK_VIEW_ERRORS); }
static inline uint64_t sk_view_run_at(uint64_t i) {
    return SK_ALIGN(sk_view_history_at() + sk_cell_stride(sizeof(struct sk_view_history)), 4096) +
           i * SK_ALIGN(sk_cell_stride(sizeof(struct sk_view_run)), 4096);
}
struct sk_view_ring {   /* a list or a ring: followed by its entries */
    _Atomic uint64_t n; /* number of entries ever added */
    uint64_t pad[7];
};
struct sk_view_flow_entry { /* entry i of the ring of flows */
    _Atomic uint64_t seq;   /* i + 1; anything else: it is not complete */
    struct sk_view_flow flow;
};
_Static_assert(sizeof(struct sk_view_task) == 64, "one cache line");
_Static_assert(sizeof(struct sk_view_flow_entry) == 32, "half a cache line");
static inline uint64_t sk_view_names_at(void) { return sk_view_run_at(SK_VIEW_RUNS); }
static inline uint64_t sk_view_tasks_at(void) {
    return SK_ALIGN(sk_view_names_at() + sizeof(struct sk_view_ring) +
                        UINT64_C(1) * SK_VIEW_NAMES * SK_VIEW_NAME,
                    4096);
}
static inline uint64_t sk_view_flows_at(void) {
    return SK_ALIGN(sk_view_tasks_at() + sizeof(struct sk_view_ring) +
                        SK_VIEW_TASKS * sizeof(struct sk_view_task),
                    4096);
}
static inline uint64_t sk_view_nodes_at(void) {
    return SK_ALIGN(sk_view_flows_at() + sizeof(struct sk_view_ring) +
                        SK_VIEW_FLOWS * sizeof(struct sk_view_flow_entry),
                    4096);
}
static inline uint64_t sk_view_workers_at(void) {
    return SK_ALIGN(sk_view_nodes_at() + sk_cell_stride(sizeof(struct sk_view_nodes)), 4096);
}
static inline uint64_t sk_view_bytes(void) {
    return SK_ALIGN(sk_view_workers_at() + sk_cell_stride(sizeof(struct sk_view_workers)), 4096);
}
/* A run in its cell: the struct up to `ops`, then n_shown operators, then the samples. */
static inline size_t sk_view_run_head(void) { return offsetof(struct sk_view_run, ops); }

/* ---- view_save.c ----------------------------------------------------------------------------- */

#define SK_VIEW_PATH 1024u /* bytes of a record's path, with its NUL */
/* Writes a view as a record: of a driver that was killed, unless it has noted that it closed the
 * engine. */
sk_rc sk_view_save(const uint8_t *base, const char *path, struct sk_err *err) SK_MUST_USE;
/* In the fork server: makes the witness that saves the view of a driver that is killed. given:
 * "descriptor,path". False: it is damaged. */
bool sk_view_witness(const char *given, struct sk_witness *out);

/* ---- view_write.c: the driver, with the engine's lock held ----------------------------------- */

struct sk_view_writer {
    struct sk_seg seg;
    uint64_t n_errors;
    struct sk_view_ring *tasks, *flows; /* NULL: there is no view */
    struct sk_map names;                /* the names that are stored, by their key */
};
/* Makes the segment, named "skate-view". In a simulation there is none, and nothing is written. */
sk_rc sk_viewer_open(struct sk_view_writer *w, const struct sk_view_about *about,
                     struct sk_err *err) SK_MUST_USE;
/* Makes the pages of the ring of tasks present, which takes 0.4 ms: without it, the first tasks pay
 * 35 ns each for that. By any thread, until sk_viewer_close begins. */
void sk_viewer_warm(struct sk_view_writer *w);
void sk_viewer_end(struct sk_view_writer *w); /* notes that the engine was closed */
void sk_viewer_close(struct sk_view_writer *w);
static inline bool sk_viewer_on(const struct sk_view_writer *w) { return w->seg.base != NULL; }
void sk_viewer_counters(struct sk_view_writer *w, const struct sk_view_counters *c);
void sk_viewer_run(struct sk_view_writer *w, uint32_t slot, const struct sk_view_run *run);
void sk_viewer_error(struct sk_view_writer *w, const struct sk_view_error *e);
void sk_viewer_history(struct sk_view_writer *w, const struct sk_view_history *h);
void sk_viewer_nodes(struct sk_view_writer *w, const struct sk_view_nodes *n);
void sk_viewer_workers(struct sk_view_writer *w, const struct sk_view_workers *n);
/* Adds an ended attempt. 10 ns. */
void sk_viewer_task(struct sk_view_writer *w, const struct sk_view_task *t);
/* The index of a name; key: a number that stands for the name, 0: made from its text. `end` is
 * added to its text. UINT32_MAX: the table is full. */
uint32_t sk_viewer_name(struct sk_view_writer *w, uint64_t key, struct sk_bytes name,
                        const char *end);
/* The index of the name that was stored with this key; UINT32_MAX: none was. */
uint32_t sk_viewer_known(const struct sk_view_writer *w, uint64_t key);
/* May be called by any thread, without the engine's lock. */
void sk_viewer_flow(struct sk_view_writer *w, const struct sk_view_flow *f);

#endif
