/* test_api_data_watch.c - skate_watch: a run tells how far it is, in the thread that waits for it.
 */
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>

#include "api_help.h"
#include "skate_data.h"

SKATE_BATCHES(wt_same) { return skate_emit(t, schema, batch); }
SKATE_BATCHES(wt_report) {
    (void)schema, (void)batch;
    return skate_report(t, "r", 1);
}
SKATE_BATCHES(wt_fails) {
    (void)schema, (void)batch;
    return skate_fail(t, "no");
}

static struct seen {
    int calls, after; /* after: of calls, the one that lets the stream go on; 0: none */
    int estimates;    /* calls with a share between 0 and 1 */
    struct skate_progress last;
    pthread_t thread;
    sem_t go;
} S;

static void progress(void *ctx, const struct skate_progress *p) {
    struct seen *s = ctx;
    CHECK_EQ(p->size, sizeof *p);
    CHECK(pthread_equal(pthread_self(), s->thread));
    CHECK(p->tasks_done + p->tasks_running <= p->tasks_total);
    CHECK(p->wall_ns >= s->last.wall_ns && p->rows_in >= s->last.rows_in &&
          p->rows_out >= s->last.rows_out && p->tasks_done >= s->last.tasks_done);
    CHECK_GT(p->memory_limit, 0);
    CHECK_LE(p->memory_used, p->memory_limit);
    CHECK(!s->last.done);
    /* either nothing is known, or there is a share and a time */
    CHECK(p->left_ns >= 0 ? p->share >= 0 && p->share <= 1 : p->share == 0 && p->left_ns == -1);
    if (p->share > 0 && p->share < 1) s->estimates++;
    s->last = *p;
    if (++s->calls == s->after) sem_post(&s->go);
}

static skate_dataset *watched(skate_dataset *ds, int64_t every_ms, int after) {
    S = (struct seen){.after = after, .thread = pthread_self()};
    CHECK_EQ(sem_init(&S.go, 0, 0), 0);
    return skate_watch(ds, SKATE_WITH(struct skate_watch, progress, &S, every_ms));
}

static void open_engine(void) {
    OK(skate_init(SKATE_WITH(struct skate_opts, .cpus = 2, .store_bytes = 64 << 20)));
}

/* A stream of 10 batches of 100 rows. Before the sixth it waits until the watch was called often
 * enough, which happens while the consumer waits. */
static int n_given;
static int ten_schema(struct ArrowArrayStream *s, struct ArrowSchema *out) {
    struct skate_column c = {.name = "id"};
    struct ArrowArray a;
    (void)s;
    int rc = skate_batch_new(&c, 1, 0, out, &a);
    if (!rc) a.release(&a);
    return rc ? ENOMEM : 0;
}
static int ten_next(struct ArrowArrayStream *s, struct ArrowArray *out) {
    struct skate_column c = {.name = "id"};
    struct ArrowSchema schema;
    (void)s;
    out->release = NULL;
    if (n_given == 5)
        while (sem_wait(&S.go) != 0);
    if (n_given++ == 10) return 0;
    if (skate_batch_new(&c, 1, 100, &schema, out)) return ENOMEM;
    schema.release(&schema);
    return 0;
}
static void ten_release(struct ArrowArrayStream *s) { s->release = NULL; }
static skate_dataset *ten(void) {
    struct ArrowArrayStream s = {ten_schema, ten_next, NULL, ten_release, NULL};
    n_given = 0;
    return skate_from_stream(&s);
}

TEST(a_watch_is_called_while_the_consumer_waits) {
    int64_t n = 0;
    open_engine();
    skate_dataset *ds = watched(skate_map(ten(), "wt_same", NULL), 1, 7);
    OK(skate_count(ds, NULL, &n));
    CHECK_EQ(n, 1000);
    CHECK(S.calls >= 8);
    CHECK(S.last.done && S.last.rows_in == 1000 && S.last.rows_out == 1000);
    CHECK(S.last.bytes_in >= 8000 && S.last.bytes_out >= 8000);
    CHECK(S.last.tasks_total == S.last.tasks_done && !S.last.tasks_running);
    CHECK_EQ(S.last.memory_used + S.last.disk_bytes, 0);
    CHECK(S.last.share == 1 && S.last.left_ns == 0 && !S.last.left_guess);
    skate_dataset_release(ds);
    skate_shutdown();
}

