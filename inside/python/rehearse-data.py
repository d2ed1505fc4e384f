"""What the zygote of python-data does with what it has imported, and each fork that waits once more, so that executions find it done: caches are filled,
what is loaded late is loaded, code that has run some times is specialised, and the pages that a first use writes to are the fork's own. Prints nothing and leaves nothing open: a picture would leave fonts."""
import io

import numpy as np
import pandas as pd


def tables():
    frame = pd.DataFrame({"name": ["a", "b", "a", "c"] * 5, "n": range(20), "x": [n * 0.5 for n in range(20)],
                          "when": pd.date_range("2024-01-01", periods=20)})
    str(frame)
    str(frame.describe())
    str(frame.head())
    frame.dtypes, frame.shape, frame.columns, frame.isna().sum(), frame["x"].mean(), frame.to_dict("records")
    str(frame.groupby("name")["x"].agg(["sum", "mean"]))
    frame[frame["n"] > 3].sort_values("x", ascending=False).reset_index(drop=True).loc[0, "name"]
    frame.merge(frame[["n", "x"]], on="n")
    frame.pivot_table(index="name", values="x", aggfunc="sum")
    frame["name"].value_counts()
    frame.info(buf=io.StringIO())
    pd.read_csv(io.StringIO(frame.to_csv(index=False)), parse_dates=["when"])
    frame.to_json()


def numbers():
    grid = np.arange(12.0).reshape(3, 4)
    str(grid), grid.mean(axis=0), grid @ grid.T, np.linalg.solve(np.eye(3) * 2, np.ones(3)), np.percentile(grid, 50), np.where(grid > 3, 1, 0)


tables()
numbers()
