/* replay.c - which executions the successor of a killed actor repeats (contract: replay.h). */
#include "dag/replay.h"

uint64_t sk_replay_from(const uint64_t *passed, uint32_t n_passed, uint64_t n_states) {
    /* a state after execution i exists, so the outputs of execution i exist */
    uint64_t from = n_states ? n_states - 1 : 0;
    for (uint32_t i = 0; i < n_passed; i++) from = SK_MAX(from, passed[i]);
    return from;
}

bool sk_replay_again(struct sk_replay_deaths *d, uint64_t execution, int32_t retries) {
    if (d->n == 0 || execution != d->at) *d = (struct sk_replay_deaths){.at = execution};
    if (d->n < UINT32_MAX) d->n++;
    return retries < 0 || d->n <= (uint32_t)retries;
}
