/* collector.c - collects the references found while a value is pickled on this thread: those
 * that the value will contain. */
#include <stdlib.h>

#include "py/value/value.h"

static _Thread_local struct py_collector *collector_now;

void py_collector_push(struct py_collector *c) {
    c->outer = collector_now;
    collector_now = c;
}

void py_collector_pop(struct py_collector *c) {
    SK_ASSERT(collector_now == c); /* the collector begun last ends first */
    collector_now = c->outer;
}

/* Handles a reference in a pickle that user code made: nobody knows how long those bytes live. As
 * in Ray, the object lives as long as the engine; an exception is raised if the environment
 * variable below forbids such pickles. */
static int out_of_band(struct py_state *st, PyObject *ref) {
    if (py_ref_strict()) {
        py_raise_class(
            st, "OufOfBandObjectRefSerializationException",
            "an ObjectRef is pickled outside of arguments, results and put(): nothing would keep "
            "its object alive. Pass the ref (or a "
            "list of refs) itself, or unset RAY_allow_out_of_band_object_ref_serialization=0 to "
            "keep such objects for ever.");
        return -1;
    }
    if (!st->pinned && !(st->pinned = PySet_New(NULL))) return -1;
    return PySet_Add(st->pinned, ref);
}

bool py_ref_strict(void) {
    const char *s = getenv("RAY_allow_out_of_band_object_ref_serialization");
    return s && strcmp(s, "0") == 0;
}

int py_collector_add(struct py_state *st, PyObject *ref) {
    struct py_collector *c = collector_now;
    if (!c) return out_of_band(st, ref);
    if (!sk_vec_push(&c->refs, SK_TAG_PY, Py_NewRef(ref))) {
        Py_DECREF(ref);
        PyErr_NoMemory();
        return -1;
    }
    return 0;
}

void py_collector_cut(struct py_collector *c, uint32_t n) {
    while (c->refs.n > n) Py_DECREF(sk_vec_pop(&c->refs));
}

void py_collector_free(struct py_collector *c) {
    py_collector_cut(c, 0);
    sk_vec_free(&c->refs);
    sk_vec_free(&c->ids);
}

const sk_oid *py_collector_ids(struct py_collector *c, uint32_t from) {
    if (!sk_vec_reserve(&c->ids, SK_TAG_PY, c->refs.n + 1)) {
        PyErr_NoMemory();
        return NULL;
    }
    for (uint32_t i = from; i < c->refs.n; i++)
        c->ids.p[i].v = ((struct py_ref *)(void *)c->refs.p[i])->id;
    return c->ids.p + from;
}
