/* verdict.c - what a failure means (contract: verdict.h). The user sets the numbers
 * (DataContext.max_errors, max_errored_blocks, max_retries, max_restarts); their defaults are
 * Ray's. */
#include "exec/run/verdict.h"

#define TASK_RETRIES 3

/* Actors restart without limit. A task survives few deaths: a batch that has ended that many
 * workers would end the next one, too. */
int32_t sk_exec_retries(const struct sk_node_desc *d) {
    if (d->retries.given) return d->retries.n;
    return d->pool_max && d->restarts.given && !d->restarts.n ? 0 : TASK_RETRIES;
}

int32_t sk_exec_restarts(const struct sk_node_desc *d) {
    return d->restarts.given ? d->restarts.n : -1;
}

static bool within(int64_t most, uint64_t n) { return most < 0 || n <= (uint64_t)most; }

bool sk_exec_bad_rows(const struct sk_exec_conf *c, struct sk_faults *f, uint32_t n) {
    f->bad_rows += n;
    return within(c->max_bad_rows, f->bad_rows);
}

struct sk_task_verdict sk_exec_failed(const struct sk_exec_conf *c, struct sk_faults *f,
                                      const struct sk_node_desc *d, sk_rc why, bool actor_lives) {
    if (!within(c->max_errored_blocks, f->errored_blocks + 1)) return (struct sk_task_verdict){0};
    f->errored_blocks++;
    bool died = (why == SK_EACTOR || why == SK_EOOM) && !actor_lives;
    return (struct sk_task_verdict){.left_out = true,
                                    .actor_dead = died && d->restarts.given && d->restarts.n >= 0};
}
