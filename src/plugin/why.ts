import type { KubeClient } from '@conversation-operator/kube/client';
import {
  kubeEvents,
  persistentVolumeClaims,
  pods,
  type KubeEvent,
  type PersistentVolumeClaim,
  type Pod,
} from '@conversation-operator/kube/core';
import { found, isForbidden } from '@conversation-operator/kube/errors';
import type { KubeObject, ResourceDefinition } from '@conversation-operator/kube/object';
import { timelineOf, type TimelineEntry } from '../gateway/conversations/timeline.ts';
import { storedWithSandbox } from '../gateway/lookup/stored.ts';
import { presentWholeApproval } from '../gateway/presenters/approval.ts';
import {
  sandboxViewOf,
  titleOf as titleOfConversation,
} from '../gateway/presenters/conversation.ts';
import type { QuotaRecord } from '../gateway/quota/quota-record.ts';
import { pendingApproval } from '../resources/approval.ts';
import { cachedConversation, type CachedConversation } from '../resources/cached-conversation.ts';
import type { Conversation } from '../resources/conversation.ts';
import type { Sandbox } from '../resources/sandbox.ts';
import { usageRecords } from '../resources/usage-record.ts';
import { viewOfSandbox } from '../status/sandbox-phase.ts';
import { since } from '../sentences/durations.ts';
import { titleOf, type Facts } from '../sentences/facts.ts';
import { groupOf } from '../sentences/groups.ts';
import { sentenceOf } from '../sentences/sentences.ts';
import { missingRight, withCluster, type PluginOptions } from './cluster.ts';
import { nameOf } from './list.ts';
import { named } from './names.ts';
import { claimLine, podLines } from './pod-facts.ts';
import { questionLines } from './question.ts';
import {
  aroundOf,
  factsOf,
  nextStartOf,
  quotaOf,
  readScene,
  wholeTaskOf,
  withBudgetsOf,
} from './scene.ts';
import { print, printValue } from './terminal.ts';

/** An object that was read, that does not exist, or that the person may not read. */
type Read<T> = { readonly object: T | undefined } | { readonly refused: string };

async function reading<T extends KubeObject>(
  client: KubeClient,
  resource: ResourceDefinition<T>,
  { namespace, name }: { readonly namespace: string; readonly name: string },
): Promise<Read<T>> {
  try {
    return { object: await found(client.get(resource, namespace, name)) };
  } catch (error) {
    if (!isForbidden(error)) throw error;
    return { refused: missingRight({ verb: 'get', plural: resource.plural, name }, namespace) };
  }
}

async function eventsAbout(
  client: KubeClient,
  namespace: string,
  uids: readonly (string | undefined)[],
): Promise<readonly KubeEvent[] | { readonly refused: string }> {
  try {
    const lists = await Promise.all(
      uids
        .filter((uid) => uid !== undefined)
        .map((uid) =>
          client.list(kubeEvents, { namespace, fieldSelector: `involvedObject.uid=${uid}` }),
        ),
    );
    return lists.flatMap(({ items }) => items);
  } catch (error) {
    if (!isForbidden(error)) throw error;
    return {
      refused: missingRight(
        { verb: 'list', plural: kubeEvents.plural, name: undefined },
        namespace,
      ),
    };
  }
}

export interface Explanation {
  readonly name: string;
  readonly namespace: string;
  readonly facts: Facts;
  readonly sentence: string;
  readonly sandbox: Sandbox | undefined;
  readonly pod: Read<Pod>;
  readonly claim: Read<PersistentVolumeClaim>;
  readonly quota: QuotaRecord;
  /** Titles of the conversations that wait for a slot before this one. */
  readonly before: readonly string[];
  readonly forecast: string;
  readonly question: readonly string[];
  readonly timeline: readonly TimelineEntry[];
  /** The right that is missing for the Events of the cluster. */
  readonly eventsRefused: string | undefined;
  readonly unread: readonly string[];
}

/** Reads everything that explains the state of a conversation. */
export async function explain(
  client: KubeClient,
  namespace: string,
  text: string,
): Promise<Explanation> {
  const all = await readScene(client, namespace);
  const known = named(all, text);
  const { conversation: stored, sandbox } = await storedWithSandbox(client, known);
  const conversation = cachedConversation(stored);
  const { owner } = conversation.spec;
  const scene = await withBudgetsOf(all, owner);
  const facts = { ...factsOf(scene, conversation), task: wholeTaskOf(stored) };
  const quota = quotaOf(scene, owner);
  const place = { namespace, name: sandbox?.metadata.name ?? '' };
  const [pod, claim] =
    sandbox === undefined
      ? [{ object: undefined }, { object: undefined }]
      : await Promise.all([
          reading(client, pods, { ...place, name: sandbox.status?.podName ?? place.name }),
          reading(client, persistentVolumeClaims, place),
        ]);
  const podUid = 'object' in pod ? pod.object?.metadata.uid : undefined;
  const claimUid = 'object' in claim ? claim.object?.metadata.uid : undefined;
  const events = await eventsAbout(client, namespace, [
    ...[stored.metadata.uid, sandbox?.metadata.uid],
    ...[podUid, claimUid],
  ]);
  const isRefused = 'refused' in events;
  const position = quota.queue.indexOf(place.name);
  return {
    name: stored.metadata.name,
    namespace,
    facts,
    sentence: sentenceOf(facts, aroundOf(scene, owner)),
    sandbox,
    pod,
    claim,
    quota,
    before: quota.queue
      .slice(0, Math.max(0, position))
      .map((name) => titleOfSandbox(scene.lookup.conversationsNaming(name), name)),
    forecast: nextStartOf(scene, owner),
    question: questionOf(stored, sandbox),
    timeline: timelineOf({
      conversation,
      sandbox,
      steps: stored.status?.start?.steps ?? [],
      events: isRefused ? [] : events,
    }),
    eventsRefused: isRefused ? events.refused : undefined,
    unread: scene.unread,
  };
}

