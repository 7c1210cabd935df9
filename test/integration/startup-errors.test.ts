import { spawn } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Installation, program } from '../support/installation.ts';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'conversation-operator-errors-'));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

/** Runs the program to its end; only for what is expected to fail. */
const fails = (args: readonly string[], env: Record<string, string>) =>
  new Promise<{ code: number | null; stderr: string; stdout: string }>((resolve) => {
    const child = spawn(process.execPath, [program, ...args], {
      env: {
        PATH: process.env['PATH'],
        LOG_LEVEL: 'error',
        PORT: '0',
        DATA_DIR: join(folder, 'data'),
        ...env,
      },
    });
    let stderr = '';
    let stdout = '';
    child.stderr.on('data', (chunk: Buffer) => (stderr += chunk.toString()));
    child.stdout.on('data', (chunk: Buffer) => (stdout += chunk.toString()));
    child.on('close', (code) => resolve({ code, stderr, stdout }));
  });

const oneLine = ({ stderr }: { stderr: string }) => {
  const lines = stderr.trim().split('\n');
  expect(lines).toHaveLength(1);
  return lines[0];
};

it('names the port that is in use', async () => {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  const result = await fails(['up'], { PORT: String(port) });
  server.close();
  expect(result.code).toBe(1);
  expect(oneLine(result)).toContain(String(port));
});

it.each([
  ['a file', 'is not a folder'],
  ['below a file', 'is not a folder'],
])('names a DATA_DIR that is %s', async (kind, problem) => {
  const file = join(folder, 'file');
  writeFileSync(file, '');
  const result = await fails(['up'], { DATA_DIR: kind === 'a file' ? file : join(file, 'data') });
  expect(result.code).toBe(1);
  expect(oneLine(result)).toMatch(new RegExp(`DATA_DIR: .*${problem}`));
});

it('names a DATA_DIR whose state is damaged, and leaves it as it is', async () => {
  writeFileSync(
    join(folder, 'state.db'),
    'this is no database, but long enough to be read as one '.repeat(20),
  );
  const result = await fails(['up'], { DATA_DIR: folder });
  expect(result.code).toBe(1);
  expect(oneLine(result)).toContain('DATA_DIR');
});

it('removes no volumes when the state that knows them is missing', async () => {
  const volume = join(folder, 'node', 'volumes', 'b21ef152-572e-4feb-bf9b-c461ddebc76a');
  mkdirSync(volume, { recursive: true });
  const result = await fails(['up'], { DATA_DIR: folder });
  expect(result.code).toBe(1);
  expect(oneLine(result)).toMatch(/DATA_DIR: .*state\.db is missing, but .*volumes holds files/);
  expect(existsSync(volume)).toBe(true);
});

it('refuses a second one on the same DATA_DIR, and the first one continues', async () => {
  const first = await Installation.start({ dataDir: folder });
  try {
    const result = await fails(['up'], { DATA_DIR: folder });
    expect(result.code).toBe(1);
    expect(oneLine(result)).toContain('in use by another process');
    expect((await first.call('GET', '/api/v1/sandboxes/search')).status).toBe(200);
  } finally {
    await first.stop();
  }
});

it.each([
  [{ PORT: '70000' }, 'PORT'],
  [{ PORT: 'x' }, 'PORT'],
  [{ GIT_HOSTS: '{' }, 'GIT_HOSTS'],
  [{ LOG_LEVEL: 'loud' }, 'LOG_LEVEL'],
])('names a setting that is wrong: %j', async (env, name) => {
  const result = await fails(['up'], env);
  expect(result.code).toBe(1);
  expect(oneLine(result)).toContain(`${name}: `);
});

it('names a file of identity providers that is wrong, before anything runs', async () => {
  const file = join(folder, 'sign-in.yaml');
  writeFileSync(file, 'gateway: {}');
  const result = await fails(['up'], { SIGN_IN_FILE: file });
  expect(result.code).toBe(1);
  expect(result.stderr).toContain(`SIGN_IN_FILE: ${file}: Unrecognized key: "gateway"`);
  expect(result.stdout + result.stderr).not.toContain('The node accepts pods');
});

it('says in one line that there is no cluster', async () => {
  const result = await fails(['keys', 'list', '--kubeconfig', join(folder, 'none')], {});
  expect(result.code).toBe(1);
  expect(oneLine(result)).toContain('none');
});

it('says how to get uv when the OpenHands agent is to be installed without it', async () => {
  const result = await fails(['up'], { AGENT: 'openhands', PATH: folder, HOME: folder });
  expect(result.code).toBe(1);
  expect(oneLine(result)).toContain('pip install uv');
});

it('ends when it is interrupted while the agent is installed, whatever the installer ignores', async () => {
  // A virtual environment that is never made. Without a child that would outlive the script.
  const script = "trap '' TERM INT; echo installing; while :; do :; done";
  writeFileSync(join(folder, 'uv'), `#!/bin/sh\n${script}\n`, { mode: 0o755 });
  const child = spawn(process.execPath, [program, 'up'], {
    env: {
      PATH: folder,
      HOME: folder,
      AGENT: 'openhands',
      PORT: '0',
      DATA_DIR: join(folder, 'data'),
    },
  });
  let stderr = '';
  let interrupted = false;
  child.stderr.on('data', (chunk: Buffer) => {
    stderr += chunk.toString();
    // Once: a second one means "at once", and one that meets a process at its end kills it.
    if (interrupted || !stderr.includes('installing')) return;
    interrupted = child.kill('SIGINT');
  });
  const code = await new Promise((resolve) => child.once('close', resolve));
  expect(code).toBe(1);
  expect(stderr).toContain('stopped before the agent was installed; the next start does it');
});
