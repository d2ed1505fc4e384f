// display(value): shows a picture or another rich form of a value to whoever reads the execution. Several forms of one value have one id.
'use strict';

const pipe = require('./pipe.js');
const safe = require('./safe.js');

const DISPLAYS_MAX = 1000;
const HEAD_MAX = 60 << 10;
const TEXT = /^(?:text\/|application\/(?:json|javascript|xml)\b|[^;]*\+(?:json|xml)\b)/;
const MIME = /^[A-Za-z0-9][\w.+-]*\/[A-Za-z0-9][\w.+-]*(?:\s*;[\w\s.=";+-]*)?$/;
const MAGIC = [['\x89PNG\r\n\x1a\n', 'image/png'], ['\xff\xd8\xff', 'image/jpeg'], ['GIF87a', 'image/gif'], ['GIF89a', 'image/gif']];
const FORMS = [
  ['_repr_png_', 'image/png'], ['_repr_jpeg_', 'image/jpeg'], ['_repr_svg_', 'image/svg+xml'], ['_repr_html_', 'text/html'],
  ['_repr_markdown_', 'text/markdown'], ['_repr_latex_', 'text/latex'], ['_repr_json_', 'application/json'],
];
const JUPYTER = Symbol.for('Jupyter.display');

const isBytes = value => safe.ArrayBufferIsView(value) || safe.types.isAnyArrayBuffer(value);
function bytesOf(value) {
  if (safe.types.isAnyArrayBuffer(value))
    return safe.bytesOf(new safe.Uint8Array(value));
  return safe.bytesOf(safe.types.isUint8Array(value) ? value : new safe.Uint8Array(value.buffer, value.byteOffset, value.byteLength));
}

const textOf = value => safe.inspect(value);

function magicOf(value) {
  const bytes = bytesOf(value);
  for (let i = 0; i < MAGIC.length; i++) {
    if (safe.StringStartsWith(bytes, MAGIC[i][0]))
      return MAGIC[i][1];
  }
  return undefined;
}

// The bytes of one form: bytes as they are, text as UTF-8, base64 for pictures given as text, JSON for objects.
function formBytes(mime, form) {
  if (isBytes(form))
    return bytesOf(form);
  if (typeof form === 'string')
    return safe.RegExpExec(TEXT, mime) !== null ? safe.toBytes(form) : safe.bytesOf(safe.BufferFrom(form, 'base64'));
  return safe.toBytes(safe.JSONStringify(form) ?? 'null');
}

// [mime, form] pairs of a value.
function formsOf(value, mime) {
  const forms = safe.list();
  const add = (type, form) => form === undefined || form === null || (forms[forms.length] = [type, form]);
  const addAll = bundle => {
    const keys = safe.ObjectKeys(bundle);
    for (let i = 0; i < keys.length; i++)
      add(keys[i], bundle[keys[i]]);
  };
  if (mime !== undefined) {
    add(mime, value);
  } else if (isBytes(value) && magicOf(value) !== undefined) {
    add(magicOf(value), value);
  } else if (typeof value === 'string') {
    add('text/plain', value);
  } else {
    if (typeof value === 'object' && value !== null && !safe.types.isProxy(value)) {
      if (typeof value[JUPYTER] === 'function')
        addAll(value[JUPYTER]());
      else if (typeof value._repr_mimebundle_ === 'function')
        addAll(value._repr_mimebundle_());
      else
        for (let i = 0; i < FORMS.length; i++) {
          if (typeof value[FORMS[i][0]] === 'function')
            add(FORMS[i][1], value[FORMS[i][0]]());
        }
    }
    let plain = false;
    for (let i = 0; i < forms.length; i++)
      plain ||= forms[i][0] === 'text/plain';
    if (!plain)
      add('text/plain', textOf(value));
  }
  return forms;
}

// display() for the user. What is beyond the caps is left out, whole; the first time that is told.
function displayer(contentMax) {
  let shown = 0, left = contentMax, ids = 0, told = false;

  function send(id, mime, metadata, bytes) {
    const size = bytes.length + safe.toBytes(metadata).length; // as whoever reads it counts
    if (shown < DISPLAYS_MAX && size <= left) {
      shown++;
      left -= size;
      pipe.display(id, mime, metadata, bytes);
    } else if (!told) {
      told = true;
      pipe.displayLeftOut(id, mime);
    }
  }

  return function display(value, { mime, metadata } = {}) {
    if (shown === DISPLAYS_MAX && told)
      return;
    if (mime !== undefined && (typeof mime !== 'string' || safe.RegExpExec(MIME, mime) === null || mime.length > 200))
      throw new TypeError("display: mime must be a MIME type such as 'image/png'");
    const about = metadata === undefined ? '' : safe.JSONStringify(metadata) ?? '';
    if (about.length > HEAD_MAX / 4)
      throw new RangeError(`display: metadata must have at most ${HEAD_MAX / 4} characters of JSON`);
    const forms = formsOf(value, mime);
    const id = `${++ids}`;
    for (let i = 0; i < forms.length; i++) {
      const type = forms[i][0];
      if (safe.RegExpExec(MIME, type) === null || type.length > 200)
        throw new TypeError(`display: '${safe.StringSlice(type, 0, 100)}' is no MIME type`);
      send(id, type, about, formBytes(type, forms[i][1]));
    }
  };
}

module.exports = { displayer };
