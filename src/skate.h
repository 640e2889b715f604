/* skate.h - the public C interface: tasks, actors and shared objects on one machine, without
 * Python.
 *
 *     SKATE_TASK(square) {                                     // runs in a worker process
 *         double x;
 *         if (skate_arg_copy(t, 0, &x, sizeof x)) return SKATE_EINVAL;
 *         x *= x;
 *         return skate_return(t, 0, &x, sizeof x);
 *     }
 *     int main(int argc, char **argv) {
 *         if (skate_worker_main(argc, argv)) return 0;         // first: workers run this main, too
 *         if (skate_init(NULL)) return puts(skate_error()), 1;
 *         double x = 3;
 *         skate_ref r;
 *         struct skate_value v;
 *         if (skate_submit("square", &SKATE_BYTES(&x, sizeof x), 1, 1, NULL, &r) ||
 *             skate_get(r, -1, &v))
 *             return puts(skate_error()), 1;
 *         printf("%g\n", *(const double *)v.data);
 *         skate_value_release(&v);
 *         skate_release(r);
 *         skate_shutdown();
 *     }
 *
 * Results. A call returns 0 or a negative SKATE_E*; it sets its results only when it returns 0.
 * After a failure skate_error() returns the message of this thread's failure.
 *
 * Lifetimes.
 * - A skate_ref that a call returns is one counted reference of this process: release it with
 *   skate_release. When a process ends, skate releases its references. Arguments may be released as
 *   soon as the submit has returned.
 * - An object lives while a reference to it exists or an unfinished task needs it. Its bytes never
 *   change.
 * - A skate_value points into shared memory (nothing is copied) and keeps the object alive until
 *   skate_value_release. The arguments of a task are valid until the task function returns.
 * - An actor lives while a handle to it exists; when the last handle is released, the actor
 *   finishes the calls already made, then its process ends.
 *
 * Options. Every struct of options begins with its size: fill it from SKATE_OPTS(type), or pass
 * SKATE_WITH(type, .field = value, ...). NULL: all defaults. SKATE_EINVAL: the size is none that
 * this library knows.
 *
 * Threads. Any thread may make any call at any time while the engine is open (in a worker: while a
 * task function runs), with these exceptions:
 * - skate_register, skate_set_log and skate_worker_main: before the program starts threads.
 * - skate_shutdown and skate_engine_close: while they run, calls that wait end with SKATE_ECLOSED,
 *   and no other thread may begin a call that uses the engine. Release calls after it have no
 *   effect, and all others fail with SKATE_ECLOSED.
 * - Calls that take a struct skate_task: only the thread that runs the task function, but for
 *   skate_cancelled, which any thread may make until the function returns.
 * - skate_value_release, skate_buf_*: one thread at a time for the same struct.
 * - skate_gen_next: one thread at a time for the same stream.
 * - skate_error, skate_code_name: the text belongs to the calling thread, until its next call.
 * - Records of fixed width, skate_version and skate_has: at any time, by any thread.
 *
 * A child that was forked from a process with an open engine gets SKATE_ECLOSED from every call
 * until it executes a program. Linux only. Link with -lskate. */
#ifndef SKATE_H
#define SKATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SKATE_API __attribute__((visibility("default")))

/* The version of this header; skate_version has that of the library. */
#define SKATE_VERSION_MAJOR 0
#define SKATE_VERSION_MINOR 1
#define SKATE_VERSION_PATCH 0
#define SKATE_VERSION "0.1.0"
/* For #if: SKATE_VERSION_NUMBER >= SKATE_VERSION_OF(0, 2, 0) */
#define SKATE_VERSION_OF(major, minor, patch) ((major) * 1000000 + (minor) * 1000 + (patch))
#define SKATE_VERSION_NUMBER \
    SKATE_VERSION_OF(SKATE_VERSION_MAJOR, SKATE_VERSION_MINOR, SKATE_VERSION_PATCH)
SKATE_API const char *skate_version(void); /* the version of the library */
/* True if the library has the feature. Programs that run with older libraries ask for it by name;
 * skate_feature_name lists the names (NULL behind the last one). An unknown name gives false. */
SKATE_API bool skate_has(const char *feature);
SKATE_API const char *skate_feature_name(unsigned i);

