/* link.c - the network between a worker process on another node and the driver: a session that
 * delivers each message once and in order, over packets that may be lost, late, doubled and out of
 * order.
 *
 * Not here: the content of messages. A link stands for the transport that an engine over several
 * machines would need; the local engine with its rings in shared memory needs none. Each message
 * has a sequence number. The receiver accepts only the next message in order and answers with the
 * number that it expects then; messages that are not acknowledged in time are sent again
 * (go-back-n). Each process has a session of its own, and packets of an ended session are dropped:
 * the bug SK_SIM_BUG_LATE switches that fence off. */
#include <stdlib.h>

#include "base/mem.h"
#include "base/containers/vec.h"
#include "sim/machine/sim_int.h"

#define LATENCY_NS 40000
#define AGAIN_NS 400000

static sk_rc attach(struct sk_ring *r, void *mem) {
    return sk_ring_attach(r, mem, SK_RING_SIZE, NULL);
}

sk_rc sk_link_open(struct sk_proc *p) {
    uint8_t *up = p->rings, *down = p->rings + sk_ring_bytes(SK_RING_SIZE);
    struct sk_slot *slot = p->sh;
    p->up = p->down = (struct sk_way){.again_ns = INT64_MAX};
    sk_ring_create(&p->c->up, up, SK_RING_SIZE);
    sk_ring_create(&p->down.dst, down, SK_RING_SIZE);
    SK_TRY(attach(&p->up.src, up));
    SK_TRY(attach(&p->c->down, down));
    SK_TRY(attach(&p->up.dst, sk_slot_up(slot)));
    return attach(&p->down.src, sk_slot_down(slot));
}

static void msg_drop(struct sk_packet_msg *m) {
    if (m && --m->refs == 0) sk_free(m);
}

static void way_close(struct sk_way *w) {
    for (uint32_t i = 0; i < w->held.n; i++) msg_drop(w->held.p[i]);
    sk_vec_free(&w->held);
    w->again_ns = INT64_MAX;
}

void sk_link_close(struct sk_proc *p) {
    way_close(&p->up);
    way_close(&p->down);
}

void sk_packet_drop(struct sk_sim *s, uint32_t i) {
    msg_drop(s->net.p[i].msg);
    s->net.p[i] = s->net.p[--s->net.n];
}

static int64_t delay(struct sk_sim *s) {
    int64_t ns = LATENCY_NS / 2 + (int64_t)sk_sim_below(s, LATENCY_NS);
    return sk_sim_chance(s, s->conf.net_late) ? ns * 50 : ns;
}

static void packet(struct sk_sim *s, struct sk_proc *p, bool up, bool ack, uint64_t seq,
                   struct sk_packet_msg *m) {
    s->st.n_packets++;
    if (sk_sim_chance(s, s->conf.net_loss)) {
        s->st.n_packets_lost++;
        return;
    }
    uint32_t copies = 1 + sk_sim_chance(s, s->conf.net_twice);
    s->st.n_packets_twice += copies > 1;
    while (copies--) {
        struct sk_packet k = {.at_ns = sk_sim_now(s) + delay(s),
                              .session = p->proc,
                              .slot = p->slot,
                              .up = up,
                              .ack = ack,
                              .seq = seq,
                              .msg = m};
        /* a simulation without memory has no result */
        if (!sk_vec_push(&s->net, SK_TAG_ENGINE, k)) abort();
        if (m) m->refs++;
    }
}

static bool has(struct sk_way *w) { return w->held.n < 64 && !sk_ring_empty(&w->src); }

bool sk_link_due(struct sk_sim *s, struct sk_proc *p) {
    if (p->cut) return false;
    int64_t now = sk_sim_now(s);
    return has(&p->up) || (p->state == SK_P_LIVE && has(&p->down)) || now >= p->up.again_ns ||
           (p->state == SK_P_LIVE && now >= p->down.again_ns);
}

int64_t sk_link_timer(const struct sk_proc *p) {
    if (p->cut) return INT64_MAX;
    return p->state == SK_P_LIVE ? SK_MIN(p->up.again_ns, p->down.again_ns) : p->up.again_ns;
}

bool sk_link_drained(struct sk_proc *p) {
    return p->cut || (sk_ring_empty(&p->up.src) && p->up.held.n == 0);
}

