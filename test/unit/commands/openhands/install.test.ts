import { chmodSync, existsSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { installOpenHands } from '../../../../src/commands/openhands/install.ts';
import type { Progress } from '../../../../src/commands/openhands/progress.ts';
import { eventually } from '../../../support/eventually.ts';

let root: string;
let home: string;
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'install-'));
  home = join(root, 'agents', 'openhands-1.2.3');
  mkdirSync(join(root, 'bin'));
  writeFileSync(join(root, 'constraints.txt'), 'openhands-agent-server==1.2.3\nother==1\n');
  // A Python that does as the tests say: what pip prints and does is a script of its own.
  const python = join(root, 'bin', 'python3');
  writeFileSync(
    python,
    `#!/bin/sh
echo "$*" >> "$ROOT/calls"
case "$*" in
  *importlib*) echo '{"version": [3, 13, 0], "missing": []}' ;;
  "-m venv "*) mkdir -p "$3/bin" && ln -s "$ROOT/bin/python3" "$3/bin/python" ;;
  "-m pip install "*) env > "$ROOT/environment"; . "$ROOT/pip.sh" ;;
  *) exit "\${CHECK:-0}" ;;
esac
`,
  );
  chmodSync(python, 0o755);
  pip('echo "Collecting other==1"; echo "Installing collected packages: other"');
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

const pip = (script: string) => writeFileSync(join(root, 'pip.sh'), script);
const pipRuns = () =>
  readFileSync(join(root, 'calls'), 'utf8')
    .split('\n')
    .filter((line) => line.startsWith('-m pip')).length;
const calls = () => readFileSync(join(root, 'calls'), 'utf8').split('\n').length;

const lines: string[] = [];
const progress = (): Progress => {
  const add = (text: string) => void lines.push(text);
  return { step: add, detail: add, note: add, done: add, close: () => undefined };
};
beforeEach(() => void lines.splice(0));

const install = (more: Record<string, string> = {}, signal = new AbortController().signal, python?: string) =>
  installOpenHands({
    folder: join(root, 'agents'),
    constraints: join(root, 'constraints.txt'),
    environment: { PATH: `${join(root, 'bin')}:/usr/bin:/bin`, HOME: root, ROOT: root, ...more },
    python,
    progress,
    signal,
  });

