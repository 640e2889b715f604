/* event.c - the public C API: callbacks for event loops.
 *
 * The engine calls fired() under its lock: it moves the entry to the list and makes the descriptor
 * readable. The user's function runs in skate_process only. Invariant: the descriptor is readable
 * if the list is not empty. */
#include <errno.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "api/api_int.h"
#include "base/containers/list.h"
#include "base/mem.h"
#include "engine/watch.h"

struct entry { /* belongs to the engine until fired, then to the list */
    struct sk_watch watch;
    struct sk_list link;
    skate_ready_fn fn;
    void *ctx;
    sk_oid held; /* a reference; 0: none */
    uint64_t engine;
};

static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER; /* guards all below; a leaf */
static struct sk_list waiting = {&waiting, &waiting};
static int fd = -1;

/* Makes the descriptor readable; with mu held. */
static void ring(void) {
    uint64_t one = 1;
    /* a full counter does not matter: the descriptor is readable anyway */
    if (fd >= 0 && write(fd, &one, sizeof one) < 0) SK_ASSERT(errno == EAGAIN);
}

static void fired(struct sk_watch *w) {
    struct entry *x = sk_container_of(w, struct entry, watch);
    pthread_mutex_lock(&mu);
    if (sk_list_empty(&waiting)) ring();
    sk_list_push_back(&waiting, &x->link);
    pthread_mutex_unlock(&mu);
}

static sk_rc add(const char *call, sk_oid o, sk_tid stream, skate_ready_fn fn, void *ctx) {
    struct sk_engine *e = sk_api_engine();
    if (!e) return SK_ECLOSED;
    if (!fn || (!o.v && !stream.v))
        return SK_ERR(sk_api_err(), SK_EINVAL, "%s: %s", call, fn ? "no object" : "fn is NULL");
    if (!e->watch) return SK_ERR(sk_api_err(), SK_ENOSYS, "this engine cannot watch objects");
    struct entry *x = sk_alloc(SK_TAG_ENGINE, sizeof *x);
    if (!x) return SK_ERR(sk_api_err(), SK_ENOMEM, "%s: no memory", call);
    *x = (struct entry){
        .watch.fn = fired, .fn = fn, .ctx = ctx, .held = o, .engine = sk_api_number()};
    sk_list_init(&x->link);
    if (o.v) e->ops->retain(e, o);
    sk_rc rc = e->watch->add(e, o, stream, &x->watch, sk_api_err());
    if (rc == SK_EDONE) fired(&x->watch);
    if (rc == SK_OK || rc == SK_EDONE) return SK_OK;
    if (o.v) e->ops->release(e, o);
    sk_free(x);
    return rc;
}

int skate_on_ready(skate_ref r, skate_ready_fn fn, void *ctx) {
    return add("skate_on_ready", (sk_oid){r.id}, (sk_tid){0}, fn, ctx);
}
int skate_gen_on_ready(skate_gen g, skate_ready_fn fn, void *ctx) {
    return add("skate_gen_on_ready", (sk_oid){0}, (sk_tid){g.id}, fn, ctx);
}

int skate_event_fd(void) {
    if (sk_api_forked()) return sk_api_closed();
    pthread_mutex_lock(&mu);
    if (fd < 0) {
        fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (fd < 0) SK_ERR_SYS(sk_api_err(), "skate_event_fd: eventfd");
        else if (!sk_list_empty(&waiting)) ring();
    }
    int got = fd < 0 ? sk_api_err()->code : fd;
    pthread_mutex_unlock(&mu);
    return got;
}

int skate_process(void) {
    struct sk_list now;
    uint64_t count;
    int n = 0;
    if (sk_api_forked()) return sk_api_closed();
    sk_list_init(&now);
    pthread_mutex_lock(&mu);
    if (fd >= 0 && read(fd, &count, sizeof count) < 0) SK_ASSERT(errno == EAGAIN);
    sk_list_splice(&now, &waiting);
    pthread_mutex_unlock(&mu);
    while (!sk_list_empty(&now)) {
        struct entry *x = sk_container_of(now.next, struct entry, link);
        sk_list_del(&x->link);
        /* a callback may shut skate down */
        x->fn(sk_api_number() == x->engine ? SK_OK : SK_ECLOSED, x->ctx);
        struct sk_engine *e = sk_api_number() == x->engine ? sk_api_engine() : NULL;
        if (e && x->held.v) e->ops->release(e, x->held);
        sk_free(x);
        n++;
    }
    return n;
}
