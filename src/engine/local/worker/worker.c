/* worker.c - a worker process of the local engine: reads tasks from its ring, runs them with the
 * program's runner, reports them.
 *
 * A task is claimed by compare-and-swap before it runs, so that the driver can take back queued
 * tasks at any moment. Its message is copied before it is popped, since a running task may wait for
 * answers that arrive behind it. A finished task's report is published in the ring at once; the
 * wake-up call is left out while more work is queued and the driver is known to check the ring by
 * itself. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/mem.h"
#include "base/containers/vec.h"
#include "engine/host.h"
#include "engine/local/wire/look.h"
#include "engine/local/wire/view.h"
#include "engine/local/wire/prints.h"
#include "engine/local/worker/worker.h"

#define SPIN_NS 50000
#define IDLE_NS 200000000 /* ns; after this time without work the lease is given back */
/* ns; after this time without work malloc gives back the memory that it keeps */
#define TRIM_NS 1000000000

/* ---- calls side by side ---------------------------------------------------------------------- */

/* Call with c->mu held when another call of this group can begin: wakes the group's event loop. */
void sk_worker_step_more(struct sk_group *g) {
    if (!sk_list_empty(&g->queue)) sk_worker_link_nudge(g);
}

static void *group_main(void *arg) {
    struct sk_group *g = arg;
    struct sk_worker_engine *c = g->c;
    if (c->runner->thread_begin) c->runner->thread_begin(c->runner->ctx);
    pthread_mutex_lock(&c->mu);
    for (;;) {
        if (sk_list_empty(&g->queue)) {
            g->n_idle++;
            pthread_cond_wait(&g->cond, &c->mu);
            g->n_idle--;
            continue;
        }
        struct sk_msg *m = sk_container_of(g->queue.next, struct sk_msg, link);
        sk_list_del(&m->link);
        SK_DCHECK(g->n_queued > 0);
        g->n_queued--;
        struct wtask *t = sk_wtask_get(c);
        g->n_running++;
        pthread_mutex_unlock(&c->mu);
        if (sk_wtask_begin(t, m)) (void)sk_wtask_run(t);
        pthread_mutex_lock(&c->mu);
        g->n_running--;
        sk_wtask_put(t);
    }
    return NULL;
}

/* A thread with the event loop of one group: a call that blocks one group blocks no other. */
static void *loop_main(void *arg) {
    struct sk_group *g = arg;
    struct sk_worker_engine *c = g->c;
    struct sk_err err = {0};
    if (c->runner->thread_begin) c->runner->thread_begin(c->runner->ctx);
    sk_rc rc =
        c->runner->serve_async(c->runner->ctx, &c->base, g->fd, (uint32_t)(g - c->groups), &err);
    pthread_mutex_lock(&c->mu);
    if (rc != SK_OK && !c->exit) {
        (void)snprintf(c->slot->crash, sizeof c->slot->crash,
                       "an event loop of the actor ended: %.900s", err.msg);
        abort();
    }
    pthread_mutex_unlock(&c->mu);
    return NULL;
}

void sk_worker_thread(struct sk_group *g) {
    pthread_t th;
    if (pthread_create(&th, NULL, g->c->is_async ? loop_main : group_main, g) != 0) {
        if (g->n_threads) return; /* the existing threads do the work */
        (void)snprintf(g->c->slot->crash, sizeof g->c->slot->crash,
                       "no thread can be started for the calls of an actor (check ulimit -u)");
        abort();
    }
    pthread_detach(th);
    g->n_threads++;
}

