/* skate_data.h - streaming batch pipelines from C: datasets of Arrow record batches, on the engine
 * of skate.h.
 *
 *     SKATE_BATCHES(halve) {                                // runs in worker processes
 *         struct skate_column c = {.name = "x"};
 *         int rc = skate_columns_of(t, schema, batch, &c, 1); // c.data: the values
 *         double *x = c.data;
 *         for (int64_t i = 0; rc == 0 && i < batch->length; i++) x[i] /= 2;
 *         ...
 *     }
 *     int main(int argc, char **argv) {
 *         struct ArrowArrayStream out;
 *         struct ArrowArray a;
 *         if (skate_worker_main(argc, argv)) return 0;
 *         if (skate_init(NULL)) return puts(skate_error()), 1;
 *         skate_dataset *ds = skate_map(skate_range(1000000, "id", NULL), "halve", NULL);
 *         ds = skate_sort(ds, (struct skate_key[]){{"half", true, false}}, 1, NULL);
 *         if (skate_stream(ds, NULL, &out)) return puts(skate_error()), 1;
 *         while (out.get_next(&out, &a) == 0 && a.release) {
 *             printf("%lld rows\n", (long long)a.length);
 *             a.release(&a);
 *         }
 *         out.release(&out);
 *         skate_dataset_release(ds);
 *         skate_shutdown();
 *     }
 *
 * A dataset is a plan: nothing runs until it is consumed, and each consumption runs it anew. Rows
 * keep their order through every operator but those that say otherwise, and the result of a run
 * does not depend on workers, on memory or on timing.
 *
 * Lifetimes. Each operator takes over the caller's reference to its inputs, also when it fails, so
 * a chain of calls needs no release but that of the last dataset. To use a dataset twice, take a
 * reference with skate_dataset_retain. A failed operator returns NULL, and an operator that is
 * given NULL returns NULL and leaves skate_error() as it is: one check at the end of a chain is
 * enough. Texts, keys and options are copied by the call.
 *
 * Batches are structs of the Arrow C Data Interface: a struct array (format "+s") with a column a
 * child. Whoever gets a struct with a release callback owns it.
 *
 * Options are as in skate.h: each struct begins with its size.
 *
 * Threads: a dataset may be used by any thread, one at a time; a stream belongs to one thread at a
 * time. A dataset runs in the engine of the thread (skate_init, skate_use); batches that were given
 * as arrays or as a stream stay in the engine that has taken them. SKATE_ECLOSED after the engine
 * was closed. */
#ifndef SKATE_DATA_H
#define SKATE_DATA_H

#include "skate.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The Arrow C Data and C Stream Interfaces, as specified by Apache Arrow. */
#ifndef ARROW_C_DATA_INTERFACE
#define ARROW_C_DATA_INTERFACE
#define ARROW_FLAG_DICTIONARY_ORDERED 1
#define ARROW_FLAG_NULLABLE 2
#define ARROW_FLAG_MAP_KEYS_SORTED 4
struct ArrowSchema {
    const char *format, *name, *metadata;
    int64_t flags, n_children;
    struct ArrowSchema **children, *dictionary;
    void (*release)(struct ArrowSchema *);
    void *private_data;
};
struct ArrowArray {
    int64_t length, null_count, offset, n_buffers, n_children;
    const void **buffers;
    struct ArrowArray **children, *dictionary;
    void (*release)(struct ArrowArray *);
    void *private_data;
};
#endif
#ifndef ARROW_C_STREAM_INTERFACE
#define ARROW_C_STREAM_INTERFACE
struct ArrowArrayStream {
    int (*get_schema)(struct ArrowArrayStream *, struct ArrowSchema *out);
    int (*get_next)(struct ArrowArrayStream *, struct ArrowArray *out);
    const char *(*get_last_error)(struct ArrowArrayStream *);
    void (*release)(struct ArrowArrayStream *);
    void *private_data;
};
#endif

/* A dataset, with a count of its references. */
typedef struct skate_dataset skate_dataset;
SKATE_API skate_dataset *skate_dataset_retain(skate_dataset *ds); /* returns ds; NULL is fine */
SKATE_API void skate_dataset_release(skate_dataset *ds);          /* NULL is fine */

