/* engine_help.h - the local engine in tests: the test program is its own fork server, task
 * functions are registered by name.
 *
 *     TASK(add1) { return ret_i64(t, 0, arg_i64(t, 0) + 1, err); }
 *     TEST(x) { eng_open((struct eng_opt){.cpus = 2}); CHECK_EQ(eng_take(eng_job(&(struct job){.fn
 *     = "add1", .a = {VAL(1)}, .n_a = 1})), 2); eng_close(); }
 *
 * eng_close checks that nothing is left: objects, tasks, extents, pins, memory. A worker has no
 * test report: tasks fail by returning errors. The gate is a page that driver and workers share:
 * words to wait for and to count with, so that no test needs to sleep. */
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

/* what runner.env got; text. "x" is refused */
extern char *task_env;
/* this process does not end when it is told to */
extern bool task_hangs_at_end;
extern void (*task_ended_by_cancel)(struct sk_task *t); /* of an async actor: forget it */

enum { KIND_I64 = 4, KIND_BLOB = 6, KIND_USER_ERROR = 0xE1 };
sk_rc ret_i64(struct sk_task *t, uint32_t i, int64_t v, struct sk_err *err) SK_MUST_USE;
sk_rc ret_blob(struct sk_task *t, uint32_t i, size_t n, uint8_t fill,
               struct sk_err *err) SK_MUST_USE; /* in the store when > SK_INLINE_MAX */
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
bool gate_wait(int i, uint32_t at_least); /* false after GATE_S */
uint32_t gate_add(int i, uint32_t n);     /* and wakes; the new value */
void gate_max(int i, uint32_t v);         /* word = max(word, v) */

sk_fid fid_of(const char *name);

struct job { /* a task in short */
    const char *fn;
    struct sk_arg a[4]; /* or args */
    uint32_t n_a;
    const struct sk_arg *args;
    uint32_t n_args;
    uint32_t n_returns; /* 0: one; NO_RETURNS: none */
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
/* Value of an int64 object; SK_ETASK when it is an error. Releases nothing. */
sk_rc get_i64(struct sk_engine *e, sk_oid o, int64_t *out, struct sk_err *err) SK_MUST_USE;

/* ---- in the driver --------------------------------------------------------------------------- */

struct eng_opt {
    double cpus; /* 0: 2 */
    double gpus;
    uint64_t store_bytes; /* 0: 256 MiB */
    uint32_t max_workers;
    const char *const *names; /* custom resources, one unit each unless amounts */
    int64_t amounts[4];
    uint32_t n_names;
    const char *fault; /* armed in that many of the first workers, see fault.h */
    int fault_workers;
    int fault_skip;           /* but not in the first so many */
    const char *server_fault; /* in the first fork server, */
    int server_faults;        /* or in the first so many */
    char *const *argv;        /* instead of this program */
    int64_t idle_reap_ns;
    uint64_t lineage_bytes;
    const char *spill_dirs[2];
    uint64_t spill_bytes, overflow_bytes; /* as in struct sk_engine_conf */
    uint64_t memory_bytes;
    uint32_t memory_permille;
    int64_t memory_every_ns;
    int32_t oom_retries;
    const struct sk_graph_hooks *graphs;
};
extern struct sk_engine *eng; /* the open one */
void eng_open(const struct eng_opt *o);
sk_rc eng_try_open(const struct eng_opt *o, struct sk_engine **out, struct sk_err *err) SK_MUST_USE;
void eng_define_all(struct sk_engine *e);
void eng_close(void);  /* after eng_settle_fast */
void eng_settle(void); /* everything was released: waits until the engine says so, too */
/* the same, but what workers lease may stay: they give it back when idle for a while */
void eng_settle_fast(void);
void eng_check(void);     /* walks over all structures */
void eng_close_now(void); /* whatever is going on */
uint64_t eng_stat(struct sk_engine *e, const char *key);
void resources_of(struct sk_engine *e, struct sk_res *total, struct sk_res *avail);
sk_oid eng_job(const struct job *j);
sk_oid eng_job_tid(const struct job *j, sk_tid *tid);
int64_t eng_i64(sk_oid o);  /* its value */
int64_t eng_take(sk_oid o); /* its value, and releases it */
void eng_release(sk_oid o);
/* The object is an error: its text (engine errors) or bytes, its code or 0. Releases it. */
int eng_error(sk_oid o, char *text, size_t cap);
/* false: it was not so within test_patience() */
bool eng_drive_until(bool (*is)(void *arg), void *arg);
void eng_wait_stat(const char *key, uint64_t want); /* until status says so */
int n_fds(void);
int n_threads(void);
/* processes of this test's group besides itself; one that has closed everything may still be
 * ending */
int n_descendants(void);
bool all_gone(void); /* n_descendants is 0, after waiting for it */

#endif