bool sk_worker_step(struct sk_engine *e, uint32_t index) {
    struct sk_worker_engine *c = sk_container_of(e, struct sk_worker_engine, base);
    SK_ASSERT(index < c->n_groups);
    struct sk_group *own = &c->groups[index];
    uint64_t n;
    if (!sk_fd_ours(own->fd, own->fd_id)) sk_worker_link_fd_lost(c);
    if (read(own->fd, &n, sizeof n) < 0) SK_ASSERT(errno == EAGAIN);
    pthread_mutex_lock(&c->mu);
    for (bool again = true; again;) {
        /* user code may end tasks meanwhile, so the list is walked from its start again */
        again = false;
        SK_LIST_EACH (it, &c->running) {
            struct wtask *t = sk_container_of(it, struct wtask, run.link);
            if (!t->pending || t->told || (t->group ? t->group : c->groups) != own ||
                !sk_wtask_cancelled(t))
                continue;
            t->told = again = true;
            pthread_mutex_unlock(&c->mu);
            if (c->runner->cancel) c->runner->cancel(c->runner->ctx, &t->priv.t);
            pthread_mutex_lock(&c->mu);
            break;
        }
    }
    for (uint32_t i = index ? 1 : 0; i < 2 && !c->exit; i++) {
        struct sk_group *g = i ? own : NULL; /* the constructor's queue comes first */
        struct sk_list *queue = g ? &g->queue : &c->queue;
        if (g && (c->broken || !c->ready)) break;
        while (!sk_list_empty(queue) && (!g || g->n_running < g->max)) {
            struct sk_msg *m = sk_container_of(queue->next, struct sk_msg, link);
            sk_list_del(&m->link);
            struct wtask *t = sk_wtask_get(c);
            t->group = g;
            SK_DCHECK(!g || (g->n_queued > 0 && g->n_running < g->max));
            if (g) g->n_queued--, g->n_running++;
            pthread_mutex_unlock(&c->mu);
            bool began = sk_wtask_begin(t, m);
            pthread_mutex_lock(&c->mu); /* event loops on other threads read `pending` */
            t->pending = began; /* set before the task runs, since the task may end at any moment */
            pthread_mutex_unlock(&c->mu);
            if (began) (void)sk_wtask_run(t);
            pthread_mutex_lock(&c->mu);
            if (began) continue;
            SK_DCHECK(!g || g->n_running > 0);
            if (g) g->n_running--;
            else sk_worker_engine_start_loops(c);
            sk_wtask_put(t);
        }
    }
    bool go_on = !c->exit;
    pthread_mutex_unlock(&c->mu);
    return go_on;
}

/* Queues a call that was read. Call with c->mu held. */
static void queue_call(struct sk_worker_engine *c, struct sk_msg *m) {
    const struct sk_msg_task *h = (const void *)m->bytes;
    if (!c->n_groups || (h->flags & SK_TF_INIT)) {
        sk_list_push_back(&c->queue, &m->link);
        if (c->has_reader) pthread_cond_broadcast(&c->cond);
        return;
    }
    SK_DCHECK(m->len >= sizeof *h);
    struct sk_group *g = &c->groups[h->group < c->n_groups ? h->group : 0];
    sk_list_push_back(&g->queue, &m->link);
    g->n_queued++;
    if (c->is_async) {
        if (g != c->groups && c->ready && !g->n_threads) sk_worker_thread(g);
        sk_worker_link_nudge(g);
    } else if (c->ready) {
        pthread_cond_signal(&g->cond);
        if (g->n_queued > g->n_idle && g->n_threads < g->max) sk_worker_thread(g);
    }
}

/* Call with c->mu held. A task that ran here before may have started the reader (by a watch). The
 * reader may have read calls behind the constructor, which are moved to their groups here. */
static void requeue(struct sk_worker_engine *c) {
    struct sk_list read;
    sk_list_init(&read);
    for (struct sk_list *it; (it = sk_list_first(&c->queue));) {
        sk_list_del(it);
        sk_list_push_back(&read, it);
    }
    for (struct sk_list *it; (it = sk_list_first(&read));) {
        sk_list_del(it);
        queue_call(c, sk_container_of(it, struct sk_msg, link));
    }
}

/* Call with c->mu held. The constructor's message says how many calls run at once: if the actor has
 * groups, a thread reads the ring from now on. */
