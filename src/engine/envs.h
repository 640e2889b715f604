/* envs.h - side contract: environments of the processes that run tasks. Only an engine whose tasks
 * run in processes of its own has it. */
#ifndef SK_ENVS_H
#define SK_ENVS_H

#include "engine/engine.h"

struct sk_envs_ops {
    /* Interns an environment for sk_need.env: equal bytes get the same number. In each process that
     * runs tasks of this environment, runner.env is called with the bytes before any other call of
     * the runner. */
    sk_rc (*define)(struct sk_engine *e, struct sk_bytes env, uint32_t *out, struct sk_err *err);
};

#endif
