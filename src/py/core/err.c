/* err.c - the only place where a result code becomes a Python exception class.
 *
 * Not here: the classes (skate/exceptions.py, looked up at the first error) and the messages
 * (made where the error occurs). Cost: errors only. */
#include <stdio.h>

#include "engine/view.h"
#include "py/core/core.h"

static const struct {
    sk_rc rc;
    const char *name;
} CLASS_OF[] = {
    /* names in skate.exceptions */
    {SK_EIO, "RaySystemError"},
    {SK_ENOSPC, "OutOfDiskError"},
    {SK_EFULL, "ObjectStoreFullError"},
    {SK_ETIMEOUT, "GetTimeoutError"},
    {SK_EAGAIN, "RaySystemError"},
    {SK_EDEAD, "WorkerCrashedError"},
    {SK_ETASK, "RayTaskError"},
    {SK_ELOST, "ObjectLostError"},
    {SK_ECANCEL, "TaskCancelledError"},
    {SK_ECORRUPT, "RaySystemError"},
    {SK_EINFEASIBLE, "TaskUnschedulableError"},
    {SK_ECLOSED, "RaySystemError"},
    {SK_EACTOR, "ActorDiedError"},
    {SK_ESTALL, "RaySystemError"},
    {SK_EEXIST, "ActorAlreadyExistsError"},
    {SK_EGROUP, "TaskPlacementGroupRemoved"},
    {SK_EUNAVAIL, "ActorUnavailableError"},
    {SK_EPENDING, "PendingCallsLimitExceeded"},
    {SK_EOOM, "OutOfMemoryError"},
};

PyObject *py_class(struct py_state *st, const char *name) {
    if (!st->exceptions && !(st->exceptions = PyImport_ImportModule("skate.exceptions")))
        return NULL;
    return PyObject_GetAttrString(st->exceptions, name);
}

void py_raise_class(struct py_state *st, const char *name, const char *msg) {
    PyObject *cls = py_class(st, name);
    PyObject *text = cls ? py_text(msg) : NULL;
    if (text) PyErr_SetObject(cls, text);
    Py_XDECREF(text);
    Py_XDECREF(cls);
}

/* Returns the exception class of a result code; a new reference, or NULL with an exception. */
static PyObject *class_of(struct py_state *st, sk_rc rc) {
    PyObject *builtin = rc == SK_ENOMEM                      ? PyExc_MemoryError
                        : rc == SK_EINVAL || rc == SK_ENOENT ? PyExc_ValueError
                        : rc == SK_ENOSYS                    ? PyExc_NotImplementedError
                        : rc == SK_ERANGE                    ? PyExc_OverflowError
                                                             : NULL;
    if (builtin) return Py_NewRef(builtin);
    const char *name = "RaySystemError";
    for (size_t i = 0; i < SK_COUNT(CLASS_OF); i++)
        if (CLASS_OF[i].rc == rc) name = CLASS_OF[i].name;
    return py_class(st, name);
}

enum { STORY_LINES = 11 };

/* Shortens, in place, the text that Python's fault handler wrote when a process died: at most
 * STORY_LINES lines stay, without frames of skate. */
static void short_story(struct py_state *st, char *msg) {
    PyObject *home = py_folder(st);
    const char *ours = home ? PyUnicode_AsUTF8(home) : NULL;
    size_t n_ours = ours ? strlen(ours) : 0, lines = 0, left_out = 0;
    if (!ours) PyErr_Clear(); /* on failure the longer text is used */
    static const char frame[] = "  File \"";
    char *out = msg, *next;
    for (char *line = msg; *line; line = next) {
        char *end = strchr(line, '\n');
        size_t n = end ? (size_t)(end - line) : strlen(line);
        next = line + n + (end != NULL);
        const char *file =
            strncmp(line, frame, sizeof frame - 1) == 0 ? line + sizeof frame - 1 : NULL;
        if (n == 0 || strncmp(line, "Extension modules:", 18) == 0 ||
            (file && n_ours && strncmp(file, ours, n_ours) == 0) ||
            (file && strncmp(file, "<string>\", line 1 in <module>", 28) == 0) ||
            /* the line was cut off by the limit of the text */
            (file && !end && !memmem(line, n, " in ", 4)))
            continue;
        if (lines++ >= STORY_LINES) {
            left_out++;
            continue;
        }
        if (out != msg) *out++ = '\n';
        memmove(out, line, n);
        out += n;
    }
    *out = 0;
    if (left_out) snprintf(out, 8, "\n  ..."); /* this fits, since the omitted lines are longer */
}

PyObject *py_text(const char *s) {
    return PyUnicode_DecodeUTF8(s, (Py_ssize_t)strlen(s), "replace");
}

/* Makes the exception object; NULL with another exception set. */
static PyObject *error_new(struct py_state *st, sk_rc rc, const char *msg) {
    PyObject *cls = class_of(st, rc);
    if (!cls) return NULL;
    char story[2048];
    if ((rc == SK_EDEAD || rc == SK_EACTOR) && strstr(msg, "\nFatal Python error: ")) {
        snprintf(story, sizeof story, "%s", msg);
        short_story(st, story);
        msg = story;
    }
    PyObject *text = py_text(msg);
    PyObject *e = text ? PyObject_CallOneArg(cls, text) : NULL;
    Py_XDECREF(text);
    Py_DECREF(cls);
    return e;
}

/* Returns the error message for the child of a fork that uses an object of its parent; in the child
 * the engine counts as closed. */
