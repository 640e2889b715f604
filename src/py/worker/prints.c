/* prints.c - the prints of tasks. A worker puts the name of the task in front of each line; the
 * driver gives the lines to Python, which shows them.
 *
 * A worker's sys.stdout and sys.stderr write through say(): whole lines at once, in one write of at
 * most PIPE_BUF bytes, which the kernel keeps in one piece. A line without an end is buffered until
 * its end is printed, it is flushed, or its task ends. Cost: 0.5 us a piece of text and a system
 * call a print; nothing for a task that prints nothing.
 *
 * Not here: the pipes and the lines in the driver (engine/local/wire/prints.c), showing them
 * (python/skate/terminal/prints.py). */
#include <errno.h>
#include <poll.h>
#include <unistd.h>

#include "py/worker/worker.h"

#define PIECE 4096 /* PIPE_BUF */
#define LABEL_MOST 200

/* ---- in the driver: showing lines ------------------------------------------------------------ */

struct sk_prints *py_prints_open(bool none) {
    struct sk_prints *p = NULL;
    PY_ERR(err);
    if (sk_prints_open(none, &p, &err) != SK_OK) PyErr_SetString(PyExc_OSError, err.msg);
    return p;
}

/* Shows the lines that were printed. An exception of a signal handler that runs meanwhile
 * (KeyboardInterrupt) replaces an exception that was set before. */
bool py_prints_show(struct py_state *st) {
    PyObject *t, *v, *tb;
    PyErr_Fetch(&t, &v, &tb);
    PyObject *r = st->hook_prints ? PyObject_CallNoArgs(st->hook_prints) : Py_NewRef(Py_None);
    if (!r && !PyErr_ExceptionMatches(PyExc_Exception)) {
        Py_XDECREF(t);
        Py_XDECREF(v);
        Py_XDECREF(tb);
        return false;
    }
    if (!r) PyErr_WriteUnraisable(st->module);
    Py_XDECREF(r);
    PyErr_Restore(t, v, tb);
    return true;
}

static PyObject *m_prints_wait(PyObject *module, PyObject *ms) {
    struct py_state *st = PyModule_GetState(module);
    long pause = PyLong_AsLong(ms);
    struct sk_prints *p = st->prints;
    bool more;
    if (pause == -1 && PyErr_Occurred()) return NULL;
    if (!p) Py_RETURN_FALSE;
    Py_BEGIN_ALLOW_THREADS more = sk_prints_wait(p, (int)pause);
    Py_END_ALLOW_THREADS return PyBool_FromLong(more);
}

struct taken {
    SK_VEC(char) text; /* text of successive lines for the same stream */
    PyObject *list;
    int to;
    bool labels;
};

static void end_text(struct taken *k) {
    PyObject *item = k->list && k->text.n
                         ? Py_BuildValue("(iy#)", k->to, k->text.p, (Py_ssize_t)k->text.n)
                         : NULL;
    if (k->text.n && (!item || PyList_Append(k->list, item) < 0)) Py_CLEAR(k->list);
    Py_XDECREF(item);
    k->text.n = 0;
}

static void take_line(void *ctx, int to, const char *label, const char *text, size_t n) {
    struct taken *k = ctx;
    size_t m = k->labels ? strlen(label) : 0;
    if (to != k->to) end_text(k);
    k->to = to;
    if (!sk_vec_reserve(&k->text, SK_TAG_PY, (uint64_t)k->text.n + m + n + 1)) return;
    memcpy(k->text.p + k->text.n, label, m);
    memcpy(k->text.p + k->text.n + m, text, n);
    k->text.n += (uint32_t)(m + n + 1);
    k->text.p[k->text.n - 1] = '\n';
}

static PyObject *m_prints_take(PyObject *module, PyObject *args) {
    struct py_state *st = PyModule_GetState(module);
    int last, labels;
    if (!PyArg_ParseTuple(args, "pp", &last, &labels)) return NULL;
    struct taken k = {.list = PyList_New(0), .labels = labels};
    if (k.list && st->prints) sk_prints_take(st->prints, last, take_line, &k);
    end_text(&k);
    sk_vec_free(&k.text);
    return k.list;
}

static PyObject *m_prints_end(PyObject *module, PyObject *unused SK_UNUSED) {
    struct py_state *st = PyModule_GetState(module);
    if (!st->prints || sk_prints_end(st->prints)) Py_RETURN_TRUE;
    /* the memory is not freed, since the thread that shows lines still uses it */
    st->prints = NULL;
    Py_RETURN_FALSE;
}

static PyObject *m_prints_close(PyObject *module, PyObject *unused SK_UNUSED) {
    struct py_state *st = PyModule_GetState(module);
    struct sk_prints *p = st->prints;
    st->prints = NULL;
    sk_prints_close(p);
    Py_RETURN_NONE;
}

/* ---- in a worker: collecting lines ----------------------------------------------------------- */

bool py_to_tidy;
static bool debugged; /* true if a debugger in the task has used the terminal */

static struct out { /* buffers of stdout and stderr */
    char buf[PIECE];
    uint32_t n; /* number of bytes that were not written yet */
    bool open;  /* a line has begun and has not ended, in this buffer or in the pipe */
} outs[2];