/* ---- functions of batches -------------------------------------------------------------------- */

/* A function of batches. `schema` and `batch` are skate's: the function may read them until it
 * returns, write into the buffers of no batch but its own, and move the batch (or children of it)
 * into what it emits; skate releases what is left. It emits any number of batches by skate_emit.
 * Returns 0 or a negative code; skate_fail sets the message. */
typedef int (*skate_batch_fn)(struct skate_task *t, const struct ArrowSchema *schema,
                              struct ArrowArray *batch);
/* Functions of batches with a state; all but `batch` may be NULL. */
struct skate_batch_fns {
    size_t size;
    skate_batch_fn batch;
    /* A state that is made once in each process of a pool of actors, such as a model: init sets it,
     * skate_state returns it, fini frees it. */
    int (*init)(struct skate_task *t, void **state);
    void (*fini)(void *state);
    /* A state of one task: begin sets it before the task's batches, skate_task_state returns it.
     * end is called behind the last batch and may emit. drop frees it, also after a failure. */
    int (*begin)(struct skate_task *t, void **task_state);
    int (*end)(struct skate_task *t);
    void (*drop)(void *task_state);
};
/* Registers functions of batches under a name, as skate_register does for tasks, whose names are
 * others. `name` and *f must stay valid. */
SKATE_API int skate_register_batches(const char *name, const struct skate_batch_fns *f);
/* Defines a function of batches and registers it under its own name. */
#define SKATE_BATCHES(name)                                                        \
    static int name(struct skate_task *t, const struct ArrowSchema *schema,        \
                    struct ArrowArray *batch);                                     \
    __attribute__((constructor)) static void skate_register_batches_##name(void) { \
        static const struct skate_batch_fns f = {sizeof f, name, 0, 0, 0, 0, 0};   \
        (void)skate_register_batches(#name, &f);                                   \
    }                                                                              \
    static int name(__attribute__((unused)) struct skate_task *t,                  \
                    __attribute__((unused)) const struct ArrowSchema *schema,      \
                    __attribute__((unused)) struct ArrowArray *batch)

/* Inside functions of batches and of sources. */
/* Emits a batch. Takes *batch over (batch->release is NULL afterwards, also after a failure);
 * copies the schema. All batches of an operator should have one schema. SKATE_EINVAL: the batch
 * does not fit the schema, or its offsets or indices lie. SKATE_ECANCEL: no more rows are needed;
 * return it at once. A failure stays: the function's later calls return it again, and the operator
 * fails with it. */
SKATE_API int skate_emit(struct skate_task *t, const struct ArrowSchema *schema,
                         struct ArrowArray *batch);
/* The bytes that the driver gave as skate_map_opts.arg; of a source: the unit. NULL: none. */
SKATE_API const void *skate_arg(const struct skate_task *t, size_t *size);
/* The state that `init` of skate_batch_fns has set in this process; NULL: none. */
SKATE_API void *skate_state(const struct skate_task *t);
/* The state that `begin` of skate_batch_fns has set for this task; NULL: none. */
SKATE_API void *skate_task_state(const struct skate_task *t);

/* Columns of numbers without nulls, for functions that want plain arrays. */
struct skate_column {
    const char *name;
    /* Arrow format of a fixed-width number: "c" int8, "C" uint8, "s", "S" 16 bits, "i", "I" 32
     * bits, "l", "L" 64 bits, "f" float, "g" double. NULL: int64 */
    const char *format;
    void *data; /* the values; set by the call */
};
/* Finds the values of columns. SKATE_EINVAL, naming the column: it does not exist, has another
 * format, or has nulls. The values are read-only. */
SKATE_API int skate_columns(struct skate_task *t, const struct ArrowSchema *schema,
                            const struct ArrowArray *batch, struct skate_column *columns, size_t n);
/* Makes a batch of `rows` rows whose columns the caller fills in place (columns[i].data), then
 * emits. SKATE_ENOMEM. */
SKATE_API int skate_batch_new(struct skate_column *columns, size_t n, size_t rows,
                              struct ArrowSchema *schema, struct ArrowArray *batch);

