/* verdict.c - see verdict.h. */
#include "engine/rules/verdict.h"

#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>

/* after this many stops a task fails even if others ran beside it */
#define STOPS_MOST 3u
#define STOPS_LIMIT 200u

bool sk_verdict_charged(const struct sk_verdict_worker *w, const struct sk_verdict_actor *a) {
    if (!a || w->kill_task) return false;
    return a->alive || w->killed || (a->placed && a->begun);
}

bool sk_verdict_restarts(const struct sk_verdict_actor *a, bool charged) {
    return !a->no_restart && (!charged || a->restarts_left != 0);
}

/* A call without retries does not wait for the actor's next process, unless a restart was asked
 * for. */
static bool patient(const struct sk_verdict_actor *a, const struct sk_verdict_task *t) {
    return !t->no_wait || t->retries_left != 0 || a->max_task_retries != 0 || a->asked;
}

bool sk_verdict_call_waits(const struct sk_verdict_actor *a, const struct sk_verdict_task *t) {
    return !a->alive || patient(a, t);
}
bool sk_verdict_call_joins(const struct sk_verdict_actor *a, const struct sk_verdict_task *t) {
    return !a->between || patient(a, t);
}

/* True if the results of a cancelled run are thrown away: the values of a call, and the end of a
 * stream with a sink. Results are kept if a coroutine caught its CancelledError and went on, or if
 * the task was over before it was told of the cancel. */
static bool stopped(const struct sk_verdict_run *r) {
    bool call = r->of_actor && !r->is_init, caught = r->async && !r->is_stream;
    return r->spoiled ||
           (r->cancelled && (r->failed || (call && !caught) || (r->is_stream && r->has_sink)));
}

enum sk_verdict_over sk_verdict_over(const struct sk_verdict_run *r) {
    SK_DCHECK(!r->is_init || r->of_actor);
    SK_DCHECK(!r->restart || !r->of_actor);
    if (r->of_actor && r->exits) return SK_OVER_EXIT;
    if (stopped(r)) return SK_OVER_STOPPED;
    if (r->remake && r->is_stream && r->all_made) return SK_OVER_REMADE;
    if (r->failed && !r->cancelled && r->restart) return SK_OVER_FROM_START;
    if (r->failed && !r->cancelled && r->retry_exceptions && !r->final && r->retries_left != 0 &&
        !r->is_init)
        return SK_OVER_AGAIN;
    if (r->failed) return SK_OVER_FAILED;
    return r->remake && r->is_stream ? SK_OVER_LESS : SK_OVER_WELL;
}

static struct sk_verdict of_call(const struct sk_verdict_worker *w,
                                 const struct sk_verdict_actor *a, bool charged,
                                 const struct sk_verdict_task *t) {
    bool restarts = a && sk_verdict_restarts(a, charged);
    if (restarts &&
        (!charged || t->retries_left != 0 || (!t->begun && sk_verdict_call_waits(a, t))))
        return (struct sk_verdict){SK_VERDICT_AGAIN, SK_OK, t->begun, t->begun && charged};
    return (struct sk_verdict){SK_VERDICT_FAIL,
                               w->oom                   ? SK_EOOM
                               : restarts && t->no_wait ? SK_EUNAVAIL
                                                        : SK_EACTOR,
                               false, false};
}

