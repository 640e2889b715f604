/* request.h - requests of workers that wait, and watches.
 *
 * Calls: object, link, recover, send, space, stored, stream. The code of this part may call these
 * parts of the driver and no others; tests/shape.py reads this line. */
#ifndef SK_LOCAL_REQUEST_H
#define SK_LOCAL_REQUEST_H

#include "engine/local/driver/space/space.h"

struct sk_local;
struct sk_lworker;
struct sk_dep;
struct sk_rd;
struct sk_err;

/* a request: GET, WAIT, NEXT or PEEK of a worker that waits; or WATCH, for which no thread waits */
struct sk_req {
    struct sk_get_wait get;
    /* link in `reqs` or `watches` of the worker; of a watch of the driver, in l->watches */
    struct sk_list link;
    struct sk_lworker *w;   /* the worker that asks; NULL: the driver */
    struct sk_watch *watch; /* of the driver: the callback */
    struct sk_dep *waits;
    uint32_t type;
    uint64_t req, tid;
    uint32_t n, want, n_ready;
    uint64_t oids[];
};

void sk_reqs_init(struct sk_local *l);
/* Frees the requests of workers without an answer, at the end of the engine. */
void sk_reqs_free(struct sk_local *l);
/* Frees the requests of a worker that has ended. */
void sk_reqs_worker_gone(struct sk_local *l, struct sk_lworker *w);
/* Fires all watches of the driver. */
void sk_req_fire_all(struct sk_local *l);
/* handles GET and WAIT */
void sk_req_wait(struct sk_local *l, struct sk_lworker *w, uint32_t type, struct sk_rd *r);
/* handles NEXT and PEEK */
void sk_req_next(struct sk_local *l, struct sk_lworker *w, uint32_t type, struct sk_rd *r);
/* Adds a watch of an object or of the next yield of a stream, for a worker or (w NULL) for the
 * driver. SK_EDONE: the object or yield exists already, and no watch is added. */
sk_rc sk_req_watch(struct sk_local *l, struct sk_lworker *w, uint64_t req, uint64_t oid,
                   uint64_t tid, struct sk_watch *watch, struct sk_err *err) SK_MUST_USE;
void sk_req_unwatch(struct sk_local *l, struct sk_lworker *w, uint64_t req);
/* Fires a watch, and frees the request. */
void sk_req_fire(struct sk_local *l, struct sk_req *q);
void sk_req_reply(struct sk_local *l, struct sk_req *q, sk_rc rc);
void sk_req_free(struct sk_local *l, struct sk_req *q);

#endif
