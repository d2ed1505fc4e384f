/* For zygote-module.c alone: Python.h comes before. */
#pragma once

/* stream_type(FileIO) -> a type of its own, whose write() loses nothing. */
PyObject *zygote_stream_type(PyObject *self, PyObject *file_io);
