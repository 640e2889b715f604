/* kernel_make.h - random Arrow columns for tests of kernels, each with its values in a form that a
 * naive twin reads without Arrow. */
#ifndef KERNEL_MAKE_H
#define KERNEL_MAKE_H

#include "kernel/kernel.h"

enum { CELL_VALUE, CELL_NAN, CELL_NULL };
struct cell {
    int class;
    double d;   /* of floats */
    __int128 i; /* of all other numbers but 256-bit decimals */
    size_t n;   /* of text: bytes; a 256-bit decimal is 32 bytes, little-endian */
    uint8_t bytes[64];
};

struct column {
    const char *format;
    struct ArrowSchema schema, values_schema;
    struct ArrowArray array, values_array;
    const void *buffers[4], *values_buffers[4];
    struct cell *all, *cells; /* cells: from the array's offset on */
    void *mem[16];
    int n_mem;
};

struct column_how {
    /* seed: equal ones draw from the same values; distinct 0: as many as there are */
    uint64_t seed, distinct;
    unsigned nulls;  /* percent */
    unsigned prefix; /* bytes that all texts share */
    bool dictionary;
};

extern const char *const key_formats[];
extern const size_t n_key_formats;

/* `rows` rows behind a random offset. The name is "x". */
void column_make(struct column *c, const char *format, int64_t rows, struct column_how how);
/* The same values in another layout: format, offset and dictionary may differ as far as the values
 * fit. */
void column_copy(struct column *c, const char *format, const struct column *from, int64_t rows,
                 bool dictionary);
void column_free(struct column *c);

/* The order of docs/design/kernels.md, written without the kernel. */
int cell_compare(const char *format, const struct cell *a, const struct cell *b, bool descending,
                 bool nulls_first);

struct batch {
    struct ArrowSchema schema, *fields[8];
    struct ArrowArray array, *arrays[8];
    const void *buffers[1];
};
/* A batch of columns; the first `offset` rows of the columns are not its. */
void batch_make(struct batch *b, struct column *columns, int n, int64_t rows, int64_t offset);

#endif
