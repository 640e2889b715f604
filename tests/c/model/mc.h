/* mc.h - an explicit-state model checker: all states that a model can reach, breadth first, so that
 * the way to a wrong one is a shortest way.
 *
 * A model is a struct of bytes (no pointers, padding zeroed) and a function that emits every
 * successor of a state. The checker keeps a 64-bit hash of each state seen (two different states
 * are taken for one with probability n^2 / 2^65: 3e-8 for a million), its parent and the number of
 * the step that led to it; whole states are kept only while they wait to be expanded. A way is
 * printed by going it again.
 *
 * Found are: a step that the model calls wrong, a state without successors that the model does not
 * accept as an end, and (when all states were seen) a state from which no accepted end can be
 * reached.
 *
 * Symmetry: `canon` may rename what is interchangeable; only the hash is taken of the renamed
 * state, so ways keep their names.
 * Cost: about 40 bytes a state and 8 a step, besides the waiting states (zero bytes are squeezed
 * out). One thread. */
#ifndef SK_TEST_MC_H
#define SK_TEST_MC_H

#include "test.h"

struct mc;

struct mc_model {
    size_t size; /* of a state; at most MC_STATE_MAX */
    const void *arg;
    void (*init)(const void *arg, void *s); /* s is zeroed */
    void (*next)(const void *arg, const void *s, struct mc *m);
    void (*canon)(const void *arg, void *s); /* NULL: no symmetry */
    /* of a state without successors: NULL: a good end; else what is wrong with it */
    const char *(*end)(const void *arg, const void *s);
};
enum { MC_STATE_MAX = 2048 };

struct mc_result {
    uint64_t states, steps, ends;
    uint32_t depth;  /* of the deepest state */
    bool all;        /* every reachable state was expanded */
    double seconds;  /* of CPU */
    char wrong[256]; /* "": nothing was found */
    uint32_t way_len;
    char way[12000]; /* one line a step */
};

/* Called by next for each successor; `wrong` (NULL: fine) ends the search. The text is made only
 * when a way is printed. */
void mc_step(struct mc *m, const void *succ, const char *wrong, const char *fmt, ...)
    SK_PRINTF(4, 5);

/* stops after so many states */
void mc_run(const struct mc_model *model, uint64_t states, struct mc_result *out);

/* For what is too large: n runs by chance (test_rand) from the beginning to an end, each step
 * judged as above. `states` are the steps gone, `steps` those looked at, `ends` the runs. A model
 * without an end to every run would walk for ever. */
void mc_walks(const struct mc_model *model, uint64_t n, struct mc_result *out);

#endif
