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
import { join } from 'node:path';
import { installOpenHands } from '../../../../src/commands/openhands.ts';
import { eventually } from '../../../support/eventually.ts';

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
