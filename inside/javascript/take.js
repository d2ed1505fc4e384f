// What glovebox-start does for a program that starts with its job (inside/start.c), for an interpreter that was started before: the variables
// that came late, arguments, the code's file and the others, time zone and folder. Descriptor 4 tells how the files were, or what went wrong.
'use strict';

const fs = require('fs');
const Module = require('module');
const { errno } = require('os').constants;
const path = require('path');
const { Pieces } = require('./job.js');
const { ENV, ARG, CODE, FILE, FILE_DATA, WORKING_DIR, TIMEZONE, END, MERGE_STREAMS, recordOf } = require('./records.js');

const FD_REPORT = 4;
const EXIT_NOT_STARTED = 125;
const FAILED = 1, FILE_STAMP = 2, READY = 3;
const TEXT_MAX = 4 << 10, STRING_MAX = 160 << 10;
const STRINGS_MAX = 16384, FILES_MAX = 1001;
const NO_STAMP = Buffer.alloc(32);
const ZONES = '/usr/share/zoneinfo';

function fault(name) {
  return Object.assign(new Error(name), { errno: -errno[name] });
}

// As inside/start.c has it: "a//b", "/a", "a/", "." and ".." are refused.
function isPlain(name) {
  return name.split('/').every(part => part !== '' && part !== '.' && part !== '..' && Buffer.byteLength(part) <= 255);
}

// A file being written: open, appended to, sealed.
class Written {
  constructor(fd) {
    this.fd = fd;
  }

  append(bytes) {
    for (let at = 0; at < bytes.length;)
      at += fs.writeSync(this.fd, bytes, at, bytes.length - at, null);
  }

  // Notes how the file is now that it is complete. Before Linux 6.13 all writes within one tick of the clock leave the same time: so it gets one
  // from just before, which no later write can leave, and each of them shows. Node has times as floating-point numbers only, of which the
  // file keeps something near.
  seal(stamp) {
    const { mtimeNs } = fs.fstatSync(this.fd, { bigint: true });
    let now;
    for (let before = 1000n; now === undefined || now.mtimeNs >= mtimeNs; before *= 2n) {
      const time = Number(mtimeNs - before) / 1e9;
      fs.futimesSync(this.fd, time, time);
      now = fs.fstatSync(this.fd, { bigint: true });
    }
    fs.closeSync(this.fd);
    stamp.writeBigUInt64LE(now.ino, 8);
    stamp.writeBigUInt64LE(now.size, 16);
    stamp.writeBigUInt64LE(now.mtimeNs, 24);
    stamp.writeBigUInt64LE(now.ctimeNs, 32);
  }
}

// Only a name that the cell has data for: a wrong TZ would silently be UTC. A link may lead to another name, not out.
function checkZone(name) {
  if (!isPlain(name))
    throw fault('ENOENT');
  try {
    const file = path.join(ZONES, name);
    if (!fs.realpathSync(file).startsWith(`${ZONES}/`) || (fs.lstatSync(file).isSymbolicLink() && fs.readlinkSync(file).startsWith('/')))
      throw fault('EXDEV');
    if (fs.readFileSync(file).latin1Slice(0, 4) !== 'TZif')
      throw fault('EINVAL');
  } catch {
    throw fault('ENOENT');
  }
}

class Taker {
  // code: path of the code's file, in the workspace
  constructor(code) {
    this.workspace = path.dirname(code);
    this.workingDir = this.workspace;
    this.path = code;
    this.file = undefined;      // the last one, still open
    this.stamps = [recordOf(FILE_STAMP, NO_STAMP)];
    this.folders = new Set();   // those known to be there
    this.text = new Pieces();
    this.args = [];
  }

  // Gives the code's text, once everything is in its place; or tells what was in the way.
  take(reader) {
    try {
      this.readRecords(reader);
      this.enterFolder();
      this.sealFile();
      this.step = 'code';
      this.code.seal(this.stamps[0]);
      this.report(this.stamps.length > 1 ? Buffer.concat(this.stamps) : this.stamps[0]);
    } catch (error) {
      this.fail(error);
    }
    this.close();
    process.argv.push(...this.args);
    return this.text.text() ?? '';
  }