/* Initialises a struct of options: struct skate_opts o = SKATE_OPTS(struct skate_opts); */
#define SKATE_OPTS(type) {.size = sizeof(type)}
/* A pointer to options: skate_init(SKATE_WITH(struct skate_opts, .cpus = 2)) */
#define SKATE_WITH(type, ...) (&(type){.size = sizeof(type), __VA_ARGS__})

enum skate_code {
    SKATE_OK = 0,
    SKATE_ENOMEM = -1,
    SKATE_EINVAL = -2, /* an argument of the call is wrong */
    SKATE_ENOSYS = -3,
    SKATE_EIO = -4,    /* a system call failed */
    SKATE_ENOSPC = -5, /* the disk is full */
    SKATE_EFULL = -6,  /* the object store is full */
    SKATE_ETIMEOUT = -7,
    SKATE_EDEAD = -9,  /* the worker died, and its retries are used up */
    SKATE_ETASK = -10, /* the task function failed; the message is the function's */
    SKATE_ELOST = -11, /* the object is gone: its last reference was released */
    SKATE_ECANCEL = -12,
    /* the task or actor needs more resources than the machine has in all */
    SKATE_EINFEASIBLE = -14,
    SKATE_ECLOSED = -15, /* not initialised, or shut down */
    SKATE_EACTOR = -16,  /* the actor is dead */
    SKATE_ENOENT = -17,  /* no function or actor has this name */
    SKATE_EDONE = -18,   /* the stream is over */
    SKATE_EEXIST = -20,  /* the name is in use */
    SKATE_EGROUP = -21,  /* the placement group was removed */
    SKATE_EOOM = -24     /* the worker was stopped because memory was short */
};
/* The message of this thread's last failed call; never NULL. */
SKATE_API const char *skate_error(void);
SKATE_API const char *skate_code_name(int code); /* the code's name, such as "SKATE_EFULL" */

/* ---- process --------------------------------------------------------------------------------- */

struct skate_task; /* a running task; passed to the task function */
/* A task function. Returns 0 or a negative code; skate_fail sets the message. */
typedef int (*skate_fn)(struct skate_task *t);

/* Registers a task function under a name. Every process of the program must register the same
 * names, before skate_worker_main. `name` must stay valid. SKATE_EINVAL: another function has the
 * name. */
SKATE_API int skate_register(const char *name, skate_fn fn);
/* Defines a task function and registers it under its own name. */
#define SKATE_TASK(name)                                                   \
    static int name(struct skate_task *t);                                 \
    __attribute__((constructor)) static void skate_register_##name(void) { \
        (void)skate_register(#name, name);                                 \
    }                                                                      \
    static int name(__attribute__((unused)) struct skate_task *t)

/* Call this first in main. In the program itself the call records how to start workers, by the same
 * program with the same arguments, and returns 0. In a worker process it runs tasks until the
 * engine ends the worker, then returns 1 (main should return at once) or a negative code. An
 * interpreter gives its own command line: its absolute path, then what led to the program. */
SKATE_API int skate_worker_main(int argc, char **argv);

struct skate_resource { /* an amount of a resource that the program has named */
    const char *name;
    double amount;
};
struct skate_opts { /* a zero field means its default */
    size_t size;
    /* number of tasks of one CPU each that run at a time; 0: the number of CPUs of the machine */
    double cpus;
    double gpus; /* number of GPUs that tasks may ask for, at most 16 */
    /* Limit in bytes of shared memory for objects, which is used only as objects need it; 0: a
     * third of the memory of the machine or the cgroup. */
    uint64_t store_bytes;
    uint32_t max_workers; /* most worker processes; 0: chosen by the engine */
    /* Resources of the program's own that tasks may ask for; at most 13. Copied. */
    const struct skate_resource *resources;
    size_t n_resources;
    /* Folder for unnamed files to which objects are written when the store is full; NULL: calls
     * then fail with SKATE_EFULL. */
    const char *spill_dir;
};
/* Starts the engine of the process. o may be NULL. SKATE_EINVAL: already initialised. */
SKATE_API int skate_init(const struct skate_opts *o);
/* Ends all workers at once. Values that were not released stay readable; references become
 * invalid. */
SKATE_API void skate_shutdown(void);

