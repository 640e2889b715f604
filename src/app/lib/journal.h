/* journal.h - the record of a job's finished outputs, so that the job can go on after its
 * controller died. A text file:
 *
 *     cloudsort 1 <fingerprint of the job> <number of outputs>
 *     done <output> <records>
 *
 * A line counts when it is whole, with its end of line. One process at a time has the journal
 * (flock). It records what processes have finished, not what has reached the disk: after a power
 * failure the sizes of the output files tell. */
#ifndef JOURNAL_H
#define JOURNAL_H

#include <stdint.h>

struct journal {
    int fd;
    const char *path;
};
/* Opens or creates the journal. done[i] becomes 1 + the number of records of output i, or 0 if it
 * is not finished. Waits up to 10 s for another process that has the journal. Ends the program if
 * it cannot open it or if it is the journal of another job. path NULL: no journal. */
struct journal journal_open(const char *path, uint64_t fingerprint, uint32_t n, uint64_t *done);
void journal_done(struct journal *j, uint32_t output, uint64_t records);
void journal_remove(struct journal *j);

#endif
