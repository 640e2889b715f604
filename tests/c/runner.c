/* runner.c - main() of every C test program: a forked process for each test, a deadline, TAP lines.
 *
 *     build/dev/bin/test_base [-l] [-v] [-j N] [pattern ...]
 *
 * A pattern is a part of a test's name; -l lists the tests; -j N runs N tests at a time (1).
 *
 * Environment:
 * - SK_TEST_QUICK=1: leaves out each TEST_LARGE test, unless a pattern names it, and takes a
 *   quarter of the rounds.
 * - SK_TEST_SEED: the seed. SK_TEST_ROUNDS: a factor on rounds and deadlines.
 * - SK_TEST_SLOW: a factor on deadlines. A sanitizer build has a factor of 6 by itself, and on a
 *   loaded machine deadlines are also multiplied by the load average per core at the start.
 *
 * Invariant: the runner itself has one thread, so fork is safe. Every test is the leader of a
 * process group, which is killed when the test ends, so that no process of it survives. Cost: about
 * 1 ms a test. The last line is exactly "N passed, N failed"; the exit status is 1 when a test
 * failed or none matched. */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log/log.h"
#include "base/rand.h"
#include "test.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/lsan_interface.h>
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { SANITIZED = 1 };
#else
enum { SANITIZED = 0 };
#endif

#if defined(__SANITIZE_THREAD__)
/* Makes TSan stop at the first report: tests end by _exit, which skips TSan's change of the exit
 * status. A test program may define its own options. */
const char *__tsan_default_options(void);
__attribute__((visibility("default"), weak)) const char *__tsan_default_options(void) {
    return "halt_on_error=1:second_deadlock_stack=1";
}
#endif

enum { EXIT_FAILED = 1, EXIT_SKIPPED = 77, MOST_JOBS = 64 };

static struct report { /* report of the current test, shared with its process and its children */
    _Atomic int written;
    char text[1500];
    char dir[256];
    _Atomic int dir_made;
    char last_dir[400]; /* the path given to test_rmdir_last; "": none */
} *report;

static struct test_case *first, **last = &first;
static uint64_t run_seed, this_seed;
static struct sk_rand rng;
static bool may_leak;
static int passed, failed;
static int rounds_factor = 1, slow_factor = SANITIZED ? 6 : 1;
static bool quick; /* SK_TEST_QUICK */

void test_register(struct test_case *t) {
    *last = t;
    last = &t->next;
}

/* ---- called by tests ------------------------------------------------------------------------- */

static void vsay(const char *file, int line, const char *fmt, va_list ap) {
    if (atomic_exchange(&report->written, 1)) return; /* only the first message counts */
    int n = file ? snprintf(report->text, sizeof(report->text), "%s:%d: ", file, line) : 0;
    if (n >= 0 && (size_t)n < sizeof(report->text))
        vsnprintf(report->text + n, sizeof(report->text) - (size_t)n, fmt, ap);
}

SK_PRINTF(1, 2) static void say(const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    vsay(NULL, 0, fmt, ap);
    va_end(ap);
}

void test_fail(const char *file, int line, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    vsay(file, line, fmt, ap);
    va_end(ap);
    fflush(NULL);
    sk_log_dump(STDERR_FILENO);
    _exit(EXIT_FAILED);
}

void test_skip(const char *why) {
    say("SKIP %s", why);
    fflush(NULL);
    _exit(EXIT_SKIPPED);
}

void test_may_leak(void) { may_leak = true; }
uint64_t test_seed(void) { return this_seed; }
int test_rounds(int usual) { return quick ? SK_MAX(1, usual / 4) : usual * rounds_factor; }
bool test_sanitized(void) { return SANITIZED; }
int64_t test_cpu_ns(void) {
    struct timespec ts;
    SK_ASSERT(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts) == 0);
    return ts.tv_sec * SK_SEC + ts.tv_nsec;
}
int64_t test_patience(void) { return sk_now_ns() + 30 * slow_factor * SK_SEC; }

uint64_t test_rand(void) { return sk_rand_next(&rng); }

uint64_t test_below(uint64_t n) {
    SK_ASSERT(n > 0);
    return sk_rand_below(&rng, n);
}

const char *test_dir(void) {
    if (atomic_load(&report->dir_made)) return report->dir;
    const char *tmp = getenv("TMPDIR");
    snprintf(report->dir, sizeof(report->dir), "%s/sk_test_XXXXXX", tmp && *tmp ? tmp : "/tmp");
    if (!mkdtemp(report->dir))
        test_fail(__FILE__, __LINE__, "mkdtemp %s: %s", report->dir, strerror(errno));
    atomic_store(&report->dir_made, 1);
    return report->dir;
}

void test_rmdir_last(const char *path) {
    snprintf(report->last_dir, sizeof report->last_dir, "%s", path);
}

/* ---- one test -------------------------------------------------------------------------------- */