static struct {
    uint64_t task, actor; /* the task or actor to which the label belongs */
    char text[LABEL_MOST];
    bool none, busy;
} label = {.text = "(pid=?) "};

static void set_label(const char *name) {
    int n = snprintf(label.text, sizeof label.text, "(%.*s%spid=%d) ",
                     (int)SK_MIN(strlen(name), (size_t)LABEL_MOST - 40), name, *name ? " " : "",
                     (int)getpid());
    for (int i = 0; i < n && i < LABEL_MOST; i++)
        if ((unsigned char)label.text[i] < ' ') label.text[i] = ' ';
}

/* Makes the label of an actor, as in Ray: its repr() if its class defines one, else the name of the
 * class. */
static void label_actor(struct py_state *st, const struct sk_task *t) {
    PyObject *self = t->is_actor_init ? NULL : sk_map_get(&st->actors, t->actor.v), *text = NULL;
    const struct py_fn *f = self ? NULL : sk_map_get(&st->fns, t->fn.v);
    PyTypeObject *type = self ? Py_TYPE(self)
                         : f && f->callable && PyType_Check(f->callable)
                             ? (PyTypeObject *)f->callable
                             : NULL;
    if (self && type->tp_repr != PyBaseObject_Type.tp_repr && !label.busy) {
        label.busy = true; /* keeps the label unchanged while repr() runs, which may print */
        text = PyObject_Repr(self);
        label.busy = false;
    }
    const char *s = text ? PyUnicode_AsUTF8(text) : NULL;
    if (!s) PyErr_Clear();
    set_label(s ? s : type ? type->tp_name : t->name);
    Py_XDECREF(text);
    label.actor = self ? t->actor.v : 0;
}

static const char *label_now(struct py_state *st) {
    const struct sk_task *t = py_current_task();
    if (label.none) return "";
    /* on a thread that user code started, the label is that of the process's task or actor */
    if (!t) {
        struct sk_look all;
        struct sk_look_worker row;
        size_t n;
        if (label.actor || !sk_look_self(&all, &row, 1, &n) || !n || !row.task ||
            row.task == label.task)
            return label.text;
        label.task = row.task;
        set_label(row.name);
        return label.text;
    }
    if (t->id.v == label.task || (t->actor.v && t->actor.v == label.actor)) return label.text;
    label.task = t->id.v;
    label.actor = 0;
    if (t->actor.v) label_actor(st, t);
    else set_label(t->name);
    return label.text;
}

/* Writes the buffered text to the pipe. -1 with an exception that a signal handler raised; the rest
 * of the text is dropped then. */
static int write_out(struct out *o) {
    /* the text is copied, since other threads may print while this one waits for room in the
     * pipe */
    char piece[PIECE];
    ssize_t n = (ssize_t)o->n, did;
    int fd = o == outs ? STDOUT_FILENO : STDERR_FILENO, e;
    if (!n) return 0;
    memcpy(piece, o->buf, (size_t)n);
    o->n = 0;
    for (const char *p = piece; n > 0;) {
        Py_BEGIN_ALLOW_THREADS did = write(fd, p, (size_t)n);
        e = errno;
        if (did < 0 && e == EAGAIN) { /* a child program has set O_NONBLOCK on the pipe */
            struct pollfd room = {.fd = fd, .events = POLLOUT};
            (void)poll(&room, 1, -1);
        }
        Py_END_ALLOW_THREADS if (did > 0) {
            p += did;
            n -= did;
        }
        else if (e == EINTR) {
            if (PyErr_CheckSignals() < 0) return -1;
        }
        else if (e != EAGAIN) break; /* the pipe has no reader any more */ }
    sk_prints_done();
    return 0;
}

static int add(struct out *o, const char *p, size_t n) {
    while (n) {
        if (o->n == PIECE && write_out(o) < 0) return -1;
        size_t k = SK_MIN(n, (size_t)(PIECE - o->n));
        memcpy(o->buf + o->n, p, k);
        o->n += (uint32_t)k;
        p += k;
        n -= k;
    }
    return 0;
}

static int say(struct py_state *st, int to, const char *p, size_t n) {
    struct out *o = &outs[to - 1];
    bool first = true, own = false, joined = false;
    while (n) {
        if (!o->open) {
            if (first) own = sk_prints_own(to, &joined);
            first = false;
            const char *head = own ? label_now(st) : "";
            size_t m = strlen(head);
            if (o->n + 2 + m > PIECE && write_out(o) < 0) return -1;
            if ((own && joined && add(o, SK_PRINTS_MARK, 2) < 0) || add(o, head, m) < 0) return -1;
            o->open = true;
        }
        const char *end = memchr(p, '\n', n);
        size_t k = end ? (size_t)(end - p) + 1 : n;
        /* what is buffered is written first, if that keeps the line in one write */
        if (end && o->n + k > PIECE && k <= PIECE && write_out(o) < 0) return -1;
        if (add(o, p, k) < 0) return -1;
        o->open = !end;
        p += k;
        n -= k;
    }
    py_to_tidy |= o->open;
    return o->open ? 0 : write_out(o);
}

