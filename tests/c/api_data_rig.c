/* api_data_rig.c - the rig of the data layer's tests, for chains with functions of batches. */
#include "data_rig.c"
