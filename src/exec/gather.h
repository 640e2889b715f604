/* gather.h - the interface of a gather, which keeps the values of a stage whose tasks take parts of
 * many values, and makes the inputs of these tasks.
 *
 * Values of the inputs of such a stage go to its gather, one by one and in order, instead of into
 * the usual queue. The gather holds a value, parks it (it waits for tasks that take parts of it,
 * and may go to disk), or lets it pass to the gather of the next stage. It says when a task can
 * begin, with whole values, with parts of values, and with a `say` of its own for the worker. exec
 * manages references, the budget, the disk, the order of blocks, places and launches, and knows no
 * kind of gather.
 *
 * Two kinds of tasks: those of the order, whose blocks are the stage's output; and inner ones,
 * whose every yield comes back to the gather, and which have no place in the order.
 *
 * A value of a gather has a note that begins with struct sk_value_note. Everything here is pure and
 * is called under the run's lock. A gather calls nothing but the functions of this file and the
 * memory pools. */
#ifndef SK_EXEC_GATHER_H
#define SK_EXEC_GATHER_H

#include "base/containers/list.h"
#include "base/wire.h"
#include "plan/plan.h"

/* The beginning of the note of each yield that goes to a gather (wire format). The value has
 * `bytes` bytes. What follows this head in the note has a format of the gather's own. */
struct sk_value_note {
    uint32_t magic, kind;         /* magic: SK_VALUE_NOTE; kind: chosen by the gather */
    uint64_t rows, bytes, schema; /* of the whole value; schema as in a block's note */
};
enum { SK_VALUE_NOTE = 0x504b4b53 };

#define SK_ANY_NODE UINT32_MAX

struct sk_step;
struct sk_sstage;
struct sk_stask;
struct sk_kept;

/* A reference to some rows of a block, which is in exactly one queue; or the placeholder of a block
 * that went ahead of its turn. */
struct sk_blk {
    struct sk_blk *next;
    struct sk_bref ref; /* oid 0: gone ahead */
    /* bytes that the budget counts for the block; 0: the block existed before the run */
    uint64_t cost;
    /* The list that the block is in: the next stage's list `ahead` while the block waits for its
     * turn, or a list of the gather that holds the block. */
    struct sk_list link;
    struct sk_stask *of;    /* while the block waits for its turn: the task that holds it */
    struct sk_stask *early; /* in a placeholder: the task that took the block as its input */
    /* in the input of a task: the number of the stage's input that the block belongs to */
    uint32_t side;
    uint32_t node; /* where it was made */
    bool on_disk;  /* true: the block is spilled */
    /* This is a part of a value, held by reference without a cost in the budget. oid, bytes and
     * n_rows are those of ref, row0 is the part's first byte, origin is set by the gather. */
    bool part;
    /* the gather's record of this value (of a part: of the value that it belongs to), or NULL */
    struct sk_kept *kept;
};

/* The first member of the record that a gather keeps for a value. ops->gone frees the record
 * together with the value. */
struct sk_kept {
    struct sk_blk *blk;
    struct sk_list link; /* of a parked value: its place in the gather's list `parked` */
    uint32_t parts;      /* number of parts of the value that are inputs of unfinished tasks */
    bool parked;
    bool more; /* the value is parked, and more parts of it will be made */
};

struct sk_gather;
struct sk_gather_stats { /* statistics for people; each gather defines what its numbers mean */
    const char *by;      /* name of the gather; NULL: the stage has none */
    uint64_t n[10];
};

