/* image_int.h - inside the image layer: what a codec is, and the resizer. */
#ifndef SK_IMAGE_INT_H
#define SK_IMAGE_INT_H

#include "base/mem.h"
#include "image/image.h"

/* more is refused: Pillow warns of such files, and from 2^27 on it raises */
#define SK_IMAGE_PIXELS_MAX ((uint64_t)1 << 26)

struct sk_image_head {
    uint32_t h, w, channels; /* of the file */
};

/* A codec keeps its state in memory of its own, *state. Each call returns NULL or why the file is
 * refused; after a refusal only close is called. */
struct sk_image_codec {
    const char *(*open)(struct sk_bytes file, void **state, struct sk_image_head *head);
    /* From now on rows have px bytes a pixel: 1 of grey files, 3 or 4 (R, G, B and one of any
     * value) of RGB, 4 of RGBA. eighths: 8, or 4, 2, 1 if `scales`: h and w are those of the scaled
     * picture then. */
    const char *(*start)(void *state, uint32_t px, uint32_t eighths, uint32_t *h, uint32_t *w);
    const char *(*row)(void *state, uint8_t *row); /* the next one */
    const char *(*finish)(void *state);            /* after the last one */
    void (*close)(void *state);
    bool scales;
};

const struct sk_image_codec *sk_image_jpeg(void); /* NULL: there is no such codec here */
const struct sk_image_codec *sk_image_png(void);
/* *all becomes false when it is missing */
void *sk_image_symbol(void *object, const char *name, bool *all);

/* ---- resize.c: a picture of rows that come one by one. channels: 1 (px 1) or 3 (px 4, the fourth
 * byte is not looked at) */
struct sk_resize;
struct sk_resize_side { /* rows, or columns */
    uint32_t in, out;
    double from,
        /* of the inputs: what becomes the output; 0 and in: all. A picture that was scaled before
         * ends between two of them */
        length;
};
struct sk_resize *sk_resize_create(const struct sk_resize_side *down,
                                   const struct sk_resize_side *along, uint32_t channels,
                                   enum sk_image_order order); /* NULL: no memory */
/* The next row, of in_h; SK_RESIZE_PAD bytes behind it may be read. Then pull as long as there are
 * rows of the output: out_w * channels bytes, the next of out_h. */
void sk_resize_push(struct sk_resize *r, const uint8_t *row);
bool sk_resize_pull(struct sk_resize *r, uint8_t *out);
void sk_resize_destroy(struct sk_resize *r);
#define SK_RESIZE_PAD 32
extern bool sk_image_plain; /* for tests: without AVX2 */

#endif
