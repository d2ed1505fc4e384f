// Writes the value pipe (common/value.h). Nothing here throws: when the pipe is gone, nothing more is written.
'use strict';

const fs = require('fs');
const process = require('process'); // the global may be gone
const safe = require('./safe.js');

const FD = 5, FD_HIGH = 64;
const OVER_NAME = 'glovebox-over', OVER_PATIENCE = 100; // ms
const PIECE_MAX = 64 << 10;
const STARTED = 1, INVALID = 2, JSON = 3, END = 4, VALUE_ERROR = 5, ERROR_TYPE = 6, ERROR_MESSAGE = 7, ERROR_TRACEBACK = 8, ERROR_SOURCE_LINE = 9,
  ERROR_HINT = 10, ERROR_POSITION = 11, ERROR_END = 12, DISPLAY = 13, DISPLAY_DATA = 14, DISPLAY_END = 15, NOTE = 16, OVER = 17;
const VALUE_ERRORS = { __proto__: null, NOT_SERIALIZABLE: 1, TOO_LARGE: 2, TOO_DEEP: 3, CIRCULAR: 4 };
const MESSAGE_MAX = 32 << 10, TRACEBACK_MAX = 128 << 10, SOURCE_LINE_MAX = 4 << 10, HINT_MAX = 1024, TYPE_MAX = 1024, PATH_MAX = 4096, NOTE_MAX = 512;

const { writeSync, fstatSync, readFileSync } = fs;
let fd = -1, inode = 0;

// Moves the pipe to a high number, close-on-exec, where code that closes or reads low numbers does not meet it by chance.
function openPipe() {
  const passed = [];
  try {
    do
      fd = fs.openSync(`/proc/self/fd/${FD}`, 'w');
    while (fd < FD_HIGH && passed.push(fd));
    fs.closeSync(FD);
  } catch {
    fd = FD;
  }
  inode = pipeInode();
  for (const low of passed) {
    if (low !== fd)
      fs.closeSync(low);
  }
}

// Which pipe the number stands for; user code may have closed it and opened a file of its own.
function pipeInode() {
  return safe.attempt(() => fstatSync(fd).ino, -1);
}

const waiting = new Int32Array(new SharedArrayBuffer(4));
const { wait } = Atomics;

function write(bytes) {
  for (let at = 0; at < bytes.length && fd >= 0;) {
    try {
      const n = writeSync(fd, at === 0 ? bytes : safe.StringSlice(bytes, at), null, 'latin1');
      at += n;
      if (!(n > 0))
        fd = -1;
    } catch (error) {
      if (error.code === 'EAGAIN')
        wait(waiting, 0, 0, 1);
      else
        fd = -1;
    }
  }
}

function u32(n) {
  return safe.FromCharCode(n & 255, n >>> 8 & 255, n >>> 16 & 255, n >>> 24 & 255);
}

function put(type, bytes) {
  write(u32(type) + u32(bytes.length) + bytes);
}

function record(type, bytes) {
  if (fd >= 0 && pipeInode() !== inode)
    fd = -1;
  put(type, bytes);
}

function pieces(type, bytes) {
  for (let at = 0; at < bytes.length; at += PIECE_MAX)
    record(type, safe.StringSlice(bytes, at, at + PIECE_MAX));
}

// Where UTF-8 may be cut: not inside a character.
function boundary(bytes, at) {
  while (at > 0 && at < bytes.length && (safe.StringCharCodeAt(bytes, at) & 0xc0) === 0x80)
    at--;
  return at;
}

let shortened = false;

function atMost(text, max) {
  const bytes = safe.toBytes(text);
  if (bytes.length <= max)
    return bytes;
  shortened = true;
  return safe.StringSlice(bytes, 0, boundary(bytes, max - 3)) + '\xe2\x80\xa6';
}

// A traceback loses its middle: both ends say more.
function withoutMiddle(text, max) {
  const bytes = safe.toBytes(text);
  if (bytes.length <= max)
    return bytes;
  shortened = true;
  const gap = '\n    [...]\n', half = (max - gap.length) >> 1;
  let from = bytes.length - half;
  while ((safe.StringCharCodeAt(bytes, from) & 0xc0) === 0x80)
    from++;
  return safe.StringSlice(bytes, 0, boundary(bytes, half)) + gap + safe.StringSlice(bytes, from);
}

// error: type, message, traceback; sourceLine, hint, line, column (from 1) where they are known.
function putError(error) {
  shortened = false;
  record(ERROR_TYPE, atMost(error.type, TYPE_MAX));
  record(ERROR_MESSAGE, atMost(error.message, MESSAGE_MAX));
  record(ERROR_TRACEBACK, withoutMiddle(error.traceback, TRACEBACK_MAX));
  if (error.sourceLine !== undefined)
    record(ERROR_SOURCE_LINE, atMost(error.sourceLine, SOURCE_LINE_MAX));
  if (error.hint !== undefined)
    record(ERROR_HINT, atMost(error.hint, HINT_MAX));
  record(ERROR_POSITION, u32(error.line ?? 0) + u32(error.column ?? 0) + (shortened ? '\x01' : '\0'));
}

module.exports = {
  openPipe,
  started: () => put(STARTED, ''), // no user code has run: the pipe is the one it was
  invalid(error, incomplete) {
    putError(error);
    record(INVALID, incomplete ? '\x01' : '\0');
  },
  error(error) {
    putError(error);
    record(ERROR_END, '');
  },
  // json: the value's bytes
  value(json, lossy) {
    pieces(JSON, json);
    record(END, lossy ? '\x01' : '\0');
  },
  valueError(type, path, message) {
    record(VALUE_ERROR, safe.FromCharCode(VALUE_ERRORS[type]) + atMost(path, PATH_MAX) + '\0' + atMost(message, MESSAGE_MAX));
  },
  // The process has an exit status, and then is to be killed: nobody waits for what the engine and the kernel would take apart. A server that is
  // held back by a slow reader may not have read that, so it does not wait for long. The name shows that it is this process that says so; where code
  // has taken the means to set it away, there is a plain end.
  over(status) {
    safe.attempt(() => { process.title = OVER_NAME; });
    if (safe.attempt(() => readFileSync('/proc/self/comm', 'latin1'), '') !== `${OVER_NAME}\n`)
      return;
    record(OVER, safe.FromCharCode(status & 255));
    if (fd >= 0)
      wait(waiting, 0, 0, OVER_PATIENCE);
  },
  note: text => record(NOTE, atMost(text, NOTE_MAX)),
  display(id, mime, metadata, bytes) {
    record(DISPLAY, safe.toBytes(`${id}\0${mime}\0${metadata}`));
    pieces(DISPLAY_DATA, bytes);
    record(DISPLAY_END, '');
  },
  displayLeftOut(id, mime) {
    record(DISPLAY, safe.toBytes(`${id}\0${mime}\0`));
    record(DISPLAY_END, '\x01');
  },
};