static void become_concurrent(struct sk_worker_engine *c, const struct sk_msg *m) {
    struct sk_msg_task h;
    struct sk_rd r = sk_rd_init(m->bytes, m->len);
    memcpy(&h, sk_rd_raw(&r, sizeof h), sizeof h);
    if (!(h.flags & SK_TF_INIT)) return;
    (void)sk_rd_bytes(&r);
    for (uint32_t i = 0; i < h.n_args; i++) {
        struct sk_val v;
        (void)sk_rd_val(&r, &v);
    }
    (void)sk_rd_raw(&r, h.n_wanted * sizeof(uint32_t));
    uint32_t n = sk_rd_u32(&r);
    if (!n) return;
    struct sk_group *g = sk_calloc(SK_TAG_ENGINE, n * sizeof *g);
    if (!g) abort();
    for (uint32_t i = 0; i < n; i++) {
        g[i].c = c;
        g[i].max = sk_rd_u32(&r);
        sk_list_init(&g[i].queue);
        pthread_cond_init(&g[i].cond, NULL);
    }
    if (r.bad) abort();
    SK_ASSERT(!c->groups); /* a process has one constructor */
    c->groups = g;
    c->n_groups = n;
    c->is_async = (h.flags & SK_TF_ASYNC) && c->runner->serve_async;
    struct sk_err err;
    bool good = true;
    for (uint32_t i = 0; i < n; i++) {
        g[i].fd = -1;
        if (c->is_async && good && (g[i].fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) < 0)
            good = SK_ERR_SYS(&err, "eventfd") == SK_OK;
        g[i].fd_id = sk_fd_id(g[i].fd);
    }
    if (good) requeue(c);
    if (good && sk_worker_link_start_reader(c, &err) == SK_OK) return;
    (void)snprintf(c->slot->crash, sizeof c->slot->crash, "the actor cannot be started: %.900s",
                   err.msg);
    abort();
}

static void serve_async(struct sk_worker_engine *c) { /* call with c->mu held */
    struct sk_err err = {0};
    sk_worker_link_nudge(&c->groups[0]);
    pthread_mutex_unlock(&c->mu);
    sk_rc rc = c->runner->serve_async(c->runner->ctx, &c->base, c->groups[0].fd, 0, &err);
    pthread_mutex_lock(&c->mu);
    if (rc == SK_OK || c->exit) return;
    (void)snprintf(c->slot->crash, sizeof c->slot->crash,
                   "the event loop of the actor ended: %.900s", err.msg);
    abort();
}

/* Gives back memory that user code has freed and that the allocators keep, since this process is
 * idle. */
static void trim(struct sk_worker_engine *c) {
    if (c->runner->idle) c->runner->idle(c->runner->ctx);
    if (!sk_machine_) sk_mem_trim();
}

