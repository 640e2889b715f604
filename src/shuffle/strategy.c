/* strategy.c - finds strategies by name, and estimates what a layout costs: the arithmetic of
 * Exoshuffle (M + R objects if a map gives one value, M x R if it gives one per partition, M / F
 * packs if F are merged) with the figures of this store and of a disk. Pure.
 *
 * The figures are fitted to bench/py/strategies.py on 2 quiet cores (2026-11-23: 128 and 384 MiB
 * through 64 MiB of memory, in 16, 64 and 256 maps, each strategy); figures that have no effect in
 * these runs are right to an order of magnitude only. If a map gives one value, the running reduces
 * hold all of a full store, so the store has no room for the bytes that they read from disk, and
 * each part goes to the overflow file. */
#include <string.h>

#include "shuffle/shuffle.h"

/* seconds of the driver per value: to store it, to handle its message, to free it */
#define OBJECT_S 22e-6
#define SLICE_S 3e-6     /* seconds per part of a value that is an argument */
#define READ_S 10e-6     /* seconds of the driver per part that is read from disk, besides DISK_S */
#define READ_CPU_S 48e-6 /* seconds of a reduce's CPU per part that is read from disk */
#define DISK_S 1e-9      /* seconds per byte written to disk or read from it */
/* seconds per byte read from disk while running reduces hold all of memory */
#define CROWDED_S 150e-9
#define COPY_S 0.1e-9  /* seconds per byte of a whole value that a task gets but does not need */
#define MERGE_S 0.6e-9 /* CPU seconds per byte that is merged: it is read, and written again */
/* Share of the bytes on disk that were spilled before they were merged, and have to be read back
 * for the merge; up to AGAIN_WORK is added the more of memory running merges and their outputs
 * fill. */
#define AGAIN 0.2
#define AGAIN_WORK 0.2
#define TASK_S 150e-6 /* seconds of the driver per task */
#define GATHERED 4u   /* packs that wait to be merged may have 1 / GATHERED of memory */

extern const struct sk_shuffle_ops *const sk_shuffle_table[];
extern const unsigned sk_shuffle_table_n;

const struct sk_shuffle_ops *sk_shuffle_find(const char *name) {
    for (unsigned i = 0; name && i < sk_shuffle_table_n; i++)
        if (strcmp(name, sk_shuffle_table[i]->name) == 0) return sk_shuffle_table[i];
    return NULL;
}

const char *sk_shuffle_name(unsigned i) {
    return i < sk_shuffle_table_n ? sk_shuffle_table[i]->name : NULL;
}

uint32_t sk_shuffle_fan_in(const struct sk_shuffle_sizes *z, uint32_t ranges, uint64_t bytes) {
    uint64_t n = z->memory_bytes / GATHERED / SK_MAX(ranges, 1u) / SK_MAX(bytes, 1);
    return n < 2 ? 0 : (uint32_t)SK_MIN(n, SK_SHUFFLE_MERGE_MAX);
}

uint32_t sk_shuffle_home(const struct sk_shuffle_sizes *z, const struct sk_shuffle_pack *p,
                         uint32_t ranges) {
    return ranges < z->nodes ? SK_SHUFFLE_ANY
                             : p->first / SK_MAX(p->end - p->first, 1u) % SK_MAX(z->nodes, 1u);
}

/* Estimates the share of the bytes on disk that are spilled before they are merged. */
static double again(const struct sk_shuffle_sizes *z, struct sk_shuffle_layout layout) {
    double merge = (double)layout.merge * (double)z->map_bytes /
                   (z->runs ? 1 : (double)SK_MAX(layout.values, 1u));
    double at_work = 2 * (double)SK_MAX(z->slots, 1u) * merge / (double)SK_MAX(z->memory_bytes, 1);
    return AGAIN + AGAIN_WORK * SK_MIN(at_work, 1);
}

double sk_shuffle_cost(const struct sk_shuffle_sizes *z, struct sk_shuffle_layout layout) {
    double bytes = (double)z->bytes, memory = (double)SK_MAX(z->memory_bytes, 1),
           v = (double)SK_MAX(layout.values, 1u);
    double maps = SK_MAX(bytes / (double)SK_MAX(z->map_bytes, 1), 1),
           reduces = SK_MAX(bytes / (double)SK_MAX(z->reduce_bytes, 1), 1);
    double sources = maps, slots = (double)SK_MAX(z->slots, 1u),
           disk = z->spills && bytes > memory ? bytes - memory : 0;
    if (z->runs && layout.merge > 1) v = 1; /* whole runs are merged, so a map gives one value */
    double sec = maps * v * OBJECT_S;
    if (layout.merge > 1) {
        double merges = SK_MAX(maps / layout.merge, 1) * v;
        sources = SK_MAX(maps / layout.merge, 1);
        v *= (double)SK_MAX(layout.merged, 1u);
        sec += merges * TASK_S + sources * v * OBJECT_S + bytes * MERGE_S / slots +
               again(z, layout) * disk * 2 * DISK_S;
    }
    double slices = sources * SK_MAX(reduces, v);
    /* The share of memory held by values that running reduces have parts of. It is twice as
     * large for sorted runs, which are not cut where partitions end. */
    double held = SK_MIN((z->runs ? 2 : 1) / v, 1);
    /* if less than half of memory is held, the rest has room for the bytes that reduces read */
    double crowd = SK_MIN(SK_MAX(2 * held - 1, 0), 1);
    sec += slices * SLICE_S + disk * (2 * DISK_S + crowd * CROWDED_S);
    if (disk > 0) sec += slices * disk / bytes * (READ_S + READ_CPU_S / slots);
    return z->parts ? sec : sec + bytes * SK_MAX(reduces / v - 1, 0) * COPY_S;
}
