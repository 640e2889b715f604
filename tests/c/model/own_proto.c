/* own_proto.c - the model of own_proto.h: the initial state, the successors of a state, and which
 * states are equivalent.
 *
 * One step is one call of a user, one message handled, one task sent or begun, one death or its
 * notice. The real structures are loaded from the state only for steps that touch them, and checked
 * (sk_own_check, sk_lineage_check) before they are saved. */
#include "own_proto_int.h"

#include <signal.h>
#include <stdarg.h>

struct own_run G;

void own_wrong(const char *fmt, ...) {
    if (G.wrong) return;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(G.text, sizeof G.text, fmt, ap);
    va_end(ap);
    G.wrong = G.text;
}

struct sk_own *own_table(void) {
    if (!G.own_in) real_own_load(G.own, &G.s->own);
    G.own_in = true;
    return G.own;
}

struct sk_lineage *own_lineage(void) {
    if (!G.lin_in) real_lin_load(G.lin, &G.s->lin);
    G.lin_in = true;
    return G.lin;
}

void own_fine(sk_rc rc, const char *what, uint8_t id) {
    if (rc != SK_OK && BUG(OWN_RIGHT)) own_wrong("%s object %u: %s", what, id, sk_rc_name(rc));
}

void own_begin(struct st *s) {
    G.s = s;
    G.own_in = G.lin_in = false;
    G.wrong = NULL;
    G.n_lost = 0;
}

void own_finish(void) {
    own_wake();
    if (G.own_in) {
        if (!sk_own_check(G.own)) own_wrong("sk_own_check does not hold");
        real_own_save(G.own, &G.s->own);
    }
    if (G.lin_in) {
        if (!sk_lineage_check(G.lin)) own_wrong("sk_lineage_check does not hold");
        real_lin_save(G.lin, &G.s->lin);
    }
    own_check_all();
}

static void proto_init(const void *arg, void *state) {
    struct st *s = state;
    const struct own_cfg *cfg = arg;
    s->next_id = 1;
    (void)cfg;
}

static void on_abort(int sig) {
    (void)sig;
    siglongjmp(G.jump, 1);
}

static void make_tables(void) {
    CHECK_OK(sk_own_create(&G.own, NULL));
    CHECK_OK(sk_lineage_create(&G.lin, G.cfg->budget ? G.cfg->budget : 255, NULL));
}

static void proto_next(const void *arg, const void *state, struct mc *m) {
    const struct st *from = state;
    (void)arg;
    G.mc = m;
    if (sigsetjmp(G.jump, 0)) {
        /* an assertion of the engine failed: the structures that it was changing are left as they
         * are */
        sigset_t set;
        sigemptyset(&set);
        sigaddset(&set, SIGABRT);
        sigprocmask(SIG_UNBLOCK, &set, NULL);
        test_may_leak();
        make_tables();
        mc_step(m, from, "an assertion of the engine fails (above)",
                "the step that fails an assertion");
        return;
    }
    own_calls_of_user(from, 0);
    for (uint8_t p = 1; p <= G.cfg->n_workers; p++) own_worker_steps(from, p);
    own_driver_steps(from);
}

/* Workers are interchangeable, so they are sorted by their bytes. */
static void proto_canon(const void *arg, void *state) {
    struct st *s = state, was = *s;
    const struct own_cfg *cfg = arg;
    /* at[new] = old */
    uint8_t n = (uint8_t)(cfg->n_workers - cfg->actor), to[MP] = {0, 1, 2, 3},
            at[MP] = {0, 1, 2, 3};
    for (uint8_t i = 2; i <= n; i++)
        for (uint8_t k = i; k > 1; k--) {
            int c = memcmp(&was.w[at[k - 1]], &was.w[at[k]], sizeof was.w[0]);
            if (c == 0) c = memcmp(was.own.refs[at[k - 1]], was.own.refs[at[k]], MO);
            if (c <= 0) break;
            uint8_t x = at[k];
            at[k] = at[k - 1];
            at[k - 1] = x;
        }
    bool same = true;
    for (uint8_t i = 1; i <= n; i++) {
        to[at[i]] = i;
        same &= at[i] == i;
    }
    if (same) return;
    for (uint8_t i = 1; i <= n; i++) {
        s->w[i] = was.w[at[i]];
        memcpy(s->own.refs[i], was.own.refs[at[i]], MO);
    }
    for (uint8_t t = 1; t <= MT; t++) {
        s->task[t].worker = to[was.task[t].worker];
        s->task[t].owner = to[was.task[t].owner];
    }
}

void own_proto_init(const struct own_cfg *cfg) {
    CHECK(cfg->n_workers < MP && cfg->n_objs <= MO && cfg->n_tasks <= MT && cfg->yields <= NY &&
          cfg->inner <= MI);
    memset(&G, 0, sizeof G);
    G.cfg = cfg;
    make_tables();
    signal(SIGABRT, on_abort);
}

void own_proto_exit(void) {
    signal(SIGABRT, SIG_DFL);
    sk_own_destroy(G.own);
    sk_lineage_destroy(G.lin);
}

const struct mc_model own_proto = {.size = sizeof(struct st),
                                   .init = proto_init,
                                   .next = proto_next,
                                   .canon = proto_canon,
                                   .end = own_end};
