// Loaded before the user's code. Node writes to a pipe in the background, so process.exit() and a crash would lose what was
// printed last. Blocking handles write at once and in order; a slow reader then holds the program back, as with any other.
'use strict';

for (const stream of [process.stdout, process.stderr]) {
  const handle = stream._handle;
  if (handle && typeof handle.setBlocking === 'function')
    handle.setBlocking(true);
}
