// Reads the runner's part of the job from descriptor 3 (common/job.h: records of type and length, 32-bit little-endian, and the bytes).
'use strict';

const fs = require('fs');

const FD = 3;
const RECORD_MAX = 1 << 20;
const CONTRACT = 14, INPUTS = 15, VARIABLES = 16, IMPORT_RESTRICT = 17, IMPORT_ALLOWED = 18, VALUE_MAX = 19, CONTENT_MAX = 20, END = 21;
const CONTRACTS = [undefined, 'AUTO', 'MAIN', 'RESULT', 'SCRIPT'];

function readExactly(size) {
  const bytes = Buffer.alloc(size);
  for (let have = 0; have < size;) {
    const n = fs.readSync(FD, bytes, have, size - have, null);
    if (n === 0)
      throw new Error('the job ended before it was whole');
    have += n;
  }
  return bytes;
}

// inputs and variables are JSON texts, undefined when none were given; allowed is undefined when anything may be imported.
function readJob() {
  const job = { contract: 'AUTO', inputs: undefined, variables: undefined, allowed: undefined, valueMax: 1 << 20, contentMax: 16 << 20 };
  const pieces = { [INPUTS]: [], [VARIABLES]: [] };
  for (;;) {
    const header = readExactly(8);
    const type = header.readUInt32LE(0), length = header.readUInt32LE(4);
    if (length > RECORD_MAX)
      throw new Error(`a record of the job has ${length} bytes, more than ${RECORD_MAX}`);
    const body = readExactly(length);
    if (type === CONTRACT)
      job.contract = CONTRACTS[body[0]] ?? 'AUTO';
    else if (type === INPUTS || type === VARIABLES)
      pieces[type].push(body);
    else if (type === IMPORT_RESTRICT)
      job.allowed ??= [];
    else if (type === IMPORT_ALLOWED)
      (job.allowed ??= []).push(body.toString());
    else if (type === VALUE_MAX)
      job.valueMax = Number(body.readBigUInt64LE());
    else if (type === CONTENT_MAX)
      job.contentMax = Number(body.readBigUInt64LE());
    else if (type === END)
      break;
    else
      throw new Error(`the job has a record of the unknown type ${type}`);
  }
  fs.closeSync(FD);
  if (pieces[INPUTS].length > 0)
    job.inputs = Buffer.concat(pieces[INPUTS]).toString();
  if (pieces[VARIABLES].length > 0)
    job.variables = Buffer.concat(pieces[VARIABLES]).toString();
  return job;
}

module.exports = { readJob };