static void seed_test(const char *name) {
    uint64_t x = run_seed;
    for (const char *s = name; *s; s++) x = (x ^ (unsigned char)*s) * UINT64_C(0x100000001b3);
    this_seed = x;
    sk_rand_init(&rng, x);
}

static void check_leaks(void) {
    for (unsigned t = 0; t < SK_TAG_N && !may_leak; t++)
        if (sk_mem_blocks((enum sk_tag)t) != 0) {
            say("leak: %lld bytes in %lld blocks of tag %s",
                (long long)sk_mem_bytes((enum sk_tag)t), (long long)sk_mem_blocks((enum sk_tag)t),
                sk_tag_name((enum sk_tag)t));
            _exit(EXIT_FAILED);
        }
#if defined(__SANITIZE_ADDRESS__)
    if (!may_leak && __lsan_do_recoverable_leak_check()) {
        say("leak found by LeakSanitizer (above)");
        _exit(EXIT_FAILED);
    }
#endif
}

__attribute__((noreturn)) static void child(const struct test_case *t) {
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* if the runner is killed, its tests are killed, too */
    seed_test(t->name);
    t->run();
    fflush(NULL);
    check_leaks();
    _exit(0);
}

/* Removes a directory, with retries: a cgroup is busy until the last of its killed processes is
 * gone. */
static void rmdir_last(const char *path) {
    for (int64_t until = sk_now_ns() + 10 * SK_SEC; rmdir(path) != 0 && errno == EBUSY;
         usleep(1000))
        if (sk_now_ns() > until) {
            fprintf(stderr, "%s is still busy and stays\n", path);
            return;
        }
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *at) {
    (void)st, (void)kind, (void)at;
    return remove(path);
}

struct outcome {
    bool passed, skipped;
    int64_t ns, cpu_ns; /* ns: wall time; cpu_ns: CPU time of the test and its reaped children */
};

static void judge(const struct test_case *t, int status, bool late, struct outcome *o) {
    bool exited = WIFEXITED(status);
    o->skipped = exited && WEXITSTATUS(status) == EXIT_SKIPPED;
    o->passed = !late && (o->skipped ||
                          (exited && WEXITSTATUS(status) == 0 && !atomic_load(&report->written)));
    if (o->passed) return;
    if (late) {
        /* A message written before (by a child of the test that failed) explains the hang
         * better. */
        if (!atomic_load(&report->written))
            say("%s:%d: past its deadline of %d s", t->file, t->line, t->seconds * slow_factor);
    } else if (WIFSIGNALED(status)) {
        say("%s:%d: killed by signal %d (%s)", t->file, t->line, WTERMSIG(status),
            strsignal(WTERMSIG(status)));
    } else if (WEXITSTATUS(status) == 0) {
        return; /* a child process of the test failed a check; its message is there */
    } else {
        say("%s:%d: exit status %d", t->file, t->line, WEXITSTATUS(status));
    }
}

/* A running test. `report` belongs to its slot, which is free if pid is 0. */
static struct running {
    const struct test_case *t;
    pid_t pid;
    int pidfd;
    int64_t begin, until;
    struct report *report;
} running[MOST_JOBS];

static void show(const struct test_case *t, const struct outcome *o) {
    o->passed ? passed++ : failed++;
    printf("%sok %d - %s (%.1f ms, CPU %.1f)%s%s\n", o->passed ? "" : "not ", passed + failed,
           t->name, (double)o->ns / 1e6, (double)o->cpu_ns / 1e6, report->text[0] ? " # " : "",
           report->text);
    fflush(stdout);
}

static void begin_test(struct running *r, const struct test_case *t) {
    report = r->report;
    memset(report, 0, sizeof(*report));
    fflush(NULL);
    r->t = t;
    r->begin = sk_now_ns();
    r->until = r->begin + (int64_t)t->seconds * slow_factor * SK_SEC;
    r->pid = fork();
    if (r->pid < 0) {
        say("fork: %s", strerror(errno));
        r->pid = 0;
        show(t, &(struct outcome){0});
        return;
    }
    if (r->pid == 0) {
        for (struct running *o = running; o < running + MOST_JOBS; o++)
            if (o->pid && o != r) close(o->pidfd);
        child(t);
    }
    setpgid(r->pid, r->pid); /* both processes set the group, since either may run first */
    r->pidfd = (int)syscall(SYS_pidfd_open, r->pid, 0);
    SK_ASSERT(r->pidfd >= 0);
}

static int64_t in_ns(const struct timeval *t) {
    return (int64_t)t->tv_sec * SK_SEC + (int64_t)t->tv_usec * 1000;
}

