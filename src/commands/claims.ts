import { humanDuration } from '@conversation-operator/kube/human-duration';
import type { KubeClient } from '@conversation-operator/kube/client';
import { isConflict, isNotFound } from '@conversation-operator/kube/errors';
import { persistentVolumeClaims, pods } from '@conversation-operator/kube/core';
import { managedBySelector, sandboxes } from '../resources/sandbox.ts';
import { isPrunable, listed, type ListedClaim } from './claim-state.ts';
import { withClient, type ClusterOptions } from './cluster-client.ts';
import { CommandError } from './command-error.ts';
import { textTable } from './text-table.ts';

export interface PruneOptions extends ClusterOptions {
  /** Without it nothing is deleted. */
  readonly delete?: boolean;
  readonly retained?: boolean;
  readonly owner?: string;
  /** A duration like 12h or 30d. */
  readonly olderThan: string;
}

const head = ['CLAIM', 'STATE', 'OWNER', 'CONVERSATION', 'SIZE', 'AGE'];
const rowOf = (each: ListedClaim): readonly string[] => [
  each.claim.metadata.name,
  each.state,
  each.owner,
  each.conversation,
  each.size,
  humanDuration(each.ageMs),
];

/** Every claim of the operator in a namespace, by name. */
async function claimsOf(client: KubeClient, namespace: string): Promise<readonly ListedClaim[]> {
  // Claims first: a sandbox is made before its claim, so none of these lacks a sandbox that comes
  // later.
  const { items } = await client.list(persistentVolumeClaims, {
    namespace,
    labelSelector: managedBySelector,
  });
  const facts = {
    sandboxes: (await client.list(sandboxes, { namespace })).items,
    pods: (await client.list(pods, { namespace })).items,
  };
  return items
    .map((claim) => listed({ claim, ...facts }, Date.now()))
    .sort((one, other) => (one.claim.metadata.name < other.claim.metadata.name ? -1 : 1));
}

export async function listClaims(options: ClusterOptions): Promise<void> {
  const found = await withClient(options, claimsOf);
  if (found.length === 0) process.stderr.write('There are no claims.\n');
  else process.stdout.write(`${textTable([head, ...found.map(rowOf)])}\n`);
}

const unitsMs: Readonly<Record<string, number>> = {
  s: 1_000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
};

function agedMs(text: string): number {
  const [, count, unit = ''] = /^(\d+)([smhd])$/.exec(text) ?? [];
  const unitMs = unitsMs[unit];
  if (unitMs === undefined)
    throw new CommandError(`--older-than: ${text} is not a time like 12h or 30d`);
  return Number(count) * unitMs;
}

/**
 * Deletes a claim, as it was listed, unless it has got a sandbox since. Returns what became of it.
 */
async function prune(
  client: KubeClient,
  { claim }: ListedClaim,
): Promise<'deleted' | 'gone' | 'changed'> {
  const { namespace = '', name, uid, resourceVersion } = claim.metadata;
  try {
    await client.get(sandboxes, namespace, name);
    return 'changed';
  } catch (error) {
    if (!isNotFound(error)) throw error;
  }
  try {
    await client.delete(persistentVolumeClaims, namespace, name, { uid, resourceVersion });
    return 'deleted';
  } catch (error) {
    if (isNotFound(error)) return 'gone';
    if (isConflict(error)) return 'changed';
    throw error;
  }
}

/**
 * Shows the claims that no sandbox uses; with `--delete` the command deletes them, and their files.
 */
export async function pruneClaims(
  names: readonly string[],
  { olderThan, owner, ...options }: PruneOptions,
): Promise<void> {
  const selection = {
    names,
    owner,
    retained: options.retained === true,
    olderThanMs: agedMs(olderThan),
  };
  await withClient(options, async (client, namespace) => {
    const all = await claimsOf(client, namespace);
    const unknown = names.filter((name) => !all.some(({ claim }) => claim.metadata.name === name));
    if (unknown.length > 0)
      throw new CommandError(
        `there is no claim ${unknown.join(', ')} of a sandbox in namespace ${namespace}`,
      );
    const chosen = all.filter((each) => isPrunable(each, selection));
    if (chosen.length === 0) {
      process.stderr.write('No claim is to be deleted.\n');
      return;
    }
    if (options.delete !== true) {
      process.stdout.write(`${textTable([head, ...chosen.map(rowOf)])}\n`);
      process.stderr.write(
        `Nothing was deleted. With --delete, ${chosen.length === 1 ? 'this claim' : `these ${chosen.length} claims`} and the files on them are.\n`,
      );
      return;
    }
    const rows = [];
    for (const each of chosen) rows.push([...rowOf(each), await prune(client, each)]);
    process.stdout.write(`${textTable([[...head, 'RESULT'], ...rows])}\n`);
  });
}