struct sk_gather_ops {
    /* ---- values of the gather's inputs ---- */
    /* True if a task may yield a value with this note to the gather. The note is complete, and
     * note_ok has accepted it. */
    bool (*fits)(const struct sk_gather *g, const struct sk_value_note *note);
    /* The gather takes over block b of input `side`, also when this call fails. */
    sk_rc (*take)(struct sk_gather *g, uint32_t side, struct sk_blk *b, struct sk_err *err);
    sk_rc (*ended)(struct sk_gather *g, struct sk_err *err); /* called when all inputs have ended */
    /* Called when nobody needs the stage's output any more: the gather releases every value that no
     * task has. */
    sk_rc (*drop)(struct sk_gather *g, struct sk_err *err);
    /* Frees the gather. All its values have been released before. */
    void (*destroy)(struct sk_gather *g);
    /* Called when a task of input `side` is launched. Returns the hint that tells the worker in
     * what form the gather takes the task's values; the hint in sk_gather_task, if not 0, is used
     * instead. */
    uint32_t (*hint)(struct sk_gather *g, uint32_t side);
    /* True if the gather waits for an answer from outside of the run (sk_exec_call). Until the
     * answer arrives, no task that yields values for input `side` begins, and a run in which
     * nothing moves does not count as stalled. NULL: the gather never waits for answers. */
    bool (*awaits)(const struct sk_gather *g, uint32_t side);
    /* ---- tasks; `say` is the opaque value that the gather passed to sk_gather_task ---- */
    /* Called after a task was launched: the gather prepares the input of the next task, if there is
     * one. NULL: nothing to do. */
    sk_rc (*refill)(struct sk_gather *g, struct sk_err *err);
    /* Tells the gather of a launch, for its statistics. NULL: not needed. */
    void (*launched)(struct sk_gather *g, void *say, uint64_t in_bytes, uint64_t disk_bytes);
    /* Appends the gather's part to the task's argument. */
    void (*write)(const struct sk_gather *g, const void *say, const struct sk_blk *in,
                  struct sk_wr *w);
    /* True if a yield with this note goes back to the gather; note NULL: the yield is a block. */
    bool (*wants)(const struct sk_gather *g, const void *say, const struct sk_value_note *note);
    sk_rc (*yielded)(struct sk_gather *g, void *say, struct sk_blk *b,
                     const struct sk_value_note *note, struct sk_err *err);
    /* True if the run fails when this task fails, because no correct result is possible without
     * it. */
    bool (*needed)(const void *say);
    sk_rc (*over)(struct sk_gather *g, void *say, struct sk_err *err); /* the task has succeeded */
    void (*forget)(void *say);                                         /* frees `say` */
    /* ---- for people, and for tests ---- */
    /* Returns the bytes of input that a task of the order will take, as far as the gather knows it
     * now, if all inputs of the stage together have all_bytes (> 0) in the end. *work: as in
     * sk_gather_task. NULL: the gather does not know it. */
    uint64_t (*task_bytes)(const struct sk_gather *g, uint64_t all_bytes, uint32_t *work);
    void (*stats)(const struct sk_gather *g, struct sk_gather_stats *s);
    /* Writes at most cap - 1 bytes of text: which task waits for what. */
    size_t (*text)(const struct sk_gather *g, char *buf, size_t cap);
    bool (*check)(const struct sk_gather *g); /* true if the gather's invariants hold */
};

struct sk_gather { /* the first member of each gather's own struct */
    const struct sk_gather_ops *ops;
    /* members that exec writes */
    struct sk_step *x;
    struct sk_sstage *s;
    /* held: blocks by sk_blk.link; parked: values by sk_kept.link */
    struct sk_list held, parked;
    /* the part of the held blocks that counts as waiting input */
    uint64_t waiting_bytes, waiting_rows;
    /* sliced: bytes in memory of the parts that running tasks have; reading: bytes reserved for
     * parts that are read from disk for these tasks; working: bytes reserved for the tasks' own
     * work */
    uint64_t sliced, reading, working;
    /* members that the gather writes */
    /* The gather's values may go to disk while they wait, so they are no reason to hold a task
     * back. Until a task of the gather has ended, its output is estimated to be as large as its
     * input. */
    bool parks;
    /* no more inputs of tasks will be made, once all inputs of the stage have ended */
    bool spent;
    uint64_t rest; /* parked bytes of which no task's input has been made yet */
    /* What rest was when the first of these inputs was made; it may differ from the bytes that
     * came, since a gather may count the bytes of unpacked rows. 0: none has been made. */
    uint64_t whole;
};

/* Makes the gather of stage `st` of a plan. *out NULL: the stage has none, and the inputs of its
 * tasks are made from blocks in the usual way. */
struct sk_gathers {
    sk_rc (*make)(const void *arg, const struct sk_stage *st, struct sk_gather **out,
                  struct sk_err *err);
    /* True if the note is complete and its numbers are within their limits. */
    bool (*note_ok)(struct sk_bytes note);
    /* Makes the gather's record of a value with this note; NULL: no memory. */
    struct sk_kept *(*value)(const struct sk_value_note *note);
    /* Frees the record of a value whose reference was released. */
    void (*gone)(struct sk_kept *k);
    const void *arg;
};

