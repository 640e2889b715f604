/* shuffle_make.c - the columns that the kernels are tested with, for tests of this layer. */
#include "kernel_make.c"
