import { readFileSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { systemCodeOf } from '@conversation-operator/base/system-code';
import type { Installation } from '../../support/installation.ts';
import { kubectl } from '../../support/kubectl.ts';
import { leaksIn, type Secrets } from '../../support/leaks.ts';

export const filesWith = (secrets: Secrets, below: string): readonly string[] =>
  readdirSync(below, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))
    .filter((file) => leaksIn(contentOf(file), secrets).length > 0);

/**
 * Texts of an installation that others can read: resources of every kind, its log, and the
 * arguments and environments of its processes and of those of its sandboxes.
 */
export async function visibleTexts(up: Installation): Promise<readonly string[]> {
  const { stdout: kinds } = await kubectl(up.kubeconfig, [
    ...['api-resources', '--verbs', 'list', '-o', 'name'],
  ]);
  const { stdout: resources } = await kubectl(up.kubeconfig, [
    ...['get', kinds.trim().split('\n').join(), '--all-namespaces', '-o', 'json'],
  ]);
  const processes = [up.pid, ...up.agentProcesses()].map((pid) =>
    ['cmdline', 'environ'].map((file) => contentOf(`/proc/${pid}/${file}`)).join(),
  );
  // A scan of too little would find nothing either.
  for (const part of ['"kind": "Pod"', 'refs/heads/agent/', '"reason": "Pushed"'])
    expect(resources).toContain(part);
  expect(up.output).toContain('"level":"debug"');
  expect(processes.some((text) => text.includes('GIT_CONFIG_SYSTEM='))).toBe(true);
  return [resources, up.output, ...processes];
}

/** Agents and the control plane may remove a file meanwhile, and processes end. */
function contentOf(file: string): string {
  try {
    return readFileSync(file, 'latin1');
  } catch (error) {
    if (['ENOENT', 'ESRCH'].includes(systemCodeOf(error) ?? '')) return '';
    throw error;
  }
}
