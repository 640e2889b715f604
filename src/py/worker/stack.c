/* stack.c - writes the stacks of all threads of a process on a signal. Python's fault handler does
 * the writing, so it works while user code is stuck in C.
 *
 * The signal STACK_SIGNAL with a value (sigqueue): this process writes its stacks, then a zero
 * byte, to the sender's descriptor of that number, a pipe. Without a value, or with -1: to its own
 * stderr. SIGQUIT (Ctrl-\), in a driver whose program does not use it: the stacks of driver and
 * workers go to stderr; a second SIGQUIT within two seconds ends the program as it would without
 * skate. Not here: finding processes and printing (python/skate/_private/stack.py).
 *
 * Invariant: the handler calls only async-signal-safe functions, and waits only for the same
 * handler on another thread or, for stderr, in another process (at most a second each). What does
 * not fit into the pipe is lost. Cost: one descriptor; nothing until the signal arrives. */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "py/worker/worker.h"

#define LOOK_MAX 256 /* most workers that Ctrl-\ reaches */

static struct {
    /* descriptor to which the fault handler writes: /dev/null except during a dump */
    int fd;
    void (*dump)(int); /* handler that Python's fault handler has set for STACK_SIGNAL */
    bool driver, ready;
    volatile sig_atomic_t busy;
    int64_t last_quit_ns;
    struct sk_look look; /* static, since the struct is too large for the stacks of some threads */
    struct sk_look_worker workers[LOOK_MAX];
} me = {.fd = -1};

static int stack_signal(void) { return SIGRTMAX - 6; }

/* Text of limited length, built without stdio, which signal handlers may not use. */
struct line {
    char p[700];
    size_t n;
};
static void add(struct line *l, const char *s) {
    size_t n = strnlen(s, sizeof l->p - l->n);
    memcpy(l->p + l->n, s, n);
    l->n += n;
}
static void add_number(struct line *l, long long v) {
    char digits[24];
    size_t i = sizeof digits;
    digits[--i] = 0;
    unsigned long long u = v < 0 ? 0 : (unsigned long long)v;
    do digits[--i] = (char)('0' + u % 10);
    while (u /= 10);
    add(l, digits + i);
}
static void flush(struct line *l, int fd) {
    ssize_t r = write(fd, l->p, l->n);
    (void)r; /* a failed write cannot be reported */
    l->n = 0;
}

/* Opens the pipe of the signal's sender; -1: the sender has none of that number. */
static int pipe_of(const siginfo_t *si) {
    struct line path = {.n = 0};
    struct stat st;
    add(&path, "/proc/");
    add_number(&path, si->si_pid);
    add(&path, "/fd/");
    add_number(&path, si->si_value.sival_int);
    path.p[path.n] = 0;
    int fd = open(path.p, O_WRONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd >= 0 && (fstat(fd, &st) != 0 || !S_ISFIFO(st.st_mode))) {
        close(fd);
        fd = -1;
    }
    return fd;
}

static void head(struct line *l, bool is_driver) {
    add(l, is_driver ? "\n-- skate driver " : "\n-- skate worker ");
    add_number(l, getpid());
    if (is_driver && me.look.waits[0]) {
        add(l, " waits for ");
        add(l, me.look.waits);
    }
    if (!is_driver && me.workers[0].task) {
        add(l, ", task ");
        add(l, me.workers[0].name);
        add(l, ", for ");
        add_number(l, me.workers[0].for_ns / 1000000);
        add(l, " ms");
    } else if (!is_driver) {
        add(l, ", idle");
    }
    add(l, "\n");
}

static void dump_to(int fd) {
    if (dup3(fd, me.fd, O_CLOEXEC) < 0) return;
    me.dump(stack_signal());
    int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (null < 0) return;
    (void)dup3(null, me.fd, O_CLOEXEC);
    close(null);
}