const titleOfSandbox = (inside: readonly CachedConversation[], name: string): string => {
  const [first] = inside;
  return first === undefined ? `sandbox ${name}` : `“${titleOfConversation(first)}”`;
};

function questionOf(stored: Conversation, sandbox: Sandbox | undefined): readonly string[] {
  const pending = pendingApproval(stored);
  if (pending === undefined) return [];
  const cached = cachedConversation(stored);
  const { phase } = sandboxViewOf(stored, sandbox);
  return [
    ...questionLines(presentWholeApproval(cached, pending, phase)),
    `Answer with: kubectl conversations approve ${stored.metadata.name}, or reject`,
  ];
}

/** Maximum entries of the timeline; a line says how many are left out. */
const maxEntries = 12;

const section = (name: string, lines: readonly string[]): readonly string[] =>
  lines.map((line, index) => `${(index === 0 ? name : '').padEnd(9)} ${line}`);

const readLines = <T>(
  read: Read<T>,
  none: string,
  lines: (object: T) => readonly string[],
): readonly string[] =>
  'refused' in read
    ? [`Not shown: you may not ${read.refused}.`]
    : read.object === undefined
      ? [none]
      : lines(read.object);

function sandboxLines({ sandbox }: Explanation): readonly string[] {
  if (sandbox === undefined) return ['There is none.'];
  const { phase, reason, message } = viewOfSandbox(sandbox);
  return [
    `${sandbox.metadata.name}: ${phase} (${reason}), template ${sandbox.spec.templateName}.`,
    ...(message === '' ? [] : [message]),
  ];
}

function quotaLines({ quota, before, forecast, unread }: Explanation): readonly string[] {
  if (unread.includes('conversationquotas'))
    return ['Not shown: you may not list conversationquotas.'];
  return [
    ...quota.quotas.map(
      ({ name, scope, active, limit }) =>
        `${name}: ${active} of ${limit} active${scope === 'Owner' ? ' of this owner' : ' of all owners'}.`,
    ),
    ...(before.length === 0 ? [] : [`Before this one: ${before.join(', ')}.`]),
    `One more start: ${forecast}`,
  ];
}

function startLines({ facts: { task } }: Explanation, now: number): readonly string[] {
  if (task === undefined) return [];
  const failed = task.failed_status === null ? '' : ` (in ${task.failed_status})`;
  const steps = task.steps.map(
    ({ name, state, exit_code: code }) =>
      `Step ${name}: ${state}${code === null || code === 0 ? '' : `, exit code ${code}`}.`,
  );
  return [
    `${task.status}${failed}, for ${since(task.updated_at, now)}.`,
    ...(task.detail === null ? [] : [task.detail]),
    ...steps,
  ];
}

const timelineLines = ({ timeline, eventsRefused }: Explanation): readonly string[] => {
  const shown = timeline.slice(-maxEntries);
  const more = timeline.length - shown.length;
  return [
    ...(eventsRefused === undefined ? [] : [`Events are not shown: you may not ${eventsRefused}.`]),
    ...(more === 0 ? [] : [`… ${more} earlier entries: kubectl conversations events`]),
    ...shown.map(timelineLine),
  ];
};

export const timelineLine = ({ time, reason, message, is_warning, count }: TimelineEntry): string =>
  `${time.slice(0, 19)}Z ${is_warning ? '! ' : ''}${reason}: ${message}${count > 1 ? ` (${count} times)` : ''}`;

/** The explanation as lines for people. Pure. */
export function explanationLines(explanation: Explanation, now: number): readonly string[] {
  const { name, namespace, facts, sentence, question } = explanation;
  const owner = facts.conversation?.created_by_user_id ?? '';
  return [
    `“${titleOf(facts)}” (${name}, namespace ${namespace}, owner ${owner})`,
    '',
    sentence,
    '',
    ...section('Start', startLines(explanation, now)),
    ...section('Sandbox', sandboxLines(explanation)),
    ...section('Pod', readLines(explanation.pod, 'There is none.', podLines)),
    ...section(
      'Claim',
      readLines(explanation.claim, 'There is none.', (claim) => [claimLine(claim)]),
    ),
    ...section('Quota', quotaLines(explanation)),
    ...section('Question', question),
    ...section('Events', timelineLines(explanation)),
  ];
}

const valueOf = (explanation: Explanation) => {
  const { facts, pod, claim, eventsRefused, unread, ...rest } = explanation;
  return {
    ...rest,
    state: groupOf(facts),
    record: facts.conversation,
    start: facts.task,
    sandbox: explanation.sandbox?.status,
    pod: 'refused' in pod ? null : (pod.object?.status ?? null),
    claim: 'refused' in claim ? null : (claim.object?.status ?? null),
    not_shown: [
      ...('refused' in pod ? [pod.refused] : []),
      ...('refused' in claim ? [claim.refused] : []),
      ...(eventsRefused === undefined ? [] : [eventsRefused]),
      ...unread.map((plural) => `${plural === usageRecords.plural ? 'get' : 'list'} ${plural}`),
    ],
  };
};

export const why = (text: string, options: PluginOptions): Promise<void> =>
  withCluster(options, async ({ client, namespace }) => {
    const explanation = await explain(client, namespace, text);
    const { output } = options;
    if (printValue(output, valueOf(explanation))) return;
    if (output === 'name') print(nameOf({ metadata: explanation }));
    else for (const line of explanationLines(explanation, Date.now())) print(line);
  });
