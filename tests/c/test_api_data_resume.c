/* test_api_data_resume.c - skate_write_resumable: whenever its process dies, the next call does
 * what is missing, and each row is written once. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "api_help.h"
#include "base/fault.h"
#include "skate_data.h"

enum { UNITS = 25, ROWS = 50 };

/* ---- a sink of files ------------------------------------------------------------------------- */

/* Appends a byte to <folder>/ran-<unit>, so that runs of a unit can be counted. */
static int note_run(const char *folder, int64_t unit) {
    char path[600];
    snprintf(path, sizeof path, "%s/ran-%02lld", folder, (long long)unit);
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    int rc = fd >= 0 && write(fd, "x", 1) == 1 ? 0 : SKATE_EIO;
    if (fd >= 0) close(fd);
    return rc;
}
static long runs_of(const char *folder, int64_t unit) {
    char path[600];
    struct stat st;
    snprintf(path, sizeof path, "%s/ran-%02lld", folder, (long long)unit);
    return stat(path, &st) == 0 ? (long)st.st_size : 0;
}

/* A unit: its number, then the folder. Gives ROWS numbers; every fifth unit gives none. */
SKATE_TASK(rs_read) {
    struct skate_column c = {.name = "id"};
    struct ArrowSchema s;
    struct ArrowArray a;
    int64_t unit;
    const char *p = skate_arg(t, NULL);
    memcpy(&unit, p, sizeof unit);
    int rc = note_run(p + sizeof unit, unit);
    if (rc || unit % 5 == 4) return rc;
    if ((rc = skate_batch_new(&c, 1, ROWS, &s, &a))) return rc;
    for (int64_t i = 0; i < ROWS; i++) ((int64_t *)c.data)[i] = unit * ROWS + i;
    rc = skate_emit(t, &s, &a);
    s.release(&s);
    return rc;
}
SKATE_BATCHES(rs_same) { return skate_emit(t, schema, batch); }
SKATE_BATCHES(rs_fails_late) {
    struct skate_column c = {.name = "id"};
    int rc = skate_columns(t, schema, batch, &c, 1);
    if (!rc && batch->length && ((const int64_t *)c.data)[0] >= 10 * ROWS)
        return skate_fail(t, "unit ten");
    return rc ? rc : skate_emit(t, schema, batch);
}

static int rs_begin(struct skate_task *t, void **file) {
    char path[600];
    snprintf(path, sizeof path, "%s/tmp-%s", (const char *)skate_arg(t, NULL), skate_write_id(t));
    return (*file = fopen(path, "we")) ? 0 : skate_fail(t, "cannot write %s", path);
}
static int rs_rows(struct skate_task *t, const struct ArrowSchema *schema, struct ArrowArray *b) {
    struct skate_column c = {.name = "id"};
    int rc = skate_columns(t, schema, b, &c, 1);
    for (int64_t i = 0; !rc && i < b->length; i++)
        fprintf(skate_task_state(t), "%lld\n", (long long)((const int64_t *)c.data)[i]);
    return rc;
}
static int rs_end(struct skate_task *t) {
    FILE *f = skate_task_state(t);
    if (fflush(f) || fsync(fileno(f))) return skate_fail(t, "the disk is full");
    return skate_report(t, skate_write_id(t), strlen(skate_write_id(t)) + 1);
}
static void rs_drop(void *file) { fclose(file); }
static const struct skate_batch_fns writer = {sizeof writer, rs_rows, 0,      0,
                                              rs_begin,      rs_end,  rs_drop};
__attribute__((constructor(102))) static void register_writer(void) {
    (void)skate_register_batches("rs_write", &writer);
}

static struct ctx {
    const char *folder;
    int commits, aborts, checks;
    size_t n_aborted;
    int commit_fails;
} C;

