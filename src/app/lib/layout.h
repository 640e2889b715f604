/* layout.h - how a sort is divided into tasks: ranges of the input, parts of the output, and merges
 * in between. */
#ifndef LAYOUT_H
#define LAYOUT_H

#include <stddef.h>
#include <stdint.h>

enum { LAYOUT_URL = 1024, LAYOUT_CHOSEN = UINT32_MAX };

struct layout_range { /* a range of the input, which one map reads */
    uint64_t at, n;   /* at: byte in the file; n: number of records */
    char url[LAYOUT_URL];
};
struct layout {
    uint64_t map_bytes, part_bytes; /* sizes given by the user; 0: chosen */
    /* Number of blocks that one merge takes; 0: no merges; LAYOUT_CHOSEN: no merges if blocks have
     * at least 256 KiB, else a number chosen by layout_make. */
    uint32_t per_merge;
    /* the members from here on are computed by layout_make */
    struct layout_range *map;
    /* maps: number of maps; ranges: number of merge ranges (without merges: of parts); parts:
     * number of parts, a multiple of ranges. */
    uint32_t maps, ranges, parts;
    uint32_t groups; /* runs of each part: one for each group of per_merge maps, or for each map */
    /* bytes: size of the input; hash: fingerprint of everything on which the output depends. */
    uint64_t bytes, hash;
};
/* Computes the layout. Ends the program if an input does not exist or its size is not a multiple of
 * a record. */
void layout_make(struct layout *l, const char *out, char **url, uint32_t n, uint32_t cpus);
/* Returns a sample of the input, which is the same at each call: *records records, to be freed by
 * the caller. Ends the program if the input cannot be read. */
uint8_t *layout_sample(const struct layout *l, size_t *records);

#endif
