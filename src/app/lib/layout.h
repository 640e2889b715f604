/* layout.h - how a sort is cut into tasks: ranges of the input, parts of the output, and what is
 * merged on the way. */
#ifndef LAYOUT_H
#define LAYOUT_H

#include <stddef.h>
#include <stdint.h>

enum { LAYOUT_URL = 1024, LAYOUT_CHOSEN = UINT32_MAX };

struct layout_range { /* of the input: one map */
    uint64_t at, n;   /* byte in the file, records */
    char url[LAYOUT_URL];
};
struct layout {
    uint64_t map_bytes, part_bytes; /* wishes; 0: chosen */
    /* blocks that a merge takes; 0: no merges; LAYOUT_CHOSEN: none as long as blocks are of 256
     * KiB */
    uint32_t per_merge;
    /* made: */
    struct layout_range *map;
    /* tasks; merge ranges (parts, if there are no merges); parts: a multiple of ranges */
    uint32_t maps, ranges, parts;
    uint32_t groups; /* runs of each part: groups of per_merge maps, or the maps */
    /* of the input; a fingerprint of all that the output depends on */
    uint64_t bytes, hash;
};
/* Ends the program when an input is not there or is no whole records. */
void layout_make(struct layout *l, const char *out, char **url, uint32_t n, uint32_t cpus);
/* A sample of the input, the same each time: *records records, to be freed. Ends the program when
 * it cannot be read. */
uint8_t *layout_sample(const struct layout *l, size_t *records);

#endif
