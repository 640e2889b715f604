/* skate_graph.h - compiled graphs of actors: who calls whom, and where values travel, is decided
 * once; an execution then costs a write to shared memory and a wake-up for each edge between two
 * processes.
 *
 *     skate_actor a, b;                             // of skate_actor_create
 *     struct skate_node nodes[] = {
 *         {a, "twice", (uint32_t[]){SKATE_INPUT}, 1},   // node 0 takes the graph's input,
 *         {b, "minus", (uint32_t[]){0, SKATE_INPUT}, 2} // node 1 the value of node 0, and the
 * input
 *     };
 *     uint32_t outputs[] = {1};
 *     skate_graph *g;
 *     struct skate_arg out;
 *     if (skate_graph_compile(nodes, 2, outputs, 1, NULL, &g)) return puts(skate_error()), 1;
 *     for (...) {
 *         if (skate_graph_execute(g, &x, sizeof x, -1) || skate_graph_get(g, -1, &out)) ...
 *         ...                                       // out.data, out.size
 *     }
 *     skate_graph_release(g);
 *
 * A node is a task function (SKATE_TASK) that an actor runs in each execution. Its arguments are
 * values of other nodes or the input of the execution, all bytes; it sets one result, by
 * skate_return or skate_return_buf. An actor runs one function at a time, whether the graph or a
 * call makes it, and a node runs in execution i + 1 after it has run in execution i. Executions
 * overlap: while one actor works on execution i, the actors before it work on later ones.
 *
 * Errors. A function that fails gives its failure to the nodes that take its value, which do not
 * run, and so to the outputs; the next execution runs as usual. When the process of an actor ends,
 * the graph ends with it: skate_graph_get still gives what was there before, then SKATE_EACTOR with
 * the reason, also if the actor is started again.
 *
 * Graphs are for the process that has opened the engine, which is that of the actors. One thread at
 * a time may execute, and one may get; the other calls need the graph for themselves. SKATE_ECLOSED
 * after the engine was closed. */
#ifndef SKATE_GRAPH_H
#define SKATE_GRAPH_H

#include "skate.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SKATE_INPUT UINT32_MAX /* as an argument of a node: the input of the execution */

struct skate_node {
    skate_actor actor;    /* the graph keeps the actor alive until it is released */
    const char *name;     /* of the task function */
    const uint32_t *args; /* numbers of earlier nodes, or SKATE_INPUT; at least one */
    size_t n_args;
};
struct skate_graph_opts {
    size_t size;         /* sizeof(struct skate_graph_opts) */
    uint32_t executions; /* the most executions under way, at most 1000; 0: 16 */
};

/* A compiled graph. */
typedef struct skate_graph skate_graph;
/* Compiles a graph and starts it in its actors, behind the calls that they were given before.
 * outputs: numbers of the nodes whose values skate_graph_get gives, each once. The value of each
 * node must be taken by a node or be an output. What the arguments point to is copied. */
SKATE_API int skate_graph_compile(const struct skate_node *nodes, size_t n, const uint32_t *outputs,
                                  size_t n_outputs, const struct skate_graph_opts *o,
                                  skate_graph **out);
/* Begins an execution with a copy of these bytes as its input. SKATE_EFULL: as many executions are
 * under way as the graph allows, or the store has no room; SKATE_ETIMEOUT: the first actors were
 * busy for so long. timeout_ms -1: for ever. */
SKATE_API int skate_graph_execute(skate_graph *g, const void *input, size_t size,
                                  int64_t timeout_ms);
/* Waits for the oldest execution that was not taken, and takes it: out[i].data and out[i].size
 * become the value of outputs[i], without a copy, valid until the next skate_graph_get or the
 * release. Returns the code of the first output that failed, with its message; the execution is
 * then taken, too. After SKATE_ETIMEOUT it is not. SKATE_EINVAL: no execution is under way. */
SKATE_API int skate_graph_get(skate_graph *g, int64_t timeout_ms, struct skate_arg *out);
/* Ends the graph; the actors go on as they are. NULL is fine. */
SKATE_API void skate_graph_release(skate_graph *g);

#ifdef __cplusplus
}
#endif
#endif
