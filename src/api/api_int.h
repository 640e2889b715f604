/* api_int.h - shared by the files of the public C API: the process's engine, the registered
 * functions, the last error. */
#ifndef SK_API_INT_H
#define SK_API_INT_H

#include "skate.h"
#include "engine/conf.h"
#include "engine/host.h"
#include "engine/worker.h"

enum {
    KIND_BYTES = 1,
    KIND_ACTOR = 2,
    KIND_FAILURE = 0xE2 /* kind of an error value: the code in 4 bytes, then the text without NUL */
};

struct skate_task {
    struct sk_task *t;
    bool failed;
};

/* Returns the engine of this process. NULL: no engine is open (SKATE_ECLOSED); the last error has
 * the reason. */
struct sk_engine *sk_api_engine(void);
/* Returns the last error of this thread. */
struct sk_err *sk_api_err(void);
/* Defines the registered function `name` in the engine and stores its id in *out. SK_ENOENT: no
 * such function is registered. */
sk_rc sk_api_define(struct sk_engine *e, const char *name, sk_fid *out) SK_MUST_USE;
/* Returns the index of the custom resource given to skate_init; 0: none. */
uint32_t sk_api_resource(void);
int64_t sk_api_deadline(int64_t timeout_ms);

#endif
