/* shuffle_make.c - the random columns of the kernels' tests (kernel_make.c), for tests of the
 * shuffle layer. */
#include "kernel_make.c"
