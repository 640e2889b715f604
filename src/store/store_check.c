/* store_check.c - checks the invariants of the whole store, and formats it for people.
 *
 * Called by tests after every few operations and by SK_XCHECK builds. It takes time linear in
 * extents and pins, only reads, and names the rule that is broken. It finds the traces of wrong
 * merges, splits and counts. */
#include <stdarg.h>
#include <stdio.h>

#include "store/store_int.h"

struct tally {
    uint64_t warm, leased, sealed, pins;
    uint64_t n_warm, n_cold, n_runs, n_leased, n_sealed;
};

static bool in_bin(const struct sk_bins *b, const struct sk_ext *x) {
    uint32_t row, sub;
    sk_bin_of(x->len, &row, &sub);
    return (b->rows >> row & 1) && (b->subs[row] >> sub & 1) &&
           (x->ln_prev ? x->ln_prev->ln_next == x : b->head[row][sub] == x);
}

static const char *check_free(const struct sk_store *st, const struct sk_ext *x, struct tally *t) {
    bool prev_free = x->prev && SK_EXT_IS_FREE(x->prev),
         next_free = x->next && SK_EXT_IS_FREE(x->next);
    if (x->prev && x->prev->state == x->state) return "two free neighbours of one temperature";
    if (x->state == SK_EXT_WARM) {
        t->n_warm++;
        t->warm += x->len;
        if (!in_bin(&st->warm, x)) return "a warm piece is not in its bin";
    } else {
        t->n_cold++;
        const struct sk_span *s = sk_spans_floor(&st->cold, x->off);
        if (!s || s->off != x->off || s->len != x->len || s->ext != x)
            return "a cold piece has no true span";
    }
    uint64_t end = sk_ext_end(x);
    for (const struct sk_ext *y = x->next; !prev_free && y && SK_EXT_IS_FREE(y); y = y->next)
        end = sk_ext_end(y);
    if (!prev_free && end - x->off >= st->refused_len)
        return "a run is longer than what was refused";
    if (!prev_free && next_free) { /* the head of a mixed run */
        t->n_runs++;
        const struct sk_span *s = sk_spans_floor(&st->runs, x->off);
        if (!s || s->off != x->off || s->len != end - x->off || s->ext != x)
            return "a mixed run has no true span";
    }
    return NULL;
}

static const char *check_live(const struct sk_store *st, const struct sk_ext *x, struct tally *t) {
    if (sk_map_get(&st->live, x->off + 1) != x) return "a live extent is not in the map";
    if (x->state == SK_EXT_LEASED) {
        const struct sk_store_proc *p = sk_map_get(&st->procs, (uint64_t)x->proc + 1);
        if (!p || (x->ln_prev ? x->ln_prev->ln_next != x : p->leases != x))
            return "a lease is not in its process's list";
        t->n_leased++;
        t->leased += x->len;
    } else {
        if (x->refs == 0 && x->pins == 0) return "a sealed extent that nobody holds";
        t->n_sealed++;
        t->sealed += x->len;
        t->pins += x->pins;
    }
    return NULL;
}

static const char *check_bins(const struct sk_bins *b, uint64_t want) {
    uint64_t n = 0;
    for (uint32_t row = 0; row < SK_BIN_ROWS; row++) {
        if ((b->rows >> row & 1) != (b->subs[row] != 0)) return "a bit of the bin rows is wrong";
        for (uint32_t sub = 0; sub < SK_BIN_SUB; sub++) {
            if ((b->subs[row] >> sub & 1) != (b->head[row][sub] != NULL))
                return "a bit of the bins is wrong";
            for (const struct sk_ext *x = b->head[row][sub]; x; x = x->ln_next) n++;
        }
    }
    return n == want ? NULL : "a bin holds what is not warm";
}

static const char *check_procs(const struct sk_store *st, const struct tally *t) {
    uint64_t key, n_leases = 0, n_pins = 0, n_pin_nodes = 0;
    void *val;
    for (uint32_t i = 0; sk_map_next(&st->procs, &i, &key, &val);) {
        const struct sk_store_proc *p = val;
        if (key != (uint64_t)p->proc + 1) return "a process is under a wrong key";
        for (const struct sk_ext *x = p->leases; x; x = x->ln_next, n_leases++)
            if (x->state != SK_EXT_LEASED || x->proc != p->proc)
                return "a process lists what is not its lease";
        for (const struct sk_pin *pin = p->pins; pin; pin = pin->next, n_pin_nodes++) {
            if (pin->count == 0 || pin->count > pin->ext->pins || pin->ext->state != SK_EXT_SEALED)
                return "a pin on what it cannot be on";
            if (pin->next && pin->next->prev != pin) return "a broken list of pins";
            n_pins += pin->count;
        }
    }
    if (n_leases != t->n_leased) return "lists of leases and extents disagree";
    if (n_pins != t->pins || n_pins != st->n_pins || n_pin_nodes != st->pins.n)
        return "pins of processes and of extents disagree";
    return NULL;
}

