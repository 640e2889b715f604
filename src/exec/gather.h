/* gather.h - stages whose tasks take parts of many values: who keeps the values, and makes the
 * inputs of the tasks.
 *
 * Values of the inputs of such a stage come to its gather, one by one and in order, instead of into
 * the usual queue. The gather holds a value, parks it (it waits for tasks that take parts of it,
 * and may go to disk), or lets it pass to the gather of the next stage; and it says when a task can
 * begin, with whole values, with parts of values, and with a `say` of its own for the worker.
 * References, the budget, the disk, the order of blocks, places and launches are exec's: it knows
 * no kind of gather.
 *
 * Two kinds of tasks: those of the order, whose blocks are the stage's output; and inner ones,
 * whose every yield comes back to the gather. Inner tasks come before all others.
 *
 * A value of a gather has a note that begins with struct sk_value_note. Everything here is pure,
 * and belongs to the run's lock: a gather calls nothing but this, and pools. */
#ifndef SK_EXEC_GATHER_H
#define SK_EXEC_GATHER_H

#include "base/containers/list.h"
#include "base/wire.h"
#include "plan/plan.h"

/* The beginning of the note of each yield that is for a gather (wire format). The value is as long
 * as `bytes` says; what is behind is the gather's. */
struct sk_value_note {
    uint32_t magic, kind;         /* SK_VALUE_NOTE; the gather's */
    uint64_t rows, bytes, schema; /* of the whole value; schema as in a block's note */
};
enum { SK_VALUE_NOTE = 0x504b4b53 };

#define SK_ANY_NODE UINT32_MAX

struct sk_step;
struct sk_sstage;
struct sk_stask;
struct sk_kept;

/* one reference to rows of a block, in exactly one queue; or the place of one that went ahead of
 * its turn */
struct sk_blk {
    struct sk_blk *next;
    struct sk_bref ref; /* oid 0: gone ahead */
    uint64_t cost;      /* of the budget; 0: existed before the run */
    /* while it waits for its turn: in the next stage's `ahead`; while a gather holds it: there */
    struct sk_list link;
    struct sk_stask *of;    /* of one that waits for its turn: the task that holds it */
    struct sk_stask *early; /* gone ahead: whose input it is */
    uint32_t side;          /* input of a task: the number of the stage's input that it is of */
    uint32_t node;          /* where it was made */
    bool on_disk;           /* spilled */
    /* a part of a value, by reference, which costs nothing: oid, bytes and n_rows are ref's; row0
     * is its first byte, origin is the gather's */
    bool part;
    struct sk_kept *kept; /* not NULL: it is this value of a gather; a part: of this one */
};

/* What a gather knows of a value has this as its first member, and is freed with the value
 * (ops->gone). */
struct sk_kept {
    struct sk_blk *blk;
    struct sk_list link; /* of parked ones: in their gather */
    uint32_t parts;      /* that exist, as inputs of tasks that are not over */
    bool parked;
    bool more; /* parked, and parts of it will be made */
};

struct sk_gather;
struct sk_gather_stats { /* for people; what they mean is the gather's matter */
    const char *by;      /* NULL: no gather */
    uint64_t n[10];
};

struct sk_gather_ops {
    /* ---- values of its inputs */
    /* may be yielded for it. The note is whole, and note_ok */
    bool (*fits)(const struct sk_gather *g, const struct sk_value_note *note);
    sk_rc (*take)(struct sk_gather *g, uint32_t side, struct sk_blk *b,
                  /* b is the gather's now, also where this fails */
                  struct sk_err *err);
    sk_rc (*ended)(struct sk_gather *g, struct sk_err *err); /* no more will come of any input */
    /* nobody wants what the stage gives: what no task has is given back */
    sk_rc (*drop)(struct sk_gather *g, struct sk_err *err);
    /* frees it. Its values are gone, or forgotten */
    void (*destroy)(struct sk_gather *g);
    /* Asked when a task of input `side` is launched: what the worker is told of how its values are
     * wanted. */
    uint32_t (*hint)(struct sk_gather *g, uint32_t side); /* unless sk_gather_task has said so */
    /* NULL: never. The gather awaits an answer from outside of the run (sk_exec_call). Until it is
     * there, no task that gives values of input `side` begins, and a run of which nothing moves has
     * not stalled. */
    bool (*awaits)(const struct sk_gather *g, uint32_t side);
    /* ---- tasks: `say` is what the gather said of one in sk_gather_task */
    sk_rc (*refill)(struct sk_gather *g,
                    /* NULL: none. A task was launched: the input of the next one is made now, if
                     * there is one */
                    struct sk_err *err);
    /* NULL: for its statistics */
    void (*launched)(struct sk_gather *g, void *say, uint64_t in_bytes, uint64_t disk_bytes);
    void (*write)(const struct sk_gather *g, const void *say, const struct sk_blk *in,
                  struct sk_wr *w); /* for the worker; behind the argument of any task */
    bool (*wants)(const struct sk_gather *g, const void *say,
                  /* such a yield of a task comes back to the gather; NULL: a block */
                  const struct sk_value_note *note);
    sk_rc (*yielded)(struct sk_gather *g, void *say, struct sk_blk *b,
                     const struct sk_value_note *note, struct sk_err *err);
    /* without it nothing is right: its failure is that of the run */
    bool (*needed)(const void *say);
    sk_rc (*over)(struct sk_gather *g, void *say, struct sk_err *err); /* it has ended well */
    void (*forget)(void *say);                                         /* frees it */
    /* ---- for people, and for tests */
    void (*stats)(const struct sk_gather *g, struct sk_gather_stats *s);
    /* who waits for what, up to cap - 1 bytes */
    size_t (*text)(const struct sk_gather *g, char *buf, size_t cap);
    bool (*check)(const struct sk_gather *g); /* its invariants hold */
};

