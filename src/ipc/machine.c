/* machine.c - the switch between this machine and a simulated one (struct sk_machine in ipc.h).
 *
 * Invariant: sk_machine_ is NULL outside simulations, so real calls pay one load and a predictable
 * branch before a system call that costs a hundred times as much. */
#include "ipc/ipc.h"

const struct sk_machine *sk_machine_;

void sk_machine_set(const struct sk_machine *m) { sk_machine_ = m; }
