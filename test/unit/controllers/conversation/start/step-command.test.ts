import { randomUUID } from 'node:crypto';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import {
  existsSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  reportCommand,
  reportOf,
  startCommand,
  stepTimedOut,
  type SandboxStep,
  type StepReport,
} from '../../../../../src/controllers/conversation/start/step-command.ts';

let cwd: string;
beforeEach(() => (cwd = mkdtempSync(join(tmpdir(), 'step-'))));
afterEach(() => rmSync(cwd, { recursive: true, force: true }));

const aStep = (script: string, more: Partial<SandboxStep> = {}): SandboxStep => ({
  name: 'setup',
  // Another run of this test on the machine has other steps.
  id: randomUUID(),
  script,
  timeoutSeconds: 20,
  ...more,
});

async function sh(command: string): Promise<StepReport> {
  const child = spawn('/bin/sh', ['-c', command], { cwd, stdio: ['ignore', 'pipe', 'inherit'] });
  let stdout = '';
  child.stdout.on('data', (chunk: Buffer) => (stdout += chunk.toString()));
  const [exitCode] = (await once(child, 'close')) as [number];
  const report = reportOf({ exitCode, stdout });
  if (report === undefined) throw new Error(`no report: ${exitCode} ${stdout}`);
  return report;
}
const start = (step: SandboxStep, waitSeconds = 0) => sh(startCommand(step, waitSeconds));
const check = (step: SandboxStep, waitSeconds = 0) => sh(reportCommand(step, waitSeconds));
/** Runs a step to its end, with the commands of the operator. */
async function finish(step: SandboxStep): Promise<StepReport> {
  let report = await start(step, 1);
  for (let asked = 0; asked < 120 && !['done', 'exhausted'].includes(report.state); asked += 1)
    report = report.state === 'running' ? await check(step, 1) : await start(step, 1);
  return report;
}
const processesOf = (id: string) =>
  spawnSync('grep', [
    '-lsa',
    `CO_STEP=${id}`,
    ...readdirSync('/proc')
      .filter((each) => /^\d+$/.test(each))
      .map((each) => `/proc/${each}/environ`),
  ]).stdout.toString();

describe('a step', () => {
  it('says where it ran, how it ended, and what it has printed', async () => {
    expect(await finish(aStep('echo out; echo err >&2; exit 7'))).toEqual({
      state: 'done',
      exitCode: 7,
      folder: cwd,
      output: 'out\nerr\n',
    });
  });

  it('runs once, however many begin it at once and again', async () => {
    const step = aStep('echo ran >>ran; sleep 0.5');
    await Promise.all([start(step), start(step), start(step)]);
    await finish(step);
    await start(step);
    expect(readFileSync(join(cwd, 'ran'), 'utf8')).toBe('ran\n');
  });

  it('reports nothing of a step that was never begun, and begins nothing', async () => {
    expect(await check(aStep('touch ran'))).toMatchObject({ state: 'none', output: '' });
    expect(existsSync(join(cwd, 'ran'))).toBe(false);
  });

  it('continues when the call that has begun it is interrupted, and shows its progress', async () => {
    const step = aStep('echo one; while ! [ -e go ]; do sleep 0.1; done; echo two');
    const call = spawn('/bin/sh', ['-c', startCommand(step, 30)], {
      cwd,
      stdio: 'ignore',
      detached: true,
    });
    let report = await check(step);
    while (report.output !== 'one\n') report = await check(step);
    process.kill(-(call.pid ?? 0), 'SIGKILL');
    expect(await check(step)).toMatchObject({ state: 'running', output: 'one\n' });
    writeFileSync(join(cwd, 'go'), '');
    expect(await finish(step)).toMatchObject({ state: 'done', exitCode: 0, output: 'one\ntwo\n' });
  });

  it('begins also while other calls check it all the time', async () => {
    const step = aStep('echo ran >>ran');
    let isOver = false;
    const looker = async () => {
      while (!isOver) await check(step);
    };
    const lookers = [looker(), looker(), looker()];
    expect(await start(step, 100)).toMatchObject({ state: 'done', output: '' });
    isOver = true;
    await Promise.all(lookers);
    expect(readFileSync(join(cwd, 'ran'), 'utf8')).toBe('ran\n');
  });

  it('waits for that of another, and then runs', async () => {
    const first = aStep('while ! [ -e go ]; do sleep 0.1; done');
    const second = aStep('echo second');
    await start(first);
    expect(await start(second)).toMatchObject({ state: 'running', output: '' });
    writeFileSync(join(cwd, 'go'), '');
    expect(await finish(second)).toMatchObject({ state: 'done', output: 'second\n' });
  });
});

