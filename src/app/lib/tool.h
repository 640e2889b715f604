/* tool.h - shared by the programs of src/app: how they end, and tasks over the parts of a file. A
 * failure ends the program by exit. */
#ifndef TOOL_H
#define TOOL_H

#include <stddef.h>
#include <stdint.h>

#include "skate.h"

/* Prints the program's name and the text, such as "gensort: out: No space left on device" (fmt has
 * no end of line), and exits with status 1. */
__attribute__((format(printf, 1, 2), noreturn)) void tool_die(const char *fmt, ...);
void tool_ok(int rc); /* ends the program with the message of skate if the call failed */
void *tool_need(void *p);

/* The file name without the options of gensort and valsort behind it (",buf", ",dir", ",trans=4m"):
 * these programs choose themselves how to read and write. */
char *tool_path(const char *arg);

/* Runs task `name` for each of n parts, whose arguments are `size` bytes each at args, and gives
 * each result to `take` in the order of the parts. At most two parts more than there are CPUs are
 * under way. The first failure ends the program, after a call of `undo` (may be NULL). */
void tool_parts(const char *name, const void *args, size_t size, size_t n,
                void (*take)(void *ctx, const void *result), void (*undo)(void *ctx), void *ctx);

double tool_now(void); /* seconds */
/* Parses a number of bytes such as "64m", with k, m or g for powers of 1024; ends the program if it
 * is wrong. */
uint64_t tool_bytes(const char *text);
/* FNV-1a, continued from h (0: a new hash) */
uint64_t tool_hash(uint64_t h, const void *p, size_t n);
/* The value within [low, high]; if low > high, high wins. */
static inline uint64_t tool_clamp(uint64_t v, uint64_t low, uint64_t high) {
    return v > high ? high : v < low ? low : v;
}

/* Memory that this process keeps, on huge pages. A later call of the same slot gives the same
 * memory, or larger memory if needed; then the old content is lost. */
void *tool_scratch(unsigned slot, size_t n);

/* The arguments of a task from `first` on, each an array of records of 100 bytes: at[i] is its
 * start, n[i] its number of records. `more` is scratch memory of `more` numbers for each
 * argument. */
struct tool_runs {
    size_t k;
    const void **at;
    size_t *n, *more;
};
struct tool_runs tool_runs(const struct skate_task *t, size_t first, unsigned slot, size_t more);

/* Reads or writes exactly n bytes at an offset. Returns 0, or -1 and sets errno; errno is 0 if the
 * file ends early. */
int tool_read(int fd, void *to, size_t n, uint64_t at);
int tool_write(int fd, const void *from, size_t n, uint64_t at);

#endif
