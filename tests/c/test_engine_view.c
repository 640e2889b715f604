/* test_engine_view.c - the view segment: what a writer stored is read, a reader beside a writer
 * sees whole states only, and so does one after a kill; bytes of anybody do no harm. */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/clock.h"
#include "base/crc32c.h"
#include "base/fault.h"
#include "engine/local/wire/view.h"
#include "test.h"

static struct sk_view_about about = {.pid = 7, .started_ns = 5, .cpu_e4 = 20000, .program = "p x"};

static const char *path_of(const struct sk_view_writer *w) {
    static char path[64];
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", w->seg.fd);
    return path;
}

/* A run all of whose numbers follow from k. */
static void fill(struct sk_view_run *r, uint64_t k) {
    r->id = k;
    r->state = SK_VIEW_RUNNING;
    r->n_ops = r->n_shown = (uint32_t)(1 + k % SK_VIEW_OPS);
    r->n_samples = (uint32_t)(k % SK_VIEW_SAMPLES);
    r->bottleneck = UINT32_MAX;
    r->share = -1;
    r->left_ns = -1;
    for (uint32_t i = 0; i < r->n_shown; i++) {
        memset(&r->ops[i], 0, sizeof r->ops[i]);
        r->ops[i].rows_out = k;
    }
    for (uint32_t i = 0; i < r->n_samples * (SK_VS_N + r->n_shown); i++) r->samples[i] = (int64_t)k;
}

static bool whole(const struct sk_view_run *r) {
    uint64_t k = r->id;
    if (r->n_shown != 1 + k % SK_VIEW_OPS || r->n_samples != k % SK_VIEW_SAMPLES) return false;
    for (uint32_t i = 0; i < r->n_shown; i++)
        if (r->ops[i].rows_out != k) return false;
    for (uint32_t i = 0; i < r->n_samples * (SK_VS_N + r->n_shown); i++)
        if (r->samples[i] != (int64_t)k) return false;
    return true;
}

TEST(view_gives_back_what_was_stored) {
    struct sk_view_writer w;
    struct sk_view_reader r;
    struct sk_err err;
    struct sk_view_run *run = sk_calloc(SK_TAG_TEST, 2 * sizeof *run);
    struct sk_view_counters c = {.now_ns = 9, .done = 3, .waits = "for you"}, c2;
    struct sk_view_error e = {.text = "ValueError: x", .op = "Map", .replay = "id"}, e2;
    CHECK_OK(sk_viewer_open(&w, &about, &err));
    CHECK_OK_ERR(sk_view_open(path_of(&w), &r, &err), &err);
    CHECK_RC(sk_view_counters(&r, &c2, &err), SK_EAGAIN); /* nothing yet */
    CHECK_RC(sk_view_run(&r, 3, &run[1], &err), SK_EAGAIN);
    CHECK_RC(sk_view_run(&r, SK_VIEW_RUNS, &run[1], &err), SK_EAGAIN);
    CHECK_EQ(r.about.pid, 7);
    CHECK_EQ(r.about.cpu_e4, 20000);
    CHECK_STR_EQ(r.about.program, "p x");
    CHECK_EQ(r.about.ended, 0);
    sk_viewer_counters(&w, &c);
    CHECK_OK(sk_view_counters(&r, &c2, &err));
    CHECK_MEM_EQ(&c, &c2, sizeof c);
    for (uint64_t k = 1; k < 3 * SK_VIEW_SAMPLES; k += 37) {
        fill(&run[0], k);
        sk_viewer_run(&w, 3, &run[0]);
        CHECK_OK_ERR(sk_view_run(&r, 3, &run[1], &err), &err);
        CHECK_EQ(run[1].id, k);
        CHECK(whole(&run[1]));
    }
    for (uint32_t i = 0; i < SK_VIEW_ERRORS + 2; i++) {
        e.ns = i;
        sk_viewer_error(&w, &e);
    }
    CHECK_OK(sk_view_error(&r, 1, &e2, &err)); /* the ring went round */
    CHECK_EQ(e2.ns, SK_VIEW_ERRORS + 1);
    CHECK_STR_EQ(e2.replay, "id");
    sk_view_close(&r);
    sk_viewer_close(&w);
    sk_free(run);
}

