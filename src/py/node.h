/* node.h - the engine of this process as a node of a cluster, for module.c. */
#ifndef SK_PY_NODE_H
#define SK_PY_NODE_H

#include "py/core/core.h"

extern PyMethodDef py_node_methods[];
/* Ends the node, if this process is one; called before the engine is closed. */
void py_node_close(struct py_state *st);

#endif
