/* process.c - the public C API: functions by name, and the life of a program's workers.
 *
 * A function's id is the hash of its name, so each process of the program finds the function in its
 * own table by the id alone. Invariant: the table is filled before skate_worker_main and only read
 * afterwards, but for `defined`, which two threads may set at once, with the same effect. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/api_int.h"
#include "base/clock.h"
#include "base/hash.h"

enum { MAX_FNS = 1024 };

struct sk_api_fn {
    const char *name;
    skate_fn fn;
    uint64_t id;
    uint64_t defined; /* bit i: the engine in place i knows the function */
};

static struct sk_api_fn fns[MAX_FNS];
static uint32_t n_fns;
/* The command line of workers: that of the program. Set by skate_worker_main; NULL: not called. */
static char **command;
/* Held while a function of this actor runs, for a call or for a graph. */
static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local struct sk_err last;
static _Thread_local struct sk_task *current; /* the task that this thread runs */

void sk_api_turn_begin(void) { pthread_mutex_lock(&turn); }
void sk_api_turn_end(void) { pthread_mutex_unlock(&turn); }

struct sk_err *sk_api_err(void) { return &last; }
sk_tid sk_api_current(void) { return current ? current->id : (sk_tid){0}; }
const char *skate_error(void) { return last.msg; }

const char *skate_code_name(int code) {
    static _Thread_local char name[40];
    snprintf(name, sizeof name, "SKATE%s", sk_rc_name(code) + 2);
    return name;
}

char **sk_api_command(void) { return command; }

int64_t sk_api_deadline(int64_t timeout_ms) {
    return timeout_ms < 0 || timeout_ms > INT64_MAX / SK_MS / 2 ? INT64_MAX
                                                                : sk_now_ns() + timeout_ms * SK_MS;
}

/* ---- registering functions ------------------------------------------------------------------- */

static uint64_t hash_name(const char *s) {
    uint64_t h = sk_hash(s, strlen(s));
    return h ? h : 1;
}

static struct sk_api_fn *by_id(uint64_t id) {
    for (uint32_t i = 0; i < n_fns; i++)
        if (fns[i].id == id) return &fns[i];
    return NULL;
}

int skate_register(const char *name, skate_fn fn) {
    if (!name || !*name || !fn)
        return SK_ERR(&last, SK_EINVAL, "register: a function and its name are needed");
    uint64_t id = hash_name(name);
    struct sk_api_fn *f = by_id(id);
    if (f)
        return f->fn == fn ? SK_OK
                           : SK_ERR(&last, SK_EINVAL, "register %s: the name is in use", name);
    if (n_fns == MAX_FNS)
        return SK_ERR(&last, SK_EFULL, "register %s: more than %d functions", name, MAX_FNS);
    fns[n_fns++] = (struct sk_api_fn){name, fn, id, 0};
    return SK_OK;
}

sk_rc sk_api_define(struct sk_engine *e, const char *name, sk_fid *out) {
    struct sk_api_fn *f = name ? by_id(hash_name(name)) : NULL;
    if (!f)
        return SK_ERR(&last, SK_ENOENT, "no function '%s' is registered in this process",
                      name ? name : "(null)");
    *out = (sk_fid){f->id};
    uint64_t bit = UINT64_C(1) << sk_api_place(e);
    if (__atomic_load_n(&f->defined, __ATOMIC_ACQUIRE) & bit) return SK_OK;
    SK_TRY(e->ops->define(e, *out, f->name, (struct sk_bytes){f->name, strlen(f->name)}, &last));
    __atomic_fetch_or(&f->defined, bit, __ATOMIC_RELEASE);
    return SK_OK;
}

void sk_api_undefine(unsigned place) {
    uint64_t bit = UINT64_C(1) << place;
    for (uint32_t i = 0; i < n_fns; i++)
        __atomic_fetch_and(&fns[i].defined, ~bit, __ATOMIC_RELAXED);
}

sk_rc sk_api_fn_find(const char *name, struct sk_api_fn **out, struct sk_err *err) {
    *out = by_id(hash_name(name));
    return *out ? SK_OK
                : SK_ERR(err, SK_ENOENT, "no function '%s' is registered in this process", name);
}
int sk_api_fn_call(const struct sk_api_fn *f, struct skate_task *t) { return f->fn(t); }

