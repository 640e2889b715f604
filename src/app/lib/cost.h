/* cost.h - the cost of a run by the model and prices of Exoshuffle-CloudSort (2022; AWS us-west-2):
 * machines and their disks by the hour, S3 storage of the input for the whole run and of the output
 * while it is written, requests by the thousand. The paper's 100 TB on 40 workers in 5,378 s cost
 * $97. */
#ifndef COST_H
#define COST_H

#include <stdint.h>

struct cost_run {
    /* nodes: number of workers; seconds: wall time; reduce_seconds: the part of it after the first
     * output began */
    double nodes, seconds, reduce_seconds;
    /* bytes: size of the input, and also of the output; gets, puts: numbers of S3 requests */
    double bytes, gets, puts;
};
struct cost {
    double compute, storage, requests; /* in US dollars */
};
struct cost cost_of(const struct cost_run *r);
void cost_print(const struct cost_run *r); /* prints a line to standard output */

#endif