void sk_worker_engine_serve(struct sk_worker_engine *c) {
    struct {
        uint32_t type;
        int32_t pid;
    } hello = {SK_M_HELLO, c->pid};
    if (!sk_machine_) sk_mem_keep(c->ctl->heap_keep_bytes);
    pthread_mutex_lock(&c->mu);
    struct wtask *t = sk_wtask_get(c);
    sk_worker_link_send_unlocked(c, &hello, sizeof hello, true);
    while (!c->exit) {
        uint32_t seen = sk_bell_seq(&c->slot->bell);
        struct sk_msg *m = NULL;
        if (!sk_list_empty(&c->queue)) {
            m = sk_container_of(c->queue.next, struct sk_msg, link);
            sk_list_del(&m->link);
        } else {
            while (!c->has_reader && !m && sk_worker_link_read(c, false, &m)) {}
        }
        if (m) {
            if (c->env.p) {
                struct sk_bytes env = c->env;
                c->env.p = NULL;
                pthread_mutex_unlock(&c->mu);
                c->env_failed =
                    c->env_failed ||
                    (c->runner->env && c->runner->env(c->runner->ctx, env, &c->env_err) != SK_OK);
                sk_free((void *)(uintptr_t)env.p);
                pthread_mutex_lock(&c->mu);
            }
            if (!c->n_groups) become_concurrent(c, m);
            if (c->is_async) {
                sk_list_push_front(&c->queue, &m->link);
                serve_async(c);
                break;
            }
            pthread_mutex_unlock(&c->mu);
            if (sk_wtask_begin(t, m)) (void)sk_wtask_run(t);
            sk_free(m);
            t->msg = NULL;
            c->used = true;
            pthread_mutex_lock(&c->mu);
            if (c->n_groups && !c->ready) {
                /* the constructor has run: calls that arrived meanwhile may begin */
                c->ready = true;
                for (uint32_t i = 0; i < c->n_groups; i++)
                    for (uint32_t k = SK_MIN(c->groups[i].n_queued, c->groups[i].max); k > 0; k--)
                        sk_worker_thread(&c->groups[i]);
            }
            continue;
        }
        if (c->exit) break;
        if (c->quiet) sk_worker_link_ring(c, false);
        if (c->has_reader) {
            /* block_begin may let other threads of the user run, which need the lock */
            pthread_mutex_unlock(&c->mu);
            if (c->runner->block_begin) c->runner->block_begin(c->runner->ctx);
            pthread_mutex_lock(&c->mu);
            while (!c->exit && sk_list_empty(&c->queue)) sk_worker_link_wait_unlocked(c, INT64_MAX);
            pthread_mutex_unlock(&c->mu);
            if (c->runner->block_end) c->runner->block_end(c->runner->ctx);
            pthread_mutex_lock(&c->mu);
            continue;
        }
        c->n_on_bell++;
        pthread_mutex_unlock(&c->mu);
        if (c->runner->block_begin) c->runner->block_begin(c->runner->ctx);
        int64_t until = c->lease_len ? sk_now_ns() + IDLE_NS
                        : c->used    ? sk_now_ns() + TRIM_NS
                                     : INT64_MAX;
        sk_rc rc = sk_bell_wait(&c->slot->bell, seen, SPIN_NS, until);
        if (c->runner->block_end) c->runner->block_end(c->runner->ctx);
        pthread_mutex_lock(&c->mu);
        c->n_on_bell--;
        if (rc == SK_ETIMEOUT && c->lease_len) {
            sk_worker_link_idle(c);
            sk_worker_link_ring(c, false);
        } else if (rc == SK_ETIMEOUT) {
            c->used = false;
            pthread_mutex_unlock(&c->mu);
            trim(c);
            pthread_mutex_lock(&c->mu);
        }
    }
    pthread_mutex_unlock(&c->mu);
}

void sk_worker_engine_init(struct sk_worker_engine *c, struct sk_slot *slot, int32_t pid,
                           struct sk_runner *runner) {
    c->queue_call = queue_call;
    c->base = sk_worker_engine_calls;
    c->slot = slot;
    c->pid = slot->pid = pid;
    c->proc = slot->proc;
    c->next_id = c->ctl->id_base + ((uint64_t)c->proc << 40);
    c->runner = runner;
    c->chunk = SK_MIN(SK_LEASE_CHUNK, SK_ALIGN(SK_MAX(c->data_seg.size / 64, 65536), 4096));
    pthread_mutex_init(&c->mu, NULL);
    pthread_mutex_init(&c->define_mu, NULL);
    pthread_condattr_t ca;
    pthread_condattr_init(&ca);
    pthread_condattr_setclock(&ca, CLOCK_MONOTONIC);
    pthread_cond_init(&c->cond, &ca);
    pthread_condattr_destroy(&ca);
    sk_list_init(&c->running);
    sk_map_init(&c->n_calls, SK_TAG_ENGINE);
    sk_list_init(&c->replies);
    sk_map_init(&c->watches, SK_TAG_ENGINE);
    sk_list_init(&c->queue);
    sk_map_init(&c->defs, SK_TAG_ENGINE);
    sk_map_init(&c->shapes, SK_TAG_ENGINE);
}

static struct sk_worker_engine *the_engine; /* one per process; for the crash handler */

int sk_worker_crash_fd(void) {
    if (!the_engine || sk_seg_lost(&the_engine->ctl_seg)) return -1;
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", the_engine->ctl_seg.fd);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    off_t at = (off_t)((uint8_t *)the_engine->slot->crash - the_engine->ctl_seg.base);
    if (fd >= 0 && lseek(fd, at, SEEK_SET) != at) {
        close(fd);
        return -1;
    }
    return fd;
}

