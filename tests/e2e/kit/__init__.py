"""What the end-to-end tests share: the machine, the daemon, calls, and raw HTTP/2."""
import os

# Before gRPC is loaded: what it does before a fork waits for ever now and then, and what is forked here becomes another program at once.
os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"
