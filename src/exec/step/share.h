/* share.h - the estimate of how far a run is: the share of its time that has passed, and the time
 * that is left. Pure arithmetic over facts that metrics.c collects. */
#ifndef SK_EXEC_STEP_SHARE_H
#define SK_EXEC_STEP_SHARE_H

#include "base/base.h"

struct sk_share_op { /* one stage; inputs come before their consumers */
    /* ---- facts: the place of the stage */
    uint32_t parent; /* index of its consumer; UINT32_MAX: the consumer of the run */
    /* runs: the stage has tasks; over: it will begin no more tasks; waits: its tasks
     * begin when all of its input has come; passes: it has tasks only for some of its input, as it
     * decides, and passes the rest on */
    bool runs, over, waits, passes;
    uint32_t n_inputs, n_fused; /* n_fused: number of its operators */
    double units; /* of a source: the number of its tasks; < 0: not a source, or not known */
    /* Of a source that knows the bytes of its units: those of a mean task to come over those of a
     * recent one. Else 0. */
    double larger;
    double limit; /* of a LIMIT: the number of rows that pass; < 0: it is none */
    double cpus;  /* CPUs of one task */
    double slots; /* number of tasks that can run at once */
    /* ---- facts: what has happened so far */
    /* numbers of tasks; running: launched; begun: those of them that a worker has begun, as far as
     * known */
    double done, running, begun, queued;
    double came, done_in, running_in; /* bytes of input: that arrived; of done and running tasks */
    double out, out_done, rows_out;   /* bytes yielded, those of done tasks; rows */
    double taken;                     /* of a stage that waits: input that has a task */
    /* Of a stage that waits: sets the bytes of input that a task takes if `all` bytes come in all,
     * and the bytes that it needs for its own work; NULL: a task takes task_bytes. */
    void (*size)(const void *of, double all, double *in, double *work);
    const void *of;
    double done_ns;            /* time of all done tasks in their workers */
    double recent_ns;          /* mean time of about the last 16 of them */
    double ages_ns, oldest_ns; /* time since the begun tasks began: sum; longest */
    /* Of a stage in front of one that waits: time that its last operator took to pack rows for it,
     * for as many of the rows as it yielded. */
    double pack_ns;
    /* Of the phase that has the number of this stage: time in which tasks ran, without that in
     * which their workers started. */
    double live_ns;
    /* ---- what sk_share expects, which it writes */
    uint32_t phase;        /* number of stages that wait, up to this one */
    double part;           /* the part of its work that a LIMIT downstream needs */
    double tasks, task_ns; /* tasks of the whole run; time of one */
    double at_once;        /* number of tasks that have slots and room in memory at once */
    double read_ns;        /* the part of task_ns in which a task's input is read from disk */
    double all_in, all_in_rows, all_out, all_rows; /* bytes and rows of the whole run */
};

struct sk_share_run {
    struct sk_share_op *op;
    uint32_t n;
    double cpus;       /* CPUs that the run may use */
    double task_bytes; /* bytes of input of a usual task */
    /* memory: bytes that the tasks of stages that wait may have at once; 0: no limit, and all that
     * waits stays in memory. Else what waits for these tasks beyond `store` bytes is on disk. */
    double memory, store;
    double disk_ns; /* time in which the disk reads or writes a byte; 0: not known */
    double now_ns;  /* time since the start of the run */
    /* The consumer of the run: rows that it took, and the time that it needs for one, without
     * waiting for blocks; 0: not known. */
    double taken_rows, row_ns;
};

struct sk_share {
    double share;    /* of the time of the whole run, the part that has passed: 0 to below 1 */
    int64_t left_ns; /* the time that is left; -1, and share 0: nothing is known yet */
    /* a stage that counts has not begun, and nothing tells how long its tasks take, or how
     * fast the disk is that has their input */
    bool guess;
};
struct sk_share sk_share(const struct sk_share_run *r);

#endif
