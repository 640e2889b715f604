/* watch.c - Watcher: a file descriptor that becomes readable when an object exists, or when a
 * stream has an item. One Watcher serves any number of objects and streams: an event loop adds it
 * to its selector, or a thread sleeps on it, so that no thread per object is needed.
 *
 * Not here: futures (skate/ref.py). Invariant: an entry is in `pending` while the engine has its
 * watch, then in `ready` until take() returns it; each entry holds the watcher. The engine calls
 * `fired` without the GIL; `fired` touches only the two lists, under mu. Cost: one allocation and
 * one message an object. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/containers/list.h"
#include "engine/streams.h"
#include "engine/watch.h"
#include "py/call/call.h"

struct watcher {
    PyObject_HEAD int fd;
    pthread_mutex_t mu;
    struct sk_list pending, ready;
    uint32_t gen;
};

struct entry {
    struct sk_watch watch;
    struct sk_list link;
    struct watcher *of; /* a counted reference */
    /* what: the ObjectRef or generator, which the entry keeps alive; tag: the object that take()
     * returns */
    PyObject *what, *tag;
};

static void fired(struct sk_watch *w) {
    struct entry *e = sk_container_of(w, struct entry, watch);
    uint64_t one = 1;
    pthread_mutex_lock(&e->of->mu);
    bool first = sk_list_empty(&e->of->ready);
    sk_list_del(&e->link);
    sk_list_push_back(&e->of->ready, &e->link);
    /* a full counter does not matter: the descriptor is readable anyway */
    if (first && write(e->of->fd, &one, sizeof one) < 0) SK_ASSERT(errno == EAGAIN);
    pthread_mutex_unlock(&e->of->mu);
}

static void entry_free(struct entry *e) {
    Py_DECREF(e->what);
    Py_DECREF(e->tag);
    Py_DECREF((PyObject *)e->of);
    sk_free(e);
}

static PyObject *watcher_new(PyTypeObject *type, PyObject *args, PyObject *kw) {
    static char *names[] = {NULL};
    if (!PyArg_ParseTupleAndKeywords(args, kw, ":Watcher", names)) return NULL;
    int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (fd < 0) return PyErr_SetFromErrno(PyExc_OSError);
    struct watcher *w = PyObject_New(struct watcher, type);
    if (!w) {
        close(fd);
        return NULL;
    }
    w->fd = fd;
    w->gen = py_state_of(type)->gen;
    pthread_mutex_init(&w->mu, NULL);
    sk_list_init(&w->pending);
    sk_list_init(&w->ready);
    return (PyObject *)w;
}

/* both lists are empty here, since each entry holds the watcher */
static void watcher_dealloc(PyObject *o) {
    struct watcher *w = (struct watcher *)(void *)o;
    PyTypeObject *type = Py_TYPE(o);
    close(w->fd);
    pthread_mutex_destroy(&w->mu);
    PyObject_Free(o);
    Py_DECREF(type);
}

/* Waits for the object or stream itself: an engine that runs tasks in its callers has no other
 * thread that could. */
static int wait_here(struct py_state *st, sk_oid oid, sk_tid stream) {
    PY_ERR(err);
    bool ready;
    sk_rc rc;
    PY_DROP(st)
    rc = oid.v ? st->engine->ops->wait(st->engine, &oid, 1, 1, INT64_MAX, &ready, &err)
               : st->engine->streams->wait(st->engine, stream, INT64_MAX, &err);
    PY_TAKE(st)
    if (rc == SK_OK || rc == SK_EDONE) return 0;
    py_raise(st, rc, &err);
    return -1;
}

static PyObject *watcher_add(PyObject *self, PyObject *args) {
    struct watcher *w = (struct watcher *)(void *)self;
    struct py_state *st = py_state_of(Py_TYPE(self));
    PyObject *what, *tag;
    sk_oid oid = {0};
    sk_tid stream = {0};
    PY_ERR(err);
    if (!PyArg_ParseTuple(args, "OO", &what, &tag) || py_ensure(st) < 0) return NULL;
    if (py_ref_check(st, what)) {
        if (!py_ref_alive(st, what)) return NULL;
        oid.v = ((struct py_ref *)(void *)what)->id;
    } else if (Py_TYPE(what) == st->gen_type) {
        if (!py_gen_stream(st, what, &stream)) {
            if (PyErr_Occurred()) return NULL;
            Py_RETURN_TRUE; /* all values of the stream were read */
        }
    } else {
        return PyErr_Format(PyExc_TypeError, "add(ObjectRef or ObjectRefGenerator, tag)");
    }
    if (!st->engine->watch) {
        if (wait_here(st, oid, stream) < 0) return NULL;
        Py_RETURN_TRUE;
    }
    struct entry *e = sk_calloc(SK_TAG_PY, sizeof *e);
    if (!e) return PyErr_NoMemory();
    *e = (struct entry){
        .watch = {.fn = fired}, .of = w, .what = Py_NewRef(what), .tag = Py_NewRef(tag)};
    Py_INCREF(self);
    w->gen = st->gen;
    pthread_mutex_lock(&w->mu);
    sk_list_push_back(&w->pending, &e->link);
    pthread_mutex_unlock(&w->mu);
    sk_rc rc = st->engine->watch->add(st->engine, oid, stream, &e->watch, &err);
    if (rc == SK_OK) Py_RETURN_FALSE;
    pthread_mutex_lock(&w->mu);
    sk_list_del(&e->link);
    pthread_mutex_unlock(&w->mu);
    entry_free(e);
    if (rc == SK_EDONE) Py_RETURN_TRUE;
    return py_raise(st, rc, &err);
}