TEST(view_keeps_the_last_tasks_and_flows_with_their_names) {
    enum { MORE = 100 };
    struct sk_view_writer w;
    struct sk_view_reader r;
    struct sk_err err;
    size_t n;
    struct sk_view_task *t = sk_calloc(SK_TAG_TEST, SK_VIEW_TASKS * sizeof *t);
    struct sk_view_flow *f = sk_calloc(SK_TAG_TEST, SK_VIEW_FLOWS * sizeof *f);
    char (*names)[SK_VIEW_NAME] = sk_calloc(SK_TAG_TEST, SK_VIEW_NAMES * sizeof *names);
    CHECK_OK(sk_viewer_open(&w, &about, &err));
    CHECK_OK_ERR(sk_view_open(path_of(&w), &r, &err), &err);
    CHECK_OK(sk_view_tasks(&r, t, &n, &err));
    CHECK_EQ(n, 0);
    for (uint64_t i = 0; i < SK_VIEW_TASKS + MORE; i++) {
        sk_viewer_task(&w, &(struct sk_view_task){.id = i, .name = (uint32_t)(i % 3)});
        if (i == 9) {
            CHECK_OK(sk_view_tasks(&r, t, &n, &err));
            CHECK_EQ(n, 10);
            CHECK_EQ(t[9].id, 9);
        }
    }
    CHECK_OK(sk_view_tasks(&r, t, &n, &err));
    CHECK_EQ(n, SK_VIEW_TASKS - 1); /* the oldest may be written over at any moment */
    for (size_t i = 0; i < n; i++) CHECK_EQ(t[i].id, MORE + 1 + i);
    for (uint64_t i = 0; i < SK_VIEW_FLOWS + MORE; i++)
        sk_viewer_flow(&w, &(struct sk_view_flow){.block = i, .task = 2 * i, .ns = 1});
    /* one that was begun and not finished: the writer was killed */
    struct sk_view_flow_entry *e = (struct sk_view_flow_entry *)(void *)(w.flows + 1) + 150;
    sk_store_relaxed(&e->seq, 0);
    CHECK_OK(sk_view_flows(&r, f, &n, &err));
    CHECK_EQ(n, SK_VIEW_FLOWS - 2);
    CHECK_EQ(f[0].block, MORE + 1);
    CHECK_EQ(f[n - 1].block, SK_VIEW_FLOWS + MORE - 1);
    for (size_t i = 0; i < n; i++) CHECK_EQ(f[i].task, 2 * f[i].block);

    char long_name[200];
    memset(long_name, 'x', sizeof long_name);
    CHECK_EQ(sk_viewer_known(&w, 5), UINT32_MAX);
    CHECK_EQ(sk_viewer_name(&w, 5, (struct sk_bytes){"f", 1}, ""), 0);
    CHECK_EQ(sk_viewer_known(&w, 5), 0);
    CHECK_EQ(sk_viewer_name(&w, 6, (struct sk_bytes){"A", 1}, ".__init__"), 1);
    CHECK_EQ(sk_viewer_name(&w, 0, (struct sk_bytes){"", 0}, ""), 2);
    CHECK_EQ(sk_viewer_name(&w, 0, (struct sk_bytes){long_name, sizeof long_name}, ""), 3);
    CHECK_EQ(sk_viewer_name(&w, 0, (struct sk_bytes){long_name, sizeof long_name}, ""), 3);
    for (uint32_t i = 4; i < 2 * SK_VIEW_NAMES; i++) {
        /* names that differ in the middle only have one hash */
        (void)snprintf(long_name, sizeof long_name, "Read->Map(f%07u)->Write", i);
        struct sk_bytes name = {long_name, strlen(long_name)};
        uint32_t at = i < SK_VIEW_NAMES ? i : UINT32_MAX; /* the table is full */
        CHECK_EQ(sk_viewer_name(&w, 0, name, ""), at);
        if (i % 100 == 0) CHECK_EQ(sk_viewer_name(&w, 0, name, ""), at);
    }
    CHECK_OK(sk_view_names(&r, names, &n, &err));
    CHECK_EQ(n, SK_VIEW_NAMES);
    CHECK_STR_EQ(names[0], "f");
    CHECK_STR_EQ(names[1], "A.__init__");
    CHECK_EQ(strlen(names[3]), SK_VIEW_NAME - 1);
    CHECK_STR_EQ(names[77], "Read->Map(f0000077)->Write");
    sk_view_close(&r);
    sk_viewer_close(&w);
    sk_free(t);
    sk_free(f);
    sk_free(names);
}

