"""numpy, pandas and matplotlib compute, and their threads are as many as the cell has processors.
CASES: ESC-32
PROFILE: data
"""
import io
import os

import numpy as np

matrix = np.arange(10000.0).reshape(100, 100)
assert np.allclose(np.linalg.inv(matrix + np.eye(100) * 1e4) @ (matrix + np.eye(100) * 1e4), np.eye(100))
assert (np.random.default_rng(1).normal(size=1000) ** 2).mean() > 0.5
np.save("/workspace/a.npy", matrix)
assert np.load("/workspace/a.npy", mmap_mode="r")[3, 4] == 304

import pandas as pd  # noqa: E402

frame = pd.DataFrame({"key": ["a", "b", "a"], "value": [1, 2, 3]})
assert frame.groupby("key").value.sum().to_dict() == {"a": 4, "b": 2}
frame.to_csv("/workspace/a.csv")
assert len(pd.read_csv("/workspace/a.csv")) == 3
assert pd.Timestamp("2024-03-31", tz="Europe/Berlin").utcoffset().total_seconds() == 3600

import matplotlib  # noqa: E402

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

figure, axes = plt.subplots()
axes.plot(np.linspace(0, 1, 100), np.sin(np.linspace(0, 1, 100)))
axes.set_title("Sinus äöü")
file = io.BytesIO()
figure.savefig(file, format="png")
assert file.getvalue()[:8] == b"\x89PNG\r\n\x1a\n"
assert len(os.listdir("/proc/self/task")) <= 2 * max(1, len(os.sched_getaffinity(0)))
print("works")
