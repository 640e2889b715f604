/* conf.h - the configuration of init(dict), for module.c. */
#ifndef SK_PY_CONF_H
#define SK_PY_CONF_H

#include "engine/cluster/cluster.h"
#include "engine/conf.h"
#include "engine/guest.h"
#include "py/core/core.h"

struct py_conf { /* sk_engine_conf and all memory that it points to */
    struct sk_engine_conf c;
    const struct sk_engine_class *cls;
    struct sk_guest guest;
    struct sk_cluster_conf cluster;
    const char **addresses, **argv, **env, **dirs, **names;
    int64_t *more;
};
/* Reads the configuration from the dict, which has to live as long as *k, because strings are
 * borrowed. 0; -1 with an exception, and then there is nothing to free. */
int py_conf_read(struct py_conf *k, struct py_state *st, PyObject *dict);
void py_conf_free(struct py_conf *k);

#endif
