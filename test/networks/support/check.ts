import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { apply, kubeconfig, kubectl } from '../../e2e/support/cluster.ts';
import { agentImage } from '../../e2e/support/installation.ts';
import { kubectlPath } from '../../support/kubectl.ts';
import { privateAuthority } from '../../support/private-authority.ts';

const execute = promisify(execFile);
const program = fileURLToPath(new URL('../../../src/main.ts', import.meta.url));
const namespace = 'checked';

export interface Finding {
  readonly code: string;
  readonly cause: string;
  readonly remedy: string;
}

interface Report {
  readonly checks: readonly {
    readonly name: string;
    readonly findings: readonly Finding[];
    readonly notTried: readonly string[];
  }[];
}

/** Makes the namespace that the check tries; returns what removes it. */
export async function startChecked(): Promise<() => Promise<void>> {
  const labels = { 'pod-security.kubernetes.io/enforce': 'restricted' };
  await apply({ apiVersion: 'v1', kind: 'Namespace', metadata: { name: namespace, labels } });
  return async () => {
    await kubectl(`delete namespace ${namespace} --timeout 60s`);
  };
}

/**
 * Findings of `conversation-operator check --pre` by their checks, and what was not tried. The pods
 * of volume and images would delay those of trust and network-policy.
 */
export async function check() {
  const { repository, tag } = agentImage();
  const images = ['--image', `${repository}:${tag}`, '--agent-image', `${repository}:${tag}`];
  const child = execute(
    process.execPath,
    [
      ...[program, 'check', '--pre', '--namespace', namespace, '--output', 'json', ...images],
      ...['--skip', 'volume,images'],
    ],
    {
      env: {
        PATH: process.env['PATH'],
        KUBECONFIG: kubeconfig,
        GIT_HOSTS: '{}',
        SANDBOX_TRUST_CONFIG_MAP: 'company-ca',
      },
    },
  );
  const { stdout } = await child.catch((error: unknown) => error as { stdout: string });
  const { checks } = JSON.parse(stdout) as Report;
  return {
    findings: new Map(
      checks.flatMap(({ name, findings }) => findings.map((finding) => [name, finding] as const)),
    ),
    notTried: checks.flatMap(({ name, notTried }) => notTried.map((why) => `${name}: ${why}`)),
  };
}

/** Runs the command that creates a missing ConfigMap, in a folder with the file that it names. */
export async function remedy(line: string): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'check-'));
  try {
    writeFileSync(join(folder, 'company-ca.pem'), privateAuthority(['git.example.test']).ca);
    await execute('/bin/sh', ['-c', line], {
      cwd: folder,
      env: { PATH: `${dirname(kubectlPath())}:/usr/bin:/bin`, KUBECONFIG: kubeconfig },
    });
  } finally {
    rmSync(folder, { recursive: true });
  }
}
