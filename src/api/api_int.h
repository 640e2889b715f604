/* api_int.h - shared inside the public C API: the process's engine, its functions, the message of
 * the last failure. */
#ifndef SK_API_INT_H
#define SK_API_INT_H

#include "skate.h"
#include "engine/conf.h"
#include "engine/host.h"
#include "engine/worker.h"

enum {
    KIND_BYTES = 1,
    KIND_ACTOR = 2,
    KIND_FAILURE = 0xE2 /* text without NUL, after the code in 4 bytes */
};

struct skate_task {
    struct sk_task *t;
    bool failed;
};

/* NULL: said why (SKATE_ECLOSED) */
struct sk_engine *sk_api_engine(void);
/* of this thread */
struct sk_err *sk_api_err(void);
sk_rc sk_api_define(struct sk_engine *e, const char *name, sk_fid *out) SK_MUST_USE; /* SK_ENOENT */
/* index of the resource of one's own; 0: none */
uint32_t sk_api_resource(void);
int64_t sk_api_deadline(int64_t timeout_ms);

#endif