static void end_test(struct running *r, bool late) {
    struct outcome o = {0};
    report = r->report;
    /* The leader is a zombie until waitpid, so the group number cannot have been reused yet. */
    kill(-r->pid, SIGKILL);
    kill(r->pid, SIGKILL); /* in case the test has left its group */
    int status = 0;
    struct rusage used = {0};
    while (wait4(r->pid, &status, 0, &used) < 0 && errno == EINTR) {}
    close(r->pidfd);
    r->pid = 0;
    o.ns = sk_now_ns() - r->begin;
    o.cpu_ns = in_ns(&used.ru_utime) + in_ns(&used.ru_stime);
    judge(r->t, status, late, &o);
    if (report->last_dir[0]) rmdir_last(report->last_dir);
    if (atomic_load(&report->dir_made)) nftw(report->dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    show(r->t, &o);
}

/* Waits until a running test has ended or is over its deadline, then handles all such tests. */
static void end_some(void) {
    struct pollfd p[MOST_JOBS];
    struct running *of[MOST_JOBS];
    nfds_t n = 0;
    int64_t until = INT64_MAX;
    for (struct running *r = running; r < running + MOST_JOBS; r++) {
        if (!r->pid) continue;
        until = SK_MIN(until, r->until);
        of[n] = r;
        p[n++] = (struct pollfd){.fd = r->pidfd, .events = POLLIN};
    }
    int64_t left = SK_MAX(0, until - sk_now_ns());
    if (poll(p, n, (int)(left / SK_MS + 1)) < 0) {
        SK_ASSERT(errno == EINTR);
        return;
    }
    int64_t now = sk_now_ns();
    for (nfds_t i = 0; i < n; i++)
        if (p[i].revents || now >= of[i]->until) end_test(of[i], !p[i].revents);
}

/* ---- all tests ------------------------------------------------------------------------------- */

static bool wanted(const struct test_case *t, char **pattern, int n) {
    if (t->large && quick && n == 0) return false;
    for (int i = 0; i < n; i++)
        if (strstr(t->name, pattern[i])) return true;
    return n == 0;
}

static uint64_t env_u64(const char *name, uint64_t otherwise) {
    const char *s = getenv(name);
    if (!s || !*s) return otherwise;
    char *end;
    errno = 0;
    uint64_t v = strtoull(s, &end, 0);
    if (errno || *end) {
        fprintf(stderr, "%s=%s: want a number\n", name, s);
        exit(2);
    }
    return v;
}

static int on_a_core(void) {
    double load; /* load average of the last minute: processes that run or could run */
    return getloadavg(&load, 1) == 1
               ? (int)SK_MAX(1, load / (double)SK_MAX(1, sysconf(_SC_NPROCESSORS_ONLN)))
               : 1;
}

int main(int argc, char **argv) {
    bool list = false, verbose = false;
    int at = 1, jobs = 1;
    for (; at < argc && argv[at][0] == '-'; at++) {
        if (strcmp(argv[at], "-l") == 0) list = true;
        else if (strcmp(argv[at], "-v") == 0) verbose = true;
        else if (strcmp(argv[at], "-j") == 0 && at + 1 < argc) jobs = atoi(argv[++at]);
        else {
            fprintf(stderr, "usage: %s [-l] [-v] [-j N] [pattern ...]\n", argv[0]);
            return 2;
        }
    }
    uint64_t chance = 0;
    if (getrandom(&chance, sizeof(chance), 0) != (ssize_t)sizeof(chance))
        chance = (uint64_t)sk_now_ns();
    run_seed = env_u64("SK_TEST_SEED", chance >> 32);
    rounds_factor = (int)SK_MAX(1, env_u64("SK_TEST_ROUNDS", 1));
    quick = env_u64("SK_TEST_QUICK", 0) != 0;
    slow_factor *= (int)SK_MAX(1, env_u64("SK_TEST_SLOW", 1)) * rounds_factor * on_a_core();
    if (verbose) sk_log_set(SK_LOG_DEBUG, STDERR_FILENO);
    signal(SIGPIPE, SIG_IGN);

    jobs = SK_MAX(1, SK_MIN(jobs, MOST_JOBS));
    struct report *reports = mmap(NULL, sizeof(*report) * (size_t)jobs, PROT_READ | PROT_WRITE,
                                  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (reports == MAP_FAILED) {
        perror("mmap");
        return 2;
    }
    for (int i = 0; i < jobs; i++) running[i].report = &reports[i];
    if (!list) printf("# seed %llu (SK_TEST_SEED repeats it)\n", (unsigned long long)run_seed);
    for (struct test_case *t = first; t; t = t->next) {
        if (!wanted(t, argv + at, argc - at)) continue;
        if (list) {
            printf("%s %s:%d\n", t->name, t->file, t->line);
            continue;
        }
        struct running *r = running;
        while (r->pid)
            if (++r == running + jobs) end_some(), r = running;
        begin_test(r, t);
    }
    if (list) return 0;
    for (struct running *r = running; r < running + jobs; r++)
        while (r->pid) end_some();
    printf("1..%d\n%d passed, %d failed\n", passed + failed, passed, failed);
    return failed || !passed;
}
