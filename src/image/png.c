/* png.c - decodes PNG by libpng: grey, RGB and RGBA of 8 bits that are not interlaced. As in
 * jpeg.c, a failure jumps back into the function of this file that called the library. */
#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>

#include "image/image_int.h"

/* constants of the PNG format and of png.h */
enum { GREY = 0, RGB = 2, RGBA = 6, FILLER_AFTER = 1, HAS_TRNS = 0x10 };

static struct {
    void *(*create)(const char *version, void *ctx, void (*error)(void *png, const char *text),
                    void (*warn)(void *png, const char *text));
    void *(*create_info)(void *png);
    void *(*error_ptr)(const void *png);
    void *(*io_ptr)(const void *png);
    void (*set_read)(void *png, void *ctx, void (*read)(void *png, uint8_t *p, size_t n));
    void (*read_info)(void *png, void *info);
    uint32_t (*ihdr)(const void *png, const void *info, uint32_t *w, uint32_t *h, int *bits,
                     int *color, int *interlace, int *compression, int *filter);
    uint32_t (*valid)(const void *png, const void *info, uint32_t what);
    void (*filler)(void *png, uint32_t value, int where);
    void (*update)(void *png, void *info);
    size_t (*row_bytes)(const void *png, const void *info);
    void (*read_row)(void *png, uint8_t *row, uint8_t *display);
    void (*read_end)(void *png, void *info);
    void (*destroy)(void **png, void **info, void **end);
    const char *(*version)(const void *png);
} lib;
/* true: all functions of `lib` are set; written once, under mu, and read with acquire order */
static bool there;
static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;

struct png {
    void *png, *info;
    struct sk_bytes file;
    size_t at;
    uint32_t h, w, channels;
    jmp_buf failed;
};

static const char *const damaged = "damaged or cut off";

static void on_error(void *png, const char *text) {
    (void)text;
    longjmp(((struct png *)lib.error_ptr(png))->failed, 1);
}

static void on_warning(void *png, const char *text) {
    /* warnings concern profiles and texts, not pixels */
    (void)png;
    (void)text;
}

static void read_bytes(void *png, uint8_t *p, size_t n) {
    struct png *g = lib.io_ptr(png);
    if (g->file.n - g->at < n) longjmp(g->failed, 1);
    memcpy(p, (const uint8_t *)g->file.p + g->at, n);
    g->at += n;
}

static void png_close(void *state) {
    struct png *g = state;
    if (g->png && !setjmp(g->failed)) lib.destroy(&g->png, g->info ? &g->info : NULL, NULL);
    sk_free(g);
}

static const char *png_open(struct sk_bytes file, void **state, struct sk_image_head *head) {
    struct png *g = sk_calloc(SK_TAG_BLOCK, sizeof *g);
    if (!g) return "no memory for it";
    *state = g;
    g->file = file;
    if (setjmp(g->failed)) return damaged;
    g->png = lib.create(lib.version(NULL), g, on_error, on_warning);
    if (g->png) g->info = lib.create_info(g->png);
    if (!g->info) return "no memory for it";
    lib.set_read(g->png, g, read_bytes);
    lib.read_info(g->png, g->info);
    int bits = 0, color = 0, interlaced = 0;
    lib.ihdr(g->png, g->info, &g->w, &g->h, &bits, &color, &interlaced, NULL, NULL);
    if (bits != 8) return "not of 8 bits";
    if (interlaced) return "interlaced";
    if (color != GREY && color != RGB && color != RGBA) return "neither grey nor RGB";
    if (lib.valid(g->png, g->info, HAS_TRNS)) return "of a transparent colour";
    g->channels = color == GREY ? 1 : color == RGB ? 3 : 4;
    *head = (struct sk_image_head){g->h, g->w, g->channels};
    return NULL;
}

static const char *png_start(void *state, uint32_t px, uint32_t eighths, uint32_t *h, uint32_t *w) {
    struct png *g = state;
    SK_DCHECK(eighths == 8);
    (void)eighths;
    if (setjmp(g->failed)) return damaged;
    if (px == 4 && g->channels == 3) lib.filler(g->png, 255, FILLER_AFTER);
    lib.update(g->png, g->info);
    if (lib.row_bytes(g->png, g->info) != (size_t)px * g->w) return damaged;
    *h = g->h;
    *w = g->w;
    return NULL;
}

static const char *png_row(void *state, uint8_t *row) {
    struct png *g = state;
    if (setjmp(g->failed)) return damaged;
    lib.read_row(g->png, row, NULL);
    return NULL;
}

static const char *png_finish(void *state) {
    struct png *g = state;
    if (setjmp(g->failed)) return damaged;
    lib.read_end(g->png, NULL);
    return NULL;
}

static const struct sk_image_codec codec = {png_open,   png_start, png_row,
                                            png_finish, png_close, false};

const struct sk_image_codec *sk_image_png(void) {
    return __atomic_load_n(&there, __ATOMIC_ACQUIRE) ? &codec : NULL;
}

static bool look_up(void *o) {
    bool all = true;
    *(void **)&lib.create = sk_image_symbol(o, "png_create_read_struct", &all);
    *(void **)&lib.create_info = sk_image_symbol(o, "png_create_info_struct", &all);
    *(void **)&lib.error_ptr = sk_image_symbol(o, "png_get_error_ptr", &all);
    *(void **)&lib.io_ptr = sk_image_symbol(o, "png_get_io_ptr", &all);
    *(void **)&lib.set_read = sk_image_symbol(o, "png_set_read_fn", &all);
    *(void **)&lib.read_info = sk_image_symbol(o, "png_read_info", &all);
    *(void **)&lib.ihdr = sk_image_symbol(o, "png_get_IHDR", &all);
    *(void **)&lib.valid = sk_image_symbol(o, "png_get_valid", &all);
    *(void **)&lib.filler = sk_image_symbol(o, "png_set_filler", &all);
    *(void **)&lib.update = sk_image_symbol(o, "png_read_update_info", &all);
    *(void **)&lib.row_bytes = sk_image_symbol(o, "png_get_rowbytes", &all);
    *(void **)&lib.read_row = sk_image_symbol(o, "png_read_row", &all);
    *(void **)&lib.read_end = sk_image_symbol(o, "png_read_end", &all);
    *(void **)&lib.destroy = sk_image_symbol(o, "png_destroy_read_struct", &all);
    *(void **)&lib.version = sk_image_symbol(o, "png_get_libpng_ver", &all);
    return all && !strncmp(lib.version(NULL), "1.6.", 4);
}

sk_rc sk_image_use_png(const char *object, struct sk_err *err) {
    pthread_mutex_lock(&mu);
    sk_rc rc = SK_OK;
    void *o = there ? NULL : dlopen(object, RTLD_LAZY | RTLD_LOCAL);
    if (!there && !o) rc = SK_ERR(err, SK_ENOENT, "PNG: %s", dlerror());
    else if (!there && look_up(o)) __atomic_store_n(&there, true, __ATOMIC_RELEASE);
    else if (!there) rc = SK_ERR(err, SK_ENOSYS, "PNG: %s has no libpng 1.6", object);
    pthread_mutex_unlock(&mu);
    return rc;
}
