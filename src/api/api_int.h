/* api_int.h - shared by the files of the public C API: the process's engines, the registered
 * functions, the last error. */
#ifndef SK_API_INT_H
#define SK_API_INT_H

#include "skate.h"
#include "base/containers/list.h"
#include "engine/conf.h"
#include "engine/host.h"
#include "engine/worker.h"

enum {
    KIND_BYTES = 1,
    KIND_ACTOR = 2,
    KIND_FAILURE = 0xE2 /* kind of an error value: the code in 4 bytes, then the text without NUL */
};

struct sk_batch_ctx; /* data_int.h */
/* A function of a compiled graph that runs: sets its result. */
struct sk_graph_call {
    sk_rc (*set)(struct sk_graph_call *c, size_t i, const void *data, size_t size,
                 struct sk_err *err);
};
struct skate_task {
    struct sk_task *t;
    bool failed;
    /* While a function of batches or of a source runs: what it was called for. */
    struct sk_batch_ctx *batch;
    /* While a function of a compiled graph runs: where its result goes. */
    struct sk_graph_call *graph;
};
/* An actor calls both around each function that it runs, so that it runs one at a time. */
void sk_api_turn_begin(void);
void sk_api_turn_end(void);

/* ---- engines (engine.c) ---- */

/* Returns the engine that this thread uses. NULL: it is not open (SKATE_ECLOSED); the last error
 * has the reason. */
struct sk_engine *sk_api_engine(void);
/* Returns the engine that gave the id of an object, a task, an actor or a group; 0: the one that
 * this thread uses. NULL: it is not open; the last error has the reason. */
struct sk_engine *sk_api_engine_of(uint64_t id);
/* Makes *e the engine of `id`; with id 0, *e stays. SK_EINVAL: *e is another engine. */
sk_rc sk_api_join(struct sk_engine **e, uint64_t id) SK_MUST_USE;
/* The number of an open engine, from 1 on. Numbers are not used twice. */
uint64_t sk_api_number(const struct sk_engine *e);
/* The open engine of this number; NULL: it was closed. Leaves the last error as it is. */
struct sk_engine *sk_api_numbered(uint64_t number);
/* The number of the engine that skate_use has set for this thread, open or not; 0: none. */
uint64_t sk_api_used(void);
/* True if this is the number of the engine of skate_init, or of the last one, if it was closed. */
bool sk_api_is_standard(uint64_t number);
/* The place of an open engine, below 64. */
unsigned sk_api_place(const struct sk_engine *e);
/* Forgets which functions the engine in this place knows; in process.c. */
void sk_api_undefine(unsigned place);
/* The command line of workers; NULL: skate_worker_main was not called. In process.c. */
char **sk_api_command(void);
/* Makes this process a worker, whose engine is its driver's. */
void sk_api_serve(struct sk_engine *client);
/* Has fn called before an engine is closed; one function a process. */
void sk_api_before_close(void (*fn)(uint64_t number));
/* Ends the queue of callbacks of the engine that was closed in this place: the entries go to
 * `left`. In event.c. */
void sk_api_events_end(unsigned place, struct sk_list *left);
/* Calls the callbacks of a list without locks, and frees its entries; returns their number. */
int sk_api_events_call(struct sk_list *now);
/* True in a child that was forked from a process with an open engine: it may not touch locks. */
bool sk_api_forked(void);
/* Sets the last error to the reason why this thread's engine is not open; returns SK_ECLOSED. */
sk_rc sk_api_closed(void);
/* True if an engine is open. */
bool sk_api_is_open(void);
/* True in a worker, whose engine serves the tasks of another process. */
bool sk_api_in_worker(void);

/* ---- values and calls ---- */

/* Fills *err with the code and message of an error value, and returns the code. */
sk_rc sk_api_failure(const struct sk_view *v, struct sk_err *err);
/* Opens the buffer that b holds. False: it is not open, or has less than `used` bytes. */
bool sk_api_buf_of(const struct skate_buf *b, size_t used, struct sk_buf *out);
/* Returns the last error of this thread. */
struct sk_err *sk_api_err(void);
/* Defines the registered function `name` in the engine and stores its id in *out. SK_ENOENT: no
 * such function is registered. */
sk_rc sk_api_define(struct sk_engine *e, const char *name, sk_fid *out) SK_MUST_USE;
/* A registered task function, which runs as part of a stage. */
struct sk_api_fn;
sk_rc sk_api_fn_find(const char *name, struct sk_api_fn **out, struct sk_err *err) SK_MUST_USE;
int sk_api_fn_call(const struct sk_api_fn *f, struct skate_task *t);
/* Checks the size that a struct of options begins with; opts may be NULL. */
sk_rc sk_api_sized(const char *call, const void *opts, size_t known,
                   struct sk_err *err) SK_MUST_USE;
struct sk_api_amounts { /* cpus below 0: none */
    double cpus, gpus;
    const struct skate_resource *resources;
    size_t n_resources;
    uint64_t group; /* 0: none */
    int32_t bundle; /* -1: any */
};
sk_rc sk_api_amounts(struct sk_engine *e, const struct sk_api_amounts *a, struct sk_res *out,
                     struct sk_err *err) SK_MUST_USE;
/* Interns a need of resources. */
sk_rc sk_api_shape(struct sk_engine *e, const struct sk_api_amounts *a, sk_shape *out,
                   struct sk_err *err) SK_MUST_USE;
/* Ends the calling function with SK_EINVAL if an argument is NULL. */
#define SK_API_GIVEN(call, p) \
    if (SK_UNLIKELY(!(p))) return SK_ERR(sk_api_err(), SK_EINVAL, call ": " #p " is NULL")
/* The task that this thread runs; 0: none. */
sk_tid sk_api_current(void);
int64_t sk_api_deadline(int64_t timeout_ms);

#endif
