import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { findPython, NoPythonError } from '../../../../src/commands/openhands/python.ts';

let root: string;
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'pythons-'));
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

const program = (path: string, script: string): string => {
  const file = join(root, path);
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, `#!/bin/sh\n${script}\n`);
  chmodSync(file, 0o755);
  return file;
};
const answering = (version: string, ...missing: string[]) =>
  `echo '${JSON.stringify({ version: version.split('.').map(Number), missing })}'`;

/** Nothing of this machine is seen but what a test puts there. */
const environment = (more: Record<string, string> = {}) => ({
  PATH: join(root, 'bin'),
  HOME: join(root, 'home'),
  ...more,
});
const find = (more: Record<string, string> = {}, wanted?: string) =>
  findPython({ environment: environment(more), wanted, signal: new AbortController().signal });

describe('a Python for the agent', () => {
  it('is the one that people get as python3, when it is recent enough', async () => {
    const path = program('bin/python3', answering('3.12.0'));
    program('bin/python3.13', answering('3.13.2'));
    expect(await find()).toBe(path);
  });

  it.each([
    ['an older one', answering('3.11.9')],
    ['a shim that fails', 'echo "command not found" >&2; exit 127'],
    ['a shim of another program', 'echo hello'],
    ['one without what makes virtual environments', answering('3.12.3', 'ensurepip')],
  ])('is another one when python3 is %s', async (_sentence, script) => {
    program('bin/python3', script);
    const path = program('bin/python3.12', answering('3.12.1'));
    expect(await find()).toBe(path);
  });

  it('is asked for its version, whatever it is called', async () => {
    program('bin/python3.13', answering('3.9.1'));
    await expect(find()).rejects.toThrow(NoPythonError);
  });

  it.each([
    ['pyenv, below the home folder', 'home/.pyenv/versions/3.13.0/bin/python3', {}],
    ['pyenv, elsewhere', 'tools/versions/3.13.0/bin/python3', { PYENV_ROOT: 'tools' }],
  ])('is one that was installed by %s', async (_sentence, place, variables) => {
    const path = program(place, answering('3.13.0'));
    const more = Object.fromEntries(
      Object.entries(variables).map(([name, value]) => [name, join(root, value)]),
    );
    expect(await find(more)).toBe(path);
  });

  it('is the latest of pyenv, by number and not by letter', async () => {
    for (const version of ['3.9.18', '3.12.9', '3.12.10', 'system'])
      program(`home/.pyenv/versions/${version}/bin/python3`, answering(version));
    expect(await find()).toContain('/3.12.10/');
  });

  it('is the one of the setting, and no other', async () => {
    program('bin/python3', answering('3.13.0'));
    const path = program('mine/python', answering('3.14.0'));
    expect(await find({}, path)).toBe(path);
    const old = program('old/python', answering('3.10.0'));
    await expect(find({}, old)).rejects.toThrow(
      `PYTHON: ${old} will not do, Python 3.12 or later is needed:\n  ${old}: 3.10.0`,
    );
    await expect(find({}, 'python4')).rejects.toThrow(
      'PYTHON: python4 will not do, Python 3.12 or later is needed; there is no such file',
    );
  });

  it('may be missing: the error names what there is, what is needed, and how to get it', async () => {
    const old = program('bin/python3', answering('3.11.2'));
    const shim = program('bin/python3.13', 'exit 127');
    const error = await find().catch((caught: unknown) => caught);
    expect(error).toBeInstanceOf(NoPythonError);
    expect((error as Error).message.split('\n')).toEqual([
      'the OpenHands agent needs Python 3.12 or later. There is:',
      `  ${old}: 3.11.2`,
      `  ${shim}: does not run (exit code 127)`,
      expect.stringMatching(/^Install uv, .* or set PYTHON to one\.$/),
    ]);
  });

  it('may lack a part that Debian has left out', async () => {
    program('bin/python3', answering('3.13.5', 'ensurepip'));
    await expect(find()).rejects.toThrow(
      /3\.13\.5, but without ensurepip\nOn Debian and Ubuntu: apt install python3-venv/,
    );
  });
});