static struct {
    struct sk_view_writer w;
    _Atomic bool stop;
} beside;

static void *write_tasks(void *arg SK_UNUSED) {
    for (uint64_t i = 0; !sk_load_acq(&beside.stop); i++) {
        sk_viewer_task(&beside.w,
                       &(struct sk_view_task){.id = i, .parent = i, .end_ns = (int64_t)i});
        sk_viewer_flow(&beside.w, &(struct sk_view_flow){.block = i, .task = i, .ns = (int64_t)i});
        if (i % 16 == 0) /* or the ring would go round while it is read */
            for (int k = 0; k < 200; k++) sk_cpu_relax();
    }
    return NULL;
}

TEST_LARGE(view_rings_are_whole_beside_a_writer_in_a_loop, 60) {
    struct sk_view_task *t = sk_calloc(SK_TAG_TEST, SK_VIEW_TASKS * sizeof *t);
    struct sk_view_flow *f = sk_calloc(SK_TAG_TEST, SK_VIEW_FLOWS * sizeof *f);
    struct sk_view_reader r;
    struct sk_err err;
    pthread_t thread;
    size_t n, seen = 0;
    CHECK_OK(sk_viewer_open(&beside.w, &about, &err));
    CHECK_OK_ERR(sk_view_open(path_of(&beside.w), &r, &err), &err);
    CHECK_EQ(pthread_create(&thread, NULL, write_tasks, NULL), 0);
    int64_t until = test_patience();
    for (int k = 0; k < test_rounds(60) && sk_now_ns() < until; k += n > 0) {
        CHECK_OK_ERR(sk_view_tasks(&r, t, &n, &err), &err);
        for (size_t i = 0; i < n; i++) {
            CHECK_EQ(t[i].id, t[0].id + i);
            CHECK(t[i].parent == t[i].id && t[i].end_ns == (int64_t)t[i].id);
        }
        seen += n;
        CHECK_OK_ERR(sk_view_flows(&r, f, &n, &err), &err);
        for (size_t i = 0; i < n; i++)
            CHECK(f[i].task == f[i].block && f[i].ns == (int64_t)f[i].block);
    }
    sk_store_rel(&beside.stop, true);
    pthread_join(thread, NULL);
    CHECK_GT(seen, 0);
    sk_view_close(&r);
    sk_viewer_close(&beside.w);
    sk_free(t);
    sk_free(f);
}

static void *write_runs(void *arg) {
    struct sk_view_run *run = arg;
    for (uint64_t k = 1; !sk_load_acq(&beside.stop); k++) {
        fill(run, k);
        sk_viewer_run(&beside.w, 0, run);
    }
    return NULL;
}

TEST_LARGE(view_is_whole_beside_a_writer_in_a_loop, 60) {
    struct sk_view_run *run = sk_calloc(SK_TAG_TEST, 2 * sizeof *run);
    struct sk_view_reader r;
    struct sk_err err;
    pthread_t thread;
    uint64_t last = 0, seen = 0;
    CHECK_OK(sk_viewer_open(&beside.w, &about, &err));
    CHECK_OK_ERR(sk_view_open(path_of(&beside.w), &r, &err), &err);
    CHECK_EQ(pthread_create(&thread, NULL, write_runs, &run[0]), 0);
    int64_t until = test_patience();
    while (seen < (uint64_t)test_rounds(300) && sk_now_ns() < until) {
        /* SK_EAGAIN: this writer writes without a pause, and was faster each time */
        sk_rc rc = sk_view_run(&r, 0, &run[1], &err);
        if (rc == SK_EAGAIN) continue;
        CHECK_OK_ERR(rc, &err);
        CHECK(whole(&run[1]));
        CHECK_GE(run[1].id, last);
        last = run[1].id;
        seen++;
    }
    sk_store_rel(&beside.stop, true);
    pthread_join(thread, NULL);
    CHECK_GT(seen, 0);
    sk_view_close(&r);
    sk_viewer_close(&beside.w);
    sk_free(run);
}

