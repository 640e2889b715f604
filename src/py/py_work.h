/* py_work.h - what a streaming task of a pipeline yields, between the files that make it, write it and send it. */
#ifndef SK_PY_WORK_H
#define SK_PY_WORK_H

#include "exec/exec.h"
#include "py/py_int.h"
#include "shuffle/pack.h"
#include "shuffle/work.h"

union py_block_note {
    struct sk_block_note block;
    struct {
        struct sk_pack_note head;
        union {
            struct sk_pack_part part[SK_PACK_PARTS_MAX];
            struct sk_pack_cut cut[SK_PACK_CUTS_MAX];
        };
    } pack;
};
_Static_assert(sizeof(union py_block_note) <= SK_NOTE_MAX, "a note");
_Static_assert(SK_PACK_PARTS_MAX >= SK_VALUE_PARTS_MAX && SK_PACK_CUTS_MAX >= SK_VALUE_CUTS_MAX, "as many as a value has");

/* py_block.c */
size_t py_blockout_note(PyObject *out, struct sk_block_sizes size, union py_block_note *note); /* its length */
PyObject *py_blockout_new(struct py_state *st, struct sk_value *value, PyObject *owner);       /* takes the value, also when it fails */
/* Tuple of two capsules, a reference that keeps both structs, and what is in them. */
PyObject *py_batch_structs(struct py_state *st, PyObject *batch, struct ArrowSchema **schema, struct ArrowArray **array);
PyObject *py_batch_in(struct py_state *st, PyObject *buf); /* the RecordBatch that buf, which is taken and may be NULL, holds */
/* The batch of a plan, in memory of this process. */
PyObject *py_batch_of_plan(struct py_state *st, const struct sk_block_plan *plan, uint64_t size);
PyObject *py_block_of(struct py_state *st, PyObject *owner, const uint8_t *p, size_t n); /* a RecordBatch over a block in owner's bytes */

#endif
