/* journal.h - the record of a job's finished outputs, so that the job can continue after its
 * controller died. The journal is a text file:
 *
 *     cloudsort 1 <fingerprint of the job> <number of outputs>
 *     done <output> <records>
 *
 * Only a complete line, with its end of line, counts. One process at a time may have the journal
 * open (flock). The journal records which outputs were finished, not whether they have reached the
 * disk: after a power failure the sizes of the output files must be checked. */
#ifndef JOURNAL_H
#define JOURNAL_H

#include <stdint.h>

struct journal {
    int fd;
    const char *path;
};
/* Opens or creates the journal. done[i] becomes 1 + the number of records of output i, or 0 if it
 * is not finished. Waits up to 10 s for another process to close the journal. Ends the program if
 * the journal cannot be opened or belongs to another job. path NULL: there is no journal. */
struct journal journal_open(const char *path, uint64_t fingerprint, uint32_t n, uint64_t *done);
void journal_done(struct journal *j, uint32_t output, uint64_t records);
void journal_remove(struct journal *j);

#endif