void sk_worker_doing(const char *text, size_t n) {
    if (!the_engine) return;
    struct sk_slot *s = the_engine->slot;
    n = SK_MIN(n, sizeof s->doing - 1);
    /* if the process dies between the two stores, the text counts as that of no task */
    atomic_store_explicit(&s->hand, 0, memory_order_relaxed);
    atomic_thread_fence(memory_order_release);
    memcpy(s->doing, text, n);
    s->doing[n] = 0;
    atomic_store_explicit(&s->hand, atomic_load_explicit(&s->task, memory_order_relaxed),
                          memory_order_release);
}

sk_rc sk_worker_serve(struct sk_runner *runner, const struct sk_worker_hooks *hooks,
                      bool *was_worker, struct sk_err *err) {
    const char *sock = getenv("SKATE_FORK_FD"), *ctl = getenv("SKATE_CTL");
    *was_worker = false;
    if (!sock || !ctl) return SK_OK;
    int cfd, dfd, tfd, hand;
    size_t csize, dsize, tail;
    if (sscanf(ctl, "%d,%zu,%d,%zu,%d,%zu,%d", &cfd, &csize, &dfd, &dsize, &tfd, &tail, &hand) != 7)
        return SK_ERR(err, SK_EINVAL, "SKATE_CTL is damaged: %s", ctl);
    struct sk_worker_engine *c = sk_calloc(SK_TAG_ENGINE, sizeof *c);
    if (!c) return SK_ERR(err, SK_ENOMEM, "no memory for a worker");
    c->ctl_seg = c->data_seg = SK_SEG_EMPTY;
    /* the segment is mapped before the fork, so that workers inherit the mapping */
    SK_TRY(sk_seg_attach(&c->ctl_seg, cfd, csize, false, err));
    SK_TRY(sk_seg_attach(&c->data_seg, dfd, dsize, true, err));
    if (tail) SK_TRY(sk_seg_tail(&c->data_seg, "skate-data", tfd, tail, err));
    c->ctl = (struct sk_ctl *)(void *)c->ctl_seg.base;
    if (c->ctl->magic != SK_CTL_MAGIC || c->ctl->version != SK_CTL_VERSION ||
        c->ctl->slot_stride != sk_slot_stride())
        return SK_ERR(err, SK_ECORRUPT,
                      "the control segment is not of this version of skate; driver and worker must "
                      "load the same library");
    sk_prints_server(hand);
    int fd = atoi(sock);
    /* programs that workers start must not take themselves for workers */
    unsetenv("SKATE_FORK_FD");
    unsetenv("SKATE_CTL");
    struct sk_forksrv_hooks of_server = {0};
    if (hooks)
        of_server = (struct sk_forksrv_hooks){.on_note = hooks->on_note,
                                              .before_fork = hooks->before_fork,
                                              .after_fork = hooks->after_fork,
                                              .ctx = hooks->ctx};
    const char *view = getenv("SKATE_VIEW");
    struct sk_witness witness;
    if (view && sk_view_witness(view, &witness)) of_server.witness = &witness;
    else if (view)
        fprintf(stderr, "skate: there will be no record if this program is killed: %s\n",
                strerror(errno));
    unsetenv("SKATE_VIEW");
    uint32_t slot = sk_forksrv_run(fd, &of_server);
    /* From here on this is a fresh worker. */
    sk_worker_engine_init(c, sk_slot_at(c->ctl_seg.base, slot), getpid(), runner);
    sk_prints_worker(hand, slot, &c->ctl_seg);
    SK_TRY(sk_ring_attach(&c->down, sk_slot_down(c->slot), SK_RING_SIZE, err));
    SK_TRY(sk_ring_attach(&c->up, sk_slot_up(c->slot), SK_RING_SIZE, err));
    the_engine = c;
    sk_look_open(c->ctl_seg.base, c->ctl_seg.size, c->slot);
    *was_worker = true;
    c->env_failed =
        hooks && hooks->begin && hooks->begin(hooks->ctx, &c->base, &c->env_err) != SK_OK;
    sk_worker_engine_serve(c);
    return SK_OK;
}