/* ---- sources --------------------------------------------------------------------------------- */

/* What an operator's tasks take, and what they do about failures. */
struct skate_map_opts {
    size_t size;
    const void *arg; /* bytes for the function (skate_arg), copied */
    size_t arg_size;
    /* CPUs of a task: 0 means 1; below 0 means none. gpus and resources as in skate_call_opts. */
    double cpus, gpus;
    const struct skate_resource *resources; /* copied */
    size_t n_resources;
    /* Size of a pool of actors, which keep their state between batches; 0: tasks, which have no
     * state (a function with init always has a pool; then 0 means 1). actors_max: the most that it
     * grows to; 0: actors. */
    uint32_t actors, actors_max;
    uint32_t concurrency; /* the most tasks at a time; 0: no limit */
    /* The function gets batches of this number of rows, the last one of a task fewer; 0: as they
     * are. */
    int64_t batch_rows;
    /* What a failure of the function does. SKATE_RAISE: the run fails. SKATE_SKIP: the batch is
     * tried again row by row, and rows that fail are left out. SKATE_QUARANTINE: so are they, and
     * they are given by skate_stream_dead with their error. */
    int on_error;
    int32_t max_retries; /* after the death of a worker; as in skate_call_opts */
};
enum skate_on_error { SKATE_RAISE = 0, SKATE_SKIP = 1, SKATE_QUARANTINE = 2 };

struct skate_unit {
    const void *data; /* what the source's function reads; copied */
    size_t bytes;
    int64_t rows, size; /* estimates of what the unit gives; -1: unknown */
};
/* A source whose units are read by tasks of their own: calls the task function `name` (SKATE_TASK)
 * for each unit; it gets the unit by skate_arg and emits batches by skate_emit. */
SKATE_API skate_dataset *skate_source(const char *name, const struct skate_unit *units, size_t n,
                                      const struct skate_map_opts *o);
/* The numbers 0 to n - 1 in an int64 column. column NULL: "id". */
SKATE_API skate_dataset *skate_range(int64_t n, const char *column, const struct skate_map_opts *o);
/* The batches of a stream, which the call takes over. A run pulls it batch by batch, in order, as
 * far as the run's memory and what takes the batches have room; a limit behind it ends the pulling.
 * An error of the stream fails the run, with its message. It can be read only once: a second run
 * that needs it, and a plan that uses it twice, fail with SKATE_EINVAL. To read batches several
 * times, put them into the store (skate_from_arrays).
 *
 * Thread: the run has one for each stream, which calls get_schema, get_next and get_last_error in
 * this process, and uses the engine of the thread that began the run. A call may wait, and may run
 * other datasets, but must not end its own run, nor the engine.
 *
 * Release: by that thread once the stream has ended or failed, else with the run. skate_count,
 * skate_write and the release of a run's stream wait for a call that is under way, and nothing
 * calls the stream afterwards. skate_shutdown does not wait for it. */
SKATE_API skate_dataset *skate_from_stream(struct ArrowArrayStream *stream);
/* Batches of one schema. Takes all arrays over; copies the schema. */
SKATE_API skate_dataset *skate_from_arrays(const struct ArrowSchema *schema,
                                           struct ArrowArray *batches, size_t n);
/* Files of fixed-width records, as rows of one column of format "w:<width>" (column NULL:
 * "record"). SKATE_EIO, SKATE_EINVAL: a file cannot be read, or is not whole records. */
SKATE_API skate_dataset *skate_read_records(const char *const *paths, size_t n, size_t width,
                                            const char *column, const struct skate_map_opts *o);

/* ---- operators ------------------------------------------------------------------------------- */

/* Calls a function of batches for each batch. */
SKATE_API skate_dataset *skate_map(skate_dataset *ds, const char *name,
                                   const struct skate_map_opts *o);
/* Keeps the rows for which the condition holds: the function of batches `name` emits nothing and
 * sets keep[i] (skate_keep) to 1 or 0 for each row; rows are kept by default. on_error and
 * batch_rows of the options have to be 0. */
