"""A client for values, pictures and files, with plain gRPC: sends a table and inputs, and takes back the value, the chart and the report.

    /usr/bin/python3 examples/report.py [FOLDER]     # what comes back is written to FOLDER (default: results)

GLOVEBOX_SERVER names the server (default unix:/run/glovebox/glovebox.sock). Needs python3-grpcio, python3-grpc-tools and libprotobuf-dev here, and
matplotlib where the code runs (python3-matplotlib on the server's machine).
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import grpc

# A real client makes these two modules once, when it is built. Here they are made for one run.
PROTO = pathlib.Path(__file__).resolve().parents[1] / "proto"
stubs = tempfile.TemporaryDirectory()
subprocess.run([sys.executable, "-m", "grpc_tools.protoc", f"-I{PROTO}", "-I/usr/include", f"--python_out={stubs.name}",
                f"--grpc_python_out={stubs.name}", "glovebox/v1/execution.proto"], check=True)
sys.path.insert(0, stubs.name)
from glovebox.v1 import execution_pb2 as pb, execution_pb2_grpc as rpc  # noqa: E402

# The code of an agent: main's return value is the value; a figure that is left open is a picture; files that it writes are files.
CODE = """
import csv
import matplotlib.pyplot as plt

def main(args):
    totals = {}
    with open("sales.csv") as file:
        for row in csv.DictReader(file):
            totals[row["region"]] = totals.get(row["region"], 0) + float(row["amount"])
    print(len(totals), "regions")
    with open("report.md", "w") as report:
        report.write("".join(f"* {region}: {total:.2f} {args.params['currency']}\\n" for region, total in totals.items()))
    plt.bar(totals.keys(), totals.values())
    return totals
"""
SALES = b"region,amount\nnorth,10.5\nsouth,20\nnorth,4.5\n"


def main():
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "results")
    folder.mkdir(parents=True, exist_ok=True)
    stub = rpc.ExecutionServiceStub(grpc.insecure_channel(os.environ.get("GLOVEBOX_SERVER", "unix:/run/glovebox/glovebox.sock")))
    request = pb.ExecuteRequest(runtime="python", code=CODE, inputs_json=json.dumps({"currency": "EUR"}), collect=["*.md"],
                                files=[pb.InputFile(path="sales.csv", content=SALES)])
    # Execute answers at once with everything, up to 3.5 MiB; ExecuteStream sends each as it comes, of any size.
    reply = stub.Execute(request, timeout=60)
    result = reply.result
    print("printed:", reply.stdout.decode().strip())
    print("outcome:", pb.Outcome.Name(result.outcome), result.message)
    if result.HasField("error"):  # what an agent needs to mend its code
        print(f"error: {result.error.type}: {result.error.message} in line {result.error.line}. {result.error.hint}")
        return 1
    print("value:", json.loads(result.value_json))
    for number, display in enumerate(reply.displays, 1):
        if display.mime_type == "image/png":
            (folder / f"picture-{number}.png").write_bytes(display.data)
            print("picture:", folder / f"picture-{number}.png")
    contents = {content.content_id: content.data for content in reply.contents}
    for file in result.files:
        print("file:", file.path, pb.Change.Name(file.change), file.size_bytes, "bytes")
        if file.content_id:
            # A path from a cell is not to be trusted: only its last part is used.
            (folder / pathlib.PurePosixPath(file.path).name).write_bytes(contents[file.content_id])
    return 0


if __name__ == "__main__":
    sys.exit(main())
