/* request.h - workers that wait, and who watches.
 *
 * Calls: object, link, recover, send, space, stored, stream. */
#ifndef SK_LOCAL_REQUEST_H
#define SK_LOCAL_REQUEST_H

#include "engine/local/driver/space/space.h"

struct sk_local;
struct sk_lworker;
struct sk_dep;
struct sk_rd;
struct sk_err;

struct sk_req { /* a worker that waits: GET, WAIT, NEXT, PEEK; or somebody who watches: WATCH */
    struct sk_get_wait get;
    struct sk_list link;    /* of its worker: reqs or watches; of the driver: l->watches */
    struct sk_lworker *w;   /* NULL: the driver's */
    struct sk_watch *watch; /* then */
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
/* Tells all who watch in the driver. */
void sk_req_fire_all(struct sk_local *l);
/* GET, WAIT */
void sk_req_wait(struct sk_local *l, struct sk_lworker *w, uint32_t type, struct sk_rd *r);
/* NEXT, PEEK */
void sk_req_next(struct sk_local *l, struct sk_lworker *w, uint32_t type, struct sk_rd *r);
/* Watches an object or the next yield of a stream, for the driver (w NULL) or for a worker.
 * SK_EDONE: it exists already. */
sk_rc sk_req_watch(struct sk_local *l, struct sk_lworker *w, uint64_t req, uint64_t oid,
                   uint64_t tid, struct sk_watch *watch, struct sk_err *err) SK_MUST_USE;
void sk_req_unwatch(struct sk_local *l, struct sk_lworker *w, uint64_t req);
/* Tells who watches, and frees the request. */
void sk_req_fire(struct sk_local *l, struct sk_req *q);
void sk_req_reply(struct sk_local *l, struct sk_req *q, sk_rc rc);
void sk_req_free(struct sk_local *l, struct sk_req *q);

#endif
