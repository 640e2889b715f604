/* graph.h - compiled graphs: the process that compiled one (graph.c), an actor's loop (loop.c), and
 * values as messages of channels (message.c). */
#ifndef SK_PY_GRAPH_H
#define SK_PY_GRAPH_H

#include "dag/loop.h"
#include "engine/channels.h"
#include "py/worker/worker.h"

/* ---- graph.c, loop.c */
int py_graph_types(PyObject *module, struct py_state *st);
extern PyMethodDef py_loop_methods[];

/* ---- message.c: shared by the files of this folder ---- */
#define PY_HAS_REFS 0x10000u /* flag in the kind of a message: the value contains references */

/* References inside messages. The writer holds them until all readers have passed the messages. */
struct py_held {
    SK_VEC(struct py_held_refs {
        uint64_t version;
        PyObject *refs; /* list */
    })
    list;
};
/* Releases the references of messages with a version below `below`. */
void py_held_drop(struct py_held *h, uint64_t below);
void py_held_free(struct py_held *h);

/* A value that py_message_write has written into the channel's next message, which is not published
 * yet. The call returns 0; -1 with an exception, and the channel's result in *rc: SK_OK if the
 * value itself cannot be written. stop (or NULL) is called every PY_SLICE_NS while the channel has
 * no room, without the GIL: true ends the wait with SK_ECANCEL. */
struct py_written {
    uint64_t len;
    uint32_t kind;
    PyObject *refs; /* list of the references in the value, or NULL */
};
int py_message_write(struct py_state *st, struct sk_chan_end *w, PyObject *v, int64_t deadline,
                     bool (*stop)(struct py_state *st), struct py_written *out, sk_rc *rc);
void py_message_publish(struct sk_chan_end *w, struct py_written *m, struct py_held *h,
                        uint32_t n_cells);

/* A message that was read. Its bytes are valid until py_message_done and until no array shows
 * them. */
struct py_read {
    struct sk_chan_msg m;
    PyObject *owner; /* the Message object whose bytes arrays show; NULL: none */
};
/* Decodes the value of a message, a new reference. NULL with an exception, which an error message
 * raises. */
PyObject *py_message_value(struct py_state *st, struct sk_chan_end *e, struct py_read *r);
/* Called after the message was passed to release what *r holds. */
void py_message_done(struct sk_chan_end *e, struct py_read *r);
int py_message_types(PyObject *module, struct py_state *st);

#endif
