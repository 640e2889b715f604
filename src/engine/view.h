/* view.h - side contract: the *view*, which is what people can see of an engine and its runs while
 * they go on (a live page, `skate top`, metrics, timelines), from another process as well.
 *
 * The view is a segment of fixed size (local/wire/view.h has its layout). The driver writes it, and
 * a reader copies from it without any lock: each part has two copies, of which the reader takes the
 * one that was finished last. The bytes of the segment, written to a file, are a *record* of the
 * engine, which the same calls read after the program has ended.
 *
 * Only `local` and `cluster` have this table. The reading calls below work without an engine. */
#ifndef SK_VIEW_H
#define SK_VIEW_H

#include "base/containers/list.h"
#include "engine/engine.h"

#define SK_VIEW_RUNS 16u     /* runs that are kept, the newest */
#define SK_VIEW_OPS 32u      /* operators of a run that are shown */
#define SK_VIEW_INPUTS 8u    /* inputs of an operator that are shown */
#define SK_VIEW_FUSED 16u    /* fused operators of an operator */
#define SK_VIEW_SAMPLES 256u /* samples of a run */
#define SK_VIEW_ERRORS 16u   /* errors that are kept, the newest */
#define SK_VIEW_TASKS 16384u /* ended attempts of tasks that are kept */
#define SK_VIEW_FLOWS 32768u /* notes of blocks made or taken that are kept */
#define SK_VIEW_NAMES 1024u  /* different names of tasks; tasks with further names have none */
#define SK_VIEW_NAME 64u     /* bytes of such a name, with its NUL */
#define SK_VIEW_NODES 64u    /* nodes of a cluster that are shown */
#define SK_VIEW_WORKERS 512u /* workers of its nodes that are shown */
#define SK_VIEW_PROGRAM 208u /* bytes of the program's command line, with its NUL */
/* The numbers in front of the bytes in the operators' queues in each sample of a run. */
enum sk_view_sample {
    SK_VS_TIME, /* ns since the run began */
    SK_VS_MEMORY,
    SK_VS_DISK,
    SK_VS_ROWS_OUT, /* of the last operator, since the run began */
    SK_VS_ROWS_IN,  /* of the sources, since the run began */
    SK_VS_N
};
#define SK_VIEW_WIDTH (SK_VS_N + SK_VIEW_OPS)

struct sk_view_fused { /* one of the operators that are fused to one */
    char label[48];
    uint64_t rows_out;
    int64_t ns;
};
/* An operator of a run; the numbers are those of struct sk_exec_op_stats. */
struct sk_view_op {
    char label[160];
    uint32_t kind; /* enum sk_stage_kind */
    uint32_t n_inputs, n_fused, pad;
    uint32_t inputs[SK_VIEW_INPUTS];
    uint64_t running, queued, done, retries, actors;
    int64_t total; /* -1: unknown */
    uint64_t rows_in, rows_out, bytes_in, bytes_out, blocks_out;
    uint64_t queued_blocks, queued_bytes, peak_queued_bytes;
    int64_t busy_ns, wait_input_ns, wait_memory_ns, wait_resource_ns, wait_consumer_ns;
    struct sk_view_fused fused[SK_VIEW_FUSED];
    uint32_t phase;      /* enum sk_view_phase */
    char by[28];         /* the name of its gather; "": it has none */
    uint64_t gather[10]; /* struct sk_gather_stats */
};
/* Input still comes; all of it is there; the operator has ended. */
enum sk_view_phase { SK_VP_INPUT, SK_VP_REST, SK_VP_ENDED };
enum sk_view_state { SK_VIEW_RUNNING = 1, SK_VIEW_DONE, SK_VIEW_FAILED, SK_VIEW_STOPPED };
struct sk_view_run {
    uint64_t id; /* set by `publish` */
    int64_t started_ns, wall_ns;
    uint32_t state; /* enum sk_view_state */
    uint32_t n_ops; /* all of them; the first n_shown are in `ops` */
    uint32_t n_shown, n_samples;
    uint32_t bottleneck; /* UINT32_MAX: the consumer */
    char why[28];
    double share;    /* < 0: unknown */
    int64_t left_ns; /* < 0: unknown */
    uint64_t memory_now, memory_peak, memory_limit, memory_disk;
    uint64_t bad_rows, errored_blocks;
    struct sk_view_op ops[SK_VIEW_OPS];
    /* n_samples rows of SK_VS_N + n_shown numbers each */
    int64_t samples[SK_VIEW_SAMPLES * SK_VIEW_WIDTH];
};
/* An ended attempt of a task; times as in struct sk_task_row. */
struct sk_view_task {
    uint64_t id, parent, actor;
    int64_t submit_ns, start_ns, end_ns; /* start_ns 0: it never ran */
    uint32_t name;                       /* index of its name; UINT32_MAX: it has none here */
    int32_t pid;
    uint16_t attempt, worker;
    uint8_t kind; /* enum sk_task_kind */
    uint8_t failed;
    uint16_t node; /* of a cluster: the number of the node on which it ran; else 0 */
};
/* A block that a task has yielded (ns: when the driver learnt of it), or that is the input of a
 * task (ns 0). */
