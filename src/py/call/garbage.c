/* garbage.c - garbage collection while a caller waits. An actor lives, and keeps its resources,
 * until its last handle goes. A handle in a reference cycle (a traceback's frame, a closure that
 * names itself) goes only with the next collection, and a waiting thread causes none, since it
 * makes no objects.
 *
 * Invariant: called with the GIL, outside the engine. Cost: nothing in a wait of under a second;
 * then a list of the actors and, if one of them waits for resources (or the engine has no such
 * list), a collection, both together at most 2 % of the time. */
#include "base/clock.h"
#include "base/wire.h"
#include "py/call/call.h"

#define WAIT_NS SK_SEC
#define SHARE 50 /* a collection is followed by a pause of this many times its duration */

/* Returns 1 if an actor waits for resources, else 0; -1 with an exception. If the list of actors
 * was cut short, the result may be wrong, which costs a useless collection. */
static int actor_waits(struct py_state *st) {
    size_t n;
    uint8_t *buf = py_listing_rows(st, SK_STATE_ACTORS, &n);
    if (!buf) return -1;
    struct sk_rd r = sk_rd_init(buf, n);
    const void *p = sk_rd_raw(&r, sizeof(struct sk_state_head));
    bool waits = false;
    while (p && !waits && !sk_rd_end(&r)) {
        struct sk_actor_row a;
        if (!(p = sk_rd_raw(&r, sizeof a))) break;
        memcpy(&a, p, sizeof a);
        sk_rd_raw(&r, (size_t)a.class_n + a.name_n + a.space_n + a.why_n);
        sk_rd_align(&r, 8);
        waits = a.state == SK_AS_PENDING || a.state == SK_AS_RESTARTING;
    }
    sk_free(buf);
    return waits;
}

static int collect(void) {
    /* gc.collect() is used since PyGC_Collect() does nothing when the program has switched
     * automatic collections off. */
    PyObject *gc = PyImport_ImportModule("gc");
    PyObject *n = gc ? PyObject_CallMethod(gc, "collect", NULL) : NULL;
    Py_XDECREF(gc);
    Py_XDECREF(n);
    return n ? 0 : -1;
}

int py_between_slices(struct py_state *st, int64_t began_ns) {
    if (PyErr_CheckSignals() < 0) return -1;
    int64_t now = sk_now_ns();
    if (now - began_ns < WAIT_NS || now < st->garbage_ns || !st->driver || !st->engine ||
        st->closing || !(st->engine->state || st->engine->actors))
        return 0;
    st->garbage_ns = INT64_MAX; /* keeps other threads from collecting at the same time */
    int waits = st->engine->state ? actor_waits(st) : 1, rc = waits > 0 ? collect() : waits;
    int64_t after = sk_now_ns();
    st->garbage_ns = after + SK_MAX(SHARE * (after - now), WAIT_NS);
    return rc;
}
