/* event.c - the public C API: callbacks for event loops.
 *
 * Each engine has a queue of entries whose object is ready, with a descriptor; the engine of
 * skate_init has the same queue each time that it is opened. The engine calls fired() under its
 * lock: it moves the entry to the queue and makes the descriptor readable. The user's function runs
 * in skate_process, or in skate_engine_close. Invariant: the descriptor is readable if the queue is
 * not empty. */
#include <errno.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "api/api_int.h"
#include "base/containers/list.h"
#include "base/mem.h"
#include "engine/watch.h"

struct queue {
    struct sk_list waiting;
    int fd; /* below 0: nobody has asked for it */
};
struct entry { /* belongs to the engine until fired, then to the queue */
    struct sk_watch watch;
    struct queue *queue;
    struct sk_list link;
    skate_ready_fn fn;
    void *ctx;
    sk_oid held; /* a reference; 0: none */
    uint64_t engine;
};

static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER; /* guards all below; a leaf */
static struct queue queues[1 + 64]; /* that of skate_init, then one for each place of an engine */

/* Returns the queue of an engine that is open, or of skate_init; with mu held. */
static struct queue *queue_of(uint64_t number) {
    struct sk_engine *e = sk_api_is_standard(number) ? NULL : sk_api_numbered(number);
    struct queue *q = &queues[e ? 1 + sk_api_place(e) : 0];
    if (!q->waiting.next) {
        sk_list_init(&q->waiting);
        q->fd = -1;
    }
    return q;
}

/* Returns the queue of the engine that this thread uses, with mu locked; NULL: it is not open. */
static struct queue *lock_used(void) {
    uint64_t used = sk_api_used();
    if (sk_api_forked() || (used && !sk_api_numbered(used))) {
        SK_IGNORE(sk_api_closed());
        return NULL;
    }
    pthread_mutex_lock(&mu);
    return queue_of(used);
}

/* Makes the descriptor readable; with mu held. */
static void ring(const struct queue *q) {
    uint64_t one = 1;
    /* a full counter does not matter: the descriptor is readable anyway */
    if (q->fd >= 0 && write(q->fd, &one, sizeof one) < 0) SK_ASSERT(errno == EAGAIN);
}

static void fired(struct sk_watch *w) {
    struct entry *x = sk_container_of(w, struct entry, watch);
    pthread_mutex_lock(&mu);
    if (sk_list_empty(&x->queue->waiting)) ring(x->queue);
    sk_list_push_back(&x->queue->waiting, &x->link);
    pthread_mutex_unlock(&mu);
}

static sk_rc add(const char *call, sk_oid o, sk_tid stream, skate_ready_fn fn, void *ctx) {
    struct sk_engine *e = sk_api_engine_of(o.v ? o.v : stream.v);
    if (!e) return SK_ECLOSED;
    if (!fn || (!o.v && !stream.v))
        return SK_ERR(sk_api_err(), SK_EINVAL, "%s: %s", call, fn ? "no object" : "fn is NULL");
    if (!e->watch) return SK_ERR(sk_api_err(), SK_ENOSYS, "this engine cannot watch objects");
    struct entry *x = sk_alloc(SK_TAG_ENGINE, sizeof *x);
    if (!x) return SK_ERR(sk_api_err(), SK_ENOMEM, "%s: no memory", call);
    *x = (struct entry){
        .watch.fn = fired, .fn = fn, .ctx = ctx, .held = o, .engine = sk_api_number(e)};
    pthread_mutex_lock(&mu);
    x->queue = queue_of(x->engine);
    pthread_mutex_unlock(&mu);
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
    struct queue *q = lock_used();
    if (!q) return SK_ECLOSED;
    if (q->fd < 0) {
        q->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (q->fd < 0) SK_ERR_SYS(sk_api_err(), "skate_event_fd: eventfd");
        else if (!sk_list_empty(&q->waiting)) ring(q);
    }
    int got = q->fd < 0 ? sk_api_err()->code : q->fd;
    pthread_mutex_unlock(&mu);
    return got;
}

int sk_api_events_call(struct sk_list *now) {
    int n = 0;
    while (!sk_list_empty(now)) {
        struct entry *x = sk_container_of(now->next, struct entry, link);
        sk_list_del(&x->link);
        /* a callback may close the engine */
        x->fn(sk_api_numbered(x->engine) ? SK_OK : SK_ECLOSED, x->ctx);
        struct sk_engine *e = sk_api_numbered(x->engine);
        if (e && x->held.v) e->ops->release(e, x->held);
        sk_free(x);
        n++;
    }
    return n;
}

int skate_process(void) {
    struct sk_list now;
    uint64_t count;
    struct queue *q = lock_used();
    if (!q) return SK_ECLOSED;
    sk_list_init(&now);
    /* The descriptor does not block. NOLINTNEXTLINE(clang-analyzer-unix.BlockInCriticalSection) */
    if (q->fd >= 0 && read(q->fd, &count, sizeof count) < 0) SK_ASSERT(errno == EAGAIN);
    sk_list_splice(&now, &q->waiting);
    pthread_mutex_unlock(&mu);
    return sk_api_events_call(&now);
}

void sk_api_events_end(unsigned place, struct sk_list *left) {
    struct queue *q = &queues[1 + place];
    pthread_mutex_lock(&mu);
    if (q->waiting.next) {
        sk_list_splice(left, &q->waiting);
        if (q->fd >= 0) (void)close(q->fd);
        q->fd = -1;
    }
    pthread_mutex_unlock(&mu);
}
