/* history.h - the history of ended tasks, for state lists and timelines: a ring buffer of the
 * last SK_STATE_PAST attempts. Pure: no clock, no ipc.
 *
 * Rows of living tasks are not here: each engine writes them from its tables when it is asked
 * (state.h). Invariant: the ring never holds more than its number of entries and TEXT_MAX bytes
 * of names and error values; the oldest texts are dropped first. Cost: 10 ns an entry (the texts
 * of an entry reuse the memory of the one it replaces), and 64 bytes of memory for each of
 * SK_STATE_PAST entries from the first ended task on. Thread-safety: none; the engine's lock guards
 * it. */
#ifndef SK_HISTORY_H
#define SK_HISTORY_H

#include "base/containers/vec.h"
#include "base/wire.h"
#include "engine/state.h"

/* One ended attempt, in one cache line: with 136 bytes the ring cost 10,000 empty tasks 25 %. */
struct sk_past {
    uint64_t id, fn;
    int64_t submit_ns;
    /* wait: time from the submission to the start of the attempt (< 0: it never ran); run: from
     * start to end */
    float wait_s, run_s;
    int32_t pid;
    uint32_t n_returns;
    sk_shape shape;
    uint16_t worker, attempt;
    uint8_t kind; /* enum sk_task_kind */
    bool failed;
    struct sk_past_text *text; /* fields that most attempts do not have; NULL: none, or dropped */
};
_Static_assert(sizeof(struct sk_past) <= 64, "one cache line");
struct sk_past_text {
    uint64_t parent, actor;
    uint32_t cap, name_n, error_n, error_kind; /* cap: size of `bytes` */
    char bytes[];                              /* the name, then the error's value */
};

struct sk_history {
    struct sk_past *p; /* entry i is at [i % SK_STATE_PAST]; NULL: no task has ended yet */
    uint64_t n;        /* number of entries since the start */
    uint32_t next;     /* n % SK_STATE_PAST */
    uint64_t bare;     /* entries with a number below this one have lost their texts */
    uint64_t text_bytes;
    struct sk_gone {
        SK_VEC(struct sk_bytes) rows; /* oldest first, from `at` on */
        uint32_t at;
    } actors, workers; /* rows of actors and workers that are gone */
};

struct sk_ended {     /* an attempt to be added */
    struct sk_past p; /* all of the entry but `text` */
    uint64_t parent, actor;
    uint32_t error_kind;
    struct sk_bytes name, error;
    int64_t start_ns, end_ns; /* start_ns 0: the attempt never ran */
};
/* If there is no memory, the entry or its text is left out, and nothing else happens. */
void sk_history_add(struct sk_history *h, const struct sk_ended *e);
void sk_history_gone(struct sk_gone *g, struct sk_bytes row); /* copies the row */
void sk_history_free(struct sk_history *h);

/* Writes the rows of a state list into a buffer; used by all engines. */
struct sk_rows {
    struct sk_wr w;
    struct sk_state_head head;
};
struct sk_rows sk_rows_begin(void *buf, size_t cap);
void sk_rows_add(struct sk_rows *r, const void *row, size_t row_n, const struct sk_bytes *texts,
                 uint32_t n_texts);
size_t sk_rows_end(struct sk_rows *r, void *buf, size_t cap); /* returns the length needed */
/* What sk_rows_past asks its callback `more` for: fields of a row that the history does not
 * store. */
struct sk_past_more {
    struct sk_bytes fn;
    struct sk_need need;
};
void sk_rows_past(struct sk_rows *r, const struct sk_history *h,
                  struct sk_past_more (*more)(void *ctx, const struct sk_past *p), void *ctx);
void sk_rows_gone(struct sk_rows *r, const struct sk_gone *g);

/* A row of a list, with its texts. */
struct sk_row {
    union {
        struct sk_task_row task;
        struct sk_actor_row actor;
        struct sk_object_row object;
        struct sk_worker_row worker;
    };
    size_t at; /* of the row in the bytes that were read */
    uint32_t n_texts;
    struct sk_bytes texts[4]; /* borrowed */
};
/* Reads the next row of a list, which may be anything. False: r->bad. */
bool sk_rows_next(struct sk_rd *r, enum sk_state_what what, struct sk_row *out);
/* Reads the head; a list is bytes that sk_rows_end has finished, or none at all. */
bool sk_rows_head(struct sk_rd *r, struct sk_state_head *out);
/* Adds a row that was read from other bytes; or changes it in the bytes `in` where it was read. */
void sk_rows_copy(struct sk_rows *r, enum sk_state_what what, const struct sk_row *row);
void sk_rows_change(uint8_t *in, enum sk_state_what what, const struct sk_row *row);

#endif
