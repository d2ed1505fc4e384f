// The records of descriptor 3 (common/job.h): type and length, 32-bit little-endian, and the bytes.
'use strict';

const fs = require('fs');
const { errno } = require('os').constants;

// enum JobType, of what a runner reads
const ENV = 3, ARG = 7, CODE = 8, FILE = 9, FILE_DATA = 10, WORKING_DIR = 11, TIMEZONE = 12, END = 13, MERGE_STREAMS = 24;
const CONTRACT = 14, INPUTS = 15, VARIABLES = 16, IMPORT_RESTRICT = 17, IMPORT_ALLOWED = 18, VALUE_MAX = 19, CONTENT_MAX = 20, RUNNER_END = 21;

const FD = 3;
const HEADER = 8;
const RECORD_MAX = 1 << 20;
const FIRST_ROOM = 64 << 10; // as much as a pipe holds

class Reader {
  constructor() {
    this.buffer = Buffer.allocUnsafeSlow(FIRST_ROOM).fill(0); // touched now, not when the job is there
    this.at = this.end = 0;     // what has been read and not yet taken
    this.type = 0;
  }

  // At least `size` bytes, of which reading gives more when they are there already.
  fill(size) {
    if (size > this.buffer.length - this.at) {
      const room = size > this.buffer.length ? Buffer.allocUnsafeSlow(RECORD_MAX + HEADER) : this.buffer;
      this.buffer.copy(room, 0, this.at, this.end);
      this.end -= this.at;
      this.at = 0;
      this.buffer = room;
    }
    while (this.end - this.at < size) {
      const n = fs.readSync(FD, this.buffer, this.end, this.buffer.length - this.end, null);
      if (n === 0)
        throw Object.assign(new Error('the job ended before it was whole'), { errno: -errno.ENODATA });
      this.end += n;
    }
  }

  // The bytes of the next record, which are good until the one after it; `type` says what they are.
  next() {
    this.fill(HEADER);
    const length = this.buffer.readUInt32LE(this.at + 4);
    this.type = this.buffer.readUInt32LE(this.at);
    if (length > RECORD_MAX)
      throw new Error(`a record of the job has ${length} bytes, more than ${RECORD_MAX}`);
    this.fill(HEADER + length);
    const from = this.at + HEADER;
    this.at = from + length;
    return this.buffer.subarray(from, this.at);
  }

  // Bytes that count as read. There must be room for them.
  give(bytes) {
    this.at = 0;
    this.end = bytes.copy(this.buffer);
  }

  close() {
    fs.closeSync(FD);
    this.buffer = undefined;
  }
}

function recordOf(type, bytes) {
  const record = Buffer.alloc(HEADER + bytes.length);
  record.writeUInt32LE(type, 0);
  record.writeUInt32LE(bytes.length, 4);
  bytes.copy(record, HEADER);
  return record;
}

module.exports = {
  ENV, ARG, CODE, FILE, FILE_DATA, WORKING_DIR, TIMEZONE, END, MERGE_STREAMS,
  CONTRACT, INPUTS, VARIABLES, IMPORT_RESTRICT, IMPORT_ALLOWED, VALUE_MAX, CONTENT_MAX, RUNNER_END, Reader, recordOf,
};