TEST_LARGE(view_is_whole_after_its_writer_was_killed, 60) {
    struct sk_view_run *run = sk_calloc(SK_TAG_TEST, sizeof *run);
    struct sk_view_reader r;
    struct sk_err err;
    for (int i = 0; i < test_rounds(20); i++) {
        struct sk_view_writer w;
        CHECK_OK(sk_viewer_open(&w, &about, &err));
        CHECK_OK_ERR(sk_view_open(path_of(&w), &r, &err), &err);
        int told[2];
        CHECK_EQ(pipe(told), 0);
        pid_t pid = fork();
        if (pid == 0) {
            for (uint64_t k = 1;; k++) {
                fill(run, k);
                sk_viewer_run(&w, 0, run);
                if (k == 3 && write(told[1], "x", 1) != 1) _exit(1);
            }
        }
        char x;
        CHECK_EQ(read(told[0], &x, 1), 1);
        for (uint64_t spin = test_below(20000); spin; spin--) sk_cpu_relax();
        CHECK_EQ(kill(pid, SIGKILL), 0);
        CHECK_EQ(waitpid(pid, NULL, 0), pid);
        CHECK_OK_ERR(sk_view_run(&r, 0, run, &err), &err);
        CHECK(whole(run));
        CHECK_GE(run->id, 3);
        sk_view_close(&r);
        sk_viewer_close(&w);
        (void)close(told[0]);
        (void)close(told[1]);
    }
    sk_free(run);
}

TEST(view_gives_back_nodes_and_their_workers) {
    struct sk_view_writer w;
    struct sk_view_reader r;
    struct sk_err err;
    struct sk_view_nodes nodes[2];
    struct sk_view_workers *workers = sk_calloc(SK_TAG_TEST, 2 * sizeof *workers);
    CHECK_OK(sk_viewer_open(&w, &about, &err));
    CHECK_OK_ERR(sk_view_open(path_of(&w), &r, &err), &err);
    CHECK_RC(sk_view_nodes(&r, &nodes[1], &err), SK_EAGAIN); /* on one machine there are none */
    CHECK_RC(sk_view_workers(&r, &workers[1], &err), SK_EAGAIN);
    const uint64_t counts[] = {0, 1, 7, SK_VIEW_NODES, 2};
    for (size_t i = 0; i < SK_COUNT(counts); i++) {
        memset(nodes, 0, sizeof nodes);
        nodes[0].n = counts[i];
        nodes[0].total = counts[i] + 3;
        workers[0].n = SK_MIN(counts[i] * 9, SK_VIEW_WORKERS);
        for (uint32_t k = 0; k < nodes[0].n; k++) {
            struct sk_view_node *x = &nodes[0].of[k];
            *x = (struct sk_view_node){.number = k + 1, .alive = k % 3, .load.done = 100 + k};
            (void)snprintf(x->name, sizeof x->name, "node-%u", k);
        }
        for (uint32_t k = 0; k < workers[0].n; k++)
            workers[0].of[k] = (struct sk_view_worker){.pid = (int)k + 1, .node = k % 7 + 1};
        sk_viewer_nodes(&w, &nodes[0]);
        sk_viewer_workers(&w, &workers[0]);
        CHECK_OK_ERR(sk_view_nodes(&r, &nodes[1], &err), &err);
        CHECK_OK_ERR(sk_view_workers(&r, &workers[1], &err), &err);
        CHECK_MEM_EQ(&nodes[0], &nodes[1],
                     offsetof(struct sk_view_nodes, of) + nodes[0].n * sizeof nodes[0].of[0]);
        CHECK_MEM_EQ(&workers[0], &workers[1],
                     offsetof(struct sk_view_workers, of) + workers[0].n * sizeof workers[0].of[0]);
    }
    sk_view_close(&r);
    sk_viewer_close(&w);
    sk_free(workers);
}

/* Writes a record with something in each part, and returns its bytes. */
static uint8_t *record(size_t *n) {
    struct sk_view_writer w;
    struct sk_err err;
    struct sk_view_run *run = sk_calloc(SK_TAG_TEST, sizeof *run);
    CHECK_OK(sk_viewer_open(&w, &about, &err));
    sk_viewer_counters(&w, &(struct sk_view_counters){.now_ns = 1});
    sk_viewer_error(&w, &(struct sk_view_error){.text = "x"});
    fill(run, 70);
    sk_viewer_run(&w, 0, run);
    fill(run, 71);
    sk_viewer_run(&w, 0, run);
    uint8_t *bytes = sk_memdup(SK_TAG_TEST, w.seg.base, w.seg.size);
    CHECK(bytes);
    *n = w.seg.size;
    sk_viewer_close(&w);
    sk_free(run);
    return bytes;
}