static PyObject *watcher_take(PyObject *self, PyObject *unused SK_UNUSED) {
    struct watcher *w = (struct watcher *)(void *)self;
    struct sk_list got;
    uint64_t n;
    sk_list_init(&got);
    pthread_mutex_lock(&w->mu);
    sk_list_splice(&got, &w->ready);
    /* The descriptor is EFD_NONBLOCK: the read cannot block.
     * NOLINTNEXTLINE(clang-analyzer-unix.BlockInCriticalSection) */
    if (read(w->fd, &n, sizeof n) < 0) SK_ASSERT(errno == EAGAIN);
    pthread_mutex_unlock(&w->mu);
    PyObject *list = PyList_New(0);
    Py_INCREF(self); /* the last entry may hold the last reference */
    while (!sk_list_empty(&got)) {
        struct entry *e = sk_container_of(got.next, struct entry, link);
        sk_list_del(&e->link);
        PyObject *pair = list ? PyTuple_Pack(2, e->what, e->tag) : NULL;
        if (list && (!pair || PyList_Append(list, pair) < 0)) Py_CLEAR(list);
        Py_XDECREF(pair);
        entry_free(e);
    }
    Py_DECREF(self);
    return list;
}

static PyObject *watcher_wait(PyObject *self, PyObject *timeout) {
    struct watcher *w = (struct watcher *)(void *)self;
    double s = timeout == Py_None ? -1 : PyFloat_AsDouble(timeout);
    if (s == -1.0 && PyErr_Occurred()) return NULL;
    int64_t deadline = py_deadline(timeout == Py_None ? -1 : s < 0 ? 0 : s, sk_now_ns());
    for (;;) { /* wait in slices, since a signal may have gone to another thread */
        int64_t left = deadline == INT64_MAX ? PY_SLICE_NS
                                             : SK_MIN(deadline - sk_now_ns(), (int64_t)PY_SLICE_NS);
        struct pollfd p = {.fd = w->fd, .events = POLLIN};
        int n = 0;
        Py_BEGIN_ALLOW_THREADS struct timespec ts = {0, (long)SK_MAX(left, 0)};
        n = ppoll(&p, 1, &ts, NULL);
        Py_END_ALLOW_THREADS if (n > 0) Py_RETURN_TRUE;
        if (n < 0 && errno != EINTR) return PyErr_SetFromErrno(PyExc_OSError);
        if (PyErr_CheckSignals() < 0) return NULL;
        if (sk_now_ns() >= deadline) Py_RETURN_FALSE;
    }
}

static PyObject *watcher_close(PyObject *self, PyObject *unused SK_UNUSED) {
    struct watcher *w = (struct watcher *)(void *)self;
    struct py_state *st = py_state_of(Py_TYPE(self));
    Py_INCREF(self);
    for (;;) {
        pthread_mutex_lock(&w->mu);
        struct sk_list *first = sk_list_first(&w->pending);
        struct entry *e = first ? sk_container_of(first, struct entry, link) : NULL;
        pthread_mutex_unlock(&w->mu);
        /* a closed engine has fired all watches */
        if (!e || !st->engine || w->gen != st->gen) break;
        /* the watch has just fired, so the entry is in `ready` now */
        if (!st->engine->watch->remove(st->engine, &e->watch)) continue;
        pthread_mutex_lock(&w->mu);
        sk_list_del(&e->link);
        pthread_mutex_unlock(&w->mu);
        entry_free(e);
    }
    PyObject *r = watcher_take(self, NULL);
    Py_DECREF(self);
    Py_XDECREF(r);
    if (!r) return NULL;
    Py_RETURN_NONE;
}

static PyObject *watcher_fd(PyObject *o, void *unused SK_UNUSED) {
    return PyLong_FromLong(((struct watcher *)(void *)o)->fd);
}

static PyMethodDef watcher_methods[] = {
    {"add", watcher_add, METH_VARARGS,
     "add(ref or generator, tag): True when it is there already; else take() will give (ref, "
     "tag)."},
    {"take", watcher_take, METH_NOARGS, "[(ref or generator, tag)] of those that are there."},
    {"wait", watcher_wait, METH_O, "wait(seconds or None): whether take() has something."},
    {"close", watcher_close, METH_NOARGS, "Forgets all that was added."},
    {NULL, NULL, 0, NULL},
};
static PyGetSetDef watcher_getset[] = {
    {"fd", watcher_fd, NULL, "Readable while take() has something.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};
static PyType_Slot watcher_slots[] = {
    {Py_tp_new, watcher_new},
    {Py_tp_dealloc, watcher_dealloc},
    {Py_tp_methods, watcher_methods},
    {Py_tp_getset, watcher_getset},
    {Py_tp_doc, "Tells by a file descriptor that objects exist or that generators have an item."},
    {0, NULL},
};
static PyType_Spec watcher_spec = {"skate._skate.Watcher", sizeof(struct watcher), 0,
                                   Py_TPFLAGS_DEFAULT, watcher_slots};

int py_watch_types(PyObject *module) {
    PyObject *type = PyType_FromModuleAndSpec(module, &watcher_spec, NULL);
    int r = type ? PyModule_AddType(module, (PyTypeObject *)(void *)type) : -1;
    Py_XDECREF(type);
    return r;
}
