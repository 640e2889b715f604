/* test_api_data_stream.c - skate_from_stream: a run pulls a stream as far as it has room, on one
 * thread, in order; it ends or fails with it, and releases it once. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>

#include "api_help.h"
#include "base/fault.h"
#include "skate_data.h"

enum { STORE = 64 << 20, BATCH = 1 << 17 }; /* a batch: 2^17 numbers, 1 MiB */

/* ---- a stream that watches how it is used ---------------------------------------------------- */

static struct gen {
    int64_t batches, rows; /* rows of each batch; the batches after them are the end */
    int64_t fail_at;       /* the get_next that fails; -1: get_schema; INT64_MIN: none */
    int64_t stop_at;       /* the get_next that waits for `go` */
    bool nested;           /* each get_next runs another dataset */
    sem_t go, waits;
    _Atomic int64_t pulled, consumed, ahead; /* ahead: the most that were pulled and not consumed */
    _Atomic int released, inside, threads;
    pthread_t thread; /* of the first call */
} G;

static void enter(void) {
    CHECK_EQ(atomic_fetch_add(&G.inside, 1), 0); /* one call at a time */
    if (!G.threads) {
        G.thread = pthread_self();
        G.threads = 1;
    }
    G.threads += !pthread_equal(G.thread, pthread_self());
    CHECK_EQ(G.released, 0);
}

static int gen_schema(struct ArrowArrayStream *s, struct ArrowSchema *out) {
    struct skate_column c = {.name = "id"};
    struct ArrowArray a;
    enter();
    CHECK(s->private_data == &G);
    int rc = G.fail_at == -1 ? EIO : skate_batch_new(&c, 1, 0, out, &a) ? ENOMEM : 0;
    if (!rc) a.release(&a);
    G.inside--;
    return rc;
}

static int gen_next(struct ArrowArrayStream *s, struct ArrowArray *out) {
    struct skate_column c = {.name = "id"};
    struct ArrowSchema schema;
    enter();
    CHECK(s->private_data == &G);
    out->release = NULL;
    int64_t at = G.pulled;
    CHECK_LE(at, G.batches); /* not again behind the end */
    if (at == G.stop_at) {
        sem_post(&G.waits);
        while (sem_wait(&G.go) != 0);
    }
    if (G.nested) {
        int64_t n = 0;
        skate_dataset *inner = skate_map(skate_range(5, NULL, NULL), "st_same", NULL);
        OK(skate_count(inner, NULL, &n));
        skate_dataset_release(inner);
        CHECK_EQ(n, 5);
    }
    int rc = at == G.fail_at ? EIO : 0;
    if (!rc && at < G.batches) {
        rc = skate_batch_new(&c, 1, (size_t)G.rows, &schema, out) ? ENOMEM : 0;
        for (int64_t i = 0; !rc && i < G.rows; i++) ((int64_t *)c.data)[i] = at * G.rows + i;
        if (!rc) schema.release(&schema);
        int64_t ahead = at + 1 - G.consumed;
        if (ahead > G.ahead) G.ahead = ahead;
    }
    G.pulled++;
    G.inside--;
    return rc;
}

static const char *gen_error(struct ArrowArrayStream *s) { return s ? "the tape is torn" : NULL; }

static void gen_release(struct ArrowArrayStream *s) {
    CHECK_EQ(G.inside, 0);
    G.released++;
    s->release = NULL;
}

static skate_dataset *generated(int64_t batches, int64_t rows) {
    G = (struct gen){.batches = batches, .rows = rows, .fail_at = INT64_MIN, .stop_at = INT64_MIN};
    CHECK_EQ(sem_init(&G.go, 0, 0) + sem_init(&G.waits, 0, 0), 0);
    struct ArrowArrayStream s = {gen_schema, gen_next, gen_error, gen_release, &G};
    skate_dataset *ds = skate_from_stream(&s);
    CHECK(ds && !s.release);
    return ds;
}

/* ---- functions of batches -------------------------------------------------------------------- */

SKATE_BATCHES(st_same) { return skate_emit(t, schema, batch); }

