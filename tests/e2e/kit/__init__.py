"""What the end-to-end tests share: the machine, the daemon, calls, and raw HTTP/2."""
