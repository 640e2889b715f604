/* libs.c - looks up functions in loaded shared objects. */
#include <dlfcn.h>

#include "image/image_int.h"

void *sk_image_symbol(void *object, const char *name, bool *all) {
    void *p = dlsym(object, name);
    if (!p) *all = false;
    return p;
}
