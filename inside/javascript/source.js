// From the text that was sent to something that can run: Markdown fence, kind of source (script, script with top-level await, ES module),
// syntax errors with their place, and the last expression. What is syntax is decided by the engine alone.
'use strict';

const vm = require('vm');
const { pathToFileURL } = require('url');
const { scan } = require('./scan.js');
const safe = require('./safe.js');

const PARAMETERS = ['exports', 'require', 'module', '__filename', '__dirname'];
const TRIES_MAX = 40, TRIED_MAX = 8 << 20; // how often, and how much text, the parser is asked for the last expression
const LINE_MAX = 1000; // a longer line is not printed with an error
const NOT_A_TOKEN = '\u0001';
const CUT_OFF = 'The code may be cut off: generate it again, whole.';

// The code does not run. `error` as pipe.js wants it.
class Invalid {
  constructor(error, incomplete) {
    this.error = error;
    this.incomplete = incomplete;
  }
}

// One of the three ways to read code. check(text) throws SyntaxErrors; make(text, before, options) gives what runs.
const script = {
  check: (text, name) => void vm.compileFunction(text, PARAMETERS, { filename: name }),
  wrap: (text, before) => `(function ($glovebox) { let $glovebox_value; return [function (${PARAMETERS.join(', ')}) {${before}\n${text}\n}]; })`,
};
const asyncScript = {
  // In two wrappers, so that code cannot close the one around it and go on outside.
  check(text, name) {
    new vm.Script(`(async function (${PARAMETERS.join(', ')}) {\n${text}\n})`, { filename: name, lineOffset: -1 });
    new vm.Script(`async function $(${PARAMETERS.join(', ')}) {\n${text}\n}`, { filename: name, lineOffset: -1 });
  },
  wrap: (text, before) => script.wrap(text, before).replace('[function', '[async function'),
};
const esModule = {
  check(text) {
    makeModule(text, { identifier: 'main.mjs' });
  },
};

// vm's modules are experimental in every Node so far: the first one prints a warning, which is ours to know and not the user's.
function makeModule(text, options) {
  const { emitWarning } = process;
  process.emitWarning = () => {};
  try {
    return new vm.SourceTextModule(text, options);
  } finally {
    process.emitWarning = emitWarning;
  }
}

// Imports and exports made blank, character by character, so that a script's parser can say where another error is.
function withoutModuleSyntax(text) {
  const { code } = scan(text);
  const blank = part => part.replace(/[^\n\r]/g, ' ');
  let out = '', at = 0;
  const syntax = new RegExp('(?<![\\w$.])(?:' + [
    `import\\b(?!\\s*[.(])[^;'"]*(['"])\\s*\\1`, `export\\s*(?:\\*|\\{[^}]*\\})[^;'"\\n]*(?:(['"])\\s*\\2)?`, 'export\\s+default\\b', 'export\\b',
    'import\\s*\\.\\s*meta\\b'].join('|') + ')', 'g');
  for (const found of code.matchAll(syntax)) {
    out += text.slice(at, found.index) + (found[0].endsWith('meta') ? '_'.repeat(found[0].length) : blank(found[0]));
    at = found.index + found[0].length;
  }
  return out + text.slice(at);
}

// Line, column (0 when not known) and position of a syntax error. The engine writes them in front of the stack.
function placeOf(error, text, name) {
  const lines = safe.lines(text);
  const found = /^(.*):(\d+)\n(.*)\n([ \t]*)(\^*)\n/.exec(error.stack);
  if (!found || found[1] !== name)
    return { line: 0, column: 0, at: -1 };
  const line = Number(found[2]);
  if (line > lines.length || line < 1 || /^Unexpected end of input|^missing \) after .* EOF/.test(error.message))
    return { ...placeAt(text, text.length), at: text.length, beyond: true };
  const breaks = /\r\n|[\n\r\u2028\u2029]/g;
  for (let i = 1; i < line; i++)
    breaks.exec(text);
  // Node points no farther than a thousand columns.
  const column = found[4].length >= LINE_MAX && found[5] === '' ? 0 : found[4].length + 1;
  return { line, column, at: breaks.lastIndex + found[4].length };
}

