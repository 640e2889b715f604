/* template.h - a Template, shared by its files: the type (template.c), its definition (define.c),
 * its signature (sig.c), its call (submit.c). */
#ifndef SK_PY_TEMPLATE_H
#define SK_PY_TEMPLATE_H

#include "py/call/call.h"

enum kind { TASK, ACTOR, METHOD };

/* signature of the function, for checking arguments in the process that makes the call */
struct sig {
    PyObject *func;  /* NULL: calls are not checked */
    PyObject *names; /* a tuple, co_varnames */
    /* Indices into names, where self counts. skip: the first parameter that the caller gives;
     * n_posonly, n_pos, n_all: the ends of the positional-only, of the positional, and of all
     * parameters. */
    uint32_t skip, n_posonly, n_pos, n_all;
    uint64_t required;
    bool varargs, varkw;
};

/* Number of definitions that a template caches for other ambient environments than the present one;
 * the one used least recently is dropped. */
#define KEPT 8

struct made {         /* a cached definition, made for one ambient environment (core.h) */
    PyObject *def;    /* bytes */
    PyObject *refs;   /* references in the closure, or NULL */
    sk_fid fid;       /* 0: the open engine does not know the definition */
    uint32_t content; /* number of the ambient environment */
};

struct opts { /* the options of each call, as the user gave them */
    int32_t max_retries, max_restarts, max_task_retries;
    uint32_t stream_window, group, max_calls, max_pending;
    int32_t bundle; /* bundle of the placement group; -1: any */
    uint64_t pg;    /* placement group, 0: none */
    bool retry_exceptions;
    bool is_async, detached; /* ACTOR */
};

struct tmpl {
    PyObject_HEAD enum kind kind;
    uint32_t gen;     /* generation of the engine that knows fid and shape */
    uint32_t tick;    /* value of st->ambient.tick when the definition was sent */
    uint32_t content; /* number of the ambient environment of `def` */
    uint32_t n_kept;
    struct made *kept; /* cached definitions for other ambient environments; NULL: none yet */
    sk_fid fid;
    sk_shape shape;
    uint32_t n_returns;
    bool has_shape;
    bool named; /* METHOD: the user gave a name for the call, in place of the method's name */
    struct opts o;
    uint32_t groups[SK_GROUPS_MAX], n_groups; /* ACTOR */
    /* CAPTURES: tasks that the task submits go to its placement group. STAYS_OUT: the task does not
     * go to the placement group of the task that submits it. */
    enum { AS_IT_COMES, CAPTURES, STAYS_OUT } capture;
    uint32_t env_number;   /* number of `env`; 0: the environment of the task that submits it */
    uint32_t where_number; /* of `where`; 0: any node */
    PyObject *env;         /* bytes for the apply_env hook, or NULL */
    /* NULL, or a callable that returns why no node is allowed by the options (a str), or None */
    PyObject *unfit; /* says why no node fits, or None */
    PyObject *where; /* bytes (cluster/wheres.h), or NULL */
    /* a str: why the call can never run in this engine; NULL: it may */
    PyObject *refused;
    PyObject *actor_name, *space, *meta; /* str, str, bytes or NULL */
    struct sk_res res;
    PyObject *custom;   /* dict of custom resources or NULL */
    PyObject *target;   /* function, class, or the method's name */
    PyObject *token;    /* METHOD */
    PyObject *retry_on; /* METHOD: a pickled tuple of exception classes, or NULL */
    PyObject *base;     /* the Template that has the definition, or NULL */
    PyObject *def;      /* bytes */
    /* references in the closure, which live as long as the definition */
    PyObject *def_refs;
    PyObject *name; /* str */
    /* keyword names of the last call with keyword arguments, and their encoding */
    PyObject *kw_names, *kw_bytes;
    struct sig sig;
};

/* ---- define.c */
int py_template_prepare(struct py_state *st, struct tmpl *t);
void py_template_forget(struct tmpl *t); /* drops the cached definitions */

/* True if the definition that was sent fits the ambient environment of the program
 * (skate/calls/ambient_environment.py). It counts as changed when the sizes of sys.path or
 * os.environ have changed, or sys.path is another list; then a definition that was made for the
 * same environment before is used, else a new one is made and sent. 10 ns. */
static inline bool py_template_is_prepared(struct py_state *st, const struct tmpl *t) {
    if (st->ambient.path) {
        PyObject *path = PyDict_GetItemWithError(st->ambient.sys, st->ambient.s_path);
        bool other = path != st->ambient.path && path && PyList_Check(path);
        if (SK_UNLIKELY(other)) Py_SETREF(st->ambient.path, Py_NewRef(path));
        if (SK_UNLIKELY(other || PyList_GET_SIZE(st->ambient.path) != st->ambient.path_n ||
                        PyDict_GET_SIZE(st->ambient.environ) != st->ambient.environ_n)) {
            st->ambient.path_n = PyList_GET_SIZE(st->ambient.path);
            st->ambient.environ_n = PyDict_GET_SIZE(st->ambient.environ);
            st->ambient.tick++;
        }
    }
    return t->gen == st->gen && t->tick == st->ambient.tick;
}

/* ---- sig.c */
int py_sig_init(struct sig *s, PyObject *func, uint32_t skip);
bool py_sig_fits(const struct sig *s, size_t n_args, PyObject *kwnames);
/* Raises, by a hook, the TypeError that Python itself would raise. */
int py_sig_complain(struct py_state *st, const struct sig *s, PyObject *const *args, size_t n,
                    PyObject *kwnames);

/* ---- submit.c */
PyObject *py_template_submit(PyObject *self, PyObject *const *args, Py_ssize_t n,
                             PyObject *kwnames);

#endif
