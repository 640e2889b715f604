/* image.c - a picture from its file to rows of the output: chooses the codec, the box, the scale
 * and the form of pixels. */
#include "image/image_int.h"

struct sk_image {
    const struct sk_image_codec *codec;
    void *state;
    struct sk_image_head head; /* of the file */
    /* the box crop_h x crop_w is relative to the rows that the codec gives; h and w 0: not
     * resized */
    struct sk_image_want want;
    uint32_t out_channels, px, eighths;
};

static const struct sk_image_codec *codec_of(struct sk_bytes file, const char **why) {
    static const uint8_t png[8] = {0x89, 'P', 'N', 'G', 13, 10, 26, 10},
                         jpeg[3] = {0xff, 0xd8, 0xff};
    const struct sk_image_codec *codec = NULL;
    *why = "neither JPEG nor PNG";
    if (file.n >= sizeof png && !memcmp(file.p, png, sizeof png)) {
        codec = sk_image_png();
        *why = "a PNG, and there is no libpng";
    } else if (file.n >= sizeof jpeg && !memcmp(file.p, jpeg, sizeof jpeg)) {
        codec = sk_image_jpeg();
        *why = "a JPEG, and there is no libjpeg-turbo";
    }
    return codec;
}

/* Sets the box, in pixels of the file. false: it is not inside the picture. */
static bool box_of(const struct sk_image_head *head, struct sk_image_want *want) {
    /* the box has all columns and w * want.h / want.w rows, or all rows and h * want.w / want.h
     * columns */
    if (want->middle) {
        uint64_t h = SK_MIN((uint64_t)head->w * want->h / want->w, head->h),
                 w = SK_MIN((uint64_t)head->h * want->w / want->h, head->w);
        want->crop_h = (uint32_t)SK_MAX(h, 1);
        want->crop_w = (uint32_t)SK_MAX(w, 1);
        want->top = (head->h - want->crop_h) / 2;
        want->left = (head->w - want->crop_w) / 2;
    } else if (!want->crop_h) {
        want->top = want->left = 0;
        want->crop_h = head->h;
        want->crop_w = head->w;
    }
    return (uint64_t)want->top + want->crop_h <= head->h &&
           (uint64_t)want->left + want->crop_w <= head->w && want->crop_w;
}

/* The smallest scale of 1, 2, 4 and 8 eighths at which the box is at least as large as the
 * output. */
static uint32_t eighths_of(const struct sk_image_want *want) {
    uint32_t n = 8;
    while (n > 1 && (uint64_t)want->crop_h * n / 2 >= (uint64_t)want->h * 8 &&
           (uint64_t)want->crop_w * n / 2 >= (uint64_t)want->w * 8)
        n /= 2;
    return n;
}

const char *sk_image_open(struct sk_bytes file, const struct sk_image_want *want,
                          struct sk_image **out, struct sk_image_shape *shape) {
    const char *why = NULL;
    const struct sk_image_codec *codec = codec_of(file, &why);
    if (!codec) return why;
    struct sk_image *im = sk_calloc(SK_TAG_BLOCK, sizeof *im);
    if (!im) return "no memory for it";
    im->codec = codec;
    im->want = *want;
    why = codec->open(file, &im->state, &im->head);
    uint32_t in = im->head.channels, c = want->channels ? want->channels : in;
    bool resized = want->h != 0;
    if (!why && (uint64_t)im->head.h * im->head.w > SK_IMAGE_PIXELS_MAX) why = "very large";
    if (!why && (!im->head.h || !im->head.w)) why = "empty";
    if (!why && !box_of(&im->head, &im->want)) why = "smaller than the box";
    if (!why && in == 4 && resized) why = "of transparent pixels, to be resized";
    if (!why && !(in == 4 ? c == 4 || c == 3 : c == 1 || c == 3))
        why = "to get another number of channels";
    if (why) {
        sk_image_close(im);
        return why;
    }
    if (im->want.crop_h == want->h && im->want.crop_w == want->w) im->want.h = im->want.w = 0;
    im->out_channels = c;
    im->px = in == 1 ? 1 : in == 4 || im->want.h ? 4 : 3;
    im->eighths = want->scaled && im->want.h && codec->scales ? eighths_of(&im->want) : 8;
    *shape = (struct sk_image_shape){im->want.h ? im->want.h : im->want.crop_h,
                                     im->want.h ? im->want.w : im->want.crop_w, c};
    *out = im;
    return NULL;
}

