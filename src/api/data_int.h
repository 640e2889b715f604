/* data_int.h - shared by the files behind skate_data.h: the nodes of a dataset's plan, their
 * lowering to a plan of the engine, and functions of batches in a worker. */
#ifndef SK_API_DATA_INT_H
#define SK_API_DATA_INT_H

#include "skate_data.h"
#include "api/api_int.h"
#include "base/containers/vec.h"
#include "data/data.h"
#include "exec/exec.h"
#include "plan/plan.h"
#include "shuffle/shuffle.h"

#define SK_DATASET_SIDES 2u /* most inputs of an exchange or a zip */

/* What an exchange does: a map for each input, and one reduce. */
struct sk_dataset_exchange {
    const char *map_op;
    char map_label[80];
    struct sk_bytes map_params[SK_DATASET_SIDES], map_what[SK_DATASET_SIDES]; /* owned */
    uint32_t map_props;
    struct sk_exchange_desc desc;
};

/* A node of a dataset's plan. Immutable after it was made, but for a stream that was read;
 * counted. */
struct skate_dataset {
    uint32_t refs;
    const char *op; /* static */
    uint32_t props;
    char label[120];
    struct sk_bytes params, what; /* owned */
    uint32_t n_inputs;
    struct skate_dataset **inputs;        /* owned, with a reference each */
    struct sk_dataset_exchange *exchange; /* owned; NULL: the node is no exchange */
    /* resources */
    double cpus, gpus;                /* cpus: 0: none */
    struct skate_resource *resources; /* owned, with the names behind them */
    size_t n_resources;
    uint32_t pool_min, pool_max, max_tasks;
    int32_t max_retries; /* as in skate_call_opts */
    int64_t limit, batch_rows;
    struct sk_unit *units; /* owned, with their bytes */
    uint32_t n_units;
    struct sk_dataset_blocks *blocks; /* owned: existing blocks */
    struct sk_dataset_stream *stream; /* owned: a stream that a run pulls */
    struct skate_watch *watch;        /* owned; the node is its input, and watched */
};

/* Existing blocks of the store, put there by this process. */
struct sk_dataset_blocks {
    uint64_t engine; /* number of the engine that has the blocks of `refs`; 0: none yet */
    struct sk_bref *refs;
    uint32_t n, cap;
    struct sk_schema
        *schema; /* of the batches, in the form of sk_schema_nullable; NULL: no batch */
};
/* Puts a batch into the store; batch NULL: a block without rows, which keeps the columns. *cost:
 * its bytes in the store. */
sk_rc sk_data_put(struct sk_engine *e, const struct ArrowSchema *schema,
                  const struct ArrowArray *batch, struct sk_bref *out, uint64_t *cost,
                  struct sk_err *err) SK_MUST_USE;
/* Puts one batch, which the call takes over. */
sk_rc sk_dataset_blocks_put(struct sk_dataset_blocks *b, struct sk_engine *e,
                            const struct ArrowSchema *schema, struct ArrowArray *batch,
                            struct sk_err *err) SK_MUST_USE;
/* Puts a block without rows, which keeps the columns. */
sk_rc sk_dataset_blocks_put_none(struct sk_dataset_blocks *b, struct sk_engine *e,
                                 const struct ArrowSchema *schema, struct sk_err *err) SK_MUST_USE;
void sk_dataset_blocks_free(struct sk_dataset_blocks *b); /* NULL is fine */

struct sk_dataset_stream {
    struct ArrowArrayStream s; /* release NULL: it was read to its end */
    bool read;                 /* a run has begun to pull it */
};
/* ---- run/feed.c: the streams that a run pulls ---- */
struct sk_feeder;
/* Makes the feed of a stream's node, and puts it into the run's list. SK_EINVAL: an earlier run has
 * pulled the stream. */
sk_rc sk_feeder_create(skate_dataset *ds, struct sk_engine *e, struct sk_feeder **list,
                       struct sk_feed **out, struct sk_err *err) SK_MUST_USE;
/* Starts the threads that pull, after sk_exec_start. */
sk_rc sk_feeders_begin(struct sk_feeder *list, struct sk_exec *x, struct sk_err *err) SK_MUST_USE;
/* Call before sk_exec_stop: from now on no feed touches the run or the engine. */
void sk_feeders_cut(struct sk_feeder *list);
/* Waits until the streams' calls have returned, releases the streams that the run has pulled, frees
 * the list. Hold no lock. */
void sk_feeders_free(struct sk_feeder *list);

/* The node of a write; takes ds over. number: of the write, not 0. */
skate_dataset *sk_dataset_writes(skate_dataset *ds, const char *name,
                                 const struct skate_map_opts *o, uint64_t number);
/* What a run needs besides its plan. */
struct sk_dataset_run {
    struct sk_feeder *feeders;       /* of the streams that it pulls; also after a failure */
    const struct skate_watch *watch; /* of the node that is nearest to the end, or NULL */
};
/* Makes the plan of a run. strategy: of exchanges that name none. run NULL: the plan will not run.
 */
sk_rc sk_dataset_lower(skate_dataset *ds, struct sk_engine *e,
                       const struct sk_shuffle_ops *strategy, struct sk_dataset_run *run,
                       struct sk_plan **plan, uint32_t *root, struct sk_err *err) SK_MUST_USE;

