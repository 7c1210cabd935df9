import { existsSync, readFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import { BoundedOutput } from '../src/commands.ts';
import { Commands } from '../src/commands.ts';
import { eventually } from '../../../test/support/eventually.ts';

const commands = new Commands();
afterAll(() => commands.close());

const run = (command: string, options: object = {}) =>
  commands.run({
    command,
    cwd: '/tmp',
    env: { PATH: process.env['PATH'] ?? '' },
    timeoutMs: 60_000,
    maxOutputBytes: 10_000,
    ...options,
  });

/** A zombie is dead; not every machine's first process collects them. */
const lives = (pid: number) =>
  existsSync(`/proc/${pid}/stat`) && !readFileSync(`/proc/${pid}/stat`, 'utf8').includes(') Z ');

describe('a command', () => {
  it('gives its output and exit code', async () => {
    expect(await run('echo out; echo err >&2; exit 3')).toEqual({
      exitCode: 3,
      stdout: 'out\n',
      stderr: 'err\n',
      timedOut: false,
    });
  });

  it('gives both outputs in one when they are merged', async () => {
    expect(await run('echo out; echo err >&2', { merged: true })).toMatchObject({
      stdout: 'out\nerr\n',
      stderr: '',
    });
  });

  it('sees the environment given and no input', async () => {
    expect(
      await run('cat; env | cut -d= -f1 | grep -v -e PWD -e _ -e SHLVL | sort', {
        env: { PATH: process.env['PATH'], A: '1' },
      }),
    ).toMatchObject({ stdout: 'A\nPATH\n' });
  });

  it('ends when its time is up, with what it has printed so far', async () => {
    expect(await run('echo begun; sleep 300', { timeoutMs: 2000 })).toEqual({
      exitCode: -1,
      stdout: 'begun\n',
      stderr: '',
      timedOut: true,
    });
  });

  it('does not run in a folder that does not exist', async () => {
    expect(await run('true', { cwd: '/does/not/exist' })).toMatchObject({
      exitCode: -1,
      stderr: expect.stringContaining('/does/not/exist') as string,
    });
  });

  it('ends at once with its signal, and its children too', async () => {
    const abort = new AbortController();
    const folder = await mkdtemp(join(tmpdir(), 'commands-'));
    const running = run('sleep 30 & echo $! > new && mv new pid; wait', {
      cwd: folder,
      signal: abort.signal,
    });
    const outcome = expect(running).rejects.toBe('enough');
    while (!existsSync(join(folder, 'pid'))) await setImmediate();
    abort.abort('enough');
    await outcome;
    expect(lives(Number(readFileSync(join(folder, 'pid'), 'utf8')))).toBe(false);
    await rm(folder, { recursive: true });
  });

  it('takes what it left in the background along', async () => {
    const { stdout } = await run('sleep 30 & echo $!');
    await eventually('its end', () => !lives(Number(stdout)));
  });

  it('reports the signal that ended it', async () => {
    expect((await run('kill -KILL $$')).exitCode).toBe(137);
  });
});

describe('bounded output', () => {
  const output = (...chunks: string[]) => {
    const bounded = new BoundedOutput(10);
    for (const chunk of chunks) bounded.push(Buffer.from(chunk));
    return bounded.toString();
  };
  it.each([
    ['keeps what fits', ['hello', 'world'], 'helloworld'],
    [
      'keeps both ends of what does not',
      ['hello', 'xxx', 'world'],
      'hello\n… 3 bytes omitted …\nworld',
    ],
    ['whatever the pieces are', ['helloxxxworld'], 'hello\n… 3 bytes omitted …\nworld'],
    ['is empty for nothing', [], ''],
  ])('%s', (_name, chunks, expected) => {
    expect(output(...chunks)).toBe(expected);
  });
});
