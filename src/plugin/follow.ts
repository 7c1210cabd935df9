import { setTimeout as sleep } from 'node:timers/promises';
import type { KubeClient } from '@conversation-operator/kube/client';
import { found, TransportError } from '@conversation-operator/kube/errors';
import { CommandError } from '../commands/terminal.ts';
import { conversations } from '../resources/conversation.ts';
import { sandboxes } from '../resources/sandbox.ts';
import { groupOf, type Group } from '../sentences/groups.ts';
import { sentenceOf } from '../sentences/sentences.ts';
import { aroundOf, factsOf, readScene, wholeTaskOf } from './scene.ts';
import { print, say } from './terminal.ts';

const pollMs = 1_000;
/** Polls after which sentences are formed again, although the two objects are unchanged. */
const maxUnchanged = 15;

/** Aborted by Ctrl-C, which ends a command that follows without an error. */
export function interruption(): AbortSignal {
  const controller = new AbortController();
  process.once('SIGINT', () => controller.abort());
  process.once('SIGTERM', () => controller.abort());
  return controller.signal;
}

/** Waits; returns false once the signal is aborted. */
export const waited = (ms: number, signal: AbortSignal): Promise<boolean> =>
  sleep(ms, true, { signal }).catch((error: unknown) => {
    if (!signal.aborted) throw error;
    return false;
  });

const isOver = (group: Group): boolean => group !== 'working' && group !== 'waiting';

interface Followed {
  readonly namespace: string;
  readonly name: string;
}

/** The versions of a conversation and of its sandbox. */
async function versionOf(
  client: KubeClient,
  { namespace, name }: Followed,
  signal: AbortSignal,
): Promise<string> {
  const stored = await found(client.get(conversations, namespace, name, { signal }));
  if (stored === undefined) throw new CommandError(`The conversation ${name} was deleted`);
  const sandboxName = stored.status?.sandboxName;
  const sandbox =
    sandboxName === undefined
      ? undefined
      : await found(client.get(sandboxes, namespace, sandboxName, { signal }));
  return `${stored.metadata.resourceVersion}/${sandbox?.metadata.resourceVersion ?? ''}`;
}

interface News {
  readonly group: Group;
  readonly sentence: string;
  /** The sentence without its durations, which alone are no news. */
  readonly key: string;
}

async function newsOf(
  client: KubeClient,
  { namespace, name }: Followed,
  signal: AbortSignal,
): Promise<News | undefined> {
  const stored = await found(client.get(conversations, namespace, name, { signal }));
  const scene = await readScene(client, namespace);
  const conversation = scene.lookup.cachedConversation(name);
  if (stored === undefined || conversation === undefined) return undefined;
  const facts = { ...factsOf(scene, conversation), task: wholeTaskOf(stored) };
  const around = aroundOf(scene, conversation.spec.owner);
  const group = groupOf(facts);
  return {
    group,
    sentence: sentenceOf(facts, around),
    key: `${group} ${facts.task.status} ${sentenceOf(facts, { ...around, now: 0 })}`,
  };
}

/**
 * Prints each new sentence about a conversation, until nothing more happens without a person. A
 * cluster that does not answer for a moment does not end it. Returns the last state; undefined
 * after Ctrl-C.
 */
export async function follow(
  client: KubeClient,
  followed: Followed,
  signal: AbortSignal,
): Promise<Group | undefined> {
  let [version, key] = ['', ''];
  let unchanged = 0;
  let isAway = false;
  for (;;) {
    try {
      const present = await versionOf(client, followed, signal);
      unchanged = present === version ? unchanged + 1 : 0;
      if (unchanged % maxUnchanged === 0) {
        const news = await newsOf(client, followed, signal);
        if (news !== undefined && news.key !== key) {
          print(`${new Date().toISOString().slice(11, 19)} ${news.sentence}`);
          ({ key } = news);
        }
        if (news !== undefined && isOver(news.group)) return news.group;
        version = present;
      }
      isAway = false;
    } catch (error) {
      if (signal.aborted) return undefined;
      if (!(error instanceof TransportError)) throw error;
      if (!isAway) say(`No answer from the cluster: ${error.message}. Trying again.`);
      isAway = true;
    }
    if (!(await waited(pollMs, signal))) return undefined;
  }
}
