/* cost.c - the cost model of Exoshuffle-CloudSort. */
#include "cost.h"

#include <stdio.h>

/* $ an hour, on demand: an i4i.4xlarge and an r6i.2xlarge */
static const double WORKER = 1.373, HEAD = 0.504;
/* $ an hour for each machine: 40 GB of EBS at $0.08 a GB and month of 730 hours */
static const double DISK = 40 * 0.08 / 730;
static const double STORED = 0.023 / 730 / 1e9;              /* S3: $ a byte and hour */
static const double GET = 0.0004 / 1000, PUT = 0.005 / 1000; /* $ a request */

struct cost cost_of(const struct cost_run *r) {
    double hours = r->seconds / 3600, writing = r->reduce_seconds / 3600;
    return (struct cost){hours * (r->nodes * WORKER + HEAD + (r->nodes + 1) * DISK),
                         r->bytes * STORED * (hours + writing), r->gets * GET + r->puts * PUT};
}

void cost_print(const struct cost_run *r) {
    struct cost c = cost_of(r);
    printf("on %g x i4i.4xlarge and S3: $%.6f = $%.6f compute (%.5f h) + $%.6f storage + $%.6f "
           "requests (%.0f GET, %.0f PUT)\n",
           r->nodes, c.compute + c.storage + c.requests, c.compute, r->seconds / 3600, c.storage,
           c.requests, r->gets, r->puts);
}