/* ---- what a gather may ask (gather.c) -------------------------------------------------------- */

struct sk_gather_facts {
    uint64_t memory_bytes, target_min_bytes, target_max_bytes;
    uint32_t tasks;   /* number of tasks of the stage that can run at once */
    uint32_t by_cpus; /* number of tasks that could run at once if only CPUs counted; at least 1 */
    uint32_t nodes;   /* number of nodes; at least 1 */
    /* spills: values that do not fit go to disk; parts: tasks can be given parts of values */
    bool spills, parts;
};
struct sk_gather_facts sk_gather_facts(const struct sk_gather *g);
const char *sk_gather_label(const struct sk_gather *g); /* name of the stage, for error messages */
/* Output bytes of one task of the stage that is input `side`, and of all its tasks. Tasks that have
 * not started are estimated from those that have. */
void sk_gather_expect(const struct sk_gather *g, uint32_t side, uint64_t *task_bytes,
                      uint64_t *all_bytes);
/* Returns the gather of the stage that is input `side`; NULL: it has none. */
struct sk_gather *sk_gather_input(const struct sk_gather *g, uint32_t side);
/* Returns the gather that takes the output of g's stage, and the number of that input; NULL:
 * none. */
struct sk_gather *sk_gather_next(const struct sk_gather *g, uint32_t *side);

/* ---- what a gather may do -------------------------------------------------------------------- */

/* Adds b to the rows and bytes of input in the stage's statistics. */
void sk_gather_came(struct sk_gather *g, const struct sk_blk *b);
/* Keeps b, which is in no queue, whole and in memory. */
void sk_gather_hold(struct sk_gather *g, struct sk_blk *b);
/* Parks b, which is in no queue or held: parts of it will be made. */
void sk_gather_park(struct sk_gather *g, struct sk_blk *b);
/* Adds to the amount of held data that counts as waiting input. */
void sk_gather_waits(struct sk_gather *g, int64_t bytes, int64_t rows);
/* Passes b, which is in no queue or held, to the next stage's gather as it is. */
sk_rc sk_gather_pass(struct sk_gather *g, struct sk_blk *b, struct sk_err *err) SK_MUST_USE;
/* Releases b, which is in no queue or held. */
sk_rc sk_gather_drop(struct sk_gather *g, struct sk_blk *b, struct sk_err *err) SK_MUST_USE;
/* Changes the size of a parked value's record, and frees k. NULL: no memory, k stays valid. */
struct sk_kept *sk_gather_resize(struct sk_gather *g, struct sk_kept *k, size_t bytes) SK_MUST_USE;
/* Says whether more parts will be made of k. A value without parts, of which none will be made, is
 * released. */
sk_rc sk_gather_more(struct sk_gather *g, struct sk_kept *k, bool more,
                     struct sk_err *err) SK_MUST_USE;

struct sk_gather_task {
    void *say;
    bool inner;
    /* node where the task should run, or SK_ANY_NODE; ignored on an engine of one node */
    uint32_t node;
    uint64_t origin; /* the origin of what the task yields */
    /* bytes of memory that the task needs for its own work, for each byte of its parts (at most one
     * block); reserved only where values can go to disk */
    uint32_t work;
    /* Hint to the worker: in what form the task's values are needed; 0: as the next gather says. */
    uint32_t hint;
};
/* Adds a task that can begin, behind those that can begin already. Blocks and parts that are added
 * next become its input. On failure the caller keeps `say`. */
sk_rc sk_gather_task(struct sk_gather *g, const struct sk_gather_task *t,
                     struct sk_err *err) SK_MUST_USE;
/* Adds the whole of the held block b to the new task's input, which owns it from now on. */
void sk_gather_add(struct sk_gather *g, struct sk_blk *b);
/* Adds a part of the parked value k to the new task's input: n_rows rows in the bytes [part.row0,
 * part.row0 + part.bytes). part.origin may be any number of the gather's. */
sk_rc sk_gather_add_part(struct sk_gather *g, struct sk_kept *k, struct sk_bref part, uint32_t side,
                         struct sk_err *err) SK_MUST_USE;
bool sk_gather_ready(const struct sk_gather *g); /* true if a task waits to be launched */

#endif
