// A quick look at code, without understanding it: what is comment, text or code, and where a statement may end. It proposes only: whatever
// is done with its answers is first tried on the engine's own parser (source.js), which has the last word.
'use strict';

const BEFORE_REGEXP = /(?:^|[^\w$.])(?:return|typeof|case|in|of|delete|void|throw|new|instanceof|do|else|yield|await)$/;
const LAST_MAX = 20;
const OPENING = { '(': ')', '[': ']', '{': '}' };

// Where the text of a quoted string ends (behind the quote), or -1 when its line ends first.
function stringEnd(text, at) {
  for (let i = at + 1; i < text.length; i++) {
    if (text[i] === '\\')
      i += text[i + 1] === '\r' && text[i + 2] === '\n' ? 2 : 1;
    else if (text[i] === text[at])
      return i + 1;
    else if (text[i] === '\n' || text[i] === '\r')
      return -1;
  }
  return -1;
}

function regExpEnd(text, at) {
  let inClass = false;
  for (let i = at + 1; i < text.length && text[i] !== '\n'; i++) {
    if (text[i] === '\\')
      i++;
    else if (text[i] === '[')
      inClass = true;
    else if (text[i] === ']')
      inClass = false;
    else if (text[i] === '/' && !inClass)
      return i + 1;
  }
  return -1;
}

function isRegExp(before) {
  const last = before[before.length - 1];
  return last === undefined || !/[\w$)\]'"`]/.test(last) || BEFORE_REGEXP.test(before);
}

class Scan {
  constructor(text) {
    this.text = text;
    this.parts = [];        // of code
    this.open = [];         // brackets (and '`' and '${') that are open
    this.unfinished = null; // 'comment', 'template', 'string' or 'regexp': what the code ends in
    this.unopened = false;  // is there a closing bracket that closes none of these?
    this.ends = [];         // where a statement may have ended: [position behind it, ';' or '}' or '\n']
    this.at = 0;
    while (this.at < text.length)
      this.one();
    if (this.open.includes('`') && this.open[this.open.length - 1] === '`')
      this.unfinished ??= 'template';
    // As long as text, with comments and the insides of strings, templates and regular expressions blank.
    this.code = this.parts.join('');
    this.end = this.code.trimEnd().length;
  }

  keep(to) {
    this.parts.push(this.text.slice(this.at, to));
    this.at = to;
  }

  blank(to) {
    const part = this.text.slice(this.at, to);
    this.parts.push(/[\n\r\u2028\u2029]/.test(part) ? part.replace(/[^\n\r\u2028\u2029]/g, ' ') : ' '.repeat(part.length));
    this.at = to;
  }

  // The end of the code so far, without blanks.
  last() {
    let out = '';
    for (let i = this.parts.length - 1; i >= 0 && out.length < LAST_MAX; i--)
      out = (this.parts[i].slice(-LAST_MAX) + out).trimEnd();
    return out;
  }

  // A string or regular expression from here to `end`, -1 when it has none. Its quotes stay.
  literal(end, what) {
    const from = this.at;
    this.keep(from + 1);
    if (end < 0) {
      const line = this.text.slice(from).search(/[\n\r]/);
      if (line < 0 || this.text.slice(from + line).trim() === '')
        this.unfinished = what;
      this.blank(line < 0 ? this.text.length : from + line);
      return;
    }
    this.blank(end - 1);
    this.keep(end);
  }

  template() {
    for (let i = this.at; i < this.text.length; i++) {
      if (this.text[i] === '\\') {
        i++;
      } else if (this.text[i] === '`') {
        this.blank(i);
        this.keep(i + 1);
        this.open.pop();
        return;
      } else if (this.text[i] === '$' && this.text[i + 1] === '{') {
        this.blank(i);
        this.keep(i + 2);
        this.open.push('${');
        return;
      }
    }
    this.blank(this.text.length);
  }

  slash() {
    const next = this.text[this.at + 1];
    if (next === '/') {
      const line = this.text.slice(this.at).search(/[\n\r\u2028\u2029]/);
      this.blank(line < 0 ? this.text.length : this.at + line);
    } else if (next === '*') {
      const end = this.text.indexOf('*/', this.at + 2);
      if (end < 0)
        this.unfinished = 'comment';
      this.blank(end < 0 ? this.text.length : end + 2);
    } else {
      const end = isRegExp(this.last()) ? regExpEnd(this.text, this.at) : 0;
      if (end > 0 || (end < 0 && !this.text.slice(this.at).includes('\n')))
        this.literal(end, 'regexp');
      else
        this.keep(this.at + 1);
    }
  }

  one() {
    const c = this.text[this.at];
    const top = this.open[this.open.length - 1];
    if (top === '`') {
      this.template();
    } else if (c === '"' || c === "'") {
      this.literal(stringEnd(this.text, this.at), 'string');
    } else if (c === '/') {
      this.slash();
    } else if (c === '`') {
      this.keep(this.at + 1);
      this.open.push('`');
    } else if (c in OPENING) {
      this.keep(this.at + 1);
      this.open.push(c);
    } else if (c === ')' || c === ']' || c === '}') {
      this.keep(this.at + 1);
      if (OPENING[top] === c || (top === '${' && c === '}'))
        this.open.pop();
      else
        this.unopened = true;
      if (c === '}' && this.open.length === 0)
        this.ends.push([this.at, c]);
    } else if (c === ';' || c === '\n') {
      this.keep(this.at + 1);
      if (this.open.length === 0)
        this.ends.push([this.at, c]);
    } else {
      this.plain();
    }
  }

  // What has no meaning here, as far as it goes.
  plain() {
    const rest = /[^"'`/()[\]{};\n]+/y;
    rest.lastIndex = this.at;
    this.keep(this.at + rest.exec(this.text)[0].length);
  }
}

module.exports = { scan: text => new Scan(text) };
