// The runner's part of the job (common/job.h): what the code is run with.
'use strict';

const { CONTRACT, INPUTS, VARIABLES, IMPORT_RESTRICT, IMPORT_ALLOWED, VALUE_MAX, CONTENT_MAX, RUNNER_END } = require('./records.js');

const CONTRACTS = [undefined, 'AUTO', 'MAIN', 'RESULT', 'SCRIPT'];

// A text that comes in pieces, which may be cut inside a character.
class Pieces {
  constructor() {
    this.pieces = [];
  }

  add(bytes) {
    this.pieces.push(Buffer.from(bytes));
  }

  // undefined when there was none
  text() {
    if (this.pieces.length < 2)
      return this.pieces[0]?.toString();
    return Buffer.concat(this.pieces).toString();
  }
}

const number = bytes => bytes.readUInt32LE(0) + bytes.readUInt32LE(4) * 2 ** 32;

// inputs and variables are JSON texts, undefined when none were given; allowed is undefined when anything may be imported.
function readJob(reader) {
  const job = { contract: 'AUTO', inputs: undefined, variables: undefined, allowed: undefined, valueMax: 1 << 20, contentMax: 16 << 20 };
  const inputs = new Pieces(), variables = new Pieces();
  for (;;) {
    const body = reader.next();
    switch (reader.type) {
    case CONTRACT:
      job.contract = CONTRACTS[body[0]] ?? 'AUTO';
      break;
    case INPUTS:
      inputs.add(body);
      break;
    case VARIABLES:
      variables.add(body);
      break;
    case IMPORT_RESTRICT:
      job.allowed ??= [];
      break;
    case IMPORT_ALLOWED:
      (job.allowed ??= []).push(body.toString());
      break;
    case VALUE_MAX:
      job.valueMax = number(body);
      break;
    case CONTENT_MAX:
      job.contentMax = number(body);
      break;
    case RUNNER_END:
      reader.close();
      job.inputs = inputs.text();
      job.variables = variables.text();
      return job;
    default:
      throw new Error(`the job has a record of the unknown type ${reader.type}`);
    }
  }
}

module.exports = { Pieces, readJob };