static void on_signal(int sig, siginfo_t *si, void *uc SK_UNUSED) {
    int saved = errno;
    struct line l = {.n = 0};
    size_t n = 0;
    /* a worker ignores SIGQUIT, which a terminal sends to all processes: its driver sends it
     * STACK_SIGNAL */
    if (!me.ready || (sig == SIGQUIT && !me.driver)) return;
    for (int64_t until = 0; __atomic_exchange_n(&me.busy, 1, __ATOMIC_ACQUIRE);
         /* waits while another thread writes; this thread cannot, since sa_mask blocks both
          * signals */
         sched_yield()) {
        int64_t now = sk_now_ns();
        if (!until) until = now + 1000000000;
        if (now > until) {
            errno = saved;
            return;
        }
    }
    bool asked = sig == stack_signal() && si->si_code == SI_QUEUE && si->si_value.sival_int >= 0;
    bool here = sk_look_self(&me.look, me.workers, SK_COUNT(me.workers), &n);
    if (sig == SIGQUIT && (!here || sk_now_ns() - me.last_quit_ns < 2000000000)) {
        struct sigaction dfl = {.sa_handler = SIG_DFL};
        (void)sigaction(SIGQUIT, &dfl, NULL);
        (void)raise(SIGQUIT); /* delivered when this handler returns */
        goto out;
    }
    int plain = sk_prints_plain(STDERR_FILENO), fd = asked        ? pipe_of(si)
                                                     : plain >= 0 ? plain
                                                                  : STDERR_FILENO;
    if (fd < 0) goto out;
    if (!asked) {
        sk_look_speak(true);
        head(&l, me.driver);
        flush(&l, fd);
    }
    dump_to(fd);
    if (sig == SIGQUIT) {
        add(&l, "\n-- skate: Ctrl-\\ again within 2 seconds ends the program\n");
        flush(&l, fd);
    }
    if (!asked) sk_look_speak(false);
    if (asked) {
        ssize_t r = write(fd, "", 1);
        (void)r;
        close(fd);
    }
    if (sig == SIGQUIT) {
        for (size_t i = 0; i < n; i++)
            (void)sigqueue(me.workers[i].pid, stack_signal(), (union sigval){.sival_int = -1});
        me.last_quit_ns = sk_now_ns();
    }
out:
    __atomic_store_n(&me.busy, 0, __ATOMIC_RELEASE);
    errno = saved;
}

/* stack_install(driver): makes the fault handler set its handler, then puts skate's handler in
 * front of it. Called once per process; a forked worker calls it again, for its own descriptor. */
static PyObject *m_stack_install(PyObject *module SK_UNUSED, PyObject *driver) {
    int is_driver = PyObject_IsTrue(driver);
    if (is_driver < 0) return NULL;
    me.driver = is_driver;
    if (me.ready) Py_RETURN_NONE;
    if (me.fd < 0 && (me.fd = open("/dev/null", O_WRONLY | O_CLOEXEC)) < 0)
        return PyErr_SetFromErrno(PyExc_OSError);
    PyObject *fh = PyImport_ImportModule("faulthandler");
    PyObject *r =
        fh ? PyObject_CallMethod(fh, "register", "iiii", stack_signal(), me.fd, 1, 0) : NULL;
    Py_XDECREF(fh);
    if (!r) return NULL;
    Py_DECREF(r);
    struct sigaction sa = {0}, old;
    if (sigaction(stack_signal(), NULL, &old) != 0) return PyErr_SetFromErrno(PyExc_OSError);
    me.dump = old.sa_handler;
    sa.sa_sigaction = on_signal;
    sa.sa_flags = SA_RESTART | SA_SIGINFO | (old.sa_flags & SA_ONSTACK);
    sigemptyset(&sa.sa_mask);
    sigaddset(&sa.sa_mask, stack_signal());
    sigaddset(&sa.sa_mask, SIGQUIT);
    if (sigaction(stack_signal(), &sa, NULL) != 0) return PyErr_SetFromErrno(PyExc_OSError);
    me.ready = true;
    /* a handler that the program has set for SIGQUIT stays */
    if (sigaction(SIGQUIT, NULL, &old) == 0 && (old.sa_handler == SIG_DFL || !is_driver))
        if (sigaction(SIGQUIT, &sa, NULL) != 0) return PyErr_SetFromErrno(PyExc_OSError);
    Py_RETURN_NONE;
}