/* The store holds a fifth of the blocks, so tasks end while others wait for the consumer. */
TEST(a_watch_is_told_the_time_that_is_left) {
    int64_t n = 0;
    open_engine();
    skate_dataset *ds =
        watched(skate_map(skate_range(40 << 20, NULL, NULL), "wt_same", NULL), 1, 0);
    OK(skate_count(ds, NULL, &n));
    CHECK_EQ(n, 40 << 20);
    CHECK_GT(S.estimates, 0);
    CHECK(S.last.share == 1 && S.last.left_ns == 0 && !S.last.left_guess);
    skate_dataset_release(ds);
    skate_shutdown();
}

TEST(a_watch_that_is_never_due_is_called_at_the_end) {
    struct ArrowArrayStream out;
    struct ArrowArray a;
    int64_t n = 0, hour = 3600 * 1000;
    open_engine();
    skate_dataset *ds =
        watched(skate_map(skate_range(100000, NULL, NULL), "wt_same", NULL), hour, 0);
    ds = skate_limit(ds, 50000); /* what is made of it is watched, too */
    OK(skate_stream(ds, NULL, &out));
    while (out.get_next(&out, &a) == 0 && a.release) {
        CHECK(!S.calls);
        n += a.length;
        a.release(&a);
    }
    CHECK_EQ(n, 50000);
    CHECK_EQ(S.calls, 1);
    CHECK(S.last.done && S.last.rows_out == 50000 && S.last.rows_in <= 100000);
    CHECK_EQ(out.get_next(&out, &a), 0); /* behind the end it is silent */
    CHECK_EQ(S.calls, 1);
    out.release(&out);
    skate_dataset_release(ds);
    ds = skate_map(watched(skate_range(10, NULL, NULL), hour, 0), "wt_fails", NULL);
    CHECK_EQ(skate_count(ds, NULL, &n), SKATE_ETASK);
    CHECK_EQ(S.calls, 1); /* a failure is an end, too */
    CHECK(!S.last.done);
    skate_dataset_release(ds);
    skate_shutdown();
}

TEST(a_write_is_watched) {
    open_engine();
    struct skate_sink sink = {.size = sizeof sink, .write = "wt_report"};
    skate_dataset *ds = watched(skate_range(1000000, NULL, NULL), 0, 0);
    OK(skate_write(ds, &sink, NULL, NULL));
    CHECK(S.last.done && S.last.rows_in == 1000000 && S.last.rows_out > 0);
    skate_dataset_release(ds);
    skate_shutdown();
}

TEST(of_several_watches_the_last_counts) {
    int64_t n;
    struct seen inner = {.thread = pthread_self()};
    open_engine();
    struct skate_map_opts half = SKATE_OPTS(struct skate_map_opts);
    half.cpus = 0.5;
    skate_dataset *ds = skate_map(skate_range(1000, NULL, &half), "wt_same", &half);
    ds = skate_watch(ds, SKATE_WITH(struct skate_watch, progress, &inner, 0));
    ds = skate_sort(ds, (struct skate_key[]){{"id", false, false}}, 1, NULL);
    char *plan = skate_explain(ds, NULL);
    CHECK_STR_HAS(plan, "Range(1000)->Map(wt_same)->SortMap(id)"); /* it changes no plan */
    free(plan);
    ds = watched(ds, 0, 0);
    OK(skate_count(ds, NULL, &n));
    CHECK_EQ(n, 1000);
    CHECK(S.calls >= 1 && !inner.calls);
    skate_dataset_release(ds);
    CHECK(!watched(NULL, 0, 0));
    CHECK(!watched(skate_range(1, NULL, NULL), -1, 0));
    CHECK_STR_HAS(skate_error(), "watch: a function is needed");
    CHECK(!skate_watch(skate_range(1, NULL, NULL), NULL));
    struct skate_watch w = {.size = 3, .progress = progress};
    CHECK(!skate_watch(skate_range(1, NULL, NULL), &w));
    CHECK_STR_HAS(skate_error(), "begin with size 3");
    skate_shutdown();
}