static const char *saved(const uint8_t *bytes, size_t n) {
    static char path[300];
    (void)snprintf(path, sizeof path, "%s/record", test_dir());
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    CHECK(fd >= 0);
    CHECK_EQ(pwrite(fd, bytes, n, 0), n);
    (void)close(fd);
    return path;
}

TEST(view_says_what_is_wrong_with_a_record) {
    size_t n;
    uint8_t *b = record(&n);
    struct sk_view_head *h = (struct sk_view_head *)(void *)b;
    struct sk_view_reader r;
    struct sk_err err;
    CHECK_RC(sk_view_open("/nonexistent/x", &r, &err), SK_EIO);
    CHECK_RC(sk_view_open(test_dir(), &r, &err), SK_ECORRUPT); /* a folder */
    CHECK_RC(sk_view_open(saved(b, 0), &r, &err), SK_ECORRUPT);
    CHECK_STR_HAS(err.msg, "not a record");
    CHECK_RC(sk_view_open(saved(b, 100), &r, &err), SK_ECORRUPT);
    CHECK_RC(sk_view_open(saved(b, n - 1), &r, &err), SK_ECORRUPT);
    CHECK_STR_HAS(err.msg, "damaged");
    h->version++;
    CHECK_RC(sk_view_open(saved(b, n), &r, &err), SK_EINVAL);
    CHECK_STR_HAS(err.msg, "made by a newer skate");
    h->version -= 2;
    CHECK_RC(sk_view_open(saved(b, n), &r, &err), SK_EINVAL);
    CHECK_STR_HAS(err.msg, "made by an older skate");
    h->version++;
    h->program[0] ^= 1;
    CHECK_RC(sk_view_open(saved(b, n), &r, &err), SK_ECORRUPT);
    h->program[0] ^= 1;
    CHECK_OK_ERR(sk_view_open(saved(b, n), &r, &err), &err);
    sk_view_close(&r);
    sk_free(b);
}

/* Reads all that there is; what is read must be in bounds, whatever the file says. */
static void read_all(const char *path, struct sk_view_run *run) {
    struct sk_view_reader r;
    struct sk_err err;
    struct sk_view_counters c;
    struct sk_view_error e;
    if (sk_view_open(path, &r, &err) != SK_OK) return;
    if (sk_view_counters(&r, &c, &err) == SK_OK) CHECK_LT(strlen(c.waits), sizeof c.waits);
    size_t n;
    static struct sk_view_history h;
    static char names[SK_VIEW_NAMES][SK_VIEW_NAME];
    if (sk_view_history(&r, &h, &err) == SK_OK) CHECK_LE(h.n, SK_VIEW_SAMPLES);
    if (sk_view_names(&r, names, &n, &err) == SK_OK) CHECK_LE(n, SK_VIEW_NAMES);
    for (uint32_t i = 0; i < SK_VIEW_ERRORS; i++)
        if (sk_view_error(&r, i, &e, &err) == SK_OK) CHECK_LT(strlen(e.text), sizeof e.text);
    for (uint32_t i = 0; i < SK_VIEW_RUNS; i++)
        if (sk_view_run(&r, i, run, &err) == SK_OK) {
            CHECK_LE(run->n_shown, SK_VIEW_OPS);
            CHECK_LE(run->n_samples, SK_VIEW_SAMPLES);
            for (uint32_t k = 0; k < run->n_shown; k++)
                CHECK_LE(run->ops[k].n_fused, SK_VIEW_FUSED);
        }
    sk_view_close(&r);
}

/* Changes the numbers of the copy that is valid, and makes its checksum right again: only the
 * checks of lengths and indexes are left. */
