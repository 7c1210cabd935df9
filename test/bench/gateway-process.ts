import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { eventually } from '../support/eventually.ts';
import { program } from '../support/installation.ts';
import { namespace, type ApiServer } from './api-server.ts';
import { imageEnvironment, imageFlags } from './image.ts';

const clockTicksPerSecond = 100;

export interface GatewayProcess {
  readonly port: number;
  processorSeconds(): number;
  memoryMiB(): number;
  /** Maximum resident memory of the process so far. */
  maxMemoryMiB(): number;
  /** Number of its open files and connections. */
  openFiles(): number;
  close(): Promise<void>;
}

export const masterKey = Buffer.alloc(32, 7);

/** Limits that refuse nothing, unless a bench sets others. */
const withoutLimits = {
  RATE_LIMIT_READS: '0',
  RATE_LIMIT_WRITES: '0',
  RATE_LIMIT_FAILED_KEYS: '0',
  MAX_CONNECTIONS: '20000',
  MAX_CONNECTIONS_PER_ADDRESS: '0',
  MAX_REQUESTS: '0',
  OVERLOAD_DELAY_MS: '0',
  PROXY_CONNECTIONS_PER_SANDBOX: '5000',
};

/** Starts the built gateway as its image does. The log is dropped: no log collector is measured. */
export async function startGateway(
  { kubeconfig }: ApiServer,
  env: Readonly<Record<string, string>> = {},
  {
    memoryMiB,
    flags = [],
  }: {
    /** Memory limit of a container: Node takes half of it for its heap. */
    readonly memoryMiB?: number;
    /** Flags of Node in addition to those of the image. */
    readonly flags?: readonly string[];
  } = {},
): Promise<GatewayProcess> {
  const folder = mkdtempSync(join(tmpdir(), 'bench-gateway-'));
  const masterKeyFile = join(folder, 'master-key');
  writeFileSync(masterKeyFile, masterKey);
  const profile =
    process.env['PROFILE'] === undefined
      ? []
      : ['--cpu-prof', `--cpu-prof-dir=${process.env['PROFILE']}`];
  const heap = memoryMiB === undefined ? [] : [`--max-old-space-size=${memoryMiB / 2}`];
  const child = spawn(
    process.execPath,
    [...imageFlags, ...heap, ...flags, ...profile, program, 'gateway'],
    {
      env: {
        PATH: process.env['PATH'],
        HOME: folder,
        ...imageEnvironment,
        KUBECONFIG: kubeconfig,
        NAMESPACE: namespace,
        MASTER_KEY_FILES: masterKeyFile,
        METRICS_PORT: '0',
        HOST: '127.0.0.1',
        PORT: '0',
        LOG_FORMAT: 'json',
        ...withoutLimits,
        ...env,
      },
      stdio: ['ignore', 'ignore', 'pipe'],
    },
  );
  let output: string | undefined = '';
  child.stderr.on('data', (chunk: Buffer) => {
    if (output !== undefined) output += chunk.toString();
  });
  const port = Number(
    await eventually('the gateway listens', () => {
      if (child.exitCode !== null) throw new Error(`the gateway has ended: ${output ?? ''}`);
      return /"port":(\d+)/.exec(output ?? '')?.[1];
    }),
  );
  output = undefined;
  const url = `http://127.0.0.1:${port}`;
  await eventually('the gateway is ready', async () => (await fetch(`${url}/ready`)).ok);
  const fileOf = (name: string) => readFileSync(`/proc/${child.pid ?? 0}/${name}`, 'utf8');
  return {
    port,
    processorSeconds: () => {
      const fields = fileOf('stat').split(') ')[1]?.split(' ') ?? [];
      return (Number(fields[11]) + Number(fields[12])) / clockTicksPerSecond;
    },
    memoryMiB: () => Number(/VmRSS:\s+(\d+)/.exec(fileOf('status'))?.[1]) / 1024,
    openFiles: () => readdirSync(`/proc/${child.pid ?? 0}/fd`).length,
    maxMemoryMiB: () => Number(/VmHWM:\s+(\d+)/.exec(fileOf('status'))?.[1]) / 1024,
    close: async () => {
      const exited = once(child, 'exit');
      if (child.exitCode === null && child.kill('SIGTERM')) await exited;
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
