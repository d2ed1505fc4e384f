// TypeScript runs with its types taken away, by Node itself: types become blanks, so lines and columns stay. Nothing checks the types.
'use strict';

const { scan } = require('./scan.js');
const { Invalid } = require('./source.js');
const module_ = require('module');

function strip(text, name) {
  if (typeof module_.stripTypeScriptTypes !== 'function') {
    const cure = 'send JavaScript, or ask the operator for a newer Node.js';
    const message = `TypeScript needs Node.js 22.13 or newer, and this is ${process.version}: ${cure}`;
    throw new Invalid({ type: 'TypeScriptError', message, traceback: `${name}: TypeScriptError: ${message}` }, false);
  }
  const { emitWarning } = process;
  process.emitWarning = () => {};
  try {
    return module_.stripTypeScriptTypes(text);
  } catch (error) {
    const message = `${error.message}`.trim();
    const { unfinished, open } = scan(text);
    throw new Invalid({ type: 'SyntaxError', message, traceback: `${name}: SyntaxError: ${message}` }, unfinished !== null || open.length > 0);
  } finally {
    process.emitWarning = emitWarning;
  }
}

module.exports = { strip };