static const char *of_parent(const struct py_state *st, char *buf, size_t n) {
    if (st->stray)
        snprintf(buf, n,
                 "process %d was forked by a task (of worker process %d), and only the task itself "
                 "can use skate: get the child's inputs before "
                 "the fork and put its results in the task, or start it by "
                 "multiprocessing.get_context(\"spawn\")",
                 (int)getpid(), (int)st->forked_from);
    else
        snprintf(buf, n,
                 "process %d was forked from the driver, process %d: what that one's engine holds "
                 "can be had there only, before the fork",
                 (int)getpid(), (int)st->forked_from);
    return buf;
}

PyObject *py_raise(struct py_state *st, sk_rc rc, const struct sk_err *err) {
    char buf[400];
    const char *msg = err && err->msg[0] ? err->msg : sk_rc_name(rc);
    if (rc == SK_ECLOSED && (st->stray || (st->forked_from && !st->engine)))
        msg = of_parent(st, buf, sizeof buf);
    PyObject *e = error_new(st, rc, msg);
    if (e) {
        PyErr_SetObject((PyObject *)Py_TYPE(e), e);
        Py_DECREF(e);
    }
    return NULL;
}

void py_raise_value(struct py_state *st, const struct sk_view *v) {
    PyObject *e = NULL;
    if (v->kind == SK_KIND_ENGINE_ERROR && v->len >= 5) {
        int32_t code;
        memcpy(&code, v->data, 4);
        char msg[2048]; /* the text may have no NUL at its end */
        size_t n = SK_MIN(v->len - 4, sizeof msg - 1);
        memcpy(msg, v->data + 4, n);
        msg[n] = 0;
        e = error_new(st, code, msg);
    } else if (st->hook_load_error) {
        PyObject *kind = PyLong_FromUnsignedLong(v->kind);
        PyObject *bytes = PyBytes_FromStringAndSize((const char *)v->data, (Py_ssize_t)v->len);
        if (kind && bytes) e = PyObject_CallFunctionObjArgs(st->hook_load_error, kind, bytes, NULL);
        Py_XDECREF(kind);
        Py_XDECREF(bytes);
    } else {
        PyErr_Format(PyExc_RuntimeError, "a task failed (value of kind %u)", v->kind);
    }
    if (!e) return;
    if (PyExceptionInstance_Check(e)) PyErr_SetObject((PyObject *)Py_TYPE(e), e);
    else PyErr_Format(PyExc_TypeError, "load_error gave %R, not an exception", e);
    Py_DECREF(e);
}

/* Copies the first line of a text to `to`, at most cap - 1 bytes; nothing if it is no text. Takes
 * the reference. */
static void first_line(PyObject *text, char *to, size_t cap) {
    const char *s = text && PyUnicode_Check(text) ? PyUnicode_AsUTF8(text) : NULL;
    if (s) (void)snprintf(to, cap, "%.*s", (int)strcspn(s, "\n"), s);
    Py_XDECREF(text);
    PyErr_Clear(); /* an exception that has no such text */
}

/* Copies the id of `skate replay ID` in a text, as data/worker/task.py writes it. Takes the
 * reference. */
static void replay_id(PyObject *text, char *to, size_t cap) {
    static const char before[] = "`skate replay ";
    const char *s = text && PyUnicode_Check(text) ? PyUnicode_AsUTF8(text) : NULL;
    const char *id = s ? strstr(s, before) : NULL;
    if (id) id += sizeof before - 1;
    if (id) (void)snprintf(to, cap, "%.*s", (int)strcspn(id, "` "), id);
    Py_XDECREF(text);
    PyErr_Clear();
}

static void describe(PyObject *e, struct sk_view_error *out) {
    PyObject *cause = PyObject_GetAttrString(e, "cause"); /* of an error of a task's function */
    PyErr_Clear();
    PyObject *text = PyObject_Str(e);
    PyErr_Clear();
    if (cause && PyExceptionInstance_Check(cause))
        first_line(PyUnicode_FromFormat("%s: %S", Py_TYPE(cause)->tp_name, cause), out->text,
                   sizeof out->text);
    else first_line(Py_XNewRef(text), out->text, sizeof out->text);
    Py_XDECREF(cause);
    first_line(PyObject_GetAttrString(e, "function_name"), out->op, sizeof out->op);
    replay_id(text, out->replay, sizeof out->replay);
}

void py_show_raised(struct py_state *st) {
    struct sk_view_error shown = {0};
    PyObject *type, *e, *tb;
    if (!st->driver || !st->engine || st->closing || !st->engine->view) return;
    PyErr_Fetch(&type, &e, &tb);
    PyErr_NormalizeException(&type, &e, &tb);
    if (e) describe(e, &shown);
    if (shown.text[0] && st->engine && !st->closing) { /* describe may run code of the user */
        PY_DROP(st)
        st->engine->view->error(st->engine, &shown);
        PY_TAKE(st)
    }
    PyErr_Restore(type, e, tb);
}

sk_rc py_to_err(struct sk_err *err, const char *what) {
    PyObject *type, *value, *tb;
    PyErr_Fetch(&type, &value, &tb);
    PyErr_NormalizeException(&type, &value, &tb);
    PyObject *text = value ? PyObject_Str(value) : NULL;
    const char *s = text ? PyUnicode_AsUTF8(text) : NULL;
    sk_rc rc = SK_ERR(
        err, type && PyErr_GivenExceptionMatches(type, PyExc_MemoryError) ? SK_ENOMEM : SK_ETASK,
        "%s: %s: %s", what, type ? ((PyTypeObject *)type)->tp_name : "?", s ? s : "?");
    PyErr_Clear();
    Py_XDECREF(text);
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(tb);
    return rc;
}
