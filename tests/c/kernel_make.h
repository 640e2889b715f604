/* kernel_make.h - random Arrow columns for tests of kernels. Each column has its values as plain
 * cells, too, which a naive second implementation reads without Arrow. */
#ifndef KERNEL_MAKE_H
#define KERNEL_MAKE_H

#include "kernel/kernel.h"

enum { CELL_VALUE, CELL_NAN, CELL_NULL };
struct cell {
    int class;
    double d;   /* value of a float */
    __int128 i; /* value of all other numbers except 256-bit decimals */
    size_t n;   /* bytes of a text; a 256-bit decimal is 32 bytes, little-endian */
    uint8_t bytes[64];
};

struct column {
    const char *format;
    struct ArrowSchema schema, values_schema;
    struct ArrowArray array, values_array;
    const void *buffers[4], *values_buffers[4];
    /* all: the cells of the array's whole memory; cells: those from its offset on */
    struct cell *all, *cells;
    void *mem[16];
    int n_mem;
};

struct column_how {
    /* Columns with equal `seed` and `distinct` have values from the same set. distinct: size of the
     * set; 0: no limit. */
    uint64_t seed, distinct;
    unsigned nulls;  /* percent of the rows */
    unsigned prefix; /* bytes at the beginning that all texts share */
    bool dictionary;
};

extern const char *const key_formats[];
extern const size_t n_key_formats;

/* Makes a column of `rows` rows behind a random offset, with the name "x". */
void column_make(struct column *c, const char *format, int64_t rows, struct column_how how);
/* Makes a column with the values of `from` in another layout: format, offset and dictionary may
 * differ, if the values fit the format. */
void column_copy(struct column *c, const char *format, const struct column *from, int64_t rows,
                 bool dictionary);
void column_free(struct column *c);

/* Compares two cells in the order that docs/design/kernels.md defines, written without the kernels'
 * code. */
int cell_compare(const char *format, const struct cell *a, const struct cell *b, bool descending,
                 bool nulls_first);

struct batch {
    struct ArrowSchema schema, *fields[8];
    struct ArrowArray array, *arrays[8];
    const void *buffers[1];
};
/* Makes a batch of n columns with `rows` rows. It begins at row `offset` of the columns. */
void batch_make(struct batch *b, struct column *columns, int n, int64_t rows, int64_t offset);

#endif
