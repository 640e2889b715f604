/* version.c - the public C API: the library's version and what it can do. */
#include "api/api_int.h"

static const char *const feature[] = {"tasks",    "actors",       "objects", "records",
                                      "datasets", "resources",    "gpus",    "streams",
                                      "cancel",   "named_actors", "groups",  "events",
                                      "log",      "engines",      "watch",   "resumable_writes"};

const char *skate_version(void) { return SKATE_VERSION; }

const char *skate_feature_name(unsigned i) { return i < SK_COUNT(feature) ? feature[i] : NULL; }

bool skate_has(const char *name) {
    for (unsigned i = 0; name && i < SK_COUNT(feature); i++)
        if (strcmp(name, feature[i]) == 0) return true;
    return false;
}
