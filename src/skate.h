/* skate.h - the public C interface: tasks, actors and shared objects on one machine, without
 * Python.
 *
 *     SKATE_TASK(square) {                                        runs in a worker process
 *         double x;
 *         if (skate_arg_copy(t, 0, &x, sizeof x)) return SKATE_EINVAL;
 *         x *= x;
 *         return skate_return(t, 0, &x, sizeof x);
 *     }
 *     int main(int argc, char **argv) {
 *         if (skate_worker_main(argc, argv)) return 0;            first thing in main: this program
 *         is its own workers if (skate_init(NULL)) return puts(skate_error()), 1;
 *         double x = 3;
 *         skate_ref r;
 *         struct skate_value v;
 *         if (skate_submit("square", &SKATE_BYTES(&x, sizeof x), 1, 1, NULL, &r) || skate_get(r,
 *         -1, &v)) return puts(skate_error()), 1; printf("%g\n", *(const double *)v.data);
 *         skate_value_release(&v);
 *         skate_release(r);
 *         skate_shutdown();
 *     }
 *
 * Results. A call returns 0 or a negative SKATE_E*; its results are set only on 0. skate_error()
 * then has the message, of this thread.
 *
 * Lifetimes.
 *   - A skate_ref that a call hands out is counted once for this process: give it back with
 *     skate_release. A process that ends gives all of its own back. Arguments may be released as
 *     soon as the submit has returned.
 *   - An object lives while somebody has a reference or a task that is not done needs it. Its bytes
 *     never change.
 *   - A skate_value points into shared memory (nothing is copied) and holds it until
 *     skate_value_release. Arguments of a task hold until the task function returns.
 *   - An actor lives while somebody has a handle; when the last goes, calls already made are
 *     finished, then its process ends.
 *
 * Calls may be made from any thread, after skate_init in the driver or inside tasks in workers. Do
 * not fork a process that has called skate_init and then call skate in the child. Linux. Link with
 * -lskate. */
#ifndef SKATE_H
#define SKATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SKATE_API __attribute__((visibility("default")))

enum {
    SKATE_OK = 0,
    SKATE_ENOMEM = -1,
    SKATE_EINVAL = -2, /* an argument of the call is wrong */
    SKATE_ENOSYS = -3,
    SKATE_EIO = -4,   /* a system call failed */
    SKATE_EFULL = -6, /* the object store is full */
    SKATE_ETIMEOUT = -7,
    SKATE_EDEAD = -9,  /* the worker died, and its retries are used up */
    SKATE_ETASK = -10, /* the task function failed; the message is what it said */
    SKATE_ELOST = -11, /* the object is gone: its last reference was released */
    SKATE_ECANCEL = -12,
    SKATE_EINFEASIBLE = -14, /* asks for more than the machine was given */
    SKATE_ECLOSED = -15,     /* not initialised, or shut down */
    SKATE_EACTOR = -16,      /* the actor is dead */
    SKATE_ENOENT = -17       /* no such function */
};
/* message of this thread's last failed call; never NULL */
SKATE_API const char *skate_error(void);
SKATE_API const char *skate_code_name(int code); /* "SKATE_EFULL" */

/* ---- process --------------------------------------------------------------------------------- */

struct skate_task; /* a running task, as its function sees it */
/* 0, or a negative code (skate_fail sets the text) */
typedef int (*skate_fn)(struct skate_task *t);

/* Names a task function; the same names must be registered in every process of the program, before
 * skate_worker_main. SKATE_EINVAL: the name is in use for another function. `name` must stay
 * valid. */
SKATE_API int skate_register(const char *name, skate_fn fn);
/* Defines and registers at once. */
#define SKATE_TASK(name)                                                   \
    static int name(struct skate_task *t);                                 \
    __attribute__((constructor)) static void skate_register_##name(void) { \
        (void)skate_register(#name, name);                                 \
    }                                                                      \
    static int name(__attribute__((unused)) struct skate_task *t)

