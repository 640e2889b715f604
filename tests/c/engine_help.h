/* engine_help.h - the local engine in tests. The test program is its own fork server, and task
 * functions are registered by name.
 *
 *     TASK(add1) { return ret_i64(t, 0, arg_i64(t, 0) + 1, err); }
 *     TEST(x) {
 *         eng_open(&(struct eng_opt){.cpus = 2});
 *         sk_oid o = eng_job(&(struct job){.fn = "add1", .a = {VAL(1)}, .n_a = 1});
 *         CHECK_EQ(eng_take(o), 2);
 *         eng_close();
 *     }
 *
 * eng_close checks that nothing is left: objects, tasks, extents, pins. A worker has no test
 * report, so a task fails by returning an error. The gate is a page of counters that the driver and
 * the workers share; tests wait for its words, so that no test needs to sleep. */
#ifndef ENGINE_HELP_H
#define ENGINE_HELP_H

#include <stdatomic.h>

#include "engine/actors.h"
#include "engine/conf.h"
#include "engine/custom.h"
#include "engine/envs.h"
#include "engine/groups.h"
#include "engine/host.h"
#include "engine/state.h"
#include "engine/streams.h"
#include "engine/usage.h"
#include "engine/watch.h"
#include "engine/worker.h"
#include "test.h"

/* ---- in workers ------------------------------------------------------------------------------ */

typedef sk_rc (*task_fn)(struct sk_task *t, struct sk_err *err);
void task_register(const char *name, task_fn fn);
#define TASK(name)                                                             \
    static sk_rc task_##name(struct sk_task *t, struct sk_err *err);           \
    __attribute__((constructor(200))) static void task_register_##name(void) { \
        task_register(#name, task_##name);                                     \
    }                                                                          \
    static sk_rc task_##name(SK_UNUSED struct sk_task *t, SK_UNUSED struct sk_err *err)

/* The environment with which this worker process was started (runner.env), as text; the runner
 * refuses "x". */
extern char *task_env;
/* True: this worker does not end when the driver stops it. */
extern bool task_hangs_at_end;
/* Called when a call of an async actor is cancelled; the test must not use the task any more. */
extern void (*task_ended_by_cancel)(struct sk_task *t);

enum { KIND_I64 = 4, KIND_BLOB = 6, KIND_USER_ERROR = 0xE1 };
sk_rc ret_i64(struct sk_task *t, uint32_t i, int64_t v, struct sk_err *err) SK_MUST_USE;
sk_rc ret_blob(struct sk_task *t, uint32_t i, size_t n, uint8_t fill,
               /* puts the value in the store when n > SK_INLINE_MAX */
               struct sk_err *err) SK_MUST_USE;
sk_rc yield_i64(struct sk_task *t, int64_t v, struct sk_err *err) SK_MUST_USE;
sk_rc yield_blob(struct sk_task *t, size_t n, uint8_t fill, struct sk_err *err) SK_MUST_USE;
int64_t arg_i64(const struct sk_task *t, uint32_t i);
bool view_is(const struct sk_view *v, size_t n, uint8_t fill);

/* ---- both ------------------------------------------------------------------------------------ */

enum { GATE_WORDS = 1000 };
struct gate {
    _Atomic uint32_t w[GATE_WORDS];
};
extern struct gate *gate;
enum { GATE_S = 50 };
/* Waits until word i is at least `at_least`; false: it was not within GATE_S seconds. */
bool gate_wait(int i, uint32_t at_least);
/* Adds n to word i, wakes all that wait for it, and returns the new value. */
uint32_t gate_add(int i, uint32_t n);
/* Raises word i to v, if the word is less. Wakes no waiter. */
void gate_max(int i, uint32_t v);

sk_fid fid_of(const char *name);

