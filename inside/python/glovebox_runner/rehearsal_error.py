"""The same for a program that ends with an error."""


def fails(x):
    return x["key"]


fails({})
