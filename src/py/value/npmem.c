/* npmem.c - puts the data of arrays that NumPy makes inside a pipeline's function into the store,
 * by a handler of NumPy's data memory (NEP 49). A block that consists of one such array and little
 * else is sealed in place, which saves a copy and its memory.
 *
 *  open:    the array is in an extent leased by this worker: PRE bytes, the array, POST bytes.
 *           NumPy gets a second mapping of the array's part (a window).
 *  sealed:  after a block was written whose largest buffer is the whole array: the block's head and
 *           other columns are written around the array, into PRE and POST. The window becomes
 *           copy-on-write pages, as in store_array.c: what the function writes later is private,
 *           and no reader sees it. A second block with the same array is copied.
 *
 * The lease ends when NumPy frees the array; a sealed part lives on by itself. If the process is
 * killed, this lease ends with all its others. Memory is leased only if the store has room at once
 * (windows.h: lease): temporary arrays never wait for room and never cause spilling. malloc is used
 * if no room is found, if arrays that outlive their task hold KEPT_MAX bytes, and for arrays
 * smaller than the size given to arrays_begin(). The child of a fork gets copies of its own, since
 * the store's pages are shared.
 *
 * The handler is set for the thread (its context) between arrays_begin() and arrays_end(). NumPy
 * calls it with the GIL, and may free at any time. NumPy's headers are not needed: the two
 * functions and the struct are part of its stable ABI. Cost: a round trip and two mmaps for an
 * array, 0.1 ms. */
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "block/block.h"
#include "engine/windows.h"
#include "py/value/value.h"

enum { SET_HANDLER = 304 }; /* index of the function in NumPy's table, since NumPy 1.22 */
/* the smallest value that `least` may have; np_free searches the list only for arrays of at least
 * this size */
#define LEAST ((size_t)1 << 20)
#define PRE ((size_t)32 << 10)
#define POST ((size_t)32 << 10)
#define KEPT_MAX ((size_t)64 << 20)

struct handler { /* PyDataMem_Handler, version 1 */
    char name[127];
    uint8_t version;
    void *ctx;
    void *(*malloc)(void *ctx, size_t n);
    void *(*calloc)(void *ctx, size_t n, size_t size);
    void *(*realloc)(void *ctx, void *p, size_t n);
    void (*free)(void *ctx, void *p, size_t n);
};

struct lease {
    struct lease *next;
    uint8_t *p; /* the window of n bytes that NumPy uses */
    size_t n;
    /* the part of the extent that is not sealed; data NULL: no part is left */
    struct sk_buf buf;
    struct sk_view view; /* view of the sealed part; token 0: nothing was sealed */
    uint64_t task;
    uint32_t gen;
    bool sealed;
};

static struct lease *leases;
static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER; /* guards `leases` and `counts` */
static struct py_npmem_counts counts;
static struct py_state *state; /* set by arrays_begin(); NULL before its first call */
/* arrays of at least this many bytes are made in the store; set by arrays_begin() */
static size_t least = SIZE_MAX;
static uint64_t turn; /* number of the current task, set by arrays_begin() */

static bool alive(const struct lease *a) {
    return state && state->engine && a->gen == state->gen && !state->closing;
}

/* Leases memory of the store for an array of n bytes; NULL: the store has no room at once. */
static struct lease *open_lease(struct sk_engine *e, size_t n) {
    struct lease *a = sk_calloc(SK_TAG_PY, sizeof *a);
    void *at = NULL;
    if (!a) return NULL;
    if (e->windows->lease(e, PRE + (size_t)SK_ALIGN(n, SK_BLOCK_ALIGN) + POST, &a->buf, NULL) ==
        SK_OK) {
        e->windows->warm(e, a->buf.data + PRE, n);
        if (e->windows->open(e, a->buf.data + PRE, n, false, &at, NULL) == SK_OK) {
            a->p = at;
            a->n = n;
            return a;
        }
        e->ops->buf_abort(e, &a->buf);
    }
    sk_free(a);
    return NULL;
}

/* Returns the bytes of arrays that earlier tasks made and that still exist. */
static size_t kept_by_others(uint64_t task) {
    size_t n = 0;
    pthread_mutex_lock(&mu);
    for (const struct lease *a = leases; a; a = a->next) n += a->task != task ? a->n : 0;
    pthread_mutex_unlock(&mu);
    return n;
}

