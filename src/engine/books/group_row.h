/* group_row.h - a placement group as a row of the list of groups (engine/groups.h). Pure. */
#ifndef SK_GROUP_ROW_H
#define SK_GROUP_ROW_H

#include "base/wire.h"
#include "engine/books/names.h"
#include "engine/groups.h"
#include "engine/place/place.h"

/* Writes the row, the name and the namespace (of `name`, which may be NULL), the row.n bundles and
 * the nodes that have them. The caller sets the other fields of the row. */
void sk_group_row_write(struct sk_wr *w, struct sk_group_row row, const struct sk_name *name,
                        const struct sk_res *bundles, const uint32_t *nodes);
/* The same of a group of this machine, which is node 1; sets row.n and row.state, too. */
void sk_group_row_here(struct sk_wr *w, struct sk_group_row row, const struct sk_name *name,
                       const struct sk_place_group *g);

#endif
