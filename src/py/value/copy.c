/* copy.c - copies between Python's memory and the store. It touches no Python object, so the GIL
 * may be held or not. */
#include "base/copy.h"
#include "engine/windows.h"
#include "py/value/value.h"

void py_warm(struct sk_engine *e, void *dst, size_t n) {
    if (e->windows) e->windows->warm(e, dst, n);
}

static void warm(void *engine, void *dst, size_t n) { py_warm(engine, dst, n); }

void py_copy(struct py_state *st, struct sk_engine *e, void *dst, const void *src, size_t n) {
    /* a driver has a core to spare for a second thread */
    sk_copy_large(dst, src, n, st->driver, e ? warm : NULL, e);
}