/* First thing in main. In the program itself: remembers how to start workers, returns 0. In a
 * worker process: runs tasks until told to end, returns 1 (main should return at once), or a
 * negative code. */
SKATE_API int skate_worker_main(int argc, char **argv);

struct skate_opts { /* zero: chosen */
    double cpus;    /* tasks that run at a time; 0: as many as the machine has */
    /* limit of shared memory for objects; 0: a third of the machine's memory, or the cgroup's. Used
     * only as objects need it */
    uint64_t store_bytes;
    uint32_t max_workers; /* processes */
    const char *resource; /* one resource of your own, and how much of it there is */
    double resource_amount;
    /* objects go to nameless files in this folder when the store is full; NULL: a full store is
     * SKATE_EFULL */
    const char *spill_dir;
};
/* o may be NULL. SKATE_EINVAL: already initialised */
SKATE_API int skate_init(const struct skate_opts *o);
/* ends all workers at once; values still held stay readable, refs are void */
SKATE_API void skate_shutdown(void);

/* ---- objects --------------------------------------------------------------------------------- */

typedef struct {
    uint64_t id;
} skate_ref; /* id 0: none */

struct skate_value {
    const void *data; /* 64-byte aligned when larger than 8 KiB; not NULL */
    size_t size;      /* bytes */
    uint64_t priv[5];
};

SKATE_API int skate_put(const void *data, size_t size, skate_ref *out);
/* Memory of the store to fill in place (saves the copy): write, then seal. One of seal, return_buf
 * and abort must follow. */
struct skate_buf {
    void *data;
    size_t size;
    uint64_t priv[3];
};
SKATE_API int skate_buf_alloc(size_t size, struct skate_buf *out);
SKATE_API int skate_buf_seal(struct skate_buf *b, size_t used_bytes, skate_ref *out);
SKATE_API void skate_buf_abort(struct skate_buf *b);

/* Waits at most timeout_ms (-1: for ever). When the task that makes it failed: its code, and its
 * message in skate_error(). */
SKATE_API int skate_get(skate_ref r, int64_t timeout_ms, struct skate_value *out);
SKATE_API void skate_value_release(struct skate_value *v);
/* Until `want` of the n are there (as values or errors), or SKATE_ETIMEOUT; ready[] is filled
 * either way. */
SKATE_API int skate_wait(const skate_ref *r, size_t n, size_t want, int64_t timeout_ms,
                         bool *ready);
SKATE_API void skate_release(skate_ref r);

/* ---- tasks ----------------------------------------------------------------------------------- */

typedef struct {
    uint64_t id, ready;
} skate_actor;

struct skate_arg { /* one of: */
    /* the object's value; the task starts when it is there, and fails as it did when it failed */
    skate_ref ref;
    const void *data; /* bytes, copied */
    size_t size;
    skate_actor actor; /* a handle: see skate_arg_actor */
};
#define SKATE_REF(r) ((struct skate_arg){.ref = (r)})
#define SKATE_BYTES(p, n) ((struct skate_arg){.data = (p), .size = (n)})
#define SKATE_ACTOR(a) ((struct skate_arg){.actor = (a)})

struct skate_call_opts { /* NULL: all 0 */
    /* 0: one (a task), none (an actor; its calls always run under what the actor has); < 0: none */
    double cpus;
    double resource; /* of skate_opts.resource */
    /* after a death of the worker; 0: three (a task), none (a call of an actor); -1: for ever; -2:
     * none */
    int32_t max_retries;
    bool retry_failures;  /* and when the function failed */
    int32_t max_restarts; /* actors: how often it is made anew after a death; -1: for ever */
};

/* returns[0..n_returns) hold references to the results. Does not wait. */
SKATE_API int skate_submit(const char *name, const struct skate_arg *args, size_t n_args,
                           size_t n_returns, const struct skate_call_opts *o, skate_ref *returns);

