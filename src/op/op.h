/* op.h - the operators: one file each in op/by/, found by the build (file by/x.c defines `const struct sk_op_ops sk_op_by_x`).
 *
 * An operator file says what the operator is (properties for the rules, checks of its parameters). What it does to rows is done in the
 * worker by the function of the same name in skate/data/ops.py over pyarrow, or by a kernel. */
#ifndef SK_OP_H
#define SK_OP_H
#include "plan/plan.h"
#endif
