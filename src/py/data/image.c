/* image.c - the decoder of pictures (src/image) for Python: it decodes bytes into an array that the
 * caller makes. The GIL is dropped while a picture is decoded. */
#include "image/image.h"
#include "py/data/data.h"

static PyObject *use(PyObject *name, sk_rc (*how)(const char *object, struct sk_err *err)) {
    PY_ERR(err);
    const char *object = PyUnicode_AsUTF8(name);
    if (!object) return NULL;
    sk_rc rc = how(object, &err);
    if (rc == SK_OK) Py_RETURN_NONE;
    return py_text(err.msg);
}

static PyObject *m_use_jpeg(PyObject *module SK_UNUSED, PyObject *name) {
    return use(name, sk_image_use_jpeg);
}
static PyObject *m_use_png(PyObject *module SK_UNUSED, PyObject *name) {
    return use(name, sk_image_use_png);
}

/* Decodes a picture into the array that make(shape) returns. Returns that array, or a str that says
 * why the picture was refused. */
static PyObject *read_into(struct sk_image *im, const struct sk_image_shape *s, PyObject *make) {
    Py_buffer out;
    const char *why;
    size_t n = (size_t)s->h * s->w * s->channels;
    PyObject *to = s->channels == 1
                       ? PyObject_CallFunction(make, "((II))", s->h, s->w)
                       : PyObject_CallFunction(make, "((III))", s->h, s->w, s->channels);
    if (!to || PyObject_GetBuffer(to, &out, PyBUF_CONTIG) < 0) {
        Py_XDECREF(to);
        return NULL;
    }
    if ((size_t)out.len != n) {
        PyErr_Format(PyExc_ValueError, "the array for a picture of %zu bytes has %zd", n, out.len);
        why = NULL;
    } else {
        Py_BEGIN_ALLOW_THREADS why = sk_image_read(im, out.buf);
        Py_END_ALLOW_THREADS
    }
    PyBuffer_Release(&out);
    if (!why && !PyErr_Occurred()) return to;
    Py_DECREF(to);
    return why ? PyUnicode_FromString(why) : NULL;
}

static PyObject *m_image_read(PyObject *module SK_UNUSED, PyObject *args) {
    Py_buffer file;
    PyObject *make, *r;
    struct sk_image *im = NULL;
    struct sk_image_shape shape;
    struct sk_image_want want = {.h = 0};
    int middle, scaled, rows_first;
    if (!PyArg_ParseTuple(args, "y*O(IIIIIIpppb):image_read", &file, &make, &want.h, &want.w,
                          &want.top, &want.left, &want.crop_h, &want.crop_w, &middle, &scaled,
                          &rows_first, &want.channels))
        return NULL;
    want.middle = middle;
    want.scaled = scaled;
    want.order = rows_first ? SK_IMAGE_ROWS_FIRST : SK_IMAGE_BY_SHRINKING;
    if (!want.h != !want.w || (want.middle && !want.h) || !want.crop_h != !want.crop_w) {
        r = PyErr_Format(
            PyExc_ValueError,
            "image_read: one of height and width is 0, or there is no size for the middle");
    } else {
        const char *why;
        Py_BEGIN_ALLOW_THREADS why =
            sk_image_open((struct sk_bytes){file.buf, (size_t)file.len}, &want, &im, &shape);
        Py_END_ALLOW_THREADS r = why ? PyUnicode_FromString(why) : read_into(im, &shape, make);
        sk_image_close(im);
    }
    PyBuffer_Release(&file);
    return r;
}

PyMethodDef py_image_methods[] = {
    {"image_use_jpeg", m_use_jpeg, METH_O,
     "image_use_jpeg(object): JPEG by the libjpeg that this shared object links. None, or why "
     "not."},
    {"image_use_png", m_use_png, METH_O,
     "image_use_png(object): PNG by the libpng that this shared object links. None, or why not."},
    {"image_read", m_image_read, METH_VARARGS,
     "image_read(file, make, (h, w, top, left, crop_h, crop_w, middle, scaled, rows_first, "
     "channels)): what make((height, width[, "
     "channels])) gave, filled; a str: why "
     "the file was refused (image.h)."},
    {NULL, NULL, 0, NULL},
};
