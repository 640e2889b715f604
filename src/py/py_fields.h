/* py_fields.h - arguments by a table: the name of each, where it lies in a struct of C, its type, and its value when it is not given.
 *
 * One converter for calls (f(a, b, *, c=1)) and for dicts (a configuration). None is as not given. Every error names the field. */
#ifndef SK_PY_FIELDS_H
#define SK_PY_FIELDS_H

#include "py/py_int.h"

enum py_field_type {
    PY_FIELD_BOOL,   /* bool */
    PY_FIELD_I32,    /* int32_t: an int */
    PY_FIELD_U32,    /* uint32_t: an int >= 0 */
    PY_FIELD_I64,    /* int64_t: an int */
    PY_FIELD_U64,    /* uint64_t: an int >= 0 */
    PY_FIELD_SCALED, /* int64_t: a number >= 0, times `unit`, rounded */
    PY_FIELD_AUTO,   /* the same; a negative one is as not given: the engine chooses */
    PY_FIELD_TEXT,   /* const char *: a str without a NUL, borrowed */
    PY_FIELD_BYTES,  /* struct sk_bytes: bytes, borrowed */
    PY_FIELD_OBJECT, /* PyObject *: borrowed; an instance of `of`, if that is not NULL */
};

struct py_field {
    const char *name;
    enum py_field_type type;
    size_t at;         /* in the struct */
    int64_t otherwise; /* of numbers, when it is not given; the others are 0 or NULL then */
    double unit;       /* of PY_FIELD_SCALED and _AUTO */
    PyTypeObject *of;  /* of PY_FIELD_OBJECT */
};

/* A row of a table: PY_FIELD(struct given, "name", TYPE, member[, .otherwise = ...]). */
#define PY_FIELD(in, key, kind, member, ...) {.name = key, .type = PY_FIELD_##kind, .at = offsetof(in, member), __VA_ARGS__}

struct py_fields {
    const char *what; /* for messages: the function, or the dict */
    uint32_t n;
    uint32_t n_needed; /* the first so many have to be given, and may be by position */
    const struct py_field *field;
};

/* Fills the fields of *out from positional arguments (a tuple or NULL) and named ones (a dict or NULL). -1: TypeError or ValueError; *out is half filled. */
int py_fields_read(const struct py_fields *f, PyObject *args, PyObject *named, void *out);
/* The same from a dict that may have keys of others, too. */
int py_fields_pick(const struct py_fields *f, PyObject *dict, void *out);

#endif
