/* engine_help.c - see engine_help.h. */
#include "engine_help.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fault.h"
#include "engine/local/driver/calls/calls.h"
#include "ipc/ipc.h"

struct gate *gate;
struct sk_engine *eng;

/* ---- the registry ---------------------------------------------------------------------------- */

static struct {
    const char *name;
    task_fn fn;
} tasks[256];
static int n_tasks;

void task_register(const char *name, task_fn fn) {
    if (n_tasks == (int)SK_COUNT(tasks)) abort();
    tasks[n_tasks].name = name;
    tasks[n_tasks++].fn = fn;
}

sk_fid fid_of(const char *name) {
    uint64_t h = 1469598103934665603u;
    for (const char *s = name; *s; s++) h = (h ^ (uint8_t)*s) * 1099511628211u;
    return (sk_fid){h};
}

static sk_rc define(void *ctx, sk_fid fn, const char *name, struct sk_bytes def,
                    struct sk_err *err) {
    (void)ctx;
    if (fid_of(name).v != fn.v || def.n != strlen(name) || memcmp(def.p, name, def.n) != 0)
        return SK_ERR(err, SK_EINVAL, "definition of %s did not arrive whole", name);
    return SK_OK;
}

static sk_rc run(void *ctx, struct sk_task *t, struct sk_err *err) {
    (void)ctx;
    for (int i = 0; i < n_tasks; i++)
        if (fid_of(tasks[i].name).v == t->fn.v) return tasks[i].fn(t, err);
    return SK_ERR(err, SK_ENOENT, "no task function of this id");
}

/* ---- being a worker -------------------------------------------------------------------------- */

static bool take_token(const char *name, int n) {
    char path[300];
    snprintf(path, sizeof path, "%s/%s.%d", getenv("SK_TEST_TOKENS"), name, n);
    return unlink(path) == 0;
}

char *task_env;
static sk_rc take_env(void *ctx, struct sk_bytes env, struct sk_err *err) {
    (void)ctx;
    if (task_env) return SK_ERR(err, SK_EINVAL, "a process has one environment");
    task_env = strndup(env.p, env.n);
    return strcmp(task_env, "x") != 0 ? SK_OK : SK_ERR(err, SK_EINVAL, "no such environment");
}

bool task_hangs_at_end;
static void nothing(struct sk_task *t) { (void)t; }
void (*task_ended_by_cancel)(struct sk_task *t) = nothing;

static sk_rc begin(void *ctx, struct sk_engine *client, struct sk_err *err) {
    (void)ctx, (void)client, (void)err;
    const char *f = getenv("SK_TEST_FAULT");
    sk_fault_clear(); /* the server's */
    if (!f) return SK_OK;
    for (int i = 0; i < 64; i++)
        if (take_token("skip", i)) return SK_OK;
    for (int i = 0; i < 64; i++)
        if (take_token("fault", i)) {
            if (sk_fault_parse(f, NULL) != SK_OK) abort();
            return SK_OK;
        }
    return SK_OK;
}