/* Engines of their own, beside that of skate_init or without it: for libraries that do not know
 * what else in the process uses skate. Each has its workers, store, resources and names. An object,
 * an actor, a stream of values, a group and a graph belong to the engine that made them: calls that
 * are given one use its engine, in any thread, and objects of two engines in one call are
 * SKATE_EINVAL. All other calls (skate_put, a submit without objects, runs of datasets,
 * skate_event_fd ...) use the engine of the thread: that of skate_init, or the one that skate_use
 * has set. */
typedef struct skate_engine skate_engine;
/* Opens an engine, at most 16 in a process; no thread uses it yet. NULL: a failure. A task cannot
 * open one. */
SKATE_API skate_engine *skate_engine_open(const struct skate_opts *o);
/* Closes an engine as skate_shutdown closes that of skate_init. Then it calls the callbacks of
 * skate_on_ready that were not called yet. A handle that was closed stays invalid for ever: threads
 * that use it, and calls with its objects, get SKATE_ECLOSED. NULL is fine. */
SKATE_API void skate_engine_close(skate_engine *e);
/* Makes e the engine that this thread uses; NULL: that of skate_init. Returns the one before. */
SKATE_API skate_engine *skate_use(skate_engine *e);

/* ---- objects --------------------------------------------------------------------------------- */

typedef struct {
    uint64_t id;
} skate_ref; /* id 0: no object */

struct skate_value {
    const void *data; /* 64-byte aligned when larger than 8 KiB; not NULL */
    size_t size;      /* bytes */
    uint64_t priv[5];
};

/* Stores a copy of the bytes as an object, which never changes. */
SKATE_API int skate_put(const void *data, size_t size, skate_ref *out);
/* Memory of the store that the caller fills in place, without the copy of skate_put. Each buffer
 * must be given to exactly one of skate_buf_seal, skate_return_buf and skate_buf_abort. */
struct skate_buf {
    void *data;
    size_t size;
    uint64_t priv[3];
};
SKATE_API int skate_buf_alloc(size_t size, struct skate_buf *out);
SKATE_API int skate_buf_seal(struct skate_buf *b, size_t used_bytes, skate_ref *out);
SKATE_API void skate_buf_abort(struct skate_buf *b);

/* Waits at most timeout_ms for the object (-1: for ever). If the task that makes the object failed,
 * returns the task's code, and skate_error() has its message. */
SKATE_API int skate_get(skate_ref r, int64_t timeout_ms, struct skate_value *out);
/* Gives the view of a value back. */
SKATE_API void skate_value_release(struct skate_value *v);
/* Waits until `want` of the n objects are ready (as values or as errors), or returns
 * SKATE_ETIMEOUT. Sets ready[i] for each object in both cases. */
SKATE_API int skate_wait(const skate_ref *r, size_t n, size_t want, int64_t timeout_ms,
                         bool *ready);
/* Releases a reference. */
SKATE_API void skate_release(skate_ref r);

/* ---- tasks ----------------------------------------------------------------------------------- */

typedef struct {
    uint64_t id, ready;
} skate_actor;

struct skate_arg { /* an argument: a reference, bytes, or an actor's handle */
    /* The task starts when the object is ready and gets its value; if the object is an error, the
     * task fails with the same error. */
    skate_ref ref;
    const void *data; /* bytes, copied by the call */
    size_t size;
    skate_actor actor; /* an actor's handle; the task reads it by skate_arg_actor */
};
/* An argument: the value of an object. */
#define SKATE_REF(r) ((struct skate_arg){.ref = (r)})
/* An argument: n bytes at p. */
#define SKATE_BYTES(p, n) ((struct skate_arg){.data = (p), .size = (n)})
/* An argument: the handle of an actor. */
#define SKATE_ACTOR(a) ((struct skate_arg){.actor = (a)})

typedef struct {
    uint64_t id;
    skate_ref ready;
} skate_group; /* a placement group, see skate_group_create */

