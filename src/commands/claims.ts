import { humanDuration, isOwnedBy } from '@conversation-operator/kube/object';
import type { KubeClient } from '@conversation-operator/kube/client';
import { found, isConflict, isNotFound } from '@conversation-operator/kube/errors';
import {
  persistentVolumeClaims,
  pods,
  type PersistentVolumeClaim,
  type Pod,
} from '@conversation-operator/kube/core';
import {
  managedBySelector,
  sandboxes,
  ownerAnnotation,
  type Sandbox,
} from '../resources/sandbox.ts';
import { withClient, type ClusterOptions } from './process.ts';
import { CommandError, textTable } from './terminal.ts';
import { conversationAnnotation, retainedLabel } from '../controllers/sandbox/claim.ts';

type ClaimState =
  /** The sandbox of the claim exists. */
  | 'in-use'
  /** Another pod mounts the claim, for example to copy its files. */
  | 'mounted'
  /** The sandbox does not exist, and its template has retained the claim. */
  | 'retained'
  /** The sandbox does not exist, and no label retains the claim. */
  | 'orphaned'
  | 'deleting';

export interface ClaimFacts {
  readonly claim: PersistentVolumeClaim;
  readonly sandboxes: readonly Sandbox[];
  readonly pods: readonly Pod[];
}

const hasEnded = ({ status }: Pod): boolean =>
  status?.phase === 'Succeeded' || status?.phase === 'Failed';
const mounts = ({ spec }: Pod, claimName: string): boolean =>
  spec?.volumes?.some(
    ({ persistentVolumeClaim }) => persistentVolumeClaim?.claimName === claimName,
  ) === true;

/** State of a claim according to the sandboxes and pods of its namespace. Pure function. */
export function claimStateOf({ claim, sandboxes, pods }: ClaimFacts): ClaimState {
  const { name, deletionTimestamp, labels } = claim.metadata;
  if (deletionTimestamp !== undefined) return 'deleting';
  // A new sandbox with the name of a retained claim uses this claim.
  if (sandboxes.some((sandbox) => sandbox.metadata.name === name || isOwnedBy(claim, sandbox)))
    return 'in-use';
  if (pods.some((pod) => !hasEnded(pod) && mounts(pod, name))) return 'mounted';
  return labels?.[retainedLabel] === 'true' ? 'retained' : 'orphaned';
}

interface ListedClaim {
  readonly claim: PersistentVolumeClaim;
  readonly state: ClaimState;
  readonly owner: string;
  /** Empty if the sandbox was created for no conversation. */
  readonly conversation: string;
  readonly size: string;
  readonly ageMs: number;
}

export function listed(facts: ClaimFacts, nowMs: number): ListedClaim {
  const { metadata, spec } = facts.claim;
  return {
    claim: facts.claim,
    state: claimStateOf(facts),
    owner: metadata.annotations?.[ownerAnnotation] ?? '',
    conversation: metadata.annotations?.[conversationAnnotation] ?? '',
    size: spec?.resources?.requests?.['storage'] ?? '',
    ageMs: nowMs - Date.parse(metadata.creationTimestamp),
  };
}

export interface PruneSelection {
  /** Names of claims. Empty: all claims. */
  readonly names: readonly string[];
  readonly owner?: string | undefined;
  /** Whether to include retained claims as well as orphaned ones. */
  readonly retained: boolean;
  readonly olderThanMs: number;
}

/** Whether the selection includes a claim, and its state allows deletion. Pure. */
export const isPrunable = (
  { claim, state, owner, ageMs }: ListedClaim,
  selection: PruneSelection,
): boolean =>
  (state === 'orphaned' || (selection.retained && state === 'retained')) &&
  ageMs >= selection.olderThanMs &&
  (selection.owner === undefined || selection.owner === owner) &&
  (selection.names.length === 0 || selection.names.includes(claim.metadata.name));

export interface PruneOptions extends ClusterOptions {
  /** Without this option, the command deletes nothing. */
  readonly delete?: boolean;
  readonly retained?: boolean;
  readonly owner?: string;
  /** A duration such as 12h or 30d. */
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

async function claimsOf(client: KubeClient, namespace: string): Promise<readonly ListedClaim[]> {
  // Claims are read first: a sandbox exists before its claim, so the later list contains it.
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

/** Milliseconds of the value of `--older-than`. Throws `CommandError`. */
export function agedMs(text: string): number {
  const [, count, unit = ''] = /^(\d+)([smhd])$/.exec(text) ?? [];
  const unitMs = unitsMs[unit];
  if (unitMs === undefined)
    throw new CommandError(`--older-than: ${text} is not a time like 12h or 30d`);
  return Number(count) * unitMs;
}

/** Deletes a listed claim unless a sandbox uses it now, and returns the outcome. */
async function prune(
  client: KubeClient,
  { claim }: ListedClaim,
): Promise<'deleted' | 'gone' | 'changed'> {
  const { namespace = '', name, uid, resourceVersion } = claim.metadata;
  if ((await found(client.get(sandboxes, namespace, name))) !== undefined) return 'changed';
  try {
    await client.delete(persistentVolumeClaims, namespace, name, { uid, resourceVersion });
    return 'deleted';
  } catch (error) {
    if (isNotFound(error)) return 'gone';
    if (isConflict(error)) return 'changed';
    throw error;
  }
}

/** Lists the claims that no sandbox uses. With `--delete`, deletes these claims and their files. */
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