/* ---- run/run.c: a run, and its blocks in order ---- */
struct sk_data_run;
/* units: of a run that keeps units apart, a byte for each unit, not 0 if it is left out; it stays
 * valid during the run. p NULL: of any other run. */
sk_rc sk_data_run_start(skate_dataset *ds, const struct skate_run_opts *o, struct sk_bytes units,
                        struct sk_data_run **out, struct sk_err *err) SK_MUST_USE;
/* Takes the next block; the caller owns the reference. SK_EDONE: there are no more. */
sk_rc sk_data_run_next(struct sk_data_run *r, struct sk_bref *b, struct sk_err *err) SK_MUST_USE;
/* Opens a block for its reader; takes over the reference, also after a failure. */
sk_rc sk_data_run_open(struct sk_data_run *r, const struct sk_bref *b, struct ArrowSchema *schema,
                       struct ArrowArray *array, struct sk_err *err) SK_MUST_USE;
void sk_data_run_drop(struct sk_data_run *r,
                      const struct sk_bref *b); /* a block that is not opened */
void sk_data_run_free(struct sk_data_run *r);   /* NULL is fine */
/* Returns the statistics of the s->n_ops operators, which the caller frees; NULL: no memory. Their
 * labels are the run's. */
struct sk_exec_op_stats *sk_data_op_stats(struct sk_exec *x, struct sk_exec_stats *s);
/* Fills *out but for what the consumer was given. False: no memory. */
bool sk_data_progress(struct sk_exec *x, struct skate_progress *out);

/* ---- writes ---- */
struct sk_reports {
    SK_VEC(struct skate_arg) v; /* data: copies */
};
sk_rc sk_reports_add(struct sk_reports *p, struct sk_bytes report, struct sk_err *err) SK_MUST_USE;
void sk_reports_free(struct sk_reports *p); /* leaves it empty */

/* run/resume.c: what a write that can be resumed has done, in its log. */
struct sk_resume;
/* Opens the log of the job that runs `ds` into the sink; begins it if the file has none. */
sk_rc sk_resume_open(skate_dataset *ds, const struct skate_sink *sink,
                     const struct skate_map_opts *m, const struct skate_resume *o,
                     struct sk_resume **out, struct sk_err *err) SK_MUST_USE;
/* A byte for each unit of the source, not 0 if it is done. */
struct sk_bytes sk_resume_done(const struct sk_resume *r);
bool sk_resume_all(const struct sk_resume *r);  /* all units are done */
bool sk_resume_over(const struct sk_resume *r); /* so is the commit */
/* Records that all units before `upto` are done; `at` has these reports, which it takes over, and
 * the others that are not done yet have none. */
sk_rc sk_resume_units(struct sk_resume *r, uint64_t at, struct sk_reports *reports, uint64_t upto,
                      struct sk_err *err) SK_MUST_USE;
/* Calls the sink's commit with the reports of all units, between the records that say so. */
sk_rc sk_resume_commit(struct sk_resume *r, const struct skate_sink *sink,
                       struct sk_err *err) SK_MUST_USE;
void sk_resume_close(struct sk_resume *r); /* NULL is fine */

/* ---- in workers ------------------------------------------------------------------------------ */

/* The parameters of an operator that calls a function of batches: its name, the caller's bytes,
 * rows of a batch, what a failure does. */
struct sk_batch_call {
    const char *name;
    struct sk_bytes arg;
    int64_t batch_rows;
    uint32_t on_error;
    uint64_t write;       /* number of the write that the call is part of; 0: none */
    struct sk_bytes keys; /* of map_groups (data/groups.h) */
};
size_t sk_batch_call_write(const struct sk_batch_call *c, void *buf, size_t cap);
/* The operators that call functions of batches or of sources; NULL: there is none of that name. */
const struct sk_data_op *sk_batch_op_find(const char *name, size_t n);
/* SKATE_ENOENT: no functions of batches have this name. */
sk_rc sk_batches_find(const char *name, const struct skate_batch_fns **out,
                      struct sk_err *err) SK_MUST_USE;
/* The names of the task functions that run stages; see struct sk_exec_conf. */
extern const char sk_api_run_stage[], sk_api_stage_init[], sk_api_stage_call[];

/* ---- what a task function that is called for batches can reach ---- */

/* The part of a struct skate_task that a function of batches has; see data_batch.c. */
struct sk_batch_ctx {
    struct sk_data_node *node;
    struct sk_bytes arg;
    void *state;      /* made by init */
    void *task_state; /* made by begin */
    char write_id[44];
    uint8_t *keep;
    struct sk_schema *emitted, *given; /* schemas of the batches emitted and given last */
    const struct ArrowSchema *given_s; /* the schema that the function was given */
    /* While failures are to be skipped, emitted batches wait here until the call has succeeded. */
    struct sk_batch **held;
    uint32_t n_held, held_cap;
    bool holds;
    bool emits;  /* the function that runs may emit */
    bool writes; /* the function may report (skate_report) */
    /* The first failure of an emit of the function that runs; passed: the batch was good, and the
     * operators behind failed or need no more rows. */
    bool passed;
    sk_rc emit_rc;
    struct sk_err emit_err;
};

#endif
