/* launch.c - the last check of a task before it is sent: whether its arguments exist and are in
 * memory, and which of its yields are needed. Runs with the lock held.
 *
 * Between a task's turn and its message time passes, in which a value may be lost or spilled.
 * Invariant: a task that is sent has all its arguments. Cost: nothing while nothing is lost or on
 * disk. */
#include "engine/local/driver/local_int.h"

sk_rc sk_launch(struct sk_local *l, struct sk_ltask *t, struct sk_lworker *w) {
    SK_DCHECK(t->state == SK_T_READY);
    SK_DCHECK(t->n_unready == 0);
    if (SK_UNLIKELY(t->seen_lost != (uint32_t)l->n_lost)) SK_TRY(sk_ltask_look(l, t, true));
    if (SK_UNLIKELY(l->stored.n_disk)) SK_TRY(sk_space_args(l, t));
    if (sk_ltask_is_stream(t) && (t->kept == SK_KEPT_YES || t->extra))
        SK_TRY(sk_recover_wanted(l, t));
    return sk_ltask_send(l, t, w);
}
