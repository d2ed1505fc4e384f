/* A file object that writes all it is given: Python's own takes no notice when the kernel has written but a part, and an unbuffered text stream
 * loses the rest. In C, since a tracer or a debugger of the user's would see a function that is Python. */
#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x03070000
#include <Python.h>

#include <stdbool.h>

#include "spawner/zygote-stream.h"

static PyObject *write_some; /* FileIO.write */

/* A view of the bytes of any buffer; *ret_size is how many there are. */
static PyObject *bytes_of(PyObject *data, Py_ssize_t *ret_size) {
        PyObject *view = PyMemoryView_FromObject(data);
        PyObject *bytes = view ? PyObject_CallMethod(view, "cast", "s", "B") : NULL;
        Py_XDECREF(view);
        *ret_size = bytes ? PyObject_Size(bytes) : -1;
        return bytes;
}

/* Adds what was written to *done. 1 = go on; 0 = none could be, and the file does not block; -1 = an exception. */
static int write_from(PyObject *self, PyObject *data, Py_ssize_t *done) {
        PyObject *n = PyObject_CallFunctionObjArgs(write_some, self, data, NULL);
        if (!n)
                return -1;
        bool none = n == Py_None;
        Py_ssize_t more = none ? 0 : PyLong_AsSsize_t(n);
        Py_DECREF(n);
        if (more < 0)
                return -1;
        *done += more;
        return !none;
}

static PyObject *stream_write(PyObject *self, PyObject *data) {
        Py_ssize_t done = 0, size = PyBytes_Check(data) ? PyBytes_Size(data) : -1;
        int r = write_from(self, data, &done);
        if (r < 0)
                return NULL;
        if (r == 0)
                Py_RETURN_NONE;
        if (done == size)
                return PyLong_FromSsize_t(done);
        PyObject *bytes = bytes_of(data, &size);
        while (bytes && r > 0 && done < size) {
                PyObject *rest = PySequence_GetSlice(bytes, done, size);
                r = rest ? write_from(self, rest, &done) : -1;
                Py_XDECREF(rest);
        }
        bool failed = !bytes || r < 0;
        Py_XDECREF(bytes);
        return failed ? NULL : PyLong_FromSsize_t(done);
}

static PyMethodDef methods[] = {
        {"write", stream_write, METH_O, "write(bytes) -> how many; all of them, unless the file does not block."},
        {NULL, NULL, 0, NULL},
};

static PyType_Slot slots[] = {
        {Py_tp_methods, methods},
        {0, NULL},
};

static PyType_Spec spec = {.name = "_io.FileIO", .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, .slots = slots};

PyObject *zygote_stream_type(PyObject *self, PyObject *file_io) {
        PyObject *bases = PyTuple_Pack(1, file_io);
        Py_XDECREF(write_some);
        write_some = bases ? PyObject_GetAttrString(file_io, "write") : NULL;
        PyObject *type = write_some ? PyType_FromSpecWithBases(&spec, bases) : NULL;
        Py_XDECREF(bases);
        return type;
}