TEST_LARGE(view_of_lies_stays_within_bounds, 60) {
    size_t n;
    uint8_t *b = record(&n);
    struct sk_view_run *run = sk_calloc(SK_TAG_TEST, sizeof *run);
    uint64_t cell = sk_view_run_at(0), from = sk_cell_copy_at(cell, sizeof *run, 2);
    const char *path = saved(b, n);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    CHECK(fd >= 0);
    for (int i = 0; i < test_rounds(4000); i++) {
        struct sk_cell_copy copy;
        memcpy(&copy, b + from, sizeof copy);
        uint8_t *body = sk_memdup(SK_TAG_TEST, b + from + sizeof copy, copy.n);
        for (uint64_t k = 1 + test_below(3); k; k--) {
            /* the counts in the head of the run, or of its operators, or any word */
            uint64_t at = test_below(3) ? test_below(40) : test_below(copy.n / 4);
            uint32_t v = test_below(2) ? (uint32_t)test_rand() : (uint32_t)test_below(300);
            memcpy(body + 4 * at, &v, 4);
        }
        if (!test_below(4)) copy.n = (uint32_t)test_below(2 * copy.n);
        copy.crc =
            sk_crc32c(0, body, SK_MIN(copy.n, ((struct sk_cell_copy *)(void *)(b + from))->n));
        CHECK_EQ(pwrite(fd, &copy, sizeof copy, (off_t)from), sizeof copy);
        CHECK_EQ(pwrite(fd, body, SK_MIN(copy.n, ((struct sk_cell_copy *)(void *)(b + from))->n),
                        (off_t)(from + sizeof copy)),
                 SK_MIN(copy.n, ((struct sk_cell_copy *)(void *)(b + from))->n));
        sk_free(body);
        read_all(path, run);
    }
    (void)close(fd);
    sk_free(b);
    sk_free(run);
}

TEST(view_rings_that_lie_about_their_length_stay_within_bounds) {
    size_t size, n;
    uint8_t *b = record(&size);
    struct sk_view_task *t = sk_calloc(SK_TAG_TEST, SK_VIEW_TASKS * sizeof *t);
    struct sk_view_flow *f = sk_calloc(SK_TAG_TEST, SK_VIEW_FLOWS * sizeof *f);
    char (*names)[SK_VIEW_NAME] = sk_calloc(SK_TAG_TEST, SK_VIEW_NAMES * sizeof *names);
    const uint64_t lies[] = {1,          SK_VIEW_TASKS,  SK_VIEW_FLOWS + 3,
                             UINT32_MAX, UINT64_MAX - 1, UINT64_MAX};
    const char *path = saved(b, size);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    struct sk_view_reader r;
    struct sk_err err;
    for (size_t i = 0; i < SK_COUNT(lies); i++) {
        const uint64_t at[] = {sk_view_tasks_at(), sk_view_flows_at(), sk_view_names_at()};
        for (size_t k = 0; k < SK_COUNT(at); k++)
            CHECK_EQ(pwrite(fd, &lies[i], 8, (off_t)at[k]), 8);
        CHECK_OK_ERR(sk_view_open(path, &r, &err), &err);
        CHECK_OK(sk_view_tasks(&r, t, &n, &err));
        CHECK_LE(n, SK_VIEW_TASKS);
        CHECK_OK(sk_view_flows(&r, f, &n, &err));
        CHECK_EQ(n, 0); /* no entry is complete */
        CHECK_RC(sk_view_names(&r, names, &n, &err),
                 lies[i] <= SK_VIEW_NAMES ? SK_OK : SK_ECORRUPT);
        sk_view_close(&r);
    }
    (void)close(fd);
    sk_free(t);
    sk_free(f);
    sk_free(names);
    sk_free(b);
}

TEST(view_that_cannot_be_saved_leaves_the_old_record) {
    struct sk_view_writer w;
    struct sk_view_reader r;
    struct sk_err err;
    char path[300], missing[400];
    (void)snprintf(path, sizeof path, "%s/r", test_dir());
    (void)snprintf(missing, sizeof missing, "%s/no/r", test_dir());
    CHECK_OK(sk_viewer_open(&w, &about, &err));
    CHECK_OK_ERR(sk_view_save(w.seg.base, path, &err), &err);
    CHECK_RC(sk_view_save(w.seg.base, missing, &err), SK_EIO);
    CHECK_STR_HAS(err.msg, "No such file");
    sk_viewer_end(&w);
    CHECK_OK(sk_fault_set("view.write", SK_FAULT_FAIL, 1));
    CHECK_RC(sk_view_save(w.seg.base, path, &err), SK_ENOSPC);
    sk_fault_clear();
    CHECK_OK_ERR(sk_view_open(path, &r, &err), &err);
    CHECK_EQ(r.about.ended, 2); /* the old one, whole */
    sk_view_close(&r);
    CHECK_OK_ERR(sk_view_save(w.seg.base, path, &err), &err);
    CHECK_OK_ERR(sk_view_open(path, &r, &err), &err);
    CHECK_EQ(r.about.ended, 1); /* as the driver had noted */
    sk_view_close(&r);
    sk_viewer_close(&w);
}
