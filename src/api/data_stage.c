/* data_stage.c - runs the tasks of pipelines' stages in a worker.
 *
 * A worker keeps the chains of the stages that it has run last. The description of a stage is one
 * object a run, which all of the stage's tasks refer to: its id finds the chain. Only the first
 * task of a run compares bytes, since an earlier run may have had the same stage. An actor of a
 * pool has one chain, whose functions keep their state until the process ends. A failure ends the
 * task with a value of kind KIND_FAILURE, which has code and message. */
#include <stdlib.h>

#include "api/data_int.h"
#include "base/mem.h"
#include "base/hash.h"
#include "shuffle/task.h"

enum { CHAINS = 16 };

struct cached {
    sk_oid oid;            /* the description that was given last; 0: none */
    struct sk_bytes stage; /* a copy of it */
    struct sk_data_chain *chain;
};
/* used by the thread that runs the worker's tasks */
static struct cached cache[CHAINS];
static uint32_t turn;
static struct cached actors; /* the chain of this process, if it is an actor of a pool */

static void drop(struct cached *c) {
    sk_data_chain_close(c->chain);
    sk_free((void *)(uintptr_t)c->stage.p);
    *c = (struct cached){.chain = NULL};
}

static sk_rc make(struct cached *c, struct sk_bytes stage, struct skate_task *t,
                  struct sk_err *err) {
    void *copy = sk_memdup(SK_TAG_EXEC, stage.p, stage.n);
    if (!copy) return SK_ERR(err, SK_ENOMEM, "no memory for a stage");
    struct sk_bytes own = {copy, stage.n};
    sk_rc rc = sk_data_chain_open(own, sk_batch_op_find, t, &c->chain, err);
    if (rc == SK_OK) c->stage = own;
    else sk_free(copy);
    return rc;
}

static struct cached *find(sk_oid oid, struct sk_bytes stage) {
    for (uint32_t i = 0; i < CHAINS; i++)
        if (cache[i].chain && oid.v && cache[i].oid.v == oid.v) return &cache[i];
    for (uint32_t i = 0; i < CHAINS; i++)
        if (cache[i].chain && cache[i].stage.n == stage.n &&
            memcmp(cache[i].stage.p, stage.p, stage.n) == 0)
            return &cache[i];
    return NULL;
}

static sk_rc chain_of(struct skate_task *t, struct sk_data_chain **out, struct sk_err *err) {
    const struct sk_view *v = &t->t->args[0];
    struct sk_bytes stage = {v->data, v->len};
    struct cached *c = find(v->oid, stage);
    if (!c) {
        c = &cache[turn++ % CHAINS];
        drop(c);
        SK_TRY(make(c, stage, t, err));
    }
    c->oid = v->oid;
    *out = c->chain;
    return SK_OK;
}

/* Ends the task with code and message as a value, as skate_fail does. */
static int fail(struct skate_task *t, sk_rc rc, const struct sk_err *err) {
    uint8_t buf[4 + sizeof err->msg];
    int32_t code = rc;
    size_t n = strlen(err->msg);
    memcpy(buf, &code, 4);
    memcpy(buf + 4, err->msg, n);
    struct sk_payload p = {.kind = KIND_FAILURE, .bytes = {buf, 4 + n}};
    struct sk_err unused;
    if (sk_task_fail(t->t, &p, &unused) == SK_OK) t->failed = true;
    return rc;
}

static bool stage_given(const struct skate_task *t) {
    return t->t->n_args && t->t->args[0].kind == SK_KIND_STAGE;
}

static int run_stage(struct skate_task *t) {
    struct sk_err *err = sk_api_err();
    struct sk_data_chain *c;
    sk_rc rc;
    if (!stage_given(t)) return SK_ERR(err, SK_ECORRUPT, "this task was given no stage");
    if (sk_native_may(t->t)) {
        enum sk_native how;
        rc = sk_native_run(t->t, &how, err);
        if (how == SK_NATIVE_RAN) return rc;
        if (how == SK_NATIVE_NOT) rc = SK_EINVAL; /* there is no operator that casts the batches */
        return fail(t, rc, err);
    }
    rc = chain_of(t, &c, err);
    if (rc == SK_OK) rc = sk_data_chain_run(c, t->t, 1, t, err);
    return rc == SK_OK || rc == SK_ECANCEL ? rc : fail(t, rc, err);
}

static int stage_init(struct skate_task *t) {
    struct sk_err *err = sk_api_err();
    if (!stage_given(t)) return SK_ERR(err, SK_ECORRUPT, "this task was given no stage");
    drop(&actors);
    sk_rc rc = make(&actors, (struct sk_bytes){t->t->args[0].data, t->t->args[0].len}, t, err);
    return rc == SK_OK ? rc : fail(t, rc, err);
}

static int stage_call(struct skate_task *t) {
    struct sk_err *err = sk_api_err();
    if (!actors.chain) return SK_ERR(err, SK_ECORRUPT, "this process is no actor of a pipeline");
    sk_rc rc = sk_data_chain_run(actors.chain, t->t, 0, t, err);
    return rc == SK_OK || rc == SK_ECANCEL ? rc : fail(t, rc, err);
}

const char sk_api_run_stage[] = "skate:run_stage", sk_api_stage_init[] = "skate:stage_init",
           sk_api_stage_call[] = "skate:stage_call";

/* Before the constructors of programs, one of which may call skate_worker_main. */
__attribute__((constructor(101))) static void register_stages(void) {
    (void)skate_register(sk_api_run_stage, run_stage);
    (void)skate_register(sk_api_stage_init, stage_init);
    (void)skate_register(sk_api_stage_call, stage_call);
}
