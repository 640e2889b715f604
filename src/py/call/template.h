/* template.h - a Template, for the files of this room: the type (template.c), its definition
 * (define.c), its signature (sig.c), a call (submit.c). */
#ifndef SK_PY_TEMPLATE_H
#define SK_PY_TEMPLATE_H

#include "py/call/call.h"

enum kind { TASK, ACTOR, METHOD };

struct sig {                                /* for checking calls where they are made */
    PyObject *func;                         /* NULL: no check */
    PyObject *names;                        /* tuple: co_varnames */
    uint32_t skip, n_posonly, n_pos, n_all; /* indices into names, self included */
    uint64_t required;
    bool varargs, varkw;
};

/* definitions of a template for other surroundings, the one that was used longest ago goes */
#define KEPT 8

struct made {         /* a definition for one kind of surroundings */
    PyObject *def;    /* bytes */
    PyObject *refs;   /* references in the closure: live as long as the definition; or NULL */
    sk_fid fid;       /* 0: this engine does not have it yet */
    uint32_t content; /* number of the surroundings */
};

struct opts { /* of every call, as they were given */
    int32_t max_retries, max_restarts, max_task_retries;
    uint32_t stream_window, group, max_calls, max_pending;
    int32_t bundle; /* of the placement group, -1: any */
    uint64_t pg;    /* placement group, 0: none */
    bool retry_exceptions;
    bool is_async, detached; /* ACTOR */
};

struct tmpl {
    PyObject_HEAD enum kind kind;
    uint32_t gen;     /* fid and shape are known to this engine */
    uint32_t tick;    /* of st->around, when it was sent */
    uint32_t content; /* of the surroundings that `def` is for */
    uint32_t n_kept;
    struct made *kept; /* the definitions for others; NULL: there were none */
    sk_fid fid;
    sk_shape shape;
    uint32_t n_returns;
    bool has_shape;
    bool named; /* METHOD: another name than that of the method */
    struct opts o;
    uint32_t groups[SK_GROUPS_MAX], n_groups; /* ACTOR */
    /* what it submits goes to its group; it does not go to that of who submits it */
    enum { AS_IT_COMES, CAPTURES, STAYS_OUT } capture;
    uint32_t env_number; /* of `env`; 0: that of who submits it */
    PyObject *env;       /* bytes for the apply_env hook, or NULL */
    /* says why its options let it run nowhere (a str, or None), or NULL */
    PyObject *unfit;
    /* str: why it can never run in this engine; or NULL */
    PyObject *refused;
    PyObject *actor_name, *space, *meta; /* str, str, bytes or NULL */
    struct sk_res res;
    PyObject *custom;              /* dict of custom resources or NULL */
    PyObject *target;              /* function, class, or the method's name */
    PyObject *token;               /* METHOD */
    PyObject *retry_on;            /* METHOD: a pickled tuple of exception classes, or NULL */
    PyObject *base;                /* Template that has the definition, or NULL */
    PyObject *def;                 /* bytes */
    PyObject *def_refs;            /* references in the closure: live as long as the definition */
    PyObject *name;                /* str */
    PyObject *kw_names, *kw_bytes; /* of the last call site with keywords */
    struct sig sig;
};

/* ---- define.c */
int py_template_prepare(struct py_state *st, struct tmpl *t);
void py_template_forget(struct tmpl *t); /* its definitions for other surroundings */

/* What the program has around itself (skate/ambient_environment.py) is another since a function was
 * sent, as far as sizes tell, or it has another list for sys.path: what was sent with the same
 * before is used, else it is sent again, with that. 10 ns. */
static inline bool py_template_is_prepared(struct py_state *st, const struct tmpl *t) {
    if (st->around.path) {
        PyObject *path = PyDict_GetItemWithError(st->around.sys, st->around.s_path);
        bool other = path != st->around.path && path && PyList_Check(path);
        if (SK_UNLIKELY(other)) Py_SETREF(st->around.path, Py_NewRef(path));
        if (SK_UNLIKELY(other || PyList_GET_SIZE(st->around.path) != st->around.path_n ||
                        PyDict_GET_SIZE(st->around.environ) != st->around.environ_n)) {
            st->around.path_n = PyList_GET_SIZE(st->around.path);
            st->around.environ_n = PyDict_GET_SIZE(st->around.environ);
            st->around.tick++;
        }
    }
    return t->gen == st->gen && t->tick == st->around.tick;
}

/* ---- sig.c */
int py_sig_init(struct sig *s, PyObject *func, uint32_t skip);
bool py_sig_fits(const struct sig *s, size_t n_args, PyObject *kwnames);
/* The hook raises the TypeError that Python itself would raise. */
int py_sig_complain(struct py_state *st, const struct sig *s, PyObject *const *args, size_t n,
                    PyObject *kwnames);

/* ---- submit.c */
PyObject *py_template_submit(PyObject *self, PyObject *const *args, Py_ssize_t n,
                             PyObject *kwnames);

#endif
