/* engine_int.h - what the engines share: the table of calls behind sk_task_return() and the other
 * functions of worker.h.
 *
 * An engine gives its runner a `struct sk_task` that is the first member of a `struct
 * sk_task_priv` (usually itself the first member of the engine's own task). The public functions
 * in engine.c check what all engines must check (index, kinds, sizes) and call the table. */
#ifndef SK_ENGINE_INT_H
#define SK_ENGINE_INT_H

#include "base/wire.h"
#include "engine/worker.h"

struct sk_task_ops {
    /* called with i < n_returns */
    sk_rc (*ret)(struct sk_task *t, uint32_t i, const struct sk_payload *p, struct sk_err *err);
    /* called for streaming tasks only; counts n_yielded */
    sk_rc (*yield)(struct sk_task *t, const struct sk_payload *p, struct sk_err *err);
    uint32_t (*skip)(const struct sk_task *t);
    /* called with an error kind */
    sk_rc (*fail)(struct sk_task *t, const struct sk_payload *error, struct sk_err *err);
    /* called with at most SK_NOTE_MAX bytes */
    void (*note)(struct sk_task *t, struct sk_bytes note);
    /* called with i < n_args */
    struct sk_view (*keep_arg)(struct sk_task *t, uint32_t i);
    void (*end)(struct sk_task *t, sk_rc rc, const struct sk_err *err);
    bool (*cancelled)(const struct sk_task *t);
    bool (*interrupt)(struct sk_task *t); /* NULL: this engine sends no SIGINT */
};

struct sk_task_priv {
    struct sk_task t; /* must be first: the public pointer points to it */
    const struct sk_task_ops *ops;
    uint32_t end_flags; /* SK_END_*; the engine clears them before a run */
    /* for engines without notes: the number of notes of this attempt, and their hash */
    uint32_t n_noted;
    uint64_t noted;
};

/* engine.c: checks of a task that are possible before the values of its arguments exist.
 * `there`: true if the engine has the node spec.node. */
sk_rc sk_spec_check(const struct sk_task_spec *s, bool there, struct sk_err *err) SK_MUST_USE;
/* Checks whether a process may make a call of an actor. known: true if a handle of the actor
 * exists; n_pending: calls by this process that are not finished; max_pending: opts.max_pending. */
sk_rc sk_call_check(bool known, uint32_t n_pending, uint32_t max_pending,
                    struct sk_err *err) SK_MUST_USE;
/* True if the part is within a value of `len` bytes. False: it is not, and `text` says so. */
bool sk_part_within(uint32_t arg, uint64_t offset, uint64_t length, uint64_t len, char *text,
                    size_t cap);

/* ---- aspec.c */
struct sk_aspec { /* the options of an actor besides its constructor; borrowed */
    int32_t max_restarts, max_task_retries;
    bool is_async, detached;
    uint32_t n_groups;
    const uint32_t *groups;
    struct sk_bytes name, space, meta;
};
struct sk_aspec sk_aspec_of(const struct sk_actor_spec *s);
sk_rc sk_aspec_check(const struct sk_aspec *a, struct sk_err *err) SK_MUST_USE;

/* The generated table (cmake/registry.cmake): one row a file of engine/by/. */
extern const struct sk_engine_class *const sk_engine_table[];
extern const unsigned sk_engine_table_n;

#endif