struct sk_view_flow {
    uint64_t block, task;
    int64_t ns;
};
/* The numbers in each of the engine's samples. */
enum sk_view_history_col {
    SK_VH_TIME, /* ns since the engine began */
    SK_VH_STORE,
    SK_VH_SPILLED, /* on disk now */
    SK_VH_RUNNING,
    SK_VH_QUEUED,
    SK_VH_DONE, /* tasks that have ended since the engine began */
    SK_VH_N
};
struct sk_view_history { /* the engine's numbers over time, oldest first */
    uint64_t n;
    int64_t rows[SK_VIEW_SAMPLES * SK_VH_N];
};
struct sk_view_node {       /* a node, as it has said last */
    uint32_t number, alive; /* alive: 2: it is drained */
    char name[64];
    int64_t cpu_e4, cpu_free_e4, gpu_e4, gpu_free_e4;
    uint64_t store_used, store_capacity, spilled_now;
    struct sk_load load;
};
struct sk_view_nodes {
    uint64_t n, total; /* total: all of them */
    struct sk_view_node of[SK_VIEW_NODES];
};
struct sk_view_worker {
    int32_t pid;
    uint32_t node;
    int64_t since_ns; /* 0: it is idle */
    char name[64];    /* of its task */
};
struct sk_view_workers { /* of the nodes of a cluster; those of `local` are in its control segment
                          */
    uint64_t n;
    struct sk_view_worker of[SK_VIEW_WORKERS];
};
struct sk_view_error {
    int64_t ns; /* set by `error` */
    char text[320], op[96], replay[64];
};

/* A run that is shown: a member of the run, which the engine links and calls. */
struct sk_viewed {
    struct sk_list link;
    /* Called about every 100 ms by a thread with the engine's lock, from `begin` to `end`: the run
     * publishes its state if it can without waiting for a lock. False: it could not. */
    bool (*tick)(struct sk_viewed *v, int64_t now_ns);
    uint64_t id;
    uint32_t slot;
};

struct sk_view_ops {
    /* Begins to show a run. If SK_VIEW_RUNS other runs go on, this one is not shown. */
    void (*begin)(struct sk_engine *e, struct sk_viewed *v);
    /* Stores the state of a run, and sets run->id. */
    void (*publish)(struct sk_engine *e, struct sk_viewed *v, struct sk_view_run *run);
    void (*end)(struct sk_engine *e, struct sk_viewed *v); /* its last state stays shown */
    void (*error)(struct sk_engine *e, struct sk_view_error *err);
    /* Adds a note for timelines. Takes no lock. */
    void (*flow)(struct sk_engine *e, uint64_t block, uint64_t task, int64_t ns);
};

/* ---- reading a view or a record -------------------------------------------------------------- */

struct sk_view_about {
    int32_t pid;
    /* 0: the engine is open, or its end was not noted; 1: it was closed; 2: the driver was
     * killed */
    uint32_t ended;
    int64_t started_ns, started_wall_ns;
    int64_t cpu_e4, gpu_e4;
    char program[SK_VIEW_PROGRAM];
};
struct sk_view_counters {
    int64_t now_ns; /* time of these numbers */
    uint64_t store_used, store_capacity, spilled_now, spilled_total, restored_total, objects;
    uint64_t done, failed, running, queued; /* tasks */
    char waits[512];                        /* what the driver waits for */
};
struct sk_view_reader {
    int fd;
    struct sk_view_about about;
};
/* Opens the view of an engine (/proc/<pid>/fd/<n>) or a record, whose content may be anything:
 * each call below checks what it reads. SK_EIO: it cannot be opened; SK_ECORRUPT: it is no view;
 * SK_EINVAL: a newer skate has made it. */
sk_rc sk_view_open(const char *path, struct sk_view_reader *out, struct sk_err *err) SK_MUST_USE;
void sk_view_close(struct sk_view_reader *r);
/* Each of these returns SK_EAGAIN if there is nothing there (or, of a live engine, if the part was
 * written anew each time that it was read); SK_ECORRUPT: it is damaged. */
sk_rc sk_view_counters(struct sk_view_reader *r, struct sk_view_counters *out,
                       struct sk_err *err) SK_MUST_USE;
sk_rc sk_view_run(struct sk_view_reader *r, uint32_t slot, struct sk_view_run *out,
                  struct sk_err *err) SK_MUST_USE;
sk_rc sk_view_error(struct sk_view_reader *r, uint32_t slot, struct sk_view_error *out,
                    struct sk_err *err) SK_MUST_USE;
sk_rc sk_view_history(struct sk_view_reader *r, struct sk_view_history *out,
                      struct sk_err *err) SK_MUST_USE;
/* Of an engine of one machine there are none. */
sk_rc sk_view_nodes(struct sk_view_reader *r, struct sk_view_nodes *out,
                    struct sk_err *err) SK_MUST_USE;
sk_rc sk_view_workers(struct sk_view_reader *r, struct sk_view_workers *out,
                      struct sk_err *err) SK_MUST_USE;
/* The last entries, the oldest first: into room for SK_VIEW_TASKS, SK_VIEW_FLOWS or SK_VIEW_NAMES
 * of them; *n is their number. */
sk_rc sk_view_tasks(struct sk_view_reader *r, struct sk_view_task *out, size_t *n,
                    struct sk_err *err) SK_MUST_USE;
sk_rc sk_view_flows(struct sk_view_reader *r, struct sk_view_flow *out, size_t *n,
                    struct sk_err *err) SK_MUST_USE;
sk_rc sk_view_names(struct sk_view_reader *r, char (*out)[SK_VIEW_NAME], size_t *n,
                    struct sk_err *err) SK_MUST_USE;

#endif