/* ---- running as a worker --------------------------------------------------------------------- */

static sk_rc define(void *ctx, sk_fid fn, const char *name, struct sk_bytes def,
                    struct sk_err *err) {
    (void)ctx, (void)def;
    return by_id(fn.v) ? SK_OK
                       : SK_ERR(err, SK_ENOENT,
                                "function '%s' is not registered in the worker; register it before "
                                "skate_worker_main",
                                name);
}

static sk_rc run(void *ctx, struct sk_task *t, struct sk_err *err) {
    (void)ctx;
    struct skate_task task = {.t = t};
    struct sk_api_fn *f = by_id(t->fn.v);
    if (!f) return SK_ERR(err, SK_ENOENT, "function '%s' is not registered in the worker", t->name);
    last.msg[0] = 0;
    current = t;
    if (t->actor.v) sk_api_turn_begin();
    int rc = f->fn(&task);
    if (t->actor.v) sk_api_turn_end();
    current = NULL;
    if (rc == 0 || task.failed) {
        if (rc == 0 && t->is_actor_init && t->n_returns == 1 && !task.failed) {
            /* a constructor returns nothing, so its result is an empty value */
            struct sk_payload p = {.kind = KIND_BYTES};
            return sk_task_return(t, 0, &p, err);
        }
        return SK_OK;
    }
    /* the message is that of the last call of skate that failed in the function */
    return SK_ERR(err, rc < 0 ? rc : SK_ETASK, "task %s failed%s%s", t->name,
                  last.msg[0] ? ": " : "", last.msg);
}

/* SIGINT asks a cancelled task to end. The handler does nothing: it is there for the EINTR of
 * sleeping system calls. The engine sends the signal until skate_cancelled has told the task. */
static void on_interrupt(int sig) { (void)sig; }

static sk_rc begin(void *ctx, struct sk_engine *client, struct sk_err *err) {
    (void)ctx, (void)err;
    struct sigaction a = {.sa_handler = on_interrupt}; /* without SA_RESTART */
    (void)sigaction(SIGINT, &a, NULL);
    sk_api_serve(client);
    return SK_OK;
}

/* The path by which this program is started again: argv[0] if it is an absolute path of the
 * program's file (an interpreter may look for its library beside a symbolic link), else the file
 * itself. */
static const char *path_of_program(const char *arg0, char *buf, size_t cap) {
    struct stat a, b;
    if (arg0 && arg0[0] == '/' && stat(arg0, &a) == 0 && stat("/proc/self/exe", &b) == 0 &&
        a.st_dev == b.st_dev && a.st_ino == b.st_ino)
        return arg0;
    ssize_t n = readlink("/proc/self/exe", buf, cap - 1);
    buf[SK_MAX(n, 0)] = 0;
    return n > 0 ? buf : arg0;
}

/* Keeps a copy of the command line, which stays until the process ends. */
static sk_rc keep_command(int argc, char **argv) {
    char buf[4096];
    size_t n = argv && argc > 0 ? (size_t)argc : 1;
    const char *path = path_of_program(argv && argc > 0 ? argv[0] : NULL, buf, sizeof buf);
    char **copy = path ? calloc(n + 1, sizeof *copy) : NULL;
    bool fine = copy && (copy[0] = strdup(path));
    for (size_t i = 1; fine && i < n; i++) fine = (copy[i] = strdup(argv[i])) != NULL;
    if (fine) {
        command = copy;
        return SK_OK;
    }
    for (size_t i = 0; copy && i < n; i++) free(copy[i]);
    free(copy);
    return SK_ERR(&last, SK_ENOMEM, "skate_worker_main: no memory for the command line");
}

int skate_worker_main(int argc, char **argv) {
    if (!command) SK_TRY(keep_command(argc, argv));
    struct sk_runner r = {.define = define, .run = run};
    struct sk_worker_hooks h = {.begin = begin};
    bool was = false;
    sk_rc rc = sk_worker_serve(&r, &h, &was, &last);
    if (rc != SK_OK) {
        fprintf(stderr, "skate worker: %s\n", last.msg);
        return rc;
    }
    return was;
}