/* An actor is a process of its own that runs the constructor `name` and then, in order, the
 * functions that it is called with: what they keep in static variables is its state. */
SKATE_API int skate_actor_create(const char *name, const struct skate_arg *args, size_t n_args,
                                 const struct skate_call_opts *o, skate_actor *out);
SKATE_API int skate_actor_call(skate_actor a, const char *name, const struct skate_arg *args,
                               size_t n_args, size_t n_returns, const struct skate_call_opts *o,
                               skate_ref *returns);
SKATE_API void skate_actor_release(skate_actor a);
SKATE_API int skate_actor_kill(skate_actor a); /* at once, with no restart */

/* ---- inside a task function ------------------------------------------------------------------ */

SKATE_API size_t skate_n_args(const struct skate_task *t);
SKATE_API size_t skate_n_returns(const struct skate_task *t);
SKATE_API const void *skate_arg_data(const struct skate_task *t, size_t i,
                                     /* until the function returns; NULL: no such argument */
                                     size_t *size);
/* SKATE_EINVAL: not of this size */
SKATE_API int skate_arg_copy(const struct skate_task *t, size_t i, void *to, size_t size);
/* a handle of one's own: skate_actor_release */
SKATE_API int skate_arg_actor(const struct skate_task *t, size_t i, skate_actor *out);
/* Each result is set exactly once. */
SKATE_API int skate_return(struct skate_task *t, size_t i, const void *data, size_t size);
/* takes b */
SKATE_API int skate_return_buf(struct skate_task *t, size_t i, struct skate_buf *b,
                               size_t used_bytes);
/* Ends the task with this message; returns SKATE_ETASK, so that `return skate_fail(t, "...")` reads
 * well. */
SKATE_API int skate_fail(struct skate_task *t, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* ---- records of fixed width ---------------------------------------------------------------------
 * `width` bytes each, one behind the other, in the order of memcmp of their first `key` bytes;
 * equal keys keep the order of their records. n: records, at most 2^32 - 1. What is written must
 * not overlap what is read. SKATE_EINVAL: key or width is 0, or the key is wider; SKATE_ENOMEM.
 * Needs no skate_init. */

struct skate_records {
    uint32_t width, key;
};
/* out[0, n): the records of `in` in order. scratch: room for n records, overwritten; NULL: got for
 * this call. */
SKATE_API int skate_records_sort(struct skate_records f, const void *in, size_t n, void *out,
                                 void *scratch);
/* `bounds`: n_bounds keys in ascending order (else SKATE_EINVAL), f.key bytes each. Part p of
 * n_bounds + 1 is what is at or behind bound p - 1 and before
 * bound p: out[start[p], start[p + 1]), in the order of `in`. start: [n_bounds + 2]. */
SKATE_API int skate_records_partition(struct skate_records f, const void *in, size_t n,
                                      const void *bounds, size_t n_bounds, void *out,
                                      size_t *start);
/* Where the parts of records that are in order begin. */
SKATE_API void skate_records_cut(struct skate_records f, const void *sorted, size_t n,
                                 const void *bounds, size_t n_bounds, size_t *start);
/* n_bounds keys that cut n > 0 records, a sample of all, into n_bounds + 1 parts of about one
 * size. */
SKATE_API int skate_records_quantiles(struct skate_records f, const void *in, size_t n,
                                      void *bounds, size_t n_bounds);
/* k runs, each in order, as one; equal keys in the order of the runs. next: the next records, at
 * most cap; fewer only at the end. */
struct skate_records_merge;
SKATE_API int skate_records_merge_create(struct skate_records f, const void *const *run,
                                         const size_t *n, size_t k,
                                         struct skate_records_merge **out);
SKATE_API size_t skate_records_merge_next(struct skate_records_merge *m, void *out, size_t cap);
SKATE_API void skate_records_merge_destroy(struct skate_records_merge *m); /* NULL is fine */

#ifdef __cplusplus
}
#endif
#endif