void sk_image_close(struct sk_image *im) {
    if (!im) return;
    if (im->state) im->codec->close(im->state);
    sk_free(im);
}

/* Converts n pixels of px bytes, of which `in` channels count, to c channels. Grey of RGB: ITU-R
 * 601-2, rounded as Pillow does. */
static void convert(const uint8_t *from, uint32_t px, uint32_t in, uint8_t *to, uint32_t c,
                    size_t n) {
    if (px == c && in == c) {
        memcpy(to, from, n * c);
        return;
    }
    for (size_t i = 0; i < n; i++, from += px, to += c) {
        if (in == 1) to[0] = to[1] = to[2] = from[0];
        else if (c == 1)
            to[0] =
                (uint8_t)((from[0] * 19595U + from[1] * 38470U + from[2] * 7471U + 0x8000U) >> 16);
        else memcpy(to, from, 3);
    }
}

/* Computes one side of a resize, from pixels [at, at + n) of the file to `out` pixels. *at and *n
 * become the range of the `in` pixels of the scaled picture that cover these; the result says where
 * between them the range begins and ends. */
static struct sk_resize_side side_of(uint32_t *at, uint32_t *n, uint32_t out, uint32_t in,
                                     uint32_t eighths) {
    double from = *at * (eighths / 8.0), length = *n * (eighths / 8.0);
    uint32_t end = (uint32_t)(((uint64_t)(*at + *n) * eighths + 7) / 8);
    *at = (uint32_t)((uint64_t)*at * eighths / 8);
    *n = SK_MIN(end, in) - *at;
    return (struct sk_resize_side){*n, out, from - *at, length};
}

struct sink {            /* makes rows of the output from decoded rows */
    struct sk_resize *r; /* NULL: the rows are not resized */
    /* row: a row as decoded. resized: a resized row that has to be converted; NULL: rows are
     * resized into `out`. out: the next row of the output. */
    uint8_t *row, *resized, *out;
};

static void take_row(const struct sk_image *im, struct sink *s) {
    const struct sk_image_want *q = &im->want;
    uint32_t in = im->head.channels, c = im->out_channels;
    const uint8_t *from = s->row + (size_t)q->left * im->px;
    if (!s->r) {
        convert(from, im->px, in, s->out, c, q->crop_w);
        s->out += (size_t)q->crop_w * c;
        return;
    }
    for (sk_resize_push(s->r, from); sk_resize_pull(s->r, s->resized ? s->resized : s->out);
         s->out += (size_t)q->w * c)
        if (s->resized) convert(s->resized, in, in, s->out, c, q->w);
}

/* Decodes all h rows and gives those of the box to the sink. */
static const char *rows(struct sk_image *im, struct sink *s, uint32_t h) {
    const struct sk_image_want *q = &im->want;
    uint32_t in = im->head.channels, c = im->out_channels;
    /* true: rows are decoded directly into the output */
    bool in_place = !s->r && im->px == c && in == c && q->crop_w == im->head.w;
    for (uint32_t y = 0; y < h; y++) {
        bool inside = y >= q->top && y - q->top < q->crop_h;
        const char *why = im->codec->row(im->state, in_place && inside ? s->out : s->row);
        if (why) return why;
        if (in_place && inside) s->out += (size_t)q->crop_w * c;
        else if (inside) take_row(im, s);
    }
    return im->codec->finish(im->state);
}

const char *sk_image_read(struct sk_image *im, uint8_t *out) {
    uint32_t h = 0, w = 0, in = im->head.channels;
    const char *why = im->codec->start(im->state, im->px, im->eighths, &h, &w);
    if (why) return why;
    struct sk_image_want *q = &im->want;
    struct sk_resize_side down = side_of(&q->top, &q->crop_h, q->h, h, im->eighths),
                          along = side_of(&q->left, &q->crop_w, q->w, w, im->eighths);
    bool resize = q->h != 0, convert_after = resize && in != im->out_channels;
    struct sink s = {.row = sk_calloc(SK_TAG_BLOCK, (size_t)w * im->px + SK_RESIZE_PAD),
                     .out = out};
    if (resize) s.r = sk_resize_create(&down, &along, in, q->order);
    if (convert_after) s.resized = sk_alloc(SK_TAG_BLOCK, (size_t)q->w * in + SK_RESIZE_PAD);
    why = !s.row || (resize && !s.r) || (convert_after && !s.resized) ? "no memory for it"
                                                                      : rows(im, &s, h);
    sk_free(s.resized);
    sk_free(s.row);
    sk_resize_destroy(s.r);
    return why;
}