static void *in_store(size_t n) {
    struct py_state *st = state;
    if (!st || !PyGILState_Check() || st->stray || st->closing || !st->engine || n > SIZE_MAX / 2)
        return NULL;
    uint64_t task = turn;
    uint32_t gen = st->gen;
    struct lease *a = NULL;
    size_t kept = kept_by_others(task);
    if (kept < KEPT_MAX) {
        PY_DROP(st)
        a = open_lease(st->engine, n);
        PY_TAKE(st)
    }
    pthread_mutex_lock(&mu);
    if (a) {
        a->task = task;
        a->gen = gen;
        a->next = leases;
        leases = a;
        counts.leased++;
    } else {
        counts.refused++;
    }
    pthread_mutex_unlock(&mu);
    return a ? a->p : NULL;
}

/* Removes the lease whose window is p from the list; NULL: p came from malloc. */
static struct lease *take(const void *p) {
    pthread_mutex_lock(&mu);
    struct lease **at = &leases;
    while (*at && (*at)->p != p) at = &(*at)->next;
    struct lease *a = *at;
    if (a) *at = a->next;
    pthread_mutex_unlock(&mu);
    return a;
}

static void close_lease(struct lease *a) {
    sk_window_close(a->p, a->n);
    if (alive(a)) {
        if (a->buf.data) state->engine->ops->buf_abort(state->engine, &a->buf);
        if (a->view.token) state->engine->ops->view_release(state->engine, &a->view);
    }
    sk_free(a);
}

static void *np_malloc(void *ctx SK_UNUSED, size_t n) {
    void *p = n >= least ? in_store(n) : NULL;
    return p ? p : malloc(n);
}

static void *np_calloc(void *ctx SK_UNUSED, size_t n, size_t size) {
    size_t all;
    void *p = !__builtin_mul_overflow(n, size, &all) && all >= least ? in_store(all) : NULL;
    return p ? memset(p, 0, all) : calloc(n, size);
}

static void *np_realloc(void *ctx SK_UNUSED, void *p, size_t n) {
    struct lease *a = p ? take(p) : NULL;
    if (!a) return realloc(p, n);
    void *q = malloc(n);
    if (q) {
        memcpy(q, p, SK_MIN(n, a->n));
        close_lease(a);
        return q;
    }
    pthread_mutex_lock(&mu); /* without memory for a copy, the array stays as it is */
    a->next = leases;
    leases = a;
    pthread_mutex_unlock(&mu);
    return NULL;
}

static void np_free(void *ctx SK_UNUSED, void *p, size_t n) {
    struct lease *a = n >= LEAST ? take(p) : NULL;
    if (a) close_lease(a);
    else free(p);
}

static struct handler handler = {"skate", 1, NULL, np_malloc, np_calloc, np_realloc, np_free};

/* ---- blocks around an array ------------------------------------------------------------------ */

/* Returns the lease of the array that is the plan's largest buffer, if the block fits around the
 * array. *at: where the block begins; *room: bytes from *at to the end of the extent. The caller
 * holds mu. */
static struct lease *fits(const struct sk_block_plan *plan, struct sk_block_largest *big,
                          uint8_t **at, size_t *room) {
    size_t total = (size_t)SK_ALIGN(sk_block_plan_sizes(plan).total_bytes, SK_BLOCK_ALIGN);
    struct lease *a = leases;
    if (!sk_block_plan_largest(plan, big)) return NULL;
    while (a && a->p != big->src) a = a->next;
    if (!a || a->sealed || !alive(a) || a->n != big->len || big->off > PRE) return NULL;
    *at = a->buf.data + PRE - big->off;
    *room = a->buf.len - (PRE - big->off);
    return total <= *room ? a : NULL;
}

bool py_npmem_place(struct py_state *st, const struct sk_block_plan *plan, struct sk_buf *out,
                    struct sk_view **keep) {
    struct sk_block_largest big;
    uint8_t *at;
    size_t room;
    if (SK_LIKELY(!__atomic_load_n(&leases, __ATOMIC_ACQUIRE))) return false;
    pthread_mutex_lock(&mu);
    struct lease *a = fits(plan, &big, &at, &room);
    void *window = a ? a->p : NULL;
    if (a && st->engine->windows->open(st->engine, a->buf.data + PRE, a->n, true, &window, NULL) !=
                 SK_OK)
        /* without copy-on-write pages the array cannot be sealed, and the block is copied */
        a = NULL;
    if (a) {
        a->sealed = true;
        counts.placed++;
    }
    pthread_mutex_unlock(&mu);
    if (!a) return false; /* a is not freed, since the caller holds the array */
    sk_block_write_around(plan, at, &big);
    *out = (struct sk_buf){at, room, a->buf.token + (uint64_t)(at - a->buf.data)};
    a->buf.len = (size_t)(at - a->buf.data);
    if (!a->buf.len) a->buf.data = NULL;
    *keep = &a->view;
    return true;
}

