// What is told of an uncaught error: type, message, traceback without frames of the runner or of Node's own, place in the user's
// file, and a hint where the cause is certain.
'use strict';

const { pathToFileURL } = require('url');
const { LINE_MAX, columnOf, original, placeAt } = require('./source.js');
const { nameOf } = require('./value.js');
const safe = require('./safe.js');

const get = (object, key) => safe.attempt(() => object[key]);
const isText = text => typeof text === 'string' && text !== '';

// An object with a stack of its own; never a Proxy, whose traps are not asked.
function isError(thrown) {
  return typeof thrown === 'object' && thrown !== null && !safe.types.isProxy(thrown) &&
    (safe.types.isNativeError(thrown) || safe.attempt(() => thrown instanceof safe.Error, false));
}

// "ValidationError" also for a class that did not set its name.
function typeOf(error) {
  const name = get(error, 'name');
  const own = nameOf(error);
  if (!isText(name))
    return own;
  return name === 'Error' && own !== 'object' && own !== 'Object' && own !== 'NodeError' ? own : name;
}

const inspected = value => safe.attempt(() => safe.inspect(value, { __proto__: null, customInspect: false, depth: 4 }), undefined);

class Teller {
  // path: of the code's file; name: what it is called; folder: the runner's own
  constructor(path, name, folder) {
    this.path = path;
    this.name = name;
    this.url = pathToFileURL(path).href;
    this.unit = undefined;      // of source.js, when the code did compile
    const quoted = text => text.replace(/[^\w]/g, '\\$&');
    // The file as the stack writes it, when nothing else of a longer path follows.
    this.places = new RegExp(`(?:${quoted(this.url)}|${quoted(path)})(?![\\w./-])(?::(\\d+)(?::(\\d+))?)?`, 'g');
    this.hidden = new RegExp(`^\\s+at .*(?:node:|${quoted(folder)}/)|^\\s+\\.{3} \\d+ lines matching cause stack trace`);
    // The wrapper's line is 0, for which the engine writes no place at all.
    this.frame = new RegExp(`^\\s+at (?:.*[( ])?(?:${quoted(this.url)}|${quoted(path)})(?::(\\d+):(\\d+))?\\)?$`);
  }

  // Without hidden frames, and with the short name of the file.
  clean(text) {
    const lines = safe.lines(text);
    let out = '', kept = 0;
    for (let i = 0; i < lines.length; i++) {
      if (safe.RegExpExec(this.hidden, lines[i]) !== null) {
        // The brace that opens an error's own properties stands behind its last frame.
        if (safe.StringEndsWith(lines[i], ' {') && kept > 0)
          out += ' {';
        continue;
      }
      out += (kept++ > 0 ? '\n' : '') + this.withPlace(lines[i]);
    }
    return safe.replace(out, this.places, found => {
      if (found[2] === undefined)
        return found[1] === undefined ? this.name : `${this.name}:${found[1]}`;
      const { line, column } = original(this.unit?.moved, +found[1], +found[2]);
      if (line === 0)
        return this.name;
      return `${this.name}:${line}:${column}`;
    });
  }

  withPlace(line) {
    const found = safe.RegExpExec(this.frame, line);
    if (found === null || found[1] !== undefined)
      return line;
    return safe.StringEndsWith(line, ')') ? `${safe.StringSlice(line, 0, -1)}:0:0)` : `${line}:0:0`;
  }

  // Line and column of the innermost frame in the user's file. What the message says is not a frame.
  place(error, message) {
    const stack = get(error, 'stack');
    if (!isText(stack) || this.unit === undefined)
      return undefined;
    const after = isText(message) ? safe.StringIndexOf(stack, message) : -1;
    const lines = safe.lines(after < 0 ? stack : safe.StringSlice(stack, after + message.length));
    for (let i = 0; i < lines.length; i++) {
      const found = safe.RegExpExec(this.frame, lines[i]);
      if (found !== null)
        return this.withLine(original(this.unit.moved, +(found[1] ?? 0), +(found[2] ?? 0)));
    }
    return this.importOf(message);
  }

  withLine({ line, column }) {
    const sourceLine = this.unit.lines[line - 1];
    return sourceLine === undefined ? undefined : { __proto__: null, line, column, sourceLine };
  }

  // A name that a module does not export is found before anything runs: the error has no stack.
  importOf(message) {
    const found = isText(message) ? safe.RegExpExec(/^The requested module '(.*)' does not provide an export named '(.*)'/, message) : null;
    const at = found === null ? -1 : safe.StringIndexOf(this.unit.text, found[2]);
    return at < 0 ? undefined : this.withLine(placeAt(this.unit.text, at));
  }

  arrow(place) {
    if (place === undefined || place.sourceLine.length > LINE_MAX)
      return '';
    const before = safe.replace(safe.StringSlice(place.sourceLine, 0, place.column - 1), /[^\t]/g, () => ' ');
    return `${this.name}:${place.line}\n${place.sourceLine}\n${before}^\n\n`;
  }