SKATE_API skate_dataset *skate_filter(skate_dataset *ds, const char *name,
                                      const struct skate_map_opts *o);
SKATE_API uint8_t *skate_keep(struct skate_task *t);
/* Keeps these columns, in this order. as: their new names; NULL: the same. */
SKATE_API skate_dataset *skate_select(skate_dataset *ds, const char *const *names,
                                      const char *const *as, size_t n);
/* The first rows. */
SKATE_API skate_dataset *skate_limit(skate_dataset *ds, int64_t rows);
/* The rows of all datasets, one after another. */
SKATE_API skate_dataset *skate_union(skate_dataset *const *ds, size_t n);
/* The columns of both, side by side; both need the same number of rows. A name of the right side
 * that is taken gets the suffix _1. */
SKATE_API skate_dataset *skate_zip(skate_dataset *left, skate_dataset *right);

struct skate_key {
    const char *column;
    bool descending, nulls_first;
};
struct skate_exchange_opts { /* sort, groupby, join, distinct, random_shuffle, repartition */
    size_t size;
    const char *strategy; /* of the exchange; NULL: "auto" (docs/design/exchange.md) */
    uint32_t partitions;  /* number of blocks; 0: chosen by the size of the data */
};
/* Exchanges, and zip, take batches whose schemas differ in which columns may have nulls and in the
 * metadata of the schema: behind them all columns may have nulls, and there is no such metadata.
 * Other differences are SKATE_EINVAL with both schemas, before the run if they are known then (of
 * arrays and streams). */
SKATE_API skate_dataset *skate_sort(skate_dataset *ds, const struct skate_key *keys, size_t n,
                                    const struct skate_exchange_opts *o);
struct skate_agg {
    /* "count", "sum", "min", "max", "mean", "std", "var", "abs_max", "missing_pct", "zero_pct",
     * "list", "first", "unique", "count_distinct", "value_counter", "quantile", "approx_quantile",
     * "approx_topk" */
    const char *kind;
    const char *column; /* NULL: "count" counts rows */
    const char *as;     /* name of the result; NULL: "kind(column)" */
    bool keep_nulls;    /* a null makes the result null; false: nulls are left out */
    int32_t ddof;       /* of "std" and "var" */
    /* of "quantile" and "approx_quantile": which one, from 0 to 1; of "approx_topk": how many of
     * the most frequent values */
    double q;
};
/* One row for each group, in the order of the keys: the keys, then the aggregates. Without keys:
 * one row. */
SKATE_API skate_dataset *skate_groupby(skate_dataset *ds, const char *const *keys, size_t n_keys,
                                       const struct skate_agg *aggs, size_t n_aggs,
                                       const struct skate_exchange_opts *o);
/* Calls a function of batches for each group of rows of equal keys: one batch a group, in the order
 * of the keys. */
SKATE_API skate_dataset *skate_map_groups(skate_dataset *ds, const char *const *keys, size_t n_keys,
                                          const char *name, const struct skate_map_opts *m,
                                          const struct skate_exchange_opts *o);
/* The first row of each key, in the order of the keys. */
SKATE_API skate_dataset *skate_distinct(skate_dataset *ds, const char *const *keys, size_t n_keys,
                                        const struct skate_exchange_opts *o);
enum skate_join_kind {
    SKATE_JOIN_INNER,
    SKATE_JOIN_LEFT,
    SKATE_JOIN_RIGHT,
    SKATE_JOIN_FULL,
    SKATE_JOIN_LEFT_SEMI,
    SKATE_JOIN_RIGHT_SEMI,
    SKATE_JOIN_LEFT_ANTI,
    SKATE_JOIN_RIGHT_ANTI
};
struct skate_join {
    size_t size;
    enum skate_join_kind kind;
    const char *const *left_keys;
    const char *const *right_keys; /* NULL: the same names */
    size_t n_keys;
    /* What is appended to names of columns that both sides have, apart from keys; NULL: nothing,
     * and such a name is an error. */
    const char *left_suffix, *right_suffix;
};
/* The rows of both sides whose keys are equal, side by side; which rows without a partner there are
 * is the kind's. A null equals nothing; NaN equals NaN. */