struct job { /* description of a task to submit; zeros are the usual values */
    const char *fn;
    struct sk_arg a[4]; /* up to four arguments; for more use args */
    uint32_t n_a;
    const struct sk_arg *args;
    uint32_t n_args;
    uint32_t n_returns; /* 0: one return; NO_RETURNS: none */
    int32_t retries;
    bool retry_exceptions;
    sk_shape shape;
    sk_aid actor;
    struct sk_task_opts opts;
    uint32_t node;
    bool node_only;
    struct sk_sink *sink;
    uint64_t tag;
    const sk_oid *contains;
    uint32_t n_contains;
};
enum { NO_RETURNS = 0x7fffffff };
struct sk_task_spec spec_of(const struct job *j);
#define VAL(x) ((struct sk_arg){.kind = KIND_I64, .bytes = {&(int64_t){(x)}, 8}})
#define REF(o) ((struct sk_arg){.ref = (o)})
#define PART(o, at, n) ((struct sk_arg){.ref = (o), .part = true, .offset = (at), .length = (n)})
sk_rc job_on(struct sk_engine *e, const struct job *j, sk_oid *first, sk_tid *tid,
             struct sk_err *err) SK_MUST_USE;
/* Gets the value of an int64 object; SK_ETASK if the object is an error. The caller keeps the
 * reference. */
sk_rc get_i64(struct sk_engine *e, sk_oid o, int64_t *out, struct sk_err *err) SK_MUST_USE;

/* ---- in the driver --------------------------------------------------------------------------- */

struct eng_opt {
    double cpus; /* 0: 2 CPUs */
    double gpus;
    uint64_t store_bytes; /* bytes; 0: 256 MiB */
    uint32_t max_workers;
    /* custom resources; one unit of each, unless amounts says otherwise */
    const char *const *names;
    int64_t amounts[4];
    uint32_t n_names;
    const char *fault; /* a fault spec (fault.h), armed in the first fault_workers workers */
    int fault_workers;
    int fault_skip; /* workers that start before those without it */
    /* A fault spec armed in the first server_faults fork servers (0: in one). */
    const char *server_fault;
    int server_faults;
    char *const *argv; /* program of the fork server; NULL: this program */
    int64_t idle_reap_ns;
    uint64_t lineage_bytes;
    const char *spill_dirs[2];
    uint64_t spill_bytes, overflow_bytes; /* as in struct sk_engine_conf */
    uint64_t memory_bytes;
    uint32_t memory_permille;
    int64_t memory_every_ns;
    int32_t oom_retries;
    const struct sk_graph_hooks *graphs;
    uint64_t id_base;
};
extern struct sk_engine *eng; /* the engine that eng_open opened */
void eng_open(const struct eng_opt *o);
sk_rc eng_try_open(const struct eng_opt *o, struct sk_engine **out, struct sk_err *err) SK_MUST_USE;
void eng_define_all(struct sk_engine *e);
void eng_close(void); /* eng_settle_fast, then eng_close_now */
/* To be called when the test has released everything: waits until the engine has no objects, tasks,
 * sealed bytes, pins or leased store memory, and fails the test if any of them stay. */
void eng_settle(void);
/* Like eng_settle, but store memory that workers have leased may stay, since they give it back only
 * after some idle time. */
void eng_settle_fast(void);
void eng_check(void);     /* checks the driver's structures against one another */
void eng_close_now(void); /* closes the engine, whatever tasks still run */
uint64_t eng_stat(struct sk_engine *e, const char *key);
void resources_of(struct sk_engine *e, struct sk_res *total, struct sk_res *avail);
sk_oid eng_job(const struct job *j);
sk_oid eng_job_tid(const struct job *j, sk_tid *tid);
int64_t eng_i64(sk_oid o);  /* the value of an int64 object */
int64_t eng_take(sk_oid o); /* like eng_i64, and releases the object */
void eng_release(sk_oid o);
/* Gets an object that must be an error, copies its text or bytes to `text`, and releases it.
 * Returns the code of an engine error, 0 for a user error. */
int eng_error(sk_oid o, char *text, size_t cap);
/* Drives the engine until is(arg) is true. False: it was not within test_patience(). */
bool eng_drive_until(bool (*is)(void *arg), void *arg);
/* Waits until the engine's status value `key` is `want`. */
void eng_wait_stat(const char *key, uint64_t want);
int n_fds(void);
int n_threads(void);
/* Counts the processes of this test's group besides itself. A process that is just ending may still
 * be counted. */
int n_descendants(void);
bool all_gone(void); /* waits until n_descendants() is 0; false: not within test_patience() */

#endif
