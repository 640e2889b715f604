/* cost.h - what a run would cost by the model and prices of Exoshuffle-CloudSort (2022; AWS
 * us-west-2): machines and their disks by the hour, S3 storage of the input for the whole run and
 * of the output while it is written, requests by the thousand. Its 100 TB on 40 workers in 5,378 s:
 * $97. */
#ifndef COST_H
#define COST_H

#include <stdint.h>

struct cost_run {
    double nodes, seconds, reduce_seconds; /* workers; wall time; of it, from the first output on */
    double bytes, gets, puts;              /* of the input, and so of the output; requests */
};
struct cost {
    double compute, storage, requests; /* US dollars */
};
struct cost cost_of(const struct cost_run *r);
void cost_print(const struct cost_run *r); /* a line to standard output */

#endif
