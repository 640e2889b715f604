/* where.h - labels of nodes, and what tasks ask of them (the bytes of wheres.h). Pure. */
#ifndef SK_CLUSTER_WHERE_H
#define SK_CLUSTER_WHERE_H

#include "engine/cluster/wheres.h"

/* The number of choices; 0: these bytes are no where. */
uint32_t sk_where_n(struct sk_bytes where);
/* The number of the first choice that a node with these labels fulfils; UINT32_MAX: none. `where`
 * has been checked by sk_where_n. */
uint32_t sk_where_rank(struct sk_bytes where, struct sk_bytes labels);
static inline uint32_t sk_where_flags(struct sk_bytes where) { return *(const uint8_t *)where.p; }
/* True if the bytes are labels: pairs of texts. */
bool sk_labels_good(struct sk_bytes labels);

#endif
