/* real.h - saves the whole state of own.c and lineage.c as flat bytes and loads it again, for a
 * model checker.
 *
 * real_own.c and real_lineage.c include the engine's own source, so that they see its structs;
 * nothing of it is copied or changed. The saved state has everything on which a later call can
 * depend, between two drains (when the queues are empty), with the orders of lists. Ids are 1..MO
 * for objects, 1..MT for tasks; the data of a task is its id. Cost: about 1 us for load or save of
 * a handful of objects. */
#ifndef SK_TEST_REAL_H
#define SK_TEST_REAL_H

#include "engine/own/lineage.h"
#include "engine/own/own.h"

/* MP, MO, MT: most processes, objects, tasks; MI, MA, MU: most inner references, arguments, uses */
enum { MP = 4, MO = 8, MT = 4, MI = 2, MA = 2, MU = 8 };

struct flat_own {
    /* said: contains was called */
    uint8_t alive[MO], holds[MO], refs[MP][MO], said[MO], inner[MO][MI];
};

struct flat_lin {
    struct flat_lin_task {
        uint8_t kept, open, running, bytes, retries, n_args, args[MA], n_returns, returns[MI + 1];
    } task[MT];
    struct flat_lin_obj {
        uint8_t there, alive, said, why, culprit, n_uses, use_task[MU], use_arg[MU];
    } obj[MO];
    uint8_t n_aged, aged[MT];
};

void real_own_load(struct sk_own *o, const struct flat_own *f);
void real_own_save(const struct sk_own *o, struct flat_own *f); /* f is zeroed first */

void real_lin_load(struct sk_lineage *l, const struct flat_lin *f);
void real_lin_save(const struct sk_lineage *l, struct flat_lin *f);

#endif
