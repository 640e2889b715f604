/* tool.h - shared by the programs of src/app: how they end, and tasks over the parts of a file. A
 * failure ends the program by exit. */
#ifndef TOOL_H
#define TOOL_H

#include <stddef.h>
#include <stdint.h>

#include "skate.h"

/* Prints a message with the program's name in front, such as "gensort: out: No space left on
 * device" (fmt has no end of line), and exits with status 1. */
__attribute__((format(printf, 1, 2), noreturn)) void tool_die(const char *fmt, ...);
void tool_ok(int rc); /* ends the program with skate's error message if rc is not 0 */
void *tool_need(void *p);

/* Returns the file name of an argument without options behind it (",buf", ",dir", ",trans=4m"). The
 * original gensort and valsort have these options; here the programs choose themselves how to read
 * and write. */
char *tool_path(const char *arg);

/* Runs task `name` for each of n parts, with `size` bytes of args each as the argument, and calls
 * `take` with each result, in the order of the parts. At most two tasks more than there are CPUs
 * are under way. The first failure ends the program, after a call of `undo` (may be NULL). */
void tool_parts(const char *name, const void *args, size_t size, size_t n,
                void (*take)(void *ctx, const void *result), void (*undo)(void *ctx), void *ctx);

double tool_now(void); /* seconds */
/* Parses a number of bytes such as "64m", with k, m or g for powers of 1024; ends the program if
 * the text is wrong. */
uint64_t tool_bytes(const char *text);
/* Returns the FNV-1a hash of n bytes, continued from h (0: a new hash). */
uint64_t tool_hash(uint64_t h, const void *p, size_t n);
/* Limits v to [low, high]; if low > high, the result is high. */
static inline uint64_t tool_clamp(uint64_t v, uint64_t low, uint64_t high) {
    return v > high ? high : v < low ? low : v;
}

/* Returns memory of this process on huge pages that stays allocated. A later call with the same
 * slot returns the same memory, or larger memory if needed; then the old content is lost. */
void *tool_scratch(unsigned slot, size_t n);

/* The arguments of a task from number `first` on, each an array of records of 100 bytes: at[i] is
 * the start of array i, n[i] its number of records. The member `more` is scratch memory, with as
 * many numbers for each array as the parameter `more` says. */
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
