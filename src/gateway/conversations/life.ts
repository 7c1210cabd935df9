import { conversationParams } from '../http/fields.ts';
import { z } from 'zod';
import { stringify } from 'yaml';
import type { KubeClient } from '@conversation-operator/kube/client';
import { isForbidden } from '@conversation-operator/kube/errors';
import { type KubeEvent, kubeEvents } from '@conversation-operator/kube/core';
import type { KubeObject } from '@conversation-operator/kube/object';
import type { StartTextReader } from '../lookup/start-texts.ts';
import type { ResourceLookup } from '../lookup/resource-lookup.ts';
import { type Route, endpoints, ownConversation } from '../http/route.ts';
import { storedWithSandbox } from '../lookup/stored.ts';
import { startTextsOf } from '../presenters/conversation-records.ts';
import { timelineOf, timelineSchema, type TimelineEntry } from './timeline.ts';
import type { CachedConversation } from '../../resources/cached-conversation.ts';

const base = '/api/v1/app-conversations/{id}';
const { get } = endpoints('conversations');
const maxTextCharacters = 4_096;

const resourcesSchema = z.object({
  namespace: z.string(),
  yaml: z
    .string()
    .describe(
      'The Conversation and its Sandbox as stored. Texts of more than 4096 characters are shortened, and the address of the pod is left out.',
    ),
});

export type Resources = z.output<typeof resourcesSchema>;

export interface LifeNeeds {
  readonly client: KubeClient;
  readonly lookup: ResourceLookup;
  readonly startTexts: StartTextReader;
}

/** Routes for the timeline of a conversation, and for its Kubernetes objects. */
export function lifeRoutes(needs: LifeNeeds): readonly Route[] {
  const { client, lookup } = needs;
  return [
    get(`${base}/timeline`, 'getTimeline', {
      summary: 'What has happened to a conversation and its sandbox, oldest first',
      params: conversationParams,
      responses: { 200: timelineSchema },
      problems: ['not-found'],
      handle: async (call) => ({
        json: await readTimeline(needs, await ownConversation(lookup, call)),
      }),
    }),
    get(`${base}/resources`, 'getResources', {
      summary: 'The resources of a conversation as YAML',
      params: conversationParams,
      responses: { 200: resourcesSchema },
      problems: ['not-found'],
      handle: async (call) => {
        const known = await ownConversation(lookup, call);
        const { conversation, sandbox } = await storedWithSandbox(client, known);
        const resources = [conversation, ...(sandbox === undefined ? [] : [sandbox])];
        const { namespace } = known.metadata;
        return { json: { namespace, yaml: resources.map(yamlOf).join('---\n') } };
      },
    }),
  ];
}

/** The timeline of a conversation from the caches, the API server, and its Events. */
export async function readTimeline(
  { client, lookup, startTexts }: LifeNeeds,
  conversation: CachedConversation,
): Promise<readonly TimelineEntry[]> {
  const sandbox = lookup.sandboxIn(conversation);
  const [{ steps }, ...events] = await Promise.all([
    startTextsOf(startTexts, conversation),
    eventsAbout(client, conversation),
    ...(sandbox === undefined ? [] : [eventsAbout(client, sandbox)]),
  ]);
  const known = conversation.lacksSteps ? steps : conversation.status?.start?.steps;
  return timelineOf({ conversation, sandbox, steps: known ?? [], events: events.flat() });
}

/** The Events about an object; empty if the gateway's Role does not allow it to read Events. */
async function eventsAbout(
  client: KubeClient,
  { metadata: { namespace = '', uid } }: Pick<KubeObject, 'metadata'>,
): Promise<readonly KubeEvent[]> {
  try {
    const fieldSelector = `involvedObject.uid=${uid}`;
    return (await client.list(kubeEvents, { namespace, fieldSelector })).items;
  } catch (error) {
    if (isForbidden(error)) return [];
    throw error;
  }
}

/** Omits the pod IP, which is not for clients, and truncates long texts. */
function shown(name: string, value: unknown): unknown {
  if (name === 'podIP') return undefined;
  if (typeof value !== 'string' || value.length <= maxTextCharacters) return value;
  const more = value.length - maxTextCharacters;
  return `${value.slice(0, maxTextCharacters).toWellFormed()}… ${more} characters more`;
}

const yamlOf = (object: KubeObject): string =>
  stringify(JSON.parse(JSON.stringify(object, shown)), { lineWidth: 0 });