/* Called in the child of a fork: gives it private copies of the arrays, because the parent goes on
 * writing to the shared pages. */
void py_npmem_forget(void) {
    pthread_mutex_init(&mu, NULL);
    for (struct lease *a = leases; a; a = a->next) {
        size_t in_page = (uintptr_t)a->p & 4095, n = (size_t)SK_ALIGN(in_page + a->n, 4096);
        uint8_t *own = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        /* without memory for a copy, the child goes on sharing the pages with its parent */
        if (own == MAP_FAILED) continue;
        memcpy(own + in_page, a->p, a->n);
        if (mremap(own, n, n, MREMAP_MAYMOVE | MREMAP_FIXED, a->p - in_page) == MAP_FAILED)
            (void)munmap(own, n);
    }
}

void py_npmem_end(void) { state = NULL; }

/* ---- calls from Python ----------------------------------------------------------------------- */

/* Returns NumPy's function that sets a handler; NULL: numpy is not imported, or is too old. */
static PyObject *(*set_handler(void))(PyObject *) {
    static PyObject *(*set)(PyObject *);
    if (set) return set;
    PyObject *numpy = PyImport_ImportModule("numpy._core._multiarray_umath");
    if (!numpy) {
        PyErr_Clear();
        /* the module's name before NumPy 2 */
        numpy = PyImport_ImportModule("numpy.core._multiarray_umath");
    }
    PyObject *table = numpy ? PyObject_GetAttrString(numpy, "_ARRAY_API") : NULL;
    void **api = table ? PyCapsule_GetPointer(table, NULL) : NULL;
    if (api) set = (PyObject * (*)(PyObject *)) api[SET_HANDLER];
    PyErr_Clear();
    Py_XDECREF(table);
    Py_XDECREF(numpy);
    return set;
}

static PyObject *m_arrays_begin(PyObject *module, PyObject *args) {
    struct py_state *st = PyModule_GetState(module);
    unsigned long long n, task;
    if (!PyArg_ParseTuple(args, "KK:arrays_begin", &n, &task)) return NULL;
    if (!st->worker || st->stray || !st->engine || !st->engine->windows ||
        !st->engine->windows->lease || !set_handler())
        Py_RETURN_NONE;
    state = st;
    least = SK_MAX((size_t)n, LEAST);
    turn = task;
    PyObject *ours = PyCapsule_New(&handler, "mem_handler", NULL),
             *before = ours ? set_handler()(ours) : NULL;
    Py_XDECREF(ours);
    return before;
}

static PyObject *m_arrays_end(PyObject *module SK_UNUSED, PyObject *before) {
    if (before == Py_None) Py_RETURN_NONE;
    PyObject *ours = set_handler()(before);
    if (!ours) return NULL;
    Py_DECREF(ours);
    Py_RETURN_NONE;
}

static PyObject *m_arrays_counts(PyObject *module SK_UNUSED, PyObject *unused SK_UNUSED) {
    pthread_mutex_lock(&mu);
    struct py_npmem_counts c = counts;
    size_t held = 0;
    for (const struct lease *a = leases; a; a = a->next) held += a->n;
    pthread_mutex_unlock(&mu);
    return Py_BuildValue("KKKn", (unsigned long long)c.leased, (unsigned long long)c.placed,
                         (unsigned long long)c.refused, (Py_ssize_t)held);
}

PyMethodDef py_npmem_methods[] = {
    {"arrays_begin", m_arrays_begin, METH_VARARGS,
     "arrays_begin(least, number of the task): arrays of at least so many bytes that NumPy makes "
     "on this thread are in the store from now "
     "on. For "
     "arrays_end()."},
    {"arrays_end", m_arrays_end, METH_O,
     "arrays_end(what arrays_begin() gave): they are where they were before."},
    {"arrays_counts", m_arrays_counts, METH_NOARGS,
     "(arrays made in the store, blocks sealed around one, arrays for which there was no room; "
     "bytes of those that live) of this process."},
    {NULL, NULL, 0, NULL},
};