struct skate_call_opts { /* NULL: all fields 0 */
    size_t size;
    /* CPUs: 0 means one for a task and none for an actor, below 0 means none. Calls of an actor
     * always use the resources of the actor. */
    double cpus;
    double gpus; /* a part of one GPU, or whole ones; see skate_gpus */
    const struct skate_resource *resources;
    size_t n_resources;
    /* How often a task or call is run again after its worker died. 0: three times (a task) or never
     * (a call of an actor); -1: without limit; -2: never. */
    int32_t max_retries;
    bool retry_failures; /* also run again after a failure of the function itself */
    /* for an actor: number of restarts after a death; -1: without limit */
    int32_t max_restarts;
    /* for an actor: its name, unique in its namespace among living actors (SKATE_EEXIST), for
     * skate_actor_find. NULL: no name; the namespace with the name "". At most 1024 bytes. */
    const char *name, *space;
    bool detached; /* for an actor: lives without handles, until it is killed */
    /* Placement group whose bundle the task or actor runs in, with its resources; {0}: none.
     * bundle: its index; -1: any bundle of the group. Calls of an actor run where the actor is. */
    skate_group group;
    int32_t bundle;
    /* for a stream: the number of values that may wait to be taken; then skate_yield waits. 0: no
     * limit */
    uint32_t window;
};

/* Submits a task without waiting for it. returns[0, n_returns) get references to its results. */
SKATE_API int skate_submit(const char *name, const struct skate_arg *args, size_t n_args,
                           size_t n_returns, const struct skate_call_opts *o, skate_ref *returns);

/* Cancels the task, or the call of an actor, that makes r. If it has not begun, its results become
 * errors with SKATE_ECANCEL. If it runs, it is asked to end: skate_cancelled is true from then on,
 * a system call in which it sleeps ends with EINTR, and skate_yield fails; if it then returns
 * normally, its results stand. Calls of actors that run are not asked. A task that has ended stays
 * as it is. flags: SKATE_CANCEL_FORCE kills the worker of a running task (no effect on calls of
 * actors); SKATE_CANCEL_CHILDREN cancels also all tasks that the task has submitted, recursively.
 */
enum skate_cancel_flags { SKATE_CANCEL_FORCE = 1, SKATE_CANCEL_CHILDREN = 2 };
SKATE_API int skate_cancel(skate_ref r, unsigned flags);

/* ---- streams of values ----------------------------------------------------------------------- */

/* The values that a task yields, in order, while it runs. Each stream must be given back by
 * skate_gen_drop. A task that runs again after a death of its worker yields the same values again;
 * the caller gets each of them once. */
typedef struct {
    uint64_t id;
} skate_gen;
/* Submits a task, or a call of an actor, whose function calls skate_yield. */
SKATE_API int skate_gen_submit(const char *name, const struct skate_arg *args, size_t n_args,
                               const struct skate_call_opts *o, skate_gen *out);
SKATE_API int skate_gen_call(skate_actor a, const char *name, const struct skate_arg *args,
                             size_t n_args, const struct skate_call_opts *o, skate_gen *out);
/* Takes the next value, waiting at most timeout_ms for it (-1: for ever). The caller gets the
 * reference. SKATE_EDONE: the stream is over. SKATE_ETIMEOUT. If the task failed, returns its code,
 * once, behind the values that it has yielded; then SKATE_EDONE. */
SKATE_API int skate_gen_next(skate_gen g, int64_t timeout_ms, skate_ref *out);
/* Cancels the task, as skate_cancel does. */
SKATE_API int skate_gen_cancel(skate_gen g, unsigned flags);
/* Gives the stream back: values that were not taken are released, and a task that has not ended is
 * cancelled. */
SKATE_API void skate_gen_drop(skate_gen g);

/* ---- actors ---------------------------------------------------------------------------------- */

/* An actor is a process of its own. It runs the constructor `name` and then, in order, the
 * functions that it is called with; its state is in static variables of these functions. */
SKATE_API int skate_actor_create(const char *name, const struct skate_arg *args, size_t n_args,
                                 const struct skate_call_opts *o, skate_actor *out);
/* Calls a function of the actor without waiting for it, behind the calls that were made before. */
SKATE_API int skate_actor_call(skate_actor a, const char *name, const struct skate_arg *args,
                               size_t n_args, size_t n_returns, const struct skate_call_opts *o,
                               skate_ref *returns);
/* Finds the living actor with this name and gives a handle to it, which is released by
 * skate_actor_release. space NULL: "". SKATE_ENOENT: there is none. */
SKATE_API int skate_actor_find(const char *name, const char *space, skate_actor *out);
SKATE_API void skate_actor_release(skate_actor a);
/* Ends the actor's process at once; the actor is not restarted. */
SKATE_API int skate_actor_kill(skate_actor a);

/* ---- placement groups ------------------------------------------------------------------------ */