struct sk_gather { /* first member of what the gather has */
    const struct sk_gather_ops *ops;
    /* exec's */
    struct sk_step *x;
    struct sk_sstage *s;
    struct sk_list held, parked;          /* blocks by link; values by link */
    uint64_t waiting_bytes, waiting_rows; /* of what is held: input that waits */
    uint64_t sliced, reading,
        /* bytes of parts that running tasks have: in memory; read from disk for them, and reserved;
         * reserved for their work */
        working;
    /* the gather's */
    /* its values wait where they may go to disk: they are no reason to hold a task back. A task of
     * it gives as much as it takes, until one has ended */
    bool parks;
    bool spent;    /* no more inputs will be made, once all inputs have ended */
    uint64_t rest; /* bytes that are parked for tasks whose inputs are not made yet */
};

/* Who makes gathers: for stage `st` of a plan, or none (*out NULL: its inputs are made as
 * usual). */
struct sk_gathers {
    sk_rc (*make)(const void *arg, const struct sk_stage *st, struct sk_gather **out,
                  struct sk_err *err);
    bool (*note_ok)(struct sk_bytes note); /* whole, and within its bounds */
    /* what is known of a value of such a note; NULL: no memory */
    struct sk_kept *(*value)(const struct sk_value_note *note);
    /* its reference was given back: frees it */
    void (*gone)(struct sk_kept *k);
    const void *arg;
};

/* ---- what a gather may ask (gather.c) -------------------------------------------------------- */

struct sk_gather_facts {
    uint64_t memory_bytes, target_min_bytes, target_max_bytes;
    uint32_t tasks;     /* of the stage that can run at once */
    uint32_t by_cpus;   /* the same, by its CPUs alone; at least 1 */
    uint32_t nodes;     /* at least 1 */
    bool spills, parts; /* what does not fit goes to disk; tasks can be given parts of values */
};
struct sk_gather_facts sk_gather_facts(const struct sk_gather *g);
const char *sk_gather_label(const struct sk_gather *g); /* of the stage, for errors */
/* Bytes of a task of the stage that is input `side`, and of all of them, as far as they are known:
 * those that have not started are guessed by those that have. */
void sk_gather_expect(const struct sk_gather *g, uint32_t side, uint64_t *task_bytes,
                      uint64_t *all_bytes);
/* the gather of that stage, or NULL */
struct sk_gather *sk_gather_input(const struct sk_gather *g, uint32_t side);
/* that takes what this one's stage gives; NULL: none */
struct sk_gather *sk_gather_next(const struct sk_gather *g, uint32_t *side);

/* ---- what a gather may do -------------------------------------------------------------------- */

/* counts b as input of the stage */
void sk_gather_came(struct sk_gather *g, const struct sk_blk *b);
/* of no queue: it stays as it is, in memory */
void sk_gather_hold(struct sk_gather *g, struct sk_blk *b);
/* of no queue, or held: parts of it will be made */
void sk_gather_park(struct sk_gather *g, struct sk_blk *b);
/* so much more of what is held is input that waits */
void sk_gather_waits(struct sk_gather *g, int64_t bytes, int64_t rows);
sk_rc sk_gather_pass(struct sk_gather *g, struct sk_blk *b,
                     /* of no queue, or held: goes to the next gather as it is */
                     struct sk_err *err) SK_MUST_USE;
/* likewise: is given back */
sk_rc sk_gather_drop(struct sk_gather *g, struct sk_blk *b, struct sk_err *err) SK_MUST_USE;
struct sk_kept *sk_gather_resize(struct sk_gather *g, struct sk_kept *k,
                                 /* of a parked value; k is no more. NULL: no memory, k stays */
                                 size_t bytes) SK_MUST_USE;
/* No more parts will be made of k, or yes; without any it is given back. */
sk_rc sk_gather_more(struct sk_gather *g, struct sk_kept *k, bool more,
                     struct sk_err *err) SK_MUST_USE;

struct sk_gather_task {
    void *say;
    bool inner;
    uint32_t node;   /* where it should run, or SK_ANY_NODE; an engine of one node does not look */
    uint64_t origin; /* of what it yields; of an inner one 0 */
    /* bytes of memory that it needs for its work for a byte of its parts, at most a block; reserved
     * where there is a disk */
    uint32_t work;
    /* what the worker is told of how its values are wanted; 0: as the next gather says */
    uint32_t hint;
};
/* One more task can begin, behind those that can. Its input is what is added now. On failure `say`
 * is still the caller's. */
sk_rc sk_gather_task(struct sk_gather *g, const struct sk_gather_task *t,
                     struct sk_err *err) SK_MUST_USE;
/* held: all of it, which is the task's from now on */
void sk_gather_add(struct sk_gather *g, struct sk_blk *b);
/* Bytes [part.row0, + part.bytes) of a parked value, n_rows; part.origin is the gather's. */
sk_rc sk_gather_add_part(struct sk_gather *g, struct sk_kept *k, struct sk_bref part, uint32_t side,
                         struct sk_err *err) SK_MUST_USE;
bool sk_gather_ready(const struct sk_gather *g); /* a task waits to be launched */

#endif
