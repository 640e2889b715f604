/* data.h - pipelines: plans and their runs, the tasks of exchanges and joins, batches of other
 * sizes, columns, pictures, and the log of a job. */
#ifndef SK_PY_DATA_H
#define SK_PY_DATA_H

#include "py/call/call.h"

/* ---- plan.c, exec.c */
const struct sk_plan *py_plan_get(struct py_state *st, PyObject *plan);
void py_exec_stop_all(struct py_state *st);
/* Called in the child of a fork: drops the list of runs, which belong to the parent. */
void py_exec_forget(struct py_state *st);
int py_plan_types(PyObject *module, struct py_state *st);
int py_exec_types(PyObject *module, struct py_state *st);

/* Calls fn(arg) inside a run by sk_exec_call, without the GIL. SK_ECLOSED: the run was stopped;
 * SK_EINVAL with an exception: `exec` is not a run. */
sk_rc py_exec_call(struct py_state *st, PyObject *exec, sk_rc (*fn)(void *arg, struct sk_err *err),
                   void *arg, struct sk_err *err);

/* ---- told.c: strategies that answer from outside of the run (told strategies) */
struct sk_shuffle_ops;
const struct sk_shuffle_ops *py_told_ops(PyObject *told); /* valid as long as `told` lives */
int py_told_types(PyObject *module, struct py_state *st);

/* ---- exchange.c, join.c, partial_aggregates.c, online.c */
int py_exchange_types(PyObject *module, struct py_state *st);
int py_partial_aggregates_types(PyObject *module, struct py_state *st);
extern PyMethodDef py_exchange_methods[], py_join_methods[], py_partial_aggregates_methods[],
    py_online_methods[];

/* ---- rows.c: batches of other sizes, in order or shuffled */
int py_rows_types(PyObject *module, struct py_state *st);
extern PyMethodDef py_rows_methods[];

/* ---- pages.c: memory for batches. With the GIL. */
/* Declares a user of batches: until py_pages_close, freed memory of batches is cached for reuse. */
void py_pages_open(void);
void py_pages_close(void); /* ends one use; after the last one little memory stays cached */
/* Returns an object with n writable bytes (buffer protocol); NULL with a MemoryError. */
PyObject *py_pages_new(struct py_state *st, size_t n);
int py_pages_types(PyObject *module, struct py_state *st); /* -1 with an exception */
extern PyMethodDef py_pages_methods[];

/* ---- view.c */
/* The samples of a run (sk_exec_samples) as {name: list}; NULL with an exception. */
PyObject *py_samples(const int64_t *rows, size_t n, uint32_t width);
extern PyMethodDef py_view_methods[];

/* ---- text.c */
extern PyMethodDef py_text_methods[];

/* ---- image.c */
extern PyMethodDef py_image_methods[];

/* ---- sum.c */

/* ---- joblog.c */
int py_joblog_types(PyObject *module, struct py_state *st);
extern PyMethodDef py_joblog_methods[];

#endif
