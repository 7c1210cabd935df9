import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { RunningApiServer } from './api-server.ts';
import { program } from './installation.ts';

export interface BuiltProgram {
  readonly process: ChildProcess;
  readonly log: () => string;
  /** Sends SIGTERM; resolves with the exit code. */
  readonly stop: () => Promise<{ readonly code: unknown }>;
}

/**
 * A command of the built program with an API server and a master key, and settings that may replace
 * these. Killed with the stack.
 */
export function runBuilt(
  command: 'operator' | 'gateway' | 'relay',
  {
    api,
    stack,
    env,
  }: {
    readonly api: RunningApiServer;
    readonly stack: AsyncDisposableStack;
    readonly env: Readonly<Record<string, string>>;
  },
): BuiltProgram {
  const masterKey = join(api.folder, 'master-key');
  writeFileSync(masterKey, 'k'.repeat(32));
  const child = spawn(process.execPath, [program, command], {
    env: {
      PATH: process.env['PATH'],
      HOME: api.folder,
      KUBECONFIG: api.kubeconfig,
      MASTER_KEY_FILES: masterKey,
      METRICS_PORT: '0',
      HEALTH_PORT: '0',
      HOST: '127.0.0.1',
      PORT: '0',
      LOG_FORMAT: 'json',
      ...env,
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let log = '';
  for (const stream of [child.stdout, child.stderr])
    stream.on('data', (chunk: Buffer) => (log += chunk.toString()));
  const exited = once(child, 'exit');
  stack.defer(async () => {
    child.kill('SIGKILL');
    await exited;
  });
  return {
    process: child,
    log: () => log,
    stop: async () => {
      child.kill('SIGTERM');
      const [code] = (await exited) as [unknown];
      return { code };
    },
  };
}
