import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { addWebUi, IntegrityError, type Pack, type WebUiPackage } from '../../../build/web-ui.ts';

let root: string;
let wanted: WebUiPackage;
let fetched = 0;
/** The archive that the registry has. */
const pack: Pack = (_wanted, folder) => {
  fetched += 1;
  const archive = join(folder, 'ui.tgz');
  execFileSync('cp', [join(root, 'ui.tgz'), archive]);
  return archive;
};
const said: string[] = [];
const add = (options: { readonly pack?: Pack; readonly wanted?: WebUiPackage } = {}) =>
  addWebUi(
    join(root, 'dist'),
    { cache: join(root, 'cache'), wanted, pack, ...options },
    (sentence) => said.push(sentence),
  );

beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'web-ui-test-'));
  fetched = 0;
  said.length = 0;
  const files: Readonly<Record<string, string>> = {
    'build/index.html': '<html><head><title>UI</title></head><body></body></html>',
    'build/assets/a.js': 'export const a = 1;',
    'build/assets/a.js.map': '{}',
    'build/assets/a.css': '@import "https://fonts.example/css?family=A:1,2;3";body{margin:0}',
    'build/mockServiceWorker.js': '',
    'build/logo.png': 'png',
    'src/secret.ts': '',
    LICENSE: 'MIT',
    'package.json': '{}',
  };
  for (const [name, text] of Object.entries(files)) {
    const path = join(root, 'package', name);
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, text);
  }
  execFileSync('tar', ['-czf', join(root, 'ui.tgz'), '-C', root, 'package']);
  const hash = createHash('sha512')
    .update(readFileSync(join(root, 'ui.tgz')))
    .digest('base64');
  wanted = { name: '@ui/ui', version: '1.0.0', integrity: `sha512-${hash}` };
});
afterEach(() => rmSync(root, { recursive: true }));

const filesIn = (folder: string) =>
  readdirSync(folder, { recursive: true, encoding: 'utf8' }).sort();
const unpacked = (name: string) => gunzipSync(readFileSync(join(root, 'dist', name))).toString();

it('writes the built files, packed, and the license, and no source maps', () => {
  add();
  expect(filesIn(join(root, 'dist'))).toEqual(
    ['LICENSE', 'assets', 'assets/a.css.gz', 'assets/a.js.gz', 'index.html', 'logo.png'].sort(),
  );
  expect(unpacked('assets/a.js.gz')).toBe('export const a = 1;');
  expect(said).toEqual([]);
});

it('takes fonts of other hosts out of the styles', () => {
  add();
  expect(unpacked('assets/a.css.gz')).toBe('body{margin:0}');
});

it('puts the settings before everything else of the document', () => {
  add();
  expect(readFileSync(join(root, 'dist/index.html'), 'utf8')).toMatch(
    /^<html><head><script>window\.__AGENT_CANVAS_LOCK_TO_CLOUD__=location\.origin;window\.__AGENT_CANVAS_DO_NOT_TRACK__=true;[^<]*<\/script><title>/,
  );
});

it('fetches the archive once', () => {
  add();
  add();
  expect(fetched).toBe(1);
});

it('fails with another archive than the pinned one, and keeps nothing of it', () => {
  const other = { ...wanted, integrity: `sha512-${'A'.repeat(86)}==` };
  expect(() => add({ wanted: other })).toThrow(IntegrityError);
  expect(filesIn(join(root, 'dist'))).toEqual([]);
  expect(filesIn(join(root, 'cache'))).toEqual([]);
});

it('fails where the kept archive has become another one', () => {
  add();
  const [kept = ''] = readdirSync(join(root, 'cache'));
  writeFileSync(join(root, 'cache', kept), 'x');
  expect(() => add()).toThrow(IntegrityError);
});

it('goes without the web UI where the registry is away, and says so', () => {
  add({ pack: () => execFileSync('false', { encoding: 'utf8' }) });
  expect(said).toEqual([
    'The build goes without the official web UI: @ui/ui@1.0.0 can not be fetched from the registry now.',
  ]);
  expect(existsSync(join(root, 'dist/index.html'))).toBe(false);
  expect(filesIn(join(root, 'dist'))).toEqual([]);
});

it('goes without the web UI where npm is not there', () => {
  add({ pack: () => execFileSync('/none/npm', { encoding: 'utf8' }) });
  expect(said).toHaveLength(1);
});