  readRecords(reader) {
    this.step = 'job';
    let body = reader.next();
    // Not before there is a job: another interpreter may get it, in the same workspace.
    this.step = 'code';
    this.code = this.create(this.path, 0o644);
    for (; reader.type !== END; body = reader.next()) {
      this.step = 'job';
      this.record(reader.type, body);
    }
  }

  record(type, body) {
    switch (type) {
    case CODE:
      this.step = 'code';
      this.text.add(body);
      return this.code.append(body);
    case FILE:
      return this.openFile(body);
    case FILE_DATA:
      this.step = 'files';
      if (this.file === undefined)
        throw fault('EINVAL');
      return this.file.append(body);
    case ENV:
      return this.setVariable(Taker.string(body, STRING_MAX));
    case ARG:
      if (this.args.length === STRINGS_MAX)
        throw fault('E2BIG');
      return void this.args.push(Taker.string(body, STRING_MAX));
    case WORKING_DIR:
      return void (this.workingDir = Taker.string(body, TEXT_MAX));
    case TIMEZONE:
      return this.setZone(Taker.string(body, 255));
    case MERGE_STREAMS: // nothing here can move a descriptor
      throw fault('EOPNOTSUPP');
    default:
      throw fault('EBADMSG');
    }
  }

  static string(body, most) {
    if (body.length > most || body.includes(0))
      throw fault('EBADMSG');
    return body.toString();
  }

  // What Node reads only when it starts is not among them: such a job gets an interpreter of its own.
  setVariable(text) {
    const equals = text.indexOf('=');
    if (equals <= 0)
      throw fault('EINVAL');
    const name = text.slice(0, equals);
    process.env[name] = text.slice(equals + 1);
    if (name === 'HOME')
      Module._initPaths(); // packages below it
  }

  setZone(name) {
    this.step = 'timezone';
    checkZone(name);
    process.env.TZ = name;
  }

  create(file, mode) {
    return new Written(fs.openSync(file, 'wx', mode));
  }

  openFile(body) {
    this.step = 'files';
    if (body.length > TEXT_MAX + 1)
      throw fault('EBADMSG');
    const name = body.toString('utf8', 1);
    if (body.length < 2 || (body[0] & ~1) !== 0 || body.includes(0, 1) || !isPlain(name))
      throw fault('EINVAL');
    this.sealFile();
    this.makeFolders(name);
    if (this.stamps.length === FILES_MAX)
      throw fault('E2BIG');
    this.file = this.create(path.join(this.workspace, name), body[0] === 1 ? 0o755 : 0o644);
    this.stamps.push(recordOf(FILE_STAMP, NO_STAMP));
  }

  sealFile() {
    this.step = 'files';
    this.file?.seal(this.stamps[this.stamps.length - 1]);
    this.file = undefined;
  }

  // The folders that a path needs, none of which may be a link.
  makeFolders(name) {
    for (let slash = name.indexOf('/'); slash >= 0; slash = name.indexOf('/', slash + 1)) {
      const folder = name.slice(0, slash);
      if (this.folders.has(folder))
        continue;
      const whole = path.join(this.workspace, folder);
      try {
        fs.mkdirSync(whole, 0o755);
      } catch (error) {
        if (error.code !== 'EEXIST')
          throw error;
        const found = fs.lstatSync(whole);
        if (!found.isDirectory())
          throw fault(found.isSymbolicLink() ? 'ELOOP' : 'ENOTDIR');
      }
      this.folders.add(folder);
    }
  }

  enterFolder() {
    this.step = 'working_dir';
    process.chdir(this.workingDir);
    try {
      process.cwd();
    } catch {
      throw fault('EPERM'); // it cannot be reached from the cell's root
    }
  }

  // The last word; what runs then has nothing to do with it.
  close() {
    fs.closeSync(FD_REPORT);
  }

  report(bytes) {
    for (let at = 0; at < bytes.length;)
      at += fs.writeSync(FD_REPORT, bytes, at, bytes.length - at, null);
  }

  ready() {
    this.report(recordOf(READY, Buffer.alloc(0)));
  }

  // An error without a number is one of the job's form.
  fail(error) {
    const said = Buffer.from(`\0\0\0\0${this.step}`);
    said.writeUInt32LE(typeof error.errno === 'number' ? -error.errno : errno.EBADMSG);
    this.report(recordOf(FAILED, said));
    process.reallyExit(EXIT_NOT_STARTED);
  }
}

module.exports = { Taker, Written };
