/* graph_int.h - shared by the two sides of compiled graphs in C: the process that compiles a graph
 * and the actors that run in it. */
#ifndef SK_API_GRAPH_INT_H
#define SK_API_GRAPH_INT_H

#include "skate_graph.h"
#include "api/api_int.h"
#include "dag/graph.h"
#include "engine/channels.h"

/* Name of the task function that starts an actor's loop. Its argument is a plan:
 *     u64 id of the graph, u64 offset of the seat, u32 nodes, u32 operations, u32 ports, u32 calls;
 *     each operation: u32 kind, u32 node;
 *     each port: u64 offset of the channel, u32 node, u32 end;
 *     each call: u32 node, bytes name, u32 n, n times u32 node */
extern const char sk_api_graph_begin[];

/* Memory of a graph's channels, from the engine of this process. */
struct sk_graph_memory {
    struct sk_engine *e;
    uint64_t graph;
};
sk_rc sk_graph_alloc(void *memory, uint64_t len, sk_off *off, uint64_t *cap, struct sk_err *err);
void sk_graph_free(void *memory, sk_off off, uint64_t cap);

#endif