/* Renames; a name that is gone was renamed by an earlier call. */
static int commit(void *ctx, const struct skate_arg *reports, size_t n) {
    struct ctx *c = ctx;
    char from[600], to[600];
    c->commits++;
    for (size_t i = 0; i < n; i++) {
        snprintf(from, sizeof from, "%s/tmp-%s", c->folder, (const char *)reports[i].data);
        snprintf(to, sizeof to, "%s/part-%05zu", c->folder, i);
        if (rename(from, to) && (errno != ENOENT || access(to, F_OK))) return SKATE_EIO;
        if (i == n / 2 && c->commit_fails) return SKATE_ENOSPC;
        SK_FAULT_HERE("test.rename");
    }
    return 0;
}
static void undo(void *ctx, const struct skate_arg *reports, size_t n) {
    struct ctx *c = ctx;
    (void)reports;
    c->aborts++;
    c->n_aborted += n;
}
static int check(void *ctx, const struct skate_arg *reports, size_t n) {
    struct ctx *c = ctx;
    char path[600];
    c->checks++;
    for (size_t i = 0; i < n; i++) {
        snprintf(path, sizeof path, "%s/tmp-%s", c->folder, (const char *)reports[i].data);
        if (access(path, F_OK)) return -1;
    }
    return 0;
}

/* ---- one call of the job --------------------------------------------------------------------- */

static skate_dataset *source(const char *folder) {
    static char bytes[UNITS][600];
    struct skate_unit u[UNITS];
    for (int64_t i = 0; i < UNITS; i++) {
        memcpy(bytes[i], &i, sizeof i);
        snprintf(bytes[i] + sizeof i, sizeof bytes[i] - sizeof i, "%s", folder);
        u[i] = (struct skate_unit){bytes[i], sizeof i + strlen(folder) + 1, ROWS, ROWS * 8};
    }
    return skate_source("rs_read", u, UNITS, NULL);
}

static int write_job(skate_dataset *ds, const char *folder, const char *text) {
    char log[600];
    snprintf(log, sizeof log, "%s/log", folder);
    C.folder = folder;
    struct skate_map_opts m = SKATE_OPTS(struct skate_map_opts);
    m.arg = folder;
    m.arg_size = strlen(folder) + 1;
    struct skate_sink sink = {sizeof sink, "rs_write", commit, undo, &C};
    struct skate_resume r = {sizeof r, log, text, check};
    int rc = skate_write_resumable(ds, &sink, &r, &m, NULL);
    skate_dataset_release(ds);
    return rc;
}

static void open_engine(void) {
    OK(skate_init(SKATE_WITH(struct skate_opts, .cpus = 2, .store_bytes = 64 << 20)));
}

/* Checks that the parts have each row once, in order. */
static void check_rows(const char *folder) {
    char path[600];
    long long v;
    int64_t want = 0;
    for (int part = 0;; part++) {
        snprintf(path, sizeof path, "%s/part-%05d", folder, part);
        FILE *f = fopen(path, "re");
        if (!f) break;
        for (; fscanf(f, "%lld", &v) == 1; want++) {
            if (want / ROWS % 5 == 4) want += ROWS;
            CHECK_EQ(v, want);
        }
        fclose(f);
    }
    CHECK_EQ(want, (UNITS - 1) * ROWS); /* the last unit has no rows */
}

/* A folder of a name of its own in the test's. */
static const char *new_folder(char path[500], int n) {
    snprintf(path, 500, "%s/%d", test_dir(), n);
    CHECK_EQ(mkdir(path, 0700), 0);
    return path;
}

/* ---- tests ----------------------------------------------------------------------------------- */

TEST(a_write_that_is_not_interrupted) {
    char path[500];
    const char *folder = new_folder(path, 0);
    open_engine();
    OK(write_job(skate_map(source(folder), "rs_same", NULL), folder, "v1"));
    CHECK(C.commits == 1 && !C.aborts && !C.checks);
    check_rows(folder);
    OK(write_job(skate_map(source(folder), "rs_same", NULL), folder, "v1"));
    CHECK_EQ(C.commits, 1); /* the job has ended: nothing is done */
    for (int64_t u = 0; u < UNITS; u++) CHECK_EQ(runs_of(folder, u), 1);
    OK(write_job(source(folder), folder, "v2")); /* another job replaces one that has ended */
    CHECK_EQ(C.commits, 2);
    check_rows(folder);
    skate_shutdown();
}

