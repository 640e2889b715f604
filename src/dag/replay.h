/* replay.h - what the successor of a killed actor does again (pure).
 *
 * Channels say all of it: on each there is one message an execution, an actor passes what execution
 * i read after all that i writes is published, and an actor that keeps its state publishes the
 * state after i, in a channel to itself, between the two; that before the first execution when it
 * begins. So of what a dead actor left: executions below `from` are done; `from` may be done in
 * part; of those behind it nothing was written. Log-based recovery with the channels as the log:
 * Elnozahy et al., A Survey of Rollback-Recovery Protocols, 2002, section 3. */
#ifndef SK_REPLAY_H
#define SK_REPLAY_H

#include "base/base.h"

/* The execution that the successor begins with: passed[i], of each channel that the actor reads,
 * how many messages it has passed; n_states: how many states it has published, that before the
 * first execution among them (0, too, where it keeps none). What it has not passed of earlier ones
 * it passes unread; with n_states > 0 it goes on from the last of them. */
uint64_t sk_replay_from(const uint64_t *passed, uint32_t n_passed, uint64_t n_states);

/* A message of `execution` is in a channel that has `count` of them: it is not written again. */
static inline bool sk_replay_written(uint64_t count, uint64_t execution) {
    return count > execution;
}

/* An execution that kills whoever runs it must come to an end. */
struct sk_replay_deaths {
    uint64_t at; /* the execution that was under way at the last death */
    uint32_t n;  /* deaths while it was */
};
/* One more, while `execution` was under way (the first that is not passed). retries: so often an
 * execution may be run again; negative: without end. False: not this time. */
bool sk_replay_again(struct sk_replay_deaths *d, uint64_t execution, int32_t retries);

#endif