static void map_gate(void) {
    const char *p = getenv("SK_TEST_GATE");
    if (!p) return;
    int fd = open(p, O_RDWR | O_CLOEXEC);
    void *m =
        fd < 0 ? MAP_FAILED : mmap(NULL, sizeof *gate, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (m == MAP_FAILED) abort();
    close(fd);
    gate = m;
}

/* A minimal event loop for async actors. A call that returned SK_EAGAIN is parked until another
 * call ends it; a cancel ends it with an error. */
static sk_rc serve_async(void *ctx, struct sk_engine *client, int fd, uint32_t group,
                         struct sk_err *err) {
    (void)ctx, (void)err;
    struct pollfd p = {.fd = fd, .events = POLLIN};
    while (sk_worker_step(client, group)) (void)poll(&p, 1, -1);
    return SK_OK;
}
static void cancel_async(void *ctx, struct sk_task *t) {
    (void)ctx;
    task_ended_by_cancel(t);
    struct sk_payload p = {.kind = KIND_USER_ERROR, .bytes = {"cancelled", 9}};
    if (sk_task_fail(t, &p, NULL) != SK_OK) abort();
    sk_task_end(t, SK_OK, NULL);
}

/* Handles a preload note in the fork server: arms the faults that it names. */
static void take_faults(void *ctx, const void *p, size_t n) {
    char spec[200];
    (void)ctx;
    if (n >= sizeof spec) abort();
    memcpy(spec, p, n);
    spec[n] = 0;
    if (sk_fault_parse(spec, NULL) != SK_OK) abort();
}

/* Runs before main and after the constructors that register tasks, which have an earlier
 * priority. */
__attribute__((constructor)) static void serve(void) {
    if (!getenv("SKATE_FORK_FD")) return;
    if (getenv("SK_TEST_BAD_START")) _exit(3);
    map_gate();
    const char *sf = getenv("SK_TEST_SERVER_FAULT");
    bool mine = false;
    for (int i = 0; sf && i < 64 && !mine; i++) mine = take_token("server", i);
    if (mine && sk_fault_parse(sf, NULL) != SK_OK) abort();
    struct sk_runner r = {.define = define,
                          .run = run,
                          .serve_async = serve_async,
                          .cancel = cancel_async,
                          .env = take_env};
    struct sk_worker_hooks h = {.on_note = take_faults, .begin = begin};
    struct sk_err err = {0};
    bool was;
    if (sk_worker_serve(&r, &h, &was, &err) != SK_OK) {
        fprintf(stderr, "worker: %s\n", err.msg);
        _exit(1);
    }
    if (was && task_hangs_at_end) (void)gate_wait(GATE_WORDS - 2, 1);
    if (was) _exit(0); /* a worker's memory goes with its process: no leak check */
}

/* ---- values ---------------------------------------------------------------------------------- */

sk_rc ret_i64(struct sk_task *t, uint32_t i, int64_t v, struct sk_err *err) {
    struct sk_payload p = {.kind = KIND_I64, .bytes = {&v, 8}};
    return sk_task_return(t, i, &p, err);
}

static sk_rc blob(struct sk_task *t, size_t n, uint8_t fill, struct sk_buf *b, struct sk_payload *p,
                  struct sk_err *err) {
    SK_TRY(t->engine->ops->buf_alloc(t->engine, n, b, err));
    memset(b->data, fill, n);
    *p = (struct sk_payload){.kind = KIND_BLOB, .buf = b, .buf_len = n};
    return SK_OK;
}

sk_rc ret_blob(struct sk_task *t, uint32_t i, size_t n, uint8_t fill, struct sk_err *err) {
    struct sk_buf b;
    struct sk_payload p;
    SK_TRY(blob(t, n, fill, &b, &p, err));
    return sk_task_return(t, i, &p, err);
}

sk_rc yield_i64(struct sk_task *t, int64_t v, struct sk_err *err) {
    struct sk_payload p = {.kind = KIND_I64, .bytes = {&v, 8}, .note = {&v, 8}};
    return sk_task_yield(t, &p, err);
}

sk_rc yield_blob(struct sk_task *t, size_t n, uint8_t fill, struct sk_err *err) {
    struct sk_buf b;
    struct sk_payload p;
    SK_TRY(blob(t, n, fill, &b, &p, err));
    return sk_task_yield(t, &p, err);
}

int64_t arg_i64(const struct sk_task *t, uint32_t i) {
    int64_t v;
    /* on a wrong argument the worker exits, which the driver sees */
    if (i >= t->n_args || t->args[i].kind != KIND_I64 || t->args[i].len != 8) abort();
    memcpy(&v, t->args[i].data, 8);
    return v;
}

bool view_is(const struct sk_view *v, size_t n, uint8_t fill) {
    if (v->len != n || v->kind != KIND_BLOB) return false;
    for (size_t i = 0; i < n; i++)
        if (v->data[i] != fill) return false;
    return true;
}

/* ---- the gate -------------------------------------------------------------------------------- */

bool gate_wait(int i, uint32_t at_least) {
    int64_t until = sk_now_ns() + GATE_S * SK_SEC;
    for (;;) {
        uint32_t v = atomic_load(&gate->w[i]);
        if (v >= at_least) return true;
        if (sk_now_ns() >= until) return false;
        if (sk_futex_wait(&gate->w[i], v, until) == SK_ETIMEOUT) return false;
    }
}

uint32_t gate_add(int i, uint32_t n) {
    uint32_t v = atomic_fetch_add(&gate->w[i], n) + n;
    sk_futex_wake(&gate->w[i], INT32_MAX);
    return v;
}

void gate_max(int i, uint32_t v) {
    uint32_t old = atomic_load(&gate->w[i]);
    while (old < v && !atomic_compare_exchange_weak(&gate->w[i], &old, v)) {}
}

/* ---- jobs ------------------------------------------------------------------------------------ */

struct sk_task_spec spec_of(const struct job *j) {
    return (struct sk_task_spec){.fn = fid_of(j->fn),
                                 .args = j->args ? j->args : j->a,
                                 .n_args = j->args ? j->n_args : j->n_a,
                                 .n_returns = j->n_returns == NO_RETURNS ? 0
                                              : j->n_returns             ? j->n_returns
                                                                         : 1,
                                 .max_retries = j->retries,
                                 .retry_exceptions = j->retry_exceptions,
                                 .shape = j->shape,
                                 .actor = j->actor,
                                 .node = j->node,
                                 .node_only = j->node_only,
                                 .opts = &j->opts,
                                 .sink = j->sink,
                                 .sink_tag = j->tag,
                                 .contains = j->contains,
                                 .n_contains = j->n_contains};
}

sk_rc job_on(struct sk_engine *e, const struct job *j, sk_oid *first, sk_tid *tid,
             struct sk_err *err) {
    struct sk_task_spec s = spec_of(j);
    return e->ops->submit(e, &s, first, tid, err);
}

sk_rc get_i64(struct sk_engine *e, sk_oid o, int64_t *out, struct sk_err *err) {
    struct sk_view v;
    SK_TRY(e->ops->get(e, &o, 1, INT64_MAX, &v, err));
    sk_rc rc = SK_OK;
    if (SK_KIND_IS_ERROR(v.kind))
        rc = SK_ERR(err, SK_ETASK, "%.*s",
                    v.kind == SK_KIND_ENGINE_ERROR && v.len > 4 ? (int)v.len - 4 : 0,
                    (const char *)v.data + 4);
    else if (v.kind != KIND_I64 || v.len != 8)
        rc = SK_ERR(err, SK_ECORRUPT, "not a number: kind %u, %zu bytes", v.kind, v.len);
    else memcpy(out, v.data, 8);
    e->ops->view_release(e, &v);
    return rc;
}

/* ---- the driver ------------------------------------------------------------------------------ */

static void make_token(const char *name, int n) {
    char path[300];
    snprintf(path, sizeof path, "%s/%s.%d", test_dir(), name, n);
    int fd = open(path, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
    CHECK(fd >= 0);
    close(fd);
}

static char self_exe[300];

static void prepare(const struct eng_opt *o) {
    char path[300];
    if (!gate) {
        snprintf(path, sizeof path, "%s/gate", test_dir());
        int fd = open(path, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
        CHECK(fd >= 0 && ftruncate(fd, sizeof *gate) == 0);
        close(fd);
        setenv("SK_TEST_GATE", path, 1);
        map_gate();
    }
    memset(gate, 0, sizeof *gate);
    setenv("SK_TEST_TOKENS", test_dir(), 1);
    unsetenv("SK_TEST_FAULT");
    unsetenv("SK_TEST_SERVER_FAULT");
    if (o->fault) setenv("SK_TEST_FAULT", o->fault, 1);
    if (o->server_fault) {
        setenv("SK_TEST_SERVER_FAULT", o->server_fault, 1);
        for (int i = 0; i < SK_MAX(o->server_faults, 1); i++) make_token("server", i);
    }
    for (int i = 0; i < o->fault_skip; i++) make_token("skip", i);
    for (int i = 0; i < o->fault_workers; i++) make_token("fault", i);
    ssize_t n = readlink("/proc/self/exe", self_exe, sizeof self_exe - 1);
    CHECK(n > 0);
    self_exe[n] = 0;
}

sk_rc eng_try_open(const struct eng_opt *o, struct sk_engine **out, struct sk_err *err) {
    char *argv[] = {self_exe, NULL};
    struct sk_engine_conf c = {
        .total = {.amount = {(int64_t)((o->cpus > 0 ? o->cpus : 2) * SK_RES_UNIT),
                             (int64_t)(o->gpus * SK_RES_UNIT)}},
        .store_bytes = o->store_bytes ? o->store_bytes : 256u << 20,
        .max_workers = o->max_workers,
        .spin_ns = -1,
        .custom_names = o->names,
        .n_custom = o->n_names,
        .idle_reap_ns = o->idle_reap_ns,
        .lineage_bytes = o->lineage_bytes,
        .memory_bytes = o->memory_bytes,
        .memory_permille = o->memory_permille,
        .memory_every_ns = o->memory_every_ns,
        .oom_retries = o->oom_retries,
        .graphs = o->graphs,
        .id_base = o->id_base,
        .spill_dirs = o->spill_dirs[0] ? o->spill_dirs : NULL,
        .n_spill_dirs = o->spill_dirs[0] ? 1 + (o->spill_dirs[1] != NULL) : 0,
        .spill_bytes = o->spill_bytes,
        .overflow_bytes = o->overflow_bytes,
        .spawn_argv = o->argv ? o->argv : argv};
    for (uint32_t i = 0; i < o->n_names; i++)
        c.total.amount[SK_RES_CUSTOM + i] = o->amounts[i] ? o->amounts[i] : SK_RES_UNIT;
    prepare(o);
    return sk_engine_find("local")->open(&c, out, err);
}

void eng_define_all(struct sk_engine *e) {
    struct sk_err err;
    for (int i = 0; i < n_tasks; i++)
        CHECK_OK_ERR(e->ops->define(e, fid_of(tasks[i].name), tasks[i].name,
                                    (struct sk_bytes){tasks[i].name, strlen(tasks[i].name)}, &err),
                     &err);
}

void eng_open(const struct eng_opt *o) {
    struct sk_err err;
    CHECK_OK_ERR(eng_try_open(o, &eng, &err), &err);
    eng_define_all(eng);
}

void resources_of(struct sk_engine *e, struct sk_res *total, struct sk_res *avail) {
    struct sk_node sum;
    CHECK_OK(sk_engine_sum(e, &sum, NULL));
    *total = sum.total;
    *avail = sum.free;
}

uint64_t eng_stat(struct sk_engine *e, const char *key) {
    char buf[2000], *at;
    CHECK(e->state->status(e, buf, sizeof buf) < sizeof buf);
    size_t n = strlen(key);
    for (at = buf; at && *at; at = strchr(at, '\n') ? strchr(at, '\n') + 1 : NULL)
        if (!strncmp(at, key, n) && at[n] == ' ') return strtoull(at + n + 1, NULL, 10);
    test_fail(__FILE__, __LINE__, "status has no %s", key);
}

struct want {
    const char *key;
    uint64_t v;
};
static bool stat_is(void *arg) {
    const struct want *w = arg;
    return eng_stat(eng, w->key) == w->v;
}

bool eng_drive_until(bool (*is)(void *arg), void *arg) {
    int64_t until = test_patience();
    while (!is(arg)) {
        if (sk_now_ns() >= until) return false;
        /* the wait is cut into pieces, since some reports wake no waiter */
        SK_IGNORE(eng->ops->drive(eng, is, arg, sk_now_ns() + 5 * SK_MS, NULL));
    }
    return true;
}

static bool wait_stat(const char *key, uint64_t want) {
    return eng_drive_until(stat_is, &(struct want){key, want});
}

void eng_wait_stat(const char *key, uint64_t want) {
    if (wait_stat(key, want)) return;
    test_fail(__FILE__, __LINE__, "%s is %llu, should become %llu", key,
              (unsigned long long)eng_stat(eng, key), (unsigned long long)want);
}

void eng_check(void) {
    sk_driver_lock(eng);
    bool ok = sk_local_check(sk_container_of(eng, struct sk_local, base));
    sk_driver_unlock(eng);
    CHECK(ok);
}

/* Prints the tasks, before the test fails. */
static void dump_tasks(void) {
    struct sk_local *l = sk_container_of(eng, struct sk_local, base);
    uint64_t id;
    void *v;
    sk_driver_lock(eng);
    for (uint32_t i = 0; sk_map_next(&l->tasks, &i, &id, &v);) {
        const struct sk_ltask *t = v;
        const struct sk_fn *f = sk_map_get(&l->fns, t->spec.fid);
        fprintf(stderr,
                "# task %llx %s %s, attempt %u owner %u unready %u%s%s%s%s yields %u taken %u "
                "released %u window %u",
                (unsigned long long)id, f ? f->name : "?", sk_tstates[t->state].name, t->attempt,
                t->owner, t->n_unready, t->kind == SK_TASK_INIT ? " init" : "",
                t->stream == SK_STREAM_DROPPED ? " dropped" : "",
                sk_ltask_cancelled(t) ? " cancelled" : "",
                t->stream == SK_STREAM_OVER ? " done" : "", t->n_yielded, t->n_taken, t->n_released,
                t->spec.stream_window);
        const struct sk_lworker *w = t->worker;
        if (w)
            fprintf(stderr, "; worker slot %u pid %d%s%s claim %llx reqs %d", w->slot, w->pid,
                    w->place.blocked ? " blocked" : "", w->killed ? " killed" : "",
                    (unsigned long long)w->sh->claims[t->claim], !sk_list_empty(&w->reqs));
        fprintf(stderr, "\n");
    }
    sk_driver_unlock(eng);
}

static void settle(size_t n) {
    static const char *const keys[] = {"objects", "tasks_known", "store_sealed_bytes", "store_pins",
                                       "store_leased_bytes"};
    for (size_t i = 0; i < n; i++)
        if (!wait_stat(keys[i], 0)) {
            char buf[2000];
            eng->state->status(eng, buf, sizeof buf);
            dump_tasks();
            test_fail(__FILE__, __LINE__, "left behind: %s\n%s", keys[i], buf);
        }
    eng_check();
}
void eng_settle(void) { settle(5); }
void eng_settle_fast(void) { settle(4); }

void eng_close_now(void) { sk_engine_close(&eng); }

void eng_close(void) {
    eng_settle_fast();
    eng_close_now();
}

sk_oid eng_job_tid(const struct job *j, sk_tid *tid) {
    struct sk_err err;
    sk_oid o = {0};
    CHECK_OK_ERR(job_on(eng, j, &o, tid, &err), &err);
    return o;
}
sk_oid eng_job(const struct job *j) { return eng_job_tid(j, NULL); }

int64_t eng_i64(sk_oid o) {
    struct sk_err err;
    int64_t x = 0;
    CHECK_OK_ERR(get_i64(eng, o, &x, &err), &err);
    return x;
}

void eng_release(sk_oid o) { eng->ops->release(eng, o); }

int64_t eng_take(sk_oid o) {
    int64_t x = eng_i64(o);
    eng_release(o);
    return x;
}

int eng_error(sk_oid o, char *text, size_t cap) {
    struct sk_err err;
    struct sk_view v;
    CHECK_OK_ERR(eng->ops->get(eng, &o, 1, INT64_MAX, &v, &err), &err);
    CHECK_MSG(SK_KIND_IS_ERROR(v.kind), "kind %u is no error", v.kind);
    int32_t code = 0;
    size_t skip = 0;
    if (v.kind == SK_KIND_ENGINE_ERROR) {
        CHECK(v.len > 4 && v.data[v.len - 1] == 0);
        memcpy(&code, v.data, 4);
        skip = 4;
    }
    snprintf(text, cap, "%.*s", (int)(v.len - skip), (const char *)v.data + skip);
    eng->ops->view_release(eng, &v);
    eng_release(o);
    return code;
}

static int entries(const char *dir) {
    int n = 0;
    DIR *d = opendir(dir);
    CHECK(d);
    while (readdir(d)) n++;
    closedir(d);
    return n - 2;
}
int n_fds(void) { return entries("/proc/self/fd") - 1; /* the directory's own */ }
int n_threads(void) { return entries("/proc/self/task"); }

int n_descendants(void) {
    int n = 0;
    DIR *d = opendir("/proc");
    CHECK(d);
    for (struct dirent *x; (x = readdir(d));) {
        char path[300], line[600];
        snprintf(path, sizeof path, "/proc/%.20s/stat", x->d_name);
        FILE *f = x->d_name[0] >= '1' && x->d_name[0] <= '9' ? fopen(path, "re") : NULL;
        if (!f) continue;
        char *got = fgets(line, sizeof line, f);
        fclose(f);
        char *p = got ? strrchr(line, ')') : NULL;
        char state;
        int ppid, pgrp;
        if (p && sscanf(p + 1, " %c %d %d", &state, &ppid, &pgrp) == 3 && pgrp == getpgrp() &&
            atoi(x->d_name) != getpid() && state != 'Z')
            n++;
    }
    closedir(d);
    return n;
}

/* Polls, since no event reports the end of processes that are not children. */
bool all_gone(void) {
    for (int64_t until = test_patience(); n_descendants() > 0;) {
        if (sk_now_ns() >= until) return false;
        (void)poll(NULL, 0, 1);
    }
    return true;
}
