/* replay.h - which executions the successor of a killed actor has to repeat (pure).
 *
 * The answer follows from the counts of the channels. Each channel has one message for each
 * execution. An actor passes the inputs of execution i after all outputs of i are published. An
 * actor with state publishes its state after i in between, in a channel to itself (and the initial
 * state before its first execution). So the executions of a dead actor below `from` are complete;
 * execution `from` may be done in part; no output of later ones exists. This is log-based recovery
 * with the channels as the log: Elnozahy et al., A Survey of Rollback-Recovery Protocols, 2002,
 * section 3. */
#ifndef SK_REPLAY_H
#define SK_REPLAY_H

#include "base/base.h"

/* Returns the execution with which the successor begins. passed[i]: number of messages that the
 * actor has passed, for each channel that it reads; n_states: number of states that it has
 * published, with the initial one (0 if it keeps no state). Messages of earlier executions that are
 * not passed yet are passed unread; with n_states > 0 the successor starts from the last state. */
uint64_t sk_replay_from(const uint64_t *passed, uint32_t n_passed, uint64_t n_states);

/* True if a channel with `count` messages already has the message of `execution`, which is then not
 * written again. */
static inline bool sk_replay_written(uint64_t count, uint64_t execution) {
    return count > execution;
}

/* Counts deaths, so that an execution which kills each process that runs it is not repeated for
 * ever. */
struct sk_replay_deaths {
    uint64_t at; /* the execution that was running at the last death */
    uint32_t n;  /* deaths during that execution */
};
/* Counts a death during `execution`, which is the first one whose inputs are not passed. retries:
 * number of times that an execution may be run again; negative: no limit. false: the execution may
 * not be run again. */
bool sk_replay_again(struct sk_replay_deaths *d, uint64_t execution, int32_t retries);

#endif