/* One process after the other is killed at the nth pass of a fault point, with a larger n each time
 * if `step` says so, until one gets through. */
static void killed_at(const char *point, int64_t first, int64_t step, const char *folder,
                      int max_deaths) {
    int deaths = 0;
    for (int64_t nth = first;; nth += step) {
        pid_t pid = fork();
        if (pid == 0) {
            CHECK_RC(sk_fault_set(point, SK_FAULT_KILL, nth), SK_OK);
            open_engine();
            OK(write_job(skate_map(source(folder), "rs_same", NULL), folder, "v1"));
            sk_fault_clear();
            skate_shutdown();
            _exit(0);
        }
        int status;
        CHECK_EQ(waitpid(pid, &status, 0), pid);
        if (WIFEXITED(status)) {
            CHECK_EQ(WEXITSTATUS(status), 0);
            break;
        }
        CHECK_EQ(WTERMSIG(status), SIGKILL);
        CHECK_MSG(++deaths <= max_deaths, "%s: no call gets through", point);
    }
    CHECK_MSG(deaths > 0, "%s was never passed", point);
    check_rows(folder);
    printf("# %s: %d deaths\n", point, deaths);
}

TEST_LARGE(a_driver_that_is_killed, 240) {
    static const char *const points[] = {"joblog.before",    "joblog.torn",   "joblog.half",
                                         "joblog.written",   "joblog.synced", "resume.commit",
                                         "resume.committed", "test.rename"};
    char path[500];
    for (size_t i = 0; i < SK_COUNT(points); i++) {
        bool log = i < 4;
        killed_at(points[i], log ? 3 : 1, log ? 0 : 1, new_folder(path, (int)i), 60);
    }
}

/* What is recorded is not done again. */
TEST(units_that_are_recorded_do_not_run_again) {
    char path[500];
    const char *folder = new_folder(path, 0);
    killed_at("joblog.written", 10, 1000, folder, 1); /* head, and units 0 to 8 */
    for (int64_t u = 0; u < 9; u++) CHECK_EQ(runs_of(folder, u), 1);
    for (int64_t u = 9; u < UNITS; u++) CHECK(runs_of(folder, u) >= 1 && runs_of(folder, u) <= 2);
    CHECK(runs_of(folder, UNITS - 1) >= 1);
}

TEST(a_failure_keeps_what_is_done) {
    char path[500];
    const char *folder = new_folder(path, 0);
    open_engine();
    CHECK_EQ(write_job(skate_map(source(folder), "rs_fails_late", NULL), folder, "v1"),
             SKATE_ETASK);
    CHECK_STR_HAS(skate_error(), "unit ten");
    CHECK(C.aborts == 1 && !C.commits && C.n_aborted <= 1);
    CHECK_EQ(write_job(skate_map(source(folder), "rs_same", NULL), folder, "v1"), SKATE_EINVAL);
    CHECK_STR_HAS(skate_error(),
                  "the log of another job, which has not ended; what differs: Map(rs_"
                  "same)");
    CHECK_EQ(write_job(skate_map(source(folder), "rs_fails_late", NULL), folder, "v2"),
             SKATE_EINVAL);
    CHECK_STR_HAS(skate_error(), "what differs: job");
    CHECK_EQ(C.aborts, 1); /* those calls have not begun */
    CHECK_EQ(write_job(skate_map(source(folder), "rs_fails_late", NULL), folder, "v1"),
             SKATE_ETASK);
    CHECK_LE(C.checks, 10); /* the units before it that were recorded when the run failed */
    for (int64_t u = 0; u < 9; u++) CHECK(runs_of(folder, u) <= 2);
    skate_shutdown();
}

