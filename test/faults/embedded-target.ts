import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import type { Target } from './target.ts';

const program = fileURLToPath(new URL('./embedded-process.ts', import.meta.url));
const token = 'a-token';

/**
 * The embedded API server in a process of its own, with its state in a file, so that it can be
 * killed.
 */
export async function startEmbeddedTarget(): Promise<Target> {
  const folder = mkdtempSync(join(tmpdir(), 'faults-'));
  let port = 0;
  let child: ChildProcess | undefined;
  const start = async (): Promise<void> => {
    child = spawn(
      process.execPath,
      [
        '--disable-warning=ExperimentalWarning',
        program,
        join(folder, 'state.db'),
        String(port),
        token,
      ],
      { stdio: ['ignore', 'pipe', 'inherit'] },
    );
    const { stdout } = child;
    if (stdout === null) throw new Error('the API server has no output');
    const [line] = (await Promise.race([
      once(createInterface(stdout), 'line'),
      once(child, 'exit'),
    ])) as [unknown];
    if (typeof line !== 'string') throw new Error('the API server did not start');
    port = Number(line);
  };
  const kill = async (): Promise<void> => {
    if (child?.exitCode !== null || child.signalCode !== null) return;
    const ended = once(child, 'exit');
    child.kill('SIGKILL');
    await ended;
  };
  await start();
  return {
    name: 'the embedded API server',
    connection: { server: `http://127.0.0.1:${port}`, token },
    restarts: {
      'api-server': async () => {
        await kill();
        await start();
      },
    },
    close: async () => {
      await kill();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
