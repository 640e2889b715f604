/* layout.c - divides a sort into tasks. The figures for 1 and 8 GB are measured:
 * docs/design/cloudsort.md. */
#include "layout.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "files.h"
#include "sortrec.h"
#include "tool.h"

enum {
    SIZE = SORTREC_SIZE,
    SAMPLES = 256,
    RUN = 100, /* records of each sample */
    SMALL = 256 << 10,
    MOST_PARTS = 90000,
    MIB = 1 << 20
};

static void add_file(struct layout *l, const char *url, uint64_t bytes) {
    uint64_t most = tool_clamp(l->map_bytes / SIZE, 1, UINT32_MAX), records = bytes / SIZE,
             ranges = (records + most - 1) / most;
    l->map = tool_need(realloc(l->map, (l->maps + ranges + 1) * sizeof *l->map));
    for (uint64_t r = 0; r < ranges; r++) {
        uint64_t from = records * r / ranges;
        struct layout_range *m = &l->map[l->maps++];
        *m = (struct layout_range){.at = from * SIZE, .n = records * (r + 1) / ranges - from};
        memcpy(m->url, url, strlen(url) + 1);
    }
}

void layout_make(struct layout *l, const char *out, char **url, uint32_t n, uint32_t cpus) {
    struct input {
        uint64_t bytes, version;
    } *in = tool_need(calloc(n + 1, sizeof *in));
    l->hash = tool_hash(0, out, strlen(out));
    for (uint32_t i = 0; i < n; i++) {
        if (strlen(url[i]) >= LAYOUT_URL || strlen(out) + 16 >= LAYOUT_URL)
            tool_die("%.100s...: the name is too long", url[i]);
        if (files_size(url[i], &in[i].bytes, &in[i].version)) tool_die("%s", files_error());
        if (in[i].bytes % SIZE)
            tool_die("%s: %" PRIu64 " bytes are no whole records of %d: is it truncated?", url[i],
                     in[i].bytes, SIZE);
        l->bytes += in[i].bytes;
        l->hash = tool_hash(tool_hash(l->hash, url[i], strlen(url[i])), &in[i], sizeof in[i]);
    }
    if (!l->map_bytes) l->map_bytes = tool_clamp(l->bytes / (8 * cpus), 16 * MIB, 128 * MIB);
    if (!l->part_bytes) l->part_bytes = tool_clamp(l->bytes / (16 * cpus), MIB, 64 * MIB);
    for (uint32_t i = 0; i < n; i++) add_file(l, url[i], in[i].bytes);
    uint64_t parts = tool_clamp(l->bytes / l->part_bytes, 1, MOST_PARTS),
             block = l->map_bytes / parts;
    /* Small blocks are merged: so many blocks at a time that runs have 2 MiB, in so many ranges
     * that blocks have 4 MiB. */
    if (l->per_merge == LAYOUT_CHOSEN)
        l->per_merge = block >= SMALL ? 0 : (uint32_t)tool_clamp(2 * MIB / (block + 1), 2, 64);
    l->ranges =
        (uint32_t)(l->per_merge ? tool_clamp(l->map_bytes / (4 * MIB), 2 * cpus, parts) : parts);
    l->parts = (uint32_t)((parts + l->ranges - 1) / l->ranges * l->ranges);
    l->groups = l->per_merge ? (l->maps + l->per_merge - 1) / l->per_merge : l->maps;
    l->hash = tool_hash(l->hash, (uint64_t[]){l->map_bytes, l->parts, l->ranges, l->per_merge},
                        4 * sizeof(uint64_t));
    free(in);
}

uint8_t *layout_sample(const struct layout *l, size_t *records) {
    uint8_t *sample = tool_need(malloc((size_t)SAMPLES * RUN * SIZE));
    struct files_range r[SAMPLES];
    size_t n = l->maps ? (size_t)tool_clamp(l->bytes / SIZE / RUN + 1, 1, SAMPLES) : 0;
    *records = 0;
    for (uint64_t i = 0; i < n; i++) {
        const struct layout_range *m = &l->map[i * l->maps / n];
        uint64_t k = m->n < RUN ? m->n : RUN, at = tool_hash(0, &i, sizeof i) % (m->n - k + 1);
        r[i] = (struct files_range){m->url, m->at + at * SIZE, sample + *records * SIZE, k * SIZE};
        *records += k;
    }
    if (files_read(r, n)) tool_die("%s", files_error());
    return sample;
}