struct skate_bundle { /* what one bundle of a group reserves; cpus 0: none */
    double cpus, gpus;
    const struct skate_resource *resources;
    size_t n_resources;
};
/* On one machine all strategies place alike, but SKATE_GROUP_STRICT_SPREAD has one bundle only. */
enum skate_group_strategy {
    SKATE_GROUP_PACK,
    SKATE_GROUP_SPREAD,
    SKATE_GROUP_STRICT_PACK,
    SKATE_GROUP_STRICT_SPREAD
};
/* Reserves bundles of resources, all or none, as soon as they are free; out->ready becomes ready
 * then (skate_wait, skate_on_ready). Tasks run in a bundle by skate_call_opts.group. name may be
 * NULL. The group exists until skate_group_remove. SKATE_EINFEASIBLE: the machine can never have
 * them. */
SKATE_API int skate_group_create(const struct skate_bundle *bundles, size_t n,
                                 enum skate_group_strategy strategy, const char *name,
                                 skate_group *out);
/* Waits until the group has its bundles. SKATE_ETIMEOUT, SKATE_EGROUP. */
SKATE_API int skate_group_wait(skate_group g, int64_t timeout_ms);
/* Gives the bundles and the reference g.ready back. Tasks and actors that run in the group are
 * killed; those that wait for it fail with SKATE_EGROUP. SKATE_ENOENT: it was removed already. */
SKATE_API int skate_group_remove(skate_group g);

/* ---- event loops ----------------------------------------------------------------------------- */

/* For programs with a loop of their own (poll, epoll, libuv): the loop watches skate_event_fd, and
 * calls skate_process when it is readable. */

/* Called by skate_process (or skate_engine_close), in its thread, without locks of skate: it may
 * call everything. code: 0, or SKATE_ECLOSED after the engine was closed. */
typedef void (*skate_ready_fn)(int code, void *ctx);
/* Has fn called once, by a later skate_process, when the object is ready as a value or as an error:
 * then skate_get returns at once. Holds a reference to the object until fn has returned. Also after
 * a shutdown fn is called, so it may free ctx. */
SKATE_API int skate_on_ready(skate_ref r, skate_ready_fn fn, void *ctx);
/* The same for a stream: fn is called when skate_gen_next would return at once. */
SKATE_API int skate_gen_on_ready(skate_gen g, skate_ready_fn fn, void *ctx);
/* A descriptor that is readable while callbacks of the thread's engine wait for skate_process. It
 * belongs to skate; each call returns the same one. It is valid until skate_engine_close; that of
 * skate_init's engine until the process ends, also after skate_shutdown. Below 0: a failure. */
SKATE_API int skate_event_fd(void);
/* Calls the callbacks of the thread's engine that wait, and returns their number without waiting
 * for more. */
SKATE_API int skate_process(void);

/* ---- log ------------------------------------------------------------------------------------- */

enum skate_log_level {
    SKATE_LOG_OFF,
    SKATE_LOG_ERROR,
    SKATE_LOG_WARN,
    SKATE_LOG_INFO,
    SKATE_LOG_DEBUG
};
/* A line of n bytes without its newline (NUL-terminated): "t=.. pid=.. lvl=.. at=file:line event
 * key=value ...". Called by any thread, with locks of skate held: it must not call skate. */
typedef void (*skate_log_fn)(enum skate_log_level level, const char *line, size_t n, void *ctx);
/* Gives lines up to `level` that this process logs to fn; NULL: writes them to stderr. The default
 * is SKATE_LOG_OFF. Call it before skate_init (SKATE_EINVAL); called before skate_worker_main, it
 * holds in workers, too. */
SKATE_API int skate_set_log(enum skate_log_level level, skate_log_fn fn, void *ctx);

/* ---- inside a task function ------------------------------------------------------------------ */