describe('installing the agent', () => {
  it('makes an environment of its own with the packages that are pinned, and tells how far it is', async () => {
    const python = await install();
    expect(python).toMatch(new RegExp(`^${home}/[0-9a-f]+/bin/python$`));
    const pipCall =
      readFileSync(join(root, 'calls'), 'utf8')
        .split('\n')
        .find((line) => line.startsWith('-m pip')) ?? '';
    expect(pipCall).toContain(`-c ${join(root, 'constraints.txt')} openhands-agent-server openhands-sdk openhands-tools`);
    expect(lines).toEqual(expect.arrayContaining(['making a virtual environment', '1 fetched, other', 'unpacking 1', 'trying it']));
  });

  it('is done once: the next time nothing is run, nor said', async () => {
    const python = await install();
    const before = calls();
    lines.splice(0);
    expect(await install()).toBe(python);
    expect([calls(), lines]).toEqual([before, []]);
  });

  it.each([
    ['other packages are pinned', () => writeFileSync(join(root, 'constraints.txt'), 'openhands-agent-server==1.2.3\nother==2\n')],
    ['it was never finished', () => rmSync(join(home, 'installed.json'))],
    ['what it is recorded by is damaged', () => writeFileSync(join(home, 'installed.json'), '{"environment":')],
    [
      'the Python that it stands on is gone',
      () => {
        const [environment = ''] = readdirSync(home).filter((name) => /^[0-9a-f]{8}$/.test(name));
        rmSync(join(home, environment, 'bin', 'python'));
      },
    ],
  ])('is done again when %s, and what was there is removed', async (_sentence, change) => {
    const first = await install();
    change();
    const second = await install();
    expect(second).not.toBe(first);
    expect(pipRuns()).toBe(2);
    expect(readdirSync(home).filter((name) => /^[0-9a-f]{8}$/.test(name))).toHaveLength(1);
  });

  it('is done again for another Python, when one is chosen', async () => {
    await install();
    await install({}, undefined, join(root, 'bin', 'python3'));
    expect(pipRuns()).toBe(1);
    writeFileSync(join(root, 'bin', 'other'), readFileSync(join(root, 'bin', 'python3')), { mode: 0o755 });
    await install({}, undefined, join(root, 'bin', 'other'));
    expect(pipRuns()).toBe(2);
  });

  it('is done by one of two that want it at once; the other waits', async () => {
    pip(`touch "$ROOT/begun"; while [ ! -e "$ROOT/go" ]; do sleep 0.05; done`);
    const first = install();
    await eventually('the first to begin', () => existsSync(join(root, 'begun')));
    const second = install();
    await eventually('the second to wait', () => lines.includes('another process is installing it; waiting for that'));
    writeFileSync(join(root, 'go'), '');
    expect(await second).toBe(await first);
    expect(pipRuns()).toBe(1);
  });

  it('ends at once when it is interrupted, with what it has started, and leaves nothing', async () => {
    pip(`echo $$ > "$ROOT/pid"; sleep 60 & echo $! >> "$ROOT/pid"; wait`);
    const ended = new AbortController();
    const installing = install({}, ended.signal);
    const refused = expect(installing).rejects.toThrow('enough');
    const pids = await eventually('pip to run', () => {
      const found = existsSync(join(root, 'pid')) ? readFileSync(join(root, 'pid'), 'utf8').trim().split('\n') : [];
      return found.length === 2 && found.map(Number);
    });
    ended.abort(new Error('enough'));
    await refused;
    const isAlive = (pid: number) => existsSync(`/proc/${pid}`) && !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'));
    await eventually('its processes to end', () => !pids.some(isAlive));
    expect(readdirSync(home)).toEqual(['lock']);
    pip('true');
    expect(await install()).toContain(home);
  });

  it.each([
    [
      'no network',
      'echo "WARNING: Retrying … NewConnectionError: Temporary failure in name resolution"; echo "ERROR: No matching distribution found for openhands-sdk"; exit 1',
      /can not be reached: its name is not known \(is there a network\?\); pip: No matching distribution found for openhands-sdk/,
    ],
    [
      'a full disk',
      'echo "ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device"; exit 1',
      /the disk is full; pip: Could not/,
    ],
    [
      'a package that is not there',
      'echo "ERROR: No matching distribution found for other==1"; exit 1',
      /the package index lacks a package; pip: No matching/,
    ],
    [
      'an index whose certificate is unknown',
      'echo "SSLError(SSLCertVerificationError(1, CERTIFICATE_VERIFY_FAILED"; exit 1',
      /certificate is not trusted/,
    ],
    ['anything else', 'exit 2', /pip has failed/],
  ])('says why it failed, and what to try by hand: %s', async (_sentence, script, cause) => {
    pip(script);
    const error = await install().catch((caught: unknown) => caught);
    const { message } = error as Error;
    expect(message).toMatch(cause);
    const command = `${join(root, 'bin', 'python3')} -m venv openhands-try && openhands-try/bin/python -m pip install -c ${join(root, 'constraints.txt')}`;
    expect(message).toContain(command);
    expect(readdirSync(home)).toEqual(['lock']);
  });

  it('does not count when what was installed does not run', async () => {
    await expect(install({ CHECK: '1' })).rejects.toThrow("the OpenHands agent can't be installed");
    expect(existsSync(join(home, 'installed.json'))).toBe(false);
  });

  it('shows the packages no keys, and no modules of somebody else', async () => {
    await install({ LLM_API_KEY: 'sk-secret', PYTHONPATH: '/elsewhere', PIP_INDEX_URL: 'https://index.example' });
    const environment = readFileSync(join(root, 'environment'), 'utf8');
    expect(environment).not.toMatch(/sk-secret|PYTHONPATH/);
    expect(environment).toContain('PIP_INDEX_URL=https://index.example');
  });

  it('says when its folder can not be written', async () => {
    writeFileSync(join(root, 'agents'), '');
    await expect(install()).rejects.toThrow(/can't be installed in .*: (ENOTDIR|EEXIST)/);
  });
});
