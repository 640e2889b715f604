/* pages.c - memory for batches (_skate.pages): writable bytes of this process, reused when the last
 * array over them is gone.
 *
 * Touching memory for the first time costs ten times the copy: 1.7 ms for a batch of 4.8 MB, which
 * is gathered in 0.25. So unused pieces are cached for the next batch while a Rows exists. After
 * the last Rows, up to IDLE_BYTES stay cached for the next epoch, and the system may take their
 * pages when it needs memory (MADV_FREE). Large pieces begin at a huge page. */
#include "py/data/data.h"

#include <sys/mman.h>

#include "base/copy.h"

enum { KEPT_MAX = 8 };
#define KEPT_BYTES ((size_t)256 << 20)
#define IDLE_BYTES ((size_t)64 << 20)
#define PAGE ((size_t)4096)
#define HUGE ((size_t)2 << 20)

struct piece {
    uint8_t *raw, *p; /* raw: the allocated memory; p: its first page, or its first huge page */
    size_t cap;
};

/* Cached pieces, which are not in use, the newest last. Guarded by the GIL. */
static struct {
    struct piece piece[KEPT_MAX];
    size_t bytes;
    /* n: number of pieces; users: number of Rows objects, for which pieces are cached */
    uint32_t n, users;
    uint64_t in_use; /* number of pieces in use */
} kept;

struct memory {
    PyObject_HEAD struct piece at;
    size_t n;
};

/* Removes piece i from the cache; the caller owns it then. */
static struct piece remove_kept(uint32_t i) {
    SK_ASSERT(i < kept.n);
    struct piece out = kept.piece[i];
    kept.bytes -= out.cap;
    kept.n--;
    memmove(kept.piece + i, kept.piece + i + 1, (kept.n - i) * sizeof *kept.piece);
    return out;
}

static struct piece take(size_t n) {
    /* Takes the smallest piece that is large enough and at most 4 times as large as needed: so the
     * smaller last batch of an epoch can reuse a piece, and a small batch does not occupy a large
     * one. */
    uint32_t best = UINT32_MAX;
    for (uint32_t i = kept.n; i-- > 0;)
        if (kept.piece[i].cap >= n && kept.piece[i].cap / 4 <= n &&
            (best == UINT32_MAX || kept.piece[i].cap < kept.piece[best].cap))
            best = i;
    if (best != UINT32_MAX) return remove_kept(best);
    struct piece m = {.cap = (size_t)SK_ALIGN(n, PAGE)};
    size_t align = m.cap < 2 * HUGE ? PAGE : HUGE, more = align - PAGE;
    if (m.cap <= SIZE_MAX - more) m.raw = sk_alloc_aligned(SK_TAG_PY, PAGE, m.cap + more);
    if (!m.raw) return (struct piece){0};
    m.p = m.raw + (SK_ALIGN((uintptr_t)m.raw, align) - (uintptr_t)m.raw);
    sk_copy_hint(m.p, m.cap);
    return m;
}

static void give(struct piece m) {
    if (!kept.users || m.cap > KEPT_BYTES) {
        sk_free(m.raw);
        return;
    }
    while (kept.n == KEPT_MAX || kept.bytes + m.cap > KEPT_BYTES) sk_free(remove_kept(0).raw);
    kept.piece[kept.n++] = m;
    kept.bytes += m.cap;
}

void py_pages_open(void) { kept.users++; }

void py_pages_close(void) {
    SK_ASSERT(kept.users);
    if (--kept.users) return;
    while (kept.bytes > IDLE_BYTES) sk_free(remove_kept(0).raw);
    /* errors do not matter, since the pieces are not in use */
    for (uint32_t i = 0; i < kept.n; i++)
        (void)madvise(kept.piece[i].p, kept.piece[i].cap, MADV_FREE);
}

PyObject *py_pages_new(struct py_state *st, size_t n) {
    struct memory *m = PyObject_New(struct memory, st->memory_type);
    if (!m) return NULL;
    m->n = n;
    m->at = take(SK_MAX(n, 1));
    kept.in_use += m->at.p != NULL;
    if (m->at.p) return (PyObject *)m;
    Py_DECREF(m);
    return PyErr_NoMemory();
}

static PyObject *m_pages(PyObject *module, PyObject *size) {
    size_t n = PyLong_AsSize_t(size);
    if (PyErr_Occurred()) return NULL;
    return py_pages_new(PyModule_GetState(module), n);
}

static PyObject *m_pages_counts(PyObject *module SK_UNUSED, PyObject *unused SK_UNUSED) {
    return Py_BuildValue("(KI)", (unsigned long long)kept.in_use, (unsigned)kept.n);
}

static void memory_dealloc(PyObject *o) {
    struct memory *m = (struct memory *)(void *)o;
    PyTypeObject *type = Py_TYPE(o);
    if (m->at.p) {
        SK_ASSERT(kept.in_use);
        kept.in_use--;
        give(m->at);
    }
    PyObject_Free(o);
    Py_DECREF(type);
}

static int memory_getbuffer(PyObject *o, Py_buffer *view, int flags) {
    struct memory *m = (struct memory *)(void *)o;
    return PyBuffer_FillInfo(view, o, m->at.p, (Py_ssize_t)m->n, 0, flags);
}

static PyType_Slot memory_slots[] = {
    {Py_tp_dealloc, memory_dealloc},
    {Py_bf_getbuffer, memory_getbuffer},
    {Py_tp_doc, "Bytes of this process that may be written; they begin at a page."},
    {0, NULL},
};
static PyType_Spec memory_spec = {"skate._skate._Memory", sizeof(struct memory), 0,
                                  Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                                  memory_slots};

int py_pages_types(PyObject *module, struct py_state *st) {
    st->memory_type = (PyTypeObject *)PyType_FromModuleAndSpec(module, &memory_spec, NULL);
    return st->memory_type ? 0 : -1;
}

PyMethodDef py_pages_methods[] = {
    {"pages", m_pages, METH_O,
     "pages(n_bytes): bytes of this process that may be written, at a page; used again when the "
     "last array over them is gone."},
    {"pages_counts", m_pages_counts, METH_NOARGS,
     "pages_counts(): (pieces of pages() that somebody has, those that are kept for the next "
     "one)."},
    {NULL, NULL, 0, NULL},
};
