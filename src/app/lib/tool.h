/* tool.h - what the programs of src/app share: how they end, and tasks over the parts of a file.
 * Programs end by exit. */
#ifndef TOOL_H
#define TOOL_H

#include <stddef.h>
#include <stdint.h>

#include "skate.h"

/* "gensort: out: No space left on device" (text, without its end of line, behind the name of the
 * program); exit 1. */
__attribute__((format(printf, 1, 2), noreturn)) void tool_die(const char *fmt, ...);
void tool_ok(int rc); /* a call of skate failed: its message */
void *tool_need(void *p);

/* The file's name without the options of gensort and valsort behind it (",buf", ",dir",
 * ",trans=4m"): how a file is read and written is ours to choose. */
char *tool_path(const char *arg);

/* Runs task `name` for each of n parts, whose arguments are `size` bytes each at args, and hands
 * each result to `take` in the order of the parts. Two parts more than there are CPUs are under
 * way. The first failure ends the program, after `undo` (may be NULL). */
void tool_parts(const char *name, const void *args, size_t size, size_t n,
                void (*take)(void *ctx, const void *result), void (*undo)(void *ctx), void *ctx);

double tool_now(void); /* seconds */
/* "64m": a number, with k, m or g: of 1024; ends the program otherwise */
uint64_t tool_bytes(const char *text);
uint64_t tool_hash(uint64_t h, const void *p, size_t n); /* FNV-1a, going on from h (0: anew) */
/* high wins */
static inline uint64_t tool_clamp(uint64_t v, uint64_t low, uint64_t high) {
    return v > high ? high : v < low ? low : v;
}

/* Memory of this process for good, on huge pages; the same of a slot again, larger when it must be:
 * what was in it is lost. */
void *tool_scratch(unsigned slot, size_t n);

/* The arguments of a task from `first` on, of records of 100 bytes: where each begins, how many it
 * has; `more` numbers for each in scratch. */
struct tool_runs {
    size_t k;
    const void **at;
    size_t *n, *more;
};
struct tool_runs tool_runs(const struct skate_task *t, size_t first, unsigned slot, size_t more);

/* Reads or writes n bytes whole at an offset; 0, or -1 with errno set. A file that ends early is
 * errno 0. */
int tool_read(int fd, void *to, size_t n, uint64_t at);
int tool_write(int fd, const void *from, size_t n, uint64_t at);

#endif
