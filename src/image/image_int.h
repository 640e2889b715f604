/* image_int.h - inside the image layer: the interface of a codec, and the resizer. */
#ifndef SK_IMAGE_INT_H
#define SK_IMAGE_INT_H

#include "base/mem.h"
#include "image/image.h"

/* most pixels of a picture; larger ones are refused, since Pillow warns of them and raises an
 * exception from 2^27 on */
#define SK_IMAGE_PIXELS_MAX ((uint64_t)1 << 26)

struct sk_image_head {
    uint32_t h, w, channels; /* of the file */
};

/* A codec keeps its state in memory of its own, *state. Each call returns NULL, or why the file is
 * refused; after a refusal only close is called. */
struct sk_image_codec {
    const char *(*open)(struct sk_bytes file, void **state, struct sk_image_head *head);
    /* Starts decoding. px: bytes of a pixel in decoded rows: 1 for grey files, 3 or 4 (R, G, B and
     * a byte of any value) for RGB, 4 for RGBA. eighths: 8 (full size), or 4, 2, 1 if the codec has
     * `scales`; *h, *w: size of the scaled picture. */
    const char *(*start)(void *state, uint32_t px, uint32_t eighths, uint32_t *h, uint32_t *w);
    const char *(*row)(void *state, uint8_t *row); /* decodes the next row */
    const char *(*finish)(void *state);            /* called after the last row */
    void (*close)(void *state);
    bool scales;
};

const struct sk_image_codec *sk_image_jpeg(void); /* NULL: the codec is not loaded */
const struct sk_image_codec *sk_image_png(void);
/* Looks up a function in a shared object; *all becomes false if the function is missing. */
void *sk_image_symbol(void *object, const char *name, bool *all);

/* ---- resize.c: resizing, row by row ------------------------------------------------------ */

/* Resizes a picture whose rows are given one by one. channels: 1 (px 1) or 3 (px 4, the fourth byte
 * is ignored). */
struct sk_resize;
struct sk_resize_side { /* one axis: rows, or columns */
    uint32_t in, out;   /* numbers of rows or columns */
    /* The range [from, from + length) of the inputs becomes the output; 0 and `in`: all inputs. The
     * box of a scaled picture may begin and end between two inputs. */
    double from, length;
};
/* down: the rows; along: the columns. NULL: out of memory. */
struct sk_resize *sk_resize_create(const struct sk_resize_side *down,
                                   const struct sk_resize_side *along, uint32_t channels,
                                   enum sk_image_order order);
/* sk_resize_push gives the resizer the next input row; SK_RESIZE_PAD bytes behind the row may
 * be read. Afterwards call sk_resize_pull until it returns false: each call gives the next
 * output row. */
void sk_resize_push(struct sk_resize *r, const uint8_t *row);
bool sk_resize_pull(struct sk_resize *r, uint8_t *out);
void sk_resize_destroy(struct sk_resize *r);
#define SK_RESIZE_PAD 32
extern bool sk_image_plain; /* true: AVX2 is not used (for tests) */

#endif
