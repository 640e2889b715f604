/* wheres.h - side contract: on which nodes a task or an actor may run. Only an engine with several
 * nodes has it.
 *
 * A node has labels: bytes with the name and the value of each, both ended by NUL. A where is
 * bytes, too: its flags, then choices, which are tried in order. A choice is '|', then the
 * conditions that a node has to fulfil: '=' (the label has one of the values) or '!' (it has none
 * of them, or there is no such label), the name, the values, each after a '=', and an empty text,
 * all ended by NUL; or
 * '+' (there is such a label) or '-' (there is none) and the name, ended by NUL. */
#ifndef SK_CLUSTER_WHERES_H
#define SK_CLUSTER_WHERES_H

#include "engine/engine.h"

enum {
    /* The next choice is for the case that no node of this one, but for those that are draining,
     * could ever run the task. Else it is for the case that none has room now, too. */
    SK_WHERE_STAYS = 1,
    SK_WHERE_SPREAD = 2, /* tasks are spread over the nodes, wherever their arguments are */
    SK_WHERE_MOST = 32,  /* most choices */
};

struct sk_wheres_ops {
    /* Interns a where for sk_need.where: equal bytes get the same number. SK_EINVAL: the bytes
     * are no where. */
    sk_rc (*define)(struct sk_engine *e, struct sk_bytes where, uint32_t *out, struct sk_err *err);
};

#endif
