/* look.h - registers the engine of this process for sk_look_self. slot: a worker's own slot; NULL
 * in the driver.
 *
 * Calls: none. The code of this part may call no other part of the driver; tests/shape.py reads
 * this line. */
#ifndef SK_LOCAL_LOOK_H
#define SK_LOCAL_LOOK_H

#include "engine/local/wire/wire.h"

struct sk_slot;

void sk_look_open(const uint8_t *base, size_t size, const struct sk_slot *slot);
void sk_look_close(void);

#endif
