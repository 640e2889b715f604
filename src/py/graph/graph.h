/* graph.h - compiled graphs: where one was compiled (graph.c), an actor's loop (loop.c), and values
 * as messages of channels (message.c). */
#ifndef SK_PY_GRAPH_H
#define SK_PY_GRAPH_H

#include "dag/loop.h"
#include "engine/channels.h"
#include "py/worker/worker.h"

/* ---- graph.c, loop.c */
int py_graph_types(PyObject *module, struct py_state *st);
extern PyMethodDef py_loop_methods[];

/* ---- message.c: for the files of this room */
#define PY_HAS_REFS 0x10000u /* in the kind of a message: there are references in the value */

/* What a writer holds for its readers: references inside messages, until all readers have passed
 * them. */
struct py_held {
    SK_VEC(struct py_held_refs {
        uint64_t version;
        PyObject *refs; /* list */
    })
    list;
};
void py_held_drop(struct py_held *h, uint64_t below); /* of versions below that */
void py_held_free(struct py_held *h);

/* The value into the channel's next message, not published yet. *len and *kind for that. -1 with an
 * exception; *rc is what the channel said, SK_OK where it is the
 * value that cannot be written. stop: asked every PY_SLICE_NS while there is no room, without the
 * GIL: true ends the wait with SK_ECANCEL; or NULL. */
struct py_written {
    uint64_t len;
    uint32_t kind;
    PyObject *refs; /* those inside: a list, or NULL */
};
int py_message_write(struct py_state *st, struct sk_chan_end *w, PyObject *v, int64_t deadline,
                     bool (*stop)(struct py_state *st), struct py_written *out, sk_rc *rc);
void py_message_publish(struct sk_chan_end *w, struct py_written *m, struct py_held *h,
                        uint32_t n_cells);

/* A message that was read. The bytes stay as long as it has them or a value shows them. */
struct py_read {
    struct sk_chan_msg m;
    PyObject *owner; /* NULL: nothing shows them */
};
/* Its value, a new reference; of an error message the exception is raised. NULL with an
 * exception. */
PyObject *py_message_value(struct py_state *st, struct sk_chan_end *e, struct py_read *r);
void py_message_done(struct sk_chan_end *e, struct py_read *r); /* after it was passed */
int py_message_types(PyObject *module, struct py_state *st);

#endif
