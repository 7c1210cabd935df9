import { mkdirSync, mkdtempSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { privateAuthority } from '../../../test/support/private-authority.ts';
import { recordingLogger } from '../../../test/support/recording-logger.ts';
import { certificatesOf, TrustFile } from '../src/trust-file.ts';

const [first, second] = ['one.test', 'two.test'].map((name) => privateAuthority([name]).ca);
const { logger, lines } = recordingLogger();
let folder: string;
let now: number;
const clock = { monotonic: () => now };
const path = () => join(folder, 'ca.crt');
const write = (text = '') => writeFileSync(path(), text);
const open = () => new TrustFile({ path: path(), clock, logger });
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'trust-'));
  now = 0;
  lines.length = 0;
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

it('trusts all certificates of the file, with texts between them', () => {
  write(`# Company\n${first}\nand another\n${second}`);
  expect(open().size).toBe(2);
});

it.each([
  ['no certificate', 'hello', 'the file has no certificates as PEM'],
  ['nothing', '', 'the file has no certificates as PEM'],
  ['a certificate without an end', `${first}-----BEGIN CERTIFICATE-----\nMIIB`, 'has no end'],
  [
    'something else in PEM',
    `${first}-----BEGIN CERTIFICATE-----\naGVsbG8=\n-----END CERTIFICATE-----\n`,
    'certificate 2 of the file can not be read',
  ],
])('refuses a file with %s', (_name, text, message) => {
  expect(() => certificatesOf(text)).toThrow(message);
  write(text);
  expect(open).toThrow(message);
});

it('refuses a file that is not there, and a folder', () => {
  expect(open).toThrow('ENOENT');
  mkdirSync(path());
  expect(open).toThrow('the path is no file');
});

it('sees a change after 2 s, without a timer', () => {
  write(first);
  const file = open();
  const before = file.current();
  write(`${first}${second}`);
  now = 1999;
  expect(file.current()).toBe(before);
  now = 2000;
  const after = file.current();
  expect(after).not.toBe(before);
  expect(file.size).toBe(2);
  expect(lines).toMatchObject([{ level: 'info', fields: { certificates: 2 } }]);
  now = 9000;
  expect(file.current()).toBe(after);
});

it('sees the switch of the link of a mounted ConfigMap', () => {
  const revision = (name: string, text = '') => {
    mkdirSync(join(folder, name));
    writeFileSync(join(folder, name, 'ca.crt'), text);
    symlinkSync(name, join(folder, '..data_tmp'));
    renameSync(join(folder, '..data_tmp'), join(folder, '..data'));
  };
  revision('..1', first);
  symlinkSync('..data/ca.crt', path());
  const file = open();
  revision('..2', `${first}${second}`);
  now = 3000;
  file.current();
  expect(file.size).toBe(2);
});

it('keeps the last good certificates, and says so once until the file is good again', () => {
  write(first);
  const file = open();
  const good = file.current();
  const at = (time: number) => {
    now = time;
    return file.current();
  };
  write('half a fi');
  expect(at(3000)).toBe(good);
  rmSync(path());
  expect(at(6000)).toBe(good);
  expect(lines).toMatchObject([{ level: 'warn', fields: { file: path() } }]);
  write(first);
  expect(at(9000)).toBe(good);
  write('half a fi');
  expect(at(12_000)).toBe(good);
  expect(lines.filter(({ level }) => level === 'warn')).toHaveLength(2);
});
