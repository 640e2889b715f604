/* jpeg.c - decodes JPEG by libjpeg-turbo: baseline and progressive, grey and YCbCr or RGB, 8 bits.
 *
 * The library reports a failure by calling error_exit, which jumps back (longjmp) into the function
 * of this file that called the library. A warning means that data are missing or damaged: the file
 * is refused. */
#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>

#include "image/image_int.h"
#include "image/jpeg62.h"

static struct {
    struct jpeg62_err *(*std_error)(struct jpeg62_err *err);
    void (*create)(struct jpeg62 *d, int version, size_t size);
    void (*mem_src)(struct jpeg62 *d, const uint8_t *p, unsigned long n);
    int (*read_header)(struct jpeg62 *d, int require_image);
    int (*start)(struct jpeg62 *d);
    uint32_t (*read)(struct jpeg62 *d, uint8_t **rows, uint32_t n);
    int (*finish)(struct jpeg62 *d);
    void (*destroy)(struct jpeg62 *d);
} lib;
/* true: all functions of `lib` are set; written once, under mu, and read with acquire order */
static bool there;
static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;

struct jpeg {
    struct jpeg62 d; /* must be first: the library passes this member to the callbacks below */
    struct jpeg62_err err;
    jmp_buf failed;
    bool created, damaged;
};

static void error_exit(struct jpeg62 *d) { longjmp(((struct jpeg *)(void *)d)->failed, 1); }

static void emit_message(struct jpeg62 *d, int level) {
    if (level < 0) ((struct jpeg *)(void *)d)->damaged = true;
}

static void output_message(struct jpeg62 *d) { (void)d; }

static const char *const damaged = "damaged or cut off";

static void jpeg_close(void *state) {
    struct jpeg *j = state;
    if (j->created && !setjmp(j->failed)) lib.destroy(&j->d);
    sk_free(j);
}

static const char *jpeg_open(struct sk_bytes file, void **state, struct sk_image_head *head) {
    struct jpeg *j = sk_calloc(SK_TAG_BLOCK, sizeof *j);
    if (!j) return "no memory for it";
    *state = j;
    j->d.err = lib.std_error(&j->err);
    j->err.error_exit = error_exit;
    j->err.emit_message = emit_message;
    j->err.output_message = output_message;
    if (setjmp(j->failed)) return damaged;
    lib.create(&j->d, JPEG62_VERSION, sizeof j->d);
    j->created = true;
    lib.mem_src(&j->d, file.p, file.n);
    if (lib.read_header(&j->d, 1) != 1 || j->damaged) return damaged;
    if (j->d.data_precision != 8) return "not of 8 bits";
    if (j->d.num_components != 1 && j->d.num_components != 3) return "neither grey nor RGB";
    *head =
        (struct sk_image_head){j->d.image_height, j->d.image_width, (uint32_t)j->d.num_components};
    return NULL;
}

static const char *jpeg_start(void *state, uint32_t px, uint32_t eighths, uint32_t *h,
                              uint32_t *w) {
    struct jpeg *j = state;
    if (setjmp(j->failed)) return damaged;
    j->d.out_color_space = px == 1 ? JPEG62_GREY : px == 3 ? JPEG62_RGB : JPEG62_RGBX;
    j->d.scale_num = eighths;
    j->d.scale_denom = 8;
    if (!lib.start(&j->d) || j->damaged || j->d.output_components != (int32_t)px) return damaged;
    *h = j->d.output_height;
    *w = j->d.output_width;
    return NULL;
}

static const char *jpeg_row(void *state, uint8_t *row) {
    struct jpeg *j = state;
    if (setjmp(j->failed)) return damaged;
    return lib.read(&j->d, &row, 1) == 1 && !j->damaged ? NULL : damaged;
}

static const char *jpeg_finish(void *state) {
    struct jpeg *j = state;
    if (setjmp(j->failed)) return damaged;
    return lib.finish(&j->d) && !j->damaged ? NULL : damaged;
}

static const struct sk_image_codec codec = {jpeg_open,   jpeg_start, jpeg_row,
                                            jpeg_finish, jpeg_close, true};

const struct sk_image_codec *sk_image_jpeg(void) {
    return __atomic_load_n(&there, __ATOMIC_ACQUIRE) ? &codec : NULL;
}

/* True if the library accepts this version and struct size. */
static bool known(void) {
    struct jpeg *j = sk_calloc(SK_TAG_BLOCK, sizeof *j);
    if (!j) return false;
    j->d.err = lib.std_error(&j->err);
    j->err.error_exit = error_exit;
    j->err.emit_message = emit_message;
    bool ok = false;
    if (!setjmp(j->failed)) {
        lib.create(&j->d, JPEG62_VERSION, sizeof j->d);
        lib.destroy(&j->d);
        ok = true;
    }
    sk_free(j);
    return ok;
}

sk_rc sk_image_use_jpeg(const char *object, struct sk_err *err) {
    if (sizeof(void *) != 8) return SK_ERR(err, SK_ENOSYS, "JPEG: pointers of 64 bits are needed");
    pthread_mutex_lock(&mu);
    sk_rc rc = SK_OK;
    void *o = there ? NULL : dlopen(object, RTLD_LAZY | RTLD_LOCAL);
    if (!there && !o) {
        rc = SK_ERR(err, SK_ENOENT, "JPEG: %s", dlerror());
    } else if (!there) {
        bool all = true;
        *(void **)&lib.std_error = sk_image_symbol(o, "jpeg_std_error", &all);
        *(void **)&lib.create = sk_image_symbol(o, "jpeg_CreateDecompress", &all);
        *(void **)&lib.mem_src = sk_image_symbol(o, "jpeg_mem_src", &all);
        *(void **)&lib.read_header = sk_image_symbol(o, "jpeg_read_header", &all);
        *(void **)&lib.start = sk_image_symbol(o, "jpeg_start_decompress", &all);
        *(void **)&lib.read = sk_image_symbol(o, "jpeg_read_scanlines", &all);
        *(void **)&lib.finish = sk_image_symbol(o, "jpeg_finish_decompress", &all);
        *(void **)&lib.destroy = sk_image_symbol(o, "jpeg_destroy_decompress", &all);
        if (all && known()) __atomic_store_n(&there, true, __ATOMIC_RELEASE);
        else rc = SK_ERR(err, SK_ENOSYS, "JPEG: %s has no libjpeg of interface 6.2", object);
    }
    pthread_mutex_unlock(&mu);
    return rc;
}
