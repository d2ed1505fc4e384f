"""Python classes made from proto/ and from the public definitions of health and reflection; importing this module makes them."""
import atexit
import pathlib
import shutil
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(__file__).resolve().parents[3]
GRPC_PROTO = "/usr/share/grpc-proto/grpc"


def _make():
    out = tempfile.mkdtemp(prefix="glovebox-stubs-")
    atexit.register(shutil.rmtree, out, True)
    kit = str(pathlib.Path(__file__).parent)
    for include, files in (
        (str(SOURCE / "proto"), ["glovebox/v1/execution.proto", "glovebox/v1/system.proto"]),
        (GRPC_PROTO, ["health/v1/health.proto", "reflection/v1/reflection.proto", "reflection/v1alpha/reflection.proto"]),
        (kit, ["details.proto"]),
    ):
        subprocess.run([sys.executable, "-m", "grpc_tools.protoc", "-I", include, "-I", "/usr/include", f"--python_out={out}",
                        f"--grpc_python_out={out}", *files], check=True)
    sys.path.insert(0, out)
    return out


folder = _make()

import details_pb2 as details  # noqa: E402
from glovebox.v1 import execution_pb2 as pb  # noqa: E402
from glovebox.v1 import execution_pb2_grpc, system_pb2, system_pb2_grpc  # noqa: E402
from health.v1 import health_pb2, health_pb2_grpc  # noqa: E402
from reflection.v1 import reflection_pb2, reflection_pb2_grpc  # noqa: E402
from reflection.v1alpha import reflection_pb2 as reflection_alpha_pb2  # noqa: E402
from reflection.v1alpha import reflection_pb2_grpc as reflection_alpha_pb2_grpc  # noqa: E402
