"""What the attack tests share: programs, how they run in a cell, and the host's canaries."""