static PyObject *m_say(PyObject *module, PyObject *const *args, Py_ssize_t n) {
    struct py_state *st = PyModule_GetState(module);
    Py_buffer b;
    long to = n == 2 ? PyLong_AsLong(args[0]) : 0;
    if (to != 1 && to != 2) return PyErr_Format(PyExc_TypeError, "say(1 or 2, bytes)");
    if (PyObject_GetBuffer(args[1], &b, PyBUF_SIMPLE) < 0) return NULL;
    int r = say(st, (int)to, b.buf, (size_t)b.len);
    Py_ssize_t len = b.len;
    PyBuffer_Release(&b);
    return r < 0 ? NULL : PyLong_FromSsize_t(len);
}

static PyObject *m_say_now(PyObject *module SK_UNUSED, PyObject *to) {
    long i = PyLong_AsLong(to);
    if (i != 1 && i != 2) return PyErr_Format(PyExc_TypeError, "say_now(1 or 2)");
    if (write_out(&outs[i - 1]) < 0) return NULL;
    Py_RETURN_NONE;
}

/* Called when a task has ended: ends its unfinished lines, and releases the terminal if the task
 * has locked it. */
void py_tidy(struct py_state *st) {
    py_to_tidy = false;
    for (int i = 0; i < 2; i++) {
        if (outs[i].open && (add(&outs[i], "\n", 1) < 0 || write_out(&outs[i]) < 0)) PyErr_Clear();
        outs[i].open = false;
    }
    if (debugged) PyEval_SetTrace(NULL, NULL); /* otherwise pdb would step into this hook */
    debugged = false;
    PyObject *r = st->hook_task_over ? PyObject_CallNoArgs(st->hook_task_over) : Py_NewRef(Py_None);
    if (!r) PyErr_WriteUnraisable(st->module);
    Py_XDECREF(r);
}

static PyObject *m_tidy_later(PyObject *module SK_UNUSED, PyObject *unused SK_UNUSED) {
    py_to_tidy = debugged = true;
    Py_RETURN_NONE;
}

static PyObject *m_prints_begin(PyObject *module SK_UNUSED, PyObject *labels) {
    int on = PyObject_IsTrue(labels);
    if (on < 0) return NULL;
    label.none = !on;
    set_label("");
    Py_RETURN_NONE;
}

static PyObject *m_plain(PyObject *module SK_UNUSED, PyObject *fd) {
    long i = PyLong_AsLong(fd);
    if (i != 1 && i != 2) return PyErr_Format(PyExc_TypeError, "plain(1 or 2)");
    return PyLong_FromLong(sk_prints_plain((int)i));
}

static PyObject *m_terminal(PyObject *module, PyObject *args) {
    struct py_state *st = PyModule_GetState(module);
    int take, wait;
    long r;
    if (!PyArg_ParseTuple(args, "pp", &take, &wait)) return NULL;
    if (!st->worker && !st->prints) return PyLong_FromLong(0);
    struct sk_prints *p = st->prints;
    if (p) { /* the lock belongs to the process, so other threads of the process share it */
        static uint32_t n_have;
        if (!take && --n_have) return PyLong_FromLong(0);
        r = take && n_have ? 0 : sk_prints_terminal(p, take, false);
        n_have += take && !r;
        return PyLong_FromLong(r);
    }
    if (!wait) return PyLong_FromLong(sk_prints_terminal(NULL, take, false));
    do {
        Py_BEGIN_ALLOW_THREADS r = sk_prints_terminal(NULL, take, true);
        Py_END_ALLOW_THREADS
    } while (r && PyErr_CheckSignals() == 0);
    return r ? NULL : PyLong_FromLong(0);
}

PyMethodDef py_prints_methods[] = {
    {"prints_wait", m_prints_wait, METH_O,
     "prints_wait(pause in ms): until workers have printed something; False: it is over."},
    {"prints_take", m_prints_take, METH_VARARGS,
     "prints_take(last, labels): [(1 or 2, whole lines)]."},
    {"prints_end", m_prints_end, METH_NOARGS, "Ends a prints_wait()."},
    {"prints_close", m_prints_close, METH_NOARGS, "After the engine is closed, and all is taken."},
    {"prints_begin", m_prints_begin, METH_O, "prints_begin(labels): in a fresh worker."},
    {"say", (PyCFunction)(void (*)(void))m_say, METH_FASTCALL,
     "say(1 or 2, bytes): prints them, line by line."},
    {"say_now", m_say_now, METH_O, "say_now(1 or 2): also what has no end yet."},
    {"tidy_later", m_tidy_later, METH_NOARGS, "The task_over hook is called when this task ends."},
    {"plain", m_plain, METH_O,
     "plain(1 or 2): in a worker, a descriptor of what the driver has there; -1: the process's "
     "own."},
    {"terminal", m_terminal, METH_VARARGS,
     "terminal(take, wait): 0, or the pid of the process that has it; wait: workers only."},
    {NULL, NULL, 0, NULL},
};