static void way_send(struct sk_sim *s, struct sk_proc *p, struct sk_way *w, bool up) {
    size_t len;
    const void *b = has(w) ? sk_ring_peek(&w->src, &len) : NULL;
    if (b) {
        struct sk_packet_msg *m = sk_alloc(SK_TAG_ENGINE, sizeof *m + len);
        if (!m || !sk_vec_push(&w->held, SK_TAG_ENGINE, m)) abort();
        m->refs = 1;
        m->len = len;
        memcpy(m->bytes, b, len);
        sk_ring_pop(&w->src);
        if (up) sk_bell_ring(&p->sh->bell); /* the worker may wait for room in its ring */
        packet(s, p, up, false, w->sent++, m);
        if (w->again_ns == INT64_MAX) w->again_ns = sk_sim_now(s) + AGAIN_NS;
        return;
    }
    if (sk_sim_now(s) < w->again_ns) return;
    w->again_ns = w->held.n ? sk_sim_now(s) + AGAIN_NS : INT64_MAX;
    if (s->conf.bugs & SK_SIM_BUG_LOSS) {
        way_close(w);
        w->acked = w->sent;
        return;
    }
    for (uint32_t i = 0; i < w->held.n; i++) {
        packet(s, p, up, false, w->acked + i, w->held.p[i]);
        s->st.n_resent++;
    }
}

void sk_link_send(struct sk_sim *s, struct sk_proc *p) {
    bool up_first = sk_sim_below(s, 2);
    if (up_first) way_send(s, p, &p->up, true);
    if (p->state == SK_P_LIVE) way_send(s, p, &p->down, false);
    if (!up_first) way_send(s, p, &p->up, true);
}

static struct sk_proc *session_of(struct sk_sim *s, const struct sk_packet *k) {
    bool late = s->conf.bugs & SK_SIM_BUG_LATE;
    for (uint32_t i = 0; i < SK_SIM_PROCS; i++) {
        struct sk_proc *p = &s->procs[i];
        if (p->state == SK_P_FREE || p->state == SK_P_STARTING || !p->node) continue;
        if (p->proc == k->session ||
            (late && k->up && !k->ack && p->slot == k->slot && p->state == SK_P_LIVE))
            return p;
    }
    return NULL;
}

/* Delivers a message. False: the ring has no room now, so the packet will be sent again. */
static bool hand_over(struct sk_sim *s, struct sk_proc *p, struct sk_way *w,
                      const struct sk_packet *k) {
    SK_ASSERT(k->msg);
    void *b = sk_ring_reserve(&w->dst, k->msg->len);
    if (!b) return false;
    memcpy(b, k->msg->bytes, k->msg->len);
    sk_ring_commit(&w->dst, k->msg->len);
    s->moved_ns = sk_sim_now(s);
    if (k->up) {
        sk_bell_ring(&s->l->ctl->bell[atomic_load(&s->l->ctl->who) & 1]);
    } else {
        sk_bell_ring(&p->sh->bell);
    }
    return true;
}

void sk_link_arrive(struct sk_sim *s, uint32_t i) {
    struct sk_packet k = s->net.p[i];
    if (k.msg) k.msg->refs++;
    sk_packet_drop(s, i);
    struct sk_proc *p = session_of(s, &k);
    if (!p || (!k.up && p->state != SK_P_LIVE && !k.ack) ||
        (p->proc == k.session && p->cut && !k.up)) {
        s->st.n_late++;
        goto out;
    }
    struct sk_way *w = k.up ? &p->up : &p->down;
    sk_sim_mix(s, k.seq << 2 | (uint64_t)k.up << 1 | k.ack);
    if (k.ack) {
        while (w->acked < k.seq && w->held.n) {
            msg_drop(w->held.p[0]);
            memmove(w->held.p, w->held.p + 1, --w->held.n * sizeof *w->held.p);
            w->acked++;
        }
        w->again_ns = w->held.n ? sk_sim_now(s) + AGAIN_NS : INT64_MAX;
        goto out;
    }
    if (p->proc != k.session) { /* the packet belongs to an old session: the bug accepts it */
        (void)hand_over(s, p, w, &k);
        goto out;
    }
    bool next = k.seq == w->want || (k.seq < w->want && (s->conf.bugs & SK_SIM_BUG_TWICE)) ||
                (k.seq > w->want && (s->conf.bugs & (SK_SIM_BUG_ORDER | SK_SIM_BUG_LOSS)));
    if (next && hand_over(s, p, w, &k)) {
        if (k.seq == w->want) w->want++;
        else if (k.seq > w->want && (s->conf.bugs & SK_SIM_BUG_LOSS)) w->want = k.seq + 1;
    }
    if (!p->cut) packet(s, p, k.up, true, w->want, NULL);
out:
    msg_drop(k.msg);
}
