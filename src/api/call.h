/* call.h - a submit of a task, of an actor or of a call, in the engine's form; in call.c. */
#ifndef SK_API_CALL_H
#define SK_API_CALL_H

#include "api/api_int.h"

enum { SK_API_ON_STACK = 16, SK_API_DEFAULT_RETRIES = 3 };

struct sk_api_call {
    struct sk_engine *e;
    struct sk_task_spec s; /* its opts are `opts` below */
    struct sk_task_opts opts;
    struct sk_arg stack_args[SK_API_ON_STACK], *args;
    /* `ready` objects of actor handles among the arguments */
    sk_oid stack_refs[SK_API_ON_STACK], *refs;
    /* large arguments put into the store; released after the submit */
    sk_oid stack_own[SK_API_ON_STACK], *own;
    uint32_t n_own;
    void *heap;
};
/* Fills *c with the engine, the function, the arguments and those options that all submits have.
 * actor: id of the actor that is called; 0: none. After success the caller must call
 * sk_api_call_end, which releases what the call holds. */
sk_rc sk_api_call_begin(struct sk_api_call *c, uint64_t actor, const char *name,
                        const struct skate_arg *args, size_t n,
                        const struct skate_call_opts *o) SK_MUST_USE;
void sk_api_call_end(struct sk_api_call *c);
/* Sets the resources. cpus: the default. */
sk_rc sk_api_call_shape(struct sk_api_call *c, const struct skate_call_opts *o,
                        double cpus) SK_MUST_USE;
/* The engine's number of retries; `otherwise` if the options leave it open. */
int32_t sk_api_retries(const struct skate_call_opts *o, int32_t otherwise);
sk_rc sk_api_call_submit(struct sk_api_call *c, size_t n_returns, skate_ref *returns) SK_MUST_USE;
/* id: of a task, or of one of its results */
sk_rc sk_api_cancel(struct sk_engine *e, uint64_t id, unsigned flags) SK_MUST_USE;

#endif
