// Loaded before the user's code. Node writes to a pipe in the background, so process.exit() and a crash would lose what was
// printed last. Blocking handles write at once and in order; a slow reader then holds the program back, as with any other.
// The streams are made when they are first used, as in a plain run: making them takes a millisecond or two.
'use strict';

for (const name of ['stdout', 'stderr']) {
  const { get } = Object.getOwnPropertyDescriptor(process, name);
  let known = false;
  const getBlocking = () => {
    const stream = get.call(process);
    if (!known) {
      known = true;
      stream._handle?.setBlocking?.(true);
    }
    return stream;
  };
  Object.defineProperty(process, name, { configurable: true, enumerable: true, get: getBlocking, set: undefined });
}
