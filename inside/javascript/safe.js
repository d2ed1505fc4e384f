// What the runner uses of the language, taken before any user code runs. User code may replace every builtin and prototype; what was
// taken here still works. Rules for the other modules: call nothing as a method of a value (uncurried functions instead), no for-of, no
// spread, no await, no array that inherits (list()), no property read from an object that came from user code outside of a try.
'use strict';

const { bind, call } = Function.prototype;
const uncurry = bind.bind(call);
const getter = (of, name) => uncurry(Object.getOwnPropertyDescriptor(of, name).get);
const { types, inspect } = require('util');
const TypedArray = Object.getPrototypeOf(Uint8Array.prototype);
const encoder = new TextEncoder();
const encode = encoder.encode.bind(encoder);
const latin1Slice = uncurry(Buffer.prototype.latin1Slice);

const safe = {
  __proto__: null,
  types, inspect, uncurry,
  Array, Error, Map, Promise, Set, String,
  ArrayBufferIsView: ArrayBuffer.isView,
  ArrayIsArray: Array.isArray,
  ArrayPrototype: Array.prototype,
  ArrayJoin: uncurry(Array.prototype.join),
  BigIntValueOf: uncurry(BigInt.prototype.valueOf),
  BooleanValueOf: uncurry(Boolean.prototype.valueOf),
  BufferBase64Slice: uncurry(Buffer.prototype.base64Slice),
  BufferFrom: Buffer.from.bind(Buffer),
  DateGetTime: uncurry(Date.prototype.getTime),
  DateToISOString: uncurry(Date.prototype.toISOString),
  FromCharCode: String.fromCharCode,
  JSONParse: JSON.parse,
  JSONStringify: JSON.stringify,
  MapEntries: uncurry(Map.prototype.entries),
  MapNext: uncurry(new Map().entries().next),
  MapSize: getter(Map.prototype, 'size'),
  NumberIsFinite: Number.isFinite,
  NumberIsInteger: Number.isInteger,
  NumberValueOf: uncurry(Number.prototype.valueOf),
  ObjectDefineProperty: Object.defineProperty,
  ObjectGetOwnPropertyDescriptor: Object.getOwnPropertyDescriptor,
  ObjectGetPrototypeOf: Object.getPrototypeOf,
  ObjectHasOwn: uncurry(Object.prototype.hasOwnProperty),
  ObjectKeys: Object.keys,
  ObjectPrototype: Object.prototype,
  ObjectSetPrototypeOf: Object.setPrototypeOf,
  PromiseThen: uncurry(Promise.prototype.then),
  ReflectApply: Reflect.apply,
  ReflectConstruct: Reflect.construct,
  RegExpExec: uncurry(RegExp.prototype.exec),
  RegExpFlags: getter(RegExp.prototype, 'flags'),
  RegExpSource: getter(RegExp.prototype, 'source'),
  SetAdd: uncurry(Set.prototype.add),
  SetDelete: uncurry(Set.prototype.delete),
  SetHas: uncurry(Set.prototype.has),
  SetNext: uncurry(new Set().values().next),
  SetSize: getter(Set.prototype, 'size'),
  SetValues: uncurry(Set.prototype.values),
  StringCharCodeAt: uncurry(String.prototype.charCodeAt),
  StringEndsWith: uncurry(String.prototype.endsWith),
  StringIncludes: uncurry(String.prototype.includes),
  StringIndexOf: uncurry(String.prototype.indexOf),
  StringLastIndexOf: uncurry(String.prototype.lastIndexOf),
  StringPadStart: uncurry(String.prototype.padStart),
  StringRepeat: uncurry(String.prototype.repeat),
  StringSlice: uncurry(String.prototype.slice),
  StringStartsWith: uncurry(String.prototype.startsWith),
  StringTrim: uncurry(String.prototype.trim),
  StringTrimEnd: uncurry(String.prototype.trimEnd),
  StringValueOf: uncurry(String.prototype.valueOf),
  TypedArrayByteLength: getter(TypedArray, 'byteLength'),
  TypedArrayKind: getter(TypedArray, Symbol.toStringTag),
  TypedArrayLength: getter(TypedArray, 'length'),
  Uint8Array,
  Symbol,
};

// An array that inherits nothing: setters on Array.prototype cannot see what is put in.
safe.list = () => safe.ObjectSetPrototypeOf([], null);

// UTF-8 as a string of bytes: strings have nothing that user code could replace.
safe.toBytes = text => latin1Slice(encode(text));
safe.bytesOf = view => latin1Slice(view);

// Calls f when a promise or thenable is fulfilled. then() asks a promise for its constructor, which user code may have spoilt: it is hidden then.
safe.then = (value, f) => {
  const promise = safe.types.isPromise(value) ? value : new safe.Promise(resolve => resolve(value));
  try {
    return safe.PromiseThen(promise, f);
  } catch {
    safe.ObjectDefineProperty(promise, 'constructor', { __proto__: null, value: undefined });
    return safe.PromiseThen(promise, f);
  }
};

// f(), or what `otherwise` is when it throws.
safe.attempt = (f, otherwise) => {
  try {
    return f();
  } catch {
    return otherwise;
  }
};

// The lines of a text, as the engine counts them.
safe.lines = text => {
  const out = safe.list();
  const breaks = /\r\n|[\n\r\u2028\u2029]/g;
  let from = 0;
  for (let found; (found = safe.RegExpExec(breaks, text)) !== null; from = breaks.lastIndex)
    out[out.length] = safe.StringSlice(text, from, breaks.lastIndex - found[0].length);
  out[out.length] = safe.StringSlice(text, from);
  return out;
};

// text with every match of a pattern (with the flag g) replaced by what f gives.
safe.replace = (text, pattern, f) => {
  let out = '', from = 0;
  pattern.lastIndex = 0;
  for (let found; (found = safe.RegExpExec(pattern, text)) !== null; from = pattern.lastIndex)
    out += safe.StringSlice(text, from, pattern.lastIndex - found[0].length) + f(found);
  return out + safe.StringSlice(text, from);
};

module.exports = safe;
