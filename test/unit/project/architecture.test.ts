import { dirname, join } from 'node:path';
import { existsSync, globSync, readFileSync } from 'node:fs';

const text = readFileSync('docs/architecture.md', 'utf8');
const sources = globSync('{src,packages/*/src}/**/*.{ts,tsx}');

it('docs/architecture.md has at most 250 lines', () => {
  expect(text.trimEnd().split('\n').length).toBeLessThanOrEqual(250);
});

it('docs/architecture.md names files that exist, for each behaviour', () => {
  const list = text.split('## Behaviours')[1]?.split('\n## ')[0] ?? '';
  const behaviours = list.split('\n').filter((line) => line.startsWith('- '));
  expect(behaviours.length).toBeGreaterThanOrEqual(16);
  const files = [...list.matchAll(/`([\w/-]+\.ts)`/g)].map(([, file]) => file);
  expect(files.length).toBeGreaterThan(30);
  const isThere = (file = '') => sources.some((source) => `/${source}`.endsWith(`/${file}`));
  expect(files.filter((file) => !isThere(file))).toEqual([]);
});

it('CONTRIBUTING.md names files and folders that exist', () => {
  const paths = [
    ...readFileSync('CONTRIBUTING.md', 'utf8').matchAll(
      /`((?:src|packages|test|helm)\/[\w./-]+)`/g,
    ),
  ].map(([, path = '']) => path);
  expect(paths.length).toBeGreaterThan(10);
  expect(paths.filter((path) => !existsSync(path))).toEqual([]);
});

it('product code is given its way to hosts outside', () => {
  expect(
    sources.filter((source) => /import \{[^}]*\bdirectly\b/.test(readFileSync(source, 'utf8'))),
  ).toEqual([]);
});

/** Paths of the files that a file imports, relative to this folder, and of packages. */
const importsOf = (source: string): readonly string[] =>
  [...readFileSync(source, 'utf8').matchAll(/^(?:import |export |\} ).*?from '([^']+)';$/gm)].map(
    ([, path = '']) => (path.startsWith('.') ? join(dirname(source), path) : path),
  );

it('a file of the gateway imports at most 25 others, and at most 60 files import it', () => {
  const imports = new Map(
    sources
      .filter((source) => source.startsWith('src/gateway/'))
      .map((source) => [source, importsOf(source)]),
  );
  const many = [...imports].filter(([, files]) => files.length > 25).map(([source]) => source);
  expect(many).toEqual([]);
  const importers = Map.groupBy([...imports.values()].flat(), (file) => file);
  const popular = [...importers].filter(([file, { length }]) => imports.has(file) && length > 60);
  expect(popular.map(([file]) => file)).toEqual([]);
});

it('a file of the product has at most 450 lines', () => {
  const long = sources.filter((source) => readFileSync(source, 'utf8').split('\n').length > 451);
  expect(long).toEqual([]);
});

it('a test has the path of its subject, and one that is not alone says its aspect', () => {
  const isFile = new Set(globSync('{src,packages/*/src,test}/**/*.{ts,tsx}'));
  // The tools of tests have tests too.
  const isSubject = (path: string) =>
    [path, path.replace(/^src\//, 'test/')].some(
      (each) => isFile.has(`${each}.ts`) || isFile.has(`${each}.tsx`),
    );
  const tests = globSync('{test/unit,packages/*/test}/**/*.test.ts', {
    exclude: ['test/unit/{project,build}', 'packages/local-cluster/test/conformance'],
  });
  const without = tests.filter((test) => {
    const path = test
      .replace(/^test\/unit\//, 'src/')
      .replace(/^(packages\/[\w-]+)\/test\//, '$1/src/')
      .replace(/\.test\.ts$/, '');
    return !isSubject(path) && !isSubject(path.replace(/\.[\w-]+$/, ''));
  });
  expect(without).toEqual([]);
});

it('tests outside of a package import what it exports by its name', () => {
  const exported = new Set(
    globSync('packages/*/package.json').flatMap((file) => {
      const { exports } = JSON.parse(readFileSync(file, 'utf8')) as { exports?: object };
      return Object.values(exports ?? {}).map((path) => join(dirname(file), String(path)));
    }),
  );
  const byPath = globSync('{test,helm}/**/*.ts').flatMap((test) =>
    importsOf(test).filter((path) => exported.has(path)),
  );
  expect(exported.size).toBeGreaterThan(50);
  expect(byPath).toEqual([]);
});
