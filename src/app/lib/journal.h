/* journal.h - which outputs of a job are finished, so that it can go on after its controller died.
 * A text file:
 *
 *     cloudsort 1 <fingerprint of the job> <number of outputs>
 *     done <output> <records>
 *
 * A line counts when it is whole: its end of line is written with it. One process at a time has it
 * (flock). It says what processes have finished, not what
 * has reached the disk: after a power failure the sizes of the files tell. */
#ifndef JOURNAL_H
#define JOURNAL_H

#include <stdint.h>

struct journal {
    int fd;
    const char *path;
};
/* Opens or makes it. done[0, n): the records of an output + 1, or 0 where it is not finished. Waits
 * up to 10 s for another process that has it. Ends the program when it cannot, or when it is the
 * journal of another job. path NULL: no journal. */
struct journal journal_open(const char *path, uint64_t fingerprint, uint32_t n, uint64_t *done);
void journal_done(struct journal *j, uint32_t output, uint64_t records);
void journal_remove(struct journal *j);

#endif