/* The number of arguments. */
SKATE_API size_t skate_n_args(const struct skate_task *t);
/* The number of results that the function has to set; of a stream: 0. */
SKATE_API size_t skate_n_returns(const struct skate_task *t);
/* The bytes of argument i, valid until the function returns; NULL: no such argument. */
SKATE_API const void *skate_arg_data(const struct skate_task *t, size_t i, size_t *size);
/* Copies argument i. SKATE_EINVAL: it does not have exactly `size` bytes. */
SKATE_API int skate_arg_copy(const struct skate_task *t, size_t i, void *to, size_t size);
/* The actor handle in argument i, as a new handle: release it by skate_actor_release. */
SKATE_API int skate_arg_actor(const struct skate_task *t, size_t i, skate_actor *out);
/* Sets result i to a copy of the bytes. Each result must be set exactly once. */
SKATE_API int skate_return(struct skate_task *t, size_t i, const void *data, size_t size);
/* Sets result i to the first used_bytes of the buffer, which the call takes over. */
SKATE_API int skate_return_buf(struct skate_task *t, size_t i, struct skate_buf *b,
                               size_t used_bytes);
/* Yields the next value of a stream: a copy of the bytes, or the first used_bytes of the buffer,
 * which the call takes over. Waits while skate_call_opts.window values wait to be taken.
 * SKATE_ECANCEL: nobody wants the rest; return it at once. SKATE_EINVAL: the task was not submitted
 * as a stream. */
SKATE_API int skate_yield(struct skate_task *t, const void *data, size_t size);
SKATE_API int skate_yield_buf(struct skate_task *t, struct skate_buf *b, size_t used_bytes);
/* True if the task was cancelled: a long function asks from time to time and then returns
 * SKATE_ECANCEL. Costs some nanoseconds. */
SKATE_API bool skate_cancelled(const struct skate_task *t);
/* Ends the task as failed, with this message. Returns SKATE_ETASK, for `return skate_fail(t,
 * "...")`. */
SKATE_API int skate_fail(struct skate_task *t, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* Writes the numbers of the GPUs that are given to the task (or to its actor), at most cap, in
 * ascending order, and returns how many there are. A task with a part of a GPU has that GPU's
 * number. The function chooses the device itself, for example by cudaSetDevice. */
SKATE_API size_t skate_gpus(const struct skate_task *t, uint32_t *gpus, size_t cap);

/* ---- records of fixed width ------------------------------------------------------------------
 *
 * Arrays of records of `width` bytes without gaps, ordered by memcmp of their first `key` bytes.
 * All calls are stable: records of equal keys keep their order. n counts records, at most 2^32 - 1.
 * Outputs must not overlap inputs. Errors: SKATE_EINVAL (key or width is 0, or the key is wider
 * than the record), SKATE_ENOMEM. Needs no skate_init. */

struct skate_records {
    uint32_t width, key;
};
/* Sorts: out[0, n) gets the records of `in` in order. `scratch`: memory for n records, which is
 * overwritten; NULL: the call allocates it. */
SKATE_API int skate_records_sort(struct skate_records f, const void *in, size_t n, void *out,
                                 void *scratch);
/* Partitions by `bounds`: n_bounds keys of f.key bytes each in ascending order (else SKATE_EINVAL).
 * There are n_bounds + 1 parts; part p holds the records at or above bound p - 1 and below bound p,
 * in the order of `in`: out[start[p], start[p + 1]). `start` has n_bounds + 2 entries. */
SKATE_API int skate_records_partition(struct skate_records f, const void *in, size_t n,
                                      const void *bounds, size_t n_bounds, void *out,
                                      size_t *start);
/* Finds where the parts of sorted records begin, without moving them; `start` is as in
 * skate_records_partition. */
SKATE_API void skate_records_cut(struct skate_records f, const void *sorted, size_t n,
                                 const void *bounds, size_t n_bounds, size_t *start);
/* Chooses n_bounds keys that cut records into n_bounds + 1 parts of about equal size, judged by a
 * sample of n > 0 records. */
SKATE_API int skate_records_quantiles(struct skate_records f, const void *in, size_t n,
                                      void *bounds, size_t n_bounds);
/* Merges k sorted runs; records with equal keys stay in the order of the runs. Each call of
 * skate_records_merge_next writes the next records to `out`, at most cap, and returns their number,
 * which is less than cap only at the end. */
struct skate_records_merge;
SKATE_API int skate_records_merge_create(struct skate_records f, const void *const *run,
                                         const size_t *n, size_t k,
                                         struct skate_records_merge **out);
SKATE_API size_t skate_records_merge_next(struct skate_records_merge *m, void *out, size_t cap);
SKATE_API void skate_records_merge_destroy(struct skate_records_merge *m); /* m may be NULL */

#ifdef __cplusplus
}
#endif
#endif
