/* mc.h - an explicit-state model checker: it visits all states that a model can reach, breadth
 * first, so the path to a wrong state is a shortest one.
 *
 * A model is a struct of bytes (no pointers, padding zeroed) and a function that emits every
 * successor of a state. The checker keeps a 64-bit hash of each state seen (two different states
 * are taken for one with probability n^2 / 2^65: 3e-8 for a million), its parent and the number of
 * the step that led to it; whole states are stored only until they are expanded. A path is printed
 * by repeating its steps.
 *
 * The checker finds: a step that the model calls wrong, a state without successors that the model
 * does not accept as an end, and (when all states were seen) a state from which no accepted end can
 * be reached.
 *
 * Symmetry: `canon` may rename interchangeable parts of a state; the renamed state is used for the
 * hash only, so printed paths have the original names. Cost: about 40 bytes a state and 8 a step,
 * besides the waiting states (zero bytes are squeezed out). One thread. */
#ifndef SK_TEST_MC_H
#define SK_TEST_MC_H

#include "test.h"

struct mc;

struct mc_model {
    size_t size; /* of a state; at most MC_STATE_MAX */
    const void *arg;
    void (*init)(const void *arg, void *s); /* s is zeroed */
    void (*next)(const void *arg, const void *s, struct mc *m);
    void (*canon)(const void *arg, void *s); /* renames interchangeable parts; NULL: no symmetry */
    /* judges a state without successors. NULL: an accepted end; else what is wrong with it */
    const char *(*end)(const void *arg, const void *s);
};
enum { MC_STATE_MAX = 2048 };

struct mc_result {
    uint64_t states, steps, ends;
    uint32_t depth;  /* depth of the deepest state */
    bool all;        /* every reachable state was expanded */
    double seconds;  /* of CPU */
    char wrong[256]; /* "": nothing was found */
    uint32_t way_len;
    char way[12000]; /* one line a step */
};

/* Called by a model's `next` for each successor. wrong: what is wrong with the step, which ends the
 * search; NULL: nothing. The text is formatted only when a path is printed. */
void mc_step(struct mc *m, const void *succ, const char *wrong, const char *fmt, ...)
    SK_PRINTF(4, 5);

/* Runs the search; stops after `states` states. */
void mc_run(const struct mc_model *model, uint64_t states, struct mc_result *out);

/* For models with too many states: n random walks (test_rand) from the initial state to an end,
 * with the same checks. out->states: number of steps that were made; steps: number of successors
 * that were checked; ends: number of walks. Every walk of the model has to end, else this does not
 * return. */
void mc_walks(const struct mc_model *model, uint64_t n, struct mc_result *out);

#endif
