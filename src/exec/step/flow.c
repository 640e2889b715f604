/* flow.c - records which task made and which task took each block: the last SK_FLOWS_MAX of each,
 * for the timeline. Nothing is decided by it. Cost: 16 to 24 bytes written a block; memory grows
 * with use up to 400 KB a run. */
#include "exec/exec_int.h"

/* Returns the place of one more entry in a ring that grows to SK_FLOWS_MAX; NULL: no memory, and
 * the entry is lost. */
static struct sk_flow *place(struct sk_flow_ring *r) {
    if (r->n >= SK_FLOWS_MAX) return &r->v.p[r->n++ % SK_FLOWS_MAX];
    if (!sk_vec_push(&r->v, SK_TAG_EXEC, (struct sk_flow){0})) return NULL;
    return &r->v.p[r->n++];
}

void sk_flow_add(struct sk_flow_ring *r, uint64_t block, uint64_t task, int64_t ns) {
    struct sk_flow *f = place(r);
    if (f) *f = (struct sk_flow){block, task, ns};
}

size_t sk_flow_copy(const struct sk_flow_ring *r, struct sk_flow *out, size_t cap) {
    if (r->v.n && r->v.n <= cap) memcpy(out, r->v.p, r->v.n * sizeof *out);
    return r->v.n;
}