function failureOf(kind, text, name) {
  try {
    kind.check(text, name);
    return null;
  } catch (error) {
    if (!(error instanceof SyntaxError))
      throw error;
    let place = placeOf(error, text, name);
    if (kind === esModule && /^Unexpected end of input/.test(error.message)) {
      place = { ...placeAt(text, text.length), at: text.length };
    } else if (kind === esModule) {
      try {
        asyncScript.check(`"use strict";${withoutModuleSyntax(text)}`, name);
      } catch (same) {
        place = placeOf(same, `"use strict";${text}`, name);
        if (place.line === 1)
          place.column -= 13;
        place.at -= 13;
      }
    }
    const message = place.beyond ? 'Unexpected end of input' : error.message;
    return { kind, place, message };
  }
}

// Does it end in the middle of something? Never said of a plain mistake.
function isCutOff(failure, looked) {
  if (looked.unfinished)
    return true;
  if (/^Unexpected end of input/.test(failure.message))
    return true;
  if (/^Missing catch or finally/.test(failure.message))
    return looked.code.slice(failure.place.at).trim().length <= 1;
  // The last token is the place of "missing )" when the code ends there.
  const rest = looked.text.slice(failure.place.at, looked.end);
  return looked.open.length > 0 && failure.place.at >= 0 && /^missing \)/.test(failure.message) && /^(?:[\w$]+|.|(["'`])[^\n]*\1)$/.test(rest);
}

function syntaxError(failure, text, name) {
  const looked = scan(text);
  const { line, column } = failure.place;
  const incomplete = isCutOff(failure, looked);
  const sourceLine = line > 0 ? safe.lines(text)[line - 1] : undefined;
  const arrow = line > 0 && sourceLine.length <= LINE_MAX
    ? `${name}:${line}\n${sourceLine}\n${sourceLine.slice(0, column - 1).replace(/[^\t]/g, ' ')}^\n\n`
    : '';
  return new Invalid({
    type: 'SyntaxError', message: failure.message, traceback: `${arrow}SyntaxError: ${failure.message}`,
    line, column: columnOf(sourceLine, column), sourceLine, hint: incomplete ? CUT_OFF : undefined,
  }, incomplete);
}

// Columns are told in characters; the engine counts UTF-16 units.
function columnOf(line, column) {
  if (line === undefined || column === 0)
    return column;
  let characters = 1;
  for (let i = 0; i + 1 < column; i++)
    characters += (safe.StringCharCodeAt(line, i) & 0xfc00) === 0xdc00 ? 0 : 1;
  return characters;
}

// The lines of a Markdown fence become blank when one closed fence is all there is, so that line numbers stay.
function withoutFence(text, name) {
  const lines = text.split('\n');
  const first = lines.findIndex(line => line.trim() !== '');
  const opening = first < 0 ? null : /^ {0,3}(`{3,}|~{3,})\s*([^`\s]*)[^`]*$/.exec(lines[first]);
  if (!opening)
    return text;
  const isClosing = line => new RegExp(`^ {0,3}[${opening[1][0]}]{${opening[1].length},}\\s*$`).test(line);
  const closing = lines.findIndex((line, i) => i > first && isClosing(line));
  if (closing < 0) {
    const message = `the Markdown fence that line ${first + 1} opens is never closed`;
    throw new Invalid({
      type: 'SyntaxError', message, traceback: `${name}:${first + 1}\n${lines[first]}\n^\n\nSyntaxError: ${message}`, line: first + 1, column: 1,
      sourceLine: lines[first], hint: CUT_OFF,
    }, true);
  }
  if (lines.slice(closing + 1).some(line => line.trim() !== ''))
    return text;
  lines[first] = '';
  return lines.slice(0, closing).join('\n');
}

function compiles(kind, text, name) {
  try {
    kind.check(text, name);
    return true;
  } catch {
    return false;
  }
}

// Is `await` used outside of every function? In a static block it is refused, in the functions in it allowed.
function awaitsAtTop(text, looked, name) {
  return /\bawait\b/.test(looked.code) && !compiles(script, `class $ { static {\n${text}\n} }`, name) && compiles(asyncScript, text, name);
}

function kindOf(text, looked, name) {
  const order = /\.[mc]?[jt]s$/.exec(name)?.[0][1] === 'm' ? [esModule] : [script, asyncScript, esModule];
  const failures = [];
  for (const kind of order) {
    if (kind === esModule && order.length > 1 && !/\b(?:import|export)\b/.test(looked.code))
      continue;
    // A bracket too many closes the wrapper: what is told then is of no use, unless await kept the other way from reading that far.
    if (kind === asyncScript && looked.unopened && !failures[0].message.startsWith('await '))
      continue;
    const failure = failureOf(kind, text, name);
    if (failure === null)
      return kind === script && awaitsAtTop(text, looked, name) ? asyncScript : kind;
    failures.push(failure);
  }
  // Who read farthest knows the error that counts.
  const best = failures.reduce((a, b) => b.place.at > a.place.at ? b : a);
  throw syntaxError(best, text, name);
}

const CONTINUES = /^(?:[([`+\-*/%<>&|^=?.,:]|in\b|instanceof\b|of\b)/;
const WORDS = 'function|class|const|let|var|if|for|while|do|switch|try|return|throw|break|continue|debugger|with|export|else';
const STATEMENT = new RegExp(`^(?:[{;)\\]},.:?=]|(?:${WORDS})\\b|async\\s+function\\b|import\\b(?!\\s*[.(]))`);

// Does a statement surely begin at `from`, behind an end that the scan saw?
function beginsStatement(check, text, looked, from, why, first) {
  const before = text.slice(0, from);
  if (why === ';' || from === 0)
    return from === 0 || check(before);
  // Behind a block nothing is needed; behind an expression the engine would not have let `debugger` stand.
  if (why === '}' || CONTINUES.test(first))
    return looked.code.slice(0, from).trimEnd().endsWith('}') && check(`${looked.code.slice(0, from).trimEnd()} debugger`) && check(before);
  return check(before);
}

// [from, to) of the last statement when that is an expression, else null. Whether it really is one is the engine's to say.
function lastExpression(kind, text, looked, name) {
  const check = tried => compiles(kind, tried, name);
  const ends = [[0, ';'], ...looked.ends];
  const most = Math.min(TRIES_MAX, TRIED_MAX / (text.length + 1));
  for (let i = ends.length - 1, tries = 0; i >= 0 && tries <= most; i--) {
    const [from, why] = ends[i];
    const start = from + looked.code.slice(from).search(/\S|$/);
    if (start >= looked.end)
      continue;
    const first = looked.code.slice(start, start + 30);
    let to = looked.end;
    while (to > start && /[;\s]/.test(looked.code[to - 1]))
      to--;
    if (to === start)
      continue;
    tries++;
    if (!beginsStatement(check, text, looked, from, why, first))
      continue;
    if (STATEMENT.test(first))
      return null;
    const isCode = at => !check(text.slice(0, at) + NOT_A_TOKEN + text.slice(at));
    const tried = withCapture(text, looked, [from, to]);
    // Nothing but one expression: were its end in a comment, the bracket that was put there would be missing.
    const isAll = from === 0 && /^[;\s]*$/.test(text.slice(to));
    if (check(tried.before + tried.text) && (isAll || (isCode(from) && isCode(to))))
      return [from, to];
  }
  return null;
}

const CAPTURE = ';$glovebox_value=(';

// The opening stands right behind the statement before, so that the expression's own lines and columns stay as they are; when there is
// none it goes into the wrapper's line. Gives { text, before, moved }: moved is for errors, which are told as if nothing had been put in.
function withCapture(text, looked, range) {
  if (range === null)
    return { text, before: '', moved: null };
  const [from, to] = range;
  const behind = looked.code.slice(0, from).trimEnd().length;
  const start = placeAt(text, from + looked.code.slice(from).search(/\S/));
  const closed = `${text.slice(behind, to)})${text.slice(to)}`;
  if (behind === 0)
    return { text: closed, before: CAPTURE, moved: { opening: { line: 0, column: 0 }, start, by: 0 } };
  const opening = placeAt(text, behind);
  const by = opening.line === start.line ? CAPTURE.length : 0;
  return { text: text.slice(0, behind) + CAPTURE + closed, before: '', moved: { opening, start, by } };
}

function placeAt(text, at) {
  const lines = safe.lines(text.slice(0, at));
  return { line: lines.length, column: lines[lines.length - 1].length + 1 };
}

// Where something was in the text as it was sent. The engine tells the start of a statement, now the opening, of some errors in it.
function original(moved, line, column) {
  if (!moved)
    return { line, column };
  const { opening, start, by } = moved;
  if (line === opening.line && (line === 0 || (column > opening.column && column <= opening.column + CAPTURE.length)))
    return start;
  return { line, column: line === opening.line && column > opening.column ? column - by : column };
}

// Can the text be nothing but an ES module?
function isModuleText(text, name) {
  return /\b(?:import|export)\b/.test(text) && !compiles(script, text.replace(/^#!/, '//'), name) && compiles(esModule, text, name);
}

// The error of a module beside the code, with the place in front of its stack, as Node has it for CommonJS files.
function moduleError(error, text, file) {
  const place = safe.attempt(() => failureOf(esModule, text, file).place);
  const sourceLine = place === undefined ? undefined : safe.lines(text)[place.line - 1];
  if (sourceLine !== undefined && sourceLine.length <= LINE_MAX)
    error.stack = `${file}:${place.line}\n${sourceLine}\n${' '.repeat(Math.max(place.column - 1, 0))}^\n\n${error.stack}`;
  return error;
}

const PROBES = ['main', 'Args', '_result'].map(n => `${n}: () => typeof ${n} === 'undefined' ? undefined : ${n}`).join(', ');

// What is run, ready to be linked or called: { kind, text, looked, make }.
function compile(text, name, path, wantValue) {
  text = withoutFence(text.replace(/^\ufeff/, '').replace(/^#!/, '//'), name);
  const looked = scan(text);
  const kind = kindOf(text, looked, name);
  const range = wantValue ? lastExpression(kind, text, looked, name) : null;
  const assigns = range !== null && /^\s*(?:module\s*\.\s*exports|exports)\b[^=]*=[^=>]/.test(looked.code.slice(...range));
  const { text: body, before, moved } = withCapture(text, looked, assigns ? null : range);
  const probe = `({ value: () => $glovebox_value, ${PROBES} });`;
  const unit = { text, looked, moved, isModule: kind === esModule, isAsync: kind === asyncScript, lines: safe.lines(text) };
  if (unit.isModule) {
    unit.make = options => makeModule(`let $glovebox_value;import.meta.$glovebox${probe}${before}\n${body}`,
      { identifier: pathToFileURL(path).href, lineOffset: -1, ...options });
  } else {
    const strict = /^\s*(['"])use strict\1/.test(text.slice(looked.code.search(/\S|$/))) ? "'use strict';" : '';
    const whole = kind.wrap(body, `${strict}$glovebox${probe}${before}`);
    unit.make = options => new vm.Script(whole, { filename: path, lineOffset: -1, ...options });
  }
  return unit;
}

module.exports = { LINE_MAX, compile, makeModule, moduleError, isModuleText, columnOf, placeAt, original, Invalid };
