/* engine_int.h - shared inside the engine layer: the vtable behind sk_task_return() and its
 * sisters.
 *
 * An engine hands its runner a `struct sk_task` that is the first member of a `struct sk_task_priv`
 * (itself usually the first member of the engine's own task). The public functions in engine.c
 * (worker.h) check what all engines must check (index, kinds, sizes) and dispatch. */
#ifndef SK_ENGINE_INT_H
#define SK_ENGINE_INT_H

#include "base/wire.h"
#include "engine/worker.h"

struct sk_task_ops {
    /* i < n_returns is checked before */
    sk_rc (*ret)(struct sk_task *t, uint32_t i, const struct sk_payload *p, struct sk_err *err);
    sk_rc (*yield)(struct sk_task *t, const struct sk_payload *p,
                   struct sk_err *err); /* only for streaming tasks; n_yielded is counted by it */
    uint32_t (*skip)(const struct sk_task *t);
    /* kind is an error kind: checked before */
    sk_rc (*fail)(struct sk_task *t, const struct sk_payload *error, struct sk_err *err);
    /* cut to SK_NOTE_MAX before */
    void (*note)(struct sk_task *t, struct sk_bytes note);
    /* i < n_args: checked before */
    struct sk_view (*keep_arg)(struct sk_task *t, uint32_t i);
    void (*end)(struct sk_task *t, sk_rc rc, const struct sk_err *err);
    bool (*cancelled)(const struct sk_task *t);
    bool (*interrupt)(struct sk_task *t); /* NULL: nobody sends SIGINT */
};

struct sk_task_priv {
    struct sk_task t; /* first: the public pointer is this one */
    const struct sk_task_ops *ops;
    uint32_t end_flags; /* SK_END_*; the engine clears them before a run */
    uint32_t n_noted;   /* of this attempt, where the engine has no notes */
    uint64_t noted;
};

/* engine.c: what can be said of a task before its arguments' values exist; there: the engine has
 * its node (spec.node). */
sk_rc sk_spec_check(const struct sk_task_spec *s, bool there, struct sk_err *err) SK_MUST_USE;
/* May a process make a call of an actor? known: somebody has a handle of that; of those that the
 * process has made so many are not finished, and opts.max_pending. */
sk_rc sk_call_check(bool known, uint32_t n_pending, uint32_t max_pending,
                    struct sk_err *err) SK_MUST_USE;
/* A part of a value of `len` bytes. False: it is not within it, and says so in text. */
bool sk_part_within(uint32_t arg, uint64_t offset, uint64_t length, uint64_t len, char *text,
                    size_t cap);

/* aspec.c */
struct sk_aspec { /* what an actor has besides its constructor; borrowing */
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