describe('a hostile script', () => {
  it.each<[string, string, Partial<StepReport>]>([
    ['never ends', 'sleep 1000', { exitCode: stepTimedOut }],
    [
      'does not let itself be ended',
      "trap '' TERM INT HUP; while :; do sleep 1000; done",
      { exitCode: stepTimedOut },
    ],
    ['waits for a terminal', 'read -r answer </dev/tty || exit 9', { exitCode: 9 }],
    ['waits for an answer', 'read -r answer || exit 8', { exitCode: 8 }],
    [
      'leaves something behind in its group',
      '(sleep 1000 &) ; echo gone',
      { exitCode: 0, output: 'gone\n' },
    ],
    ['forks away and hangs', 'setsid sleep 1000 & sleep 1000', { exitCode: stepTimedOut }],
    ['kills what watches its time', 'kill -9 $PPID; sleep 1000', { exitCode: 137 }],
    ['kills itself', 'kill -9 $$', { exitCode: 137 }],
    ['closes everything', 'exec 0<&- 1>&- 2>&-; exit 6', { exitCode: 6 }],
  ])(
    'that %s comes to an end within its time, and leaves no process',
    async (_sentence, script, expected) => {
      // Only those that have to miss it have a short time.
      const timeoutSeconds = expected.exitCode === stepTimedOut ? 2 : 100;
      const step = aStep(script, { timeoutSeconds });
      expect(await finish(step)).toMatchObject({ state: 'done', ...expected });
      expect(processesOf(step.id)).toBe('');
    },
  );

  it('that kills what runs it is not run for ever', async () => {
    const step = aStep('echo ran >>ran; kill -9 $(ps -o ppid= -p $PPID); sleep 1000', {
      timeoutSeconds: 5,
    });
    expect(await finish(step)).toMatchObject({ state: 'exhausted' });
    expect(readFileSync(join(cwd, 'ran'), 'utf8')).toBe('ran\n'.repeat(3));
    spawnSync('/bin/sh', [
      '-c',
      `for each in /proc/[0-9]*; do grep -qsa "CO_STEP=${step.id}" "$each/environ" && kill -9 "\${each#/proc/}"; done`,
    ]);
  });

  it('that prints without end takes no more than some MiB, and its last words are kept', async () => {
    const step = aStep("head -c 67108864 /dev/zero | tr '\\0' x; echo; echo last words", {
      timeoutSeconds: 100,
    });
    const report = await finish(step);
    expect(report).toMatchObject({ state: 'done', exitCode: 0 });
    expect(report.output).toHaveLength(8192);
    expect(report.output.endsWith('x\nlast words\n')).toBe(true);
    const state = join(cwd, '.agent', 'steps', 'setup');
    const bytes = readdirSync(state).reduce(
      (sum, name) => sum + statSync(join(state, name)).size,
      0,
    );
    expect(bytes).toBeLessThan(5 * 1024 * 1024);
  });
});

it('is not taken for a report what is none', () => {
  for (const stdout of [
    '',
    'step',
    'step done 0',
    'step odd 0 /w\n',
    'step done x /w\n',
    'done\nstep done 0 /w\n',
  ])
    expect(reportOf({ exitCode: 0, stdout })).toBeUndefined();
  expect(reportOf({ exitCode: 1, stdout: 'step done 0 /w\n' })).toBeUndefined();
});
