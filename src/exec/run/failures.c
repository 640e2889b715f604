/* failures.c - records the failure that ends a run, and failures that do not end it: dead letters,
 * and errors of tasks whose output was left out. verdict.c decides what a failure leads to. */
#include <stdio.h>

#include "exec/run/run_int.h"

#define TAG SK_TAG_EXEC

const char *sk_run_task_name(const struct sk_stask *t, char buf[40]) {
    if (t->seq == SK_NO_SEQ) return "a task ahead of its turn";
    snprintf(buf, 40, "task %llu", (unsigned long long)t->seq);
    return buf;
}

void sk_run_fail(struct sk_exec *x, sk_rc rc, const struct sk_err *err, sk_oid bad) {
    if (x->failed) {
        sk_run_release(x->e, bad);
        return;
    }
    x->failed = true;
    x->fail_rc = rc == SK_OK ? SK_ETASK : rc;
    x->fail = *err;
    x->bad = bad;
}

sk_rc sk_run_give_failure(const struct sk_exec *x, sk_oid *bad, struct sk_err *err) {
    if (x->bad.v) x->e->ops->retain(x->e, x->bad);
    *bad = x->bad;
    if (err) *err = x->fail;
    return x->fail_rc;
}

/* Stores dead letters or an error for sk_exec_next_failure. Takes the reference s.oid. */
static void record(struct sk_exec *x, struct sk_exec_failure s) {
    struct sk_err err = {0};
    if (sk_vec_push(&x->failures, TAG, s)) return;
    sk_run_release(x->e, s.oid);
    sk_run_fail(x, SK_ERR(&err, SK_ENOMEM, "pipeline: no memory for an error to report"), &err,
                (sk_oid){0});
}

void sk_run_bad(struct sk_exec *x, const struct sk_stask *t, sk_oid oid, uint32_t bad) {
    record(x, (struct sk_exec_failure){.oid = oid, .stage = t->stage, .bad = bad});
    if (sk_exec_bad_rows(&x->conf, &x->faults, bad)) return;
    struct sk_err err = {0};
    sk_rc rc = SK_ERR(&err, SK_ETASK, "%llu rows failed, and %lld may (DataContext.max_errors)",
                      (unsigned long long)x->faults.bad_rows, (long long)x->conf.max_bad_rows);
    sk_run_fail(x, rc, &err, (sk_oid){0});
}

bool sk_run_left_out(struct sk_exec *x, const struct sk_stask *t, sk_oid oid, struct sk_err *err,
                     bool actor_lives, bool *actor_dead) {
    char name[40];
    sk_err_prefix(err, "%s, %s", x->step->s[t->stage].label, sk_run_task_name(t, name));
    struct sk_task_verdict v =
        sk_exec_failed(&x->conf, &x->faults, sk_run_desc(x, t->stage), err->code, actor_lives);
    bool needed = t->say && x->step->s[t->stage].gather->ops->needed(t->say);
    v.left_out = v.left_out && !needed;
    *actor_dead = v.actor_dead;
    if (v.left_out) record(x, (struct sk_exec_failure){.oid = oid, .stage = t->stage, .err = *err});
    else sk_run_fail(x, err->code, err, oid);
    return v.left_out;
}

sk_rc sk_exec_next_failure(struct sk_exec *x, struct sk_exec_failure *out) {
    sk_inbox_enter(x->inbox);
    bool any = x->next_failure < x->failures.n;
    if (any) *out = x->failures.p[x->next_failure++];
    if (x->next_failure == x->failures.n) x->next_failure = x->failures.n = 0;
    sk_inbox_leave(x->inbox);
    return any ? SK_OK : SK_EAGAIN;
}
