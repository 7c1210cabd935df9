import { spawnSync } from 'node:child_process';
import { processFile } from '../../support/process-file.ts';
import type { Agents } from './agents.ts';

const kinds =
  'conversations,sandboxes,sandboxtemplates,conversationquotas,ownersettings,pods,pvc,events';

/** By path, the arguments and environments of sandboxes' processes, which every user can read. */
export const processTexts = ({ up }: Agents): ReadonlyMap<string, string> =>
  new Map(
    up
      .agentProcesses()
      .flatMap((pid) =>
        ['cmdline', 'environ'].map((name) => [`/proc/${pid}/${name}`, processFile(pid, name)]),
      ),
  );

/** The log of a pod; empty when the pod has ended meanwhile. */
async function logOf(agents: Agents, pod: string): Promise<string> {
  try {
    return await agents.k('logs', pod);
  } catch (error) {
    if (String(error).includes('NotFound')) return '';
    throw error;
  }
}

/** Where a secret is found: in resources, logs, files, volumes, and processes of sandboxes. */
export async function tracesOf(agents: Agents, secret: string): Promise<readonly string[]> {
  const pods = (await agents.k('get', 'pods', '-o', 'name'))
    .split('\n')
    .filter((name) => name !== '');
  const logs = await Promise.all(
    pods.map(async (pod): Promise<[string, string]> => [
      `the log of ${pod}`,
      await logOf(agents, pod),
    ]),
  );
  const texts: [string, string][] = [
    ['a resource', await agents.k('get', kinds, '-o', 'json')],
    ['the log', agents.up.output],
    ...logs,
    ...processTexts(agents),
  ];
  const files = spawnSync('grep', ['-rlaF', secret, agents.up.dataDir], { encoding: 'utf8' });
  // The status 2 is for files that disappeared during the search.
  if (files.status === null) throw files.error ?? new Error('grep was ended');
  return [
    ...texts.filter(([, text]) => text.includes(secret)).map(([where]) => where),
    ...files.stdout.split('\n').filter((path) => path !== ''),
  ];
}