const char *sk_store_check_why(const struct sk_store *st) {
    struct tally t = {0};
    const char *why;
    uint64_t at = 0;
    const struct sk_ext *prev = NULL;
    for (const struct sk_ext *x = st->first; x; prev = x, x = x->next) {
        if (x->off != at || x->len == 0 || x->len % SK_STORE_ALIGN || x->prev != prev)
            return "extents do not tile the store";
        at = sk_ext_end(x);
        why = SK_EXT_IS_FREE(x) ? check_free(st, x, &t) : check_live(st, x, &t);
        if (why) return why;
    }
    if (at != st->size) return "extents do not tile the store";
    if (t.warm != st->warm_bytes || t.leased != st->leased_bytes || t.sealed != st->sealed_bytes)
        return "byte counts are wrong";
    if (t.n_leased != st->n_leased || t.n_sealed != st->n_sealed ||
        st->live.n != t.n_leased + t.n_sealed)
        return "counts of extents are wrong";
    if (st->peak_bytes < t.leased + t.sealed) return "the peak is below the present";
    if (!sk_spans_check(&st->cold) || !sk_spans_check(&st->runs) || st->cold.n != t.n_cold ||
        st->runs.n != t.n_runs)
        return "a treap of spans is broken";
    if (st->ext_pool.n_used != t.n_warm + t.n_cold + t.n_leased + t.n_sealed ||
        st->span_pool.n_used != t.n_cold + t.n_runs)
        return "nodes leaked";
    if (st->span_pool.n_cap < st->ext_pool.n_used) return "spans are not reserved";
    if ((why = check_bins(&st->warm, t.n_warm))) return why;
    if (st->overflow && (why = sk_store_check_why(st->overflow))) return why;
    return check_procs(st, &t);
}

bool sk_store_check(const struct sk_store *st) { return sk_store_check_why(st) == NULL; }

const char *sk_store_human(uint64_t bytes, char buf[24]) {
    static const char *const unit[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double v = (double)bytes;
    size_t u = 0;
    for (; v >= 1023.5 && u + 1 < SK_COUNT(unit); u++) v /= 1024;
    snprintf(buf, 24, u > 0 && v < 9.95 ? "%.1f %s" : "%.0f %s", v, unit[u]);
    return buf;
}

static void say(char *buf, size_t cap, size_t *len, const char *fmt, ...) SK_PRINTF(4, 5);
static void say(char *buf, size_t cap, size_t *len, const char *fmt, ...) {
    if (*len + 1 >= cap) return;
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(buf + *len, cap - *len, fmt, ap);
    va_end(ap);
    *len = n < 0 ? *len : SK_MIN(*len + (size_t)n, cap - 1);
}

void sk_store_dump(const struct sk_store *st, char *buf, size_t cap) {
    static const char *const name[] = {"?", "cold", "warm", "leased", "sealed"};
    char a[24], b[24], c[24], d[24];
    size_t len = 0;
    if (cap) buf[0] = '\0';
    say(buf, cap, &len, "store %s: sealed %s in %llu, leased %s in %llu, ",
        sk_store_human(st->size, a), sk_store_human(st->sealed_bytes, b),
        (unsigned long long)st->n_sealed, sk_store_human(st->leased_bytes, c),
        (unsigned long long)st->n_leased);
    say(buf, cap, &len, "warm %s, peak %s, %llu pins, %llu processes\n",
        sk_store_human(st->warm_bytes, c), sk_store_human(st->peak_bytes, d),
        (unsigned long long)st->n_pins, (unsigned long long)st->procs.n);
    for (const struct sk_ext *x = st->first; x && len + 1 < cap; x = x->next) {
        say(buf, cap, &len, "%#14llx %10s %s", (unsigned long long)x->off,
            sk_store_human(x->len, a), name[x->state]);
        if (x->state == SK_EXT_LEASED) say(buf, cap, &len, " to %u", x->proc);
        if (x->state == SK_EXT_SEALED) say(buf, cap, &len, " refs %u pins %u", x->refs, x->pins);
        say(buf, cap, &len, "\n");
    }
    if (!st->overflow || len + 1 >= cap) return;
    say(buf, cap, &len, "overflow on disk: ");
    sk_store_dump(st->overflow, buf + len, cap - len);
}