/* Kills its worker at each of three rows, once: a file says that it was done. */
SKATE_BATCHES(st_dies) {
    struct skate_column in = {.name = "id"};
    char path[300];
    int rc = skate_columns(t, schema, batch, &in, 1);
    for (int64_t i = 0; !rc && i < batch->length; i++) {
        int64_t id = ((const int64_t *)in.data)[i];
        if (id != 0 && id != 777 && id != 5000) continue;
        snprintf(path, sizeof path, "%s/%lld", (const char *)skate_arg(t, NULL), (long long)id);
        int fd = open(path, O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        if (fd >= 0) raise(SIGKILL);
    }
    return rc ? rc : skate_emit(t, schema, batch);
}

/* ---- help ------------------------------------------------------------------------------------ */

static void open_engine(uint64_t store) {
    OK(skate_init(SKATE_WITH(struct skate_opts, .cpus = 2, .store_bytes = store)));
}

/* Takes batches in order until `rows` rows have come or the stream ends; returns their number. */
static int64_t take(struct ArrowArrayStream *out, int64_t from, int64_t rows) {
    struct ArrowArray a;
    int64_t n = from;
    while (n < rows) {
        int rc = out->get_next(out, &a);
        CHECK_MSG(rc == 0, "%s", out->get_last_error(out));
        if (!a.release) break;
        const int64_t *v = (const int64_t *)a.children[0]->buffers[1] + a.children[0]->offset;
        for (int64_t i = 0; i < a.length; i++) CHECK_EQ(v[i], n + i);
        n += a.length;
        a.release(&a);
        if (G.rows) G.consumed = n / G.rows;
    }
    return n;
}

/* Runs ds, whose rows are 0, 1, 2, ... */
static int64_t all(skate_dataset *ds) {
    struct ArrowArrayStream out;
    OK(skate_stream(ds, NULL, &out));
    int64_t n = take(&out, 0, INT64_MAX);
    out.release(&out);
    skate_dataset_release(ds);
    return n;
}

static void fails(skate_dataset *ds, int code, const char *text) {
    int64_t n;
    CHECK_EQ(skate_count(ds, NULL, &n), code);
    CHECK_STR_HAS(skate_error(), text);
}

/* ---- a stream of more than memory ------------------------------------------------------------ */

/* With a map and without one: what was pulled and not consumed is never more than the store. */
TEST_LARGE(a_stream_of_many_times_the_store, 120) {
    int64_t batches = test_sanitized() ? 200 : 1024;
    open_engine(STORE);
    for (int map = 0; map < 2; map++) {
        struct ArrowArrayStream out;
        struct skate_run_stats st = {.size = sizeof st};
        skate_dataset *ds = generated(batches, BATCH);
        if (map) ds = skate_map(ds, "st_same", NULL);
        OK(skate_stream(ds, NULL, &out));
        CHECK_EQ(take(&out, 0, INT64_MAX), batches * BATCH);
        OK(skate_stream_stats(&out, &st));
        out.release(&out);
        skate_dataset_release(ds);
        printf("# %s: %lld batches, %lld ahead at most, peak %llu of %llu MiB, %llu on disk\n",
               map ? "map" : "no map", (long long)batches, (long long)G.ahead,
               (unsigned long long)st.memory_peak >> 20, (unsigned long long)st.memory_limit >> 20,
               (unsigned long long)st.disk_bytes);
        CHECK_LE(G.ahead, map ? 64 : 20); /* without a map: a quarter of memory, and the next */
        CHECK(G.ahead > 1);               /* it is pulled ahead of the consumer */
        CHECK_LE(st.memory_peak, st.memory_limit);
        CHECK_EQ(G.threads, 1);
        CHECK(!pthread_equal(G.thread, pthread_self()));
        CHECK_EQ(G.released, 1);
    }
    skate_shutdown();
}

/* A consumer that stops taking stops the pulling: nothing is pulled while the last ask waits. */
TEST(a_consumer_that_waits) {
    struct ArrowArrayStream out;
    open_engine(STORE);
    skate_dataset *ds = generated(400, BATCH);
    G.stop_at = 9;
    OK(skate_stream(ds, NULL, &out));
    CHECK_EQ(take(&out, 0, 3 * BATCH), 3 * BATCH);
    while (sem_wait(&G.waits) != 0); /* six batches are ahead, and the next is asked for */
    sem_post(&G.go);
    CHECK_EQ(take(&out, 3 * BATCH, INT64_MAX), 400 * BATCH);
    CHECK_LE(G.ahead, 20);
    out.release(&out);
    CHECK_EQ(G.released, 1);
    skate_dataset_release(ds);
    CHECK_EQ(G.released, 1);
    skate_shutdown();
}

/* ---- a limit ends the pulling ---------------------------------------------------------------- */

TEST(a_limit_stops_the_pulling) {
    open_engine(STORE);
    CHECK_EQ(all(skate_limit(generated(10000, 100), 250)), 250);
    CHECK_EQ(G.pulled, 3); /* nothing is between the stream and the limit */
    CHECK_EQ(G.released, 1);
    CHECK_EQ(all(skate_limit(skate_map(generated(1000000, 100), "st_same", NULL), 250)), 250);
    CHECK(G.pulled < 1000000);
    CHECK_EQ(G.released, 1);
    CHECK_EQ(all(skate_limit(generated(10000, 100), 0)), 0);
    CHECK_LE(G.pulled, 1);
    CHECK_EQ(G.released, 1);
    skate_shutdown();
}

/* ---- errors ---------------------------------------------------------------------------------- */

TEST(an_error_at_any_batch) {
    open_engine(STORE);
    for (int64_t at = -1; at < 40; at = at < 2 ? at + 1 : 3 * at) {
        for (int map = 0; map < 2; map++) {
            skate_dataset *ds = generated(100, 1000);
            G.fail_at = at;
            if (map) ds = skate_map(ds, "st_same", NULL);
            fails(ds, SKATE_EIO,
                  at < 0 ? "Stream: the stream's get_schema failed: the tape is torn"
                         : "Stream: the stream's get_next failed: the tape is torn");
            CHECK_EQ(G.released, 1);
            fails(ds, SKATE_EINVAL, "Stream: an earlier run has read the stream");
            skate_dataset_release(ds);
            CHECK_EQ(G.released, 1);
        }
    }
    skate_shutdown();
}

/* The consumer gets the batches before the error, then the error, and again. */
TEST(an_error_behind_batches_that_came) {
    struct ArrowArrayStream out;
    struct ArrowArray a;
    open_engine(STORE);
    skate_dataset *ds = generated(100, BATCH);
    G.fail_at = 50; /* further than the run pulls ahead */
    OK(skate_stream(ds, NULL, &out));
    CHECK_EQ(take(&out, 0, 20 * BATCH), 20 * BATCH);
    int rc;
    while ((rc = out.get_next(&out, &a)) == 0 && a.release) a.release(&a);
    CHECK_EQ(rc, EIO);
    CHECK_STR_HAS(out.get_last_error(&out), "the tape is torn");
    CHECK_EQ(out.get_next(&out, &a), EIO);
    out.release(&out);
    CHECK_EQ(G.released, 1);
    skate_dataset_release(ds);
    skate_shutdown();
}

/* ---- runs that end early, and runs that never begin ------------------------------------------ */

TEST(a_run_that_is_released_early) {
    open_engine(STORE);
    for (int64_t batches = 0; batches < 40; batches += 13) {
        struct ArrowArrayStream out;
        skate_dataset *ds = skate_map(generated(1000000, 1000), "st_same", NULL);
        OK(skate_stream(ds, NULL, &out));
        CHECK_EQ(take(&out, 0, batches * 1000), batches * 1000);
        out.release(&out);
        CHECK_EQ(G.released, 1);
        CHECK(G.pulled < 1000000);
        skate_dataset_release(ds);
        CHECK_EQ(G.released, 1);
    }
    skate_shutdown();
}

TEST(a_run_that_does_not_begin_leaves_the_stream) {
    int64_t n;
    open_engine(STORE);
    skate_dataset *ds = generated(10, 1000);
    char *plan = skate_explain(ds, NULL);
    CHECK_STR_HAS(plan, "Stream");
    free(plan);
    CHECK_EQ(skate_count(ds, SKATE_WITH(struct skate_run_opts, .policy = "none such"), &n),
             SKATE_EINVAL);
    skate_dataset *twice[] = {skate_dataset_retain(ds), skate_dataset_retain(ds)};
    skate_dataset *both = skate_union(twice, 2);
    CHECK_EQ(skate_count(both, NULL, &n), SKATE_EINVAL);
    CHECK_STR_HAS(skate_error(), "Stream is used twice, and can be read only once");
    skate_dataset_release(both);
    CHECK_EQ(G.pulled + G.released, 0);
    CHECK_RC(sk_fault_set("feed.thread", SK_FAULT_FAIL, 1), SK_OK);
    CHECK_EQ(skate_count(ds, NULL, &n), SKATE_EIO);
    CHECK_STR_HAS(skate_error(), "Stream: starting a thread that reads the stream");
    sk_fault_clear();
    CHECK_EQ(all(ds), 10000);
    CHECK_EQ(G.released, 1);
    skate_dataset_release(generated(10, 1000)); /* never run at all */
    CHECK_EQ(G.pulled, 0);
    CHECK_EQ(G.released, 1);
    skate_shutdown();
}

/* skate_shutdown does not wait for the stream; the release of the run does. */
TEST(a_shutdown_while_the_stream_takes_its_time) {
    struct ArrowArrayStream out;
    struct ArrowArray a;
    open_engine(STORE);
    skate_dataset *ds = generated(10, 1000);
    G.stop_at = 4;
    OK(skate_stream(ds, NULL, &out));
    CHECK_EQ(take(&out, 0, 3000), 3000);
    while (sem_wait(&G.waits) != 0);
    skate_shutdown();
    CHECK_EQ(out.get_next(&out, &a), ECANCELED);
    CHECK_EQ(G.released, 0);
    sem_post(&G.go);
    out.release(&out);
    CHECK_EQ(G.released, 1);
    skate_dataset_release(ds);
}

/* A consumer that keeps all batches fills the store: the run ends with an error, or has its blocks
 * elsewhere, and does not hang; and it can be released. */
TEST(a_consumer_that_keeps_everything) {
    for (int spills = 0; spills < 2; spills++) {
        struct ArrowArrayStream out;
        struct ArrowArray kept[64];
        char dir[300];
        snprintf(dir, sizeof dir, "%s/spill", test_dir());
        OK(skate_init(SKATE_WITH(struct skate_opts, .cpus = 2, .store_bytes = 16 << 20,
                                 .spill_dir = spills ? dir : NULL)));
        skate_dataset *ds = generated(64, BATCH);
        OK(skate_stream(ds, NULL, &out));
        int n = 0, rc = 0;
        while (n < 64 && (rc = out.get_next(&out, &kept[n])) == 0 && kept[n].release) n++;
        if (rc) CHECK_STR_HAS(out.get_last_error(&out), "Stream: ");
        CHECK(n >= 10 && (rc == 0 || rc == ENOMEM));
        out.release(&out);
        CHECK_EQ(G.released, 1);
        printf("# %s: %d batches kept, then %d\n", spills ? "spills" : "stays", n, rc);
        for (int i = 0; i < n; i++) {
            const struct ArrowArray *c = kept[i].children[0];
            CHECK_EQ(((const int64_t *)c->buffers[1])[c->offset], (int64_t)i * BATCH);
            kept[i].release(&kept[i]);
        }
        skate_dataset_release(ds);
        skate_shutdown();
    }
}

/* Threads that wait for a batch: of the run itself, and of a run that pulls its stream. */
static void *next_batch(void *stream) {
    struct ArrowArrayStream *s = stream;
    struct ArrowArray a;
    CHECK_EQ(s->get_next(s, &a), ECANCELED);
    CHECK_STR_EQ(s->get_last_error(s), "skate was shut down");
    return NULL;
}

TEST(a_shutdown_while_batches_are_waited_for) {
    for (int nested = 0; nested < 3; nested++) {
        struct ArrowArrayStream out;
        pthread_t th;
        open_engine(STORE);
        skate_dataset *ds = generated(10, 1000);
        G.stop_at = 0;
        for (int i = 0; i <= nested; i++) {
            ds = skate_map(ds, "st_same", NULL);
            OK(skate_stream(ds, NULL, &out));
            skate_dataset_release(ds);
            if (i < nested) ds = skate_from_stream(&out);
        }
        CHECK_EQ(pthread_create(&th, NULL, next_batch, &out), 0);
        while (sem_wait(&G.waits) != 0);
        skate_shutdown();
        pthread_join(th, NULL);
        CHECK_EQ(G.released, 0);
        sem_post(&G.go);
        out.release(&out);
        CHECK_EQ(G.released, 1);
    }
}

/* ---- with other operators -------------------------------------------------------------------- */

TEST(workers_that_die) {
    char dir[200];
    open_engine(STORE);
    snprintf(dir, sizeof dir, "%s", test_dir());
    struct skate_map_opts m = SKATE_OPTS(struct skate_map_opts);
    m.arg = dir;
    m.arg_size = strlen(dir) + 1;
    CHECK_EQ(all(skate_map(generated(100, 100), "st_dies", &m)), 10000);
    CHECK_EQ(G.pulled, 101); /* no batch is pulled again */
    for (int i = 0; i < 3; i++) {
        static const int rows[] = {0, 777, 5000};
        char path[300];
        snprintf(path, sizeof path, "%s/%d", dir, rows[i]);
        CHECK_EQ(unlink(path), 0); /* the worker was killed there */
    }
    skate_shutdown();
}

TEST(a_stream_beside_other_sources) {
    int64_t n;
    open_engine(STORE);
    skate_dataset *in[2] = {generated(20, 100), skate_range(5000, "id", NULL)};
    OK(skate_count(in[0] = skate_union(in, 2), NULL, &n));
    CHECK_EQ(n, 7000);
    skate_dataset_release(in[0]);
    in[0] = skate_zip(generated(50, 100), skate_range(5000, "other", NULL));
    CHECK_EQ(all(in[0]), 5000);
    in[0] = skate_sort(generated(50, 100), (struct skate_key[]){{"id", false, false}}, 1, NULL);
    CHECK_EQ(all(in[0]), 5000);
    CHECK_EQ(all(generated(0, 100)), 0);
    CHECK_EQ(all(generated(5, 0)), 0); /* batches without rows */
    CHECK_EQ(G.released, 1);
    skate_shutdown();
}

/* A stream runs datasets itself, in the engine of the thread that began the run. A stream of an
 * engine goes into a run of another one, and fails when the first is closed. */
TEST(streams_of_two_engines) {
    skate_engine *e[2];
    struct ArrowArrayStream out;
    struct ArrowArray a;
    int64_t n;
    for (int i = 0; i < 2; i++)
        CHECK(e[i] = skate_engine_open(
                  SKATE_WITH(struct skate_opts, .cpus = 2, .store_bytes = STORE)));
    skate_use(e[1]); /* there is no engine of skate_init */
    skate_dataset *ds = generated(30, 100);
    G.nested = true;
    CHECK_EQ(all(skate_map(ds, "st_same", NULL)), 3000);
    skate_use(e[0]);
    ds = skate_map(generated(1000000, 100), "st_same", NULL);
    OK(skate_stream(ds, NULL, &out));
    skate_dataset_release(ds);
    skate_use(e[1]);
    ds = skate_from_stream(&out);
    OK(skate_stream(ds, NULL, &out));
    CHECK_EQ(take(&out, 0, 5000), 5000);
    skate_engine_close(e[0]);
    int rc;
    while ((rc = out.get_next(&out, &a)) == 0 && a.release) a.release(&a);
    CHECK(rc != 0);
    CHECK_STR_HAS(out.get_last_error(&out), "Stream: the stream's get_next failed: ");
    CHECK_STR_HAS(out.get_last_error(&out), "shut down"); /* as a run, or the engine, says it */
    out.release(&out);
    skate_dataset_release(ds);
    CHECK_EQ(G.released, 1);
    OK(skate_count(ds = skate_range(100, NULL, NULL), NULL, &n));
    CHECK_EQ(n, 100);
    skate_dataset_release(ds);
    skate_engine_close(e[1]);
}

/* A stream of a run is the source of another run, and so on: four threads pull from each other. */
TEST(streams_of_streams) {
    open_engine(STORE);
    skate_dataset *ds = generated(200, 1000);
    for (int i = 0; i < 4; i++) {
        struct ArrowArrayStream out;
        ds = skate_map(ds, "st_same", NULL);
        OK(skate_stream(ds, NULL, &out));
        skate_dataset_release(ds);
        ds = skate_from_stream(&out);
    }
    CHECK_EQ(all(skate_limit(skate_dataset_retain(ds), 150000)), 150000);
    skate_dataset_release(ds);
    CHECK_EQ(G.released, 1);
    skate_shutdown();
}