static PyObject *m_stack_ask(PyObject *module SK_UNUSED, PyObject *args) {
    int pidfd, fd;
    if (!PyArg_ParseTuple(args, "ii:stack_ask", &pidfd, &fd)) return NULL;
    siginfo_t si = {.si_signo = stack_signal(), .si_code = SI_QUEUE};
    si.si_pid = getpid();
    si.si_uid = getuid();
    si.si_value.sival_int = fd;
    if (syscall(SYS_pidfd_send_signal, pidfd, stack_signal(), &si, 0) != 0)
        return PyErr_SetFromErrno(PyExc_OSError);
    Py_RETURN_NONE;
}

/* stack_become(uid, gid): switches to another user for good. The kernel hides the descriptors of a
 * process that has done so, also the pipe for the answers, so the process is made dumpable
 * again. */
static PyObject *m_stack_become(PyObject *module SK_UNUSED, PyObject *args) {
    unsigned uid, gid;
    if (!PyArg_ParseTuple(args, "II:stack_become", &uid, &gid)) return NULL;
    if (setgroups(0, NULL) != 0 || setresgid(gid, gid, gid) != 0 || setresuid(uid, uid, uid) != 0 ||
        prctl(PR_SET_DUMPABLE, 1) != 0)
        return PyErr_SetFromErrno(PyExc_OSError);
    Py_RETURN_NONE;
}

static PyObject *m_stack_look(PyObject *module, PyObject *path) {
    struct py_state *st = PyModule_GetState(module);
    PY_ERR(err);
    const char *p = PyUnicode_AsUTF8(path);
    size_t n = 0, cap = 1024;
    struct sk_look look;
    if (!p) return NULL;
    struct sk_look_worker *w = sk_alloc(SK_TAG_PY, cap * sizeof *w);
    if (!w) return PyErr_NoMemory();
    sk_rc rc = sk_look_at(p, &look, w, cap, &n, &err);
    PyObject *list = rc == SK_OK ? PyList_New(0) : py_raise(st, rc, &err);
    for (size_t i = 0; list && i < n; i++) {
        PyObject *name = py_text(w[i].name);
        PyObject *row = name ? Py_BuildValue("(iKLN)", (int)w[i].pid, (unsigned long long)w[i].task,
                                             (long long)w[i].for_ns, name)
                             : NULL;
        if (!row || PyList_Append(list, row) < 0) Py_CLEAR(list);
        Py_XDECREF(row);
    }
    sk_free(w);
    PyObject *waits = list ? py_text(look.waits) : NULL;
    if (waits) return Py_BuildValue("(iNN)", (int)look.driver_pid, waits, list);
    Py_XDECREF(list);
    return NULL;
}

static PyObject *m_stack_number(PyObject *module SK_UNUSED, PyObject *unused SK_UNUSED) {
    return PyLong_FromLong(stack_signal());
}

PyMethodDef py_stack_methods[] = {
    {"stack_install", m_stack_install, METH_O,
     "stack_install(driver): this process tells its stacks when it is asked."},
    {"stack_signal", m_stack_number, METH_NOARGS, "The signal by which it is asked."},
    {"stack_ask", m_stack_ask, METH_VARARGS,
     "stack_ask(pidfd, descriptor of a pipe): asks another process, which writes its stacks "
     "there."},
    {"stack_become", m_stack_become, METH_VARARGS,
     "stack_become(uid, gid): this process of root is from now on one of that user."},
    {"stack_look", m_stack_look, METH_O,
     "stack_look(path of a control segment): (driver pid, what it waits for, [(pid, task, ns, "
     "name)])."},
    {NULL, NULL, 0, NULL},
};
