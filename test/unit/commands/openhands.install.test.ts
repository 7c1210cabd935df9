import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { installOpenHands } from '../../../src/commands/openhands.ts';
import { eventually } from '../../support/eventually.ts';

let root: string;
let agents: string;
let constraints: string;
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'install-'));
  agents = join(root, 'agents');
  constraints = join(root, 'constraints.txt');
  mkdirSync(join(root, 'bin'));
  writeFileSync(constraints, 'openhands-agent-server==1.2.3\nother==1\n');
  writeFileSync(
    join(root, 'bin', 'uv'),
    `#!/bin/sh
case "$*" in
  "python find --quiet >=3.12,<3.14") test -n "$FOUND"; exit ;;
esac
echo "$*" >> "$ROOT/calls"
env > "$ROOT/environment"
case "$*" in
  "venv "*) mkdir -p "$3/bin" && touch "$3/bin/python" ;;
  "pip install "*) . "$ROOT/pip.sh" ;;
esac
`,
    { mode: 0o755 },
  );
  pip('true');
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

/** The program of `uv pip install`. */
const pip = (script: string) => writeFileSync(join(root, 'pip.sh'), script);
const calls = () => readFileSync(join(root, 'calls'), 'utf8').trimEnd().split('\n');
const environment = () => readFileSync(join(root, 'environment'), 'utf8');
const install = (more: Record<string, string> = {}, signal = new AbortController().signal) =>
  installOpenHands({
    folder: agents,
    constraints,
    environment: { PATH: `${join(root, 'bin')}:/usr/bin:/bin`, ROOT: root, ...more },
    signal,
  });

describe('installing the agent', () => {
  it('creates an environment of its own with the packages that are pinned', async () => {
    const python = await install();
    expect(python).toMatch(new RegExp(`^${agents}/openhands-1\\.2\\.3-[0-9a-f]{8}/bin/python$`));
    expect(existsSync(python)).toBe(true);
    const attempt = `(${python.slice(0, -'/bin/python'.length)}\\.\\S+)`;
    expect(calls().join('\n')).toMatch(
      new RegExp(
        `^venv --relocatable ${attempt}\npip install --python \\1 -c ${constraints} openhands-agent-server openhands-sdk openhands-tools$`,
      ),
    );
    expect(readdirSync(agents)).toHaveLength(1);
  });

  describe('beside the Pythons of pyenv', () => {
    const pyenv = (...versions: readonly string[]) => {
      for (const version of versions) {
        const folder = join(root, 'pyenv', 'versions', version, 'bin');
        mkdirSync(folder, { recursive: true });
        writeFileSync(join(folder, 'python'), '', { mode: 0o755 });
      }
      return { PYENV_ROOT: join(root, 'pyenv') };
    };
    const chosen = () => /^UV_PYTHON=(.*)$/m.exec(environment())?.[1];
    const path = (version: string) => join(root, 'pyenv', 'versions', version, 'bin', 'python');

    it('takes the newest that the agent runs with', async () => {
      const place = pyenv('3.11.9', '3.12.11', '3.13.2', '3.13.10', '3.14.0', '3.13-dev');
      await install(place);
      expect(chosen()).toBe(path('3.13.10'));
    });

    it('finds them in the home folder', async () => {
      pyenv('3.12.1');
      mkdirSync(join(root, 'home'));
      renameSync(join(root, 'pyenv'), join(root, 'home', '.pyenv'));
      await install({ HOME: join(root, 'home') });
      expect(chosen()).toBe(join(root, 'home', '.pyenv', 'versions', '3.12.1', 'bin', 'python'));
    });

    it.each([
      ['the machine has another one', { FOUND: 'yes' }, '>=3.12,<3.14'],
      ['a setting names another one', { UV_PYTHON: '3.12' }, '3.12'],
    ])('leaves them where %s', async (_name, more, expected) => {
      await install({ ...pyenv('3.13.2'), ...more });
      expect(chosen()).toBe(expected);
    });

    it('lets uv fetch one where none of them is new enough', async () => {
      await install(pyenv('3.10.1'));
      expect(chosen()).toBe('>=3.12,<3.14');
    });
  });

  it('is done once: the next time nothing is run', async () => {
    const python = await install();
    const before = calls();
    expect(await install()).toBe(python);
    expect(calls()).toEqual(before);
  });

  it('is done again when other packages are pinned', async () => {
    const first = await install();
    writeFileSync(constraints, 'openhands-agent-server==1.2.3\nother==2\n');
    expect(await install()).not.toBe(first);
    expect(existsSync(first)).toBe(true);
  });

  it('is done again when the Python that it needs has gone', async () => {
    const python = await install();
    rmSync(python);
    expect(await install()).toBe(python);
    expect(existsSync(python)).toBe(true);
    expect(readdirSync(agents)).toHaveLength(1);
  });

  it('gives two processes that want it at once the same', async () => {
    const [first, second] = await Promise.all([install(), install()]);
    expect(second).toBe(first);
    expect(readdirSync(agents)).toHaveLength(1);
  });

  it('ends when it is interrupted, whatever uv ignores, and does not count', async () => {
    pip('trap "" TERM INT; touch "$ROOT/begun"; while :; do :; done');
    const ended = new AbortController();
    const refused = expect(install({}, ended.signal)).rejects.toThrow('enough');
    await eventually('uv to run', () => existsSync(join(root, 'begun')));
    ended.abort(new Error('enough'));
    await refused;
    expect(readdirSync(agents)).toEqual([]);
    pip('true');
    expect(existsSync(await install())).toBe(true);
  });

  it('fails with the command of uv that failed, and does not count', async () => {
    pip('exit 2');
    await expect(install()).rejects.toThrow(
      /can't be installed: exit code 2 of uv pip install --python .* openhands-agent-server/,
    );
    expect(readdirSync(agents)).toEqual([]);
  });

  it('says how to get uv', async () => {
    await expect(install({ PATH: agents })).rejects.toThrow('pip install uv');
  });

  it('shows the packages no keys, and leaves the settings of uv to the user', async () => {
    await install({ LLM_API_KEY: 'sk-secret', UV_DEFAULT_INDEX: 'https://index.example' });
    expect(environment()).not.toContain('sk-secret');
    expect(environment()).toContain('UV_DEFAULT_INDEX=https://index.example');
    expect(environment()).toContain('UV_PYTHON=>=3.12,<3.14');
    rmSync(agents, { recursive: true });
    await install({ UV_PYTHON: '3.14' });
    expect(environment()).toContain('UV_PYTHON=3.14');
  });
});