/* Files of two units are lost between two calls; then the commit fails in its middle. */
TEST(what_is_lost_is_done_again) {
    char path[500], name[900];
    const char *folder = new_folder(path, 0);
    open_engine();
    C.commit_fails = 1;
    CHECK_EQ(write_job(source(folder), folder, "v1"), SKATE_ENOSPC);
    CHECK(C.commits == 1 && !C.aborts);
    C.commit_fails = 0;
    OK(write_job(source(folder), folder, "v1")); /* only the commit, and nothing is checked */
    CHECK(C.commits == 2 && !C.checks);
    for (int64_t u = 0; u < UNITS; u++) CHECK_EQ(runs_of(folder, u), 1);
    check_rows(folder);
    skate_shutdown();
    folder = new_folder(path, 1);
    pid_t pid = fork();
    if (pid == 0) { /* dies when all units are recorded */
        CHECK_RC(sk_fault_set("joblog.before", SK_FAULT_KILL, UNITS + 2), SK_OK);
        open_engine();
        (void)write_job(source(folder), folder, "v1");
        _exit(0);
    }
    int status, n = 0;
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    CHECK(WIFSIGNALED(status));
    DIR *d = opendir(folder);
    for (struct dirent *e; d && (e = readdir(d));)
        if (!strncmp(e->d_name, "tmp-", 4) && n < 2) {
            snprintf(name, sizeof name, "%s/%s", folder, e->d_name);
            n += !unlink(name);
        }
    closedir(d);
    CHECK_EQ(n, 2);
    open_engine();
    OK(write_job(source(folder), folder, "v1"));
    CHECK_EQ(C.checks, UNITS);
    check_rows(folder);
    long runs = 0;
    for (int64_t u = 0; u < UNITS; u++) runs += runs_of(folder, u);
    CHECK_EQ(runs, UNITS + 2);
    skate_shutdown();
}

TEST(writes_that_cannot_be_resumed) {
    char path[500], log[600];
    const char *folder = new_folder(path, 0);
    open_engine();
    CHECK_EQ(write_job(skate_limit(source(folder), 5), folder, "v1"), SKATE_EINVAL);
    CHECK_STR_HAS(skate_error(), "Limit(5) cannot be part of a write that is resumed");
    CHECK_EQ(
        write_job(skate_sort(source(folder), (struct skate_key[]){{"id", false, false}}, 1, NULL),
                  folder, "v1"),
        SKATE_EINVAL);
    skate_dataset *two[] = {source(folder), source(folder)};
    CHECK_EQ(write_job(skate_union(two, 2), folder, "v1"), SKATE_EINVAL);
    CHECK_EQ(write_job(source(folder), folder, NULL), SKATE_EINVAL);
    CHECK_STR_HAS(skate_error(), "the path of a log, and a text");
    CHECK_EQ(write_job(NULL, folder, "v1"), SKATE_EINVAL);
    struct skate_sink sink = {sizeof sink, "rs_write", commit, undo, &C};
    skate_dataset *ds = source(folder);
    CHECK_EQ(skate_write_resumable(ds, &sink, NULL, NULL, NULL), SKATE_EINVAL);
    struct skate_resume r = {.size = sizeof r, .log = "/no/such/folder/log", .job = "v1"};
    CHECK_EQ(skate_write_resumable(ds, &sink, &r, NULL, NULL), SKATE_EIO);
    CHECK_STR_HAS(skate_error(), "/no/such/folder/log");
    snprintf(log, sizeof log, "%s/other", folder);
    FILE *f = fopen(log, "we");
    CHECK(f && fputs("this is a file of something else", f) >= 0 && !fclose(f));
    r.log = log;
    CHECK(skate_write_resumable(ds, &sink, &r, NULL, NULL) < 0);
    CHECK_STR_HAS(skate_error(), "is no log of a job");
    CHECK(!C.commits && !C.aborts);
    skate_dataset_release(ds);
    skate_shutdown();
}