SKATE_API skate_dataset *skate_join(skate_dataset *left, skate_dataset *right,
                                    const struct skate_join *join,
                                    const struct skate_exchange_opts *o);
/* A random order of all rows, the same for the same seed and input. */
SKATE_API skate_dataset *skate_random_shuffle(skate_dataset *ds, uint64_t seed,
                                              const struct skate_exchange_opts *o);
/* The same rows, dealt out to o->partitions blocks. */
SKATE_API skate_dataset *skate_repartition(skate_dataset *ds, const struct skate_exchange_opts *o);

/* ---- runs ------------------------------------------------------------------------------------ */

struct skate_run_opts {
    size_t size;
    /* Memory budget of the run in bytes, for all blocks; 0: chosen. Size of blocks; 0: 16 MiB. */
    uint64_t memory_bytes, block_bytes;
    const char *policy;   /* NULL: chosen. skate_policy_name lists the names. */
    const char *strategy; /* of exchanges that name none */
    bool any_order;       /* blocks come as they are made */
    int64_t max_bad_rows; /* the run fails when more rows were skipped or quarantined; 0, -1: no
                             limit */
    int64_t timeout_ms;   /* the most a get_next waits; 0: no limit. SKATE_ETIMEOUT */
};
/* Runs the dataset and fills *out with the stream of its batches. The run begins with the call and
 * goes on while the caller does something else, until blocks fill the budget; releasing the stream
 * ends the run. get_next returns 0 (batch->release NULL: the end) or an errno value; the message is
 * get_last_error's and skate_error's. A batch stays valid until it is released, also after the
 * stream. */
SKATE_API int skate_stream(skate_dataset *ds, const struct skate_run_opts *o,
                           struct ArrowArrayStream *out);
/* Gives the next batch of quarantined or skipped rows of a stream's run, in the order of their
 * arrival: columns `operator`, `message` (texts), `code` (int32) and, for quarantined rows, `row`
 * (a struct of the row's columns). batch->release NULL: there is none now; after the end of the
 * stream: there are no more. */
SKATE_API int skate_stream_dead(struct ArrowArrayStream *stream, struct ArrowSchema *schema,
                                struct ArrowArray *batch);
/* Runs the dataset, counts its rows. */
SKATE_API int skate_count(skate_dataset *ds, const struct skate_run_opts *o, int64_t *rows);

/* Statistics of a stream's run. */
struct skate_run_stats {
    size_t size;
    int64_t wall_ns;
    uint64_t rows, bytes;                           /* given to the consumer */
    uint64_t memory_limit, memory_peak, disk_bytes; /* of blocks */
    uint64_t tasks_done, retries, bad_rows;
    bool done;
};
/* Writes the statistics of a stream's run so far; out->size says which struct it is. */
SKATE_API int skate_stream_stats(struct ArrowArrayStream *stream, struct skate_run_stats *out);
/* Writes the statistics of all operators as JSON; the result is freed with free(). */
SKATE_API char *skate_stream_stats_json(struct ArrowArrayStream *stream);
/* How far a run is. */
struct skate_progress {
    size_t size;
    int64_t wall_ns;
    uint64_t rows_in;  /* read by sources, in tasks that have ended */
    uint64_t bytes_in; /* of the blocks that tasks of sources have made */
    /* given to the consumer; of a write: reports */
    uint64_t rows_out, bytes_out;
    /* total: as many as are known to come, with those that are done; it grows as operators get
     * their input */
    uint64_t tasks_done, tasks_running, tasks_total;
    uint64_t memory_used, memory_limit, disk_bytes; /* of blocks */
    bool done;
    /* left_guess: an operator that counts has not begun, and nothing tells how long its tasks
     * take, or how fast the disk is that has their input, so that left_ns is a guess */
    bool left_guess;
    /* share: of the time that the whole run is expected to take, the part that has passed; 1 when
     * all tasks have ended. left_ns: the time that is left. Share 0, left_ns -1: not known yet.
     * A library whose size is smaller does not have these three. */
    double share;
    int64_t left_ns;
};
struct skate_watch {
    size_t size;
    void (*progress)(void *ctx, const struct skate_progress *p);
    void *ctx;
    int64_t every_ms; /* 0: 100 */
};
/* The same rows. Runs of what is made of this dataset call w->progress, not more often than every
 * w->every_ms: in the thread that is in get_next, get_schema, skate_count or skate_write, while it
 * waits or is about to return; and once more when they find the end or a failure of the run. The
 * function may take its time, but must not end the run. Of several, the last one of a plan counts.
 */