  tell(thrown) {
    if (!isError(thrown))
      return this.tellOther(thrown);
    const found = get(thrown, 'message');
    const message = isText(found) ? found : found === undefined || found === '' ? '' : `${inspected(found)}`;
    const place = this.place(thrown, message);
    const type = typeOf(thrown);
    const text = inspected(thrown) ?? `${type}: ${message}`;
    return {
      __proto__: null, type, message: this.clean(message), traceback: this.arrow(place) + this.clean(text), line: place?.line,
      column: place && columnOf(place.sourceLine, place.column), sourceLine: place?.sourceLine, hint: safe.attempt(() => hintOf(thrown, message, this.unit)),
    };
  }

  // throw 5: there is no stack.
  tellOther(thrown) {
    const text = this.clean(inspected(thrown) ?? nameOf(thrown));
    const inner = typeof thrown === 'object' && thrown !== null && !safe.types.isProxy(thrown) ? get(thrown, 'message') : undefined;
    const message = isText(thrown) ? thrown : isText(inner) ? inner : text;
    return {
      __proto__: null, type: thrown === null ? 'null' : nameOf(thrown), message,
      traceback: `Uncaught ${text}\n(Only an Error knows where it was made: throw new Error(...) tells the line.)`,
    };
  }
}

// Not ECONNREFUSED: that is loopback, where nobody listens.
const NETWORK = /^(?:ENOTFOUND|EAI_AGAIN|ENETUNREACH|EHOSTUNREACH)$/;
const WRITES = /^(?:mkdir|mkdtemp|unlink|rename|rmdir|symlink|link|copyfile|truncate|chmod|utime)$/;
const WRITABLE = /^\/(?:workspace|tmp|home|dev|proc)(?:\/|$)/;
// Another client would be no help.
const CLOSED = 'the network is closed, for fetch() too';
const INSTEAD = {
  __proto__: null, axios: CLOSED, 'node-fetch': CLOSED, got: CLOSED, request: CLOSED,
  uuid: 'crypto.randomUUID() is built in', nanoid: 'crypto.randomUUID() is built in', 'lodash.clonedeep': 'structuredClone() is built in',
};

function missingModule(error, message) {
  const found = safe.RegExpExec(/^Cannot find (?:module|package) '([^']+)'/, message);
  if (found === null)
    return undefined;
  const name = found[1];
  if (safe.RegExpExec(/^\.{0,2}\//, name) !== null)
    return undefined;
  const parts = safe.RegExpExec(/^(?:@[^/]+\/)?[^/]+/, name);
  const instead = INSTEAD[parts[0]];
  return `The package ${parts[0]} is not installed in this sandbox${instead ? `; ${instead}.` : '; use what Node.js has built in.'}`;
}

// One sentence, only for what is certain.
function hintOf(error, message, unit) {
  const code = get(error, 'code');
  const path = get(error, 'path');
  if (code === 'MODULE_NOT_FOUND' || code === 'ERR_MODULE_NOT_FOUND')
    return missingModule(error, message);
  const cause = get(error, 'cause');
  const network = isText(code) ? error : typeof cause === 'object' && cause !== null && !safe.types.isProxy(cause) ? cause : undefined;
  if (network !== undefined && safe.RegExpExec(NETWORK, `${get(network, 'code')}`) !== null)
    return 'The network is closed in this sandbox.';
  if (code === 'ENOENT' && isText(path) && path[0] !== '/' && !safe.StringStartsWith(`${get(error, 'syscall')}`, 'spawn'))
    return 'A relative path starts at the working directory, /workspace unless the request says another; files to read must be sent with the request, ' +
        'folders to write to must be made first.';
  if (code === 'EROFS' || ((code === 'EACCES' || code === 'EPERM') && safe.RegExpExec(WRITES, `${get(error, 'syscall')}`) !== null &&
      isText(path) && path[0] === '/' && safe.RegExpExec(WRITABLE, path) === null))
    return 'Only /workspace and /tmp can be written in this sandbox.';
  if (code === 'ENOSPC')
    return 'No space is left: limits.workspace_bytes or limits.workspace_inodes is reached.';
  if (code === 'ERR_MEMORY_ALLOCATION_FAILED' || message === 'Array buffer allocation failed')
    return 'The memory does not suffice: work on less at a time, or ask for more with limits.memory_bytes.';
  if (code === 'EAGAIN' ? safe.StringStartsWith(`${get(error, 'syscall')}`, 'spawn') : code === 'ERR_WORKER_INIT_FAILED' && message === 'EAGAIN')
    return 'The limit limits.max_processes is reached, which counts processes and threads: start fewer, or ask for more.';
  if (code === 'EOF' || message === 'EOF: end of file, read')
    return 'Standard input has ended: send what the program reads as stdin.';
  if (message === 'require is not defined' && unit?.isModule)
    return 'The code is an ES module, where require is not there: use import.';
  return undefined;
}

module.exports = { Teller };
