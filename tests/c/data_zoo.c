/* data_zoo.c - the batch of nearly every type of the block layer's tests, and its reader, for tests
 * of the data layer. */
#include "block_make.c"
#include "block_read.c"
#include "block_zoo.c"