SKATE_API skate_dataset *skate_watch(skate_dataset *ds, const struct skate_watch *w);
/* The plan as text for people, freed with free(). NULL: a failure. */
SKATE_API char *skate_explain(skate_dataset *ds, const struct skate_run_opts *o);
/* Name of policy or strategy i; NULL behind the last one. */
SKATE_API const char *skate_policy_name(unsigned i);
SKATE_API const char *skate_strategy_name(unsigned i);

/* ---- writing --------------------------------------------------------------------------------- */

/* A sink. The functions of batches `write` run in tasks: they stage what they write under a name
 * that begins with skate_write_id, and say by skate_report (in `end`, say) what they have staged.
 * Then, in the caller's thread, `commit` gets the reports of all tasks in the order of their rows,
 * or, after a failure, `abort` gets those that arrived. A task may run several times: each attempt
 * has the same id. Exactly one attempt's reports arrive. */
struct skate_sink {
    size_t size;
    const char *write;
    int (*commit)(void *ctx, const struct skate_arg *reports, size_t n); /* NULL: nothing to do */
    void (*abort)(void *ctx, const struct skate_arg *reports, size_t n); /* NULL: nothing to do */
    void *ctx;
};
/* Reports bytes to the sink's `commit`, from a function of batches that writes. */
SKATE_API int skate_report(struct skate_task *t, const void *data, size_t size);
/* A text of at most 40 bytes: the number of the write, and that of the task in it. Valid until the
 * function returns. */
SKATE_API const char *skate_write_id(const struct skate_task *t);
/* Runs the dataset into the sink. Returns what failed first: the run, or `commit`. */
SKATE_API int skate_write(skate_dataset *ds, const struct skate_sink *sink,
                          const struct skate_map_opts *m, const struct skate_run_opts *o);

/* How a write goes on where an earlier one ended, by a failure or by the death of its process. */
struct skate_resume {
    size_t size;
    const char
        *log; /* path of a file that the call makes: the units that are done, their reports */
    /* Says which job it is: the version of its functions and of its input, say. */
    const char *job;
    /* Called with sink->ctx for each unit that the log has, before anything runs: 0 if what its
     * tasks have reported is still there as they left it; else the unit is done again. Not called
     * once `commit` may have begun. NULL: all of it is there. */
    int (*check)(void *ctx, const struct skate_arg *reports, size_t n);
};
/* As skate_write, but what is done is recorded: a later call with the same log does only what is
 * missing, and commits all. The dataset has to be maps, filters and selects over one source with
 * units (skate_source, skate_range, skate_read_records); no task works on rows of two units. For
 * the sink this means:
 * - What a task has reported has to be durable, since it will not be written again.
 * - Each call has new ids (skate_write_id), so a task of a killed call disturbs nothing. What is
 *   staged under an id that no report names is a remnant, which `commit` may remove.
 * - `commit` gets the reports of all units, in order, whichever call has made them. If the process
 *   dies in it, or it fails, the next call calls it again with the same reports: what it has done
 *   already has to count as done.
 * - `abort` gets the reports of the one unit that was under way. Units that are recorded stay.
 * When the job has ended, the call does nothing, and returns 0: remove the log to begin anew. A log
 * of another job (other functions, arguments, units or text; what functions do is not seen) is
 * replaced if that job has ended, else SKATE_EINVAL. SKATE_EEXIST: another process has the log. */
SKATE_API int skate_write_resumable(skate_dataset *ds, const struct skate_sink *sink,
                                    const struct skate_resume *resume,
                                    const struct skate_map_opts *m, const struct skate_run_opts *o);

#ifdef __cplusplus
}
#endif
#endif
