import {
  chmodSync,
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

/** A uv that makes environments of the same Python. */
const withUv = () =>
  writeFileSync(
    join(root, 'bin', 'uv'),
    `#!/bin/sh
echo "uv $*" >> "$ROOT/calls"
case "$*" in
  "venv "*) mkdir -p "$4/bin" && ln -s "$ROOT/bin/python3" "$4/bin/python" ;;
  "pip install "*) . "$ROOT/pip.sh" ;;
esac
`,
    { mode: 0o755 },
  );
const pip = (script: string) => writeFileSync(join(root, 'pip.sh'), script);
const pipRuns = () =>
  readFileSync(join(root, 'calls'), 'utf8')
    .split('\n')
    .filter((line) => line.startsWith('-m pip')).length;
const calls = () => readFileSync(join(root, 'calls'), 'utf8').split('\n').length;

const lines: string[] = [];
const progress = (): Progress => {
  const add = (text: string) => void lines.push(text);
  return { step: add, detail: add, close: () => undefined };
};
beforeEach(() => void lines.splice(0));

const install = (
  more: Record<string, string> = {},
  signal = new AbortController().signal,
  python?: string,
) =>
  installOpenHands({
    folder: join(root, 'agents'),
    constraints: join(root, 'constraints.txt'),
    environment: { PATH: `${join(root, 'bin')}:/usr/bin:/bin`, HOME: root, ROOT: root, ...more },
    python,
    progress,
    signal,
  });

describe('installing the agent', () => {
  it('makes an environment of its own with the packages that are pinned, and shows how far it is', async () => {
    const python = await install();
    expect(python).toMatch(new RegExp(`^${home}/[0-9a-f]+/bin/python$`));
    const pipCall =
      readFileSync(join(root, 'calls'), 'utf8')
        .split('\n')
        .find((line) => line.startsWith('-m pip')) ?? '';
    expect(pipCall).toContain(
      `-c ${join(root, 'constraints.txt')} openhands-agent-server openhands-sdk openhands-tools`,
    );
    expect(lines).toEqual([
      `installing the OpenHands agent-server 1.2.3 in ${home}, once`,
      `with pip and Python ${join(root, 'bin', 'python3')}, one to three minutes`,
      'Collecting other==1',
      'Installing collected packages: other',
      expect.stringMatching(/^installed, \d+ s$/),
    ]);
  });

  it('is done by uv where that is on the PATH, with the same packages', async () => {
    withUv();
    expect(await install()).toMatch(new RegExp(`^${home}/[0-9a-f]+/bin/python$`));
    const uvCalls = readFileSync(join(root, 'calls'), 'utf8')
      .split('\n')
      .filter((line) => line.startsWith('uv '));
    expect(uvCalls).toEqual([
      expect.stringMatching(
        new RegExp(`^uv venv --python ${join(root, 'bin', 'python3')} ${home}/[0-9a-f]+$`),
      ),
      expect.stringMatching(
        new RegExp(
          `^uv pip install --python ${home}/[0-9a-f]+/bin/python -c ${join(root, 'constraints.txt')} openhands-agent-server openhands-sdk openhands-tools$`,
        ),
      ),
    ]);
    expect(pipRuns()).toBe(0);
  });

  it('lets uv get a Python where no other will do, unless one was chosen', async () => {
    withUv();
    writeFileSync(
      join(root, 'bin', 'python3'),
      `#!/bin/sh\ncase "$*" in *importlib*) exit 1 ;; esac\n`,
    );
    await install();
    expect(readFileSync(join(root, 'calls'), 'utf8')).toMatch(/^uv venv --python 3\.13 /m);
    await expect(install({}, undefined, 'python3')).rejects.toThrow('PYTHON: python3 will not do');
  });

  it('is done once: the next time nothing is run, nor said', async () => {
    const python = await install();
    const before = calls();
    lines.splice(0);
    expect(await install()).toBe(python);
    expect([calls(), lines]).toEqual([before, []]);
  });

  it.each([
    [
      'other packages are pinned',
      () =>
        writeFileSync(join(root, 'constraints.txt'), 'openhands-agent-server==1.2.3\nother==2\n'),
    ],
    ['it was never finished', () => rmSync(join(home, 'installed.json'))],
    [
      'what it is recorded by is damaged',
      () => writeFileSync(join(home, 'installed.json'), '{"environment":'),
    ],
    [
      'the Python that it needs is gone',
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
    await install({}, undefined, join(root, 'bin', 'python3'));
    await install({}, undefined, join(root, 'bin', 'python3'));
    await install();
    expect(pipRuns()).toBe(1);
    writeFileSync(join(root, 'bin', 'other'), readFileSync(join(root, 'bin', 'python3')), {
      mode: 0o755,
    });
    await install({}, undefined, join(root, 'bin', 'other'));
    expect(pipRuns()).toBe(2);
  });

  it('is done by one of two that want it at once; the other waits', async () => {
    pip(`touch "$ROOT/begun"; while [ ! -e "$ROOT/go" ]; do sleep 0.05; done`);
    const first = install();
    await eventually('the first to begin', () => existsSync(join(root, 'begun')));
    const second = install();
    await eventually('the second to wait', () =>
      lines.includes('another process is installing it; waiting for that'),
    );
    writeFileSync(join(root, 'go'), '');
    expect(await second).toBe(await first);
    expect(pipRuns()).toBe(1);
  });

  const stubborn = 'trap "" TERM INT HUP';
  it.each([
    [
      'pip',
      () => undefined,
      `${stubborn}; echo $$ > "$ROOT/pid"; sleep 60 & echo $! >> "$ROOT/pid"; while :; do wait; done`,
    ],
    [
      'uv',
      withUv,
      `${stubborn}; echo $$ > "$ROOT/pid"; sleep 60 & echo $! >> "$ROOT/pid"; while :; do wait; done`,
    ],
    [
      'a program that has left the group',
      () => undefined,
      `setsid sh -c 'echo $$ > "$ROOT/pid"; exec sleep 3'; echo never`,
    ],
  ])(
    'ends within a second when it is interrupted, though %s ignores signals, and does not count',
    async (what, prepare, script) => {
      prepare();
      pip(script);
      const ended = new AbortController();
      const refused = expect(install({}, ended.signal)).rejects.toThrow('enough');
      const leaves = what.startsWith('a program');
      const pids = await eventually('the installer to run', () => {
        const found = existsSync(join(root, 'pid'))
          ? readFileSync(join(root, 'pid'), 'utf8').trim().split('\n')
          : [];
        return found.length === (leaves ? 1 : 2) && found.map(Number);
      });
      const interrupted = performance.now();
      ended.abort(new Error('enough'));
      await refused;
      expect(performance.now() - interrupted).toBeLessThan(1000);
      const isAlive = (pid: number) =>
        existsSync(`/proc/${pid}`) &&
        !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'));
      if (!leaves) await eventually('its processes to end', () => !pids.some(isAlive));
      expect(existsSync(join(home, 'installed.json'))).toBe(false);
      const remains = readdirSync(home).filter((name) => name !== 'lock');
      pip('true');
      expect(await install()).toContain(home);
      for (const name of remains.filter((each) => each !== 'tmp'))
        expect(existsSync(join(home, name))).toBe(false);
    },
  );

  it('ends within a second when it is interrupted while a Python does not answer', async () => {
    writeFileSync(
      join(root, 'bin', 'python3'),
      `#!/bin/sh\n${stubborn}\ntouch "$ROOT/asked"\nwhile :; do sleep 60; done\n`,
    );
    const ended = new AbortController();
    const refused = expect(install({}, ended.signal)).rejects.toThrow('enough');
    await eventually('the Python to be asked', () => existsSync(join(root, 'asked')));
    const interrupted = performance.now();
    ended.abort(new Error('enough'));
    await refused;
    expect(performance.now() - interrupted).toBeLessThan(1000);
  });

  it.each([
    ['pip', () => undefined, '/bin/python'],
    ['uv', withUv, '/bin/uv'],
  ])(
    'shows the end of the output of %s that failed, and what to try by hand',
    async (_name, prepare, program) => {
      prepare();
      pip(
        'for i in 1 2 3 4 5 6 7 8 9; do echo "line $i"; done; echo "ERROR: No space left on device" >&2; exit 2',
      );
      const { message } = await install().then(
        () => new Error('was installed'),
        (error: unknown) => error as Error,
      );
      expect(message).toContain(`${program}, after:\n`);
      expect(message).toContain('  line 9\n');
      expect(message).not.toContain('line 1\n');
      expect(message).toContain('  ERROR: No space left on device');
      expect(message).toMatch(
        /Try by hand:\n {2}\S+ .*venv .*openhands-try\n {2}.* pip install (.* )?-c .*constraints.txt openhands-agent-server/,
      );
      expect(message).toMatch(/\n {2}openhands-try\/bin\/python -c 'import openhands/);
      expect(readdirSync(home)).toEqual(['lock']);
    },
  );

  it('does not count when what was installed does not run', async () => {
    await expect(install({ CHECK: '1' })).rejects.toThrow("the OpenHands agent can't be installed");
    expect(existsSync(join(home, 'installed.json'))).toBe(false);
  });

  it('shows the packages no keys, and no modules of another user', async () => {
    await install({
      LLM_API_KEY: 'sk-secret',
      PYTHONPATH: '/elsewhere',
      PIP_INDEX_URL: 'https://index.example',
    });
    const environment = readFileSync(join(root, 'environment'), 'utf8');
    expect(environment).not.toMatch(/sk-secret|PYTHONPATH/);
    expect(environment).toContain('PIP_INDEX_URL=https://index.example');
  });

  it('says when its folder can not be written', async () => {
    writeFileSync(join(root, 'agents'), '');
    await expect(install()).rejects.toThrow(/can't be installed in .*: (ENOTDIR|EEXIST)/);
  });
});