struct sk_verdict sk_verdict_task(const struct sk_verdict_worker *w,
                                  const struct sk_verdict_actor *a, bool charged,
                                  const struct sk_verdict_task *t) {
    SK_DCHECK(!(t->is_init && t->is_call));
    SK_DCHECK(!charged || (a && !w->kill_task));
    if (t->cancelled) return (struct sk_verdict){SK_VERDICT_CANCELLED, SK_ECANCEL, false, false};
    if (t->is_init) return (struct sk_verdict){SK_VERDICT_WITH_ACTOR, SK_OK, false, false};
    if (t->is_call) return of_call(w, a, charged, t);
    if (!t->begun) return (struct sk_verdict){SK_VERDICT_AGAIN, SK_OK, false, false};
    if (t->group_gone) return (struct sk_verdict){SK_VERDICT_FAIL, SK_EGROUP, false, false};
    if (w->kill_task && t->id != w->kill_task)
        return (struct sk_verdict){SK_VERDICT_AGAIN, SK_OK, true, false};
    if (w->oom) return (struct sk_verdict){SK_VERDICT_MEMORY, SK_EOOM, false, false};
    if (t->retries_left != 0) return (struct sk_verdict){SK_VERDICT_AGAIN, SK_OK, true, true};
    return (struct sk_verdict){SK_VERDICT_FAIL, SK_EDEAD, false, false};
}

bool sk_verdict_memory(const struct sk_verdict_stop *s, char *why, size_t cap) {
    uint32_t most = s->oom_retries < 0 ? 0
                    : s->oom_retries   ? SK_MIN((uint32_t)s->oom_retries, STOPS_LIMIT)
                                       : STOPS_MOST - 1;
    SK_DCHECK(s->n_stops > 0);
    if (s->max_retries == 0) snprintf(why, cap, "It is not run again: its max_retries is 0.");
    else if (s->alone && !s->beside)
        snprintf(why, cap, "It had been stopped before, and ran alone this time.");
    else if (!most) snprintf(why, cap, "It is not run again: task_oom_retries is 0.");
    else if (s->n_stops > most) snprintf(why, cap, "It was stopped for it %u times.", s->n_stops);
    else return true;
    return false;
}

bool sk_verdict_bad_start(const struct sk_verdict_worker *w, uint32_t others) {
    return !w->up && !w->killed && (w->refused ? !others : w->status != -1 || w->kill_why);
}

static bool signalled(const struct sk_verdict_worker *w) {
    return w->status != -1 && WIFSIGNALED(w->status);
}

/* True if the engine killed the process, or the process ended because the engine asked it to; false
 * if something else killed the process before that. */
static bool was_sent_away(const struct sk_verdict_worker *w) {
    return w->killed || (w->kill_why && !signalled(w));
}

enum sk_worker_end sk_verdict_end(const struct sk_verdict_worker *w) {
    if (w->oom) return SK_WE_MEMORY;
    if (was_sent_away(w)) return SK_WE_KILLED;
    if (w->status == -1 || !WIFEXITED(w->status)) return SK_WE_CRASH;
    return WEXITSTATUS(w->status) ? SK_WE_EXIT : SK_WE_LEFT;
}

bool sk_verdict_counts(const struct sk_verdict_worker *w, bool had_tasks) {
    return !w->refused && (had_tasks || !was_sent_away(w));
}

void sk_verdict_text(const struct sk_verdict_worker *w, char *buf, size_t cap) {
    char how[400];
    SK_ASSERT(!w->refused);
    if (w->oom) snprintf(how, sizeof how, "was stopped for memory: %.350s", w->oom);
    else if (w->kill_why && was_sent_away(w))
        snprintf(how, sizeof how, "was stopped: %s", w->kill_why);
    else if (signalled(w))
        snprintf(how, sizeof how, "was killed by signal %d (%s)%s", WTERMSIG(w->status),
                 strsignal(WTERMSIG(w->status)),
                 WTERMSIG(w->status) == SIGKILL
                     ? "; nobody but the kernel's out-of-memory killer or a user sends it"
                     : "");
    else if (w->status != -1 && WIFEXITED(w->status))
        snprintf(how, sizeof how, "exited with code %d", WEXITSTATUS(w->status));
    else snprintf(how, sizeof how, "disappeared with the fork server");
    (void)snprintf(buf, cap, "worker process %d %s; peak memory %.0f MiB%s%s%.800s", w->pid, how,
                   (double)w->peak_bytes / 1048576.0, w->doing, *w->last_words ? "\n" : "",
                   w->last_words);
}
