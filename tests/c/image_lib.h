/* image_lib.h - finds libjpeg and libpng on a machine that runs tests: the system's, or those
 * inside the Pillow package of .venv. */
#ifndef SK_IMAGE_LIB_H
#define SK_IMAGE_LIB_H

#include <glob.h>
#include <stdio.h>

#include "image/image_int.h"

static bool image_try(sk_rc (*use)(const char *object, struct sk_err *err), const char *soname,
                      const char *file) {
    char pattern[512];
    glob_t g = {.gl_pathc = 0};
    bool ok = use(soname, NULL) == SK_OK;
    (void)snprintf(pattern, sizeof pattern,
                   SK_SOURCE_DIR "/.venv/lib/python3*/site-packages/pillow.libs/%s", file);
    if (!ok && glob(pattern, 0, NULL, &g) == 0) {
        for (size_t i = 0; i < g.gl_pathc && !ok; i++) ok = use(g.gl_pathv[i], NULL) == SK_OK;
        globfree(&g);
    }
    return ok;
}

static bool image_have_both(void) {
    return image_try(sk_image_use_jpeg, "libjpeg.so.62", "libjpeg-*.so.62*") &&
           image_try(sk_image_use_png, "libpng16.so.16", "libpng16-*.so.16*");
}

#endif
